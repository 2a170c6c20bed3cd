//! Starts the launcher from a sealed memfd and exchanges messages with it.
//!
//! Requests are sent one at a time; the answer arrives on the same socket. Nothing here is bound to one tokio
//! runtime: readiness is registered for each request.

use std::collections::VecDeque;
use std::fs::File;
use std::io;
use std::os::fd::{AsFd, BorrowedFd, OwnedFd};
use std::sync::atomic::{AtomicU32, Ordering};
use std::sync::{Mutex, PoisonError};
use std::time::{Duration, Instant};

use hotcell_launcher::EXECUTABLE;
use hotcell_launcher::wire::{Step, tell};
use nix::errno::Errno;
use nix::poll::{PollFd, PollFlags, poll};
use nix::sys::signal::{Signal, kill};
use nix::sys::wait::{WaitPidFlag, WaitStatus, waitpid};
use nix::unistd::Pid;

use crate::failure::{CROWDED, Failure};
use crate::{encode, ids, socket, sys};

/// Time limit for one answer of the launcher. Building a root takes well under a millisecond, so this is
/// reached only when the launcher was stopped.
const ANSWER_TIMEOUT: Duration = Duration::from_secs(5);

/// Reason why the launcher did not carry out a request.
#[derive(Debug, thiserror::Error)]
pub enum Trouble {
    /// The launcher answered with a failure.
    #[error("{0:?}")]
    Failed(Failure),
    /// The launcher has ended or does not answer; a new one is needed.
    #[error("the launcher {0}")]
    Lost(String),
    /// Too many descriptors of this user are in flight over sockets. The launcher and its sandboxes go on; a
    /// retry may succeed.
    #[error("{CROWDED}")]
    Crowded,
    /// Something could not be made or received on this side. The launcher and its sandboxes go on.
    #[error("a descriptor for the sandbox cannot be made: {0}; raise `ulimit -n` or run fewer at once")]
    Here(io::Error),
}

impl Trouble {
    /// Whether a retry may succeed a moment later: other messages with descriptors get read, or are dropped
    /// when their sender ends.
    pub fn may_pass(&self) -> bool {
        matches!(self, Self::Crowded)
            || matches!(self, Self::Failed(failure) if failure.errno == Errno::ETOOMANYREFS)
    }
}

/// A running launcher.
#[derive(Debug)]
pub struct Launcher {
    socket: OwnedFd,
    process: Pid,
    /// True when its end was seen, so that another process may have its number.
    has_ended: bool,
    next_tag: AtomicU32,
    /// Tags of requests whose answers have not been read yet, in order.
    unsettled: Mutex<VecDeque<u32>>,
}

impl Launcher {
    /// Starts a launcher and asks it to enter its own namespaces, without waiting for that: requests are
    /// served in order, and [`Launcher::settle`] reports a failure.
    pub fn start(mapping: ids::Mapping, namespaces: bool) -> Result<Self, Trouble> {
        let launcher = Self::spawn().map_err(|e| Trouble::Lost(format!("cannot be started: {e}")))?;
        let (own_user, uid, gid) = match mapping {
            ids::Mapping::Privileged => (false, 0, 0),
            ids::Mapping::OwnId { uid, gid } => (true, uid, gid),
        };
        let hello = encode::hello(namespaces && own_user, namespaces, namespaces, uid, gid);
        launcher.ask_later(&hello, &[])?;
        Ok(launcher)
    }

    fn spawn() -> io::Result<Self> {
        let (ours, theirs) = socket::pair()?;
        let null = File::options().write(true).open("/dev/null")?;
        let process = sys::start_program(program()?.as_fd(), theirs.as_fd(), null.as_fd())?;
        let (next_tag, unsettled) = (AtomicU32::new(1), Mutex::default());
        Ok(Self { socket: ours, process, has_ended: false, next_tag, unsettled })
    }

