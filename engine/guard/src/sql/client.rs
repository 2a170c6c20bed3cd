//! Commands that database clients take beside SQL, as far as they start a shell or load native code: sqlite's and
//! DuckDB's dot commands in every abbreviation, psql's and MySQL's commands behind a backslash, and the words that
//! MySQL's client takes at the start of a line.

/// Maximum number of commands that are told of one script.
const MAX_COMMANDS: usize = 256;
/// Dot commands that take a command line behind a `|` in place of a file.
const PIPES: &[&str] =
    &["output", "once", "import", "read", "excel", "www", "log", "trace", "dump", "save", "backup"];
/// Names of variables that psql executes the value of, when it shows or edits something.
const PROGRAMS: &[&str] =
    &["PAGER", "PSQL_PAGER", "PSQL_WATCH_PAGER", "EDITOR", "PSQL_EDITOR", "VISUAL", "SHELL"];

/// How a client uses a command's text.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum Kind {
    /// Executes it in a shell.
    Shell,
    /// Executes it in a shell to show output.
    Pager,
    /// Loads it as native code.
    Load,
}

/// A command with the text that it gives to a shell.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(super) struct Command {
    /// Place of its line.
    pub(super) place: (usize, usize),
    pub(super) kind: Kind,
    pub(super) text: String,
}

/// Commands of clients in a script.
pub(super) fn commands(source: &str) -> Vec<Command> {
    let mut out = Vec::new();
    let mut at = 0;
    // True where a literal of an earlier line may be open; an apostrophe in a comment counts, too, and then more is read.
    let mut is_open = false;
    for line in source.split_inclusive('\n') {
        let place = (at, at + line.len());
        at += line.len();
        let mut found = Vec::new();
        let code = line.trim();
        match code.strip_prefix('.') {
            Some(command) => dot(command, &mut found),
            None => word(code, &mut found),
        }
        backslashes(code, is_open, &mut found);
        is_open ^= has_open_quote(line);
        out.extend(found.into_iter().map(|(kind, text)| Command { place, kind, text }));
        if out.len() >= MAX_COMMANDS {
            break;
        }
    }
    out
}

/// sqlite and DuckDB take a dot command in every abbreviation.
fn dot(command: &str, out: &mut Vec<(Kind, String)>) {
    let end = command.find(|c: char| !c.is_ascii_alphanumeric() && c != '_').unwrap_or(command.len());
    let (name, rest) = command.split_at(end);
    let name = name.to_ascii_lowercase();
    let is = |long: &str| !name.is_empty() && long.starts_with(name.as_str());
    if (is("shell") || is("system")) && rest.starts_with([' ', '\t', '\'', '"']) {
        out.push((Kind::Shell, opened(rest.trim())));
        return;
    }
    if is("load") && !rest.trim().is_empty() {
        out.push((Kind::Load, rest.trim().to_owned()));
    }
    if PIPES.iter().any(|long| is(long)) {
        out.extend(piped(rest).map(|text| (Kind::Shell, text)));
    }
}

/// The command line behind a `|` at the start of a word, with or without quotes.
fn piped(rest: &str) -> Option<String> {
    rest.match_indices('|').find_map(|(at, _)| {
        let before = &rest[..at];
        let quote = before.chars().next_back().filter(|c| matches!(c, '\'' | '"'));
        let begins = before.strip_suffix(['\'', '"']).unwrap_or(before);
        let text = &rest[at + 1..];
        if !begins.is_empty() && !begins.ends_with(char::is_whitespace) || text.trim().is_empty() {
            return None;
        }
        let text = quote.and_then(|quote| text.split_once(quote)).map_or(text, |(text, _)| text);
        Some(opened(text.trim()))
    })
}

/// A text with the escapes of words in double quotes, `"\055"` and others, as characters.
fn opened(text: &str) -> String {
    if text.contains('\\') && text.contains('"') { crate::decode::unescape(text) } else { text.to_owned() }
}

