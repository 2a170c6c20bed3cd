//! The project's own build results that a run does not need: files that a tool made and can make again are
//! hidden from the run, so that they cannot be executed and need no scan.
//!
//! A row names the tool's folder, the tool's manifest beside it, and a file that the tool itself leaves in
//! the folder; all three must exist. A path that the command names is never hidden.

use std::collections::BTreeSet;
use std::ffi::OsString;
use std::fs::{self, File};
use std::io::{self, Read};
use std::os::unix::ffi::OsStrExt;
use std::os::unix::fs::{MetadataExt, OpenOptionsExt, PermissionsExt};
use std::path::{Path, PathBuf};

use hotcell_sandbox::temporary;
use hotcell_workspace::Folder;
use nix::libc;

/// Maximum depth of folders searched.
const MAX_FOLDER_DEPTH: usize = 6;
/// Maximum number of names examined.
const MAX_NAMES: usize = 50_000;
/// Folders that never hold build results made in place.
const SKIPPED: &[&str] = &[".git", "node_modules", ".venv", "venv"];
/// Extensions of sources that compile to object files.
const SOURCES: &[&str] = &["c", "cc", "cpp", "cxx", "C", "s", "S", "f", "f90", "m", "mm"];
/// First bytes of a `CACHEDIR.TAG`. <https://bford.info/cachedir/>
const TAG: &[u8] = b"Signature: 8a477f597d28d172789f06886806bc55";

/// A folder that a tool owns.
struct Row {
    name: &'static str,
    tool: &'static str,
    /// One of these files is beside the folder; `*` begins a suffix.
    beside: &'static [&'static str],
    /// One of these files is in the folder.
    inside: &'static [&'static str],
}

const ROWS: &[Row] = &[
    Row { name: "target", tool: "cargo", beside: &["Cargo.toml"], inside: &["CACHEDIR.TAG"] },
    Row { name: "target", tool: "maven", beside: &["pom.xml"], inside: &["maven-status", "maven-archiver"] },
    Row {
        name: "build",
        tool: "gradle",
        beside: &["build.gradle", "build.gradle.kts"],
        inside: &["classes", "tmp", "test-results"],
    },
    Row {
        name: ".gradle",
        tool: "gradle",
        beside: &["build.gradle", "build.gradle.kts", "settings.gradle", "settings.gradle.kts"],
        inside: &["buildOutputCleanup", "vcs-1"],
    },
    Row { name: "*", tool: "cmake", beside: &["CMakeLists.txt"], inside: &["CMakeCache.txt"] },
    Row { name: "*", tool: "meson", beside: &["meson.build"], inside: &["meson-private"] },
    Row { name: "zig-out", tool: "zig", beside: &["build.zig"], inside: &["bin", "lib"] },
    Row { name: ".zig-cache", tool: "zig", beside: &["build.zig"], inside: &["o"] },
    Row { name: "obj", tool: "dotnet", beside: &["*.csproj", "*.fsproj"], inside: &["project.assets.json"] },
    Row { name: ".build", tool: "swift", beside: &["Package.swift"], inside: &["debug", "release"] },
    Row { name: "_build", tool: "mix", beside: &["mix.exs"], inside: &["dev", "test", "prod"] },
    Row { name: "_build", tool: "dune", beside: &["dune-project"], inside: &["log"] },
    Row { name: "dist-newstyle", tool: "cabal", beside: &["*.cabal", "cabal.project"], inside: &["cache"] },
    Row { name: ".stack-work", tool: "stack", beside: &["stack.yaml"], inside: &["install", "dist"] },
];

/// A hidden file or folder.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Hidden {
    /// Path relative to the project.
    pub path: PathBuf,
    /// Tool that makes it.
    pub tool: &'static str,
    is_folder: bool,
}

/// Paths of a project that are hidden from a command.
pub fn hidden(project: &Path, words: &[OsString]) -> Vec<Hidden> {
    let mut found = Vec::new();
    let mut names = 0;
    look(project, Path::new(""), 0, &mut names, &mut found);
    found.retain(|hidden: &Hidden| {
        let name = hidden.path.file_name().unwrap_or_default().as_bytes();
        !words.iter().any(|word| names_it(word.as_bytes(), name))
    });
    found
}

/// Tells if an argument contains this name as a separate word.
fn names_it(word: &[u8], name: &[u8]) -> bool {
    let ends = |byte: Option<&u8>| byte.is_none_or(|b| !(b.is_ascii_alphanumeric() || b"_-.".contains(b)));
    word.windows(name.len().max(1)).enumerate().any(|(at, window)| {
        // `./x` and `*.x` name it, too.
        let before = at.checked_sub(1).and_then(|at| word.get(at));
        window == name && (ends(before) || before == Some(&b'.')) && ends(word.get(at + name.len()))
    })
}

