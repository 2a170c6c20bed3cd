//! The proxy on real sockets, against real servers on a non-loopback address of this host.

use std::collections::HashMap;
use std::io::{self, Read, Write};
use std::net::{IpAddr, Ipv4Addr, SocketAddr, TcpListener, TcpStream, UdpSocket};
use std::process::Command;
use std::sync::{Arc, Mutex};
use std::time::Duration;

use hotcell_egress::route::records::Request;
use hotcell_egress::{Denied, Egress, Limits, Lookup, Resolver, Serving, Sockets};
use tokio::runtime::Runtime;

/// A non-loopback address of this host.
fn own_address() -> Option<IpAddr> {
    let socket = UdpSocket::bind((Ipv4Addr::UNSPECIFIED, 0)).ok()?;
    socket.connect((Ipv4Addr::new(203, 0, 113, 1), 9)).ok()?; // sends nothing
    socket.local_addr().ok().map(|a| a.ip()).filter(|ip| !ip.is_loopback())
}

macro_rules! own_address_or_skip {
    () => {
        match own_address() {
            Some(address) => address,
            None => {
                println!("skipped: no address besides the loopback");
                return;
            }
        }
    };
}

/// A resolver whose answers change with each question; the last one is repeated.
#[derive(Clone, Debug, Default)]
struct Names(Arc<Mutex<HashMap<String, Vec<Vec<IpAddr>>>>>);

impl Names {
    fn with(self, name: &str, answers: &[&[&str]]) -> Self {
        let answers = answers.iter().map(|a| a.iter().map(|a| a.parse().unwrap()).collect()).collect();
        self.0.lock().unwrap().insert(name.to_owned(), answers);
        self
    }
}

impl Resolver for Names {
    fn resolve<'a>(&'a self, name: &'a str) -> Lookup<'a> {
        Box::pin(async move {
            let mut names = self.0.lock().unwrap();
            let answers = names.get_mut(name).ok_or(io::ErrorKind::NotFound)?;
            Ok(if answers.len() > 1 { answers.remove(0) } else { answers[0].clone() })
        })
    }
}

/// A proxy that runs beside the test.
struct Proxy {
    runtime: Runtime,
    serving: Serving,
    at: SocketAddr,
    names: SocketAddr,
}

impl Proxy {
    fn start(rules: &str, names: Names) -> Self {
        Self::with(rules, names, Limits::default())
    }

    fn with(rules: &str, names: Names, limits: Limits) -> Self {
        let runtime =
            tokio::runtime::Builder::new_multi_thread().worker_threads(1).enable_all().build().unwrap();
        // One port for both UDP and TCP: another test may have taken one of them meanwhile.
        let (proxy, by_stream, udp) = std::iter::repeat_with(|| {
            let stream = TcpListener::bind("127.0.0.1:0").unwrap();
            let udp = UdpSocket::bind(stream.local_addr().unwrap()).ok()?;
            Some((TcpListener::bind("127.0.0.1:0").unwrap(), stream, udp))
        })
        .flatten()
        .next()
        .unwrap();
        let (at, dns) = (proxy.local_addr().unwrap(), udp.local_addr().unwrap());
        let _inside = runtime.enter();
        let egress = Egress::new(rules.parse().unwrap()).resolver(names).limits(limits);
        // Relays listen at fixed ports, which the loopback of this host may not have free.
        let relays = Vec::new();
        let serving =
            egress.serve(Sockets { proxy, names: udp, names_by_stream: by_stream, relays }).unwrap();
        drop(_inside);
        Self { runtime, serving, at, names: dns }
    }

    fn connect(&self) -> TcpStream {
        let stream = TcpStream::connect(self.at).unwrap();
        stream.set_read_timeout(Some(Duration::from_secs(20))).unwrap();
        stream
    }

    /// Sends these bytes, and returns everything that comes back.
    fn say(&self, bytes: impl AsRef<[u8]>) -> String {
        let mut stream = self.connect();
        stream.write_all(bytes.as_ref()).unwrap();
        let mut all = Vec::new();
        let _ = stream.read_to_end(&mut all);
        String::from_utf8_lossy(&all).into_owned()
    }

