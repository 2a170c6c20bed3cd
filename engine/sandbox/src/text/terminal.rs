//! Filters a program's output down to what a person's terminal may obey: text, colours, and movement within
//! the current line.
//!
//! Bytes come in pieces of any size; whole characters and whole sequences come out, so that two streams can
//! share a screen. Passed on are UTF-8 characters, line feed, carriage return, tab and backspace, SGR without
//! conceal and fonts, `CSI K` (erase in line) and `CSI C`, `D`, `G` (move within the line). Everything else
//! is dropped and counted: OSC, DCS, APC, PM and SOS with their contents, private modes, queries, movement to
//! other lines (where hotcell's own lines are), character sets, and every unknown control and sequence.
//! Introducers are recognized in all three spellings: `ESC [`, the byte 0x9b, and U+009B. Bytes that are not
//! UTF-8 become U+FFFD. Pure; it holds at most `MAX_SEQUENCE` bytes.
//!
//! A program with a terminal of its own may use the whole screen ([`Filter::of_screen`]); what it changed is
//! undone at its end ([`Filter::undo`]).

mod screen;

use screen::Screen;

/// Maximum length in bytes of the parameters of a `CSI` sequence that is passed on. The longest colour has
/// 30.
const MAX_SEQUENCE: usize = 128;
/// Highest column in a movement that is passed on.
const MAX_COLUMN: u32 = 9_999;

/// Parser state after the last character.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum State {
    /// In text.
    Text,
    /// After `ESC` and possibly intermediates (0x20 to 0x2f). If the `ESC` ended a string, a following `\` is
    /// that string's terminator.
    Escape { of_string: bool },
    /// After `CSI`; the parameters are held unless there are too many.
    Control { too_long: bool },
    /// In a string that is dropped. An OSC string may also end with BEL.
    String { bell_ends: bool },
}

/// Filters one stream for a terminal.
#[derive(Clone, Debug)]
pub struct Filter {
    state: State,
    /// First bytes of an incomplete UTF-8 character.
    partial: Vec<u8>,
    /// Parameters and intermediates of the current sequence.
    held: Vec<u8>,
    /// Changes of the program on the screen; `None` if it may only use the current line.
    screen: Option<Screen>,
    left_out: u64,
}

impl Default for Filter {
    fn default() -> Self {
        let (partial, held) = (Vec::new(), Vec::new());
        Self { state: State::Text, partial, held, screen: None, left_out: 0 }
    }
}

impl Filter {
    /// Makes a filter; its input begins at the start of a stream.
    #[must_use]
    pub fn new() -> Self {
        Self::default()
    }

    /// Makes a filter for the output of a program that may use the whole screen.
    #[must_use]
    pub fn of_screen() -> Self {
        Self { screen: Some(Screen::default()), ..Self::default() }
    }

    /// Appends the sequences that undo what the program changed on the screen: modes, the alternate screen,
    /// margins, character sets, colours. Nothing for a filter of lines.
    pub fn undo(&mut self, out: &mut Vec<u8>) {
        if let Some(screen) = &mut self.screen {
            screen.undo(out);
        }
    }

    /// Whether the terminal may have sent reports of mouse or focus, which a program asked for.
    #[must_use]
    pub fn reported(&self) -> bool {
        self.screen.as_ref().is_some_and(Screen::reported)
    }

    /// Number of sequences and controls dropped so far.
    #[must_use]
    pub const fn left_out(&self) -> u64 {
        self.left_out
    }

    /// Filters the next bytes of the stream and appends the result to `out`.
    pub fn push(&mut self, bytes: &[u8], out: &mut Vec<u8>) {
        for byte in bytes {
            self.byte(*byte, out);
        }
    }

    /// Ends the stream: an incomplete character becomes U+FFFD, an incomplete sequence is dropped.
    pub fn finish(&mut self, out: &mut Vec<u8>) {
        for byte in std::mem::take(&mut self.partial) {
            self.stray(byte, out);
        }
        self.state = State::Text;
        self.held.clear();
    }

