//! Tests in several folders of a workspace as one run: each suite in a sandbox of its own, with its folder as
//! the project, one after the other. All suites together share the time limit of one run.

use std::path::PathBuf;
use std::time::{Duration, Instant};

use hotcell_config::Configuration;
use hotcell_guard::quarantine::Channel;
use hotcell_report::RunReport;
use hotcell_sandbox::Limits;
use hotcell_sandbox::outcome::Cause;
use hotcell_sandbox::profile::{LimitSettings, Span};
use hotcell_state::report::{Code, ErrorReport};
use hotcell_state::state::StateChoice;
use hotcell_testing::suites::{self, Found, MAX_SUITES};
use hotcell_testing::{Cancel, ProjectFolder, TestReport, Verdict};
use hotcell_verbs::changes::ChangePolicy;
use hotcell_verbs::test::{TestRequest, Unready};

use crate::current::Current;
use crate::jobs::returned::Returned;
use crate::jobs::tests::{Shown, as_settings, follow, inside, may_begin};
use crate::limits::AskedLimits;
use crate::network_permit::NetworkPermit;
use crate::run::{RunContext, never_ran};
use crate::workspaces::RunDir;

use super::command::surroundings;

/// Minimum time left for a suite to be started.
const MIN_SUITE_TIME: Duration = Duration::from_millis(100);

/// True when the tests are in several suites, or in a subfolder of the project.
pub fn are_apart(request: &TestRequest, workspace: &RunDir) -> Result<bool, ErrorReport> {
    let suites = match workspace {
        // A folder that cannot be listed now is reported when the suite is prepared.
        RunDir::Pinned(kept) => kept.view().ok().and_then(|view| request.apart(&view.as_project())),
        RunDir::Temporary(folder) => {
            ProjectFolder::open(folder.path()).ok().and_then(|folder| request.apart(&folder))
        }
    };
    let Some(suites) = suites else { return Ok(false) };
    if suites.len() > MAX_SUITES {
        let why =
            format!("the project has {} suites, and at most {MAX_SUITES} are run together", suites.len());
        return Err(ErrorReport::new(Code::InvalidValue, why)
            .field("filter")
            .hint("give the folder of one of them, or name its framework"));
    }
    if request.keep == ChangePolicy::default() {
        return Ok(true);
    }
    let why =
        format!("keep and diff are for the tests of the project itself, and there are {}", suites.join(", "));
    Err(ErrorReport::new(Code::InvalidValue, why)
        .field(if request.keep.stay { "keep" } else { "diff" })
        .hint("leave them out, or name the framework: then its tests run from the project's own folder"))
}

/// The request and its caller.
pub struct Asked {
    pub request: TestRequest,
    pub limits: AskedLimits,
    pub asker: Option<(Channel, StateChoice)>,
    pub workspace: RunDir,
    pub leave: NetworkPermit,
    pub outputs: Option<Returned>,
}

/// Folders of the suites, kept while they run.
struct Opened {
    folder: PathBuf,
    found: Vec<(Found, Option<String>)>,
    /// A copy of the project: layers are only possible over whole projects, and the operator's folder may
    /// change while other suites run, so the copy ensures that the scanned code is the code that runs.
    _copy: Option<tempfile::TempDir>,
}

