//! JUnit 5, and JUnit 4 through its vintage engine: compiled and run inside by hotcell's driver, or built and
//! run by the project's Maven or Gradle with dependencies fetched before, with JUnit's XML report.

use std::collections::{HashMap, HashSet};
use std::ffi::OsString;
use std::path::{Path, PathBuf};

use hotcell_sandbox::policy::HOME;

use crate::case::{Entry, FinalReport, ReportError};
use crate::event::{EventReader, LineEvents};
use crate::framework::{
    Command, CommandError, Ecosystem, Evidence, ExitMeaning, Followed, Framework, LiveSource, NOT_INSTALLED,
    REPORTERS, REPORTS, Reporter, Selection, Strength,
};
use crate::frameworks::{programs, runner};
use crate::junit;
use crate::live::LiveLog;
use crate::project::{Project, first_with};

mod sources;

const REPORT: &str = "junit.txt";
/// Build files of a project.
const BUILDS: [&str; 5] =
    ["pom.xml", "build.gradle", "build.gradle.kts", "settings.gradle", "settings.gradle.kts"];

/// Support for JUnit.
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

    fn command(&self, selection: &Selection, project: &dyn Project) -> Result<Command, CommandError> {
        let unsupported = |option, hint| Err(CommandError::Unsupported { framework: "junit", option, hint });
        if selection.jobs.is_some() {
            return unsupported(
                "‹jobs›",
                "leave it out: how many run at once is for the project's build to say",
            );
        }
        if selection.fail_fast {
            return unsupported("‹fail_fast›", "leave it out: JUnit runs all tests");
        }
        let words = [
            "java".to_owned(),
            // Options for programs that live for seconds.
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
                Reporter { name: "HotcellListener.java", text: include_str!("java/HotcellListener.java") },
                Reporter { name: "HotcellBuild.java", text: include_str!("java/HotcellBuild.java") },
                Reporter { name: "hotcell.gradle", text: include_str!("java/hotcell.gradle") },
            ],
            reports: vec![Path::new(REPORTS).join(REPORT)],
            live: LiveSource::Descriptor,
            files: match selection.filter {
                None => sources::files(project, BUILDS.iter().any(|file| project.has(file))),
                Some(_) => Vec::new(),
            },
        })
    }

    fn followed(&self, selection: &Selection, project: &dyn Project) -> Followed {
        let note = selection.filter.is_none().then(|| sources::never_run(project)).flatten();
        Followed { notes: note.into_iter().collect(), ..Followed::default() }
    }

    fn events(&self) -> Box<dyn EventReader> {
        Box::<LineEvents>::default()
    }

    fn report(&self, files: &[Vec<u8>], live: &LiveLog) -> Result<FinalReport, ReportError> {
        // Compile errors and failures before the tests are missing from JUnit's reports.
        let mut entries: Vec<Entry> = programs::never_started(live).collect();
        let mut names = Names::of(live);
        let mut classes = Vec::new();
        for ran in files.first().map_or(Ok(Vec::new()), |bytes| runner::parse(bytes))? {
            for case in junit::parse(ran.file.as_deref().unwrap_or_default())? {
                let id = format!("{}::{}", case.classname, case.name);
                // surefire's result of a class applies to all its tests.
                if (case.name.is_empty() || case.name == case.classname) && live.position(&id).is_none() {
                    classes.push((format!("{}::", case.classname), case.status));
                    continue;
                }
                entries.push(Entry {
                    id: names.seen(id),
                    status: case.status,
                    duration_ms: case.duration_ms,
                    file: None,
                    line: None,
                    // JUnit writes no message for the language's own assertions.
                    message: case.message.filter(|m| !m.is_empty()),
                    details: case.details.map(|text| own_frames(&text)),
                    // The report's own text about the test comes first.
                    stdout: case.stdout.filter(|text| !text.starts_with("unique-id: ")),
                    stderr: case.stderr,
                });
            }
        }
        for (head, status) in classes {
            let below = live.seen().iter().filter(|s| s.id.starts_with(&head) && s.status == Some(status));
            let below: Vec<_> = below.collect();
            if below.is_empty() {
                entries.push(Entry::bare(head.trim_end_matches("::"), status, 0.0));
            }
            let ids: HashSet<&str> = below.iter().map(|s| &*s.id).collect();
            entries.retain(|e| !ids.contains(e.id.as_str()));
            entries.extend(below.into_iter().map(|s| Entry::bare(&s.id, status, s.duration_ms)));
        }
        Ok(FinalReport { entries })
    }

    fn exit(&self, code: i32) -> ExitMeaning {
        match code {
            0 => ExitMeaning::AllPassed,
            1 => ExitMeaning::SomeFailed,
            2 => ExitMeaning::NoTests,
            NOT_INSTALLED => ExitMeaning::NotInstalled,
            3 => ExitMeaning::Broken("JUnit could not begin or broke off, or a test ended it"),
            _ => ExitMeaning::Broken("JUnit has no such exit code of its own: a test ended it"),
        }
    }

    /// The outermost class, whose file has its name.
    fn heads<'a>(&self, id: &'a str) -> Vec<&'a str> {
        id.split(['$', ':']).take(1).collect()
    }

    fn explain(&self, stderr: &str) -> Option<String> {
        let lacks = stderr.contains("jdk.compiler not found") || stderr.contains("Module jdk.compiler");
        lacks.then(|| {
            "this Java has no compiler: install a JDK (on Debian: apt-get install default-jdk-headless)"
                .to_owned()
        })
    }

    fn stores(
        &self,
        project: &dyn Project,
        variable: &dyn Fn(&str) -> Option<OsString>,
    ) -> Vec<(PathBuf, PathBuf)> {
        let Some(home) = variable("HOME").map(PathBuf::from).filter(|home| home.is_absolute()) else {
            return Vec::new();
        };
        let mut stores = Vec::new();
        // Not their parent folders, which contain credentials.
        let mut show = |host: &Path, inside: &str| {
            if host.is_dir() {
                stores.push((host.to_owned(), PathBuf::from(inside)));
            }
        };
        if project.has("pom.xml") {
            show(&home.join(".m2/repository"), ".m2/repository");
            show(&home.join(".m2/wrapper/dists"), ".m2/wrapper/dists");
            // A Maven outside /usr, whose folders the sandbox does not show by default.
            let path = variable("PATH").unwrap_or_default();
            let program = std::env::split_paths(&path).map(|folder| folder.join("mvn")).find(|p| p.is_file());
            let program = program.and_then(|p| p.canonicalize().ok()).filter(|p| !p.starts_with("/usr"));
            if let Some(maven) = program.as_deref().and_then(Path::parent).and_then(Path::parent)
                && maven.join("boot").is_dir()
            {
                // Without its settings.
                for part in ["bin", "boot", "lib", "conf/logging"] {
                    show(&maven.join(part), &format!(".maven/{part}"));
                }
            }
        }
        if BUILDS[1..].iter().any(|file| project.has(file)) {
            show(&home.join(".gradle/caches/modules-2"), ".gradle-caches/modules-2");
            show(&home.join(".gradle/wrapper/dists"), ".gradle/wrapper/dists");
        }
        stores
    }

    fn install(&self, what: &str, _: &str) -> Option<String> {
        if let Some(artifact) = what.strip_prefix("artifact ") {
            return Some(format!(
                "{artifact} is not among what Maven or Gradle fetched before, and nothing is fetched: build the project once outside, \
                 or run `mvn dependency:go-offline` there"
            ));
        }
        if what == "builder" {
            return Some(
                "what builds this project is not here (Maven with its surefire, or Gradle), and its tests are not all Java"
                    .to_owned(),
            );
        }
        let how = "on Debian, apt-get install junit5; or put its jars into the project, in `lib`";
        (what == "junit").then(|| format!("JUnit is not installed: {how}"))
    }
}

