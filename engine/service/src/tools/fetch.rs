//! From what a person named to a version that was looked at: fetched, its signature checked, described. Nothing is kept yet.

use std::ffi::OsStr;
use std::path::{Path, PathBuf};

use hotcell_tools::manifest::is_name;
use hotcell_tools::signature::{Key, SignatureError};
use hotcell_tools::sources::file::text;
use hotcell_tools::sources::{Source, SourceError, sha256};
use hotcell_tools::{BoxFuture, Description, LoadError, Manifest};

use super::plugins::{Done, Plugins};
use super::rows::Version;
use crate::config::of_file;
use crate::report::{Code, ErrorReport};

/// Reads components without trusting them: a process of its own that can be ended.
pub trait Describe: Send + Sync {
    /// What a component says of itself.
    fn describe<'a>(&'a self, wasm: &'a [u8]) -> BoxFuture<'a, Result<Description, LoadError>>;
}

/// How a plugin is added.
#[derive(Clone, Debug, Default)]
pub struct AddOptions {
    /// A minisign key, or its file, that has to have signed the component.
    pub key: Option<String>,
    /// The signature's file, where it does not lie beside the component.
    pub signature: Option<PathBuf>,
    /// It may take the place of a plugin of its name that came from elsewhere.
    pub replace: bool,
}

/// A version that was looked at.
#[derive(Debug)]
pub(super) struct Looked {
    pub name: String,
    pub version: Version,
    pub wasm: Vec<u8>,
}

impl Plugins {
    /// Fetches a version and looks at it.
    pub(super) async fn look(
        &self,
        source: &OsStr,
        cwd: &Path,
        options: &AddOptions,
        describer: &dyn Describe,
    ) -> Done<Looked> {
        let source = Source::parse(source, cwd).map_err(|e| of_source(&e))?;
        self.look_at(&source, cwd, options, describer).await
    }

    pub(super) async fn look_at(
        &self,
        source: &Source,
        cwd: &Path,
        options: &AddOptions,
        describer: &dyn Describe,
    ) -> Done<Looked> {
        let fetched = source.fetch().await.map_err(|e| of_source(&e))?;
        let signature = match &options.signature {
            Some(file) => Some(text(&cwd.join(file), 4096).map_err(|e| of_source(&e))?),
            None => fetched.signature,
        };
        // The operator's key goes before any other.
        let required = self.settings().required().map_err(|e| of_signature(&e, true))?;
        let configured = required.is_some();
        let bad = |e: SignatureError| of_signature(&e, configured);
        let named = options.key.as_deref().map(|named| Key::parse(named, cwd).map_err(bad)).transpose()?;
        let signer = match required.or(named) {
            Some(key) => {
                key.check(&fetched.wasm, signature.as_deref()).map_err(bad)?;
                Some(key.base64().to_owned())
            }
            None => None,
        };
        let description = describer.describe(&fetched.wasm).await.map_err(|e| of_load(source, &e))?;
        if description.exports.is_empty() {
            return Err(of_load(source, &LoadError::NoTools));
        }
        // What is signed is the component. A manifest beside it is anybody's.
        if let (Some(_), Some((beside, file))) = (&signer, &fetched.manifest)
            && description.manifest.as_ref() != Some(beside)
        {
            let why =
                format!("{} is not the manifest in the component, which alone is signed", file.display());
            return Err(ErrorReport::new(Code::InvalidValue, why)
                .field("SOURCE")
                .hint("hotcell tool build puts the manifest into the component; sign what it makes"));
        }
        let manifest = match (fetched.manifest, &description.manifest) {
            (Some(beside), _) => Some(beside),
            (None, Some(within)) => Some((within.clone(), PathBuf::from("the manifest in the component"))),
            (None, None) => None,
        };
        let (name, manifest) = match manifest {
            Some((text, file)) => (Manifest::parse(&text, &file).map_err(of_file)?.name, Some(text)),
            None => {
                is_name(&fetched.name).map_err(|why| {
                    ErrorReport::new(Code::InvalidValue, format!("it has no manifest, and {why}")).hint(
                        "name its file or folder as the plugin is to be called, or give it a plugin.toml",
                    )
                })?;
                (fetched.name, None)
            }
        };
        let version = Version {
            digest: sha256(&fetched.wasm),
            bytes: fetched.wasm.len() as u64,
            place: source.place(),
            local: source.is_local(),
            pinned: fetched.pinned,
            description,
            manifest,
            signer,
        };
        Ok(Looked { name, version, wasm: fetched.wasm })
    }
}

fn of_source(error: &SourceError) -> ErrorReport {
    let report = ErrorReport::new(Code::InvalidValue, error.to_string()).field("SOURCE");
    match error {
        SourceError::Digest { .. } => report.hint("nothing of it was kept"),
        _ => report,
    }
}

fn of_signature(error: &SignatureError, configured: bool) -> ErrorReport {
    let field = if configured { "tools.signed_by" } else { "--key" };
    ErrorReport::new(Code::InvalidValue, error.to_string()).field(field)
}

fn of_load(source: &Source, error: &LoadError) -> ErrorReport {
    let code = if matches!(error, LoadError::Host { .. }) { Code::Internal } else { Code::InvalidValue };
    ErrorReport::new(code, format!("{}: {error}", source.place())).field("SOURCE")
}
