//! A program of the host that signs: the bytes on its standard input, 64 bytes of a signature on its standard output.

use std::time::Duration;

use hotcell_egress::host_program::{self, HostProgramError};

/// Time for a program to sign: a service or a card may be asked.
pub const DEADLINE: Duration = Duration::from_secs(10);
/// Length of an Ed25519 signature in bytes (RFC 8032).
const SIGNATURE_BYTES: usize = 64;

/// Why a program did not sign.
#[derive(Debug, thiserror::Error)]
#[non_exhaustive]
pub enum ProgramError {
    /// The program gave no answer.
    #[error(transparent)]
    Program(#[from] HostProgramError),
    /// The output is not a signature.
    #[error("{program} printed {length} bytes, and a raw Ed25519 signature has {SIGNATURE_BYTES}")]
    Length {
        /// Path of the program.
        program: String,
        /// Number of bytes, at most one more than a signature has.
        length: usize,
    },
}

/// The signature that a program makes over bytes.
///
/// # Errors
/// [`ProgramError`] when it cannot be started, fails, is too slow, or prints something else.
pub fn signature(words: &[String], bytes: &[u8], deadline: Duration) -> Result<Vec<u8>, ProgramError> {
    let signature = match host_program::output(words, bytes, SIGNATURE_BYTES, deadline) {
        Err(HostProgramError::Length { program, most }) => {
            return Err(ProgramError::Length { program, length: most + 1 });
        }
        output => output?,
    };
    if signature.len() < SIGNATURE_BYTES {
        let program = words.first().cloned().unwrap_or_default();
        return Err(ProgramError::Length { program, length: signature.len() });
    }
    Ok(signature.to_vec())
}

#[cfg(test)]
mod tests {
    use super::*;

    fn shell(script: &str, deadline: Duration) -> Result<Vec<u8>, ProgramError> {
        signature(&["/bin/sh".to_owned(), "-c".to_owned(), script.to_owned()], b"the bytes", deadline)
    }

    #[test]
    fn signature_has_64_bytes_and_is_over_what_was_given() {
        let long = Duration::from_secs(10);
        let echoed = shell("cat; printf %055d 0", long).unwrap();
        assert!(echoed.starts_with(b"the bytes") && echoed.len() == SIGNATURE_BYTES);
        for (script, word) in [
            ("cat", "printed 9 bytes"),
            ("printf %065d 0", "printed 65 bytes"),
            ("yes", "printed 65 bytes"),
            ("printf %064d 0; exit 3", "exit status: 3"),
            ("true", "printed 0 bytes"),
        ] {
            let error = shell(script, long).unwrap_err().to_string();
            assert!(error.contains(word), "{script}: {error}");
        }
        let missing = signature(&["/nowhere/sign".to_owned()], b"", long).unwrap_err();
        assert!(matches!(missing, ProgramError::Program(HostProgramError::Start { .. })));
    }
}
