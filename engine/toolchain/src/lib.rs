//! Finds the program that a user means, and the parts of the host that it needs to work inside.
//!
//! ```no_run
//! use hotcell_sandbox::Policy;
//! use hotcell_toolchain::{Surroundings, find};
//!
//! let around = Surroundings { path: std::env::var_os("PATH"), cwd: "/".into(), ..Surroundings::default() };
//! let found = find("python3".as_ref(), &around)?;
//! let mut policy = Policy::new(&found.program).args(["-c", "print(6 * 7)"]);
//! policy.job.toolchains = found.prefixes;
//! policy.job.toolchain_ids = found.identities;
//! # Ok::<(), hotcell_toolchain::LookupError>(())
//! ```
//!
//! [`find`] looks a program up as the operator's shell would, follows links, scripts, virtual environments,
//! version managers' shims and rustup's proxies to the file that is really started, and lists the paths that
//! must be mounted read-only at the same place inside: parts of a Python version, of a virtual environment,
//! of a Rust toolchain; never a home folder or a system folder. Nothing here starts a process or changes a
//! file.
//!
//! **Only the operator decides which installations exist.** The project and a caller may be hostile: a link,
//! a first line, a `pyvenv.cfg`, a version file or a path given by a caller can only choose among
//! installations that the operator's own settings lead to (see `operator`). A path that leads elsewhere is
//! [`LookupError::Untrusted`], and is not even looked at.
//!
//! # Every host path that is exposed to a run, and who vouches for it
//!
//! | path | decided by | vouched for by |
//! | --- | --- | --- |
//! | `/usr`, `/bin`, `/lib`… | the plan | every sandbox has them |
//! | parts of an installation | [`find`], [`find_in`] | the operator's `PATH`, `VIRTUAL_ENV`, version managers, `--toolchain`, a path typed at the keyboard; the project chooses |
//! | the project's own `.venv` | [`find`], [`find_in`] | the operator's `--workspace`: it lies in the workspace without links |
//! | a folder of `--toolchain`, `toolchains` | the configuration | the operator; a project's file may not set it |
//! | workspace, `--ro`, `--rw`, `ro`, `rw` | the configuration | the operator; a project's file may not set them |
//! | a source file (`--lang`) | the request | typed by the operator; a link out of the workspace is refused |
//! | a caller's workspace over MCP | the registry | a folder of hotcell's own, or one below the operator's `mcp.folders` |
//! | an image's layers | the image store | the operator, by the image's name |
//! | packages (`--deps`), kept builds | the service | folders of hotcell's own in the state folder |
//! | stores of fetched packages for tests (`~/.cargo/registry`, `~/.m2/repository`, `~/.gradle/caches`, `GOMODCACHE`) | the framework | the operator's variables and home; the project only determines the framework |
//! | Maven, `cargo-nextest` for tests | the framework | the operator's `PATH` and `CARGO_HOME`, without folders of the project on it |
//! | reporters, compiled programs | the service | files of hotcell's own |
//!
//! Some text of the project never becomes a host path, since only the program inside reads it:
//! `package.json`, `go.work`, `.mvn/*`, `gradle.properties` (`org.gradle.java.home`), `.cargo/config.toml`,
//! `JAVA_HOME` and `GOPATH` in a script.
//!
//! # Lookups that a project can still cause
//!
//! Names on the way to the operator's set (`/home`, `/home/me`), the set itself, version files in the folders
//! above the project, and, once a path leads out of project and system, the links in the folders of `PATH`.
//! None of these depends on the project's contents. A link of the operator's inside an installation is not
//! followed out of it if only the project leads there.
//!
//! Not handled here: programs that are started later (a test runner that also needs `node` requires
//! `--toolchain`), libraries outside `/usr` and the installation (`DT_RPATH`), and mounting, which is the
//! plan's part.
//!
//! The parts: `files` asks the file system, `sight` decides which paths may be asked about on whose behalf,
//! `operator` knows which installations exist, `parts` is the table of what is exposed of each, `walk`
//! follows links, `script` reads first lines, `place` decides which installation a file needs, `shim` and
//! `rustup` handle version managers, `finder` joins them.

mod files;
mod finder;
mod operator;
mod parts;
mod place;
mod pythons;
mod rustup;
mod script;
mod shell;
mod shim;
mod sight;
#[cfg(test)]
mod tests;
#[cfg(test)]
mod trust_tests;
mod walk;

