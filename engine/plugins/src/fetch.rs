//! From a named source to an inspected version: fetched, its signature checked, described. Nothing is stored
//! yet.

use std::ffi::OsStr;
use std::path::{Path, PathBuf};

use hotcell_config::of_file;
use hotcell_state::report::{Code, ErrorReport};
use hotcell_tools::component::serves;
use hotcell_tools::install::manifest::is_name;
use hotcell_tools::install::signature::{Key, SignatureError};
use hotcell_tools::install::sources::file::text;
use hotcell_tools::install::sources::{Source, SourceError, sha256};
use hotcell_tools::{LoadError, Manifest};

use super::adding::{AddOptions, Describe};
use super::plugins::{Done, Plugins};
use super::rows::Version;

/// An inspected version.
#[derive(Debug)]
pub struct Looked {
    pub name: String,
    pub version: Version,
    pub wasm: Vec<u8>,
}

impl Plugins {
    /// Fetches and inspects a version.
    pub async fn look(
        &self,
        source: &OsStr,
        cwd: &Path,
        options: &AddOptions,
        describer: &dyn Describe,
    ) -> Done<Looked> {
        let source = Source::parse(source, cwd).map_err(|e| of_source(&e))?;
        self.look_at(&source, cwd, options, describer).await
    }

    pub(crate) async fn look_at(
        &self,
        source: &Source,
        cwd: &Path,
        options: &AddOptions,
        describer: &dyn Describe,
    ) -> Done<Looked> {
        let fetched = source.fetch().await.map_err(|e| of_source(&e))?;
        let signature = match &options.signature {
            Some(file) => Some(text(&cwd.join(file), 4096).map_err(|e| of_source(&e))?),
            None => fetched.signature.clone(),
        };
        // The operator's key takes precedence over all others.
        let required = self.settings().required().map_err(|e| of_signature(&e, true))?;
        let configured = required.is_some();
        let bad = |e: SignatureError| of_signature(&e, configured);
        let named = options.key.as_deref().map(|named| Key::parse(named, cwd).map_err(bad)).transpose()?;
        let signer = match required.or(named) {
            Some(key) => {
                if key.cosign().is_some() && options.signature.is_some() {
                    return Err(bad(SignatureError::NotHere));
                }
                source.check(&fetched, &key, signature.as_deref()).await.map_err(bad)?;
                Some(key)
            }
            None => None,
        };
        let description = describer.describe(&fetched.wasm).await.map_err(|e| of_load(source, &e))?;
        if description.exports.is_empty() && serves::words(&description).is_empty() {
            return Err(of_load(source, &LoadError::NoTools));
        }
        if let Some(place) = &description.hidden {
            let why = format!("{}: its documentation, {place}", source.place());
            return Err(ErrorReport::new(Code::InvalidValue, why)
                .field("SOURCE")
                .hint("ask its author for a version without such characters: a person does not see what they tell a model"));
        }
        // minisign signs only the component, so anyone could have written a manifest beside it. cosign signs
        // the whole artifact.
        if let (Some(key), Some((beside, file))) = (&signer, &fetched.manifest)
            && key.cosign().is_none()
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
            Some((text, file)) => {
                Manifest::check_shown(&text, &file).map_err(of_file)?;
                (Manifest::parse(&text, &file).map_err(of_file)?.name, Some(text))
            }
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
            signer: signer.map(|key| key.base64().to_owned()),
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
    let report = ErrorReport::new(Code::InvalidValue, error.to_string());
    if configured { report.field("tools.signed_by") } else { report.parameter("key") }
}

fn of_load(source: &Source, error: &LoadError) -> ErrorReport {
    let code = if matches!(error, LoadError::Host { .. }) { Code::Internal } else { Code::InvalidValue };
    ErrorReport::new(code, format!("{}: {error}", source.place())).field("SOURCE")
}
