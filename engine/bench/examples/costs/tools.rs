//! Tools as components: a call in this process, one through the sandboxed process, and beside both a bare
//! message to another process and back; throughput in bytes; leftovers of many calls; time until components
//! are ready.

use std::collections::BTreeMap;
use std::fs;
use std::io::{Read, Write};
use std::os::fd::OwnedFd;
use std::os::unix::net::UnixStream;
use std::path::{Path, PathBuf};
use std::process::Command;
use std::sync::Arc;
use std::time::Instant;

use anyhow::{Context, Result, ensure};
use hotcell_bench::processes::resident;
use hotcell_bench::ways::micros;
use hotcell_bench::{Report, Row, Samples};
use hotcell_sandbox::Bytes;
use hotcell_tools::{
    Ask, BoxFuture, Broker, CallRequest, Held, Hosts, HostsOptions, Limits, Plugin, Reply, Runtime,
    RuntimeOptions,
};
use serde_json::{Value, json};
use tokio_util::sync::CancellationToken;

use crate::Options;

/// Component that adds two numbers, with as much memory as a small Rust program's.
pub const ADD: &str = r#"(component
    (core module $m (memory 17) (data (i32.const 1024) "some data")
        (func (export "add") (param i32 i32) (result i32) (i32.add (local.get 0) (local.get 1))))
    (core instance $i (instantiate $m))
    (func (export "add") (param "a" u32) (param "b" u32) (result u32) (canon lift (core func $i "add"))))"#;
const ARGUMENTS: &str = r#"{"a":40,"b":2}"#;
/// Size of a small call's frame, in bytes.
const MESSAGE_BYTES: usize = 128;
/// Calls before the measurement.
const WARMUP_CALLS: u32 = 200;
/// Number of calls whose leftovers are counted.
const CALLS: u32 = 10_000;
/// Number of calls of each kind with one mebibyte.
const LARGE_CALLS: u32 = 50;

struct Nobody;

impl Broker for Nobody {
    fn ask(&self, _: u64, _: Ask) -> BoxFuture<'_, Reply> {
        Box::pin(async { Reply::Done })
    }
}

/// Measures the table.
pub async fn measure(options: &Options, report: &mut Report) -> Result<()> {
    let hotcell =
        crate::start::whole_process(options)?.context("tools need the hotcell executable: --hotcell")?;
    let work = tempfile::tempdir()?;
    small(&hotcell, work.path(), options.runs * 10, report).await?;
    match options.plugins.as_deref() {
        Some(plugins) => with_plugins(&hotcell, work.path(), plugins, report).await?,
        None => eprintln!(
            "not measured: the plugins; name their folder with --plugins (scripts/plugins builds them)"
        ),
    }
    Ok(())
}

