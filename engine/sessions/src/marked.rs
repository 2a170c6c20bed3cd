//! Output of one stream up to the mark that ends a cell. Pure.

/// Maximum number of bytes that are kept of the beginning of a cell's output, and as many of its end.
const MAX_KEPT_BYTES: usize = 64 << 10;

/// Output of a cell on one stream.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct Kept {
    /// The beginning.
    pub head: Vec<u8>,
    /// The end, where something lies between.
    pub tail: Vec<u8>,
    /// All bytes.
    pub bytes: u64,
}

impl Kept {
    fn push(&mut self, mut piece: &[u8]) {
        self.bytes += piece.len() as u64;
        let room = MAX_KEPT_BYTES - self.head.len();
        if room > 0 {
            let (first, rest) = piece.split_at(room.min(piece.len()));
            self.head.extend_from_slice(first);
            piece = rest;
        }
        self.tail.extend_from_slice(piece);
        if self.tail.len() > 2 * MAX_KEPT_BYTES {
            self.tail.drain(..self.tail.len() - MAX_KEPT_BYTES);
        }
    }

    /// Kept bytes as text, and the number of bytes that are left out.
    pub fn text(&self) -> (String, u64) {
        let tail = &self.tail[self.tail.len().saturating_sub(MAX_KEPT_BYTES)..];
        let omitted = self.bytes - (self.head.len() + tail.len()) as u64;
        let mut bytes = self.head.clone();
        if omitted > 0 {
            bytes.extend_from_slice(format!("\n[... {omitted} bytes left out ...]\n").as_bytes());
        }
        bytes.extend_from_slice(tail);
        (String::from_utf8_lossy(&bytes).into_owned(), omitted)
    }
}

/// One stream of a cell.
#[derive(Debug)]
pub struct Marked {
    mark: Vec<u8>,
    /// Bytes that may be the beginning of the mark.
    held: Vec<u8>,
    /// Whether the mark came.
    pub is_over: bool,
    /// Output before it.
    pub kept: Kept,
}

impl Marked {
    /// A stream whose end of a cell is this mark.
    pub fn new(mark: &str) -> Self {
        Self { mark: mark.as_bytes().to_vec(), held: Vec::new(), is_over: false, kept: Kept::default() }
    }

    /// Takes a piece of the stream; returns what of it is the cell's output.
    pub fn push(&mut self, piece: &[u8]) -> Vec<u8> {
        self.held.extend_from_slice(piece);
        let mut out = Vec::new();
        if let Some(at) = find(&self.held, &self.mark) {
            self.is_over = true;
            out.extend(self.held.drain(..at));
            self.held.drain(..self.mark.len());
        }
        // Threads and processes which the cell left write after the mark.
        let keep = if self.is_over { 0 } else { beginning_at_end(&self.held, &self.mark) };
        let rest = self.held.len() - keep;
        out.extend(self.held.drain(..rest));
        self.kept.push(&out);
        out
    }

    /// Ends the stream without its mark; returns what was held back.
    pub fn flush(&mut self) -> Vec<u8> {
        let out = std::mem::take(&mut self.held);
        self.kept.push(&out);
        out
    }
}

fn find(text: &[u8], mark: &[u8]) -> Option<usize> {
    let mut from = 0;
    while let Some(at) = text[from..].iter().position(|byte| *byte == mark[0]) {
        if text[from + at..].starts_with(mark) {
            return Some(from + at);
        }
        from += at + 1;
    }
    None
}

/// Length of the longest end of `text` that is a beginning of `mark`.
fn beginning_at_end(text: &[u8], mark: &[u8]) -> usize {
    (1..mark.len().min(text.len() + 1)).rev().find(|len| text.ends_with(&mark[..*len])).unwrap_or(0)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn mark_is_found_however_the_stream_is_cut() {
        let whole = b"one\0M1\n\0two\0M12\nrest";
        for size in 1..whole.len() {
            let mut stream = Marked::new("\0M12\n");
            let out: Vec<u8> = whole.chunks(size).flat_map(|piece| stream.push(piece)).collect();
            assert_eq!(out, b"one\0M1\n\0tworest", "{size}");
            assert!(stream.is_over, "{size}");
            assert_eq!(stream.kept.bytes, out.len() as u64);
        }
        let mut stream = Marked::new("\0M\n");
        assert_eq!((stream.push(b"a\0M"), stream.flush()), (b"a".to_vec(), b"\0M".to_vec()));
    }

    #[test]
    fn beginning_and_end_of_long_output_are_kept() {
        let mut kept = Kept::default();
        for _ in 0..10 {
            kept.push(&vec![b'x'; MAX_KEPT_BYTES]);
        }
        kept.push(b"end");
        let (text, omitted) = kept.text();
        assert_eq!(omitted, 8 * MAX_KEPT_BYTES as u64 + 3);
        assert!(text.ends_with("end") && text.contains("bytes left out"), "{}", text.len());
    }
}
