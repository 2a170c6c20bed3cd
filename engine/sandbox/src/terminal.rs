//! The terminal of a program: a pseudo-terminal of the sandbox's own `/dev/pts`. The program has the slave as
//! its controlling terminal; this process has the master, and nothing else of hotcell's terminal is reachable
//! from inside.

use std::io;
use std::os::fd::{AsFd, BorrowedFd, OwnedFd};
use std::sync::Arc;
use std::time::Duration;

use nix::fcntl::{FcntlArg, OFlag, fcntl};
use tokio::net::unix::pipe;

use crate::policy::WindowSize;
use crate::{socket, sys};

/// Maximum time from the release of a job to its terminal; the sandbox may not be made yet.
const TERMINAL_TIMEOUT: Duration = Duration::from_secs(30);

/// The size of a terminal of this process; `None` if the descriptor is not a terminal.
#[must_use]
pub fn window_of(terminal: BorrowedFd<'_>) -> Option<WindowSize> {
    sys::window(terminal).ok().map(|(rows, columns)| WindowSize { rows, columns })
}

/// The caller's handle of a program's terminal. Cheap to clone.
#[derive(Clone, Debug)]
pub struct Terminal {
    master: Arc<OwnedFd>,
    /// Held so that the terminal stays connected while no process of the program has it open. `pty(7)`
    _slave: Arc<OwnedFd>,
}

impl Terminal {
    /// Receives both ends from the process that becomes the program; `None` if it ended before it had them.
    pub(crate) async fn receive(socket: OwnedFd) -> io::Result<Option<Self>> {
        let socket = sys::readiness(socket)?;
        let receive = async {
            loop {
                let mut ready = socket.readable().await?;
                match ready.try_io(|fd| socket::receive_into(fd.get_ref().as_fd(), &mut [0; 8], 2)) {
                    Ok(received) => return received,
                    Err(_would_block) => {}
                }
            }
        };
        let slow = |_| io::Error::new(io::ErrorKind::TimedOut, "its terminal was not made in time");
        let received = tokio::time::timeout(TERMINAL_TIMEOUT, receive).await.map_err(slow)??;
        let Some(piece) = received else { return Ok(None) };
        let fds: [OwnedFd; 2] =
            piece.fds.try_into().map_err(|_| io::Error::other("a message without a terminal"))?;
        let [master, slave] = fds;
        let flags = OFlag::from_bits_retain(fcntl(&master, FcntlArg::F_GETFL)?);
        fcntl(&master, FcntlArg::F_SETFL(flags | OFlag::O_NONBLOCK))?;
        Ok(Some(Self { master: Arc::new(master), _slave: Arc::new(slave) }))
    }

    /// A descriptor from which the program's output is read, without blocking.
    pub(crate) fn reader(&self) -> io::Result<OwnedFd> {
        self.master.try_clone()
    }

    /// The writer of what is typed.
    pub(crate) fn writer(&self) -> io::Result<pipe::Sender> {
        pipe::Sender::from_owned_fd_unchecked(self.master.try_clone()?)
    }

    /// Changes the size of the window; the program's foreground processes get `SIGWINCH`.
    ///
    /// # Errors
    /// The error of `ioctl(2)`.
    pub fn resize(&self, size: WindowSize) -> io::Result<()> {
        sys::set_window(self.master.as_fd(), size.rows, size.columns)
    }
}
