//! Reads the paths that the settings of a repository name, in every file where git looks for settings. Runs
//! nothing and writes nothing. See `git-config(1)` and `gitrepository-layout(5)`.

use std::collections::{BTreeSet, HashSet};
use std::fs::File;
use std::io::{self, Read};
use std::os::unix::ffi::OsStrExt;
use std::path::{Path, PathBuf};

use rustix::fs::{Mode, OFlags};

use super::places::{How, Places};
use super::words::words;
use crate::settings::{BadLine, Setting, settings};

/// Maximum size of a settings file, in bytes.
const MAX_SETTINGS_BYTES: u64 = 1 << 20;
/// Maximum number of settings files that one repository may include.
const MAX_FILES: usize = 256;

/// Names of the programs that git runs from its hooks folder. See `githooks(5)`.
const HOOKS: &[&str] = &[
    "applypatch-msg",
    "commit-msg",
    "fsmonitor-watchman",
    "p4-changelist",
    "p4-post-changelist",
    "p4-pre-submit",
    "p4-prepare-changelist",
    "post-applypatch",
    "post-checkout",
    "post-commit",
    "post-index-change",
    "post-merge",
    "post-receive",
    "post-rewrite",
    "post-update",
    "pre-applypatch",
    "pre-auto-gc",
    "pre-commit",
    "pre-merge-commit",
    "pre-push",
    "pre-rebase",
    "pre-receive",
    "prepare-commit-msg",
    "proc-receive",
    "push-to-checkout",
    "reference-transaction",
    "sendemail-validate",
    "update",
];

/// Protects the targets of a repository's settings and links. `top` is its work tree, `dot` the `.git` in it:
/// a folder, a link to one, or a file that names one.
pub(super) fn repository(places: &mut Places, top: &Path, dot: &Path) {
    let Some(git) = state_of(places, top, dot) else { return };
    let common = match read(&git.join("commondir")) {
        Ok(Some(text)) => Some(git.join(line(&text))),
        _ => None,
    };
    if git != top {
        // For a worktree or a submodule: the folder with git's own state.
        places.add_where(dot, dot, &How::Link);
        places.add_where(&git, dot, &How::Settings);
    }
    let mut files = Vec::new();
    for folder in [Some(&git), common.as_ref()].into_iter().flatten() {
        links_in(places, folder);
        links_in(places, &folder.join("hooks"));
        links_in(places, &folder.join("info"));
        files.extend(["config", "config.worktree"].map(|name| folder.join(name)));
        let worktrees = std::fs::read_dir(folder.join("worktrees")).into_iter().flatten().flatten();
        files.extend(worktrees.map(|worktree| worktree.path().join("config.worktree")));
    }
    let mut bases = vec![top.to_owned(), git.clone()];
    bases.extend(common.clone());
    let read = Reading { files, bases, seen: HashSet::new(), top: top.to_owned() };
    read.all(places);
}

/// The folder that holds a repository's state.
fn state_of(places: &mut Places, top: &Path, dot: &Path) -> Option<PathBuf> {
    match std::fs::metadata(dot) {
        Ok(meta) if meta.is_dir() => Some(dot.to_owned()),
        Ok(meta) if meta.is_file() => match read(dot) {
            // Git rejects any other content of such a file.
            Ok(text) => text?.strip_prefix(b"gitdir:").map(|path| top.join(line(path))),
            Err(why) => {
                places.unread(top, dot, why);
                None
            }
        },
        _ => None,
    }
}

fn line(text: &[u8]) -> PathBuf {
    PathBuf::from(std::ffi::OsStr::from_bytes(text.trim_ascii()))
}

/// Protects the targets of the links directly in a folder, and of the folder itself when it is a link.
fn links_in(places: &mut Places, folder: &Path) {
    if std::fs::symlink_metadata(folder).is_ok_and(|meta| meta.is_symlink()) {
        places.add_where(folder, folder, &How::Link);
    }
    for entry in std::fs::read_dir(folder).into_iter().flatten().flatten() {
        if entry.file_type().is_ok_and(|kind| kind.is_symlink()) {
            places.add_where(&entry.path(), &entry.path(), &How::Link);
        }
    }
}

