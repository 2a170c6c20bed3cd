//! Installs PyPI packages with the host's pip for the image's Python: wheels only, so that no code of a
//! package runs, exactly the named ones, in the folder that Debian's Python searches first.

use std::fs;
use std::io::{self, Write};
use std::path::{Path, PathBuf};
use std::process::Command;
use std::time::Duration;

use crate::debian::apt::Chosen;
use crate::definition::{Wheel, same_name};
use crate::stream::Digest;
use crate::tarball;
use crate::tool::{self, ToolError};

/// Time limit for downloads of some hundred megabytes.
const DOWNLOAD_TIMEOUT: Duration = Duration::from_secs(30 * 60);
/// Oldest C library that wheels are built for, as 2.N.
const OLDEST_C_LIBRARY: u32 = 5;

/// Files that pip writes about an installation; one of them names the build folder.
const NOTES: &[&str] = &["direct_url.json", "REQUESTED", "INSTALLER"];

/// Reason why PyPI packages cannot be installed.
#[derive(Debug, thiserror::Error)]
pub enum PypiError {
    /// The image has no Python.
    #[error("pypi: the image has no Python to install for; add python3 to debian.packages")]
    NoPython,
    /// pip is missing or fails.
    #[error(transparent)]
    Tool(#[from] ToolError),
    /// The digest of a file is not in the definition.
    #[error(
        "pypi: {name} {version}: the index's file has sha256 {found}, which the definition does not name"
    )]
    Digest {
        /// The package.
        name: String,
        /// Package version.
        version: String,
        /// Digest of the file.
        found: String,
    },
    /// The download has no file for this package and version.
    #[error("pypi: {0} is not among what pip downloaded")]
    Absent(String),
    /// The build folder cannot be read or written.
    #[error("pypi: {0}")]
    Io(#[from] io::Error),
}

/// Platform that wheels have to fit.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Target {
    /// Minor version of Python 3.
    pub python: u32,
    /// Minor version of the C library, version 2.
    pub c_library: u32,
    /// Machine name, as in `uname -m`.
    pub machine: &'static str,
}

impl Target {
    /// Platform of an image with these Debian packages.
    #[must_use]
    pub fn of(chosen: &[Chosen], architecture: &str) -> Option<Self> {
        let python = python_of(chosen)?;
        let libc = chosen.iter().find(|c| c.name == "libc6")?;
        let c_library =
            libc.version.strip_prefix("2.")?.split(|c: char| !c.is_ascii_digit()).next()?.parse().ok()?;
        let machine = match architecture {
            "amd64" => "x86_64",
            "arm64" => "aarch64",
            "armhf" => "armv7l",
            "i386" => "i686",
            "ppc64el" => "ppc64le",
            "riscv64" => "riscv64",
            "s390x" => "s390x",
            _ => return None,
        };
        Some(Self { python, c_library, machine })
    }

    /// pip's options for this platform.
    fn options(&self) -> Vec<String> {
        let version = format!("3{}", self.python);
        let mut options = vec![
            "--only-binary=:all:".to_owned(),
            "--no-deps".to_owned(),
            "--implementation=cp".to_owned(),
            format!("--python-version={version}"),
            format!("--abi=cp{version}"),
            "--abi=abi3".to_owned(),
            "--abi=none".to_owned(),
        ];
        let tags = (OLDEST_C_LIBRARY..=self.c_library).rev().map(|minor| format!("manylinux_2_{minor}"));
        let old = ["manylinux2014", "manylinux2010", "manylinux1"].map(str::to_owned);
        options.extend(tags.chain(old).map(|tag| format!("--platform={tag}_{}", self.machine)));
        options
    }
}

/// Minor version of Python 3 in an image with these Debian packages.
#[must_use]
pub fn python_of(chosen: &[Chosen]) -> Option<u32> {
    chosen.iter().find_map(|c| c.name.strip_prefix("python3.")?.strip_suffix("-minimal")?.parse().ok())
}

