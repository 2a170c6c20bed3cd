//! Memory of an idle sandbox: its processes' share, and the kernel's memory for it.

use std::time::Duration;

use hotcell_sandbox::pool::{Pool, PoolOptions};
use hotcell_sandbox::{Engine, Policy};

use crate::processes::{children, kib, resident, share};
use crate::ways::{TRUE, good, prime, ready, settle};
use crate::{Row, Samples, Trouble};

/// Label of the rows.
pub const IDLE: &str = "memory of an idle sandbox";
/// Fields of /proc/meminfo for memory of the kernel.
const KERNEL: [&str; 6] =
    ["SReclaimable:", "SUnreclaim:", "KernelStack:", "PageTables:", "SecPageTables:", "Percpu:"];
/// Delay after which the kernel has freed slabs and updated its per-processor counters.
const SETTLE_DELAY: Duration = Duration::from_millis(300);

/// Memory per idle sandbox, in bytes.
#[derive(Clone, Copy, Debug, Default, PartialEq)]
pub struct Idle {
    /// Proportional set size (PSS) of its processes.
    pub processes: f64,
    /// Whether `processes` is resident memory (RSS) instead, which includes memory shared with other
    /// processes, because this user may not read the PSS.
    pub resident: bool,
    /// System-wide difference in kernel memory.
    pub kernel: f64,
}

impl Idle {
    /// The rows of the report.
    #[must_use]
    #[allow(clippy::cast_possible_truncation, clippy::cast_sign_loss)] // below 2^52, and never below 0
    pub fn rows(self) -> Vec<Row> {
        let row = |what: &str, bytes: f64| Row {
            what: what.to_owned(),
            variant: "hot".to_owned(),
            memory_bytes: Some(bytes.max(0.0) as u64),
            ..Row::default()
        };
        let processes = if self.resident { "… its processes (RSS)" } else { "… its processes (PSS)" };
        vec![
            row(IDLE, self.processes + self.kernel),
            row(processes, self.processes),
            row("… the kernel (whole system)", self.kernel),
        ]
    }
}

/// Keeps `count` idle sandboxes, `rounds` times, and returns the medians.
///
/// # Errors
/// When the sandboxes do not become ready.
pub async fn measure(
    engine: &Engine,
    count: u32,
    rounds: u32,
    see: &mut dyn FnMut(u32, u32),
) -> Result<Idle, Trouble> {
    let policy = Policy::new(TRUE);
    // Makes the launcher, its root and the pool of cgroups exist before the first count.
    for _ in 0..3 {
        good(&policy, &engine.run(&policy).await)?;
    }
    let [mut processes, mut kernel] = [Samples::default(), Samples::default()];
    let mut any_resident = false;
    for round in 0..rounds {
        settle(engine).await?;
        tokio::time::sleep(SETTLE_DELAY).await;
        let before = kib("/proc/meminfo", &KERNEL);
        let options = PoolOptions {
            each: count as usize,
            all: count as usize,
            idle: Duration::from_secs(600),
            ..PoolOptions::default()
        };
        let pool = Pool::new(engine.clone(), options);
        prime(&pool, &policy).await?;
        ready(&pool, &policy, count as usize).await?;
        settle(engine).await?;
        tokio::time::sleep(SETTLE_DELAY).await;
        let after = kib("/proc/meminfo", &KERNEL);
        let launcher = engine.launcher_id().await.unwrap_or_default();
        // The second process of each sandbox has no memory of its own until it runs a program.
        let (used, is_resident) = used(&children(launcher));
        any_resident |= is_resident;
        #[allow(clippy::cast_precision_loss)] // far below 2^52
        {
            processes.push(used as f64 / f64::from(count));
            kernel.push((after as f64 - before as f64) * 1024.0 / f64::from(count));
        }
        pool.clear();
        drop(pool);
        see(round + 1, rounds);
    }
    Ok(Idle { processes: processes.median(), resident: any_resident, kernel: kernel.median() })
}

/// Memory of these processes in bytes, and whether it is resident memory instead of the PSS.
fn used(processes: &[u32]) -> (u64, bool) {
    let shares: Option<Vec<u64>> = processes.iter().map(|pid| share(*pid)).collect();
    match shares {
        Some(shares) => (shares.iter().sum(), false),
        None => (processes.iter().map(|pid| resident(&pid.to_string())).sum(), true),
    }
}
