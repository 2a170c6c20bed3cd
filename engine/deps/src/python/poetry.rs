//! `poetry.lock`: a list in which each package names its groups and markers.

use std::collections::{BTreeMap, BTreeSet};
use std::path::PathBuf;

use hotcell_testing::Project;
use serde::Deserialize;

use super::{FOR_TESTS, File, PYPI, Pinned, marker, normal, parsed, says};
use crate::plan::{LockError, bad};

#[derive(Deserialize)]
struct PoetryLock {
    #[serde(default)]
    package: Vec<PoetryPackage>,
    metadata: PoetryMetadata,
}

#[derive(Deserialize)]
#[serde(rename_all = "kebab-case")]
struct PoetryMetadata {
    lock_version: String,
}

#[derive(Deserialize)]
struct PoetryPackage {
    name: String,
    version: String,
    #[serde(default)]
    optional: bool,
    #[serde(default)]
    groups: Vec<String>,
    markers: Option<PoetryMarkers>,
    #[serde(default)]
    files: Vec<File>,
    source: Option<PoetrySource>,
}

#[derive(Deserialize)]
#[serde(untagged)]
enum PoetryMarkers {
    All(String),
    OfGroups(BTreeMap<String, String>),
}

#[derive(Deserialize)]
struct PoetrySource {
    r#type: String,
    url: String,
}

/// Reads all groups that are not optional. The format is that of Poetry 2.0 and later, which includes the
/// markers of a package. <https://python-poetry.org/docs/basic-usage/>
pub fn read(project: &dyn Project, file: &str) -> Result<(Vec<Pinned>, Vec<PathBuf>), LockError> {
    let lock: PoetryLock = parsed(project, file)?;
    let version = &lock.metadata.lock_version;
    if !version.starts_with("2.") || version == "2.0" {
        return Err(bad(
            file,
            format!("is of version {version:.20}; make it anew with Poetry 2 (poetry lock)"),
        ));
    }
    let groups = says(project, &["tool", "poetry", "group"]);
    let groups = groups.as_ref().and_then(toml::Value::as_table);
    let is_optional =
        |about: &toml::Value| about.get("optional").and_then(toml::Value::as_bool) == Some(true);
    let optional: BTreeSet<String> = groups
        .into_iter()
        .flatten()
        .filter(|(name, about)| is_optional(about) && !FOR_TESTS.contains(&name.as_str()))
        .map(|(name, _)| normal(name))
        .collect();
    let mut all = Vec::new();
    for package in lock.package.iter().filter(|package| !package.optional) {
        let groups: BTreeSet<&str> =
            package.groups.iter().map(String::as_str).filter(|group| !optional.contains(*group)).collect();
        if groups.is_empty() {
            continue;
        }
        let texts: Vec<Option<&String>> = match &package.markers {
            None => vec![None],
            Some(PoetryMarkers::All(text)) => vec![Some(text)],
            Some(PoetryMarkers::OfGroups(each)) => groups.iter().map(|group| each.get(*group)).collect(),
        };
        // One of the groups may require it always.
        let texts = texts.into_iter().collect::<Option<BTreeSet<_>>>().unwrap_or_default();
        let index = match &package.source {
            None => PYPI.to_owned(),
            Some(source) if source.r#type == "legacy" => source.url.clone(),
            Some(PoetrySource { r#type, .. }) => {
                let why =
                    format!("{:.100} comes from {type:.20}; only registries are fetched from", package.name);
                return Err(bad(file, why));
            }
        };
        all.push(Pinned {
            name: package.name.clone(),
            version: package.version.clone(),
            markers: texts.into_iter().map(|text| marker(file, text)).collect::<Result<_, _>>()?,
            hashes: package.files.iter().filter_map(|f| f.hash.clone()).collect(),
            index,
            files: BTreeSet::new(),
        });
    }
    let is_package = says(project, &["tool", "poetry", "package-mode"]).and_then(|mode| mode.as_bool());
    let own = if is_package == Some(false) { Vec::new() } else { vec![PathBuf::new()] };
    Ok((all, own))
}
