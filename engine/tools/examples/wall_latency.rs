//! What the wall costs: a message to another process and back, a call in this process, and the same call through the
//! confined process, one after the other. Run it in release, on a machine that does nothing else.
//!
//! ```sh
//! cargo run --release -p hotcell-tools --example wall_latency [CALLS]
//! ```

use std::collections::BTreeMap;
use std::io::{Read, Write};
use std::os::fd::{AsFd, OwnedFd};
use std::os::unix::net::UnixStream;
use std::process::{Command, Stdio};
use std::sync::Arc;
use std::time::{Duration, Instant};

use hotcell_tools::{
    Ask, BoxFuture, Broker, CallRequest, Held, Hosts, HostsOptions, Limits, Plugin, Reply, Runtime,
    RuntimeOptions,
};
use tokio_util::sync::CancellationToken;

/// As long as a short call on the wire.
const MESSAGE: usize = 80;
/// Rounds before anything is counted.
const WARM: usize = 500;

type Failed = Box<dyn std::error::Error>;

struct Nobody;

impl Broker for Nobody {
    fn ask(&self, _: u64, _: Ask) -> BoxFuture<'_, Reply> {
        Box::pin(std::future::ready(Reply::Done))
    }
}

fn main() -> Result<(), Failed> {
    let word = std::env::args().nth(1);
    match word.as_deref() {
        Some("tool-host") => return Ok(hotcell_tools::serve()?),
        Some("echo") => return echo(),
        _ => {}
    }
    let calls: usize = word.map_or(Ok(5_000), |word| word.parse())?;
    let socket = bare(calls)?;
    let threads = tokio::runtime::Builder::new_multi_thread().worker_threads(2).enable_all().build()?;
    // On a worker, as a service calls.
    let (inside, through) = threads.block_on(async {
        let inside = tokio::spawn(inside(calls)).await?.map_err(|e| e.to_string())?;
        let through = tokio::spawn(through(calls)).await?.map_err(|e| e.to_string())?;
        Ok::<_, Failed>((inside, through))
    })?;
    println!("socket pair, there and back     {socket:>9.1?}");
    println!("call in this process            {inside:>9.1?}");
    println!("call through the wall           {through:>9.1?}");
    let ratio = through.as_secs_f64() / (3.0 * socket.as_secs_f64() + inside.as_secs_f64());
    println!("of three round trips and a call {:>8.0} %", 100.0 * ratio);
    Ok(())
}

/// The other end of the bare socket pair.
fn echo() -> Result<(), Failed> {
    let mut socket = UnixStream::from(std::io::stdin().as_fd().try_clone_to_owned()?);
    let mut message = [0; MESSAGE];
    while socket.read_exact(&mut message).is_ok() {
        socket.write_all(&message)?;
    }
    Ok(())
}

fn median(mut times: Vec<Duration>) -> Duration {
    times.drain(..WARM);
    times.sort_unstable();
    times[times.len() / 2]
}

fn bare(calls: usize) -> Result<Duration, Failed> {
    let (mut ours, theirs) = UnixStream::pair()?;
    let stdin = Stdio::from(OwnedFd::from(theirs));
    let mut child = Command::new(std::env::current_exe()?).arg("echo").stdin(stdin).spawn()?;
    let (mut times, mut message) = (Vec::new(), [7; MESSAGE]);
    for _ in 0..WARM + calls {
        let begun = Instant::now();
        ours.write_all(&message)?;
        ours.read_exact(&mut message)?;
        times.push(begun.elapsed());
    }
    drop(ours);
    child.wait()?;
    Ok(median(times))
}

const ARGUMENTS: &str = r#"{"a":40,"b":2}"#;

fn component() -> Result<Vec<u8>, wat::Error> {
    wat::parse_str(
        r#"(component
            (core module $m (memory (export "memory") 17)
                (func (export "add") (param i32 i32) (result i32) (i32.add (local.get 0) (local.get 1))))
            (core instance $i (instantiate $m))
            (func (export "add") (param "a" u32) (param "b" u32) (result u32) (canon lift (core func $i "add"))))"#,
    )
}

async fn inside(calls: usize) -> Result<Duration, Box<dyn std::error::Error + Send + Sync>> {
    let runtime = Runtime::new(&RuntimeOptions::default())?;
    let prepared = runtime.load(&component()?)?;
    let mut times = Vec::new();
    for _ in 0..WARM + calls {
        let request = CallRequest::new("add", ARGUMENTS, Arc::new(Nobody));
        let begun = Instant::now();
        runtime.call(&prepared, request).await?;
        times.push(begun.elapsed());
    }
    Ok(median(times))
}

async fn through(calls: usize) -> Result<Duration, Box<dyn std::error::Error + Send + Sync>> {
    let dir = tempfile::tempdir()?;
    let wasm = component()?;
    let path = dir.path().join("add.wasm");
    std::fs::write(&path, &wasm)?;
    let hosts = Hosts::new(HostsOptions::new(std::env::current_exe()?, dir.path().join("cache")))?;
    let plugin = Plugin {
        name: "add".to_owned(),
        digest: hotcell_tools::wall::digest_of(&wasm),
        wasm: path,
        held: Held::default(),
        identities: BTreeMap::new(),
        env: Vec::new(),
        limits: Limits::default(),
        alone: false,
    };
    let begun = Instant::now();
    hosts.describe(&wasm).await?;
    println!("described, compiled, kept       {:>9.1?}", begun.elapsed());
    let ready = hosts.prepare(&plugin).await?;
    println!("process started                 {:>9.1?}", ready.process.unwrap_or_default());
    let begun = Instant::now();
    // Another name of the same component: loaded again, from the cache.
    let other = Plugin { limits: Limits { depth: 63, ..Limits::default() }, ..plugin.clone() };
    hosts.prepare(&other).await?;
    println!("cached component ready          {:>9.1?}", begun.elapsed());
    let broker: Arc<dyn Broker> = Arc::new(Nobody);
    let mut times = Vec::new();
    for _ in 0..WARM + calls {
        let begun = Instant::now();
        hosts.call(&plugin, "add", ARGUMENTS, Arc::clone(&broker), CancellationToken::new()).await?;
        times.push(begun.elapsed());
    }
    hosts.close().await;
    Ok(median(times))
}