    fn curl(&self, arguments: &[&str]) -> Option<(i32, String)> {
        let output = Command::new("curl")
            .args(["--silent", "--show-error", "--max-time", "20", "--proxy-insecure"])
            .args(arguments)
            .env_clear()
            .output()
            .ok()?;
        let text = [output.stdout, output.stderr].concat();
        Some((output.status.code().unwrap_or(-1), String::from_utf8_lossy(&text).into_owned()))
    }

    fn end(self) -> Vec<Denied> {
        let denied = self.serving.finish();
        drop(self.runtime);
        denied
    }
}

fn rows(denied: &[Denied]) -> Vec<(&str, &str, u64)> {
    denied.iter().map(|d| (d.operation.name(), d.target.as_str(), d.count)).collect()
}

/// A server whose responses are `answer` of each request's head and body.
fn server(at: IpAddr, answer: impl Fn(&str) -> String + Send + 'static) -> u16 {
    let listener = TcpListener::bind((at, 0)).unwrap();
    let port = listener.local_addr().unwrap().port();
    std::thread::spawn(move || {
        for stream in listener.incoming() {
            let mut stream = stream.unwrap();
            stream.set_read_timeout(Some(Duration::from_millis(300))).unwrap();
            let mut all = Vec::new();
            let mut buffer = [0; 4096];
            while let Ok(n @ 1..) = stream.read(&mut buffer) {
                all.extend_from_slice(&buffer[..n]);
                let text = String::from_utf8_lossy(&all);
                if let Some((head, body)) = text.split_once("\r\n\r\n") {
                    let length = head.lines().find_map(|l| l.strip_prefix("Content-Length: "));
                    let chunked = head.contains("chunked");
                    let whole = match length {
                        Some(length) => body.len() >= length.parse().unwrap(),
                        None => !chunked || body.ends_with("0\r\n\r\n"),
                    };
                    if whole {
                        break;
                    }
                }
            }
            let _ = stream.write_all(answer(&String::from_utf8_lossy(&all)).as_bytes());
        }
    });
    port
}

/// A server that responds with the request that it received.
fn mirror(at: IpAddr) -> u16 {
    server(at, |request| {
        format!("HTTP/1.1 200 OK\r\nContent-Length: {}\r\nX-Server: mirror\r\n\r\n{request}", request.len())
    })
}

#[test]
fn requests_and_answers_pass_proxy() {
    let own = own_address_or_skip!();
    let port = mirror(own);
    let proxy = Proxy::start(&format!("api.test={own}:{port},{own}:{port}"), Names::default());
    for host in ["api.test", "API.test.", &own.to_string()] {
        let answer = proxy.say(format!(
            "POST http://{host}:{port}/p HTTP/1.1\r\nHost: {host}:{port}\r\nContent-Length: 2\r\n\
             Proxy-Authorization: Basic secret\r\n\r\nokGET /smuggled HTTP/1.1\r\n"
        ));
        assert!(answer.starts_with("HTTP/1.1 200 OK\r\nConnection: close\r\n"), "{answer}");
        assert!(answer.contains("POST /p HTTP/1.1") && answer.ends_with("\r\n\r\nok"), "{answer}");
        assert!(!answer.contains("secret") && !answer.contains("smuggled"), "{answer}");
    }
    let chunked = proxy.say(format!(
        "POST http://api.test:{port}/ HTTP/1.1\r\nHost: api.test:{port}\r\nTransfer-Encoding: chunked\r\n\r\n\
         2;x=y\r\nok\r\n0\r\nX-Trailer: 1\r\n\r\nmore"
    ));
    assert!(chunked.ends_with("2\r\nok\r\n0\r\n\r\n"), "{chunked}");
    assert_eq!(proxy.end(), []);
}

