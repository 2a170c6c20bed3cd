//! Leases to start, to stop and to forget. Pure.

use std::collections::BTreeMap;

use crate::bots::{ACTIVE, CANCELLED, COMPLETED, Lease, PENDING};

/// A lease of the worker, by its id.
#[derive(Clone, Debug, PartialEq)]
pub enum Held {
    /// The action of the lease runs.
    Running(Lease),
    /// The action has ended, and the lease has its result.
    Done(Lease),
}

/// Difference between the farm's leases and the worker's.
#[derive(Clone, Debug, Default, PartialEq)]
pub struct Step {
    /// Leases whose action is to be started.
    pub start: Vec<Lease>,
    /// Leases that the worker does not take: it ends, or is full.
    pub refuse: Vec<Lease>,
    /// Ids of running leases that the farm took back.
    pub stop: Vec<String>,
    /// Ids of ended leases of which the farm knows; one of `start` may be among them.
    pub forget: Vec<String>,
}

/// Compares the leases of the farm's answer with those held. `sent` are the ids of the question: a lease that was not in
/// it is not taken back by its absence in the answer.
#[must_use]
pub fn step(listed: &[Lease], held: &BTreeMap<String, Held>, sent: &[String], room: usize) -> Step {
    let mut step = Step::default();
    for lease in listed {
        // An ended lease of the question that is listed as open was given to this worker again.
        let is_again = sent.contains(&lease.id) && matches!(held.get(&lease.id), Some(Held::Done(_)));
        let is_known = (held.contains_key(&lease.id) && !is_again)
            || step.start.iter().any(|other| other.id == lease.id);
        if is_known || lease.id.is_empty() || !matches!(lease.state, PENDING | ACTIVE) {
            continue;
        }
        let list = if step.start.len() < room { &mut step.start } else { &mut step.refuse };
        list.push(lease.clone());
    }
    for id in sent {
        let is_there =
            listed.iter().any(|lease| lease.id == *id && !matches!(lease.state, CANCELLED | COMPLETED));
        match held.get(id) {
            Some(Held::Running(_)) if !is_there => step.stop.push(id.clone()),
            Some(Held::Done(_)) => step.forget.push(id.clone()),
            _ => {}
        }
    }
    step
}

/// The leases for an update.
#[must_use]
pub fn report(held: &BTreeMap<String, Held>) -> Vec<Lease> {
    held.values()
        .map(|held| match held {
            Held::Running(lease) => Lease { state: ACTIVE, ..lease.clone() },
            Held::Done(lease) => Lease { state: COMPLETED, ..lease.clone() },
        })
        .collect()
}

#[cfg(test)]
mod tests {
    use super::*;

    fn lease(id: &str, state: i32) -> Lease {
        Lease { id: id.to_owned(), state, ..Lease::default() }
    }

    fn ids(leases: &[Lease]) -> Vec<&str> {
        leases.iter().map(|lease| lease.id.as_str()).collect()
    }

    #[test]
    fn leases_start_once_and_end_when_taken_back() {
        let held = BTreeMap::from([
            ("run".to_owned(), Held::Running(lease("run", ACTIVE))),
            ("done".to_owned(), Held::Done(lease("done", ACTIVE))),
            ("late".to_owned(), Held::Running(lease("late", ACTIVE))),
        ]);
        let sent = ["run".to_owned(), "done".to_owned()];
        let none = step(&[], &held, &sent, 9);
        assert_eq!((none.stop, none.forget), (vec!["run".to_owned()], vec!["done".to_owned()]));
        let all = [lease("run", ACTIVE), lease("done", ACTIVE), lease("new", PENDING), lease("new", PENDING)];
        let same = step(&all, &held, &["run".to_owned()], 1);
        assert_eq!((ids(&same.start), same.stop.len(), same.forget.len()), (vec!["new"], 0, 0));
        let full = step(&all, &held, &["run".to_owned()], 0);
        assert_eq!((full.start.len(), ids(&full.refuse)), (0, vec!["new", "new"]));
        // A farm tries an action again, by the same lease, on the worker that answered UNAVAILABLE.
        let again = step(&all[..2], &held, &sent, 1);
        assert_eq!(
            (ids(&again.start), again.stop.len(), again.forget),
            (vec!["done"], 0, vec!["done".to_owned()])
        );
        let back =
            [lease("run", CANCELLED), lease("done", COMPLETED), lease("gone", CANCELLED), lease("", ACTIVE)];
        let back = step(&back, &held, &sent, 9);
        assert_eq!((back.start.len(), back.stop.len(), back.forget.len()), (0, 1, 1));
        let states: Vec<_> = report(&held).iter().map(|lease| lease.state).collect();
        assert_eq!(states, [COMPLETED, ACTIVE, ACTIVE]);
    }
}
