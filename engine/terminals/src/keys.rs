//! Names of keys, and the bytes that a terminal sends for them. `ctlseqs(ms)` of xterm

use hotcell_sandbox::layer::likely;

/// Keys that send the letter of a cursor key: `ESC [ A`, or `ESC O A` where the program asked for that.
const CURSOR: [(&str, char); 6] =
    [("up", 'A'), ("down", 'B'), ("right", 'C'), ("left", 'D'), ("home", 'H'), ("end", 'F')];
/// Keys that always send the same bytes.
const FIXED: [(&str, &str); 24] = [
    ("enter", "\r"),
    ("tab", "\t"),
    ("shift-tab", "\x1b[Z"),
    ("escape", "\x1b"),
    ("backspace", "\x7f"),
    ("space", " "),
    ("insert", "\x1b[2~"),
    ("delete", "\x1b[3~"),
    ("page_up", "\x1b[5~"),
    ("page_down", "\x1b[6~"),
    ("f1", "\x1bOP"),
    ("f2", "\x1bOQ"),
    ("f3", "\x1bOR"),
    ("f4", "\x1bOS"),
    ("f5", "\x1b[15~"),
    ("f6", "\x1b[17~"),
    ("f7", "\x1b[18~"),
    ("f8", "\x1b[19~"),
    ("f9", "\x1b[20~"),
    ("f10", "\x1b[21~"),
    ("f11", "\x1b[23~"),
    ("f12", "\x1b[24~"),
    ("ctrl-space", "\0"),
    ("esc", "\x1b"),
];

/// Names of keys, but for `ctrl-` and `alt-` with a character.
pub fn names() -> impl Iterator<Item = &'static str> {
    FIXED.iter().map(|(name, _)| *name).chain(CURSOR.iter().map(|(name, _)| *name))
}

/// The bytes of a key. `application` says that the program asked for the other bytes of cursor keys.
///
/// # Errors
/// A sentence with the nearest name.
pub fn bytes(name: &str, application: bool) -> Result<Vec<u8>, String> {
    let name = name.trim().to_ascii_lowercase().replace('+', "-");
    // Other spellings of control keys: those of Emacs, of manual pages, and of terminals.
    let of_control = ["c-", "control-", "^"].iter().find_map(|before| name.strip_prefix(before));
    let name = match (name.as_str(), of_control.filter(|letter| !letter.is_empty())) {
        ("pgup" | "pageup" | "page-up", _) => "page_up".to_owned(),
        ("pgdn" | "pagedown" | "page-down", _) => "page_down".to_owned(),
        ("return", _) => "enter".to_owned(),
        (_, Some(letter)) => format!("ctrl-{letter}"),
        _ => name.clone(),
    };
    if let Some((_, bytes)) = FIXED.iter().find(|(known, _)| *known == name) {
        return Ok(bytes.as_bytes().to_vec());
    }
    if let Some((_, letter)) = CURSOR.iter().find(|(known, _)| *known == name) {
        return Ok(format!("\x1b{}{letter}", if application { 'O' } else { '[' }).into_bytes());
    }
    let mut one = name.strip_prefix("ctrl-").unwrap_or_default().chars();
    if let (Some(c @ ('a'..='z' | '@' | '[' | '\\' | ']' | '^' | '_')), None) = (one.next(), one.next()) {
        return Ok(vec![u8::try_from(c.to_ascii_uppercase()).unwrap_or(0) & 0x1f]);
    }
    let mut one = name.strip_prefix("alt-").unwrap_or_default().chars();
    if let (Some(c @ ' '..='~'), None) = (one.next(), one.next()) {
        return Ok(format!("\x1b{c}").into_bytes());
    }
    let shown: String = name.chars().take(40).collect();
    if shown.chars().count() == 1 {
        return Err(format!(
            "there is no key {shown:?}: letters go into text, and keys takes names such as enter, up and ctrl-c"
        ));
    }
    // A letter may be meant with ctrl or alt.
    let with_letter: Vec<String> = match name.rsplit_once('-') {
        Some((_, letter)) if letter.chars().count() == 1 => {
            ["ctrl", "alt"].map(|held| format!("{held}-{letter}")).to_vec()
        }
        _ => Vec::new(),
    };
    let usual = names().map(|name| -> &str { name });
    let near = likely(&name, with_letter.iter().map(String::as_str).chain(usual));
    let near = near.map(|near| format!("did you mean {near}? ")).unwrap_or_default();
    let all: Vec<_> = names().filter(|name| *name != "esc").collect();
    Err(format!(
        "there is no key {shown:?}; {near}there are {}, ctrl-a and alt-a with any letter",
        all.join(", ")
    ))
}

/// Bytes of a text that is typed: a new line is the enter key.
#[must_use]
pub fn text(text: &str) -> Vec<u8> {
    text.replace("\r\n", "\r").replace('\n', "\r").into_bytes()
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn keys_have_bytes_and_wrong_ones_an_explanation() {
        for (name, want) in [
            ("enter", "\r"),
            ("Up", "\x1b[A"),
            ("ctrl-c", "\x03"),
            ("C-d", "\x04"),
            ("^C", "\x03"),
            ("Control-C", "\x03"),
            ("^[", "\x1b"),
            ("Return", "\r"),
            ("ctrl+\\", "\x1c"),
            ("ctrl-[", "\x1b"),
            ("ctrl-space", "\0"),
            ("alt-x", "\x1bx"),
            ("PgUp", "\x1b[5~"),
            ("f12", "\x1b[24~"),
        ] {
            assert_eq!(bytes(name, false).as_deref(), Ok(want.as_bytes()), "{name}");
        }
        assert_eq!(bytes("up", true).as_deref(), Ok(&b"\x1bOA"[..]));
        for name in names() {
            assert!(bytes(name, true).is_ok(), "{name}");
        }
        for (name, says) in [
            ("entr", "did you mean enter?"),
            ("ctl-c", "did you mean ctrl-c?"),
            ("atl-x", "did you mean alt-x?"),
            ("^", "letters go into text"),
            ("", "there are"),
            ("ctrl-", "ctrl-a"),
            ("ctrl-ab", "no key"),
            ("a", "letters go into text"),
            ("é", "letters go into text"),
        ] {
            assert!(bytes(name, false).unwrap_err().contains(says), "{name}");
        }
        assert_eq!(text("a\nb\r\n"), b"a\rb\r");
    }
}
