//! Calculations on columns and groups.

use std::collections::{BTreeMap, BTreeSet};

use crate::table::Table;
use crate::values::{Numbers, compare, number, text, whole_sum};

/// A calculation on a group.
#[derive(Clone, Copy, Debug, PartialEq)]
pub(crate) enum Calculation {
    Count,
    Distinct,
    Sum,
    Mean,
    Median,
    Deviation,
    Min,
    Max,
}

impl Calculation {
    fn name(self) -> &'static str {
        match self {
            Self::Count => "count",
            Self::Distinct => "distinct",
            Self::Sum => "sum",
            Self::Mean => "mean",
            Self::Median => "median",
            Self::Deviation => "deviation",
            Self::Min => "min",
            Self::Max => "max",
        }
    }
}

/// A column of an aggregation.
#[derive(Clone, Debug)]
pub(crate) struct Aggregate {
    pub(crate) calculation: Calculation,
    pub(crate) column: Option<String>,
    pub(crate) name: Option<String>,
}

/// Returns one row for each group of these rows, ordered by the groups' values.
pub(crate) fn aggregate(
    table: &Table,
    rows: &[usize],
    by: &[String],
    aggregates: &[Aggregate],
) -> Result<Table, String> {
    let keys: Vec<_> = by.iter().map(|name| table.column(name)).collect::<Result<_, _>>()?;
    let mut columns = by.to_vec();
    let mut of = Vec::new();
    for aggregate in aggregates {
        of.push(match &aggregate.column {
            Some(column) => Some(table.column(column)?),
            None if aggregate.calculation == Calculation::Count => None,
            None => return Err(format!("{} wants a column", aggregate.calculation.name())),
        });
        let usual = match &aggregate.column {
            Some(column) => format!("{}({column})", aggregate.calculation.name()),
            None => aggregate.calculation.name().to_owned(),
        };
        let name = aggregate.name.clone().unwrap_or(usual);
        if columns.contains(&name) {
            return Err(format!("two columns of the answer are called '{name}'; give one a name"));
        }
        columns.push(name);
    }
    let mut groups: BTreeMap<Vec<Option<&str>>, Vec<usize>> = BTreeMap::new();
    if by.is_empty() {
        groups.insert(Vec::new(), Vec::new());
    }
    for row in rows {
        groups.entry(table.cells(*row, &keys).collect()).or_default().push(*row);
    }
    let mut out = Table::new(columns);
    for (key, rows) in groups {
        out.row();
        for cell in key {
            out.push(cell);
        }
        for (aggregate, column) in aggregates.iter().zip(&of) {
            out.push(one(table, &rows, aggregate.calculation, *column).as_deref());
        }
    }
    Ok(out)
}

fn one(table: &Table, rows: &[usize], calculation: Calculation, column: Option<usize>) -> Option<String> {
    let Some(column) = column else { return Some(rows.len().to_string()) };
    let cells = || rows.iter().filter_map(|row| table.cell(*row, column));
    let numbers = || Numbers(cells().filter_map(number).collect());
    match calculation {
        Calculation::Count => Some(cells().count().to_string()),
        Calculation::Distinct => Some(cells().collect::<BTreeSet<_>>().len().to_string()),
        // A column of text has no sum; one without any value has the sum of nothing.
        Calculation::Sum if numbers().0.is_empty() && cells().next().is_some() => None,
        Calculation::Sum => whole_sum(cells()).or_else(|| Some(text(numbers().sum() + 0.0))),
        Calculation::Mean => numbers().mean().map(text),
        Calculation::Median => numbers().median().map(text),
        Calculation::Deviation => numbers().deviation().map(text),
        Calculation::Min => cells().min_by(|a, b| compare(a, b)).map(str::to_owned),
        Calculation::Max => cells().max_by(|a, b| compare(a, b)).map(str::to_owned),
    }
}

/// Kind of the values in a column.
#[derive(Clone, Copy, Debug, PartialEq)]
pub(crate) enum Kind {
    Empty,
    Integer,
    Number,
    Boolean,
    Text,
}

/// Description of a column.
#[derive(Debug)]
pub(crate) struct Column {
    pub(crate) kind: Kind,
    pub(crate) missing: u32,
    pub(crate) distinct: u32,
    pub(crate) min: Option<String>,
    pub(crate) max: Option<String>,
    pub(crate) numbers: Numbers,
    pub(crate) frequent: Vec<(String, u32)>,
}

