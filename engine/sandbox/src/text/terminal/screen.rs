//! The sequences that a program with a terminal of its own may use, and their undoing.
//!
//! Beside what the line filter passes: movement on the whole screen, erasing (not of what was scrolled away),
//! inserting and deleting, scrolling, margins, line-drawing characters, the style of the cursor, and the
//! modes in [`MODES`]. Sequences that the terminal would answer, that write its title, its clipboard or its
//! colours, or that save modes to restore them later are not among them. `ctlseqs(ms)` of xterm, ECMA-48

use super::{MAX_COLUMN, colours};

/// A private mode that passes, and its value in an unchanged terminal.
const MODES: [(u16, bool); 20] = [
    // Keys of cursor and keypad.
    (1, false),
    (66, false),
    // Origin, wrapping.
    (6, false),
    (7, true),
    // Blinking and visible cursor.
    (12, false),
    (25, true),
    // Mouse: its kinds and encodings, and whether the window has the focus.
    (9, false),
    (1000, false),
    (1002, false),
    (1003, false),
    (1004, false),
    (1005, false),
    (1006, false),
    (1015, false),
    (1016, false),
    // Bracketed paste, synchronized output.
    (2004, false),
    (2026, false),
    // Alternate screen, in three spellings.
    (47, false),
    (1047, false),
    (1049, false),
];
/// Saves and restores the position of the cursor; nothing remains to be undone.
const SAVED_POSITION: u16 = 1048;
const ORIGIN: u16 = 6;
/// Modes in which the terminal sends what no person has typed.
const REPORTING: [u16; 9] = [9, 1000, 1002, 1003, 1004, 1005, 1006, 1015, 1016];
const ALTERNATE: [u16; 3] = [47, 1047, 1049];

/// Changes of a program on the screen so far.
#[derive(Clone, Debug, Default)]
pub struct Screen {
    /// Bits of the modes that differ from their usual value, by their place in [`MODES`].
    modes: u32,
    /// The mode by which the alternate screen was entered.
    alternate: Option<u16>,
    /// The cursor may be above text of the program on the main screen.
    moved: bool,
    margins: bool,
    origin: bool,
    inserts: bool,
    keypad: bool,
    characters: bool,
    style: bool,
    coloured: bool,
    reported: bool,
}

impl Screen {
    /// Whether a control character passes beside those of the line filter: bell, vertical tab, form feed, and
    /// the two shifts between character sets.
    pub fn passes(&mut self, control: char) -> bool {
        self.characters |= matches!(control, '\u{e}' | '\u{f}');
        matches!(control, '\u{7}' | '\u{b}' | '\u{c}' | '\u{e}' | '\u{f}')
    }

    /// Whether an escape sequence passes: its intermediates and its last character.
    pub fn escape(&mut self, intermediates: &[u8], last: char) -> bool {
        match (intermediates, last) {
            ([], '7') => self.moved |= self.alternate.is_some(),
            ([], '8' | 'M') => self.move_cursor(),
            ([], 'D' | 'E') => {}
            ([], '=' | '>') => self.keypad = true,
            ([b'(' | b')'], '0' | 'B') => self.characters = true,
            _ => return false,
        }
        true
    }

    /// The control sequence in the form in which it is passed on, if it may be, and whether that is all of
    /// it.
    pub fn control(&mut self, held: &[u8], last: char) -> Option<(Vec<u8>, bool)> {
        let text = std::str::from_utf8(held).ok()?;
        let (marker, text) = match text.chars().next() {
            Some(marker @ '<'..='?') => (Some(marker), &text[1..]),
            _ => (None, text),
        };
        let parameters = text.trim_end_matches(|c| matches!(c, ' '..='/'));
        let intermediates = &text[parameters.len()..];
        if marker == Some('?') && intermediates.is_empty() && matches!(last, 'h' | 'l') {
            return self.modes(parameters, last);
        }
        if marker.is_some() {
            return None;
        }
        if last == 'm' && intermediates.is_empty() {
            if !parameters.bytes().all(|b| matches!(b, b'0'..=b'9' | b';' | b':')) {
                return None;
            }
            let (kept, whole) = colours(parameters)?;
            self.coloured = true;
            return Some((format!("\x1b[{kept}m").into_bytes(), whole));
        }
        let numbers = numbers(parameters)?;
        let only = |most: u32| numbers.len() == 1 && numbers[0] <= most;
        let fits = match (intermediates, last) {
            (
                "",
                'A'..='G' | 'I' | 'X' | 'Z' | '@' | 'L' | 'M' | 'P' | 'S' | 'T' | '`' | 'a' | 'b' | 'd' | 'e',
            ) => numbers.len() == 1,
            ("", 'H' | 'f' | 'r') => numbers.len() <= 2,
            // Not 3, which erases what was scrolled away.
            ("", 'J' | 'K') => only(2),
            ("", 's' | 'u') => parameters.is_empty(),
            ("", 'h' | 'l') => parameters == "4",
            (" ", 'q') => only(6),
            _ => false,
        };
        if !fits {
            return None;
        }
        match (intermediates, last) {
            ("", 'r') => {
                self.margins = true;
                self.move_cursor();
            }
            ("", 'A' | 'F' | 'H' | 'L' | 'M' | 'S' | 'T' | 'd' | 'f' | 'u') => self.move_cursor(),
            ("", 's') => self.moved |= self.alternate.is_some(),
            ("", 'h' | 'l') => self.inserts = true,
            (" ", 'q') => self.style = true,
            _ => {}
        }
        Some((format!("\x1b[{parameters}{intermediates}{last}").into_bytes(), true))
    }

