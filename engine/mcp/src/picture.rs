//! Pictures, known by their own bytes; nothing of them is decoded.

use hotcell_state::report::{Code, ErrorReport};

/// Maximum size of a picture, in bytes. In base64 it stays below what clients take in one message.
pub(crate) const MAX_PICTURE_BYTES: usize = 1 << 20;
/// Maximum length of a side, in points: models take no more, and what unpacks to more is not a plot.
const MAX_SIDE_LEN: u32 = 8_000;

/// Whether a picture is shown, and why not.
pub(crate) fn may_be_shown(path: &str, bytes: u64, of: &[u8]) -> Result<Picture, ErrorReport> {
    let no =
        |why: String, hint: &str| Err(ErrorReport::new(Code::InvalidValue, why).field("path").hint(hint));
    let Some(picture) = picture(of) else {
        return no(format!("{path} is neither a PNG nor a JPEG"), "workspace_read gives its text or bytes");
    };
    let Picture { width, height, .. } = picture;
    let smaller = "make it smaller, for instance with fewer dots per inch";
    if bytes > MAX_PICTURE_BYTES as u64 {
        return no(
            format!("{path} has {bytes} bytes, of which at most {MAX_PICTURE_BYTES} are shown"),
            smaller,
        );
    }
    if !picture.is_of_a_usual_size() {
        return no(format!("{path} has {width} by {height} points; a side has 1 to {MAX_SIDE_LEN}"), smaller);
    }
    Ok(picture)
}

/// Media type and dimensions of a picture, read from its bytes.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) struct Picture {
    /// Media type.
    pub kind: &'static str,
    /// Width in points.
    pub width: u32,
    /// Height in points.
    pub height: u32,
}

impl Picture {
    /// Whether no side is empty, or longer than pictures are that models take: a few bytes can say that they unpack to gigabytes.
    pub(crate) fn is_of_a_usual_size(&self) -> bool {
        [self.width, self.height].iter().all(|side| (1..=MAX_SIDE_LEN).contains(side))
    }
}

/// Media type of bytes that a client may take for a picture, by their headers; `None` for all others, and for sizes that are not usual. Pure.
pub(crate) fn kind_of_begin(bytes: &[u8]) -> Option<&'static str> {
    let known = picture(bytes).or_else(|| gif(bytes)).or_else(|| webp(bytes));
    known.filter(Picture::is_of_a_usual_size).map(|picture| picture.kind)
}

/// Identifies a picture by its first bytes: a PNG with its header, or a JPEG with a frame. Pure.
pub(crate) fn picture(bytes: &[u8]) -> Option<Picture> {
    png(bytes).or_else(|| jpeg(bytes))
}

fn png(bytes: &[u8]) -> Option<Picture> {
    let rest = bytes.strip_prefix(b"\x89PNG\r\n\x1a\n\0\0\0\rIHDR")?;
    let number = |at: usize| Some(u32::from_be_bytes(rest.get(at..at + 4)?.try_into().ok()?));
    Some(Picture { kind: "image/png", width: number(0)?, height: number(4)? })
}

fn jpeg(bytes: &[u8]) -> Option<Picture> {
    let mut rest = bytes.strip_prefix(b"\xff\xd8")?;
    loop {
        let [0xff, marker, more @ ..] = rest else { return None };
        match marker {
            // Filling.
            0xff => rest = &rest[1..],
            0x01 | 0xd0..=0xd7 => rest = more,
            // The picture's end, or its points before its size.
            0xd8..=0xda => return None,
            _ => {
                let [high, low, ..] = more else { return None };
                let length = usize::from(u16::from_be_bytes([*high, *low]));
                let segment = more.get(2..length)?;
                // Frames of every coding; between them lie tables.
                if matches!(marker, 0xc0..=0xcf) && !matches!(marker, 0xc4 | 0xc8 | 0xcc) {
                    let [_, h1, h0, w1, w0, ..] = segment else { return None };
                    let number = |high: &u8, low: &u8| u32::from(u16::from_be_bytes([*high, *low]));
                    return Some(Picture {
                        kind: "image/jpeg",
                        width: number(w1, w0),
                        height: number(h1, h0),
                    });
                }
                rest = more.get(length..)?;
            }
        }
    }
}

/// The points that a GIF's screen and its frames need: programs enlarge a screen for a frame that goes beyond it.
fn gif(bytes: &[u8]) -> Option<Picture> {
    let rest = bytes.strip_prefix(b"GIF87a").or_else(|| bytes.strip_prefix(b"GIF89a"))?;
    let [w0, w1, h0, h1, packed, _, _, rest @ ..] = rest else { return None };
    let number = |low: &u8, high: &u8| u32::from(u16::from_le_bytes([*low, *high]));
    let table_len = |packed: &u8| if packed & 0x80 == 0 { 0 } else { 3 << ((packed & 7) + 1) };
    let mut all = Picture { kind: "image/gif", width: number(w0, w1), height: number(h0, h1) };
    let mut rest = rest.get(table_len(packed)..)?;
    loop {
        rest = match rest {
            // The end, also of what was cut off.
            [] | [0x3b, ..] => return Some(all),
            [0x21, _, more @ ..] => after_blocks(more),
            [0x2c, x0, x1, y0, y1, w0, w1, h0, h1, packed, more @ ..] => {
                all.width = all.width.max(number(x0, x1) + number(w0, w1));
                all.height = all.height.max(number(y0, y1) + number(h0, h1));
                // Behind the table and the size of a code.
                after_blocks(more.get(table_len(packed) + 1..).unwrap_or_default())
            }
            _ => return None,
        };
    }
}

