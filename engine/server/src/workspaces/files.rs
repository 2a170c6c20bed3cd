//! Checks files to be written against the limits. Pure.

use std::collections::{BTreeMap, BTreeSet};
use std::path::{Path, PathBuf};

use hotcell_state::report::{Code, ErrorReport};

use crate::paths::relative;
use crate::workspaces::errors::{in_the_way, over};

use super::Quotas;

/// A file to write.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct NewFile {
    /// Path below the workspace.
    pub path: String,
    /// Contents.
    pub bytes: Vec<u8>,
    /// True for an executable file.
    pub executable: bool,
}

/// Checks the files of one call, which must not exceed a whole workspace's quota. A path may stand there twice with the same contents.
///
/// # Errors
/// A report when a limit is exceeded or a path is invalid.
pub fn plan<'a>(
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
        if planned
            .insert(path, file)
            .is_some_and(|other: &NewFile| other.bytes != file.bytes || other.executable != file.executable)
        {
            return Err(ErrorReport::new(
                Code::InvalidValue,
                format!("{:?} is given twice, with different contents", file.path),
            )
            .field("files")
            .hint("give each path once"));
        }
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

/// Parent folders of a path.
pub fn around(path: &Path) -> impl Iterator<Item = &Path> {
    path.ancestors().skip(1).filter(|folder| !folder.as_os_str().is_empty())
}

/// Checks that a workspace may hold this many bytes and files.
///
/// # Errors
/// A report with the exceeded limit.
pub fn fits(bytes: u64, files: u64, quotas: &Quotas) -> Result<(), ErrorReport> {
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
