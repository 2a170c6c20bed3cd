//! The layers of a sandbox, by name.

use std::fmt;
use std::str::FromStr;

use schemars::JsonSchema;
use serde::{Deserialize, Serialize};

/// One independent isolation layer around the program. The order is that of `outcome.layers`.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord, Hash, Serialize, Deserialize, JsonSchema)]
#[serde(rename_all = "snake_case")]
pub enum Layer {
    /// Own user ids; outside, the program has an unprivileged id. `user_namespaces(7)`
    UserNs,
    /// Own file system tree, entered by `pivot_root`. `mount_namespaces(7)`
    MountNs,
    /// Own process numbers; nothing outlives process 1. `pid_namespaces(7)`
    PidNs,
    /// Own network with nothing but a loopback. `network_namespaces(7)`
    NetNs,
    /// Own System V and POSIX message queues. `ipc_namespaces(7)`
    IpcNs,
    /// Own host name. `uts_namespaces(7)`
    UtsNs,
    /// Own view of the cgroup tree. `cgroup_namespaces(7)`
    CgroupNs,
    /// Own monotonic and boot clocks. `time_namespaces(7)`
    TimeNs,
    /// Access rules that the program cannot loosen. `landlock(7)`
    Landlock,
    /// The allow-list of system calls. `seccomp(2)`
    Seccomp,
    /// Kernel limits on memory, processes and CPU for the whole tree. `cgroups(7)`
    Cgroup,
    /// Per-process limits. `setrlimit(2)`
    Rlimits,
    /// No privilege from setuid or file capabilities. `PR_SET_NO_NEW_PRIVS`
    NoNewPrivs,
    /// All capability sets empty. `capabilities(7)`
    Capabilities,
}

impl Layer {
    /// Every layer, outermost first.
    pub const ALL: [Self; 14] = [
        Self::UserNs,
        Self::MountNs,
        Self::PidNs,
        Self::NetNs,
        Self::IpcNs,
        Self::UtsNs,
        Self::CgroupNs,
        Self::TimeNs,
        Self::Landlock,
        Self::Seccomp,
        Self::Cgroup,
        Self::Rlimits,
        Self::NoNewPrivs,
        Self::Capabilities,
    ];

    /// The name used in policies, outcomes and messages.
    #[must_use]
    pub const fn name(self) -> &'static str {
        match self {
            Self::UserNs => "user_ns",
            Self::MountNs => "mount_ns",
            Self::PidNs => "pid_ns",
            Self::NetNs => "net_ns",
            Self::IpcNs => "ipc_ns",
            Self::UtsNs => "uts_ns",
            Self::CgroupNs => "cgroup_ns",
            Self::TimeNs => "time_ns",
            Self::Landlock => "landlock",
            Self::Seccomp => "seccomp",
            Self::Cgroup => "cgroup",
            Self::Rlimits => "rlimits",
            Self::NoNewPrivs => "no_new_privs",
            Self::Capabilities => "capabilities",
        }
    }
}

impl fmt::Display for Layer {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(self.name())
    }
}

/// A layer name that does not exist.
#[derive(Clone, Debug, PartialEq, Eq, thiserror::Error)]
#[error("unknown layer {name:?}; did you mean {nearest:?}?")]
pub struct UnknownLayer {
    name: String,
    nearest: &'static str,
}

impl FromStr for Layer {
    type Err = UnknownLayer;
    fn from_str(name: &str) -> Result<Self, Self::Err> {
        Self::ALL.into_iter().find(|l| l.name() == name).ok_or_else(|| UnknownLayer {
            name: name.to_owned(),
            nearest: nearest(name, Self::ALL.iter().map(|l| l.name())).unwrap_or("landlock"),
        })
    }
}

/// Characters of a mistyped word that are compared: no name is longer, and the comparison takes time and memory for
/// each.
const MAX_COMPARED_CHARS: usize = 64;

fn beginning(word: &str) -> &str {
    word.char_indices().nth(MAX_COMPARED_CHARS).map_or(word, |(at, _)| &word[..at])
}

/// The candidate closest to a mistyped `word`, by its beginning; `None` when there are no candidates.
pub fn nearest<'a>(word: &str, candidates: impl IntoIterator<Item = &'a str>) -> Option<&'a str> {
    let word = beginning(word);
    // Who typed the beginning of a name meant that one, however long the rest is.
    let far = |c: &&str| (word.is_empty() || !c.starts_with(word), strsim::damerau_levenshtein(word, c));
    candidates.into_iter().min_by_key(far)
}

/// As [`nearest`], and `None` where no candidate is like the word: naming one would be a guess.
pub fn likely<'a>(word: &str, candidates: impl IntoIterator<Item = &'a str>) -> Option<&'a str> {
    let word = beginning(word);
    let near = nearest(word, candidates)?;
    let longer = word.chars().count().max(near.chars().count());
    let is_part = word.chars().count() > 1 && (near.starts_with(word) || word.starts_with(near));
    (is_part || strsim::damerau_levenshtein(word, near) * 2 <= longer).then_some(near)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn names_round_trip_and_mistakes_name_the_nearest() {
        for layer in Layer::ALL {
            assert_eq!(layer.name().parse::<Layer>().unwrap(), layer);
            assert_eq!(serde_json::to_value(layer).unwrap(), layer.name());
        }
        let error = "secomp".parse::<Layer>().unwrap_err().to_string();
        assert!(error.contains("seccomp"), "{error}");
    }

    #[test]
    fn name_suggestion_uses_prefix_or_similarity() {
        let clients =
            ["cline", "claude-desktop", "claude-code", "codex", "cursor", "gemini-cli", "goose", "vscode"];
        for (word, want) in [
            ("claude", Some("claude-code")),
            ("gem", Some("gemini-cli")),
            ("gemini", Some("gemini-cli")),
            ("clime", Some("cline")),
            ("code", Some("codex")),
            ("vs-code", Some("vscode")),
            ("windsurf", None),
            ("q", None),
            ("", None),
        ] {
            assert_eq!(likely(word, clients), want, "{word}");
        }
        assert_eq!(likely("cobol", ["go", "python", "c"]), None);
        // The comparison takes time and memory for each character of either.
        let long = "ö".repeat(8 << 20);
        assert_eq!(likely(&long, clients), None);
        assert!(nearest(&long, clients).is_some());
        assert_eq!(likely(&format!("codex{long}"), clients), Some("codex"));
        assert_eq!(nearest("", ["ab", "c"]), Some("c"));
    }
}
