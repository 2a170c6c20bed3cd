//! Text that was typed into a terminal, as the guard reads it: the text as far as it is known, with the last characters removed where they were
//! erased.
//!
//! The editing of the program (moving in the line, history, completion) is not known here, so that the line that the program takes after such a
//! key is in [`Doubt`]. Its screen is no better source: a program may show another line than it takes, or none. A line in doubt is not sent;
//! ctrl-c gives it up.

use crate::lines::{self, Lines};

/// Maximum size of what is kept, in bytes; the beginning is dropped, at a line's end.
pub const MAX_TYPED_BYTES: usize = 128 << 10;

/// Maximum size of a line of code, in bytes; a terminal keeps 4095 and drops the rest. `termios(3)`, canonical mode
const MAX_LINE_BYTES: usize = 4000;

/// Text that was typed so far.
#[derive(Clone, Debug, Default)]
pub struct Typed {
    text: String,
    /// Reason why the last line is not the one that the program has.
    doubt: Option<Doubt>,
    /// The next character has no meaning of its own: it follows ctrl-v.
    is_literal_next: bool,
    /// A typed line may have made ctrl-c a key without effect.
    keeps_interrupted: bool,
    /// A double quotation mark of an earlier line is open, for the history expansion of shells.
    is_quoted: bool,
}

/// Reason why a line may be another one than the guard reads.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum Doubt {
    /// A key that edits, recalls or completes.
    Key(String),
    /// Ctrl-C, which an earlier line may have made a key without effect.
    Interrupted,
    /// A word of the line that recalls history or changes what keys do.
    Word(String),
    /// A key that opens an editor on the line, which is executed at its end without enter.
    Editor(String),
    /// A line of which a terminal without a line editor keeps the beginning alone.
    Long,
}

impl std::fmt::Display for Doubt {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        match self {
            Self::Key(key) => write!(
                f,
                "the line was changed by {key}, and what the program made of it is not known: send ctrl-c, then type the whole line as text"
            ),
            Self::Interrupted => f.write_str(
                "an earlier line may have made ctrl-c a key without effect, so that the line before it may be there still: close this terminal and start another",
            ),
            Self::Word(word) => write!(
                f,
                "the line has {word}, which recalls earlier lines or changes what keys do: type the whole line without it"
            ),
            Self::Editor(key) => write!(
                f,
                "{key} opens an editor whose text is executed without being read: put it into a file of a workspace"
            ),
            Self::Long => write!(
                f,
                "the line has more than {MAX_LINE_BYTES} bytes, of which a terminal may keep the beginning alone: put it into a file of a workspace"
            ),
        }
    }
}

/// Meaning of pushed keys for the guard.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct Pushed {
    /// The program may execute something now: a line was sent, or a key typed that expands what is in the line.
    pub executes: bool,
    /// First reason why the guard cannot read what is executed.
    pub doubt: Option<Doubt>,
}

