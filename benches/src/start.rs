//! One start of `/bin/true` at a time: every variant once, then every variant again, so that whatever else the
//! machine does meets all of them alike.

use std::io::{BufRead, BufReader, Write};
use std::path::{Path, PathBuf};
use std::process::{Child, ChildStdin, ChildStdout, Command, Stdio};
use std::time::{Duration, Instant};

use anyhow::{Context, Result, bail, ensure};
use hotcell_sandbox::pool::{Pool, PoolOptions};
use hotcell_sandbox::seccomp::{self, Arch};
use hotcell_sandbox::{Engine, Policy};
use nix::spawn::{PosixSpawnAttr, PosixSpawnFileActions, posix_spawn};
use nix::sys::wait::{WaitStatus, waitpid};

use crate::Options;
use crate::report::{Report, Row};
use crate::stats::Samples;

/// The program that does nothing.
pub const TRUE: &str = "/bin/true";
/// Between two measurements: the kernel takes namespaces down behind the answer, which would slow the next one.
const PAUSE: Duration = Duration::from_millis(3);
/// Runs before the first measurement.
const WARM: u32 = 5;

/// The names of the rows.
pub const START: &str = "start of /bin/true";
/// See [`START`].
pub const PROCESS: &str = "whole process";

/// Measures the table of starts.
pub async fn measure(
    engine: &Engine,
    files: &FloorFiles,
    options: &Options,
    report: &mut Report,
) -> Result<()> {
    let mut floor = Floor::start(files, &[])?;
    let hotcell = whole_process(options)?;
    let state = tempfile::tempdir()?;
    let [mut bare, mut c, mut cold, mut hot, mut peer, mut whole] =
        [const { Vec::new() }; 6].map(Samples::from_iter);
    let pool = Pool::new(engine.clone(), PoolOptions { each: 1, ..PoolOptions::default() });
    // What was asked for twice is made ahead from then on.
    for _ in 0..2 {
        run_hot(&pool).await?;
    }
    for run in 0..options.runs + WARM {
        let warm = run < WARM;
        let keep = |samples: &mut Samples, us: f64| {
            if !warm {
                samples.push(us);
            }
        };
        keep(&mut bare, spawn_bare()?);
        pause().await;
        keep(&mut c, floor.run()?);
        pause().await;
        keep(&mut cold, run_cold(engine).await?);
        ensure!(engine.settle(Duration::from_secs(5)).await, "a sandbox does not go away");
        pause().await;
        keep(&mut hot, run_hot(&pool).await?);
        ensure!(engine.settle(Duration::from_secs(5)).await, "a sandbox does not go away");
        // The next one is made meanwhile.
        while pool.ready() == 0 {
            pause().await;
        }
        keep(&mut peer, time(&mut bubblewrap())?);
        pause().await;
        if let Some(hotcell) = &hotcell {
            keep(&mut whole, time(&mut hotcell_run(hotcell, state.path()))?);
            pause().await;
        }
    }
    report.table(vec![
        Row::of_times(START, "bare", &bare),
        Row::of_times(START, "floor", &c),
        Row::of_times(START, "cold", &cold),
        Row::of_times(START, "hot", &hot),
        Row::of_times(START, "bubblewrap", &peer),
    ]);
    report.at_most("cold start / bare spawn", cold.median() / bare.median(), 2.8, " x");
    report.at_most("hot start / bare spawn", hot.median() / bare.median(), 1.25, " x");
    report.at_most("hot start, p99 / bare spawn, p50", hot.percentile(99.0) / bare.median(), 3.0, " x");
    report.at_most("hot start / bubblewrap", hot.median() / peer.median(), 0.2, " x");
    report.at_most("cold start / bubblewrap", cold.median() / peer.median(), 0.4, " x");
    report.at_most("cold start / floor", cold.median() / c.median(), 1.25, " x");
    if hotcell.is_some() {
        report
            .table(vec![Row::of_times(PROCESS, "cold", &whole), Row::of_times(PROCESS, "bubblewrap", &peer)]);
        report.at_most("`hotcell run` / `bwrap`", whole.median() / peer.median(), 1.0, " x");
    }
    Ok(())
}

async fn pause() {
    tokio::time::sleep(PAUSE).await;
}

/// Spawns and waits; microseconds.
fn spawn_bare() -> Result<f64> {
    let asked = Instant::now();
    let pid = posix_spawn::<str, &std::ffi::CStr, &std::ffi::CStr>(
        TRUE,
        &PosixSpawnFileActions::init()?,
        &PosixSpawnAttr::init()?,
        &[c"/bin/true"],
        &[c"PATH=/usr/bin:/bin", c"LANG=C.UTF-8"],
    )?;
    let status = waitpid(pid, None)?;
    let us = micros(asked);
    ensure!(matches!(status, WaitStatus::Exited(_, 0)), "{TRUE}: {status:?}");
    Ok(us)
}

async fn run_cold(engine: &Engine) -> Result<f64> {
    let policy = Policy::new(TRUE);
    let asked = Instant::now();
    let outcome = engine.run(&policy).await;
    let us = micros(asked);
    ensure!(outcome.success(), "{TRUE} inside: {:?}", outcome.reason);
    Ok(us)
}