/// Writes the packages to `out` at their paths in the image. Returns the names and digests of their files.
///
/// # Errors
/// [`PypiError::Tool`] when pip is missing or fails; [`PypiError::Digest`] or [`PypiError::Absent`] when a
/// file is not the expected one; [`PypiError::Io`] when `work` or `out` cannot be used.
pub fn write<W: Write>(
    wheels: &[Wheel],
    target: &Target,
    work: &Path,
    out: &mut tar::Builder<W>,
) -> Result<Vec<(String, Digest)>, PypiError> {
    let (files, tree) = (work.join("wheels"), work.join("tree"));
    fs::create_dir_all(&files)?;
    let pins: String = wheels.iter().map(|w| format!("{}=={}\n", w.name, w.version)).collect();
    fs::write(work.join("pins.txt"), pins)?;
    let mut download = pip(work)?;
    download
        .arg("download")
        .args(target.options())
        .arg("--dest")
        .arg(&files)
        .arg("-r")
        .arg(work.join("pins.txt"));
    tool::run(download, "pip download", DOWNLOAD_TIMEOUT)?;
    let mut found = Vec::new();
    let names: Vec<PathBuf> = fs::read_dir(&files)?.map(|e| Ok(e?.path())).collect::<io::Result<_>>()?;
    for wheel in wheels {
        let ours = |path: &&PathBuf| {
            path.file_name().and_then(|f| f.to_str()).is_some_and(|f| is_wheel_of(f, wheel))
        };
        let path = names.iter().find(ours).ok_or_else(|| PypiError::Absent(wheel.name.clone()))?;
        let digest = tool::digest(path)?;
        if !wheel.sha256.is_empty() && !wheel.sha256.contains(&digest.hex()) {
            let Wheel { name, version, .. } = wheel.clone();
            return Err(PypiError::Digest { name, version, found: digest.hex() });
        }
        found.push((path.file_name().unwrap_or_default().to_string_lossy().into_owned(), digest));
    }
    let mut install = pip(work)?;
    install
        .args(["install", "--no-index", "--no-compile", "--no-warn-script-location"])
        .args(target.options());
    install.arg("--target").arg(&tree).args(&names);
    tool::run(install, "pip install", DOWNLOAD_TIMEOUT)?;
    let scripts = tree.join("bin");
    if scripts.is_dir() {
        for entry in fs::read_dir(&scripts)? {
            let path = entry?.path();
            let text = fs::read(&path)?;
            fs::write(&path, for_image(&text))?;
        }
        tarball::add(out, &scripts, Path::new("usr/local/bin"), &[])?;
        fs::remove_dir_all(&scripts)?;
    }
    for entry in fs::read_dir(&tree)? {
        let record = entry?.path().join("RECORD");
        if record.is_file() {
            fs::write(&record, without_scripts(&fs::read_to_string(&record)?))?;
        }
    }
    let place = format!("usr/local/lib/python3.{}/dist-packages", target.python);
    tarball::add(out, &tree, Path::new(&place), &[&["__pycache__"], NOTES].concat())?;
    found.sort();
    Ok(found)
}

/// `python3 -m pip`, with the system's Python where it has pip.
fn pip(work: &Path) -> Result<Command, ToolError> {
    let mend = "PyPI packages are installed by pip: apt-get install python3-pip";
    let system = PathBuf::from("/usr/bin/python3");
    let has_pip = |python: &PathBuf| {
        let mut ask = tool::command(python, work, &[]);
        ask.args(["-m", "pip", "--version"]);
        tool::run(ask, "pip --version", DOWNLOAD_TIMEOUT).is_ok()
    };
    let python = match Some(system).filter(has_pip) {
        Some(python) => python,
        None => tool::find("python3", mend)
            .ok()
            .filter(has_pip)
            .ok_or_else(|| ToolError::Missing { name: "pip".to_owned(), mend: mend.to_owned() })?,
    };
    // The user's own configuration, which may name an index.
    let home = std::env::home_dir().unwrap_or_else(|| work.to_owned());
    let mut command = tool::command(&python, &home, &["PIP_", "XDG_CONFIG_"]);
    command
        .args(["-m", "pip", "--disable-pip-version-check", "--no-input", "--no-cache-dir", "-q"])
        .current_dir(work);
    Ok(command)
}

