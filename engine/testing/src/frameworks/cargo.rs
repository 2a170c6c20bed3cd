//! `cargo test`, followed through the output of test programs, with a report by a hotcell script that starts
//! each of them.

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

pub(crate) mod build;
mod events;
mod flags;
mod log;
pub(crate) mod members;
pub(crate) mod sources;

const RUNNER: &str = "hotcell_cargo.sh";
const REPORT: &str = "cargo.txt";
/// Build folder of cargo, below the home folder: the project's own `target` would be copied for every run.
pub const TARGET: &str = ".hotcell-target";
/// Coverage output of the script, below the home folder.
const COVERAGE: &str = ".hotcell-cargo.lcov";
/// Maximum number of source files that are searched.
const MAX_SEARCHED_FILES: usize = 300;

/// Support for `cargo test`.
#[derive(Debug)]
pub struct Cargo;

/// True when a source file contains tests.
fn has_tests(project: &dyn Project, file: &str) -> bool {
    // `#[tokio::test]`, `#[test]`, `#[test_case(…)]`, in any spelling.
    let text = project.read(file).unwrap_or_default();
    text.split(|b| *b == b'\n').any(|line| {
        let line = line.trim_ascii();
        line.starts_with(b"#[") && line.windows(4).any(|w| w == b"test")
    })
}

/// Options that make cargo build only the program of this source file, and the manifest of its package.
fn chosen(file: &str) -> Option<(Vec<OsString>, String)> {
    let (package, rest) = ["src/", "tests/", "examples/", "benches/"].iter().find_map(|kind| {
        let at = if file.starts_with(kind) { 0 } else { file.find(&format!("/{kind}"))? + 1 };
        Some(file.split_at(at))
    })?;
    let name = |folder: &str| {
        let name = rest.strip_prefix(folder)?.strip_suffix(".rs")?;
        Some(OsString::from(name.strip_suffix("/main").unwrap_or(name)))
    };
    let options = if let Some(test) = name("tests/") {
        vec!["--test".into(), test]
    } else if let Some(example) = name("examples/") {
        vec!["--example".into(), example]
    } else if let Some(bin) = name("src/bin/") {
        vec!["--bin".into(), bin]
    } else if rest == "src/main.rs" {
        vec!["--bins".into()]
    } else {
        vec!["--lib".into()]
    };
    Some((options, format!("{package}Cargo.toml")))
}

/// True when a filter is an id of the report, or the file of a program.
pub(crate) fn is_id(filter: &str, project: &dyn Project) -> bool {
    filter.split("::").next().is_some_and(|file| file.ends_with(".rs") && project.has(file))
}

/// Arguments that make cargo build only the program of this source file.
pub(crate) fn only(file: &str) -> Vec<OsString> {
    let Some((options, manifest)) = chosen(file) else { return Vec::new() };
    std::iter::once(format!("--manifest-path={manifest}").into()).chain(options).collect()
}

/// Arguments that make cargo start test programs through this one: they take precedence over the project's
/// configuration and the environment, and cover all possible host targets.
pub(crate) fn through(runner: &[String]) -> impl Iterator<Item = OsString> {
    let arch = std::env::consts::ARCH;
    ["gnu", "musl"]
        .map(|libc| format!("--config=target.{arch}-unknown-linux-{libc}.runner={runner:?}").into())
        .into_iter()
}

/// Arguments that make cargo compile the dependencies of a project's tests, with [`environment`]: in the same
/// way as for the tests, so that cargo reuses the result. Each package of the project needs a library.
pub const AHEAD: [&str; 8] =
    ["cargo", "test", "--no-run", "--workspace", "--lib", "--locked", "--offline", "--no-fail-fast"];

/// Variables for cargo.
#[must_use]
pub fn environment() -> Vec<(OsString, OsString)> {
    let env = [
        ("CARGO_TARGET_DIR", format!("{HOME}/{TARGET}")),
        ("CARGO_HOME", format!("{HOME}/.cargo")),
        ("CARGO_TERM_COLOR", "never".to_owned()),
        ("CARGO_INCREMENTAL", "0".to_owned()),
        // Line numbers in backtraces, at a third of the size.
        ("CARGO_PROFILE_DEV_DEBUG", "line-tables-only".to_owned()),
    ];
    env.map(|(name, value)| (name.into(), value.into())).into()
}

/// The user's folder of cargo.
pub(crate) fn home(variable: &dyn Fn(&str) -> Option<OsString>) -> Option<PathBuf> {
    let home = variable("CARGO_HOME").map(PathBuf::from);
    home.or_else(|| Some(PathBuf::from(variable("HOME")?).join(".cargo")))
}

