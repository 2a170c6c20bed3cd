//! The debugger: one call, within which it repairs up to five times (S0.14 to S0.21).

use std::fs;
use std::path::{Path, PathBuf};

use hotcell_state::ids::random_hex;
use hotcell_state::report::{Code, ErrorReport};
use serde_json::{Value, json};

use super::data::{AttemptMade, CodePackage, TestResults, Texts, files};
use super::work::task;
use crate::driver::{Driver, Ended};
use crate::evidence::Evidence;
use crate::journal::Entry;
use crate::make::prompt;
use crate::text::ends;

/// Maximum size of the output of an attempt, in bytes.
const MAX_OUTPUT_BYTES: usize = 4000;

/// A folder of the state folder that is removed in the end.
struct Folder(PathBuf);

impl Drop for Folder {
    fn drop(&mut self) {
        if let Err(error) = fs::remove_dir_all(&self.0) {
            tracing::warn!("{} stays: {error}", self.0.display());
        }
    }
}

fn write(folder: &Path, all: &[(String, String)]) -> std::io::Result<()> {
    for (path, text) in all {
        let path = folder.join(path);
        path.parent().map_or(Ok(()), fs::create_dir_all)?;
        fs::write(path, text)?;
    }
    Ok(())
}

fn output(evidence: &Evidence) -> String {
    crate::text::visible(&ends(&crate::prompt::printed(evidence), MAX_OUTPUT_BYTES))
}

impl Driver<'_> {
    pub(super) async fn fix_code(&self, code: CodePackage, given: TestResults) -> Result<Value, ErrorReport> {
        let (making, plan) = code.plan.checked()?;
        let language = making.language;
        let mut all = files("code", &code.files, false)?;
        all.extend(files("test_results", &given.tests, true)?);
        let settings = making.setting_files(all.iter().map(|(path, _)| &**path));
        all.extend(settings);
        let folder = Folder(self.folder.path().join(format!("role-{}", random_hex(6)?)));
        let bad = |e: std::io::Error| ErrorReport::new(Code::State, format!("{}: {e}", folder.0.display()));
        let project = folder.0.join("project");
        fs::create_dir_all(&project).and_then(|()| write(&project, &all)).map_err(bad)?;
        let task =
            task(language, Some(prompt::words(&making, &plan)), project.to_string_lossy().into_owned());
        let report = match self.fix(task, false).await? {
            Ended::Session(report) => report,
            Ended::NothingToFix(evidence) => {
                return Ok(json!({
                    "success": true, "fixed_code": code.files, "attempts": [],
                    "final_test_results": { "passed": true, "good": evidence.passed(), "of": evidence.tests.len() },
                }));
            }
            Ended::NoResult(report) => {
                let why = report.reason.clone().unwrap_or_else(|| report.verdict.words().to_owned());
                return Err(ErrorReport::new(Code::Refused, format!("the tests have no result: {why}")));
            }
        };
        let id = report.id.clone().unwrap_or_default();
        let (_, rows) = Self::show(self.folder, &self.bench, &id)?;
        let mut tested = rows.iter().filter_map(|row| match &row.entry {
            Entry::Tested { evidence, files, analysis, .. } => Some((evidence, files, analysis)),
            _ => None,
        });
        // The first run is that of the given code.
        let first = tested.next().map(|(evidence, ..)| (**evidence).clone());
        let mut last = first;
        let mut attempts = Vec::new();
        for (evidence, changed, analysis) in tested {
            attempts.push(AttemptMade {
                attempt: attempts.len() as u64 + 1,
                fixed_files: changed.clone(),
                test_passed: evidence.passed() == evidence.tests.len() && !evidence.tests.is_empty(),
                test_output: output(evidence),
                analysis: analysis.clone(),
            });
            last = Some((**evidence).clone());
        }
        let mut fixed: Texts = code.files;
        let best = report.best.as_ref();
        if let Some(best) = best {
            let to = folder.0.join("fixed");
            fs::create_dir_all(&to).map_err(bad)?;
            Self::write_best(self.folder, &self.bench, &id, best, &to)?;
            for path in &best.files {
                match fs::read_to_string(to.join(path)) {
                    Ok(text) => drop(fixed.insert(path.clone(), text)),
                    Err(_) => drop(fixed.remove(path)),
                }
            }
        }
        for candidate in &report.candidates {
            candidate.workspace.iter().for_each(|workspace| self.bench.remove(workspace));
        }
        let success = best.is_some_and(|best| best.accepted);
        let results = best.map_or_else(
            || json!({ "passed": false }),
            |best| json!({ "passed": success, "good": best.tests.good, "of": best.tests.of, "run": best.tests.run }),
        );
        Ok(json!({
            "success": success,
            "fixed_code": fixed,
            "attempts": attempts,
            "final_test_results": results,
            "final_output": last.as_ref().map(output),
            "session": id,
            "reason": report.reason,
        }))
    }
}
