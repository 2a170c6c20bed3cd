//! Runs real frameworks in real sandboxes, on valid, broken and hostile projects.
//!
//! pytest is installed from the package registry into a virtual environment; if that fails, its tests are
//! skipped by name. No test here may end with a wrong "passed".

mod browser;
mod builds;
mod cargo;
mod golang;
mod gtest;
mod hostile;
mod java;
mod jest;
mod nextest;
mod node;
mod pgtap;
mod plain;
mod primed;
mod printers;
mod scripts;
mod unittest;
mod verdicts;
mod words;

use std::ffi::{OsStr, OsString};
use std::path::{Path, PathBuf};
use std::process::{Command, Stdio};
use std::sync::OnceLock;
use std::time::Duration;

use hotcell_sandbox::outcome::Cause;
use hotcell_sandbox::policy::Limits;
use hotcell_sandbox::{Bytes, Engine, Policy};
use hotcell_testing::{
    Case, Event, Progress, ProjectFolder, Selection, Session, Status, TestReport, Verdict, framework,
};
use hotcell_toolchain::{self as toolchain, Surroundings};

const SYSTEM_PYTHON: &str = "/usr/bin/python3";

/// A folder with these files.
fn project(files: &[(&str, &str)]) -> tempfile::TempDir {
    let folder = tempfile::tempdir().unwrap();
    for (name, text) in files {
        let path = folder.path().join(name);
        std::fs::create_dir_all(path.parent().unwrap()).unwrap();
        std::fs::write(path, text).unwrap();
    }
    folder
}

/// A virtual environment with pytest (in the version of `HOTCELL_TEST_PYTEST`) and pytest-xdist, made once
/// and removed when this process has ended.
fn with_pytest() -> Option<&'static Path> {
    static VENV: OnceLock<Result<PathBuf, String>> = OnceLock::new();
    let made = VENV.get_or_init(|| {
        let wanted = std::env::var_os("HOTCELL_TEST_PYTEST");
        // Prepared by a script for every suite.
        if let (None, Some(venv)) = (&wanted, std::env::var_os("HOTCELL_TEST_VENV")) {
            return Ok(venv.into());
        }
        let folder = tempfile::tempdir().map_err(|e| e.to_string())?.keep();
        let venv = folder.join("venv");
        // Standard input is closed when this process ends.
        Command::new("sh")
            .args([OsStr::new("-c"), OsStr::new("read -r _; rm -rf \"$0\""), folder.as_os_str()])
            .stdin(Stdio::piped())
            .spawn()
            .map(std::mem::forget)
            .map_err(|e| e.to_string())?;
        let run = |program: &Path, args: &[&OsStr]| {
            let output =
                Command::new(program).args(args).env("HOME", &folder).output().map_err(|e| e.to_string())?;
            if output.status.success() {
                Ok(())
            } else {
                Err(String::from_utf8_lossy(&output.stderr).into_owned())
            }
        };
        run(Path::new(SYSTEM_PYTHON), &["-m".as_ref(), "venv".as_ref(), venv.as_os_str()])?;
        // Such as `pytest==7.2.*`, the oldest supported version.
        let pytest = wanted.unwrap_or_else(|| "pytest".into());
        let words = ["-q", "install", "pytest-xdist"].map(OsStr::new);
        run(&venv.join("bin/pip"), &[&words[..], &[&pytest]].concat())?;
        Ok(venv)
    });
    match made {
        Ok(venv) => Some(venv),
        Err(error) => {
            println!("skipped: no pytest: {error}");
            None
        }
    }
}

/// The system's interpreter.
fn with_python() -> Option<&'static Path> {
    if Path::new(SYSTEM_PYTHON).exists() {
        Some(Path::new("/usr"))
    } else {
        println!("skipped: no {SYSTEM_PYTHON}");
        None
    }
}

/// Result of a run, with all observed events.
struct Ran {
    report: TestReport,
    events: Vec<Event>,
}

impl Ran {
    fn case(&self, end: &str) -> &Case {
        self.report
            .cases
            .iter()
            .find(|c| c.id.ends_with(end))
            .unwrap_or_else(|| panic!("no {end}: {}", self.told()))
    }

    /// For assertions: everything that helps to understand a wrong report.
    fn told(&self) -> String {
        serde_json::to_string_pretty(&self.report).unwrap()
    }

    /// Passed, failed, errored, skipped, not finished.
    fn counts(&self) -> [u64; 5] {
        let t = &self.report.totals;
        [t.passed, t.failed, t.errored, t.skipped, t.not_finished]
    }

    fn assert(&self, verdict: Verdict, complete: bool, consistent: bool) -> &Self {
        let r = &self.report;
        assert_eq!((r.verdict, r.complete, r.consistent), (verdict, complete, consistent), "{}", self.told());
        self
    }

    /// Checks that it has not passed, and that its cases do not suggest so either.
    fn assert_not_passed(&self) -> &Self {
        assert!(self.report.verdict != Verdict::Passed, "{}", self.told());
        assert!(!(self.report.complete && self.report.consistent), "{}", self.told());
        self
    }
}

