//! Contents of the outcome: output, causes, the environment.

use std::fs;
use std::time::Duration;

use hotcell_sandbox::{Bytes, Cause, Limits, Policy};

use super::{Place, Said, check, good, run};

/// Tolerated growth of the supervisor's memory during an output bomb of [`BOMB_MIB`], in KiB.
const FLAT_KIB: u64 = 24 << 10;
/// Output of the bomb of row 122, in MiB; far above [`FLAT_KIB`].
const BOMB_MIB: u64 = 512;

pub(crate) fn held_output(place: &Place<'_>) -> Result<Said, String> {
    let (outcome, took) = run(&place.attack(&["child_holds_output", "marker={marker}"]))?;
    check(took < Duration::from_secs(5), || format!("took {took:?}"))?;
    check(outcome.success(), || format!("{:?}", outcome.cause))?;
    check(outcome.stdout.text.as_deref() == Some("leader is done\n"), || format!("{:?}", outcome.stdout))?;
    good(format!("answered after {} ms", took.as_millis()))
}

fn bomb(place: &Place<'_>, mib: u64) -> Policy {
    let limits = Limits { capture: Bytes::kib(64), output: Bytes::mib(mib * 2), ..Limits::default() };
    place.attack(&["output_bomb", "kind=one_line", &format!("mib={mib}")]).limits(limits)
}

pub(crate) fn kept_output(place: &Place<'_>) -> Result<Said, String> {
    let (outcome, _) = run(&bomb(place, 8))?;
    check(outcome.stdout.bytes == 8 << 20, || format!("{} bytes counted", outcome.stdout.bytes))?;
    check(outcome.stdout.truncated, || "not marked as truncated".to_owned())?;
    let kept = outcome.stdout.to_bytes().len();
    check(kept <= 64 << 10, || format!("{kept} bytes kept"))?;
    good(format!("{kept} bytes kept of {}", outcome.stdout.bytes))
}

pub(crate) fn flat_memory(place: &Place<'_>) -> Result<Said, String> {
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

/// Peak resident memory of this process, in KiB.
fn own_memory_kib() -> Option<u64> {
    let status = fs::read_to_string("/proc/self/status").ok()?;
    status.lines().find_map(|l| l.strip_prefix("VmHWM:")?.split_whitespace().next()?.parse().ok())
}

pub(crate) fn binary(place: &Place<'_>) -> Result<Said, String> {
    let (outcome, _) = run(&place.attack(&["binary_output"]))?;
    check(outcome.stdout.base64.is_some() && outcome.stdout.text.is_none(), || {
        format!("{:?}", outcome.stdout)
    })?;
    check(outcome.stdout.to_bytes().starts_with(b"\xff\xfe\x00\x01"), || format!("{:?}", outcome.stdout))?;
    good("kept as base64")
}

pub(crate) fn cpu_and_wall(place: &Place<'_>) -> Result<Said, String> {
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

pub(crate) fn partial(place: &Place<'_>) -> Result<Said, String> {
    let (outcome, _) = run(&place.attack(&["sleep_long"]).wall(Duration::from_secs(1)))?;
    check(outcome.cause == Cause::WallLimit, || format!("{:?}", outcome.cause))?;
    check(outcome.stdout.text.as_deref() == Some("partial output\n"), || format!("{:?}", outcome.stdout))?;
    check(outcome.reason.is_some(), || "no reason is given".to_owned())?;
    good("the output before the kill is there, and the cause is the limit")
}

pub(crate) fn environment(place: &Place<'_>) -> Result<Said, String> {
    let (outcome, _) = run(&place.attack(&["environment"]))?;
    check(outcome.success(), || format!("{:?}", outcome.stderr))?;
    let (named, _) = run(&Policy::new("/usr/bin/env").env("GREETING", "hello"))?;
    let text = named.stdout.text.unwrap_or_default();
    check(text.lines().any(|l| l == "GREETING=hello"), || format!("the named one is missing: {text}"))?;
    check(!text.contains("HOTCELL"), || text.clone())?;
    good("only what was named")
}
