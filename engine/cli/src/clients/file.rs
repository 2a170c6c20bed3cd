//! A configuration file that belongs to somebody else: read as it is, replaced whole or not at all, kept beside itself.

use std::ffi::OsString;
use std::fs::{File, Metadata, OpenOptions, Permissions};
use std::io::{self, Read, Write};
use std::os::unix::fs::{MetadataExt, OpenOptionsExt, PermissionsExt, fchown};
use std::path::{Path, PathBuf};

use hotcell_service::report::{Code, ErrorReport};
use nix::fcntl::OFlag;
use nix::unistd::{AccessFlags, access};

/// The longest file that is worked on, in bytes. Settings of people have a hundredth of it.
const LONGEST: u64 = 16 << 20;
/// Copies that are kept beside a file.
const COPIES: u32 = 1_000;

/// A file as it was read.
#[derive(Debug)]
pub struct Original {
    text: String,
    about: Metadata,
}

impl Original {
    /// What stands in it.
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

/// Reads a file; `None` when there is none. No link is followed: who looks at the words that this prints would not see
/// which file it was.
///
/// # Errors
/// A link, something that is no file, what is too long or no text, what cannot be read.
pub fn read(path: &Path) -> Result<Option<Original>, ErrorReport> {
    // Neither a link nor a pipe that nobody writes to.
    let flags = OFlag::O_NOFOLLOW | OFlag::O_NONBLOCK | OFlag::O_CLOEXEC;
    let file = match OpenOptions::new().read(true).custom_flags(flags.bits()).open(path) {
        Ok(file) => file,
        Err(e) if e.kind() == io::ErrorKind::NotFound => return Ok(None),
        Err(e) => {
            return Err(match std::fs::read_link(path) {
                Ok(target) => {
                    let target = path.parent().unwrap_or(path).join(target);
                    let hint = format!("name the file itself: --file {}", target.display());
                    refused(path, &format!("is a link to {}", target.display()), &hint)
                }
                Err(_) => failed(path, "read", &e),
            });
        }
    };
    let about = file.metadata().map_err(|e| failed(path, "read", &e))?;
    if !about.is_file() {
        return Err(refused(path, "is not a file", "name another with --file"));
    }
    if about.len() > LONGEST {
        return Err(refused(path, "is longer than 16 MiB", "is that the right file?"));
    }
    let mut bytes = Vec::new();
    file.take(LONGEST + 1).read_to_end(&mut bytes).map_err(|e| failed(path, "read", &e))?;
    match String::from_utf8(bytes) {
        Ok(text) => Ok(Some(Original { text, about })),
        Err(_) => Err(refused(path, "is not UTF-8", "is that the right file?")),
    }
}

/// Refuses folders of a project that lead elsewhere: what belongs to a project comes with code that nobody has read.
///
/// # Errors
/// The first link between the project and the file.
pub fn inside(project: &Path, path: &Path) -> Result<(), ErrorReport> {
    let mut at = project.to_owned();
    for part in path.strip_prefix(project).ok().and_then(Path::parent).into_iter().flatten() {
        at.push(part);
        if let Ok(target) = std::fs::read_link(&at) {
            let why = format!("is a link to {}", target.display());
            return Err(refused(&at, &why, "in a project no link is followed; name the file with --file"));
        }
    }
    Ok(())
}

/// Replaces a file, or makes it: wholly, or not at all. Its mode and owner stay, and what was in it is kept beside it.
///
/// # Errors
/// A file that is read-only, or that another program changed since it was read; a folder that cannot be written.
///
/// # Returns
/// Where the former text is kept.
pub fn replace(
    path: &Path,
    original: Option<&Original>,
    new: &str,
    shared: bool,
) -> Result<Option<PathBuf>, ErrorReport> {
    let folder = path.parent().filter(|p| !p.as_os_str().is_empty()).unwrap_or(Path::new("."));
    let Some(original) = original else {
        std::fs::create_dir_all(folder).map_err(|e| failed(folder, "made", &e))?;
        // What is one person's own may come to hold secrets.
        let mode = if shared { 0o644 } else { 0o600 };
        let written = written(folder, path, new, mode, None)?;
        written.persist_noclobber(path).map_err(|e| failed(path, "written", &e.error))?;
        durable(folder);
        return Ok(None);
    };
    let mode = original.about.mode() & 0o7777;
    // A rename would replace it all the same.
    if mode & 0o200 == 0 || access(path, AccessFlags::W_OK).is_err() {
        return Err(refused(path, "is read-only", "let it be written (chmod u+w), or see --print"));
    }
    let kept = keep(path, original)?;
    let owner = (original.about.uid(), original.about.gid());
    let written =
        written(folder, path, new, mode, Some(owner)).inspect_err(|_| drop(std::fs::remove_file(&kept)))?;
    // Clients write to these files themselves.
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

/// A new file beside the one that it shall replace, on the disk.
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

/// Keeps what was in a file beside it, under a name that nothing has yet.
fn keep(path: &Path, original: &Original) -> Result<PathBuf, ErrorReport> {
    for number in 0..COPIES {
        let mut name = OsString::from(path);
        name.push(".hotcell-backup");
        if number > 0 {
            name.push(format!(".{number}"));
        }
        let copy = PathBuf::from(name);
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

/// The new name is on the disk, where the file system can say so.
fn durable(folder: &Path) {
    let _ = File::open(folder).and_then(|f| f.sync_all());
}
