//! How many jobs a process has descriptors for: the rest wait for their turn.

use std::sync::Arc;
use std::time::Duration;

use tokio::sync::{OwnedSemaphorePermit, Semaphore};

use crate::plan::Refusal;

/// What one job needs: control, streams, events, mounts, and on cgroup v1 two for each controller.
const EACH: u64 = 20;
/// What a sandbox needs that waits for its job.
const IDLE: u64 = 10;
/// Of so many descriptors, one sandbox may wait.
const FOR_ONE_IDLE: u64 = 64;
/// Sandboxes that wait for which jobs leave descriptors: as many as a pool has by default.
const MOST_IDLE: u64 = 16;
/// What the rest of the process may need.
const REST: u64 = 64;
/// How long a job waits for its turn.
const PATIENCE: Duration = Duration::from_secs(60);

/// The places of an engine's jobs.
#[derive(Debug)]
pub struct Room {
    places: Arc<Semaphore>,
    all: usize,
    idle: usize,
}

impl Room {
    /// For a process that may have so many descriptors: the soft `RLIMIT_NOFILE`.
    pub fn new(open_files: u64) -> Self {
        let all = jobs(open_files);
        let idle = usize::try_from(open_files / FOR_ONE_IDLE).unwrap_or(usize::MAX).max(1);
        Self { places: Arc::new(Semaphore::new(all)), all, idle }
    }

    /// Jobs at once.
    pub fn jobs(&self) -> usize {
        self.all
    }

    /// The most sandboxes that may wait for their jobs.
    pub fn idle(&self) -> usize {
        self.idle
    }

    /// A place, which is free again when it is dropped.
    pub async fn take(&self) -> Result<OwnedSemaphorePermit, Refusal> {
        self.take_within(PATIENCE).await
    }

    async fn take_within(&self, patience: Duration) -> Result<OwnedSemaphorePermit, Refusal> {
        if let Ok(place) = Arc::clone(&self.places).try_acquire_owned() {
            return Ok(place);
        }
        match tokio::time::timeout(patience, Arc::clone(&self.places).acquire_owned()).await {
            Ok(Ok(place)) => Ok(place),
            _ => Err(Refusal::internal(format!(
                "{} jobs run at once, for more this process has no descriptors, and the turn of this one did not come in {} s; \
                 raise `ulimit -n` or run fewer at once",
                self.all,
                patience.as_secs()
            ))),
        }
    }
}

fn jobs(open_files: u64) -> usize {
    let idle = (open_files / FOR_ONE_IDLE).clamp(1, MOST_IDLE) * IDLE;
    let jobs = open_files.saturating_sub(REST + idle) / EACH;
    usize::try_from(jobs).unwrap_or(usize::MAX).clamp(1, Semaphore::MAX_PERMITS)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn there_is_room_for_as_many_as_have_descriptors() {
        let table = [(0, 1, 1), (64, 1, 1), (124, 2, 1), (256, 7, 4), (1024, 40, 16), (20_000, 988, 312)];
        for (open_files, jobs, idle) in table {
            let room = Room::new(open_files);
            assert_eq!((room.jobs(), room.idle()), (jobs, idle), "{open_files}");
        }
        Room::new(u64::MAX);
    }

    #[tokio::test]
    async fn one_too_many_waits_and_is_told_when_its_turn_does_not_come() {
        let room = Room::new(124);
        let (first, _second) = (room.take().await.unwrap(), room.take().await.unwrap());
        let refused = room.take_within(Duration::from_millis(5)).await.unwrap_err();
        assert!(refused.message.contains("2 jobs run at once"), "{}", refused.message);
        let (third, ()) = tokio::join!(room.take(), async {
            tokio::task::yield_now().await;
            drop(first);
        });
        drop(third.unwrap());
    }
}
