//! What was seen while the tests ran: the second of three witnesses, beside the final report and the exit code.

use std::collections::HashMap;
use std::sync::Arc;

use crate::case::{MOST_CASES, Status};
use crate::event::{Ended, Event, Runtime};
use crate::text::Budget;

/// Kept of all texts together, bytes.
const ALL_TEXT: usize = 24 << 20;

/// One test as it was seen.
#[derive(Clone, Debug, PartialEq)]
pub struct Seen {
    /// Its id.
    pub id: Arc<str>,
    /// Where it begins.
    pub file: Option<String>,
    /// Line there, from 1.
    pub line: Option<u32>,
    /// It started this many times more than it ended.
    pub open: u32,
    /// Whether it is a test that started, not a group that never did.
    pub started: bool,
    /// The worst of its ends.
    pub status: Option<Status>,
    /// All its times together, milliseconds.
    pub duration_ms: f64,
    /// Of the worst end.
    pub message: Option<String>,
    /// Where it went wrong.
    pub at: Option<(String, u32)>,
    /// What it printed, where that is seen live.
    pub details: Option<String>,
}

/// All that was seen.
#[derive(Clone, Debug)]
pub struct LiveLog {
    seen: Vec<Seen>,
    index: HashMap<Arc<str>, usize>,
    room: Budget,
    /// Programs that run tests, and what they are called in ids.
    pub names: HashMap<String, String>,
    /// The interpreter and the framework.
    pub runtime: Option<Runtime>,
    /// What is not installed.
    pub missing: Option<String>,
    /// How many tests were to run.
    pub collected: Option<u64>,
    /// How often tests started; two of one name are two.
    pub starts: u64,
    /// The exit code that the framework announced, and why it stopped early.
    pub finished: Option<(i64, Option<String>)>,
    /// How many tests more were found and not collected.
    pub left_out: u64,
    /// How many tests that were collected belong to groups that were skipped whole, and never start.
    pub hidden: u64,
    /// Lines that were no events, and events that cannot follow each other.
    pub faults: u64,
    /// More tests than are kept.
    pub overflow: bool,
}

impl Default for LiveLog {
    fn default() -> Self {
        Self {
            seen: Vec::new(),
            index: HashMap::new(),
            room: Budget::new(ALL_TEXT),
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
    /// Adds what happened.
    pub fn apply(&mut self, event: &Event) {
        // Nothing comes after the end.
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
                    self.seen[at].details = self.room.keep(text, crate::case::DETAILS);
                }
            }
            // One name is one program's.
            Event::Named(program, name) => {
                if self.names.len() < MOST_CASES && self.room.take(program.len() + name.len()) {
                    let known = self.names.entry(program.clone()).or_insert_with(|| name.clone());
                    self.faults += u64::from(known != name);
                }
            }
            Event::Finished(code, stopped) => self.finished = Some((*code, stopped.clone())),
            Event::Fault => self.faults += 1,
        }
    }

    /// All tests, as they were first seen.
    #[must_use]
    pub fn seen(&self) -> &[Seen] {
        &self.seen
    }

    /// Where in [`LiveLog::seen`] a test stands.
    #[must_use]
    pub fn position(&self, id: &str) -> Option<usize> {
        self.index.get(id).copied()
    }

    /// How many tests started.
    #[must_use]
    pub fn started(&self) -> u64 {
        self.seen.iter().filter(|s| s.started).count() as u64
    }

    fn find(&mut self, id: &str, file: Option<&str>) -> Option<usize> {
        if let Some(&at) = self.index.get(id) {
            return Some(at);
        }
        if self.seen.len() >= MOST_CASES || !self.room.take(id.len()) {
            self.overflow = true;
            return None;
        }
        let id: Arc<str> = id.into();
        let file = file.and_then(|f| self.room.keep(f, crate::case::NAME));
        let seen = Seen {
            id: Arc::clone(&id),
            file,
            line: None,
            open: 0,
            started: false,
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
        // What was wrong may be said later than that something was.
        let more = Some(ended.status) == seen.status && seen.message.is_none();
        if Some(ended.status) > seen.status || more {
            seen.status = Some(ended.status);
            seen.message = ended.message.as_deref().and_then(|m| self.room.keep(m, crate::case::MESSAGE));
            seen.at = ended.at.clone().filter(|(file, _)| self.room.take(file.len()));
        }
    }
}