async fn run_hot(pool: &Pool) -> Result<f64> {
    let policy = Policy::new(TRUE);
    let asked = Instant::now();
    let outcome = pool.run(&policy).await;
    let us = micros(asked);
    ensure!(outcome.success(), "{TRUE} inside: {:?}", outcome.reason);
    Ok(us)
}

/// Microseconds since then.
pub fn micros(since: Instant) -> f64 {
    since.elapsed().as_secs_f64() * 1e6
}

/// Runs a command to its end; microseconds.
pub fn time(command: &mut Command) -> Result<f64> {
    let asked = Instant::now();
    let status = command.status().with_context(|| format!("{}", command.get_program().display()))?;
    let us = micros(asked);
    ensure!(status.success(), "{command:?}: {status}");
    Ok(us)
}

/// Debian's bubblewrap with the same namespaces and a like root. It has no Landlock, and no filter is given to it.
pub fn bubblewrap() -> Command {
    let mut bwrap = Command::new("bwrap");
    bwrap.args(["--unshare-all", "--unshare-user", "--die-with-parent", "--new-session", "--clearenv"]);
    bwrap.args(["--uid", "1000", "--gid", "1000", "--hostname", "sandbox", "--ro-bind", "/usr", "/usr"]);
    for name in ["bin", "sbin", "lib", "lib32", "lib64", "libx32"] {
        let path = Path::new("/").join(name);
        match path.read_link() {
            Ok(says) => bwrap.arg("--symlink").arg(says).arg(path),
            Err(_) => bwrap.arg("--ro-bind-try").arg(&path).arg(path),
        };
    }
    bwrap.args(["--ro-bind-try", "/etc/ld.so.cache", "/etc/ld.so.cache", "--proc", "/proc", "--dev", "/dev"]);
    bwrap.args(["--tmpfs", "/tmp", "--tmpfs", "/home/sandbox", "--chdir", "/home/sandbox", TRUE]);
    bwrap.stdin(Stdio::null());
    bwrap
}

fn hotcell_run(hotcell: &Path, state: &Path) -> Command {
    let mut run = Command::new(hotcell);
    run.arg("run").arg("--state").arg(state).args(["--quiet", "--", TRUE]);
    run.stdin(Stdio::null());
    run
}

/// The executable that was named, else the one next to this program.
pub fn whole_process(options: &Options) -> Result<Option<PathBuf>> {
    if let Some(named) = &options.hotcell {
        ensure!(named.is_file(), "{}: no such file", named.display());
        return Ok(Some(named.canonicalize()?));
    }
    let next = std::env::current_exe()?.with_file_name("hotcell");
    Ok(next.is_file().then_some(next))
}

/// The filters that hotcell would install, as files for the floor.
#[derive(Debug)]
pub struct FloorFiles(tempfile::TempDir);

impl FloorFiles {
    /// Writes them.
    pub fn new() -> Result<Self> {
        let folder = tempfile::tempdir()?;
        let options = seccomp::Options {
            notify: true,
            internet: true,
            host_writes: false,
            namespaces: true,
            plain: false,
            accounted: true,
            truncates: false,
        };
        std::fs::write(folder.path().join("program"), seccomp::program(Arch::HOST, options).as_bytes())?;
        std::fs::write(folder.path().join("init"), seccomp::init(Arch::HOST).as_bytes())?;
        Ok(Self(folder))
    }

    /// The floor with these filters.
    pub fn command(&self) -> Command {
        let mut floor = Command::new(env!("HOTCELL_FLOOR"));
        floor.arg("--filter").arg(self.0.path().join("program"));
        floor.arg("--init-filter").arg(self.0.path().join("init"));
        floor
    }
}

/// A floor that makes one run when asked.
#[derive(Debug)]
pub struct Floor {
    child: Child,
    ask: Option<ChildStdin>,
    answers: BufReader<ChildStdout>,
}

impl Floor {
    /// Starts it, without these steps.
    pub fn start(files: &FloorFiles, without: &[&str]) -> Result<Self> {
        let mut command = files.command();
        command.arg("--serve");
        if !without.is_empty() {
            command.arg("--without").arg(without.join(","));
        }
        let mut child = command.stdin(Stdio::piped()).stdout(Stdio::piped()).spawn().context("the floor")?;
        let ask = child.stdin.take();
        let Some(answers) = child.stdout.take().map(BufReader::new) else { bail!("the floor has no output") };
        Ok(Self { child, ask, answers })
    }

    /// One run; the microseconds that it measured itself.
    pub fn run(&mut self) -> Result<f64> {
        let ask = self.ask.as_mut().context("the floor was ended")?;
        ask.write_all(b"run\n").context("the floor has ended")?;
        let mut line = String::new();
        self.answers.read_line(&mut line)?;
        line.trim().parse().context("the floor has ended; its message is above")
    }
}

impl Drop for Floor {
    fn drop(&mut self) {
        self.ask = None; // the end of its input ends it
        let _ = self.child.wait();
    }
}