fn limits() -> Limits {
    Limits {
        memory: Bytes::mib(512),
        wall: Duration::from_secs(60),
        cpu_time: None,
        processes: 128,
        disk: Bytes::mib(64),
        output: Bytes::mib(32),
        ..Limits::default()
    }
}

/// Longer limits for a run whose time limit ended it before this test began, as it does on a busy machine where a compiler or a
/// runner needs that long to start; otherwise `None`.
fn longer(limits: &Limits, ran: &Ran, end: &str) -> Option<Limits> {
    let began = |case: &Case| case.id.ends_with(end) && case.status == Status::NotFinished;
    let early = ran.report.outcome.cause == Cause::WallLimit && !ran.report.cases.iter().any(began);
    early.then(|| Limits { wall: Duration::from_secs(240), ..limits.clone() })
}

/// A prepared session.
fn session(name: &str, prefix: &Path, folder: &Path, selection: &Selection, limits: Limits) -> Session {
    session_with(name, prefix, folder, selection, limits, |policy| policy)
}

/// Like [`session`], with a policy that is adapted first.
fn session_with(
    name: &str,
    prefix: &Path,
    folder: &Path,
    selection: &Selection,
    limits: Limits,
    more: impl FnOnce(Policy) -> Policy,
) -> Session {
    let framework = framework(name).unwrap();
    let opened = ProjectFolder::open(folder).unwrap();
    let command = framework.command(selection, &opened).unwrap();
    let followed = framework.followed(selection, &opened);
    let path = [prefix.join("bin").as_os_str(), OsStr::new(":/usr/bin:/bin")].concat_all();
    let around = Surroundings { path: Some(path.clone()), cwd: folder.to_owned(), ..Surroundings::default() };
    let found = toolchain::find(&command.argv[0], &around).unwrap();
    let mut policy = Policy::new(&found.program).args(&command.argv[1..]).workspace(folder).limits(limits);
    policy.job.toolchains = found.prefixes;
    policy.job.env = found.env;
    policy.job.env.push(("PATH".into(), path));
    let session = Session::new(framework, command, more(policy)).unwrap().following(followed);
    session.selecting(selection.filter.clone(), false)
}

trait ConcatAll {
    fn concat_all(self) -> OsString;
}

impl ConcatAll for [&OsStr; 2] {
    fn concat_all(self) -> OsString {
        let mut all = self[0].to_owned();
        all.push(self[1]);
        all
    }
}

async fn run_with(
    name: &str,
    prefix: &Path,
    files: &[(&str, &str)],
    selection: Selection,
    limits: Limits,
) -> Ran {
    let folder = project(files);
    follow(session(name, prefix, folder.path(), &selection, limits)).await
}

async fn follow(session: Session) -> Ran {
    let mut events = Vec::new();
    let report = session
        .run(&Engine::new(), &mut |progress| {
            if let Progress::Event(event) = progress {
                events.push(event.clone());
            }
        })
        .await;
    Ran { report, events }
}

/// A new folder with the packages in this folder's lock file, removed when this process has ended.
fn installed_by_npm(from: &Path) -> Result<PathBuf, String> {
    let folder = tempfile::tempdir().map_err(|e| e.to_string())?.keep();
    // Standard input is closed when this process ends.
    Command::new("sh")
        .args([OsStr::new("-c"), OsStr::new("read -r _; rm -rf \"$0\""), folder.as_os_str()])
        .stdin(Stdio::piped())
        .spawn()
        .map(std::mem::forget)
        .map_err(|e| e.to_string())?;
    for file in ["package.json", "package-lock.json"] {
        std::fs::copy(from.join(file), folder.join(file)).map_err(|e| e.to_string())?;
    }
    let output = Command::new("npm")
        .args(["install", "--silent", "--ignore-scripts", "--no-audit", "--no-fund"])
        .current_dir(&folder)
        .env("HOME", &folder)
        .output()
        .map_err(|e| format!("npm: {e}"))?;
    match output.status.success() {
        true => Ok(folder),
        false => Err(String::from_utf8_lossy(&output.stderr).into_owned()),
    }
}

/// A policy that lets only these system programs be found by name.
fn only(mut policy: Policy, project: &Path, programs: &[&str]) -> Policy {
    std::fs::create_dir(project.join("bin")).unwrap();
    for name in programs {
        std::os::unix::fs::symlink(Path::new("/usr/bin").join(name), project.join("bin").join(name)).unwrap();
    }
    policy.job.env.retain(|(name, _)| name != "PATH");
    policy.job.env.push(("PATH".into(), "/home/sandbox/project/bin".into()));
    policy
}

async fn pytest(prefix: &Path, files: &[(&str, &str)]) -> Ran {
    run_with("pytest", prefix, files, Selection::default(), limits()).await
}

fn filtered(filter: &str) -> Selection {
    Selection { filter: Some(filter.to_owned()), ..Selection::default() }
}
