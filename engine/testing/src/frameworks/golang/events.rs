//! Converts the output of `go test -json` to events. Lines that are not JSON are build output of Go before
//! 1.24, as is all of standard error.

use std::collections::{BTreeMap, BTreeSet, HashMap, HashSet};

use serde::Deserialize;

use crate::case::{MAX_CASES, MAX_DETAIL_BYTES, MAX_MESSAGE_BYTES, MAX_NAME_BYTES, Status};
use crate::event::{Ended, Event, EventReader, Runtime};
use crate::frameworks::lines::Lines;
use crate::frameworks::runner;
use crate::text::clip;
use hotcell_sandbox::text::counted;

use super::reasons::{crash, ending, place, why};

/// Maximum length of a line, in bytes.
const MAX_LINE_BYTES: usize = 256 << 10;
/// Maximum number of events; further ones are not read.
const MAX_EVENTS: usize = 1_000_000;
/// Maximum number of tests named in a note.
const MAX_NAMED: usize = 3;
/// Message of a test that its program left out.
const LEFT_OUT: &str = "its program did not start it, or did not say so, as where TestMain sets the flag test.run, test.skip or test.v; a test is left out by t.Skip";
/// Maximum output of tests kept until their results are known, in bytes.
const MAX_OUTPUT_BYTES: usize = 16 << 20;

#[derive(Debug, Deserialize)]
#[serde(rename_all = "PascalCase")]
struct Line {
    action: String,
    package: Option<String>,
    test: Option<String>,
    output: Option<String>,
    elapsed: Option<f64>,
    import_path: Option<String>,
    failed_build: Option<String>,
}

/// Tests of one package.
#[derive(Debug, Default)]
struct Package {
    /// Folder, relative to the project.
    folder: String,
    program: Option<String>,
    /// True once a test started: output may then come from a test.
    begun: bool,
    /// True once a test failed.
    bad: bool,
    done: bool,
    /// Output outside of any test.
    said: String,
    /// Output of running tests.
    output: HashMap<String, String>,
    /// Tests that the script listed, those with a start event, and those with an end event.
    listed: HashSet<String>,
    started: HashSet<String>,
    ended: HashSet<String>,
    /// Printed results, by test. `go` before 1.20 has no event for a result that follows text without a
    /// newline, nor for those of subtests below it: a printed result counts if there is no event when the
    /// package is done.
    printed: BTreeMap<String, (Status, f64)>,
    /// Results of tests that failed by the word of a `go` before 1.20, which takes a program's own text for results: by
    /// the package's own result, which is its program's exit code, it is known if they count.
    held: BTreeMap<String, Vec<(Status, f64)>>,
    /// True once a line ends with `FAIL`, as the program says when a test failed, whatever its exit code is.
    says_fail: bool,
}

/// Reader of the live events.
#[derive(Debug)]
pub struct GoEvents {
    out: Lines,
    err: Lines,
    state: State,
}

#[derive(Debug, Default)]
struct State {
    project: String,
    packages: BTreeMap<String, Package>,
    /// Packages that do not build.
    broken: Vec<String>,
    /// Reasons for that, by another package's name: since Go 1.24 the broken package may be a dependency.
    because: HashMap<String, String>,
    /// Compiler output by package; `telling` is the package of the current lines.
    compiler: HashMap<String, String>,
    telling: String,
    listed: u64,
    kept: usize,
    /// True for a `go` before 1.20.
    old: bool,
    events: usize,
    code: i64,
    reported: HashSet<String>,
    /// Number of tests that good programs left out, and the first of them.
    left_out: usize,
    first_left_out: Vec<String>,
}

impl GoEvents {
    /// Reader for a project in this folder of the sandbox.
    pub fn new(project: &str) -> Self {
        let state = State { project: project.to_owned(), ..State::default() };
        Self { out: Lines::new(MAX_LINE_BYTES), err: Lines::new(MAX_LINE_BYTES), state }
    }
}

impl EventReader for GoEvents {
    fn push(&mut self, bytes: &[u8]) -> Vec<Event> {
        let mut events = Vec::new();
        let state = &mut self.state;
        self.out.push(bytes, |line, _| state.line(line, &mut events));
        events
    }

