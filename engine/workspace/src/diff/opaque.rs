//! Files that a diff cannot show as text: those that are not UTF-8, have NUL bytes or are too long. Their
//! readable parts are shown in lines that begin with `#`, which `git apply` ignores.

use std::fmt::Write;

/// Number of leading bytes shown of a file that is not text or too long.
const HEAD_LEN: usize = 1024;
/// Maximum number of characters of a shown line; the rest is only counted.
const MAX_LINE_CHARS: usize = 2000;

/// One side of a change of such a file.
#[derive(Debug)]
pub(super) struct Opaque {
    /// Size in bytes.
    pub bytes: u64,
    /// The whole content where it is mostly text, else its beginning; `None` when the file cannot be read.
    pub shown: Option<Shown>,
    /// The whole content, where it was read.
    all: Option<Vec<u8>>,
}

/// Shown content, with bytes that are not text escaped.
#[derive(Debug)]
pub(super) enum Shown {
    /// The whole content, which is mostly text.
    Whole(String),
    /// The beginning of the content.
    Head(String),
}

impl Opaque {
    /// Makes a side from the bytes that were read of a file of size `bytes`.
    pub fn of(read: &[u8], bytes: u64) -> Self {
        let whole = read.len() as u64 == bytes;
        let shown = if whole && mostly_text(read) {
            Shown::Whole(written_out(read))
        } else {
            Shown::Head(written_out(&read[..read.len().min(HEAD_LEN)]))
        };
        Self { bytes, shown: Some(shown), all: whole.then(|| read.to_vec()) }
    }

    /// Makes a side for a file that cannot be read.
    pub const fn unread(bytes: u64) -> Self {
        Self { bytes, shown: None, all: None }
    }

    /// Whether both sides are known to have the same content.
    pub fn is_same(&self, other: &Self) -> bool {
        self.all.is_some() && self.all == other.all
    }

    /// The whole content, escaped, where it is mostly text.
    pub fn whole(&self) -> Option<&str> {
        match &self.shown {
            Some(Shown::Whole(text)) => Some(text),
            _ => None,
        }
    }
}

/// Whether the content is mostly readable: at most one byte in eight is not text.
fn mostly_text(bytes: &[u8]) -> bool {
    let chunks = bytes.utf8_chunks();
    let odd: usize = chunks
        .map(|chunk| chunk.invalid().len() + chunk.valid().bytes().filter(|b| is_control(*b)).count())
        .sum();
    odd * 8 <= bytes.len()
}

const fn is_control(byte: u8) -> bool {
    byte < b' ' && !matches!(byte, b'\n' | b'\t' | b'\r') || byte == 0x7f
}

/// Escapes bytes: control characters and bytes that are not UTF-8 become `\x00`. Backslashes are doubled, so
/// that escapes are unambiguous.
pub(super) fn written_out(bytes: &[u8]) -> String {
    let mut text = String::with_capacity(bytes.len());
    let out = |byte: u8| format!("\\x{byte:02x}");
    for chunk in bytes.utf8_chunks() {
        for c in chunk.valid().chars() {
            match u8::try_from(c) {
                Ok(b'\\') => text.push_str("\\\\"),
                Ok(byte) if c.is_ascii() && is_control(byte) => text.push_str(&out(byte)),
                _ => text.push(c),
            }
        }
        chunk.invalid().iter().for_each(|byte| text.push_str(&out(*byte)));
    }
    text
}

/// Adds a side's name, size and executable bit, and its beginning where only that is shown.
pub(super) fn describe(text: &mut String, name: &str, side: &Opaque, executable: bool) {
    let runs = if executable { ", can be executed" } else { "" };
    let bytes = side.bytes;
    let rest = match &side.shown {
        None => "; it cannot be read",
        Some(Shown::Whole(_)) => "; \\x.. stands for bytes that are no text",
        Some(Shown::Head(_)) => "; it begins with",
    };
    let _ = writeln!(text, "# {name}: {bytes} bytes{runs}{rest}");
    if let Some(Shown::Head(head)) = &side.shown {
        for line in head.split_inclusive('\n') {
            let _ = writeln!(text, "# | {}", cut(line.trim_end_matches('\n')));
        }
    }
}

/// A line, or its beginning and the number of further characters.
pub(super) fn cut(line: &str) -> String {
    match line.char_indices().nth(MAX_LINE_CHARS) {
        None => line.to_owned(),
        Some((at, _)) => format!("{} ({} more bytes in this line)", &line[..at], line.len() - at),
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn binary_bytes_are_escaped() {
        assert_eq!(written_out(b"a\0\\x00\x1b\xff\t\n\xc3\xa9"), "a\\x00\\\\x00\\x1b\\xff\t\n\u{e9}");
        assert!(mostly_text(b"#!/bin/sh\necho \0\n") && mostly_text(b"") && !mostly_text(b"\x7fELF\0\0\0\0"));
    }

    #[test]
    fn binary_summary_has_size_mode_and_beginning() {
        let told = |bytes: &[u8], size: u64| {
            let mut text = String::new();
            describe(&mut text, "b/x", &Opaque::of(bytes, size), true);
            text
        };
        assert_eq!(
            told(b"\x7fELF\0\0\0\0", 8),
            "# b/x: 8 bytes, can be executed; it begins with\n# | \\x7fELF\\x00\\x00\\x00\\x00\n"
        );
        assert!(
            told(b"echo 1\n", 1 << 30)
                .ends_with("1073741824 bytes, can be executed; it begins with\n# | echo 1\n")
        );
        assert!(told(&[b'x'; 5000], 1 << 30).len() < 1200);
    }
}
