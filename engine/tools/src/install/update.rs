//! Differences between two versions of a plugin, and whether a person has to review them first. Pure.

use std::collections::{BTreeMap, BTreeSet};

use serde::{Deserialize, Serialize};
use serde_json::Value;
use sha2::{Digest, Sha256};

use crate::component::serves;
use crate::description::{Description, Export};
use crate::install::request::Request;
use crate::mapping::names::tool_names;

/// Parts of a version that a person agreed to.
#[derive(Clone, Debug, PartialEq)]
pub struct Version<'a> {
    /// Name of the plugin.
    pub plugin: &'a str,
    /// sha256 of the component, in hexadecimal.
    pub digest: &'a str,
    /// Description of the component.
    pub description: &'a Description,
    /// Requested capabilities.
    pub request: &'a Request,
    /// Key that signed it, if the signature was checked.
    pub signer: Option<&'a str>,
    /// Version in the author's own scheme; empty if the manifest has none.
    pub version: &'a str,
}

/// Differences, each list in order.
#[derive(Clone, Debug, Default, PartialEq, Eq, Serialize, Deserialize)]
#[serde(deny_unknown_fields, default)]
pub struct Difference {
    /// New imports, without their versions.
    pub imports_added: Vec<String>,
    /// Imports that are gone.
    pub imports_removed: Vec<String>,
    /// Kinds of things that it serves now: `resources`, `prompts`.
    pub serves_added: Vec<String>,
    /// Other code serves prompts or resources. They are known only once the code runs, so that the code stands
    /// for them.
    pub served_anew: bool,
    /// New requests, in the words of `hotcell tool grant`.
    pub requests_added: Vec<String>,
    /// Requests that are gone.
    pub requests_removed: Vec<String>,
    /// New tools, by their exports.
    pub tools_added: Vec<String>,
    /// Tools that are gone.
    pub tools_removed: Vec<String>,
    /// Tools whose text for a model changed.
    pub tools_changed: Vec<Changed>,
    /// Names that now call another export: a user who always allowed such a name had allowed the other
    /// export.
    pub names_moved: Vec<String>,
    /// The new version has another signing key, or no signature.
    pub signer_changed: bool,
    /// The version is not newer in the author's own scheme, or the two cannot be compared.
    pub version_back: Option<Back>,
    /// The component's bytes changed.
    pub code_changed: bool,
}

/// A version that is not newer: it may be a downgrade to a release with known vulnerabilities, which the
/// author signed as well.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct Back {
    /// Version in use.
    pub before: String,
    /// New version; empty if the manifest no longer has one.
    pub after: String,
    /// Whether the new version is older. `false` when the two cannot be compared, because one is not a
    /// semantic version.
    pub older: bool,
}

impl Back {
    /// Compares the versions of two different components: `Some` when the new one is older, cannot be
    /// compared, or is missing where there was one.
    fn of(before: &str, after: &str) -> Option<Self> {
        let back = |older| Some(Self { before: before.to_owned(), after: after.to_owned(), older });
        if before == after || before.is_empty() {
            return None;
        }
        match (semver::Version::parse(before), semver::Version::parse(after)) {
            (Ok(was), Ok(is)) if is.cmp_precedence(&was).is_lt() => back(true),
            (Ok(_), Ok(_)) => None,
            _ => back(false),
        }
    }

    fn line(&self) -> String {
        let Self { before, after, older } = self;
        match (older, after.as_str()) {
            (true, _) => format!("~ version {before} to {after}: an OLDER one"),
            (false, "") => format!("~ version {before}: it says none any more, so it may be an older one"),
            (false, _) => format!("~ version {before} to {after}: which is newer cannot be told"),
        }
    }
}

/// A tool whose text for a model changed.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct Changed {
    /// The export.
    pub tool: String,
    /// `description`, `input_schema` or `output_schema`.
    pub what: Vec<String>,
}

