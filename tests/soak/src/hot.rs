//! `--hot COUNT`: prewarmed sandboxes, used one after the other. The last hundred must be as fast as the
//! first.

use std::error::Error;
use std::time::{Duration, Instant};

use hotcell_sandbox::pool::{Pool, PoolOptions};
use hotcell_sandbox::{Engine, Policy};

/// Maximum ratio of the last hundred times to the first.
const MAX_RATIO: f64 = 1.2;
/// Time limit for a sandbox to become ready.
const READY_TIMEOUT: Duration = Duration::from_secs(20);

/// Measures, prints, and returns whether the limit holds.
pub fn measure(count: usize) -> Result<bool, Box<dyn Error>> {
    // Before anything else: it may move this process to a cgroup of its own.
    let engine = Engine::new();
    let runtime = tokio::runtime::Builder::new_current_thread().enable_all().build()?;
    let times = runtime.block_on(times(&Pool::new(engine, PoolOptions::default()), count))?;
    let hundreds: Vec<Duration> = times.chunks_exact(100).map(middle).collect();
    let [first, .., last] = hundreds.as_slice() else { return Err("fewer than two hundred".into()) };
    let ratio = last.as_secs_f64() / first.as_secs_f64();
    let each: Vec<String> = hundreds.iter().map(|time| time.as_micros().to_string()).collect();
    println!("{count} hot sandboxes, the middle of each hundred: {} us", each.join(" "));
    let ok = ratio <= MAX_RATIO;
    println!(
        "the last hundred take {ratio:.2} of the first; at most {MAX_RATIO}: {}",
        if ok { "ok" } else { "FAILED" }
    );
    Ok(ok)
}

fn middle(times: &[Duration]) -> Duration {
    let mut sorted = times.to_vec();
    sorted.sort_unstable();
    sorted[sorted.len() / 2]
}

async fn times(pool: &Pool, count: usize) -> Result<Vec<Duration>, Box<dyn Error>> {
    let policy = Policy::new("/bin/true");
    // After these runs the shape is pooled, and caches have their size.
    for _ in 0..20 {
        pool.run(&policy).await;
    }
    let mut times = Vec::with_capacity(count);
    while times.len() < count {
        let until = Instant::now() + READY_TIMEOUT;
        while pool.ready() == 0 {
            if Instant::now() > until {
                return Err(format!("no sandbox was ready in {} s", READY_TIMEOUT.as_secs()).into());
            }
            tokio::time::sleep(Duration::from_micros(500)).await;
        }
        let (hot, begin) = (pool.served().hot, Instant::now());
        let outcome = pool.run(&policy).await;
        let took = begin.elapsed();
        if !outcome.success() {
            return Err(serde_json::to_string(&outcome)?.into());
        }
        // A prewarmed sandbox that had ended meanwhile does not count.
        if pool.served().hot > hot {
            times.push(took);
        }
    }
    Ok(times)
}
