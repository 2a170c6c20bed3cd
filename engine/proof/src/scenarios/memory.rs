//! Memory limits: the reported cause when the kernel kills a process, and swap.

use std::fs;
use std::path::Path;
use std::time::Duration;

use hotcell_sandbox::outcome::{Evidence, Limit};
use hotcell_sandbox::{Bytes, Cause, Engine, Limits, Outcome, Policy};

use crate::task::Effort;

use super::{Place, Said, check, good, run, wait_until};

pub(crate) fn cause(place: &Place<'_>) -> Result<Said, String> {
    let (outcome, took) = run(&place.attack(&["memory_touched", "mib=400"]).memory(Bytes::mib(64)))?;
    let stopped_itself = outcome.cause == Cause::Exited && outcome.exit_code == Some(0);
    check(outcome.cause == Cause::MemoryLimit || stopped_itself, || {
        format!("{:?} {:?}", outcome.cause, outcome.stderr)
    })?;
    good(format!("{:?} after {} ms", outcome.cause, took.as_millis()))
}

/// Number of runs of each kind of leader, since it is random whether a sample falls between the end of a
/// child and that of its leader.
const RUNS: usize = 8;

fn killed_by_kernel(outcome: &Outcome) -> bool {
    outcome.limits_hit.iter().any(|h| h.limit == Limit::Memory && h.evidence == Evidence::Kernel)
}

/// The kernel kills a child for memory. A leader that then exits counts as exited, with the limit reported as
/// hit; one that stays is killed by the limit.
pub(crate) fn child(place: &Place<'_>) -> Result<Said, String> {
    // Little scratch space, so that the kernel's own limit is hardly above the sampled one.
    let limits = Limits { memory: Bytes::mib(64), disk: Bytes::mib(1), ..Limits::default() };
    let leader = |more: &[&str]| {
        let mut arguments = vec!["child_out_of_memory", "mib=400"];
        arguments.extend(more);
        run(&place.attack(&arguments).limits(limits.clone())).map(|(outcome, _)| outcome)
    };
    let first = leader(&[])?;
    if first.layers.cgroup_version == 0 {
        return Ok(Said::Skipped("no cgroup here, so that the kernel ends nobody for memory".to_owned()));
    }
    let mut exited = 0;
    for _ in 0..RUNS {
        let outcome = leader(&[])?;
        let told = outcome.limits_hit.iter().any(|h| h.limit == Limit::Memory);
        check(told, || format!("{:?}: the hit is not told: {:?}", outcome.cause, outcome.limits_hit))?;
        match outcome.cause {
            Cause::Exited => {
                check(outcome.exit_code == Some(0), || format!("{:?}", outcome.stderr))?;
                check(killed_by_kernel(&outcome), || format!("{:?}", outcome.limits_hit))?;
                check(outcome.stdout.text.as_deref() == Some("child killed\n"), || {
                    format!("{:?}", outcome.stdout)
                })?;
                exited += 1;
            }
            Cause::MemoryLimit => {}
            other => return Err(format!("{other:?}: {:?}", outcome.stderr)),
        }
    }
    if exited == 0 && place.effort == Effort::Quick {
        return Ok(Said::Skipped(
            "this host is so busy that each leader was ended before its own end".to_owned(),
        ));
    }
    check(exited > 0, || "the leader never got to its end".to_owned())?;
    let stayed = leader(&["stays=1"])?;
    check(stayed.cause == Cause::MemoryLimit && stayed.reason.is_some(), || format!("{:?}", stayed.cause))?;
    good(format!("{exited} of {RUNS} leaders exited, with the hit told; one that stayed was ended"))
}

/// Memory of a run is not swapped, and swap does not extend its memory limit.
pub(crate) fn no_swap(_: &Place<'_>) -> Result<Said, String> {
    let limits = Limits { memory: Bytes::mib(64), disk: Bytes::mib(8), ..Limits::default() };
    let policy = Policy::new("/bin/sleep").arg("1").limits(limits);
    let worker = std::thread::spawn(move || run(&policy));
    let read = |folder: &Path, file: &str| {
        fs::read_to_string(folder.join(file)).ok().map(|text| text.trim().to_owned())
    };
    let own = format!("{}-", std::process::id());
    let (mut looked, mut wrong) = (0, Vec::new());
    wait_until(Duration::from_secs(1), || {
        for base in Engine::shared().cgroup_folders() {
            for folder in fs::read_dir(base).into_iter().flatten().flatten() {
                let (name, folder) = (folder.file_name(), folder.path());
                let (v1, v2) = (read(&folder, "memory.limit_in_bytes"), read(&folder, "memory.max"));
                // Only the cgroup of this run: others have other sizes, or no limit yet.
                let size = (72u64 << 20).to_string();
                if !name.to_string_lossy().starts_with(&own)
                    || (v1.as_ref() != Some(&size) && v2.as_ref() != Some(&size))
                {
                    continue;
                }
                looked += 1;
                for (file, wanted) in [
                    ("memory.swap.max", "0"),
                    ("memory.swappiness", "0"),
                    ("memory.memsw.limit_in_bytes", &size),
                ] {
                    // A kernel without swap accounting has no such file.
                    if let Some(value) = read(&folder, file).filter(|v| v != wanted) {
                        wrong.push(format!("{file} is {value}"));
                    }
                }
            }
        }
        looked > 0
    });
    let (outcome, _) = worker.join().map_err(|_| "the run panicked".to_owned())??;
    if outcome.layers.cgroup_version == 0 {
        // Swapped pages are not resident; the limit on a process's data applies then, which counts them.
        return Ok(Said::Skipped("no cgroup here".to_owned()));
    }
    check(looked > 0, || "the run's group was not found".to_owned())?;
    check(wrong.is_empty(), || wrong.join(", "))?;
    good("the run's group may not swap")
}
