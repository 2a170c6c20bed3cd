//! One end of a connection: packets with descriptors, to be waited for.

use std::io;
use std::os::fd::{AsFd, BorrowedFd, OwnedFd};
use std::sync::Arc;

use nix::poll::{PollFd, PollFlags, PollTimeout, poll};
use nix::sys::socket::{getsockopt, sockopt};
use tokio::io::Interest;
use tokio::net::UnixStream;

use super::aside::Aside;
use super::peer::Standing;
use super::wire::LONGEST_ASKED;
use crate::socket::{self, Piece};

/// The most descriptors that come with a message of a server's: an outcome, a home, changes, a process.
const MOST: usize = 4;

/// A connected `SOCK_SEQPACKET`: the runtime asks of it no more than readiness.
#[derive(Debug)]
pub struct Channel(Aside<UnixStream>);

/// What a client said, whole.
#[derive(Debug)]
pub struct Said {
    pub bytes: Vec<u8>,
    pub fds: Aside<Vec<OwnedFd>>,
}

impl Channel {
    pub fn new(stream: UnixStream) -> Self {
        Self(Aside::new(stream))
    }

    /// From a descriptor that does not block, within a runtime.
    pub fn of(fd: OwnedFd) -> io::Result<Self> {
        UnixStream::from_std(fd.into()).map(Self::new)
    }

    pub async fn send(&self, bytes: &[u8], fds: &[BorrowedFd<'_>]) -> io::Result<()> {
        self.0.async_io(Interest::WRITABLE, || socket::send(self.0.as_fd(), bytes, fds)).await
    }

    /// One message of a server's; none when it is gone.
    pub async fn receive(&self, buffer: &mut [u8]) -> io::Result<Option<Piece>> {
        self.0.async_io(Interest::READABLE, || receive(&self.0, buffer, MOST)).await
    }

    /// One message of a client's, with at most so many descriptors; none when it is gone, and nothing in it when it was too long. What comes beside it
    /// is anybody's, and the kernel closes what is not taken before it answers: so not in a thread that serves others too.
    ///
    /// Whoever gives this up may lose what it was about to take.
    pub async fn hear(self: &Arc<Self>, room: usize) -> io::Result<Option<Said>> {
        loop {
            self.0.readable().await?;
            let this = Arc::clone(self);
            let heard = tokio::task::spawn_blocking(move || {
                let mut bytes = vec![0; LONGEST_ASKED];
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
        // What the other side had said before it left without hearing us comes behind this.
        Err(e) if e.kind() == io::ErrorKind::ConnectionReset => {
            socket::receive_into(stream.as_fd(), buffer, room)
        }
        received => received,
    }
}

/// The process at the other end: its user, its number, and how it stands.
pub struct Other {
    pub user: u32,
    pub pid: i32,
    pub standing: io::Result<Standing>,
}

impl Other {
    /// Of a connected socket. The number has to be that of the very process that connected or listened, which lives: where the kernel does not say
    /// (before Linux 6.5), or no descriptor is left to be told by, nobody knows how it stands.
    pub fn of(socket: BorrowedFd<'_>) -> io::Result<Self> {
        let credentials = getsockopt(&socket, sockopt::PeerCredentials)?;
        let number = credentials.pid();
        let standing = standing(number, getsockopt(&socket, sockopt::PeerPidfd));
        Ok(Self { user: credentials.uid(), pid: number, standing })
    }
}

/// How a process stands that is known to have lived until that was read.
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
    fn only_the_very_process_stands_somewhere() {
        let (ours, _theirs) = socket::pair().unwrap();
        let us = std::process::id().cast_signed();
        let other = Other::of(ours.as_fd()).unwrap();
        assert_eq!(other.pid, us);
        assert!(other.standing.is_ok(), "{:?}", other.standing);
        // Its number may be another's by now.
        for errno in [Errno::EINVAL, Errno::ESRCH, Errno::EMFILE, Errno::ENOPROTOOPT] {
            assert!(standing(us, Err(errno)).is_err(), "{errno}");
        }
        // A descriptor that can be read at once, as that of a process that has ended.
        assert!(standing(us, Ok(std::fs::File::open("/dev/null").unwrap().into())).is_err());
    }
}
