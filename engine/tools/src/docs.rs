//! The documentation that a component carries: its custom section `package-docs`, in the format of `wit-parser`.
//!
//! Toolchains lose it: a Rust component of `wasm32-wasip2` has none. So it is put in from the author's WIT when a plugin is built.
//! It is read without trust: a section that is too large, or that cannot be read, is no documentation.

use std::collections::{BTreeMap, HashMap};
use std::path::{Path, PathBuf};

use serde::Deserialize;
use wit_component::ComponentEncoder;
use wit_parser::{PackageMetadata, Resolve};

use crate::LoadError;
use crate::mapping::TypeDoc;
use crate::mapping::text::clean;
use crate::sections;

/// The section that a plugin's manifest is in, as TOML.
pub const MANIFEST: &str = "hotcell-plugin";
/// How much of such a section is read, in bytes.
const SECTION: usize = 256 << 10;
/// How many of them: a component may be put together from several packages.
const SECTIONS: usize = 8;
/// How long the documentation of a function may be, in characters.
const FUNCTION: usize = 2_000;
/// The same of a type, a field or a case.
const ITEM: usize = 400;

/// Why documentation could not be put into a component.
#[derive(Debug, thiserror::Error)]
pub enum EmbedError {
    /// The file is no component.
    #[error(transparent)]
    Component(#[from] LoadError),
    /// The WIT cannot be read.
    #[error("the WIT in {}: {message}", path.display())]
    Wit {
        /// The folder.
        path: PathBuf,
        /// What is wrong in it.
        message: String,
    },
    /// The documentation or the manifest is longer than what is read again.
    #[error("{what} is larger than {} KiB", SECTION >> 10)]
    TooLarge {
        /// Which of the two.
        what: &'static str,
    },
}

/// Puts the documentation of the WIT package in this folder, and the manifest, into a component, in place of what it has. A core module
/// that carries its component's types (as `wit-bindgen` makes them, without WASI) becomes a component first.
///
/// # Errors
/// See [`EmbedError`].
pub fn embed(component: &[u8], wit: &Path, manifest: Option<&str>) -> Result<Vec<u8>, EmbedError> {
    let error = |message: String| EmbedError::Wit { path: wit.to_owned(), message };
    let mut resolve = Resolve::default();
    let (package, _) = resolve.push_path(wit).map_err(|cause| error(format!("{cause:#}")))?;
    let docs =
        PackageMetadata::extract(&resolve, package).encode().map_err(|cause| error(format!("{cause:#}")))?;
    let too_large = |what| EmbedError::TooLarge { what };
    if docs.len() > SECTION {
        return Err(too_large("the documentation"));
    }
    if manifest.is_some_and(|text| text.len() > SECTION) {
        return Err(too_large("the manifest"));
    }
    let made;
    let component = if sections::is_unfinished(component) {
        made = encode(component).map_err(|cause| LoadError::NotAComponent {
            message: format!("no component can be made of this core module: {cause:#}"),
        })?;
        &made
    } else {
        component
    };
    let with_docs = sections::replace(component, PackageMetadata::SECTION_NAME, Some(&docs))?;
    Ok(sections::replace(&with_docs, MANIFEST, manifest.map(str::as_bytes))?)
}

fn encode(module: &[u8]) -> anyhow::Result<Vec<u8>> {
    ComponentEncoder::default().module(module)?.validate(true).encode()
}

/// The manifest that a component carries, if it is text of a sensible length.
#[must_use]
pub fn manifest(wasm: &[u8]) -> Option<String> {
    let section = sections::custom(wasm, MANIFEST).next().filter(|section| section.len() <= SECTION)?;
    std::str::from_utf8(section).ok().map(str::to_owned)
}

/// All that is documented in a component.
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
    /// What a component carries.
    pub fn of(wasm: &[u8]) -> Self {
        let all = sections::custom(wasm, PackageMetadata::SECTION_NAME).take(SECTIONS);
        let known = all.filter(|section| section.len() <= SECTION).filter_map(|section| match section {
            // The version of the format. Nothing that is read here differs between the two.
            [0 | 1, json @ ..] => serde_json::from_slice(json).ok(),
            _ => None,
        });
        Self(known.collect())
    }

    /// What is said of a function; empty if nothing is. `interface` is the name of the export that it is in.
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
            .map(|text| clean(text, FUNCTION))
            .unwrap_or_default()
    }

    /// What is said of a type, where it is exported or imported (the world itself, without an interface). Types that an interface
    /// uses are documented where they come from, so the other interfaces are looked at as well.
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

    /// The interfaces that an export or import of this name may be.
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
    let items = docs.items.iter().map(|(name, text)| (name.clone(), clean(text, ITEM))).collect();
    TypeDoc { doc: docs.docs.as_deref().map(|text| clean(text, ITEM)).unwrap_or_default(), items }
}

/// What all of them say, if they agree.
fn only<T: PartialEq>(mut all: impl Iterator<Item = T>) -> Option<T> {
    let first = all.next()?;
    all.all(|other| other == first).then_some(first)
}
