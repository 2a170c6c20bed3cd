//! Drives one run: starts it, follows it, reads its reports, and has it judged.

use std::ffi::OsString;
use std::io;
use std::path::{Path, PathBuf};
use std::sync::Arc;
use std::sync::atomic::{AtomicBool, Ordering};

use hotcell_sandbox::home::{CollectError, Home};
use hotcell_sandbox::policy::HOME;
use hotcell_sandbox::running::Finished;
use hotcell_sandbox::{Bytes, Cause, Changed, Chunk, Outcome, Policy, Spawn, temporary};
use tokio::sync::Notify;

use crate::case::ReportError;
use crate::coverage::{self, Coverage, Measured};
use crate::event::Event;
use crate::framework::{Command, Followed, Framework, LiveSource, REPORTERS};
use crate::live::LiveLog;
use crate::project::{Project, ProjectFolder};
use crate::report::judge::{Asked, judge};
use crate::report::{Interpreter, SCHEMA, TestReport};

mod list;
pub use list::Listed;

/// Maximum size of a report.
pub const MAX_REPORT_SIZE: Bytes = Bytes::mib(64);
/// Maximum number of cases whose source line is looked up in the project.
const MAX_SOURCES: usize = 100;

/// Progress of running tests. It comes from hostile programs: print it with
/// [`hotcell_sandbox::text::printable`].
#[derive(Clone, Copy, Debug)]
pub enum Progress<'a> {
    /// Event of the framework.
    Event(&'a Event),
    /// Output of the tests.
    Output(&'a Chunk),
    /// A slow preparation by hotcell, before the tests begin.
    Ahead(&'a str),
}

/// Handle to cancel a session, even before it has begun.
#[derive(Clone, Debug, Default)]
pub struct Cancel(Arc<(AtomicBool, Notify)>);

impl Cancel {
    /// Cancels the run; its verdict is [`crate::Verdict::Interrupted`], unless it had ended already.
    pub fn cancel(&self) {
        self.0.0.store(true, Ordering::Release);
        self.0.1.notify_waiters();
    }

    /// Waits for the cancellation.
    pub async fn wait(&self) {
        loop {
            // Made before the flag is read, so that no cancellation is missed; several runs may wait.
            let notified = self.0.1.notified();
            if self.0.0.load(Ordering::Acquire) {
                return;
            }
            notified.await;
        }
    }
}

/// One prepared run of tests. Use it once, since a program may change files that it can write.
#[derive(Debug)]
pub struct Session {
    framework: &'static dyn Framework,
    command: Command,
    policy: Policy,
    cancel: Cancel,
    /// Parts of the project's own test configuration that are not followed.
    followed: Followed,
    /// Coverage, if requested.
    measured: Option<Measured>,
    /// The project, if it is not a plain folder.
    project: Option<Arc<dyn Project + Send + Sync>>,
    /// The filter that selected the tests.
    filter: Option<String>,
    /// True for a part of the tests by their ids.
    part: bool,
    /// Files of hotcell, kept while they are needed.
    reporters: tempfile::TempDir,
}

impl Session {
    /// Completes a policy. Its `argv` is the command's, with the program found in a toolchain; its workspace
    /// is the project. Adds the command's variables and hotcell's files.
    ///
    /// # Errors
    /// When hotcell's files cannot be written to `TMPDIR`.
    pub fn new(framework: &'static dyn Framework, command: Command, policy: Policy) -> io::Result<Self> {
        Self::over(framework, command, policy, None)
    }

    /// Like [`Session::new`], for a project that is not the plain folder named in the policy.
    ///
    /// # Errors
    /// Like [`Session::new`].
    pub fn over(
        framework: &'static dyn Framework,
        command: Command,
        mut policy: Policy,
        project: Option<Arc<dyn Project + Send + Sync>>,
    ) -> io::Result<Self> {
        let folder = temporary::folder()?;
        for reporter in &command.reporters {
            let host = temporary::file(&folder, reporter.name, reporter.text.as_bytes())?;
            policy = policy.read_only(host, Path::new(REPORTERS).join(reporter.name));
        }
        let plain = policy.job.workspace.as_deref().filter(|_| project.is_none()).map(ProjectFolder::open);
        let shown = match (&project, &plain) {
            (Some(project), _) => Some(project.as_ref() as &dyn Project),
            (None, Some(Ok(folder))) => Some(folder as &dyn Project),
            _ => None,
        };
        if let Some(shown) = shown {
            let own = policy.job.workspace.as_deref().and_then(|folder| folder.canonicalize().ok());
            for (host, inside) in framework.stores(shown, &|name| operators(name, own.as_deref())) {
                let inside = Path::new(HOME).join(inside);
                // Mounts of the caller, and packages installed for the project, take precedence over those of
                // the host.
                if policy.job.binds.iter().all(|bind| bind.inside != inside) {
                    policy = policy.read_only(host, inside);
                }
            }
        }
        for (name, value) in &command.env {
            let theirs = policy
                .job
                .env
                .iter()
                .rev()
                .find(|(known, _)| known == name && (known == "GOFLAGS" || known == "NODE_OPTIONS"));
            let value = match theirs.map(|(_, theirs)| theirs) {
                // Flags given for the run are kept; hotcell's flags come first and win in a conflict.
                Some(theirs) => {
                    let mut both = theirs.clone();
                    both.push(" ");
                    both.push(value);
                    both
                }
                None => value.clone(),
            };
            policy.job.env.push((name.clone(), value));
        }
        policy.job.events = command.live == LiveSource::Descriptor;
        policy.job.imports.extend(framework.imports().iter().map(|name| (*name).to_owned()));
        Ok(Self {
            framework,
            command,
            policy,
            cancel: Cancel::default(),
            followed: Followed::default(),
            measured: None,
            project,
            filter: None,
            part: false,
            reporters: folder,
        })
    }

    /// Also reads coverage, as returned by [`Framework::cover`].
    #[must_use]
    pub fn covered(mut self, measured: Option<Measured>) -> Self {
        self.measured = measured;
        self
    }

    /// Sets the parts that are not followed, as returned by [`Framework::followed`].
    #[must_use]
    pub fn following(mut self, followed: Followed) -> Self {
        self.followed = followed;
        self
    }

    /// Sets the filter that selected the tests, and whether they are a part of these, by their ids: what did not run is
    /// reported by that.
    #[must_use]
    pub fn selecting(mut self, filter: Option<String>, part: bool) -> Self {
        (self.filter, self.part) = (filter, part);
        self
    }

    /// Adds another file of hotcell beside the reporters, if there is one.
    ///
    /// # Errors
    /// When it cannot be written to `TMPDIR`.
    pub fn showing(mut self, name: &str, text: Option<&str>) -> io::Result<Self> {
        if let Some(text) = text {
            let host = temporary::file(&self.reporters, name, text.as_bytes())?;
            self.policy = self.policy.read_only(host, Path::new(REPORTERS).join(name));
        }
        Ok(self)
    }

    /// Sets the handle that cancels it.
    #[must_use]
    pub fn cancelled_by(mut self, cancel: &Cancel) -> Self {
        self.cancel = cancel.clone();
        self
    }

    /// A handle to cancel it.
    #[must_use]
    pub fn cancel(&self) -> Cancel {
        self.cancel.clone()
    }

    /// Runs it to its end. `progress` is called with each event; it must not block.
    pub async fn run(
        self,
        engine: &dyn Spawn,
        progress: &mut (dyn FnMut(Progress<'_>) + Send),
    ) -> TestReport {
        self.run_and_keep(engine, progress).await.0
    }

    /// Like [`Session::run`], and also returns the changes made in the project.
    pub async fn run_and_keep(
        self,
        engine: &dyn Spawn,
        progress: &mut (dyn FnMut(Progress<'_>) + Send),
    ) -> (TestReport, Option<Changed>) {
        let mut live = LiveLog::default();
        let finished = self.follow(engine, &mut live, progress).await;
        let Finished { outcome, home, changed } = finished;
        let report = home
            .as_ref()
            .map_or(Err(ReportError::Missing), |home| self.collect(home))
            .or_else(|error| if self.framework.builds_nothing(&live) { Ok(Vec::new()) } else { Err(error) })
            .and_then(|files| self.framework.report(&files, &live));
        // For an interrupted run, the counts would only cover its first part.
        let counted = self.measured.as_ref().filter(|_| outcome.cause == Cause::Exited);
        let (coverage, unmeasured) = match home.as_ref().zip(counted) {
            Some((home, measured)) => read_coverage(home, measured),
            None => (None, None),
        };
        // The home folder's memory is the run's scratch space.
        drop(home);
        let program = self.program();
        let asked = Asked {
            program: &program,
            files: &self.command.files,
            followed: Some(&self.followed),
            filter: self.filter.as_deref(),
            part: self.part,
        };
        let mut judged = judge(self.framework, asked, report, &live, &outcome);
        self.add_sources(&mut judged.cases);
        let runtime = live.runtime.unwrap_or_default();
        let report = TestReport {
            schema: SCHEMA.to_owned(),
            framework: self.framework.name().to_owned(),
            framework_version: runtime.version,
            command: self.policy.job.argv.iter().map(|a| a.to_string_lossy().into_owned()).collect(),
            python: None,
            interpreter: runtime
                .interpreter
                .map(|version| Interpreter { path: program.into_owned(), version }),
            verdict: judged.verdict,
            complete: judged.complete,
            consistent: judged.consistent,
            // The cause of the end matters more than missing parts that result from it.
            reason: judged.reason.or(unmeasured),
            totals: judged.totals,
            cases: judged.cases,
            coverage,
            suites: None,
            repeats: None,
            flaky: None,
            retries: None,
            shards: None,
            outcome: outcome.into(),
            not_started: judged.not_started,
        };
        (report, changed)
    }

    async fn follow(
        &self,
        engine: &dyn Spawn,
        live: &mut LiveLog,
        progress: &mut (dyn FnMut(Progress<'_>) + Send),
    ) -> Finished {
        let nothing = |outcome| Finished { outcome, home: None, changed: None };
        let started = tokio::select! {
            biased;
            () = self.cancel.wait() => {
                return nothing(Outcome::without_a_run(Cause::Cancelled, "stopped: cancelled"));
            }
            started = engine.spawn(&self.policy) => started,
        };
        let mut running = match started {
            Ok(running) => running,
            Err(refusal) => return nothing(refusal.into()),
        };
        let canceller = running.canceller();
        let mut output = running.output();
        let mut events = running.events();
        let mut reader = self.framework.events();
        let mut ending = running.finish();
        let mut finished = None;
        let mut cancelled = false;
        let mut see = |new: Vec<Event>, progress: &mut (dyn FnMut(Progress<'_>) + Send)| {
            for event in new {
                live.apply(&event);
                progress(Progress::Event(&event));
            }
        };
        // Both streams end with the run; their last data is read before the verdict.
        while finished.is_none() || output.is_some() || events.is_some() {
            tokio::select! {
                () = self.cancel.wait(), if !cancelled => {
                    cancelled = true;
                    canceller.cancel();
                }
                bytes = next(&mut events), if events.is_some() => match bytes {
                    Some(bytes) => see(reader.push(&bytes), progress),
                    None => events = None,
                },
                chunk = next(&mut output), if output.is_some() => match chunk {
                    Some(chunk) => {
                        if let (LiveSource::Stdout, Chunk::Stdout(bytes)) = (self.command.live, &chunk) {
                            see(reader.push(bytes), progress);
                        }
                        if let (LiveSource::Stdout, Chunk::Stderr(bytes)) = (self.command.live, &chunk) {
                            see(reader.push_stderr(bytes), progress);
                        }
                        progress(Progress::Output(&chunk));
                    }
                    None => output = None,
                },
                end = &mut ending, if finished.is_none() => finished = Some(end),
            }
        }
        see(reader.end(), progress);
        finished.unwrap_or_else(|| nothing(Outcome::without_a_run(Cause::Internal, "the run has no end")))
    }

    /// The program that runs the tests, after hotcell's script that starts it.
    fn program(&self) -> std::borrow::Cow<'_, str> {
        let argv = &self.policy.job.argv;
        let ours =
            |word: &OsString| Path::new(word).starts_with(REPORTERS) && !self.command.argv.contains(word);
        let behind =
            argv.get(1).is_some_and(ours).then(|| argv.iter().position(|word| word == "--")).flatten();
        argv.get(behind.map_or(0, |at| at + 1)).map(|word| word.to_string_lossy()).unwrap_or_default()
    }

    /// Bytes of its reports.
    fn collect(&self, home: &Home) -> Result<Vec<Vec<u8>>, ReportError> {
        let read = |path| {
            home.read(path, MAX_REPORT_SIZE).map_err(|error| match error {
                CollectError::Missing(_) => ReportError::Missing,
                other => ReportError::Unreadable(other.to_string()),
            })
        };
        self.command.reports.iter().map(|path| read(path)).collect()
    }

    /// Adds the source lines of failures, from the project on the host.
    fn add_sources(&self, cases: &mut [crate::Case]) {
        let Some(workspace) = &self.policy.job.workspace else { return };
        let bad = cases.iter_mut().filter(|c| !c.status.is_good()).take(MAX_SOURCES);
        let mut bad = bad.peekable();
        if bad.peek().is_none() {
            return;
        }
        let mut add = |project: &dyn Project| {
            for case in &mut bad {
                if let (Some(file), Some(line)) = (&case.file, case.line) {
                    case.source = project.line(file, line);
                }
            }
        };
        match &self.project {
            Some(project) => add(project.as_ref()),
            None => {
                if let Ok(folder) = ProjectFolder::open(workspace) {
                    add(&folder);
                }
            }
        }
    }
}

/// Coverage, or the reason why it is missing.
fn read_coverage(home: &Home, measured: &Measured) -> (Option<Coverage>, Option<String>) {
    let read = home.read(&measured.report, MAX_REPORT_SIZE).map_err(|error| match error {
        CollectError::Missing(_) => "it was not written".to_owned(),
        other => other.to_string(),
    });
    match read.and_then(|bytes| coverage::parse(&measured.form, &bytes)) {
        Ok(coverage) => (Some(coverage), None),
        Err(why) => (None, Some(format!("coverage cannot be told: {why}"))),
    }
}

async fn next<T>(receiver: &mut Option<tokio::sync::mpsc::Receiver<T>>) -> Option<T> {
    match receiver {
        Some(receiver) => receiver.recv().await,
        None => None,
    }
}

/// A variable of the operator's. `PATH` is used without the project's own folders: links there are not
/// trusted.
fn operators(name: &str, project: Option<&Path>) -> Option<OsString> {
    let value = std::env::var_os(name)?;
    if name != "PATH" {
        return Some(value);
    }
    let is_ours = |folder: &PathBuf| {
        folder.is_absolute()
            && folder
                .canonicalize()
                .is_ok_and(|real| project.is_none_or(|project| !real.starts_with(project)))
    };
    std::env::join_paths(std::env::split_paths(&value).filter(is_ours)).ok()
}
