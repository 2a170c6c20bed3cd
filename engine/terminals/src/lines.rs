//! Kinds of lines that programs take, and words of a line that make it another one than was typed.

/// Kind of the lines that a program takes from its terminal.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Lines {
    /// Answers to questions, text, menus: not code.
    Answers,
    /// Code, in a program that expands no history.
    Code,
    /// Code of a shell.
    Shell,
    /// Commands of gdb.
    Debugger,
    /// Commands among which is one that starts a shell, with how the program is started without it.
    Escapes(&'static str),
}

impl Lines {
    /// True for code, whose lines must be read as they are executed.
    #[must_use]
    pub const fn are_code(self) -> bool {
        matches!(self, Self::Code | Self::Shell | Self::Debugger)
    }

    /// True for a shell's lines.
    #[must_use]
    pub const fn is_shell(self) -> bool {
        matches!(self, Self::Shell)
    }
}

/// Meaning of a line that is sent.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(crate) struct Read {
    /// Word that recalls history or changes what keys do.
    pub(crate) word: Option<String>,
    /// Ctrl-C may have no effect from now on.
    pub(crate) keeps_interrupted: bool,
    /// A double quotation mark is open at the end.
    pub(crate) is_quoted: bool,
}

/// Words that change keys, or put text into the next line, in any program.
const REBINDING: [&str; 12] = [
    "bindkey",
    "zle",
    "vared",
    "INPUTRC",
    "inputrc",
    "parse_and_bind",
    "read_init_file",
    "insert_text",
    "set_startup_hook",
    "set_pre_input_hook",
    "tcsetattr",
    "editing-mode",
];
/// Commands of a shell that do, at the beginning of a command.
const REBINDING_COMMANDS: [&str; 3] = ["bind", "fc", "stty"];
/// Arguments with which `stty` changes no key.
const HARMLESS_STTY: [&str; 9] = ["size", "-a", "-g", "rows", "columns", "cols", "echo", "-echo", "sane"];
/// Words that may make ctrl-c a key without effect.
const INTERRUPT_WORDS: [&str; 4] = ["trap", "signal", "SIGINT", "pthread_sigmask"];

/// Reads a line; `is_quoted` says that an earlier line left a double quotation mark open.
pub(crate) fn read(line: &str, lines: Lines, is_quoted: bool) -> Read {
    let words: Vec<&str> = line.split(|c: char| !(c.is_alphanumeric() || "_-".contains(c))).collect();
    let (recalls, is_quoted) = match lines {
        Lines::Shell => history(line, is_quoted),
        _ => (None, false),
    };
    let word = lines.are_code().then(|| {
        let anywhere = REBINDING.iter().find(|word| words.contains(*word)).map(|word| (*word).to_owned());
        anywhere.or_else(|| rebinds(line, lines)).or(recalls)
    });
    let keeps_interrupted = lines.are_code() && INTERRUPT_WORDS.iter().any(|word| words.contains(word));
    Read { word: word.flatten(), keeps_interrupted, is_quoted }
}

/// The command of a line that changes keys; `stty` in other languages too, which start it as a program.
fn rebinds(line: &str, lines: Lines) -> Option<String> {
    let is_shell = lines.is_shell();
    let ends = |c: char| ";|&(){}`\n\"'".contains(c) || (!is_shell && ",[]".contains(c));
    line.split(ends).find_map(|command| {
        let mut words = command.split_whitespace().skip_while(|word| {
            matches!(
                *word,
                "builtin" | "command" | "env" | "exec" | "sudo" | "then" | "do" | "else" | "!" | "time"
            ) || word.contains('=')
        });
        let first = words.next()?.trim_start_matches('\\');
        let name = first.rsplit('/').next().unwrap_or(first);
        let rest: Vec<&str> = words.collect();
        match name {
            "stty" => {
                let is_harmless = |word: &&str| {
                    HARMLESS_STTY.contains(word) || word.bytes().all(|byte| byte.is_ascii_digit())
                };
                (!rest.iter().all(is_harmless)).then(|| "stty".to_owned())
            }
            "set" if is_shell && rest.iter().any(|word| matches!(*word, "vi" | "emacs")) => {
                Some(format!("set -o {}", rest.last()?))
            }
            "print" if is_shell && rest.iter().any(|word| word.starts_with('-') && word.contains('z')) => {
                Some("print -z".to_owned())
            }
            _ => (is_shell && REBINDING_COMMANDS.contains(&name)).then(|| name.to_owned()),
        }
    })
}

