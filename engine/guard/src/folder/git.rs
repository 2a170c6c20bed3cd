//! git's own files: objects, packs, indexes, references and logs. Each is recognised by its name and its
//! format; other files in `.git` are read like any file.

use std::fs::File;
use std::io;
use std::os::unix::fs::FileExt;
use std::path::{Component, Path, PathBuf};

use sha2::{Digest, Sha256};

use crate::ingest::{ends_in_a_zip, is_text};

/// Samples of hooks distributed with git since 2014, by sha256.
const SAMPLES: &str = include_str!("samples.txt");

/// Maximum size of a file that is read completely to check its format, in bytes: references, logs, and most
/// objects.
const MAX_WHOLE_BYTES: u64 = 4 << 20;
/// Number of bytes read at the beginning of a longer file.
const HEAD_LEN: usize = 16 << 10;
/// Number of bytes read at its end: an appended zip has its end record there.
const TAIL_LEN: usize = 22 + 65_535;

/// Kind of file according to its name.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum Form {
    /// A loose object: zlib.
    Object,
    /// A file that begins with these bytes.
    Magic(&'static [u8]),
    /// One digest, or the name of another reference.
    Reference,
    /// Digests with the names of references.
    PackedReferences,
    /// Lines with two digests, user, time, and action.
    Log,
    /// A sample hook that git copies into each repository, and does not run.
    Sample,
}

/// The git folder that contains a file, and its kind according to its name.
fn named(path: &Path) -> Option<(PathBuf, Form)> {
    let names: Vec<&str> = path
        .components()
        .map(|part| if let Component::Normal(name) = part { name.to_str() } else { None })
        .collect::<Option<_>>()?;
    let at = names.iter().rposition(|name| *name == ".git")?;
    let mut own = &names[at + 1..];
    // Folders of submodules and additional work trees are git folders themselves.
    loop {
        own = match own {
            ["worktrees", _, rest @ ..] => rest,
            ["modules", _, rest @ ..] => {
                let begins =
                    |name: &&str| matches!(*name, "objects" | "refs" | "logs" | "modules" | "worktrees");
                let depth = rest.iter().position(begins).unwrap_or(rest.len().saturating_sub(1));
                &rest[depth..]
            }
            _ => break,
        };
    }
    let form = match own {
        ["objects", two, rest] if two.len() == 2 && is_hex(two) && is_digest_without(rest, 2) => Form::Object,
        ["objects", "pack", "multi-pack-index"] => Form::Magic(b"MIDX"),
        ["objects", "pack", name] => of_pack(name)?,
        ["objects", "info", "commit-graph"] => Form::Magic(b"CGPH"),
        ["objects", "info", "commit-graphs", name] if name.ends_with(".graph") => Form::Magic(b"CGPH"),
        ["index"] => Form::Magic(b"DIRC\0\0\0"),
        [name] if name.strip_prefix("sharedindex.").is_some_and(is_digest) => Form::Magic(b"DIRC\0\0\0"),
        ["packed-refs"] => Form::PackedReferences,
        ["refs", _, ..] => Form::Reference,
        [name] if *name == "HEAD" || name.ends_with("_HEAD") => Form::Reference,
        ["logs", _, ..] => Form::Log,
        ["hooks", name] if name.ends_with(".sample") => Form::Sample,
        _ => return None,
    };
    Some((names[..=at].iter().collect(), form))
}

fn of_pack(name: &str) -> Option<Form> {
    let (digest, ending) = name.strip_prefix("pack-")?.split_once('.')?;
    let magic: &[u8] = match ending {
        "pack" => b"PACK\0\0\0",
        "idx" => b"\xfftOc",
        "rev" => b"RIDX",
        "bitmap" => b"BITM",
        "mtimes" => b"MTME",
        _ => return None,
    };
    is_digest(digest).then_some(Form::Magic(magic))
}

fn is_hex(text: &str) -> bool {
    text.bytes().all(|b| b.is_ascii_digit() || (b'a'..=b'f').contains(&b))
}

fn is_digest(text: &str) -> bool {
    is_digest_without(text, 0)
}

