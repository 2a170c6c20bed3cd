//! Tests with real groups on the host, below `hotcell-test`. Where no group can be made (no root, no
//! delegation), a test reports that and passes; then only the refusal of detection is tested.

use std::process::{Child, Command, Stdio};
use std::sync::Barrier;
use std::thread::sleep;

use super::*;

const LIMITS: GroupLimits = GroupLimits { memory: Bytes::mib(256), processes: 32, cpus: None };

/// `None`, with a message, where cgroups are not available.
fn cgroups(test: &str) -> Option<Cgroups> {
    match Cgroups::detect() {
        Ok(cgroups) => Some(cgroups),
        Err(e) => {
            eprintln!("skipped {test}: {e}");
            assert!(!e.why.is_empty() && !e.mend.is_empty());
            None
        }
    }
}

/// Starts a shell that joins the group and then runs `script`.
fn shell_in(folders: &[&Path], version: u32, script: &str) -> Child {
    let file = if version == 1 { "tasks" } else { "cgroup.procs" };
    let join = format!("for f in \"$@\"; do echo 0 > \"$f/{file}\" || exit 99; done; {script}");
    Command::new("sh")
        .args(["-c", &join, "sh"])
        .args(folders)
        .stdin(Stdio::null())
        .stdout(Stdio::piped())
        .stderr(Stdio::null())
        .spawn()
        .unwrap()
}

fn run_in(cgroups: &Cgroups, group: &Group, script: &str) -> Child {
    shell_in(&group.folders(), cgroups.version(), script)
}

fn eventually(what: &str, mut check: impl FnMut() -> bool) {
    let deadline = Instant::now() + Duration::from_secs(10);
    while !check() {
        assert!(Instant::now() < deadline, "not within ten seconds: {what}");
        sleep(Duration::from_millis(2));
    }
}

#[test]
fn group_limits_counts_and_is_removed() {
    let Some(cgroups) = cgroups("group_limits_counts_and_is_removed") else {
        return;
    };
    let mut group = cgroups.take(&LIMITS).unwrap();
    match group.join().unwrap() {
        Join::V2(_) => assert_eq!(cgroups.version(), 2),
        Join::V1(files) => {
            assert_eq!(cgroups.version(), 1);
            assert!(files.len() >= 2);
        }
    }
    let before = group.sample().unwrap();
    assert_eq!((before.processes, before.oom_kills, before.fork_failures), (0, 0, 0));

    let mut child =
        run_in(&cgroups, &group, "i=0; while [ $i -lt 200000 ]; do i=$((i+1)); done; exec sleep 60");
    let pid = i32::try_from(child.id()).unwrap();
    eventually("the child is inside", || group.holds(pid).unwrap());
    assert!(!group.holds(1).unwrap());
    eventually("its processor time counts", || {
        group.sample().unwrap().cpu.is_none_or(|cpu| cpu > Duration::from_millis(20))
    });
    let during = group.sample().unwrap();
    assert_eq!(during.processes, 1);
    assert!(during.processes_peak.is_none_or(|peak| peak >= 1));
    assert!(during.memory_peak.is_none_or(|peak| peak.0 > 0));

    group.kill();
    child.wait().unwrap();
    eventually("it is empty", || group.sample().unwrap().processes == 0);
    if cgroups.version() == 1 {
        group.close_join();
        assert!(group.join().is_err());
    }
    let folders: Vec<_> = group.folders().into_iter().map(Path::to_owned).collect();
    group.remove().unwrap();
    assert!(folders.iter().all(|folder| !folder.exists()));
    assert_eq!(cgroups.pending(), 0);
}

#[test]
fn memory_excess_is_killed_and_counted() {
    let Some(cgroups) = cgroups("memory_excess_is_killed_and_counted") else {
        return;
    };
    let limits = GroupLimits { memory: Bytes::mib(24), ..LIMITS };
    let group = cgroups.take(&limits).unwrap();
    // tail keeps an endless line in memory. The shell survives it and reports.
    let child = run_in(&cgroups, &group, "tail /dev/zero; echo $?");
    let output = child.wait_with_output().unwrap();
    assert_eq!(String::from_utf8_lossy(&output.stdout).trim(), "137");
    let sample = group.sample().unwrap();
    assert_eq!(sample.oom_kills, 1, "{sample:?}");
    let peak = sample.peak_without_scratch().unwrap_or(Bytes::mib(24));
    assert!(peak > Bytes::mib(16) && peak <= Bytes::mib(24), "{sample:?}");
}

