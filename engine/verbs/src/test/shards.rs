//! A suite that is split into parts, which run at the same time on other machines, for one report.

use std::collections::HashSet;
use std::str::FromStr;
use std::sync::{Mutex, PoisonError};
use std::time::Instant;

use futures_util::future::join_all;
use hotcell_report::RunReport;
use hotcell_sandbox::policy::Policy;
use hotcell_sandbox::text::counted;
use hotcell_sandbox::{Cause, Spawn};
use hotcell_testing::chosen;
use hotcell_testing::report::judge::none_found;
use hotcell_testing::report::shards::join;
use hotcell_testing::session::Listed;
use hotcell_testing::shard::{MAX_SHARDS, Shard};
use hotcell_testing::{Cancel, Progress, TestReport, Verdict};

use super::{PreparedTest, times};

/// Time of one part that is aimed at, in milliseconds: about ten times what a farm needs to begin and to end an action.
const PART_MS: u64 = 20_000;
/// Maximum number of parts that are chosen for the user.
const MAX_AUTO: u64 = 16;
/// Number of parts of a suite whose times are not known.
const UNKNOWN_PARTS: u32 = 4;

/// Number of parts.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Shards {
    /// This many.
    Number(u32),
    /// By the times of an earlier run.
    Auto,
}

impl FromStr for Shards {
    type Err = String;

    fn from_str(text: &str) -> Result<Self, String> {
        if text == "auto" {
            return Ok(Self::Auto);
        }
        match text.parse() {
            Ok(number @ 1..=MAX_SHARDS) => Ok(Self::Number(number)),
            _ => {
                Err(format!("{text:?} is no number of parts: write auto, or a number from 1 to {MAX_SHARDS}"))
            }
        }
    }
}

impl Shards {
    /// The number of parts for so many tests, with their time in an earlier run.
    fn of(self, tests: usize, known_ms: Option<u64>) -> u32 {
        let tests = u32::try_from(tests).unwrap_or(MAX_SHARDS);
        let number = match (self, known_ms) {
            (Self::Number(number), _) => number,
            (Self::Auto, Some(ms)) => u32::try_from(ms.div_ceil(PART_MS).min(MAX_AUTO)).unwrap_or(1),
            (Self::Auto, None) => UNKNOWN_PARTS,
        };
        number.min(tests).max(1)
    }
}

impl PreparedTest {
    /// Lists the tests, splits them and runs all parts at once. A part without an outcome makes the report one that is not passed.
    pub(super) async fn in_shards(
        &self,
        shards: Shards,
        engine: &dyn Spawn,
        cancel: &Cancel,
        policy: &Policy,
        progress: &mut (dyn FnMut(Progress<'_>) + Send),
    ) -> TestReport {
        let name = self.framework.name();
        let began = Instant::now();
        let Listed { ids, outcome } = match self.list(engine, cancel, policy, progress).await {
            Ok(listed) => listed,
            Err(report) => return *report,
        };
        if ids.is_empty() {
            let mut report = TestReport::without_a_run(name, Vec::new(), outcome);
            (report.verdict, report.reason) =
                (Verdict::Unusable, Some(none_found(self.selection.filter.as_deref(), 0)));
            return report;
        }
        let times = self.times_of_earlier();
        // Tests that take less than a millisecond are known as well: with 0.
        let known = times
            .as_ref()
            .and_then(|times| ids.iter().filter_map(|id| times.get(id)).copied().reduce(u64::saturating_add));
        let of = shards.of(ids.len(), known);
        let mut parts = Vec::new();
        for number in 1..=of {
            let ours = Shard { number, of, times: times.clone() }.take(name, &ids);
            if ours.is_empty() {
                continue;
            }
            let part =
                self.with_project(|project| chosen::part(self.framework, &self.selection, project, &ours));
            let part = part.flatten().map(|part| part.of_listed(ours.len(), ids.len()));
            let Some(mut part) = part else {
                let why =
                    format!("a part has more names than a command line of {name} takes: use more parts");
                return TestReport::without_a_run(
                    name,
                    Vec::new(),
                    RunReport::without_a_run(Cause::Refused, why),
                );
            };
            self.with_project(|project| self.build_as_asked(project, &mut part.command));
            if self.measured.is_some() {
                self.with_project(|project| self.framework.cover(&mut part.command, project));
            }
            parts.push((ours.len() as u64, part));
        }
        progress(Progress::Ahead(&format!(
            "{} in {}",
            counted(ids.len(), "test"),
            counted(parts.len(), "part")
        )));
        let progress = Mutex::new(progress);
        let runs = parts.iter().map(|(tests, part)| async {
            let mut see =
                |what: Progress<'_>| (progress.lock().unwrap_or_else(PoisonError::into_inner))(what);
            (*tests, self.once(engine, cancel, policy, (part, self.measured.clone()), &mut see).await)
        });
        let reports = join_all(runs).await;
        let wall = u64::try_from(began.elapsed().as_millis()).unwrap_or(u64::MAX);
        let mut report = join(reports, wall).unwrap_or_else(|| {
            let why = RunReport::without_a_run(Cause::Internal, "no part of the suite was run");
            TestReport::without_a_run(name, Vec::new(), why)
        });
        self.check_all_ran(&ids, &mut report);
        report
    }

    /// Doubts a report without a result for a test of the list. Lists of jest have its files only, and those of go no subtests.
    fn check_all_ran(&self, ids: &[String], report: &mut TestReport) {
        if report.verdict > Verdict::Failed || self.selection.fail_fast {
            return;
        }
        let ran: HashSet<&str> = match self.framework.name() {
            "jest" => report.cases.iter().filter_map(|case| case.id.split("::").next()).collect(),
            _ => report.cases.iter().map(|case| case.id.as_str()).collect(),
        };
        let missing: Vec<&String> = ids.iter().filter(|id| !ran.contains(id.as_str())).collect();
        let Some(first) = missing.first() else { return };
        report.reason = Some(format!(
            "{} of {} without a result, the first is {first}",
            missing.len(),
            counted(ids.len(), "test")
        ));
        report.complete = false;
        report.verdict = Verdict::Unusable;
    }

    /// Durations of tests in an earlier run of this project.
    fn times_of_earlier(&self) -> Option<std::collections::HashMap<String, u64>> {
        times::read(self.state.as_ref()?, &self.place, self.framework.name())
    }

    /// Keeps the durations of tests for a later split.
    pub(super) fn keep_times(&self, report: &TestReport) {
        if let Some(state) =
            self.state.as_ref().filter(|_| self.options.elsewhere && !report.cases.is_empty())
        {
            let all = report.cases.iter().map(|case| (case.id.clone(), case.duration_ms));
            if let Err(why) = times::write(state, &self.place, self.framework.name(), all) {
                tracing::warn!("the times of the tests are not kept for a later split: {why}");
            }
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn number_of_parts_follows_times() {
        for (text, tests, known, want) in [
            ("3", 100, None, 3),
            ("3", 2, None, 2),
            ("auto", 100, None, 4),
            ("auto", 100, Some(1000), 1),
            ("auto", 100, Some(61_000), 4),
            ("auto", 100, Some(u64::MAX), 16),
            ("auto", 3, Some(u64::MAX), 3),
        ] {
            assert_eq!(text.parse::<Shards>().unwrap().of(tests, known), want, "{text} {tests} {known:?}");
        }
        for text in ["0", "1001", "-1", "", "some"] {
            assert!(text.parse::<Shards>().is_err(), "{text}");
        }
    }
}
