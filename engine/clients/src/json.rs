//! Entries in JSON, with comments if the client supports them. Pure; everything except the entry is kept byte
//! for byte.

use std::collections::HashSet;

use jsonc_parser::ParseOptions;
use jsonc_parser::cst::{CstInputValue, CstNode, CstObject, CstRootNode};
use serde_json::{Map, Value, json};

use super::{Entry, Form, Found, Kind, Problem, understood};

/// Schema URL at the beginning of a new file of opencode, from its documentation.
const OPENCODE_SCHEMA: &str = "https://opencode.ai/config.json";
/// Key under which version 2 of opencode keeps what version 1 kept one level higher.
const INNER: &str = "servers";

/// The value for a server in the client's format.
fn said(form: Form, entry: &Entry) -> Value {
    let mut fields = Map::new();
    match form {
        Form::Local => {
            let mut command = vec![entry.command.clone()];
            command.extend(entry.args.iter().cloned());
            fields.insert("type".to_owned(), json!("local"));
            fields.insert("command".to_owned(), json!(command));
            if !entry.env.is_empty() {
                fields.insert("environment".to_owned(), json!(entry.env));
            }
        }
        Form::Plain | Form::Typed | Form::Tools | Form::Table | Form::Mapping => {
            match form {
                Form::Typed => drop(fields.insert("type".to_owned(), json!("stdio"))),
                Form::Tools => drop(fields.insert("type".to_owned(), json!("local"))),
                _ => {}
            }
            fields.insert("command".to_owned(), json!(entry.command));
            fields.insert("args".to_owned(), json!(entry.args));
            if !entry.env.is_empty() {
                fields.insert("env".to_owned(), json!(entry.env));
            }
            if form == Form::Tools {
                fields.insert("tools".to_owned(), json!(["*"]));
            }
        }
    }
    Value::Object(fields)
}

/// Order in which fields are written.
const ORDER: [&str; 6] = ["type", "command", "args", "env", "environment", "tools"];

fn input(value: &Value) -> CstInputValue {
    match value {
        Value::Null => CstInputValue::Null,
        Value::Bool(b) => CstInputValue::Bool(*b),
        Value::Number(n) => CstInputValue::Number(n.to_string()),
        Value::String(s) => CstInputValue::String(s.clone()),
        Value::Array(all) => CstInputValue::Array(all.iter().map(input).collect()),
        Value::Object(fields) => {
            let place = |name: &str| ORDER.iter().position(|o| *o == name).unwrap_or(ORDER.len());
            let mut all: Vec<_> = fields.iter().collect();
            all.sort_by_key(|(name, _)| place(name));
            CstInputValue::Object(all.into_iter().map(|(n, v)| (n.clone(), input(v))).collect())
        }
    }
}

/// JSON as clients read it: with comments if the client supports them, but without the extensions of JSON5.
fn options(kind: &Kind) -> ParseOptions {
    ParseOptions {
        allow_comments: kind.comments,
        allow_trailing_commas: kind.comments,
        allow_loose_object_property_names: false,
        allow_missing_commas: false,
        allow_single_quoted_strings: false,
        allow_hexadecimal_numbers: false,
        allow_unary_plus_numbers: false,
        allow_bare_decimal_point_numbers: false,
        allow_non_finite_numbers: false,
        allow_extended_string_escapes: false,
    }
}

fn parsed(kind: &Kind, text: &str) -> Result<CstRootNode, Problem> {
    if !kind.comments
        && let Err(e) = serde_json::from_str::<serde::de::IgnoredAny>(text)
    {
        // Parse again with comments allowed, to find out whether a comment is the reason.
        let commented = CstRootNode::parse(
            text,
            &ParseOptions { allow_comments: true, allow_trailing_commas: true, ..options(kind) },
        )
        .is_ok();
        let why = if commented {
            format!("{} reads plain JSON, without comments and commas behind the last", kind.title)
        } else {
            plain(&e)
        };
        return Err(Problem::Broken { line: e.line(), column: e.column(), why });
    }
    let root = CstRootNode::parse(text, &options(kind)).map_err(|e| Problem::Broken {
        line: e.line_display(),
        column: e.column_display(),
        why: e.kind().to_string(),
    })?;
    match root.value().and_then(|value| twice(&value)) {
        Some(key) => Err(Problem::Twice(key)),
        None => Ok(root),
    }
}