#[test]
fn scratch_and_read_files_are_not_held_memory() {
    let Some(cgroups) = cgroups("scratch_and_read_files_are_not_held_memory") else {
        return;
    };
    let group = cgroups.take(&LIMITS).unwrap();
    let scratch = tempfile::Builder::new().prefix("hotcell-test").tempdir_in("/dev/shm").unwrap();
    let file = scratch.path().join("f").display().to_string();
    let script = format!("head -c 33554432 /dev/zero > {file}; cat {file} > /dev/null; exec sleep 60");
    let mut child = run_in(&cgroups, &group, &script);
    eventually("the scratch is charged", || group.sample().unwrap().shmem >= Bytes::mib(32));
    let sample = group.sample().unwrap();
    assert!(sample.memory_without_shmem < Bytes::mib(8), "{sample:?}");
    assert!(sample.peak_without_scratch().is_none_or(|peak| peak < Bytes::mib(8)), "{sample:?}");
    group.kill();
    child.wait().unwrap();

    // But memory of that amount held by a process counts.
    let group = cgroups.take(&LIMITS).unwrap();
    let script = "x=$(head -c 33554432 /dev/zero | tr '\\0' x); sleep 60";
    let mut child = run_in(&cgroups, &group, script);
    eventually("held memory counts", || group.sample().unwrap().memory_without_shmem >= Bytes::mib(32));
    group.kill();
    child.wait().unwrap();
}

#[test]
fn process_excess_is_refused_and_counted() {
    let Some(cgroups) = cgroups("process_excess_is_refused_and_counted") else {
        return;
    };
    let group = cgroups.take(&GroupLimits { processes: 3, ..LIMITS }).unwrap();
    let script = "for i in 1 2 3 4 5; do sleep 60 & done; wait";
    let mut child = run_in(&cgroups, &group, script);
    eventually("a fork is refused", || group.sample().unwrap().fork_failures > 0);
    let before = group.sample().unwrap();
    assert!(before.processes <= 3, "{before:?}");
    group.kill();
    child.wait().unwrap();
    eventually("it is empty", || group.sample().unwrap().processes == 0);
    assert_eq!(group.sample().unwrap().oom_kills, 0);
    let peak = group.sample().unwrap().processes_peak;
    assert!(peak.is_none_or(|peak| peak == 3), "{peak:?}");
}

#[test]
fn fork_bomb_kill_adds_no_fork_failures() {
    let Some(cgroups) = cgroups("fork_bomb_kill_adds_no_fork_failures") else {
        return;
    };
    let group = cgroups.take(&GroupLimits { processes: 200, ..LIMITS }).unwrap();
    let bomb = "f() { f & f; }; f";
    let mut child = run_in(&cgroups, &group, bomb);
    eventually("the limit is reached", || group.sample().unwrap().fork_failures > 0);
    group.kill();
    let at_kill = group.sample().unwrap().fork_failures;
    child.wait().unwrap();
    eventually("all are gone", || group.sample().unwrap().processes == 0);
    assert_eq!(group.sample().unwrap().fork_failures, at_kill);
    group.remove().unwrap();
}

#[test]
fn cpu_limit_throttles_group() {
    let Some(cgroups) = cgroups("cpu_limit_throttles_group") else {
        return;
    };
    let limits = GroupLimits { cpus: Some(0.1), ..LIMITS };
    if !cgroups.holds_cpus() {
        let refused = cgroups.take(&limits).unwrap_err();
        assert_eq!(refused.kind(), ErrorKind::Unsupported);
        return;
    }
    let group = cgroups.take(&limits).unwrap();
    let mut child = run_in(&cgroups, &group, "while :; do :; done");
    let pid = i32::try_from(child.id()).unwrap();
    eventually("the child is inside", || group.holds(pid).unwrap());
    let (start, before) = (Instant::now(), group.sample().unwrap().cpu);
    sleep(Duration::from_millis(500));
    let (wall, after) = (start.elapsed(), group.sample().unwrap().cpu);
    if let (Some(before), Some(after)) = (before, after) {
        assert!((after - before).as_secs_f64() < wall.as_secs_f64() * 0.4, "{before:?} {after:?}");
    }
    group.kill();
    child.wait().unwrap();
}

#[test]
fn removed_folder_for_processors_is_made_again() {
    let Some(cgroups) = cgroups("removed_folder_for_processors_is_made_again") else {
        return;
    };
    let without = cgroups.take(&LIMITS).unwrap();
    // Another process does so at its end; what holds a group stays.
    cgroups.pool.place.remove_bases();
    if cgroups.holds_cpus() {
        cgroups.take(&GroupLimits { cpus: Some(0.5), ..LIMITS }).unwrap();
    }
    drop(without);
}

