//! Finds the spellings of a secret value in bytes that come from a host, and masks them. Pure.
//!
//! A host that receives a value can encode it in ways that are not searched for, so this is a help against accidents, such as an error
//! message with the request's headers, and not a wall.

mod form;
mod pairs;
mod samples;

use std::fmt;

use base64::Engine as _;
use base64::engine::general_purpose::STANDARD_NO_PAD;
use form::{Form, Seen};
use pairs::Pairs;
use samples::Samples;
use zeroize::Zeroizing;

/// Minimum length in bytes of a value or an encoded form that is searched for: shorter ones occur by chance.
pub const MIN_REDACTED_BYTES: usize = 8;
/// Byte that takes the place of each masked byte, so that lengths stay as the host said them. A letter of header names and values.
const MASK: u8 = b'*';

/// Forms of one or more values. Their memory is overwritten when they are dropped.
#[derive(Default)]
pub struct Spellings {
    forms: Vec<Form>,
    /// Tells where in a text no form can begin, which makes the search fast.
    samples: Samples,
    /// Pairs of bytes with which a form may begin: most of the other places are told by it to begin none.
    begins: Pairs,
}

impl fmt::Debug for Spellings {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "Spellings({})", self.forms.len())
    }
}

impl Spellings {
    /// Adds the forms of a value: as it is, in base64 (also within a longer text, and with lines broken) and in hexadecimal. In each form any
    /// character may be percent-encoded, or escaped as in JSON and HTML. Forms shorter than [`MIN_REDACTED_BYTES`] are left out.
    pub fn add(&mut self, value: &[u8]) {
        for form in forms(value).into_iter().filter(|form| form.len() >= MIN_REDACTED_BYTES) {
            self.samples.add(&form);
            for first in form.firsts() {
                for second in 0..=u8::MAX {
                    // By the reader itself, so that both agree.
                    if form.read(&[first, second], 0) != Seen::Other {
                        self.begins.add(first, second);
                    }
                }
            }
            self.forms.push(form);
        }
    }

    /// Whether there is no form.
    #[must_use]
    pub const fn is_empty(&self) -> bool {
        self.forms.is_empty()
    }

    /// Whether a value, from its first to its last byte, is masked already.
    #[must_use]
    pub fn cover(&self, value: &[u8]) -> bool {
        self.find(value).0.contains(&(0, value.len()))
    }

    /// Masks all forms in `bytes`; returns whether there was one.
    pub fn mask(&self, bytes: &mut [u8]) -> bool {
        let (found, _) = self.find(bytes);
        for &(start, end) in &found {
            bytes[start..end].fill(MASK);
        }
        !found.is_empty()
    }

    /// Begins to mask a stream.
    #[must_use]
    pub fn stream(&self) -> Redactor<'_> {
        Redactor { spellings: self, held: Zeroizing::new(Vec::new()), masked: 0 }
    }

    /// Start and end of each occurrence, which may overlap, and the position from which on the end of `bytes` may be the beginning of one.
    fn find(&self, bytes: &[u8]) -> (Vec<(usize, usize)>, usize) {
        let (mut found, mut begun) = (Vec::new(), bytes.len());
        if self.forms.is_empty() {
            return (found, begun);
        }
        let mut look = |start: usize| {
            for form in &self.forms {
                match form.read(bytes, start) {
                    Seen::Whole(end) => found.push((start, end)),
                    Seen::Begun => begun = begun.min(start),
                    Seen::Other => {}
                }
            }
        };
        self.samples.ranges(bytes, |first, end| {
            let last = (end + 1).min(bytes.len());
            for (start, two) in (first..).zip(bytes[first..last].windows(2)) {
                if self.begins.has(two[0], two[1]) {
                    look(start);
                }
            }
        });
        if let Some(last) = bytes.len().checked_sub(1) {
            look(last);
        }
        (found, begun)
    }
}

/// Masks a stream, also where a form is spread over several pieces. Only bytes that may be the beginning of a form are held back.
#[derive(Debug)]
pub struct Redactor<'a> {
    spellings: &'a Spellings,
    held: Zeroizing<Vec<u8>>,
    /// Number of the first held bytes that belong to a form that began before them.
    masked: usize,
}

