//! The driver inside the arena: makes the decoys, runs the programs, and prints one line of JSON for each
//! run.

use std::io;
use std::path::Path;
use std::process::{Command, Stdio};
use std::time::{Duration, Instant};

use nix::sys::signal::{Signal, killpg};
use nix::unistd::Pid;

use crate::decoys::{Decoys, read_bounded};
use crate::run::{Run, Setting};
use crate::table::{Expect, Probe, Row, rows};
use crate::task::{Task, Work};
use crate::words::{Ending, Wall};
use crate::{engine, scenarios};

/// Time limit of a program without a sandbox.
const BARE_TIMEOUT: Duration = Duration::from_secs(30);

/// Time between a sandbox's answer and the end of its last process.
const TEARDOWN_TIMEOUT: Duration = Duration::from_secs(2);

/// Prefix of the line that names the row of the following lines.
pub const ROW: &str = "row ";

/// Entry point of the driver stage.
///
/// # Errors
/// When the decoys cannot be made, or there is no such row.
pub fn main(task: &Task) -> io::Result<i32> {
    let find = |name: &str| {
        rows()
            .find(|r| r.test_name() == name)
            .ok_or_else(|| io::Error::other(format!("there is no row {name}")))
    };
    match &task.work {
        Work::Nothing => {}
        Work::Bare(name) => {
            let row = find(name)?;
            let decoys = Decoys::new(&task.base, task.effort)?;
            print(&bare(row, &decoys, &task.base)?)?;
        }
        Work::Full(name) => full(find(name)?, &Decoys::new(&task.base, task.effort)?, task)?,
        Work::Rows(names) => {
            let decoys = Decoys::new(&task.base, task.effort)?;
            for name in names {
                println!("{ROW}{name}");
                full(find(name)?, &decoys, task)?;
            }
        }
        Work::LandlockOnly(name) => {
            let row = find(name)?;
            let decoys = Decoys::new(&task.base, task.effort)?;
            let mut run =
                engine::run(row, &argv(row, &decoys, &task.base), &task.base, Setting::LandlockOnly, &[]);
            run.survivor = Decoys::end_survivors(TEARDOWN_TIMEOUT);
            print(&run)?;
        }
        Work::Special(name) => {
            let test = scenarios::ALL
                .iter()
                .find(|s| s.name == *name)
                .ok_or_else(|| io::Error::other(format!("there is no special test {name}")))?;
            let decoys = Decoys::new(&task.base, task.effort)?;
            let place = scenarios::Place { base: &task.base, decoys: &decoys, effort: task.effort };
            let result = (test.run)(&place).unwrap_or_else(scenarios::Said::Bad);
            println!("{}", serde_json::to_string(&result)?);
        }
    }
    Ok(0)
}

/// Runs a row without a sandbox, and then in every setting.
fn full(row: &Row, decoys: &Decoys, task: &Task) -> io::Result<()> {
    if !matches!(row.expect, Expect::Ends(_)) {
        print(&bare(row, decoys, &task.base)?)?;
    }
    for (setting, without) in settings(row, task) {
        decoys.refresh()?;
        let mut run = engine::run(row, &argv(row, decoys, &task.base), &task.base, setting, &without);
        run.survivor = Decoys::end_survivors(TEARDOWN_TIMEOUT);
        print(&run)?;
    }
    Ok(())
}

fn print(run: &Run) -> io::Result<()> {
    println!("{}", serde_json::to_string(run)?);
    Ok(())
}

/// Every setting of a row except the bare one, with the defences that are knocked out in it.
fn settings(row: &Row, task: &Task) -> Vec<(Setting, Vec<Wall>)> {
    let mut settings = vec![(Setting::AllOn, Vec::new())];
    if row.expect == Expect::Stopped {
        let layers: Vec<Wall> = row.walls_for(task.user).filter(|w| matches!(w, Wall::Layer(_))).collect();
        settings.extend(layers.iter().map(|wall| (Setting::Without(*wall), vec![*wall])));
        if !layers.is_empty() {
            settings.push((Setting::AllOut, layers));
        }
    }
    settings
}

/// Command line of a row.
#[must_use]
pub fn argv(row: &Row, decoys: &Decoys, base: &Path) -> Vec<String> {
    let bin = |name: &str| base.join("bin").join(name).to_string_lossy().into_owned();
    let (mut argv, arguments) = match row.probe {
        Probe::C(name, arguments) => (vec![bin("attack"), name.to_owned()], arguments),
        Probe::Python(file, arguments) => (vec!["/usr/bin/python3".to_owned(), bin(file)], arguments),
        Probe::Shell(file, arguments) => (vec!["/bin/bash".to_owned(), bin(file)], arguments),
    };
    argv.extend(arguments.iter().map(|a| decoys.fill(a)));
    argv
}

/// Runs a row with no confinement but the arena.
fn bare(row: &Row, decoys: &Decoys, base: &Path) -> io::Result<Run> {
    use std::os::unix::process::{CommandExt, ExitStatusExt};
    let start = Instant::now();
    let argv = argv(row, decoys, base);
    let mut command = if nix::unistd::geteuid().is_root() {
        // In a separate mount namespace, so that its mounts do not affect others.
        let mut command = Command::new(base.join("bin/attack"));
        command.args(["own_mounts", "--"]).args(argv);
        command
    } else {
        let (program, arguments) = argv.split_first().ok_or_else(|| io::Error::other("no program"))?;
        let mut command = Command::new(program);
        command.args(arguments);
        command
    };
    let mut child = command
        .env("HOME", base.join("home"))
        .env("HOTCELL_DECOY_ENV", "1")
        .current_dir(base.join("home"))
        .stdin(Stdio::null())
        .stdout(Stdio::piped())
        .stderr(Stdio::piped())
        .process_group(0)
        .spawn()?;
    let (out, err) = (child.stdout.take(), child.stderr.take());
    let readers = [
        std::thread::spawn(move || out.map(|o| read_bounded(o, 1 << 16)).unwrap_or_default()),
        std::thread::spawn(move || err.map(|o| read_bounded(o, 1 << 16)).unwrap_or_default()),
    ];
    let status = loop {
        if let Some(status) = child.try_wait()? {
            break status;
        }
        if start.elapsed() > BARE_TIMEOUT {
            child.kill()?;
            break child.wait()?;
        }
        std::thread::sleep(Duration::from_millis(5));
    };
    let survivor = Decoys::end_survivors(Duration::ZERO);
    if let Ok(group) = i32::try_from(child.id()) {
        // Processes that it started may still hold the pipes.
        let _ = killpg(Pid::from_raw(group), Signal::SIGKILL);
    }
    let [_, note] = readers.map(|r| r.join().unwrap_or_default());
    decoys.refresh()?;
    let ending = match (status.code(), status.signal()) {
        (Some(code), _) => Ending::Exited(code),
        (None, signal) => Ending::Signaled(
            signal.and_then(|s| Signal::try_from(s).ok()).map_or_else(String::new, |s| s.as_str().to_owned()),
        ),
    };
    let note = String::from_utf8_lossy(&note[note.len().saturating_sub(600)..]).trim().to_owned();
    let milliseconds = u64::try_from(start.elapsed().as_millis()).unwrap_or(u64::MAX);
    Ok(Run { setting: Setting::Bare, ending, survivor, in_force: Vec::new(), note, milliseconds })
}
