//! Pictures of programs, decoded and encoded anew in a sandbox: what a client gets was written by this program's own encoder, and bytes that
//! are no picture, unpack to too much, or hide something behind their end do not come through.
//!
//! A reader is another process of this program, as [`crate::reader`] is, for one picture: it sees only its own executable, has no network,
//! and ends with its answer.

use std::io::{self, Cursor, Read, Write};
use std::path::Path;
use std::time::Duration;

use hotcell_sandbox::{Bytes, Confinement, Engine, Policy};

use crate::reader::program;

/// First argument that starts this program as a reader of one picture.
pub const VERB: &str = "picture-reader";
/// Maximum size of a picture, in bytes, before and after.
pub const MAX_PICTURE_BYTES: usize = 1 << 20;
/// Maximum length of a side, in points.
const MAX_SIDE_LEN: u32 = 8_000;
/// Maximum number of points: 4 bytes each stay far below the memory of a reader.
const MAX_POINTS: u64 = 24_000_000;
/// Memory, time and output of a reader.
const MEMORY: Bytes = Bytes::mib(384);
const TIMEOUT: Duration = Duration::from_secs(10);
/// Quality of a JPEG that is encoded anew, of 100.
const QUALITY: u8 = 90;
/// First byte of an answer: a picture, or a reason.
const GOOD: u8 = b'+';
const BAD: u8 = b'-';

/// Format of a picture.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum Format {
    Png,
    Jpeg,
}

/// Format by the first bytes, or the reason why there is no picture.
fn format(bytes: &[u8]) -> Result<Format, String> {
    if bytes.len() > MAX_PICTURE_BYTES {
        return Err(format!("it has {} bytes, of which at most {MAX_PICTURE_BYTES} are shown", bytes.len()));
    }
    if bytes.starts_with(b"\x89PNG\r\n\x1a\n") {
        return Ok(Format::Png);
    }
    if bytes.starts_with(b"\xff\xd8\xff") {
        return Ok(Format::Jpeg);
    }
    let begins = String::from_utf8_lossy(&bytes[..bytes.len().min(256)]).to_ascii_lowercase();
    Err(match begins.contains("<svg") || begins.contains("<?xml") {
        true => "it is an SVG, which may hold scripts; only PNG and JPEG are shown".to_owned(),
        false => "it is neither a PNG nor a JPEG".to_owned(),
    })
}

/// Decodes a picture and encodes it anew. Pure.
///
/// # Errors
/// The reason, for bytes that are not a picture, or a picture that is too large.
pub fn anew(bytes: &[u8]) -> Result<Vec<u8>, String> {
    let made = match format(bytes)? {
        Format::Png => png(bytes)?,
        Format::Jpeg => jpeg(bytes)?,
    };
    match made.len() > MAX_PICTURE_BYTES {
        true => Err(format!(
            "encoded anew it has {} bytes, of which at most {MAX_PICTURE_BYTES} are shown",
            made.len()
        )),
        false => Ok(made),
    }
}

fn measured(width: u64, height: u64) -> Result<(), String> {
    let side = 1..=u64::from(MAX_SIDE_LEN);
    if !side.contains(&width) || !side.contains(&height) || width * height > MAX_POINTS {
        return Err(format!(
            "it has {width} by {height} points; a side has at most {MAX_SIDE_LEN}, and all together are {MAX_POINTS}"
        ));
    }
    Ok(())
}

fn png(bytes: &[u8]) -> Result<Vec<u8>, String> {
    let broken = |error: png::DecodingError| format!("it is a broken PNG: {error}");
    let limits = png::Limits { bytes: 16 << 20 };
    let mut decoder = png::Decoder::new_with_limits(Cursor::new(bytes), limits);
    // Colours of 8 bits, without a palette.
    decoder.set_transformations(png::Transformations::normalize_to_color8());
    let mut reader = decoder.read_info().map_err(broken)?;
    let (width, height) = reader.info().size();
    measured(width.into(), height.into())?;
    let size = reader.output_buffer_size().ok_or("it is too large")?;
    let mut points = vec![0; size];
    let frame = reader.next_frame(&mut points).map_err(broken)?;
    points.truncate(frame.buffer_size());
    let mut made = Vec::new();
    let unmade = |error: png::EncodingError| format!("it cannot be encoded anew: {error}");
    let mut encoder = png::Encoder::new(&mut made, width, height);
    encoder.set_color(frame.color_type);
    encoder.set_depth(frame.bit_depth);
    let mut writer = encoder.write_header().map_err(unmade)?;
    writer.write_image_data(&points).map_err(unmade)?;
    writer.finish().map_err(unmade)?;
    Ok(made)
}

