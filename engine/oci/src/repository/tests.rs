//! Tables, and a server that answers each connection with the next of its texts.

use std::io::{Read, Write};
use std::net::TcpListener;
use std::sync::{Arc, Mutex};

use super::*;

const TIMEOUTS: Timeouts = Timeouts { connect: Duration::from_secs(30), idle: Some(Duration::from_secs(30)) };

#[test]
fn loopback_registries_are_recognised() {
    for (registry, own) in [
        ("localhost", true),
        ("localhost:5000", true),
        ("127.0.0.1:5000", true),
        ("127.1.2.3", true),
        ("[::1]:5000", true),
        ("ghcr.io", false),
        ("10.0.0.1:5000", false),
        ("localhost.example.org", false),
        ("127.0.0.1.example.org:80", false),
    ] {
        assert_eq!(is_own(registry), own, "{registry}");
    }
}

#[test]
fn passing_failures_are_worth_one_repetition() {
    let seconds = |n| Some(Duration::from_secs(n));
    for (status, after, want) in [
        (503, None, Some(RETRY_PAUSE)),
        (429, Some("2"), seconds(2)),
        (429, Some("0"), Some(RETRY_PAUSE)),
        (429, Some("6"), None),
        (502, Some("Wed, 21 Oct 2026 07:28:00 GMT"), None),
        (504, Some("18446744073709551616"), None),
        (500, None, None),
        (404, Some("1"), None),
        (200, None, None),
    ] {
        let after = after.map(HeaderValue::from_static);
        assert_eq!(pause(StatusCode::from_u16(status).unwrap(), after.as_ref()), want, "{status} {after:?}");
    }
}

/// Starts a server with these answers, one for each connection; an empty one closes it. Returns its address, and the first lines of requests.
fn server(answers: Vec<Vec<u8>>) -> (String, Arc<Mutex<Vec<String>>>) {
    let listener = TcpListener::bind("127.0.0.1:0").unwrap();
    let address = listener.local_addr().unwrap().to_string();
    let seen = Arc::new(Mutex::new(Vec::new()));
    let into = Arc::clone(&seen);
    std::thread::spawn(move || {
        for answer in answers {
            let Ok((mut stream, _)) = listener.accept() else { return };
            let (mut head, mut byte) = (Vec::new(), [0]);
            while !head.ends_with(b"\r\n\r\n") && stream.read(&mut byte).is_ok_and(|count| count > 0) {
                head.push(byte[0]);
            }
            let head = String::from_utf8_lossy(&head).into_owned();
            into.lock().unwrap().push(head.lines().next().unwrap_or_default().to_owned());
            let _ = stream.write_all(&answer);
        }
    });
    (address, seen)
}

fn answer(status: &str, body: &[u8]) -> Vec<u8> {
    let head = format!("HTTP/1.1 {status}\r\ncontent-length: {}\r\nconnection: close\r\n\r\n", body.len());
    [head.as_bytes(), body].concat()
}

fn block_on<T>(work: impl Future<Output = T>) -> T {
    tokio::runtime::Builder::new_current_thread().enable_all().build().unwrap().block_on(work)
}

fn manifest(address: &str, version: &str, most: u64) -> Result<Vec<u8>, RegistryError> {
    block_on(async {
        let mut from = Repository::new(address, "a", "oci://x/a", TIMEOUTS)?;
        from.manifest(version, &["text/plain"], most).await.map(|(bytes, _)| bytes)
    })
}

#[test]
fn reading_is_repeated_once() {
    for first in [answer("503 Service Unavailable", b""), answer("429 Too Many Requests", b"x"), Vec::new()] {
        let (address, seen) = server(vec![first.clone(), answer("200 OK", b"{}")]);
        assert_eq!(manifest(&address, "1", 9).unwrap(), b"{}");
        assert_eq!(*seen.lock().unwrap(), ["GET /v2/a/manifests/1 HTTP/1.1"; 2]);
        let (address, seen) = server(vec![first.clone(), first, answer("200 OK", b"{}")]);
        assert!(manifest(&address, "1", 9).is_err());
        assert_eq!(seen.lock().unwrap().len(), 2);
    }
}

#[test]
fn manifest_is_bounded_and_has_the_digest_that_names_it() {
    let right = format!("sha256:{}", hex::encode(Sha256::digest(b"{}")));
    let (address, _) = server(vec![answer("200 OK", b"{}"); 4]);
    assert_eq!(manifest(&address, &right, 2).unwrap(), b"{}");
    let other = format!("sha256:{}", "0".repeat(64));
    let error = manifest(&address, &other, 2).unwrap_err();
    assert!(matches!(&error, RegistryError::Digest { promised: [0, ..], .. }), "{error}");
    let error = manifest(&address, "1", 1).unwrap_err();
    assert!(matches!(&error, RegistryError::Long { most: 1, .. }), "{error}");
    let error = manifest(&address, "sha512:00", 2).unwrap_err().to_string();
    assert!(error.contains("not a sha256 digest"), "{error}");
    let (address, _) = server(vec![answer("404 Not Found", b"secret words")]);
    let error = manifest(&address, "1", 2).unwrap_err().to_string();
    assert!(error.contains("404") && error.contains("no such") && !error.contains("secret"), "{error}");
}

#[test]
fn blob_reaches_the_sink_in_pieces_and_only_as_announced() {
    let right = format!("sha256:{}", hex::encode(Sha256::digest(b"content")));
    let fetch = |address: &str, digest: &str, size, most| {
        let mut got = Vec::new();
        let done = block_on(async {
            let mut from = Repository::new(address, "a", "oci://x/a", TIMEOUTS)?;
            let keep = |piece: &[u8]| -> Result<(), RegistryError> {
                got.extend_from_slice(piece);
                Ok(())
            };
            from.blob((digest, size), most, keep).await
        });
        done.map(|()| got)
    };
    let (address, seen) = server(vec![answer("200 OK", b"content"); 3]);
    assert_eq!(fetch(&address, &right, 7, 9).unwrap(), b"content");
    assert!(matches!(fetch(&address, &right, 6, 9), Err(RegistryError::Long { most: 6, .. })));
    // Not asked for at all.
    assert!(matches!(fetch(&address, &right, 10, 9), Err(RegistryError::Long { most: 9, .. })));
    assert!(matches!(fetch(&address, "sha256:x", 7, 9), Err(RegistryError::Unreadable { .. })));
    let other = format!("sha256:{}", "0".repeat(64));
    assert!(matches!(fetch(&address, &other, 7, 9), Err(RegistryError::Digest { .. })));
    assert_eq!(seen.lock().unwrap().len(), 3);
    // The sink's own error ends it.
    let (address, _) = server(vec![answer("200 OK", b"content")]);
    let full = block_on(async {
        let mut from = Repository::new(&address, "a", "oci://x/a", TIMEOUTS)?;
        from.blob((&right, 7), 9, |_| Err(RegistryError::unreadable("the disk", "full"))).await
    });
    assert_eq!(full.unwrap_err().to_string(), "the disk: full");
}
