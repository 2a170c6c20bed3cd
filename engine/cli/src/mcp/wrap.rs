//! `hotcell mcp wrap`: any MCP server on standard input and output, in a sandbox.
//!
//! Two phases for packages of npx and uvx: their registry alone is reachable while they are locked and installed, and nothing of them runs;
//! then they are read by the guard, and run without a network. The server's lines pass byte for byte.

use std::fs::File;
use std::io;
use std::os::fd::{AsFd, OwnedFd};
use std::path::{Path, PathBuf};
use std::sync::atomic::{AtomicU64, Ordering};
use std::sync::{Arc, Mutex, MutexGuard, PoisonError};
use std::time::{Duration, SystemTime};

use hotcell_client::Started;
use hotcell_config::{Configuration, EnvSetting, Mode, RunSettings, SecretSettings};
use hotcell_deps::package::lookalike::{self, Locked};
use hotcell_deps::package::{self, Ecosystem, NamedPackage};
use hotcell_deps::{DepsError, Purpose};
use hotcell_mcp::pin::{Lines, MAX_LINE_BYTES};
use hotcell_report::RunReport;
use hotcell_sandbox::policy::{HOME, PROJECT, Stdin};
use hotcell_sandbox::{BoxFuture, Bytes, Chunk, Engine, Limits, Running};
use hotcell_state::report::{Code, ErrorReport};
use hotcell_toolchain::Surroundings;
use hotcell_verbs::changes::ChangePolicy;
use hotcell_verbs::execute::{Observer, execute};
use hotcell_verbs::request::{RunRequest, RunTarget};
use tokio::io::AsyncWriteExt;
use tokio::sync::oneshot;
use tokio::time::Instant;
use tokio_util::sync::CancellationToken;

use crate::args::{Common, WrapArgs};
use crate::context::{configuration, current_folder, runtime, state};
use crate::deps::Provider;
use crate::mcp::denials;
use crate::mcp::entry;
use crate::mcp::first_read;
use crate::mcp::pins::Pins;
use crate::mcp::servers;
use crate::signals::interrupted;
use crate::terminal::notes;
use crate::{exit, usage};

use program::{executed, shown_program};
use requests::{Passed, Requests};

mod program;
mod requests;

/// Longest life of a server.
const MAX_LIFE: Duration = Duration::from_secs(365 * 24 * 3600);
/// Stack of a thread that supervises a server; what is not used of it takes no memory.
const STACK_BYTES: usize = 8 << 20;
/// Interval at which the time since the last line is looked at.
const IDLE_INTERVAL: Duration = Duration::from_millis(250);
/// Times between the start of a server and the moments at which memory is given back that its start needed: once it has begun, and once a client has its lists.
const TRIMS: [Duration; 2] = [Duration::from_secs(1), Duration::from_secs(9)];
/// Number of locked packages that are named on standard error.
const MAX_NAMED_PACKAGES: usize = 20;
/// Reason of a server that was ended since nothing passed.
const IDLE: &str = "stopped: nothing passed for the time of --idle";

/// Runs the command; returns its exit status.
pub fn wrap(common: &Common, args: &WrapArgs) -> anyhow::Result<u8> {
    hotcell_sandbox::own_program::save_memory();
    let done = served(common, args, None)?;
    Ok(done.unwrap_or_else(|report| usage::fail(&report, common.json)))
}

/// The client's ends of a server that this process supervises for itself.
struct Ends {
    input: File,
    output: File,
    errors: File,
    stop: CancellationToken,
}

