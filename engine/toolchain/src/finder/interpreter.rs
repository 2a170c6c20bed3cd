//! The interpreter of a script, and the one answer for paths that come from a caller's files.

use std::ffi::OsString;
use std::os::unix::ffi::OsStrExt as _;
use std::path::{Path, PathBuf};

use super::refusals::{changed, outside, remake};
use super::{Finder, Via};
use crate::script::{self, Start};
use crate::walk::{self, Dead};
use crate::{Asks, LookupError, place};

impl Finder<'_> {
    /// Whether to hide from a caller the problem with this path, which comes from its own files: the answer
    /// would reveal what the operator has.
    pub(super) fn is_veiled(&self, from: Option<&Path>, said: &Path) -> bool {
        from.is_some()
            && self.around.asks == Asks::Caller
            && !place::always_there(said)
            && self.operator.in_project(said).is_none()
    }

    /// The one answer for all paths that come from a caller's files, unless the path works.
    pub(super) fn veil(
        &self,
        entered: Result<PathBuf, LookupError>,
        from: Option<&Path>,
        said: &Path,
    ) -> Result<(), LookupError> {
        match (entered, from) {
            (Err(_), Some(from)) if self.is_veiled(Some(from), said) => Err(outside(from, said)),
            (Err(error), Some(from)) => Err(match place::environment(self.sight, from) {
                Some(venv) => error.with_hint(&remake(venv)),
                None => error,
            }),
            (entered, _) => entered.map(|_| ()),
        }
    }

    /// Adds the interpreter of a script.
    ///
    /// Returns its path inside and its argument, if the first line has its host path, which does not exist
    /// inside.
    pub(super) fn interpreter(
        &mut self,
        file: &Path,
        real: &Path,
        via: Via,
        depth: usize,
    ) -> Result<Option<(PathBuf, Option<OsString>)>, LookupError> {
        let Some(head) = self.sight.head(real, script::HEAD_LEN) else {
            // The program may be executed but not read.
            return Ok(None);
        };
        let missing = |interpreter: &Path, hint: String| LookupError::MissingInterpreter {
            script: file.to_path_buf(),
            interpreter: interpreter.to_path_buf(),
            hint,
        };
        // The contents of a project's file are the project's; and a person who typed a path has not read the
        // file.
        let start = script::start(&head);
        let is_foreign = start != Start::Binary
            && (self.operator.is_foreign(real) || (via == Via::Typed && !self.operator.is_searched(file)));
        let from = is_foreign.then_some(file);
        let sight = self.sight.led(is_foreign);
        match start {
            Start::Binary => Ok(None),
            Start::Never(why) => Err(LookupError::NotExecutable {
                path: file.to_path_buf(),
                why: why.to_owned(),
                hint: "give it a first line such as #!/bin/sh, or name the program that runs it".to_owned(),
            }),
            Start::By(named) => {
                let interpreter = self.on_the_host(&named);
                let is_absent = walk::chain(sight, &interpreter) == Err(Dead::Absent);
                if is_absent && self.is_veiled(from, &interpreter) {
                    return Err(outside(from.unwrap_or(file), &interpreter));
                }
                if is_absent {
                    let hint = match place::environment(self.sight, file) {
                        Some(venv) => remake(venv),
                        None => "install it, or change the script's first line".to_owned(),
                    };
                    return Err(missing(&interpreter, hint));
                }
                let entered = self.enter(&interpreter, Via::Named, from, depth + 1);
                if !self.layered || self.operator.in_project(&named).is_none() {
                    return self.veil(entered, from, &interpreter).map(|()| None);
                }
                // The kernel would look for the host path; only the requested program itself can be started
                // with an explicit interpreter.
                let inside = entered?;
                if via == Via::Named || !self.arguments.is_empty() {
                    return Err(changed(&named));
                }
                Ok(Some((inside, script::argument(&head))))
            }
            Start::ByEnv { env, name } => {
                if walk::chain(sight, &env) == Err(Dead::Absent) {
                    return Err(missing(&env, "install env, or change the script's first line".to_owned()));
                }
                if name.as_bytes().contains(&b'/') {
                    let entered = self.enter(Path::new(&name), Via::Named, from, depth + 1);
                    return self.veil(entered, from, Path::new(&name)).map(|()| None);
                }
                match self.search(&name, None) {
                    // The search path is the caller's, not the project's.
                    Ok(found) => {
                        self.enter(&found, Via::Searched, None, depth + 1)?;
                        if self.arguments.is_empty() { Ok(None) } else { Err(changed(&found)) }
                    }
                    Err(LookupError::NotFound { .. }) if name.as_bytes().contains(&b' ') => {
                        let hint = "begin it with `#!/usr/bin/env -S` to give arguments";
                        Err(missing(Path::new(&name), hint.to_owned()))
                    }
                    Err(LookupError::NotFound { hint, .. }) => Err(missing(Path::new(&name), hint)),
                    Err(other) => Err(other),
                }
            }
        }
    }
}
