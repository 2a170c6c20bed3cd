//! git: its arguments, and commands in its settings, whether in files or in arguments.

use super::table::SHELL;
use super::tools::text;
use super::{As, Piece, Word};

/// Hooks that git runs by name, in the folder named by a setting.
pub(crate) const HOOKS: &[&str] = &[
    "applypatch-msg",
    "pre-applypatch",
    "post-applypatch",
    "pre-commit",
    "pre-merge-commit",
    "prepare-commit-msg",
    "commit-msg",
    "post-commit",
    "pre-rebase",
    "post-checkout",
    "post-merge",
    "pre-push",
    "pre-receive",
    "update",
    "post-receive",
    "post-update",
    "push-to-checkout",
    "pre-auto-gc",
    "post-rewrite",
    "sendemail-validate",
    "fsmonitor-watchman",
    "post-index-change",
    "reference-transaction",
    "proc-receive",
];

/// Last parts of the names of settings whose values are commands.
const COMMANDS: &[&str] = &[
    "askpass",
    "clean",
    "command",
    "diff",
    "driver",
    "external",
    "fsmonitor",
    "gitproxy",
    "process",
    "receivepack",
    "smtpserver",
    "smudge",
    "textconv",
    "tool",
    "uploadpack",
    "vcs",
];
/// Suffixes of such names.
const ENDINGS: &[&str] =
    &["command", "cmd", "hook", "filter", "program", "helper", "tunnel", "editor", "pager", "browser"];
/// Sections whose `path` is a program.
const PROGRAMS: &[&str] = &["difftool", "mergetool", "browser", "man", "guitool"];

/// Code that git executes because of one setting.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(crate) enum Runs {
    /// A shell command.
    Command(String),
    /// Each of these files, by name.
    Hooks(Vec<String>),
    /// Settings in another file.
    Settings(String),
}

/// Code that a setting makes git execute. `section` and `name` are in lower case.
pub(crate) fn runs(section: &str, name: &str, value: &str) -> Option<Runs> {
    let value = value.trim();
    if value.is_empty() {
        return None;
    }
    let hooks = |folder: &str| Runs::Hooks(HOOKS.iter().map(|hook| format!("{folder}/{hook}")).collect());
    let command = |text: &str| Some(Runs::Command(text.to_owned()));
    if let Some(own) = value.strip_prefix('!').or_else(|| value.strip_prefix("ext::")) {
        return command(own);
    }
    match (section, name) {
        ("alias", _) => None,
        ("core", "hookspath") => Some(hooks(value)),
        ("init", "templatedir") => Some(hooks(&format!("{value}/hooks"))),
        ("include" | "includeif", "path") => Some(Runs::Settings(value.to_owned())),
        ("pager", _) if !matches!(value, "true" | "false") => command(value),
        (_, "path") if PROGRAMS.contains(&section) => command(value),
        _ if matches!(value, "true" | "false") => None,
        _ if COMMANDS.contains(&name) || ENDINGS.iter().any(|end| name.ends_with(end)) => command(value),
        _ => None,
    }
}

fn setting(at: usize, text: &str, out: &mut Vec<Piece>) {
    let Some((full, value)) = text.split_once('=') else { return };
    let full = full.to_ascii_lowercase();
    let section = full.split('.').next().unwrap_or("");
    let name = full.rsplit('.').next().unwrap_or("");
    match runs(section, name, value) {
        Some(Runs::Command(command)) => out.push(Piece::Text(SHELL, at, command)),
        Some(Runs::Hooks(files)) => out.extend(files.into_iter().map(|path| Piece::File(As::Own, at, path))),
        Some(Runs::Settings(path)) => out.push(Piece::File(As::GitSettings, at, path)),
        None => {}
    }
}

/// Settings and hooks in a folder that is named as git's own.
fn folder(at: usize, path: &str, out: &mut Vec<Piece>) {
    out.push(Piece::File(As::GitSettings, at, format!("{path}/config")));
    out.extend(HOOKS.iter().map(|hook| Piece::File(As::Own, at, format!("{path}/hooks/{hook}"))));
}

