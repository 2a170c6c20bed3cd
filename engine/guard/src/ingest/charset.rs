//! Decodes bytes to text: byte order marks, declared encodings, and fallbacks.

use encoding_rs::Encoding;

use crate::language::Language;

/// Maximum length of a line searched for an encoding, in bytes; Python has no limit.
const MAX_LINE_BYTES: usize = 1 << 20;

/// Text of a file.
pub(super) struct Decoded {
    /// Decoded by its byte order mark, or as UTF-8, else byte by byte; without zeros, which shells drop.
    pub(super) text: String,
    /// Decoded byte by byte, when a mark or zeros indicate another encoding: a program that ignores these
    /// reads the file in this way.
    pub(super) raw: Option<(Form, String)>,
}

/// Reason for decoding a file otherwise than byte by byte.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum Form {
    /// The byte order mark of UTF-8.
    Utf8Mark,
    /// The byte order mark of UTF-16.
    Utf16Mark,
    /// Zeros between the letters.
    Zeros,
}

impl Form {
    /// True when an interpreter of the language may read such a file byte by byte.
    pub(super) fn is_read_as_bytes(self, language: Language) -> bool {
        let is_decoded = matches!(
            language,
            Language::Python | Language::JavaScript | Language::TypeScript | Language::PowerShell
        );
        match self {
            // Makefiles, settings and compiled languages may begin with it; a shell takes it for a character.
            Self::Utf8Mark => language == Language::Bash,
            Self::Utf16Mark => !is_decoded,
            Self::Zeros => language != Language::PowerShell,
        }
    }
}

/// Decodes by byte order mark, as UTF-8, else byte by byte. Declarations in the text are ignored.
pub(super) fn decode(bytes: &[u8]) -> Decoded {
    let raw = |form| Some((form, without_zeros(latin1(bytes))));
    if let Some((encoding, skip)) = Encoding::for_bom(bytes) {
        let (text, _) = encoding.decode_without_bom_handling(&bytes[skip..]);
        let form = if encoding == encoding_rs::UTF_8 { Form::Utf8Mark } else { Form::Utf16Mark };
        return Decoded { text: without_zeros(text.into_owned()), raw: raw(form) };
    }
    match std::str::from_utf8(bytes) {
        Ok(text) => Decoded { text: without_zeros(text.to_owned()), raw: None },
        Err(_) if bytes.len() > 3 && bytes.iter().skip(1).step_by(2).take(64).all(|b| *b == 0) => {
            let (text, _) = encoding_rs::UTF_16LE.decode_without_bom_handling(bytes);
            Decoded { text: without_zeros(text.into_owned()), raw: raw(Form::Zeros) }
        }
        // Latin-1 keeps every byte, so that nothing after an invalid one is lost.
        Err(_) => Decoded { text: without_zeros(latin1(bytes)), raw: None },
    }
}

/// Removes zeros: shells drop them, and programs have no use for them.
fn without_zeros(mut text: String) -> String {
    text.retain(|c| c != '\0');
    text
}

/// Encoding declared by a Python file.
#[derive(Default)]
pub(super) struct Declared {
    /// Text in that encoding, if it differs from the result of [`decode`].
    pub(super) text: Option<String>,
    /// Name of the encoding, if it is one that hides text.
    pub(super) odd: Option<String>,
    /// True when it maps ASCII letters to others, so that Python reads different code.
    pub(super) escapes: bool,
}

