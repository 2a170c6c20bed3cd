//! Converts a project's test configuration for the driver of one framework, with notes on the rest. Pure.

use std::ffi::OsString;
use std::path::Path;

use hotcell_sandbox::policy::HOME;
use serde_json::{Value, json};

use super::command::unwrapped;
use super::tox::folder;
use super::{Place, Runner, SITE, Start, TOP, Words, text_of};
use crate::coverage::{Form, Measured};
use crate::framework::{Command, Followed, REPORTS, Selection};
use crate::frameworks::javascript::shell::Word;
use crate::project::Project;

/// Prefix of the ids of commands that run beside the framework.
pub const COMMAND: &str = "command: ";
/// Variables that a project must not set here.
const NOT_SET: [&str; 4] = ["PATH", "HOME", "TMPDIR", "VIRTUAL_ENV"];

/// Options of a framework that take the next word.
const fn valued(runner: Runner) -> &'static [&'static str] {
    match runner {
        Runner::Pytest => &[
            "-k",
            "-m",
            "-c",
            "-p",
            "-n",
            "-o",
            "-W",
            "-r",
            "--rootdir",
            "--confcutdir",
            "--ignore",
            "--ignore-glob",
            "--deselect",
            "--maxfail",
            "--tb",
            "--durations",
            "--basetemp",
            "--cov-report",
            "--cov-config",
            "--cov-context",
            "--dist",
            "--numprocesses",
            "--reruns",
            "--reruns-delay",
            "--timeout",
            "--junitxml",
            "--junit-xml",
            "--log-level",
            "--log-cli-level",
            "--import-mode",
            "--override-ini",
            "--pythonwarnings",
            "--color",
            "--capture",
            "--ds",
            "--hypothesis-profile",
            "--benchmark-min-rounds",
            "--verbosity",
            "--cov-fail-under",
            "--config-file",
        ],
        Runner::Unittest => &[
            "-s",
            "--start-directory",
            "-p",
            "--pattern",
            "-t",
            "--top-level-directory",
            "-k",
            "--durations",
        ],
        Runner::Django => &[
            "--settings",
            "--pythonpath",
            "-v",
            "--verbosity",
            "--testrunner",
            "--tag",
            "--exclude-tag",
            "-k",
            "-t",
            "-p",
            "--pattern",
            "--top-level-directory",
            "--shuffle",
            "--parallel",
            "--durations",
        ],
    }
}

/// Options by which a framework selects its tests.
const fn choosing(runner: Runner) -> &'static [&'static str] {
    match runner {
        Runner::Pytest => &["-k", "--deselect", "--ignore", "--ignore-glob", "--last-failed", "--lf"],
        Runner::Unittest | Runner::Django => &["-k", "--tag", "--exclude-tag", "--exclude"],
    }
}

/// Input for a framework's driver.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct Given<'a> {
    /// The framework's start; `None` when the configuration does not start it.
    pub start: Option<&'a Start>,
    /// Arguments for this selection.
    pub arguments: Vec<Word>,
    /// Argument for the driver; `None` when it has nothing to do.
    pub word: Option<OsString>,
}

/// Driver input for a framework.
#[must_use]
pub fn given<'a>(
    words: Option<&'a Words>,
    runner: Runner,
    selection: &Selection,
    project: &dyn Project,
) -> Given<'a> {
    let Some(words) = words else { return Given::default() };
    let start = words.starts.iter().find(|start| start.runner == runner);
    let arguments = start.map(|start| for_selection(start, selection, project)).unwrap_or_default();
    let place = start.map(|start| &start.place);
    let steps: Vec<Value> = match beside(words, start, runner, selection) {
        true => others(words, start).map(|(place, list)| step(place, list)).collect(),
        false => Vec::new(),
    };
    let variables = place.map(kept).unwrap_or_default();
    let folder = place.map(|place| place.folder.as_str()).unwrap_or_default();
    if arguments.is_empty() && steps.is_empty() && variables.is_empty() && folder.is_empty() {
        return Given { start, arguments, word: None };
    }
    let all = json!({
        "source": words.source, "arguments": list(&arguments), "variables": variables, "folder": folder, "steps": steps,
    });
    Given { start, arguments, word: Some(format!("--hotcell-words={all}").into()) }
}

/// True when the other commands run, too: all tests are selected, and the project starts this framework
/// first.
fn beside(words: &Words, start: Option<&Start>, runner: Runner, selection: &Selection) -> bool {
    let first = words.first().is_none_or(|first| first == runner);
    selection.filter.is_none() && first && (start.is_some() || selection.detected)
}

/// Other commands that run tests.
fn others<'a>(words: &'a Words, own: Option<&'a Start>) -> impl Iterator<Item = (&'a Place, &'a [Word])> {
    let starts = words.starts.iter().filter(move |start| own.is_none_or(|own| !is_again(own, start)));
    let starts = starts.map(|start| (&start.place, start.words.as_slice()));
    starts.chain(words.others.iter().map(|other| (&other.place, other.words.as_slice())))
}

/// Whether a start is the framework's own once more, as with another Python.
fn is_again(own: &Start, start: &Start) -> bool {
    std::ptr::eq(own, start)
        || own.runner == start.runner
            && own.place == start.place
            && own.script == start.script
            && own.arguments == start.arguments
}

