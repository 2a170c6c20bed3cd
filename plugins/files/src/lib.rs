//! Reads, writes, lists and searches files. WASI lists the granted folders; the host enforces that no others
//! can be reached.

// The bindings export functions with component-model names, which only a component linker understands.
#[cfg_attr(not(target_family = "wasm"), allow(dead_code))]
mod find;
#[cfg(target_family = "wasm")]
mod guest;
#[cfg_attr(not(target_family = "wasm"), allow(dead_code))]
mod names;
#[cfg_attr(not(target_family = "wasm"), allow(dead_code))]
mod text;
