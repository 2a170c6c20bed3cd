//! Pushing to a registry: blobs, then the manifest that names them, each in one piece, by the distribution
//! specification of OCI.

use reqwest::header::{CONTENT_LENGTH, CONTENT_TYPE, LOCATION};
use reqwest::{Method, RequestBuilder, Response, StatusCode, Url};
use sha2::{Digest as _, Sha256};

use super::{HeaderValue, RegistryError, Repository};
use crate::transport::refused;

impl Repository<'_> {
    /// Adds a user's credentials: `NAME:PASSWORD` in base64.
    ///
    /// # Errors
    /// [`RegistryError::Unreadable`] when the credentials cannot be put in a header.
    pub fn with_credentials(mut self, credentials: Option<&str>) -> Result<Self, RegistryError> {
        let Some(credentials) = credentials else { return Ok(self) };
        let value = HeaderValue::try_from(format!("Basic {credentials}"));
        let mut value = value
            .map_err(|_| RegistryError::unreadable(self.place, "its credentials can be in no header"))?;
        value.set_sensitive(true);
        self.credentials = Some(value);
        Ok(self)
    }

    /// Sends a blob, unless it is there; its digest in hexadecimal.
    ///
    /// # Errors
    /// [`RegistryError`].
    pub async fn push_blob(&mut self, bytes: &[u8]) -> Result<String, RegistryError> {
        let digest = hex::encode(Sha256::digest(bytes));
        let there = format!("{}/blobs/sha256:{digest}", self.base);
        if self.send(Method::HEAD, &there, |request| request).await?.status().is_success() {
            return Ok(digest);
        }
        let begin = format!("{}/blobs/uploads/", self.base);
        let begun = self.send(Method::POST, &begin, |request| request.header(CONTENT_LENGTH, 0)).await?;
        if begun.status() != StatusCode::ACCEPTED {
            return Err(self.no(&begun));
        }
        let mut to = self.upload(&begun)?;
        to.query_pairs_mut().append_pair("digest", &format!("sha256:{digest}"));
        let body = bytes.to_vec();
        let put = |request: RequestBuilder| {
            request.header(CONTENT_TYPE, "application/octet-stream").body(body.clone())
        };
        let done = self.send(Method::PUT, to.as_str(), put).await?;
        if done.status().is_success() { Ok(digest) } else { Err(self.no(&done)) }
    }

    /// Sends a manifest of a media type under a tag; its digest in hexadecimal.
    ///
    /// # Errors
    /// [`RegistryError`].
    pub async fn push_manifest(
        &mut self,
        tag: &str,
        kind: &str,
        manifest: &str,
    ) -> Result<String, RegistryError> {
        let to = format!("{}/manifests/{tag}", self.base);
        let put = |request: RequestBuilder| request.header(CONTENT_TYPE, kind).body(manifest.to_owned());
        let done = self.send(Method::PUT, &to, put).await?;
        if done.status().is_success() {
            Ok(hex::encode(Sha256::digest(manifest)))
        } else {
            Err(self.no(&done))
        }
    }

    /// Where a blob is to be sent: to the registry itself, which alone is told who sends it.
    fn upload(&self, begun: &Response) -> Result<Url, RegistryError> {
        let bad = |why: &str| RegistryError::unreadable(self.place, why);
        let base = Url::parse(&self.base).map_err(|_| bad("its name makes no URL"))?;
        let to = begun.headers().get(LOCATION).and_then(|to| to.to_str().ok());
        let to = to.and_then(|to| base.join(to).ok()).ok_or_else(|| bad("it names no place for a blob"))?;
        if to.origin() != base.origin() {
            return Err(bad("it sends a blob to another host, which is not followed"));
        }
        Ok(to)
    }

    fn no(&self, response: &Response) -> RegistryError {
        match response.status() {
            StatusCode::UNAUTHORIZED | StatusCode::FORBIDDEN => RegistryError::unreadable(
                self.place,
                format!(
                    "it answers {}: log in (docker login), so that auths in Docker's config.json names it; credential helpers are not asked",
                    response.status()
                ),
            ),
            _ => refused(self.place, response),
        }
    }
}
