//! Commands that run several tests by their ids and no others, for reruns and for parts of a suite that is
//! split over machines.

use std::collections::BTreeSet;
use std::ffi::OsString;

use hotcell_sandbox::policy::HOME;

use crate::case::{Case, Status};
use crate::framework::{Command, Framework, REPORTERS, REPORTS, Selection};
use crate::frameworks::javascript;
use crate::frameworks::python::words::given;
use crate::project::Project;

/// Name of hotcell's file with the list of tests, below [`REPORTERS`].
pub const ONLY: &str = "hotcell_only";
/// Maximum number of failed tests that are started one by one.
const MAX_SINGLE_TESTS: usize = 8;
/// Maximum length of an argument, in bytes: the kernel accepts 128 KiB.
const MAX_ARGUMENT_BYTES: usize = 120 << 10;

/// A command for some tests.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Chosen {
    /// Command that starts them.
    pub command: Command,
    /// Contents of the file [`ONLY`], if the command reads it.
    pub file: Option<String>,
    /// True for some of the tests by their ids, while others of the suite run elsewhere or have run before.
    pub is_part: bool,
}

impl Chosen {
    /// Marks the command as one for `chosen` tests of a list of `listed`: these are a part of the suite only if they are fewer.
    #[must_use]
    pub fn of_listed(self, chosen: usize, listed: usize) -> Self {
        Self { is_part: chosen < listed, ..self }
    }
}

/// Key of tests that cannot be separated: frameworks that select by a part of the id run all tests with that
/// part.
#[must_use]
pub fn key<'a>(framework: &str, id: &'a str) -> &'a str {
    match framework {
        "go" | "gtest" => id.rsplit_once("::").map_or(id, |(_, test)| test),
        // Examples in documentation, and programs without a list, cannot be selected separately.
        "cargo" => match id.split_once(".rs::") {
            Some((_, test)) => test,
            None => "",
        },
        _ => id,
    }
}

/// True when a framework can list its tests, and run some of them by id.
#[must_use]
pub fn can_split(framework: &str) -> bool {
    matches!(framework, "pytest" | "unittest" | "cargo" | "go" | "jest" | "gtest")
}

/// Command for exactly these of the tests from [`listing`]. `None` when the framework does not support it.
#[must_use]
pub fn part(
    framework: &dyn Framework,
    selection: &Selection,
    project: &dyn Project,
    ids: &[String],
) -> Option<Chosen> {
    let are_elsewhere = framework.name() == "pytest" && ids.iter().any(|id| is_elsewhere(id, project));
    // As for a single test of pytest: files named in the project's own configuration are dropped.
    let filter = ids.first().filter(|_| framework.name() == "pytest" && !are_elsewhere).cloned();
    let mut command = framework.command(&Selection { filter, ..selection.clone() }, project).ok()?;
    command.files = Vec::new();
    let mut file = None;
    match framework.name() {
        "pytest" if are_elsewhere => {
            let at = given::behind_words(&command.argv);
            command.argv.insert(at, format!("--hotcell-keep={REPORTERS}/{ONLY}").into());
            if selection.filter.is_none() {
                command.argv.insert(at, "--hotcell-part=1".into());
            }
            file = serde_json::to_string(ids).ok();
        }
        name @ ("pytest" | "unittest") => {
            // An argument that begins with a dash is not an option.
            let own = |id: &String| if id.starts_with('-') { format!("./{id}") } else { id.clone() };
            let mut up = String::new();
            if name == "pytest" {
                // Path to the project's top, if the project's configuration starts jest elsewhere.
                let last = command.argv.pop()?.into_string().ok()?;
                last.strip_suffix(&own(ids.first()?))?.clone_into(&mut up);
            }
            let at = given::behind_words(&command.argv);
            command.argv.insert(at, format!("--hotcell-only={REPORTERS}/{ONLY}").into());
            let named = |id: &String| if name == "pytest" { format!("{up}{}", own(id)) } else { id.clone() };
            file = serde_json::to_string(&ids.iter().map(named).collect::<Vec<_>>()).ok();
        }
        "cargo" => {
            let names: BTreeSet<&str> = ids.iter().map(|id| key("cargo", id)).collect();
            let rest = names.contains("");
            command.argv.extend((!rest).then(|| "--tests".into()));
            command.env.push(("HOTCELL_ONLY".into(), format!("{REPORTERS}/{ONLY}").into()));
            command.env.extend(rest.then(|| ("HOTCELL_REST".into(), "1".into())));
            file = Some(names.into_iter().map(|name| format!("{name}\n")).collect());
        }
        "go" => {
            // After the patterns for everything, which are replaced by the packages of the ids.
            command.argv.retain(|word| !word.to_string_lossy().starts_with("./"));
            command.argv.push(format!("-run=^({})$", alternatives(ids, |id| key("go", id), "|")?).into());
            let packages: BTreeSet<&str> =
                ids.iter().filter_map(|id| Some(id.rsplit_once("::")?.0)).collect();
            command.argv.extend(packages.iter().map(|package| package.trim_start_matches('-').into()));
        }
        "jest" => {
            let files: BTreeSet<&str> = ids.iter().filter_map(|id| id.split("::").next()).collect();
            command.argv.push("--runTestsByPath=true".into());
            command.argv.extend(files.iter().map(|file| OsString::from(format!("./{file}"))));
        }
        "gtest" => {
            let filter = alternatives(ids, |id| key("gtest", id), ":")?;
            *command.argv.get_mut(6)? = filter.into();
        }
        _ => return None,
    }
    Some(Chosen { command, file, is_part: true })
}

