//! Buffered reading with access to unread bytes, and copying within a byte budget.

use std::future::poll_fn;
use std::io;
use std::pin::pin;
use std::sync::atomic::{AtomicU64, Ordering};
use std::task::Poll;

use tokio::io::{AsyncRead, AsyncReadExt, AsyncWrite, AsyncWriteExt};

use crate::http::Body;

/// Bytes that are read at once: a record of TLS.
const READ_CHUNK: usize = 16 * 1024;
/// Bytes up to which is read on while there are some, so that they go on together.
const READ_AHEAD: usize = 64 * 1024;
/// Maximum length in bytes of a line with a chunk's size, and of a trailer line.
const MAX_LINE_BYTES: usize = 4 * 1024;

/// Remaining bytes that one run may send and receive.
#[derive(Debug)]
pub struct Budget(AtomicU64);

impl Budget {
    /// A budget of this many bytes.
    pub const fn new(bytes: u64) -> Self {
        Self(AtomicU64::new(bytes))
    }

    /// Takes bytes from the budget.
    ///
    /// # Errors
    /// When the budget has fewer bytes left.
    pub fn spend(&self, bytes: usize) -> io::Result<()> {
        let enough = |left: u64| left.checked_sub(bytes as u64);
        match self.0.fetch_update(Ordering::AcqRel, Ordering::Acquire, enough) {
            Ok(_) => Ok(()),
            Err(_) => {
                self.0.store(0, Ordering::Release);
                Err(io::Error::new(io::ErrorKind::QuotaExceeded, "the run has used up its bytes"))
            }
        }
    }

    /// Whether the budget is used up.
    pub fn is_spent(&self) -> bool {
        self.0.load(Ordering::Acquire) == 0
    }
}

/// Rest of a body that is read in pieces.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Rest {
    /// This many bytes.
    Length(u64),
    /// The rest of a chunk of this many bytes, and further chunks.
    Chunk(u64),
    /// Chunks.
    Chunks,
    /// Lines behind the last chunk.
    Trailers,
    /// All until the connection ends.
    Close,
}

impl From<Body> for Rest {
    fn from(body: Body) -> Self {
        match body {
            Body::Length(length) => Self::Length(length),
            Body::Chunked => Self::Chunks,
            Body::Close => Self::Close,
        }
    }
}

/// A reader with bytes that were read and not yet used.
#[derive(Debug)]
pub struct Input<R> {
    from: R,
    held: Vec<u8>,
    /// An error that came while there were bytes before it.
    failed: Option<io::Error>,
}

impl<R: AsyncRead + Unpin> Input<R> {
    /// Wraps a reader.
    pub const fn new(from: R) -> Self {
        Self { from, held: Vec::new(), failed: None }
    }

    /// A reader of the unused bytes, and then of the rest.
    pub fn into_reader(self) -> impl AsyncRead + Unpin {
        io::Cursor::new(self.held).chain(self.from)
    }

    /// Bytes that were read and not yet used.
    pub fn held(&self) -> &[u8] {
        &self.held
    }

    /// Takes the first `n` of the unused bytes.
    pub fn take(&mut self, n: usize) -> Vec<u8> {
        let rest = self.held.split_off(n.min(self.held.len()));
        std::mem::replace(&mut self.held, rest)
    }

    /// Reads more bytes, and all that are there already up to a maximum; returns false at the end of the stream.
    pub async fn more(&mut self) -> io::Result<bool> {
        if let Some(error) = self.failed.take() {
            return Err(error);
        }
        let before = self.held.len();
        if self.some().await? == 0 {
            return Ok(false);
        }
        while self.held.len() - before < READ_AHEAD {
            match at_once(self.some()).await {
                // The end is there for the next one, too.
                None | Some(Ok(0)) => break,
                Some(Ok(_)) => {}
                Some(Err(error)) => {
                    self.failed = Some(error);
                    break;
                }
            }
        }
        Ok(true)
    }

    async fn some(&mut self) -> io::Result<usize> {
        self.held.reserve(READ_CHUNK);
        (&mut self.from).take(READ_CHUNK as u64).read_buf(&mut self.held).await
    }

