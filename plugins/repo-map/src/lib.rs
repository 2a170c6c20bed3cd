//! An overview of a repository, for a model that cannot read all of it.

#[cfg_attr(not(target_family = "wasm"), allow(dead_code))]
mod chunks;
// The bindings export functions with names of the component model, which only a component's linker understands.
#[cfg(target_family = "wasm")]
mod guest;
#[cfg_attr(not(target_family = "wasm"), allow(dead_code))]
mod names;
#[cfg_attr(not(target_family = "wasm"), allow(dead_code))]
mod tree;
