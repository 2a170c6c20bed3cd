//! Argument grammars of programs that start others, and of programs with options whose values are commands.

use super::As;
use super::grammar::{Grammar, Operand, Role};
use super::table::{LUA, PYTHON, SHELL};

/// Grammar of a program that starts the arguments after its options.
pub(super) const fn line(
    skip: usize,
    valued: &'static [(&'static str, Role)],
    long: &'static [(&'static str, Role)],
) -> Grammar {
    Grammar { short: valued, long, operand: Operand::Line(skip), ..Grammar::NONE }
}
/// Grammar of a program that starts a command given as one text.
pub(super) const fn joined(
    skip: usize,
    short: &'static [(&'static str, Role)],
    long: &'static [(&'static str, Role)],
) -> Grammar {
    Grammar { short, long, operand: Operand::Joined(skip), ..Grammar::NONE }
}
/// Grammar of a program that executes only the values of some options.
pub(super) const fn options(
    short: &'static [(&'static str, Role)],
    long: &'static [(&'static str, Role)],
) -> Grammar {
    Grammar { short, long, stops: false, ..Grammar::NONE }
}

/// Argument grammar of a program by its name, without version and extension.
pub(super) fn grammar(name: &str) -> Option<Grammar> {
    Some(match name {
        "env" => Grammar {
            short: &[("u", Role::Value), ("C", Role::Folder), ("S", Role::Split)],
            long: &[("unset", Role::Value), ("chdir", Role::Folder), ("split-string", Role::Split)],
            operand: Operand::Assigned,
            ..Grammar::NONE
        },
        "nice" => line(0, &[("n", Role::Value)], &[("adjustment", Role::Value)]),
        "ionice" => line(0, &[("cnpPu", Role::Value)], &[("class", Role::Value), ("classdata", Role::Value)]),
        "timeout" => line(1, &[("sk", Role::Value)], &[("signal", Role::Value), ("kill-after", Role::Value)]),
        "stdbuf" => line(
            0,
            &[("ioe", Role::Value)],
            &[("input", Role::Value), ("output", Role::Value), ("error", Role::Value)],
        ),
        "xargs" => line(
            0,
            &[("InPLdasE", Role::Value), ("eil", Role::Attached)],
            &[
                ("max-args", Role::Value),
                ("max-procs", Role::Value),
                ("max-lines", Role::Attached),
                ("delimiter", Role::Value),
                ("arg-file", Role::Value),
                ("max-chars", Role::Value),
                ("replace", Role::Attached),
                ("eof", Role::Attached),
                ("process-slot-var", Role::Value),
            ],
        ),
        "sudo" | "doas" => line(
            0,
            &[("ugUChprtT", Role::Value), ("D", Role::Folder)],
            &[("user", Role::Value), ("group", Role::Value), ("chdir", Role::Folder)],
        ),
        "time" => line(
            0,
            &[("fo", Role::Value), ("pvaq", Role::Switch)],
            &[("format", Role::Value), ("output", Role::Value)],
        ),
        "command" => line(0, &[("vV", Role::Data), ("p", Role::Switch)], &[]),
        "nohup" | "setsid" | "busybox" | "toybox" | "fakeroot" | "caffeinate" | "catchsegv" | "torsocks"
        | "torify" | "proxychains" | "proxychains4" | "builtin" | "dbus-run-session" | "chronic"
        | "ts-run" | "tini" | "dumb-init" | "catatonit" | "eatmydata" | "cgexec" | "numactl" | "setarch"
        | "linux32" | "linux64" | "choom" | "coproc" | "unbuffer" => line(0, &[], &[]),
        "exec" => line(0, &[("a", Role::Value)], &[]),
        "taskset" => line(1, &[], &[]),
        "chrt" => line(1, &[("TPD", Role::Value)], &[]),
        "chroot" => line(1, &[], &[]),
        "unshare" | "nsenter" => line(
            0,
            &[("SGRwtl", Role::Value)],
            &[("setuid", Role::Value), ("setgid", Role::Value), ("root", Role::Value), ("wd", Role::Folder)],
        ),
        "setpriv" | "capsh" | "prlimit" => line(0, &[], &[]),
        "start-stop-daemon" => Grammar {
            operand: Operand::Line(0),
            stops: false,
            ..options(
                &[("xa", Role::File(As::Own)), ("d", Role::Folder), ("pnucgrNIP", Role::Value)],
                &[
                    ("exec", Role::File(As::Own)),
                    ("startas", Role::File(As::Own)),
                    ("chdir", Role::Folder),
                    ("pidfile", Role::Value),
                    ("user", Role::Value),
                    ("name", Role::Value),
                ],
            )
        },
        "ssh-agent" | "gpg-agent" | "pkexec" | "fakechroot" | "cgcreate" | "schroot" | "i386" | "x86_64"
        | "pipexec" | "s6-setuidgid" | "chpst" | "setuidgid" | "gosu" | "su-exec" | "softlimit"
        | "envdir" | "daemonize" | "daemon" | "retry" | "cpulimit" | "trickle" | "hyperfine"
        | "multitime" | "perf" => line(0, &[("aDEOPtcu", Role::Value)], &[]),
        "proot" | "firejail" | "bwrap" | "systemd-run" | "valgrind" | "xvfb-run" | "strace" | "ltrace"
        | "perf-run" => {
            line(0, &[("aopebEusrwRPIOXS", Role::Value)], &[("output", Role::Value), ("trace", Role::Value)])
        }
        "flock" => Grammar {
            short: &[("c", Role::Text(SHELL)), ("wE", Role::Value)],
            long: &[("command", Role::Text(SHELL)), ("timeout", Role::Value), ("wait", Role::Value)],
            operand: Operand::Line(1),
            ..Grammar::NONE
        },
        "script" | "scriptlive" => {
            options(&[("c", Role::Text(SHELL)), ("EImBTOo", Role::Value)], &[("command", Role::Text(SHELL))])
        }
        "su" | "runuser" | "sg" => options(
            &[("c", Role::Text(SHELL)), ("sgGTw", Role::Value)],
            &[("command", Role::Text(SHELL)), ("session-command", Role::Text(SHELL))],
        ),
        "watch" => joined(0, &[("nd", Role::Value)], &[("interval", Role::Value)]),
        "parallel" | "entr" => joined(0, &[("jSIaNn", Role::Value)], &[("jobs", Role::Value)]),
        "ssh" => joined(1, &[("bcDeEFIiJLlmOopQRSWw", Role::Value)], &[]),
        "tmux" | "screen" | "dtach" | "abduco" => joined(0, &[("LSfct", Role::Value)], &[]),
        "eval" => joined(0, &[], &[]),
        "at" | "batch" => Grammar {
            short: &[("f", Role::Script(SHELL)), ("qt", Role::Value)],
            stdin: Some(SHELL),
            stops: false,
            ..Grammar::NONE
        },
        "trap" => Grammar { operand: Operand::Text(SHELL), ..Grammar::NONE },
        "." | "source" => Grammar { operand: Operand::Script(SHELL), ..Grammar::NONE },
        // Options whose values are commands.
        "tar" | "bsdtar" => options(
            &[("IF", Role::Text(SHELL)), ("fCTXgHLNVbK", Role::Value)],
            &[
                ("to-command", Role::Text(SHELL)),
                ("use-compress-program", Role::Text(SHELL)),
                ("rsh-command", Role::Text(SHELL)),
                ("rmt-command", Role::Text(SHELL)),
                ("info-script", Role::Text(SHELL)),
                ("new-volume-script", Role::Text(SHELL)),
                ("checkpoint-action", Role::Setting),
            ],
        ),
        "rsync" => options(
            &[("e", Role::Text(SHELL))],
            &[("rsh", Role::Text(SHELL)), ("rsync-path", Role::Text(SHELL))],
        ),
        "scp" | "sftp" => options(&[("S", Role::Text(SHELL)), ("oiFPlcJ", Role::Value)], &[]),
        "zip" => {
            options(&[("", Role::Value)], &[("unzip-command", Role::Text(SHELL)), ("TT", Role::Text(SHELL))])
        }
        "man" => options(
            &[("PH", Role::Text(SHELL))],
            &[("pager", Role::Text(SHELL)), ("html", Role::Text(SHELL))],
        ),
        "split" => options(&[("abCln", Role::Value)], &[("filter", Role::Text(SHELL))]),
        "sort" => options(
            &[("koSTt", Role::Value)],
            &[("compress-program", Role::Text(SHELL)), ("files0-from", Role::Value)],
        ),
        "install" => options(&[("gmot", Role::Value)], &[("strip-program", Role::Text(SHELL))]),
        "tcpdump" => options(&[("z", Role::Text(SHELL)), ("iwrcCGW", Role::Value)], &[]),
        "nc" | "ncat" | "netcat" => options(
            &[("ce", Role::Text(SHELL)), ("pswiogGhTq", Role::Value)],
            &[("exec", Role::Text(SHELL)), ("sh-exec", Role::Text(SHELL)), ("lua-exec", Role::Script(LUA))],
        ),
        "gcc" | "cc" | "g++" | "c++" | "cpp" => Grammar {
            long: &[("wrapper", Role::Commas), ("fplugin", Role::File(As::Own)), ("specs", Role::Value)],
            single: true,
            stops: false,
            ..Grammar::NONE
        },
        "pytest" | "py.test" => Grammar {
            short: &[("kmcpno", Role::Value)],
            operand: Operand::Each(PYTHON),
            stops: false,
            ..Grammar::NONE
        },
        _ => return None,
    })
}