#[test]
fn requests_have_rows_with_rule_and_bytes() {
    let own = own_address_or_skip!();
    let port = mirror(own);
    let proxy = Proxy::start(&format!("api.test={own}:{port}"), Names::default());
    let asked = format!(
        "POST http://api.test:{port}/p?token=hidden&x HTTP/1.1\r\nHost: api.test:{port}\r\nContent-Length: 2\r\n\r\nok"
    );
    let answer = proxy.say(asked);
    let body = answer.split_once("\r\n\r\n").map_or(0, |(_, body)| body.len() as u64);
    proxy.say(format!("GET http://evil.test:{port}/ HTTP/1.1\r\nHost: evil.test:{port}\r\n\r\n"));
    proxy.say("CONNECT evil.test:443 HTTP/1.1\r\n\r\n");
    let sent = format!("GET / HTTP/1.1\r\nHost: other.test:{port}\r\n\r\n");
    proxy.say(format!("CONNECT api.test:{port} HTTP/1.1\r\n\r\n{sent}"));
    // A connection that is still open has its bytes, too.
    let mut open = proxy.connect();
    open.write_all(format!("CONNECT api.test:{port} HTTP/1.1\r\n\r\n").as_bytes()).unwrap();
    let mut told = [0; 12];
    open.read_exact(&mut told).unwrap();
    let all = proxy.serving.requests();
    let rows: Vec<_> = all
        .rows
        .iter()
        .map(|row| {
            let Request { method, path, status, sent, received, rule, ending, .. } = row;
            format!("{method} {path} {status:?} {sent} {received} {} {rule}", ending.name())
        })
        .collect();
    let rule = format!("api.test={own}:{port}");
    let want = [
        format!("POST /p?token=…&… Some(200) 2 {body} answered {rule}"),
        "GET / None 0 0 denied no rule allows it".to_owned(),
        "CONNECT  None 0 0 denied no rule allows it".to_owned(),
        format!("CONNECT  None 0 0 denied a request was sent whose Host header names other.test:{port}"),
        format!("CONNECT  None 0 0 answered {rule}"),
    ];
    // The refusal of the fourth is its own answer of 400, which is counted as received.
    let received = all.rows[3].received;
    let rows: Vec<_> = rows.iter().map(|row| row.replace(&format!(" 0 {received} "), " 0 0 ")).collect();
    assert_eq!(rows, want);
    assert_eq!((all.plain.requests, all.plain.denied, all.left_out), (5, 3, 0));
    drop(open);
}

#[test]
fn curl_reaches_host_by_each_proxy_kind() {
    let own = own_address_or_skip!();
    let port = mirror(own);
    let proxy = Proxy::start(&format!("api.test={own}:{port}"), Names::default());
    let url = format!("http://api.test:{port}/p");
    let (http, socks) = (format!("http://{}", proxy.at), format!("socks5h://{}", proxy.at));
    for arguments in [
        &["--proxy", &http, &url][..],
        &["--proxy", &http, "--proxytunnel", &url],
        &["--proxy", &socks, &url],
        &["--proxy", &http, "--data", "body", &url, "--next", "--proxy", &http, &url],
    ] {
        let Some((code, text)) = proxy.curl(arguments) else {
            println!("skipped: no curl");
            return;
        };
        assert_eq!(code, 0, "{arguments:?}: {text}");
        assert!(text.contains(&format!("Host: api.test:{port}")), "{text}");
    }
    for (arguments, word) in [
        (&["--fail", "--proxy", &http, "http://other.test/"][..], "403"),
        (&["--proxy", &http, "https://other.test/"], "403"),
        (&["--proxy", &socks, "http://other.test/"], "(2)"),
    ] {
        let (code, text) = proxy.curl(arguments).unwrap();
        assert!(code != 0 && text.contains(word), "{text}");
    }
    let denied = proxy.end();
    assert_eq!(
        rows(&denied),
        [("http", "other.test:80", 1), ("connect", "other.test:443", 1), ("connect", "other.test:80", 1)]
    );
}

#[test]
fn connection_uses_the_checked_address() {
    let own = own_address_or_skip!();
    let port = mirror(own);
    // A proxy that resolves the name twice would use the second answer.
    let names = Names::default()
        .with("rebound.test", &[&["192.0.2.1"], &[&own.to_string()]])
        .with("metadata.test", &[&["169.254.169.254"]])
        .with("local.test", &[&["127.0.0.1", "::1"]])
        .with("mapped.test", &[&["::ffff:127.0.0.1", "64:ff9b::7f00:1"]])
        .with("inner.test", &[&["10.1.2.3"]])
        .with("own.test", &[&[&own.to_string()]]);
    let hosts = ["rebound", "metadata", "local", "mapped", "inner", "own", "nowhere"];
    let rules: Vec<String> = hosts.iter().map(|host| format!("{host}.test:{port}")).collect();
    let proxy = Proxy::start(&rules.join(","), names);
    let ask = |host: &str| {
        proxy.say(format!("GET http://{host}.test:{port}/ HTTP/1.1\r\nHost: {host}.test:{port}\r\n\r\n"))
    };
    for (host, word) in [
        ("rebound", "192.0.2.1, an address for documentation"),
        ("metadata", "metadata service"),
        ("local", "127.0.0.1, a loopback address"),
        ("mapped", "::ffff:127.0.0.1, an IPv4 address in the spelling of IPv6"),
        ("inner", "10.1.2.3, a private address"),
        ("own", "address"),
    ] {
        let answer = ask(host);
        assert!(answer.starts_with("HTTP/1.1 403") && answer.contains(word), "{host}: {answer}");
    }
    assert!(ask("nowhere").starts_with("HTTP/1.1 502"), "{}", ask("nowhere"));
    let denied = proxy.end();
    assert_eq!(denied.len(), 6);
    assert!(denied[0].target.starts_with(&format!("rebound.test:{port} (it is at 192.0.2.1")), "{denied:?}");
}

