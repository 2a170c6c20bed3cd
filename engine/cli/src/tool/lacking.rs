//! Advice on permissions after a failed call.

use std::path::Path;

use hotcell_plugins::report::NotInForce;
use hotcell_plugins::{Beyond, Plugins};

use crate::quote::for_shell;

/// Permissions of a tool's plugin that are granted and not in force.
pub fn lapsed(plugins: &Plugins, name: &str) -> Vec<NotInForce> {
    let list = plugins.list_of(name.split('_').next().unwrap_or_default());
    list.ok().and_then(|list| list.tools.into_iter().next()).map(|tool| tool.not_in_force).unwrap_or_default()
}

/// Advice on permissions, if a failed call named folders that its plugin may not access.
pub fn lacking(name: &str, beyond: &Beyond, lapsed: &[NotInForce]) -> Vec<String> {
    let plugin = name.split('_').next().unwrap_or_default();
    let words = |words: &[String]| words.iter().map(|word| for_shell(word)).collect::<Vec<_>>().join(" ");
    let mut lines = Vec::new();
    if !beyond.writes.is_empty() {
        let words = words(&beyond.writes);
        lines.push(format!(
            "{plugin} may read and not write what {name} named; if it was to write: hotcell tool grant {plugin} {words}"
        ));
    }
    // On the command line, the disk is the caller's own.
    let mut asked: Vec<String> = beyond.words.iter().filter_map(|word| of_folder(word)).collect();
    asked.dedup();
    // A grant that no longer applies is the reason, and another folder to grant is not.
    for one in lapsed {
        let before = asked.len();
        asked.retain(|word| !is_below(word, &one.capability));
        if asked.len() < before {
            lines.push(format!("{plugin} may not {}: {}", one.capability, one.why));
        }
    }
    if !lines.is_empty() && asked.is_empty() {
        return lines;
    }
    if !asked.is_empty() {
        let words = words(&asked);
        lines.push(format!(
            "{name} named what lies in no folder that is granted to {plugin}: hotcell tool grant {plugin} {words}"
        ));
    } else if beyond.holds_none {
        lines.push(format!("no folder is granted to {plugin}: hotcell tool grant {plugin} read=DIR"));
    }
    lines
}

/// Whether the folder of one grant lies in that of another.
fn is_below(word: &str, grant: &str) -> bool {
    let folder = |word: &str| {
        let (kind, path) = word.split_once('=')?;
        matches!(kind, "read" | "write").then(|| Path::new(path).to_owned())
    };
    folder(word).zip(folder(grant)).is_some_and(|(one, other)| one.starts_with(other))
}

/// A grant of the folder that a file lies in, in place of one of the file, which is refused; `None` for a file in the root folder.
fn of_folder(word: &str) -> Option<String> {
    let (capability, path) = word.split_once('=')?;
    let path = Path::new(path);
    if !path.is_file() {
        return Some(word.to_owned());
    }
    let folder = path.parent().filter(|folder| folder.file_name().is_some())?;
    Some(format!("{capability}={}", folder.display()))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn grant_that_lapsed_is_told_in_place_of_another_folder() {
        let beyond = |words: &[&str]| Beyond {
            words: words.iter().map(|w| (*w).to_owned()).collect(),
            ..Beyond::default()
        };
        let lapsed = |capability: &str| {
            [NotInForce { capability: capability.to_owned(), why: "grant it again".to_owned() }]
        };
        for (words, grant, told) in [
            (&["read=/no/out/b"][..], "write=/no/out", &["files may not write=/no/out: grant it again"][..]),
            (&["read=/no/out"], "read=/no/out", &["files may not read=/no/out: grant it again"]),
            (&["read=/no/outer"], "write=/no/out", &["hotcell tool grant files read=/no/outer"]),
            (&["read=/no/x"], "net=https://a.org:443", &["hotcell tool grant files read=/no/x"]),
            (
                &["read=/no/out/b", "read=/no/x"],
                "read=/no/out",
                &["may not read=/no/out", "grant files read=/no/x"],
            ),
        ] {
            let lines = lacking("files_read", &beyond(words), &lapsed(grant));
            assert_eq!(lines.len(), told.len(), "{words:?} {grant}: {lines:?}");
            assert!(lines.iter().zip(told).all(|(line, told)| line.contains(told)), "{lines:?}");
        }
    }

    #[test]
    fn grants_name_folders() {
        let folder = tempfile::tempdir().unwrap();
        let top = folder.path().display().to_string();
        std::fs::write(folder.path().join("passwd"), "").unwrap();
        for (word, want) in [
            (format!("read={top}/passwd"), Some(format!("read={top}"))),
            (format!("write={top}"), Some(format!("write={top}"))),
            (format!("read={top}/none"), Some(format!("read={top}/none"))),
        ] {
            assert_eq!(of_folder(&word), want, "{word}");
        }
    }
}
