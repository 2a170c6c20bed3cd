//! The way to hosts that hotcell itself asks for a run, such as one that makes tokens: checked as a run's own connections are.

use std::net::{IpAddr, SocketAddr};
use std::sync::Arc;
use std::time::Duration;

use tokio::net::TcpStream;
use tokio::time::timeout;

use crate::checked::{check, is_own};
use crate::host::Host;
use crate::resolve::{Resolver, System};
use crate::route::github_app::{Connecting, Reach};
use crate::rule::{AllowList, Place};
use crate::upstream::Upstream;

/// Time for a connection.
const CONNECT_TIMEOUT: Duration = Duration::from_secs(10);

/// Where names are, and through whom hosts are reached. The default is the system's names, and directly.
#[derive(Clone, Debug, Default)]
pub struct Way {
    hosts: Arc<AllowList>,
    upstream: Option<Upstream>,
}

impl Way {
    /// A run's way: rules `NAME=ADDRESS:PORT` say where a name is, also at a private address.
    #[must_use]
    pub fn new(hosts: &AllowList, upstream: Option<&Upstream>) -> Self {
        Self { hosts: Arc::new(hosts.clone()), upstream: upstream.cloned() }
    }

    async fn open(&self, name: &str, port: u16) -> Result<TcpStream, String> {
        let place = self.hosts.place(&Host::Name(name.to_owned()), port).unwrap_or(Place::Resolve);
        let (found, named): (Vec<IpAddr>, bool) = match (place, &self.upstream) {
            (Place::At(address), _) => (vec![address], true),
            (Place::Resolve, Some(upstream)) => return upstream.open(name, port, CONNECT_TIMEOUT).await,
            (Place::Resolve, None) => {
                let found = System.resolve(name).await;
                (found.map_err(|e| format!("it has no address: {e}"))?, false)
            }
        };
        let mut why = "it has no address".to_owned();
        for address in found {
            if let Err(what) = check(address, named, !named && is_own(address)) {
                why = format!("it is at {address}, {what}");
                continue;
            }
            match timeout(CONNECT_TIMEOUT, TcpStream::connect(SocketAddr::new(address, port))).await {
                Ok(Ok(stream)) => return Ok(stream),
                Ok(Err(e)) => why = e.to_string(),
                Err(_) => why = "nobody answers".to_owned(),
            }
        }
        Err(why)
    }
}

impl Reach for Way {
    fn connect<'a>(&'a self, name: &'a str, port: u16) -> Connecting<'a> {
        Box::pin(self.open(name, port))
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[tokio::test]
    async fn addresses_are_checked() {
        let why = Way::default().connect("localhost", 443).await.unwrap_err();
        assert!(why.starts_with("it is at "), "{why}");
    }
}
