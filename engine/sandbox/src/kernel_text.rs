//! Reads files that the kernel generates, as in `/proc`. Their size is said to be 0, so that the standard library asks for it and
//! then reads them in pieces of 32 bytes and more: eight to twelve system calls, where these are four.

use std::fs::File;
use std::io::{self, Read};
use std::path::Path;

/// Room for the text at first: most files fit, and each read of a longer one returns at most a page.
const ROOM: usize = 4096;
/// Maximum size of a text in bytes.
const MAX_BYTES: u64 = 16 << 20;

/// Reads a file as text.
///
/// # Errors
/// When the file cannot be read, or is not UTF-8.
pub fn read(path: impl AsRef<Path>) -> io::Result<String> {
    let mut text = Vec::with_capacity(ROOM);
    File::open(path)?.take(MAX_BYTES).read_to_end(&mut text)?;
    String::from_utf8(text).map_err(|error| io::Error::new(io::ErrorKind::InvalidData, error))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn texts_are_read_whole() {
        for path in ["/proc/self/stat", "/proc/self/mountinfo", "/proc/meminfo", "/proc/self/uid_map"] {
            let (read, want) = (read(path).unwrap(), std::fs::read_to_string(path).unwrap());
            // Numbers change between two reads.
            assert_eq!(read.lines().count(), want.lines().count(), "{path}");
        }
        let file = tempfile::NamedTempFile::new().unwrap();
        for length in [0, 1, ROOM - 1, ROOM, ROOM + 1, 100_000] {
            std::fs::write(file.path(), "x".repeat(length)).unwrap();
            assert_eq!(read(file.path()).unwrap().len(), length);
        }
        std::fs::write(file.path(), b"\xff").unwrap();
        assert_eq!(read(file.path()).unwrap_err().kind(), io::ErrorKind::InvalidData);
        assert_eq!(read("/proc/self/missing").unwrap_err().kind(), io::ErrorKind::NotFound);
    }
}
