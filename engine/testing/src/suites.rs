//! Suites of a project with several of them: which folders belong to which suite, and one report for all.
//! Pure.

use std::collections::BTreeSet;

use crate::case::{Case, MAX_CASES};
use crate::coverage::Coverage;
use crate::framework::{Ecosystem, Evidence, Framework, Strength};
use crate::frameworks::python::words;
use crate::frameworks::{frameworks, rival};
use crate::project::Project;
use crate::report::judge::is_none_found;
use crate::report::verdict::Verdict;
use crate::report::{Flaky, Suite, TestReport, Totals};
use hotcell_sandbox::outcome::Cause;

/// Maximum number of suites that are run together.
pub const MAX_SUITES: usize = 16;
/// Maximum depth of their folders below the project.
const MAX_FOLDER_DEPTH: usize = 8;

/// A suite that was found.
#[derive(Debug)]
pub struct Found {
    /// Folder below the project; empty for the project itself.
    pub folder: String,
    /// Framework.
    pub framework: &'static dyn Framework,
    /// Evidence for it.
    pub evidence: Evidence,
    /// Another framework of the same ecosystem with equal evidence: the user has to choose.
    pub rival: Option<(&'static dyn Framework, Evidence)>,
}

/// Suites of a project, by folder, without helpers: see [`helpers`].
#[must_use]
pub fn suites(project: &dyn Project) -> Vec<Found> {
    let (own, _) = apart(project);
    own
}

/// Notes on suites in another language that only help another suite, and that the project's own configuration
/// does not run.
#[must_use]
pub fn helpers(project: &dyn Project) -> Vec<String> {
    let (_, helpers) = apart(project);
    let say = |found: &Found| {
        let name = found.framework.name();
        match found.folder.as_str() {
            "" => format!(
                "tests of {name} were not run: they belong to an extension module; ‹framework={name}› runs them"
            ),
            folder => format!(
                "{folder} has tests of {name}, which were not run: it looks like a helper of this project's tests; name that folder to run them"
            ),
        }
    };
    helpers.iter().map(say).collect()
}

/// Folders of data for tests.
const OF_TESTS: [&str; 12] = [
    "tests",
    "test",
    "testing",
    "testdata",
    "test_data",
    "fixtures",
    "examples",
    "example",
    "samples",
    "benchmarks",
    "benches",
    "third_party",
];

/// The suites, and separately those that only help another one: in another language, in a folder of its tests
/// or as its extension module, and not started by the project's own configuration.
fn apart(project: &dyn Project) -> (Vec<Found>, Vec<Found>) {
    let all = all(project);
    if all.len() < 2 {
        return (all, Vec::new());
    }
    let tools = words::tools(project);
    let python: Vec<String> = all
        .iter()
        .filter(|f| f.framework.ecosystem() == Ecosystem::Python)
        .map(|f| f.folder.clone())
        .collect();
    let folders: Vec<(String, Ecosystem)> =
        all.iter().map(|f| (f.folder.clone(), f.framework.ecosystem())).collect();
    let helps = |found: &Found| {
        let own = found.framework.ecosystem();
        let started = match own {
            Ecosystem::Rust => tools.contains("cargo"),
            Ecosystem::Go => tools.contains("go"),
            Ecosystem::JavaScript => tools.contains("npm"),
            _ => false,
        };
        let within = |above: &str| {
            let rest =
                if above.is_empty() { Some(found.folder.as_str()) } else { found.folder.strip_prefix(above) };
            rest.is_some_and(|rest| rest.split('/').any(|part| OF_TESTS.contains(&part)))
        };
        let of_tests = folders
            .iter()
            .any(|(above, other)| *other != own && is_below(&found.folder, above) && within(above));
        let extension = own == Ecosystem::Rust
            && python.iter().any(|above| {
                (*above == found.folder || is_below(&found.folder, above)) && builds_rust(project, above)
            });
        !started && (of_tests || extension)
    };
    all.into_iter().partition(|found| !helps(found))
}

/// True when a Python project builds its Rust code itself.
fn builds_rust(project: &dyn Project, folder: &str) -> bool {
    ["pyproject.toml", "setup.py"].iter().any(|file| {
        let text = words::text(project, &in_all(folder, file)).unwrap_or_default();
        ["maturin", "setuptools-rust", "setuptools_rust"].iter().any(|sign| text.contains(sign))
    })
}

/// All suites, by folder. Each ecosystem's projects are the folders with one of its manifests, and the
/// project itself with all remaining files; each has at most one suite per ecosystem, that of the framework
/// with the strongest evidence.
fn all(project: &dyn Project) -> Vec<Found> {
    let mut found = Vec::new();
    for ecosystem in Ecosystem::ALL {
        let own = projects(project, ecosystem);
        for folder in own.iter().map(String::as_str).chain((!own.contains("")).then_some("")) {
            let others = own.iter().filter(|other| is_below(other, folder));
            let view = View::new(project, folder, others.map(String::as_str));
            let mut likely: Vec<_> = frameworks()
                .iter()
                .filter(|framework| framework.ecosystem() == ecosystem)
                .filter_map(|framework| Some((*framework, framework.detect(&view)?)))
                .filter(|(_, evidence)| evidence.strength >= Strength::Used)
                .collect();
            likely.sort_by_key(|(_, evidence)| std::cmp::Reverse(evidence.strength));
            let rival = rival(&likely).cloned();
            if let Some((framework, evidence)) = likely.into_iter().next() {
                found.push(Found { folder: folder.to_owned(), framework, evidence, rival });
            }
        }
    }
    found.sort_by(|a, b| a.folder.cmp(&b.folder));
    found
}

/// Folders with a manifest, except those that belong to a parent.
fn projects(project: &dyn Project, ecosystem: Ecosystem) -> BTreeSet<String> {
    let manifests = ecosystem.manifests();
    let folders: BTreeSet<String> = project
        .files()
        .iter()
        .filter_map(|file| {
            let (folder, name) = file.rsplit_once('/').unwrap_or(("", file));
            let near = folder.is_empty() || folder.matches('/').count() < MAX_FOLDER_DEPTH;
            (near && manifests.contains(&name)).then(|| folder.to_owned())
        })
        .collect();
    let mut own: BTreeSet<String> = BTreeSet::new();
    // Parents come first.
    for folder in folders {
        let above: Vec<&String> = own.iter().filter(|other| is_below(&folder, other)).collect();
        if above.iter().all(|above| ecosystem.stands_alone(project, above)) {
            own.insert(folder);
        }
    }
    own
}

fn is_below(folder: &str, above: &str) -> bool {
    folder != above
        && (above.is_empty() || folder.strip_prefix(above).is_some_and(|rest| rest.starts_with('/')))
}

impl Ecosystem {
    /// Files that make a folder a project of the ecosystem.
    const fn manifests(self) -> &'static [&'static str] {
        match self {
            Self::Python => &["pyproject.toml", "setup.py", "setup.cfg", "pytest.ini", "tox.ini"],
            Self::JavaScript => &["package.json"],
            Self::Rust => &["Cargo.toml"],
            Self::Go => &["go.mod", "go.work"],
            Self::Cpp => &["CMakeLists.txt"],
            Self::Java => &["pom.xml", "build.gradle", "build.gradle.kts"],
            Self::Sql => &[],
        }
    }

