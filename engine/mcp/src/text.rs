//! Shortens the output of programs for a model: beginning and end, measured in characters of JSON. Pure.

use std::borrow::Cow;

use base64::Engine as _;
use hotcell_sandbox::text::{MAX_MARKS, counted, is_mark, is_shown};
use hotcell_server::{Run, Stream};
use serde_json::{Map, Value, json};

use crate::parameters::in_arguments;

/// Maximum size of the beginning of binary output, in bytes.
const MAX_BINARY_BYTES: usize = 1024;

/// Cost of each character of a text, with its offset: in a JSON text, or behind a bar, where what is not seen is
/// escaped; the larger one.
fn costs(text: &str) -> impl Iterator<Item = (usize, usize)> {
    let mut marks = MAX_MARKS;
    text.char_indices().map(move |(at, c)| {
        let mark = is_mark(c);
        let cost = match c {
            '"' | '\\' | '\n' | '\r' | '\t' => 2,
            c if c.is_ascii_control() => 6,
            c if !is_shown(c) || mark && marks >= MAX_MARKS => c.escape_unicode().count(),
            _ => 1,
        };
        // A mark that has no character before it is escaped, too.
        marks = match c {
            '\n' | '\r' | '\t' => MAX_MARKS,
            _ if mark => marks + 1,
            c if is_shown(c) => 0,
            _ => MAX_MARKS,
        };
        (at, cost)
    })
}

/// Length in bytes of the longest beginning of `text` that costs at most `budget`.
pub(crate) fn beginning(text: &str, budget: usize) -> usize {
    let mut left = budget;
    for (at, cost) in costs(text) {
        match left.checked_sub(cost) {
            Some(rest) => left = rest,
            None => return at,
        }
    }
    text.len()
}

/// Length in bytes of the longest end of `text` that costs at most `budget`.
pub(crate) fn end(text: &str, budget: usize) -> usize {
    let mut left = budget;
    let mut from = text.len();
    for (at, cost) in costs(text).collect::<Vec<_>>().into_iter().rev() {
        match left.checked_sub(cost) {
            Some(rest) => (left, from) = (rest, at),
            None => break,
        }
    }
    text.len() - from
}

/// The longest beginning in UTF-8, if only a cut character at the end is dropped.
pub(crate) fn utf8_beginning(bytes: &[u8]) -> Option<&str> {
    match std::str::from_utf8(bytes) {
        Ok(text) => Some(text),
        Err(e) if e.error_len().is_none() => std::str::from_utf8(&bytes[..e.valid_up_to()]).ok(),
        Err(_) => None,
    }
}

/// Number of bytes of a character that is cut at the end.
fn cut_character(bytes: &[u8]) -> usize {
    match bytes.utf8_chunks().last().map(|chunk| chunk.invalid()) {
        Some(cut) if std::str::from_utf8(cut).is_err_and(|e| e.error_len().is_none()) => cut.len(),
        _ => 0,
    }
}

/// The largest share of bytes that are not UTF-8 in what is shown as text: one in this many.
const MIN_BYTES_FOR_ONE_REPLACED: usize = 4;

/// Tells if output is binary: it has a NUL, or a quarter of its bytes are not UTF-8.
fn is_binary(bytes: &[u8]) -> bool {
    let replaced: usize = bytes.utf8_chunks().map(|chunk| chunk.invalid().len()).sum();
    bytes.contains(&0) || replaced * MIN_BYTES_FOR_ONE_REPLACED > bytes.len()
}

/// Bytes of which the first `length` bytes of the text were made that has U+FFFD in place of what is not UTF-8.
fn bytes_of(bytes: &[u8], length: usize) -> usize {
    let (mut text, mut read) = (0, 0);
    for chunk in bytes.utf8_chunks() {
        let valid = chunk.valid().len().min(length - text);
        (text, read) = (text + valid, read + valid);
        if text == length {
            break;
        }
        (text, read) = (text + char::REPLACEMENT_CHARACTER.len_utf8(), read + chunk.invalid().len());
        if text >= length {
            break;
        }
    }
    read
}