#[test]
fn quotas_of_processors() {
    for (cpus, want) in [
        (1.0, 100_000),
        (1.5, 150_000),
        (0.001, MIN_QUOTA_US),
        (-1.0, MIN_QUOTA_US),
        (f64::NAN, MIN_QUOTA_US),
    ] {
        assert_eq!(cpu_quota_us(cpus), want, "{cpus}");
    }
}

#[test]
fn dropped_group_is_removed_in_background() {
    let Some(cgroups) = cgroups("dropped_group_is_removed_in_background") else {
        return;
    };
    let group = cgroups.take(&LIMITS).unwrap();
    let mut child = run_in(&cgroups, &group, "sleep 60 & sleep 60");
    let pid = i32::try_from(child.id()).unwrap();
    eventually("the child is inside", || group.holds(pid).unwrap());
    let folders: Vec<_> = group.folders().into_iter().map(Path::to_owned).collect();
    let asked = Instant::now();
    drop(group);
    assert!(asked.elapsed() < Duration::from_millis(100), "nobody waits for the removal");
    child.wait().unwrap();
    eventually("it is removed", || cgroups.pending() == 0);
    assert!(folders.iter().all(|folder| !folder.exists()));
}

#[test]
fn groups_are_made_ahead_and_used_once() {
    let Some(cgroups) = cgroups("groups_are_made_ahead") else {
        return;
    };
    cgroups.keep_ready(Cgroups::READY_GROUPS);
    let mut names = BTreeSet::new();
    for _ in 0..20 {
        let group = cgroups.take(&LIMITS).unwrap();
        assert!(names.insert(group.folders()[0].to_owned()), "a group was used twice");
    }
    eventually("two are ready", || cgroups.ready() == 2);
    eventually("the used ones are removed", || cgroups.pending() == 0);
    let base = cgroups.folders()[0].to_owned();
    drop(cgroups);
    assert!(names.iter().all(|name| !name.exists()));
    let mine = format!("{}-", Owner::this_process().unwrap());
    let left = std::fs::read_dir(base).into_iter().flatten().flatten();
    let left: Vec<_> = left.filter(|e| names.iter().any(|n| n.file_name() == Some(&e.file_name()))).collect();
    assert!(left.is_empty(), "{mine}: {left:?}");
}

#[test]
fn group_outlives_its_cgroups() {
    let Some(cgroups) = cgroups("group_outlives_its_cgroups") else {
        return;
    };
    let version = cgroups.version();
    let group = cgroups.take(&LIMITS).unwrap();
    drop(cgroups);
    let mut child = shell_in(&group.folders(), version, "exec sleep 60");
    let pid = i32::try_from(child.id()).unwrap();
    eventually("the child is inside", || group.holds(pid).unwrap());
    let folder = group.folders()[0].to_owned();
    let reaper = std::thread::spawn(move || child.wait().unwrap());
    drop(group);
    reaper.join().unwrap();
    assert!(!folder.exists());
}

#[test]
fn externally_removed_group_is_replaced() {
    let Some(cgroups) = cgroups("externally_removed_group_is_replaced") else {
        return;
    };
    // The trial group of detection is ready to be taken: remove it.
    let first = cgroups.take(&LIMITS).unwrap();
    for folder in first.folders() {
        std::fs::remove_dir(folder).unwrap();
    }
    assert!(first.sample().is_err());
    let error = first.sample().unwrap_err();
    assert!(error.to_string().contains("hotcell-test"), "{error}");
    drop(first);
    assert!(cgroups.take(&LIMITS).is_ok());
    eventually("nothing is left to do", || cgroups.pending() == 0);
}

#[test]
fn groups_of_dead_owners_are_removed() {
    let Some(cgroups) = cgroups("groups_of_dead_owners_are_removed") else {
        return;
    };
    // Two owners, one of which ends.
    let mut living = Command::new("sleep").arg("60").spawn().unwrap();
    let mut dead = Command::new("sleep").arg("60").spawn().unwrap();
    let make = |pid: u32| {
        let name = crate::leftovers::owner_of_child(pid).next_name();
        let bases = cgroups.folders();
        let folders: Vec<_> = bases.iter().map(|base| base.join(&name)).collect();
        cgroups.pool.place.ensure().unwrap();
        for folder in &folders {
            std::fs::create_dir(folder).unwrap();
        }
        folders
    };
    let of_living = make(living.id());
    let of_dead = make(dead.id());
    let other = cgroups.folders()[0].join("not-a-group-of-ours");
    let _ = std::fs::remove_dir(&other);
    std::fs::create_dir(&other).unwrap();

    let spawn = |folders: &[std::path::PathBuf]| {
        let paths: Vec<_> = folders.iter().map(std::path::PathBuf::as_path).collect();
        let child = shell_in(&paths, cgroups.version(), "sleep 61 & sleep 62");
        eventually("both are inside", || {
            let procs = folders.last().unwrap().join("cgroup.procs");
            std::fs::read_to_string(procs).unwrap().lines().count() == 3
        });
        child
    };
    let mut child_of_living = spawn(&of_living);
    let mut child_of_dead = spawn(&of_dead);

    dead.kill().unwrap();
    dead.wait().unwrap();
    // The test is the parent of the killed process and must reap it before the group is empty.
    let reaper = std::thread::spawn(move || child_of_dead.wait().unwrap());
    assert!(cgroups.remove_leftovers() >= 1);
    assert!(!reaper.join().unwrap().success());
    eventually("the dead one's are gone", || of_dead.iter().all(|folder| !folder.exists()));
    assert!(of_living.iter().all(|folder| folder.exists()));
    assert!(child_of_living.try_wait().unwrap().is_none());
    assert!(other.exists());

    std::fs::remove_dir(&other).unwrap();
    living.kill().unwrap();
    living.wait().unwrap();
    let reaper = std::thread::spawn(move || child_of_living.wait().unwrap());
    cgroups.remove_leftovers();
    reaper.join().unwrap();
    eventually("all are gone", || of_living.iter().all(|folder| !folder.exists()));
}

