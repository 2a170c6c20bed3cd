//! Decides which folder must be visible for a file to work, and which folders must never be. Pure, except for
//! queries through a [`Sight`].

use std::cell::OnceCell;
use std::ffi::OsStr;
use std::path::{Path, PathBuf};

use super::files::Kind;
use super::sight::Sight;
use super::walk;

/// Folders with so many other contents that neither they nor their parents are ever a toolchain.
const NEVER: [&str; 15] = [
    "/boot", "/dev", "/etc", "/home", "/media", "/mnt", "/opt", "/proc", "/root", "/run", "/srv", "/sys",
    "/tmp", "/usr", "/var",
];
/// Folders below which there is never a toolchain.
const KERNEL: [&str; 3] = ["/dev", "/proc", "/sys"];
/// Paths that every sandbox has: the host's `/usr` and the links into it.
const ALWAYS: [&str; 6] = ["/usr", "/bin", "/sbin", "/lib", "/lib32", "/lib64"];
/// Folders shared by programs of many owners: a folder in them can be a toolchain, they themselves cannot.
const SHARED: [&str; 4] = ["/usr/local", "/var/lib", "/var/opt", "/var/tmp"];
/// Such folders below a home folder; many of these hold secrets beside their `bin`.
const SHARED_AT_HOME: [&str; 28] = [
    ".aws",
    ".azure",
    ".cache",
    ".cargo",
    ".composer",
    ".config",
    ".docker",
    ".fly",
    ".gem",
    ".gnupg",
    ".gradle",
    ".kube",
    ".local",
    ".local/lib",
    ".local/share",
    ".local/state",
    ".m2",
    ".npm",
    ".pulumi",
    ".rustup",
    ".ssh",
    ".terraform.d",
    "Desktop",
    "Documents",
    "Downloads",
    "go",
    "snap",
    "src",
];
/// Stores whose packages refer to each other by absolute path, and Debian's alternatives: exposed as a whole.
const WHOLE: [&str; 3] = ["/nix/store", "/gnu/store", "/etc/alternatives"];
/// Folders that are on a sandbox's default `PATH`.
const STANDARD: [&str; 6] = ["/usr/local/sbin", "/usr/local/bin", "/usr/sbin", "/usr/bin", "/sbin", "/bin"];

/// The homes and the project of a lookup, each by its given path and by its canonical path.
#[derive(Clone, Debug, Default)]
pub(super) struct Bounds {
    pub homes: Vec<PathBuf>,
    pub project: Vec<PathBuf>,
    /// Folder in which cargo keeps its files, including credentials.
    cargo: Option<PathBuf>,
    /// Further folders of which only parts may be mounted. Computed on first use, since most programs are the
    /// system's.
    shared: OnceCell<Vec<PathBuf>>,
}

/// How much of a file's surroundings may be mounted with it.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum Reach {
    /// The user named this very file: it is mounted alone unless it is part of a toolchain.
    Alone,
    /// A folder on the search path, or a link, led to the file: its folder may be mounted too.
    Folder,
}

/// The surroundings that a file needs.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(super) enum Needed {
    /// All of a store, or of a folder of packages that refer to each other.
    Whole(PathBuf),
    /// The parts of an installation listed in the table, plus the file if it is in none of these.
    Installation(PathBuf),
    /// Only the folder of programs, since its parent is not a single installation.
    Programs(PathBuf),
    /// Only the file itself.
    File(PathBuf),
}

/// Whether every sandbox has `path`.
pub(super) fn always_there(path: &Path) -> bool {
    ALWAYS.iter().any(|p| path.starts_with(p))
}

/// Whether every sandbox searches `folder` by default.
pub(super) fn standard(folder: &Path) -> bool {
    STANDARD.iter().any(|p| folder == Path::new(p))
}

/// Whether `path` lies in a virtual file system of the kernel.
pub(super) fn of_the_kernel(path: &Path) -> bool {
    KERNEL.iter().any(|p| path.starts_with(p))
}

