//! What a component says of itself: its tools, and what it could do at most. Written by the confined process that read the
//! component, so whoever takes it from there checks its lengths.

use serde::{Deserialize, Serialize};
use serde_json::Value;

/// A component, described.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct Description {
    /// Its functions, in the order of their names.
    pub exports: Vec<Export>,
    /// Functions that are no tools, because values of their types have no form in JSON.
    #[serde(default)]
    pub left_out: Vec<LeftOut>,
    /// Names of its imports, `wasi:http/outgoing-handler@0.2.6` for example, in order.
    pub imports: Vec<String>,
    /// What its imports would let it do, in the words of `hotcell tool grant` without values: `read`, `write`, `net`, `env`,
    /// `config`, `secret`, `sandbox`, `guard`.
    pub at_most: Vec<String>,
    /// The manifest that it carries (custom section `hotcell-plugin`), as TOML, if it does.
    pub manifest: Option<String>,
}

/// One exported function.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct Export {
    /// Where it is: `function`, or `package:name/interface@version#function`.
    pub path: String,
    /// The function's own name, in kebab case as in WIT.
    pub function: String,
    /// The interface's name, for a function that is in one.
    pub interface: Option<String>,
    /// Its documentation, made harmless; may be empty.
    pub description: String,
    /// JSON Schema of its arguments: an object.
    pub input_schema: Value,
    /// JSON Schema of its answer: an object.
    pub output_schema: Value,
}

/// An exported function that is no tool.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct LeftOut {
    /// As [`Export::path`].
    pub function: String,
    /// Why: which parameter or result has which type.
    pub message: String,
}
