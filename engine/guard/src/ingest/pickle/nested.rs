//! Pickles that are values of a pickle: as bytes, or written as base64 or hexadecimal text.

use base64::Engine as _;
use std::borrow::Cow;

/// Maximum number of such values that are looked at in one pickle.
pub(super) const MAX_VALUES: usize = 256;
/// Maximum nesting of pickles that is followed.
pub(super) const MAX_DEPTH: usize = 4;
/// True when a value may be a pickle.
pub(super) fn may_be_pickle(value: &[u8]) -> bool {
    super::is_marked(value) || is_base64(value) || is_hex(value)
}

/// First bytes of a pickle of protocols 2 to 5: four bits of the third letter are the protocol.
fn is_base64(value: &[u8]) -> bool {
    matches!(value, [b'g', b'A', b'I'..=b'X', ..])
}

fn is_hex(value: &[u8]) -> bool {
    matches!(value, [b'8', b'0', b'0', b'2'..=b'5', ..])
}

/// Bytes of the pickle in a value.
pub(super) fn decoded(value: &[u8]) -> Option<Cow<'_, [u8]>> {
    if super::is_marked(value) {
        return Some(Cow::Borrowed(value));
    }
    if is_hex(value) {
        return crate::decode::hex(value).map(Cow::Owned);
    }
    let text: Vec<u8> = value.iter().copied().filter(|b| !b.is_ascii_whitespace() && *b != b'=').collect();
    base64::engine::general_purpose::STANDARD_NO_PAD.decode(text).ok().map(Cow::Owned)
}