/// The folder of executables that contains `file`, and that folder's parent.
pub(super) fn bin(file: &Path) -> Option<(&Path, &Path)> {
    let folder = file.parent()?;
    let named = folder.file_name()?;
    let is_bin = ["bin", "sbin", "condabin"].iter().any(|n| named == OsStr::new(n));
    is_bin.then(|| folder.parent().map(|up| (folder, up))).flatten()
}

impl Bounds {
    /// Makes the bounds, each by its given path and by its canonical path.
    pub fn new(mut homes: Vec<PathBuf>, project: Vec<PathBuf>, cargo: Option<&Path>) -> Self {
        // A home folder without links has the same path twice.
        homes.dedup();
        Self { homes, project, cargo: cargo.map(Path::to_path_buf), shared: OnceCell::new() }
    }

    /// The shared folders by their canonical paths, and cargo's.
    fn shared(&self, sight: Sight<'_>) -> &[PathBuf] {
        self.shared.get_or_init(|| {
            let parts = self.homes.iter().flat_map(|h| SHARED_AT_HOME.map(|p| h.join(p)));
            // Their given paths are already known.
            let mut shared: Vec<_> =
                parts.filter_map(|p| walk::real(sight, &p).filter(|r| *r != p)).collect();
            if let Some(cargo) = &self.cargo {
                shared.push(cargo.clone());
                shared.extend(walk::real(sight, cargo));
            }
            shared
        })
    }

    /// The path of `path` relative to the project, if it lies in the project.
    pub fn in_project<'a>(&self, path: &'a Path) -> Option<&'a Path> {
        self.project.iter().find_map(|p| path.strip_prefix(p).ok())
    }

    /// Whether mounting `folder` would expose a home or a system folder.
    pub fn forbids(&self, folder: &Path) -> bool {
        let contains = |p: &Path| p.starts_with(folder);
        NEVER.iter().any(|p| contains(Path::new(p)))
            || self.homes.iter().any(|h| contains(h))
            || a_home(folder)
            || of_the_kernel(folder)
    }

    /// Whether `folder` holds more than one toolchain, so that only a part of it may be mounted.
    fn shares(&self, sight: Sight<'_>, folder: &Path) -> bool {
        self.forbids(folder)
            || SHARED.iter().any(|p| folder == Path::new(p))
            || self.project.iter().chain(self.shared(sight)).any(|p| p.starts_with(folder))
            || self.home_of(folder).is_some_and(|(_, rest)| {
                SHARED_AT_HOME.iter().any(|p| rest == Path::new(p))
                    || (rest.starts_with(".config") && rest.components().count() <= 2)
            })
    }

    /// The home folder in which `path` lies, and the path relative to it.
    fn home_of<'a>(&self, path: &'a Path) -> Option<(PathBuf, &'a Path)> {
        let known = self.homes.iter().cloned();
        let home = known.chain(path.ancestors().filter(|a| a_home(a)).map(Path::to_path_buf));
        home.into_iter().find_map(|h| path.strip_prefix(&h).ok().map(|rest| (h, rest)))
    }

    /// Paths that must be mounted so that `file` works.
    ///
    /// The result may still be forbidden: for example, a virtual environment made in a home folder would need
    /// that folder.
    pub fn needed(&self, sight: Sight<'_>, file: &Path, reach: Reach) -> Needed {
        if let Some(whole) = WHOLE.iter().find(|w| file.starts_with(w)) {
            return Needed::Whole(PathBuf::from(whole));
        }
        if let Some(root) = environment(sight, file) {
            return Needed::Installation(root.to_path_buf());
        }
        let fits = |folder: &Path| {
            !self.shares(sight, folder)
                && walk::real(sight, folder).is_none_or(|real| !self.shares(sight, &real))
                && !["credentials", "credentials.toml"].iter().any(|n| walk::exists(sight, &folder.join(n)))
        };
        if let Some(packages) = outermost(file, "node_modules")
            && self.in_project(file).is_none()
            && fits(packages)
        {
            return Needed::Whole(packages.to_path_buf());
        }
        let alone = || Needed::File(file.to_path_buf());
        let Some(folder) = file.parent() else {
            return alone();
        };
        if let Some((_, up)) = bin(file) {
            let up = match up.parent() {
                Some(above) if up.ends_with("libexec") => above,
                _ => up,
            };
            let at_home = self.home_of(up).is_some_and(|(_, rest)| rest.components().count() == 1);
            if fits(up) && (!at_home || installed(sight, up)) {
                return Needed::Installation(up.to_path_buf());
            }
            return if fits(folder) { Needed::Programs(folder.to_path_buf()) } else { alone() };
        }
        if let Ok(rest) = file.strip_prefix("/opt")
            && rest.components().count() > 1
            && let Some(first) = rest.components().next()
            && fits(&Path::new("/opt").join(first))
        {
            return Needed::Installation(Path::new("/opt").join(first));
        }
        if reach == Reach::Folder && fits(folder) {
            return Needed::Installation(folder.to_path_buf());
        }
        alone()
    }
}

