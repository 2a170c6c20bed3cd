//! Names like one that a workspace does not have, for the error that says so: a model that is told the right path needs no further call. Pure.

use std::path::{Path, PathBuf};

use hotcell_sandbox::layer::likely;

/// Maximum number of entries that are compared.
pub(super) const MAX_COMPARED: usize = 5_000;
/// Maximum number of paths in one message.
const MAX_NAMED: usize = 8;
/// Maximum length of a path in a message, in bytes; longer ones are left out.
const MAX_PATH_BYTES: usize = 200;

/// A hint for a path that is not among all of a workspace's; `None` where it has too many to name, and none is like it.
pub(super) fn hint(path: &Path, all: &[PathBuf]) -> Option<String> {
    let texts: Vec<&str> =
        all.iter().filter_map(|path| path.to_str()).filter(|text| text.len() <= MAX_PATH_BYTES).collect();
    if all.is_empty() {
        return Some("the workspace is empty".to_owned());
    }
    let meant = path.to_str().and_then(|path| like(path, &texts));
    if let Some(near) = meant {
        return Some(format!("did you mean {near:?}?"));
    }
    named(all).map(|named| format!("the workspace has {named}"))
}

/// A hint for a path that is a folder, where a file is wanted; `None` where it has too many entries to name.
pub(super) fn folder_hint(folder: &Path, all: &[PathBuf]) -> Option<String> {
    let own: Vec<PathBuf> = all.iter().filter(|path| path.parent() == Some(folder)).cloned().collect();
    if own.is_empty() {
        return Some("it is empty".to_owned());
    }
    named(&own).map(|named| format!("it has {named}"))
}

/// The paths in one line, where they are few and short.
fn named(all: &[PathBuf]) -> Option<String> {
    let is_short = |path: &&PathBuf| path.to_str().is_some_and(|text| text.len() <= MAX_PATH_BYTES);
    if all.len() > MAX_NAMED || !all.iter().all(|path| is_short(&path)) {
        return None;
    }
    Some(all.iter().map(|path| format!("{:?}", path.to_string_lossy())).collect::<Vec<_>>().join(", "))
}

/// The path that a wrong one most likely means: the only one with its name, else one that is written alike.
fn like<'a>(path: &str, all: &[&'a str]) -> Option<&'a str> {
    let name = |path: &str| path.rsplit('/').next().unwrap_or(path).to_lowercase();
    let mut namesakes = all.iter().filter(|other| name(other) == name(path));
    match (namesakes.next(), namesakes.next()) {
        (Some(only), None) => Some(*only),
        _ => likely(path, all.iter().copied()),
    }
}

/// A hint for a snapshot that a workspace does not have.
pub(super) fn snapshot_hint(name: &str, all: &[String]) -> String {
    let names = || all.iter().map(String::as_str);
    match likely(name, names()) {
        Some(near) => format!("did you mean {near:?}?"),
        None if all.is_empty() => "it has none; leave to out for its beginning".to_owned(),
        None => format!("it has {}", names().map(|name| format!("{name:?}")).collect::<Vec<_>>().join(", ")),
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn missing_path_is_told_the_likely_one() {
        let few = ["README.md", "src", "src/main.py", "src/lib/util.py"];
        let twice = ["a/main.py", "b/main.py", "c"];
        let many: Vec<String> =
            (0..MAX_NAMED).map(|n| format!("qq{n}x{n}y{n}")).chain(["b.txt".to_owned()]).collect();
        let many: Vec<&str> = many.iter().map(String::as_str).collect();
        for (path, all, want) in [
            ("main.py", &few[..], Some("did you mean \"src/main.py\"?")),
            ("SRC/Main.py", &few, Some("did you mean \"src/main.py\"?")),
            ("readme.md", &few, Some("did you mean \"README.md\"?")),
            ("src/mian.py", &few, Some("did you mean \"src/main.py\"?")),
            ("b/mian.py", &twice, Some("did you mean \"b/main.py\"?")),
            ("zzzzzzzzzzzzzzzzzz", &twice, Some("the workspace has \"a/main.py\", \"b/main.py\", \"c\"")),
            ("zzzzzzzzzzzzzzzzzz", &many, None),
            ("B.TXT", &many, Some("did you mean \"b.txt\"?")),
            ("x", &[], Some("the workspace is empty")),
        ] {
            let all: Vec<PathBuf> = all.iter().map(PathBuf::from).collect();
            assert_eq!(hint(Path::new(path), &all).as_deref(), want, "{path}");
        }
        let long = [PathBuf::from("x".repeat(MAX_PATH_BYTES + 1))];
        assert_eq!(hint(Path::new(&"x".repeat(MAX_PATH_BYTES)), &long), None);
        let hostile = hint(Path::new("a.py"), &[PathBuf::from("a\n.py")]).unwrap();
        assert!(!hostile.contains('\n'), "{hostile}");
    }

    #[test]
    fn folder_is_told_by_its_entries() {
        let all: Vec<PathBuf> = ["a", "a/b", "a/b/c", "d", "e.py"].iter().map(PathBuf::from).collect();
        for (folder, want) in [("a", "it has \"a/b\""), ("d", "it is empty")] {
            assert_eq!(folder_hint(Path::new(folder), &all).as_deref(), Some(want), "{folder}");
        }
        let many: Vec<PathBuf> = (0..=MAX_NAMED).map(|n| PathBuf::from(format!("a/{n}"))).collect();
        assert_eq!(folder_hint(Path::new("a"), &many), None);
    }

    #[test]
    fn missing_snapshot_is_told_the_others() {
        for (name, all, want) in [
            ("befor", &["before", "x"][..], "did you mean \"before\"?"),
            ("zzzzzzz", &["before", "x"], "it has \"before\", \"x\""),
            ("a", &[], "it has none"),
        ] {
            let all: Vec<String> = all.iter().map(|name| (*name).to_owned()).collect();
            assert!(snapshot_hint(name, &all).starts_with(want), "{name}");
        }
    }
}
