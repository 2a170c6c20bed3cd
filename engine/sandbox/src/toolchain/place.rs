//! Which folder must be seen for a file to work, and which folders may never be. Pure but for [`Fs`].

use std::cell::OnceCell;
use std::ffi::OsStr;
use std::path::{Path, PathBuf};

use super::files::{Fs, Kind};
use super::walk;

/// Folders that hold so much else that neither they nor what contains them is ever a toolchain.
const NEVER: [&str; 15] = [
    "/boot", "/dev", "/etc", "/home", "/media", "/mnt", "/opt", "/proc", "/root", "/run", "/srv", "/sys",
    "/tmp", "/usr", "/var",
];
/// Folders below which nothing is a toolchain.
const KERNEL: [&str; 3] = ["/dev", "/proc", "/sys"];
/// What every sandbox has anyway: the host's `/usr` and the links into it.
const ALWAYS: [&str; 6] = ["/usr", "/bin", "/sbin", "/lib", "/lib32", "/lib64"];
/// Folders for programs of many owners: one folder in them is a toolchain, they are not.
const SHARED: [&str; 4] = ["/usr/local", "/var/lib", "/var/opt", "/var/tmp"];
/// The same below a home folder; many of these hold secrets beside their `bin`.
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
/// Stores whose packages refer to one another by absolute path, and the links that Debian chooses by: seen whole.
const WHOLE: [&str; 3] = ["/nix/store", "/gnu/store", "/etc/alternatives"];
/// The folders that a sandbox has on its `PATH` by itself.
const STANDARD: [&str; 6] = ["/usr/local/sbin", "/usr/local/bin", "/usr/sbin", "/usr/bin", "/sbin", "/bin"];

/// The homes and the project around a lookup, each by the name given and by its name without links.
#[derive(Clone, Debug, Default)]
pub(super) struct Bounds {
    pub homes: Vec<PathBuf>,
    pub project: Vec<PathBuf>,
    /// Where cargo was told to keep things, credentials among them.
    cargo: Option<PathBuf>,
    /// Further folders of which only parts may be mounted, once somebody asks: most programs are the system's.
    shared: OnceCell<Vec<PathBuf>>,
}

/// How much of a file's surroundings it may bring along.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum Reach {
    /// The person named this very file: it comes alone unless it lies in a toolchain.
    Alone,
    /// A folder on the search path, or a link, led here: its folder may come along.
    Folder,
}

/// Whether a sandbox has `path` anyway.
pub(super) fn always_there(path: &Path) -> bool {
    ALWAYS.iter().any(|p| path.starts_with(p))
}

/// Whether a sandbox searches `folder` anyway.
pub(super) fn standard(folder: &Path) -> bool {
    STANDARD.iter().any(|p| folder == Path::new(p))
}

/// Whether `path` lies in what the kernel makes up.
pub(super) fn of_the_kernel(path: &Path) -> bool {
    KERNEL.iter().any(|p| path.starts_with(p))
}

/// The folder of executables that `file` lies in, if it does, and the folder above.
pub(super) fn bin(file: &Path) -> Option<(&Path, &Path)> {
    let folder = file.parent()?;
    let named = folder.file_name()?;
    let is_bin = ["bin", "sbin", "condabin"].iter().any(|n| named == OsStr::new(n));
    is_bin.then(|| folder.parent().map(|up| (folder, up))).flatten()
}

impl Bounds {
    /// The bounds around these, each by its name and by its name without links.
    pub fn new(mut homes: Vec<PathBuf>, project: Vec<PathBuf>, cargo: Option<&Path>) -> Self {
        // A home folder without links has one name.
        homes.dedup();
        Self { homes, project, cargo: cargo.map(Path::to_path_buf), shared: OnceCell::new() }
    }

    /// The shared folders by what they are without links, and cargo's.
    fn shared(&self, fs: &dyn Fs) -> &[PathBuf] {
        self.shared.get_or_init(|| {
            let parts = self.homes.iter().flat_map(|h| SHARED_AT_HOME.map(|p| h.join(p)));
            // By their own names they are known already.
            let mut shared: Vec<_> = parts.filter_map(|p| walk::real(fs, &p).filter(|r| *r != p)).collect();
            if let Some(cargo) = &self.cargo {
                shared.push(cargo.clone());
                shared.extend(walk::real(fs, cargo));
            }
            shared
        })
    }

