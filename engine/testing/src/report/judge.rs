//! Combines three witnesses into one verdict. The tests control all of them, so a run passes only when the
//! final report, the live events and the exit code agree on every test; where they differ, the worse result
//! is shown.

use std::collections::{HashMap, HashSet};

use hotcell_sandbox::outcome::{Cause, Outcome};

use hotcell_sandbox::text::{counted, printable_message};

use crate::Verdict;
use crate::case::{Case, Entry, FinalReport, ReportError, Status};
use crate::framework::{Ecosystem, ExitMeaning, Followed, Framework};
use crate::frameworks::runner;
use crate::junit::both;
use crate::live::{LiveLog, Seen};
use crate::report::Totals;
use crate::text::{clip, uncoloured};

mod endings;
mod repeated;

/// Reason of a run without tests.
pub const NO_TESTS: &str = "no tests were found";
/// Beginning of the reason of a run in which no test matches the filter.
const NO_MATCH: &str = "the filter ";
/// How to find out the tests' names.
pub const NAMED_BY_A_RUN: &str = "a run without ‹filter› names them";

/// Reason of a run without tests: there are not any, the filter does not match one, or the project itself leaves all of them
/// out. `found` is the number of tests that were found and left out.
#[must_use]
pub fn none_found(filter: Option<&str>, found: u64) -> String {
    match (filter, found) {
        (None, 0) => NO_TESTS.to_owned(),
        (None, 1) => format!("{NO_TESTS}: the project itself leaves the only one out"),
        (None, _) => format!("{NO_TESTS}: the project itself leaves all {found} out"),
        (Some(filter), _) => {
            let matches = match found {
                0 => "no test".to_owned(),
                _ => format!("none of {}", counted(found, "test")),
            };
            format!("{NO_MATCH}{:?} matches {matches}; {NAMED_BY_A_RUN}", clip(filter, 200))
        }
    }
}

/// True for a reason by [`none_found`].
#[must_use]
pub fn is_none_found(reason: &str) -> bool {
    reason.starts_with(NO_TESTS) || reason.starts_with(NO_MATCH)
}

/// Message of a test that was skipped in a file with `.only`, by hotcell's drivers, and by node with `--test-only`.
const FOCUSED: &str = "skipped; its file has tests with .only";
const NODE_FOCUSED: &str = "'only' option not set";

/// Maximum number of reasons listed.
const MAX_REASONS: usize = 6;

/// Combined result of the witnesses.
#[derive(Clone, Debug, PartialEq)]
pub struct Judgement {
    /// Verdict.
    pub verdict: Verdict,
    /// True when the final report covers everything that ran, and everything ran that was to run.
    pub complete: bool,
    /// True when no witness contradicts another.
    pub consistent: bool,
    /// Why the verdict is neither passed nor failed, or another important note; printable.
    pub reason: Option<String>,
    /// Counts.
    pub totals: Totals,
    /// Every test known to any witness, in starting order.
    pub cases: Vec<Case>,
    /// Number of tests that were found and not started.
    pub not_started: Option<u64>,
}

/// The request, which tests cannot change.
#[derive(Clone, Copy, Debug, Default)]
pub struct Asked<'a> {
    /// Path of the program that ran the tests.
    pub program: &'a str,
    /// See [`crate::Command::files`].
    pub files: &'a [String],
    /// Parts of the project's own test configuration that were not followed.
    pub followed: Option<&'a Followed>,
    /// The filter that selected the tests.
    pub filter: Option<&'a str>,
    /// True for a part of the tests by their ids: what is left out then runs elsewhere, or has run before.
    pub part: bool,
}

