//! Messages with descriptors over a `SOCK_SEQPACKET` pair. A thin layer; decisions are made in `launcher` and
//! `supervise`.

use std::fs::File;
use std::io::{self, IoSlice, Write};
use std::os::fd::{AsFd, AsRawFd, BorrowedFd, OwnedFd};
use std::os::unix::fs::FileExt;

use hotcell_launcher::wire;
use nix::fcntl::{FcntlArg, SealFlag, fcntl};
use nix::sys::memfd::{MFdFlags, memfd_create};
use nix::sys::socket::{AddressFamily, ControlMessage, MsgFlags, SockFlag, SockType, sendmsg, socketpair};

use crate::sys::Received;

/// A connected pair, close-on-exec; the first end is non-blocking.
pub fn pair() -> io::Result<(OwnedFd, OwnedFd)> {
    let (ours, theirs) = socketpair(AddressFamily::Unix, SockType::SeqPacket, None, SockFlag::SOCK_CLOEXEC)?;
    fcntl(&ours, FcntlArg::F_SETFL(nix::fcntl::OFlag::O_NONBLOCK))?;
    Ok((ours, theirs))
}

/// Sends one message whole.
pub fn send(socket: BorrowedFd<'_>, bytes: &[u8], fds: &[BorrowedFd<'_>]) -> io::Result<()> {
    let raw: Vec<i32> = fds.iter().map(AsRawFd::as_raw_fd).collect();
    let rights = [ControlMessage::ScmRights(&raw)];
    let control = if raw.is_empty() { &[][..] } else { &rights[..] };
    sendmsg::<()>(socket.as_raw_fd(), &[IoSlice::new(bytes)], control, MsgFlags::MSG_NOSIGNAL, None)?;
    Ok(())
}

/// One received message.
#[derive(Debug)]
pub struct Message {
    bytes: [u8; 1024],
    len: usize,
    /// Descriptors received with the message.
    pub fds: Vec<OwnedFd>,
}

impl Message {
    /// Decodes the message.
    pub fn tell(&self) -> io::Result<wire::Tell<'_>> {
        wire::Tell::decode(&self.bytes[..self.len]).map_err(|_| {
            io::Error::new(io::ErrorKind::InvalidData, "the launcher sent a message that is none")
        })
    }
}

/// Receives one message without waiting; `None` at the end of the stream.
pub fn receive(socket: BorrowedFd<'_>) -> io::Result<Option<Message>> {
    match receive_once(socket) {
        // The other side ended without reading our last message. The kernel reports that once, before the
        // messages that the other side had sent, which are still there.
        Err(e) if e.kind() == io::ErrorKind::ConnectionReset => receive_once(socket),
        received => received,
    }
}

fn receive_once(socket: BorrowedFd<'_>) -> io::Result<Option<Message>> {
    let mut message = Message { bytes: [0; 1024], len: 0, fds: Vec::new() };
    let Some(piece) = receive_into(socket, &mut message.bytes, MAX_MESSAGE_FDS)? else { return Ok(None) };
    (message.len, message.fds) = (piece.len, piece.fds);
    Ok(Some(message))
}

/// A message received into a buffer.
#[derive(Debug)]
pub struct Piece {
    /// Number of bytes received.
    pub len: usize,
    /// Whether the message was longer than the buffer; the rest is lost.
    pub cut: bool,
    /// Descriptors received with the message.
    pub fds: Vec<OwnedFd>,
}

/// Maximum number of descriptors in one message (the kernel's `SCM_MAX_FD`).
pub const MAX_MESSAGE_FDS: usize = 253;

/// Receives one message into a buffer, with at most `room` descriptors, without waiting; `None` at the end of
/// the stream. Fails when more descriptors came, or when this process may not open as many (`EMFILE`): all of
/// them are closed then.
pub fn receive_into(socket: BorrowedFd<'_>, buffer: &mut [u8], room: usize) -> io::Result<Option<Piece>> {
    let received = crate::sys::receive_message(socket, buffer, room)?;
    if received.fds_cut && received.fds.len() < room {
        // There was room for more, so the kernel could not install the rest; it reports this in no other way.
        return Err(nix::errno::Errno::EMFILE.into());
    }
    if received.fds_cut {
        return Err(io::Error::new(io::ErrorKind::InvalidData, "more descriptors came than are taken"));
    }
    let Received { len, cut, fds, .. } = received;
    Ok((len > 0).then_some(Piece { len, cut, fds }))
}

