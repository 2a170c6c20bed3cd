//! Components from WIT text, and a store for blobs.

use hotcell_tools::component::describe;
use hotcell_tools::mapping::{Blobs, Signature};
use hotcell_tools::{Description, LoadError};
use wasmtime::component::{Component, Resource, ResourceAny, Val};
use wasmtime::{Engine, Store};
use wit_component::{ComponentEncoder, StringEncoding, dummy_module, embed_component_metadata};
use wit_parser::{ManglingAndAbi, Resolve};

/// A component whose functions have these types and trap. The text is one package with one world named `w`.
pub fn component(wit: &str) -> Vec<u8> {
    let mut resolve = Resolve::default();
    let package = resolve.push_str("test.wit", wit).unwrap_or_else(|error| panic!("{error:#}\n{wit}"));
    let world = resolve.select_world(&[package], Some("w")).unwrap();
    let mut module = dummy_module(&resolve, world, ManglingAndAbi::Standard32);
    embed_component_metadata(&mut module, &resolve, world, StringEncoding::UTF8).unwrap();
    ComponentEncoder::default().module(&module).unwrap().validate(true).encode().unwrap()
}

pub fn engine() -> Engine {
    Engine::default()
}

pub fn description(wasm: &[u8]) -> Result<Description, LoadError> {
    let engine = engine();
    let component = Component::new(&engine, wasm).unwrap();
    describe::describe(&component, &engine, wasm)
}

/// Signatures of all functions, ordered by path.
pub fn signatures(wasm: &[u8]) -> Result<Vec<Signature>, LoadError> {
    let engine = engine();
    let component = Component::new(&engine, wasm).unwrap();
    Ok(describe::tools(&component, &engine)?.into_iter().map(|tool| tool.signature).collect())
}

/// Signature of `f: func(p: TYPE) -> RESULT`, with additional definitions.
pub fn signature(definitions: &str, ty: &str, result: &str) -> Signature {
    let wit = format!(
        "package t:t; interface i {{ {definitions} f: func(p: {ty}) -> {result}; }} world w {{ export i; }}"
    );
    signatures(&component(&wit)).unwrap().remove(0)
}

/// Blobs in a store of their own.
pub struct Shelf {
    store: Store<()>,
    bytes: Vec<Vec<u8>>,
}

struct Blob;

impl Shelf {
    pub fn new() -> Self {
        Self { store: Store::new(&engine(), ()), bytes: Vec::new() }
    }
}

impl Blobs for Shelf {
    fn give(&mut self, bytes: Vec<u8>) -> Result<Val, String> {
        let handle = Resource::<Blob>::new_own(self.bytes.len().try_into().unwrap());
        self.bytes.push(bytes);
        let any =
            ResourceAny::try_from_resource(handle, &mut self.store).map_err(|error| error.to_string())?;
        Ok(Val::Resource(any))
    }

    fn take(&mut self, val: Val) -> Result<Vec<u8>, String> {
        let Val::Resource(any) = val else { return Err("no handle".into()) };
        let handle: Resource<Blob> =
            any.try_into_resource(&mut self.store).map_err(|error| error.to_string())?;
        Ok(std::mem::take(&mut self.bytes[handle.rep() as usize]))
    }
}
