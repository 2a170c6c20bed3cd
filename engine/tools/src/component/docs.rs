//! Documentation in a component: its custom section `package-docs`, in the format of `wit-parser`.
//!
//! Toolchains lose it: a Rust component of `wasm32-wasip2` has no such section. It is therefore added from
//! the author's WIT when a plugin is built. The section is untrusted: one that is too large, or that cannot
//! be read, counts as no documentation.

use std::collections::{BTreeMap, HashMap};
use std::path::{Path, PathBuf};

use serde::Deserialize;
use wasi_preview1_component_adapter_provider as wasi_p1;
use wasmparser::{Parser, Payload};
use wit_component::{ComponentEncoder, StringEncoding, embed_component_metadata};
use wit_parser::{PackageId, PackageMetadata, Resolve};

use crate::LoadError;
use crate::component::sections;
use crate::mapping::TypeDoc;
use crate::mapping::text::clean;
use crate::shown::first_hidden;

/// Custom section that holds a plugin's manifest, as TOML.
pub const MANIFEST: &str = "hotcell-plugin";
/// Maximum number of bytes read of such a section.
const MAX_SECTION_BYTES: usize = 256 << 10;
/// Maximum number of such sections: a component may be composed of several packages.
const MAX_SECTIONS: usize = 8;
/// Maximum length of a function's documentation, in characters.
const MAX_FUNCTION_CHARS: usize = 2_000;
/// Maximum length of the documentation of a type, a field or a case, in characters.
const MAX_ITEM_CHARS: usize = 400;

