//! What a sandbox costs that waits: its processes' share of memory, and what the kernel holds for it.

use std::time::Duration;

use hotcell_sandbox::pool::{Pool, PoolOptions};
use hotcell_sandbox::{Engine, Policy};

use crate::processes::{children, kib, resident, share};
use crate::ways::{TRUE, good, prime, ready, settle};
use crate::{Row, Samples, Trouble};

/// What the rows say.
pub const IDLE: &str = "memory of an idle sandbox";
/// What of all memory is the kernel's, as /proc/meminfo names it.
const KERNEL: [&str; 6] =
    ["SReclaimable:", "SUnreclaim:", "KernelStack:", "PageTables:", "SecPageTables:", "Percpu:"];
/// The kernel gives slabs back, and counts what each processor holds, with a delay.
const QUIET: Duration = Duration::from_millis(300);

/// Memory per sandbox, bytes.
#[derive(Clone, Copy, Debug, Default, PartialEq)]
pub struct Idle {
    /// Of its processes: their share (PSS) of what they have mapped.
    pub processes: f64,
    /// The share may not be read by this user; it is all that they have in memory (RSS), also what others have too.
    pub resident: bool,
    /// System-wide difference of what is the kernel's.
    pub kernel: f64,
}

impl Idle {
    /// As rows.
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

/// Lets so many sandboxes wait, as often as said; the medians.
///
/// # Errors
/// When they do not become ready.
pub async fn measure(
    engine: &Engine,
    count: u32,
    rounds: u32,
    see: &mut dyn FnMut(u32, u32),
) -> Result<Idle, Trouble> {
    let policy = Policy::new(TRUE);
    // The launcher, its root and the pool of cgroups are there before anything is counted.
    for _ in 0..3 {
        good(&policy, &engine.run(&policy).await)?;
    }
    let [mut processes, mut kernel] = [Samples::default(), Samples::default()];
    let mut any_resident = false;
    for round in 0..rounds {
        settle(engine).await?;
        tokio::time::sleep(QUIET).await;
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
        tokio::time::sleep(QUIET).await;
        let after = kib("/proc/meminfo", &KERNEL);
        let launcher = engine.launcher_id().await.unwrap_or_default();
        // The second process of each has no memory of its own until it runs a program.
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

/// What these processes use, and whether that is what is resident.
fn used(processes: &[u32]) -> (u64, bool) {
    let shares: Option<Vec<u64>> = processes.iter().map(|pid| share(*pid)).collect();
    match shares {
        Some(shares) => (shares.iter().sum(), false),
        None => (processes.iter().map(|pid| resident(&pid.to_string())).sum(), true),
    }
}
