//! A fair queue: round-robin between callers, and between the sessions of each, first come first served
//! within a session. Pure.
//!
//! A caller with a hundred waiting runs delays another caller's first run by one turn, not by a hundred; the
//! same holds between the sessions of one caller. No caller takes every slot while the front end says that
//! there are others. Calls without a session may come from many programs: they get several turns, not one for
//! them all.

use std::collections::{HashMap, VecDeque};
use std::sync::Arc;

use hotcell_state::caller::Caller;

/// Session of a caller, as distinguished by a front end; all calls without one share a lane.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct Lane(Option<Arc<str>>);

impl Lane {
    /// Lane of a session.
    #[must_use]
    pub fn of(session: &str) -> Self {
        Self(Some(session.into()))
    }

    /// The session, if there is one.
    #[must_use]
    pub fn session(&self) -> Option<&str> {
        self.0.as_deref()
    }
}

/// Limits of running and waiting items.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct QueueLimits {
    /// Maximum number running at once.
    pub running: usize,
    /// Maximum number running at once per caller.
    pub running_for_one: usize,
    /// Maximum number waiting per caller.
    pub waiting_for_one: usize,
    /// Maximum number waiting.
    pub waiting: usize,
}

/// Why an item cannot wait.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Full {
    /// This caller has this many waiting.
    Caller(usize),
    /// All callers together have this many waiting.
    All(usize),
}

/// Maximum number of turns for a caller's calls without a session.
const MAX_SESSIONLESS_TURNS: usize = 8;

/// Waiting items of one caller by session, the next session in front.
type Lanes<T> = VecDeque<(Lane, VecDeque<T>)>;

/// The queue; `T` identifies an item.
#[derive(Debug)]
pub struct Queue<T> {
    places: QueueLimits,
    running: HashMap<Caller, usize>,
    /// Callers with waiting items, the next in front.
    turns: VecDeque<(Caller, Lanes<T>)>,
}

fn waits<T>(lanes: &Lanes<T>) -> usize {
    lanes.iter().map(|(_, queue)| queue.len()).sum()
}

/// Number of items started before the item at position `own` of the caller or session at position `turn`,
/// when all take turns.
fn before(waiting: impl Iterator<Item = usize>, turn: usize, own: usize) -> usize {
    // Those with an earlier turn start one item more than the others.
    let ahead = |(at, waiting): (usize, usize)| match at.cmp(&turn) {
        std::cmp::Ordering::Less => waiting.min(own + 1),
        std::cmp::Ordering::Equal => own,
        std::cmp::Ordering::Greater => waiting.min(own),
    };
    waiting.enumerate().map(ahead).sum()
}

impl<T: PartialEq> Queue<T> {
    /// An empty queue.
    #[must_use]
    pub fn new(places: QueueLimits) -> Self {
        Self { places, running: HashMap::new(), turns: VecDeque::new() }
    }

    /// Sets the maximum number running at once per caller. Running items are not affected.
    pub fn hold_each_to(&mut self, running: usize) {
        self.places.running_for_one = running;
    }

    /// Adds an item.
    ///
    /// # Errors
    /// [`Full`] when the caller, or all callers together, have the maximum number waiting.
    pub fn push(&mut self, caller: &Caller, lane: &Lane, item: T) -> Result<(), Full> {
        let waiting: usize = self.turns.iter().map(|(_, lanes)| waits(lanes)).sum();
        let own = self.turns.iter_mut().find(|(c, _)| c == caller);
        if own.as_ref().is_some_and(|(_, lanes)| waits(lanes) >= self.places.waiting_for_one) {
            return Err(Full::Caller(self.places.waiting_for_one));
        }
        if waiting >= self.places.waiting {
            return Err(Full::All(waiting));
        }
        let Some((_, lanes)) = own else {
            let lanes = VecDeque::from([(lane.clone(), VecDeque::from([item]))]);
            self.turns.push_back((caller.clone(), lanes));
            return Ok(());
        };
        let most = if lane.0.is_some() { 1 } else { MAX_SESSIONLESS_TURNS };
        let is_full = lanes.iter().filter(|(l, _)| l == lane).count() >= most;
        // Of several equally short lanes, the one with the earliest turn: calls without a session are then
        // served in order.
        let shortest =
            lanes.iter_mut().filter(|(l, _)| is_full && l == lane).min_by_key(|(_, queue)| queue.len());
        match shortest {
            Some((_, queue)) => queue.push_back(item),
            None => lanes.push_back((lane.clone(), VecDeque::from([item]))),
        }
        Ok(())
    }