/// Reasons documentation cannot be put into a component.
#[derive(Debug, thiserror::Error)]
pub enum EmbedError {
    /// The file is not a component.
    #[error(transparent)]
    Component(#[from] LoadError),
    /// The WIT cannot be read.
    #[error("the WIT in {}: {message}", path.display())]
    Wit {
        /// Folder of the WIT package.
        path: PathBuf,
        /// Description of the fault.
        message: String,
    },
    /// The documentation has a character that readers do not see.
    #[error("the documentation in {}: {message}", path.display())]
    Hidden {
        /// Folder of the WIT package.
        path: PathBuf,
        /// Place of the character, and what it is.
        message: String,
    },
    /// The documentation or the manifest is longer than the part that is read back.
    #[error("{what} is larger than {} KiB", MAX_SECTION_BYTES >> 10)]
    TooLarge {
        /// Which of the two.
        what: &'static str,
    },
}

/// Reads the WIT package in this folder, as [`embed`] will.
///
/// # Errors
/// [`EmbedError::Wit`] when it cannot be read, [`EmbedError::Hidden`] when its documentation has characters that readers do not see.
pub fn check(wit: &Path) -> Result<(), EmbedError> {
    let (resolve, package) = read(wit)?;
    written(wit, &resolve, package).map(drop)
}

/// The section with the documentation of a WIT package.
fn written(wit: &Path, resolve: &Resolve, package: PackageId) -> Result<Vec<u8>, EmbedError> {
    let docs = PackageMetadata::extract(resolve, package)
        .encode()
        .map_err(|cause| EmbedError::Wit { path: wit.to_owned(), message: format!("{cause:#}") })?;
    match hidden_in(&docs) {
        None => Ok(docs),
        Some(message) => Err(EmbedError::Hidden { path: wit.to_owned(), message }),
    }
}

/// The first text of such a section that has a character which readers do not see. The first byte is the version of the format.
fn hidden_in(section: &[u8]) -> Option<String> {
    let [0 | 1, json @ ..] = section else { return None };
    first_hidden(&serde_json::from_slice(json).ok()?)
}

/// The first text of a component's documentation that has a character which readers do not see: its place, and the character.
#[must_use]
pub fn hidden(wasm: &[u8]) -> Option<String> {
    let mut all = sections::custom(wasm, PackageMetadata::SECTION_NAME).take(MAX_SECTIONS);
    let found =
        all.find_map(|section| if section.len() <= MAX_SECTION_BYTES { hidden_in(section) } else { None });
    found.map(|found| clean(&found, MAX_ITEM_CHARS))
}

/// Reads a WIT package. An error begins with file, line and column, where it has a place.
fn read(wit: &Path) -> Result<(Resolve, PackageId), EmbedError> {
    let mut resolve = Resolve::default();
    match resolve.push_path(wit) {
        Ok((package, _)) => Ok((resolve, package)),
        Err(cause) => {
            // wit-parser draws the place below its message, in several lines.
            let drawn = resolve.render_error(&cause);
            let place = drawn.lines().find_map(|line| line.trim_start().strip_prefix("--> "));
            let message = match place {
                Some(place) => format!("{place}: {}", cause.root_cause()),
                None => drawn,
            };
            Err(EmbedError::Wit { path: wit.to_owned(), message })
        }
    }
}

/// Puts the documentation of the WIT package in this folder, and the manifest, into a component, in place of what it has. A core module
/// becomes a component first: of the types that it carries, as `wit-bindgen` puts them in, or of this WIT; a program of WASI 0.1
/// (`_start`) becomes one of `wasi:cli/run`.
///
/// # Errors
/// [`EmbedError::Component`] when the file is not a component, [`EmbedError::Wit`] when the WIT cannot be
/// read, [`EmbedError::Hidden`] when its documentation has a character that readers do not see, [`EmbedError::TooLarge`] when the documentation
/// or the manifest is too long.
pub fn embed(component: &[u8], wit: &Path, manifest: Option<&str>) -> Result<Vec<u8>, EmbedError> {
    let (resolve, package) = read(wit)?;
    let docs = written(wit, &resolve, package)?;
    let too_large = |what| EmbedError::TooLarge { what };
    if docs.len() > MAX_SECTION_BYTES {
        return Err(too_large("the documentation"));
    }
    if manifest.is_some_and(|text| text.len() > MAX_SECTION_BYTES) {
        return Err(too_large("the manifest"));
    }
    let made;
    let component = if sections::is_core(component) {
        let names = CoreNames::of(component);
        let whole = match sections::is_unfinished(component) || names.is_command {
            true => encode(component, &names),
            false => typed(component, &resolve, package).and_then(|module| encode(&module, &names)),
        };
        made = whole.map_err(|cause| LoadError::NotAComponent {
            message: format!("no component can be made of this core module: {cause:#}"),
        })?;
        &made
    } else {
        component
    };
    let with_docs = sections::replace(component, PackageMetadata::SECTION_NAME, Some(&docs))?;
    Ok(sections::replace(&with_docs, MANIFEST, manifest.map(str::as_bytes))?)
}

/// Adds the types of the world `plugin`, or of the only world, to a core module.
fn typed(module: &[u8], resolve: &Resolve, package: PackageId) -> anyhow::Result<Vec<u8>> {
    let world = resolve.select_world(&[package], Some("plugin"));
    let world = world.or_else(|_| resolve.select_world(&[package], None))?;
    let mut module = module.to_vec();
    embed_component_metadata(&mut module, resolve, world, StringEncoding::UTF8)?;
    Ok(module)
}

/// Properties of a core module that decide how a component is made of it.
struct CoreNames {
    /// Whether the module imports functions of WASI 0.1.
    imports_wasi_p1: bool,
    /// Whether the module is a program, with a start function for its caller.
    is_command: bool,
}

impl CoreNames {
    /// Reads the names of imports and exports. The encoder reports a broken module.
    fn of(module: &[u8]) -> Self {
        let mut names = Self { imports_wasi_p1: false, is_command: false };
        for payload in Parser::new(0).parse_all(module).map_while(Result::ok) {
            match payload {
                Payload::ImportSection(imports) => {
                    let mut all = imports.into_imports().map_while(Result::ok);
                    names.imports_wasi_p1 |=
                        all.any(|import| import.module == wasi_p1::WASI_SNAPSHOT_PREVIEW1_ADAPTER_NAME);
                }
                Payload::ExportSection(exports) => {
                    names.is_command |=
                        exports.into_iter().map_while(Result::ok).any(|export| export.name == "_start");
                }
                _ => {}
            }
        }
        names
    }
}

/// Makes a component of a core module with types, with WASI 0.1 on top of WASI 0.2 if it imports that.
fn encode(module: &[u8], names: &CoreNames) -> anyhow::Result<Vec<u8>> {
    let mut encoder = ComponentEncoder::default().module(module)?;
    if names.imports_wasi_p1 || names.is_command {
        let adapter = match names.is_command {
            true => wasi_p1::WASI_SNAPSHOT_PREVIEW1_COMMAND_ADAPTER,
            false => wasi_p1::WASI_SNAPSHOT_PREVIEW1_REACTOR_ADAPTER,
        };
        encoder = encoder.adapter(wasi_p1::WASI_SNAPSHOT_PREVIEW1_ADAPTER_NAME, adapter)?;
    }
    encoder.validate(true).encode()
}

/// Manifest in a component, if it is text within the length limit.
#[must_use]
pub fn manifest(wasm: &[u8]) -> Option<String> {
    let section =
        sections::custom(wasm, MANIFEST).next().filter(|section| section.len() <= MAX_SECTION_BYTES)?;
    std::str::from_utf8(section).ok().map(str::to_owned)
}

/// All documentation in a component.
#[derive(Debug, Default)]
pub(crate) struct ComponentDocs(Vec<Package>);

#[derive(Debug, Default, Deserialize)]
#[serde(default)]
struct Package {
    worlds: HashMap<String, World>,
    interfaces: HashMap<String, Interface>,
}

#[derive(Debug, Default, Deserialize)]
#[serde(default)]
struct World {
    interfaces: HashMap<String, Interface>,
    interface_exports: HashMap<String, Interface>,
    types: HashMap<String, Type>,
    funcs: HashMap<String, Function>,
    func_exports: HashMap<String, Function>,
}

#[derive(Debug, Default, Deserialize)]
#[serde(default)]
struct Interface {
    funcs: HashMap<String, Function>,
    types: HashMap<String, Type>,
}

#[derive(Debug, Deserialize)]
#[serde(untagged)]
enum Function {
    Docs(Option<String>),
    More { docs: Option<String> },
}

#[derive(Debug, Default, Deserialize)]
#[serde(default)]
struct Type {
    docs: Option<String>,
    items: BTreeMap<String, String>,
}

impl Function {
    fn text(&self) -> Option<&str> {
        match self {
            Self::Docs(docs) | Self::More { docs } => docs.as_deref(),
        }
    }
}

impl ComponentDocs {
    /// Reads the documentation from a component.
    pub fn of(wasm: &[u8]) -> Self {
        let all = sections::custom(wasm, PackageMetadata::SECTION_NAME).take(MAX_SECTIONS);
        let known =
            all.filter(|section| section.len() <= MAX_SECTION_BYTES).filter_map(|section| match section {
                // First byte: the version of the format. The two versions are alike in all that is read here.
                [0 | 1, json @ ..] => serde_json::from_slice(json).ok(),
                _ => None,
            });
        Self(known.collect())
    }