/// Starts a named server in a thread of this process, as `hotcell mcp wrap --name NAME` does in a process of its own.
///
/// # Errors
/// When pipes or a thread cannot be made.
pub fn within(common: &Common, name: &str) -> io::Result<Started> {
    let args = entry::args(name, &[], &[]).map_err(io::Error::other)?;
    let ((from_client, to_server), (from_server, to_client)) = (io::pipe()?, io::pipe()?);
    let (from_errors, errors) = io::pipe()?;
    let file = |end: OwnedFd| File::from(end);
    let stop = CancellationToken::new();
    let ends = Ends {
        input: file(from_client.into()),
        output: file(to_client.into()),
        errors: file(errors.into()),
        stop: stop.clone(),
    };
    let said = ends.errors.try_clone()?;
    let (done, ended) = oneshot::channel();
    // Denials are reported by the owner of the thread.
    let common = Common { quiet: true, json: false, ..common.clone() };
    std::thread::Builder::new().name(format!("wrap-{name}")).stack_size(STACK_BYTES).spawn(move || {
        notes::divert(Some(said));
        let code = served(&common, &args, Some(ends))
            .unwrap_or_else(|error| Err(ErrorReport::new(Code::Internal, format!("{error:#}"))));
        let code = code.unwrap_or_else(|report| {
            notes::say(format!("error: {report}"));
            exit::REFUSED
        });
        notes::divert(None);
        let _ = done.send(code);
    })?;
    Ok(Started {
        input: to_server.into(),
        output: from_server.into(),
        errors: from_errors.into(),
        stop,
        ended,
    })
}

/// Server that is ready to run.
struct Ready {
    argv: Vec<String>,
    workspace: Option<PathBuf>,
    settings: RunSettings,
}

fn served(common: &Common, args: &WrapArgs, ends: Option<Ends>) -> anyhow::Result<Result<u8, ErrorReport>> {
    let began = SystemTime::now();
    // The client chooses the current folder: a project's configuration there does not count.
    let configuration = match configuration(common, None) {
        Ok(configuration) => configuration,
        Err(report) => return Ok(Err(report)),
    };
    let choice = state(common, &configuration);
    let args = &match servers::resolved(&choice, args) {
        Ok(args) => args,
        Err(report) => return Ok(Err(report)),
    };
    let named = match package::named(&args.server) {
        Ok(named) => named,
        Err(why) => return Ok(Err(ErrorReport::new(Code::InvalidValue, why).field("SERVER"))),
    };
    let engine = Engine::for_one_run();
    let runtime = runtime()?;
    let settings = args.settings(&current_folder());
    let ready = match &named {
        None => plain(common, &configuration, args, settings),
        Some(package) => {
            let (engine, runtime, configuration, choice) = (&engine, &runtime, &configuration, &choice);
            let provider = Provider { common, engine, runtime, configuration, choice };
            installed(&provider, args, package, settings)
        }
    };
    // A plain command without a name has no place to keep its tools in: its bytes pass as they are.
    let folder = args.name.as_ref().map(|name| servers::folder(&choice, name)).transpose();
    let folder = match folder {
        Ok(folder) => folder,
        Err(report) => return Ok(Err(report)),
    };
    let pins = folder.as_ref().zip(args.name.as_ref()).map(|(folder, name)| {
        Pins::open(folder, name).map_err(|e| {
            ErrorReport::new(Code::State, format!("the accepted tools of {name}: {e}"))
                .hint(format!("hotcell mcp servers remove {name} forgets them"))
        })
    });
    let pins = match pins.transpose() {
        Ok(pins) => pins,
        Err(report) => return Ok(Err(report)),
    };
    let request = ready.map(|ready| RunRequest {
        what: RunTarget::Program(ready.argv.into_iter().map(Into::into).collect()),
        workspace: ready.workspace,
        kept: None,
        settings: ready.settings,
        limits: limits(),
        stdin: Stdin::Piped,
        keep: ChangePolicy::default(),
    });
    let (request, merged) = match request.and_then(|r| r.merge(&configuration).map(|merged| (r, merged))) {
        Ok(ready) => ready,
        Err(report) => return Ok(Err(report)),
    };
    let mut prepared = match request.prepare(merged, Surroundings::of_this_process()) {
        Ok(prepared) => prepared,
        Err(outcome) => {
            ended(common, &outcome, args, (folder.as_deref(), began));
            return Ok(Ok(exit::of_outcome(&outcome)));
        }
    };
    crate::run::warn_unset(&prepared.unset);
    notes::guard(prepared.scan.as_ref(), common);
    let executed = runtime.block_on(async {
        let activity = Activity::begin();
        let (ends, stopped) = match ends {
            Some(Ends { input, output, errors, stop }) => (Some((input, output, errors)), Some(stop)),
            None => (None, None),
        };
        let mut relay = Relay { activity: activity.clone(), pins, ends };
        let interrupted = async {
            match &stopped {
                Some(stopped) => stopped.cancelled().await,
                None => interrupted().await,
            }
        };
        let stop = async {
            tokio::select! {
                () = interrupted => None,
                () = activity.idle(args.idle) => Some(IDLE),
            }
        };
        // A client may start many, which wait most of the time.
        hotcell_sandbox::own_program::give_back_memory();
        tokio::spawn(async {
            for wait in TRIMS {
                tokio::time::sleep(wait).await;
                hotcell_mcp::pin::free_order_rules();
                hotcell_sandbox::own_program::give_back_memory();
            }
        });
        execute(&engine, &mut prepared, &mut relay, stop).await
    });
    ended(common, &executed.report, args, (folder.as_deref(), began));
    runtime.shutdown_background();
    let is_idle = executed.report.reason.as_deref() == Some(IDLE);
    Ok(Ok(if is_idle { 124 } else { exit::of_outcome(&executed.report) }))
}

