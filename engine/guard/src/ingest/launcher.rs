//! Launchers of Windows that many packages carry, known by their bytes.
//!
//! Machine code is never read; these few files are known as a whole, as published by setuptools and distlib (which
//! pip contains). One with a script or an archive behind it has another digest.

use sha2::{Digest, Sha256};

const KNOWN: &str = include_str!("launchers.txt");
/// Size of the largest of them, in bytes: larger files are not digested.
const MAX_BYTES: usize = 256 << 10;

/// True for the bytes of a known launcher.
pub(super) fn is_known(bytes: &[u8]) -> bool {
    if bytes.len() > MAX_BYTES {
        return false;
    }
    let digest = hex::encode(Sha256::digest(bytes));
    KNOWN.lines().any(|line| line.split_once(' ').is_some_and(|(known, _)| known == digest))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn table_of_launchers_is_well_formed() {
        let mut rows = 0;
        for line in KNOWN.lines().filter(|line| !line.starts_with('#')) {
            let [digest, name, project] = line.split(' ').collect::<Vec<_>>()[..] else { panic!("{line}") };
            assert!(digest.len() == 64 && digest.bytes().all(|b| b.is_ascii_hexdigit()), "{line}");
            assert!(name.ends_with(".exe") && matches!(project, "setuptools" | "distlib"), "{line}");
            rows += 1;
        }
        assert!(rows > 10, "{rows}");
        assert!(!is_known(b"MZ"));
        assert!(!is_known(b""));
    }
}
