//! Cost of work inside: one static program, run outside, inside without Landlock and inside with it, in turn.

use std::os::unix::fs::PermissionsExt;
use std::process::Command;

use anyhow::{Context, Result, ensure};
use hotcell_bench::floor::PROBE;
use hotcell_bench::{Report, Row, Samples};
use hotcell_sandbox::{Engine, Layer, Policy, danger, temporary};

/// Number of turns of each variant; the probe itself takes the best of many batches.
const ROUNDS: usize = 5;
const WORK: [&str; 3] = ["computing", "getpid", "open+read+close"];
const VARIANTS: [&str; 3] = ["outside", "seccomp", "seccomp+landlock"];

/// Measures the table.
pub async fn measure(report: &mut Report) -> Result<()> {
    let engine = Engine::new();
    ensure!(
        !PROBE.is_empty(),
        "this program was built without the probe: no C compiler with the kernel's headers"
    );
    let folder = temporary::folder()?;
    let probe = temporary::file(&folder, "probe", PROBE)?;
    std::fs::set_permissions(&probe, std::fs::Permissions::from_mode(0o755))?;
    let full = Policy::new("/opt/probe").read_only(&probe, "/opt/probe");
    let seccomp = full.clone().without_layer(Layer::Landlock, danger::WeakensTheSandbox);
    // By variant, then by kind of work.
    let mut numbers: [[Samples; 3]; 3] = std::array::from_fn(|_| std::array::from_fn(|_| Samples::default()));
    for _ in 0..ROUNDS {
        let outside = Command::new(&probe).output().context("the probe")?;
        ensure!(outside.status.success(), "the probe: {}", String::from_utf8_lossy(&outside.stderr));
        let texts = [
            String::from_utf8(outside.stdout)?,
            inside(&engine, &seccomp).await?,
            inside(&engine, &full).await?,
        ];
        for (text, row) in texts.iter().zip(&mut numbers) {
            let mut lines = text.lines();
            for samples in row {
                samples.push(lines.next().context("the probe prints three numbers")?.parse()?);
            }
        }
    }
    let least = |variant: usize, work: usize| numbers[variant][work].least();
    for (work, what) in WORK.into_iter().enumerate() {
        for (variant, name) in VARIANTS.into_iter().enumerate() {
            // The first number is already in microseconds.
            let us = if work == 0 { least(variant, work) } else { least(variant, work) / 1000.0 };
            report.row(Row {
                what: what.to_owned(),
                variant: name.to_owned(),
                per_second: Some(1e6 / us),
                ratio_to_bare: Some(least(variant, work) / least(0, work)),
                ..Row::default()
            });
        }
    }
    report.at_most("computing inside / outside", least(2, 0) / least(0, 0), 1.02, " x");
    report.at_most("getpid inside - outside", least(2, 1) - least(0, 1), 40.0, " ns");
    report.at_most("open+read+close, seccomp / outside", least(1, 2) / least(0, 2), 1.10, " x");
    report.at_most("open+read+close, with Landlock / outside", least(2, 2) / least(0, 2), 1.65, " x");
    Ok(())
}

async fn inside(engine: &Engine, policy: &Policy) -> Result<String> {
    let outcome = engine.run(policy).await;
    ensure!(
        outcome.success(),
        "the probe inside: {:?} {}",
        outcome.reason,
        outcome.stderr.text.as_deref().unwrap_or_default()
    );
    outcome.stdout.text.context("the probe prints text")
}
