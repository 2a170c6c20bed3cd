//! Describes a component's tools, from its types and its documentation.

use std::collections::HashSet;

use wasmtime::Engine;
use wasmtime::component::Component;
use wasmtime::component::types::{ComponentFunc, ComponentItem, ResourceType, Type};

use crate::LoadError;
use crate::component::docs::{self, ComponentDocs};
use crate::component::{inspect, serves};
use crate::description::{Description, Export, LeftOut};
use crate::mapping::text::clean;
use crate::mapping::{Docs, Reader, Resources, Signature, TypeDoc};

/// Maximum number of functions that a component may export.
const MAX_FUNCTIONS: usize = 512;
/// Maximum size of all schemas and descriptions of a component, in bytes.
const MAX_TEXT_BYTES: usize = 4 << 20;
/// Maximum number of documented types to look at.
const MAX_TYPES: usize = 512;
/// Maximum length of a resource's name, which each of its handles begins with, in bytes.
const MAX_NAME_BYTES: usize = 64;

/// Function that every component of componentize-py exports in addition to its author's functions.
const PYTHON_START: &str = "exports#init";

/// Path of the function that frees what a handle stands for: no component can export this name.
pub const DROP: &str = "[drop-handle]";
/// Description of that function.
const DROPS: &str = "Frees what a handle of this plugin stands for.";

/// One function that is a tool.
#[derive(Clone, Debug)]
pub struct ToolFunction {
    /// Path of the export, as in [`Export::path`].
    pub path: String,
    /// Name of the interface, for a function in one.
    pub interface: Option<String>,
    /// Name of the function in the component.
    pub function: String,
    /// Name of the function as it is shown: of a resource's functions `RESOURCE.FUNCTION`.
    pub shown: String,
    /// Types of its parameters and result.
    pub signature: Signature,
}

/// Functions of a component that are tools, ordered by path, as [`describe`] describes them.
/// `Component::get_export_index` of the interface and then of the function finds them.
///
/// # Errors
/// [`LoadError::NoTools`] or [`LoadError::Signature`], as for [`describe`].
pub fn tools(component: &Component, engine: &Engine) -> Result<Vec<ToolFunction>, LoadError> {
    read(component, engine, &ComponentDocs::default()).map(|(tools, _)| tools)
}

/// The resource `hotcell:tool/blob.blob` in this component's types, if it imports it.
#[must_use]
pub fn blob_of(component: &Component, engine: &Engine) -> Option<ResourceType> {
    let ty = component.component_type();
    ty.imports(engine).find_map(|(name, item)| match item.ty {
        ComponentItem::ComponentInstance(instance) if name.split('@').next() == Some("hotcell:tool/blob") => {
            instance.get_export(engine, "blob").and_then(|item| match item.ty {
                ComponentItem::Resource(resource) => Some(resource),
                _ => None,
            })
        }
        _ => None,
    })
}

/// Describes a component that was compiled from these bytes.
///
/// # Errors
/// [`LoadError::NoTools`] if it exports no function; [`LoadError::Signature`] if none of its functions can be
/// a tool (naming the first, and the reason), or if it exports more functions than a model could ever be
/// shown.
pub fn describe(component: &Component, engine: &Engine, wasm: &[u8]) -> Result<Description, LoadError> {
    let docs = ComponentDocs::of(wasm);
    let (tools, left_out) = read(component, engine, &docs)?;
    let serves: Vec<String> =
        tools.iter().filter(|tool| serves::is_served(&tool.path)).map(|tool| tool.path.clone()).collect();
    let mut exports = Vec::with_capacity(tools.len());
    let handles = tools.iter().any(|tool| tool.path == DROP);
    let mut size = 0;
    for mut tool in tools.into_iter().filter(|tool| !serves::is_served(&tool.path)) {
        let docs = docs.function(tool.interface.as_deref(), &tool.function);
        let export = Export {
            description: match tool.path.as_str() {
                DROP => DROPS.to_owned(),
                _ => tool.signature.document(&docs),
            },
            input_schema: tool.signature.input_schema(),
            output_schema: tool.signature.output_schema(),
            path: tool.path,
            function: tool.shown,
            interface: tool.interface,
        };
        size += export.description.len()
            + export.input_schema.to_string().len()
            + export.output_schema.to_string().len();
        if size > MAX_TEXT_BYTES {
            return Err(too_much(
                &export.path,
                format!("the schemas of all tools together are larger than {} MiB", MAX_TEXT_BYTES >> 20),
            ));
        }
        exports.push(export);
    }
    let ty = component.component_type();
    let mut imports: Vec<_> = ty.imports(engine).map(|(name, _)| clean(name, 256)).collect();
    imports.sort_unstable();
    let at_most = inspect::at_most(imports.iter().map(String::as_str));
    let (manifest, hidden) = (docs::manifest(wasm), docs::hidden(wasm));
    Ok(Description { exports, left_out, imports, at_most, handles, serves, manifest, hidden })
}