    /// Whether `path` lies in the project, and where below it.
    pub fn in_project<'a>(&self, path: &'a Path) -> Option<&'a Path> {
        self.project.iter().find_map(|p| path.strip_prefix(p).ok())
    }

    /// Whether mounting `folder` would show a home or a folder of the system.
    pub fn forbids(&self, folder: &Path) -> bool {
        let contains = |p: &Path| p.starts_with(folder);
        NEVER.iter().any(|p| contains(Path::new(p)))
            || self.homes.iter().any(|h| contains(h))
            || a_home(folder)
            || of_the_kernel(folder)
    }

    /// Whether `folder` holds much that is not one toolchain, so that only a part of it may be mounted.
    fn shares(&self, fs: &dyn Fs, folder: &Path) -> bool {
        self.forbids(folder)
            || SHARED.iter().any(|p| folder == Path::new(p))
            || self.project.iter().chain(self.shared(fs)).any(|p| p.starts_with(folder))
            || self.home_of(folder).is_some_and(|(_, rest)| {
                SHARED_AT_HOME.iter().any(|p| rest == Path::new(p))
                    || (rest.starts_with(".config") && rest.components().count() <= 2)
            })
    }

    /// The home folder that `path` lies in, and where below it.
    fn home_of<'a>(&self, path: &'a Path) -> Option<(PathBuf, &'a Path)> {
        let known = self.homes.iter().cloned();
        let home = known.chain(path.ancestors().filter(|a| a_home(a)).map(Path::to_path_buf));
        home.into_iter().find_map(|h| path.strip_prefix(&h).ok().map(|rest| (h, rest)))
    }

    /// What must be mounted so that `file` works: a folder, or the file itself where its folder may not be seen.
    ///
    /// What it returns may still be forbidden: a virtual environment made in a home folder needs all of it.
    pub fn prefix(&self, fs: &dyn Fs, file: &Path, reach: Reach) -> PathBuf {
        if let Some(whole) = WHOLE.iter().find(|w| file.starts_with(w)) {
            return PathBuf::from(whole);
        }
        if let Some(root) = environment(fs, file) {
            return root.to_path_buf();
        }
        let fits = |folder: &Path| {
            !self.shares(fs, folder)
                && walk::real(fs, folder).is_none_or(|real| !self.shares(fs, &real))
                && !["credentials", "credentials.toml"].iter().any(|n| walk::exists(fs, &folder.join(n)))
        };
        if let Some(packages) = outermost(file, "node_modules")
            && self.in_project(file).is_none()
            && fits(packages)
        {
            return packages.to_path_buf();
        }
        let Some(folder) = file.parent() else {
            return file.to_path_buf();
        };
        if let Some((_, up)) = bin(file) {
            let up = match up.parent() {
                Some(above) if up.ends_with("libexec") => above,
                _ => up,
            };
            let at_home = self.home_of(up).is_some_and(|(_, rest)| rest.components().count() == 1);
            if fits(up) && (!at_home || installed(fs, up)) {
                return up.to_path_buf();
            }
        } else if let Ok(rest) = file.strip_prefix("/opt")
            && rest.components().count() > 1
            && let Some(first) = rest.components().next()
            && fits(&Path::new("/opt").join(first))
        {
            return Path::new("/opt").join(first);
        } else if reach == Reach::Alone {
            return file.to_path_buf();
        }
        if fits(folder) { folder.to_path_buf() } else { file.to_path_buf() }
    }
}

/// The virtual or conda environment that `file` belongs to.
pub(super) fn environment<'a>(fs: &dyn Fs, file: &'a Path) -> Option<&'a Path> {
    let (_, up) = bin(file)?;
    (is_venv(fs, up) || is_conda(fs, up)).then_some(up)
}

/// Whether `folder` is a Python virtual environment.
pub(super) fn is_venv(fs: &dyn Fs, folder: &Path) -> bool {
    matches!(walk::look(fs, &folder.join("pyvenv.cfg")), Some(Kind::File { .. }))
}

/// Whether `folder` is a conda environment.
pub(super) fn is_conda(fs: &dyn Fs, folder: &Path) -> bool {
    matches!(walk::look(fs, &folder.join("conda-meta")), Some(Kind::Folder))
}

/// Whether `folder` is certainly a language's installation, so that even a hostile project may lead there.
pub(super) fn is_toolchain(fs: &dyn Fs, folder: &Path) -> bool {
    const SIGNS: [&str; 7] = [
        "conda-meta",
        "include/node",
        "lib/modules",
        "lib/node_modules",
        "lib/ruby",
        "lib/rustlib",
        "pkg/tool",
    ];
    WHOLE.iter().any(|w| folder.starts_with(w))
        || is_venv(fs, folder)
        || SIGNS.iter().any(|s| walk::exists(fs, &folder.join(s)))
        || walk::real(fs, &folder.join("lib")).is_some_and(|lib| {
            let names = fs.names(&lib);
            let versioned = |n: &str| {
                n.strip_prefix("python")
                    .or_else(|| n.strip_prefix("pypy"))
                    .is_some_and(|v| v.starts_with(|c: char| c.is_ascii_digit()))
            };
            names.iter().filter_map(|n| n.to_str()).any(versioned)
        })
}

/// Whether `folder` looks like something was installed into it, rather than like a folder of somebody's work.
fn installed(fs: &dyn Fs, folder: &Path) -> bool {
    ["lib", "lib64", "libexec"].iter().any(|n| walk::exists(fs, &folder.join(n)))
}

/// Whether `folder` is where homes usually are.
fn a_home(folder: &Path) -> bool {
    folder == Path::new("/root")
        || (folder.parent().is_some_and(|p| p == Path::new("/home") || p == Path::new("/Users"))
            && folder != Path::new("/home/linuxbrew"))
}

fn outermost<'a>(file: &'a Path, name: &str) -> Option<&'a Path> {
    file.ancestors().skip(1).filter(|a| a.file_name() == Some(OsStr::new(name))).last()
}
