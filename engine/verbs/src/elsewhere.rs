//! Runs that another machine executes: what is known of it, from the place that starts them to the report.
//!
//! An [`Outcome`] is the sandbox's alone and has no place for a farm. A [`Spawn`](hotcell_sandbox::Spawn) that sends runs away leaves its word here
//! under a number, which stands in the outcome's timings until the report is made.

use std::collections::BTreeMap;
use std::sync::{Mutex, PoisonError};

use hotcell_report::{Remote, RunReport};
use hotcell_sandbox::Outcome;

/// Step in the timings of an outcome that has the number.
const STEP: &str = "elsewhere";
/// Maximum number of words that are kept: those of runs that were given up before their report.
const MAX_KEPT: usize = 1024;

/// Words left, by number; and the next number.
static LEFT: Mutex<(u64, BTreeMap<u64, Remote>)> = Mutex::new((0, BTreeMap::new()));

/// Leaves what is known of the machine that executed a run.
pub fn leave(outcome: &mut Outcome, remote: Remote) {
    let mut left = LEFT.lock().unwrap_or_else(PoisonError::into_inner);
    left.0 += 1;
    let number = left.0;
    left.1.insert(number, remote);
    if left.1.len() > MAX_KEPT {
        left.1.pop_first();
    }
    outcome.timings_us.steps.insert(STEP.to_owned(), number);
}

/// Takes it into the report of the run.
pub fn take(report: &mut RunReport) {
    let Some(number) = report.outcome.timings_us.steps.remove(STEP) else { return };
    report.remote = LEFT.lock().unwrap_or_else(PoisonError::into_inner).1.remove(&number);
}

#[cfg(test)]
mod tests {
    use hotcell_sandbox::Cause;

    use super::*;

    #[test]
    fn each_report_takes_the_word_of_its_own_run() {
        let run = |farm: &str| {
            let mut outcome = Outcome::without_a_run(Cause::Exited, "");
            leave(&mut outcome, Remote { farm: farm.to_owned(), ..Remote::default() });
            RunReport::from(outcome)
        };
        let (mut one, mut other) = (run("a"), run("b"));
        take(&mut other);
        take(&mut one);
        take(&mut one);
        assert_eq!(one.remote.as_ref().map(|remote| remote.farm.as_str()), Some("a"));
        assert_eq!(other.remote.as_ref().map(|remote| remote.farm.as_str()), Some("b"));
        assert!(one.outcome.timings_us.steps.is_empty());
    }
}
