//! Text of others for a terminal.

/// Control characters, and those that turn the direction of reading, are written out, so that no file name, argument
/// or test's name can move the cursor or pretend to be something else, and one line stays one line.
#[must_use]
pub fn printable(text: &str) -> String {
    let mut out = String::with_capacity(text.len());
    for c in text.chars() {
        let turns = matches!(c, '\u{61c}' | '\u{200e}' | '\u{200f}' | '\u{2028}'..='\u{202e}' | '\u{2066}'..='\u{2069}');
        if c.is_control() || turns {
            out.extend(c.escape_default());
        } else {
            out.push(c);
        }
    }
    out
}

#[cfg(test)]
mod tests {
    use super::*;
    use proptest::prelude::*;

    #[test]
    fn nothing_that_moves_the_cursor_is_printed() {
        for (text, want) in
            [("a b é", "a b é"), ("a\nb", "a\\nb"), ("\x1b[2J", "\\u{1b}[2J"), ("\u{202e}x", "\\u{202e}x")]
        {
            assert_eq!(printable(text), want);
        }
    }

    proptest! {
        #[test]
        fn no_control_character_is_left(text in any::<String>()) {
            prop_assert!(!printable(&text).chars().any(char::is_control));
        }
    }
}
