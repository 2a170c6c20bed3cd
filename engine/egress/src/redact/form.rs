//! One form of a secret value, and its spellings: each character may be written as itself or escaped as in URLs, JSON, scripts and HTML,
//! mixed as the writer likes. Pure.

use zeroize::Zeroizing;

/// Maximum number of bytes between two characters of base64: breaks of lines and their indentation.
const MAX_BREAK_BYTES: usize = 16;
/// Maximum number of places at which a text may be read on: where the value has characters that begin an escape.
const MAX_READINGS: usize = 8;
/// Maximum number of digits of a character reference, with zeros in front.
const MAX_DIGITS: usize = 10;
/// Names of ASCII's signs in HTML (<https://html.spec.whatwg.org/multipage/named-characters.html>).
pub(super) const ENTITIES: &[(u8, &[&str])] = &[
    (b'!', &["excl"]),
    (b'"', &["quot", "QUOT"]),
    (b'#', &["num"]),
    (b'$', &["dollar"]),
    (b'%', &["percnt"]),
    (b'&', &["amp", "AMP"]),
    (b'\'', &["apos"]),
    (b'(', &["lpar"]),
    (b')', &["rpar"]),
    (b'*', &["ast", "midast"]),
    (b'+', &["plus"]),
    (b',', &["comma"]),
    (b'.', &["period"]),
    (b'/', &["sol"]),
    (b':', &["colon"]),
    (b';', &["semi"]),
    (b'<', &["lt", "LT"]),
    (b'=', &["equals"]),
    (b'>', &["gt", "GT"]),
    (b'?', &["quest"]),
    (b'@', &["commat"]),
    (b'[', &["lsqb", "lbrack"]),
    (b'\\', &["bsol"]),
    (b']', &["rsqb", "rbrack"]),
    (b'^', &["Hat"]),
    (b'_', &["lowbar", "UnderBar"]),
    (b'`', &["grave", "DiacriticalGrave"]),
    (b'{', &["lcub", "lbrace"]),
    (b'|', &["verbar", "vert", "VerticalLine"]),
    (b'}', &["rcub", "rbrace"]),
];

/// A form: its characters, each with the other one that may stand for it, and whether lines may be broken between them.
pub(super) struct Form {
    characters: Zeroizing<Vec<[u8; 2]>>,
    is_broken: bool,
}

/// The text from a place on.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum Seen {
    /// The text is the form up to this place.
    Whole(usize),
    /// It may become the form when more of the text is there.
    Begun,
    /// The text is not the form.
    Other,
}

impl Form {
    pub(super) fn new(characters: Vec<[u8; 2]>, is_broken: bool) -> Self {
        Self { characters: Zeroizing::new(characters), is_broken }
    }

    /// Number of characters.
    pub(super) fn len(&self) -> usize {
        self.characters.len()
    }

    /// Bytes that may stand for each character.
    pub(super) fn characters(&self) -> impl Iterator<Item = [u8; 2]> {
        self.characters.iter().copied()
    }

    /// Whether lines may be broken between characters.
    pub(super) const fn is_broken(&self) -> bool {
        self.is_broken
    }

    /// Bytes with which the form may begin.
    pub(super) fn firsts(&self) -> impl Iterator<Item = u8> {
        let first = self.characters.first().copied().unwrap_or_default();
        let second = (first[1] != first[0]).then_some(first[1]);
        [first[0]].into_iter().chain(second).chain(*b"%\\&")
    }

    /// Reads the text from `start` on.
    pub(super) fn read(&self, text: &[u8], start: usize) -> Seen {
        let mut places = Places::default();
        places.add(start);
        let mut begun = false;
        for (number, character) in self.characters.iter().enumerate() {
            let mut next = Places::default();
            for place in places.all() {
                let place = if self.is_broken && number > 0 { after_break(text, place) } else { place };
                let rest = text.get(place..).unwrap_or_default();
                let alike = character[0] == character[1];
                for byte in &character[..if alike { 1 } else { 2 }] {
                    begun |= spelled(*byte, rest, &mut |length| next.add(place + length));
                }
            }
            places = next;
            if places.count == 0 {
                break;
            }
        }
        match places.all().max() {
            Some(end) => Seen::Whole(end),
            None if begun => Seen::Begun,
            None => Seen::Other,
        }
    }
}

