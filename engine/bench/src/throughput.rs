//! Runs per second with a constant number in flight.

use std::ffi::OsString;
use std::sync::atomic::{AtomicU32, Ordering};
use std::time::{Duration, Instant};

use hotcell_sandbox::pool::{Pool, PoolOptions};
use hotcell_sandbox::{Engine, Outcome, Policy};
use tokio::task::JoinSet;

use crate::ways::{self, TRUE, good, prime, settle, time};
use crate::{Row, Samples, Trouble};

/// A way to keep runs in flight.
#[derive(Debug)]
pub enum Stream {
    /// A command, started by one thread per run in flight.
    Command(Vec<OsString>),
    /// Sandboxes made for each run.
    Cold(Engine),
    /// A pool as large as the number in flight. It makes sandboxes while others run; a run that finds none
    /// ready gets a new one.
    Hot(Engine),
}

impl Stream {
    /// The bare spawn.
    #[must_use]
    pub fn bare() -> Self {
        Self::Command(vec![TRUE.into()])
    }

    /// Runs per second.
    async fn rate(&self, in_flight: usize, window: Duration) -> Result<f64, Trouble> {
        match self {
            Self::Command(words) => in_threads(words, in_flight, window),
            Self::Cold(engine) => {
                let rate = in_tasks(in_flight, window, |policy| {
                    let engine = engine.clone();
                    async move { engine.run(&policy).await }
                });
                let rate = rate.await?;
                settle(engine).await.map(|()| rate)
            }
            Self::Hot(engine) => {
                let options = PoolOptions { each: in_flight, all: in_flight, ..PoolOptions::default() };
                let pool = Pool::new(engine.clone(), options);
                prime(&pool, &Policy::new(TRUE)).await?;
                let rate = in_tasks(in_flight, window, |policy| {
                    let pool = pool.clone();
                    async move { pool.run(&policy).await }
                });
                let rate = rate.await?;
                pool.clear();
                drop(pool);
                settle(engine).await.map(|()| rate)
            }
        }
    }
}

/// Numbers in flight and measuring times.
#[derive(Clone, Debug)]
pub struct Load {
    /// Numbers of runs in flight.
    pub in_flight: Vec<usize>,
    /// Duration of each measurement.
    pub window: Duration,
    /// Number of turns of each variant.
    pub rounds: u32,
}

/// Label of a row.
#[must_use]
pub fn what(in_flight: usize) -> String {
    format!("starts, {in_flight} in flight")
}

/// Measures all variants for every number in flight.
pub async fn measure(variants: &[(&str, Stream)], load: &Load, see: &mut dyn FnMut(u32, u32)) -> Vec<Row> {
    let mut rows = Vec::new();
    let all = u32::try_from(load.in_flight.len()).unwrap_or(1) * load.rounds;
    let mut done = 0;
    for &in_flight in &load.in_flight {
        let mut rates: Vec<Result<Samples, Trouble>> =
            variants.iter().map(|_| Ok(Samples::default())).collect();
        for _ in 0..load.rounds {
            for ((_, stream), rates) in variants.iter().zip(&mut rates) {
                let Ok(samples) = rates else { continue };
                match stream.rate(in_flight, load.window).await {
                    Ok(rate) => samples.push(rate),
                    Err(trouble) => *rates = Err(trouble),
                }
            }
            done += 1;
            see(done, all);
        }
        rows.extend(variants.iter().zip(rates).map(|((name, _), rates)| Row {
            what: what(in_flight),
            variant: (*name).to_owned(),
            per_second: rates.as_ref().ok().map(Samples::median),
            failed: rates.err().map(|trouble| trouble.to_string()),
            ..Row::default()
        }));
    }
    rows
}

async fn in_tasks<F>(in_flight: usize, window: Duration, run: impl Fn(Policy) -> F) -> Result<f64, Trouble>
where
    F: Future<Output = Outcome> + Send + 'static,
{
    let policy = Policy::new(TRUE);
    let began = Instant::now();
    let mut flying = JoinSet::new();
    let mut ended = 0u32;
    loop {
        while flying.len() < in_flight && began.elapsed() < window {
            flying.spawn(run(policy.clone()));
        }
        match flying.join_next().await {
            Some(Ok(outcome)) => good(&policy, &outcome)?,
            Some(Err(e)) => return Err(Trouble::Program(format!("a task ended: {e}"))),
            None => break,
        }
        ended += 1;
    }
    Ok(f64::from(ended) / began.elapsed().as_secs_f64())
}

fn in_threads(words: &[OsString], in_flight: usize, window: Duration) -> Result<f64, Trouble> {
    let ended = AtomicU32::new(0);
    let began = Instant::now();
    std::thread::scope(|scope| {
        let work = || -> Result<(), Trouble> {
            while began.elapsed() < window {
                time(&mut ways::command(words))?;
                ended.fetch_add(1, Ordering::Relaxed);
            }
            Ok(())
        };
        let threads: Vec<_> = (0..in_flight).map(|_| scope.spawn(work)).collect();
        let panicked = |_| Err(Trouble::Program("a thread panicked".to_owned()));
        threads.into_iter().try_for_each(|thread| thread.join().unwrap_or_else(panicked))
    })?;
    Ok(f64::from(ended.load(Ordering::Relaxed)) / began.elapsed().as_secs_f64())
}

#[cfg(test)]
mod tests {
    use super::*;

    #[tokio::test(flavor = "current_thread")]
    async fn throughput_has_rates_or_reasons() {
        let load = Load { in_flight: vec![1, 3], window: Duration::from_millis(20), rounds: 1 };
        let variants = [("bare", Stream::bare()), ("fails", Stream::Command(vec!["/bin/false".into()]))];
        let rows = measure(&variants, &load, &mut |_, _| {}).await;
        let short: Vec<_> =
            rows.iter().map(|r| (r.what.as_str(), r.per_second.is_some(), r.failed.is_some())).collect();
        assert_eq!(
            short,
            [
                ("starts, 1 in flight", true, false),
                ("starts, 1 in flight", false, true),
                ("starts, 3 in flight", true, false),
                ("starts, 3 in flight", false, true),
            ]
        );
    }
}
