//! Servers that a client can reach, and how the programs among them are started.

use std::ffi::{OsStr, OsString};
use std::fmt;
use std::io;
use std::os::fd::OwnedFd;
use std::path::PathBuf;
use std::sync::Arc;

use tokio::process::Command;
use tokio::sync::oneshot;
use tokio_util::sync::CancellationToken;

use crate::endpoint::Endpoint;

/// A server.
#[derive(Clone, Debug)]
#[non_exhaustive]
pub enum Server {
    /// A server that was wrapped, in its sandbox.
    Sandboxed(Sandboxed),
    /// A server in its sandbox, which this process supervises itself.
    Within(Within),
    /// A program with all rights of the caller.
    Unconfined(Unconfined),
    /// A server at an address: streamable HTTP, or WebSocket for `ws` and `wss`.
    Http(Endpoint),
}

/// A wrapped server, by its name. hotcell starts it with what it was granted and holds tools that are not accepted.
#[derive(Clone, Debug)]
pub struct Sandboxed {
    hotcell: PathBuf,
    options: Vec<OsString>,
    name: String,
}

impl Sandboxed {
    /// A wrapped server.
    #[must_use]
    pub fn new(hotcell: impl Into<PathBuf>, name: &str) -> Self {
        Self { hotcell: hotcell.into(), options: Vec::new(), name: name.to_owned() }
    }

    /// Adds an option of hotcell, such as its state folder.
    #[must_use]
    pub fn option(mut self, option: impl Into<OsString>) -> Self {
        self.options.push(option.into());
        self
    }
}

/// Starts a server whose sandbox this process supervises: without a process of hotcell's for each server.
#[derive(Clone)]
pub struct Within {
    name: String,
    start: Arc<dyn Fn() -> io::Result<Started> + Send + Sync>,
}

/// A server that was started within this process.
#[derive(Debug)]
pub struct Started {
    /// Pipe to its standard input.
    pub input: OwnedFd,
    /// Pipe from its standard output.
    pub output: OwnedFd,
    /// Pipe from its standard error.
    pub errors: OwnedFd,
    /// Ends it.
    pub stop: CancellationToken,
    /// Its exit status, once it and its sandbox are gone.
    pub ended: oneshot::Receiver<u8>,
}

impl fmt::Debug for Within {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("Within").field("name", &self.name).finish_non_exhaustive()
    }
}

impl Within {
    /// A server with a name for messages, and the function that starts it. The function does not wait for the server.
    #[must_use]
    pub fn new(name: &str, start: impl Fn() -> io::Result<Started> + Send + Sync + 'static) -> Self {
        Self { name: name.to_owned(), start: Arc::new(start) }
    }

    pub(crate) fn start(&self) -> io::Result<Started> {
        (self.start)()
    }
}

/// A program that nothing confines: for servers that the caller trusts as much as itself. It gets the caller's environment.
#[derive(Clone, Debug)]
pub struct Unconfined {
    program: OsString,
    args: Vec<OsString>,
    env: Vec<(OsString, OsString)>,
}

impl Unconfined {
    /// A program.
    #[must_use]
    pub fn new(program: impl Into<OsString>) -> Self {
        Self { program: program.into(), args: Vec::new(), env: Vec::new() }
    }

    /// Adds an argument.
    #[must_use]
    pub fn arg(mut self, arg: impl Into<OsString>) -> Self {
        self.args.push(arg.into());
        self
    }

    /// Sets an environment variable.
    #[must_use]
    pub fn env(mut self, name: impl Into<OsString>, value: impl Into<OsString>) -> Self {
        self.env.push((name.into(), value.into()));
        self
    }
}

impl Server {
    /// Command line of a program; `None` for an address.
    pub(crate) fn command(&self) -> Option<Command> {
        match self {
            Self::Sandboxed(server) => {
                let mut command = Command::new(&server.hotcell);
                command.args(&server.options).args(["mcp", "wrap", "--name", &server.name]);
                Some(command)
            }
            Self::Unconfined(server) => {
                let mut command = Command::new(&server.program);
                command.args(&server.args).envs(server.env.iter().map(|(name, value)| (name, value)));
                Some(command)
            }
            Self::Within(_) | Self::Http(_) => None,
        }
    }

    /// Name of a program for messages.
    pub(crate) fn name(&self) -> String {
        let program: &OsStr = match self {
            Self::Sandboxed(server) => server.hotcell.as_os_str(),
            Self::Unconfined(server) => &server.program,
            Self::Within(server) => OsStr::new(&server.name),
            Self::Http(endpoint) => OsStr::new(endpoint.url().as_str()),
        };
        crate::error::foreign(&program.to_string_lossy())
    }
}
