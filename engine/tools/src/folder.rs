//! A granted folder with its identity, so that its path cannot lead to another one later.

use std::fs::{File, OpenOptions};
use std::os::fd::AsRawFd;
use std::os::unix::fs::OpenOptionsExt;
use std::path::PathBuf;

use hotcell_sandbox::FileId;
use serde::{Deserialize, Serialize};

/// A folder that a component can access, at the same path as on the host.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct Folder {
    /// An absolute, canonical path.
    pub path: PathBuf,
    /// Whether the component may change its contents.
    pub writable: bool,
    /// Identity of the granted folder; `None` accepts any folder at the path. Where folders are mounted, the
    /// process that mounts them checks it, because a mount may have another identity than the folder it
    /// shows.
    pub identity: Option<FileId>,
}

/// An open folder whose identity was checked. A file opened through [`Opened::path`] is in this folder.
#[derive(Debug)]
pub(crate) struct Opened(File);

impl Folder {
    /// Opens the folder and checks its identity.
    ///
    /// # Errors
    /// A sentence when it cannot be opened, or is not the granted folder.
    pub(crate) fn open(&self) -> Result<Opened, String> {
        let name = self.path.display();
        // A symbolic link on the way would lead away from the granted folder.
        match self.path.canonicalize() {
            Ok(real) if real == self.path => {}
            Ok(real) => return Err(format!("{name} is {} now; grant it anew", real.display())),
            Err(error) => return Err(format!("{name}: {error}")),
        }
        let flags = rustix::fs::OFlags::DIRECTORY | rustix::fs::OFlags::NOFOLLOW | rustix::fs::OFlags::PATH;
        let mut options = OpenOptions::new();
        options.read(true).custom_flags(flags.bits().cast_signed());
        let opened = options.open(&self.path).map_err(|error| format!("{name}: {error}"))?;
        let now = opened.metadata().map_err(|error| format!("{name}: {error}"))?;
        match self.identity {
            Some(granted) if granted != FileId::from(&now) => {
                Err(format!("{name} is another folder now than the one that was granted"))
            }
            _ => Ok(Opened(opened)),
        }
    }
}

impl Opened {
    /// A path that leads to exactly this folder, as long as this value lives (proc(5), `/proc/self/fd`).
    pub(crate) fn path(&self) -> PathBuf {
        PathBuf::from(format!("/proc/self/fd/{}", self.0.as_raw_fd()))
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn granted_folder_must_have_same_identity() {
        let dir = tempfile::tempdir().unwrap();
        let path = dir.path().canonicalize().unwrap().join("a");
        let other = path.with_file_name("b");
        std::fs::create_dir(&path).unwrap();
        std::fs::create_dir(&other).unwrap();
        let granted =
            Folder { identity: Some(FileId::of(&path).unwrap()), path: path.clone(), writable: false };
        std::fs::write(path.join("of a"), "").unwrap();
        let opened = granted.open().unwrap();
        std::fs::rename(&path, path.with_file_name("away")).unwrap();
        assert!(opened.path().join("of a").exists(), "whatever becomes of its name");
        std::fs::rename(&other, &path).unwrap();
        assert!(granted.open().unwrap_err().contains("another folder now"));
        assert!(Folder { identity: None, ..granted.clone() }.open().is_ok());
        std::fs::remove_dir(&path).unwrap();
        std::os::unix::fs::symlink(path.with_file_name("away"), &path).unwrap();
        assert!(granted.open().unwrap_err().contains("grant it anew"));
    }
}