/// A few different places.
#[derive(Default)]
struct Places {
    places: [usize; MAX_READINGS],
    count: usize,
}

impl Places {
    fn add(&mut self, place: usize) {
        if self.count < MAX_READINGS && !self.all().any(|one| one == place) {
            self.places[self.count] = place;
            self.count += 1;
        }
    }

    fn all(&self) -> impl Iterator<Item = usize> + use<> {
        self.places.into_iter().take(self.count)
    }
}

/// The place behind breaks of lines, which may be escaped.
fn after_break(text: &[u8], start: usize) -> usize {
    let mut at = start;
    while at - start < MAX_BREAK_BYTES {
        match text.get(at..).unwrap_or_default() {
            [b'\r' | b'\n' | b' ' | b'\t', ..] => at += 1,
            [b'\\', b'r' | b'n' | b't', ..] => at += 2,
            _ => break,
        }
    }
    at
}

/// Gives the length of each spelling of a byte with which the text begins; returns whether it may begin with one when more of it is there.
fn spelled(byte: u8, text: &[u8], add: &mut impl FnMut(usize)) -> bool {
    let Some((first, rest)) = text.split_first() else { return true };
    if *first == byte {
        add(1);
    }
    match first {
        b'%' => percent(byte, rest, add),
        b'\\' => escape(byte, rest, add),
        b'&' => reference(byte, rest, add),
        _ => false,
    }
}

/// `%2B`, also encoded again as `%252B`.
fn percent(byte: u8, rest: &[u8], add: &mut impl FnMut(usize)) -> bool {
    let mut begun = false;
    for again in 0..3 {
        let want = &b"2525"[..2 * again];
        let (front, digits) = rest.split_at(rest.len().min(want.len()));
        if front.len() < want.len() || front != want {
            begun |= want.starts_with(front);
            break;
        }
        begun |= is_number(byte, digits, 2).is_none_or(|is| {
            if is {
                add(1 + 2 * again + 2);
            }
            false
        });
    }
    begun
}

/// `\/`, `\x2b` and `\u002b`.
fn escape(byte: u8, rest: &[u8], add: &mut impl FnMut(usize)) -> bool {
    let Some((kind, digits)) = rest.split_first() else { return true };
    if *kind == byte && byte.is_ascii_punctuation() {
        add(2);
    }
    let (length, width) = match kind {
        b'x' => (4, 2),
        b'u' => (6, 4),
        _ => return false,
    };
    is_number(byte, digits, width).is_none_or(|is| {
        if is {
            add(length);
        }
        false
    })
}

/// Whether `width` hexadecimal digits are those of a byte; `None` when they may become so.
fn is_number(byte: u8, digits: &[u8], width: usize) -> Option<bool> {
    let want = [b'0', b'0', hex(byte >> 4), hex(byte & 15)];
    let want = &want[4 - width..];
    let there = &digits[..digits.len().min(width)];
    let is_alike = there.eq_ignore_ascii_case(&want[..there.len()]);
    (there.len() == width || !is_alike).then_some(is_alike)
}

const fn hex(nibble: u8) -> u8 {
    if nibble < 10 { b'0' + nibble } else { b'a' + nibble - 10 }
}

/// `&#43;`, `&#x2B;` and `&plus;`. The semicolon may be left out of a number.
fn reference(byte: u8, rest: &[u8], add: &mut impl FnMut(usize)) -> bool {
    let Some(number) = rest.strip_prefix(b"#") else {
        return name(byte, rest, add);
    };
    let (digits, radix, front) = match number {
        [b'x' | b'X', digits @ ..] => (digits, 16, 3),
        _ => (number, 10, 2),
    };
    let count =
        digits.iter().take(MAX_DIGITS).take_while(|digit| char::from(**digit).is_digit(radix)).count();
    let value =
        std::str::from_utf8(&digits[..count]).ok().and_then(|text| u64::from_str_radix(text, radix).ok());
    if value == Some(u64::from(byte)) {
        add(front + count + usize::from(digits.get(count) == Some(&b';')));
    }
    // More digits may come.
    count == digits.len() && value.is_none_or(|value| value <= u64::from(byte))
}

