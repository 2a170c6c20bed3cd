//! Lists of words, one of which a source may hold.

use std::sync::LazyLock;

use aho_corasick::AhoCorasick;

/// A list of words, all of which are looked for in one pass: each source that is scanned is asked about some forty words.
pub(super) struct Words {
    words: &'static [&'static str],
    all: Option<AhoCorasick>,
}

/// A list that is prepared when it is first asked about.
pub(super) type Lazy = LazyLock<Words>;

impl Words {
    pub(super) fn new(words: &'static [&'static str]) -> Self {
        Self { words, all: AhoCorasick::new(words).ok() }
    }

    /// True for a source that holds one of the words.
    pub(super) fn any_in(&self, source: &str) -> bool {
        match &self.all {
            Some(all) => all.is_match(source),
            None => self.words.iter().any(|word| source.contains(word)),
        }
    }
}

#[cfg(test)]
mod tests {
    use proptest::prelude::*;

    use super::*;

    const WORDS: &[&str] = &["admin", "min", "root'", "Date(", "date("];

    proptest! {
        #[test]
        fn one_pass_finds_what_a_search_for_each_word_finds(source in "[admnirot'De(\\n ]{0,40}") {
            let want = WORDS.iter().any(|word| source.contains(word));
            prop_assert_eq!(Words::new(WORDS).any_in(&source), want);
        }
    }
}