/// A memfd with these bytes, sealed so that it cannot be changed any more.
pub fn sealed(name: &std::ffi::CStr, bytes: &[u8]) -> io::Result<OwnedFd> {
    sealed_by(name, |file| file.write_all(bytes)).map(|(memory, ())| memory)
}

/// A memfd that `write` fills, sealed like that of [`sealed`]; with the result of `write`.
pub fn sealed_by<T>(
    name: &std::ffi::CStr,
    write: impl FnOnce(&mut File) -> io::Result<T>,
) -> io::Result<(OwnedFd, T)> {
    seal(memfd_create(name, SEALABLE)?, write)
}

const SEALABLE: MFdFlags = MFdFlags::MFD_CLOEXEC.union(MFdFlags::MFD_ALLOW_SEALING);

/// Like [`sealed`], but executable even where `vm.memfd_noexec` is 1.
pub fn sealed_program(name: &std::ffi::CStr, bytes: &[u8]) -> io::Result<OwnedFd> {
    const MFD_EXEC: MFdFlags = MFdFlags::from_bits_retain(0x10);
    let fd = match memfd_create(name, SEALABLE | MFD_EXEC) {
        // Kernels before 6.3 do not know the flag, and need none.
        Err(nix::errno::Errno::EINVAL) => memfd_create(name, SEALABLE),
        made => made,
    }?;
    seal(fd, |file| file.write_all(bytes)).map(|(memory, ())| memory)
}

/// Reads a memfd that another process sealed, at most `most` bytes; fails for any other file, or if it can
/// still be changed.
pub fn read_sealed(fd: OwnedFd, most: u64) -> io::Result<Vec<u8>> {
    let bad = |why: &str| io::Error::new(io::ErrorKind::InvalidData, why.to_owned());
    // Only a memfd has seals. Any other file is refused before it is read, since reading it could block.
    let seals = fcntl(fd.as_fd(), FcntlArg::F_GET_SEALS).map_err(|_| bad("it is no memory"))?;
    if !SealFlag::from_bits_retain(seals).contains(SEALED) {
        return Err(bad("it can still be changed"));
    }
    let file = File::from(fd);
    let len = file.metadata()?.len();
    if len > most {
        return Err(bad(&format!("it has {len} bytes, and at most {most} are taken")));
    }
    let mut bytes = vec![0; usize::try_from(len).map_err(|_| bad("it is too long"))?];
    file.read_exact_at(&mut bytes, 0)?;
    Ok(bytes)
}

const SEALED: SealFlag = SealFlag::F_SEAL_SEAL
    .union(SealFlag::F_SEAL_SHRINK)
    .union(SealFlag::F_SEAL_GROW)
    .union(SealFlag::F_SEAL_WRITE);

fn seal<T>(fd: OwnedFd, write: impl FnOnce(&mut File) -> io::Result<T>) -> io::Result<(OwnedFd, T)> {
    let mut file = File::from(fd);
    let written = write(&mut file)?;
    fcntl(file.as_fd(), FcntlArg::F_ADD_SEALS(SEALED))?;
    Ok((file.into(), written))
}

#[cfg(test)]
mod tests {
    use std::io::Read;

    use super::*;

    /// The reading end sees the end of file once all copies of the writing end are closed.
    #[test]
    fn excess_descriptors_are_closed() {
        for (sent, room, want) in [
            (0, 0, Some(0)),
            (1, 1, Some(1)),
            (3, MAX_MESSAGE_FDS, Some(3)),
            (1, 0, None),
            (2, 1, None),
            (200, 3, None),
        ] {
            let (ours, theirs) = pair().unwrap();
            let (mut reader, writer) = std::io::pipe().unwrap();
            send(theirs.as_fd(), b"m", &vec![writer.as_fd(); sent]).unwrap();
            drop(writer);
            let received = receive_into(ours.as_fd(), &mut [0; 8], room);
            assert_eq!(received.as_ref().ok().map(|p| p.as_ref().unwrap().fds.len()), want, "{sent} {room}");
            drop(received);
            assert_eq!(reader.read(&mut [0]).unwrap(), 0, "{sent} {room}");
            // The next message is received all the same.
            send(theirs.as_fd(), b"next", &[]).unwrap();
            assert_eq!(receive_into(ours.as_fd(), &mut [0; 8], room).unwrap().unwrap().len, 4);
        }
    }
}
