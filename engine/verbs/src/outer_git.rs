//! The repository of a git worktree or submodule, whose `.git` is a file that points out of the project.
//!
//! That file belongs to the project and is not trusted. Only if the repository outside names this very folder
//! as its worktree, the parts that git reads are shown, read-only: objects, references, `HEAD`, the index,
//! and the settings that describe how the repository is stored. Hooks, remotes and credentials are not shown.

use std::fs::{self, File};
use std::io::{self, Read};
use std::os::unix::fs::MetadataExt;
use std::path::{Component, Path, PathBuf};

use hotcell_sandbox::alias;
use hotcell_sandbox::policy::{Bind, FileId, ImageRoot, PROJECT};
use hotcell_sandbox::temporary;
use nix::fcntl::{AT_FDCWD, OFlag, OpenHow, ResolveFlag, openat2};

/// Maximum size of `.git`, `gitdir`, `commondir` and `config`, in bytes.
const MAX_SMALL_FILE_BYTES: u64 = 64 << 10;
/// Maximum size of an index or a list of packed references, in bytes.
const MAX_LARGE_FILE_BYTES: u64 = 256 << 20;
/// Settings that describe how a repository is stored. Others may name programs, hosts or credentials.
const SETTINGS: [(&str, &str); 8] = [
    ("core", "repositoryformatversion"),
    ("core", "filemode"),
    ("core", "ignorecase"),
    ("core", "precomposeunicode"),
    ("core", "symlinks"),
    ("core", "autocrlf"),
    ("extensions", "objectformat"),
    ("extensions", "refstorage"),
];

/// Visible parts of a repository.
#[derive(Debug)]
pub struct Shown {
    /// Binds of its parts.
    pub binds: Vec<Bind>,
    /// Copies of its small files; kept while the run needs them.
    pub copies: tempfile::TempDir,
}

