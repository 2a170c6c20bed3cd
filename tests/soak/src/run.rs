//! One run of a case: started, disturbed, read, and judged.

use std::fs::File;
use std::io::{Read, Write};
use std::path::Path;
use std::process::{ChildStdout, Command, Stdio};
use std::thread;
use std::time::{Duration, Instant};

use nix::sys::signal::Signal;
use nix::sys::wait::WaitStatus;
use serde_json::Value;

use crate::dice::Dice;
use crate::kinds::{Case, Ending, Kind, Place, Printed, Reader, Verb};
use crate::processes::Children;

/// Time limit for any run: the slowest kind takes three seconds on an idle machine.
const RUN_TIMEOUT: Duration = Duration::from_secs(60);

/// Disturbance of a run.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Blow {
    /// SIGKILL of hotcell.
    Hotcell,
    /// SIGKILL of its launcher: hotcell must report that, or be correct all the same.
    Launcher,
    /// SIGKILL of both, the launcher first or last.
    Both { launcher_first: bool },
    /// SIGSTOP, and SIGKILL later.
    StoppedFirst { launcher: bool },
    /// The launcher is stopped while hotcell is killed, and killed later.
    StoppedHeir,
    /// SIGKILL of a launcher that outlives its hotcell for a moment to clean up.
    Heir,
    /// SIGSTOP, and SIGCONT later: this must have no effect.
    Pause { launcher: bool },
}

/// A blow, its time, and the delay of its second half.
#[derive(Clone, Copy, Debug)]
pub struct Plan {
    pub blow: Blow,
    pub after: Duration,
    pub gap: Duration,
}

impl Plan {
    /// Draws a blow for a run of this kind, or none. Half of the blows fall while the sandbox is made.
    pub fn draw(dice: &mut Dice, kind: &Kind, case: &Case) -> Option<Self> {
        let mut blows = vec![(Blow::Hotcell, 35), (Blow::StoppedFirst { launcher: false }, 5)];
        // A service judges its own runs, and blows would disturb them.
        if case.verb != Verb::Library {
            blows.extend([
                (Blow::Launcher, 18),
                (Blow::Both { launcher_first: true }, 8),
                (Blow::Both { launcher_first: false }, 8),
                (Blow::StoppedFirst { launcher: true }, 4),
                (Blow::StoppedHeir, 4),
                (Blow::Heir, 8),
                (Blow::Pause { launcher: false }, 5),
                (Blow::Pause { launcher: true }, 5),
            ]);
        }
        let hit = dice.chance(30);
        let blow = dice.weighted(&blows, |b| b.1).0;
        let after = if dice.chance(50) { dice.time(25) } else { dice.time(kind.span * 5 / 4) };
        let gap = if dice.chance(50) { Duration::ZERO } else { dice.time(200) };
        hit.then_some(Self { blow, after, gap })
    }

    /// Whether the blow may have killed hotcell itself.
    fn kills_hotcell(self) -> bool {
        !matches!(
            self.blow,
            Blow::Launcher | Blow::StoppedFirst { launcher: true } | Blow::Heir | Blow::Pause { .. }
        )
    }

    /// Whether the blow may have killed its launcher while hotcell waited for an answer.
    fn kills_launcher(self) -> bool {
        matches!(
            self.blow,
            Blow::Launcher | Blow::Both { .. } | Blow::StoppedFirst { launcher: true } | Blow::StoppedHeir
        )
    }

    /// Strikes; returns how many of the intended processes were there.
    fn strike(self, children: &Children, pid: i32) -> u64 {
        thread::sleep(self.after);
        let rest = || thread::sleep(self.gap);
        let hotcell = |signal| u64::from(children.signal(pid, signal, false));
        let found = children.launcher_of(pid);
        let launcher =
            |signal| u64::from(found.as_ref().is_some_and(|found| children.signal_found(found, signal)));
        let one = |is_launcher: bool, signal| if is_launcher { launcher(signal) } else { hotcell(signal) };
        match self.blow {
            Blow::Hotcell => hotcell(Signal::SIGKILL),
            Blow::Launcher => launcher(Signal::SIGKILL),
            Blow::Both { launcher_first } => {
                let first = one(launcher_first, Signal::SIGKILL);
                rest();
                first + one(!launcher_first, Signal::SIGKILL)
            }
            Blow::StoppedFirst { launcher: is_launcher } => {
                one(is_launcher, Signal::SIGSTOP);
                rest();
                one(is_launcher, Signal::SIGKILL)
            }
            Blow::StoppedHeir => {
                launcher(Signal::SIGSTOP);
                let first = hotcell(Signal::SIGKILL);
                rest();
                first + launcher(Signal::SIGKILL)
            }
            Blow::Pause { launcher: is_launcher } => {
                let was_there = one(is_launcher, Signal::SIGSTOP);
                rest();
                one(is_launcher, Signal::SIGCONT);
                was_there
            }
            // Nothing before the end of hotcell.
            Blow::Heir => 0,
        }
    }
}