pub(super) fn read(words: &[Word<'_>], out: &mut Vec<Piece>) {
    let mut at = 1;
    // git's own options, up to its command.
    while let Some(word) = text(words, at).filter(|word| word.starts_with('-')) {
        let (name, attached) = word.split_once('=').map_or((word, None), |(n, v)| (n, Some(v)));
        let takes = matches!(
            name,
            "-c" | "-C" | "--git-dir" | "--work-tree" | "--namespace" | "--config-env" | "--super-prefix"
        );
        let value = if takes && attached.is_none() { text(words, at + 1) } else { attached };
        let place = words.get(at + usize::from(attached.is_none())).map_or(at, |word| word.at);
        match (name, value) {
            ("-c", _) => {
                // The value of `-c` contains the equals sign.
                if let Some(value) = text(words, at + 1) {
                    setting(place, value, out);
                }
                at += 2;
                continue;
            }
            ("-C" | "--work-tree", Some(value)) => out.push(Piece::Folder(place, value.to_owned())),
            ("--git-dir", Some(value)) => folder(place, value, out),
            ("--config-env", Some(value)) => {
                let runs = value.split_once('=').is_none_or(|(key, _)| {
                    let key = key.to_ascii_lowercase();
                    let ends = key.rsplit('.').next().unwrap_or("");
                    runs(key.split('.').next().unwrap_or(""), ends, "!x").is_some()
                });
                if runs {
                    let why = "its command is in a variable".to_owned();
                    out.push(Piece::Unknown(As::Unread("git settings"), place, why));
                }
            }
            ("--exec-path", Some(value)) => out.push(Piece::File(As::Own, place, format!("{value}/git"))),
            _ => {}
        }
        at += 1 + usize::from(takes && attached.is_none());
    }
    let command = text(words, at).unwrap_or("");
    for (here, word) in words.iter().enumerate().skip(at + 1) {
        let Some(option) = word.text else { continue };
        let (name, attached) = option.split_once('=').map_or((option, None), |(n, v)| (n, Some(v)));
        // One-letter options with an attached value.
        let (name, attached) = match option.strip_prefix('-').and_then(|rest| rest.split_at_checked(1)) {
            Some((letter, rest)) if letter != "-" && !rest.is_empty() && "xuOc".contains(letter) => {
                (&option[..2], Some(rest))
            }
            _ => (name, attached),
        };
        let runs = match command {
            "rebase" => matches!(name, "-x" | "--exec"),
            "difftool" => matches!(name, "-x" | "--extcmd"),
            "grep" => name == "-O" || name.starts_with("--open-files"),
            "clone" | "fetch" | "pull" | "ls-remote" | "fetch-pack" => {
                matches!(name, "-u" | "--upload-pack" | "--exec")
            }
            "push" | "send-pack" => matches!(name, "--receive-pack" | "--exec"),
            "archive" => name == "--exec",
            "filter-branch" => name.ends_with("-filter") || name == "--setup",
            "format-patch" | "send-email" => {
                matches!(name, "--to-cmd" | "--cc-cmd" | "--header-cmd" | "--sendmail-cmd" | "--smtp-server")
            }
            "instaweb" => matches!(name, "-d" | "--httpd" | "-b" | "--browser"),
            _ => false,
        };
        let next = words.get(here + 1);
        let (place, value) = match attached {
            Some(value) => (word.at, Some(value)),
            None => (next.map_or(word.at, |w| w.at), next.and_then(|w| w.text)),
        };
        if runs {
            out.extend(value.map(|value| Piece::Text(SHELL, place, value.to_owned())));
        }
        if let Some(value) = value {
            match (command, name) {
                ("clone" | "submodule", "-c" | "--config") => {
                    let whole = if attached.is_some() && name == "-c" {
                        value
                    } else {
                        text(words, here + 1).unwrap_or(value)
                    };
                    setting(place, whole, out);
                }
                ("clone" | "init", "--template") => {
                    let hook = |hook: &&str| Piece::File(As::Own, place, format!("{value}/hooks/{hook}"));
                    out.extend(HOOKS.iter().map(hook));
                }
                ("config", "-f" | "--file") => {
                    out.push(Piece::File(As::GitSettings, place, value.to_owned()));
                }
                _ => {}
            }
        }
        // A new setting, for commands that run later.
        if command == "config" && option.contains('.') && !option.starts_with('-') {
            out.extend(text(words, here + 1).into_iter().flat_map(|value| {
                let mut made = Vec::new();
                setting(word.at, &format!("{option}={value}"), &mut made);
                made
            }));
        }
        // `git clone ext::COMMAND`.
        if let Some(command) = option.strip_prefix("ext::") {
            out.push(Piece::Text(SHELL, word.at, command.to_owned()));
        }
    }
    match (command, text(words, at + 1)) {
        ("bisect", Some("run")) => out.push(Piece::Line(at + 2, words.len())),
        ("hook", Some("run")) => {
            out.extend(
                text(words, at + 2).map(|hook| Piece::File(As::Own, at + 2, format!(".git/hooks/{hook}"))),
            );
        }
        ("for-each-repo", _) => {}
        ("submodule", Some("foreach")) => {
            let joined: Vec<&str> = words.iter().skip(at + 2).map(|w| w.text.unwrap_or("")).collect();
            let joined: Vec<&str> = joined.into_iter().skip_while(|w| w.starts_with('-')).collect();
            out.push(Piece::Text(SHELL, at + 2, joined.join(" ")));
        }
        _ => {}
    }
}
