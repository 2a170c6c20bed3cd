//! Decoders that obfuscated code uses, each a plain function from bytes to bytes, bounded by [`MAX_TEXT`].

use base64::Engine as _;
use base64::engine::{DecodePaddingMode, GeneralPurpose, GeneralPurposeConfig};
use std::io::Read;

use crate::value::{HOLE, MAX_TEXT, Value};

const LOOSE: GeneralPurposeConfig = GeneralPurposeConfig::new()
    .with_decode_padding_mode(DecodePaddingMode::Indifferent)
    .with_decode_allow_trailing_bits(true);

/// Base64, standard or URL-safe, with or without padding, white space ignored.
#[must_use]
pub fn base64(input: &[u8]) -> Option<Vec<u8>> {
    let dense: Vec<u8> = input.iter().copied().filter(|b| !b.is_ascii_whitespace()).collect();
    let engine = GeneralPurpose::new(&::base64::alphabet::STANDARD, LOOSE);
    let web = GeneralPurpose::new(&::base64::alphabet::URL_SAFE, LOOSE);
    engine.decode(&dense).or_else(|_| web.decode(&dense)).ok()
}

/// Base32 of RFC 4648.
#[must_use]
pub fn base32(input: &[u8]) -> Option<Vec<u8>> {
    let mut out = Vec::new();
    let (mut bits, mut held) = (0u32, 0u32);
    for byte in input.iter().filter(|b| !b.is_ascii_whitespace() && **b != b'=') {
        let digit = match byte {
            b'A'..=b'Z' => byte - b'A',
            b'a'..=b'z' => byte - b'a',
            b'2'..=b'7' => byte - b'2' + 26,
            _ => return None,
        };
        held = (held << 5) | u32::from(digit);
        bits += 5;
        if bits >= 8 {
            bits -= 8;
            out.push(((held >> bits) & 0xff) as u8);
        }
    }
    Some(out)
}

/// Base85 as in Python's `b85decode` (with `ascii85`: as in `a85decode`).
#[must_use]
pub fn base85(input: &[u8], ascii85: bool) -> Option<Vec<u8>> {
    const ALPHABET: &[u8] =
        b"0123456789ABCDEFGHIJKLMNOPQRSTUVWXYZabcdefghijklmnopqrstuvwxyz!#$%&()*+-;<=>?@^_`{|}~";
    let mut digits: Vec<u32> = Vec::new();
    let body = input.strip_prefix(b"<~").unwrap_or(input);
    let body = body.strip_suffix(b"~>").unwrap_or(body);
    for byte in body.iter().filter(|b| !b.is_ascii_whitespace()) {
        if ascii85 && *byte == b'z' {
            digits.extend([0; 5]);
            continue;
        }
        let digit = if ascii85 {
            byte.checked_sub(33).filter(|d| *d < 85).map(u32::from)?
        } else {
            u32::try_from(ALPHABET.iter().position(|a| a == byte)?).ok()?
        };
        digits.push(digit);
    }
    let mut out = Vec::new();
    for group in digits.chunks(5) {
        let missing = 5 - group.len();
        let number = group
            .iter()
            .chain(std::iter::repeat_n(&84, missing))
            .fold(0u64, |sum, digit| sum * 85 + u64::from(*digit));
        let bytes = u32::try_from(number).ok()?.to_be_bytes();
        out.extend_from_slice(&bytes[..4 - missing.min(4)]);
    }
    Some(out)
}

/// Hexadecimal digits, white space and `:` between them ignored.
#[must_use]
pub fn hex(input: &[u8]) -> Option<Vec<u8>> {
    let digits: Option<Vec<u8>> = input
        .iter()
        .filter(|b| !b.is_ascii_whitespace() && **b != b':')
        .map(|b| char::from(*b).to_digit(16).and_then(|d| u8::try_from(d).ok()))
        .collect();
    let digits = digits?;
    Some(digits.chunks_exact(2).map(|pair| pair[0] << 4 | pair[1]).collect())
}

/// `%41` escapes; `+` is kept.
#[must_use]
pub fn url(input: &str) -> String {
    let bytes = input.as_bytes();
    let mut out = Vec::with_capacity(bytes.len());
    let mut at = 0;
    while at < bytes.len() {
        if bytes[at] == b'%'
            && let Some(Some(decoded)) = bytes.get(at + 1..at + 3).map(hex)
            && let [byte] = decoded[..]
        {
            out.push(byte);
            at += 3;
            continue;
        }
        out.push(bytes[at]);
        at += 1;
    }
    String::from_utf8_lossy(&out).into_owned()
}