fn look(project: &Path, folder: &Path, depth: usize, names: &mut usize, found: &mut Vec<Hidden>) {
    let Ok(entries) = fs::read_dir(project.join(folder)) else { return };
    let mut all: Vec<(String, bool, bool)> = Vec::new();
    for entry in entries.flatten() {
        *names += 1;
        if *names > MAX_NAMES {
            return;
        }
        let (Ok(name), Ok(kind)) = (entry.file_name().into_string(), entry.file_type()) else { continue };
        all.push((name, kind.is_dir(), kind.is_file()));
    }
    all.sort();
    let files: BTreeSet<&str> =
        all.iter().filter(|(.., file)| *file).map(|(name, ..)| name.as_str()).collect();
    let beside = |wanted: &str| match wanted.strip_prefix('*') {
        Some(ending) => files.iter().any(|name| name.ends_with(ending)),
        None => files.contains(wanted),
    };
    for (name, is_folder, is_file) in &all {
        let path = folder.join(name);
        if *is_folder {
            let inside = |wanted: &str| {
                let own = project.join(&path).join(wanted);
                own.symlink_metadata().is_ok_and(|data| !data.is_symlink())
                    && (wanted != "CACHEDIR.TAG" || is_tag(&own))
            };
            // With the tool's manifest inside, this is a source folder.
            let is_source = |row: &Row| row.name == "*" && row.beside.iter().any(|wanted| inside(wanted));
            let row = ROWS.iter().find(|row| {
                (row.name == "*" && !is_source(row) || row.name == name)
                    && row.beside.iter().any(|wanted| beside(wanted))
                    && row.inside.iter().any(|wanted| inside(wanted))
            });
            match row {
                Some(row) => found.push(Hidden { path, tool: row.tool, is_folder: true }),
                None if depth < MAX_FOLDER_DEPTH && !SKIPPED.contains(&name.as_str()) => {
                    look(project, &path, depth + 1, names, found);
                }
                None => {}
            }
        } else if *is_file && let Some(tool) = made(project, folder, name, &files) {
            found.push(Hidden { path, tool, is_folder: false });
        }
    }
}

fn is_tag(path: &Path) -> bool {
    head(path, TAG.len()).is_some_and(|head| head == TAG)
}

/// Beginning of a regular file. The project is as untrusted as its code: a pipe in place of a file must not block, and a link is not followed.
fn head(path: &Path, most: usize) -> Option<Vec<u8>> {
    let flags = libc::O_NONBLOCK | libc::O_NOFOLLOW | libc::O_NOCTTY;
    let file = File::options().read(true).custom_flags(flags).open(path).ok()?;
    if !file.metadata().ok()?.is_file() {
        return None;
    }
    let mut bytes = Vec::new();
    file.take(most as u64).read_to_end(&mut bytes).ok()?;
    Some(bytes)
}

/// The tool that made this file of machine code beside its manifest: an object beside its source, or a
/// program that the manifest names.
fn made(project: &Path, folder: &Path, name: &str, files: &BTreeSet<&str>) -> Option<&'static str> {
    const MAKEFILES: [&str; 3] = ["GNUmakefile", "makefile", "Makefile"];
    let makefile = MAKEFILES.iter().find(|own| files.contains(*own));
    let object = name.strip_suffix(".o").or_else(|| name.strip_suffix(".lo"));
    let has_source =
        |stem: &str| SOURCES.iter().any(|ending| files.contains(format!("{stem}.{ending}").as_str()));
    // Only names without a dot: shared libraries stay visible.
    let is_program =
        object.is_none() && !name.contains('.') && (makefile.is_some() || files.contains("go.mod"));
    if !(object.is_some_and(has_source) && makefile.is_some() || is_program) {
        return None;
    }
    let own = project.join(folder).join(name);
    if head(&own, 4).is_none_or(|head| head != b"\x7fELF") {
        return None;
    }
    if object.is_some() {
        return Some("make");
    }
    let text = |file: &str| {
        head(&project.join(folder).join(file), 1 << 20).map(|b| String::from_utf8_lossy(&b).into_owned())
    };
    let is_module = || {
        let module = text("go.mod")?
            .lines()
            .find_map(|line| line.strip_prefix("module ").map(|m| m.trim().to_owned()))?;
        Some(module.rsplit('/').next() == Some(name))
    };
    if files.contains("go.mod") && is_module() == Some(true) {
        return Some("go");
    }
    let is_target = |line: &str| {
        !line.starts_with(['\t', ' ', '#'])
            && line
                .split_once(':')
                .is_some_and(|(targets, _)| targets.split_whitespace().any(|target| target == name))
    };
    makefile.and_then(|file| text(file)).filter(|text| text.lines().any(is_target)).map(|_| "make")
}

