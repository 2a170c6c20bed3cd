//! awk and sed: the guard reads neither language, but most of their programs only compute and print. Programs
//! that may start commands, write files or load code are reported as not read.

use super::tools::text;
use super::{As, Piece, Word, awk};

const AWK: As = As::Unread("awk");
const SED: As = As::Unread("sed");

/// An awk program without a word that starts a command, writes a file or loads code is mere arithmetic over
/// its input.
pub(super) fn read_awk(words: &[Word<'_>], out: &mut Vec<Piece>) {
    let mut at = 1;
    let mut has_program = false;
    while let Some(word) = text(words, at).filter(|word| word.starts_with('-') && word.len() > 1) {
        let (name, attached) = word.split_once('=').map_or((word, None), |(n, v)| (n, Some(v)));
        let mut value = |short: usize| match (
            attached.filter(|_| word.starts_with("--")),
            word.get(short..).filter(|rest| !rest.is_empty() && !word.starts_with("--")),
        ) {
            (Some(value), _) | (None, Some(value)) => Some((words[at].at, value.to_owned())),
            _ => {
                at += 1;
                text(words, at).map(|value| (words[at].at, value.to_owned()))
            }
        };
        match name {
            "--" => {
                at += 1;
                break;
            }
            "--source" | "--file" | "--include" | "--load" | "--exec" => {
                let file = name != "--source";
                if let Some((place, value)) = value(2) {
                    has_program |= !matches!(name, "--include" | "--load");
                    if file {
                        out.push(Piece::File(AWK, place, value));
                    } else {
                        arithmetic(place, &value, out);
                    }
                }
            }
            _ if word.starts_with("-f")
                || word.starts_with("-E")
                || word.starts_with("-i")
                || word.starts_with("-l") =>
            {
                if let Some((place, path)) = value(2) {
                    has_program |= word.starts_with("-f") || word.starts_with("-E");
                    out.push(Piece::File(AWK, place, path));
                }
            }
            _ if word.starts_with("-e") => {
                if let Some((place, code)) = value(2) {
                    has_program = true;
                    arithmetic(place, &code, out);
                }
            }
            _ if word.starts_with("-F") || word.starts_with("-v") => drop(value(2)),
            _ => {}
        }
        at += 1;
    }
    if !has_program && at < words.len() {
        match words[at].text {
            Some(code) => arithmetic(words[at].at, code, out),
            None => out.push(Piece::Unknown(AWK, words[at].at, "its text is not known".to_owned())),
        }
    }
}

fn arithmetic(place: usize, code: &str, out: &mut Vec<Piece>) {
    if !awk::only_computes(code) {
        out.push(Piece::Text(AWK, place, code.to_owned()));
    }
}

/// A sed script that only edits lines is harmless; any other is reported.
pub(super) fn read_sed(words: &[Word<'_>], out: &mut Vec<Piece>) {
    let mut at = 1;
    let mut has_program = false;
    let mut operands = Vec::new();
    while at < words.len() {
        let here = at;
        at += 1;
        let Some(word) = words[here].text else { continue };
        let mut value = |attached: Option<&str>| match attached {
            Some(value) => Some((words[here].at, value.to_owned())),
            None => {
                at += 1;
                text(words, here + 1).map(|value| (words[here + 1].at, value.to_owned()))
            }
        };
        if word == "--" {
            operands.extend(at..words.len());
            break;
        }
        if let Some(long) = word.strip_prefix("--") {
            let (name, attached) = long.split_once('=').map_or((long, None), |(n, v)| (n, Some(v)));
            if !name.is_empty() && "expression".starts_with(name) {
                has_program = true;
                let code = value(attached);
                out.extend(
                    code.filter(|(_, code)| !edits_only(code))
                        .map(|(place, code)| Piece::Text(SED, place, code)),
                );
            } else if name.len() > 1 && "file".starts_with(name) {
                has_program = true;
                out.extend(value(attached).map(|(place, path)| Piece::File(SED, place, path)));
            }
            continue;
        }
        if word.len() > 1 && word.starts_with('-') {
            for (offset, letter) in word.char_indices().skip(1) {
                let rest = word.get(offset + letter.len_utf8()..).filter(|rest| !rest.is_empty());
                match letter {
                    'e' => {
                        has_program = true;
                        let code = value(rest);
                        out.extend(
                            code.filter(|(_, code)| !edits_only(code))
                                .map(|(place, code)| Piece::Text(SED, place, code)),
                        );
                        break;
                    }
                    'f' => {
                        has_program = true;
                        out.extend(value(rest).map(|(place, path)| Piece::File(SED, place, path)));
                        break;
                    }
                    'l' => {
                        drop(value(rest));
                        break;
                    }
                    'i' => break,
                    _ => {}
                }
            }
            continue;
        }
        operands.push(here);
    }
    if !has_program && let Some(word) = operands.first().map(|at| words[*at]) {
        match word.text {
            Some(code) if edits_only(code) => {}
            Some(code) => out.push(Piece::Text(SED, word.at, code.to_owned())),
            None => out.push(Piece::Unknown(SED, word.at, "its text is not known".to_owned())),
        }
    }
}

/// True when a sed script only edits lines: no command in it executes or writes anything.
fn edits_only(code: &str) -> bool {
    let mut rest = code;
    let mut steps = 0;
    loop {
        rest = rest.trim_start_matches([' ', '\t', '\n', ';', '{', '}', '!', ',', '~', '+', '$']);
        rest = rest.trim_start_matches(|c: char| c.is_ascii_digit());
        steps += 1;
        if steps > 10_000 {
            return false;
        }
        let Some(first) = rest.chars().next() else { return true };
        match first {
            ' ' | '\t' | '\n' | ';' | '{' | '}' | '!' | ',' | '~' | '+' | '$' => {}
            '/' | '\\' => {
                let (mark, body) = match first {
                    '/' => ('/', &rest[1..]),
                    _ => match rest[1..].chars().next() {
                        Some(mark) => (mark, &rest[1 + mark.len_utf8()..]),
                        None => return false,
                    },
                };
                let Some(end) = delimited(body, mark) else { return false };
                rest = body[end..].trim_start_matches(['I', 'M']);
            }
            's' | 'y' => {
                let Some(mark) = rest[1..].chars().next().filter(|mark| *mark != '\n' && *mark != '\\')
                else {
                    return false;
                };
                let body = &rest[1 + mark.len_utf8()..];
                let Some(middle) = delimited(body, mark) else { return false };
                let Some(end) = delimited(&body[middle..], mark) else { return false };
                let after = &body[middle + end..];
                let flags = after.trim_start_matches(|c: char| c.is_ascii_digit() || "gpIiMm".contains(c));
                if !flags.is_empty() && !flags.starts_with([' ', '\t', ';', '\n', '}', '#']) {
                    return false;
                }
                rest = flags;
            }
            '#' => rest = rest.split_once('\n').map_or("", |(_, after)| after),
            'a' | 'i' | 'c' => {
                rest = rest
                    .split_once('\n')
                    .filter(|(line, _)| !line.ends_with('\\'))
                    .map_or("", |(_, after)| after);
            }
            ':' | 'b' | 't' | 'T' => {
                rest = rest[1..].trim_start_matches(|c: char| c != ';' && c != '\n' && c != '}');
            }
            'd' | 'D' | 'g' | 'G' | 'h' | 'H' | 'n' | 'N' | 'p' | 'P' | 'x' | '=' | 'z' | 'l' | 'q' | 'Q' => {
                rest = &rest[1..];
            }
            // Inserts the lines of a file, which starts nothing; the end of the file name is recognised by
            // its letters.
            'r' | 'R' => {
                let (name, after) = rest[1..].split_once('\n').unwrap_or((&rest[1..], ""));
                let of_a_name = |c: char| c.is_ascii_alphanumeric() || "._/-".contains(c);
                if name.trim().is_empty() || !name.trim().chars().all(of_a_name) {
                    return false;
                }
                rest = after;
            }
            _ => return false,
        }
    }
}

/// End of a text that is delimited by `mark`, after the first one without a backslash.
fn delimited(text: &str, mark: char) -> Option<usize> {
    let mut escaped = false;
    for (at, c) in text.char_indices() {
        if escaped {
            escaped = false;
        } else if c == '\\' {
            escaped = true;
        } else if c == mark {
            return Some(at + c.len_utf8());
        }
    }
    None
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn sed_scripts_that_edit_only_are_recognised() {
        for code in [
            "s/a/b/g",
            "10,20d",
            "/x/,/y/p",
            "$!N;s/\\n/ /",
            "y/abc/xyz/",
            "s|a\\|b|c|2",
            "/a/{s/b/c/;p}",
            "1!G;h;$!d",
            "# e x",
            "a text e",
            "/x/r a.txt",
            "$r sub/b-1.txt\np",
        ] {
            assert!(edits_only(code), "{code}");
        }
        for code in [
            "e",
            "1e x",
            "s/a/b/e",
            "s/a/b/ge",
            "w f",
            "s/a/b/w f",
            "r",
            "r f;e x",
            "r f}e x",
            "/x/r a.txt\ne x",
            "s/a",
            "/x/e id",
            "F;e",
            "{e x}",
            "p;e x",
            "W f",
            "?",
            "v 4",
        ] {
            assert!(!edits_only(code), "{code}");
        }
    }
}
