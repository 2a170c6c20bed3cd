//! HTTP/2 within intercepted TLS: with a client that keeps to the protocol, and with frames written by hand.

use std::io::{Read, Write};
use std::net::SocketAddr;
use std::sync::{Arc, Mutex};
use std::time::Duration;

use bytes::Bytes;
use h2::client::SendRequest;
use h2::server::SendResponse;
use h2::{RecvStream, SendStream};
use hotcell_egress::Secret;
use hotcell_egress::limit::RequestLimits;
use hotcell_egress::route::aws::Scope;
use hotcell_egress::route::records::Ending;
use hotcell_egress::route::rules::RequestRules;
use hotcell_egress::route::{Route, Scheme};
use http::{HeaderMap, Request, Response};
use rustls::pki_types::pem::PemObject;
use rustls::pki_types::{CertificateDer, PrivateKeyDer, ServerName};
use rustls::{ClientConfig, ClientConnection, RootCertStore, ServerConfig, StreamOwned};
use tokio::runtime::Runtime;
use tokio_rustls::{TlsAcceptor, TlsConnector};

use super::intercepted::intercepting;
use super::{Proxy, VALUE, echo, host, own_address, pki, plain, route};

/// A server of HTTP/2, which answers each stream with the request's fields and body, as they come, and with trailers.
struct Host {
    at: SocketAddr,
    seen: Arc<Mutex<Vec<String>>>,
    _runtime: Runtime,
}

pub(super) fn runtime() -> Runtime {
    tokio::runtime::Builder::new_multi_thread().worker_threads(1).enable_all().build().unwrap()
}

fn fields(request: &Request<RecvStream>) -> String {
    let mut text = format!("{} {}\n", request.method(), request.uri());
    for (name, value) in request.headers() {
        text.push_str(&format!("{name}: {}\n", String::from_utf8_lossy(value.as_bytes())));
    }
    text
}

async fn repeat(
    request: Request<RecvStream>,
    mut respond: SendResponse<Bytes>,
    seen: Arc<Mutex<Vec<String>>>,
) -> Result<(), h2::Error> {
    let text = fields(&request);
    seen.lock().unwrap().push(text.clone());
    let credential = request.headers().get("authorization").cloned();
    let mut response = Response::new(());
    response.headers_mut().insert("x-echo", credential.clone().unwrap());
    let mut to = respond.send_response(response, false)?;
    to.send_data(text.into(), false)?;
    let mut body = request.into_body();
    while let Some(piece) = body.data().await {
        let piece = piece?;
        body.flow_control().release_capacity(piece.len())?;
        to.send_data(piece, false)?;
    }
    let mut trailers = HeaderMap::new();
    trailers.insert("grpc-status", "0".parse().unwrap());
    trailers.insert("grpc-message", credential.unwrap());
    to.send_trailers(trailers)
}

fn host_of_two() -> Option<Host> {
    let own = own_address()?;
    let chain = CertificateDer::pem_file_iter(pki("host.pem")).unwrap().map(Result::unwrap).collect();
    let key = PrivateKeyDer::from_pem_file(pki("host.key")).unwrap();
    let provider = Arc::new(rustls::crypto::ring::default_provider());
    let config = ServerConfig::builder_with_provider(provider).with_safe_default_protocol_versions().unwrap();
    let mut config = config.with_no_client_auth().with_single_cert(chain, key).unwrap();
    config.alpn_protocols = vec![b"h2".to_vec()];
    let (acceptor, runtime) = (TlsAcceptor::from(Arc::new(config)), runtime());
    let listener = runtime.block_on(tokio::net::TcpListener::bind((own, 0))).unwrap();
    let (at, seen) = (listener.local_addr().unwrap(), Arc::<Mutex<Vec<String>>>::default());
    let known = Arc::clone(&seen);
    runtime.spawn(async move {
        while let Ok((stream, _)) = listener.accept().await {
            let (acceptor, known) = (acceptor.clone(), Arc::clone(&known));
            tokio::spawn(async move {
                let Ok(tls) = acceptor.accept(stream).await else { return };
                let Ok(mut connection) = h2::server::handshake(tls).await else { return };
                while let Some(Ok((request, respond))) = connection.accept().await {
                    tokio::spawn(repeat(request, respond, Arc::clone(&known)));
                }
            });
        }
    });
    Some(Host { at, seen, _runtime: runtime })
}

