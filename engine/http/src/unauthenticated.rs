//! Slots for connections that have not yet shown a token, separate from those of callers. When they are full,
//! a new connection displaces an old one, so that silent connections cannot block callers: a connection
//! leaves these slots as soon as it shows a token.

use std::collections::{BTreeMap, HashMap};
use std::net::IpAddr;
use std::sync::{Arc, Mutex, MutexGuard, PoisonError};

use tokio::sync::{OwnedSemaphorePermit, Semaphore};
use tokio_util::sync::CancellationToken;

/// Maximum number of connections without a token; at most a quarter of all connections.
const MAX_STRANGERS: usize = 256;
/// Divisor for the share of one address: half of the slots, so that one address cannot take all of them.
const ADDRESS_DIVISOR: usize = 2;

/// The slots.
#[derive(Debug)]
pub(crate) struct Strangers {
    most: usize,
    known: Arc<Semaphore>,
    waiting: Mutex<Waiting>,
}

/// Connections without a token, in order of arrival.
#[derive(Debug, Default)]
struct Waiting {
    next: u64,
    all: BTreeMap<u64, (IpAddr, CancellationToken)>,
}

/// A connection.
#[derive(Debug)]
pub struct Connection {
    places: Arc<Strangers>,
    number: u64,
    ends: CancellationToken,
    /// The connection's permit among those of callers, once it has shown a token.
    known: Mutex<Option<OwnedSemaphorePermit>>,
}

impl Strangers {
    /// Slots for a total number of connections.
    pub fn new(connections: usize) -> Arc<Self> {
        let most = (connections / 4).clamp(1, MAX_STRANGERS);
        let known = Arc::new(Semaphore::new(connections.saturating_sub(most).max(1)));
        Arc::new(Self { most, known, waiting: Mutex::default() })
    }

    fn waiting(&self) -> MutexGuard<'_, Waiting> {
        self.waiting.lock().unwrap_or_else(PoisonError::into_inner)
    }

    /// Registers a connection from this address, and displaces another one when no slot is free.
    pub fn enter(self: &Arc<Self>, from: IpAddr) -> Arc<Connection> {
        let mut waiting = self.waiting();
        if let Some(number) = who_goes(&waiting.all, |(address, _)| *address, from, self.most)
            && let Some((_, ends)) = waiting.all.remove(&number)
        {
            ends.cancel();
        }
        let (number, ends) = (waiting.next, CancellationToken::new());
        waiting.next += 1;
        waiting.all.insert(number, (from, ends.clone()));
        drop(waiting);
        Arc::new(Connection { places: Arc::clone(self), number, ends, known: Mutex::default() })
    }
}

/// Chooses the connection to be displaced by one from this address: the oldest of that address if it has used
/// its share, else the oldest of the address with the most connections; `None` when a slot is free.
fn who_goes<T>(
    all: &BTreeMap<u64, T>,
    address: impl Fn(&T) -> IpAddr,
    from: IpAddr,
    most: usize,
) -> Option<u64> {
    let oldest = |of: IpAddr| all.iter().find(|(_, one)| address(one) == of).map(|(number, _)| *number);
    let mut counts: HashMap<IpAddr, usize> = HashMap::new();
    all.values().for_each(|one| *counts.entry(address(one)).or_default() += 1);
    if counts.get(&from).is_some_and(|count| *count >= (most / ADDRESS_DIVISOR).max(1)) {
        return oldest(from);
    }
    if all.len() < most {
        return None;
    }
    let largest = counts.into_iter().max_by_key(|(address, count)| (*count, *address));
    largest.and_then(|(address, _)| oldest(address))
}

impl Connection {
    /// Resolves when another connection has taken the slot.
    pub async fn ended(&self) {
        self.ends.cancelled().await;
    }

    /// Moves the connection to the slots of callers after a token was shown. Returns false when these are
    /// full, or when the connection was already displaced.
    pub fn show_token(&self) -> bool {
        let mut known = self.known.lock().unwrap_or_else(PoisonError::into_inner);
        if known.is_some() {
            return true;
        }
        let Ok(place) = Arc::clone(&self.places.known).try_acquire_owned() else { return false };
        if self.places.waiting().all.remove(&self.number).is_none() {
            return false;
        }
        *known = Some(place);
        true
    }
}

impl Drop for Connection {
    fn drop(&mut self) {
        self.places.waiting().all.remove(&self.number);
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use proptest::prelude::*;

    fn address(last: u8) -> IpAddr {
        IpAddr::from([127, 0, 0, last])
    }

    #[test]
    fn full_table_evicts_connection_by_address() {
        let of = |all: &[u8]| -> BTreeMap<u64, IpAddr> {
            all.iter().enumerate().map(|(n, last)| (n as u64, address(*last))).collect()
        };
        for (all, from, want) in [
            (&[][..], 1, None),
            (&[1, 2, 3], 1, None),
            (&[2, 1, 1], 1, Some(1)),
            (&[2, 1, 1, 3], 4, Some(1)),
            (&[1, 2, 3, 4], 4, Some(3)),
            (&[2, 3, 1, 1], 2, Some(2)),
        ] {
            assert_eq!(who_goes(&of(all), |a| *a, address(from), 4), want, "{all:?} {from}");
        }
    }

    proptest! {
        #[test]
        fn strangers_always_enter_with_bounded_share(came in prop::collection::vec(1u8..6, 0..200)) {
            let places = Strangers::new(64);
            let mut held = Vec::new();
            for last in came {
                let connection = places.enter(address(last));
                prop_assert!(!connection.ends.is_cancelled());
                held.push(connection);
                let waiting = places.waiting();
                prop_assert!(waiting.all.len() <= 16);
                for last in 1..6 {
                    prop_assert!(waiting.all.values().filter(|(a, _)| *a == address(last)).count() <= 8);
                }
            }
        }
    }

    #[test]
    fn connection_with_token_is_not_evicted() {
        let places = Strangers::new(8);
        let caller = places.enter(address(1));
        assert!(caller.show_token() && caller.show_token());
        let strangers: Vec<_> = (0..100).map(|_| places.enter(address(1))).collect();
        assert!(!caller.ends.is_cancelled());
        assert!(strangers[..99].iter().all(|one| one.ends.is_cancelled() && !one.show_token()));
        assert!(strangers[99].show_token());
        // Slots of callers are bounded too, and freed when a connection ends.
        let more: Vec<_> =
            (0..4).map(|_| places.enter(address(2))).inspect(|one| assert!(one.show_token())).collect();
        assert!(!places.enter(address(3)).show_token());
        drop(more);
        assert!(places.enter(address(3)).show_token());
        drop((caller, strangers));
        assert_eq!(places.waiting().all.len(), 0);
    }
}
