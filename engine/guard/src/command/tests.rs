use super::*;
use std::collections::BTreeMap;
use std::path::{Path, PathBuf};

/// A folder as a table: names, and links with their targets.
struct Table(BTreeMap<PathBuf, Node>);

impl Files for Table {
    fn node(&self, path: &Path) -> Option<Node> {
        self.0.get(path).cloned()
    }
    fn head(&self, path: &Path) -> Vec<u8> {
        match path.to_str() {
            Some("x") => b"\x7fELF\x02".to_vec(),
            Some("pl") => b"#!/usr/bin/perl -w\nprint 1;\n".to_vec(),
            Some("envs") => b"#! /usr/bin/env -S python3 -c 'P'\n".to_vec(),
            Some("itself") => b"#!./itself\n".to_vec(),
            _ => b"a,b\n".to_vec(),
        }
    }
}

fn folder() -> Table {
    let file = |name: &str| (PathBuf::from(name), Node::File);
    let link = |name: &str, to: &str| (PathBuf::from(name), Node::Link(to.into()));
    Table(BTreeMap::from([
        file("x"),
        file("data.csv"),
        file("notes"),
        file("pl"),
        file("envs"),
        file("itself"),
        ("app".into(), Node::Folder),
        file("app/__main__.py"),
        file("app/mod.txt"),
        link("alias", "data.csv"),
        link("deep", "app/../alias"),
        link("abs", "/home/sandbox/project/x"),
        link("py", "/usr/bin/python3"),
        link("loop", "loop"),
        link("in.py", "/dev/stdin"),
        link("fd.py", "/proc/self/fd/0"),
        link("up.py", "../../../dev/stdin"),
        file("app/Makefile"),
    ]))
}

/// Code that a command line executes, as words: `LANGUAGE=TEXT`, `LANGUAGE<PATH`, `LANGUAGE<-`, `?PART`.
fn told(env: &[(&str, &str)], argv: &[&str]) -> Vec<String> {
    let argv: Vec<OsString> = argv.iter().map(OsString::from).collect();
    let env: Vec<(OsString, OsString)> = env.iter().map(|(n, v)| (n.into(), v.into())).collect();
    let command = Command { argv: &argv, env: &env, stdin: true, files: &folder() };
    let mut all: Vec<String> = executed(&command)
        .into_iter()
        .map(|item| match item {
            Item::Text { text, language, .. } => format!("{}={text}", language.name()),
            Item::File { path, language } => format!("{}<{path}", language.name()),
            Item::Stdin { language } => format!("{}<-", language.name()),
            Item::Pattern { path, language } => format!("{}~{path}", language.name()),
            Item::Folder { path } => format!("in {path}"),
            Item::Given { path, program } => format!("{program}+{path}"),
            Item::Unknown { part, .. } => format!("?{part}"),
        })
        .collect();
    all.sort();
    all
}