    /// Reads until the parser `read` succeeds or fails on the unused bytes, and takes the bytes that it used.
    pub async fn until<T, E>(
        &mut self,
        mut read: impl FnMut(&[u8]) -> Result<Option<(T, usize)>, E>,
    ) -> io::Result<Option<Result<T, E>>> {
        loop {
            match read(&self.held) {
                Ok(Some((found, used))) => {
                    self.take(used);
                    return Ok(Some(Ok(found)));
                }
                Ok(None) => {}
                Err(wrong) => return Ok(Some(Err(wrong))),
            }
            if !self.more().await? {
                return Ok(None);
            }
        }
    }

    /// Copies the rest of the stream.
    pub async fn copy(&mut self, to: &mut (impl AsyncWrite + Unpin), budget: &Budget) -> io::Result<()> {
        self.copy_some(u64::MAX, to, budget).await.map(drop)
    }

    /// Copies this many bytes; returns how many are missing when the stream ends early.
    async fn copy_some(
        &mut self,
        mut left: u64,
        to: &mut (impl AsyncWrite + Unpin),
        budget: &Budget,
    ) -> io::Result<u64> {
        while left > 0 {
            if self.held.is_empty() && !self.more().await? {
                break;
            }
            let most = usize::try_from(left).unwrap_or(usize::MAX);
            let piece = self.take(most.min(self.held.len()));
            budget.spend(piece.len())?;
            to.write_all(&piece).await?;
            left -= piece.len() as u64;
        }
        Ok(left)
    }

    /// Copies a body, and no byte beyond its end.
    pub async fn copy_body(
        &mut self,
        body: Body,
        to: &mut (impl AsyncWrite + Unpin),
        budget: &Budget,
    ) -> io::Result<()> {
        self.copy_within(body, None, to, budget).await
    }

    /// Like [`Input::copy_body`], of a body that has at most this many bytes.
    ///
    /// # Errors
    /// [`io::ErrorKind::FileTooLarge`], before a chunk is copied that ends beyond them.
    pub async fn copy_within(
        &mut self,
        body: Body,
        most: Option<u64>,
        to: &mut (impl AsyncWrite + Unpin),
        budget: &Budget,
    ) -> io::Result<()> {
        let mut left = most;
        match body {
            Body::Close => self.copy(to, budget).await,
            Body::Length(length) => match self.copy_some(length, to, budget).await? {
                0 => Ok(()),
                _ => Err(io::ErrorKind::UnexpectedEof.into()),
            },
            Body::Chunked => loop {
                let size = self.until(chunk_size).await?.ok_or(io::ErrorKind::UnexpectedEof)?;
                let size = size.map_err(|()| io::ErrorKind::InvalidData)?;
                if let Some(left) = &mut left {
                    *left = left.checked_sub(size).ok_or(io::ErrorKind::FileTooLarge)?;
                }
                if size == 0 {
                    // Trailers after the last chunk are dropped, since they were not checked.
                    while self.line().await?.is_some_and(|line| !line.is_empty()) {}
                    return to.write_all(b"0\r\n\r\n").await;
                }
                to.write_all(format!("{size:x}\r\n").as_bytes()).await?;
                if self.copy_some(size, to, budget).await? > 0 {
                    return Err(io::ErrorKind::UnexpectedEof.into());
                }
                if self.line().await?.is_none_or(|line| !line.is_empty()) {
                    return Err(io::ErrorKind::InvalidData.into());
                }
                to.write_all(b"\r\n").await?;
            },
        }
    }

