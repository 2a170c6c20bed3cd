//! Lock files of npm.

use std::collections::{BTreeMap, BTreeSet};

use hotcell_testing::Project;
use serde::Deserialize;

use crate::plan::{Installer, LockError, Plan, add, bad, host, text};

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
pub fn npm(project: &dyn Project, file: &str) -> Result<Plan, LockError> {
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

/// True when a package is part of another that is fetched and has a digest.
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
