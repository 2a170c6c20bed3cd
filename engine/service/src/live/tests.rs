//! A project's tests as work for the registry. The project is a workspace: nothing in it is trusted.

use std::path::Path;
use std::sync::Arc;

use hotcell_sandbox::outcome::{Cause, Output};
use hotcell_sandbox::policy::PROJECT;
use hotcell_sandbox::profile::{LimitSettings, Span};
use hotcell_sandbox::{Chunk, Limits};
use hotcell_testing::{Cancel, Event, Selection, TestReport, Verdict};

use super::asked::AskedLimits;
use super::asking::Approved;
use super::caller::Caller;
use super::command::{surroundings, there, without_host_paths};
use super::leave::{Leave, WITHDRAWN};
use super::registry::{Live, Work};
use super::run::{Answer, Desk, Progress, Stream};
use super::suites;
use super::workspaces::Place;
use crate::changes::Keep;
use crate::config::{Configuration, Merged, Settings};
use crate::network::NetworkSetting;
use crate::report::{Code, ErrorReport};
use crate::request::{RunRequest, What};
use crate::test::{TestRequest, Unready};

/// The longest filter, in bytes.
const LONGEST_FILTER: usize = 4096;

/// A workspace's tests to run.
#[derive(Debug)]
pub struct TestsRequest {
    /// The project.
    pub workspace: Place,
    /// What becomes of the changes there; else they are gone when it ends.
    pub keep: Keep,
    /// A framework's name; else what the project looks like.
    pub framework: Option<String>,
    /// Measure which lines run.
    pub coverage: bool,
    /// An image of the operator's.
    pub image: Option<String>,
    /// Which tests, as the framework reads it.
    pub filter: Option<String>,
    /// Limits.
    pub limits: AskedLimits,
    /// Hosts that they may reach, and what a person approved of it.
    pub approved: Option<Arc<Approved>>,
}

impl TestsRequest {
    /// Checks what can be checked before they run. Blocks for a moment: it reads the project.
    ///
    /// # Errors
    /// A report that names the field.
    pub fn into_work(self, live: &Live, caller: &Caller) -> Result<TestsWork, ErrorReport> {
        if let Some(filter) = self.filter.as_ref().filter(|f| f.len() > LONGEST_FILTER || f.contains('\0')) {
            return Err(ErrorReport::new(
                Code::InvalidValue,
                format!(
                    "filter has {} bytes; allowed is at most {LONGEST_FILTER}, without zero bytes",
                    filter.len()
                ),
            )
            .field("filter"));
        }
        let configuration = live.configuration_of(caller);
        let limits = self.limits.of_tests(&configuration)?;
        // Nobody who is not at the keyboard reaches a host, but for what somebody there approved.
        let hosts = self.approved.as_ref().map(|approved| approved.hosts.clone());
        let network = hosts.map_or(NetworkSetting::None, NetworkSetting::Hosts);
        let request = TestRequest {
            project: self.workspace.folder(),
            kept: self.workspace.kept().cloned(),
            framework: self.framework,
            selection: Selection { filter: self.filter, ..Selection::default() },
            coverage: self.coverage,
            repeat: 1,
            settings: Settings {
                limits: as_settings(&limits),
                network: Some(network),
                image: self.image,
                ..Settings::default()
            },
            keep: self.keep,
        };
        there(&configuration, request.settings.image.as_deref())?;
        let workspace = self.workspace;
        let leave = Leave::new(self.approved, live.current().clone());
        if suites::are_apart(&request, &workspace)? {
            // What an operator's configuration forbids is refused before a person is asked.
            merged(&request.settings, &configuration)?;
            let current = live.current().clone();
            let asker = configuration.asker;
            let asked = suites::Asked { request, limits: self.limits, asker, workspace, leave };
            let work: Work = Box::new(move |desk| {
                Box::pin(
                    async move { Answer::Tests(Box::new(suites::perform(&desk, asked, &current).await)) },
                )
            });
            return Ok(TestsWork { work, is_answered: false });
        }
        let host = workspace.folder();
        let prepared = request.prepare(&configuration, surroundings(Some(&workspace)));
        let is_answered = prepared.is_err();
        let work: Work = match prepared {
            Err(Unready::Wrong(report)) => {
                let field = report.field.as_deref().map(|f| f.trim_start_matches('-').to_owned());
                return Err(ErrorReport { field, ..report });
            }
            Err(Unready::Answered(report)) => {
                let report = inside(*report, &host);
                Box::new(move |_| Box::pin(async move { Answer::Tests(Box::new(report)) }))
            }
            Ok(prepared) => Box::new(move |desk| {
                Box::pin(async move {
                    if let Err(why) = may_begin(&leave).await {
                        return Answer::Tests(Box::new(suites::refused(why)));
                    }
                    let cancel = Cancel::default();
                    let mut shown = Shown::new(&desk);
                    let running = prepared.run(&desk.pool, &cancel, |_, what| shown.see(what));
                    let report = follow(&desk, &cancel, &leave, running).await;
                    drop(workspace);
                    Answer::Tests(Box::new(inside(report, &host)))
                })
            }),
        };
        Ok(TestsWork { work, is_answered })
    }
}

