//! Bodies that are read whole before a request is sent, since its signature is over them.

use std::io;

use tokio::io::AsyncRead;
use tokio::sync::SemaphorePermit;

use crate::coming::Coming;
use crate::end::End;
use crate::http::Body;
use crate::proxy::Shared;
use crate::route::aws::Scope;
use crate::route::aws::request::{Payload, line_of, payload};
use crate::route::head::Asked;

/// Maximum size in bytes of a body that is read whole.
const MAX_STORED_BYTES: u64 = 8 << 20;

/// A body, and its part of the run's memory for bodies.
pub struct Stored<'a> {
    pub bytes: Vec<u8>,
    _place: SemaphorePermit<'a>,
}

/// Memory for a body that has to be read whole.
pub struct Room<'a> {
    most: u64,
    service: String,
    place: SemaphorePermit<'a>,
}

fn too_large(most: u64, service: &str) -> End {
    let why = format!(
        "the body has more than {most} bytes, and is signed whole for {service}: a client that states x-amz-content-sha256 may send more"
    );
    End::Said("413 Content Too Large", why)
}

impl Shared {
    /// Makes a request ready to be signed: states the line for its body. Returns room for the body where the signature is over it, so that
    /// it has to be read first.
    ///
    /// # Errors
    /// [`End`] for a body that cannot be signed, or is too large. `most`: largest body that the rules allow.
    pub(crate) async fn signable(
        &self,
        scope: &Scope,
        asked: &mut Asked,
        most: Option<u64>,
    ) -> Result<Option<Room<'_>>, End> {
        match payload(scope, asked) {
            Err(why) => return Err(End::Said("501 Not Implemented", why)),
            Ok(Payload::Line(line)) => {
                asked.payload = Some(line);
                return Ok(None);
            }
            Ok(Payload::Whole) => {}
        }
        let most = most.unwrap_or(u64::MAX).min(MAX_STORED_BYTES);
        let service = scope.service().to_owned();
        let announced = match asked.body {
            Body::Length(length) if length > most => return Err(too_large(most, &service)),
            Body::Length(length) => length,
            Body::Chunked | Body::Close => most,
        };
        let kib = u32::try_from(announced.div_ceil(1024)).unwrap_or(u32::MAX);
        let place = self.storing.acquire_many(kib).await.map_err(|_| End::Io(io::ErrorKind::Other.into()))?;
        Ok(Some(Room { most, service, place }))
    }
}

impl<'a> Room<'a> {
    /// Reads a request's body, and states the line for it.
    ///
    /// # Errors
    /// [`End`] for one that is too large, or does not come.
    pub(crate) async fn store<R: AsyncRead + Unpin>(
        self,
        asked: &mut Asked,
        body: &mut Coming<'_, R>,
    ) -> Result<Stored<'a>, End> {
        let mut bytes = Vec::new();
        while let Some(piece) = body.piece().await? {
            if bytes.len() + piece.len() > usize::try_from(self.most).unwrap_or(usize::MAX) {
                return Err(too_large(self.most, &self.service));
            }
            bytes.extend_from_slice(&piece);
        }
        asked.read_whole(bytes.len() as u64, line_of(&bytes));
        Ok(Stored { bytes, _place: self.place })
    }
}
