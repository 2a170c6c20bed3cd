//! Files that are to be written, held against the bounds. Pure.

use std::collections::{BTreeMap, BTreeSet};
use std::path::{Path, PathBuf};

use super::Quotas;
use super::told::{in_the_way, over};
use crate::live::paths::relative;
use crate::report::ErrorReport;

/// A file to write.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct NewFile {
    /// Path below the workspace.
    pub path: String,
    /// Its bytes.
    pub bytes: Vec<u8>,
    /// Whether it can be executed.
    pub executable: bool,
}

/// Checks files of one call, which may not need more than a whole workspace has; of two with the same path the later counts.
///
/// # Errors
/// A report: a bound or a path.
pub(super) fn plan<'a>(
    files: &'a [NewFile],
    quotas: &Quotas,
) -> Result<BTreeMap<PathBuf, &'a NewFile>, ErrorReport> {
    if files.len() > quotas.at_once {
        return Err(over("files", files.len() as u64, quotas.at_once as u64));
    }
    let (mut planned, mut folders) = (BTreeMap::new(), BTreeSet::new());
    for file in files {
        let size = file.bytes.len() as u64;
        if size > quotas.file {
            return Err(
                over(&format!("the size of {:?} in bytes", file.path), size, quotas.file).field("files")
            );
        }
        let path = relative(&file.path)?;
        folders.extend(around(&path).map(Path::to_owned));
        planned.insert(path, file);
    }
    for (path, file) in &planned {
        if folders.contains(path) {
            return Err(in_the_way(&file.path, path));
        }
    }
    let bytes = planned.values().map(|file| file.bytes.len() as u64).sum();
    let entries = (planned.len() + folders.len()) as u64;
    fits(bytes, entries, quotas)?;
    Ok(planned)
}

/// The folders around a path.
pub(super) fn around(path: &Path) -> impl Iterator<Item = &Path> {
    path.ancestors().skip(1).filter(|folder| !folder.as_os_str().is_empty())
}

/// Whether a workspace may hold so much.
///
/// # Errors
/// A report with the bound.
pub(super) fn fits(bytes: u64, files: u64, quotas: &Quotas) -> Result<(), ErrorReport> {
    for (what, is, most) in [
        ("bytes in the workspace", bytes, quotas.bytes),
        ("files and folders in the workspace", files, quotas.files),
    ] {
        if is > most {
            return Err(over(what, is, most).field("files"));
        }
    }
    Ok(())
}
