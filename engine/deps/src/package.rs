//! Packages that a command names, as `npx` and `uvx` take them: which package, its lock file, and the program in it. Everything but
//! [`lock`] is pure. The package and all that a registry says are hostile.

use std::collections::BTreeMap;
use std::fs;
use std::io::Read;
use std::path::{Path, PathBuf};

use hotcell_config::{Configuration, RunSettings};
use hotcell_sandbox::Engine;
use hotcell_toolchain::Surroundings;
use hotcell_workspace::Folder;
use serde::Deserialize;

use crate::plan::{Installer, MADE, Plan, host, is_plain};
use crate::{DepsError, Scene, install, refused};

pub mod lookalike;

/// Maximum size of a package's manifest, of entry points and of an installer's report, in bytes.
const MAX_METADATA_BYTES: u64 = 16 << 20;
/// Maximum length of a package's specification.
const MAX_SPEC: usize = 214;
/// Maximum number of packages in a report.
const MAX_PACKAGES: usize = 2_000;

/// Registry of a package.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Ecosystem {
    /// npm, as `npx`, `pnpm dlx`, `yarn dlx` and `bunx` use it.
    Npm,
    /// PyPI, as `uvx` and `pipx run` use it.
    Python,
}

/// A package that a command names, and the command's other words.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct NamedPackage {
    /// Registry.
    pub ecosystem: Ecosystem,
    /// Name, such as `@modelcontextprotocol/server-memory` or `mcp-server-time`.
    pub name: String,
    /// Version or range behind the name; empty for the newest.
    pub version: String,
    /// Program in the package; `None` for the one of its own name, or its only one.
    pub program: Option<String>,
    /// Arguments of the program.
    pub args: Vec<String>,
}

/// Reads a command such as `npx -y PACKAGE ARG…` or `uvx PACKAGE ARG…`; `None` for every other command.
///
/// # Errors
/// A sentence, for a package that is not one of a registry, or options that are not known.
pub fn named(words: &[String]) -> Result<Option<NamedPackage>, String> {
    let Some(first) = words.first() else { return Ok(None) };
    let base = first.rsplit('/').next().unwrap_or_default();
    let (ecosystem, words) = match (base, words.get(1).map(String::as_str)) {
        ("npx", _) => (Ecosystem::Npm, &words[1..]),
        ("npm", Some("exec" | "x")) => (Ecosystem::Npm, &words[2..]),
        ("pnpx" | "bunx", _) => (Ecosystem::Npm, &words[1..]),
        ("pnpm" | "yarn", Some("dlx")) | ("bun", Some("x")) => (Ecosystem::Npm, &words[2..]),
        ("uvx", _) => (Ecosystem::Python, &words[1..]),
        ("uv", Some("tool")) if words.get(2).is_some_and(|w| w == "run") => (Ecosystem::Python, &words[3..]),
        ("pipx", Some("run")) => (Ecosystem::Python, &words[2..]),
        _ => return Ok(None),
    };
    let (mut package, mut rest) = (None, words.iter());
    let first = loop {
        let Some(word) = rest.next() else { break None };
        let mut value = |name: &str| match word.strip_prefix(&format!("{name}=")) {
            Some(value) => Some(value.to_owned()),
            None if word == name => rest.next().cloned(),
            None => None,
        };
        match (ecosystem, word.as_str()) {
            (_, "--") => {}
            (Ecosystem::Npm, "-y" | "--yes" | "-q" | "--quiet") | (Ecosystem::Python, "-q" | "--quiet") => {}
            (Ecosystem::Npm, _) if word.starts_with("-p") || word.starts_with("--package") => {
                package = value("-p").or_else(|| value("--package"));
                if package.is_none() {
                    return Err(format!("{word}: a package is missing behind it"));
                }
            }
            (Ecosystem::Python, _) if word.starts_with("--from") || word.starts_with("--spec") => {
                package = value("--from").or_else(|| value("--spec"));
                if package.is_none() {
                    return Err(format!("{word}: a package is missing behind it"));
                }
            }
            (_, option) if option.starts_with('-') => {
                return Err(format!("the option {option} of {base} is not known here; leave it out"));
            }
            _ => break Some(word.clone()),
        }
    };
    let args = rest.cloned().collect();
    let (spec, program) = match (package, first) {
        (Some(package), program) => (package, program),
        (None, Some(package)) => (package, None),
        (None, None) => return Err(format!("{base} names no package")),
    };
    if let Some(program) = program.as_ref().filter(|program| !is_plain(program)) {
        return Err(format!("{program:?} is not the name of a program"));
    }
    let (name, version) = match ecosystem {
        Ecosystem::Npm => npm_spec(&spec)?,
        Ecosystem::Python => python_spec(&spec)?,
    };
    Ok(Some(NamedPackage { ecosystem, name, version, program, args }))
}

