//! The one combination of keys that hotcell obeys itself while a program has the terminal: Ctrl-\ three
//! times, quickly. Everything that is typed reaches the program in any case. Pure.

use std::time::{Duration, Instant};

/// The byte of Ctrl-\, by which a terminal sends `SIGQUIT`.
const QUIT: u8 = 0x1c;
const PRESSES: u32 = 3;
/// Maximum time between two presses.
const PRESS_INTERVAL: Duration = Duration::from_secs(1);

/// Recognizes the combination.
#[derive(Debug, Default)]
pub struct Keys {
    pressed: u32,
    last: Option<Instant>,
}

impl Keys {
    /// Takes what was typed; true when the combination is complete.
    pub fn typed(&mut self, bytes: &[u8], now: Instant) -> bool {
        let late = self.last.is_none_or(|last| now.saturating_duration_since(last) > PRESS_INTERVAL);
        if late {
            self.pressed = 0;
        }
        self.last = Some(now);
        for byte in bytes {
            self.pressed = if *byte == QUIT { self.pressed + 1 } else { 0 };
            if self.pressed >= PRESSES {
                return true;
            }
        }
        false
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn three_quick_presses_end_the_run() {
        let start = Instant::now();
        for (typed, want) in [
            (&[(0, "\x1c"), (200, "\x1c"), (400, "\x1c")][..], true),
            (&[(0, "\x1c\x1c\x1c")], true),
            (&[(0, "\x1c\x1c"), (2000, "\x1c")], false),
            (&[(0, "\x1c\x1c"), (100, "a\x1c")], false),
            (&[(0, "\x1c"), (900, "\x1c"), (1800, "\x1c")], true),
            (&[(0, "\x03\x03\x03")], false),
        ] {
            let mut keys = Keys::default();
            let ended = typed
                .iter()
                .any(|(ms, text)| keys.typed(text.as_bytes(), start + Duration::from_millis(*ms)));
            assert_eq!(ended, want, "{typed:?}");
        }
    }
}
