#![doc = include_str!("../README.md")]
//!
//! | module | idea |
//! | --- | --- |
//! | [`component`] | contents of a component: its tools, their documentation |
//! | [`description`], [`mapping`] | a component's tools as data; values between JSON and WIT |
//! | [`runtime`] | running components with wasmtime |
//! | [`host`], [`protocol`] | tool hosts: processes in sandboxes, and what they are told |
//! | [`ask`], [`answer`], [`limits`] | what a guest asks of the broker; the answer of a call; its limits |
//! | [`install`], [`capability`], [`cache`] | where plugins come from, and what they are granted; compiled components |
//! | [`shown`] | texts without characters that readers do not see |
//! | [`author`] | writing, building and trying a plugin |
#![deny(unsafe_code)]

pub mod answer;
pub mod ask;
mod asker;
pub mod author;
pub mod cache;
pub mod capability;
pub mod component;
pub mod description;
pub mod error;
pub mod folder;
pub mod host;
pub mod install;
pub mod limits;
pub mod mapping;
pub mod protocol;
mod questions;
pub mod runtime;
pub mod shown;

pub use answer::{Answer, is_without_reason};
pub use ask::{Ask, Broker, Reply};
pub use capability::{Capability, Held, Origin};
pub use description::{Description, Export, LeftOut};
pub use error::{CallError, LoadError};
pub use folder::Folder;
pub use host::{Hosts, HostsOptions, Plugin, Readiness, serve};
pub use install::manifest::Manifest;
pub use install::request::Request;
pub use limits::{Limit, Limits};
pub use runtime::call::{CallRequest, Kept};
pub use runtime::engine::{Allocation, Runtime, RuntimeOptions, build_fingerprint};
pub use runtime::prepared::Prepared;

/// Boxed future, as this library returns it, so that programs that use it stay small and quick to build.
pub type BoxFuture<'a, T> = std::pin::Pin<Box<dyn Future<Output = T> + Send + 'a>>;
