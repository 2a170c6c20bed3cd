//! Machine code, or only its headers: checks if a loader could find code in the file.
//!
//! Names and sizes do not matter, only data that a loader would need and that is missing from the file. In
//! case of doubt (a header that can be read in two ways, tables in odd places) the answer is that there is
//! code, and the file stays unread.

/// How header fields are decoded.
#[derive(Clone, Copy)]
struct View<'a> {
    bytes: &'a [u8],
    wide: bool,
    big: bool,
}

impl View<'_> {
    fn number(self, at: usize, width: usize) -> Option<u64> {
        let field = self.bytes.get(at..at.checked_add(width)?)?;
        let add = |sum: u64, byte: &u8| sum << 8 | u64::from(*byte);
        Some(if self.big { field.iter().fold(0, add) } else { field.iter().rev().fold(0, add) })
    }

    /// A field whose offset and size depend on the address size.
    fn word(self, narrow: usize, wide: usize) -> Option<u64> {
        if self.wide { self.number(wide, 8) } else { self.number(narrow, 4) }
    }

    /// True when at least one byte of a range is in the file.
    fn holds(self, offset: u64, size: u64) -> bool {
        size > 0 && offset < self.bytes.len() as u64
    }
}

/// True when an ELF file contains code, in any address size and byte order (the kernel does not check the
/// marks for these).
///
/// A program needs its segment table in the file, and also bytes at its entry point or in its dynamic
/// section: constructors, needed libraries and the code itself are reached from these two. An object file
/// needs a section of code. An interpreter other than a dynamic linker could use the file in any way.
pub(super) fn elf(bytes: &[u8]) -> bool {
    [(false, false), (true, false), (false, true), (true, true)]
        .into_iter()
        .any(|(wide, big)| elf_as(View { bytes, wide, big }) == Some(true))
}

/// `None` when a table is not in the file.
fn elf_as(view: View<'_>) -> Option<bool> {
    const OBJECT: u64 = 1;
    let at = |field: u64| usize::try_from(field).ok();
    let (entry, segments, sections) = (view.word(24, 24)?, view.word(28, 32)?, view.word(32, 40)?);
    let counts = if view.wide { 54 } else { 42 };
    let (each, count) = (at(view.number(counts, 2)?)?, view.number(counts + 2, 2)?);
    let (own, parts) = (at(view.number(counts + 4, 2)?)?, view.number(counts + 6, 2)?);
    if view.number(16, 2)? == OBJECT {
        let mut code = false;
        for number in 0..parts {
            let head = at(sections)?.checked_add(at(number)?.checked_mul(own)?)?;
            let Some(kind) = view.number(head + 4, 4) else { break };
            let inner = View { bytes: view.bytes.get(head..)?, ..view };
            let flags = inner.word(8, 8)?;
            let (offset, size) = if view.wide {
                (inner.number(24, 8)?, inner.number(32, 8)?)
            } else {
                (inner.number(16, 4)?, inner.number(20, 4)?)
            };
            code |= kind != 8 && flags & 4 != 0 && view.holds(offset, size);
        }
        // The number of sections is too large for its field, and stored elsewhere.
        return Some(code || parts == 0 && view.holds(sections, 1));
    }
    let mut code = false;
    for number in 0..count {
        let head = at(segments)?.checked_add(at(number)?.checked_mul(each)?)?;
        let inner = View { bytes: view.bytes.get(head..)?, ..view };
        let kind = inner.number(0, 4)?;
        let (offset, address) = (inner.word(4, 8)?, inner.word(8, 16)?);
        let size = inner.word(16, 32)?;
        code |= match kind {
            // Offset of the entry point in the segment.
            1 => {
                let inside = entry.wrapping_sub(address);
                entry != 0 && inside < size && view.holds(offset.saturating_add(inside), 1)
            }
            2 => view.holds(offset, size),
            3 => {
                let path = at(offset).zip(at(size)).and_then(|(o, s)| view.bytes.get(o..o.checked_add(s)?));
                path.is_some_and(|path| {
                    let text = String::from_utf8_lossy(path);
                    let base = crate::rules::basename(text.trim_end_matches('\0'));
                    !(base.starts_with("ld-") || base.starts_with("ld.") || base.starts_with("ld64."))
                })
            }
            _ => false,
        };
    }
    Some(code)
}

