#![doc = include_str!("../README.md")]
#![deny(unsafe_code)]

pub mod answer;
pub mod ask;
mod asker;
pub mod author;
pub mod cache;
pub mod call;
pub mod capability;
mod capture;
mod compiled;
pub mod component;
pub mod cosign;
pub mod describe;
pub mod description;
pub mod docs;
pub mod engine;
pub mod error;
mod failure;
pub mod folder;
pub mod grant;
mod handles;
pub mod host;
mod http;
mod http_bounds;
mod http_futures;
mod imports;
pub mod inspect;
mod limiter;
pub mod limits;
pub mod manifest;
pub mod mapping;
pub mod protocol;
mod provided;
mod questions;
pub mod sections;
pub mod serves;
mod share;
pub mod signature;
pub mod sources;
mod state;
mod ticker;
pub mod update;

pub use crate::host::{Hosts, HostsOptions, Plugin, Readiness, serve};
pub use answer::Answer;
pub use ask::{Ask, Broker, Reply};
pub use call::{CallRequest, Kept};
pub use capability::{Capability, Held, Origin};
pub use component::Prepared;
pub use description::{Description, Export, LeftOut};
pub use engine::{Allocation, Runtime, RuntimeOptions, build_fingerprint};
pub use error::{CallError, LoadError};
pub use folder::Folder;
pub use limits::{Limit, Limits};
pub use manifest::{Manifest, Request};

/// Boxed future, as this library returns it, so that programs that use it stay small and quick to build.
pub type BoxFuture<'a, T> = std::pin::Pin<Box<dyn Future<Output = T> + Send + 'a>>;
