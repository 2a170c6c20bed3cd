//! Hosts of HTTP/2 that refuse streams or end connections, by frames written by hand: a request is repeated where it was not processed, and not otherwise.

use std::io::{Read, Write};
use std::net::{Shutdown, SocketAddr, TcpListener, TcpStream};
use std::sync::{Arc, Mutex};
use std::time::{Duration, Instant};

use bytes::Bytes;
use hotcell_egress::route::rules::RequestRules;
use rustls::pki_types::pem::PemObject;
use rustls::pki_types::{CertificateDer, PrivateKeyDer};
use rustls::{ServerConfig, ServerConnection, StreamOwned};
use tokio_rustls::TlsAcceptor;

use super::http2::{
    DATA, END_HEADERS, END_STREAM, GOAWAY, HEADERS, RST_STREAM, SETTINGS, WINDOW_UPDATE, ask, asking, at,
    frame, runtime,
};
use super::intercepted::intercepting;
use super::{own_address, pki, read_request, route};

const REFUSED_STREAM: u32 = 7;
const CANCEL: u32 = 8;
const INTERNAL_ERROR: u32 = 2;
const ENHANCE_YOUR_CALM: u32 = 11;

/// Reaction of a host to a stream.
#[derive(Clone, Copy, Debug)]
enum Act {
    Answer,
    /// Ends the stream.
    Reset(u32),
    /// Says that it has processed streams up to this one, and goes on.
    GoAway(u32, u32),
    /// As before, and closes the connection.
    GoAwayAndClose(u32, u32),
    /// As before, and answers the first stream.
    GoAwayAndAnswerFirst(u32),
    /// Ends the connection.
    Close,
    /// Reads on.
    Nothing,
    /// Reads the whole request, and ends the stream.
    ReadAndReset(u32),
    /// Reads the whole request, and answers it.
    ReadAndAnswer,
    /// Gives an interim answer (103), and ends the stream.
    HintAndReset(u32),
}

type Script = &'static [&'static [Act]];

/// For each connection, the number of requests, and the bytes of their bodies.
type Seen = Mutex<Vec<(usize, Vec<u8>)>>;

struct Host {
    at: SocketAddr,
    seen: Arc<Seen>,
}

impl Host {
    fn requests(&self) -> Vec<usize> {
        self.seen.lock().unwrap().iter().map(|(requests, _)| *requests).collect()
    }
}

fn config(protocols: &[&[u8]]) -> Arc<ServerConfig> {
    let chain = CertificateDer::pem_file_iter(pki("host.pem")).unwrap().map(Result::unwrap).collect();
    let key = PrivateKeyDer::from_pem_file(pki("host.key")).unwrap();
    let provider = Arc::new(rustls::crypto::ring::default_provider());
    let config = ServerConfig::builder_with_provider(provider).with_safe_default_protocol_versions().unwrap();
    let mut config = config.with_no_client_auth().with_single_cert(chain, key).unwrap();
    config.alpn_protocols = protocols.iter().map(|name| name.to_vec()).collect();
    Arc::new(config)
}

/// A host that follows a script, with the acts of each connection in their order, and answers what is not in it.
fn scripted(script: Script) -> Option<Host> {
    let listener = TcpListener::bind((own_address()?, 0)).unwrap();
    let (at, seen) = (listener.local_addr().unwrap(), Arc::<Seen>::default());
    let (known, config) = (Arc::clone(&seen), config(&[b"h2"]));
    std::thread::spawn(move || {
        for (number, stream) in listener.incoming().flatten().enumerate() {
            let (known, config) = (Arc::clone(&known), Arc::clone(&config));
            let acts = script.get(number).copied().unwrap_or(&[]);
            known.lock().unwrap().push((0, Vec::new()));
            std::thread::spawn(move || {
                let mut tls = StreamOwned::new(ServerConnection::new(config).unwrap(), stream);
                // Fails when the other side ends the connection.
                let _ = follow(&mut tls, acts, number, &known);
                tls.conn.send_close_notify();
                let _ = tls.flush();
                let _ = tls.sock.shutdown(Shutdown::Both);
            });
        }
    });
    Some(Host { at, seen })
}

type Tls = StreamOwned<ServerConnection, TcpStream>;

