//! Reads archives as streams: detects gzip, zstd and xz by their first bytes, and counts every byte before it
//! is used.

use std::cell::{Cell, RefCell};
use std::io::{self, BufRead, BufReader, Chain, Cursor, Read};
use std::rc::Rc;

use flate2::bufread::MultiGzDecoder;
use lzma_rust2::XzReader;
use ruzstd::decoding::errors::{FrameDecoderError, ReadFrameHeaderError};
use ruzstd::decoding::{BlockDecodingStrategy, FrameDecoder};
use sha2::{Digest as _, Sha256};

/// Maximum window size of a zstd frame in bytes, as produced by `zstd --long`; larger ones are rejected.
const MAX_WINDOW_BYTES: u64 = 128 << 20;
/// Memory limit of xz in KiB; `xz -9` takes 65 MiB.
const MAX_XZ_MEMORY_KIB: u32 = 128 << 10;
/// Buffer size for reading, in bytes.
const READ_CHUNK: usize = 64 * 1024;
/// Output in bytes to which the ratio limit does not apply: a small archive of an empty disk is not a bomb.
const RATIO_FREE_BYTES: u64 = 64 << 20;

/// A SHA-256 digest.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub struct Digest(pub [u8; 32]);

impl Digest {
    /// Digest of these bytes.
    #[must_use]
    pub fn of(bytes: &[u8]) -> Self {
        Self(Sha256::digest(bytes).into())
    }

    /// Parses `sha256:` followed by 64 lower-case hexadecimal digits, as image manifests write it.
    #[must_use]
    pub fn parse(text: &str) -> Option<Self> {
        let digits = text.strip_prefix("sha256:")?;
        // Manifests have lower-case digits only; other spellings would be other names of one digest.
        if digits.bytes().any(|byte| byte.is_ascii_uppercase()) {
            return None;
        }
        let mut bytes = [0; 32];
        hex::decode_to_slice(digits, &mut bytes).ok()?;
        Some(Self(bytes))
    }

    /// The digest as 64 hexadecimal digits.
    #[must_use]
    pub fn hex(&self) -> String {
        hex::encode(self.0)
    }
}

impl serde::Serialize for Digest {
    fn serialize<S: serde::Serializer>(&self, to: S) -> Result<S::Ok, S::Error> {
        to.collect_str(self)
    }
}

impl<'de> serde::Deserialize<'de> for Digest {
    fn deserialize<D: serde::Deserializer<'de>>(from: D) -> Result<Self, D::Error> {
        let text = std::borrow::Cow::<'_, str>::deserialize(from)?;
        Self::parse(&text).ok_or_else(|| {
            serde::de::Error::custom(format!("{text:.100?} is no digest: sha256: and 64 digits"))
        })
    }
}

impl std::fmt::Display for Digest {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        write!(f, "sha256:{}", self.hex())
    }
}

/// Compression of an archive.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Compression {
    /// Not compressed.
    None,
    /// gzip, RFC 1952.
    Gzip,
    /// zstd, RFC 8878.
    Zstd,
    /// xz.
    Xz,
}

impl Compression {
    /// Detects the compression from the first six bytes.
    #[must_use]
    pub fn of(start: &[u8]) -> Self {
        match start {
            [0x1f, 0x8b, ..] => Self::Gzip,
            [0x28, 0xb5, 0x2f, 0xfd, ..] | [0x50..=0x5f, 0x2a, 0x4d, 0x18, ..] => Self::Zstd,
            [0xfd, b'7', b'z', b'X', b'Z', 0, ..] => Self::Xz,
            _ => Self::None,
        }
    }
}

/// Counts bytes, and stops reading when a limit is exceeded.
#[derive(Debug, Default)]
pub(crate) struct Gauge {
    read: Cell<u64>,
    out: Cell<u64>,
    /// Remaining budget for headers in bytes; `None` while the content of a file is read.
    headers: Cell<Option<u64>>,
    tripped: RefCell<Option<Tripped>>,
}

/// Limit that was exceeded.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Tripped {
    /// Compression ratio.
    Ratio,
    /// Names and attributes of one entry.
    Headers,
    /// Total number of bytes.
    Bytes,
}

impl Gauge {
    /// Sets the budget for the headers that follow, in bytes; `None` before the content of a file.
    pub(crate) fn headers(&self, most: Option<u64>) {
        self.headers.set(most);
    }

    /// The limit that stopped reading, if any.
    pub(crate) fn tripped(&self) -> Option<Tripped> {
        *self.tripped.borrow()
    }