#[test]
fn disguised_hosts_are_denied() {
    let own = own_address_or_skip!();
    let port = mirror(own);
    let proxy = Proxy::start(&format!("api.test={own}:{port}"), Names::default());
    for host in [
        "api.test.evil",
        "evilapi.test",
        "x.api.test",
        "user@api.test",
        "api.test@evil.test",
        "api%2etest",
        "api.test%00.evil",
        "127.0.0.1",
        "127.1",
        "2130706433",
        "0x7f000001",
        "0177.0.0.1",
        "0.0.0.0",
        "[::1]",
        "[::ffff:127.0.0.1]",
        "[64:ff9b::7f00:1]",
        "169.254.169.254",
        &own.to_string(),
    ] {
        for bytes in [
            format!("GET http://{host}:{port}/ HTTP/1.1\r\nHost: {host}:{port}\r\n\r\n"),
            format!("CONNECT {host}:{port} HTTP/1.1\r\n\r\n"),
        ] {
            let answer = proxy.say(&bytes);
            assert!(answer.starts_with("HTTP/1.1 40"), "{bytes}: {answer}");
        }
        let [high, low] = port.to_be_bytes();
        let mut socks = vec![5, 1, 0, 5, 1, 0, 3, u8::try_from(host.len()).unwrap()];
        socks.extend(host.as_bytes());
        socks.extend([high, low]);
        let answer = proxy.say(&socks);
        assert_ne!(answer.as_bytes().get(3), Some(&0), "{host}: {answer:?}");
    }
    assert!(!proxy.end().is_empty());
}

#[test]
fn tunnel_reaches_only_its_host() {
    let own = own_address_or_skip!();
    let port = mirror(own);
    let proxy = Proxy::start(&format!("api.test={own}:{port}"), Names::default());
    let through = |bytes: &[u8]| {
        proxy.say([format!("CONNECT api.test:{port} HTTP/1.1\r\n\r\n").as_bytes(), bytes].concat())
    };
    let good =
        through(format!("GET / HTTP/1.1\r\nHost: api.test:{port}\r\n\r\nGET /2 HTTP/1.1\r\n").as_bytes());
    assert!(good.contains("GET / HTTP/1.1") && !good.contains("/2"), "{good}");
    assert!(through(b"\x01raw").contains("raw"));
    let long = format!("GET /{} HTTP/1.1\r\nHost: evil.test\r\n\r\n", "x".repeat(9000));
    for bytes in [
        &b"GET / HTTP/1.1\r\nHost: evil.test\r\n\r\n"[..],
        long.as_bytes(),
        b"\r\nfoo / HTTP/1.1\r\nHost: evil.test\r\n\r\n",
        b"\x16\x03\x01\x00\x05\x01\x00\x00\x01\x00",
    ] {
        let answer = through(bytes);
        assert!(!answer.contains("mirror"), "{bytes:?}: {answer}");
    }
    let denied = proxy.end();
    assert_eq!(denied.iter().map(|d| d.count).sum::<u64>(), 4, "{denied:?}");
}

