//! Measures what a secret's route and its interception cost, beside TLS to the same server without a proxy: in turn, in one process, with a
//! server on this host. Without arguments; prints a table.
//!
//! `cargo run --release -p hotcell-egress --example routes`

use std::error::Error;
use std::net::{IpAddr, Ipv4Addr, SocketAddr, TcpListener as StdListener, UdpSocket};
use std::path::{Path, PathBuf};
use std::sync::Arc;
use std::time::{Duration, Instant};

use hotcell_egress::redact::Spellings;
use hotcell_egress::route::rules::RequestRules;
use hotcell_egress::route::{Route, RunAuthority, Scheme};
use hotcell_egress::{Egress, Secret, Serving, Sockets};
use rustls::pki_types::pem::PemObject;
use rustls::pki_types::{CertificateDer, PrivateKeyDer, ServerName};
use rustls::{ClientConfig, RootCertStore, ServerConfig};
use tokio::io::{
    AsyncBufRead, AsyncBufReadExt, AsyncRead, AsyncReadExt, AsyncWrite, AsyncWriteExt, BufStream,
};
use tokio::net::{TcpListener, TcpStream};
use tokio_rustls::{TlsAcceptor, TlsConnector};

const VALUE: &[u8] = b"ghp_16C7e42F292c6912E7710c838347Ae178B4a";
/// Size of the large answer.
const LARGE: usize = 64 << 20;
/// Pace of the server that does not send as fast as it can, in bytes per second.
const PACE: f64 = 100e6;
/// Requests of each way on one connection, and first requests.
const REQUESTS: usize = 2000;
const FIRSTS: usize = 100;
/// Connections of the measurement of requests per second, and its time.
const CONNECTIONS: usize = 16;
const TIME: Duration = Duration::from_secs(3);

type Done<T> = Result<T, Box<dyn Error + Send + Sync>>;

trait Stream: AsyncBufRead + AsyncWrite + Send + Unpin {}
impl<T: AsyncBufRead + AsyncWrite + Send + Unpin> Stream for T {}

/// A stream whose heads are not read byte by byte from the kernel.
fn buffered<T: AsyncRead + AsyncWrite + Send + Unpin + 'static>(stream: T) -> Box<dyn Stream> {
    Box::new(BufStream::with_capacity(64 << 10, 1 << 10, stream))
}

/// How a client reaches the server.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum Way {
    Direct,
    Route,
    Intercepted,
}

/// Places and trust of the clients.
struct Place {
    server: SocketAddr,
    proxy: SocketAddr,
    to_server: TlsConnector,
    to_proxy: TlsConnector,
}

impl Place {
    fn name(&self) -> String {
        format!("api.test:{}", self.server.port())
    }

    async fn connect(&self, way: Way) -> Done<Box<dyn Stream>> {
        let to = if way == Way::Direct { self.server } else { self.proxy };
        let mut stream = TcpStream::connect(to).await?;
        stream.set_nodelay(true)?;
        let connector = match way {
            Way::Route => return Ok(buffered(stream)),
            Way::Direct => &self.to_server,
            Way::Intercepted => {
                stream.write_all(format!("CONNECT {} HTTP/1.1\r\n\r\n", self.name()).as_bytes()).await?;
                // Nothing follows the answer's head before the client speaks.
                let mut said = [0; 256];
                let read = stream.read(&mut said).await?;
                if !said[..read].starts_with(b"HTTP/1.1 200") {
                    return Err("the proxy opens no tunnel".into());
                }
                &self.to_proxy
            }
        };
        Ok(buffered(connector.connect(ServerName::try_from("api.test")?, stream).await?))
    }

    /// Sends a request and reads its answer; returns the length of its body.
    async fn ask(&self, stream: &mut Box<dyn Stream>, way: Way, path: &str) -> Done<usize> {
        let (prefix, host) = match way {
            Way::Route => ("/gh", self.proxy.to_string()),
            Way::Direct | Way::Intercepted => ("", self.name()),
        };
        let request = format!("GET {prefix}{path} HTTP/1.1\r\nHost: {host}\r\n\r\n");
        stream.write_all(request.as_bytes()).await?;
        stream.flush().await?;
        let head = head(stream).await?;
        let length = head.to_ascii_lowercase();
        let length = length.split("content-length: ").nth(1).and_then(|rest| rest.split("\r\n").next());
        let length: usize = length.ok_or("no length")?.parse()?;
        let (mut left, mut piece) = (length, vec![0; 64 << 10]);
        while left > 0 {
            let most = left.min(piece.len());
            match stream.read(&mut piece[..most]).await? {
                0 => return Err("the answer was cut off".into()),
                read => left -= read,
            }
        }
        Ok(length)
    }
}

/// Reads up to the end of a head, and no further.
async fn head(stream: &mut (impl AsyncBufRead + Unpin + ?Sized)) -> Done<String> {
    let mut text = String::new();
    while !text.ends_with("\r\n\r\n") {
        if stream.read_line(&mut text).await? == 0 {
            return Err(format!("the connection ended behind {text:?}").into());
        }
    }
    Ok(text)
}

