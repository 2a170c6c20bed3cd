//! Generated spellings of requests for another host: none of them passes through a tunnel to an allowed
//! server, which records every byte that it receives.

use std::io::{Read, Write};
use std::net::{IpAddr, Ipv4Addr, TcpListener, TcpStream, UdpSocket};
use std::sync::{Arc, Mutex};
use std::time::Duration;

use hotcell_egress::{Egress, Serving, Sockets, http};
use proptest::prelude::*;
use proptest::strategy::ValueTree;
use proptest::test_runner::TestRunner;
use tokio::runtime::Runtime;

/// Number of concurrent tunnels.
const CONCURRENT_TUNNELS: usize = 24;

/// A server at a port, and a proxy that allows it as `a.test`.
struct Both {
    port: u16,
    proxy: std::net::SocketAddr,
    reached: Arc<Mutex<Vec<u8>>>,
    _serving: Serving,
    _runtime: Runtime,
}

/// A non-loopback address of this host.
fn own_address() -> Option<IpAddr> {
    let socket = UdpSocket::bind((Ipv4Addr::UNSPECIFIED, 0)).ok()?;
    socket.connect((Ipv4Addr::new(203, 0, 113, 1), 9)).ok()?; // sends nothing
    socket.local_addr().ok().map(|a| a.ip()).filter(|ip| !ip.is_loopback())
}

impl Both {
    /// Uses the first of these ports that is free; `None` when no port or no address is available.
    fn at(ports: &[u16]) -> Option<Self> {
        let own = own_address()?;
        let server = ports.iter().find_map(|port| TcpListener::bind((own, *port)).ok())?;
        let port = server.local_addr().unwrap().port();
        let reached = Arc::new(Mutex::new(Vec::new()));
        let taken = Arc::clone(&reached);
        std::thread::spawn(move || {
            for stream in server.incoming() {
                let taken = Arc::clone(&taken);
                std::thread::spawn(move || {
                    let mut stream = stream.unwrap();
                    let mut buffer = [0; 4096];
                    let mut head: Vec<u8> = Vec::new();
                    while let Ok(n @ 1..) = stream.read(&mut buffer) {
                        taken.lock().unwrap().extend_from_slice(&buffer[..n]);
                        head.extend_from_slice(&buffer[..n]);
                        // The tunnel of a request ends with its response, any other tunnel when both sides
                        // have ended. A ClientHello is not a request: the server responds, and records the
                        // bytes that follow.
                        if head[0] == 22 || head.windows(4).any(|w| w == b"\r\n\r\n") {
                            break;
                        }
                    }
                    let _ = stream.write_all(b"HTTP/1.1 204 No Content\r\n\r\n");
                    let _ = stream.shutdown(std::net::Shutdown::Write);
                    while let Ok(n @ 1..) = stream.read(&mut buffer) {
                        taken.lock().unwrap().extend_from_slice(&buffer[..n]);
                    }
                });
            }
        });
        let runtime =
            tokio::runtime::Builder::new_multi_thread().worker_threads(1).enable_all().build().unwrap();
        let inside = runtime.enter();
        let listen = || TcpListener::bind("127.0.0.1:0").unwrap();
        let sockets = Sockets {
            proxy: listen(),
            names: UdpSocket::bind("127.0.0.1:0").unwrap(),
            names_by_stream: listen(),
            relays: Vec::new(),
        };
        let proxy = sockets.proxy.local_addr().unwrap();
        let serving = Egress::new(format!("a.test={own}:{port}").parse().unwrap()).serve(sockets).unwrap();
        drop(inside);
        Some(Self { port, proxy, reached, _serving: serving, _runtime: runtime })
    }

    /// Sends each of these through a tunnel, waits until all have ended, and returns all bytes that reached
    /// the server.
    fn reached(&self, all: &[Vec<u8>]) -> Vec<u8> {
        self.reached.lock().unwrap().clear();
        for some in all.chunks(CONCURRENT_TUNNELS) {
            let tunnels: Vec<TcpStream> = some
                .iter()
                .map(|bytes| {
                    let mut stream = TcpStream::connect(self.proxy).unwrap();
                    stream.set_read_timeout(Some(Duration::from_secs(60))).unwrap();
                    let connect = format!("CONNECT a.test:{} HTTP/1.1\r\n\r\n", self.port);
                    stream.write_all(&[connect.as_bytes(), bytes].concat()).unwrap();
                    stream.shutdown(std::net::Shutdown::Write).unwrap();
                    stream
                })
                .collect();
            for mut stream in tunnels {
                let _ = stream.read_to_end(&mut Vec::new());
            }
        }
        self.reached.lock().unwrap().clone()
    }
}

