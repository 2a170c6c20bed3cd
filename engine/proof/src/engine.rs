//! Interface to the sandbox engine. No other file of the attacks uses its API.

use std::path::Path;
use std::sync::OnceLock;
use std::time::{Duration, Instant};

pub use hotcell_sandbox::Layer;
use hotcell_sandbox::danger::WeakensTheSandbox;
use hotcell_sandbox::{Bytes, Cause, Confinement, Engine, Finished, Limits, Network, Outcome, Policy};
use tokio::runtime::{Builder, Runtime};

use crate::run::{Run, Setting};
use crate::table::{Row, Set};
use crate::words::{Ending, Wall};

/// Default memory limit of a row in MiB: enough for an interpreter, small enough for a machine with two
/// cores.
const MEMORY_LIMIT_MIB: u64 = 256;
/// Default memory limit of a row whose program has the arena's `/proc`, in MiB.
const MEMORY_LIMIT_OF_ARENA_MIB: u64 = 8192;
/// Default wall-clock limit of a row.
const WALL_LIMIT: Duration = Duration::from_secs(20);

/// Time between a sandbox's answer and its removal.
const TEARDOWN_TIMEOUT: Duration = Duration::from_secs(3);

/// Policy of a row: grants its programs and one file read-only, at the same paths inside, and nothing else.
#[must_use]
pub fn policy(row: &Row, argv: &[String], base: &Path, without: &[Wall]) -> Policy {
    let (program, arguments) =
        argv.split_first().map_or(("/bin/true", &[] as &[String]), |(p, a)| (p.as_str(), a));
    let mut limits = Limits { memory: Bytes::mib(MEMORY_LIMIT_MIB), wall: WALL_LIMIT, ..Limits::default() };
    // Its samples then see the arena's processes, all of which count.
    if without.contains(&Wall::Layer(Layer::MountNs)) || without.contains(&Wall::Layer(Layer::PidNs)) {
        limits.memory = Bytes::mib(MEMORY_LIMIT_OF_ARENA_MIB);
    }
    let mut network = Network::default();
    let mut shown = vec![base.join("bin"), base.join("granted")];
    for set in row.set {
        match *set {
            Set::MemoryMib(n) => limits.memory = Bytes::mib(n),
            Set::Processes(n) => limits.processes = n,
            Set::DiskMib(n) => limits.disk = Bytes::mib(n),
            Set::Files(n) => limits.files = n,
            Set::WallSeconds(n) => limits.wall = Duration::from_secs(n),
            Set::CpuSeconds(n) => limits.cpu_time = Some(Duration::from_secs(n)),
            Set::OutputMib(n) => limits.output = Bytes::mib(n),
            Set::NetworkOff => network = Network::Off,
            Set::ShowSockets => shown.push(base.join("sockets")),
        }
    }
    let policy = Policy::new(program).args(arguments).limits(limits);
    let mut policy = shown.iter().fold(policy, |policy, folder| policy.read_only(folder, folder));
    policy.shape.network = network;
    // A private /proc requires a private pid namespace, so both are removed, and the program sees the
    // arena's.
    let proc = without.contains(&Wall::Layer(Layer::PidNs)).then_some(&Wall::Layer(Layer::MountNs));
    without.iter().chain(proc).fold(policy, |policy, wall| match wall {
        Wall::Layer(layer) => policy.without_layer(*layer, WeakensTheSandbox),
        Wall::Kernel | Wall::Supervisor | Wall::Launcher => policy,
    })
}

/// Runs a policy to its end, and waits until its cleanup is finished.
///
/// All runs share one runtime: the engine's launcher belongs to the runtime in which it was started.
///
/// # Errors
/// When the runtime cannot be made.
pub fn outcome(policy: &Policy) -> std::io::Result<Outcome> {
    block_on(async {
        let outcome = hotcell_sandbox::run(policy).await;
        Engine::shared().settle(TEARDOWN_TIMEOUT).await;
        outcome
    })
}

/// Like [`outcome`], with the files that the run left.
///
/// # Errors
/// When the runtime cannot be made, or the run did not start.
pub fn finished(policy: &Policy) -> std::io::Result<Finished> {
    block_on(async {
        let running = hotcell_sandbox::spawn(policy).await.map_err(|e| std::io::Error::other(e.message))?;
        let finished = running.finish().await;
        Engine::shared().settle(TEARDOWN_TIMEOUT).await;
        Ok(finished)
    })?
}

/// Blocks on a future of the engine.
///
/// # Errors
/// When the runtime cannot be made.
pub fn block_on<T>(what: impl Future<Output = T>) -> std::io::Result<T> {
    static RUNTIME: OnceLock<std::io::Result<Runtime>> = OnceLock::new();
    let runtime = RUNTIME.get_or_init(|| Builder::new_current_thread().enable_all().build());
    let runtime = runtime.as_ref().map_err(|e| std::io::Error::other(e.to_string()))?;
    Ok(runtime.block_on(what))
}

/// Runs a row with some defences knocked out.
#[must_use]
pub fn run(row: &Row, argv: &[String], base: &Path, setting: Setting, without: &[Wall]) -> Run {
    let start = Instant::now();
    let mut policy = policy(row, argv, base, without);
    if setting == Setting::LandlockOnly {
        policy.shape.confinement = Confinement::LandlockOnly;
    }
    let (ending, note, in_force) = match outcome(&policy) {
        Ok(outcome) => {
            let version = Engine::shared().host().landlock.as_ref().copied().unwrap_or(0);
            let on = Layer::ALL.into_iter().filter(|layer| outcome.layers.is_on(*layer));
            let in_force = on.filter(|layer| row.counts(*layer, version)).collect();
            (ending(&outcome), note(&outcome), in_force)
        }
        Err(error) => (Ending::Other(error.to_string()), String::new(), Vec::new()),
    };
    let milliseconds = u64::try_from(start.elapsed().as_millis()).unwrap_or(u64::MAX);
    Run { setting, ending, survivor: false, in_force, note, milliseconds }
}

/// Converts an outcome to the ending of a run.
#[must_use]
pub fn ending(outcome: &Outcome) -> Ending {
    let reason = || outcome.reason.clone().unwrap_or_default();
    let name = || {
        serde_json::to_value(outcome.cause)
            .ok()
            .and_then(|v| v.as_str().map(str::to_owned))
            .unwrap_or_default()
    };
    match outcome.cause {
        Cause::Exited => Ending::Exited(outcome.exit_code.unwrap_or(-1)),
        Cause::Signaled => Ending::Signaled(outcome.signal.clone().unwrap_or_default()),
        Cause::Refused => Ending::Refused(reason()),
        cause if cause.is_limit() => Ending::Limit(name()),
        _ => Ending::Other(format!("{}: {}", name(), reason())),
    }
}

/// Last line of the program, or the engine's reason.
fn note(outcome: &Outcome) -> String {
    let errors = outcome.stderr.to_bytes();
    let text = String::from_utf8_lossy(&errors[errors.len().saturating_sub(600)..]).trim().to_owned();
    match &outcome.reason {
        Some(reason) => format!("{reason}; {text}"),
        None => text,
    }
}