    fn push_stderr(&mut self, bytes: &[u8]) -> Vec<Event> {
        let state = &mut self.state;
        self.err.push(bytes, |line, _| state.compiler(line));
        Vec::new()
    }

    fn end(&mut self) -> Vec<Event> {
        let mut events = Vec::new();
        let state = &mut self.state;
        self.out.end(|line, _| state.line(line, &mut events));
        self.err.end(|line, _| state.compiler(line));
        state.end(&mut events);
        events
    }
}

/// One-line reason when there is no module, or a dependency is missing that would have to be fetched.
pub fn absent(text: &str) -> Option<String> {
    let no_module = ["go.mod file not found", "does not contain main module"];
    if let Some(line) = text.lines().map(str::trim).find(|l| no_module.iter().any(|sign| l.contains(sign))) {
        let why = clip(line.trim_start_matches("go: "), 300);
        return Some(format!("go finds no module in the project ({why}): name a folder with a go.mod"));
    }
    let signs = ["GOPROXY=off", "no required module provides", "cannot find module", "missing go.sum entry"];
    let line = text.lines().map(str::trim).find(|l| signs.iter().any(|sign| l.contains(sign)))?;
    Some(format!(
        "a dependency is not there ({}), and nothing is fetched: run `go mod download` outside, or `go mod vendor` in the project, or add ‹deps›",
        clip(line, 300)
    ))
}

impl State {
    fn line(&mut self, line: &str, out: &mut Vec<Event>) {
        if self.events >= MAX_EVENTS {
            return;
        }
        let before = out.len();
        match serde_json::from_str::<Line>(line) {
            Ok(line) => self.json(line, out),
            // FAIL	example.com/a [build failed]
            Err(_) => {
                let failed = line
                    .strip_prefix("FAIL\t")
                    .and_then(|l| l.split_once(" ["))
                    .filter(|(_, why)| why.ends_with(" failed]"));
                if let Some((package, why)) = failed {
                    // A package that cannot even be loaded does not count as a failed build.
                    self.code = self.code.max(if why == "build failed]" { 2 } else { 1 });
                    self.breaks(package, out);
                }
            }
        }
        self.events += 1 + out.len() - before;
        if self.events >= MAX_EVENTS {
            out.push(Event::Fault);
        }
    }

    fn breaks(&mut self, package: &str, out: &mut Vec<Event>) {
        let package = clip(package, MAX_NAME_BYTES);
        if self.broken.len() < MAX_CASES && !self.broken.contains(&package) {
            out.push(Event::Group(ended(package.clone(), Status::Errored), 0));
            self.broken.push(package);
        }
    }

