//! Filters and sorts rows.

use std::cmp::Ordering;

use crate::table::Table;
use crate::values::{compare, number};

/// Comparison of a cell with a value.
#[derive(Clone, Copy, Debug, PartialEq)]
pub(crate) enum Operator {
    Equal,
    NotEqual,
    Less,
    AtMost,
    Greater,
    AtLeast,
    Contains,
    BeginsWith,
    EndsWith,
    OneOf,
    Missing,
    Present,
}

/// A condition on a row.
#[derive(Clone, Debug)]
pub(crate) struct Condition {
    pub(crate) column: String,
    pub(crate) operator: Operator,
    pub(crate) value: Option<String>,
    pub(crate) values: Vec<String>,
}

/// The rows that meet all conditions, in the table's order.
pub(crate) fn filter(table: &Table, conditions: &[Condition]) -> Result<Vec<usize>, String> {
    let mut columns = Vec::new();
    for condition in conditions {
        let needs_value =
            !matches!(condition.operator, Operator::OneOf | Operator::Missing | Operator::Present);
        if needs_value && condition.value.is_none() {
            return Err(format!("the condition on '{}' wants a value", condition.column));
        }
        columns.push(table.column(&condition.column)?);
    }
    let meets = |row: usize| {
        conditions.iter().zip(&columns).all(|(condition, column)| holds(table.cell(row, *column), condition))
    };
    Ok((0..table.len()).filter(|row| meets(*row)).collect())
}

fn holds(cell: Option<&str>, condition: &Condition) -> bool {
    let Some(cell) = cell else { return condition.operator == Operator::Missing };
    let value = condition.value.as_deref().unwrap_or_default();
    // Only two numbers, or two texts, have an order.
    let order = (number(cell).is_some() == number(value).is_some()).then(|| compare(cell, value));
    match condition.operator {
        Operator::Equal => order == Some(Ordering::Equal),
        Operator::NotEqual => order != Some(Ordering::Equal),
        Operator::Less => order == Some(Ordering::Less),
        Operator::AtMost => order.is_some_and(Ordering::is_le),
        Operator::Greater => order == Some(Ordering::Greater),
        Operator::AtLeast => order.is_some_and(Ordering::is_ge),
        Operator::Contains => cell.to_lowercase().contains(&value.to_lowercase()),
        Operator::BeginsWith => cell.starts_with(value),
        Operator::EndsWith => cell.ends_with(value),
        Operator::OneOf => condition.values.iter().any(|value| compare(cell, value).is_eq()),
        Operator::Missing => false,
        Operator::Present => true,
    }
}

/// Sorts rows by columns, the first column first; missing cells are last in either direction.
pub(crate) fn sort(table: &Table, rows: &mut [usize], order: &[(String, bool)]) -> Result<(), String> {
    let order: Vec<_> =
        order.iter().map(|(name, down)| Ok((table.column(name)?, *down))).collect::<Result<_, String>>()?;
    rows.sort_by(|a, b| {
        let by =
            order.iter().map(|(column, down)| match (table.cell(*a, *column), table.cell(*b, *column)) {
                (Some(a), Some(b)) if *down => compare(b, a),
                (Some(a), Some(b)) => compare(a, b),
                (a, b) => a.is_none().cmp(&b.is_none()),
            });
        by.fold(Ordering::Equal, Ordering::then)
    });
    Ok(())
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::table::table;

    #[test]
    fn operators_compare_cells() {
        let table = table("n,s\n1,Ab\n10,b\n2,\n,abc\nx,B\n");
        for (column, operator, value, want) in [
            ("n", Operator::Equal, "1.0", &[0][..]),
            ("n", Operator::NotEqual, "1", &[1, 2, 4]),
            ("n", Operator::Less, "10", &[0, 2]),
            ("n", Operator::AtMost, "10", &[0, 1, 2]),
            ("n", Operator::Greater, "1", &[1, 2]),
            ("n", Operator::AtLeast, "x", &[4]),
            ("s", Operator::Contains, "AB", &[0, 3]),
            ("s", Operator::BeginsWith, "a", &[3]),
            ("s", Operator::EndsWith, "b", &[0, 1]),
            ("s", Operator::OneOf, "", &[0, 1]),
            ("s", Operator::Missing, "", &[2]),
            ("n", Operator::Present, "", &[0, 1, 2, 4]),
        ] {
            let values = vec!["b".into(), "Ab".into()];
            let condition = Condition { column: column.into(), operator, value: Some(value.into()), values };
            assert_eq!(filter(&table, &[condition]).unwrap(), want, "{operator:?}");
        }
        let unknown =
            Condition { column: "q".into(), operator: Operator::Present, value: None, values: vec![] };
        assert_eq!(filter(&table, &[unknown]).unwrap_err(), "there is no column 'q'; there are: n, s");
        let bare = Condition { column: "n".into(), operator: Operator::Less, value: None, values: vec![] };
        assert!(filter(&table, &[bare]).unwrap_err().contains("wants a value"));
    }

    #[test]
    fn missing_cells_are_last() {
        let table = table("a,b\n2,x\n,y\n10,z\n2,a\n");
        let sorted = |order: &[(&str, bool)]| {
            let order: Vec<_> = order.iter().map(|(name, down)| ((*name).to_owned(), *down)).collect();
            let mut rows = vec![0, 1, 2, 3];
            sort(&table, &mut rows, &order).map(|()| rows)
        };
        assert_eq!(sorted(&[("a", false)]).unwrap(), [0, 3, 2, 1]);
        assert_eq!(sorted(&[("a", true), ("b", false)]).unwrap(), [2, 3, 0, 1]);
        assert!(sorted(&[("c", true)]).is_err());
    }
}
