//! Tools and prompts whose names a reader would take for one of another server, or for one of hotcell's: they are held. Pure.
//!
//! | name | taken for |
//! | --- | --- |
//! | `weather__github__create_issue`, `weather__x__github__create_issue`: another server's prefix in a name of its own | `github__create_issue` |
//! | `f__s__read`, `fi1es__read`: alike but for separators, letter cases and letters that look alike | `fs__read`, `files__read` |
//! | `run__code` | `run_code` |
//!
//! Of two servers whose names look alike either may be the liar, whichever was added first: both are held, until a person accepts one by its name. The other one
//! stays held then.
//!
//! Servers with tools of one name (`notes__search`, `web__search`) are usual, and their prefixes tell them apart.

use std::collections::{BTreeMap, BTreeSet};
use std::sync::LazyLock;

use super::names::SEPARATOR;
use super::words::{Shown, ShownPrompt};
use crate::pin::Kind;

/// An entry of a server's list, by the name that clients see.
pub trait Named {
    /// Kind of the list.
    const KIND: Kind;
    /// Name at its server.
    fn own(&self) -> &str;
    /// Name that clients see.
    fn name(&self) -> &str;
    /// The name as one that looks like it is compared with it.
    fn skeleton(&self) -> &str;
}

impl Named for Shown {
    const KIND: Kind = Kind::Tool;

    fn own(&self) -> &str {
        &self.own
    }

    fn name(&self) -> &str {
        &self.listed.name
    }

    fn skeleton(&self) -> &str {
        &self.skeleton
    }
}

impl Named for ShownPrompt {
    const KIND: Kind = Kind::Prompt;

    fn own(&self) -> &str {
        &self.own
    }

    fn name(&self) -> &str {
        &self.listed.name
    }

    fn skeleton(&self) -> &str {
        &self.skeleton
    }
}

/// Entries of a server, for a look at them beside those of others.
#[derive(Clone, Debug)]
pub struct Served<T> {
    /// Name of the server.
    pub server: String,
    /// Its prefix.
    pub prefix: String,
    /// Its entries.
    pub entries: Vec<T>,
    /// Keys of those that a person accepted by name.
    pub meant: BTreeSet<String>,
}

/// An entry that is held, and the name that it would be taken for.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Alike {
    /// Name that clients would see.
    pub name: String,
    /// Name, or prefix, of the other one.
    pub of: String,
    /// Command by which a person accepts this one; `None` where that is not possible.
    pub command: Option<String>,
}

impl Alike {
    /// Sentence for a person, which names both, and what to do.
    #[must_use]
    pub fn told(&self) -> String {
        let Self { name, of, command } = self;
        let how = match command {
            Some(command) => format!("if this one is meant: {command}"),
            None => "if you need both, add one of the servers by another name".to_owned(),
        };
        format!("{name} would be taken for {of}; {how}")
    }
}

/// Another server's entry that looks like one.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Rival {
    /// Name that clients see.
    pub name: String,
    /// Whether a person accepted it by name.
    pub is_meant: bool,
    /// Whether its server is named before.
    pub is_before: bool,
}

/// Splits entries into those that are listed and those that would be taken for another. `own` gives hotcell's own entry that is listed beside them, by its
/// skeleton.
#[must_use]
pub fn parted<T: Named>(
    servers: Vec<Served<T>>,
    own: impl Fn(&str) -> Option<&'static str>,
) -> (Vec<T>, Vec<Alike>) {
    let prefixes: Vec<String> = servers.iter().map(|server| server.prefix.clone()).collect();
    let mut rivals: BTreeMap<String, Vec<(usize, String, bool)>> = BTreeMap::new();
    for (number, server) in servers.iter().enumerate() {
        for entry in &server.entries {
            let is_meant = server.meant.contains(&T::KIND.key(entry.own()));
            let skeleton = entry.skeleton().to_owned();
            rivals.entry(skeleton).or_default().push((number, entry.name().to_owned(), is_meant));
        }
    }
    let (mut listed, mut held) = (Vec::new(), Vec::new());
    for (number, server) in servers.into_iter().enumerate() {
        let of = (server.server.as_str(), server.prefix.as_str());
        for entry in server.entries {
            let is_meant = server.meant.contains(&T::KIND.key(entry.own()));
            let others = rivals.get(entry.skeleton()).into_iter().flatten();
            let others = others.filter(|(other, ..)| *other != number);
            let others = others.map(|(other, name, is_meant)| Rival {
                name: name.clone(),
                is_meant: *is_meant,
                is_before: *other < number,
            });
            match held_for(&entry, of, is_meant, &prefixes, &own, others.collect()) {
                Some(alike) => held.push(alike),
                None => listed.push(entry),
            }
        }
    }
    (listed, held)
}

