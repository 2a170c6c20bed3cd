//! Lists the tests that a framework would run, by starting it in a mode that runs none.

use hotcell_report::RunReport;
use hotcell_sandbox::{Cause, Chunk, Spawn};

use super::{Progress, Session};
use crate::case::{MAX_CASES, MAX_NAME_BYTES, Status};
use crate::framework::ExitMeaning;
use crate::live::LiveLog;
use crate::report::TestReport;
use hotcell_sandbox::policy::PROJECT;
use hotcell_sandbox::text::printable_message;

use crate::frameworks::runner;
use crate::report::verdict::Verdict;

/// Maximum amount of a framework's output that is kept, in bytes.
const MAX_PRINTED_BYTES: usize = 64 << 20;
/// Maximum number of reasons listed.
const MAX_REASONS: usize = 3;

/// Result of listing.
#[derive(Clone, Debug)]
pub struct Listed {
    /// Ids, each once, in the framework's order.
    pub ids: Vec<String>,
    /// Outcome of the framework's run.
    pub outcome: RunReport,
}

impl Session {
    /// Runs a command of [`crate::chosen::listing`] and returns the ids.
    ///
    /// # Errors
    /// A report without cases, when the framework is missing, or could not list its tests.
    pub async fn list(
        self,
        engine: &dyn Spawn,
        progress: &mut (dyn FnMut(Progress<'_>) + Send),
    ) -> Result<Listed, Box<TestReport>> {
        let mut live = LiveLog::default();
        let mut printed = Vec::new();
        let mut both = |what: Progress<'_>| {
            if let Progress::Output(Chunk::Stdout(bytes)) = what {
                let room = MAX_PRINTED_BYTES.saturating_sub(printed.len());
                printed.extend_from_slice(&bytes[..bytes.len().min(room)]);
            }
            progress(what);
        };
        let finished = self.follow(engine, &mut live, &mut both).await;
        let files = finished.home.as_ref().and_then(|home| self.collect(home).ok());
        let outcome = finished.outcome;
        let fine = outcome.cause == Cause::Exited
            && outcome.exit_code.is_some_and(|code| {
                matches!(self.framework.exit(code), ExitMeaning::AllPassed | ExitMeaning::NoTests)
            });
        let broken = live.seen().iter().any(|seen| seen.status == Some(Status::Errored));
        let text = String::from_utf8_lossy(&printed);
        match ids(self.framework.name(), files.as_deref(), &live, &text) {
            Some(ids) if fine && !broken => Ok(Listed { ids, outcome: outcome.into() }),
            _ => Err(Box::new(self.unlisted(&live, outcome.into()))),
        }
    }

    /// Why there is no list.
    fn unlisted(&self, live: &LiveLog, outcome: RunReport) -> TestReport {
        let name = self.framework.name();
        let program = self.program();
        let command = self.policy.job.argv.iter().map(|a| a.to_string_lossy().into_owned()).collect();
        let missing = live.missing.as_deref().and_then(|what| self.framework.install(what, &program));
        let ran = matches!(outcome.cause, Cause::Exited | Cause::Signaled);
        let limit = outcome.cause.is_limit();
        let mut report = TestReport::without_a_run(name, command, outcome);
        if let Some(why) = missing {
            report.verdict = Verdict::NotInstalled;
            report.reason = Some(why);
        } else if ran {
            let wrong = live.seen().iter().filter(|seen| seen.status == Some(Status::Errored));
            let wrong = wrong.take(MAX_REASONS).map(|seen| {
                format!("{}: {}", seen.id, seen.message.as_deref().unwrap_or("it cannot be loaded"))
            });
            let mut why: Vec<String> = wrong.collect();
            let errors = report.outcome.stderr.text.as_deref().unwrap_or_default();
            if why.is_empty() {
                let lines = errors.lines().rev().map(str::trim).filter(|line| !line.is_empty());
                why.extend(
                    self.framework.explain(errors).or_else(|| lines.take(1).next().map(str::to_owned)),
                );
            }
            let why = if why.is_empty() { "it did not say why".to_owned() } else { why.join("; ") };
            report.verdict = Verdict::Unusable;
            report.reason = Some(printable_message(&format!("{name} could not list its tests: {why}")));
        } else if limit {
            report.verdict = Verdict::Limit;
        }
        report
    }
}

/// Ids in a framework's list; `None` when it did not write one.
fn ids(framework: &str, files: Option<&[Vec<u8>]>, live: &LiveLog, printed: &str) -> Option<Vec<String>> {
    let mut ids: Vec<String> = match framework {
        "pytest" | "unittest" => serde_json::from_slice(files?.first()?).ok()?,
        "jest" => {
            // jest before 29.5 prints it.
            let written = files.and_then(|files| std::str::from_utf8(files.first()?).ok());
            let list = written.unwrap_or(printed).lines().rev().find(|line| line.starts_with('['))?;
            let paths: Vec<String> = serde_json::from_str(list).ok()?;
            let below = |path: String| path.strip_prefix(PROJECT)?.strip_prefix('/').map(str::to_owned);
            paths.into_iter().filter_map(below).collect()
        }
        name => of_programs(name, files, live, printed)?,
    };
    let mut known = std::collections::HashSet::new();
    ids.retain(|id| id.len() <= MAX_NAME_BYTES && known.insert(id.clone()));
    if matches!(framework, "jest" | "go") {
        // Otherwise the order depends on jest's estimated durations, and on the order of builds.
        ids.sort();
    }
    (ids.len() <= MAX_CASES).then_some(ids)
}

/// Ids from the lists of test programs, written by hotcell's scripts.
fn of_programs(
    framework: &str,
    files: Option<&[Vec<u8>]>,
    live: &LiveLog,
    printed: &str,
) -> Option<Vec<String>> {
    // Without a program there is no report, and no tests.
    let programs = match files.and_then(|files| files.first()) {
        Some(bytes) => runner::parse(bytes).ok()?,
        None => Vec::new(),
    };
    let mut ids = Vec::new();
    for program in &programs {
        let name = live.names.get(&program.program).unwrap_or(&program.program);
        // A custom harness is a single test.
        if program.tests.is_empty() && framework == "cargo" && !program.lists {
            ids.push(name.clone());
        }
        ids.extend(program.tests.iter().map(|test| format!("{name}::{test}")));
    }
    if framework == "cargo" {
        let examples = printed.lines().filter_map(|line| line.strip_suffix(": test"));
        ids.extend(examples.filter(|name| crate::frameworks::cargo::is_example(name)).map(str::to_owned));
    }
    Some(ids)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn lists_are_read_as_frameworks_write_them() {
        let mut live = LiveLog::default();
        live.apply(&crate::Event::Named("/t/a-1".to_owned(), "src/lib.rs".to_owned()));
        let cargo = "@hotcell\tprogram\t/t/a-1\n@hotcell\ttest\t/t/a-1\tm::x\n@hotcell\tstart\t/t/a-1\t2\n";
        for (framework, file, printed, want) in [
            (
                "pytest",
                Some("[\"a.py::x\",\"a.py::x\",\"a.py::y[é]\"]"),
                "",
                Some(&["a.py::x", "a.py::y[é]"][..]),
            ),
            ("pytest", Some("[\"a.py::x\""), "", None),
            ("unittest", None, "", None),
            (
                "jest",
                None,
                "noise\n[\"/home/sandbox/project/b.test.js\",\"/home/sandbox/project/a.test.js\",\"/etc/x\"]\n",
                Some(&["a.test.js", "b.test.js"]),
            ),
            ("jest", None, "No tests\n", None),
            (
                "cargo",
                Some(cargo),
                "{}\nsrc/lib.rs - f (line 3): test\nx: test\n",
                Some(&["src/lib.rs::m::x", "src/lib.rs - f (line 3)"]),
            ),
            ("cargo", Some("nonsense\n"), "", None),
            ("gtest", Some("@hotcell\tprogram\tp\n@hotcell\ttest\tp\tS.a\n"), "", Some(&["p::S.a"])),
            ("go", None, "", Some(&[])),
        ] {
            let files = file.map(|text| vec![text.as_bytes().to_vec()]);
            let got = ids(framework, files.as_deref(), &live, printed);
            let got: Option<Vec<&str>> = got.as_ref().map(|ids| ids.iter().map(String::as_str).collect());
            assert_eq!(got.as_deref(), want, "{framework} {file:?} {printed:?}");
        }
    }
}
