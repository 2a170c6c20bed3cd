//! JavaScript's test runners beside jest: node's own runner, mocha, jasmine, karma and vitest. Each is
//! started and followed by a hotcell driver; they differ in how projects name them and in the report.

use std::collections::HashSet;
use std::ffi::OsString;
use std::path::Path;

use hotcell_sandbox::policy::HOME;
use serde_json::json;

use crate::case::{Entry, FinalReport, ReportError, Status};
use crate::coverage::{Form, Measured};
use crate::event::{EventReader, LineEvents};
use crate::framework::{
    Command, CommandError, Ecosystem, Evidence, ExitMeaning, Followed, Framework, LiveSource, NOT_INSTALLED,
    REPORTERS, REPORTS, Reporter, Selection, Strength,
};
use crate::frameworks::javascript::script::Start;
use crate::frameworks::javascript::shell::Word;
use crate::frameworks::javascript::{self, Package, follow, options};
use crate::frameworks::{jest_report, unittest};
use crate::live::LiveLog;
use crate::project::{Project, first_with};

/// Maximum number of test files that a filter passes to node.
const MAX_FILES: usize = 2_000;
/// Missing part of karma's driver when there is no browser.
const BROWSER: &str = "a browser for karma";

/// One of these runners.
#[derive(Debug)]
pub struct Runner {
    name: &'static str,
    /// Files in which it looks for its settings.
    settings: &'static [&'static str],
    /// Import statements of its tests; empty if they use globals.
    imported: &'static [&'static str],
    driver: Reporter,
    /// hotcell's file in the page of the tests, for a runner that uses a browser.
    page: Option<Reporter>,
    /// True when the report is jest's JSON; false for hotcell's own lines.
    json: bool,
}

/// Common beginning of all drivers.
macro_rules! driver {
    ($file:literal) => {
        concat!(
            include_str!("javascript/events.cjs"),
            include_str!("javascript/cases.cjs"),
            include_str!("javascript/steps.cjs"),
            include_str!($file)
        )
    };
}

/// The reporter of node's own runner, which is a module.
const NODE_REPORTER: &str = "hotcell_node.mjs";
const NODE_REPORTER_TEXT: &str = concat!(
    "import { createRequire } from 'node:module';\nconst require = createRequire(import.meta.url);\n",
    include_str!("javascript/events.cjs"),
    include_str!("javascript/cases.cjs"),
    include_str!("javascript/node_defines.cjs"),
    include_str!("javascript/node_reporter.mjs")
);

/// node's own runner.
pub const NODE: Runner = Runner {
    name: "node",
    settings: &[],
    imported: &javascript::NODE_TEST,
    driver: Reporter { name: "hotcell_node.cjs", text: driver!("javascript/node_driver.cjs") },
    page: None,
    json: false,
};

/// mocha.
pub const MOCHA: Runner = Runner {
    name: "mocha",
    settings: &[
        ".mocharc.js",
        ".mocharc.cjs",
        ".mocharc.mjs",
        ".mocharc.yaml",
        ".mocharc.yml",
        ".mocharc.json",
        ".mocharc.jsonc",
    ],
    imported: &["'mocha'", "\"mocha\""],
    driver: Reporter { name: "hotcell_mocha.cjs", text: driver!("javascript/mocha_driver.cjs") },
    page: None,
    json: false,
};

/// jasmine.
pub const JASMINE: Runner = Runner {
    name: "jasmine",
    settings: &[
        "spec/support/jasmine.json",
        "spec/support/jasmine.mjs",
        "spec/support/jasmine.js",
        "jasmine.json",
        "jasmine.mjs",
    ],
    imported: &[],
    driver: Reporter { name: "hotcell_jasmine.cjs", text: driver!("javascript/jasmine_driver.cjs") },
    page: None,
    json: false,
};