fn is_wheel_of(file: &str, wheel: &Wheel) -> bool {
    let mut parts = file.split('-');
    let name = parts.next().is_some_and(|name| same_name(name) == same_name(&wheel.name));
    name && parts.next().is_some() && file.ends_with(".whl")
}

/// Rewrites a script that starts the host's Python to start the image's.
fn for_image(text: &[u8]) -> Vec<u8> {
    let end = text.iter().position(|b| *b == b'\n').unwrap_or(text.len());
    let first = String::from_utf8_lossy(&text[..end]);
    match first.starts_with("#!") && first.contains("python") {
        true => [b"#!/usr/bin/python3", &text[end..]].concat(),
        false => text.to_owned(),
    }
}

/// A wheel's list of files without the scripts, which are moved elsewhere, and without pip's own files.
fn without_scripts(record: &str) -> String {
    let kept = |line: &&str| {
        let path = line.split(',').next().unwrap_or_default();
        !path.starts_with("../") && !NOTES.iter().any(|note| Path::new(path).ends_with(note))
    };
    record.lines().filter(kept).flat_map(|line| [line, "\n"]).collect()
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn wheels_fit_the_images_python() {
        let chosen = |name: &str, version: &str| Chosen {
            name: name.into(),
            version: version.into(),
            file: String::new(),
            bytes: 0,
            digest: Digest::of(b""),
        };
        let all = [
            chosen("libc6", "2.36-9+deb12u14"),
            chosen("python3.11", "1"),
            chosen("python3.11-minimal", "3.11.2-6"),
        ];
        let target = Target::of(&all, "amd64").unwrap();
        assert_eq!(target, Target { python: 11, c_library: 36, machine: "x86_64" });
        assert_eq!(Target::of(&all[..1], "amd64"), None);
        assert_eq!(Target::of(&all[1..], "amd64"), None);
        assert_eq!(Target::of(&all, "m68k"), None);
        let options = target.options();
        for want in [
            "--abi=cp311",
            "--platform=manylinux_2_36_x86_64",
            "--platform=manylinux1_x86_64",
            "--only-binary=:all:",
        ] {
            assert!(options.iter().any(|o| o == want), "{want}");
        }
        assert!(!options.iter().any(|o| o.contains("2_37")));
    }

    #[test]
    fn files_and_scripts_of_wheels() {
        let wheel = |name: &str| Wheel { name: name.into(), version: "1".into(), sha256: Vec::new() };
        for (file, name, want) in [
            ("pytest-9.2.0-py3-none-any.whl", "pytest", true),
            ("pytest_cov-7.1.0-py3-none-any.whl", "pytest-cov", true),
            ("pytest_cov-7.1.0-py3-none-any.whl", "pytest", false),
            ("pytest-9.2.0.tar.gz", "pytest", false),
        ] {
            assert_eq!(is_wheel_of(file, &wheel(name)), want, "{file} {name}");
        }
        assert_eq!(for_image(b"#!/opt/v/bin/python3.12\nimport x\n"), b"#!/usr/bin/python3\nimport x\n");
        assert_eq!(
            without_scripts("../../bin/a,sha256=x,1\na/b.py,,\na.dist-info/direct_url.json,sha256=y,2\n"),
            "a/b.py,,\n"
        );
        assert_eq!(for_image(b"#!/bin/sh\n"), b"#!/bin/sh\n");
        assert_eq!(for_image(b"\x7fELF"), b"\x7fELF");
    }
}