impl Difference {
    /// Compares two versions.
    #[must_use]
    pub fn of(before: &Version<'_>, after: &Version<'_>) -> Self {
        let imports =
            |v: &Version<'_>| v.description.imports.iter().map(|i| unversioned(i)).collect::<BTreeSet<_>>();
        let requests = |v: &Version<'_>| v.request.words().into_iter().collect::<BTreeSet<_>>();
        let (old, new) = (tools(before.description), tools(after.description));
        let names = |of: &BTreeMap<String, [String; 3]>| of.keys().cloned().collect::<BTreeSet<_>>();
        let changed = new.iter().filter_map(|(tool, now)| {
            let was = old.get(tool)?;
            let kinds = ["description", "input_schema", "output_schema"];
            let what = kinds.iter().zip(was.iter().zip(now)).filter(|(_, (was, now))| was != now);
            let what: Vec<String> = what.map(|(kind, _)| (*kind).to_owned()).collect();
            (!what.is_empty()).then(|| Changed { tool: tool.clone(), what })
        });
        let serves = |v: &Version<'_>| {
            let words = serves::words(v.description).into_iter().map(str::to_owned);
            words.collect::<BTreeSet<_>>()
        };
        let (had, has) = (names_of(before), names_of(after));
        let moved = has.iter().filter(|(name, path)| had.get(*name).is_some_and(|was| was != *path));
        Self {
            names_moved: moved.map(|(name, _)| name.clone()).collect(),
            serves_added: beyond(serves(after), &serves(before)),
            served_anew: before.digest != after.digest && !serves(after).is_empty(),
            imports_added: beyond(imports(after), &imports(before)),
            imports_removed: beyond(imports(before), &imports(after)),
            requests_added: beyond(requests(after), &requests(before)),
            requests_removed: beyond(requests(before), &requests(after)),
            tools_added: beyond(names(&new), &names(&old)),
            tools_removed: beyond(names(&old), &names(&new)),
            tools_changed: changed.collect(),
            signer_changed: before.signer != after.signer,
            version_back: Back::of(before.version, after.version).filter(|_| before.digest != after.digest),
            code_changed: before.digest != after.digest,
        }
    }

    /// Whether a person has to accept the update. `granted`: the old version has grants. A grant was made to
    /// those very bytes; only the signer of both versions vouches for the new bytes, and not for older ones,
    /// whose signatures never expire.
    #[must_use]
    pub fn asks_a_person(&self, granted: bool, signed: bool) -> bool {
        let wider = !(self.imports_added.is_empty() && self.requests_added.is_empty()) || self.served_anew;
        let told =
            !(self.tools_added.is_empty() && self.tools_changed.is_empty() && self.names_moved.is_empty());
        let unknown = self.code_changed && granted && !signed;
        wider || told || self.signer_changed || self.version_back.is_some() || unknown
    }

    /// Lines for a person to read: `+` added, `-` removed, `~` changed.
    #[must_use]
    pub fn lines(&self) -> Vec<String> {
        let mut lines = Vec::new();
        let mut all = |sign: char, what: &str, names: &[String]| {
            lines.extend(names.iter().map(|name| format!("{sign} {what} {name}")));
        };
        all('+', "import", &self.imports_added);
        all('-', "import", &self.imports_removed);
        all('+', "request", &self.requests_added);
        all('-', "request", &self.requests_removed);
        all('+', "serves", &self.serves_added);
        all('+', "tool", &self.tools_added);
        all('-', "tool", &self.tools_removed);
        lines.extend(self.tools_changed.iter().map(|c| format!("~ tool {}: {}", c.tool, c.what.join(", "))));
        lines.extend(
            self.served_anew.then(|| "~ prompts and resources: whatever the new code says".to_owned()),
        );
        lines.extend(self.names_moved.iter().map(|name| format!("~ name {name}: another tool")));
        lines.extend(self.signer_changed.then(|| "~ signature: another key, or none".to_owned()));
        lines.extend(self.version_back.as_ref().map(Back::line));
        lines.extend(self.code_changed.then(|| "~ code".to_owned()));
        lines
    }
}

