//! Follows a script of ours that starts test programs one after the other: lines of the script's, and between them what a
//! program prints. What a program prints may be anything, also lines like the script's; those are faults, since the
//! script says where its own belong.

use std::collections::{HashMap, HashSet};
use std::fmt::Debug;

use crate::case::{DETAILS, Entry, MESSAGE, MOST_CASES, NAME, Status};
use crate::event::{Ended, Event, EventReader, Runtime};
use crate::lines::Lines;
use crate::live::LiveLog;
use crate::runner;
use crate::text::clip;

/// The longest line that is read, bytes.
const LONGEST_LINE: usize = 256 << 10;
/// After this many events nothing more is read.
const MOST_EVENTS: usize = 1_000_000;

/// A program that runs.
#[derive(Debug, Default)]
pub struct Running {
    /// As the script names it.
    pub program: String,
    /// The tests that it listed before it ran, by their place in the list.
    pub tests: HashMap<String, usize>,
    /// The tests of these that have started.
    pub begun: HashSet<String>,
    /// The test that runs, and what was printed since it began.
    pub open: Option<(String, String)>,
    /// What was printed outside of tests.
    pub said: String,
    /// A test or what it needs is not good.
    pub bad: bool,
    started: bool,
}

impl Running {
    /// The id of a test.
    #[must_use]
    pub fn id(&self, test: &str) -> String {
        clip(&format!("{}::{test}", self.program), NAME)
    }

    /// A test starts.
    pub fn begin(&mut self, test: &str, out: &mut Vec<Event>) {
        // Two at once there are not, and none twice.
        if self.open.is_some() || !self.begun.insert(test.to_owned()) {
            out.push(Event::Fault);
            return;
        }
        self.open = Some((test.to_owned(), String::new()));
        out.push(Event::Started(self.id(test), None, None));
    }

    /// The test that runs ends.
    pub fn finish(&mut self, status: Status, duration_ms: f64, why: Why, out: &mut Vec<Event>) {
        let Some((test, said)) = self.open.take() else { return };
        let id = self.id(&test);
        self.bad |= !status.is_good();
        out.push(Event::Ended(Ended {
            duration_ms: Some(duration_ms).filter(|ms| (0.0..1e12).contains(ms)).unwrap_or(0.0),
            message: why.0.map(|m| clip(&m, MESSAGE)),
            at: why.1,
            ..ended(id.clone(), status)
        }));
        if !said.trim().is_empty() {
            out.push(Event::Said(id, said.trim_end().to_owned()));
        }
    }

    /// Keeps a line that is nothing else.
    pub fn keep(&mut self, line: &str) {
        let text = self.open.as_mut().map_or(&mut self.said, |(_, text)| text);
        if !line.is_empty() && text.len() < DETAILS {
            text.push_str(line);
            text.push('\n');
        }
    }

    /// Something that holds tests is not good.
    pub fn group(&mut self, id: String, why: Why, out: &mut Vec<Event>) {
        self.bad = true;
        let message = why.0.map(|m| clip(&m, MESSAGE));
        out.push(Event::Group(Ended { message, at: why.1, ..ended(id, Status::Errored) }, 0));
    }
}

/// What was wrong, and where in the project.
pub type Why = (Option<String>, Option<(String, u32)>);

/// An ending and nothing more.
#[must_use]
pub fn ended(id: String, status: Status) -> Ended {
    Ended { id, status, duration_ms: 0.0, message: None, at: None, file: None }
}

/// What one kind of test program prints.
pub trait Prints: Debug + Default + Send {
    /// Whether a test that is listed will not run.
    fn is_off(_test: &str) -> bool {
        false
    }
    /// A line of standard output.
    fn line(&mut self, running: &mut Running, line: &str, out: &mut Vec<Event>);
    /// The program has ended with this code; without one, nobody saw its end.
    fn end(&mut self, running: &mut Running, code: Option<i32>, out: &mut Vec<Event>);
}

/// The reader.
#[derive(Debug)]
pub struct ProgramEvents<P> {
    lines: Lines,
    state: State<P>,
}

#[derive(Debug, Default)]
struct State<P> {
    running: Option<(Running, P)>,
    programs: HashSet<String>,
    listed: u64,
    events: usize,
}

