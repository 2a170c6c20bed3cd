//! Names to addresses, by whoever does it outside of the sandbox.

use std::future::Future;
use std::io;
use std::net::IpAddr;
use std::pin::Pin;

/// A look-up under way.
pub type Lookup<'a> = Pin<Box<dyn Future<Output = io::Result<Vec<IpAddr>>> + Send + 'a>>;

/// Resolves names. Whatever it answers is checked before it is used.
pub trait Resolver: Send + Sync + std::fmt::Debug {
    /// The addresses of a name.
    fn resolve<'a>(&'a self, name: &'a str) -> Lookup<'a>;
}

/// This host's own resolver, as `getaddrinfo(3)` has it.
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
