//! Removes what ended processes left behind, for a program that runs one thing: while that runs, so that the user does not wait for it.

use std::sync::{Mutex, MutexGuard, PoisonError};
use std::thread::{self, JoinHandle};

use crate::cgroup::Leftovers;
use crate::temporary;

/// A sweep that is due, and is done once.
#[derive(Debug, Default)]
pub(crate) struct Sweep(Mutex<State>);

#[derive(Debug, Default)]
enum State {
    /// Not wanted, or done.
    #[default]
    Idle,
    /// No thread has begun.
    Due(Option<Leftovers>),
    /// A thread does it.
    Begun(JoinHandle<()>),
}

impl Sweep {
    /// Makes a sweep due. `cgroups` are those that are looked through, besides folders in `TMPDIR`.
    pub(crate) fn order(&self, cgroups: Option<Leftovers>) {
        *self.lock() = State::Due(cgroups);
    }

    /// Begins in a thread of its own, if a sweep is due. Where no thread can be started, [`Sweep::end`] does it.
    pub(crate) fn begin(&self) {
        let mut state = self.lock();
        let State::Due(cgroups) = &*state else { return };
        let cgroups = cgroups.clone();
        if let Ok(thread) =
            thread::Builder::new().name("leftovers".to_owned()).spawn(move || sweep(cgroups.as_ref()))
        {
            *state = State::Begun(thread);
        }
    }

    /// Returns when no sweep is due any more. Normally takes no time: after two seconds with cgroups, and two with folders, no further one is begun
    /// with.
    pub(crate) fn end(&self) {
        let state = std::mem::take(&mut *self.lock());
        match state {
            State::Idle => {}
            State::Due(cgroups) => sweep(cgroups.as_ref()),
            State::Begun(thread) => drop(thread.join()),
        }
    }

    fn lock(&self) -> MutexGuard<'_, State> {
        self.0.lock().unwrap_or_else(PoisonError::into_inner)
    }
}

fn sweep(cgroups: Option<&Leftovers>) {
    if let Some(cgroups) = cgroups {
        cgroups.remove();
    }
    temporary::remove_leftovers();
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn sweep_is_done_once() {
        let sweep = Sweep::default();
        let is_idle = |sweep: &Sweep| matches!(*sweep.lock(), State::Idle);
        sweep.begin();
        assert!(is_idle(&sweep), "none was ordered");
        for begins in [true, false] {
            sweep.order(None);
            if begins {
                sweep.begin();
                assert!(matches!(*sweep.lock(), State::Begun(_)));
                sweep.begin();
            }
            sweep.end();
            assert!(is_idle(&sweep));
        }
    }
}