/// The first key that stands twice in an object, at any depth: an entry of which a client could take the other reading.
fn twice(node: &CstNode) -> Option<String> {
    if let Some(array) = node.as_array() {
        return array.elements().iter().find_map(twice);
    }
    let mut names = HashSet::new();
    node.as_object()?.properties().into_iter().find_map(|property| {
        let name = property.decoded_name()?;
        match names.replace(name.clone()) {
            Some(name) => Some(name),
            None => twice(&property.value()?),
        }
    })
}

/// The error message without the position, which is shown separately.
fn plain(error: &serde_json::Error) -> String {
    let why = error.to_string();
    why.split(" at line ").next().unwrap_or_default().to_owned()
}

/// The value of a key. Parsers differ on which of two duplicates counts, so duplicates are an error.
fn only(object: &CstObject, key: &str) -> Result<Option<CstNode>, Problem> {
    let mut all = object.properties().into_iter().filter(|p| p.decoded_name().as_deref() == Some(key));
    let first = all.next();
    if all.next().is_some() {
        return Err(Problem::Twice(key.to_owned()));
    }
    Ok(first.and_then(|p| p.value()))
}

/// The object under a key of another object.
fn below(object: &CstObject, key: &str) -> Result<Option<CstObject>, Problem> {
    match only(object, key)? {
        None => Ok(None),
        Some(node) => match node.as_object() {
            Some(object) => Ok(Some(object)),
            None => Err(Problem::Form(key.to_owned(), "an object")),
        },
    }
}

/// The top-level object.
fn whole(root: &CstRootNode) -> Result<CstObject, Problem> {
    root.object_value().ok_or_else(|| Problem::Form("the file".to_owned(), "an object"))
}

/// Keys that lead to the servers in this text.
fn path(kind: &Kind, top: &CstObject) -> Result<Vec<&'static str>, Problem> {
    let mut path = vec![kind.key];
    if kind.form == Form::Local
        && let Some(servers) = below(top, kind.key)?
        && let Some(inner) = only(&servers, INNER)?.and_then(|n| n.as_object())
        // In version 1, a server itself may have this name.
        && only(&inner, "type")?.is_none_or(|t| t.as_string_lit().is_none())
    {
        path.push(INNER);
    }
    Ok(path)
}

/// The servers in a text, if there are any, with the keys that lead to them.
fn servers(kind: &Kind, root: &CstRootNode) -> Result<(Vec<&'static str>, Option<CstObject>), Problem> {
    let mut at = whole(root)?;
    let path = path(kind, &at)?;
    for key in &path {
        match below(&at, key)? {
            Some(next) => at = next,
            None => return Ok((path, None)),
        }
    }
    Ok((path, Some(at)))
}

/// Converts a node to a value; `None` if it has none, such as an invalid number.
fn value(node: &CstNode) -> Option<Value> {
    if let Some(object) = node.as_object() {
        let fields = object.properties().into_iter();
        return fields
            .map(|p| Some((p.decoded_name()?, value(&p.value()?)?)))
            .collect::<Option<Map<_, _>>>()
            .map(Value::Object);
    }
    if let Some(array) = node.as_array() {
        return array.elements().iter().map(value).collect::<Option<Vec<_>>>().map(Value::Array);
    }
    if let Some(text) = node.as_string_lit() {
        return text.decoded_value().ok().map(Value::String);
    }
    // Keywords and numbers are valid JSON by themselves.
    serde_json::from_str(node.to_string().trim()).ok()
}

/// Implements [`super::Client::with`].
///
/// # Errors
/// [`Problem`] when the text cannot be parsed, or the entry cannot be added safely.
pub fn with(
    kind: &Kind,
    old: Option<&str>,
    name: &str,
    entry: &Entry,
    replace: bool,
) -> Result<String, Problem> {
    let said = said(kind.form, entry);
    let Some(old) = old.filter(|old| !bare(old).trim().is_empty()) else {
        return Ok(alone(kind, name, &said));
    };
    // A byte order mark is not JSON, but some files have one; it is kept.
    let (mark, text) = old.split_at(old.len() - bare(old).len());
    let root = parsed(kind, text)?;
    let (path, found) = servers(kind, &root)?;
    let servers = match found {
        Some(servers) => servers,
        None => {
            let mut at = whole(&root)?;
            for key in &path {
                at = match below(&at, key)? {
                    Some(next) => next,
                    None => at.append(key, CstInputValue::Object(Vec::new())).object_value_or_set(),
                };
            }
            at
        }
    };
    match only(&servers, name)? {
        Some(there) => {
            let same = match (understood(&value(&there).unwrap_or_default()), understood(&said)) {
                (Found::Program(there), Found::Program(ours)) => there == ours,
                _ => false,
            };
            if same {
                return Ok(old.to_owned());
            }
            if !replace {
                return Err(Problem::Exists(name.to_owned()));
            }
            servers.get(name).ok_or(Problem::Unsafe)?.set_value(input(&said));
        }
        None => {
            servers.append(name, input(&said));
        }
    }
    let new = root.to_string();
    proved(kind, text, &new, &path, name, Some(&said))?;
    Ok(format!("{mark}{new}"))
}