/// A stream as shown in an answer.
#[derive(Clone, Debug, PartialEq)]
pub struct Shown {
    /// Total size of the output in bytes.
    pub bytes: u64,
    /// The beginning, or everything.
    pub text: String,
    /// The end, where the middle is left out.
    pub tail: String,
    /// The part that is left out: offset and length in bytes.
    pub omitted: Option<(u64, u64)>,
    /// The beginning of binary output.
    pub base64: Option<String>,
    /// Bytes that are not UTF-8 are replaced by U+FFFD in the text.
    pub replaced: bool,
}

impl Shown {
    /// Shortens a stream of which the beginning and the end are known.
    #[must_use]
    pub fn new(head: &[u8], tail: &[u8], bytes: u64, budget: usize) -> Self {
        if is_binary(head) || is_binary(tail) {
            let shown = &head[..head.len().min(MAX_BINARY_BYTES).min(budget / 2)];
            let rest = bytes - shown.len() as u64;
            return Self {
                bytes,
                text: String::new(),
                tail: String::new(),
                omitted: (rest > 0).then_some((shown.len() as u64, rest)),
                base64: Some(base64::engine::general_purpose::STANDARD.encode(shown)),
                replaced: false,
            };
        }
        // A character that is cut at the outer ends does not come from the program.
        let is_whole = head.len() as u64 == bytes;
        let head = if is_whole { head } else { &head[..head.len() - cut_character(head)] };
        let tail = &tail[tail.iter().take(3).take_while(|b| **b & 0xc0 == 0x80).count()..];
        let (first, last) = (String::from_utf8_lossy(head), String::from_utf8_lossy(tail));
        let replaced = matches!(first, Cow::Owned(_)) || matches!(last, Cow::Owned(_));
        // Everything, if it fits.
        if is_whole && beginning(&first, budget) == first.len() {
            return Self {
                bytes,
                text: first.into_owned(),
                tail: String::new(),
                omitted: None,
                base64: None,
                replaced,
            };
        }
        let text = &first[..beginning(&first, budget / 2)];
        let begun = bytes_of(head, text.len()) as u64;
        // Both parts must not overlap.
        let room = usize::try_from(bytes - begun).unwrap_or(usize::MAX);
        let ended = |from: usize| tail.len() - bytes_of(tail, from);
        let mut from = last.len() - end(&last, budget / 2);
        while from < last.len() && (!last.is_char_boundary(from) || ended(from) > room) {
            from += 1;
        }
        let omitted = bytes - begun - ended(from) as u64;
        Self {
            bytes,
            text: text.to_owned(),
            tail: last[from..].to_owned(),
            omitted: (omitted > 0).then_some((begun, omitted)),
            base64: None,
            replaced,
        }
    }

    /// Shortens a run's stream.
    #[must_use]
    pub fn of(run: &Run, stream: Stream, budget: usize) -> Self {
        // A character of the budget has at most four bytes.
        let head = run.read(stream, 0, budget * 4);
        let tail = run.last(stream, budget * 2);
        let [out, err] = run.state().printed;
        Self::new(&head.bytes, &tail.bytes, if stream == Stream::Stdout { out } else { err }, budget)
    }

    /// Converts to the form of the outcome's fields `stdout` and `stderr`.
    #[must_use]
    pub fn to_json(&self, uri: &str) -> Value {
        let mut fields = Map::new();
        match &self.base64 {
            Some(base64) => fields.insert("base64".into(), json!(base64)),
            None => fields.insert("text".into(), json!(self.text)),
        };
        fields.insert("bytes".into(), json!(self.bytes));
        fields.insert("truncated".into(), json!(self.omitted.is_some()));
        if let Some((offset, bytes)) = self.omitted {
            if !self.tail.is_empty() {
                fields.insert("tail".into(), json!(self.tail));
            }
            fields.insert("omitted".into(), json!({ "offset": offset, "bytes": bytes }));
            fields.insert("uri".into(), json!(uri));
        }
        Value::Object(fields)
    }

