//! The only way out of a sandbox: sockets on its loopback, which somebody outside serves.
//!
//! A sandbox of the network [`Proxy`](crate::Network::Proxy) has no route either. What it has is three sockets that listen
//! in its own network namespace and that were handed out of it before its program began. Whoever serves them decides what
//! is reached; when nobody does, they are closed, and every connection is refused.

use std::fmt;
use std::io;
use std::net::{TcpListener, UdpSocket};
use std::os::fd::OwnedFd;
use std::sync::Arc;

use hotcell_launcher::wire::PROXY_PORT;

use crate::outcome::Denial;

/// The sockets of one sandbox.
#[derive(Debug)]
pub struct Sockets {
    /// For a proxy: what the variables `HTTP_PROXY` and so on name inside.
    pub proxy: TcpListener,
    /// For questions about names: what `/etc/resolv.conf` names inside.
    pub names: UdpSocket,
    /// The same, by TCP.
    pub names_by_stream: TcpListener,
}

impl Sockets {
    /// From descriptors in the order of the launcher's message.
    pub(crate) fn of(fds: Vec<OwnedFd>) -> Option<Self> {
        let [proxy, names, names_by_stream] = fds.try_into().ok()?;
        Some(Self { proxy: proxy.into(), names: names.into(), names_by_stream: names_by_stream.into() })
    }
}

/// Serves the sockets of sandboxes.
pub trait Proxy: fmt::Debug + Send + Sync {
    /// Serves one sandbox, from within a runtime of tokio, until the run has ended.
    ///
    /// # Errors
    /// When it cannot; the run is ended then.
    fn serve(&self, sockets: Sockets) -> io::Result<Box<dyn Serving>>;
}

/// A sandbox that is being served. Dropping it must close its sockets.
pub trait Serving: Send + Sync {
    /// Ends it; what was denied, for the outcome.
    fn finish(self: Box<Self>) -> Vec<Denial>;
}

/// The proxy of a job. Two are equal when they are one.
#[derive(Clone)]
pub struct SharedProxy(Arc<dyn Proxy>);

impl SharedProxy {
    /// A proxy that jobs can share; each run is served by itself.
    pub fn new(proxy: impl Proxy + 'static) -> Self {
        Self(Arc::new(proxy))
    }

    pub(crate) fn serve(&self, sockets: Sockets) -> io::Result<Box<dyn Serving>> {
        self.0.serve(sockets)
    }
}

impl PartialEq for SharedProxy {
    fn eq(&self, other: &Self) -> bool {
        Arc::ptr_eq(&self.0, &other.0)
    }
}

impl fmt::Debug for SharedProxy {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        self.0.fmt(f)
    }
}

/// The variables by which programs find their proxy. `ALL_PROXY` names it as a proxy of HTTP too: clients that know nothing of
/// SOCKS fail on its scheme. (Node.js reads them when it is told to.)
pub(crate) fn variables() -> impl Iterator<Item = (&'static str, String)> {
    let names = ["HTTP_PROXY", "HTTPS_PROXY", "ALL_PROXY", "http_proxy", "https_proxy", "all_proxy"];
    let none = ["NO_PROXY", "no_proxy"].map(|name| (name, "localhost,127.0.0.1,::1".to_owned()));
    let at = names.map(|name| (name, format!("http://127.0.0.1:{PROXY_PORT}")));
    at.into_iter().chain(none).chain([("NODE_USE_ENV_PROXY", "1".to_owned())])
}
