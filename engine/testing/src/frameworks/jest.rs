//! jest, followed by a reporter of hotcell, with its own JSON report.

use std::collections::HashSet;
use std::ffi::OsString;
use std::path::Path;

use hotcell_sandbox::policy::HOME;
use serde_json::json;

use crate::case::{FinalReport, ReportError};
use crate::coverage::{Form, Measured};
use crate::event::{EventReader, LineEvents};
use crate::framework::{
    Command, CommandError, Ecosystem, Evidence, ExitMeaning, Followed, Framework, LiveSource, NOT_INSTALLED,
    REPORTERS, REPORTS, Reporter, Selection, Strength,
};
use crate::frameworks::javascript::{self, Package, follow};
use crate::frameworks::jest_report;
use crate::live::LiveLog;
use crate::project::{Project, first_with};

const DRIVER: &str = "hotcell_jest.cjs";
const REPORT: &str = "jest.json";
/// Coverage costs time, and the project's settings may enable it.
const NO_COVERAGE: &str = "--coverage=false";
/// Files in which jest looks for its settings.
const SETTINGS: [&str; 8] = [
    "jest.config.js",
    "jest.config.ts",
    "jest.config.mjs",
    "jest.config.cjs",
    "jest.config.json",
    "jest.config.mts",
    "jest.config.cts",
    "jest.json",
];

/// Support for jest.
#[derive(Debug)]
pub struct Jest;

impl Framework for Jest {
    fn name(&self) -> &'static str {
        "jest"
    }

    fn ecosystem(&self) -> Ecosystem {
        Ecosystem::JavaScript
    }

    fn detect(&self, project: &dyn Project) -> Option<Evidence> {
        let package = Package::read(project);
        package.weighed(self.name(), found(&package, project))
    }

    fn command(&self, selection: &Selection, project: &dyn Project) -> Result<Command, CommandError> {
        let package = Package::read(project);
        let follow::Followup { start, steps } = follow::follow(&package, self.name(), selection);
        let mut argv: Vec<OsString> = vec!["node".into()];
        argv.extend(start.into_iter().flat_map(|start| &start.node).map(|word| OsString::from(&word.text)));
        argv.push(format!("{REPORTERS}/{DRIVER}").into());
        argv.push(format!("/home/sandbox/{REPORTS}/{REPORT}").into());
        let (by_name, by_path) = follow::asked(selection, project);
        let mut words = start.map(|start| start.kept(by_name, by_path)).unwrap_or_default();
        words.retain(|word| !selection.fail_fast || !matches!(word.text.as_str(), "--bail" | "-b"));
        argv.push(json!({"steps": steps, "words": follow::words(&words)}).to_string().into());
        let own = [
            "--json",
            "--ci",
            "--testLocationInResults",
            // Without tests this yields an empty report, instead of an exit code that also means broken
            // settings.
            "--passWithNoTests",
            "--testFailureExitCode=1",
            "--watchman=false",
        ];
        argv.extend(own.map(OsString::from));
        // A single process: the test that is open when it ends is the one that was running, and a file that
        // crashes is not silently retried, as jest does when a worker dies.
        argv.push(selection.jobs.map_or("--runInBand".into(), |n| format!("--maxWorkers={n}").into()));
        argv.extend(selection.fail_fast.then(|| "--bail=true".into()));
        // For some of the tests coverage is meaningless, and its thresholds do not apply.
        argv.extend(selection.filter.is_some().then(|| NO_COVERAGE.into()));
        if let Some(filter) = selection.filter.as_deref() {
            argv.extend(filtered(filter, project));
        }
        let all = selection.filter.is_none();
        let files = if all { javascript::test_files(project, javascript::for_jest) } else { Vec::new() };
        Ok(Command {
            argv,
            env: start
                .into_iter()
                .flat_map(|start| &start.variables)
                .map(|(name, value)| (name.into(), value.into()))
                .collect(),
            reporters: vec![Reporter {
                name: DRIVER,
                text: concat!(
                    include_str!("javascript/events.cjs"),
                    include_str!("javascript/cases.cjs"),
                    include_str!("javascript/steps.cjs"),
                    include_str!("javascript/jest_driver.cjs")
                ),
            }],
            reports: vec![Path::new(REPORTS).join(REPORT)],
            live: LiveSource::Descriptor,
            files,
        })
    }

    fn cover(&self, command: &mut Command, project: &dyn Project) -> Option<Measured> {
        let folder = Path::new(REPORTS).join("jest");
        let some = command.argv.iter().any(|word| word == NO_COVERAGE);
        command.argv.retain(|word| word != NO_COVERAGE);
        // Only once: repeated options become a list.
        let said = command.argv.iter().any(|word| word.to_string_lossy().contains("\"--coverage\""));
        command.argv.extend((!said).then(|| "--coverage".into()));
        command.argv.push("--coverageReporters=lcovonly".into());
        // A threshold applies when the project itself measures coverage: it is another reason for the exit
        // code, and is reported as such.
        let settings = SETTINGS.into_iter().chain(["package.json"]).filter(|file| project.has(file));
        let mut texts = settings.filter_map(|file| project.read(file));
        let measures = said || texts.any(|text| String::from_utf8_lossy(&text).contains("collectCoverage"));
        command.argv.extend((some || !measures).then(|| "--coverageThreshold={}".into()));
        command.argv.push(format!("--coverageDirectory={HOME}/{}", folder.display()).into());
        Some(Measured { report: folder.join("lcov.info"), form: Form::Lcov })
    }

    fn followed(&self, selection: &Selection, project: &dyn Project) -> Followed {
        follow::followed(&Package::read(project), self.name(), selection)
    }

    fn events(&self) -> Box<dyn EventReader> {
        Box::<LineEvents>::default()
    }

    fn report(&self, files: &[Vec<u8>], live: &LiveLog) -> Result<FinalReport, ReportError> {
        let seen: HashSet<&str> = live.seen().iter().filter_map(|seen| seen.file.as_deref()).collect();
        let mut entries = jest_report::parse(files.first().ok_or(ReportError::Missing)?, &seen)?;
        // With a filter, jest lists all other tests as skipped.
        entries.retain(|e| e.status != crate::Status::Skipped || live.position(&e.id).is_some());
        // Entries outside of tests and files: a threshold, and commands that the script runs beside jest.
        crate::frameworks::programs::add_never_started(&mut entries, live);
        Ok(FinalReport { entries })
    }

    fn exit(&self, code: i32) -> ExitMeaning {
        match code {
            0 => ExitMeaning::AllPassed,
            1 => ExitMeaning::SomeFailed,
            NOT_INSTALLED => ExitMeaning::NotInstalled,
            _ => ExitMeaning::Broken("jest has no such exit code"),
        }
    }

    fn heads<'a>(&self, id: &'a str) -> Vec<&'a str> {
        id.split("::").take(1).collect()
    }

    fn install(&self, what: &str, _: &str) -> Option<String> {
        let how =
            "run `npm ci` in its folder, or `npm install --save-dev jest` where it is not in package.json";
        (what == "jest").then(|| format!("jest is not installed in the project: {how}"))
    }
}

