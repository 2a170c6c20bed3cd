//! `image build`: finds the definition, and reports errors.

use std::ffi::OsStr;
use std::os::unix::ffi::OsStrExt;
use std::path::Path;

use hotcell_images::build::{self, BuildError, Built};
use hotcell_images::debian::apt::AptError;
use hotcell_images::debian::layer::DebianError;
use hotcell_images::pypi::PypiError;
use hotcell_images::{Definition, DefinitionError, Store};
use hotcell_state::report::{Code, ErrorReport};

use crate::images;

/// Finds the requested definition: a built-in one by its name, a file by a path with a slash or with `.toml`
/// at its end.
///
/// # Errors
/// A report with the nearest name, or with the line of the file.
pub fn definition(named: &OsStr, cwd: &Path) -> Result<Definition, ErrorReport> {
    let is_path = named.as_bytes().contains(&b'/') || named.as_bytes().ends_with(b".toml");
    let found = match is_path {
        true => Definition::from_file(&cwd.join(named)).map_err(DefinitionError::File),
        false => Definition::named(&named.to_string_lossy()),
    };
    found.map_err(|error| match &error {
        // Its words name the nearest one, or all.
        DefinitionError::Unknown { .. } => ErrorReport::new(Code::UnknownName, error.to_string()),
        DefinitionError::File(file) => {
            let report = ErrorReport::new(Code::Configuration, error.to_string());
            match &file.key {
                Some(key) => report.field(key),
                None => report,
            }
        }
    })
}

/// Builds the image of a definition; `progress` is called with one line at a time.
///
/// # Errors
/// A report when the definition is invalid, or its sources cannot be used.
pub fn build(
    store: &Store,
    named: &OsStr,
    cwd: &Path,
    progress: &mut (dyn FnMut(&str) + Send),
) -> Result<Built, ErrorReport> {
    let definition = definition(named, cwd)?;
    build::build(store, &definition, &named.to_string_lossy(), progress).map_err(|e| report(&e))
}

fn report(error: &BuildError) -> ErrorReport {
    let code = match error {
        BuildError::Store(error) => return images::report(error),
        BuildError::Apt(AptError::Suite(_))
        | BuildError::Debian(DebianError::Link { .. } | DebianError::Path { .. })
        | BuildError::Pypi(PypiError::NoPython | PypiError::Digest { .. })
        | BuildError::Language(_) => Code::InvalidValue,
        _ => Code::Internal,
    };
    ErrorReport::new(code, error.to_string())
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn image_definition_is_built_in_name_or_file() {
        let dir = tempfile::tempdir().unwrap();
        std::fs::write(dir.path().join("mine.toml"), "[debian]\npackages = [\"dash\"]\n").unwrap();
        std::fs::write(dir.path().join("bad"), "[debian]\npackage = []\n").unwrap();
        let get = |named: &str| definition(OsStr::new(named), dir.path());
        assert_eq!(get("python").unwrap().name, "python");
        assert_eq!(get("mine.toml").unwrap().name, "mine");
        assert_eq!(get("./mine.toml").unwrap().packages, ["dash"]);
        for (named, code, word) in [
            ("pyton", Code::UnknownName, "\"python\""),
            ("mine", Code::UnknownName, "there are python"),
            ("none.toml", Code::Configuration, "cannot be read"),
            ("./bad", Code::Configuration, "did you mean \"debian.packages\""),
        ] {
            let error = get(named).unwrap_err();
            assert_eq!(error.code, code, "{named}");
            assert!(error.to_string().contains(word), "{named}: {error}");
        }
        assert_eq!(get("./bad").unwrap_err().field.as_deref(), Some("debian.package"));
    }
}
