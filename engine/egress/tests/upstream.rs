//! The operator's own proxy: connections to names go through it, and those with an address of their rule's do not.

use std::io::{self, Read, Write};
use std::net::{IpAddr, Ipv4Addr, SocketAddr, TcpListener, TcpStream, UdpSocket};
use std::sync::{Arc, Mutex};
use std::time::Duration;

use hotcell_egress::upstream::Upstream;
use hotcell_egress::{Egress, Lookup, Resolver, Secret, Serving, Sockets};
use tokio::runtime::Runtime;

const CREDENTIAL: &str = "me:t0p-s3cret";

/// Knows no name but one, which is in a private network.
#[derive(Clone, Debug)]
struct Inside;

impl Resolver for Inside {
    fn resolve<'a>(&'a self, name: &'a str) -> Lookup<'a> {
        Box::pin(async move {
            match name {
                "intranet.test" => Ok(vec![IpAddr::from([10, 9, 9, 9])]),
                _ => Err(io::ErrorKind::NotFound.into()),
            }
        })
    }
}

/// An HTTP server, or a proxy that is one as well; answers each request's head by a function, until it opens a tunnel.
struct Server {
    at: SocketAddr,
    heard: Arc<Mutex<Vec<String>>>,
}

fn server(answer: fn(&str) -> &'static str) -> Server {
    let listener = TcpListener::bind((Ipv4Addr::LOCALHOST, 0)).unwrap();
    let (at, heard) = (listener.local_addr().unwrap(), Arc::<Mutex<Vec<String>>>::default());
    let log = Arc::clone(&heard);
    std::thread::spawn(move || {
        for mut stream in listener.incoming().flatten() {
            stream.set_read_timeout(Some(Duration::from_secs(20))).unwrap();
            loop {
                let (mut head, mut byte) = (Vec::new(), [0]);
                while !head.ends_with(b"\r\n\r\n") && matches!(stream.read(&mut byte), Ok(1)) {
                    head.push(byte[0]);
                }
                let head = String::from_utf8_lossy(&head).into_owned();
                if head.is_empty() {
                    break;
                }
                let answer = answer(&head);
                log.lock().unwrap().push(head);
                if stream.write_all(answer.as_bytes()).is_err() || !answer.starts_with("HTTP/1.1 200 Opened")
                {
                    break;
                }
            }
        }
    });
    Server { at, heard }
}

/// Opens each tunnel, and plays its host.
fn opening(head: &str) -> &'static str {
    match head.starts_with("CONNECT ") {
        true => "HTTP/1.1 200 Opened\r\nVia: x\r\n\r\n",
        false => "HTTP/1.1 200 OK\r\nContent-Length: 7\r\nConnection: close\r\n\r\nreached",
    }
}

struct Proxy {
    _runtime: Runtime,
    serving: Serving,
    at: SocketAddr,
}

impl Proxy {
    fn start(rules: &str, upstream: &str) -> Self {
        let runtime =
            tokio::runtime::Builder::new_multi_thread().worker_threads(1).enable_all().build().unwrap();
        let proxy = TcpListener::bind("127.0.0.1:0").unwrap();
        let at = proxy.local_addr().unwrap();
        let sockets = Sockets {
            proxy,
            names: UdpSocket::bind("127.0.0.1:0").unwrap(),
            names_by_stream: TcpListener::bind("127.0.0.1:0").unwrap(),
            relays: Vec::new(),
        };
        let secret = Secret::new(CREDENTIAL.as_bytes().to_vec()).unwrap();
        let upstream = Upstream::new(upstream, Some(&secret)).unwrap();
        let egress = Egress::new(rules.parse().unwrap()).resolver(Inside).through(upstream);
        assert!(!format!("{egress:?}").contains("s3cret"));
        let serving = {
            let _inside = runtime.enter();
            egress.serve(sockets).unwrap()
        };
        Self { _runtime: runtime, serving, at }
    }

    fn say(&self, text: &str) -> String {
        let mut stream = TcpStream::connect(self.at).unwrap();
        stream.set_read_timeout(Some(Duration::from_secs(20))).unwrap();
        stream.write_all(text.as_bytes()).unwrap();
        let mut back = Vec::new();
        let _ = stream.read_to_end(&mut back);
        String::from_utf8_lossy(&back).into_owned()
    }
}

