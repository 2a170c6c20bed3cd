//! Host folders that a caller's workspace may be made over or committed to: those that the operator's own
//! configuration names, including subfolders. Anything not named is forbidden.

use std::path::{Path, PathBuf};

use hotcell_config::McpSettings;
use hotcell_state::report::{Code, ErrorReport};

/// Folders that the operator allows.
#[derive(Clone, Debug, Default)]
pub struct Folders {
    readable: Vec<PathBuf>,
    writable: Vec<PathBuf>,
    /// The service's own state folder, which is never allowed.
    state: PathBuf,
}

impl Folders {
    /// Reads the operator's configuration. A missing folder allows nothing.
    #[must_use]
    pub fn of(settings: &McpSettings, state: &Path) -> Self {
        let real = |folders: &[PathBuf]| folders.iter().filter_map(|f| f.canonicalize().ok()).collect();
        let mut readable: Vec<PathBuf> = real(&settings.folders);
        let writable: Vec<PathBuf> = real(&settings.commit);
        readable.extend(writable.iter().cloned());
        Self { readable, writable, state: state.to_owned() }
    }

    /// Resolves a folder that a workspace may be made over into a path without links.
    ///
    /// # Errors
    /// One and the same report for a folder that does not exist and one that is not allowed.
    pub fn readable(&self, folder: &str) -> Result<PathBuf, ErrorReport> {
        let real = Path::new(folder).canonicalize().ok().filter(|_| Path::new(folder).is_absolute());
        real.filter(|real| real.is_dir() && self.allows(&self.readable, real)).ok_or_else(|| {
            ErrorReport::new(Code::InvalidValue, format!("the folder {folder:?} is not one that the operator allows"))
                .field("folder")
                .hint("the operator names folders as mcp.folders or mcp.commit in hotcell's configuration; without folder a workspace begins empty")
        })
    }

    /// Checks that a workspace over this folder may still be used.
    ///
    /// # Errors
    /// A report when the folder is no longer allowed.
    pub fn still_readable(&self, folder: &Path) -> Result<(), ErrorReport> {
        self.still(
            &self.readable,
            folder,
            "this workspace's folder is not one that the operator allows any more",
        )
    }

    /// Checks that a workspace may be committed to its folder.
    ///
    /// # Errors
    /// A report when this is not allowed.
    pub fn writable(&self, folder: &Path) -> Result<(), ErrorReport> {
        self.still(&self.writable, folder, "the operator does not allow a commit to this workspace's folder")
    }

    fn still(&self, roots: &[PathBuf], folder: &Path, why: &str) -> Result<(), ErrorReport> {
        // Another process may have replaced it by a link.
        if folder.canonicalize().is_ok_and(|real| real == folder && self.allows(roots, &real)) {
            return Ok(());
        }
        Err(ErrorReport::new(Code::InvalidValue, why).field("workspace_id").hint(
            "the operator names such folders as mcp.commit in hotcell's configuration; a person can commit with \
             hotcell workspace commit, and workspace_diff shows the changes",
        ))
    }

    fn allows(&self, roots: &[PathBuf], real: &Path) -> bool {
        let state = !self.state.as_os_str().is_empty()
            && (real.starts_with(&self.state) || self.state.starts_with(real));
        !state && roots.iter().any(|root| real.starts_with(root))
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn allowed_folders_are_those_of_operator() {
        let dir = tempfile::tempdir().unwrap();
        let root = dir.path().canonicalize().unwrap();
        let at = |name: &str| root.join(name);
        for folder in ["read/in", "write/in", "other", "state"] {
            std::fs::create_dir_all(at(folder)).unwrap();
        }
        std::fs::write(at("read/file"), "").unwrap();
        std::os::unix::fs::symlink(at("other"), at("read/link")).unwrap();
        let named = |folders: &[&str], commit: &[&str]| {
            let all = |names: &[&str]| names.iter().map(|n| at(n)).collect();
            Folders::of(
                &McpSettings { folders: all(folders), commit: all(commit), ..McpSettings::default() },
                &at("state"),
            )
        };
        let folders = named(&["read", "nowhere"], &["write"]);
        let may = |folders: &Folders, name: &str| {
            let path = at(name);
            (folders.readable(path.to_str().unwrap()).is_ok(), folders.writable(&path).is_ok())
        };
        for (name, want) in [
            ("read", (true, false)),
            ("read/in", (true, false)),
            ("read/in/../in", (true, false)),
            ("write", (true, true)),
            ("write/in", (true, true)),
            ("other", (false, false)),
            ("read/../other", (false, false)),
            ("read/link", (false, false)),
            ("read/file", (false, false)),
            ("nowhere", (false, false)),
            ("", (false, false)),
        ] {
            assert_eq!(may(&folders, name), want, "{name}");
        }
        assert!(folders.readable("read").is_err(), "a relative path means nothing");
        assert_eq!(may(&named(&[], &[]), "read"), (false, false));
        // Neither the state folder nor a folder that contains it.
        assert_eq!(may(&named(&[], &[""]), ""), (false, false));
        assert_eq!(may(&named(&[], &[""]), "state"), (false, false));
        assert_eq!(may(&named(&[], &[""]), "other"), (true, true));
        // Later replaced by a link.
        assert!(folders.writable(&at("write/in")).is_ok());
        std::fs::remove_dir(at("write/in")).unwrap();
        std::os::unix::fs::symlink(at("other"), at("write/in")).unwrap();
        assert!(folders.writable(&at("write/in")).is_err());
    }
}
