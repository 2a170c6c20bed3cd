//! The one executor of a prepared run, for every front end: compile step, program, report, changes.

use std::io;
use std::pin::Pin;
use std::time::Duration;

use hotcell_report::RunReport;
use hotcell_sandbox::outcome::Cause;
use hotcell_sandbox::{BoxFuture, Changed, Home, Policy, Running, Spawn};

use crate::compile::Built;
use crate::request::Prepared;

/// Maximum time that the last output of a stopped run is waited for.
const SETTLE_TIMEOUT: Duration = Duration::from_secs(2);

/// Follows one run on behalf of a front end.
pub trait Observer: Send {
    /// Reports that a compiler starts, by its name.
    fn compiles(&mut self, compiler: &str);

    /// Reports a slow preparation that happens only once, in words for a person who waits.
    fn prepares(&mut self, what: &str);

    /// Takes the compiler's output: all of it, once, before the program starts or in place of it.
    fn compiler_printed(&mut self, printed: &str);

    /// Takes the streams of the program, which has just started, and follows them to their end.
    fn follow<'a>(&'a mut self, running: &mut Running) -> BoxFuture<'a, ()>;
}

/// An observer that looks at nothing: the outcome holds the captured output.
#[derive(Debug)]
pub struct Unobserved;

impl Observer for Unobserved {
    fn compiles(&mut self, _compiler: &str) {}

    fn prepares(&mut self, _what: &str) {}

    fn compiler_printed(&mut self, _printed: &str) {}

    fn follow<'a>(&'a mut self, _running: &mut Running) -> BoxFuture<'a, ()> {
        Box::pin(std::future::ready(()))
    }
}

/// Result of an execution.
#[derive(Debug)]
pub struct Executed {
    /// Report of the run, with the guard's findings, the compile step and the changes.
    pub report: RunReport,
    /// Why the changes cannot be told or taken over, although the request needs them.
    pub changes_error: Option<io::Error>,
    /// True when the run was stopped before its last output was followed to the end.
    pub abandoned: bool,
}

/// Runs a prepared request once, in a sandbox of `spawn`; its resources are released when it is dropped. `stop` resolves when the run has to end; its value is the reason, or
/// `None` for a cancelled run.
pub async fn execute(
    spawn: &dyn Spawn,
    prepared: &mut Prepared,
    observer: &mut dyn Observer,
    stop: impl Future<Output = Option<&'static str>> + Send,
) -> Executed {
    let mut stop = Stop { future: std::pin::pin!(stop), reason: None };
    let Performed { mut report, changed, home, abandoned } =
        perform(spawn, prepared, observer, &mut stop).await;
    crate::elsewhere::take(&mut report);
    prepared.sign(&mut report);
    let mut changes_error = None;
    if let Some(before) = prepared.before.take() {
        let success = report.success();
        changes_error = before.collect(changed, &mut report, success).await.err();
    }
    if let Some(outputs) = prepared.outputs.take().filter(|_| report.usage.wall_us.is_some()) {
        let taken = tokio::task::spawn_blocking(move || {
            if let Some(home) = home {
                outputs.from_home(&home);
            }
            outputs.finish()
        });
        report.outputs = taken.await.ok();
    }
    Executed { report, changes_error, abandoned }
}

/// Runs a policy that needs nothing before and after the program, once, in a sandbox of `spawn`; `stop` as in [`execute()`].
pub async fn execute_policy(
    spawn: &dyn Spawn,
    policy: &Policy,
    observer: &mut dyn Observer,
    stop: impl Future<Output = Option<&'static str>> + Send,
) -> Executed {
    let mut stop = Stop { future: std::pin::pin!(stop), reason: None };
    let Performed { mut report, abandoned, .. } = begin(spawn, policy, observer, &mut stop).await;
    crate::elsewhere::take(&mut report);
    Executed { report, changes_error: None, abandoned }
}