/// Evidence for jest, beside the script `test`.
fn found(package: &Package, project: &dyn Project) -> Option<Evidence> {
    let evidence = |strength, reason: String| Some(Evidence { strength, reason });
    if let Some(file) = SETTINGS.into_iter().find(|file| project.has(file)) {
        return evidence(Strength::Configured, format!("there is {file}"));
    }
    if package.jest {
        return evidence(Strength::Configured, "package.json has \"jest\"".to_owned());
    }
    if let Some(file) = package.depending_on("jest", project) {
        return evidence(Strength::Used, format!("{file} depends on jest"));
    }
    let file = first_with(project, javascript::for_jest, &["@jest/globals"])?;
    evidence(Strength::Used, format!("{file} imports jest"))
}

/// Arguments for an id, a path, or a pattern of names.
fn filtered(filter: &str, project: &dyn Project) -> Vec<OsString> {
    let (path, titles) = filter.split_once("::").map_or((filter, None), |(path, rest)| (path, Some(rest)));
    if !project.has(path) {
        return vec![format!("--testNamePattern={filter}").into()];
    }
    let mut words: Vec<OsString> = Vec::new();
    words.extend(titles.map(|t| format!("--testNamePattern={}", javascript::pattern_of(t)).into()));
    if project.read(path).is_some() {
        // A name that begins with a dash is not an option.
        words.extend(["--runTestsByPath=true".into(), format!("./{path}").into()]);
    } else {
        let mut pattern = "/".to_owned();
        javascript::escape_into(path.trim_start_matches("./").trim_end_matches('/'), &mut pattern);
        words.extend(["--runTestsByPath=false".into(), format!("{pattern}/").into()]);
    }
    words
}