#[test]
fn redirect_is_a_new_request_without_credentials() {
    let own = own_address_or_skip!();
    let target = mirror(own);
    let port = server(own, move |_| {
        format!("HTTP/1.1 302 Found\r\nLocation: http://other.test:{target}/\r\nContent-Length: 0\r\n\r\n")
    });
    let url = format!("http://api.test:{port}/");
    for (rules, arrives) in [("", false), ("yes", true)] {
        let more = if rules.is_empty() { String::new() } else { format!(",other.test={own}:{target}") };
        let proxy = Proxy::start(&format!("api.test={own}:{port}{more}"), Names::default());
        let via = format!("http://{}", proxy.at);
        let arguments =
            ["--location", "--user", "me:secret", "--proxy-user", "p:hidden", "--proxy", &via, &url];
        let Some((_, text)) = proxy.curl(&arguments) else {
            println!("skipped: no curl");
            return;
        };
        assert_eq!(text.contains(&format!("Host: other.test:{target}")), arrives, "{text}");
        assert!(!text.to_lowercase().contains("authorization"), "{text}");
        assert_eq!(proxy.end().len(), usize::from(!arrives));
    }
}

/// Asks for a name.
fn ask(proxy: &Proxy, name: &str, kind: u16, by_stream: bool) -> Vec<u8> {
    let mut message = vec![1, 2, 1, 0, 0, 1, 0, 0, 0, 0, 0, 0];
    for label in name.split('.') {
        message.push(u8::try_from(label.len()).unwrap());
        message.extend(label.as_bytes());
    }
    message.push(0);
    message.extend(kind.to_be_bytes());
    message.extend([0, 1]);
    let mut answer = vec![0; 2048];
    if by_stream {
        let mut stream = TcpStream::connect(proxy.names).unwrap();
        stream.set_read_timeout(Some(Duration::from_secs(20))).unwrap();
        stream
            .write_all(&[&u16::try_from(message.len()).unwrap().to_be_bytes()[..], &message].concat())
            .unwrap();
        let mut length = [0; 2];
        stream.read_exact(&mut length).unwrap();
        answer.truncate(u16::from_be_bytes(length).into());
        stream.read_exact(&mut answer).unwrap();
        return answer;
    }
    let socket = UdpSocket::bind("127.0.0.1:0").unwrap();
    socket.set_read_timeout(Some(Duration::from_secs(20))).unwrap();
    socket.send_to(&message, proxy.names).unwrap();
    let length = socket.recv(&mut answer).unwrap();
    answer.truncate(length);
    answer
}

#[test]
fn names_resolve_when_allowed_only() {
    let names = Names::default()
        .with("a.test", &[&["9.9.9.9", "10.0.0.1", "2620:fe::fe"]])
        .with("x.b.test.org", &[&["9.9.9.9"]])
        .with("local.test", &[&["127.0.0.1"]]);
    let limits = Limits { names: 3, ..Limits::default() };
    let proxy = Proxy::with("a.test:1,*.b.test.org:1,local.test:1,pin.test=10.9.9.9:1", names, limits);
    let (a, aaaa, txt, any, https) = (1, 28, 16, 255, 65);
    for by_stream in [false, true] {
        for (name, kind, code, end) in [
            ("a.test", a, 0, &[0, 4, 9, 9, 9, 9][..]),
            ("A.TEST", aaaa, 0, &[0, 16, 0x26, 0x20, 0, 0xfe, 0, 0, 0, 0, 0, 0, 0, 0, 0, 0, 0, 0xfe]),
            ("x.b.test.org", a, 0, &[0, 4, 9, 9, 9, 9]),
            ("pin.test", a, 0, &[0, 4, 10, 9, 9, 9]),
            ("pin.test", aaaa, 0, &[0, 1]),
            ("a.test", https, 0, &[0, 1]),
            ("a.test", txt, 5, &[0, 1]),
            ("a.test", any, 5, &[0, 1]),
            ("local.test", a, 3, &[0, 1]),
            ("evil.test", a, 3, &[0, 1]),
            ("evil.test", txt, 3, &[0, 1]),
            ("b.test.org", a, 3, &[0, 1]),
            // The fourth distinct name would exceed the limit.
            ("y.b.test.org", a, 3, &[0, 1]),
        ] {
            let answer = ask(&proxy, name, kind, by_stream);
            assert_eq!(answer[3] & 15, code, "{name} {kind}");
            assert!(answer.ends_with(end), "{name} {kind}: {answer:?}");
        }
    }
    let long = format!("{}.{}.b.test.org", "s".repeat(60), "t".repeat(60));
    assert_eq!(ask(&proxy, &long, a, false)[3] & 15, 3);
    let denied = proxy.end();
    assert!(rows(&denied).contains(&("dns", "evil.test", 4)), "{denied:?}");
}

