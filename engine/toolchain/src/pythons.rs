//! Which Pythons the operator has, by version: those on `PATH` and those of version managers, found by their names. Nothing is started.

use std::ffi::{OsStr, OsString};
use std::fmt;
use std::path::{Path, PathBuf};

use super::files::{Fs, Kind};
use super::operator::{self, Operator};
use super::sight::{Seen, Sight};
use super::{Surroundings, files, place, walk};

/// Maximum number of components of a version.
const MAX_VERSION_NUMBERS: usize = 4;

/// A version of Python as a person writes it: `3.12`, `3.12.1`, `3.13t`, `pypy3.10`.
#[derive(Clone, Debug, PartialEq, Eq, PartialOrd, Ord)]
pub struct PythonVersion {
    /// `cpython`, `pypy` or another implementation's name.
    pub implementation: String,
    /// Numbers, of which the last may be missing.
    pub numbers: Vec<u32>,
    /// Built without the global lock: `3.13t`.
    pub free_threaded: bool,
}

impl PythonVersion {
    /// Reads `3.12`, `3.12.1`, `3.13t`, `python3.12`, `pypy3.10`, `cpython-3.12.1-linux-x86_64-gnu`; `None` for anything else.
    #[must_use]
    pub fn read(text: &str) -> Option<Self> {
        let digits = text.find(|c: char| c.is_ascii_digit())?;
        let (name, rest) = text.split_at(digits);
        let name = name.trim_end_matches('-').to_ascii_lowercase();
        if !name.bytes().all(|b| b.is_ascii_lowercase()) {
            return None;
        }
        let implementation = if name.is_empty() || name == "python" { "cpython".to_owned() } else { name };
        let end = rest.find(|c: char| !c.is_ascii_digit() && c != '.').unwrap_or(rest.len());
        let (numbers, behind) = rest.split_at(end);
        let numbers: Option<Vec<u32>> = numbers.split('.').map(|n| n.parse().ok()).collect();
        let numbers = numbers.filter(|all| all.len() <= MAX_VERSION_NUMBERS)?;
        let (free_threaded, behind) =
            match behind.strip_prefix('t').or_else(|| behind.strip_prefix("+freethreaded")) {
                Some(behind) => (true, behind),
                None => (false, behind),
            };
        // After a dash comes the name of the machine, or the version of PyPy itself.
        (behind.is_empty() || behind.starts_with('-')).then_some(Self {
            implementation,
            numbers,
            free_threaded,
        })
    }

    /// Whether this one is meant by `asked`, which may leave the last numbers out.
    #[must_use]
    pub fn is(&self, asked: &Self) -> bool {
        self.implementation == asked.implementation
            && self.free_threaded == asked.free_threaded
            && self.numbers.starts_with(&asked.numbers)
    }

    /// How far away another version is: smaller is nearer.
    fn distance(&self, other: &Self) -> (bool, Vec<u32>) {
        let number = |version: &Self, at: usize| version.numbers.get(at).copied().unwrap_or(0);
        let apart = (0..MAX_VERSION_NUMBERS).map(|at| number(self, at).abs_diff(number(other, at))).collect();
        (self.implementation != other.implementation || self.free_threaded != other.free_threaded, apart)
    }

    /// The nearest one to this.
    #[must_use]
    pub fn nearest<'a>(&self, others: impl IntoIterator<Item = &'a Python>) -> Option<&'a Python> {
        others.into_iter().min_by_key(|other| self.distance(&other.version))
    }
}

impl fmt::Display for PythonVersion {
    fn fmt(&self, out: &mut fmt::Formatter<'_>) -> fmt::Result {
        if self.implementation != "cpython" {
            out.write_str(&self.implementation)?;
        }
        let numbers: Vec<String> = self.numbers.iter().map(u32::to_string).collect();
        write!(out, "{}{}", numbers.join("."), if self.free_threaded { "t" } else { "" })
    }
}

