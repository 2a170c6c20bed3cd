//! Ways to start a program, measured in turn: every one once, then every one again, so that other work on the
//! machine affects all of them alike.

use std::ffi::{CStr, OsString};
use std::process::{Command, Stdio};
use std::time::{Duration, Instant};

use hotcell_sandbox::pool::{Pool, PoolOptions};
use hotcell_sandbox::{Engine, Outcome, Policy};
use nix::spawn::{PosixSpawnAttr, PosixSpawnFileActions, posix_spawn};
use nix::sys::wait::{WaitStatus, waitpid};

use crate::floor::Floor;
use crate::{Samples, Trouble};

/// A program that does nothing.
pub const TRUE: &str = "/bin/true";
/// Pause between two measurements, since the kernel removes namespaces after a run and would slow the next
/// one.
const CLEANUP_DELAY: Duration = Duration::from_millis(3);
/// Timeout for the removal of leftovers.
const SETTLE_TIMEOUT: Duration = Duration::from_secs(5);
/// Timeout for a pool to make a sandbox.
const READY_TIMEOUT: Duration = Duration::from_secs(5);
/// A variant slower than this many microseconds, and than twice the fastest, takes part in fewer rounds.
const SLOW_VARIANT_US: f64 = 25_000.0;
/// A slow variant takes part in at least every this many rounds.
const MAX_ROUND_INTERVAL: u32 = 20;

/// A way to start a program and wait for its end.
#[derive(Debug)]
pub enum Way {
    /// `posix_spawn` and `waitpid` of [`TRUE`].
    Bare,
    /// The floor, which measures itself.
    Floor(Floor),
    /// A command with its streams at `/dev/null`.
    Command(Vec<OsString>),
    /// A command whose output is read, and which gets as few variables as in a sandbox: some make an
    /// interpreter read whole files first (`NODE_EXTRA_CA_CERTS`).
    Read(Vec<OsString>),
    /// A run in a sandbox made for it: `Engine::run`.
    Cold(Engine, Policy),
    /// A run in a sandbox that is ready: `Pool::run`.
    Hot(Pool, Policy),
    /// A run by an interpreter that is ready in a sandbox: `Pool::run`.
    Primed(Pool, Policy),
}

impl Way {
    /// Runs in ready sandboxes, from a separate pool.
    #[must_use]
    pub fn hot(engine: &Engine, policy: Policy) -> Self {
        Self::Hot(one(engine, false), policy)
    }

    /// Runs by interpreters ready in sandboxes, from a separate pool.
    #[must_use]
    pub fn primed(engine: &Engine, policy: Policy) -> Self {
        Self::Primed(one(engine, true), policy)
    }

    /// Makes the pool prewarm the policy, which takes repeated requests.
    async fn prime(&self) -> Result<(), Trouble> {
        match self {
            Self::Hot(pool, policy) | Self::Primed(pool, policy) => prime(pool, policy).await,
            _ => Ok(()),
        }
    }

    /// Prepares a start, outside of the measured time.
    async fn prepare(&self) -> Result<(), Trouble> {
        match self {
            Self::Hot(pool, policy) | Self::Primed(pool, policy) => ready(pool, policy, 1).await,
            _ => Ok(()),
        }
    }

    /// Starts the program once; returns the microseconds.
    ///
    /// # Errors
    /// When the program could not be started or failed, or no sandbox became ready.
    pub async fn once(&mut self) -> Result<f64, Trouble> {
        self.prepare().await?;
        let is_primed = matches!(self, Self::Primed(..));
        let us = match self {
            Self::Bare => spawn_bare()?,
            Self::Floor(floor) => floor.run()?,
            Self::Command(words) => time(&mut command(words))?,
            Self::Read(words) => read(&mut command(words))?,
            Self::Cold(engine, policy) => {
                let asked = Instant::now();
                let outcome = engine.run(policy).await;
                let us = micros(asked);
                good(policy, &outcome)?;
                us
            }
            Self::Hot(pool, policy) | Self::Primed(pool, policy) => {
                let before = served(pool, is_primed);
                let asked = Instant::now();
                let outcome = pool.run(policy).await;
                let us = micros(asked);
                good(policy, &outcome)?;
                if served(pool, is_primed) == before {
                    return Err(Trouble::NotHot);
                }
                us
            }
        };
        match self {
            Self::Cold(engine, _) => settle(engine).await?,
            Self::Hot(pool, _) | Self::Primed(pool, _) => settle(pool.engine()).await?,
            _ => {}
        }
        tokio::time::sleep(CLEANUP_DELAY).await;
        Ok(us)
    }
}

/// A pool of one sandbox.
fn one(engine: &Engine, prime: bool) -> Pool {
    let idle = Duration::from_secs(3600);
    Pool::new(engine.clone(), PoolOptions { each: 1, all: 1, idle, prime, ..PoolOptions::default() })
}

/// Number of runs that a prewarmed sandbox served.
fn served(pool: &Pool, primed: bool) -> u64 {
    let served = pool.served();
    if primed { served.primed } else { served.hot }
}

