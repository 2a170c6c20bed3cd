//! Listening for one reverse proxy that signs people in. Whether a connection is the proxy's is decided by what the kernel says about the other end, and
//! never by what a request contains.

use std::io;
use std::net::{IpAddr, SocketAddr};
use std::os::unix::fs::{FileTypeExt, PermissionsExt};
use std::path::{Path, PathBuf};
use std::sync::Arc;

use axum::Router;
use hyper::service::{Service as _, service_fn};
use hyper_util::rt::TokioIo;
use hyper_util::server::graceful::GracefulShutdown;
use hyper_util::service::TowerToHyperService;
use tokio::io::{AsyncRead, AsyncWrite};
use tokio::net::{TcpListener, UnixListener};
use tokio::sync::Semaphore;

use crate::listen::{LAST_ANSWERS_TIMEOUT, http1};

/// Maximum number of connections. Event streams stay open, one for each open page.
const MAX_CONNECTIONS: usize = 256;
/// Maximum number of connections that are not the proxy's: each gets one answer, which says so. They take no place of the proxy's.
const MAX_STRANGERS: usize = 16;
/// Mode of a socket whose peers are known by their user.
const FOR_ALL: u32 = 0o666;
/// Mode of a socket for the own user only.
const FOR_ONE: u32 = 0o600;

/// Socket on which a proxy connects.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum ProxySocket {
    /// A Unix socket, and the users whose processes are the proxy.
    Unix {
        /// Path; a socket without a server is replaced.
        path: PathBuf,
        /// User ids.
        uids: Vec<u32>,
    },
    /// An address, and the addresses of the proxy.
    Tcp {
        /// Address with its port.
        address: SocketAddr,
        /// Addresses from which the proxy connects.
        peers: Vec<IpAddr>,
    },
}

/// Whether the connection of a request is the proxy's: in the extensions of each request.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct FromProxy(pub bool);

/// A server that listens for a proxy.
#[derive(Debug)]
pub struct ProxyListening {
    socket: ProxySocket,
    bound: Bound,
}

#[derive(Debug)]
enum Bound {
    Unix(UnixListener),
    Tcp(TcpListener),
}

impl ProxySocket {
    /// Whether a process of this user is the proxy.
    #[must_use]
    pub fn believes_user(&self, uid: u32) -> bool {
        matches!(self, Self::Unix { uids, .. } if uids.contains(&uid))
    }

    /// Whether a connection from this address is the proxy's.
    #[must_use]
    pub fn believes_address(&self, from: IpAddr) -> bool {
        // An IPv4 peer of a socket for both families.
        matches!(self, Self::Tcp { peers, .. } if peers.iter().any(|peer| peer.to_canonical() == from.to_canonical()))
    }

    /// Starts listening. Needs a Tokio runtime.
    ///
    /// # Errors
    /// The error of the system call, or that a file or a running server is at the path.
    pub async fn listen(self) -> io::Result<ProxyListening> {
        let bound = match &self {
            Self::Unix { path, uids } => Bound::Unix(unix(path, uids).await?),
            Self::Tcp { address, .. } => Bound::Tcp(TcpListener::bind(address).await?),
        };
        Ok(ProxyListening { socket: self, bound })
    }
}

async fn unix(path: &Path, uids: &[u32]) -> io::Result<UnixListener> {
    if let Ok(there) = path.symlink_metadata() {
        if !there.file_type().is_socket() {
            return Err(io::Error::other("a file is there that is not a socket"));
        }
        if tokio::net::UnixStream::connect(path).await.is_ok() {
            return Err(io::Error::new(io::ErrorKind::AddrInUse, "another server answers there"));
        }
        std::fs::remove_file(path)?;
    }
    let listener = UnixListener::bind(path)?;
    let own = nix::unistd::geteuid().as_raw();
    let mode = if uids.iter().all(|uid| *uid == own) { FOR_ONE } else { FOR_ALL };
    std::fs::set_permissions(path, std::fs::Permissions::from_mode(mode))?;
    Ok(listener)
}

impl ProxyListening {
    /// Serves `app` until `stop` resolves.
    pub async fn serve(self, app: Router, stop: impl Future<Output = ()>) {
        let places = Arc::new(Semaphore::new(MAX_CONNECTIONS));
        let strangers = Arc::new(Semaphore::new(MAX_STRANGERS));
        let graceful = GracefulShutdown::new();
        let mut stop = std::pin::pin!(stop);
        loop {
            let accepted = tokio::select! {
                accepted = self.accept(&app, &graceful) => accepted,
                () = &mut stop => break,
            };
            match accepted {
                Ok((connection, is_known)) => {
                    let place = match is_known {
                        true => tokio::select! {
                            place = Arc::clone(&places).acquire_owned() => place.ok(),
                            () = &mut stop => break,
                        },
                        // Any user of the host may connect to the socket: those who come now go without an answer.
                        false => Arc::clone(&strangers).try_acquire_owned().ok(),
                    };
                    let Some(place) = place else { continue };
                    tokio::spawn(async move {
                        connection.await;
                        drop(place);
                    });
                }
                // Probably out of descriptors, of which some will be closed.
                Err(_) => tokio::time::sleep(std::time::Duration::from_millis(50)).await,
            }
        }
        let _ = tokio::time::timeout(LAST_ANSWERS_TIMEOUT, graceful.shutdown()).await;
        if let ProxySocket::Unix { path, .. } = &self.socket {
            let _ = std::fs::remove_file(path);
        }
    }