/// The history expansion of a line (`!!`, `!-2`, `!rm`, `^old^new`), and whether a double quotation mark is open at its end. `bash(1)`, HISTORY
/// EXPANSION: not after a backslash, in single quotes, after `$` or `${`, and before a blank, `=` or `(`.
fn history(line: &str, mut is_quoted: bool) -> (Option<String>, bool) {
    if !is_quoted && line.starts_with('^') {
        return (Some("^".to_owned()), false);
    }
    let mut found = None;
    let mut before = ' ';
    let mut rest = line.chars().peekable();
    while let Some(c) = rest.next() {
        match c {
            '\\' => {
                rest.next();
            }
            '"' => is_quoted = !is_quoted,
            '\'' if !is_quoted => while rest.next().is_some_and(|c| c != '\'') {},
            '!' if found.is_none() && before != '$' && before != '{' => {
                let next = rest.peek().copied().unwrap_or(' ');
                if !next.is_whitespace() && !matches!(next, '=' | '(' | '"') {
                    found = Some(format!("!{next}"));
                }
            }
            _ => {}
        }
        before = c;
    }
    (found, is_quoted)
}

/// Commands of gdb that only look or go on, each with the arguments that it may have.
const LOOKING: [(&[&str], Arguments); 4] = [
    (
        &[
            "run",
            "r",
            "start",
            "starti",
            "kill",
            "k",
            "quit",
            "q",
            "y",
            "n",
            "exit",
            "backtrace",
            "bt",
            "where",
        ],
        Arguments::Numbers,
    ),
    (
        &[
            "next", "step", "s", "stepi", "si", "nexti", "ni", "continue", "c", "finish", "fin", "frame",
            "f", "up", "down", "thread", "delete", "d", "enable", "disable",
        ],
        Arguments::Numbers,
    ),
    (
        &[
            "break", "b", "tbreak", "tb", "until", "u", "advance", "list", "l", "info", "i", "help", "h",
            "watch", "rwatch", "awatch",
        ],
        Arguments::Plain,
    ),
    (&["print", "p", "display", "x", "ptype", "whatis", "disassemble", "undisplay"], Arguments::Plain),
];

/// Arguments that a command of gdb may have.
#[derive(Clone, Copy, PartialEq, Eq)]
enum Arguments {
    /// Numbers.
    Numbers,
    /// Names, numbers and operators without calls, assignments and pipes.
    Plain,
}

/// The first line that does more than look at the program that gdb runs; `None` when all are known to.
#[must_use]
pub fn more_than_looking(text: &str) -> Option<&str> {
    text.lines().map(str::trim).find(|line| !is_looking(line))
}

fn is_looking(line: &str) -> bool {
    let Some(word) = line.split_whitespace().next() else { return true };
    let rest = &line[word.len()..];
    let name = word.split('/').next().unwrap_or(word);
    let Some((_, arguments)) = LOOKING.iter().find(|(names, _)| names.contains(&name)) else { return false };
    let allowed: fn(char) -> bool = match arguments {
        Arguments::Numbers => |c| c.is_ascii_digit() || c == ' ' || c == '-',
        Arguments::Plain => |c| c.is_ascii_alphanumeric() || " _.,:*&$+-/[]<>@".contains(c),
    };
    // A format, such as x/20i.
    let is_format = word[name.len()..].chars().all(|c| c == '/' || c.is_ascii_alphanumeric());
    is_format && rest.chars().all(allowed) && !rest.contains("++") && !rest.contains("--")
}

