//! Reading with what was read before still at hand, and copying within a budget.

use std::io;
use std::sync::atomic::{AtomicU64, Ordering};

use tokio::io::{AsyncRead, AsyncReadExt, AsyncWrite, AsyncWriteExt};

use crate::http::Body;

const PIECE: usize = 16 * 1024;
/// The longest line that gives a chunk's size, and the longest trailer.
const LONGEST_LINE: usize = 4 * 1024;

/// Bytes that one run may still send and receive.
#[derive(Debug)]
pub struct Budget(AtomicU64);

impl Budget {
    /// So many.
    pub const fn new(bytes: u64) -> Self {
        Self(AtomicU64::new(bytes))
    }

    /// Takes some.
    ///
    /// # Errors
    /// When fewer are left.
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

    /// Whether it was used up.
    pub fn is_spent(&self) -> bool {
        self.0.load(Ordering::Acquire) == 0
    }
}

/// A reading end with what was read and not used yet.
#[derive(Debug)]
pub struct Input<R> {
    from: R,
    held: Vec<u8>,
}

impl<R: AsyncRead + Unpin> Input<R> {
    /// Begins to read.
    pub const fn new(from: R) -> Self {
        Self { from, held: Vec::new() }
    }

    /// What was read and not used.
    pub fn held(&self) -> &[u8] {
        &self.held
    }

    /// Takes the first bytes of it.
    pub fn take(&mut self, n: usize) -> Vec<u8> {
        let rest = self.held.split_off(n.min(self.held.len()));
        std::mem::replace(&mut self.held, rest)
    }

    /// Reads more; false at the end.
    pub async fn more(&mut self) -> io::Result<bool> {
        self.held.reserve(PIECE);
        Ok((&mut self.from).take(PIECE as u64).read_buf(&mut self.held).await? > 0)
    }

    /// Reads until `read` finds what it looks for at the front, which is taken.
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

    /// Copies what comes to its end.
    pub async fn copy(&mut self, to: &mut (impl AsyncWrite + Unpin), budget: &Budget) -> io::Result<()> {
        self.copy_some(u64::MAX, to, budget).await.map(drop)
    }

    /// Copies so many bytes; how many are missing at the end of the stream.
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

    /// Copies a body, and not a byte behind its end.
    pub async fn copy_body(
        &mut self,
        body: Body,
        to: &mut (impl AsyncWrite + Unpin),
        budget: &Budget,
    ) -> io::Result<()> {
        match body {
            Body::Close => self.copy(to, budget).await,
            Body::Length(length) => match self.copy_some(length, to, budget).await? {
                0 => Ok(()),
                _ => Err(io::ErrorKind::UnexpectedEof.into()),
            },
            Body::Chunked => loop {
                let size = self.until(chunk_size).await?.ok_or(io::ErrorKind::UnexpectedEof)?;
                let size = size.map_err(|()| io::ErrorKind::InvalidData)?;
                if size == 0 {
                    // What stands behind the last chunk are headers that nobody has judged.
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

    /// One line without its end; `None` at the end of the stream.
    async fn line(&mut self) -> io::Result<Option<Vec<u8>>> {
        match self.until(line).await? {
            Some(Ok(line)) => Ok(Some(line)),
            Some(Err(())) => Err(io::ErrorKind::InvalidData.into()),
            None => Ok(None),
        }
    }
}

/// The line at the front, which ends with CR LF.
fn line(bytes: &[u8]) -> Result<Option<(Vec<u8>, usize)>, ()> {
    match bytes.iter().position(|b| *b == b'\n') {
        Some(end) => match bytes[..end].strip_suffix(b"\r") {
            Some(line) if end <= LONGEST_LINE => Ok(Some((line.to_vec(), end + 1))),
            _ => Err(()),
        },
        None if bytes.len() > LONGEST_LINE => Err(()),
        None => Ok(None),
    }
}

/// The size in the line in front of a chunk; extensions are left out.
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
    async fn a_budget_ends() {
        let budget = Budget::new(5);
        let mut to = Vec::new();
        assert!(Input::new(&b"abc"[..]).copy(&mut to, &budget).await.is_ok());
        assert!(Input::new(&b"abc"[..]).copy(&mut to, &budget).await.is_err());
        assert!(budget.is_spent() && to == b"abc");
    }

    proptest! {
        #[test]
        fn any_chunks_are_taken(bytes in proptest::collection::vec(any::<u8>(), 0..60)) {
            let _ = chunk_size(&bytes);
            let runtime = tokio::runtime::Builder::new_current_thread().build().unwrap();
            let _ = runtime.block_on(copied(&bytes, Body::Chunked));
        }
    }
}
