//! Lock files: the registries of their packages, and the installer. Pure; the project is hostile.

use std::collections::{BTreeMap, BTreeSet};
use std::ffi::OsString;
use std::path::{Component, Path, PathBuf};

use hotcell_testing::Project;
use serde::Deserialize;
use sha2::{Digest, Sha256};

use super::cargo::Ahead;

/// Folder for installed packages, below the project. Nothing in it reaches the original.
pub const MADE: &str = ".hotcell-deps";
/// Files that `pip` reads, in order of precedence; all existing ones are installed together.
const REQUIREMENTS: [&str; 6] = [
    "requirements.txt",
    "requirements-dev.txt",
    "requirements_dev.txt",
    "dev-requirements.txt",
    "requirements-test.txt",
    "test-requirements.txt",
];
/// Maximum size of a lock file, in bytes.
const MAX_LOCK_BYTES: u64 = 16 << 20;
/// Maximum number of manifests for an installer; below, their maximum total size in bytes.
const MAX_MANIFESTS: usize = 4000;
pub(crate) const MAX_MANIFEST_BYTES: usize = 32 << 20;
/// Version of the cached data; data of another version is installed again.
const FORM: &str = "3";

/// Program that installs packages.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord)]
pub enum Installer {
    /// `npm ci`
    Npm,
    /// `pip install`
    Pip,
    /// `cargo fetch`
    Cargo,
    /// `go mod download`
    Go,
}

/// Plan to install the contents of a lock file.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Plan {
    /// Installer.
    pub installer: Installer,
    /// Lock files.
    pub locks: Vec<String>,
    /// Digest of the request: sha256, in hexadecimal, of the lock files and everything else that affects the
    /// result.
    pub digest: String,
    /// Registries, as `HOST:443`.
    pub hosts: BTreeSet<String>,
    /// Installer and its arguments; it starts in the project.
    pub argv: Vec<OsString>,
    /// Variables of the installer.
    pub env: Vec<(OsString, OsString)>,
    /// All files that it sees, by path: other files of the project cannot change its result.
    pub files: BTreeMap<String, Vec<u8>>,
    /// Output of the installer, in the same folder.
    pub made: PathBuf,
    /// Folders of the project's packages that its tool would install in editable mode; the project itself is
    /// the empty path.
    pub own: Vec<PathBuf>,
    /// How to compile the packages before the tests, if that takes long.
    pub ahead: Option<Ahead>,
}

/// Why a lock file is not installed.
#[derive(Clone, Debug, PartialEq, Eq, thiserror::Error)]
#[error("{file}: {why}")]
pub struct LockError {
    /// File.
    pub file: String,
    /// Problem, and what to do about it.
    pub why: String,
}

/// Plans for the known lock files of a project; may be empty.
///
/// # Errors
/// A lock file that is broken, or names a package that is not from a registry.
pub fn plans(project: &dyn Project) -> Result<Vec<Plan>, LockError> {
    let mut plans = Vec::new();
    if let Some(file) =
        ["package-lock.json", "npm-shrinkwrap.json"].into_iter().find(|file| project.has(file))
    {
        plans.push(npm(project, file)?);
    }
    let requirements: Vec<&str> = REQUIREMENTS.into_iter().filter(|file| project.has(file)).collect();
    // The lock file of the project's own tool is more complete than exported requirements.
    match super::python::locked(project) {
        Some(Ok(plan)) => plans.push(plan),
        // If that fails, the exported requirements are used.
        Some(Err(error)) if requirements.is_empty() => return Err(error),
        Some(Err(error)) => match pip(project, &requirements) {
            Ok(plan) => {
                tracing::warn!("requirements are installed in place of what is locked: {error}");
                plans.push(plan);
            }
            Err(_) => return Err(error),
        },
        None if requirements.is_empty() => {}
        None => plans.push(pip(project, &requirements)?),
    }
    if project.has("Cargo.lock") {
        plans.push(super::cargo::plan(project)?);
    }
    plans.extend(super::golang::plan(project)?);
    Ok(plans)
}

