//! Number of processors that this process may use. The answer takes 17 system calls, since a quota of its cgroup counts, so
//! that a service that prepares many runs asks again only after a while.

use std::num::NonZero;
use std::sync::{Mutex, PoisonError};
use std::time::{Duration, Instant};

/// Time after which the number is looked up again: a quota may be changed while this process runs.
const KEPT: Duration = Duration::from_secs(5);

/// The number of processors, at least 1.
pub(crate) fn count() -> usize {
    static LAST: Mutex<Option<(Instant, usize)>> = Mutex::new(None);
    let mut last = LAST.lock().unwrap_or_else(PoisonError::into_inner);
    let now = Instant::now();
    let count = kept(*last, now).unwrap_or_else(|| {
        let count = std::thread::available_parallelism().map_or(1, NonZero::get);
        *last = Some((now, count));
        count
    });
    drop(last);
    count
}

fn kept(last: Option<(Instant, usize)>, now: Instant) -> Option<usize> {
    let is_fresh = |at: &Instant| now.saturating_duration_since(*at) < KEPT;
    last.filter(|(at, _)| is_fresh(at)).map(|(_, count)| count)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn number_is_looked_up_again_after_a_while() {
        let at = Instant::now();
        assert_eq!(kept(None, at), None);
        for (later, want) in [(Duration::ZERO, Some(3)), (KEPT / 2, Some(3)), (KEPT, None), (KEPT * 9, None)]
        {
            assert_eq!(kept(Some((at, 3)), at + later), want, "{later:?}");
        }
        let (one, other) = (count(), count());
        assert!(one >= 1 && one == other);
    }
}
