//! Leftovers of runs, and data that passes from one run to the next.

use std::fs;

use hotcell_sandbox::{Outcome, Policy};

use super::{Place, Said, check, good, groups, run};

/// Number of runs of the leak tests: more than any pool or cache holds; takes a few seconds.
const RUNS: usize = 200;

fn many_runs(runs: usize) -> Result<Outcome, String> {
    let mut last = None;
    for _ in 0..runs {
        last = Some(run(&Policy::new("/bin/true"))?.0);
    }
    last.ok_or_else(|| "no run".to_owned())
}

pub(crate) fn no_cgroup(place: &Place<'_>) -> Result<Said, String> {
    let (first, _) = run(&Policy::new("/bin/true"))?;
    if first.layers.cgroup_version == 0 {
        return Ok(Said::Skipped("no cgroup here".to_owned()));
    }
    let (runs, before) = (place.effort.of(RUNS), groups());
    many_runs(runs)?;
    let after = groups();
    // A pool keeps some ready; their number must not grow with the runs.
    check(after <= before + 8, || format!("{before} cgroups before, {after} after {runs} runs"))?;
    good(format!("{before} cgroups before, {after} after {runs} runs"))
}

fn descriptors() -> usize {
    fs::read_dir("/proc/self/fd").map_or(0, Iterator::count)
}

pub(crate) fn no_descriptor(place: &Place<'_>) -> Result<Said, String> {
    run(&Policy::new("/bin/true"))?;
    let (runs, before) = (place.effort.of(RUNS), descriptors());
    many_runs(runs)?;
    let after = descriptors();
    check(after <= before, || format!("{before} descriptors before, {after} after {runs} runs"))?;
    let (inside, _) = run(&place.attack(&["leaked_descriptors"]))?;
    check(inside.success(), || format!("inside: {:?}", inside.stderr))?;
    good(format!("{before} descriptors before, {after} after {runs} runs; only 0 to 2 inside"))
}

pub(crate) fn next_run(_: &Place<'_>) -> Result<Said, String> {
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
