//! Runs programs of the host with bounded output and a time limit. Of our environment they get only `PATH`,
//! proxies and certificate paths.

use std::io::{self, Read};
use std::path::{Path, PathBuf};
use std::process::{Command, Stdio};
use std::thread;
use std::time::{Duration, Instant};

use sha2::{Digest as _, Sha256};

use crate::stream::Digest;

/// Maximum output that is kept, in bytes.
const MAX_OUTPUT_BYTES: u64 = 64 << 20;
/// Interval at which the program's end is checked.
const POLL_INTERVAL: Duration = Duration::from_millis(20);

/// Reason why a program of the host failed.
#[derive(Debug, thiserror::Error)]
pub enum ToolError {
    /// The program is not installed.
    #[error("{name} is not installed; {mend}")]
    Missing {
        /// The program.
        name: String,
        /// How to install it.
        mend: String,
    },
    /// The program cannot be started, or its output cannot be read.
    #[error("{name} cannot be run: {error}")]
    Io {
        /// The program.
        name: String,
        /// Error of the system call.
        error: io::Error,
    },
    /// The program failed.
    #[error("{what} failed: {said}")]
    Failed {
        /// Purpose of the call.
        what: String,
        /// The last lines of its output.
        said: String,
    },
    /// The program exceeded its time limit.
    #[error("{what} did not end within {} s", limit.as_secs())]
    Time {
        /// Purpose of the call.
        what: String,
        /// The time limit.
        limit: Duration,
    },
}

/// Finds a program in `PATH`.
///
/// # Errors
/// [`ToolError::Missing`] with `mend`, which says how to install it.
pub fn find(name: &str, mend: &str) -> Result<PathBuf, ToolError> {
    let path = std::env::var_os("PATH").unwrap_or_default();
    std::env::split_paths(&path)
        .filter(|folder| folder.is_absolute())
        .map(|folder| folder.join(name))
        .find(|file| rustix::fs::access(file, rustix::fs::Access::EXEC_OK).is_ok() && file.is_file())
        .ok_or_else(|| ToolError::Missing { name: name.to_owned(), mend: mend.to_owned() })
}

/// A command whose environment has only `PATH`, proxy and certificate variables, variables with these
/// prefixes, and `home` as `HOME`.
pub fn command(program: &Path, home: &Path, prefixes: &[&str]) -> Command {
    const PASSED: [&str; 12] = [
        "PATH",
        "http_proxy",
        "https_proxy",
        "ftp_proxy",
        "all_proxy",
        "no_proxy",
        "HTTP_PROXY",
        "HTTPS_PROXY",
        "ALL_PROXY",
        "NO_PROXY",
        "SSL_CERT_FILE",
        "SSL_CERT_DIR",
    ];
    let mut command = Command::new(program);
    let passed = |name: &str| PASSED.contains(&name) || prefixes.iter().any(|p| name.starts_with(p));
    command
        .env_clear()
        .envs(std::env::vars_os().filter(|(name, _)| name.to_str().is_some_and(passed)))
        .env("HOME", home)
        .env("LC_ALL", "C.UTF-8");
    command
}

