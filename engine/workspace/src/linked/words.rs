//! Finds the parts of a setting's value that may be paths. Pure.

use std::collections::BTreeSet;
use std::ffi::OsStr;
use std::os::unix::ffi::OsStrExt;
use std::path::PathBuf;

use crate::settings::Setting;

/// Sections whose values are neither paths nor commands.
const DATA_SECTIONS: &[&str] = &[
    "advice",
    "author",
    "branch",
    "color",
    "column",
    "committer",
    "extensions",
    "fetch",
    "gc",
    "i18n",
    "pack",
    "pull",
    "push",
    "rebase",
    "rerere",
    "status",
    "user",
];
/// Settings of other sections whose values are not paths to anything that git runs.
const DATA: &[(&str, &[&str])] = &[
    (
        "core",
        &[
            "abbrev",
            "autocrlf",
            "bare",
            "bigfilethreshold",
            "checkstat",
            "commentchar",
            "compression",
            "eol",
            "filemode",
            "ignorecase",
            "logallrefupdates",
            "longpaths",
            "precomposeunicode",
            "preloadindex",
            "quotepath",
            "repositoryformatversion",
            "safecrlf",
            "sharedrepository",
            "sparsecheckout",
            "sparsecheckoutcone",
            "splitindex",
            "symlinks",
            "trustctime",
            "untrackedcache",
            "whitespace",
            "worktree",
        ],
    ),
    ("init", &["defaultbranch"]),
    ("remote", &["fetch", "push", "tagopt", "mirror", "prune", "promisor", "partialclonefilter"]),
    ("submodule", &["active", "branch", "ignore", "fetchrecursesubmodules"]),
    ("merge", &["conflictstyle", "ff", "log", "stat"]),
    ("diff", &["algorithm", "renames", "submodule", "colormoved"]),
];

/// Bytes that separate words of a command.
const SEPARATORS: &[u8] = b" \t\n\r;|&()<>`{},=:!";

/// Every part of a setting's value that may name a path, as written.
pub(super) fn words(setting: &Setting) -> BTreeSet<PathBuf> {
    let mut all = BTreeSet::new();
    let Some(value) = setting.value.as_deref().filter(|_| !is_data(setting)) else { return all };
    // An alias without `!` or a leading option begins with one of git's own commands.
    let plain_alias = setting.section == "alias" && !value.starts_with(b"!") && !value.starts_with(b"-");
    let mut add = |word: &[u8]| {
        if !word.is_empty() && (!plain_alias || word.contains(&b'/')) {
            all.insert(PathBuf::from(OsStr::from_bytes(word)));
        }
    };
    add(value);
    let value = at_home(value);
    for quotes_join in [true, false] {
        for word in split(&value, quotes_join) {
            // An option with its value attached, such as `-Ctools`.
            if let [b'-', letter, rest @ ..] = word.as_slice()
                && letter.is_ascii_alphabetic()
            {
                add(rest);
            }
            // Of a glob pattern, the folder that is searched.
            match word.iter().position(|byte| matches!(byte, b'*' | b'?' | b'[')) {
                Some(star) => {
                    let folder = word[..star].iter().rposition(|byte| *byte == b'/').unwrap_or(0);
                    add(&word[..folder]);
                }
                None => add(&word),
            }
            // After a variable or command substitution, as in `$(git rev-parse --show-toplevel)/tools`, or in
            // place of one.
            add(word.strip_prefix(b"/").unwrap_or_default());
        }
    }
    all
}

/// Replaces the shell variable of the home folder by `~`.
fn at_home(value: &[u8]) -> Vec<u8> {
    let (mut written, mut rest) = (Vec::new(), value);
    while let Some(first) = rest.first() {
        match rest.strip_prefix(b"${HOME}/").or_else(|| rest.strip_prefix(b"$HOME/")) {
            Some(after) => {
                written.extend(b"~/");
                rest = after;
            }
            None => {
                written.push(*first);
                rest = &rest[1..];
            }
        }
    }
    written
}

