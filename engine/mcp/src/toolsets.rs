//! Toolsets: which of the server's own tools a client is offered. A model pays for each tool's schema in every conversation, so the default is
//! small; the operator chooses more.

use std::collections::BTreeSet;

use hotcell_sandbox::layer::likely;
use hotcell_server::Live;

/// Name of the set that is offered unless the operator chose others.
const DEFAULT: &str = "default";
/// Name that stands for every set.
const ALL: &str = "all";
/// Set of the verbs of agent definitions, which are not listed here.
pub(crate) const AGENTS: &str = "agents";
/// Set of the sessions in which models write code.
pub(crate) const AGENT_SERVICE: &str = "agent-service";
/// Set of the tools of plugins, which are not listed here.
const PLUGINS: &str = "tools";

/// A set by its name: its tools, and its purpose for people.
#[derive(Clone, Copy, Debug)]
pub struct Toolset {
    /// Name, as the operator writes it.
    pub name: &'static str,
    /// Tools of it.
    pub tools: &'static [&'static str],
    /// Purpose.
    pub about: &'static str,
}

/// All sets. A tool may be in several; each tool is in one besides `default`.
pub const TOOLSETS: [Toolset; 12] = [
    Toolset {
        name: DEFAULT,
        tools: &[
            "run_code",
            "run_command",
            "run_tests",
            "run_status",
            "run_output",
            "workspace_create",
            "workspace_write",
            "workspace_edit",
            "workspace_read",
            "workspace_commit",
        ],
        about: "write code, run it and its tests, take changes over; and the plugins' tools",
    },
    Toolset {
        name: "run",
        tools: &["run_code", "run_command", "run_tests", "run_status", "run_output", "run_cancel"],
        about: "run code, programs and tests, and follow them",
    },
    Toolset {
        name: "workspace",
        tools: &[
            "workspace_create",
            "workspace_write",
            "workspace_edit",
            "workspace_read",
            "workspace_list",
            "workspace_remove",
            "workspace_diff",
            "workspace_commit",
            "workspace_image",
        ],
        about: "files and folders that stay between calls",
    },
    Toolset {
        name: "snapshots",
        tools: &["workspace_discard", "workspace_snapshot", "workspace_fork", "workspace_export"],
        about: "states of a workspace to go back to, copies, an archive",
    },
    Toolset {
        name: "guard",
        tools: &["scan_artifact", "quarantine_list", "quarantine_show", "quarantine_request"],
        about: "read code without running it, and ask for releases",
    },
    Toolset { name: "policies", tools: &["read_org_policies"], about: "an organisation's rules for code" },
    Toolset {
        name: "sessions",
        tools: &[
            "session_create",
            "session_execute",
            "session_upload",
            "session_interrupt",
            "session_reset",
            "session_list",
            "session_close",
        ],
        about: "interpreters whose variables stay between calls",
    },
    Toolset {
        name: "terminal",
        tools: &["terminal_start", "terminal_send", "terminal_screen", "terminal_resize", "terminal_close"],
        about: "programs that are driven by keys, and seen as a screen",
    },
    Toolset { name: "host", tools: &["doctor"], about: "examine what the host can enforce" },
    Toolset { name: AGENTS, tools: &[], about: "verbs of agent definitions, such as review_analyze_v1" },
    Toolset {
        name: AGENT_SERVICE,
        tools: &[
            "get_repo_map",
            "get_project_status",
            "execute_task_spec",
            "revise_code",
            "inject_alternative_pattern",
            "run_critic_review",
            "generate_test_suite",
            "configure_endpoint",
            "set_system_prompts",
            "get_progress_summary",
            "final_handoff_archive",
        ],
        about: "let the operator's models write and review code, judged by tests",
    },
    Toolset { name: PLUGINS, tools: &[], about: "the tools of plugins" },
];

/// The sets that a server offers.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Toolsets {
    tools: BTreeSet<&'static str>,
    plugins: bool,
    /// Names of foreign servers; `None` for all of them.
    servers: Option<BTreeSet<String>>,
    verbs: bool,
}

impl Default for Toolsets {
    fn default() -> Self {
        Self {
            tools: TOOLSETS[0].tools.iter().copied().collect(),
            plugins: true,
            verbs: false,
            servers: None,
        }
    }
}