/// True for a digest without its first letters, which are in the folder's name.
fn is_digest_without(text: &str, letters: usize) -> bool {
    [40, 64].contains(&(text.len() + letters)) && is_hex(text)
}

/// The git folder that this is an own file of; `None` for any other file. `open` is called only when the name
/// matches.
pub(super) fn folder_of(path: &Path, open: &dyn Fn(&Path) -> Option<File>) -> Option<PathBuf> {
    let (folder, form) = named(path)?;
    let (head, tail) = open(path).and_then(|file| ends(&file).ok())?;
    has(form, &head, tail.as_deref()).then_some(folder)
}

/// A file's beginning, and its end unless the beginning contains it.
fn ends(file: &File) -> io::Result<(Vec<u8>, Option<Vec<u8>>)> {
    let size = file.metadata()?.len();
    let read = |length: usize, from: u64| {
        let mut bytes = vec![0; length];
        file.read_exact_at(&mut bytes, from).map(|()| bytes)
    };
    match usize::try_from(size) {
        Ok(length) if size <= MAX_WHOLE_BYTES => Ok((read(length, 0)?, None)),
        _ => Ok((read(HEAD_LEN, 0)?, Some(read(TAIL_LEN, size - TAIL_LEN as u64)?))),
    }
}

fn has(form: Form, head: &[u8], tail: Option<&[u8]>) -> bool {
    // Python and Java run a zip by its end, whatever precedes it.
    let binary = || !ends_in_a_zip(tail.unwrap_or(head));
    match form {
        // A parser of text would reject such a file; a zlib header alone can be text.
        Form::Object => matches!(head, [0x78, 0x01 | 0x5e | 0x9c | 0xda, ..]) && !is_text(head) && binary(),
        Form::Magic(magic) => head.starts_with(magic) && !is_text(head) && binary(),
        _ if tail.is_some() => false,
        Form::Sample => {
            let digest = hex::encode(Sha256::digest(head));
            SAMPLES.lines().any(|line| line == digest)
        }
        Form::Reference => {
            text(head).is_some_and(|text| text.lines().count() == 1 && is_reference(text.trim_end()))
        }
        Form::PackedReferences => text(head).is_some_and(|text| text.lines().all(is_packed)),
        Form::Log => text(head).is_some_and(|text| text.lines().all(is_logged)),
    }
}

fn text(bytes: &[u8]) -> Option<&str> {
    std::str::from_utf8(bytes).ok().filter(|text| !text.is_empty())
}

fn is_reference(line: &str) -> bool {
    is_digest(line) || line.strip_prefix("ref: ").is_some_and(is_name)
}

/// A reference name without special characters of a shell.
fn is_name(name: &str) -> bool {
    name.starts_with("refs/") && name.bytes().all(|b| b.is_ascii_alphanumeric() || b"/._-+@=,#%".contains(&b))
}

fn is_packed(line: &str) -> bool {
    if let Some(peeled) = line.strip_prefix('^') {
        return is_digest(peeled);
    }
    let traits = |text: &str| text.bytes().all(|b| b.is_ascii_alphanumeric() || b" -".contains(&b));
    line.strip_prefix("# pack-refs with:").is_some_and(traits)
        || line.split_once(' ').is_some_and(|(digest, name)| is_digest(digest) && is_name(name))
}

fn is_logged(line: &str) -> bool {
    let (who, _) = line.split_once('\t').unwrap_or((line, ""));
    let mut words = who.splitn(3, ' ');
    let digests = words.by_ref().take(2).filter(|word| is_digest(word)).count() == 2;
    let Some((_, moment)) = words.next().and_then(|rest| rest.rsplit_once("> ")) else { return false };
    let Some((seconds, zone)) = moment.split_once(' ') else { return false };
    let digits = |text: &str| !text.is_empty() && text.bytes().all(|b| b.is_ascii_digit());
    digests && digits(seconds) && zone.strip_prefix(['+', '-']).is_some_and(digits)
}

#[cfg(test)]
mod tests {
    use super::*;

    const ZERO: &str = "0123456789abcdef0123456789abcdef01234567";

    fn own(path: &str, bytes: &[u8]) -> bool {
        let file = tempfile(bytes);
        folder_of(Path::new(path), &|_| file.try_clone().ok()).is_some()
    }

