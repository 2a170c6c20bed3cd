//! Finds the program that a person means, and what of the host it needs to work inside.
//!
//! [`find`] looks a program up as the caller's shell would, follows links, scripts, virtual environments,
//! version managers' shims and rustup's proxies to the file that really is started, and names the folders
//! that must be mounted read-only at the same place inside: a version of Python, a virtual environment, a
//! Rust toolchain; never a home folder, nor a folder of the system. It starts no process and changes nothing.
//!
//! The project may be hostile. A link, a first line or a `pyvenv.cfg` in it may lead to a language's
//! installation, and to nothing else of the host: [`LookupError::Untrusted`].
//!
//! Not for what a program starts later on (a test runner that wants `node` too needs `--toolchain`), not for
//! libraries outside `/usr` and the prefix (`DT_RPATH`), and not for mounting: that is the plan's part.
//!
//! The parts: `files` asks the file system, `walk` follows links, `script` reads first lines, `place` decides
//! which folder a file needs, `shim` and `rustup` know version managers, `finder` joins them.

mod files;
mod finder;
mod place;
mod rustup;
mod script;
mod shim;
#[cfg(test)]
mod tests;
mod walk;

pub use files::{Fs, Host, Kind};

use std::collections::BTreeMap;
use std::ffi::{OsStr, OsString};
use std::path::{Path, PathBuf};

/// Where a lookup takes place: the caller's side of it.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct Surroundings {
    /// The caller's `PATH`; `None` searches `/usr/local/bin:/usr/bin:/bin`.
    pub path: Option<OsString>,
    /// The caller's active virtual environment (`VIRTUAL_ENV`).
    pub virtual_env: Option<PathBuf>,
    /// The caller's home folder. Never mounted.
    pub home: Option<PathBuf>,
    /// The host folder that is mounted at [`crate::policy::PROJECT`]. **Not trusted.**
    pub project: Option<PathBuf>,
    /// The caller's current folder, absolute.
    pub cwd: PathBuf,
    /// Variables that choose versions, such as `RUSTUP_TOOLCHAIN`, `PYENV_VERSION` or `CARGO_HOME`.
    pub env: BTreeMap<OsString, OsString>,
    /// Host folders that the caller shows to the program anyway (`--toolchain`), absolute: what lies in one of them is
    /// neither too broad nor untrusted.
    pub granted: Vec<PathBuf>,
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
            granted: Vec::new(),
        }
    }

    /// The same with this project.
    #[must_use]
    pub fn project(mut self, host: impl Into<PathBuf>) -> Self {
        self.project = Some(host.into());
        self
    }

    /// A variable, when it is set and not empty.
    fn value(&self, name: &str) -> Option<&OsStr> {
        self.env.get(OsStr::new(name)).map(OsString::as_os_str).filter(|v| !v.is_empty())
    }

    /// The host folder that is the start folder inside.
    fn start(&self) -> &Path {
        self.project.as_deref().unwrap_or(&self.cwd)
    }

    /// The project and every folder above it, then the same from the current folder.
    fn upwards(&self) -> impl Iterator<Item = PathBuf> {
        let project = self.project.iter().map(|p| self.cwd.join(p));
        let starts: Vec<PathBuf> = project.chain([self.cwd.clone()]).collect();
        starts
            .into_iter()
            .flat_map(|s| walk::normal(&s).ancestors().map(Path::to_path_buf).collect::<Vec<_>>())
    }
}

/// Whether a variable says where version managers are or which version they choose; none of these is a secret.
fn chooses_versions(name: &OsStr) -> bool {
    let Some(name) = name.to_str() else {
        return false;
    };
    let manager = |m: &str| name.starts_with(m) && name.ends_with("_VERSION");
    matches!(
        name,
        "CARGO_HOME" | "RUSTUP_HOME" | "RUSTUP_TOOLCHAIN" | "PYENV_ROOT" | "NVM_DIR" | "CONDA_PREFIX"
    ) || name.ends_with("ENV_VERSION")
        || ["ASDF_", "MISE_"].into_iter().any(manager)
}

