//! The judgement of tests before they count. On a stub whose every use fails they have to load; half of them have to fail there, and on a stub whose calls
//! return something that is equal to nothing. Tests that pass without any code say nothing about code.

use hotcell_testing::{Status, Verdict};

use crate::evidence::Evidence;
use crate::text::line;

/// Maximum number of names in a reason.
const MAX_NAMES: usize = 5;

/// Why tests do not count, in words for the model.
#[derive(Clone, Debug, PartialEq, Eq, thiserror::Error)]
pub enum Unfit {
    /// The guard let nothing run.
    #[error("the tests were not run: they look dangerous ({0}); write them without that")]
    Dangerous(String),
    /// Files that cannot be loaded.
    #[error(
        "these tests cannot be loaded: {0}; import only modules of the plan and of the language, and use what they have within tests only"
    )]
    NotLoaded(String),
    /// No tests.
    #[error("no test ran ({0})")]
    NoTests(String),
    /// Tests that pass without code.
    #[error(
        "{passed} of {of} tests pass on a stub, where calls fail or return nothing: they test nothing; write tests that call the code and compare its results with exact values of the specification"
    )]
    PassesOnStub {
        /// Tests that are good on one of the stubs.
        passed: usize,
        /// All tests.
        of: usize,
    },
}

/// Tells if a name in a report stands for a file as a whole, by its path or as a module.
fn is_file(id: &str, files: &[String]) -> bool {
    let module = |path: &String| path.strip_suffix(".py").is_some_and(|stem| stem.replace('/', ".") == id);
    files.iter().any(|path| path == id || module(path))
}

/// Judges tests by their run on the stub whose uses fail, and on the one whose calls return if that was run; `files` are the paths of the tests.
///
/// # Errors
/// [`Unfit`]: the guard refused them, a file cannot be loaded, no test ran, or more than half of them pass.
pub fn judge(on_stub: &Evidence, returns: Option<&Evidence>, files: &[String]) -> Result<(), Unfit> {
    if on_stub.verdict == Verdict::Quarantined {
        let all: Vec<String> =
            on_stub.guard.iter().take(MAX_NAMES).map(|finding| line(finding, 200)).collect();
        return Err(Unfit::Dangerous(all.join("; ")));
    }
    let broken =
        on_stub.tests.iter().filter(|(id, status)| **status == Status::Errored && is_file(id, files));
    let broken: Vec<String> = broken.take(MAX_NAMES).map(|(id, _)| line(id, 100)).collect();
    if !broken.is_empty() {
        return Err(Unfit::NotLoaded(broken.join(", ")));
    }
    let of = on_stub.tests.len();
    let passes_there =
        |id| returns.and_then(|returns| returns.tests.get(id)).is_some_and(|status| status.is_good());
    let passed = on_stub.tests.iter().filter(|(id, status)| status.is_good() || passes_there(*id)).count();
    if of == 0 || on_stub.verdict > Verdict::Failed {
        let why = on_stub.reason.as_deref().unwrap_or(on_stub.verdict.words());
        return Err(Unfit::NoTests(line(why, 300)));
    }
    if passed * 2 > of || on_stub.verdict == Verdict::Passed {
        return Err(Unfit::PassesOnStub { passed, of });
    }
    Ok(())
}

#[cfg(test)]
mod tests {
    use hotcell_report::RunReport;
    use hotcell_sandbox::Cause;
    use hotcell_testing::TestReport;

    use super::*;

    fn evidence(verdict: Verdict, tests: &[(&str, Status)]) -> Evidence {
        let report =
            TestReport::without_a_run("unittest", Vec::new(), RunReport::without_a_run(Cause::Refused, ""));
        let tests = tests.iter().map(|(id, status)| ((*id).to_owned(), *status)).collect();
        Evidence { verdict, tests, reason: None, ..Evidence::of(&report, None) }
    }

    #[test]
    fn tests_count_only_when_most_of_them_fail_on_a_stub() {
        use Status::{Errored, Failed, Passed, Skipped};
        for (verdict, tests, good) in [
            (Verdict::Failed, &[("a::x", Failed)][..], true),
            (Verdict::Failed, &[("a::x", Failed), ("a::y", Passed)], true),
            (Verdict::Failed, &[("a::x", Errored), ("a::y", Failed)], true),
            (Verdict::Failed, &[("a::x", Failed), ("a::y", Passed), ("a::z", Passed)], false),
            (Verdict::Failed, &[("a::x", Failed), ("a::y", Skipped), ("a::z", Skipped)], false),
            (Verdict::Passed, &[("a::x", Passed)], false),
            (Verdict::Passed, &[("a::x", Skipped)], false),
            (Verdict::Failed, &[("a::x", Failed), ("sub.test_b", Errored)], false),
            (Verdict::Failed, &[("a::x", Failed), ("b.test.js", Errored)], false),
            (Verdict::Limit, &[("a::x", Failed)], false),
            (Verdict::Failed, &[], false),
            (Verdict::Unusable, &[], false),
            (Verdict::Unusable, &[("a::x", Failed)], false),
            (Verdict::Quarantined, &[], false),
        ] {
            let files = ["sub/test_b.py", "b.test.js"].map(str::to_owned);
            let judged = judge(&evidence(verdict, tests), None, &files);
            assert_eq!(judged.is_ok(), good, "{verdict:?} {tests:?}: {judged:?}");
        }
        // A test without a comparison fails where calls fail, and passes where they return.
        let fails = evidence(Verdict::Failed, &[("a::x", Failed), ("a::y", Failed), ("a::z", Failed)]);
        for (returns, good) in [
            ([("a::x", Failed), ("a::y", Passed), ("a::z", Failed)], true),
            ([("a::x", Passed), ("a::y", Passed), ("a::z", Failed)], false),
        ] {
            let returns = evidence(Verdict::Failed, &returns);
            assert_eq!(judge(&fails, Some(&returns), &[]).is_ok(), good);
        }
    }
}