#[test]
fn inline_code_is_found_through_options_and_wrappers() {
    for (argv, want) in [
        (&["python3", "-c", "P"][..], &["python=P"][..]),
        (&["python3", "-cP"], &["python=P"]),
        (&["python3.11", "-IBuc", "P", "-c", "arg"], &["python=P"]),
        (&["/usr/bin/python3", "-W", "ignore", "-X", "dev", "-c", "P"], &["python=P"]),
        (&["python3", "-Wignore", "-Sc", "P"], &["python=P"]),
        (&["python3", "-ic", "P"], &["python<-", "python=P"]),
        (&["pypy3", "-c", "P"], &["python=P"]),
        (&["python3", "-m", "timeit", "-sS", "P"], &["python=P", "python=S"]),
        (&["bash", "-c", "S"], &["shell=S"]),
        (&["sh", "-ec", "S", "arg"], &["shell=S"]),
        (&["bash", "-euo", "pipefail", "-c", "S"], &["shell=S"]),
        (&["bash", "-oc", "pipefail", "S"], &["shell=S"]),
        (&["bash", "-c", "-x", "S"], &["shell=S"]),
        (&["bash", "-c", "--", "S"], &["shell=S"]),
        (&["bash", "+o", "posix", "-c", "S"], &["shell=S"]),
        (&["bash", "--rcfile", "notes", "-i", "-c", "S"], &["shell<-", "shell<notes", "shell=S"]),
        (&["bash", "-rcfile", "notes", "-c", "S"], &["shell<notes", "shell=S"]),
        (&["dash", "-c", "S"], &["shell=S"]),
        (&["node", "-e", "J"], &["javascript=J"]),
        (&["node", "--eval=J"], &["javascript=J"]),
        (&["node", "-pe", "J"], &["javascript=J"]),
        (&["node", "-p", "J"], &["javascript=J"]),
        (&["node", "--no-warnings", "--print", "J"], &["javascript=J"]),
        (&["node", "-r", "./x", "-e", "J"], &["javascript<x", "javascript=J"]),
        (&["node", "--import=./x", "-e", "J"], &["javascript<x", "javascript=J"]),
        (&["deno", "eval", "J"], &["javascript=J"]),
        (&["bun", "-e", "J"], &["javascript=J"]),
        (&["perl", "-e", "P"], &["perl=P"]),
        (&["perl", "-lane", "P"], &["perl=P"]),
        (&["perl", "-Mstrict", "-0777", "-ne", "P"], &["perl=P"]),
        (&["ruby", "-ne", "R"], &["ruby=R"]),
        (&["php", "-r", "P"], &["php=P"]),
        (&["lua5.4", "-e", "L"], &["lua=L"]),
        (&["Rscript", "-e", "R"], &["r=R"]),
        (&["psql", "-d", "db", "-c", "Q"], &["sql=Q"]),
        (&["psql", "--command=Q"], &["sql=Q"]),
        (&["sqlite3", "a.db", "Q", "W"], &["sql=Q", "sql=W"]),
        (&["sqlite3", "-cmd", "Q", "a.db"], &["sql<-", "sql=Q"]),
        (&["env", "A=1", "python3", "-c", "P"], &["python=P"]),
        (&["env", "-i", "-u", "A", "--", "python3", "-c", "P"], &["python=P"]),
        (&["env", "-S", "python3 -c 'P Q'"], &["python=P Q"]),
        (&["/usr/bin/env", "-vS", "A=1 python3 -c", "P"], &["python=P"]),
        (&["env", "--split-string=python3 -Ic P"], &["python=P"]),
        (&["nice", "-n", "5", "timeout", "-k", "1", "5s", "python3", "-c", "P"], &["python=P"]),
        (&["timeout", "--signal=KILL", "5", "sh", "-c", "S"], &["shell=S"]),
        (&["nohup", "setsid", "stdbuf", "-oL", "time", "-p", "python3", "-c", "P"], &["python=P"]),
        (&["busybox", "sh", "-c", "S"], &["shell=S"]),
        (&["xargs", "-n", "1", "sh", "-c", "S"], &["shell=S"]),
        (&["xargs", "python3", "-c"], &["python<-"]),
        (&["xargs", "-I", "X", "sh", "-c", "X"], &["shell<-", "shell=X"]),
        (&["xargs", "-I{}", "sh", "-c", "{}"], &["shell<-", "shell={}"]),
        (
            &["find", ".", "-exec", "sh", "-c", "S", ";", "-exec", "python3", "-c", "P", "+"],
            &["python=P", "shell=S"],
        ),
        (&["git", "-c", "alias.x=!S", "x"], &["shell=S"]),
        (&["git", "-c", "core.pager=S", "log"], &["shell=S"]),
        (&["git", "rebase", "-x", "S", "main"], &["shell=S"]),
        (&["tar", "xf", "a.tar", "--to-command=S"], &["shell=S"]),
        (&["tar", "xf", "a.tar", "--to-com", "S"], &["shell=S"]),
        (&["tar", "cf", "a", "b", "--checkpoint=1", "--checkpoint-action=exec=S"], &["shell=S"]),
        (&["make", "SHELL=/bin/bash -c S"], &["shell=S"]),
        (&["make", "X=$(shell S)"], &["makefile=X=$(shell S)"]),
        (&["make", "--eval=$(shell S)"], &["makefile=$(shell S)"]),
        (&["flock", "/tmp/l", "-c", "S"], &["shell=S"]),
        (&["script", "-qc", "S", "/dev/null"], &["shell=S"]),
        (&["watch", "-n", "1", "echo", "a"], &["shell=echo a"]),
        (&["socat", "-", "EXEC:S,pty"], &["shell=S"]),
        (&["vim", "-es", "-c", ":!x"], &["vim script<-", "vim script=:!x"]),
        (&["gdb", "-batch", "-ex", "shell x"], &["gdb script=shell x"]),
        (&["/lib64/ld-linux-x86-64.so.2", "/usr/bin/python3", "-c", "P"], &["python=P"]),
        (&["./py", "-c", "P"], &["python=P"]),
        (&["awk", "BEGIN{system(\"x\")}"], &["awk=BEGIN{system(\"x\")}"]),
        (&["sed", "1e x"], &["sed=1e x"]),
        (&["sed", "-n", "s/a/x/e"], &["sed=s/a/x/e"]),
        (&["split", "--filter=S", "f"], &["shell=S"]),
        (&["unshare", "-r", "sh", "-c", "S"], &["shell=S"]),
    ] {
        assert_eq!(told(&[], argv), want, "{argv:?}");
    }
}

