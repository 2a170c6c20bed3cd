//! Specification and given tests, read from files of the user within bounds.

use std::fs::{self, File};
use std::io::{self, Read};
use std::path::Path;

use super::language::Language;
use crate::paths;

/// Maximum size of a specification, in bytes.
pub const MAX_SPEC_BYTES: u64 = 64 * 1024;
/// Maximum size of all given tests, in bytes.
pub const MAX_TESTS_BYTES: u64 = 256 * 1024;
/// Maximum number of given tests' files.
pub const MAX_TESTS: usize = 100;
/// Maximum depth of folders of given tests.
const MAX_DEPTH: usize = 8;
/// Folders that are left out of given tests.
const OTHERS: [&str; 2] = ["__pycache__", "node_modules"];

/// Text of a specification.
///
/// # Errors
/// Words for a file that cannot be read, is not a regular file, is empty, too large, or not UTF-8.
pub fn spec(path: &Path) -> Result<String, String> {
    let kind = fs::metadata(path).map_err(|e| e.to_string())?;
    if kind.is_dir() {
        return Err("it is a folder; name a file with the specification".to_owned());
    }
    if !kind.is_file() {
        return Err("it is not a plain file".to_owned());
    }
    let mut bytes = Vec::new();
    let read = File::open(path).and_then(|file| file.take(MAX_SPEC_BYTES + 1).read_to_end(&mut bytes));
    read.map_err(|e| e.to_string())?;
    if bytes.len() as u64 > MAX_SPEC_BYTES {
        return Err(format!("it is larger than {} KiB; say it shorter, or split it", MAX_SPEC_BYTES / 1024));
    }
    let text = String::from_utf8(bytes).map_err(|_| "it is not UTF-8 text".to_owned())?;
    let odd = |c: char| c == '\0';
    if text.contains(odd) {
        return Err("it has zero bytes and is no text".to_owned());
    }
    if text.trim().is_empty() {
        return Err("it is empty; describe the program in it".to_owned());
    }
    Ok(text)
}

/// Tests below a folder, with their paths below it, in order. Hidden names are left out, and links are refused.
///
/// # Errors
/// Words for a folder that cannot be read, has no tests of the language, or something that cannot be taken.
pub fn tests(folder: &Path, language: Language) -> Result<Vec<(String, String)>, String> {
    let mut all = Vec::new();
    walk(folder, "", 0, &mut all)?;
    all.sort();
    if !all.iter().any(|(path, _)| paths::is_test(path) && language.is_source(path)) {
        return Err(format!("it has no tests in {}, such as {}", language.name(), language.test_of("name")));
    }
    Ok(all)
}

fn walk(folder: &Path, above: &str, depth: usize, all: &mut Vec<(String, String)>) -> Result<(), String> {
    let told = |e: io::Error| format!("{}: {e}", folder.display());
    if depth > MAX_DEPTH {
        return Err(format!("{above} is deeper than {MAX_DEPTH} folders"));
    }
    for entry in fs::read_dir(folder).map_err(told)? {
        let entry = entry.map_err(told)?;
        let name = entry.file_name();
        let Some(name) = name.to_str() else { return Err(format!("{name:?} is not UTF-8")) };
        if name.starts_with('.') || OTHERS.contains(&name) {
            continue;
        }
        let path = if above.is_empty() { name.to_owned() } else { format!("{above}/{name}") };
        paths::check(&path).map_err(|e| e.to_string())?;
        let kind = entry.file_type().map_err(told)?;
        if kind.is_dir() {
            walk(&entry.path(), &path, depth + 1, all)?;
        } else if kind.is_file() {
            let used: u64 = all.iter().map(|(_, text)| text.len() as u64).sum();
            let left = MAX_TESTS_BYTES - used;
            let mut bytes = Vec::new();
            let read = File::open(entry.path()).and_then(|file| file.take(left + 1).read_to_end(&mut bytes));
            read.map_err(|e| format!("{path}: {e}"))?;
            if bytes.len() as u64 > left || all.len() >= MAX_TESTS {
                let (files, size) = (MAX_TESTS, MAX_TESTS_BYTES / 1024);
                return Err(format!("it has more than {files} files or {size} KiB"));
            }
            let text = String::from_utf8(bytes).map_err(|_| format!("{path} is not UTF-8 text"))?;
            all.push((path, text));
        } else {
            return Err(format!("{path} is not a plain file"));
        }
    }
    Ok(())
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn specifications_are_bounded() {
        let dir = tempfile::tempdir().unwrap();
        let file = dir.path().join("SPEC.md");
        for (bytes, why) in [
            (&b""[..], "is empty"),
            (b" \n\t", "is empty"),
            (b"\xff\xfe", "not UTF-8"),
            (b"a\0b", "zero bytes"),
            (&vec![b'x'; 1 << 20], "larger than 64 KiB"),
        ] {
            fs::write(&file, bytes).unwrap();
            assert!(spec(&file).is_err_and(|e| e.contains(why)), "{why}");
        }
        assert!(spec(dir.path()).is_err_and(|e| e.contains("a folder")));
        assert!(spec(&dir.path().join("none")).is_err());
        fs::write(&file, "add numbers").unwrap();
        assert_eq!(spec(&file).unwrap(), "add numbers");
    }

    #[test]
    fn given_tests_are_read_within_bounds_and_without_links() {
        let dir = tempfile::tempdir().unwrap();
        let of = |language| super::tests(dir.path(), language);
        assert!(of(Language::Python).is_err_and(|e| e.contains("test_name.py")));
        fs::create_dir_all(dir.path().join("sub/__pycache__")).unwrap();
        fs::write(dir.path().join("sub/__pycache__/x.pyc"), b"\xff").unwrap();
        fs::write(dir.path().join("test_a.py"), "a").unwrap();
        fs::write(dir.path().join("sub/help.py"), "h").unwrap();
        fs::write(dir.path().join(".hidden"), b"\xff").unwrap();
        let paths = |all: Vec<(String, String)>| all.into_iter().map(|(path, _)| path).collect::<Vec<_>>();
        assert_eq!(
            of(Language::Python).map(paths),
            Ok(vec!["sub/help.py".to_owned(), "test_a.py".to_owned()])
        );
        assert!(of(Language::JavaScript).is_err());
        std::os::unix::fs::symlink("/etc/passwd", dir.path().join("link.py")).unwrap();
        assert!(of(Language::Python).is_err_and(|e| e.contains("not a plain file")));
        fs::remove_file(dir.path().join("link.py")).unwrap();
        fs::write(dir.path().join("big.txt"), vec![b'x'; 300 * 1024]).unwrap();
        assert!(of(Language::Python).is_err_and(|e| e.contains("256 KiB")));
    }
}
