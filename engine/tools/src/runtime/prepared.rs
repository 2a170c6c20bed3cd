//! Components that are ready to be called.

use std::collections::BTreeMap;
use std::sync::Arc;
use std::sync::atomic::{AtomicU32, Ordering};

use tokio::sync::Notify;
use wasmtime::Engine;
use wasmtime::component::{Component, ComponentExportIndex, InstancePre, Linker};

use crate::LoadError;
use crate::component::describe;
use crate::mapping::Signature;
use crate::runtime::state::State;

/// A component that is compiled, linked and known to have tools. Cheap to clone; holds no state of calls.
#[derive(Clone)]
pub struct Prepared(Arc<Inner>);

struct Inner {
    pre: InstancePre<State>,
    tools: BTreeMap<String, Tool>,
    places: Arc<Places>,
}

/// One function of a component.
pub(crate) struct Tool {
    /// Place of the function; `None` for the host's own, which frees a handle.
    pub(crate) index: Option<ComponentExportIndex>,
    pub(crate) signature: Signature,
}

/// Permits for the running calls.
#[derive(Default)]
struct Places {
    taken: AtomicU32,
    free: Notify,
}

/// Permit of a running call.
pub(crate) struct Place(Arc<Places>);

impl Prepared {
    pub(crate) fn new(linker: &Linker<State>, component: &Component) -> Result<Self, LoadError> {
        let pre = link(linker, component)?;
        let mut tools = BTreeMap::new();
        for tool in describe::tools(component, component.engine())? {
            if tool.path == describe::DROP {
                tools.insert(tool.path, Tool { index: None, signature: tool.signature });
                continue;
            }
            let instance =
                tool.interface.as_ref().map(|name| component.get_export_index(None, name.as_str()));
            let function = tool.function.as_str();
            let index = match &instance {
                Some(instance) => instance.and_then(|at| component.get_export_index(Some(&at), function)),
                None => component.get_export_index(None, function),
            };
            let index = index
                .ok_or_else(|| LoadError::Host { message: format!("the export {} is lost", tool.path) })?;
            tools.insert(tool.path, Tool { index: Some(index), signature: tool.signature });
        }
        // The first call would do this, and fail where the failure is not expected.
        component.initialize_copy_on_write_image().map_err(|error| LoadError::Host {
            message: format!("the image of its memory cannot be made: {error:#}"),
        })?;
        Ok(Self(Arc::new(Inner { pre, tools, places: Arc::default() })))
    }

    /// Paths of its functions, as for [`crate::CallRequest::path`], in order.
    pub fn paths(&self) -> impl Iterator<Item = &str> {
        self.0.tools.keys().map(String::as_str)
    }

    /// Number that is unique in this process while the component exists.
    pub(crate) fn number(&self) -> usize {
        Arc::as_ptr(&self.0).addr()
    }

    pub(crate) fn tool(&self, path: &str) -> Option<&Tool> {
        self.0.tools.get(path)
    }

    pub(crate) fn pre(&self) -> &InstancePre<State> {
        &self.0.pre
    }

    /// Waits until fewer than `most` of its calls run.
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
        // The format's parser gives the offset of a fault, also in functions; the compiler itself does not.
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

/// Checks that all imports are provided, with the right types.
pub(crate) fn check_imports(linker: &Linker<State>, component: &Component) -> Result<(), LoadError> {
    link(linker, component).map(drop)
}

fn link(linker: &Linker<State>, component: &Component) -> Result<InstancePre<State>, LoadError> {
    // Missing interfaces are reported earlier, by `provided::check`.
    linker
        .instantiate_pre(component)
        .map_err(|error| LoadError::Imports { imports: vec![unfitting(&format!("{error:#}"))] })
}

/// Describes an item that does not match its interface, from wasmtime's message, in which the interface and
/// its item are in backquotes.
fn unfitting(words: &str) -> String {
    let mut quoted = words.split('`').skip(1).step_by(2);
    let why = words.rsplit(": ").next().unwrap_or_default();
    match (quoted.next(), quoted.next()) {
        (Some(interface), Some(item)) => {
            format!("{interface} with a `{item}` that it does not have so ({why})")
        }
        (Some(interface), None) => format!("{interface} ({why})"),
        _ => words.to_owned(),
    }
}
