//! Tells by samples of a text where no form of a value can begin, so that most of a text is not read byte by byte. Pure.
//!
//! A spelling of a form has at least as many bytes as the form has characters. So of windows of [`WINDOW`] bytes at equal distances, one that is close
//! enough lies within its first bytes, and both pairs of that window are among the pairs that the spellings of the form's first characters have.

use zeroize::Zeroizing;

use super::form::{ENTITIES, Form};
use super::pairs::Pairs;

/// Bytes that a sample looks at: two pairs.
const WINDOW: usize = 4;
/// Maximum distance in bytes between two samples. Larger ones have more pairs and thus more places that are looked at in vain.
const MAX_STRIDE: usize = 16;
/// Bytes at the end of a text that no sample covers: a spelling of a character that is cut off there has pairs of its own. The longest has 17 bytes.
const TAIL: usize = 32;
/// Breaks of lines within base64.
const BREAKS: [&[u8]; 7] = [b"\r", b"\n", b" ", b"\t", b"\\r", b"\\n", b"\\t"];

/// Pairs within the first characters of some forms, and the distance of samples that finds them.
#[derive(Default)]
pub(super) struct Samples {
    pairs: Pairs,
    /// 0 without forms.
    stride: usize,
}

impl Samples {
    /// Adds a form, which has more than [`WINDOW`] characters.
    pub(super) fn add(&mut self, form: &Form) {
        let stride = (form.len() + 1).saturating_sub(WINDOW).min(MAX_STRIDE);
        self.stride = if self.stride == 0 { stride } else { stride.min(self.stride) };
        let mut breaks = Ends::default();
        if form.is_broken() {
            BREAKS.iter().for_each(|text| breaks.add(&mut self.pairs, text.iter().copied()));
            breaks.meet(&breaks, &mut self.pairs);
        }
        let mut before = Ends::default();
        for [byte, other] in form.characters().take(MAX_STRIDE + WINDOW - 1) {
            let mut ends = Ends::default();
            for byte in [Some(byte), (other != byte).then_some(other)].into_iter().flatten() {
                spellings(byte, |text| ends.add(&mut self.pairs, text.iter().copied().flatten().copied()));
            }
            before.meet(&ends, &mut self.pairs);
            before.meet(&breaks, &mut self.pairs);
            breaks.meet(&ends, &mut self.pairs);
            before = ends;
        }
    }

    /// Gives ranges of places in `text` at which a form may begin, in ascending order: all places that are not in one begin none, neither a whole form nor one
    /// that is cut off by the end of the text.
    pub(super) fn ranges(&self, text: &[u8], mut give: impl FnMut(usize, usize)) {
        let mut rest = 0;
        if self.stride >= WINDOW {
            let sampled = text.len().saturating_sub(TAIL) / self.stride * self.stride;
            for (number, piece) in text[..sampled].chunks_exact(self.stride).enumerate() {
                if let [first, second, third, fourth, ..] = *piece
                    && self.pairs.has(first, second) & self.pairs.has(third, fourth)
                {
                    let at = number * self.stride;
                    give((at + 1).saturating_sub(self.stride), at + 1);
                }
            }
            if sampled > 0 {
                rest = sampled - self.stride + 1;
            }
        }
        give(rest, text.len());
    }
}

/// Bytes with which the spellings of a character, or of a break, begin and end.
#[derive(Default)]
struct Ends {
    first: Few,
    last: Few,
}

impl Ends {
    /// Adds a spelling: its ends here, and its pairs to `pairs`.
    fn add(&mut self, pairs: &mut Pairs, text: impl IntoIterator<Item = u8>) {
        let mut before = None;
        for byte in text {
            match before {
                None => self.first.add(byte),
                Some(before) => pairs.add(before, byte),
            }
            before = Some(byte);
        }
        if let Some(last) = before {
            self.last.add(last);
        }
    }

    /// Adds the pairs of an end of these with a beginning of those.
    fn meet(&self, next: &Self, pairs: &mut Pairs) {
        for last in self.last.all() {
            next.first.all().for_each(|first| pairs.add(last, first));
        }
    }
}

/// A few different bytes: a character of two bytes has spellings with 5 beginnings and 9 ends.
#[derive(Default)]
struct Few {
    bytes: Zeroizing<[u8; 16]>,
    count: usize,
}

impl Few {
    fn add(&mut self, byte: u8) {
        if self.all().all(|one| one != byte) {
            self.bytes[self.count] = byte;
            self.count += 1;
        }
    }

    fn all(&self) -> impl Iterator<Item = u8> {
        self.bytes[..self.count].iter().copied()
    }
}

/// Gives spellings of a byte, as parts, which together have every pair, first and last byte of all its spellings: those that [`Form::read`] reads.
fn spellings(byte: u8, mut give: impl FnMut(&[&[u8]])) {
    give(&[&[byte]]);
    if byte.is_ascii_punctuation() {
        give(&[b"\\", &[byte]]);
    }
    let digits = |nibble: u8| {
        let digit = super::digit(nibble);
        [digit, digit.to_ascii_uppercase()]
    };
    for high in digits(byte >> 4) {
        for low in digits(byte & 15) {
            for front in ["%", "%25", "%2525", "\\x", "\\u00", "&#x0", "&#X0", "&#x00"] {
                give(&[front.as_bytes(), &[high, low]]);
            }
            give(&[b"&#x0", &[high, low], b";"]);
            let number: &[u8] = if byte < 16 { &[low] } else { &[high, low] };
            for front in ["&#x", "&#X"] {
                give(&[front.as_bytes(), number]);
            }
        }
    }
    let decimal = [byte / 100, byte / 10 % 10, byte % 10].map(|digit| b'0' + digit);
    let zeros = decimal[..2].iter().take_while(|digit| **digit == b'0').count();
    for front in ["&#", "&#0", "&#00"] {
        give(&[front.as_bytes(), &decimal[zeros..]]);
        give(&[front.as_bytes(), &decimal[zeros..], b";"]);
    }
    let names = ENTITIES.iter().filter(|(sign, _)| *sign == byte).flat_map(|(_, names)| *names);
    for name in names {
        give(&[b"&", name.as_bytes(), b";"]);
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::redact::form::Seen;

    /// Each spelling is one that is read, so that the list has no errors, and all signs have their names.
    #[test]
    fn spellings_of_every_byte_are_read() {
        for byte in 1..=u8::MAX {
            let form = Form::new(vec![[byte; 2]], false);
            let mut count = 0;
            spellings(byte, |parts| {
                let text = parts.concat();
                assert_eq!(form.read(&text, 0), Seen::Whole(text.len()), "{byte}: {}", text.escape_ascii());
                count += 1;
            });
            assert!(count >= 18, "{byte}: {count}");
        }
    }

    #[test]
    fn most_of_a_text_is_passed_over() {
        let mut samples = Samples::default();
        samples.add(&Form::new(
            b"ghp_16C7e42F292c6912E7710c838347Ae178B4a".map(|byte| [byte; 2]).to_vec(),
            false,
        ));
        let text = "{\"name\": \"hotcell\", \"private\": false}, \n".repeat(100);
        let mut places = 0;
        samples.ranges(text.as_bytes(), |first, end| places += end - first);
        assert!(places < text.len() / 20, "{places} of {}", text.len());
    }
}
