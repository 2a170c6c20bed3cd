//! Lines of a client on their way to a server: those that are refused are taken out, whole; the others pass byte for byte. Pure.

/// Maximum length of a line that is kept until it ends, in bytes. A longer one passes unread: no request for one entry is that long.
const MAX_HELD_BYTES: usize = 1 << 20;

/// Bytes of a line that has not ended.
#[derive(Debug, Default)]
pub struct Requests {
    rest: Vec<u8>,
    /// The line was too long, and passes until its end.
    is_passing: bool,
}

impl Requests {
    /// Bytes for the server, and answers for the client. `refuse` answers a line, with its newline, that must not pass.
    pub fn passed(
        &mut self,
        chunk: &[u8],
        mut refuse: impl FnMut(&[u8]) -> Option<Vec<u8>>,
    ) -> (Vec<u8>, Vec<u8>) {
        let (mut passed, mut answers) = (Vec::with_capacity(chunk.len()), Vec::new());
        for piece in chunk.split_inclusive(|byte| *byte == b'\n') {
            let is_whole = piece.ends_with(b"\n");
            if self.is_passing {
                passed.extend_from_slice(piece);
                self.is_passing = !is_whole;
                continue;
            }
            self.rest.extend_from_slice(piece);
            if is_whole {
                match refuse(&self.rest) {
                    Some(answer) => answers.extend(answer),
                    None => passed.extend_from_slice(&self.rest),
                }
                self.rest.clear();
            } else if self.rest.len() > MAX_HELD_BYTES {
                passed.append(&mut self.rest);
                self.is_passing = true;
            }
        }
        (passed, answers)
    }

    /// Bytes behind the last newline, at the end of the input.
    pub fn rest(self) -> Vec<u8> {
        self.rest
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn refused_lines_are_taken_out_whatever_the_pieces() {
        let text = b"one\nbad 1\n\ntwo bad\nbad 2\nlast".to_vec();
        for size in 1..=text.len() {
            let (mut requests, mut passed, mut answers) = (Requests::default(), Vec::new(), Vec::new());
            for piece in text.chunks(size) {
                let refuse = |line: &[u8]| line.starts_with(b"bad").then(|| line[4..].to_vec());
                let (more, said) = requests.passed(piece, refuse);
                passed.extend(more);
                answers.extend(said);
            }
            passed.extend(requests.rest());
            assert_eq!((&*passed, &*answers), (&b"one\n\ntwo bad\nlast"[..], &b"1\n2\n"[..]), "{size}");
        }
    }

    #[test]
    fn very_long_lines_pass_unread() {
        let mut requests = Requests::default();
        let long = vec![b'x'; MAX_HELD_BYTES + 1];
        assert_eq!(requests.passed(&long, |_| Some(Vec::new())).0, long);
        assert_eq!(requests.passed(b"x\ny\n", |line| (line == b"y\n").then(Vec::new)).0, b"x\n");
    }
}
