use super::*;
use Status::{Errored, Failed, Passed, Skipped};
use hotcell_report::RunReport;
use hotcell_sandbox::Cause;

fn run(verdict: Verdict, cases: &[(&str, Status)]) -> TestReport {
    let outcome = RunReport::without_a_run(Cause::Exited, "");
    let cases: Vec<_> = cases
        .iter()
        .map(|(id, status)| Case {
            message: (!status.is_good()).then(|| "why".to_owned()),
            ..Case::bare(id, *status)
        })
        .collect();
    let totals = Totals::of(&cases, &outcome);
    let report = TestReport::without_a_run("pytest", Vec::new(), outcome);
    TestReport { verdict, totals, cases, reason: None, complete: true, ..report }
}

fn ids(retries: &Retries) -> Vec<String> {
    retries.pending().iter().map(|case| case.id.clone()).collect()
}

#[test]
fn test_passing_on_retry_is_flaky() {
    type Run<'a> = (Verdict, &'a [(&'a str, Status)], bool);
    type Row<'a> = (&'a [(&'a str, Status)], &'a [Run<'a>], Verdict, &'a [(&'a str, Status)], &'a [&'a str]);
    let first: &[(&str, Status)] = &[("a", Passed), ("b", Failed), ("c", Failed), ("d", Skipped)];
    let fine: &[(&str, Status)] = &[("a", Passed), ("b", Passed), ("c", Passed), ("d", Skipped)];
    let table: &[Row<'_>] = &[
        (
            first,
            &[(Verdict::Passed, &[("b", Passed), ("c", Passed)], false)],
            Verdict::Passed,
            fine,
            &["b", "c"],
        ),
        (
            first,
            &[
                (Verdict::Failed, &[("b", Passed), ("c", Failed)], false),
                (Verdict::Failed, &[("c", Failed)], false),
            ],
            Verdict::Failed,
            &[("a", Passed), ("b", Passed), ("c", Failed), ("d", Skipped)],
            &["b"],
        ),
        // Skipped, missing, or in an inconclusive run: none of these is a pass.
        (
            first,
            &[(Verdict::Passed, &[("b", Skipped), ("c", Passed)], false)],
            Verdict::Failed,
            &[("a", Passed), ("b", Failed), ("c", Passed), ("d", Skipped)],
            &["c"],
        ),
        (first, &[(Verdict::Passed, &[("x", Passed)], false)], Verdict::Failed, first, &[]),
        (first, &[(Verdict::Unusable, &[("b", Passed), ("c", Passed)], false)], Verdict::Failed, first, &[]),
        (first, &[(Verdict::Interrupted, &[], false)], Verdict::Interrupted, first, &[]),
        // A file that could not be loaded is good when the whole suite runs and passes.
        (
            &[("a.py", Errored)],
            &[(Verdict::Passed, &[("a.py::x", Passed)], true)],
            Verdict::Passed,
            &[("a.py::x", Passed), ("a.py", Passed)],
            &["a.py"],
        ),
        // Another test fails instead: each of them passed once.
        (
            first,
            &[(Verdict::Failed, &[("a", Failed), ("b", Passed), ("c", Passed), ("d", Skipped)], true)],
            Verdict::Passed,
            fine,
            &["a", "b", "c"],
        ),
        // A new failure.
        (
            &[("b", Failed)],
            &[(Verdict::Failed, &[("b", Passed), ("z", Errored)], false)],
            Verdict::Failed,
            &[("b", Passed), ("z", Errored)],
            &["b"],
        ),
    ];
    for (first, runs, verdict, cases, flaky) in table {
        let mut retries = Retries::new(run(Verdict::Failed, first));
        for (verdict, cases, whole) in *runs {
            assert!(!ids(&retries).is_empty(), "{first:?} {runs:?}");
            retries.add(run(*verdict, cases), *whole);
        }
        let report = retries.finish();
        assert_eq!(report.verdict, *verdict, "{first:?} {runs:?}");
        let got: Vec<_> = report.cases.iter().map(|case| (case.id.as_str(), case.status)).collect();
        assert_eq!(&got, cases, "{first:?} {runs:?}");
        let mut got: Vec<_> = report.flaky.unwrap().into_iter().map(|flaky| flaky.id).collect();
        got.sort();
        assert_eq!(&got, flaky, "{first:?} {runs:?}");
        assert_eq!(report.retries.unwrap().len(), runs.len() + 1);
        for case in report.cases.iter().filter(|case| flaky.contains(&case.id.as_str())) {
            let bad = case.attempts.iter().any(|attempt| !attempt.status.is_good());
            assert!(bad && case.attempts.len() > 1, "{case:?}");
        }
    }
}

#[test]
fn unstarted_tests_prevent_pass_until_run() {
    let mut first = run(Verdict::Failed, &[("a", Failed)]);
    first.not_started = Some(3);
    let mut retries = Retries::new(first.clone());
    assert!(retries.needs_whole());
    retries.add(run(Verdict::Passed, &[("a", Passed)]), false);
    let report = retries.finish();
    assert_eq!(report.verdict, Verdict::Failed);
    assert!(report.reason.unwrap().contains("3 tests never ran"));

    let mut retries = Retries::new(first);
    retries.add(run(Verdict::Passed, &[("a", Passed), ("b", Passed)]), true);
    assert_eq!(retries.finish().verdict, Verdict::Passed);
}

#[test]
fn retries_need_failed_verdict() {
    for verdict in crate::report::junit_out::tests::VERDICTS {
        let retries = Retries::new(run(verdict, &[("a", Failed)]));
        assert_eq!(retries.pending().is_empty(), verdict != Verdict::Failed, "{verdict:?}");
        let report = retries.finish();
        assert_eq!((report.verdict, report.retries, report.flaky), (verdict, None, None));
    }
}
