//! Files that a project's `.gitignore` and `.ignore` leave out of a scan that respects them.
//!
//! These files are as untrusted as the rest of the project: they are opened without following links and without blocking, and one that is a link, a pipe, a
//! device or too long names nothing, so that more is read; so do all that come when those before have too many bytes together. What they leave out is counted, since a project can hide code from a scan by them.

use std::collections::HashMap;
use std::io::Read;
use std::path::{Path, PathBuf};
use std::sync::atomic::{AtomicU64, Ordering};
use std::sync::{Arc, Mutex, PoisonError};

use ignore::gitignore::{Gitignore, GitignoreBuilder};

/// Names of the files, the stronger one first.
const NAMES: [&str; 2] = [".ignore", ".gitignore"];
/// Maximum size of such a file in bytes, and of its lines: patterns become automata in memory.
const MAX_BYTES: u64 = 256 << 10;
const MAX_LINES: usize = 10_000;
/// Maximum size of all such files of a scan in bytes.
const MAX_ALL_BYTES: u64 = 8 << 20;

/// Patterns of one folder, by [`NAMES`]; `None` for a folder without any.
type Patterns = Option<Arc<[Gitignore; 2]>>;

/// Patterns that were read.
#[derive(Debug, Default)]
struct Kept {
    /// Those of the folders above the last entry, since a walk does not come back to others.
    folders: HashMap<PathBuf, Patterns>,
    /// Size of all files that were read for them, in bytes.
    bytes: u64,
}

/// Decides about the entries below a folder.
#[derive(Debug)]
pub struct Ignored {
    root: PathBuf,
    kept: Mutex<Kept>,
    count: AtomicU64,
}

impl Ignored {
    /// For the entries below `root`.
    pub fn new(root: &Path) -> Self {
        Self { root: root.to_owned(), kept: Mutex::default(), count: AtomicU64::new(0) }
    }

    /// Whether an entry below the root is left out; the patterns of the deepest folder that names it decide. Its own folder is not left out.
    pub fn leaves_out(&self, path: &Path, is_folder: bool) -> bool {
        let above = self.above(path);
        let named = (0..NAMES.len()).find_map(|at| {
            let mut found = above.iter().map(|patterns| patterns[at].matched(path, is_folder));
            found.find(|found| !found.is_none()).map(|found| found.is_ignore())
        });
        let is_left_out = named == Some(true);
        if is_left_out {
            self.count.fetch_add(1, Ordering::Relaxed);
        }
        is_left_out
    }

    /// Number of files and folders that were left out.
    pub fn count(&self) -> u64 {
        self.count.load(Ordering::Relaxed)
    }

    /// Patterns of the folders above an entry, the deepest first.
    fn above(&self, path: &Path) -> Vec<Arc<[Gitignore; 2]>> {
        let mut kept = self.kept.lock().unwrap_or_else(PoisonError::into_inner);
        let Kept { folders, bytes } = &mut *kept;
        folders.retain(|folder, _| path != folder && path.starts_with(folder));
        let above = path.ancestors().skip(1).take_while(|folder| folder.starts_with(&self.root));
        above
            .filter_map(|folder| {
                folders.entry(folder.to_owned()).or_insert_with(|| read(folder, bytes)).clone()
            })
            .collect()
    }
}

/// Patterns of a folder; the size of their files is added to that of all.
fn read(folder: &Path, all_bytes: &mut u64) -> Patterns {
    let all = NAMES.map(|name| patterns(folder, name, all_bytes).unwrap_or_else(Gitignore::empty));
    all.iter().any(|patterns| !patterns.is_empty()).then(|| Arc::new(all))
}

fn patterns(folder: &Path, name: &str, all_bytes: &mut u64) -> Option<Gitignore> {
    let mut bytes = Vec::new();
    super::open(&folder.join(name), false).ok()?.take(MAX_BYTES + 1).read_to_end(&mut bytes).ok()?;
    let text = String::from_utf8_lossy(&bytes);
    if bytes.len() as u64 > MAX_BYTES || text.lines().count() > MAX_LINES {
        return None;
    }
    *all_bytes = all_bytes.saturating_add(bytes.len() as u64);
    if *all_bytes > MAX_ALL_BYTES {
        return None;
    }
    let mut builder = GitignoreBuilder::new(folder);
    for line in text.trim_start_matches('\u{feff}').lines() {
        // A line that is not a pattern names nothing.
        let _ = builder.add_line(None, line);
    }
    builder.build().ok()
}