/// Judges a run.
#[must_use]
pub fn judge(
    framework: &dyn Framework,
    asked: Asked<'_>,
    report: Result<FinalReport, ReportError>,
    live: &LiveLog,
    outcome: &Outcome,
) -> Judgement {
    let exit = match outcome.cause {
        Cause::Exited => outcome.exit_code.map(|code| match framework.exit(code) {
            // cargo uses one code for this and many other errors.
            ExitMeaning::SomeFailed if live.missing.is_some() && live.seen().is_empty() => {
                ExitMeaning::NotInstalled
            }
            meaning => meaning,
        }),
        _ => None,
    };
    let mut doubts = Doubts::default();
    let report = match report {
        Ok(report) => Some(report),
        Err(error) => {
            doubts.incomplete(error.to_string());
            None
        }
    };
    let missing = report.is_none();
    let rows = report.as_ref().map_or(0, |report| report.entries.len() as u64);
    let cases = join(framework, report, live, &mut doubts);
    if let Some(left) = asked.followed.and_then(|followed| followed.left.clone()) {
        doubts.incomplete(left);
    }
    about_the_run((live, rows), outcome, &cases, &mut doubts);
    let totals = Totals::of(&cases, outcome);
    let bad = cases.iter().filter(|c| !c.status.is_good()).count();
    if let Some(exit) = exit {
        about_the_exit(exit, &cases, live, missing, &mut doubts);
    }

    let nothing = || none_found(asked.filter, if asked.part { 0 } else { live.left_out });
    let mut note = None;
    let verdict = match outcome.cause {
        Cause::Exited => {
            let usable = doubts.complete && doubts.consistent;
            match exit {
                Some(ExitMeaning::NotInstalled) => {
                    let missing = live.missing.as_deref().filter(|_| cases.is_empty());
                    note = missing.and_then(|what| framework.install(what, asked.program));
                    if note.is_some() { Verdict::NotInstalled } else { Verdict::Unusable }
                }
                Some(ExitMeaning::Broken(why)) => {
                    note = Some(why.to_owned());
                    Verdict::Unusable
                }
                Some(ExitMeaning::NoTests) => {
                    // A file that is skipped as a whole has no test for its framework.
                    let skipped = !cases.is_empty() && bad == 0;
                    note = Some(if skipped { none_passed(&cases) } else { nothing() });
                    Verdict::Unusable
                }
                Some(ExitMeaning::CollectionFailed) if bad == 0 => {
                    note = Some("the run was interrupted".to_owned());
                    Verdict::Unusable
                }
                Some(ExitMeaning::AllPassed) if usable && cases.is_empty() => {
                    // Where the framework says why it stopped early, nothing is known of the tests.
                    let stopped = live.collected.is_none()
                        && live.finished.as_ref().is_some_and(|(_, stopped)| stopped.is_some());
                    note = (!stopped).then(nothing);
                    Verdict::Unusable
                }
                Some(ExitMeaning::AllPassed) if usable && bad == 0 && totals.passed == 0 => {
                    note = Some(none_passed(&cases));
                    // Tests of other parts may pass.
                    if asked.part { Verdict::Passed } else { Verdict::Unusable }
                }
                Some(ExitMeaning::AllPassed) if usable && bad == 0 && outcome.success() => {
                    note = not_run(framework, asked, live);
                    Verdict::Passed
                }
                Some(ExitMeaning::SomeFailed | ExitMeaning::CollectionFailed) if usable && bad > 0 => {
                    note = shortfall(live, rows).map(not_begun);
                    Verdict::Failed
                }
                _ => Verdict::Unusable,
            }
        }
        Cause::Signaled => {
            note = Some(endings::killed(live, outcome));
            Verdict::Unusable
        }
        cause if cause.is_limit() => Verdict::Limit,
        Cause::Cancelled => Verdict::Interrupted,
        Cause::Quarantined => Verdict::Quarantined,
        Cause::NotFound => Verdict::NotInstalled,
        _ => Verdict::Refused,
    };
    if !matches!(outcome.cause, Cause::Exited | Cause::Signaled) {
        note.clone_from(&outcome.reason);
    }
    // Others count their tests program by program, or at the end.
    let counts_first = framework.ecosystem() == Ecosystem::Python;
    if outcome.cause == Cause::WallLimit && counts_first && endings::is_past_its_tests(live) {
        note = Some(note.map_or_else(String::new, |note| note + "; ") + endings::LEFT_RUNNING);
    }
    // A conftest.py or settings that prevent the start are missing from every report.
    // pytest writes a report even if it refuses its arguments.
    let refused = matches!(exit, Some(ExitMeaning::Broken(_)));
    let silent = (missing || refused) && cases.is_empty() && exit != Some(ExitMeaning::NotInstalled);
    let cause = (silent && verdict == Verdict::Unusable).then(|| explained(framework, outcome)).flatten();
    // A known cause is the reason of all that is missing.
    if cause.is_some() {
        doubts.reasons.clear();
    }
    let printed = if silent && verdict == Verdict::Unusable {
        cause.or_else(|| last_words(framework, outcome))
    } else {
        let died =
            |case: &Case| !case.status.is_good() && case.message.as_deref().is_some_and(runner::is_ending);
        let died = matches!(verdict, Verdict::Failed | Verdict::Unusable) && cases.iter().any(died);
        // An error between two tests ends the runner, and no test tells of it.
        let broke_off = missing && verdict == Verdict::Unusable && live.finished.is_none();
        // Something beside the tests failed, such as what sets up or tears down all of them.
        let beside = verdict == Verdict::Unusable && exit == Some(ExitMeaning::SomeFailed) && bad == 0;
        (died || broke_off || beside).then(|| last_words(framework, outcome)).flatten()
    };
    let ended = match outcome.cause {
        Cause::Exited if missing && verdict == Verdict::Unusable => endings::ended_within(live, outcome),
        _ => None,
    };
    let stopped = live.finished.as_ref().and_then(|(_, stopped)| stopped.clone());
    let ran = !matches!(verdict, Verdict::NotInstalled | Verdict::Refused | Verdict::Quarantined);
    let cut = if verdict == Verdict::Unusable { cut(&cases) } else { Vec::new() };
    let reasons: Vec<String> = note
        .into_iter()
        .chain(ended)
        .chain(stopped)
        .chain(focused(&cases))
        .chain(cut)
        .chain(printed)
        .chain(asked.followed.into_iter().flat_map(|followed| followed.notes.clone()).filter(|_| ran))
        .chain(unbuilt(asked, &totals).filter(|_| ran))
        .chain(doubts.reasons.into_iter().filter(|_| ran))
        .collect();
    Judgement {
        verdict,
        complete: doubts.complete,
        consistent: doubts.consistent,
        reason: (!reasons.is_empty()).then(|| printable_message(&reasons.join("; "))),
        totals,
        cases,
        not_started: shortfall(live, rows),
    }
}

