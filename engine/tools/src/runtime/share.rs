//! Processor shares: calls of one component that compute for long leave a thread to the other components of
//! the process, as long as there are others.
//!
//! A guest computes for a tick before it asks here, so that short calls never do. From then on it asks at
//! every tick. A guest that waits in the host does not tick, and so loses its permit, which would not happen
//! with a lock.

use std::collections::{HashMap, VecDeque};
use std::sync::{Arc, Mutex, MutexGuard, PoisonError};
use std::time::{Duration, Instant};

/// Time without a tick after which a guest does not count as computing: it waits, or has ended.
const STALE_AGE: Duration = Duration::from_millis(35);
/// Time after its last call for which a component counts as active.
const ACTIVE_PERIOD: Duration = Duration::from_secs(1);
/// Interval at which a guest without a permit checks again.
const RETRY_INTERVAL: Duration = Duration::from_millis(2);

/// Shares of all components of a process.
#[derive(Debug, Default)]
pub(crate) struct Shares(Mutex<Table>);

#[derive(Debug, Default)]
struct Table {
    calls: u64,
    /// Time at which each component last began a call, or ticked.
    seen: HashMap<usize, Instant>,
    places: HashMap<usize, Places>,
}

/// The computing calls of one component.
#[derive(Debug, Default)]
struct Places {
    /// Computing calls, each with the time of its last tick.
    taken: Vec<(u64, Instant)>,
    /// Calls that wait for a permit, in order.
    queue: VecDeque<u64>,
}

/// A call's entry in the table. Removed on drop.
#[derive(Debug)]
pub(crate) struct Share {
    shares: Arc<Shares>,
    component: usize,
    call: u64,
}

impl Shares {
    /// Registers a call of a component, which is identified by a unique number.
    pub(crate) fn begin(self: &Arc<Self>, component: usize) -> Share {
        let mut table = self.lock();
        table.calls += 1;
        let call = table.calls;
        table.see(component, Instant::now());
        Share { shares: Arc::clone(self), component, call }
    }

    fn lock(&self) -> MutexGuard<'_, Table> {
        self.0.lock().unwrap_or_else(PoisonError::into_inner)
    }
}

impl Share {
    /// Waits until this call may compute for another tick.
    pub(crate) async fn turn(&self, threads: usize) {
        // Other tasks get the thread in any case.
        tokio::task::yield_now().await;
        while !self.shares.lock().may(self.component, self.call, threads, Instant::now()) {
            tokio::time::sleep(RETRY_INTERVAL).await;
        }
    }
}

impl Drop for Share {
    fn drop(&mut self) {
        let mut table = self.shares.lock();
        if let Some(places) = table.places.get_mut(&self.component) {
            places.leave(self.call);
            if places.taken.is_empty() && places.queue.is_empty() {
                table.places.remove(&self.component);
            }
        }
    }
}

impl Table {
    fn see(&mut self, component: usize, now: Instant) {
        self.seen.retain(|_, at| now.saturating_duration_since(*at) < ACTIVE_PERIOD);
        self.seen.insert(component, now);
    }

    /// Whether a call that ticked or waits may compute from now on.
    fn may(&mut self, component: usize, call: u64, threads: usize, now: Instant) -> bool {
        self.see(component, now);
        let alone = self.seen.len() == 1;
        let places = self.places.entry(component).or_default();
        places.taken.retain(|(_, at)| now.saturating_duration_since(*at) < STALE_AGE);
        if alone {
            places.leave(call);
            return true;
        }
        // The call's turn ends if another one waits.
        if !places.queue.is_empty() {
            places.taken.retain(|(other, _)| *other != call);
        }
        if !places.taken.iter().any(|(other, _)| *other == call) {
            if !places.queue.contains(&call) {
                places.queue.push_back(call);
            }
            let most = threads.saturating_sub(1).max(1);
            let free = most.saturating_sub(places.taken.len());
            if places.queue.iter().position(|other| *other == call).is_none_or(|at| at >= free) {
                return false;
            }
        }
        places.leave(call);
        places.taken.push((call, now));
        true
    }
}

impl Places {
    fn leave(&mut self, call: u64) {
        self.taken.retain(|(other, _)| *other != call);
        self.queue.retain(|other| *other != call);
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    const LOOPS: usize = 1;
    const OTHER: usize = 2;

    #[test]
    fn single_component_uses_all_threads() {
        let (mut table, now) = (Table::default(), Instant::now());
        for call in 1..=4 {
            assert!(table.may(LOOPS, call, 2, now));
        }
    }

    #[test]
    fn competing_components_alternate_on_threads() {
        let (mut table, start) = (Table::default(), Instant::now());
        let at = |ms: u64| start + Duration::from_millis(ms);
        table.see(OTHER, at(0));
        assert!(table.may(LOOPS, 1, 2, at(0)));
        assert!(!table.may(LOOPS, 2, 2, at(1)) && !table.may(LOOPS, 3, 2, at(1)));
        // The other component has a thread of its own.
        assert!(table.may(OTHER, 9, 2, at(1)));
        // At its tick the first call gives way to the one that has waited longest.
        assert!(!table.may(LOOPS, 1, 2, at(10)));
        assert!(!table.may(LOOPS, 3, 2, at(11)) && table.may(LOOPS, 2, 2, at(11)));
        assert!(!table.may(LOOPS, 2, 2, at(21)) && table.may(LOOPS, 3, 2, at(22)));
        // A call that waits in the host holds up no others.
        assert!(!table.may(LOOPS, 1, 2, at(40)) && table.may(LOOPS, 1, 2, at(60)));
        // With three threads, two of them.
        assert!(table.may(LOOPS, 2, 3, at(61)) && !table.may(LOOPS, 3, 3, at(61)));
        // No other component for a second.
        assert!(table.may(LOOPS, 3, 2, at(1_200)));
    }

    #[test]
    fn finished_calls_leave_share_table() {
        let shares = Arc::new(Shares::default());
        let (one, two) = (shares.begin(LOOPS), shares.begin(LOOPS));
        let other = shares.begin(OTHER);
        let now = Instant::now();
        assert!(shares.lock().may(LOOPS, one.call, 2, now) && !shares.lock().may(LOOPS, two.call, 2, now));
        drop(one);
        assert!(shares.lock().may(LOOPS, two.call, 2, now));
        drop((two, other));
        assert!(shares.lock().places.is_empty());
    }
}
