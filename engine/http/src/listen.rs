//! Listening on an address that is safe to serve on, and the bounds of its connections.

use std::net::SocketAddr;
use std::sync::Arc;
use std::time::Duration;

use axum::Router;
use axum::response::Response;
use hyper::service::{Service as _, service_fn};
use hyper_util::rt::{TokioIo, TokioTimer};
use hyper_util::server::graceful::GracefulShutdown;
use hyper_util::service::TowerToHyperService;
use nix::sys::resource::{Resource, getrlimit};
use tokio::net::TcpListener;

use crate::tokens::Tokens;
use crate::unauthenticated::Strangers;

/// Maximum number of connections, of which at most a quarter may be without a token (see
/// [`crate::unauthenticated`]). Half of our descriptor limit when that is lower, since runs need descriptors too.
const MAX_CONNECTIONS: usize = 1024;
/// Timeout for the headers of a request.
const HEADERS_TIMEOUT: Duration = Duration::from_secs(10);
/// Maximum size of the headers of a request, in bytes.
const MAX_HEADER_BYTES: usize = 64 * 1024;
/// Time limit for sending the last answers when the server ends.
pub const LAST_ANSWERS_TIMEOUT: Duration = Duration::from_secs(3);

/// Options for serving over HTTP.
#[derive(Debug)]
pub struct HttpOptions {
    /// Address; port 0 for any free port. With a passed socket, the address of that socket.
    pub address: SocketAddr,
    /// A socket that is already listening.
    pub passed: Option<std::net::TcpListener>,
    /// Tokens of the callers. `None` allows every client, on loopback only.
    pub tokens: Option<Tokens>,
    /// Names by which clients may address this server, besides those of loopback and the address.
    pub hosts: Vec<String>,
    /// Serve beyond loopback without encryption, which a proxy in front provides.
    pub plain: bool,
}

/// Reason why serving is refused or fails.
#[derive(Debug, thiserror::Error)]
pub enum HttpError {
    /// No tokens beyond loopback.
    #[error(
        "‹no_auth› lets everybody in, and {0} can be reached from other machines; use 127.0.0.1, or tokens"
    )]
    Open(SocketAddr),
    /// No encryption beyond loopback.
    #[error(
        "{0} can be reached from other machines, and tokens would go there unencrypted; \
         use 127.0.0.1 behind a proxy that speaks TLS, or say ‹plain_http› if the network is yours alone"
    )]
    Plain(SocketAddr),
    /// Metrics beyond loopback without protection.
    #[error(
        "metrics at {0} could be read from other machines; use 127.0.0.1, or ‹http› with tokens and ‹plain_http›: \
         whoever asks for them beyond loopback needs a token too"
    )]
    Metrics(SocketAddr),
    /// The address cannot be bound.
    #[error("{address} cannot be listened on: {error}")]
    Bind {
        /// The address.
        address: SocketAddr,
        /// Error of the system call.
        error: std::io::Error,
    },
}

/// A server that listens and does not respond yet.
#[derive(Debug)]
pub struct Listening {
    listener: TcpListener,
    address: SocketAddr,
    options: HttpOptions,
}

/// Starts listening.
///
/// # Errors
/// [`HttpError::Bind`] when the address cannot be bound; other variants when the options are unsafe.
pub async fn listen(mut options: HttpOptions) -> Result<Listening, HttpError> {
    let asked = options.address;
    if !asked.ip().is_loopback() {
        if options.tokens.is_none() {
            return Err(HttpError::Open(asked));
        }
        if !options.plain {
            return Err(HttpError::Plain(asked));
        }
    }
    let bad = |error| HttpError::Bind { address: asked, error };
    let listener = match options.passed.take() {
        Some(passed) => TcpListener::from_std(passed),
        None => TcpListener::bind(asked).await,
    };
    let listener = listener.map_err(bad)?;
    let address = listener.local_addr().map_err(bad)?;
    Ok(Listening { listener, address, options })
}

impl Listening {
    /// Address of the socket, with its port.
    #[must_use]
    pub const fn address(&self) -> SocketAddr {
        self.address
    }

    /// Options that the socket was made with.
    #[must_use]
    pub const fn options(&self) -> &HttpOptions {
        &self.options
    }

    /// Serves `app` until `stop` resolves; `close` then ends the waiting of open requests. `counting` receives the status of each
    /// response. A handler marks its connection as one with a token by [`crate::Connection::show_token`], found in the request's extensions.
    pub async fn serve<F: Future<Output = ()>>(
        self,
        app: Router,
        stop: impl Future<Output = ()>,
        close: impl FnOnce() -> F,
        counting: impl Fn(u16) + Clone + Send + Sync + 'static,
    ) {
        let app = app.layer(axum::middleware::map_response(move |response: Response| {
            counting(response.status().as_u16());
            std::future::ready(response)
        }));
        let descriptors = getrlimit(Resource::RLIMIT_NOFILE).map_or(u64::MAX, |(soft, _)| soft);
        let places = Strangers::new(connections(descriptors));
        let graceful = GracefulShutdown::new();
        let mut stop = std::pin::pin!(stop);
        loop {
            let accepted = tokio::select! {
                accepted = self.listener.accept() => accepted,
                () = &mut stop => break,
            };
            let Ok((stream, from)) = accepted else {
                // Probably out of descriptors, of which some will be closed.
                tokio::time::sleep(Duration::from_millis(50)).await;
                continue;
            };
            let _ = stream.set_nodelay(true);
            let place = places.enter(from.ip());
            let (app, with) = (TowerToHyperService::new(app.clone()), Arc::clone(&place));
            let service = service_fn(move |mut request: hyper::Request<hyper::body::Incoming>| {
                request.extensions_mut().insert(Arc::clone(&with));
                app.call(request)
            });
            let connection = graceful.watch(http1().serve_connection(TokioIo::new(stream), service));
            tokio::spawn(async move {
                let ended = tokio::select! {
                    ended = connection => ended,
                    // Another connection without a token took its slot.
                    () = place.ended() => Ok(()),
                };
                if let Err(error) = ended {
                    tracing::debug!("a connection ended: {error}");
                }
            });
        }
        drop(self.listener);
        close().await;
        let _ = tokio::time::timeout(LAST_ANSWERS_TIMEOUT, graceful.shutdown()).await;
    }
}

/// Settings for reading a connection.
#[must_use]
pub fn http1() -> hyper::server::conn::http1::Builder {
    let mut builder = hyper::server::conn::http1::Builder::new();
    builder.timer(TokioTimer::new()).header_read_timeout(HEADERS_TIMEOUT).max_buf_size(MAX_HEADER_BYTES);
    builder
}

/// Maximum number of connections for a process with this descriptor limit.
fn connections(descriptors: u64) -> usize {
    usize::try_from(descriptors / 2).map_or(MAX_CONNECTIONS, |half| half.clamp(1, MAX_CONNECTIONS))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn connection_limit_leaves_descriptors_for_runs() {
        for (descriptors, want) in
            [(0, 1), (256, 128), (1024, 512), (20_000, MAX_CONNECTIONS), (u64::MAX, MAX_CONNECTIONS)]
        {
            assert_eq!(connections(descriptors), want, "{descriptors}");
        }
    }
}
