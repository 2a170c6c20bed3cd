//! Routes on real sockets, against a TLS server of the test's own on a non-loopback address of this host.

use std::collections::BTreeMap;
use std::io::{Read, Write};
use std::net::{IpAddr, Ipv4Addr, SocketAddr, TcpListener, TcpStream, UdpSocket};
use std::path::{Path, PathBuf};
use std::sync::{Arc, Mutex};
use std::time::Duration;

use hotcell_egress::route::records::Ending;
use hotcell_egress::route::rules::RequestRules;
use hotcell_egress::route::{Route, Scheme};
use hotcell_egress::{Egress, Secret, Serving, Sockets};
use rustls::pki_types::pem::PemObject;
use rustls::pki_types::{CertificateDer, PrivateKeyDer};
use rustls::{ServerConfig, ServerConnection, StreamOwned};
use tokio::runtime::Runtime;

mod http2;
mod intercepted;
mod limits;
mod refusals;
mod signed;

const VALUE: &str = "t0p-s3cret/value";

fn pki(name: &str) -> PathBuf {
    Path::new(env!("CARGO_MANIFEST_DIR")).join("tests/pki").join(name)
}

/// A non-loopback address of this host.
fn own_address() -> Option<IpAddr> {
    let socket = UdpSocket::bind((Ipv4Addr::UNSPECIFIED, 0)).ok()?;
    socket.connect((Ipv4Addr::new(203, 0, 113, 1), 9)).ok()?; // sends nothing
    socket.local_addr().ok().map(|a| a.ip()).filter(|ip| !ip.is_loopback())
}

/// A TLS server; answers each request by a function of its head and body.
struct Host {
    at: SocketAddr,
    /// Number of connections, and the requests.
    seen: Arc<Mutex<(usize, Vec<String>)>>,
}

type Answers = fn(&str) -> Vec<u8>;

fn host(answer: Answers) -> Option<Host> {
    host_that(false, answer)
}

/// A host that answers requests; one that is `eager` sends an answer with the last message of each connection's handshake, before there is a
/// request. That is possible in TLS 1.2, where the server has the last word.
fn host_that(eager: bool, answer: Answers) -> Option<Host> {
    let Some(own) = own_address() else {
        println!("skipped: no address besides the loopback");
        return None;
    };
    let chain = CertificateDer::pem_file_iter(pki("host.pem")).unwrap().map(Result::unwrap).collect();
    let key = PrivateKeyDer::from_pem_file(pki("host.key")).unwrap();
    let provider = Arc::new(rustls::crypto::ring::default_provider());
    let versions = if eager { &[&rustls::version::TLS12] } else { rustls::DEFAULT_VERSIONS };
    let config = ServerConfig::builder_with_provider(provider).with_protocol_versions(versions).unwrap();
    let config = Arc::new(config.with_no_client_auth().with_single_cert(chain, key).unwrap());
    let listener = TcpListener::bind((own, 0)).unwrap();
    let (at, seen) = (listener.local_addr().unwrap(), Arc::<Mutex<(usize, Vec<String>)>>::default());
    let known = Arc::clone(&seen);
    std::thread::spawn(move || {
        for stream in listener.incoming().flatten() {
            let (config, seen) = (Arc::clone(&config), Arc::clone(&known));
            std::thread::spawn(move || {
                stream.set_read_timeout(Some(Duration::from_secs(20))).unwrap();
                let mut tls = StreamOwned::new(ServerConnection::new(config).unwrap(), stream);
                seen.lock().unwrap().0 += 1;
                if eager {
                    // Kept back by the library until the handshake is done.
                    tls.conn.writer().write_all(&answer("")).unwrap();
                    seen.lock().unwrap().1.extend(read_request(&mut tls));
                }
                while let Some(request) = read_request(&mut tls) {
                    let answer = answer(&request);
                    seen.lock().unwrap().1.push(request);
                    if tls.write_all(&answer).is_err()
                        || String::from_utf8_lossy(&answer).contains("Connection: close")
                    {
                        break;
                    }
                }
                tls.conn.send_close_notify();
                let _ = tls.flush();
            });
        }
    });
    Some(Host { at, seen })
}