    /// The private modes that pass, of those that are set or reset together.
    fn modes(&mut self, parameters: &str, last: char) -> Option<(Vec<u8>, bool)> {
        let on = last == 'h';
        let asked: Vec<&str> = parameters.split(';').collect();
        let mut kept: Vec<String> = Vec::new();
        for number in asked.iter().filter_map(|text| text.parse::<u16>().ok()) {
            let place = MODES.iter().position(|(mode, _)| *mode == number);
            match place {
                Some(place) => {
                    let bit = 1 << place;
                    if on == MODES[place].1 { self.modes &= !bit } else { self.modes |= bit }
                }
                None if number == SAVED_POSITION => self.move_cursor(),
                None => continue,
            }
            if ALTERNATE.contains(&number) {
                self.alternate = on.then_some(number);
            }
            self.reported |= on && REPORTING.contains(&number);
            if number == ORIGIN {
                self.origin = true;
                self.move_cursor();
            }
            kept.push(number.to_string());
        }
        let whole = kept.len() == asked.len();
        (!kept.is_empty()).then(|| (format!("\x1b[?{}{last}", kept.join(";")).into_bytes(), whole))
    }

    const fn move_cursor(&mut self) {
        self.moved |= self.alternate.is_none();
    }

    /// Whether the terminal may have sent what no person has typed: movements of the mouse, changes of focus.
    pub const fn reported(&self) -> bool {
        self.reported
    }

    /// Undoes what the program left: modes, screen, margins, characters, colours. If it moved on the main
    /// screen, the cursor goes to the last line, below all that it painted.
    pub fn undo(&mut self, out: &mut Vec<u8>) {
        let left = std::mem::take(self);
        self.reported = left.reported;
        for (place, (mode, usual)) in MODES.iter().enumerate() {
            let is_screen = ALTERNATE.contains(mode) || *mode == ORIGIN;
            if left.modes >> place & 1 == 1 && !is_screen {
                out.extend(format!("\x1b[?{mode}{}", if *usual { 'h' } else { 'l' }).bytes());
            }
        }
        let bottom = left.moved || left.origin;
        if left.origin {
            out.extend(b"\x1b[?6l");
        }
        if left.margins {
            // Resetting them moves the cursor.
            let kept = left.alternate.is_none() && !bottom;
            out.extend(if kept { &b"\x1b7\x1b[r\x1b8"[..] } else { b"\x1b[r" });
        }
        if let Some(mode) = left.alternate {
            out.extend(format!("\x1b[?{mode}l").bytes());
        }
        if bottom {
            out.extend(format!("\x1b[{MAX_COLUMN};1H").bytes());
        }
        for (changed, usual) in [
            (left.inserts, &b"\x1b[4l"[..]),
            (left.keypad, b"\x1b>"),
            (left.characters, b"\x1b(B\x0f"),
            (left.style, b"\x1b[0 q"),
            (left.coloured, b"\x1b[0m"),
        ] {
            if changed {
                out.extend(usual);
            }
        }
    }
}

/// Numbers separated by semicolons, each at most [`MAX_COLUMN`]; an absent number is 0.
fn numbers(text: &str) -> Option<Vec<u32>> {
    let number = |text: &str| match text {
        "" => Some(0),
        text => text.parse().ok().filter(|n| *n <= MAX_COLUMN),
    };
    if text.contains('+') {
        return None;
    }
    text.split(';').map(number).collect()
}

#[cfg(test)]
#[path = "screen_tests.rs"]
mod tests;