impl Typed {
    /// Adds the bytes of keys and texts that are typed into a program whose lines are of a kind.
    pub fn push(&mut self, bytes: &[u8], lines: Lines) -> Pushed {
        let mut pushed = Pushed::default();
        let text = String::from_utf8_lossy(bytes);
        let mut rest = text.chars().peekable();
        while let Some(c) = rest.next() {
            if std::mem::take(&mut self.is_literal_next) {
                // The character itself, an enter or a ctrl-c included.
                pushed.executes = true;
                self.doubt = Some(Doubt::Key("a character after ctrl-v".to_owned()));
                continue;
            }
            match c {
                '\r' | '\n' | '\u{f}' => {
                    self.sent(lines, &mut pushed);
                    self.text.push('\n');
                    // Ctrl-O sends the line, and recalls the one after it in the history.
                    self.doubt = (c == '\u{f}').then(|| Doubt::Key("ctrl-o".to_owned()));
                }
                // Sends what is in the line to a program without a line editor.
                '\u{4}' => {
                    pushed.executes = true;
                    self.tell(lines, &mut pushed);
                }
                '\u{7f}' => self.erase_character(),
                '\u{15}' if self.doubt.is_none() => self.erase(|_| true, usize::MAX),
                '\u{17}' if self.doubt.is_none() && self.ends_with_word() => {
                    self.erase(char::is_whitespace, usize::MAX);
                    self.erase(|c| !c.is_whitespace(), usize::MAX);
                }
                '\u{3}' => self.interrupted(),
                // Redraws; suspends and quits what has no line.
                '\u{c}' | '\u{1a}' | '\u{1c}' if self.doubt.is_none() && self.line().is_empty() => {}
                '\u{1b}' => {
                    let mut key = String::new();
                    if let Some(first) = rest.next_if(|next| matches!(next, '[' | 'O')) {
                        key.push(first);
                        while let Some(c) =
                            rest.next_if(|next| !next.is_control() && !('@'..='~').contains(next))
                        {
                            key.push(c);
                        }
                    }
                    // A control character in a sequence keeps its own meaning.
                    key.extend(rest.next_if(|next| !next.is_control()));
                    self.doubt = Some(Doubt::Key(escape_name(&key)));
                    pushed.executes = true;
                    if lines.is_shell() && matches!(key.as_str(), "e" | "v") {
                        pushed.doubt.get_or_insert(Doubt::Editor(format!("alt-{key}")));
                    }
                }
                '\t' => {
                    self.text.push('\t');
                    self.doubt_key(c, &mut pushed, lines);
                }
                c if c.is_control() => self.doubt_key(c, &mut pushed, lines),
                c => self.text.push(c),
            }
        }
        if !lines.are_code() {
            pushed.doubt = None;
        }
        self.shorten();
        pushed
    }

    /// The text.
    #[must_use]
    pub fn text(&self) -> &str {
        &self.text
    }

    /// The line that was not sent yet.
    fn line(&self) -> &str {
        self.text.rsplit('\n').next().unwrap_or_default()
    }

    /// Notes that a line was sent.
    fn sent(&mut self, lines: Lines, pushed: &mut Pushed) {
        pushed.executes = true;
        self.tell(lines, pushed);
        let line = self.line();
        let read = lines::read(line, lines, self.is_quoted);
        if line.len() > MAX_LINE_BYTES {
            pushed.doubt.get_or_insert(Doubt::Long);
        }
        let (is_quoted, keeps) = (read.is_quoted, read.keeps_interrupted);
        if let Some(word) = read.word {
            pushed.doubt.get_or_insert(Doubt::Word(word));
        }
        self.is_quoted = is_quoted;
        self.keeps_interrupted |= keeps;
    }

    fn tell(&self, lines: Lines, pushed: &mut Pushed) {
        if let Some(doubt) = self.doubt.as_ref().filter(|_| lines.are_code()) {
            pushed.doubt.get_or_insert_with(|| doubt.clone());
        }
    }

    /// Notes a control character whose effect on the line is not known.
    fn doubt_key(&mut self, c: char, pushed: &mut Pushed, lines: Lines) {
        let name = control_name(c);
        // Completion and expansion may run code that is in the line.
        pushed.executes = true;
        if c == '\u{18}' && lines.is_shell() {
            pushed.doubt.get_or_insert(Doubt::Editor(name.clone()));
        }
        self.is_literal_next = c == '\u{16}';
        self.doubt = Some(Doubt::Key(name));
    }

    /// Ctrl-C: the line is given up.
    fn interrupted(&mut self) {
        if self.keeps_interrupted && (self.doubt.is_some() || !self.line().is_empty()) {
            self.doubt = Some(Doubt::Interrupted);
            return;
        }
        self.erase(|_| true, usize::MAX);
        (self.doubt, self.is_quoted) = (None, false);
    }