fn trusting(root: &CertificateDer<'static>) -> Arc<ClientConfig> {
    let mut roots = RootCertStore::empty();
    roots.add(root.clone()).unwrap();
    let provider = Arc::new(rustls::crypto::ring::default_provider());
    let config = ClientConfig::builder_with_provider(provider).with_safe_default_protocol_versions();
    let mut config = config.unwrap().with_root_certificates(roots).with_no_client_auth();
    config.alpn_protocols = vec![b"h2".to_vec()];
    Arc::new(config)
}

impl Proxy {
    /// A connection of HTTP/2 through a tunnel to a place.
    pub(super) async fn two(&self, place: &str, root: &CertificateDer<'static>) -> SendRequest<Bytes> {
        let stream = self.tunnel(place);
        stream.set_nonblocking(true).unwrap();
        let stream = tokio::net::TcpStream::from_std(stream).unwrap();
        let name = ServerName::try_from("api.test").unwrap();
        let tls = TlsConnector::from(trusting(root)).connect(name, stream).await.unwrap();
        assert_eq!(tls.get_ref().1.alpn_protocol(), Some(&b"h2"[..]));
        let (open, connection) = h2::client::handshake(tls).await.unwrap();
        tokio::spawn(connection);
        open
    }
}

pub(super) fn asking(method: &str, uri: &str, headers: &[(&str, &str)]) -> Request<()> {
    let mut request = Request::builder().method(method).uri(uri);
    for (name, value) in headers {
        request = request.header(*name, *value);
    }
    request.body(()).unwrap()
}

pub(super) struct Back {
    pub(super) status: u16,
    headers: HeaderMap,
    pub(super) body: String,
    trailers: Option<HeaderMap>,
}

/// Sends a request with a body, and reads all of its answer.
pub(super) async fn ask(
    open: &SendRequest<Bytes>,
    request: Request<()>,
    body: Option<&str>,
) -> Result<Back, h2::Error> {
    let mut open = open.clone().ready().await?;
    let (answer, mut to) = open.send_request(request, body.is_none())?;
    if let Some(body) = body {
        to.send_data(Bytes::copy_from_slice(body.as_bytes()), true)?;
    }
    let (parts, mut stream) = answer.await?.into_parts();
    let mut body = Vec::new();
    while let Some(piece) = stream.data().await {
        let piece = piece?;
        stream.flow_control().release_capacity(piece.len())?;
        body.extend_from_slice(&piece);
    }
    let trailers = stream.trailers().await?;
    let body = String::from_utf8_lossy(&body).into_owned();
    Ok(Back { status: parts.status.as_u16(), headers: parts.headers, body, trailers })
}

pub(super) fn at(ip: std::net::IpAddr, port: u16) -> (String, String) {
    (format!("api.test:{port}"), format!("api.test={ip}:{port}"))
}

