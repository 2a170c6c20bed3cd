//! Compares the contents of files.

use std::fs::File;
use std::io::{self, Read};

/// Whether two files have the same content.
///
/// # Errors
/// When reading fails.
pub fn same_bytes(a: File, b: File) -> io::Result<bool> {
    const READ_CHUNK: usize = 64 * 1024;
    let (mut a, mut b) =
        (io::BufReader::with_capacity(READ_CHUNK, a), io::BufReader::with_capacity(READ_CHUNK, b));
    let (mut ours, mut theirs) = (vec![0; READ_CHUNK], vec![0; READ_CHUNK]);
    loop {
        let read = fill(&mut a, &mut ours)?;
        if fill(&mut b, &mut theirs)? != read || ours[..read] != theirs[..read] {
            return Ok(false);
        }
        if read < READ_CHUNK {
            return Ok(true);
        }
    }
}

/// Reads until the buffer is full or the file ends; returns the number of bytes.
fn fill(from: &mut impl Read, buffer: &mut [u8]) -> io::Result<usize> {
    let mut filled = 0;
    while filled < buffer.len() {
        match from.read(&mut buffer[filled..]) {
            Ok(0) => break,
            Ok(read) => filled += read,
            Err(e) if e.kind() == io::ErrorKind::Interrupted => {}
            Err(e) => return Err(e),
        }
    }
    Ok(filled)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn contents_of_all_sizes_are_compared() {
        let dir = tempfile::tempdir().unwrap();
        let (a, b) = (dir.path().join("a"), dir.path().join("b"));
        for size in [1, 64 * 1024 - 1, 64 * 1024, 64 * 1024 + 1, 300_000] {
            let bytes: Vec<u8> = (0..251).cycle().take(size).collect();
            let mut other = bytes.clone();
            other[size - 1] ^= 1;
            std::fs::write(&a, &bytes).unwrap();
            for (second, want) in [(&bytes, true), (&other, false), (&bytes[..size - 1].to_vec(), false)] {
                std::fs::write(&b, second).unwrap();
                assert_eq!(
                    same_bytes(File::open(&a).unwrap(), File::open(&b).unwrap()).unwrap(),
                    want,
                    "{size}"
                );
            }
        }
    }

    /// Answers with an interruption before each byte.
    struct Interrupted(u8, bool);

    impl Read for Interrupted {
        fn read(&mut self, buffer: &mut [u8]) -> io::Result<usize> {
            self.1 = !self.1;
            if self.1 {
                return Err(io::ErrorKind::Interrupted.into());
            }
            let Some(left) = self.0.checked_sub(1) else { return Ok(0) };
            (self.0, buffer[0]) = (left, b'x');
            Ok(1)
        }
    }

    #[test]
    fn interruption_is_no_error() {
        let mut buffer = [0; 9];
        assert_eq!(fill(&mut Interrupted(5, false), &mut buffer).unwrap(), 5);
        assert_eq!(&buffer[..6], b"xxxxx\0");
    }
}
