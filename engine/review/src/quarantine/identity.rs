//! Identifies refused code by its bytes: a digest that does not depend on a parser, and the files for a
//! person to see.
//!
//! The reader handled hostile bytes, so its statements about them are not trusted. This process reads the
//! files again, as the gate does, and hashes them. A process that can change the files meanwhile could change
//! them after the scan as well.

use std::collections::HashSet;
use std::io;

use hotcell_guard::{
    Artifact, Kind, Language, Limits, PartState, Report, Severity, Verdict, Walk, merge, scan_path, unread,
};

use crate::target::Target;
use crate::workspace_scan;

use super::objects::hex_digest;

/// Maximum number of files kept for an item, and their maximum total size in bytes.
const ITEM_LIMITS: (usize, usize) = (64, 64 << 20);
/// Maximum number of files that are listed without being kept.
const MAX_LISTED_FILES: usize = 64;

/// A refused artifact.
#[derive(Debug)]
pub struct Identified {
    /// Digest, as in a scan's report.
    pub sha256: String,
    /// Size in bytes.
    pub bytes: u64,
    /// Language that it will run as, if known.
    pub language: Option<Language>,
    /// Why it cannot be released: a part of it has no digest.
    pub unreleasable: Option<String>,
    /// Files that need review.
    pub files: Vec<Flagged>,
    /// Number of further such files.
    pub left_out: u64,
}

/// A file that needs review.
#[derive(Debug)]
pub struct Flagged {
    /// Path in the artifact.
    pub part: String,
    /// Language that it will run as, if known.
    pub language: Option<Language>,
    /// Digest.
    pub sha256: String,
    /// Size in bytes.
    pub size: u64,
    /// Contents, or the reason why they are not kept.
    pub bytes: Result<Vec<u8>, String>,
}

/// Identifies the refused code.
///
/// # Errors
/// When it can no longer be read.
pub fn identify(targets: &[Target], report: &Report) -> io::Result<Identified> {
    let limits = Limits::default();
    let wanted = flagged(report);
    let mut found = Identified {
        sha256: String::new(),
        bytes: 0,
        language: None,
        unreleasable: None,
        files: Vec::new(),
        left_out: 0,
    };
    let mut room = ITEM_LIMITS.1;
    let mut reports = Vec::new();
    for target in targets {
        let mut look = |artifact: &Artifact| look(&mut found, &mut room, &limits, &wanted, artifact);
        reports.push(match target {
            Target::Source(artifact) => {
                let report = look(artifact);
                found.language = artifact.language;
                report
            }
            Target::Unread(part, why) => unread(part, PartState::Skipped(why.clone()), Verdict::Incomplete),
            Target::View(base, layers, executed) => {
                workspace_scan::read(&limits, base, layers, executed, &mut look)?
            }
            Target::Path(path, executed) => {
                let walk = Walk { gitignore: false, packages: false, executed: Some(executed) };
                scan_path(&limits, path, walk, &mut look, &mut |_| ())?
            }
        });
    }
    // How a text is executed, if only the command tells that, is part of its name.
    let by_name = matches!(targets, [Target::Source(artifact)] if !artifact.executed.is_empty());
    let whole = match (reports.len(), reports.pop()) {
        (1, Some(only)) if !by_name => only,
        (_, last) => merge("run", reports.into_iter().chain(last)),
    };
    for part in &whole.coverage.parts {
        // Another file name could have the same replacement, and so the same digest.
        if part.path.contains('\u{fffd}') && found.unreleasable.is_none() {
            found.unreleasable =
                Some(format!("a release is for names as well, and {} is not UTF-8", part.path));
        }
        if let PartState::Skipped(why) = &part.state
            && found.unreleasable.is_none()
        {
            found.unreleasable =
                Some(format!("a release names bytes, and those of {} are not known ({why})", part.path));
        }
    }
    // A single file runs as one language, which is part of its identity.
    let only = match targets {
        [Target::Path(path, _)] => path.is_file(),
        [Target::Source(artifact)] => artifact.language.is_none() && artifact.executed.is_empty(),
        _ => false,
    };
    if only && found.unreleasable.is_none() {
        found.unreleasable = Some("what it is run as is not known; what a run refuses can be".to_owned());
    }
    (found.sha256, found.bytes) = (whole.artifact.sha256, whole.artifact.bytes);
    Ok(found)
}

fn look(
    found: &mut Identified,
    room: &mut usize,
    limits: &Limits,
    wanted: &HashSet<&str>,
    artifact: &Artifact,
) -> Report {
    let sha256 = hex_digest(&artifact.bytes);
    let size = artifact.bytes.len();
    if size > limits.file_bytes && found.unreleasable.is_none() {
        let most = limits.file_bytes >> 20;
        let name = &artifact.name;
        found.unreleasable = Some(format!("a release names bytes, and {name} is read up to {most} MiB only"));
    }
    if wanted.contains(artifact.name.as_str()) {
        let kept = found.files.iter().filter(|file| file.bytes.is_ok()).count();
        let bytes = if size > limits.file_bytes {
            Err("it is too large".to_owned())
        } else if kept >= ITEM_LIMITS.0 {
            Err(format!("{} files of it are kept already", ITEM_LIMITS.0))
        } else if size > *room {
            Err(format!("{} MiB of it are kept already", ITEM_LIMITS.1 >> 20))
        } else {
            *room -= size;
            Ok(artifact.bytes.clone())
        };
        if bytes.is_ok() || found.files.len() < ITEM_LIMITS.0 + MAX_LISTED_FILES {
            let (part, language) = (artifact.name.clone(), artifact.language);
            found.files.push(Flagged { part, language, sha256: sha256.clone(), size: size as u64, bytes });
        } else {
            found.left_out += 1;
        }
    }
    let mut report = unread(&artifact.name, PartState::Inert, Verdict::Allow);
    (report.artifact.sha256, report.artifact.bytes) = (sha256, size as u64);
    report
}