/// A program, and what it needs.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct Toolchain {
    /// Absolute path of the program inside: the same as outside, or below [`crate::policy::PROJECT`].
    pub program: PathBuf,
    /// Host paths to mount read-only at the same path inside: sorted, none within another.
    ///
    /// A path may lead through links; what it leads to belongs at the path as it is given here. Most are
    /// folders; a **single file** where its folder holds other things (`~/Downloads/tool`). Never `/`, `/usr`, a home folder, a folder of the
    /// system, or what contains one of them. They may lie below the inside home folder or `/tmp`, so they are mounted after these.
    pub prefixes: Vec<PathBuf>,
    /// Folders to put in front of the inside `PATH`, in this order.
    pub path_dirs: Vec<PathBuf>,
    /// Variables that the toolchain wants: `VIRTUAL_ENV`, `CONDA_PREFIX`.
    pub env: Vec<(OsString, OsString)>,
}

/// Why a program cannot be started inside. Every message ends with what to do.
#[derive(Clone, Debug, PartialEq, Eq, thiserror::Error)]
pub enum LookupError {
    /// Nothing of that name is there. (`outcome.cause`: `not_found`)
    #[error("{} is not there{}; {hint}", program.display(), among(searched))]
    NotFound {
        /// The program as it was typed.
        program: PathBuf,
        /// The folders that were searched; empty for a path.
        searched: Vec<PathBuf>,
        /// What to do.
        hint: String,
    },
    /// Something is there that cannot be started. (`not_executable`)
    #[error("{} cannot be started: {why}; {hint}", path.display())]
    NotExecutable {
        /// What is there.
        path: PathBuf,
        /// What is wrong with it.
        why: String,
        /// What to do.
        hint: String,
    },
    /// A script's interpreter is not there. (`not_executable`)
    #[error("the interpreter {} of the script {} is not there; {hint}", interpreter.display(), script.display())]
    MissingInterpreter {
        /// The script.
        script: PathBuf,
        /// What its first line names: a path, or a name that `env` would look up.
        interpreter: PathBuf,
        /// What to do.
        hint: String,
    },
    /// It would only work with a home folder or a folder of the system. (`refused`)
    #[error(
        "{} needs all of {}, which is too much to show to a program in a sandbox; \
         install it into a folder of its own, or give the folders that it needs with --toolchain DIR",
        program.display(), path.display()
    )]
    TooBroad {
        /// The program, or the part of its chain, that needs it.
        program: PathBuf,
        /// What would have to be mounted.
        path: PathBuf,
    },
    /// Something in the project leads to a part of the host that is not a language's installation. (`refused`)
    #[error(
        "{} in the project leads to {}, which is not a toolchain that hotcell knows; \
         if the project may read it, say so with --toolchain {}",
        from.display(), path.display(), folder.display()
    )]
    Untrusted {
        /// The file in the project.
        from: PathBuf,
        /// Where it leads.
        path: PathBuf,
        /// The folder that would have to be mounted.
        folder: PathBuf,
    },
}

fn among(searched: &[PathBuf]) -> String {
    if searched.is_empty() {
        return String::new();
    }
    let all: Vec<_> = searched.iter().take(8).map(|p| p.display().to_string()).collect();
    let more = if searched.len() > 8 { ", …" } else { "" };
    format!(" (searched {}{more})", all.join(", "))
}

/// Finds `program` as the caller typed it, and what it needs inside.
///
/// A path (with a slash) counts from the current folder, or else from the project; a path below
/// [`crate::policy::PROJECT`] is the project's. A name is looked up in the project's `.venv/bin` and `venv/bin`, the active virtual
/// environment and `PATH`.
///
/// # Errors
/// [`LookupError`], when it is not there, cannot be started, or would need more of the host than a sandbox may see.
pub fn find(program: &OsStr, around: &Surroundings) -> Result<Toolchain, LookupError> {
    finder::find(&files::Host, program, around)
}

/// The same where the project is not a plain folder of the host: `fs` shows what is at its path.
///
/// # Errors
/// As [`find`].
pub fn find_in(fs: &dyn Fs, program: &OsStr, around: &Surroundings) -> Result<Toolchain, LookupError> {
    finder::find(fs, program, around)
}