impl Installer {
    /// Name of the installer.
    #[must_use]
    pub const fn name(self) -> &'static str {
        match self {
            Self::Npm => "npm",
            Self::Pip => "pip",
            Self::Cargo => "cargo",
            Self::Go => "go",
        }
    }

    pub(crate) fn plan(
        self,
        locks: &[&str],
        files: BTreeMap<String, Vec<u8>>,
        hosts: BTreeSet<String>,
        words: &[&str],
        made: &str,
    ) -> Plan {
        let mut hash = Sha256::new();
        let own = [FORM, self.name(), std::env::consts::ARCH].map(str::as_bytes);
        let theirs = files.iter().flat_map(|(name, text)| [name.as_bytes(), text.as_slice()]);
        for part in own.into_iter().chain(theirs) {
            hash.update((part.len() as u64).to_le_bytes());
            hash.update(part);
        }
        let hex = hex::encode(hash.finalize());
        Plan {
            installer: self,
            locks: locks.iter().map(|lock| (*lock).to_owned()).collect(),
            digest: hex,
            hosts,
            argv: words.iter().map(OsString::from).collect(),
            env: Vec::new(),
            files,
            made: made.into(),
            own: Vec::new(),
            ahead: None,
        }
    }
}

pub(crate) fn bad(file: &str, why: impl Into<String>) -> LockError {
    LockError { file: file.to_owned(), why: why.into() }
}

/// True when a path leads below its base folder.
pub fn is_below(path: &str) -> bool {
    Path::new(path).components().all(|part| matches!(part, Component::Normal(_)))
}

/// Adds a file of the project to the installer's files.
pub fn add(
    files: &mut BTreeMap<String, Vec<u8>>,
    project: &dyn Project,
    file: String,
) -> Result<(), LockError> {
    if !is_below(&file) {
        return Err(bad(&file, "is no path below the project"));
    }
    let bytes = text(project, &file)?;
    put(files, file, bytes)
}

/// Adds a file to the installer's files.
pub fn put(files: &mut BTreeMap<String, Vec<u8>>, file: String, bytes: Vec<u8>) -> Result<(), LockError> {
    let all: usize = files.values().map(Vec::len).sum();
    if files.len() >= MAX_MANIFESTS || all + bytes.len() > MAX_MANIFEST_BYTES {
        return Err(bad(
            &file,
            format!(
                "is one too many: at most {MAX_MANIFESTS} manifests of {} MiB are installed",
                MAX_MANIFEST_BYTES >> 20
            ),
        ));
    }
    files.insert(file, bytes);
    Ok(())
}

pub(crate) fn text(project: &dyn Project, file: &str) -> Result<Vec<u8>, LockError> {
    let bytes = project
        .read_more(file, MAX_LOCK_BYTES + 1)
        .ok_or_else(|| bad(file, "cannot be read; it must be a file of the project's"))?;
    match bytes.len() as u64 > MAX_LOCK_BYTES {
        true => {
            Err(bad(file, format!("is longer than {} MiB, of which nothing is read", MAX_LOCK_BYTES >> 20)))
        }
        false => Ok(bytes),
    }
}

/// Host of an https address, as an egress rule.
pub fn host(file: &str, address: &str) -> Result<String, LockError> {
    let rest = address.strip_prefix("https://").ok_or_else(|| {
        bad(file, format!("{address:.200} is not of a registry that is reached by https; only those are"))
    })?;
    let host = rest.split(['/', '?', '#']).next().unwrap_or_default();
    let plain = !host.is_empty() && host.bytes().all(|b| b.is_ascii_alphanumeric() || b"-.".contains(&b));
    match plain {
        true => Ok(format!("{}:443", host.to_ascii_lowercase())),
        false => {
            Err(bad(file, format!("{address:.200} names no plain host; only https://HOST/… is fetched")))
        }
    }
}

#[derive(Deserialize)]
struct NpmLock {
    #[serde(rename = "lockfileVersion")]
    version: u32,
    #[serde(default)]
    packages: BTreeMap<String, NpmPackage>,
}

