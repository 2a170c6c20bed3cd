//! Programs of servers: started in a process group of their own, and ended with all that is left in it.

use std::io;
use std::os::unix::process::ExitStatusExt;
use std::process::{ExitStatus, Stdio};
use std::time::Duration;

use nix::sys::signal::{Signal, killpg};
use nix::unistd::Pid;
use tokio::io::{AsyncBufReadExt, AsyncRead, BufReader};
use tokio::net::unix::pipe;
use tokio::process::{Child, ChildStdin, ChildStdout, Command};
use tokio::sync::{broadcast, oneshot};
use tokio::time::timeout;
use tokio_util::sync::CancellationToken;

use crate::event::Event;
use crate::server::{Started, Within};

/// Time for a program to end by itself once its input is closed, and again once it is told to.
const END_TIME: Duration = Duration::from_secs(2);
/// Maximum length of a line of standard error in an event.
const MAX_STDERR_LINE: usize = 4096;

/// A program that runs.
pub struct Process(Kind);

enum Kind {
    /// A process of its own group.
    Child { child: Child, group: Option<Pid> },
    /// A server that this process supervises.
    Within { stop: CancellationToken, ended: oneshot::Receiver<u8> },
    /// A group that is being ended.
    Left(Option<Pid>),
    /// Nothing that runs.
    Gone,
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
        let (output, input) = (child.stdout.take().ok_or_else(pipe)?, child.stdin.take().ok_or_else(pipe)?);
        tokio::spawn(follow(child.stderr.take().ok_or_else(pipe)?, events));
        Ok((Self(Kind::Child { child, group }), (output, input)))
    }

    /// Starts a server that this process supervises; its standard error becomes events.
    pub fn within(
        server: &Within,
        events: broadcast::Sender<Event>,
    ) -> io::Result<(Self, (pipe::Receiver, pipe::Sender))> {
        let Started { input, output, errors, stop, ended } = server.start()?;
        let process = Self(Kind::Within { stop, ended });
        let (input, output) = (pipe::Sender::from_owned_fd(input)?, pipe::Receiver::from_owned_fd(output)?);
        tokio::spawn(follow(pipe::Receiver::from_owned_fd(errors)?, events));
        Ok((process, (output, input)))
    }

    /// Waits for the program, whose input is closed, and ends it if it stays.
    pub async fn end(mut self) -> Option<ExitStatus> {
        match std::mem::replace(&mut self.0, Kind::Gone) {
            Kind::Child { mut child, group } => {
                // For a caller who does not wait to the end.
                self.0 = Kind::Left(group);
                let mut status = None;
                for signal in [None, Some(Signal::SIGTERM), Some(Signal::SIGKILL)] {
                    if let Some(signal) = signal {
                        send(group, signal);
                    }
                    if let Ok(ended) = timeout(END_TIME, child.wait()).await {
                        status = ended.ok();
                        break;
                    }
                }
                // Processes that the program left behind.
                send(group, Signal::SIGKILL);
                self.0 = Kind::Gone;
                status
            }
            Kind::Within { stop, mut ended } => {
                let mut code = timeout(END_TIME, &mut ended).await;
                if code.is_err() {
                    stop.cancel();
                    code = timeout(END_TIME, &mut ended).await;
                }
                // The form of wait(2): the status is in the second byte.
                code.ok()?.ok().map(|code| ExitStatus::from_raw(i32::from(code) << 8))
            }
            Kind::Left(_) | Kind::Gone => None,
        }
    }
}

fn send(group: Option<Pid>, signal: Signal) {
    if let Some(group) = group {
        let _ = killpg(group, signal);
    }
}

impl Drop for Process {
    fn drop(&mut self) {
        match &self.0 {
            // hotcell ends its sandbox on this signal; others that ignore it have lost their input.
            Kind::Child { group, .. } | Kind::Left(group) => send(*group, Signal::SIGTERM),
            Kind::Within { stop, .. } => stop.cancel(),
            Kind::Gone => {}
        }
    }
}

/// Lines of standard error as events; a line without end is cut into pieces.
async fn follow(stderr: impl AsyncRead + Unpin, events: broadcast::Sender<Event>) {
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