/// Programs among whose commands is one that starts a shell.
struct Escape {
    names: &'static [&'static str],
    /// Options that take it away.
    options: &'static [&'static str],
    /// Variable that takes it away.
    variable: Option<(&'static str, &'static str)>,
    /// How to start them without it.
    hint: &'static str,
}

const ESCAPES: [Escape; 6] = [
    Escape {
        names: &["vim", "vi", "view", "vimdiff", "vim.basic", "vim.tiny"],
        options: &["-Z"],
        variable: None,
        hint: "start it as vim -Z, which starts no programs",
    },
    Escape {
        names: &["nvim", "gvim", "emacs", "ex", "editor"],
        options: &[],
        variable: None,
        hint: "vim -Z starts no programs",
    },
    Escape {
        names: &["nano", "pico"],
        options: &["-R", "--restricted"],
        variable: None,
        hint: "start it as nano -R, which starts no programs",
    },
    Escape {
        names: &["less"],
        options: &[],
        variable: Some(("LESSSECURE", "1")),
        hint: "give it the variable LESSSECURE=1, with which it starts no programs",
    },
    Escape {
        names: &["more", "most", "man", "pager", "ftp", "telnet", "mail", "mutt", "top", "htop"],
        options: &[],
        variable: None,
        hint: "cat and less with the variable LESSSECURE=1 start no programs",
    },
    Escape {
        names: &[
            "script", "tmux", "screen", "byobu", "zellij", "dtach", "abduco", "dvtm", "expect", "unbuffer",
            "mc", "ranger", "vifm", "su", "newgrp", "sg", "login",
        ],
        options: &[],
        variable: None,
        hint: "start the shell, or the program in it, as the terminal's own program",
    },
];

/// Programs that start the one in their arguments.
const STARTERS: [&str; 14] = [
    "env",
    "nice",
    "timeout",
    "setsid",
    "nohup",
    "stdbuf",
    "time",
    "unshare",
    "setpriv",
    "chrt",
    "taskset",
    "busybox",
    "toybox",
    "ld-linux-x86-64.so.2",
];

