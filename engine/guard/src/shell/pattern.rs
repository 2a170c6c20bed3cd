//! Words in the place of a command's name, in scripts that are read line by line: patterns that may name a program,
//! and assignments. Pure.

use globset::GlobBuilder;

use crate::command::programs;
use crate::rules::basename;

/// Folders at the root of a file system that programs are in, or in folders of which they are.
const TOP_FOLDERS: &[&str] = &[
    "app",
    "bin",
    "boot",
    "data",
    "dev",
    "etc",
    "home",
    "lib",
    "lib32",
    "lib64",
    "libx32",
    "media",
    "mnt",
    "nix",
    "opt",
    "proc",
    "root",
    "run",
    "sbin",
    "snap",
    "srv",
    "sys",
    "tmp",
    "usr",
    "var",
    "work",
    "workspace",
];

/// True when a pattern may be how a script names a program: an absolute one leads to some file below a folder of the root, and
/// a relative one has a letter or a digit and matches the name of a program that the guard knows. Fragments of
/// regular expressions, comments of C and lines of tables match neither.
pub(super) fn may_name_program(pattern: &str) -> bool {
    if let Some(path) = pattern.strip_prefix('/') {
        let mut steps = path.split('/').filter(|step| !step.is_empty());
        let top = steps.next().unwrap_or_default();
        let names_one = steps.next_back().is_some_and(|last| last.contains(|c| c != '*'));
        return names_one && matches_any(top, TOP_FOLDERS.iter().copied());
    }
    let name = basename(pattern);
    name.contains(|c: char| c.is_ascii_alphanumeric()) && matches_any(name, programs())
}

/// True when a shell pattern matches one of the names. A pattern that is not valid matches only itself, which is
/// no program's name.
fn matches_any<'a>(pattern: &str, mut names: impl Iterator<Item = &'a str>) -> bool {
    let Ok(glob) = GlobBuilder::new(pattern).backslash_escape(false).build() else { return false };
    let glob = glob.compile_matcher();
    names.any(|name| glob.is_match(name))
}

/// True for `NAME=VALUE`, `NAME+=VALUE` and `NAME[INDEX]=VALUE`.
pub(super) fn is_assignment(word: &str) -> bool {
    let Some((name, _)) = word.split_once('=') else { return false };
    let name = name.strip_suffix('+').unwrap_or(name);
    let name = match name.split_once('[') {
        Some((name, index)) if index.ends_with(']') => name,
        _ => name,
    };
    name.starts_with(|c: char| c.is_ascii_alphabetic() || c == '_')
        && name.bytes().all(|c| c.is_ascii_alphanumeric() || c == b'_')
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn pattern_may_name_program() {
        for (pattern, want) in [
            ("/b?n/id", true),
            ("/???/c?t", true),
            ("/*/id", true),
            ("/usr/b[i]n/x", true),
            ("//b*//id", true),
            ("/[^x]in/id", true),
            ("c?t", true),
            ("bin/i?", true),
            ("./pytho[n]", true),
            ("b*sh", true),
            ("cur[l]", true),
            // Comments of C, sed's commands, labels of `case`, prose.
            ("/*", false),
            ("///*", false),
            ("/[^/]*$", false),
            ("//*[^/][^/]*/*$'", false),
            ("/[$]LINENO/=", false),
            ("/*-*-irix*", false),
            ("/usr/ucb/*", false),
            ("/*/*", false),
            ("**", false),
            ("***", false),
            ("[1-9][0-9]*", false),
            ("-n*", false),
            ("*.ada", false),
            ("gnu?", false),
            ("do?question", false),
        ] {
            assert_eq!(may_name_program(pattern), want, "{pattern}");
        }
    }

    #[test]
    fn assignment_has_name_before_equals_sign() {
        for (word, want) in [
            ("x=", true),
            ("_a1+=y", true),
            ("a[1]=y", true),
            ("x", false),
            ("=x", false),
            ("1x=y", false),
            ("a-b=c", false),
            ("--x=y", false),
            ("a[1=y", false),
            ("/bin/x=y", false),
        ] {
            assert_eq!(is_assignment(word), want, "{word}");
        }
    }
}