/// True when a program for DOS or Windows contains code: an entry point in the image's headers, a section
/// with bytes in the file, or, without an image, bytes after the DOS header.
pub(super) fn pe(bytes: &[u8]) -> bool {
    let view = View { bytes, wide: false, big: false };
    image(view).unwrap_or_else(|| view.number(8, 2).is_some_and(|head| view.holds(head * 16, 1)))
}

/// `None` when the image's headers are not in the file.
fn image(view: View<'_>) -> Option<bool> {
    let begin = usize::try_from(view.number(0x3c, 4)?).ok()?;
    let inner = View { bytes: view.bytes.get(begin..)?, ..view };
    if inner.bytes.get(..4)? != b"PE\0\0" {
        return None;
    }
    let (sections, optional) = (inner.number(6, 2)?, usize::try_from(inner.number(20, 2)?).ok()?);
    let (entry, headers) = (inner.number(24 + 16, 4)?, inner.number(24 + 60, 4)?);
    if entry != 0 && entry < headers && view.holds(entry, 1) {
        return Some(true);
    }
    Some((0..usize::try_from(sections).ok()?).any(|number| {
        let head = 24 + optional + 40 * number;
        let (size, offset) = (inner.number(head + 16, 4), inner.number(head + 20, 4));
        size.zip(offset).is_some_and(|(size, offset)| view.holds(offset, size))
    }))
}

/// True when a Mach-O file could be mapped: its commands and all its segments are in the file. The kernel
/// refuses a segment beyond the end.
pub(super) fn macho(bytes: &[u8]) -> bool {
    let view = View {
        bytes,
        wide: bytes.first() == Some(&0xcf) || bytes.get(3) == Some(&0xcf),
        big: bytes.first() == Some(&0xfe),
    };
    mapped(view).unwrap_or(false)
}

fn mapped(view: View<'_>) -> Option<bool> {
    let commands = view.number(16, 4)?;
    let mut at = if view.wide { 32 } else { 28 };
    let mut found = false;
    for _ in 0..commands {
        let (kind, size) = (view.number(at, 4)?, usize::try_from(view.number(at + 4, 4)?).ok()?);
        let inner = View { bytes: view.bytes.get(at..)?, ..view };
        if kind == 1 || kind == 0x19 {
            let (offset, length) = (inner.word(32, 40)?, inner.word(36, 48)?);
            if offset.checked_add(length)? > view.bytes.len() as u64 {
                return Some(false);
            }
            found |= length > 0;
        }
        at = at.checked_add(size.max(8))?;
    }
    // Without segments it is an object file, in which the place of code is unknown.
    Some(found)
}

#[cfg(test)]
mod tests {
    use super::*;

    /// A program with `segments` (kind, offset, address, size), followed by `body` bytes.
    fn program(wide: bool, big: bool, entry: u64, segments: &[(u64, u64, u64, u64)], body: usize) -> Vec<u8> {
        let mut out = vec![0x7f, b'E', b'L', b'F', 1 + u8::from(wide), 1 + u8::from(big), 1];
        out.resize(16, 0);
        let put = |out: &mut Vec<u8>, value: u64, width: usize| {
            let bytes = value.to_be_bytes();
            let own = &bytes[8 - width..];
            if big { out.extend(own) } else { out.extend(own.iter().rev()) }
        };
        let word = if wide { 8 } else { 4 };
        let (head, each) = if wide { (64, 56) } else { (52, 32) };
        for (value, width) in [
            (3, 2),
            (62, 2),
            (1, 4),
            (entry, word),
            (head, word),
            (0, word),
            (0, 4),
            (head, 2),
            (each, 2),
            (segments.len() as u64, 2),
            (0, 2),
            (0, 2),
            (0, 2),
        ] {
            put(&mut out, value, width);
        }
        for (kind, offset, address, size) in segments {
            let wide_fields =
                [(*kind, 4), (5, 4), (*offset, 8), (*address, 8), (0, 8), (*size, 8), (*size, 8), (0, 8)];
            let fields =
                [(*kind, 4), (*offset, 4), (*address, 4), (0, 4), (*size, 4), (*size, 4), (5, 4), (0, 4)];
            for (value, width) in if wide { wide_fields } else { fields } {
                put(&mut out, value, width);
            }
        }
        out.resize(out.len() + body, 0x90);
        out
    }