fn jpeg(bytes: &[u8]) -> Result<Vec<u8>, String> {
    use zune_jpeg::zune_core::colorspace::ColorSpace;
    use zune_jpeg::zune_core::options::DecoderOptions;
    let broken = |error: zune_jpeg::errors::DecodeErrors| format!("it is a broken JPEG: {error:?}");
    let side = MAX_SIDE_LEN as usize;
    let options = DecoderOptions::default()
        .set_max_width(side)
        .set_max_height(side)
        .jpeg_set_out_colorspace(ColorSpace::RGB);
    let mut decoder = zune_jpeg::JpegDecoder::new_with_options(bytes, options);
    decoder.decode_headers().map_err(broken)?;
    let info = decoder.info().ok_or("it is a JPEG without a picture")?;
    let (width, height) = (info.width, info.height);
    measured(width.into(), height.into())?;
    let points = decoder.decode().map_err(broken)?;
    let mut made = Vec::new();
    jpeg_encoder::Encoder::new(&mut made, QUALITY)
        .encode(&points, width, height, jpeg_encoder::ColorType::Rgb)
        .map_err(|error| format!("it cannot be encoded anew: {error}"))?;
    Ok(made)
}

/// Runs the reader's side: one picture, up to the end of the input.
///
/// # Errors
/// When a read or write of the streams fails.
pub fn serve(input: impl Read, mut output: impl Write) -> io::Result<()> {
    let mut bytes = Vec::new();
    input.take(MAX_PICTURE_BYTES as u64 + 1).read_to_end(&mut bytes)?;
    let (first, rest) = match anew(&bytes) {
        Ok(made) => (GOOD, made),
        Err(why) => (BAD, why.into_bytes()),
    };
    output.write_all(&[first])?;
    output.write_all(&rest)?;
    output.flush()
}

/// A picture as a client may get it: decoded and encoded anew in a sandbox of `engine`, or in this process where no program was set by
/// [`crate::reader::read_with`]. Blocks.
///
/// # Errors
/// The reason, for bytes that are not a picture, and where no sandbox can be had.
pub fn checked(engine: &Engine, bytes: &[u8]) -> Result<Vec<u8>, String> {
    format(bytes)?;
    match program() {
        None => anew(bytes),
        // On a thread of its own: the caller may be within a runtime.
        Some(program) => std::thread::scope(|scope| {
            scope
                .spawn(|| elsewhere(engine, program, bytes))
                .join()
                .unwrap_or_else(|_| Err("its reader is gone".to_owned()))
        }),
    }
}

fn elsewhere(engine: &Engine, program: &Path, bytes: &[u8]) -> Result<Vec<u8>, String> {
    let unread = |why: &dyn std::fmt::Display| format!("it cannot be read in a sandbox: {why}");
    let runtime =
        tokio::runtime::Builder::new_current_thread().enable_all().build().map_err(|error| unread(&error))?;
    runtime.block_on(async {
        let mut refused = String::new();
        for confinement in [Confinement::Namespaces, Confinement::LandlockOnly] {
            let running = match engine.spawn(&policy(program, confinement, bytes)).await {
                Ok(running) => running,
                Err(refusal) => {
                    refused = refusal.to_string();
                    continue;
                }
            };
            let outcome = running.finish().await.outcome;
            let said = outcome.stdout.to_bytes();
            return match said.split_first() {
                Some((&GOOD, made)) if outcome.success() => {
                    // The reader may have been taken over: only the form of its answer is known.
                    format(made).map(|_| made.to_vec())
                }
                Some((&BAD, why)) if outcome.success() => {
                    Err(String::from_utf8_lossy(why).chars().take(300).collect())
                }
                _ => Err(unread(&outcome.reason.unwrap_or_else(|| "its reader ended".to_owned()))),
            };
        }
        Err(unread(&refused))
    })
}

