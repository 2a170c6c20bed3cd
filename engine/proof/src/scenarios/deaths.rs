//! Process lifetimes: nothing of a run outlives the process that started it, and no call passes without a
//! supervisor.

use std::fs::{self, File};
use std::os::unix::fs::{FileExt, PermissionsExt};
use std::path::Path;
use std::time::Duration;

use hotcell_sandbox::{Bytes, Cause, Confinement, Policy};
use nix::sys::signal::Signal;

use super::{Place, Process, Said, after_kills, check, good, groups, io_error, run, shell, wait_until};

/// Time limit for the end of a run's last process.
const END_TIMEOUT: Duration = Duration::from_secs(5);
/// Number of kills, at increasing delays during a start, which takes a few milliseconds here.
const KILLS: usize = 60;

pub(crate) fn supervisor_killed(place: &Place<'_>) -> Result<Said, String> {
    let before = groups();
    let mut supervisor = place.start(&sleeping(place, Confinement::Namespaces))?;
    let started = wait_until(END_TIMEOUT, || !Process::with_word("sleep_long").is_empty());
    supervisor.kill().map_err(io_error)?;
    supervisor.wait().map_err(io_error)?;
    check(started, || "the program did not start".to_owned())?;
    check(wait_until(END_TIMEOUT, || Process::with_word("sleep_long").is_empty()), || {
        format!("outlived the supervisor: {:?}", Process::with_word("sleep_long"))
    })?;
    after_kills();
    let after = groups();
    check(after <= before, || format!("{before} cgroups before, {after} after"))?;
    good("all died, no cgroup is left")
}

fn sleeping(place: &Place<'_>, confinement: Confinement) -> Policy {
    let mut policy = place.attack(&["sleep_long"]).wall(Duration::from_secs(60));
    policy.shape.confinement = confinement;
    policy
}

/// Processes left by sandboxes of other supervisors.
fn remains() -> Vec<Process> {
    let mut all = Process::with_word("sleep_long");
    all.extend(Process::all().filter(|p| p.name == "hotcell-init" || p.name == "hotcell-launch"));
    all
}

/// Kills hotcell, its launcher, or both at every moment of a start.
pub(crate) fn killed_while_it_starts(place: &Place<'_>) -> Result<Said, String> {
    let mut seen = 0;
    let kills = place.effort.of(KILLS);
    // Spread over the whole start, whatever their number.
    for (number, turn) in (0..KILLS as u64).step_by(KILLS / kills).enumerate() {
        let confinement = if number % 5 == 4 { Confinement::LandlockOnly } else { Confinement::Namespaces };
        let mut supervisor = place.start(&sleeping(place, confinement))?;
        std::thread::sleep(Duration::from_millis(turn));
        let launcher = Process::child_of(supervisor.id(), "hotcell-launch");
        seen += usize::from(!Process::with_word("sleep_long").is_empty());
        if let Some(launcher) = launcher.filter(|_| number % 3 != 0) {
            launcher.signal(Signal::SIGKILL);
        }
        if number % 3 == 1 {
            // Another launcher may be started meanwhile.
            std::thread::sleep(Duration::from_millis(turn % 7));
        }
        supervisor.kill().map_err(io_error)?;
        supervisor.wait().map_err(io_error)?;
    }
    check(wait_until(END_TIMEOUT, || remains().is_empty()), || format!("survived: {:?}", remains()))?;
    after_kills();
    let scratch = fs::read_dir("/tmp").map_err(io_error)?.flatten();
    let scratch: Vec<_> =
        scratch.filter(|e| e.file_name().to_string_lossy().starts_with("hotcell-")).collect();
    check(scratch.is_empty(), || format!("scratch folders are left: {scratch:?}"))?;
    good(format!("{kills} kills, {seen} of them when the program ran already"))
}

