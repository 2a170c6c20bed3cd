//! Ends of tokens that were made for runs: each on a thread of its own, since a run ends within a server that goes on, and awaited before the
//! process ends.

use std::io;
use std::sync::{Condvar, Mutex, MutexGuard, PoisonError};
use std::thread;
use std::time::Duration;

use hotcell_egress::route::github_app::Tokens;

/// Time for which the end of the process waits for those that are under way.
const PATIENCE: Duration = Duration::from_secs(5);

/// Those of this process.
static ENDS: Ends = Ends::new();

/// Ends the tokens of a secret that still hold, without waiting for it; with a warning where they cannot be ended.
pub(crate) fn begin(name: String, tokens: Tokens) {
    let told = name.clone();
    let begun = ENDS.begin(move || {
        if let Err(why) = tokens.revoke() {
            tracing::warn!(
                "the token of the secret {name} was not ended, and holds for up to an hour: {why}"
            );
        }
    });
    if let Err(error) = begun {
        tracing::warn!(
            "the token of the secret {told} was not ended, and holds for up to an hour: no thread can be had: {error}"
        );
    }
}

/// Waits until the tokens of runs that have ended are ended themselves, 5 seconds at most. A process that has made runs calls it before it ends.
pub fn wait() {
    match ENDS.wait(PATIENCE) {
        0 => {}
        left => tracing::warn!("tokens of {left} secrets were not ended in time, and hold for up to an hour"),
    }
}

/// Number of ends that are under way.
struct Ends {
    left: Mutex<usize>,
    changed: Condvar,
}

impl Ends {
    const fn new() -> Self {
        Self { left: Mutex::new(0), changed: Condvar::new() }
    }

    fn left(&self) -> MutexGuard<'_, usize> {
        self.left.lock().unwrap_or_else(PoisonError::into_inner)
    }

    /// Does this on a thread of its own.
    fn begin(&'static self, work: impl FnOnce() + Send + 'static) -> io::Result<()> {
        *self.left() += 1;
        let counted = Counted(self);
        let begun = thread::Builder::new().name("token-end".to_owned()).spawn(move || {
            let _counted = counted;
            work();
        });
        begun.map(drop)
    }

    /// Waits until none is under way, and returns the number of those that are.
    fn wait(&self, patience: Duration) -> usize {
        let waited = self.changed.wait_timeout_while(self.left(), patience, |left| *left > 0);
        *waited.unwrap_or_else(PoisonError::into_inner).0
    }
}

/// One of those that are under way, until it is dropped.
struct Counted(&'static Ends);

impl Drop for Counted {
    fn drop(&mut self) {
        *self.0.left() -= 1;
        self.0.changed.notify_all();
    }
}

#[cfg(test)]
mod tests {
    use std::sync::mpsc;

    use super::*;

    #[test]
    fn ends_are_awaited_and_counted() {
        static OWN: Ends = Ends::new();
        assert_eq!(OWN.wait(Duration::ZERO), 0);
        let (go, wait) = mpsc::channel::<()>();
        OWN.begin(move || wait.recv().unwrap()).unwrap();
        assert_eq!(OWN.wait(Duration::ZERO), 1);
        // One that fails is counted out, too.
        OWN.begin(|| panic!("on purpose")).unwrap();
        go.send(()).unwrap();
        assert_eq!(OWN.wait(Duration::from_secs(600)), 0);
    }
}
