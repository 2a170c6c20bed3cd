//! Parses psql's messages about a file: `psql:FILE:LINE: ERROR:  MESSAGE`, followed by the place in the
//! statement.

use super::{MAX_DIAGNOSTICS, split_place};
use hotcell_report::{Diagnostic, Severity};

/// Maximum size of a source in which places are searched, in bytes; below, how much is searched above the end
/// of a statement.
const MAX_SOURCE_BYTES: usize = 1 << 20;
const WINDOW_BYTES: usize = 64 << 10;

const LEVELS: [(&str, Severity); 10] = [
    ("ERROR:  ", Severity::Error),
    ("FATAL:  ", Severity::Error),
    ("PANIC:  ", Severity::Error),
    ("error: ", Severity::Error),
    ("fatal: ", Severity::Error),
    ("WARNING:  ", Severity::Warning),
    ("warning: ", Severity::Warning),
    ("NOTICE:  ", Severity::Note),
    ("INFO:  ", Severity::Note),
    ("LOG:  ", Severity::Note),
];

/// Parses psql's output, which may be mixed with the program's own. `source` is the file: psql reports the
/// line on which a statement ends.
pub fn read(printed: &str, source: &str) -> Vec<Diagnostic> {
    let source: Vec<&str> =
        if source.len() > MAX_SOURCE_BYTES { Vec::new() } else { source.lines().collect() };
    let mut rows: Vec<Diagnostic> = Vec::new();
    // Each message has at most one place.
    let mut placed = true;
    let mut lines = printed.lines().peekable();
    while let Some(line) = lines.next() {
        if let Some(row) = line.strip_prefix("psql:").and_then(row) {
            if rows.len() == MAX_DIAGNOSTICS {
                break;
            }
            rows.push(row);
            placed = false;
        } else if let Some((shown, last)) = snippet(line).zip(rows.last_mut()).filter(|_| !placed) {
            let caret = lines.peek().and_then(|below| below.strip_suffix('^'));
            let at = caret.filter(|before| before.trim().is_empty()).map(|before| before.chars().count());
            place(last, line, shown, at, &source);
            placed = true;
        }
    }
    rows
}

fn row(rest: &str) -> Option<Diagnostic> {
    let (file, line, rest) = match split_place(rest) {
        Some((file, rest)) if !file.starts_with(' ') => {
            let (number, rest) = rest.split_once(": ")?;
            (Some(file.to_owned()), Some(number.parse().ok()?), rest)
        }
        _ => (None, None, rest.trim_start()),
    };
    let (severity, message) =
        LEVELS.into_iter().find_map(|(word, severity)| Some((severity, rest.strip_prefix(word)?)))?;
    Some(Diagnostic { file, line, column: None, severity, code: None, message: message.to_owned() })
}

/// The statement's part of `LINE 2: PART`.
fn snippet(line: &str) -> Option<&str> {
    let (number, shown) = line.strip_prefix("LINE ")?.split_once(": ")?;
    number.parse::<u32>().ok().map(|_| shown)
}

/// Finds the quoted part of a statement: on the reported line, or the nearest above it. `caret` counts from
/// the start of the line that quotes it.
fn place(row: &mut Diagnostic, line: &str, shown: &str, caret: Option<usize>, source: &[&str]) {
    let Some(end) = row.line.filter(|end| *end > 0) else { return };
    // psql cuts both ends of a long line.
    let begun = shown.strip_prefix("...").unwrap_or(shown);
    let part = begun.strip_suffix("...").unwrap_or(begun);
    let before = line.chars().count() - begun.chars().count();
    if part.trim().is_empty() {
        return;
    }
    let lines = &source[..source.len().min(end as usize)];
    let mut room = WINDOW_BYTES;
    let near = lines.iter().enumerate().rev().take_while(|(_, text)| {
        let fits = room.checked_sub(text.len() + 1);
        room = fits.unwrap_or(0);
        fits.is_some()
    });
    // psql shows tabs as spaces.
    let mut near = near.map(|(index, text)| (index, text.replace('\t', " ")));
    let found =
        near.find_map(|(index, text)| text.find(part).map(|at| (index + 1, text[..at].chars().count())));
    let Some((number, left)) = found else { return };
    row.line = u32::try_from(number).ok();
    let column = caret.and_then(|caret| caret.checked_sub(before)).map(|at| left + at + 1);
    row.column = column.and_then(|column| u32::try_from(column).ok());
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn psql_errors_have_source_position() {
        use Severity::{Error, Note, Warning};
        let source = "select 1;\nselect a,\n\tb frm\n  t;\n\\nonsense\n";
        let long = format!("select {}frm t;", "x, ".repeat(40));
        for (printed, source, want) in [
            (
                "psql:/home/sandbox/main.sql:4: ERROR:  syntax error at or near \"t\"\nLINE 2:  b frm\n           ^\n",
                source,
                (Some(3), Some(4), Error, "syntax error at or near \"t\""),
            ),
            // The quoted part is not found: the end of the statement is used.
            ("psql:m.sql:4: ERROR:  no\nLINE 1: other\n        ^\n", source, (Some(4), None, Error, "no")),
            (
                "psql:m.sql:5: error: invalid command \\nonsense\n",
                source,
                (Some(5), None, Error, "invalid command \\nonsense"),
            ),
            (
                "psql:m.sql:1: ERROR:  syntax error at or near \"frm\"\nLINE 1: ... x, x, x, x, frm t;\n                        ^\n",
                long.as_str(),
                (Some(1), Some(128), Error, "syntax error at or near \"frm\""),
            ),
            ("psql:m.sql:1: NOTICE:  said\n", "", (Some(1), None, Note, "said")),
            ("psql:m.sql:1: WARNING:  so\n", "", (Some(1), None, Warning, "so")),
            (
                "psql: error: connection to server failed\n",
                "",
                (None, None, Error, "connection to server failed"),
            ),
        ] {
            let rows = read(printed, source);
            let got =
                rows.iter().map(|d| (d.line, d.column, d.severity, d.message.as_str())).collect::<Vec<_>>();
            assert_eq!(got, [want], "{printed}");
        }
        for nothing in ["ERROR:  x", "psql:x", "psql:a:b: ERROR:  x", "LINE 1: x\n ^", "psql:m.sql:1: else"] {
            assert!(read(nothing, "x").is_empty(), "{nothing}");
        }
    }

    #[test]
    fn forged_psql_output_is_parsed_in_bounded_time() {
        let source = "\n".repeat(MAX_SOURCE_BYTES);
        let printed = format!("psql:m.sql:4000000000: ERROR:  x\n{}", "LINE 1: q\n".repeat(100_000));
        assert_eq!(read(&printed, &source).len(), 1);
        let printed = "psql:m.sql:4000000000: ERROR:  x\nLINE 1: q\n".repeat(20_000);
        assert_eq!(read(&printed, &source).len(), MAX_DIAGNOSTICS);
        assert_eq!(
            read("psql:m.sql:1: ERROR:  x\nLINE 1: q\n", &"q".repeat(MAX_SOURCE_BYTES + 1))[0].column,
            None
        );
    }

    proptest::proptest! {
        #[test]
        fn arbitrary_psql_output_causes_no_panic(text in "(psql:|a|:|1|ERROR:  |LINE 1: |\\.\\.\\.|\\^|é|\t| |\n){0,60}", source in "[a é\t\n]{0,40}") {
            let _ = read(&text, &source);
        }
    }
}