#[derive(Deserialize)]
struct NpmPackage {
    #[serde(default)]
    resolved: Option<String>,
    #[serde(default)]
    integrity: Option<String>,
    #[serde(default)]
    link: bool,
    /// True when it is contained in the archive of a package above it.
    #[serde(default, rename = "inBundle")]
    in_bundle: bool,
}

/// Plan for a lock file of npm. <https://docs.npmjs.com/cli/configuring-npm/package-lock-json>
fn npm(project: &dyn Project, file: &str) -> Result<Plan, LockError> {
    let lock_text = text(project, file)?;
    let package = text(project, "package.json")?;
    let lock: NpmLock = serde_json::from_slice(&lock_text)
        .map_err(|e| bad(file, format!("is no lock file: {e}; a very long one is not read")))?;
    if lock.version < 2 {
        return Err(bad(file, "is of version 1; make it anew with npm 7 or later"));
    }
    let mut hosts = BTreeSet::new();
    let mut files = BTreeMap::from([(file.to_owned(), lock_text), ("package.json".to_owned(), package)]);
    for (name, package) in &lock.packages {
        if name.is_empty() || package.link {
            continue;
        }
        // A workspace package of the project.
        if !name.split('/').any(|part| part == "node_modules") {
            if name.split('/').any(|part| part.is_empty() || part == ".") {
                return Err(bad(file, format!("{name:.200} is no plain path")));
            }
            let own = format!("{name}/package.json");
            add(&mut files, project, own)?;
            continue;
        }
        // Not fetched by itself: the digest of the package above covers it.
        if package.in_bundle && package.integrity.is_none() && package.resolved.is_none() {
            if !comes_in_another(&lock.packages, name) {
                return Err(bad(
                    file,
                    format!(
                        "{name:.200} is said to come in the archive of a package above it, and none with a digest is there"
                    ),
                ));
            }
            continue;
        }
        if package.integrity.is_none() {
            return Err(bad(
                file,
                format!("{name:.200} has no digest; only packages of registries are installed"),
            ));
        }
        hosts.insert(match &package.resolved {
            Some(address) => host(file, address)?,
            // npm's default when the lock file omits the address.
            None => "registry.npmjs.org:443".to_owned(),
        });
    }
    let words = [
        "npm",
        "ci",
        "--ignore-scripts",
        "--no-audit",
        "--no-fund",
        "--no-update-notifier",
        "--loglevel=error",
        // A denied request is not worth a retry.
        "--fetch-retries=1",
    ];
    let mut plan = Installer::Npm.plan(&[file], files, hosts, &words, "node_modules");
    plan.env.push(("npm_config_cache".into(), "/tmp/npm".into()));
    Ok(plan)
}

/// True when a package is below one that is fetched, with a digest.
fn comes_in_another(packages: &BTreeMap<String, NpmPackage>, name: &str) -> bool {
    let mut name = name;
    while let Some((above, _)) = name.rsplit_once("/node_modules/") {
        match packages.get(above) {
            Some(package) if !package.in_bundle => return package.integrity.is_some(),
            _ => name = above,
        }
    }
    false
}

/// Plan for requirements files. <https://pip.pypa.io/en/stable/reference/requirements-file-format/>
fn pip(project: &dyn Project, files: &[&str]) -> Result<Plan, LockError> {
    let mut hosts = BTreeSet::new();
    let mut seen = BTreeMap::new();
    for file in files {
        let bytes = text(project, file)?;
        let whole = String::from_utf8(bytes).unwrap_or_default().replace("\r\n", "\n").replace("\\\n", " ");
        // Characters that other parsers may take for a line end or another encoding are refused.
        if whole.is_empty() || whole.bytes().any(|b| !matches!(b, b'\n' | b'\t' | b' '..=b'~')) {
            return Err(bad(file, "is empty, or has characters other than plain text"));
        }
        // pip gets exactly the lines that were understood here.
        let mut kept = String::new();
        for line in whole.lines().map(|line| line.split(" #").next().unwrap_or_default().trim()) {
            if line.is_empty() || line.starts_with('#') {
                continue;
            }
            requirement(file, line, files, &mut hosts)?;
            kept.push_str(line);
            kept.push('\n');
        }
        let bytes = kept.into_bytes();
        seen.insert((*file).to_owned(), bytes);
    }
    // Defaults when they name no index, or in addition to extra ones.
    if !seen.values().any(|text| names_an_index(text)) {
        hosts.extend(["pypi.org:443", "files.pythonhosted.org:443"].map(str::to_owned));
    }
    Ok(pip_install(files, files, seen, hosts, &[]))
}

