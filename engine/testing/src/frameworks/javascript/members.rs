//! Members of a JavaScript workspace, and what their scripts `test` start: a run from the top has one framework alone. Pure.

use std::collections::{BTreeMap, BTreeSet};

use serde_json::Value;

use super::script::{self, Scripts};
use super::{MAX_MEMBERS, manifest};
use crate::project::Project;
use crate::text::clip;

/// Files that make a folder a workspace, besides `workspaces` in its `package.json`.
const OTHERS: [&str; 2] = ["pnpm-workspace.yaml", "lerna.json"];
/// Maximum number of patterns, and length of each in bytes.
const MAX_PATTERNS: usize = 100;
const MAX_PATTERN_BYTES: usize = 200;
/// Maximum number of members that a message names.
const MAX_TOLD: usize = 4;

/// A member whose script `test` starts a test runner.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Member {
    /// Its folder.
    pub folder: String,
    /// Names of the runners, supported and others.
    pub runners: BTreeSet<&'static str>,
}

/// True when the folder of this `package.json` is a workspace.
pub(super) fn is_workspace(top: &Value, project: &dyn Project) -> bool {
    !top["workspaces"].is_null() || OTHERS.iter().any(|file| project.has(file))
}

/// Members whose script `test` starts a test runner, by folder.
pub(super) fn tested(top: &Value, project: &dyn Project) -> Vec<Member> {
    if !is_workspace(top, project) {
        return Vec::new();
    }
    let patterns = patterns(top, project);
    let folders = project.files().iter().filter_map(|file| file.strip_suffix("/package.json"));
    let own = folders.filter(|folder| is_member(folder, &patterns)).take(MAX_MEMBERS);
    own.filter_map(|folder| {
        let json = manifest(project, &format!("{folder}/package.json"))?;
        let scripts: BTreeMap<String, String> = json["scripts"]
            .as_object()?
            .iter()
            .filter_map(|(name, text)| Some((name.clone(), text.as_str()?.to_owned())))
            .collect();
        let plan = script::plan(Scripts { scripts: &scripts, tests_of: &|_| None })?;
        let runners: BTreeSet<&'static str> =
            plan.starts().into_iter().map(|start| start.framework).chain(plan.foreign()).collect();
        (!runners.is_empty()).then(|| Member { folder: folder.to_owned(), runners })
    })
    .collect()
}

/// Names the members that have tests of their own, and what these run by; `None` without any.
#[must_use]
pub fn told(members: &[Member]) -> Option<String> {
    let named = members.iter().take(MAX_TOLD).map(|one| {
        let runners: Vec<&str> = one.runners.iter().copied().collect();
        format!("{} by {}", clip(&one.folder, 200), runners.join(" and "))
    });
    let named: Vec<String> = named.collect();
    let more = if members.len() > MAX_TOLD { ", …" } else { "" };
    (!named.is_empty())
        .then(|| format!("members of the workspace have tests of their own: {}{more}", named.join(", ")))
}

/// Patterns of members, as npm, yarn, pnpm and lerna have them.
fn patterns(top: &Value, project: &dyn Project) -> Vec<String> {
    let lists = |json: &Value, key: &str| -> Vec<String> {
        let all = json[key].as_array().into_iter().flatten();
        all.filter_map(|one| one.as_str().map(str::to_owned)).collect()
    };
    let mut patterns = lists(top, "workspaces");
    patterns.extend(lists(&top["workspaces"], "packages"));
    if let Some(lerna) = manifest(project, "lerna.json") {
        patterns.extend(lists(&lerna, "packages"));
    }
    let pnpm = project.read("pnpm-workspace.yaml").unwrap_or_default();
    patterns.extend(listed(&String::from_utf8_lossy(&pnpm)));
    patterns.retain(|pattern| pattern.len() <= MAX_PATTERN_BYTES);
    patterns.truncate(MAX_PATTERNS);
    patterns
}