#[test]
fn files_and_standard_input_are_found() {
    for (argv, want) in [
        (&["python3", "data.csv"][..], &["python<data.csv"][..]),
        (&["python3", "-u", "./data.csv", "-c"], &["python<data.csv"]),
        (&["python3", "alias"], &["python<data.csv"]),
        (&["python3", "deep"], &["python<data.csv"]),
        (&["python3", "abs"], &["python<x"]),
        (&["python3", "app/../data.csv"], &["python<data.csv"]),
        (&["python3", "/home/sandbox/project/data.csv"], &["python<data.csv"]),
        (&["python3", "/proc/self/cwd/data.csv"], &["python<data.csv"]),
        (&["python3", "/proc/1/root/home/sandbox/project/data.csv"], &["python<data.csv"]),
        (&["python3", "../project/data.csv"], &["python<data.csv"]),
        (&["python3", "app"], &["python<app/__main__.py"]),
        (&["python3", "-m", "app"], &["python<app/__main__.py"]),
        (&["python3", "-m", "runpy", "data.csv"], &["python<data.csv"]),
        (&["python3", "-m", "cProfile", "-s", "time", "data.csv"], &["python<data.csv"]),
        (
            &["python3", "-mpdb", "-c", "continue", "data.csv"],
            &["python<-", "python<data.csv", "python=continue"],
        ),
        (&["python3", "loop"], &["?argv[1]"]),
        (&["python3", "missing.py"], &[]),
        (&["python3"], &["python<-"]),
        (&["python3", "-"], &["python<-"]),
        (&["python3", "-", "data.csv"], &["python<-"]),
        (&["python3", "-i", "data.csv"], &["python<-", "python<data.csv"]),
        (&["python3", "/dev/stdin"], &["python<-"]),
        (&["python3", "/dev/fd/0"], &["python<-"]),
        (&["python3", "/proc/self/fd/0"], &["python<-"]),
        (&["python3", "--check-hash-based-pycs", "never", "data.csv"], &["python<data.csv"]),
        (&["python3", "--unknown", "x", "data.csv"], &["python<-", "python<data.csv", "python<x"]),
        (&["bash", "notes"], &["shell<notes"]),
        (&["bash"], &["shell<-"]),
        (&["sh", "-s", "notes"], &["shell<-"]),
        (&["sh", "-es"], &["shell<-"]),
        (&["node", "x"], &["javascript<x"]),
        (&["node", "-"], &["javascript<-"]),
        (&["node"], &["javascript<-"]),
        (&["perl", "data.csv"], &["perl<data.csv"]),
        (&["perl"], &["perl<-"]),
        (&["psql", "-f", "notes"], &["sql<notes"]),
        (&["psql"], &["sql<-"]),
        (&["sqlite3", "a.db"], &["sql<-"]),
        (&["sqlite3", "-init", "notes", "a.db", "Q"], &["sql<notes", "sql=Q"]),
        (&["make", "-f", "notes"], &["makefile<notes"]),
        (&["make", "-fnotes"], &["makefile<notes"]),
        (&["make", "-f", "-"], &["makefile<-"]),
        (&["make", "all", "CFLAGS=-O2"], &[]),
        (&["./x"], &["program<x"]),
        (&["app/../x", "1"], &["program<x"]),
        (&["env", "-C", "/tmp", "./x"], &["in /tmp", "program<x", "program~./x"]),
        (&["nohup", "./notes"], &["shell<notes"]),
        (&["start-stop-daemon", "-S", "-x", "./notes"], &["shell<notes"]),
        (&["find", ".", "-exec", "{}", ";"], &["?argv[3]"]),
        (&["gcc", "-wrapper", "sh,-c,S", "a.c"], &["shell=S"]),
        (&["./pl"], &["perl<pl", "program<pl"]),
        (&["./envs"], &["program<envs", "python=P"]),
        (&["./itself"], &["?argv[0]", "program<itself"]),
        (&["java", "-jar", "x"], &["program<x"]),
        (&["java", "x"], &["java<x"]),
        (&["awk", "-f", "notes", "data.csv"], &["awk<notes"]),
        (&["sed", "-f", "notes", "data.csv"], &["sed<notes"]),
        (&["ed", "-s", "data.csv"], &["ed script<-"]),
        (&["xargs", "bash"], &["?argv[1]", "shell~\u{fffc}"]),
        (&["coverage", "run", "--branch", "data.csv"], &["python<data.csv"]),
        (&["uv", "run", "python", "data.csv"], &["python<data.csv"]),
        (&["/lib64/ld-linux-x86-64.so.2", "./x"], &["program<x"]),
        (&["pytest", "data.csv"], &["python<data.csv"]),
    ] {
        assert_eq!(told(&[], argv), want, "{argv:?}");
    }
}