#[test]
fn streams_to_a_host_of_http_2_have_the_secret() {
    let Some(host) = host_of_two() else { return };
    let (place, list) = at(host.at.ip(), host.at.port());
    let (proxy, root) =
        intercepting(&list, vec![route("gh", &format!("{place}/v1"), RequestRules::default())]);
    runtime().block_on(async {
        let open = proxy.two(&place, &root).await;
        let uri = format!("https://{place}/v1/a?q=1");
        let own = [("authorization", "mine"), ("cookie", "a=b"), ("te", "trailers"), ("x-own", "1")];
        let mut all = tokio::task::JoinSet::new();
        for _ in 0..8 {
            let (open, uri) = (open.clone(), uri.clone());
            all.spawn(async move { ask(&open, asking("POST", &uri, &own), Some("abc")).await });
        }
        while let Some(back) = all.join_next().await {
            let back = back.unwrap().unwrap();
            let masked = format!("Bearer {}", "*".repeat(VALUE.len()));
            assert_eq!((back.status, back.headers["x-echo"].to_str().unwrap()), (200, masked.as_str()));
            assert!(back.body.ends_with("abc") && back.body.contains(&masked), "{}", back.body);
            assert!(!back.body.contains(VALUE) && !back.body.contains("mine"), "{}", back.body);
            let trailers = back.trailers.unwrap();
            assert_eq!(
                (&trailers["grpc-status"], trailers["grpc-message"].to_str().unwrap()),
                (&"0".parse().unwrap(), masked.as_str())
            );
        }
        let back = ask(&open, asking("GET", &uri, &[]), None).await.unwrap();
        assert_eq!(back.status, 200);
    });
    let seen = host.seen.lock().unwrap().clone();
    assert_eq!(seen.len(), 9);
    let want = format!(
        "POST https://{place}/v1/a?q=1\naccept-encoding: identity\nx-own: 1\nauthorization: Bearer {VALUE}\nte: trailers\n"
    );
    assert_eq!(seen[0], want);
    let records = proxy.serving.requests();
    let counts = &records.counts["gh"];
    assert_eq!((counts.requests, counts.denied, counts.failed, counts.sent), (9, 0, 0, 24));
    assert!(records.rows.iter().all(|row| row.ending == Ending::Answered && row.path == "/v1/a?q=…"));
}

#[test]
fn both_sides_of_a_stream_go_on_at_the_same_time() {
    let Some(host) = host_of_two() else { return };
    let (place, list) = at(host.at.ip(), host.at.port());
    let (proxy, root) = intercepting(&list, vec![route("gh", &place, RequestRules::default())]);
    runtime().block_on(async {
        let open = proxy.two(&place, &root).await;
        let mut open = open.ready().await.unwrap();
        let request = asking("POST", &format!("https://{place}/chat"), &[("te", "trailers")]);
        let (answer, mut to): (_, SendStream<Bytes>) = open.send_request(request, false).unwrap();
        let mut body = answer.await.unwrap().into_body();
        let mut all = Vec::new();
        for word in ["one", "two", "three"] {
            to.send_data(word.into(), false).unwrap();
            while !all.ends_with(word.as_bytes()) {
                all.extend_from_slice(&body.data().await.unwrap().unwrap());
            }
        }
        to.send_data(Bytes::new(), true).unwrap();
        assert!(body.data().await.is_none());
        assert_eq!(body.trailers().await.unwrap().unwrap()["grpc-status"], "0");
    });
}

#[test]
fn bodies_that_wait_for_room_hold_up_no_other() {
    let Some(host) = host(plain) else { return };
    let (place, list) = at(host.at.ip(), host.at.port());
    let secret = Secret::new(b"ASIAEXAMPLE:wJalrXUtnFEMI/K7MDENG+b".to_vec()).unwrap();
    let scheme = Scheme::AwsSigV4(Scope::new("eu-west-1", "sqs").unwrap());
    let (rules, roots) = (RequestRules::default(), pki("root.pem"));
    let route = Route::new("aws", place.parse().unwrap(), &scheme, &secret, rules, Some(&roots)).unwrap();
    let (proxy, root) = intercepting(&list, vec![route]);
    // Without a length, four bodies take the room of all, and the others wait with a full window each.
    let body = "x".repeat(200 << 10);
    runtime().block_on(async {
        let open = proxy.two(&place, &root).await;
        let uri = format!("https://{place}/q");
        let mut all = tokio::task::JoinSet::new();
        for _ in 0..16 {
            let (open, uri, body) = (open.clone(), uri.clone(), body.clone());
            all.spawn(async move { ask(&open, asking("POST", &uri, &[]), Some(&body)).await });
        }
        while let Some(back) = all.join_next().await {
            assert_eq!(back.unwrap().unwrap().status, 200);
        }
    });
    assert_eq!(host.seen.lock().unwrap().1.len(), 16);
}

