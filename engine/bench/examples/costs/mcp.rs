//! Cost of the MCP server: a call beside the library's own run, in turn; its start; many callers; leftovers
//! of calls.

use std::ffi::OsStr;
use std::fs;
use std::io::{BufRead, BufReader, Lines, Read, Write};
use std::net::TcpStream;
use std::os::unix::fs::PermissionsExt;
use std::path::Path;
use std::process::{Child, ChildStdin, ChildStdout, Command, Stdio};
use std::time::{Duration, Instant};

use anyhow::{Context, Result, ensure};
use hotcell_bench::processes::{descendants, resident};
use hotcell_bench::ways::{TRUE, micros};
use hotcell_bench::{Report, Row, Samples};
use hotcell_sandbox::pool::{Pool, PoolOptions};
use hotcell_sandbox::{Engine, Policy};
use hotcell_toolchain::{self as toolchain, Surroundings};
use serde_json::{Value, json};

use crate::Options;

/// Time until the next sandbox is ready.
const REFILL_DELAY: Duration = Duration::from_millis(25);
/// Time until the next sandbox with a waiting Python is ready.
const PYTHON_REFILL_DELAY: Duration = Duration::from_millis(200);
/// Number of server starts.
const STARTS: u32 = 20;
/// Number of concurrent callers, and of calls by each.
const CALLERS: (usize, usize) = (100, 5);
/// Number of calls whose leftovers are counted, and of earlier calls that fill caches.
const CALLS: (u32, u32) = (5_000, 300);

/// Measures the table.
pub async fn measure(options: &Options, report: &mut Report) -> Result<()> {
    let hotcell = crate::start::whole_process(options)?
        .context("the MCP server needs the hotcell executable: --hotcell")?;
    let work = tempfile::tempdir()?;
    let state = work.path().join("state");
    starts(&hotcell, &state, "stdio", report)?;
    beside_the_library(&hotcell, &state, options.runs, report).await?;
    python(&hotcell, &state, options.runs.min(200), report)?;
    many_callers(&hotcell, work.path(), report)?;
    leavings(&hotcell, &state, report)?;
    tool(&hotcell, work.path(), options.runs, report)?;
    match options.plugins.as_deref() {
        Some(plugins) => {
            let state = work.path().join("plugins");
            let count = add_all(&hotcell, &state, plugins)?;
            starts(&hotcell, &state, &format!("stdio, {count} plugins cached"), report)
        }
        None => {
            eprintln!(
                "not measured: a start with plugins; name their folder with --plugins (scripts/plugins builds them)"
            );
            Ok(())
        }
    }
}

/// A server on standard input and output.
struct Server {
    child: Child,
    input: ChildStdin,
    output: Lines<BufReader<ChildStdout>>,
}

impl Server {
    fn start(hotcell: &Path, state: &Path) -> Result<Self> {
        let mut command = Command::new(hotcell);
        command
            .args(["mcp", "--toolsets", "all", "--state"])
            .arg(state)
            .stdin(Stdio::piped())
            .stdout(Stdio::piped());
        let mut child = command.spawn()?;
        let input = child.stdin.take().context("a pipe")?;
        let output = BufReader::new(child.stdout.take().context("a pipe")?).lines();
        let mut server = Self { child, input, output };
        let params = json!({ "protocolVersion": "2025-11-25", "capabilities": {}, "clientInfo": { "name": "bench", "version": "1" } });
        server.ask("initialize", &params)?;
        writeln!(server.input, "{}", json!({ "jsonrpc": "2.0", "method": "notifications/initialized" }))?;
        Ok(server)
    }

    fn ask(&mut self, method: &str, params: &Value) -> Result<Value> {
        writeln!(self.input, "{}", json!({ "jsonrpc": "2.0", "id": 1, "method": method, "params": params }))?;
        let line = self.output.next().context("the server ended")??;
        Ok(serde_json::from_str(&line)?)
    }

    /// Calls a tool; returns the microseconds until its answer, and whether that was an error.
    fn call(&mut self, tool: &str, arguments: &Value) -> Result<(f64, bool)> {
        let asked = Instant::now();
        let answer = self.ask("tools/call", &json!({ "name": tool, "arguments": arguments }))?;
        let took = micros(asked);
        ensure!(answer["result"].is_object(), "{tool}: {answer}");
        Ok((took, answer["result"]["isError"] == true))
    }

