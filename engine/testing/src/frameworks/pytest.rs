//! pytest, followed by a plugin of hotcell, with its own JUnit report.

use std::collections::HashMap;
use std::ffi::OsString;
use std::path::Path;

use crate::case::{Entry, FinalReport, ReportError, Status};
use crate::coverage::Measured;
use crate::event::{EventReader, LineEvents};
use crate::framework::{
    Command, CommandError, Ecosystem, Evidence, ExitMeaning, Followed, Framework, LiveSource, NOT_INSTALLED,
    REPORTERS, REPORTS, Reporter, Selection, Strength,
};
use crate::frameworks::python::words::{Runner, given};
use crate::frameworks::python::{self, words};
use crate::junit;
use crate::live::LiveLog;
use crate::project::Project;

mod internal;
mod plugins;

const DRIVER: &str = "hotcell_pytest.py";
const REPORT: &str = "pytest.xml";
const COVERAGE: &str = "pytest.lcov";
/// Id for entries about the whole session, also used by the driver.
const SESSION: &str = "pytest";

/// Case for a coverage threshold of the project that was not met.
const THRESHOLD: &str = "coverage threshold";

/// Support for pytest.
#[derive(Debug)]
pub struct Pytest;

/// Modules that every start of pytest imports before it looks for tests; with `?` if some versions lack the
/// module.
const IMPORTS: &[&str] = &[
    "pytest",
    "_pytest.assertion?",
    "_pytest.cacheprovider?",
    "_pytest.capture?",
    "_pytest.debugging?",
    "_pytest.doctest?",
    "_pytest.faulthandler?",
    "_pytest.fixtures?",
    "_pytest.helpconfig?",
    "_pytest.junitxml?",
    "_pytest.legacypath?",
    "_pytest.logging?",
    "_pytest.main?",
    "_pytest.mark?",
    "_pytest.monkeypatch?",
    "_pytest.pastebin?",
    "_pytest.python?",
    "_pytest.python_api?",
    "_pytest.python_path?",
    "_pytest.recwarn?",
    "_pytest.reports?",
    "_pytest.runner?",
    "_pytest.setuponly?",
    "_pytest.setupplan?",
    "_pytest.skipping?",
    "_pytest.stepwise?",
    "_pytest.subtests?",
    "_pytest.terminal?",
    "_pytest.threadexception?",
    "_pytest.tmpdir?",
    "_pytest.unittest?",
    "_pytest.unraisableexception?",
    "_pytest.warnings?",
    "faulthandler?",
    "pdb?",
];

