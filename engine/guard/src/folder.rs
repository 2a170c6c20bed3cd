//! Files and folders as artifacts: what is opened, what is left out, and what that does to the verdict.

use crate::artifact::Artifact;
use crate::limits::Limits;
use crate::report::{Coverage, Finding, Identity, Part, PartState, Report, SCHEMA, Severity, Verdict};
use crate::scan::merge;
use ignore::WalkBuilder;
use nix::fcntl::OFlag;
use std::fs::{File, OpenOptions};
use std::io::{self, Read};
use std::os::unix::fs::OpenOptionsExt;
use std::path::Path;

/// What of a folder is read.
#[derive(Clone, Copy, Debug)]
pub struct Walk {
    /// Leave out what `.gitignore` and `.ignore` files name. They are part of what is scanned, so a gate says no.
    pub gitignore: bool,
    /// Go into virtual environments and `node_modules`. Otherwise each is named as not read, for a person to look at.
    pub packages: bool,
}

/// Scans a file or a folder; a folder is one artifact. `scan` reads one file of it ([`crate::scan`], here or in another
/// process); `progress` is called with each file before it is read.
///
/// Links are not followed, except `path` itself.
///
/// # Errors
/// `path` itself cannot be read; whatever cannot be read below it is in the report.
pub fn scan_path(
    limits: &Limits,
    path: &Path,
    walk: Walk,
    scan: &mut dyn FnMut(&Artifact) -> Report,
    progress: &mut dyn FnMut(&Path),
) -> io::Result<Report> {
    let kind = path.metadata()?;
    if kind.is_file() {
        progress(path);
        let bytes = read(path, limits, true)?;
        return Ok(scan(&Artifact::new(path.to_string_lossy(), bytes)));
    }
    if !kind.is_dir() {
        return Err(io::Error::new(io::ErrorKind::InvalidInput, "it is neither a file nor a folder"));
    }
    std::fs::read_dir(path)?;
    let mut builder = WalkBuilder::new(path);
    builder.standard_filters(false).git_ignore(walk.gitignore).ignore(walk.gitignore).require_git(false);
    // `a/b/c` beside `a/b.py` come in the same order everywhere, so that the digest is the same everywhere.
    builder.sort_by_file_name(std::cmp::Ord::cmp);
    let packages = walk.packages;
    builder.filter_entry(move |entry| {
        entry.depth() == 0
            || !is_history(entry.path())
                && (packages
                    || !is_packages(entry.path().parent().unwrap_or(entry.path()))
                    || entry.depth() == 1)
    });
    let mut reports = Vec::new();
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
        // Relative, so that a folder has the same digest wherever it lies.
        let (own, name) =
            (entry.path(), entry.path().strip_prefix(path).unwrap_or(entry.path()).to_string_lossy());
        let Some(kind) = entry.file_type() else { continue };
        if kind.is_dir() {
            if entry.depth() > 0 && !packages && is_packages(own) {
                reports.push(packages_unread(&name));
            }
        } else if kind.is_symlink() {
            // What it points to is read where it is; from outside of the folder nothing is in the sandbox.
            let mut report = unread(&name, PartState::Inert, Verdict::Allow);
            if let Ok(to) = std::fs::read_link(own) {
                report.artifact.sha256 = format!("-> {}", to.to_string_lossy());
            }
            reports.push(report);
        } else if !kind.is_file() {
            reports.push(unread(&name, PartState::Skipped("not a file".to_owned()), Verdict::Incomplete));
        } else if is_cache(own) {
            reports.push(cache(&name));
        } else {
            progress(own);
            reports.push(match read(own, limits, false) {
                Ok(bytes) => scan(&Artifact::new(name, bytes)),
                Err(error) => unread(&name, PartState::Skipped(error.to_string()), Verdict::Incomplete),
            });
        }
    }
    Ok(merge(&path.to_string_lossy(), reports))
}