/// karma, with any framework in its browsers.
pub const KARMA: Runner = Runner {
    name: "karma",
    settings: &[
        "karma.conf.js",
        "karma.conf.cjs",
        "karma.conf.mjs",
        "karma.conf.ts",
        ".config/karma.conf.js",
    ],
    imported: &[],
    driver: Reporter { name: "hotcell_karma.cjs", text: driver!("javascript/karma_driver.cjs") },
    page: Some(Reporter { name: "hotcell_karma_page.js", text: include_str!("javascript/karma_page.js") }),
    json: false,
};

/// vitest.
pub const VITEST: Runner = Runner {
    name: "vitest",
    settings: &[
        "vitest.config.ts",
        "vitest.config.js",
        "vitest.config.mts",
        "vitest.config.mjs",
        "vitest.workspace.ts",
    ],
    imported: &["'vitest'", "\"vitest\""],
    driver: Reporter { name: "hotcell_vitest.cjs", text: driver!("javascript/vitest_driver.cjs") },
    page: None,
    json: true,
};

impl Runner {
    fn is_node(&self) -> bool {
        self.name == "node"
    }

    fn is_karma(&self) -> bool {
        self.page.is_some()
    }

    /// Evidence for it, beside the script `test`.
    fn found(&self, package: &Package, project: &dyn Project) -> Option<Evidence> {
        let evidence = |strength, reason: String| Some(Evidence { strength, reason });
        if let Some(file) = self.settings.iter().find(|file| project.has(file)) {
            return evidence(Strength::Configured, format!("there is {file}"));
        }
        if let Some(file) = package.depending_on(self.name, project).filter(|_| !self.is_node()) {
            return evidence(Strength::Used, format!("{file} depends on {}", self.name));
        }
        let file = first_with(project, javascript::is_script, self.imported)?;
        evidence(Strength::Used, format!("{file} imports {}", self.imported.first()?.trim_matches('\'')))
    }

    fn report_name(&self) -> String {
        format!("{}.{}", self.name, if self.json { "json" } else { "jsonl" })
    }
}

/// Settings file of karma: `karma start FILE`.
fn karma_settings(words: &[Word]) -> Option<&str> {
    let file = words.get(1).map(|word| word.text.as_str());
    file.filter(|file| !file.starts_with('-'))
}

/// Arguments of `ng test` in the script `test`, without those that hotcell sets itself.
fn angular(words: &[Word]) -> Vec<&str> {
    let mut words = words.iter().skip(1).map(|word| word.text.as_str()).peekable();
    let ours =
        ["watch", "progress", "karma-config", "browsers", "reporters", "code-coverage", "coverage", "poll"];
    let mut left = Vec::new();
    while let Some(word) = words.next() {
        let name = word.trim_start_matches('-').split('=').next().unwrap_or_default();
        let own = word.starts_with('-') && ours.contains(&name.strip_prefix("no-").unwrap_or(name));
        if !own {
            left.push(word);
        } else if !word.contains('=') {
            let named = matches!(name, "karma-config" | "browsers" | "reporters" | "poll");
            let _ = words.next_if(|w| named && !w.starts_with('-') || matches!(*w, "true" | "false"));
        }
    }
    left
}

/// True when node takes a file for tests.
fn for_node(file: &str) -> bool {
    let name = file.rsplit('/').next().unwrap_or(file);
    let Some((stem, end)) = name.rsplit_once('.') else { return false };
    let named = stem == "test"
        || stem.starts_with("test-")
        || [".test", "-test", "_test"].iter().any(|e| stem.ends_with(e));
    let below = file.split('/').rev().skip(1).any(|folder| folder == "test");
    matches!(end, "js" | "cjs" | "mjs") && (named || below)
}

/// Test files in a folder, for a filter.
fn node_files(folder: &str, project: &dyn Project) -> Vec<String> {
    let top = folder.trim_start_matches("./").trim_end_matches('/');
    let below = |file: &str| file.strip_prefix(top).is_some_and(|rest| rest.starts_with('/'));
    let tests = |file: &str| {
        let text = || project.read(file).unwrap_or_default();
        for_node(file)
            || javascript::is_script(file) && String::from_utf8_lossy(&text()).contains("node:test")
    };
    let files = project.files().iter().filter(|file| below(file) && tests(file));
    files.take(MAX_FILES).cloned().collect()
}