impl Redactor<'_> {
    /// Takes a piece of the stream; returns the bytes that may go on, in the memory of the piece where none were held back.
    #[must_use]
    pub fn next(&mut self, piece: Vec<u8>) -> Vec<u8> {
        let mut bytes = std::mem::take(&mut *self.held);
        if bytes.is_empty() {
            bytes = piece;
        } else {
            bytes.extend_from_slice(&piece);
        }
        let (found, begun) = self.spellings.find(&bytes);
        self.go_on(bytes, &found, begun)
    }

    /// Returns the rest at the end of the stream.
    #[must_use]
    pub fn end(&mut self) -> Vec<u8> {
        let bytes = std::mem::take(&mut *self.held);
        let cut = bytes.len();
        let (found, _) = self.spellings.find(&bytes);
        self.go_on(bytes, &found, cut)
    }

    fn go_on(&mut self, mut bytes: Vec<u8>, found: &[(usize, usize)], cut: usize) -> Vec<u8> {
        self.held = Zeroizing::new(bytes[cut..].to_vec());
        let before = self.masked;
        bytes[..before.min(cut)].fill(MASK);
        let crossing = found.iter().filter(|(start, _)| *start < cut).map(|(_, end)| *end);
        self.masked = crossing.chain([before]).max().unwrap_or(0).saturating_sub(cut);
        for &(start, end) in found {
            if start < cut {
                bytes[start..end.min(cut)].fill(MASK);
            }
        }
        bytes.truncate(cut);
        bytes
    }
}

/// Forms of a value.
fn forms(value: &[u8]) -> Vec<Form> {
    let mut all = vec![
        Form::new(value.iter().map(|byte| [*byte; 2]).collect(), false),
        Form::new(
            value
                .iter()
                .flat_map(|byte| [byte >> 4, byte & 15])
                .map(|nibble| [digit(nibble), digit(nibble).to_ascii_uppercase()])
                .collect(),
            false,
        ),
    ];
    // Within a longer text, only the characters that depend on the value alone.
    for before in 0..3 {
        let shifted = Zeroizing::new([&[0; 2][..before], value].concat());
        let encoded = Zeroizing::new(STANDARD_NO_PAD.encode(&*shifted));
        let first = if before == 0 { 0 } else { 4 };
        let whole = shifted.len() / 3 * 4;
        // With the last characters, where nothing stands behind the value.
        let ends = if before == 0 && whole < encoded.len() { &[whole, encoded.len()][..] } else { &[whole] };
        for end in ends {
            let characters = encoded.as_bytes().get(first..*end).unwrap_or_default();
            all.push(Form::new(characters.iter().map(|byte| [*byte, for_urls(*byte)]).collect(), true));
        }
    }
    all
}

const fn digit(nibble: u8) -> u8 {
    if nibble < 10 { b'0' + nibble } else { b'a' + nibble - 10 }
}

