//! Values that pass from one file of a project to another: finds the function that is meant, has its file read
//! again with the parameter as one that the caller gives, and joins the ways.

use std::collections::{BTreeMap, BTreeSet};

use crate::artifact::Called;
use crate::report::{Finding, Frame, Pass, Report, Severity, Verdict};

/// Maximum number of files that a value passes through after the first.
const MAX_ROUNDS: usize = 4;
/// Maximum number of scans for this in one artifact.
const MAX_SCANS: usize = 64;
/// Maximum number of parameters that are followed in one artifact.
const MAX_CALLED: usize = 256;
/// Maximum number of frames of a way through several files.
const MAX_FRAMES: usize = 24;
/// Ends of the paths of modules in JavaScript and TypeScript.
const ENDINGS: &[&str] =
    &[".js", ".mjs", ".cjs", ".ts", ".mts", ".tsx", ".jsx", "/index.js", "/index.mjs", "/index.ts"];
/// Rule that says that values were not followed further.
pub(crate) const BOUNDED: &str = "guard.flow_bounded";

/// Joins the ways of values between the parts of a report. `again` scans a file, by the path before the first
/// `!` of its parts, with the values that its functions get; `None` when that could not be done.
pub(crate) fn follow(report: &mut Report, again: &mut dyn FnMut(&str, &[Called]) -> Option<Report>) {
    let mut passes = std::mem::take(&mut report.coverage.passes);
    if passes.is_empty() {
        return;
    }
    let paths: BTreeSet<String> = report.coverage.parts.iter().map(|part| part.path.clone()).collect();
    let mut ways: BTreeMap<Called, Vec<Frame>> = BTreeMap::new();
    let mut scans = 0;
    let mut bounded = false;
    for _ in 0..MAX_ROUNDS {
        let mut files: BTreeSet<String> = BTreeSet::new();
        for pass in std::mem::take(&mut passes) {
            let Some((part, function)) = resolve(&pass, &paths) else { continue };
            let called = meant(part, function, &pass);
            if ways.contains_key(&called) {
                continue;
            }
            if ways.len() >= MAX_CALLED {
                bounded = true;
                break;
            }
            files.insert(file_of(part).to_owned());
            ways.insert(called, placed(&pass.frames, &pass.part));
        }
        for file in files {
            let called: Vec<Called> = ways.keys().filter(|c| file_of(&c.part) == file).cloned().collect();
            scans += 1;
            let Some(found) = (scans <= MAX_SCANS).then(|| again(&file, &called)).flatten() else {
                bounded = true;
                continue;
            };
            // Its unread parts are in the report already. Warnings of files do not add up here: each file was scored.
            bounded |= found.verdict == Verdict::Incomplete;
            for mut finding in found.findings {
                let is_known = |own: &Finding| {
                    (&own.rule, &own.part, own.line, own.column, own.severity)
                        == (&finding.rule, &finding.part, finding.line, finding.column, finding.severity)
                };
                if report.findings.iter().any(is_known) {
                    continue;
                }
                report.verdict = report.verdict.max(match finding.severity {
                    Severity::Critical => Verdict::Quarantine,
                    Severity::Warning => Verdict::Review,
                    Severity::Note => Verdict::Allow,
                });
                finding.frames = joined(&ways, &finding.part, finding.frames);
                report.findings.push(finding);
            }
            for mut pass in found.coverage.passes {
                pass.frames = joined(&ways, &pass.part, pass.frames);
                passes.push(pass);
            }
        }
        if passes.is_empty() {
            break;
        }
    }
    let is_open = |pass: &Pass| {
        resolve(pass, &paths).is_some_and(|(part, function)| !ways.contains_key(&meant(part, function, pass)))
    };
    if bounded || passes.iter().any(is_open) {
        let note = bound(report);
        report.findings.push(note);
    }
    report.findings.sort_by_key(|finding| std::cmp::Reverse(finding.severity));
}

/// The parameter that a pass means.
fn meant(part: &str, function: String, pass: &Pass) -> Called {
    let Pass { argument, origin, silent, .. } = pass.clone();
    Called { part: part.to_owned(), function, argument, origin, silent }
}

fn file_of(part: &str) -> &str {
    part.split('!').next().unwrap_or(part)
}

/// Frames with the part that they are in.
fn placed(frames: &[Frame], part: &str) -> Vec<Frame> {
    let with =
        |frame: &Frame| Frame { part: frame.part.clone().or_else(|| Some(part.to_owned())), ..frame.clone() };
    frames.iter().map(with).collect()
}

