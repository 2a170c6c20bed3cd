//! Durations of the steps of a start: the marks that hotcell records, the floor's marks, and the time that
//! the floor saves without a step. Only the last one includes the effect of a step on other steps.

use std::collections::BTreeMap;
use std::time::{Duration, Instant};

use hotcell_sandbox::outcome::Timings;
use hotcell_sandbox::pool::Pool;
use hotcell_sandbox::{Engine, Policy};

use crate::floor::{Floor, FloorFiles};
use crate::ways::{TRUE, Way, good, prime, ready, settle};
use crate::{Samples, Trouble};

/// Steps that the floor can leave out.
pub const STEPS: [&str; 20] = [
    "user_ns",
    "pid_ns",
    "ipc_ns",
    "uts_ns",
    "time_ns",
    "cgroup",
    "cgroup_ns",
    "net_ns",
    "lo_up",
    "proc",
    "masks",
    "ceiling",
    "scratch",
    "devpts",
    "caps",
    "seccomp",
    "landlock",
    "readback",
    "rlimits",
    "init_filter",
];
/// Pause in which the kernel removes namespaces.
const CLEANUP_DELAY: Duration = Duration::from_millis(2);

/// Medians of `timings_us` of cold runs in microseconds: phases in brackets, then the marked steps.
///
/// # Errors
/// When a run fails.
pub async fn cold(engine: &Engine, runs: u32, until: Instant) -> Result<BTreeMap<String, f64>, Trouble> {
    let policy = Policy::new(TRUE);
    let mut steps = Steps::default();
    for run in 0..runs {
        if run > 0 && Instant::now() >= until {
            break;
        }
        let outcome = engine.run(&policy).await;
        good(&policy, &outcome)?;
        steps.take(outcome.timings_us);
        settle(engine).await?;
        tokio::time::sleep(CLEANUP_DELAY).await;
    }
    Ok(steps.medians())
}

/// Like [`cold`], for hot runs.
///
/// # Errors
/// When a run fails or no sandbox becomes ready.
pub async fn hot(engine: &Engine, runs: u32, until: Instant) -> Result<BTreeMap<String, f64>, Trouble> {
    let Way::Hot(pool, policy) = Way::hot(engine, Policy::new(TRUE)) else { return Ok(BTreeMap::new()) };
    prime(&pool, &policy).await?;
    let mut steps = Steps::default();
    for run in 0..runs {
        if run > 0 && Instant::now() >= until {
            break;
        }
        steps.take(one_hot(&pool, &policy).await?);
    }
    Ok(steps.medians())
}

async fn one_hot(pool: &Pool, policy: &Policy) -> Result<Timings, Trouble> {
    ready(pool, policy, 1).await?;
    let outcome = pool.run(policy).await;
    good(policy, &outcome)?;
    settle(pool.engine()).await?;
    Ok(outcome.timings_us)
}

#[derive(Default)]
struct Steps(BTreeMap<String, Samples>);

impl Steps {
    fn take(&mut self, times: Timings) {
        let phases = [
            ("(queue)", times.queue),
            ("(setup)", times.setup),
            ("(exec)", times.exec),
            ("(run)", times.run),
            ("(collect)", times.collect),
            ("(total)", times.total),
        ];
        let phases = phases.map(|(name, us)| (name.to_owned(), us));
        for (step, us) in times.steps.into_iter().chain(phases) {
            self.0.entry(step).or_default().push(f64::from(u32::try_from(us).unwrap_or(u32::MAX)));
        }
    }

    fn medians(self) -> BTreeMap<String, f64> {
        self.0.into_iter().map(|(step, times)| (step, times.median())).collect()
    }
}

/// Median times from the request to the end of each step of the floor, in order, in microseconds.
///
/// # Errors
/// When the floor fails.
pub fn marks(files: &FloorFiles, runs: u32) -> Result<Vec<(String, f64)>, Trouble> {
    let mut floor = files.command();
    let told = floor.args(["--steps", "--runs"]).arg(runs.to_string()).output();
    let told = told.map_err(|e| Trouble::Floor(e.to_string()))?;
    if !told.status.success() {
        return Err(Trouble::Floor(String::from_utf8_lossy(&told.stderr).trim().to_owned()));
    }
    let mark = |line: &str| {
        let (us, step) = line.trim_start().split_once("  ")?;
        Some((step.to_owned(), us.parse().ok()?))
    };
    Ok(String::from_utf8_lossy(&told.stdout).lines().filter_map(mark).collect())
}

/// Time that the floor's median saves without each step, in microseconds, all variants in turn. The first
/// entry is the median with all steps.
///
/// # Errors
/// When the floor fails.
pub fn leave_out(
    files: &FloorFiles,
    runs: u32,
    until: Instant,
    see: &mut dyn FnMut(u32, u32),
) -> Result<Vec<(String, f64)>, Trouble> {
    let mut whole = Floor::start(files, &[])?;
    let mut lacking = STEPS
        .into_iter()
        .map(|step| Ok((step, Floor::start(files, &[step])?, Samples::default())))
        .collect::<Result<Vec<_>, Trouble>>()?;
    let mut times = Samples::default();
    for run in 0..runs {
        if run > 0 && Instant::now() >= until {
            break;
        }
        std::thread::sleep(CLEANUP_DELAY);
        times.push(whole.run()?);
        for (_, floor, times) in &mut lacking {
            std::thread::sleep(CLEANUP_DELAY);
            times.push(floor.run()?);
        }
        see(run + 1, runs);
    }
    let full = times.median();
    let saved = lacking.into_iter().map(|(step, _, times)| (step.to_owned(), full - times.median()));
    Ok(std::iter::once(("nothing (its median)".to_owned(), full)).chain(saved).collect())
}
