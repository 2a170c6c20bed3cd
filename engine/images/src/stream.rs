//! Archives as streams: gzip, zstd and xz by their first bytes, every byte counted before anybody believes it.

use std::cell::{Cell, RefCell};
use std::io::{self, BufRead, BufReader, Chain, Cursor, Read};
use std::rc::Rc;

use flate2::bufread::MultiGzDecoder;
use lzma_rust2::XzReader;
use ruzstd::decoding::errors::{FrameDecoderError, ReadFrameHeaderError};
use ruzstd::decoding::{BlockDecodingStrategy, FrameDecoder};
use sha2::{Digest as _, Sha256};

/// The largest window of a zstd frame, in bytes: what `zstd --long` makes, and what its header may not exceed here.
const WINDOW: u64 = 128 << 20;
/// Memory of xz, in KiB: `xz -9` takes 65 MiB.
const XZ_MEMORY: u32 = 128 << 10;
/// What is read at once.
const PIECE: usize = 64 * 1024;
/// As much may come out of however little went in: small archives of empty disks are no bombs.
const ALWAYS: u64 = 64 << 20;

/// A SHA-256 digest.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub struct Digest(pub [u8; 32]);

impl Digest {
    /// The digest of these bytes.
    #[must_use]
    pub fn of(bytes: &[u8]) -> Self {
        Self(Sha256::digest(bytes).into())
    }

    /// Reads `sha256:` and 64 lower-case digits, as image manifests write it.
    #[must_use]
    pub fn parse(text: &str) -> Option<Self> {
        let hex = text.strip_prefix("sha256:")?;
        let good = hex.len() == 64 && hex.bytes().all(|b| matches!(b, b'0'..=b'9' | b'a'..=b'f'));
        let mut bytes = [0; 32];
        for (byte, pair) in bytes.iter_mut().zip(hex.as_bytes().chunks(2)).filter(|_| good) {
            *byte = u8::from_str_radix(std::str::from_utf8(pair).ok()?, 16).ok()?;
        }
        good.then_some(Self(bytes))
    }

    /// The 64 digits.
    #[must_use]
    pub fn hex(&self) -> String {
        self.0.iter().map(|b| format!("{b:02x}")).collect()
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

/// What an archive is compressed with.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Compression {
    /// Nothing.
    None,
    /// gzip, RFC 1952.
    Gzip,
    /// zstd, RFC 8878.
    Zstd,
    /// xz.
    Xz,
}

impl Compression {
    /// By the first bytes; six are enough.
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

/// Counts what passes, and refuses what is too much.
#[derive(Debug, Default)]
pub(crate) struct Gauge {
    read: Cell<u64>,
    out: Cell<u64>,
    /// What may still be read as headers; `None` while a file's bytes are read.
    headers: Cell<Option<u64>>,
    tripped: RefCell<Option<Tripped>>,
}

/// Why reading was stopped.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Tripped {
    /// More came out than the limit on the ratio allows.
    Ratio,
    /// Names and attributes of one entry are too long.
    Headers,
    /// More bytes than there may be.
    Bytes,
}

impl Gauge {
    /// From here on headers are read, so many bytes at most; or a file's bytes.
    pub(crate) fn headers(&self, most: Option<u64>) {
        self.headers.set(most);
    }

    /// Why reading was stopped, if it was.
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

/// The bytes of an archive without its compression, within bounds, with their digest.
pub(crate) struct Plain<R: Read> {
    inner: Decoder<R>,
    gauge: Rc<Gauge>,
    ratio: u64,
    most: u64,
    digest: Sha256,
}

type Start<R> = BufReader<Chain<Cursor<Vec<u8>>, CountedIn<R>>>;

#[allow(clippy::large_enum_variant)] // one of them at a time
enum Decoder<R: Read> {
    None(Start<R>),
    Gzip(MultiGzDecoder<Start<R>>),
    Zstd(ZstdFrames<Start<R>>),
    Xz(XzReader<Start<R>>),
}

impl<R: Read> Plain<R> {
    /// Looks at the first bytes.
    pub(crate) fn new(reader: R, ratio: u64, most: u64) -> io::Result<Self> {
        let gauge = Rc::new(Gauge::default());
        let mut counted = CountedIn { inner: reader, gauge: Rc::clone(&gauge) };
        let mut start = Vec::new();
        (&mut counted).take(6).read_to_end(&mut start)?;
        let kind = Compression::of(&start);
        let whole = BufReader::with_capacity(PIECE, Cursor::new(start).chain(counted));
        let inner = match kind {
            Compression::None => Decoder::None(whole),
            Compression::Gzip => Decoder::Gzip(MultiGzDecoder::new(whole)),
            Compression::Zstd => Decoder::Zstd(ZstdFrames::new(whole)),
            Compression::Xz => Decoder::Xz(XzReader::new_mem_limit(whole, true, XZ_MEMORY)),
        };
        Ok(Self { inner, gauge, ratio, most, digest: Sha256::new() })
    }

    pub(crate) fn gauge(&self) -> Rc<Gauge> {
        Rc::clone(&self.gauge)
    }

    /// Reads what is left, and returns the digest of everything and its length.
    pub(crate) fn finish(mut self) -> io::Result<(Digest, u64)> {
        self.gauge.headers(None);
        let mut piece = vec![0; PIECE];
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
        if total > ALWAYS && total > self.gauge.read.get().saturating_mul(self.ratio) {
            return Err(self.gauge.stop(Tripped::Ratio));
        }
        if total > self.most {
            return Err(self.gauge.stop(Tripped::Bytes));
        }
        self.digest.update(&out[..count]);
        Ok(count)
    }
}

/// zstd frames one after another, some of them to be skipped.
struct ZstdFrames<R> {
    rest: R,
    decoder: FrameDecoder,
    inside: bool,
}

impl<R: BufRead> ZstdFrames<R> {
    fn new(rest: R) -> Self {
        let mut decoder = FrameDecoder::new();
        decoder.set_max_window_size(WINDOW);
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
    fn every_compression_is_found_by_its_content() {
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
        /// Whatever the bytes: an end, not a panic.
        #[test]
        fn any_bytes_are_read_or_refused(kind in 0..4usize, tail in proptest::collection::vec(0u8.., 0..400)) {
            let magic: [&[u8]; 4] = [b"", &[0x1f, 0x8b, 8], &[0x28, 0xb5, 0x2f, 0xfd], &[0xfd, b'7', b'z', b'X', b'Z', 0]];
            let _ = read(&[magic[kind], &tail].concat(), 100, 1 << 24);
        }
    }
}
