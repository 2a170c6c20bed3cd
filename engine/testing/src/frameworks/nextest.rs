//! cargo-nextest: every test in a process of its own, with its JUnit report. Examples in documentation, which
//! it does not run, are left to `cargo test`. <https://nexte.st/docs/>

use std::collections::HashSet;
use std::ffi::OsString;
use std::path::{Path, PathBuf};

use hotcell_sandbox::policy::{HOME, PROJECT};

use crate::case::{Entry, FinalReport, ReportError, Status};
use crate::event::EventReader;
use crate::framework::{
    Command, CommandError, Ecosystem, Evidence, ExitMeaning, Framework, LiveSource, REPORTERS, REPORTS,
    Reporter, Selection, Strength,
};
use crate::frameworks::cargo::{self, TARGET};
use crate::frameworks::{libtest, programs};
use crate::junit;
use crate::live::LiveLog;
use crate::project::Project;

mod events;

const RUNNER: &str = "hotcell_nextest.sh";
const SETTINGS: &str = "hotcell_nextest.toml";
const REPORT: &str = "nextest.xml";
/// Name of the package to install.
const PROGRAM: &str = "cargo-nextest";
/// Configuration file of nextest in a project.
const CONFIGURATION: &str = ".config/nextest.toml";
/// Predicates of its expressions. <https://nexte.st/docs/filtersets/reference/>
const PREDICATES: [&str; 11] =
    ["test", "package", "deps", "rdeps", "binary", "binary_id", "kind", "platform", "default", "all", "none"];

/// Support for cargo-nextest.
#[derive(Debug)]
pub struct Nextest;

/// True when a filter is one of its expressions.
fn is_expression(filter: &str) -> bool {
    // `a::test(b)` is not a test's name either, but is not meant as an expression.
    PREDICATES.iter().any(|name| {
        filter.match_indices(&format!("{name}(")).any(|(at, _)| {
            !filter[..at].ends_with(|before: char| before.is_alphanumeric() || matches!(before, '_' | ':'))
        })
    })
}

