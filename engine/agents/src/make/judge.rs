//! The judgement of plans and tests before they count. The declarations of a plan have to compile as each stub. Tests have to load on the stub whose every
//! use fails; half of them have to fail there, and on one at least of those whose calls return. Tests that pass without any code say nothing about code.

use hotcell_testing::{Status, Verdict};

use crate::evidence::Evidence;
use crate::text::line;

/// Maximum number of names in a reason.
const MAX_NAMES: usize = 5;

/// Why tests do not count, in words for the model.
#[derive(Clone, Debug, PartialEq, Eq, thiserror::Error)]
pub enum Unfit {
    /// The guard let nothing run.
    #[error("nothing was run: it looks dangerous ({0}); write it without that")]
    Dangerous(String),
    /// Files that cannot be loaded.
    #[error(
        "these tests cannot be loaded: {0}; import only modules of the plan and of the language, and use what they have within tests only"
    )]
    NotLoaded(String),
    /// A plan whose declarations are not the language's.
    #[error(
        "the interfaces cannot be compiled: {0}; write them as declarations of the language, with all types and imports that they need"
    )]
    NotBuilt(String),
    /// A limit or a person ended the building of a stub, which says nothing about the plan.
    #[error("the stub of the plan was not built: {0}")]
    NotRun(String),
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

/// Tells if a name in a report stands for a file as a whole, by its path or as a module, or for a package that cannot be built.
fn is_file(id: &str, files: &[String]) -> bool {
    let is_built = files.iter().any(|path| path.ends_with(".go") || path.ends_with(".rs"));
    if is_built && !id.contains("::") {
        return true;
    }
    let module = |path: &String| path.strip_suffix(".py").is_some_and(|stem| stem.replace('/', ".") == id);
    files.iter().any(|path| path == id || module(path))
}

/// Judges the declarations of a plan by a test that passes wherever their stub can be built.
///
/// # Errors
/// [`Unfit::Dangerous`] and [`Unfit::NotBuilt`], with the compiler's first words; [`Unfit::NotRun`] of a run that nothing follows from.
pub fn builds(on_stub: &Evidence) -> Result<(), Unfit> {
    match on_stub.verdict {
        Verdict::Passed => Ok(()),
        Verdict::Quarantined => Err(dangerous(on_stub)),
        Verdict::Limit | Verdict::NotInstalled | Verdict::Refused | Verdict::Interrupted => {
            let why = on_stub.reason.as_deref().unwrap_or(on_stub.verdict.words());
            Err(Unfit::NotRun(line(why, 300)))
        }
        verdict @ (Verdict::Failed | Verdict::Unusable) => {
            let words = on_stub.failures.iter().map(|failure| {
                let place = failure.place.as_deref().unwrap_or(&failure.id);
                let words = failure.words.lines().next().unwrap_or_default();
                line(&format!("{place}: {words}"), 300)
            });
            let words: Vec<String> = words.take(MAX_NAMES).collect();
            let why = on_stub.reason.as_deref().unwrap_or(verdict.words());
            Err(Unfit::NotBuilt(if words.is_empty() { line(why, 300) } else { words.join("; ") }))
        }
    }
}

/// Names of what cannot be loaded as a whole.
fn broken(on_stub: &Evidence, files: &[String]) -> Option<String> {
    let broken =
        on_stub.tests.iter().filter(|(id, status)| **status == Status::Errored && is_file(id, files));
    let broken: Vec<String> = broken.take(MAX_NAMES).map(|(id, _)| line(id, 100)).collect();
    (!broken.is_empty()).then(|| broken.join(", "))
}

fn dangerous(on_stub: &Evidence) -> Unfit {
    let all: Vec<String> = on_stub.guard.iter().take(MAX_NAMES).map(|finding| line(finding, 200)).collect();
    Unfit::Dangerous(all.join("; "))
}

