//! Reviews of a project, a file or an artifact: evidence first, then the opinion of a model, which can only take points away.
//!
//! The guard reads everything, the tests run in a sandbox, a score is computed from that. After it a model reads the files and names defects in a fixed
//! format, each with a line that exists. Nothing that it says decides about a run, a commit or a release.

pub mod answer;
pub mod ask;
pub mod depth;
pub mod points;
mod read;
mod report;

use std::path::PathBuf;
use std::time::Instant;

use hotcell_guard::{Report as Scan, Verdict};
use hotcell_review::quarantine::QuarantineService;
use hotcell_sandbox::units::format_duration;
use hotcell_state::ids::random_hex;
use hotcell_state::report::{Code, ErrorReport};
use hotcell_testing::TestReport;

use crate::budget::Limits;
use crate::driver::{Driver, INTERRUPTED};
use crate::evidence::Evidence;

pub use answer::{Defect, Severity};
pub use depth::Depth;
pub use points::Recommendation;
pub use report::{Guarded, ReadBy, ReviewReport, SCHEMA, TestsOf};

use points::{Measured, Wanted};

/// Maximum number of the guard's findings in a report.
const MAX_FINDINGS: usize = 100;
/// Maximum number of failing tests in a report.
const MAX_FAILING: usize = 20;

/// Subject of a review.
#[derive(Clone, Debug)]
pub enum Subject {
    /// A workspace, at an artifact of it: 0 is the given code, `None` what it holds now.
    Workspace {
        /// Id.
        id: String,
        /// Artifact.
        artifact: Option<usize>,
        /// Changed files, which are read first.
        changed: Vec<String>,
    },
    /// A single file of the host.
    File(PathBuf),
}

/// A request for a review.
#[derive(Clone, Debug)]
pub struct ReviewRequest {
    /// Subject.
    pub subject: Subject,
    /// Name of the subject in the report.
    pub name: String,
    /// Depth.
    pub depth: Depth,
    /// Name of the model, in place of those of the role `reviewer`.
    pub model: Option<String>,
    /// Limits of the model's calls.
    pub limits: Limits,
    /// Framework of the tests, if it was named.
    pub framework: Option<String>,
    /// Maximum of output tokens of an answer.
    pub max_output_tokens: u32,
    /// Task that the code is written for.
    pub task: Option<String>,
    /// Operator's words before the instructions.
    pub base_prompt: Option<String>,
}

/// Tests of a review, or the reason why there is no result.
struct Ran {
    evidence: Option<Evidence>,
    why: Option<String>,
    covered: Option<(u64, u64)>,
}

impl Driver<'_> {
    /// Reviews.
    ///
    /// # Errors
    /// A report when the subject cannot be read, or the named model is not configured. When a model does not reply, the measured part is returned.
    pub async fn review(&self, request: &ReviewRequest) -> Result<ReviewReport, ErrorReport> {
        let began = Instant::now();
        let id = random_hex(6)?;
        let reader = self.reader(request)?;
        if let Subject::Workspace { id, artifact: Some(artifact), .. } = &request.subject {
            self.bench.show(id, *artifact)?;
        }
        (self.say)("the guard reads");
        let scan = self.scanned(&request.subject)?;
        let tests = self.tested(request, &scan, &id).await?;
        let wanted = match &request.subject {
            Subject::File(_) => Wanted::NoneThere,
            Subject::Workspace { .. } if !request.depth.runs_tests() => Wanted::Nothing,
            Subject::Workspace { .. } => Wanted::Tests,
        };
        let measured = measured(&scan, &tests, wanted);
        let computed = points::computed(&measured);
        let facts = ask::Facts {
            tests: tests.evidence.as_ref().map(told).unwrap_or_default(),
            guard: scan.findings.iter().map(finding).collect(),
            task: request.task.clone(),
            base_prompt: request.base_prompt.clone(),
        };
        let read = self.read_by_model(&id, request, reader, &facts, began).await?;
        let taken = points::taken(&read.defects).min(computed.score);
        let recommendation = points::recommend(&measured, &computed, &read.defects, read.by.has_unusable());
        #[expect(clippy::cast_precision_loss, reason = "for people")]
        let seconds = began.elapsed().as_millis() as f64 / 1000.0;
        tracing::debug!("reviewed in {}", format_duration(began.elapsed()));
        Ok(ReviewReport {
            schema: SCHEMA.to_owned(),
            review_id: id,
            subject: request.name.clone(),
            review_depth: request.depth,
            recommendation,
            quality_score: computed.score - taken,
            computed,
            taken,
            guard: Guarded {
                verdict: scan.verdict,
                findings: scan.findings.len() as u64,
                bytes: scan.coverage.bytes_total,
            },
            policy_violations: scan.findings.into_iter().take(MAX_FINDINGS).collect(),
            tests: tests.evidence.as_ref().map(|evidence| of_evidence(evidence, tests.covered)),
            no_tests: tests.why,
            defects: read.defects,
            suggestions: read.suggestions,
            model: read.by,
            usage: read.usage,
            seconds,
        })
    }

    fn scanned(&self, subject: &Subject) -> Result<Scan, ErrorReport> {
        let office = QuarantineService::of(self.configuration, None)?;
        match subject {
            Subject::File(path) => office.scan(path, &[]),
            Subject::Workspace { id, .. } => {
                let pinned = self.bench.pin(id)?;
                let (folder, layers) = pinned.mount();
                office.scan(&folder, &layers)
            }
        }
    }

    async fn tested(&self, request: &ReviewRequest, scan: &Scan, id: &str) -> Result<Ran, ErrorReport> {
        let without = |why: &str| Ok(Ran { evidence: None, why: Some(why.to_owned()), covered: None });
        let workspace = match &request.subject {
            _ if !request.depth.runs_tests() => return without("a quick review runs nothing"),
            Subject::File(_) => return without("a single file has no tests to run"),
            Subject::Workspace { id, .. } => id,
        };
        if scan.verdict >= Verdict::Incomplete {
            return without("the guard lets nothing of it run");
        }
        (self.say)("tests run in a sandbox");
        let run = async |coverage| {
            let what = vec!["review".to_owned(), request.name.clone(), id.to_owned()];
            self.run_tests(workspace, (request.framework.clone(), None), coverage, what).await
        };
        let mut why = None;
        let mut ran = run(request.depth.measures_coverage()).await;
        if request.depth.measures_coverage()
            && let Some(lacks) = without_coverage(&ran)
        {
            why = Some(lacks);
            ran = run(false).await;
        }
        let (report, run) = match ran {
            Ok(ran) => ran,
            Err(report) if report.code == Code::Internal || report.message == INTERRUPTED => {
                return Err(report);
            }
            Err(report) => return without(&report.to_string()),
        };
        if report.outcome.usage.wall_us.is_none() || report.totals.cases() == 0 {
            return without(&no_result(&report));
        }
        let covered = report.coverage.as_ref().map(|coverage| (coverage.covered, coverage.lines));
        Ok(Ran { evidence: Some(Evidence::of(&report, run)), why, covered })
    }
}

