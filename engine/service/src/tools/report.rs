//! Plugins and their tools as they are shown: `hotcell.tools/1` and `hotcell.inspect/1`.

use std::collections::BTreeMap;

use hotcell_tools::mapping::names::tool_names;
use hotcell_tools::update::Difference;
use schemars::JsonSchema;
use serde::Serialize;
use serde_json::Value;

use super::rows::{Granted, Version};

/// The name of the list's form in its `schema` field.
pub const SCHEMA: &str = "hotcell.tools/1";
/// The same of one component's page.
pub const INSPECT_SCHEMA: &str = "hotcell.inspect/1";

/// `hotcell.tools/1`: tools of all plugins, in the order of their names.
#[derive(Clone, Debug, PartialEq, Serialize, JsonSchema)]
pub struct ToolList {
    /// Always `hotcell.tools/1`.
    pub schema: String,
    /// The tools.
    pub tools: Vec<Tool>,
}

/// One tool.
#[derive(Clone, Debug, PartialEq, Serialize, JsonSchema)]
pub struct Tool {
    /// What it is called by: `PLUGIN_FUNCTION`.
    pub name: String,
    /// Its plugin.
    pub plugin: String,
    /// sha256 of the component, in hexadecimal.
    pub digest: String,
    /// What the component's author says of it; may be empty.
    pub description: String,
    /// JSON Schema of its arguments.
    pub input_schema: Value,
    /// JSON Schema of its answer.
    pub output_schema: Value,
    /// What is in force, in the words of `hotcell tool grant`.
    pub granted: Vec<String>,
    /// What it asks for; `…` stands for a value that a person chooses.
    pub requested: Vec<String>,
    /// What was granted and is not in force, each with the reason.
    pub not_in_force: Vec<NotInForce>,
    /// `ready`, or `update_waits` where a newer component waits for a person: the old one is used.
    pub state: State,
}

/// Something granted that is not in force.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, JsonSchema)]
pub struct NotInForce {
    /// What.
    pub capability: String,
    /// Why not.
    pub why: String,
}

/// How a plugin stands.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize, JsonSchema)]
#[serde(rename_all = "snake_case")]
pub enum State {
    /// It can be called.
    Ready,
    /// The same, and a newer component waits for `hotcell tool accept`.
    UpdateWaits,
}

/// `hotcell.inspect/1`: what a component is and can do at most, from what is in it. Nothing of it was run.
#[derive(Clone, Debug, Serialize, JsonSchema)]
pub struct Inspection {
    /// Always `hotcell.inspect/1`.
    pub schema: String,
    /// The plugin's name, or the one that it would have.
    pub plugin: String,
    /// Where it came from.
    pub source: String,
    /// sha256 of the component, in hexadecimal.
    pub digest: String,
    /// Its length.
    pub bytes: u64,
    /// Its functions.
    pub exports: Vec<Exported>,
    /// Exported functions that are no tools.
    pub left_out: Vec<LeftOut>,
    /// Names of its imports.
    pub imports: Vec<String>,
    /// What its imports would let it do, whatever its manifest says.
    pub capabilities_at_most: Vec<String>,
    /// Its manifest.
    pub manifest: Option<InspectedManifest>,
    /// Keys that signed it, of those that were named.
    pub signatures: Vec<String>,
    /// What a newer component that waits for a person changes; null where none waits.
    pub update: Option<Update>,
}

/// One function of a component.
#[derive(Clone, Debug, Serialize, JsonSchema)]
pub struct Exported {
    /// The tool's name.
    pub tool: String,
    /// Where it is in the component.
    pub path: String,
    /// What its author says of it.
    pub description: String,
    /// JSON Schema of its arguments.
    pub input_schema: Value,
    /// JSON Schema of its answer.
    pub output_schema: Value,
}

/// An exported function that is no tool.
#[derive(Clone, Debug, Serialize, JsonSchema)]
pub struct LeftOut {
    /// Where it is in the component.
    pub function: String,
    /// Why.
    pub message: String,
}

/// What a manifest says.
#[derive(Clone, Debug, Serialize, JsonSchema)]
pub struct InspectedManifest {
    /// The plugin's name.
    pub name: String,
    /// Its version.
    pub version: String,
    /// What it is for.
    pub description: String,
    /// What it asks for.
    pub requested: Vec<String>,
    /// Why it asks, for whoever grants it, by the words of `requested`. Some need no reason.
    pub reasons: BTreeMap<String, String>,
}

