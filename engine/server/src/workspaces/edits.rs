//! Replaces pieces of text in files. Pure.

use std::collections::HashSet;

use hotcell_state::report::{Code, ErrorReport, printable};

/// Maximum number of lines listed when a text occurs several times.
const MAX_LISTED_LINES: usize = 5;
/// Maximum number of occurrences counted when exactly one is required.
const MAX_OCCURRENCES: usize = 100;
/// Maximum number of characters shown of a line.
const MAX_LINE_CHARS: usize = 160;

/// A text to find in a file, and its replacement.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Edit {
    /// Path of the file in the workspace.
    pub path: String,
    /// Text to find.
    pub old: String,
    /// Replacement.
    pub new: String,
    /// Replace all occurrences; otherwise there must be exactly one.
    pub all: bool,
}

/// Applies an edit to a text, and returns the new text, at most `most` bytes long, and the number of
/// replacements. `at` is the edit's index in the call.
///
/// # Errors
/// A report when the text does not occur, occurs several times, or the result is too long.
pub fn edited(text: &str, edit: &Edit, at: usize, most: u64) -> Result<(String, usize), ErrorReport> {
    let field = format!("edits[{at}].old");
    let path = printable(&edit.path);
    let wrong = |why: String| Err(ErrorReport::new(Code::InvalidValue, why).field(field.clone()));
    if edit.old.is_empty() {
        let why = format!(
            "{field} is empty; wanted is the text that stands in {path}. workspace_write makes a new file"
        );
        return wrong(why);
    }
    if edit.old == edit.new {
        return wrong(format!("{field} and new are the same: nothing would change"));
    }
    let places = places(text, &edit.old);
    let count = if edit.all { text.matches(edit.old.as_str()).count() } else { 1 };
    let grown = (edit.new.len().saturating_sub(edit.old.len()) as u64).saturating_mul(count as u64);
    let bytes = grown.saturating_add(text.len() as u64);
    if bytes > most {
        return wrong(format!(
            "{path} would have up to {bytes} bytes; allowed is at most {most}. Nothing was changed"
        ));
    }
    match places.len() {
        0 => wrong(not_there(text, edit, &field, &path)),
        _ if edit.all => Ok((text.replace(&edit.old, &edit.new), count)),
        1 => Ok((text.replacen(&edit.old, &edit.new, 1), 1)),
        several => {
            let lines: Vec<_> =
                places.iter().take(MAX_LISTED_LINES).map(|place| line_of(text, *place).to_string()).collect();
            let more = if several > MAX_LISTED_LINES { " and further" } else { "" };
            let several = if several == MAX_OCCURRENCES {
                format!("at least {MAX_OCCURRENCES}")
            } else {
                several.to_string()
            };
            wrong(format!(
                "{field} stands {several} times in {path}, in lines {}{more}; give more of what is around the one \
                 that you mean, or all: true. Nothing was changed",
                lines.join(", ")
            ))
        }
    }
}

/// The first occurrences of a text in another, including overlapping ones.
fn places(text: &str, old: &str) -> Vec<usize> {
    let mut found = Vec::new();
    let mut from = 0;
    while let Some(at) = text[from..].find(old).filter(|_| found.len() < MAX_OCCURRENCES) {
        found.push(from + at);
        let next = text[from + at..].chars().next().map_or(1, char::len_utf8);
        from += at + next;
    }
    found
}

fn line_of(text: &str, place: usize) -> usize {
    text[..place].matches('\n').count() + 1
}

fn not_there(text: &str, edit: &Edit, field: &str, path: &str) -> String {
    let no = format!("{field} is not in {path}; nothing was changed");
    if text.contains("\r\n") && !edit.old.contains('\r') && text.replace("\r\n", "\n").contains(&edit.old) {
        return format!("{no}. Lines of {path} end with \\r\\n, and those of {field} do not");
    }
    let wanted = edit.old.lines().find(|line| !line.trim().is_empty()).unwrap_or_default();
    match nearest_line(text, wanted) {
        Some((number, line)) => {
            let line: String = line.chars().take(MAX_LINE_CHARS).collect();
            // The file's own text is on a separate line, so that front ends can set it apart.
            format!(
                "{no}. It has to be the very text, with its spaces; line {number} is nearest to its first line:\n{line}"
            )
        }
        None => format!("{no}. No line of it is like its first line; workspace_read shows the file"),
    }
}

