//! JUnit 5, and JUnit 4 through its vintage engine: compiled and run inside by a driver of ours, with JUnit's XML report.

use std::ffi::OsString;
use std::path::Path;

use hotcell_sandbox::policy::HOME;

use crate::case::{Entry, FinalReport, ReportError};
use crate::event::{EventReader, LineEvents};
use crate::framework::{
    Command, CommandError, Ecosystem, Evidence, ExitMeaning, Framework, LiveSource, REPORTERS, REPORTS,
    Reporter, Selection, Strength,
};
use crate::live::LiveLog;
use crate::project::{Project, first_with};
use crate::pytest::NOT_INSTALLED;
use crate::{junit, programs, runner};

const REPORT: &str = "junit.txt";
/// Files in which a project says what it is built of.
const BUILDS: [&str; 3] = ["pom.xml", "build.gradle", "build.gradle.kts"];

/// The framework.
#[derive(Debug)]
pub struct Junit;

impl Framework for Junit {
    fn name(&self) -> &'static str {
        "junit"
    }

    fn ecosystem(&self) -> Ecosystem {
        Ecosystem::Java
    }

    fn detect(&self, project: &dyn Project) -> Option<Evidence> {
        let configured = first_with(project, |file| BUILDS.contains(&file), &["junit", "useJUnitPlatform"]);
        let (strength, reason) = match configured {
            Some(file) => (Strength::Configured, format!("{file} names JUnit")),
            None => {
                let file = first_with(project, |file| file.ends_with(".java"), &["org.junit."])?;
                (Strength::Used, format!("{file} imports JUnit"))
            }
        };
        Some(Evidence { strength, reason })
    }

    fn command(&self, selection: &Selection, _: &dyn Project) -> Result<Command, CommandError> {
        let unsupported = |option, hint| Err(CommandError::Unsupported { framework: "junit", option, hint });
        if selection.jobs.is_some() {
            return unsupported("--jobs", "leave it out: tests run one after the other");
        }
        if selection.fail_fast {
            return unsupported("--fail-fast", "leave it out: JUnit runs all tests");
        }
        let words = [
            "java".to_owned(),
            // Programs that live for seconds.
            "-XX:TieredStopAtLevel=1".to_owned(),
            "-XX:+UseSerialGC".to_owned(),
            format!("{REPORTERS}/HotcellJunit.java"),
            REPORTERS.to_owned() + "/",
            format!("{HOME}/{REPORTS}/{REPORT}"),
            format!("{HOME}/.hotcell-build"),
            selection.filter.clone().unwrap_or_default().trim_start_matches("./").to_owned(),
        ];
        Ok(Command {
            argv: words.map(OsString::from).into(),
            env: Vec::new(),
            reporters: vec![
                Reporter { name: "HotcellJunit.java", text: include_str!("java/HotcellJunit.java") },
                Reporter { name: "HotcellRun.java", text: include_str!("java/HotcellRun.java") },
            ],
            reports: vec![Path::new(REPORTS).join(REPORT)],
            live: LiveSource::Descriptor,
            // Ids name classes: which file was silent cannot be told.
            files: Vec::new(),
        })
    }

    fn events(&self) -> Box<dyn EventReader> {
        Box::<LineEvents>::default()
    }

    fn report(&self, files: &[Vec<u8>], live: &LiveLog) -> Result<FinalReport, ReportError> {
        // What does not compile, and what fails before its tests, is in no report of JUnit's.
        let mut entries: Vec<Entry> = programs::never_started(live).collect();
        for ran in files.first().map_or(Ok(Vec::new()), |bytes| runner::parse(bytes))? {
            for case in junit::parse(ran.file.as_deref().unwrap_or_default())? {
                entries.push(Entry {
                    id: format!("{}::{}", case.classname, case.name),
                    status: case.status,
                    duration_ms: case.duration_ms,
                    file: None,
                    line: None,
                    // JUnit writes none for what is an assertion of the language.
                    message: case.message.filter(|m| !m.is_empty()),
                    details: case.details.map(|text| own_frames(&text)),
                    // The report's own words about the test come first.
                    stdout: case.stdout.filter(|text| !text.starts_with("unique-id: ")),
                    stderr: case.stderr,
                });
            }
        }
        Ok(FinalReport { entries })
    }

    fn exit(&self, code: i32) -> ExitMeaning {
        match code {
            0 => ExitMeaning::AllPassed,
            1 => ExitMeaning::SomeFailed,
            2 => ExitMeaning::NoTests,
            NOT_INSTALLED => ExitMeaning::NotInstalled,
            _ => ExitMeaning::Broken("JUnit could not begin"),
        }
    }

    fn name_of(&self, id: &str) -> String {
        id.rsplit("::").next().unwrap_or(id).to_owned()
    }

    fn heads<'a>(&self, _: &'a str) -> Vec<&'a str> {
        Vec::new()
    }

    fn explain(&self, stderr: &str) -> Option<String> {
        let lacks = stderr.contains("jdk.compiler not found") || stderr.contains("Module jdk.compiler");
        lacks.then(|| {
            "this Java has no compiler: install a JDK (on Debian: apt-get install default-jdk-headless)"
                .to_owned()
        })
    }

    fn install(&self, what: &str, _: &str) -> Option<String> {
        let how = "on Debian, apt-get install junit5; or put its jars into the project, in `lib`";
        (what == "junit").then(|| format!("JUnit is not installed: {how}"))
    }
}

