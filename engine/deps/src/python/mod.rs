//! Lock files of uv, Poetry and Pipenv, translated for `pip`: each package at its one version, with the
//! digests of its files and its markers. The markers are evaluated by pip, since only it knows the Python
//! version.
//!
//! pip accepts no package without a digest, and resolves no dependencies itself. Pure; the project is
//! hostile.

mod pipenv;
mod poetry;
#[cfg(test)]
mod tests;
mod uv;

use std::collections::{BTreeMap, BTreeSet};
use std::path::PathBuf;

use hotcell_testing::Project;
use serde::Deserialize;
use serde::de::DeserializeOwned;

use crate::pip::pip_install;
use crate::plan::{LockError, MAX_MANIFEST_BYTES, Plan, bad, host, is_plain, text};

/// Groups and extras that are installed in addition to the default ones.
const FOR_TESTS: [&str; 3] = ["test", "tests", "testing"];
/// Default index.
const PYPI: &str = "https://pypi.org/simple";
/// Maximum number of paths to a package that differ in their markers.
const MAX_MARKER_PATHS: usize = 64;
/// Requirements file for pip.
const LOCKED: &str = "locked.txt";

/// Plan for a lock file of these tools; the first one if the project has several.
pub fn locked(project: &dyn Project) -> Option<Result<Plan, LockError>> {
    type Read = fn(&dyn Project, &str) -> Result<(Vec<Pinned>, Vec<PathBuf>), LockError>;
    let known: [(&str, Read); 3] =
        [("uv.lock", uv::read), ("poetry.lock", poetry::read), ("Pipfile.lock", pipenv::read)];
    let (file, read) = known.into_iter().find(|(file, _)| project.has(file))?;
    Some(read(project, file).and_then(|(all, own)| Ok(Plan { own, ..plan(file, &all)? })))
}

/// A package at a version.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
struct Pinned {
    name: String,
    version: String,
    /// At least one of them has to hold; empty means always.
    markers: Vec<String>,
    /// In the form `sha256:…`.
    hashes: BTreeSet<String>,
    /// Registry.
    index: String,
    /// Addresses of its files, as far as known.
    files: BTreeSet<String>,
}

fn plan(file: &str, all: &[Pinned]) -> Result<Plan, LockError> {
    let mut hosts = BTreeSet::new();
    let mut lines = String::new();
    let indexes: BTreeSet<&str> = all.iter().map(|one| one.index.trim_end_matches('/')).collect();
    let mut option = "--index-url";
    for index in indexes.iter().filter(|_| indexes.iter().any(|index| *index != PYPI)) {
        if index.contains(|c: char| !c.is_ascii_graphic() || matches!(c, '$' | '\\' | '\'' | '"')) {
            return Err(bad(file, format!("{index:.200} is no plain address")));
        }
        lines.push_str(&format!("{option} {index}\n"));
        option = "--extra-index-url";
    }
    for index in &indexes {
        hosts.insert(host(file, index)?);
        if index.contains("//pypi.org/") {
            hosts.insert("files.pythonhosted.org:443".to_owned());
        }
    }
    for one in all {
        let Pinned { name, version, .. } = one;
        if !is_plain(name) || !is_plain(version) {
            return Err(bad(file, format!("{name:.100} {version:.100} is no name with a version")));
        }
        if one.hashes.is_empty() || !one.hashes.iter().all(|hash| is_digest(hash)) {
            return Err(bad(
                file,
                format!("{name:.100} has no digest; only packages of registries are installed"),
            ));
        }
        for address in &one.files {
            hosts.insert(host(file, address)?);
        }
        lines.push_str(&format!("{name}=={version}"));
        if !one.markers.is_empty() {
            lines.push_str(&format!(" ; {}", one.markers.join(" or ")));
        }
        one.hashes.iter().for_each(|hash| lines.push_str(&format!(" --hash={hash}")));
        lines.push('\n');
        if lines.len() > MAX_MANIFEST_BYTES {
            return Err(bad(
                file,
                format!("comes to more than {} MiB of requirements", MAX_MANIFEST_BYTES >> 20),
            ));
        }
    }
    let files = BTreeMap::from([(LOCKED.to_owned(), lines.into_bytes())]);
    Ok(pip_install(&[file], &[LOCKED], files, hosts, &["--no-deps", "--require-hashes"]))
}

/// True for a digest that pip accepts.
fn is_digest(text: &str) -> bool {
    let (kind, hex) = text.split_once(':').unwrap_or_default();
    matches!(kind, "sha256" | "sha384" | "sha512")
        && !hex.is_empty()
        && hex.bytes().all(|b| b.is_ascii_alphanumeric())
}

/// A condition of PEP 508, in parentheses.
fn marker(file: &str, text: &str) -> Result<String, LockError> {
    let known = |b: u8| b.is_ascii_alphanumeric() || b" _.-+*'\"<>=!~()".contains(&b);
    if text.trim().is_empty() || !text.bytes().all(known) || text.contains(" -") {
        return Err(bad(file, format!("{text:.200} is no marker")));
    }
    // Conflicts can only be evaluated by uv.
    if text.contains("extra") {
        return Err(bad(file, format!("the marker {text:.200} is not done here; install by yourself")));
    }
    Ok(format!("({text})"))
}

fn parsed<T: DeserializeOwned>(project: &dyn Project, file: &str) -> Result<T, LockError> {
    let bytes = text(project, file)?;
    let lock = String::from_utf8(bytes).map_err(|_| bad(file, "is no lock file: it is not UTF-8"))?;
    toml::from_str(&lock).map_err(|e| bad(file, format!("is no lock file: {}", e.message())))
}

/// Value in `pyproject.toml` at a path of keys.
fn says(project: &dyn Project, keys: &[&str]) -> Option<toml::Value> {
    let bytes = project.read("pyproject.toml")?;
    let mut at: toml::Value = toml::from_str(&String::from_utf8_lossy(&bytes)).ok()?;
    for key in keys {
        at = at.get(key)?.clone();
    }
    Some(at)
}

/// A file of a package.
#[derive(Deserialize)]
struct File {
    url: Option<String>,
    hash: Option<String>,
}

/// Normalises a name as lock files do.
/// <https://packaging.python.org/en/latest/specifications/name-normalization/>
fn normal(name: &str) -> String {
    let words = name.split(['-', '_', '.']).filter(|word| !word.is_empty());
    words.collect::<Vec<_>>().join("-").to_ascii_lowercase()
}
