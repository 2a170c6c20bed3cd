//! Parameters in the messages of libraries, shown as options of the command line.

use hotcell_report::{Commit, RunReport};
use hotcell_sandbox::text::parameters::with_parameters;
use hotcell_testing::TestReport;
use hotcell_testing::chosen::can_split;
use hotcell_testing::report::judge::{NAMED_BY_A_RUN, is_none_found};

/// The option that sets the parameter with this key.
pub fn option(key: &str) -> String {
    format!("--{}", key.replace('_', "-"))
}

/// A message with its parameters as options: `‹network=none›` as `--network none`.
pub fn in_options(message: &str) -> String {
    with_parameters(message, |key, value| match value {
        Some(value) => format!("{} {value}", option(key)),
        None => option(key),
    })
}

fn replace<'a>(messages: impl IntoIterator<Item = &'a mut String>) {
    messages.into_iter().for_each(|message| *message = in_options(message));
}

/// The result of a commit with its parameters as options.
pub fn of_commit(mut commit: Commit) -> Commit {
    replace(commit.left.iter_mut().map(|left| &mut left.why).chain(&mut commit.error));
    commit
}

/// A report of a run with its parameters as options.
pub fn of_run(mut report: RunReport) -> RunReport {
    replace(&mut report.reason);
    report.commit = report.commit.map(of_commit);
    report.kept = report.kept.map(of_commit);
    report
}

/// A report of tests with its parameters as options.
pub fn of_tests(mut report: TestReport) -> TestReport {
    // A list needs no run, where the framework has one.
    if can_split(&report.framework)
        && let Some(reason) = report.reason.as_mut().filter(|reason| is_none_found(reason))
    {
        *reason = reason.replace(NAMED_BY_A_RUN, "‹list› shows them");
    }
    replace(&mut report.reason);
    report.outcome = of_run(report.outcome);
    replace(report.suites.iter_mut().flatten().filter_map(|suite| suite.reason.as_mut()));
    let runs = [&mut report.repeats, &mut report.retries].into_iter().flatten().flatten();
    replace(runs.filter_map(|run| run.reason.as_mut()));
    report
}

#[cfg(test)]
mod tests {
    use hotcell_sandbox::Cause;
    use hotcell_testing::report::judge::none_found;

    use super::*;

    #[test]
    fn filter_without_matches_names_the_list() {
        for (framework, want) in
            [("pytest", "; --list shows them"), ("node", "; a run without --filter names them")]
        {
            let outcome = RunReport::without_a_run(Cause::Exited, "");
            let mut report = TestReport::without_a_run(framework, Vec::new(), outcome);
            report.reason = Some(none_found(Some("x"), 18));
            let shown = of_tests(report).reason.unwrap();
            assert_eq!(shown, format!("the filter \"x\" matches none of 18 tests{want}"));
        }
    }

    #[test]
    fn report_names_options_in_each_reason() {
        let outcome = RunReport::without_a_run(Cause::Refused, "raise ‹max_disk›");
        let mut report = TestReport::without_a_run("", Vec::new(), outcome);
        report.reason = Some("choose with ‹framework=jest›".to_owned());
        let shown = of_tests(report);
        assert_eq!(shown.reason.as_deref(), Some("choose with --framework jest"));
        assert_eq!(shown.outcome.reason.as_deref(), Some("raise --max-disk"));
    }
}