/// Describes a column.
pub(crate) fn describe(table: &Table, column: usize) -> Column {
    let mut values: BTreeMap<&str, u32> = BTreeMap::new();
    let mut missing = 0;
    for row in 0..table.len() {
        match table.cell(row, column) {
            Some(cell) => *values.entry(cell).or_default() += 1,
            None => missing += 1,
        }
    }
    let integer = |cell: &&str| cell.trim().parse::<i64>().is_ok();
    let boolean = |cell: &&str| matches!(cell.to_ascii_lowercase().as_str(), "true" | "false");
    let kind = match () {
        () if values.is_empty() => Kind::Empty,
        () if values.keys().all(integer) => Kind::Integer,
        () if values.keys().all(|cell| number(cell).is_some()) => Kind::Number,
        () if values.keys().all(boolean) => Kind::Boolean,
        () => Kind::Text,
    };
    let numbers = match kind {
        Kind::Integer | Kind::Number => {
            (0..table.len()).filter_map(|row| table.cell(row, column).and_then(number)).collect()
        }
        _ => Vec::new(),
    };
    let cut = |value: &str| value.chars().take(200).collect::<String>();
    let end = |value: Option<&&str>| value.map(|value| cut(value));
    let mut frequent: Vec<_> =
        values.iter().filter(|(_, rows)| **rows > 1).map(|(value, rows)| (cut(value), *rows)).collect();
    frequent.sort_by_key(|(_, rows)| std::cmp::Reverse(*rows));
    frequent.truncate(5);
    Column {
        kind,
        missing,
        distinct: values.len() as u32,
        min: end(values.keys().min_by(|a, b| compare(a, b))),
        max: end(values.keys().max_by(|a, b| compare(a, b))),
        numbers: Numbers(numbers),
        frequent,
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::table::{show, table};

    fn of(calculation: Calculation, column: &str) -> Aggregate {
        Aggregate { calculation, column: Some(column.into()), name: None }
    }

    #[test]
    fn groups_are_calculated() {
        let table = table("k,v\na,1\nb,x\na,4\n,5\na,\n");
        let rows: Vec<usize> = (0..table.len()).collect();
        let all = [
            Aggregate { calculation: Calculation::Count, column: None, name: Some("n".into()) },
            of(Calculation::Count, "v"),
            of(Calculation::Sum, "v"),
            of(Calculation::Mean, "v"),
            of(Calculation::Max, "v"),
            of(Calculation::Distinct, "v"),
        ];
        let out = aggregate(&table, &rows, &["k".into()], &all).unwrap();
        assert_eq!(out.columns.join(" "), "k n count(v) sum(v) mean(v) max(v) distinct(v)");
        assert_eq!(show(&out), ["-,1,1,5,5,5,1", "a,3,2,5,2.5,4,2", "b,1,1,-,-,x,1"]);
        let whole = aggregate(&table, &[], &[], &[of(Calculation::Median, "v"), of(Calculation::Count, "k")])
            .unwrap();
        assert_eq!(show(&whole), ["-,0"]);
        let bare = Aggregate { calculation: Calculation::Sum, column: None, name: None };
        assert!(aggregate(&table, &rows, &[], &[bare]).unwrap_err().contains("sum wants a column"));
        assert!(
            aggregate(&table, &rows, &[], &[of(Calculation::Sum, "v"), of(Calculation::Sum, "v")]).is_err()
        );
    }

    #[test]
    fn columns_are_described() {
        let table = table("i,f,b,t,e\n3,1.5,true,x,\n-1,2,FALSE,x,\n3,,true,10,\n");
        let told = |column| {
            let c = describe(&table, column);
            let frequent: Vec<_> = c.frequent.iter().map(|(value, rows)| format!("{value}*{rows}")).collect();
            let ends = (c.min.unwrap_or_default(), c.max.unwrap_or_default());
            (c.kind, c.missing, c.distinct, ends.0, ends.1, frequent.join(" "))
        };
        assert_eq!(told(0), (Kind::Integer, 0, 2, "-1".into(), "3".into(), "3*2".into()));
        assert_eq!(told(1), (Kind::Number, 1, 2, "1.5".into(), "2".into(), String::new()));
        assert_eq!(told(2), (Kind::Boolean, 0, 2, "FALSE".into(), "true".into(), "true*2".into()));
        assert_eq!(told(3), (Kind::Text, 0, 2, "10".into(), "x".into(), "x*2".into()));
        assert_eq!(told(4), (Kind::Empty, 3, 0, String::new(), String::new(), String::new()));
        assert_eq!(describe(&table, 0).numbers.median(), Some(3.0));
    }
}
