//! What runs JavaScript's tests beside jest: node's own runner, mocha, jasmine, karma and vitest. Each is started by a driver of
//! ours, by which it is followed; they differ in how projects name them and in the report.

use std::collections::HashSet;
use std::ffi::OsString;
use std::path::Path;

use hotcell_sandbox::policy::HOME;

use crate::case::{FinalReport, ReportError, Status};
use crate::coverage::{Form, Measured};
use crate::event::{EventReader, LineEvents};
use crate::framework::{
    Command, CommandError, Ecosystem, Evidence, ExitMeaning, Framework, LiveSource, REPORTERS, REPORTS,
    Reporter, Selection, Strength,
};
use crate::javascript::{self, Package};
use crate::live::LiveLog;
use crate::project::{Project, first_with};
use crate::pytest::NOT_INSTALLED;
use crate::{jest_report, unittest};

/// The most test files that are named to node.
const MOST_FILES: usize = 2_000;
/// What karma's driver lacks where there is no browser.
const BROWSER: &str = "a browser for karma";

/// One of them.
#[derive(Debug)]
pub struct Runner {
    name: &'static str,
    /// Where it looks for its settings.
    settings: &'static [&'static str],
    /// How tests mention it; none where they use globals.
    imported: &'static [&'static str],
    driver: Reporter,
    /// Our file in the page where tests run, for one that has them run in a browser.
    page: Option<Reporter>,
    /// Whether the report is JSON as jest's; else our own lines.
    json: bool,
}

/// What every driver begins with.
macro_rules! driver {
    ($file:literal) => {
        concat!(
            include_str!("javascript/events.cjs"),
            include_str!("javascript/cases.cjs"),
            include_str!($file)
        )
    };
}

/// node's own runner.
pub const NODE: Runner = Runner {
    name: "node",
    settings: &[],
    imported: &["'node:test'", "\"node:test\""],
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

/// karma, with whatever framework runs in its browsers.
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

    fn report_name(&self) -> String {
        format!("{}.{}", self.name, if self.json { "json" } else { "jsonl" })
    }
}

/// The words of the script `test` around `--test`: options for node itself, and which files.
fn script(package: &Package) -> Option<(Vec<&str>, Vec<&str>)> {
    let words: Vec<&str> = package.words().collect();
    let node = words.iter().position(|w| *w == "node" || w.ends_with("/node"))?;
    let test = words.iter().skip(node).position(|w| *w == "--test")? + node;
    let mut options = Vec::new();
    let mut before = words[node + 1..test].iter().chain(&words[test + 1..]).peekable();
    let mut files = Vec::new();
    while let Some(word) = before.next() {
        match *word {
            "--import" | "--require" | "-r" | "--loader" | "--experimental-loader" => {
                options.push(*word);
                options.extend(before.next());
            }
            w if w.starts_with("--import=")
                || w.starts_with("--require=")
                || w.starts_with("--experimental-") =>
            {
                options.push(w);
            }
            w if w.starts_with('-') => {}
            // What a shell would have to understand is nobody's file.
            w => files.push(w.trim_matches(['"', '\'']).trim_start_matches("./")),
        }
    }
    files.retain(|f| !f.contains(['*', '&', '|', ';', '$', '>']));
    Some((options, files))
}

/// The settings that the script `test` has karma start with: `karma start FILE`.
fn karma_settings(package: &Package) -> Option<&str> {
    let named = |w: &&str| w.rsplit('/').next() == Some("karma");
    let mut after = package.words().skip_while(|w| !named(w)).skip(1);
    (after.next()? == "start")
        .then(|| after.next())
        .flatten()
        .filter(|file| !file.starts_with(['-', '&', ';', '|']))
}

/// What the script `test` has Angular test: the words after `ng test`, without those that are ours to say.
fn angular(package: &Package) -> Option<Vec<&str>> {
    let mut words = package.words().skip_while(|w| w.rsplit('/').next() != Some("ng")).skip(1).peekable();
    words.next_if(|w| matches!(*w, "test" | "t"))?;
    let ours =
        ["watch", "progress", "karma-config", "browsers", "reporters", "code-coverage", "coverage", "poll"];
    let mut left = Vec::new();
    while let Some(word) = words.next_if(|w| !w.contains(['&', ';', '|', '>'])) {
        let name = word.trim_start_matches('-').split('=').next().unwrap_or_default();
        let own = word.starts_with('-') && ours.contains(&name.strip_prefix("no-").unwrap_or(name));
        if !own {
            left.push(word);
        } else if !word.contains('=') {
            let named = matches!(name, "karma-config" | "browsers" | "reporters" | "poll");
            let _ = words.next_if(|w| named && !w.starts_with('-') || matches!(*w, "true" | "false"));
        }
    }
    // What a second one would test is not followed.
    let another = words.any(|w| w.rsplit('/').next() == Some("ng"));
    (!another).then_some(left)
}

/// Whether node takes a file for tests.
fn for_node(file: &str) -> bool {
    let name = file.rsplit('/').next().unwrap_or(file);
    let Some((stem, end)) = name.rsplit_once('.') else { return false };
    let named = stem == "test"
        || stem.starts_with("test-")
        || [".test", "-test", "_test"].iter().any(|e| stem.ends_with(e));
    let below = file.split('/').rev().skip(1).any(|folder| folder == "test");
    matches!(end, "js" | "cjs" | "mjs") && (named || below)
}