impl Framework for Cargo {
    fn name(&self) -> &'static str {
        "cargo"
    }

    fn ecosystem(&self) -> Ecosystem {
        Ecosystem::Rust
    }

    fn detect(&self, project: &dyn Project) -> Option<Evidence> {
        if !project.has("Cargo.toml") {
            return None;
        }
        let mut sources = project.files().iter().filter(|f| f.ends_with(".rs")).take(MAX_SEARCHED_FILES);
        let (strength, reason) = match sources.find(|file| has_tests(project, file)) {
            Some(file) => (Strength::Used, format!("there is Cargo.toml, and {file} has tests")),
            None => (Strength::Shaped, "there is Cargo.toml".to_owned()),
        };
        Some(Evidence { strength, reason })
    }

    fn command(&self, selection: &Selection, project: &dyn Project) -> Result<Command, CommandError> {
        let mut argv: Vec<OsString> = vec!["cargo".into(), "test".into(), "--offline".into()];
        argv.extend(project.has("Cargo.lock").then(|| "--locked".into()));
        argv.extend((!selection.fail_fast).then(|| "--no-fail-fast".into()));
        argv.push("--message-format=json".into());
        let runner = [
            "/bin/sh",
            &format!("{REPORTERS}/{RUNNER}"),
            &format!("{HOME}/{REPORTS}/{REPORT}"),
            &format!("{HOME}/{TARGET}"),
        ];
        argv.extend(through(&runner.map(str::to_owned)));
        argv.extend(selection.jobs.map(|n| format!("--jobs={n}").into()));
        match selection.filter.as_deref() {
            Some(id) if is_id(id, project) => {
                let (file, name) = id.split_once("::").unwrap_or((id, ""));
                argv.extend(only(file));
                argv.extend(
                    (!name.is_empty())
                        .then(|| ["--", "--exact", filtered_by(name)].map(OsString::from))
                        .into_iter()
                        .flatten(),
                );
            }
            Some(id) if is_example(id) && example(id, project).is_some() => {
                argv.extend(example(id, project).unwrap_or_default());
            }
            Some(part) => {
                argv.extend(members::whole(project));
                argv.push("--".into());
                argv.push(part.trim_start_matches('-').into());
            }
            None => argv.extend(members::whole(project)),
        }
        Ok(Command {
            argv,
            env: environment(),
            reporters: vec![Reporter { name: RUNNER, text: include_str!("sh/cargo.sh") }],
            reports: vec![Path::new(REPORTS).join(REPORT)],
            live: LiveSource::Stdout,
            files: if selection.filter.is_none() { sources::files(project) } else { Vec::new() },
        })
    }

    fn followed(&self, _: &Selection, project: &dyn Project) -> Followed {
        Followed { notes: members::note(project).into_iter().collect(), ..Followed::default() }
    }

    fn cover(&self, command: &mut Command, project: &dyn Project) -> Option<Measured> {
        // The first that exists, as in cargo.
        let config = [".cargo/config", ".cargo/config.toml"].into_iter().find(|file| project.has(file));
        let config = config.and_then(|file| project.read(file)).unwrap_or_default();
        let adding = flags::adding("-Cinstrument-coverage", &String::from_utf8_lossy(&config));
        command.argv.insert(2, format!("--config={adding}").into());
        command.env.push(("HOTCELL_LCOV".into(), format!("{HOME}/{COVERAGE}").into()));
        // Programs of the build and examples in documentation would be counted, too, but are not read.
        command.env.push(("LLVM_PROFILE_FILE".into(), "/dev/null".into()));
        Some(Measured { report: PathBuf::from(COVERAGE), form: Form::Lcov })
    }

    fn events(&self) -> Box<dyn EventReader> {
        Box::new(events::CargoEvents::new(PROJECT))
    }

    fn report(&self, files: &[Vec<u8>], live: &LiveLog) -> Result<FinalReport, ReportError> {
        let programs = files.first().map_or(Ok(Vec::new()), |bytes| runner::parse(bytes))?;
        let mut entries: Vec<Entry> = programs.iter().flat_map(|ran| of_program(ran, live)).collect();
        // Examples in documentation are started by rustdoc, and files that do not compile never start: only
        // the live events report them. cargo's exit code covers both.
        for seen in live.seen().iter().filter(|s| is_example(&s.id) || !s.started) {
            entries.extend(seen.status.map(|status| Entry::bare(&seen.id, status, seen.duration_ms)));
        }
        Ok(FinalReport { entries })
    }

    fn exit(&self, code: i32) -> ExitMeaning {
        match code {
            0 => ExitMeaning::AllPassed,
            101 => ExitMeaning::SomeFailed,
            _ => ExitMeaning::Broken("cargo has no such exit code"),
        }
    }

    fn heads<'a>(&self, id: &'a str) -> Vec<&'a str> {
        id.split("::").take(1).collect()
    }

    fn files_of(&self, id: &str) -> Vec<String> {
        sources::of_modules(id)
    }

    fn builds_nothing(&self, live: &LiveLog) -> bool {
        live.started() == 0 && live.seen().iter().any(|s| s.status == Some(Status::Errored))
    }

    fn of_tests<'a>(&self, stderr: &'a str) -> &'a str {
        // Of several programs the first.
        stderr.split("\nerror: test failed, to rerun").next().unwrap_or(stderr)
    }

    fn is_own_line(&self, line: &str) -> bool {
        const OWN: [&str; 5] =
            ["Compiling ", "Finished ", "Running ", "Doc-tests ", "warning: `--logfile` is deprecated"];
        OWN.iter().any(|own| line.starts_with(own))
    }

    fn explain(&self, stderr: &str) -> Option<String> {
        let absent = [
            "no matching package named",
            "failed to download",
            "failed to load source",
            "unable to update registry",
        ];
        let line = stderr.lines().map(str::trim).find(|l| absent.iter().any(|what| l.contains(what)))?;
        Some(format!(
            "a dependency is not there ({}), and nothing is fetched: run `cargo fetch` outside, or `cargo vendor` in the project",
            crate::text::clip(line.trim_start_matches("error: "), 200)
        ))
    }

    fn stores(
        &self,
        project: &dyn Project,
        variable: &dyn Fn(&str) -> Option<OsString>,
    ) -> Vec<(PathBuf, PathBuf)> {
        let lock = project.read("Cargo.lock").unwrap_or_default();
        if !lock.windows(19).any(|w| w == b"source = \"registry+") {
            return Vec::new();
        }
        // Not its parent folder, which contains credentials.
        let registry =
            home(variable).map(|home| home.join("registry")).filter(|r| r.is_absolute() && r.is_dir());
        registry.map(|host| (host, PathBuf::from(".cargo/registry"))).into_iter().collect()
    }

    fn install(&self, _: &str, _: &str) -> Option<String> {
        None
    }
}