/// Maps surefire's names of tests to the observed ids: without `()`, and with other brackets before version
/// 3.
struct Names<'a> {
    live: &'a LiveLog,
    plain: HashMap<String, Option<&'a str>>,
    /// Observed ids of each method, in starting order: since version 3 surefire names every repetition of a
    /// test after the method, and writes types differently from JUnit.
    of_method: HashMap<&'a str, Vec<&'a str>>,
    given: HashMap<String, usize>,
}

impl<'a> Names<'a> {
    fn of(live: &'a LiveLog) -> Self {
        let mut names: HashMap<String, Option<&str>> = HashMap::new();
        let mut of_method: HashMap<&str, Vec<&str>> = HashMap::new();
        for seen in live.seen() {
            // An ambiguous name is ignored.
            names.entry(plain(&seen.id)).and_modify(|known| *known = None).or_insert(Some(&seen.id));
            of_method.entry(method(&seen.id)).or_default().push(&seen.id);
        }
        Self { live, plain: names, of_method, given: HashMap::new() }
    }

    /// Observed id of a test in the report.
    fn seen(&mut self, id: String) -> String {
        if self.live.position(&id).is_some() {
            return id;
        }
        if let Some(known) = self.plain.get(&plain(&id)).copied().flatten() {
            return known.to_owned();
        }
        let Some(all) = self.of_method.get(method(&id)) else { return id };
        let given = self.given.entry(method(&id).to_owned()).or_default();
        *given += 1;
        all.get(*given - 1).map_or(id, |known| (*known).to_owned())
    }
}