fn too_much(function: &str, message: String) -> LoadError {
    LoadError::Signature { function: function.to_owned(), message }
}

fn read(
    component: &Component,
    engine: &Engine,
    docs: &ComponentDocs,
) -> Result<(Vec<ToolFunction>, Vec<LeftOut>), LoadError> {
    let blob = blob_of(component, engine);
    let own = resources_of(component, engine);
    let resources = Resources { blob: blob.as_ref(), own: &own };
    let ty = component.component_type();
    let functions = functions(component, engine);
    if functions.len() > MAX_FUNCTIONS {
        return Err(too_much(
            &functions[MAX_FUNCTIONS].0,
            format!("it exports more than {MAX_FUNCTIONS} functions"),
        ));
    }
    // Types are documented where they are named: by the world, and by every interface that it imports or
    // exports.
    let mut world = Vec::new();
    let mut interfaces = Vec::new();
    for (name, item) in ty.imports(engine).chain(ty.exports(engine)) {
        match item.ty {
            ComponentItem::Type(ty) => world.extend(documented(docs, None, name, &ty, resources)),
            ComponentItem::ComponentInstance(instance) => {
                let types = instance.exports(engine).filter_map(|(ty_name, item)| match item.ty {
                    ComponentItem::Type(ty) => documented(docs, Some(name), ty_name, &ty, resources),
                    _ => None,
                });
                interfaces.push((name, types.take(MAX_TYPES).collect::<Vec<_>>()));
            }
            _ => {}
        }
    }
    let far: Vec<_> =
        world.iter().chain(interfaces.iter().flat_map(|(_, types)| types)).take(MAX_TYPES).cloned().collect();
    let mut tools = Vec::new();
    let mut left_out = Vec::new();
    for (path, interface, function, func) in functions {
        let near = match &interface {
            None => &world[..],
            Some(name) => {
                interfaces.iter().find(|(known, _)| known == name).map_or(&[][..], |(_, types)| types)
            }
        };
        let known = Docs { near, far: &far };
        let signature = if path == PYTHON_START {
            Err("componentize-py starts Python with it".into())
        } else if let Some(shown) = shown(&path, &function) {
            let signature = Signature::documented(&func, resources, known);
            let signature = match () {
                () if is_command(&path) => signature.map(Signature::of_a_command),
                () if function.starts_with(METHOD) => signature.map(Signature::of_a_method),
                () => signature,
            };
            signature.map(|signature| (shown, signature))
        } else {
            Err("it has a name that cannot be shown".into())
        };
        match signature {
            Ok((shown, signature)) => {
                tools.push(ToolFunction { path, interface, function, shown, signature });
            }
            Err(message) => {
                left_out.push(LeftOut { function: clean(&path, 256), message: clean(&message, 400) });
            }
        }
    }
    if tools.iter().any(|tool| tool.signature.handles().1) {
        let drop = "drop-handle".to_owned();
        tools.push(ToolFunction {
            path: DROP.to_owned(),
            interface: None,
            function: drop.clone(),
            shown: drop,
            signature: Signature::of_drop(),
        });
        tools.sort_by(|a, b| a.path.cmp(&b.path));
    }
    match (tools.is_empty(), left_out.first()) {
        (true, None) => Err(LoadError::NoTools),
        (true, Some(first)) if is_server(&first.function) => Err(LoadError::Signature {
            function: first.function.clone(),
            message: "it is an HTTP server and no tool: a tool is a function of plain values".to_owned(),
        }),
        (true, Some(first)) => {
            Err(LoadError::Signature { function: first.function.clone(), message: first.message.clone() })
        }
        (false, _) => Ok((tools, left_out)),
    }
}