    /// Takes the next piece of a body, without the frames of chunks; `None` at its end. Nothing is lost when it is dropped before it is done.
    ///
    /// # Errors
    /// When the stream ends early, or a chunk is malformed.
    pub async fn piece(&mut self, rest: &mut Rest) -> io::Result<Option<Vec<u8>>> {
        loop {
            let most = match rest {
                Rest::Length(0) => return Ok(None),
                Rest::Length(left) | Rest::Chunk(left) if *left > 0 => *left,
                Rest::Close => u64::MAX,
                Rest::Chunk(_) => {
                    if self.line().await?.is_none_or(|line| !line.is_empty()) {
                        return Err(io::ErrorKind::InvalidData.into());
                    }
                    *rest = Rest::Chunks;
                    continue;
                }
                Rest::Length(_) | Rest::Chunks => {
                    let size = self.until(chunk_size).await?.ok_or(io::ErrorKind::UnexpectedEof)?;
                    let size = size.map_err(|()| io::ErrorKind::InvalidData)?;
                    *rest = if size == 0 { Rest::Trailers } else { Rest::Chunk(size) };
                    continue;
                }
                // Trailers after the last chunk are dropped, since they were not checked.
                Rest::Trailers => {
                    if self.line().await?.is_none_or(|line| line.is_empty()) {
                        *rest = Rest::Length(0);
                        return Ok(None);
                    }
                    continue;
                }
            };
            if self.held.is_empty() && !self.more().await? {
                return match rest {
                    Rest::Close => Ok(None),
                    _ => Err(io::ErrorKind::UnexpectedEof.into()),
                };
            }
            let piece = self.take(usize::try_from(most).unwrap_or(usize::MAX).min(self.held.len()));
            if let Rest::Length(left) | Rest::Chunk(left) = rest {
                *left -= piece.len() as u64;
            }
            return Ok(Some(piece));
        }
    }

    /// Reads one line without its end; `None` at the end of the stream.
    async fn line(&mut self) -> io::Result<Option<Vec<u8>>> {
        match self.until(line).await? {
            Some(Ok(line)) => Ok(Some(line)),
            Some(Err(())) => Err(io::ErrorKind::InvalidData.into()),
            None => Ok(None),
        }
    }
}

/// The result of a future that is ready when it is polled once. A time limit of zero would wait for the timer's next tick, which is a
/// millisecond.
pub async fn at_once<T>(future: impl Future<Output = T>) -> Option<T> {
    let mut future = pin!(future);
    poll_fn(|context| {
        Poll::Ready(match future.as_mut().poll(context) {
            Poll::Ready(result) => Some(result),
            Poll::Pending => None,
        })
    })
    .await
}

/// Parses a line that ends with CR LF.
fn line(bytes: &[u8]) -> Result<Option<(Vec<u8>, usize)>, ()> {
    match bytes.iter().position(|b| *b == b'\n') {
        Some(end) => match bytes[..end].strip_suffix(b"\r") {
            Some(line) if end <= MAX_LINE_BYTES => Ok(Some((line.to_vec(), end + 1))),
            _ => Err(()),
        },
        None if bytes.len() > MAX_LINE_BYTES => Err(()),
        None => Ok(None),
    }
}

/// Parses the size in the line before a chunk; extensions are dropped.
fn chunk_size(bytes: &[u8]) -> Result<Option<(u64, usize)>, ()> {
    let Some((line, used)) = line(bytes)? else { return Ok(None) };
    let digits = line.split(|b| *b == b';').next().unwrap_or_default().trim_ascii_end();
    if digits.is_empty() || digits.len() > 15 || !digits.iter().all(u8::is_ascii_hexdigit) {
        return Err(());
    }
    let size = std::str::from_utf8(digits).ok().and_then(|digits| u64::from_str_radix(digits, 16).ok());
    size.map(|size| Some((size, used))).ok_or(())
}

#[cfg(test)]
mod tests {
    use super::*;
    use proptest::prelude::*;

    async fn copied(bytes: &[u8], body: Body) -> io::Result<(Vec<u8>, Vec<u8>)> {
        let mut input = Input::new(bytes);
        let mut to = Vec::new();
        input.copy_body(body, &mut to, &Budget::new(1 << 20)).await?;
        while input.more().await? {}
        Ok((to, input.held))
    }

