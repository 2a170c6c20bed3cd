//! Long texts in parts that fit a page. A part says at which place the next one begins, so that only the file around
//! that place is read for it.

use std::fmt::Write as _;

use hotcell_state::report::ErrorReport;
use maud::{Markup, PreEscaped, html};

use crate::say::{line, said};

/// Size of a part's HTML, in bytes, at which it ends with the next piece of a line.
pub const MAX_PART_BYTES: usize = 72 * 1024;
/// Maximum length of a piece of a line, in characters. Longer lines are continued in further pieces.
pub const MAX_PIECE_CHARS: usize = 1000;
/// Bytes in a row of a text that is not UTF-8.
const ROW_BYTES: usize = 16;

/// A text with a title: a file, or a request's own words.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Section {
    /// Title; untrusted.
    pub title: String,
    /// Size in bytes.
    pub bytes: u64,
}

/// A place in several sections.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct Place {
    /// Number of the section, from 0.
    pub section: usize,
    /// Byte in it.
    pub offset: usize,
    /// Number of lines before that byte.
    pub lines: u64,
}

impl Place {
    /// Reads the form of `Display`; the beginning where it is not of that form.
    #[must_use]
    pub fn parse(text: &str) -> Self {
        let mut numbers = text.splitn(3, '.').map(str::parse);
        match (numbers.next(), numbers.next(), numbers.next()) {
            (Some(Ok(section)), Some(Ok(offset)), Some(Ok(lines))) => {
                Self { section, offset, lines: lines as u64 }
            }
            _ => Self::default(),
        }
    }
}

impl std::fmt::Display for Place {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        write!(f, "{}.{}.{}", self.section, self.offset, self.lines)
    }
}

/// A part of a text.
#[derive(Debug)]
pub struct Part {
    /// Lines.
    pub html: Markup,
    /// Where the next part begins; `None` at the end.
    pub next: Option<Place>,
    /// Number of escapes in it.
    pub escapes: usize,
}

/// The part that begins at a place. `load` reads a section.
///
/// # Errors
/// The error of `load`.
pub fn part(
    sections: &[Section],
    load: &dyn Fn(usize) -> Result<Vec<u8>, ErrorReport>,
    from: Place,
) -> Result<Part, ErrorReport> {
    let mut out = String::new();
    let mut place = from;
    while let Some(section) = sections.get(place.section) {
        if out.len() >= MAX_PART_BYTES {
            break;
        }
        let continued = place.offset > 0;
        let head = html! {
            h3 { (said(&section.title)) @if continued { " (continued)" } " " small { (section.bytes) " bytes" } }
        };
        let head = head.into_string() + "<div class=text>";
        // A title stands above at least one line of its text.
        if !out.is_empty() && out.len() + head.len() >= MAX_PART_BYTES {
            break;
        }
        out.push_str(&head);
        let bytes = load(place.section)?;
        let ended = match std::str::from_utf8(&bytes) {
            Ok(text) => lines(text, &mut place, &mut out),
            Err(_) => rows(&bytes, &mut place, &mut out),
        };
        out.push_str("</div>");
        if bytes.is_empty() {
            out.push_str("<p class=note>It is empty.</p>");
        }
        if !ended {
            break;
        }
        place = Place { section: place.section + 1, ..Place::default() };
    }
    let next = (place.section < sections.len()).then_some(place);
    let escapes = out.matches("<mark>").count();
    Ok(Part { html: PreEscaped(out), next, escapes })
}

/// Appends lines of a text from a place on, which is moved; true at the end of the text.
fn lines(text: &str, place: &mut Place, out: &mut String) -> bool {
    place.offset = text.floor_char_boundary(place.offset.min(text.len()));
    while place.offset < text.len() {
        if out.len() >= MAX_PART_BYTES {
            return false;
        }
        let rest = &text[place.offset..];
        let whole = &rest[..rest.find('\n').unwrap_or(rest.len())];
        let begins = place.offset == 0 || text.as_bytes()[place.offset - 1] == b'\n';
        let piece = whole.char_indices().nth(MAX_PIECE_CHARS).map_or(whole, |(at, _)| &whole[..at]);
        let shown = line(piece).into_string();
        let _ = match begins {
            true => write!(out, "<div data-n={}>{shown}</div>", place.lines + 1),
            false => write!(out, "<div class=c>{shown}</div>"),
        };
        place.offset += piece.len();
        if piece.len() == whole.len() {
            place.offset = (place.offset + 1).min(text.len());
            place.lines += 1;
        }
    }
    true
}