/// The other one for which an entry of the server with this name and prefix is held.
#[must_use]
pub fn held_for<T: Named>(
    entry: &T,
    (server, prefix): (&str, &str),
    is_meant: bool,
    prefixes: &[String],
    own: impl Fn(&str) -> Option<&'static str>,
    others: Vec<Rival>,
) -> Option<Alike> {
    let name = entry.name().to_owned();
    if let Some(of) = of_prefix(&name, prefix, prefixes) {
        return Some(Alike { name, of, command: None });
    }
    if let Some(of) = own(entry.skeleton()) {
        return Some(Alike { name, of: of.to_owned(), command: None });
    }
    let of = beaten(is_meant, others)?;
    let key = T::KIND.key(entry.own());
    let dashes = if key.starts_with('-') { "-- " } else { "" };
    let command = format!("hotcell mcp servers accept {server} {dashes}{}", for_shell(&key));
    let command = (!is_meant && !of.is_meant).then_some(command);
    Some(Alike { name, of: of.name, command })
}

/// A word as a shell reads it back: a name is the server's text, in a command that a person copies.
fn for_shell(word: &str) -> String {
    let is_plain = |byte: u8| byte.is_ascii_alphanumeric() || b"=:/@._-".contains(&byte);
    if !word.is_empty() && word.bytes().all(is_plain) {
        return word.to_owned();
    }
    format!("'{}'", word.replace('\'', "'\\''"))
}

/// The entry of another server for which one is held: one that a person accepted by name wins over one that none did, and of two the earlier server's.
fn beaten(is_meant: bool, mut others: Vec<Rival>) -> Option<Rival> {
    others.sort_by_key(|other| !other.is_meant);
    others.into_iter().find(|other| match (is_meant, other.is_meant) {
        (true, false) => false,
        (true, true) => other.is_before,
        (false, _) => true,
    })
}

/// hotcell's own tool that looks like this, by its skeleton.
#[must_use]
pub fn own_tool(skeleton: &str) -> Option<&'static str> {
    OWN.get(skeleton).copied()
}

/// hotcell's own prompt that looks like this, by its skeleton.
#[must_use]
pub fn own_prompt(skeleton: &str) -> Option<&'static str> {
    static OWN: LazyLock<BTreeMap<String, &'static str>> =
        LazyLock::new(|| crate::prompts::names().map(|name| (super::alike::skeleton(name), name)).collect());
    OWN.get(skeleton).copied()
}

/// Prefix of another server that stands before a separator in a name that clients see, behind the prefix of the tool's own server.
fn of_prefix(name: &str, prefix: &str, prefixes: &[String]) -> Option<String> {
    let own = name.strip_prefix(prefix)?.strip_prefix(SEPARATOR)?;
    let (before_last, _) = own.rsplit_once(SEPARATOR)?;
    let parts = before_last.split(SEPARATOR).filter(|part| !part.is_empty());
    let parts: Vec<String> = parts.map(skeleton).collect();
    let is_other = |other: &&String| *other != prefix && parts.contains(&skeleton(other));
    prefixes.iter().find(is_other).map(|other| format!("{other}{SEPARATOR}…"))
}

/// Names of hotcell's own tools, by their skeletons.
static OWN: LazyLock<BTreeMap<String, &'static str>> =
    LazyLock::new(|| crate::tools::all().iter().map(|tool| (skeleton(&tool.name), &*tool.name)).collect());

/// A name as a reader has it in mind: without separators and letter cases, with one letter for those that look alike.
#[must_use]
pub fn skeleton(name: &str) -> String {
    let plain = name.chars().filter(|c| !matches!(c, '_' | '-')).flat_map(char::to_lowercase);
    let plain: String = plain.collect();
    // Before `i` becomes `l`: `cl` for `d` is not taken, since it is common in words.
    let joined = plain.replace("rn", "m").replace("vv", "w");
    joined
        .chars()
        .map(|c| match c {
            '0' => 'o',
            '1' | 'i' => 'l',
            other => other,
        })
        .collect()
}

/// Whether a server with this prefix can have an entry that looks like a name, by the name's skeleton.
#[must_use]
pub fn can_have(prefix: &str, skeleton: &str) -> bool {
    let begin = self::skeleton(prefix);
    // The last letter may be the first half of one that looks like two: `rn`, `vv`.
    skeleton.starts_with(begin.strip_suffix(['r', 'v']).unwrap_or(&begin))
}