fn follow(tls: &mut Tls, acts: &[Act], number: usize, seen: &Seen) -> std::io::Result<()> {
    // Streams and the connection may send a mebibyte.
    tls.write_all(&frame(SETTINGS, 0, 0, &[0, 4, 0, 0x10, 0, 0]))?;
    tls.write_all(&frame(WINDOW_UPDATE, 0, 0, &[0, 0x10, 0, 0]))?;
    tls.read_exact(&mut [0; 24])?;
    let mut acts = acts.iter();
    let mut at_end = None;
    let goaway =
        |last: u32, code: u32| frame(GOAWAY, 0, 0, &[last.to_be_bytes(), code.to_be_bytes()].concat());
    let answer = |stream| {
        [frame(HEADERS, END_HEADERS, stream, &[0x88]), frame(DATA, END_STREAM, stream, b"reached")].concat()
    };
    loop {
        let mut head = [0; 9];
        tls.read_exact(&mut head)?;
        let mut content = vec![0; u32::from_be_bytes([0, head[0], head[1], head[2]]) as usize];
        tls.read_exact(&mut content)?;
        let (kind, flags) = (head[3], head[4]);
        let stream = u32::from_be_bytes([head[5], head[6], head[7], head[8]]);
        match kind {
            SETTINGS if flags & 1 == 0 => tls.write_all(&frame(SETTINGS, 1, 0, &[]))?,
            DATA => seen.lock().unwrap()[number].1.extend(&content),
            HEADERS => {
                seen.lock().unwrap()[number].0 += 1;
                let bytes = match acts.next().unwrap_or(&Act::Answer) {
                    Act::Answer => answer(stream),
                    Act::Reset(code) => frame(RST_STREAM, 0, stream, &code.to_be_bytes()),
                    Act::GoAway(last, code) => goaway(*last, *code),
                    Act::GoAwayAndClose(last, code) => {
                        return tls.write_all(&goaway(*last, *code)).and_then(|()| tls.flush());
                    }
                    Act::GoAwayAndAnswerFirst(last) => [goaway(*last, 0), answer(1)].concat(),
                    Act::Close => return Ok(()),
                    Act::Nothing => Vec::new(),
                    Act::ReadAndReset(code) => {
                        at_end = Some(frame(RST_STREAM, 0, stream, &code.to_be_bytes()));
                        Vec::new()
                    }
                    Act::ReadAndAnswer => {
                        at_end = Some(answer(stream));
                        Vec::new()
                    }
                    Act::HintAndReset(code) => [
                        frame(HEADERS, END_HEADERS, stream, b"\x08\x03103"),
                        frame(RST_STREAM, 0, stream, &code.to_be_bytes()),
                    ]
                    .concat(),
                };
                tls.write_all(&bytes)?;
            }
            _ => {}
        }
        if [DATA, HEADERS].contains(&kind)
            && flags & END_STREAM != 0
            && let Some(bytes) = at_end.take()
        {
            tls.write_all(&bytes)?;
        }
        tls.flush()?;
    }
}

