//! The folder of the result: new or empty, checked before a model is asked and again before it is written.

use std::fs;
use std::io::ErrorKind;
use std::path::Path;

use hotcell_state::report::{Code, ErrorReport};

use crate::bench::Bench;

/// Checks that a result can be written to a folder: it does not exist and the folder above it does, or it is empty.
///
/// # Errors
/// A report that says what is there.
pub fn check(to: &Path) -> Result<(), ErrorReport> {
    let bad = |why: String| {
        let why = format!("the folder {} {why}", to.display());
        ErrorReport::new(Code::InvalidValue, why).field("--out").hint("name a new or empty folder")
    };
    match fs::symlink_metadata(to) {
        Err(e) if e.kind() == ErrorKind::NotFound => match to.parent() {
            Some(above) if above.is_dir() => Ok(()),
            _ => Err(bad("is in a folder that does not exist".to_owned())),
        },
        Err(e) => Err(bad(format!("cannot be looked at: {e}"))),
        Ok(kind) if !kind.is_dir() => Err(bad("is not a folder".to_owned())),
        Ok(_) => match fs::read_dir(to).map(|mut all| all.next().is_none()) {
            Ok(true) => Ok(()),
            Ok(false) => Err(bad("is not empty".to_owned())),
            Err(e) => Err(bad(format!("cannot be read: {e}"))),
        },
    }
}

/// Writes an artifact to a new or empty folder.
///
/// # Errors
/// As of [`check`], and a report when it cannot be written.
pub fn write(bench: &Bench, (workspace, artifact): (&str, usize), to: &Path) -> Result<(), ErrorReport> {
    check(to)?;
    // A folder that was missing has to be ours: an entry that another user put there meanwhile may be a link.
    if fs::symlink_metadata(to).is_err() {
        fs::create_dir(to).map_err(|e| {
            let why = format!("the folder {} cannot be made: {e}", to.display());
            ErrorReport::new(Code::InvalidValue, why).field("--out")
        })?;
    }
    bench.write_out(workspace, artifact, to)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn results_go_to_new_or_empty_folders_only() {
        let dir = tempfile::tempdir().unwrap();
        let at = |name: &str| dir.path().join(name);
        fs::create_dir(at("empty")).unwrap();
        fs::create_dir_all(at("full/x")).unwrap();
        fs::write(at("file"), "x").unwrap();
        std::os::unix::fs::symlink(at("empty"), at("link")).unwrap();
        for (name, why) in [
            ("new", None),
            ("empty", None),
            ("full", Some("is not empty")),
            ("file", Some("is not a folder")),
            ("link", Some("is not a folder")),
            ("none/new", Some("does not exist")),
        ] {
            let error = check(&at(name)).err().map(|e| e.to_string());
            assert_eq!(error.is_some(), why.is_some(), "{name}");
            assert!(why.is_none_or(|why| error.unwrap().contains(why)), "{name}");
        }
    }
}
