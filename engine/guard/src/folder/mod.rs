//! Files and folders as artifacts: which files are opened, which are left out, and how that affects the
//! verdict.

mod git;
mod ignored;

use crate::artifact::Artifact;
use crate::executed::Executions;
use crate::hooks;
use crate::ingest::cache;
use crate::limits::Limits;
use crate::project;
use crate::report::{Coverage, Finding, Identity, Part, PartState, Report, SCHEMA, Severity, Verdict};
use crate::scan::merge;
use ignore::WalkBuilder;
use nix::fcntl::OFlag;
use std::collections::{BTreeMap, BTreeSet};
use std::fs::{File, OpenOptions};
use std::io::{self, Read};
use std::os::unix::fs::OpenOptionsExt;
use std::path::{Path, PathBuf};
use std::sync::Arc;

use ignored::Ignored;

/// Maximum size of a `pyvenv.cfg` that is read, in bytes.
const MAX_SETTINGS: u64 = 64 << 10;
/// Paths of the interpreter in a virtual environment.
const INTERPRETERS: &[&str] = &["bin/python", "bin/python3", "bin/pypy3", "Scripts/python.exe"];

/// Which files of a folder are read.
#[derive(Clone, Copy, Debug)]
pub struct Walk<'e> {
    /// Leave out files named in `.gitignore` and `.ignore`. These belong to the scanned project, so a gate
    /// sets this to `false`.
    pub gitignore: bool,
    /// Enter virtual environments and `node_modules`. Otherwise each is reported as not read, for review.
    pub packages: bool,
    /// Files that the run's command executes, relative to the folder; for a single file, under the empty
    /// path. They are read wherever they are.
    pub executed: Option<&'e Executions>,
}

/// Scans a file or a folder; a folder is one artifact. `scan` scans one file of it ([`crate::scan`], here or
/// in another process); `progress` is called with each file before it is read.
///
/// Links are not followed, except `path` itself.
///
/// # Errors
/// When `path` itself cannot be read; a file below it that cannot be read is in the report.
pub fn scan_path(
    limits: &Limits,
    path: &Path,
    walk: Walk<'_>,
    scan: &mut dyn FnMut(&Artifact) -> Report,
    progress: &mut dyn FnMut(&Path),
) -> io::Result<Report> {
    let kind = path.metadata()?;
    if kind.is_file() {
        progress(path);
        let bytes = read(path, limits, true)?;
        let executed = walk.executed.map_or(&[][..], |all| all.of(Path::new("")));
        return Ok(scan(&Artifact::new(path.to_string_lossy(), bytes).executed_as(executed)));
    }
    if !kind.is_dir() {
        return Err(io::Error::new(io::ErrorKind::InvalidInput, "it is neither a file nor a folder"));
    }
    std::fs::read_dir(path)?;
    let mut builder = WalkBuilder::new(path);
    builder.standard_filters(false);
    // A fixed order of `a/b/c` and `a/b.py`, so that the digest is the same everywhere.
    builder.sort_by_file_name(std::cmp::Ord::cmp);
    let packages = walk.packages;
    let root = path.to_owned();
    let hides = walk.executed.cloned().unwrap_or_default();
    let ignored = walk.gitignore.then(|| Arc::new(Ignored::new(path)));
    let patterns = ignored.clone();
    builder.filter_entry(move |entry| {
        if entry.path().strip_prefix(&root).is_ok_and(|own| hides.hides(own)) {
            return false;
        }
        let is_folder = entry.file_type().is_some_and(|kind| kind.is_dir());
        if patterns.as_ref().is_some_and(|patterns| patterns.leaves_out(entry.path(), is_folder)) {
            return false;
        }
        // A folder of packages that is scanned directly is read.
        packages || entry.depth() < 2 || !is_package(entry.path(), &root)
    });
    let executed = walk.executed.map(|all| all.through_links(&|at| std::fs::read_link(path.join(at)).ok()));
    let executed = executed.unwrap_or_default();
    let seen = Seen {
        is_there: &|at| path.join(at).symlink_metadata().is_ok(),
        open: &|at| open(&path.join(at), false).ok(),
    };
    let mut reports = Vec::new();
    let mut histories = BTreeSet::new();
    let mut read_again: BTreeMap<String, PathBuf> = BTreeMap::new();
    let mut left: BTreeSet<&Path> = executed.paths().collect();
    for entry in builder.build() {
        let entry = match entry {
            Ok(entry) => entry,
            Err(error) => {
                reports.push(unread(
                    &path.to_string_lossy(),
                    PartState::Skipped(error.to_string()),
                    Verdict::Incomplete,
                ));
                continue;
            }
        };
        // Relative, so that the digest does not depend on the folder's place.
        let own = entry.path();
        let relative = own.strip_prefix(path).unwrap_or(own);
        let name = relative.to_string_lossy();
        let Some(kind) = entry.file_type() else { continue };
        if kind.is_dir() {
            if entry.depth() > 0 && !packages && is_packages(relative, &seen) {
                reports.push(packages_unread(&name));
            }
        } else if kind.is_symlink() {
            // The target is scanned at its own path; targets outside the folder do not exist in the sandbox.
            let mut report = unread(&name, PartState::Inert, Verdict::Allow);
            if let Ok(to) = std::fs::read_link(own) {
                report.artifact.sha256 = format!("-> {}", to.to_string_lossy());
            }
            reports.push(report);
        } else if !kind.is_file() {
            reports.push(unread(&name, PartState::Skipped("not a file".to_owned()), Verdict::Incomplete));
        } else {
            let place = if left.remove(relative) { Place::Ordinary } else { place_of_file(relative, &seen) };
            match place {
                Place::History(folder) => {
                    if histories.insert(folder.clone()) {
                        reports.push(history(&folder.to_string_lossy()));
                    }
                }
                Place::Cache => reports.push(cache(&name)),
                Place::Packages(_) | Place::Ordinary => {
                    progress(own);
                    if project::is_source(&name) {
                        read_again.insert(name.to_string(), relative.to_owned());
                    }
                    reports.push(match read(own, limits, false) {
                        Ok(bytes) => scan(&Artifact::new(name, bytes).executed_as(executed.of(relative))),
                        Err(error) => {
                            unread(&name, PartState::Skipped(error.to_string()), Verdict::Incomplete)
                        }
                    });
                }
            }
        }
    }
    // Files that the command executes are read even in packages.
    for relative in left.into_iter().filter(|path| !executed.hides(path)) {
        let own = path.join(relative);
        if own.symlink_metadata().is_ok_and(|data| data.is_file()) {
            let name = relative.to_string_lossy();
            progress(&own);
            reports.push(match read(&own, limits, false) {
                Ok(bytes) => scan(&Artifact::new(name, bytes).executed_as(executed.of(relative))),
                Err(error) => unread(&name, PartState::Skipped(error.to_string()), Verdict::Incomplete),
            });
        }
    }
    for hidden in executed.hidden() {
        let mut report = unread(&hidden.to_string_lossy(), PartState::Inert, Verdict::Allow);
        report.coverage.parts[0].language = HIDDEN.to_owned();
        reports.push(report);
    }
    let mut report = merge(&path.to_string_lossy(), reports);
    report.coverage.ignored = ignored.map_or(0, |ignored| ignored.count());
    // Names in a report are the reader's words: only files that were read may be read again.
    project::follow(&mut report, &mut |file, called| {
        let relative = read_again.get(file)?;
        let bytes = read(&path.join(relative), limits, false).ok()?;
        Some(scan(&Artifact::new(file, bytes).executed_as(executed.of(relative)).called_by(called)))
    });
    hooks::judge(&mut report);
    Ok(report)
}