    /// Backspace. An empty line may be joined with the one before it, and some characters are erased in pieces.
    fn erase_character(&mut self) {
        match self.text.chars().next_back() {
            Some(c) if c.is_ascii() && c != '\n' && c != '\t' => drop(self.text.pop()),
            _ => self.doubt = Some(Doubt::Key("backspace".to_owned())),
        }
    }

    /// True when all programs agree about the last word.
    fn ends_with_word(&self) -> bool {
        let word = self.line().trim_end().rsplit(char::is_whitespace).next().unwrap_or_default();
        word.chars().all(|c| c.is_ascii_alphanumeric() || c == '_')
    }

    /// Removes characters of the last line from its end.
    fn erase(&mut self, which: impl Fn(char) -> bool, most: usize) {
        let mut left = most;
        while left > 0 && self.text.chars().next_back().is_some_and(|c| c != '\n' && which(c)) {
            self.text.pop();
            left -= 1;
        }
    }

    fn shorten(&mut self) {
        if self.text.len() > MAX_TYPED_BYTES {
            let mut from = self.text.len() - MAX_TYPED_BYTES;
            while !self.text.is_char_boundary(from) {
                from += 1;
            }
            let from = self.text[from..].find('\n').map_or(from, |at| from + at + 1);
            self.text.drain(..from);
        }
    }
}

/// Name of a control character, as a caller types it.
fn control_name(c: char) -> String {
    match u32::from(c) {
        9 => "tab".to_owned(),
        8 => "ctrl-h".to_owned(),
        0 => "ctrl-space".to_owned(),
        code @ 1..=31 => {
            let letter = char::from_u32(code + 0x40).unwrap_or('?').to_ascii_lowercase();
            format!("ctrl-{letter}")
        }
        code => format!("the control character {code}"),
    }
}

