//! Combines several runs of the same tests into one report: the worst of them, and the flaky tests.

use std::collections::HashMap;

use crate::case::Status;
use crate::report::{Flaky, Repeat, TestReport};

/// Takes one run after the other, and keeps only the data for the report.
#[derive(Debug, Default)]
pub struct Repeats {
    worst: Option<TestReport>,
    runs: Vec<Repeat>,
    /// Results of each test, in the order in which tests were first seen.
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

    /// The report; `None` without a run. `repeats` and `flaky` are set for two or more runs.
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

#[cfg(test)]
mod tests {
    use super::*;
    use crate::case::Case;
    use crate::report::Totals;
    use crate::report::verdict::Verdict;
    use hotcell_report::RunReport;
    use hotcell_sandbox::Cause;

    fn run(verdict: Verdict, cases: &[(&str, Status)]) -> TestReport {
        let outcome = RunReport::without_a_run(Cause::Exited, "");
        let cases: Vec<_> = cases.iter().map(|(id, status)| Case::bare(id, *status)).collect();
        let totals = Totals::of(&cases, &outcome);
        TestReport { verdict, totals, cases, ..TestReport::without_a_run("pytest", Vec::new(), outcome) }
    }

    #[test]
    fn differing_repeats_are_flaky_and_worst_counts() {
        use Status::{Failed, Passed};
        let mut repeats = Repeats::default();
        repeats.add(run(Verdict::Passed, &[("a", Passed), ("b", Passed)]));
        repeats.add(run(Verdict::Failed, &[("a", Passed), ("b", Failed), ("c", Passed)]));
        repeats.add(run(Verdict::Passed, &[("a", Passed), ("b", Passed)]));
        let report = repeats.finish().unwrap();
        assert_eq!((report.verdict, report.totals.failed), (Verdict::Failed, 1));
        let flaky: Vec<_> =
            report.flaky.unwrap().into_iter().map(|f| (f.id, f.passed, f.failed, f.absent)).collect();
        assert_eq!(flaky, [("b".to_owned(), 2, 1, 0), ("c".to_owned(), 1, 0, 2)]);
        let verdicts: Vec<_> = report.repeats.unwrap().iter().map(|r| r.verdict).collect();
        assert_eq!(verdicts, [Verdict::Passed, Verdict::Failed, Verdict::Passed]);
    }

    #[test]
    fn single_run_is_unchanged_by_repeats() {
        let mut repeats = Repeats::default();
        assert_eq!(Repeats::default().finish(), None);
        repeats.add(run(Verdict::Passed, &[("a", Status::Passed)]));
        let report = repeats.finish().unwrap();
        assert_eq!((report.repeats, report.flaky), (None, None));
    }
}