/// Calls a small component in this process and in the sandboxed one, and sends a bare message, in turn.
async fn small(hotcell: &Path, work: &Path, runs: u32, report: &mut Report) -> Result<()> {
    let wasm = wat::parse_str(ADD)?;
    let runtime = Runtime::new(&RuntimeOptions::default())?;
    let prepared = runtime.load(&wasm)?;
    let hosts = Hosts::new(HostsOptions::new(hotcell, work.join("cache")))?;
    let plugin = plugin("add", &wasm, work)?;
    let ready = hosts.prepare(&plugin).await?;
    ensure!(ready.process.is_some(), "a process is started");
    let mut alone = Samples::from_iter(Vec::new());
    for run in 0..WARMUP_CALLS + runs {
        let begin = Instant::now();
        runtime.call(&prepared, CallRequest::new("add", ARGUMENTS, Arc::new(Nobody))).await?;
        if run >= WARMUP_CALLS {
            alone.push(micros(begin));
        }
    }
    let mut peer = Peer::start()?;
    let [mut bare, mut within, mut through] = [const { Vec::new() }; 3].map(Samples::from_iter);
    for run in 0..WARMUP_CALLS + runs {
        let begin = Instant::now();
        peer.round_trip()?;
        let one = micros(begin);
        let begin = Instant::now();
        runtime.call(&prepared, CallRequest::new("add", ARGUMENTS, Arc::new(Nobody))).await?;
        let two = micros(begin);
        let begin = Instant::now();
        call(&hosts, &plugin, "add", ARGUMENTS).await?;
        let three = micros(begin);
        if run >= WARMUP_CALLS {
            bare.push(one);
            within.push(two);
            through.push(three);
        }
    }
    drop(peer);
    let what = "a call of a small component";
    report.row(Row::of_times(what, "in this process, one after the other", &alone));
    report.row(Row::of_times(what, "in this process, in turn with the next two", &within));
    report.row(Row::of_times(what, "through the confined process", &through));
    report.row(Row::of_times(
        &format!("{MESSAGE_BYTES} bytes to another process and back"),
        "socket pair",
        &bare,
    ));
    report.at_most("a call in this process, one after the other, p50", alone.median(), 15.0, " us");
    let most = 3.0 * bare.median() + within.median();
    report.at_most(
        "a call through the confined process, p50, beside 3 x the socket pair and the call in this process",
        through.median() / most,
        1.0,
        " x",
    );

    // Counts in the host process as well as in this one.
    let host = tool_host(hotcell).context("the tool host's process is not to be found")?;
    for (variant, process) in
        [("in this process", "self".to_owned()), ("the confined process", host.to_string())]
    {
        let before = resident(&process);
        let (mut after, mut counted) = (before, 0);
        for number in 1..=CALLS {
            if variant == "in this process" {
                runtime.call(&prepared, CallRequest::new("add", ARGUMENTS, Arc::new(Nobody))).await?;
            } else {
                call(&hosts, &plugin, "add", ARGUMENTS).await?;
            }
            // A tool host is replaced after a thousand calls, so its last counts are read just before that.
            if number % 50 == 0 {
                match resident(&process) {
                    0 => break,
                    now => (after, counted) = (now, number),
                }
            }
        }
        ensure!(counted > 0, "the tool host was replaced before its memory was looked at");
        #[allow(clippy::cast_precision_loss)] // far below 2^52
        let grew = (after as f64 - before as f64) / f64::from(1 << 20);
        report.at_most(&format!("MiB that it grew in {counted} calls, {variant}"), grew, 5.0, " MiB");
    }
    hosts.close().await;
    Ok(())
}

/// The nine plugins: ready from the cache, and one mebibyte through `files`.
async fn with_plugins(hotcell: &Path, work: &Path, folder: &Path, report: &mut Report) -> Result<()> {
    let mut plugins = Vec::new();
    for entry in fs::read_dir(folder).with_context(|| folder.display().to_string())? {
        let name = entry?.file_name().to_string_lossy().into_owned();
        let wasm = folder.join(&name).join(format!("{name}.wasm"));
        if wasm.is_file() {
            plugins.push(plugin(&name, &fs::read(wasm)?, work)?);
        }
    }
    ensure!(!plugins.is_empty(), "{} has no plugins", folder.display());
    let cache = work.join("cache-of-plugins");
    // Fills the cache.
    let hosts = Hosts::new(HostsOptions::new(hotcell, &cache))?;
    for plugin in &plugins {
        hosts.prepare(plugin).await?;
    }
    hosts.close().await;
    let [mut start, mut process, mut one] = [const { Vec::new() }; 3].map(Samples::from_iter);
    for _ in 0..10 {
        let begin = Instant::now();
        let hosts = Hosts::new(HostsOptions::new(hotcell, &cache))?;
        for plugin in &plugins {
            let ready = hosts.prepare(plugin).await?;
            match (ready.process, ready.component) {
                (Some(took), _) => process.push(took.as_secs_f64() * 1e6),
                (None, Some(component)) => one.push(component.as_secs_f64() * 1e6),
                (None, None) => {}
            }
        }
        start.push(micros(begin));
        hosts.close().await;
    }
    let what = format!("{} plugins ready, from the cache", plugins.len());
    report.row(Row::of_times(&what, "a new process", &start));
    report.row(Row::of_times(&what, "the process alone", &process));
    report.row(Row::of_times("one plugin ready, from the cache", "in a process that is there", &one));
    report.at_most("nine plugins ready, p50", start.median() / 1000.0, 50.0, " ms");
    report.at_most("one plugin ready, p50", one.median() / 1000.0, 5.0, " ms");

    let Some(files) = plugins.iter().find(|plugin| plugin.name == "files") else { return Ok(()) };
    let granted = work.join("granted").to_path_buf();
    fs::create_dir(&granted)?;
    let granted = granted.canonicalize()?;
    let text: String = "0123456789abcde\n".repeat(1 << 16);
    fs::write(granted.join("in"), &text)?;
    let held = Held { write: [granted.clone()].into(), ..Held::default() };
    let files = Plugin { held, ..files.clone() };
    let hosts = Hosts::new(HostsOptions::new(hotcell, &cache))?;
    let read = json!({ "path": granted.join("in") }).to_string();
    let lines = json!({ "path": granted.join("in"), "lines": 1 << 16 }).to_string();
    let write = json!({ "path": granted.join("out"), "content": text }).to_string();
    for (variant, function, arguments) in [
        ("out, as bytes", "read-bytes", &read),
        ("out, as text", "read", &lines),
        ("in, as text", "write", &write),
    ] {
        let path = format!("hotcell:files/files@0.1.0#{function}");
        let mut times = Samples::from_iter(Vec::new());
        for run in 0..LARGE_CALLS + 3 {
            let begin = Instant::now();
            call(&hosts, &files, &path, arguments).await?;
            if run >= 3 {
                times.push(micros(begin));
            }
        }
        report.row(Row::of_times("1 MiB through the plugin files", variant, &times));
        report.at_most(&format!("1 MiB {variant}, p50"), times.median() / 1000.0, 3.0, " ms");
    }
    ensure!(fs::read_to_string(granted.join("out"))? == text, "what was written");
    hosts.close().await;
    Ok(())
}

