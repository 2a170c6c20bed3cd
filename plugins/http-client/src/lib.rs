//! Sends HTTP requests to granted places.

// The bindings export functions with component-model names, which only a component linker understands.
#[cfg(target_family = "wasm")]
mod guest;
#[cfg_attr(not(target_family = "wasm"), allow(dead_code))]
mod text;
#[cfg_attr(not(target_family = "wasm"), allow(dead_code))]
mod url;
