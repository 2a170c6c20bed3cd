//! Text invisible to a human reader: direction overrides, invisible characters, look-alike letters, text
//! addressed to reviewers.

use crate::context::Cx;
use crate::language::Language;
use crate::report::PartState;
use crate::rules::TextKind;

/// Checks the characters of any part.
pub(crate) fn read(cx: &mut Cx<'_>, language: Language, text: &str) {
    if text.is_ascii() {
        return;
    }
    let mut open: Option<usize> = None;
    let mut invisible = 0;
    for (at, c) in text.char_indices() {
        match c {
            // Embeddings and overrides always count; isolates only if still open at the end of the line.
            '\u{202d}' | '\u{202e}' => cx.fact(language, "hidden.bidi", (at, at + 3)),
            '\u{202a}' | '\u{202b}' | '\u{2066}'..='\u{2068}' => open = Some(at),
            '\u{202c}' | '\u{2069}' => open = None,
            '\n' => {
                if let Some(begin) = open.take() {
                    cx.fact(language, "hidden.bidi", (begin, at));
                }
            }
            // Tag characters and variation selectors above the first sixteen can carry invisible text.
            '\u{e0001}'..='\u{e007f}' | '\u{e0100}'..='\u{e01ef}' => {
                invisible += 1;
                if invisible == 4 {
                    cx.fact(language, "hidden.invisible", (at, at + 4));
                }
            }
            '\u{200b}' | '\u{2060}' | '\u{feff}' | '\u{00ad}' | '\u{3164}' | '\u{115f}' | '\u{1160}'
                if at > 0 =>
            {
                let neighbour = |c: Option<char>| c.is_some_and(|c| c.is_ascii_alphanumeric() || c == '_');
                let before = neighbour(text[..at].chars().next_back());
                let after = neighbour(text[at + c.len_utf8()..].chars().next());
                if before && after || c == '\u{3164}' {
                    cx.fact(language, "hidden.zero_width", (at, at + c.len_utf8()));
                }
            }
            _ => {}
        }
    }
}

/// Prose: reports only text addressed to a reviewer or a model.
pub(crate) fn prose(cx: &mut Cx<'_>, text: &str) -> PartState {
    cx.text(TextKind::Comment, text, (0, text.len()), &[]);
    PartState::Inert
}
