//! Characters of a text that its reader does not see.

use std::fmt;

use super::is_shown;

/// Joins two pictures to one emoji.
const JOINER: char = '\u{200d}';
/// Asks for the coloured form of the picture before it.
const EMOJI_SELECTOR: char = '\u{fe0f}';
/// Draws a key around the character before it.
const KEYCAP: char = '\u{20e3}';

/// A character that a reader does not see, and its place.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Hidden {
    /// The character.
    pub character: char,
    /// Number of the character in its text, from 1.
    pub number: usize,
}

impl fmt::Display for Hidden {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let Self { character, number } = self;
        write!(f, "character {number} is U+{:04X}, which readers do not see", u32::from(*character))
    }
}

/// The first character of a text that [`is_shown`] refuses. Line feeds, carriage returns and tabs are seen by what follows them, and so
/// are the selector and the joiner within an emoji.
#[must_use]
pub fn hidden(text: &str) -> Option<Hidden> {
    let mut before = ' ';
    let mut rest = text.chars();
    let mut number = 0;
    while let Some(c) = rest.next() {
        number += 1;
        let is_picture = !before.is_ascii() && is_shown(before);
        // An emoji is a picture followed by one selector, or joined with another, or a key.
        let is_of_emoji = match c {
            EMOJI_SELECTOR if matches!(before, '0'..='9' | '#' | '*') => rest.clone().next() == Some(KEYCAP),
            EMOJI_SELECTOR => is_picture,
            JOINER => is_picture || before == EMOJI_SELECTOR,
            _ => false,
        };
        if !is_shown(c) && !is_of_emoji && !matches!(c, '\n' | '\t' | '\r') {
            return Some(Hidden { character: c, number });
        }
        before = c;
    }
    None
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn first_hidden_character_is_found() {
        for (text, want) in [
            ("", None),
            ("plain\n\ttext\r\n, é, 日本, e\u{301}", None),
            ("\u{26a0}\u{fe0f} careful, \u{1f468}\u{200d}\u{1f4bb}", None),
            ("\u{1f3f3}\u{fe0f}\u{200d}\u{1f308}", None),
            ("1\u{fe0f}\u{20e3} #\u{fe0f}\u{20e3}", None),
            ("1\u{fe0f}", Some(('\u{fe0f}', 2))),
            ("a\u{fe0f}\u{20e3}", Some(('\u{fe0f}', 2))),
            ("\u{26a0}\u{fe0f}\u{fe0f}", Some(('\u{fe0f}', 3))),
            ("\u{1f468}\u{200d}\u{200d}", Some(('\u{200d}', 3))),
            ("a\u{200d}b", Some(('\u{200d}', 2))),
            ("ab\u{202e}c\u{200b}", Some(('\u{202e}', 3))),
            ("\u{feff}a", Some(('\u{feff}', 1))),
            ("a\u{e0041}", Some(('\u{e0041}', 2))),
            ("a\u{1b}[2J", Some(('\u{1b}', 2))),
            ("a\u{2028}b", Some(('\u{2028}', 2))),
        ] {
            let found = hidden(text).map(|found| (found.character, found.number));
            assert_eq!(found, want, "{text:?}");
        }
        let found = hidden("a\u{200b}").unwrap().to_string();
        assert_eq!(found, "character 2 is U+200B, which readers do not see");
    }

    #[test]
    fn every_unseen_character_is_found_between_letters() {
        for c in (0..=u32::from(char::MAX)).filter_map(char::from_u32) {
            let seen = is_shown(c) || matches!(c, '\n' | '\t' | '\r');
            assert_eq!(hidden(&format!("a{c}b")).is_none(), seen, "U+{:04X}", u32::from(c));
        }
    }
}
