//! A project's tests as work for the registry. The project is a workspace: nothing in it is trusted.

use std::path::Path;

use hotcell_sandbox::outcome::{Cause, Outcome, Output};
use hotcell_sandbox::policy::PROJECT;
use hotcell_sandbox::profile::{LimitSettings, Span};
use hotcell_sandbox::{Chunk, Limits};
use hotcell_testing::{Cancel, Event, ProjectFolder, Selection, TestReport};

use super::asked::AskedLimits;
use super::caller::Caller;
use super::command::{surroundings, there, without_host_paths};
use super::registry::{Live, Work};
use super::run::{Answer, Desk, Progress, Stream};
use super::workspaces::Place;
use crate::changes::Keep;
use crate::config::{Configuration, Settings};
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
}

impl TestsRequest {
    /// Checks what can be checked before they run. Blocks for a moment: it reads the project.
    ///
    /// # Errors
    /// A report that names the field.
    pub fn into_work(self, live: &Live, caller: &Caller) -> Result<Work, ErrorReport> {
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
        let limits = self.limits.of_tests(live)?;
        let request = TestRequest {
            project: self.workspace.folder(),
            kept: self.workspace.kept().cloned(),
            framework: self.framework,
            selection: Selection { filter: self.filter, ..Selection::default() },
            coverage: self.coverage,
            repeat: 1,
            settings: Settings {
                limits: as_settings(&limits),
                // Nobody who is not at the keyboard reaches a host.
                network: Some(NetworkSetting::None),
                image: self.image,
                ..Settings::default()
            },
            keep: self.keep,
        };
        let configuration = live.configuration_of(caller);
        there(&configuration, request.settings.image.as_deref())?;
        let workspace = self.workspace;
        if apart(&request, &workspace)? {
            return Ok(Box::new(move |desk| {
                Box::pin(async move {
                    let report = perform_all(&desk, request, limits, configuration, workspace).await;
                    Answer::Tests(Box::new(report))
                })
            }));
        }
        let host = workspace.folder();
        let prepared = request.prepare(&configuration, surroundings(Some(&workspace)));
        Ok(match prepared {
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
                    let cancel = Cancel::default();
                    let running = prepared.run(&desk.pool, &cancel, shown(&desk));
                    let report = follow(&desk, &cancel, running).await;
                    drop(workspace);
                    Answer::Tests(Box::new(inside(report, &host)))
                })
            }),
        })
    }
}

/// Whether the tests are in several suites, or in a folder below the project.
fn apart(request: &TestRequest, workspace: &Place) -> Result<bool, ErrorReport> {
    let suites = match workspace {
        // What cannot be listed now is told by whoever prepares it.
        Place::Kept(kept) => kept.view().ok().and_then(|view| request.apart(&view.as_project())),
        Place::Temporary(temporary) => {
            ProjectFolder::open(temporary.path()).ok().and_then(|folder| request.apart(&folder))
        }
    };
    let Some(suites) = suites else { return Ok(false) };
    if request.keep == Keep::default() {
        return Ok(true);
    }
    let why =
        format!("keep and diff are for the tests of the project itself, and there are {}", suites.join(", "));
    Err(ErrorReport::new(Code::Usage, why)
        .field("keep")
        .hint("leave them out, or name the framework: then its tests run from the project's own folder"))
}

/// Suites in folders, each in a sandbox of its own, in which its folder is the project. Layers are laid over whole projects only,
/// so that what they show is copied: now, and not while it waits for its turn.
async fn perform_all(
    desk: &Desk,
    mut request: TestRequest,
    limits: Limits,
    configuration: Configuration,
    workspace: Place,
) -> TestReport {
    let around = surroundings(Some(&workspace));
    let prepared = tokio::task::spawn_blocking(move || {
        let copy = match request.kept.take().filter(|kept| kept.has_layers()) {
            None => None,
            Some(kept) => {
                let copy = kept.copy(&limits).map_err(|error| {
                    format!("the workspace cannot be copied for its suites: {error}; ask for more disk_mib, or name one framework")
                })?;
                copy.path().clone_into(&mut request.project);
                Some(copy)
            }
        };
        let prepared = request.prepare_suites(&configuration, &around, &mut |_| Ok(()));
        Ok::<_, String>((prepared, request.project, copy, workspace))
    });
    let (prepared, host, _copy, _workspace) = match prepared.await {
        Ok(Ok(prepared)) => prepared,
        Ok(Err(why)) => return refused(why),
        Err(error) => return refused(format!("the tests were not prepared: {error}")),
    };
    let report = match prepared {
        Ok(suites) => {
            let cancel = Cancel::default();
            let running = suites.run(&desk.pool, &cancel, |_| {}, shown(desk));
            match follow(desk, &cancel, running).await {
                Some(report) => report,
                None => refused("stopped: cancelled before a suite began"),
            }
        }
        Err(Unready::Answered(report)) => *report,
        Err(Unready::Wrong(report)) => refused(report.to_string()),
    };
    inside(report, &host)
}

fn refused(why: impl Into<String>) -> TestReport {
    let outcome = Outcome::without_a_run(Cause::Refused, why);
    TestReport::without_a_run("", Vec::new(), outcome)
}

impl AskedLimits {
    /// Those of a run of tests, where none is wider than the operator's.
    fn of_tests(&self, live: &Live) -> Result<Limits, ErrorReport> {
        let tests = RunRequest {
            kept: None,
            keep: Keep::default(),
            what: What::Program(Vec::new()),
            workspace: None,
            settings: Settings::default(),
            limits: Limits::for_tests(),
            stdin: hotcell_sandbox::Stdin::Null,
        };
        self.within(&tests.merge(&live.configuration())?.policy.job.limits)
    }
}

fn as_settings(limits: &Limits) -> LimitSettings {
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

/// What the followers of the run see of its tests.
fn shown(desk: &Desk) -> impl FnMut(u32, hotcell_testing::Progress<'_>) + Send + '_ {
    let mut progress = Progress::default();
    move |_, what| match what {
        hotcell_testing::Progress::Event(event) => {
            match event {
                // After the tests of the suites before it.
                Event::Collected(count, _) => progress.total = Some(progress.done + *count),
                Event::Ended(ended) => {
                    progress.done += 1;
                    progress.message = format!("{} {}", ended.status.name(), ended.id);
                }
                _ => return,
            }
            desk.progressed(progress.clone());
        }
        hotcell_testing::Progress::Output(Chunk::Stdout(bytes)) => desk.wrote(Stream::Stdout, bytes),
        hotcell_testing::Progress::Output(Chunk::Stderr(bytes)) => desk.wrote(Stream::Stderr, bytes),
    }
}

/// Lets whoever cancels the run stop its tests.
async fn follow<T>(desk: &Desk, cancel: &Cancel, running: impl Future<Output = T>) -> T {
    let mut running = std::pin::pin!(running);
    tokio::select! {
        report = &mut running => report,
        () = desk.cancelled() => {
            cancel.cancel();
            running.await
        }
    }
}

/// The report as it may leave: the registry has the output, and no folder of the host is named.
fn inside(mut report: TestReport, host: &Path) -> TestReport {
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