    /// Formats lines that cannot be confused with hotcell's own: each begins with a bar.
    #[must_use]
    pub fn to_lines(&self, name: &str) -> String {
        if self.bytes == 0 {
            return String::new();
        }
        let mut lines = format!("{name}, {}:\n", counted(self.bytes, "byte"));
        if self.base64.is_some() {
            lines.push_str("(not text; run_output reads it)\n");
        }
        if self.replaced {
            lines.push_str("(bytes that are not UTF-8 stand as \u{fffd} here)\n");
        }
        lines.push_str(&barred(&self.text));
        if let Some((_, bytes)) = self.omitted {
            lines.push_str(&format!("({bytes} bytes are left out; run_output reads them)\n"));
            lines.push_str(&barred(&self.tail));
        }
        lines
    }
}

/// Maximum length of a line in an excerpt, in characters.
const MAX_LINE_CHARS: usize = 400;

/// Shortens a text to a budget of characters: its beginning, its end, and the lines selected by `matters`,
/// wherever they are. Omitted lines are counted.
#[must_use]
pub(crate) fn excerpt(text: &str, budget: usize, matters: impl Fn(&str) -> bool) -> String {
    let text = text.trim_end();
    if text.chars().count() <= budget {
        return text.to_owned();
    }
    let lines: Vec<String> =
        text.lines().map(|line| shortened(line, MAX_LINE_CHARS.min(budget / 2).max(20))).collect();
    let cost = |at: usize| lines[at].chars().count() + 1;
    // Cost of the line that marks a gap.
    const GAP_CHARS: usize = 24;
    let mut kept = vec![false; lines.len()];
    let mut left = budget;
    let mut take = |at: usize, kept: &mut Vec<bool>, most: usize| -> bool {
        if kept[at] {
            return true;
        }
        let price = cost(at) + if at > 0 && !kept[at - 1] { GAP_CHARS } else { 0 };
        if price > left || left - price < most {
            return false;
        }
        left -= price;
        kept[at] = true;
        true
    };
    // The last line first, then selected lines from the end, since these may be the whole text.
    take(lines.len() - 1, &mut kept, 0);
    for at in (0..lines.len()).rev().filter(|at| matters(&lines[*at])) {
        if !take(at, &mut kept, budget / 4) {
            break;
        }
    }
    for at in (0..lines.len()).filter(|at| matters(&lines[*at])) {
        if !take(at, &mut kept, budget / 4) {
            break;
        }
    }
    // Then both ends, two lines of the end for each of the beginning.
    let (mut first, mut last) = (0, lines.len());
    let (mut more_first, mut more_last) = (true, true);
    while (more_first || more_last) && first < last {
        for _ in 0..2 {
            if more_last && last > first {
                more_last = take(last - 1, &mut kept, 0);
                last -= usize::from(more_last);
            }
        }
        if more_first && first < last {
            more_first = take(first, &mut kept, 0);
            first += usize::from(more_first);
        }
    }
    let mut shown = String::new();
    let mut gap = 0;
    for (line, kept) in lines.iter().zip(kept) {
        if kept {
            if gap > 0 {
                shown.push_str(&format!("… {gap} lines …\n"));
                gap = 0;
            }
            shown.push_str(line);
            shown.push('\n');
        } else {
            gap += 1;
        }
    }
    shown.truncate(shown.trim_end().len());
    shown
}

/// Beginning and end of a line.
fn shortened(line: &str, most: usize) -> String {
    let count = line.chars().count();
    if count <= most {
        return line.to_owned();
    }
    let head: String = line.chars().take(most / 2).collect();
    let tail: String = line.chars().skip(count - (most / 2).saturating_sub(1)).collect();
    format!("{head}…{tail}")
}

/// A text with a bar before each line.
pub(crate) fn barred(text: &str) -> String {
    hotcell_state::report::barred(text, "| ")
}

/// Characters of a reason or an error; of a word in a reason, such as a path; and of one in an error, which is most
/// often a caller's own that is told back.
const MAX_ERROR_CHARS: usize = 8_000;
const MAX_WORD_CHARS: usize = 400;
const MAX_ECHO_CHARS: usize = 160;

/// The words of a reason, bounded.
pub(crate) fn bounded(text: &str) -> String {
    with_words_of(text, MAX_WORD_CHARS)
}