fn name(byte: u8, rest: &[u8], add: &mut impl FnMut(usize)) -> bool {
    let mut begun = rest.is_empty();
    let names = ENTITIES.iter().filter(|(sign, _)| *sign == byte).flat_map(|(_, names)| *names);
    for name in names {
        let whole = [name.as_bytes(), b";"].concat();
        if rest.starts_with(&whole) {
            add(1 + whole.len());
        }
        begun |= rest.len() < whole.len() && whole.starts_with(rest);
    }
    begun
}

#[cfg(test)]
pub(super) mod tests {
    use super::*;
    use proptest::prelude::*;

    fn read(form: &str, is_broken: bool, text: &str) -> Seen {
        let characters = form.bytes().map(|byte| [byte, byte]).collect();
        Form::new(characters, is_broken).read(text.as_bytes(), 0)
    }

    #[test]
    fn characters_are_read_in_every_spelling() {
        for text in [
            "a+/",
            "a%2b%2F",
            "%61%2B%2f",
            "a%252B/",
            "a%25252b/",
            r"a\u002b\u002F",
            r"a\x2b\/",
            r"\u0061+/",
            "a&#43;&#x2F;",
            "a&#043&#X02f/",
            "a&plus;&sol;",
            "&#97;&#43;&#47;",
        ] {
            let want = if text == "a&#043&#X02f/" { text.len() - 1 } else { text.len() };
            assert_eq!(read("a+/", false, text), Seen::Whole(want), "{text}");
            for cut in 0..want {
                let seen = read("a+/", false, &text[..cut]);
                assert!(matches!(seen, Seen::Begun | Seen::Whole(_)), "{text} {cut}: {seen:?}");
            }
        }
        for text in ["a-/", "a%2c", "a&minus", "b", "a%20", r"a\u003b", "a&#44;", "a&#x2c", "a\n+"] {
            assert_eq!(read("a+/", false, text), Seen::Other, "{text}");
        }
    }

    #[test]
    fn signs_of_escapes_are_characters_too() {
        for text in ["%\\&%", "%25\\&%", "%\\\\&amp;%25", "&percnt;&bsol;&&#37;", "%25%5C%26%25"] {
            assert_eq!(read("%\\&%", false, text), Seen::Whole(text.len()), "{text}");
        }
    }

    #[test]
    fn lines_are_broken_where_that_is_said() {
        for text in ["ab\r\n  c", "a\nb\\r\\nc", "abc"] {
            assert_eq!(read("abc", true, text), Seen::Whole(text.len()), "{text:?}");
        }
        assert_eq!(read("abc", true, "ab\n"), Seen::Begun);
        assert_eq!(read("abc", true, &format!("ab{}c", "\n".repeat(40))), Seen::Other);
        assert_eq!(read("abc", true, "\nabc"), Seen::Other);
    }

    /// A character in one of its spellings.
    pub(in crate::redact) fn spelling(byte: u8, how: usize) -> String {
        let character = char::from(byte);
        match how {
            0 => format!("%{byte:02x}"),
            1 => format!("%25{byte:02X}"),
            2 => format!("%2525{byte:02x}"),
            3 => format!("\\u{byte:04x}"),
            4 => format!("\\x{byte:02X}"),
            5 => format!("&#{byte};"),
            6 => format!("&#x0{byte:x};"),
            7 if byte == b'+' => "&plus;".to_owned(),
            8 if byte.is_ascii_punctuation() => format!("\\{character}"),
            9 => format!("&#000{byte};"),
            10 => format!("&#X{byte:X};"),
            _ => character.to_string(),
        }
    }

    proptest! {
        #[test]
        fn every_beginning_of_a_spelling_is_held_back(
            value in "[ab%&+/\\\\]{1,6}", how in proptest::collection::vec(0..12_usize, 6), breaks in any::<bool>(),
        ) {
            let ends: Vec<String> = value.bytes().zip(how).map(|(byte, how)| spelling(byte, how)).collect();
            let text = ends.join(if breaks { "\\r\n" } else { "" });
            for end in 0..text.len() {
                let seen = read(&value, breaks, &text[..end]);
                prop_assert_ne!(seen, Seen::Other, "{} of {}", &text[..end], text);
            }
            prop_assert_ne!(read(&value, breaks, &text), Seen::Other);
        }
    }
}
