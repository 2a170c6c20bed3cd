//! Live events of running tests: the second of three witnesses, beside the final report and the exit code.

use std::collections::HashMap;
use std::sync::Arc;

use crate::case::{MAX_CASES, Status};
use crate::event::{Ended, Event, Runtime};
use crate::text::Budget;

/// Maximum size of all texts together, in bytes.
const MAX_TEXT_BYTES: usize = 24 << 20;

/// One test as observed.
#[derive(Clone, Debug, PartialEq)]
pub struct Seen {
    /// Id.
    pub id: Arc<str>,
    /// File of the test.
    pub file: Option<String>,
    /// Line in that file, from 1.
    pub line: Option<u32>,
    /// Number of starts minus number of ends.
    pub open: u32,
    /// True for a test that started, false for a group.
    pub started: bool,
    /// Result of each end: distinguishes several tests with the same name.
    pub ends: Vec<Status>,
    /// Worst of these results.
    pub status: Option<Status>,
    /// Total duration, in milliseconds.
    pub duration_ms: f64,
    /// Message of the worst result.
    pub message: Option<String>,
    /// Place of the failure.
    pub at: Option<(String, u32)>,
    /// Output, if observed live.
    pub details: Option<String>,
}

/// Everything that was observed.
#[derive(Clone, Debug)]
pub struct LiveLog {
    seen: Vec<Seen>,
    index: HashMap<Arc<str>, usize>,
    room: Budget,
    /// Programs that run tests, and their names in ids.
    pub names: HashMap<String, String>,
    /// Interpreter and framework.
    pub runtime: Option<Runtime>,
    /// Name of a part that is not installed.
    pub missing: Option<String>,
    /// Number of tests to be run.
    pub collected: Option<u64>,
    /// Number of starts, counting each test with the same name.
    pub starts: u64,
    /// Exit code announced by the framework, and the reason if it stopped early.
    pub finished: Option<(i64, Option<String>)>,
    /// Number of further tests that were found and not collected.
    pub left_out: u64,
    /// Number of collected tests in groups that were skipped as a whole, which never start.
    pub hidden: u64,
    /// Number of invalid lines, and of events in an impossible order.
    pub faults: u64,
    /// True when there were more tests than the limit.
    pub overflow: bool,
}

impl Default for LiveLog {
    fn default() -> Self {
        Self {
            seen: Vec::new(),
            index: HashMap::new(),
            room: Budget::new(MAX_TEXT_BYTES),
            names: HashMap::new(),
            runtime: None,
            missing: None,
            collected: None,
            starts: 0,
            finished: None,
            left_out: 0,
            hidden: 0,
            faults: 0,
            overflow: false,
        }
    }
}

impl LiveLog {
    /// Adds an event.
    pub fn apply(&mut self, event: &Event) {
        // Events after the end are invalid.
        if self.finished.is_some() {
            self.faults += 1;
            return;
        }
        match event {
            Event::Session(runtime) => self.runtime = Some(runtime.clone()),
            Event::Missing(what, runtime) => {
                self.missing = Some(what.clone());
                self.runtime = Some(runtime.clone());
            }
            Event::Collected(count, left_out) => {
                self.collected = self.collected.max(Some(*count));
                self.left_out = self.left_out.max(*left_out);
            }
            Event::Started(id, file, line) => {
                self.starts += 1;
                let Some(at) = self.find(id, file.as_deref()) else { return };
                let seen = &mut self.seen[at];
                seen.line = line.or(seen.line);
                seen.started = true;
                seen.open = seen.open.saturating_add(1);
            }
            Event::Ended(ended) => match self.index.get(ended.id.as_str()) {
                Some(&at) if self.seen[at].open > 0 => {
                    self.seen[at].open -= 1;
                    self.seen[at].ends.push(ended.status);
                    self.end(at, ended);
                }
                _ => self.faults += 1,
            },
            Event::Group(ended, hides) => {
                if ended.status == Status::Skipped {
                    self.hidden = self.hidden.saturating_add(*hides);
                }
                if let Some(at) = self.find(&ended.id, ended.file.as_deref()) {
                    self.end(at, ended);
                }
            }
            Event::Said(id, text) => {
                if let Some(&at) = self.index.get(id.as_str())
                    && self.seen[at].details.is_none()
                {
                    self.seen[at].details = self.room.keep(text, crate::case::MAX_DETAIL_BYTES);
                }
            }
            // A name belongs to one program.
            Event::Named(program, name) => {
                if self.names.len() < MAX_CASES && self.room.take(program.len() + name.len()) {
                    let known = self.names.entry(program.clone()).or_insert_with(|| name.clone());
                    self.faults += u64::from(known != name);
                }
            }
            Event::Finished(code, stopped) => self.finished = Some((*code, stopped.clone())),
            Event::Fault => self.faults += 1,
        }
    }

    /// All tests, in the order in which they were first observed.
    #[must_use]
    pub fn seen(&self) -> &[Seen] {
        &self.seen
    }

    /// Index of a test in [`LiveLog::seen`].
    #[must_use]
    pub fn position(&self, id: &str) -> Option<usize> {
        self.index.get(id).copied()
    }

    /// Number of tests that started.
    #[must_use]
    pub fn started(&self) -> u64 {
        self.seen.iter().filter(|s| s.started).count() as u64
    }

    fn find(&mut self, id: &str, file: Option<&str>) -> Option<usize> {
        if let Some(&at) = self.index.get(id) {
            return Some(at);
        }
        if self.seen.len() >= MAX_CASES || !self.room.take(id.len()) {
            self.overflow = true;
            return None;
        }
        let id: Arc<str> = id.into();
        let file = file.and_then(|f| self.room.keep(f, crate::case::MAX_NAME_BYTES));
        let seen = Seen {
            id: Arc::clone(&id),
            file,
            line: None,
            open: 0,
            started: false,
            ends: Vec::new(),
            status: None,
            duration_ms: 0.0,
            message: None,
            at: None,
            details: None,
        };
        self.seen.push(seen);
        self.index.insert(id, self.seen.len() - 1);
        Some(self.seen.len() - 1)
    }

    fn end(&mut self, at: usize, ended: &Ended) {
        let seen = &mut self.seen[at];
        seen.duration_ms += ended.duration_ms;
        // The failure message may arrive later than the failure itself.
        let more = Some(ended.status) == seen.status && seen.message.is_none();
        if Some(ended.status) > seen.status || more {
            seen.status = Some(ended.status);
            seen.message =
                ended.message.as_deref().and_then(|m| self.room.keep(m, crate::case::MAX_MESSAGE_BYTES));
            seen.at = ended.at.clone().filter(|(file, _)| self.room.take(file.len()));
        }
    }
}