/// pip with requirements files: it reads those in `read`, and sees no others.
pub fn pip_install(
    locks: &[&str],
    read: &[&str],
    files: BTreeMap<String, Vec<u8>>,
    hosts: BTreeSet<String>,
    more: &[&str],
) -> Plan {
    let target = format!("{MADE}/python");
    let (into, named) = (format!("--target={target}"), read.iter().map(|file| format!("-r{file}")));
    // In this order, since an index in one file may replace that of an earlier one.
    let named: Vec<String> = named.collect();
    let mut words = vec![
        "python3",
        "-m",
        "pip",
        "install",
        "--disable-pip-version-check",
        "--no-input",
        "--no-cache-dir",
        "--retries=1",
        "--quiet",
        // Source packages would run their own code.
        "--only-binary=:all:",
        &into,
    ];
    words.extend(more);
    words.extend(named.iter().map(String::as_str));
    Installer::Pip.plan(locks, files, hosts, &words, &target)
}

fn names_an_index(text: &[u8]) -> bool {
    text.split(|b| *b == b'\n').any(|line| line.starts_with(b"-i") || line.starts_with(b"--index-url"))
}

/// Parses one line: a package at one version, or a known option.
fn requirement(
    file: &str,
    line: &str,
    files: &[&str],
    hosts: &mut BTreeSet<String>,
) -> Result<(), LockError> {
    if line.contains("${") {
        return Err(bad(file, format!("{line:.100} names a variable, and none is set here")));
    }
    if let Some(option) = line.strip_prefix('-') {
        let (name, value) = option.split_once(['=', ' ']).unwrap_or((option, ""));
        let value = value.trim();
        return match name {
            "r" | "-requirement" | "c" | "-constraint" if files.contains(&value) => Ok(()),
            "i" | "-index-url" | "-extra-index-url" => {
                // An index can refer to files on another host.
                hosts.insert(host(file, value)?);
                if value.contains("//pypi.org/") {
                    hosts.insert("files.pythonhosted.org:443".to_owned());
                }
                Ok(())
            }
            "-require-hashes" | "-prefer-binary" if value.is_empty() => Ok(()),
            "-only-binary" if value == ":all:" => Ok(()),
            _ => Err(bad(
                file,
                format!("-{option:.100} is not done here; take it out, or install by yourself"),
            )),
        };
    }
    let mut words = line.split(" --");
    let package = words.next().unwrap_or_default();
    if let Some(option) =
        words.find(|word| !word.starts_with("hash=sha") || word.trim().contains([' ', '\t']))
    {
        return Err(bad(
            file,
            format!("--{option:.100} is not done here; take it out, or install by yourself"),
        ));
    }
    let package = package.split(';').next().unwrap_or_default().trim();
    let (name, version) = package.split_once("==").unwrap_or((package, ""));
    let name = name.split('[').next().unwrap_or_default().trim();
    match is_plain(name) && is_plain(version.trim()) {
        true => Ok(()),
        false => Err(bad(
            file,
            format!(
                "{line:.100} is not one version of a package (NAME==VERSION); pip-compile or pip freeze write such a file"
            ),
        )),
    }
}

/// True for a valid package name or version.
pub fn is_plain(word: &str) -> bool {
    let starts = word.starts_with(|c: char| c.is_ascii_alphanumeric());
    starts && word.bytes().all(|b| b.is_ascii_alphanumeric() || b"-._+!".contains(&b))
}

#[cfg(test)]
mod tests;