/// Judges tests by their run on the stub whose uses fail, and on those whose calls return as far as they were run: a test looks at no result if it passes
/// on all of them. `files` are the paths of the tests.
///
/// # Errors
/// [`Unfit`]: the guard refused them, a file cannot be loaded, a stub whose calls return was not built, no test ran, or more than half of them pass.
pub fn judge(on_stub: &Evidence, returns: &[Evidence], files: &[String]) -> Result<(), Unfit> {
    if on_stub.verdict == Verdict::Quarantined {
        return Err(dangerous(on_stub));
    }
    if let Some(broken) = broken(on_stub, files) {
        return Err(Unfit::NotLoaded(broken));
    }
    let of = on_stub.tests.len();
    // A stub that was not built shows of no test that it looks at a result.
    for evidence in returns {
        let is_seen = evidence.tests.keys().any(|id| on_stub.tests.contains_key(id));
        if evidence.verdict == Verdict::Quarantined {
            return Err(dangerous(evidence));
        }
        if let Some(broken) = broken(evidence, files) {
            return Err(Unfit::NotBuilt(format!("{broken} on a stub whose calls return")));
        }
        if of > 0 && !is_seen {
            let why = evidence.reason.as_deref().unwrap_or(evidence.verdict.words());
            return Err(match evidence.verdict {
                Verdict::Limit | Verdict::Interrupted => Unfit::NoTests(line(why, 300)),
                _ => Unfit::NotBuilt(line(why, 300)),
            });
        }
    }
    let passes = |evidence: &Evidence, id| evidence.tests.get(id).is_some_and(|status| status.is_good());
    let passes_there =
        |id| !returns.is_empty() && returns.iter().all(|evidence: &Evidence| passes(evidence, id));
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
    fn plans_count_only_when_their_stub_can_be_built() {
        assert_eq!(
            builds(&evidence(Verdict::Passed, &[("project::TestHotcellProbe", Status::Passed)])),
            Ok(())
        );
        let mut broken = evidence(Verdict::Failed, &[("project", Status::Errored)]);
        assert!(builds(&broken).is_err_and(|e| e.to_string().contains(Verdict::Failed.words())));
        broken.failures = vec![crate::evidence::Failure {
            id: "project".to_owned(),
            status: Status::Errored,
            place: Some("calc.go:3".to_owned()),
            words: "undefined: io\nmore".to_owned(),
        }];
        assert!(builds(&broken).is_err_and(|e| e.to_string().contains("calc.go:3: undefined: io;")));
        assert!(matches!(builds(&evidence(Verdict::Quarantined, &[])), Err(Unfit::Dangerous(_))));
        for (verdict, is_the_plans) in [
            (Verdict::Failed, true),
            (Verdict::Unusable, true),
            (Verdict::Limit, false),
            (Verdict::Interrupted, false),
        ] {
            let unfit = builds(&evidence(verdict, &[])).unwrap_err();
            assert_eq!(matches!(unfit, Unfit::NotBuilt(_)), is_the_plans, "{verdict:?}");
        }
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
            let judged = judge(&evidence(verdict, tests), &[], &files);
            assert_eq!(judged.is_ok(), good, "{verdict:?} {tests:?}: {judged:?}");
        }
        // A test without a comparison fails where calls fail, and passes where they return.
        let fails = evidence(Verdict::Failed, &[("a::x", Failed), ("a::y", Failed), ("a::z", Failed)]);
        for (returns, good) in [
            ([("a::x", Failed), ("a::y", Passed), ("a::z", Failed)], true),
            ([("a::x", Passed), ("a::y", Passed), ("a::z", Failed)], false),
        ] {
            let returns = evidence(Verdict::Failed, &returns);
            assert_eq!(judge(&fails, std::slice::from_ref(&returns), &[]).is_ok(), good);
        }
        // A stub that is not built shows nothing, so that no test counts by it.
        for (verdict, tests) in [
            (Verdict::Failed, &[("project", Errored)][..]),
            (Verdict::Failed, &[("project", Errored), ("a::x", Failed)]),
            (Verdict::Failed, &[("src/lib.rs", Errored)]),
            (Verdict::Failed, &[("b::other", Failed)]),
            (Verdict::Unusable, &[]),
            (Verdict::Limit, &[]),
            (Verdict::Quarantined, &[]),
        ] {
            let good = evidence(Verdict::Failed, &[("a::x", Failed)]);
            for returns in
                [[evidence(verdict, tests), good.clone()], [good.clone(), evidence(verdict, tests)]]
            {
                let judged = judge(&fails, &returns, &["calc_test.go".to_owned()]);
                assert!(judged.is_err(), "{verdict:?} {tests:?}");
            }
        }
        // A value that is the expected one by chance is not there on the other stub.
        let chance = evidence(Verdict::Failed, &[("a::x", Passed), ("a::y", Passed), ("a::z", Failed)]);
        let other = evidence(Verdict::Failed, &[("a::x", Passed), ("a::y", Failed), ("a::z", Failed)]);
        assert!(judge(&fails, &[chance.clone(), other], &[]).is_ok());
        assert!(judge(&fails, &[chance.clone(), chance], &[]).is_err());
        // A package, or a program, that cannot be built.
        for (id, file) in
            [("project", "calc_test.go"), ("tests/calc.rs", "tests/calc.rs"), ("src/lib.rs", "tests/calc.rs")]
        {
            let broken = evidence(Verdict::Failed, &[(id, Errored), ("a::x", Failed)]);
            assert!(matches!(judge(&broken, &[], &[file.to_owned()]), Err(Unfit::NotLoaded(_))), "{id}");
        }
    }
}
