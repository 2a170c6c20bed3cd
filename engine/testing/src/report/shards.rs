//! Combines the parts of a suite that ran on several machines into one report. A part without an outcome is never taken for a good one.

use hotcell_report::Remote;
use schemars::JsonSchema;
use serde::{Deserialize, Serialize};

use crate::coverage::Coverage;
use crate::report::verdict::Verdict;
use crate::report::{TestReport, Totals};

/// One part of a suite.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize, JsonSchema)]
pub struct ShardRun {
    /// Number of the part, from 1.
    pub number: u32,
    /// Number of tests that it was given.
    pub tests: u64,
    /// Verdict.
    pub verdict: Verdict,
    /// See the report.
    pub complete: bool,
    /// See the report.
    pub consistent: bool,
    /// See the report.
    pub reason: Option<String>,
    /// See the report.
    pub totals: Totals,
    /// The farm on which it ran, with the worker's receipt.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub remote: Option<Remote>,
}

/// Combines parts, each with the number of tests that it was given. `wall_ms` is the time of all of them together. `None` without a part.
#[must_use]
pub fn join(parts: Vec<(u64, TestReport)>, wall_ms: u64) -> Option<TestReport> {
    let of = parts.len();
    // Of several that are equally bad, the first.
    let worst = parts.iter().enumerate().rev().max_by_key(|(_, (_, part))| part.verdict).map(|(at, _)| at)?;
    let (mut shards, mut cases, mut totals) = (Vec::new(), Vec::new(), Totals::default());
    let mut coverage: Option<Coverage> = None;
    let (mut complete, mut consistent, mut answer) = (true, true, None);
    for (at, (tests, mut part)) in parts.into_iter().enumerate() {
        shards.push(ShardRun {
            number: u32::try_from(at + 1).unwrap_or(u32::MAX),
            tests,
            verdict: part.verdict,
            complete: part.complete,
            consistent: part.consistent,
            reason: part.reason.clone(),
            totals: part.totals.clone(),
            remote: part.outcome.remote.clone(),
        });
        if let Some(own) = part.coverage.take() {
            coverage.get_or_insert_default().add(own);
        }
        totals.add(&part.totals);
        complete &= part.complete;
        consistent &= part.consistent;
        cases.append(&mut part.cases);
        if at == worst {
            answer = Some(part);
        }
    }
    totals.duration_ms = wall_ms;
    let mut answer = answer?;
    // A whole suite of skipped tests has not passed.
    if answer.verdict == Verdict::Passed && totals.passed == 0 && totals.cases() > 0 {
        answer.verdict = Verdict::Unusable;
    }
    if let Some(reason) = answer.reason.as_mut().filter(|_| of > 1) {
        *reason = format!("part {} of {of}: {reason}", worst + 1);
    }
    Some(TestReport { complete, consistent, totals, cases, coverage, shards: Some(shards), ..answer })
}

#[cfg(test)]
mod tests {
    use hotcell_report::RunReport;
    use hotcell_sandbox::Cause;

    use super::*;
    use crate::case::{Case, Status};

    fn part(verdict: Verdict, cases: &[(&str, Status)], reason: Option<&str>) -> (u64, TestReport) {
        let outcome = RunReport::without_a_run(Cause::Exited, "");
        let cases: Vec<_> = cases.iter().map(|(id, status)| Case::bare(id, *status)).collect();
        let totals = Totals::of(&cases, &outcome);
        let complete = verdict <= Verdict::Failed;
        let report = TestReport::without_a_run("pytest", Vec::new(), outcome);
        let reason = reason.map(str::to_owned);
        (cases.len() as u64, TestReport { verdict, totals, cases, reason, complete, ..report })
    }

    #[test]
    fn part_of_skipped_tests_passes_beside_others_only() {
        use Status::{Passed, Skipped};
        let skipped = || part(Verdict::Passed, &[("s", Skipped)], Some("no test passed: all were skipped"));
        let good = part(Verdict::Passed, &[("a", Passed)], None);
        let reason = |is: &TestReport| is.reason.clone().unwrap_or_default();
        for (parts, want, why) in [
            (vec![good.clone(), skipped()], Verdict::Passed, ""),
            (vec![skipped(), skipped()], Verdict::Unusable, "part 1 of 2: no test passed"),
        ] {
            let is = join(parts, 9).unwrap();
            assert_eq!(is.verdict, want);
            assert!(reason(&is).starts_with(why), "{}", reason(&is));
        }
    }

    #[test]
    fn lost_part_is_never_passed() {
        use Status::{Failed, Passed};
        let good = || part(Verdict::Passed, &[("a", Passed), ("b", Passed)], None);
        for (other, want) in [
            (good(), Verdict::Passed),
            (part(Verdict::Failed, &[("c", Failed)], None), Verdict::Failed),
            (part(Verdict::Refused, &[], Some("lost")), Verdict::Refused),
            (part(Verdict::Interrupted, &[], Some("lost")), Verdict::Interrupted),
            (part(Verdict::Unusable, &[], Some("lost")), Verdict::Unusable),
        ] {
            let tests = other.1.totals.cases();
            let is = join(vec![good(), other], 9).unwrap();
            assert_eq!((is.verdict, is.totals.cases(), is.totals.duration_ms), (want, 2 + tests, 9));
            assert_eq!(is.complete, want <= Verdict::Failed);
            if let Some(reason) = is.reason.filter(|reason| !reason.is_empty()) {
                assert_eq!(reason, "part 2 of 2: lost");
            }
            let shards = is.shards.unwrap();
            assert_eq!((shards[1].number, shards[1].verdict), (2, want));
        }
        assert_eq!(join(Vec::new(), 0), None);
    }
}
