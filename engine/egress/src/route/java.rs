//! Java's trust store, `cacerts`, with one certificate more. Pure.
//!
//! The format is that of `sun.security.provider.JavaKeyStore` (JKS): a magic number, a version, the number of entries, the entries, and a
//! SHA-1 of password, a constant text and all before it. Numbers are big-endian.

use ring::digest::{Context, SHA1_FOR_LEGACY_USE_ONLY, SHA1_OUTPUT_LEN};

/// Magic number and version.
const START: [u8; 8] = [0xfe, 0xed, 0xfe, 0xed, 0, 0, 0, 2];
/// Kind of an entry that is a certificate to be trusted.
const TRUSTED: u32 = 2;
/// Text in the digest between password and content.
const WHITENER: &[u8] = b"Mighty Aphrodite";
/// Password of trust stores, by convention: it guards nothing.
const PASSWORD: &str = "changeit";

/// Adds a certificate (DER) to a store; `None` where the store has another format.
#[must_use]
pub fn with_certificate(store: &[u8], alias: &str, certificate: &[u8]) -> Option<Vec<u8>> {
    let content = store.len().checked_sub(SHA1_OUTPUT_LEN).and_then(|length| store.get(..length))?;
    let (count, entries) = content.strip_prefix(&START)?.split_first_chunk::<4>()?;
    let count = u32::from_be_bytes(*count).checked_add(1)?;
    let mut made = START.to_vec();
    made.extend(count.to_be_bytes());
    made.extend_from_slice(entries);
    made.extend(TRUSTED.to_be_bytes());
    text(&mut made, alias)?;
    made.extend(0_u64.to_be_bytes()); // date of creation
    text(&mut made, "X.509")?;
    made.extend(u32::try_from(certificate.len()).ok()?.to_be_bytes());
    made.extend_from_slice(certificate);
    let mut digest = Context::new(&SHA1_FOR_LEGACY_USE_ONLY);
    let password: Vec<u8> = PASSWORD.encode_utf16().flat_map(u16::to_be_bytes).collect();
    for part in [&password[..], WHITENER, &made[..]] {
        digest.update(part);
    }
    made.extend_from_slice(digest.finish().as_ref());
    Some(made)
}

/// Adds an ASCII text with its length.
fn text(to: &mut Vec<u8>, text: &str) -> Option<()> {
    to.extend(u16::try_from(text.len()).ok()?.to_be_bytes());
    to.extend_from_slice(text.as_bytes());
    Some(())
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn store_gets_one_entry_more() {
        let empty = [&START[..], &[0; 4], &[7; 20]].concat();
        let one = with_certificate(&empty, "a", b"der").unwrap();
        let entry = b"\0\0\0\x02\0\x01a\0\0\0\0\0\0\0\0\0\x05X.509\0\0\0\x03der";
        let content = [&START[..], &[0, 0, 0, 1], entry].concat();
        assert_eq!(&one[..content.len()], content);
        assert_eq!(one.len(), content.len() + SHA1_OUTPUT_LEN);
        let two = with_certificate(&one, "b", b"der").unwrap();
        assert_eq!((two[11], &two[12..12 + entry.len()]), (2, &entry[..]));
        for other in [&b""[..], b"\x30\x82", &START, &[&START[..], &[0; 20]].concat()] {
            assert_eq!(with_certificate(other, "a", b"der"), None, "{other:?}");
        }
    }
}
