//! Programs of the host that the operator names as sources: of a secret's value, of a signature. Such a program runs without a shell, as
//! hotcell does and with its environment, answers on standard output, and is ended with its process group by a deadline.

use std::io::{self, Read, Write};
use std::os::unix::process::CommandExt;
use std::process::{Child, Command, Stdio};
use std::sync::mpsc;
use std::time::{Duration, Instant};

use rustix::process::{Pid, Signal, kill_process_group};
use zeroize::Zeroizing;

/// Time between two looks for the end of a program that has closed its output.
const STEP: Duration = Duration::from_millis(2);

/// Why a program gave no answer. The messages never contain its output.
#[derive(Debug, thiserror::Error)]
#[non_exhaustive]
pub enum HostProgramError {
    /// The program cannot be started.
    #[error("{program} cannot be started: {source}")]
    Start {
        /// Path of the program.
        program: String,
        /// Reason.
        source: io::Error,
    },
    /// The program did not end in time, and was ended.
    #[error("{program} did not answer and end within {seconds} s, and was ended")]
    Deadline {
        /// Path of the program.
        program: String,
        /// Deadline in seconds.
        seconds: u64,
    },
    /// The output is longer than an answer may be.
    #[error("{program} printed more than {most} bytes")]
    Length {
        /// Path of the program.
        program: String,
        /// Maximum length of an answer in bytes.
        most: usize,
    },
    /// The program failed.
    #[error("{program} failed: {status}; run it by hand to see why")]
    Failed {
        /// Path of the program.
        program: String,
        /// Its status.
        status: String,
    },
}

/// Output of a program that is given `input` on its standard input; blocks until it has ended.
///
/// # Errors
/// [`HostProgramError`] when `words`, the program's absolute path and its arguments, cannot be started, when the program prints more than
/// `most` bytes, fails, or has not ended at the deadline.
pub fn output(
    words: &[String],
    input: &[u8],
    most: usize,
    deadline: Duration,
) -> Result<Zeroizing<Vec<u8>>, HostProgramError> {
    let program = words.first().cloned().unwrap_or_default();
    let until = Instant::now() + deadline;
    let started = Command::new(&program)
        .args(words.iter().skip(1))
        .stdin(if input.is_empty() { Stdio::null() } else { Stdio::piped() })
        .stdout(Stdio::piped())
        .stderr(Stdio::null())
        .process_group(0)
        .spawn();
    let mut child = started.map_err(|source| HostProgramError::Start { program: program.clone(), source })?;
    // Both threads end with the program's group, which alone holds the pipes; a program that left the group keeps only them.
    if let Some(mut to) = child.stdin.take() {
        let input = Zeroizing::new(input.to_vec());
        std::thread::spawn(move || {
            // A program may answer without reading to the end; its answer decides.
            let _ = to.write_all(&input);
        });
    }
    let (tell, told) = mpsc::channel();
    if let Some(from) = child.stdout.take() {
        std::thread::spawn(move || {
            // Room for all at once: a buffer that grows leaves copies behind.
            let mut all = Zeroizing::new(Vec::with_capacity(most + 1));
            let read = from.take(most as u64 + 1).read_to_end(&mut all);
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
        return Err(HostProgramError::Deadline { program, seconds: deadline.as_secs() });
    };
    // First the length: a program that is cut off has failed by a closed pipe.
    if all.len() > most {
        return Err(HostProgramError::Length { program, most });
    }
    if !status.success() {
        return Err(HostProgramError::Failed { program, status: status.to_string() });
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

    fn shell(script: &str, input: &[u8], deadline: Duration) -> Result<Vec<u8>, HostProgramError> {
        let words = ["/bin/sh".to_owned(), "-c".to_owned(), script.to_owned()];
        output(&words, input, 64, deadline).map(|all| all.to_vec())
    }

    #[test]
    fn output_is_what_the_program_printed() {
        let long = Duration::from_secs(10);
        for (script, input, want) in [
            ("cat", "the bytes", "the bytes"),
            ("cat", "", ""),
            ("echo x", "unread", "x\n"),
            ("printf %064d 0", "", &"0".repeat(64)),
        ] {
            let got = shell(script, input.as_bytes(), long).unwrap_or_else(|e| panic!("{script}: {e}"));
            assert_eq!(got, want.as_bytes(), "{script}");
        }
        for (script, word) in [
            ("printf %065d 0", "more than 64 bytes"),
            ("yes", "more than 64 bytes"),
            ("echo s3cret; exit 3", "exit status: 3"),
            ("kill -9 $$", "signal: 9"),
        ] {
            let error = shell(script, b"the bytes", long).unwrap_err().to_string();
            assert!(error.contains(word) && !error.contains("s3cret"), "{script}: {error}");
        }
        let missing = output(&["/nowhere/x".to_owned()], b"", 64, long).unwrap_err();
        assert!(matches!(missing, HostProgramError::Start { .. }));
    }

    #[test]
    fn program_that_hangs_is_ended_with_its_group() {
        for script in ["sleep 600 & echo x; wait", "exec >&-; sleep 600"] {
            let error = shell(script, b"the bytes", Duration::from_millis(100)).unwrap_err();
            assert!(matches!(error, HostProgramError::Deadline { .. }), "{script}: {error}");
        }
    }
}
