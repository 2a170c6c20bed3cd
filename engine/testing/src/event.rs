//! Events of a framework while it runs, and their conversion from lines of a pipe. The lines are hostile.

use hotcell_sandbox::lines::LineBuffer;
use serde::Deserialize;

use crate::case::{MAX_NAME_BYTES, Status};
use crate::text::{clip, paired};

/// Maximum length of a line, in bytes.
const MAX_LINE_BYTES: usize = 128 << 10;
/// Maximum number of invalid lines; after them reading stops, since the log is useless.
const MAX_INVALID_LINES: usize = 1_000;
/// Maximum number of events; further ones are not read.
const MAX_EVENTS: usize = 1_000_000;
/// Maximum size of a message, in bytes: it is for a line on the screen, the report contains all of it.
const MAX_MESSAGE_BYTES: usize = 1 << 10;

/// Program that runs the tests.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct Runtime {
    /// Version of the framework.
    pub version: Option<String>,
    /// Version of the interpreter.
    pub interpreter: Option<String>,
}

/// A finished test.
#[derive(Clone, Debug, PartialEq)]
pub struct Ended {
    /// Id, as in a case.
    pub id: String,
    /// Result.
    pub status: Status,
    /// Duration in milliseconds.
    pub duration_ms: f64,
    /// Failure message.
    pub message: Option<String>,
    /// Place of the failure in the project.
    pub at: Option<(String, u32)>,
    /// File of a test that never started.
    pub file: Option<String>,
}

/// An event.
#[derive(Clone, Debug, PartialEq)]
pub enum Event {
    /// The framework was found.
    Session(Runtime),
    /// A part was not found: its name, and the interpreter that lacks it.
    Missing(String, Runtime),
    /// Number of tests to be run, and number of further tests found.
    Collected(u64, u64),
    /// A group of tests was skipped or is broken; with the number of collected tests that it prevents from
    /// starting.
    Group(Ended, u64),
    /// A test starts: id, file and line.
    Started(String, Option<String>, Option<u32>),
    /// A test ended.
    Ended(Ended),
    /// Output of a test, or of a compiler: its id and the text.
    Said(String, String),
    /// A program that runs tests, and its name in ids.
    Named(String, String),
    /// The framework is done and will exit with this code; with the reason if it stopped early.
    Finished(i64, Option<String>),
    /// Invalid input.
    Fault,
}

/// Converts bytes to events as they arrive.
pub trait EventReader: Send {
    /// Takes the next bytes.
    fn push(&mut self, bytes: &[u8]) -> Vec<Event>;
    /// Takes the next bytes of standard error, if events come on standard output.
    fn push_stderr(&mut self, _bytes: &[u8]) -> Vec<Event> {
        Vec::new()
    }
    /// Handles the end of the input.
    fn end(&mut self) -> Vec<Event>;
}

/// Reader of hotcell's own events: one JSON object per line.
#[derive(Debug)]
pub struct LineEvents {
    line: LineBuffer,
    /// True while the rest of a line that is too long is skipped.
    skipping: bool,
    events: usize,
    faults: usize,
    /// The item that is running, if the framework announces it before it is known to be a test: it counts if
    /// nothing follows.
    at: Option<Event>,
}

impl Default for LineEvents {
    fn default() -> Self {
        Self { line: LineBuffer::new(MAX_LINE_BYTES), skipping: false, events: 0, faults: 0, at: None }
    }
}

impl EventReader for LineEvents {
    fn push(&mut self, mut bytes: &[u8]) -> Vec<Event> {
        let mut events = Vec::new();
        while !bytes.is_empty() && self.faults < MAX_INVALID_LINES && self.events < MAX_EVENTS {
            let (used, is_whole) = self.line.push(bytes);
            bytes = &bytes[used..];
            if !self.skipping && self.line.is_cut() {
                self.skipping = true;
                self.take(None, &mut events);
            }
            if is_whole {
                if !std::mem::take(&mut self.skipping) {
                    let event = parse(self.line.bytes());
                    self.take(event, &mut events);
                }
                self.line.clear();
            }
        }
        events
    }

    fn end(&mut self) -> Vec<Event> {
        // A line without an end was cut off.
        let cut = !self.line.take().is_empty();
        let cut = (cut && self.faults < MAX_INVALID_LINES).then_some(Event::Fault);
        self.at.take().into_iter().chain(cut).collect()
    }
}

impl LineEvents {
    fn take(&mut self, event: Option<Said>, events: &mut Vec<Event>) {
        self.events += 1;
        let event = match event {
            Some(Said::At(at)) => {
                self.at = at;
                return;
            }
            Some(Said::Event(event)) => Some(event),
            None => None,
        };
        if matches!(event, Some(Event::Finished(..))) {
            self.at = None;
        }
        let event = event.filter(|_| self.events < MAX_EVENTS).unwrap_or_else(|| {
            self.faults += 1;
            Event::Fault
        });
        events.push(event);
    }
}