    #[test]
    fn code_is_where_a_loader_finds_it() {
        for (wide, big) in [(false, false), (true, false), (false, true), (true, true)] {
            let make = |entry, segments: &[_], body| program(wide, big, entry, segments, body);
            for (what, bytes, code) in [
                ("a program", make(0x1100, &[(1, 0, 0x1000, 0x400)], 1024), true),
                ("a program with too long a segment", make(0x1100, &[(1, 0, 0x1000, 1 << 20)], 1024), true),
                ("entered in its own header", make(0x1004, &[(1, 0, 0x1000, 0x400)], 0), true),
                ("entered beyond the end", make(0x9000, &[(1, 0x1000, 0x9000, 0x400)], 1024), false),
                ("nothing to enter", make(0, &[(1, 0, 0, 0x400)], 1024), false),
                ("a library", make(0, &[(1, 0, 0, 0x400), (2, 0x100, 0x100, 0x40)], 1024), true),
                ("a library cut off", make(0, &[(1, 0, 0, 0x400), (2, 0x4000, 0x100, 0x40)], 1024), false),
                ("only a header", make(0x1100, &[(1, 0, 0x1000, 0x400)], 0)[..52].to_vec(), false),
                ("nothing", b"\x7fELF".to_vec(), false),
            ] {
                assert_eq!(elf(&bytes), code, "{what}, wide {wide}, big {big}");
                let mut marked = bytes.clone();
                marked.get_mut(4).into_iter().for_each(|class| *class = 9);
                assert_eq!(elf(&marked), code, "{what}, marked wrongly");
            }
        }
        let mut strange = program(true, false, 0x9000, &[(3, 200, 0, 9)], 512);
        strange[200..209].copy_from_slice(b"/bin/run\0");
        assert!(elf(&strange), "handed to a program");
        strange[200..209].copy_from_slice(b"/lib/ld-\0");
        assert!(!elf(&strange), "handed to the dynamic linker, with nothing to load");
    }

    #[test]
    fn images_of_other_systems() {
        let mut windows = b"MZ".to_vec();
        windows.resize(0x40, 0);
        windows[0x3c] = 0x40;
        windows.extend(b"PE\0\0\x64\x86\x01\0");
        windows.resize(0x40 + 24 + 40 + 96, 0);
        windows[0x40 + 20] = 96;
        let section = 0x40 + 24 + 96;
        windows[section + 17] = 2;
        windows[section + 21] = 2;
        assert!(!pe(&windows), "its section lies beyond the end");
        windows.resize(0x300, 0x90);
        assert!(pe(&windows));
        assert!(pe(&[&b"MZ"[..], &[0; 6], &[4, 0], &[0x90; 200]].concat()), "a program for DOS");
        let mut mac = b"\xcf\xfa\xed\xfe".to_vec();
        mac.resize(32, 0);
        mac[16] = 1;
        mac.extend([0x19, 0, 0, 0, 72, 0, 0, 0]);
        mac.resize(32 + 72, 0);
        mac[32 + 49] = 1;
        assert!(!macho(&mac), "its segment ends beyond the end");
        mac.resize(256, 0x90);
        assert!(macho(&mac));
        assert!(!macho(&mac[..40]));
    }
}
