//! Lines of a client on their way to a server: those that are refused are taken out, whole; the others pass byte for byte. Pure.

use hotcell_mcp::pin::MAX_LINE_BYTES;

/// Bytes of a line that has not ended.
#[derive(Debug, Default)]
pub struct Requests {
    rest: Vec<u8>,
    /// The line was too long, and is left out until its end.
    is_dropped: bool,
}

/// Bytes for the server, and for the client.
#[derive(Debug, Default, PartialEq, Eq)]
pub struct Passed {
    /// Lines for the server.
    pub passed: Vec<u8>,
    /// Answers for the client.
    pub answers: Vec<u8>,
    /// A line was longer than [`MAX_LINE_BYTES`], cannot be checked, and is left out.
    pub is_too_long: bool,
}

impl Requests {
    /// Lines that end in a chunk. `refuse` answers a line, with its newline, that must not pass.
    pub fn passed(&mut self, chunk: &[u8], mut refuse: impl FnMut(&[u8]) -> Option<Vec<u8>>) -> Passed {
        let mut done = Passed::default();
        for piece in chunk.split_inclusive(|byte| *byte == b'\n') {
            let is_whole = piece.ends_with(b"\n");
            if self.is_dropped {
                self.is_dropped = !is_whole;
                continue;
            }
            if self.rest.len() + piece.len() > MAX_LINE_BYTES {
                self.rest = Vec::new();
                self.is_dropped = !is_whole;
                done.is_too_long = true;
                continue;
            }
            self.rest.extend_from_slice(piece);
            if is_whole {
                done.add(std::mem::take(&mut self.rest), &mut refuse);
            }
        }
        done
    }

    /// The line behind the last newline, at the end of the input.
    pub fn finish(self, mut refuse: impl FnMut(&[u8]) -> Option<Vec<u8>>) -> Passed {
        let mut done = Passed::default();
        if !self.rest.is_empty() {
            done.add(self.rest, &mut refuse);
        }
        done
    }
}

impl Passed {
    fn add(&mut self, line: Vec<u8>, refuse: &mut impl FnMut(&[u8]) -> Option<Vec<u8>>) {
        match refuse(&line) {
            Some(answer) => self.answers.extend(answer),
            None => self.passed.extend(line),
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn refused_lines_are_taken_out_whatever_the_pieces() {
        for (end, passes) in [("last", "last"), ("bad 3", "")] {
            let text = format!("one\nbad 1\n\ntwo bad\nbad 2\n{end}").into_bytes();
            for size in 1..=text.len() {
                let refuse = |line: &[u8]| line.starts_with(b"bad").then(|| line[4..5].to_vec());
                let (mut requests, mut all) = (Requests::default(), Passed::default());
                for piece in text.chunks(size) {
                    let more = requests.passed(piece, refuse);
                    all.passed.extend(more.passed);
                    all.answers.extend(more.answers);
                }
                let more = requests.finish(refuse);
                all.passed.extend(more.passed);
                all.answers.extend(more.answers);
                assert_eq!(all.passed, format!("one\n\ntwo bad\n{passes}").into_bytes(), "{size}");
                assert_eq!(all.answers, if passes.is_empty() { &b"123"[..] } else { b"12" }, "{size}");
            }
        }
    }

    #[test]
    fn long_lines_are_checked_and_those_without_end_left_out() {
        let refuse = |line: &[u8]| line.starts_with(b"x").then(Vec::new);
        let mut requests = Requests::default();
        let long = vec![b'x'; 2 << 20];
        assert_eq!(requests.passed(&long, refuse), Passed::default());
        assert_eq!(requests.passed(b"x\ny\n", refuse).passed, b"y\n");
        let piece = vec![b'y'; MAX_LINE_BYTES];
        assert_eq!(requests.passed(&piece, refuse), Passed::default());
        assert!(requests.passed(b"y", refuse).is_too_long);
        let last = requests.passed(b"yy\nz\n", refuse);
        assert_eq!((&*last.passed, last.is_too_long), (&b"z\n"[..], false));
        assert_eq!(requests.finish(refuse), Passed::default());
    }
}