/// A command that is there already: the files that it executes are read, where they are shown.
fn plain(
    common: &Common,
    configuration: &Configuration,
    args: &WrapArgs,
    mut settings: RunSettings,
) -> Result<Ready, ErrorReport> {
    let server = shown_program(&args.server, &mut settings.binds, &current_folder());
    for path in executed(&server, &settings.binds) {
        let name = path.file_name().unwrap_or_default().to_string_lossy();
        first_read::require(common, configuration, args.guard, (&name, &path), None)?;
    }
    Ok(Ready { argv: server, workspace: None, settings })
}

/// Limits of a server: no wall clock, no bound on what it prints in a long life, little kept of it.
fn limits() -> Limits {
    Limits {
        memory: Bytes::gib(1),
        wall: MAX_LIFE,
        cpu_time: None,
        processes: 256,
        disk: Bytes::gib(1),
        capture: Bytes(64 << 10),
        output: Bytes(u64::MAX >> 1),
        ..Limits::default()
    }
}

/// Locks, installs and reads a package; the request to run it.
fn installed(
    provider: &Provider<'_>,
    args: &WrapArgs,
    package: &NamedPackage,
    mut settings: RunSettings,
) -> Result<Ready, ErrorReport> {
    let common = provider.common;
    let name = args.name.as_deref().unwrap_or(package.short_name());
    let folder = place(&servers::folder(provider.choice, name)?, package);
    let of_deps = |error: DepsError| match error {
        DepsError::Wrong(report) => report,
        DepsError::Refused(outcome) => {
            let why = outcome.reason.clone().unwrap_or_default().replace("‹deps›: ", "");
            ErrorReport::new(Code::Refused, why).field(package.name.clone())
        }
    };
    let around = Surroundings::of_this_process();
    if !folder.is_dir() && !common.quiet {
        notes::say(format!("{name}: locks {} and what it needs, from its registry", package.name));
    }
    let scene = (provider.configuration, &around);
    let locking = package::lock(provider.engine, scene, &settings, package, &folder);
    let is_new = provider.runtime.block_on(locking).map_err(of_deps)?;
    if !common.quiet {
        say_packages(name, &lookalike::locked(package.ecosystem, &folder), is_new);
    }
    provider.provide(&folder, &mut settings, None, Purpose::Run).map_err(of_deps)?;
    let inside = match package.ecosystem {
        Ecosystem::Npm => Path::new(PROJECT).join("node_modules"),
        Ecosystem::Python => Path::new(HOME).join(".deps/python"),
    };
    let packages = settings.binds.iter().find(|bind| bind.inside == inside).map(|bind| bind.host.clone());
    let packages = packages.ok_or_else(|| {
        ErrorReport::new(Code::Internal, format!("nothing was installed of {}", package.name))
    })?;
    let argv = package::command(package, &packages, &inside)
        .map_err(|why| ErrorReport::new(Code::InvalidValue, why).field(package.name.clone()))?;
    let kept = servers::folder(provider.choice, name)?.join(first_read::FILE);
    first_read::require(common, provider.configuration, args.guard, (name, &packages), Some(&kept))?;
    // The packages were read as a folder, and the command names only them.
    settings.guard = Some(Mode::Off);
    Ok(Ready { argv, workspace: Some(folder), settings })
}