/// Reads at most one byte more than may be scanned, which the scan then refuses.
fn read(path: &Path, limits: &Limits, follow: bool) -> io::Result<Vec<u8>> {
    let mut flags = OFlag::O_NONBLOCK | OFlag::O_CLOEXEC;
    flags.set(OFlag::O_NOFOLLOW, !follow);
    let file: File = OpenOptions::new().read(true).custom_flags(flags.bits()).open(path)?;
    if !file.metadata()?.is_file() {
        return Err(io::Error::new(io::ErrorKind::InvalidInput, "it is not a file any more"));
    }
    let mut bytes = Vec::new();
    file.take(limits.file_bytes as u64 + 1).read_to_end(&mut bytes)?;
    Ok(bytes)
}

/// Where a file stands, of the places whose files are not read one by one.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum Place {
    /// Nowhere in particular: it is read.
    Ordinary,
    /// In git's own folder.
    History,
    /// In this folder of installed packages.
    Packages(std::path::PathBuf),
    /// Byte code that an interpreter has kept of a source beside it.
    Cache,
}

/// Where a file of a view stands that is not a folder of this system. `path` is relative, and `is_there` says what else
/// the view has.
#[must_use]
pub fn place(path: &Path, is_there: &dyn Fn(&Path) -> bool) -> Place {
    let named = |folder: &Path, name: &str| folder.file_name().is_some_and(|n| n == name);
    for folder in path.ancestors().skip(1).filter(|folder| !folder.as_os_str().is_empty()) {
        if named(folder, ".git") && is_there(&folder.join("objects")) {
            return Place::History;
        }
        if named(folder, "node_modules") || is_there(&folder.join("pyvenv.cfg")) {
            return Place::Packages(folder.to_owned());
        }
    }
    if source_of_cache(path).is_some_and(|source| is_there(&source)) { Place::Cache } else { Place::Ordinary }
}

/// git's own folder: objects and hooks that nothing runs but git, which a sandbox does not offer the project's to.
fn is_history(path: &Path) -> bool {
    path.file_name().is_some_and(|name| name == ".git") && path.join("objects").is_dir()
}

/// Installed packages: a virtual environment, or what npm has unpacked.
fn is_packages(path: &Path) -> bool {
    path.file_name().is_some_and(|name| name == "node_modules") || path.join("pyvenv.cfg").is_file()
}

/// Byte code that an interpreter has kept of a source beside it.
fn is_cache(path: &Path) -> bool {
    source_of_cache(path).is_some_and(|source| source.is_file())
}

fn source_of_cache(path: &Path) -> Option<std::path::PathBuf> {
    let (folder, name) = path.parent().zip(path.file_name().and_then(|n| n.to_str()))?;
    let module = name.strip_suffix(".pyc")?.split('.').next()?;
    folder.file_name().filter(|f| *f == "__pycache__")?;
    Some(folder.with_file_name(format!("{module}.py")))
}

/// The language under which kept byte code stands in a report.
pub const PYTHON_CACHE: &str = "python cache";

/// The report of byte code that is not read, because the run is told not to use it.
#[must_use]
pub fn cache(name: &str) -> Report {
    let mut report = unread(name, PartState::Inert, Verdict::Allow);
    report.coverage.parts[0].language = PYTHON_CACHE.to_owned();
    report
}

/// The report of installed packages that are not read.
#[must_use]
pub fn packages_unread(name: &str) -> Report {
    let mut report = unread(
        name,
        PartState::Skipped("installed packages; scan the folder itself to read them".to_owned()),
        Verdict::Review,
    );
    report.coverage.parts[0].language = "packages".to_owned();
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
    });
    report
}

/// The report of something that was not read.
#[must_use]
pub fn unread(name: &str, state: PartState, verdict: Verdict) -> Report {
    Report {
        schema: SCHEMA.to_owned(),
        artifact: Identity { names: vec![name.to_owned()], ..Identity::default() },
        verdict,
        coverage: Coverage {
            parts: vec![Part { path: name.to_owned(), language: String::new(), state }],
            ..Coverage::default()
        },
        findings: Vec::new(),
        quarantine: None,
    }
}