impl Framework for Pytest {
    fn name(&self) -> &'static str {
        "pytest"
    }

    fn ecosystem(&self) -> Ecosystem {
        Ecosystem::Python
    }

    fn detect(&self, project: &dyn Project) -> Option<Evidence> {
        let evidence = |strength, reason: String| {
            python::weighed(project, Runner::Pytest, Some(Evidence { strength, reason }))
        };
        if words::of(project).is_some_and(|words| words.first() == Some(Runner::Pytest)) {
            return python::weighed(project, Runner::Pytest, None);
        }
        for file in ["pytest.ini", ".pytest.ini", "pytest.toml", ".pytest.toml"] {
            if project.has(file) {
                return evidence(Strength::Configured, format!("there is {file}"));
            }
        }
        for (file, head) in
            [("pyproject.toml", "[tool.pytest"), ("setup.cfg", "[tool:pytest]"), ("tox.ini", "[pytest]")]
        {
            if python::has_section(project, file, head) {
                return evidence(Strength::Configured, format!("{file} has {head}"));
            }
        }
        if let Some(file) = project.files().iter().find(|f| python::base(f) == "conftest.py") {
            return evidence(Strength::Configured, format!("there is {file}"));
        }
        let signs = python::signs(project);
        if let Some(file) = signs.pytest {
            return evidence(Strength::Used, format!("{file} imports pytest"));
        }
        if let Some(file) = signs.plain {
            return evidence(Strength::Used, format!("{file} has tests that only pytest runs"));
        }
        signs.any.and_then(|file| evidence(Strength::Shaped, format!("{file} is named like a test")))
    }

    fn command(&self, selection: &Selection, project: &dyn Project) -> Result<Command, CommandError> {
        let report = format!("/home/sandbox/{REPORTS}/{REPORT}");
        let words = words::of(project);
        let given = given::given(words.as_ref(), Runner::Pytest, selection, project);
        let mut argv: Vec<OsString> = vec!["python3".into(), format!("{REPORTERS}/{DRIVER}").into()];
        argv.extend(given.word);
        argv.extend(selection.filter.is_some().then(|| "--hotcell-part=1".into()));
        argv.extend(selection.jobs.map(|n| format!("--hotcell-jobs={n}").into()));
        // The older family contains file and line of a test, and keeps two ends of one test separate.
        let own = [
            &format!("--junitxml={report}"),
            "--junitprefix=",
            "-ojunit_family=xunit1",
            "-ojunit_logging=out-err",
            "-ojunit_log_passing_tests=false",
        ];
        argv.extend(own.map(OsString::from));
        argv.extend(selection.fail_fast.then(|| "-x".into()));
        match selection.filter.as_deref() {
            // An argument that begins with a dash is not an option.
            Some(id) if id.contains("::") || project.has(id) => {
                let up = "../".repeat(depth(given.start.map_or("", |start| start.place.folder.as_str())));
                let id = if id.starts_with('-') { format!("./{id}") } else { id.to_owned() };
                argv.push(format!("{up}{id}").into());
            }
            Some(expression) => argv.push(format!("-k{expression}").into()),
            None => {}
        }
        Ok(Command {
            argv,
            env: Vec::new(),
            reporters: vec![Reporter {
                name: DRIVER,
                text: concat!(
                    include_str!("python/start.py"),
                    include_str!("python/events.py"),
                    include_str!("python/ran.py"),
                    include_str!("python/pytest_driver.py")
                ),
            }],
            reports: vec![Path::new(REPORTS).join(REPORT)],
            live: LiveSource::Descriptor,
            files: if selection.filter.is_none() { python::signs(project).files } else { Vec::new() },
        })
    }

    fn followed(&self, selection: &Selection, project: &dyn Project) -> Followed {
        let followed = given::followed(words::of(project).as_ref(), Runner::Pytest, selection, project);
        Followed { unbuilt: python::unbuilt(project), ..followed }
    }

    fn imports(&self) -> &'static [&'static str] {
        IMPORTS
    }

    /// With pytest-cov, and the project's own settings of it.
    fn cover(&self, command: &mut Command, _: &dyn Project) -> Option<Measured> {
        // Otherwise the file would change the project.
        command.env.push(("COVERAGE_FILE".into(), format!("../{REPORTS}/.coverage").into()));
        Some(given::cover(command, COVERAGE))
    }

    fn events(&self) -> Box<dyn EventReader> {
        Box::<LineEvents>::default()
    }

    fn report(&self, files: &[Vec<u8>], live: &LiveLog) -> Result<FinalReport, ReportError> {
        let bytes = files.first().ok_or(ReportError::Missing)?;
        let ids = Ids::new(live);
        // Of a test that was running when pytest ended there is a row without a name and a result: it has told nothing.
        let rows = junit::parse(bytes)?.into_iter();
        let rows = rows.filter(|case| {
            case.status != Status::Passed || !(case.name.is_empty() && case.classname.is_empty())
        });
        let entries = rows.map(|mut case| {
            let id = ids.of(&case);
            if internal::is_internal(&case) {
                let (message, at) = internal::raised(case.details.as_deref().unwrap_or_default());
                case.message = message.or(case.message);
                (case.file, case.line) = at.map_or((case.file, case.line), |(file, line)| {
                    (Some(file), Some(line.saturating_sub(1)))
                });
            }
            // pytest cuts messages in its report; the driver names subtests, and tells of the tear-down too.
            let seen = live.position(&id).map(|at| &live.seen()[at]);
            let told = seen.is_some_and(|seen| seen.message.is_some() && seen.status == Some(case.status));
            // For a file that is skipped as a whole, its report has the same words each time.
            let good = |message: &String| case.status.is_good() && message != "collection skipped";
            let message = case.message.filter(|message| good(message) || !told);
            Entry {
                id,
                status: case.status,
                duration_ms: case.duration_ms,
                file: case.file,
                // pytest counts from 0.
                line: case.line.and_then(|l| l.checked_add(1)),
                message,
                details: case.details,
                stdout: case.stdout.as_deref().and_then(without_head),
                stderr: case.stderr.as_deref().and_then(without_head),
            }
        });
        let mut entries: Vec<Entry> = entries.collect();
        // pytest-cov counts an unmet threshold as a failed test, without a row in the report.
        let threshold = live.seen().iter().find(|seen| &*seen.id == THRESHOLD);
        entries.extend(threshold.and_then(|seen| Some(Entry::bare(THRESHOLD, seen.status?, 0.0))));
        // Commands beside pytest are missing from its report.
        let beside = live.seen().iter().filter(|seen| seen.id.starts_with(given::COMMAND));
        entries.extend(beside.filter_map(|seen| Some(Entry::bare(&seen.id, seen.status?, 0.0))));
        Ok(FinalReport { entries })
    }

    fn exit(&self, code: i32) -> ExitMeaning {
        match code {
            0 => ExitMeaning::AllPassed,
            1 => ExitMeaning::SomeFailed,
            2 => ExitMeaning::CollectionFailed,
            3 => ExitMeaning::Broken("pytest had an internal error, or was ended with exit code 3 by a test"),
            4 => ExitMeaning::Broken(
                "pytest could not begin: there is no such test, or settings or a conftest.py are broken, or a test ended it with exit code 4",
            ),
            5 => ExitMeaning::NoTests,
            NOT_INSTALLED => ExitMeaning::NotInstalled,
            _ => ExitMeaning::Broken("pytest has no such exit code of its own: a test ended it"),
        }
    }

    fn name_of(&self, id: &str) -> String {
        if id.starts_with(given::COMMAND) {
            return id.to_owned();
        }
        mangle(id).pop().unwrap_or_default()
    }

    fn heads<'a>(&self, id: &'a str) -> Vec<&'a str> {
        id.split("::").take(1).collect()
    }

    fn explain(&self, stderr: &str) -> Option<String> {
        plugins::missing(stderr)
    }

    fn of_tests<'a>(&self, stderr: &'a str) -> &'a str {
        python::up_to_crash(stderr)
    }

    fn install(&self, what: &str, interpreter: &str) -> Option<String> {
        let what = ["pytest", "pytest-xdist", "pytest-cov"].into_iter().find(|part| *part == what)?;
        Some(python::install(what, interpreter))
    }
}