/// Names the packages that were locked, and at each start those whose names are almost those of well-known ones.
fn say_packages(name: &str, packages: &[Locked], is_new: bool) {
    if is_new {
        let shown =
            packages.iter().take(MAX_NAMED_PACKAGES).map(|one| format!("{} {}", one.name, one.version));
        let mut shown = shown.collect::<Vec<_>>().join(", ");
        if let Some(more) = packages.len().checked_sub(MAX_NAMED_PACKAGES).filter(|more| *more > 0) {
            shown.push_str(&format!(" and {more} more"));
        }
        notes::say(format!("{name}: locked {shown}"));
    }
    for one in packages {
        if let Some(known) = one.looks_like {
            notes::say(format!(
                "warning: {name} needs {} {}, whose name is almost that of {known}: make sure that it is meant before you trust this server",
                one.name, one.version
            ));
        }
    }
}

/// Folder of a package's lock file below the server's: one for each package and version.
fn place(server: &Path, package: &NamedPackage) -> PathBuf {
    let fits = |c: char| c.is_ascii_alphanumeric() || "-_.".contains(c);
    let version: String = package.version.chars().map(|c| if fits(c) { c } else { '_' }).collect();
    let version = if version.is_empty() { "newest" } else { &version };
    server.join(format!("{}@{version}", package.name.replace('/', "+")))
}

/// Reports how the server ended, and how to grant what it was denied; keeps the denials of a server that has a name.
fn ended(
    common: &Common,
    outcome: &RunReport,
    args: &WrapArgs,
    (folder, began): (Option<&Path>, SystemTime),
) {
    notes::after_run(outcome, "", common);
    // A host that is granted and still denied was reached without the proxy: granting it again does not help.
    let granted = args.network.as_ref().map(ToString::to_string).unwrap_or_default();
    let mut hosts = denied_hosts(outcome);
    hosts.retain(|host| !granted.split(',').any(|granted| granted == host));
    if let Some((folder, name)) = folder.zip(args.name.as_ref()) {
        let grants = hosts.iter().map(|host| format!("network={host}")).collect();
        denials::keep(folder, name, began, outcome, grants);
    }
    if !common.quiet {
        let server = args.server.first().map_or("", String::as_str);
        for host in hosts {
            notes::say(match &args.name {
                Some(name) => format!("to allow it: hotcell mcp servers grant {name} network={host}"),
                None => format!("to allow it: hotcell mcp wrap --network {host} -- {server} …"),
            });
        }
    }
}

/// Hosts that were denied, each once, at most eight. A server without a network only looks names up: its port is taken to be HTTPS's.
fn denied_hosts(outcome: &RunReport) -> Vec<String> {
    let mut hosts = hotcell_learn::hosts::grantable(&outcome.denials, 443);
    hosts.truncate(8);
    hosts
}