    fn byte(&mut self, byte: u8, out: &mut Vec<u8>) {
        if self.partial.is_empty() {
            match byte {
                0..=0x7f => self.character(char::from(byte), out),
                0xc2..=0xf4 => self.partial.push(byte),
                _ => self.stray(byte, out),
            }
            return;
        }
        self.partial.push(byte);
        match std::str::from_utf8(&self.partial) {
            Ok(text) => {
                let whole = text.chars().next();
                self.partial.clear();
                whole.into_iter().for_each(|c| self.character(c, out));
            }
            // The character may still be completed.
            Err(e) if e.error_len().is_none() => {}
            Err(_) => {
                self.partial.pop();
                for earlier in std::mem::take(&mut self.partial) {
                    self.stray(earlier, out);
                }
                self.byte(byte, out);
            }
        }
    }

    /// Handles a byte that is not UTF-8. 8-bit terminals obey those that are C1 controls.
    fn stray(&mut self, byte: u8, out: &mut Vec<u8>) {
        let c = if (0x80..0xa0).contains(&byte) { char::from(byte) } else { char::REPLACEMENT_CHARACTER };
        self.character(c, out);
    }

    fn character(&mut self, c: char, out: &mut Vec<u8>) {
        if self.state == (State::Escape { of_string: true })
            && !matches!(c, '\\' | '\u{18}' | '\u{1a}' | '\u{1b}')
        {
            self.left_out += 1;
            self.state = State::Escape { of_string: false };
        }
        match (self.state, c) {
            // In any state, these start a new sequence or cancel the current one, which was counted when it
            // began.
            (_, '\u{18}' | '\u{1a}') => self.turn_to(State::Text),
            (_, '\u{1b}') => {
                let of_string = matches!(self.state, State::String { .. });
                self.left_out += u64::from(!of_string);
                self.turn_to(State::Escape { of_string });
            }
            (State::String { .. }, '\u{9c}') | (State::String { bell_ends: true }, '\u{7}') => {
                self.turn_to(State::Text);
            }
            (State::String { .. }, _) => {}
            (_, '\u{80}'..='\u{9f}') => {
                self.left_out += 1;
                self.introduced(c);
            }
            (State::Text, _) => self.text(c, out),
            // Terminals execute a control in the middle of a sequence, and then continue the sequence.
            (_, '\0'..='\u{1f}' | '\u{7f}') => self.text(c, out),
            (State::Escape { .. }, ' '..='/') => {
                if self.held.len() < MAX_SEQUENCE {
                    self.held.extend(u8::try_from(c));
                }
            }
            (State::Escape { .. }, '0'..='~') if self.may_escape(c) => {
                out.push(0x1b);
                out.extend_from_slice(&self.held);
                out.extend(u8::try_from(c));
                self.left_out -= 1;
                self.turn_to(State::Text);
            }
            // The title of a window of screen(1) and tmux(1): a string, that others show as text.
            (State::Escape { .. }, 'k') if self.held.is_empty() && self.screen.is_some() => {
                self.turn_to(State::String { bell_ends: false });
            }
            (State::Escape { .. }, '@'..='_') if self.held.is_empty() => {
                // `ESC [` is the same as U+009B, and so on.
                self.introduced(char::from_u32(u32::from(c) + 0x40).unwrap_or(c));
            }
            (State::Escape { .. }, '0'..='~') => self.turn_to(State::Text),
            (State::Control { too_long }, ' '..='?') => {
                let too_long = too_long || self.held.len() >= MAX_SEQUENCE;
                if !too_long {
                    self.held.extend(u8::try_from(c));
                }
                self.state = State::Control { too_long };
            }
            (State::Control { too_long }, '@'..='~') => {
                let passed = match &mut self.screen {
                    _ if too_long => None,
                    Some(screen) => screen.control(&self.held, c),
                    None => passed(&self.held, c),
                };
                self.turn_to(State::Text);
                if let Some((sequence, whole)) = passed {
                    self.left_out -= u64::from(whole);
                    out.extend_from_slice(&sequence);
                }
            }
            // This character cannot continue the sequence.
            (State::Escape { .. } | State::Control { .. }, _) => {
                self.turn_to(State::Text);
                self.text(c, out);
            }
        }
    }

