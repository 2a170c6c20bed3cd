//! A component behind a URL. It is downloaded once, and accepted only if it has the promised digest.

use std::time::Duration;

use hotcell_oci::transport::{allowed, body, client, failed};

use super::{Fetched, MAX_SOURCE_BYTES, SourceError, is_sha256, name_of, sha256};

/// Time limit for the whole download.
const DOWNLOAD_TIMEOUT: Duration = Duration::from_secs(120);
/// Time limit for connecting.
const CONNECT_TIMEOUT: Duration = Duration::from_secs(15);
/// `https://HOST/PATH#sha256=DIGEST`.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Url {
    place: String,
    sha256: String,
}

impl Url {
    /// Parses the URL.
    ///
    /// # Errors
    /// [`SourceError::Unreadable`] that says what to write.
    pub fn parse(text: &str) -> Result<Self, SourceError> {
        let bad = |why: &str| SourceError::unreadable(text, why);
        let (place, fragment) = text.split_once('#').unwrap_or((text, ""));
        let url = reqwest::Url::parse(place).map_err(|e| bad(&format!("is no URL: {e}")))?;
        if !allowed(&url) {
            return Err(bad(
                "a component is fetched by https only; http is for this host's own loopback address",
            ));
        }
        let digest = fragment.strip_prefix("sha256=").map(str::to_ascii_lowercase).filter(|d| is_sha256(d));
        let Some(sha256) = digest else {
            return Err(bad(
                "behind a URL stands #sha256= and the component's digest, which its author tells you",
            ));
        };
        Ok(Self { place: place.to_owned(), sha256 })
    }

    /// URL without the digest.
    #[must_use]
    pub fn place(&self) -> &str {
        &self.place
    }
}

/// Downloads the component.
///
/// # Errors
/// [`SourceError::Digest`] when it has another digest, [`SourceError::Long`] when it is too long,
/// [`SourceError::Unreadable`] when it cannot be downloaded.
pub async fn fetch(url: &Url) -> Result<Fetched, SourceError> {
    within(url, CONNECT_TIMEOUT, DOWNLOAD_TIMEOUT).await
}

pub(crate) async fn within(url: &Url, connect: Duration, patience: Duration) -> Result<Fetched, SourceError> {
    let request = client(&url.place, connect, None)?.get(&url.place).timeout(patience);
    let response = request.send().await.map_err(|e| failed(&url.place, &e))?;
    let wasm = body(response, &url.place, MAX_SOURCE_BYTES).await?;
    let found = sha256(&wasm);
    if found != url.sha256 {
        return Err(SourceError::Digest { place: url.place.clone(), promised: url.sha256.clone(), found });
    }
    let path = url.place.split('?').next().unwrap_or_default();
    Ok(Fetched {
        wasm,
        manifest: None,
        signature: None,
        name: name_of(path.rsplit('/').next().unwrap_or_default()),
        pinned: format!("{}#sha256={found}", url.place),
    })
}

#[cfg(test)]
mod tests {
    use super::*;
    use std::io::{Read, Write};
    use std::net::TcpListener;

    /// Starts a server that gives each connection the next of these answers. Returns its address.
    fn server(answers: Vec<Vec<u8>>) -> String {
        let listener = TcpListener::bind("127.0.0.1:0").unwrap();
        let address = listener.local_addr().unwrap();
        std::thread::spawn(move || {
            for answer in answers {
                let Ok((mut stream, _)) = listener.accept() else { return };
                let mut request = [0; 4096];
                let _ = stream.read(&mut request);
                let _ = stream.write_all(&answer);
            }
        });
        format!("http://{address}")
    }

    fn answer(body: &[u8]) -> Vec<u8> {
        let head = format!("HTTP/1.1 200 OK\r\ncontent-length: {}\r\nconnection: close\r\n\r\n", body.len());
        [head.as_bytes(), body].concat()
    }

    fn get(address: &str, digest: &str) -> Result<Fetched, SourceError> {
        let url = Url::parse(&format!("{address}/a/tool.wasm?v=1#sha256={digest}"))?;
        let runtime = tokio::runtime::Builder::new_current_thread().enable_all().build().unwrap();
        runtime.block_on(fetch(&url))
    }

    #[test]
    fn https_source_must_match_digest() {
        let address = server(vec![answer(b"component")]);
        let fetched = get(&address, &sha256(b"component")).unwrap();
        assert_eq!((fetched.wasm.as_slice(), fetched.name.as_str()), (&b"component"[..], "tool"));
        let address = server(vec![answer(b"changed")]);
        assert!(matches!(get(&address, &sha256(b"component")), Err(SourceError::Digest { .. })));
        let address = server(vec![b"HTTP/1.1 404 Not Found\r\ncontent-length: 0\r\n\r\n".to_vec()]);
        assert!(get(&address, &sha256(b"")).unwrap_err().to_string().contains("404"));
        let down = TcpListener::bind("127.0.0.1:0").unwrap().local_addr().unwrap();
        let error = get(&format!("http://{down}"), &sha256(b"")).unwrap_err().to_string();
        assert!(error.contains("refused"), "{error}");
    }

    #[test]
    fn redirect_to_other_scheme_is_refused() {
        for to in ["http://example.org/", "file:///etc/passwd", "ftp://127.0.0.1/"] {
            let redirect = format!("HTTP/1.1 302 Found\r\nlocation: {to}\r\ncontent-length: 0\r\n\r\n");
            let address = server(vec![redirect.into_bytes()]);
            let error = get(&address, &sha256(b"")).unwrap_err().to_string();
            assert!(error.contains("302") || error.contains("scheme"), "{to}: {error}");
        }
    }
}