/// Time of the last line in either direction.
#[derive(Clone)]
struct Activity {
    begin: Instant,
    /// Milliseconds after the beginning.
    last: Arc<AtomicU64>,
}

impl Activity {
    fn begin() -> Self {
        Self { begin: Instant::now(), last: Arc::default() }
    }

    fn note(&self) {
        let now = u64::try_from(self.begin.elapsed().as_millis()).unwrap_or(u64::MAX);
        self.last.store(now, Ordering::Relaxed);
    }

    /// Resolves when nothing passed for a time; never for `None`.
    async fn idle(&self, most: Option<Duration>) {
        let Some(most) = most else { return std::future::pending().await };
        loop {
            tokio::time::sleep(IDLE_INTERVAL.min(most)).await;
            let last = Duration::from_millis(self.last.load(Ordering::Relaxed));
            if self.begin.elapsed().saturating_sub(last) >= most {
                return;
            }
        }
    }
}

fn locked(pins: &Mutex<Pins>) -> MutexGuard<'_, Pins> {
    pins.lock().unwrap_or_else(PoisonError::into_inner)
}

/// Passes the streams of a server through.
struct Relay {
    activity: Activity,
    pins: Option<Pins>,
    /// Input, output and errors in place of hotcell's own.
    ends: Option<(File, File, File)>,
}

impl Observer for Relay {
    fn compiles(&mut self, _compiler: &str) {}

    fn prepares(&mut self, what: &str) {
        notes::say(what);
    }

    fn compiler_printed(&mut self, _printed: &str) {}

    fn follow<'a>(&'a mut self, running: &mut Running) -> BoxFuture<'a, ()> {
        let canceller = running.canceller();
        let (input, to) = match self.ends.take() {
            Some((input, output, errors)) => (Ok(input), Some((output, errors))),
            None => (io::stdin().as_fd().try_clone_to_owned().map(File::from), None),
        };
        let pins = self.pins.take().map(|pins| Arc::new(Mutex::new(pins)));
        let (sender, receiver) = tokio::sync::mpsc::channel(1);
        if let (Ok(input), Some(mut to)) = (input, running.stdin()) {
            let mut chunks = crate::streams::chunks(input);
            let (activity, pins) = (self.activity.clone(), pins.clone());
            // The output ends with the server, however long the client keeps the input open.
            let answers = sender.downgrade();
            tokio::spawn(async move {
                let mut requests = Requests::default();
                loop {
                    let chunk = chunks.recv().await;
                    let is_end = chunk.is_none();
                    let refuse = |line: &[u8]| pins.as_ref().and_then(|pins| locked(pins).refuse(line));
                    let done = match chunk {
                        Some(chunk) => {
                            activity.note();
                            match &pins {
                                Some(_) => requests.passed(&chunk, refuse),
                                None => Passed { passed: chunk, ..Passed::default() },
                            }
                        }
                        None => std::mem::take(&mut requests).finish(refuse),
                    };
                    if done.is_too_long {
                        notes::say(format!(
                            "a line of the client of more than {} MiB cannot be checked, and is not passed on",
                            MAX_LINE_BYTES >> 20
                        ));
                    }
                    if let Some(answers) = answers.upgrade().filter(|_| !done.answers.is_empty()) {
                        let _ = answers.send(Chunk::Stdout(done.answers)).await;
                    }
                    if to.write_all(&done.passed).await.is_err() || is_end {
                        return;
                    }
                }
            });
        }
        let (output, activity) = (running.output(), self.activity.clone());
        Box::pin(async move {
            let Some(mut output) = output else { return };
            let ended = canceller.clone();
            let noted = async move {
                let mut lines = Lines::default();
                loop {
                    let due = pins.as_ref().and_then(|pins| locked(pins).due());
                    let chunk = tokio::select! {
                        chunk = output.recv() => chunk,
                        () = tokio::time::sleep(due.unwrap_or_default()), if due.is_some() => {
                            if let Some(pins) = &pins {
                                locked(pins).finish();
                            }
                            continue;
                        }
                    };
                    let Some(chunk) = chunk else { break };
                    activity.note();
                    let chunk = match (chunk, &pins) {
                        (Chunk::Stdout(bytes), Some(pins)) => {
                            let Some(whole) = lines.add(&bytes) else {
                                notes::say(format!(
                                    "stopped: a line of more than {} MiB cannot be checked",
                                    MAX_LINE_BYTES >> 20
                                ));
                                ended.cancel();
                                return;
                            };
                            let mut pins = locked(pins);
                            Chunk::Stdout(whole.into_iter().flat_map(|line| pins.pass(line)).collect())
                        }
                        (chunk, _) => chunk,
                    };
                    if sender.send(chunk).await.is_err() {
                        return;
                    }
                }
                if let Some(pins) = &pins {
                    let last = locked(pins).pass(lines.finish());
                    let _ = sender.send(Chunk::Stdout(last)).await;
                    locked(pins).finish();
                }
            };
            // A client that closed its end of the pipe is gone: the run is cancelled there.
            let printed = async move {
                match to {
                    Some(to) => crate::streams::print_to(receiver, canceller, to).await,
                    None => crate::streams::print(receiver, canceller, true).await,
                }
            };
            let _ = tokio::join!(noted, printed);
        })
    }
}

