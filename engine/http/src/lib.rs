//! Serving HTTP to clients that are not trusted: listening, tokens, checks of a request's head, bounds of connections.
//!
//! ```no_run
//! # #[tokio::main(flavor = "current_thread")] async fn main() -> Result<(), hotcell_http::HttpError> {
//! use axum::{Router, routing::get};
//! use hotcell_http::{HttpOptions, listen};
//!
//! let address = ([127, 0, 0, 1], 0).into();
//! let options = HttpOptions { address, passed: None, tokens: None, hosts: Vec::new(), plain: false };
//! let app = Router::new().route("/", get(|| async { "ready" }));
//! listen(options).await?.serve(app, std::future::pending(), || async {}, |_status| ()).await;
//! # Ok(()) }
//! ```
//!
//! Beyond loopback a server needs tokens, and an operator who says that the connection is protected. A request that names its host, origin or
//! token twice is refused, since a proxy in front may have read the other value.
//!
//! | module | idea |
//! | --- | --- |
//! | [`mod@listen`] | addresses that are safe to serve on; accepting connections; ending |
//! | [`head`] | checks of a request's head |
//! | [`proxied`] | listening for a reverse proxy that signs people in |
//! | [`tokens`] | authentication of callers by a file of the state folder |
//! | [`unauthenticated`] | slots for connections without a token |

pub mod head;
pub mod listen;
pub mod proxied;
pub mod tokens;
pub mod unauthenticated;

pub use head::{contradicts, no_token, refuse, whose};
pub use listen::{HttpError, HttpOptions, LAST_ANSWERS_TIMEOUT, Listening, http1, listen};
pub use proxied::{FromProxy, ProxyListening, ProxySocket};
pub use tokens::Tokens;
pub use unauthenticated::Connection;