fn plugin(name: &str, wasm: &[u8], work: &Path) -> Result<Plugin> {
    let path: PathBuf = work.join(format!("{name}.wasm"));
    fs::write(&path, wasm)?;
    Ok(Plugin {
        name: name.to_owned(),
        digest: hotcell_tools::host::digest_of(wasm),
        wasm: path,
        held: Held::default(),
        identities: BTreeMap::new(),
        env: Vec::new(),
        limits: Limits { arguments: Bytes::mib(4), ..Limits::default() },
        alone: false,
        session: None,
    })
}

async fn call(hosts: &Hosts, plugin: &Plugin, path: &str, arguments: &str) -> Result<()> {
    let answer = hosts.call(plugin, path, arguments, Arc::new(Nobody), CancellationToken::new()).await?;
    ensure!(!answer.is_error, "{}", serde_json::from_str::<Value>(answer.value.get())?);
    Ok(())
}

/// A `cat` process at the other end of a socket pair.
struct Peer {
    socket: UnixStream,
    child: std::process::Child,
}

impl Peer {
    fn start() -> Result<Self> {
        let (socket, theirs) = UnixStream::pair()?;
        let out = OwnedFd::from(theirs.try_clone()?);
        let child = Command::new("cat").stdin(OwnedFd::from(theirs)).stdout(out).spawn()?;
        Ok(Self { socket, child })
    }

    fn round_trip(&mut self) -> Result<()> {
        let mut message = [7; MESSAGE_BYTES];
        self.socket.write_all(&message)?;
        Ok(self.socket.read_exact(&mut message)?)
    }
}

impl Drop for Peer {
    fn drop(&mut self) {
        let _ = self.socket.shutdown(std::net::Shutdown::Both);
        let _ = self.child.wait();
    }
}

/// Process id of the running tool host, found by its command line. `hotcell` is this benchmark's own copy of
/// the program.
fn tool_host(hotcell: &Path) -> Option<u32> {
    let mut all: Vec<u32> = fs::read_dir("/proc")
        .ok()?
        .flatten()
        .filter_map(|entry| {
            let pid = entry.file_name().to_str()?.parse().ok()?;
            let line = fs::read(entry.path().join("cmdline")).ok()?;
            let mut words = line.split(|byte| *byte == 0);
            let is = words.next()? == hotcell.as_os_str().as_encoded_bytes() && words.next()? == b"tool-host";
            is.then_some(pid)
        })
        .collect();
    all.sort_unstable();
    all.pop()
}
