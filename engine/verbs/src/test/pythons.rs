//! `--python`: which interpreters the tests of Python run with, each as a suite of its own.

use std::path::{Path, PathBuf};

use hotcell_state::report::{Code, ErrorReport};
use hotcell_toolchain::{self as toolchain, Python, PythonVersion, Surroundings};

/// The option.
const KEY: &str = "python";
/// Maximum number of installed versions that an error names.
const MAX_VERSIONS: usize = 12;

/// An interpreter that was asked for.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Interpreter {
    /// Name as requested.
    pub name: String,
    /// The version that it must say of itself; `None` of a path that tells none.
    pub version: Option<PythonVersion>,
    /// The interpreter; `None` where the environment of the project is of this version, which is found as always.
    pub program: Option<PathBuf>,
}

impl Interpreter {
    /// Whether the interpreter that ran is another one than was asked for, in words.
    #[must_use]
    pub fn contradicts(&self, said: &str) -> Option<String> {
        let asked = self.version.as_ref()?;
        let ran = PythonVersion::read(said)?;
        (!ran.numbers.starts_with(&asked.numbers) && !asked.numbers.starts_with(&ran.numbers))
            .then(|| format!("‹python› asked for {}, and {said} ran", self.name))
    }
}

/// Finds what was asked for among the operator's Pythons. `deps` says that the tests' packages are installed for each of them.
///
/// # Errors
/// A version that is not there, with the nearest that is; a path that leads to no interpreter; one that is named twice; a version for
/// which the project's packages are not installed.
pub fn choose(asked: &[String], around: &Surroundings, deps: bool) -> Result<Vec<Interpreter>, ErrorReport> {
    let mut chosen: Vec<Interpreter> = Vec::new();
    let mut installed: Option<Vec<Python>> = None;
    for name in asked {
        if chosen.iter().any(|other| other.name == *name) {
            return Err(wrong(format!("‹{KEY}› names {name} twice"), "name each once"));
        }
        chosen.push(if name.contains('/') || name.starts_with('.') {
            by_path(name, around)?
        } else {
            by_version(name, around, deps, installed.get_or_insert_with(|| toolchain::pythons(around)))?
        });
    }
    Ok(chosen)
}

fn wrong(why: String, hint: impl Into<String>) -> ErrorReport {
    ErrorReport::new(Code::InvalidValue, why).parameter(KEY).hint(hint)
}

/// An interpreter, or the folder of an environment or installation that has one.
fn by_path(name: &str, around: &Surroundings) -> Result<Interpreter, ErrorReport> {
    let path = around.cwd.join(name);
    let candidates = [path.clone(), path.join("bin/python3"), path.join("bin/python")];
    let Some(program) = candidates.into_iter().find(|file| file.is_file()) else {
        return Err(wrong(
            format!("‹{KEY}={name}›: there is no interpreter"),
            "name an interpreter, or a folder that has bin/python3",
        ));
    };
    let version = toolchain::version_of_program(&program);
    Ok(Interpreter { name: name.to_owned(), version, program: Some(program) })
}

fn by_version(
    name: &str,
    around: &Surroundings,
    deps: bool,
    installed: &[Python],
) -> Result<Interpreter, ErrorReport> {
    let Some(asked) = PythonVersion::read(name) else {
        return Err(wrong(
            format!("‹{KEY}={name}›: that is no version of Python"),
            "versions look like 3.12, 3.12.1 or pypy3.10; a path has a slash in it, as ./venv312",
        ));
    };
    let environment = toolchain::environment(around);
    if !deps
        && let Some((_, Some(version))) =
            environment.as_ref().filter(|(_, version)| version.as_ref().is_some_and(|v| v.is(&asked)))
    {
        let version = Some(version.clone());
        return Ok(Interpreter { name: name.to_owned(), version, program: None });
    }
    let Some(found) = installed.iter().find(|python| python.version.is(&asked)) else {
        return Err(missing(name, &asked, installed));
    };
    if !deps && let Some((folder, version)) = environment {
        let version =
            version.map_or_else(|| "another Python".to_owned(), |version| format!("Python {version}"));
        return Err(wrong(
            format!(
                "‹{KEY}={name}›: the project's packages are installed in {}, which is of {version}, and {} has none of them",
                folder.display(),
                found.program.display()
            ),
            "add ‹deps›, which installs what a lock file names for each Python, or name environments: ‹python=.venv,./venv312›",
        ));
    }
    Ok(Interpreter { name: name.to_owned(), version: Some(asked), program: Some(found.program.clone()) })
}

fn missing(name: &str, asked: &PythonVersion, installed: &[Python]) -> ErrorReport {
    let why =
        format!("‹{KEY}={name}›: there is no such Python on PATH or among those of pyenv, asdf, mise and uv");
    let Some(near) = asked.nearest(installed) else {
        return wrong(
            why,
            format!("there is none at all: install it (`uv python install {name}`, `pyenv install {name}`)"),
        );
    };
    let mut all: Vec<String> = Vec::new();
    for python in installed {
        let version = python.version.to_string();
        if !all.contains(&version) && all.len() < MAX_VERSIONS {
            all.push(version);
        }
    }
    wrong(
        why,
        format!(
            "the nearest is {} ({}); there are {}; install it (`uv python install {name}`, `pyenv install {name}`), or name a path",
            near.version,
            near.program.display(),
            all.join(", ")
        ),
    )
}