/// A row to be measured.
#[derive(Debug)]
pub struct Variant {
    /// Measured operation.
    pub what: String,
    /// Name in the table.
    pub name: String,
    /// Way to start it.
    pub way: Way,
}

impl Variant {
    /// Makes a variant.
    pub fn new(what: &str, name: &str, way: Way) -> Self {
        Self { what: what.to_owned(), name: name.to_owned(), way }
    }
}

/// Result for one variant.
#[derive(Debug)]
pub struct Measured {
    /// Measured operation.
    pub what: String,
    /// Name of the variant.
    pub name: String,
    /// Measured times.
    pub times: Samples,
    /// Reason why there are no further times.
    pub failed: Option<String>,
}

/// Number of rounds and time limit.
#[derive(Clone, Copy, Debug)]
pub struct Rounds {
    /// Rounds that count.
    pub runs: u32,
    /// Warm-up rounds.
    pub warm: u32,
    /// No round begins after this time, except for the first.
    pub until: Instant,
}

/// Measures all variants in turn. One that fails is dropped.
pub async fn alternate(
    variants: Vec<Variant>,
    rounds: Rounds,
    see: &mut dyn FnMut(u32, u32),
) -> Vec<Measured> {
    let mut all: Vec<(Variant, Measured, f64)> = variants
        .into_iter()
        .map(|variant| {
            let (what, name) = (variant.what.clone(), variant.name.clone());
            (variant, Measured { what, name, times: Samples::default(), failed: None }, 0.0)
        })
        .collect();
    for (variant, measured, _) in &mut all {
        measured.failed = variant.way.prime().await.err().map(|trouble| trouble.to_string());
    }
    for round in 0..rounds.warm + rounds.runs {
        let counts = round.checked_sub(rounds.warm);
        if counts.is_some_and(|n| n > 0) && Instant::now() >= rounds.until {
            break;
        }
        let quickest =
            all.iter().map(|(.., last)| *last).filter(|us| *us > 0.0).fold(f64::INFINITY, f64::min);
        for (variant, measured, last) in &mut all {
            let takes_part = counts.is_none_or(|n| n % seldom(*last, quickest) == 0);
            if measured.failed.is_some() || !takes_part {
                continue;
            }
            match variant.way.once().await {
                Ok(us) if counts.is_some() => measured.times.push(us),
                Ok(us) => *last = us,
                Err(trouble) => measured.failed = Some(trouble.to_string()),
            }
        }
        see(counts.map_or(0, |n| n + 1), rounds.runs);
    }
    all.into_iter().map(|(_, measured, _)| measured).collect()
}

/// Interval of the rounds in which a variant takes part, from its own warm-up time and the fastest one's in
/// microseconds.
#[allow(clippy::cast_possible_truncation, clippy::cast_sign_loss)] // clamped
fn seldom(us: f64, quickest: f64) -> u32 {
    let long = if quickest.is_finite() { SLOW_VARIANT_US.max(2.0 * quickest) } else { SLOW_VARIANT_US };
    (us / long).ceil().clamp(1.0, f64::from(MAX_ROUND_INTERVAL)) as u32
}

/// Runs a policy twice, after which the pool prewarms it.
///
/// # Errors
/// When a run fails.
pub async fn prime(pool: &Pool, policy: &Policy) -> Result<(), Trouble> {
    for _ in 0..2 {
        good(policy, &pool.run(policy).await)?;
    }
    Ok(())
}

/// Waits until `count` sandboxes of a [primed](prime) pool are ready.
///
/// # Errors
/// [`Trouble::NotReady`] after five seconds plus 0.2 s per sandbox, with the engine's error when a sandbox is
/// requested directly.
pub async fn ready(pool: &Pool, policy: &Policy, count: usize) -> Result<(), Trouble> {
    let patience = READY_TIMEOUT + Duration::from_millis(200) * u32::try_from(count).unwrap_or(u32::MAX);
    let until = Instant::now() + patience;
    while pool.ready() < count {
        if Instant::now() > until {
            let why = match pool.engine().acquire(&policy.shape).await {
                Ok(_) => "one made on demand works; the pool made none".to_owned(),
                Err(refusal) => refusal.message,
            };
            return Err(Trouble::NotReady { seconds: patience.as_secs(), why });
        }
        tokio::time::sleep(Duration::from_millis(1)).await;
    }
    // A sandbox counts as ready before its last steps on other processors are done.
    tokio::time::sleep(CLEANUP_DELAY).await;
    Ok(())
}

/// Waits until all leftovers of finished runs are removed.
///
/// # Errors
/// [`Trouble::Unsettled`] after five seconds.
pub async fn settle(engine: &Engine) -> Result<(), Trouble> {
    if engine.settle(SETTLE_TIMEOUT).await { Ok(()) } else { Err(Trouble::Unsettled) }
}