/// Repository outside, and the project's part of it.
#[derive(Clone, Debug, PartialEq, Eq)]
struct Outer {
    /// The project's own folder in the repository, without links.
    own: PathBuf,
    /// The main repository of a worktree.
    common: Option<PathBuf>,
    /// Folders of objects and references, with the identity that was checked, so that nothing else is mounted
    /// in their place.
    parts: [(&'static str, FileId); 2],
}

/// The parts to show for a project, given as a path without links; `None` when its repository is inside the
/// project or there is no repository.
///
/// # Errors
/// A sentence that says why git will not work in it.
pub fn of(project: &Path, image: Option<&ImageRoot>) -> Result<Option<Shown>, String> {
    let file = project.join(".git");
    if !file.symlink_metadata().is_ok_and(|about| about.is_file()) {
        return Ok(None);
    }
    let text = read(&file, MAX_SMALL_FILE_BYTES).map_err(|e| format!(".git cannot be read: {e}"))?;
    let Some(says) = one_line(&text).and_then(|line| line.strip_prefix("gitdir:")).map(str::trim) else {
        return Err(".git is a file that names no repository".to_owned());
    };
    let Ok(own) = project.join(says).canonicalize() else {
        return Err(format!(".git leads to {says}, which is not there"));
    };
    if own.starts_with(project) {
        return Ok(None);
    }
    let outer = names_back(project, &own)
        .map_err(|why| format!(".git leads to {says}, which does not belong to this folder: {why}"))?;
    let unreadable = |e: io::Error| format!("the repository {says} cannot be read: {e}");
    let inside = inside(says).ok_or_else(|| format!(".git leads to {says}, which is no place inside"))?;
    show(&outer, &inside, image).map(Some).map_err(|refused| match refused {
        Refused::NoPlace(why) => format!("the repository {says} has no place inside: {why}"),
        Refused::Unread(e) => unreadable(e),
    })
}

enum Refused {
    NoPlace(String),
    Unread(io::Error),
}

impl From<io::Error> for Refused {
    fn from(e: io::Error) -> Self {
        Self::Unread(e)
    }
}

/// Finds the repository that names the project as its own.
fn names_back(project: &Path, own: &Path) -> Result<Outer, String> {
    let is_ours = |at: &Path, name: Option<&str>| {
        let folder = if name.is_some() { at.parent() } else { Some(at) };
        let named = name.is_none_or(|name| at.file_name().is_some_and(|last| last == name));
        named && folder.and_then(|folder| folder.canonicalize().ok()).is_some_and(|folder| folder == project)
    };
    let line = |name: &str| {
        let text = read(&own.join(name), MAX_SMALL_FILE_BYTES).map_err(|e| format!("its {name}: {e}"))?;
        one_line(&text).map(str::to_owned).ok_or_else(|| format!("its {name} is not one line"))
    };
    let worktree = own.parent().filter(|parent| parent.ends_with("worktrees")).and_then(Path::parent);
    let common = if let Some(common) = worktree {
        let back = own.join(line("gitdir")?);
        if !is_ours(&back, Some(".git")) {
            return Err("its gitdir names another folder".to_owned());
        }
        if own.join(line("commondir")?).canonicalize().ok().as_deref() != Some(common) {
            return Err("its commondir is another".to_owned());
        }
        Some(common.to_owned())
    } else {
        let config =
            read(&own.join("config"), MAX_SMALL_FILE_BYTES).map_err(|e| format!("its config: {e}"))?;
        let back = setting(&config, "core", "worktree").ok_or("its config names no worktree")?;
        if !is_ours(&own.join(back), None) {
            return Err("its config names another worktree".to_owned());
        }
        None
    };
    // The repository must belong to the owner of the project: another user's repository is not trusted.
    let repository = common.as_deref().unwrap_or(own);
    let owner = project.symlink_metadata().map_err(|e| e.to_string())?.uid();
    let theirs = |path: &Path| match path.symlink_metadata() {
        Ok(about) if about.is_dir() && about.uid() == owner => Ok(FileId::from(&about)),
        _ => Err("it is incomplete or has another owner than this folder".to_owned()),
    };
    theirs(own).and_then(|_| theirs(repository))?;
    let part = |name| theirs(&repository.join(name)).map(|id| (name, id));
    let parts = [part("objects")?, part("refs")?];
    Ok(Outer { own: own.to_owned(), common, parts })
}

/// Path in the sandbox that `.git` points to.
fn inside(says: &str) -> Option<PathBuf> {
    let mut at = PathBuf::new();
    for part in Path::new(PROJECT).join(says).components() {
        match part {
            Component::ParentDir if !at.pop() => return None,
            Component::ParentDir | Component::CurDir => {}
            part => at.push(part),
        }
    }
    Some(at)
}

fn show(outer: &Outer, inside: &Path, image: Option<&ImageRoot>) -> Result<Shown, Refused> {
    let (repository, place) = match &outer.common {
        Some(common) => {
            let place = inside.parent().and_then(Path::parent);
            (common, place.ok_or_else(|| Refused::NoPlace("it is not below a folder".to_owned()))?)
        }
        None => (&outer.own, inside),
    };
    alias::spot(place, image, &[]).map_err(Refused::NoPlace)?;
    let copies = temporary::folder()?;
    let copied = copies.path().join("repository");
    for folder in ["objects", "refs"] {
        fs::create_dir_all(copied.join(folder))?;
    }
    copy(repository, &copied, &["HEAD", "packed-refs", "shallow"])?;
    let mut config = settings(&read(&repository.join("config"), MAX_SMALL_FILE_BYTES).unwrap_or_default());
    match &outer.common {
        Some(_) => {
            let name = outer.own.file_name().unwrap_or_default();
            let own = copied.join("worktrees").join(name);
            fs::create_dir_all(&own)?;
            copy(&outer.own, &own, &["HEAD", "ORIG_HEAD", "index", "commondir"])?;
            fs::write(own.join("gitdir"), format!("{PROJECT}/.git\n"))?;
        }
        None => {
            copy(&outer.own, &copied, &["ORIG_HEAD", "index"])?;
            config.push_str(&format!("[core]\n\tworktree = {PROJECT}\n"));
        }
    }
    fs::write(copied.join("config"), config)?;
    let bind = |host: PathBuf, inside: PathBuf, identity| Bind {
        host,
        inside,
        writable: false,
        copy_on_write: false,
        identity,
    };
    let mut binds = vec![bind(copied, place.to_owned(), None)];
    let parts = outer.parts.iter();
    binds.extend(parts.map(|(name, id)| bind(repository.join(name), place.join(name), Some(*id))));
    Ok(Shown { binds, copies })
}

/// Copies those of these files that exist.
fn copy(from: &Path, to: &Path, names: &[&str]) -> io::Result<()> {
    for name in names {
        match read(&from.join(name), MAX_LARGE_FILE_BYTES) {
            Ok(bytes) => fs::write(to.join(name), bytes)?,
            Err(e) if e.kind() == io::ErrorKind::NotFound => {}
            Err(e) => return Err(e),
        }
    }
    Ok(())
}

/// Filters a repository's settings.
fn settings(config: &[u8]) -> String {
    let mut shown = String::new();
    for (section, name) in SETTINGS {
        let value = setting(config, section, name);
        let plain = |value: &String| value.bytes().all(|b| b.is_ascii_alphanumeric());
        if let Some(value) = value.filter(plain) {
            shown.push_str(&format!("[{section}]\n\t{name} = {value}\n"));
        }
    }
    shown
}

/// Last value of a setting; sections with subsection names are ignored. `git-config(1)`
fn setting(config: &[u8], section: &str, name: &str) -> Option<String> {
    let (mut is_in, mut found) = (false, None);
    for line in String::from_utf8_lossy(config).lines().map(str::trim) {
        if let Some(head) = line.strip_prefix('[') {
            is_in = head.split(']').next().is_some_and(|head| head.trim().eq_ignore_ascii_case(section));
        } else if let Some((key, value)) = line.split_once('=').filter(|_| is_in)
            && key.trim().eq_ignore_ascii_case(name)
        {
            let value = value.trim();
            found =
                Some(value.strip_prefix('"').and_then(|v| v.strip_suffix('"')).unwrap_or(value).to_owned());
        }
    }
    found
}

fn one_line(text: &[u8]) -> Option<&str> {
    let line = std::str::from_utf8(text).ok()?.trim_end_matches(['\n', '\r']);
    (!line.is_empty() && !line.contains(['\n', '\0'])).then_some(line)
}

/// Reads a regular file of at most `most` bytes. No part of its path may be a link.
fn read(path: &Path, most: u64) -> io::Result<Vec<u8>> {
    let flags = OFlag::O_RDONLY | OFlag::O_NONBLOCK | OFlag::O_NOCTTY | OFlag::O_CLOEXEC;
    let resolve = ResolveFlag::RESOLVE_NO_SYMLINKS | ResolveFlag::RESOLVE_NO_MAGICLINKS;
    let file = File::from(openat2(AT_FDCWD, path, OpenHow::new().flags(flags).resolve(resolve))?);
    if !file.metadata()?.is_file() {
        return Err(io::Error::other("it is not a file"));
    }
    let mut bytes = Vec::new();
    file.take(most + 1).read_to_end(&mut bytes)?;
    if bytes.len() as u64 > most {
        return Err(io::Error::other(format!("it is longer than {most} bytes")));
    }
    Ok(bytes)
}

#[cfg(test)]
mod tests {
    use super::*;

    fn write(path: &Path, text: &str) {
        fs::create_dir_all(path.parent().unwrap()).unwrap();
        fs::write(path, text).unwrap();
    }

    /// A repository with a worktree and a submodule, made without git.
    fn repository(top: &Path) -> (PathBuf, PathBuf) {
        let git = top.join("main/.git");
        for folder in ["objects", "refs", "modules/lib/objects", "modules/lib/refs", "hooks"] {
            fs::create_dir_all(git.join(folder)).unwrap();
        }
        write(&git.join("HEAD"), "ref: refs/heads/main\n");
        write(
            &git.join("config"),
            "[core]\n\tfileMode = true\n\thooksPath = /x\n[remote \"o\"]\n\turl = https://me:secret@host/\n",
        );
        let tree = top.join("tree");
        write(&tree.join(".git"), &format!("gitdir: {}\n", git.join("worktrees/tree").display()));
        let own = git.join("worktrees/tree");
        write(&own.join("gitdir"), &format!("{}\n", tree.join(".git").display()));
        write(&own.join("commondir"), "../..\n");
        write(&own.join("HEAD"), "ref: refs/heads/tree\n");
        let lib = top.join("main/lib");
        write(&lib.join(".git"), "gitdir: ../.git/modules/lib\n");
        write(&git.join("modules/lib/config"), "[core]\n\tworktree = ../../../lib\n\tfilemode = true\n");
        write(&git.join("modules/lib/HEAD"), "0\n");
        (tree, lib)
    }

    #[test]
    fn outer_git_folder_needs_reference_back() {
        let dir = tempfile::tempdir().unwrap();
        let top = dir.path().canonicalize().unwrap();
        let (tree, lib) = repository(&top);
        let shown = of(&tree, None).unwrap().unwrap();
        let places: Vec<_> = shown.binds.iter().map(|b| b.inside.clone()).collect();
        let git = top.join("main/.git");
        assert_eq!(places, [git.clone(), git.join("objects"), git.join("refs")]);
        let config = fs::read_to_string(shown.copies.path().join("repository/config")).unwrap();
        assert_eq!(config, "[core]\n\tfilemode = true\n");
        assert!(!shown.copies.path().join("repository/hooks").exists());
        let shown = of(&lib, None).unwrap().unwrap();
        assert_eq!(shown.binds[0].inside, Path::new("/home/sandbox/.git/modules/lib"));
        let config = fs::read_to_string(shown.copies.path().join("repository/config")).unwrap();
        assert!(config.ends_with("worktree = /home/sandbox/project\n"), "{config}");
        assert!(of(&top.join("main"), None).unwrap().is_none(), "its repository is its own");
    }

    #[test]
    fn git_file_to_foreign_repository_shows_nothing() {
        let dir = tempfile::tempdir().unwrap();
        let top = dir.path().canonicalize().unwrap();
        let (tree, _) = repository(&top);
        let git = top.join("main/.git");
        let hostile = top.join("hostile");
        for says in [
            git.join("worktrees/tree").display().to_string(),
            git.join("modules/lib").display().to_string(),
            git.display().to_string(),
            "../main/.git/worktrees/tree".to_owned(),
            "/".to_owned(),
            "/proc/self".to_owned(),
            top.join("nothing").display().to_string(),
        ] {
            write(&hostile.join(".git"), &format!("gitdir: {says}\n"));
            assert!(of(&hostile, None).is_err(), "{says}");
        }
        for text in ["", "gitdir", "other: x\n", "gitdir: a\ngitdir: b\n"] {
            write(&hostile.join(".git"), text);
            assert!(of(&hostile, None).is_err(), "{text:?}");
        }
        // Neither the project's `.git` nor the repository's files may be links.
        fs::remove_file(hostile.join(".git")).unwrap();
        std::os::unix::fs::symlink(tree.join(".git"), hostile.join(".git")).unwrap();
        assert!(of(&hostile, None).unwrap().is_none());
        fs::remove_dir(git.join("objects")).unwrap();
        std::os::unix::fs::symlink("/etc", git.join("objects")).unwrap();
        assert!(of(&tree, None).is_err());
    }

    #[test]
    fn settings_are_read_as_git_reads_them() {
        let config = b"[Core]\n bare = false\n\tFileMode=\"true\"\n[core \"x\"]\nfilemode = no\n[extensions]\n objectFormat = sha256\n";
        assert_eq!(setting(config, "core", "filemode").as_deref(), Some("true"));
        assert_eq!(setting(config, "extensions", "objectformat").as_deref(), Some("sha256"));
        assert_eq!(setting(config, "core", "worktree"), None);
    }
}
