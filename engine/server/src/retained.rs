//! Stored output: the beginning and the end of a stream, read by offset. Pure.

use std::collections::VecDeque;

/// A byte stream of which the beginning and the end are stored.
#[derive(Clone, Debug)]
pub struct Retained {
    half: usize,
    head: Vec<u8>,
    tail: VecDeque<u8>,
    bytes: u64,
}

/// A piece of the stored output.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Piece {
    /// Offset of its first byte: the requested offset, or the first stored one after it.
    pub offset: u64,
    /// Bytes printed there.
    pub bytes: Vec<u8>,
    /// Offset to continue from.
    pub next: u64,
}

impl Retained {
    /// Stores at most this many bytes, half of them from the beginning.
    #[must_use]
    pub fn new(most: usize) -> Self {
        Self { half: most / 2, head: Vec::new(), tail: VecDeque::new(), bytes: 0 }
    }

    /// Number of bytes printed, stored or not.
    #[must_use]
    pub fn bytes(&self) -> u64 {
        self.bytes
    }

    /// Number of bytes held in memory.
    #[must_use]
    pub fn kept(&self) -> usize {
        self.head.len() + self.tail.len()
    }

    /// Appends output.
    pub fn push(&mut self, more: &[u8]) {
        self.bytes += more.len() as u64;
        let (first, rest) = more.split_at(more.len().min(self.half - self.head.len()));
        self.head.extend_from_slice(first);
        let rest = &rest[rest.len().saturating_sub(self.half)..];
        let over = (self.tail.len() + rest.len()).saturating_sub(self.half);
        self.tail.drain(..over);
        self.tail.extend(rest);
    }

    /// The gap between both stored parts: its offset and its length.
    #[must_use]
    pub fn gone(&self) -> (u64, u64) {
        (self.head.len() as u64, self.bytes - self.kept() as u64)
    }

    /// Reads at most `most` bytes from an offset.
    #[must_use]
    pub fn read(&self, offset: u64, most: usize) -> Piece {
        let (gone_at, gone) = self.gone();
        let offset = offset.min(self.bytes);
        if offset < gone_at {
            let at = usize::try_from(offset).unwrap_or(usize::MAX);
            let bytes = self.head[at..self.head.len().min(at.saturating_add(most))].to_vec();
            let mut next = offset + bytes.len() as u64;
            if next == gone_at {
                next += gone;
            }
            return Piece { offset, bytes, next };
        }
        let offset = offset.max(gone_at + gone);
        let skip = usize::try_from(offset - gone_at - gone).unwrap_or(usize::MAX);
        let bytes: Vec<u8> = self.tail.iter().skip(skip).take(most).copied().collect();
        let next = offset + bytes.len() as u64;
        Piece { offset, bytes, next }
    }

    /// The last bytes, at most this many.
    #[must_use]
    pub fn last(&self, most: usize) -> Piece {
        let (gone_at, gone) = self.gone();
        let from = self.bytes.saturating_sub(most as u64);
        // Must not begin before the gap: the piece would end there.
        let from = if gone > 0 { from.max(gone_at + gone) } else { from };
        let mut piece = self.read(from, most);
        if piece.next < self.bytes {
            let more = self.read(piece.next, most - piece.bytes.len());
            piece.bytes.extend(more.bytes);
            piece.next = more.next;
        }
        piece
    }

    /// All stored bytes, in order.
    #[must_use]
    pub fn to_vec(&self) -> Vec<u8> {
        self.head.iter().chain(&self.tail).copied().collect()
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn of(most: usize, pieces: &[&[u8]]) -> Retained {
        let mut kept = Retained::new(most);
        pieces.iter().for_each(|p| kept.push(p));
        kept
    }

    #[test]
    fn retained_output_has_head_tail_and_count() {
        for pieces in [vec![b"0123456789".as_slice()], vec![b"012", b"3456", b"", b"789"]] {
            let kept = of(6, &pieces);
            assert_eq!((kept.bytes(), kept.kept(), kept.gone()), (10, 6, (3, 4)));
            assert_eq!(kept.to_vec(), b"012789");
            assert_eq!(kept.read(0, 2), Piece { offset: 0, bytes: b"01".to_vec(), next: 2 });
            assert_eq!(kept.read(2, 9), Piece { offset: 2, bytes: b"2".to_vec(), next: 7 }, "over the gap");
            assert_eq!(kept.read(4, 2), Piece { offset: 7, bytes: b"78".to_vec(), next: 9 });
            assert_eq!(kept.read(99, 2), Piece { offset: 10, bytes: vec![], next: 10 });
            assert_eq!(kept.last(2).bytes, b"89");
            assert_eq!(kept.last(99).bytes, b"789");
        }
        let whole = of(100, &[b"01234", b"56789"]);
        assert_eq!(whole.gone().1, 0);
        assert_eq!(whole.last(100).bytes, b"0123456789");
        assert_eq!(of(6, &[b"0123"]).last(3).bytes, b"123");
    }

    proptest::proptest! {
        #[test]
        fn retained_output_reads_completely_in_steps(
            most in 0usize..40, step in 1usize..9, pieces in proptest::collection::vec(proptest::collection::vec(0u8.., 0..20), 0..8)
        ) {
            let mut kept = Retained::new(most);
            pieces.iter().for_each(|p| kept.push(p));
            let all = pieces.concat();
            let (mut read, mut at) = (Vec::new(), 0);
            while at < kept.bytes() {
                let piece = kept.read(at, step);
                let from = usize::try_from(piece.offset).unwrap();
                proptest::prop_assert_eq!(&all[from..from + piece.bytes.len()], &piece.bytes[..]);
                proptest::prop_assert!(piece.next > at);
                (at, _) = (piece.next, read.extend(piece.bytes));
            }
            proptest::prop_assert_eq!(read, kept.to_vec());
            proptest::prop_assert!(kept.kept() <= most);
        }
    }
}
