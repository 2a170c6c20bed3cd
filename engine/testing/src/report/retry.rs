//! Reruns of failed tests: one report of all attempts. A test that passed once is flaky and counts as passed;
//! one that failed each time has failed.

use std::collections::HashMap;

use crate::case::{Attempt, Case, Status};
use crate::report::verdict::Verdict;
use crate::report::{Flaky, Repeat, TestReport, Totals};
use hotcell_sandbox::text::counted;

/// Takes one run after the other.
#[derive(Debug)]
pub struct Retries {
    report: TestReport,
    /// Ids of cases that have not passed so far.
    pending: Vec<String>,
    /// Index of each case in the report.
    index: HashMap<String, usize>,
    runs: Vec<Repeat>,
    /// Ids of cases that passed after a failure.
    flaky: Vec<String>,
    /// True when the whole suite has to be rerun: tests of the first run never ran, or a selected one did
    /// not.
    whole: bool,
    /// True after an inconclusive run; there are no further attempts.
    ended: bool,
    /// Duration of all runs, in milliseconds.
    duration_ms: u64,
}

impl Retries {
    /// Starts with the first run.
    #[must_use]
    pub fn new(report: TestReport) -> Self {
        let index = report.cases.iter().enumerate().map(|(at, case)| (case.id.clone(), at)).collect();
        let pending = report.bad().map(|case| case.id.clone()).collect();
        Self {
            pending,
            index,
            runs: vec![of(&report)],
            flaky: Vec::new(),
            whole: report.not_started.is_some(),
            // Reruns cannot help with anything worse than failed tests.
            ended: report.verdict != Verdict::Failed,
            duration_ms: report.totals.duration_ms,
            report,
        }
    }

    /// Cases to rerun; empty when done.
    #[must_use]
    pub fn pending(&self) -> Vec<&Case> {
        let pending = if self.ended { &[][..] } else { &self.pending };
        pending.iter().filter_map(|id| self.report.cases.get(*self.index.get(id)?)).collect()
    }

    /// True when only the whole suite can tell if they pass.
    #[must_use]
    pub const fn needs_whole(&self) -> bool {
        self.whole
    }

    /// Adds a rerun of the pending cases, or of the `whole` suite.
    pub fn add(&mut self, run: TestReport, whole: bool) {
        self.duration_ms = self.duration_ms.saturating_add(run.totals.duration_ms);
        self.runs.push(of(&run));
        if run.verdict > Verdict::Failed {
            self.ended = true;
            let number = self.runs.len();
            let why = run.reason.as_deref().unwrap_or(run.verdict.words());
            add_reason(&mut self.report.reason, &format!("run {number} was no retry: {why}"));
            if run.verdict == Verdict::Interrupted {
                self.report.verdict = Verdict::Interrupted;
                self.report.outcome = run.outcome;
            }
            return;
        }
        let before = self.pending.len();
        let (verdict, not_started) = (run.verdict, run.not_started);
        for case in &run.cases {
            self.case(case, whole);
        }
        if whole && verdict == Verdict::Passed && not_started.is_none() {
            self.take_whole(run);
        } else {
            self.report.outcome = run.outcome;
            if whole {
                self.report.not_started = not_started;
            }
            // Cases that were selected and did not run cannot be selected.
            let ran = |id: &String| run.cases.iter().any(|case| &case.id == id);
            self.whole |= self.pending.len() == before && !self.pending.iter().any(ran);
        }
    }

    /// Adds the result of one test in a rerun.
    fn case(&mut self, case: &Case, whole: bool) {
        let Some(known) = self.index.get(&case.id).map(|at| &mut self.report.cases[*at]) else {
            // A test that was not started before, or an error outside the tests.
            if whole || !case.status.is_good() {
                self.index.insert(case.id.clone(), self.report.cases.len());
                self.report.cases.push(case.clone());
                self.pending.extend((!case.status.is_good()).then(|| case.id.clone()));
            }
            return;
        };
        let at = self.pending.iter().position(|id| *id == case.id);
        // A test that was good before and is good now is not recorded.
        if at.is_none()
            && (case.status.is_good() || known.status == Status::Skipped)
            && known.attempts.is_empty()
        {
            return;
        }
        if known.attempts.is_empty() {
            known.attempts.push(Attempt::of(known));
        }
        known.attempts.push(Attempt::of(case));
        match (at, case.status) {
            (Some(at), Status::Passed) => {
                known.status = Status::Passed;
                self.flaky.push(self.pending.remove(at));
            }
            // Passed once.
            (None, _) if !self.flaky.contains(&case.id) => self.flaky.push(case.id.clone()),
            _ => {}
        }
    }