/// Prefix of a method's name.
const METHOD: &str = "[method]";

/// Name of a function as it is shown; `None` when it has none that can be.
fn shown(path: &str, function: &str) -> Option<String> {
    if !path.bytes().all(|byte| byte.is_ascii_graphic()) {
        return None;
    }
    if let Some(resource) = function.strip_prefix("[constructor]") {
        return Some(format!("{resource}.new"));
    }
    let of_a_resource = function.strip_prefix(METHOD).or_else(|| function.strip_prefix("[static]"));
    let plain = of_a_resource.unwrap_or(function);
    (!plain.starts_with('[')).then(|| plain.to_owned())
}

/// Resources that a component exports, each with its name and once.
fn resources_of(component: &Component, engine: &Engine) -> Vec<(String, ResourceType)> {
    let ty = component.component_type();
    let imported: Vec<ResourceType> = ty
        .imports(engine)
        .flat_map(|(_, item)| match item.ty {
            ComponentItem::Resource(resource) => vec![resource],
            ComponentItem::ComponentInstance(instance) => {
                instance.exports(engine).filter_map(|(_, item)| resource(&item.ty)).collect()
            }
            _ => Vec::new(),
        })
        .collect();
    let mut found: Vec<(String, ResourceType)> = Vec::new();
    let mut add = |name: &str, resource: ResourceType| {
        if name.len() <= MAX_NAME_BYTES
            && found.len() < MAX_TYPES
            && !imported.contains(&resource)
            && found.iter().all(|(_, known)| *known != resource)
        {
            found.push((name.to_owned(), resource));
        }
    };
    for (name, item) in ty.exports(engine) {
        match item.ty {
            ComponentItem::Resource(resource) => add(name, resource),
            ComponentItem::ComponentInstance(instance) => {
                for (name, item) in instance.exports(engine) {
                    if let Some(resource) = resource(&item.ty) {
                        add(name, resource);
                    }
                }
            }
            _ => {}
        }
    }
    found
}

fn resource(item: &ComponentItem) -> Option<ResourceType> {
    if let ComponentItem::Resource(resource) = item { Some(*resource) } else { None }
}

/// Whether this is the entry function of a command, whose answer is its output.
fn is_command(path: &str) -> bool {
    path.strip_prefix("wasi:cli/run@").is_some_and(|rest| rest.ends_with("#run"))
}

/// Whether this is the handler of an HTTP server, which cannot be a tool.
fn is_server(path: &str) -> bool {
    ["wasi:http/incoming-handler@", "wasi:http/handler@"].iter().any(|name| path.starts_with(name))
}

type Found = (String, Option<String>, String, ComponentFunc);

/// Path, interface, name and type of every function, ordered by path.
fn functions(component: &Component, engine: &Engine) -> Vec<Found> {
    let ty = component.component_type();
    let mut found = Vec::new();
    for (name, item) in ty.exports(engine) {
        match item.ty {
            ComponentItem::ComponentFunc(func) => found.push((name.to_owned(), None, name.to_owned(), func)),
            ComponentItem::ComponentInstance(instance) => {
                for (function, item) in instance.exports(engine) {
                    if let ComponentItem::ComponentFunc(func) = item.ty {
                        found.push((
                            format!("{name}#{function}"),
                            Some(name.to_owned()),
                            function.to_owned(),
                            func,
                        ));
                    }
                    if found.len() > MAX_FUNCTIONS {
                        return found;
                    }
                }
            }
            _ => {}
        }
    }
    found.sort_by(|a, b| a.0.cmp(&b.0));
    let mut seen = HashSet::new();
    found.retain(|(path, ..)| seen.insert(path.clone()));
    found
}

/// Shape and documentation of a named type.
fn documented(
    docs: &ComponentDocs,
    interface: Option<&str>,
    name: &str,
    ty: &Type,
    resources: Resources<'_>,
) -> Option<(crate::mapping::Shape, TypeDoc)> {
    let doc = docs.ty(interface, name)?;
    let shape = Reader::new(resources, Docs::default()).shape(ty).ok()?;
    Some((shape, doc))
}