/// The line most similar to a text, compared by pieces of three characters.
fn nearest_line<'a>(text: &'a str, wanted: &str) -> Option<(usize, &'a str)> {
    let pieces = |line: &str| -> HashSet<[char; 3]> {
        let plain: Vec<char> = line.chars().filter(|c| !c.is_whitespace()).take(400).collect();
        plain.windows(3).map(|w| [w[0], w[1], w[2]]).collect()
    };
    let wanted = pieces(wanted);
    let mut best: Option<(f64, usize, &str)> = None;
    for (at, line) in text.lines().enumerate() {
        let own = pieces(line);
        let common = own.intersection(&wanted).count();
        #[allow(clippy::cast_precision_loss)] // at most 400 each
        let alike = 2.0 * common as f64 / (own.len() + wanted.len()).max(1) as f64;
        if alike > best.map_or(0.3, |(best, ..)| best) {
            best = Some((alike, at + 1, line));
        }
    }
    best.map(|(_, number, line)| (number, line))
}

#[cfg(test)]
mod tests {
    use super::*;

    fn edit(old: &str, new: &str, all: bool) -> Edit {
        Edit { path: "a.py".to_owned(), old: old.to_owned(), new: new.to_owned(), all }
    }

    #[test]
    fn exactly_one_place_is_replaced_or_all() {
        let text = "def f(x):\n    return x\n\ndef g(x):\n    return x\n";
        for (old, new, all, want) in [
            (
                "def f(x):\n    return x",
                "def f(x):\n    return 1",
                false,
                Ok(("def f(x):\n    return 1\n\ndef g(x):\n    return x\n", 1)),
            ),
            ("return x", "return y", true, Ok(("def f(x):\n    return y\n\ndef g(x):\n    return y\n", 2))),
            ("def g(x):\n    return x\n", "", false, Ok(("def f(x):\n    return x\n\n", 1))),
            ("return x", "return y", false, Err("stands 2 times in a.py, in lines 2, 5")),
            ("def f(y):", "", false, Err("line 1 is nearest to its first line:\ndef f(x):")),
            ("class Elephant", "", false, Err("No line of it is like")),
            ("", "x", false, Err("is empty")),
            ("return x", "return x", true, Err("nothing would change")),
        ] {
            let got = edited(text, &edit(old, new, all), 0, 1 << 20);
            match want {
                Ok((text, count)) => assert_eq!(got, Ok((text.to_owned(), count)), "{old:?}"),
                Err(word) => {
                    let report = got.unwrap_err();
                    assert!(
                        report.message.contains(word) && report.field.as_deref() == Some("edits[0].old"),
                        "{report}"
                    );
                }
            }
        }
        // Overlapping occurrences are ambiguous.
        assert!(edited("aaa", &edit("aa", "b", false), 0, 1 << 20).unwrap_err().message.contains("2 times"));
        let large = edited("a", &edit("a", "bbbb", false), 0, 3).unwrap_err();
        assert!(large.message.contains("allowed is at most 3"), "{large}");
        let ends = edited("a\r\nb\r\n", &edit("a\nb", "c", false), 3, 1 << 20).unwrap_err();
        assert!(ends.message.contains("end with \\r\\n"), "{ends}");
    }

    proptest::proptest! {
        #[test]
        fn edit_preserves_surrounding_text(before in "[ab\u{e4}\n]{0,20}", old in "[ab\u{e4}\n]{1,6}", after in "[ab\u{e4}\n]{0,20}", new in "[xy]{0,4}") {
            let text = format!("{before}{old}{after}");
            match edited(&text, &edit(&old, &new, false), 0, 1 << 20) {
                Ok((got, 1)) => {
                    proptest::prop_assert_eq!(got, format!("{before}{new}{after}"));
                }
                Ok(_) => proptest::prop_assert!(false),
                Err(_) => proptest::prop_assert!(places(&text, &old).len() > 1),
            }
        }
    }
}
