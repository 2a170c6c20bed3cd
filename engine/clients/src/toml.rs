//! Entries in TOML. Pure; everything except the entry is kept byte for byte.

use serde_json::{Map, Value};
use toml_edit::{Array, DocumentMut, InlineTable, Item, Table, TableLike, value};

use super::proved::proved;
use super::{Entry, Found, Problem, understood};

fn parsed(text: &str) -> Result<DocumentMut, Problem> {
    text.parse::<DocumentMut>().map_err(|e| {
        let at = e.span().map_or(0, |span| span.start.min(text.len()));
        let before = &text[..text.floor_char_boundary(at)];
        let line = before.matches('\n').count() + 1;
        let column = before.rsplit('\n').next().unwrap_or_default().chars().count() + 1;
        Problem::Broken { line, column, why: e.message().lines().next().unwrap_or_default().to_owned() }
    })
}

/// The table of servers, in either notation.
fn servers<'a>(document: &'a DocumentMut, key: &str) -> Result<Option<&'a dyn TableLike>, Problem> {
    match document.get(key) {
        None => Ok(None),
        Some(item) => match item.as_table_like() {
            Some(table) => Ok(Some(table)),
            None => Err(Problem::Form(key.to_owned(), "a table")),
        },
    }
}

fn words(all: &[String]) -> Array {
    all.iter().map(String::as_str).collect()
}

/// Makes a table from the entry.
fn table(entry: &Entry) -> Table {
    let mut table = Table::new();
    table["command"] = value(&entry.command);
    table["args"] = value(words(&entry.args));
    if !entry.env.is_empty() {
        let env: InlineTable = entry.env.iter().map(|(n, v)| (n.as_str(), v.as_str())).collect();
        table["env"] = value(env);
    }
    table
}

/// Converts TOML to JSON values; dates and similar types become strings.
fn plain(item: &Item) -> Value {
    match item {
        Item::None => Value::Null,
        Item::Value(one) => plain_value(one),
        Item::Table(table) => fields(table),
        Item::ArrayOfTables(all) => all.iter().map(|t| fields(t)).collect(),
    }
}

fn plain_value(one: &toml_edit::Value) -> Value {
    match one {
        toml_edit::Value::String(text) => Value::String(text.value().clone()),
        toml_edit::Value::Integer(n) => (*n.value()).into(),
        toml_edit::Value::Float(n) => (*n.value()).into(),
        toml_edit::Value::Boolean(b) => (*b.value()).into(),
        toml_edit::Value::Datetime(at) => at.value().to_string().into(),
        toml_edit::Value::Array(all) => all.iter().map(plain_value).collect(),
        toml_edit::Value::InlineTable(table) => fields(table),
    }
}

fn fields(table: &dyn TableLike) -> Value {
    Value::Object(table.iter().map(|(name, item)| (name.to_owned(), plain(item))).collect::<Map<_, _>>())
}

/// Implements [`super::Client::with`].
///
/// # Errors
/// [`Problem`] when the text cannot be parsed, or the entry cannot be added safely.
pub fn with(
    key: &str,
    old: Option<&str>,
    name: &str,
    entry: &Entry,
    replace: bool,
) -> Result<String, Problem> {
    let text = old.unwrap_or_default();
    let mut document = parsed(text)?;
    let before = fields(document.as_table());
    let there = servers(&document, key)?.and_then(|table| table.get(name)).map(plain);
    if let Some(there) = &there {
        if understood(there) == Found::Program(entry.clone()) {
            return Ok(text.to_owned());
        }
        if !replace {
            return Err(Problem::Exists(name.to_owned()));
        }
    }
    let ours = table(entry);
    let item = document.entry(key).or_insert_with(|| {
        let mut above = Table::new();
        // Only the servers get headings.
        above.set_implicit(true);
        Item::Table(above)
    });
    match item {
        Item::Table(table) => {
            let mut ours = ours;
            match table.get(name) {
                // Keep the comments above the heading, and the position in the file.
                Some(Item::Table(there)) => {
                    *ours.decor_mut() = there.decor().clone();
                    ours.set_position(there.position());
                }
                _ if !text.trim().is_empty() => ours.decor_mut().set_prefix("\n"),
                _ => {}
            }
            table.insert(name, Item::Table(ours));
        }
        Item::Value(toml_edit::Value::InlineTable(table)) => {
            table.insert(name, ours.into_inline_table().into());
        }
        _ => return Err(Problem::Form(key.to_owned(), "a table")),
    }
    let new = document.to_string();
    proved(before, fields(parsed(&new).map_err(|_| Problem::Unsafe)?.as_table()), key, name, Some(entry))?;
    Ok(new)
}

/// Implements [`super::Client::without`].
///
/// # Errors
/// [`Problem`] when the text cannot be parsed, there is no such entry, or it cannot be removed safely.
pub fn without(key: &str, old: &str, name: &str) -> Result<String, Problem> {
    let mut document = parsed(old)?;
    let before = fields(document.as_table());
    let missing = |names: Vec<String>| Problem::Missing(name.to_owned(), names);
    let names = match servers(&document, key)? {
        None => return Err(missing(Vec::new())),
        Some(table) => table.iter().map(|(name, _)| name.to_owned()).collect(),
    };
    let table = document.get_mut(key).and_then(Item::as_table_like_mut).ok_or(Problem::Unsafe)?;
    if table.remove(name).is_none() {
        return Err(missing(names));
    }
    let new = document.to_string();
    proved(before, fields(parsed(&new).map_err(|_| Problem::Unsafe)?.as_table()), key, name, None)?;
    Ok(new)
}

/// Implements [`super::Client::read`].
///
/// # Errors
/// [`Problem`] when the text cannot be parsed, or there is no such entry.
pub fn read(key: &str, text: &str, name: &str) -> Result<Found, Problem> {
    let document = parsed(text)?;
    let table = servers(&document, key)?.ok_or_else(|| Problem::Missing(name.to_owned(), Vec::new()))?;
    match table.get(name) {
        Some(item) => Ok(understood(&plain(item))),
        None => {
            let names = table.iter().map(|(name, _)| name.to_owned()).collect();
            Err(Problem::Missing(name.to_owned(), names))
        }
    }
}