/// Reason of a run in which all tests were skipped, with why the first one was.
fn none_passed(cases: &[Case]) -> String {
    let first = cases.iter().find_map(|case| case.message.as_deref()).map(|text| clip(text, 200));
    let first = first.map(|text| format!("; the first: {text}")).unwrap_or_default();
    format!("no test passed: all were skipped, or failed as expected{first}")
}

/// A missing build, when so many tests were skipped that it may be the reason.
fn unbuilt(asked: Asked<'_>, totals: &Totals) -> Option<String> {
    let what = asked.followed.and_then(|followed| followed.unbuilt.as_deref())?;
    let all = totals.passed + totals.failed + totals.errored + totals.skipped;
    let many = totals.skipped >= 3 && totals.skipped.saturating_mul(4) >= all;
    many.then(|| format!("{} of {all} tests were skipped, and {what}", totals.skipped))
}

/// Tests that were skipped in files that choose some of their tests by `.only`, which no framework tells apart from other skips.
fn focused(cases: &[Case]) -> Option<String> {
    let is_left =
        |case: &&Case| case.message.as_deref().is_some_and(|words| matches!(words, FOCUSED | NODE_FOCUSED));
    let left: Vec<&Case> =
        cases.iter().filter(|case| case.status == Status::Skipped).filter(is_left).collect();
    let mut known = HashSet::new();
    let files: Vec<&str> =
        left.iter().filter_map(|case| case.file.as_deref()).filter(|file| known.insert(*file)).collect();
    let named: Vec<String> = files.iter().take(MAX_REASONS).map(|file| clip(file, 200)).collect();
    let more = if files.len() > named.len() { ", …" } else { "" };
    let were = if left.len() == 1 { "was" } else { "were" };
    let of = if named.is_empty() { String::new() } else { format!(": {}{more}", named.join(", ")) };
    let skipped = counted(left.len(), "test");
    (!left.is_empty()).then(|| format!("{skipped} {were} skipped in files with .only{of}"))
}

