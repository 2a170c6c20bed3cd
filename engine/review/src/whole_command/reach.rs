//! Resolves a path that a program names to files: from the working folder, from the program's folder, from
//! folders that the program changes to, and, if a part of the path is known only at run time, to every file
//! that matches.

use std::collections::{BTreeMap, BTreeSet, HashMap};
use std::ffi::OsString;
use std::path::{Component, Path};

use hotcell_guard::command::{self, As, Command, Item};
use hotcell_guard::{HOLE, PartState, Report, Verdict, unread};

use crate::target::Target;

use super::{Feed, From, Round};

/// Maximum number of files that one path may lead to; beyond it the run counts as not read.
const MAX_PATH_FILES: usize = 512;
/// Language of a file that is made in the run.
const MADE_LATER: &str = "made in the run";
/// The working folder inside a sandbox, and the home folder above it.
const PROJECT: &str = "/home/sandbox/project";
const HOME: &str = "/home/sandbox";
/// Maximum size of a file of variables, in bytes.
const MAX_VARIABLES_BYTES: u64 = 1 << 20;

/// The workspace's files, and how the run may refer to them.
#[derive(Default)]
pub struct Reach {
    /// True when something that runs changes the folder, or starts something in another: a relative path may
    /// then begin in any folder.
    pub moves: bool,
    /// Paths of the command itself that are known in part.
    pub patterns: BTreeSet<(String, As)>,
    /// Files that are given to programs unknown to the guard, with the program.
    given: BTreeMap<String, String>,
    /// The workspace's files, by the last part of their paths.
    by_name: HashMap<String, BTreeSet<String>>,
}

impl Reach {
    /// Records the files of a workspace.
    pub fn know(&mut self, report: &Report) {
        for part in &report.coverage.parts {
            let name = part.path.rsplit('/').next().unwrap_or(&part.path);
            self.by_name.entry(name.to_owned()).or_default().insert(part.path.clone());
        }
    }

    pub fn give(&mut self, path: &str, program: &str) {
        self.given.entry(path.to_owned()).or_insert_with(|| program.to_owned());
    }

    /// Files whose paths end in this one.
    fn below(&self, path: &str) -> impl Iterator<Item = &String> {
        let name = path.rsplit('/').next().unwrap_or(path);
        self.by_name.get(name).into_iter().flatten().filter(move |own| {
            own.strip_suffix(path).is_some_and(|rest| rest.is_empty() || rest.ends_with('/'))
        })
    }

    /// Files whose absolute paths inside match.
    fn at(&self, pattern: &str) -> impl Iterator<Item = &String> {
        let pattern: Vec<char> = pattern.chars().collect();
        self.by_name.values().flatten().filter(move |path| matches(&pattern, &format!("{PROJECT}/{path}")))
    }

    fn like(&self, pattern: &str) -> impl Iterator<Item = &String> {
        let pattern: Vec<char> = pattern.chars().collect();
        self.by_name.values().flatten().filter(move |path| matches(&pattern, path))
    }
}

impl Round<'_, '_> {
    /// Progress of the search; it is complete when this no longer changes.
    pub fn state(&self) -> (usize, usize, usize, usize, bool) {
        let parts = self.parts.iter().filter(|(_, report)| report.is_some()).count();
        (self.started.len(), self.run.len(), self.reach.patterns.len(), parts, self.reach.moves)
    }

    /// Files that a path leads to.
    pub fn resolve(
        &mut self,
        path: &str,
        part: &str,
        from: From,
        read: &HashMap<&str, Vec<&str>>,
    ) -> BTreeSet<String> {
        let path = self.inside(path);
        let runs = from == From::Command || self.runs(part);
        let mut all = BTreeSet::new();
        if !path.contains(HOLE) {
            let beside = match from {
                From::Workspace => Path::new(part).parent().map(|folder| folder.join(&path)),
                From::Command => None,
            };
            let beside = beside.as_deref().and_then(Path::to_str).map(str::to_owned);
            let both = [Some(path.clone()), beside].into_iter().flatten();
            all.extend(both.filter_map(|path| match from {
                // For files that the walk has seen there is no need to read the folder, unless a link is on
                // the way.
                From::Workspace => match plain(&path) {
                    Some(plain) if read.contains_key(plain.as_str()) || has_link(&plain, read) => {
                        command::file(self.view, &plain)
                    }
                    Some(_) => None,
                    None => command::file(self.view, &path),
                },
                From::Command => command::file(self.view, &path),
            }));
        }
        // Any program that starts git uses git's own settings.
        if runs || part.contains(".git/") {
            all.extend(self.wide(&path, part));
        }
        all
    }

