//! Shortens and counts text from hostile programs.

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