    #[tokio::test]
    async fn bodies_end_where_they_end() {
        let good = [
            (Body::Length(3), "abcdef", "abc", "def"),
            (Body::Length(0), "abc", "", "abc"),
            (Body::Close, "abc", "abc", ""),
            (Body::Chunked, "3\r\nabc\r\n0\r\n\r\nGET", "3\r\nabc\r\n0\r\n\r\n", "GET"),
            (
                Body::Chunked,
                "A;x=1\r\n0123456789\r\n0;y\r\nX: y\r\n\r\nG",
                "a\r\n0123456789\r\n0\r\n\r\n",
                "G",
            ),
        ];
        for (body, text, want, rest) in good {
            let (got, left) = copied(text.as_bytes(), body).await.unwrap();
            assert_eq!((got.as_slice(), left.as_slice()), (want.as_bytes(), rest.as_bytes()), "{text:?}");
        }
        for (body, text) in [
            (Body::Length(4), "abc"),
            (Body::Chunked, "3\r\nabcd\r\n0\r\n\r\n"),
            (Body::Chunked, "+3\r\nabc\r\n0\r\n\r\n"),
            (Body::Chunked, "0x3\r\nabc\r\n0\r\n\r\n"),
            (Body::Chunked, "\r\nabc\r\n0\r\n\r\n"),
            (Body::Chunked, "3\nabc\r\n0\r\n\r\n"),
            (Body::Chunked, "fffffffffffffffff\r\nabc"),
            (Body::Chunked, "3\r\nab"),
        ] {
            assert!(copied(text.as_bytes(), body).await.is_err(), "{text:?}");
        }
    }

    #[tokio::test]
    async fn chunks_beyond_the_limit_are_not_copied() {
        for (most, want) in [(5, Some("3\r\nabc\r\n2\r\nde\r\n0\r\n\r\n")), (4, None), (0, None)] {
            let (mut input, mut to) = (Input::new(&b"3\r\nabc\r\n2\r\nde\r\n0\r\n\r\n"[..]), Vec::new());
            let copied = input.copy_within(Body::Chunked, Some(most), &mut to, &Budget::new(1 << 20)).await;
            assert_eq!(copied.is_ok(), want.is_some(), "{most}");
            match copied {
                Ok(()) => assert_eq!(to, want.unwrap_or_default().as_bytes()),
                Err(error) => {
                    assert_eq!(error.kind(), io::ErrorKind::FileTooLarge);
                    assert!(!String::from_utf8_lossy(&to).contains("de"));
                }
            }
        }
    }

    #[tokio::test]
    async fn pieces_are_without_frames() {
        for (body, text, want, left) in [
            (Body::Length(3), "abcdef", Some("abc"), "def"),
            (Body::Close, "abc", Some("abc"), ""),
            (Body::Chunked, "3\r\nabc\r\n2;x\r\nde\r\n0\r\nX: y\r\n\r\nGET", Some("abcde"), "GET"),
            (Body::Length(4), "abc", None, ""),
            (Body::Chunked, "3\r\nabcd\r\n0\r\n\r\n", None, ""),
            (Body::Chunked, "3\r\nab", None, ""),
        ] {
            let (mut input, mut rest, mut all) = (Input::new(text.as_bytes()), Rest::from(body), Vec::new());
            let end = loop {
                match input.piece(&mut rest).await {
                    Ok(Some(piece)) => all.extend(piece),
                    Ok(None) => break Some(()),
                    Err(_) => break None,
                }
            };
            assert_eq!(end.map(|()| String::from_utf8(all).unwrap()).as_deref(), want, "{text:?}");
            if want.is_some() {
                assert_eq!(input.held(), left.as_bytes());
                assert_eq!(input.piece(&mut rest).await.unwrap(), None);
            }
        }
    }

    #[tokio::test]
    async fn exhausted_budget_ends_copy() {
        let budget = Budget::new(5);
        let mut to = Vec::new();
        assert!(Input::new(&b"abc"[..]).copy(&mut to, &budget).await.is_ok());
        assert!(Input::new(&b"abc"[..]).copy(&mut to, &budget).await.is_err());
        assert!(budget.is_spent() && to == b"abc");
    }

    proptest! {
        #[test]
        fn arbitrary_chunks_cause_no_panic(bytes in proptest::collection::vec(any::<u8>(), 0..60)) {
            let _ = chunk_size(&bytes);
            let runtime = tokio::runtime::Builder::new_current_thread().build().unwrap();
            let _ = runtime.block_on(copied(&bytes, Body::Chunked));
        }
    }
}
