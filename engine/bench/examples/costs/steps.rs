//! Durations of the steps of a start: those that hotcell reports, the floor's, and how much time the floor
//! saves without a step.

use std::time::{Duration, Instant};

use anyhow::Result;
use hotcell_bench::floor::FloorFiles;
use hotcell_bench::{Report, steps};
use hotcell_sandbox::Engine;

/// Time limit that is never reached.
const NO_TIMEOUT: Duration = Duration::from_secs(3600);

/// Measures the medians of the steps of hotcell and of the floor.
pub async fn measure(files: &FloorFiles, runs: u32, report: &mut Report) -> Result<()> {
    let engine = Engine::new();
    engine.keep_ready(2);
    let until = Instant::now() + NO_TIMEOUT;
    report.steps_us = steps::cold(&engine, runs, until).await?;
    report.hot_steps_us = steps::hot(&engine, runs, until).await?;
    report.floor_steps_us = steps::marks(files, runs)?;
    Ok(())
}

/// Measures how much time the floor saves without each step, all variants in turn.
pub fn leave_out(files: &FloorFiles, runs: u32, report: &mut Report) -> Result<()> {
    report.floor_without_us = steps::leave_out(files, runs, Instant::now() + NO_TIMEOUT, &mut |_, _| {})?;
    Ok(())
}
