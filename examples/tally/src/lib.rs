//! Counts words: a small crate with a bug.

use std::collections::BTreeMap;

/// How often each word comes.
///
/// ```
/// assert_eq!(tally::words("a b a")["a"], 2);
/// ```
pub fn words(text: &str) -> BTreeMap<String, usize> {
    let mut counts = BTreeMap::new();
    // The bug: words that differ in case are the same to its tests, and not to it.
    for word in text.split_whitespace() {
        *counts.entry(word.to_owned()).or_insert(0) += 1;
    }
    counts
}

/// The word that comes most often.
///
/// # Panics
/// When the text has no words.
pub fn most(text: &str) -> String {
    let counts = words(text);
    counts.into_iter().max_by_key(|(_, count)| *count).expect("a text with words").0
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn words_are_counted() {
        assert_eq!(words("a b a")["a"], 2);
    }

    #[test]
    fn case_does_not_matter() {
        println!("counted: {:?}", words("The the"));
        assert_eq!(words("The the")["the"], 2);
    }

    #[test]
    #[should_panic(expected = "a text with words")]
    fn empty_text_has_no_commonest_word() {
        most("");
    }

    #[test]
    #[ignore = "takes a minute"]
    fn long_text_is_counted() {
        assert_eq!(most(&"a ".repeat(100_000_000)), "a");
    }
}
