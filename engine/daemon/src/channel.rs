//! One end of a connection: packets with descriptors, received asynchronously.

use std::io;
use std::os::fd::{AsFd, BorrowedFd, OwnedFd};
use std::sync::Arc;

use nix::poll::{PollFd, PollFlags, PollTimeout, poll};
use nix::sys::socket::{getsockopt, sockopt};
use tokio::io::Interest;
use tokio::net::UnixStream;

use crate::drop_elsewhere::Aside;
use hotcell_sandbox::socket::{self, Piece};

use crate::peer::Standing;
use crate::wire::MAX_ASK_BYTES;

/// Maximum number of descriptors in a message of the server: an outcome, a home, changes, a process.
const MAX_DESCRIPTORS: usize = 4;

/// A connected `SOCK_SEQPACKET` socket. The runtime is used for readiness only.
#[derive(Debug)]
pub struct Channel(Aside<UnixStream>);

/// A complete message of a client.
#[derive(Debug)]
pub struct Said {
    pub bytes: Vec<u8>,
    pub fds: Aside<Vec<OwnedFd>>,
}

impl Channel {
    pub fn new(stream: UnixStream) -> Self {
        Self(Aside::new(stream))
    }

    /// Wraps a non-blocking descriptor; must be called within a runtime.
    pub fn of(fd: OwnedFd) -> io::Result<Self> {
        UnixStream::from_std(fd.into()).map(Self::new)
    }

    pub async fn send(&self, bytes: &[u8], fds: &[BorrowedFd<'_>]) -> io::Result<()> {
        self.0.async_io(Interest::WRITABLE, || socket::send(self.0.as_fd(), bytes, fds)).await
    }

    /// Receives one message of the server; `None` when it has disconnected.
    pub async fn receive(&self, buffer: &mut [u8]) -> io::Result<Option<Piece>> {
        self.0.async_io(Interest::READABLE, || receive(&self.0, buffer, MAX_DESCRIPTORS)).await
    }

    /// Receives one message of a client, with at most `room` descriptors; `None` when it has disconnected,
    /// and empty when the message was too long. The descriptors that come with it may be anything, and the
    /// kernel closes those that are not taken before it returns; so this runs on a blocking thread.
    ///
    /// Not cancel safe: dropping the future may lose the message that it was about to receive.
    pub async fn hear(self: &Arc<Self>, room: usize) -> io::Result<Option<Said>> {
        loop {
            self.0.readable().await?;
            let this = Arc::clone(self);
            let heard = tokio::task::spawn_blocking(move || {
                let mut bytes = vec![0; MAX_ASK_BYTES];
                let piece = this.0.try_io(Interest::READABLE, || receive(&this.0, &mut bytes, room))?;
                io::Result::Ok(piece.map(|Piece { len, cut, fds }| {
                    bytes.truncate(if cut { 0 } else { len });
                    Said { bytes, fds: Aside::new(fds) }
                }))
            });
            match heard.await? {
                Err(e) if e.kind() == io::ErrorKind::WouldBlock => {}
                heard => return heard,
            }
        }
    }

    pub fn as_fd(&self) -> BorrowedFd<'_> {
        self.0.as_fd()
    }
}

fn receive(stream: &UnixStream, buffer: &mut [u8], room: usize) -> io::Result<Option<Piece>> {
    match socket::receive_into(stream.as_fd(), buffer, room) {
        // Messages that the other side sent before it closed without reading ours come after this error.
        Err(e) if e.kind() == io::ErrorKind::ConnectionReset => {
            socket::receive_into(stream.as_fd(), buffer, room)
        }
        received => received,
    }
}

/// The process at the other end: its user, its process id, and its rights.
pub struct Other {
    pub user: u32,
    pub pid: i32,
    pub standing: io::Result<Standing>,
}

impl Other {
    /// Identifies the peer of a connected socket. The process id must be that of the very process that
    /// connected or listened, and it must be alive. Where the kernel cannot guarantee that (before Linux
    /// 6.5), or no descriptor is left for it, the rights of the peer are unknown.
    pub fn of(socket: BorrowedFd<'_>) -> io::Result<Self> {
        let credentials = getsockopt(&socket, sockopt::PeerCredentials)?;
        let number = credentials.pid();
        let standing = standing(number, getsockopt(&socket, sockopt::PeerPidfd));
        Ok(Self { user: credentials.uid(), pid: number, standing })
    }
}

/// The rights of a process that is known to have been alive until they were read.
fn standing(number: i32, process: nix::Result<OwnedFd>) -> io::Result<Standing> {
    let unknown = |errno| io::Error::other(format!("the kernel does not say which process it is ({errno})"));
    let process = process.map_err(unknown)?;
    let standing = Standing::of(&number.to_string())?;
    match poll(&mut [PollFd::new(process.as_fd(), PollFlags::POLLIN)], PollTimeout::ZERO)? {
        0 => Ok(standing),
        _ => Err(io::Error::other("it has ended")),
    }
}

#[cfg(test)]
mod tests {
    use nix::errno::Errno;

    use super::*;

    #[test]
    fn peer_must_be_same_process() {
        let (ours, _theirs) = socket::pair().unwrap();
        let us = std::process::id().cast_signed();
        let other = Other::of(ours.as_fd()).unwrap();
        assert_eq!(other.pid, us);
        assert!(other.standing.is_ok(), "{:?}", other.standing);
        // The process id may have been reused by now.
        for errno in [Errno::EINVAL, Errno::ESRCH, Errno::EMFILE, Errno::ENOPROTOOPT] {
            assert!(standing(us, Err(errno)).is_err(), "{errno}");
        }
        // A descriptor that is readable at once, like the pidfd of a process that has ended.
        assert!(standing(us, Ok(std::fs::File::open("/dev/null").unwrap().into())).is_err());
    }
}