    fn json(&mut self, line: Line, out: &mut Vec<Event>) {
        if let (Some(package), Some(text)) = (line.import_path, &line.output) {
            self.telling = package.split(' ').next().unwrap_or_default().to_owned();
            self.compiler(text.trim_end_matches('\n'));
            return;
        }
        let Some(name) = line.package.filter(|_| self.packages.len() < MAX_CASES) else { return };
        if line.test.is_none() && self.mark(&name, line.output.as_deref(), out) {
            return;
        }
        let package = self.packages.entry(name.clone()).or_default();
        if package.done {
            out.push(Event::Fault);
            return;
        }
        if let Some(because) = line.failed_build.filter(|_| line.test.is_none()) {
            let because = because.split(' ').next().unwrap_or_default();
            self.because.insert(clip(&name, MAX_NAME_BYTES), clip(because, MAX_NAME_BYTES));
        }
        let duration_ms = line.elapsed.filter(|s| (0.0..1e9).contains(s)).unwrap_or(0.0) * 1000.0;
        let status = match line.action.as_str() {
            "pass" => Some(Status::Passed),
            "fail" => Some(Status::Failed),
            "skip" => Some(Status::Skipped),
            _ => None,
        };
        package.says_fail |= line.output.as_deref().is_some_and(|text| text.trim_end().ends_with("FAIL"));
        match (line.test, line.action.as_str(), status) {
            (Some(test), "run", _) => {
                package.begun = true;
                // Once more where `TestMain` calls `m.Run` again.
                let held = if package.started.contains(&test) { package.held.remove(&test) } else { None };
                if let Some(last) = held.and_then(|held| held.last().copied()) {
                    package.finish(&name, &test, last, &self.project, out);
                }
                let again = package.ended.remove(&test);
                if test.contains('/') && !again {
                    self.listed += 1;
                }
                out.push(Event::Started(id(&name, &test), None, None));
                package.started.insert(test);
            }
            (Some(test), "output", _) => {
                let text = line.output.unwrap_or_default();
                if let Some((name, status, ms)) = printed_result(&text)
                    && package.printed.len() < MAX_CASES
                {
                    package.printed.insert(name.to_owned(), (status, ms));
                }
                let own = ["=== ", "--- "].iter().any(|head| text.trim_start().starts_with(head));
                let said = package.output.entry(test).or_default();
                if !own && said.len() < MAX_DETAIL_BYTES && self.kept < MAX_OUTPUT_BYTES {
                    self.kept += text.len();
                    said.push_str(&text);
                }
            }
            (Some(test), _, Some(status)) => {
                let began = package.started.contains(&test);
                let within = package.runs_above(&test);
                if self.old && !began && within && status != Status::Failed {
                    // Its start followed text without a newline.
                    self.listed += 1;
                    out.push(Event::Started(id(&name, &test), None, None));
                    package.started.insert(test.clone());
                    package.finish(&name, &test, (status, duration_ms), &self.project, out);
                } else if self.old
                    && (!began
                        || status == Status::Failed
                        || package.ended.contains(&test)
                        || package.held.contains_key(&test))
                {
                    package.hold(test, status, duration_ms);
                } else {
                    let said = package.output.get(&test).map_or(0, String::len);
                    self.kept = self.kept.saturating_sub(said);
                    package.finish(&name, &test, (status, duration_ms), &self.project, out);
                }
            }
            (None, "output", _) => {
                let text = line.output.unwrap_or_default();
                if let Some(test) = package.started_behind(&text) {
                    package.begun = true;
                    package.started.insert(test.clone());
                    out.push(Event::Started(id(&name, &test), None, None));
                } else if let Some((test, status, ms)) = printed_result(&text)
                    && package.printed.len() < MAX_CASES
                {
                    package.printed.insert(test.to_owned(), (status, ms));
                }
                if package.said.len() < MAX_DETAIL_BYTES && self.kept < MAX_OUTPUT_BYTES {
                    self.kept += text.len();
                    package.said.push_str(&text);
                }
            }
            (None, _, Some(status)) => {
                package.done = true;
                package.take_held(&name, status, &self.project, out);
                self.listed += package.take_printed(&name, status, out);
                if status == Status::Passed {
                    let left = package.take_left_out(&name, out);
                    self.left_out += left.len();
                    let room = MAX_NAMED.saturating_sub(self.first_left_out.len());
                    self.first_left_out.extend(left.into_iter().take(room).map(|id| clip(&id, 200)));
                }
                if status == Status::Failed && !package.is_killed() {
                    package.take_open(&name, &self.project, out);
                }
                out.push(Event::Collected(self.listed, 0));
                if status == Status::Failed {
                    self.code = self.code.max(1);
                    let mut said = std::mem::take(&mut package.said);
                    // How a killed program ended is among the output of the test that ran.
                    if package.is_killed() {
                        let of_tests: BTreeSet<&String> = package.output.values().collect();
                        said.extend(of_tests.into_iter().map(String::as_str));
                    }
                    if said.contains(" failed]") {
                        self.breaks(&name, out);
                    } else if !package.bad {
                        let message = Some(clip(&ending("", &said), MAX_MESSAGE_BYTES));
                        let (_, at) = why(&said, &self.project, &package.folder);
                        out.push(Event::Group(
                            Ended { message, at, ..ended(name.clone(), Status::Errored) },
                            0,
                        ));
                        out.push(Event::Said(name, said));
                    }
                }
            }
            _ => {}
        }
    }