#[test]
fn streams_to_a_host_of_http_1_are_requests_of_their_own() {
    let Some(host) = host(echo) else { return };
    let (place, list) = at(host.at.ip(), host.at.port());
    let (proxy, root) = intercepting(&list, vec![route("gh", &place, RequestRules::default())]);
    runtime().block_on(async {
        let open = proxy.two(&place, &root).await;
        let uri = format!("https://{place}/a");
        for (method, length, body) in
            [("GET", None, None), ("POST", Some("3"), Some("abc")), ("POST", None, Some("def"))]
        {
            let headers: Vec<(&str, &str)> =
                length.map(|length| ("content-length", length)).into_iter().collect();
            let back = ask(&open, asking(method, &uri, &headers), body).await.unwrap();
            assert_eq!(back.status, 200);
            assert!(
                !back.body.contains(VALUE) && back.body.contains(&"*".repeat(VALUE.len())),
                "{}",
                back.body
            );
            assert!(
                back.headers.get("connection").is_none() && back.headers.get("transfer-encoding").is_none()
            );
        }
        let mut all = tokio::task::JoinSet::new();
        for _ in 0..20 {
            let (open, uri) = (open.clone(), uri.clone());
            all.spawn(async move { ask(&open, asking("GET", &uri, &[]), None).await });
        }
        while let Some(back) = all.join_next().await {
            assert_eq!(back.unwrap().unwrap().status, 200);
        }
    });
    let (_, requests) = host.seen.lock().unwrap().clone();
    let head = format!("Host: {place}\r\nAccept-Encoding: identity\r\n");
    let credential = format!("authorization: Bearer {VALUE}\r\n\r\n");
    assert_eq!(requests[0], format!("GET /a HTTP/1.1\r\n{head}{credential}"));
    assert_eq!(requests[1], format!("POST /a HTTP/1.1\r\n{head}Content-Length: 3\r\n{credential}abc"));
    let chunked = format!("{head}Transfer-Encoding: chunked\r\n{credential}3\r\ndef\r\n0\r\n\r\n");
    assert_eq!(requests[2], format!("POST /a HTTP/1.1\r\n{chunked}"));
    assert_eq!(requests.len(), 23);
}

