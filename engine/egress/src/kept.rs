//! The beginning of a request's body, kept until its answer comes: a host that has not processed the request gets it again. Pure.

/// Maximum number of bytes that are kept of a body: as many as a client may send before the host has taken any.
pub(crate) const MAX_KEPT_BYTES: usize = 64 << 10;

/// Bytes that were taken of a body, unless they are too many to be kept.
#[derive(Debug, PartialEq, Eq)]
pub(crate) struct Kept {
    /// `None` when more was taken.
    bytes: Option<Vec<u8>>,
    /// These are to be sent first.
    is_again: bool,
}

impl Kept {
    /// Nothing was taken yet.
    pub const fn new() -> Self {
        Self { bytes: Some(Vec::new()), is_again: false }
    }

    /// Keeps a piece that was taken.
    pub fn take(&mut self, piece: &[u8]) {
        match &mut self.bytes {
            Some(bytes) if bytes.len() + piece.len() <= MAX_KEPT_BYTES => bytes.extend_from_slice(piece),
            bytes => *bytes = None,
        }
    }

    /// Keeps nothing more, where no request can be repeated.
    pub fn stop(&mut self) {
        if !self.is_again {
            self.bytes = None;
        }
    }

    /// All that was taken, once after [`Kept::begin_again`]. It is kept no longer, since a request is repeated once.
    pub fn again(&mut self) -> Option<Vec<u8>> {
        let bytes = if std::mem::take(&mut self.is_again) { self.bytes.take() } else { None };
        bytes.filter(|bytes| !bytes.is_empty())
    }

    /// Goes back to the beginning, and returns the number of bytes that were taken; `None` where not all of them are kept.
    pub fn begin_again(&mut self) -> Option<usize> {
        let bytes = self.bytes.as_ref()?;
        self.is_again = true;
        Some(bytes.len())
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn beginnings_up_to_the_limit_come_again_once() {
        for (pieces, want) in [
            (&[][..], Some(0)),
            (&[3], Some(3)),
            (&[MAX_KEPT_BYTES - 1, 1, 0], Some(MAX_KEPT_BYTES)),
            (&[MAX_KEPT_BYTES, 1], None),
            (&[MAX_KEPT_BYTES + 1, 1], None),
        ] {
            let mut kept = Kept::new();
            assert_eq!(kept.again(), None);
            pieces.iter().for_each(|length| kept.take(&vec![b'a'; *length]));
            assert_eq!(kept.begin_again(), want, "{pieces:?}");
            assert_eq!(
                kept.again().map(|bytes| bytes.len()),
                want.filter(|length| *length > 0),
                "{pieces:?}"
            );
            assert_eq!(kept.again(), None);
        }
        let mut kept = Kept::new();
        [b"ab", b"cd"].iter().for_each(|piece| kept.take(*piece));
        kept.begin_again();
        assert_eq!(kept.again().as_deref(), Some(&b"abcd"[..]));
        assert_eq!(kept.begin_again(), None, "it was given away");
        for (begins, want) in [(false, None), (true, Some(&b"ab"[..]))] {
            let mut kept = Kept::new();
            kept.take(b"ab");
            assert!(!begins || kept.begin_again().is_some());
            kept.stop();
            assert_eq!(kept.again().as_deref(), want);
        }
    }
}