/// A way that begins with a parameter of a called function, with the way up to the call before it.
fn joined(ways: &BTreeMap<Called, Vec<Frame>>, part: &str, frames: Vec<Frame>) -> Vec<Frame> {
    let named = frames.first().and_then(|frame| frame.name.split_once('('));
    let Some(function) = named.map(|(name, _)| name.to_owned()) else { return frames };
    let before = ways
        .iter()
        .find(|(called, _)| called.part == part && called.is_of(&function))
        .map(|(_, way)| way.clone())
        .unwrap_or_default();
    before.into_iter().chain(frames).take(MAX_FRAMES).collect()
}

/// Part and function that a pass means. Relative names begin in the part's own package; others in its folder,
/// or in one above it.
fn resolve<'p>(pass: &Pass, paths: &'p BTreeSet<String>) -> Option<(&'p str, String)> {
    let (outer, own) = pass.part.rfind('!').map_or(("", &*pass.part), |at| pass.part.split_at(at + 1));
    let mut folders: Vec<&str> = own.split('/').collect();
    folders.pop();
    if pass.target.starts_with("./") || pass.target.starts_with("../") {
        let found = by_path(outer, &folders, &pass.target, paths)?;
        return (found.0 != pass.part).then_some(found);
    }
    let names = pass.target.trim_start_matches('.');
    let level = pass.target.len() - names.len();
    let names: Vec<&str> = names.split('.').map(|name| name.trim_end_matches("()")).collect();
    if names.iter().any(|name| name.is_empty() || name.contains(['/', '(', '!'])) {
        return None;
    }
    let starts: Vec<usize> = match level {
        0 => (0..=folders.len()).rev().collect(),
        _ => vec![folders.len().checked_sub(level - 1)?],
    };
    for start in starts {
        // `pkg.module.function`, `pkg.module.Class.method`.
        for functions in 1..=2.min(names.len()) {
            let (module, function) = names.split_at(names.len() - functions);
            // `from . import run` takes a name of the package itself; an absolute name begins with a module.
            if module.is_empty() && level == 0 {
                continue;
            }
            let path = [&folders[..start], module].concat().join("/");
            let is_there = |ending: &str| paths.get(&format!("{outer}{path}{ending}"));
            let found = [".py", "/__init__.py"].into_iter().find_map(is_there);
            // The part itself is no other file.
            if let Some(found) = found.filter(|found| **found != pass.part && !path.is_empty()) {
                return Some((found.as_str(), function.join(".")));
            }
        }
    }
    None
}

/// Part and function of `./helpers.run` in JavaScript and TypeScript; without a function it is the default one.
fn by_path<'p>(
    outer: &str,
    folders: &[&str],
    target: &str,
    paths: &'p BTreeSet<String>,
) -> Option<(&'p str, String)> {
    let part = |module: &str| {
        let mut names = folders.to_vec();
        for name in module.split('/') {
            match name {
                "" | "." => {}
                ".." => _ = names.pop()?,
                name => names.push(name),
            }
        }
        let path = format!("{outer}{}", names.join("/"));
        // In TypeScript `./helpers.js` means `helpers.ts`.
        let stem = path.strip_suffix(".js").or_else(|| path.strip_suffix(".mjs")).unwrap_or(&path);
        let with = |stem: &str, ending: &str| paths.get(&format!("{stem}{ending}")).map(String::as_str);
        with(&path, "")
            .or_else(|| ENDINGS.iter().find_map(|ending| with(&path, ending)))
            .or_else(|| [".ts", ".mts", ".tsx"].iter().find_map(|ending| with(stem, ending)))
    };
    if let Some(found) = part(target) {
        return Some((found, "default".to_owned()));
    }
    // `./helpers.run`, `./shell.js.Shell().run`, `./runner().run`.
    let names = target.rsplit('/').next()?;
    let mut ends = names.char_indices().rev().filter(|(_, c)| *c == '.').take(3);
    let begin = target.len() - names.len();
    ends.find_map(|(at, _)| {
        let (module, function) = (&target[..begin + at], &target[begin + at + 1..]);
        let (module, of) = match module.strip_suffix("()") {
            Some(module) => (module, "default."),
            None => (module, ""),
        };
        Some((part(module)?, format!("{of}{}", function.replace("()", ""))))
    })
}