#[test]
fn standard_input_is_found_by_every_name() {
    for name in [
        "-",
        "/dev/stdin",
        "/dev/fd/0",
        "//dev/./stdin",
        "/dev/../dev/stdin",
        "/tmp/../dev/fd/0",
        "../../../dev/stdin",
        "../../../proc/self/fd/0",
        "/proc/thread-self/fd/0",
        "in.py",
        "./in.py",
        "app/../fd.py",
        "up.py",
        "/home/sandbox/project/in.py",
    ] {
        for (argv, language) in [
            (&["python3", name][..], "python"),
            (&["node", name], "javascript"),
            (&["perl", name], "perl"),
            (&["sed", "-f", name, "data.csv"], "sed"),
            (&["awk", "-f", name, "data.csv"], "awk"),
            (&["make", "-f", name], "makefile"),
            (&["psql", "-f", name], "sql"),
            (&["nice", "python3", "-u", name], "python"),
        ] {
            assert_eq!(told(&[], argv), [format!("{language}<-")], "{argv:?}");
        }
    }
    for name in ["dev/stdin", "data.csv", "/dev/null", "x/../dev/stdin"] {
        let found = told(&[], &["python3", name]);
        assert!(!found.iter().any(|item| item.ends_with('-')), "{name} {found:?}");
    }
}