/// Bytes behind a GIF's blocks, each with its length before it; the last one is empty.
fn after_blocks(mut rest: &[u8]) -> &[u8] {
    loop {
        match rest {
            [] => return rest,
            [0, more @ ..] => return more,
            [length, more @ ..] => rest = more.get(usize::from(*length)..).unwrap_or_default(),
        }
    }
}

/// The size of a WebP's canvas, from its first chunk: lossy, lossless, or extended.
fn webp(bytes: &[u8]) -> Option<Picture> {
    let rest = bytes.strip_prefix(b"RIFF")?.get(4..)?.strip_prefix(b"WEBP")?;
    let (kind, data) = (rest.get(..4)?, rest.get(8..)?);
    let number =
        |bytes: &[u8]| bytes.iter().rev().fold(0_u32, |number, byte| (number << 8) | u32::from(*byte));
    let (width, height) = match kind {
        b"VP8 " => {
            // Behind the tag of a frame.
            let size = data.get(3..)?.strip_prefix(b"\x9d\x01\x2a")?.get(..4)?;
            (number(&size[..2]) & 0x3fff, number(&size[2..]) & 0x3fff)
        }
        b"VP8L" => {
            let size = number(data.strip_prefix(b"\x2f")?.get(..4)?);
            ((size & 0x3fff) + 1, ((size >> 14) & 0x3fff) + 1)
        }
        b"VP8X" => {
            let size = data.get(4..10)?;
            (number(&size[..3]) + 1, number(&size[3..]) + 1)
        }
        _ => return None,
    };
    Some(Picture { kind: "image/webp", width, height })
}

/// A file's type for a resource: that of a picture, where it is one.
pub(crate) fn kind(bytes: &[u8]) -> Option<&'static str> {
    picture(bytes).map(|picture| picture.kind)
}

#[cfg(test)]
mod tests {
    use super::*;

    fn png_of(width: u32, height: u32) -> Vec<u8> {
        let mut bytes = b"\x89PNG\r\n\x1a\n\0\0\0\rIHDR".to_vec();
        bytes.extend(width.to_be_bytes());
        bytes.extend(height.to_be_bytes());
        bytes
    }

    #[test]
    fn pictures_are_known_by_their_bytes() {
        let of = |kind, width, height| Some(Picture { kind, width, height });
        let frame = b"\xff\xc2\0\x08\x08\0\x10\0\x20\x01".as_slice();
        let jpeg = |before: &[u8]| [b"\xff\xd8".as_slice(), before, frame].concat();
        for (bytes, want) in [
            (png_of(640, 480), of("image/png", 640, 480)),
            (jpeg(b""), of("image/jpeg", 32, 16)),
            (jpeg(b"\xff\xe0\0\x04JF"), of("image/jpeg", 32, 16)),
            (jpeg(b"\xff\xff\xe0\0\x04JF\xff\xc4\0\x02"), of("image/jpeg", 32, 16)),
            (jpeg(b"\xff\xe0\0\x01"), None),
            (jpeg(b"\xff\xe0\0\0"), None),
            (jpeg(b"\xff\xe0\xff\xff"), None),
            (jpeg(b"\xff\xd9"), None),
            (jpeg(b"JF"), None),
            (png_of(1, 1)[..18].to_vec(), None),
            (b"\x89PNG".to_vec(), None),
            (b"GIF89a".to_vec(), None),
            (b"<svg xmlns='http://www.w3.org/2000/svg'/>".to_vec(), None),
            (Vec::new(), None),
        ] {
            assert_eq!(picture(&bytes), want, "{bytes:02x?}");
        }
    }

    fn gif_of(screen: [u16; 2], rest: &[&[u8]]) -> Vec<u8> {
        let sides = screen.map(u16::to_le_bytes).concat();
        [b"GIF89a".as_slice(), &sides, &[0, 0, 0], &rest.concat()].concat()
    }

    /// A frame with a local table of two colours, and its end.
    fn gif_frame(place: [u16; 4]) -> Vec<u8> {
        let place = place.map(u16::to_le_bytes).concat();
        [[0x2c].as_slice(), &place, &[0x80], &[0; 6], &[2, 2, 0x4c, 1, 0]].concat()
    }

    fn webp_of(chunk: &[u8; 4], data: &[u8]) -> Vec<u8> {
        [b"RIFF\0\0\0\0WEBP".as_slice(), chunk, &[0; 4], data].concat()
    }