impl<P: Prints> Default for ProgramEvents<P> {
    fn default() -> Self {
        Self { lines: Lines::new(LONGEST_LINE), state: State::default() }
    }
}

impl<P: Prints> EventReader for ProgramEvents<P> {
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
        if let Some((mut running, mut prints)) = state.running.take() {
            prints.end(&mut running, None, &mut out);
        }
        out
    }
}

impl<P: Prints> State<P> {
    fn line(&mut self, line: &str, out: &mut Vec<Event>) {
        if self.events >= MOST_EVENTS {
            return;
        }
        let before = out.len();
        match (runner::mark(line), self.running.take()) {
            (Some(mark), running) => self.mark(mark, running, out),
            (None, Some((mut running, mut prints))) => {
                if running.started {
                    prints.line(&mut running, line, out);
                }
                self.running = Some((running, prints));
            }
            (None, None) => {}
        }
        self.events += 1 + out.len() - before;
        if self.events >= MOST_EVENTS {
            out.push(Event::Fault);
        }
    }

    fn mark(&mut self, mark: runner::Mark<'_>, running: Option<(Running, P)>, out: &mut Vec<Event>) {
        let Some((mut running, mut prints)) = running else {
            match mark.kind {
                "program"
                    if self.programs.len() < MOST_CASES && self.programs.insert(mark.program.to_owned()) =>
                {
                    let program = clip(mark.program, NAME);
                    out.push(Event::Named(mark.program.to_owned(), program.clone()));
                    self.running = Some((Running { program, ..Running::default() }, P::default()));
                }
                "version" => {
                    let version = Some(clip(mark.rest, 100));
                    out.push(Event::Session(Runtime { version, interpreter: None }));
                }
                "missing" => out.push(Event::Missing(clip(mark.rest, 100), Runtime::default())),
                // FILE	LINE MESSAGE
                "broken" => {
                    let (line, message) = mark.rest.split_once(' ').unwrap_or(("", mark.rest));
                    let file = clip(mark.program, NAME);
                    let at = line.parse().ok().filter(|line| *line > 0).map(|line| (file.clone(), line));
                    let message = Some(clip(message, MESSAGE));
                    let ended =
                        Ended { message, at, file: Some(file.clone()), ..ended(file, Status::Errored) };
                    out.push(Event::Group(ended, 0));
                }
                "done" => out.push(Event::Finished(mark.rest.parse().unwrap_or(-1), None)),
                _ => out.push(Event::Fault),
            }
            return;
        };
        match mark.kind {
            _ if mark.program != running.program => out.push(Event::Fault),
            "test" if !running.started && running.tests.len() < MOST_CASES => {
                let at = running.tests.len();
                running.tests.insert(clip(mark.rest, NAME), at);
                if P::is_off(mark.rest) {
                    out.push(Event::Group(ended(running.id(mark.rest), Status::Skipped), 0));
                } else {
                    self.listed += 1;
                }
            }
            "start" if !running.started => {
                running.started = true;
                if !running.tests.is_empty() {
                    out.push(Event::Collected(self.listed, 0));
                }
            }
            "end" if running.started => {
                prints.end(&mut running, Some(mark.rest.parse().unwrap_or(-1)), out);
                return;
            }
            _ => out.push(Event::Fault),
        }
        self.running = Some((running, prints));
    }
}

/// Entries for what never started: a file that does not compile, a set-up that failed. Nobody but the script saw it.
pub fn never_started(live: &LiveLog) -> impl Iterator<Item = Entry> {
    let seen = live.seen().iter().filter(|seen| !seen.started);
    seen.filter_map(|seen| Some(Entry::bare(&seen.id, seen.status?, 0.0)))
}

/// Entries as they were seen, for the tests of programs that left no report and did not end well.
pub fn as_seen(live: &LiveLog, programs: &HashSet<&str>) -> impl Iterator<Item = Entry> {
    let of = |id: &str| id.rsplit_once("::").is_some_and(|(program, _)| programs.contains(program));
    let seen = live.seen().iter().filter(move |seen| seen.started && seen.open == 0 && of(&seen.id));
    seen.filter_map(|seen| Some(Entry::bare(&seen.id, seen.status?, seen.duration_ms)))
}
