//! Connects to a host and port: finds the rule, resolves the name, checks the addresses, and connects to a
//! checked address.

use std::net::{IpAddr, SocketAddr};
use std::time::Duration;

use tokio::net::TcpStream;
use tokio::time::timeout;

use crate::checked::{check, is_own};
use crate::error::ConnectError;
use crate::host::Host;
use crate::judge::Tunnel;
use crate::ledger::Operation;
use crate::proxy::Shared;
use crate::rule::Place;

/// Maximum number of addresses of one name that are checked.
const MAX_ADDRESSES: usize = 16;

/// Time to look up a name that the operator's own proxy looks up as well, and that need not be known here.
const LOOK_UP_TIMEOUT: Duration = Duration::from_secs(3);

impl Shared {
    /// Addresses of a host that a rule allows, resolved and checked; never empty.
    pub async fn addresses(
        &self,
        operation: Operation,
        host: &Host,
        place: Place,
        target: &str,
    ) -> Result<Vec<IpAddr>, ConnectError> {
        let (found, named) = match (place, host) {
            (Place::At(address), _) | (Place::Resolve, &Host::Address(address)) => (vec![address], true),
            (Place::Resolve, Host::Name(name)) => {
                self.may_resolve(name).map_err(|why| self.deny(operation, target, Some(why)))?;
                let looked_up = timeout(self.limits.connect, self.resolver.resolve(name)).await;
                let found = looked_up
                    .map_err(|_| ConnectError::Unreachable(format!("{name}: no name server answers")))?;
                (found.map_err(|e| ConnectError::Unreachable(format!("{name} has no address: {e}")))?, false)
            }
        };
        let mut good = Vec::new();
        let mut bad = None;
        for address in found.into_iter().take(MAX_ADDRESSES) {
            match check(address, named, !named && is_own(address)) {
                Ok(()) => good.push(address),
                Err(what) => bad = bad.or(Some((address, what))),
            }
        }
        match (good.is_empty(), bad) {
            (false, _) => Ok(good),
            (true, Some((address, what))) => {
                Err(self.deny(operation, target, Some(format!("it is at {address}, {what}"))))
            }
            (true, None) => Err(ConnectError::Unreachable(format!("{host} has no address"))),
        }
    }

    /// Connects to a host if a rule allows whatever is sent to it.
    pub async fn connect(
        &self,
        operation: Operation,
        host: &Host,
        port: u16,
    ) -> Result<TcpStream, ConnectError> {
        let target = format!("{host}:{port}");
        match self.allow.tunnel(host, port) {
            Tunnel::Open(place) => self.connect_at(operation, host, port, place).await,
            Tunnel::Unlisted => Err(self.deny(operation, &target, None)),
            Tunnel::Denied(why) => Err(self.deny(operation, &target, Some(why))),
        }
    }

    /// Checks a name that another proxy will look up: one that is known here has to have an address that may be connected to.
    async fn not_known_as_private(
        &self,
        operation: Operation,
        name: &str,
        target: &str,
    ) -> Result<(), ConnectError> {
        self.may_resolve(name).map_err(|why| self.deny(operation, target, Some(why)))?;
        let Ok(Ok(found)) = timeout(LOOK_UP_TIMEOUT, self.resolver.resolve(name)).await else {
            return Ok(());
        };
        let refused =
            |address: &IpAddr| check(*address, false, is_own(*address)).err().map(|what| (*address, what));
        match found.iter().find_map(refused) {
            Some((address, what)) => {
                Err(self.deny(operation, target, Some(format!("it is at {address}, {what}"))))
            }
            None => Ok(()),
        }
    }

    /// Connects to a host that is allowed, and is to be looked for there. Its addresses are checked.
    pub async fn connect_at(
        &self,
        operation: Operation,
        host: &Host,
        port: u16,
        place: Place,
    ) -> Result<TcpStream, ConnectError> {
        let target = format!("{host}:{port}");
        if let (Some(upstream), Place::Resolve, Host::Name(name)) = (&self.upstream, place, host) {
            self.not_known_as_private(operation, name, &target).await?;
            let opened = upstream.open(name, port, self.limits.connect).await;
            return opened.map_err(|why| {
                // Programs rarely show the sentence of a proxy's answer.
                self.note(operation, format!("{target} (it is allowed, and not reached: {why})"));
                ConnectError::Unreachable(format!("{target}: {why}"))
            });
        }
        let mut addresses = self.addresses(operation, host, place, &target).await?;
        // A rule that denies an address holds for the names that lead there, too.
        let against = |address: &IpAddr| self.allow.excludes(&Host::Address(*address), port);
        if let Some(rule) = addresses.iter().find_map(against) {
            addresses.retain(|address| against(address).is_none());
            if addresses.is_empty() {
                return Err(self.deny(
                    operation,
                    &target,
                    Some(format!("its address is denied by the rule {rule}")),
                ));
            }
        }
        let unreachable = |why: String| ConnectError::Unreachable(format!("{target}: {why}"));
        let each = async {
            let mut last = None;
            for address in addresses {
                match TcpStream::connect(SocketAddr::new(address, port)).await {
                    Ok(stream) => return Ok(stream),
                    Err(e) => last = Some(e),
                }
            }
            Err(unreachable(last.map_or_else(|| "no address".to_owned(), |e| e.to_string())))
        };
        let stream = timeout(self.limits.connect, each).await;
        let stream = stream.map_err(|_| unreachable("nobody answers".to_owned()))??;
        let _ = stream.set_nodelay(true);
        tracing::debug!(target: "hotcell_contents", "{operation} {target}: connected to {:?}", stream.peer_addr());
        Ok(stream)
    }
}
