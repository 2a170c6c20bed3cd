//! One terminal: the screen that its program paints, and what is typed.

use std::path::PathBuf;
use std::sync::{Mutex, MutexGuard, PoisonError};
use std::time::{Duration, Instant};

use hotcell_config::Mode;
use hotcell_review::gate::Gate;
use hotcell_sandbox::policy::{Confinement, WindowSize};
use hotcell_sandbox::{Running, StdinWriter};
use hotcell_state::report::{Code, ErrorReport};
use hotcell_terminals::lines::{self, Lines};
use hotcell_terminals::typed::{Doubt, Typed};
use hotcell_terminals::{Screen, Size};
use hotcell_verbs::request::RunRequest;
use tokio::io::AsyncWriteExt;
use tokio::sync::watch;

use crate::run::{Phase, Run};

/// Life of a terminal; the sandbox's wall-clock limit, and that of its CPU time.
pub const LIFE: Duration = Duration::from_secs(4 * 3600);
/// Maximum output of a terminal in its life, in bytes.
pub const MAX_OUTPUT: hotcell_sandbox::Bytes = hotcell_sandbox::Bytes::mib(64);
/// Greatest size of a screen.
pub const MAX_SIZE: WindowSize = WindowSize { rows: 100, columns: 250 };
/// Maximum size of what is typed at once, in bytes.
pub const MAX_TYPED_BYTES: usize = 64 << 10;
/// Time without a change after which a screen is quiet.
const QUIET: Duration = Duration::from_millis(150);
/// Time for the first change after something was typed; a program may show nothing, such as at a password.
pub const REACTION: Duration = Duration::from_millis(600);
/// Time for a program to take what is typed.
const TYPING_TIMEOUT: Duration = Duration::from_secs(5);
/// Size of the pieces in which output is read, in bytes.
const PIECE: usize = 2048;
/// Time to paint a piece above which the program is made to wait three times as long, so that its screen takes at most a quarter of a core.
const LONG_PIECE: Duration = Duration::from_micros(500);

/// A terminal of a run.
#[derive(Debug)]
pub struct Terminal {
    inner: Mutex<Inner>,
    /// Number of changes of the screen; a slow follower sees the newest.
    changes: watch::Sender<u64>,
    /// Taken by one call at a time.
    typing: tokio::sync::Mutex<()>,
}

#[derive(Debug)]
struct Inner {
    screen: Screen,
    changed: Instant,
    used: Instant,
    window: Option<hotcell_sandbox::Terminal>,
    keyboard: Option<StdinWriter>,
    typed: Typed,
    reader: Option<Reader>,
}

/// Reads what is typed as the guard reads a program's standard input.
#[derive(Clone, Debug)]
pub struct Reader {
    /// The run's request.
    pub request: RunRequest,
    /// The guard, and the place of what it refuses.
    pub gate: Gate,
    /// Confinement of the run.
    pub confinement: Confinement,
    /// Folder that the program begins in.
    pub cwd: PathBuf,
    /// Kind of lines that the program takes.
    pub lines: Lines,
}

/// The end of a wait.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Settled {
    /// Nothing has changed for a moment.
    Quiet,
    /// The text is on the screen.
    Found,
    /// The time is over.
    Deadline,
    /// The program has ended.
    Ended,
}

impl Settled {
    /// Name in answers.
    #[must_use]
    pub const fn name(self) -> &'static str {
        match self {
            Self::Quiet => "quiet",
            Self::Found => "found",
            Self::Deadline => "deadline",
            Self::Ended => "ended",
        }
    }
}

/// Checks the size of a screen.
///
/// # Errors
/// A report with the range.
pub fn size(rows: Option<u16>, columns: Option<u16>) -> Result<WindowSize, ErrorReport> {
    let usual = WindowSize::default();
    let size = WindowSize { rows: rows.unwrap_or(usual.rows), columns: columns.unwrap_or(usual.columns) };
    for (field, asked, most) in
        [("rows", size.rows, MAX_SIZE.rows), ("columns", size.columns, MAX_SIZE.columns)]
    {
        if !(1..=most).contains(&asked) {
            return Err(crate::limits::out_of_range(field, asked, 1, most));
        }
    }
    Ok(size)
}

const fn of_window(size: WindowSize) -> Size {
    Size { rows: size.rows, columns: size.columns }
}

