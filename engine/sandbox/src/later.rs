//! A descriptor of a run that is listened to from a moment after the job was sent.
//!
//! The end of a filter and the ends of both streams come a little before the end of the program that had them. Whoever is woken by each takes
//! the processor from a program that is just ending: by a trace of `sched_switch`, a tenth of a short run. Most runs are over before this moment.

use std::io;
use std::os::fd::{AsFd, BorrowedFd, OwnedFd};
use std::time::{Duration, Instant};

use hotcell_launcher::wire::QUIET_MS;
use tokio::io::Interest;
use tokio::io::unix::AsyncFd;
use tokio::time::{Instant as Tick, sleep_until};

use crate::sys;

/// The moment. Meanwhile a program that is stopped by its filter, or has filled a pipe, waits.
pub const QUIET: Duration = Duration::from_millis(QUIET_MS as u64);
/// How often a descriptor is looked at that the runtime cannot be told of, for lack of memory or of watches.
const LOOK: Duration = Duration::from_millis(5);

/// A descriptor that can be read without waiting.
#[derive(Debug)]
pub struct Later(State);

#[derive(Debug)]
enum State {
    /// Nobody listens; when to look.
    Deaf(OwnedFd, Tick),
    Hearing(AsyncFd<OwnedFd>),
    /// Between both.
    Gone,
}

impl Later {
    /// One of a run whose job was sent then.
    pub fn new(fd: OwnedFd, released: Instant) -> Self {
        Self(State::Deaf(fd, Tick::from_std(released + QUIET)))
    }

    /// Waits until something may be there; may be given up at any moment.
    pub async fn ready(&self) -> io::Result<()> {
        match &self.0 {
            State::Deaf(_, look) => sleep_until(*look).await,
            State::Hearing(fd) => drop(fd.readable().await?),
            State::Gone => std::future::pending().await,
        }
        Ok(())
    }

    /// Takes what is there.
    ///
    /// # Errors
    /// What `take` says; that it would block, which is remembered.
    pub fn take<T>(&mut self, take: impl FnOnce(BorrowedFd<'_>) -> io::Result<T>) -> io::Result<T> {
        if let State::Deaf(..) = self.0
            && let State::Deaf(fd, _) = std::mem::replace(&mut self.0, State::Gone)
        {
            self.0 = match sys::try_readiness(fd) {
                Ok(hearing) => State::Hearing(hearing),
                Err(fd) => State::Deaf(fd, Tick::now() + LOOK),
            };
        }
        match &self.0 {
            // Registered just now, it is ready as soon as the runtime has looked.
            State::Hearing(fd) => fd.try_io(Interest::READABLE, |fd| take(fd.as_fd())),
            State::Deaf(fd, _) => take(fd.as_fd()),
            State::Gone => Err(io::ErrorKind::NotConnected.into()),
        }
    }

    /// The descriptor; what the runtime knows of it may be older than what is in it.
    pub fn fd(&self) -> Option<BorrowedFd<'_>> {
        match &self.0 {
            State::Deaf(fd, _) => Some(fd.as_fd()),
            State::Hearing(fd) => Some(fd.get_ref().as_fd()),
            State::Gone => None,
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn read(fd: BorrowedFd<'_>) -> io::Result<Vec<u8>> {
        let mut buffer = [0; 8];
        let n = nix::unistd::read(fd, &mut buffer)?;
        Ok(buffer[..n].to_vec())
    }

    #[tokio::test(flavor = "current_thread")]
    async fn what_came_before_anybody_listened_is_heard_and_what_comes_after() {
        let (reader, writer) = nix::unistd::pipe2(nix::fcntl::OFlag::O_NONBLOCK).unwrap();
        let released = Instant::now();
        let mut later = Later::new(reader, released);
        for said in ["early", "late"] {
            nix::unistd::write(&writer, said.as_bytes()).unwrap();
            let heard = loop {
                later.ready().await.unwrap();
                match later.take(read) {
                    Err(e) if e.kind() == io::ErrorKind::WouldBlock => {}
                    heard => break heard.unwrap(),
                }
            };
            assert_eq!(heard, said.as_bytes());
            assert!(released.elapsed() >= QUIET);
        }
        drop(writer);
        later.ready().await.unwrap();
        assert_eq!(later.take(read).unwrap(), b"");
    }

    /// A file is one (`epoll_ctl(2)`, EPERM).
    #[tokio::test(flavor = "current_thread")]
    async fn what_the_runtime_cannot_have_is_looked_at_again_and_again() {
        let mut file = tempfile::tempfile().unwrap();
        std::io::Write::write_all(&mut file, b"written").unwrap();
        std::io::Seek::rewind(&mut file).unwrap();
        let mut later = Later::new(file.into(), Instant::now());
        for want in [&b"written"[..], b"", b""] {
            let asked = Instant::now();
            later.ready().await.unwrap();
            assert_eq!(later.take(read).unwrap(), want);
            assert!(asked.elapsed() >= LOOK / 2, "it was looked at without a pause");
        }
    }
}
