//! Test suites that a model writes. A suite is taken only when it passes twice on the code, and at least one mutant of the code makes it fail: other
//! tests judge wrongly. It changes no code and no test that is there.

mod prompt;

use std::collections::BTreeSet;
use std::time::{Duration, Instant};

use hotcell_models::ledger::{Call, LedgerError};
use hotcell_models::{Ledger, Purpose, Stop};
use hotcell_state::ids::random_hex;
use hotcell_state::report::{Code, ErrorReport};
use hotcell_testing::Verdict;
use schemars::JsonSchema;
use serde::{Deserialize, Serialize};
use tokio::time::Instant as Deadline;

use crate::budget::{Budget, Limits};
use crate::driver::{Driver, calls};
use crate::edit::{self, Files};
use crate::evidence::Evidence;
use crate::paths::{self, BadPath};
use crate::tree::{self, Target};

use crate::driver::mutate::MAX_MUTANTS;

/// Role of a model that writes tests.
const ROLE: &str = "tester";
/// Maximum number of answers.
const MAX_ANSWERS: u32 = 3;
/// Time limit for a reply.
const REPLY_TIMEOUT: Duration = Duration::from_secs(600);

/// A request for a suite.
#[derive(Clone, Debug)]
pub struct SuiteRequest {
    /// Workspace of the artifact.
    pub workspace: String,
    /// Number of the artifact in it.
    pub artifact: usize,
    /// Changed files of the artifact; without any, all sources are tested.
    pub changed: Vec<String>,
    /// Tests of the artifact, to tell new tests from those that are there.
    pub before: BTreeSet<String>,
    /// Framework.
    pub framework: String,
    /// Model, in place of those of the role `tester`.
    pub model: Option<String>,
    /// Limits of the model's calls.
    pub limits: Limits,
    /// Maximum of output tokens of an answer.
    pub max_output_tokens: u32,
    /// Task that the code is written for.
    pub task: Option<String>,
    /// Operator's words before the instructions.
    pub base_prompt: Option<String>,
}

/// A suite, or why there is no suite.
#[derive(Clone, Debug, Serialize, Deserialize, JsonSchema)]
pub struct Suite {
    /// Id, under which the ledger has its calls.
    pub id: String,
    /// True when the tests proved themselves.
    pub accepted: bool,
    /// Why the last answer was not taken.
    pub why: Option<String>,
    /// Paths and texts of the test files.
    pub files: Vec<(String, String)>,
    /// Number of new tests.
    pub tests: u64,
    /// Percentage of executable lines that all tests ran; `null` when it cannot be measured here.
    pub coverage_percent: Option<f64>,
    /// Mutants that made a new test fail.
    pub killed: u64,
    /// Mutants that were tried.
    pub mutants: u64,
    /// Number of answers.
    pub answers: u32,
    /// Run of the tests in the history.
    pub run: Option<String>,
}

/// Test files of an answer: new ones, tests by their names, and no settings of tests.
struct NewTests<'a>(Target<'a>);

impl Files for NewTests<'_> {
    fn text(&self, path: &str) -> Result<Option<String>, BadPath> {
        let is_new = self.0.text(path)?.is_none();
        if is_new && paths::is_test(path) && !paths::is_setting(path) {
            Ok(None)
        } else {
            Err(BadPath::NotNew(path.to_owned()))
        }
    }

    fn only(&self) -> Option<String> {
        None
    }

    fn may_write_tests(&self) -> bool {
        true
    }
}

/// Result of trying one answer.
struct Tried {
    evidence: Evidence,
    new: BTreeSet<String>,
    coverage: Option<f64>,
    killed: u64,
    mutants: u64,
}