#[test]
fn empty_list_denies_all_and_end_closes_connections() {
    let own = own_address_or_skip!();
    let port = mirror(own);
    let proxy = Proxy::start("", Names::default());
    assert!(proxy.say(format!("CONNECT {own}:{port} HTTP/1.1\r\n\r\n")).starts_with("HTTP/1.1 403"));
    assert_eq!(ask(&proxy, "a.test", 1, false)[3] & 15, 3);
    let at = proxy.at;
    let mut open = proxy.connect();
    assert_eq!(proxy.end().len(), 2);
    assert!(TcpStream::connect(at).is_err());
    let end = open.read(&mut [0; 1]);
    assert!(matches!(end, Ok(0) | Err(_)), "{end:?}");
}

#[test]
fn bytes_and_connections_are_limited() {
    let own = own_address_or_skip!();
    let port = server(own, |_| "x".repeat(200_000));
    let rules = format!("api.test={own}:{port}");
    let proxy = Proxy::with(&rules, Names::default(), Limits { bytes: 100_000, ..Limits::default() });
    let got = proxy.say(format!("CONNECT api.test:{port} HTTP/1.1\r\n\r\n\x01"));
    assert!(got.len() < 110_000, "{}", got.len());
    assert_eq!(proxy.end()[0].target, "(all) (the run has used up its bytes)");

    let limits = Limits { connections: 1, head: Duration::from_millis(200), ..Limits::default() };
    let proxy = Proxy::with(&rules, Names::default(), limits);
    // A silent client is dropped, and makes room for the next.
    let _silent = proxy.connect();
    let got = proxy.say(format!("CONNECT api.test:{port} HTTP/1.1\r\n\r\n\x01"));
    assert!(got.len() > 200_000, "{}", got.len());
}

#[test]
fn rules_with_conditions_pass_only_requests_that_are_seen() {
    let own = own_address_or_skip!();
    let port = mirror(own);
    let rules = format!(
        "GET|HEAD m.test={own}:{port}/simple rate=3/h,PUT m.test={own}:{port}/up body=4,!m.test:{port}/simple/private,{own}:{port},!POST {own}:{port}"
    );
    let proxy = Proxy::start(&rules, Names::default());
    let ask = |method: &str, path: &str, more: &str| {
        let said = proxy
            .say(format!("{method} http://m.test:{port}{path} HTTP/1.1\r\nHost: m.test:{port}\r\n{more}"));
        said.split(' ').nth(1).unwrap_or_default().to_owned()
    };
    for (method, path, more, status) in [
        ("GET", "/simple/x?q=1", "\r\n", "200"),
        ("GET", "/other", "\r\n", "403"),
        ("DELETE", "/simple/x", "\r\n", "403"),
        ("GET", "/simple/PRIVATE/x", "\r\n", "403"),
        ("GET", "/simple/../other", "\r\n", "403"),
        ("GET", "/simple//x", "\r\n", "403"),
        ("GET", "/simple%2fx", "\r\n", "403"),
        ("GET", "/simple/%00", "\r\n", "403"),
        ("PUT", "/up", "Content-Length: 4\r\n\r\nabcd", "200"),
        ("PUT", "/up", "Content-Length: 5\r\n\r\nabcde", "413"),
        ("GET", "/simple", "\r\n", "200"),
        ("GET", "/simple", "\r\n", "200"),
        ("GET", "/simple", "\r\n", "429"),
    ] {
        assert_eq!(ask(method, path, more), status, "{method} {path}");
    }
    // A chunked body beyond the limit ends the connection before its end.
    let chunked = format!(
        "PUT http://m.test:{port}/up HTTP/1.1\r\nHost: m.test:{port}\r\nTransfer-Encoding: chunked\r\n\r\n5\r\nabcde\r\n0\r\n\r\n"
    );
    assert_eq!(proxy.say(chunked), "");
    // Tunnels hide requests.
    for place in [format!("m.test:{port}"), format!("{own}:{port}")] {
        let said = proxy.say(format!("CONNECT {place} HTTP/1.1\r\n\r\n"));
        assert!(said.starts_with("HTTP/1.1 403") && said.contains("of a tunnel are not seen"), "{said}");
    }
    let denied = proxy.end();
    let told = rows(&denied);
    for word in
        ["DELETE /simple/x: not what its rule allows", "the rule !m.test", "more than 4", "more than 3/h"]
    {
        assert!(told.iter().any(|(_, target, _)| target.contains(word)), "{word}: {told:?}");
    }
}
