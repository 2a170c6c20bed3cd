//! Proof that a client may look into the server: it reads there what is nowhere else.
//!
//! `/proc` shows nobody a Landlock domain. But the kernel lets nobody open what another process has open who may not trace it
//! (`PTRACE_MODE_READ`, `ptrace(2)`): who is in a domain that the server is not in, in a user namespace below it, or held back by a profile.

use std::fs::File;
use std::io::{self, Read};
use std::os::fd::{AsRawFd, OwnedFd};
use std::os::unix::fs::OpenOptionsExt;

use nix::libc;

use super::wire::PROOF;
use crate::socket;

/// A random number for one connection alone, and the descriptor where it can be read.
#[derive(Debug)]
pub struct Proof {
    number: [u8; PROOF],
    memory: OwnedFd,
}

impl Proof {
    pub fn new() -> io::Result<Self> {
        let mut number = [0; PROOF];
        File::open("/dev/urandom")?.read_exact(&mut number)?;
        Ok(Self { number, memory: socket::sealed(c"hotcell-proof", &number)? })
    }

    /// What the client is told.
    pub fn descriptor(&self) -> i32 {
        self.memory.as_raw_fd()
    }

    /// Whether somebody read it. Good for one answer, and gone then.
    pub fn is(self, said: &[u8; PROOF]) -> bool {
        self.number == *said
    }
}

/// Reads it.
pub fn read(process: i32, descriptor: i32) -> io::Result<[u8; PROOF]> {
    let path = format!("/proc/{process}/fd/{descriptor}");
    let bad = |why: &str| io::Error::new(io::ErrorKind::InvalidData, format!("{path} {why}"));
    // Nothing else is opened, which could make this wait.
    if !std::fs::read_link(&path)?.as_os_str().as_encoded_bytes().starts_with(b"/memfd:hotcell-proof") {
        return Err(bad("is something else"));
    }
    let flags = libc::O_NONBLOCK | libc::O_NOCTTY;
    let file = std::fs::OpenOptions::new().read(true).custom_flags(flags).open(&path)?;
    let bytes = socket::read_sealed(file.into(), PROOF as u64)?;
    bytes.try_into().map_err(|_| bad("has another length"))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn it_is_read_by_its_number() {
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
