//! Programs that hold shells of their own: capsh, and multiplexers, which are told what to start and what to type
//! by commands. Also the line editor of bash, whose keys start commands.

use super::table::SHELL;
use super::{As, Piece, Word};
use crate::value::HOLE;

/// Maximum number of commands in one command line of a multiplexer.
const MAX_COMMANDS: usize = 64;

/// True when [`read`] handles a program of this name.
pub(super) fn knows(name: &str) -> bool {
    matches!(name, "capsh" | "tmux" | "screen" | "bind")
}

/// Code that these programs execute according to their arguments.
pub(super) fn read(name: &str, words: &[Word<'_>], out: &mut Vec<Piece>) {
    match name {
        "capsh" => capsh(words, out),
        "tmux" => tmux(words, out),
        "screen" => screen(words, out),
        _ => bind(words, out),
    }
}

fn text<'a>(words: &[Word<'a>], at: usize) -> Option<&'a str> {
    words.get(at).and_then(|word| word.text)
}

fn owned(words: &[Word<'_>]) -> Vec<String> {
    words.iter().map(|word| word.text.map_or_else(|| HOLE.to_string(), str::to_owned)).collect()
}

/// Words behind `--` are arguments of bash, those behind `==` of another capsh.
fn capsh(words: &[Word<'_>], out: &mut Vec<Piece>) {
    for (at, word) in words.iter().enumerate().skip(1) {
        let program = match word.text {
            Some("--" | "-+") => "bash",
            Some("==" | "=+") => "capsh",
            Some(option) if option.starts_with("--shell=") => {
                out.push(Piece::File(As::Own, word.at, option["--shell=".len()..].to_owned()));
                continue;
            }
            _ => continue,
        };
        let line = std::iter::once(program.to_owned()).chain(owned(&words[at + 1..]));
        out.push(Piece::Words(word.at, line.collect()));
        return;
    }
}

/// `bind -x '"KEYS": COMMAND'`
fn bind(words: &[Word<'_>], out: &mut Vec<Piece>) {
    for at in 1..words.len() {
        let Some(option) = text(words, at).and_then(|t| t.strip_prefix('-')) else { continue };
        let Some((_, attached)) = option.split_once('x') else { continue };
        let (place, key) =
            if attached.is_empty() { (at + 1, text(words, at + 1)) } else { (at, Some(attached)) };
        let Some(key) = key else { continue };
        let command =
            key.split_once("\":").or_else(|| key.split_once(':')).map_or(key, |(_, command)| command);
        let command = command.trim();
        let bare = command.strip_prefix('"').and_then(|c| c.strip_suffix('"')).unwrap_or(command);
        out.push(Piece::Text(SHELL, words[place].at, bare.to_owned()));
    }
}

/// Kind of the operands of a command of tmux.
#[derive(Clone, Copy, PartialEq, Eq)]
enum Kind {
    /// A command, as one text or as words; a shell without one.
    Starts,
    /// As [`Kind::Starts`], and nothing without one.
    Runs,
    /// A text for the shell, then commands of tmux.
    If,
    /// Keys and texts that are typed.
    Types,
    /// A file of commands of tmux.
    File,
    /// Texts that are commands of tmux.
    Commands,
}

/// Commands of tmux by name and alias, the letters of their options that take a value, and their operands.
const COMMANDS: &[(&str, &str, &str, Kind)] = &[
    ("new-session", "new", "ceFfnstxy", Kind::Starts),
    ("new-window", "neww", "ceFnSt", Kind::Runs),
    ("split-window", "splitw", "ceFlpt", Kind::Runs),
    ("respawn-pane", "respawnp", "cet", Kind::Runs),
    ("respawn-window", "respawnw", "cet", Kind::Runs),
    ("display-popup", "popup", "BbcdehsStTwxy", Kind::Runs),
    ("pipe-pane", "pipep", "t", Kind::Runs),
    ("run-shell", "run", "cdt", Kind::Runs),
    ("copy-pipe", "copy-pipe", "", Kind::Runs),
    ("if-shell", "if", "t", Kind::If),
    ("send-keys", "send", "cNt", Kind::Types),
    ("source-file", "source", "t", Kind::File),
    ("bind-key", "bind", "TN", Kind::Commands),
    ("set-hook", "set-hook", "t", Kind::Commands),
    ("set-option", "set", "t", Kind::Commands),
    ("set-window-option", "setw", "t", Kind::Commands),
    ("confirm-before", "confirm", "cpt", Kind::Commands),
    ("command-prompt", "command-prompt", "IpTt", Kind::Commands),
];

/// The command of a name, an alias or an abbreviation of two letters or more.
fn command(word: &str) -> Option<(&'static str, Kind)> {
    let exact = COMMANDS.iter().find(|(name, alias, ..)| word == *name || word == *alias);
    let known = exact.or_else(|| COMMANDS.iter().find(|(name, ..)| word.len() > 1 && name.starts_with(word)));
    known.map(|(_, _, valued, kind)| (*valued, *kind))
}

/// Index of the first operand, past options; of these, the letters in `valued` take a value. True when an option
/// has the letter `asked`.
fn past_options(words: &[Word<'_>], mut at: usize, valued: &str, asked: char) -> (usize, bool) {
    let mut has = false;
    while let Some(option) = text(words, at).and_then(|t| t.strip_prefix('-')).filter(|t| !t.is_empty()) {
        at += 1;
        if option == "-" {
            break;
        }
        for (begin, letter) in option.char_indices() {
            has |= letter == asked;
            if valued.contains(letter) {
                at += usize::from(begin + letter.len_utf8() == option.len());
                break;
            }
        }
        if has && valued.contains(asked) {
            break;
        }
    }
    (at, has)
}

/// A command given as one text, or as words.
fn started(words: &[Word<'_>], from: usize, to: usize, out: &mut Vec<Piece>) {
    let Some(first) = words.get(from).filter(|_| from < to) else { return };
    out.push(Piece::Text(SHELL, first.at, owned(&words[from..to]).join(" ")));
    if to - from > 1 {
        out.push(Piece::Line(from, to));
    }
}

fn tmux(words: &[Word<'_>], out: &mut Vec<Piece>) {
    let settings = |word: &Word<'_>, out: &mut Vec<Piece>| {
        if let Some(path) = word.text.filter(|path| *path != "/dev/null") {
            out.push(Piece::File(As::Unread("tmux settings"), word.at, path.to_owned()));
        }
    };
    let (mut at, _) = past_options(words, 1, "LSfcT", ' ');
    if let Some(place) = (1..at).find(|at| text(words, *at) == Some("-f")) {
        words.get(place + 1).into_iter().for_each(|word| settings(word, out));
    }
    // `-c COMMAND` is given to the shell at once.
    for place in 1..at.min(words.len()) {
        let given = match text(words, place) {
            Some("-c") => text(words, place + 1),
            Some(option) => option.strip_prefix("-c"),
            None => None,
        };
        if let Some(given) = given {
            out.push(Piece::Text(SHELL, words[place].at, given.to_owned()));
            return;
        }
    }
    if at >= words.len() {
        let tells = words.len() == 2 && text(words, 1) == Some("-V");
        if !tells {
            out.push(Piece::Words(words[0].at, vec!["sh".to_owned()]));
        }
        return;
    }
    for _ in 0..MAX_COMMANDS {
        // Commands are separated by a semicolon, as a word or at the end of one.
        let end = (at..words.len())
            .find(|at| text(words, *at).is_some_and(|t| t == ";" || t == "\\;"))
            .unwrap_or(words.len());
        if let Some((valued, kind)) = text(words, at).and_then(command) {
            let asked = if kind == Kind::Starts { 'd' } else { 'C' };
            let (from, has) = past_options(&words[..end], at + 1, valued, asked);
            match kind {
                Kind::Starts if from >= end && !has => {
                    out.push(Piece::Words(words[at].at, vec!["sh".to_owned()]));
                }
                // `run-shell -C` takes a command of tmux.
                Kind::Runs if has => typed(words, from, end, out),
                Kind::Starts | Kind::Runs => started(words, from, end, out),
                Kind::If => {
                    started(words, from, end.min(from + 1), out);
                    typed(words, from + 1, end, out);
                }
                Kind::Types => started(words, from, end, out),
                Kind::File => words.get(from).into_iter().for_each(|word| settings(word, out)),
                Kind::Commands => typed(words, from, end, out),
            }
        }
        at = end + 1;
        if at >= words.len() {
            return;
        }
    }
    out.push(Piece::Unknown(SHELL, words[0].at, format!("more than {MAX_COMMANDS} commands")));
}

/// Operands that are commands of tmux: their texts, split into words, and the words themselves.
fn typed(words: &[Word<'_>], from: usize, to: usize, out: &mut Vec<Piece>) {
    for at in from..to.min(words.len()) {
        let Some(text) = words[at].text else { continue };
        let mut line = vec!["tmux".to_owned()];
        if text.contains(' ') {
            line.extend(super::tools::split(text));
        } else if command(text).is_some() {
            line.extend(owned(&words[at..to.min(words.len())]));
        } else {
            continue;
        }
        out.push(Piece::Words(words[at].at, line));
    }
}

fn screen(words: &[Word<'_>], out: &mut Vec<Piece>) {
    let (at, sends) = past_options(words, 1, "ceEhpSstTX", 'X');
    if sends {
        // The word behind `-X` is a command of screen.
        let from = at - 1;
        match text(words, from) {
            Some("stuff" | "screen" | "exec" | "register") => started(words, from + 1, words.len(), out),
            Some("eval") => {
                for word in words.iter().skip(from + 1) {
                    let inner = super::tools::split(word.text.unwrap_or(""));
                    let line = ["screen", "-X"].map(str::to_owned).into_iter().chain(inner);
                    out.push(Piece::Words(word.at, line.collect()));
                }
            }
            Some("source") => {
                if let Some(path) = text(words, from + 1) {
                    out.push(Piece::File(As::Unread("screen settings"), words[from + 1].at, path.to_owned()));
                }
            }
            _ => {}
        }
        return;
    }
    if at < words.len() {
        return started(words, at, words.len(), out);
    }
    let only_tells = (1..words.len()).any(|at| {
        text(words, at).is_some_and(|t| {
            matches!(t, "-ls" | "-list" | "-wipe" | "-v" | "--version" | "-h" | "--help")
                || t.starts_with("-dm")
        })
    });
    if !only_tells {
        out.push(Piece::Words(words[0].at, vec!["sh".to_owned()]));
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    /// Pieces of a command line, as words: `text TEXT`, `line FROM TO`, `words …`.
    fn told(line: &[&str]) -> Vec<String> {
        let words: Vec<Word<'_>> =
            line.iter().enumerate().map(|(at, text)| Word { at, text: Some(text) }).collect();
        let mut out = Vec::new();
        read(line[0], &words, &mut out);
        let piece = |piece: &Piece| match piece {
            Piece::Text(_, _, text) => format!("text {text}"),
            Piece::Line(from, to) => format!("line {from} {to}"),
            Piece::Words(_, words) => format!("words {}", words.join(" ")),
            Piece::File(_, _, path) => format!("file {path}"),
            other => format!("{other:?}"),
        };
        out.iter().map(piece).collect()
    }

    #[test]
    fn shells_inside_other_programs_are_found() {
        for (line, want) in [
            (&["capsh", "--", "-c", "S"][..], &["words bash -c S"][..]),
            (&["capsh", "--drop=cap_kill", "--"], &["words bash"]),
            (&["capsh", "==", "--", "-c", "S"], &["words capsh -- -c S"]),
            (&["capsh", "--print"], &[]),
            (&["tmux"], &["words sh"]),
            (&["tmux", "-L", "x", "new", "-d", "S"], &["text S"]),
            (&["tmux", "new-session", "-A", "-s", "x"], &["words sh"]),
            (&["tmux", "new", "-d", "-s", "x"], &[]),
            (&["tmux", "new", "-s", "x", "-n", "y", "sh", "-c", "S"], &["text sh -c S", "line 6 9"]),
            (&["tmux", "ls"], &[]),
            (&["tmux", "-c", "S"], &["text S"]),
            (&["tmux", "-f", "/dev/null", "neww", "S"], &["text S"]),
            (&["tmux", "-f", "x.conf", "ls"], &["file x.conf"]),
            (&["tmux", "splitw", "-h", "-p", "20", "S"], &["text S"]),
            (&["tmux", "ls", ";", "run-shell", "-b", "S"], &["text S"]),
            (&["tmux", "run", "-C", "run-shell S"], &["words tmux run-shell S"]),
            (&["tmux", "if-shell", "S", "neww T"], &["text S", "words tmux neww T"]),
            (&["tmux", "send-keys", "-t", "x", "S", "Enter"], &["text S Enter", "line 4 6"]),
            (&["tmux", "respawn-p", "-k", "S"], &["text S"]),
            (&["tmux", "bind-key", "x", "run-shell", "S"], &["words tmux run-shell S"]),
            (&["screen"], &["words sh"]),
            (&["screen", "-ls"], &[]),
            (&["screen", "-dmS", "x", "S"], &["text S"]),
            (&["screen", "-S", "x", "-X", "stuff", "S\n"], &["text S\n"]),
            (&["bind", "-x", "\"\\C-l\": S"], &["text S"]),
            (&["bind", "-x\"k\":S"], &["text S"]),
            (&["bind", "set completion-ignore-case on"], &[]),
        ] {
            assert_eq!(told(line), want, "{line:?}");
        }
    }
}