/// Answers requests until the client ends.
async fn answers(mut stream: impl Stream) -> Done<()> {
    let piece: Vec<u8> =
        b"{\"name\": \"hotcell\", \"private\": false}, \n".iter().copied().cycle().take(64 << 10).collect();
    while let Ok(request) = head(&mut stream).await {
        let (length, paced) = match request.split(' ').nth(1) {
            Some("/large") => (LARGE, false),
            Some("/paced") => (LARGE, true),
            _ => (200, false),
        };
        stream.write_all(format!("HTTP/1.1 200 OK\r\nContent-Length: {length}\r\n\r\n").as_bytes()).await?;
        let (begin, mut sent) = (Instant::now(), 0);
        while sent < length {
            let most = piece.len().min(length - sent);
            stream.write_all(&piece[..most]).await?;
            sent += most;
            #[expect(clippy::cast_precision_loss, reason = "far below 2^52")]
            let due = Duration::from_secs_f64(sent as f64 / PACE);
            // A sleep of no time would last until the timer's next tick.
            if let Some(early) = due.checked_sub(begin.elapsed()).filter(|early| paced && !early.is_zero()) {
                tokio::time::sleep(early).await;
            }
        }
        stream.flush().await?;
    }
    Ok(())
}

fn pki(name: &str) -> PathBuf {
    Path::new(env!("CARGO_MANIFEST_DIR")).join("tests/pki").join(name)
}

fn trusting(root: CertificateDer<'static>) -> Done<TlsConnector> {
    let mut roots = RootCertStore::empty();
    roots.add(root)?;
    let provider = Arc::new(rustls::crypto::ring::default_provider());
    let config = ClientConfig::builder_with_provider(provider).with_safe_default_protocol_versions()?;
    let mut config = config.with_root_certificates(roots).with_no_client_auth();
    // Each first request is one of a new client.
    config.resumption = rustls::client::Resumption::disabled();
    Ok(TlsConnector::from(Arc::new(config)))
}

/// Starts the server and the proxy.
async fn place() -> Done<(Place, Serving)> {
    let socket = UdpSocket::bind((Ipv4Addr::UNSPECIFIED, 0))?;
    socket.connect((Ipv4Addr::new(203, 0, 113, 1), 9))?; // sends nothing
    let own: IpAddr = socket.local_addr()?.ip();
    let chain = CertificateDer::pem_file_iter(pki("host.pem"))?.collect::<Result<Vec<_>, _>>()?;
    let provider = Arc::new(rustls::crypto::ring::default_provider());
    let config = ServerConfig::builder_with_provider(provider).with_safe_default_protocol_versions()?;
    let config = config.with_no_client_auth();
    let config = config.with_single_cert(chain, PrivateKeyDer::from_pem_file(pki("host.key"))?)?;
    let acceptor = TlsAcceptor::from(Arc::new(config));
    let listener = TcpListener::bind((own, 0)).await?;
    let server = listener.local_addr()?;
    tokio::spawn(async move {
        while let Ok((stream, _)) = listener.accept().await {
            let acceptor = acceptor.clone();
            tokio::spawn(async move {
                let _ = stream.set_nodelay(true);
                if let Ok(stream) = acceptor.accept(stream).await {
                    let _ = answers(buffered(stream)).await;
                }
            });
        }
    });
    let binding = format!("api.test:{}", server.port()).parse()?;
    let (secret, rules) = (Secret::new(VALUE.to_vec())?, RequestRules::default());
    let route = Route::new("gh", binding, &Scheme::Bearer, &secret, rules, Some(&pki("root.pem")))?;
    let authority = RunAuthority::new(std::slice::from_ref(&route))?;
    let root = authority.certificate().to_vec().into();
    let list = format!("api.test={own}:{}", server.port()).parse()?;
    let proxy = StdListener::bind("127.0.0.1:0")?;
    let at = proxy.local_addr()?;
    let sockets = Sockets {
        proxy,
        names: UdpSocket::bind("127.0.0.1:0")?,
        names_by_stream: StdListener::bind("127.0.0.1:0")?,
        relays: Vec::new(),
    };
    let limits = hotcell_egress::Limits { bytes: u64::MAX, ..hotcell_egress::Limits::default() };
    let serving = Egress::new(list).limits(limits).routes([route]).intercept(authority).serve(sockets)?;
    let to_server = trusting(CertificateDer::from_pem_file(pki("root.pem"))?)?;
    Ok((Place { server, proxy: at, to_server, to_proxy: trusting(root)? }, serving))
}

/// Median of times, in milliseconds.
fn median(times: &mut [Duration]) -> f64 {
    times.sort();
    times[times.len() / 2].as_secs_f64() * 1e3
}