    /// Takes the next item that may start; [`Queue::done`] frees its slot.
    pub fn take(&mut self) -> Option<T> {
        if self.running.values().sum::<usize>() >= self.places.running {
            return None;
        }
        let may = |c: &Caller| self.running.get(c).copied().unwrap_or(0) < self.places.running_for_one;
        let at = self.turns.iter().position(|(c, _)| may(c))?;
        let (caller, mut lanes) = self.turns.remove(at)?;
        let (lane, mut queue) = lanes.pop_front()?;
        let item = queue.pop_front();
        *self.running.entry(caller.clone()).or_default() += 1;
        if !queue.is_empty() {
            lanes.push_back((lane, queue));
        }
        if !lanes.is_empty() {
            self.turns.push_back((caller, lanes));
        }
        item
    }

    /// Frees the slot of one of this caller's items.
    pub fn done(&mut self, caller: &Caller) {
        if let Some(running) = self.running.get_mut(caller) {
            *running -= 1;
            if *running == 0 {
                self.running.remove(caller);
            }
        }
    }

    /// Position of an item: its caller's turn, its session's turn, and its place in the session.
    fn find(&self, caller: &Caller, item: &T) -> Option<(usize, usize, usize)> {
        let turn = self.turns.iter().position(|(c, _)| c == caller)?;
        let mut lanes = self.turns[turn].1.iter().enumerate();
        lanes.find_map(|(lane, (_, queue))| Some((turn, lane, queue.iter().position(|i| i == item)?)))
    }

    /// Removes a waiting item; returns true if it was waiting.
    pub fn withdraw(&mut self, caller: &Caller, item: &T) -> bool {
        let Some((turn, lane, own)) = self.find(caller, item) else { return false };
        let lanes = &mut self.turns[turn].1;
        lanes[lane].1.remove(own);
        if lanes[lane].1.is_empty() {
            lanes.remove(lane);
        }
        if lanes.is_empty() {
            self.turns.remove(turn);
        }
        true
    }