    /// True when a project below another is separate: always for a Go module, for a crate unless it belongs
    /// to a workspace. Python and JavaScript packages are tested from the top, which has their settings and
    /// dependencies.
    fn stands_alone(self, project: &dyn Project, above: &str) -> bool {
        let beside = |name: &str| if above.is_empty() { name.to_owned() } else { format!("{above}/{name}") };
        match self {
            Self::Python | Self::JavaScript | Self::Cpp | Self::Java | Self::Sql => false,
            Self::Go => !project.has(&beside("go.work")),
            Self::Rust => {
                let text = project.read(&beside("Cargo.toml")).unwrap_or_default();
                !text.split(|b| *b == b'\n').any(|line| line.trim_ascii().starts_with(b"[workspace"))
            }
        }
    }
}

/// A folder of a project, without other suites in it.
#[derive(Debug)]
struct View<'a> {
    project: &'a dyn Project,
    prefix: String,
    files: Vec<String>,
}

impl<'a> View<'a> {
    fn new<'b>(project: &'a dyn Project, folder: &str, without: impl Iterator<Item = &'b str>) -> Self {
        let prefix = if folder.is_empty() { String::new() } else { format!("{folder}/") };
        let without: Vec<String> = without.map(|other| format!("{other}/")).collect();
        let files = project
            .files()
            .iter()
            .filter(|file| !without.iter().any(|other| file.starts_with(other)))
            .filter_map(|file| file.strip_prefix(&prefix).map(str::to_owned))
            .collect();
        Self { project, prefix, files }
    }
}

impl Project for View<'_> {
    fn files(&self) -> &[String] {
        &self.files
    }

    fn read(&self, path: &str) -> Option<Vec<u8>> {
        self.project.read(&format!("{}{path}", self.prefix))
    }

    fn has(&self, path: &str) -> bool {
        self.project.has(&format!("{}{path}", self.prefix))
    }
}

