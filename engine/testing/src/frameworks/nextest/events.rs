//! Converts the standard output and standard error of cargo and nextest, with lines of hotcell's script in
//! between, to events. nextest captures the output of tests.

use std::collections::{HashMap, HashSet};
use std::time::Instant;

use crate::case::{MAX_CASES, MAX_NAME_BYTES, Status};
use crate::event::{Ended, Event, EventReader, Runtime};
use crate::frameworks::cargo::build::Build;
use crate::frameworks::lines::Lines;
use crate::frameworks::programs::ended;
use crate::frameworks::runner;
use crate::text::clip;
use hotcell_sandbox::text::counted;

/// Maximum length of a line, in bytes: a compiler's message with its source excerpt.
const MAX_LINE_BYTES: usize = 1 << 20;
/// Maximum number of events; further ones are not read.
const MAX_EVENTS: usize = 1_000_000;

/// Reader of the live events.
#[derive(Debug)]
pub struct NextestEvents {
    lines: Lines,
    errors: Lines,
    state: State,
}

#[derive(Debug)]
struct State {
    build: Build,
    /// True or false once the build has ended.
    built: Option<bool>,
    /// Programs without libtest, whose last line is unknown.
    others: HashSet<String>,
    /// True when all tests were requested.
    whole: bool,
    /// Numbers of tests that nextest starts, and leaves out.
    announced: Option<u64>,
    left_out: u64,
    open: HashMap<String, Open>,
    begun: HashSet<String>,
    ignored: HashSet<String>,
    /// nextest printed its summary; `failed`: not all tests are good.
    summed: bool,
    failed: bool,
    session: bool,
    events: usize,
}

/// A test that is running, or waiting for its next attempt.
#[derive(Debug)]
struct Open {
    since: Instant,
    attempt: u32,
    /// Exit code of its last attempt.
    last: Option<i32>,
}

impl NextestEvents {
    /// Reader for a project in this folder of the sandbox.
    pub fn new(project: &str) -> Self {
        let state = State {
            build: Build::of(project),
            built: None,
            others: HashSet::new(),
            whole: false,
            announced: None,
            left_out: 0,
            open: HashMap::new(),
            begun: HashSet::new(),
            ignored: HashSet::new(),
            summed: false,
            failed: false,
            session: false,
            events: 0,
        };
        Self { lines: Lines::new(MAX_LINE_BYTES), errors: Lines::new(MAX_LINE_BYTES), state }
    }
}

impl EventReader for NextestEvents {
    fn push(&mut self, bytes: &[u8]) -> Vec<Event> {
        let mut out = Vec::new();
        let state = &mut self.state;
        self.lines.push(bytes, |line, _| state.line(line, &mut out));
        out
    }

    fn push_stderr(&mut self, bytes: &[u8]) -> Vec<Event> {
        let mut out = Vec::new();
        let state = &mut self.state;
        self.errors.push(bytes, |line, _| state.said(line, &mut out));
        out
    }

    fn end(&mut self) -> Vec<Event> {
        let mut out = Vec::new();
        let state = &mut self.state;
        self.lines.end(|line, _| state.line(line, &mut out));
        self.errors.end(|line, _| state.said(line, &mut out));
        state.close(&mut out);
        let left_out = state.left_out.saturating_sub(state.ignored.len() as u64);
        let why = (state.whole && left_out > 0)
            .then(|| format!("the project's settings of nextest leave {} out", counted(left_out, "test")));
        out.extend(state.finished().map(|code| Event::Finished(code, why)));
        out
    }
}

impl State {
    /// A line of standard output.
    fn line(&mut self, line: &str, out: &mut Vec<Event>) {
        if self.events >= MAX_EVENTS {
            return;
        }
        let before = out.len();
        match (self.built, runner::mark(line)) {
            (None, _) => self.built = self.build.line(line, out),
            (Some(_), Some(mark)) => self.mark(mark, out),
            (Some(_), None) => {}
        }
        self.events += out.len() - before;
        if self.events >= MAX_EVENTS {
            out.push(Event::Fault);
        }
    }

    fn mark(&mut self, mark: runner::Mark<'_>, out: &mut Vec<Event>) {
        let Some(file) = self.build.file_of(mark.program).map(|file| clip(file, MAX_NAME_BYTES)) else {
            out.push(Event::Fault);
            return;
        };
        let id = |name: &str| clip(&format!("{file}::{name}"), MAX_NAME_BYTES);
        match mark.kind {
            "ignored" if self.begun.is_empty() && self.ignored.len() < MAX_CASES => {
                let id = id(mark.rest);
                if self.ignored.insert(id.clone()) {
                    out.push(Event::Group(Ended { file: Some(file), ..ended(id, Status::Skipped) }, 0));
                }
            }
            // Which tests are listed, and whether the program uses libtest.
            "listed" if self.begun.is_empty() => {
                let mut words = mark.rest.split(' ');
                self.whole |= words.next() == Some("whole");
                if words.next() == Some("other") {
                    self.others.insert(mark.program.to_owned());
                }
            }
            "begin" => self.begin(mark.rest, &file, out),
            "end" => self.ended(mark.program, mark.rest, &file, out),
            _ => out.push(Event::Fault),
        }
    }