impl Terminal {
    /// A blank screen of a size, whose program has not started.
    #[must_use]
    pub fn new(size: WindowSize) -> Self {
        let now = Instant::now();
        let inner = Inner {
            screen: Screen::new(of_window(size)),
            changed: now,
            used: now,
            window: None,
            keyboard: None,
            typed: Typed::default(),
            reader: None,
        };
        Self {
            inner: Mutex::new(inner),
            changes: watch::Sender::new(0),
            typing: tokio::sync::Mutex::default(),
        }
    }

    fn inner(&self) -> MutexGuard<'_, Inner> {
        self.inner.lock().unwrap_or_else(PoisonError::into_inner)
    }

    /// A copy of the screen.
    #[must_use]
    pub fn screen(&self) -> Screen {
        self.inner().screen.clone()
    }

    /// Size of the window.
    #[must_use]
    pub fn window(&self) -> WindowSize {
        let size = self.inner().screen.size();
        WindowSize { rows: size.rows, columns: size.columns }
    }

    pub(crate) fn used(&self) {
        self.inner().used = Instant::now();
    }

    pub(crate) fn idle(&self) -> Duration {
        self.inner().used.elapsed()
    }

    /// Reads what will be typed.
    pub(crate) fn read_by(&self, reader: Reader) {
        self.inner().reader = Some(reader);
    }

    /// Takes the program's terminal, when it has just started.
    pub(crate) fn attach(&self, running: &mut Running) {
        let (keyboard, window) = (running.stdin(), running.terminal());
        // It may have been resized while the sandbox was made.
        if let Some(window) = &window {
            let _ = window.resize(self.window());
        }
        let mut inner = self.inner();
        (inner.keyboard, inner.window) = (keyboard, window);
    }

    /// Takes the program's output.
    pub(crate) async fn printed(&self, bytes: &[u8]) {
        for piece in bytes.chunks(PIECE) {
            let began = Instant::now();
            {
                let mut inner = self.inner();
                inner.screen.push(piece);
                inner.changed = Instant::now();
            }
            self.changes.send_modify(|number| *number += 1);
            let spent = began.elapsed();
            if spent > LONG_PIECE {
                tokio::time::sleep(spent * 3).await;
            } else {
                tokio::task::yield_now().await;
            }
        }
    }

    /// Lets go of the program's terminal.
    pub(crate) fn detach(&self) {
        let mut inner = self.inner();
        (inner.keyboard, inner.window) = (None, None);
    }

    /// Types bytes, after the guard has read them together with what was typed before. Returns how many the program's terminal took: fewer
    /// where it does not read.
    ///
    /// # Errors
    /// A report when the guard refuses, or the program has ended; nothing was typed then.
    pub async fn type_keys(&self, bytes: Vec<u8>) -> Result<usize, ErrorReport> {
        let ended = || ErrorReport::new(Code::Refused, "the program has ended; nothing was typed");
        let _turn = self.typing.lock().await;
        let (mut typed, reader) = {
            let inner = self.inner();
            (inner.typed.clone(), inner.reader.clone())
        };
        let kind = reader.as_ref().map_or(Lines::Answers, |reader| reader.lines);
        let pushed = typed.push(&bytes, kind);
        if let Some(reader) = reader.filter(|_| pushed.executes) {
            if reader.gate.guard.settings.mode == Mode::Enforce
                && let Some(why) = unreadable(kind, pushed.doubt.as_ref())
            {
                let why = format!("the guard refused it: {why} (nothing of this was typed)");
                return Err(ErrorReport::new(Code::Refused, why));
            }
            let beyond = (kind == Lines::Debugger).then(|| lines::more_than_looking(typed.text()));
            // Commands of gdb that only look run no code of their own.
            if beyond != Some(None) {
                let hint = beyond.flatten().map(debugger_hint);
                scan(reader, typed.text().to_owned().into_bytes(), hint).await?;
            }
        }
        // Taken out meanwhile, and given back unless the program has ended.
        let mut writer = self.inner().keyboard.take().ok_or_else(ended)?;
        let mut taken = 0;
        let typing = async {
            while taken < bytes.len() {
                match writer.write(&bytes[taken..]).await {
                    Ok(0) | Err(_) => break,
                    Ok(count) => taken += count,
                }
            }
        };
        let _ = tokio::time::timeout(TYPING_TIMEOUT, typing).await;
        let mut inner = self.inner();
        if taken < bytes.len() {
            // The rest is not in the program's line, nor are the erasures in it.
            typed = inner.typed.clone();
            typed.push(&bytes[..taken], kind);
        }
        inner.typed = typed;
        inner.keyboard = inner.window.is_some().then_some(writer);
        Ok(taken)
    }

    /// Changes the size of the window; the program gets `SIGWINCH`.
    pub fn resize(&self, size: WindowSize) {
        let mut inner = self.inner();
        inner.screen.resize(of_window(size));
        if let Some(window) = &inner.window {
            let _ = window.resize(size);
        }
    }

    /// Waits until the screen has a text, or, without one, until it is quiet. `reacts` says that a change after that number of changes is
    /// expected first, within this time.
    pub async fn settle(
        &self,
        run: &Run,
        text: Option<&str>,
        reacts: Option<(u64, Duration)>,
        time: Duration,
    ) -> Settled {
        let deadline = tokio::time::Instant::now() + time;
        let began = Instant::now();
        let mut changes = self.changes.subscribe();
        let mut phases = run.follow();
        loop {
            let number = *changes.borrow_and_update();
            let until = match text {
                Some(text) => {
                    if self.inner().screen.text().contains(text) {
                        return Settled::Found;
                    }
                    deadline
                }
                None => {
                    let quiet = match reacts.filter(|(before, _)| number == *before) {
                        Some((_, within)) => began + within,
                        None => self.inner().changed + QUIET,
                    };
                    if quiet <= Instant::now() {
                        return Settled::Quiet;
                    }
                    deadline.min(quiet.into())
                }
            };
            // Output is followed to its end before the run is finished.
            if phases.borrow_and_update().phase == Phase::Finished {
                return Settled::Ended;
            }
            tokio::select! {
                _ = changes.changed() => {}
                _ = phases.changed() => {}
                () = tokio::time::sleep_until(until) => {
                    if tokio::time::Instant::now() >= deadline {
                        return Settled::Deadline;
                    }
                }
            }
        }
    }

    /// Number of changes of the screen so far, for [`Terminal::settle`].
    #[must_use]
    pub fn changes(&self) -> u64 {
        *self.changes.borrow()
    }
}

