//! Scans files and texts with the host's guard.

#[cfg_attr(not(target_family = "wasm"), allow(dead_code))]
mod gather;
// The bindings export functions with component-model names, which only a component linker understands.
#[cfg(target_family = "wasm")]
mod guest;
