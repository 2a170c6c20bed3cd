//! Sanitizes untrusted text: a model or a person must read exactly what is there.

use hotcell_sandbox::text::is_shown;
use unicode_normalization::UnicodeNormalization;

/// A text without the characters that [`is_shown`] rejects (line breaks and tabs stay, other whitespace
/// becomes U+0020), in normal form C, of at most `max` characters; `…` marks a cut.
#[must_use]
pub fn clean(text: &str, max: usize) -> String {
    // Only normalization can make the text grow, so reading a multiple of `max` is enough.
    let seen = text.chars().take(max.saturating_mul(4)).map(|c| match c {
        '\u{2028}' | '\u{2029}' => '\n',
        blank if blank.is_whitespace() && !blank.is_control() => ' ',
        other => other,
    });
    let kept: String = seen.filter(|c| matches!(c, '\n' | '\t') || is_shown(*c)).nfc().collect();
    let kept = kept.trim();
    cut(kept, max)
}

/// The first `max` characters; `…` replaces the rest.
#[must_use]
pub fn cut(text: &str, max: usize) -> String {
    match text.char_indices().nth(max) {
        None => text.to_owned(),
        Some(_) => text.chars().take(max.saturating_sub(1)).chain(['…']).collect(),
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn invisible_characters_are_removed() {
        for (given, left) in [
            ("plain\ttext\nline", "plain\ttext\nline"),
            ("\u{1b}[31mred\u{1b}[0m", "[31mred[0m"),
            ("a\u{202e}b\u{2066}c\u{2069}", "abc"),
            ("zero\u{200b}width\u{200d}\u{feff}\u{2060}", "zerowidth"),
            ("tags\u{e0041}\u{e007f}", "tags"),
            ("e\u{301}", "é"),
            ("soft\u{ad}hyphen\u{7f}\u{85}", "softhyphen"),
            ("two\u{2028}lines", "two\nlines"),
            ("  blank  ", "blank"),
            ("nul\0", "nul"),
            ("selector\u{fe0f}\u{e0100}", "selector"),
        ] {
            assert_eq!(clean(given, 100), left, "{given:?}");
        }
    }

    #[test]
    fn long_text_is_truncated() {
        assert_eq!(clean("äöü", 3), "äöü");
        assert_eq!(clean("äöüß", 3), "äö…");
        assert_eq!(clean(&"a".repeat(1 << 20), 10).chars().count(), 10);
        assert_eq!(clean(&format!("{}b", "\u{200b}".repeat(50)), 10), "", "what is hidden counts as read");
    }
}
