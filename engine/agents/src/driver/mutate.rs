//! Tests on mutants of the code that they accept: those of a model have to fail on one at least.

use std::collections::BTreeSet;

use hotcell_state::report::ErrorReport;
use hotcell_testing::framework::Ecosystem;
use hotcell_testing::{Framework, Status, Verdict, framework};

use super::{Driver, Session};
use crate::evidence::{Evidence, Mutants};
use crate::mutants::{Mutant, mutants};

/// Maximum number of mutants of one artifact.
pub(crate) const MAX_MUTANTS: usize = 6;
/// Maximum size of the sources that mutants are made of, in bytes.
const MAX_SOURCES_BYTES: usize = 256 * 1024;

impl Driver<'_> {
    /// Runs tests on mutants of an artifact, one after the other; returns on how many one of `wanted` is not good, and how many were tried. The mutants
    /// become artifacts from `to` on. `of_whom` begins the command that the history shows.
    pub(crate) async fn on_mutants(
        &self,
        (workspace, from, to): (&str, usize, usize),
        sources: &[(String, String)],
        (framework, wanted): (&str, &BTreeSet<String>),
        (may_go_on, of_whom): (&dyn Fn() -> bool, [&str; 2]),
    ) -> Result<(u64, u64), ErrorReport> {
        let (mut killed, mut of) = (0, 0);
        for (at, mutant) in mutants(sources, MAX_MUTANTS).into_iter().enumerate() {
            if !may_go_on() {
                break;
            }
            let Mutant { path, text, line, change } = mutant;
            let what = format!("mutant {path}:{line}: {change}");
            let command = of_whom.into_iter().map(str::to_owned).chain([what]).collect();
            self.bench.apply(workspace, from, to + at, &[(path, text)])?;
            let (report, id) =
                self.run_tests(workspace, (Some(framework.to_owned()), None), false, command).await?;
            let mutated = Evidence::of(&report, id);
            if let Some(is_killed) = is_killed(&mutated, wanted) {
                of += 1;
                killed += u64::from(is_killed);
            }
        }
        Ok((killed, of))
    }
}

/// Tells if a mutant is killed; `None` of one that a compiler refuses, or that a limit ended before any test: it says nothing about tests.
///
/// Only a wanted test that is in the report and is not good kills. Where nothing is compiled first, a module that cannot be loaded any more failed at its own
/// work, and so did a program that a limit ended.
fn is_killed(mutated: &Evidence, wanted: &BTreeSet<String>) -> Option<bool> {
    let ecosystem = framework(&mutated.framework).map(Framework::ecosystem);
    let is_compiled =
        matches!(ecosystem, Some(Ecosystem::Go | Ecosystem::Rust | Ecosystem::Cpp | Ecosystem::Java));
    // A mutant that the guard does not let run kills nothing.
    let has_run = matches!(mutated.verdict, Verdict::Failed | Verdict::Limit);
    let has_failed = wanted.iter().any(|id| mutated.tests.get(id).is_some_and(|status| !status.is_good()));
    if !is_compiled {
        let is_missing = wanted.iter().any(|id| !mutated.tests.contains_key(id));
        return Some(has_run && (has_failed || is_missing));
    }
    let is_broken =
        mutated.tests.iter().any(|(id, status)| *status == Status::Errored && !wanted.contains(id));
    let is_seen = mutated.tests.keys().any(|id| wanted.contains(id));
    if has_failed && has_run {
        return Some(true);
    }
    (is_seen && !is_broken).then_some(false)
}

