//! Tools whose names a reader would take for a tool of another server, or for one of hotcell's: they are held. Pure.
//!
//! | name | taken for |
//! | --- | --- |
//! | `weather__github__create_issue`, `weather__x__github__create_issue`: another server's prefix in a name of its own | `github__create_issue` |
//! | `f__s__read`, `fi1es__read`: alike but for separators, letter cases and letters that look alike | `fs__read`, `files__read` |
//! | `run__code` | `run_code` |
//!
//! Servers with tools of one name (`notes__search`, `web__search`) are usual, and their prefixes tell them apart.

use std::collections::BTreeMap;
use std::sync::LazyLock;

use super::names::SEPARATOR;
use super::words::Shown;

/// Tools of a server, for a look at them beside those of others.
#[derive(Clone, Debug)]
pub struct Served {
    /// Prefix of the server.
    pub prefix: String,
    /// Its tools.
    pub tools: Vec<Shown>,
}

/// A tool that is held, and the name that it would be taken for.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Alike {
    /// Name that clients would see.
    pub name: String,
    /// Name, or prefix, of the other one.
    pub of: String,
}

/// Splits tools into those that are listed and those that would be taken for another: of two that look alike, the one of the later server. `is_offered` knows
/// hotcell's own tools that are listed beside them.
#[must_use]
pub fn parted(servers: Vec<Served>, is_offered: impl Fn(&str) -> bool) -> (Vec<Shown>, Vec<Alike>) {
    let prefixes: Vec<String> = servers.iter().map(|server| server.prefix.clone()).collect();
    let mut before: BTreeMap<String, String> = BTreeMap::new();
    let (mut listed, mut held) = (Vec::new(), Vec::new());
    for server in servers {
        let mut own = Vec::new();
        for tool in server.tools {
            let name = tool.listed.name.to_string();
            own.push((tool.skeleton.clone(), name.clone()));
            let of = taken_for(&tool, &server.prefix, &prefixes, &is_offered, |skeleton| {
                before.get(skeleton).cloned()
            });
            match of {
                Some(of) => held.push(Alike { name, of }),
                None => listed.push(tool),
            }
        }
        before.extend(own);
    }
    (listed, held)
}

/// The name for which a tool of the server with this prefix would be taken. `is_offered` knows hotcell's own tools that are listed beside it, `before` finds a tool
/// of the servers before it by its skeleton.
#[must_use]
pub fn taken_for(
    tool: &Shown,
    prefix: &str,
    prefixes: &[String],
    is_offered: impl Fn(&str) -> bool,
    before: impl Fn(&str) -> Option<String>,
) -> Option<String> {
    let own = || OWN.get(&tool.skeleton).filter(|name| is_offered(name)).map(|name| (*name).to_owned());
    of_prefix(&tool.listed.name, prefix, prefixes).or_else(own).or_else(|| before(&tool.skeleton))
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

#[cfg(test)]
mod tests {
    use hotcell_client::Tool as Foreign;
    use proptest::prelude::*;
    use serde_json::json;

    use super::super::{names, words};
    use super::*;

    fn served(name: &str, tools: &[&str]) -> Served {
        let foreign = |tool: &&str| Foreign {
            name: (*tool).to_owned(),
            definition: json!({ "name": tool, "inputSchema": { "type": "object" } }),
        };
        let foreign: Vec<Foreign> = tools.iter().map(foreign).collect();
        Served { prefix: names::prefix(name), tools: words::shown(name, &foreign, 10_000) }
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
            (&[("files", &["read"][..]), ("fi1es", &["read", "other"])], &["fi1es__read"]),
            (&[("files", &["read"][..]), ("FILES", &["read"])], &["FILES__read"]),
            (
                &[("fs", &["read"][..]), ("f", &["s__read", "s_read", "sread", "s-Read"])],
                &["f__s__read", "f__s_read", "f__sread", "f__s-Read"],
            ),
            (&[("corn", &["x"][..]), ("com", &["x"])], &["com__x"]),
            // hotcell's own.
            (&[("run", &["code", "c0de", "codes"][..])], &["run__code", "run__c0de"]),
            (&[("Run-", &["_code"][..])], &["Run-___code"]),
        ] {
            let servers = servers.iter().map(|(name, tools)| served(name, tools)).collect();
            let got: Vec<String> = parted(servers, |_| true).1.into_iter().map(|alike| alike.name).collect();
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
        let count: usize = servers.iter().map(|server| server.tools.len()).sum();
        let (listed, held) = parted(servers, |_| true);
        assert_eq!((listed.len(), held), (count, vec![]));
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
            let got = parted(servers, |name| offered.contains(&name)).1;
            assert_eq!(got.iter().map(|alike| alike.name.as_str()).collect::<Vec<_>>(), held);
        }
    }

    proptest! {
        #[test]
        fn one_server_alone_is_held_only_for_own_names(tools in prop::collection::vec("[a-zA-Z_1-]{0,12}", 0..8)) {
            let tools: Vec<&str> = tools.iter().map(String::as_str).collect();
            let (_, held) = parted(vec![served("zz", &tools)], |_| true);
            prop_assert!(held.is_empty(), "{held:?}");
        }
    }
}