    /// Further files that a path may lead to, beside the one that it names.
    fn wide(&mut self, path: &str, part: &str) -> BTreeSet<String> {
        let is_pattern = path.contains([HOLE, '*', '?', '[']);
        let mut all: BTreeSet<String> = BTreeSet::new();
        // `"${PWD%/*}/project/x"`: the absolute path of a file may be what is known in part.
        if is_pattern && path.starts_with(['/', HOLE]) && path.contains(|c: char| c.is_alphanumeric()) {
            all.extend(self.reach.at(path).cloned());
        }
        if path.starts_with('/') {
            return all.into_iter().filter_map(|path| command::file(self.view, &path)).collect();
        }
        if !is_pattern && !self.reach.moves {
            return BTreeSet::new();
        }
        let below = steps(path);
        if !is_pattern {
            all.extend(self.reach.below(&below).cloned());
        } else if below.contains(HOLE) && !below.contains(|c: char| c.is_alphanumeric()) {
            let why = "the name of a file that it executes is known only when it runs";
            self.say(&format!("{part} (a file)"), why, "");
        } else {
            all.extend(self.reach.like(&below).cloned());
            if self.reach.moves || below.starts_with(HOLE) {
                let anywhere = below.trim_start_matches([HOLE, '/']);
                all.extend(self.reach.like(&format!("*/{anywhere}")).cloned());
                all.extend(self.reach.like(anywhere).cloned());
            }
        }
        let mut all: BTreeSet<String> =
            all.into_iter().filter_map(|path| command::file(self.view, &path)).collect();
        if all.len() > MAX_PATH_FILES {
            let shown = path.replace(HOLE, "…");
            let why =
                format!("{shown} may be any of {} files, which are too many to read as that", all.len());
            self.unnamed(format!("{part} ({shown})"), why);
            all.clear();
        }
        all
    }

    /// Makes a path that begins with the working folder, or the home folder above it, relative to it.
    fn inside(&self, path: &str) -> String {
        let at_home = path.strip_prefix("~/").map(|rest| format!("{HOME}/{rest}"));
        let path = at_home.as_deref().unwrap_or(path);
        let base = self.base.as_deref().and_then(Path::to_str).unwrap_or(PROJECT);
        let below = |root: &str| {
            path.strip_prefix(root)
                .filter(|rest| rest.starts_with('/'))
                .map(|rest| rest.trim_start_matches('/'))
        };
        match below(PROJECT).or_else(|| below(base)) {
            Some(rest) => format!("./{rest}"),
            None => path.to_owned(),
        }
    }

    /// Follows the command's own paths that are known in part.
    pub fn patterns(&mut self) -> bool {
        let mut found = false;
        for (path, language) in self.reach.patterns.clone() {
            for path in self.resolve(&path, "argv", From::Command, &HashMap::new()) {
                found |= match language {
                    As::Own => self.program(&path),
                    language => self.take(&Item::File { path, language }),
                };
            }
        }
        found
    }

    /// Scans a program of the workspace, given by its real path.
    pub fn program(&mut self, path: &str) -> bool {
        let argv = [OsString::from(format!("./{path}"))];
        let stdin = !matches!(self.feed, Feed::Nothing);
        let command = Command { argv: &argv, env: &[], stdin, files: self.view };
        let mut found = false;
        for item in command::executed(&command) {
            found |= self.take(&item);
        }
        found
    }

    /// Follows variables in a file that a program sets for itself: code that they make it load.
    pub fn variables(&mut self, path: &str) -> bool {
        let Some(bytes) = self.view.read(Path::new(path), MAX_VARIABLES_BYTES) else {
            self.unnamed(format!("{path} (variables)"), "it cannot be read".to_owned());
            return false;
        };
        let text = String::from_utf8_lossy(&bytes);
        let env: Vec<(OsString, OsString)> = text
            .lines()
            .filter_map(|line| line.trim().trim_start_matches("export ").split_once('='))
            .map(|(name, value)| (name.trim(), value.trim().trim_matches(['"', '\'', '`'])))
            .map(|(name, value)| (name.into(), value.into()))
            .collect();
        let command = Command { argv: &[], env: &env, stdin: false, files: self.view };
        let mut found = false;
        for item in command::executed(&command) {
            found |= self.take(&item);
        }
        found
    }

    /// Reports an executed file that is not there before the run, so that something in the run makes it. The
    /// system's own files are there, and so are those that hotcell adds.
    pub fn later(&mut self, path: &str, part: &str) {
        let path = self.inside(path);
        if self.view.provided.contains(&path) {
            return;
        }
        let made = !path.starts_with('/')
            || ["/tmp/", "/var/tmp/", "/dev/shm/", "/home/"].iter().any(|at| path.starts_with(at));
        if made && !path.contains([HOLE, '*', '?', '[']) && command::file(self.view, &path).is_none() {
            let why = "it is not there before the run; what makes it may put anything into it";
            self.say(&format!("{path} ({part})"), why, MADE_LATER);
        }
    }

