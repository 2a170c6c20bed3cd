//! unittest of Python's library, with hotcell's test runner, which also writes the final report.

use std::ffi::OsString;
use std::path::Path;

use crate::case::{
    Entry, FinalReport, MAX_CASES, MAX_DETAIL_BYTES, MAX_MESSAGE_BYTES, MAX_NAME_BYTES, MAX_TEXT_BYTES,
    ReportError,
};
use crate::coverage::Measured;
use crate::event::{EventReader, Line, LineEvents};
use crate::framework::{
    Command, CommandError, Ecosystem, Evidence, ExitMeaning, Followed, Framework, LiveSource, NOT_INSTALLED,
    REPORTERS, REPORTS, Reporter, Selection, Strength,
};
use crate::frameworks::python::words::{Runner, given};
use crate::frameworks::python::{self, words};
use crate::live::LiveLog;
use crate::project::Project;
use crate::text::{Budget, clip, paired};

const DRIVER: &str = "hotcell_unittest.py";
const REPORT: &str = "unittest.jsonl";
/// The driver, also for Django's runner.
pub(crate) const TEXT: &str = concat!(
    include_str!("python/start.py"),
    include_str!("python/events.py"),
    include_str!("python/unittest_driver.py")
);
const COVERAGE: &str = "unittest.lcov";
/// Maximum length of a report line, in bytes: four texts of maximum size, every character escaped.
const MAX_LINE_BYTES: usize = 2 << 20;

/// Support for unittest.
#[derive(Debug)]
pub struct Unittest;

impl Framework for Unittest {
    fn name(&self) -> &'static str {
        "unittest"
    }

    fn ecosystem(&self) -> Ecosystem {
        Ecosystem::Python
    }

    fn detect(&self, project: &dyn Project) -> Option<Evidence> {
        let signs = python::signs(project);
        // unittest would silently leave some out. pytest finds them all.
        let file = signs.unittest.filter(|_| signs.elsewhere.is_none());
        let found = file.map(|file| Evidence {
            strength: Strength::Used,
            reason: format!("{file} has a unittest.TestCase"),
        });
        python::weighed(project, Runner::Unittest, found)
    }

    fn imports(&self) -> &'static [&'static str] {
        &["unittest"]
    }

    fn command(&self, selection: &Selection, project: &dyn Project) -> Result<Command, CommandError> {
        if selection.jobs.is_some() {
            return Err(CommandError::Unsupported {
                framework: "unittest",
                option: "‹jobs›",
                hint: "leave it out: unittest runs one test at a time",
            });
        }
        let words = words::of(project);
        let given = given::given(words.as_ref(), Runner::Unittest, selection, project);
        let mut argv: Vec<OsString> = vec!["python3".into(), format!("{REPORTERS}/{DRIVER}").into()];
        argv.extend(given.word);
        if let Some(id) = selection.filter.as_deref().filter(|id| !is_path(id, project) && id.contains('.')) {
            argv.push(format!("--hotcell-asked={id}").into());
        }
        argv.push(format!("/home/sandbox/{REPORTS}/{REPORT}").into());
        let signs = python::signs(project);
        let rooted = given.start.is_none() && !signs.root.is_empty();
        if rooted && !matches!(&selection.filter, Some(path) if is_path(path, project)) {
            argv.extend(["discover".into(), format!("-s{}", signs.root).into()]);
        }
        argv.extend(selection.fail_fast.then(|| "-f".into()));
        match selection.filter.as_deref() {
            Some(path) if is_path(path, project) => argv.push(path.into()),
            Some(pattern) => argv.push(format!("-k{pattern}").into()),
            None => {}
        }
        Ok(Command {
            argv,
            env: Vec::new(),
            reporters: vec![Reporter { name: DRIVER, text: TEXT }],
            reports: vec![Path::new(REPORTS).join(REPORT)],
            live: LiveSource::Descriptor,
            files: if selection.filter.is_none() { signs.files } else { Vec::new() },
        })
    }

    fn followed(&self, selection: &Selection, project: &dyn Project) -> Followed {
        let followed = given::followed(words::of(project).as_ref(), Runner::Unittest, selection, project);
        Followed { unbuilt: python::unbuilt(project), ..followed }
    }

    /// With the package coverage, and the project's own settings of it.
    fn cover(&self, command: &mut Command, _: &dyn Project) -> Option<Measured> {
        Some(given::cover(command, COVERAGE))
    }

    fn events(&self) -> Box<dyn EventReader> {
        Box::<LineEvents>::default()
    }

    fn report(&self, files: &[Vec<u8>], _: &LiveLog) -> Result<FinalReport, ReportError> {
        parse(files.first().ok_or(ReportError::Missing)?)
    }

    fn exit(&self, code: i32) -> ExitMeaning {
        match code {
            0 => ExitMeaning::AllPassed,
            1 => ExitMeaning::SomeFailed,
            2 => ExitMeaning::Broken(
                "unittest did not understand its arguments, or a test ended it with exit code 2",
            ),
            5 => ExitMeaning::NoTests,
            NOT_INSTALLED => ExitMeaning::NotInstalled,
            _ => ExitMeaning::Broken("unittest has no such exit code"),
        }
    }

    fn name_of(&self, id: &str) -> String {
        name_of(id)
    }

    fn heads<'a>(&self, id: &'a str) -> Vec<&'a str> {
        id.match_indices('.').map(|(at, _)| &id[..at]).take(32).chain([id]).collect()
    }

    /// A letter for each test.
    fn is_own_line(&self, line: &str) -> bool {
        line.bytes().all(|byte| b".FEsxu".contains(&byte))
    }

    fn of_tests<'a>(&self, stderr: &'a str) -> &'a str {
        python::up_to_crash(stderr)
    }

    fn install(&self, what: &str, interpreter: &str) -> Option<String> {
        (what == "coverage").then(|| python::install("coverage", interpreter))
    }
}

