//! Credentials of the environment, and the environment as a whole, that leave by way of a file: written into one, packed,
//! and sent.

use super::Shell;
use super::execute::key;
use super::fetched::path_of;
use super::packed::{PACKERS, entered, placed};
use crate::language::Language;
use crate::rules::{SERVICE_TOKEN, TOKEN, basename};
use crate::value::Value;
use std::rc::Rc;

/// Name of the value of the environment as a whole.
pub(super) const ENVIRONMENT: &str = "<environment>";
/// Programs that send files.
const SENDERS: &[&str] = &[
    "curl", "wget", "http", "https", "xh", "scp", "rsync", "sftp", "ftp", "lftp", "tftp", "rclone", "aws",
    "gsutil", "nc", "ncat", "socat", "telnet", "mail", "mailx", "mutt",
];

/// Options of senders whose value is a file that they use for the connection, or write.
const OF_CONNECTION: &[&str] = &[
    "-i",
    "-E",
    "-K",
    "-b",
    "-c",
    "-e",
    "-F",
    "-H",
    "-o",
    "--cacert",
    "--capath",
    "--cert",
    "--config",
    "--cookie",
    "--cookie-jar",
    "--header",
    "--key",
    "--netrc-file",
    "--output",
    "--pass",
    "--password-file",
    "--rsh",
];

/// Words of a command line that may name files that it sends.
fn sent<'w>(name: &str, words: &'w [String]) -> impl Iterator<Item = &'w String> {
    let is_form = matches!(name, "curl");
    let uses = move |before: &String| {
        // `-F name=@file` of curl is a form, `-F file` of ssh its settings.
        OF_CONNECTION.contains(&&**before) && !(is_form && before == "-F")
    };
    let before = std::iter::once(None).chain(words.iter().map(Some));
    words.iter().zip(before).filter(move |(_, before)| !before.is_some_and(uses)).map(|(word, _)| word)
}

/// True for a value that holds a credential of the environment, or all of it.
pub(super) fn is_token(value: &Value) -> bool {
    value.names.iter().any(|name| matches!(&**name, TOKEN | SERVICE_TOKEN | ENVIRONMENT))
}

/// True for a file with a credential in it that a program takes away. Deployments write the environment of a pipeline into
/// `.env` and copy it to the machine that uses it.
fn is_taken(program: &str, path: &str, content: &Value) -> bool {
    let deploys = basename(path).starts_with(".env")
        && !matches!(program, "curl" | "wget" | "http" | "https" | "xh" | "nc" | "ncat" | "socat" | "telnet");
    let is_credential = |name: &Rc<str>| matches!(&**name, TOKEN | SERVICE_TOKEN);
    if deploys { content.names.iter().any(is_credential) } else { is_token(content) }
}

/// True for a command that prints the environment as a whole.
pub(super) fn prints_environment(name: &str, args: &[Value]) -> bool {
    let mut words = args.iter().map(|word| word.as_text().unwrap_or(""));
    match name {
        "env" | "printenv" => words.all(|word| matches!(word, "-0" | "--null")),
        "set" => args.is_empty(),
        "export" | "declare" | "typeset" => words.all(|word| matches!(word, "-p" | "-x" | "-xp" | "-px")),
        _ => false,
    }
}

/// True for a command that prints a credential of the user.
pub(super) fn prints_token(name: &str, args: &[Value]) -> bool {
    let words: Vec<&str> = args.iter().filter_map(Value::as_whole_text).collect();
    let operands: Vec<&str> = words.iter().copied().filter(|word| !word.starts_with('-')).collect();
    match (name, operands.as_slice()) {
        ("gh", ["auth", "token", ..])
        | ("git", ["credential", "fill", ..])
        | ("gcloud", [.., "print-access-token" | "print-identity-token"])
        | ("az", ["account", "get-access-token", ..])
        | ("aws", ["configure", "export-credentials", ..])
        | ("secret-tool", ["lookup" | "search", ..])
        | ("pass", ["show", ..])
        | ("vault", ["print", "token", ..]) => true,
        ("gh", ["auth", "status", ..]) => words.contains(&"--show-token") || words.contains(&"-t"),
        ("aws", ["configure", "get", key, ..]) => key.contains("secret") || key.contains("token"),
        ("npm" | "pnpm", ["config" | "c", "get", key, ..] | ["get", key, ..]) => {
            key.ends_with(":_authToken") || key.ends_with(":_password") || key.ends_with("_auth")
        }
        ("security", ["find-generic-password" | "find-internet-password", ..]) => {
            words.iter().any(|word| matches!(*word, "-w" | "-g"))
        }
        ("kubectl" | "oc", ["get", "secret" | "secrets", ..]) => {
            // A certificate is for everyone.
            let is_public = |word: &&str| word.contains("ca\\.crt") || word.contains("tls\\.crt");
            words.iter().any(|word| word.starts_with("-o") || word.starts_with("--output"))
                && !words.iter().any(is_public)
        }
        _ => false,
    }
}

