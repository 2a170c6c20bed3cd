//! Decides whether the kernel's own memory for a run (page tables, buffers of local sockets and pipes, tables of
//! files) counts as memory, where a cgroup of version 1 reports its sum without the part that the kernel would
//! give back: caches of names and inodes of files that were looked up. While memory and this sum exceed the limit,
//! the kernel is asked to make room; only memory that it repeatedly does not give back counts. Pure.

use std::time::Duration;

use crate::units::Bytes;

/// Number of successive refusals after which kernel memory counts. One is not proof: scratch may grow meanwhile,
/// and freed caches are returned with a delay.
const MAX_REFUSALS: u32 = 5;
/// Minimum time between an answer and the next question.
const ASK_INTERVAL: Duration = Duration::from_millis(100);
/// Maximum time for an answer; one that takes longer is a refusal. A program can make it long by reading files as
/// fast as their pages are taken away.
const ANSWER_TIMEOUT: Duration = Duration::from_secs(30);

/// The questions of one run.
#[derive(Clone, Copy, Debug, Default)]
pub struct KernelMemory {
    refusals: u32,
    asked: Option<Duration>,
    answered: Option<Duration>,
}

impl KernelMemory {
    /// Whether to ask the kernel now to make room.
    pub fn asks(&mut self, now: Duration, memory: Bytes, kernel: Bytes, limit: Bytes) -> bool {
        if sum(memory, kernel) <= limit {
            self.refusals = 0;
            return false;
        }
        if let Some(asked) = self.asked {
            if now.saturating_sub(asked) > ANSWER_TIMEOUT {
                self.refusals = MAX_REFUSALS;
            }
            return false;
        }
        let early = self.answered.is_some_and(|at| now.saturating_sub(at) < ASK_INTERVAL);
        if !early {
            self.asked = Some(now);
        }
        !early
    }

    /// Processes the answer.
    pub fn answer(&mut self, now: Duration, made_room: bool) {
        (self.asked, self.answered) = (None, Some(now));
        self.refusals = if made_room { 0 } else { self.refusals.saturating_add(1) };
    }

    /// The memory to be compared with the limit: with the kernel's, which exceeds the limit only once it counts.
    pub fn count(&self, memory: Bytes, kernel: Bytes, limit: Bytes) -> Bytes {
        let sum = sum(memory, kernel);
        if self.refusals >= MAX_REFUSALS { sum } else { sum.min(limit.max(memory)) }
    }
}

fn sum(memory: Bytes, kernel: Bytes) -> Bytes {
    Bytes(memory.0.saturating_add(kernel.0))
}

#[cfg(test)]
mod tests {
    use super::*;

    const LIMIT: Bytes = Bytes(100);

    fn at(ms: u64) -> Duration {
        Duration::from_millis(ms)
    }

    #[test]
    fn kernel_memory_counts_when_the_kernel_keeps_it() {
        let mut it = KernelMemory::default();
        let mut now = 0;
        for refusal in 0..MAX_REFUSALS {
            assert_eq!(it.count(Bytes(20), Bytes(90), LIMIT), LIMIT, "{refusal}");
            assert!(it.asks(at(now), Bytes(20), Bytes(90), LIMIT), "{refusal}");
            assert!(!it.asks(at(now + 50), Bytes(20), Bytes(90), LIMIT), "one question at a time");
            it.answer(at(now + 60), false);
            assert!(!it.asks(at(now + 100), Bytes(20), Bytes(90), LIMIT), "not at once");
            now += 160;
        }
        assert_eq!(it.count(Bytes(20), Bytes(90), LIMIT), Bytes(110));
    }

    #[test]
    fn kernel_memory_that_is_given_back_does_not_count() {
        for (memory, kernel, room, want) in [
            (20, 30, None, 50),
            (20, 90, Some(true), 100),
            (20, 90, None, 100),
            (120, 30, None, 120), // the program's own memory exceeds the limit
        ] {
            let mut it = KernelMemory::default();
            for n in 0..4 {
                assert_eq!(it.asks(at(n * 200), Bytes(memory), Bytes(kernel), LIMIT), memory + kernel > 100);
                it.answer(at(n * 200), room.unwrap_or(false));
            }
            assert_eq!(it.count(Bytes(memory), Bytes(kernel), LIMIT), Bytes(want), "{memory} {kernel}");
        }
        // Less kernel memory, or a success, forgets refusals.
        let mut it = KernelMemory { refusals: 4, ..KernelMemory::default() };
        assert!(!it.asks(at(0), Bytes(1), Bytes(1), LIMIT));
        it.answer(at(0), false);
        assert_eq!(it.count(Bytes(20), Bytes(90), LIMIT), LIMIT);
    }

    #[test]
    fn answer_that_takes_too_long_is_a_refusal() {
        let mut it = KernelMemory::default();
        assert!(it.asks(at(0), Bytes(20), Bytes(90), LIMIT));
        assert!(!it.asks(at(29_000), Bytes(20), Bytes(90), LIMIT));
        assert_eq!(it.count(Bytes(20), Bytes(90), LIMIT), LIMIT);
        assert!(!it.asks(at(30_001), Bytes(20), Bytes(90), LIMIT));
        assert_eq!(it.count(Bytes(20), Bytes(90), LIMIT), Bytes(110));
    }
}
