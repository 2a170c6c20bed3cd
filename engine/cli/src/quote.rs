//! Words in messages.

/// Maximum number of characters of a word in a message.
const MAX_CHARS: usize = 200;

/// Puts a word in quotation marks, without escaping quotes in it; of a long one the beginning. Invisible characters are escaped when the
/// report is shown; `Debug` here would escape them first, and its backslashes would be doubled.
pub fn quoted(word: &str) -> String {
    let shown = match word.char_indices().nth(MAX_CHARS) {
        Some((end, _)) => format!("{}…", &word[..end]),
        None => word.to_owned(),
    };
    format!("\"{}\"", shown.replace('"', "\\\""))
}

/// A word as a shell reads it back, for commands in messages that a person copies.
pub fn for_shell(word: &str) -> String {
    let plain = |b: u8| b.is_ascii_alphanumeric() || b"=:/@._-".contains(&b);
    if !word.is_empty() && word.bytes().all(plain) {
        word.to_owned()
    } else {
        format!("'{}'", word.replace('\'', "'\\''"))
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn long_words_are_shortened_in_messages() {
        for (word, want) in [
            ("", "\"\"".to_owned()),
            ("a\"b", "\"a\\\"b\"".to_owned()),
            (&"ö".repeat(200), format!("\"{}\"", "ö".repeat(200))),
            (&"ö".repeat(201), format!("\"{}…\"", "ö".repeat(200))),
        ] {
            assert_eq!(quoted(word), want);
        }
    }

    #[test]
    fn words_are_quoted_for_a_shell() {
        for (word, want) in [
            ("/a/b-c_d.e", "/a/b-c_d.e"),
            ("read=/a", "read=/a"),
            ("/a b", "'/a b'"),
            ("it's", "'it'\\''s'"),
            ("$(id)", "'$(id)'"),
            ("ü", "'ü'"),
            ("", "''"),
        ] {
            assert_eq!(for_shell(word), want);
        }
    }
}