/// Script, method, body, status of the answer, and requests of each connection.
type Row = (Script, &'static str, Option<&'static str>, u16, &'static [usize]);

#[test]
fn request_that_a_host_has_not_processed_is_repeated_once() {
    use Act::{Answer, Close, GoAway, GoAwayAndClose, HintAndReset, ReadAndAnswer, ReadAndReset, Reset};
    const MOST: &str = match std::str::from_utf8(&[b'a'; 64 << 10]) {
        Ok(text) => text,
        Err(_) => panic!(),
    };
    const MORE: &str = match std::str::from_utf8(&[b'a'; (64 << 10) + 1]) {
        Ok(text) => text,
        Err(_) => panic!(),
    };
    let rows: [Row; 19] = [
        (&[&[Reset(REFUSED_STREAM)]], "GET", None, 200, &[1, 1]),
        (&[&[Answer]], "GET", None, 200, &[1]),
        (&[&[GoAway(0, 0)]], "GET", None, 200, &[1, 1]),
        (&[&[GoAwayAndClose(0, 0)]], "GET", None, 200, &[1, 1]),
        (&[&[GoAway(0, ENHANCE_YOUR_CALM)]], "GET", None, 200, &[1, 1]),
        // Neither its method nor its body stands against it: the host has not looked at them.
        (&[&[Reset(REFUSED_STREAM)]], "POST", None, 200, &[1, 1]),
        (&[&[Reset(REFUSED_STREAM)], &[Reset(REFUSED_STREAM)]], "GET", None, 502, &[1, 1]),
        (&[&[GoAway(0, 0)], &[Reset(REFUSED_STREAM)]], "GET", None, 502, &[1, 1]),
        // The host may have processed these.
        (&[&[Reset(CANCEL)]], "GET", None, 502, &[1]),
        (&[&[Reset(INTERNAL_ERROR)]], "GET", None, 502, &[1]),
        (&[&[GoAwayAndClose(1, 0)]], "GET", None, 502, &[1]),
        (&[&[GoAwayAndClose(1, REFUSED_STREAM)]], "GET", None, 502, &[1]),
        (&[&[Close]], "GET", None, 502, &[1]),
        (&[&[HintAndReset(REFUSED_STREAM)]], "GET", None, 502, &[1]),
        // Bodies that were read are sent again, up to a size.
        (&[&[ReadAndReset(REFUSED_STREAM)], &[ReadAndAnswer]], "POST", Some("abc"), 200, &[1, 1]),
        (&[&[ReadAndReset(REFUSED_STREAM)], &[ReadAndAnswer]], "POST", Some(MOST), 200, &[1, 1]),
        (&[&[ReadAndReset(REFUSED_STREAM)]], "POST", Some(MORE), 502, &[1]),
        (&[&[ReadAndReset(CANCEL)]], "POST", Some("abc"), 502, &[1]),
        (
            &[&[ReadAndReset(REFUSED_STREAM)], &[ReadAndReset(REFUSED_STREAM)]],
            "POST",
            Some("abc"),
            502,
            &[1, 1],
        ),
    ];
    for (script, method, body, status, requests) in rows {
        let Some(host) = scripted(script) else { return };
        let (place, list) = at(host.at.ip(), host.at.port());
        let (proxy, root) = intercepting(&list, vec![route("gh", &place, RequestRules::default())]);
        runtime().block_on(async {
            let open = proxy.two(&place, &root).await;
            let uri = format!("https://{place}/");
            let back = ask(&open, asking(method, &uri, &[]), body).await.unwrap();
            assert_eq!(back.status, status, "{script:?} {method}: {}", back.body);
            assert_eq!(host.requests(), requests, "{script:?} {method}");
            let row = proxy.serving.requests();
            assert_eq!(row.counts["gh"].requests, 1, "{script:?}: it is one request");
            let all = body
                .map(|_| host.seen.lock().unwrap().iter().map(|(_, body)| body.clone()).collect::<Vec<_>>());
            for got in all.iter().flatten() {
                assert!(*got == body.unwrap_or_default().as_bytes(), "{script:?}: {} bytes", got.len());
            }
            // The client's connection is good, and the next request finds a way.
            let back = ask(&open, asking("GET", &uri, &[]), None).await.unwrap();
            assert_eq!((back.status, back.body.as_str()), (200, "reached"), "{script:?} {method}");
        });
    }
}

#[test]
fn body_that_has_not_begun_goes_with_the_repeated_request() {
    let Some(host) = scripted(&[&[Act::Reset(REFUSED_STREAM)], &[Act::Nothing]]) else { return };
    let (place, list) = at(host.at.ip(), host.at.port());
    let (proxy, root) = intercepting(&list, vec![route("gh", &place, RequestRules::default())]);
    runtime().block_on(async {
        let mut open = proxy.two(&place, &root).await.ready().await.unwrap();
        let request = asking("POST", &format!("https://{place}/"), &[]);
        let (_answer, mut to) = open.send_request(request, false).unwrap();
        let until = Instant::now() + Duration::from_secs(10);
        while host.requests() != [1, 1] {
            assert!(Instant::now() < until, "{:?}", host.requests());
            tokio::time::sleep(Duration::from_millis(5)).await;
        }
        to.send_data(Bytes::from_static(b"abc"), true).unwrap();
        while host.seen.lock().unwrap()[1].1 != b"abc" {
            assert!(Instant::now() < until, "{:?}", host.seen.lock().unwrap());
            tokio::time::sleep(Duration::from_millis(5)).await;
        }
    });
    assert_eq!(host.seen.lock().unwrap()[0].1, b"");
}

#[test]
fn streams_up_to_the_last_one_of_a_goaway_are_answered_where_they_are() {
    let Some(host) = scripted(&[&[Act::Nothing, Act::GoAwayAndAnswerFirst(1)]]) else { return };
    let (place, list) = at(host.at.ip(), host.at.port());
    let (proxy, root) = intercepting(&list, vec![route("gh", &place, RequestRules::default())]);
    runtime().block_on(async {
        let open = proxy.two(&place, &root).await;
        let uri = format!("https://{place}/");
        let one = || async { ask(&open, asking("POST", &uri, &[]), None).await.unwrap().status };
        assert_eq!(tokio::join!(one(), one()), (200, 200));
    });
    assert_eq!(host.requests(), [2, 1]);
}

#[test]
fn host_that_takes_one_stream_at_a_time_gets_one() {
    let Some(own) = own_address() else { return };
    let (acceptor, hosts) = (TlsAcceptor::from(config(&[b"h2"])), runtime());
    let listener = hosts.block_on(tokio::net::TcpListener::bind((own, 0))).unwrap();
    let here = listener.local_addr().unwrap();
    let connections = Arc::<Mutex<usize>>::default();
    let counted = Arc::clone(&connections);
    hosts.spawn(async move {
        while let Ok((stream, _)) = listener.accept().await {
            *counted.lock().unwrap() += 1;
            let acceptor = acceptor.clone();
            tokio::spawn(async move {
                let Ok(tls) = acceptor.accept(stream).await else { return };
                let mut builder = h2::server::Builder::new();
                builder.max_concurrent_streams(1);
                let Ok(mut connection) = builder.handshake::<_, Bytes>(tls).await else { return };
                while let Some(Ok((_, mut respond))) = connection.accept().await {
                    tokio::spawn(async move {
                        tokio::time::sleep(Duration::from_millis(5)).await;
                        let _ = respond.send_response(http::Response::new(()), true);
                    });
                }
            });
        }
    });
    let (place, list) = at(here.ip(), here.port());
    let (proxy, root) = intercepting(&list, vec![route("gh", &place, RequestRules::default())]);
    runtime().block_on(async {
        let open = proxy.two(&place, &root).await;
        let uri = format!("https://{place}/");
        let mut all = tokio::task::JoinSet::new();
        for _ in 0..16 {
            let (open, request) = (open.clone(), asking("GET", &uri, &[]));
            all.spawn(async move { ask(&open, request, None).await.unwrap().status });
        }
        assert_eq!(all.join_all().await, [200; 16]);
    });
    assert_eq!(*connections.lock().unwrap(), 1);
}

/// Connections of HTTP/1.1 that the host has closed are not held.
#[test]
fn kept_connections_that_the_host_closed_are_closed_here_too() {
    const PARALLEL: usize = 4;
    let Some(own) = own_address() else { return };
    let listener = TcpListener::bind((own, 0)).unwrap();
    let here = listener.local_addr().unwrap();
    // Requests that have come, and connections that were closed by both sides.
    let (come, closed) = (Arc::<Mutex<usize>>::default(), Arc::<Mutex<usize>>::default());
    let (counted, ended, config) = (Arc::clone(&come), Arc::clone(&closed), config(&[]));
    std::thread::spawn(move || {
        for stream in listener.incoming().flatten() {
            let (come, closed, config) = (Arc::clone(&counted), Arc::clone(&ended), Arc::clone(&config));
            std::thread::spawn(move || {
                let mut tls = StreamOwned::new(ServerConnection::new(config).unwrap(), stream);
                if read_request(&mut tls).is_none() {
                    return;
                }
                *come.lock().unwrap() += 1;
                while *come.lock().unwrap() < PARALLEL {
                    std::thread::sleep(Duration::from_millis(2));
                }
                let _ = tls.write_all(b"HTTP/1.1 200 OK\r\nContent-Length: 7\r\n\r\nreached");
                tls.conn.send_close_notify();
                let _ = tls.flush();
                let _ = tls.sock.shutdown(Shutdown::Write);
                let _ = tls.sock.read_to_end(&mut Vec::new());
                *closed.lock().unwrap() += 1;
            });
        }
    });
    let (place, list) = at(here.ip(), here.port());
    let (proxy, root) = intercepting(&list, vec![route("gh", &place, RequestRules::default())]);
    runtime().block_on(async {
        let open = proxy.two(&place, &root).await;
        let uri = format!("https://{place}/");
        let one = || async { ask(&open, asking("GET", &uri, &[]), None).await.unwrap().status };
        assert_eq!(tokio::join!(one(), one(), one(), one()), (200, 200, 200, 200));
        tokio::time::sleep(Duration::from_millis(50)).await;
        assert_eq!(one().await, 200);
        let until = Instant::now() + Duration::from_secs(10);
        while *closed.lock().unwrap() < PARALLEL {
            assert!(Instant::now() < until, "{} are closed", closed.lock().unwrap());
            tokio::time::sleep(Duration::from_millis(5)).await;
        }
    });
}
