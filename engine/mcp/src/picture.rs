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

/// Media type of bytes that a client may take for a picture, by their beginning; `None` for all others. Pure.
pub(crate) fn kind_of_begin(bytes: &[u8]) -> Option<&'static str> {
    match bytes {
        [b'G', b'I', b'F', b'8', b'7' | b'9', b'a', ..] => Some("image/gif"),
        [b'R', b'I', b'F', b'F', _, _, _, _, b'W', b'E', b'B', b'P', ..] => Some("image/webp"),
        _ => picture(bytes).filter(Picture::is_of_a_usual_size).map(|picture| picture.kind),
    }
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
        fn arbitrary_picture_bytes_cause_no_panic(start in 0..3_usize, bytes in proptest::collection::vec(proptest::prelude::any::<u8>(), 0..200)) {
            let begins: [&[u8]; 3] = [b"", b"\xff\xd8\xff", b"\x89PNG\r\n\x1a\n\0\0\0\rIHDR"];
            let _ = picture(&[begins[start], &bytes].concat());
        }
    }
}