/// Appends rows of bytes in hexadecimal and as ASCII.
fn rows(bytes: &[u8], place: &mut Place, out: &mut String) -> bool {
    place.offset = place.offset.min(bytes.len());
    while place.offset < bytes.len() {
        if out.len() >= MAX_PART_BYTES {
            return false;
        }
        let row = &bytes[place.offset..(place.offset + ROW_BYTES).min(bytes.len())];
        let hex: String = row.iter().map(|byte| format!("{byte:02x} ")).collect();
        let ascii = row.iter().map(|b| if b.is_ascii_graphic() || *b == b' ' { char::from(*b) } else { '.' });
        let ascii = line(&ascii.collect::<String>()).into_string();
        let _ = write!(out, "<div class=x data-n={:x}>{hex:48}|{ascii}|</div>", place.offset);
        place.offset += row.len();
    }
    true
}

#[cfg(test)]
mod tests {
    use super::*;
    use proptest::prelude::*;

    fn all(texts: &[Vec<u8>]) -> (Vec<String>, usize) {
        let section =
            |(n, text): (usize, &Vec<u8>)| Section { title: format!("f{n}"), bytes: text.len() as u64 };
        let sections: Vec<_> = texts.iter().enumerate().map(section).collect();
        let (mut parts, mut from, mut escapes) = (Vec::new(), Place::default(), 0);
        loop {
            let part = part(&sections, &|at| Ok(texts[at].clone()), from).unwrap();
            parts.push(part.html.into_string());
            escapes += part.escapes;
            match part.next {
                Some(next) => {
                    assert_eq!(Place::parse(&next.to_string()), next);
                    assert_ne!(next, from, "it goes on");
                    from = next;
                }
                None => return (parts, escapes),
            }
        }
    }

    #[test]
    fn short_texts_are_one_part() {
        let (parts, escapes) = all(&[b"a\n\n<b>\n".to_vec(), Vec::new(), vec![0xff, b'A']]);
        assert_eq!((parts.len(), escapes), (1, 0));
        let html = &parts[0];
        for want in [
            "<div data-n=1>a</div><div data-n=2></div><div data-n=3>&lt;b&gt;</div></div>",
            "It is empty.",
            "<div class=x data-n=0>ff 41 ",
            "|.A|",
        ] {
            assert!(html.contains(want), "{want}: {html}");
        }
        assert!(all(&[]).0[0].is_empty());
    }

    #[test]
    fn long_line_and_many_lines_fit_parts() {
        let line = "x\u{202e}".repeat(200_000);
        let (parts, escapes) = all(&[line.clone().into_bytes(), "y\n".repeat(20_000).into_bytes()]);
        assert_eq!(escapes, 200_000);
        assert!(parts.len() > 20);
        let most = parts.iter().map(String::len).max().unwrap();
        assert!(most < 110 * 1024, "{most}");
        let text = parts.concat();
        assert_eq!(text.matches("<div data-n=1>").count(), 2, "a continued line has one number");
        assert!(text.contains("<div data-n=20000>y</div>"));
        assert_eq!(text.matches("<mark>").count(), 200_000);
    }

    proptest! {
        #[test]
        fn parts_have_whole_text(texts in prop::collection::vec(prop_oneof!["[a-z\n]{0,3000}", "[a-z\n]{0,3}"], 0..5)) {
            let bytes: Vec<Vec<u8>> = texts.iter().map(|text| text.clone().into_bytes()).collect();
            let (parts, _) = all(&bytes);
            let html = parts.concat();
            let shown: String = html.split("<div class=text>").skip(1).map(|section| {
                // A section without a line ends at once.
                let body = if section.starts_with("</div>") { "" } else { section };
                let body = body.split("</div></div>").next().unwrap_or_default();
                body.split('<').map(|tag| tag.split_once('>').map_or("", |(_, text)| text)).collect::<String>()
            }).collect();
            let want: String = texts.concat().replace('\n', "");
            prop_assert_eq!(shown, want);
        }

        #[test]
        fn any_place_is_safe(section in 0..9usize, offset in 0..99usize, lines in 0..9u64) {
            let text = "é\u{1f600}\nab".repeat(3).into_bytes();
            let sections = [Section { title: "a".to_owned(), bytes: 0 }];
            let from = Place { section, offset, lines };
            prop_assert!(part(&sections, &|_| Ok(text.clone()), from).is_ok());
        }
    }
}
