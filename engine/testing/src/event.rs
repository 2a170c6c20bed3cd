//! What a framework says while it runs, and how lines on a pipe become that. The lines are hostile.

use serde::Deserialize;

use crate::case::{NAME, Status};
use crate::text::clip;

/// The longest line that is read, bytes.
const LONGEST_LINE: usize = 128 << 10;
/// After this many lines that are no events nothing more is read: the log is useless already.
const MOST_FAULTS: usize = 1_000;
/// After this many events nothing more is read.
const MOST_EVENTS: usize = 1_000_000;
/// Kept of a message, bytes: it is for a line on the screen, the report has all of it.
const MESSAGE: usize = 1 << 10;

/// What runs the tests.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct Runtime {
    /// The framework's version.
    pub version: Option<String>,
    /// The interpreter's version.
    pub interpreter: Option<String>,
}

/// A test that has ended.
#[derive(Clone, Debug, PartialEq)]
pub struct Ended {
    /// As in a case.
    pub id: String,
    /// What it came to.
    pub status: Status,
    /// Milliseconds.
    pub duration_ms: f64,
    /// What was wrong.
    pub message: Option<String>,
    /// Where in the project it went wrong.
    pub at: Option<(String, u32)>,
    /// For what never started: its file.
    pub file: Option<String>,
}

/// One thing that happened.
#[derive(Clone, Debug, PartialEq)]
pub enum Event {
    /// The framework was found.
    Session(Runtime),
    /// It was not: what is not installed, and for which interpreter.
    Missing(String, Runtime),
    /// This many tests will be run, and this many more were found.
    Collected(u64, u64),
    /// Something that holds tests was left out or is broken; how many tests that were counted never start for it.
    Group(Ended, u64),
    /// A test starts: id, file and line.
    Started(String, Option<String>, Option<u32>),
    /// A test ended.
    Ended(Ended),
    /// What a test printed, or a compiler said: its id and the text.
    Said(String, String),
    /// A program that runs tests, and what it is called in their ids.
    Named(String, String),
    /// The framework is done and will end with this code; why it stopped early, if it did.
    Finished(i64, Option<String>),
    /// Something that is not an event.
    Fault,
}

/// Makes events of bytes as they come.
pub trait EventReader: Send {
    /// Takes the next bytes.
    fn push(&mut self, bytes: &[u8]) -> Vec<Event>;
    /// Takes the next bytes of standard error, where events come on standard output.
    fn push_stderr(&mut self, _bytes: &[u8]) -> Vec<Event> {
        Vec::new()
    }
    /// There are no more.
    fn end(&mut self) -> Vec<Event>;
}

/// Our own events: one JSON object a line.
#[derive(Debug, Default)]
pub struct LineEvents {
    line: Vec<u8>,
    /// The line is too long and goes to its end.
    skipping: bool,
    events: usize,
    faults: usize,
    /// What runs, where a framework says that before it is known to be a test: it counts when nothing follows.
    at: Option<Event>,
}

impl EventReader for LineEvents {
    fn push(&mut self, bytes: &[u8]) -> Vec<Event> {
        let mut events = Vec::new();
        for piece in bytes.split_inclusive(|b| *b == b'\n') {
            if self.faults >= MOST_FAULTS || self.events >= MOST_EVENTS {
                break;
            }
            let (text, whole) = match piece.split_last() {
                Some((b'\n', text)) => (text, true),
                _ => (piece, false),
            };
            if !self.skipping && self.line.len() + text.len() > LONGEST_LINE {
                self.skipping = true;
                self.take(None, &mut events);
            } else if !self.skipping {
                self.line.extend_from_slice(text);
            }
            if whole {
                if !std::mem::take(&mut self.skipping) {
                    let event = parse(&self.line);
                    self.take(event, &mut events);
                }
                self.line.clear();
            }
        }
        events
    }

    fn end(&mut self) -> Vec<Event> {
        // A line without its end was cut off.
        let cut = !std::mem::take(&mut self.line).is_empty();
        let cut = (cut && self.faults < MOST_FAULTS).then_some(Event::Fault);
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
        let event = event.filter(|_| self.events < MOST_EVENTS).unwrap_or_else(|| {
            self.faults += 1;
            Event::Fault
        });
        events.push(event);
        if self.line.capacity() > 4096 {
            self.line = Vec::new();
        }
    }
}

/// One line of ours, also in the report of a framework that has none of its own.
#[derive(Debug, Deserialize)]
pub(crate) struct Line {
    pub e: String,
    pub id: Option<String>,
    pub status: Option<Status>,
    pub ms: Option<f64>,
    pub message: Option<String>,
    pub details: Option<String>,
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

    /// A time that a clock can have shown.
    pub fn duration_ms(&self) -> f64 {
        self.ms.filter(|ms| (0.0..1e12).contains(ms)).unwrap_or(0.0)
    }
}

fn short(text: String) -> String {
    if text.len() <= NAME { text } else { clip(&text, NAME) }
}

/// What one line says.
enum Said {
    Event(Event),
    At(Option<Event>),
}

fn parse(line: &[u8]) -> Option<Said> {
    let mut line: Line = serde_json::from_slice(line).ok()?;
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
                message: line.message.map(|m| clip(&m, MESSAGE)),
                file: line.file.map(short),
                id: short(line.id?),
            };
            if line.e == "end" { Event::Ended(ended) } else { Event::Group(ended, hides) }
        }
        "finish" => Event::Finished(line.exit?, line.stopped.map(|t| clip(&t, MESSAGE))),
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
    fn a_flood_ends_the_reading() {
        assert_eq!(all(&vec![b'\n'; 1 << 20]).len(), MOST_FAULTS);
        let long = [vec![b'['; 1 << 20], b"\n{\"e\":\"start\",\"id\":\"x\"}\n".to_vec()].concat();
        assert_eq!(all(&long), [Event::Fault, Event::Started("x".into(), None, None)]);
    }

    proptest! {
        #[test]
        fn any_bytes_in_any_pieces(bytes in proptest::collection::vec(prop_oneof![any::<u8>(), Just(b'\n'), Just(b'{')], 0..400), cut in 0usize..400) {
            let mut reader = LineEvents::default();
            let cut = cut.min(bytes.len());
            let mut events = reader.push(&bytes[..cut]);
            events.extend(reader.push(&bytes[cut..]));
            events.extend(reader.end());
            prop_assert_eq!(events, all(&bytes));
        }
    }
}
