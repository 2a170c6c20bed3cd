//! Programs that a list of words starts, and words that pass code to a program.

use super::path::basename;
use super::words::is_shell;
use crate::value::{HOLE, Origin, Value};
use std::rc::Rc;

/// True for an option with code behind it, and for a shell.
fn passes_code(text: &str) -> bool {
    matches!(text, "-c" | "-e" | "--eval" | "-Command" | "/c") || is_shell(text)
}

/// True for a program whose options `-c`, `-e` and `-p` take no code: `ping -c 1`, `grep -e WORD`.
pub(super) fn reads_options(program: &str) -> bool {
    matches!(
        basename(program).trim_end_matches(".exe"),
        "cat"
            | "cut"
            | "df"
            | "du"
            | "egrep"
            | "fgrep"
            | "gcc"
            | "grep"
            | "head"
            | "ls"
            | "mkdir"
            | "ping"
            | "ping6"
            | "rg"
            | "sort"
            | "stat"
            | "tail"
            | "traceroute"
            | "uniq"
            | "wc"
    )
}

/// True for words with code of their own for an interpreter: `python3 -c`, `sh`.
pub(super) fn pass_code(words: &[Value]) -> bool {
    let reads = words.first().and_then(Value::as_whole_text).is_some_and(reads_options);
    words
        .iter()
        .take(64)
        .filter_map(Value::as_text)
        .any(|word| if reads { is_shell(word) } else { passes_code(word) })
}

/// Name of the path of a known program, other than a shell.
pub(crate) const FOUND_PROGRAM: &str = "shutil.which().program";

/// True for a value that is known by the name of a constant or setting alone, other than the interpreter itself, and
/// for a program that is looked up by a constant name.
pub(super) fn is_of_settings(value: &Value) -> bool {
    let is_plain = |name: &Rc<str>| {
        !name.contains(['?', '@', '(', '['])
            && name.contains('.')
            && !matches!(&**name, "sys.executable" | "sys.argv")
            && !is_of_request(name)
            && !is_interpreter(name)
    };
    value.origin == Origin::default()
        && !value.names.is_empty()
        && (value.is_named(FOUND_PROGRAM) || value.names.iter().all(is_plain))
}

/// True for objects of frameworks, which hold things of a request, except for the settings of Django.
fn is_of_request(name: &str) -> bool {
    let first = name.trim_start_matches('.').split('.').next().unwrap_or(name);
    let frameworks =
        ["flask", "quart", "django", "bottle", "sanic", "starlette", "fastapi", "cherrypy", "tornado"];
    frameworks.contains(&first) && !name.starts_with("django.conf.settings.")
}

/// True for a setting whose name says that the program executes its arguments.
fn is_interpreter(name: &str) -> bool {
    let last = name.rsplit('.').next().unwrap_or(name).to_ascii_lowercase();
    let words = ["shell", "bash", "sh", "zsh", "python", "python3", "node", "ruby", "perl", "interpreter"];
    last.split('_').any(|word| words.contains(&word))
}

/// Word of a command line that comes from `origin` and that its program may take for an option, for programs with options
/// that run commands or write files (`git clone --upload-pack=…`, `ssh -oProxyCommand=…`, `tar --to-command=…`).
pub(crate) fn given_as_option(words: &[Value], origin: Origin) -> Option<&Value> {
    let (program, rest) = words.split_first()?;
    let program = basename(program.as_whole_text()?);
    let obeys = matches!(
        program,
        "git" | "hg" | "svn" | "ssh" | "scp" | "sftp" | "rsync" | "tar" | "find" | "curl" | "wget" | "zip"
    );
    if !obeys {
        return None;
    }
    let mut is_value = false;
    for word in rest {
        match word.as_whole_text() {
            Some("--" | "--end-of-options") => return None,
            Some(text) => is_value = text.starts_with('-') && !text.contains('=') && !is_switch(text),
            None => {
                let begins_unknown = word.as_text().is_none_or(|text| text.starts_with(HOLE));
                if !is_value && begins_unknown && word.origin.has(origin) {
                    return Some(word);
                }
                is_value = false;
            }
        }
    }
    None
}

/// True for well-known options without a value behind them.
fn is_switch(option: &str) -> bool {
    option[1..].bytes().all(|b| b.is_ascii_digit())
        || matches!(
            option,
            "-q" | "--quiet"
                | "-v"
                | "--verbose"
                | "--bare"
                | "--mirror"
                | "--recursive"
                | "-r"
                | "-a"
                | "-az"
                | "-avz"
                | "-s"
                | "-S"
                | "-sS"
                | "-L"
                | "-sL"
                | "-f"
                | "--force"
                | "--all"
                | "--tags"
                | "--oneline"
                | "--stat"
                | "--name-only"
                | "--name-status"
                | "--single-branch"
                | "--recurse-submodules"
                | "--no-checkout"
                | "--hard"
                | "--no-pager"
                | "-p"
                | "--patch"
                | "--graph"
                | "--cached"
                | "--staged"
                | "--no-color"
                | "-i"
                | "--silent"
                | "--location"
        )
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn given_words_are_options_where_nothing_ends_them() {
        let given = || Value::default().with_origin(Origin::CALLER);
        let of = |words: &[&str]| {
            let words: Vec<Value> =
                words.iter().map(|word| if *word == "?" { given() } else { Value::text(word) }).collect();
            given_as_option(&words, Origin::CALLER).is_some()
        };
        for (words, is) in [
            (&["git", "clone", "?", "work"][..], true),
            (&["/usr/bin/git", "log", "--oneline", "-5", "?"], true),
            (&["git", "clone", "--depth=1", "?"], true),
            (&["ssh", "?", "uptime"], true),
            (&["git", "clone", "--", "?"], false),
            (&["git", "commit", "-m", "?"], false),
            (&["git", "clone", "--branch", "?", "https://a.example/x"], false),
            (&["ffmpeg", "?"], false),
            (&["?", "clone"], false),
            (&["git", "status"], false),
        ] {
            assert_eq!(of(words), is, "{words:?}");
        }
    }

    #[test]
    fn programs_of_settings_are_known_by_their_names() {
        for (name, is) in [
            ("settings.FFMPEG", true),
            (".settings.RUNNER", true),
            ("django.conf.settings.FFMPEG", true),
            ("BIN", false),
            ("flask.g.tool", false),
            ("quart.g.tool", false),
            ("django.x.tool", false),
            ("config.SHELL", false),
            ("config.python_bin", false),
            ("config.Sh", false),
            ("config.NODE", false),
            ("config.INTERPRETER", false),
            ("config.shellcheck", true),
            ("?written.TOOL", false),
            (FOUND_PROGRAM, true),
            ("sys.executable", false),
            ("sys.argv", false),
            ("settings.find()", false),
            ("@Tool().program", false),
            ("?.x", false),
        ] {
            assert_eq!(is_of_settings(&Value::name(name)), is, "{name}");
        }
        assert!(!is_of_settings(&Value::default()));
        assert!(!is_of_settings(&Value::name("settings.X").with_origin(Origin::CALLER)));
    }
}
