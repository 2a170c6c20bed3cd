//! Texts of strangers, made harmless: what a model or a person reads must be what is there.

use unicode_normalization::UnicodeNormalization;

/// A text without control characters (line breaks and tabs stay), without characters that are not seen or that turn the direction
/// around, in normal form C, of at most `max` characters; what is longer ends in `…`.
#[must_use]
pub fn clean(text: &str, max: usize) -> String {
    // Nothing grows on its way but by normalization, so a multiple of what is kept is enough to read.
    let seen = text.chars().take(max.saturating_mul(4)).map(|c| match c {
        '\u{2028}' | '\u{2029}' => '\n',
        other => other,
    });
    let kept: String = seen.filter(|c| matches!(c, '\n' | '\t') || !unseen(*c)).nfc().collect();
    let kept = kept.trim();
    cut(kept, max)
}

/// The first `max` characters; `…` stands for the rest.
#[must_use]
pub fn cut(text: &str, max: usize) -> String {
    match text.char_indices().nth(max) {
        None => text.to_owned(),
        Some(_) => text.chars().take(max.saturating_sub(1)).chain(['…']).collect(),
    }
}

/// Characters that show nothing, or that change how others are shown.
fn unseen(c: char) -> bool {
    c.is_control()
        || matches!(
            c,
            '\u{ad}' | '\u{34f}' | '\u{61c}' | '\u{115f}' | '\u{1160}' | '\u{17b4}' | '\u{17b5}' | '\u{180b}'..='\u{180f}'
                | '\u{200b}'..='\u{200f}' | '\u{202a}'..='\u{202e}' | '\u{2060}'..='\u{206f}' | '\u{3164}'
                | '\u{fe00}'..='\u{fe0f}' | '\u{feff}' | '\u{ffa0}' | '\u{fff0}'..='\u{fffb}' | '\u{1bca0}'..='\u{1bca3}'
                | '\u{1d173}'..='\u{1d17a}' | '\u{e0000}'..='\u{e0fff}'
                // For private use: nobody knows what they show.
                | '\u{e000}'..='\u{f8ff}' | '\u{f0000}'..='\u{10ffff}'
        )
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn what_is_not_seen_is_removed() {
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
    fn what_is_long_is_cut() {
        assert_eq!(clean("äöü", 3), "äöü");
        assert_eq!(clean("äöüß", 3), "äö…");
        assert_eq!(clean(&"a".repeat(1 << 20), 10).chars().count(), 10);
        assert_eq!(clean(&format!("{}b", "\u{200b}".repeat(50)), 10), "", "what is hidden counts as read");
    }
}
