//! Text from hostile programs: cut to size and counted.

/// How much text may still be kept. When it is used up, details go first and names end the reading.
#[derive(Clone, Debug)]
pub struct Budget(usize);

impl Budget {
    /// This many bytes.
    #[must_use]
    pub const fn new(bytes: usize) -> Self {
        Self(bytes)
    }

    /// Whether this many bytes more may be kept; then they are counted.
    pub fn take(&mut self, bytes: usize) -> bool {
        let fits = bytes <= self.0;
        if fits {
            self.0 -= bytes;
        }
        fits
    }

    /// The text, cut to `most` bytes, while there is room for it. Empty text is none.
    pub fn keep(&mut self, text: &str, most: usize) -> Option<String> {
        let cut = (!text.is_empty()).then(|| clip(text, most))?;
        self.take(cut.len()).then_some(cut)
    }
}

/// Head and tail of a text that is longer than `most` bytes, with a line between them that says what is missing. The
/// line comes on top of `most`.
#[must_use]
pub fn clip(text: &str, most: usize) -> String {
    if text.len() <= most {
        return text.to_owned();
    }
    let head = text.floor_char_boundary(most.div_ceil(2));
    let tail = text.ceil_char_boundary(text.len() - most / 2);
    format!("{}\n… {} bytes left out …\n{}", &text[..head], tail - head, &text[tail..])
}

#[cfg(test)]
mod tests {
    use super::*;
    use proptest::prelude::*;

    #[test]
    fn the_middle_goes() {
        assert_eq!(clip("abcdef", 6), "abcdef");
        assert_eq!(clip("abcdefgh", 4), "ab\n… 4 bytes left out …\ngh");
    }

    #[test]
    fn what_is_used_up_is_gone() {
        let mut budget = Budget::new(5);
        assert_eq!(budget.keep("abc", 10).as_deref(), Some("abc"));
        assert_eq!(budget.keep("abc", 10), None);
        assert_eq!(budget.keep("ab", 10).as_deref(), Some("ab"));
        assert_eq!(budget.keep("", 10), None);
    }

    proptest! {
        #[test]
        fn cutting_never_panics_and_holds(text in ".{0,80}", most in 0usize..40) {
            prop_assert!(clip(&text, most).len() <= most + 64);
        }
    }
}