/// A version that waits, with everything that is different about it.
#[derive(Clone, Debug, Serialize, JsonSchema)]
pub struct Update {
    /// What `hotcell tool accept` takes: sha256 over the component, its manifest, its source and who signed it.
    pub id: String,
    /// sha256 of its component, in hexadecimal.
    pub digest: String,
    /// Where it came from.
    pub source: String,
    /// What it changes, line by line: `+` came, `-` went, `~` changed.
    pub changes: Vec<String>,
    /// What a model is told otherwise, word by word.
    pub told: Vec<Told>,
    /// Keys that signed it, of those that were named.
    pub signatures: Vec<String>,
    /// What was granted to the version before, and is granted to it once it is accepted.
    pub grants: Vec<String>,
}

/// What a model is told of a tool, before and after.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, JsonSchema)]
pub struct Told {
    /// The export.
    pub tool: String,
    /// `description`, `input_schema` or `output_schema`.
    pub what: String,
    /// As it was; null for a new tool.
    pub before: Option<String>,
    /// As it is.
    pub after: String,
}

impl Told {
    fn all(before: &Version, after: &Version, difference: &Difference) -> Vec<Self> {
        let text = |version: &Version, tool: &str, what: &str| {
            let export = version.description.exports.iter().find(|export| export.path == tool)?;
            let schema = |schema: &Value| serde_json::to_string_pretty(schema).unwrap_or_default();
            Some(match what {
                "input_schema" => schema(&export.input_schema),
                "output_schema" => schema(&export.output_schema),
                _ => export.description.clone(),
            })
        };
        let kinds = ["description", "input_schema", "output_schema"].map(str::to_owned);
        let added = difference.tools_added.iter().map(|tool| (tool, &kinds[..]));
        let changed = difference.tools_changed.iter().map(|changed| (&changed.tool, &changed.what[..]));
        let all = added.chain(changed).flat_map(|(tool, what)| what.iter().map(move |what| (tool, what)));
        let told = all.map(|(tool, what)| Self {
            tool: tool.clone(),
            what: what.clone(),
            before: text(before, tool, what),
            after: text(after, tool, what).unwrap_or_default(),
        });
        told.collect()
    }
}

impl Update {
    /// Of a version that waits.
    pub(super) fn of(plugin: &str, before: &Version, after: &Version, granted: &[Granted]) -> Self {
        let difference = difference(plugin, before, after);
        let mut changes = difference.lines();
        if before.place != after.place {
            changes.push(format!("~ source: {} before", before.place));
        }
        Self {
            id: after.agreed(),
            digest: after.digest.clone(),
            source: after.pinned.clone(),
            changes,
            told: Told::all(before, after, &difference),
            signatures: after.signer.iter().cloned().collect(),
            grants: granted.iter().map(|one| one.capability.to_string()).collect(),
        }
    }
}

/// What one version changes of another.
pub(super) fn difference(plugin: &str, before: &Version, after: &Version) -> Difference {
    use hotcell_tools::update::Version as Compared;
    let (old, new) = (before.request(), after.request());
    let (was, is) = (before.counted(), after.counted());
    Difference::of(
        &Compared {
            plugin,
            digest: &before.digest,
            description: &before.description,
            request: &old,
            signer: before.signer.as_deref(),
            version: &was,
        },
        &Compared {
            plugin,
            digest: &after.digest,
            description: &after.description,
            request: &new,
            signer: after.signer.as_deref(),
            version: &is,
        },
    )
}

impl Inspection {
    /// Of a version under a name.
    pub(super) fn of(plugin: &str, version: &Version, pending: Option<(&Version, &[Granted])>) -> Self {
        let exports = &version.description.exports;
        let names = tool_names(plugin, exports);
        let exported = names.into_iter().zip(exports).map(|(tool, export)| Exported {
            tool,
            path: export.path.clone(),
            description: export.description.clone(),
            input_schema: export.input_schema.clone(),
            output_schema: export.output_schema.clone(),
        });
        Self {
            schema: INSPECT_SCHEMA.to_owned(),
            plugin: plugin.to_owned(),
            source: version.pinned.clone(),
            digest: version.digest.clone(),
            bytes: version.bytes,
            exports: exported.collect(),
            left_out: version
                .description
                .left_out
                .iter()
                .map(|l| LeftOut { function: l.function.clone(), message: l.message.clone() })
                .collect(),
            imports: version.description.imports.clone(),
            capabilities_at_most: version.description.at_most.clone(),
            manifest: version.manifest().map(|manifest| InspectedManifest {
                requested: manifest.request.words(),
                reasons: manifest.request.reasons().into_iter().collect(),
                name: manifest.name,
                version: manifest.version,
                description: manifest.description,
            }),
            signatures: version.signer.iter().cloned().collect(),
            update: pending.map(|(pending, granted)| Update::of(plugin, version, pending, granted)),
        }
    }
}