/// Tests that can be asked to run.
pub struct TestsWork {
    /// What the registry is given.
    pub work: Work,
    /// Nothing will run: there are no tests, or they were refused.
    pub is_answered: bool,
}

impl std::fmt::Debug for TestsWork {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        f.debug_struct("TestsWork").field("is_answered", &self.is_answered).finish_non_exhaustive()
    }
}

impl AskedLimits {
    /// Those of a run of tests, where none is wider than the operator's.
    pub(super) fn of_tests(&self, configuration: &Configuration) -> Result<Limits, ErrorReport> {
        self.within(&merged(&Settings::default(), configuration)?.policy.job.limits)
    }
}

/// Some tests under these settings.
fn merged(settings: &Settings, configuration: &Configuration) -> Result<Merged, ErrorReport> {
    let tests = RunRequest {
        kept: None,
        keep: Keep::default(),
        what: What::Program(Vec::new()),
        workspace: None,
        settings: settings.clone(),
        limits: crate::request::limits_for_tests(),
        stdin: hotcell_sandbox::Stdin::Null,
    };
    tests.merge(configuration)
}

pub(super) fn as_settings(limits: &Limits) -> LimitSettings {
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

/// What the followers of a run see of its tests.
pub(super) struct Shown<'a> {
    desk: &'a Desk,
    progress: Progress,
    /// Tests of the suites before.
    before: u64,
}

impl<'a> Shown<'a> {
    pub(super) fn new(desk: &'a Desk) -> Self {
        Self { desk, progress: Progress::default(), before: 0 }
    }

    /// What comes from now on is another suite's.
    pub(super) fn suite_is_over(&mut self) {
        self.before = self.progress.done;
    }

    pub(super) fn see(&mut self, what: hotcell_testing::Progress<'_>) {
        match what {
            hotcell_testing::Progress::Event(event) => {
                match event {
                    // The program chose the number.
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

/// Whether tests that reach hosts may begin: they waited since that was approved.
pub(super) async fn may_begin(leave: &Leave) -> Result<(), String> {
    if leave.is_none() {
        return Ok(());
    }
    leave.named()?;
    let leave = leave.clone();
    let looked = tokio::task::spawn_blocking(move || leave.still()).await;
    looked.unwrap_or_else(|error| Err(format!("the tests were not prepared: {error}")))
}

/// Lets whoever cancels the run stop its tests, and an operator who withdraws what they reach.
pub(super) async fn follow(
    desk: &Desk,
    cancel: &Cancel,
    leave: &Leave,
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

/// The report as it may leave: the registry has the output, and no folder of the host is named.
pub(super) fn inside(mut report: TestReport, host: &Path) -> TestReport {
    (report.outcome.stdout, report.outcome.stderr) = (Output::default(), Output::default());
    let told = report.reason == report.outcome.reason;
    crate::guard::for_a_model(&mut report.outcome);
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
        *reason = reason.replace(host.as_ref(), PROJECT).replace("--framework", "framework");
    }
    report
}
