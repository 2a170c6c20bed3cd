//! Why the framework's own process ended before it was done, by what ran then. Pure.

use hotcell_sandbox::outcome::Outcome;

use crate::live::{LiveLog, Seen};
use crate::text::clip;

/// Signals by which the kernel or the program itself ends one that went wrong.
const CRASHES: [&str; 7] = ["SIGSEGV", "SIGBUS", "SIGILL", "SIGFPE", "SIGABRT", "SIGTRAP", "SIGSYS"];

/// Why a run ended by its time limit after its tests.
pub(super) const LEFT_RUNNING: &str = "all tests had ended: something that they left running, such as a thread or a server, kept the process from its end";

/// True when all tests that were to run have ended.
pub(super) fn is_past_its_tests(live: &LiveLog) -> bool {
    let begun = live.started().saturating_add(live.hidden);
    live.collected.is_some_and(|collected| collected > 0 && collected <= begun)
        && live.seen().iter().all(|seen| seen.open == 0)
}

/// End of the framework's own process before it was done, which no report is of.
pub(super) fn ended_within(live: &LiveLog, outcome: &Outcome) -> Option<String> {
    let code = outcome.exit_code.filter(|_| live.finished.is_none())?;
    let runs = live.seen().iter().any(|seen| seen.open > 0);
    // Between tests, a framework may end by itself with another code, and says why.
    (runs || code == 0).then(|| {
        cut_short(live, &format!("the tests' process ended with exit code {code}"), "ends the process")
    })
}

/// End of the framework's own process by a signal.
pub(super) fn killed(live: &LiveLog, outcome: &Outcome) -> String {
    let signal = outcome.signal.as_deref().unwrap_or("a signal");
    let how = format!("{signal} ended the test runner");
    if live.finished.is_some() {
        return format!("{how} after its tests");
    }
    cut_short(live, &how, if CRASHES.contains(&signal) { "crashed" } else { "sent the signal" })
}

/// Says what ran when the framework's own process ended in this way, and so did `does`.
fn cut_short(live: &LiveLog, how: &str, does: &str) -> String {
    let mut open = live.seen().iter().filter(|seen| seen.open > 0);
    let name = |seen: &Seen| clip(&seen.id, 200);
    if let Some(first) = open.next() {
        let more = open.count();
        let more = if more > 0 { format!(" (and {more} more)") } else { String::new() };
        let id = name(first);
        return if first.file.as_deref() == Some(&*first.id) {
            format!("{how} while {id}{more} was loaded: this file, or what it loads, {does}")
        } else {
            format!("{how} while {id}{more} ran: the test, or what it calls, {does}")
        };
    }
    match live.seen().last() {
        Some(last) => {
            format!("{how} after {} had ended: code beside the tests, such as a hook, {does}", name(last))
        }
        None => {
            format!("{how} before a test began: settings, or code that is loaded before the tests, {does}")
        }
    }
}

#[cfg(test)]
mod tests {
    use hotcell_sandbox::outcome::Cause;

    use super::*;
    use crate::case::Status;
    use crate::event::{Ended, Event};

    /// Live events: tests that have ended, then those that run, of which a file has its own name.
    fn live(ended: &[&str], open: &[&str]) -> LiveLog {
        let mut log = LiveLog::default();
        for id in ended.iter().chain(open) {
            let file = id.split("::").next().map(str::to_owned);
            log.apply(&Event::Started((*id).to_owned(), file, None));
        }
        for id in ended {
            log.apply(&Event::Ended(Ended {
                id: (*id).to_owned(),
                status: Status::Passed,
                duration_ms: 1.0,
                message: None,
                at: None,
                file: None,
            }));
        }
        log
    }

    #[test]
    fn end_of_the_process_names_what_ran() {
        let code = "the tests' process ended with exit code 0";
        let before = "before a test began: settings, or code that is loaded before the tests,";
        for (ended, open, rest) in [
            (&[][..], &["a.py::x"][..], "while a.py::x ran: the test, or what it calls,"),
            (&["a.py::x"], &["a.py::y"], "while a.py::y ran: the test, or what it calls,"),
            (&[], &["a.py::x", "a.py::y"], "while a.py::x (and 1 more) ran: the test, or what it calls,"),
            (&[], &["a.py"], "while a.py was loaded: this file, or what it loads,"),
            (&["a.py::x"], &[], "after a.py::x had ended: code beside the tests, such as a hook,"),
            (&[], &[], before),
        ] {
            let log = live(ended, open);
            let outcome = Outcome { exit_code: Some(0), ..Outcome::without_a_run(Cause::Exited, "") };
            let want = Some(format!("{code} {rest} ends the process"));
            assert_eq!(ended_within(&log, &outcome), want, "{ended:?} {open:?}");
            for (signal, does) in
                [("SIGKILL", "sent the signal"), ("SIGALRM", "sent the signal"), ("SIGSEGV", "crashed")]
            {
                let outcome = Outcome {
                    signal: Some(signal.to_owned()),
                    ..Outcome::without_a_run(Cause::Signaled, "")
                };
                let want = format!("{signal} ended the test runner {rest} {does}");
                assert_eq!(killed(&log, &outcome), want, "{ended:?} {open:?}");
            }
        }
    }

    #[test]
    fn time_limit_after_the_tests_is_known() {
        for (ended, open, collected, want) in [
            (&["a::x"][..], &[][..], Some(1), true),
            (&["a::x"], &["a::y"], Some(2), false),
            (&["a::x"], &[], Some(2), false),
            (&["a::x"], &[], None, false),
            (&[], &[], Some(0), false),
        ] {
            let mut log = live(ended, open);
            if let Some(collected) = collected {
                log.apply(&Event::Collected(collected, 0));
            }
            assert_eq!(is_past_its_tests(&log), want, "{ended:?} {open:?} {collected:?}");
        }
    }

    #[test]
    fn framework_that_ends_by_itself_needs_no_such_reason() {
        let outcome = |code| Outcome { exit_code: Some(code), ..Outcome::without_a_run(Cause::Exited, "") };
        // A broken setting, which the framework tells.
        assert_eq!(ended_within(&live(&[], &[]), &outcome(4)), None);
        assert!(ended_within(&live(&[], &["a.py::x"]), &outcome(4)).is_some());
        let mut log = live(&["a.py::x"], &[]);
        log.apply(&Event::Finished(0, None));
        assert_eq!(ended_within(&log, &outcome(0)), None);
        let outcome =
            Outcome { signal: Some("SIGTERM".to_owned()), ..Outcome::without_a_run(Cause::Signaled, "") };
        assert_eq!(killed(&log, &outcome), "SIGTERM ended the test runner after its tests");
    }
}
