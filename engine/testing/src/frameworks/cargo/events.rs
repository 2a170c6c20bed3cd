//! Converts the output of `cargo test` to events: first cargo's own messages, one JSON object per line, until
//! everything is built; then the text of each test program, between lines of hotcell's script; at last the
//! text of rustdoc.

use std::collections::{HashMap, HashSet};
use std::time::Instant;

use super::build::Build;
use crate::case::{MAX_CASES, MAX_DETAIL_BYTES, MAX_MESSAGE_BYTES, MAX_NAME_BYTES, Status};
use crate::event::{Ended, Event, EventReader, Runtime};
use crate::frameworks::libtest::{self, Sum};
use crate::frameworks::lines::Lines;
use crate::frameworks::runner;
use crate::text::clip;

/// Maximum length of a line, in bytes: a compiler's message with its source excerpt.
const MAX_LINE_BYTES: usize = 1 << 20;
/// Maximum number of events; further ones are not read.
const MAX_EVENTS: usize = 1_000_000;

/// One program, or rustdoc's run for one crate.
#[derive(Debug, Default)]
struct Suite {
    /// Prefix of ids; empty for rustdoc's.
    file: String,
    /// Program in the script's lines; `None` for rustdoc's.
    program: Option<String>,
    tests: Vec<String>,
    index: HashMap<String, usize>,
    /// Number of concurrent tests, started in the order of the list.
    threads: usize,
    next: usize,
    since: HashMap<usize, Instant>,
    ended: HashSet<usize>,
    counts: Sum,
    announced: Option<u64>,
    sum: Option<Sum>,
    /// Failed test whose output is being read, and that output.
    section: Option<(String, String)>,
    running: bool,
}

impl Suite {
    fn id(&self, name: &str) -> String {
        if self.file.is_empty() { name.to_owned() } else { format!("{}::{name}", self.file) }
    }

    /// Test that a section is about: libtest-mimic omits the kind, which precedes the name everywhere else.
    fn test_of_section(&self, name: &str) -> Option<String> {
        if self.index.contains_key(name) {
            return Some(name.to_owned());
        }
        let of_a_kind = |test: &&String| {
            test.starts_with('[') && test.strip_suffix(name).is_some_and(|kind| kind.ends_with("] "))
        };
        // rustdoc appends its treatment of an example to the name, except in section heads.
        let of_an_example = |test: &&String| {
            self.file.is_empty() && test.strip_prefix(name).is_some_and(|kind| kind.starts_with(" - "))
        };
        self.tests.iter().find(|test| of_a_kind(test) || of_an_example(test)).cloned()
    }
}

#[derive(Debug, Default)]
enum Stage {
    /// cargo is compiling.
    #[default]
    Building,
    /// Between programs; before rustdoc's examples.
    Between,
    /// A program is running.
    Inside(Box<Suite>),
    /// rustdoc is running examples.
    Examples(Box<Suite>),
}

/// Reader of the live events.
#[derive(Debug)]
pub struct CargoEvents {
    lines: Lines,
    state: State,
}

#[derive(Debug)]
struct State {
    stage: Stage,
    build: Build,
    /// Built test programs that have not started yet.
    waiting: HashSet<String>,
    listed: u64,
    failed: bool,
    events: usize,
}

impl CargoEvents {
    /// Reader for a project in this folder of the sandbox.
    pub fn new(project: &str) -> Self {
        let state = State {
            stage: Stage::Building,
            build: Build::of(project),
            waiting: HashSet::new(),
            listed: 0,
            failed: false,
            events: 0,
        };
        Self { lines: Lines::new(MAX_LINE_BYTES), state }
    }
}

impl EventReader for CargoEvents {
    fn push(&mut self, bytes: &[u8]) -> Vec<Event> {
        let mut out = Vec::new();
        let state = &mut self.state;
        self.lines.push(bytes, |line, _| state.line(line, &mut out));
        out
    }

    fn end(&mut self) -> Vec<Event> {
        let mut out = Vec::new();
        let state = &mut self.state;
        self.lines.end(|line, _| state.line(line, &mut out));
        // With --fail-fast, programs after a failed one are not started.
        if matches!(state.stage, Stage::Between) && (state.waiting.is_empty() || state.failed) {
            out.push(Event::Finished(if state.failed { 101 } else { 0 }, None));
        }
        out
    }
}

