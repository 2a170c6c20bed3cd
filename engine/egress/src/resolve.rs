//! Resolution of names to addresses, outside the sandbox.

use std::future::Future;
use std::io;
use std::net::IpAddr;
use std::pin::Pin;

/// A look-up in progress.
pub type Lookup<'a> = Pin<Box<dyn Future<Output = io::Result<Vec<IpAddr>>> + Send + 'a>>;

/// Resolves names. The proxy checks every address before it uses it.
pub trait Resolver: Send + Sync + std::fmt::Debug {
    /// Addresses of a name.
    fn resolve<'a>(&'a self, name: &'a str) -> Lookup<'a>;
}

/// The host's own resolver, see `getaddrinfo(3)`.
#[derive(Clone, Copy, Debug, Default)]
pub struct System;

impl Resolver for System {
    fn resolve<'a>(&'a self, name: &'a str) -> Lookup<'a> {
        Box::pin(async move {
            let found = tokio::net::lookup_host((name, 0)).await?;
            Ok(found.map(|socket| socket.ip()).collect())
        })
    }
}