/// Test programs that ended before their tests were done, with how they ended. Why other tests have no result follows from it.
fn cut(cases: &[Case]) -> Vec<String> {
    let message = |case: &Case| case.message.clone().filter(|message| runner::is_ending(message));
    let cut = cases.iter().filter(|case| case.status == Status::Errored);
    let told =
        cut.filter_map(|case| Some(format!("{}: {}", clip(&case.id, 200), clip(&message(case)?, 300))));
    told.take(MAX_REASONS).collect()
}

/// The framework's explanation of its standard error.
fn explained(framework: &dyn Framework, outcome: &Outcome) -> Option<String> {
    framework.explain(outcome.stderr.text.as_deref()?)
}

/// Last lines on standard error, without the framework's own.
fn last_words(framework: &dyn Framework, outcome: &Outcome) -> Option<String> {
    let text = framework.of_tests(outcome.stderr.text.as_deref()?);
    let lines = text.lines().rev().map(uncoloured).map(|line| line.trim().to_owned());
    let of_node = framework.ecosystem() == Ecosystem::JavaScript;
    let tells_nothing = |l: &str| l.is_empty() || framework.is_own_line(l) || of_node && is_behind_error(l);
    let mut lines: Vec<String> = lines.filter(|l| !tells_nothing(l)).take(3).collect();
    lines.reverse();
    (!lines.is_empty()).then(|| format!("it printed last: {}", clip(&lines.join(" / "), 400)))
}

/// True for a line that node prints around the error that ends it: a stack frame, a mark, its version.
fn is_behind_error(line: &str) -> bool {
    line.starts_with("at ")
        || line.starts_with('❯')
        || line.starts_with("Node.js v")
        || line.bytes().all(|b| b == b'^')
}

/// Evidence against a run.
struct Doubts {
    complete: bool,
    consistent: bool,
    reasons: Vec<String>,
    left_out: usize,
}

impl Default for Doubts {
    fn default() -> Self {
        Self { complete: true, consistent: true, reasons: Vec::new(), left_out: 0 }
    }
}

impl Doubts {
    fn incomplete(&mut self, why: String) {
        self.complete = false;
        self.say(why);
    }

    fn inconsistent(&mut self, why: String) {
        self.consistent = false;
        self.say(why);
    }

    fn say(&mut self, why: String) {
        if self.reasons.len() < MAX_REASONS {
            self.reasons.push(why);
        } else {
            self.left_out += 1;
        }
    }
}