    /// Reports a part that was not read and that nothing is known to execute.
    /// A run does not warn of one with a `language`, which only stands in its report.
    pub fn say(&mut self, part: &str, why: &str, language: &str) {
        if self.named.insert(part.to_owned()) {
            let mut report = unread(part, PartState::SetAside(why.to_owned()), Verdict::Review);
            language.clone_into(&mut report.coverage.parts[0].language);
            self.parts.push((Target::Unread(part.to_owned(), why.to_owned()), Some(report)));
        }
    }

    /// Reports files that are given to unknown programs and were not read as code: these programs may execute
    /// them.
    pub fn say_given(&mut self, report: &Report) {
        for (path, program) in std::mem::take(&mut self.reach.given) {
            let mut states = report.coverage.parts.iter().filter(|part| part.path == path).peekable();
            let is_prose = states.peek().is_some()
                && states.all(|part| {
                    part.language == "text"
                        && matches!(part.state, PartState::Parsed | PartState::Recovered | PartState::Inert)
                });
            let is_json = || {
                let bytes = self.view.read(Path::new(&path), MAX_VARIABLES_BYTES);
                bytes.is_some_and(|bytes| serde_json::from_slice::<serde_json::Value>(&bytes).is_ok())
            };
            if is_prose && !is_json() {
                let why =
                    format!("{program} is not known here, and it is given this file: it may execute it");
                self.say(&format!("{path} ({program})"), &why, "");
            }
        }
    }
}

/// Removes `.` and leading `..` from a path; the rest may be in any folder.
fn steps(path: &str) -> String {
    let mut all: Vec<&str> = Vec::new();
    for part in Path::new(path).components() {
        match part {
            Component::Normal(name) => all.extend(name.to_str()),
            Component::ParentDir => drop(all.pop()),
            _ => {}
        }
    }
    all.join("/")
}

/// True when a path matches a pattern: a hole and `*` match any text, `?` and `[…]` any character.
fn matches(pattern: &[char], path: &str) -> bool {
    let path: Vec<char> = path.chars().collect();
    let (mut at, mut here) = (0, 0);
    let mut star: Option<(usize, usize)> = None;
    loop {
        let (step, is_any) = match pattern.get(at) {
            Some('*' | &HOLE) => {
                star = Some((at + 1, here));
                at += 1;
                continue;
            }
            Some('?') => (1, true),
            Some('[') => match pattern[at..].iter().position(|c| *c == ']') {
                Some(end) => (end + 1, true),
                None => (1, false),
            },
            _ => (1, false),
        };
        match (pattern.get(at), path.get(here)) {
            (None, None) => return true,
            (Some(own), Some(c)) if is_any || own == c => {
                at += step;
                here += 1;
            }
            _ => match star {
                Some((behind, from)) if from < path.len() => {
                    star = Some((behind, from + 1));
                    (at, here) = (behind, from + 1);
                }
                _ => return false,
            },
        }
    }
}

/// Normalises a relative path without `.` and `..`, lexically; `None` when it leads out of the folder.
fn plain(path: &str) -> Option<String> {
    let mut all: Vec<&str> = Vec::new();
    for step in path.split('/') {
        match step {
            "" if all.is_empty() && path.starts_with('/') => return None,
            "" | "." => {}
            ".." => drop(all.pop()?),
            name => all.push(name),
        }
    }
    Some(all.join("/"))
}

/// True when a folder on the way is a link: the walk lists links like files.
fn has_link(path: &str, met: &HashMap<&str, Vec<&str>>) -> bool {
    path.match_indices('/').any(|(at, _)| met.contains_key(&path[..at]))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn path_pattern_hole_matches_any_text() {
        for (pattern, path, want) in [
            ("d/*", "d/x.txt", true),
            ("d/*", "e/x.txt", false),
            ("d/\u{fffc}", "d/e/x", true),
            ("\u{fffc}/x", "a/b/x", true),
            ("\u{fffc}/x", "a/b/xy", false),
            ("a?c", "abc", true),
            ("a[bc]d", "abd", true),
            ("a[bc", "a[bc", true),
            ("*a*b*", "xaxxbx", true),
            ("*a*b*", "xbxxax", false),
            ("", "", true),
            ("*", "", true),
        ] {
            let pattern: Vec<char> = pattern.chars().collect();
            assert_eq!(matches(&pattern, path), want, "{pattern:?} {path}");
        }
    }
}