#[test]
fn options_hide_no_program() {
    for (argv, want) in [
        (&["sh", "-", "data.csv"][..], "shell<data.csv"),
        (&["bash", "-e", "-", "data.csv"], "shell<data.csv"),
        (&["bash", "--norc", "-", "data.csv"], "shell<data.csv"),
        (&["make", "-sf", "notes"], "makefile<notes"),
        (&["make", "-C", "app"], "makefile<app/Makefile"),
        (&["make", "-C", "app", "-f", "../notes"], "makefile<notes"),
        (&["make", "-Capp", "-kf../notes"], "makefile<notes"),
        (&["make", "--directory", "app", "--make=../notes"], "makefile<notes"),
        (
            &["node", "--diagnostic-dir", "/tmp", "--redirect-warnings", "/tmp/w", "./data.csv"],
            "javascript<data.csv",
        ),
        (&["setpriv", "--pdeathsig", "keep", "sh", "-c", "S"], "shell=S"),
        (&["setpriv", "--reuid", "1", "--regid", "1", "sh", "data.csv"], "shell<data.csv"),
        (&["timeout", "--other", "x", "5", "sh", "-c", "S"], "shell=S"),
        (&["setsid", "-w", "sh", "-c", "S"], "shell=S"),
        (&["unshare", "--map-users", "x", "sh", "-c", "S"], "shell=S"),
        (&["numactl", "-N", "0", "sh", "-c", "S"], "shell=S"),
        (&["command", "-p", "sh", "-c", "S"], "shell=S"),
        (&["time", "-p", "sh", "-c", "S"], "shell=S"),
    ] {
        let found = told(&[], argv);
        assert!(found.iter().any(|item| item == want), "{argv:?} {found:?}");
    }
    for argv in
        [&["command", "-v", "perl"][..], &["perl", "--version"], &["command", "-V", "sh"], &["ruby", "-v"]]
    {
        assert_eq!(told(&[], argv), Vec::<String>::new(), "{argv:?}");
    }
}

/// Whatever starts a shell when it is given no command executes its standard input.
#[test]
fn shells_without_a_command_read_standard_input() {
    for line in [
        "linux64",
        "linux32 -R",
        "setarch",
        "setarch x86_64",
        "setarch i686 --verbose",
        "x86_64 -B",
        "uname26",
        "aarch64",
        "fakeroot",
        "fakeroot -u --",
        "fakechroot",
        "nsenter",
        "nsenter -t 1 -m -u",
        "nsenter --target 1 --all",
        "unshare",
        "unshare -r --mount",
        "unshare --unknown x",
        "chroot /",
        "chroot --userspec=1:1 /",
        "pkexec",
        "pkexec --user x",
        "proot -r x",
        "schroot",
        "newgrp x",
        "login -f x",
        "su",
        "su -",
        "su x",
        "runuser -",
        "sg x",
        "sudo -s",
        "sudo -u x -i",
        "script",
        "script -q /dev/null",
        "scriptlive -T x y",
        "capsh --",
        "capsh --drop=all -- -s",
        "capsh == --",
        "tmux",
        "screen",
        "parallel",
        "nix-shell",
        "systemd-run -S",
        "nice linux64",
        "env A=b unshare -r",
    ] {
        let argv: Vec<&str> = line.split(' ').collect();
        let found = told(&[], &argv);
        assert!(found.contains(&"shell<-".to_owned()), "{line} {found:?}");
    }
    for line in [
        "linux64 cat",
        "linux64 --help",
        "setarch x86_64 -R cat",
        "unshare -r cat",
        "nsenter -t 1 -m cat",
        "chroot / cat",
        "fakeroot make",
        "sudo -u x cat",
        "sudo -s cat",
        "script --version",
        "capsh --print",
        "tmux ls",
        "screen -ls",
        "make linux64",
        "cargo build --target x86_64",
    ] {
        let argv: Vec<&str> = line.split(' ').collect();
        assert_eq!(told(&[], &argv), Vec::<String>::new(), "{line}");
    }
}