/// Implements [`super::Client::without`].
///
/// # Errors
/// [`Problem`] when the text cannot be parsed, there is no such entry, or it cannot be removed safely.
pub fn without(kind: &Kind, old: &str, name: &str) -> Result<String, Problem> {
    let (mark, text) = old.split_at(old.len() - bare(old).len());
    let root = parsed(kind, text)?;
    let (path, servers) = servers(kind, &root)?;
    let Some(servers) = servers else { return Err(Problem::Missing(name.to_owned(), Vec::new())) };
    if only(&servers, name)?.is_none() {
        return Err(Problem::Missing(name.to_owned(), names(&servers)));
    }
    servers.get(name).ok_or(Problem::Unsafe)?.remove();
    let new = root.to_string();
    proved(kind, text, &new, &path, name, None)?;
    Ok(format!("{mark}{new}"))
}

/// Implements [`super::Client::read`].
///
/// # Errors
/// [`Problem`] when the text cannot be parsed, or there is no such entry.
pub fn read(kind: &Kind, text: &str, name: &str) -> Result<Found, Problem> {
    if bare(text).trim().is_empty() {
        return Err(Problem::Missing(name.to_owned(), Vec::new()));
    }
    let root = parsed(kind, bare(text))?;
    let (_, servers) = servers(kind, &root)?;
    let Some(servers) = servers else { return Err(Problem::Missing(name.to_owned(), Vec::new())) };
    match only(&servers, name)? {
        Some(node) => Ok(understood(&value(&node).unwrap_or_default())),
        None => Err(Problem::Missing(name.to_owned(), names(&servers))),
    }
}

/// Parses a whole text; `None` if it is invalid.
#[must_use]
pub fn whole_value(kind: &Kind, text: &str) -> Option<Value> {
    value(&parsed(kind, bare(text)).ok()?.value()?)
}

fn names(servers: &CstObject) -> Vec<String> {
    servers.properties().iter().filter_map(jsonc_parser::cst::CstObjectProp::decoded_name).collect()
}

/// Text without its byte order mark.
fn bare(text: &str) -> &str {
    text.strip_prefix('\u{feff}').unwrap_or(text)
}

/// A file with only the entry.
fn alone(kind: &Kind, name: &str, said: &Value) -> String {
    let mut top = Vec::new();
    if kind.form == Form::Local {
        top.push(("$schema".to_owned(), CstInputValue::String(OPENCODE_SCHEMA.to_owned())));
    }
    let servers = CstInputValue::Object(vec![(name.to_owned(), input(said))]);
    top.push((kind.key.to_owned(), servers));
    let Ok(root) = CstRootNode::parse("{}", &ParseOptions::default()) else { return String::new() };
    root.set_value(CstInputValue::Object(top));
    format!("{root}\n")
}

/// Compares both texts as values, to prove that the new one has the entry and nothing else differs.
fn proved(
    kind: &Kind,
    old: &str,
    new: &str,
    path: &[&str],
    name: &str,
    said: Option<&Value>,
) -> Result<(), Problem> {
    let of = |text: &str| parsed(kind, text).ok().and_then(|root| value(&root.value()?));
    let (Some(mut old), Some(mut new)) = (of(old), of(new)) else { return Err(Problem::Unsafe) };
    let pointer: String = path.iter().map(|key| format!("/{key}")).collect();
    let taken = |of: &mut Value| of.pointer_mut(&pointer)?.as_object_mut()?.remove(name);
    if taken(&mut new).as_ref() != said {
        return Err(Problem::Unsafe);
    }
    taken(&mut old);
    // Objects created for the entry are empty now: remove them.
    for depth in (1..=path.len()).rev() {
        let pointer: String = path[..depth].iter().map(|key| format!("/{key}")).collect();
        let above: String = path[..depth - 1].iter().map(|key| format!("/{key}")).collect();
        let made = old.pointer(&pointer).is_none() && new.pointer(&pointer) == Some(&json!({}));
        if made && let Some(Value::Object(fields)) = new.pointer_mut(&above) {
            fields.remove(path[depth - 1]);
        }
    }
    if old == new { Ok(()) } else { Err(Problem::Unsafe) }
}