    fn tempfile(bytes: &[u8]) -> File {
        use std::io::Write;
        let path = std::env::temp_dir().join(format!(
            "hotcell-git-{}-{:?}",
            std::process::id(),
            std::thread::current().id()
        ));
        let mut file =
            File::options().read(true).write(true).create(true).truncate(true).open(&path).unwrap();
        std::fs::remove_file(&path).unwrap();
        file.write_all(bytes).unwrap();
        file
    }

    fn honest() -> Vec<(String, Vec<u8>)> {
        let rest = &ZERO[2..];
        let binary =
            |magic: &[u8]| [magic, &[0, 0, 0, 2, 0, 0, 0, 1, 0x9b, 0x81, 0x02, 0x13, 0x07][..]].concat();
        let object =
            [&[0x78, 0x01][..], &[0x4b, 0xca, 0xc9, 0x4f, 0x52, 0x30, 0x04, 0x00, 0x0b, 0x02]].concat();
        let log = format!("{ZERO} {ZERO} A B <a@b.c> 1700000000 +0100\tcommit: rm -rf / && $(x)\n");
        vec![
            (format!("objects/01/{rest}"), object),
            (format!("objects/pack/pack-{ZERO}.pack"), binary(b"PACK")),
            (format!("objects/pack/pack-{ZERO}.idx"), binary(b"\xfftOc")),
            (format!("objects/pack/pack-{ZERO}.rev"), binary(b"RIDX")),
            ("index".into(), binary(b"DIRC")),
            ("HEAD".into(), b"ref: refs/heads/main\n".to_vec()),
            ("ORIG_HEAD".into(), format!("{ZERO}\n").into_bytes()),
            ("refs/heads/a/b".into(), format!("{ZERO}\n").into_bytes()),
            (
                "packed-refs".into(),
                format!("# pack-refs with: peeled fully-peeled sorted \n{ZERO} refs/tags/v1\n^{ZERO}\n")
                    .into_bytes(),
            ),
            ("logs/HEAD".into(), log.into_bytes()),
        ]
    }

    #[test]
    fn git_files_are_recognised_at_every_depth() {
        for place in [
            ".git",
            "a/.git",
            "a/b/.git",
            ".git/modules/x",
            ".git/modules/lib/x",
            ".git/worktrees/w",
            "v/.git/modules/x/modules/y",
        ] {
            for (name, bytes) in honest() {
                assert!(own(&format!("{place}/{name}"), &bytes), "{place}/{name}");
                assert!(
                    !own(&format!("{}/{name}", place.replace(".git", "git")), &bytes),
                    "no folder of git: {name}"
                );
            }
        }
    }

    #[test]
    fn programs_are_not_taken_for_git_files() {
        let programs: [&[u8]; 6] = [
            b"import os\nos.system('id')\n",
            b"#!/bin/sh\nid\n",
            b"x^1 if 0 else 0\nimport os\n",
            b"PACK=1\nid\n",
            b"DIRC=1\nid\n",
            b"ref: refs/heads/main\nid\n",
        ];
        let names = honest().into_iter().map(|(name, _)| name).chain(
            [
                "hooks/pre-commit",
                "hooks/pre-commit.sample",
                "hooks/fsmonitor-watchman.sample",
                "config",
                "evil.py",
                "objects/evil.py",
                "objects/01/evil.py",
                "refs",
                "logs",
                "info/exclude",
            ]
            .map(str::to_owned),
        );
        for name in names {
            for program in programs {
                assert!(
                    !own(&format!(".git/{name}"), program),
                    "{name}: {}",
                    String::from_utf8_lossy(program)
                );
                let behind = format!("{ZERO}\n{}", String::from_utf8_lossy(program));
                assert!(!own(&format!(".git/{name}"), behind.as_bytes()), "{name} behind a digest");
            }
        }
    }

    #[test]
    fn zip_after_git_file_is_not_git_file() {
        let end = [&b"PK\x05\x06"[..], &[0; 18]].concat();
        for (name, bytes) in honest() {
            assert!(!own(&format!(".git/{name}"), &[bytes, end.clone()].concat()), "{name}");
        }
    }
}