/// Compares live events and exit code for the whole run.
fn about_the_run((live, rows): (&LiveLog, u64), outcome: &Outcome, cases: &[Case], doubts: &mut Doubts) {
    if live.faults > 0 {
        doubts.inconsistent(format!(
            "{} of the events that the tests' process told while it ran cannot be read, or cannot follow those before",
            live.faults
        ));
    }
    if live.overflow {
        doubts.incomplete("there are more tests than are read".to_owned());
    }
    match &live.finished {
        None => doubts.incomplete("the framework did not come to its end".to_owned()),
        Some((code, _)) => {
            if let Some(real) = outcome.exit_code
                && i64::from(real) != code & 0xff
            {
                doubts.inconsistent(format!(
                    "the framework ended with code {code} and the process with {real}"
                ));
            }
        }
    }
    // With a failure, stopping early is normal; without one, something ended the run.
    if let Some(left) = shortfall(live, rows)
        && cases.iter().all(|c| c.status.is_good())
    {
        doubts.incomplete(not_begun(left));
    }
}

/// Note about that many tests which never started.
fn not_begun(left: u64) -> String {
    let were = if left == 1 { "was" } else { "were" };
    format!("{} {were} collected and not run", counted(left, "test"))
}

/// Number of tests that were collected and never started, although no group that contains them was skipped.
/// Tests with the same name are one case, counted as often as they both started and have an entry in the
/// report: a retried test has only the entry.
fn shortfall(live: &LiveLog, rows: u64) -> Option<u64> {
    let begun = live.started().max(live.starts.min(rows)).saturating_add(live.hidden);
    live.collected.and_then(|collected| collected.checked_sub(begun)).filter(|left| *left > 0)
}

/// Tests and files that did not run in a run that passed: a project may leave tests out, but this must be reported.
fn not_run(framework: &dyn Framework, asked: Asked<'_>, live: &LiveLog) -> Option<String> {
    let mut notes = Vec::new();
    // A filter and a part leave tests out by the caller's own wish.
    if live.left_out > 0 && asked.filter.is_none() && !asked.part {
        let were = if live.left_out == 1 { "was" } else { "were" };
        notes.push(format!(
            "{} {were} found and left out by the project itself",
            counted(live.left_out, "test")
        ));
    }
    let silent = silent(framework, asked, live);
    if !silent.is_empty() {
        let named: Vec<String> = silent.iter().take(MAX_REASONS).map(|file| clip(file, 200)).collect();
        let more = if silent.len() > named.len() { ", …" } else { "" };
        notes.push(format!("no test ran of files that seem to hold some: {}{more}", named.join(", ")));
    }
    (!notes.is_empty()).then(|| notes.join("; "))
}

/// Files that seem to hold tests, and of which none ran.
fn silent<'a>(framework: &dyn Framework, asked: Asked<'a>, live: &LiveLog) -> Vec<&'a String> {
    if asked.files.is_empty() {
        return Vec::new();
    }
    // Ids of Python and Java name modules and classes.
    let dotted = |path: &str| {
        path.strip_suffix(".py").or_else(|| path.strip_suffix(".java")).unwrap_or(path).replace('/', ".")
    };
    // The framework may name files relative to a subfolder.
    let below =
        |name: &str| name.match_indices('.').map(|(at, _)| name[at + 1..].to_owned()).collect::<Vec<_>>();
    let mut silent: Vec<(&'a String, String)> = asked.files.iter().map(|file| (file, dotted(file))).collect();
    let names = silent.iter().flat_map(|(_, name)| below(name).into_iter().chain([name.clone()]));
    let names: HashSet<String> = names.collect();
    // Keeps only names that can be found, since the ids are numerous and untrusted.
    let ids = live.seen().iter().map(|seen| &*seen.id);
    let heads = ids.clone().flat_map(|id| framework.heads(id)).map(dotted);
    let heads = heads.chain(ids.flat_map(|id| framework.files_of(id)).map(|file| dotted(&file)));
    let mut heads: HashSet<String> = heads.filter(|head| names.contains(head)).collect();
    silent.retain(|(_, name)| !heads.remove(name));
    silent.retain(|(_, name)| !below(name).iter().any(|end| heads.contains(end)));
    silent.into_iter().map(|(file, _)| file).collect()
}

