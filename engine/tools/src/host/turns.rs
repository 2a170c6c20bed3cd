//! Running calls of one plugin, and those that wait for a permit: a limited number, for a limited time.

use std::sync::atomic::{AtomicUsize, Ordering};

use tokio::sync::{Semaphore, SemaphorePermit};

use crate::{CallError, Limits};

/// Maximum number of waiting calls: as many as one connection may have open, so that short calls of many
/// callers are all answered. The time limit guards against long calls: none waits longer than a call may
/// take.
pub(crate) const MAX_WAITING_CALLS: usize = 1024;

/// Permits for running calls.
#[derive(Debug)]
pub(crate) struct Turns {
    pub places: Semaphore,
    waiting: AtomicUsize,
}

/// Counts one waiting call, until it is dropped.
struct Waiter<'a>(&'a AtomicUsize);

impl Turns {
    pub fn new(places: usize) -> Self {
        Self { places: Semaphore::new(places), waiting: AtomicUsize::new(0) }
    }

    /// Waits for a permit, in turn.
    pub async fn wait(&self, plugin: &str, limits: &Limits) -> Result<SemaphorePermit<'_>, CallError> {
        let busy = |message: String| Err(CallError::Busy { message });
        if let Ok(place) = self.places.try_acquire() {
            return Ok(place);
        }
        let before = self.waiting.fetch_add(1, Ordering::Relaxed);
        let _waiter = Waiter(&self.waiting);
        if before >= MAX_WAITING_CALLS {
            return busy(format!(
                "{} calls of {plugin} run and {MAX_WAITING_CALLS} wait already; call again when some of them have ended",
                limits.concurrent
            ));
        }
        match tokio::time::timeout(limits.wall, self.places.acquire()).await {
            Ok(Ok(place)) => Ok(place),
            // The semaphore is never closed.
            Ok(Err(_)) => busy("it ends".to_owned()),
            Err(_) => busy(format!(
                "none of the {} calls of {plugin} that may run at once ended within {:?}; call again later",
                limits.concurrent, limits.wall
            )),
        }
    }
}

impl Drop for Waiter<'_> {
    fn drop(&mut self) {
        self.0.fetch_sub(1, Ordering::Relaxed);
    }
}

#[cfg(test)]
mod tests {
    use std::time::Duration;

    use super::*;

    #[tokio::test]
    async fn excess_and_late_calls_are_refused() {
        let limits = Limits { wall: Duration::from_millis(100), concurrent: 1, ..Limits::default() };
        let turns = Turns::new(1);
        let first = turns.wait("a", &limits).await.unwrap();
        let late = turns.wait("a", &limits).await.unwrap_err();
        assert!(late.to_string().starts_with("busy: none of the 1 calls of a"), "{late}");
        let all: Vec<_> = (0..=MAX_WAITING_CALLS).map(|_| turns.wait("a", &limits)).collect();
        let mut told = futures_util::future::join_all(all).await;
        assert!(told.pop().unwrap().unwrap_err().to_string().contains("1024 wait already"));
        assert_eq!(turns.waiting.load(Ordering::Relaxed), 0);
        drop((first, told));
        assert!(turns.wait("a", &limits).await.is_ok());
    }
}
