//! Follows a hotcell script that starts test programs one after the other: lines of the script, and between
//! them the output of a program. That output is arbitrary and may imitate the script's lines; imitations are
//! faults, since the script announces which lines are its own.

use std::collections::{HashMap, HashSet};
use std::fmt::Debug;

use crate::case::{Entry, MAX_CASES, MAX_DETAIL_BYTES, MAX_MESSAGE_BYTES, MAX_NAME_BYTES, Status};
use crate::event::{Ended, Event, EventReader, Runtime};
use crate::frameworks::lines::Lines;
use crate::frameworks::runner;
use crate::live::LiveLog;
use crate::text::clip;

/// Maximum length of a line, in bytes.
const MAX_LINE_BYTES: usize = 256 << 10;
/// Maximum number of events; further ones are not read.
const MAX_EVENTS: usize = 1_000_000;
/// Maximum number of notes of programs.
const MAX_NOTES: usize = 6;
/// Word of the script behind the start of a program of which all tests are asked for.
const WHOLE: &str = "all";
/// Word of the script behind the exit code of a program that left no report of its own.
const CUT: &str = "cut";

/// A running program.
#[derive(Debug, Default)]
pub struct Running {
    /// Name in the script's lines.
    pub program: String,
    /// Tests that it listed before it ran, by index in the list.
    pub tests: HashMap<String, usize>,
    /// Those of them that have started.
    pub begun: HashSet<String>,
    /// Listed tests that will not run unless the program itself has them run.
    pub off: HashSet<String>,
    /// Number of tests that were listed until now, by all programs, without those.
    pub listed: u64,
    /// Running test, and the output since its start.
    pub open: Option<(String, String)>,
    /// Output outside of tests.
    pub said: String,
    /// True when a test or its environment is not good.
    pub bad: bool,
    /// True when the script asked for all of its tests.
    pub whole: bool,
    /// True when the program ended without a report of its own.
    pub cut: bool,
    /// Note about tests that the program itself left out or repeated.
    pub note: Option<String>,
    started: bool,
}

impl Running {
    /// Id of a test.
    #[must_use]
    pub fn id(&self, test: &str) -> String {
        clip(&format!("{}::{test}", self.program), MAX_NAME_BYTES)
    }

    /// Starts a test.
    pub fn begin(&mut self, test: &str, out: &mut Vec<Event>) {
        // Tests run one at a time, and each only once.
        if self.open.is_some() || !self.begun.insert(test.to_owned()) {
            out.push(Event::Fault);
            return;
        }
        if self.off.remove(test) {
            self.listed += 1;
            out.push(Event::Collected(self.listed, 0));
        }
        self.open = Some((test.to_owned(), String::new()));
        out.push(Event::Started(self.id(test), None, None));
    }

    /// Ends the running test.
    pub fn finish(&mut self, status: Status, duration_ms: f64, why: Why, out: &mut Vec<Event>) {
        let Some((test, said)) = self.open.take() else { return };
        let id = self.id(&test);
        self.bad |= !status.is_good();
        out.push(Event::Ended(Ended {
            duration_ms: Some(duration_ms).filter(|ms| (0.0..1e12).contains(ms)).unwrap_or(0.0),
            message: why.0.map(|m| clip(&m, MAX_MESSAGE_BYTES)),
            at: why.1,
            ..ended(id.clone(), status)
        }));
        if !said.trim().is_empty() {
            out.push(Event::Said(id, said.trim_end().to_owned()));
        }
    }

    /// Reports the tests that did not run, as they were not to.
    fn leave_off(&mut self, out: &mut Vec<Event>) {
        let mut off: Vec<String> = std::mem::take(&mut self.off).into_iter().collect();
        off.sort_by_key(|test| self.tests.get(test).copied());
        out.extend(off.iter().map(|test| Event::Group(ended(self.id(test), Status::Skipped), 0)));
    }

    /// Keeps a line as output.
    pub fn keep(&mut self, line: &str) {
        let text = self.open.as_mut().map_or(&mut self.said, |(_, text)| text);
        if !line.is_empty() && text.len() < MAX_DETAIL_BYTES {
            text.push_str(line);
            text.push('\n');
        }
    }

    /// Reports a failed group of tests.
    pub fn group(&mut self, id: String, why: Why, out: &mut Vec<Event>) {
        self.bad = true;
        let message = why.0.map(|m| clip(&m, MAX_MESSAGE_BYTES));
        out.push(Event::Group(Ended { message, at: why.1, ..ended(id, Status::Errored) }, 0));
    }
}

/// Failure message, and place in the project.
pub type Why = (Option<String>, Option<(String, u32)>);

/// An end with only a result.
#[must_use]
pub fn ended(id: String, status: Status) -> Ended {
    Ended { id, status, duration_ms: 0.0, message: None, at: None, file: None }
}

/// Output format of one kind of test program.
pub trait Prints: Debug + Default + Send {
    /// True when a listed test will not run, unless the program itself has it run.
    fn is_off(_test: &str) -> bool {
        false
    }
    /// Handles a line of standard output.
    fn line(&mut self, running: &mut Running, line: &str, out: &mut Vec<Event>);
    /// Handles the end of a program with this exit code; `None` if the end was not observed.
    fn end(&mut self, running: &mut Running, code: Option<i32>, out: &mut Vec<Event>);
}

/// Reader of the live events.
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
    notes: Vec<String>,
}

impl<P: Prints> Default for ProgramEvents<P> {
    fn default() -> Self {
        Self { lines: Lines::new(MAX_LINE_BYTES), state: State::default() }
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
            running.leave_off(&mut out);
            prints.end(&mut running, None, &mut out);
        }
        out
    }
}