/// A request for `b.test`, in which every part that could name a host names this one.
fn for_b() -> impl Strategy<Value = Vec<u8>> {
    let one_of = |all: &'static [&'static [u8]]| prop::sample::select(all);
    let parts = (
        one_of(&[b"", b"\r\n", b"\n\n", b" ", b"\t", b"\x0b", b"\xa0"]),
        one_of(&[b"GET", b"get", b"G", b"POST", b"M-SEARCH", b"OPTIONS", b"CONNECT", b"PRI", b"X!"]),
        one_of(&[b" ", b"\t", b"  ", b" \t ", b"\x0b", b"\x0c", b"\xa0", b"\x85", b"\x1f"]),
        one_of(&[
            b"http://b.test/",
            b"HTTP://b.test/",
            b"http://u:p@b.test/x",
            b"http://a.test@b.test/",
            b"http://b.test",
            b"http:b.test/",
            b"https://b.test/",
            b"//b.test/",
            b"\\\\b.test/",
            b"/x",
            b"x://b.test/",
        ]),
        one_of(&[
            b"",
            b" HTTP/0.9",
            b" HTTP/1.0",
            b" HTTP/1.1",
            b"\tHTTP/1.1",
            b"  HTTP/1.1",
            b" http/1.1",
            b" HTTP/2.0",
            b" HTTP/1.1 x",
            b" HTTP/1.1\0",
            b" HTTP/",
        ]),
        one_of(&[b"\r\n", b"\n", b"\r", b"\r\r\n", b" \r\n", b""]),
        one_of(&[
            b"Host: b.test\r\n\r\n",
            b"Host: b.test\n\n",
            b"host:b.test\r\n\r\n",
            b"Host: a.test\r\nHost: b.test\r\n\r\n",
            b"Host: a.test@b.test\r\n\r\n",
            b" Host: b.test\r\n\r\n",
            b"\r\n",
            b"",
        ]),
    );
    parts.prop_map(|(front, method, blank, target, version, end, rest)| {
        [front, method, blank, target, version, end, rest].concat()
    })
}

fn many(of: impl Strategy<Value = Vec<u8>>, count: usize) -> Vec<Vec<u8>> {
    let mut runner = TestRunner::deterministic();
    (0..count).map(|_| of.new_tree(&mut runner).unwrap().current()).collect()
}

/// A ClientHello with this server name.
fn client_hello(name: &[u8]) -> Vec<u8> {
    let sized = |size: usize, data: &[u8]| {
        let length = u32::try_from(data.len()).expect("a short message").to_be_bytes();
        [&length[4 - size..], data].concat()
    };
    let entry = sized(2, &[&[0][..], &sized(2, name)].concat());
    let extensions = sized(2, &[&[0, 0][..], &sized(2, &entry)].concat());
    let body = [&[3, 3][..], &[7; 32], &[0, 0, 2, 0x13, 1, 1, 0], &extensions].concat();
    let message = [&[1][..], &sized(3, &body)].concat();
    [&[22, 3, 1][..], &sized(2, &message)].concat()
}

fn names_b(bytes: &[u8]) -> Option<String> {
    let text = String::from_utf8_lossy(bytes);
    text.find("b.test")
        .map(|at| text[text.floor_char_boundary(at.saturating_sub(80))..].chars().take(160).collect())
}

#[test]
fn tunnel_on_http_port_passes_own_host_only() {
    let Some(both) = Both::at(&http::HTTP_PORTS) else {
        println!("skipped: no address besides the loopback, or none of HTTP's ports is free");
        return;
    };
    let port = both.port;
    let good = format!("GET /good HTTP/1.1\r\nHost: a.test:{port}\r\n\r\n");
    let body = format!("POST /good HTTP/1.1\r\nHost: a.test:{port}\r\nContent-Length: 3\r\n\r\nabc");
    // Preceding bytes: data that is not HTTP, and whole requests that are allowed.
    let hello = client_hello(b"a.test");
    let fronts: [&[u8]; 13] = [
        &hello,
        b"",
        b"\0",
        b"\xef\xbb\xbf",
        b"SSH-2.0-x\r\n",
        b"PROXY TCP4 1.1.1.1 1.1.1.1 1 1\r\n",
        b"\x05\x01\x00\x05\x01\x00\x03\x06b.test\x00\x50",
        b"\x04\x01\x00\x50\x00\x00\x00\x01\x00b.test\x00",
        b"PRI * HTTP/2.0\r\n\r\nSM\r\n\r\n",
        b"\x15\x03\x01\x00\x02\x01Z",
        b"\x80\x2e\x01\x03\x01",
        good.as_bytes(),
        body.as_bytes(),
    ];
    let front = prop::sample::select(fronts.map(<[u8]>::to_vec).to_vec());
    let all = many((front, for_b()).prop_map(|(front, rest)| [front, rest].concat()), 1200);
    let reached = both.reached(&all);
    assert_eq!(names_b(&reached), None);
    assert!(reached.windows(9).any(|w| w == b"GET /good"), "what is meant for it arrives");
    assert!(reached.windows(hello.len()).any(|w| w == hello), "its first message of TLS arrives");
}

#[test]
fn tunnel_on_other_port_passes_no_request() {
    let Some(both) = Both::at(&[0]) else {
        println!("skipped: no address besides the loopback");
        return;
    };
    let all = many(for_b(), 1200);
    assert_eq!(names_b(&both.reached(&all)), None);
    let hello = client_hello(b"a.test");
    let behind: Vec<Vec<u8>> = all[..60].iter().map(|rest| [&hello, rest.as_slice()].concat()).collect();
    assert_eq!(names_b(&both.reached(&behind)), None);
    // Data without any such request passes.
    for bytes in [
        &b"SSH-2.0-x\r\n"[..],
        b"EHLO me\r\n",
        b"*1\r\n$4\r\nPING\r\n",
        b"\0\0\0\x08\x04\xd2\x16\x2f",
        b"QUIT",
    ] {
        assert_eq!(both.reached(&[bytes.to_vec()]), bytes);
    }
}
