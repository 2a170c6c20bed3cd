//! Lock files of uv, Poetry and Pipenv, as what `pip` installs: each package at its one version, with the digests of its files and
//! the markers under which it is wanted, which are for pip to judge, since only it knows which Python that is.
//!
//! pip takes nothing whose digest is not named, and asks nobody what a package needs. Pure; the project is hostile.

use std::collections::{BTreeMap, BTreeSet};
use std::path::PathBuf;

use hotcell_testing::Project;
use serde::Deserialize;
use serde::de::DeserializeOwned;

use super::lock::{LockError, MOST_BYTES, Plan, bad, host, is_below, is_plain, pip_install, text};

/// Groups and extras that are installed beside those that are installed anyway.
const FOR_TESTS: [&str; 3] = ["test", "tests", "testing"];
/// Where packages come from unless something else is said.
const PYPI: &str = "https://pypi.org/simple";
/// Ways to a package that differ in their markers.
const MOST_WAYS: usize = 64;
/// What pip gets to read.
const LOCKED: &str = "locked.txt";

/// A lock file of this kind, where the project has one; the first, should it have several.
pub(super) fn locked(project: &dyn Project) -> Option<Result<Plan, LockError>> {
    type Read = fn(&dyn Project, &str) -> Result<(Vec<Pinned>, Vec<PathBuf>), LockError>;
    let known: [(&str, Read); 3] = [("uv.lock", uv), ("poetry.lock", poetry), ("Pipfile.lock", pipenv)];
    let (file, read) = known.into_iter().find(|(file, _)| project.has(file))?;
    Some(read(project, file).and_then(|(all, own)| Ok(Plan { own, ..plan(file, &all)? })))
}

/// A package at a version.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
struct Pinned {
    name: String,
    version: String,
    /// One of them has to hold; none is always.
    markers: Vec<String>,
    /// As `sha256:…`.
    hashes: BTreeSet<String>,
    /// The registry.
    index: String,
    /// Where its files are, as far as that is known.
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
        if lines.len() > MOST_BYTES {
            return Err(bad(file, format!("comes to more than {} MiB of requirements", MOST_BYTES >> 20)));
        }
    }
    let files = BTreeMap::from([(LOCKED.to_owned(), lines.into_bytes())]);
    Ok(pip_install(&[file], &[LOCKED], files, hosts, &["--no-deps", "--require-hashes"]))
}

/// One that pip takes for a digest.
fn is_digest(text: &str) -> bool {
    let (kind, hex) = text.split_once(':').unwrap_or_default();
    matches!(kind, "sha256" | "sha384" | "sha512")
        && !hex.is_empty()
        && hex.bytes().all(|b| b.is_ascii_alphanumeric())
}

/// A condition, in the words of PEP 508, in brackets.
fn marker(file: &str, text: &str) -> Result<String, LockError> {
    let known = |b: u8| b.is_ascii_alphanumeric() || b" _.-+*'\"<>=!~()".contains(&b);
    if text.trim().is_empty() || !text.bytes().all(known) || text.contains(" -") {
        return Err(bad(file, format!("{text:.200} is no marker")));
    }
    // uv's conflicts, which it alone can judge.
    if text.contains("extra") {
        return Err(bad(file, format!("the marker {text:.200} is not done here; install by yourself")));
    }
    Ok(format!("({text})"))
}

fn read<T: DeserializeOwned>(project: &dyn Project, file: &str) -> Result<T, LockError> {
    let bytes = text(project, file)?;
    let lock = String::from_utf8(bytes).map_err(|_| bad(file, "is no lock file: it is not UTF-8"))?;
    toml::from_str(&lock).map_err(|e| bad(file, format!("is no lock file: {}", e.message())))
}

/// What `pyproject.toml` says at a path of keys.
fn says(project: &dyn Project, keys: &[&str]) -> Option<toml::Value> {
    let bytes = project.read("pyproject.toml")?;
    let mut at: toml::Value = toml::from_str(&String::from_utf8_lossy(&bytes)).ok()?;
    for key in keys {
        at = at.get(key)?.clone();
    }
    Some(at)
}

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
    sdist: Option<UvFile>,
    #[serde(default)]
    wheels: Vec<UvFile>,
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

