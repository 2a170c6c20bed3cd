//! The scratch folder of a sandbox without a root of its own (`landlock-only`): a private folder of the host,
//! gone with the sandbox. Weaker than the tmpfs that other sandboxes have: nothing limits what is written to it.

use std::fs;
use std::io;
use std::os::unix::fs::{DirBuilderExt, MetadataExt, PermissionsExt, symlink};
use std::path::Path;

use crate::ids::Mapping;
use crate::owner::Owner;
use crate::plan::{Refusal, ShapePlan, Source, SourceKind};
use crate::policy::{Limits, PROJECT_NAME};

/// A folder that is removed with this value.
#[derive(Debug)]
pub struct Scratch {
    folder: tempfile::TempDir,
    owner: Option<(u32, u32)>,
}

impl Scratch {
    /// Makes one and allows the plan to use it.
    pub fn make(plan: &mut ShapePlan, mapping: Mapping) -> Result<Self, Refusal> {
        let owner = (mapping == Mapping::Privileged).then_some(plan.setup.outside);
        let name = Owner::this_process().map_err(|e| cannot("name", &e))?.next_name();
        let prefix = format!("{PREFIX}{name}-");
        let folder = tempfile::Builder::new().prefix(&prefix).tempdir().map_err(|e| cannot("make", &e))?;
        own(folder.path(), owner).map_err(|e| cannot("give away", &e))?;
        plan.allow_scratch(folder.path());
        Ok(Self { folder, owner })
    }

    /// Where it is.
    pub fn path(&self) -> &Path {
        self.folder.path()
    }

    /// Copies the workspace into it, up to the job's limits of bytes and files.
    pub fn fill(&self, sources: &[Source], limits: &Limits) -> Result<(), Refusal> {
        let mut room = Room { bytes: limits.disk.0, files: limits.files };
        for source in sources.iter().filter(|s| s.kind == SourceKind::Workspace) {
            self.copy(&source.host, &self.path().join(PROJECT_NAME), &mut room).map_err(|e| {
                Refusal::new(format!(
                    "{} cannot be copied for the run: {e}; raise --disk or --files, or use a profile with namespaces",
                    source.host.display()
                ))
            })?;
        }
        Ok(())
    }

    fn copy(&self, from: &Path, to: &Path, room: &mut Room) -> io::Result<()> {
        let metadata = fs::symlink_metadata(from)?;
        let kind = metadata.file_type();
        if kind.is_dir() {
            room.take(0)?;
            fs::DirBuilder::new().mode(0o700).create(to)?;
            for entry in fs::read_dir(from)? {
                let name = entry?.file_name();
                self.copy(&from.join(&name), &to.join(&name), room)?;
            }
        } else if kind.is_file() {
            room.take(metadata.len())?;
            fs::copy(from, to)?;
        } else if kind.is_symlink() {
            room.take(0)?;
            symlink(fs::read_link(from)?, to)?;
        } else {
            return Ok(()); // a socket, pipe or device never comes along
        }
        own(to, self.owner)?;
        if !kind.is_symlink() {
            fs::set_permissions(to, fs::Permissions::from_mode(metadata.mode() & 0o777))?;
        }
        Ok(())
    }
}

/// The beginning of every scratch folder's name; the owner follows.
const PREFIX: &str = "hotcell-";

/// Removes the scratch folders of processes that have ended.
pub fn remove_leftovers() {
    let entries = fs::read_dir(std::env::temp_dir()).into_iter().flatten().flatten();
    for entry in entries {
        let name = entry.file_name();
        // Behind the owner's name stands tempfile's own suffix.
        let owner = name
            .to_str()
            .and_then(|name| name.strip_prefix(PREFIX)?.rsplit_once('-'))
            .and_then(|(owner, _)| Owner::of(owner));
        if owner.is_some_and(|owner| owner.is_gone())
            && let Err(e) = fs::remove_dir_all(entry.path())
        {
            tracing::debug!(
                "{}: left by a process that has ended, and cannot be removed: {e}",
                entry.path().display()
            );
        }
    }
}

/// What may still be copied.
struct Room {
    bytes: u64,
    files: u64,
}

impl Room {
    fn take(&mut self, bytes: u64) -> io::Result<()> {
        let full =
            || io::Error::new(io::ErrorKind::QuotaExceeded, "it is larger than the run's disk or file limit");
        self.bytes = self.bytes.checked_sub(bytes).ok_or_else(full)?;
        self.files = self.files.checked_sub(1).ok_or_else(full)?;
        Ok(())
    }
}

fn own(path: &Path, owner: Option<(u32, u32)>) -> io::Result<()> {
    match owner {
        Some((uid, gid)) => std::os::unix::fs::lchown(path, Some(uid), Some(gid)),
        None => Ok(()),
    }
}

fn cannot(what: &str, e: &io::Error) -> Refusal {
    Refusal::internal(format!("cannot {what} a scratch folder: {e}; check TMPDIR"))
}
