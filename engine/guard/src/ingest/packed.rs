//! Archives and compressed files in formats that the guard does not unpack: left for review, and never
//! counted as data.

/// Maximum plausible length of a name in a cpio archive, in bytes.
const MAX_NAME: u16 = 4096;
/// Number of bytes at the start of unknown data that are searched for a program or an archive.
const HEAD_LEN: usize = 512;

/// Offset of the magic number, the number, and the format.
const MAGIC: &[(usize, &[u8], &str)] = &[
    (0, b"!<arch>\n", "ar"),
    (0, b"!<thin>\n", "ar"),
    (0, b"\x04\x22\x4d\x18", "lz4"),
    (0, b"\x02\x21\x4c\x18", "lz4"),
    (0, b"\x89LZO\0\r\n\x1a\n", "lzop"),
    (0, b"LZIP\0", "lzip"),
    (0, b"LZIP\x01", "lzip"),
    (0, b"LRZI\0", "lrzip"),
    (0, b"RZIP\x02", "rzip"),
    (0, b"\x1f\x1e", "pack"),
    (0, b"\x1f\x9f", "freeze"),
    (0, b"\x1f\xa0", "lzh"),
    (0, b"Rar!\x1a\x07", "rar"),
    (0, b"MSCF\0\0\0\0", "cabinet"),
    (0, b"ISc(", "installshield"),
    (0, b"MSWIM\0\0\0", "wim"),
    (0, b"ITSF\x03\0\0\0", "chm"),
    (0, b"xar!\0", "xar"),
    (0, b"\xff\x06\0\0sNaPpY", "snappy"),
    (0, b"bvx-", "lzfse"),
    (0, b"bvx1", "lzfse"),
    (0, b"bvx2", "lzfse"),
    (0, b"bvxn", "lzfse"),
    (0, b"7kSt", "zpaq"),
    (0, b"zPQ\x01", "zpaq"),
    (0, b"zPQ\x02", "zpaq"),
    (0, b"\xed\xab\xee\xdb", "rpm"),
    (0, b"hsqs", "squashfs"),
    (0, b"sqsh", "squashfs"),
    (0, b"\x45\x3d\xcd\x28", "cramfs"),
    (0, b"\x28\xcd\x3d\x45", "cramfs"),
    (0, b"-rom1fs-", "romfs"),
    (7, b"**ACE**", "ace"),
    (20, b"\xdc\xa7\xc4\xfd", "zoo"),
    (1024, b"\xe2\xe1\xf5\xe0", "erofs"),
    (0x8001, b"CD001", "iso 9660"),
];

/// Format of an archive or compressed file that is not unpacked, if it is one.
pub(super) fn kind(bytes: &[u8]) -> Option<&'static str> {
    let is_there = |at: usize, magic: &[u8]| bytes.get(at..).is_some_and(|rest| rest.starts_with(magic));
    if let Some((_, _, what)) = MAGIC.iter().find(|(at, magic, _)| is_there(*at, magic)) {
        return Some(what);
    }
    if is_cpio(bytes) {
        return Some("cpio");
    }
    match bytes {
        // The third byte: the maximum number of bits per code, and two flags that are always clear.
        [0x1f, 0x9d, bits, ..] if bits & 0x60 == 0 && (9..=16).contains(&(bits & 0x1f)) => Some("compress"),
        [_, _, b'-', b'l', b'h' | b'z', _, b'-', ..] if bytes.get(20).is_some_and(|level| *level < 4) => {
            Some("lha")
        }
        // Size of the first header.
        [0x60, 0xea, low, high, ..] if (1..=2600).contains(&u16::from_le_bytes([*low, *high])) => Some("arj"),
        _ => None,
    }
}

/// True for the four formats of cpio: with hexadecimal, octal, and binary numbers of either byte order.
fn is_cpio(bytes: &[u8]) -> bool {
    let digits =
        |from: usize, to: usize, is: fn(&u8) -> bool| bytes.get(from..to).is_some_and(|d| d.iter().all(is));
    let word = |at: usize, is_big: bool| {
        let pair = [bytes[at], bytes[at + 1]];
        if is_big { u16::from_be_bytes(pair) } else { u16::from_le_bytes(pair) }
    };
    match bytes {
        [b'0', b'7', b'0', b'7', b'0', b'1' | b'2', ..] => digits(6, 110, u8::is_ascii_hexdigit),
        [b'0', b'7', b'0', b'7', b'0', b'7', ..] => digits(6, 76, |d| matches!(d, b'0'..=b'7')),
        [0xc7, 0x71, ..] | [0x71, 0xc7, ..] if bytes.len() > 26 => {
            let size = word(20, bytes[0] == 0x71);
            // Names end with a zero.
            (1..=MAX_NAME).contains(&size) && bytes.get(25 + usize::from(size)) == Some(&0)
        }
        _ => false,
    }
}

/// True for the header of a tar, including the oldest format: checks the checksum.
pub(super) fn is_tar_header(block: &[u8]) -> bool {
    let Some(block) = block.get(..512) else { return false };
    let field = &block[148..156];
    let digits: Vec<u8> =
        field.iter().copied().skip_while(|b| *b == b' ').take_while(|b| matches!(b, b'0'..=b'7')).collect();
    let own = digits.iter().fold(0u32, |sum, digit| sum * 8 + u32::from(digit - b'0'));
    let sum: u32 = block.iter().map(|b| u32::from(*b)).sum();
    let without: u32 = field.iter().map(|b| u32::from(*b)).sum();
    !digits.is_empty() && own == sum - without + 8 * u32::from(b' ') && block[0] != 0
}

/// True when a program or an archive begins within the head of unknown data, where `tail` or `dd` could
/// extract it.
pub(super) fn hides(bytes: &[u8], magics: &[&[u8]]) -> bool {
    (0..bytes.len().min(HEAD_LEN)).any(|at| {
        let rest = &bytes[at..];
        let is = |magic: &&[u8]| magic.len() > 3 && rest.starts_with(magic);
        rest.starts_with(b"#!/")
            || rest.starts_with(b"#! /")
            || magics.iter().any(is)
            || MAGIC.iter().any(|(offset, magic, _)| *offset == 0 && is(magic))
    })
}
