//! Limits on the data that `wasi:http` keeps for a guest on the host: its own functions accept texts of any
//! length, as often as there are resources. This module shadows them: a line of a request has a maximum
//! length, and lines and header fields count as the guest's memory until the call ends.

use wasmtime::StoreContextMut;
use wasmtime::component::{Linker, Resource};
use wasmtime_wasi_http::{FieldMap, WasiHttpView as _};

use crate::runtime::http::futures;
use crate::runtime::limiter::Reached;
use crate::runtime::state::State;

/// Maximum length of a method, a scheme, an authority, or a path with its query, in bytes. Servers accept
/// about as much.
const MAX_LINE_BYTES: usize = 8 << 10;

/// The interface in its version 0.2 that wasmtime-wasi-http 48.0.8 links; a component may import any compatible
/// version.
const P2: &str = "wasi:http/types@0.2.12";

/// Overhead of a field besides its own bytes, in a map that has just doubled.
const FIELD_OVERHEAD: usize = 256;

/// Shadows the functions that were linked before.
pub(crate) fn add_to_linker(linker: &mut Linker<State>) -> wasmtime::Result<()> {
    linker.allow_shadowing(true);
    p2::add_to_linker(linker)?;
    p3::add_to_linker(linker)?;
    futures::add_to_linker(linker)?;
    linker.allow_shadowing(false);
    Ok(())
}

impl State {
    /// Whether a line is short enough to be kept; if so, it is counted.
    fn keep_line(&mut self, line: Option<&str>) -> Result<bool, Reached> {
        let length = line.map_or(0, str::len);
        if length > MAX_LINE_BYTES {
            return Ok(false);
        }
        self.limiter.keep(length).map(|()| true)
    }

    /// Counts fields by their names and values.
    fn keep_fields<'a>(&mut self, fields: impl Iterator<Item = (&'a str, &'a [u8])>) -> Result<(), Reached> {
        self.limiter.keep(fields.map(|(name, value)| name.len() + value.len() + FIELD_OVERHEAD).sum())
    }

    /// Counts a copy of fields, although it shares memory until one of the two is changed.
    fn keep_copy(&mut self, fields: &Resource<FieldMap>) -> wasmtime::Result<()> {
        let fields = self.table.get(fields)?;
        let bytes =
            fields.iter().map(|(name, value)| name.as_str().len() + value.len() + FIELD_OVERHEAD).sum();
        Ok(self.limiter.keep(bytes)?)
    }
}

/// The two versions differ only in their names.
macro_rules! bounds {
    ($interface:expr, $request:literal) => {
        pub(crate) fn add_to_linker(linker: &mut Linker<State>) -> wasmtime::Result<()> {
            let mut types = linker.instance($interface)?;
            types.func_wrap(
                concat!("[method]", $request, ".set-method"),
                |mut store: Store<'_>, (request, method): (Resource<Request>, Method)| {
                    let state = store.data_mut();
                    let line = if let Method::Other(text) = &method { Some(&**text) } else { None };
                    let kept = state.keep_line(line)?;
                    Ok((if kept { state.http().set_method(request, method)? } else { Err(()) },))
                },
            )?;
            types.func_wrap(
                concat!("[method]", $request, ".set-scheme"),
                |mut store: Store<'_>, (request, scheme): (Resource<Request>, Option<Scheme>)| {
                    let state = store.data_mut();
                    let line = if let Some(Scheme::Other(text)) = &scheme { Some(&**text) } else { None };
                    let kept = state.keep_line(line)?;
                    Ok((if kept { state.http().set_scheme(request, scheme)? } else { Err(()) },))
                },
            )?;
            types.func_wrap(
                concat!("[method]", $request, ".set-authority"),
                |mut store: Store<'_>, (request, authority): (Resource<Request>, Option<String>)| {
                    let state = store.data_mut();
                    let kept = state.keep_line(authority.as_deref())?;
                    Ok((if kept { state.http().set_authority(request, authority)? } else { Err(()) },))
                },
            )?;
            types.func_wrap(
                concat!("[method]", $request, ".set-path-with-query"),
                |mut store: Store<'_>, (request, path): (Resource<Request>, Option<String>)| {
                    let state = store.data_mut();
                    let kept = state.keep_line(path.as_deref())?;
                    Ok((if kept { state.http().set_path_with_query(request, path)? } else { Err(()) },))
                },
            )?;
            types.func_wrap(
                "[static]fields.from-list",
                |mut store: Store<'_>, (list,): (Vec<(String, Vec<u8>)>,)| {
                    let state = store.data_mut();
                    state.keep_fields(list.iter().map(|(name, value)| (&**name, &**value)))?;
                    let made = HostFields::from_list(&mut state.http(), list);
                    Ok((made.map(Ok).or_else(|error| error.downcast().map(Err))?,))
                },
            )?;
            types.func_wrap(
                "[method]fields.set",
                |mut store: Store<'_>, (fields, name, values): (Resource<FieldMap>, String, Vec<Vec<u8>>)| {
                    let state = store.data_mut();
                    state.keep_fields(values.iter().map(|value| (&*name, &**value)))?;
                    let set = HostFields::set(&mut state.http(), fields, name, values);
                    Ok((set.map(Ok).or_else(|error| error.downcast().map(Err))?,))
                },
            )?;
            types.func_wrap(
                "[method]fields.append",
                |mut store: Store<'_>, (fields, name, value): (Resource<FieldMap>, String, Vec<u8>)| {
                    let state = store.data_mut();
                    state.keep_fields([(&*name, &*value)].into_iter())?;
                    let appended = HostFields::append(&mut state.http(), fields, name, value);
                    Ok((appended.map(Ok).or_else(|error| error.downcast().map(Err))?,))
                },
            )?;
            types.func_wrap(
                "[method]fields.clone",
                |mut store: Store<'_>, (fields,): (Resource<FieldMap>,)| {
                    let state = store.data_mut();
                    state.keep_copy(&fields)?;
                    Ok((HostFields::clone(&mut state.http(), fields)?,))
                },
            )
        }
    };
}

type Store<'a> = StoreContextMut<'a, State>;

mod p2 {
    use wasmtime_wasi_http::p2::bindings::http::types::{
        HostFields, HostOutgoingRequest as _, Method, OutgoingRequest as Request, Scheme,
    };

    use super::*;

    bounds!(P2, "outgoing-request");
}

mod p3 {
    use crate::runtime::http::futures::P3;
    use wasmtime_wasi_http::p3::bindings::http::types::{
        HostFields, HostRequest as _, Method, Request, Scheme,
    };

    use super::*;

    bounds!(P3, "request");
}