/// A suite's path or id as it appears in the combined report.
#[must_use]
pub fn in_all(folder: &str, path: &str) -> String {
    if folder.is_empty() { path.to_owned() } else { format!("{folder}/{path}") }
}

/// Suite of a filter, by its folder prefix, and the rest of the filter. A filter without a folder applies to
/// all suites.
#[must_use]
pub fn of_filter<'a>(filter: &'a str, folders: &[&str]) -> Option<(usize, &'a str)> {
    let named = folders.iter().enumerate().filter(|(_, folder)| !folder.is_empty());
    let rest = |folder: &str| -> Option<&'a str> {
        let rest = filter.strip_prefix(folder)?;
        if rest.is_empty() { Some("") } else { rest.strip_prefix('/') }
    };
    named
        .filter_map(|(at, folder)| Some((at, folder.len(), rest(folder)?)))
        .max_by_key(|(_, length, _)| *length)
        .map(|(at, _, rest)| (at, rest))
}

/// Reports of several suites that got the same filter, without those in which nothing matches it: a test is in one of
/// them, and the others have no say. All of them if none has a match. What is left out is named in the reason.
#[must_use]
pub fn matching(mut reports: Vec<(String, TestReport)>) -> Vec<(String, TestReport)> {
    let unmatched = |report: &TestReport| {
        report.verdict == Verdict::Unusable
            && report.outcome.cause == Cause::Exited
            && report.cases.is_empty()
            && report.reason.as_deref().is_some_and(is_none_found)
    };
    // With several Pythons, a suite has several reports.
    let matched: BTreeSet<(String, String)> = reports
        .iter()
        .filter(|(_, report)| !unmatched(report))
        .map(|(folder, report)| (folder.clone(), report.framework.clone()))
        .collect();
    let ran = reports.iter().any(|(_, report)| !report.cases.is_empty());
    if !ran {
        return reports;
    }
    let mut left = BTreeSet::new();
    reports.retain(|(folder, report)| {
        let stays = !unmatched(report) || matched.contains(&(folder.clone(), report.framework.clone()));
        if !stays {
            let folder = if folder.is_empty() { "." } else { folder };
            left.insert(format!("{} in {folder}", report.framework));
        }
        stays
    });
    if let Some((_, first)) = reports.first_mut().filter(|_| !left.is_empty()) {
        let left: Vec<String> = left.into_iter().collect();
        let note = format!("no test matches in {}", left.join(", "));
        first.reason = Some(first.reason.take().map_or(note.clone(), |reason| format!("{reason}; {note}")));
    }
    reports
}

