//! A part of a text file.

use std::io::BufRead;

/// At most so much text in one answer.
pub(crate) const MOST: usize = 1 << 20;

/// Some lines of a file.
#[derive(Debug, PartialEq)]
pub(crate) struct Part {
    pub(crate) content: String,
    pub(crate) first_line: u32,
    pub(crate) lines: u32,
    pub(crate) more: bool,
}

/// Reads `lines` lines from `first_line` (from 1) on, and no more than [`MOST`] bytes.
pub(crate) fn part(mut from: impl BufRead, first_line: u32, lines: u32) -> Result<Part, String> {
    let first_line = first_line.max(1);
    let mut content = Vec::new();
    let mut line = Vec::new();
    let (mut at, mut count) = (1, 0);
    let more = loop {
        line.clear();
        // A line longer than an answer is no line of a text.
        let read = std::io::Read::take(&mut from, MOST as u64 + 1).read_until(b'\n', &mut line);
        if read.map_err(|e| e.to_string())? == 0 {
            break false;
        }
        if line.contains(&0) {
            return Err("this is no text; use read-bytes".into());
        }
        if line.len() > MOST {
            return Err(format!("line {at} is longer than {MOST} bytes; use read-bytes"));
        }
        if at >= first_line {
            if count == lines || content.len() + line.len() > MOST {
                break true;
            }
            content.extend_from_slice(&line);
            count += 1;
        }
        at = at.saturating_add(1);
    };
    let content =
        String::from_utf8(content).map_err(|_| "this is no text in UTF-8; use read-bytes".to_owned())?;
    Ok(Part { content, first_line, lines: count, more })
}

#[cfg(test)]
mod tests {
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
            let part = part(text.as_bytes(), first, lines).unwrap();
            let want = Part { content: content.into(), first_line: first.max(1), lines: count, more };
            assert_eq!(part, want, "{first} {lines}");
        }
    }

    #[test]
    fn what_is_no_text_is_an_error() {
        assert!(part(&b"a\0b"[..], 1, 1).unwrap_err().contains("read-bytes"));
        assert!(part(&b"\xff\xfe"[..], 1, 1).unwrap_err().contains("UTF-8"));
        let long = vec![b'a'; MOST + 1];
        assert!(part(&long[..], 1, 1).unwrap_err().contains("line 1 is longer"));
        let lines = "a\n".repeat(MOST);
        let first = part(lines.as_bytes(), 1, u32::MAX).unwrap();
        assert!(first.more && first.content.len() == MOST);
    }
}
