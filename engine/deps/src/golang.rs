//! `go.sum`: the modules of a Go project, each by its digest, from Go's module proxy. Pure.

use std::collections::{BTreeMap, BTreeSet};
use std::ffi::OsString;

use hotcell_testing::Project;

use crate::plan::{Installer, LockError, MADE, Plan, add, bad, text};

/// Lock files of a module, and of a workspace with several modules.
const SUMS: [&str; 2] = ["go.sum", "go.work.sum"];
/// Files from which go determines the modules.
const READ: [&str; 4] = ["go.mod", "go.sum", "go.work", "go.work.sum"];
/// Default module proxy; go files cannot name another.
const PROXY: &str = "proxy.golang.org";

/// Plan for `go mod download`; `None` when the project has no lock file or vendors its modules.
/// <https://go.dev/ref/mod#go-mod-download>, <https://go.dev/ref/mod#go-sum-files>
pub fn plan(project: &dyn Project) -> Result<Option<Plan>, LockError> {
    let roots = ["go.work", "go.mod"].iter().any(|file| project.has(file));
    let locks: Vec<&str> = SUMS.into_iter().filter(|file| project.has(file)).collect();
    // Modules of a workspace have lock files of their own.
    let below = project.has("go.work") && project.files().iter().any(|file| file.ends_with("/go.sum"));
    if !roots || (locks.is_empty() && !below) || project.has("vendor/modules.txt") {
        return Ok(None);
    }
    let mut files = BTreeMap::new();
    let name = |path: &str| path.rsplit_once('/').map_or(path, |(_, name)| name).to_owned();
    let own: BTreeSet<String> = project
        .files()
        .iter()
        .filter(|path| READ.contains(&name(path).as_str()))
        .cloned()
        .chain(READ.iter().filter(|file| project.has(file)).map(|file| (*file).to_owned()))
        .collect();
    for file in own {
        add(&mut files, project, file)?;
    }
    for lock in &locks {
        check(lock, &text(project, lock)?)?;
    }
    let locks = if locks.is_empty() { vec!["the go.sum of each module"] } else { locks };
    let made = format!("{MADE}/go");
    let hosts = BTreeSet::from([format!("{PROXY}:443")]);
    let mut plan = Installer::Go.plan(&locks, files, hosts, &["go", "mod", "download"], &made);
    // A module without a digest in the lock file would be looked up at sum.golang.org, which is unreachable
    // here, so it is refused.
    plan.env = [
        ("GOPROXY", format!("https://{PROXY}")),
        ("GOMODCACHE", format!("/home/sandbox/project/{made}")),
        ("GOPATH", "/tmp/go".to_owned()),
        ("GOCACHE", "/tmp/go-build".to_owned()),
        ("GOFLAGS", "-modcacherw".to_owned()),
        ("GOVCS", "*:off".to_owned()),
        ("GOTOOLCHAIN", "local".to_owned()),
        ("GOENV", "off".to_owned()),
    ]
    .map(|(name, value)| (name.into(), value.into()))
    .into();
    Ok(Some(plan))
}

/// Variables that keep go offline: only modules of the lock file are available.
pub fn offline() -> impl Iterator<Item = (OsString, OsString)> {
    [("GOPROXY", "off"), ("GOTOOLCHAIN", "local")].into_iter().map(|(n, v)| (n.into(), v.into()))
}

/// Checks for lines `MODULE VERSION h1:DIGEST`, as go reads them.
fn check(file: &str, bytes: &[u8]) -> Result<(), LockError> {
    for (n, line) in String::from_utf8_lossy(bytes).lines().enumerate() {
        let words: Vec<&str> = line.split_whitespace().collect();
        match words.as_slice() {
            [] => {}
            [_, version, digest] if version.starts_with('v') && digest.contains(':') => {}
            _ => {
                let why = format!("line {} is not MODULE VERSION DIGEST: {line:.100}", n + 1);
                return Err(bad(file, why));
            }
        }
    }
    Ok(())
}
