//! The only way out of a sandbox: sockets on its loopback that are served from outside.
//!
//! A sandbox of the network [`Proxy`](crate::Network::Proxy) has no route either. What it has is three sockets that listen
//! in its own network namespace, and one for each [`Relay`], and that were handed out of it before its program began. The process that serves them decides what
//! is reached; without one, they are closed, and every connection is refused.

use std::fmt;
use std::io;
use std::net::{Ipv4Addr, TcpListener, UdpSocket};
use std::os::fd::OwnedFd;
use std::sync::Arc;

pub use hotcell_launcher::wire::PROXY_PORT;

use crate::outcome::{Denial, Requests};

/// The sockets of one sandbox.
#[derive(Debug)]
pub struct Sockets {
    /// Proxy socket; the variables `HTTP_PROXY` and so on point to it inside.
    pub proxy: TcpListener,
    /// DNS socket; `/etc/resolv.conf` points to it inside.
    pub names: UdpSocket,
    /// DNS socket for TCP.
    pub names_by_stream: TcpListener,
    /// Those of the relays, in the order of [`Shape::relays`](crate::Shape::relays).
    pub relays: Vec<TcpListener>,
}

/// A name of the made `/etc/hosts`, with a socket that listens at its address: for programs that know of no proxy.
#[derive(Clone, Debug, PartialEq, Eq, Hash)]
pub struct Relay {
    /// The name; letters, digits, `-`, `_` and dots.
    pub name: String,
    /// Address inside, one of `127.0.0.0/8` that is not `127.0.0.1`.
    pub address: Ipv4Addr,
    /// The port, at which nothing else listens.
    pub port: u16,
}

impl Relay {
    /// Why it cannot be made.
    pub(crate) fn wrong(&self) -> Option<String> {
        let letter = |b: u8| b.is_ascii_alphanumeric() || b"-_.".contains(&b);
        let Self { name, address, port } = self;
        if name.is_empty() || !name.bytes().all(letter) {
            return Some(format!("{name:?} is no name for a host"));
        }
        let own = address.is_loopback() && *address != Ipv4Addr::LOCALHOST && *port != 0;
        (!own).then(|| format!("{name} cannot be at {address}:{port} of the sandbox's own loopback"))
    }
}

impl Sockets {
    /// From descriptors in the order of the launcher's message.
    pub(crate) fn of(mut fds: impl Iterator<Item = OwnedFd>) -> Option<Self> {
        Some(Self {
            proxy: fds.next()?.into(),
            names: fds.next()?.into(),
            names_by_stream: fds.next()?.into(),
            relays: fds.map(Into::into).collect(),
        })
    }
}

/// Serves the sockets of sandboxes.
pub trait Proxy: fmt::Debug + Send + Sync {
    /// Serves one sandbox until its run has ended. Called within a tokio runtime.
    ///
    /// # Errors
    /// When the sockets cannot be served; the run is ended then.
    fn serve(&self, sockets: Sockets) -> io::Result<Box<dyn Serving>>;
}

/// A sandbox that is being served. Dropping it must close its sockets.
pub trait Serving: Send + Sync {
    /// Requests until now, for the outcome; `None` where there were none, and the run has no secrets.
    fn requests(&self) -> Option<Requests> {
        None
    }

    /// Stops serving. Returns the denials, for the outcome.
    fn finish(self: Box<Self>) -> Vec<Denial>;
}

/// The proxy of a job. Two values are equal when they refer to the same proxy.
#[derive(Clone)]
pub struct SharedProxy(Arc<dyn Proxy>);

impl SharedProxy {
    /// Wraps a proxy so that jobs can share it; each run is served separately.
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

/// The variables by which programs find their proxy. `ALL_PROXY` also gives an HTTP proxy: clients without
/// SOCKS support fail on a SOCKS scheme. (Node.js reads these variables only when told to.)
pub(crate) fn variables() -> impl Iterator<Item = (&'static str, String)> {
    let names = ["HTTP_PROXY", "HTTPS_PROXY", "ALL_PROXY", "http_proxy", "https_proxy", "all_proxy"];
    let none = ["NO_PROXY", "no_proxy"].map(|name| (name, "localhost,127.0.0.1,::1".to_owned()));
    let at = names.map(|name| (name, format!("http://127.0.0.1:{PROXY_PORT}")));
    at.into_iter().chain(none).chain([("NODE_USE_ENV_PROXY", "1".to_owned())])
}
