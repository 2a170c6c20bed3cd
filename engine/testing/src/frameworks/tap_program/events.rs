//! Live events of a program that prints TAP: those that the driver tells, and the results that the program prints in between.

use std::time::Instant;

use super::{End, MAX_LINE_BYTES, Program, Told};
use crate::case::{MAX_MESSAGE_BYTES, Status};
use crate::event::{Ended, Event, EventReader, LineEvents};
use crate::frameworks::lines::Lines;
use crate::frameworks::tap::diagnostics;
use crate::frameworks::tap::tree::{Found, Tree};
use crate::frameworks::{javascript, programs};
use crate::text::clip;

/// Maximum length of a line of the driver, in bytes.
const MAX_EVENT_BYTES: usize = 256 << 10;

/// Live events: what the driver tells, and what the program prints in between.
#[derive(Debug)]
pub(super) struct TapEvents {
    lines: Lines,
    state: State,
}

#[derive(Debug, Default)]
struct State {
    /// Events of any driver.
    others: LineEvents,
    running: Option<Running>,
    begun: bool,
}

#[derive(Debug)]
struct Running {
    program: Program,
    printed: Lines,
    tree: Tree,
    since: Instant,
}

impl Default for TapEvents {
    fn default() -> Self {
        Self { lines: Lines::new(MAX_EVENT_BYTES), state: State::default() }
    }
}

impl EventReader for TapEvents {
    fn push(&mut self, bytes: &[u8]) -> Vec<Event> {
        let mut out = Vec::new();
        let state = &mut self.state;
        self.lines.push(bytes, |line, _| state.line(line, &mut out));
        out
    }

    fn end(&mut self) -> Vec<Event> {
        let mut out = Vec::new();
        let state = &mut self.state;
        self.lines.end(|_, _| out.push(Event::Fault));
        if let Some(running) = state.running.take() {
            // Its end was not seen: what seems to run has not finished.
            let (file, titles) = running.tree.running();
            let titles = if titles.is_empty() { vec!["its next test".to_owned()] } else { titles };
            let (file, id) = running.program.id(file.as_deref(), &titles);
            out.push(Event::Started(id, file, None));
        }
        out.extend(state.others.end());
        out
    }
}

impl State {
    fn line(&mut self, line: &str, out: &mut Vec<Event>) {
        match (serde_json::from_str(line), &mut self.running) {
            (Ok(Told::Program(program)), None) if !self.begun => {
                self.begun = true;
                let tree = program.tree();
                let printed = Lines::new(MAX_LINE_BYTES);
                self.running = Some(Running { program, printed, tree, since: Instant::now() });
            }
            (Ok(Told::Tap { text }), Some(running)) => running.take(&text, out),
            (Ok(Told::Exit(end)), running @ Some(_)) => {
                if let Some(running) = running.take() {
                    running.end(&end, out);
                }
            }
            (Ok(_), _) => out.push(Event::Fault),
            (Err(_), _) => {
                out.extend(self.others.push(line.as_bytes()));
                out.extend(self.others.push(b"\n"));
            }
        }
    }
}

impl Running {
    fn take(&mut self, text: &str, out: &mut Vec<Event>) {
        let Self { program, printed, tree, since } = self;
        let mut found = Vec::new();
        printed.push(text.as_bytes(), |line, _| timed(tree, line, since, &mut found));
        tell(program, &found, out);
    }

    fn end(mut self, end: &End, out: &mut Vec<Event>) {
        let mut found = Vec::new();
        let (tree, since) = (&mut self.tree, &mut self.since);
        self.printed.end(|line, _| timed(tree, line, since, &mut found));
        let ended = tree.end(&mut found);
        tell(&self.program, &found, out);
        if let Some(wrong) = self.program.wrong(&ended, end) {
            let id = self.program.own_id(&ended, end);
            let at = diagnostics::first_place(&end.said, &self.program.top);
            let file = Some(id.clone()).filter(|id| javascript::is_script(id));
            let message = Some(clip(&wrong, MAX_MESSAGE_BYTES));
            out.push(Event::Group(
                Ended { message, at, file, ..programs::ended(id.clone(), Status::Errored) },
                0,
            ));
            if !end.said.trim().is_empty() {
                out.push(Event::Said(id, end.said.trim_end().to_owned()));
            }
        }
    }
}

/// A line, with the time since the result before: that of a test that prints no duration, which is known when its own
/// line comes, and not when the next one shows that it has no more lines.
fn timed(tree: &mut Tree, line: &str, since: &mut Instant, found: &mut Vec<Found>) {
    let now = Instant::now();
    tree.passed = Some(now.duration_since(*since).as_secs_f64() * 1000.0);
    tree.line(line, found);
    if tree.passed.take().is_none() {
        *since = now;
    }
}

/// Results as events.
fn tell(program: &Program, found: &[Found], out: &mut Vec<Event>) {
    for found in found {
        let (file, id) = program.id(found.file.as_deref(), &found.titles);
        let bad = !found.status.is_good();
        let at = if bad { diagnostics::place(&found.details, &program.top) } else { None };
        let ended = Ended {
            duration_ms: found.ms.unwrap_or(0.0),
            message: program.message(found),
            at,
            file: file.clone(),
            ..programs::ended(id.clone(), found.status)
        };
        if found.status == Status::Errored {
            out.push(Event::Group(ended, 0));
        } else {
            out.push(Event::Started(id, file, None));
            out.push(Event::Ended(ended));
        }
    }
}
