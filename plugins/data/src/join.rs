//! Joins two tables.

use std::collections::HashMap;

use crate::table::Table;

/// Rows to keep.
#[derive(Clone, Copy, Debug, PartialEq)]
pub(crate) enum Kind {
    Inner,
    Left,
    Full,
}

/// Maximum number of cells in the result: two tables with many equal keys would become a huge one.
const MOST_CELLS: usize = 1_000_000;

/// Joins on columns whose cells are equal as text. A missing cell equals no other.
pub(crate) fn join(
    left: &Table,
    right: &Table,
    on: &[String],
    right_on: &[String],
    kind: Kind,
) -> Result<Table, String> {
    if on.is_empty() || on.len() != right_on.len() {
        return Err("a join wants as many columns of the one table as of the other, at least one".into());
    }
    let left_keys: Vec<_> = on.iter().map(|name| left.column(name)).collect::<Result<_, _>>()?;
    let right_keys: Vec<_> = right_on
        .iter()
        .map(|name| right.column(name))
        .collect::<Result<_, _>>()
        .map_err(|e| format!("right table: {e}"))?;
    let mut columns = left.columns.clone();
    let rest: Vec<usize> = (0..right.columns.len()).filter(|column| !right_keys.contains(column)).collect();
    for column in &rest {
        let mut name = right.columns[*column].clone();
        while columns.contains(&name) {
            name.push_str("_right");
        }
        columns.push(name);
    }
    let key = |table: &Table, row: usize, keys: &[usize]| -> Option<Vec<String>> {
        table.cells(row, keys).map(|cell| cell.map(str::to_owned)).collect()
    };
    let mut partners: HashMap<Vec<String>, Vec<usize>> = HashMap::new();
    for row in 0..right.len() {
        if let Some(key) = key(right, row, &right_keys) {
            partners.entry(key).or_default().push(row);
        }
    }
    let mut met = vec![false; right.len()];
    let most = MOST_CELLS / columns.len();
    let mut out = Table::new(columns);
    let mut add = |left_row: Option<usize>, right_row: Option<usize>| {
        if out.len() == most {
            return Err(format!("the join has more than {most} rows; filter the tables first"));
        }
        out.row();
        for column in 0..left.columns.len() {
            // A row of the right table alone still has its keys.
            let key = || {
                left_keys
                    .iter()
                    .position(|k| *k == column)
                    .and_then(|k| right.cell(right_row?, right_keys[k]))
            };
            out.push(left_row.map_or_else(key, |row| left.cell(row, column)));
        }
        for column in &rest {
            out.push(right_row.and_then(|row| right.cell(row, *column)));
        }
        Ok(())
    };
    for row in 0..left.len() {
        let found = key(left, row, &left_keys).and_then(|key| partners.get(&key));
        for partner in found.into_iter().flatten() {
            met[*partner] = true;
            add(Some(row), Some(*partner))?;
        }
        if found.is_none() && kind != Kind::Inner {
            add(Some(row), None)?;
        }
    }
    for row in (0..right.len()).filter(|row| kind == Kind::Full && !met[*row]) {
        add(None, Some(row))?;
    }
    Ok(out)
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::table::{show, table};

    #[test]
    fn join_kinds_retain_their_rows() {
        let left = table("id,x\n1,a\n2,b\n2,c\n,d\n");
        let right = table("key,x\n2,p\n2,q\n3,r\n,s\n");
        let joined = |kind| join(&left, &right, &["id".into()], &["key".into()], kind).unwrap();
        let inner = ["2,b,p", "2,b,q", "2,c,p", "2,c,q"];
        assert_eq!(joined(Kind::Inner).columns, ["id", "x", "x_right"]);
        assert_eq!(show(&joined(Kind::Inner)), inner);
        assert_eq!(show(&joined(Kind::Left)), [&["1,a,-"], &inner[..], &["-,d,-"]].concat());
        assert_eq!(
            show(&joined(Kind::Full)),
            [&["1,a,-"], &inner[..], &["-,d,-", "3,-,r", "-,-,s"]].concat()
        );
        assert!(
            join(&left, &right, &["id".into()], &["id".into()], Kind::Inner)
                .unwrap_err()
                .starts_with("right table: there is no")
        );
        assert!(join(&left, &right, &[], &[], Kind::Inner).is_err());
    }

    #[test]
    fn join_result_is_bounded() {
        let many = table(&format!("k\n{}", "1\n".repeat(2_000)));
        assert!(
            join(&many, &many, &["k".into()], &["k".into()], Kind::Inner).unwrap_err().contains("more than")
        );
    }
}