/// Splits a command at blanks and shell operators. Quotes join words as in the shell, or separate them.
fn split(value: &[u8], quotes_join: bool) -> Vec<Vec<u8>> {
    let (mut words, mut word, mut open) = (Vec::new(), Vec::new(), None);
    let mut bytes = value.iter().copied().peekable();
    let mut end = |word: &mut Vec<u8>| words.push(std::mem::take(word));
    while let Some(byte) = bytes.next() {
        match byte {
            b'"' | b'\'' if quotes_join && open.is_none_or(|quote| quote == byte) => {
                open = if open.is_some() { None } else { Some(byte) };
            }
            b'"' | b'\'' if !quotes_join => end(&mut word),
            b'\\' => word.extend(bytes.next()),
            b'$' => {
                end(&mut word);
                while bytes
                    .next_if(|byte| byte.is_ascii_alphanumeric() || matches!(byte, b'_' | b'{' | b'}'))
                    .is_some()
                {}
            }
            byte if open.is_none() && SEPARATORS.contains(&byte) => end(&mut word),
            byte => word.push(byte),
        }
    }
    end(&mut word);
    words
}

fn is_data(setting: &Setting) -> bool {
    let (section, name) = (setting.section.as_str(), setting.name.as_str());
    let value = setting.value.as_deref().unwrap_or_default();
    let is_path = ["path", "file", "dir", "program"].iter().any(|end| name.ends_with(end));
    let lower = value.to_ascii_lowercase();
    let is_answer = matches!(lower.as_slice(), b"true" | b"false" | b"yes" | b"no" | b"on" | b"off" | b"")
        || value.iter().all(u8::is_ascii_digit);
    let named = DATA_SECTIONS.contains(&section)
        || DATA.iter().any(|(of, names)| *of == section && names.contains(&name));
    // A plain helper name is one of git's own helpers, such as `store`.
    let helper = section == "credential" && name == "helper" && value.iter().all(u8::is_ascii_alphanumeric);
    // A URL may be a command, as in `ext::sh -c …`.
    let is_url = value.windows(2).any(|pair| pair == b"::");
    named && !is_url || helper || is_answer && !is_path
}

#[cfg(test)]
mod tests {
    use proptest::prelude::*;

    use super::*;

    fn of(section: &str, name: &str, value: &str) -> BTreeSet<PathBuf> {
        words(&Setting { section: section.into(), name: name.into(), value: Some(value.into()) })
    }

    #[test]
    fn git_settings_yield_commands_and_paths_only() {
        for (section, name, value, path) in [
            ("core", "hookspath", "my tools/hooks", "my tools/hooks"),
            ("core", "fsmonitor", "tools/fs --x", "tools/fs"),
            ("core", "sshcommand", "ssh -F conf/ssh -oProxyCommand=tools/p", "tools/p"),
            ("filter", "clean", "sh -c 'python3 \"tools/c\" %f'", "tools/c"),
            ("alias", "st", "!cd tools && ./st", "./st"),
            ("alias", "st", "!\"$(git rev-parse --show-toplevel)\"/tools/st", "tools/st"),
            ("alias", "st", "!'my tools'/st", "my tools/st"),
            ("alias", "st", "-c core.hooksPath=hooks commit", "hooks"),
            ("alias", "st", "!sh $GIT_DIR/../tools/st", "../tools/st"),
            ("alias", "st", "!for f in tools/*.sh; do sh $f; done", "tools"),
            ("alias", "st", "!make -Ctools st", "tools"),
            ("alias", "st", "!\"$HOME/x/st\"", "~/x/st"),
            ("branch", "remote", "ext::tools/x %S", "tools/x"),
            ("unknown", "any", "x:tools/st,y", "tools/st"),
            ("credential", "helper", "!tools/h", "tools/h"),
            ("core", "hookspath", "on", "on"),
        ] {
            assert!(
                of(section, name, value).contains(std::path::Path::new(path)),
                "{value}: {:?}",
                of(section, name, value)
            );
        }
        for (section, name, value) in [
            ("branch", "merge", "refs/heads/src"),
            ("core", "autocrlf", "input"),
            ("core", "worktree", "../../../sub"),
            ("core", "fsmonitor", "true"),
            ("credential", "helper", "store"),
            ("user", "name", "docs src"),
            ("alias", "lg", "log --graph"),
        ] {
            assert!(of(section, name, value).is_empty(), "{value}: {:?}", of(section, name, value));
        }
    }

    proptest! {
        #[test]
        fn path_in_alias_command_is_found(before in "(sh |exec |a=b; |cd x && |\\(|`|FOO=1 )?", quote in "['\"]?", after in "( %f|; x|\\)|`| > /dev/null|\\|cat)?", path in "[a-z]{1,5}/[a-z.]{1,5}[a-z]") {
            let value = format!("!{before}{quote}{path}{quote}{after}");
            prop_assert!(of("alias", "x", &value).contains(std::path::Path::new(&path)), "{value}");
        }
    }
}