/// Checks that the exit code is 0.
///
/// # Errors
/// [`Trouble::Inside`] with the outcome's reason when it is not.
pub fn good(policy: &Policy, outcome: &Outcome) -> Result<(), Trouble> {
    if outcome.success() {
        return Ok(());
    }
    let program = policy.job.argv.first().map(|p| p.to_string_lossy().into_owned()).unwrap_or_default();
    let ending = || match &outcome.stderr.text {
        Some(text) if !text.trim().is_empty() => text.trim().to_owned(),
        _ => format!("{:?}, exit code {:?}", outcome.cause, outcome.exit_code),
    };
    Err(Trouble::Inside { program, why: outcome.reason.clone().unwrap_or_else(ending) })
}

/// Spawns [`TRUE`] and waits for its end; returns the microseconds.
///
/// # Errors
/// When the program cannot be started.
pub fn spawn_bare() -> Result<f64, Trouble> {
    let cannot = |e: nix::errno::Errno| Trouble::Program(format!("{TRUE}: {e}"));
    let (actions, attributes) = (PosixSpawnFileActions::init(), PosixSpawnAttr::init());
    let (actions, attributes) = (actions.map_err(cannot)?, attributes.map_err(cannot)?);
    let asked = Instant::now();
    let env = [c"PATH=/usr/bin:/bin", c"LANG=C.UTF-8"];
    let pid = posix_spawn::<str, &CStr, &CStr>(TRUE, &actions, &attributes, &[c"/bin/true"], &env);
    let status = waitpid(pid.map_err(cannot)?, None).map_err(cannot)?;
    let us = micros(asked);
    match status {
        WaitStatus::Exited(_, 0) => Ok(us),
        other => Err(Trouble::Program(format!("{TRUE}: {other:?}"))),
    }
}

/// A command from its words, with empty input.
#[must_use]
pub fn command(words: &[OsString]) -> Command {
    let mut command = Command::new(words.first().map_or("", |w| w.to_str().unwrap_or_default()));
    command.args(words.get(1..).unwrap_or_default()).stdin(Stdio::null());
    command
}

/// Runs a command to its end without reading output; returns the microseconds.
///
/// # Errors
/// When it cannot be started, or fails.
pub fn time(command: &mut Command) -> Result<f64, Trouble> {
    command.stdout(Stdio::null()).stderr(Stdio::null());
    let asked = Instant::now();
    let status = command.status();
    let us = micros(asked);
    match status {
        Ok(status) if status.success() => Ok(us),
        Ok(status) => Err(Trouble::Program(format!("{}: {status}", command.get_program().display()))),
        Err(e) => Err(Trouble::Program(format!("{}: {e}", command.get_program().display()))),
    }
}

/// Runs a command to its end and reads its output; returns the microseconds.
fn read(command: &mut Command) -> Result<f64, Trouble> {
    command.env_clear();
    for name in ["PATH", "HOME"] {
        command.envs(std::env::var_os(name).map(|value| (name, value)));
    }
    command.env("LANG", "C.UTF-8");
    let asked = Instant::now();
    let output = command.output();
    let us = micros(asked);
    match output {
        Ok(output) if output.status.success() => Ok(us),
        Ok(output) => {
            Err(Trouble::Program(format!("{}: {}", command.get_program().display(), output.status)))
        }
        Err(e) => Err(Trouble::Program(format!("{}: {e}", command.get_program().display()))),
    }
}

/// Microseconds since `since`.
#[must_use]
pub fn micros(since: Instant) -> f64 {
    since.elapsed().as_secs_f64() * 1e6
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn slow_variants_take_part_less_often() {
        for (us, quickest, want) in [
            (0.0, f64::INFINITY, 1),
            (600.0, 600.0, 1),
            (25_000.0, 600.0, 1),
            (60_000.0, 600.0, 3),
            (60_000.0, 40_000.0, 1),
            (9e9, 600.0, 20),
        ] {
            assert_eq!(seldom(us, quickest), want, "{us} {quickest}");
        }
    }

    #[tokio::test(flavor = "current_thread")]
    async fn failing_variant_is_explained_and_others_continue() {
        let variants = vec![
            Variant::new("w", "bare", Way::Bare),
            Variant::new("w", "fails", Way::Command(vec!["/bin/false".into()])),
            Variant::new("w", "missing", Way::Command(vec!["/nonexistent/program".into()])),
            Variant::new("w", "true", Way::Command(vec![TRUE.into()])),
        ];
        let mut seen = Vec::new();
        // The time limit has already passed; one round is measured all the same.
        let rounds = Rounds { runs: 5, warm: 1, until: Instant::now() };
        let measured = alternate(variants, rounds, &mut |done, of| seen.push((done, of))).await;
        let short: Vec<_> = measured.iter().map(|m| (m.times.len(), m.failed.is_some())).collect();
        assert_eq!(short, [(1, false), (0, true), (0, true), (1, false)]);
        assert!(measured[2].failed.as_ref().is_some_and(|why| why.contains("/nonexistent/program")));
        assert_eq!(seen, [(0, 5), (1, 5)]);
    }
}
