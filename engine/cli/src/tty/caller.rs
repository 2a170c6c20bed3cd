//! The caller's terminal while a program of a sandbox uses it: raw mode, and its restoration on every ending
//! that a process can notice, a panic included.

use std::io::{self, IsTerminal, Write};
use std::os::fd::{AsFd, OwnedFd};
use std::sync::{Mutex, Once, PoisonError};

use hotcell_sandbox::WindowSize;
use hotcell_sandbox::terminal::window_of;
use nix::sys::termios::{FlushArg, SetArg, Termios, cfmakeraw, tcflush, tcgetattr, tcsetattr};

/// The terminal and its settings before raw mode.
static BEFORE: Mutex<Option<(OwnedFd, Termios)>> = Mutex::new(None);
static HOOK: Once = Once::new();

/// Undoes on a panic what is usually undone by the filter, which knows what the program did.
const LEAVE_EVERYTHING: &[u8] = b"\x1b\\\x1b[?2026l\x1b[?1000l\x1b[?1002l\x1b[?1003l\x1b[?1004l\x1b[?1006l\
    \x1b[?2004l\x1b[?1l\x1b>\x1b[r\x1b[?1049l\x1b[?25h\x1b(B\x0f\x1b[0m\r\n";

/// Raw mode of the caller's terminal; ends when this is dropped.
#[derive(Debug)]
pub struct RawMode(());

impl RawMode {
    /// Puts the terminal on standard input into raw mode.
    ///
    /// # Errors
    /// The error of `tcsetattr(3)`.
    pub fn enter() -> io::Result<Self> {
        HOOK.call_once(|| {
            let usual = std::panic::take_hook();
            std::panic::set_hook(Box::new(move |panic| {
                if restore() {
                    let _ = io::stderr().write_all(LEAVE_EVERYTHING);
                }
                usual(panic);
            }));
        });
        let stdin = io::stdin().as_fd().try_clone_to_owned()?;
        let settings = tcgetattr(&stdin)?;
        *BEFORE.lock().unwrap_or_else(PoisonError::into_inner) = Some((stdin, settings));
        let raw = Self(());
        raw.again()?;
        Ok(raw)
    }

    /// Enters raw mode again, after the process was stopped: a shell sets its own mode meanwhile.
    pub fn again(&self) -> io::Result<()> {
        let before = BEFORE.lock().unwrap_or_else(PoisonError::into_inner);
        let Some((terminal, settings)) = before.as_ref() else { return Ok(()) };
        let mut raw = settings.clone();
        cfmakeraw(&mut raw);
        tcsetattr(terminal, SetArg::TCSANOW, &raw)?;
        Ok(())
    }

    /// Drops the terminal's input that was not read.
    pub fn drop_input(&self) {
        if let Some((terminal, _)) = BEFORE.lock().unwrap_or_else(PoisonError::into_inner).as_ref() {
            let _ = tcflush(terminal, FlushArg::TCIFLUSH);
        }
    }
}

impl Drop for RawMode {
    fn drop(&mut self) {
        restore();
    }
}

/// Restores the settings; false if there was nothing to restore.
fn restore() -> bool {
    // The panic may have come while the lock was held.
    let Ok(mut before) = BEFORE.try_lock() else { return false };
    let Some((terminal, settings)) = before.take() else { return false };
    tcsetattr(terminal, SetArg::TCSANOW, &settings).is_ok()
}

/// The size of the caller's terminal; the usual one if none of the streams is a terminal, or if it does not know
/// its size.
pub fn window() -> WindowSize {
    let (out, input) = (io::stdout(), io::stdin());
    let size = if out.is_terminal() { window_of(out.as_fd()) } else { window_of(input.as_fd()) };
    size.filter(|size| size.rows > 0 && size.columns > 0).unwrap_or_default()
}
