//! Which missing file becomes a rule. Pure, except for questions through [`HostFiles`].

use std::path::{Path, PathBuf};

use hotcell_sandbox::outcome::{FileUse, MissingFile};
use hotcell_sandbox::policy::{HOME, PROJECT};

use crate::protected::{self, Own};

/// A path of the host, as the user's own rights show it.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum Found {
    /// Nothing is there, or it cannot be seen.
    Missing,
    /// A regular file.
    File {
        /// Path without links.
        real: PathBuf,
        /// Size.
        bytes: u64,
        /// Whether this user may read it.
        readable: bool,
    },
    /// A folder.
    Folder {
        /// Path without links.
        real: PathBuf,
        /// Names of its entries, at most some thousand.
        entries: Vec<String>,
    },
    /// A socket, device or pipe.
    Other(PathBuf),
}

/// A view of the host's files.
pub trait HostFiles {
    /// Looks at a path that is not [protected](protected::reason) by its name. Never blocks on what is there.
    fn look(&self, path: &Path) -> Found;
}

/// Decision about a file.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum FileDecision {
    /// The file may be shown, read-only.
    Suggest {
        /// Path on the host, without links.
        host: PathBuf,
        /// Path inside.
        inside: PathBuf,
        /// Size.
        bytes: u64,
    },
    /// The folder may be shown if a person asks for folders.
    Folder {
        /// Path on the host, without links.
        host: PathBuf,
        /// Path inside.
        inside: PathBuf,
        /// Names of its entries.
        entries: Vec<String>,
    },
    /// Nothing is suggested, for this reason.
    Refuse(String),
    /// The file is not on this host either.
    Elsewhere,
}

/// Path on the host that a path inside stands for: one below the home folder inside stands for one below the user's own.
#[must_use]
pub fn on_host(inside: &Path, own: &Own) -> Option<PathBuf> {
    // The project and scratch are the sandbox's own.
    if inside.starts_with(PROJECT) {
        return None;
    }
    match inside.strip_prefix(HOME) {
        Ok(below) if below.as_os_str().is_empty() => None,
        Ok(below) => Some(own.home.as_ref()?.join(below)),
        Err(_) => Some(inside.to_owned()),
    }
}

/// Decides about a file that a program asked for.
#[must_use]
pub fn decide(file: &MissingFile, own: &Own, files: &impl HostFiles) -> FileDecision {
    let refuse = |why: &str| FileDecision::Refuse(why.to_owned());
    let inside = Path::new(&file.path);
    let Some(host) = on_host(inside, own) else { return FileDecision::Elsewhere };
    if let Some(why) = protected::reason(&host, own) {
        return FileDecision::Refuse(format!("never suggested: {why}"));
    }
    let found = files.look(&host);
    let real = match &found {
        Found::Missing => return FileDecision::Elsewhere,
        Found::File { real, .. } | Found::Folder { real, .. } | Found::Other(real) => real,
    };
    // A link may lead to what its own name does not say.
    if let Some(why) = protected::reason(real, own) {
        return FileDecision::Refuse(format!("never suggested: it leads to {why}"));
    }
    if matches!(found, Found::Other(_)) {
        return refuse("never suggested: a socket, device or pipe");
    }
    let is_plain = |path: &Path| {
        path.to_str().is_some_and(|text| !text.contains(':') && !text.chars().any(char::is_control))
    };
    if !is_plain(real) || !is_plain(inside) {
        return refuse("a colon or a control character in its path cannot be written in a rule");
    }
    match file.wanted {
        FileUse::Write => {
            return refuse(
                "it would be written; to let a program write on the host itself, name it with ‹rw›",
            );
        }
        FileUse::Look => {
            return refuse("it was only asked whether the file is there; if it is needed, name it with ‹ro›");
        }
        FileUse::Read => {}
    }
    match found {
        Found::File { readable: false, .. } => refuse("this user may not read it"),
        Found::File { real, bytes, .. } => {
            FileDecision::Suggest { host: real, inside: inside.to_owned(), bytes }
        }
        Found::Folder { real, entries } => {
            FileDecision::Folder { host: real, inside: inside.to_owned(), entries }
        }
        Found::Missing | Found::Other(_) => FileDecision::Elsewhere,
    }
}

