//! Components that are ready to be called.

use std::collections::BTreeMap;
use std::sync::Arc;
use std::sync::atomic::{AtomicU32, Ordering};

use tokio::sync::Notify;
use wasmtime::Engine;
use wasmtime::component::{Component, ComponentExportIndex, InstancePre, Linker};

use crate::LoadError;
use crate::describe;
use crate::mapping::Signature;
use crate::state::State;

/// A component that is compiled, linked and known to have tools. Cheap to clone; holds nothing of any call.
#[derive(Clone)]
pub struct Prepared(Arc<Inner>);

struct Inner {
    pre: InstancePre<State>,
    tools: BTreeMap<String, Tool>,
    places: Arc<Places>,
}

/// One function of a component.
pub(crate) struct Tool {
    pub(crate) index: ComponentExportIndex,
    pub(crate) signature: Signature,
}

/// The calls that run now.
#[derive(Default)]
struct Places {
    taken: AtomicU32,
    free: Notify,
}

/// A call that runs.
pub(crate) struct Place(Arc<Places>);

impl Prepared {
    pub(crate) fn new(linker: &Linker<State>, component: &Component) -> Result<Self, LoadError> {
        let pre = link(linker, component)?;
        let mut tools = BTreeMap::new();
        for tool in describe::tools(component, component.engine())? {
            let instance =
                tool.interface.as_ref().map(|name| component.get_export_index(None, name.as_str()));
            let function = tool.function.as_str();
            let index = match &instance {
                Some(instance) => instance.and_then(|at| component.get_export_index(Some(&at), function)),
                None => component.get_export_index(None, function),
            };
            let index = index
                .ok_or_else(|| LoadError::Host { message: format!("the export {} is lost", tool.path) })?;
            tools.insert(tool.path, Tool { index, signature: tool.signature });
        }
        // The first call would do it, and fail where nobody expects it.
        component.initialize_copy_on_write_image().map_err(|error| LoadError::Host {
            message: format!("the image of its memory cannot be made: {error:#}"),
        })?;
        Ok(Self(Arc::new(Inner { pre, tools, places: Arc::default() })))
    }

    /// Its functions, as [`crate::CallRequest::path`] names them, in order.
    pub fn paths(&self) -> impl Iterator<Item = &str> {
        self.0.tools.keys().map(String::as_str)
    }

    pub(crate) fn tool(&self, path: &str) -> Option<&Tool> {
        self.0.tools.get(path)
    }

    pub(crate) fn pre(&self) -> &InstancePre<State> {
        &self.0.pre
    }

    /// Waits until fewer than so many of its calls run.
    pub(crate) async fn place(&self, most: u32) -> Place {
        let places = &self.0.places;
        loop {
            let free = places.free.notified();
            let more = |taken: u32| (taken < most.max(1)).then(|| taken + 1);
            if places.taken.fetch_update(Ordering::SeqCst, Ordering::SeqCst, more).is_ok() {
                return Place(Arc::clone(places));
            }
            free.await;
        }
    }
}

impl Drop for Place {
    fn drop(&mut self) {
        self.0.taken.fetch_sub(1, Ordering::SeqCst);
        self.0.free.notify_one();
    }
}

pub(crate) fn compile(engine: &Engine, wasm: &[u8]) -> Result<Component, LoadError> {
    let no = |message: &str| LoadError::NotAComponent { message: message.to_owned() };
    match wasm {
        [0, b'a', b's', b'm', 1, 0, 0, 0, ..] => {
            return Err(no(
                "it is a core module, not a component: build it for wasm32-wasip2, or make it one with `wasm-tools component new`",
            ));
        }
        [0, b'a', b's', b'm', _, _, 1, 0, ..] => {}
        [0x7f, b'E', b'L', b'F', ..] => {
            return Err(no(
                "it is machine code, which is never loaded from outside: give the component that it was compiled from",
            ));
        }
        _ => return Err(no("it is no WebAssembly component")),
    }
    Component::new(engine, wasm).map_err(|error| {
        let message = format!("{error:#}");
        // The reader of the format names where it stopped, of functions too; the compiler itself does not.
        if message.contains("(at offset 0x") || message.contains("Invalid input WebAssembly code") {
            LoadError::NotAComponent {
                message: format!(
                    "it is cut off, damaged, or uses what this host has switched off: {message}"
                ),
            }
        } else {
            LoadError::Compile { message }
        }
    })
}

pub(crate) fn serialize(component: &Component) -> Result<Vec<u8>, LoadError> {
    component.serialize().map_err(|error| LoadError::Host {
        message: format!("its compiled form cannot be written: {error:#}"),
    })
}

/// Whether everything that it imports is provided.
pub(crate) fn check_imports(linker: &Linker<State>, component: &Component) -> Result<(), LoadError> {
    link(linker, component).map(drop)
}

fn link(linker: &Linker<State>, component: &Component) -> Result<InstancePre<State>, LoadError> {
    linker.instantiate_pre(component).map_err(|error| {
        let ty = component.component_type();
        let strangers = ty.imports(component.engine()).map(|(name, _)| name.to_owned());
        let mut imports: Vec<String> =
            strangers.filter(|name| !name.starts_with("wasi:") && !name.starts_with("hotcell:")).collect();
        if imports.is_empty() {
            // A known package, and a version or a function of it that is not: wasmtime names the first.
            imports.push(format!("{error:#}"));
        }
        LoadError::Imports { imports }
    })
}