impl State {
    fn line(&mut self, line: &str, out: &mut Vec<Event>) {
        if self.events >= MAX_EVENTS {
            return;
        }
        let before = out.len();
        self.stage = match std::mem::take(&mut self.stage) {
            Stage::Building => self.building(line, out),
            Stage::Between => self.between(line, out),
            Stage::Inside(suite) => self.inside(suite, line, out),
            Stage::Examples(suite) => self.examples(suite, line, out),
        };
        self.events += out.len() - before;
        if self.events >= MAX_EVENTS {
            out.push(Event::Fault);
        }
    }

    fn building(&mut self, line: &str, out: &mut Vec<Event>) -> Stage {
        let Some(built) = self.build.line(line, out) else { return Stage::Building };
        self.failed = !built;
        if built {
            self.waiting = self.build.programs().cloned().collect();
        }
        Stage::Between
    }

    fn between(&mut self, line: &str, out: &mut Vec<Event>) -> Stage {
        if let Some(mark) = runner::mark(line) {
            let file = (mark.kind == "program").then(|| self.build.file_of(mark.program)).flatten();
            let (Some(file), true) = (file, self.waiting.remove(mark.program)) else {
                out.push(Event::Fault);
                return Stage::Between;
            };
            let program = Some(mark.program.to_owned());
            return Stage::Inside(Box::new(Suite { file: file.to_owned(), program, ..Suite::default() }));
        }
        match libtest::running(line) {
            Some(count) => Stage::Examples(Box::new(Suite { announced: Some(count), ..Suite::default() })),
            None => Stage::Between,
        }
    }

    fn inside(&mut self, mut suite: Box<Suite>, line: &str, out: &mut Vec<Event>) -> Stage {
        let Some(mark) = runner::mark(line) else {
            if suite.running {
                self.text(&mut suite, line, out);
            }
            return Stage::Inside(suite);
        };
        match mark.kind {
            _ if Some(mark.program) != suite.program.as_deref() => out.push(Event::Fault),
            "test" if !suite.running && suite.tests.len() < MAX_CASES => {
                suite.index.insert(mark.rest.to_owned(), suite.tests.len());
                suite.tests.push(mark.rest.to_owned());
            }
            "start" if !suite.running => {
                suite.running = true;
                suite.threads = mark.rest.parse().unwrap_or(1).clamp(1, 1024);
                self.listed += suite.tests.len() as u64;
                out.push(Event::Collected(self.listed, 0));
                start(&mut suite, out);
            }
            "logged" if !suite.running => {}
            "version" if !suite.running => {
                // cargo 1.95.0 (f2d3ce0bd 2026-03-21)
                let version = mark.rest.split(' ').nth(1).map(|version| clip(version, 100));
                out.push(Event::Session(Runtime { version, interpreter: None }));
            }
            "end" if suite.running => {
                self.ended(&mut suite, mark.rest.parse().unwrap_or(-1), out);
                return Stage::Between;
            }
            _ => out.push(Event::Fault),
        }
        Stage::Inside(suite)
    }

    fn examples(&mut self, mut suite: Box<Suite>, line: &str, out: &mut Vec<Event>) -> Stage {
        if let Some((name, ..)) = libtest::result(line, |_| true)
            && !suite.index.contains_key(name)
            && suite.tests.len() < MAX_CASES
        {
            suite.index.insert(name.to_owned(), suite.tests.len());
            suite.tests.push(name.to_owned());
            let (file, rest) = name.split_once(" - ").unwrap_or((name, ""));
            let at = rest.rsplit_once("(line ").and_then(|(_, l)| l.split_once(')')?.0.parse().ok());
            self.listed += 1;
            out.push(Event::Collected(self.listed, 0));
            out.push(Event::Started(clip(name, MAX_NAME_BYTES), Some(clip(file, MAX_NAME_BYTES)), at));
            suite.next += 1;
        }
        self.text(&mut suite, line, out);
        let Some(sum) = suite.sum else { return Stage::Examples(suite) };
        self.failed |= sum.failed > 0;
        if suite.announced != Some(suite.ended.len() as u64) || suite.counts != sum {
            out.push(Event::Fault);
        }
        Stage::Between
    }