/// A wrapper that `xargs` gives its words to takes the command from standard input.
#[test]
fn fed_wrappers_take_their_program_from_standard_input() {
    for fed in ["xargs", "xargs -t", "xargs -n3", "xargs -0", "parallel"] {
        for wrapper in [
            "env",
            "nice",
            "timeout 3",
            "timeout",
            "nice -n 3 env -i",
            "sudo",
            "setsid",
            "busybox",
            "linux64",
        ] {
            let line = format!("{fed} {wrapper}");
            let argv: Vec<&str> = line.split(' ').collect();
            let found = told(&[], &argv);
            assert!(found.iter().any(|item| item.starts_with("?argv")), "{line} {found:?}");
        }
        for program in ["rm", "nice rm", "env A=b gzip", "timeout 3 gzip", "ls"] {
            let line = format!("{fed} {program}");
            let argv: Vec<&str> = line.split(' ').collect();
            let found = told(&[], &argv);
            assert!(!found.iter().any(|item| item.starts_with("?argv")), "{line} {found:?}");
        }
    }
    assert!(told(&[], &["xargs", "-I%", "%", "x"]).iter().any(|item| item.starts_with("?argv")));
    assert_eq!(told(&[], &["parallel", ":::", "S"]).iter().filter(|item| **item == "shell=S").count(), 1);
}

/// Options of sqlite and DuckDB are whole words: none of their letters is an option.
#[test]
fn options_of_sqlite_hide_no_standard_input() {
    for option in [
        "-batch",
        "-csv",
        "-json",
        "-list",
        "-echo",
        "-interactive",
        "-readonly",
        "-bail",
        "-header",
        "-column",
        "-box",
        "-ascii",
        "-stats",
        "-safe",
        "-html",
        "-quote",
        "--batch",
        "--csv",
        "-unknown",
        "-lookaside 10 10",
        "-pagecache 10 10",
        "-separator x",
        "-cmd .x",
        "-nullvalue s",
        "-heap 3",
        "-vfs c",
    ] {
        for program in ["sqlite3", "sqlite3.40", "sqlcipher"] {
            let line = format!("{program} {option} x.db");
            let argv: Vec<&str> = line.split(' ').collect();
            let found = told(&[], &argv);
            assert!(found.contains(&"sql<-".to_owned()), "{line} {found:?}");
            let argv: Vec<&str> = argv.into_iter().chain(["Q"]).collect();
            let found = told(&[], &argv);
            assert!(found.contains(&"sql=Q".to_owned()), "{line} Q {found:?}");
        }
    }
    for line in ["duckdb -csv x.db", "duckdb -list", "duckdb -batch -json x.db"] {
        let argv: Vec<&str> = line.split(' ').collect();
        assert_eq!(told(&[], &argv), ["sql<-"], "{line}");
    }
    assert_eq!(told(&[], &["duckdb", "x.db", "-c", "Q"]), ["sql=Q"]);
    assert_eq!(told(&[], &["sqlite3", "-csv", "x.db", "Q"]), ["sql=Q"]);
}

#[test]
fn ordinary_commands_execute_no_argument() {
    for argv in [
        &["/bin/true"][..],
        &["ls", "-la", "data.csv"],
        &["cat", "data.csv"],
        &["make", "test", "-j4", "V=1"],
        &["cargo", "test", "--", "-c"],
        &["awk", "{ s += $1 } END { print s }", "data.csv"],
        &["awk", "-F,", "$3 > 5 || $2 == \"a\" { print $1 }", "data.csv"],
        &["sed", "-n", "-e", "s/a/b/gp;/x/d", "data.csv"],
        &["sed", "-i", "10,20d; $!N; s|a|b|", "data.csv"],
        &["sed", "-E", "s/(a|b)+/[\\1]/g"],
        &["grep", "-c", "x", "data.csv"],
        &["git", "-c", "user.name=a", "log", "-p"],
        &["tar", "xzf", "data.csv", "-C", "app"],
        &["find", ".", "-name", "*.py"],
    ] {
        assert_eq!(told(&[], argv), Vec::<String>::new(), "{argv:?}");
    }
}