impl Toolsets {
    /// The union of the named sets; of none, the default one. Each foreign server is a set by its name: of servers, the named ones are offered, or all
    /// of them where none is named, since they were chosen already.
    ///
    /// # Errors
    /// A sentence with the nearest name, for a name that is not a set.
    pub fn parse<S: AsRef<str>>(names: &[S], servers: &[&str]) -> Result<Self, String> {
        if names.is_empty() {
            return Ok(Self::default());
        }
        let mut sets = Self { tools: BTreeSet::new(), plugins: false, verbs: false, servers: None };
        for name in names {
            let name = name.as_ref().trim();
            let is_wanted = |set: &&Toolset| name == ALL || set.name == name;
            let mut wanted = TOOLSETS.iter().filter(is_wanted).peekable();
            if servers.contains(&name) {
                sets.servers.get_or_insert_default().insert(name.to_owned());
            } else if wanted.peek().is_none() {
                let known =
                    || TOOLSETS.iter().map(|set| set.name).chain(servers.iter().copied()).chain([ALL]);
                let near =
                    likely(name, known()).map(|near| format!("did you mean {near}? ")).unwrap_or_default();
                let all = known().collect::<Vec<_>>().join(", ");
                return Err(format!("there is no toolset {name:?}; {near}there are {all}"));
            }
            for set in wanted {
                sets.tools.extend(set.tools);
                sets.verbs |= set.name == AGENTS;
                sets.plugins |= set.name == DEFAULT || set.name == PLUGINS;
            }
        }
        if names.iter().any(|name| name.as_ref().trim() == ALL) {
            sets.servers = None;
        }
        Ok(sets)
    }

    /// The server's own tools of the named sets, whatever foreign servers there are: a name that is not a set is taken for one of theirs.
    #[must_use]
    pub fn own<S: AsRef<str>>(names: &[S]) -> Self {
        let names: Vec<&str> = names.iter().map(|name| name.as_ref().trim()).collect();
        Self::parse(&names, &names).unwrap_or_default()
    }

    /// Whether the tools of a foreign server are offered.
    #[must_use]
    pub fn has_server(&self, name: &str) -> bool {
        self.servers.as_ref().is_none_or(|servers| servers.contains(name))
    }

    /// Whether one of the server's own tools is offered.
    #[must_use]
    pub fn has(&self, tool: &str) -> bool {
        self.tools.contains(tool)
    }

    /// The server's own tools that words of its own name and that are off, each once; lines behind bars are of others. Names without an underscore
    /// are words, too, and a name with its toolset behind it says enough.
    #[must_use]
    pub fn off_in(&self, words: &str) -> Vec<&'static str> {
        let own: Vec<&str> = words.lines().filter(|line| !line.starts_with('|')).collect();
        let is_named = |tool: &str| {
            own.iter().any(|line| {
                line.match_indices(tool).any(|(at, _)| {
                    let (before, after) = (&line[..at], &line[at + tool.len()..]);
                    let is_part = |c: char| c.is_alphanumeric() || c == '_' || c == '-';
                    !before.ends_with(is_part)
                        && !after.starts_with(is_part)
                        && !after.starts_with(" (toolset ")
                })
            })
        };
        let all = TOOLSETS.iter().skip(1).flat_map(|set| set.tools).copied();
        all.filter(|tool| tool.contains('_') && !self.has(tool) && is_named(tool)).collect()
    }

    /// Whether the verbs of agent definitions are offered.
    #[must_use]
    pub const fn has_verbs(&self) -> bool {
        self.verbs
    }

    /// Whether the tools of plugins are offered.
    #[must_use]
    pub const fn has_plugins(&self) -> bool {
        self.plugins
    }
}

/// Name of the set, besides the default one, that a tool of the server's own is in; `None` for other tools.
#[must_use]
pub fn set_of(tool: &str) -> Option<&'static str> {
    TOOLSETS.iter().skip(1).find(|set| set.tools.contains(&tool)).map(|set| set.name)
}

/// Toolsets of a configuration, with those of foreign servers. Names were checked before the server began; a wrong one leaves the default.
#[must_use]
pub fn offered(live: &Live, servers: &[&str]) -> Toolsets {
    Toolsets::parse(live.configuration().toolsets(), servers).unwrap_or_default()
}