    #[test]
    fn media_types_are_of_pictures_with_usual_sizes() {
        let lossy = |w: u16, h: u16| {
            let size = [w.to_le_bytes(), h.to_le_bytes()].concat();
            webp_of(b"VP8 ", &[b"\0\0\0\x9d\x01\x2a".as_slice(), &size].concat())
        };
        let lossless = |w: u32, h: u32| {
            webp_of(b"VP8L", &[b"\x2f".as_slice(), &((w - 1) | ((h - 1) << 14)).to_le_bytes()].concat())
        };
        let extended = |w: u32, h: u32| {
            let (w, h) = ((w - 1).to_le_bytes(), (h - 1).to_le_bytes());
            webp_of(b"VP8X", &[[0; 4].as_slice(), &w[..3], &h[..3]].concat())
        };
        let (gif, webp) = (Some("image/gif"), Some("image/webp"));
        let comment = b"\x21\xfe\x03,,,\x01,\0".as_slice();
        let end = b"\x3b".as_slice();
        let with_table = [b"GIF87a\x01\0\x01\0\x80\0\0".as_slice(), b",,,,,,", &gif_frame([0, 0, 1, 8_001])];
        for (bytes, want) in [
            (png_of(8_000, 1), Some("image/png")),
            (png_of(8_001, 1), None),
            // The screen of a GIF, then its frames.
            (b"GIF89a".to_vec(), None),
            (b"GIF88a\x01\0\x01\0\0\0\0".to_vec(), None),
            (gif_of([1, 1], &[]), gif),
            (gif_of([8_000, 8_000], &[comment, &gif_frame([0, 0, 8_000, 8_000]), end]), gif),
            (gif_of([8_001, 1], &[]), None),
            (gif_of([1, u16::MAX], &[end]), None),
            (gif_of([0, 0], &[end]), None),
            (gif_of([0, 0], &[&gif_frame([0, 0, 5, 5]), end]), gif),
            (gif_of([1, 1], &[&gif_frame([0, 0, 8_001, 1])]), None),
            (gif_of([1, 1], &[comment, &gif_frame([0, 0, 1, 1]), &gif_frame([7_999, 0, 2, 1])]), None),
            (gif_of([1, 1], &[end, &gif_frame([0, 0, 8_001, 1])]), gif),
            (gif_of([1, 1], &[b"\0", &gif_frame([0, 0, 8_001, 1])]), None),
            (with_table.concat(), None),
            // A WebP by each of its first chunks.
            (b"RIFF0000WEBP".to_vec(), None),
            (lossy(8_000, 1), webp),
            // Two bits scale, and are not of the size.
            (lossy(0x4000 | 8_000, 0xc001), webp),
            (lossy(8_001, 1), None),
            (lossy(1, 0), None),
            (lossless(8_000, 8_000), webp),
            (lossless(8_001, 1), None),
            (lossless(1, 0x4000), None),
            (extended(1, 8_000), webp),
            (extended(1, 8_001), None),
            (extended(1 << 24, 1), None),
            (webp_of(b"VP8 ", b"\0\0\0\x9d\x01\x2b\x01\0\x01\0"), None),
            (webp_of(b"VP8L", b"\x2e\0\0\0\0"), None),
            (webp_of(b"ALPH", &[1; 20]), None),
        ] {
            assert_eq!(kind_of_begin(&bytes), want, "{bytes:02x?}");
        }
        for whole in [lossy(1, 1), lossless(1, 1), extended(1, 1), gif_of([1, 1], &[])] {
            assert!(kind_of_begin(&whole).is_some());
            assert_eq!(kind_of_begin(&whole[..whole.len() - 1]), None);
        }
    }

    #[test]
    fn large_ones_are_refused_with_their_measure() {
        for (size, width, height, want) in [
            (100, 8_000, 1, ""),
            (1 << 20, 1, 1, ""),
            ((1 << 20) + 1, 1, 1, "1048577 bytes"),
            (100, 8_001, 1, "8001 by 1 points"),
            (100, 1, u32::MAX, "4294967295 points"),
            (100, 0, 1, "0 by 1 points"),
        ] {
            let said = may_be_shown("p.png", size, &png_of(width, height)).err().map(|e| e.to_string());
            assert_eq!(said.is_none(), want.is_empty(), "{said:?}");
            assert!(said.unwrap_or_default().contains(want), "{want}");
        }
    }

    proptest::proptest! {
        #[test]
        fn arbitrary_picture_bytes_cause_no_panic(start in 0..7_usize, bytes in proptest::collection::vec(proptest::prelude::any::<u8>(), 0..200)) {
            let begins: [&[u8]; 7] = [
                b"", b"\xff\xd8\xff", b"\x89PNG\r\n\x1a\n\0\0\0\rIHDR", b"GIF89a",
                b"RIFF\0\0\0\0WEBPVP8 ", b"RIFF\0\0\0\0WEBPVP8L", b"RIFF\0\0\0\0WEBPVP8X",
            ];
            let bytes = [begins[start], &bytes].concat();
            let _ = picture(&bytes);
            let _ = kind_of_begin(&bytes);
        }
    }
}
