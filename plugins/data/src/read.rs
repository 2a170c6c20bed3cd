//! Reads tables from CSV and JSON.

use std::fmt;
use std::io::{BufRead, Read};

use serde::de::{Deserialize, DeserializeSeed, SeqAccess, Visitor};
use serde_json::Value;

use crate::table::Table;

/// Maximum size of a table, in bytes.
pub(crate) const LONGEST: u64 = 8 << 20;

/// Format of a table.
#[derive(Clone, Copy, Debug, PartialEq)]
pub(crate) enum Format {
    Csv,
    Tsv,
    Json,
    JsonLines,
}

/// Format of a file, by its extension, or else by the beginning of the text.
pub(crate) fn format(path: Option<&str>, text: &str) -> Format {
    let ending = path.and_then(|path| path.rsplit_once('.')).map(|(_, ending)| ending.to_ascii_lowercase());
    match ending.as_deref() {
        Some("csv") => Format::Csv,
        Some("tsv" | "tab") => Format::Tsv,
        Some("jsonl" | "ndjson") => Format::JsonLines,
        Some("json") if !text.trim_start().starts_with('{') => Format::Json,
        _ => match text.trim_start().as_bytes().first() {
            Some(b'[') => Format::Json,
            Some(b'{') => Format::JsonLines,
            _ if text.lines().next().is_some_and(|line| line.contains('\t') && !line.contains(',')) => {
                Format::Tsv
            }
            _ => Format::Csv,
        },
    }
}

/// The separator that is most frequent in the first line.
pub(crate) fn separator(text: &str) -> u8 {
    let first = text.lines().next().unwrap_or_default();
    let count = |c: char| first.matches(c).count();
    if count(';') > count(',') { b';' } else { b',' }
}

/// Reads CSV.
pub(crate) fn csv(from: impl Read, separator: u8, header: bool) -> Result<Table, String> {
    let mut reader =
        csv::ReaderBuilder::new().delimiter(separator).has_headers(false).flexible(true).from_reader(from);
    let mut table = Table::default();
    let mut record = csv::StringRecord::new();
    let mut named = !header;
    while reader.read_record(&mut record).map_err(|e| e.to_string())? {
        if !named {
            named = true;
            // Byte order mark that spreadsheets put before the first name.
            let names = record.iter().map(|name| name.trim_start_matches('\u{feff}').trim().to_owned());
            table.columns = unique(names.collect());
            continue;
        }
        for next in table.columns.len()..record.len() {
            table.columns.push(format!("c{}", next + 1));
        }
        table.row();
        for cell in &record {
            table.push(Some(cell));
        }
    }
    Ok(table)
}

/// Numbers column names that are empty or repeated.
fn unique(names: Vec<String>) -> Vec<String> {
    let mut out: Vec<String> = Vec::with_capacity(names.len());
    for (index, name) in names.into_iter().enumerate() {
        let name = if name.is_empty() { format!("c{}", index + 1) } else { name };
        out.push(if out.contains(&name) { format!("{name}_{}", index + 1) } else { name });
    }
    out
}

/// Reads a JSON array of objects, or of arrays of which the first holds the names.
pub(crate) fn json(text: &str) -> Result<Table, String> {
    let mut table = Table::default();
    let mut reader = serde_json::Deserializer::from_str(text);
    Rows(&mut table).deserialize(&mut reader).map_err(|e| e.to_string())?;
    reader.end().map_err(|e| e.to_string())?;
    Ok(table)
}

/// Reads one JSON object per line.
pub(crate) fn json_lines(from: impl BufRead) -> Result<Table, String> {
    let mut table = Table::default();
    for (number, line) in (1..).zip(from.lines()) {
        let line = line.map_err(|e| e.to_string())?;
        if line.trim().is_empty() {
            continue;
        }
        let value = serde_json::from_str(&line).map_err(|e| format!("line {number}: {e}"))?;
        row(&mut table, value).map_err(|e| format!("line {number}: {e}"))?;
    }
    Ok(table)
}

/// Reads the rows one by one: all of them as JSON values would be ten times as large.
struct Rows<'a>(&'a mut Table);

impl<'de> DeserializeSeed<'de> for Rows<'_> {
    type Value = ();
    fn deserialize<D: serde::Deserializer<'de>>(self, from: D) -> Result<(), D::Error> {
        from.deserialize_seq(self)
    }
}

