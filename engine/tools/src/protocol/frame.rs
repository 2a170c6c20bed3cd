//! Frames over a stream: a length, a kind, a number, a body. Pure: bytes in, frames out, and never more
//! memory than the longest frame takes.
//!
//! ```text
//! u32 length of the rest | u8 kind | u64 number | body        little-endian
//! ```

/// The other side broke the protocol. Nothing that it sends can be trusted from then on, so its process is
/// ended.
#[derive(Clone, Debug, PartialEq, Eq, thiserror::Error)]
#[error("it broke the protocol: {0}")]
pub struct Violation(pub String);

impl Violation {
    pub(crate) fn new(what: impl Into<String>) -> Self {
        Self(what.into())
    }
}

/// Bytes before the body: length, kind, number.
pub const HEADER_LEN: usize = 4 + REST_LEN;
/// Bytes of kind and number, which the length includes.
const REST_LEN: usize = 1 + 8;
/// Bytes to read at a time while no length has arrived. Most frames are shorter.
const CHUNK_BYTES: usize = 16 << 10;
/// Maximum number of bytes to allocate ahead for a frame that is still arriving.
const MAX_AHEAD_BYTES: usize = 1 << 20;

/// One frame.
#[derive(Debug, PartialEq, Eq)]
pub struct Frame {
    /// Kind of message.
    pub kind: u8,
    /// Number of the call, plugin or question that the frame is about.
    pub number: u64,
    /// Bytes after the header.
    pub body: Vec<u8>,
}

/// Begins a frame; the body is appended, and [`finish`] puts the length in.
#[must_use]
pub fn begin(kind: u8, number: u64, room: usize) -> Vec<u8> {
    let mut frame = Vec::with_capacity(HEADER_LEN + room);
    frame.extend([0; 4]);
    frame.push(kind);
    frame.extend(number.to_le_bytes());
    frame
}

/// Writes the length into a frame from [`begin`].
///
/// # Errors
/// [`Violation`] when the body is longer than the length field can hold.
pub fn finish(mut frame: Vec<u8>) -> Result<Vec<u8>, Violation> {
    let length = u32::try_from(frame.len() - 4)
        .map_err(|_| Violation::new(format!("{} bytes do not fit into one frame", frame.len())))?;
    frame[..4].copy_from_slice(&length.to_le_bytes());
    Ok(frame)
}

/// Assembles frames from the bytes that are read.
#[derive(Debug)]
pub struct Incoming {
    bytes: Vec<u8>,
    /// Number of leading bytes of `bytes` that were already returned as short frames.
    taken: usize,
    longest: usize,
}

impl Incoming {
    /// Creates an assembler for bodies of at most `longest` bytes.
    #[must_use]
    pub fn new(longest: usize) -> Self {
        Self { bytes: Vec::new(), taken: 0, longest }
    }

    /// Changes the maximum body length, for frames that have not begun to arrive.
    pub fn set_longest(&mut self, longest: usize) {
        self.longest = longest;
    }

    /// Buffer to append the next bytes to, with spare capacity: never for more than the frame that is
    /// arriving.
    pub fn room(&mut self) -> &mut Vec<u8> {
        self.bytes.drain(..std::mem::take(&mut self.taken));
        // A length that is too great reserves nothing; `frame` reports it.
        let missing = match self.coming() {
            Some(end) if end <= HEADER_LEN + self.longest => end.saturating_sub(self.bytes.len()),
            _ => 0,
        };
        // Capacity doubles, so that a long frame is seldom moved, and an announced length alone costs little.
        let wanted = missing.min(self.bytes.len().max(MAX_AHEAD_BYTES)).max(CHUNK_BYTES);
        if self.bytes.capacity() - self.bytes.len() < wanted.min(CHUNK_BYTES) {
            self.bytes.reserve_exact(wanted);
        }
        &mut self.bytes
    }

    /// Takes the next frame, once it is complete.
    ///
    /// # Errors
    /// [`Violation`] when the length is too short for a frame, or longer than the maximum.
    pub fn frame(&mut self) -> Result<Option<Frame>, Violation> {
        let Some(end) = self.coming() else { return Ok(None) };
        if end < HEADER_LEN || end > HEADER_LEN + self.longest {
            return Err(Violation::new(format!(
                "a frame of {} bytes, and {} to {} are possible",
                end - 4,
                REST_LEN,
                REST_LEN + self.longest
            )));
        }
        let begin = self.taken;
        let whole = self.bytes.get(begin..).and_then(|bytes| bytes.split_at_checked(end));
        let Some((frame, rest)) = whole else { return Ok(None) };
        let mut number = [0; 8];
        number.copy_from_slice(&frame[5..HEADER_LEN]);
        let kind = frame[4];
        // The shorter part is copied, so that many short frames cost no more than their bytes, and a long
        // frame is not held in memory twice.
        let body = if frame.len() < rest.len() {
            self.taken += end;
            frame[HEADER_LEN..].to_vec()
        } else {
            let rest = rest.to_vec();
            let mut body = std::mem::replace(&mut self.bytes, rest);
            body.truncate(begin + end);
            body.drain(..begin + HEADER_LEN);
            self.taken = 0;
            body
        };
        Ok(Some(Frame { kind, number: u64::from_le_bytes(number), body }))
    }

