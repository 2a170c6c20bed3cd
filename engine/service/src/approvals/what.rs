//! What is asked for, exactly: the digest of it binds a decision to it, its lines are what a person reads.

use hotcell_tools::sources::sha256;
use schemars::JsonSchema;
use serde::{Deserialize, Serialize};
use serde_json::Value;

use super::state::Kind;
use crate::report::printable;

/// Characters of what a caller wrote that are kept to be shown. The digest is of all of it.
pub const SHOWN: usize = 16_000;

/// What is asked for.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize, JsonSchema)]
#[serde(tag = "kind", rename_all = "snake_case")]
pub enum What {
    /// One run of something that the guard refused.
    Release {
        /// The item in quarantine.
        item: String,
        /// The artifact's digest.
        artifact: String,
        /// What it is run as, where that is known.
        language: Option<String>,
    },
    /// Capabilities for one call of a plugin's tool.
    Grant {
        /// The plugin.
        plugin: String,
        /// The digest of its component.
        component: String,
        /// The tool.
        tool: String,
        /// The digest of the call's arguments.
        arguments: String,
        /// The arguments, or their beginning.
        shown: String,
        /// The capabilities, in the words of `hotcell tool grant`.
        capabilities: Vec<String>,
    },
    /// Hosts that one run may reach.
    Network {
        /// The tool that runs it.
        tool: String,
        /// The hosts with their ports.
        hosts: Vec<String>,
        /// The workspace that it starts in.
        workspace: Option<String>,
        /// The digest of what runs: the arguments, and every file that it starts with.
        content: String,
        /// What runs, or the beginning of it: the arguments, and what the workspace changed in its folder.
        shown: String,
    },
    /// Protected names in one commit.
    Protected {
        /// The workspace.
        workspace: String,
        /// The folder that it is committed to.
        folder: String,
        /// The names, or the first of them.
        paths: Vec<String>,
        /// How many there are.
        total: u64,
        /// The digest of names, kinds, modes and bytes.
        content: String,
        /// What changes there, or the beginning of it, as a diff.
        shown: String,
    },
}

impl What {
    /// Its kind.
    #[must_use]
    pub const fn kind(&self) -> Kind {
        match self {
            Self::Release { .. } => Kind::Release,
            Self::Grant { .. } => Kind::Grant,
            Self::Network { .. } => Kind::Network,
            Self::Protected { .. } => Kind::Protected,
        }
    }

    /// The digest of what it is for: the artifact, the component, the run, the changes.
    #[must_use]
    pub fn digest(&self) -> &str {
        match self {
            Self::Release { artifact, .. } => artifact,
            Self::Grant { component, .. } => component,
            Self::Network { content, .. } | Self::Protected { content, .. } => content,
        }
    }

    /// The digest of all that is asked, in 64 hexadecimal digits: whatever differs in it is another request.
    #[must_use]
    pub fn ask(&self) -> String {
        // Strings and numbers only: they have a form in JSON.
        let all = ("hotcell.approval/1", self);
        sha256(&serde_json::to_vec(&all).unwrap_or_default())
    }

    /// One line that says what it is. It contains what the caller wrote, as it wrote it.
    #[must_use]
    pub fn sentence(&self) -> String {
        match self {
            Self::Release { item, language, .. } => {
                let language =
                    language.as_ref().map_or_else(String::new, |language| format!(" as {language}"));
                format!("run the item {item} of the quarantine{language}, once")
            }
            Self::Grant { plugin, tool, capabilities, .. } => {
                let all = capabilities.join(" ");
                format!("give the plugin {plugin} {all} for one call of {tool}")
            }
            Self::Network { tool, hosts, .. } => {
                format!("let one {tool} reach {}", hosts.join(", "))
            }
            Self::Protected { workspace, folder, total, .. } => {
                format!("commit {total} protected names of {workspace} to {folder}, once")
            }
        }
    }

