//! Checks JSON against JSON Schema. It needs nothing and reaches nothing.

#[cfg_attr(not(target_family = "wasm"), allow(dead_code))]
mod check;
// The bindings export functions with names of the component model, which only a component's linker understands.
#[cfg(target_family = "wasm")]
mod guest;
#[cfg_attr(not(target_family = "wasm"), allow(dead_code))]
mod twice;