    /// Handles a line printed by a test program or rustdoc, or by a test.
    fn text(&mut self, suite: &mut Suite, line: &str, out: &mut Vec<Event>) {
        if let Some(name) = libtest::section(line).and_then(|name| suite.test_of_section(name)) {
            flush(suite, out);
            suite.section = Some((name, String::new()));
        } else if let Some(sum) = libtest::sum(line) {
            flush(suite, out);
            // A name occurs only once.
            if suite.sum.replace(sum).is_some() {
                out.push(Event::Fault);
            }
        } else if line == "failures:" {
            flush(suite, out);
        } else if let Some((_, text)) = &mut suite.section {
            if text.len() < MAX_DETAIL_BYTES {
                text.push_str(line);
                text.push('\n');
            }
        } else if let Some((name, status, note)) =
            libtest::result(line, |name| suite.index.contains_key(name))
        {
            let Some(&at) = suite.index.get(name) else { return };
            let duration_ms =
                suite.since.get(&at).map_or(0.0, |since| since.elapsed().as_secs_f64() * 1000.0);
            if suite.ended.insert(at) {
                match status {
                    Status::Passed => suite.counts.passed += 1,
                    Status::Failed => suite.counts.failed += 1,
                    _ => suite.counts.ignored += 1,
                }
            }
            out.push(Event::Ended(Ended {
                id: clip(&suite.id(name), MAX_NAME_BYTES),
                status,
                duration_ms,
                message: note.map(|n| clip(n, MAX_MESSAGE_BYTES)),
                at: None,
                file: None,
            }));
            start(suite, out);
        }
    }

    fn ended(&mut self, suite: &mut Suite, code: i32, out: &mut Vec<Event>) {
        flush(suite, out);
        let group = |status, message| Ended {
            id: suite.file.clone(),
            status,
            duration_ms: 0.0,
            message,
            at: None,
            file: Some(suite.file.clone()),
        };
        self.failed |= code != 0;
        match suite.sum {
            Some(sum) if sum != suite.counts || (code == 0) != (sum.failed == 0) => out.push(Event::Fault),
            Some(_) => {}
            // A custom harness without a list: it is a single test.
            None if suite.tests.is_empty() => {
                self.listed += 1;
                out.push(Event::Collected(self.listed, 0));
                out.push(Event::Started(suite.file.clone(), Some(suite.file.clone()), None));
                let status = if code == 0 { Status::Passed } else { Status::Failed };
                out.push(Event::Ended(group(status, (code != 0).then(|| runner::ending(code)))));
            }
            None => {
                let exits = if code == 0 {
                    ": a test, or what it calls, ends the process, as by std::process::exit(0)"
                } else {
                    ""
                };
                let message = format!("{} before all of its tests were done{exits}", runner::ending(code));
                out.push(Event::Group(group(Status::Errored, Some(message)), 0));
            }
        }
    }
}

/// Tests start in the order of the list, each when another one ends: so the first unfinished ones are
/// running.
fn start(suite: &mut Suite, out: &mut Vec<Event>) {
    let most = suite.ended.len().saturating_add(suite.threads).min(suite.tests.len());
    while suite.next < most {
        let at = suite.next;
        suite.next += 1;
        suite.since.insert(at, Instant::now());
        out.push(Event::Started(
            clip(&suite.id(&suite.tests[at]), MAX_NAME_BYTES),
            Some(suite.file.clone()),
            None,
        ));
    }
}

/// The output of a failed test is complete now.
fn flush(suite: &mut Suite, out: &mut Vec<Event>) {
    let Some((name, text)) = suite.section.take() else { return };
    let id = clip(&suite.id(&name), MAX_NAME_BYTES);
    let (message, at) = libtest::why(&text);
    // rustdoc compiles an example as a program of its own, so line numbers of panics refer to that program:
    // the nearest correct place is the example's first line, which is in its name.
    let at = at.filter(|_| !suite.file.is_empty());
    let message = message.or_else(|| text.lines().rev().find(|l| !l.trim().is_empty()).map(str::to_owned));
    let failed = Ended {
        id: id.clone(),
        status: Status::Failed,
        duration_ms: 0.0,
        message: message.map(|m| clip(&m, MAX_MESSAGE_BYTES)),
        at,
        file: None,
    };
    out.push(Event::Group(failed, 0));
    out.push(Event::Said(id, text.trim_end().to_owned()));
}