#[derive(Deserialize)]
struct UvFile {
    url: Option<String>,
    hash: Option<String>,
}

impl UvPackage {
    /// Where it is, of the project's own.
    fn local(&self) -> Option<&str> {
        let UvSource { r#virtual, editable, directory, .. } = &self.source;
        r#virtual.as_deref().or(editable.as_deref()).or(directory.as_deref())
    }

    /// The folder, where it is one below the project, of one that is installed to be edited.
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

/// Which markers have to hold for one way to a package.
type Way<'a> = BTreeSet<&'a str>;

/// Ways that are to be followed, by how many markers are on them: none is found after one that asks for more, so that what was
/// followed once stands.
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

/// What the project's own packages need, with their default groups. <https://docs.astral.sh/uv/concepts/projects/layout/#the-lockfile>
fn uv(project: &dyn Project, file: &str) -> Result<(Vec<Pinned>, Vec<PathBuf>), LockError> {
    let lock: UvLock = read(project, file)?;
    if lock.version != 1 {
        return Err(bad(file, format!("is of version {}, and 1 is known here", lock.version)));
    }
    let mut by_name: BTreeMap<&str, Vec<usize>> = BTreeMap::new();
    for (place, package) in lock.package.iter().enumerate() {
        let named = by_name.entry(&package.name).or_default();
        named.push(place);
        if named.len() > MOST_WAYS {
            return Err(bad(file, format!("has more than {MOST_WAYS} versions of {:.100}", package.name)));
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
    // A package, and what it needs more for one of its extras.
    let mut found: BTreeMap<(usize, Option<&str>), Vec<Way<'_>>> = BTreeMap::new();
    while let Some((edge, way)) = ahead.pop() {
        let named = by_name.get(edge.name.as_str()).map_or(&[][..], Vec::as_slice);
        let mut meant = named.iter().filter(|place| edge.means(&lock.package[**place]));
        let (Some(&place), None) = (meant.next(), meant.next()) else {
            return Err(bad(file, format!("names no one package that {:.100} is", edge.name)));
        };
        for extra in edge.extra.iter().map(|extra| Some(extra.as_str())).chain([None]) {
            let ways = found.entry((place, extra)).or_default();
            // Wanted already, by one that asks for less.
            if ways.iter().any(|other| other.is_subset(&way)) {
                continue;
            }
            ways.push(way.clone());
            if ways.len() > MOST_WAYS || way.len() > MOST_WAYS {
                let why = format!("wants {:.100} under more than {MOST_WAYS} conditions", edge.name);
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

/// What the project's own packages name, and what a workspace does whose root is no package.
fn wanted<'a>(project: &dyn Project, lock: &'a UvLock) -> Vec<&'a UvEdge> {
    let default = match says(project, &["tool", "uv", "default-groups"]) {
        None => Some(BTreeSet::from(["dev".to_owned()])),
        Some(toml::Value::Array(these)) => {
            Some(these.iter().filter_map(|one| one.as_str().map(normal)).collect())
        }
        // All.
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

/// A name as locks have it. <https://packaging.python.org/en/latest/specifications/name-normalization/>
fn normal(name: &str) -> String {
    let words = name.split(['-', '_', '.']).filter(|word| !word.is_empty());
    words.collect::<Vec<_>>().join("-").to_ascii_lowercase()
}

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
    files: Vec<UvFile>,
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

/// All groups that are not optional. The form from Poetry 2.0 on, which says under which markers a package is wanted.
/// <https://python-poetry.org/docs/basic-usage/>
fn poetry(project: &dyn Project, file: &str) -> Result<(Vec<Pinned>, Vec<PathBuf>), LockError> {
    let lock: PoetryLock = read(project, file)?;
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
        // Of the groups one may want it always.
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

/// Both of its sections. <https://pipenv.pypa.io/en/latest/pipfile.html>
fn pipenv(project: &dyn Project, file: &str) -> Result<(Vec<Pinned>, Vec<PathBuf>), LockError> {
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
            // Wanted by either.
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

#[cfg(test)]
mod tests {
    use super::*;

    #[derive(Debug)]
    struct Files(Vec<(&'static str, String)>);

    impl Project for Files {
        fn files(&self) -> &[String] {
            &[]
        }
        fn read(&self, path: &str) -> Option<Vec<u8>> {
            self.0.iter().find(|(name, _)| *name == path).map(|(_, text)| text.clone().into_bytes())
        }
        fn has(&self, path: &str) -> bool {
            self.0.iter().any(|(name, _)| *name == path)
        }
    }

    fn of(files: &[(&'static str, &str)]) -> Result<Plan, LockError> {
        let files = files.iter().map(|(name, text)| (*name, (*text).to_owned())).collect();
        locked(&Files(files)).expect("a lock file")
    }

    fn lines(plan: &Plan) -> Vec<&str> {
        std::str::from_utf8(&plan.files[LOCKED]).unwrap().lines().collect()
    }

    fn hosts(plan: &Plan) -> Vec<&str> {
        plan.hosts.iter().map(String::as_str).collect()
    }

    /// A lock of uv's of these packages: name, version, and the rest of the entry.
    fn uv_lock(packages: &[(&str, &str, &str)]) -> String {
        let mut text = "version = 1\nrevision = 5\nrequires-python = \">=3.11\"\n".to_owned();
        for (name, version, rest) in packages {
            text.push_str(&format!("[[package]]\nname = \"{name}\"\nversion = \"{version}\"\n"));
            if !rest.contains("source = ") {
                text.push_str("source = { registry = \"https://pypi.org/simple\" }\n");
                text.push_str(&format!("wheels = [{{ url = \"https://files.pythonhosted.org/{name}.whl\", hash = \"sha256:{name}\" }}]\n"));
            }
            text.push_str(&format!("{rest}\n"));
        }
        text
    }

    #[test]
    fn what_a_project_needs_by_uv() {
        let own = r#"source = { editable = "." }
            dependencies = [{ name = "a", extra = ["x"] }, { name = "w", marker = "sys_platform == 'win32'" }]
            [package.optional-dependencies]
            test = [{ name = "t" }]
            docs = [{ name = "d" }]
            [package.dev-dependencies]
            dev = [{ name = "v", version = "2", marker = "python_version >= '3.12'" }, { name = "v", version = "1", marker = "python_version < '3.12'" }]
            lint = [{ name = "l" }]"#;
        let lock = uv_lock(&[
            ("own", "0.1.0", own),
            (
                "a",
                "1",
                "dependencies = [{ name = \"c\", marker = \"os_name == 'nt'\" }]\n[package.optional-dependencies]\nx = [{ name = \"e\" }]",
            ),
            ("c", "1", "dependencies = [{ name = \"a\" }]"),
            ("d", "1", ""),
            ("e", "1", "dependencies = [{ name = \"w\", marker = \"os_name == 'nt'\" }]"),
            ("l", "1", ""),
            ("t", "1.0.post1", ""),
            ("v", "1", ""),
            ("v", "2", ""),
            ("w", "1", ""),
            ("git", "1", "source = { git = \"https://x.org/a.git\" }"),
            ("member", "0", "source = { editable = \"packages/member\" }"),
            ("beside", "0", "source = { directory = \"../beside\" }"),
        ]);
        let plan = of(&[("uv.lock", &lock), ("pyproject.toml", "")]).unwrap();
        assert_eq!(plan.own, [PathBuf::new(), "packages/member".into()]);
        assert_eq!(
            lines(&plan),
            [
                "a==1 --hash=sha256:a",
                "c==1 ; (os_name == 'nt') --hash=sha256:c",
                "e==1 --hash=sha256:e",
                "t==1.0.post1 --hash=sha256:t",
                "v==1 ; (python_version < '3.12') --hash=sha256:v",
                "v==2 ; (python_version >= '3.12') --hash=sha256:v",
                "w==1 ; (os_name == 'nt') or (sys_platform == 'win32') --hash=sha256:w",
            ]
        );
        assert_eq!(hosts(&plan), ["files.pythonhosted.org:443", "pypi.org:443"]);
        for word in ["--no-deps", "--require-hashes", "--only-binary=:all:", "-rlocked.txt"] {
            assert!(plan.argv.contains(&word.into()), "{word}");
        }
        // The groups that the project has by default.
        for (says, with) in [("[\"lint\"]", ["l", "t"]), ("\"all\"", ["l", "v"]), ("[]", ["a", "t"])] {
            let project = format!("[tool.uv]\ndefault-groups = {says}\n");
            let plan = of(&[("uv.lock", &lock), ("pyproject.toml", &project)]).unwrap();
            let has = |name: &str| lines(&plan).iter().any(|l| l.starts_with(&format!("{name}==")));
            assert!(with.iter().all(|name| has(name)), "{says}: {:?}", lines(&plan));
            assert_eq!(has("l"), says != "[]", "{says}");
        }
    }

    /// Each package is wanted with a marker and without, in the order that would follow each way anew.
    #[test]
    fn a_lock_with_many_ways_is_read_at_once() {
        let names: Vec<String> = (0..60).map(|n| format!("v{n:02}")).collect();
        let needs = |name: &str, n: usize| {
            format!(
                "dependencies = [{{ name = \"{name}\", marker = \"os_name == '{n}'\" }}, {{ name = \"{name}\" }}]"
            )
        };
        let root = format!("source = {{ virtual = \".\" }}\n{}", needs("v00", 99));
        let rest: Vec<String> = (1..60).map(|n| needs(&names[n], n)).chain([String::new()]).collect();
        let mut packages = vec![("own", "0", root.as_str())];
        packages.extend(names.iter().zip(&rest).map(|(name, rest)| (name.as_str(), "1", rest.as_str())));
        let plan = of(&[("uv.lock", &uv_lock(&packages))]).unwrap();
        assert_eq!(lines(&plan).len(), 60);
        assert!(lines(&plan).iter().all(|line| !line.contains(';')), "{:?}", lines(&plan));
        // A chain of markers, which no project has.
        let names: Vec<String> = (0..90).map(|n| format!("v{n:02}")).collect();
        let chain = |n: usize| {
            format!("dependencies = [{{ name = \"{}\", marker = \"os_name == '{n}'\" }}]", names[n])
        };
        let root = format!("source = {{ virtual = \".\" }}\n{}", chain(0));
        let rest: Vec<String> = (1..90).map(chain).chain([String::new()]).collect();
        let mut packages = vec![("own", "0", root.as_str())];
        packages.extend(names.iter().zip(&rest).map(|(name, rest)| (name.as_str(), "1", rest.as_str())));
        let error = of(&[("uv.lock", &uv_lock(&packages))]).unwrap_err();
        assert!(error.to_string().contains("more than 64 conditions"), "{error}");
    }

    #[test]
    fn a_workspace_whose_root_is_no_package_has_groups_too() {
        let lock = format!(
            "{}[manifest]\nmembers = []\n[manifest.dependency-groups]\ndev-tools = [{{ name = \"a\" }}]\n",
            uv_lock(&[("a", "1", ""), ("b", "1", "")])
        );
        let project = "[tool.uv]\ndefault-groups = [\"Dev_Tools\"]\n";
        let plan = of(&[("uv.lock", &lock), ("pyproject.toml", project)]).unwrap();
        assert_eq!(lines(&plan), ["a==1 --hash=sha256:a"]);
        assert!(lines(&of(&[("uv.lock", &lock)]).unwrap()).is_empty());
        let error = of(&[("uv.lock", &uv_lock(&[("a", "1", "")]))]).unwrap_err();
        assert!(error.to_string().contains("does not say which"), "{error}");
    }

    fn poetry_lock(version: &str, packages: &[(&str, &str)]) -> String {
        let mut text = String::new();
        for (name, rest) in packages {
            text.push_str(&format!(
                "[[package]]\nname = \"{name}\"\nversion = \"1\"\nfiles = [{{file = \"{name}.whl\", hash = \"sha256:{name}\"}}]\n{rest}\n"
            ));
        }
        text.push_str(&format!("[metadata]\nlock-version = \"{version}\"\n"));
        text
    }

    #[test]
    fn what_a_project_needs_by_poetry() {
        let lock = poetry_lock(
            "2.1",
            &[
                (
                    "a",
                    "optional = false\ngroups = [\"main\"]\n[package.dependencies]\nb = {version = \"*\", markers = \"x\"}",
                ),
                (
                    "b",
                    "optional = false\ngroups = [\"main\", \"dev\"]\nmarkers = \"sys_platform == \\\"win32\\\"\"",
                ),
                (
                    "c",
                    "optional = false\ngroups = [\"main\", \"dev\"]\nmarkers = {main = \"os_name == 'nt'\", dev = \"os_name == 'posix'\"}",
                ),
                (
                    "d",
                    "optional = false\ngroups = [\"main\", \"dev\"]\nmarkers = {main = \"os_name == 'nt'\"}",
                ),
                ("e", "optional = false\ngroups = [\"docs\"]"),
                ("f", "optional = true\ngroups = [\"main\"]\nmarkers = \"extra == 'f'\""),
                (
                    "g",
                    "optional = false\ngroups = [\"test\"]\n[package.source]\ntype = \"legacy\"\nurl = \"https://pip.example.org/simple/\"\nreference = \"x\"",
                ),
            ],
        );
        let project =
            "[tool.poetry.group.docs]\noptional = true\n[tool.poetry.group.test]\noptional = true\n";
        let plan = of(&[("poetry.lock", &lock), ("pyproject.toml", project)]).unwrap();
        assert_eq!(
            lines(&plan),
            [
                "--index-url https://pip.example.org/simple",
                "--extra-index-url https://pypi.org/simple",
                "a==1 --hash=sha256:a",
                "b==1 ; (sys_platform == \"win32\") --hash=sha256:b",
                "c==1 ; (os_name == 'nt') or (os_name == 'posix') --hash=sha256:c",
                "d==1 --hash=sha256:d",
                "g==1 --hash=sha256:g",
            ]
        );
        assert_eq!(hosts(&plan), ["files.pythonhosted.org:443", "pip.example.org:443", "pypi.org:443"]);
        assert_eq!(plan.own, [PathBuf::new()]);
        let project = "[tool.poetry]\npackage-mode = false\n";
        assert!(of(&[("poetry.lock", &lock), ("pyproject.toml", project)]).unwrap().own.is_empty());
    }

    #[test]
    fn what_a_project_needs_by_pipenv() {
        let lock = r#"{"_meta": {"pipfile-spec": 6, "sources": [{"name": "pypi", "url": "https://pypi.org/simple", "verify_ssl": true},
                {"name": "own", "url": "https://pip.example.org/simple"}]},
            "default": {"a": {"version": "==1.2", "hashes": ["sha256:1", "sha256:0"], "index": "pypi", "markers": "python_version >= '3.8'"}},
            "develop": {"a": {"version": "==1.2", "hashes": ["sha256:1"], "markers": "os_name == 'posix'"}, "b": {"version": "==2", "hashes": ["sha256:b"], "index": "own"},
                "c": {"version": "==3", "hashes": ["sha256:c"]}}}"#;
        let plan = of(&[("Pipfile.lock", lock)]).unwrap();
        assert_eq!(
            lines(&plan)[2..],
            [
                "a==1.2 ; (python_version >= '3.8') or (os_name == 'posix') --hash=sha256:0 --hash=sha256:1",
                "b==2 --hash=sha256:b",
                "c==3 --hash=sha256:c"
            ]
        );
    }

    #[test]
    fn what_is_not_installed_is_named() {
        let own = |edge: &str| {
            let root = format!("source = {{ editable = \".\" }}\ndependencies = [{edge}]");
            uv_lock(&[
                ("own", "0", &root),
                ("a", "1", ""),
                ("g", "1", "source = { git = \"https://x.org/g.git?rev=1#1\" }"),
                ("n", "1", "source = { registry = \"https://pypi.org/simple\" }"),
                (
                    "h",
                    "1",
                    "source = { registry = \"http://x.org/simple\" }\nwheels = [{ url = \"https://x.org/h.whl\", hash = \"sha256:h\" }]",
                ),
                (
                    "i",
                    "1",
                    "source = { registry = \"https://u:p@x.org/simple\" }\nwheels = [{ hash = \"sha256:h\" }]",
                ),
                (
                    "j",
                    "1",
                    "source = { registry = \"../wheels\" }\nwheels = [{ path = \"j.whl\", hash = \"sha256:j\" }]",
                ),
                (
                    "k",
                    "1",
                    "source = { registry = \"https://pypi.org/simple\" }\nwheels = [{ hash = \"sha256:k --no-binary=:all:\" }]",
                ),
                ("l", "1 --pre", ""),
                ("two", "1", ""),
                ("two", "2", ""),
            ])
        };
        let poetry = |rest: &str| poetry_lock("2.1", &[("a", rest)]);
        for (file, text, why) in [
            ("uv.lock", "version = 2\n".to_owned(), "is of version 2"),
            ("uv.lock", "x".to_owned(), "is no lock file"),
            ("uv.lock", own("{ name = \"g\" }"), "g comes from no registry"),
            ("uv.lock", own("{ name = \"n\" }"), "n has no digest"),
            ("uv.lock", own("{ name = \"h\" }"), "by https"),
            ("uv.lock", own("{ name = \"i\" }"), "no plain host"),
            ("uv.lock", own("{ name = \"j\" }"), "by https"),
            ("uv.lock", own("{ name = \"k\" }"), "has no digest"),
            ("uv.lock", own("{ name = \"l\" }"), "no name with a version"),
            ("uv.lock", own("{ name = \"two\" }"), "no one package that two is"),
            ("uv.lock", own("{ name = \"none\" }"), "no one package that none is"),
            ("uv.lock", own("{ name = \"a\", marker = \"extra == 'extra-3-own-x'\" }"), "is not done here"),
            ("uv.lock", own("{ name = \"a\", marker = \"x\\n--no-binary=:all:\" }"), "is no marker"),
            ("uv.lock", own("{ name = \"a\", marker = \"x --no-binary=:all:\" }"), "is no marker"),
            ("poetry.lock", poetry_lock("2.0", &[]), "with Poetry 2"),
            ("poetry.lock", poetry_lock("1.1", &[]), "with Poetry 2"),
            ("poetry.lock", poetry("groups = [\"main\"]\n[package.source]\ntype = \"git\"\nurl = \"https://x.org/a\""), "comes from git"),
            ("Pipfile.lock", "{".to_owned(), "is no lock file"),
            ("Pipfile.lock", r#"{"_meta": {}, "default": {"a": {"version": "==1", "hashes": ["md5:1"]}}}"#.to_owned(), "no digest"),
            ("Pipfile.lock", r#"{"_meta": {}, "default": {"a": {"version": "==1", "hashes": ["sha256:1"]}}, "develop": {"a": {"version": "==2", "hashes": ["sha256:1"]}}}"#.to_owned(), "two versions"),
            ("Pipfile.lock", r#"{"_meta": {}, "default": {"a": {"git": "https://x.org/a", "ref": "1"}}}"#.to_owned(), "no registry"),
            ("Pipfile.lock", r#"{"_meta": {"sources": [{"name": "x", "url": "https://x.org/$TOKEN/simple"}]}, "default": {"a": {"version": "==1", "hashes": ["sha256:1"]}}}"#.to_owned(), "no plain address"),
        ] {
            let error = of(&[(file, &text)]).expect_err(why);
            assert!(error.to_string().contains(why) && error.file == file, "{why}: {error}");
        }
        assert!(lines(&of(&[("uv.lock", &uv_lock(&[]))]).unwrap()).is_empty());
    }

    proptest::proptest! {
        /// However packages need one another, the end is reached, and each line is one that pip takes for a package.
        #[test]
        fn any_graph_is_read(edges in proptest::collection::vec((0..6usize, 0..6usize, 0..4u8), 0..24)) {
            let names = ["own", "a", "b", "c", "d", "e"];
            let packages: Vec<(&str, &str, String)> = names.iter().enumerate().map(|(from, name)| {
                let needs: Vec<String> = edges.iter().filter(|(f, to, _)| *f == from && *to != 0).map(|(_, to, m)| match m {
                    0 => format!("{{ name = \"{}\" }}", names[*to]),
                    m => format!("{{ name = \"{}\", marker = \"os_name == '{m}'\" }}", names[*to]),
                }).collect();
                let source = if from == 0 { "source = { virtual = \".\" }\n" } else { "" };
                (*name, "1", format!("{source}dependencies = [{}]", needs.join(", ")))
            }).collect();
            let packages: Vec<(&str, &str, &str)> = packages.iter().map(|(n, v, r)| (*n, *v, r.as_str())).collect();
            let plan = of(&[("uv.lock", &uv_lock(&packages))]).unwrap();
            for line in lines(&plan) {
                proptest::prop_assert!(line.contains("==1") && line.contains(" --hash=sha256:"), "{line}");
            }
        }
    }
}
