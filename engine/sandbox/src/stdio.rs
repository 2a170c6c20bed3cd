//! Bounded capture of output: the first and the last half are kept, the rest is only counted.
//!
//! Memory is bounded whatever a program prints: a head that fills once, and a ring buffer for the tail.

use std::collections::VecDeque;

use crate::outcome::Output;

/// Capture of one stream.
#[derive(Debug)]
pub struct Capture {
    head: Vec<u8>,
    tail: VecDeque<u8>,
    head_most: usize,
    tail_most: usize,
    total: u64,
}

impl Capture {
    /// Makes a capture of at most `limit` bytes.
    pub fn new(limit: u64) -> Self {
        let limit = usize::try_from(limit).unwrap_or(usize::MAX);
        Self {
            head: Vec::new(),
            tail: VecDeque::new(),
            head_most: limit.div_ceil(2),
            tail_most: limit / 2,
            total: 0,
        }
    }

    /// Appends bytes read from the stream.
    pub fn push(&mut self, mut bytes: &[u8]) {
        self.total += bytes.len() as u64;
        let room = self.head_most - self.head.len();
        if room > 0 {
            let (now, later) = bytes.split_at(room.min(bytes.len()));
            self.head.extend_from_slice(now);
            bytes = later;
        }
        if bytes.len() >= self.tail_most {
            self.tail.clear();
            self.tail.extend(&bytes[bytes.len() - self.tail_most..]);
        } else {
            let over = (self.tail.len() + bytes.len()).saturating_sub(self.tail_most);
            self.tail.drain(..over);
            self.tail.extend(bytes);
        }
    }

    /// Returns the captured output.
    pub fn finish(mut self) -> Output {
        self.head.extend(self.tail);
        Output::new(self.head, self.total)
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use proptest::prelude::*;

    #[test]
    fn capture_drops_middle() {
        let mut capture = Capture::new(6);
        capture.push(b"abcdefghij");
        let output = capture.finish();
        assert_eq!((output.text.as_deref(), output.bytes, output.truncated), (Some("abchij"), 10, true));
    }

    #[test]
    fn empty_capture_counts_bytes() {
        let mut capture = Capture::new(0);
        capture.push(b"abc");
        let output = capture.finish();
        assert_eq!((output.text.as_deref(), output.bytes, output.truncated), (Some(""), 3, true));
    }

    proptest! {
        #[test]
        fn pieces_do_not_matter(pieces in proptest::collection::vec(proptest::collection::vec(any::<u8>(), 0..20), 0..20), limit in 0u64..64) {
            let whole: Vec<u8> = pieces.concat();
            let mut capture = Capture::new(limit);
            for piece in &pieces {
                capture.push(piece);
            }
            let kept = capture.finish().to_bytes();
            let limit = usize::try_from(limit).unwrap();
            let expected = if whole.len() <= limit { whole.clone() } else {
                let (head, tail) = (limit.div_ceil(2), limit / 2);
                [&whole[..head], &whole[whole.len() - tail..]].concat()
            };
            prop_assert_eq!(kept, expected);
        }
    }
}
