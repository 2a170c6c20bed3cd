//! hotcell's output streams on a person's terminal: a program's bytes are filtered, and hotcell's own lines
//! start on a new line, after a reset of any colours that the program left. On a stream that is not a
//! terminal, bytes pass unchanged.

use std::fs::File;
use std::io::{self, IsTerminal};
use std::os::fd::AsFd;
use std::os::unix::fs::FileTypeExt;
use std::sync::atomic::{AtomicBool, AtomicU8, AtomicU64, Ordering};

use hotcell_sandbox::text::terminal::Filter;

/// No program has written anything that may be on the terminal.
const UNTOUCHED: u8 = 0;
/// The last bytes on the terminal ended a line, by whichever stream they came.
const FRESH: u8 = 1;
/// The cursor may be anywhere in a line.
const OPEN: u8 = 2;
/// Like [`OPEN`], but a sequence may be open too, since nothing was filtered.
const RAW: u8 = 3;
/// Like [`RAW`], and permanent: bytes went into a pipe, whose other end may write them to the terminal at any
/// time.
const PIPED: u8 = 4;

/// State in which programs left the terminal. There is one state for the process and both its streams,
/// because silence on one stream does not close a sequence that the other left open. Two terminals for two
/// streams are treated as one.
static LEFT: AtomicU8 = AtomicU8::new(UNTOUCHED);
/// Number of control sequences dropped from the programs' output.
static LEFT_OUT: AtomicU64 = AtomicU64::new(0);

/// Whether a program asked the terminal for reports of mouse or focus.
static REPORTED: AtomicBool = AtomicBool::new(false);

/// Whether the terminal may have sent what no person has typed.
pub fn reported() -> bool {
    REPORTED.load(Ordering::Acquire)
}

/// Resets the colours that a program left.
const RESET: &str = "\x1b[0m";

/// Prefix of each of hotcell's own lines on standard error.
pub fn begin_line() -> &'static str {
    begin_line_on(&io::stderr())
}

/// Prefix of the first of hotcell's own lines on this stream.
pub fn begin_line_on(stream: &impl IsTerminal) -> &'static str {
    if !stream.is_terminal() {
        return "";
    }
    let own = |left| matches!(left, OPEN | RAW).then_some(FRESH);
    beginning(LEFT.fetch_update(Ordering::AcqRel, Ordering::Acquire, own).unwrap_or_else(|left| left))
}

/// Moves to an empty line for hotcell's own: after a reset, because the background colour would stay.
fn beginning(left: u8) -> &'static str {
    match left {
        UNTOUCHED => "",
        FRESH => "\x1b[0m\r\x1b[K",
        OPEN => "\n\x1b[0m\r\x1b[K",
        // Terminates a string that was left open; has no effect otherwise.
        _ => "\x1b\\\n\x1b[0m\r\x1b[K",
    }
}

/// The state after these filtered bytes, of either stream.
fn after(left: u8, filtered: &[u8]) -> u8 {
    let broken = filtered.iter().rposition(|b| *b == b'\n');
    let line = &filtered[broken.map_or(0, |at| at + 1)..];
    match left {
        PIPED => PIPED,
        _ if !draws_nothing(line) => OPEN,
        _ if broken.is_some() => FRESH,
        UNTOUCHED if !line.is_empty() => FRESH,
        left => left,
    }
}

/// Whether these filtered bytes consist only of colours and carriage returns.
fn draws_nothing(mut line: &[u8]) -> bool {
    while let Some((first, rest)) = line.split_first() {
        line = match first {
            b'\r' => rest,
            b'\x1b' => match rest.iter().position(u8::is_ascii_alphabetic) {
                Some(end) if rest[end] == b'm' => &rest[end + 1..],
                _ => return false,
            },
            _ => return false,
        };
    }
    true
}

/// Whether the last colour set by these filtered bytes stays in effect; `None` if they set none.
fn stays_coloured(filtered: &[u8]) -> Option<bool> {
    let mut last = None;
    for sequence in filtered.split(|b| *b == b'\x1b').skip(1) {
        let end = sequence.iter().position(u8::is_ascii_alphabetic)?;
        if sequence[end] == b'm' {
            last = Some(&sequence[..end] != b"[0");
        }
    }
    last
}

