//! Converts a plan of the script `test` for the driver of one framework, with notes on the rest. Pure.

use std::collections::BTreeSet;

use serde_json::{Value, json};

use super::Package;
use super::members;
use super::options;
use super::script::{Plan, Start, Step};
use super::shell::{Joiner, Word};
use crate::framework::{Followed, Selection};
use crate::project::Project;
use crate::text::clip;
use hotcell_sandbox::text::counted;

/// Input for a framework's driver.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct Followup<'a> {
    /// How the framework is started; `None` when the script does not start it.
    pub start: Option<&'a Start>,
    /// Commands before and after the tests; `None` when there are no others.
    pub steps: Option<Value>,
}

/// True when Angular's own program is started.
#[must_use]
pub fn is_angular(start: &Start) -> bool {
    start.framework == "karma" && start.arguments.first().is_some_and(|word| word.text != "start")
}

/// If a script starts a framework several times, the start that leaves out the fewest tests is reported test
/// by test.
fn main<'a>(plan: &'a Plan, framework: &str) -> Option<&'a Start> {
    let starts = plan.starts().into_iter().filter(|start| start.framework == framework);
    starts.min_by_key(|start| options::of(framework).map_or(0, |known| known.choices(&start.arguments)))
}

/// The script's input for a framework. With a filter, nothing runs after the tests.
#[must_use]
pub fn follow<'a>(package: &'a Package, framework: &str, selection: &Selection) -> Followup<'a> {
    let Some(plan) = &package.plan else { return Followup::default() };
    let Some(start) = main(plan, framework) else { return Followup::default() };
    let first = package.starts() == Some(framework) || is_angular(start);
    let tree = Tree { start, filtered: selection.filter.is_some(), others: first };
    let steps = tree.of(&plan.steps, &mut false).filter(|steps| *steps != json!({}));
    Followup { start: Some(start), steps }
}

struct Tree<'a> {
    /// The start that the driver runs itself.
    start: &'a Start,
    /// True when only some tests are selected.
    filtered: bool,
    /// True when other frameworks of the script run, too: not when the user chose this one instead of the
    /// first of them.
    others: bool,
}

impl Tree<'_> {
    /// Steps for the driver; `None` for steps that do not run.
    fn of(&self, step: &Step, past: &mut bool) -> Option<Value> {
        let run =
            |text: &str| json!({"run": text, "name": clip(text.rsplit("; ").next().unwrap_or(text), 200)});
        match step {
            Step::Start(start, _) if std::ptr::eq(start.as_ref(), self.start) => {
                *past = true;
                Some(json!({}))
            }
            _ if *past && self.filtered => None,
            Step::Start(_, text) => (self.others && !self.filtered).then(|| run(text)),
            Step::Run(text, Some(_)) => (self.others && !self.filtered).then(|| run(text)),
            Step::Run(text, None) => Some(run(text)),
            Step::All(all) => {
                let mut steps: Vec<(&str, Value)> = Vec::new();
                for (joiner, step) in all {
                    if let Some(step) = self.of(step, past) {
                        // The first of the remaining steps always runs.
                        let joiner = if steps.is_empty() { Joiner::Then } else { *joiner };
                        steps.push((joiner.sign(), step));
                    }
                }
                match steps.len() {
                    0 => None,
                    1 => steps.pop().map(|(_, step)| step),
                    _ => Some(json!({ "all": steps })),
                }
            }
        }
    }
}

/// Tells if tests are selected by name, and if by file.
#[must_use]
pub fn asked(selection: &Selection, project: &dyn Project) -> (bool, bool) {
    let Some(filter) = selection.filter.as_deref() else { return (false, false) };
    let files = project.has(filter.split("::").next().unwrap_or(filter));
    (!files || filter.contains("::"), files)
}

/// Words for a driver; those that only a shell can expand are passed as written.
#[must_use]
pub fn words(words: &[Word]) -> Value {
    let one = |word: &Word| if word.open() { json!({"sh": word.raw}) } else { json!(word.text) };
    words.iter().map(one).collect()
}

/// Parts of the script that a framework's run does not follow.
#[must_use]
pub fn followed(package: &Package, framework: &str, selection: &Selection) -> Followed {
    let Some(plan) = &package.plan else { return beside(package, framework, selection) };
    let script = clip(&package.script, 200);
    let Some(own) = main(plan, framework) else {
        if is_harmless(&plan.steps) {
            return beside(package, framework, selection);
        }
        let members = members::told(&package.tested).map(|told| format!("; {told}")).unwrap_or_default();
        let why = format!(
            "the script test of package.json (`{script}`) does not start {framework} as far as hotcell follows it{members}"
        );
        let hint = format!(
            "name the framework to have what {framework} runs by itself, or run `npm test` as a command"
        );
        return match selection.detected {
            true => Followed { left: Some(format!("{why}: {hint}")), ..Followed::default() },
            false => Followed { notes: vec![why], ..Followed::default() },
        };
    };
    let mut notes = plan.notes.clone();
    let others: Vec<&str> = others(plan, own).collect();
    if !others.is_empty() && selection.filter.is_none() {
        let first = package.starts() == Some(framework) || is_angular(own);
        let all = others.join(", ");
        notes.push(match first {
            true => format!("the script test runs {all} too: it ran, and only its exit status is known"),
            false => format!("the script test runs {all} too, which was not run"),
        });
    }
    Followed { notes, ..Followed::default() }
}

/// Members of a workspace that test by another runner than the one which runs from the top, where the top itself says nothing
/// of tests. A filter selects among the tests of one framework.
fn beside(package: &Package, framework: &str, selection: &Selection) -> Followed {
    let other = |runners: &BTreeSet<&'static str>| runners.iter().copied().find(|name| *name != framework);
    let mut others = package.tested.iter().filter_map(|one| Some((&one.folder, other(&one.runners)?)));
    let Some((folder, name)) = others.next().filter(|_| selection.filter.is_none()) else {
        return Followed::default();
    };
    let more = match others.count() {
        0 => String::new(),
        more => format!(", and {}", counted(more, "more member")),
    };
    let why = format!(
        "the workspace's member {} tests by {name}, which was not run{more}: test the folder of each, or run `npm test --workspaces` as a command",
        clip(folder, 200)
    );
    match selection.detected {
        true => Followed { left: Some(why), ..Followed::default() },
        false => Followed { notes: vec![why], ..Followed::default() },
    }
}

/// Other commands of a plan that run tests.
fn others<'a>(plan: &'a Plan, own: &'a Start) -> impl Iterator<Item = &'static str> + 'a {
    let starts = plan.starts().into_iter().filter(move |start| !std::ptr::eq(*start, own));
    let mut told = BTreeSet::new();
    starts.map(|start| start.framework).chain(plan.foreign()).filter(move |name| told.insert(*name))
}

/// True when commands only print or exit: `echo "no test specified" && exit 1`.
fn is_harmless(step: &Step) -> bool {
    match step {
        Step::All(all) => all.iter().all(|(_, step)| is_harmless(step)),
        Step::Run(text, None) => {
            ["echo", "exit", "true", "false", ":"]
                .contains(&text.split_whitespace().next().unwrap_or_default())
                && !text.contains(['`', '$', '|', '&'])
        }
        Step::Run(..) | Step::Start(..) => false,
    }
}

/// Message about an unsupported test runner in the script.
#[must_use]
pub fn unsupported(package: &Package) -> Option<String> {
    let name = package.plan.as_ref()?.foreign().into_iter().next()?;
    Some(format!(
        "the script test of package.json runs {name}, which is not supported: run `npm test` as a command and go by its exit status"
    ))
}