/// Runs the suites, under the configuration in force now.
pub async fn perform(desk: &RunContext, asked: Asked, current: &Current) -> TestReport {
    let began = Instant::now();
    let Asked { request, limits, asker, workspace, leave, outputs } = asked;
    if let Err(why) = leave.named() {
        return refused(why);
    }
    let configuration = Configuration { asker, ..Configuration::clone(&current.get()) };
    let limits = match limits.of_tests(&configuration) {
        Ok(limits) => limits,
        Err(report) => return refused(report.to_string()),
    };
    let around = surroundings(Some(&workspace), &configuration.user.mcp.commit);
    let (looked_for, place, bounds) = (request.clone(), workspace, limits.clone());
    let opened = tokio::task::spawn_blocking(move || {
        let opened = open(&looked_for, &place, &bounds);
        (opened, place)
    });
    let (opened, _workspace) = match opened.await {
        Ok((Ok(opened), place)) => (opened, place),
        Ok((Err(why), _)) => return refused(why),
        Err(error) => return refused(format!("the tests were not prepared: {error}")),
    };
    // Checks that the copy is what was approved.
    if let Err(why) = may_begin(&leave).await {
        return refused(why);
    }
    desk.digest_folder(&opened.folder).await;
    let (cancel, mut shown) = (Cancel::default(), Shown::new(desk));
    let (mut reports, mut cpu) = (Vec::new(), Duration::ZERO);
    for (suite, filter) in &opened.found {
        if desk.is_cancelled() {
            reports.push((suite.folder.clone(), unrun(suite, never_ran())));
            break;
        }
        let left =
            (limits.wall.checked_sub(began.elapsed()), limits.cpu_time.map(|all| all.saturating_sub(cpu)));
        let (Some(wall), cpu_left) = left else {
            reports.push((suite.folder.clone(), over(suite)));
            continue;
        };
        if wall < MIN_SUITE_TIME || cpu_left.is_some_and(|left| left < MIN_SUITE_TIME) {
            reports.push((suite.folder.clone(), over(suite)));
            continue;
        }
        let whole = TestRequest { kept: None, project: opened.folder.clone(), ..request.clone() };
        let prepared = match whole.of_suite(suite, filter.as_deref()) {
            Ok(mut own) => {
                own.settings.limits = LimitSettings {
                    timeout: Some(wall),
                    cpu_time: Some(cpu_left.map_or(Span::Unlimited, Span::Of)),
                    ..as_settings(&limits)
                };
                let (configuration, around) = (configuration.clone(), around.clone());
                let prepared = tokio::task::spawn_blocking(move || own.prepare(&configuration, around)).await;
                prepared.unwrap_or_else(|error| {
                    Err(Unready::Answered(Box::new(refused(format!("the tests were not prepared: {error}")))))
                })
            }
            Err(answer) => Err(answer),
        };
        let report = match prepared {
            Ok(mut tests) => {
                desk.state_in_receipt(|facts| facts.image_digest = tests.image_digest());
                if let Some(outputs) = &outputs {
                    tests.copy_out(&outputs.request);
                }
                let running = tests.run(desk.spawn(), &cancel, |_, what| shown.see(what));
                follow(desk, &cancel, &leave, running).await
            }
            Err(Unready::Answered(report)) => *report,
            Err(Unready::Wrong(report)) => refused(report.to_string()),
        };
        shown.suite_is_over();
        cpu += Duration::from_micros(report.outcome.usage.cpu_us.unwrap_or(0));
        let stop = report.verdict == Verdict::Interrupted;
        // Before joining: the joined report contains the reasons of all.
        reports.push((suite.folder.clone(), inside(report, &opened.folder)));
        if stop {
            break;
        }
    }
    let mut report = suites::join(reports).unwrap_or_else(|| refused("the project has no suites any more"));
    if let Some(outputs) = outputs {
        report.outcome.outputs = Some(outputs.request.finish());
        outputs.keep(desk, &mut report.outcome);
    }
    report
}

/// Finds the suites in a place that no other process writes to. Blocks.
fn open(request: &TestRequest, workspace: &RunDir, limits: &Limits) -> Result<Opened, String> {
    let copy = match workspace {
        RunDir::Temporary(_) => None,
        RunDir::Pinned(kept) => Some(kept.copy(limits).map_err(|error| {
            tracing::info!(target: "hotcell_contents", "a workspace was not copied for its suites: {error}");
            "the workspace cannot be copied for its suites: it has more bytes or files than a run may write, or there is no room; \
             name one framework, and its tests run without a copy"
        })?),
    };
    let folder = copy.as_ref().map_or_else(|| workspace.folder(), |copy| copy.path().to_owned());
    let project =
        ProjectFolder::open(&folder).map_err(|error| format!("the project cannot be read: {error}"))?;
    Ok(Opened { found: request.found(&project), folder, _copy: copy })
}

fn over(suite: &Found) -> TestReport {
    let why = "the time of the whole run was over before this suite began; give more time, or run it alone by its folder as filter";
    TestReport { verdict: Verdict::Limit, ..unrun(suite, RunReport::without_a_run(Cause::WallLimit, why)) }
}

fn unrun(suite: &Found, outcome: RunReport) -> TestReport {
    TestReport::without_a_run(suite.framework.name(), Vec::new(), outcome)
}

pub fn refused(why: impl Into<String>) -> TestReport {
    TestReport::without_a_run("", Vec::new(), RunReport::without_a_run(Cause::Refused, why))
}