/// A message with the number of controls and sequences dropped so far, and advice; `None` if there were none.
pub fn left_out() -> Option<String> {
    let words = |count, what| format!("left out: {count} {what} for the terminal; --raw passes them on");
    match LEFT_OUT.load(Ordering::Acquire) {
        0 => None,
        1 => Some(words(1, "control sequence")),
        count => Some(words(count, "control sequences")),
    }
}

/// Destination for a program's bytes on one of hotcell's output streams.
#[derive(Debug)]
pub enum Screen {
    /// Not a terminal: bytes pass unchanged.
    Plain,
    /// A pipe, whose other end may be a program that writes to the terminal: bytes pass unchanged.
    Piped,
    /// A terminal, with `--raw`: bytes pass unchanged.
    Raw,
    /// A terminal that the program may use wholly.
    Whole {
        /// Filter for the program's bytes; it knows what is to be undone.
        filter: Box<Filter>,
        /// Buffer for the bytes to write.
        out: Vec<u8>,
        /// `--raw`: bytes pass unchanged.
        raw: bool,
    },
    /// A terminal, with filtering.
    Filtered {
        /// Filter for the program's bytes.
        filter: Box<Filter>,
        /// Buffer for the bytes to write.
        out: Vec<u8>,
        /// Whether a colour stays in effect.
        coloured: bool,
    },
}

impl Screen {
    /// Makes the destination for this stream.
    pub fn of(stream: &(impl IsTerminal + AsFd), raw: bool) -> Self {
        match (stream.is_terminal(), raw) {
            (false, _) if leads_on(stream) => Self::Piped,
            (false, _) => Self::Plain,
            (true, true) => Self::Raw,
            (true, false) => Self::filtered(),
        }
    }

    /// Makes the destination for the output of a program that has a terminal of its own.
    pub fn whole(stream: &(impl IsTerminal + AsFd), raw: bool) -> Self {
        match Self::of(stream, raw) {
            Self::Raw | Self::Filtered { .. } => {
                Self::Whole { filter: Box::new(Filter::of_screen()), out: Vec::new(), raw }
            }
            plain => plain,
        }
    }

    fn filtered() -> Self {
        Self::Filtered { filter: Box::default(), out: Vec::new(), coloured: false }
    }

    /// The bytes to write for these bytes of the program.
    pub fn pass<'a>(&'a mut self, bytes: &'a [u8]) -> &'a [u8] {
        match self {
            Self::Plain => bytes,
            Self::Piped => {
                if !bytes.is_empty() {
                    LEFT.store(PIPED, Ordering::Release);
                }
                bytes
            }
            Self::Raw => {
                note(|left| if left == PIPED { PIPED } else { RAW });
                bytes
            }
            Self::Whole { filter, out, raw } => {
                out.clear();
                filter.push(bytes, out);
                if filter.reported() {
                    REPORTED.store(true, Ordering::Release);
                }
                if *raw {
                    note(|left| if left == PIPED { PIPED } else { RAW });
                    return bytes;
                }
                note(|left| after(left, out));
                out
            }
            Self::Filtered { filter, out, coloured } => {
                out.clear();
                let before = filter.left_out();
                filter.push(bytes, out);
                LEFT_OUT.fetch_add(filter.left_out() - before, Ordering::AcqRel);
                *coloured = stays_coloured(out).unwrap_or(*coloured);
                note(|left| after(left, out));
                out
            }
        }
    }

    /// The bytes to write at the program's end.
    pub fn finish(&mut self) -> &[u8] {
        if let Self::Whole { filter, out, raw } = self {
            out.clear();
            // Terminates a string that the program left open.
            out.extend(raw.then_some(&b"\x1b\\"[..]).unwrap_or_default());
            filter.finish(out);
            filter.undo(out);
            if !*raw && filter.left_out() > 0 {
                tracing::info!("left out: {} control sequences for the terminal", filter.left_out());
            }
            note(|left| after(left, out));
            return out;
        }
        let Self::Filtered { filter, out, coloured } = self else { return &[] };
        out.clear();
        let before = filter.left_out();
        filter.finish(out);
        LEFT_OUT.fetch_add(filter.left_out() - before, Ordering::AcqRel);
        if std::mem::take(coloured) {
            out.extend_from_slice(RESET.as_bytes());
        }
        note(|left| after(left, out));
        out
    }
}

fn note(left: impl Fn(u8) -> u8) {
    let _ = LEFT.fetch_update(Ordering::AcqRel, Ordering::Acquire, |before| Some(left(before)));
}

