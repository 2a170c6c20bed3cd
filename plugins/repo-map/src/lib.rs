//! An overview of a repository, for a model that cannot read all of it.

#[cfg_attr(not(target_family = "wasm"), allow(dead_code))]
mod chunks;
// The bindings export functions with component-model names, which only a component linker understands.
#[cfg(target_family = "wasm")]
mod guest;
#[cfg_attr(not(target_family = "wasm"), allow(dead_code))]
mod names;
#[cfg_attr(not(target_family = "wasm"), allow(dead_code))]
mod tree;
