//! Values of Go programs on their way from where they come in to what executes, opens or sends them.
//!
//! Functions are walked as often as summaries of parameters and results need to settle, a few times at most; a
//! variable holds whatever any assignment in its function gave it.

mod calls;
mod functions;
mod learn;
mod parameters;
mod plain;
mod requests;
mod result;
mod sinks;
mod value;

use crate::report::StepKind;
use crate::value::{Const, Origin, Value};
use functions::Functions;
use rustc_hash::{FxHashMap, FxHashSet};
use tree_sitter::Node;

/// Number of walks that learn.
pub(super) const WALKS: usize = 3;
/// Maximum nesting of an expression.
const MAX_DEPTH: usize = 64;
/// Maximum number of elements of a list.
const MAX_ITEMS: usize = 64;
/// Maximum length of a name, in bytes.
const MAX_NAME: usize = 200;
/// Origins whose way is kept.
const TRACKED: Origin = Origin(
    Origin::NET.0
        | Origin::REQUEST.0
        | Origin::SECRET.0
        | Origin::ENV.0
        | Origin::DECODED.0
        | Origin::UNPACKED.0
        | Origin::INPUT.0
        | Origin::ENTRY.0,
);

/// Knowledge of the walks about the functions of a file.
#[derive(Default)]
pub(super) struct Flow {
    /// Function that is being walked.
    function: String,
    /// Values of variables, by function; those of the file have an empty one.
    vars: FxHashMap<String, FxHashMap<String, Value>>,
    /// Names of parameters; the last of a name with `...` takes all further arguments.
    params: FxHashMap<String, Vec<String>>,
    /// Names of the values that methods belong to.
    receivers: FxHashMap<String, String>,
    results: FxHashMap<String, Value>,
    /// Functions that a function returns.
    returned: FxHashMap<String, Functions>,
    /// Functions that variables hold in their parts, by function and name.
    held: FxHashMap<(String, String), Functions>,
    /// Functions that fields hold, by the name of the field.
    fields: FxHashMap<String, Functions>,
    /// Types of libraries that fields have, by the name of the field.
    field_types: FxHashMap<String, Functions>,
    /// Places where functions of the file are called.
    sites: FxHashMap<String, Vec<(usize, usize)>>,
    /// Names of the fields of types of the file, in their order.
    layouts: FxHashMap<String, Vec<String>>,
    /// Types of the file.
    types: FxHashSet<String>,
    /// Parameters of functions without a name, by the value that stands for the function.
    literals: FxHashMap<String, Vec<String>>,
    /// Places of functions without a name, by the name of a parameter.
    inner: FxHashMap<String, Vec<(usize, usize)>>,
    /// Contents of files by their known paths.
    saved: FxHashMap<String, Value>,
}

/// Names that a package may have, by the path that it is imported by: its last part, without a version, and without what says
/// that it is a package of Go (`gopher-lua`, `go-sh`).
pub(super) fn package_names(path: &str) -> Vec<&str> {
    let is_version = |part: &str| {
        part.strip_prefix('v').is_some_and(|n| !n.is_empty() && n.bytes().all(|b| b.is_ascii_digit()))
    };
    let mut parts = path.rsplit('/');
    let mut last = parts.next().unwrap_or(path);
    if is_version(last) {
        last = parts.next().unwrap_or(last);
    }
    // `gopkg.in/yaml.v3`.
    let plain = last.rsplit_once('.').filter(|(_, end)| is_version(end)).map_or(last, |(start, _)| start);
    let mut names = vec![plain];
    for short in [
        plain.strip_prefix("go-"),
        plain.strip_prefix("go."),
        plain.strip_prefix("gopher-"),
        plain.strip_suffix("-go"),
        plain.strip_suffix(".go"),
    ] {
        names.extend(short.filter(|short| !short.is_empty()));
    }
    names
}

/// Union of a value with an older one; a constant stays known only if both are this constant.
fn merged(value: Value, older: &Value) -> Value {
    let is_one = is_equal(&value, older, 0);
    let value = value.or(older);
    if is_one { value } else { Value { known: None, ..value } }
}

/// True for two texts, numbers or lists of such that are equal; elements that are not known are.
fn is_equal(one: &Value, other: &Value, depth: usize) -> bool {
    match (&one.known, &other.known) {
        (Some(Const::List(one)), Some(Const::List(other))) => {
            depth < 3
                && one.len() == other.len()
                && one.iter().zip(other.iter()).take(MAX_ITEMS).all(|(one, other)| {
                    one.known.is_none() && other.known.is_none() || is_equal(one, other, depth + 1)
                })
        }
        (Some(Const::Int(one)), Some(Const::Int(other))) => one == other,
        _ => one.as_text().is_some() && one.as_text() == other.as_text(),
    }
}

/// Appends a step to the way of a value that has one.
fn stepped(value: Value, kind: StepKind, name: &str, at: (usize, usize)) -> Value {
    let is_again = value.trail.as_ref().is_none_or(|step| step.kind == kind && step.at == at);
    if is_again || !value.origin.has(TRACKED) { value } else { value.stepped(kind, name, at) }
}

/// Name of the value that a function without a name is.
fn literal(node: Node<'_>) -> String {
    format!("func@{}", node.start_byte())
}

fn children(node: Node<'_>) -> Vec<Node<'_>> {
    node.named_children(&mut node.walk()).filter(|node| !node.is_extra()).take(256).collect()
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn packages_are_named_by_their_paths() {
        for (path, names) in [
            ("os/exec", &["exec"][..]),
            ("github.com/d5/tengo/v2", &["tengo"]),
            ("gopkg.in/yaml.v3", &["yaml"]),
            ("github.com/codeskyblue/go-sh", &["go-sh", "sh"]),
            ("github.com/yuin/gopher-lua", &["gopher-lua", "lua"]),
            ("github.com/nats-io/nats.go", &["nats.go", "nats"]),
            ("rogchap.com/v8go", &["v8go"]),
            ("v2", &["v2"]),
        ] {
            assert_eq!(package_names(path), names, "{path}");
        }
    }
}