fn only(spec: &str, kind: &str) -> String {
    let spec: String = spec.chars().filter(|c| !c.is_control()).take(80).collect();
    format!(
        "{spec:?} is not a package of {kind} by name; addresses, paths and repositories are not installed"
    )
}

/// `name`, `@scope/name`, each with `@VERSION` behind it.
pub(crate) fn npm_spec(spec: &str) -> Result<(String, String), String> {
    let bad = || only(spec, "npm");
    let at = spec.char_indices().skip(1).find(|(_, c)| *c == '@').map_or(spec.len(), |(at, _)| at);
    let (name, version) = (&spec[..at], spec[at..].trim_start_matches('@'));
    let parts: Vec<&str> =
        name.strip_prefix('@').map_or_else(|| vec![name], |rest| rest.split('/').collect());
    let wanted = if name.starts_with('@') { 2 } else { 1 };
    let part = |part: &&str| {
        part.starts_with(|c: char| c.is_ascii_alphanumeric())
            && part.bytes().all(|b| b.is_ascii_alphanumeric() || b"-_.".contains(&b))
    };
    let range = |b: u8| b.is_ascii_alphanumeric() || b"-_.^~*<>=|+ ".contains(&b);
    if spec.len() > MAX_SPEC
        || parts.len() != wanted
        || !parts.iter().all(part)
        || !version.bytes().all(range)
    {
        return Err(bad());
    }
    Ok((name.to_owned(), version.to_owned()))
}

/// `name`, `name@VERSION` as uv writes it, or `name==VERSION` and other comparisons, with extras.
pub(crate) fn python_spec(spec: &str) -> Result<(String, String), String> {
    let bad = || only(spec, "PyPI");
    let end = spec.find(|c: char| !(c.is_ascii_alphanumeric() || "-_.".contains(c))).unwrap_or(spec.len());
    let (name, rest) = spec.split_at(end);
    let rest = match rest.strip_prefix('@') {
        Some("latest") => String::new(),
        Some(version) => format!("=={version}"),
        None => rest.to_owned(),
    };
    let fits = |b: u8| b.is_ascii_alphanumeric() || b"-_.+!<>=~,*[]".contains(&b);
    let starts = rest.is_empty() || rest.starts_with(['=', '<', '>', '~', '!', '[']);
    if spec.len() > MAX_SPEC || !is_plain(name) || !starts || !rest.bytes().all(fits) {
        return Err(bad());
    }
    Ok((name.to_owned(), rest))
}

impl NamedPackage {
    /// Name as a part of a path: without scope and slashes.
    #[must_use]
    pub fn short_name(&self) -> &str {
        self.name.rsplit('/').next().unwrap_or(&self.name)
    }
}

/// Packages of one registry, by name and version or range.
#[derive(Clone, Copy, Debug)]
pub(crate) struct Wanted<'a> {
    pub ecosystem: Ecosystem,
    /// Where they are named, for messages.
    pub named_by: &'a str,
    pub packages: &'a [(&'a str, &'a str)],
}