    fn run(&mut self) -> Result<()> {
        let answer =
            self.ask("tools/call", &json!({ "name": "run_command", "arguments": { "argv": [TRUE] } }))?;
        ensure!(answer["result"]["structuredContent"]["exit_code"] == 0, "{answer}");
        Ok(())
    }

    fn end(mut self) -> Result<()> {
        drop(self.input);
        ensure!(self.child.wait()?.success(), "the server ended badly");
        Ok(())
    }
}

fn starts(hotcell: &Path, state: &Path, how: &str, report: &mut Report) -> Result<()> {
    let [mut first, mut listed, mut ran] = [const { Vec::new() }; 3].map(Samples::from_iter);
    for _ in 0..STARTS {
        let asked = Instant::now();
        let mut server = Server::start(hotcell, state)?;
        first.push(micros(asked));
        server.ask("tools/list", &json!({}))?;
        listed.push(micros(asked));
        server.run()?;
        ran.push(micros(asked));
        server.end()?;
    }
    for (to, times) in
        [("its first answer", &first), ("its list of tools", &listed), ("the answer of a first run", &ran)]
    {
        report.row(Row::of_times(&format!("hotcell mcp, start to {to}"), how, times));
    }
    report.at_most(
        &format!("hotcell mcp, start to its first answer, {how}, p50"),
        first.median() / 1000.0,
        50.0,
        " ms",
    );
    Ok(())
}

/// Calls a plugin's tool that adds two numbers, and a tool that finds no such run, in turn.
fn tool(hotcell: &Path, work: &Path, runs: u32, report: &mut Report) -> Result<()> {
    let state = work.join("tool");
    let component = work.join("add.wasm");
    fs::write(&component, wat::parse_str(crate::tools::ADD)?)?;
    add(hotcell, &state, &component)?;
    let mut server = Server::start(hotcell, &state)?;
    let all = server.ask("tools/list", &json!({}))?;
    let tools = all["result"]["tools"].as_array().context("a list of tools")?;
    let named =
        |tool: &Value| tool["name"].as_str().filter(|name| name.starts_with("add")).map(str::to_owned);
    let name = tools.iter().find_map(named).context("the plugin has no tool")?;
    let [mut nothing, mut trivial] = [Samples::default(), Samples::default()];
    for round in 0..runs + 20 {
        let (without, failed) = server.call("run_status", &json!({ "run_id": "run-0123456789abcdef" }))?;
        ensure!(failed, "there is a run of that name");
        let (with, failed) = server.call(&name, &json!({ "a": 40, "b": 2 }))?;
        ensure!(!failed, "{name} failed");
        if round >= 20 {
            nothing.push(without);
            trivial.push(with);
        }
    }
    server.end()?;
    report.row(Row::of_times("tools/call, stdio", "run_status of no run", &nothing));
    report.row(Row::of_times("tools/call, stdio", "a plugin that adds two numbers", &trivial));
    report.at_most(
        "tools/call of a trivial plugin / of a tool that does nothing, p50",
        trivial.median() / nothing.median(),
        1.5,
        " x",
    );
    Ok(())
}

/// Adds every plugin of a folder, and fills the cache by a first start; returns their number.
fn add_all(hotcell: &Path, state: &Path, folder: &Path) -> Result<usize> {
    let mut count = 0;
    for entry in fs::read_dir(folder).with_context(|| folder.display().to_string())? {
        let plugin = entry?.path();
        if plugin.join("plugin.toml").is_file() {
            add(hotcell, state, &plugin)?;
            count += 1;
        }
    }
    ensure!(count > 0, "{} has no plugins", folder.display());
    Ok(count)
}

fn add(hotcell: &Path, state: &Path, source: &Path) -> Result<()> {
    let mut command = Command::new(hotcell);
    command.args(["tool", "add"]).arg(source).arg("--state").arg(state).args(["--quiet", "--json"]);
    let done = command.stdout(Stdio::null()).status()?;
    ensure!(done.success(), "{} was not added", source.display());
    Ok(())
}

