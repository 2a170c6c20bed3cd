//! Decides whether a program gets a terminal of its own. Pure.

use std::ffi::OsString;
use std::path::Path;

use hotcell_config::EnvSetting;
use hotcell_state::report::{Code, ErrorReport};

/// Shells: interactive if no script and no command is named.
const SHELLS: [&str; 8] = ["bash", "sh", "dash", "zsh", "fish", "ash", "ksh", "mksh"];
/// Interpreters: interactive without arguments, or with the option `-i`.
const INTERPRETERS: [&str; 12] =
    ["python", "python3", "ipython", "node", "irb", "ghci", "lua", "php", "R", "sqlite3", "gdb", "lldb"];
/// Programs that use the whole screen, or wait for a person's words.
const SCREENS: [&str; 20] = [
    "vim",
    "vi",
    "nvim",
    "view",
    "nano",
    "emacs",
    "micro",
    "hx",
    "less",
    "more",
    "most",
    "man",
    "top",
    "htop",
    "mc",
    "tmux",
    "screen",
    "psql",
    "mysql",
    "redis-cli",
];
/// Beginnings of `TERM` that programs inside can be expected to know.
const KNOWN_TERMINALS: [&str; 9] = ["xterm", "screen", "tmux", "linux", "vt1", "vt2", "rxvt", "ansi", "dumb"];

/// The terminal that others resemble.
const USUAL_TERMINAL: &str = "xterm-256color";

/// The options and circumstances of a run.
#[derive(Clone, Copy, Debug)]
pub struct Circumstances<'a> {
    /// `--tty`, `--no-tty`, or neither.
    pub asked: Option<bool>,
    /// Whether standard input, output and error are terminals.
    pub terminals: [bool; 3],
    /// `--json`
    pub json: bool,
    /// `--stdin`
    pub names_input: bool,
    /// Whether standard input is the source of the program.
    pub reads_source: bool,
    /// The program and its arguments; empty for a source.
    pub words: &'a [OsString],
}

/// Whether the program gets a terminal.
///
/// # Errors
/// [`ErrorReport`] when `--tty` cannot be met.
pub fn choose(about: &Circumstances<'_>) -> Result<bool, ErrorReport> {
    let refused = |why: &str, hint: &str| {
        Err(ErrorReport::new(Code::Usage, why.to_owned()).field("--tty").hint(hint.to_owned()))
    };
    match about.asked {
        Some(true) if about.json => refused(
            "a terminal's output cannot stand in a JSON object",
            "take --json or --tty out; the history has the output (hotcell runs show)",
        ),
        Some(true) if about.reads_source => refused(
            "standard input is the source, so nothing can be typed",
            "name the source's file in place of -",
        ),
        Some(asked) => Ok(asked),
        None => Ok(about.terminals == [true; 3]
            && !about.json
            && !about.names_input
            && !about.reads_source
            && is_interactive(about.words)),
    }
}

/// Whether a person is expected to type into this program.
fn is_interactive(words: &[OsString]) -> bool {
    let Some((program, arguments)) = words.split_first() else { return false };
    let name = Path::new(program).file_name().and_then(|name| name.to_str()).unwrap_or_default();
    let name = match name.strip_prefix("python3.") {
        Some(_) => "python3",
        None => name,
    };
    let arguments: Vec<_> = arguments.iter().map(|word| word.to_string_lossy()).collect();
    let short = |letter: char| {
        let has = |word: &str| word.starts_with('-') && !word.starts_with("--") && word.contains(letter);
        arguments.iter().any(|word| has(word))
    };
    if SHELLS.contains(&name) {
        return !short('c') && !short('s') && arguments.iter().all(|word| word.starts_with('-'));
    }
    if INTERPRETERS.contains(&name) {
        return arguments.is_empty() || arguments.iter().any(|word| word == "-i");
    }
    SCREENS.contains(&name)
}

