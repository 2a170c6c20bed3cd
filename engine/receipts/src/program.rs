//! A program of the host that signs: the bytes on its standard input, 64 bytes of a signature on its standard output. It is the operator's; it runs
//! without a shell, as hotcell does and with its environment, and is ended by a deadline.

use std::io::{self, Read, Write};
use std::os::unix::process::CommandExt;
use std::process::{Child, Command, Stdio};
use std::sync::mpsc;
use std::time::{Duration, Instant};

use rustix::process::{Pid, Signal, kill_process_group};

/// Time for a program to sign: a service or a card may be asked.
pub const DEADLINE: Duration = Duration::from_secs(10);
/// Length of an Ed25519 signature in bytes (RFC 8032).
const SIGNATURE_BYTES: usize = 64;
/// Time between two looks for the end of a program that has closed its output.
const STEP: Duration = Duration::from_millis(2);

/// Why a program did not sign.
#[derive(Debug, thiserror::Error)]
#[non_exhaustive]
pub enum ProgramError {
    /// The program cannot be started.
    #[error("{program} cannot be started: {source}")]
    Start {
        /// Path of the program.
        program: String,
        /// Reason.
        source: io::Error,
    },
    /// The program did not end in time, and was ended.
    #[error("{program} did not sign within {seconds} s, and was ended")]
    Deadline {
        /// Path of the program.
        program: String,
        /// Deadline in seconds.
        seconds: u64,
    },
    /// The program failed.
    #[error("{program} failed: {status}; run it by hand to see why")]
    Failed {
        /// Path of the program.
        program: String,
        /// Its status.
        status: String,
    },
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
    let program = words.first().cloned().unwrap_or_default();
    let until = Instant::now() + deadline;
    let started = Command::new(&program)
        .args(words.iter().skip(1))
        .stdin(Stdio::piped())
        .stdout(Stdio::piped())
        .stderr(Stdio::null())
        .process_group(0)
        .spawn();
    let mut child = started.map_err(|source| ProgramError::Start { program: program.clone(), source })?;
    let (tell, told) = mpsc::channel();
    // Both threads end with the program's group, which alone holds the pipes.
    if let (Some(mut input), Some(output)) = (child.stdin.take(), child.stdout.take()) {
        let bytes = bytes.to_vec();
        std::thread::spawn(move || {
            // A program may sign without reading to the end; its answer decides.
            let _ = input.write_all(&bytes);
        });
        std::thread::spawn(move || {
            let mut all = Vec::with_capacity(SIGNATURE_BYTES + 1);
            let read = output.take(SIGNATURE_BYTES as u64 + 1).read_to_end(&mut all);
            let _ = tell.send(read.map(|_| all));
        });
    }
    let all = told.recv_timeout(deadline).ok().and_then(Result::ok);
    let status = loop {
        match child.try_wait() {
            Ok(Some(status)) if all.is_some() => break Some(status),
            Ok(None) if all.is_some() && Instant::now() < until => std::thread::sleep(STEP),
            _ => break None,
        }
    };
    let (Some(all), Some(status)) = (all, status) else {
        end(&mut child);
        return Err(ProgramError::Deadline { program, seconds: deadline.as_secs() });
    };
    if all.len() > SIGNATURE_BYTES {
        return Err(ProgramError::Length { program, length: all.len() });
    }
    if !status.success() {
        return Err(ProgramError::Failed { program, status: status.to_string() });
    }
    if all.len() < SIGNATURE_BYTES {
        return Err(ProgramError::Length { program, length: all.len() });
    }
    Ok(all)
}

/// Ends a program with its group.
fn end(child: &mut Child) {
    if let Some(group) = i32::try_from(child.id()).ok().and_then(Pid::from_raw) {
        let _ = kill_process_group(group, Signal::KILL);
    }
    let _ = child.kill();
    let _ = child.wait();
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
        assert!(matches!(missing, ProgramError::Start { .. }));
    }

    #[test]
    fn program_that_hangs_is_ended_with_its_group() {
        for script in ["sleep 600 & printf %064d 0; wait", "exec >&-; sleep 600"] {
            let error = shell(script, Duration::from_millis(100)).unwrap_err();
            assert!(matches!(error, ProgramError::Deadline { .. }), "{script}: {error}");
        }
    }
}
