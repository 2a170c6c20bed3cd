//! Shared code of the plugins that send requests over `wasi:http`.

#[cfg(target_family = "wasm")]
mod answer;

#[cfg(target_family = "wasm")]
pub use answer::{answer, read, reason};