/// Encodes a text for the query of a URL.
fn in_query(text: &str) -> String {
    use std::fmt::Write as _;
    text.bytes().fold(String::new(), |mut out, byte| {
        if byte.is_ascii_alphanumeric() || b"-_./".contains(&byte) {
            out.push(char::from(byte));
        } else {
            let _ = write!(out, "%{byte:02X}");
        }
        out
    })
}

/// Arguments of node's own runner: as in the project, with hotcell's reporter, one file after the other.
fn node_words(start: Option<&Start>, selection: &Selection, project: &dyn Project, held: bool) -> Vec<Word> {
    let (by_name, by_path) = follow::asked(selection, project);
    let known = options::of("node");
    let flags = start.map_or_else(|| vec![Word::literal("--test")], |start| start.node.clone());
    let mut words = known.map_or_else(|| flags.clone(), |known| known.keep(&flags, by_name, by_path));
    let mut query = format!("report={}", in_query(&format!("{HOME}/{REPORTS}/{}", NODE.report_name())));
    if let Some(filter) = &selection.filter {
        query += &format!("&filter={}", in_query(filter));
    }
    query += if selection.fail_fast { "&stop" } else { "" };
    query += if held { "&held" } else { "" };
    let reporter = format!("--test-reporter={REPORTERS}/{NODE_REPORTER}?{query}");
    words.extend(
        [&*reporter, "--test-reporter-destination=stdout", "--test-concurrency=1"].map(Word::literal),
    );
    let filter = selection.filter.as_deref();
    if by_name && let Some(filter) = filter {
        let titles: Vec<String> = match filter.split_once("::") {
            Some((_, titles)) => titles.split("::").map(javascript::pattern_of).collect(),
            None => vec![filter.to_owned()],
        };
        words.extend(titles.iter().map(|title| Word::literal(&format!("--test-name-pattern={title}"))));
    }
    match filter.filter(|_| by_path).map(|filter| filter.split("::").next().unwrap_or(filter)) {
        Some(file) if project.read(file).is_some() => {
            words.push(Word::literal(&format!("./{}", file.trim_start_matches("./"))));
        }
        Some(folder) => {
            let files = node_files(folder, project);
            // Without file names it would search for files itself.
            let none = files.is_empty().then(|| folder.to_owned());
            words.extend(files.iter().chain(&none).map(|file| Word::literal(&format!("./{file}"))));
        }
        None => words.extend(start.into_iter().flat_map(|start| &start.arguments).cloned()),
    }
    words
}