#[test]
fn streams_that_are_not_allowed_reach_no_host() {
    let Some(host) = host(plain) else { return };
    let (place, list) = at(host.at.ip(), host.at.port());
    let rules =
        RequestRules::new(&["GET".to_owned(), "POST".to_owned()], &[], &["/v1/keys".to_owned()], false);
    let small = RequestLimits { max_body: Some(4), rate: None };
    let routes: Vec<Route> = vec![
        route("gh", &format!("{place}/v1"), rules.unwrap()),
        route("small", &format!("{place}/small"), RequestRules::default().limited(small)),
    ];
    let (proxy, root) = intercepting(&list, routes);
    let port = host.at.port();
    runtime().block_on(async {
        let open = proxy.two(&place, &root).await;
        for (method, uri, headers, body, status) in [
            ("GET", "https://evil.test/v1/".to_owned(), &[][..], None, 421),
            ("GET", "https://api.test/v1/".to_owned(), &[], None, 421),
            ("GET", format!("https://mine@{place}/v1/"), &[], None, 421),
            ("GET", format!("https://api.test.:{port}/v1/x/../../v2"), &[], None, 403),
            ("GET", format!("https://{place}/v1/"), &[("host", "evil.test")], None, 421),
            ("GET", format!("http://{place}/v1/"), &[], None, 400),
            ("TRACE", format!("https://{place}/v1/"), &[], None, 400),
            ("get", format!("https://{place}/v1/"), &[], None, 400),
            ("DELETE", format!("https://{place}/v1/"), &[], None, 403),
            ("HEAD", format!("https://{place}/v2/"), &[], None, 403),
            ("HEAD", "https://evil.test/v1/".to_owned(), &[], None, 421),
            ("GET", format!("https://{place}/v1/k%65ys"), &[], None, 403),
            ("GET", format!("https://{place}/v2/"), &[], None, 403),
            ("GET", format!("https://{place}/v1/../v2/"), &[], None, 403),
            ("GET", format!("https://{place}/v1//x"), &[], None, 403),
            ("GET", format!("https://{place}/v1/a%2fb"), &[], None, 403),
            ("POST", format!("https://{place}/small/"), &[("content-length", "5")], Some("abcde"), 413),
            ("POST", format!("https://{place}/small/"), &[], Some("abcde"), 413),
        ] {
            let back = ask(&open, asking(method, &uri, headers), body).await;
            let back = back.unwrap_or_else(|e| panic!("{method} {uri}: {e}"));
            assert_eq!(back.status, status, "{method} {uri}: {}", back.body);
            let want = if method == "HEAD" { "" } else { "hotcell: " };
            assert!(
                back.body.starts_with(want) && !back.body.contains(VALUE),
                "{method} {uri}: {}",
                back.body
            );
            assert_eq!(back.body.is_empty(), method == "HEAD", "{method} {uri}: {}", back.body);
        }
        let long = "x".repeat(17 << 10);
        let back = ask(&open, asking("GET", &format!("https://{place}/v1/"), &[("x", &long)]), None).await;
        assert!(back.is_err() || back.is_ok_and(|back| back.status == 431));
    });
    assert_eq!(host.seen.lock().unwrap().1, Vec::<String>::new());
    let denied = proxy.serving.finish();
    for word in ["its Host header is missing", "DELETE /v1/ for the secret gh", "more than 4 bytes"] {
        assert!(denied.iter().any(|row| row.target.contains(word)), "{word}: {denied:?}");
    }
}

#[test]
fn cancelled_streams_end_their_rows_and_their_requests() {
    let Some(host) = host_of_two() else { return };
    let (place, list) = at(host.at.ip(), host.at.port());
    let (proxy, root) = intercepting(&list, vec![route("gh", &place, RequestRules::default())]);
    runtime().block_on(async {
        let open = proxy.two(&place, &root).await;
        for _ in 0..10 {
            let mut open = open.clone().ready().await.unwrap();
            let request = asking("POST", &format!("https://{place}/"), &[]);
            let (answer, mut to) = open.send_request(request, false).unwrap();
            answer.await.unwrap();
            to.send_reset(h2::Reason::CANCEL);
        }
        // The connection is still good.
        let back = ask(&open, asking("GET", &format!("https://{place}/"), &[]), None).await.unwrap();
        assert_eq!(back.status, 200);
    });
    let counts = loop {
        let counts = proxy.serving.requests().counts["gh"].clone();
        if counts.failed == 10 {
            break counts;
        }
        std::thread::sleep(Duration::from_millis(10));
    };
    assert_eq!((counts.requests, counts.denied), (11, 0));
}

/// Type, flags, stream and content as a frame.
pub(super) fn frame(kind: u8, flags: u8, stream: u32, content: &[u8]) -> Vec<u8> {
    let length = u32::try_from(content.len()).unwrap().to_be_bytes();
    [&length[1..], &[kind, flags], &stream.to_be_bytes(), content].concat()
}

