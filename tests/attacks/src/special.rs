//! Rows that no exit code can answer: they look at the outcome, or at the host, around one run or many.

use std::fs;
use std::io;
use std::path::Path;
use std::process::{Command, Stdio};
use std::time::{Duration, Instant};

use hotcell_sandbox::{Bytes, Cause, Limits, Outcome, Policy};
use serde::{Deserialize, Serialize};

use crate::arena::STAGE;
use crate::cgroups::count_below;
use crate::decoys::Decoys;
use crate::engine;

/// How many runs the leak tests make: more than any pool or cache holds, and a few seconds.
const RUNS: usize = 200;
/// How far the supervisor's memory may move during an output bomb of [`BOMB_MIB`].
const FLAT_KIB: u64 = 24 << 10;
/// Printed by the output bomb of row 122; far above [`FLAT_KIB`].
const BOMB_MIB: u64 = 512;

/// Where a special test finds its things.
#[derive(Debug)]
pub struct Place<'a> {
    /// The arena's folder.
    pub base: &'a Path,
    /// What is to be aimed at.
    pub decoys: &'a Decoys,
}

impl Place<'_> {
    fn attack(&self, arguments: &[&str]) -> Policy {
        let bin = self.base.join("bin");
        Policy::new(bin.join("attack"))
            .args(arguments.iter().map(|a| self.decoys.fill(a)))
            .read_only(&bin, &bin)
    }
}

/// What a special test says.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "snake_case")]
pub enum Said {
    /// It holds; a number or two for the reader.
    Good(String),
    /// It cannot be said here, and why.
    Skipped(String),
    /// It does not hold.
    Bad(String),
}