/// True for files whose functions other files may import.
pub(crate) fn is_source(name: &str) -> bool {
    [".py", ".js", ".mjs", ".cjs", ".jsx", ".ts", ".mts", ".cts", ".tsx"]
        .iter()
        .any(|ending| name.ends_with(ending))
}

fn bound(report: &Report) -> Finding {
    Finding {
        rule: BOUNDED.to_owned(),
        severity: Severity::Note,
        capability: "flow.bounded".to_owned(),
        part: report.artifact.names.first().cloned().unwrap_or_default(),
        line: 0,
        column: 0,
        end_line: 0,
        cwe: None,
        message: "Values that pass through many files were not followed to their end.".to_owned(),
        derived_from: Vec::new(),
        frames: Vec::new(),
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::report::Argument;

    fn pass(part: &str, target: &str) -> Pass {
        Pass {
            part: part.to_owned(),
            target: target.to_owned(),
            argument: Argument::Position(0),
            origin: 0,
            silent: false,
            frames: Vec::new(),
        }
    }

    #[test]
    fn imported_names_mean_functions_of_parts() {
        let paths = [
            "app.py",
            "util.py",
            "pkg/__init__.py",
            "pkg/a.py",
            "pkg/b.py",
            "pkg/sub/c.py",
            "lib/d.py",
            "src/e/f.py",
            "a.whl!p/x.py",
            "a.whl!p/y.py",
            "y.py",
            "web/a.js",
            "web/b.js",
            "web/c.ts",
            "lib/index.js",
        ];
        let paths: BTreeSet<String> = paths.into_iter().map(str::to_owned).collect();
        for (part, target, want) in [
            ("app.py", "util.run", Some(("util.py", "run"))),
            ("app.py", "pkg.a.run", Some(("pkg/a.py", "run"))),
            ("app.py", "pkg.run", Some(("pkg/__init__.py", "run"))),
            ("app.py", "pkg.a.Runner().run", Some(("pkg/a.py", "Runner.run"))),
            ("app.py", "pkg.a.Runner.run", Some(("pkg/a.py", "Runner.run"))),
            ("pkg/a.py", ".b.run", Some(("pkg/b.py", "run"))),
            ("pkg/a.py", ".run", Some(("pkg/__init__.py", "run"))),
            ("pkg/sub/c.py", "..b.run", Some(("pkg/b.py", "run"))),
            ("pkg/sub/c.py", "...util.run", Some(("util.py", "run"))),
            ("pkg/sub/c.py", ".....util.run", None),
            ("pkg/sub/c.py", "util.run", Some(("util.py", "run"))),
            ("pkg/sub/c.py", "pkg.b.run", Some(("pkg/b.py", "run"))),
            ("src/e/f.py", "e.f.run", None),
            ("lib/d.py", "subprocess.run", None),
            ("app.py", "run", None),
            ("app.py", "app.run", None),
            ("a.whl!p/x.py", ".y.run", Some(("a.whl!p/y.py", "run"))),
            ("a.whl!p/x.py", "y.run", Some(("a.whl!p/y.py", "run"))),
            ("a.whl!p/x.py", "util.run", None),
            ("app.py", "../util.run", None),
            ("app.py", "util..run", None),
            ("web/a.js", "./b.run", Some(("web/b.js", "run"))),
            ("web/a.js", "./b.js.run", Some(("web/b.js", "run"))),
            ("web/a.js", "./b", Some(("web/b.js", "default"))),
            ("web/a.js", "./b.js", Some(("web/b.js", "default"))),
            ("web/a.js", "./c.js.run", Some(("web/c.ts", "run"))),
            ("web/a.js", "../lib.run", Some(("lib/index.js", "run"))),
            ("web/a.js", "./b.js.Shell().run", Some(("web/b.js", "Shell.run"))),
            ("web/a.js", "./b.Shell().run", Some(("web/b.js", "Shell.run"))),
            ("web/a.js", "./b().run", Some(("web/b.js", "default.run"))),
            ("web/a.js", "./b.shell.run", Some(("web/b.js", "shell.run"))),
            ("web/a.js", "../../lib.run", None),
            ("web/a.js", "./a.run", None),
            ("web/a.js", "./gone.run", None),
        ] {
            let found = resolve(&pass(part, target), &paths);
            let found = found.as_ref().map(|(part, function)| (*part, function.as_str()));
            assert_eq!(found, want, "{part} {target}");
        }
    }
}