impl Driver<'_> {
    /// Lets a model write tests for an artifact, until they prove themselves or three answers are spent.
    ///
    /// # Errors
    /// A report when no model is configured, or the workspace cannot be used. A model that does not reply is told in the suite.
    pub async fn suite(&self, request: &SuiteRequest) -> Result<Suite, ErrorReport> {
        let client = calls::client(self.models, request.model.as_deref(), ROLE, &request.limits)
            .map_err(calls::NoClient::report)?;
        let state = |e: LedgerError| ErrorReport::new(Code::State, e.to_string());
        let mut suite = Suite {
            id: random_hex(6)?,
            accepted: false,
            why: None,
            files: Vec::new(),
            tests: 0,
            coverage_percent: None,
            killed: 0,
            mutants: 0,
            answers: 0,
            run: None,
        };
        let ledger = Ledger::open(self.folder).map_err(state)?;
        let purpose = Purpose::new(ROLE, Some(&suite.id), None).map_err(state)?;
        let record = |calls: Result<Vec<Call>, LedgerError>| {
            if let Err(error) = calls.and_then(|calls| ledger.record(&calls)) {
                tracing::warn!("the call is not in the ledger: {error}");
            }
        };
        let fork = self.bench.fork(&request.workspace, request.artifact)?;
        let began = Instant::now();
        let mut budget = Budget::new(request.limits);
        let (room, output) = calls::room(&client, request.max_output_tokens);
        let sources = self.sources_of(&fork, &request.changed, room)?;
        let mut before: Option<(String, String)> = None;
        while suite.answers < MAX_ANSWERS && !suite.accepted {
            let word = random_hex(8)?;
            let question = prompt::Question {
                framework: &request.framework,
                task: request.task.as_deref(),
                base_prompt: request.base_prompt.as_deref(),
                files: &sources,
                before: before.as_ref().map(|(answer, why)| (answer.as_str(), why.as_str())),
                word: &word,
            };
            let asked = prompt::request(&question, output);
            let most = calls::most(&client, &asked);
            let left = request.limits.time_ms.map_or(REPLY_TIMEOUT, |limit| {
                Duration::from_millis(limit).saturating_sub(began.elapsed()).min(REPLY_TIMEOUT)
            });
            if left.is_zero() {
                suite.why = Some("the time is over".to_owned());
                break;
            }
            if let Err(which) = budget.reserve(most) {
                suite.why = Some(format!("the budget of {which} does not allow another call"));
                break;
            }
            let reply = match client.complete(&asked, Deadline::now() + left).await {
                Ok(reply) => reply,
                Err(error) => {
                    record(Call::of_error(&purpose, &error));
                    suite.why = Some(error.to_string());
                    break;
                }
            };
            budget.settle(most, calls::used(&reply, most));
            record(Call::of_reply(&purpose, &reply));
            suite.answers += 1;
            // Nothing of an answer before is there.
            self.bench.show(&fork, 1)?;
            (suite.files, suite.tests, suite.coverage_percent) = (Vec::new(), 0, None);
            (suite.killed, suite.mutants, suite.run) = (0, 0, None);
            let read = self.bench.look(&fork, |view| {
                let files = NewTests(Target { view, only: None, frozen: &[] });
                Ok(edit::read(&reply.words(), reply.stop == Stop::Length, &files))
            })?;
            let why = match read {
                Err(malformed) => malformed.to_string(),
                Ok(edit) => {
                    suite.files = edit.files;
                    let tried = self.tried(request, &fork, &suite, &sources).await?;
                    suite.tests = tried.new.len() as u64;
                    suite.coverage_percent = tried.coverage;
                    (suite.killed, suite.mutants) = (tried.killed, tried.mutants);
                    suite.run.clone_from(&tried.evidence.run);
                    match judged(&tried) {
                        None => {
                            suite.accepted = true;
                            break;
                        }
                        Some(why) => why,
                    }
                }
            };
            (self.say)(&format!("the tests are not taken: {}", crate::text::line(&why, 200)));
            suite.why = Some(crate::text::line(&why, 500));
            before = Some((reply.words(), why));
        }
        self.bench.remove(&fork);
        if suite.accepted {
            suite.why = None;
        }
        Ok(suite)
    }

    pub(crate) fn sources_of(
        &self,
        workspace: &str,
        changed: &[String],
        most_bytes: usize,
    ) -> Result<Vec<(String, String)>, ErrorReport> {
        self.bench.look(workspace, |view| {
            let mut left = most_bytes;
            let mut files = Vec::new();
            for listed in tree::list(view)? {
                let is_wanted = changed.is_empty() || changed.contains(&listed.path);
                if !listed.is_code() || !is_wanted {
                    continue;
                }
                if let Some(text) = tree::shown(view, &listed).filter(|text| text.len() <= left) {
                    left -= text.len();
                    files.push((listed.path, text));
                }
            }
            Ok(files)
        })
    }

    /// Runs the tests of an answer: twice on the code, once on each mutant.
    async fn tried(
        &self,
        request: &SuiteRequest,
        fork: &str,
        suite: &Suite,
        sources: &[(String, String)],
    ) -> Result<Tried, ErrorReport> {
        let number = 2 + suite.answers as usize * (MAX_MUTANTS + 1);
        let run = async |coverage: bool, what: &str| {
            let command = vec!["suite".to_owned(), suite.id.clone(), what.to_owned()];
            self.run_tests(fork, (Some(request.framework.clone()), None), coverage, command).await
        };
        self.bench.apply(fork, 1, number, &suite.files)?;
        let mut first = run(true, "with coverage").await;
        let lacks = match &first {
            Err(report) => report.is_parameter && report.field.as_deref() == Some("coverage"),
            Ok((report, _)) => report.verdict == Verdict::NotInstalled,
        };
        if lacks {
            first = run(false, "as they are").await;
        }
        let (report, id) = first?;
        let coverage = report.coverage.as_ref().and_then(|coverage| coverage.lines_percent);
        let evidence = Evidence::of(&report, id);
        let new: BTreeSet<String> =
            evidence.tests.keys().filter(|id| !request.before.contains(*id)).cloned().collect();
        let mut tried = Tried { evidence, new, coverage, killed: 0, mutants: 0 };
        if tried.evidence.verdict != Verdict::Passed || tried.new.is_empty() {
            return Ok(tried);
        }
        let (again, id) = run(false, "again").await?;
        let again = Evidence::of(&again, id);
        if again.verdict != Verdict::Passed {
            tried.evidence = again;
            return Ok(tried);
        }
        let tests = (request.framework.as_str(), &tried.new);
        let tries = self
            .on_mutants((fork, number, number + 1), sources, tests, (&|| true, ["suite", &suite.id]))
            .await?;
        (tried.killed, tried.mutants) = tries;
        Ok(tried)
    }
}

/// Why the tests of an answer are not taken.
fn judged(tried: &Tried) -> Option<String> {
    let evidence = &tried.evidence;
    if evidence.verdict != Verdict::Passed {
        let failures: Vec<String> = evidence
            .failures
            .iter()
            .take(5)
            .map(|failure| format!("{}: {}", failure.id, crate::text::ends(failure.words.trim(), 500)))
            .collect();
        return Some(format!(
            "They do not pass on the code as it is ({}).\n{}",
            evidence.verdict.words(),
            failures.join("\n")
        ));
    }
    if tried.new.is_empty() {
        return Some("No new test was found in the new files.".to_owned());
    }
    if tried.killed == 0 {
        return Some(format!(
            "They pass on {} wrong versions of the code as well, so that they test nothing.",
            tried.mutants
        ));
    }
    None
}
