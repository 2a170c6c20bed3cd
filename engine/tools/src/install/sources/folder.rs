//! A plugin's folder: one component, `plugin.toml`, and optionally the component's signature.

use std::path::{Path, PathBuf};

use super::file::{read, signature, text};
use super::{Fetched, MAX_SOURCE_BYTES, SourceError, name_of};
use crate::install::manifest;

/// Maximum number of entries in a folder: one component needs little beside it.
const MAX_ENTRIES: usize = 4096;

/// Reads the component, its manifest and its signature.
///
/// # Errors
/// [`SourceError::Unreadable`] when there is no component or more than one, or a file cannot be read;
/// [`SourceError::Long`] when a file is too long.
pub fn fetch(folder: &Path) -> Result<Fetched, SourceError> {
    let component = component(folder)?;
    let manifest = folder.join(manifest::FILE);
    let manifest = match manifest.symlink_metadata() {
        Ok(_) => Some((text(&manifest, manifest::MAX_MANIFEST_BYTES)?, manifest)),
        Err(_) => None,
    };
    Ok(Fetched {
        wasm: read(&component, MAX_SOURCE_BYTES)?,
        manifest,
        signature: signature(&component)?,
        name: name_of(&folder.file_name().unwrap_or_default().to_string_lossy()),
        pinned: component.display().to_string(),
    })
}

/// Path of the one component in a folder.
pub(crate) fn component(folder: &Path) -> Result<PathBuf, SourceError> {
    let bad = |why: String| SourceError::unreadable(folder.display(), why);
    let entries = folder.read_dir().map_err(|e| bad(format!("cannot be read: {e}")))?;
    // All entries are read, not just the first ones: of two components the second may be the last entry.
    let entries: Vec<_> = entries.take(MAX_ENTRIES + 1).collect();
    if entries.len() > MAX_ENTRIES {
        return Err(bad(format!("has more than {MAX_ENTRIES} entries; name the component in it")));
    }
    let paths = entries.into_iter().filter_map(|entry| Some(entry.ok()?.path()));
    let mut all: Vec<PathBuf> = paths.filter(|path| path.extension().is_some_and(|e| e == "wasm")).collect();
    all.sort();
    match (all.pop(), all.as_slice()) {
        (Some(only), []) => Ok(only),
        (None, _) => Err(bad(no_component(folder))),
        (Some(last), [first, ..]) => Err(bad(format!(
            "has more than one component ({}, {}); name the one that you mean",
            first.file_name().unwrap_or_default().display(),
            last.file_name().unwrap_or_default().display()
        ))),
    }
}

/// Words for a folder without a component. One that a plugin is written in has it in the folder below that `build` writes to.
fn no_component(folder: &Path) -> String {
    let out = folder.join("out");
    let is_built = out.read_dir().into_iter().flatten().flatten().any(|entry| {
        let path = entry.path();
        path.extension().is_some_and(|end| end == "wasm")
    });
    let why = "has no component: there is no file NAME.wasm in it";
    match (is_built, folder.join(manifest::FILE).is_file()) {
        (true, _) => format!("{why}; what was built is in {}: name that folder", out.display()),
        (false, true) => format!("{why}; hotcell tool build makes one in {}", out.display()),
        (false, false) => why.to_owned(),
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn folder_source_has_one_component_and_manifest() {
        let dir = tempfile::tempdir().unwrap();
        let folder = dir.path().join("my_files");
        std::fs::create_dir(&folder).unwrap();
        let write = |name: &str, text: &str| std::fs::write(folder.join(name), text).unwrap();
        let why = |word: &str| {
            let error = fetch(&folder).unwrap_err().to_string();
            assert!(error.contains(word), "{error}");
        };
        why("NAME.wasm");
        write("plugin.toml", "[plugin]\n");
        why("hotcell tool build makes one in ");
        std::fs::create_dir(folder.join("out")).unwrap();
        std::fs::write(folder.join("out/a.wasm"), "a").unwrap();
        why("my_files/out: name that folder");
        std::fs::remove_file(folder.join("plugin.toml")).unwrap();
        write("a.wasm", "a");
        let alone = fetch(&folder).unwrap();
        assert_eq!(
            (alone.wasm.as_slice(), alone.manifest, alone.name.as_str()),
            (&b"a"[..], None, "my-files")
        );
        write("plugin.toml", "[plugin]\n");
        write("a.wasm.minisig", "signed");
        let whole = fetch(&folder).unwrap();
        assert_eq!(whole.signature.as_deref(), Some("signed"));
        assert_eq!(whole.manifest, Some(("[plugin]\n".to_owned(), folder.join("plugin.toml"))));
        write("plugin.toml", &"#".repeat(70_000));
        why("longer than");
        std::fs::remove_file(folder.join("plugin.toml")).unwrap();
        write("b.wasm", "b");
        why("a.wasm, b.wasm");
        std::fs::remove_file(folder.join("a.wasm")).unwrap();
        std::fs::remove_file(folder.join("b.wasm")).unwrap();
        std::fs::create_dir(folder.join("c.wasm")).unwrap();
        why("is no file");
        for number in 0..MAX_ENTRIES {
            write(&number.to_string(), "");
        }
        why("more than 4096 entries");
    }
}