#[cfg(test)]
mod tests {
    use hotcell_client::Tool as Foreign;
    use proptest::prelude::*;
    use serde_json::json;

    use super::super::{names, words};
    use super::*;

    fn served(name: &str, tools: &[&str]) -> Served<Shown> {
        let foreign = |tool: &&str| Foreign {
            name: (*tool).to_owned(),
            definition: json!({ "name": tool, "inputSchema": { "type": "object" } }),
        };
        let foreign: Vec<Foreign> = tools.iter().map(foreign).collect();
        let entries = words::shown(name, &foreign, 10_000);
        Served { server: name.to_owned(), prefix: names::prefix(name), entries, meant: BTreeSet::new() }
    }

    fn held(servers: Vec<Served<Shown>>) -> Vec<String> {
        parted(servers, own_tool).1.into_iter().map(|alike| alike.name).collect()
    }

    #[test]
    fn servers_that_can_look_like_a_name_are_known_by_their_prefixes() {
        for (prefix, name, can) in [
            ("files", "files__greet", true),
            ("fi1es", "files__greet", true),
            ("f", "f__s__read", true),
            ("fs", "f__s__read", true),
            ("FS", "fs__read", true),
            // `car` and `n…` read as `cam…`.
            ("car", "cam__x", true),
            ("notes", "files__greet", false),
            ("filesystem", "files__greet", false),
            ("silent", "files__silent", false),
        ] {
            assert_eq!(can_have(prefix, &skeleton(name)), can, "{prefix} {name}");
        }
    }

    #[test]
    fn tools_that_look_like_those_of_others_are_held() {
        for (servers, held) in [
            // A name that begins with another server's prefix, whichever comes first.
            (
                &[("github", &["create_issue"][..]), ("weather", &["github__create_issue", "now"])][..],
                &["weather__github__create_issue"][..],
            ),
            (
                &[
                    ("a", &["github__create_issue", "GitHub__x", "g1t-hub__y"][..]),
                    ("github", &["create_issue"]),
                ],
                &["a__github__create_issue", "a__GitHub__x", "a__g1t-hub__y"],
            ),
            // Behind a separator, another part, and a letter that clients do not see.
            (
                &[
                    ("github", &["create_issue"][..]),
                    (
                        "weather",
                        &[
                            "__github__create_issue",
                            "x__github__create_issue",
                            "github.__create_issue",
                            "x___GitHub___y",
                            "x.-github__y",
                            "github__",
                            "x__github",
                        ],
                    ),
                ],
                &[
                    "weather____github__create_issue",
                    "weather__x__github__create_issue",
                    "weather__github___create_issue_",
                    "weather__x___GitHub___y",
                    "weather__github__",
                ],
            ),
            // Other letters for one, and separators at another place.
            (&[("files", &["read"][..]), ("fi1es", &["read", "other"])], &["files__read", "fi1es__read"]),
            (&[("files", &["read"][..]), ("FILES", &["read"])], &["files__read", "FILES__read"]),
            (
                &[("fs", &["read"][..]), ("f", &["s__read", "s_read", "sread", "s-Read"])],
                &["fs__read", "f__s__read", "f__s_read", "f__sread", "f__s-Read"],
            ),
            (&[("corn", &["x"][..]), ("com", &["x"])], &["corn__x", "com__x"]),
            // hotcell's own.
            (&[("run", &["code", "c0de", "codes"][..])], &["run__code", "run__c0de"]),
            (&[("Run-", &["_code"][..])], &["Run-___code"]),
        ] {
            let got = super::tests::held(servers.iter().map(|(name, tools)| served(name, tools)).collect());
            assert_eq!(got.len(), held.len(), "{got:?}");
            // A name that was changed ends with a digest.
            assert!(got.iter().zip(held).all(|(got, held)| got.starts_with(held)), "{got:?}");
        }
    }

    #[test]
    fn usual_servers_beside_each_other_lose_no_tool() {
        let servers = vec![
            served("notes", &["search", "read_file", "run_code", "list"]),
            served("web", &["search", "read_file", "github_search", "notes", "__web__", "web__x"]),
            served("github", &["search", "create_issue", "list_issues", "list-issues"]),
            served("fs", &["read", "READ"]),
            served("fs2", &["read"]),
        ];
        let count: usize = servers.iter().map(|server| server.entries.len()).sum();
        let (listed, held) = parted(servers, own_tool);
        assert_eq!((listed.len(), held), (count, vec![]));
    }

