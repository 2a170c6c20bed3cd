//! What cargo and nextest say on standard output and standard error, and our script between them, as events. nextest keeps what
//! tests print.

use std::collections::{HashMap, HashSet};
use std::time::Instant;

use crate::cargo::build::Build;
use crate::case::{MOST_CASES, NAME, Status};
use crate::event::{Ended, Event, EventReader, Runtime};
use crate::lines::Lines;
use crate::programs::ended;
use crate::runner;
use crate::text::clip;

/// The longest line that is read, bytes: a compiler's message with what it shows of the source.
const LONGEST_LINE: usize = 1 << 20;
/// After this many events nothing more is read.
const MOST_EVENTS: usize = 1_000_000;

/// The reader.
#[derive(Debug)]
pub struct NextestEvents {
    lines: Lines,
    errors: Lines,
    state: State,
}

#[derive(Debug)]
struct State {
    build: Build,
    /// Whether everything was built, once that is known.
    built: Option<bool>,
    /// How many tests nextest said that it starts.
    announced: Option<u64>,
    /// Those that run, and since when.
    open: HashMap<String, Instant>,
    begun: HashSet<String>,
    ignored: HashSet<String>,
    failed: bool,
    session: bool,
    events: usize,
}

impl NextestEvents {
    /// For a project in this folder inside.
    pub fn new(project: &str) -> Self {
        let state = State {
            build: Build::of(project),
            built: None,
            announced: None,
            open: HashMap::new(),
            begun: HashSet::new(),
            ignored: HashSet::new(),
            failed: false,
            session: false,
            events: 0,
        };
        Self { lines: Lines::new(LONGEST_LINE), errors: Lines::new(LONGEST_LINE), state }
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
        out.extend(state.finished().map(|code| Event::Finished(code, None)));
        out
    }
}

impl State {
    /// A line of standard output.
    fn line(&mut self, line: &str, out: &mut Vec<Event>) {
        if self.events >= MOST_EVENTS {
            return;
        }
        let before = out.len();
        match (self.built, runner::mark(line)) {
            (None, _) => self.built = self.build.line(line, out),
            (Some(_), Some(mark)) => self.mark(mark, out),
            (Some(_), None) => {}
        }
        self.events += out.len() - before;
        if self.events >= MOST_EVENTS {
            out.push(Event::Fault);
        }
    }

    fn mark(&mut self, mark: runner::Mark<'_>, out: &mut Vec<Event>) {
        let Some(file) = self.build.file_of(mark.program).map(|file| clip(file, NAME)) else {
            out.push(Event::Fault);
            return;
        };
        let id = |name: &str| clip(&format!("{file}::{name}"), NAME);
        match mark.kind {
            "ignored" if self.begun.is_empty() && self.ignored.len() < MOST_CASES => {
                let id = id(mark.rest);
                if self.ignored.insert(id.clone()) {
                    out.push(Event::Group(Ended { file: Some(file), ..ended(id, Status::Skipped) }, 0));
                }
            }
            // VERSION BINARY-ID NAME
            "begin" => {
                let mut words = mark.rest.splitn(3, ' ');
                let (version, binary) = (words.next().unwrap_or_default(), words.next().unwrap_or_default());
                let id = id(words.next().unwrap_or_default());
                if !std::mem::replace(&mut self.session, true) {
                    let version = Some(clip(version, 100)).filter(|version| version != "-");
                    out.push(Event::Session(Runtime { version, interpreter: None }));
                }
                out.push(Event::Named(clip(binary, NAME), file.clone()));
                if !self.begun.insert(id.clone()) {
                    out.push(Event::Fault);
                }
                self.open.insert(id.clone(), Instant::now());
                out.push(Event::Started(id, Some(file), None));
            }
            // CODE NAME, where the code may be `early`
            "end" => {
                let (code, name) = mark.rest.split_once(' ').unwrap_or(("", mark.rest));
                let id = id(name);
                let Some(since) = self.open.remove(&id) else {
                    out.push(Event::Fault);
                    return;
                };
                let (status, message) = match (code, code.parse::<i32>()) {
                    ("early", _) => {
                        (Status::Errored, Some("it ended the test program with exit code 0".to_owned()))
                    }
                    (_, Ok(0)) => (Status::Passed, None),
                    // One that panics ends so, and says why.
                    (_, Ok(101)) => (Status::Failed, None),
                    (_, code) => (Status::Failed, Some(runner::ending(code.unwrap_or(-1)))),
                };
                // What nextest counts.
                self.failed |= status == Status::Failed;
                let duration_ms = since.elapsed().as_secs_f64() * 1000.0;
                out.push(Event::Ended(Ended { duration_ms, message, ..ended(id, status) }));
            }
            _ => out.push(Event::Fault),
        }
    }

    /// A line of standard error.
    fn said(&mut self, line: &str, out: &mut Vec<Event>) {
        let line = line.trim();
        // `Starting 6 tests across 2 binaries (1 test skipped)`
        let count = line.strip_prefix("Starting ").and_then(|rest| rest.split_once(" test"));
        if let Some(count) =
            count.filter(|(_, rest)| rest.contains(" across ")).and_then(|(n, _)| n.parse().ok())
        {
            self.announced = self.announced.max(Some(count));
            out.push(Event::Collected(count, 0));
        } else if self.built.is_none() && line.starts_with("error: no such command: `nextest`") {
            out.push(Event::Missing("cargo-nextest".to_owned(), Runtime::default()));
        }
    }

    /// With which code nextest ends, if it came to its end.
    fn finished(&self) -> Option<i64> {
        let all = self.announced == Some(self.begun.len() as u64);
        match self.built? {
            false => Some(101),
            true if !self.open.is_empty() => None,
            true if self.announced == Some(0) => Some(4),
            // Told to stop at the first failure, it does.
            true if self.failed => Some(100),
            true => all.then_some(0),
        }
    }
}
