//! Has files and texts scanned by the host's guard.

#[cfg_attr(not(target_family = "wasm"), allow(dead_code))]
mod gather;
// The bindings export functions with names of the component model, which only a component's linker understands.
#[cfg(target_family = "wasm")]
mod guest;