/// Encoding that a file declares to Python. Text in an encoding that changes ASCII letters is only decoded if
/// it is ASCII itself; otherwise the file is refused because of the name.
pub(super) fn declared(bytes: &[u8]) -> Declared {
    if Encoding::for_bom(bytes).is_some() {
        return Declared::default();
    }
    let Some(name) = cookie(bytes) else { return Declared::default() };
    let as_it_is = || String::from_utf8_lossy(bytes);
    let escapes = escapes(&name);
    if matches!(&*name, "utf-7" | "utf_7" | "utf7" | "u7") {
        return Declared { text: Some(utf7(&as_it_is())), odd: Some("utf-7".to_owned()), escapes };
    }
    match Encoding::for_label(name.as_bytes()) {
        Some(encoding) if encoding.is_ascii_compatible() => {
            let (text, _) = encoding.decode_without_bom_handling(bytes);
            return Declared { text: Some(text.into_owned()), odd: None, escapes };
        }
        Some(_) => return Declared { text: None, odd: None, escapes: true },
        None => {}
    }
    if name.starts_with("latin") || name.starts_with("iso-latin") || name.starts_with("iso8859") {
        return Declared { text: Some(latin1(bytes)), odd: None, escapes };
    }
    let odd = !matches!(
        &*name,
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
    let text = name.contains("rot").then(|| crate::decode::rot13(&as_it_is()));
    Declared { text, odd: Some(name).filter(|_| odd), escapes }
}

/// Names and aliases of Python encodings that change ASCII letters, or contain escapes of them. Names are
/// compared without case and punctuation, as in Python, or more loosely.
const ESCAPES: &[&str] = &[
    "unicodeescape",
    "rawunicodeescape",
    "unicodeinternal",
    "stringescape",
    "punycode",
    "idna",
    "rot13",
    "hex",
    "hexcodec",
    "base64",
    "base64codec",
    "quopri",
    "quopricodec",
    "quotedprintable",
    "uu",
    "uucodec",
    "zlib",
    "zlibcodec",
    "bz2",
    "bz2codec",
    "zip",
    "u7",
    "u16",
    "u32",
    "unicode11utf7",
    "unicodebigunmarked",
    "unicodelittleunmarked",
    "shiftjis2004",
    "shiftjisx0213",
    "sjis2004",
    "sjisx0213",
];
/// Prefixes of such names.
const FAMILIES: &[&str] = &["utf7", "utf16", "utf32", "iso2022", "csiso2022", "hz", "ebcdic"];
/// Code pages of mainframes and of DOS that change ASCII letters.
const PAGES: &[&str] = &["037", "039", "273", "424", "500", "864", "1026", "1140"];

fn escapes(name: &str) -> bool {
    let name: String = name.chars().filter(char::is_ascii_alphanumeric).collect();
    let page = ["csibm", "ibm", "cp"].iter().find_map(|of| name.strip_prefix(of)).unwrap_or(&name);
    ESCAPES.contains(&&*name) || FAMILIES.iter().any(|of| name.starts_with(of)) || PAGES.contains(&page)
}

fn latin1(bytes: &[u8]) -> String {
    bytes.iter().map(|b| char::from(*b)).collect()
}

/// Encoding declared by a comment in the first two lines, in lower case, according to PEP 263: in the second
/// line only if the first one contains nothing but a comment.
fn cookie(bytes: &[u8]) -> Option<String> {
    let mut rest = bytes;
    for _ in 0..2 {
        let end = rest.iter().position(|b| matches!(b, b'\n' | b'\r')).unwrap_or(rest.len());
        let line = String::from_utf8_lossy(&rest[..end.min(MAX_LINE_BYTES)]);
        let line = line.trim_start_matches([' ', '\t', '\x0c']);
        if line.starts_with('#') {
            let declared = line.match_indices("coding").find_map(|(at, word)| {
                let rest = line[at + word.len()..].strip_prefix([':', '='])?.trim_start_matches([' ', '\t']);
                let name: String =
                    rest.chars().take_while(|c| c.is_ascii_alphanumeric() || "-_.".contains(*c)).collect();
                (!name.is_empty()).then(|| name.to_ascii_lowercase())
            });
            if declared.is_some() {
                return declared;
            }
        } else if !line.is_empty() {
            return None;
        }
        let mark = if rest[end..].starts_with(b"\r\n") { 2 } else { 1 };
        rest = rest.get(end + mark..)?;
    }
    None
}

/// Decodes `+ACI-`, base64 of big-endian UTF-16.
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
    fn encoded_texts_are_decoded() {
        assert_eq!(decode(b"\xff\xfei\0d\0").text, "id");
        assert_eq!(decode(b"x\xff\ny").text, "x\u{ff}\ny");
        assert_eq!(declared(b"# coding: utf-7\n+AGkAZA-").text.as_deref(), Some("# coding: utf-7\nid"));
        assert_eq!(declared(b"# coding: utf-7\n").odd.as_deref(), Some("utf-7"));
        let latin = declared(b"# -*- coding: latin-1 -*-\n\xe9").text;
        assert_eq!(latin.as_deref(), Some("# -*- coding: latin-1 -*-\n\u{e9}"));
    }

    #[test]
    fn pep_263_comment_declares_encoding() {
        for (text, name) in [
            ("# coding: a-b", Some("a-b")),
            ("\x0c \t# vim: set fileencoding=A.b :\nx", Some("a.b")),
            ("\n# coding=a\n", Some("a")),
            ("#!x\r\n# coding=a\n", Some("a")),
            ("#!x\r# coding=a", Some("a")),
            ("# coding coding:a", Some("a")),
            ("x = 1\n# coding: a\n", None),
            ("x = 1 # coding: a\n", None),
            ("\n\n# coding: a\n", None),
            ("#\r#\r# coding: a\n", None),
            ("\u{a0}# coding: a\n", None),
            ("# coding : a\n", None),
            ("#", None),
            ("", None),
        ] {
            assert_eq!(cookie(text.as_bytes()).as_deref(), name, "{text:?}");
        }
    }
}
