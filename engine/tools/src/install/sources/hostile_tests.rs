//! Hostile servers: answers without end, byte by byte, with other digests, redirected elsewhere.

use std::io::{Read, Write};
use std::net::{TcpListener, TcpStream};
use std::sync::atomic::{AtomicUsize, Ordering};
use std::sync::{Arc, Mutex};
use std::time::{Duration, Instant};

use super::oci::{Artifact, Patience};
use super::{Fetched, SourceError, https, oci, sha256};

/// Much more than any answer may have, even with buffers of the operating system on the way.
const OVERSIZE_BYTES: usize = 32 << 20;

/// Traffic of a server.
#[derive(Clone, Default)]
struct Seen {
    /// Heads of the requests.
    requests: Arc<Mutex<Vec<String>>>,
    /// Number of bytes that clients took.
    sent: Arc<AtomicUsize>,
}

impl Seen {
    fn requests(&self) -> Vec<String> {
        self.requests.lock().unwrap().clone()
    }
}

/// Starts a server; `answer` handles each connection, given its first line. Returns the address.
fn server(answer: impl Fn(&str, &mut Answer) + Send + Sync + 'static) -> (String, Seen) {
    let listener = TcpListener::bind("127.0.0.1:0").unwrap();
    let address = listener.local_addr().unwrap().to_string();
    let (seen, answer) = (Seen::default(), Arc::new(answer));
    let known = seen.clone();
    std::thread::spawn(move || {
        while let Ok((stream, _)) = listener.accept() {
            let (seen, answer) = (known.clone(), Arc::clone(&answer));
            std::thread::spawn(move || {
                let mut stream = stream;
                let mut request = vec![0; 16 << 10];
                let got = stream.read(&mut request).unwrap_or(0);
                let text = String::from_utf8_lossy(&request[..got]).into_owned();
                seen.requests.lock().unwrap().push(text.clone());
                answer(&text, &mut Answer(stream, seen.sent));
            });
        }
    });
    (address, seen)
}

struct Answer(TcpStream, Arc<AtomicUsize>);

impl Answer {
    /// Writes bytes; `false` when the client is gone.
    fn put(&mut self, bytes: &[u8]) -> bool {
        let sent = self.0.write_all(bytes).is_ok();
        self.1.fetch_add(if sent { bytes.len() } else { 0 }, Ordering::Relaxed);
        sent
    }

    fn whole(&mut self, status: &str, headers: &str, body: &[u8]) {
        let length = body.len();
        self.put(
            format!("HTTP/1.1 {status}\r\n{headers}content-length: {length}\r\nconnection: close\r\n\r\n")
                .as_bytes(),
        );
        self.put(body);
    }

    fn good(&mut self, body: &[u8]) {
        self.whole("200 OK", "", body);
    }

    /// Sends until the client is gone, or has taken more than any client should.
    fn endless(&mut self) {
        self.put(b"HTTP/1.1 200 OK\r\ntransfer-encoding: chunked\r\n\r\n");
        let piece = [b"10000\r\n".as_slice(), &[b' '; 1 << 16], b"\r\n"].concat();
        for _ in 0..4 * OVERSIZE_BYTES / piece.len() {
            if !self.put(&piece) {
                return;
            }
        }
    }

    /// Sends one byte now and then.
    fn drip(&mut self, head: bool) {
        if head {
            self.put(b"HTTP/1.1 200 OK\r\nx-slow: ");
        } else {
            self.put(b"HTTP/1.1 200 OK\r\ncontent-length: 1000\r\n\r\n");
        }
        for _ in 0..400 {
            std::thread::sleep(Duration::from_millis(50));
            if !self.put(b"x") {
                return;
            }
        }
    }
}

fn runtime() -> tokio::runtime::Runtime {
    tokio::runtime::Builder::new_current_thread().enable_all().build().unwrap()
}

fn pull(address: &str, name: &str, whole: Duration) -> Result<Fetched, SourceError> {
    let artifact = Artifact::parse(&format!("oci://{address}/{name}")).unwrap();
    let patience = Patience { connect: Duration::from_secs(5), whole };
    runtime().block_on(oci::within(&artifact, patience))
}

fn get(address: &str, whole: Duration) -> Result<Fetched, SourceError> {
    let url = https::Url::parse(&format!("http://{address}/a.wasm#sha256={}", sha256(b"component"))).unwrap();
    runtime().block_on(https::within(&url, Duration::from_secs(5), whole))
}

const LONG_TIMEOUT: Duration = Duration::from_secs(30);
const SHORT_TIMEOUT: Duration = Duration::from_millis(700);

/// A manifest with one component.
fn manifest(digest: &str, size: u64) -> Vec<u8> {
    let layer = serde_json::json!({ "mediaType": "application/wasm", "digest": format!("sha256:{digest}"), "size": size });
    serde_json::json!({ "schemaVersion": 2, "layers": [layer] }).to_string().into_bytes()
}