/// A stop signal, which resolves once.
struct Stop<'a, F> {
    future: Pin<&'a mut F>,
    /// Result of the signal.
    reason: Option<Option<&'static str>>,
}

impl<F: Future<Output = Option<&'static str>>> Stop<'_, F> {
    /// Waits for the signal; returns at once if it was there already.
    async fn wait(&mut self) {
        if self.reason.is_none() {
            self.reason = Some(self.future.as_mut().await);
        }
    }

    const fn is_there(&self) -> bool {
        self.reason.is_some()
    }

    /// Outcome of a run that was stopped before its program started.
    fn outcome(&self) -> RunReport {
        let why = self.reason.flatten().unwrap_or("stopped: cancelled before it began");
        RunReport::without_a_run(Cause::Cancelled, why)
    }
}

struct Performed {
    report: RunReport,
    changed: Option<Changed>,
    home: Option<Home>,
    abandoned: bool,
}

impl From<RunReport> for Performed {
    fn from(report: RunReport) -> Self {
        Self { report, changed: None, home: None, abandoned: false }
    }
}

async fn perform<F: Future<Output = Option<&'static str>> + Send>(
    spawn: &dyn Spawn,
    prepared: &Prepared,
    observer: &mut dyn Observer,
    stop: &mut Stop<'_, F>,
) -> Performed {
    let mut compiled = None;
    if let Some(build) = &prepared.build {
        observer.compiles(&build.compiler());
        let built = build.run(spawn, stop.wait(), &mut |what| observer.prepares(what)).await;
        match built {
            Built::Ready(printed, compile) => {
                observer.compiler_printed(&printed);
                compiled = Some(compile);
            }
            Built::Failed(outcome) => {
                observer.compiler_printed(&String::from_utf8_lossy(&outcome.stderr.to_bytes()));
                return (*outcome).into();
            }
        }
    }
    let mut performed = begin(spawn, &prepared.policy, observer, stop).await;
    performed.report.compile = compiled;
    performed
}

/// Starts the program, and follows it to its end.
async fn begin<F: Future<Output = Option<&'static str>> + Send>(
    spawn: &dyn Spawn,
    policy: &Policy,
    observer: &mut dyn Observer,
    stop: &mut Stop<'_, F>,
) -> Performed {
    let started = tokio::select! {
        biased;
        () = stop.wait() => return stop.outcome().into(),
        started = spawn.spawn(policy) => started,
    };
    match started {
        Ok(running) => follow(running, observer, stop).await,
        Err(refusal) => RunReport::from(refusal).into(),
    }
}

/// Follows a started program and its output to the end.
async fn follow<F: Future<Output = Option<&'static str>> + Send>(
    mut running: Running,
    observer: &mut dyn Observer,
    stop: &mut Stop<'_, F>,
) -> Performed {
    let canceller = running.canceller();
    let mut following = observer.follow(&mut running);
    let mut ending = running.finish();
    let mut is_followed = false;
    let mut finished = loop {
        tokio::select! {
            finished = &mut ending => break finished,
            () = &mut following, if !is_followed => is_followed = true,
            () = stop.wait(), if !stop.is_there() => canceller.cancel(),
        }
    };
    if let Some(Some(reason)) = stop.reason
        && finished.outcome.cause == Cause::Cancelled
    {
        finished.outcome.reason = Some(reason.to_owned());
    }
    // A consumer may be slow to read the last output; a stop signal ends the wait.
    let settles = stop.is_there() || finished.outcome.cause == Cause::Cancelled;
    let mut abandoned = false;
    if !is_followed {
        let was_stopped = stop.is_there();
        tokio::select! {
            biased;
            () = &mut following => {}
            () = stop.wait(), if !was_stopped => abandoned = true,
            () = tokio::time::sleep(SETTLE_TIMEOUT), if settles => {}
        }
    }
    Performed { report: finished.outcome.into(), changed: finished.changed, home: finished.home, abandoned }
}
