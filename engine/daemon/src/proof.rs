//! Proof that a client may inspect the server: it reads a secret from the server's `/proc` entry.
//!
//! `/proc` does not show Landlock domains. But the kernel refuses to open another process's descriptors to a
//! process that may not trace it (`PTRACE_MODE_READ`, `ptrace(2)`): one in a Landlock domain that the server
//! is not in, in a user namespace below it, or restricted by a profile.

use std::fs::File;
use std::io::{self, Read};
use std::os::fd::{AsRawFd, OwnedFd};
use std::os::unix::fs::OpenOptionsExt;

use nix::libc;

use crate::wire::PROOF_LEN;
use hotcell_sandbox::socket;

/// A random secret for a single connection, and the descriptor from which it can be read.
#[derive(Debug)]
pub struct Proof {
    number: [u8; PROOF_LEN],
    memory: OwnedFd,
}

impl Proof {
    pub fn new() -> io::Result<Self> {
        let mut number = [0; PROOF_LEN];
        File::open("/dev/urandom")?.read_exact(&mut number)?;
        Ok(Self { number, memory: socket::sealed(c"hotcell-proof", &number)? })
    }

    /// Number of the descriptor, for the client.
    pub fn descriptor(&self) -> i32 {
        self.memory.as_raw_fd()
    }

    /// Whether the client's answer is the secret. Consumes the proof, so that it is valid for one answer.
    pub fn is(self, said: &[u8; PROOF_LEN]) -> bool {
        self.number == *said
    }
}

/// Reads the secret, as the client.
pub fn read(process: i32, descriptor: i32) -> io::Result<[u8; PROOF_LEN]> {
    let path = format!("/proc/{process}/fd/{descriptor}");
    let bad = |why: &str| io::Error::new(io::ErrorKind::InvalidData, format!("{path} {why}"));
    // Open no other kind of file, which could block.
    if !std::fs::read_link(&path)?.as_os_str().as_encoded_bytes().starts_with(b"/memfd:hotcell-proof") {
        return Err(bad("is something else"));
    }
    let flags = libc::O_NONBLOCK | libc::O_NOCTTY;
    let file = std::fs::OpenOptions::new().read(true).custom_flags(flags).open(&path)?;
    let bytes = socket::read_sealed(file.into(), PROOF_LEN as u64)?;
    bytes.try_into().map_err(|_| bad("has another length"))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn proof_is_read_by_descriptor_number() {
        let (proof, other) = (Proof::new().unwrap(), Proof::new().unwrap());
        let us = std::process::id().cast_signed();
        let said = read(us, proof.descriptor()).unwrap();
        assert!(!other.is(&said) && proof.is(&said));
        let (reader, _writer) = std::io::pipe().unwrap();
        assert!(read(us, reader.as_raw_fd()).is_err() && read(us, -1).is_err());
        let short = socket::sealed(c"hotcell-proof", b"short").unwrap();
        assert!(read(us, short.as_raw_fd()).is_err());
    }
}