/// Number of folders in a path.
fn depth(folder: &str) -> usize {
    folder.split('/').filter(|part| !part.is_empty()).count()
}

/// Splits a node id into the parts of `classname` and `name`.
fn mangle(id: &str) -> Vec<String> {
    let (path, parameters) = id.split_at(id.find('[').unwrap_or(id.len()));
    let mut names: Vec<String> = path.split("::").map(str::to_owned).collect();
    let module = names[0].replace('/', ".");
    names[0] = module.strip_suffix(".py").unwrap_or(&module).to_owned();
    if let Some(last) = names.last_mut() {
        last.push_str(parameters);
    }
    names
}

/// Replaces characters that are invalid in XML as pytest does.
fn escape(text: &str) -> String {
    let mut out = String::with_capacity(text.len());
    for c in text.chars() {
        let n = c as u32;
        let legal = matches!(n, 0x9 | 0xa | 0xd | 0x20..=0x7e | 0x80..=0xd7ff | 0xe000..=0xfffd | 0x1_0000..=0x10_ffff);
        if legal {
            out.push(c);
        } else if n <= 0xff {
            out.push_str(&format!("#x{n:02X}"));
        } else {
            out.push_str(&format!("#x{n:04X}"));
        }
    }
    out
}

/// Finds the node id of a `testcase`: the tests that ran are known, and each id has one written form.
struct Ids<'a> {
    live: &'a LiveLog,
    /// First test for each result of [`key`].
    first: HashMap<String, usize>,
    /// Further tests with the same written form as a first one.
    alike: HashMap<usize, Vec<usize>>,
}

/// `classname` and `name` combined.
fn key(classname: &str, name: &str) -> String {
    // Neither can contain this character, which is invalid in XML.
    format!("{classname}\0{name}")
}

impl<'a> Ids<'a> {
    fn new(live: &'a LiveLog) -> Self {
        let mut ids = Self { live, first: HashMap::new(), alike: HashMap::new() };
        for (at, seen) in live.seen().iter().enumerate() {
            let mut names = mangle(&seen.id);
            let name = escape(&names.pop().unwrap_or_default());
            let first = *ids.first.entry(key(&names.join("."), &name)).or_insert(at);
            if first != at {
                ids.alike.entry(first).or_default().push(at);
            }
        }
        ids
    }

    fn of(&self, case: &junit::TestCase) -> String {
        let Some(first) = self.first.get(&key(&case.classname, &case.name)) else { return guess(case) };
        // `a/b.py::c` and `a.py::b::c` have the same form, but different files.
        let all = std::iter::once(first).chain(self.alike.get(first).into_iter().flatten());
        let mut all = all.map(|at| &self.live.seen()[*at]);
        let same_file = all.clone().find(|seen| seen.file == case.file);
        same_file.or_else(|| all.next()).map(|seen| seen.id.to_string()).unwrap_or_default()
    }
}

