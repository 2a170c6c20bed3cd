//! Google Test: built by CMake or the compiler alone, or prebuilt; each program writes its own report, in
//! XML.

use std::cell::OnceCell;
use std::collections::HashSet;
use std::ffi::OsString;
use std::path::Path;

use hotcell_sandbox::policy::HOME;

use crate::case::{Entry, FinalReport, MAX_MESSAGE_BYTES, ReportError, Status};
use crate::coverage::{Form, Measured};
use crate::event::{Ended, Event, EventReader};
use crate::framework::{
    Command, CommandError, Ecosystem, Evidence, ExitMeaning, Framework, LiveSource, NOT_INSTALLED, REPORTERS,
    REPORTS, Reporter, Selection, Strength,
};
use crate::frameworks::programs::{Prints, ProgramEvents, Running, Why};
use crate::frameworks::runner::Ran;
use crate::frameworks::{native, programs, runner};
use crate::junit;
use crate::live::LiveLog;
use crate::project::{Project, first_with};
use crate::text::{clip, uncoloured};

mod sources;

const RUNNER: &str = "hotcell_gtest.sh";
const REPORT: &str = "gtest.txt";
/// Beginning of the id of a test of ctest that is not a program of Google Test.
const CTEST: &str = "ctest::";
/// Line of Google Test about a filter.
const FILTER: &str = "Note: Google Test filter = ";
/// Line of Google Test about a part of the tests (`GTEST_TOTAL_SHARDS`): `1 of 2.`
const SHARD: &str = "Note: This is test shard ";
/// Line of Google Test before each run of tests that are repeated: `1) . . .`
const AGAIN: &str = "Repeating all tests (iteration ";

/// Support for Google Test.
#[derive(Debug)]
pub struct GoogleTest;