/// One of the operator's Pythons.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Python {
    /// As far as its names tell it.
    pub version: PythonVersion,
    /// The interpreter on the host, absolute.
    pub program: PathBuf,
}

/// The operator's Pythons: those of `PATH` in its order, with a version manager's in place of its shims, and
/// then those of version managers, the newest first. Virtual environments are left out: they are projects'.
#[must_use]
pub fn pythons(around: &Surroundings) -> Vec<Python> {
    pythons_in(&files::Host, around)
}

/// [`pythons`] on any file system.
pub(super) fn pythons_in(fs: &dyn Fs, around: &Surroundings) -> Vec<Python> {
    let operator = Operator::new(fs, around, OsStr::new(""));
    let sight = operator.sight();
    let mut found: Vec<Python> = Vec::new();
    let mut add = |python: Python| {
        if !operator.is_foreign(&python.program) && !found.iter().any(|known| known.program == python.program)
        {
            found.push(python);
        }
    };
    let path = around.path.as_deref().unwrap_or(OsStr::new(operator::USUAL_PATH));
    for folder in std::env::split_paths(path).filter(|folder| folder.is_absolute()) {
        let folder = walk::normal(&folder);
        if folder.ends_with("shims") {
            let root = folder.parent().unwrap_or(&folder);
            of_manager(sight, &root.join("versions")).into_iter().for_each(&mut add);
            of_manager(sight, &root.join("installs/python")).into_iter().for_each(&mut add);
        } else if !folder.parent().is_some_and(|parent| place::is_venv(sight, parent)) {
            of_folder(sight, &folder).into_iter().for_each(&mut add);
        }
    }
    for folder in operator::of_pythons(around) {
        of_manager(sight, &folder).into_iter().for_each(&mut add);
    }
    found
}

/// The version of the environment that a lookup of `python3` would take, and its folder: the project's `.venv` or `venv`, or the active
/// one. By its `pyvenv.cfg`, which is the project's word.
#[must_use]
pub fn environment(around: &Surroundings) -> Option<(PathBuf, Option<PythonVersion>)> {
    let operator = Operator::new(&files::Host, around, OsStr::new(""));
    let sight = operator.sight();
    let project = operator.bounds.project.first();
    let own = project.into_iter().flat_map(|project| [project.join(".venv"), project.join("venv")]);
    let active = around.virtual_env.iter().map(|folder| around.cwd.join(folder));
    let folder = own.chain(active).find(|folder| place::is_venv(sight, folder))?;
    let version = version_of(sight, &folder);
    Some((folder, version))
}

/// The version that an environment's `pyvenv.cfg` says.
fn version_of(sight: Sight<'_>, environment: &Path) -> Option<PythonVersion> {
    let text = sight.own_text(&environment.join("pyvenv.cfg"))?;
    let value = ["version", "version_info"].into_iter().find_map(|key| place::setting(&text, key))?;
    let numbers: Vec<&str> = value.split('.').take(3).collect();
    PythonVersion::read(&numbers.join("."))
}

/// The version of the installation or environment that an interpreter lies in, where its name or that of its folder tells it.
#[must_use]
pub fn version_of_program(program: &Path) -> Option<PythonVersion> {
    let around = Surroundings { cwd: "/".into(), ..Surroundings::default() };
    let operator = Operator::new(&files::Host, &around, OsStr::new(""));
    let folder = program.parent()?.parent()?;
    let of_name =
        |path: &Path| PythonVersion::read(path.file_name()?.to_str()?).filter(|v| v.numbers.len() > 1);
    version_of(operator.sight(), folder)
        .or_else(|| of_name(folder))
        .or_else(|| of_name(program))
        .or_else(|| of_name(&walk::real(operator.sight(), program)?))
}

