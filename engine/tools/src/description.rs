//! Description of a component: its tools, and the most that it could do. The confined process that read the
//! component writes it, so its reader has to check its lengths.

use serde::{Deserialize, Serialize};
use serde_json::Value;

/// Description of a component.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct Description {
    /// Functions that are tools, ordered by name.
    pub exports: Vec<Export>,
    /// Functions that cannot be tools, because values of their types have no form in JSON.
    #[serde(default)]
    pub left_out: Vec<LeftOut>,
    /// Names of its imports in order, for example `wasi:http/outgoing-handler@0.2.6`.
    pub imports: Vec<String>,
    /// Capabilities that its imports could use, in the words of `hotcell tool grant` without values: `read`,
    /// `write`, `net`, `env`, `config`, `secret`, `sandbox`, `guard`.
    pub at_most: Vec<String>,
    /// Whether some of its functions give handles of resources, so that instances have to be kept.
    #[serde(default)]
    pub handles: bool,
    /// Paths of functions that serve MCP resources and prompts ([`crate::component::serves`]) and are not tools.
    #[serde(default)]
    pub serves: Vec<String>,
    /// Manifest inside the component (custom section `hotcell-plugin`), as TOML.
    pub manifest: Option<String>,
    /// Place of the first text of its documentation with a character that readers do not see, and the character.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub hidden: Option<String>,
}

/// One exported function.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct Export {
    /// Path of the export: `function`, or `package:name/interface@version#function`.
    pub path: String,
    /// Name of the function, in kebab case as in WIT.
    pub function: String,
    /// Name of the interface, for a function in one.
    pub interface: Option<String>,
    /// Documentation of the function, sanitized; may be empty.
    pub description: String,
    /// JSON Schema of its arguments: an object.
    pub input_schema: Value,
    /// JSON Schema of its answer: an object.
    pub output_schema: Value,
}

/// An exported function that cannot be a tool.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct LeftOut {
    /// Path of the export, as [`Export::path`].
    pub function: String,
    /// Reason: the parameter or result, and its type.
    pub message: String,
}