/// Probable id of a test that was not observed.
fn guess(case: &junit::TestCase) -> String {
    let file = case.file.as_deref().unwrap_or_default();
    let module = file.strip_suffix(".py").unwrap_or(file).replace('/', ".");
    let classes = match case.classname.strip_prefix(&module) {
        Some(rest) if !module.is_empty() => rest.trim_start_matches('.').replace('.', "::"),
        _ => case.classname.clone(),
    };
    let parts: Vec<_> = [file, &classes, &case.name].into_iter().filter(|p| !p.is_empty()).collect();
    // Entries about the whole session have no name.
    if parts.is_empty() { SESSION.to_owned() } else { parts.join("::") }
}

/// Captured output without pytest's heading.
fn without_head(text: &str) -> Option<String> {
    let rest = match text.split_once('\n') {
        Some((head, rest)) if is_head(head) => rest,
        None if is_head(text) => "",
        _ => text,
    };
    let rest = rest.trim_end_matches('\n');
    (!rest.is_empty()).then(|| rest.to_owned())
}

fn is_head(line: &str) -> bool {
    line.starts_with("---") && line.ends_with("---") && line.contains(" Captured ")
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::event::Event;
    use proptest::prelude::*;

    #[test]
    fn ids_are_found_again() {
        let ids = [
            "test_a.py::test_x",
            "sub/test_a.py::TestA::TestB::test_x[a::b]",
            "test_a.py::test_p[x/y.py]",
            "test_a.py::test_p[[q]]",
            "test_a.py::test_p[\u{1}\u{fffe}]",
            "mod.py::mod.f",
            "README.txt::README.txt",
            "test_syn.py",
        ];
        let mut live = LiveLog::default();
        for id in ids {
            live.apply(&Event::Started(id.to_owned(), None, None));
        }
        for id in ids {
            let mut names = mangle(id);
            let name = escape(&names.pop().unwrap());
            let case = format!(
                "<testsuite><testcase classname=\"{}\" name=\"{name}\"/></testsuite>",
                names.join(".")
            );
            let report = Pytest.report(&[case.into_bytes()], &live).unwrap();
            assert_eq!(report.entries[0].id, id);
        }
    }

    #[test]
    fn same_named_pytest_ids_differ_by_file() {
        let mut live = LiveLog::default();
        for (id, file) in [("a/b.py::c", "a/b.py"), ("a.py::b::c", "a.py")] {
            live.apply(&Event::Started(id.to_owned(), Some(file.to_owned()), None));
        }
        let text = r#"<testsuite><testcase classname="a.b" name="c" file="a.py"/><testcase classname="a.b" name="c" file="a/b.py"/><testcase classname="z.T" name="c" file="z.py"/><testcase classname="" name=""/></testsuite>"#;
        let report = Pytest.report(&[text.into()], &live).unwrap();
        let ids: Vec<_> = report.entries.iter().map(|e| e.id.as_str()).collect();
        // The last row is that of a test which was running when pytest ended.
        assert_eq!(ids, ["a.py::b::c", "a/b.py::c", "z.py::T::c"]);
        let text = r#"<testsuite><testcase classname="" name=""><error message="x"/></testcase></testsuite>"#;
        let report = Pytest.report(&[text.into()], &live).unwrap();
        assert_eq!((report.entries[0].id.as_str(), report.entries[0].status), ("pytest", Status::Errored));
    }

    #[test]
    fn message_of_the_driver_goes_before_the_one_that_pytest_cuts() {
        use crate::event::Ended;
        for (told, want) in
            [(Some("all of it"), None), (None, Some("all [+1 more line; full report in element text]"))]
        {
            let mut live = LiveLog::default();
            live.apply(&Event::Started("a.py::b".to_owned(), Some("a.py".to_owned()), None));
            let message = told.map(str::to_owned);
            live.apply(&Event::Ended(Ended {
                id: "a.py::b".to_owned(),
                status: Status::Failed,
                duration_ms: 1.0,
                message,
                at: None,
                file: None,
            }));
            let text = r#"<testsuite><testcase classname="a" name="b" file="a.py"><failure message="all [+1 more line; full report in element text]">x</failure></testcase></testsuite>"#;
            let report = Pytest.report(&[text.into()], &live).unwrap();
            assert_eq!(report.entries[0].message.as_deref(), want);
        }
    }

    #[test]
    fn captured_output_has_no_head() {
        for (text, want) in [
            ("--- Captured Out ---\nhello\n\n", Some("hello")),
            ("--- Captured Out ---", None),
            ("--- Captured Out ---\n\n", None),
            ("hello", Some("hello")),
        ] {
            assert_eq!(without_head(text).as_deref(), want);
        }
    }

    proptest! {
        #[test]
        fn arbitrary_pytest_id_has_a_name(id in any::<String>()) {
            prop_assert!(!mangle(&id).is_empty());
            let _ = Pytest.name_of(&id);
        }
    }
}