/// Pythons in a folder of programs: `python3.12`, and `python3` where it is a link to such a name.
fn of_folder(sight: Sight<'_>, folder: &Path) -> Vec<Python> {
    let Some(real) = walk::real(sight, folder) else { return Vec::new() };
    let text = |name: OsString| name.into_string().ok();
    let names: Vec<String> = sight.names(&real).into_iter().filter_map(text).collect();
    let versioned = |name: &str| {
        (name.starts_with("python3.") || name.starts_with("pypy3."))
            .then(|| PythonVersion::read(name))
            .flatten()
            .filter(|version| version.numbers.len() > 1)
    };
    let mut found: Vec<Python> = names
        .iter()
        .filter(|name| !name.contains('-') && runs(sight, &folder.join(name)))
        .filter_map(|name| Some(Python { version: versioned(name)?, program: folder.join(name) }))
        .collect();
    if names.iter().any(|name| name == "python3") {
        let program = folder.join("python3");
        let name = walk::real(sight, &program).and_then(|real| text(real.file_name()?.to_owned()));
        if let Some(version) = name.as_deref().and_then(versioned)
            && !found.iter().any(|known| known.version == version)
        {
            found.push(Python { version, program });
        }
    }
    found
}

/// Pythons of a version manager: `VERSION/bin/python3`, the newest first.
fn of_manager(sight: Sight<'_>, folder: &Path) -> Vec<Python> {
    let Some(real) = walk::real(sight, folder) else { return Vec::new() };
    let mut found: Vec<Python> = sight
        .names(&real)
        .into_iter()
        .filter_map(|name| {
            let version = PythonVersion::read(name.to_str()?).filter(|version| version.numbers.len() > 1)?;
            let bin = folder.join(&name).join("bin");
            let program =
                ["python3", "python"].iter().map(|name| bin.join(name)).find(|file| runs(sight, file))?;
            (!place::is_venv(sight, &folder.join(&name))).then_some(Python { version, program })
        })
        .collect();
    found.sort_by(|a, b| b.version.cmp(&a.version));
    found
}

fn runs(sight: Sight<'_>, file: &Path) -> bool {
    let real = walk::real(sight, file);
    real.is_some_and(|real| matches!(sight.look(&real), Seen::There(Kind::File { executable: true, .. })))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn versions_as_people_and_managers_write_them() {
        for (text, want) in [
            ("3.12", Some("3.12")),
            ("3.12.1", Some("3.12.1")),
            ("python3.12", Some("3.12")),
            ("cpython-3.12.1-linux-x86_64-gnu", Some("3.12.1")),
            ("cpython-3.14.0+freethreaded-linux-x86_64-gnu", Some("3.14.0t")),
            ("3.13t", Some("3.13t")),
            ("pypy3.10-7.3.15", Some("pypy3.10")),
            ("pypy-3.10", Some("pypy3.10")),
            ("3", Some("3")),
            ("3.x", None),
            ("3.", None),
            ("latest", None),
            ("", None),
            ("3.12 ", None),
            ("99999999999.1", None),
            ("a/b3.12", None),
        ] {
            assert_eq!(PythonVersion::read(text).map(|v| v.to_string()).as_deref(), want, "{text}");
        }
    }

    #[test]
    fn python_version_may_be_partial_and_nearest_named() {
        let read = |text: &str| PythonVersion::read(text).unwrap();
        for (there, asked, is) in [
            ("3.12.1", "3.12", true),
            ("3.12", "3.12.1", false),
            ("3.1.2", "3.12", false),
            ("3.13.0t", "3.13", false),
            ("3.13.0t", "3.13t", true),
            ("pypy3.10", "3.10", false),
        ] {
            assert_eq!(read(there).is(&read(asked)), is, "{there} {asked}");
        }
        let all: Vec<Python> = ["3.8.18", "3.10.13", "3.13.0", "pypy3.14"]
            .map(|v| Python { version: read(v), program: v.into() })
            .into();
        for (asked, want) in
            [("3.14", "3.13.0"), ("3.9", "3.10.13"), ("2.7", "3.8.18"), ("pypy3.10", "pypy3.14")]
        {
            assert_eq!(read(asked).nearest(&all).unwrap().version.to_string(), want, "{asked}");
        }
    }
}