impl Wanted<'_> {
    /// `package.json` of a project that has these packages only.
    fn manifest(&self) -> Vec<u8> {
        let version = |version: &str| if version.is_empty() { "latest".into() } else { version.into() };
        let all: serde_json::Map<String, serde_json::Value> =
            self.packages.iter().map(|(name, range)| ((*name).to_owned(), version(range))).collect();
        let manifest = serde_json::json!({
            "name": "wrapped-server", "version": "0.0.0", "private": true, "dependencies": all,
        });
        manifest.to_string().into_bytes()
    }

    /// Plan that writes the lock file into a folder of its own; the installer runs no code of a package.
    pub fn plan(&self) -> Plan {
        let into = |name: &str| format!("{MADE}/{name}");
        match self.ecosystem {
            Ecosystem::Npm => {
                let files = BTreeMap::from([(into("package.json"), self.manifest())]);
                let hosts = ["registry.npmjs.org:443".to_owned()].into();
                let prefix = format!("--prefix={MADE}");
                let words = [
                    "npm",
                    "install",
                    &prefix,
                    "--package-lock-only",
                    "--ignore-scripts",
                    "--no-audit",
                    "--no-fund",
                    "--loglevel=error",
                ];
                let mut plan = Installer::Npm.plan(&[self.named_by], files, hosts, &words, MADE);
                plan.env = vec![("npm_config_cache".into(), "/tmp/npm".into())];
                plan
            }
            Ecosystem::Python => {
                let wanted: String =
                    self.packages.iter().map(|(name, version)| format!("{name}{version}\n")).collect();
                let files = BTreeMap::from([
                    ("wanted.txt".to_owned(), wanted.into_bytes()),
                    (into("empty"), Vec::new()),
                ]);
                let hosts = ["pypi.org:443", "files.pythonhosted.org:443"].map(str::to_owned).into();
                let report = format!("--report={}", into("report.json"));
                let mut words = crate::pip::INSTALL.to_vec();
                words.extend(["--dry-run", "--ignore-installed", &report, "-rwanted.txt"]);
                Installer::Pip.plan(&[self.named_by], files, hosts, &words, MADE)
            }
        }
    }

    /// Files of a project with these packages alone, out of the folder that the plan made.
    fn project(&self, made: &Path) -> Result<BTreeMap<&'static str, Vec<u8>>, String> {
        let read =
            |name: &str| small(made, Path::new(name)).map_err(|e| format!("the installer's {name}: {e}"));
        match self.ecosystem {
            Ecosystem::Npm => {
                let lock = read("package-lock.json")?;
                Ok(BTreeMap::from([("package.json", self.manifest()), ("package-lock.json", lock)]))
            }
            Ecosystem::Python => {
                let text = requirements(&read("report.json")?)?;
                Ok(BTreeMap::from([("requirements.txt", text.into_bytes())]))
            }
        }
    }
}

#[derive(Deserialize)]
struct PipReport {
    install: Vec<PipPackage>,
}

#[derive(Deserialize)]
struct PipPackage {
    metadata: PipMetadata,
    download_info: PipDownload,
}

#[derive(Deserialize)]
struct PipMetadata {
    name: String,
    version: String,
}

#[derive(Deserialize)]
struct PipDownload {
    url: String,
    archive_info: PipArchive,
}

#[derive(Deserialize)]
struct PipArchive {
    #[serde(default)]
    hashes: BTreeMap<String, String>,
    #[serde(default)]
    hash: Option<String>,
}

/// Requirements with digests, out of pip's installation report (version 1 of its format).
fn requirements(report: &[u8]) -> Result<String, String> {
    let report: PipReport = serde_json::from_slice(report).map_err(|e| format!("pip's report: {e}"))?;
    if report.install.is_empty() || report.install.len() > MAX_PACKAGES {
        return Err(format!(
            "pip's report names {} packages; 1 to {MAX_PACKAGES} are installed",
            report.install.len()
        ));
    }
    let mut text = String::new();
    for package in &report.install {
        let (name, version) = (&package.metadata.name, &package.metadata.version);
        host("pip's report", &package.download_info.url).map_err(|e| e.to_string())?;
        let archive = &package.download_info.archive_info;
        let digest = archive.hashes.get("sha256").cloned();
        let digest = digest.or_else(|| archive.hash.as_ref()?.strip_prefix("sha256=").map(str::to_owned));
        let digest = digest.filter(|d| d.len() == 64 && d.bytes().all(|b| b.is_ascii_hexdigit()));
        match digest {
            Some(digest) if is_plain(name) && is_plain(version) => {
                text.push_str(&format!("{name}=={version} --hash=sha256:{digest}\n"));
            }
            _ => {
                return Err(format!(
                    "pip's report: {name:.100} {version:.100} has no digest, or an odd name"
                ));
            }
        }
    }
    Ok(text)
}