    /// Takes a line of hotcell's script. After the first test started, such lines are not trusted.
    fn mark(&mut self, name: &str, text: Option<&str>, out: &mut Vec<Event>) -> bool {
        let Some(mark) = text.and_then(|text| runner::mark(text.trim_end_matches('\n'))) else {
            return false;
        };
        let package = self.packages.entry(name.to_owned()).or_default();
        if package.begun || package.program.as_deref().is_some_and(|p| p != mark.program) {
            out.push(Event::Fault);
            return true;
        }
        package.program = Some(mark.program.to_owned());
        match mark.kind {
            "program" => out.push(Event::Named(mark.program.to_owned(), clip(name, MAX_NAME_BYTES))),
            "test" => {
                // A `TestMain` that calls `m.Run` twice lists its tests twice, too.
                if !package.listed.contains(mark.rest) {
                    self.listed += 1;
                    if package.listed.len() < MAX_CASES {
                        package.listed.insert(mark.rest.to_owned());
                    }
                }
            }
            "version" => {
                let version = Some(clip(mark.rest.trim_start_matches("go"), 100));
                self.old = is_old(mark.rest);
                out.push(Event::Session(Runtime { version, interpreter: None }));
            }
            "start" => {
                let folder = mark.rest.strip_prefix(self.project.as_str()).unwrap_or_default();
                package.folder = folder.trim_start_matches('/').to_owned();
                out.push(Event::Collected(self.listed, 0));
            }
            _ => out.push(Event::Fault),
        }
        true
    }

    /// A line of a compiler, or of `go` itself.
    fn compiler(&mut self, line: &str) {
        if let Some(package) = line.strip_prefix("# ") {
            self.telling = package.split(' ').next().unwrap_or_default().to_owned();
            return;
        }
        if self.compiler.len() > 10_000 || self.kept >= MAX_OUTPUT_BYTES {
            return;
        }
        let text = self.compiler.entry(self.telling.clone()).or_default();
        if text.len() < MAX_DETAIL_BYTES {
            self.kept += line.len();
            text.push_str(line);
            text.push('\n');
        }
    }

    /// Note about tests that programs left out.
    fn note(&self) -> Option<String> {
        let more = if self.left_out > self.first_left_out.len() { ", …" } else { "" };
        let were = if self.left_out == 1 { "was" } else { "were" };
        (self.left_out > 0).then(|| {
            let tests = counted(self.left_out, "test");
            format!(
                "{tests} {were} left out by the test program itself: {}{more}",
                self.first_left_out.join(", ")
            )
        })
    }

    fn end(&mut self, out: &mut Vec<Event>) {
        // A package that did not come to its end has not passed.
        for (name, package) in self.packages.iter_mut().filter(|(_, package)| !package.done) {
            package.take_held(name, Status::Failed, &self.project, out);
        }
        for package in std::mem::take(&mut self.broken) {
            // Tests of the package `a_test` are reported under another name.
            let names = [package.clone(), format!("{package}_test"), String::new()];
            let because = self.because.get(&package);
            let said = because.into_iter().chain(&names).find_map(|name| self.compiler.get(name));
            let said = said.cloned().unwrap_or_default();
            let first = said.lines().find(|l| place(l).is_some()).or(said.lines().next());
            let at = first.and_then(place).map(|(file, line, _)| {
                let file = file.strip_prefix("./").unwrap_or(file);
                (clip(file, MAX_NAME_BYTES), line)
            });
            let plain = first.map(|l| place(l).map_or(l, |(_, _, rest)| rest).to_owned());
            let message = absent(&said).or(plain).unwrap_or_else(|| "it does not build".to_owned());
            let message = Some(clip(&message, MAX_MESSAGE_BYTES));
            out.push(Event::Group(Ended { message, at, ..ended(package.clone(), Status::Errored) }, 0));
            out.push(Event::Said(package.clone(), said));
            self.reported.insert(package);
        }
        let any = !self.packages.is_empty() || !self.reported.is_empty();
        if any && self.packages.iter().all(|(name, p)| p.done || self.reported.contains(name)) {
            out.push(Event::Finished(self.code, self.note()));
        }
    }
}

impl Package {
    /// Listed test that starts behind text without a newline, as `TestMain` may print it:
    /// `text=== RUN   TestA`. `go` before 1.20 has no event for it.
    fn started_behind(&self, text: &str) -> Option<String> {
        let (before, test) = text.trim_end().rsplit_once("=== RUN   ")?;
        let new = !before.is_empty() && self.listed.contains(test) && !self.started.contains(test);
        new.then(|| test.to_owned())
    }