    /// After a passed run of the whole suite, an earlier failure that is not a test (a file that could not be
    /// loaded) is good.
    fn take_whole(&mut self, run: TestReport) {
        let skipped: Vec<String> = run
            .cases
            .iter()
            .filter(|case| case.status == Status::Skipped && self.pending.contains(&case.id))
            .map(|case| case.id.clone())
            .collect();
        let gone: Vec<String> = self.pending.iter().filter(|id| !skipped.contains(id)).cloned().collect();
        self.flaky.extend(gone);
        let mut cases = run.cases;
        for case in &mut cases {
            if let Some(known) = self.index.get(&case.id).map(|at| &self.report.cases[*at]) {
                case.attempts.clone_from(&known.attempts);
                if skipped.contains(&case.id) {
                    *case = known.clone();
                }
            }
        }
        for id in &self.flaky {
            if !cases.iter().any(|case| &case.id == id)
                && let Some(known) = self.index.get(id).map(|at| &self.report.cases[*at])
            {
                let attempts = vec![
                    Attempt::of(known),
                    Attempt { status: Status::Passed, duration_ms: 0, message: None, details: None },
                ];
                cases.push(Case { status: Status::Passed, attempts, ..known.clone() });
            }
        }
        self.pending = skipped;
        self.index = cases.iter().enumerate().map(|(at, case)| (case.id.clone(), at)).collect();
        self.report = TestReport {
            cases,
            coverage: self.report.coverage.take().or(run.coverage.clone()),
            ..run_without_cases(run.outcome, &self.report)
        };
        self.report.not_started = None;
    }

    /// The report.
    #[must_use]
    pub fn finish(self) -> TestReport {
        let mut report = self.report;
        if self.runs.len() < 2 {
            return report;
        }
        let bad = report.cases.iter().any(|case| !case.status.is_good());
        if !bad && report.verdict == Verdict::Failed {
            match report.not_started.filter(|left| *left > 0) {
                Some(left) => {
                    add_reason(
                        &mut report.reason,
                        &format!("{} never ran, so it has not passed", counted(left, "test")),
                    );
                }
                None => report.verdict = Verdict::Passed,
            }
        }
        report.totals =
            Totals { duration_ms: self.duration_ms, ..Totals::of(&report.cases, &report.outcome) };
        let flaky = self.flaky.iter().filter_map(|id| report.cases.iter().find(|case| &case.id == id));
        report.flaky = Some(flaky.map(flaky_of).collect());
        report.retries = Some(self.runs);
        report
    }
}

fn run_without_cases(outcome: hotcell_report::RunReport, old: &TestReport) -> TestReport {
    TestReport { outcome, cases: Vec::new(), coverage: None, ..old.clone() }
}

fn add_reason(reason: &mut Option<String>, more: &str) {
    *reason = Some(match reason.take() {
        Some(before) => format!("{before}; {more}"),
        None => more.to_owned(),
    });
}

fn of(report: &TestReport) -> Repeat {
    Repeat {
        verdict: report.verdict,
        complete: report.complete,
        consistent: report.consistent,
        reason: report.reason.clone(),
        totals: report.totals.clone(),
    }
}

fn flaky_of(case: &Case) -> Flaky {
    let count = |status| case.attempts.iter().filter(|attempt| attempt.status == status).count() as u64;
    Flaky {
        id: case.id.clone(),
        passed: count(Status::Passed),
        failed: count(Status::Failed),
        errored: count(Status::Errored),
        skipped: count(Status::Skipped),
        not_finished: count(Status::NotFinished),
        absent: 0,
    }
}

#[cfg(test)]
#[path = "retry_tests.rs"]
mod tests;
