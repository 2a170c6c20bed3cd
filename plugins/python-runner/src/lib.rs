//! Runs Python by asking the host for a sandboxed run.

// The bindings export functions with names of the component model, which only a component's linker understands.
#[cfg(target_family = "wasm")]
mod guest;
#[cfg_attr(not(target_family = "wasm"), allow(dead_code))]
mod plan;
