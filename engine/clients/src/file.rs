//! A configuration file of another program: left as it is, or replaced as a whole, with a backup beside it.

use std::ffi::OsString;
use std::fs::{File, Metadata, OpenOptions, Permissions};
use std::io::{self, Read, Write};
use std::os::unix::fs::{MetadataExt, OpenOptionsExt, PermissionsExt, fchown};
use std::path::{Path, PathBuf};

use hotcell_state::report::{Code, ErrorReport};
use nix::fcntl::OFlag;
use nix::unistd::{AccessFlags, access};
use similar::TextDiff;

/// Maximum size of a file in bytes. Real settings have a hundredth of it.
const MAX_FILE_BYTES: u64 = 16 << 20;
/// Maximum number of backups beside a file.
const MAX_BACKUPS: u32 = 1_000;

/// A file as it was read.
#[derive(Debug)]
pub struct Original {
    text: String,
    about: Metadata,
}

impl Original {
    /// The contents of the file.
    #[must_use]
    pub fn text(&self) -> &str {
        &self.text
    }
}

fn refused(path: &Path, why: &str, hint: &str) -> ErrorReport {
    ErrorReport::new(Code::InvalidValue, format!("{} {why}", path.display()))
        .field(path.display().to_string())
        .hint(hint)
}

fn failed(path: &Path, what: &str, why: &io::Error) -> ErrorReport {
    ErrorReport::new(Code::InvalidValue, format!("{} cannot be {what}: {why}", path.display()))
        .field(path.display().to_string())
}

/// Reads a file; `None` if it does not exist. Links are not followed: the user could not tell from the
/// messages which file it was.
///
/// # Errors
/// [`ErrorReport`] when the path is a link or not a regular file, or the file is too long, is not text, or
/// cannot be read.
pub fn read(path: &Path) -> Result<Option<Original>, ErrorReport> {
    // Neither follow a link nor block on a pipe without a writer.
    let flags = OFlag::O_NOFOLLOW | OFlag::O_NONBLOCK | OFlag::O_CLOEXEC;
    let file = match OpenOptions::new().read(true).custom_flags(flags.bits()).open(path) {
        Ok(file) => file,
        Err(e) if e.kind() == io::ErrorKind::NotFound => return Ok(None),
        Err(e) => {
            return Err(match std::fs::read_link(path) {
                Ok(target) => {
                    let target = path.parent().unwrap_or(path).join(target);
                    let hint = format!("name the file itself: ‹file={}›", target.display());
                    refused(path, &format!("is a link to {}", target.display()), &hint)
                }
                Err(_) => failed(path, "read", &e),
            });
        }
    };
    let about = file.metadata().map_err(|e| failed(path, "read", &e))?;
    if !about.is_file() {
        return Err(refused(path, "is not a file", "name another with ‹file›"));
    }
    if about.len() > MAX_FILE_BYTES {
        return Err(refused(path, "is longer than 16 MiB", "is that the right file?"));
    }
    let mut bytes = Vec::new();
    file.take(MAX_FILE_BYTES + 1).read_to_end(&mut bytes).map_err(|e| failed(path, "read", &e))?;
    match String::from_utf8(bytes) {
        Ok(text) => Ok(Some(Original { text, about })),
        Err(_) => Err(refused(path, "is not UTF-8", "is that the right file?")),
    }
}

/// Reads a file as its client does: links are followed, and nothing is written.
///
/// # Errors
/// [`ErrorReport`] when it is not a regular file, is too long, or is not text.
pub fn seen(path: &Path) -> Result<Option<String>, ErrorReport> {
    match std::fs::canonicalize(path) {
        Ok(real) => Ok(read(&real)?.map(|original| original.text)),
        Err(e) if e.kind() == io::ErrorKind::NotFound => Ok(None),
        Err(e) => Err(failed(path, "read", &e)),
    }
}

/// The backups beside a file, the oldest first.
#[must_use]
pub fn copies(path: &Path) -> Vec<PathBuf> {
    (0..MAX_BACKUPS)
        .map(|number| copy_of(path, number))
        .take_while(|copy| copy.symlink_metadata().is_ok())
        .collect()
}