/// Reads a head, and a body with a length or in chunks.
fn read_request(from: &mut impl Read) -> Option<String> {
    let mut bytes = Vec::new();
    let mut byte = [0];
    let until = |bytes: &mut Vec<u8>, from: &mut dyn Read, end: &[u8]| {
        let mut byte = byte;
        while !bytes.ends_with(end) {
            from.read_exact(&mut byte).ok()?;
            bytes.push(byte[0]);
        }
        Some(())
    };
    until(&mut bytes, from, b"\r\n\r\n")?;
    let head = String::from_utf8_lossy(&bytes).to_ascii_lowercase();
    if head.contains("transfer-encoding: chunked") {
        until(&mut bytes, from, b"0\r\n\r\n")?;
    }
    let length = head
        .split("content-length: ")
        .nth(1)
        .and_then(|rest| rest.split("\r\n").next()?.parse::<usize>().ok());
    for _ in 0..length.unwrap_or(0) {
        from.read_exact(&mut byte).ok()?;
        bytes.push(byte[0]);
    }
    String::from_utf8(bytes).ok()
}

/// A proxy with routes that runs beside the test.
struct Proxy {
    _runtime: Runtime,
    serving: Serving,
    at: SocketAddr,
}

fn route(name: &str, binding: &str, rules: RequestRules) -> Route {
    let secret = Secret::new(VALUE.as_bytes().to_vec()).unwrap();
    Route::new(name, binding.parse().unwrap(), &Scheme::Bearer, &secret, rules, Some(&pki("root.pem")))
        .unwrap()
}

fn proxy(list: &str, routes: Vec<Route>) -> Proxy {
    serving(&Egress::new(list.parse().unwrap()).routes(routes))
}

fn serving(egress: &Egress) -> Proxy {
    let runtime = tokio::runtime::Builder::new_multi_thread().worker_threads(1).enable_all().build().unwrap();
    let proxy = TcpListener::bind("127.0.0.1:0").unwrap();
    let at = proxy.local_addr().unwrap();
    let sockets = Sockets {
        proxy,
        names: UdpSocket::bind("127.0.0.1:0").unwrap(),
        names_by_stream: TcpListener::bind("127.0.0.1:0").unwrap(),
        relays: Vec::new(),
    };
    let serving = {
        let _inside = runtime.enter();
        egress.serve(sockets).unwrap()
    };
    Proxy { _runtime: runtime, serving, at }
}

impl Proxy {
    fn connect(&self) -> TcpStream {
        let stream = TcpStream::connect(self.at).unwrap();
        stream.set_read_timeout(Some(Duration::from_secs(20))).unwrap();
        stream
    }

    /// Sends bytes; `HOST` stands for the proxy's own. Returns all that comes back until the connection ends.
    fn ask(&self, text: &str) -> String {
        let mut stream = self.connect();
        stream.write_all(text.replace("HOST", &self.at.to_string()).as_bytes()).unwrap();
        let mut back = Vec::new();
        let _ = stream.read_to_end(&mut back);
        String::from_utf8_lossy(&back).into_owned()
    }
}

fn plain(_: &str) -> Vec<u8> {
    b"HTTP/1.1 200 OK\r\nContent-Length: 7\r\n\r\nreached".to_vec()
}

/// Sends back the request's head in a header and in the body, the body in chunks of three bytes.
fn echo(request: &str) -> Vec<u8> {
    let authorization = request.lines().find(|line| line.starts_with("authorization")).unwrap_or_default();
    let mut text = format!(
        "HTTP/1.1 200 {authorization}\r\nX-Echo: {authorization}\r\nTransfer-Encoding: chunked\r\n\r\n"
    );
    for piece in request.as_bytes().chunks(3) {
        text.push_str(&format!("{:x}\r\n{}\r\n", piece.len(), String::from_utf8_lossy(piece)));
    }
    (text + "0\r\n\r\n").into_bytes()
}