/// Creates a layer that hides these paths: empty folders over folders, whiteouts over files.
pub fn layer(project: &Path, hidden: &[Hidden]) -> io::Result<tempfile::TempDir> {
    let made = temporary::folder()?;
    let owner = |path: &Path| {
        project.join(path).symlink_metadata().map(|data| (data.uid(), data.gid(), data.mode() & 0o7777))
    };
    let layer = Folder::ours(made.path())?;
    let copy = |path: &Path| -> io::Result<()> {
        let (uid, gid, mode) = owner(path)?;
        let own = made.path().join(path);
        fs::set_permissions(&own, fs::Permissions::from_mode(mode & 0o777))?;
        layer.own(path, (uid, gid))
    };
    let (uid, gid, mode) = owner(Path::new(""))?;
    fs::set_permissions(made.path(), fs::Permissions::from_mode(mode & 0o777 | 0o700))?;
    layer.own(Path::new(""), (uid, gid))?;
    for Hidden { path, is_folder, .. } in hidden {
        let above: Vec<&Path> =
            path.ancestors().skip(1).filter(|above| !above.as_os_str().is_empty()).collect();
        for folder in above.into_iter().rev() {
            if layer.node(folder)?.is_none() {
                layer.make(folder, 0o700)?;
                copy(folder)?;
            }
        }
        if *is_folder {
            layer.make(path, 0o700)?;
            layer.set_opaque(path)?;
            copy(path)?;
        } else {
            layer.whiteout(path)?;
        }
    }
    Ok(made)
}

/// One line for people.
pub fn sentence(hidden: &[Hidden]) -> Option<String> {
    let first = hidden.first()?;
    let more = match hidden.len() {
        1 => String::new(),
        more => format!(", and {} more", more - 1),
    };
    Some(format!(
        "{} was built before by {} and is hidden from the run{more}; name it in the command to show it",
        first.path.display(),
        first.tool
    ))
}

#[cfg(test)]
mod tests {
    use super::*;

    fn found(files: &[(&str, &[u8])], words: &[&str]) -> Vec<String> {
        let dir = tempfile::tempdir().unwrap();
        for (name, bytes) in files {
            fs::create_dir_all(dir.path().join(name).parent().unwrap()).unwrap();
            fs::write(dir.path().join(name), bytes).unwrap();
        }
        let words: Vec<OsString> = words.iter().map(OsString::from).collect();
        let all = hidden(dir.path(), &words);
        all.into_iter().map(|one| format!("{} {}", one.tool, one.path.display())).collect()
    }

    #[test]
    fn pipes_and_links_in_place_of_files_are_not_waited_for() {
        let dir = tempfile::tempdir().unwrap();
        let at = |name: &str| dir.path().join(name);
        fs::create_dir(at("target")).unwrap();
        fs::write(at("Cargo.toml"), "").unwrap();
        nix::unistd::mkfifo(&at("target/CACHEDIR.TAG"), nix::sys::stat::Mode::S_IRWXU).unwrap();
        assert_eq!(hidden(dir.path(), &[]), []);
        assert_eq!(head(&at("target/CACHEDIR.TAG"), 9), None);
        fs::write(at("tag"), TAG).unwrap();
        std::os::unix::fs::symlink(at("tag"), at("link")).unwrap();
        assert_eq!((head(&at("link"), 9), head(dir.path(), 9)), (None, None));
        assert_eq!(head(&at("tag"), 9).as_deref(), Some(&TAG[..9]));
    }

    #[test]
    fn build_folder_beside_manifest_is_hidden() {
        let elf = b"\x7fELF\x02".as_slice();
        let cargo: &[(&str, &[u8])] =
            &[("Cargo.toml", b""), ("target/CACHEDIR.TAG", TAG), ("target/debug/x", elf)];
        for (files, words, want) in [
            (cargo, &["ls"][..], &["cargo target"][..]),
            (cargo, &["cargo", "test"], &["cargo target"]),
            (cargo, &["./target/debug/x"], &[]),
            (cargo, &["sh", "-c", "ls target"], &[]),
            (cargo, &["ls", "targets", "a.target-b"], &["cargo target"]),
            (&[("target/CACHEDIR.TAG", TAG)], &["ls"], &[]),
            (&[("Cargo.toml", b""), ("target/CACHEDIR.TAG", b"x")], &["ls"], &[]),
            (&[("a/Cargo.toml", b""), ("a/target/CACHEDIR.TAG", TAG)], &["ls"], &["cargo a/target"]),
            (&[("CMakeLists.txt", b""), ("out/CMakeCache.txt", b"")], &["ls"], &["cmake out"]),
            (
                &[("Makefile", b"x: m.o\n"), ("m.c", b""), ("m.o", elf), ("x", elf), ("y", elf)],
                &["ls"],
                &["make m.o", "make x"],
            ),
            (&[("Makefile", b"x: m.o\n"), ("m.o", elf)], &["ls"], &[]),
            (&[("Makefile", b""), ("m.c", b""), ("m.o", b"#!/bin/sh\n")], &["ls"], &[]),
            (&[("go.mod", b"module a/app\n"), ("app", elf), ("other", elf)], &["ls"], &["go app"]),
            (&[("go.mod", b"module a/app\n"), ("app", elf)], &["./app"], &[]),
            (&[("setup.py", b""), ("a.so", elf), ("node_modules/a/target/CACHEDIR.TAG", TAG)], &["ls"], &[]),
        ] {
            assert_eq!(
                found(files, words),
                want,
                "{words:?} {:?}",
                files.iter().map(|f| f.0).collect::<Vec<_>>()
            );
        }
    }
}
