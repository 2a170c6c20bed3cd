//! Connections to the host of an intercepted HTTP/2 connection: one of HTTP/2 where the host offers it, shared by all streams, and else one
//! of HTTP/1.1 for each stream at work.

use std::collections::{BTreeMap, BTreeSet};
use std::sync::{Mutex, PoisonError};

use bytes::Bytes;
use h2::client::SendRequest;
use tokio::task::JoinSet;
use tokio::time::timeout;

use crate::end::End;
use crate::proxy::Shared;
use crate::route::head::Authority;
use crate::route::tls::Offer;
use crate::routed::Upstream;

/// Maximum size of the fields of a head or of trailers, as HTTP/2 counts them.
pub(crate) const MAX_HEAD_BYTES: u32 = 16 << 10;
/// Maximum number of open streams of a client's connection.
pub(crate) const STREAMS: u32 = 32;
/// Bytes of a body that a peer may send before they are taken, of a stream and of a connection: so many that streams which wait leave room for
/// the one that they wait for.
pub(crate) const STREAM_WINDOW: u32 = 64 << 10;
pub(crate) const CONNECTION_WINDOW: u32 = STREAMS * STREAM_WINDOW;
/// Memory for small frames that have not been taken yet, as the library counts it: 256 bytes each.
pub(crate) const SMALL_FRAMES: usize = 1 << 20;
/// Bytes of a stream that wait to be sent.
pub(crate) const SEND_BUFFER: usize = 64 << 10;
/// Maximum number of idle connections of HTTP/1.1 that are kept.
const MAX_IDLE: usize = 8;

/// Connections to one host, by route: each route has its own roots.
pub(crate) struct Hosts {
    host: String,
    port: u16,
    known: tokio::sync::Mutex<Known>,
    idle: Mutex<Vec<Upstream>>,
}

#[derive(Default)]
struct Known {
    /// Those of HTTP/2 that take further streams.
    two: BTreeMap<usize, (ConnectionNumber, SendRequest<Bytes>)>,
    /// Number of the last one that was opened.
    last: u64,
    /// Routes whose host has no HTTP/2.
    one: BTreeSet<usize>,
    /// Drive the connections, and end with this.
    drivers: JoinSet<()>,
}

/// Number of a connection of HTTP/2 among those to a host.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) struct ConnectionNumber(u64);

/// A way to send one request.
pub(crate) enum Open {
    /// By a connection that was kept, or a new one.
    One(Option<Upstream>),
    /// By a stream of a connection.
    Two(SendRequest<Bytes>, ConnectionNumber),
}

impl Hosts {
    /// No connections yet.
    pub fn new(host: &str, port: u16) -> Self {
        let (known, idle) = (tokio::sync::Mutex::default(), Mutex::default());
        Self { host: host.to_owned(), port, known, idle }
    }

    /// The host, as requests have to name it.
    pub fn authority(&self) -> Authority<'_> {
        Authority::Host(&self.host, self.port)
    }

    /// Keeps a connection for the next request.
    pub fn keep(&self, open: Upstream) {
        let mut idle = self.idle.lock().unwrap_or_else(PoisonError::into_inner);
        if idle.len() < MAX_IDLE {
            idle.push(open);
        }
    }

    /// A kept connection that the host has not closed. Those that it has closed are dropped: they would take the places of others.
    async fn kept(&self, route: usize) -> Option<Upstream> {
        let next = || {
            let mut idle = self.idle.lock().unwrap_or_else(PoisonError::into_inner);
            let at = idle.iter().rposition(|open| open.route == route)?;
            Some(idle.swap_remove(at))
        };
        while let Some(mut open) = next() {
            if open.is_usable().await {
                return Some(open);
            }
        }
        None
    }
}

impl Shared {
    /// A way to the host for a request of a route, by another connection than the one that refused its stream. The first request finds out which versions the
    /// host has, while others wait.
    pub(crate) async fn way_to(
        &self,
        hosts: &Hosts,
        number: usize,
        refused: Option<ConnectionNumber>,
    ) -> Result<Open, End> {
        let mut known = hosts.known.lock().await;
        if known.one.contains(&number) {
            return Ok(Open::One(hosts.kept(number).await));
        }
        if let Some((connection, open)) = known.two.get(&number) {
            let connection = *connection;
            // It is good as long as the host has neither ended it nor announced its end.
            match open.clone().ready().await {
                Ok(ready) if refused != Some(connection) => return Ok(Open::Two(ready, connection)),
                // It ends with its last stream.
                _ => known.two.remove(&number),
            };
        }
        // Those that have ended.
        while known.drivers.try_join_next().is_some() {}
        let tls = self.tls(number, Offer::Both).await?;
        if tls.get_ref().1.alpn_protocol() != Some(b"h2") {
            known.one.insert(number);
            return Ok(Open::One(Some(Upstream::new(number, tls))));
        }
        let mut builder = h2::client::Builder::new();
        builder
            .enable_push(false)
            // Until the host has said how many it takes: it would refuse those beyond.
            .initial_max_send_streams(1)
            .max_header_list_size(MAX_HEAD_BYTES)
            .initial_window_size(STREAM_WINDOW)
            .initial_connection_window_size(CONNECTION_WINDOW)
            .data_frame_budget(SMALL_FRAMES)
            .max_send_buffer_size(SEND_BUFFER);
        let failed = |why: String| {
            let binding = self.routes[number].binding();
            End::Said("502 Bad Gateway", format!("{}: {why}; nothing was sent", binding.authority()))
        };
        let (open, connection) = timeout(self.limits.connect, builder.handshake(tls))
            .await
            .map_err(|_| failed("HTTP/2 was not set up in time".to_owned()))?
            .map_err(|error| failed(format!("HTTP/2 failed: {error}")))?;
        known.drivers.spawn(async move {
            if let Err(error) = connection.await {
                tracing::debug!(target: "hotcell_contents", "a connection to a secret's host ended: {error}");
            }
        });
        known.last += 1;
        let connection = ConnectionNumber(known.last);
        known.two.insert(number, (connection, open.clone()));
        match open.ready().await {
            Ok(ready) => Ok(Open::Two(ready, connection)),
            Err(error) => Err(failed(format!("HTTP/2 failed: {error}"))),
        }
    }
}