impl Framework for GoogleTest {
    fn name(&self) -> &'static str {
        "gtest"
    }

    fn ecosystem(&self) -> Ecosystem {
        Ecosystem::Cpp
    }

    fn detect(&self, project: &dyn Project) -> Option<Evidence> {
        let evidence = |strength, reason: String| Some(Evidence { strength, reason });
        if let Some(file) = first_with(project, native::is_cmake, &["gtest", "GTest", "googletest", "gmock"])
            && project.has("CMakeLists.txt")
        {
            return evidence(Strength::Configured, format!("{file} uses Google Test"));
        }
        if let Some(file) = first_with(project, native::is_cpp, &["gtest/gtest.h", "gmock/gmock.h"]) {
            return evidence(Strength::Used, format!("{file} includes Google Test"));
        }
        let file = native::program(project)?;
        evidence(Strength::Used, format!("{file} is a program of Google Test"))
    }

    fn command(&self, selection: &Selection, project: &dyn Project) -> Result<Command, CommandError> {
        // Splits `PROGRAM::SUITE.TEST` of a report; any other filter is a pattern of Google Test.
        let filter = selection.filter.as_deref().unwrap_or("*");
        let (program, filter) = filter.rsplit_once("::").unwrap_or(("", filter));
        let words = [
            "sh".to_owned(),
            format!("{REPORTERS}/{RUNNER}"),
            format!("{HOME}/{REPORTS}/{REPORT}"),
            format!("{HOME}/.hotcell-build"),
            selection.jobs.unwrap_or(2).to_string(),
            if selection.fail_fast { "stop" } else { "" }.to_owned(),
            filter.to_owned(),
            program.to_owned(),
        ];
        Ok(Command {
            argv: words.map(OsString::from).into(),
            env: Vec::new(),
            reporters: vec![Reporter { name: RUNNER, text: include_str!("sh/gtest.sh") }],
            reports: vec![Path::new(REPORTS).join(REPORT)],
            live: LiveSource::Stdout,
            files: if selection.filter.is_none() { sources::first_tests(project) } else { Vec::new() },
        })
    }

    fn cover(&self, command: &mut Command, _: &dyn Project) -> Option<Measured> {
        let report = Path::new(REPORTS).join("gcov.json");
        command.argv.push(format!("{HOME}/{}", report.display()).into());
        Some(Measured { report, form: Form::Gcov })
    }

    fn events(&self) -> Box<dyn EventReader> {
        Box::<ProgramEvents<Lines>>::default()
    }

    fn report(&self, files: &[Vec<u8>], live: &LiveLog) -> Result<FinalReport, ReportError> {
        let mut entries: Vec<Entry> = programs::never_started(live).collect();
        let programs = files.first().map_or(Ok(Vec::new()), |bytes| runner::parse(bytes))?;
        // A program that ends abnormally has no report; one that reports success must have one, unless it was seen to end early.
        let early =
            |ran: &Ran| live.position(&ran.program).is_some_and(|at| live.seen()[at].status.is_some());
        let died = |ran: &&Ran| {
            ran.file.is_none() && ran.end.as_ref().is_some_and(|(code, _)| *code != 0 || early(ran))
        };
        let died: HashSet<&str> = programs.iter().filter(died).map(|ran| ran.program.as_str()).collect();
        entries.extend(programs::as_seen(live, &died));
        for ran in &programs {
            of_program(ran, live, &mut entries)?;
        }
        Ok(FinalReport { entries })
    }

    fn exit(&self, code: i32) -> ExitMeaning {
        match code {
            0 => ExitMeaning::AllPassed,
            1 => ExitMeaning::SomeFailed,
            NOT_INSTALLED => ExitMeaning::NotInstalled,
            _ => ExitMeaning::Broken("the script that starts the tests was ended"),
        }
    }

    /// The test without its program, which an entry of `sources::first_tests` ends with.
    fn heads<'a>(&self, id: &'a str) -> Vec<&'a str> {
        id.rsplit_once("::").map(|(_, test)| test).into_iter().collect()
    }

    fn install(&self, what: &str, _: &str) -> Option<String> {
        let package = match what {
            "gtest" => "libgtest-dev (and libgmock-dev)",
            "cmake" => "cmake",
            "make" => "make (or ninja-build)",
            "g++" => "g++",
            "gcov" => "gcc",
            _ => return None,
        };
        Some(format!("{what} is not installed: on Debian, apt-get install {package}"))
    }
}

/// Entries for one program.
fn of_program(ran: &Ran, live: &LiveLog, entries: &mut Vec<Entry>) -> Result<(), ReportError> {
    if ran.program.starts_with(CTEST) {
        let status = ran.end.as_ref().map(|(code, how)| programs::step(&format!("{code} {how}")));
        entries.extend(status.map(|status| Entry::bare(&ran.program, status, 0.0)));
        return Ok(());
    }
    let (Some(_), Some(file)) = (&ran.end, &ran.file) else { return Ok(()) };
    for case in junit::parse(file)? {
        // A failure outside all tests is reported by the program's output.
        if case.name.is_empty() {
            continue;
        }
        let id = format!("{}::{}.{}", ran.program, case.classname, case.name);
        let seen = live.position(&id).map(|at| &live.seen()[at]);
        let stdout = seen.and_then(|seen| seen.details.clone());
        // Of tests that a program repeats, its report has the last run only.
        let before = seen.filter(|seen| seen.ends.len() > 1).and_then(|seen| seen.status);
        let status = before.map_or(case.status, |before| before.max(case.status));
        let message =
            case.message.map(|text| native::without_place(&text).to_owned()).filter(|m| !m.is_empty());
        entries.push(Entry {
            id,
            status,
            duration_ms: case.duration_ms,
            file: case.file.map(|file| native::relative(&file).to_owned()),
            line: case.line,
            message,
            details: case.details,
            stdout,
            stderr: None,
        });
    }
    Ok(())
}