/// A test's id without types and numbers.
fn method(id: &str) -> &str {
    let name = id.find("::").map_or(0, |at| at + 2);
    id[name..].find(['(', '[', '{']).map_or(id, |at| &id[..name + at])
}

fn plain(id: &str) -> String {
    id.replace('{', "(").replace('}', ")").replace("()", "").replace(", ", ",")
}

/// A stack trace without the frames of the test runner.
fn own_frames(stack: &str) -> String {
    let foreign = [
        "org.junit.",
        "java.base/",
        "jdk.proxy",
        "HotcellRun",
        "HotcellJunit",
        "jdk.compiler/",
        "org.gradle.",
        "org.apache.maven.",
    ];
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
    fn surefires_names_are_those_that_were_seen() {
        let mut live = LiveLog::default();
        let group = |id: &str, status| Event::Group(programs::ended(id.to_owned(), status), 0);
        for (id, status) in [
            ("A::adds()", Status::Passed),
            ("A::two(int, String)[1]", Status::Passed),
            ("A$In::deep()", Status::Passed),
            ("B::never()", Status::Errored),
            ("C::off()", Status::Skipped),
        ] {
            live.apply(&group(id, status));
        }
        let case = |class: &str, name: &str, more: &str| {
            format!("<testcase classname='{class}' name='{name}'>{more}</testcase>")
        };
        // Before version 3, and since; of classes; two tests that were not observed.
        for (adds, two) in [
            ("adds", "two{int, String}[1]"),
            ("adds", "two(int,String)[1]"),
            ("adds()", "two(int, String)[1]"),
        ] {
            let xml = [
                case("A", adds, ""),
                case("A", two, ""),
                case("A$In", "deep", ""),
                case("B", "B", "<error/>"),
                case("C", "", "<skipped/>"),
                case("D", "D", "<error/>"),
                case("A", "gone", ""),
            ];
            let xml = format!("<testsuite>{}</testsuite>", xml.concat());
            let text = format!(
                "@hotcell\tprogram\ta\n@hotcell\tfile\ta\t{}\n{xml}\n@hotcell\tend\ta\t0\n@hotcell\tdone\t-\t0\n",
                xml.len()
            );
            let entries = Junit.report(&[text.into_bytes()], &live).unwrap().entries;
            let mut got: Vec<_> = entries.iter().map(|e| (e.id.as_str(), e.status)).collect();
            got.sort_by_key(|(id, _)| *id);
            got.dedup();
            let want = [
                ("A$In::deep()", Status::Passed),
                ("A::adds()", Status::Passed),
                ("A::gone", Status::Passed),
                ("A::two(int, String)[1]", Status::Passed),
                ("B::never()", Status::Errored),
                ("C::off()", Status::Skipped),
                ("D", Status::Errored),
            ];
            assert_eq!(got, want);
        }
        let mut two = LiveLog::default();
        two.apply(&group("A::x()", Status::Passed));
        two.apply(&group("A::x", Status::Passed));
        // An ambiguous name belongs to the first test.
        assert_eq!(Names::of(&two).seen("A::x{}".to_owned()), "A::x()");
        let mut many = LiveLog::default();
        for id in ["A::again()[1]", "A::again()[2]", "A::takes(In)"] {
            many.apply(&group(id, Status::Passed));
        }
        let mut names = Names::of(&many);
        for (name, want) in [
            ("A::again", "A::again()[1]"),
            ("A::takes(Outer$In)", "A::takes(In)"),
            ("A::again", "A::again()[2]"),
            ("A::again", "A::again"),
            ("A::other", "A::other"),
        ] {
            assert_eq!(names.seen(name.to_owned()), want);
        }
    }

    #[test]
    fn junit_platform_report_of_several_engines_is_read() {
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
