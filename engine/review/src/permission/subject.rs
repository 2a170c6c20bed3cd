//! Subject of a request, exactly: its digest binds a decision to it, its lines are shown to the person who
//! decides.

use hotcell_state::report::{Code, ErrorReport, printable};
use hotcell_tools::install::sources::sha256;
use schemars::JsonSchema;
use serde::{Deserialize, Serialize};
use serde_json::Value;

use super::state::Kind;

/// Maximum size, in bytes, of a caller's text or a workspace's changes in a request. Larger ones are refused,
/// since a person should not approve what they cannot see. The text is stored whole.
pub const MAX_TEXT_BYTES: usize = 256 * 1024;
/// End of longer texts as stored by an earlier release.
const CUT: &str = " more bytes are not shown, and belong to it)";

/// Subject of a request.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize, JsonSchema)]
#[serde(tag = "kind", rename_all = "snake_case")]
pub enum ApprovalSubject {
    /// One run of code that the guard refused.
    Release {
        /// Item in quarantine.
        item: String,
        /// Digest of the artifact.
        artifact: String,
        /// Language that it runs as, if known.
        language: Option<String>,
    },
    /// Capabilities for one call of a plugin's tool.
    Grant {
        /// Plugin.
        plugin: String,
        /// Digest of its component.
        component: String,
        /// Tool.
        tool: String,
        /// Digest of the call's arguments.
        arguments: String,
        /// Arguments.
        shown: String,
        /// Capabilities, in the syntax of `hotcell tool grant`.
        capabilities: Vec<String>,
    },
    /// Hosts that one run may reach.
    Network {
        /// Tool that runs it.
        tool: String,
        /// Hosts with their ports.
        hosts: Vec<String>,
        /// Workspace that it starts in.
        workspace: Option<String>,
        /// Digest of the run: the arguments, and every file that it starts with.
        content: String,
        /// The run for display: the arguments, and the workspace's changes to its folder.
        shown: String,
    },
    /// Protected names in one commit.
    Protected {
        /// Workspace.
        workspace: String,
        /// Folder that it is committed to.
        folder: String,
        /// Protected names, or the first of them.
        paths: Vec<String>,
        /// Number of protected names.
        total: u64,
        /// Digest of names, kinds, modes and bytes.
        content: String,
        /// The changes, as a diff.
        shown: String,
    },
}

impl ApprovalSubject {
    /// Kind of the request.
    #[must_use]
    pub const fn kind(&self) -> Kind {
        match self {
            Self::Release { .. } => Kind::Release,
            Self::Grant { .. } => Kind::Grant,
            Self::Network { .. } => Kind::Network,
            Self::Protected { .. } => Kind::Protected,
        }
    }

    /// Digest of the subject: the artifact, the component, the run, the changes.
    #[must_use]
    pub fn digest(&self) -> &str {
        match self {
            Self::Release { artifact, .. } => artifact,
            Self::Grant { component, .. } => component,
            Self::Network { content, .. } | Self::Protected { content, .. } => content,
        }
    }

    /// Digest of the whole request, 64 hexadecimal digits: any difference makes another request.
    #[must_use]
    pub fn ask(&self) -> String {
        // Strings and numbers can always be written as JSON.
        let all = ("hotcell.approval/1", self);
        sha256(&serde_json::to_vec(&all).unwrap_or_default())
    }

    /// One-line description. It contains the caller's text, unchanged.
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

    /// Lines below that description: the caller's text, for a person to read.
    #[must_use]
    pub fn lines(&self) -> Vec<String> {
        let text = |text: &str| text.lines().map(str::to_owned).collect::<Vec<_>>();
        match self {
            Self::Release { .. } => Vec::new(),
            Self::Grant { shown, .. } => text(shown),
            Self::Network { hosts, shown, .. } => {
                let wide = hosts.iter().filter_map(|host| host.strip_prefix("*."));
                wide.map(|below| format!("*.{below}: every name below that, whoever has it"))
                    .chain(text(shown))
                    .collect()
            }
            Self::Protected { paths, total, shown, .. } => {
                let more = total.saturating_sub(paths.len() as u64);
                let more = (more > 0).then(|| format!("and {more} more"));
                paths.iter().cloned().chain(more).chain(text(shown)).collect()
            }
        }
    }

    /// True when the whole subject is stored for display.
    #[must_use]
    pub fn is_whole(&self) -> bool {
        match self {
            Self::Release { .. } => true,
            Self::Grant { shown, .. } | Self::Network { shown, .. } | Self::Protected { shown, .. } => {
                !shown.ends_with(CUT)
            }
        }
    }

    /// Command that shows a person more of it.
    #[must_use]
    pub fn look(&self) -> Option<String> {
        match self {
            Self::Release { item, .. } => Some(format!("hotcell quarantine show {item}")),
            Self::Grant { plugin, .. } => Some(format!("hotcell tool inspect {plugin}")),
            Self::Network { .. } | Self::Protected { .. } => None,
        }
    }
}

/// Values of a call, each on lines of its own; a text of several lines is kept as such, indented.
#[must_use]
pub fn readable(value: &Value) -> String {
    let mut text = String::new();
    leaves(&mut text, "", value);
    text
}

fn leaves(text: &mut String, name: &str, value: &Value) {
    match value {
        Value::Object(fields) if !fields.is_empty() => {
            // Sorted, whatever order the caller used.
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

/// Checks that a text is short enough to be shown whole.
///
/// # Errors
/// A report when it is longer than [`MAX_TEXT_BYTES`].
pub fn whole(text: String) -> Result<String, ErrorReport> {
    if text.len() <= MAX_TEXT_BYTES {
        return Ok(text);
    }
    let why = format!(
        "a person has to approve it and would have to read {} bytes, of which at most {} KiB are shown; nobody was asked",
        text.len(),
        MAX_TEXT_BYTES / 1024
    );
    Err(ErrorReport::new(Code::InvalidValue, why)
        .hint("make the arguments, or what the workspace changes, smaller: commit the workspace, or begin a new one, first"))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn request_digest_covers_every_field() {
        let network = |hosts: &[&str], content: &str, shown: &str| ApprovalSubject::Network {
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
        let asks: std::collections::BTreeSet<_> = all.iter().map(ApprovalSubject::ask).collect();
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
    fn request_too_long_to_show_is_refused() {
        assert_eq!(whole("short".to_owned()).unwrap(), "short");
        assert!(whole("x".repeat(MAX_TEXT_BYTES)).is_ok());
        let error = whole("x".repeat(MAX_TEXT_BYTES + 1)).unwrap_err().to_string();
        assert!(error.contains("262145 bytes") && error.contains("nobody was asked"), "{error}");
        let grant = |shown: &str| ApprovalSubject::Grant {
            plugin: "p".to_owned(),
            component: "c".to_owned(),
            tool: "t".to_owned(),
            arguments: "a".to_owned(),
            shown: shown.to_owned(),
            capabilities: Vec::new(),
        };
        assert!(grant("a: 1").is_whole());
        assert!(!grant("a: 1\n(6558 more bytes are not shown, and belong to it)").is_whole());
    }
}
