//! Makes untrusted text safe to show to a person or a model: one rule for the command line, approvals, forms,
//! diffs, tool answers and pages.
//!
//! A character is kept only if it is assigned, visible and does not change the reading order; the only blank
//! kept is U+0020. Everything else becomes `\u{…}` (`\n`, `\r`, `\t` for these three), so that no character
//! added by a future version of Unicode can pass. [`printable`] makes one line of the text; [`barred`] keeps
//! the lines and puts a bar before each, so that none of them can be mistaken for a line of hotcell's own.

pub mod hidden;
pub mod html;
pub mod parameters;
pub mod terminal;

/// Maximum number of marks stacked on one character. No script needs more, and more would cover the lines
/// above and below.
pub const MAX_MARKS: usize = 4;

/// `Default_Ignorable_Code_Point` of Unicode 17 (DerivedCoreProperties.txt): invisible, unless a font has a
/// glyph for it. Unassigned and format characters among them are already hidden by their category.
const IGNORABLE: [(u32, u32); 17] = [
    (0xad, 0xad),
    (0x34f, 0x34f),
    (0x61c, 0x61c),
    (0x115f, 0x1160),
    (0x17b4, 0x17b5),
    (0x180b, 0x180f),
    (0x200b, 0x200f),
    (0x202a, 0x202e),
    (0x2060, 0x206f),
    (0x3164, 0x3164),
    (0xfe00, 0xfe0f),
    (0xfeff, 0xfeff),
    (0xffa0, 0xffa0),
    (0xfff0, 0xfff8),
    (0x1_bca0, 0x1_bca3),
    (0x1_d173, 0x1_d17a),
    (0xe_0000, 0xe_0fff),
];

/// The empty Braille pattern: a symbol by its category, but blank.
const BLANK_BRAILLE: char = '\u{2800}';

/// A number and its noun, in the singular for 1: `1 test`, `2 tests`.
#[must_use]
pub fn counted(count: impl std::fmt::Display, noun: &str) -> String {
    let count = count.to_string();
    let end = if count == "1" { "" } else { "s" };
    format!("{count} {noun}{end}")
}

/// Whether a character is visible: a graphic character that is assigned and not ignorable, or U+0020.
/// Excluded are controls, direction marks, separators, blanks other than U+0020, fillers, tags, variation
/// selectors, private use and unassigned characters.
#[must_use]
pub fn is_shown(c: char) -> bool {
    if c.is_ascii() {
        return !c.is_ascii_control();
    }
    let code = u32::from(c);
    let ignorable = IGNORABLE.iter().any(|(first, last)| (*first..=*last).contains(&code));
    !ignorable && c != BLANK_BRAILLE && is_graphic(c)
}

/// Whether a character has a graphic category and is not a blank, by the standard library's tables: behind
/// another character, `Debug` escapes exactly those of the categories Cc, Cf, Cs, Co, Cn, Zl, Zp, and Zs
/// other than U+0020.
fn is_graphic(c: char) -> bool {
    let mut pair = [b'a'; 5];
    let length = c.encode_utf8(&mut pair[1..]).len();
    std::str::from_utf8(&pair[..=length]).is_ok_and(|pair| pair.escape_debug().nth(2).is_none())
}

/// Whether a visible character has no width of its own and is drawn onto the one before it.
#[must_use]
pub fn is_mark(c: char) -> bool {
    // At the start of a string, `Debug` escapes characters that extend a grapheme. Medial vowels and final
    // consonants of Korean have another property.
    !c.is_ascii()
        && (c.escape_debug().nth(1).is_some()
            || matches!(c, '\u{1160}'..='\u{11ff}' | '\u{d7b0}'..='\u{d7c6}' | '\u{d7cb}'..='\u{d7fb}'))
}

/// Turns text into one line in which every character is visible: characters that [`is_shown`] refuses are
/// escaped, and so is a mark without a base character or on top of too many others. A backslash is doubled
/// where it would otherwise look like the start of such an escape. Only a line feed, a carriage return and a
/// tab look the same as the two characters `\n`, `\r`, `\t`. At most six times as many bytes as `text`.
#[must_use]
pub fn printable(text: &str) -> String {
    escaped(text, false)
}

/// Like [`printable`], for a message of hotcell in which some values are quoted, or escaped, already: an escape in it stays as
/// it is, so that no character is escaped twice. A value that contains the characters of an escape looks like that escape.
#[must_use]
pub fn printable_message(message: &str) -> String {
    escaped(message, true)
}

fn escaped(text: &str, keeps_escapes: bool) -> String {
    let mut out = String::with_capacity(text.len());
    // The text has no base character yet, so a mark at its start is escaped.
    let mut marks = MAX_MARKS;
    let mut rest = text;
    while let Some(c) = rest.chars().next() {
        if c == '\\' {
            let run = rest.bytes().take_while(|b| *b == b'\\').count();
            rest = &rest[run..];
            let escape =
                rest.starts_with("u{") && !keeps_escapes || rest.chars().next().is_some_and(|c| !is_shown(c));
            out.extend(std::iter::repeat_n('\\', if escape { run * 2 } else { run }));
            marks = 0;
            continue;
        }
        rest = &rest[c.len_utf8()..];
        let mark = is_mark(c);
        if is_shown(c) && !(mark && marks >= MAX_MARKS) {
            out.push(c);
            marks = if mark { marks + 1 } else { 0 };
        } else if matches!(c, '\n' | '\r' | '\t') {
            out.extend(c.escape_default());
            marks = MAX_MARKS;
        } else {
            out.extend(c.escape_unicode());
            marks = MAX_MARKS;
        }
    }
    out
}

/// Like [`printable`] for one line, but keeps tabs.
#[must_use]
pub fn printable_line(line: &str) -> String {
    let words: Vec<String> = line.split('\t').map(printable).collect();
    words.join("\t")
}

/// Writes each line as [`printable_line`] does, with `bar` before it and a line feed after it, so that no
/// line can look like hotcell's own. Empty for an empty text.
#[must_use]
pub fn barred(text: &str, bar: &str) -> String {
    text.lines().map(|line| format!("{bar}{}\n", printable_line(line))).collect()
}

/// Like [`barred`], but breaks lines at `columns`, with the bar before each piece: a line wrapped by the
/// terminal would continue without a bar. Tabs are escaped. A character beyond ASCII counts as two columns.
#[must_use]
pub fn barred_within(text: &str, bar: &str, columns: usize) -> String {
    let mut out = String::with_capacity(text.len() + 16);
    for line in text.lines().chain(text.is_empty().then_some("")) {
        out.push_str(bar);
        let mut column = bar.len();
        for c in printable(line).chars() {
            let width = if c.is_ascii() { 1 } else { 2 };
            if column + width > columns && column > bar.len() {
                out.push('\n');
                out.push_str(bar);
                column = bar.len();
            }
            // A mark here would be drawn onto the bar.
            if column == bar.len() && is_mark(c) {
                out.extend(c.escape_unicode());
            } else {
                out.push(c);
            }
            column += width;
        }
        out.push('\n');
    }
    out
}

#[cfg(test)]
#[path = "text/tests.rs"]
mod tests;