    /// Offset at which the arriving frame ends, once its length is there.
    fn coming(&self) -> Option<usize> {
        let (length, _) = self.bytes.get(self.taken..)?.split_first_chunk::<4>()?;
        usize::try_from(u32::from_le_bytes(*length)).ok()?.checked_add(4)
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use proptest::prelude::*;

    fn frame(kind: u8, number: u64, body: &[u8]) -> Vec<u8> {
        let mut bytes = begin(kind, number, body.len());
        bytes.extend(body);
        finish(bytes).unwrap()
    }

    /// Feeds bytes in pieces; returns the resulting frames and the largest capacity that was held.
    fn feed(pieces: &[Vec<u8>], longest: usize) -> (Result<Vec<Frame>, Violation>, usize) {
        let mut incoming = Incoming::new(longest);
        let (mut frames, mut most) = (Vec::new(), 0);
        for piece in pieces {
            for part in piece.chunks(CHUNK_BYTES) {
                incoming.room().extend_from_slice(part);
                most = most.max(incoming.bytes.capacity());
                loop {
                    match incoming.frame() {
                        Ok(Some(frame)) => frames.push(frame),
                        Ok(None) => break,
                        Err(violation) => return (Err(violation), most),
                    }
                }
            }
        }
        (Ok(frames), most)
    }

    #[test]
    fn announced_frame_length_allocates_nothing() {
        let mut incoming = Incoming::new(200 << 20);
        incoming.room().extend((100u32 << 20).to_le_bytes());
        assert_eq!(incoming.frame(), Ok(None));
        assert!(incoming.room().capacity() <= 2 * MAX_AHEAD_BYTES);
    }

    #[test]
    fn short_frames_are_read_without_moving_buffer() {
        let mut incoming = Incoming::new(64);
        incoming.room().extend(frame(72, 1, &[]).repeat(1000));
        let at = incoming.bytes.as_ptr();
        for number in 0..1000 {
            assert!(incoming.frame().unwrap().is_some());
            assert!(number > 990 || incoming.bytes.as_ptr() == at, "{number}");
        }
        assert_eq!(incoming.frame(), Ok(None));
    }

    #[test]
    fn lengths_that_no_frame_has_are_violations() {
        for (length, fits) in
            [(0u32, false), (8, false), (9, true), (9 + 64, true), (9 + 65, false), (u32::MAX, false)]
        {
            let mut bytes = length.to_le_bytes().to_vec();
            bytes.extend([0; 80]);
            let (frames, _) = feed(&[bytes[..4 + (length as usize).min(80)].to_vec()], 64);
            assert_eq!(frames.is_ok(), fits, "{length}");
        }
    }

    proptest! {
        #[test]
        fn frames_survive_any_chunking(
            sent in proptest::collection::vec((any::<u8>(), any::<u64>(), proptest::collection::vec(any::<u8>(), 0..200)), 0..6),
            cuts in proptest::collection::vec(1usize..50, 1..20),
        ) {
            let whole: Vec<u8> = sent.iter().flat_map(|(kind, number, body)| frame(*kind, *number, body)).collect();
            let (mut pieces, mut at) = (Vec::new(), 0);
            for cut in cuts.iter().cycle() {
                if at >= whole.len() { break }
                let end = (at + cut).min(whole.len());
                pieces.push(whole[at..end].to_vec());
                at = end;
            }
            let (frames, _) = feed(&pieces, 200);
            let frames: Vec<_> = frames.unwrap().into_iter().map(|f| (f.kind, f.number, f.body)).collect();
            prop_assert_eq!(frames, sent);
        }

        #[test]
        fn arbitrary_bytes_take_bounded_memory(bytes in proptest::collection::vec(any::<u8>(), 0..5000), longest in 0usize..3000) {
            let (_, most) = feed(&[bytes], longest);
            prop_assert!(most <= HEADER_LEN + longest + 3 * CHUNK_BYTES, "{most}");
        }
    }
}