/// Last part of a dotted id.
pub(crate) fn name_of(id: &str) -> String {
    match id.starts_with(given::COMMAND) {
        true => id.to_owned(),
        false => id.rsplit('.').next().unwrap_or(id).to_owned(),
    }
}

fn is_path(filter: &str, project: &dyn Project) -> bool {
    filter.ends_with(".py") && project.has(filter)
}

/// Parses one JSON object per line, and a last line with their number.
pub(crate) fn parse(bytes: &[u8]) -> Result<FinalReport, ReportError> {
    let broken = |why: &str| Err(ReportError::Broken(why.to_owned()));
    let mut room = Budget::new(MAX_TEXT_BYTES);
    let mut entries = Vec::new();
    let mut done = None;
    for line in bytes.split_inclusive(|b| *b == b'\n') {
        let Some((b'\n', line)) = line.split_last() else {
            return broken("it ends within a line");
        };
        if done.is_some() {
            return broken("something follows its end");
        }
        if line.len() > MAX_LINE_BYTES {
            return broken("a line is too long");
        }
        let mut line: Line = match serde_json::from_slice(&paired(line)) {
            Ok(line) => line,
            Err(_) => return broken("a line is not an entry"),
        };
        match (line.e.as_str(), line.status) {
            ("done", _) => done = line.count,
            ("case", Some(status)) => {
                let id = clip(&line.id.take().unwrap_or_default(), MAX_NAME_BYTES);
                if entries.len() >= MAX_CASES || !room.take(id.len()) {
                    return broken("it has more cases than are read");
                }
                let mut keep = |text: Option<String>, most| text.and_then(|t| room.keep(&t, most));
                entries.push(Entry {
                    status,
                    duration_ms: line.duration_ms(),
                    message: keep(line.message.take(), MAX_MESSAGE_BYTES),
                    details: keep(line.details.take(), MAX_DETAIL_BYTES),
                    file: keep(line.file.take(), MAX_NAME_BYTES),
                    line: line.line,
                    stdout: keep(line.stdout.take(), MAX_DETAIL_BYTES),
                    stderr: keep(line.stderr.take(), MAX_DETAIL_BYTES),
                    id,
                });
            }
            _ => return broken("a line is not an entry"),
        }
    }
    match done {
        Some(count) if count == entries.len() as u64 => Ok(FinalReport { entries }),
        Some(_) => broken("it does not have as many cases as it says"),
        None => broken("its end is missing"),
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::case::Status;
    use proptest::prelude::*;

    const WHOLE: &str = "{\"e\":\"case\",\"id\":\"a.B.c\",\"status\":\"failed\",\"ms\":1.5,\"message\":\"m\",\"details\":\"d\",\"stdout\":\"o\",\"stderr\":\"e\"}\n{\"e\":\"case\",\"id\":\"a.B.d\",\"status\":\"passed\",\"ms\":-1}\n{\"e\":\"done\",\"count\":2}\n";

    #[test]
    fn complete_unittest_report_is_read() {
        let report = parse(WHOLE.as_bytes()).unwrap();
        assert_eq!(report.entries.len(), 2);
        assert_eq!((report.entries[0].status, report.entries[0].duration_ms), (Status::Failed, 1.5));
        assert_eq!((report.entries[1].status, report.entries[1].duration_ms), (Status::Passed, 0.0));
        let printed =
            |at: usize| (report.entries[at].stdout.as_deref(), report.entries[at].stderr.as_deref());
        assert_eq!((printed(0), printed(1)), ((Some("o"), Some("e")), (None, None)));
    }

    #[test]
    fn incomplete_unittest_report_is_an_error() {
        for text in [
            "",
            "{}\n",
            "[[[[[[[[\n",
            "{\"e\":\"done\",\"count\":1}\n",
            "{\"e\":\"done\",\"count\":0}",
            "{\"e\":\"done\",\"count\":0}\n\n",
            "{\"e\":\"case\",\"id\":\"a\"}\n{\"e\":\"done\",\"count\":1}\n",
        ] {
            assert!(parse(text.as_bytes()).is_err(), "{text}");
        }
        let deep = format!("{{\"e\":{}\n", "[".repeat(100_000));
        assert!(parse(deep.as_bytes()).is_err());
    }

    proptest! {
        #[test]
        fn arbitrary_unittest_report_causes_no_panic(bytes in proptest::collection::vec(any::<u8>(), 0..300)) {
            let _ = parse(&bytes);
        }

        #[test]
        fn truncated_unittest_report_is_an_error(at in 0usize..WHOLE.len()) {
            prop_assert!(parse(&WHOLE.as_bytes()[..at]).is_err());
        }
    }
}