    fn stop(&self, why: Tripped) -> io::Error {
        self.tripped.replace(Some(why));
        io::Error::other("too much")
    }
}

struct CountedIn<R> {
    inner: R,
    gauge: Rc<Gauge>,
}

impl<R: Read> Read for CountedIn<R> {
    fn read(&mut self, out: &mut [u8]) -> io::Result<usize> {
        let count = self.inner.read(out)?;
        self.gauge.read.set(self.gauge.read.get() + count as u64);
        Ok(count)
    }
}

/// The uncompressed bytes of an archive, within limits, with their digest.
pub(crate) struct Plain<R: Read> {
    inner: Decoder<R>,
    gauge: Rc<Gauge>,
    ratio: u64,
    most: u64,
    digest: Sha256,
}

type Start<R> = BufReader<Chain<Cursor<Vec<u8>>, CountedIn<R>>>;

#[allow(clippy::large_enum_variant)] // one value at a time
enum Decoder<R: Read> {
    None(Start<R>),
    Gzip(MultiGzDecoder<Start<R>>),
    Zstd(ZstdFrames<Start<R>>),
    Xz(XzReader<Start<R>>),
}

impl<R: Read> Plain<R> {
    /// Detects the compression from the first bytes.
    pub(crate) fn new(reader: R, ratio: u64, most: u64) -> io::Result<Self> {
        let gauge = Rc::new(Gauge::default());
        let mut counted = CountedIn { inner: reader, gauge: Rc::clone(&gauge) };
        let mut start = Vec::new();
        (&mut counted).take(6).read_to_end(&mut start)?;
        let kind = Compression::of(&start);
        let whole = BufReader::with_capacity(READ_CHUNK, Cursor::new(start).chain(counted));
        let inner = match kind {
            Compression::None => Decoder::None(whole),
            Compression::Gzip => Decoder::Gzip(MultiGzDecoder::new(whole)),
            Compression::Zstd => Decoder::Zstd(ZstdFrames::new(whole)),
            Compression::Xz => Decoder::Xz(XzReader::new_mem_limit(whole, true, MAX_XZ_MEMORY_KIB)),
        };
        Ok(Self { inner, gauge, ratio, most, digest: Sha256::new() })
    }

    pub(crate) fn gauge(&self) -> Rc<Gauge> {
        Rc::clone(&self.gauge)
    }

    /// Reads the rest, and returns the digest and length of everything.
    pub(crate) fn finish(mut self) -> io::Result<(Digest, u64)> {
        self.gauge.headers(None);
        let mut piece = vec![0; READ_CHUNK];
        while self.read(&mut piece)? > 0 {}
        Ok((Digest(self.digest.finalize().into()), self.gauge.out.get()))
    }
}

impl<R: Read> Read for Plain<R> {
    fn read(&mut self, out: &mut [u8]) -> io::Result<usize> {
        let most =
            self.gauge.headers.get().map_or(usize::MAX, |left| usize::try_from(left).unwrap_or(usize::MAX));
        if most == 0 && !out.is_empty() {
            return Err(self.gauge.stop(Tripped::Headers));
        }
        let len = out.len().min(most);
        let out = &mut out[..len];
        let count = match &mut self.inner {
            Decoder::None(r) => r.read(out),
            Decoder::Gzip(r) => r.read(out),
            Decoder::Zstd(r) => r.read(out),
            Decoder::Xz(r) => r.read(out),
        }?;
        let total = self.gauge.out.get() + count as u64;
        self.gauge.out.set(total);
        if let Some(left) = self.gauge.headers.get() {
            self.gauge.headers.set(Some(left - count as u64));
        }
        if total > RATIO_FREE_BYTES && total > self.gauge.read.get().saturating_mul(self.ratio) {
            return Err(self.gauge.stop(Tripped::Ratio));
        }
        if total > self.most {
            return Err(self.gauge.stop(Tripped::Bytes));
        }
        self.digest.update(&out[..count]);
        Ok(count)
    }
}

/// A sequence of zstd frames, including skippable ones.
struct ZstdFrames<R> {
    rest: R,
    decoder: FrameDecoder,
    inside: bool,
}

impl<R: BufRead> ZstdFrames<R> {
    fn new(rest: R) -> Self {
        let mut decoder = FrameDecoder::new();
        decoder.set_max_window_size(MAX_WINDOW_BYTES);
        Self { rest, decoder, inside: false }
    }
}