/// The list `packages` of a `pnpm-workspace.yaml`.
fn listed(text: &str) -> Vec<String> {
    let mut lines = text.lines().skip_while(|line| line.trim_end() != "packages:").skip(1);
    let items = std::iter::from_fn(|| {
        lines.find(|line| !line.trim().is_empty() && !line.trim_start().starts_with('#'))
    });
    items
        .map_while(|line| line.trim_start().strip_prefix("- "))
        .map(|item| item.split(" #").next().unwrap_or(item).trim().trim_matches(['\'', '"']).to_owned())
        .collect()
}

/// True for a folder that these patterns name. The last pattern that fits decides, `!` leaves out.
fn is_member(folder: &str, patterns: &[String]) -> bool {
    let fitting = patterns.iter().rev().find(|pattern| fits(pattern.trim_start_matches('!'), folder));
    fitting.is_some_and(|pattern| !pattern.starts_with('!'))
}

/// Matches a folder with a pattern: `*` within a part, `**` for any number of parts.
fn fits(pattern: &str, folder: &str) -> bool {
    let pattern = pattern.trim_start_matches("./").trim_end_matches('/');
    let parts: Vec<&str> = folder.split('/').collect();
    // Numbers of parts that the pattern so far matches.
    let mut reached = vec![false; parts.len() + 1];
    reached[0] = true;
    for pattern in pattern.split('/') {
        let mut any = false;
        reached = match pattern {
            "**" => reached
                .iter()
                .map(|here| {
                    any |= *here;
                    any
                })
                .collect(),
            _ => {
                let next = parts.iter().zip(&reached).map(|(part, here)| *here && fits_part(pattern, part));
                std::iter::once(false).chain(next).collect()
            }
        };
    }
    reached[parts.len()]
}

fn fits_part(pattern: &str, part: &str) -> bool {
    pattern.split_once('*').map_or(pattern == part, |(head, tail)| {
        part.len() >= head.len() + tail.len() && part.starts_with(head) && part.ends_with(tail)
    })
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn member_folders_are_named_by_patterns() {
        for (patterns, folder, want) in [
            (&["packages/*"][..], "packages/a", true),
            (&["./packages/*/"], "packages/a", true),
            (&["packages/*"], "packages/a/fixtures/b", false),
            (&["packages/**"], "packages/a/b", true),
            (&["packages/**/b"], "packages/b", true),
            (&["packages/**/b"], "packages/a/c/b", true),
            (&["packages/**/b"], "packages/a/b/c", false),
            (&["**/**/**/x"], "a/b/c/d/e/f/g", false),
            (&["**"], "a", true),
            (&["apps/web"], "apps/web", true),
            (&["apps/web-*"], "apps/web-one", true),
            (&["apps/web-*"], "apps/web", false),
            (&["packages/*", "!packages/old"], "packages/old", false),
            (&["packages/**", "!**/fixtures/**"], "packages/a/fixtures/b", false),
            (&[], "packages/a", false),
        ] {
            let patterns: Vec<String> = patterns.iter().map(|one| (*one).to_owned()).collect();
            assert_eq!(is_member(folder, &patterns), want, "{patterns:?} {folder}");
        }
    }

    #[test]
    fn members_with_tests_are_named() {
        let member = |folder: &str, runners: &[&'static str]| Member {
            folder: folder.to_owned(),
            runners: runners.iter().copied().collect(),
        };
        let head = "members of the workspace have tests of their own: ";
        for (members, want) in [
            (vec![], None),
            (vec![member("a", &["jest"])], Some("a by jest")),
            (
                vec![member("a", &["jest"]), member("b", &["mocha", "uvu"])],
                Some("a by jest, b by mocha and uvu"),
            ),
            (vec![member("a", &["jest"]); 5], Some("a by jest, a by jest, a by jest, a by jest, …")),
        ] {
            assert_eq!(told(&members), want.map(|want| format!("{head}{want}")));
        }
    }

    #[test]
    fn pnpm_list_is_read() {
        let text = "# all\npackages:\n  - 'packages/*' # own\n  # more\n\n  - \"!**/old\"\n  - apps/web\ncatalog:\n  - x\n";
        assert_eq!(listed(text), ["packages/*", "!**/old", "apps/web"]);
        assert_eq!(listed("packages:\n- a\nother: 1\n- b\n"), ["a"]);
        assert_eq!(listed("other:\n - a\n"), Vec::<String>::new());
    }
}