/// Output of a Google Test program.
#[derive(Debug, Default)]
struct Lines {
    /// Suites of its tests, computed on first use.
    suites: OnceCell<HashSet<String>>,
    /// Part of its tests that it runs, by its own words.
    part: Option<String>,
    /// Number of the current run of all tests, where the program repeats them; otherwise 0.
    run: u32,
    /// True when ends of tests have their time, by the first of them: a program may leave it out (`print_time`).
    timed: Option<bool>,
}

impl Lines {
    fn has_suite(&self, running: &Running, name: &str) -> bool {
        let of = |test: &String| test.split('.').next().map(str::to_owned);
        self.suites.get_or_init(|| running.tests.keys().filter_map(of).collect()).contains(name)
    }
}

impl Prints for Lines {
    fn is_off(test: &str) -> bool {
        let off = |part: &str| part.starts_with("DISABLED_") || part.contains("/DISABLED_");
        test.split_once('.').is_some_and(|(suite, name)| off(suite) || off(name))
    }

    fn line(&mut self, running: &mut Running, line: &str, out: &mut Vec<Event>) {
        let line = &*uncoloured(line);
        // Google Test says so before the first test, unless the filter is `*`, as that of a run of all tests is.
        let head = running.whole && running.begun.is_empty() && running.note.is_none();
        if let Some(filter) = line.strip_prefix(FILTER).filter(|_| head) {
            self.part = Some(format!("the tests of its filter {}", clip(filter, 200)));
            running.note = Some(format!(
                "{} ran only the tests of a filter that it sets itself: {}",
                clip(&running.program, 200),
                clip(filter, 200)
            ));
            return;
        }
        if let Some(shard) = line.strip_prefix(SHARD).filter(|_| running.begun.is_empty()) {
            self.part = Some(format!("test shard {}", clip(shard.trim_end_matches('.'), 40)));
            return;
        }
        // Between two runs of all tests, each test may begin once more.
        if let Some(run) = line.strip_prefix(AGAIN).and_then(|rest| rest.split(')').next()?.parse().ok())
            && running.open.is_none()
            && self.run.checked_add(1) == Some(run)
        {
            self.run = run;
            running.begun.clear();
            return;
        }
        if let Some(test) = line.strip_prefix("[ RUN      ] ").filter(|t| running.tests.contains_key(*t)) {
            running.begin(test, out);
            return;
        }
        // A test's last output may lack a newline.
        for (sign, status) in [
            ("[       OK ] ", Status::Passed),
            ("[  FAILED  ] ", Status::Failed),
            ("[  SKIPPED ] ", Status::Skipped),
        ] {
            let Some((before, after)) = line.rsplit_once(sign) else { continue };
            let (name, time) = after.rsplit_once(" (").unwrap_or((after, ""));
            let name = name.split(", where ").next().unwrap_or(name);
            let time = time.strip_suffix(" ms)").and_then(|ms| ms.parse::<u64>().ok());
            let is_open = running.open.as_ref().is_some_and(|(open, _)| open == name);
            let untimed = time.is_none() && self.timed != Some(true);
            if let Some(ms) = time.or(untimed.then_some(0)).filter(|_| is_open) {
                self.timed.get_or_insert(time.is_some());
                running.keep(before);
                let said = running.open.as_ref().map_or("", |(_, said)| said.as_str());
                let why = if status == Status::Passed { (None, None) } else { why(said) };
                #[expect(clippy::cast_precision_loss, reason = "a time in milliseconds")]
                running.finish(status, ms as f64, why, out);
                return;
            }
            // A known test cannot end twice, nor without a start.
            if time.is_some() && running.tests.contains_key(name) {
                out.push(Event::Fault);
                return;
            }
            if let Some(suite) = name.strip_suffix(": SetUpTestSuite or TearDownTestSuite")
                && running.open.is_none()
                && self.has_suite(running, suite)
            {
                let said = std::mem::take(&mut running.said);
                let id = running.id(suite);
                running.group(id.clone(), why(&said), out);
                out.push(Event::Said(id, said));
                return;
            }
        }
        running.keep(line);
    }