#[cfg(doctest)]
#[doc = include_str!("../README.md")]
mod readme {}

pub use files::{Fs, Host, Kind};
pub use pythons::{Python, PythonVersion, environment, pythons, version_of_program};
pub use shell::{shell_advice, shell_operator};

use std::collections::BTreeMap;
use std::ffi::{OsStr, OsString};
use std::path::{Path, PathBuf};

use hotcell_sandbox::policy::FileId;

/// Who named the program that is looked up.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub enum Asks {
    /// The person at the keyboard: a path that they type is trusted and may lead to its installation. The
    /// contents of the file are not trusted.
    #[default]
    Operator,
    /// A client over MCP or a plugin: a path can only choose among installations that the operator's own
    /// settings lead to.
    Caller,
}

/// Folders of the host into which others may put files, as callers may by a commit: none of their installations is the operator's.
#[derive(Clone, Debug, Default)]
pub struct Foreign {
    folders: Vec<PathBuf>,
    is_kept_out: Option<fn(&Path) -> bool>,
}

impl Foreign {
    /// These folders, each by its name and by its name without links, but for the paths below them that `is_kept_out` names: other
    /// users put nothing there.
    #[must_use]
    pub fn new(folders: &[PathBuf], is_kept_out: fn(&Path) -> bool) -> Self {
        let both = |folder: &PathBuf| [Some(folder.clone()), folder.canonicalize().ok()];
        let folders = folders.iter().flat_map(both).flatten().collect();
        Self { folders, is_kept_out: Some(is_kept_out) }
    }

    /// Whether others may put something at a path without `..`.
    #[must_use]
    pub fn holds(&self, path: &Path) -> bool {
        let is_kept_out = |rest: &Path| self.is_kept_out.is_some_and(|is_kept_out| is_kept_out(rest));
        let is_in = |folder: &PathBuf| path.strip_prefix(folder).is_ok_and(|rest| !is_kept_out(rest));
        self.folders.iter().any(is_in)
    }
}

impl PartialEq for Foreign {
    fn eq(&self, other: &Self) -> bool {
        let is_same = |a: fn(&Path) -> bool, b| std::ptr::fn_addr_eq(a, b);
        self.folders == other.folders
            && match (self.is_kept_out, other.is_kept_out) {
                (Some(one), Some(two)) => is_same(one, two),
                (one, two) => one.is_none() && two.is_none(),
            }
    }
}

impl Eq for Foreign {}

/// Where a lookup takes place: the operator's side of it.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct Surroundings {
    /// The caller's `PATH`; `None` searches `/usr/local/bin:/usr/bin:/bin`.
    pub path: Option<OsString>,
    /// The caller's active virtual environment (`VIRTUAL_ENV`).
    pub virtual_env: Option<PathBuf>,
    /// The caller's home folder. Never mounted.
    pub home: Option<PathBuf>,
    /// The host folder that is mounted at [`hotcell_sandbox::policy::PROJECT`]. **Not trusted.**
    pub project: Option<PathBuf>,
    /// The caller's current folder, absolute.
    pub cwd: PathBuf,
    /// Variables that choose versions, such as `RUSTUP_TOOLCHAIN`, `PYENV_VERSION` or `CARGO_HOME`.
    pub env: BTreeMap<OsString, OsString>,
    /// Who names the program.
    pub asks: Asks,
    /// Absolute host folders that the operator exposes to the program anyway (`--toolchain`): a path in one
    /// of them is neither too broad nor untrusted, and the folder is exposed as a whole.
    pub granted: Vec<PathBuf>,
    /// The interpreter that the operator chose for `python3`, absolute: it goes before environments and `PATH`, as if its path were
    /// typed. The operator's word; nothing of a project or a caller may set it.
    pub python: Option<PathBuf>,
    /// Where others may put files: nothing that lies there is shown, and no word that stands there is the operator's.
    pub foreign: Foreign,
}

impl Surroundings {
    /// The surroundings of this process, without a project. Keeps only the variables that a lookup reads.
    #[must_use]
    pub fn of_this_process() -> Self {
        let folder = |name| std::env::var_os(name).map(PathBuf::from).filter(|p| p.is_absolute());
        Self {
            path: std::env::var_os("PATH"),
            virtual_env: folder("VIRTUAL_ENV"),
            home: folder("HOME"),
            project: None,
            cwd: std::env::current_dir().unwrap_or_else(|_| "/".into()),
            env: std::env::vars_os().filter(|(name, _)| chooses_versions(name)).collect(),
            asks: Asks::Operator,
            granted: Vec::new(),
            python: None,
            foreign: Foreign::default(),
        }
    }