#[test]
fn concurrent_cgroups_are_independent() {
    let Some(first) = cgroups("concurrent_cgroups_are_independent") else {
        return;
    };
    drop(first);
    let barrier = Barrier::new(4);
    std::thread::scope(|scope| {
        for _ in 0..4 {
            scope.spawn(|| {
                barrier.wait();
                // Each end tries to remove the folders that the others are using.
                for _ in 0..25 {
                    let cgroups = Cgroups::detect().unwrap();
                    let group = cgroups.take(&LIMITS).unwrap();
                    let more = cgroups.take(&LIMITS).unwrap();
                    assert_eq!(group.sample().unwrap().processes, 0);
                    more.remove().unwrap();
                }
            });
        }
    });
}

/// Not a check but a measurement: `cargo test --release -- --ignored --nocapture operation_times`.
#[test]
#[ignore = "prints times"]
fn cgroup_operation_times() {
    let Some(cgroups) = cgroups("cgroup_operation_times") else {
        return;
    };
    let median = |what: &str, mut run: Box<dyn FnMut() -> Duration + '_>| {
        let mut times: Vec<_> = (0..300).map(|_| run()).collect();
        times.sort();
        let us = |index: usize| times[index].as_secs_f64() * 1e6;
        eprintln!("{what}: min {:.0} p50 {:.0} p95 {:.0} us", us(0), us(150), us(285));
    };
    let timed = |run: &mut dyn FnMut()| {
        let start = Instant::now();
        run();
        start.elapsed()
    };
    drop(cgroups.take(&LIMITS));
    let with_cpus = GroupLimits { cpus: Some(1.5), ..LIMITS };
    let settled = || eventually("settled", || cgroups.pending() == 0);
    for (what, limits) in [("take, no pool", LIMITS), ("take with cpus, no pool", with_cpus)] {
        median(
            what,
            Box::new(|| {
                let mut group = None;
                let time = timed(&mut || group = Some(cgroups.take(&limits).unwrap()));
                drop(group);
                settled();
                time
            }),
        );
    }
    cgroups.keep_ready(2);
    for (what, limits) in [("take, pool", LIMITS), ("take with cpus, pool", with_cpus)] {
        median(
            what,
            Box::new(|| {
                eventually("ready", || cgroups.ready() == 2);
                let mut group = None;
                let time = timed(&mut || group = Some(cgroups.take(&limits).unwrap()));
                drop(group);
                settled();
                time
            }),
        );
    }
    let group = cgroups.take(&LIMITS).unwrap();
    median("sample", Box::new(|| timed(&mut || drop(group.sample()))));
    median("join", Box::new(|| timed(&mut || drop(group.join()))));
    median(
        "drop of an empty group (caller's part)",
        Box::new(|| {
            let group = cgroups.take(&LIMITS).unwrap();
            let mut group = Some(group);
            timed(&mut || drop(group.take()))
        }),
    );
    settled();
    median(
        "remove of an empty group",
        Box::new(|| {
            let mut group = Some(cgroups.take(&LIMITS).unwrap());
            timed(&mut || group.take().unwrap().remove().unwrap())
        }),
    );
    median("detect", {
        let mut kept = None;
        Box::new(move || timed(&mut || kept = Some(Cgroups::detect().unwrap())))
    });
    median(
        "drop of Cgroups with one group unused",
        Box::new(|| {
            let mut one = Some(Cgroups::detect().unwrap());
            timed(&mut || drop(one.take()))
        }),
    );
}
