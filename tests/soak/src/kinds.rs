//! Kinds of runs with their weights, and their only correct endings.

use std::path::PathBuf;
use std::time::Duration;

use nix::sys::signal::Signal;

use crate::dice::Dice;

/// Surroundings of the runs.
#[derive(Clone, Debug)]
pub struct Place {
    /// Folder with everything of this soak.
    pub work: PathBuf,
    /// Program under test.
    pub hotcell: PathBuf,
    /// Whether limits are enforced and observed by cgroups.
    pub cgroups: bool,
    /// Whether `/usr/bin/python3` exists.
    pub python: bool,
}

/// One kind of run.
pub struct Kind {
    pub name: &'static str,
    /// Relative frequency.
    pub weight: u64,
    /// Approximate duration on an idle machine, in milliseconds: blows fall within it.
    pub span: u64,
    make: fn(&mut Dice, &Place, &str) -> Case,
}

impl Kind {
    /// A run of this kind. Its command line contains `mark`.
    pub fn case(&self, dice: &mut Dice, place: &Place, mark: &str) -> Case {
        let mut case = (self.make)(dice, place, mark);
        // A run whose output is read to its end may also be requested as JSON.
        let json = case.reader != Reader::Closes && dice.chance(25);
        case.json = case.verb == Verb::Test || case.verb == Verb::Run && json;
        case
    }
}

/// Behaviour of the reader of its standard output.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Reader {
    /// Reads at once.
    Quick,
    /// Reads a little at a time.
    Slow,
    /// Reads a little and closes its end.
    Closes,
}

/// Expected standard output.
#[derive(Clone, Debug)]
pub enum Printed {
    /// Exactly this text.
    Exactly(String),
    /// A large output that consists only of this text.
    Only(&'static str),
    /// Any output before the end of the run.
    Anything,
    /// A test report with these totals.
    Tests { passed: u64, failed: u64 },
    /// The report of [`crate::library`], without a wrong run.
    Report,
}

/// A correct ending.
#[derive(Clone, Debug)]
pub struct Ending {
    pub code: i32,
    pub cause: &'static str,
    pub printed: Printed,
}

/// Ctrl-C, or SIGTERM.
#[derive(Clone, Copy, Debug)]
pub struct Interrupt {
    pub signal: Signal,
    /// Sent as by a terminal: to hotcell and all that it started.
    pub group: bool,
    pub after: Duration,
}

/// Program to start.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Verb {
    /// `hotcell run`.
    Run,
    /// `hotcell test` of a project, whose command line has no place for a mark.
    Test,
    /// Not the program: runs through the library in a process of their own.
    Library,
}

/// One run.
#[derive(Clone, Debug)]
pub struct Case {
    /// Options and arguments after the verb; the mark is the last.
    pub words: Vec<String>,
    /// Standard input.
    pub stdin: String,
    pub reader: Reader,
    pub interrupt: Option<Interrupt>,
    pub endings: Vec<Ending>,
    /// A file outside that contains the mark afterwards.
    pub writes: Option<PathBuf>,
    pub json: bool,
    pub verb: Verb,
}

impl Case {
    fn of(options: &[&str], program: &[&str], mark: &str, ending: Ending) -> Self {
        let words = options.iter().chain(&["--"]).chain(program).copied().chain([mark]);
        Self {
            words: words.map(str::to_owned).collect(),
            stdin: String::new(),
            reader: Reader::Quick,
            interrupt: None,
            endings: vec![ending],
            writes: None,
            json: false,
            verb: Verb::Run,
        }
    }

    /// A shell script whose `$0` is the mark.
    fn shell(options: &[&str], script: &str, mark: &str, ending: Ending) -> Self {
        Self::of(options, &["sh", "-c", script], mark, ending)
    }

    fn python(options: &[&str], script: &str, mark: &str, ending: Ending) -> Self {
        Self::of(options, &[PYTHON, "-c", script], mark, ending)
    }
}

/// Without a user namespace the limit counts all processes of an ordinary user, including those of other
/// runs.
const LANDLOCK_ONLY: [&str; 4] = ["--profile", "landlock-only", "--processes", "4096"];
const PYTHON: &str = "/usr/bin/python3";

fn exits(code: i32, printed: impl Into<String>) -> Ending {
    Ending { code, cause: "exited", printed: Printed::Exactly(printed.into()) }
}

fn stopped(cause: &'static str, printed: Printed) -> Ending {
    Ending { code: 124, cause, printed }
}

/// A limit that is reached before any output.
fn quietly(cause: &'static str) -> Ending {
    stopped(cause, Printed::Exactly(String::new()))
}

/// Kinds that this host supports.
pub fn here(place: &Place) -> Vec<&'static Kind> {
    let needs_python = |k: &Kind| k.name.ends_with("(python)");
    KINDS.iter().filter(|k| place.python || !needs_python(k)).collect()
}

