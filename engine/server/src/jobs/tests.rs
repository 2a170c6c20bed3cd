//! A project's tests as a job for the registry. The project is a workspace, and nothing in it is trusted.

use std::path::Path;
use std::sync::Arc;

use hotcell_config::network::NetworkSetting;
use hotcell_config::{Configuration, RunSettings, SecretSettings};
use hotcell_sandbox::outcome::{Cause, Output};
use hotcell_sandbox::policy::PROJECT;
use hotcell_sandbox::profile::{LimitSettings, Span};
use hotcell_sandbox::{Chunk, Limits};
use hotcell_state::caller::Caller;
use hotcell_state::report::{Code, ErrorReport};
use hotcell_testing::{Cancel, Event, Selection, TestReport, Verdict};
use hotcell_verbs::changes::ChangePolicy;
use hotcell_verbs::outputs::OutputPattern;
use hotcell_verbs::request::Merged;
use hotcell_verbs::request::{RunRequest, RunTarget};
use hotcell_verbs::test::{TestOptions, TestRequest, Unready};

use crate::jobs::returned::Returned;
use crate::jobs::suites;
use crate::limits::AskedLimits;
use crate::network_permit::{NetworkPermit, WITHDRAWN};
use crate::network_requests::Approved;
use crate::registry::{Live, Work};
use crate::run::{Answer, Progress, RunContext, Stream};
use crate::workspaces::RunDir;

use super::command::{surroundings, there, without_host_paths};

/// Maximum length of a filter, in bytes.
const MAX_FILTER_BYTES: usize = 4096;

/// A request to run a workspace's tests.
#[derive(Debug)]
pub struct TestsRequest {
    /// Workspace that contains the project.
    pub workspace: RunDir,
    /// Treatment of the changes there; by default they are lost at the end of the run.
    pub keep: ChangePolicy,
    /// Framework by name; otherwise it is detected.
    pub framework: Option<String>,
    /// Measure line coverage.
    pub coverage: bool,
    /// One of the operator's images.
    pub image: Option<String>,
    /// Selected tests, in the framework's syntax.
    pub filter: Option<String>,
    /// Limits.
    pub limits: AskedLimits,
    /// Files of the project that are returned.
    pub outputs: Vec<OutputPattern>,
    /// Hosts that the tests may reach, secrets that they may use, and the person's approval. With secrets, the approval is there already:
    /// their values are read when the work is made.
    pub approved: Option<Arc<Approved>>,
}