/// True when the file of a test of pytest is not in the project, as of examples in an installed package's
/// documentation: pytest then gives an id that it does not find again.
fn is_elsewhere(id: &str, project: &dyn Project) -> bool {
    let file = id.split("::").next().unwrap_or(id);
    file.is_empty() || !project.has(file)
}

/// Joins names, each once and quoted if it is a pattern; `None` when the argument would be too long.
fn alternatives<'a>(ids: &'a [String], of: impl Fn(&'a str) -> &'a str, between: &str) -> Option<String> {
    // A subtest is selected with its test.
    let names: BTreeSet<&str> = ids
        .iter()
        .map(|id| of(id))
        .map(|name| if between == "|" { name.split('/').next().unwrap_or(name) } else { name })
        .collect();
    let quoted =
        names.iter().map(|name| name.chars().filter(|c| !"|()*?^$\\:".contains(*c)).collect::<String>());
    let word = quoted.collect::<Vec<_>>().join(between);
    (word.len() < MAX_ARGUMENT_BYTES).then_some(word)
}

/// Commands that rerun these failed tests and, as far as the framework can select, no others; `None` when
/// only the whole suite can be rerun.
#[must_use]
pub fn again(
    framework: &dyn Framework,
    selection: &Selection,
    project: &dyn Project,
    cases: &[&Case],
) -> Vec<Chosen> {
    let name = framework.name();
    let is_test = |case: &&Case| match name {
        "pytest" => case.id.contains("::"),
        // These run whole files.
        "tape" | "tap" => false,
        // A case that could not be run was a file, a class, a package or a command.
        _ => case.status != Status::Errored,
    };
    if cases.is_empty() || !cases.iter().all(is_test) {
        return Vec::new();
    }
    let ids: Vec<String> = cases.iter().map(|case| case.id.clone()).collect();
    let one = |id: &String| {
        let only = Selection { filter: Some(id.clone()), ..selection.clone() };
        framework.command(&only, project).ok().map(|command| Chosen { command, file: None, is_part: true })
    };
    if let [id] = ids.as_slice()
        && !(name == "pytest" && is_elsewhere(id, project))
    {
        return one(id).into_iter().collect();
    }
    if name == "cargo" && ids.iter().any(|id| key("cargo", id).is_empty()) {
        return Vec::new();
    }
    if can_split(name) {
        let titles = || ids.iter().filter_map(|id| Some(javascript::pattern_of(id.split_once("::")?.1)));
        let mut chosen = part(framework, selection, project, &ids);
        if let Some(chosen) = chosen.as_mut().filter(|_| name == "jest") {
            let pattern = titles().collect::<Vec<_>>().join("|");
            if pattern.len() < MAX_ARGUMENT_BYTES {
                chosen.command.argv.insert(
                    chosen.command.argv.len() - files_of(&ids),
                    format!("--testNamePattern={pattern}").into(),
                );
                // For some of the tests coverage is meaningless, and its thresholds do not apply.
                chosen.command.argv.push("--coverage=false".into());
            }
        }
        return chosen.into_iter().collect();
    }
    if ids.len() > MAX_SINGLE_TESTS {
        return Vec::new();
    }
    ids.iter().map(one).collect::<Option<Vec<_>>>().unwrap_or_default()
}

/// Number of files in ids of JavaScript tests.
fn files_of(ids: &[String]) -> usize {
    ids.iter().filter_map(|id| id.split("::").next()).collect::<BTreeSet<_>>().len()
}

/// Command that makes a framework list its tests without running them; `None` when the framework does not
/// support it.
#[must_use]
pub fn listing(framework: &dyn Framework, selection: &Selection, project: &dyn Project) -> Option<Command> {
    if !can_split(framework.name()) {
        return None;
    }
    let mut command = framework.command(selection, project).ok()?;
    let list = format!("--hotcell-list={HOME}/{REPORTS}/{LISTED}");
    match framework.name() {
        "pytest" | "unittest" => {
            let at = given::behind_words(&command.argv);
            command.argv.insert(at, list.into());
            command.reports = vec![std::path::Path::new(REPORTS).join(LISTED)];
        }
        "jest" => {
            command.argv.extend(["--listTests", "--forceExit"].map(OsString::from));
        }
        name => {
            command.env.push(("HOTCELL_LIST".into(), "1".into()));
            if name == "cargo" {
                // Only programs of rustdoc see it.
                command.env.push(("RUSTDOCFLAGS".into(), "--test-args=--list".into()));
            }
        }
    }
    Some(command)
}

/// File of a list, below the folder of reports.
const LISTED: &str = "list.json";

#[cfg(test)]
#[path = "chosen_tests.rs"]
mod tests;
