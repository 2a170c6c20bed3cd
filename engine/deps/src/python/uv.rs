//! `uv.lock`: a graph in which the path to a package determines its markers.

use std::collections::{BTreeMap, BTreeSet};
use std::path::PathBuf;

use hotcell_testing::Project;
use serde::Deserialize;

use super::{FOR_TESTS, File, MAX_MARKER_PATHS, Pinned, marker, normal, parsed, says};
use crate::plan::{LockError, bad, is_below};

#[derive(Deserialize)]
struct UvLock {
    version: u32,
    #[serde(default)]
    manifest: UvManifest,
    #[serde(default)]
    package: Vec<UvPackage>,
}

#[derive(Default, Deserialize)]
#[serde(rename_all = "kebab-case")]
struct UvManifest {
    #[serde(default)]
    dependency_groups: BTreeMap<String, Vec<UvEdge>>,
}

#[derive(Deserialize)]
#[serde(rename_all = "kebab-case")]
struct UvPackage {
    name: String,
    #[serde(default)]
    version: String,
    #[serde(default)]
    source: UvSource,
    #[serde(default)]
    dependencies: Vec<UvEdge>,
    #[serde(default)]
    optional_dependencies: BTreeMap<String, Vec<UvEdge>>,
    #[serde(default)]
    dev_dependencies: BTreeMap<String, Vec<UvEdge>>,
    #[serde(default)]
    sdist: Option<File>,
    #[serde(default)]
    wheels: Vec<File>,
}

#[derive(Default, Deserialize, PartialEq, Eq)]
struct UvSource {
    registry: Option<String>,
    r#virtual: Option<String>,
    editable: Option<String>,
    directory: Option<String>,
}

#[derive(Deserialize)]
struct UvEdge {
    name: String,
    version: Option<String>,
    source: Option<UvSource>,
    #[serde(default)]
    extra: Vec<String>,
    marker: Option<String>,
}

impl UvEdge {
    fn means(&self, package: &UvPackage) -> bool {
        self.version.as_ref().is_none_or(|version| *version == package.version)
            && self.source.as_ref().is_none_or(|source| *source == package.source)
    }
}

impl UvPackage {
    /// Path of one of the project's own packages.
    fn local(&self) -> Option<&str> {
        let UvSource { r#virtual, editable, directory, .. } = &self.source;
        r#virtual.as_deref().or(editable.as_deref()).or(directory.as_deref())
    }

    /// Folder of a package in editable mode, if it is below the project.
    fn folder(&self) -> Option<PathBuf> {
        match self.source.editable.as_deref()? {
            "." => Some(PathBuf::new()),
            path => is_below(path).then(|| path.into()),
        }
    }

    fn pinned(&self, file: &str, markers: Vec<String>) -> Result<Pinned, LockError> {
        let index = self.source.registry.clone().ok_or_else(|| {
            bad(file, format!("{:.100} comes from no registry; only those are fetched from", self.name))
        })?;
        let files = || self.sdist.iter().chain(&self.wheels);
        Ok(Pinned {
            name: self.name.clone(),
            version: self.version.clone(),
            markers,
            hashes: files().filter_map(|f| f.hash.clone()).collect(),
            index,
            files: self.wheels.iter().filter_map(|f| f.url.clone()).collect(),
        })
    }
}

/// Markers that have to hold for one path to a package.
type Way<'a> = BTreeSet<&'a str>;

/// Paths to follow, ordered by their number of markers: a path with fewer markers never comes after one with
/// more, so a package's result is final once it was followed.
#[derive(Default)]
struct Ahead<'a>(BTreeMap<usize, Vec<(&'a UvEdge, Way<'a>)>>);

impl<'a> Ahead<'a> {
    fn push(&mut self, edge: &'a UvEdge, before: &Way<'a>) {
        let mut way = before.clone();
        way.extend(edge.marker.as_deref());
        self.0.entry(way.len()).or_default().push((edge, way));
    }