    #[test]
    fn a_person_decides_between_two_that_look_alike() {
        let (files, lies) = (&["read", "list"][..], &["read"][..]);
        let rows: [([&[&str]; 2], &[&str]); 5] = [
            // Whichever server comes first.
            ([&[], &[]], &["files__read", "fi1es__read"]),
            ([&["read"], &[]], &["fi1es__read"]),
            ([&[], &["read"]], &["files__read"]),
            ([&["read"], &["read"]], &["fi1es__read"]),
            // Acceptance of another tool does not count.
            ([&["list"], &[]], &["files__read", "fi1es__read"]),
        ];
        for (meant, want) in rows {
            let servers = || {
                let mut servers = vec![served("files", files), served("fi1es", lies)];
                for (server, meant) in servers.iter_mut().zip(meant) {
                    server.meant = meant.iter().map(|own| Kind::Tool.key(own)).collect();
                }
                servers
            };
            assert_eq!(held(servers()), want, "{meant:?}");
            let is_tie = meant.iter().all(|meant| meant.len() == 1);
            let mut other_order = held(servers().into_iter().rev().collect());
            other_order.sort_by_key(|name| name.starts_with("fi1es"));
            assert_eq!(other_order == want, !is_tie, "{meant:?}");
        }
        let (_, held) = parted(vec![served("files", files), served("fi1es", lies)], own_tool);
        let told = held[0].told();
        assert_eq!(
            told,
            "files__read would be taken for fi1es__read; if this one is meant: hotcell mcp servers accept files read"
        );
        let (_, held) = parted(vec![served("run", &["code"])], own_tool);
        assert!(held[0].told().contains("another name"), "{held:?}");
    }

    #[test]
    fn prompts_that_look_like_those_of_others_are_held() {
        let served = |name: &str, prompts: &[&str]| {
            let all: Vec<_> = prompts.iter().map(|own| json!({ "name": own })).collect();
            let entries = super::super::served::prompts(name, &all);
            Served { server: name.to_owned(), prefix: names::prefix(name), entries, meant: BTreeSet::new() }
        };
        let servers = vec![
            served("git", &["review", "sum"]),
            served("g1t", &["review"]),
            served("notes", &["x__git__review", "sum"]),
            served("write", &["plugin"]),
        ];
        let (listed, held) = parted(servers, own_prompt);
        let listed: Vec<&str> = listed.iter().map(super::Named::name).collect();
        let names: Vec<&str> = held.iter().map(|one| one.name.as_str()).collect();
        assert_eq!(listed, ["git__sum", "notes__sum"]);
        assert_eq!(names, ["git__review", "g1t__review", "notes__x__git__review", "write__plugin"]);
        assert!(held[0].told().ends_with("accept git '(prompt) review'"), "{:?}", held[0]);
        for (own, want) in [
            ("re view", "'re view'"),
            ("it's", r"'it'\''s'"),
            ("$(id)", "'$(id)'"),
            ("--shown=1", "-- --shown=1"),
        ] {
            let (entry, rival) = (
                self::served("git", &[own]).entries.remove(0),
                Rival { name: "x".to_owned(), is_meant: false, is_before: true },
            );
            let alike = held_for(&entry, ("git", "git"), false, &[], own_tool, vec![rival]).unwrap();
            assert_eq!(alike.command, Some(format!("hotcell mcp servers accept git {want}")));
        }
    }

    #[test]
    fn own_tools_that_are_not_offered_hold_none() {
        for (offered, held) in [
            (&["workspace_read"][..], &["workspace__read"][..]),
            (&["run_code"], &["run__code"]),
            (&["workspace_read", "run_code"], &["workspace__read", "run__code"]),
            (&[], &[]),
        ] {
            let servers = vec![served("workspace", &["read"]), served("run", &["code"])];
            let got = parted(servers, |skeleton| own_tool(skeleton).filter(|name| offered.contains(name))).1;
            assert_eq!(got.iter().map(|alike| alike.name.as_str()).collect::<Vec<_>>(), held);
        }
    }

    proptest! {
        #[test]
        fn every_server_can_have_its_own_names(server in "[a-zA-Z01rnv._-]{1,30}", own in "[a-z01rnv_-]{0,80}") {
            let prefix = names::prefix(&server);
            prop_assert!(can_have(&prefix, &skeleton(&names::name(&prefix, &own))));
        }

        #[test]
        fn one_server_alone_is_held_only_for_own_names(tools in prop::collection::vec("[a-zA-Z_1-]{0,12}", 0..8)) {
            let tools: Vec<&str> = tools.iter().map(String::as_str).collect();
            let (_, held) = parted(vec![served("zz", &tools)], own_tool);
            prop_assert!(held.is_empty(), "{held:?}");
        }
    }
}