/// Compares the exit code with the cases.
fn about_the_exit(exit: ExitMeaning, cases: &[Case], live: &LiveLog, missing: bool, doubts: &mut Doubts) {
    let bad: Vec<&Case> = cases.iter().filter(|case| !case.status.is_good()).collect();
    match exit {
        ExitMeaning::AllPassed if !bad.is_empty() => {
            // An entry of a file, a program or a command counts no test.
            let is_test = |case: &&&Case| live.position(&case.id).is_none_or(|at| live.seen()[at].started);
            let what = match (bad.iter().filter(is_test).count(), bad.first()) {
                (0, Some(first)) => clip(&first.id, 200),
                (tests, _) => counted(tests, "test"),
            };
            doubts.inconsistent(format!("the exit code says that all passed, and {what} did not"));
        }
        ExitMeaning::AllPassed if missing => {
            doubts.inconsistent("the exit code says that all passed, and no report does".to_owned());
        }
        ExitMeaning::SomeFailed if bad.is_empty() => {
            doubts.inconsistent(
                "the framework's exit code says that something failed, and its report has no test that did: a threshold, or what \
                 failed beside the tests, is in its output (-v shows it)"
                    .to_owned(),
            );
        }
        ExitMeaning::NoTests if cases.iter().any(|c| c.status != Status::Skipped) => {
            doubts.inconsistent("the exit code says that there were no tests, and some ran".to_owned());
        }
        _ => {}
    }
}

/// Merges the report and the live events of each test.
fn join(
    framework: &dyn Framework,
    report: Option<FinalReport>,
    live: &LiveLog,
    doubts: &mut Doubts,
) -> Vec<Case> {
    let there = report.is_some();
    let mut known: Vec<Vec<Entry>> = vec![Vec::new(); live.seen().len()];
    let mut unknown: Vec<Option<Entry>> = Vec::new();
    let mut index: HashMap<String, usize> = HashMap::new();
    for entry in report.unwrap_or_default().entries {
        if let Some(at) = live.position(&entry.id) {
            // Nearly every test has one entry, and the number of tests may reach the limit.
            if known[at].is_empty() {
                known[at].reserve_exact(1);
            }
            known[at].push(entry);
            continue;
        }
        let at = *index.entry(entry.id.clone()).or_insert(unknown.len());
        match unknown.get_mut(at) {
            Some(Some(first)) => merge(first, entry),
            _ => unknown.push(Some(entry)),
        }
    }
    let name = |id: &str| clip(id, 200);
    let mut cases = Vec::with_capacity(known.len() + unknown.len());
    for (seen, entries) in live.seen().iter().zip(known) {
        // In other frameworks an id is one test, and further entries are repetitions (pytest-rerunfailures).
        if framework.ecosystem() == Ecosystem::JavaScript && repeated::are_several(seen, &entries) {
            let taken = |id: &str| live.position(id).is_some();
            let several = repeated::apart(seen, entries, &taken);
            cases.extend(several.map(|(seen, entry)| case(framework, Some(&seen), Some(entry))));
            continue;
        }
        let entry = entries.into_iter().reduce(|mut first, other| {
            merge(&mut first, other);
            first
        });
        match (&entry, seen.open, seen.status) {
            (_, 1.., _) => doubts.incomplete(format!("{} started and did not end", name(&seen.id))),
            (None, ..) if there => doubts.incomplete(format!("the report lacks {}", name(&seen.id))),
            (Some(entry), _, Some(status))
                if framework.overrules() && entry.status != status && !entry.status.is_good() => {}
            (Some(entry), _, Some(status)) if entry.status != status => doubts.inconsistent(format!(
                "{}: told as {} while it ran, and as {} in the framework's report at the end",
                name(&seen.id),
                status.name(),
                entry.status.name()
            )),
            _ => {}
        }
        cases.push(case(framework, Some(seen), entry));
    }
    for entry in unknown.into_iter().flatten() {
        doubts.inconsistent(format!("{} is in the report and was never seen", name(&entry.id)));
        cases.push(case(framework, None, Some(entry)));
    }
    if doubts.left_out > 0 {
        let more = format!("and {} more", doubts.left_out);
        doubts.reasons.push(more);
    }
    cases
}

