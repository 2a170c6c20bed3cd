//! Messages of launcher and init to the supervisor: one small message for each fact, with the times of the
//! steps.

use crate::sys::{self, Errno, Fd};
use crate::wire::{Step, TELL_HEAD, tell};

/// A step that failed, with the kernel's error and a detail that depends on the step (an index, a signal).
#[derive(Clone, Copy, Debug)]
pub struct Failure {
    pub step: Step,
    pub errno: Errno,
    pub detail: u64,
}

/// Attaches the step to a kernel error.
pub trait At<T> {
    fn at(self, step: Step) -> Result<T, Failure>;
    fn at_item(self, step: Step, item: usize) -> Result<T, Failure>;
}

impl<T> At<T> for sys::Result<T> {
    fn at(self, step: Step) -> Result<T, Failure> {
        self.at_item(step, 0)
    }
    fn at_item(self, step: Step, item: usize) -> Result<T, Failure> {
        self.map_err(|errno| Failure { step, errno, detail: item as u64 })
    }
}

const MAX_STEPS: usize = 40;

/// Times at which steps were completed, since the last message.
pub struct Log {
    bytes: [u8; TELL_HEAD + 9 * MAX_STEPS],
    len: usize,
}

impl Log {
    pub const fn new() -> Self {
        Self { bytes: [0; TELL_HEAD + 9 * MAX_STEPS], len: TELL_HEAD }
    }

    /// Records that `step` is completed now.
    pub fn done(&mut self, step: Step) {
        self.done_at(step, sys::now());
    }

    /// Records that `step` was completed at this time.
    pub fn done_at(&mut self, step: Step, at: u64) {
        if let Some(slot) = self.bytes.get_mut(self.len..self.len + 9) {
            slot[0] = step as u8;
            slot[1..].copy_from_slice(&at.to_le_bytes());
            self.len += 9;
        }
    }

    /// Sends a message with the steps recorded so far, and clears them.
    pub fn tell(&mut self, to: Fd, kind: u32, abc: [u64; 3], fds: &[Fd]) -> sys::Result<()> {
        self.bytes[..4].copy_from_slice(&kind.to_le_bytes());
        for (i, value) in abc.into_iter().enumerate() {
            self.bytes[4 + 8 * i..][..8].copy_from_slice(&value.to_le_bytes());
        }
        let sent = sys::send(to, &self.bytes[..self.len], fds);
        self.len = TELL_HEAD;
        sent
    }
}

/// Reports a failure.
pub fn tell_failure(log: &mut Log, to: Fd, f: Failure) -> sys::Result<()> {
    log.tell(to, tell::FAILED, [f.step as u64, u64::from(f.errno.0.unsigned_abs()), f.detail], &[])
}