impl Framework for Nextest {
    fn name(&self) -> &'static str {
        "nextest"
    }

    fn ecosystem(&self) -> Ecosystem {
        Ecosystem::Rust
    }

    fn detect(&self, project: &dyn Project) -> Option<Evidence> {
        // cargo takes precedence: it needs no other program, and also runs examples in documentation.
        (project.has("Cargo.toml") && project.has(CONFIGURATION))
            .then(|| Evidence { strength: Strength::Shaped, reason: format!("there is {CONFIGURATION}") })
    }

    fn command(&self, selection: &Selection, project: &dyn Project) -> Result<Command, CommandError> {
        let mut words: Vec<OsString> = cargo::members::whole(project);
        let mut selected = Vec::new();
        // Tells the script which ignored tests are selected, since nextest does not name them.
        let (which, word) = match selection.filter.as_deref() {
            None => ("whole", ""),
            Some(id) if cargo::is_id(id, project) => {
                let (file, name) = id.split_once("::").unwrap_or((id, ""));
                words = cargo::only(file);
                if name.is_empty() {
                    ("all", "")
                } else {
                    selected = vec!["--", "--exact", name];
                    ("exact", name)
                }
            }
            Some(filter) if is_expression(filter) => {
                words.push(format!("--filterset={filter}").into());
                ("none", "")
            }
            Some(part) => {
                let part = part.trim_start_matches('-');
                selected = vec!["--", part];
                ("part", part)
            }
        };
        let runner = ["/bin/sh", &format!("{REPORTERS}/{RUNNER}"), &format!("{HOME}/{TARGET}"), which, word]
            .map(str::to_owned);
        let mut argv: Vec<OsString> = ["cargo", "nextest", "run", "--offline"].map(OsString::from).into();
        argv.extend(project.has("Cargo.lock").then(|| "--locked".into()));
        argv.push(if selection.fail_fast { "--fail-fast" } else { "--no-fail-fast" }.into());
        let options = [
            "--cargo-message-format=json",
            "--no-tests=fail",
            // Test output is in the report; here it could be mistaken for nextest's own lines.
            "--success-output=never",
            "--failure-output=never",
            "--profile=hotcell",
        ];
        argv.extend(options.map(OsString::from));
        argv.push(format!("--tool-config-file=hotcell:{REPORTERS}/{SETTINGS}").into());
        argv.extend(cargo::through(&runner));
        for option in ["--test-threads", "--build-jobs"] {
            argv.extend(selection.jobs.map(|n| format!("{option}={n}").into()));
        }
        argv.extend(words);
        argv.extend(selected.into_iter().map(OsString::from));
        Ok(Command {
            argv,
            env: cargo::environment(),
            reporters: vec![
                Reporter { name: RUNNER, text: include_str!("sh/nextest.sh") },
                Reporter { name: SETTINGS, text: include_str!("nextest/settings.toml") },
            ],
            reports: vec![Path::new(REPORTS).join(REPORT)],
            live: LiveSource::Stdout,
            files: if selection.filter.is_none() { cargo::sources::files(project) } else { Vec::new() },
        })
    }

    fn events(&self) -> Box<dyn EventReader> {
        Box::new(events::NextestEvents::new(PROJECT))
    }

    fn report(&self, files: &[Vec<u8>], live: &LiveLog) -> Result<FinalReport, ReportError> {
        // Ignored tests, and files that do not compile.
        let mut entries: Vec<Entry> = programs::never_started(live).collect();
        let mut told = HashSet::new();
        for case in files.first().map_or(Ok(Vec::new()), |bytes| junit::parse(bytes))? {
            let file = live.names.get(&case.classname).unwrap_or(&case.classname);
            let id = format!("{file}::{}", case.name);
            let unseen = live.position(&id).is_none();
            // Failures of a set-up script also appear in the exit code; tests excluded by settings may be
            // listed.
            if unseen && (case.classname.starts_with("@setup-script:") || case.status == Status::Skipped) {
                continue;
            }
            told.insert(id.clone());
            let seen = live.position(&id).and_then(|at| live.seen()[at].status);
            // nextest checks that it exited with 0.
            let ignored = case.status == Status::Passed && seen == Some(Status::Skipped);
            let (why, at) = case.stderr.as_deref().map_or((None, None), libtest::why);
            let stdout = case.stdout.map(|text| without_harness(&text, &case.name));
            entries.push(Entry {
                id,
                status: if ignored { Status::Skipped } else { case.status },
                duration_ms: case.duration_ms,
                line: at.as_ref().map(|(_, line)| *line),
                file: at.map(|(file, _)| file),
                message: why.or(case.message),
                details: case.details,
                stdout: stdout.filter(|text| !text.is_empty()),
                stderr: case.stderr,
            });
        }
        // A test that would have been retried if another had not failed finally is missing from the report.
        let failed =
            live.seen().iter().filter(|s| s.started && s.open == 0 && s.status == Some(Status::Failed));
        let untold = failed.filter(|s| !told.contains(&*s.id));
        entries.extend(untold.map(|s| Entry::bare(&s.id, Status::Failed, s.duration_ms)));
        Ok(FinalReport { entries })
    }

    fn overrules(&self) -> bool {
        true
    }

    fn exit(&self, code: i32) -> ExitMeaning {
        // https://docs.rs/nextest-metadata/latest/nextest_metadata/enum.NextestExitCode.html
        match code {
            0 => ExitMeaning::AllPassed,
            // For failed tests, and for a failed build.
            100 | 101 => ExitMeaning::SomeFailed,
            4 => ExitMeaning::NoTests,
            2 => ExitMeaning::Broken("nextest does not know an option of those that it was given"),
            92 => ExitMeaning::Broken("cargo-nextest is too old for hotcell (0.9.118) or for the project"),
            94 => ExitMeaning::Broken("the expression of the filter is none of nextest's"),
            96 => ExitMeaning::Broken("nextest could not begin: its configuration, or Cargo.toml, is wrong"),
            104 => ExitMeaning::Broken("a test program could not say which tests it has"),
            105 => ExitMeaning::Broken("a set-up script of the project failed"),
            _ => ExitMeaning::Broken("nextest could not run the tests"),
        }
    }

    fn name_of(&self, id: &str) -> String {
        cargo::Cargo.name_of(id)
    }

    fn heads<'a>(&self, id: &'a str) -> Vec<&'a str> {
        cargo::Cargo.heads(id)
    }

    fn files_of(&self, id: &str) -> Vec<String> {
        cargo::Cargo.files_of(id)
    }

    fn builds_nothing(&self, live: &LiveLog) -> bool {
        cargo::Cargo.builds_nothing(live)
    }

    fn explain(&self, stderr: &str) -> Option<String> {
        cargo::Cargo.explain(stderr)
    }

    fn stores(
        &self,
        project: &dyn Project,
        variable: &dyn Fn(&str) -> Option<OsString>,
    ) -> Vec<(PathBuf, PathBuf)> {
        let mut stores = cargo::Cargo.stores(project, variable);
        // Installation folder of `cargo install`; otherwise it is found on PATH.
        let program = cargo::home(variable).map(|home| home.join("bin").join(PROGRAM));
        stores.extend(
            program
                .filter(|p| p.is_absolute() && p.is_file())
                .map(|host| (host, Path::new(".cargo/bin").join(PROGRAM))),
        );
        stores
    }

    fn install(&self, what: &str, _: &str) -> Option<String> {
        (what == PROGRAM).then(|| {
            "cargo-nextest is not installed: cargo install --locked cargo-nextest (0.9.118 or newer); or choose ‹framework=cargo›"
                .to_owned()
        })
    }
}

/// Output of the test itself, without the lines that its harness printed around it.
fn without_harness(text: &str, name: &str) -> String {
    let text = text.trim_start_matches('\n').trim_start_matches("running 1 test\n");
    let end = text.find(&format!("test {name} ... ")).unwrap_or(text.len());
    text[..end].trim_end_matches('\n').to_owned()
}

#[cfg(test)]
mod tests;