/// Whether another program can read the bytes written here and write them elsewhere. A file only stores them.
fn leads_on(stream: &impl AsFd) -> bool {
    let metadata = stream.as_fd().try_clone_to_owned().and_then(|fd| File::from(fd).metadata());
    metadata.map_or(true, |m| m.file_type().is_fifo() || m.file_type().is_socket())
}

#[cfg(test)]
mod tests {
    use proptest::prelude::*;

    use super::*;

    #[test]
    fn unfiltered_output_passes_unchanged() {
        let bytes = b"\x1b]52;c;eA==\x07\xff\x1b[8m";
        assert_eq!(Screen::Plain.pass(bytes), bytes);
        assert_eq!(Screen::Piped.pass(bytes), bytes);
        assert_eq!(Screen::Raw.pass(bytes), bytes);
        let mut filtered = Screen::filtered();
        assert_eq!(filtered.pass(bytes), "\u{fffd}".as_bytes());
        assert_eq!(filtered.finish(), b"");
    }

    #[test]
    fn colours_end_with_the_stream() {
        for (pieces, end) in [
            (&["\x1b[30;40m"][..], "\x1b[0m"),
            (&["\x1b[31mx", "y\n"], "\x1b[0m"),
            (&["\x1b[31mx\x1b[m"], ""),
            (&["\x1b[31mx", "\x1b[0;0m"], "\x1b[0m"),
            (&["\x1b[0m\x1b[2C\x1b[1m\x1b[3C"], "\x1b[0m"),
            (&["x\x1b[8m\x1b[K"], ""),
        ] {
            let mut screen = Screen::filtered();
            pieces.iter().for_each(|piece| drop(screen.pass(piece.as_bytes()).to_vec()));
            assert_eq!(screen.finish(), end.as_bytes(), "{pieces:?}");
        }
    }

    #[test]
    fn terminal_line_state_is_tracked() {
        for (left, bytes, want) in [
            (UNTOUCHED, "", UNTOUCHED),
            (UNTOUCHED, "\x1b[31m", FRESH),
            (UNTOUCHED, "x", OPEN),
            (OPEN, "\x1b[31m", OPEN),
            (OPEN, "\r", OPEN),
            (OPEN, "", OPEN),
            (OPEN, "x\n", FRESH),
            (OPEN, "\n\x1b[31m\r", FRESH),
            (FRESH, "\x1b[31;1m\x1b[0m\r", FRESH),
            (FRESH, "\x1b[5C", OPEN),
            (FRESH, "\x1b[K", OPEN),
            (FRESH, "\t", OPEN),
            (FRESH, "\x08", OPEN),
            (RAW, "\x1b[m", RAW),
            (RAW, "x\n", FRESH),
            (PIPED, "x\n", PIPED),
        ] {
            assert_eq!(after(left, bytes.as_bytes()), want, "{left} {bytes:?}");
        }
        for left in [FRESH, OPEN, RAW, PIPED] {
            assert!(beginning(left).ends_with("\x1b[0m\r\x1b[K"));
            assert_eq!(beginning(left).contains('\n'), left != FRESH);
        }
    }

    proptest! {
        /// However pieces of two streams alternate: where one of them left text on the line, hotcell's own
        /// line starts a new one.
        #[test]
        fn own_line_always_starts_new_line(
            pieces in prop::collection::vec((any::<bool>(), "(\x1b\\[[0-9;]{0,3}[mKCDGAJ]|[\n\r\t\x08 a-c\u{e9}]){0,4}"), 0..12)
        ) {
            let mut streams = [Filter::new(), Filter::new()];
            let (mut left, mut all) = (UNTOUCHED, Vec::new());
            for (error, piece) in &pieces {
                let mut out = Vec::new();
                streams[usize::from(*error)].push(piece.as_bytes(), &mut out);
                left = after(left, &out);
                all.extend(out);
            }
            let line = String::from_utf8(all).unwrap();
            let mut rest = line.rsplit('\n').next().unwrap_or_default().to_owned();
            // Checked with another parser than the filter's: remove the colours one by one.
            while let Some(at) = rest.find("\x1b[") {
                let end = at + rest[at..].find(|c: char| c.is_ascii_alphabetic()).unwrap();
                rest.replace_range(at..=end, if &rest[end..=end] == "m" { "" } else { "moved" });
            }
            let empty = rest.trim_matches('\r').is_empty();
            prop_assert_eq!(left == OPEN, !empty, "{:?}", line);
            prop_assert!(empty || beginning(left).starts_with('\n'));
        }
    }
}