    /// The lines below that sentence: what the caller wrote, so that a person can read it.
    #[must_use]
    pub fn lines(&self) -> Vec<String> {
        let text = |text: &str| text.lines().map(str::to_owned).collect::<Vec<_>>();
        match self {
            Self::Release { .. } => Vec::new(),
            Self::Grant { shown, .. } | Self::Network { shown, .. } => text(shown),
            Self::Protected { paths, total, shown, .. } => {
                let more = total.saturating_sub(paths.len() as u64);
                let more = (more > 0).then(|| format!("and {more} more"));
                paths.iter().cloned().chain(more).chain(text(shown)).collect()
            }
        }
    }

    /// Where a person sees more of it.
    #[must_use]
    pub fn look(&self) -> Option<String> {
        match self {
            Self::Release { item, .. } => Some(format!("hotcell quarantine show {item}")),
            Self::Grant { plugin, .. } => Some(format!("hotcell tool inspect {plugin}")),
            Self::Network { .. } | Self::Protected { .. } => None,
        }
    }
}

/// The values of a call, each on lines of its own: a text of several lines as these lines, indented.
#[must_use]
pub fn readable(value: &Value) -> String {
    let mut text = String::new();
    leaves(&mut text, "", value);
    text
}

fn leaves(text: &mut String, name: &str, value: &Value) {
    match value {
        Value::Object(fields) if !fields.is_empty() => {
            // In order, however the caller wrote them.
            let fields: std::collections::BTreeMap<_, _> = fields.iter().collect();
            for (field, value) in fields {
                let dot = if name.is_empty() { "" } else { "." };
                leaves(text, &format!("{name}{dot}{}", printable(field)), value);
            }
        }
        Value::Array(items) if items.iter().any(Value::is_object) => {
            for (at, value) in items.iter().enumerate() {
                leaves(text, &format!("{name}[{at}]"), value);
            }
        }
        Value::String(lines) if lines.contains('\n') => {
            text.push_str(&format!("{name}:\n"));
            lines.lines().for_each(|line| text.push_str(&format!("    {line}\n")));
        }
        plain => text.push_str(&format!("{name}: {plain}\n")),
    }
}

/// The beginning of a text that a person is shown, with a word on what is left out.
#[must_use]
pub fn beginning(text: &str) -> String {
    match text.char_indices().nth(SHOWN) {
        None => text.to_owned(),
        Some((at, _)) => {
            let left = text.len() - at;
            format!("{}\n({left} more bytes are not shown, and belong to it)", &text[..at])
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn whatever_differs_is_another_request() {
        let network = |hosts: &[&str], content: &str, shown: &str| What::Network {
            tool: "run_command".to_owned(),
            hosts: hosts.iter().map(|host| (*host).to_owned()).collect(),
            workspace: None,
            content: content.to_owned(),
            shown: shown.to_owned(),
        };
        let all = [
            network(&["a:1"], "c", "s"),
            network(&["a:1", "b:1"], "c", "s"),
            network(&["a:2"], "c", "s"),
            network(&["a:1"], "d", "s"),
            network(&["a:1"], "c", "t"),
        ];
        let asks: std::collections::BTreeSet<_> = all.iter().map(What::ask).collect();
        assert_eq!(asks.len(), all.len());
        assert_eq!(all[0].ask(), all[0].clone().ask());
        assert!(all.iter().all(|what| what.ask().len() == 64 && what.kind() == Kind::Network));
    }

    #[test]
    fn values_are_read_line_by_line() {
        let call = serde_json::json!({
            "code": "import os\nprint(1)\n", "args": ["a", "b\nc"], "files": [{ "path": "x" }], "stdin": "", "limits": {}
        });
        let want = "args: [\"a\",\"b\\nc\"]\ncode:\n    import os\n    print(1)\nfiles[0].path: \"x\"\nlimits: {}\n\
                    stdin: \"\"\n";
        assert_eq!(readable(&call), want);
    }

    #[test]
    fn a_long_text_says_what_is_left_out() {
        assert_eq!(beginning("short"), "short");
        let long = beginning(&"é".repeat(SHOWN + 3));
        assert!(long.ends_with("(6 more bytes are not shown, and belong to it)"), "{long}");
    }
}