#[test]
fn request_goes_to_the_host_with_the_secret() {
    let Some(host) = host(plain) else { return };
    let port = host.at.port();
    let list = format!("api.test={}:{port}", host.at.ip());
    let proxy = proxy(&list, vec![route("gh", &format!("api.test:{port}/v1"), RequestRules::default())]);
    let one =
        "POST /gh/models?a=b HTTP/1.1\r\nHost: HOST\r\nAuthorization: mine\r\nContent-Length: 3\r\n\r\nabc";
    let two = "POST /gh HTTP/1.1\r\nHost: HOST\r\nTransfer-Encoding: chunked\r\nConnection: close\r\n\r\n3\r\nabc\r\n0\r\n\r\n";
    let back = proxy.ask(&format!("{one}{two}"));
    assert_eq!(back.matches("HTTP/1.1 200 OK").count(), 2, "{back}");
    assert!(back.ends_with("Connection: close\r\nContent-Length: 7\r\n\r\nreached"), "{back}");
    let (connections, requests) = host.seen.lock().unwrap().clone();
    assert_eq!(connections, 1, "the connection to the host is kept");
    let head = |path: &str, body: &str| {
        format!(
            "POST {path} HTTP/1.1\r\nHost: api.test:{port}\r\nAccept-Encoding: identity\r\n{body}authorization: Bearer {VALUE}\r\n\r\n"
        )
    };
    assert_eq!(requests[0], format!("{}abc", head("/v1/models?a=b", "Content-Length: 3\r\n")));
    assert_eq!(
        requests[1],
        format!("{}3\r\nabc\r\n0\r\n\r\n", head("/v1", "Transfer-Encoding: chunked\r\n"))
    );
    let records = proxy.serving.requests();
    let counts = &records.counts["gh"];
    assert_eq!((counts.requests, counts.denied, counts.failed, counts.received), (2, 0, 0, 14));
    let row = &records.rows[0];
    let told = (row.path.as_str(), row.status, row.sent, row.received, row.rule.as_str(), row.ending);
    assert_eq!(told, ("/v1/models?a=…", Some(200), 3, 7, "any path", Ending::Answered));
    assert!(!format!("{records:?}{proxy:?}", proxy = proxy.serving).contains(VALUE));
}

#[test]
fn connection_stays_open_when_the_answer_comes_at_once() {
    let Some(host) = host_that(true, plain) else { return };
    let port = host.at.port();
    let list = format!("api.test={}:{port}", host.at.ip());
    let proxy = proxy(&list, vec![route("gh", &format!("api.test:{port}"), RequestRules::default())]);
    let request = "GET /gh/ HTTP/1.1\r\nHost: HOST\r\n\r\n";
    let last = "GET /gh/ HTTP/1.1\r\nHost: HOST\r\nConnection: close\r\n\r\n";
    let back = proxy.ask(&format!("{}{last}", request.repeat(3)));
    assert_eq!(back.matches("HTTP/1.1 200 OK").count(), 4, "{back}");
}

#[test]
fn runs_with_other_values_for_one_host_stay_apart() {
    let Some(host) = host(plain) else { return };
    let port = host.at.port();
    let list = format!("api.test={}:{port}", host.at.ip());
    let run = |value: &str| {
        let secret = Secret::new(value.as_bytes().to_vec()).unwrap();
        let binding = format!("api.test:{port}").parse().unwrap();
        let rules = RequestRules::default();
        proxy(
            &list,
            vec![Route::new("gh", binding, &Scheme::Bearer, &secret, rules, Some(&pki("root.pem"))).unwrap()],
        )
    };
    let values = ["value-of-the-first", "value-of-the-second"];
    let runs = values.map(run);
    std::thread::scope(|scope| {
        for (number, run) in runs.iter().enumerate() {
            scope.spawn(move || {
                for _ in 0..20 {
                    let text =
                        format!("GET /gh/{number} HTTP/1.1\r\nHost: HOST\r\nConnection: close\r\n\r\n");
                    assert!(run.ask(&text).starts_with("HTTP/1.1 200"));
                }
            });
        }
    });
    let (_, requests) = host.seen.lock().unwrap().clone();
    assert_eq!(requests.len(), 40);
    for (number, value) in values.iter().enumerate() {
        let own = |request: &&String| request.starts_with(&format!("GET /{number} "));
        let with = |request: &&String| request.contains(&format!("Bearer {value}\r\n"));
        assert_eq!(requests.iter().filter(own).filter(with).count(), 20);
    }
}

