//! Blobs compressed by zstd. What a farm sends is decompressed within the size that the blob's digest names. Pure.

use std::io::{self, Read};

use ruzstd::decoding::StreamingDecoder;
use ruzstd::encoding::{CompressionLevel, compress_to_vec};

/// Size of a blob up to which it is compressed, in bytes: it is held in memory twice.
pub const MAX_COMPRESSED: u64 = 64 << 20;
/// Size of a blob from which it is compressed, in bytes: below it a frame's header and the call cost more than is won.
const MIN_COMPRESSED: u64 = 1 << 10;
/// Maximum window of a frame, in bytes: that of zstd's levels up to 19, which RFC 8878 advises decoders to support.
const MAX_WINDOW: u64 = 8 << 20;

/// Whether a blob of this size is worth it.
#[must_use]
pub const fn is_worth(size: u64) -> bool {
    size >= MIN_COMPRESSED && size <= MAX_COMPRESSED
}

/// Maximum size of the compressed form of a blob, in bytes: that of data that cannot be compressed, in blocks of 128 KiB, with room for frames.
#[must_use]
pub const fn bound(size: u64) -> u64 {
    size + size / 128 + 4096
}

/// The compressed form, where it is at least a tenth smaller.
#[must_use]
pub fn smaller(bytes: &[u8]) -> Option<Vec<u8>> {
    let compressed = compress_to_vec(bytes, CompressionLevel::Fastest);
    (compressed.len() < bytes.len() / 10 * 9).then_some(compressed)
}

/// Decompresses all frames to exactly `size` bytes.
///
/// # Errors
/// When the text is not zstd, or is of another size: it is not decompressed further than that.
pub fn exactly(compressed: &[u8], size: u64) -> io::Result<Vec<u8>> {
    let wrong = |why: String| io::Error::new(io::ErrorKind::InvalidData, why);
    let mut rest = compressed;
    let mut bytes = Vec::new();
    while !rest.is_empty() {
        let before = rest.len();
        let decoder = StreamingDecoder::new_with_max_window_size(&mut rest, MAX_WINDOW);
        let decoder = decoder.map_err(|e| wrong(e.to_string()))?;
        let room = size.saturating_sub(bytes.len() as u64);
        decoder.take(room.saturating_add(1)).read_to_end(&mut bytes)?;
        if bytes.len() as u64 > size {
            return Err(wrong(format!("it has more than {size} bytes")));
        }
        if rest.len() == before {
            return Err(wrong("it has an empty frame".to_owned()));
        }
    }
    if bytes.len() as u64 == size {
        Ok(bytes)
    } else {
        Err(wrong(format!("it has {} bytes, not {size}", bytes.len())))
    }
}

#[cfg(test)]
mod tests {
    use proptest::prelude::*;

    use super::*;

    #[test]
    fn bombs_end_at_the_size_of_the_digest() {
        let bomb = smaller(&vec![0; 32 << 20]).unwrap();
        assert!(bomb.len() < 64 << 10);
        assert!(exactly(&bomb, 1000).unwrap_err().to_string().contains("more than 1000"));
        assert!(exactly(&bomb, 40 << 20).is_err());
        assert_eq!(exactly(&bomb, 32 << 20).unwrap().len(), 32 << 20);
        let two = [bomb.as_slice(), bomb.as_slice()].concat();
        assert_eq!(exactly(&two, 64 << 20).unwrap().len(), 64 << 20);
    }

    proptest! {
        #[test]
        fn texts_come_back(text in prop::collection::vec(0_u8..4, 0..5000)) {
            let compressed = compress_to_vec(text.as_slice(), CompressionLevel::Fastest);
            prop_assert!(compressed.len() as u64 <= bound(text.len() as u64));
            prop_assert_eq!(exactly(&compressed, text.len() as u64).unwrap(), text);
        }

        #[test]
        fn hostile_frames_are_refused_or_of_the_size(text in prop::collection::vec(any::<u8>(), 0..200), flip in 0_usize..60) {
            let mut compressed = compress_to_vec(&[7_u8; 5000][..], CompressionLevel::Fastest);
            let at = flip % compressed.len();
            compressed[at] ^= 0x41;
            for bytes in [text, compressed] {
                if let Ok(is) = exactly(&bytes, 5000) {
                    prop_assert_eq!(is.len(), 5000);
                }
            }
        }
    }
}