/// Variables that describe the caller's terminal to the program: the name of its kind, if programs are likely to
/// know it, and whether it shows all colours.
pub fn variables(term: Option<&str>, colours: Option<&str>) -> Vec<EnvSetting> {
    let plain = |name: &&str| {
        name.len() <= 32 && name.bytes().all(|b| b.is_ascii_alphanumeric() || b"-._+".contains(&b))
    };
    let known = |name: &&str| KNOWN_TERMINALS.iter().any(|known| name.starts_with(known));
    let term = term.filter(plain).filter(known).unwrap_or(USUAL_TERMINAL);
    let mut set = vec![EnvSetting::Set("TERM".into(), term.into())];
    if let Some(colours @ ("truecolor" | "24bit")) = colours {
        set.push(EnvSetting::Set("COLORTERM".into(), colours.into()));
    }
    set
}

#[cfg(test)]
mod tests {
    use super::*;

    fn words(text: &str) -> Vec<OsString> {
        text.split_whitespace().map(OsString::from).collect()
    }

    #[test]
    fn interactive_programs_are_recognized() {
        for (text, want) in [
            ("bash", true),
            ("/bin/bash -l", true),
            ("sh -i", true),
            ("bash script.sh", false),
            ("bash -c ls", false),
            ("bash -lc ls", false),
            ("bash -s", false),
            ("bash --norc", true),
            ("python3", true),
            ("python3.12", true),
            ("python3 -i x.py", true),
            ("python3 x.py", false),
            ("python3 -c 1", false),
            ("python3-config", false),
            ("vim", true),
            ("vim notes.txt", true),
            ("less", true),
            ("gdb", true),
            ("ls", false),
            ("pytest", false),
            ("", false),
        ] {
            assert_eq!(is_interactive(&words(text)), want, "{text:?}");
        }
    }

    #[test]
    fn terminal_follows_options_and_streams() {
        let bash = words("bash");
        let usual = Circumstances {
            asked: None,
            terminals: [true; 3],
            json: false,
            names_input: false,
            reads_source: false,
            words: &bash,
        };
        for (about, want) in [
            (usual, Some(true)),
            (Circumstances { asked: Some(false), ..usual }, Some(false)),
            (Circumstances { terminals: [false, true, true], ..usual }, Some(false)),
            (Circumstances { terminals: [true, false, true], ..usual }, Some(false)),
            (Circumstances { terminals: [true, true, false], ..usual }, Some(false)),
            (Circumstances { json: true, ..usual }, Some(false)),
            (Circumstances { names_input: true, ..usual }, Some(false)),
            (Circumstances { words: &[], ..usual }, Some(false)),
            (Circumstances { asked: Some(true), terminals: [false; 3], words: &[], ..usual }, Some(true)),
            (Circumstances { asked: Some(true), json: true, ..usual }, None),
            (Circumstances { asked: Some(true), reads_source: true, ..usual }, None),
        ] {
            assert_eq!(choose(&about).ok(), want, "{about:?}");
        }
    }

    #[test]
    fn terminals_are_named_as_programs_know_them() {
        for (term, colours, want) in [
            (Some("xterm-256color"), None, &["xterm-256color"][..]),
            (Some("linux"), Some("truecolor"), &["linux", "truecolor"]),
            (Some("xterm-ghostty"), Some("x"), &["xterm-ghostty"]),
            (Some("alacritty"), None, &["xterm-256color"]),
            (Some("xterm\x1b[6n"), None, &["xterm-256color"]),
            (None, None, &["xterm-256color"]),
        ] {
            let set = variables(term, colours);
            let values: Vec<_> = set
                .iter()
                .map(|set| match set {
                    EnvSetting::Set(_, value) => value.to_str().unwrap(),
                    EnvSetting::Pass(_) => "",
                })
                .collect();
            assert_eq!(values, want, "{term:?}");
        }
    }
}
