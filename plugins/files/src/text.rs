//! A part of a text file.

use std::io::BufRead;

/// Maximum size of the text in one answer, in bytes.
pub(crate) const MOST: usize = 1 << 20;

/// Some lines of a file.
#[derive(Debug, PartialEq)]
pub(crate) struct Part {
    pub(crate) content: String,
    pub(crate) first_line: u32,
    pub(crate) lines: u32,
    pub(crate) more: bool,
}

/// Reads `lines` lines from `first_line` (from 1) on, and no more than [`MOST`] bytes of whole lines. `size`
/// is the approximate size of the whole file: a buffer that has to grow touches memory twice.
pub(crate) fn part(mut from: impl BufRead, size: u64, first_line: u32, lines: u32) -> Result<Part, String> {
    let first_line = first_line.max(1);
    let binary = || "this is no text; use read-bytes".to_owned();
    let mut content = Vec::with_capacity(usize::try_from(size).unwrap_or(MOST).min(MOST));
    // Number of line ends still to skip, and to take.
    let (mut before, mut left) = (first_line - 1, lines);
    let more = loop {
        let piece = from.fill_buf().map_err(|e| e.to_string())?;
        let length = piece.len();
        if length == 0 {
            break false;
        }
        let (begin, passed) = ends(piece, before);
        let (skipped, rest) = piece.split_at(begin);
        if skipped.contains(&0) {
            return Err(binary());
        }
        let (end, taken) = ends(rest, left);
        (before, left) = (before - passed, left - taken);
        content.extend_from_slice(&rest[..end]);
        if content.len() > MOST {
            let kept = content[..MOST]
                .iter()
                .rposition(|byte| *byte == b'\n')
                .ok_or_else(|| format!("line {first_line} is longer than {MOST} bytes; use read-bytes"))?;
            left += ends(&content[kept + 1..], u32::MAX).1;
            content.truncate(kept + 1);
            break true;
        }
        if end < rest.len() {
            break true;
        }
        from.consume(length);
    };
    if content.contains(&0) {
        return Err(binary());
    }
    // The last line of a file may have no end.
    let open = u32::from(content.last().is_some_and(|last| *last != b'\n'));
    let content =
        String::from_utf8(content).map_err(|_| "this is no text in UTF-8; use read-bytes".to_owned())?;
    Ok(Part { content, first_line, lines: lines - left + open, more })
}

/// Position after the `most`-th line end, or after the last one, and the number of line ends up to there.
fn ends(bytes: &[u8], most: u32) -> (usize, u32) {
    if most == 0 {
        return (0, 0);
    }
    // There are seldom that many: counting without positions takes a tenth of the time.
    let all = count(bytes);
    if all < most {
        return (bytes.len(), all);
    }
    let mut found = 0;
    for (at, byte) in bytes.iter().enumerate() {
        found += u32::from(*byte == b'\n');
        if found == most {
            return (at + 1, found);
        }
    }
    (bytes.len(), found)
}

/// Counts line ends, eight bytes at a time.
fn count(bytes: &[u8]) -> u32 {
    const ENDS: u64 = u64::from_ne_bytes([b'\n'; 8]);
    const LOW: u64 = u64::from_ne_bytes([0x7f; 8]);
    let eights = bytes.chunks_exact(8);
    let rest = eights.remainder();
    let whole: u32 = eights
        .map(|eight| {
            let other = eight.try_into().map_or(0, u64::from_ne_bytes) ^ ENDS;
            // The highest bit of each byte that is not a line end.
            let other = (((other & LOW) + LOW) | other) & !LOW;
            8 - other.count_ones()
        })
        .sum();
    whole + rest.iter().map(|byte| u32::from(*byte == b'\n')).sum::<u32>()
}

#[cfg(test)]
mod tests {
    use std::io::BufReader;

    use super::*;

    #[test]
    fn lines_are_counted_from_one() {
        let text = "one\ntwo\r\nthree";
        for (first, lines, content, count, more) in [
            (1, 9, text, 3, false),
            (1, 3, text, 3, false),
            (0, 1, "one\n", 1, true),
            (2, 1, "two\r\n", 1, true),
            (3, 1, "three", 1, false),
            (4, 1, "", 0, false),
            (1, 0, "", 0, true),
        ] {
            let want = Part { content: content.into(), first_line: first.max(1), lines: count, more };
            for piece in 1..=text.len() {
                let pieces = BufReader::with_capacity(piece, text.as_bytes());
                assert_eq!(part(pieces, 3, first, lines).as_ref(), Ok(&want), "{first} {lines} by {piece}");
            }
        }
    }

    #[test]
    fn ends_of_lines_are_counted() {
        let every: Vec<u8> = (0..=255).cycle().take(4096).collect();
        assert_eq!(count(&every), 16);
        let text = b"\n\n\x0b\x8a\nabcdefg\n\x00\n\n\n\n\n\n\n\n\n";
        for from in 0..text.len() {
            let want = text[from..].iter().filter(|byte| **byte == b'\n').count();
            assert_eq!(count(&text[from..]) as usize, want, "{from}");
        }
    }

    #[test]
    fn binary_text_is_an_error() {
        assert!(part(&b"a\0b"[..], 3, 1, 1).unwrap_err().contains("read-bytes"));
        assert!(part(&b"a\0\nb"[..], 4, 2, 1).unwrap_err().contains("read-bytes"));
        assert!(part(&b"\xff\xfe"[..], 0, 1, 1).unwrap_err().contains("UTF-8"));
        let long = vec![b'a'; MOST + 1];
        assert!(part(&long[..], u64::MAX, 1, 1).unwrap_err().contains("line 1 is longer"));
        let second = [b"a\n".to_vec(), long].concat();
        let first = part(&second[..], 0, 1, 9).unwrap();
        assert_eq!((first.content.as_str(), first.lines, first.more), ("a\n", 1, true));
        let lines = "abc\n".repeat(MOST);
        for piece in [1000, 1 << 16, MOST] {
            let first = part(BufReader::with_capacity(piece, lines.as_bytes()), 0, 1, u32::MAX).unwrap();
            assert!(first.more && first.content.len() == MOST && first.lines as usize == MOST / 4, "{piece}");
        }
    }
}
