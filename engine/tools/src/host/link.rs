//! Frames over a socket, in both directions. A frame that has begun is written to its end, even if the sender
//! stops waiting.

use std::fs::File;
use std::io::{self, IoSlice};
use std::mem::MaybeUninit;
use std::os::fd::AsFd;
use std::sync::Arc;

use rustix::net::{SendAncillaryBuffer, SendAncillaryMessage, SendFlags, sendmsg};
use tokio::io::Interest;
use tokio::net::UnixStream;
use tokio::sync::Mutex;

use crate::protocol::{Frame, Incoming, Violation};

/// One end of the connection.
#[derive(Debug)]
pub struct Link {
    socket: UnixStream,
    /// Held while a frame is written.
    turn: Arc<Mutex<()>>,
}

/// Reasons nothing more can be read.
#[derive(Debug)]
pub enum Cut {
    /// The other side closed its end, or the read failed.
    Closed,
    /// The other side broke the protocol.
    Broken(Violation),
}

impl Link {
    /// Wraps a connected socket. Needs a tokio runtime.
    ///
    /// # Errors
    /// When the socket cannot be made non-blocking or registered with the runtime.
    pub fn new(socket: std::os::unix::net::UnixStream) -> io::Result<Arc<Self>> {
        socket.set_nonblocking(true)?;
        Ok(Arc::new(Self { socket: UnixStream::from_std(socket)?, turn: Arc::default() }))
    }

    /// The socket, for readers that take descriptors.
    pub fn socket(&self) -> &UnixStream {
        &self.socket
    }

    /// Sends a frame. Dropping the future after the first byte does not cut the frame off.
    ///
    /// # Errors
    /// When the write fails: the other side is gone.
    pub async fn send(self: &Arc<Self>, frame: Vec<u8>) -> io::Result<()> {
        self.send_if(frame, || true).await
    }

    /// Sends a frame, unless `wanted` returns `false` when its turn has come. While `wanted` has not been
    /// called, the frame is still waiting for its turn.
    ///
    /// # Errors
    /// As [`Link::send`].
    pub async fn send_if(self: &Arc<Self>, frame: Vec<u8>, wanted: impl FnOnce() -> bool) -> io::Result<()> {
        let turn = Arc::clone(&self.turn).lock_owned().await;
        if !wanted() {
            return Ok(());
        }
        let written = match self.socket.try_write(&frame) {
            Ok(written) => written,
            Err(e) if e.kind() == io::ErrorKind::WouldBlock => 0,
            Err(e) => return Err(e),
        };
        if written == frame.len() {
            return Ok(());
        }
        let link = Arc::clone(self);
        let rest = tokio::spawn(async move {
            let _turn = turn;
            link.write(&frame[written..]).await
        });
        rest.await.unwrap_or_else(|e| Err(io::Error::other(e.to_string())))
    }

    /// Sends a frame, and a descriptor with its first byte.
    ///
    /// # Errors
    /// When the write fails: the other side is gone.
    pub async fn send_with(self: &Arc<Self>, frame: Vec<u8>, file: File) -> io::Result<()> {
        let turn = Arc::clone(&self.turn).lock_owned().await;
        let link = Arc::clone(self);
        let all = tokio::spawn(async move {
            let _turn = turn;
            let first = || {
                let files = [file.as_fd()];
                let mut space = [MaybeUninit::uninit(); rustix::cmsg_space!(ScmRights(1))];
                let mut control = SendAncillaryBuffer::new(&mut space);
                if !control.push(SendAncillaryMessage::ScmRights(&files)) {
                    return Err(io::Error::other("no room for a descriptor"));
                }
                Ok(sendmsg(&link.socket, &[IoSlice::new(&frame)], &mut control, SendFlags::NOSIGNAL)?)
            };
            let written = link.socket.async_io(Interest::WRITABLE, first).await?;
            link.write(&frame[written..]).await
        });
        all.await.unwrap_or_else(|e| Err(io::Error::other(e.to_string())))
    }

    async fn write(&self, mut bytes: &[u8]) -> io::Result<()> {
        while !bytes.is_empty() {
            self.socket.writable().await?;
            match self.socket.try_write(bytes) {
                Ok(written) => bytes = &bytes[written..],
                Err(e) if e.kind() == io::ErrorKind::WouldBlock => {}
                Err(e) => return Err(e),
            }
        }
        Ok(())
    }

    /// Receives the next frame. Dropping the future loses nothing; the kernel closes descriptors that come
    /// along.
    ///
    /// # Errors
    /// [`Cut::Closed`] when the other side closed its end or the read failed, [`Cut::Broken`] when it broke
    /// the protocol.
    pub async fn receive(&self, incoming: &mut Incoming) -> Result<Frame, Cut> {
        loop {
            if let Some(frame) = incoming.frame().map_err(Cut::Broken)? {
                return Ok(frame);
            }
            self.socket.readable().await.map_err(|_| Cut::Closed)?;
            match self.socket.try_read_buf(incoming.room()) {
                Ok(0) => return Err(Cut::Closed),
                Ok(_) => {}
                Err(e) if e.kind() == io::ErrorKind::WouldBlock => {}
                Err(_) => return Err(Cut::Closed),
            }
        }
    }
}
