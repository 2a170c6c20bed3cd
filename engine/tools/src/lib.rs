#![doc = include_str!("../README.md")]
#![deny(unsafe_code)]

pub mod answer;
pub mod ask;
pub mod capability;
pub mod description;
pub mod error;
pub mod limits;

pub use answer::{Answer, Folder};
pub use ask::{Ask, Broker, Reply};
pub use capability::{Held, Origin};
pub use description::{Description, Export};
pub use error::{CallError, LoadError};
pub use limits::{Limit, Limits};

/// A future as this library returns it: boxed, so that programs that use it stay small and quick to build.
pub type BoxFuture<'a, T> = std::pin::Pin<Box<dyn Future<Output = T> + Send + 'a>>;
