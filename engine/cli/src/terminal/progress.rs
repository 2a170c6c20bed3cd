//! Progress while tests run: one updated line on a terminal, and occasional lines elsewhere.

use std::io::{self, IsTerminal, Write};
use std::time::{Duration, Instant};

use hotcell_sandbox::Chunk;
use hotcell_sandbox::text::printable;
use hotcell_testing::event::Ended;
use hotcell_testing::{Event, Progress, Status};

use crate::args::Common;
use crate::mask::Masks;

/// Minimum interval between updates of a terminal's line.
const REDRAW_INTERVAL: Duration = Duration::from_millis(50);
/// Interval between lines without a terminal, which show that hotcell is still running.
const PROGRESS_INTERVAL: Duration = Duration::from_secs(10);
/// Maximum number of characters of a test's name.
const MAX_NAME_CHARS: usize = 70;
/// Maximum length in bytes of a line of a program's output that is kept together.
const MAX_LINE_BYTES: usize = 4096;

/// The progress display.
pub struct Show {
    terminal: bool,
    silent: bool,
    /// Whether to show the framework's output, with `-v`.
    raw: bool,
    github: bool,
    runs: u32,
    number: u32,
    collected: u64,
    ended: u64,
    bad: u64,
    now: String,
    drawn: Instant,
    pending: [Vec<u8>; 2],
    masks: Masks,
}

impl Show {
    /// Makes a display for this number of runs.
    pub fn new(common: &Common, runs: u32, github: bool) -> Self {
        let terminal = io::stderr().is_terminal();
        Self {
            terminal,
            silent: common.quiet || (common.json && !terminal),
            raw: common.verbose > 0,
            github,
            runs,
            number: 0,
            collected: 0,
            ended: 0,
            bad: 0,
            now: String::new(),
            drawn: Instant::now(),
            pending: [Vec::new(), Vec::new()],
            masks: Masks::default(),
        }
    }

    /// Hides these values in everything that is shown.
    pub fn hiding(mut self, masks: &Masks) -> Self {
        self.masks = masks.clone();
        self
    }

    /// Handles an event of the run with this number.
    pub fn see(&mut self, number: u32, what: Progress<'_>) {
        if self.silent {
            return;
        }
        if number != self.number {
            (self.number, self.collected, self.ended, self.bad) = (number, 0, 0, 0);
        }
        match what {
            Progress::Output(chunk) if self.raw => self.print(chunk),
            Progress::Output(_) => {}
            Progress::Event(event) => self.count(event),
            Progress::Ahead(what) => self.line(what),
        }
    }

    fn count(&mut self, event: &Event) {
        match event {
            Event::Collected(count, _) => self.collected = self.collected.max(*count),
            Event::Started(id, ..) => self.now = id.chars().take(MAX_NAME_CHARS).collect(),
            Event::Ended(ended) => {
                self.ended += 1;
                self.bad += u64::from(!ended.status.is_good());
                if self.raw {
                    self.wipe();
                    self.line(&told(ended));
                } else if self.terminal && matches!(ended.status, Status::Failed | Status::Errored) {
                    self.wipe();
                    self.line(&format!("{}: {}", ended.status.name(), ended.id));
                }
            }
            _ => return,
        }
        let often = if self.terminal { REDRAW_INTERVAL } else { PROGRESS_INTERVAL };
        if self.drawn.elapsed() >= often || (self.terminal && self.ended == 0) {
            self.drawn = Instant::now();
            self.draw();
        }
    }

    fn draw(&self) {
        let mut text = format!("{} of {} tests", self.ended, self.collected.max(self.ended));
        if self.bad > 0 {
            text += &format!(", {} not good", self.bad);
        }
        if self.runs > 1 {
            text = format!("run {} of {}: {text}", self.number, self.runs);
        }
        if self.terminal {
            let _ = write!(io::stderr(), "\r\x1b[K{text} · {}", printable(&self.masks.text(&self.now)));
        } else {
            self.line(&text);
        }
    }

    /// Prints lines of the tests, each behind a mark, so that none can be mistaken for hotcell's own or for a
    /// workflow command.
    fn print(&mut self, chunk: &Chunk) {
        let (which, mark, bytes) = match chunk {
            Chunk::Stdout(bytes) => (0, '|', bytes),
            Chunk::Stderr(bytes) => (1, '!', bytes),
        };
        self.wipe();
        let mut pending = std::mem::take(&mut self.pending[which]);
        for byte in bytes {
            if *byte != b'\n' {
                pending.push(*byte);
            }
            if *byte == b'\n' {
                self.their_line(mark, &pending);
                pending.clear();
            } else if pending.len() >= MAX_LINE_BYTES + 2 * self.masks.longest() {
                // A hidden value may be completed by the next piece.
                let text = self.masks.text(&String::from_utf8_lossy(&pending)).into_owned().into_bytes();
                let shown = text.len().saturating_sub(self.masks.longest());
                self.their_line(mark, &text[..shown]);
                pending = text[shown..].to_vec();
            }
        }
        self.pending[which] = pending;
    }

    fn their_line(&self, mark: char, line: &[u8]) {
        let _ = writeln!(io::stderr(), "{mark} {}", self.shown(&String::from_utf8_lossy(line)));
    }

    fn line(&self, text: &str) {
        let _ = writeln!(io::stderr(), "hotcell: {}", self.shown(text));
    }

    /// A text of the tests behind hotcell's own words: GitHub's runner recognizes one form of commands
    /// anywhere in a line.
    fn shown(&self, text: &str) -> String {
        let text = printable(&self.masks.text(text));
        if self.github { text.replace("##[", "# #[") } else { text }
    }

    fn wipe(&self) {
        if self.terminal {
            let _ = write!(io::stderr(), "\r\x1b[K");
        }
    }

    /// Ends the display.
    pub fn end(&mut self) {
        self.wipe();
        for (which, mark) in [(0, '|'), (1, '!')] {
            let pending = std::mem::take(&mut self.pending[which]);
            if !pending.is_empty() {
                self.their_line(mark, &pending);
            }
        }
    }
}

/// One line about a test that has ended.
fn told(ended: &Ended) -> String {
    let word = match ended.status {
        Status::Passed => "PASS",
        Status::Skipped => "SKIP",
        Status::Failed => "FAIL",
        Status::Errored => "ERROR",
        Status::NotFinished => "UNFINISHED",
    };
    let time = Duration::try_from_secs_f64(ended.duration_ms / 1000.0).unwrap_or_default();
    let time = crate::terminal::notes::time(u64::try_from(time.as_micros()).unwrap_or(u64::MAX));
    format!("{word}  {}  {time}", ended.id)
}
