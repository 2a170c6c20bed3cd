//! One end of a connection: packets with descriptors, to be waited for.

use std::io;
use std::os::fd::{AsFd, BorrowedFd, OwnedFd};

use nix::poll::{PollFd, PollFlags, PollTimeout, poll};
use nix::sys::socket::{getsockopt, sockopt};
use tokio::io::Interest;
use tokio::net::UnixStream;

use super::peer::Standing;
use crate::socket::{self, Piece};

/// A connected `SOCK_SEQPACKET`: the runtime asks of it no more than readiness.
#[derive(Debug)]
pub struct Channel(UnixStream);

impl Channel {
    pub fn new(stream: UnixStream) -> Self {
        Self(stream)
    }

    /// From a descriptor that does not block, within a runtime.
    pub fn of(fd: OwnedFd) -> io::Result<Self> {
        UnixStream::from_std(fd.into()).map(Self)
    }

    pub async fn send(&self, bytes: &[u8], fds: &[BorrowedFd<'_>]) -> io::Result<()> {
        self.0.async_io(Interest::WRITABLE, || socket::send(self.0.as_fd(), bytes, fds)).await
    }

    /// One message; none when the other side is gone.
    pub async fn receive(&self, buffer: &mut [u8]) -> io::Result<Option<Piece>> {
        let receive = || match socket::receive_into(self.0.as_fd(), buffer, socket::ALL) {
            // What the other side had said before it left without hearing us comes behind this.
            Err(e) if e.kind() == io::ErrorKind::ConnectionReset => {
                socket::receive_into(self.0.as_fd(), buffer, socket::ALL)
            }
            received => received,
        };
        self.0.async_io(Interest::READABLE, receive).await
    }

    pub fn as_fd(&self) -> BorrowedFd<'_> {
        self.0.as_fd()
    }
}

/// The process at the other end: its user, its number, and how it stands.
pub struct Other {
    pub user: u32,
    pub pid: i32,
    pub standing: io::Result<Standing>,
}

impl Other {
    /// Of a connected socket. Where the kernel tells (6.5), the number is that of the very process that connected or listened, which lives.
    pub fn of(socket: BorrowedFd<'_>) -> io::Result<Self> {
        let credentials = getsockopt(&socket, sockopt::PeerCredentials)?;
        let process = getsockopt(&socket, sockopt::PeerPidfd).ok();
        let standing = Standing::of(&credentials.pid().to_string()).and_then(|standing| {
            let Some(process) = &process else { return Ok(standing) };
            let mut polled = [PollFd::new(process.as_fd(), PollFlags::POLLIN)];
            match poll(&mut polled, PollTimeout::ZERO)? {
                0 => Ok(standing),
                _ => Err(io::Error::other("it has ended")),
            }
        });
        Ok(Self { user: credentials.uid(), pid: credentials.pid(), standing })
    }
}