/// Result of a run.
#[derive(Debug)]
pub struct Done {
    /// Number of processes that were killed or paused.
    pub struck: u64,
    /// Whether hotcell was killed before its end.
    pub killed: bool,
    /// Possible causes, if hotcell gave an answer: the history must have a row with one of them.
    pub answered: Option<Vec<&'static str>>,
    /// Description of the fault.
    pub wrong: Option<String>,
}

/// Runs a case.
pub fn run(children: &Children, place: &Place, case: &Case, plan: Option<Plan>, said: &Path) -> Done {
    let broken = |why: String| Done { struck: 0, killed: false, answered: None, wrong: Some(why) };
    let mut command = match command(place, case, said) {
        Ok(command) => command,
        Err(e) => return broken(format!("{}: {e}", said.display())),
    };
    let began = Instant::now();
    let (pid, mut child) = match children.start(&mut command) {
        Ok(started) => started,
        Err(e) => return broken(format!("cannot be started: {e}")),
    };
    drop(command);
    let (stdin, stdout) = (child.stdin.take(), child.stdout.take());
    let mut struck = 0;
    let (status, read) = thread::scope(|scope| {
        let reading = scope.spawn(|| stdout.map(|stdout| read(stdout, case.reader)).unwrap_or_default());
        scope.spawn(|| stdin.map(|mut stdin| stdin.write_all(case.stdin.as_bytes())));
        if let Some(interrupt) = case.interrupt {
            scope.spawn(move || {
                thread::sleep(interrupt.after);
                // A process that was interrupted before its handler was set is gone, or did not notice: a
                // shell's background jobs ignore SIGINT, and so do their children until they change that.
                while children.signal(pid, interrupt.signal, interrupt.group)
                    && children.lives(pid, Duration::from_secs(1))
                {}
            });
        }
        let striking = plan.map(|plan| scope.spawn(move || plan.strike(children, pid)));
        let status = children.wait(pid, RUN_TIMEOUT);
        if status.is_none() {
            children.signal(pid, Signal::SIGKILL, false);
            children.wait(pid, RUN_TIMEOUT);
        }
        if plan.is_some_and(|p| p.blow == Blow::Heir) {
            // An orphan of this hotcell or of another one that has just ended: all belong to this soak.
            let heir = children.heir();
            struck += u64::from(heir.is_some_and(|heir| children.signal_found(&heir, Signal::SIGKILL)));
        }
        struck += striking.and_then(|s| s.join().ok()).unwrap_or(0);
        (status, reading.join().unwrap_or_default())
    });
    let took = began.elapsed();
    let complaint = |why: String| {
        let words = std::fs::read_to_string(said).unwrap_or_default();
        let printed: String = String::from_utf8_lossy(&read).chars().take(600).collect();
        Some(format!(
            "{why} after {took:.1?}; {}; interrupt {:?}; plan {plan:?}; printed {} bytes {printed:?}; said {words:?}",
            case.words.join(" "),
            case.interrupt,
            read.len()
        ))
    };
    let mut done = Done { struck, killed: false, answered: None, wrong: None };
    match status {
        None => done.wrong = complaint("hung".to_owned()),
        Some(WaitStatus::Signaled(_, Signal::SIGKILL, _)) if plan.is_some_and(Plan::kills_hotcell) => {
            done.killed = true;
        }
        // Before its handler is set, a signal has its default effect.
        Some(WaitStatus::Signaled(_, signal, _)) if case.interrupt.is_some_and(|i| i.signal == signal) => {}
        Some(WaitStatus::Exited(_, code)) => {
            let mut endings = case.endings.clone();
            if plan.is_some_and(Plan::kills_launcher) {
                // With a closed reader the exit status is the same, whatever ended the run.
                let code = if case.reader == Reader::Closes { code } else { 125 };
                let lost = |cause| Ending { code, cause, printed: Printed::Anything };
                endings.extend([lost("internal"), lost("refused")]);
            }
            match endings.iter().find(|e| is_right(e, case, code, &read)) {
                Some(right) => {
                    let right: Vec<&Ending> = endings.iter().filter(|e| e.code == right.code).collect();
                    if case.verb == Verb::Run {
                        done.answered = Some(right.iter().map(|e| e.cause).collect());
                    }
                    // A file outside is written if the program ended well.
                    let holds =
                        |path| std::fs::read_to_string(path).is_ok_and(|t| t.trim_end() == last(case));
                    if code == 0 && case.writes.as_ref().is_some_and(|path| !holds(path)) {
                        done.wrong = complaint(format!("{:?} was not written", case.writes));
                    }
                }
                None => done.wrong = complaint(format!("exit status {code}")),
            }
        }
        Some(other) => done.wrong = complaint(format!("{other:?}")),
    }
    if let Some(path) = &case.writes {
        let _ = std::fs::remove_file(path);
    }
    done
}