    fn pop(&mut self) -> Option<(&'a UvEdge, Way<'a>)> {
        let mut least = self.0.first_entry()?;
        let next = least.get_mut().pop();
        if least.get().is_empty() {
            least.remove();
        }
        next
    }
}

/// Reads the dependencies of the project's own packages, with their default groups.
/// <https://docs.astral.sh/uv/concepts/projects/layout/#the-lockfile>
pub fn read(project: &dyn Project, file: &str) -> Result<(Vec<Pinned>, Vec<PathBuf>), LockError> {
    let lock: UvLock = parsed(project, file)?;
    if lock.version != 1 {
        return Err(bad(file, format!("is of version {}, and 1 is known here", lock.version)));
    }
    let mut by_name: BTreeMap<&str, Vec<usize>> = BTreeMap::new();
    for (place, package) in lock.package.iter().enumerate() {
        let named = by_name.entry(&package.name).or_default();
        named.push(place);
        if named.len() > MAX_MARKER_PATHS {
            return Err(bad(
                file,
                format!("has more than {MAX_MARKER_PATHS} versions of {:.100}", package.name),
            ));
        }
    }
    let mut ahead = Ahead::default();
    for edge in wanted(project, &lock) {
        ahead.push(edge, &Way::new());
    }
    let has_root = lock.package.iter().any(|package| package.local().is_some());
    if !has_root && lock.manifest.dependency_groups.is_empty() && !lock.package.is_empty() {
        return Err(bad(file, "does not say which of its packages the project needs"));
    }
    // A package, and the additional dependencies of its extras.
    let mut found: BTreeMap<(usize, Option<&str>), Vec<Way<'_>>> = BTreeMap::new();
    while let Some((edge, way)) = ahead.pop() {
        let named = by_name.get(edge.name.as_str()).map_or(&[][..], Vec::as_slice);
        let mut resolve_prefix = named.iter().filter(|place| edge.means(&lock.package[**place]));
        let (Some(&place), None) = (resolve_prefix.next(), resolve_prefix.next()) else {
            return Err(bad(file, format!("names no one package that {:.100} is", edge.name)));
        };
        for extra in edge.extra.iter().map(|extra| Some(extra.as_str())).chain([None]) {
            let ways = found.entry((place, extra)).or_default();
            // Already required under weaker conditions.
            if ways.iter().any(|other| other.is_subset(&way)) {
                continue;
            }
            ways.push(way.clone());
            if ways.len() > MAX_MARKER_PATHS || way.len() > MAX_MARKER_PATHS {
                let why = format!("wants {:.100} under more than {MAX_MARKER_PATHS} conditions", edge.name);
                return Err(bad(file, why));
            }
            let package = &lock.package[place];
            let edges = match extra {
                None => package.dependencies.as_slice(),
                Some(extra) => package.optional_dependencies.get(extra).map_or(&[][..], Vec::as_slice),
            };
            edges.iter().for_each(|edge| ahead.push(edge, &way));
        }
    }
    let mut all = Vec::new();
    for ((place, extra), ways) in &found {
        let package = &lock.package[*place];
        if extra.is_some() || package.local().is_some() {
            continue;
        }
        let mut markers = Vec::new();
        for way in ways.iter().take_while(|way| !way.is_empty()) {
            let each = way.iter().map(|text| marker(file, text)).collect::<Result<Vec<_>, _>>()?;
            markers.push(each.join(" and "));
        }
        all.push(package.pinned(file, markers)?);
    }
    Ok((all, lock.package.iter().filter_map(UvPackage::folder).collect()))
}

/// Direct dependencies of the project's own packages, or those of a workspace whose root is not a package.
fn wanted<'a>(project: &dyn Project, lock: &'a UvLock) -> Vec<&'a UvEdge> {
    let default = match says(project, &["tool", "uv", "default-groups"]) {
        None => Some(BTreeSet::from(["dev".to_owned()])),
        Some(toml::Value::Array(these)) => {
            Some(these.iter().filter_map(|one| one.as_str().map(normal)).collect())
        }
        // All groups.
        Some(_) => None,
    };
    let is_for_tests = |name: &str| FOR_TESTS.contains(&name);
    let is_group =
        |name: &str| is_for_tests(name) || default.as_ref().is_none_or(|these| these.contains(name));
    let mut edges: Vec<&UvEdge> = Vec::new();
    let groups = |of: &'a BTreeMap<String, Vec<UvEdge>>| of.iter().filter(|(name, _)| is_group(name));
    edges.extend(groups(&lock.manifest.dependency_groups).flat_map(|(_, edges)| edges));
    for package in lock.package.iter().filter(|package| package.local().is_some()) {
        let extras = package.optional_dependencies.iter().filter(|(name, _)| is_for_tests(name));
        edges.extend(groups(&package.dev_dependencies).chain(extras).flat_map(|(_, edges)| edges));
        edges.extend(&package.dependencies);
    }
    edges
}