/// Words that clients take at the start of a line: `system` and `pager` of MySQL's, `!!` of sqlcmd.
fn word(code: &str, out: &mut Vec<(Kind, String)>) {
    if let Some(command) = code.strip_prefix("!!").or_else(|| code.strip_prefix(":!!")) {
        out.push((Kind::Shell, command.trim().to_owned()));
        return;
    }
    let Some((name, rest)) = code.split_once([' ', '\t']) else { return };
    let rest = rest.trim();
    let first = rest.split_whitespace().next().unwrap_or("");
    // `ALTER SYSTEM SET`, `SYSTEM FLUSH LOGS`: no program has a name of capital letters.
    let is_statement =
        first.starts_with(['=', '(', ',', ')']) || first.bytes().all(|b| b.is_ascii_uppercase() || b == b';');
    let kind = match name {
        _ if is_statement => return,
        _ if name.eq_ignore_ascii_case("system") => Kind::Shell,
        _ if name.eq_ignore_ascii_case("pager") => Kind::Pager,
        _ => return,
    };
    out.push((kind, rest.to_owned()));
}

/// Commands behind a backslash, which may stand behind a statement, or behind one another.
fn backslashes(code: &str, is_open: bool, out: &mut Vec<(Kind, String)>) {
    for (at, _) in code.match_indices('\\') {
        let after = &code[at + 1..];
        if !is_open && in_literal(&code[..at]) || in_comment(&code[..at]) {
            continue;
        }
        if let Some(command) = after.strip_prefix('!') {
            out.push((Kind::Shell, command.trim().to_owned()));
            return;
        }
        let end = after.find(|c: char| !c.is_ascii_alphanumeric() && c != '_').unwrap_or(after.len());
        let (name, rest) = after.split_at(end);
        match name {
            "o" | "out" | "g" | "gx" | "w" | "write" => {
                out.extend(piped(rest).map(|text| (Kind::Shell, text)));
            }
            "P" if rest.starts_with([' ', '\t']) => out.push((Kind::Pager, rest.trim().to_owned())),
            "copy" => out.extend(program_of(rest).map(|text| (Kind::Shell, text))),
            "setenv" => {
                let mut words = rest.trim().splitn(2, [' ', '\t']);
                if let (Some(name), Some(value)) = (words.next(), words.next())
                    && PROGRAMS.contains(&name)
                {
                    out.push((Kind::Pager, value.trim().trim_matches(['\'', '"']).to_owned()));
                }
            }
            _ => {}
        }
        // A text in backticks is executed, and its output is an argument.
        if is_of_psql(name) && rest.contains('`') {
            let texts = rest.split('`').skip(1).step_by(2).filter(|text| !text.trim().is_empty());
            out.extend(texts.map(|text| (Kind::Shell, text.to_owned())));
            return;
        }
    }
}

/// Commands of psql whose arguments may be texts in backticks. In MySQL's client these quote names.
fn is_of_psql(name: &str) -> bool {
    matches!(
        name,
        "set"
            | "unset"
            | "echo"
            | "qecho"
            | "warn"
            | "i"
            | "ir"
            | "include"
            | "include_relative"
            | "o"
            | "out"
            | "w"
            | "write"
            | "s"
            | "cd"
            | "c"
            | "connect"
            | "setenv"
            | "getenv"
            | "pset"
            | "if"
            | "elif"
            | "prompt"
            | "gset"
            | "bind"
            | "bind_named"
            | "encoding"
            | "password"
            | "lo_import"
            | "lo_export"
            | "t"
            | "T"
            | "f"
            | "C"
            | "x"
            | "timing"
    )
}

/// The text behind `program` of `\copy`.
fn program_of(rest: &str) -> Option<String> {
    let lower = rest.to_ascii_lowercase();
    lower.match_indices("program").find_map(|(at, word)| {
        let inner = rest[at + word.len()..].trim_start().strip_prefix('\'')?;
        Some(inner.rsplit_once('\'').map_or(inner, |(inner, _)| inner).replace("''", "'"))
    })
}