    /// Sets the project.
    #[must_use]
    pub fn project(mut self, host: impl Into<PathBuf>) -> Self {
        self.project = Some(host.into());
        self
    }

    /// The value of a variable, if it is set and not empty.
    fn value(&self, name: &str) -> Option<&OsStr> {
        self.env.get(OsStr::new(name)).map(OsString::as_os_str).filter(|v| !v.is_empty())
    }

    /// The host folder that corresponds to the start folder in the sandbox.
    fn start(&self) -> &Path {
        self.project.as_deref().unwrap_or(&self.cwd)
    }

    /// The project and every folder above it, then the current folder and every folder above that.
    fn upwards(&self) -> impl Iterator<Item = PathBuf> {
        let project = self.project.iter().map(|p| self.cwd.join(p));
        let starts: Vec<PathBuf> = project.chain([self.cwd.clone()]).collect();
        starts
            .into_iter()
            .flat_map(|s| walk::normal(&s).ancestors().map(Path::to_path_buf).collect::<Vec<_>>())
    }
}

/// Whether a variable tells where version managers are or which version they choose; none of these is a
/// secret.
fn chooses_versions(name: &OsStr) -> bool {
    let Some(name) = name.to_str() else {
        return false;
    };
    let manager = |m: &str| name.starts_with(m) && name.ends_with("_VERSION");
    operator::names_a_root(name)
        || matches!(name, "CARGO_HOME" | "RUSTUP_TOOLCHAIN")
        || name.ends_with("ENV_VERSION")
        || ["ASDF_", "MISE_"].into_iter().any(manager)
}

/// A program, and the parts of the host that it needs.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct Toolchain {
    /// Absolute path of the program inside: the same as on the host, or below [`hotcell_sandbox::policy::PROJECT`].
    pub program: PathBuf,
    /// Host paths to mount read-only at the same path inside: sorted, and not nested.
    ///
    /// A path may lead through links; its target must be mounted at the path given here. Most are parts of
    /// installations, or the folder of one that contains nothing else; a **single file** where its folder
    /// holds other things (`~/Downloads/tool`). Never `/`, `/usr`, a home folder, a system folder, or a
    /// parent of one of them. They may lie below the inside home folder or `/tmp`, so they are mounted after
    /// these.
    pub prefixes: Vec<PathBuf>,
    /// Identity of each of these files and folders: another must not be mounted in its place.
    pub identities: BTreeMap<PathBuf, FileId>,
    /// Arguments to insert after the program, before those of the user: the path of a script whose
    /// interpreter is at another place inside than its first line says, and the argument on that line.
    pub arguments: Vec<OsString>,
    /// Folders to prepend to the inside `PATH`, in this order.
    pub path_dirs: Vec<PathBuf>,
    /// Variables that the toolchain needs: `VIRTUAL_ENV`, `CONDA_PREFIX`.
    pub env: Vec<(OsString, OsString)>,
}

