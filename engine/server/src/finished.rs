//! Finished runs in the order of their ends; the oldest are forgotten when there are too many.

use std::collections::{HashMap, VecDeque};
use std::time::{Duration, Instant};

use hotcell_state::caller::Caller;

/// Limits of the memory of finished runs.
#[derive(Clone, Copy, Debug)]
pub struct Memory {
    /// Maximum number of runs per caller.
    pub of_one: usize,
    /// Maximum total size of all of them, in bytes.
    pub bytes: usize,
    /// Retention time.
    pub time: Duration,
}

/// Remembered runs. Finding those to forget examines only the oldest of each caller.
#[derive(Debug, Default)]
pub struct Finished {
    all: HashMap<Caller, VecDeque<One>>,
    bytes: usize,
}

#[derive(Debug)]
struct One {
    id: String,
    at: Instant,
    bytes: usize,
}

impl Finished {
    /// Adds a run, which ended after all others of its caller.
    pub fn add(&mut self, caller: Caller, id: String, at: Instant, bytes: usize) {
        self.bytes += bytes;
        self.all.entry(caller).or_default().push_back(One { id, at, bytes });
    }

    /// Forgets runs that are too old or too many, and returns their ids.
    pub fn forget(&mut self, memory: Memory, now: Instant) -> Vec<String> {
        let mut gone = Vec::new();
        let mut freed = 0;
        self.all.retain(|_, runs| {
            let old = |run: &One| now.saturating_duration_since(run.at) > memory.time;
            while runs.len() > memory.of_one || runs.front().is_some_and(old) {
                let Some(run) = runs.pop_front() else { break };
                freed += run.bytes;
                gone.push(run.id);
            }
            !runs.is_empty()
        });
        self.bytes -= freed;
        while self.bytes > memory.bytes {
            let oldest = self.all.values_mut().min_by_key(|runs| runs.front().map(|run| run.at));
            let Some(run) = oldest.and_then(VecDeque::pop_front) else { break };
            self.bytes -= run.bytes;
            gone.push(run.id);
            self.all.retain(|_, runs| !runs.is_empty());
        }
        gone
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn oldest_finished_runs_are_forgotten_over_limit() {
        let start = Instant::now();
        let second = |n| start + Duration::from_secs(n);
        let memory = |of_one, bytes, time| Memory { of_one, bytes, time: Duration::from_secs(time) };
        // Each by its caller, the second at which it ended, and its bytes.
        let ended = [("a", 0, 10), ("b", 1, 10), ("a", 2, 30), ("a", 3, 10), ("b", 4, 10)];
        for (memory, now, gone) in [
            (memory(9, 99, 99), 5, vec![]),
            (memory(2, 99, 99), 5, vec!["a0"]),
            (memory(1, 99, 99), 5, vec!["a0", "a2", "b1"]),
            (memory(0, 99, 99), 5, vec!["a0", "a2", "a3", "b1", "b4"]),
            // Runs that ended more than `time` ago are old.
            (memory(9, 99, 3), 5, vec!["a0", "b1"]),
            (memory(9, 99, 3), 99, vec!["a0", "a2", "a3", "b1", "b4"]),
            // The oldest of all callers go until the rest fits.
            (memory(9, 69, 99), 5, vec!["a0"]),
            (memory(9, 50, 99), 5, vec!["a0", "b1"]),
            (memory(9, 49, 99), 5, vec!["a0", "a2", "b1"]),
            (memory(9, 0, 99), 5, vec!["a0", "a2", "a3", "b1", "b4"]),
            // A caller's excess goes first.
            (memory(2, 60, 99), 5, vec!["a0"]),
        ] {
            let mut finished = Finished::default();
            for (caller, at, bytes) in ended {
                finished.add(Caller::new(caller), format!("{caller}{at}"), second(at), bytes);
            }
            let mut told = finished.forget(memory, second(now));
            told.sort();
            assert_eq!(told, gone, "{memory:?} {now}");
            assert_eq!(finished.forget(memory, second(now)), Vec::<String>::new(), "{memory:?} {now}");
        }
    }
}
