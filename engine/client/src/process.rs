//! Programs of servers: started in a process group of their own, and ended with all that is left in it.

use std::io;
use std::process::{ExitStatus, Stdio};
use std::time::Duration;

use nix::sys::signal::{Signal, killpg};
use nix::unistd::Pid;
use tokio::io::{AsyncBufReadExt, BufReader};
use tokio::process::{Child, ChildStderr, ChildStdin, ChildStdout, Command};
use tokio::sync::broadcast;
use tokio::time::timeout;

use crate::event::Event;

/// Time for a program to end by itself once its input is closed, and again once it is told to.
const END_TIME: Duration = Duration::from_secs(2);
/// Maximum length of a line of standard error in an event.
const MAX_STDERR_LINE: usize = 4096;

/// A program that runs.
pub struct Process {
    child: Child,
    group: Option<Pid>,
}

impl Process {
    /// Starts a program; its standard error becomes events.
    pub fn start(
        mut command: Command,
        events: broadcast::Sender<Event>,
    ) -> io::Result<(Self, (ChildStdout, ChildStdin))> {
        command.stdin(Stdio::piped()).stdout(Stdio::piped()).stderr(Stdio::piped()).process_group(0);
        let mut child = command.spawn()?;
        let group = child.id().and_then(|id| i32::try_from(id).ok()).map(Pid::from_raw);
        let pipe = || io::Error::other("a pipe is missing");
        let streams = (child.stdout.take().ok_or_else(pipe)?, child.stdin.take().ok_or_else(pipe)?);
        tokio::spawn(follow(child.stderr.take().ok_or_else(pipe)?, events));
        Ok((Self { child, group }, streams))
    }

    fn signal(&self, signal: Signal) {
        if let Some(group) = self.group {
            let _ = killpg(group, signal);
        }
    }

    /// Waits for the program, whose input is closed, and ends it if it stays.
    pub async fn end(mut self) -> Option<ExitStatus> {
        let mut status = None;
        for signal in [None, Some(Signal::SIGTERM), Some(Signal::SIGKILL)] {
            if let Some(signal) = signal {
                self.signal(signal);
            }
            if let Ok(ended) = timeout(END_TIME, self.child.wait()).await {
                status = ended.ok();
                break;
            }
        }
        // Processes that the program left behind.
        self.signal(Signal::SIGKILL);
        self.group = None;
        status
    }
}

impl Drop for Process {
    fn drop(&mut self) {
        // hotcell ends its sandbox on this signal; others that ignore it have lost their input.
        self.signal(Signal::SIGTERM);
    }
}

/// Lines of standard error as events; a line without end is cut into pieces.
async fn follow(stderr: ChildStderr, events: broadcast::Sender<Event>) {
    let (mut stderr, mut line) = (BufReader::new(stderr), Vec::new());
    loop {
        let Ok(bytes) = stderr.fill_buf().await else { return };
        let end = bytes.iter().position(|byte| *byte == b'\n');
        let used = end.map_or(bytes.len(), |end| end + 1).min(MAX_STDERR_LINE);
        let is_end = bytes.is_empty();
        line.extend_from_slice(&bytes[..used]);
        stderr.consume(used);
        if line.ends_with(b"\n") || line.len() >= MAX_STDERR_LINE || (is_end && !line.is_empty()) {
            let _ = events.send(Event::Stderr(std::mem::take(&mut line)));
        }
        if is_end {
            return;
        }
    }
}
