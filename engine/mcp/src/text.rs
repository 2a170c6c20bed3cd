//! What programs printed, shortened for a model: beginning and end, counted in characters of JSON. Pure.

use base64::Engine as _;
use hotcell_service::live::{Run, Stream};
use hotcell_service::report::printable;
use serde_json::{Map, Value, json};

/// The longest binary beginning that is shown, in bytes.
const BINARY: usize = 1024;

/// What a character costs in a JSON text.
fn cost(c: char) -> usize {
    match c {
        '"' | '\\' | '\n' | '\r' | '\t' => 2,
        c if c.is_control() => 6,
        _ => 1,
    }
}

/// Bytes of the longest beginning of `text` that costs at most `budget`.
pub(crate) fn beginning(text: &str, budget: usize) -> usize {
    let mut left = budget;
    for (at, c) in text.char_indices() {
        match left.checked_sub(cost(c)) {
            Some(rest) => left = rest,
            None => return at,
        }
    }
    text.len()
}

/// Bytes of the longest end of `text` that costs at most `budget`.
fn end(text: &str, budget: usize) -> usize {
    let mut left = budget;
    for (at, c) in text.char_indices().rev() {
        match left.checked_sub(cost(c)) {
            Some(rest) => left = rest,
            None => return text.len() - at - c.len_utf8(),
        }
    }
    text.len()
}

/// The longest prefix that is UTF-8, when no more than a cut character is missing.
pub(crate) fn utf8_beginning(bytes: &[u8]) -> Option<&str> {
    match std::str::from_utf8(bytes) {
        Ok(text) => Some(text),
        Err(e) if e.error_len().is_none() => std::str::from_utf8(&bytes[..e.valid_up_to()]).ok(),
        Err(_) => None,
    }
}

/// The longest end that is UTF-8, when no more than a cut character is missing.
fn utf8_end(bytes: &[u8]) -> Option<&str> {
    let cut = bytes.iter().take(3).take_while(|b| **b & 0xc0 == 0x80).count();
    std::str::from_utf8(&bytes[cut..]).ok()
}

/// A stream as it stands in an answer.
#[derive(Clone, Debug, PartialEq)]
pub struct Shown {
    /// All that was printed.
    pub bytes: u64,
    /// The beginning, or everything.
    pub text: String,
    /// The end, where something is left out between.
    pub tail: String,
    /// What is left out: from here, that many bytes.
    pub omitted: Option<(u64, u64)>,
    /// The beginning of what is not text.
    pub base64: Option<String>,
}

impl Shown {
    /// From a stream of which beginning and end are known.
    #[must_use]
    pub fn new(head: &[u8], tail: &[u8], bytes: u64, budget: usize) -> Self {
        let (Some(first), Some(last)) = (utf8_beginning(head), utf8_end(tail)) else {
            let shown = &head[..head.len().min(BINARY).min(budget / 2)];
            let rest = bytes - shown.len() as u64;
            return Self {
                bytes,
                text: String::new(),
                tail: String::new(),
                omitted: (rest > 0).then_some((shown.len() as u64, rest)),
                base64: Some(base64::engine::general_purpose::STANDARD.encode(shown)),
            };
        };
        // Everything, where it fits.
        if head.len() as u64 == bytes && first.len() == head.len() && beginning(first, budget) == first.len()
        {
            return Self { bytes, text: first.to_owned(), tail: String::new(), omitted: None, base64: None };
        }
        let text = &first[..beginning(first, budget / 2)];
        let mut tail = &last[last.len() - end(last, budget / 2)..];
        // They must not overlap.
        let room = usize::try_from(bytes - text.len() as u64).unwrap_or(usize::MAX);
        if tail.len() > room {
            let from =
                (tail.len() - room..tail.len()).find(|at| tail.is_char_boundary(*at)).unwrap_or(tail.len());
            tail = &tail[from..];
        }
        let omitted = bytes - (text.len() + tail.len()) as u64;
        Self {
            bytes,
            text: text.to_owned(),
            tail: tail.to_owned(),
            omitted: (omitted > 0).then_some((text.len() as u64, omitted)),
            base64: None,
        }
    }

    /// A run's stream.
    #[must_use]
    pub fn of(run: &Run, stream: Stream, budget: usize) -> Self {
        // A character of the budget is at most four bytes.
        let head = run.read(stream, 0, budget * 4);
        let tail = run.last(stream, budget * 2);
        let [out, err] = run.state().printed;
        Self::new(&head.bytes, &tail.bytes, if stream == Stream::Stdout { out } else { err }, budget)
    }

    /// As the outcome's fields `stdout` and `stderr`.
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

    /// As lines that cannot be taken for hotcell's own: each begins with a bar.
    #[must_use]
    pub fn to_lines(&self, name: &str) -> String {
        if self.bytes == 0 {
            return String::new();
        }
        let mut lines = format!("{name}, {} bytes:\n", self.bytes);
        if self.base64.is_some() {
            lines.push_str("(not text)\n");
        }
        lines.push_str(&barred(&self.text));
        if let Some((_, bytes)) = self.omitted {
            lines.push_str(&format!("({bytes} bytes are left out; run_output reads them)\n"));
            lines.push_str(&barred(&self.tail));
        }
        lines
    }
}

/// A text with a bar before each line.
pub(crate) fn barred(text: &str) -> String {
    let mut lines = String::with_capacity(text.len() + 16);
    for line in text.lines() {
        // A return, or a separator of lines that is no newline, would hide the bar.
        let words: Vec<_> = line.split('\t').map(printable).collect();
        lines.push_str(&format!("| {}\n", words.join("\t")));
    }
    lines
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn what_fits_is_whole_and_what_does_not_has_two_ends() {
        let whole = Shown::new(b"a\nb", b"a\nb", 3, 4);
        assert_eq!((whole.text.as_str(), whole.omitted), ("a\nb", None));
        let cut = Shown::new(b"0123456789", b"0123456789", 10, 6);
        assert_eq!((cut.text.as_str(), cut.tail.as_str(), cut.omitted), ("012", "789", Some((3, 4))));
        let far = Shown::new(b"012345", b"abcdef", 1000, 4);
        assert_eq!((far.text.as_str(), far.tail.as_str(), far.omitted), ("01", "ef", Some((2, 996))));
        let binary = Shown::new(b"\xff\xfe", b"\xff\xfe", 2, 100);
        assert_eq!((binary.base64.as_deref(), binary.omitted), (Some("//4="), None));
        let accents = Shown::new("ää".as_bytes(), "ää".as_bytes(), 4, 1);
        assert_eq!((accents.text.as_str(), accents.tail.as_str(), accents.omitted), ("", "", Some((0, 4))));
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

    proptest::proptest! {
        #[test]
        fn it_keeps_to_the_budget(text in "\\PC{0,60}|[\n\u{1}ab\u{e4}]{0,60}", budget in 0usize..80) {
            let bytes = text.as_bytes();
            let shown = Shown::new(bytes, bytes, bytes.len() as u64, budget);
            let cost = |t: &str| serde_json::to_string(t).unwrap().chars().count() - 2;
            proptest::prop_assert!(cost(&shown.text) + cost(&shown.tail) <= budget.max(1));
            let omitted = shown.omitted.map_or(0, |(_, n)| n);
            proptest::prop_assert_eq!(shown.text.len() as u64 + shown.tail.len() as u64 + omitted, shown.bytes);
            proptest::prop_assert!(text.starts_with(&shown.text) && text.ends_with(&shown.tail));
        }
    }
}