/// Mark of the run.
fn last(case: &Case) -> &str {
    case.words.last().map_or("", String::as_str)
}

fn command(place: &Place, case: &Case, said: &Path) -> std::io::Result<Command> {
    use std::os::unix::process::CommandExt;
    let of_hotcell = |verb: &str| {
        let mut command = Command::new(&place.hotcell);
        command.arg(verb).arg("--state").arg(place.work.join("state"));
        command.args(case.json.then_some("--json")).args(&case.words);
        command
    };
    let mut command = match case.verb {
        Verb::Run => of_hotcell("run"),
        Verb::Test => of_hotcell("test"),
        Verb::Library => {
            let mut command = Command::new(std::env::current_exe()?);
            command.arg("library").arg(last(case));
            command
        }
    };
    if case.interrupt.is_some_and(|i| i.group) {
        command.process_group(0);
    }
    surroundings(&mut command, place);
    let stdin = if case.stdin.is_empty() { Stdio::null() } else { Stdio::piped() };
    command.stdin(stdin).stdout(Stdio::piped()).stderr(File::create(said)?);
    Ok(command)
}

/// Sets the environment, so that hotcell writes only to folders of this soak.
pub fn surroundings(command: &mut Command, place: &Place) {
    command.env_clear().env("PATH", "/usr/local/bin:/usr/bin:/bin").env("LANG", "C.UTF-8");
    command.env("HOME", place.work.join("home")).env("TMPDIR", place.work.join("tmp"));
    command.current_dir(place.work.join("home"));
}

fn read(mut stdout: ChildStdout, reader: Reader) -> Vec<u8> {
    let mut text = Vec::new();
    let mut piece = vec![0; 4096];
    let slowly = match reader {
        Reader::Quick => 0,
        Reader::Slow => 25,
        Reader::Closes => 1,
    };
    for _ in 0..slowly {
        match stdout.read(&mut piece) {
            Ok(n) if n > 0 => text.extend_from_slice(&piece[..n]),
            _ => return text,
        }
        thread::sleep(Duration::from_millis(4));
    }
    if reader != Reader::Closes {
        let _ = stdout.read_to_end(&mut text);
    }
    text
}

/// Whether the run had this ending. Without JSON, the cause is in the history.
fn is_right(ending: &Ending, case: &Case, code: i32, read: &[u8]) -> bool {
    if code != ending.code {
        return false;
    }
    let text = |text: &str| match &ending.printed {
        Printed::Exactly(want) => text == want,
        Printed::Only(line) => {
            text.len() > 1000 && text.len() < 16 << 20 && (text.replace(line, "").len() < line.len())
        }
        Printed::Anything => true,
        Printed::Tests { passed, failed } => {
            let report: Option<Value> = serde_json::from_str(text).ok();
            report.is_some_and(|r| {
                let totals = (&r["totals"]["passed"], &r["totals"]["failed"], &r["outcome"]["cause"]);
                totals == (&Value::from(*passed), &Value::from(*failed), &Value::from(ending.cause))
            })
        }
        Printed::Report => {
            let report: Option<Value> = serde_json::from_str(text).ok();
            report.is_some_and(|r| r["wrong"].as_array().is_some_and(Vec::is_empty))
        }
    };
    if case.json && case.verb == Verb::Run {
        let outcome: Option<Value> = serde_json::from_slice(read).ok();
        return outcome
            .is_some_and(|o| o["cause"] == ending.cause && o["stdout"]["text"].as_str().is_some_and(text));
    }
    text(&String::from_utf8_lossy(read))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn run_endings_are_judged() {
        let place = Place { work: "/w".into(), hotcell: "/h".into(), cgroups: true, python: true };
        let kind = crate::kinds::here(&place)[0];
        let mut case = kind.case(&mut Dice::new(1, 1), &place, "mark");
        let ending = case.endings[0].clone();
        let plain = b"plain mark\n".as_slice();
        let object = br#"{"cause":"exited","stdout":{"text":"plain mark\n"}}"#.as_slice();
        let other = br#"{"cause":"signaled","stdout":{"text":"plain mark\n"}}"#.as_slice();
        for (json, code, read, want) in [
            (false, 0, plain, true),
            (false, 1, plain, false),
            (false, 0, &plain[..5], false),
            (false, 0, object, false),
            (true, 0, object, true),
            (true, 0, other, false),
            (true, 0, plain, false),
            (true, 0, b"", false),
        ] {
            case.json = json;
            assert_eq!(is_right(&ending, &case, code, read), want, "{json} {code} {read:?}");
        }
    }
}