/// True for a filter that keeps only lines of the environment that say nothing of credentials: `grep ^CI_`.
pub(super) fn narrows_environment(name: &str, args: &[Value]) -> bool {
    const TELLING: &[&str] = &["TOKEN", "KEY", "SECRET", "PASS", "CRED", "AUTH", "PRIVATE"];
    let words: Vec<&str> = args.iter().filter_map(Value::as_whole_text).collect();
    let inverts = |word: &&str| {
        **word == *"--invert-match" || word.starts_with('-') && !word.starts_with("--") && word.contains('v')
    };
    let pattern = words.iter().find(|word| !word.starts_with('-')).map(|word| word.to_ascii_uppercase());
    matches!(name, "grep" | "egrep" | "fgrep" | "rg")
        && !words.iter().any(inverts)
        && pattern.is_some_and(|pattern| {
            let known = pattern.chars().filter(char::is_ascii_alphabetic).count();
            known > 1 && !TELLING.iter().any(|word| pattern.contains(word))
        })
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
        let words: Vec<String> = argv.iter().skip(1).map(path_of).collect();
        let folder = entered(&words).map(str::to_owned);
        let operands = sent(name, &words).filter(|word| Some(&***word) != folder.as_deref());
        let found = operands.filter(|word| !word.is_empty()).find(|word| {
            let is_file =
                |path: &str| self.files.get(key(path)).is_some_and(|content| is_taken(name, path, content));
            files_of(word).any(is_file)
                || !word.starts_with('-') && self.has_token_below(name, &placed(folder.as_deref(), word))
        });
        if sends && (found.is_some() || is_token(stdin)) {
            let told = [Value::text(found.map_or("-", String::as_str))];
            self.cx.fact_with(Language::Bash, "shell.sends_token", self.here, &told, self.context);
        }
        if packs && found.is_some() {
            let is_path = |word: &&String| !word.starts_with('-') && word.trim_matches('.').contains('.');
            let packed = words.iter().find(is_path);
            let last = words.last().filter(|word| !matches!(&***word, "." | "*" | "./"));
            for path in packed.into_iter().chain(last).cloned().collect::<Vec<_>>() {
                self.files.insert(key(&path).to_owned(), Value::name(SERVICE_TOKEN));
            }
        }
    }

    /// True for a file with a credential in it, or a folder with such a file; an empty path is the current folder.
    fn has_token_below(&self, program: &str, path: &str) -> bool {
        let path = key(path);
        let is_below = |file: &str| match path {
            "" => !file.starts_with(['/', '~', '<']),
            _ => file.strip_prefix(path).is_some_and(|rest| rest.is_empty() || rest.starts_with('/')),
        };
        self.files.iter().any(|(file, content)| is_below(file) && is_taken(program, file, content))
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

    #[test]
    fn files_of_the_connection_are_not_sent() {
        let words = |line: &str| line.split(' ').map(str::to_owned).collect::<Vec<_>>();
        for (name, line, want) in [
            ("curl", "--cacert ca.pem -T x https://h", &["--cacert", "-T", "x", "https://h"][..]),
            ("curl", "-F f=@x https://h", &["-F", "f=@x", "https://h"]),
            ("scp", "-i key x h:", &["-i", "x", "h:"]),
        ] {
            assert_eq!(sent(name, &words(line)).collect::<Vec<_>>(), want, "{line}");
        }
    }

    #[test]
    fn environments_of_deployments_stay_with_them() {
        let (all, one) = (Value::name(ENVIRONMENT), Value::name(SERVICE_TOKEN));
        for (program, path, content, taken) in [
            ("scp", "x.txt", &all, true),
            ("scp", "deploy/.env", &all, false),
            ("scp", ".env.production", &one, true),
            ("curl", ".env", &all, true),
            ("tar", ".env", &all, false),
        ] {
            assert_eq!(is_taken(program, path, content), taken, "{program} {path}");
        }
    }

    #[test]
    fn environment_is_printed_as_a_whole_or_in_parts() {
        for (line, whole) in [
            ("env", true),
            ("env -0", true),
            ("printenv", true),
            ("printenv PATH", false),
            ("set", true),
            ("set -e", false),
            ("export -p", true),
            ("export A=1", false),
            ("declare -xp", true),
            ("declare -f go", false),
            ("ls", false),
        ] {
            let mut words = line.split(' ');
            let name = words.next().unwrap_or_default();
            let args: Vec<Value> = words.map(Value::text).collect();
            assert_eq!(prints_environment(name, &args), whole, "{line}");
        }
    }

    #[test]
    fn commands_that_print_credentials() {
        for (line, prints) in [
            ("gh auth token", true),
            ("gh auth status", false),
            ("git credential fill", true),
            ("git credential approve", false),
            ("gcloud auth print-access-token", true),
            ("gcloud config get project", false),
            ("aws configure get aws_secret_access_key --profile x", true),
            ("aws configure get region", false),
            ("npm config get //registry.npmjs.org/:_authToken", true),
            ("npm config get registry", false),
            ("kubectl get secrets -A -o yaml", true),
            ("kubectl get secrets", false),
            ("kubectl get pods -o yaml", false),
            ("security find-generic-password -w -s x", true),
        ] {
            let mut words = line.split(' ');
            let name = words.next().unwrap_or_default();
            let args: Vec<Value> = words.map(Value::text).collect();
            assert_eq!(prints_token(name, &args), prints, "{line}");
        }
    }

    #[test]
    fn filters_that_keep_no_credentials_narrow() {
        for (line, narrows) in [
            ("grep ^CI_", true),
            ("grep -E ^(BUILD|GIT)_", true),
            ("grep -i token", false),
            ("grep -E _(TOKEN|KEY)=", false),
            ("grep -v ^_", false),
            ("grep .", false),
            ("sort -u", false),
        ] {
            let mut words = line.split(' ');
            let name = words.next().unwrap_or_default();
            let args: Vec<Value> = words.map(Value::text).collect();
            assert_eq!(narrows_environment(name, &args), narrows, "{line}");
        }
    }
}
