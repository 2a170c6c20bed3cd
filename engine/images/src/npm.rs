//! Installs npm packages with the host's npm, without running any of their scripts. They go to
//! `/usr/local/lib/node_modules`, where every program finds them through the link `/node_modules`; their
//! commands go to `/usr/local/bin`.

use std::collections::BTreeMap;
use std::fs;
use std::io::{self, Write};
use std::path::{Path, PathBuf};
use std::process::Command;
use std::time::Duration;

use serde::Deserialize;
use serde_json::Value;

use crate::tarball;
use crate::tool::{self, ToolError};

/// Time limit for downloads of some hundred megabytes.
const DOWNLOAD_TIMEOUT: Duration = Duration::from_secs(30 * 60);
/// Folder of the packages.
const PLACE: &str = "usr/local/lib/node_modules";

/// Reason why npm packages cannot be installed.
#[derive(Debug, thiserror::Error)]
pub enum NpmError {
    /// npm is missing or fails.
    #[error(transparent)]
    Tool(#[from] ToolError),
    /// A file that npm wrote cannot be parsed.
    #[error("npm: {file}: {error}")]
    Form {
        /// The file.
        file: String,
        /// The error of the parser.
        error: serde_json::Error,
    },
    /// The registry lists no digest for a package.
    #[error("npm: {0} comes without a digest, so nothing could tell whether it is the same again")]
    NoDigest(String),
    /// npm installed other packages than it had resolved.
    #[error(
        "npm: the registry had other packages when they were installed than when they were resolved; build again"
    )]
    Changed,
    /// The build folder cannot be read or written.
    #[error("npm: {0}")]
    Io(#[from] io::Error),
}

#[derive(Deserialize)]
struct Lock {
    packages: BTreeMap<String, Locked>,
}

#[derive(Deserialize)]
struct Locked {
    version: Option<String>,
    integrity: Option<String>,
    #[serde(default)]
    link: bool,
    /// Bundled in the archive of the package above it.
    #[serde(default, rename = "inBundle")]
    bundled: bool,
}

#[derive(Deserialize)]
struct Package {
    name: String,
    #[serde(default)]
    bin: Value,
}

/// Resolves packages: writes a lock file in `work`, and returns a line `PLACE VERSION DIGEST` for each.
///
/// # Errors
/// [`NpmError::Tool`] when npm is missing or fails; [`NpmError::Form`] or [`NpmError::NoDigest`] when its
/// lock file is not usable; [`NpmError::Io`] when `work` cannot be used.
pub fn resolve(packages: &[String], work: &Path) -> Result<Vec<String>, NpmError> {
    fs::write(work.join("package.json"), "{\"private\":true}\n")?;
    let mut lock = npm(work)?;
    lock.args(["install", "--package-lock-only", "--save-exact", "--"]).args(packages);
    tool::run(lock, "npm install --package-lock-only", DOWNLOAD_TIMEOUT)?;
    list(work)
}

/// Lines for the packages in the lock file in `work`.
fn list(work: &Path) -> Result<Vec<String>, NpmError> {
    rows(&fs::read_to_string(work.join("package-lock.json"))?)
}

fn rows(text: &str) -> Result<Vec<String>, NpmError> {
    let form = |error| NpmError::Form { file: "package-lock.json".to_owned(), error };
    let lock: Lock = serde_json::from_str(text).map_err(form)?;
    let listed = lock.packages.into_iter().filter(|(place, _)| !place.is_empty());
    listed
        .map(|(place, locked)| match locked {
            Locked { version: Some(version), integrity: Some(integrity), link: false, .. } => {
                Ok(format!("{place} {version} {integrity}"))
            }
            Locked { version: Some(version), bundled: true, link: false, .. } => {
                Ok(format!("{place} {version} bundled"))
            }
            _ => Err(NpmError::NoDigest(place)),
        })
        .collect()
}