    /// True for a subtest of a test that runs.
    fn runs_above(&self, test: &str) -> bool {
        let above = test.split_once('/').map(|(top, _)| top);
        above.is_some_and(|top| self.started.contains(top) && !self.ended.contains(top))
    }

    /// Reports a result of a test.
    fn finish(
        &mut self,
        package: &str,
        test: &str,
        (status, duration_ms): (Status, f64),
        project: &str,
        out: &mut Vec<Event>,
    ) {
        let said = self.output.remove(test).unwrap_or_default();
        self.bad |= status == Status::Failed;
        self.ended.insert(test.to_owned());
        let (message, at) =
            if status == Status::Passed { (None, None) } else { why(&said, project, &self.folder) };
        let id = id(package, test);
        out.push(Event::Ended(Ended { duration_ms, message, at, ..ended(id.clone(), status) }));
        if status == Status::Failed && !said.is_empty() {
            out.push(Event::Said(id, said.trim_end().to_owned()));
        }
    }

    fn hold(&mut self, test: String, status: Status, ms: f64) {
        let tests = self.held.len();
        let held = match self.held.get_mut(&test) {
            Some(held) => held,
            None if tests < MAX_CASES => self.held.entry(test).or_default(),
            None => return,
        };
        // The last and the worst are what counts.
        if held.len() < 16 {
            held.push((status, ms));
        } else {
            held[15] = (status.max(held[15].0), ms);
        }
    }

    /// Reports results that were held: of a package that passed, no test failed; of one that failed, the worst one counts.
    fn take_held(&mut self, package: &str, whole: Status, project: &str, out: &mut Vec<Event>) {
        for (test, held) in std::mem::take(&mut self.held) {
            let last = held.last().copied().unwrap_or((Status::Failed, 0.0));
            let worst = held.iter().map(|(status, _)| *status).max().unwrap_or(Status::Failed);
            // A later result shows that the one before was text, unless the program itself says that a test failed.
            let passed = whole == Status::Passed && !self.says_fail;
            let status = if passed && last.0.is_good() { last.0 } else { worst };
            let began = self.started.contains(&test);
            // A subtest whose start followed text without a newline, in a package that fails.
            let lost = !began && !passed && self.started.contains(top(&test)) && test.contains('/');
            if lost {
                out.push(Event::Started(id(package, &test), None, None));
                self.started.insert(test.clone());
            }
            if lost || began && !self.ended.contains(&test) {
                self.finish(package, &test, (status, last.1), project, out);
            } else if began && !passed && status == Status::Failed {
                // One of its two results is text that the program printed, and either may be.
                self.bad = true;
                out.push(Event::Group(ended(id(package, &test), status), 0));
            }
        }
    }

    /// Reports tests of a good program that it listed and never started, and returns their ids: `m.Run` runs fewer than it
    /// lists where `TestMain` sets a flag such as `test.run` before.
    fn take_left_out(&mut self, package: &str, out: &mut Vec<Event>) -> Vec<String> {
        let is_left = |test: &&String| !self.started.contains(*test) && !self.ended.contains(*test);
        let left: BTreeSet<String> =
            self.listed.iter().filter(is_left).map(|test| id(package, test)).collect();
        for id in &left {
            let message = Some(LEFT_OUT.to_owned());
            out.push(Event::Group(Ended { message, ..ended(id.clone(), Status::Skipped) }, 1));
        }
        left.into_iter().collect()
    }

    /// True when the program was killed, as by the kernel that lacks memory: no test says why.
    fn is_killed(&self) -> bool {
        let texts = self.output.values().chain([&self.said]);
        texts
            .flat_map(|text| text.lines())
            .any(|line| matches!(line.trim(), "exit status 137" | "signal: killed"))
    }