/// The virtual or conda environment that `file` belongs to.
pub(super) fn environment<'a>(sight: Sight<'_>, file: &'a Path) -> Option<&'a Path> {
    let (_, up) = bin(file)?;
    (is_venv(sight, up) || is_conda(sight, up)).then_some(up)
}

/// Whether `folder` is a Python virtual environment.
pub(super) fn is_venv(sight: Sight<'_>, folder: &Path) -> bool {
    matches!(walk::look(sight, &folder.join("pyvenv.cfg")), Some(Kind::File { .. }))
}

/// Whether `folder` is a conda environment.
pub(super) fn is_conda(sight: Sight<'_>, folder: &Path) -> bool {
    matches!(walk::look(sight, &folder.join("conda-meta")), Some(Kind::Folder))
}

/// The folder of the Python with which a virtual environment was made, according to the environment.
pub(super) fn made_with(sight: Sight<'_>, venv: &Path) -> Option<PathBuf> {
    let text = sight.own_text(&walk::real(sight, venv)?.join("pyvenv.cfg"))?;
    setting(&text, "home").map(PathBuf::from).filter(|home| home.is_absolute())
}

/// The folder to name in `--toolchain` so that a file is exposed. Derived from the path alone; the file may
/// not exist.
pub(super) fn named_folder(file: &Path) -> PathBuf {
    let up = match (bin(file), file.file_name()) {
        (Some((_, up)), _) => up,
        (None, Some(name)) if name == OsStr::new("pyvenv.cfg") || name == OsStr::new("bin") => {
            file.parent().unwrap_or(file)
        }
        _ => file,
    };
    let is_wide = NEVER.iter().any(|p| Path::new(p).starts_with(up)) || a_home(up);
    if is_wide { file.to_path_buf() } else { up.to_path_buf() }
}

/// A value of a `pyvenv.cfg`.
pub(super) fn setting<'a>(text: &'a str, key: &str) -> Option<&'a str> {
    text.lines()
        .filter_map(|line| line.split_once('='))
        .find(|(name, _)| name.trim().eq_ignore_ascii_case(key))
        .map(|(_, value)| value.trim())
        .filter(|value| !value.is_empty())
}

/// Whether `folder` looks like an installation rather than a folder of a user's work.
fn installed(sight: Sight<'_>, folder: &Path) -> bool {
    ["lib", "lib64", "libexec"].iter().any(|n| walk::exists(sight, &folder.join(n)))
}

/// Whether `folder` looks like a home folder, by its path.
fn a_home(folder: &Path) -> bool {
    folder == Path::new("/root")
        || (folder.parent().is_some_and(|p| p == Path::new("/home") || p == Path::new("/Users"))
            && folder != Path::new("/home/linuxbrew"))
}

fn outermost<'a>(file: &'a Path, name: &str) -> Option<&'a Path> {
    file.ancestors().skip(1).filter(|a| a.file_name() == Some(OsStr::new(name))).last()
}