/// Has the guard read what was typed so far.
async fn scan(reader: Reader, text: Vec<u8>, hint: Option<String>) -> Result<(), ErrorReport> {
    let checked = tokio::task::spawn_blocking(move || {
        let Reader { request, gate, confinement, cwd, .. } = reader;
        request.scan_typed(&gate, confinement, &cwd, &text)
    });
    let checked = checked.await.map_err(|error| {
        ErrorReport::new(Code::Internal, format!("the guard did not read what was typed: {error}"))
    })?;
    let Err(mut report) = checked else { return Ok(()) };
    hotcell_review::guard::for_a_model(&mut report);
    let why = report.outcome.reason.unwrap_or_else(|| "the guard refused it".to_owned());
    let why = format!("{why} (read together with what was typed before; nothing of this was typed)");
    let report = ErrorReport::new(Code::Refused, why);
    Err(match hint {
        Some(hint) => report.hint(hint),
        None => report,
    })
}

/// Reason why lines cannot be read by the guard as they are executed.
fn unreadable(kind: Lines, doubt: Option<&Doubt>) -> Option<String> {
    match kind {
        Lines::Escapes(hint) => Some(format!(
            "the program has commands that start a shell, and what is typed into it cannot be read: {hint}"
        )),
        _ => doubt.map(ToString::to_string),
    }
}

fn debugger_hint(line: &str) -> String {
    let shown: String = line.chars().take(80).collect();
    format!(
        "{shown:?} may do more than look at the program: break, run, next, step, continue, bt, print, x, info, list and the like are typed freely, without calls, assignments and arguments of run"
    )
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn sizes_are_checked() {
        for (rows, columns, is_good) in [
            (None, None, true),
            (Some(1), Some(1), true),
            (Some(100), Some(250), true),
            (Some(0), None, false),
            (None, Some(0), false),
            (Some(101), None, false),
            (None, Some(251), false),
        ] {
            assert_eq!(size(rows, columns).is_ok(), is_good, "{rows:?} {columns:?}");
        }
    }
}