/// Rotates letters by thirteen.
#[must_use]
pub fn rot13(input: &str) -> String {
    let turn = |c: char, base: u8| char::from((c as u8 - base + 13) % 26 + base);
    input
        .chars()
        .map(|c| match c {
            'a'..='z' => turn(c, b'a'),
            'A'..='Z' => turn(c, b'A'),
            other => other,
        })
        .collect()
}

/// Reads at most [`MAX_TEXT`] bytes; output before an error is kept.
fn drain(mut reader: impl Read) -> Option<Vec<u8>> {
    let mut out = Vec::new();
    let mut buffer = [0; 8192];
    while out.len() < MAX_TEXT {
        match reader.read(&mut buffer) {
            Ok(0) | Err(_) => break,
            Ok(count) => out.extend_from_slice(&buffer[..count]),
        }
    }
    (!out.is_empty()).then_some(out)
}

/// zlib, or a bare deflate stream.
#[must_use]
pub fn zlib(input: &[u8]) -> Option<Vec<u8>> {
    drain(flate2::read::ZlibDecoder::new(input)).or_else(|| drain(flate2::read::DeflateDecoder::new(input)))
}

/// gzip.
#[must_use]
pub fn gzip(input: &[u8]) -> Option<Vec<u8>> {
    drain(flate2::read::MultiGzDecoder::new(input))
}

/// bzip2.
#[must_use]
pub fn bzip2(input: &[u8]) -> Option<Vec<u8>> {
    drain(::bzip2::read::MultiBzDecoder::new(input))
}

/// xz or legacy lzma.
#[must_use]
pub fn lzma(input: &[u8]) -> Option<Vec<u8>> {
    // Memory limit of a decoder, in KiB.
    const MAX_MEMORY_KIB: u32 = 80 << 10;
    drain(lzma_rust2::XzReader::new_mem_limit(input, true, MAX_MEMORY_KIB))
        .or_else(|| drain(lzma_rust2::LzmaReader::new_mem_limit(input, MAX_MEMORY_KIB, None).ok()?))
}

/// UTF-16, little-endian (with `big`: big-endian).
#[must_use]
pub fn utf16(input: &[u8], big: bool) -> Option<String> {
    if input.len() < 2 || !input.len().is_multiple_of(2) {
        return None;
    }
    let units: Vec<u16> = input
        .chunks_exact(2)
        .map(|p| if big { u16::from_be_bytes([p[0], p[1]]) } else { u16::from_le_bytes([p[0], p[1]]) })
        .collect();
    String::from_utf16(&units).ok()
}

/// Decodes a text that *looks* encoded: base64 or hexadecimal of at least 16 bytes that are mostly printable
/// text, or base64 of a compressed stream. `None` for everything else, which nearly all literals are.
#[must_use]
pub fn guess(text: &str) -> Option<(Vec<&'static str>, String)> {
    let bytes = text.trim().as_bytes();
    if bytes.len() < 24 || bytes.len() > MAX_TEXT {
        return None;
    }
    let spaces = bytes.iter().filter(|b| **b == b' ').count();
    let alphabet = |b: &u8| b.is_ascii_alphanumeric() || b"+/=-_\n\r".contains(b);
    if spaces > 0 || !bytes.iter().all(alphabet) {
        return None;
    }
    if bytes.iter().all(u8::is_ascii_hexdigit) && bytes.len().is_multiple_of(2) {
        return readable(hex(bytes)?).map(|text| (vec!["hex"], text));
    }
    let mixed = bytes.iter().any(u8::is_ascii_uppercase)
        && bytes.iter().any(u8::is_ascii_lowercase)
        && (bytes.iter().any(u8::is_ascii_digit) || bytes.ends_with(b"="));
    if !mixed {
        return None;
    }
    let plain = base64(bytes)?;
    let (chain, plain) = if plain.starts_with(&[0x78]) || plain.starts_with(&[0x1f, 0x8b]) {
        (vec!["base64", "zlib"], zlib(&plain).or_else(|| gzip(&plain))?)
    } else {
        (vec!["base64"], plain)
    };
    if plain.len() >= 8 && plain.iter().skip(1).step_by(2).all(|b| *b == 0) {
        return utf16(&plain, false).map(|text| (vec!["base64", "utf-16"], text));
    }
    readable(plain).map(|text| (chain, text))
}