    /// Documentation of a function, or an empty text. `interface` is the name of the export that
    /// contains it.
    pub fn function(&self, interface: Option<&str>, name: &str) -> String {
        let found: Vec<_> = match interface {
            None => self
                .worlds()
                .filter_map(|world| world.func_exports.get(name).or_else(|| world.funcs.get(name)))
                .collect(),
            Some(interface) => {
                self.interface(interface).filter_map(|interface| interface.funcs.get(name)).collect()
            }
        };
        only(found.into_iter().filter_map(Function::text))
            .map(|text| clean(text, MAX_FUNCTION_CHARS))
            .unwrap_or_default()
    }

    /// Documentation of a type, from where it is exported or imported (the world itself, without an
    /// interface). Types that an interface uses are documented where they are defined, so the other
    /// interfaces are searched as well.
    pub fn ty(&self, interface: Option<&str>, name: &str) -> Option<TypeDoc> {
        let near: Vec<&Type> = match interface {
            None => self.worlds().filter_map(|world| world.types.get(name)).collect(),
            Some(interface) => {
                self.interface(interface).filter_map(|interface| interface.types.get(name)).collect()
            }
        };
        let far = || {
            self.0
                .iter()
                .flat_map(|package| package.interfaces.values())
                .filter_map(|interface| interface.types.get(name))
        };
        let docs = only(near.into_iter().map(ty)).or_else(|| only(far().map(ty)))?;
        (docs != TypeDoc::default()).then_some(docs)
    }

    fn worlds(&self) -> impl Iterator<Item = &World> {
        self.0.iter().flat_map(|package| package.worlds.values())
    }

    /// Interfaces that an export or import of this name may refer to.
    fn interface<'a>(&'a self, name: &'a str) -> impl Iterator<Item = &'a Interface> {
        let short = name.split('@').next().and_then(|name| name.rsplit_once('/')).map(|(_, short)| short);
        let named = short
            .into_iter()
            .flat_map(|short| self.0.iter().filter_map(move |package| package.interfaces.get(short)));
        let inline = self.worlds().filter_map(move |world| {
            world.interface_exports.get(name).or_else(|| world.interfaces.get(name))
        });
        named.chain(inline.filter(move |_| short.is_none()))
    }
}

fn ty(docs: &Type) -> TypeDoc {
    let items = docs.items.iter().map(|(name, text)| (name.clone(), clean(text, MAX_ITEM_CHARS))).collect();
    TypeDoc { doc: docs.docs.as_deref().map(|text| clean(text, MAX_ITEM_CHARS)).unwrap_or_default(), items }
}

/// The value of all items, if they agree.
fn only<T: PartialEq>(mut all: impl Iterator<Item = T>) -> Option<T> {
    let first = all.next()?;
    all.all(|other| other == first).then_some(first)
}