/// A registry with this manifest, whose blobs `blob` answers.
fn registry(manifest: Vec<u8>, blob: impl Fn(&str, &mut Answer) + Send + Sync + 'static) -> (String, Seen) {
    server(
        move |asked, answer| {
            if asked.contains("/manifests/") { answer.good(&manifest) } else { blob(asked, answer) }
        },
    )
}

#[test]
fn endless_answer_is_abandoned() {
    let begun = Instant::now();
    let (endless, seen) = server(|_, answer| answer.endless());
    let error = pull(&endless, "a:1", LONG_TIMEOUT).unwrap_err();
    assert!(
        matches!(&error, SourceError::Long { place, most: 1_048_576 } if place.contains("manifest")),
        "{error}"
    );
    let (blob, seen_blob) = registry(manifest(&sha256(b"component"), 9), |_, answer| answer.endless());
    let error = pull(&blob, "a:1", LONG_TIMEOUT).unwrap_err();
    assert!(matches!(&error, SourceError::Long { most: 9, .. }), "{error}");
    let (token, seen_token) = challenging(|_, answer| answer.endless());
    let error = pull(&token, "a:1", LONG_TIMEOUT).unwrap_err();
    assert!(matches!(&error, SourceError::Long { most: 65_536, .. }), "{error}");
    for seen in [seen, seen_blob, seen_token] {
        // The client stopped taking; the bytes sent are those it took and those in buffers.
        let sent = seen.sent.load(Ordering::Relaxed);
        assert!(sent < OVERSIZE_BYTES, "{sent}");
    }
    let (file, _) = server(|_, answer| answer.endless());
    let error = get(&file, LONG_TIMEOUT).unwrap_err();
    assert!(matches!(&error, SourceError::Long { most: 67_108_864, .. }), "{error}");
    assert!(begun.elapsed() < LONG_TIMEOUT);
}

#[test]
fn oversized_content_length_is_refused_at_once() {
    let claims = "HTTP/1.1 200 OK\r\ncontent-length: 1099511627776\r\n\r\n";
    let (address, _) = server(move |_, answer| {
        answer.put(claims.as_bytes());
        // Pretends that the rest is coming.
        std::thread::sleep(LONG_TIMEOUT);
    });
    let begun = Instant::now();
    for error in [pull(&address, "a:1", LONG_TIMEOUT).unwrap_err(), get(&address, LONG_TIMEOUT).unwrap_err()]
    {
        assert!(matches!(&error, SourceError::Long { .. }), "{error}");
    }
    // A layer that announces too much is not requested.
    let (address, seen) =
        registry(manifest(&sha256(b"component"), 1 << 40), |_, answer| answer.good(b"component"));
    let error = pull(&address, "a:1", LONG_TIMEOUT).unwrap_err();
    assert!(matches!(&error, SourceError::Long { most: 67_108_864, .. }), "{error}");
    assert_eq!(seen.requests().len(), 1);
    assert!(begun.elapsed() < Duration::from_secs(10), "{:?}", begun.elapsed());
}

#[test]
fn endless_slow_answer_times_out() {
    for head in [true, false] {
        let (manifests, _) = server(move |_, answer| answer.drip(head));
        let (blobs, _) = registry(manifest(&sha256(b"component"), 1000), move |_, answer| answer.drip(head));
        let (tokens, _) = challenging(move |_, answer| answer.drip(head));
        for address in [&manifests, &blobs, &tokens] {
            let begun = Instant::now();
            let error = pull(address, "a:1", SHORT_TIMEOUT).unwrap_err().to_string();
            assert!(error.contains("does not answer within 700ms"), "{error}");
            assert!(begun.elapsed() < Duration::from_secs(5), "{:?}", begun.elapsed());
        }
        let begun = Instant::now();
        let error = get(&manifests, SHORT_TIMEOUT).unwrap_err().to_string();
        assert!(error.contains("timed out"), "{error}");
        assert!(begun.elapsed() < Duration::from_secs(5), "{:?}", begun.elapsed());
    }
}

#[test]
fn component_with_other_digest_is_refused() {
    let right = manifest(&sha256(b"component"), 9);
    let digest = sha256(&right);
    let (good, _) = registry(right.clone(), |_, answer| answer.good(b"component"));
    assert_eq!(pull(&good, &format!("a@sha256:{digest}"), LONG_TIMEOUT).unwrap().wasm, b"component");
    // Another component of equal length, and another manifest.
    let (blob, _) = registry(right, |_, answer| answer.good(b"COMPONENT"));
    let error = pull(&blob, "a:1", LONG_TIMEOUT).unwrap_err();
    assert!(
        matches!(&error, SourceError::Digest { place, .. } if place.contains("the blob sha256:")),
        "{error}"
    );
    let (other, _) = registry(manifest(&sha256(b"evil"), 4), |_, answer| answer.good(b"evil"));
    let error = pull(&other, &format!("a@sha256:{digest}"), LONG_TIMEOUT).unwrap_err();
    assert!(matches!(&error, SourceError::Digest { promised, .. } if *promised == digest), "{error}");
    // Shorter or longer than announced.
    let (short, _) = registry(manifest(&sha256(b"component"), 9), |_, answer| answer.good(b"comp"));
    assert!(matches!(pull(&short, "a:1", LONG_TIMEOUT).unwrap_err(), SourceError::Digest { .. }));
    let (long, _) =
        registry(manifest(&sha256(b"component"), 9), |_, answer| answer.good(b"component and more"));
    assert!(matches!(pull(&long, "a:1", LONG_TIMEOUT).unwrap_err(), SourceError::Long { most: 9, .. }));
}

