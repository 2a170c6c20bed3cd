//! Bodies that are read whole before a request is sent, since its signature is over them.

use std::io;

use tokio::io::{AsyncRead, AsyncWrite, AsyncWriteExt};
use tokio::sync::SemaphorePermit;

use crate::http::Body;
use crate::proxy::Shared;
use crate::route::aws::Scope;
use crate::route::aws::request::{Payload, line_of, payload};
use crate::route::head::Asked;
use crate::routed::End;
use crate::stream::{Input, Rest};

/// Maximum size in bytes of a body that is read whole.
const MAX_STORED_BYTES: u64 = 8 << 20;

/// A body, and its part of the run's memory for bodies.
pub struct Stored<'a> {
    pub bytes: Vec<u8>,
    _place: SemaphorePermit<'a>,
}

impl Shared {
    /// Makes a request ready to be signed: states the line for its body, and reads the body where the signature is over it.
    ///
    /// # Errors
    /// [`End`] for a body that cannot be signed, is too large, or does not come. `most`: largest body that the rules allow.
    pub(crate) async fn signable(
        &self,
        scope: &Scope,
        asked: &mut Asked,
        most: Option<u64>,
        client: &mut Input<impl AsyncRead + Unpin + Send>,
        back: &mut (impl AsyncWrite + Unpin + Send),
    ) -> Result<Option<Stored<'_>>, End> {
        match payload(scope, asked) {
            Err(why) => return Err(End::Said("501 Not Implemented", why)),
            Ok(Payload::Line(line)) => {
                asked.payload = Some(line);
                return Ok(None);
            }
            Ok(Payload::Whole) => {}
        }
        let most = most.unwrap_or(u64::MAX).min(MAX_STORED_BYTES);
        let too_large = || {
            let why = format!(
                "the body has more than {most} bytes, and is signed whole for {}: a client that states x-amz-content-sha256 may send more",
                scope.service()
            );
            End::Said("413 Content Too Large", why)
        };
        let announced = match asked.body {
            Body::Length(length) if length > most => return Err(too_large()),
            Body::Length(length) => length,
            Body::Chunked | Body::Close => most,
        };
        let kib = u32::try_from(announced.div_ceil(1024)).unwrap_or(u32::MAX);
        let place = self.storing.acquire_many(kib).await.map_err(|_| End::Io(io::ErrorKind::Other.into()))?;
        if asked.is_current && asked.values("expect").next().is_some() {
            back.write_all(b"HTTP/1.1 100 Continue\r\n\r\n").await?;
            back.flush().await?;
        }
        let (mut rest, mut bytes) = (Rest::from(asked.body), Vec::new());
        while let Some(piece) = client.piece(&mut rest).await? {
            if bytes.len() + piece.len() > usize::try_from(most).unwrap_or(usize::MAX) {
                return Err(too_large());
            }
            bytes.extend_from_slice(&piece);
        }
        asked.read_whole(bytes.len() as u64, line_of(&bytes));
        Ok(Some(Stored { bytes, _place: place }))
    }
}