/// Removes a file that has not changed since it was read.
///
/// # Errors
/// [`ErrorReport`] when another program changed the file, or it cannot be removed.
pub fn remove(path: &Path, original: &Original) -> Result<(), ErrorReport> {
    match read(path) {
        Ok(Some(now)) if now.text == original.text => {}
        _ => return Err(refused(path, "was changed by another program meanwhile", "try again")),
    }
    std::fs::remove_file(path).map_err(|e| failed(path, "removed", &e))
}

/// A change of a file: it is shown before it is made, and can be taken back.
#[derive(Debug)]
pub struct Change {
    /// The file.
    pub path: PathBuf,
    /// Former contents; `None` when the file did not exist.
    pub original: Option<Original>,
    /// New contents.
    pub new: String,
    /// Whether users other than its owner may read a newly created file.
    pub shared: bool,
}

impl Change {
    fn old(&self) -> &str {
        self.original.as_ref().map(Original::text).unwrap_or_default()
    }

    /// Whether nothing changes.
    #[must_use]
    pub fn is_nothing(&self) -> bool {
        self.original.is_some() && self.old() == self.new
    }

    /// The change as a unified diff with one line of context: people keep secrets in these files.
    #[must_use]
    pub fn diff(&self) -> String {
        let name = self.path.display().to_string();
        let diff = TextDiff::from_lines(self.old(), self.new.as_str());
        diff.unified_diff().context_radius(1).header(&name, &name).to_string()
    }

    /// Writes the change. Returns the path of the copy of the former text, if one was kept.
    ///
    /// # Errors
    /// See [`replace`].
    pub fn make(&self) -> Result<Option<PathBuf>, ErrorReport> {
        if self.is_nothing() {
            return Ok(None);
        }
        replace(&self.path, self.original.as_ref(), &self.new, self.shared)
    }

    /// Takes back what [`Self::make`] did, where the file is unchanged since; `kept` is what that gave.
    ///
    /// # Errors
    /// The file is another one by now, or cannot be written.
    pub fn take_back(&self, kept: Option<&Path>) -> Result<(), ErrorReport> {
        let now = read(&self.path)?.filter(|now| now.text == self.new);
        let now =
            now.ok_or_else(|| refused(&self.path, "was changed by another program meanwhile", "look at it"))?;
        match &self.original {
            _ if self.is_nothing() => {}
            None => remove(&self.path, &now)?,
            Some(original) => {
                let second = replace(&self.path, Some(&now), original.text(), self.shared)?;
                for copy in second.as_deref().into_iter().chain(kept) {
                    let _ = std::fs::remove_file(copy);
                }
            }
        }
        Ok(())
    }
}

/// Where a copy is kept.
fn copy_of(path: &Path, number: u32) -> PathBuf {
    let mut name = OsString::from(path);
    name.push(".hotcell-backup");
    if number > 0 {
        name.push(format!(".{number}"));
    }
    PathBuf::from(name)
}

/// Refuses folders of a project that are links: the project comes with unreviewed code.
///
/// # Errors
/// [`ErrorReport`] about the first link between the project and the file.
pub fn inside(project: &Path, path: &Path) -> Result<(), ErrorReport> {
    let mut at = project.to_owned();
    for part in path.strip_prefix(project).ok().and_then(Path::parent).into_iter().flatten() {
        at.push(part);
        if let Ok(target) = std::fs::read_link(&at) {
            let why = format!("is a link to {}", target.display());
            return Err(refused(&at, &why, "in a project no link is followed; name the file with ‹file›"));
        }
    }
    Ok(())
}

