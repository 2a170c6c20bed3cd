//! The scratch folder of a sandbox without a root of its own (`landlock-only`): a private folder on the host,
//! removed with the sandbox. Weaker than the tmpfs of other sandboxes: the amount written to it is not
//! limited.

use std::ffi::OsStr;
use std::fs;
use std::io::{self, Read};
use std::os::unix::fs::PermissionsExt;
use std::path::{Path, PathBuf};

use cap_std::ambient_authority;
use cap_std::fs::{Dir, MetadataExt as _, OpenOptions, OpenOptionsExt};

use crate::ids::Mapping;
use crate::plan::{ShapePlan, Source};
use crate::policy::Limits;
use crate::refusal::Refusal;
use crate::temporary;

/// A folder that is removed with this value.
#[derive(Debug)]
pub struct Scratch {
    folder: tempfile::TempDir,
    owner: Option<(u32, u32)>,
}

impl Scratch {
    /// Makes a scratch folder and lets the plan's program use it.
    pub fn make(plan: &mut ShapePlan, mapping: Mapping) -> Result<Self, Refusal> {
        let owner = (mapping == Mapping::Privileged).then_some(plan.setup.outside);
        let folder = temporary::folder().map_err(|e| cannot("make", &e))?;
        own(folder.path(), owner).map_err(|e| cannot("give away", &e))?;
        // TMPDIR is shared with other users.
        let private = std::os::unix::fs::PermissionsExt::from_mode(0o700);
        std::fs::set_permissions(folder.path(), private).map_err(|e| cannot("close", &e))?;
        plan.allow_scratch(folder.path());
        Ok(Self { folder, owner })
    }

    /// Path of the folder.
    pub fn path(&self) -> &Path {
        self.folder.path()
    }

    /// Copies the sources that belong in the home folder into it, up to the job's limits of bytes and files.
    pub fn fill(&self, sources: &[Source], limits: &Limits) -> Result<(), Refusal> {
        let mut room = Room { bytes: limits.disk.0, files: limits.files };
        for (source, to) in sources.iter().filter_map(|s| Some((s, s.copied_to()?))) {
            self.copy(source, to, &mut room).map_err(|e| {
                Refusal::new(format!(
                    "{} cannot be copied for the run: {e}; raise ‹max_disk› or ‹max_files›, or use a profile with namespaces",
                    source.host.display()
                ))
            })?;
        }
        Ok(())
    }

    /// Makes folders below it, for a job's [`folders`](crate::policy::Job::folders).
    pub fn make_folders(&self, folders: &[PathBuf]) -> Result<(), Refusal> {
        folders
            .iter()
            .try_for_each(|place| {
                let scratch = Dir::open_ambient_dir(self.path(), ambient_authority())?;
                scratch.create_dir_all(place)?;
                self.give_all(&scratch, Some(place))
            })
            .map_err(|e: io::Error| cannot("make a folder of", &e))
    }

    /// Gives a folder and those above it, up to this one, to the program.
    fn give_all(&self, scratch: &Dir, folder: Option<&Path>) -> io::Result<()> {
        let made = folder.into_iter().flat_map(Path::ancestors).filter(|path| !path.as_os_str().is_empty());
        for made in made {
            give(&scratch.open_dir(made)?.open(".")?.into_std(), self.owner, 0o755)?;
        }
        Ok(())
    }

    fn copy(&self, source: &Source, place: &Path, room: &mut Room) -> io::Result<()> {
        let scratch = Dir::open_ambient_dir(self.path(), ambient_authority())?;
        let parent = place.parent().filter(|parent| !parent.as_os_str().is_empty());
        if let Some(parent) = parent {
            scratch.create_dir_all(parent)?;
        }
        self.give_all(&scratch, parent)?;
        let to = match parent {
            Some(parent) => scratch.open_dir(parent)?,
            None => scratch,
        };
        let cannot_name = || io::Error::new(io::ErrorKind::InvalidInput, "it has no name");
        let name = place.file_name().ok_or_else(cannot_name)?;
        if !source.folder {
            let folder = source.host.parent().ok_or_else(cannot_name)?;
            let from = open_straight(folder)?;
            let theirs = source.host.file_name().ok_or_else(cannot_name)?;
            return copy_file((&from, theirs), (&to, name), self.owner, room);
        }
        let from = open_straight(&source.host)?;
        let mode = from.dir_metadata()?.mode() & 0o777;
        to.create_dir(name)?;
        let to = to.open_dir(name)?;
        copy_folder(&from, &to, self.owner, room, 0)?;
        give(&to.open(".")?.into_std(), self.owner, mode)
    }
}

/// Opens a folder whose path is known to have no links: a link put there since is not followed.
fn open_straight(folder: &Path) -> io::Result<Dir> {
    use nix::fcntl::{AT_FDCWD, OFlag, OpenHow, ResolveFlag, openat2};
    let how = OpenHow::new()
        .flags(OFlag::O_RDONLY | OFlag::O_DIRECTORY | OFlag::O_CLOEXEC)
        .resolve(ResolveFlag::RESOLVE_NO_SYMLINKS);
    Ok(Dir::from_std_file(openat2(AT_FDCWD, folder, how)?.into()))
}

/// Copies a folder by descriptors only: its owner may replace files by links and pipes during the copy, but
/// nothing outside it is ever opened. Entries other than files, folders and links are skipped.
fn copy_folder(
    from: &Dir,
    to: &Dir,
    owner: Option<(u32, u32)>,
    room: &mut Room,
    depth: u32,
) -> io::Result<()> {
    if depth > MAX_FOLDER_DEPTH {
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
            copy_file((from, &name), (to, &name), owner, room)?;
        } else if kind.is_symlink() {
            room.take(0)?;
            to.symlink_contents(from.read_link_contents(&name)?, &name)?;
        }
    }
    Ok(())
}

fn copy_file(
    (from, name): (&Dir, &OsStr),
    (to, new_name): (&Dir, &OsStr),
    owner: Option<(u32, u32)>,
    room: &mut Room,
) -> io::Result<()> {
    let mut options = OpenOptions::new();
    // O_NONBLOCK: a pipe put in the file's place cannot block the copy.
    options.read(true).custom_flags(nix::libc::O_NOFOLLOW | nix::libc::O_NONBLOCK);
    let source = from.open_with(name, &options)?;
    let metadata = source.metadata()?;
    if !metadata.is_file() {
        return Ok(());
    }
    room.take(0)?;
    let mut target = to.create(new_name)?;
    // The file may grow during the copy.
    let copied = io::copy(&mut source.take(room.bytes.saturating_add(1)), &mut target)?;
    room.bytes = room.bytes.checked_sub(copied).ok_or_else(Room::full)?;
    give(&target.into_std(), owner, metadata.mode() & 0o777)
}

/// Sets the owner and mode of a file.
fn give(file: &fs::File, owner: Option<(u32, u32)>, mode: u32) -> io::Result<()> {
    if let Some((uid, gid)) = owner {
        std::os::unix::fs::fchown(file, Some(uid), Some(gid))?;
    }
    file.set_permissions(fs::Permissions::from_mode(mode))
}

/// Maximum depth of folders; each level holds two descriptors.
const MAX_FOLDER_DEPTH: u32 = 200;

/// Beginning of the refusal when no scratch folder can be made.
pub const SCRATCH: &str = "without a root of its own the program needs a scratch folder on the host";

/// Remaining budget of the copy.
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