    /// Reports tests that ran when the program of a package that failed ended: what it printed last is why.
    fn take_open(&mut self, package: &str, project: &str, out: &mut Vec<Event>) {
        let open: BTreeSet<String> = self.started.difference(&self.ended).cloned().collect();
        let inner = |test: &String| !open.iter().any(|other| other.starts_with(&format!("{test}/")));
        let texts: Vec<String> = open
            .iter()
            .filter(|test| inner(test))
            .filter_map(|test| self.output.get(test).cloned())
            .collect();
        // A crash is told once, among the output of any of them.
        let whole = texts.join("") + &self.said;
        let crash = crash(&whole);
        for test in &open {
            let said = self.output.remove(test).unwrap_or_default();
            let own = crash.is_none_or(|line| said.contains(line));
            let text = if crash.is_some() { whole.as_str() } else { said.as_str() };
            let (_, at) = why(text, project, &self.folder);
            let message = match inner(test) {
                true => ending(if own { &said } else { "" }, &whole),
                false => "the test program ended while one of its subtests ran".to_owned(),
            };
            let message = Some(clip(&message, MAX_MESSAGE_BYTES));
            let at = at.filter(|_| inner(test));
            self.bad = true;
            self.ended.insert(test.clone());
            let id = id(package, test);
            out.push(Event::Ended(Ended { message, at, ..ended(id.clone(), Status::Failed) }));
            let text = if said.is_empty() { &self.said } else { &said };
            if !text.trim().is_empty() {
                out.push(Event::Said(id, text.trim_end().to_owned()));
            }
        }
    }

    /// Reports results that were only printed; returns the number of subtests without a start event.
    fn take_printed(&mut self, package: &str, whole: Status, out: &mut Vec<Event>) -> u64 {
        let mut subtests = 0;
        for (test, (status, duration_ms)) in std::mem::take(&mut self.printed) {
            // A result for a test that never started may be the program's own text: only subtests of started
            // tests are accepted.
            let top = test.split('/').next().unwrap_or_default();
            // No subtest failed in a package that passed.
            let text = whole == Status::Passed && status == Status::Failed && !self.started.contains(&test);
            if text || self.ended.contains(&test) || !self.started.contains(top) {
                continue;
            }
            let id = id(package, &test);
            if !self.started.contains(&test) {
                subtests += 1;
                out.push(Event::Started(id.clone(), None, None));
            }
            self.ended.insert(test.clone());
            self.bad |= status == Status::Failed;
            let said = self.output.remove(&test).unwrap_or_default();
            let message = (status != Status::Passed).then(|| clip(said.trim(), MAX_MESSAGE_BYTES));
            let message = message.filter(|text| !text.is_empty());
            out.push(Event::Ended(Ended { duration_ms, message, ..ended(id.clone(), status) }));
            if status == Status::Failed && !said.is_empty() {
                out.push(Event::Said(id, said.trim_end().to_owned()));
            }
        }
        subtests
    }
}

/// Parses a test's result at the end of a line, after any text: `text--- PASS: TestA/b (0.01s)`. The duration
/// is in milliseconds.
fn printed_result(text: &str) -> Option<(&str, Status, f64)> {
    let line = text.strip_suffix('\n')?.strip_suffix("s)")?;
    let words =
        [("--- PASS: ", Status::Passed), ("--- FAIL: ", Status::Failed), ("--- SKIP: ", Status::Skipped)];
    let found = words.iter().filter_map(|(word, status)| Some((line.rfind(word)? + word.len(), *status)));
    let (at, status) = found.max_by_key(|(at, _)| *at)?;
    let (name, seconds) = line[at..].rsplit_once(" (")?;
    let seconds = seconds.parse::<f64>().ok().filter(|s| (0.0..1e9).contains(s))?;
    (!name.contains(' ')).then_some((name, status, seconds * 1000.0))
}

fn id(package: &str, test: &str) -> String {
    clip(&format!("{package}::{test}"), MAX_NAME_BYTES)
}

fn ended(id: String, status: Status) -> Ended {
    Ended { id, status, duration_ms: 0.0, message: None, at: None, file: None }
}

/// Name of the test around a subtest.
fn top(test: &str) -> &str {
    test.split('/').next().unwrap_or(test)
}

/// True for `go` before 1.20, by its version `go1.19.8`.
fn is_old(version: &str) -> bool {
    let minor = version.strip_prefix("go1.").map(|rest| rest.split(|c: char| !c.is_ascii_digit()).next());
    minor.flatten().and_then(|minor| minor.parse::<u32>().ok()).is_some_and(|minor| minor < 20)
}