#[cfg(test)]
mod tests {
    use super::*;

    fn left(files: &[(&str, &str)], paths: &[&str]) -> Vec<String> {
        let dir = tempfile::tempdir().unwrap();
        for (name, text) in files {
            let path = dir.path().join(name);
            std::fs::create_dir_all(path.parent().unwrap()).unwrap();
            std::fs::write(path, text).unwrap();
        }
        let ignored = Ignored::new(dir.path());
        let left = |path: &&&str| {
            ignored.leaves_out(&dir.path().join(path.trim_end_matches('/')), path.ends_with('/'))
        };
        let left: Vec<String> = paths.iter().filter(left).map(|path| (*path).to_owned()).collect();
        assert_eq!(ignored.count(), left.len() as u64);
        left
    }

    #[test]
    fn patterns_of_the_deepest_folder_decide() {
        let files = [
            (".gitignore", "\u{feff}*.log\ntarget/\n# x\n!keep.log\n/top\n[\n"),
            ("a/.gitignore", "!b.log\nown\n"),
            ("a/.ignore", "c.py\n"),
        ];
        let paths = [
            "x.log",
            "keep.log",
            "target/",
            "a/target/",
            "target",
            "top",
            "a/top",
            "a/b.log",
            "a/z.log",
            "a/own",
            "own",
            "a/c.py",
            "c.py",
        ];
        let want = ["x.log", "target/", "a/target/", "top", "a/z.log", "a/own", "a/c.py"];
        assert_eq!(left(&files, &paths), want);
        assert!(left(&[], &paths).is_empty());
    }

    #[test]
    fn patterns_are_kept_of_the_folders_above_and_bounded_together() {
        let dir = tempfile::tempdir().unwrap();
        let ignored = Ignored::new(dir.path());
        let text = format!("x.py\n{}", "#".repeat((256 << 10) - 5));
        let kept = || ignored.kept.lock().unwrap().folders.len();
        let most = MAX_ALL_BYTES / MAX_BYTES;
        for (number, name) in (0..most + 3).zip(NAMES.into_iter().cycle()) {
            let folder = dir.path().join(format!("{number:03}"));
            std::fs::create_dir_all(folder.join("deeper")).unwrap();
            // The last one is short: what is beyond the bound stays beyond it.
            let text = if number == most + 2 { "x.py" } else { &*text };
            std::fs::write(folder.join(name), text).unwrap();
            assert!(!ignored.leaves_out(&folder, true));
            assert!(!ignored.leaves_out(&folder.join("deeper"), true));
            assert_eq!(ignored.leaves_out(&folder.join("deeper/x.py"), false), number < most, "{number}");
            assert_eq!(kept(), 3);
            assert_eq!(ignored.leaves_out(&folder.join("x.py"), false), number < most, "{number}");
            assert_eq!(kept(), 2);
        }
        assert_eq!(ignored.count(), 2 * most);
    }

    #[test]
    fn odd_files_of_patterns_name_nothing_and_are_not_waited_for() {
        let dir = tempfile::tempdir().unwrap();
        let file = dir.path().join(".gitignore");
        let is_left = || Ignored::new(dir.path()).leaves_out(&dir.path().join("x.py"), false);
        std::fs::write(&file, "x.py\n").unwrap();
        assert!(is_left());
        std::fs::write(&file, format!("x.py\n{}", "#".repeat(256 << 10))).unwrap();
        assert!(!is_left());
        std::fs::write(&file, "x.py\n".repeat(MAX_LINES + 1)).unwrap();
        assert!(!is_left());
        for target in ["/dev/zero", "/proc/kmsg", "other"] {
            std::fs::write(dir.path().join("other"), "x.py\n").unwrap();
            std::fs::remove_file(&file).unwrap();
            std::os::unix::fs::symlink(target, &file).unwrap();
            assert!(!is_left(), "{target}");
        }
        std::fs::remove_file(&file).unwrap();
        nix::unistd::mkfifo(&file, nix::sys::stat::Mode::S_IRWXU).unwrap();
        assert!(!is_left());
        std::fs::remove_file(&file).unwrap();
        std::fs::create_dir(&file).unwrap();
        assert!(!is_left());
    }
}