#[test]
fn variables_that_load_code_are_found() {
    for (env, argv, want) in [
        (("BASH_ENV", "notes"), &["bash", "-c", "S"][..], &["shell<notes", "shell=S"][..]),
        (("BASH_ENV", "$(S)"), &["true"], &["shell=\"$(S)\""]),
        (("ENV", "/dev/stdin"), &["true"], &["shell<-"]),
        (("PYTHONSTARTUP", "./x"), &["true"], &["python<x"]),
        (("NODE_OPTIONS", "--require ./x"), &["true"], &["javascript<x"]),
        (("NODE_OPTIONS", "--import=./x --no-warnings"), &["true"], &["javascript<x"]),
        (("NODE_OPTIONS", "--import=data:text/javascript,x"), &["true"], &["?env NODE_OPTIONS"]),
        (("PERL5OPT", "-Mx"), &["true"], &["perl=-Mx"]),
        (("RUBYOPT", "-r./x"), &["true"], &["ruby<x"]),
        (("LD_PRELOAD", "./x:data.csv"), &["true"], &["program<data.csv", "program<x"]),
        (("LD_PRELOAD", "/usr/lib/x.so"), &["true"], &[]),
        (("GIT_SSH_COMMAND", "S"), &["git", "fetch"], &["shell=S"]),
        (("GIT_EXTERNAL_DIFF", "S"), &["true"], &["shell=S"]),
        (("BASH_FUNC_ls%%", "() { S; }"), &["true"], &["shell=f ()  { S; }"]),
        (("PROMPT_COMMAND", "S"), &["true"], &["shell=S"]),
        (("JAVA_TOOL_OPTIONS", "-javaagent:x=a"), &["true"], &[]),
        (("JAVA_TOOL_OPTIONS", "-javaagent:x"), &["true"], &["program<x"]),
        (("CLASSPATH", "x:app"), &["true"], &["program<x"]),
        (("PYTHONPATH", "app"), &["true"], &[]),
        (("HOME", "/tmp"), &["true"], &[]),
    ] {
        assert_eq!(told(&[env], argv), want, "{env:?} {argv:?}");
    }
    let inner = told(&[], &["env", "BASH_ENV=notes", "bash", "-c", "true"]);
    assert_eq!(inner, ["shell<notes", "shell=true"]);
}

#[test]
fn deep_and_long_commands_are_bounded() {
    let deep: Vec<&str> = std::iter::repeat_n("nice", 100).chain(["python3", "-c", "P"]).collect();
    assert_eq!(told(&[], &deep), ["?argv[16]"]);
    let many: Vec<String> = (0..1000).map(|n| format!("Q{n}")).collect();
    let argv: Vec<&str> = ["sqlite3", "a.db"].into_iter().chain(many.iter().map(String::as_str)).collect();
    let all = told(&[], &argv);
    assert!(all.contains(&"?argv".to_owned()) && all.len() == MAX_EXECUTED + 1);
}

