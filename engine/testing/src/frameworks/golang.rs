//! `go test -json`, with a report by a hotcell script that starts each package's test program.

use std::ffi::OsString;
use std::path::{Path, PathBuf};

use hotcell_sandbox::policy::{HOME, PROJECT};

use crate::case::{Entry, FinalReport, ReportError, Status};
use crate::coverage::{Form, Measured};
use crate::event::EventReader;
use crate::framework::{
    Command, CommandError, Ecosystem, Evidence, ExitMeaning, Followed, Framework, LiveSource, REPORTERS,
    REPORTS, Reporter, Selection, Strength,
};
use crate::frameworks::runner::{self, Ran};
use crate::live::LiveLog;
use crate::project::Project;
use crate::text::clip;

mod events;
mod given;
mod reasons;
mod sources;

const RUNNER: &str = "hotcell_go.sh";
const REPORT: &str = "go.txt";
const COVERAGE: &str = ".hotcell-go.cover";
/// Variable by which the script starts a program once for each of its tests.
const EACH: &str = "HOTCELL_EACH";
/// Maximum number of modules in a workspace.
const MAX_MODULES: usize = 1000;

/// Support for `go test`.
#[derive(Debug)]
pub struct Go;

/// Pattern for `-run` that matches one test, or one subtest.
fn pattern(test: &str) -> String {
    let quoted = |part: &str| {
        let mut out = String::from("^");
        for c in part.chars() {
            if c.is_ascii_punctuation() && c != '_' {
                out.push('\\');
            }
            out.push(c);
        }
        out + "$"
    };
    test.split('/').map(quoted).collect::<Vec<_>>().join("/")
}

/// Patterns for all packages. In a workspace whose top folder is not a module, go requires the modules to be
/// named. <https://go.dev/ref/mod#workspaces>
fn everything(project: &dyn Project) -> Vec<OsString> {
    let text = project.read("go.work").filter(|_| !project.has("go.mod")).unwrap_or_default();
    modules(&String::from_utf8_lossy(&text))
}

fn modules(text: &str) -> Vec<OsString> {
    let (mut patterns, mut in_block) = (Vec::new(), false);
    for line in text.lines() {
        let line = line.split("//").next().unwrap_or_default().trim();
        let folder = match line.strip_prefix("use") {
            Some(rest) if rest.trim() == "(" => {
                in_block = true;
                continue;
            }
            Some(rest) if rest.starts_with([' ', '\t']) => rest.trim(),
            _ if line == ")" => {
                in_block = false;
                continue;
            }
            _ if in_block => line,
            _ => continue,
        };
        let folder = folder.trim_matches(['"', '`']).trim_end_matches('/');
        let below = folder.strip_prefix("./").unwrap_or(folder);
        if !below.is_empty() && !below.starts_with(['/', '.', '-']) && patterns.len() < MAX_MODULES {
            patterns.push(format!("./{below}/...").into());
        }
    }
    if patterns.is_empty() { vec!["./...".into()] } else { patterns }
}