/// Parts with a finding above a note or not read, and the files that may contain them: `a!b` may be in `a`,
/// or be a file of that name.
fn flagged(report: &Report) -> HashSet<&str> {
    let findings = report.findings.iter().filter(|f| f.severity > Severity::Note).map(|f| f.part.as_str());
    let parts = report.coverage.parts.iter();
    let unread = parts.filter(|part| part.state.kind() == Kind::NotRead).map(|part| part.path.as_str());
    let mut all = HashSet::new();
    for part in findings.chain(unread) {
        all.insert(part);
        all.extend(part.match_indices('!').map(|(at, _)| &part[..at]));
    }
    all
}

#[cfg(test)]
mod tests {
    use super::*;
    use hotcell_guard::{Executions, Pack, scan};
    use std::os::unix::ffi::OsStrExt;

    fn digest(dir: &std::path::Path) -> Identified {
        let report = unread("x", PartState::Inert, Verdict::Quarantine);
        identify(&[Target::Path(dir.to_owned(), Executions::default())], &report).unwrap()
    }

    #[test]
    fn identity_digest_covers_scanned_content() {
        let dir = tempfile::tempdir().unwrap();
        let write = |name: &str, text: &str| std::fs::write(dir.path().join(name), text).unwrap();
        write("a.py", "print(1)\n");
        write("b.py", "print(2)\n");
        std::os::unix::fs::symlink("a.py", dir.path().join("c.py")).unwrap();
        let pack = Pack::builtin().unwrap();
        let limits = Limits::default();
        let walk = Walk { gitignore: false, packages: false, executed: None };
        let read = &mut |file: &Artifact| scan(&pack, &limits, file);
        let scanned = scan_path(&limits, dir.path(), walk, read, &mut |_| ()).unwrap();
        let first = digest(dir.path());
        assert_eq!(first.sha256, scanned.artifact.sha256);
        assert_eq!(first.unreleasable, None);
        let mut all = vec![first.sha256];
        write("b.py", "print(3)\n");
        all.push(digest(dir.path()).sha256);
        std::fs::rename(dir.path().join("b.py"), dir.path().join("d.py")).unwrap();
        all.push(digest(dir.path()).sha256);
        std::fs::remove_file(dir.path().join("c.py")).unwrap();
        std::os::unix::fs::symlink("d.py", dir.path().join("c.py")).unwrap();
        all.push(digest(dir.path()).sha256);
        assert_eq!(all.iter().collect::<HashSet<_>>().len(), all.len());
        let name = std::ffi::OsStr::from_bytes(b"\xff.py");
        std::fs::write(dir.path().join(name), "print(4)\n").unwrap();
        assert!(digest(dir.path()).unreleasable.unwrap().contains("UTF-8"));
        std::fs::remove_file(dir.path().join(name)).unwrap();
        nix::unistd::mkfifo(&dir.path().join("fifo"), nix::sys::stat::Mode::S_IRWXU).unwrap();
        assert!(digest(dir.path()).unreleasable.unwrap().contains("fifo"));
    }

    #[test]
    fn quarantine_stores_flagged_parts_within_bounds() {
        let dir = tempfile::tempdir().unwrap();
        let hostile = "import shutil\nshutil.rmtree('/home')\n";
        for number in 0..ITEM_LIMITS.0 + MAX_LISTED_FILES + 3 {
            std::fs::write(dir.path().join(format!("{number:04}.py")), hostile).unwrap();
        }
        std::fs::write(dir.path().join("good.py"), "print(1)\n").unwrap();
        std::fs::write(dir.path().join("odd!name.py"), hostile).unwrap();
        let pack = Pack::builtin().unwrap();
        let limits = Limits::default();
        let walk = Walk { gitignore: false, packages: false, executed: None };
        let read = &mut |file: &Artifact| scan(&pack, &limits, file);
        let report = scan_path(&limits, dir.path(), walk, read, &mut |_| ()).unwrap();
        let found = identify(&[Target::Path(dir.path().to_owned(), Executions::default())], &report).unwrap();
        assert_eq!(found.files.iter().filter(|f| f.bytes.is_ok()).count(), ITEM_LIMITS.0);
        assert_eq!((found.files.len(), found.left_out), (ITEM_LIMITS.0 + MAX_LISTED_FILES, 4));
        assert!(found.files.iter().all(|f| f.part != "good.py"));
        let parts = flagged(&report);
        assert!(parts.contains("odd!name.py") && parts.contains("odd"));
    }
}
