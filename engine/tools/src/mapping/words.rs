//! Texts for errors: the expected type and the value that was found.

use hotcell_sandbox::layer::likely;

use super::shape::{Kind, Shape};
use super::text::cut;

/// Describes the values that a type accepts.
pub(super) fn expected(shape: &Shape) -> String {
    match &shape.kind {
        Kind::Bool => "true or false".into(),
        Kind::Int(int) => {
            let (min, max) = int.range();
            let digits = if int.wide() { ", as a string of digits," } else { "" };
            format!("an integer{digits} from {min} to {max}")
        }
        Kind::F32 | Kind::F64 => "a number, \"NaN\", \"Infinity\" or \"-Infinity\"".into(),
        Kind::Char => "a string of one character".into(),
        Kind::String => "a string".into(),
        Kind::Bytes | Kind::Blob => "a base64 string".into(),
        Kind::List(_) => "an array".into(),
        Kind::Fixed(_, length) => format!("an array of {length}"),
        Kind::Tuple(items) => format!("an array of {}", items.len()),
        Kind::Map(key, _) if key.kind == Kind::String => "an object".into(),
        Kind::Map(..) => "an array of [key, value]".into(),
        Kind::Record(_) => "an object".into(),
        Kind::Variant(_) => "an object with a tag".into(),
        Kind::Enum(names) => format!("one of {}", listed(names.iter().map(|name| name.name.as_str()))),
        Kind::Flags(names) => format!("an array of {}", listed(names.iter().map(|name| name.name.as_str()))),
        Kind::Option(inner) if inner.is_option() => "null or {\"some\": …}".into(),
        Kind::Option(inner) => format!("{} or null", expected(inner)),
        Kind::Result(..) => "{\"ok\": …} or {\"err\": …}".into(),
        Kind::Handle(handle) if handle.name.is_empty() => "a handle".into(),
        Kind::Handle(handle) => format!("a handle of {}", handle.name),
    }
}

pub(super) fn listed<'a>(names: impl Iterator<Item = &'a str>) -> String {
    cut(&names.collect::<Vec<_>>().join(", "), 150)
}

/// `unknown`, with the nearest name or the known ones.
pub(super) fn unknown<'a>(what: &str, given: &str, names: impl Iterator<Item = &'a str> + Clone) -> String {
    let given = cut(given, 100);
    match likely(&given, names.clone()) {
        Some(name) => format!("unknown {what} '{given}': is '{name}' meant?"),
        None if names.clone().next().is_some() => {
            format!("unknown {what} '{given}': known are {}", listed(names))
        }
        None => format!("unknown {what} '{given}': no {what} is known here"),
    }
}

/// How a case with a value is written, where its name alone, or as a key, was given.
pub(super) fn with_value(case: &str) -> String {
    format!("a case is written {{\"tag\": \"{case}\", \"value\": …}}")
}

/// Describes a piece of JSON, for an error.
pub(super) fn found(raw: &str) -> String {
    match raw.as_bytes().first() {
        Some(b'{') => "an object".into(),
        Some(b'[') => "an array".into(),
        _ => cut(raw, 40),
    }
}