fn readable(bytes: Vec<u8>) -> Option<String> {
    let text = String::from_utf8(bytes).ok()?;
    let bad = text.chars().filter(|c| c.is_control() && !"\n\r\t".contains(*c)).count();
    (text.len() >= 8 && bad == 0).then_some(text)
}

/// Applies the decoder of the library function `step`.
#[must_use]
pub fn apply(step: &'static str, input: &Value) -> Option<Value> {
    let bytes = input.as_bytes()?;
    let out = match step {
        "base64" => base64(&bytes)?,
        "base32" => base32(&bytes)?,
        "base85" => base85(&bytes, false)?,
        "ascii85" => base85(&bytes, true)?,
        "hex" => hex(&bytes)?,
        "zlib" => zlib(&bytes)?,
        "gzip" => gzip(&bytes)?,
        "bzip2" => bzip2(&bytes)?,
        "lzma" => lzma(&bytes)?,
        "url" => url(std::str::from_utf8(&bytes).ok()?).into_bytes(),
        "rot13" => rot13(std::str::from_utf8(&bytes).ok()?).into_bytes(),
        "utf-16" => utf16(&bytes, false)?.into_bytes(),
        "reversed" => std::str::from_utf8(&bytes).ok()?.chars().rev().collect::<String>().into_bytes(),
        _ => return None,
    };
    // Nothing was hidden: for example a path without escapes, or an empty text.
    if out == *bytes {
        return Some(input.clone());
    }
    Some(Value::bytes(&out).decoded_by(step, input))
}

/// Decodes `\x41`, `\u0041`, `\u{41}`, `\101` and the letter escapes.
pub(crate) fn unescape(text: &str) -> String {
    let mut out = String::with_capacity(text.len());
    let mut chars = text.chars().peekable();
    while let Some(c) = chars.next() {
        if c != '\\' {
            out.push(c);
            continue;
        }
        let Some(kind) = chars.peek().copied() else { break };
        if !('0'..='7').contains(&kind) {
            chars.next();
        }
        let braces = kind == 'u' && chars.next_if_eq(&'{').is_some();
        let (width, radix) = match kind {
            '0'..='7' => (3, 8),
            'x' => (2, 16),
            'u' if !braces => (4, 16),
            'u' | 'U' => (8, 16),
            _ => (0, 10),
        };
        let mut number = 0u32;
        let mut seen = 0;
        while seen < width
            && let Some(digit) = chars.peek().and_then(|c| c.to_digit(radix))
        {
            number = number.wrapping_mul(radix).wrapping_add(digit);
            seen += 1;
            chars.next();
        }
        if braces {
            chars.next_if_eq(&'}');
        }
        out.push(match kind {
            _ if width > 0 => char::from_u32(number).unwrap_or(HOLE),
            'n' => '\n',
            't' => '\t',
            'r' => '\r',
            'a' => '\u{7}',
            'e' | 'E' => '\u{1b}',
            other => other,
        });
    }
    out
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn decoders_agree_with_their_encoders() {
        assert_eq!(base64(b"aWQ=").as_deref(), Some(&b"id"[..]));
        assert_eq!(base64(b"aWQ").as_deref(), Some(&b"id"[..]));
        assert_eq!(base32(b"NFSA====").as_deref(), Some(&b"id"[..]));
        assert_eq!(base85(b"X>D", false).map(|b| b.len()), Some(2));
        assert_eq!(hex(b"69 64").as_deref(), Some(&b"id"[..]));
        assert_eq!(url("%69d%"), "id%");
        assert_eq!(rot13("vq"), "id");
        assert_eq!(utf16(b"i\0d\0", false).as_deref(), Some("id"));
    }

    #[test]
    fn decoding_guesses_only_encoded_text() {
        let code = ::base64::prelude::BASE64_STANDARD.encode("import os; os.system('id')");
        assert_eq!(guess(&code).map(|g| g.1).as_deref(), Some("import os; os.system('id')"));
        for plain in ["a/normal/path/to/something/long.txt", "ThisIsJustACamelCaseIdentifierName", ""] {
            assert!(guess(plain).is_none(), "{plain}");
        }
    }
}
