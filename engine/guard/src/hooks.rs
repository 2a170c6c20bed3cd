//! Files that an installer runs together: the script that a package names for its installation, and the files of the
//! package that these execute. Every file is scored by itself; these also count as one.

use std::collections::{BTreeMap, BTreeSet, VecDeque};

use crate::ingest::runs_by_itself;
use crate::report::{Finding, HandedSource, Part, PartState, Report, Severity, Verdict};
use crate::rules::basename;
use crate::score::MIN_WARNING_KINDS;
use crate::value::HOLE;

/// Rule that says that a package runs something while it is installed.
const INSTALL_SCRIPT: &str = "file.npm.install_script";
/// Maximum number of files that are followed from one hook.
const MAX_FILES: usize = 256;
/// Maximum number of links that are followed in one artifact.
const MAX_STEPS: usize = 1_000_000;

/// Capabilities that are dangerous together in whatever an installer runs, as the rule `together.stealer` has them for
/// one file: a place of credentials, and a way out.
const CREDENTIALS: &[&str] = &["credentials.read", "credentials.path"];
const WAYS_OUT: &[&str] = &["net.send", "exfil.channel", "net.connect", "exfiltration"];

/// Files of an artifact, and which of them execute which.
type Links<'r> = BTreeMap<&'r str, Vec<&'r str>>;

/// Adds a finding for every hook whose files are dangerous together, and raises the verdict.
pub(crate) fn judge(report: &mut Report) {
    let mut hooks: BTreeSet<&str> =
        report.findings.iter().filter(|f| f.rule == INSTALL_SCRIPT).map(|f| f.part.as_str()).collect();
    let paths = report.coverage.parts.iter().map(|part| part.path.as_str());
    hooks.extend(paths.clone().filter(|path| runs_by_itself(path)));
    if hooks.is_empty() {
        return;
    }
    let parts: BTreeSet<&str> = paths.collect();
    let mut links = Links::new();
    for handed in &report.coverage.executes {
        if let HandedSource::File(path) | HandedSource::Program(path) = &handed.source
            && let Some(target) = resolve(&handed.part, path, &parts)
        {
            links.entry(&handed.part).or_default().push(target);
        }
    }
    let mut findings: BTreeMap<&str, Vec<&Finding>> = BTreeMap::new();
    for finding in &report.findings {
        findings.entry(&finding.part).or_default().push(finding);
    }
    let mut left = MAX_STEPS;
    let mut found = Vec::new();
    for hook in hooks.into_iter().filter(|hook| links.contains_key(hook)) {
        let files = reached(hook, &links, &mut left);
        let all = files.iter().filter_map(|file| findings.get(file)).flatten().copied();
        if files.len() > 1 && are_dangerous_together(&all) {
            found.push(finding(hook));
        }
    }
    if !found.is_empty() {
        report.verdict = report.verdict.max(Verdict::Quarantine);
        report.findings.splice(0..0, found);
    }
    if left == 0 {
        report.verdict = report.verdict.max(Verdict::Incomplete);
        let state = PartState::Skipped("too many files that an installer runs".to_owned());
        let path = report.artifact.names.first().cloned().unwrap_or_default();
        report.coverage.parts.push(Part { path, language: String::new(), state });
        report.coverage.count();
    }
}

fn are_dangerous_together<'r>(findings: &(impl Iterator<Item = &'r Finding> + Clone)) -> bool {
    let warnings = findings.clone().filter(|finding| finding.severity >= Severity::Warning);
    let kinds: BTreeSet<&str> = warnings.map(|f| f.capability.split('.').next().unwrap_or("")).collect();
    let any = |names: &[&str]| findings.clone().any(|finding| names.contains(&finding.capability.as_str()));
    kinds.len() >= MIN_WARNING_KINDS || any(CREDENTIALS) && any(WAYS_OUT)
}

/// A hook, and the files that it executes directly or through others. Each followed link takes one of the steps
/// `left`.
fn reached<'r>(hook: &'r str, links: &Links<'r>, left: &mut usize) -> BTreeSet<&'r str> {
    let mut files = BTreeSet::from([hook]);
    let mut next = VecDeque::from([hook]);
    while let Some(part) = next.pop_front() {
        for target in links.get(part).into_iter().flatten() {
            *left = left.saturating_sub(1);
            if *left == 0 {
                return files;
            }
            if files.len() < MAX_FILES && files.insert(target) {
                next.push_back(target);
            }
        }
    }
    files
}

/// Part that a path in another part means, also without its extension.
fn resolve<'r>(from: &str, path: &str, parts: &BTreeSet<&'r str>) -> Option<&'r str> {
    if path.contains([HOLE, '*']) || path.starts_with('/') {
        return None;
    }
    // Within the same archive.
    let (outer, own) = from.rfind('!').map_or(("", from), |at| from.split_at(at + 1));
    let mut names: Vec<&str> = own.split('/').collect();
    names.pop();
    for name in path.split('/') {
        match name {
            "" | "." => {}
            ".." => _ = names.pop()?,
            name => names.push(name),
        }
    }
    let path = format!("{outer}{}", names.join("/"));
    ["", ".js", ".cjs", ".mjs", ".ts", "/index.js"]
        .iter()
        .find_map(|ending| parts.get(format!("{path}{ending}").as_str()).copied())
}

fn finding(hook: &str) -> Finding {
    Finding {
        rule: "guard.install_together".to_owned(),
        severity: Severity::Critical,
        capability: "install.together".to_owned(),
        part: hook.to_owned(),
        line: 0,
        column: 0,
        end_line: 0,
        cwe: Some("CWE-506".to_owned()),
        message: format!(
            "The files that run while {} is installed do several kinds of things that are dangerous together.",
            if basename(hook) == "package.json" { "the package" } else { "it" }
        ),
        derived_from: Vec::new(),
        frames: Vec::new(),
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn paths_resolve_within_their_archive() {
        let parts =
            BTreeSet::from(["a.tgz!p/build/app.js", "a.tgz!p/build/x/index.js", "build/app.js", "a.tgz!p/y"]);
        for (from, path, wanted) in [
            ("a.tgz!p/package.json", "./build/app.js", Some("a.tgz!p/build/app.js")),
            ("a.tgz!p/package.json", "build/app", Some("a.tgz!p/build/app.js")),
            ("a.tgz!p/build/app.js", "./x", Some("a.tgz!p/build/x/index.js")),
            ("a.tgz!p/build/app.js", "../y", Some("a.tgz!p/y")),
            ("package.json", "build/app.js", Some("build/app.js")),
            ("b.tgz!package.json", "build/app.js", None),
            ("package.json", "../build/app.js", None),
            ("package.json", "/build/app.js", None),
            ("a.tgz!p/package.json", "build/*", None),
        ] {
            assert_eq!(resolve(from, path, &parts), wanted, "{from} {path}");
        }
    }
}
