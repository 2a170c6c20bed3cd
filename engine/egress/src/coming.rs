//! A body that comes in pieces, by either version of HTTP.

use std::io;

use h2::RecvStream;
use tokio::io::AsyncRead;

use crate::stream::{Input, Rest, at_once};

/// Bytes up to which pieces that are there go on together: a frame of HTTP/2.
const GATHERED_BYTES: usize = 16 << 10;

/// Source of a body.
pub(crate) enum Coming<'a, R> {
    /// A connection of HTTP/1, and the rest of the body.
    One(&'a mut Input<R>, Rest),
    /// A stream of HTTP/2.
    Two(&'a mut RecvStream),
}

impl<R: AsyncRead + Unpin> Coming<'_, R> {
    /// Takes the next piece, and lets the sender of a stream send as much again; `None` at the end of the body.
    ///
    /// # Errors
    /// When the body ends early, or a chunk is malformed.
    pub async fn piece(&mut self) -> io::Result<Option<Vec<u8>>> {
        match self {
            Self::One(input, rest) => input.piece(rest).await,
            Self::Two(stream) => match stream.data().await {
                None => Ok(None),
                Some(Err(error)) => Err(failed(&error)),
                Some(Ok(bytes)) => {
                    stream.flow_control().release_capacity(bytes.len()).map_err(|error| failed(&error))?;
                    Ok(Some(bytes.into()))
                }
            },
        }
    }

    /// Takes the next piece, and those behind it that are there already: senders of many small pieces make no flood of frames. `failed` keeps an
    /// error that came behind a piece for the next call.
    pub async fn pieces(&mut self, failed: &mut Option<io::Error>) -> io::Result<Option<Vec<u8>>> {
        if let Some(error) = failed.take() {
            return Err(error);
        }
        let Some(mut all) = self.piece().await? else { return Ok(None) };
        while all.len() < GATHERED_BYTES {
            match at_once(self.piece()).await {
                Some(Ok(Some(piece))) => all.extend_from_slice(&piece),
                // The end is there for the next call, too.
                None | Some(Ok(None)) => break,
                Some(Err(error)) => {
                    *failed = Some(error);
                    break;
                }
            }
        }
        Ok(Some(all))
    }
}

/// An error of a stream as one of its connection.
pub(crate) fn failed(error: &h2::Error) -> io::Error {
    let kind = if error.is_reset() { io::ErrorKind::ConnectionReset } else { io::ErrorKind::Other };
    io::Error::new(kind, error.to_string())
}