    fn end(&mut self, running: &mut Running, code: Option<i32>, out: &mut Vec<Event>) {
        let Some(code) = code else { return };
        // An Environment that is skipped skips all tests, which Google Test reports as passed.
        if code == 0
            && !running.cut
            && running.begun.is_empty()
            && running.said.lines().any(|line| line.ends_with(": Skipped"))
        {
            let (message, at) = why(&running.said);
            // Google Test prints it twice.
            let mut words: Vec<&str> =
                message.as_deref().map(str::trim).unwrap_or_default().lines().collect();
            words.dedup();
            let words = words.join("\n");
            let message = Some(clip(
                &format!("it did not run: an Environment of its program was skipped: {words}"),
                MAX_MESSAGE_BYTES,
            ));
            for test in running.tests.keys().filter(|test| !Self::is_off(test)) {
                let skipped = programs::ended(running.id(test), Status::Skipped);
                out.push(Event::Group(Ended { message: message.clone(), at: at.clone(), ..skipped }, 1));
            }
            return;
        }
        if self.run > 1 {
            let note = format!(
                "{} ran its tests {} times, as it sets itself",
                clip(&running.program, 200),
                self.run
            );
            running.note =
                Some(running.note.take().map_or(note.clone(), |before| format!("{before}; {note}")));
        }
        let begun = |test: &&String| Self::is_off(test) || running.begun.contains(*test);
        let mut left: Vec<String> = running.tests.keys().filter(|test| !begun(test)).cloned().collect();
        // A program that came to its own end and says that it ran a part has left the others out.
        if let Some(part) = self.part.as_deref().filter(|_| !running.cut) {
            let message = Some(format!("it did not run: its program ran only {part}"));
            for test in std::mem::take(&mut left) {
                let skipped = programs::ended(running.id(&test), Status::Skipped);
                out.push(Event::Group(Ended { message: message.clone(), ..skipped }, 1));
            }
        }
        let undone = !left.is_empty();
        let silent = code == 0 && undone && running.begun.is_empty() && !running.cut && self.run == 0;
        if silent && running.note.is_none() {
            running.note = Some(format!(
                "{} printed no line of Google Test about its tests: its own printer, or the flag brief, replaces these, and without \
                 them nothing tells what runs",
                clip(&running.program, 200)
            ));
        }
        let open = running.open.take().is_some();
        // A failure of an Environment is outside of all tests.
        let outside = first(&running.said, &[": Failure"]);
        let early = open || undone && (running.cut || code != 0);
        if code == 0 && early
            || code != 0 && (!running.bad || open || undone && code != 1 || outside.0.is_some())
        {
            let exits = ": a test, or what it calls, ends the process, as by exit(0)";
            let more = match (early, code) {
                (true, 0) => format!(" before all of its tests were done{exits}"),
                (true, _) => " before all of its tests were done".to_owned(),
                (false, _) => String::new(),
            };
            let (id, (words, at)) = (running.program.clone(), outside);
            let words = words.map(|words| format!(": {}", words.trim())).unwrap_or_default();
            running.group(id, (Some(format!("{}{more}{words}", runner::ending(code))), at), out);
        }
    }
}

/// The first failure or skip in the output.
fn why(said: &str) -> Why {
    first(said, &[": Failure", ": Skipped"])
}

/// The first message whose head ends so.
fn first(said: &str, heads: &[&str]) -> Why {
    let mut lines = said.lines().skip_while(|l| !heads.iter().any(|head| l.ends_with(head)));
    let Some(head) = lines.next() else { return (None, None) };
    let message = lines
        .take_while(|l| {
            !l.ends_with(": Failure") && !["[ ", "[-", "[="].iter().any(|sign| l.starts_with(sign))
        })
        .collect::<Vec<_>>()
        .join("\n");
    (Some(message).filter(|m| !m.trim().is_empty()), native::place(head))
}

#[cfg(test)]
mod tests;
