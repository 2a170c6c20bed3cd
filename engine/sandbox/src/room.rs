//! How many jobs a process has descriptors for: the rest wait for their turn.

use std::sync::Arc;
use std::time::Duration;

use tokio::sync::{OwnedSemaphorePermit, Semaphore};

use crate::plan::Refusal;

/// What one job needs: control, streams, events, mounts, and on cgroup v1 two for each controller.
const EACH: u64 = 20;
/// What the rest of the process may need.
const REST: u64 = 64;
/// How long a job waits while none of the others ends.
const PATIENCE: Duration = Duration::from_secs(60);

/// The places of an engine's jobs.
#[derive(Debug)]
pub struct Room {
    places: Arc<Semaphore>,
    all: usize,
}

impl Room {
    /// For a process that may have so many descriptors: the soft `RLIMIT_NOFILE`.
    pub fn new(open_files: u64) -> Self {
        let all = jobs(open_files);
        Self { places: Arc::new(Semaphore::new(all)), all }
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
                "{} jobs run at once, for more this process has no descriptors, and none ended in {} s; raise `ulimit -n` \
                 or run fewer at once",
                self.all,
                patience.as_secs()
            ))),
        }
    }
}

fn jobs(open_files: u64) -> usize {
    let jobs = open_files.saturating_sub(REST) / EACH;
    usize::try_from(jobs).unwrap_or(usize::MAX).clamp(1, Semaphore::MAX_PERMITS)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn there_is_room_for_as_many_as_have_descriptors() {
        for (open_files, want) in [(0, 1), (64, 1), (104, 2), (1024, 48), (20_000, 996)] {
            assert_eq!(jobs(open_files), want, "{open_files}");
        }
        Room::new(u64::MAX);
    }

    #[tokio::test]
    async fn one_too_many_waits_and_is_told_when_none_ends() {
        let room = Room::new(104);
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
