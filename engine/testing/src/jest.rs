//! jest, followed by a reporter of ours, with its own JSON report.

use std::collections::HashSet;
use std::ffi::OsString;
use std::path::Path;

use hotcell_sandbox::policy::HOME;

use crate::case::{FinalReport, ReportError};
use crate::coverage::{Form, Measured};
use crate::event::{EventReader, LineEvents};
use crate::framework::{
    Command, CommandError, Ecosystem, Evidence, ExitMeaning, Framework, LiveSource, REPORTERS, REPORTS,
    Reporter, Selection, Strength,
};
use crate::javascript::{self, Package};
use crate::jest_report;
use crate::live::LiveLog;
use crate::project::{Project, first_with};
use crate::pytest::NOT_INSTALLED;

const DRIVER: &str = "hotcell_jest.cjs";
const REPORT: &str = "jest.json";
/// It costs time, and settings may ask for it.
const NO_COVERAGE: &str = "--coverage=false";
/// Where jest looks for its settings.
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

/// The framework.
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
        let evidence = |strength, reason: String| Some(Evidence { strength, reason });
        if let Some(file) = SETTINGS.into_iter().find(|file| project.has(file)) {
            return evidence(Strength::Configured, format!("there is {file}"));
        }
        let package = Package::read(project);
        if package.jest {
            return evidence(Strength::Configured, "package.json has \"jest\"".to_owned());
        }
        if package.runs("jest") {
            return evidence(Strength::Configured, "package.json tests by jest".to_owned());
        }
        if package.depends.iter().any(|name| name == "jest") {
            return evidence(Strength::Used, "package.json depends on jest".to_owned());
        }
        let file = first_with(project, javascript::for_jest, &["@jest/globals"])?;
        evidence(Strength::Used, format!("{file} imports jest"))
    }

    fn command(&self, selection: &Selection, project: &dyn Project) -> Result<Command, CommandError> {
        let package = Package::read(project);
        let mut argv: Vec<OsString> = vec!["node".into()];
        // Tests that are modules, as the project starts them itself.
        let modules = package.script.contains("--experimental-vm-modules");
        argv.extend(modules.then(|| "--experimental-vm-modules".into()));
        argv.push(format!("{REPORTERS}/{DRIVER}").into());
        argv.push(format!("/home/sandbox/{REPORTS}/{REPORT}").into());
        let own = [
            "--json",
            "--ci",
            "--testLocationInResults",
            // With no tests a report of none, not an exit code that also stands for broken settings.
            "--passWithNoTests",
            "--testFailureExitCode=1",
            NO_COVERAGE,
            "--watchman=false",
            // A server that tests leave open would keep it until the time limit; everything is reported by then.
            "--forceExit",
        ];
        argv.extend(own.map(OsString::from));
        // One process: what is open when it ends is the one test that ran, and a file that crashes is not run again in
        // silence, as jest does when a worker dies.
        argv.push(selection.jobs.map_or("--runInBand".into(), |n| format!("--maxWorkers={n}").into()));
        argv.extend(settings(&package).map(|file| format!("--config={file}").into()));
        argv.extend(selection.fail_fast.then(|| "--bail=true".into()));
        if let Some(filter) = selection.filter.as_deref() {
            argv.extend(filtered(filter, project));
        }
        let all = selection.filter.is_none();
        let tests = project.files().iter().filter(|file| all && javascript::for_jest(file));
        Ok(Command {
            argv,
            env: vec![("NO_COLOR".into(), "1".into())],
            reporters: vec![Reporter {
                name: DRIVER,
                text: concat!(
                    include_str!("javascript/events.cjs"),
                    include_str!("javascript/jest_driver.cjs")
                ),
            }],
            reports: vec![Path::new(REPORTS).join(REPORT)],
            live: LiveSource::Descriptor,
            files: tests.cloned().collect(),
        })
    }

    fn cover(&self, command: &mut Command, _: &dyn Project) -> Option<Measured> {
        let folder = Path::new(REPORTS).join("jest");
        command.argv.retain(|word| word != NO_COVERAGE);
        command.argv.extend(["--coverage", "--coverageReporters=lcovonly"].map(OsString::from));
        // A threshold would be a second reason for its exit code.
        command.argv.push("--coverageThreshold={}".into());
        command.argv.push(format!("--coverageDirectory={HOME}/{}", folder.display()).into());
        Some(Measured { report: folder.join("lcov.info"), form: Form::Lcov })
    }

    fn events(&self) -> Box<dyn EventReader> {
        Box::<LineEvents>::default()
    }

    fn report(&self, files: &[Vec<u8>], live: &LiveLog) -> Result<FinalReport, ReportError> {
        let seen: HashSet<&str> = live.seen().iter().filter_map(|seen| seen.file.as_deref()).collect();
        let entries = jest_report::parse(files.first().ok_or(ReportError::Missing)?, &seen)?;
        // With a filter, jest lists all others as skipped.
        let ran = |id: &str, skipped: bool| !skipped || live.position(id).is_some();
        Ok(FinalReport {
            entries: entries.into_iter().filter(|e| ran(&e.id, e.status == crate::Status::Skipped)).collect(),
        })
    }

    fn exit(&self, code: i32) -> ExitMeaning {
        match code {
            0 => ExitMeaning::AllPassed,
            1 => ExitMeaning::SomeFailed,
            NOT_INSTALLED => ExitMeaning::NotInstalled,
            _ => ExitMeaning::Broken("jest has no such exit code"),
        }
    }

    fn name_of(&self, id: &str) -> String {
        id.rsplit("::").next().unwrap_or(id).to_owned()
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

/// The settings that the script `test` names.
fn settings(package: &Package) -> Option<String> {
    if !package.runs("jest") {
        return None;
    }
    let mut words = package.words().skip_while(|w| !w.contains("jest")).skip(1);
    while let Some(word) = words.next() {
        match word.split_once('=') {
            Some(("--config" | "-c", file)) => return Some(file.to_owned()),
            None if word == "--config" || word == "-c" => return words.next().map(str::to_owned),
            _ => {}
        }
    }
    None
}

/// The arguments for an id, a path, or a pattern of names.
fn filtered(filter: &str, project: &dyn Project) -> Vec<OsString> {
    let (path, titles) = filter.split_once("::").map_or((filter, None), |(path, rest)| (path, Some(rest)));
    if !project.has(path) {
        return vec![format!("--testNamePattern={filter}").into()];
    }
    let mut words: Vec<OsString> = Vec::new();
    words.extend(titles.map(|t| format!("--testNamePattern={}", javascript::pattern_of(t)).into()));
    if project.read(path).is_some() {
        // A name that begins with a dash is not an option of jest's.
        words.extend(["--runTestsByPath=true".into(), format!("./{path}").into()]);
    } else {
        let mut pattern = "/".to_owned();
        javascript::escape_into(path.trim_start_matches("./").trim_end_matches('/'), &mut pattern);
        words.extend(["--runTestsByPath=false".into(), format!("{pattern}/").into()]);
    }
    words
}
