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

/// `setarch`, under any of its names.
const SETARCH: Grammar = line(
    0,
    &[("BFILRSTXZvp3", Role::Switch), ("h", Role::Switch)],
    &[
        ("32bit", Role::Switch),
        ("fdpic-funcptrs", Role::Switch),
        ("short-inode", Role::Switch),
        ("addr-compat-layout", Role::Switch),
        ("addr-no-randomize", Role::Switch),
        ("whole-seconds", Role::Switch),
        ("sticky-timeouts", Role::Switch),
        ("read-implies-exec", Role::Switch),
        ("mmap-page-zero", Role::Switch),
        ("3gb", Role::Switch),
        ("4gb", Role::Switch),
        ("uname-2.6", Role::Switch),
        ("verbose", Role::Switch),
    ],
);
/// The grammar of a program that starts a shell with its own standard input when it is given no command.
const fn or_shell(grammar: Grammar) -> Grammar {
    Grammar { alone: Some("sh"), ..grammar }
}

/// Names under which `setarch` is started, or that it takes before its options.
pub(super) fn is_architecture(name: &str) -> bool {
    matches!(
        name,
        "linux32"
            | "linux64"
            | "uname26"
            | "i386"
            | "i486"
            | "i586"
            | "i686"
            | "athlon"
            | "x86_64"
            | "arm"
            | "armv7l"
            | "armv8l"
            | "armh"
            | "arm64"
            | "aarch64"
            | "ppc"
            | "ppc32"
            | "ppc64"
            | "ppc64le"
            | "s390"
            | "s390x"
            | "sparc"
            | "sparc32"
            | "sparc64"
            | "mips"
            | "mips32"
            | "mips64"
            | "alpha"
            | "ia64"
            | "parisc"
            | "parisc32"
            | "parisc64"
            | "riscv32"
            | "riscv64"
            | "loongarch64"
    )
}