/// Says that tools are off, with the toolset of each.
#[must_use]
pub fn said_off(tools: &[&str]) -> String {
    let named: Vec<_> =
        tools.iter().map(|tool| format!("{tool} (toolset {})", set_of(tool).unwrap_or_default())).collect();
    format!("not offered by this server: {}", named.join(", "))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn named_tools_that_are_off_are_found() {
        let default = Toolsets::default();
        for (words, off) in [
            ("workspace_list shows what is there", &["workspace_list"][..]),
            ("`workspace_list`, workspace_read; (workspace_diff).", &["workspace_list", "workspace_diff"]),
            ("workspace_list, and workspace_list", &["workspace_list"]),
            ("quarantine_request (toolset guard) asks for it", &[]),
            ("my_workspace_list, workspace_lists, workspace_list-2", &[]),
            ("run_status waits; hotcell doctor says why", &[]),
            ("failed\n| workspace_list of a program", &[]),
            ("", &[]),
        ] {
            assert_eq!(default.off_in(words), off, "{words}");
        }
        let all = Toolsets::parse(&["all"], &[]).unwrap();
        assert!(all.off_in("workspace_list, session_reset, terminal_send").is_empty());
        assert_eq!(
            said_off(&["workspace_list", "run_cancel"]),
            "not offered by this server: workspace_list (toolset workspace), run_cancel (toolset run)"
        );
    }

    #[test]
    fn each_tool_is_in_one_set_besides_the_default() {
        for tool in crate::tools::all() {
            let sets = TOOLSETS.iter().skip(1).filter(|set| set.tools.contains(&&*tool.name)).count();
            assert_eq!(sets, 1, "{}", tool.name);
        }
        let known: Vec<_> = crate::tools::all().iter().map(|tool| tool.name.as_ref()).collect();
        for tool in TOOLSETS.iter().flat_map(|set| set.tools) {
            assert!(known.contains(tool), "{tool}");
        }
        assert!(TOOLSETS[0].tools.len() <= 10);
    }

    #[test]
    fn names_are_united_and_wrong_ones_explained() {
        let of = |names: &[&str]| Toolsets::parse(names, &["fs", "weather"]);
        assert_eq!(of(&[]).unwrap(), Toolsets::default());
        assert_eq!(of(&["default"]).unwrap(), Toolsets::default());
        let guard = of(&["guard"]).unwrap();
        assert!(guard.has("scan_artifact") && !guard.has("run_code") && !guard.has_plugins());
        assert!(of(&["guard", " tools "]).unwrap().has_plugins());
        assert!(of(&["agents"]).unwrap().has_verbs() && !Toolsets::default().has_verbs());
        let all = of(&["all"]).unwrap();
        assert!(all.has_verbs());
        assert!(crate::tools::all().iter().all(|tool| all.has(&tool.name)) && all.has_plugins());
        for (names, [fs, weather, run]) in [
            (&[][..], [true, true, true]),
            (&["default"], [true, true, true]),
            (&["fs"], [true, false, false]),
            (&["fs", "default"], [true, false, true]),
            (&["fs", "all"], [true, true, true]),
        ] {
            let sets = of(names).unwrap();
            let got = [sets.has_server("fs"), sets.has_server("weather"), sets.has("run_code")];
            assert_eq!(got, [fs, weather, run], "{names:?}");
        }
        for (names, [run_code, run_cancel]) in [
            (&[][..], [true, false]),
            (&["run", "github"], [true, true]),
            (&["github", " run "], [true, true]),
            (&["all", "github"], [true, true]),
            (&["default", "github"], [true, false]),
            (&["github"], [false, false]),
        ] {
            let sets = Toolsets::own(names);
            assert_eq!([sets.has("run_code"), sets.has("run_cancel")], [run_code, run_cancel], "{names:?}");
        }
        assert!(of(&["wether"]).unwrap_err().contains("did you mean weather?"));
        for (name, near) in [("gard", "did you mean guard?"), ("", "there are default"), ("ALL", "all")] {
            let why = of(&[name]).unwrap_err();
            assert!(why.contains(near), "{name}: {why}");
        }
        assert_eq!(
            (set_of("doctor"), set_of("run_code"), set_of("files_read")),
            (Some("host"), Some("run"), None)
        );
    }
}