/// Fields as literals without an index (RFC 7541, 6.2.2).
fn block(fields: &[(&str, &str)]) -> Vec<u8> {
    let text = |bytes: &mut Vec<u8>, text: &str| {
        assert!(text.len() < 127);
        bytes.push(u8::try_from(text.len()).unwrap());
        bytes.extend_from_slice(text.as_bytes());
    };
    let mut bytes = Vec::new();
    for (name, value) in fields {
        bytes.push(0);
        text(&mut bytes, name);
        text(&mut bytes, value);
    }
    bytes
}

pub(super) const DATA: u8 = 0;
pub(super) const HEADERS: u8 = 1;
pub(super) const RST_STREAM: u8 = 3;
pub(super) const SETTINGS: u8 = 4;
const PUSH_PROMISE: u8 = 5;
pub(super) const GOAWAY: u8 = 7;
pub(super) const WINDOW_UPDATE: u8 = 8;
const CONTINUATION: u8 = 9;
pub(super) const END_STREAM: u8 = 1;
pub(super) const END_HEADERS: u8 = 4;
const END_BOTH: u8 = 5;

/// Sends frames on a new connection; returns the types of those that come back until the connection ends or a stream does.
fn frames(proxy: &Proxy, place: &str, root: &CertificateDer<'static>, bytes: &[u8]) -> Vec<u8> {
    let name = ServerName::try_from("api.test").unwrap();
    let client = ClientConnection::new(trusting(root), name).unwrap();
    let mut tls = StreamOwned::new(client, proxy.tunnel(place));
    let preface = [b"PRI * HTTP/2.0\r\n\r\nSM\r\n\r\n", &frame(SETTINGS, 0, 0, &[])[..]].concat();
    // The connection may end before all is written.
    let _ = tls.write_all(&[&preface, bytes].concat());
    let mut kinds = Vec::new();
    loop {
        let mut head = [0; 9];
        if tls.read_exact(&mut head).is_err() {
            return kinds;
        }
        let length = u32::from_be_bytes([0, head[0], head[1], head[2]]);
        let mut content = vec![0; length as usize];
        if tls.read_exact(&mut content).is_err() {
            return kinds;
        }
        kinds.push(head[3]);
        if [HEADERS, RST_STREAM, GOAWAY].contains(&head[3]) {
            return kinds;
        }
    }
}

