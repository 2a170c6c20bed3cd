//! Reads, writes, lists and searches files. What folders there are, WASI tells; that nothing else can be reached, the host sees to.

// The bindings export functions with names of the component model, which only a component's linker understands.
#[cfg_attr(not(target_family = "wasm"), allow(dead_code))]
mod find;
#[cfg(target_family = "wasm")]
mod guest;
#[cfg_attr(not(target_family = "wasm"), allow(dead_code))]
mod names;
#[cfg_attr(not(target_family = "wasm"), allow(dead_code))]
mod text;
