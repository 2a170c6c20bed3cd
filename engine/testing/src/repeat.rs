//! Several runs of the same tests in one report: the worst of them, and the tests that differed.

use std::collections::HashMap;

use crate::case::Status;
use crate::report::{Flaky, Repeat, TestReport};

/// Takes one run after the other, and keeps only what the answer needs.
#[derive(Debug, Default)]
pub struct Repeats {
    worst: Option<TestReport>,
    runs: Vec<Repeat>,
    /// How often a test came to what, in the order in which tests were first seen.
    counts: HashMap<String, usize>,
    flaky: Vec<Flaky>,
}

impl Repeats {
    /// Adds a run.
    pub fn add(&mut self, report: TestReport) {
        for case in &report.cases {
            let at = *self.counts.entry(case.id.clone()).or_insert_with(|| {
                let absent = self.runs.len() as u64;
                let id = case.id.clone();
                self.flaky.push(Flaky {
                    id,
                    passed: 0,
                    failed: 0,
                    errored: 0,
                    skipped: 0,
                    not_finished: 0,
                    absent,
                });
                self.flaky.len() - 1
            });
            let counts = &mut self.flaky[at];
            *match case.status {
                Status::Passed => &mut counts.passed,
                Status::Failed => &mut counts.failed,
                Status::Errored => &mut counts.errored,
                Status::Skipped => &mut counts.skipped,
                Status::NotFinished => &mut counts.not_finished,
            } += 1;
        }
        let (verdict, complete, consistent) = (report.verdict, report.complete, report.consistent);
        let (reason, totals) = (report.reason.clone(), report.totals.clone());
        self.runs.push(Repeat { verdict, complete, consistent, reason, totals });
        if self.worst.as_ref().is_none_or(|worst| report.verdict > worst.verdict) {
            self.worst = Some(report);
        }
    }

    /// The one report; none without a run. `repeats` and `flaky` are there from two runs on.
    #[must_use]
    pub fn finish(self) -> Option<TestReport> {
        let runs = self.runs.len() as u64;
        let mut report = self.worst?;
        if runs > 1 {
            let mut flaky = self.flaky;
            for f in &mut flaky {
                f.absent = runs - (f.passed + f.failed + f.errored + f.skipped + f.not_finished).min(runs);
            }
            flaky.retain(|f| {
                [f.passed, f.failed, f.errored, f.skipped, f.not_finished].iter().all(|n| *n < runs)
            });
            report.repeats = Some(self.runs);
            report.flaky = Some(flaky);
        }
        Some(report)
    }
}