/// One line of hotcell's format, which is also the report of frameworks without their own.
#[derive(Debug, Deserialize)]
pub(crate) struct Line {
    pub e: String,
    pub id: Option<String>,
    pub status: Option<Status>,
    pub ms: Option<f64>,
    pub message: Option<String>,
    pub details: Option<String>,
    pub stdout: Option<String>,
    pub stderr: Option<String>,
    pub file: Option<String>,
    pub line: Option<u32>,
    pub at_file: Option<String>,
    pub at_line: Option<u32>,
    pub count: Option<u64>,
    pub exit: Option<i64>,
    pub stopped: Option<String>,
    pub what: Option<String>,
    pub version: Option<String>,
    #[serde(alias = "interpreter")]
    pub python: Option<String>,
    pub left_out: Option<u64>,
    pub hides: Option<u64>,
}

impl Line {
    pub fn at(&mut self) -> Option<(String, u32)> {
        Some((short(self.at_file.take()?), self.at_line?))
    }

    /// A plausible duration.
    pub fn duration_ms(&self) -> f64 {
        self.ms.filter(|ms| (0.0..1e12).contains(ms)).unwrap_or(0.0)
    }
}

fn short(text: String) -> String {
    if text.len() <= MAX_NAME_BYTES { text } else { clip(&text, MAX_NAME_BYTES) }
}

/// Parses one line.
enum Said {
    Event(Event),
    At(Option<Event>),
}

fn parse(line: &[u8]) -> Option<Said> {
    let mut line: Line = serde_json::from_slice(&paired(line)).ok()?;
    let runtime = |line: &mut Line| Runtime {
        version: line.version.take().map(|t| clip(&t, 100)),
        interpreter: line.python.take().map(|t| clip(&t, 100)),
    };
    if line.e == "at" {
        return Some(Said::At(line.id.map(|id| Event::Started(short(id), line.file.map(short), line.line))));
    }
    Some(Said::Event(match line.e.as_str() {
        "session" => Event::Session(runtime(&mut line)),
        "missing" => Event::Missing(clip(line.what.as_ref()?, 100), runtime(&mut line)),
        "collected" => Event::Collected(line.count?, line.left_out.unwrap_or(0)),
        "start" => Event::Started(short(line.id?), line.file.map(short), line.line),
        "end" | "group" => {
            let hides = line.hides.unwrap_or(0);
            let ended = Ended {
                status: line.status?,
                duration_ms: line.duration_ms(),
                at: line.at(),
                message: line.message.map(|m| clip(&m, MAX_MESSAGE_BYTES)),
                file: line.file.map(short),
                id: short(line.id?),
            };
            if line.e == "end" { Event::Ended(ended) } else { Event::Group(ended, hides) }
        }
        "finish" => Event::Finished(line.exit?, line.stopped.map(|t| clip(&t, MAX_MESSAGE_BYTES))),
        _ => return None,
    }))
}

#[cfg(test)]
mod tests {
    use super::*;
    use proptest::prelude::*;

    fn all(bytes: &[u8]) -> Vec<Event> {
        let mut reader = LineEvents::default();
        let mut events = reader.push(bytes);
        events.extend(reader.end());
        events
    }

    #[test]
    fn lines_become_events() {
        let started = |id: &str| Event::Started(id.to_owned(), None, None);
        for (bytes, want) in [
            (&b"{\"e\":\"collected\",\"count\":3}\n"[..], vec![Event::Collected(3, 0)]),
            (b"{\"e\":\"start\",\"id\":\"a::b\"}\n", vec![started("a::b")]),
            (b"{\"e\":\"start\",\"id\":\"a::b\"}", vec![Event::Fault]),
            (b"{\"e\":\"start\"}\n", vec![Event::Fault]),
            (b"{\"e\":\"start\",\"id\":7}\n", vec![Event::Fault]),
            (b"{\"e\":\"end\",\"id\":\"a\",\"status\":\"great\"}\n", vec![Event::Fault]),
            (b"{\"e\":\"finish\",\"exit\":0}\n\n", vec![Event::Finished(0, None), Event::Fault]),
            (b"\xff\n{\"e\":\"start\",\"id\":\"x\"}\n", vec![Event::Fault, started("x")]),
            (b"", vec![]),
            (b"{\"e\":\"at\",\"id\":\"x\"}\n{\"e\":\"at\",\"id\":\"y\"}\n", vec![started("y")]),
            (b"{\"e\":\"at\",\"id\":\"x\"}\n{\"e\":\"at\"}\n", vec![]),
            (b"{\"e\":\"at\",\"id\":\"x\"}\n{\"e\":\"finish\",\"exit\":0}\n", vec![Event::Finished(0, None)]),
        ] {
            assert_eq!(all(bytes), want, "{}", String::from_utf8_lossy(bytes));
        }
    }

    #[test]
    fn event_flood_ends_reading() {
        assert_eq!(all(&vec![b'\n'; 1 << 20]).len(), MAX_INVALID_LINES);
        let long = [vec![b'['; 1 << 20], b"\n{\"e\":\"start\",\"id\":\"x\"}\n".to_vec()].concat();
        assert_eq!(all(&long), [Event::Fault, Event::Started("x".into(), None, None)]);
    }

    proptest! {
        #[test]
        fn events_are_independent_of_chunking(bytes in proptest::collection::vec(prop_oneof![any::<u8>(), Just(b'\n'), Just(b'{')], 0..400), cut in 0usize..400) {
            let mut reader = LineEvents::default();
            let cut = cut.min(bytes.len());
            let mut events = reader.push(&bytes[..cut]);
            events.extend(reader.push(&bytes[cut..]));
            events.extend(reader.end());
            prop_assert_eq!(events, all(&bytes));
        }
    }
}