/// The simplest run.
pub fn plain(mark: &str) -> Case {
    Case::of(&[], &["echo", "plain"], mark, exits(0, format!("plain {mark}\n")))
}

const fn kind(name: &'static str, weight: u64, span: u64, make: fn(&mut Dice, &Place, &str) -> Case) -> Kind {
    Kind { name, weight, span, make }
}

static KINDS: [Kind; 28] = [
    kind("plain", 12, 20, |_, _, m| plain(m)),
    // Output was lost once in 250 runs on a busy machine, long ago.
    kind("last words", 12, 20, |dice, _, m| {
        let text = format!("{:x}", dice.roll()).repeat(1 + usize::try_from(dice.below(200)).unwrap_or(0));
        Case::of(&[], &["printf", "%s %s", &text], m, exits(0, format!("{text} {m}")))
    }),
    kind("own status", 6, 20, |dice, _, m| {
        let code = i32::try_from(1 + dice.below(120)).unwrap_or(1);
        Case::shell(&[], &format!("echo $0; exit {code}"), m, exits(code, format!("{m}\n")))
    }),
    kind("signal", 6, 20, |dice, _, m| {
        let (name, number) =
            *dice.pick(&[("TERM", 15), ("SEGV", 11), ("KILL", 9), ("USR1", 10), ("ABRT", 6)]);
        let ending =
            Ending { code: 128 + number, cause: "signaled", printed: Printed::Exactly(format!("{m}\n")) };
        Case::shell(&[], &format!("echo $0; kill -{name} $$"), m, ending)
    }),
    kind("not there", 2, 15, |_, _, m| {
        let ending = Ending { code: 127, cause: "not_found", printed: Printed::Exactly(String::new()) };
        Case::of(&[], &["no-such-program"], m, ending)
    }),
    kind("daemons", 6, 25, |_, _, m| {
        let script = "setsid sh -c 'sleep 600; :' $0 & (sleep 600 &) ; echo x >/tmp/x; echo $0";
        Case::shell(&[], script, m, exits(0, format!("{m}\n")))
    }),
    kind("input", 4, 25, |_, _, m| {
        let text = "0123456789abcdef".repeat(3000);
        let case = Case::shell(&[], "cat", m, exits(0, text.clone()));
        Case { stdin: text, ..case }
    }),
    kind("workspace", 6, 30, |_, place, m| {
        let project = place.work.join("project").display().to_string();
        let script =
            "cat file; echo $0 >file; rm sub/other; mkdir new; echo x >new/y; cat file; ls sub | wc -l";
        Case::shell(&["--workspace", &project], script, m, exits(0, format!("original\n{m}\n0\n")))
    }),
    kind("binds", 5, 30, |_, place, m| {
        let ro = format!("{}:/data", place.work.join("project").display());
        let rw = format!("{}:/out", place.work.join("out").display());
        let script = "cat /data/file; (echo no >/data/file) 2>/dev/null || echo kept; echo $0 >/out/$0";
        let case = Case::shell(&["--ro", &ro, "--rw", &rw], script, m, exits(0, "original\nkept\n"));
        Case { writes: Some(place.work.join("out").join(m)), ..case }
    }),
    kind("source (python)", 5, 70, |dice, _, m| {
        let (a, b) = (dice.below(1000), dice.below(1000));
        let mut case = Case::of(&[], &[], m, exits(0, format!("{} {m}\n", a * b)));
        case.words.splice(0..0, ["--lang", "python", "-"].map(str::to_owned));
        Case { stdin: format!("import sys\nprint({a} * {b}, sys.argv[1])\n"), ..case }
    }),
    kind("strict", 5, 20, |_, place, m| {
        // All layers, or nothing is run.
        let refused = Ending { code: 125, cause: "refused", printed: Printed::Exactly(String::new()) };
        let ending = if place.cgroups { exits(4, format!("{m}\n")) } else { refused };
        Case::shell(&["--profile", "strict"], "echo $0; exit 4", m, ending)
    }),
    kind("landlock only", 6, 25, |_, _, m| {
        let script = "echo $0 >$HOME/x; mkdir $TMPDIR/d; sleep 600 & cat $HOME/x";
        Case::shell(&LANDLOCK_ONLY, script, m, exits(0, format!("{m}\n")))
    }),
    kind("landlock only, workspace", 3, 25, |_, place, m| {
        let project = place.work.join("project").display().to_string();
        let options = [LANDLOCK_ONLY.as_slice(), &["--workspace", &project]].concat();
        Case::shell(&options, "cat file; echo $0 >file; cat file", m, exits(0, format!("original\n{m}\n")))
    }),
    kind("memory", 3, 80, |_, _, m| {
        // tail looks for a line end. A single process: with two, one may see the other's end and print.
        Case::shell(&["--memory", "32M"], "tail /dev/zero", m, quietly("memory_limit"))
    }),
    kind("wall clock", 4, 150, |dice, _, m| {
        let limit = format!("{}ms", 50 + dice.below(150));
        let script = "echo $0; trap '' TERM INT; sleep 600 & sleep 600; :";
        // On a busy machine its time may be over before its first output.
        Case::shell(&["--timeout", &limit], script, m, stopped("wall_limit", Printed::Anything))
    }),
    kind("processor time", 2, 350, |_, _, m| {
        Case::shell(&["--cpu-time", "300ms"], "while :; do :; done", m, quietly("cpu_limit"))
    }),
    kind("output", 3, 40, |_, _, m| {
        Case::shell(&["--output", "64K"], "yes", m, stopped("output_limit", Printed::Only("y\n")))
    }),
    kind("disk", 3, 30, |_, _, m| {
        let script = "head -c 8M /dev/zero 2>/dev/null >/tmp/x; echo $?";
        Case::shell(&["--disk", "2M"], script, m, exits(0, "1\n"))
    }),
    kind("disk, on and on", 1, 1100, |_, _, m| {
        Case::shell(&["--disk", "1M"], "cat /dev/zero >/tmp/x; sleep 30", m, quietly("disk_limit"))
    }),
    kind("files", 3, 30, |_, _, m| {
        let script = "i=0; while [ $i -lt 99 ]; do : >/tmp/$i; i=$((i + 1)); done; echo all";
        // The shell ends when it cannot create a file for `:`.
        Case::shell(&["--files", "50"], script, m, exits(2, ""))
    }),
    kind("processes (python)", 3, 60, |_, _, m| {
        let script = "import os, time\nn = 0\ntry:\n while n < 100:\n  n += 1\n  if os.fork() == 0: time.sleep(600)\nexcept OSError: print('held')";
        Case::python(&["--processes", "16"], script, m, exits(0, "held\n"))
    }),
    kind("processes, on and on (python)", 1, 1200, |_, place, m| {
        let script = "import os, time\nwhile True:\n try:\n  if os.fork() == 0: time.sleep(600)\n except OSError: time.sleep(0.01)";
        let cause = if place.cgroups { "process_limit" } else { "wall_limit" };
        Case::python(&["--processes", "8", "--timeout", "3s"], script, m, quietly(cause))
    }),
    kind("queues (python)", 3, 80, |_, _, m| {
        // The key and the name are searched for outside afterwards.
        let script = format!(
            "import ctypes, mmap, os, sys\nlibc = ctypes.CDLL(None)\nname = '/' + sys.argv[1]\n\
             print(libc.shmget({key}, 4096, 0o1600) >= 0, libc.mq_open(name.encode(), 0o102, 0o600, None) >= 0)\n\
             open('/dev/shm' + name, 'w').write('x')",
            key = ipc_key()
        );
        Case::python(&[], &script, m, exits(0, "True True\n"))
    }),
    kind("long output, slow reader", 4, 120, |_, _, m| {
        let lines: String = (1..=30_000).map(|n| format!("{n}\n")).collect();
        let case = Case::shell(&[], "seq 1 30000", m, exits(0, lines));
        Case { reader: Reader::Slow, ..case }
    }),
    kind("long output, nobody reads", 4, 60, |_, _, m| {
        let ending = Ending { code: 141, cause: "cancelled", printed: Printed::Anything };
        Case { reader: Reader::Closes, ..Case::shell(&[], "yes", m, ending) }
    }),
    kind("interrupted", 5, 120, |dice, _, m| {
        let interrupt = Interrupt {
            signal: *dice.pick(&[Signal::SIGINT, Signal::SIGTERM]),
            group: dice.chance(50),
            after: dice.time(120),
        };
        let ending = Ending { code: 130, cause: "cancelled", printed: Printed::Anything };
        let script = "echo $0; (sleep 600 &) ; sleep 600; :";
        Case { interrupt: Some(interrupt), ..Case::shell(&[], script, m, ending) }
    }),
    kind("tests (python)", 4, 200, |dice, place, m| {
        let (project, code, failed) = *dice.pick(&[("passes", 0, 0), ("fails", 1, 1)]);
        let ending = Ending { code, cause: "exited", printed: Printed::Tests { passed: 2, failed } };
        let project = place.work.join(project).display().to_string();
        Case { verb: Verb::Test, words: vec![project], ..Case::of(&[], &[], m, ending) }
    }),
    kind("library", 3, 120, |dice, _, m| {
        let ending = Ending { code: 0, cause: "", printed: Printed::Report };
        let order = format!("{} 5\n", dice.roll());
        Case { verb: Verb::Library, stdin: order, ..Case::of(&[], &[], m, ending) }
    }),
];

/// Key of shared memory that programs make and leave: unique to this soak.
pub fn ipc_key() -> u32 {
    0x5000_0000 | std::process::id()
}
