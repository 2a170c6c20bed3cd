//! Who is next: round and round between the callers, first come first served for each of them. Pure.
//!
//! A caller with a hundred runs waiting delays another's first by one turn, not by a hundred; and no caller holds
//! every place while the front end says that there are others.

use std::collections::{HashMap, VecDeque};

use super::caller::Caller;

/// How much may run and wait.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Places {
    /// Running at once.
    pub running: usize,
    /// Running at once for one caller.
    pub running_for_one: usize,
    /// Waiting for one caller.
    pub waiting_for_one: usize,
    /// Waiting for all.
    pub waiting: usize,
}

/// Why there is no room to wait.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Full {
    /// This caller has that many waiting.
    Caller(usize),
    /// All callers together have.
    All(usize),
}

/// The queue. `T` names what waits.
#[derive(Debug)]
pub struct Queue<T> {
    places: Places,
    running: HashMap<Caller, usize>,
    /// The callers with something waiting, the next in front.
    turns: VecDeque<(Caller, VecDeque<T>)>,
}

impl<T: PartialEq> Queue<T> {
    /// An empty queue.
    #[must_use]
    pub fn new(places: Places) -> Self {
        Self { places, running: HashMap::new(), turns: VecDeque::new() }
    }

    /// Waits.
    ///
    /// # Errors
    /// [`Full`].
    pub fn push(&mut self, caller: &Caller, item: T) -> Result<(), Full> {
        let waiting: usize = self.turns.iter().map(|(_, q)| q.len()).sum();
        let own = self.turns.iter_mut().find(|(c, _)| c == caller);
        if own.as_ref().is_some_and(|(_, q)| q.len() >= self.places.waiting_for_one) {
            return Err(Full::Caller(self.places.waiting_for_one));
        }
        if waiting >= self.places.waiting {
            return Err(Full::All(waiting));
        }
        match own {
            Some((_, queue)) => queue.push_back(item),
            None => self.turns.push_back((caller.clone(), VecDeque::from([item]))),
        }
        Ok(())
    }

    /// Takes what may start now; [`Queue::done`] gives its place back.
    pub fn take(&mut self) -> Option<T> {
        if self.running.values().sum::<usize>() >= self.places.running {
            return None;
        }
        let may = |c: &Caller| self.running.get(c).copied().unwrap_or(0) < self.places.running_for_one;
        let at = self.turns.iter().position(|(c, _)| may(c))?;
        let (caller, mut queue) = self.turns.remove(at)?;
        let item = queue.pop_front();
        *self.running.entry(caller.clone()).or_default() += 1;
        if !queue.is_empty() {
            self.turns.push_back((caller, queue));
        }
        item
    }

    /// One of this caller's has ended.
    pub fn done(&mut self, caller: &Caller) {
        if let Some(running) = self.running.get_mut(caller) {
            *running -= 1;
            if *running == 0 {
                self.running.remove(caller);
            }
        }
    }

    /// No longer waits; whether it did.
    pub fn withdraw(&mut self, caller: &Caller, item: &T) -> bool {
        let Some(turn) = self.turns.iter().position(|(c, _)| c == caller) else { return false };
        let queue = &mut self.turns[turn].1;
        let Some(at) = queue.iter().position(|i| i == item) else { return false };
        queue.remove(at);
        if queue.is_empty() {
            self.turns.remove(turn);
        }
        true
    }

    /// How many start before it, and itself: 1 is next. `None` when it does not wait.
    #[must_use]
    pub fn position(&self, caller: &Caller, item: &T) -> Option<usize> {
        let turn = self.turns.iter().position(|(c, _)| c == caller)?;
        let own = self.turns[turn].1.iter().position(|i| i == item)?;
        // Of those whose turn comes first one more than of the others.
        let ahead = |(at, (_, queue)): (usize, &(Caller, VecDeque<T>))| match at.cmp(&turn) {
            std::cmp::Ordering::Less => queue.len().min(own + 1),
            std::cmp::Ordering::Equal => own,
            std::cmp::Ordering::Greater => queue.len().min(own),
        };
        Some(self.turns.iter().enumerate().map(ahead).sum::<usize>() + 1)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn places(running: usize, running_for_one: usize) -> Places {
        Places { running, running_for_one, waiting_for_one: 4, waiting: 6 }
    }

    #[test]
    fn callers_take_turns() {
        let (noisy, quiet) = (Caller::new("noisy"), Caller::new("quiet"));
        let mut queue = Queue::new(places(1, 1));
        (1..=4).for_each(|n| queue.push(&noisy, n).unwrap());
        queue.push(&quiet, 10).unwrap();
        assert_eq!(queue.push(&noisy, 5), Err(Full::Caller(4)));
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
    fn one_caller_leaves_a_place_for_others() {
        let (noisy, quiet) = (Caller::new("noisy"), Caller::new("quiet"));
        let mut queue = Queue::new(places(3, 2));
        (1..=4).for_each(|n| queue.push(&noisy, n).unwrap());
        assert_eq!((queue.take(), queue.take(), queue.take()), (Some(1), Some(2), None));
        queue.push(&quiet, 10).unwrap();
        assert_eq!((queue.take(), queue.take()), (Some(10), None));
        queue.done(&quiet);
        assert_eq!(queue.take(), None);
        queue.done(&noisy);
        assert_eq!(queue.take(), Some(3));
    }

    #[test]
    fn the_queue_is_bounded_and_left() {
        let mut queue = Queue::new(places(0, 0));
        for n in 0..6 {
            queue.push(&Caller::new(format!("{n}")), n).unwrap();
        }
        let late = Caller::new("late");
        assert_eq!(queue.push(&late, 9), Err(Full::All(6)));
        assert!(queue.withdraw(&Caller::new("0"), &0) && !queue.withdraw(&Caller::new("0"), &0));
        assert_eq!(queue.position(&Caller::new("0"), &0), None);
        queue.push(&late, 9).unwrap();
        assert_eq!(queue.position(&late, &9), Some(6));
    }

    proptest::proptest! {
        #[test]
        fn the_position_is_the_order(callers in proptest::collection::vec(0usize..3, 1..20)) {
            let all: Vec<_> = (0..3).map(|n| Caller::new(format!("{n}"))).collect();
            let many = Places { running: 1, running_for_one: 1, waiting_for_one: 99, waiting: 99 };
            let mut queue = Queue::new(many);
            for (item, caller) in callers.iter().enumerate() {
                queue.push(&all[*caller], item).unwrap();
            }
            let promised: Vec<_> = callers.iter().enumerate().map(|(i, c)| queue.position(&all[*c], &i)).collect();
            let mut at = 0;
            while let Some(item) = queue.take() {
                at += 1;
                proptest::prop_assert_eq!(promised[item], Some(at));
                queue.done(&all[callers[item]]);
            }
            proptest::prop_assert_eq!(at, callers.len());
        }
    }
}