impl Session<'_> {
    /// Tries the tests of code that was made on mutants of it, once it passes them.
    pub(super) async fn try_mutants(
        &self,
        (workspace, number): (&str, usize),
        changed: &[String],
        evidence: &mut Evidence,
    ) -> Result<(), ErrorReport> {
        let Some(shop) = self.shop.as_ref().filter(|_| evidence.verdict == Verdict::Passed) else {
            return Ok(());
        };
        let language = shop.making.language;
        let frozen = self.made().map_or(&[][..], |made| &made.frozen);
        let is_judged = |path: &&String| language.is_source(path) && language.is_judged(path, frozen);
        let sources: Vec<String> = changed.iter().filter(is_judged).cloned().collect();
        if sources.is_empty() {
            return Ok(());
        }
        let bench = &self.driver.bench;
        let fork = bench.fork(workspace, number)?;
        let tried = async {
            let sources = self.driver.sources_of(&fork, &sources, MAX_SOURCES_BYTES)?;
            let is_frozen = |id: &&String| language.is_frozen_test(id, frozen);
            let wanted: BTreeSet<String> = evidence.tests.keys().filter(is_frozen).cloned().collect();
            let may_go_on = || self.left_ms() != Some(0);
            let tests = (evidence.framework.as_str(), &wanted);
            self.driver.on_mutants((&fork, 1, 2), &sources, tests, (&may_go_on, ["make", &self.id])).await
        };
        let tried = tried.await;
        bench.remove(&fork);
        let (killed, of) = tried?;
        evidence.mutants = Some(Mutants { killed, of, by_model: shop.making.tests.is_empty() });
        Ok(())
    }
}

#[cfg(test)]
mod tests {
    use hotcell_report::RunReport;
    use hotcell_sandbox::Cause;
    use hotcell_testing::TestReport;

    use super::*;

    #[test]
    fn mutants_are_killed_by_wanted_tests_that_fail_on_them() {
        use Status::{Errored, Failed, NotFinished, Passed};
        for (framework, verdict, tests, killed) in [
            ("go", Verdict::Failed, &[("project", Errored)][..], None),
            ("cargo", Verdict::Failed, &[("src/lib.rs", Errored)], None),
            ("cargo", Verdict::Unusable, &[], None),
            ("go", Verdict::Failed, &[("p::TestAdd", Failed)], Some(true)),
            ("go", Verdict::Limit, &[("p::TestAdd", NotFinished)], Some(true)),
            // Of two packages the changed one is not built, and the tests of the other pass.
            ("go", Verdict::Failed, &[("p::TestAdd", Passed), ("project/sub", Errored)], None),
            ("go", Verdict::Failed, &[("p::TestAdd", Failed), ("project/sub", Errored)], Some(true)),
            ("go", Verdict::Failed, &[("p::TestOther", Failed), ("p::TestAdd", Passed)], Some(false)),
            ("cargo", Verdict::Passed, &[("p::TestAdd", Passed)], Some(false)),
            // The time was over before any test, perhaps in the compiler.
            ("cargo", Verdict::Limit, &[], None),
            ("cargo", Verdict::Limit, &[("p::TestAdd", Passed)], Some(false)),
            ("cargo", Verdict::Quarantined, &[], None),
            // A module that cannot be loaded any more failed at its own work.
            ("unittest", Verdict::Failed, &[("test_calc", Errored)], Some(true)),
            ("unittest", Verdict::Limit, &[], Some(true)),
            ("unittest", Verdict::Failed, &[("p::TestAdd", Passed), ("p::TestSub", Passed)], Some(false)),
            ("unittest", Verdict::Quarantined, &[], Some(false)),
        ] {
            let report = TestReport::without_a_run(
                framework,
                Vec::new(),
                RunReport::without_a_run(Cause::Refused, ""),
            );
            let of = tests.iter().map(|(id, status)| ((*id).to_owned(), *status)).collect();
            let evidence = Evidence { verdict, tests: of, ..Evidence::of(&report, None) };
            let wanted = ["p::TestAdd", "p::TestSub"].map(str::to_owned);
            let wanted = if tests.len() > 1 { wanted.into() } else { [wanted[0].clone()].into() };
            assert_eq!(super::is_killed(&evidence, &wanted), killed, "{framework} {tests:?}");
        }
    }
}
