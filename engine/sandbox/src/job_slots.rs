//! Limits the number of concurrent jobs to what the descriptors of this process allow; the rest wait for
//! their turn.

use std::sync::Arc;
use std::time::Duration;

use tokio::sync::{OwnedSemaphorePermit, Semaphore};

use crate::refusal::Refusal;

/// Descriptors that one job needs: control, streams, events, mounts, and on cgroup v1 two for each
/// controller.
const JOB_DESCRIPTORS: u64 = 20;
/// Descriptors that one idle sandbox needs.
const IDLE_DESCRIPTORS: u64 = 10;
/// Number of this process's descriptors for each idle sandbox.
const DESCRIPTORS_PER_IDLE: u64 = 64;
/// Maximum number of idle sandboxes for which descriptors are reserved: the default size of a pool.
const MAX_IDLE_SANDBOXES: u64 = 16;
/// Descriptors that the guard's reader needs: a sandbox with its own launcher, besides those of the jobs.
const READER_DESCRIPTORS: u64 = JOB_DESCRIPTORS + IDLE_DESCRIPTORS;
/// Descriptors that the rest of the process may need.
const OTHER_DESCRIPTORS: u64 = 64;
/// Maximum time that a job waits for its turn.
const TURN_TIMEOUT: Duration = Duration::from_secs(60);

/// The permits for an engine's jobs.
#[derive(Debug)]
pub struct Room {
    places: Arc<Semaphore>,
    all: usize,
    idle: usize,
}

impl Room {
    /// Computes the limits for a process that was started with this many descriptors: its soft
    /// `RLIMIT_NOFILE` before it was raised.
    pub fn new(open_files: u64) -> Self {
        let all = jobs(open_files);
        let idle = usize::try_from(open_files / DESCRIPTORS_PER_IDLE).unwrap_or(usize::MAX).max(1);
        Self { places: Arc::new(Semaphore::new(all)), all, idle }
    }

    /// Maximum number of concurrent jobs.
    pub fn jobs(&self) -> usize {
        self.all
    }

    /// Maximum number of idle sandboxes.
    pub fn idle(&self) -> usize {
        self.idle
    }

    /// Waits for a permit, which is released when it is dropped.
    pub async fn take(&self) -> Result<OwnedSemaphorePermit, Refusal> {
        self.take_within(TURN_TIMEOUT).await
    }

    async fn take_within(&self, patience: Duration) -> Result<OwnedSemaphorePermit, Refusal> {
        if let Ok(place) = Arc::clone(&self.places).try_acquire_owned() {
            return Ok(place);
        }
        match tokio::time::timeout(patience, Arc::clone(&self.places).acquire_owned()).await {
            Ok(Ok(place)) => Ok(place),
            _ => Err(Refusal::without_descriptors(&format!(
                "{} jobs run at once, for more this process has no descriptors, and the turn of this one did not come in {} s",
                self.all,
                patience.as_secs()
            ))),
        }
    }
}

fn jobs(open_files: u64) -> usize {
    let idle = (open_files / DESCRIPTORS_PER_IDLE).clamp(1, MAX_IDLE_SANDBOXES) * IDLE_DESCRIPTORS;
    let jobs = open_files.saturating_sub(OTHER_DESCRIPTORS + READER_DESCRIPTORS + idle) / JOB_DESCRIPTORS;
    usize::try_from(jobs).unwrap_or(usize::MAX).clamp(1, Semaphore::MAX_PERMITS)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn job_limit_follows_descriptor_limit() {
        let table = [(0, 1, 1), (64, 1, 1), (154, 2, 2), (256, 6, 4), (1024, 38, 16), (20_000, 987, 312)];
        for (open_files, jobs, idle) in table {
            let room = Room::new(open_files);
            assert_eq!((room.jobs(), room.idle()), (jobs, idle), "{open_files}");
        }
        Room::new(u64::MAX);
    }

    #[tokio::test]
    async fn excess_job_waits_then_is_refused() {
        let room = Room::new(154);
        let (first, _second) = (room.take().await.unwrap(), room.take().await.unwrap());
        let refused = room.take_within(Duration::from_millis(5)).await.unwrap_err();
        assert!(refused.message.contains("2 jobs run at once"), "{}", refused.message);
        assert_eq!(refused.lacks, Some(crate::refusal::Lack::Descriptors));
        let (third, ()) = tokio::join!(room.take(), async {
            tokio::task::yield_now().await;
            drop(first);
        });
        drop(third.unwrap());
    }
}