    /// `VERSION BINARY-ID ATTEMPT NAME`
    fn begin(&mut self, rest: &str, file: &str, out: &mut Vec<Event>) {
        let mut words = rest.splitn(4, ' ');
        let mut word = || words.next().unwrap_or_default();
        let (version, binary, attempt, name) = (word(), word(), word(), word());
        let id = clip(&format!("{file}::{name}"), MAX_NAME_BYTES);
        if !std::mem::replace(&mut self.session, true) {
            let version = Some(clip(version, 100)).filter(|version| version != "-");
            out.push(Event::Session(Runtime { version, interpreter: None }));
        }
        out.push(Event::Named(clip(binary, MAX_NAME_BYTES), file.to_owned()));
        let attempt: u32 = attempt.parse().unwrap_or(0);
        let again = !self.begun.insert(id.clone());
        if again != (attempt != 1) {
            out.push(Event::Fault);
        }
        match self.open.get_mut(&id) {
            // The next attempt. If the last one has not ended, it was killed together with the script that
            // follows it.
            Some(open) if attempt == open.attempt.saturating_add(1) => {
                *open = Open { attempt, last: None, ..*open }
            }
            Some(_) => out.push(Event::Fault),
            None => {
                self.open.insert(id.clone(), Open { since: Instant::now(), attempt, last: None });
                out.push(Event::Started(id, Some(file.to_owned()), None));
            }
        }
    }

    /// `CODE ATTEMPT TOTAL-ATTEMPTS SAID NAME`
    fn ended(&mut self, program: &str, rest: &str, file: &str, out: &mut Vec<Event>) {
        let mut words = rest.splitn(5, ' ');
        let mut word = || words.next().unwrap_or_default();
        let code: i32 = word().parse().unwrap_or(-1);
        let attempts: [u32; 2] = [(); 2].map(|()| word().parse().unwrap_or(0));
        let (said, name) = (word(), word());
        let id = clip(&format!("{file}::{name}"), MAX_NAME_BYTES);
        let current = |open: &&mut Open| open.last.is_none() && open.attempt == attempts[0];
        let Some(open) = self.open.get_mut(&id).filter(current) else {
            out.push(Event::Fault);
            return;
        };
        if code != 0 && attempts[0] < attempts[1] {
            open.last = Some(code);
            return;
        }
        let since = open.since;
        self.open.remove(&id);
        let (status, message) = match (code, said) {
            (0, "none") => (Status::Errored, Some("its program ran no test of this name".to_owned())),
            (0, "one") => (Status::Passed, None),
            (0, "ignored") => (Status::Skipped, None),
            (0, _) if !self.others.contains(program) => {
                (Status::Errored, Some("it ended the test program with exit code 0".to_owned()))
            }
            (0, _) => (Status::Passed, None),
            // A panicking test exits with this code, and prints the reason.
            (101, _) => (Status::Failed, None),
            _ => (Status::Failed, Some(runner::ending(code))),
        };
        // nextest counts this failure.
        self.failed |= status == Status::Failed;
        let duration_ms = since.elapsed().as_secs_f64() * 1000.0;
        out.push(Event::Ended(Ended { duration_ms, message, ..ended(id, status) }));
    }

    /// When nextest has ended, nothing is running: an unfinished test was killed, or would have been retried.
    fn close(&mut self, out: &mut Vec<Event>) {
        if !self.summed {
            return;
        }
        for (id, open) in self.open.drain() {
            self.failed = true;
            let message = open.last.map_or_else(|| "nextest ended it".to_owned(), runner::ending);
            let duration_ms = open.since.elapsed().as_secs_f64() * 1000.0;
            out.push(Event::Ended(Ended {
                duration_ms,
                message: Some(message),
                ..ended(id, Status::Failed)
            }));
        }
    }

    /// A line of standard error.
    fn said(&mut self, line: &str, out: &mut Vec<Event>) {
        let line = line.trim();
        // `Starting 6 tests across 2 binaries (1 test skipped)`
        let count = line.strip_prefix("Starting ").and_then(|rest| rest.split_once(" test"));
        if let Some((count, rest)) = count.filter(|(_, rest)| rest.contains(" across ")) {
            let Some(count) = count.parse().ok().filter(|count| Some(*count) > self.announced) else {
                return;
            };
            self.announced = Some(count);
            let skipped = rest.split_once('(').and_then(|(_, rest)| rest.split_once(" test"));
            self.left_out = self.left_out.max(skipped.and_then(|(n, _)| n.parse().ok()).unwrap_or(0));
            out.push(Event::Collected(count, 0));
        } else if line.starts_with("Summary [") {
            self.summed = true;
        } else if line == "error: test run failed" {
            self.failed = true;
        } else if self.built.is_none()
            && !self.session
            && line.starts_with("error: no such command: `nextest`")
        {
            self.session = true;
            out.push(Event::Missing("cargo-nextest".to_owned(), Runtime::default()));
        }
    }

    /// Expected exit code of nextest, if it ended normally.
    fn finished(&self) -> Option<i64> {
        let all = self.announced == Some(self.begun.len() as u64);
        match self.built? {
            false => Some(101),
            true if !self.open.is_empty() => None,
            true if self.announced == Some(0) => Some(4),
            // With fail-fast, it stops at the first failure.
            true if self.failed => Some(100),
            true => all.then_some(0),
        }
    }
}