/// Runs a command to its end, and returns its standard output.
///
/// # Errors
/// [`ToolError::Io`] when it cannot be run; [`ToolError::Failed`] when it fails; [`ToolError::Time`] when it
/// takes longer than `limit`.
pub fn run(mut command: Command, what: &str, limit: Duration) -> Result<Vec<u8>, ToolError> {
    let name = command.get_program().to_string_lossy().into_owned();
    let io = |error| ToolError::Io { name: name.clone(), error };
    command.stdin(Stdio::null()).stdout(Stdio::piped()).stderr(Stdio::piped());
    let mut child = command.spawn().map_err(io)?;
    let (out, err) = (child.stdout.take(), child.stderr.take());
    let (status, out, err) = thread::scope(|scope| {
        let out = scope.spawn(|| read(out));
        let err = scope.spawn(|| read(err));
        let began = Instant::now();
        let status = loop {
            match child.try_wait() {
                Ok(None) if began.elapsed() > limit => {
                    // Child processes end because their pipes close. The program stays in our process
                    // group, so that Ctrl-C reaches it.
                    drop(child.kill());
                    break child.wait().map(|_| None);
                }
                Ok(None) => thread::sleep(POLL_INTERVAL),
                Ok(Some(status)) => break Ok(Some(status)),
                Err(e) => break Err(e),
            }
        };
        (status, out.join().unwrap_or_default(), err.join().unwrap_or_default())
    });
    match status.map_err(io)? {
        None => Err(ToolError::Time { what: what.to_owned(), limit }),
        Some(status) if status.success() => Ok(out),
        Some(status) => {
            let text = String::from_utf8_lossy(if err.is_empty() { &out } else { &err });
            let said = said(&text);
            let said = if said.is_empty() { status.to_string() } else { said };
            Err(ToolError::Failed { what: what.to_owned(), said })
        }
    }
}

/// Digest of a file.
///
/// # Errors
/// When the file cannot be read.
pub fn digest(path: &Path) -> io::Result<Digest> {
    let (mut hash, mut file, mut piece) = (Sha256::new(), std::fs::File::open(path)?, vec![0; 1 << 16]);
    loop {
        match file.read(&mut piece)? {
            0 => return Ok(Digest(hash.finalize().into())),
            count => hash.update(&piece[..count]),
        }
    }
}

fn read(from: Option<impl Read>) -> Vec<u8> {
    let mut kept = Vec::new();
    if let Some(mut from) = from {
        // On a read error the output is cut short; the exit status decides.
        drop((&mut from).take(MAX_OUTPUT_BYTES).read_to_end(&mut kept));
        drop(io::copy(&mut from, &mut io::sink()));
    }
    kept
}

/// The error message of a program: the first three lines marked as errors, else the last three lines.
fn said(text: &str) -> String {
    let lines: Vec<&str> = text.lines().map(str::trim).filter(|l| !l.is_empty()).collect();
    let marks = ["E: ", "ERROR: ", "npm error "];
    let marked: Vec<&str> =
        lines.iter().filter_map(|line| marks.iter().find_map(|mark| line.strip_prefix(mark))).collect();
    let told = match marked.is_empty() {
        true => &lines[lines.len().saturating_sub(3)..],
        false => &marked[..marked.len().min(3)],
    };
    hotcell_sandbox::text::printable(&told.join(" / ").chars().take(600).collect::<String>())
}

#[cfg(test)]
mod tests {
    use super::*;

    fn sh(script: &str, limit: Duration) -> Result<Vec<u8>, ToolError> {
        let mut command = command(Path::new("/bin/sh"), Path::new("/nowhere"), &[]);
        command.args(["-c", script]);
        run(command, "the script", limit)
    }

    #[test]
    fn tool_success_failure_and_timeout_are_reported() {
        let minute = Duration::from_secs(60);
        assert_eq!(sh("echo $HOME $CARGO_MANIFEST_DIR", minute).unwrap(), b"/nowhere\n");
        let error =
            sh("echo a >&2; echo b >&2; echo >&2; echo c >&2; echo d >&2; exit 3", minute).unwrap_err();
        assert_eq!(error.to_string(), "the script failed: b / c / d");
        let error = sh("echo E: a; echo b; echo npm error c; exit 1", minute).unwrap_err();
        assert_eq!(error.to_string(), "the script failed: a / c");
        assert!(sh("exit 3", minute).unwrap_err().to_string().contains('3'));
        let error = sh("exec sleep 60", Duration::from_millis(100)).unwrap_err();
        assert!(error.to_string().contains("did not end within 0 s"), "{error}");
        let error = find("hotcell-no-such", "apt-get install it").unwrap_err().to_string();
        assert!(error.contains("apt-get install it"), "{error}");
    }
}
