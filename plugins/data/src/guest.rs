//! Functions of `wit/data.wit`.

use std::fs::File;
use std::io::{BufReader, Read, Seek};

use crate::table::Table;
use crate::{group, join, read, select};

wit_bindgen::generate!({ path: "wit", world: "plugin", generate_all });

use exports::hotcell::data::data::{
    Calculation, Column, Condition, Description, Format, Frequent, Guest, JoinKind, Kind, Measure, Operator,
    Order, Rows, Source,
};

struct Plugin;
export!(Plugin);

fn load(source: Source) -> Result<Table, String> {
    match (source.path.as_deref(), &source.content) {
        (Some(given), None) => {
            let path = &folders::path(given)?;
            let failed = |e: std::io::Error| folders::failed(path, &e);
            let mut file = File::open(path).map_err(failed)?;
            let size = file.metadata().map_err(failed)?.len();
            if size > read::LONGEST {
                return Err(format!("{path}: {size} bytes are more than {}", read::LONGEST));
            }
            let mut begin = Vec::new();
            (&mut file).take(4096).read_to_end(&mut begin).map_err(failed)?;
            file.rewind().map_err(failed)?;
            let begin = String::from_utf8_lossy(&begin).into_owned();
            parse(&source, &begin, BufReader::with_capacity(1 << 16, file))
                .map_err(|e| format!("{path}: {e}"))
        }
        (None, Some(content)) => parse(&source, content, content.as_bytes()),
        _ => Err("a table has either a path or a content".into()),
    }
}

fn parse(source: &Source, begin: &str, mut from: impl std::io::BufRead) -> Result<Table, String> {
    let format = source.format.map_or_else(
        || read::format(source.path.as_deref(), begin),
        |format| match format {
            Format::Csv => read::Format::Csv,
            Format::Tsv => read::Format::Tsv,
            Format::Json => read::Format::Json,
            Format::JsonLines => read::Format::JsonLines,
        },
    );
    let separator = match (source.separator, format) {
        (Some(c), _) => {
            u8::try_from(c).ok().filter(u8::is_ascii).ok_or("a separator is a character of ASCII")?
        }
        (None, read::Format::Tsv) => b'\t',
        (None, _) => read::separator(begin),
    };
    match format {
        read::Format::Csv | read::Format::Tsv => read::csv(from, separator, source.header.unwrap_or(true)),
        read::Format::JsonLines => read::json_lines(from),
        read::Format::Json => {
            let mut text = String::new();
            from.read_to_string(&mut text).map_err(|e| e.to_string())?;
            read::json(&text)
        }
    }
}

/// The answer with these rows and columns.
fn answer(
    table: &Table,
    rows: &[usize],
    columns: Option<&[String]>,
    offset: u32,
    limit: usize,
) -> Result<Rows, String> {
    let chosen: Vec<usize> = match columns {
        Some(names) => names.iter().map(|name| table.column(name)).collect::<Result<_, _>>()?,
        None => (0..table.columns.len()).collect(),
    };
    let after = rows.get(offset as usize..).unwrap_or_default();
    let told = &after[..after.len().min(limit)];
    Ok(Rows {
        columns: chosen.iter().map(|column| table.columns[*column].clone()).collect(),
        rows: told
            .iter()
            .map(|row| table.cells(*row, &chosen).map(|cell| cell.map(str::to_owned)).collect())
            .collect(),
        total: rows.len() as u32,
        more: after.len() > limit,
    })
}

fn limit(given: Option<u32>) -> usize {
    given.unwrap_or(100).min(5000) as usize
}

fn conditions(given: Option<Vec<Condition>>) -> Vec<select::Condition> {
    let one = |c: Condition| select::Condition {
        column: c.column,
        operator: match c.operator {
            Operator::Equal => select::Operator::Equal,
            Operator::NotEqual => select::Operator::NotEqual,
            Operator::Less => select::Operator::Less,
            Operator::AtMost => select::Operator::AtMost,
            Operator::Greater => select::Operator::Greater,
            Operator::AtLeast => select::Operator::AtLeast,
            Operator::Contains => select::Operator::Contains,
            Operator::BeginsWith => select::Operator::BeginsWith,
            Operator::EndsWith => select::Operator::EndsWith,
            Operator::OneOf => select::Operator::OneOf,
            Operator::Missing => select::Operator::Missing,
            Operator::Present => select::Operator::Present,
        },
        value: c.value,
        values: c.values.unwrap_or_default(),
    };
    given.unwrap_or_default().into_iter().map(one).collect()
}