    /// Sends a request and waits for its answer, which may carry a descriptor.
    pub async fn ask(&self, request: &[u8], fds: &[BorrowedFd<'_>]) -> Result<Option<OwnedFd>, Trouble> {
        self.settle().await?;
        let tag = self.send(request, fds)?;
        self.answer(tag).await
    }

    /// Sends a request whose answer is read later by [`Launcher::settle`].
    pub fn ask_later(&self, request: &[u8], fds: &[BorrowedFd<'_>]) -> Result<(), Trouble> {
        let tag = self.send(request, fds)?;
        self.unsettled.lock().unwrap_or_else(PoisonError::into_inner).push_back(tag);
        Ok(())
    }

    /// Waits for the answers to all requests of [`Launcher::ask_later`].
    pub async fn settle(&self) -> Result<(), Trouble> {
        loop {
            let next = self.unsettled.lock().unwrap_or_else(PoisonError::into_inner).front().copied();
            let Some(tag) = next else { return Ok(()) };
            let answer = self.answer(tag).await;
            self.unsettled.lock().unwrap_or_else(PoisonError::into_inner).pop_front();
            answer?;
        }
    }

    fn send(&self, request: &[u8], fds: &[BorrowedFd<'_>]) -> Result<u32, Trouble> {
        let tag = self.next_tag.fetch_add(1, Ordering::Relaxed);
        let mut request = request.to_vec();
        encode::set_tag(&mut request, tag);
        self.tell(&request, fds)?;
        Ok(tag)
    }

    /// Waits for the answer with this tag. Answers to callers that stopped waiting are dropped, with the
    /// descriptors that they carry.
    async fn answer(&self, tag: u32) -> Result<Option<OwnedFd>, Trouble> {
        let answer = tokio::time::timeout(ANSWER_TIMEOUT, async {
            loop {
                let message = receive(self.socket.as_fd())
                    .await
                    .map_err(|e| match e.raw_os_error().map(Errno::from_raw) {
                        Some(Errno::EMFILE | Errno::ENFILE) => Trouble::Here(e),
                        _ => Trouble::Lost(format!("cannot be read: {e}")),
                    })?
                    .ok_or_else(|| Trouble::Lost("has ended".to_owned()))?;
                let said = message.tell().map_err(|e| Trouble::Lost(e.to_string()))?;
                if said.a >> 32 == u64::from(tag) {
                    return Ok(message);
                }
            }
        });
        let message = answer
            .await
            .map_err(|_| Trouble::Lost(format!("does not answer within {} s", ANSWER_TIMEOUT.as_secs())))??;
        let said = message.tell().map_err(|e| Trouble::Lost(e.to_string()))?;
        match said.kind {
            tell::DONE => Ok(message.fds.into_iter().next()),
            tell::FAILED => Err(Trouble::Failed(failure(said.a & u64::from(u32::MAX), said.b, said.c))),
            other => Err(Trouble::Lost(format!("answered with a message of kind {other}"))),
        }
    }

    /// Sends a request that is not answered by the launcher itself.
    pub fn tell(&self, request: &[u8], fds: &[BorrowedFd<'_>]) -> Result<(), Trouble> {
        // With many requests at once, the launcher may not have read all of them yet. It blocks on nothing
        // else, so it soon will.
        let until = Instant::now() + ANSWER_TIMEOUT;
        loop {
            match socket::send(self.socket.as_fd(), request, fds) {
                Err(e) if e.kind() == io::ErrorKind::WouldBlock && Instant::now() < until => {
                    let mut room = [PollFd::new(self.socket.as_fd(), PollFlags::POLLOUT)];
                    let _ = poll(&mut room, 100u16);
                }
                Err(e) if e.raw_os_error() == Some(Errno::ETOOMANYREFS as i32) => {
                    return Err(Trouble::Crowded);
                }
                sent => return sent.map_err(|e| Trouble::Lost(format!("does not take requests: {e}"))),
            }
        }
    }

    /// Whether the launcher has ended, and its sandboxes with it.
    pub fn has_ended(&mut self) -> bool {
        let goes_on = !self.has_ended
            && waitpid(self.process, Some(WaitPidFlag::WNOHANG)) == Ok(WaitStatus::StillAlive);
        self.has_ended = !goes_on;
        self.has_ended
    }

    /// The launcher's process id, for tests that kill it.
    pub fn id(&self) -> u32 {
        self.process.as_raw().unsigned_abs()
    }
}

impl Drop for Launcher {
    fn drop(&mut self) {
        // The launcher would end when the socket is closed; killing it also works when it is stopped.
        if !self.has_ended {
            let _ = kill(self.process, Signal::SIGKILL);
            let _ = waitpid(self.process, None);
        }
    }
}

/// Decodes a failure from its wire form.
pub fn failure(step: u64, errno: u64, detail: u64) -> Failure {
    Failure {
        step: Step::from_number(step).unwrap_or(Step::Supervise),
        errno: Errno::from_raw(i32::try_from(errno).unwrap_or(0)),
        detail,
    }
}

/// Waits for a message.
pub async fn receive(socket: BorrowedFd<'_>) -> io::Result<Option<socket::Message>> {
    let ready = sys::readiness(socket)?;
    loop {
        let mut guard = ready.readable().await?;
        match guard.try_io(|fd| socket::receive(*fd.get_ref())) {
            Ok(message) => return message,
            Err(_not_yet) => {}
        }
    }
}

/// The launcher's executable: a sealed memfd, so that it cannot be overwritten through `/proc/PID/exe`
/// (CVE-2019-5736).
fn program() -> io::Result<File> {
    socket::sealed_program(c"hotcell-launcher", EXECUTABLE).map(File::from).map_err(|e| {
        io::Error::new(
            e.kind(),
            format!("its memory file cannot be made ({e}); vm.memfd_noexec=2 forbids it"),
        )
    })
}
