//! Reads compiled components. The only unsafe code of this crate: the code that is read here is run.
#![allow(unsafe_code)]

use std::fs::File;
use std::io::Read as _;
use std::os::fd::AsRawFd as _;

use rustix::fs::SealFlags;

use wasmtime::Engine;
use wasmtime::component::Component;

use crate::LoadError;

/// Loads a file that the caller has authenticated. Its contents cannot change after that check: the file is
/// sealed and mapped as it is, or it is copied first.
pub(crate) fn read(engine: &Engine, mut file: File) -> Result<Component, LoadError> {
    let needed = SealFlags::WRITE | SealFlags::SHRINK | SealFlags::GROW;
    let path = format!("/proc/self/fd/{}", file.as_raw_fd());
    if rustix::fs::fcntl_get_seals(&file).is_ok_and(|seals| seals.contains(needed))
        && let Ok(detected) = Engine::detect_precompiled_file(&path)
    {
        if detected != Some(wasmtime::Precompiled::Component) {
            return Err(LoadError::Stale);
        }
        // SAFETY: as below, and the mapped file cannot be written to (fcntl(2), `F_SEAL_WRITE`).
        return unsafe { Component::deserialize_file(engine, &path) }.map_err(|_| LoadError::Stale);
    }
    let mut bytes = Vec::new();
    file.read_to_end(&mut bytes)
        .map_err(|error| LoadError::Host { message: format!("a compiled form cannot be read: {error}") })?;
    // The header already rejects a file of another kind or version.
    if !matches!(Engine::detect_precompiled(&bytes), Some(wasmtime::Precompiled::Component)) {
        return Err(LoadError::Stale);
    }
    // SAFETY: `deserialize` needs bytes that `Component::serialize` or `precompile_component` wrote. The
    // caller of `Runtime::load_compiled` has authenticated the file as written by this program, which writes
    // only such files; the header rejects one of another build or another configuration.
    unsafe { Component::deserialize(engine, &bytes) }.map_err(|_| LoadError::Stale)
}
