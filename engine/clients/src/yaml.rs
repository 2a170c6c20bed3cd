//! Entries in YAML: a mapping of servers in block style; lines are added to it and removed from it. Pure;
//! everything except the entry is kept byte for byte, and each new text is parsed again and compared.

use serde_json::{Map, Value, json};

use super::proved::proved;
use super::{Entry, Found, Problem, understood};

fn parsed(text: &str) -> Result<Value, Problem> {
    if text.trim().is_empty() {
        return Ok(Value::Object(Map::new()));
    }
    let value: Value = serde_yaml_ng::from_str(text).map_err(|e| {
        let (line, column) = e.location().map_or((1, 1), |at| (at.line(), at.column()));
        let why = e.to_string();
        Problem::Broken { line, column, why: why.split(" at line ").next().unwrap_or_default().to_owned() }
    })?;
    match value {
        Value::Null => Ok(Value::Object(Map::new())),
        Value::Object(_) => Ok(value),
        _ => Err(Problem::Form("the file".to_owned(), "a mapping")),
    }
}

/// The servers in a text.
fn servers(whole: &Value, key: &str) -> Result<Map<String, Value>, Problem> {
    match whole.get(key) {
        None | Some(Value::Null) => Ok(Map::new()),
        Some(Value::Object(all)) => Ok(all.clone()),
        Some(_) => Err(Problem::Form(key.to_owned(), "a mapping")),
    }
}

/// Lines of an entry; strings are written as in JSON, which YAML reads the same way.
fn lines(name: &str, entry: &Entry, indent: &str, end: &str) -> String {
    let quoted = |text: &str| json!(text).to_string();
    let mut fields = vec![
        "enabled: true".to_owned(),
        "type: stdio".to_owned(),
        format!("name: {}", quoted(name)),
        format!("cmd: {}", quoted(&entry.command)),
        format!("args: [{}]", entry.args.iter().map(|a| quoted(a)).collect::<Vec<_>>().join(", ")),
    ];
    let envs: Vec<_> = entry.env.iter().map(|(n, v)| format!("{}: {}", quoted(n), quoted(v))).collect();
    fields.push(format!("envs: {{{}}}", envs.join(", ")));
    fields.push("timeout: 300".to_owned());
    let mut text = format!("{indent}{name}:{end}");
    for field in fields {
        text.push_str(&format!("{indent}  {field}{end}"));
    }
    text
}

/// Position of a block's lines: of the mapping under `key`, or of `name` in it. Only block style at the left
/// edge.
struct Block {
    /// Offset of the byte after the line of the key.
    inside: usize,
    /// Indentation of its contents; empty if it has no contents.
    indent: String,
}

fn block(text: &str, key: &str) -> Option<Block> {
    let mut at = 0;
    let mut inside = None;
    for line in text.split_inclusive('\n') {
        at += line.len();
        let plain = line.trim_end();
        match inside {
            None => {
                let rest = plain.strip_prefix(key).and_then(|rest| rest.strip_prefix(':'));
                if let Some(rest) = rest {
                    // Text other than a comment after the key means that this is not block style.
                    let rest = rest.trim();
                    if !(rest.is_empty() || rest.starts_with('#')) {
                        return None;
                    }
                    inside = Some(at);
                }
            }
            Some(inside) => {
                if plain.is_empty() || plain.trim_start().starts_with('#') {
                    continue;
                }
                let indent = &plain[..plain.len() - plain.trim_start().len()];
                return Some(Block { inside, indent: indent.to_owned() });
            }
        }
    }
    inside.map(|inside| Block { inside, indent: String::new() })
}

/// The line of an empty mapping in flow style, `key: {}`, as a program writes one without entries.
fn empty(text: &str, key: &str) -> Option<std::ops::Range<usize>> {
    let mut at = 0;
    text.split_inclusive('\n').find_map(|line| {
        let range = at..at + line.len();
        at = range.end;
        let rest = line.strip_prefix(key)?.strip_prefix(':')?.trim();
        (rest == "{}").then_some(range)
    })
}