/// Name of a key that begins with escape.
fn escape_name(key: &str) -> String {
    let name = match key {
        "" => "escape",
        "[A" | "OA" => "up",
        "[B" | "OB" => "down",
        "[C" | "OC" => "right",
        "[D" | "OD" => "left",
        "[H" | "OH" => "home",
        "[F" | "OF" => "end",
        "[3~" => "delete",
        _ if key.chars().count() == 1 => return format!("alt-{}", key.escape_default()),
        _ => "a cursor or function key",
    };
    name.to_owned()
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn erased_characters_are_not_there() {
        for (keys, want) in [
            (&["ls -l\r"][..], "ls -l\n"),
            (&["rx", "\x7f", "m\r"], "rm\n"),
            (&["a\rbc\x15d"], "a\nd"),
            (&["one two \x17x"], "one x"),
            (&["a\x1b[Ab\x1bOPc\x1b[15~d"], "abcd"),
            (&["half\x03ls\r"], "ls\n"),
            (&["\x7f\x7fa\x04\0"], "a"),
        ] {
            let mut typed = Typed::default();
            for key in keys {
                typed.push(key.as_bytes(), Lines::Code);
            }
            assert_eq!(typed.text(), want, "{keys:?}");
        }
    }

    #[test]
    fn size_is_bounded() {
        let mut typed = Typed::default();
        for number in 0..50_000 {
            typed.push(format!("line {number} é\r").as_bytes(), Lines::Code);
        }
        assert!(typed.text().len() <= MAX_TYPED_BYTES && typed.text().starts_with("line "));
        typed.push("é".repeat(MAX_TYPED_BYTES).as_bytes(), Lines::Code);
        assert!(typed.text().len() <= MAX_TYPED_BYTES);
    }

    /// First doubt of keys that are pushed one after the other; the first one ends them, as a refused call does.
    fn doubt(keys: &[&str], lines: Lines) -> Option<String> {
        let mut typed = Typed::default();
        keys.iter().find_map(|key| typed.push(key.as_bytes(), lines).doubt).map(|doubt| doubt.to_string())
    }

    #[test]
    fn lines_put_together_by_keys_are_in_doubt() {
        let long = format!("rm -rf /home{}x\r", " ".repeat(MAX_LINE_BYTES));
        for (keys, says) in [
            // Moving in the line.
            (&["/home", "\x01", "rm -rf ", "\r"][..], "ctrl-a"),
            (&["m -rf /home\x1b[Hr\r"], "home"),
            (&["m -rf /home\x1bOHr\r"], "home"),
            (&["ab\x1b[Dx\r"], "left"),
            (&["ab\x02x\n"], "ctrl-b"),
            (&["a b\x1bbx\r"], "alt-b"),
            // Recalling.
            (&["ls\r", "\x1b[A\r"], "up"),
            (&["\x10\r"], "ctrl-p"),
            (&["\x12rm\r"], "ctrl-r"),
            (&["ls\x0f", "\r"], "ctrl-o"),
            // Cutting and putting back.
            (&["rm -rf /home\x15", "\x19\r"], "ctrl-y"),
            (&["rm x\x0b\r"], "ctrl-k"),
            (&["a/b.c\x17\r"], "ctrl-w"),
            (&["x\x14\r"], "ctrl-t"),
            // Completing.
            (&["rm -rf /ho\t\r"], "tab"),
            (&["\ty", "rm\r"], "tab"),
            // Characters whose meaning depends on the program.
            (&["rx\x08m\r"], "ctrl-h"),
            (&["x\x16\x03rm\r"], "after ctrl-v"),
            (&["é\x7fx\r"], "backspace"),
            (&["(shu\r", "\x7f", "til)\r"], "backspace"),
            (&["ec\x1arm -rf /home\r"], "ctrl-z"),
            (&["ab\x1b\r"], "escape"),
            (&["ab\x1b[\r"], "alt-["),
            (&["ab\x1b[1;\r"], "cursor or function key"),
            (&["a\x01\x04"], "ctrl-a"),
            // Ctrl-U erases up to the cursor only.
            (&["rm /home\x01\x15\r"], "ctrl-u"),
            // Cut off by the terminal.
            (&[&long], "more than 4000"),
            // Ctrl-C that is ignored.
            (&["trap '' INT\r", "rm -rf /ho\x03", "me\r"], "ctrl-c"),
        ] {
            let said = doubt(keys, Lines::Shell);
            assert!(said.as_ref().is_some_and(|said| said.contains(says)), "{keys:?}: {said:?}");
            // Programs that ask and are answered are not concerned.
            assert_eq!(doubt(keys, Lines::Answers), None, "{keys:?}");
        }
    }

    #[test]
    fn lines_typed_as_text_are_not() {
        for keys in [
            &["ls -l\r"][..],
            &["rx\x7fm x\r"],
            &["one two\x17three\r"],
            &["one two\x15three\r"],
            &["ls\x01\x1b[A", "\x03", "ls\r"],
            &["\x0cls\r", "sleep 9\r", "\x1a", "bg\r", "\x03ls\r"],
            &["for i in 1 2\r", "do echo $i; done\r"],
            &["\x04"],
            &["é ü 漢\r"],
        ] {
            assert_eq!(doubt(keys, Lines::Shell), None, "{keys:?}");
        }
    }

    #[test]
    fn keys_that_expand_or_open_an_editor_count_as_executed() {
        let mut typed = Typed::default();
        assert_eq!(typed.push(b"echo $(rm -rf x)", Lines::Shell), Pushed::default());
        // zsh expands with tab, bash with alt-ctrl-e.
        assert!(typed.push(b"\t", Lines::Shell).executes);
        assert!(typed.push(b"\x1b\x05", Lines::Shell).executes);
        for (key, lines, is_refused) in [
            (&b"\x18"[..], Lines::Shell, true),
            (b"\x1bv", Lines::Shell, true),
            (b"\x1be", Lines::Shell, true),
            (b"\x18", Lines::Code, false),
            (b"\x18", Lines::Answers, false),
        ] {
            let doubt = Typed::default().push(key, lines).doubt;
            assert_eq!(matches!(doubt, Some(Doubt::Editor(_))), is_refused, "{key:?} {lines:?}");
        }
    }
}
