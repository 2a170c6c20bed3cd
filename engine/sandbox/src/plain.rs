//! The scratch folder of a sandbox without a root of its own (`landlock-only`): a private folder of the host,
//! gone with the sandbox. Weaker than the tmpfs that other sandboxes have: nothing limits what is written to it.

use std::ffi::OsStr;
use std::fs;
use std::io::{self, Read};
use std::os::unix::fs::{MetadataExt, PermissionsExt};
use std::path::Path;

use cap_std::ambient_authority;
use cap_std::fs::{Dir, MetadataExt as _, OpenOptions, OpenOptionsExt};

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
            self.copy(&source.host, &mut room).map_err(|e| {
                Refusal::new(format!(
                    "{} cannot be copied for the run: {e}; raise --disk or --files, or use a profile with namespaces",
                    source.host.display()
                ))
            })?;
        }
        Ok(())
    }

    fn copy(&self, host: &Path, room: &mut Room) -> io::Result<()> {
        let from = Dir::open_ambient_dir(host, ambient_authority())?;
        let mode = from.dir_metadata()?.mode() & 0o777;
        let scratch = Dir::open_ambient_dir(self.path(), ambient_authority())?;
        scratch.create_dir(PROJECT_NAME)?;
        let to = scratch.open_dir(PROJECT_NAME)?;
        copy_folder(&from, &to, self.owner, room, 0)?;
        give(&to.open(".")?.into_std(), self.owner, mode)
    }
}

/// Copies a folder by descriptors only: whoever owns it may swap its files for links and pipes meanwhile, and nothing
/// beyond it is ever opened. What is no file, folder or link is left out.
fn copy_folder(
    from: &Dir,
    to: &Dir,
    owner: Option<(u32, u32)>,
    room: &mut Room,
    depth: u32,
) -> io::Result<()> {
    if depth > DEEPEST {
        return Err(io::Error::new(io::ErrorKind::InvalidInput, "its folders are nested too deep"));
    }
    for entry in from.entries()? {
        let entry = entry?;
        let (name, kind) = (entry.file_name(), entry.file_type()?);
        if kind.is_dir() {
            room.take(0)?;
            let source = from.open_dir(&name)?;
            let mode = source.dir_metadata()?.mode() & 0o777;
            to.create_dir(&name)?;
            let target = to.open_dir(&name)?;
            copy_folder(&source, &target, owner, room, depth + 1)?;
            give(&target.open(".")?.into_std(), owner, mode)?;
        } else if kind.is_file() {
            copy_file(from, to, &name, owner, room)?;
        } else if kind.is_symlink() {
            room.take(0)?;
            to.symlink_contents(from.read_link_contents(&name)?, &name)?;
        }
    }
    Ok(())
}

fn copy_file(
    from: &Dir,
    to: &Dir,
    name: &OsStr,
    owner: Option<(u32, u32)>,
    room: &mut Room,
) -> io::Result<()> {
    let mut options = OpenOptions::new();
    // A pipe that was put in its place does not hold us up.
    options.read(true).custom_flags(nix::libc::O_NOFOLLOW | nix::libc::O_NONBLOCK);
    let source = from.open_with(name, &options)?;
    let metadata = source.metadata()?;
    if !metadata.is_file() {
        return Ok(());
    }
    room.take(0)?;
    let mut target = to.create(name)?;
    // It may grow while it is read.
    let copied = io::copy(&mut source.take(room.bytes.saturating_add(1)), &mut target)?;
    room.bytes = room.bytes.checked_sub(copied).ok_or_else(Room::full)?;
    give(&target.into_std(), owner, metadata.mode() & 0o777)
}

/// Sets owner and mode.
fn give(file: &fs::File, owner: Option<(u32, u32)>, mode: u32) -> io::Result<()> {
    if let Some((uid, gid)) = owner {
        std::os::unix::fs::fchown(file, Some(uid), Some(gid))?;
    }
    file.set_permissions(fs::Permissions::from_mode(mode))
}

/// Each level of folders holds two descriptors.
const DEEPEST: u32 = 200;

/// Begins the refusal for want of a scratch folder.
pub const SCRATCH: &str = "without a root of its own the program needs a scratch folder on the host";

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
        // Ours, or given by us to a sandbox: in a shared folder anybody can make such a name.
        let made_by_us = entry.metadata().is_ok_and(|m| {
            m.is_dir() && (m.uid() == nix::unistd::geteuid().as_raw() || m.uid() >= crate::ids::FIRST)
        });
        if made_by_us
            && owner.is_some_and(|owner| owner.is_gone())
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
        self.bytes = self.bytes.checked_sub(bytes).ok_or_else(Self::full)?;
        self.files = self.files.checked_sub(1).ok_or_else(Self::full)?;
        Ok(())
    }

    fn full() -> io::Error {
        io::Error::new(io::ErrorKind::QuotaExceeded, "it is larger than the run's disk or file limit")
    }
}

fn own(path: &Path, owner: Option<(u32, u32)>) -> io::Result<()> {
    match owner {
        Some((uid, gid)) => std::os::unix::fs::lchown(path, Some(uid), Some(gid)),
        None => Ok(()),
    }
}

fn cannot(what: &str, e: &io::Error) -> Refusal {
    Refusal::new(format!("{SCRATCH}: cannot {what} it: {e}; set TMPDIR to a folder that you can write"))
}