/// Why coverage cannot be measured here: the framework has none, or a package is missing. The tests run without it then.
fn without_coverage(ran: &Result<(TestReport, Option<String>), ErrorReport>) -> Option<String> {
    match ran {
        Err(report) if report.is_parameter && report.field.as_deref() == Some("coverage") => {
            Some(report.message.clone())
        }
        Ok((report, _)) if report.verdict == hotcell_testing::Verdict::NotInstalled => {
            Some(no_result(report))
        }
        _ => None,
    }
}

fn no_result(report: &TestReport) -> String {
    let words = report.verdict.words();
    report.reason.as_ref().map_or_else(|| words.to_owned(), |reason| format!("{words}: {reason}"))
}

fn measured(scan: &Scan, tests: &Ran, wanted: Wanted) -> Measured {
    let Some(evidence) = &tests.evidence else {
        return Measured { guard: scan.verdict.name().to_owned(), wanted, ..Measured::default() };
    };
    let score = evidence.score(evidence, None);
    let compared = evidence.compared(evidence);
    Measured {
        guard: scan.verdict.name().to_owned(),
        run: evidence.run.clone(),
        wanted,
        tests: Some((compared.good, compared.required)),
        valid: score.gates.iter().any(|gate| gate.name == "report" && gate.passed),
        covered: tests.covered,
    }
}

fn told(evidence: &Evidence) -> String {
    let bad: Vec<&str> = evidence
        .tests
        .iter()
        .filter(|(_, status)| !status.is_good())
        .map(|(id, _)| id.as_str())
        .take(5)
        .collect();
    let failing = if bad.is_empty() { String::new() } else { format!(", not good: {}", bad.join(", ")) };
    format!("{} of {} tests are good{failing}", evidence.passed(), evidence.tests.len())
}

fn finding(finding: &hotcell_guard::Finding) -> String {
    format!("{}:{}: {}: {}", finding.part, finding.line, finding.rule, finding.message)
}

fn of_evidence(evidence: &Evidence, covered: Option<(u64, u64)>) -> TestsOf {
    let bad = evidence.tests.iter().filter(|(_, status)| !status.is_good());
    #[expect(clippy::cast_precision_loss, reason = "a percentage")]
    let percent = covered.filter(|(_, of)| *of > 0).map(|(lines, of)| lines as f64 * 100.0 / of as f64);
    TestsOf {
        run: evidence.run.clone(),
        framework: evidence.framework.clone(),
        verdict: evidence.verdict,
        good: evidence.passed() as u64,
        of: evidence.tests.len() as u64,
        failing: bad.take(MAX_FAILING).map(|(id, _)| id.clone()).collect(),
        coverage_percent: percent,
    }
}
