#![doc = include_str!("../README.md")]
#![forbid(unsafe_code)]

pub mod address;
mod conditions;
mod connect;
pub mod dns;
mod error;
mod forward;
mod host;
pub mod host_program;
pub mod http;
mod intercepted;
mod judge;
mod keyring;
mod ledger;
pub mod limit;
mod pace;
pub mod program;
mod proxy;
mod quota;
mod record;
mod recording;
pub mod redact;
mod relay;
mod resolve;
pub mod route;
mod routed;
mod rule;
pub mod sealed;
pub mod secret;
pub mod socks5;
mod stream;
pub mod suffix;
pub mod tls;
mod tunnel;
pub mod upstream;

pub use host::{Host, HostError};
pub use judge::{Judged, Tunnel};
pub use ledger::{Denied, Operation};
pub use pace::Rate;
pub use proxy::{Egress, Limits, Serving, Sockets};
pub use resolve::{Lookup, Resolver, System};
pub use rule::{AllowList, Place, Relay, Rule, RuleError};
pub use secret::{Secret, SecretError, SecretSource};
