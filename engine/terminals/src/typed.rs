//! Text that was typed into a terminal, as the guard reads it: the text as far as it is known, with the last characters removed where they were
//! erased. A program's own editing (history, completion, moving in the line) is not known here.

/// Maximum size of what is kept, in bytes; the beginning is dropped, at a line's end.
pub const MAX_TYPED_BYTES: usize = 128 << 10;

/// Text that was typed so far.
#[derive(Clone, Debug, Default)]
pub struct Typed(String);

impl Typed {
    /// Adds the bytes of keys and texts.
    pub fn push(&mut self, bytes: &[u8]) {
        let text = String::from_utf8_lossy(bytes);
        let mut rest = text.chars().peekable();
        while let Some(c) = rest.next() {
            match c {
                '\r' | '\n' => self.0.push('\n'),
                '\t' => self.0.push('\t'),
                '\u{8}' | '\u{7f}' => self.erase(|_| true, 1),
                // The whole line, and the last word.
                '\u{15}' => self.erase(|_| true, usize::MAX),
                '\u{17}' => {
                    self.erase(char::is_whitespace, usize::MAX);
                    self.erase(|c| !c.is_whitespace(), usize::MAX);
                }
                // Interrupted: the line is given up.
                '\u{3}' => self.erase(|_| true, usize::MAX),
                '\u{1b}' => {
                    // A key, not text.
                    if rest.next_if(|next| matches!(next, '[' | 'O')).is_some() {
                        while rest.next_if(|next| !('@'..='~').contains(next)).is_some() {}
                    }
                    rest.next();
                }
                c if c.is_control() => {}
                c => self.0.push(c),
            }
        }
        if self.0.len() > MAX_TYPED_BYTES {
            let mut from = self.0.len() - MAX_TYPED_BYTES;
            while !self.0.is_char_boundary(from) {
                from += 1;
            }
            let from = self.0[from..].find('\n').map_or(from, |at| from + at + 1);
            self.0.drain(..from);
        }
    }

    /// Removes characters of the last line from its end.
    fn erase(&mut self, which: impl Fn(char) -> bool, most: usize) {
        let mut left = most;
        while left > 0 && self.0.chars().next_back().is_some_and(|c| c != '\n' && which(c)) {
            self.0.pop();
            left -= 1;
        }
    }

    /// The text.
    #[must_use]
    pub fn text(&self) -> &str {
        &self.0
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn erased_characters_are_not_there() {
        for (keys, want) in [
            (&["ls -l\r"][..], "ls -l\n"),
            (&["rx", "\x7f", "m\r"], "rm\n"),
            (&["a\rbc\x15d"], "a\nd"),
            (&["one two \x17x"], "one x"),
            (&["a\x1b[Ab\x1bOPc\x1b[15~d"], "abcd"),
            (&["half\x03ls\r"], "ls\n"),
            (&["\x7f\x7fa\x04\0"], "a"),
        ] {
            let mut typed = Typed::default();
            keys.iter().for_each(|key| typed.push(key.as_bytes()));
            assert_eq!(typed.text(), want, "{keys:?}");
        }
    }

    #[test]
    fn size_is_bounded() {
        let mut typed = Typed::default();
        for number in 0..50_000 {
            typed.push(format!("line {number} é\r").as_bytes());
        }
        assert!(typed.text().len() <= MAX_TYPED_BYTES && typed.text().starts_with("line "));
        typed.push("é".repeat(MAX_TYPED_BYTES).as_bytes());
        assert!(typed.text().len() <= MAX_TYPED_BYTES);
    }
}
