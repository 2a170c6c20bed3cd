//! Asks the kernel for room in a run's cgroup where it must tell how much of its own memory is in use.

use std::time::Duration;

use tokio::sync::oneshot::{self, error::TryRecvError};

use crate::cgroup::Group;
use crate::kernel_memory::KernelMemory;
use crate::units::Bytes;

/// The questions of one run, and the answer that is awaited.
#[derive(Debug, Default)]
pub(super) struct Room {
    memory: KernelMemory,
    answer: Option<oneshot::Receiver<bool>>,
}

impl Room {
    /// The memory to be compared with `limit`: that of the processes, and that of the kernel as far as it counts.
    /// `files` is the size of scratch, which the group holds besides.
    pub(super) fn count(
        &mut self,
        group: &Group,
        now: Duration,
        memory: Bytes,
        kernel: Bytes,
        limit: Bytes,
        files: u64,
    ) -> Bytes {
        if let Some(answer) = &mut self.answer {
            match answer.try_recv() {
                Err(TryRecvError::Empty) => {}
                // Without an answer the question failed.
                answer => {
                    self.memory.answer(now, answer.unwrap_or(false));
                    self.answer = None;
                }
            }
        }
        if self.memory.asks(now, memory, kernel, limit) {
            self.answer = Some(ask(group, Bytes(limit.0.saturating_add(files))));
        }
        self.memory.count(memory, kernel, limit)
    }
}

/// Asks on a thread of its own, since the kernel may take long.
fn ask(group: &Group, bytes: Bytes) -> oneshot::Receiver<bool> {
    let (tell, answer) = oneshot::channel();
    let squeeze = group.squeeze();
    tokio::task::spawn_blocking(move || {
        let made_room = squeeze.and_then(|squeeze| squeeze.map_or(Ok(true), |squeeze| squeeze.to(bytes)));
        if let Err(error) = &made_room {
            tracing::warn!("the kernel cannot be asked to reclaim memory of a run: {error}");
        }
        let _ = tell.send(made_room.unwrap_or(false));
    });
    answer
}