/// True when a literal is open at the end of a part of a line of SQL.
fn in_literal(before: &str) -> bool {
    has_open_quote(before) && !before.starts_with('\\')
}

fn has_open_quote(text: &str) -> bool {
    !text.matches('\'').count().is_multiple_of(2)
}

/// True when a part of a line is the beginning of a comment. A line may also begin within a literal or a comment of several
/// lines, which a quote, a dollar or `*/` ends.
fn in_comment(before: &str) -> bool {
    before.starts_with("--") && !before.contains(['\'', '"', '`', '$']) && !before.contains("*/")
}

#[cfg(test)]
mod tests {
    use super::*;

    fn told(source: &str) -> Vec<(Kind, String)> {
        commands(source).into_iter().map(|command| (command.kind, command.text)).collect()
    }

    #[test]
    fn every_abbreviation_of_a_dot_command_is_read() {
        for long in ["shell", "system"] {
            for end in 1..=long.len() {
                let line = format!(".{} S", &long[..end]);
                assert_eq!(told(&line), [(Kind::Shell, "S".to_owned())], "{line}");
            }
        }
        for long in ["output", "once", "import", "read"] {
            for end in 1..=long.len() {
                for rest in ["|S", "'|S'", "\"|S\"", "x \"|S\" t", "-e |S"] {
                    let line = format!(".{} {rest}", &long[..end]);
                    assert_eq!(told(&line), [(Kind::Shell, "S".to_owned())], "{line}");
                }
            }
        }
    }

    #[test]
    fn shells_of_clients_are_found() {
        for (line, want) in [
            (".shell \"\\162m\" x", "\"rm\" x"),
            ("\\! S", "S"),
            ("\\!S", "S"),
            ("select 1; \\! S", "S"),
            ("select 1 \\g |S", "S"),
            ("select 1 \\gx |S", "S"),
            ("\\o |S", "S"),
            ("\\out '|S'", "S"),
            ("\\w |S", "S"),
            ("\\copy t to program 'S'", "S"),
            ("\\copy t from PROGRAM 'S ''x''' csv", "S 'x'"),
            ("\\set x `S`", "S"),
            ("\\echo 'a' `S`", "S"),
            ("!!S", "S"),
            ("!! S", "S"),
            ("system s", "s"),
            ("SYSTEM rm x", "rm x"),
            ("\\P S x", "S x"),
            ("pager s", "s"),
            ("\\setenv PAGER 'S'", "S"),
            ("\\setenv PSQL_EDITOR S", "S"),
        ] {
            let all = told(line);
            assert!(matches!(all.as_slice(), [(_, text)] if text == want), "{line} {all:?}");
        }
    }

    #[test]
    fn ordinary_lines_start_no_shell() {
        for line in [
            ".tables",
            ".schema t",
            ".mode csv",
            ".import a.csv t",
            ".output a.txt",
            ".once 'a b.txt'",
            ".read a.sql",
            ".separator |",
            "\\d t",
            "\\dt+",
            "\\g",
            "\\gx",
            "select 1 \\g out.txt",
            "\\o out.txt",
            "\\copy t from 'a.csv' csv",
            "\\set x 1",
            "\\echo done",
            "select `a` from `t` \\G",
            "select 'a \\! b'",
            "SELECT a || b FROM t",
            "system = 1",
            "SYSTEM FLUSH LOGS;",
            "system_user varchar(20),",
            "\\setenv PGDATABASE x",
            "\\timing",
            "-- .x | y",
            "-- \\! id",
            "--\\o |id",
        ] {
            assert!(told(line).is_empty(), "{line} {:?}", told(line));
        }
        // The line begins within a literal or a comment that it ends.
        for line in ["select '\n' \\! id", "select '\n-- ' \\! id", "-- $$ \\! id", "-- */ \\! id"] {
            assert_eq!(told(line), [(Kind::Shell, "id".to_owned())], "{line}");
        }
        assert_eq!(told(".load ./x"), [(Kind::Load, "./x".to_owned())]);
    }
}