impl<P: Prints> State<P> {
    fn line(&mut self, line: &str, out: &mut Vec<Event>) {
        if self.events >= MAX_EVENTS {
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
        if self.events >= MAX_EVENTS {
            out.push(Event::Fault);
        }
    }

    fn mark(&mut self, mark: runner::Mark<'_>, running: Option<(Running, P)>, out: &mut Vec<Event>) {
        let Some((mut running, mut prints)) = running else {
            match mark.kind {
                "program"
                    if self.programs.len() < MAX_CASES && self.programs.insert(mark.program.to_owned()) =>
                {
                    let program = clip(mark.program, MAX_NAME_BYTES);
                    out.push(Event::Named(mark.program.to_owned(), program.clone()));
                    let running = Running { program, listed: self.listed, ..Running::default() };
                    self.running = Some((running, P::default()));
                }
                "version" => {
                    let version = Some(clip(mark.rest, 100));
                    out.push(Event::Session(Runtime { version, interpreter: None }));
                }
                "missing" => out.push(Event::Missing(clip(mark.rest, 100), Runtime::default())),
                "note" => {
                    if self.notes.len() < MAX_NOTES {
                        self.notes.push(clip(mark.rest, MAX_MESSAGE_BYTES));
                    }
                }
                // FILE	LINE MESSAGE
                "broken" => {
                    let (line, message) = mark.rest.split_once(' ').unwrap_or(("", mark.rest));
                    let file = clip(mark.program, MAX_NAME_BYTES);
                    let at = line.parse().ok().filter(|line| *line > 0).map(|line| (file.clone(), line));
                    let message = Some(clip(message, MAX_MESSAGE_BYTES));
                    let ended =
                        Ended { message, at, file: Some(file.clone()), ..ended(file, Status::Errored) };
                    out.push(Event::Group(ended, 0));
                }
                // A test that is a program of its own: its start, and how it ended (`CODE run WORDS`).
                "step" => {
                    self.listed += 1;
                    out.push(Event::Collected(self.listed, 0));
                    out.push(Event::Started(clip(mark.program, MAX_NAME_BYTES), None, None));
                }
                "stepped" => {
                    let status = step(mark.rest);
                    let words = mark.rest.splitn(3, ' ').nth(2).filter(|words| !words.is_empty());
                    let message = words.filter(|_| status == Status::Errored);
                    let message = message.map(|words| clip(&format!("ctest: {words}"), MAX_MESSAGE_BYTES));
                    out.push(Event::Ended(Ended {
                        message,
                        ..ended(clip(mark.program, MAX_NAME_BYTES), status)
                    }));
                }
                "done" => {
                    let notes = std::mem::take(&mut self.notes);
                    let notes = (!notes.is_empty()).then(|| notes.join("; "));
                    out.push(Event::Finished(mark.rest.parse().unwrap_or(-1), notes));
                }
                _ => out.push(Event::Fault),
            }
            return;
        };
        match mark.kind {
            _ if mark.program != running.program => out.push(Event::Fault),
            "test" if !running.started && running.tests.len() < MAX_CASES => {
                let at = running.tests.len();
                let test = clip(mark.rest, MAX_NAME_BYTES);
                if P::is_off(mark.rest) {
                    running.off.insert(test.clone());
                } else {
                    running.listed += 1;
                }
                running.tests.insert(test, at);
            }
            "start" if !running.started => {
                running.started = true;
                running.whole = mark.rest == WHOLE;
                if !running.tests.is_empty() {
                    out.push(Event::Collected(running.listed, 0));
                }
            }
            "end" if running.started => {
                let (code, came) = mark.rest.split_once(' ').unwrap_or((mark.rest, ""));
                running.cut = came == CUT;
                running.leave_off(out);
                prints.end(&mut running, Some(code.parse().unwrap_or(-1)), out);
                self.listed = running.listed;
                if self.notes.len() < MAX_NOTES {
                    self.notes.extend(running.note);
                }
                return;
            }
            _ => out.push(Event::Fault),
        }
        self.running = Some((running, prints));
    }
}

/// Result of a test that is a program of its own, by `CODE run` or `CODE skipped`. It may be any program, so it has no failed
/// test.
#[must_use]
pub fn step(ended: &str) -> Status {
    let mut words = ended.split(' ');
    match (words.next(), words.next()) {
        (Some("0"), Some("skipped")) => Status::Skipped,
        (Some("0"), Some("run")) => Status::Passed,
        _ => Status::Errored,
    }
}

/// Entries for groups that never started: a file that does not compile, a set-up that failed. Only the script
/// reports them.
pub fn never_started(live: &LiveLog) -> impl Iterator<Item = Entry> {
    let seen = live.seen().iter().filter(|seen| !seen.started);
    seen.filter_map(|seen| Some(Entry::bare(&seen.id, seen.status?, 0.0)))
}

/// Adds the entries of [`never_started`] that a report lacks.
pub fn add_never_started(entries: &mut Vec<Entry>, live: &LiveLog) {
    let known: HashSet<String> = entries.iter().map(|e| e.id.clone()).collect();
    entries.extend(never_started(live).filter(|e| !known.contains(&e.id)));
}

/// Entries from live events, for tests of programs that left no report and ended abnormally.
pub fn as_seen(live: &LiveLog, programs: &HashSet<&str>) -> impl Iterator<Item = Entry> {
    let of = |id: &str| id.rsplit_once("::").is_some_and(|(program, _)| programs.contains(program));
    let seen = live.seen().iter().filter(move |seen| seen.started && seen.open == 0 && of(&seen.id));
    seen.filter_map(|seen| Some(Entry::bare(&seen.id, seen.status?, seen.duration_ms)))
}