impl TestsRequest {
    /// Checks the request as far as possible before the tests run. Reads the project, and so blocks for a
    /// moment.
    ///
    /// # Errors
    /// A report that names the field.
    pub fn into_work(self, live: &Live, caller: &Caller) -> Result<TestsWork, ErrorReport> {
        if let Some(filter) = self.filter.as_ref().filter(|f| f.len() > MAX_FILTER_BYTES || f.contains('\0'))
        {
            return Err(ErrorReport::new(
                Code::InvalidValue,
                format!(
                    "filter has {} bytes; allowed is at most {MAX_FILTER_BYTES}, without zero bytes",
                    filter.len()
                ),
            )
            .field("filter"));
        }
        let configuration = live.configuration_of(caller);
        let limits = self.limits.of_tests(&configuration)?;
        // Only a run of a user at the keyboard reaches hosts, except for those that such a user approved.
        let hosts = self.approved.as_ref().map(|approved| approved.hosts.clone());
        let network = hosts.map_or(NetworkSetting::None, NetworkSetting::Hosts);
        let secrets = self.approved.iter().flat_map(|approved| &approved.secrets);
        let used = secrets.map(|secret| secret.name.clone()).collect();
        let request = TestRequest {
            project: self.workspace.folder(),
            kept: self.workspace.kept().cloned(),
            framework: self.framework,
            selection: Selection { filter: self.filter, ..Selection::default() },
            coverage: self.coverage,
            repeat: 1,
            settings: RunSettings {
                limits: as_settings(&limits),
                network: Some(network),
                image: self.image,
                secrets: SecretSettings { used, ..SecretSettings::default() },
                ..RunSettings::default()
            },
            keep: self.keep,
            options: TestOptions { elsewhere: live.sends(), ..TestOptions::default() },
        };
        there(&configuration, request.settings.image.as_deref())?;
        let outputs = (!self.outputs.is_empty()).then(|| Returned::of(self.outputs, false));
        let workspace = self.workspace;
        let leave = NetworkPermit::new(self.approved, live.current().clone());
        if suites::are_apart(&request, &workspace)? {
            // Refuses what the operator's configuration forbids before a person is asked.
            merged(&request.settings, &configuration)?;
            let current = live.current().clone();
            let asker = configuration.asker;
            let asked = suites::Asked { request, limits: self.limits, asker, workspace, leave, outputs };
            let work: Work = Box::new(move |desk| {
                Box::pin(
                    async move { Answer::Tests(Box::new(suites::perform(&desk, asked, &current).await)) },
                )
            });
            return Ok(TestsWork { work, is_answered: false });
        }
        let host = workspace.folder();
        let prepared =
            request.prepare(&configuration, surroundings(Some(&workspace), &configuration.user.mcp.commit));
        let is_answered = prepared.is_err();
        let work: Work = match prepared {
            Err(Unready::Wrong(report)) => return Err(report),
            Err(Unready::Answered(report)) => {
                let report = inside(*report, &host);
                Box::new(move |_| Box::pin(async move { Answer::Tests(Box::new(report)) }))
            }
            Ok(mut prepared) => Box::new(move |desk| {
                Box::pin(async move {
                    if let Some(outputs) = &outputs {
                        prepared.copy_out(&outputs.request);
                    }
                    if let Err(why) = may_begin(&leave).await {
                        return Answer::Tests(Box::new(suites::refused(why)));
                    }
                    desk.digest_files(Some(&workspace)).await;
                    desk.state_in_receipt(|facts| facts.image_digest = prepared.image_digest());
                    let cancel = Cancel::default();
                    let mut shown = Shown::new(&desk);
                    let running = prepared.run(desk.spawn(), &cancel, |_, what| shown.see(what));
                    let mut report = follow(&desk, &cancel, &leave, running).await;
                    if let Some(outputs) = &outputs {
                        report.outcome.outputs = Some(outputs.request.finish());
                        outputs.keep(&desk, &mut report.outcome);
                    }
                    drop(workspace);
                    Answer::Tests(Box::new(inside(report, &host)))
                })
            }),
        };
        Ok(TestsWork { work, is_answered })
    }
}

/// Tests that are ready to be queued.
pub struct TestsWork {
    /// Work for the registry.
    pub work: Work,
    /// True when nothing will run: there are no tests, or they were refused.
    pub is_answered: bool,
}

impl std::fmt::Debug for TestsWork {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        f.debug_struct("TestsWork").field("is_answered", &self.is_answered).finish_non_exhaustive()
    }
}

impl AskedLimits {
    /// Limits of a test run, tightened from the operator's.
    pub fn of_tests(&self, configuration: &Configuration) -> Result<Limits, ErrorReport> {
        self.within(&merged(&RunSettings::default(), configuration)?.policy.job.limits)
    }
}

impl Live {
    /// The operator's limits, of tests or of programs, which are the maximum for every caller.
    #[must_use]
    pub fn most(&self, tests: bool) -> Option<Limits> {
        let configuration = self.configuration();
        let defaults = if tests { hotcell_config::limits::for_tests() } else { Limits::default() };
        let merged = merged_from(&RunSettings::default(), &configuration, defaults).ok()?;
        Some(merged.policy.job.limits)
    }
}

/// Merges some tests' settings with the configuration.
fn merged(settings: &RunSettings, configuration: &Configuration) -> Result<Merged, ErrorReport> {
    merged_from(settings, configuration, hotcell_config::limits::for_tests())
}

fn merged_from(
    settings: &RunSettings,
    configuration: &Configuration,
    limits: Limits,
) -> Result<Merged, ErrorReport> {
    let tests = RunRequest {
        kept: None,
        keep: ChangePolicy::default(),
        what: RunTarget::Program(Vec::new()),
        workspace: None,
        settings: settings.clone(),
        limits,
        stdin: hotcell_sandbox::Stdin::Null,
    };
    tests.merge(configuration)
}