    /// Position in the starting order: 1 is next. `None` when the item does not wait.
    #[must_use]
    pub fn position(&self, caller: &Caller, item: &T) -> Option<usize> {
        let (turn, lane, own) = self.find(caller, item)?;
        let own = before(self.turns[turn].1.iter().map(|(_, queue)| queue.len()), lane, own);
        Some(before(self.turns.iter().map(|(_, lanes)| waits(lanes)), turn, own) + 1)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn places(running: usize, running_for_one: usize) -> QueueLimits {
        QueueLimits { running, running_for_one, waiting_for_one: 4, waiting: 6 }
    }

    #[test]
    fn callers_take_turns() {
        let (noisy, quiet) = (Caller::new("noisy"), Caller::new("quiet"));
        let mut queue = Queue::new(places(1, 1));
        (1..=4).for_each(|n| queue.push(&noisy, &Lane::default(), n).unwrap());
        queue.push(&quiet, &Lane::default(), 10).unwrap();
        assert_eq!(queue.push(&noisy, &Lane::default(), 5), Err(Full::Caller(4)));
        assert_eq!((queue.position(&noisy, &4), queue.position(&quiet, &10)), (Some(5), Some(2)));
        let mut order = Vec::new();
        while let Some(next) = queue.take() {
            order.push(next);
            assert_eq!(queue.take(), None, "one at a time");
            queue.done(if next == 10 { &quiet } else { &noisy });
        }
        assert_eq!(order, [1, 10, 2, 3, 4]);
    }

    #[test]
    fn queue_alternates_sessions_within_one_caller() {
        let (busy, other) = (Caller::new("busy"), Caller::new("other"));
        let (noisy, quiet) = (Lane::of("noisy"), Lane::of("quiet"));
        let mut queue =
            Queue::new(QueueLimits { running: 1, running_for_one: 1, waiting_for_one: 5, waiting: 9 });
        (1..=4).for_each(|n| queue.push(&busy, &noisy, n).unwrap());
        queue.push(&busy, &quiet, 10).unwrap();
        assert_eq!(queue.push(&busy, &quiet, 11), Err(Full::Caller(5)), "all sessions together");
        (20..=21).for_each(|n| queue.push(&other, &Lane::default(), n).unwrap());
        assert_eq!(queue.position(&busy, &10), Some(3));
        let mut order = Vec::new();
        while let Some(next) = queue.take() {
            order.push(next);
            queue.done(if next >= 20 { &other } else { &busy });
        }
        assert_eq!(order, [1, 20, 10, 21, 2, 3, 4]);
    }

    #[test]
    fn quiet_caller_waits_at_most_one_turn() {
        let (noisy, quiet) = (Caller::new("noisy"), Caller::new("quiet"));
        for (caller, lane) in [(&quiet, Lane::default()), (&noisy, Lane::of("quiet"))] {
            let many = QueueLimits { running: 5, running_for_one: 5, waiting_for_one: 99, waiting: 99 };
            let mut queue = Queue::new(many);
            (0..64).for_each(|n| queue.push(&noisy, &Lane::of("noisy"), n).unwrap());
            (0..5).for_each(|n| assert_eq!(queue.take(), Some(n)));
            queue.push(caller, &lane, 100).unwrap();
            let mut waited = 0;
            while queue.take() != Some(100) {
                queue.done(&noisy);
                waited += 1;
            }
            assert!(waited <= 2, "{waited} of another started before it");
        }
    }

    #[test]
    fn queue_serves_sessionless_calls_in_order() {
        let (caller, session) = (Caller::new("busy"), Lane::of("quiet"));
        let many = QueueLimits { running: 1, running_for_one: 1, waiting_for_one: 99, waiting: 99 };
        let mut queue = Queue::new(many);
        (0..20).for_each(|n| queue.push(&caller, &Lane::default(), n).unwrap());
        assert_eq!(queue.take(), Some(0));
        queue.push(&caller, &session, 100).unwrap();
        (20..30).for_each(|n| queue.push(&caller, &Lane::default(), n).unwrap());
        let mut order = Vec::new();
        while order.len() < 30 {
            queue.done(&caller);
            order.extend(queue.take());
        }
        // Each of the others delays it by one turn, not by the twenty that wait.
        assert_eq!(order.iter().position(|n| *n == 100), Some(MAX_SESSIONLESS_TURNS));
        order.retain(|n| *n != 100);
        assert!(order.is_sorted(), "{order:?}");
    }

    #[test]
    fn queue_reserves_place_for_other_callers() {
        let (noisy, quiet) = (Caller::new("noisy"), Caller::new("quiet"));
        let mut queue = Queue::new(places(3, 2));
        (1..=4).for_each(|n| queue.push(&noisy, &Lane::default(), n).unwrap());
        assert_eq!((queue.take(), queue.take(), queue.take()), (Some(1), Some(2), None));
        queue.push(&quiet, &Lane::default(), 10).unwrap();
        assert_eq!((queue.take(), queue.take()), (Some(10), None));
        queue.done(&quiet);
        assert_eq!(queue.take(), None);
        queue.done(&noisy);
        assert_eq!(queue.take(), Some(3));
    }

    #[test]
    fn queue_is_bounded_and_allows_withdrawal() {
        let mut queue = Queue::new(places(0, 0));
        for n in 0..6 {
            queue.push(&Caller::new(format!("{n}")), &Lane::default(), n).unwrap();
        }
        let late = Caller::new("late");
        assert_eq!(queue.push(&late, &Lane::default(), 9), Err(Full::All(6)));
        assert!(queue.withdraw(&Caller::new("0"), &0) && !queue.withdraw(&Caller::new("0"), &0));
        assert_eq!(queue.position(&Caller::new("0"), &0), None);
        queue.push(&late, &Lane::default(), 9).unwrap();
        assert_eq!(queue.position(&late, &9), Some(6));
    }

    proptest::proptest! {
        #[test]
        fn queue_position_matches_service_order(callers in proptest::collection::vec((0usize..3, 0usize..3), 1..20)) {
            let all: Vec<_> = (0..3).map(|n| Caller::new(format!("{n}"))).collect();
            let many = QueueLimits { running: 1, running_for_one: 1, waiting_for_one: 99, waiting: 99 };
            let mut queue = Queue::new(many);
            for (item, (caller, lane)) in callers.iter().enumerate() {
                queue.push(&all[*caller], &Lane::of(&lane.to_string()), item).unwrap();
            }
            let promised: Vec<_> =
                callers.iter().enumerate().map(|(i, (c, _))| queue.position(&all[*c], &i)).collect();
            let mut at = 0;
            while let Some(item) = queue.take() {
                at += 1;
                proptest::prop_assert_eq!(promised[item], Some(at));
                queue.done(&all[callers[item].0]);
            }
            proptest::prop_assert_eq!(at, callers.len());
        }
    }
}
