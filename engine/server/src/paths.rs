//! Checks paths in a workspace before anything is opened. Pure; the directory handle confines them as well.

use std::path::PathBuf;

use hotcell_state::report::{Code, ErrorReport};
use hotcell_verbs::upward::problem;

/// Maximum length of a path, in bytes.
pub const MAX_PATH_BYTES: usize = 1024;
/// Maximum depth of a path.
pub const MAX_PATH_DEPTH: usize = 32;
/// Maximum length of a file name, in bytes.
const MAX_NAME_BYTES: usize = 255;

/// Parses a relative path below the workspace.
///
/// # Errors
/// A report that names the field `path` and the allowed form.
pub fn relative(path: &str) -> Result<PathBuf, ErrorReport> {
    let bad = |why: &str| {
        let shown: String = path.chars().take(100).collect();
        Err(ErrorReport::new(Code::InvalidValue, format!("the path {shown:?} {why}"))
            .field("path")
            .hint("give a path below the workspace, such as src/main.py"))
    };
    if path.is_empty() {
        return bad("is empty");
    }
    if path.len() > MAX_PATH_BYTES {
        return bad(&format!("has {} bytes; allowed is 1 to {MAX_PATH_BYTES}", path.len()));
    }
    if path.starts_with('/') {
        return bad("is absolute");
    }
    if path.chars().any(char::is_control) {
        return bad("contains a control character");
    }
    let mut names = Vec::new();
    for name in path.split('/') {
        match name {
            ".." => return bad(&problem(path)),
            "" | "." => {}
            name if name.len() > MAX_NAME_BYTES => {
                return bad(&format!("has a name of {} bytes; allowed is 1 to {MAX_NAME_BYTES}", name.len()));
            }
            name => names.push(name),
        }
    }
    if names.is_empty() || names.len() > MAX_PATH_DEPTH {
        return bad(&format!("has {} parts; allowed is 1 to {MAX_PATH_DEPTH}", names.len()));
    }
    Ok(names.iter().collect())
}

#[cfg(test)]
mod tests {
    use super::*;
    use std::path::Path;

    #[test]
    fn relative_paths_stay_below_workspace() {
        for (path, want) in
            [("a", "a"), ("a/b.py", "a/b.py"), ("./a//b/", "a/b"), ("ä ö/…", "ä ö/…"), ("...", "...")]
        {
            assert_eq!(relative(path).unwrap(), Path::new(want), "{path}");
        }
        let (long, deep) = ("x".repeat(256), "x/".repeat(33));
        for path in [
            "",
            "/",
            "/etc/passwd",
            "..",
            "a/../b",
            "../x",
            ".",
            "./",
            "a\0b",
            "a\nb",
            "\u{1b}[2J",
            &long,
            &deep,
        ] {
            assert_eq!(relative(path).unwrap_err().field.as_deref(), Some("path"), "{path:?}");
        }
    }

    #[test]
    fn path_that_stays_inside_is_not_said_to_lead_out() {
        let said = |path: &str| relative(path).unwrap_err().message;
        assert_eq!(
            said("a/b/../c"),
            "the path \"a/b/../c\" has a part .., which is not followed; write \"a/c\""
        );
        assert_eq!(said("a/../../c"), "the path \"a/../../c\" leads out of the folder with ..");
    }

    proptest::proptest! {
        #[test]
        fn accepted_paths_have_normal_components_only(path in "[./a\u{e4}\\\\\n-]{0,20}") {
            if let Ok(path) = relative(&path) {
                proptest::prop_assert!(path.components().all(|c| matches!(c, std::path::Component::Normal(_))));
            }
        }
    }
}
