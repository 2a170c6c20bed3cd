//! The message that starts the job of a waiting sandbox.

use crate::report::{At, Failure};
use crate::sys::{self, Errno, Fd};
use crate::wire::{Job, MAX_FDS, Step};

/// A received job: eight bytes of its length, then the job itself if it is short enough for a message. The
/// descriptors are a memfd with the job if it is longer, standard input, output, error, then the mounts, then
/// events.
pub struct Release<'a> {
    /// The encoded job.
    pub memory: &'a [u8],
    /// Descriptors: memfd or -1, standard input, output, error, the mounts, events.
    fds: [Fd; MAX_FDS],
}

impl<'a> Release<'a> {
    /// Decodes a message with these bytes.
    pub fn of(message: &sys::Received, bytes: &'a [u8]) -> Result<Self, Failure> {
        let not_a_job = Failure { step: Step::Release, errno: Errno::PROTO, detail: 1 };
        let (head, job) = bytes.split_at_checked(8).ok_or(not_a_job)?;
        let head = head.try_into().map_err(|_| not_a_job)?;
        let len = usize::try_from(u64::from_le_bytes(head)).map_err(|_| not_a_job)?;
        let inside = message.len > 8;
        // If the job is in the message there is no memfd, and the other descriptors move up by one.
        let first = usize::from(inside);
        let given = message.fds();
        if message.len < 8 || first + given.len() < 4 || (inside && message.len != len.saturating_add(8)) {
            return Err(not_a_job);
        }
        let mut fds = [-1; MAX_FDS];
        fds.get_mut(first..first + given.len()).ok_or(not_a_job)?.copy_from_slice(given);
        let memory = if inside {
            job.get(..len).ok_or(not_a_job)?
        } else {
            sys::map(fds[0], len).at(Step::Release)?
        };
        Ok(Self { memory, fds })
    }

    /// One of the descriptors.
    pub fn fd(&self, number: usize) -> sys::Result<Fd> {
        self.fds.get(number).copied().filter(|fd| *fd >= 0).ok_or(Errno::BADF)
    }

    /// The descriptor of a mount of the job.
    pub fn mount(&self, number: u32) -> sys::Result<Fd> {
        self.fd(usize::try_from(number).unwrap_or(usize::MAX).saturating_add(4))
    }

    /// The program's first descriptors; -1 for none.
    pub fn stdio(&self, job: &Job<'_>) -> Result<[Fd; 5], Failure> {
        let events = if job.events { self.fd(4 + job.mounts.len()).at(Step::Release)? } else { -1 };
        Ok([self.fds[1], self.fds[2], self.fds[3], events, -1])
    }
}