/// Replaces or creates a file atomically. Its mode and owner are kept, and a backup of the old contents is
/// made beside it.
///
/// # Errors
/// [`ErrorReport`] when the file is read-only, another program changed it since it was read, or the folder
/// cannot be written.
///
/// # Returns
/// Path of the backup.
pub fn replace(
    path: &Path,
    original: Option<&Original>,
    new: &str,
    shared: bool,
) -> Result<Option<PathBuf>, ErrorReport> {
    let folder = path.parent().filter(|p| !p.as_os_str().is_empty()).unwrap_or(Path::new("."));
    let Some(original) = original else {
        std::fs::create_dir_all(folder).map_err(|e| failed(folder, "made", &e))?;
        // A user's own file may later contain secrets.
        let mode = if shared { 0o644 } else { 0o600 };
        let written = written(folder, path, new, mode, None)?;
        written.persist_noclobber(path).map_err(|e| failed(path, "written", &e.error))?;
        durable(folder);
        return Ok(None);
    };
    let mode = original.about.mode() & 0o7777;
    // A rename would replace even a read-only file, so check.
    if mode & 0o200 == 0 || access(path, AccessFlags::W_OK).is_err() {
        return Err(refused(path, "is read-only", "let it be written (chmod u+w), or see ‹print›"));
    }
    let kept = keep(path, original)?;
    let owner = (original.about.uid(), original.about.gid());
    let written =
        written(folder, path, new, mode, Some(owner)).inspect_err(|_| drop(std::fs::remove_file(&kept)))?;
    // Clients also write to these files.
    match read(path) {
        Ok(Some(now)) if now.text == original.text => {}
        _ => {
            let _ = std::fs::remove_file(&kept);
            return Err(refused(path, "was changed by another program meanwhile", "try again"));
        }
    }
    written.persist(path).map_err(|e| failed(path, "written", &e.error))?;
    durable(folder);
    Ok(Some(kept))
}

/// Writes the new file beside the one that it will replace, and syncs it to disk.
fn written(
    folder: &Path,
    path: &Path,
    text: &str,
    mode: u32,
    owner: Option<(u32, u32)>,
) -> Result<tempfile::NamedTempFile, ErrorReport> {
    let bad = |e: io::Error| failed(path, "written", &e);
    let mut new = tempfile::Builder::new().prefix(".hotcell-").tempfile_in(folder).map_err(bad)?;
    let file: &mut File = new.as_file_mut();
    if let Some((uid, gid)) = owner {
        let is = file.metadata().map_err(bad)?;
        if (is.uid(), is.gid()) != (uid, gid) {
            fchown(&*file, Some(uid), Some(gid)).map_err(|e| failed(path, "left to its owner", &e))?;
        }
    }
    file.set_permissions(Permissions::from_mode(mode)).map_err(bad)?;
    file.write_all(text.as_bytes()).map_err(bad)?;
    file.sync_all().map_err(bad)?;
    Ok(new)
}

/// Makes a backup of a file beside it, under an unused name.
fn keep(path: &Path, original: &Original) -> Result<PathBuf, ErrorReport> {
    for number in 0..MAX_BACKUPS {
        let copy = copy_of(path, number);
        let mode = original.about.mode() & 0o7777;
        let mut file = match OpenOptions::new().write(true).create_new(true).mode(0o600).open(&copy) {
            Ok(file) => file,
            Err(e) if e.kind() == io::ErrorKind::AlreadyExists => continue,
            Err(e) => return Err(failed(&copy, "written", &e)),
        };
        let done = fchown(&file, Some(original.about.uid()), Some(original.about.gid()))
            .and_then(|()| file.set_permissions(Permissions::from_mode(mode)))
            .and_then(|()| file.write_all(original.text.as_bytes()))
            .and_then(|()| file.sync_all());
        return match done {
            Ok(()) => Ok(copy),
            Err(e) => {
                let _ = std::fs::remove_file(&copy);
                Err(failed(&copy, "written", &e))
            }
        };
    }
    Err(refused(
        path,
        "has a thousand backups beside it",
        "remove those of *.hotcell-backup that nobody needs",
    ))
}

/// Syncs the rename to disk, if the file system supports that.
fn durable(folder: &Path) {
    let _ = File::open(folder).and_then(|f| f.sync_all());
}
