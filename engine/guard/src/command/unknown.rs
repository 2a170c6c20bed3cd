//! Programs missing from the table, and arguments that programs receive at run time.
//!
//! For unknown programs: an argument that is a program's name may begin a command line, and a file in the
//! arguments may be executed. Programs that certainly treat their arguments as data are in a list.

use super::{Piece, Word, lists, pieces, program, table, tools};
use crate::value::HOLE;

/// Maximum number of nested command lines searched for files.
const MAX_LINES: usize = 16;
/// Maximum number of arguments examined of an unknown program.
const MAX_WORDS: usize = 256;

/// True when a program of this name executes none of its arguments.
fn is_harmless(name: &str) -> bool {
    lists::HARMLESS.contains(&name) || lists::DATA.contains(&name)
}

/// True for a command that prints settings for the shell that it is given the name of: `direnv hook bash`.
fn prints_settings(name: &str, words: &[Word<'_>]) -> bool {
    matches!(
        name,
        "direnv"
            | "starship"
            | "zoxide"
            | "mise"
            | "fnm"
            | "atuin"
            | "pyenv"
            | "rbenv"
            | "nodenv"
            | "conda"
            | "mcfly"
    ) && matches!(
        words.get(1).and_then(|word| word.text),
        Some("hook" | "init" | "activate" | "env" | "completion")
    ) && words.len() <= 4
}

/// Adds the arguments that an unknown program may execute as code.
pub(super) fn read(name: &str, words: &[Word<'_>], out: &mut Vec<Piece>) {
    if is_harmless(name) || prints_settings(name, words) {
        return;
    }
    for (at, word) in words.iter().enumerate().skip(1).take(MAX_WORDS) {
        let Some(text) = word.text else { continue };
        let value = match text.split_once('=') {
            Some((_, value)) if text.starts_with('-') => value,
            _ if text.starts_with('-') => continue,
            _ => text,
        };
        let own = program(crate::rules::basename(value));
        if value == text && starts(&own) {
            out.push(Piece::Line(at, words.len()));
        }
        if !value.is_empty() {
            out.push(Piece::Given(word.at, value.to_owned()));
        }
    }
}

/// True when a program of this name executes some of its arguments, so that the word may begin a command
/// line.
fn starts(name: &str) -> bool {
    // Except for names that are more often ordinary words or subcommands.
    !lists::WORDS.contains(&name)
        && !super::wrappers::is_architecture(name)
        && (table::grammar(name).is_some() || tools::knows(name))
}

/// Files and command lines that `xargs` and `parallel` take from their input.
pub(super) fn fed(words: &[Word<'_>], out: &mut Vec<Piece>) {
    let hole = HOLE.to_string();
    let marks = marks(words);
    let mut found = Vec::new();
    for piece in out.iter() {
        let Piece::Line(from, to) = piece else { continue };
        let is_list = |at: &usize| {
            words.get(*at).and_then(|word| word.text).is_some_and(|text| text.starts_with(":::"))
        };
        let end = (*from..*to).find(is_list);
        // `parallel ::: COMMAND…`
        if end == Some(*from) {
            let given = words.iter().skip(from + 1).filter_map(|word| Some((word.at, word.text?)));
            found.extend(given.map(|(at, text)| Piece::Text(table::SHELL, at, text.to_owned())));
            continue;
        }
        let mut line: Vec<Word<'_>> = words[*from..end.unwrap_or(*to).min(words.len())].to_vec();
        // Words of the input follow, as many as a wrapper takes before its command.
        line.extend([Word { at: *from, text: Some(&hole) }; 2]);
        files(&line, &marks, 0, &mut found);
    }
    out.extend(found);
}

/// Markers that `xargs` and `parallel` replace by words of their input.
fn marks(words: &[Word<'_>]) -> Vec<String> {
    let mut all = vec!["{}".to_owned()];
    for (at, word) in words.iter().enumerate() {
        let Some(text) = word.text else { continue };
        let next = words.get(at + 1).and_then(|word| word.text);
        let mark = match text {
            "-I" | "-J" => next,
            _ => ["-I", "-J", "-i", "--replace="].iter().find_map(|option| text.strip_prefix(option)),
        };
        all.extend(mark.filter(|mark| !mark.is_empty()).map(str::to_owned));
    }
    all
}

/// Words of standard input that a command line executes: files with a hole in their path, and a
/// program whose name is such a word.
fn files(line: &[Word<'_>], marks: &[String], depth: usize, found: &mut Vec<Piece>) {
    if depth > MAX_LINES {
        return;
    }
    if let Some((at, text)) = line.first().and_then(|word| Some((word.at, word.text?)))
        && (text.contains(HOLE) || marks.iter().any(|mark| text.contains(mark.as_str())))
    {
        found.push(Piece::Fed(at));
        return;
    }
    for piece in pieces(line) {
        match piece {
            Piece::File(language, at, path) if path.contains(HOLE) => {
                found.push(Piece::File(language, at, path));
            }
            Piece::Line(from, to) if from > 0 => {
                files(&line[from..to.min(line.len())], marks, depth + 1, found);
            }
            Piece::Words(at, inner) => {
                let inner: Vec<Word<'_>> = inner.iter().map(|text| Word { at, text: Some(text) }).collect();
                files(&inner, marks, depth + 1, found);
            }
            _ => {}
        }
    }
}

/// A command line with `{}` replaced by the known part of it: a file below one of these folders.
pub(super) fn filled(line: &[Word<'_>], folders: &[&str]) -> Vec<Vec<String>> {
    if !line.iter().any(|word| word.text.is_some_and(|text| text.contains("{}"))) {
        return Vec::new();
    }
    let hole = |folder: &&str| match folder.trim_end_matches('/') {
        "" => HOLE.to_string(),
        folder => format!("{folder}/{HOLE}"),
    };
    let fill = |with: String| {
        line.iter()
            .map(|word| word.text.map_or_else(|| HOLE.to_string(), |t| t.replace("{}", &with)))
            .collect()
    };
    // The folder itself may be the file that is found.
    let whole = |folder: &&str| (*folder).to_owned();
    folders
        .iter()
        .map(hole)
        .chain(folders.iter().map(whole))
        .filter(|with| !with.is_empty())
        .map(fill)
        .collect()
}