pub(crate) fn as_settings(limits: &Limits) -> LimitSettings {
    LimitSettings {
        memory: Some(limits.memory),
        timeout: Some(limits.wall),
        cpu_time: Some(limits.cpu_time.map_or(Span::Unlimited, Span::Of)),
        processes: Some(limits.processes),
        disk: Some(limits.disk),
        output: Some(limits.output),
        ..LimitSettings::default()
    }
}

/// Progress of tests as shown to the followers of a run.
pub struct Shown<'a> {
    desk: &'a RunContext,
    progress: Progress,
    /// Number of tests in earlier suites.
    before: u64,
}

impl<'a> Shown<'a> {
    pub(crate) fn new(desk: &'a RunContext) -> Self {
        Self { desk, progress: Progress::default(), before: 0 }
    }

    /// Marks the end of a suite: later events belong to the next one.
    pub fn suite_is_over(&mut self) {
        self.before = self.progress.done;
    }

    pub(crate) fn see(&mut self, what: hotcell_testing::Progress<'_>) {
        match what {
            hotcell_testing::Progress::Event(event) => {
                match event {
                    // The number comes from the program, and may be anything.
                    Event::Collected(count, _) => {
                        self.progress.total = Some(self.before.saturating_add(*count));
                    }
                    Event::Ended(ended) => {
                        self.progress.done += 1;
                        self.progress.message = format!("{} {}", ended.status.name(), ended.id);
                    }
                    _ => return,
                }
                self.desk.progressed(self.progress.clone());
            }
            hotcell_testing::Progress::Ahead(what) => {
                self.progress.message = what.to_owned();
                self.desk.progressed(self.progress.clone());
            }
            hotcell_testing::Progress::Output(Chunk::Stdout(bytes)) => self.desk.wrote(Stream::Stdout, bytes),
            hotcell_testing::Progress::Output(Chunk::Stderr(bytes)) => self.desk.wrote(Stream::Stderr, bytes),
        }
    }
}

/// Checks that tests with network access may start: they waited since the approval.
pub async fn may_begin(leave: &NetworkPermit) -> Result<(), String> {
    if leave.is_none() {
        return Ok(());
    }
    leave.named()?;
    let leave = leave.clone();
    let looked = tokio::task::spawn_blocking(move || leave.still()).await;
    looked.unwrap_or_else(|error| Err(format!("the tests were not prepared: {error}")))
}

/// Stops the tests when the run is cancelled, or when the operator withdraws their network.
pub async fn follow(
    desk: &RunContext,
    cancel: &Cancel,
    leave: &NetworkPermit,
    running: impl Future<Output = TestReport>,
) -> TestReport {
    let mut running = std::pin::pin!(running);
    tokio::select! {
        biased;
        () = desk.cancelled() => {
            cancel.cancel();
            running.await
        }
        report = &mut running => report,
        () = leave.withdrawn() => {
            cancel.cancel();
            let mut report = running.await;
            if report.verdict == Verdict::Interrupted {
                report.reason = Some(WITHDRAWN.to_owned());
                report.outcome.reason = Some(WITHDRAWN.to_owned());
            }
            report
        }
    }
}

/// The report for a caller: the registry has the output, and host paths are removed.
pub fn inside(mut report: TestReport, host: &Path) -> TestReport {
    (report.outcome.stdout, report.outcome.stderr) = (Output::default(), Output::default());
    let told = report.reason == report.outcome.reason;
    hotcell_review::guard::for_a_model(&mut report.outcome);
    if told {
        report.reason.clone_from(&report.outcome.reason);
    }
    let nothing_ran = matches!(report.outcome.cause, Cause::NotFound | Cause::NotExecutable)
        || (report.outcome.cause == Cause::Refused
            && !report.command.is_empty()
            && report.outcome.layers.states.is_empty());
    if nothing_ran {
        let told = report.reason == report.outcome.reason;
        report.outcome = without_host_paths(report.outcome, &report.command);
        if told {
            report.reason.clone_from(&report.outcome.reason);
        }
    }
    let host = host.to_string_lossy();
    for reason in [&mut report.reason, &mut report.outcome.reason].into_iter().flatten() {
        *reason = reason.replace(host.as_ref(), PROJECT);
    }
    report
}