/// Reason why a program cannot be started inside. Every message ends with a remedy.
#[derive(Clone, Debug, PartialEq, Eq, thiserror::Error)]
pub enum LookupError {
    /// There is no such program. (`outcome.cause`: `not_found`)
    #[error("{} is not there{}; {hint}", program.display(), among(searched))]
    NotFound {
        /// The program as it was typed.
        program: PathBuf,
        /// The folders that were searched; empty for a path.
        searched: Vec<PathBuf>,
        /// Remedy.
        hint: String,
    },
    /// The file exists but cannot be executed. (`not_executable`)
    #[error("{} cannot be started: {why}; {hint}", path.display())]
    NotExecutable {
        /// Path of the file.
        path: PathBuf,
        /// Problem with the file.
        why: String,
        /// Remedy.
        hint: String,
    },
    /// A script's interpreter does not exist. (`not_executable`)
    #[error("the interpreter {} of the script {} is not there; {hint}", interpreter.display(), script.display())]
    MissingInterpreter {
        /// The script.
        script: PathBuf,
        /// Interpreter on its first line: a path, or a name that `env` would look up.
        interpreter: PathBuf,
        /// Remedy.
        hint: String,
    },
    /// The program would only work with a home folder or a system folder. (`refused`)
    #[error(
        "{} needs all of {}, which is too much to show to a program in a sandbox; \
         install it into a folder of its own, or give the folders that it needs with ‹toolchain=DIR›",
        program.display(), path.display()
    )]
    TooBroad {
        /// The program, or the part of its chain, that needs the folder.
        program: PathBuf,
        /// Path that would have to be mounted.
        path: PathBuf,
    },
    /// It lies where others than the operator may put files. (`refused`)
    #[error(
        "{} lies in {}, where callers may put files: nothing there counts as an installation; \
         move it out of the folders of mcp.commit",
        program.display(), path.display()
    )]
    Planted {
        /// The program, or the part of its chain, that lies there.
        program: PathBuf,
        /// The folder or file.
        path: PathBuf,
    },
    /// Something that the project or a caller says leads to a part of the host that the operator's own words do not lead to. Its
    /// existence was not checked. (`refused`)
    #[error(
        "{} leads to {}, which is in no installation of yours (PATH, VIRTUAL_ENV, version managers); \
         if it may be read, say so with ‹toolchain={}›{hint}",
        from.display(), path.display(), folder.display()
    )]
    Untrusted {
        /// The file in the project, or the path given by the caller.
        from: PathBuf,
        /// Path to which it leads.
        path: PathBuf,
        /// The folder to pass to `--toolchain`.
        folder: PathBuf,
        /// Another remedy, after a comma; may be empty.
        hint: String,
    },
}

impl LookupError {
    /// Adds another remedy to this error, unless it has one already.
    fn with_hint(mut self, also: &str) -> Self {
        if let Self::Untrusted { hint, .. } = &mut self
            && hint.is_empty()
        {
            *hint = format!(", or {also}");
        }
        self
    }
}

fn among(searched: &[PathBuf]) -> String {
    if searched.is_empty() {
        return String::new();
    }
    let all: Vec<_> = searched.iter().take(8).map(|p| p.display().to_string()).collect();
    let more = if searched.len() > 8 { ", …" } else { "" };
    format!(" (searched {}{more})", all.join(", "))
}

/// Finds `program`, as typed by the user, and the parts of the host that it needs inside.
///
/// A path (with a slash) is relative to the current folder, or otherwise to the project; a path below
/// [`hotcell_sandbox::policy::PROJECT`] is the project's. A name is looked up in the project's `.venv/bin` and
/// `venv/bin`, the active virtual environment and `PATH`.
///
/// # Errors
/// [`LookupError`] when the program does not exist, cannot be started, or would need more of the host than a
/// sandbox may see.
pub fn find(program: &OsStr, around: &Surroundings) -> Result<Toolchain, LookupError> {
    finder::find(&files::Seen::new(&files::Host), chosen(program, around), around, Project::Folder)
}

/// Like [`find`], but for a project that is not a plain folder of the host: `fs` shows the contents at its
/// path. Nothing in it is mounted, since the host may have something else at that name; the program starts at
/// its place inside.
///
/// # Errors
/// [`LookupError`] in the same cases as [`find`].
pub fn find_in(fs: &dyn Fs, program: &OsStr, around: &Surroundings) -> Result<Toolchain, LookupError> {
    finder::find(&files::Seen::new(fs), chosen(program, around), around, Project::Layered)
}

/// The program that is meant: of `python3`, the interpreter that was chosen for it.
fn chosen<'a>(program: &'a OsStr, around: &'a Surroundings) -> &'a OsStr {
    let is_python = program == "python3" || program == "python";
    around.python.as_deref().filter(|_| is_python).map_or(program, Path::as_os_str)
}

/// How the project is stored on the host.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum Project {
    /// A plain folder with all its contents.
    Folder,
    /// A folder with layers over it: a name in it may be another file inside.
    Layered,
}

/// Whether the project has a file at this path below it, possibly through links that stay in the project.
#[must_use]
pub fn has(fs: &dyn Fs, around: &Surroundings, path: &Path) -> bool {
    let operator = operator::Operator::new(fs, around, OsStr::new(""));
    let Some(project) = operator.bounds.project.last() else { return false };
    let sight = operator.sight().led(true);
    walk::real(sight, &project.join(path)).is_some_and(|real| {
        operator.in_project(&real).is_some() && matches!(walk::look(sight, &real), Some(Kind::File { .. }))
    })
}
