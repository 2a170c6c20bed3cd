//! What `cargo test` prints, as events: first cargo's own messages, one JSON object a line, until everything is built;
//! then the text of one test program after the other, between lines of our script; last that of rustdoc.

use std::collections::{HashMap, HashSet};
use std::time::Instant;

use super::build::Build;
use crate::case::{DETAILS, MESSAGE, MOST_CASES, NAME, Status};
use crate::event::{Ended, Event, EventReader, Runtime};
use crate::libtest::{self, Sum};
use crate::lines::Lines;
use crate::runner;
use crate::text::clip;

/// The longest line that is read, bytes: a compiler's message with what it shows of the source.
const LONGEST_LINE: usize = 1 << 20;
/// After this many events nothing more is read.
const MOST_EVENTS: usize = 1_000_000;

/// One program, or what rustdoc runs of one crate.
#[derive(Debug, Default)]
struct Suite {
    /// What ids begin with; empty for rustdoc's.
    file: String,
    /// Its name in lines of ours; none for rustdoc's.
    program: Option<String>,
    tests: Vec<String>,
    index: HashMap<String, usize>,
    /// So many run at once, in the order of the list.
    threads: usize,
    next: usize,
    since: HashMap<usize, Instant>,
    ended: HashSet<usize>,
    counts: Sum,
    announced: Option<u64>,
    sum: Option<Sum>,
    /// The failed test whose output follows, and that.
    section: Option<(String, String)>,
    running: bool,
}

impl Suite {
    fn id(&self, name: &str) -> String {
        if self.file.is_empty() { name.to_owned() } else { format!("{}::{name}", self.file) }
    }
}

#[derive(Debug, Default)]
enum Stage {
    /// cargo compiles.
    #[default]
    Building,
    /// Between programs; rustdoc's come here.
    Between,
    /// A program runs.
    Inside(Box<Suite>),
    /// rustdoc runs examples.
    Examples(Box<Suite>),
}

/// The reader.
#[derive(Debug)]
pub struct CargoEvents {
    lines: Lines,
    state: State,
}

#[derive(Debug)]
struct State {
    stage: Stage,
    build: Build,
    /// Test programs that were built and did not start yet.
    waiting: HashSet<String>,
    listed: u64,
    failed: bool,
    events: usize,
}

impl CargoEvents {
    /// For a project in this folder inside.
    pub fn new(project: &str) -> Self {
        let state = State {
            stage: Stage::Building,
            build: Build::of(project),
            waiting: HashSet::new(),
            listed: 0,
            failed: false,
            events: 0,
        };
        Self { lines: Lines::new(LONGEST_LINE), state }
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
        // With --fail-fast, programs after one that failed are not started.
        if matches!(state.stage, Stage::Between) && (state.waiting.is_empty() || state.failed) {
            out.push(Event::Finished(if state.failed { 101 } else { 0 }, None));
        }
        out
    }
}

impl State {
    fn line(&mut self, line: &str, out: &mut Vec<Event>) {
        if self.events >= MOST_EVENTS {
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
        if self.events >= MOST_EVENTS {
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
            "test" if !suite.running && suite.tests.len() < MOST_CASES => {
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
            && suite.tests.len() < MOST_CASES
        {
            suite.index.insert(name.to_owned(), suite.tests.len());
            suite.tests.push(name.to_owned());
            let (file, rest) = name.split_once(" - ").unwrap_or((name, ""));
            let at = rest.rsplit_once("(line ").and_then(|(_, l)| l.strip_suffix(')')?.parse().ok());
            self.listed += 1;
            out.push(Event::Collected(self.listed, 0));
            out.push(Event::Started(clip(name, NAME), Some(clip(file, NAME)), at));
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

    /// A line that a test program or rustdoc printed, or a test.
    fn text(&mut self, suite: &mut Suite, line: &str, out: &mut Vec<Event>) {
        if let Some(name) = libtest::section(line).filter(|name| suite.index.contains_key(*name)) {
            flush(suite, out);
            suite.section = Some((name.to_owned(), String::new()));
        } else if let Some(sum) = libtest::sum(line) {
            flush(suite, out);
            // Twice is once too often.
            if suite.sum.replace(sum).is_some() {
                out.push(Event::Fault);
            }
        } else if line == "failures:" {
            flush(suite, out);
        } else if let Some((_, text)) = &mut suite.section {
            if text.len() < DETAILS {
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
                id: clip(&suite.id(name), NAME),
                status,
                duration_ms,
                message: note.map(|n| clip(n, MESSAGE)),
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
            // A harness of its own, which lists nothing: it is one test.
            None if suite.tests.is_empty() => {
                self.listed += 1;
                out.push(Event::Collected(self.listed, 0));
                out.push(Event::Started(suite.file.clone(), Some(suite.file.clone()), None));
                let status = if code == 0 { Status::Passed } else { Status::Failed };
                out.push(Event::Ended(group(status, (code != 0).then(|| runner::ending(code)))));
            }
            None => {
                let message = format!("{} before all of its tests were done", runner::ending(code));
                out.push(Event::Group(group(Status::Errored, Some(message)), 0));
            }
        }
    }
}

/// Tests start in the order of the list, each when another has ended: so the first that have not ended are running.
fn start(suite: &mut Suite, out: &mut Vec<Event>) {
    let most = suite.ended.len().saturating_add(suite.threads).min(suite.tests.len());
    while suite.next < most {
        let at = suite.next;
        suite.next += 1;
        suite.since.insert(at, Instant::now());
        out.push(Event::Started(clip(&suite.id(&suite.tests[at]), NAME), Some(suite.file.clone()), None));
    }
}

/// What a failed test printed is known now.
fn flush(suite: &mut Suite, out: &mut Vec<Event>) {
    let Some((name, text)) = suite.section.take() else { return };
    let id = clip(&suite.id(&name), NAME);
    let (message, at) = libtest::why(&text);
    let message = message.or_else(|| text.lines().rev().find(|l| !l.trim().is_empty()).map(str::to_owned));
    let failed = Ended {
        id: id.clone(),
        status: Status::Failed,
        duration_ms: 0.0,
        message: message.map(|m| clip(&m, MESSAGE)),
        at,
        file: None,
    };
    out.push(Event::Group(failed, 0));
    out.push(Event::Said(id, text.trim_end().to_owned()));
}