#[test]
fn frames_against_the_protocol_reach_no_host() {
    let Some(host) = host(plain) else { return };
    let (place, list) = at(host.at.ip(), host.at.port());
    let (proxy, root) = intercepting(&list, vec![route("gh", &place, RequestRules::default())]);
    let good = [(":method", "GET"), (":scheme", "https"), (":authority", place.as_str()), (":path", "/")];
    let with = |more: &[(&str, &str)]| frame(HEADERS, END_BOTH, 1, &block(&[&good[..], more].concat()));
    let instead = |name: &str, value: &str| {
        let fields: Vec<(&str, &str)> = good
            .iter()
            .map(|&(known, old)| if known == name { (known, value) } else { (known, old) })
            .collect();
        frame(HEADERS, END_BOTH, 1, &block(&fields))
    };
    let without = |name: &str| {
        let fields: Vec<(&str, &str)> = good.iter().copied().filter(|(known, _)| *known != name).collect();
        frame(HEADERS, END_BOTH, 1, &block(&fields))
    };
    let flood = |each: &dyn Fn(u32) -> Vec<u8>| (0..20_000).flat_map(each).collect::<Vec<u8>>();
    for (name, bytes) in [
        ("connection", with(&[("connection", "close, authorization")])),
        ("transfer-encoding", with(&[("transfer-encoding", "chunked")])),
        ("upgrade", with(&[("upgrade", "h2c")])),
        ("keep-alive", with(&[("keep-alive", "1")])),
        ("proxy-connection", with(&[("proxy-connection", "x")])),
        ("te", with(&[("te", "gzip")])),
        ("capitals", with(&[("Authorization", "mine")])),
        ("line break in a value", with(&[("x", "a\r\nauthorization: mine")])),
        ("line break in a name", with(&[("x\r\nhost", "evil.test")])),
        ("NUL", with(&[("x", "a\0b")])),
        ("colon in a name", with(&[("x: y\r\nz", "a")])),
        ("space in a name", with(&[("host ", "evil.test")])),
        ("second authority", with(&[(":authority", "evil.test")])),
        ("authority behind fields", with(&[("x", "a"), (":authority", "evil.test")])),
        ("host beside authority", with(&[("host", "evil.test")])),
        ("two lengths", with(&[("content-length", "1"), ("content-length", "2")])),
        ("length without body", with(&[("content-length", "5")])),
        ("status", with(&[(":status", "200")])),
        ("protocol", with(&[(":protocol", "websocket")])),
        ("unknown pseudo", with(&[(":host", "evil.test")])),
        ("path with a request", instead(":path", "/ HTTP/1.1\r\nHost: evil.test\r\n\r\nGET /x")),
        ("path with a space", instead(":path", "/ x")),
        ("path *", instead(":path", "*")),
        ("empty path", instead(":path", "")),
        ("absolute path", instead(":path", "https://evil.test/")),
        ("method with a line", instead(":method", "GET / HTTP/1.1\r\n")),
        ("method CONNECT", instead(":method", "CONNECT")),
        ("scheme http", instead(":scheme", "http")),
        ("scheme with a line", instead(":scheme", "https\r\nx")),
        ("authority with a line", instead(":authority", "api.test\r\nx: y")),
        ("authority with a path", instead(":authority", "evil.test/api.test")),
        ("other authority", instead(":authority", "evil.test")),
        ("no authority", without(":authority")),
        ("no path", without(":path")),
        ("no scheme", without(":scheme")),
        ("no method", without(":method")),
        ("stream 0", frame(HEADERS, END_BOTH, 0, &block(&good))),
        ("even stream", frame(HEADERS, END_BOTH, 2, &block(&good))),
        ("push", frame(PUSH_PROMISE, END_HEADERS, 1, &[&[0, 0, 0, 2][..], &block(&good)].concat())),
        ("window of 2^31", frame(SETTINGS, 0, 0, &[0, 4, 0x80, 0, 0, 0])),
        ("window overflow", flood(&|_| frame(WINDOW_UPDATE, 0, 0, &[0x7f, 0xff, 0xff, 0xff]))),
        ("window of no bytes", frame(WINDOW_UPDATE, 0, 0, &[0; 4])),
        ("frame of 64 KiB", frame(HEADERS, END_BOTH, 1, &vec![0; 64 << 10])),
        (
            "continuations",
            [
                frame(HEADERS, 1, 1, &block(&good)),
                flood(&|_| frame(CONTINUATION, 0, 1, &block(&[("x", "y")]))),
            ]
            .concat(),
        ),
        ("other frame in a head", [frame(HEADERS, 1, 1, &block(&good)), frame(SETTINGS, 0, 0, &[])].concat()),
        ("bomb", {
            // An entry of 4,000 bytes in the table, and 4,000 references to it in each of the frames that follow.
            let entry = [&[0x40, 1, b'x', 0x7f, 0xa1, 0x1e][..], &[b'y'; 4000]].concat();
            let first = frame(HEADERS, 1, 1, &[block(&good), entry].concat());
            let more = (0..100).flat_map(|_| frame(CONTINUATION, 0, 1, &[0xbe; 4000]));
            first.into_iter().chain(more).collect()
        }),
    ] {
        let kinds = frames(&proxy, &place, &root, &bytes);
        let ended = kinds.last().is_none_or(|kind| [HEADERS, RST_STREAM, GOAWAY].contains(kind));
        assert!(ended, "{name}: {kinds:?}");
        assert_eq!(host.seen.lock().unwrap().1, Vec::<String>::new(), "{name}");
    }
    // The host is reached by a request that keeps to the protocol.
    assert_eq!(frames(&proxy, &place, &root, &with(&[])).last(), Some(&HEADERS));
    assert_eq!(host.seen.lock().unwrap().1.len(), 1);
}

