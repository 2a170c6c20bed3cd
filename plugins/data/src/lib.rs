//! Describes, filters, aggregates and joins tables.

#[cfg_attr(not(target_family = "wasm"), allow(dead_code))]
mod group;
// The bindings export functions with component-model names, which only a component linker understands.
#[cfg(target_family = "wasm")]
mod guest;
#[cfg_attr(not(target_family = "wasm"), allow(dead_code))]
mod join;
#[cfg_attr(not(target_family = "wasm"), allow(dead_code))]
mod read;
#[cfg_attr(not(target_family = "wasm"), allow(dead_code))]
mod select;
#[cfg_attr(not(target_family = "wasm"), allow(dead_code))]
mod table;
#[cfg_attr(not(target_family = "wasm"), allow(dead_code))]
mod values;