#[cfg(test)]
pub(crate) mod tests {
    use std::collections::BTreeMap;

    use super::*;

    /// Files of a made host.
    #[derive(Default)]
    pub struct Made(pub BTreeMap<PathBuf, Found>);

    impl Made {
        pub fn file(mut self, path: &str) -> Self {
            self.0.insert(path.into(), Found::File { real: path.into(), bytes: 5, readable: true });
            self
        }

        pub fn folder(mut self, path: &str, entries: &[&str]) -> Self {
            let entries = entries.iter().map(|name| (*name).to_owned()).collect();
            self.0.insert(path.into(), Found::Folder { real: path.into(), entries });
            self
        }

        pub fn with(mut self, path: &str, found: Found) -> Self {
            self.0.insert(path.into(), found);
            self
        }
    }

    impl HostFiles for Made {
        fn look(&self, path: &Path) -> Found {
            assert_eq!(protected::reason(path, &own()), None, "{} was looked at", path.display());
            self.0.get(path).cloned().unwrap_or(Found::Missing)
        }
    }

    pub fn own() -> Own {
        Own { home: Some("/home/me".into()), hotcell: vec!["/srv/state".into()] }
    }

    pub fn missing(path: &str, wanted: FileUse) -> MissingFile {
        MissingFile { path: path.to_owned(), wanted, count: 1 }
    }

    #[test]
    fn decisions_by_path_use_and_kind() {
        let link = |real: &str| Found::File { real: real.into(), bytes: 1, readable: true };
        let host = Made::default()
            .file("/srv/data/a.csv")
            .file("/home/me/.gitconfig")
            .file("/srv/a:b")
            .with("/srv/link", link("/home/me/.ssh/id_ed25519"))
            .with("/srv/alias", link("/srv/data/a.csv"))
            .with("/srv/locked", Found::File { real: "/srv/locked".into(), bytes: 1, readable: false })
            .with("/srv/pipe", Found::Other("/srv/pipe".into()))
            .folder("/srv/data", &["a.csv"]);
        let suggested = |host: &str, inside: &str| format!("{host} at {inside}");
        for (path, wanted, want) in [
            ("/srv/data/a.csv", FileUse::Read, suggested("/srv/data/a.csv", "/srv/data/a.csv")),
            ("/srv/alias", FileUse::Read, suggested("/srv/data/a.csv", "/srv/alias")),
            (
                "/home/sandbox/.gitconfig",
                FileUse::Read,
                suggested("/home/me/.gitconfig", "/home/sandbox/.gitconfig"),
            ),
            ("/srv/data/a.csv", FileUse::Write, "refused".to_owned()),
            ("/srv/data/a.csv", FileUse::Look, "refused".to_owned()),
            ("/srv/a:b", FileUse::Read, "refused".to_owned()),
            ("/srv/link", FileUse::Read, "refused".to_owned()),
            ("/srv/locked", FileUse::Read, "refused".to_owned()),
            ("/srv/pipe", FileUse::Read, "refused".to_owned()),
            ("/home/sandbox/.ssh/id_ed25519", FileUse::Read, "refused".to_owned()),
            ("/home/me/.ssh/id_ed25519", FileUse::Read, "refused".to_owned()),
            ("/proc/1/environ", FileUse::Read, "refused".to_owned()),
            ("/run/docker.sock", FileUse::Read, "refused".to_owned()),
            ("/srv/state/hotcell.db", FileUse::Read, "refused".to_owned()),
            ("/srv/data", FileUse::Read, "folder".to_owned()),
            ("/srv/nothing", FileUse::Read, "elsewhere".to_owned()),
            ("/home/sandbox/project/x", FileUse::Read, "elsewhere".to_owned()),
        ] {
            let got = match decide(&missing(path, wanted), &own(), &host) {
                FileDecision::Suggest { host, inside, .. } => {
                    suggested(&host.to_string_lossy(), &inside.to_string_lossy())
                }
                FileDecision::Folder { .. } => "folder".to_owned(),
                FileDecision::Refuse(_) => "refused".to_owned(),
                FileDecision::Elsewhere => "elsewhere".to_owned(),
            };
            assert_eq!(got, want, "{path} {wanted:?}");
        }
    }
}
