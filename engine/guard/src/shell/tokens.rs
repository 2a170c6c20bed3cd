//! Credentials of the environment that leave by way of a file: written into one, packed, and sent.

use super::Shell;
use super::execute::key;
use crate::language::Language;
use crate::rules::{SERVICE_TOKEN, TOKEN};
use crate::value::Value;

/// Programs that send files, and those that pack them.
const SENDERS: &[&str] = &[
    "curl", "wget", "http", "https", "xh", "scp", "rsync", "sftp", "ftp", "lftp", "tftp", "rclone", "aws",
    "gsutil", "nc", "ncat", "socat", "telnet", "mail", "mailx", "mutt",
];
const PACKERS: &[&str] = &["tar", "bsdtar", "zip", "7z", "7za", "gzip", "openssl", "gpg"];

/// True for a value that holds a credential of the environment.
pub(super) fn is_token(value: &Value) -> bool {
    value.names.iter().any(|name| matches!(&**name, TOKEN | SERVICE_TOKEN))
}

/// Files that a word of a command may name: `x`, `@x`, `name=@x`, `--post-file=x`.
fn files_of(word: &str) -> impl Iterator<Item = &str> {
    let behind = |sign: char| word.rsplit_once(sign).map(|(_, path)| path);
    [Some(word), behind('@'), behind('='), behind('<')].into_iter().flatten()
}

impl Shell<'_, '_> {
    /// Reports a command that sends a file with a credential in it, and keeps where a packer puts one.
    pub(super) fn sends_token(&mut self, name: &str, argv: &[Value], stdin: &Value) {
        let (sends, packs) = (SENDERS.contains(&name), PACKERS.contains(&name));
        if !sends && !packs || self.files.is_empty() && !is_token(stdin) {
            return;
        }
        let words: Vec<&str> = argv.iter().skip(1).filter_map(Value::as_whole_text).collect();
        let holds = |word: &&&str| files_of(word).any(|path| self.files.get(key(path)).is_some_and(is_token));
        let found = words.iter().find(holds);
        if sends && (found.is_some() || is_token(stdin)) {
            let told = [Value::text(found.copied().unwrap_or("-"))];
            self.cx.fact_with(Language::Bash, "shell.sends_token", self.here, &told, self.context);
        }
        if packs && found.is_some() {
            let packed = words.iter().find(|word| !word.starts_with('-') && word.contains('.'));
            let last = words.last().copied();
            for path in packed.copied().into_iter().chain(last).map(str::to_owned).collect::<Vec<_>>() {
                self.files.insert(key(&path).to_owned(), Value::name(SERVICE_TOKEN));
            }
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn words_name_files() {
        for (word, file) in
            [("x", "x"), ("@x", "x"), ("file=@dir/x.tgz", "dir/x.tgz"), ("--post-file=x", "x"), ("f=<x", "x")]
        {
            assert!(files_of(word).any(|path| path == file), "{word}");
        }
    }
}
