//! Reads compiled forms. The only unsafe code of this crate: what is read here is run.
#![allow(unsafe_code)]

use std::fs::File;
use std::io::Read as _;

use wasmtime::Engine;
use wasmtime::component::Component;

use crate::LoadError;

/// A file that the caller has authenticated. It is copied before it is looked at, so that it cannot change under what was checked.
pub(crate) fn read(engine: &Engine, mut file: File) -> Result<Component, LoadError> {
    let mut bytes = Vec::new();
    file.read_to_end(&mut bytes)
        .map_err(|error| LoadError::Host { message: format!("a compiled form cannot be read: {error}") })?;
    // What is no compiled form of a component at all, or of another version, is refused by its header already.
    if !matches!(Engine::detect_precompiled(&bytes), Some(wasmtime::Precompiled::Component)) {
        return Err(LoadError::Stale);
    }
    // SAFETY: `deserialize` needs bytes that `Component::serialize` or `precompile_component` wrote. The caller of
    // `Runtime::load_compiled` has authenticated the file as written by this program, which only writes such; a form of another
    // build or another configuration is refused by its header.
    unsafe { Component::deserialize(engine, &bytes) }.map_err(|_| LoadError::Stale)
}
