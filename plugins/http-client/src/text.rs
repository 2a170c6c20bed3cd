//! The body of an answer as text.

/// At most `limit` bytes of a body as text, cut between characters where it is UTF-8; and whether something was cut.
pub(crate) fn body(bytes: &[u8], limit: usize) -> (String, bool) {
    let mut end = bytes.len().min(limit);
    // A byte that continues a character is not the first one of the rest.
    while end > 0 && end < bytes.len() && bytes[end] & 0xc0 == 0x80 && limit - end < 3 {
        end -= 1;
    }
    (String::from_utf8_lossy(&bytes[..end]).into_owned(), end < bytes.len())
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn bodies_are_cut_between_characters() {
        assert_eq!(body(b"abc", 3), ("abc".into(), false));
        assert_eq!(body(b"abc", 2), ("ab".into(), true));
        assert_eq!(body("ää".as_bytes(), 3), ("ä".into(), true));
        assert_eq!(body("a€".as_bytes(), 3), ("a".into(), true));
        assert_eq!(body(b"\xff\xfe", 9), ("\u{fffd}\u{fffd}".into(), false));
        assert_eq!(body(b"", 0), (String::new(), false));
    }
}