/// Installs the packages that [`resolve`] resolved in the same `work`, and writes them to `out` at their
/// paths in the image.
///
/// # Errors
/// As [`resolve`], and [`NpmError::Changed`] when npm installed other packages than it had resolved.
pub fn write<W: Write>(packages: &[String], work: &Path, out: &mut tar::Builder<W>) -> Result<(), NpmError> {
    // Not `npm ci`, which rejects a lock file without the optional packages that a registry does not have.
    let before = list(work)?;
    let mut install = npm(work)?;
    install.arg("install");
    tool::run(install, "npm install", DOWNLOAD_TIMEOUT)?;
    if list(work)? != before {
        return Err(NpmError::Changed);
    }
    let modules = work.join("node_modules");
    let mut commands: Vec<String> = Vec::new();
    for package in packages {
        let name = package.rsplit_once('@').map_or(package.as_str(), |(name, _)| name);
        let file = modules.join(name).join("package.json");
        commands.extend(commands_of(&fs::read_to_string(&file)?, name)?);
    }
    commands.sort();
    commands.dedup();
    for command in commands.iter().filter(|c| modules.join(".bin").join(c).exists()) {
        let target = PathBuf::from("../lib/node_modules/.bin").join(command);
        tarball::link(out, &Path::new("usr/local/bin").join(command), &target)?;
    }
    // npm's own list names the registry's host.
    tarball::add(out, &modules, Path::new(PLACE), &[".package-lock.json"])?;
    Ok(tarball::link(out, Path::new("node_modules"), Path::new(PLACE))?)
}

/// Commands that a package's `package.json` declares.
fn commands_of(text: &str, package: &str) -> Result<Vec<String>, NpmError> {
    let form = |error| NpmError::Form { file: format!("{package}/package.json"), error };
    let described: Package = serde_json::from_str(text).map_err(form)?;
    let names = match described.bin {
        Value::String(_) => vec![described.name.rsplit('/').next().unwrap_or_default().to_owned()],
        Value::Object(many) => many.into_iter().map(|(name, _)| name).collect(),
        _ => Vec::new(),
    };
    let plain = |name: &String| {
        !name.is_empty()
            && !name.starts_with('.')
            && name.bytes().all(|b| b.is_ascii_alphanumeric() || b"._-".contains(&b))
    };
    Ok(names.into_iter().filter(plain).collect())
}

fn npm(work: &Path) -> Result<Command, ToolError> {
    let program = tool::find("npm", "npm packages are installed by it: apt-get install npm")?;
    // The user's own configuration, which may name a registry.
    let home = std::env::home_dir().unwrap_or_else(|| work.to_owned());
    let mut command = tool::command(&program, &home, &["NPM_CONFIG_", "npm_config_", "NODE_EXTRA_CA_CERTS"]);
    command.current_dir(work).env("npm_config_cache", work.join("cache")).args([
        "--ignore-scripts",
        "--no-audit",
        "--no-fund",
        "--no-update-notifier",
        "--no-progress",
        "--loglevel=error",
    ]);
    Ok(command)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn npm_lock_file_is_parsed() {
        let text = r#"{"lockfileVersion": 3, "packages": {
            "": {"dependencies": {"a": "1.0.0"}},
            "node_modules/b": {"version": "2.0.0", "resolved": "https://r/b", "integrity": "sha512-B", "dev": true},
            "node_modules/b/node_modules/c": {"version": "3.0.0", "inBundle": true},
            "node_modules/a": {"version": "1.0.0", "integrity": "sha512-A"}}}"#;
        let want = [
            "node_modules/a 1.0.0 sha512-A",
            "node_modules/b 2.0.0 sha512-B",
            "node_modules/b/node_modules/c 3.0.0 bundled",
        ];
        assert_eq!(rows(text).unwrap(), want);
        for (text, word) in [
            ("{}", "packages"),
            (r#"{"packages": {"node_modules/x": {"version": "1"}}}"#, "node_modules/x"),
            (
                r#"{"packages": {"node_modules/x": {"version": "1", "integrity": "s", "link": true}}}"#,
                "node_modules/x",
            ),
        ] {
            let error = rows(text).unwrap_err().to_string();
            assert!(error.contains(word), "{error}");
        }
    }

    #[test]
    fn commands_as_packages_name_them() {
        for (text, want) in [
            (r#"{"name": "jest", "bin": {"jest": "./bin/jest.js"}}"#, &["jest"][..]),
            (r#"{"name": "@a/tool", "bin": "./x.js"}"#, &["tool"]),
            (r#"{"name": "a"}"#, &[]),
            (r#"{"name": "a", "bin": {"../evil": "x", ".h": "x", "b.c": "x", "": "x"}}"#, &["b.c"]),
        ] {
            assert_eq!(commands_of(text, "a").unwrap(), want, "{text}");
        }
        assert!(commands_of("[]", "a").is_err());
    }
}
