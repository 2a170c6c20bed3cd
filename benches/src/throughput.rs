//! Sixteen starts in flight: how many a second.

use std::sync::atomic::{AtomicU32, Ordering};
use std::time::Instant;

use anyhow::{Result, ensure};
use hotcell_sandbox::{Engine, Policy};
use tokio::task::JoinSet;

use crate::report::{Report, Row};
use crate::start::{TRUE, bubblewrap, time};
use crate::stats::Samples;

const IN_FLIGHT: u8 = 16;
/// The variants take turns this often.
const ROUNDS: u32 = 3;

/// Measures the table.
pub async fn measure(runs: u32, report: &mut Report) -> Result<()> {
    let engine = Engine::new();
    engine.keep_ready(IN_FLIGHT.into());
    let each = (runs / ROUNDS).max(IN_FLIGHT.into());
    let [mut bare, mut cold, mut peer] = [const { Vec::new() }; 3].map(Samples::from_iter);
    for _ in 0..ROUNDS {
        bare.push(in_threads(each, || std::process::Command::new(TRUE))?);
        cold.push(cold_per_second(&engine, each).await?);
        ensure!(engine.settle(std::time::Duration::from_secs(30)).await, "sandboxes do not go away");
        peer.push(in_threads(each, bubblewrap)?);
    }
    let what = format!("starts, {IN_FLIGHT} in flight");
    let row = |variant: &str, rate: &Samples| Row {
        what: what.clone(),
        variant: variant.to_owned(),
        per_second: Some(rate.median()),
        ..Row::default()
    };
    report.table(vec![row("bare", &bare), row("cold", &cold), row("bubblewrap", &peer)]);
    Ok(())
}

async fn cold_per_second(engine: &Engine, runs: u32) -> Result<f64> {
    let began = Instant::now();
    let mut flying = JoinSet::new();
    let mut started = 0;
    while started < runs || !flying.is_empty() {
        while started < runs && flying.len() < usize::from(IN_FLIGHT) {
            let engine = engine.clone();
            flying.spawn(async move { engine.run(&Policy::new(TRUE)).await });
            started += 1;
        }
        if let Some(outcome) = flying.join_next().await {
            let outcome = outcome?;
            ensure!(outcome.success(), "{TRUE} inside: {:?}", outcome.reason);
        }
    }
    Ok(f64::from(runs) / began.elapsed().as_secs_f64())
}

fn in_threads(runs: u32, command: impl Fn() -> std::process::Command + Sync) -> Result<f64> {
    let next = AtomicU32::new(0);
    let began = Instant::now();
    std::thread::scope(|scope| {
        let work = || -> Result<()> {
            while next.fetch_add(1, Ordering::Relaxed) < runs {
                time(&mut command())?;
            }
            Ok(())
        };
        let threads: Vec<_> = (0..IN_FLIGHT).map(|_| scope.spawn(work)).collect();
        threads.into_iter().try_for_each(|t| t.join().unwrap_or_else(|_| anyhow::bail!("a thread panicked")))
    })?;
    Ok(f64::from(runs) / began.elapsed().as_secs_f64())
}