/// Language, in a report, of paths hidden from the run.
const HIDDEN: &str = "hidden";

/// Reads at most one byte more than may be scanned; the scan then refuses the file.
fn read(path: &Path, limits: &Limits, follow: bool) -> io::Result<Vec<u8>> {
    let (file, size) = open_sized(path, follow)?;
    let most = limits.file_bytes as u64 + 1;
    // Room for the end, too, which is found by reading past it.
    let mut bytes = Vec::with_capacity(usize::try_from(size.saturating_add(1).min(most)).unwrap_or_default());
    file.take(most).read_to_end(&mut bytes)?;
    Ok(bytes)
}

fn open(path: &Path, follow: bool) -> io::Result<File> {
    open_sized(path, follow).map(|(file, _)| file)
}

/// Opens a file; returns also its size in bytes, which may change.
fn open_sized(path: &Path, follow: bool) -> io::Result<(File, u64)> {
    let mut flags = OFlag::O_NONBLOCK | OFlag::O_CLOEXEC;
    flags.set(OFlag::O_NOFOLLOW, !follow);
    let file: File = OpenOptions::new().read(true).custom_flags(flags.bits()).open(path)?;
    let metadata = file.metadata()?;
    if !metadata.is_file() {
        return Err(io::Error::new(io::ErrorKind::InvalidInput, "it is not a file any more"));
    }
    Ok((file, metadata.len()))
}

/// Kind of place, for files that are not read one by one.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum Place {
    /// An ordinary place: the file is read.
    Ordinary,
    /// A file of git's own in this git folder: an object, a pack, an index, a reference or a log.
    History(PathBuf),
    /// In this folder of installed packages.
    Packages(PathBuf),
    /// Byte code cached by an interpreter, which compares it with the source beside it before using it.
    Cache,
}

/// Access to a folder for [`place`]. Paths are relative to the folder.
#[derive(Clone, Copy)]
pub struct Seen<'s> {
    /// True when a path exists, including links.
    pub is_there: &'s dyn Fn(&Path) -> bool,
    /// Opens a file; links are not followed.
    pub open: &'s dyn Fn(&Path) -> Option<File>,
}

