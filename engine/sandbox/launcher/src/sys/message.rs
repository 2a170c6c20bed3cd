//! Messages with descriptors. `unix(7)`, `cmsg(3)`

use super::{Errno, Fd, Result, check, close, nr, syscall};

#[repr(C)]
struct MessageHeader {
    name: usize,
    name_len: u32,
    iov: *mut [usize; 2],
    iov_len: usize,
    control: *mut u8,
    control_len: usize,
    flags: u32,
}

const CMSG_HEAD: usize = 16;
const SOL_SOCKET: u32 = 1;
const SCM_RIGHTS: u32 = 1;
const MSG_CMSG_CLOEXEC: u32 = 0x4000_0000;
const MSG_NOSIGNAL: u32 = 0x4000;
const MSG_TRUNCATED: u32 = 0x20 | 0x08; // data or control

/// Space for the descriptors of one message, aligned as control messages are.
#[repr(C, align(8))]
struct Control([u8; CMSG_HEAD + 4 * crate::wire::MAX_FDS]);

/// Sends one message with descriptors.
pub fn send(socket: Fd, bytes: &[u8], fds: &[Fd]) -> Result<()> {
    let mut control = Control([0; CMSG_HEAD + 4 * crate::wire::MAX_FDS]);
    let len = CMSG_HEAD + 4 * fds.len();
    control.0[..8].copy_from_slice(&len.to_ne_bytes());
    control.0[8..12].copy_from_slice(&SOL_SOCKET.to_ne_bytes());
    control.0[12..16].copy_from_slice(&SCM_RIGHTS.to_ne_bytes());
    for (i, fd) in fds.iter().enumerate() {
        control.0[CMSG_HEAD + 4 * i..][..4].copy_from_slice(&fd.to_ne_bytes());
    }
    let mut iov = [bytes.as_ptr() as usize, bytes.len()];
    let header = MessageHeader {
        name: 0,
        name_len: 0,
        iov: &raw mut iov,
        iov_len: 1,
        control: control.0.as_mut_ptr(),
        control_len: if fds.is_empty() { 0 } else { len.next_multiple_of(8) },
        flags: 0,
    };
    call!(nr::SENDMSG, socket, &raw const header, MSG_NOSIGNAL).map(drop)
}

/// Result of receiving a message with descriptors.
pub struct Received {
    pub len: usize,
    fds: [Fd; crate::wire::MAX_FDS],
    count: usize,
}

impl Received {
    pub fn fds(&self) -> &[Fd] {
        &self.fds[..self.count]
    }
    /// Closes all received descriptors.
    pub fn close_all(&self) {
        self.fds().iter().copied().for_each(close);
    }
}

/// Receives one message; a length of 0 means the end. Fails for a message that does not fit.
pub fn receive(socket: Fd, into: &mut [u8]) -> Result<Received> {
    let mut control = Control([0; CMSG_HEAD + 4 * crate::wire::MAX_FDS]);
    let mut iov = [into.as_mut_ptr() as usize, into.len()];
    let mut header = MessageHeader {
        name: 0,
        name_len: 0,
        iov: &raw mut iov,
        iov_len: 1,
        control: control.0.as_mut_ptr(),
        control_len: control.0.len(),
        flags: 0,
    };
    let len = call!(nr::RECVMSG, socket, &raw mut header, MSG_CMSG_CLOEXEC)?;
    let mut received = Received { len, fds: [-1; crate::wire::MAX_FDS], count: 0 };
    if header.control_len >= CMSG_HEAD {
        let mut word = [0u8; 8];
        word.copy_from_slice(&control.0[..8]);
        let used = usize::from_ne_bytes(word).min(control.0.len());
        for chunk in control.0[CMSG_HEAD..used.max(CMSG_HEAD)].chunks_exact(4) {
            received.fds[received.count] = i32::from_ne_bytes([chunk[0], chunk[1], chunk[2], chunk[3]]);
            received.count += 1;
        }
    }
    if header.flags & MSG_TRUNCATED != 0 {
        received.close_all();
        return Err(Errno::PROTO);
    }
    Ok(received)
}
