//! A plain folder of the service for one run, removed after its last use. Programs never write to it: they
//! get a copy-on-write view.

use std::collections::BTreeMap;
use std::io::{self, Write};
use std::path::{Path, PathBuf};
use std::sync::Arc;

use cap_std::fs::{Dir, DirBuilder, DirBuilderExt, OpenOptions, OpenOptionsExt, PermissionsExt};
use hotcell_state::ids::handle;
use hotcell_state::report::ErrorReport;

use crate::folder::ServiceFolder;
use crate::workspaces::errors::failed;

use super::NewFile;

/// Files for one run. The folder exists as long as it is used.
#[derive(Debug)]
pub struct Temporary {
    name: String,
    folder: Arc<ServiceFolder>,
    path: PathBuf,
}

impl Temporary {
    pub(crate) fn make(
        folder: &Arc<ServiceFolder>,
        files: &BTreeMap<PathBuf, &NewFile>,
    ) -> Result<Self, ErrorReport> {
        let name = handle("files_")?;
        let io = |e: io::Error| failed("a folder cannot be made", &e);
        folder.dir().create_dir_with(&name, &open_to_all(false)).map_err(io)?;
        let path = folder.path().join(&name);
        let made = Self { folder: Arc::clone(folder), path, name };
        let dir = folder.dir().open_dir(&made.name).map_err(io)?;
        for (path, file) in files {
            place(&dir, path, file).map_err(|e| failed(&format!("{:?} cannot be written", file.path), &e))?;
        }
        Ok(made)
    }

    /// Path of the folder on the host. Must not be shown to a caller.
    #[must_use]
    pub fn path(&self) -> &Path {
        &self.path
    }
}

/// Other users are kept out by the service's folder; the sandbox's user needs access inside it.
fn open_to_all(recursive: bool) -> DirBuilder {
    let mut builder = DirBuilder::new();
    builder.mode(0o755).recursive(recursive);
    builder
}

fn place(dir: &Dir, path: &Path, file: &NewFile) -> io::Result<()> {
    if let Some(parent) = path.parent().filter(|p| !p.as_os_str().is_empty()) {
        dir.create_dir_with(parent, &open_to_all(true))?;
    }
    let mode = if file.executable { 0o755 } else { 0o644 };
    let mut options = OpenOptions::new();
    options.write(true).create_new(true).mode(mode);
    let mut open = dir.open_with(path, &options)?;
    open.set_permissions(cap_std::fs::Permissions::from_mode(mode))?;
    open.write_all(&file.bytes)
}

impl Drop for Temporary {
    fn drop(&mut self) {
        let (folder, name) = (Arc::clone(&self.folder), self.name.clone());
        let remove = move || {
            if let Err(error) = folder.dir().remove_dir_all(&name) {
                tracing::warn!("files of a run are left behind until the service ends: {error}");
            }
        };
        match tokio::runtime::Handle::try_current() {
            // Removal would block a thread of the runtime.
            Ok(runtime) => drop(runtime.spawn_blocking(remove)),
            Err(_) => remove(),
        }
    }
}
