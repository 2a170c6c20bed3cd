//! Splits arriving bytes into lines of text of limited length. The bytes are hostile.

use hotcell_sandbox::lines::LineBuffer;

/// Collects lines. Only the beginning of a line that is too long is kept.
#[derive(Debug)]
pub struct Lines(LineBuffer);

impl Lines {
    /// Splitter with a limit of `longest` bytes per line.
    #[must_use]
    pub const fn new(longest: usize) -> Self {
        Self(LineBuffer::new(longest))
    }

    /// Takes the next bytes; `each` gets every complete line without its end, and true if the line was too
    /// long.
    pub fn push(&mut self, mut bytes: &[u8], mut each: impl FnMut(&str, bool)) {
        while !bytes.is_empty() {
            let (used, is_whole) = self.0.push(bytes);
            bytes = &bytes[used..];
            if is_whole {
                self.give(&mut each);
            }
        }
    }

    /// Handles the end of the input: text without a line end is a line, too.
    pub fn end(&mut self, mut each: impl FnMut(&str, bool)) {
        if !self.0.bytes().is_empty() {
            self.give(&mut each);
        }
    }

    fn give(&mut self, each: &mut impl FnMut(&str, bool)) {
        each(&String::from_utf8_lossy(self.0.bytes()), self.0.is_cut());
        self.0.clear();
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use proptest::prelude::*;

    fn all(bytes: &[u8], cut: usize) -> Vec<(String, bool)> {
        let mut lines = Lines::new(4);
        let mut found = Vec::new();
        let (a, b) = bytes.split_at(cut.min(bytes.len()));
        lines.push(a, |line, long| found.push((line.to_owned(), long)));
        lines.push(b, |line, long| found.push((line.to_owned(), long)));
        lines.end(|line, long| found.push((line.to_owned(), long)));
        found
    }

    #[test]
    fn long_lines_are_cut() {
        let line = |text: &str, long| (text.to_owned(), long);
        assert_eq!(
            all(b"ab\n\n12345\nabcd", 3),
            [line("ab", false), line("", false), line("1234", true), line("abcd", false)]
        );
    }

    proptest! {
        #[test]
        fn pieces_do_not_matter(bytes in proptest::collection::vec(prop_oneof![any::<u8>(), Just(b'\n')], 0..60), cut in 0usize..60) {
            prop_assert_eq!(all(&bytes, cut), all(&bytes, 0));
        }
    }
}
