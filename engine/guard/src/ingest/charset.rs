//! Bytes to text: byte order marks, declared encodings, and what is left.

use encoding_rs::Encoding;

/// A text, and the encoding when it is one that hides things.
pub(super) struct Decoded {
    pub(super) text: String,
    pub(super) odd: Option<String>,
}

/// Decodes by byte order mark, by a declaration in the first two lines, as UTF-8, else byte by byte.
pub(super) fn decode(bytes: &[u8]) -> Decoded {
    if let Some((encoding, skip)) = Encoding::for_bom(bytes) {
        let (text, _) = encoding.decode_without_bom_handling(&bytes[skip..]);
        let odd = (encoding != encoding_rs::UTF_8).then(|| encoding.name().to_ascii_lowercase());
        return Decoded { text: text.into_owned(), odd: odd.filter(|name| !name.starts_with("utf-16")) };
    }
    let declared = cookie(bytes);
    if let Some(name) = declared.as_deref() {
        if matches!(name, "utf-7" | "utf7" | "u7") {
            let text = String::from_utf8_lossy(bytes);
            return Decoded { text: utf7(&text), odd: Some("utf-7".to_owned()) };
        }
        if let Some(encoding) = Encoding::for_label(name.as_bytes()) {
            let (text, _) = encoding.decode_without_bom_handling(bytes);
            return Decoded { text: text.into_owned(), odd: None };
        }
        if name.starts_with("latin") || name.starts_with("iso-latin") || name.starts_with("iso8859") {
            return Decoded { text: latin1(bytes), odd: None };
        }
        let odd = !matches!(
            name,
            "utf8"
                | "utf-8-sig"
                | "utf_8"
                | "ascii"
                | "utf-8-unix"
                | "utf-8-emacs"
                | "euc_jis_2004"
                | "cp1252"
                | "undecided"
        );
        let text = String::from_utf8_lossy(bytes).into_owned();
        let text =
            if name.contains("rot") { format!("{text}\n{}", crate::decode::rot13(&text)) } else { text };
        return Decoded { text, odd: Some(name.to_owned()).filter(|_| odd) };
    }
    match std::str::from_utf8(bytes) {
        Ok(text) => Decoded { text: text.to_owned(), odd: None },
        Err(_) if bytes.len() > 3 && bytes.iter().skip(1).step_by(2).take(64).all(|b| *b == 0) => {
            let (text, _) = encoding_rs::UTF_16LE.decode_without_bom_handling(bytes);
            Decoded { text: text.into_owned(), odd: None }
        }
        // Latin-1 keeps every byte, so that nothing after a broken one is lost.
        Err(_) => Decoded { text: latin1(bytes), odd: None },
    }
}

fn latin1(bytes: &[u8]) -> String {
    bytes.iter().map(|b| char::from(*b)).collect()
}

/// The encoding that a comment in the first two lines declares.
fn cookie(bytes: &[u8]) -> Option<String> {
    for line in bytes.splitn(3, |b| *b == b'\n').take(2) {
        let line = String::from_utf8_lossy(&line[..line.len().min(200)]);
        if !line.trim_start().starts_with('#') {
            continue;
        }
        let Some(at) = line.find("coding") else { continue };
        let rest = line[at + 6..].strip_prefix([':', '='])?.trim_start();
        let name: String =
            rest.chars().take_while(|c| c.is_ascii_alphanumeric() || "-_.".contains(*c)).collect();
        return (!name.is_empty()).then(|| name.to_ascii_lowercase());
    }
    None
}

/// `+ACI-` is base64 of UTF-16, big end first.
fn utf7(text: &str) -> String {
    let mut out = String::with_capacity(text.len());
    let mut rest = text;
    while let Some(at) = rest.find('+') {
        out.push_str(&rest[..at]);
        let run = &rest[at + 1..];
        let length =
            run.find(|c: char| !c.is_ascii_alphanumeric() && c != '+' && c != '/').unwrap_or(run.len());
        if length == 0 {
            out.push('+');
        } else if let Some(plain) = crate::decode::base64(&run.as_bytes()[..length])
            .and_then(|b| crate::decode::utf16(&b[..b.len() & !1], true))
        {
            out.push_str(&plain);
        } else {
            out.push_str(&rest[at..=at + length]);
        }
        rest = &run[length..];
        rest = rest.strip_prefix('-').unwrap_or(rest);
    }
    out.push_str(rest);
    out
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn texts_come_out_of_their_encodings() {
        assert_eq!(decode(b"\xff\xfei\0d\0").text, "id");
        assert_eq!(decode(b"# coding: utf-7\n+AGkAZA-").text, "# coding: utf-7\nid");
        assert_eq!(decode(b"# coding: utf-7\n").odd.as_deref(), Some("utf-7"));
        assert_eq!(decode(b"# -*- coding: latin-1 -*-\n\xe9").text, "# -*- coding: latin-1 -*-\n\u{e9}");
        assert_eq!(decode(b"x\xff\ny").text, "x\u{ff}\ny");
    }
}