    async fn accept(
        &self,
        app: &Router,
        graceful: &GracefulShutdown,
    ) -> io::Result<(std::pin::Pin<Box<dyn Future<Output = ()> + Send>>, bool)> {
        match &self.bound {
            Bound::Unix(listener) => {
                let (stream, _) = listener.accept().await?;
                // A peer of unknown user is not the proxy.
                let known = stream.peer_cred().is_ok_and(|peer| self.socket.believes_user(peer.uid()));
                Ok((Box::pin(connection(stream, known, app, graceful)), known))
            }
            Bound::Tcp(listener) => {
                let (stream, from) = listener.accept().await?;
                let _ = stream.set_nodelay(true);
                let known = self.socket.believes_address(from.ip());
                Ok((Box::pin(connection(stream, known, app, graceful)), known))
            }
        }
    }
}

/// Answers the requests of one connection.
fn connection<S: AsyncRead + AsyncWrite + Unpin + Send + 'static>(
    stream: S,
    known: bool,
    app: &Router,
    graceful: &GracefulShutdown,
) -> impl Future<Output = ()> + Send + 'static {
    let app = TowerToHyperService::new(app.clone());
    let service = service_fn(move |mut request: hyper::Request<hyper::body::Incoming>| {
        request.extensions_mut().insert(FromProxy(known));
        app.call(request)
    });
    let serving = graceful.watch(http1().keep_alive(known).serve_connection(TokioIo::new(stream), service));
    async move {
        if let Err(error) = serving.await {
            tracing::debug!("a connection ended: {error}");
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn proxy_is_known_by_user_or_address_only() {
        let ip = |text: &str| text.parse::<IpAddr>().unwrap();
        let unix = ProxySocket::Unix { path: "/x".into(), uids: vec![33] };
        let tcp = ProxySocket::Tcp { address: ([10, 0, 0, 4], 80).into(), peers: vec![ip("10.0.0.5")] };
        for (socket, uid, from, want) in [
            (&unix, 33, "10.0.0.5", (true, false)),
            (&unix, 0, "127.0.0.1", (false, false)),
            (&tcp, 33, "10.0.0.5", (false, true)),
            (&tcp, 33, "::ffff:10.0.0.5", (false, true)),
            (&tcp, 33, "10.0.0.6", (false, false)),
        ] {
            assert_eq!((socket.believes_user(uid), socket.believes_address(ip(from))), want, "{uid} {from}");
        }
    }

    /// First line of the answer on a connection; empty when it was closed without one.
    async fn asked(stream: &mut tokio::net::UnixStream) -> String {
        use tokio::io::{AsyncReadExt as _, AsyncWriteExt as _};
        let _ = stream.write_all(b"GET / HTTP/1.1\r\nHost: x\r\n\r\n").await;
        let mut answer = vec![0; 1000];
        let read = stream.read(&mut answer).await.unwrap_or(0);
        String::from_utf8_lossy(&answer[..read]).lines().next().unwrap_or_default().to_owned()
    }

    async fn serving(uids: Vec<u32>, path: &Path) -> tokio::task::JoinHandle<()> {
        let listening = ProxySocket::Unix { path: path.to_owned(), uids }.listen().await.unwrap();
        let app = Router::new().fallback(|| async { "hello" });
        tokio::spawn(listening.serve(app, std::future::pending()))
    }

    #[tokio::test]
    async fn strangers_get_one_answer_and_are_few() {
        let dir = tempfile::tempdir().unwrap();
        let (path, own) = (dir.path().join("s"), nix::unistd::geteuid().as_raw());
        let server = serving(vec![own + 1], &path).await;
        let connect = || tokio::net::UnixStream::connect(&path);
        let mut silent = Vec::new();
        for _ in 0..MAX_STRANGERS {
            silent.push(connect().await.unwrap());
        }
        // One more than there are places: it is closed.
        assert_eq!(asked(&mut connect().await.unwrap()).await, "");
        // One that spoke has its answer, and leaves its place to another.
        let mut first = silent.remove(0);
        assert_eq!(asked(&mut first).await, "HTTP/1.1 200 OK");
        assert_eq!(asked(&mut first).await, "");
        let until = tokio::time::Instant::now() + std::time::Duration::from_secs(5);
        while asked(&mut connect().await.unwrap()).await.is_empty() {
            assert!(tokio::time::Instant::now() < until);
        }
        server.abort();
    }

    #[tokio::test]
    async fn proxy_keeps_its_connections() {
        let dir = tempfile::tempdir().unwrap();
        let path = dir.path().join("s");
        let server = serving(vec![nix::unistd::geteuid().as_raw()], &path).await;
        let mut all = Vec::new();
        for _ in 0..2 * MAX_STRANGERS {
            all.push(tokio::net::UnixStream::connect(&path).await.unwrap());
        }
        for stream in &mut all {
            assert_eq!(asked(stream).await, "HTTP/1.1 200 OK");
            assert_eq!(asked(stream).await, "HTTP/1.1 200 OK");
        }
        server.abort();
    }
}