/// Message of the report, or of the live events. For a file that cannot be loaded, reports contain a constant
/// ("collection failure"), and the live events the actual error; a test that the report calls good has its reason for
/// skipping there.
fn first_of(
    (status, is_reported_good): (Status, bool),
    reported: Option<String>,
    seen: Option<String>,
) -> Option<String> {
    if status == Status::Errored || status == Status::Failed && is_reported_good {
        seen.filter(|text| !text.is_empty()).or(reported)
    } else {
        reported.or(seen)
    }
}

/// Merges two entries of one test: set-up and call, call and tear-down, subtests, repetitions.
fn merge(known: &mut Entry, mut other: Entry) {
    known.duration_ms += other.duration_ms;
    let (known_out, known_err) = (known.stdout.take(), known.stderr.take());
    // A test that fails and whose tear-down fails too has two reasons.
    if !known.status.is_good() && !other.status.is_good() {
        let (first, second) = (known.details.take(), other.details.take());
        let all = both(first, second);
        known.details.clone_from(&all);
        other.details = all;
    }
    if other.status > known.status {
        let duration_ms = known.duration_ms;
        *known = Entry { duration_ms, ..other };
        known.stdout = known.stdout.take().or(known_out);
        known.stderr = known.stderr.take().or(known_err);
    } else {
        known.stdout = known_out.or(other.stdout);
        known.stderr = known_err.or(other.stderr);
    }
}

fn case(framework: &dyn Framework, seen: Option<&Seen>, entry: Option<Entry>) -> Case {
    let open = seen.is_some_and(|s| s.open > 0 || s.status.is_none());
    let statuses =
        [entry.as_ref().map(|e| e.status), seen.and_then(|s| s.status), open.then_some(Status::NotFinished)];
    let status = statuses.into_iter().flatten().max().unwrap_or(Status::NotFinished);
    let id =
        seen.map_or_else(|| entry.as_ref().map(|e| e.id.clone()).unwrap_or_default(), |s| s.id.to_string());
    let crash = seen.and_then(|s| s.at.clone()).filter(|_| !status.is_good());
    let begin = seen.and_then(|s| Some((s.file.clone()?, s.line)));
    let written = entry.as_ref().and_then(|e| Some((e.file.clone()?, e.line)));
    let (file, line) = match crash {
        Some((file, line)) => (Some(file), Some(line)),
        // The start event may lack the line.
        None => begin
            .clone()
            .filter(|(_, line)| line.is_some())
            .or(written)
            .or(begin)
            .map_or((None, None), |(file, line)| (Some(file), line)),
    };
    let is_reported_good = entry.as_ref().is_some_and(|e| e.status.is_good());
    let duration = entry.as_ref().map_or_else(|| seen.map_or(0.0, |s| s.duration_ms), |e| e.duration_ms);
    let (message, details, stdout, stderr) =
        entry.map_or((None, None, None, None), |e| (e.message, e.details, e.stdout, e.stderr));
    Case {
        name: framework.name_of(&id),
        file,
        line,
        status,
        // Rounded, and limited to the valid range.
        duration_ms: std::time::Duration::try_from_secs_f64(duration / 1000.0).map_or(0, |d| {
            u64::try_from((d + std::time::Duration::from_micros(500)).as_millis()).unwrap_or(0)
        }),
        message: first_of((status, is_reported_good), message, seen.and_then(|s| s.message.clone())),
        details: details.or_else(|| seen.and_then(|s| s.details.clone())),
        stdout,
        stderr,
        source: None,
        attempts: Vec::new(),
        id,
    }
}

#[cfg(test)]
mod tests;
