//! Counts the leftovers of a thousand runs, and measures memory growth.

use std::fs;
use std::time::Duration;

use anyhow::{Context, Result, ensure};
use hotcell_bench::processes::{descendants, resident};
use hotcell_bench::ways::TRUE;
use hotcell_bench::{Report, Row};
use hotcell_sandbox::{Engine, Policy};

const RUNS: u32 = 1000;
/// Runs before the first count, which fill pools and buffers.
const WARMUP_RUNS: u32 = 50;

/// Resources that a run could leak.
#[derive(Debug)]
struct Count {
    processes: usize,
    mounts: usize,
    groups: usize,
    descriptors: usize,
    launcher_descriptors: usize,
    engine_memory: u64,
    launcher_memory: u64,
}

/// Runs sandboxes and counts leftovers.
pub async fn measure(report: &mut Report) -> Result<()> {
    let engine = Engine::new();
    engine.keep_ready(2);
    run(&engine, WARMUP_RUNS).await?;
    let before = count(&engine).await?;
    run(&engine, RUNS).await?;
    let after = count(&engine).await?;
    for (variant, memory) in [("engine", after.engine_memory), ("launcher", after.launcher_memory)] {
        report.row(Row {
            what: format!("resident after {RUNS} runs"),
            variant: variant.to_owned(),
            memory_bytes: Some(memory),
            ..Row::default()
        });
    }
    #[allow(clippy::cast_precision_loss)] // small counts
    let grew = |before: usize, after: usize| after as f64 - before as f64;
    for (what, before, after) in [
        ("processes", before.processes, after.processes),
        ("mounts", before.mounts, after.mounts),
        ("cgroups", before.groups, after.groups),
        ("descriptors of the engine", before.descriptors, after.descriptors),
        ("descriptors of the launcher", before.launcher_descriptors, after.launcher_descriptors),
    ] {
        report.at_most(&format!("more {what} after {RUNS} runs"), grew(before, after), 0.0, "");
    }
    #[allow(clippy::cast_precision_loss)] // far below 2^52
    let kib = |before: u64, after: u64| (after as f64 - before as f64) / 1024.0;
    let (engine_grew, launcher_grew) =
        (kib(before.engine_memory, after.engine_memory), kib(before.launcher_memory, after.launcher_memory));
    // Above the allocator's noise; a leak of one kilobyte per run would show as a thousand.
    report.at_most(&format!("KiB that the engine grew in {RUNS} runs"), engine_grew, 256.0, " KiB");
    report.at_most(&format!("KiB that the launcher grew in {RUNS} runs"), launcher_grew, 0.0, " KiB");
    Ok(())
}

async fn run(engine: &Engine, runs: u32) -> Result<()> {
    let policy = Policy::new(TRUE);
    for _ in 0..runs {
        let outcome = engine.run(&policy).await;
        ensure!(outcome.success(), "{TRUE} inside: {:?}", outcome.reason);
    }
    Ok(())
}

async fn count(engine: &Engine) -> Result<Count> {
    ensure!(engine.settle(Duration::from_secs(30)).await, "sandboxes do not go away");
    // Groups are made ahead in the background; wait until their number is stable.
    tokio::time::sleep(Duration::from_millis(200)).await;
    let launcher = engine.launcher_id().await.context("the engine has a launcher")?;
    let entries = |folder: String| fs::read_dir(folder).map_or(0, Iterator::count);
    let lines = |file: String| fs::read_to_string(file).map_or(0, |text| text.lines().count());
    let groups = engine.cgroup_folders().into_iter().map(|folder| {
        let entries = fs::read_dir(folder).into_iter().flatten().flatten();
        entries.filter(|e| e.file_type().is_ok_and(|t| t.is_dir())).count()
    });
    Ok(Count {
        processes: descendants(std::process::id()).len(),
        mounts: lines("/proc/self/mountinfo".into()) + lines(format!("/proc/{launcher}/mountinfo")),
        groups: groups.sum(),
        descriptors: entries("/proc/self/fd".into()),
        launcher_descriptors: entries(format!("/proc/{launcher}/fd")),
        engine_memory: resident("self"),
        launcher_memory: resident(&launcher.to_string()),
    })
}