/// A stack without the frames of what runs the tests.
fn own_frames(stack: &str) -> String {
    let foreign = ["org.junit.", "java.base/", "HotcellRun", "HotcellJunit", "jdk.compiler/"];
    let own = |line: &&str| {
        !line
            .trim_start()
            .strip_prefix("at ")
            .is_some_and(|at| foreign.iter().any(|head| at.starts_with(head)))
    };
    stack.lines().filter(own).collect::<Vec<_>>().join("\n")
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::case::Status;
    use crate::event::Event;

    #[test]
    fn a_report_of_several_engines() {
        let xml = "<testsuite name='J'><testcase name='adds()' classname='a.CartTest' time='0.5'><system-out>unique-id: x</system-out></testcase>\
                   <testcase name='bad()' classname='a.CartTest'><failure message='why'>E: why\n\tat a.CartTest.bad(CartTest.java:9)\n\tat org.junit.X.y(X.java:1)</failure><system-out>unique-id: x</system-out><system-out>hi</system-out></testcase></testsuite>";
        let text = format!(
            "@hotcell\tprogram\ta\n@hotcell\tfile\ta\t{}\n{xml}\n@hotcell\tend\ta\t0\n@hotcell\tdone\t-\t0\n",
            xml.len()
        );
        let mut live = LiveLog::default();
        live.apply(&Event::Group(programs::ended("X.java".to_owned(), Status::Errored), 0));
        let entries = Junit.report(&[text.into_bytes()], &live).unwrap().entries;
        let got: Vec<_> = entries
            .iter()
            .map(|e| (e.id.as_str(), e.status, e.stdout.as_deref(), e.details.as_deref()))
            .collect();
        let details = "E: why\n\tat a.CartTest.bad(CartTest.java:9)";
        let want = [
            ("X.java", Status::Errored, None, None),
            ("a.CartTest::adds()", Status::Passed, None, None),
            ("a.CartTest::bad()", Status::Failed, Some("hi"), Some(details)),
        ];
        assert_eq!(got, want);
        for bad in [
            "@hotcell\tprogram\ta\n@hotcell\tend\ta\t0\n",
            "@hotcell\tprogram\ta\n@hotcell\tfile\ta\t3\n<a>\n",
            "<testsuite/>",
            "",
        ] {
            assert!(Junit.report(&[bad.as_bytes().to_vec()], &live).is_err(), "{bad}");
        }
    }
}
