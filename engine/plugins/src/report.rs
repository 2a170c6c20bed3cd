//! Plugins and their tools as they are shown: `hotcell.tools/1` and `hotcell.inspect/1`.

use std::collections::BTreeMap;

use hotcell_tools::component::serves::words;
use hotcell_tools::install::update::Difference;
use hotcell_tools::mapping::names::tool_names;
use schemars::JsonSchema;
use serde::Serialize;
use serde_json::Value;

use super::offer::Offer;
use super::rows::{Granted, Version};

/// Value of the `schema` field of a list.
pub const SCHEMA: &str = "hotcell.tools/1";
/// Value of the `schema` field of an inspection.
pub const INSPECT_SCHEMA: &str = "hotcell.inspect/1";

/// List in the form `hotcell.tools/1`: tools of all plugins, in the order of their names.
#[derive(Clone, Debug, PartialEq, Serialize, JsonSchema)]
pub struct ToolList {
    /// Always `hotcell.tools/1`.
    pub schema: String,
    /// Tools.
    pub tools: Vec<Tool>,
}

/// One tool.
#[derive(Clone, Debug, PartialEq, Serialize, JsonSchema)]
pub struct Tool {
    /// Name of the tool: `PLUGIN_FUNCTION`.
    pub name: String,
    /// Plugin of the tool.
    pub plugin: String,
    /// sha256 of the component, in hexadecimal.
    pub digest: String,
    /// Description by the component's author; may be empty.
    pub description: String,
    /// JSON Schema of the arguments.
    pub input_schema: Value,
    /// JSON Schema of the answer.
    pub output_schema: Value,
    /// Whether callers are offered it; see `hotcell tool offer`.
    pub offered: bool,
    /// Grants in force, in the words of `hotcell tool grant`.
    pub granted: Vec<String>,
    /// True when its plugin keeps an instance for each caller between calls.
    pub session: bool,
    /// Requested capabilities; `…` is a placeholder for a value that a person chooses.
    pub requested: Vec<String>,
    /// Grants that are not in force, each with the reason.
    pub not_in_force: Vec<NotInForce>,
    /// `ready`, or `update_waits` when another component waits for a person: the old one is used.
    pub state: State,
}

/// A grant that is not in force.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, JsonSchema)]
pub struct NotInForce {
    /// Capability.
    pub capability: String,
    /// Reason.
    pub why: String,
}

/// State of a plugin.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize, JsonSchema)]
#[serde(rename_all = "snake_case")]
pub enum State {
    /// Callable.
    Ready,
    /// Callable, and another component waits for `hotcell tool accept`.
    UpdateWaits,
}

/// Report in the form `hotcell.inspect/1`: what a component is and can do at most, according to its contents.
/// None of it was run.
#[derive(Clone, Debug, Serialize, JsonSchema)]
pub struct Inspection {
    /// Always `hotcell.inspect/1`.
    pub schema: String,
    /// Name of the plugin, or the name that it would get.
    pub plugin: String,
    /// Source that it came from.
    pub source: String,
    /// sha256 of the component, in hexadecimal.
    pub digest: String,
    /// Length in bytes.
    pub bytes: u64,
    /// True when an instance is kept for each caller between its calls; each call has a fresh one otherwise.
    pub session: bool,
    /// `resources`, `prompts`: what it serves to clients beside its tools.
    pub serves: Vec<String>,
    /// Functions.
    pub exports: Vec<Exported>,
    /// Exported functions that are not tools.
    pub left_out: Vec<LeftOut>,
    /// Names of its imports.
    pub imports: Vec<String>,
    /// Capabilities that its imports would allow, whatever its manifest says.
    pub capabilities_at_most: Vec<String>,
    /// Manifest.
    pub manifest: Option<InspectedManifest>,
    /// Keys that signed it, among the named ones.
    pub signatures: Vec<String>,
    /// Changes of another component that waits for a person; null when nothing waits.
    pub update: Option<Update>,
}

/// One function of a component.
#[derive(Clone, Debug, Serialize, JsonSchema)]
pub struct Exported {
    /// Name of the tool.
    pub tool: String,
    /// Whether callers are offered it; see `hotcell tool offer`.
    pub offered: bool,
    /// Where it is in the component.
    pub path: String,
    /// Description by its author.
    pub description: String,
    /// JSON Schema of the arguments.
    pub input_schema: Value,
    /// JSON Schema of the answer.
    pub output_schema: Value,
}

/// An exported function that is not a tool.
#[derive(Clone, Debug, Serialize, JsonSchema)]
pub struct LeftOut {
    /// Path in the component.
    pub function: String,
    /// Reason.
    pub message: String,
}

/// Contents of a manifest.
#[derive(Clone, Debug, Serialize, JsonSchema)]
pub struct InspectedManifest {
    /// Name of the plugin.
    pub name: String,
    /// Version.
    pub version: String,
    /// Purpose.
    pub description: String,
    /// Requested capabilities.
    pub requested: Vec<String>,
    /// Reasons for the person who grants, by the entries of `requested`. Some need no reason.
    pub reasons: BTreeMap<String, String>,
}

/// A version that waits, with all its differences.
#[derive(Clone, Debug, Serialize, JsonSchema)]
pub struct Update {
    /// Argument of `hotcell tool accept`: sha256 over the component, its manifest, its source and its signer.
    pub id: String,
    /// sha256 of its component, in hexadecimal.
    pub digest: String,
    /// Source that it came from.
    pub source: String,
    /// Changes, line by line: `+` added, `-` removed, `~` changed.
    pub changes: Vec<String>,
    /// Changes of the texts that a model sees, in full.
    pub told: Vec<DescriptionChange>,
    /// Keys that signed it, among the named ones.
    pub signatures: Vec<String>,
    /// Grants of the previous version, which it gets once it is accepted.
    pub grants: Vec<String>,
}

/// A text about a tool that a model sees, before and after.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, JsonSchema)]
pub struct DescriptionChange {
    /// Export.
    pub tool: String,
    /// `description`, `input_schema` or `output_schema`.
    pub what: String,
    /// Old text; null for a new tool.
    pub before: Option<String>,
    /// New text.
    pub after: String,
}

impl DescriptionChange {
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
    /// Describes a waiting version.
    pub fn of(plugin: &str, before: &Version, after: &Version, granted: &[Granted]) -> Self {
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
            told: DescriptionChange::all(before, after, &difference),
            signatures: after.signer.iter().cloned().collect(),
            grants: granted.iter().map(|one| one.capability.to_string()).collect(),
        }
    }
}

/// Changes from one version to another.
pub fn difference(plugin: &str, before: &Version, after: &Version) -> Difference {
    use hotcell_tools::install::update::Version as Compared;
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
    /// Sets which of its tools are offered.
    #[must_use]
    pub fn with(mut self, offer: &Offer) -> Self {
        self.exports.iter_mut().for_each(|export| export.offered = offer.has(&export.tool));
        self
    }

    /// Of a version under a name.
    pub fn of(plugin: &str, version: &Version, pending: Option<(&Version, &[Granted])>) -> Self {
        let exports = &version.description.exports;
        let names = tool_names(plugin, exports);
        let exported = names.into_iter().zip(exports).map(|(tool, export)| Exported {
            tool,
            offered: true,
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
            session: version.session(),
            serves: words(&version.description).into_iter().map(str::to_owned).collect(),
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