/// Kills the supervisor, and stops the launcher and process 1 so that they cannot end the program, which then
/// runs on: no call may pass that the filter refuses, or that has to be reported to the supervisor.
pub(crate) fn supervisor_killed_while_asked(place: &Place<'_>) -> Result<Said, String> {
    let path = place.base.join("granted/log");
    fs::write(&path, [0; 4096]).map_err(io_error)?;
    fs::set_permissions(&path, fs::Permissions::from_mode(0o666)).map_err(io_error)?;
    let log = File::open(&path).map_err(io_error)?;
    // Refused; passed; refused because the supervisor is gone; and allowed but reported.
    let counts = || -> [u64; 4] {
        let mut bytes = [0; 32];
        let _ = log.read_exact_at(&mut bytes, 0);
        [0, 8, 16, 24].map(|at| u64::from_ne_bytes(bytes[at..at + 8].try_into().unwrap_or_default()))
    };
    let policy = place.attack(&["refused_without_end", "log=/home/sandbox/log"]);
    let mut supervisor = place.start(&policy.read_write(&path, "/home/sandbox/log"))?;
    let started = wait_until(END_TIMEOUT, || counts()[0] > 10 && counts()[3] > 10);
    let launcher = Process::child_of(supervisor.id(), "hotcell-launch");
    let init =
        launcher.as_ref().and_then(|l| Process::child_of(l.pid.as_raw().unsigned_abs(), "hotcell-init"));
    for process in [&launcher, &init].into_iter().flatten() {
        process.signal(Signal::SIGSTOP);
    }
    supervisor.kill().map_err(io_error)?;
    supervisor.wait().map_err(io_error)?;
    let orphaned = wait_until(END_TIMEOUT, || counts()[2] > 5);
    let first = counts();
    std::thread::sleep(Duration::from_millis(200));
    let second = counts();
    for process in [&init, &launcher].into_iter().flatten() {
        process.signal(Signal::SIGCONT);
    }
    let gone = wait_until(END_TIMEOUT, || Process::with_word("refused_without_end").is_empty());
    check(started && launcher.is_some() && init.is_some(), || format!("it did not start: {:?}", counts()))?;
    check(orphaned, || format!("no call was answered ENOSYS: {second:?}"))?;
    check(second[1] == 0, || format!("{} refused calls passed", second[1]))?;
    check(second[3] == first[3], || "a call passed that nobody could hear of".to_owned())?;
    check(gone, || "the program outlived its supervisor".to_owned())?;
    after_kills();
    good(format!("{} calls failed with nobody to answer, none passed", second[2]))
}

/// Takes forever in little memory: the preprocessor expands 2^40 empty macros.
const ENDLESS: &str = "#define A0\n#define A1 A0 A0 A0 A0\n#define A2 A1 A1 A1 A1\n#define A3 A2 A2 A2 A2\n\
    #define A4 A3 A3 A3 A3\n#define A5 A4 A4 A4 A4\n#define A6 A5 A5 A5 A5\n#define A7 A6 A6 A6 A6\n\
    #define A8 A7 A7 A7 A7\n#define A9 A8 A8 A8 A8\n#define B0 A9 A9 A9 A9\n#define B1 B0 B0 B0 B0\n\
    #define B2 B1 B1 B1 B1\n#define B3 B2 B2 B2 B2\n#define B4 B3 B3 B3 B3\n#define B5 B4 B4 B4 B4\nB5 int x;\n";

/// A compiler is a tree of processes with temporary files: all of it ends at the time limit.
pub(crate) fn compiler(_: &Place<'_>) -> Result<Said, String> {
    if !Path::new("/usr/bin/cc").exists() {
        return Ok(Said::Skipped("no C compiler here".to_owned()));
    }
    let compiling = || Process::all().filter(|p| p.name == "cc1" || p.name == "as").count();
    for confinement in [Confinement::Namespaces, Confinement::LandlockOnly] {
        let mut policy = shell("cc -pipe -O2 -x c -c -o out.o -")
            .stdin_bytes(ENDLESS)
            .memory(Bytes::gib(4))
            .wall(Duration::from_secs(2));
        policy.shape.confinement = confinement;
        let worker = std::thread::spawn(move || run(&policy));
        let seen = wait_until(Duration::from_secs(2), || compiling() > 0);
        let (outcome, took) = worker.join().map_err(|_| "the run panicked".to_owned())??;
        check(seen, || format!("the compiler did not start: {:?}", outcome.stderr))?;
        check(outcome.cause == Cause::WallLimit, || format!("{:?}: {:?}", outcome.cause, outcome.stderr))?;
        check(took < Duration::from_secs(8), || format!("took {took:?}"))?;
        check(wait_until(END_TIMEOUT, || compiling() == 0), || "the compiler goes on".to_owned())?;
    }
    good("compiler and assembler ended at the wall clock")
}