impl<R: BufRead> Read for ZstdFrames<R> {
    fn read(&mut self, out: &mut [u8]) -> io::Result<usize> {
        let bad = |e: FrameDecoderError| io::Error::new(io::ErrorKind::InvalidData, e.to_string());
        loop {
            while self.inside && self.decoder.can_collect() == 0 && !self.decoder.is_finished() {
                self.decoder
                    .decode_blocks(&mut self.rest, BlockDecodingStrategy::UptoBlocks(1))
                    .map_err(bad)?;
            }
            if self.inside && self.decoder.can_collect() > 0 {
                return self.decoder.read(out);
            }
            self.inside = false;
            if self.rest.fill_buf()?.is_empty() {
                return Ok(0);
            }
            match self.decoder.reset(&mut self.rest) {
                Ok(()) => self.inside = true,
                Err(FrameDecoderError::ReadFrameHeaderError(ReadFrameHeaderError::SkipFrame {
                    length,
                    ..
                })) => {
                    io::copy(&mut (&mut self.rest).take(u64::from(length)), &mut io::sink())?;
                }
                Err(error) => return Err(bad(error)),
            }
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use std::io::Write as _;

    fn gzip(bytes: &[u8]) -> Vec<u8> {
        let mut out = flate2::write::GzEncoder::new(Vec::new(), flate2::Compression::fast());
        out.write_all(bytes).unwrap();
        out.finish().unwrap()
    }

    fn zstd(bytes: &[u8]) -> Vec<u8> {
        ruzstd::encoding::compress_to_vec(bytes, ruzstd::encoding::CompressionLevel::Fastest)
    }

    fn xz(bytes: &[u8]) -> Vec<u8> {
        let mut out = lzma_rust2::XzWriter::new(Vec::new(), lzma_rust2::XzOptions::with_preset(1)).unwrap();
        out.write_all(bytes).unwrap();
        out.finish().unwrap()
    }

    fn read(bytes: &[u8], ratio: u64, most: u64) -> (io::Result<(Digest, u64)>, Option<Tripped>) {
        let plain = Plain::new(bytes, ratio, most).unwrap();
        let gauge = plain.gauge();
        let result = plain.finish();
        (result, gauge.tripped())
    }

    #[test]
    fn compression_is_detected_by_content() {
        let text = b"some bytes, some bytes, some bytes".repeat(1000);
        let skipped = [&[0x51, 0x2a, 0x4d, 0x18, 3, 0, 0, 0, 1, 2, 3][..], &zstd(&text)].concat();
        for packed in [text.clone(), gzip(&text), zstd(&text), skipped, xz(&text)] {
            let (digest, length) = read(&packed, 1000, 1 << 30).0.unwrap();
            assert_eq!((digest, length), (Digest::of(&text), text.len() as u64));
        }
        let twice = [gzip(&text), gzip(&text)].concat();
        assert_eq!(read(&twice, 1000, 1 << 30).0.unwrap().1, 2 * text.len() as u64);
    }

    #[test]
    fn bombs_are_stopped() {
        let zeros = vec![0; 72 << 20];
        for packed in [gzip(&zeros), zstd(&zeros), xz(&zeros)] {
            assert_eq!(read(&packed, 100, 1 << 40).1, Some(Tripped::Ratio));
            assert_eq!(read(&packed, 1 << 40, 1 << 20).1, Some(Tripped::Bytes));
        }
        assert!(read(&zeros, 1, 1 << 40).0.is_ok(), "not compressed");
    }

    #[test]
    fn digests_are_read_strictly() {
        let good = Digest::of(b"x");
        assert_eq!(Digest::parse(&good.to_string()), Some(good));
        for bad in
            ["", "sha256:", "sha256:00", "sha512:00", &good.to_string().to_uppercase(), &format!("{good}0")]
        {
            assert_eq!(Digest::parse(bad), None, "{bad}");
        }
        assert_eq!(Digest::parse(&format!("sha256:{}é", "0".repeat(62))), None);
    }

    proptest::proptest! {
        /// Any input ends or fails, and never panics.
        #[test]
        fn arbitrary_compressed_bytes_cause_no_panic(kind in 0..4usize, tail in proptest::collection::vec(0u8.., 0..400)) {
            let magic: [&[u8]; 4] = [b"", &[0x1f, 0x8b, 8], &[0x28, 0xb5, 0x2f, 0xfd], &[0xfd, b'7', b'z', b'X', b'Z', 0]];
            let _ = read(&[magic[kind], &tail].concat(), 100, 1 << 24);
        }
    }
}