/// The files that node is to run.
fn node_files(filter: Option<&str>, named: &[&str], project: &dyn Project) -> Vec<String> {
    let path = filter.map(|f| f.split("::").next().unwrap_or(f)).filter(|path| project.has(path));
    let below = |file: &str, top: &str| {
        let top = top.trim_end_matches('/');
        file == top || file.strip_prefix(top).is_some_and(|rest| rest.starts_with('/'))
    };
    let is = |file: &&String| match path {
        Some(path) if file.as_str() == path => true,
        Some(path) => for_node(file) && below(file, path),
        None if named.is_empty() => for_node(file),
        None => named.iter().any(|top| file == top || for_node(file) && below(file, top)),
    };
    project.files().iter().filter(is).take(MOST_FILES).cloned().collect()
}

impl Framework for Runner {
    fn name(&self) -> &'static str {
        self.name
    }

    fn ecosystem(&self) -> Ecosystem {
        Ecosystem::JavaScript
    }

    fn detect(&self, project: &dyn Project) -> Option<Evidence> {
        let evidence = |strength, reason: String| Some(Evidence { strength, reason });
        if let Some(file) = self.settings.iter().find(|file| project.has(file)) {
            return evidence(Strength::Configured, format!("there is {file}"));
        }
        let package = Package::read(project);
        let runs = if self.is_node() { script(&package).is_some() } else { package.runs(self.name) };
        if runs {
            return evidence(Strength::Configured, format!("package.json tests by {}", self.name));
        }
        if !self.is_node() && package.depends.iter().any(|name| name == self.name) {
            return evidence(Strength::Used, format!("package.json depends on {}", self.name));
        }
        let file = first_with(project, javascript::is_script, self.imported)?;
        evidence(Strength::Used, format!("{file} imports {}", self.imported.first()?.trim_matches('\'')))
    }

    fn command(&self, selection: &Selection, project: &dyn Project) -> Result<Command, CommandError> {
        if selection.jobs.is_some() {
            return Err(CommandError::Unsupported {
                framework: self.name,
                option: "--jobs",
                hint: "leave it out: tests run one after the other",
            });
        }
        let package = Package::read(project);
        let (options, named) =
            if self.is_node() { script(&package).unwrap_or_default() } else { Default::default() };
        let mut argv: Vec<OsString> = vec!["node".into()];
        argv.extend(options.into_iter().map(OsString::from));
        argv.push(format!("{REPORTERS}/{}", self.driver.name).into());
        argv.push(format!("{HOME}/{REPORTS}/{}", self.report_name()).into());
        argv.push(selection.filter.clone().unwrap_or_default().into());
        argv.push(if selection.fail_fast { "stop" } else { "" }.into());
        let mut files = Vec::new();
        if self.is_karma() {
            argv.push(karma_settings(&package).unwrap_or_default().into());
            let words = project.has("angular.json").then(|| angular(&package)).flatten();
            argv.push(words.map_or_else(String::new, |words| serde_json::json!(words).to_string()).into());
        } else if self.is_node() {
            files = node_files(selection.filter.as_deref(), &named, project);
            argv.extend(files.iter().map(OsString::from));
        } else if self.json {
            files = project.files().iter().filter(|f| javascript::for_jest(f)).cloned().collect();
        }
        Ok(Command {
            argv,
            env: vec![("NO_COLOR".into(), "1".into())],
            reporters: [Some(&self.driver), self.page.as_ref()].into_iter().flatten().cloned().collect(),
            reports: vec![Path::new(REPORTS).join(self.report_name())],
            live: LiveSource::Descriptor,
            files: if selection.filter.is_none() { files } else { Vec::new() },
        })
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
        // With a filter, all others are listed as skipped.
        entries.retain(|e| e.status != Status::Skipped || live.position(&e.id).is_some());
        // What belongs to no test, nor to a file.
        let known: HashSet<String> = entries.iter().map(|e| e.id.clone()).collect();
        entries.extend(crate::programs::never_started(live).filter(|e| !known.contains(&e.id)));
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

    fn name_of(&self, id: &str) -> String {
        id.rsplit("::").next().unwrap_or(id).to_owned()
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

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn what_node_is_asked_to_run() {
        for (script_, want) in [
            ("node --test", Some((vec![], vec![]))),
            (
                "CI=1 node --import tsx --test ./spec/ 'a.js' src/**/*.js",
                Some((vec!["--import", "tsx"], vec!["spec/", "a.js"])),
            ),
            (
                "node --test --experimental-vm-modules --test-reporter=tap",
                Some((vec!["--experimental-vm-modules"], vec![])),
            ),
            ("node test.js", None),
            ("jest --test", None),
        ] {
            let package = Package { script: script_.to_owned(), ..Package::default() };
            assert_eq!(script(&package), want, "{script_}");
        }
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
        for (script, want) in [
            ("karma start", None),
            ("npx karma start test/karma.js --single-run", Some("test/karma.js")),
            ("./node_modules/.bin/karma start --single-run", None),
            ("karma run x", None),
            ("ng test", None),
        ] {
            let package = Package { script: script.to_owned(), ..Package::default() };
            assert_eq!(karma_settings(&package), want, "{script}");
        }
        for (script, want) in [
            ("ng test", Some(&[][..])),
            ("npx ng test shop --no-watch --browsers ChromeHeadless -c ci", Some(&["shop", "-c", "ci"])),
            (
                "ng t --watch=false --code-coverage true --include src/a && lint",
                Some(&["--include", "src/a"]),
            ),
            ("ng test --watch shop", Some(&["shop"])),
            ("ng test app && ng test lib", None),
            ("ng build", None),
            ("karma start", None),
        ] {
            let package = Package { script: script.to_owned(), ..Package::default() };
            assert_eq!(angular(&package).as_deref(), want, "{script}");
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
