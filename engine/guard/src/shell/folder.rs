//! The folder that a script is in, and what its commands name there.

use super::Shell;
use crate::rules::{is_of_an_image, is_root_like};
use crate::value::Value;

/// Maximum length, in bytes, of a folder's path that is kept.
const MAX_PATH_BYTES: usize = 1024;

impl Shell<'_, '_> {
    /// Follows a change of the folder; one that is not constant is not known afterwards.
    pub(super) fn enters(&mut self, name: &str, argv: &[Value]) {
        let mut words = argv
            .iter()
            .skip(1)
            .filter(|word| word.as_text().is_none_or(|text| text == "-" || !text.starts_with('-')));
        self.folder = match (name, words.next()) {
            ("cd" | "chdir", None) => Some(self.variable("HOME")),
            ("cd" | "chdir" | "pushd", Some(word)) => {
                let before = self.folder.as_ref().and_then(Value::as_whole_text);
                word.as_whole_text()
                    .and_then(|to| joined(before, to))
                    .map(|path| Value::text(&path).with_origin(word.origin))
            }
            ("pushd" | "popd", _) => None,
            _ => return,
        };
    }

    /// Arguments of a command that deletes or opens up files, with those that name something of the system from
    /// the folder of the script as absolute paths; `None` without such.
    pub(super) fn placed(&self, name: &str, argv: &[Value]) -> Option<Vec<Value>> {
        let folder = self.folder.as_ref()?.as_whole_text()?;
        if !matches!(
            name,
            "rm" | "shred" | "unlink" | "srm" | "wipe" | "find" | "fd" | "chmod" | "chown" | "mv" | "rsync"
        ) {
            return None;
        }
        let mut args = argv.get(1..)?.to_vec();
        let mut changed = false;
        // Of `find` the words behind an option are tests.
        let starts = if matches!(name, "find" | "fd") {
            args.iter().take_while(|arg| arg.as_text().is_some_and(|text| !text.starts_with('-'))).count()
        } else {
            args.len()
        };
        for arg in args.iter_mut().take(starts) {
            let Some(text) = arg.as_whole_text().filter(|text| !text.starts_with(['-', '/', '~', '$']))
            else {
                continue;
            };
            let Some(path) = joined(Some(folder), text).filter(|path| is_named(path)) else { continue };
            *arg = Value::text(&path).with_origin(arg.origin);
            changed = true;
        }
        changed.then_some(args)
    }
}

/// True for what must not be deleted, other than a file or folder below the root that no system has.
fn is_named(path: &str) -> bool {
    let is_own = !path.contains(['*', '?']) && path.matches('/').count() == 1 && is_of_an_image(path);
    is_root_like(path) && !is_own
}

/// A path seen from a folder, without `.` and `..`; `None` when it is not known.
fn joined(folder: Option<&str>, path: &str) -> Option<String> {
    if path.is_empty() || path == "-" || path.starts_with('+') || path.len() > MAX_PATH_BYTES {
        return None;
    }
    let whole = match (path.starts_with(['/', '~']), folder) {
        (true, _) => path.to_owned(),
        (false, Some(folder)) if folder.len() <= MAX_PATH_BYTES => format!("{folder}/{path}"),
        (false, _) => return None,
    };
    let mut parts: Vec<&str> = Vec::new();
    for part in whole.split('/') {
        match part {
            "" | "." => {}
            // Of the home folder the one above is not known.
            ".." if parts.last().is_some_and(|last| last.starts_with('~')) => return None,
            ".." => drop(parts.pop()),
            part => parts.push(part),
        }
    }
    let start = if whole.starts_with('~') { "" } else { "/" };
    Some(format!("{start}{}", parts.join("/")))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn paths_are_seen_from_a_folder() {
        for (folder, path, want) in [
            (Some("/"), "*", Some("/*")),
            (Some("/"), "./*", Some("/*")),
            (Some("/home"), ".", Some("/home")),
            (Some("/usr/src"), "../lib", Some("/usr/lib")),
            (Some("/usr"), "../../..", Some("/")),
            (Some("~"), "*", Some("~/*")),
            (Some("~"), "..", None),
            (None, "x", None),
            (None, "/x/./y//z", Some("/x/y/z")),
            (Some("/x"), "-", None),
        ] {
            assert_eq!(joined(folder, path).as_deref(), want, "{folder:?} {path}");
        }
    }

    #[test]
    fn only_what_belongs_to_a_system_is_named() {
        for path in ["/*", "/etc", "/usr/lib", "~/*", "/home", "/home/ann/*"] {
            assert!(is_named(path), "{path}");
        }
        for path in ["/install.sh", "/tmp/x", "/srv/x/*", "/opt/x/y", "/build", "/app/*", "~/x"] {
            assert!(!is_named(path), "{path}");
        }
    }
}