impl WrapArgs {
    /// Settings of the run.
    fn settings(&self, cwd: &Path) -> RunSettings {
        let binds = [(&self.ro, false), (&self.rw, true)]
            .into_iter()
            .flat_map(|(binds, writable)| binds.iter().map(move |bind| bind.at(cwd, writable)))
            .collect();
        let mut settings = RunSettings {
            network: self.network.clone(),
            binds,
            toolchains: self.toolchain.iter().map(|folder| cwd.join(folder)).collect(),
            env: self.env.clone(),
            guard: self.guard,
            profile: self.profile.clone(),
            // A server finds its base URLs by variables alone: its code is another's.
            secrets: SecretSettings::of_options(&self.secret, !self.secret.is_empty(), false),
            ..RunSettings::default()
        };
        settings.limits.memory = self.memory;
        // The limits of a configuration are for runs of code: a server lives as long as its client.
        settings.limits.timeout = Some(MAX_LIFE);
        settings.env.insert(0, EnvSetting::Set("PYTHONUNBUFFERED".into(), "1".into()));
        settings
    }
}

#[cfg(test)]
mod tests {
    use hotcell_sandbox::outcome::{Cause, Denial};

    use super::*;

    #[test]
    fn grants_name_denied_hosts_once_and_nothing_else() {
        let denial = |layer: &str, target: &str| Denial {
            layer: layer.to_owned(),
            operation: "connect".to_owned(),
            target: target.to_owned(),
            errno: String::new(),
            count: 1,
        };
        let mut outcome = RunReport::without_a_run(Cause::Exited, "");
        outcome.denials = vec![
            denial("network", "api.github.com:443 (not allowed)"),
            denial("network", "api.github.com:443"),
            denial("network", "example.org"),
            denial("network", "x;reboot"),
            denial("network", "\u{202e}evil"),
            denial("seccomp", "ptrace"),
        ];
        assert_eq!(denied_hosts(&outcome), ["api.github.com:443", "example.org:443"]);
    }

    #[tokio::test]
    async fn idle_is_the_time_since_the_last_line() {
        let activity = Activity::begin();
        activity.idle(Some(Duration::from_millis(1))).await;
        activity.note();
        let long =
            tokio::time::timeout(Duration::from_millis(5), activity.idle(Some(Duration::from_secs(3600))));
        assert!(long.await.is_err());
        assert!(tokio::time::timeout(Duration::from_millis(5), activity.idle(None)).await.is_err());
    }
}
