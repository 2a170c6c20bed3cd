//! What a person sees while tests run: one line that changes on a terminal, and now and then a line where there is none.

use std::io::{self, IsTerminal, Write};
use std::time::{Duration, Instant};

use hotcell_sandbox::Chunk;
use hotcell_sandbox::text::printable;
use hotcell_testing::{Event, Progress, Status};

use crate::args::Common;

/// A terminal's line changes at most this often.
const BLINK: Duration = Duration::from_millis(50);
/// Without a terminal, a line comes this often: whoever waits for us sees that we live.
const HEARTBEAT: Duration = Duration::from_secs(10);
/// Characters of a test's name.
const NAME: usize = 70;
/// The longest line of a program's output that is kept together, bytes.
const LINE: usize = 4096;

/// Shows what happens.
pub struct Show {
    terminal: bool,
    silent: bool,
    /// With -v, what the framework prints.
    raw: bool,
    github: bool,
    runs: u32,
    number: u32,
    collected: u64,
    ended: u64,
    bad: u64,
    now: String,
    shown: Instant,
    pending: [Vec<u8>; 2],
}

impl Show {
    /// For so many runs.
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
            shown: Instant::now(),
            pending: [Vec::new(), Vec::new()],
        }
    }

    /// Something happened in the run of this number.
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
            Event::Started(id, ..) => self.now = id.chars().take(NAME).collect(),
            Event::Ended(ended) => {
                self.ended += 1;
                self.bad += u64::from(!ended.status.is_good());
                if self.terminal && matches!(ended.status, Status::Failed | Status::Errored) {
                    self.wipe();
                    self.line(&format!("{}: {}", ended.status.name(), ended.id));
                }
            }
            _ => return,
        }
        let often = if self.terminal { BLINK } else { HEARTBEAT };
        if self.shown.elapsed() >= often || (self.terminal && self.ended == 0) {
            self.shown = Instant::now();
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
            let _ = write!(io::stderr(), "\r\x1b[K{text} · {}", printable(&self.now));
        } else {
            self.line(&text);
        }
    }

    /// Lines of theirs, each behind a mark, so that none of them is taken for ours or for a command of a workflow.
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
            if *byte == b'\n' || pending.len() >= LINE {
                self.their_line(mark, &pending);
                pending.clear();
            }
        }
        self.pending[which] = pending;
    }

    fn their_line(&self, mark: char, line: &[u8]) {
        let mut text = printable(&String::from_utf8_lossy(line));
        if self.github {
            text = text.replace("##[", "# #[");
        }
        let _ = writeln!(io::stderr(), "{mark} {text}");
    }

    fn line(&self, text: &str) {
        let _ = writeln!(io::stderr(), "hotcell: {}", printable(text));
    }

    fn wipe(&self) {
        if self.terminal {
            let _ = write!(io::stderr(), "\r\x1b[K");
        }
    }

    /// No more comes.
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
