//! Determines from the first bytes of a file how the kernel starts it. Pure.

use std::ffi::{OsStr, OsString};
use std::os::unix::ffi::{OsStrExt as _, OsStringExt as _};
use std::path::PathBuf;

/// Number of bytes of a script's first line that the kernel reads (`BINPRM_BUF_SIZE`).
const FIRST_LINE_LEN: usize = 256;
/// Number of bytes to read from a file: enough for the first line, and for the second line of the form that
/// pip writes for long paths.
pub(super) const HEAD_LEN: usize = 4096;

/// How a file is started.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(super) enum Start {
    /// Directly by the kernel.
    Binary,
    /// By the interpreter with this absolute path.
    By(PathBuf),
    /// By the interpreter of this name that `env` looks up; with the path of `env`.
    ByEnv { env: PathBuf, name: OsString },
    /// The file cannot be started; with the reason.
    Never(&'static str),
}

/// Parses the beginning of a file. An `env` line that only sets variables is started by `env` alone.
pub(super) fn start(head: &[u8]) -> Start {
    if head.starts_with(b"\x7fELF") {
        return Start::Binary;
    }
    let Some(rest) = head.strip_prefix(b"#!") else {
        return Start::Never("it is neither a program for Linux nor a script that begins with #!");
    };
    let rest = &rest[..rest.len().min(FIRST_LINE_LEN - 2)];
    let ends = rest.iter().position(|b| *b == b'\n');
    if ends.is_none() && rest.len() == FIRST_LINE_LEN - 2 && !rest.trim_ascii().contains(&b' ') {
        return Start::Never("its first line is longer than the 255 bytes that the kernel reads");
    }
    let line = rest[..ends.unwrap_or(rest.len())].trim_ascii();
    let split = line.iter().position(u8::is_ascii_whitespace).unwrap_or(line.len());
    let (interpreter, argument) = (&line[..split], line[split..].trim_ascii());
    if interpreter.is_empty() {
        return Start::Never("its first line names no interpreter after #!");
    }
    if interpreter[0] != b'/' {
        return Start::Never("its first line names an interpreter without an absolute path");
    }
    let interpreter = PathBuf::from(OsStr::from_bytes(interpreter));
    if interpreter.file_name() == Some(OsStr::new("env")) {
        return match looked_up(argument) {
            Some(name) => Start::ByEnv { env: interpreter, name },
            None => Start::By(interpreter),
        };
    }
    match long_path(head) {
        Some(real) if interpreter.ends_with("sh") => Start::By(real),
        _ => Start::By(interpreter),
    }
}

/// The argument that the kernel passes to the interpreter of [`Start::By`], before the script.
pub(super) fn argument(head: &[u8]) -> Option<OsString> {
    let line = head.strip_prefix(b"#!")?.split(|b| *b == b'\n').next()?.trim_ascii();
    let split = line.iter().position(u8::is_ascii_whitespace)?;
    let is_long = line[..split].ends_with(b"sh") && long_path(head).is_some();
    (!is_long).then(|| OsString::from_vec(line[split..].trim_ascii().to_vec()))
}

/// Parses the program from the arguments of `env`: `NAME`, `-S NAME ARG…`, `-S A=1 NAME`, `-i NAME`.
fn looked_up(argument: &[u8]) -> Option<OsString> {
    let (words, split) = match argument.strip_prefix(b"-S") {
        Some(rest) => (rest, true),
        None => match argument.strip_prefix(b"--split-string") {
            Some(rest) => (rest.strip_prefix(b"=").unwrap_or(rest), true),
            // Without -S the kernel passes the whole rest as one argument, including spaces.
            None => (argument, false),
        },
    };
    if !split {
        let plain = !words.is_empty() && !words.starts_with(b"-") && !words.contains(&b'=');
        return plain.then(|| OsString::from_vec(words.to_vec()));
    }
    words
        .split(u8::is_ascii_whitespace)
        .map(|w| w.strip_prefix(b"\"").and_then(|w| w.strip_suffix(b"\"")).unwrap_or(w))
        .find(|w| !w.is_empty() && !w.starts_with(b"-") && !w.contains(&b'='))
        .map(|w| OsString::from_vec(w.to_vec()))
}

/// The interpreter in the two lines `#!/bin/sh` and `'''exec' /its/path "$0" "$@"`, which Python installers
/// write where a path is too long for a first line or contains spaces.
fn long_path(head: &[u8]) -> Option<PathBuf> {
    let line = head.split(|b| *b == b'\n').nth(1)?;
    let rest = line.strip_prefix(b"'''exec' ")?.trim_ascii_start();
    let path = if let Some(quoted) = rest.strip_prefix(b"\"") {
        &quoted[..quoted.iter().position(|b| *b == b'"')?]
    } else if let Some(quoted) = rest.strip_prefix(b"'") {
        &quoted[..quoted.iter().position(|b| *b == b'\'')?]
    } else {
        &rest[..rest.iter().position(|b| *b == b' ')?]
    };
    path.starts_with(b"/").then(|| PathBuf::from(OsStr::from_bytes(path)))
}

#[cfg(test)]
mod tests {
    use super::*;

    fn by(path: &str) -> Start {
        Start::By(path.into())
    }

    fn env(name: &str) -> Start {
        Start::ByEnv { env: "/usr/bin/env".into(), name: name.into() }
    }

    #[test]
    fn program_start_is_read_from_file_head() {
        let long = format!("#!/{}\n", "x".repeat(300));
        let long_with_argument = format!("#!/bin/x {}\n", "x".repeat(300));
        for (head, want) in [
            ("\x7fELF\x02", Start::Binary),
            ("#!/bin/sh", by("/bin/sh")),
            ("#! /bin/sh -e\n", by("/bin/sh")),
            ("#!/bin/sh\r\n", by("/bin/sh")),
            ("#!/usr/bin/env python3\n", env("python3")),
            ("#!/usr/bin/env -S node --flag\n", env("node")),
            ("#!/usr/bin/env -S A=1 -i deno run\n", env("deno")),
            ("#!/usr/bin/env -Suv run\n", env("uv")),
            ("#!/usr/bin/env --split-string=uv run\n", env("uv")),
            ("#!/usr/bin/env\n", by("/usr/bin/env")),
            ("#!/usr/bin/env A=1\n", by("/usr/bin/env")),
            ("#!/usr/bin/env python3 -u\n", env("python3 -u")),
            ("#!/bin/sh\n'''exec' \"/a b/python\" \"$0\" \"$@\"\n", by("/a b/python")),
            ("#!/bin/sh\n'''exec' /ab/python \"$0\" \"$@\"\n", by("/ab/python")),
            ("#!/bin/sh\n'''exec' ab/python \"$0\" \"$@\"\n", by("/bin/sh")),
            (&long_with_argument, by("/bin/x")),
        ] {
            assert_eq!(start(head.as_bytes()), want, "{head}");
        }
        for head in ["", "#!", "#!\n", "#!  \n", "#!python\n", "echo hello\n", &long] {
            assert!(matches!(start(head.as_bytes()), Start::Never(_)), "{head}");
        }
    }

    proptest::proptest! {
        #[test]
        fn arbitrary_file_heads_cause_no_panic(tail in proptest::collection::vec(proptest::num::u8::ANY, 0..600)) {
            let mut head = b"#!".to_vec();
            head.extend(&tail);
            let _ = start(&head);
            let _ = start(&tail);
            head.splice(0..0, *b"#!/bin/sh\n'''exec' ");
            let _ = start(&head);
        }
    }
}