fn order(given: Option<Vec<Order>>) -> Vec<(String, bool)> {
    given.unwrap_or_default().into_iter().map(|o| (o.column, o.descending.unwrap_or(false))).collect()
}

impl Guest for Plugin {
    fn describe(table: Source, first: Option<u32>) -> Result<Description, String> {
        let table = load(table)?;
        let columns = table.columns.iter().enumerate().map(|(index, name)| {
            let column = group::describe(&table, index);
            Column {
                name: name.clone(),
                kind: match column.kind {
                    group::Kind::Empty => Kind::Empty,
                    group::Kind::Integer => Kind::Integer,
                    group::Kind::Number => Kind::Number,
                    group::Kind::Boolean => Kind::Boolean,
                    group::Kind::Text => Kind::Text,
                },
                missing: column.missing,
                distinct: column.distinct,
                min: column.min,
                max: column.max,
                mean: column.numbers.mean(),
                deviation: column.numbers.deviation(),
                median: column.numbers.median(),
                frequent: column.frequent.into_iter().map(|(value, rows)| Frequent { value, rows }).collect(),
            }
        });
        let rows: Vec<usize> = (0..table.len()).collect();
        let first = answer(&table, &rows, None, 0, first.unwrap_or(5).min(100) as usize)?;
        Ok(Description { total: table.len() as u32, columns: columns.collect(), first })
    }

    fn filter(
        table: Source,
        given: Option<Vec<Condition>>,
        columns: Option<Vec<String>>,
        sorted: Option<Vec<Order>>,
        offset: Option<u32>,
        most: Option<u32>,
    ) -> Result<Rows, String> {
        let table = load(table)?;
        let mut rows = select::filter(&table, &conditions(given))?;
        select::sort(&table, &mut rows, &order(sorted))?;
        answer(&table, &rows, columns.as_deref(), offset.unwrap_or(0), limit(most))
    }

    fn aggregate(
        table: Source,
        by: Vec<String>,
        aggregates: Vec<Measure>,
        given: Option<Vec<Condition>>,
        sorted: Option<Vec<Order>>,
        most: Option<u32>,
    ) -> Result<Rows, String> {
        let table = load(table)?;
        let rows = select::filter(&table, &conditions(given))?;
        let aggregates: Vec<_> = aggregates
            .into_iter()
            .map(|a| group::Aggregate {
                calculation: match a.calculation {
                    Calculation::Count => group::Calculation::Count,
                    Calculation::Distinct => group::Calculation::Distinct,
                    Calculation::Sum => group::Calculation::Sum,
                    Calculation::Mean => group::Calculation::Mean,
                    Calculation::Median => group::Calculation::Median,
                    Calculation::Deviation => group::Calculation::Deviation,
                    Calculation::Min => group::Calculation::Min,
                    Calculation::Max => group::Calculation::Max,
                },
                column: a.column,
                name: a.name,
            })
            .collect();
        let groups = group::aggregate(&table, &rows, &by, &aggregates)?;
        let mut rows: Vec<usize> = (0..groups.len()).collect();
        select::sort(&groups, &mut rows, &order(sorted))?;
        answer(&groups, &rows, None, 0, limit(most))
    }

    fn join(
        left: Source,
        right: Source,
        on: Vec<String>,
        right_on: Option<Vec<String>>,
        kind: Option<JoinKind>,
        columns: Option<Vec<String>>,
        most: Option<u32>,
    ) -> Result<Rows, String> {
        let kind = match kind.unwrap_or(JoinKind::Inner) {
            JoinKind::Inner => join::Kind::Inner,
            JoinKind::Left => join::Kind::Left,
            JoinKind::Full => join::Kind::Full,
        };
        let joined = join::join(&load(left)?, &load(right)?, &on, right_on.as_ref().unwrap_or(&on), kind)?;
        let rows: Vec<usize> = (0..joined.len()).collect();
        answer(&joined, &rows, columns.as_deref(), 0, limit(most))
    }
}
