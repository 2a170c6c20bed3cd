//! Fetches pull requests from GitHub.

#[cfg_attr(not(target_family = "wasm"), allow(dead_code))]
mod api;
// The bindings export functions with component-model names, which only a component linker understands.
#[cfg(target_family = "wasm")]
mod guest;
#[cfg(target_family = "wasm")]
mod http;
#[cfg_attr(not(target_family = "wasm"), allow(dead_code))]
mod url;
