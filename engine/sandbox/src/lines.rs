//! Cuts arriving bytes into lines, with never more of a line in memory than is wanted. Pure: the one reader of lines from programs that are
//! not trusted, however the bytes arrive. A panic here would end every server that one process supervises, so that it cannot be written.

#![deny(
    clippy::indexing_slicing,
    clippy::string_slice,
    clippy::unwrap_used,
    clippy::expect_used,
    clippy::panic
)]

/// A line that is arriving. Of one that is too long, only the beginning is kept.
///
/// ```
/// use hotcell_sandbox::lines::LineBuffer;
/// let (mut line, mut bytes) = (LineBuffer::new(4), &b"ab\n12345\ncd"[..]);
/// let mut whole = Vec::new();
/// while !bytes.is_empty() {
///     let (used, is_whole) = line.push(bytes);
///     bytes = &bytes[used..];
///     if is_whole {
///         whole.push((line.is_cut(), line.take()));
///     }
/// }
/// assert_eq!(whole, [(false, b"ab".to_vec()), (true, b"1234".to_vec())]);
/// assert_eq!(line.bytes(), b"cd");
/// ```
#[derive(Debug)]
pub struct LineBuffer {
    bytes: Vec<u8>,
    longest: usize,
    is_cut: bool,
}

impl LineBuffer {
    /// A buffer for lines of at most this number of bytes, without their newline.
    #[must_use]
    pub const fn new(longest: usize) -> Self {
        Self { bytes: Vec::new(), longest, is_cut: false }
    }

    /// Takes bytes up to the first newline; returns how many it used, and whether the line is complete. The caller then takes the line by
    /// [`Self::take`] or [`Self::clear`], and pushes the rest.
    pub fn push(&mut self, bytes: &[u8]) -> (usize, bool) {
        let end = bytes.iter().position(|byte| *byte == b'\n');
        let text = end.and_then(|end| bytes.get(..end)).unwrap_or(bytes);
        let room = self.longest.saturating_sub(self.bytes.len()).min(text.len());
        self.bytes.extend_from_slice(text.get(..room).unwrap_or(text));
        self.is_cut |= room < text.len();
        (text.len() + usize::from(end.is_some()), end.is_some())
    }

    /// Bytes of the line so far, without its newline.
    #[must_use]
    pub fn bytes(&self) -> &[u8] {
        &self.bytes
    }

    /// Whether the line is longer than it may be, so that its end is left out.
    #[must_use]
    pub const fn is_cut(&self) -> bool {
        self.is_cut
    }

    /// Takes the line, and begins another.
    pub fn take(&mut self) -> Vec<u8> {
        self.is_cut = false;
        std::mem::take(&mut self.bytes)
    }

    /// Begins another line in the same memory, unless the last one was long.
    pub fn clear(&mut self) {
        /// Capacity in bytes that is kept for the next line; most lines are shorter.
        const MAX_KEPT_BYTES: usize = 4096;
        self.is_cut = false;
        if self.bytes.capacity() > MAX_KEPT_BYTES {
            self.bytes = Vec::new();
        } else {
            self.bytes.clear();
        }
    }
}

#[cfg(test)]
#[allow(clippy::indexing_slicing, clippy::unwrap_used, clippy::expect_used, reason = "tests end by panics")]
mod tests {
    use super::*;
    use proptest::prelude::*;

    /// Lines of bytes that arrive in pieces of this size, each with true if it was cut; the last may be unfinished.
    fn lines(mut bytes: &[u8], size: usize) -> Vec<(Vec<u8>, bool)> {
        let (mut line, mut found) = (LineBuffer::new(4), Vec::new());
        while !bytes.is_empty() {
            let (used, is_whole) = line.push(&bytes[..size.min(bytes.len())]);
            assert!(used > 0 && line.bytes().len() <= 4);
            bytes = &bytes[used..];
            if is_whole {
                found.push((line.bytes().to_vec(), line.is_cut()));
                line.clear();
            }
        }
        found.push((line.bytes().to_vec(), line.is_cut()));
        found
    }

    #[test]
    fn long_lines_are_cut() {
        let line = |text: &str, is_cut| (text.as_bytes().to_vec(), is_cut);
        let want =
            [line("ab", false), line("", false), line("1234", true), line("abcd", false), line("1234", true)];
        assert_eq!(lines(b"ab\n\n12345\nabcd\n123456789", 3), want);
    }

    proptest! {
        #[test]
        fn lines_survive_any_chunking(
            bytes in proptest::collection::vec(prop_oneof![any::<u8>(), Just(b'\n')], 0..60),
            size in 1usize..60,
        ) {
            let whole: Vec<_> = bytes
                .split(|byte| *byte == b'\n')
                .map(|line| (line[..line.len().min(4)].to_vec(), line.len() > 4))
                .collect();
            prop_assert_eq!(lines(&bytes, size), whole);
        }
    }
}