/// True for the id of an example in documentation: `src/lib.rs - add (line 5)`, followed by ` - compile`,
/// ` - compile fail` or ` - should panic`, depending on how rustdoc runs it.
pub(crate) fn is_example(id: &str) -> bool {
    let Some((head, tail)) = id.rsplit_once(" (line ") else { return false };
    let Some((line, kind)) = tail.split_once(')') else { return false };
    (head.contains(" - ") || head.ends_with(" -"))
        && line.parse::<u32>().is_ok()
        && (kind.is_empty() || kind.starts_with(" - "))
}

/// Arguments that make cargo run the examples of one item in documentation. rustdoc splits its filter at blanks, and takes
/// each word for one: the item is the longest word of an id that names nothing else.
fn example(id: &str, project: &dyn Project) -> Option<Vec<OsString>> {
    let (head, _) = id.rsplit_once(" (line ")?;
    let (file, item) = head.split_once(" - ").or_else(|| Some((head.strip_suffix(" -")?, "")))?;
    let (_, manifest) = chosen(file).filter(|_| project.has(file))?;
    let word = item.split(' ').max_by_key(|word| word.len()).filter(|word| !word.is_empty());
    let words = [format!("--manifest-path={manifest}"), "--doc".to_owned(), "--".to_owned()];
    Some(words.into_iter().chain([word.unwrap_or(file).to_owned()]).map(OsString::from).collect())
}

/// Name by which a program finds a test: libtest-mimic lists `[KIND] NAME`, and filters by `NAME`.
fn filtered_by(name: &str) -> &str {
    name.strip_prefix('[').and_then(|rest| rest.split_once("] ")).map_or(name, |(_, name)| name)
}

/// Entries for one program: its own log gives the result of each test; without a log, only the exit code is
/// known.
fn of_program(ran: &Ran, live: &LiveLog) -> Vec<Entry> {
    let Some(file) = live.names.get(&ran.program) else {
        let id = format!("the program {}", ran.program);
        return vec![Entry::bare(&id, Status::Errored, 0.0)];
    };
    let id = |name: &str| format!("{file}::{name}");
    let seen = |id: &str| live.position(id).map(|at| &live.seen()[at]);
    let time = |id: &str| seen(id).map_or(0.0, |s| s.duration_ms);
    let code = ran.end.as_ref().map(|(code, _)| *code);
    let mut entries = Vec::new();
    match (&ran.log, code) {
        (Some(log), _) => {
            let status = |name: &str| seen(&id(name)).and_then(|s| s.status);
            let results = log::results(log, &ran.tests, status);
            entries.extend(
                results.iter().map(|(name, status)| Entry::bare(&id(name), *status, time(&id(name)))),
            );
        }
        (None, Some(code)) => {
            for name in &ran.tests {
                let seen = seen(&id(name)).and_then(|s| s.status);
                let status = match seen {
                    Some(Status::Skipped) => Status::Skipped,
                    _ if code == 0 => Status::Passed,
                    Some(status) => status,
                    None => continue,
                };
                entries.push(Entry::bare(&id(name), status, time(&id(name))));
            }
        }
        (None, None) => {}
    }
    // A program that is a single test, or that ended abnormally.
    if let (Some(code), Some(whole)) = (code, seen(file)) {
        let failed = if whole.started { Status::Failed } else { Status::Errored };
        entries.push(Entry::bare(file, if code == 0 { Status::Passed } else { failed }, whole.duration_ms));
    }
    entries
}

#[cfg(test)]
mod tests;