/// The character of base64 for URLs.
const fn for_urls(byte: u8) -> u8 {
    match byte {
        b'+' => b'-',
        b'/' => b'_',
        other => other,
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use proptest::prelude::*;

    fn of(values: &[&[u8]]) -> Spellings {
        let mut spellings = Spellings::default();
        values.iter().for_each(|value| spellings.add(value));
        spellings
    }

    fn in_pieces(spellings: &Spellings, bytes: &[u8], length: usize) -> Vec<u8> {
        let mut stream = spellings.stream();
        let mut out: Vec<u8> = bytes.chunks(length).flat_map(|piece| stream.next(piece.to_vec())).collect();
        out.extend(stream.end());
        out
    }

    #[test]
    fn encoded_forms_are_masked() {
        let spellings = of(&[b"s3cret/+va\"lue"]);
        for text in [
            "x s3cret/+va\"lue y",
            "czNjcmV0Lyt2YSJsdWU=",
            "czNjcmV0Lyt2YSJsdWU",
            "s3cret%2F%2Bva%22lue",
            "s3cret%2f%2bva%22lue",
            r#""s3cret\/+va\"lue""#,
            "s3cret/+va&quot;lue",
            "7333637265742f2b7661226c7565",
            "7333637265742F2b7661226c7565",
            r#""s3cret\u002f\u002Bva\"lue""#,
            "s3cret&#x2F;&plus;va&#34;lue",
            "%73%33%63%72%65%74%2F%2B%76%61%22%6C%75%65",
            "&#115;&#51;&#99;&#114;&#101;&#116;/+va&quot;lue",
            "czNjcmV0\r\nLyt2YSJsdWU=",
            r"czNjcmV0Lyt2\nYSJsdWU",
            "czNjcmV0Lyt2YSJsdWU%3D",
        ] {
            let mut bytes = text.as_bytes().to_vec();
            assert!(spellings.mask(&mut bytes), "{text}");
            let masked = String::from_utf8(bytes).unwrap();
            assert!(
                masked.contains("********") && !masked.contains("cret") && masked.len() == text.len(),
                "{masked}"
            );
        }
        for before in ["", "B", "Be", "Bearer "] {
            let mut bytes = STANDARD_NO_PAD.encode(format!("{before}s3cret/+va\"lue and more")).into_bytes();
            assert!(spellings.mask(&mut bytes), "{before}");
        }
        assert!(spellings.cover(b"s3cret/+va\"lue") && !spellings.cover(b"s3cret/+va\"lue2"));
        assert!(!spellings.is_empty() && Spellings::default().is_empty());
        assert_eq!(format!("{spellings:?}").find("s3cret"), None);
        assert!(!spellings.mask(&mut b"nothing of it: s3cret/+va".to_vec()));
    }

    /// All occurrences, by the reader of forms at each place.
    fn everywhere(spellings: &Spellings, bytes: &[u8]) -> (Vec<(usize, usize)>, usize) {
        let (mut found, mut begun) = (Vec::new(), bytes.len());
        for start in 0..bytes.len() {
            for form in &spellings.forms {
                match form.read(bytes, start) {
                    Seen::Whole(end) => found.push((start, end)),
                    Seen::Begun => begun = begun.min(start),
                    Seen::Other => {}
                }
            }
        }
        (found, begun)
    }

    #[test]
    fn streams_hold_back_only_what_may_begin_a_form() {
        let spellings = of(&[b"0123456789"]);
        let mut stream = spellings.stream();
        assert_eq!(stream.next(b"data: a\n\n".to_vec()), b"data: a\n\n");
        assert_eq!(stream.next(b"b 0123".to_vec()), b"b ");
        assert_eq!(stream.next(b"45678".to_vec()), b"");
        assert_eq!(stream.next(b"9!".to_vec()), b"**********!");
        assert_eq!(stream.next(b"0123".to_vec()), b"");
        assert_eq!(stream.end(), b"0123");
    }

    #[test]
    fn form_that_overlaps_a_held_beginning_stays_masked() {
        // The end of the first value is the beginning of the second.
        let spellings = of(&[b"aaaaaaaa1234", b"1234bbbbbbbb"]);
        let mut stream = spellings.stream();
        assert_eq!(stream.next(b"aaaaaaaa1234".to_vec()), b"********");
        assert_eq!(stream.next(b"x".to_vec()), b"****x");
        assert_eq!(in_pieces(&spellings, b"aaaaaaaa1234bbbbbbbb.", 5), b"********************.");
    }

    proptest! {
        #[test]
        fn pieces_of_any_length_are_masked_like_the_whole(
            value in "[ab/]{8,12}", before in "[ab/]{0,30}", after in "[ab/]{0,30}", length in 1usize..20,
        ) {
            let spellings = of(&[value.as_bytes()]);
            let text = format!("{before}{value}{after}").into_bytes();
            let mut whole = text.clone();
            prop_assert!(spellings.mask(&mut whole));
            let got = in_pieces(&spellings, &text, length);
            prop_assert_eq!(got.len(), text.len());
            prop_assert!(!got.windows(value.len()).any(|part| part == value.as_bytes()));
            prop_assert_eq!(got, whole);
        }

        #[test]
        fn places_that_are_passed_over_begin_no_form(
            value in "[a%&/+\\\\]{8,10}", text in "([a%&/+\\\\#;x256fu0BbC]|%2[Ff5Bb]|&#4[37];|&(plus|sol|amp|bsol);|\\\\u00(2[BbFf]|5[Cc])|YWFhYQ){0,40}",
        ) {
            let spellings = of(&[value.as_bytes()]);
            for text in [text.clone(), format!("{text}{value}"), format!("{}{text}", &value[..3])] {
                prop_assert_eq!(spellings.find(text.as_bytes()), everywhere(&spellings, text.as_bytes()));
            }
        }

        #[test]
        fn samples_miss_no_spelling_and_no_beginning_of_one(
            value in "[!-~]{8,45}", form in 0..16_usize, how in proptest::collection::vec(0..24_usize, 90),
            breaks in proptest::collection::vec(prop_oneof![3 => Just(""), 1 => Just("\r\n  "), 1 => Just("\\n"), 1 => Just("\t")], 90),
            before in "[ -~]{0,60}", after in "[ -~]{0,60}", cut in 0.0..1.4_f64,
        ) {
            let spellings = of(&[value.as_bytes()]);
            let form = &spellings.forms[form % spellings.forms.len()];
            let mut text = before;
            for ((characters, how), line) in form.characters().zip(&how).zip(&breaks) {
                text += &form::tests::spelling(characters[how % 2], how / 2);
                text += if form.is_broken() { line } else { "" };
            }
            #[expect(clippy::cast_precision_loss, clippy::cast_possible_truncation, clippy::cast_sign_loss, reason = "a part of a short text")]
            text.truncate((text.len() as f64 * cut) as usize);
            if cut > 1.0 {
                text += &after;
            }
            prop_assert_eq!(spellings.find(text.as_bytes()), everywhere(&spellings, text.as_bytes()), "{}", text);
        }

        #[test]
        fn other_bytes_are_not_changed(bytes in proptest::collection::vec(any::<u8>(), 0..300), length in 1usize..50) {
            let spellings = of(&[b"a value that is not there"]);
            prop_assert_eq!(in_pieces(&spellings, &bytes, length), bytes);
        }
    }
}