#[expect(clippy::cast_precision_loss, reason = "numbers of bytes and requests, far below 2^52")]
async fn measure() -> Done<()> {
    let load = std::fs::read_to_string("/proc/loadavg").unwrap_or_default();
    println!("load of the last minute: {}", load.split(' ').next().unwrap_or_default());
    let (place, _serving) = place().await?;
    let place = Arc::new(place);
    let ways = [Way::Direct, Way::Route, Way::Intercepted];

    let mut times = [const { Vec::new() }; 3];
    let mut streams = Vec::new();
    for way in ways {
        streams.push(place.connect(way).await?);
    }
    for round in 0..REQUESTS + 100 {
        for (number, way) in ways.into_iter().enumerate() {
            let begin = Instant::now();
            place.ask(&mut streams[number], way, "/").await?;
            if round >= 100 {
                times[number].push(begin.elapsed());
            }
        }
    }
    let [direct, route, intercepted] = times.each_mut().map(|times| median(times));
    println!("request on an open connection, p50: direct {direct:.3} ms");
    println!("  by a route        + {:.3} ms", route - direct);
    println!("  by interception   + {:.3} ms", intercepted - direct);

    let mut times = [const { Vec::new() }; 3];
    for _ in 0..FIRSTS {
        for (number, way) in ways.into_iter().enumerate() {
            let begin = Instant::now();
            let mut stream = place.connect(way).await?;
            place.ask(&mut stream, way, "/").await?;
            times[number].push(begin.elapsed());
        }
    }
    let [direct, route, intercepted] = times.each_mut().map(|times| median(times));
    println!("first request of a connection, p50: direct {direct:.3} ms");
    println!("  by a route        + {:.3} ms", route - direct);
    println!("  by interception   + {:.3} ms", intercepted - direct);

    for way in ways {
        let begin = Instant::now();
        let asking = (0..CONNECTIONS).map(|_| {
            let place = Arc::clone(&place);
            tokio::spawn(async move {
                let (mut stream, mut count) = (place.connect(way).await?, 0_usize);
                while begin.elapsed() < TIME {
                    place.ask(&mut stream, way, "/").await?;
                    count += 1;
                }
                Done::Ok(count)
            })
        });
        let mut all = 0;
        for one in asking.collect::<Vec<_>>() {
            all += one.await??;
        }
        println!(
            "requests per second, {CONNECTIONS} connections, {way:?}: {:.0}",
            all as f64 / begin.elapsed().as_secs_f64()
        );
    }

    for path in ["/paced", "/large"] {
        let mut times = [const { Vec::new() }; 3];
        for _ in 0..5 {
            for (number, way) in ways.into_iter().enumerate() {
                let mut stream = place.connect(way).await?;
                let begin = Instant::now();
                place.ask(&mut stream, way, path).await?;
                times[number].push(begin.elapsed());
            }
        }
        let speeds = times.each_mut().map(|times| LARGE as f64 / median(times) / 1e3);
        println!(
            "64 MiB from {path}: direct {:.0} MB/s, by a route {:.0} MB/s ({:.2} x), by interception {:.0} MB/s ({:.2} x)",
            speeds[0],
            speeds[1],
            speeds[1] / speeds[0],
            speeds[2],
            speeds[2] / speeds[0]
        );
    }

    let mut spellings = Spellings::default();
    spellings.add(VALUE);
    let base64 = b"ABCDEFGHIJKLMNOPQRSTUVWXYZabcdefghijklmnopqrstuvwxyz0123456789+/";
    let mut state = 1_u64;
    let mixed = |alphabet: &[u8], state: &mut u64| {
        *state = state.wrapping_mul(6_364_136_223_846_793_005).wrapping_add(1_442_695_040_888_963_407);
        alphabet[usize::try_from(*state >> 40).unwrap_or_default() % alphabet.len()]
    };
    let json =
        b"{\\\"name\\\": \\\"hotcell\\\", \\\"html\\\": \\\"&lt;a href=&quot;/x?y=%2F&quot;&gt;\\\"}\\n";
    let texts: [(&str, Vec<u8>); 2] = [
        ("base64", (0..LARGE / 4).map(|_| mixed(base64, &mut state)).collect()),
        ("escaped JSON and HTML", json.iter().copied().cycle().take(LARGE / 4).collect()),
    ];
    for (name, text) in texts {
        let begin = Instant::now();
        let (mut stream, mut length) = (spellings.stream(), 0);
        for piece in text.chunks(16 << 10) {
            length += stream.next(piece.to_vec()).len();
        }
        length += stream.end().len();
        assert_eq!(length, text.len());
        println!(
            "search for values in {name}: {:.0} MB/s",
            length as f64 / begin.elapsed().as_secs_f64() / 1e6
        );
    }
    Ok(())
}

fn main() -> Done<()> {
    tokio::runtime::Builder::new_multi_thread().worker_threads(2).enable_all().build()?.block_on(measure())
}
