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
            if !is_built(&mutated, wanted) {
                continue;
            }
            of += 1;
            // A mutant that the guard does not let run, or whose tests are missing for another reason than a failure, kills nothing.
            let is_killed = matches!(mutated.verdict, Verdict::Failed | Verdict::Limit)
                && wanted.iter().any(|id| mutated.tests.get(id).is_none_or(|status| !status.is_good()));
            killed += u64::from(is_killed);
        }
        Ok((killed, of))
    }
}

/// Tells if a mutant was built. One that a compiler refuses says nothing about tests: it is neither killed nor alive.
fn is_built(mutated: &Evidence, wanted: &BTreeSet<String>) -> bool {
    let ecosystem = framework(&mutated.framework).map(Framework::ecosystem);
    let is_compiled =
        matches!(ecosystem, Some(Ecosystem::Go | Ecosystem::Rust | Ecosystem::Cpp | Ecosystem::Java));
    let is_broken = mutated.verdict == Verdict::Unusable
        || mutated.tests.iter().any(|(id, status)| *status == Status::Errored && !wanted.contains(id));
    !(is_compiled && is_broken && !mutated.tests.keys().any(|id| wanted.contains(id)))
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
        let sources: Vec<String> = changed.iter().filter(|path| language.is_source(path)).cloned().collect();
        if sources.is_empty() {
            return Ok(());
        }
        let bench = &self.driver.bench;
        let fork = bench.fork(workspace, number)?;
        let tried = async {
            let sources = self.driver.sources_of(&fork, &sources, MAX_SOURCES_BYTES)?;
            let frozen = self.made().map_or(&[][..], |made| &made.frozen);
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
    fn mutants_that_cannot_be_built_are_neither_killed_nor_alive() {
        use Status::{Errored, Failed, Passed};
        for (framework, verdict, tests, is_built) in [
            ("go", Verdict::Failed, &[("project", Errored)][..], false),
            ("cargo", Verdict::Failed, &[("src/lib.rs", Errored)], false),
            ("cargo", Verdict::Unusable, &[], false),
            ("go", Verdict::Failed, &[("p::TestAdd", Failed)], true),
            ("go", Verdict::Failed, &[("p::TestAdd", Passed), ("project/sub", Errored)], true),
            ("cargo", Verdict::Passed, &[("p::TestAdd", Passed)], true),
            ("cargo", Verdict::Limit, &[], true),
            // A module that cannot be loaded any more failed at its own work.
            ("unittest", Verdict::Failed, &[("test_calc", Errored)], true),
        ] {
            let report = TestReport::without_a_run(
                framework,
                Vec::new(),
                RunReport::without_a_run(Cause::Refused, ""),
            );
            let of = tests.iter().map(|(id, status)| ((*id).to_owned(), *status)).collect();
            let evidence = Evidence { verdict, tests: of, ..Evidence::of(&report, None) };
            let wanted = ["p::TestAdd".to_owned()].into();
            assert_eq!(super::is_built(&evidence, &wanted), is_built, "{framework} {tests:?}");
        }
    }
}