#[test]
fn value_that_a_host_sends_back_is_masked() {
    let Some(host) = host(echo) else { return };
    let port = host.at.port();
    let list = format!("api.test={}:{port}", host.at.ip());
    let proxy = proxy(&list, vec![route("gh", &format!("api.test:{port}"), RequestRules::default())]);
    for version in ["1.1", "1.0"] {
        let back = proxy.ask(&format!("GET /gh/ HTTP/{version}\r\nHost: HOST\r\nConnection: close\r\n\r\n"));
        assert_eq!(back.matches(&"*".repeat(VALUE.len())).count(), 3, "{back}");
        let bare: String = back.split("\r\n").filter(|line| line.len() > 3).collect();
        assert!(!back.contains(VALUE) && !bare.contains("s3cret"), "{back}");
    }
}

#[test]
fn rules_and_smuggling_end_requests_before_the_host() {
    let Some(host) = host(plain) else { return };
    let (port, ip) = (host.at.port(), host.at.ip());
    let texts = |all: &[&str]| all.iter().map(ToString::to_string).collect::<Vec<_>>();
    let rules = RequestRules::new(&texts(&["GET"]), &texts(&["/v1/"]), &texts(&["/v1/keys"]), false).unwrap();
    let binding = format!("api.test:{port}");
    // A second name at the same server, which has no route.
    let list = format!("api.test={ip}:{port}");
    let proxy = proxy(
        &list,
        vec![route("gh", &binding, rules), route("in", &format!("{binding}/in"), RequestRules::default())],
    );
    let host_line = "Host: HOST\r\n";
    for (request, status) in [
        (format!("DELETE /gh/v1/x HTTP/1.1\r\n{host_line}\r\n"), "403"),
        (format!("GET /gh/v2/x HTTP/1.1\r\n{host_line}\r\n"), "403"),
        (format!("GET /gh/v1/k%65ys HTTP/1.1\r\n{host_line}\r\n"), "403"),
        (format!("GET /gh/v1/../v2 HTTP/1.1\r\n{host_line}\r\n"), "403"),
        (format!("GET /gh/v1//x HTTP/1.1\r\n{host_line}\r\n"), "403"),
        (format!("GET /in/%2e%2e/x HTTP/1.1\r\n{host_line}\r\n"), "403"),
        (format!("GET /in/a%2fb HTTP/1.1\r\n{host_line}\r\n"), "403"),
        (format!("GET /in/a%00 HTTP/1.1\r\n{host_line}\r\n"), "403"),
        (format!("GET /no/x HTTP/1.1\r\n{host_line}\r\n"), "404"),
        (format!("GET // HTTP/1.1\r\n{host_line}\r\n"), "404"),
        ("GET /gh/v1/ HTTP/1.1\r\nHost: api.test\r\n\r\n".to_owned(), "400"),
        (format!("POST /in/ HTTP/1.1\r\n{host_line}Content-Length: 1\r\nContent-Length: 2\r\n\r\nab"), "400"),
        (
            format!(
                "POST /in/ HTTP/1.1\r\n{host_line}Content-Length: 1\r\nTransfer-Encoding: chunked\r\n\r\n0\r\n\r\n"
            ),
            "400",
        ),
        (format!("GET /in/ HTTP/1.1\r\n{host_line}X: a\r\n Authorization: b\r\n\r\n"), "400"),
        (format!("GET /in/ HTTP/1.1\r\n{host_line}X: a\0\r\n\r\n"), "400"),
        (format!("TRACE /in/ HTTP/1.1\r\n{host_line}\r\n"), "400"),
        (format!("CONNECT HOST HTTP/1.1\r\n{host_line}\r\n"), "403"),
        (format!("GET http://HOST/in/ HTTP/1.1\r\n{host_line}\r\n"), "403"),
        (format!("GET http://other.test:{port}/in/ HTTP/1.1\r\nHost: other.test:{port}\r\n\r\n"), "403"),
        (format!("GET https://api.test:{port}/in/ HTTP/1.1\r\n{host_line}\r\n"), "400"),
    ] {
        let back = proxy.ask(&request);
        assert!(back.starts_with(&format!("HTTP/1.1 {status} ")), "{request}: {back}");
        assert!(!back.contains(VALUE));
    }
    // A second request to another target on the connection of a route.
    let both = format!(
        "GET /in/ HTTP/1.1\r\n{host_line}\r\nGET http://api.test:{port}/ HTTP/1.1\r\nHost: api.test:{port}\r\n\r\n"
    );
    let back = proxy.ask(&both);
    assert!(back.starts_with("HTTP/1.1 200 OK") && back.contains("HTTP/1.1 400"), "{back}");
    let (_, requests) = host.seen.lock().unwrap().clone();
    assert_eq!(requests.len(), 1, "{requests:?}");
    let records = proxy.serving.requests();
    assert_eq!(
        (records.counts["gh"].denied, records.counts["in"].denied, records.counts["in"].requests),
        (5, 3, 4)
    );
    let denied: BTreeMap<_, _> =
        proxy.serving.finish().into_iter().map(|row| (row.target, row.count)).collect();
    assert!(
        denied.keys().any(|target| target.contains("DELETE /v1/x for the secret gh: methods GET")),
        "{denied:?}"
    );
}

