//! How long a call takes in this process: a fresh store and instance of a small component, arguments in, an answer out, and all of it
//! gone. Prints microseconds, once for each way to have memory. Build it with `--release`.

use std::error::Error;
use std::sync::Arc;
use std::time::{Duration, Instant};

use hotcell_tools::{Allocation, Ask, BoxFuture, Broker, CallRequest, Reply, Runtime, RuntimeOptions};

/// Adds two numbers. Its memory is as large as a small Rust program's.
const ADD: &str = r#"(component
    (core module $m (memory 17) (data (i32.const 1024) "some data")
        (func (export "add") (param i32 i32) (result i32) (i32.add (local.get 0) (local.get 1))))
    (core instance $i (instantiate $m))
    (func (export "add") (param "a" u32) (param "b" u32) (result u32) (canon lift (core func $i "add"))))"#;

const CALLS: usize = 20_000;

struct Nobody;

impl Broker for Nobody {
    fn ask(&self, _: u64, _: Ask) -> BoxFuture<'_, Reply> {
        Box::pin(async { Reply::Done })
    }
}

fn main() -> Result<(), Box<dyn Error>> {
    let tokio = tokio::runtime::Builder::new_current_thread().enable_all().build()?;
    for allocation in [Allocation::Pooled, Allocation::OnDemand] {
        let started = Instant::now();
        let runtime = Runtime::new(&RuntimeOptions { allocation, ..RuntimeOptions::default() })?;
        let ready = started.elapsed();
        let wasm = wat::parse_str(ADD)?;
        let compiled = runtime.compile(&wasm)?;
        let path = std::env::temp_dir().join(format!("hotcell-latency-{}", std::process::id()));
        std::fs::write(&path, &compiled)?;
        let file = std::fs::File::open(&path)?;
        std::fs::remove_file(&path)?;
        let started = Instant::now();
        let add = runtime.load_compiled(file)?;
        let loaded = started.elapsed();
        let request = CallRequest::new("add", r#"{"a":1,"b":2}"#, Arc::new(Nobody));
        let mut times = Vec::with_capacity(CALLS);
        for _ in 0..CALLS {
            let started = Instant::now();
            let answer = tokio.block_on(runtime.call(&add, request.clone()))?;
            times.push(started.elapsed());
            assert_eq!(answer.value.get(), r#"{"result":3}"#);
        }
        times.sort_unstable();
        let us = |time: Duration| time.as_nanos() as f64 / 1_000.0;
        println!(
            "{allocation:?}: runtime {:.0}, load {:.0}, call p50 {:.1}, p99 {:.1}",
            us(ready),
            us(loaded),
            us(times[CALLS / 2]),
            us(times[CALLS * 99 / 100])
        );
    }
    Ok(())
}