/// Lines of an entry: from its name up to the next line that is not indented more.
fn of_entry(text: &str, block: &Block, name: &str) -> Option<std::ops::Range<usize>> {
    let (mut at, mut from, mut end) = (block.inside, None, 0);
    for line in text[block.inside..].split_inclusive('\n') {
        let (start, plain) = (at, line.trim_end());
        at += line.len();
        let depth = plain.len() - plain.trim_start().len();
        match from {
            None => {
                let own = plain.strip_prefix(block.indent.as_str()).unwrap_or_default();
                let quoted = json!(name).to_string();
                let named = [name, quoted.as_str(), &format!("'{name}'")]
                    .iter()
                    .any(|n| own.strip_prefix(n).is_some_and(|rest| rest.trim_start().starts_with(':')));
                if depth == block.indent.len() && named {
                    (from, end) = (Some(start), at);
                }
            }
            Some(from) => {
                if plain.is_empty() || plain.trim_start().starts_with('#') {
                    continue;
                }
                if depth <= block.indent.len() {
                    return Some(from..end);
                }
                end = at;
            }
        }
    }
    from.map(|from| from..end)
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
    let before = parsed(text)?;
    let all = servers(&before, key)?;
    if let Some(there) = all.get(name) {
        if understood(there) == Found::Program(entry.clone()) {
            return Ok(text.to_owned());
        }
        if !replace {
            return Err(Problem::Exists(name.to_owned()));
        }
    }
    let end = if text.contains("\r\n") { "\r\n" } else { "\n" };
    let mut new = text.to_owned();
    match block(text, key) {
        Some(block) if !block.indent.is_empty() && all.contains_key(name) => {
            let range = of_entry(text, &block, name).ok_or(Problem::Unsafe)?;
            new.replace_range(range, &lines(name, entry, &block.indent, end));
        }
        Some(block) if !all.contains_key(name) => {
            let indent = if block.indent.is_empty() { "  " } else { block.indent.as_str() };
            let mut added = lines(name, entry, indent, end);
            if !text[..block.inside].ends_with('\n') {
                added = format!("{end}{added}");
            }
            new.insert_str(block.inside, &added);
        }
        None if before.get(key).is_none() => {
            if !new.is_empty() && !new.ends_with('\n') {
                new.push_str(end);
            }
            new.push_str(&format!("{key}:{end}{}", lines(name, entry, "  ", end)));
        }
        None if all.is_empty() => {
            let range = empty(text, key).ok_or(Problem::Unsafe)?;
            new.replace_range(range, &format!("{key}:{end}{}", lines(name, entry, "  ", end)));
        }
        _ => return Err(Problem::Unsafe),
    }
    proved(before, parsed(&new).map_err(|_| Problem::Unsafe)?, key, name, Some(entry))?;
    Ok(new)
}

/// Implements [`super::Client::without`].
///
/// # Errors
/// [`Problem`] when the text cannot be parsed, there is no such entry, or it cannot be removed safely.
pub fn without(key: &str, old: &str, name: &str) -> Result<String, Problem> {
    let before = parsed(old)?;
    let all = servers(&before, key)?;
    if !all.contains_key(name) {
        return Err(Problem::Missing(name.to_owned(), all.keys().cloned().collect()));
    }
    let block = block(old, key).ok_or(Problem::Unsafe)?;
    let range = of_entry(old, &block, name).ok_or(Problem::Unsafe)?;
    let mut new = old.to_owned();
    new.replace_range(range, "");
    proved(before, parsed(&new).map_err(|_| Problem::Unsafe)?, key, name, None)?;
    Ok(new)
}

/// Implements [`super::Client::read`].
///
/// # Errors
/// [`Problem`] when the text cannot be parsed, or there is no such entry.
pub fn read(key: &str, text: &str, name: &str) -> Result<Found, Problem> {
    let all = servers(&parsed(text)?, key)?;
    match all.get(name) {
        Some(said) => Ok(understood(said)),
        None => Err(Problem::Missing(name.to_owned(), all.keys().cloned().collect())),
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn empty_flow_mapping_becomes_a_block() {
        let entry = Entry { command: "/h".to_owned(), args: vec!["mcp".to_owned()], ..Entry::default() };
        for (old, begin, end) in [
            ("a: 1\nextensions: {}\nb: 2\n", "a: 1\nextensions:\n  h:\n", "\nb: 2\n"),
            ("extensions: {a: 1}", "", ""),
            ("extensions: {}", "extensions:\n  h:\n", "timeout: 300\n"),
        ] {
            match with("extensions", Some(old), "h", &entry, false) {
                Ok(new) => {
                    assert!(!begin.is_empty() && new.starts_with(begin) && new.ends_with(end), "{new}");
                }
                Err(problem) => assert!(begin.is_empty(), "{old}: {problem:?}"),
            }
        }
    }
}