#[test]
fn hosts_that_are_not_trusted_or_not_public_get_nothing() {
    let Some(host) = host(plain) else { return };
    let (port, ip) = (host.at.port(), host.at.ip());
    let list = format!("api.test={ip}:{port},wrong.test={ip}:{port}");
    let secret = Secret::new(VALUE.as_bytes().to_vec()).unwrap();
    let of_system = Route::new(
        "sys",
        format!("api.test:{port}").parse().unwrap(),
        &Scheme::Bearer,
        &secret,
        RequestRules::default(),
        None,
    );
    let routes = vec![
        route("wrong", &format!("wrong.test:{port}"), RequestRules::default()),
        // No rule says where it is, and the resolver leads to the loopback.
        route("local", &format!("localhost:{port}"), RequestRules::default()),
        of_system.unwrap(),
    ];
    let proxy = proxy(&list, routes);
    for (name, status, word) in [
        ("wrong", "502", "certificate"),
        ("local", "403", "loopback"),
        // Either the system has roots, and not this one, or it has none.
        ("sys", "502", "nothing was sent"),
    ] {
        let back = proxy.ask(&format!("GET /{name}/ HTTP/1.1\r\nHost: HOST\r\n\r\n"));
        assert!(back.starts_with(&format!("HTTP/1.1 {status} ")) && back.contains(word), "{name}: {back}");
    }
    assert!(host.seen.lock().unwrap().1.is_empty());
    assert!(
        proxy.serving.requests().rows.iter().all(|row| row.ending == Ending::Failed && row.status.is_none())
    );
}

#[test]
fn redirects_are_passed_on_and_compressed_answers_refused() {
    fn answer(request: &str) -> Vec<u8> {
        let text = if request.starts_with("GET /away") {
            "HTTP/1.1 302 Found\r\nLocation: https://other.test/x\r\nContent-Length: 0\r\n\r\n"
        } else if request.starts_with("GET /here") {
            "HTTP/1.1 302 Found\r\nLocation: /there\r\nContent-Length: 0\r\n\r\n"
        } else {
            "HTTP/1.1 200 OK\r\nContent-Encoding: gzip\r\nContent-Length: 3\r\n\r\nabc"
        };
        text.as_bytes().to_vec()
    }
    let Some(host) = host(answer) else { return };
    let port = host.at.port();
    let proxy = proxy(
        &format!("api.test={}:{port}", host.at.ip()),
        vec![route("gh", &format!("api.test:{port}"), RequestRules::default())],
    );
    let ask =
        |path: &str| proxy.ask(&format!("GET /gh{path} HTTP/1.1\r\nHost: HOST\r\nConnection: close\r\n\r\n"));
    assert!(ask("/away").contains("Location: https://other.test/x\r\n"));
    let here = ask("/here");
    assert!(here.contains(&format!("Location: http://{}/gh/there\r\n", proxy.at)), "{here}");
    let zipped = ask("/zipped");
    assert!(
        zipped.starts_with("HTTP/1.1 502") && zipped.contains("compressed") && !zipped.contains("abc"),
        "{zipped}"
    );
    assert_eq!(host.seen.lock().unwrap().1.len(), 3);
}