/// The words of an error, bounded: a megabyte that was sent as a name is not sent back.
pub(crate) fn told_back(text: &str) -> String {
    with_words_of(text, MAX_ECHO_CHARS)
}

fn with_words_of(text: &str, most: usize) -> String {
    let text = in_arguments(text);
    let words = text.split_inclusive(char::is_whitespace);
    let words: String = words.map(|word| without_middle(word, most)).collect();
    without_middle(&words, MAX_ERROR_CHARS)
}

fn without_middle(text: &str, most: usize) -> String {
    let count = text.chars().count();
    if count <= most {
        return text.to_owned();
    }
    let at = |number: usize| text.char_indices().nth(number).map_or(text.len(), |(at, _)| at);
    let (head, tail) = (most / 2, count - most / 4);
    format!("{}… {} characters …{}", &text[..at(head)], tail - head, &text[at(tail)..])
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn shown_output_is_complete_or_has_both_ends() {
        let whole = Shown::new(b"a\nb", b"a\nb", 3, 4);
        assert_eq!((whole.text.as_str(), whole.omitted), ("a\nb", None));
        let cut = Shown::new(b"0123456789", b"0123456789", 10, 6);
        assert_eq!((cut.text.as_str(), cut.tail.as_str(), cut.omitted), ("012", "789", Some((3, 4))));
        let far = Shown::new(b"012345", b"abcdef", 1000, 4);
        assert_eq!((far.text.as_str(), far.tail.as_str(), far.omitted), ("01", "ef", Some((2, 996))));
        let binary = Shown::new(b"\xff\xfe", b"\xff\xfe", 2, 100);
        assert_eq!((binary.base64.as_deref(), binary.omitted), (Some("//4="), None));
        let none = Shown::new(b"ab\0c", b"ab\0c", 4, 100);
        assert!(none.base64.is_some() && none.text.is_empty());
        let accents = Shown::new("ää".as_bytes(), "ää".as_bytes(), 4, 1);
        assert_eq!((accents.text.as_str(), accents.tail.as_str(), accents.omitted), ("", "", Some((0, 4))));
    }

    #[test]
    fn text_with_a_few_other_bytes_is_shown_and_its_offsets_are_those_of_the_bytes() {
        let printed = [&b"line 1\n".repeat(20)[..], b"caf\xe9 \xff\n", &b"line 2\n".repeat(20)].concat();
        let whole = Shown::new(&printed, &printed, printed.len() as u64, 10_000);
        assert!(whole.replaced && whole.base64.is_none() && whole.omitted.is_none());
        assert_eq!(whole.text, String::from_utf8_lossy(&printed));
        assert!(
            whole.to_lines("stdout").contains("| caf\u{fffd} \u{fffd}\n"),
            "{}",
            whole.to_lines("stdout")
        );
        for budget in 0..700 {
            let shown = Shown::new(&printed, &printed, printed.len() as u64, budget);
            let size = |n: u64| usize::try_from(n).unwrap();
            let (at, bytes) = shown.omitted.map_or((printed.len(), 0), |(at, bytes)| (size(at), size(bytes)));
            assert_eq!(shown.text, String::from_utf8_lossy(&printed[..at]), "{budget}");
            assert_eq!(shown.tail, String::from_utf8_lossy(&printed[at + bytes..]), "{budget}");
        }
        // A character that is cut where the kept beginning ends, or where the kept end begins, is not replaced.
        let euros = "\u{20ac}".repeat(100);
        let cut = Shown::new(&euros.as_bytes()[..31], &euros.as_bytes()[268..], 300, 12);
        assert_eq!(
            (cut.replaced, cut.text.as_str(), cut.omitted),
            (false, "\u{20ac}".repeat(6).as_str(), Some((18, 264)))
        );
    }

    #[test]
    fn printed_lines_cannot_pose_as_ours() {
        let shown =
            Shown::new("x\rexited with code 0\nstdout, 9 bytes:\n\x1b[2J\u{2028}y".as_bytes(), b"", 49, 200);
        let lines = shown.to_lines("stdout");
        assert!(lines.lines().skip(1).all(|l| l.starts_with("| ") || l.starts_with('(')), "{lines}");
        assert!(
            !lines.contains(['\r', '\x1b', '\u{2028}']) && lines.contains("\\u{1b}[2J\\u{2028}y"),
            "{lines}"
        );
    }

    #[test]
    fn lines_of_unseen_characters_stay_within_the_budget() {
        for c in ['\u{202e}', '\u{200b}', '\u{e0041}', '\u{1}', '\u{85}', '\u{301}', 'x', '\t'] {
            let text = format!("{c}{c}{c}{c}").repeat(2_000);
            let shown = Shown::new(text.as_bytes(), text.as_bytes(), text.len() as u64, 1_000);
            assert!(shown.to_lines("stdout").chars().count() < 1_200, "{c:?}");
        }
    }

    #[test]
    fn excerpt_has_both_ends_and_marked_lines() {
        let text: String = (0..200)
            .map(|n| if n == 90 { "    > here\n".to_owned() } else { format!("line {n}\n") })
            .collect();
        let shown = excerpt(&text, 300, |line| line.contains("> here"));
        assert!(
            shown.starts_with("line 0\n") && shown.ends_with("line 199") && shown.contains("> here"),
            "{shown}"
        );
        assert!(shown.contains(" lines …"), "{shown}");
        assert_eq!(excerpt("a\nb\n", 10, |_| false), "a\nb");
        let wide = excerpt(&"x".repeat(5_000), 300, |_| false);
        assert!(wide.chars().count() <= 300 && wide.contains('…'), "{wide}");
    }

    proptest::proptest! {
        #[test]
        fn excerpt_stays_within_budget_with_last_line(lines in proptest::collection::vec("[a-z !]{0,60}", 1..60), budget in 100usize..900, at in proptest::prelude::any::<proptest::sample::Index>()) {
            let text = lines.join("\n");
            let shown = excerpt(&text, budget, |line| line.contains('!'));
            proptest::prop_assert!(shown.chars().count() <= budget + 24, "{}", shown.chars().count());
            let _ = at;
            if let Some(last) = text.trim_end().lines().last() {
                let end: String = last.trim_end().chars().rev().take(5).collect::<String>().chars().rev().collect();
                proptest::prop_assert!(shown.trim_end().ends_with(end.trim_end()), "{shown:?} {last:?}");
            }
        }

        #[test]
        fn shown_output_stays_within_budget(text in "\\PC{0,60}|[\n\u{1}ab\u{e4}]{0,60}", budget in 0usize..80) {
            let bytes = text.as_bytes();
            let shown = Shown::new(bytes, bytes, bytes.len() as u64, budget);
            let cost = |t: &str| serde_json::to_string(t).unwrap().chars().count() - 2;
            proptest::prop_assert!(cost(&shown.text) + cost(&shown.tail) <= budget.max(1));
            let omitted = shown.omitted.map_or(0, |(_, n)| n);
            proptest::prop_assert_eq!(shown.text.len() as u64 + shown.tail.len() as u64 + omitted, shown.bytes);
            proptest::prop_assert!(text.starts_with(&shown.text) && text.ends_with(&shown.tail));
        }
    }

    #[test]
    fn echoed_error_text_is_bounded() {
        let name = "ä".repeat(300_000);
        let told = told_back(&format!("there is no image {name:?}; leave it out"));
        assert!(told.chars().count() < 200 && told.starts_with("there is no image \"ä"), "{told}");
        assert!(told.ends_with("ä\"; leave it out") && told.contains("… 299884 characters …"), "{told}");
        assert_eq!(bounded(&"b".repeat(MAX_WORD_CHARS)).len(), MAX_WORD_CHARS);
        let told = bounded(&"a ".repeat(100_000));
        assert!(told.chars().count() < MAX_ERROR_CHARS, "{}", told.len());
        for same in ["", "short", "one\n| two\t three", &"b".repeat(MAX_ECHO_CHARS)] {
            assert_eq!((bounded(same).as_str(), told_back(same).as_str()), (same, same));
        }
    }
}