    fn may_escape(&mut self, last: char) -> bool {
        let held = &self.held;
        self.screen.as_mut().is_some_and(|screen| screen.escape(held, last))
    }

    fn turn_to(&mut self, state: State) {
        self.state = state;
        self.held.clear();
    }

    /// Enters the state that a C1 control introduces.
    fn introduced(&mut self, c: char) {
        self.turn_to(match c {
            '\u{9b}' => State::Control { too_long: false },
            '\u{9d}' => State::String { bell_ends: true },
            '\u{90}' | '\u{98}' | '\u{9e}' | '\u{9f}' => State::String { bell_ends: false },
            _ => State::Text,
        });
    }

    fn text(&mut self, c: char, out: &mut Vec<u8>) {
        let screen = self.screen.as_mut();
        if c.is_control()
            && !matches!(c, '\n' | '\r' | '\t' | '\u{8}')
            && !screen.is_some_and(|screen| screen.passes(c))
        {
            self.left_out += 1;
            return;
        }
        out.extend_from_slice(c.encode_utf8(&mut [0; 4]).as_bytes());
    }
}

/// The sequence in the form in which it is passed on, if it may be, and whether that is all of it.
fn passed(parameters: &[u8], last: char) -> Option<(Vec<u8>, bool)> {
    // A private parameter or an intermediate gives the sequence another meaning.
    if !parameters.iter().all(|b| matches!(b, b'0'..=b'9' | b';' | b':')) {
        return None;
    }
    let text = std::str::from_utf8(parameters).ok()?;
    let mut whole = true;
    let parameters = match last {
        'm' => {
            let (kept, all) = colours(text)?;
            whole = all;
            kept
        }
        'K' => text.parse::<u32>().map_or(text.is_empty(), |n| n <= 2).then(|| text.to_owned())?,
        'C' | 'D' | 'G' => {
            text.parse::<u32>().map_or(text.is_empty(), |n| n <= MAX_COLUMN).then(|| text.to_owned())?
        }
        _ => return None,
    };
    Some((format!("\x1b[{parameters}{last}").into_bytes(), whole))
}

/// The SGR attributes that may be passed on, and whether these are all; `None` if none is left, or if
/// terminals disagree on how to split them.
fn colours(text: &str) -> Option<(String, bool)> {
    let number = |text: &str| if text.is_empty() { Some(0) } else { text.parse::<u32>().ok() };
    let mut kept: Vec<String> = Vec::new();
    let mut whole = true;
    let mut all = text.split(';');
    while let Some(one) = all.next() {
        let mut parts = one.split(':');
        let first = number(parts.next()?).unwrap_or(u32::MAX);
        if one.contains(':') {
            // Sub-parameters: kinds of underline, and colours by index or by components, with or without a
            // colour space.
            let parts: Option<Vec<u32>> = parts.map(|part| number(part).filter(|n| *n <= 255)).collect();
            let good = match (first, parts.unwrap_or_default().as_slice()) {
                (4, [form]) => *form <= 5,
                (38 | 48 | 58, [5, _] | [2, _, _, _] | [2, _, _, _, _]) => true,
                _ => false,
            };
            if good {
                kept.push(one.to_owned());
            }
            whole &= good;
            continue;
        }
        match first {
            // A terminal without underline colours would read the components as attributes, unless they are
            // sub-parameters.
            58 => return None,
            38 | 48 => {
                let kind = number(all.next()?)?;
                let count = match kind {
                    5 => 1,
                    2 => 3,
                    _ => return None,
                };
                let mut colour = format!("{first};{kind}");
                for _ in 0..count {
                    let part = number(all.next()?).filter(|n| *n <= 255)?;
                    colour.push_str(&format!(";{part}"));
                }
                kept.push(colour);
            }
            // Not 8, conceal; not 10 to 20, fonts, which some terminals treat as character sets.
            0..=7 | 9 | 21..=29 | 30..=37 | 39..=47 | 49 | 53 | 55 | 59 | 90..=97 | 100..=107 => {
                kept.push(first.to_string());
            }
            _ => whole = false,
        }
    }
    (!kept.is_empty()).then(|| (kept.join(";"), whole))
}

#[cfg(test)]
#[path = "terminal/tests.rs"]
mod tests;
