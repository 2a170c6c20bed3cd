//! Values of Go programs on their way from where they come in to what executes, opens or sends them.
//!
//! Functions are walked as often as summaries of parameters and results need to settle, a few times at most; a
//! variable holds whatever any assignment in its function gave it.

mod calls;
mod learn;
mod plain;
mod result;
mod sinks;
mod value;

use crate::report::StepKind;
use crate::value::{Origin, Value};
use rustc_hash::FxHashMap;
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
        | Origin::INPUT.0,
);

/// Knowledge of the walks about the functions of a file.
#[derive(Default)]
pub(super) struct Flow {
    /// Function that is being walked.
    function: String,
    /// Values of variables, by function; those of the file have an empty one.
    vars: FxHashMap<String, FxHashMap<String, Value>>,
    /// Names of parameters.
    params: FxHashMap<String, Vec<String>>,
    results: FxHashMap<String, Value>,
    /// Functions without a name, by the value that stands for them: where they are, and their parameters.
    literals: FxHashMap<String, (String, Vec<String>)>,
    /// Contents of files by their known paths.
    saved: FxHashMap<String, Value>,
}

/// Union of a value with an older one; a text stays known only if both are this text.
fn merged(value: Value, older: &Value) -> Value {
    let is_one = value.as_text().is_some() && value.as_text() == older.as_text();
    let value = value.or(older);
    if is_one { value } else { Value { known: None, ..value } }
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