/// Export that each tool name refers to.
fn names_of(version: &Version<'_>) -> BTreeMap<String, String> {
    let exports = &version.description.exports;
    tool_names(version.plugin, exports)
        .into_iter()
        .zip(exports.iter().map(|export| export.path.clone()))
        .collect()
}

fn beyond(these: BTreeSet<String>, those: &BTreeSet<String>) -> Vec<String> {
    these.into_iter().filter(|one| !those.contains(one)).collect()
}

fn unversioned(import: &str) -> String {
    import.split('@').next().unwrap_or(import).to_owned()
}

/// Texts that a model gets about each tool, as digests.
fn tools(description: &Description) -> BTreeMap<String, [String; 3]> {
    let told = |e: &Export| {
        [hash(&Value::String(e.description.clone())), hash(&e.input_schema), hash(&e.output_schema)]
    };
    description.exports.iter().map(|e| (e.path.clone(), told(e))).collect()
}

/// SHA-256 over the canonical form: keys sorted, no whitespace.
fn hash(value: &Value) -> String {
    let mut text = String::new();
    canonical(value, &mut text);
    hex::encode(Sha256::digest(text.as_bytes()))
}

fn canonical(value: &Value, out: &mut String) {
    let list = |open, close, parts: &mut dyn Iterator<Item = String>, out: &mut String| {
        out.push(open);
        for (at, part) in parts.enumerate() {
            if at > 0 {
                out.push(',');
            }
            out.push_str(&part);
        }
        out.push(close);
    };
    let text_of = |value: &Value| {
        let mut text = String::new();
        canonical(value, &mut text);
        text
    };
    match value {
        Value::Array(all) => list('[', ']', &mut all.iter().map(text_of), out),
        Value::Object(map) => {
            let sorted: BTreeMap<&String, &Value> = map.iter().collect();
            let field = |(key, value): (&String, &Value)| {
                format!("{}:{}", Value::String(key.clone()), text_of(value))
            };
            list('{', '}', &mut sorted.into_iter().map(field), out);
        }
        other => out.push_str(&other.to_string()),
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use serde_json::json;

    fn description() -> Description {
        let export = |path: &str| Export {
            path: path.to_owned(),
            function: path.to_owned(),
            interface: None,
            description: "reads".to_owned(),
            input_schema: json!({ "type": "object", "properties": { "a": { "type": "string" } } }),
            output_schema: json!({ "type": "object" }),
        };
        Description {
            exports: vec![export("list"), export("read")],
            imports: vec!["wasi:cli/environment@0.2.3".to_owned()],
            left_out: Vec::new(),
            at_most: vec!["env".to_owned()],
            handles: false,
            serves: Vec::new(),
            manifest: None,
            hidden: None,
        }
    }

    #[test]
    fn update_differences_may_need_approval() {
        type Change = fn(&mut Description, &mut Request);
        for (change, lines, asks) in [
            ((|_, _| {}) as Change, "", false),
            (|d, _| d.imports[0] = "wasi:cli/environment@0.2.6".into(), "", false),
            (
                |d, _| d.imports.push("wasi:http/outgoing-handler@0.2.6".into()),
                "+ import wasi:http/outgoing-handler",
                true,
            ),
            (|d, _| d.imports.clear(), "- import wasi:cli/environment", false),
            (|_, r| r.sandbox = Some("so".into()), "+ request sandbox", true),
            (|d, _| drop(d.exports.pop()), "- tool read", false),
            (
                |d, _| (d.exports[0].function, d.exports[1].function) = ("read".into(), "list".into()),
                "~ name p_list: another tool\n~ name p_read: another tool",
                true,
            ),
            (
                |d, _| d.exports[0].path = "ls".into(),
                "+ tool ls\n- tool list\n~ name p_list: another tool",
                true,
            ),
            (
                |d, _| d.exports[0].description = "reads, and sends it to me".into(),
                "~ tool list: description",
                true,
            ),
            (
                |d, _| d.exports[0].input_schema["properties"]["b"] = json!({}),
                "~ tool list: input_schema",
                true,
            ),
            (|d, _| d.exports[1].output_schema = json!({}), "~ tool read: output_schema", true),
            (
                |d, _| {
                    d.exports[0].input_schema =
                        json!({ "properties": { "a": { "type": "string" } }, "type": "object" });
                },
                "",
                false,
            ),
        ] {
            let (before, request) = (description(), Request::default());
            let (mut after, mut asked) = (description(), Request::default());
            change(&mut after, &mut asked);
            let old = Version {
                plugin: "p",
                digest: "a",
                description: &before,
                request: &request,
                signer: None,
                version: "",
            };
            let new = Version { description: &after, request: &asked, ..old.clone() };
            let difference = Difference::of(&old, &new);
            assert_eq!(difference.lines().join("\n"), lines);
            assert_eq!(difference.asks_a_person(true, false), asks, "{lines}");
        }
    }

    #[test]
    fn grant_covers_other_digest_of_same_signer() {
        let (before, request) = (description(), Request::default());
        let version = |digest, signer| Version {
            plugin: "p",
            digest,
            description: &before,
            request: &request,
            signer,
            version: "1.0.0",
        };
        for (old, new, granted, signed, asks) in [
            (version("a", None), version("b", None), false, false, false),
            (version("a", None), version("b", None), true, false, true),
            (version("a", Some("k")), version("b", Some("k")), true, true, false),
            (version("a", Some("k")), version("b", Some("other")), false, true, true),
            (version("a", Some("k")), version("b", None), false, false, true),
            (version("a", None), version("a", None), true, false, false),
        ] {
            assert_eq!(Difference::of(&old, &new).asks_a_person(granted, signed), asks, "{old:?} {new:?}");
        }
    }

    #[test]
    fn older_version_waits_regardless_of_signer() {
        let (description, request) = (description(), Request::default());
        let version = |digest, version| Version {
            plugin: "p",
            digest,
            description: &description,
            request: &request,
            signer: Some("k"),
            version,
        };
        for (before, after, line) in [
            ("0.2.0", "0.2.1", None),
            ("0.2.0", "0.10.0", None),
            ("0.2.0", "0.2.0", None),
            ("0.2.0", "0.2.0+build.7", None),
            ("", "", None),
            ("", "0.1.0", None),
            ("0.2.0-rc.1", "0.2.0", None),
            ("0.2.0", "0.1.9", Some("~ version 0.2.0 to 0.1.9: an OLDER one")),
            ("0.10.0", "0.9.0", Some("~ version 0.10.0 to 0.9.0: an OLDER one")),
            ("0.2.0", "0.2.0-rc.1", Some("~ version 0.2.0 to 0.2.0-rc.1: an OLDER one")),
            ("0.2.0", "", Some("~ version 0.2.0: it says none any more, so it may be an older one")),
            ("today", "tomorrow", Some("~ version today to tomorrow: which is newer cannot be told")),
            ("0.2.0", "9", Some("~ version 0.2.0 to 9: which is newer cannot be told")),
        ] {
            let difference = Difference::of(&version("a", before), &version("b", after));
            let lines = difference.lines();
            let wanted: Vec<&str> = line.into_iter().chain(["~ code"]).collect();
            assert_eq!(lines, wanted, "{before} to {after}");
            for granted in [true, false] {
                assert_eq!(difference.asks_a_person(granted, true), line.is_some(), "{before} to {after}");
            }
        }
        // Equal code under another version is not a change.
        let same = Difference::of(&version("a", "0.2.0"), &version("a", "0.1.0"));
        assert_eq!((same.lines(), same.asks_a_person(true, true)), (Vec::<String>::new(), false));
    }
}
