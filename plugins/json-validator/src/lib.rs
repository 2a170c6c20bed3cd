//! Checks JSON against JSON Schema. Needs no capabilities.

#[cfg_attr(not(target_family = "wasm"), allow(dead_code))]
mod check;
#[cfg_attr(not(target_family = "wasm"), allow(dead_code))]
mod correct;
// The bindings export functions with component-model names, which only a component linker understands.
#[cfg(target_family = "wasm")]
mod guest;
#[cfg_attr(not(target_family = "wasm"), allow(dead_code))]
mod twice;