fn kept(place: &Place) -> Vec<(String, String)> {
    let all = place.variables.iter().filter(|(name, _)| !NOT_SET.contains(&name.as_str()));
    all.cloned().collect()
}

fn list(words: &[Word]) -> Value {
    let one = |word: &Word| if word.pattern { json!({ "glob": word.text }) } else { json!(word.text) };
    words.iter().map(one).collect()
}

fn step(place: &Place, words: &[Word]) -> Value {
    json!({"name": text_of(words), "words": list(unwrapped(words)), "variables": kept(place), "folder": place.folder})
}

/// Arguments; when only some tests are selected, without those that select others.
fn for_selection(start: &Start, selection: &Selection, project: &dyn Project) -> Vec<Word> {
    let Some(filter) = &selection.filter else { return start.arguments.clone() };
    let named = project.has(filter.split("::").next().unwrap_or(filter)) || filter.contains("::");
    let mut out = Vec::new();
    let mut rest = start.arguments.iter().peekable();
    while let Some(word) = rest.next() {
        let text = word.text.as_str();
        if !text.starts_with('-') {
            // A value of an unknown option, or the name of tests.
            let below = |path: &str| {
                path.starts_with(SITE)
                    || folder(&start.place.folder, path)
                        .is_some_and(|path| path.is_empty() || project.has(&path))
            };
            let path = text.split("::").next().unwrap_or(text);
            let chooses = below(path) || below(&path.replace('.', "/")) || word.pattern || text == "discover";
            if !chooses || text == "discover" && !named {
                out.push(word.clone());
            }
            continue;
        }
        let option = text.split('=').next().unwrap_or(text);
        let takes = valued(start.runner).contains(&text);
        let own =
            named && (choosing(start.runner).contains(&option) || start.runner == Runner::Unittest && takes);
        let value = if takes { rest.next() } else { None };
        if !own {
            out.push(word.clone());
            out.extend(value.cloned());
        }
    }
    out
}

/// Index in a driver's command line after these arguments.
#[must_use]
pub fn behind_words(argv: &[OsString]) -> usize {
    let there = argv.get(2).is_some_and(|word| word.to_string_lossy().starts_with("--hotcell-words="));
    2 + usize::from(there)
}

/// Makes a driver measure coverage, with the package coverage and the project's own settings of it, into a file of the reports' folder.
pub fn cover(command: &mut Command, file: &str) -> Measured {
    let report = Path::new(REPORTS).join(file);
    let at = behind_words(&command.argv);
    command.argv.insert(at, format!("--hotcell-cover={HOME}/{}", report.display()).into());
    Measured { report, form: Form::Lcov }
}

/// Parts of the project's configuration that a framework's run does not follow.
#[must_use]
pub fn followed(
    words: Option<&Words>,
    runner: Runner,
    selection: &Selection,
    project: &dyn Project,
) -> Followed {
    let of_tools = |words: &Words| words.lost_tools(selection.detected, project);
    let tests = |words: &&Words| words.tests() || words.names_tests() || !of_tools(words).is_empty();
    let Some(words) = words.filter(tests) else {
        return Followed::default();
    };
    let mut notes = Vec::new();
    let own = words.starts.iter().find(|start| start.runner == runner);
    let source = &words.source;
    if own.is_none() {
        let first = words.starts.first().map(|start| start.words.as_slice());
        let first = first.or_else(|| words.others.first().map(|other| other.words.as_slice()));
        let name = runner.name();
        notes.extend(first.map(|first| {
            format!("{source} tests by `{}`: {name} runs what it finds by itself", text_of(first))
        }));
    }
    let all: Vec<String> = others(words, own).map(|(_, list)| format!("`{}`", text_of(list))).collect();
    if !all.is_empty() && selection.filter.is_none() {
        let all = all.join(", ");
        notes.push(match beside(words, own, runner, selection) {
            true => format!("{source} runs {all} too: it ran, and only its exit status is known"),
            false => format!("{source} runs {all} too, which was not run"),
        });
    }
    let again = own.and_then(|own| {
        let differs = |start: &&Start| is_again(own, start) && own.words != start.words;
        words.starts.iter().find(differs)
    });
    if let Some(again) = again.filter(|_| selection.filter.is_none()) {
        notes.push(format!(
            "{source} starts the same tests again, as `{}`: they ran once; ‹python=3.11,3.12› runs them with several Pythons",
            text_of(&again.words)
        ));
    }
    let place = own.map(|start| &start.place);
    let unset = place
        .into_iter()
        .flat_map(|place| &place.variables)
        .filter(|(name, _)| NOT_SET.contains(&name.as_str()));
    let unset: Vec<&str> = unset.map(|(name, _)| name.as_str()).collect();
    if !unset.is_empty() {
        notes.push(format!("not set as {source} does: {}", unset.join(", ")));
    }
    let left: Vec<&String> = words.left.iter().collect();
    let tools = of_tools(words);
    let left: Vec<&String> = left.into_iter().chain(&tools).collect();
    if !left.is_empty() && selection.filter.is_none() {
        let all: Vec<String> = left
            .iter()
            .take(4)
            .map(|text| format!("`{}`", text.replace(&format!("{TOP}/"), "").replace(SITE, "site-packages")))
            .collect();
        let more = if left.len() > all.len() { ", …" } else { "" };
        notes.push(format!("not run of {source}: {}{more}", all.join(", ")));
    }
    Followed { notes, ..Followed::default() }
}