impl<'de> Visitor<'de> for Rows<'_> {
    type Value = ();
    fn expecting(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str("an array of objects or of arrays")
    }
    fn visit_seq<A: SeqAccess<'de>>(self, mut rows: A) -> Result<(), A::Error> {
        struct One(Value);
        impl<'de> Deserialize<'de> for One {
            fn deserialize<D: serde::Deserializer<'de>>(from: D) -> Result<Self, D::Error> {
                Value::deserialize(from).map(Self)
            }
        }
        while let Some(One(value)) = rows.next_element()? {
            row(self.0, value).map_err(serde::de::Error::custom)?;
        }
        Ok(())
    }
}

/// Adds a row; a first array holds the names.
fn row(table: &mut Table, value: Value) -> Result<(), String> {
    match value {
        Value::Object(fields) => {
            for name in
                fields.keys().filter(|name| !table.columns.contains(name)).cloned().collect::<Vec<_>>()
            {
                table.columns.push(name);
            }
            table.row();
            for index in 0..table.columns.len() {
                let cell = fields.get(&table.columns[index]).and_then(cell);
                table.push(cell.as_deref());
            }
        }
        Value::Array(cells) if table.columns.is_empty() => {
            table.columns = unique(cells.iter().map(|name| cell(name).unwrap_or_default()).collect());
        }
        Value::Array(cells) => {
            for next in table.columns.len()..cells.len() {
                table.columns.push(format!("c{}", next + 1));
            }
            table.row();
            for value in &cells {
                table.push(cell(value).as_deref());
            }
        }
        _ => return Err("a row is an object or an array".into()),
    }
    Ok(())
}

fn cell(value: &Value) -> Option<String> {
    match value {
        Value::Null => None,
        Value::String(text) => Some(text.clone()),
        other => Some(other.to_string()),
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::table::{show, table};

    #[test]
    fn csv_may_be_ragged_and_nameless() {
        let read = table("\u{feff}a,,a\n1,\"x,\ny\",\n2\n3,4,5,6\n");
        assert_eq!(read.columns, ["a", "c2", "a_3", "c4"]);
        assert_eq!(show(&read), ["1,x,\ny,-,-", "2,-,-,-", "3,4,5,6"]);
        let bare = csv(&b"1;2\n"[..], b';', false).unwrap();
        assert_eq!((bare.columns.join(" "), show(&bare)), ("c1 c2".into(), vec!["1,2".into()]));
        assert!(csv(&b"a\n\xff"[..], b',', true).is_err());
        assert_eq!(csv(&b""[..], b',', true).unwrap().len(), 0);
    }

    #[test]
    fn json_rows_may_have_different_fields() {
        let read = json(r#"[{"a":1,"b":null},{"c":[1,"x"],"a":"y"},{}]"#).unwrap();
        assert_eq!(read.columns, ["a", "b", "c"]);
        assert_eq!(show(&read), ["1,-,-", "y,-,[1,\"x\"]", "-,-,-"]);
        let arrays = json(r#"[["x","y"],[1,true],[2.50]]"#).unwrap();
        assert_eq!(
            (arrays.columns.join(" "), show(&arrays)),
            ("x y".into(), vec!["1,true".into(), "2.5,-".into()])
        );
        let lines = json_lines(&b"{\"a\":1}\n\n{\"b\":2}"[..]).unwrap();
        assert_eq!(show(&lines), ["1,-", "-,2"]);
        assert!(json("{}").unwrap_err().contains("array"));
        assert!(json("[1]").unwrap_err().contains("a row is"));
        assert!(json_lines(&b"{}\n["[..]).unwrap_err().starts_with("line 2"));
    }

    #[test]
    fn formats_are_known_by_ending_or_begin() {
        for (path, text, want) in [
            (Some("a.CSV"), "[", Format::Csv),
            (Some("a.json"), "[", Format::Json),
            (Some("a.json"), "{", Format::JsonLines),
            (Some("a.txt"), "a\tb", Format::Tsv),
            (None, " [", Format::Json),
            (None, "a,b", Format::Csv),
            (None, "", Format::Csv),
        ] {
            assert_eq!(format(path, text), want, "{path:?} {text}");
        }
        assert_eq!((separator("a;b;c,d\n,,,,"), separator("a,b")), (b';', b','));
    }
}