impl Framework for Runner {
    fn name(&self) -> &'static str {
        self.name
    }

    fn ecosystem(&self) -> Ecosystem {
        Ecosystem::JavaScript
    }

    fn detect(&self, project: &dyn Project) -> Option<Evidence> {
        let package = Package::read(project);
        package.weighed(self.name, self.found(&package, project))
    }

    fn command(&self, selection: &Selection, project: &dyn Project) -> Result<Command, CommandError> {
        if selection.jobs.is_some() {
            return Err(CommandError::Unsupported {
                framework: self.name,
                option: "‹jobs›",
                hint: "leave it out: tests run one after the other",
            });
        }
        let package = Package::read(project);
        let follow::Followup { start, steps } = follow::follow(&package, self.name, selection);
        let mut argv: Vec<OsString> = vec!["node".into()];
        let mut reporters = vec![self.driver.clone()];
        let mut words = Vec::new();
        if self.is_node() {
            words = node_words(start, selection, project, false);
            if steps.is_some() || words.iter().any(Word::open) {
                words = node_words(start, selection, project, true);
            }
            reporters.push(Reporter { name: NODE_REPORTER, text: NODE_REPORTER_TEXT });
        } else if let Some(start) = start {
            argv.extend(start.node.iter().map(|word| OsString::from(&word.text)));
            let (by_name, by_path) = follow::asked(selection, project);
            words = start.kept(by_name, by_path);
        }
        if self.is_node() && steps.is_none() && !words.iter().any(Word::open) {
            argv.extend(words.iter().map(|word| OsString::from(&word.text)));
        } else {
            argv.push(format!("{REPORTERS}/{}", self.driver.name).into());
            argv.push(format!("{HOME}/{REPORTS}/{}", self.report_name()).into());
            argv.push(selection.filter.clone().unwrap_or_default().into());
            argv.push(if selection.fail_fast { "stop" } else { "" }.into());
            let given = if self.is_karma() { json!([]) } else { follow::words(&words) };
            argv.push(json!({"steps": steps, "words": given}).to_string().into());
        }
        if self.is_karma() {
            let by_angular = start.filter(|start| follow::is_angular(start));
            let settings =
                start.filter(|_| by_angular.is_none()).and_then(|start| karma_settings(&start.arguments));
            argv.push(settings.unwrap_or_default().into());
            let words =
                by_angular.filter(|_| project.has("angular.json")).map(|start| angular(&start.arguments));
            argv.push(words.map_or_else(String::new, |words| json!(words).to_string()).into());
        }
        reporters.extend(self.page.clone());
        let named = |file: &str| match self.name {
            "node" => for_node(file),
            "vitest" => javascript::for_jest(file),
            _ => false,
        };
        let all = selection.filter.is_none() && !self.is_karma();
        Ok(Command {
            argv,
            env: start
                .into_iter()
                .flat_map(|start| &start.variables)
                .map(|(name, value)| (name.into(), value.into()))
                .collect(),
            reporters,
            reports: vec![Path::new(REPORTS).join(self.report_name())],
            live: LiveSource::Descriptor,
            files: if all { javascript::test_files(project, named) } else { Vec::new() },
        })
    }

    fn followed(&self, selection: &Selection, project: &dyn Project) -> Followed {
        follow::followed(&Package::read(project), self.name, selection)
    }

    fn cover(&self, command: &mut Command, _: &dyn Project) -> Option<Measured> {
        if !self.is_karma() {
            return None;
        }
        let folder = Path::new(REPORTS).join("karma");
        command.argv.push(format!("{HOME}/{}", folder.display()).into());
        Some(Measured { report: folder.join("lcov.info"), form: Form::Lcov })
    }

    fn events(&self) -> Box<dyn EventReader> {
        Box::<LineEvents>::default()
    }

    fn report(&self, files: &[Vec<u8>], live: &LiveLog) -> Result<FinalReport, ReportError> {
        let bytes = files.first().ok_or(ReportError::Missing)?;
        if !self.json {
            return unittest::parse(bytes);
        }
        let seen: HashSet<&str> = live.seen().iter().filter_map(|seen| seen.file.as_deref()).collect();
        let mut entries = jest_report::parse(bytes, &seen)?;
        entries.iter_mut().for_each(without_its_file);
        // With a filter, all other tests are listed as skipped.
        entries.retain(|e| e.status != Status::Skipped || live.position(&e.id).is_some());
        // Entries outside of tests and files.
        crate::frameworks::programs::add_never_started(&mut entries, live);
        Ok(FinalReport { entries })
    }

    fn exit(&self, code: i32) -> ExitMeaning {
        match code {
            0 => ExitMeaning::AllPassed,
            1 => ExitMeaning::SomeFailed,
            NOT_INSTALLED => ExitMeaning::NotInstalled,
            _ => ExitMeaning::Broken("the test runner has no such exit code"),
        }
    }

    fn heads<'a>(&self, id: &'a str) -> Vec<&'a str> {
        id.split("::").take(1).collect()
    }

    fn install(&self, what: &str, _: &str) -> Option<String> {
        let how = format!(
            "run `npm ci` in its folder, or `npm install --save-dev {what}` where it is not in package.json"
        );
        if self.is_karma() && what == BROWSER {
            return Some(
                "karma finds no browser: install Chromium (on Debian, apt-get install chromium) and \
                 `npm install --save-dev karma-chrome-launcher`, or `npm install --save-dev \
                 karma-jsdom-launcher jsdom`"
                    .to_owned(),
            );
        }
        let own = what == self.name || self.is_karma() && what == "karma-coverage";
        (own && !self.is_node()).then(|| format!("{what} is not installed in the project: {how}"))
    }
}