impl Framework for Go {
    fn name(&self) -> &'static str {
        "go"
    }

    fn ecosystem(&self) -> Ecosystem {
        Ecosystem::Go
    }

    fn detect(&self, project: &dyn Project) -> Option<Evidence> {
        let root = ["go.mod", "go.work"].into_iter().find(|file| project.has(file))?;
        let (strength, reason) = match project.files().iter().find(|f| f.ends_with("_test.go")) {
            Some(file) => (Strength::Used, format!("there are {root} and {file}")),
            None => (Strength::Shaped, format!("there is {root}")),
        };
        Some(Evidence { strength, reason })
    }

    fn command(&self, selection: &Selection, project: &dyn Project) -> Result<Command, CommandError> {
        // The sandbox has its own time limit, which preserves the results so far.
        let mut argv: Vec<OsString> =
            ["go", "test", "-json", "-count=1", "-timeout=0"].map(OsString::from).into();
        let own = if selection.detected { given::options(project) } else { Vec::new() };
        argv.extend(own.into_iter().map(OsString::from));
        argv.push(format!("-exec=/bin/sh {REPORTERS}/{RUNNER} {HOME}/{REPORTS}/{REPORT}").into());
        argv.extend(selection.fail_fast.then(|| "-failfast".into()));
        argv.extend(selection.jobs.map(|n| format!("-p={n}").into()));
        match selection.filter.as_deref() {
            Some(filter) => match filter.split_once("::") {
                Some((package, test)) => {
                    argv.push(format!("-run={}", pattern(test)).into());
                    argv.push(package.trim_start_matches('-').into());
                }
                None if project.has(filter) => {
                    let folder = if filter.ends_with(".go") {
                        filter.rsplit_once('/').map_or("", |(f, _)| f)
                    } else {
                        filter
                    };
                    argv.push(format!("./{folder}").into());
                }
                None => {
                    argv.push(format!("-run={filter}").into());
                    argv.extend(everything(project));
                }
            },
            None => argv.extend(everything(project)),
        }
        let modules = if project.has("vendor/modules.txt") {
            "-mod=vendor"
        } else if project.has("go.work") {
            "-mod=readonly"
        } else {
            "-mod=mod"
        };
        let env = [
            ("GOFLAGS", modules.to_owned()),
            ("GOTOOLCHAIN", "local".to_owned()),
            ("GOPROXY", "off".to_owned()),
            ("GOCACHE", format!("{HOME}/.cache/go-build")),
            ("GOPATH", format!("{HOME}/go")),
            ("GOENV", "off".to_owned()),
        ];
        let env = env.into_iter().chain(selection.isolated.then(|| (EACH, "1".to_owned())));
        Ok(Command {
            argv,
            env: env.map(|(name, value)| (name.into(), value.into())).collect(),
            reporters: vec![Reporter { name: RUNNER, text: include_str!("sh/go.sh") }],
            reports: vec![Path::new(REPORTS).join(REPORT)],
            live: LiveSource::Stdout,
            files: if selection.filter.is_none() { sources::first_tests(project) } else { Vec::new() },
        })
    }

    fn followed(&self, selection: &Selection, project: &dyn Project) -> Followed {
        let all = selection.detected && selection.filter.is_none();
        let own = if all { given::options(project) } else { Vec::new() };
        let some: Vec<String> = own.into_iter().filter(|option| given::leaves_out(option)).collect();
        let note =
            format!("go test of the Makefile runs only some of the tests: {}", clip(&some.join(" "), 200));
        let notes = if some.is_empty() { Vec::new() } else { vec![note] };
        Followed { notes, ..Followed::default() }
    }

    fn cover(&self, command: &mut Command, project: &dyn Project) -> Option<Measured> {
        // go creates the file, but not its folder.
        let report = PathBuf::from(COVERAGE);
        command.argv.insert(2, format!("-coverprofile={HOME}/{COVERAGE}").into());
        let text = project.read("go.mod").unwrap_or_default();
        let text = String::from_utf8_lossy(&text);
        let module = text.lines().find_map(|line| line.trim().strip_prefix("module "));
        let module = module.unwrap_or_default().trim().trim_matches('"').to_owned();
        Some(Measured { report, form: Form::Go { module } })
    }

    fn events(&self) -> Box<dyn EventReader> {
        Box::new(events::GoEvents::new(PROJECT))
    }

    fn report(&self, files: &[Vec<u8>], live: &LiveLog) -> Result<FinalReport, ReportError> {
        let programs = files.first().map_or(Ok(Vec::new()), |bytes| runner::parse(bytes))?;
        let mut entries: Vec<Entry> = programs.iter().flat_map(|ran| of_program(ran, live)).collect();
        // Packages that do not build never start: only the live events report them.
        for seen in live.seen().iter().filter(|s| !s.started) {
            entries.extend(seen.status.map(|status| Entry::bare(&seen.id, status, 0.0)));
        }
        Ok(FinalReport { entries })
    }

    fn exit(&self, code: i32) -> ExitMeaning {
        match code {
            0 => ExitMeaning::AllPassed,
            1 => ExitMeaning::SomeFailed,
            2 => ExitMeaning::CollectionFailed,
            _ => ExitMeaning::Broken("go has no such exit code"),
        }
    }

    /// The test without its package and subtests, which an entry of `sources::first_tests` ends with.
    fn heads<'a>(&self, id: &'a str) -> Vec<&'a str> {
        id.split_once("::").and_then(|(_, test)| test.split('/').next()).into_iter().collect()
    }

    fn builds_nothing(&self, live: &LiveLog) -> bool {
        let failed = live.seen().iter().any(|s| s.status == Some(Status::Errored));
        // No package has a file of tests.
        let empty = live.names.is_empty() && matches!(live.finished, Some((0, _)));
        live.started() == 0 && (failed || empty)
    }

    fn explain(&self, stderr: &str) -> Option<String> {
        events::absent(stderr)
    }

    fn stores(
        &self,
        project: &dyn Project,
        variable: &dyn Fn(&str) -> Option<OsString>,
    ) -> Vec<(PathBuf, PathBuf)> {
        if project.has("vendor/modules.txt") || !project.has("go.sum") {
            return Vec::new();
        }
        let path = variable("GOPATH").map(PathBuf::from);
        let path =
            path.or_else(|| Some(PathBuf::from(variable("HOME")?).join("go"))).map(|p| p.join("pkg/mod"));
        let store =
            variable("GOMODCACHE").map(PathBuf::from).or(path).filter(|s| s.is_absolute() && s.is_dir());
        store.map(|host| (host, PathBuf::from("go/pkg/mod"))).into_iter().collect()
    }

    fn install(&self, _: &str, _: &str) -> Option<String> {
        None
    }
}

/// Entries for one program: its tests, listed before any of them ran, and its end. A program that reports
/// success must have ended normally.
fn of_program(ran: &Ran, live: &LiveLog) -> Vec<Entry> {
    let Some(package) = live.names.get(&ran.program) else {
        let id = format!("the program {}", ran.program);
        return vec![Entry::bare(&id, Status::Errored, 0.0)];
    };
    let Some((code, came)) = &ran.end else { return Vec::new() };
    let head = format!("{package}::");
    let mut entries = Vec::new();
    let mut bad = false;
    for seen in live.seen().iter().filter(|s| s.started) {
        let Some(name) = seen.id.strip_prefix(&head) else { continue };
        let top = name.split('/').next().unwrap_or(name);
        let Some(status) = seen.status.filter(|_| ran.tests.iter().any(|t| t == top)) else { continue };
        bad |= !status.is_good();
        match (code, status) {
            (0, _) if came != "whole" => {}
            (0, Status::Skipped) => entries.push(Entry::bare(&seen.id, Status::Skipped, seen.duration_ms)),
            (0, _) => entries.push(Entry::bare(&seen.id, Status::Passed, seen.duration_ms)),
            _ => entries.push(Entry::bare(&seen.id, status, seen.duration_ms)),
        }
    }
    // Tests that were not observed to start.
    if *code == 0 {
        let unseen =
            ran.tests.iter().map(|test| format!("{head}{test}")).filter(|id| live.position(id).is_none());
        entries.extend(unseen.map(|id| Entry::bare(&id, Status::Passed, 0.0)));
    } else if !bad {
        entries.push(Entry::bare(package, Status::Errored, 0.0));
    }
    entries
}

#[cfg(test)]
mod tests;