/// A registry that requires a token, which `answer` handles at an address of its own; gives the component to
/// clients with the token `right`.
fn challenging(answer: impl Fn(&str, &mut Answer) + Send + Sync + 'static) -> (String, Seen) {
    let (tokens, seen) = server(answer);
    let right = manifest(&sha256(b"component"), 9);
    let (address, _) = server(move |asked, answer| {
        if !asked.contains("authorization: Bearer right") {
            let realm = format!("www-authenticate: Bearer realm=\"http://{tokens}/token\",service=\"s\"\r\n");
            answer.whole("401 Unauthorized", &realm, b"");
        } else if asked.contains("/manifests/") {
            answer.good(&right);
        } else {
            answer.good(b"component");
        }
    });
    (address, seen)
}

#[test]
fn token_is_requested_from_permitted_realm_only() {
    let (good, seen) = challenging(|_, answer| answer.good(br#"{"token":"right"}"#));
    assert_eq!(pull(&good, "some/a:1", LONG_TIMEOUT).unwrap().wasm, b"component");
    let asked = seen.requests();
    assert!(
        asked.len() == 1 && asked[0].starts_with("GET /token?scope=repository%3Asome%2Fa%3Apull&service=s "),
        "{asked:?}"
    );
    for (given, word) in [
        (&br#"{"token":"wrong"}"#[..], "401"),
        (br#"{"token":"right\r\nx: y"}"#, "no header"),
        (br"[]", "its token"),
        (b"", "its token"),
    ] {
        let (address, _) = challenging(move |_, answer| answer.good(given));
        let error = pull(&address, "a:1", LONG_TIMEOUT).unwrap_err().to_string();
        assert!(error.contains(word), "{word}: {error}");
    }
    for realm in ["http://169.254.169.254/latest", "ftp://example.org", "file:///etc/passwd", "nonsense"] {
        let header = format!("www-authenticate: Bearer realm=\"{realm}\"\r\n");
        let (address, _) = server(move |_, answer| answer.whole("401 Unauthorized", &header, b""));
        let error = pull(&address, "a:1", LONG_TIMEOUT).unwrap_err().to_string();
        assert!(error.contains("for a token to"), "{realm}: {error}");
    }
}

#[test]
fn redirects_are_restricted_and_lose_credentials() {
    for to in ["http://example.org/a", "ftp://127.0.0.1/", "file:///etc/passwd", "http://169.254.169.254/"] {
        let header = format!("location: {to}\r\n");
        let (address, seen) = server(move |_, answer| answer.whole("302 Found", &header, b""));
        for error in
            [pull(&address, "a:1", LONG_TIMEOUT).unwrap_err(), get(&address, LONG_TIMEOUT).unwrap_err()]
        {
            let error = error.to_string();
            assert!(error.contains("302") || error.contains("scheme"), "{to}: {error}");
        }
        assert_eq!(seen.requests().len(), 2, "{to}");
    }
    // A redirect in circles.
    let (address, seen) =
        server(|_, answer| answer.whole("307 Temporary Redirect", "location: /v2/again\r\n", b""));
    let error = pull(&address, "a:1", LONG_TIMEOUT).unwrap_err().to_string();
    assert!(
        error.contains("at most 5 times") && seen.requests().len() <= 7,
        "{error}: {}",
        seen.requests().len()
    );
    // Blobs may be stored elsewhere; the token is sent to the registry only.
    let (store, stored) = server(|_, answer| answer.good(b"component"));
    let right = manifest(&sha256(b"component"), 9);
    let (tokens, _) = server(|_, answer| answer.good(br#"{"access_token":"right"}"#));
    let (address, seen) = server(move |asked, answer| {
        if !asked.contains("authorization: Bearer right") {
            let realm = format!("www-authenticate: Bearer realm=\"http://{tokens}/\"\r\n");
            answer.whole("401 Unauthorized", &realm, b"");
        } else if asked.contains("/manifests/") {
            answer.good(&right);
        } else {
            answer.whole("307 Temporary Redirect", &format!("location: http://{store}/blob\r\n"), b"");
        }
    });
    assert_eq!(pull(&address, "a:1", LONG_TIMEOUT).unwrap().wasm, b"component");
    assert_eq!(seen.requests().len(), 3);
    let stored = stored.requests();
    assert!(stored.len() == 1 && !stored[0].to_lowercase().contains("authorization"), "{stored:?}");
}