/// A small regular file below a folder; no link leads out of it.
pub(crate) fn small(folder: &Path, path: &Path) -> std::io::Result<Vec<u8>> {
    let mut bytes = Vec::new();
    Folder::open(folder)?.file(path)?.take(MAX_METADATA_BYTES + 1).read_to_end(&mut bytes)?;
    match bytes.len() as u64 > MAX_METADATA_BYTES {
        true => Err(std::io::Error::other(format!("longer than {} MiB", MAX_METADATA_BYTES >> 20))),
        false => Ok(bytes),
    }
}

/// Makes a project folder with the lock file of a package, in a sandbox that reaches only the package's registry. A folder that is there already is
/// used as it is: the package stays at the digests that were locked.
///
/// # Errors
/// [`DepsError`] when the registry cannot be reached, has no such package, or says something odd.
pub async fn lock(
    engine: &Engine,
    (configuration, around): (&Configuration, &Surroundings),
    settings: &RunSettings,
    package: &NamedPackage,
    folder: &Path,
) -> Result<bool, DepsError> {
    let scene = Scene { configuration, around, project: around, settings };
    let packages = [(package.name.as_str(), package.version.as_str())];
    let wanted = Wanted { ecosystem: package.ecosystem, named_by: "the command", packages: &packages };
    lock_wanted(engine, &scene, wanted, folder).await
}

/// As [`lock`], for several packages.
pub(crate) async fn lock_wanted(
    engine: &Engine,
    scene: &Scene<'_>,
    wanted: Wanted<'_>,
    folder: &Path,
) -> Result<bool, DepsError> {
    if folder.is_dir() {
        return Ok(false);
    }
    let parent = folder.parent().unwrap_or(Path::new("."));
    let io = |e: std::io::Error| refused(format!("{}: {e}", parent.display()));
    fs::create_dir_all(parent).map_err(io)?;
    let making = tempfile::Builder::new().prefix(".lock-").tempdir_in(parent).map_err(io)?;
    let made = making.path().join("made");
    install(engine, scene, &wanted.plan(), &made).await?;
    let project = making.path().join("project");
    fs::create_dir(&project).map_err(io)?;
    for (name, bytes) in wanted.project(&made).map_err(refused)? {
        fs::write(project.join(name), bytes).map_err(io)?;
    }
    match fs::rename(&project, folder) {
        // Another process locked it meanwhile.
        Err(_) if folder.is_dir() => Ok(false),
        renamed => renamed.map(|()| true).map_err(io),
    }
}

/// Command that starts the package's program, with paths inside; `installed` is the folder of the host with the packages, `inside` its path in the sandbox.
///
/// # Errors
/// A sentence, when the package has no such program.
pub fn command(package: &NamedPackage, installed: &Path, inside: &Path) -> Result<Vec<String>, String> {
    let mut words = match package.ecosystem {
        Ecosystem::Npm => {
            let folder = Path::new(&package.name);
            let manifest = small(installed, &folder.join("package.json"))
                .map_err(|e| format!("the package {} has no package.json: {e}", package.name))?;
            let path = npm_program(&manifest, package)?;
            vec!["node".to_owned(), inside.join(folder).join(path).to_string_lossy().into_owned()]
        }
        Ecosystem::Python => {
            let (module, function) = python_program(installed, package)?;
            // As the installer's own script does it.
            let name = package.program.as_deref().unwrap_or(&package.name);
            let code = format!(
                "import sys; from {module} import {function} as f; sys.argv[0] = {name:?}; sys.exit(f())"
            );
            vec!["python3".to_owned(), "-c".to_owned(), code]
        }
    };
    words.extend(package.args.iter().cloned());
    Ok(words)
}