/// One special test.
#[derive(Debug)]
pub struct Special {
    /// Its name, with the number, as for rows.
    pub name: &'static str,
    /// The test, run inside the arena.
    pub run: fn(&Place<'_>) -> Said,
}

/// All of them.
pub const ALL: &[Special] = &[
    Special { name: "a099_listening_inside_is_unreachable", run: |p| said(listening(p)) },
    Special { name: "a108_output_held_by_a_child_does_not_hang", run: |p| said(held_output(p)) },
    Special { name: "a110_supervisor_killed_all_dies", run: |p| said(supervisor_killed(p)) },
    Special { name: "a116_cause_of_a_memory_bomb", run: |p| said(memory_cause(p)) },
    Special { name: "a121_kept_output_is_first_and_last_half", run: |p| said(kept_output(p)) },
    Special { name: "a122_supervisor_memory_is_flat", run: |p| said(flat_memory(p)) },
    Special { name: "a123_binary_output_is_kept", run: |p| said(binary(p)) },
    Special { name: "a124_cpu_and_wall_are_told_apart", run: |p| said(cpu_and_wall(p)) },
    Special { name: "a128_partial_output_is_kept", run: |p| said(partial(p)) },
    Special { name: "a131_no_cgroup_is_left", run: |p| said(no_cgroup(p)) },
    Special { name: "a132_no_descriptor_is_left", run: |p| said(no_descriptor(p)) },
    Special { name: "a133_environment_is_built_anew", run: |p| said(environment(p)) },
    Special { name: "a136_nothing_passes_to_the_next_run", run: |p| said(next_run(p)) },
];

fn said(result: Result<Said, String>) -> Said {
    result.unwrap_or_else(Said::Bad)
}

fn run(policy: &Policy) -> Result<(Outcome, Duration), String> {
    let start = Instant::now();
    let outcome = engine::outcome(policy).map_err(|e| e.to_string())?;
    if outcome.cause == Cause::Refused || outcome.cause == Cause::Internal {
        return Err(format!("{:?}: {}", outcome.cause, outcome.reason.unwrap_or_default()));
    }
    Ok((outcome, start.elapsed()))
}

fn check(holds: bool, what: impl Fn() -> String) -> Result<(), String> {
    if holds { Ok(()) } else { Err(what()) }
}

fn good(text: impl Into<String>) -> Result<Said, String> {
    Ok(Said::Good(text.into()))
}

fn io_error(error: &io::Error) -> String {
    error.to_string()
}

fn listening(_: &Place<'_>) -> Result<Said, String> {
    let server = "import socket,time\ns=socket.create_server(('0.0.0.0',18099))\nprint('ready',flush=True)\ntime.sleep(2)";
    let worker = std::thread::spawn(move || run(&Policy::new("/usr/bin/python3").args(["-c", server])));
    let mut reached = false;
    for _ in 0..15 {
        std::thread::sleep(Duration::from_millis(100));
        reached |= std::net::TcpStream::connect(("127.0.0.1", 18099)).is_ok();
    }
    let (outcome, _) = worker.join().map_err(|_| "the run panicked".to_owned())??;
    check(outcome.stdout.text.as_deref() == Some("ready\n"), || {
        format!("the server did not start: {:?}", outcome.stderr)
    })?;
    check(!reached, || "a port inside was reached from outside".to_owned())?;
    good("a port inside is not reachable from outside")
}

fn held_output(place: &Place<'_>) -> Result<Said, String> {
    let (outcome, took) = run(&place.attack(&["child_holds_output", "marker={marker}"]))?;
    check(took < Duration::from_secs(5), || format!("took {took:?}"))?;
    check(outcome.success(), || format!("{:?}", outcome.cause))?;
    check(outcome.stdout.text.as_deref() == Some("leader is done\n"), || format!("{:?}", outcome.stdout))?;
    good(format!("answered after {} ms", took.as_millis()))
}

fn supervisor_killed(place: &Place<'_>) -> Result<Said, String> {
    // A second process is the supervisor; see `supervise`.
    let before = groups();
    let mut supervisor = Command::new(std::env::current_exe().map_err(|e| io_error(&e))?)
        .args([STAGE, "bare"])
        .arg(std::env::current_exe().map_err(|e| io_error(&e))?)
        .args([SUPERVISE.as_ref(), place.base.as_os_str()])
        .stdin(Stdio::null())
        .stdout(Stdio::null())
        .spawn()
        .map_err(|e| io_error(&e))?;
    let mut started = false;
    for _ in 0..100 {
        std::thread::sleep(Duration::from_millis(50));
        started = sleepers() > 0;
        if started {
            break;
        }
    }
    supervisor.kill().map_err(|e| io_error(&e))?;
    supervisor.wait().map_err(|e| io_error(&e))?;
    check(started, || "the program did not start".to_owned())?;
    let mut left = 1;
    for _ in 0..60 {
        left = sleepers();
        if left == 0 {
            break;
        }
        std::thread::sleep(Duration::from_millis(50));
    }
    check(left == 0, || format!("{left} processes outlived the supervisor"))?;
    // The groups of a dead supervisor are removed by what it left, or by the next start.
    run(&Policy::new("/bin/true"))?;
    let after = groups();
    check(after <= before, || format!("{before} cgroups before, {after} after"))?;
    good("all died, no cgroup is left")
}

/// The argument by which the test program is a supervisor that will be killed.
pub const SUPERVISE: &str = "--hotcell-supervise";

/// Runs a program that sleeps, until somebody kills this process.
#[must_use]
pub fn supervise(base: &Path) -> i32 {
    let bin = base.join("bin");
    let policy =
        Policy::new(bin.join("attack")).arg("sleep_long").read_only(&bin, &bin).wall(Duration::from_secs(60));
    engine::outcome(&policy).map_or(1, |o| o.exit_code.unwrap_or(1))
}

fn sleepers() -> usize {
    fs::read_dir("/proc")
        .into_iter()
        .flatten()
        .flatten()
        .filter(|e| {
            fs::read(e.path().join("cmdline")).is_ok_and(|c| c.windows(10).any(|w| w == b"sleep_long"))
        })
        .count()
}

fn memory_cause(place: &Place<'_>) -> Result<Said, String> {
    let (outcome, took) = run(&place.attack(&["memory_touched", "mib=400"]).memory(Bytes::mib(64)))?;
    let stopped_itself = outcome.cause == Cause::Exited && outcome.exit_code == Some(0);
    check(outcome.cause == Cause::MemoryLimit || stopped_itself, || {
        format!("{:?} {:?}", outcome.cause, outcome.stderr)
    })?;
    good(format!("{:?} after {} ms", outcome.cause, took.as_millis()))
}

fn bomb(place: &Place<'_>, mib: u64) -> Policy {
    let limits = Limits { capture: Bytes::kib(64), output: Bytes::mib(mib * 2), ..Limits::default() };
    place.attack(&["output_bomb", "kind=one_line", &format!("mib={mib}")]).limits(limits)
}

fn kept_output(place: &Place<'_>) -> Result<Said, String> {
    let (outcome, _) = run(&bomb(place, 8))?;
    check(outcome.stdout.bytes == 8 << 20, || format!("{} bytes counted", outcome.stdout.bytes))?;
    check(outcome.stdout.truncated, || "not marked as truncated".to_owned())?;
    let kept = outcome.stdout.to_bytes().len();
    check(kept <= 64 << 10, || format!("{kept} bytes kept"))?;
    good(format!("{kept} bytes kept of {}", outcome.stdout.bytes))
}

fn flat_memory(place: &Place<'_>) -> Result<Said, String> {
    run(&bomb(place, 1))?;
    let before = own_memory_kib().ok_or("no /proc/self/status")?;
    let (outcome, _) = run(&bomb(place, BOMB_MIB))?;
    let peak = own_memory_kib().ok_or("no /proc/self/status")?;
    check(outcome.stdout.bytes == BOMB_MIB << 20, || {
        format!("{} bytes counted: {:?}", outcome.stdout.bytes, outcome.cause)
    })?;
    let grown = peak.saturating_sub(before);
    check(grown < FLAT_KIB, || format!("grew by {grown} KiB while {BOMB_MIB} MiB were printed"))?;
    good(format!("grew by {grown} KiB while {BOMB_MIB} MiB were printed"))
}

/// The highest resident memory of this process so far.
fn own_memory_kib() -> Option<u64> {
    let status = fs::read_to_string("/proc/self/status").ok()?;
    status.lines().find_map(|l| l.strip_prefix("VmHWM:")?.split_whitespace().next()?.parse().ok())
}

fn binary(place: &Place<'_>) -> Result<Said, String> {
    let (outcome, _) = run(&place.attack(&["binary_output"]))?;
    check(outcome.stdout.base64.is_some() && outcome.stdout.text.is_none(), || {
        format!("{:?}", outcome.stdout)
    })?;
    check(outcome.stdout.to_bytes().starts_with(b"\xff\xfe\x00\x01"), || format!("{:?}", outcome.stdout))?;
    good("kept as base64")
}

fn cpu_and_wall(place: &Place<'_>) -> Result<Said, String> {
    let second = Duration::from_secs(1);
    let limits =
        |wall: u64| Limits { wall: Duration::from_secs(wall), cpu_time: Some(second), ..Limits::default() };
    let (spinning, _) = run(&place.attack(&["spin_threads"]).limits(limits(20)))?;
    let (sleeping, took) = run(&place.attack(&["sleep_long"]).limits(limits(2)))?;
    check(spinning.cause == Cause::CpuLimit, || format!("spinning: {:?}", spinning.cause))?;
    check(sleeping.cause == Cause::WallLimit, || format!("sleeping: {:?}", sleeping.cause))?;
    check(took < Duration::from_secs(6), || format!("the wall clock of 2 s ended after {took:?}"))?;
    good(format!("CPU {:?} us, wall {} ms", spinning.usage.cpu_us, took.as_millis()))
}

fn partial(place: &Place<'_>) -> Result<Said, String> {
    let (outcome, _) = run(&place.attack(&["sleep_long"]).wall(Duration::from_secs(1)))?;
    check(outcome.cause == Cause::WallLimit, || format!("{:?}", outcome.cause))?;
    check(outcome.stdout.text.as_deref() == Some("partial output\n"), || format!("{:?}", outcome.stdout))?;
    check(outcome.reason.is_some(), || "no reason is given".to_owned())?;
    good("the output before the kill is there, and the cause is the limit")
}

/// All control groups that can be seen from here.
fn groups() -> usize {
    let own = fs::read_to_string("/proc/self/cgroup").unwrap_or_default();
    own.lines()
        .filter_map(|line| {
            let mut parts = line.splitn(3, ':').skip(1);
            let (controller, path) = (parts.next()?, parts.next()?.trim_start_matches('/'));
            let root = Path::new("/sys/fs/cgroup");
            // Only the arena's own folder: others' groups come and go.
            path.contains("hotcell-arena").then(|| {
                count_below(&root.join(if controller.is_empty() { "unified" } else { controller }).join(path))
                    + count_below(&root.join(path))
            })
        })
        .sum()
}

fn many_runs() -> Result<Outcome, String> {
    let mut last = None;
    for _ in 0..RUNS {
        last = Some(run(&Policy::new("/bin/true"))?.0);
    }
    last.ok_or_else(|| "no run".to_owned())
}

fn no_cgroup(_: &Place<'_>) -> Result<Said, String> {
    let (first, _) = run(&Policy::new("/bin/true"))?;
    if first.layers.cgroup_version == 0 {
        return Ok(Said::Skipped("no cgroup here".to_owned()));
    }
    let before = groups();
    many_runs()?;
    let after = groups();
    // A pool keeps some ready; it must not grow with the runs.
    check(after <= before + 8, || format!("{before} cgroups before, {after} after {RUNS} runs"))?;
    good(format!("{before} cgroups before, {after} after {RUNS} runs"))
}

fn descriptors() -> usize {
    fs::read_dir("/proc/self/fd").map_or(0, Iterator::count)
}

fn no_descriptor(place: &Place<'_>) -> Result<Said, String> {
    run(&Policy::new("/bin/true"))?;
    let before = descriptors();
    many_runs()?;
    let after = descriptors();
    check(after <= before, || format!("{before} descriptors before, {after} after {RUNS} runs"))?;
    let (inside, _) = run(&place.attack(&["leaked_descriptors"]))?;
    check(inside.success(), || format!("inside: {:?}", inside.stderr))?;
    good(format!("{before} descriptors before, {after} after {RUNS} runs; only 0 to 2 inside"))
}

fn environment(place: &Place<'_>) -> Result<Said, String> {
    let (outcome, _) = run(&place.attack(&["environment"]))?;
    check(outcome.success(), || format!("{:?}", outcome.stderr))?;
    let (named, _) = run(&Policy::new("/usr/bin/env").env("GREETING", "hello"))?;
    let text = named.stdout.text.unwrap_or_default();
    check(text.lines().any(|l| l == "GREETING=hello"), || format!("the named one is missing: {text}"))?;
    check(!text.contains("HOTCELL"), || text.clone())?;
    good("only what was named")
}

fn next_run(_: &Place<'_>) -> Result<Said, String> {
    let leave = "umask 0; for d in \"$HOME\" /tmp /dev/shm; do echo x > \"$d/left\"; done; ipcmk -M 4096 >/dev/null; sleep 30 &";
    run(&Policy::new("/bin/bash").args(["-c", leave]))?;
    let look =
        "umask; ls -A \"$HOME\" /tmp /dev/shm; ipcs -m | grep -c 0x; ps -e 2>/dev/null | grep -c sleep; true";
    let (outcome, _) = run(&Policy::new("/bin/bash").args(["-c", look]))?;
    let text = outcome.stdout.text.unwrap_or_default();
    check(!text.contains("left"), || format!("files passed on: {text}"))?;
    let counts: Vec<&str> = text.lines().rev().take(2).collect();
    check(counts == ["0", "0"], || format!("processes or shared memory passed on: {text}"))?;
    good("files, shared memory and processes are gone")
}