/// Combines the reports of several suites, by folder: all cases, the sum of the totals, and the verdict and
/// the outcome of the worst one. Ids and files begin with the folder. `None` for an empty list.
#[must_use]
pub fn join(reports: Vec<(String, TestReport)>) -> Option<TestReport> {
    let worst =
        reports.iter().enumerate().rev().max_by_key(|(_, (_, report))| report.verdict).map(|(at, _)| at)?;
    let mut suites = Vec::new();
    let mut cases: Vec<Case> = Vec::new();
    let mut totals = Totals::default();
    let mut answer = None;
    let mut coverage: Option<Coverage> = None;
    let mut flaky: Option<Vec<Flaky>> = None;
    let (mut complete, mut consistent) = (true, true);
    for (at, (folder, mut report)) in reports.into_iter().enumerate() {
        suites.push(Suite {
            folder: folder.clone(),
            framework: report.framework.clone(),
            python: report.python.clone(),
            framework_version: report.framework_version.clone(),
            verdict: report.verdict,
            complete: report.complete,
            consistent: report.consistent,
            reason: report.reason.clone(),
            totals: report.totals.clone(),
        });
        if let Some(mut own) = report.coverage.take() {
            for file in &mut own.files {
                file.path = in_all(&folder, &file.path);
            }
            coverage.get_or_insert_default().add(own);
        }
        totals.add(&report.totals);
        for mut one in report.flaky.take().into_iter().flatten() {
            one.id = in_all(&folder, &one.id);
            flaky.get_or_insert_default().push(one);
        }
        complete &= report.complete;
        consistent &= report.consistent;
        cases.extend(std::mem::take(&mut report.cases).into_iter().map(|case| Case {
            id: in_all(&folder, &case.id),
            file: case.file.as_deref().map(|file| in_all(&folder, file)),
            ..case
        }));
        if at == worst {
            let python = report.python.as_ref().map(|python| format!("python {python}"));
            let whose: Vec<String> = [Some(folder.clone()).filter(|folder| !folder.is_empty()), python]
                .into_iter()
                .flatten()
                .collect();
            if let Some(reason) = report.reason.as_mut().filter(|_| !whose.is_empty()) {
                *reason = format!("{}: {reason}", whose.join(", "));
            }
            answer = Some(report);
        }
    }
    if cases.len() > MAX_CASES {
        cases.truncate(MAX_CASES);
        complete = false;
    }
    let names: BTreeSet<&str> = suites.iter().map(|suite| suite.framework.as_str()).collect();
    let framework = names.into_iter().collect::<Vec<_>>().join("+");
    answer.map(|answer| TestReport {
        framework,
        framework_version: None,
        python: None,
        complete,
        consistent,
        totals,
        cases,
        coverage,
        flaky,
        suites: Some(suites),
        ..answer
    })
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::case::Status;
    use hotcell_report::RunReport;

    #[derive(Debug)]
    struct Files(Vec<(String, &'static str)>, Vec<String>);

    impl Files {
        fn new(files: &[(&str, &'static str)]) -> Self {
            let mut all: Vec<_> = files.iter().map(|(name, text)| ((*name).to_owned(), *text)).collect();
            all.sort();
            let names = all.iter().map(|(name, _)| name.clone()).collect();
            Self(all, names)
        }
    }

    impl Project for Files {
        fn files(&self) -> &[String] {
            &self.1
        }
        fn read(&self, path: &str) -> Option<Vec<u8>> {
            self.0.iter().find(|(name, _)| name == path).map(|(_, text)| text.as_bytes().to_vec())
        }
        fn has(&self, path: &str) -> bool {
            self.0.iter().any(|(name, _)| name == path || name.starts_with(&format!("{path}/")))
        }
    }

    const PYTEST: &str = "import pytest\ndef test_a(): pass\n";
    const JEST: &str = "{\"devDependencies\": {\"jest\": \"1\"}}";

    #[test]
    fn folders_become_one_suite_per_ecosystem() {
        type Pairs<'a> = &'a [(&'static str, &'static str)];
        let table: &[(Pairs<'_>, Pairs<'_>)] = &[
            (&[("test_a.py", PYTEST)], &[("", "pytest")]),
            (
                &[("api/pyproject.toml", ""), ("api/tests/test_a.py", PYTEST), ("web/package.json", JEST)],
                &[("api", "pytest"), ("web", "jest")],
            ),
            // Files outside all projects belong to the top.
            (
                &[("api/setup.py", ""), ("api/test_a.py", PYTEST), ("tools/test_b.py", PYTEST)],
                &[("", "pytest"), ("api", "pytest")],
            ),
            // Packages below another one are tested from the top.
            (
                &[("package.json", JEST), ("packages/a/package.json", JEST), ("test_a.py", PYTEST)],
                &[("", "pytest"), ("", "jest")],
            ),
            // Go modules are separate, crates are unless they are in a workspace.
            (
                &[
                    ("go.mod", "module a"),
                    ("a_test.go", ""),
                    ("sub/go.mod", "module b"),
                    ("sub/b_test.go", ""),
                ],
                &[("", "go"), ("sub", "go")],
            ),
            (
                &[
                    ("go.work", ""),
                    ("a/go.mod", "module a"),
                    ("a/a_test.go", ""),
                    ("b/go.mod", ""),
                    ("b/b_test.go", ""),
                ],
                &[("", "go")],
            ),
            (
                &[
                    ("Cargo.toml", "[workspace]\n"),
                    ("a/Cargo.toml", "[package]\n"),
                    ("a/src/lib.rs", "#[test]\nfn a() {}\n"),
                ],
                &[("", "cargo")],
            ),
            (&[("README", "")], &[]),
            // A suite that only helps tests of another language is left out, unless the project starts it.
            (
                &[("test_a.py", PYTEST), ("tests/tool/go.mod", "module a"), ("tests/tool/a_test.go", "")],
                &[("", "pytest")],
            ),
            (
                &[
                    ("test_a.py", PYTEST),
                    ("tests/tool/go.mod", "module a"),
                    ("tests/tool/a_test.go", ""),
                    ("Makefile", "test:\n\tpytest\n\tcd tests/tool && go test ./...\n"),
                ],
                &[("", "pytest"), ("tests/tool", "go")],
            ),
            (
                &[("test_a.py", PYTEST), ("tool/go.mod", "module a"), ("tool/a_test.go", "")],
                &[("", "pytest"), ("tool", "go")],
            ),
            (
                &[
                    ("pyproject.toml", "[build-system]\nrequires = ['setuptools-rust']\n"),
                    ("test_a.py", PYTEST),
                    ("Cargo.toml", "[package]\n"),
                    ("src/lib.rs", "#[test]\nfn a() {}\n"),
                ],
                &[("", "pytest")],
            ),
            (
                &[
                    ("test_a.py", PYTEST),
                    ("Cargo.toml", "[package]\n"),
                    ("src/lib.rs", "#[test]\nfn a() {}\n"),
                ],
                &[("", "pytest"), ("", "cargo")],
            ),
        ];
        for (files, want) in table {
            let found = suites(&Files::new(files));
            let got: Vec<_> = found.iter().map(|f| (f.folder.as_str(), f.framework.name())).collect();
            assert_eq!(&got, want, "{files:?}");
        }
    }

    #[test]
    fn filter_selects_suite_by_folder() {
        let folders = ["", "web", "web/old"];
        for (filter, want) in [
            ("web/a.test.js::x", Some((1, "a.test.js::x"))),
            ("web/old/a.js", Some((2, "a.js"))),
            ("web", Some((1, ""))),
            ("website", None),
            ("test_a.py", None),
        ] {
            assert_eq!(of_filter(filter, &folders), want, "{filter}");
        }
    }

    fn report(framework: &str, verdict: Verdict, id: &str, status: Status) -> TestReport {
        let outcome = RunReport::without_a_run(Cause::Exited, "so");
        let mut report = TestReport::without_a_run(framework, Vec::new(), outcome);
        report.cases.push(Case::bare(id, status));
        report.totals =
            Totals { passed: u64::from(status == Status::Passed), failed: 1, ..Totals::default() };
        TestReport { verdict, complete: true, ..report }
    }

    #[test]
    fn suite_without_a_match_does_not_decide() {
        let of = |framework: &str, verdict, reason: Option<&str>| {
            let mut report = report(framework, verdict, "t", Status::Passed);
            report.reason = reason.map(str::to_owned);
            if verdict == Verdict::Unusable {
                report.cases.clear();
            }
            report
        };
        let good = || ("svc".to_owned(), of("go", Verdict::Passed, None));
        let none =
            |framework| (String::new(), of(framework, Verdict::Unusable, Some("no tests were found; x")));
        let broken = || ("web".to_owned(), of("jest", Verdict::Unusable, Some("the report is missing")));
        let bad = || ("web".to_owned(), of("jest", Verdict::Failed, None));
        let missing = || ("web".to_owned(), of("jest", Verdict::NotInstalled, None));
        for (reports, want, count) in [
            (vec![none("pytest"), good(), none("node")], Verdict::Passed, 1),
            (vec![none("pytest"), bad()], Verdict::Failed, 1),
            (vec![good(), broken()], Verdict::Unusable, 2),
            (vec![none("pytest"), good(), broken()], Verdict::Unusable, 2),
            (vec![none("pytest"), good(), missing()], Verdict::NotInstalled, 2),
            (vec![none("pytest"), none("node")], Verdict::Unusable, 2),
            // A suite that has a match with another Python.
            (vec![none("go"), (String::new(), good().1)], Verdict::Unusable, 2),
        ] {
            let names = format!("{reports:?}");
            let all = join(matching(reports)).unwrap();
            assert_eq!((all.verdict, all.suites.as_ref().unwrap().len()), (want, count), "{names}");
        }
        let all = join(matching(vec![none("pytest"), good(), none("node")])).unwrap();
        assert_eq!(all.reason.as_deref(), Some("svc: no test matches in node in ., pytest in ."));
    }

    #[test]
    fn joined_report_has_worst_verdict_and_all_cases() {
        let reports = vec![
            (String::new(), report("pytest", Verdict::Passed, "test_a.py::a", Status::Passed)),
            ("web".to_owned(), report("jest", Verdict::Failed, "a.test.js::x", Status::Failed)),
        ];
        let all = join(reports).unwrap();
        assert_eq!((all.framework.as_str(), all.verdict), ("jest+pytest", Verdict::Failed));
        assert_eq!(
            all.cases.iter().map(|c| c.id.as_str()).collect::<Vec<_>>(),
            ["test_a.py::a", "web/a.test.js::x"]
        );
        assert_eq!((all.totals.passed, all.totals.failed), (1, 2));
        assert_eq!(all.reason.as_deref(), Some("web: so"));
        let suites = all.suites.unwrap();
        assert_eq!((suites.len(), suites[1].folder.as_str(), suites[1].verdict), (2, "web", Verdict::Failed));
        assert!(join(Vec::new()).is_none());
    }
}