/// Content of a file; `None` when the file does not exist.
fn read(path: &Path) -> Result<Option<Vec<u8>>, String> {
    use io::ErrorKind::{NotADirectory, NotFound};
    // `O_NONBLOCK`: opening a pipe must not block.
    let flags = OFlags::RDONLY | OFlags::NONBLOCK | OFlags::NOCTTY | OFlags::CLOEXEC;
    let file: File = match rustix::fs::open(path, flags, Mode::empty()).map_err(io::Error::from) {
        Ok(fd) => fd.into(),
        Err(error) if matches!(error.kind(), NotFound | NotADirectory) => return Ok(None),
        Err(error) => return Err(error.to_string()),
    };
    if !file.metadata().is_ok_and(|meta| meta.is_file()) {
        return Err("it is not a file".to_owned());
    }
    let mut text = Vec::new();
    file.take(MAX_SETTINGS_BYTES + 1).read_to_end(&mut text).map_err(|error| error.to_string())?;
    if text.len() as u64 > MAX_SETTINGS_BYTES {
        return Err(format!("it has more than {MAX_SETTINGS_BYTES} bytes"));
    }
    Ok(Some(text))
}

/// The settings files of one repository.
struct Reading {
    files: Vec<PathBuf>,
    /// Folders that relative paths are resolved against.
    bases: Vec<PathBuf>,
    seen: HashSet<PathBuf>,
    top: PathBuf,
}

impl Reading {
    fn all(mut self, places: &mut Places) {
        // The first file, which names the work tree, is read first.
        self.files.reverse();
        while let Some(file) = self.files.pop() {
            if !self.seen.insert(file.clone()) {
                continue;
            }
            if self.seen.len() > MAX_FILES {
                places.unread(&self.top, &file, format!("more than {MAX_FILES} files of settings"));
                return;
            }
            let all = match read(&file) {
                Ok(None) => continue,
                Ok(Some(text)) => {
                    settings(&text).map_err(|BadLine(line)| format!("line {line} is no setting"))
                }
                Err(why) => Err(why),
            };
            let all = match all {
                Ok(all) => all,
                Err(why) => {
                    places.unread(&self.top, &file, why);
                    continue;
                }
            };
            if let Some(elsewhere) = worktree(&all) {
                // Relative to the state folder.
                self.bases.push(self.bases[1].join(elsewhere));
            }
            for setting in &all {
                self.one(places, &file, setting);
            }
        }
    }

    fn one(&mut self, places: &mut Places, file: &Path, setting: &Setting) {
        let words = words(setting);
        if words.is_empty() {
            return;
        }
        let mut bases: BTreeSet<PathBuf> = self.bases.iter().cloned().collect();
        bases.extend(file.parent().map(Path::to_owned));
        let mut around = BTreeSet::new();
        // A second pass also resolves against the folders above the project that a command may change to
        // first.
        for _ in 0..2 {
            let paths: Vec<_> = bases
                .iter()
                .flat_map(|base| words.iter().flat_map(|word| meant(places, base, word)))
                .collect();
            for path in paths {
                let Some(resolved) = places.resolve(&path) else { continue };
                let place = resolved.place;
                if self.top.starts_with(&place) || places.root().starts_with(&place) {
                    if setting.name == "hookspath" {
                        for hook in HOOKS {
                            places.add_where(&place.join(hook), file, &How::Settings);
                        }
                    }
                    around.insert(place);
                } else {
                    places.add_where(&path, file, &How::Settings);
                }
                for link in resolved.links {
                    places.add(&link, file, How::Settings);
                }
            }
            if around.is_empty() || around.is_subset(&bases) {
                break;
            }
            bases = around.clone();
        }
        if matches!(setting.section.as_str(), "include" | "includeif") && setting.name == "path" {
            let value = setting.value.as_deref().unwrap_or_default();
            let base = file.parent().unwrap_or(Path::new("/"));
            self.files.extend(meant(places, base, &line(value)));
        }
    }
}

fn worktree(all: &[Setting]) -> Option<PathBuf> {
    let one = all.iter().rev().find(|one| one.section == "core" && one.name == "worktree")?;
    one.value.as_deref().map(line)
}

/// The absolute paths that a word may mean. A `~` may be the home folder of any user, so every folder above
/// the project and the home folder of this process are tried.
fn meant(places: &Places, base: &Path, word: &Path) -> Vec<PathBuf> {
    let Some(rest) = word.as_os_str().as_bytes().strip_prefix(b"~") else { return vec![base.join(word)] };
    let slash = rest.iter().position(|byte| *byte == b'/').unwrap_or(rest.len());
    let (user, rest) = (line(&rest[..slash]), line(rest[slash..].strip_prefix(b"/").unwrap_or_default()));
    let home = std::env::var_os("HOME").map(PathBuf::from).filter(|home| home.is_absolute());
    let mut homes: Vec<PathBuf> = places.root().ancestors().map(Path::to_owned).collect();
    homes.extend(home);
    homes.retain(|home| user.as_os_str().is_empty() || home.file_name() == user.file_name());
    homes.into_iter().map(|home| home.join(&rest)).collect()
}