#[test]
fn names_go_through_the_upstream_proxy() {
    let upstream = server(opening);
    let proxy = Proxy::start("far.test:80,other.test:9999", &upstream.at.to_string());
    let back = proxy.say("GET http://far.test/x HTTP/1.1\r\nHost: far.test\r\n\r\n");
    assert!(back.ends_with("reached"), "{back}");
    let back = proxy.say("CONNECT far.test:80 HTTP/1.1\r\n\r\nGET /y HTTP/1.1\r\nHost: far.test\r\n\r\n");
    assert!(back.ends_with("reached"), "{back}");
    let heard = upstream.heard.lock().unwrap().clone();
    let opened = "CONNECT far.test:80 HTTP/1.1\r\nHost: far.test:80\r\nProxy-Authorization: Basic bWU6dDBwLXMzY3JldA==\r\n\r\n";
    assert_eq!((heard[0].as_str(), heard[2].as_str()), (opened, opened));
    assert!(heard[1].starts_with("GET /x ") && heard[3].starts_with("GET /y "), "{heard:?}");
    assert!(
        !heard[1].contains("Proxy-Authorization")
            && !format!("{:?}", proxy.serving.requests()).contains("bWU6")
    );
    // Without a rule, the proxy is not asked.
    for host in ["evil.test", "far.test:81"] {
        let back = proxy.say(&format!("CONNECT {host}:80 HTTP/1.1\r\n\r\n").replace(":81:80", ":81"));
        assert!(back.starts_with("HTTP/1.1 403"), "{back}");
    }
    assert_eq!(upstream.heard.lock().unwrap().len(), 4);
}

#[test]
fn private_names_and_rules_with_addresses_do_not_go_through_it() {
    let upstream = server(opening);
    let proxy = Proxy::start(
        "intranet.test:80,near.test=10.9.9.9:1,!far.test:80,far.test:80",
        &upstream.at.to_string(),
    );
    for host in ["intranet.test", "far.test"] {
        let back = proxy.say(&format!("GET http://{host}/ HTTP/1.1\r\nHost: {host}\r\n\r\n"));
        assert!(back.starts_with("HTTP/1.1 403"), "{host}: {back}");
    }
    assert!(upstream.heard.lock().unwrap().is_empty());
    let denied = proxy.serving.finish();
    assert!(denied.iter().any(|row| row.target.contains("it is at 10.9.9.9")), "{denied:?}");
}

#[test]
fn upstream_proxy_that_refuses_is_named() {
    for (answer, word) in [
        (
            (|_| "HTTP/1.1 407 x\r\nContent-Length: 0\r\n\r\n") as fn(&str) -> &'static str,
            "upstream_proxy_auth",
        ),
        (|_| "HTTP/1.1 403 x\r\nContent-Length: 0\r\n\r\n", "it answered 403"),
        (|_| "SSH-2.0-x\r\n\r\n", "no answer of HTTP/1"),
        (|_| "", "without an answer"),
    ] {
        let upstream = server(answer);
        let proxy = Proxy::start("far.test:443", &upstream.at.to_string());
        let back = proxy.say("CONNECT far.test:443 HTTP/1.1\r\n\r\n");
        assert!(back.starts_with("HTTP/1.1 502") && back.contains(word), "{word}: {back}");
        assert!(!back.contains("s3cret") && !back.contains("bWU6"), "{back}");
    }
    // A port that was free a moment ago.
    let gone = TcpListener::bind((Ipv4Addr::LOCALHOST, 0)).unwrap().local_addr().unwrap();
    let proxy = Proxy::start("far.test:443", &gone.to_string());
    let back = proxy.say("CONNECT far.test:443 HTTP/1.1\r\n\r\n");
    assert!(back.starts_with("HTTP/1.1 502") && back.contains("is not reached"), "{back}");
    let rows: Vec<String> = proxy.serving.finish().into_iter().map(|row| row.target).collect();
    assert!(
        rows.len() == 1 && rows[0].contains("upstream proxy") && rows[0].contains("not reached"),
        "{rows:?}"
    );
}