/// Takes the file out of the titles above a test: vitest's check of types puts it there (`--typecheck`), the driver does not.
fn without_its_file(entry: &mut Entry) {
    let file = entry.file.as_deref().unwrap_or_default();
    let below = entry.id.strip_prefix(file).and_then(|rest| rest.strip_prefix("::")?.strip_prefix(file));
    if let Some(below) = below.filter(|below| below.starts_with("::")) {
        entry.id = format!("{file}{below}");
    }
}

#[cfg(test)]
#[path = "javascript/defines_tests.rs"]
mod defines_tests;

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn file_name_is_removed_from_test_title() {
        for (id, want) in [
            ("t/a.test-d.ts::t/a.test-d.ts::b::c", "t/a.test-d.ts::b::c"),
            ("t/a.test-d.ts::t/a.test-d.ts::c", "t/a.test-d.ts::c"),
            ("t/a.test-d.ts::b", "t/a.test-d.ts::b"),
            ("t/a.test-d.ts::t/a.test-d.tsx::b", "t/a.test-d.ts::t/a.test-d.tsx::b"),
            ("t/a.test-d.ts::t/a.test-d.ts", "t/a.test-d.ts::t/a.test-d.ts"),
            ("t/a.test-d.ts", "t/a.test-d.ts"),
        ] {
            let mut entry = Entry::bare(id, Status::Passed, 0.0);
            entry.file = Some("t/a.test-d.ts".to_owned());
            without_its_file(&mut entry);
            assert_eq!(entry.id, want);
        }
    }

    #[test]
    fn missing_javascript_runner_is_named() {
        for (runner, what, want) in [
            (&KARMA, "karma", Some("karma is not installed in the project: run `npm ci`")),
            (&KARMA, "karma-coverage", Some("karma-coverage is not installed in the project: run `npm ci`")),
            (&KARMA, BROWSER, Some("karma finds no browser: install Chromium")),
            (&KARMA, "mocha", None),
            (&MOCHA, "karma-coverage", None),
            (&NODE, "node", None),
        ] {
            let told = runner.install(what, "");
            assert!(
                told.as_deref().map_or(want.is_none(), |t| want.is_some_and(|w| t.starts_with(w))),
                "{told:?}"
            );
        }
        let words = |text: &str| -> Vec<Word> { text.split_whitespace().map(Word::literal).collect() };
        for (text, want) in [
            ("start", None),
            ("start test/karma.js --single-run", Some("test/karma.js")),
            ("start --single-run", None),
        ] {
            assert_eq!(karma_settings(&words(text)), want, "{text}");
        }
        for (text, want) in [
            ("test", &[][..]),
            ("test shop --no-watch --browsers ChromeHeadless -c ci", &["shop", "-c", "ci"]),
            ("t --watch=false --code-coverage true --include src/a", &["--include", "src/a"]),
            ("test --watch shop", &["shop"]),
        ] {
            assert_eq!(angular(&words(text)), want, "{text}");
        }
        for (file, want) in [
            ("a.test.js", true),
            ("a-test.mjs", true),
            ("sub/test-a.cjs", true),
            ("test.js", true),
            ("test/deep/helper.js", true),
            ("tests/a.js", false),
            ("a.test.ts", false),
            ("latest.js", false),
        ] {
            assert_eq!(for_node(file), want, "{file}");
        }
    }
}
