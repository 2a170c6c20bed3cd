//! Names that a commit applies only when the user says so: files that are run or trusted without the user
//! running the project. The names and the criterion are in `protected/names.txt`.

use std::collections::HashMap;
use std::path::Path;
use std::sync::LazyLock;

mod spelling;

pub use spelling::folded;
pub(crate) use spelling::is_ignorable;

/// The reviewed names.
const NAMES: &str = include_str!("protected/names.txt");
/// Section of hidden files that are applied without asking.
const DATA: &str = "data";
/// Section of hidden folders in which files are applied without asking.
const DATA_FOLDERS: &str = "data folders";
/// Section of git's own state.
const GIT: &str = "git";

/// One protected name.
#[derive(Debug, PartialEq, Eq)]
pub struct Rule {
    /// Section of the name, such as `editors`.
    pub kind: String,
    /// The name as written in the file: path components joined by `/`, with `*` for any characters within a
    /// component.
    pub name: String,
    /// Reason why it is protected.
    pub reason: String,
    folded: Vec<String>,
}

impl Rule {
    /// Whether the rule is about git's own state.
    #[must_use]
    pub fn is_git(&self) -> bool {
        self.kind == GIT
    }

    fn begins(&self, names: &[String]) -> bool {
        names.len() >= self.folded.len() && self.folded.iter().zip(names).all(|(rule, name)| fits(rule, name))
    }
}

/// Reason why a path is protected.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Protection {
    /// A reviewed name.
    Named(&'static Rule),
    /// A hidden name that is not one of those known to be data.
    Hidden,
    /// A name that a file system may have generated as the short form of another one, such as `GITHUB~1`.
    Short,
    /// A name with invisible characters, or with control characters that a terminal obeys.
    Unseen,
}

/// All rules, found by their first path component.
struct Rules {
    exact: HashMap<String, Vec<Rule>>,
    patterns: Vec<Rule>,
    /// Hidden names that are data; true where the name may also be a folder.
    data: HashMap<String, bool>,
    data_patterns: Vec<String>,
}

static RULES: LazyLock<Rules> = LazyLock::new(|| Rules::of(NAMES));

impl Rules {
    /// Parses the file of names. A malformed line is a mistake of ours, which a test finds.
    fn of(text: &str) -> Self {
        let mut all = Self {
            exact: HashMap::new(),
            patterns: Vec::new(),
            data: HashMap::new(),
            data_patterns: Vec::new(),
        };
        for (kind, name, reason) in lines(text) {
            let folded: Vec<_> = name.split('/').map(folded).collect();
            let pattern = folded[0].contains('*');
            if is_data_section(kind) {
                if pattern {
                    all.data_patterns.extend(folded);
                } else {
                    all.data.extend(folded.into_iter().map(|name| (name, kind == DATA_FOLDERS)));
                }
                continue;
            }
            let rule =
                Rule { kind: kind.to_owned(), name: name.to_owned(), reason: reason.to_owned(), folded };
            if pattern {
                all.patterns.push(rule);
            } else {
                all.exact.entry(rule.folded[0].clone()).or_default().push(rule);
            }
        }
        all
    }

    fn named(&self, names: &[String]) -> Option<&Rule> {
        let at = |from: usize| {
            let (first, rest) = (&names[from], &names[from..]);
            let exact = self.exact.get(first).into_iter().flatten();
            exact.chain(&self.patterns).find(move |rule| rule.begins(rest))
        };
        (0..names.len()).find_map(at)
    }

    /// Whether a hidden name is known to be data: as the last name of a path (`last`), or as a folder on the
    /// way.
    fn is_data(&self, name: &str, last: bool) -> bool {
        match self.data.get(name) {
            Some(folder) => last || *folder,
            None => last && self.data_patterns.iter().any(|pattern| fits(pattern, name)),
        }
    }
}

fn is_data_section(kind: &str) -> bool {
    kind == DATA || kind == DATA_FOLDERS
}

/// Entries of the file: section, name, reason.
fn lines(text: &str) -> impl Iterator<Item = (&str, &str, &str)> {
    let mut kind = "";
    text.lines().filter(|line| !line.is_empty() && !line.starts_with('#')).flat_map(move |line| {
        if let Some(section) = line.strip_prefix('[') {
            kind = section.trim_end_matches(']');
        }
        let (names, reason) = line.split_once(" : ").unwrap_or_default();
        names.split(' ').filter(|name| !name.is_empty()).map(move |name| (kind, name, reason))
    })
}

/// Whether a name matches a pattern, in which `*` matches any characters.
fn fits(pattern: &str, name: &str) -> bool {
    let Some((head, rest)) = pattern.split_once('*') else { return pattern == name };
    let Some(name) = name.strip_prefix(head) else { return false };
    match rest.contains('*') {
        false => name.ends_with(rest),
        true => (0..=name.len()).any(|at| name.is_char_boundary(at) && fits(rest, &name[at..])),
    }
}

/// Reason why a path below a project is protected, if it is. Names that some file system treats as equal are
/// equal here, see [`folded`].
#[must_use]
pub fn protected(path: &Path) -> Option<Protection> {
    let names = spelling::names(&path.to_string_lossy());
    let rules = &*RULES;
    // Git's state first, whatever other rule also matches.
    if let Some(rule) =
        rules.exact.get(".git").and_then(|all| all.first()).filter(|_| names.iter().any(|n| n == ".git"))
    {
        return Some(Protection::Named(rule));
    }
    if let Some(rule) = rules.named(&names) {
        return Some(Protection::Named(rule));
    }
    let last = names.len() - 1;
    let unknown = |(at, name): (usize, &String)| is_hidden_name(name) && !rules.is_data(name, at == last);
    if names.iter().enumerate().any(unknown) {
        return Some(Protection::Hidden);
    }
    if names.iter().any(|name| spelling::is_short(name)) {
        return Some(Protection::Short);
    }
    path.to_string_lossy().split('/').any(spelling::is_unseen).then_some(Protection::Unseen)
}

/// A path below a project with each name folded, for comparison.
pub(crate) fn folded_path(path: &Path) -> String {
    spelling::names(&path.to_string_lossy()).join("/")
}

/// Whether a path is hidden: some file system reads one of its names as beginning with a dot.
#[must_use]
pub fn is_hidden(path: &Path) -> bool {
    spelling::names(&path.to_string_lossy()).iter().any(|name| is_hidden_name(name))
}

fn is_hidden_name(folded: &str) -> bool {
    folded.starts_with('.') && folded != "." && folded != ".."
}

/// Every protected name with its section and reason, in the order of the file.
pub fn rules() -> impl Iterator<Item = (&'static str, &'static str, &'static str)> {
    lines(NAMES).filter(|(kind, ..)| !is_data_section(kind))
}

#[cfg(test)]
mod tests;