/// Path of a program in an npm package: the one that was asked for, else the one of the package's name, else the only one.
fn npm_program(manifest: &[u8], package: &NamedPackage) -> Result<PathBuf, String> {
    #[derive(Deserialize)]
    #[serde(untagged)]
    enum Bin {
        One(String),
        Many(BTreeMap<String, String>),
    }
    #[derive(Deserialize)]
    struct Manifest {
        #[serde(default)]
        bin: Option<Bin>,
    }
    let manifest: Manifest =
        serde_json::from_slice(manifest).map_err(|e| format!("the package.json of {}: {e}", package.name))?;
    let short = package.short_name();
    let all = match manifest.bin {
        Some(Bin::One(path)) => BTreeMap::from([(short.to_owned(), path)]),
        Some(Bin::Many(all)) => all,
        None => BTreeMap::new(),
    };
    let path = match &package.program {
        Some(program) => all.get(program),
        None => all.get(short).or_else(|| all.values().next().filter(|_| all.len() == 1)),
    };
    let names = all.keys().take(10).map(|name| format!("{name:.40}")).collect::<Vec<_>>().join(", ");
    let path = path.ok_or_else(|| match names.as_str() {
        "" => format!("the package {} has no program", package.name),
        _ => format!(
            "the package {} has several programs ({names}): name one with -p {} PROGRAM",
            package.name, package.name
        ),
    })?;
    let path = Path::new(path.strip_prefix("./").unwrap_or(path));
    match crate::plan::is_below(&path.to_string_lossy()) {
        true => Ok(path.to_owned()),
        false => Err(format!("the program of {} is outside of the package", package.name)),
    }
}

/// Module and function of a console script.
fn python_program(installed: &Path, package: &NamedPackage) -> Result<(String, String), String> {
    let wanted = package.program.as_deref().unwrap_or(&package.name);
    let mut seen = Vec::new();
    let folders = fs::read_dir(installed).map_err(|e| format!("the packages of {}: {e}", package.name))?;
    for entry in folders.flatten().take(10 * MAX_PACKAGES) {
        let name = entry.file_name();
        if !name.to_string_lossy().ends_with(".dist-info") {
            continue;
        }
        let Ok(text) = small(installed, &Path::new(&name).join("entry_points.txt")) else { continue };
        let is_own = is_named(&name.to_string_lossy(), &package.name);
        for (script, target) in console_scripts(&String::from_utf8_lossy(&text)) {
            if script == wanted {
                return python_target(&target)
                    .ok_or_else(|| format!("{wanted}: its entry point is odd: {target:.100}"));
            }
            if is_own {
                seen.push((script, target));
            }
        }
    }
    match (package.program.is_none(), seen.as_slice()) {
        (true, [(_, target)]) => {
            python_target(target).ok_or_else(|| format!("its entry point is odd: {target:.100}"))
        }
        _ => {
            let names =
                seen.iter().take(10).map(|(name, _)| format!("{name:.40}")).collect::<Vec<_>>().join(", ");
            let hint = if names.is_empty() {
                String::new()
            } else {
                format!("; it has {names}: uvx --from {} PROGRAM", package.name)
            };
            Err(format!("the package {} has no program {wanted:.80}{hint}", package.name))
        }
    }
}

/// Whether a `.dist-info` folder is that of a package; names are compared as PEP 503 normalises them.
fn is_named(folder: &str, package: &str) -> bool {
    let same = |name: &str| name.to_ascii_lowercase().replace(['-', '.'], "_");
    folder.split('-').next().is_some_and(|name| same(name) == same(package))
}

/// Scripts of the section `console_scripts`, with their targets.
fn console_scripts(text: &str) -> Vec<(String, String)> {
    let mut scripts = Vec::new();
    let mut is_on = false;
    for line in text.lines().take(10_000).map(str::trim) {
        if line.starts_with('[') {
            is_on = line == "[console_scripts]";
        } else if let Some((name, target)) = line.split_once('=').filter(|_| is_on) {
            scripts.push((name.trim().to_owned(), target.trim().to_owned()));
        }
    }
    scripts
}

/// `module:function`, both of identifiers, since they become code.
fn python_target(target: &str) -> Option<(String, String)> {
    let target = target.split('[').next()?.trim();
    let (module, function) = target.split_once(':')?;
    let is_name = |text: &str| {
        text.split('.').all(|part| {
            part.starts_with(|c: char| c.is_ascii_alphabetic() || c == '_')
                && part.bytes().all(|b| b.is_ascii_alphanumeric() || b == b'_')
        })
    };
    // An attribute of a class, `Class.method`, cannot be imported by this form.
    (is_name(module) && is_name(function) && !function.contains('.'))
        .then(|| (module.to_owned(), function.to_owned()))
}

#[cfg(test)]
mod tests;