/// Argument grammar of a program by its name, without version and extension.
pub(super) fn grammar(name: &str) -> Option<Grammar> {
    Some(match name {
        "setarch" => or_shell(SETARCH),
        _ if is_architecture(name) => or_shell(SETARCH),
        // Programs that start a shell when they are given no command: it reads their standard input.
        "fakeroot" | "fakechroot" => or_shell(line(
            0,
            &[("lbis", Role::Value), ("uvh", Role::Switch)],
            &[("lib", Role::Value), ("faked", Role::Value), ("unknown-is-real", Role::Switch)],
        )),
        "chroot" | "jchroot" | "arch-chroot" => or_shell(line(
            1,
            &[("uNrec", Role::Switch)],
            &[("userspec", Role::Value), ("groups", Role::Value), ("skip-chdir", Role::Switch)],
        )),
        "unshare" | "nsenter" => or_shell(Grammar {
            short: &[("SGRlt", Role::Value), ("rcfFZ", Role::Switch), ("muinpUCTae", Role::Attached)],
            long: &[
                ("setuid", Role::Value),
                ("setgid", Role::Value),
                ("target", Role::Value),
                ("map-user", Role::Value),
                ("map-group", Role::Value),
                ("map-users", Role::Value),
                ("map-groups", Role::Value),
                ("setgroups", Role::Value),
                ("propagation", Role::Value),
                ("monotonic", Role::Value),
                ("boottime", Role::Value),
                ("load-interp", Role::Value),
                ("wd", Role::Folder),
                ("wdns", Role::Folder),
                ("map-root-user", Role::Switch),
                ("map-current-user", Role::Switch),
                ("map-auto", Role::Switch),
                ("keep-caps", Role::Switch),
                ("fork", Role::Switch),
                ("no-fork", Role::Switch),
                ("preserve-credentials", Role::Switch),
                ("all", Role::Switch),
                ("follow-context", Role::Switch),
                ("kill-child", Role::Attached),
                ("mount", Role::Attached),
                ("uts", Role::Attached),
                ("ipc", Role::Attached),
                ("net", Role::Attached),
                ("pid", Role::Attached),
                ("user", Role::Attached),
                ("cgroup", Role::Attached),
                ("time", Role::Attached),
                ("mount-proc", Role::Attached),
            ],
            operand: Operand::Line(0),
            ..Grammar::NONE
        }),
        "pkexec" => {
            or_shell(line(0, &[], &[("user", Role::Value), ("disable-internal-agent", Role::Switch)]))
        }
        "schroot" | "proot" | "firejail" | "toolbox" | "systemd-nspawn" => or_shell(line(
            0,
            &[("aopebEusrwRPIOXScnDMjq", Role::Value)],
            &[("output", Role::Value), ("trace", Role::Value)],
        )),
        "newgrp" | "login" => or_shell(options(&[("fhr", Role::Value), ("p", Role::Switch)], &[])),
        "nix-shell" => or_shell(options(
            &[("pAI", Role::Value)],
            &[("run", Role::Text(SHELL)), ("command", Role::Text(SHELL)), ("packages", Role::Value)],
        )),
        "script" | "scriptlive" => or_shell(Grammar {
            stops: false,
            ..line(
                1,
                &[("c", Role::Text(SHELL)), ("EImBTOot", Role::Value), ("aefqr", Role::Switch)],
                &[
                    ("command", Role::Text(SHELL)),
                    ("append", Role::Switch),
                    ("flush", Role::Switch),
                    ("force", Role::Switch),
                    ("quiet", Role::Switch),
                    ("return", Role::Switch),
                    ("echo", Role::Value),
                    ("log-in", Role::Value),
                    ("log-out", Role::Value),
                    ("log-io", Role::Value),
                    ("log-timing", Role::Value),
                    ("logging-format", Role::Value),
                    ("output-limit", Role::Value),
                    ("timing", Role::Attached),
                ],
            )
        }),
        "su" | "runuser" => or_shell(Grammar {
            operand: Operand::User,
            ..options(
                &[("c", Role::Text(SHELL)), ("sgGTwu", Role::Value)],
                &[
                    ("command", Role::Text(SHELL)),
                    ("session-command", Role::Text(SHELL)),
                    ("user", Role::Value),
                    ("shell", Role::Value),
                    ("group", Role::Value),
                    ("supp-group", Role::Value),
                    ("whitelist-environment", Role::Value),
                ],
            )
        }),
        "sg" => or_shell(joined(1, &[("c", Role::Text(SHELL))], &[])),
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
            &[("ugUChprtT", Role::Value), ("D", Role::Folder), ("si", Role::Shell)],
            &[
                ("user", Role::Value),
                ("group", Role::Value),
                ("chdir", Role::Folder),
                ("shell", Role::Shell),
                ("login", Role::Shell),
            ],
        ),
        "time" => line(
            0,
            &[("fo", Role::Value), ("pvaq", Role::Switch)],
            &[("format", Role::Value), ("output", Role::Value)],
        ),
        "command" => line(0, &[("vV", Role::Data), ("p", Role::Switch)], &[]),
        "nohup" | "setsid" | "busybox" | "toybox" | "caffeinate" | "catchsegv" | "torsocks" | "torify"
        | "proxychains" | "proxychains4" | "builtin" | "dbus-run-session" | "chronic" | "ts-run" | "tini"
        | "dumb-init" | "catatonit" | "eatmydata" | "cgexec" | "numactl" | "choom" | "coproc"
        | "unbuffer" => line(0, &[], &[]),
        "exec" => line(0, &[("a", Role::Value)], &[]),
        "taskset" => line(1, &[], &[]),
        "chrt" => line(1, &[("TPD", Role::Value)], &[]),
        "setpriv" | "prlimit" => line(0, &[], &[]),
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
        "ssh-agent" | "gpg-agent" | "cgcreate" | "pipexec" | "s6-setuidgid" | "chpst" | "setuidgid"
        | "gosu" | "su-exec" | "softlimit" | "envdir" | "daemonize" | "daemon" | "retry" | "cpulimit"
        | "trickle" | "hyperfine" | "multitime" | "perf" => line(0, &[("aDEOPtcu", Role::Value)], &[]),
        "systemd-run" => line(
            0,
            &[("aopebEusrwRPIOX", Role::Value), ("S", Role::Shell)],
            &[("output", Role::Value), ("trace", Role::Value), ("shell", Role::Shell)],
        ),
        "bwrap" | "valgrind" | "xvfb-run" | "strace" | "ltrace" | "perf-run" => {
            line(0, &[("aopebEusrwRPIOXS", Role::Value)], &[("output", Role::Value), ("trace", Role::Value)])
        }
        "flock" => Grammar {
            short: &[("c", Role::Text(SHELL)), ("wE", Role::Value)],
            long: &[("command", Role::Text(SHELL)), ("timeout", Role::Value), ("wait", Role::Value)],
            operand: Operand::Line(1),
            ..Grammar::NONE
        },
        "watch" => joined(0, &[("nd", Role::Value)], &[("interval", Role::Value)]),
        // Without a command each line of standard input is one.
        "parallel" => or_shell(joined(0, &[("jSIaNn", Role::Value)], &[("jobs", Role::Value)])),
        "entr" => joined(0, &[("jSIaNn", Role::Value)], &[("jobs", Role::Value)]),
        "ssh" => joined(1, &[("bcDeEFIiJLlmOopQRSWw", Role::Value)], &[]),
        "dtach" | "abduco" => joined(0, &[("LSfct", Role::Value)], &[]),
        // Builtins of shells that take a command's text, and one that loads native code.
        "compgen" | "complete" => options(&[("C", Role::Text(SHELL)), ("AFGPSWXo", Role::Value)], &[]),
        "mapfile" | "readarray" => options(&[("C", Role::Text(SHELL)), ("dnOsuc", Role::Value)], &[]),
        "enable" => options(&[("f", Role::File(As::Own))], &[]),
        "emulate" => options(&[("c", Role::Text(SHELL))], &[]),
        "fc" => options(&[("e", Role::Text(SHELL))], &[]),
        "noglob" | "nocorrect" => line(0, &[], &[]),
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
