//! Searches files for matching lines.

use std::fs;
use std::path::Path;

use folders::{Entry, walk};
use regex_lite::Regex;

use crate::names;

/// Maximum size of a file to search, in bytes.
const LONGEST: u64 = 8 << 20;

/// A line that matches.
#[derive(Debug, PartialEq)]
pub(crate) struct Hit {
    pub(crate) path: String,
    pub(crate) line: u32,
    pub(crate) text: String,
}

/// Result of a search.
#[derive(Debug, Default, PartialEq)]
pub(crate) struct Hits {
    pub(crate) hits: Vec<Hit>,
    pub(crate) files: u32,
    pub(crate) unread: u32,
    pub(crate) more: bool,
}

/// Searches a file, or the files below a folder.
pub(crate) fn search(top: &Path, pattern: &str, name: Option<&str>, limit: usize) -> Result<Hits, String> {
    let pattern = Regex::new(pattern).map_err(|e| format!("the pattern is no regular expression: {e}"))?;
    let mut hits = Hits::default();
    let meta = fs::metadata(top).map_err(|e| format!("{}: {e}", top.display()))?;
    if !meta.is_dir() {
        let path = top.file_name().and_then(|n| n.to_str()).unwrap_or_default();
        one(top, path, meta.len(), &pattern, limit, &mut hits);
        return Ok(hits);
    }
    let wanted =
        |path: &str| name.is_none_or(|name| names::matches(name, path.rsplit('/').next().unwrap_or(path)));
    let mut visit = |entry: Entry, full: &Path| {
        if let (Some(size), true) = (entry.size, wanted(&entry.path)) {
            one(full, &entry.path, size, &pattern, limit, &mut hits);
        }
        !hits.more
    };
    walk(top, "", 64, &mut visit, &|name| !name.starts_with('.'))?;
    Ok(hits)
}

fn one(full: &Path, path: &str, size: u64, pattern: &Regex, limit: usize, into: &mut Hits) {
    let text = (size <= LONGEST)
        .then(|| folders::read(full).ok())
        .flatten()
        .and_then(|bytes| String::from_utf8(bytes).ok());
    let Some(text) = text.filter(|text| !text.contains('\0')) else {
        into.unread += 1;
        return;
    };
    into.files += 1;
    for (line, text) in (1..).zip(text.lines()) {
        if pattern.is_match(text) {
            if into.hits.len() == limit {
                into.more = true;
                return;
            }
            into.hits.push(Hit { path: path.to_owned(), line, text: text.chars().take(400).collect() });
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn search_reports_lines_and_unread_files() {
        let top = tempfile::tempdir().unwrap();
        let write = |path, content| fs::write(top.path().join(path), content).unwrap();
        fs::create_dir_all(top.path().join("a/d")).unwrap();
        fs::create_dir(top.path().join(".git")).unwrap();
        write("b.txt", "one\nTwo\n");
        write("a/c.rs", "fn two() {}\n");
        write("a/d/e.txt", "two\r\ntwo");
        write(".git/x.txt", "two");
        write("z.bin", "two\0");
        let found = search(top.path(), "(?i)two", None, 9).unwrap();
        let lines: Vec<_> = found.hits.iter().map(|h| format!("{}:{}:{}", h.path, h.line, h.text)).collect();
        assert_eq!(lines, ["a/c.rs:1:fn two() {}", "a/d/e.txt:1:two", "a/d/e.txt:2:two", "b.txt:2:Two"]);
        assert_eq!((found.files, found.unread, found.more), (3, 1, false));
        let found = search(top.path(), "two", Some("*.txt"), 1).unwrap();
        assert_eq!((found.hits.len(), found.files, found.more), (1, 1, true));
        assert_eq!(search(&top.path().join("b.txt"), "^one$", None, 9).unwrap().hits[0].path, "b.txt");
        assert!(search(top.path(), "(", None, 1).unwrap_err().contains("regular expression"));
    }
}
