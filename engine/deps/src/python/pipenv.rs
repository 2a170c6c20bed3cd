//! `Pipfile.lock`: two sections of packages.

use std::collections::{BTreeMap, BTreeSet};
use std::path::PathBuf;

use hotcell_testing::Project;
use serde::Deserialize;

use super::{PYPI, Pinned, marker};
use crate::plan::{LockError, bad, text};

#[derive(Deserialize)]
struct PipenvLock {
    #[serde(rename = "_meta")]
    meta: PipenvMeta,
    #[serde(default)]
    default: BTreeMap<String, PipenvPackage>,
    #[serde(default)]
    develop: BTreeMap<String, PipenvPackage>,
}

#[derive(Deserialize)]
struct PipenvMeta {
    #[serde(default)]
    sources: Vec<PipenvSource>,
}

#[derive(Deserialize)]
struct PipenvSource {
    name: String,
    url: String,
}

#[derive(Deserialize)]
struct PipenvPackage {
    version: Option<String>,
    #[serde(default)]
    hashes: BTreeSet<String>,
    markers: Option<String>,
    index: Option<String>,
}

/// Reads both sections. <https://pipenv.pypa.io/en/latest/pipfile.html>
pub fn read(project: &dyn Project, file: &str) -> Result<(Vec<Pinned>, Vec<PathBuf>), LockError> {
    let lock: PipenvLock = serde_json::from_slice(&text(project, file)?)
        .map_err(|e| bad(file, format!("is no lock file: {e}")))?;
    let first = lock.meta.sources.first().map_or(PYPI, |source| source.url.as_str());
    let mut all: BTreeMap<&str, Pinned> = BTreeMap::new();
    for (name, package) in lock.default.iter().chain(&lock.develop) {
        let version = package.version.as_deref().and_then(|version| version.strip_prefix("=="));
        let Some(version) = version else {
            return Err(bad(
                file,
                format!("{name:.100} comes from no registry; only those are fetched from"),
            ));
        };
        let named = package.index.as_ref().and_then(|n| lock.meta.sources.iter().find(|s| s.name == *n));
        let one = Pinned {
            name: name.clone(),
            version: version.to_owned(),
            markers: package.markers.iter().map(|text| marker(file, text)).collect::<Result<_, _>>()?,
            hashes: package.hashes.clone(),
            index: named.map_or(first, |source| &source.url).to_owned(),
            files: BTreeSet::new(),
        };
        match all.get_mut(name.as_str()) {
            None => drop(all.insert(name, one)),
            Some(both) if both.version != one.version => {
                return Err(bad(file, format!("has two versions of {name:.100}")));
            }
            // Required by either section.
            Some(both) => {
                let always = both.markers.is_empty() || one.markers.is_empty();
                both.markers = if always { Vec::new() } else { [both.markers.clone(), one.markers].concat() };
                both.markers.dedup();
                both.hashes.extend(one.hashes);
            }
        }
    }
    Ok((all.into_values().collect(), Vec::new()))
}
