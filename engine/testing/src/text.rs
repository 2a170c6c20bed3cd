//! Shortens, counts and mends text from hostile programs.

use std::borrow::Cow;

/// Remaining budget for text. When it is used up, details are dropped first, and a name ends the reading.
#[derive(Clone, Debug)]
pub struct Budget(usize);

impl Budget {
    /// A budget in bytes.
    #[must_use]
    pub const fn new(bytes: usize) -> Self {
        Self(bytes)
    }

    /// Takes bytes from the budget; returns true if there were enough.
    pub fn take(&mut self, bytes: usize) -> bool {
        let fits = bytes <= self.0;
        if fits {
            self.0 -= bytes;
        }
        fits
    }

    /// The text, shortened to `most` bytes, if the budget allows; `None` for empty text.
    pub fn keep(&mut self, text: &str, most: usize) -> Option<String> {
        let cut = (!text.is_empty()).then(|| clip(text, most))?;
        self.take(cut.len()).then_some(cut)
    }
}

/// Head and tail of a text that is longer than `most` bytes, with a line between them that tells how much is
/// missing. The line is not counted in `most`.
#[must_use]
pub fn clip(text: &str, most: usize) -> String {
    if text.len() <= most {
        return text.to_owned();
    }
    let head = text.floor_char_boundary(most.div_ceil(2));
    let tail = text.ceil_char_boundary(text.len() - most / 2);
    format!("{}\n… {} bytes left out …\n{}", &text[..head], tail - head, &text[tail..])
}

/// JSON in which each half of a pair of surrogates that stands alone is U+FFFD: strings of JavaScript and Python may have such, and no
/// text can.
#[must_use]
pub fn paired(json: &[u8]) -> Cow<'_, [u8]> {
    let unit = |at: usize| {
        let digits = json.get(at..at + 6)?.strip_prefix(b"\\u")?;
        u16::from_str_radix(std::str::from_utf8(digits).ok()?, 16).ok()
    };
    let mut alone = Vec::new();
    let mut at = 0;
    while let Some(found) = json.get(at..).and_then(|rest| rest.iter().position(|b| *b == b'\\')) {
        at += found;
        let long = match (unit(at), unit(at + 6)) {
            (Some(0xD800..=0xDBFF), Some(0xDC00..=0xDFFF)) => 12,
            (Some(0xD800..=0xDFFF), _) => {
                alone.push(at);
                6
            }
            _ => 2,
        };
        at += long;
    }
    if alone.is_empty() {
        return Cow::Borrowed(json);
    }
    let mut whole = json.to_vec();
    for at in alone {
        whole[at..at + 6].copy_from_slice(b"\\ufffd");
    }
    Cow::Owned(whole)
}

/// A line without the colours of a terminal, as programs print them: `ESC [ 0;32 m`.
#[must_use]
pub fn uncoloured(line: &str) -> Cow<'_, str> {
    if !line.contains('\x1b') {
        return Cow::Borrowed(line);
    }
    let mut parts = line.split("\x1b[");
    let mut out = parts.next().unwrap_or_default().to_owned();
    for part in parts {
        let rest = part.trim_start_matches(|c: char| c.is_ascii_digit() || c == ';');
        match rest.strip_prefix('m') {
            Some(rest) => out.push_str(rest),
            None => out.extend(["\x1b[", part]),
        }
    }
    Cow::Owned(out)
}

#[cfg(test)]
mod tests {
    use super::*;
    use proptest::prelude::*;

    #[test]
    fn half_letters_are_replaced() {
        for (json, want) in [
            (r#""a""#, "a"),
            (r#""\ud83d\ude00""#, "\u{1f600}"),
            (r#""\ud83d""#, "\u{fffd}"),
            (r#""\uDE00\uD83D""#, "\u{fffd}\u{fffd}"),
            (r#""\ud83dx\ude00""#, "\u{fffd}x\u{fffd}"),
            (r#""\ud83d\ud83d\ude00""#, "\u{fffd}\u{1f600}"),
            (r#""\\ud83d""#, "\\ud83d"),
            (r#""\"\\\ud83d""#, "\"\\\u{fffd}"),
            (r#""\u0041\n""#, "A\n"),
        ] {
            assert_eq!(serde_json::from_slice::<String>(&paired(json.as_bytes())).unwrap(), want, "{json}");
        }
        for broken in [r#""\ud8"#, r#""\u"#, "\\", r#""\ud8zz""#] {
            assert_eq!(*paired(broken.as_bytes()), *broken.as_bytes());
        }
    }

    #[test]
    fn colours_are_taken_out() {
        for (line, want) in [
            ("\x1b[0;32m[ RUN ]\x1b[m a", "[ RUN ] a"),
            ("\x1b[90m \x1b[2m❯\x1b[22m x\x1b[39m", " ❯ x"),
            ("plain", "plain"),
            ("", ""),
            ("a\x1b[2Kb", "a\x1b[2Kb"),
            ("\x1b", "\x1b"),
            ("\x1b[", "\x1b["),
            ("\x1b[3", "\x1b[3"),
            ("a\x1b[31", "a\x1b[31"),
        ] {
            assert_eq!(uncoloured(line), want, "{line:?}");
        }
    }

    #[test]
    fn clip_drops_middle() {
        assert_eq!(clip("abcdef", 6), "abcdef");
        assert_eq!(clip("abcdefgh", 4), "ab\n… 4 bytes left out …\ngh");
    }

    #[test]
    fn text_budget_is_consumed() {
        let mut budget = Budget::new(5);
        assert_eq!(budget.keep("abc", 10).as_deref(), Some("abc"));
        assert_eq!(budget.keep("abc", 10), None);
        assert_eq!(budget.keep("ab", 10).as_deref(), Some("ab"));
        assert_eq!(budget.keep("", 10), None);
    }

    proptest! {
        #[test]
        fn clipped_text_is_bounded(text in ".{0,80}", most in 0usize..40) {
            prop_assert!(clip(&text, most).len() <= most + 64);
        }
    }
}
