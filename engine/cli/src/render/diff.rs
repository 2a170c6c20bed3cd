//! A diff for people, in which every character is visible. A part with only visible characters is left
//! unchanged, for `git apply`. In any other part the invisible characters are written as `\u{…}`, and all of its
//! lines are comments, so that `git apply` leaves it out instead of taking the escapes for the file's text.

use std::io::{self, IsTerminal, Write};

use hotcell_sandbox::text::{is_shown, printable_line};

use crate::terminal::{notes, screen};

/// Beginning of a part.
const PART: &str = "diff --git ";

/// Prints a diff, in colour on a terminal.
pub fn print(diff: &str) -> io::Result<()> {
    let mut out = io::BufWriter::new(io::stdout().lock());
    if !io::stdout().is_terminal() {
        out.write_all(text(diff).as_bytes())?;
        return out.flush();
    }
    let colour = notes::colour();
    out.write_all(screen::begin_line_on(&io::stdout()).as_bytes())?;
    for line in diff.split_terminator('\n') {
        let line_colour = match line.as_bytes().first() {
            Some(b'+') => "32",
            Some(b'-') => "31",
            Some(b'@') => "36",
            Some(b'd') => "1",
            _ => "0",
        };
        let line = printable_line(line);
        if colour { writeln!(out, "\x1b[{line_colour}m{line}\x1b[0m")? } else { writeln!(out, "{line}")? }
    }
    out.flush()
}

/// The diff for a file or a pipe. Pure.
fn text(diff: &str) -> String {
    if diff.lines().all(is_plain) {
        return diff.to_owned();
    }
    let mut text = String::with_capacity(diff.len());
    for part in parts(diff) {
        if part.lines().all(is_plain) {
            text.push_str(part);
            continue;
        }
        text.push_str("# characters that cannot be seen stand as \\u{..}; git apply leaves this part out, and takes the diff of --json\n");
        for line in part.split_terminator('\n') {
            let bar = if line.starts_with('#') { "" } else { "# " };
            text.push_str(&format!("{bar}{}\n", printable_line(line)));
        }
    }
    text
}

/// Names of the files whose parts are comments in the text for a file or a pipe, as the diff has them. Pure.
pub fn comments(diff: &str) -> Vec<&str> {
    let all = parts(diff).filter_map(|part| {
        let head = part.lines().next()?;
        let bare = head.strip_prefix("# ").unwrap_or(head).strip_prefix(PART)?;
        let is_comment = head.starts_with('#') || !part.lines().all(is_plain);
        // Both names are equally long: they differ in their prefix alone.
        bare.get(bare.len() / 2 + 1..).filter(|_| is_comment)
    });
    all.collect()
}

/// Whether every character of a line is visible; tabs, and a carriage return at its end, are allowed in a
/// text file.
fn is_plain(line: &str) -> bool {
    line.trim_end_matches('\r').chars().all(|c| c == '\t' || is_shown(c))
}

/// Splits a diff into parts that begin with a file's header. No line of a file's contents begins like that in
/// a diff.
fn parts(diff: &str) -> impl Iterator<Item = &str> {
    let mut rest = diff;
    std::iter::from_fn(move || {
        let after = rest.find('\n').map_or(rest.len(), |at| at + 1);
        let end = rest[after..].match_indices(PART).map(|(at, _)| after + at);
        // The header of a part that is not text stands behind `# `.
        let begins = |at: usize| {
            let head = rest[..at].strip_suffix("# ").unwrap_or(&rest[..at]);
            head.ends_with('\n').then_some(head.len())
        };
        let end = end.into_iter().find_map(begins).unwrap_or(rest.len());
        let (part, more) = rest.split_at(end);
        rest = more;
        (!part.is_empty()).then_some(part)
    })
}

#[cfg(test)]
mod tests {
    use super::*;

    const PLAIN: &str = "diff --git a/a b/a\n--- a/a\n+++ b/a\n@@ -1 +1 @@\n-\tx\r\n+diff --git \u{e9}\r\n";

    #[test]
    fn visible_diff_is_unchanged() {
        assert_eq!(text(PLAIN), PLAIN);
        assert_eq!(parts(&PLAIN.repeat(3)).collect::<Vec<_>>(), [PLAIN; 3]);
    }

    #[test]
    fn parts_that_are_comments_are_named() {
        let odd = "diff --git a/x y b/x y\n--- a/x y\n+++ b/x y\n@@ -1 +1 @@\n-x\n+\u{1b}\n";
        let binary = "# diff --git \"a/\\t\" \"b/\\t\"\n# Binary files differ\n";
        assert_eq!(comments(&format!("{PLAIN}{odd}{PLAIN}{binary}{PLAIN}")), ["b/x y", "\"b/\\t\""]);
        assert_eq!(comments(PLAIN), [""; 0]);
    }

    #[test]
    fn diff_with_invisible_characters_is_escaped_and_inapplicable() {
        for odd in ['\u{202e}', '\u{3164}', '\u{200b}', '\u{1b}', '\u{8}', '\u{feff}', '\u{2028}'] {
            let part = format!("diff --git a/b b/b\n--- a/b\n+++ b/b\n@@ -1 +1 @@\n-x\n+a\t{odd}b\n# note\n");
            let shown = text(&format!("{PLAIN}{part}{PLAIN}"));
            let code = u32::from(odd);
            let want = format!(
                "# diff --git a/b b/b\n# --- a/b\n# +++ b/b\n# @@ -1 +1 @@\n# -x\n# +a\t\\u{{{code:x}}}b\n# note\n{PLAIN}"
            );
            assert!(shown.starts_with(PLAIN) && shown.ends_with(&want), "{shown}");
        }
        // Carriage returns at line ends are part of the change, and are visible in a part with escapes.
        let ends = text("diff --git a/b b/b\n@@ -1 +1 @@\n-x\u{200b}\n+x\u{200b}\r\n+y\r\n");
        assert!(ends.ends_with("# -x\\u{200b}\n# +x\\u{200b}\\r\n# +y\\r\n"), "{ends}");
        // A part that is not text begins a part of its own.
        let odd = "# diff --git a/o b/o\n# Binary files a/o and b/o differ\n# | \u{200b}\n";
        assert!(text(&format!("{PLAIN}{odd}{PLAIN}")).starts_with(PLAIN));
        assert_eq!(parts(&format!("{PLAIN}{odd}{PLAIN}")).collect::<Vec<_>>(), [PLAIN, odd, PLAIN]);
        // A carriage return within a line would hide the text before it.
        assert!(text("diff --git a/b b/b\n@@ -1 +1 @@\n+evil\rgood\n").contains("+evil\\rgood"));
    }
}
