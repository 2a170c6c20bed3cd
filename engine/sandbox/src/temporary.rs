//! Private folders on the host for the needs of one run: removed with their value, or, if their process was
//! killed before, by the next start.

use std::fs::{self, Permissions};
use std::io::{self, Write};
use std::os::unix::fs::{MetadataExt, OpenOptionsExt, PermissionsExt};
use std::path::{Path, PathBuf};
use std::time::{Duration, Instant};

use tempfile::TempDir;

use crate::leftovers::Owner;

/// Prefix of every name; it is followed by the owner and an unguessable suffix.
const PREFIX: &str = "hotcell-";

/// Time after which [`remove_leftovers`] begins with no further folder.
const MAX_SWEEP: Duration = Duration::from_secs(2);

/// Makes a folder in `TMPDIR` that only this user can write to. Other users may enter it, since a sandbox can
/// have another user id on the host.
///
/// # Errors
/// When `TMPDIR` is not writable.
pub fn folder() -> io::Result<TempDir> {
    let name = Owner::this_process()?.next_name();
    tempfile::Builder::new().prefix(&format!("{PREFIX}{name}-")).tempdir()
}

/// Writes a file into a folder of [`folder`] and returns its path. The file is readable by all users, for
/// sandboxes in which its owner cannot be mapped.
///
/// # Errors
/// When the file already exists, or there is no space left.
pub fn file(folder: &TempDir, name: &str, text: &[u8]) -> io::Result<PathBuf> {
    let path = folder.path().join(name);
    let mut file = fs::OpenOptions::new().write(true).create_new(true).mode(0o644).open(&path)?;
    file.set_permissions(Permissions::from_mode(0o644))?;
    file.write_all(text)?;
    Ok(path)
}

/// Removes the folders of processes that have ended. Once its time is over, the others are left to the next start.
pub(crate) fn remove_leftovers() {
    remove_leftovers_in(&std::env::temp_dir(), MAX_SWEEP);
}

/// Like [`remove_leftovers`], in a folder. A folder that was begun with is removed whole, and one is always begun with.
fn remove_leftovers_in(folder: &Path, most: Duration) {
    let began = Instant::now();
    let mut is_first = true;
    let entries = fs::read_dir(folder).into_iter().flatten().flatten();
    for entry in entries {
        let name = entry.file_name();
        // The name first: the folder may have thousands of other entries, and each start comes here.
        let Some(owner) = name
            .to_str()
            .and_then(|name| name.strip_prefix(PREFIX)?.rsplit_once('-'))
            .and_then(|(owner, _)| Owner::of(owner))
        else {
            continue;
        };
        // Only folders of this user, or given by hotcell to a sandbox: in a shared folder any user can create
        // such a name.
        let made_by_us = entry.metadata().is_ok_and(|m| {
            m.is_dir() && (m.uid() == nix::unistd::geteuid().as_raw() || m.uid() >= crate::ids::FIRST_ID)
        });
        if !made_by_us || !owner.is_gone() {
            continue;
        }
        if !std::mem::take(&mut is_first) && began.elapsed() >= most {
            tracing::debug!("leftovers in {} are left to the next start", folder.display());
            return;
        }
        if let Err(e) = fs::remove_dir_all(entry.path()) {
            tracing::debug!(
                "{}: left by a process that has ended, and cannot be removed: {e}",
                entry.path().display()
            );
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    /// Beginning of the names of a process that has ended.
    fn name_of_dead() -> String {
        let mut child = std::process::Command::new("sleep").arg("60").spawn().unwrap();
        let dead = format!("{PREFIX}{}-0", crate::leftovers::owner_of_child(child.id()));
        child.kill().unwrap();
        child.wait().unwrap();
        dead
    }

    #[test]
    fn sweep_without_time_removes_one_folder() {
        let dir = tempfile::tempdir().unwrap();
        let dead = name_of_dead();
        for end in ["x", "y", "z"] {
            fs::create_dir_all(dir.path().join(format!("{dead}-{end}/a"))).unwrap();
        }
        let left = || fs::read_dir(dir.path()).unwrap().count();
        for want in [2, 1, 0, 0] {
            remove_leftovers_in(dir.path(), Duration::ZERO);
            assert_eq!(left(), want);
        }
    }

    #[test]
    fn temporary_folders_of_dead_owners_are_removed() {
        let left = std::env::temp_dir().join(format!("{}-x", name_of_dead()));
        fs::create_dir(&left).unwrap();
        let alive = folder().unwrap();
        let written = file(&alive, "a", b"text").unwrap();
        assert!(file(&alive, "a", b"other").is_err());
        remove_leftovers();
        assert!(!left.exists());
        assert_eq!(fs::read(written).unwrap(), b"text");
    }
}