/// The interpreters of a list with commas.
///
/// # Errors
/// An entry that is empty.
pub fn listed(text: &str) -> Result<Vec<String>, String> {
    let all: Vec<String> = text.split(',').map(|one| one.trim().to_owned()).collect();
    if all.iter().any(String::is_empty) {
        return Err("name versions or paths with commas between them, as 3.11,3.12".to_owned());
    }
    Ok(all)
}

/// Where a lookup with this interpreter takes place.
#[must_use]
pub fn surroundings(interpreter: Option<&Interpreter>, around: Surroundings) -> Surroundings {
    let python = interpreter.and_then(|interpreter| interpreter.program.as_deref()).map(Path::to_path_buf);
    Surroundings { python, ..around }
}

#[cfg(test)]
mod tests {
    use super::*;
    use std::os::unix::fs::PermissionsExt as _;

    /// Folders of programs and environments as people have them.
    fn home() -> (tempfile::TempDir, Surroundings) {
        let home = tempfile::tempdir().unwrap();
        let at = |path: &str| home.path().join(path);
        for program in [
            "bin/python3.11",
            ".pyenv/versions/3.10.13/bin/python3",
            ".pyenv/versions/3.13.0/bin/python3",
            ".pyenv/versions/3.13.0t/bin/python3",
            ".local/share/uv/python/cpython-3.12.4-linux-x86_64-gnu/bin/python3",
            "p/.venv/bin/python3",
            "p/other/bin/python",
        ] {
            let file = at(program);
            std::fs::create_dir_all(file.parent().unwrap()).unwrap();
            std::fs::write(&file, "").unwrap();
            std::fs::set_permissions(&file, std::fs::Permissions::from_mode(0o755)).unwrap();
        }
        let around = Surroundings {
            path: Some(at("bin").into_os_string()),
            home: Some(home.path().to_owned()),
            project: Some(at("p")),
            cwd: at("p"),
            ..Surroundings::default()
        };
        (home, around)
    }

    fn asked(around: &Surroundings, list: &str, deps: bool) -> Result<Vec<String>, String> {
        let home = around.home.clone().unwrap();
        let show = |one: Interpreter| match one.program {
            Some(program) => program.strip_prefix(&home).unwrap().display().to_string(),
            None => "(its own)".to_owned(),
        };
        choose(&listed(list)?, around, deps)
            .map(|all| all.into_iter().map(show).collect())
            .map_err(|report| format!("{} {}", report.message, report.hint.unwrap_or_default()))
    }

    #[test]
    fn versions_and_paths_lead_to_the_operators_pythons() {
        let (_home, around) = home();
        for (list, want) in [
            ("3.11", Ok(vec!["bin/python3.11"])),
            (
                "3.10,3.12",
                Ok(vec![
                    ".pyenv/versions/3.10.13/bin/python3",
                    ".local/share/uv/python/cpython-3.12.4-linux-x86_64-gnu/bin/python3",
                ]),
            ),
            ("3.13", Ok(vec![".pyenv/versions/3.13.0/bin/python3"])),
            ("3.13t", Ok(vec![".pyenv/versions/3.13.0t/bin/python3"])),
            ("./other", Ok(vec!["p/./other/bin/python"])),
            ("3.14", Err("3.13.0")),
            ("3.14", Err("no such Python")),
            ("3.11,3.11", Err("twice")),
            ("3.11,", Err("commas")),
            ("newest", Err("no version")),
            ("./nothing", Err("no interpreter")),
        ] {
            let got = asked(&around, list, false);
            match want {
                Ok(want) => assert_eq!(got.unwrap(), want, "{list}"),
                Err(part) => assert!(got.as_ref().unwrap_err().contains(part), "{list}: {got:?}"),
            }
        }
    }

    #[test]
    fn project_environment_has_one_python_version() {
        let (home, around) = home();
        std::fs::write(home.path().join("p/.venv/pyvenv.cfg"), "home = /usr/bin\nversion = 3.11.2\n")
            .unwrap();
        for (list, deps, want) in [
            ("3.11", false, Ok(vec!["(its own)"])),
            ("3.11.2", false, Ok(vec!["(its own)"])),
            ("3.13", false, Err("add ‹deps›")),
            ("3.11", true, Ok(vec!["bin/python3.11"])),
            ("3.13", true, Ok(vec![".pyenv/versions/3.13.0/bin/python3"])),
            (".venv", false, Ok(vec!["p/.venv/bin/python3"])),
        ] {
            let got = asked(&around, list, deps);
            match want {
                Ok(want) => assert_eq!(got.unwrap(), want, "{list} {deps}"),
                Err(part) => assert!(got.as_ref().unwrap_err().contains(part), "{list} {deps}: {got:?}"),
            }
        }
    }

    #[test]
    fn python_version_must_match_request() {
        let of = |version: &str| Interpreter {
            name: version.to_owned(),
            version: PythonVersion::read(version),
            program: None,
        };
        for (asked, said, wrong) in [
            ("3.12", "3.12.1", false),
            ("3.12.1", "3.12.1", false),
            ("3.12", "3.11.7", true),
            ("3.12.1", "3.12.3", true),
        ] {
            assert_eq!(of(asked).contradicts(said).is_some(), wrong, "{asked} {said}");
        }
    }
}
