//! Entries in TOML. Pure; everything except the entry is kept byte for byte.

use serde_json::{Map, Value};
use toml_edit::{Array, DocumentMut, InlineTable, Item, Table, TableLike, value};

use super::proved::proved;
use super::{Entry, Found, Problem, understood};

/// Edits a text whose lines may end in CR LF and that may begin with a byte order mark, of which the parser knows neither: the lines before and
/// behind the change keep their bytes.
fn edited(old: &str, edit: impl FnOnce(&str) -> Result<String, Problem>) -> Result<String, Problem> {
    let (mark, text) = match old.strip_prefix('\u{feff}') {
        Some(text) => ("\u{feff}", text),
        None => ("", old),
    };
    if mark.is_empty() && !text.contains("\r\n") {
        return edit(text);
    }
    let new = edit(&text.replace("\r\n", "\n"))?;
    let before: Vec<&str> = text.split_inclusive('\n').collect();
    let after: Vec<&str> = new.split_inclusive('\n').collect();
    let is_same = |(old, new): &(&&str, &&str)| old.replace("\r\n", "\n") == **new;
    let first = before.iter().zip(&after).take_while(is_same).count();
    let rest = before.len().min(after.len()) - first;
    let last = before.iter().rev().zip(after.iter().rev()).take(rest).take_while(is_same).count();
    let breaks = text.matches('\n').count();
    let is_crlf = 2 * text.matches("\r\n").count() > breaks;
    let mut out = mark.to_owned();
    out.extend(before[..first].iter().copied());
    for line in &after[first..after.len() - last] {
        match line.strip_suffix('\n') {
            Some(line) if is_crlf => out.extend([line, "\r\n"]),
            _ => out.push_str(line),
        }
    }
    out.extend(before[before.len() - last..].iter().copied());
    Ok(out)
}

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
    edited(old.unwrap_or_default(), |text| with_lines(key, text, name, entry, replace))
}

fn with_lines(key: &str, text: &str, name: &str, entry: &Entry, replace: bool) -> Result<String, Problem> {
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
    edited(old, |text| without_lines(key, text, name))
}

fn without_lines(key: &str, old: &str, name: &str) -> Result<String, Problem> {
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

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn lines_beside_the_entry_keep_their_ends() {
        let entry = Entry {
            command: "/usr/bin/hotcell".to_owned(),
            args: vec!["mcp".to_owned()],
            ..Entry::default()
        };
        for text in [
            "# c\r\nmodel = \"x\"\r\n[mcp_servers]\r\na = { command = \"y\" }\r\n",
            "\u{feff}model = \"x\"\r\n\r\n[mcp_servers.a]\r\ncommand = \"y\"\r\n",
            "\u{feff}model = \"x\"\n",
            "a = 1\r\nb = 2\nc = 3\r\n\r\n[x]\r\nd = 4\n",
        ] {
            let new = with("mcp_servers", Some(text), "hotcell", &entry, false).unwrap();
            let (mut old, mut rest) = (text.split_inclusive('\n').peekable(), new.split_inclusive('\n'));
            // Each old line is there, in its order.
            while let Some(line) = old.peek() {
                let next = rest.next().unwrap_or_else(|| panic!("{line:?} is gone from {new:?}"));
                if next == *line {
                    old.next();
                }
            }
            assert!(new.contains("hotcell") && new.matches("\r\n").count() >= text.matches("\r\n").count());
            assert_eq!(read("mcp_servers", &new, "hotcell").unwrap(), Found::Program(entry.clone()));
            assert_eq!(without("mcp_servers", &new, "hotcell").unwrap(), text, "{new:?}");
        }
    }
}
