//! zstd: a sequence of frames, some of them skippable.

use ruzstd::decoding::errors::{FrameDecoderError, ReadFrameHeaderError};
use ruzstd::decoding::{FrameDecoder, StreamingDecoder};
use std::io::{Error, ErrorKind, Read, Result};

/// Maximum window size, in bytes; a header can claim terabytes.
const MAX_WINDOW_BYTES: u64 = 64 << 20;

/// Reads all frames.
pub(super) struct Frames<'a> {
    rest: &'a [u8],
    frame: Option<StreamingDecoder<&'a [u8], FrameDecoder>>,
}

impl<'a> Frames<'a> {
    pub(super) fn of(bytes: &'a [u8]) -> Frames<'a> {
        Frames { rest: bytes, frame: None }
    }
}

impl Read for Frames<'_> {
    fn read(&mut self, out: &mut [u8]) -> Result<usize> {
        if out.is_empty() {
            return Ok(0);
        }
        loop {
            if let Some(mut frame) = self.frame.take() {
                let count = frame.read(out)?;
                if count > 0 {
                    self.frame = Some(frame);
                    return Ok(count);
                }
                self.rest = frame.into_inner();
            }
            if self.rest.is_empty() {
                return Ok(0);
            }
            match StreamingDecoder::new_with_max_window_size(self.rest, MAX_WINDOW_BYTES) {
                Ok(frame) => self.frame = Some(frame),
                Err(FrameDecoderError::ReadFrameHeaderError(ReadFrameHeaderError::SkipFrame {
                    length,
                    ..
                })) => {
                    let length = usize::try_from(length).unwrap_or(usize::MAX);
                    self.rest = self.rest.get(length.saturating_add(8)..).unwrap_or(&[]);
                }
                Err(error) => return Err(Error::new(ErrorKind::InvalidData, error.to_string())),
            }
        }
    }
}