async fn beside_the_library(hotcell: &Path, state: &Path, runs: u32, report: &mut Report) -> Result<()> {
    let policy = Policy::new(TRUE);
    let pool = Pool::new(Engine::new(), PoolOptions::default());
    let mut server = Server::start(hotcell, state)?;
    let [mut library, mut call] = [Samples::default(), Samples::default()];
    for round in 0..runs + 20 {
        let asked = Instant::now();
        let outcome = pool.run(&policy).await;
        let ours = micros(asked);
        ensure!(outcome.success(), "{TRUE} inside: {:?}", outcome.reason);
        // Both make the next sandbox in the background after a run; the pause keeps each from slowing the
        // other.
        tokio::time::sleep(REFILL_DELAY).await;
        let asked = Instant::now();
        server.run()?;
        let theirs = micros(asked);
        if round >= 20 {
            library.push(ours);
            call.push(theirs);
        }
        tokio::time::sleep(REFILL_DELAY).await;
    }
    server.end()?;
    let served = pool.served();
    ensure!(served.hot > u64::from(runs) * 9 / 10, "the library's own runs were not hot: {served:?}");
    pool.clear();
    pool.engine().settle(Duration::from_secs(5)).await;
    let (less, more) = (library.median(), call.median());
    report.row(Row::of_times("hot run of /bin/true", "library", &library));
    report.row(Row::of_times("hot run of /bin/true", "run_command, stdio", &call));
    report.at_most("hot run_command over stdio - the library, p50", (more - less) / 1000.0, 0.5, " ms");
    Ok(())
}

/// Measures `python3 -c 'print(1)'` on the command line and `run_code` of the same code over MCP, in turn.
fn python(hotcell: &Path, state: &Path, runs: u32, report: &mut Report) -> Result<()> {
    const CODE: &str = "print(1)";
    let found = toolchain::find(OsStr::new("python3"), &Surroundings::of_this_process())?;
    let mut server = Server::start(hotcell, state)?;
    let [mut outside, mut call] = [Samples::default(), Samples::default()];
    for round in 0..runs + 20 {
        let asked = Instant::now();
        let output = Command::new(&found.program).args(["-c", CODE]).stdin(Stdio::null()).output()?;
        let theirs = micros(asked);
        ensure!(output.stdout == b"1\n", "{}: {output:?}", found.program.display());
        std::thread::sleep(PYTHON_REFILL_DELAY);
        let asked = Instant::now();
        let arguments = json!({ "language": "python", "code": CODE });
        let answer = server.ask("tools/call", &json!({ "name": "run_code", "arguments": arguments }))?;
        let ours = micros(asked);
        ensure!(answer["result"]["structuredContent"]["exit_code"] == 0, "{answer}");
        if round >= 20 {
            outside.push(theirs);
            call.push(ours);
        }
        std::thread::sleep(PYTHON_REFILL_DELAY);
    }
    server.end()?;
    report.row(Row::of_times("print(1)", "python3, outside", &outside));
    report.row(Row::of_times("print(1)", "run_code, stdio", &call));
    report.at_most(
        "run_code of print(1) over stdio / python3 outside, p50",
        call.median() / outside.median(),
        1.0,
        " x",
    );
    Ok(())
}

fn many_callers(hotcell: &Path, work: &Path, report: &mut Report) -> Result<()> {
    let state = work.join("http");
    fs::create_dir(&state)?;
    fs::set_permissions(&state, fs::Permissions::from_mode(0o700))?;
    let tokens: Vec<_> = (0..CALLERS.0).map(|n| format!("{n:040}")).collect();
    let lines: String = tokens.iter().enumerate().map(|(n, token)| format!("caller{n} {token}\n")).collect();
    fs::write(state.join("mcp-tokens"), lines)?;
    fs::set_permissions(state.join("mcp-tokens"), fs::Permissions::from_mode(0o600))?;
    let mut command = Command::new(hotcell);
    command.args(["mcp", "--toolsets", "all", "--http", "127.0.0.1:0", "--state"]).arg(&state);
    let mut child = command.stderr(Stdio::piped()).spawn()?;
    let mut stderr = BufReader::new(child.stderr.take().context("a pipe")?);
    let mut line = String::new();
    stderr.read_line(&mut line)?;
    let address =
        line.split("http://").nth(1).and_then(|rest| rest.split('/').next()).context("no address")?;
    let asked = Instant::now();
    let times: Vec<Result<Vec<f64>>> = std::thread::scope(|scope| {
        let caller = |token: &str| (0..CALLERS.1).map(|_| over_http(address, token)).collect();
        let all: Vec<_> = tokens.iter().map(|token| scope.spawn(move || caller(token))).collect();
        all.into_iter().filter_map(|thread| thread.join().ok()).collect()
    });
    let seconds = asked.elapsed().as_secs_f64();
    child.kill()?;
    child.wait()?;
    let errors = times.iter().filter(|t| t.is_err()).count() + tokens.len() - times.len();
    for error in times.iter().filter_map(|t| t.as_ref().err()).take(3) {
        eprintln!("a caller's error: {error:#}");
    }
    let times: Samples = times.into_iter().flatten().flatten().collect();
    #[allow(clippy::cast_precision_loss)] // small counts
    let (calls, errors) = (times.len() as f64, errors as f64);
    let what = format!("{} callers at once, {} runs each", CALLERS.0, CALLERS.1);
    let mut row = Row::of_times(&what, "run_command, http", &times);
    row.per_second = Some(calls / seconds);
    report.row(row);
    report.at_most(&format!("{what}: callers with an error"), errors, 0.0, "");
    Ok(())
}

