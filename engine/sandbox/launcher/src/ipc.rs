//! Measures the memory in a sandbox's System V objects, where no cgroup counts it: segments that are attached
//! nowhere, semaphores and messages belong to the ipc namespace and not to a process. `ipc_namespaces(7)`

use crate::sys::{self, Objects};

/// Size of a semaphore in bytes: the kernel gives each a cache line of its own. (`struct sem` in `ipc/sem.c`)
const SEMAPHORE_BYTES: u64 = 64;
/// Estimated bytes of a set of semaphores, a queue or a message, beside what it holds.
const OBJECT_BYTES: u64 = 256;
const PAGE_BYTES: u64 = 4096;

/// Memory of the objects in this process's ipc namespace.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct Held {
    /// Bytes of segments in memory, attached or not. [`crate::tree`] does not count those of attached segments
    /// for their processes once that matters for the limit.
    pub segments: u64,
    /// Bytes of semaphores and messages.
    pub others: u64,
}

impl Held {
    pub const fn total(self) -> u64 {
        self.segments.saturating_add(self.others)
    }
}

/// Memory of all objects; nothing where the kernel does not report it.
pub fn held() -> Held {
    of(sys::system_v_objects())
}

fn of(objects: Objects) -> Held {
    let Objects { segment_pages, sets, semaphores, queues, messages, message_bytes } = objects;
    Held {
        segments: segment_pages.saturating_mul(PAGE_BYTES),
        others: semaphores * SEMAPHORE_BYTES + message_bytes + (sets + queues + messages) * OBJECT_BYTES,
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn ipc_objects_are_counted_as_memory() {
        let none = Objects::default();
        for (objects, want) in [
            (none, 0),
            (Objects { segment_pages: 10, ..none }, 40_960),
            (Objects { semaphores: 100, sets: 1, ..none }, 6_400 + 256),
            (Objects { message_bytes: 1_000, messages: 2, queues: 1, ..none }, 1_000 + 3 * 256),
            (Objects { segment_pages: 1, message_bytes: 1, ..none }, 4_096 + 1),
        ] {
            assert_eq!(of(objects).total(), want, "{objects:?}");
        }
    }
}