/// Kind of lines of a program other than an interpreter, by its arguments and the variables that are set for it.
#[must_use]
pub fn of_program(argv: &[&str], env: &[(&str, &str)]) -> Lines {
    let name = |word: &'_ str| word.rsplit('/').next().unwrap_or_default().to_owned();
    let starts_another = argv.first().is_some_and(|first| STARTERS.contains(&name(first).as_str()));
    let looked_at = if starts_another { argv.len() } else { 1 };
    let mut names = argv.iter().take(looked_at).enumerate().map(|(at, word)| (at, name(word)));
    let Some((escape, at)) = names.find_map(|(at, name)| {
        ESCAPES.iter().find(|known| known.names.contains(&name.as_str())).map(|known| (known, at))
    }) else {
        return Lines::Answers;
    };
    let mut given = argv[at + 1..].iter().take_while(|word| **word != "--");
    let is_safe = given.any(|word| escape.options.contains(word))
        || escape.variable.is_some_and(|variable| env.contains(&variable));
    if is_safe { Lines::Answers } else { Lines::Escapes(escape.hint) }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn words_that_change_keys_or_recall_lines_are_found() {
        for (line, want) in [
            ("!!", Some("!!")),
            ("echo !$", Some("!$")),
            ("!-2", Some("!-")),
            ("sudo !rm", Some("!r")),
            ("^ls^rm -rf", Some("^")),
            ("echo \"'!!'\"", Some("!!")),
            ("echo \\'!!", Some("!!")),
            ("echo hi!", None),
            ("[ ! -f x ] && echo \"done!\"", None),
            ("awk '!seen[$0]++' x", None),
            ("echo $! ${!name} \\!x", None),
            ("test a != b; ! false", None),
            ("bind '\"\\C-x\": \"rm\"'", Some("bind")),
            ("true; builtin bind -x '\"a\": ls'", Some("bind")),
            ("stty erase a", Some("stty")),
            ("/bin/stty -isig", Some("stty")),
            ("stty size; stty rows 24 cols 80", None),
            ("fc -s echo=", Some("fc")),
            ("set -o vi", Some("set -o vi")),
            ("bindkey -s a 'rm'", Some("bindkey")),
            ("export INPUTRC=./x", Some("INPUTRC")),
            ("print -z rm", Some("print -z")),
            ("git rebase --bind x; echo fc", None),
        ] {
            assert_eq!(read(line, Lines::Shell, false).word.as_deref(), want, "{line}");
            assert_eq!(read(line, Lines::Answers, false).word, None, "{line}");
        }
        for (line, want) in [
            ("readline.parse_and_bind('tab: complete')", Some("parse_and_bind")),
            ("os.system('stty erase a')", Some("stty")),
            ("server.bind(('', 80)); x != y; fc = 1", None),
        ] {
            assert_eq!(read(line, Lines::Code, false).word.as_deref(), want, "{line}");
        }
    }

    #[test]
    fn quotation_marks_stay_open_over_lines() {
        assert!(read("echo \"", Lines::Shell, false).is_quoted);
        // Single quotes mean nothing between double ones.
        assert_eq!(read("'!!'\"", Lines::Shell, true).word.as_deref(), Some("!!"));
        assert_eq!(read("'!!'", Lines::Shell, false).word, None);
    }

    #[test]
    fn debugger_commands_that_look_are_known() {
        for line in [
            "",
            "break main",
            "b file.c:12",
            "run",
            "bt 5",
            "p x",
            "p/x $rax",
            "x/20i $pc",
            "info registers",
            "frame 2",
            "c",
            "list",
            "print *node",
            "print table[3].name",
            "quit",
            "y",
            "-x"[1..].into(),
        ] {
            assert_eq!(more_than_looking(line), None, "{line}");
        }
        for line in [
            "shell ls",
            "!ls",
            "python print(1)",
            "call system(\"ls\")",
            "print system(\"ls\")",
            "p $_shell(\"ls\")",
            "run ; ls",
            "r >x",
            "pipe p x | sh",
            "|p x|sh",
            "source x",
            "thread apply all shell ls",
            "frame apply all shell ls",
            "define x",
            "p x=1",
            "p x++",
            "set var x=1",
            "make",
            "target remote |sh",
            "dump memory x",
            "break main if f(1)",
            "p/x/!ls `a`",
            "bt -full shell",
        ] {
            assert_eq!(more_than_looking(line), Some(line), "{line}");
            assert!(more_than_looking(&format!("break main\n{line}\n")).is_some(), "{line}");
        }
    }

    #[test]
    fn programs_that_start_a_shell_are_known() {
        for (argv, env, is_safe) in [
            (&["vim", "x"][..], &[][..], false),
            (&["vim", "-Z", "x"], &[], true),
            (&["/usr/bin/vim", "-u", "NONE", "-Z"], &[], true),
            (&["vim", "--", "-Z"], &[], false),
            (&["env", "A=b", "vim", "x"], &[], false),
            (&["rvim", "x"], &[], true),
            (&["nvim", "-Z", "x"], &[], false),
            (&["less", "x"], &[], false),
            (&["less", "x"], &[("LESSSECURE", "1")], true),
            (&["more", "x"], &[("LESSSECURE", "1")], false),
            (&["nano", "-R", "x"], &[], true),
            (&["script", "-q", "/dev/null"], &[], false),
            (&["/usr/bin/tmux"], &[], false),
            (&["timeout", "9", "screen"], &[], false),
            (&["npm", "init"], &[], true),
            (&["cat", "script", "vim"], &[], true),
            (&["./quiz"], &[], true),
        ] {
            assert_eq!(matches!(of_program(argv, env), Lines::Answers), is_safe, "{argv:?}");
        }
    }
}