/// Kind of place of a file.
#[must_use]
pub fn place(path: &Path, seen: &Seen<'_>) -> Place {
    let packages = path.ancestors().skip(1).filter(|folder| !folder.as_os_str().is_empty());
    match packages.filter(|folder| is_of_packages(folder, path) && is_packages(folder, seen)).last() {
        Some(folder) => Place::Packages(folder.to_owned()),
        None => place_of_file(path, seen),
    }
}

/// Like [`place`], for a file outside of packages.
fn place_of_file(path: &Path, seen: &Seen<'_>) -> Place {
    if let Some(folder) = git::folder_of(path, seen.open) {
        return Place::History(folder);
    }
    let is_cache = cache::source(path).is_some_and(|source| (seen.is_there)(&source))
        && (seen.open)(path).is_some_and(|file| cache::has_form(&file));
    if is_cache { Place::Cache } else { Place::Ordinary }
}

/// True when a folder contains installed packages: `node_modules`, or a virtual environment, which has an
/// interpreter and names its origin.
fn is_packages(folder: &Path, seen: &Seen<'_>) -> bool {
    folder.file_name().is_some_and(|name| name == "node_modules") || is_environment(folder, seen)
}

fn is_environment(folder: &Path, seen: &Seen<'_>) -> bool {
    let says = |text: &str| {
        text.lines().any(|line| {
            line.split_once('=').is_some_and(|(key, to)| key.trim() == "home" && !to.trim().is_empty())
        })
    };
    let mut text = String::new();
    (seen.open)(&folder.join("pyvenv.cfg"))
        .is_some_and(|file| file.take(MAX_SETTINGS).read_to_string(&mut text).is_ok() && says(&text))
        && INTERPRETERS.iter().any(|name| (seen.is_there)(&folder.join(name)))
}

/// True when an installer would create this path below a folder of packages: other code in a virtual
/// environment is the project's own.
fn is_of_packages(folder: &Path, path: &Path) -> bool {
    let Ok(below) = path.strip_prefix(folder) else { return false };
    if folder.file_name().is_some_and(|name| name == "node_modules") {
        return true;
    }
    let mut names = below.components().map(|part| part.as_os_str().to_str().unwrap_or(""));
    match (names.next(), names.next()) {
        (Some("bin" | "include" | "share" | "Scripts" | "Include"), Some(_)) => true,
        (Some("lib" | "lib64" | "Lib"), Some(name)) => {
            name.starts_with("python") || name.starts_with("pypy") || name == "site-packages"
        }
        _ => false,
    }
}

/// True when a path of this system is in a folder of packages below `root`.
fn is_package(path: &Path, root: &Path) -> bool {
    let seen = Seen { is_there: &|at| at.symlink_metadata().is_ok(), open: &|at| open(at, false).ok() };
    // Entries below a skipped folder are never visited, so it can only begin at one of three levels.
    let mut above = path.ancestors().skip(1).take(3).take_while(|folder| *folder != root);
    above.any(|folder| is_of_packages(folder, path) && is_packages(folder, &seen))
}

/// Language, in a report, of cached byte code.
pub const PYTHON_CACHE: &str = "python cache";

/// Report of byte code that is not read: the run is told not to use it, but still could.
#[must_use]
pub fn cache(name: &str) -> Report {
    set_aside(name, PYTHON_CACHE, cache::WHY)
}

/// Report of git's own files in a git folder.
#[must_use]
pub fn history(name: &str) -> Report {
    let mut report = unread(name, PartState::Inert, Verdict::Allow);
    report.coverage.parts[0].language = "git".to_owned();
    report
}

fn set_aside(name: &str, language: &str, why: &str) -> Report {
    let mut report = unread(name, PartState::SetAside(why.to_owned()), Verdict::Review);
    report.coverage.parts[0].language = language.to_owned();
    report
}

/// Report of installed packages that are not read.
#[must_use]
pub fn packages_unread(name: &str) -> Report {
    let mut report = set_aside(name, "packages", "installed packages; scan the folder itself to read them");
    report.findings.push(Finding {
        rule: "guard.packages_unread".to_owned(),
        severity: Severity::Warning,
        capability: "unread".to_owned(),
        part: name.to_owned(),
        line: 0,
        column: 0,
        end_line: 0,
        cwe: None,
        message: "Installed packages were not read.".to_owned(),
        derived_from: Vec::new(),
        frames: Vec::new(),
    });
    report
}

/// Report of something that was not read.
#[must_use]
pub fn unread(name: &str, state: PartState, verdict: Verdict) -> Report {
    Report {
        schema: SCHEMA.to_owned(),
        artifact: Identity { names: vec![name.to_owned()], ..Identity::default() },
        verdict,
        coverage: Coverage::of(vec![Part { path: name.to_owned(), language: String::new(), state }]),
        findings: Vec::new(),
        quarantine: None,
    }
}