/// Makes one run over a new connection; returns microseconds.
fn over_http(address: &str, token: &str) -> Result<f64> {
    let asked = Instant::now();
    let meta = json!({ "io.modelcontextprotocol/protocolVersion": "2026-07-28", "io.modelcontextprotocol/clientCapabilities": {} });
    let params = json!({ "name": "run_command", "arguments": { "argv": [TRUE] }, "_meta": meta });
    let body = json!({ "jsonrpc": "2.0", "id": 1, "method": "tools/call", "params": params }).to_string();
    let mut stream = TcpStream::connect(address)?;
    write!(
        stream,
        "POST /mcp HTTP/1.1\r\nHost: localhost\r\nAuthorization: Bearer {token}\r\nContent-Type: application/json\r\n\
         Accept: application/json, text/event-stream\r\nMCP-Protocol-Version: 2026-07-28\r\nMcp-Method: tools/call\r\n\
         Mcp-Name: run_command\r\nConnection: close\r\nContent-Length: {}\r\n\r\n{body}",
        body.len()
    )?;
    let mut reply = String::new();
    stream.read_to_string(&mut reply)?;
    ensure!(reply.contains("\"exit_code\":0"), "{}", reply.chars().take(500).collect::<String>());
    Ok(micros(asked))
}

/// Resources that calls could leak in a server.
struct Count {
    left: [(&'static str, usize); 4],
    memory: u64,
}

fn count(server: &Server, state: &Path) -> Count {
    let pid = server.child.id();
    let entries = |folder: String| fs::read_dir(folder).map_or(0, Iterator::count);
    let live = fs::read_dir(state.join("live")).into_iter().flatten().flatten();
    let kept = live.map(|service| {
        let folders = fs::read_dir(service.path()).into_iter().flatten().flatten();
        folders.map(|f| 1 + fs::read_dir(f.path()).map_or(0, Iterator::count)).sum::<usize>()
    });
    Count {
        left: [
            ("processes", descendants(pid).len()),
            ("descriptors", entries(format!("/proc/{pid}/fd"))),
            ("mounts", fs::read_to_string(format!("/proc/{pid}/mountinfo")).map_or(0, |t| t.lines().count())),
            ("files of the service", kept.sum()),
        ],
        memory: resident(&pid.to_string()),
    }
}

fn leavings(hotcell: &Path, state: &Path, report: &mut Report) -> Result<()> {
    let mut server = Server::start(hotcell, state)?;
    let mut calls = |count: u32| (0..count).try_for_each(|_| server.run());
    calls(CALLS.1)?;
    let settle = || std::thread::sleep(Duration::from_secs(2));
    settle();
    let before = count(&server, state);
    let mut calls = |count: u32| (0..count).try_for_each(|_| server.run());
    calls(CALLS.0)?;
    settle();
    let after = count(&server, state);
    #[allow(clippy::cast_precision_loss)] // small counts
    let grew = |before: usize, after: usize| after as f64 - before as f64;
    for ((what, before), (_, after)) in before.left.into_iter().zip(after.left) {
        report.at_most(&format!("more {what} after {} calls", CALLS.0), grew(before, after), 0.0, "");
    }
    #[allow(clippy::cast_precision_loss)] // far below 2^52
    let kib = (after.memory as f64 - before.memory as f64) / 1024.0;
    // A leak of one kilobyte per call would show as five thousand.
    report.at_most(&format!("KiB that the server grew in {} calls", CALLS.0), kib, 1024.0, " KiB");
    report.row(Row {
        what: format!("resident after {} calls", CALLS.0 + CALLS.1),
        variant: "hotcell mcp".to_owned(),
        memory_bytes: Some(after.memory),
        ..Row::default()
    });
    server.end()
}