#[test]
fn plain_commands_skip_reading_others_do_not() {
    let argv = |words: &[&str]| words.iter().map(OsString::from).collect::<Vec<_>>();
    for words in [
        &["true"][..],
        &["ls", "-la", "/root/.ssh"],
        &["./solve", "1", "--fast", "in.txt"],
        &["cargo", "test"],
        &["make", "test", "V=1"],
        &["python3", "a.py", "x"],
    ] {
        assert!(!wants_reading(&argv(words)), "{words:?}");
    }
    for words in [
        &["rm", "-rf", "/home"][..],
        &["curl", "x"],
        &["env", "rm"],
        &["nice", "rm", "x"],
        &["./x", "stratum+tcp://pool"],
        &["x", "a b"],
        &["x", "/etc/shadow"],
        &["x", "../../y"],
        &["bash", "-i"],
        &["make", "-n"],
    ] {
        assert!(wants_reading(&argv(words)), "{words:?}");
    }
    let pack = crate::Pack::builtin().unwrap();
    for name in pack.rules.iter().flat_map(|rule| &rule.pattern.command).map(String::as_str) {
        let base = program(name);
        let known = name == "*"
            || lists::RULED.contains(&name)
            // Rules about these ask for an address, which is read in any command.
            || lists::STARTERS.contains(&name)
            || table::grammar(&base).is_some()
            || tools::knows(&base);
        assert!(known, "a rule names {name}, and the table of programs does not");
        assert!(!lists::HARMLESS.contains(&name), "{name}");
    }
}

#[test]
fn shell_line_quotes_words_losslessly() {
    let argv: Vec<OsString> =
        ["rm", "-rf", "a b", "it's", "A=1", "", "x"].iter().map(OsString::from).collect();
    assert_eq!(shell_line(&argv, &[]), "rm -rf 'a b' 'it'\\''s' 'A=1' '' x");
}

proptest::proptest! {
    #[test]
    fn arbitrary_command_words_cause_no_panic(
        program in "[a-z]{1,8}[0-9.]{0,3}|python3|bash|env|xargs|find|git|make|awk|sed|node|deno|timeout",
        words in proptest::collection::vec("\\PC{0,12}|-[a-zA-Z]{1,4}|--[a-z-]{1,12}(=.{0,5})?", 0..12),
    ) {
        let argv: Vec<OsString> = std::iter::once(program).chain(words).map(OsString::from).collect();
        let command = Command { argv: &argv, env: &[], stdin: true, files: &folder() };
        let all = executed(&command);
        let _ = shell_line(&argv, &all);
        let _ = wants_reading(&argv);
    }

    /// Whatever wrappers precede an interpreter, its text is found.
    #[test]
    fn wrappers_hide_no_text(
        wrappers in proptest::collection::vec(proptest::sample::select(vec![
            vec!["env"], vec!["env", "-i", "A=1"], vec!["env", "-u", "A"], vec!["nice", "-n", "3"], vec!["nice", "-5"],
            vec!["timeout", "9"], vec!["timeout", "-k", "1", "--foreground", "9"], vec!["nohup"], vec!["setsid", "-w"],
            vec!["stdbuf", "-oL", "-e", "0"], vec!["time", "-p"], vec!["busybox"], vec!["ionice", "-c2", "-n", "0"],
            vec!["xargs", "-0", "-n1"], vec!["setarch", "-R"], vec!["chrt", "-b", "0"], vec!["taskset", "1"],
            vec!["find", ".", "-exec"], vec!["sudo", "-n", "-u", "x"], vec!["unshare", "-r"],
        ]), 0..5),
        interpreter in proptest::sample::select(vec![
            vec!["python3", "-c"], vec!["python3", "-Iuc"], vec!["bash", "-c"], vec!["sh", "-euc"], vec!["node", "-e"],
            vec!["perl", "-we"], vec!["php", "-r"], vec!["bash", "-o", "pipefail", "-c"],
        ]),
    ) {
        let argv: Vec<OsString> =
            wrappers.into_iter().flatten().chain(interpreter).chain(["TEXT"]).map(OsString::from).collect();
        let command = Command { argv: &argv, env: &[], stdin: false, files: &NoFiles };
        let found = executed(&command).iter().any(|item| matches!(item, Item::Text { text, .. } if text == "TEXT"));
        proptest::prop_assert!(found, "{argv:?}");
    }
}
