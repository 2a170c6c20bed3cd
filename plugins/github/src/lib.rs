//! Fetches pull requests of GitHub.

#[cfg_attr(not(target_family = "wasm"), allow(dead_code))]
mod api;
// The bindings export functions with names of the component model, which only a component's linker understands.
#[cfg(target_family = "wasm")]
mod guest;
#[cfg(target_family = "wasm")]
mod http;
#[cfg_attr(not(target_family = "wasm"), allow(dead_code))]
mod url;
