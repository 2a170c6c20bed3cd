//! A descriptor of a run that is polled only from a certain time after the job was sent.
//!
//! The end of a filter and the ends of both streams arrive shortly before the end of the program that had
//! them. A task woken by each of these takes the processor from the ending program: by a trace of
//! `sched_switch`, a tenth of a short run. Most runs end before the delay does.

use std::io;
use std::os::fd::{AsFd, BorrowedFd, OwnedFd};
use std::time::{Duration, Instant};

use hotcell_launcher::wire::QUIET_PERIOD_MS;
use tokio::io::Interest;
use tokio::io::unix::AsyncFd;
use tokio::time::{Instant as Tick, sleep_until};

use crate::sys;

/// Delay after the job was sent. A program that its filter stops, or that fills a pipe, waits meanwhile.
pub const QUIET_PERIOD: Duration = Duration::from_millis(QUIET_PERIOD_MS as u64);
/// Polling interval for a descriptor that cannot be registered with the runtime, for lack of memory or of
/// watches.
const POLL_INTERVAL: Duration = Duration::from_millis(5);

/// A readable descriptor whose readiness is reported late.
#[derive(Debug)]
pub struct DeferredFd(State);

#[derive(Debug)]
enum State {
    /// Not registered with the runtime; polled at the next tick.
    Deaf(OwnedFd, Tick),
    Hearing(AsyncFd<OwnedFd>),
    /// Intermediate state during registration.
    Gone,
}

impl DeferredFd {
    /// Wraps a descriptor of a run whose job was sent at `released`.
    pub fn new(fd: OwnedFd, released: Instant) -> Self {
        Self(State::Deaf(fd, Tick::from_std(released + QUIET_PERIOD)))
    }

    /// Waits until there may be data. Cancel safe.
    pub async fn ready(&self) -> io::Result<()> {
        match &self.0 {
            State::Deaf(_, look) => sleep_until(*look).await,
            State::Hearing(fd) => drop(fd.readable().await?),
            State::Gone => std::future::pending().await,
        }
        Ok(())
    }

    /// Reads what is there with `take`.
    ///
    /// # Errors
    /// The error of `take`. `WouldBlock` is remembered, so that the next [`DeferredFd::ready`] waits.
    pub fn take<T>(&mut self, take: impl FnOnce(BorrowedFd<'_>) -> io::Result<T>) -> io::Result<T> {
        if let State::Deaf(..) = self.0
            && let State::Deaf(fd, _) = std::mem::replace(&mut self.0, State::Gone)
        {
            self.0 = match sys::try_readiness(fd) {
                Ok(hearing) => State::Hearing(hearing),
                Err(fd) => State::Deaf(fd, Tick::now() + POLL_INTERVAL),
            };
        }
        match &self.0 {
            // When just registered, the descriptor counts as ready once the runtime has polled it.
            State::Hearing(fd) => fd.try_io(Interest::READABLE, |fd| take(fd.as_fd())),
            State::Deaf(fd, _) => take(fd.as_fd()),
            State::Gone => Err(io::ErrorKind::NotConnected.into()),
        }
    }

    /// The descriptor. The runtime's idea of its readiness may be out of date.
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
    async fn data_before_and_after_listening_is_read() {
        let (reader, writer) = nix::unistd::pipe2(nix::fcntl::OFlag::O_NONBLOCK).unwrap();
        let released = Instant::now();
        let mut later = DeferredFd::new(reader, released);
        let mut writer = Some(writer);
        // The end is heard as no bytes. A descriptor may be called ready without anything to read.
        for said in ["early", "late", ""] {
            if said.is_empty() {
                writer = None;
            } else if let Some(writer) = &writer {
                nix::unistd::write(writer, said.as_bytes()).unwrap();
            }
            let heard = loop {
                later.ready().await.unwrap();
                match later.take(read) {
                    Err(e) if e.kind() == io::ErrorKind::WouldBlock => {}
                    heard => break heard.unwrap(),
                }
            };
            assert_eq!(heard, said.as_bytes());
            assert!(released.elapsed() >= QUIET_PERIOD);
        }
    }

    /// A regular file cannot be registered (`epoll_ctl(2)`, EPERM).
    #[tokio::test(flavor = "current_thread")]
    async fn unregistrable_descriptor_is_polled_with_pause() {
        let mut file = tempfile::tempfile().unwrap();
        std::io::Write::write_all(&mut file, b"written").unwrap();
        std::io::Seek::rewind(&mut file).unwrap();
        let mut later = DeferredFd::new(file.into(), Instant::now());
        for want in [&b"written"[..], b"", b""] {
            let asked = Instant::now();
            later.ready().await.unwrap();
            assert_eq!(later.take(read).unwrap(), want);
            assert!(asked.elapsed() >= POLL_INTERVAL / 2, "it was looked at without a pause");
        }
    }
}
