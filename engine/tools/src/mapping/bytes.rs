//! Bytes that a caller sends as base64. Pure.

use std::borrow::Cow;

use base64::alphabet::STANDARD;
use base64::engine::{DecodePaddingMode, GeneralPurpose, GeneralPurposeConfig};
use base64::{DecodeError, Engine as _};

/// Base64 with optional padding, since models sometimes omit it.
const BASE64: GeneralPurpose = GeneralPurpose::new(
    &STANDARD,
    GeneralPurposeConfig::new().with_decode_padding_mode(DecodePaddingMode::Indifferent),
);

/// Decodes base64 of either alphabet (RFC 4648, 4 and 5), with or without padding.
///
/// # Errors
/// The mistake, as the end of a sentence.
pub fn decode(text: &str) -> Result<Vec<u8>, String> {
    let url = text.contains(['-', '_']) && !text.contains(['+', '/']);
    let standard = if url { text.replace('-', "+").replace('_', "/").into() } else { Cow::Borrowed(text) };
    BASE64.decode(standard.as_ref()).map_err(|error| match error {
        DecodeError::InvalidByte(at, _) => {
            let found = text.get(at..).and_then(|rest| rest.chars().next()).unwrap_or_default();
            format!("{found:?} at byte {at} is not part of it")
        }
        DecodeError::InvalidLength(_) => format!("of {} characters there can be none", text.len()),
        _ => "its end is not whole".to_owned(),
    })
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn both_base64_alphabets_decode_and_mistakes_are_explained() {
        for (text, want) in [
            ("", Ok(&b""[..])),
            ("QUI=", Ok(b"AB")),
            ("QUI", Ok(b"AB")),
            ("+/8=", Ok(b"\xfb\xff")),
            ("-_8", Ok(b"\xfb\xff")),
            ("Q", Err("of 1 characters there can be none")),
            ("QU]I", Err("']' at byte 2 is not part of it")),
            ("-_+/", Err("'-' at byte 0 is not part of it")),
            ("QUä=", Err("'ä' at byte 2 is not part of it")),
            ("QUJ=", Err("its end is not whole")),
        ] {
            assert_eq!(decode(text).as_deref().map_err(String::as_str), want, "{text}");
        }
    }
}