#[test]
fn streams_beyond_the_limit_end_no_others() {
    let Some(host) = host(plain) else { return };
    let (place, list) = at(host.at.ip(), host.at.port());
    let (proxy, root) = intercepting(&list, vec![route("gh", &place, RequestRules::default())]);
    let post = [(":method", "POST"), (":scheme", "https"), (":authority", place.as_str()), (":path", "/")];
    let begun: Vec<u8> =
        (0..72).flat_map(|n| frame(HEADERS, END_HEADERS, 2 * n + 1, &block(&post))).collect();
    let ended: Vec<u8> = (0..32).flat_map(|n| frame(DATA, END_STREAM, 2 * n + 1, b"abc")).collect();
    let name = ServerName::try_from("api.test").unwrap();
    let client = ClientConnection::new(trusting(&root), name).unwrap();
    let mut tls = StreamOwned::new(client, proxy.tunnel(&place));
    let preface = [b"PRI * HTTP/2.0\r\n\r\nSM\r\n\r\n", &frame(SETTINGS, 0, 0, &[])[..]].concat();
    tls.write_all(&[preface, begun].concat()).unwrap();
    // Those beyond the limit are refused, and those within it are answered.
    for (kind, count, next) in [(RST_STREAM, 40, &ended[..]), (HEADERS, 32, &[])] {
        let mut seen = 0;
        while seen < count {
            let mut head = [0; 9];
            tls.read_exact(&mut head).unwrap();
            assert_ne!(head[3], GOAWAY, "after {seen} of {kind}");
            let mut content = vec![0; u32::from_be_bytes([0, head[0], head[1], head[2]]) as usize];
            tls.read_exact(&mut content).unwrap();
            seen += usize::from(head[3] == kind);
        }
        tls.write_all(next).unwrap();
    }
    assert_eq!(host.seen.lock().unwrap().1.len(), 32);
}

#[test]
fn resets_end_the_connection() {
    let Some(host) = host(plain) else { return };
    let (place, list) = at(host.at.ip(), host.at.port());
    let (proxy, root) = intercepting(&list, vec![route("gh", &place, RequestRules::default())]);
    let good = [(":method", "GET"), (":scheme", "https"), (":authority", place.as_str()), (":path", "/")];
    let evil = [(":method", "GET"), (":scheme", "https"), (":authority", "evil.test"), (":path", "/")];
    let resets: Vec<u8> = (0..2000)
        .flat_map(|n| {
            let stream = 2 * n + 1;
            [frame(HEADERS, END_BOTH, stream, &block(&good)), frame(RST_STREAM, 0, stream, &[0, 0, 0, 8])]
                .concat()
        })
        .collect();
    let refused: Vec<u8> =
        (0..2000).flat_map(|n| frame(HEADERS, END_BOTH, 2 * n + 1, &block(&evil))).collect();
    for bytes in [resets, refused] {
        let name = ServerName::try_from("api.test").unwrap();
        let client = ClientConnection::new(trusting(&root), name).unwrap();
        let mut tls = StreamOwned::new(client, proxy.tunnel(&place));
        let preface = [b"PRI * HTTP/2.0\r\n\r\nSM\r\n\r\n", &frame(SETTINGS, 0, 0, &[])[..]].concat();
        let _ = tls.write_all(&[preface, bytes].concat());
        // Ends, and not by the time that an idle connection stays open.
        let mut back = Vec::new();
        let _ = tls.read_to_end(&mut back);
    }
    // Each of them began at most as many requests as may lead to nothing.
    assert!(proxy.serving.requests().counts["gh"].requests <= 200, "{:?}", proxy.serving.requests().counts);
}
