//! The search for a program by its name, and reasons why a file cannot be executed.

use std::ffi::OsStr;
use std::os::unix::ffi::OsStrExt as _;
use std::path::{Path, PathBuf};

use super::Finder;
use super::refusals::{install_hint, outside, remake};
use crate::LookupError;
use crate::files::Kind;
use crate::operator::USUAL_PATH;
use crate::place;
use crate::sight::{Seen, Sight};
use crate::walk::{self, Dead, Hop};

/// Maximum length in bytes of a name for which similar names are searched.
const MAX_NAME_LEN: usize = 64;
/// Maximum number of edits between a misspelt name and its correction.
const MAX_EDITS: usize = 2;

impl Finder<'_> {
    /// Looks a name up as the caller's shell would, but skips the folder `without`.
    pub(super) fn search(&self, name: &OsStr, without: Option<&Path>) -> Result<PathBuf, LookupError> {
        let mut environments: Vec<PathBuf> = Vec::new();
        if let Some((named, _)) = &self.project {
            environments.extend([named.join(".venv"), named.join("venv")]);
        }
        environments.extend(self.around.virtual_env.iter().map(|v| self.around.cwd.join(v)));
        let mut elsewhere = None;
        environments.retain(|v| match walk::chain(self.sight, &v.join("pyvenv.cfg")) {
            Err(Dead::Barred(path)) => {
                elsewhere.get_or_insert_with(|| (v.clone(), path));
                false
            }
            Err(_) => false,
            Ok(_) => place::is_venv(self.sight, v),
        });
        let mut folders: Vec<PathBuf> = environments.iter().map(|v| v.join("bin")).collect();
        let path = self.around.path.as_deref().unwrap_or(OsStr::new(USUAL_PATH));
        folders.extend(std::env::split_paths(path).map(|p| self.around.cwd.join(p)));
        let mut searched: Vec<PathBuf> = Vec::new();
        for folder in folders {
            let folder = self.settle(self.sight, &folder);
            if Some(folder.as_path()) != without && !searched.contains(&folder) {
                searched.push(folder);
            }
        }
        let mut passed_over = None;
        for folder in &searched {
            let file = folder.join(name);
            let in_environment = folder.parent().is_some_and(|v| environments.iter().any(|e| e == v));
            match walk::chain(self.sight, &file) {
                // Others may have put it there: it is passed over, as a shell would where it is not there.
                Ok(hops) if hops.iter().any(|hop| self.operator.is_planted(&hop.path)) => {}
                Ok(_) => match walk::look(self.sight, &file) {
                    Some(Kind::File { executable: true, .. }) => match elsewhere {
                        // Otherwise another Python would start than the one that was set up for the project.
                        Some((venv, path)) if !place::always_there(&file) || is_python(name) => {
                            return Err(outside(&venv, &path));
                        }
                        _ => return Ok(file),
                    },
                    Some(Kind::File { .. }) => passed_over = passed_over.or(Some(file)),
                    _ => {}
                },
                Err(Dead::Absent) => {}
                // A shell would continue the search and start another Python than the one set up here.
                Err(dead) if in_environment => return Err(self.dead(&file, &dead, None)),
                Err(_) => passed_over = passed_over.or(Some(file)),
            }
        }
        if let Some((venv, path)) = elsewhere {
            return Err(outside(&venv, &path));
        }
        if let Some(file) = passed_over {
            // Reports the problem with the file.
            self.executable(self.sight, &file, None)?;
        }
        let near = self.similar(self.sight, name, searched.iter().cloned());
        Err(LookupError::NotFound { program: name.into(), hint: install_hint(name, near), searched })
    }

    /// A name in these folders that resembles `name`.
    pub(super) fn similar(
        &self,
        sight: Sight<'_>,
        name: &OsStr,
        folders: impl Iterator<Item = PathBuf>,
    ) -> Option<String> {
        // A name of that length is not a typo, and comparing takes time with its length.
        let name = Path::new(name).file_name()?.to_str().filter(|name| name.len() <= MAX_NAME_LEN)?;
        let close = |other: &String| strsim::damerau_levenshtein(name, other);
        let as_long = |other: &String| other.len().abs_diff(name.len()) <= MAX_EDITS * char::MAX.len_utf8();
        folders
            .filter_map(|f| walk::real(sight, &f))
            .flat_map(|f| sight.names(&f))
            .filter_map(|n| n.into_string().ok())
            .filter(as_long)
            // Two edits of a short name make another word of it.
            .filter(|n| (1..=(name.len() / 3).clamp(1, MAX_EDITS)).contains(&close(n)))
            .min_by_key(close)
    }

    /// Follows every name of an executable file.
    pub(super) fn executable(
        &self,
        sight: Sight<'_>,
        file: &Path,
        from: Option<&Path>,
    ) -> Result<Vec<Hop>, LookupError> {
        let hops = walk::chain(sight, file).map_err(|dead| self.dead(file, &dead, from))?;
        let not =
            |why: &str, hint: String| LookupError::NotExecutable { path: file.into(), why: why.into(), hint };
        match hops.last().map(|h| self.sight.look(&h.path)) {
            Some(Seen::There(Kind::File { executable: true, .. })) => Ok(hops),
            Some(Seen::There(Kind::File { .. })) => {
                Err(not("it may not be executed", format!("run `chmod +x {}`", file.display())))
            }
            Some(Seen::There(Kind::Folder)) => Err(not("it is a folder", "name a program in it".to_owned())),
            _ => Err(not("it is not a regular file", "name a program".to_owned())),
        }
    }

    pub(super) fn dead(&self, file: &Path, dead: &Dead, from: Option<&Path>) -> LookupError {
        let path = file.to_path_buf();
        let environment = place::environment(self.sight.led(from.is_some()), file);
        match dead {
            Dead::Barred(to) => outside(from.unwrap_or(file), to),
            Dead::Dangling(to) if self.is_veiled(self.operator.in_project(file).map(|_| file), to) => {
                outside(file, to)
            }
            Dead::Absent => LookupError::NotFound {
                program: path,
                searched: Vec::new(),
                hint: "check the path".to_owned(),
            },
            Dead::Loop => LookupError::NotExecutable {
                path,
                why: "its links lead round in a circle".to_owned(),
                hint: "remove the link and install the program again".to_owned(),
            },
            Dead::Dangling(to) => LookupError::NotExecutable {
                path,
                why: format!(
                    "it is a link to {}, which is not there, or which this user may not see",
                    to.display()
                ),
                hint: match environment {
                    Some(venv) => remake(venv),
                    None => "remove the link and install the program again".to_owned(),
                },
            },
        }
    }
}

/// Whether a name is one of those of a Python interpreter, which every virtual environment has.
fn is_python(name: &OsStr) -> bool {
    ["python", "pip"].iter().any(|begin| name.as_bytes().starts_with(begin.as_bytes()))
}
