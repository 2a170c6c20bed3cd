//! Where the time of a start goes: the steps that hotcell reports, the floor's, and what the floor saves
//! without a step.

use std::collections::BTreeMap;
use std::time::Duration;

use anyhow::{Context, Result, ensure};
use hotcell_sandbox::{Engine, Policy};

use crate::report::Report;
use crate::start::{Floor, FloorFiles, TRUE};
use crate::stats::Samples;

/// The floor's steps that can be left out.
const STEPS: [&str; 20] = [
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

/// Medians of the steps of hotcell and of the floor.
pub async fn measure(files: &FloorFiles, runs: u32, report: &mut Report) -> Result<()> {
    let engine = Engine::new();
    engine.keep_ready(2);
    let policy = Policy::new(TRUE);
    let mut steps: BTreeMap<String, Samples> = BTreeMap::new();
    for _ in 0..runs {
        let outcome = engine.run(&policy).await;
        ensure!(outcome.success(), "{TRUE} inside: {:?}", outcome.reason);
        let times = outcome.timings_us;
        let parts = [
            ("(queue)", times.queue),
            ("(setup)", times.setup),
            ("(exec)", times.exec),
            ("(run)", times.run),
            ("(collect)", times.collect),
            ("(total)", times.total),
        ];
        let parts = parts.map(|(name, us)| (name.to_owned(), us));
        for (step, us) in times.steps.into_iter().chain(parts) {
            steps.entry(step).or_default().push(f64::from(u32::try_from(us).unwrap_or(u32::MAX)));
        }
        engine.settle(Duration::from_secs(5)).await;
        tokio::time::sleep(Duration::from_millis(2)).await;
    }
    let medians = steps.into_iter().map(|(step, times)| (step, times.median())).collect();

    let mut floor = files.command();
    let text = floor.args(["--steps", "--runs"]).arg(runs.to_string()).output().context("the floor")?;
    ensure!(text.status.success(), "the floor: {}", String::from_utf8_lossy(&text.stderr));
    let marks = String::from_utf8(text.stdout)?
        .lines()
        .filter_map(|line| {
            let (us, step) = line.trim_start().split_once("  ")?;
            Some((step.to_owned(), us.parse().ok()?))
        })
        .collect();
    report.steps(medians, marks);
    Ok(())
}

/// What the floor saves without each step, all variants in turn.
pub fn leave_out(files: &FloorFiles, runs: u32, report: &mut Report) -> Result<()> {
    let mut whole = Floor::start(files, &[])?;
    let mut lacking = STEPS
        .into_iter()
        .map(|step| Ok((step, Floor::start(files, &[step])?, Samples::default())))
        .collect::<Result<Vec<_>>>()?;
    let mut times = Samples::default();
    for _ in 0..runs {
        std::thread::sleep(Duration::from_millis(2));
        times.push(whole.run()?);
        for (_, floor, times) in &mut lacking {
            std::thread::sleep(Duration::from_millis(2));
            times.push(floor.run()?);
        }
    }
    let full = times.median();
    let saved = lacking.into_iter().map(|(step, _, times)| (step.to_owned(), full - times.median()));
    report.without(std::iter::once(("nothing (its median)".to_owned(), full)).chain(saved).collect());
    Ok(())
}
