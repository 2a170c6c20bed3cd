//! Command lines of programs that pack files: the folder that they enter, their operands, and the home folder as a whole
//! among them.

use super::Shell;
use super::fetched::path_of;
use crate::language::Language;
use crate::rules::is_home_whole;
use crate::value::Value;

/// Programs that pack files, and those that only encrypt or compress one.
pub(super) const PACKERS: &[&str] = &["tar", "bsdtar", "zip", "7z", "7za", "gzip", "openssl", "gpg"];

/// Folder that a packer enters before it takes its operands: `-C DIR`, `--directory=DIR`.
pub(super) fn entered(words: &[String]) -> Option<&str> {
    words.iter().enumerate().find_map(|(at, word)| match &**word {
        "-C" | "--directory" => words.get(at + 1).map(String::as_str),
        word => word.strip_prefix("--directory="),
    })
}

/// Path of an operand below the folder that a packer entered; the folder itself for `.` and `*`.
pub(super) fn placed(folder: Option<&str>, operand: &str) -> String {
    let inner = operand.trim_end_matches(['*', '.', '/']);
    match folder {
        Some(folder) if inner.is_empty() && !operand.starts_with('/') => folder.to_owned(),
        Some(folder) if !operand.starts_with('/') => format!("{}/{inner}", folder.trim_end_matches('/')),
        _ if inner.is_empty() && operand.starts_with('/') => "/".to_owned(),
        _ => inner.to_owned(),
    }
}

/// True for a command line that makes an archive of several files.
fn makes_archive(name: &str, words: &[String]) -> bool {
    let first = words.first().map_or("", String::as_str);
    let is_cluster = |word: &str| word.bytes().all(|b| b.is_ascii_alphanumeric());
    let short = |word: &String| word.strip_prefix('-').is_some_and(|c| is_cluster(c) && c.contains('c'));
    match name {
        "tar" | "bsdtar" => {
            is_cluster(first) && first.contains('c') || words.iter().any(|w| short(w) || w == "--create")
        }
        "zip" => words.iter().any(|word| {
            word == "--recurse-paths"
                || word.starts_with('-') && !word.starts_with("--") && word.contains('r')
        }),
        "7z" | "7za" => first == "a",
        _ => false,
    }
}

/// True for a command line that packs the root or the home folder as a whole.
fn packs_home(name: &str, words: &[String]) -> bool {
    let is_whole = |path: &str| path == "/" || is_home_whole(path);
    let folder = entered(words);
    makes_archive(name, words)
        && words
            .iter()
            .filter(|word| !word.starts_with('-') && Some(&***word) != folder)
            .any(|word| is_whole(&placed(folder, word)))
}

impl Shell<'_, '_> {
    /// Reports a command that packs the root or the home folder as a whole.
    pub(super) fn packs(&mut self, name: &str, argv: &[Value]) {
        if PACKERS.contains(&name) {
            let words: Vec<String> = argv.iter().skip(1).map(path_of).collect();
            if packs_home(name, &words) {
                self.cx.fact_with(Language::Bash, "shell.packs_home", self.here, &[], self.context);
            }
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn words(line: &str) -> Vec<String> {
        line.split(' ').map(str::to_owned).collect()
    }

    #[test]
    fn operands_lie_in_the_folder_that_is_entered() {
        assert_eq!(entered(&words("czf a.tgz -C /x .")), Some("/x"));
        assert_eq!(entered(&words("czf a.tgz --directory=/x .")), Some("/x"));
        assert_eq!(entered(&words("czf a.tgz .")), None);
        for (folder, operand, path) in [
            (Some("/x"), ".", "/x"),
            (Some("/x"), "*", "/x"),
            (Some("/x/"), "y/", "/x/y"),
            (Some("/x"), "/y", "/y"),
            (Some("/"), ".", "/"),
            (Some("/"), "usr/local/x", "/usr/local/x"),
            (None, "./", ""),
            (None, "/", "/"),
            (None, "y", "y"),
        ] {
            assert_eq!(placed(folder, operand), path, "{folder:?} {operand}");
        }
    }

    #[test]
    fn homes_that_are_packed_as_a_whole() {
        for (line, whole) in [
            ("tar czf x.tgz ~", true),
            ("tar -C ~ -czf x.tgz .", true),
            ("tar --create --file x.tar --directory=/root .", true),
            ("bsdtar -cf x.tar /home/me", true),
            ("tar czf x.tgz /", true),
            ("zip -qr x.zip ~", true),
            ("7z a x.7z ~/", true),
            ("tar xzf x.tgz -C ~", false),
            ("tar tzf x.tgz", false),
            ("tar czf x.tgz -C / usr/local/x", false),
            ("tar czf ~/x.tgz dist", false),
            ("tar czf x.tgz ~/project", false),
            ("zip x.zip ~", false),
            ("7z x a.7z ~", false),
            ("gzip ~", false),
        ] {
            let all = words(line);
            assert_eq!(packs_home(&all[0], &all[1..]), whole, "{line}");
        }
    }
}