fn policy(program: &Path, confinement: Confinement, bytes: &[u8]) -> Policy {
    let mut policy =
        Policy::new(program).args([VERB]).read_only(program, program).stdin_bytes(bytes).memory(MEMORY);
    policy.shape.confinement = confinement;
    let limits = &mut policy.job.limits;
    limits.disk = Bytes::mib(1);
    // The whole answer is kept, and a longer one refused.
    (limits.capture, limits.output) = (Bytes::mib(4), Bytes::mib(2));
    (limits.wall, limits.cpu_time) = (TIMEOUT, Some(TIMEOUT));
    policy
}

#[cfg(test)]
mod tests {
    use super::*;

    /// A PNG of this size in one grey.
    fn grey(width: u32, height: u32) -> Vec<u8> {
        let mut made = Vec::new();
        let mut encoder = png::Encoder::new(&mut made, width, height);
        encoder.set_color(png::ColorType::Grayscale);
        let mut writer = encoder.write_header().unwrap();
        writer.write_image_data(&vec![7; (width * height) as usize]).unwrap();
        writer.finish().unwrap();
        made
    }

    #[test]
    fn pictures_are_written_anew_without_what_they_hide() {
        let mut bytes = grey(40, 30);
        bytes.extend_from_slice(b"<script>alert(1)</script>");
        let made = anew(&bytes).unwrap();
        assert!(made.starts_with(b"\x89PNG") && !made.windows(8).any(|piece| piece == b"<script>"));
        let mut photo = Vec::new();
        jpeg_encoder::Encoder::new(&mut photo, 80)
            .encode(&[9; 16 * 8 * 3], 16, 8, jpeg_encoder::ColorType::Rgb)
            .unwrap();
        photo.extend_from_slice(b"PK\x03\x04hidden");
        let made = anew(&photo).unwrap();
        assert!(made.starts_with(b"\xff\xd8\xff") && !made.windows(6).any(|piece| piece == b"hidden"));
    }

    #[test]
    fn bombs_and_other_types_are_refused_with_the_reason() {
        let mut cut = grey(40, 30);
        cut.truncate(60);
        for (bytes, want) in [
            (grey(8_001, 1), "8001 by 1 points"),
            (grey(7_000, 4_000), "7000 by 4000 points"),
            (cut, "broken PNG"),
            (b"\xff\xd8\xff\xe0\0\x10JFIF".to_vec(), "broken JPEG"),
            (b"GIF89a".to_vec(), "neither a PNG nor a JPEG"),
            (b"<svg xmlns='http://www.w3.org/2000/svg'><script/></svg>".to_vec(), "scripts"),
            (Vec::new(), "neither"),
            (vec![0; MAX_PICTURE_BYTES + 1], "1048577 bytes"),
        ] {
            let why = anew(&bytes).unwrap_err();
            assert!(why.contains(want), "{why}");
        }
    }

    #[test]
    fn reader_answers_with_a_picture_or_a_reason() {
        let mut said = Vec::new();
        serve(&*grey(4, 4), &mut said).unwrap();
        assert_eq!(said[0], GOOD);
        said.clear();
        serve(&b"no"[..], &mut said).unwrap();
        assert_eq!(said[0], BAD);
    }

    proptest::proptest! {
        #[test]
        fn arbitrary_pictures_cause_no_panic(bytes in proptest::collection::vec(proptest::prelude::any::<u8>(), 0..300), kind in 0..2_usize) {
            let begins: [&[u8]; 2] = [b"\x89PNG\r\n\x1a\n\0\0\0\rIHDR\0\0\0\x04\0\0\0\x04", b"\xff\xd8\xff"];
            let _ = anew(&[begins[kind], &bytes].concat());
        }
    }
}
