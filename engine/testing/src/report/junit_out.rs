//! Converts a report to JUnit XML for other programs. <https://llg.cubic.org/docs/junit/>

use hotcell_report::RunReport;
use hotcell_sandbox::outcome::Cause;
use quick_xml::Writer;
use quick_xml::events::{BytesDecl, BytesText, Event};

use crate::case::{Attempt, Case, Status};
use crate::report::TestReport;
use crate::report::verdict::Verdict;

/// The report as one XML document: a `testsuite` for each suite of the project. A run that is not good
/// although no test of it failed (quarantined, contradicted, refused, stopped) gets an error of its own,
/// named `hotcell`: a program that reads only the document must not see a good run. Characters that are
/// invalid in XML are written as `?`.
///
/// # Errors
/// When the XML writer fails; it writes to memory.
pub fn junit(report: &TestReport) -> std::io::Result<Vec<u8>> {
    let suites = suites(report);
    let mut writer = Writer::new_with_indent(Vec::new(), b' ', 1);
    writer.write_event(Event::Decl(BytesDecl::new("1.0", Some("UTF-8"), None)))?;
    let all = suites.iter().fold(Counts::default(), |sum, suite| sum.plus(&suite.counts()));
    let numbers = all.attributes(report.totals.duration_ms);
    let element = writer.create_element("testsuites").with_attributes(pairs(&numbers));
    element.write_inner_content(|writer| suites.iter().try_for_each(|suite| write_suite(writer, suite)))?;
    Ok(writer.into_inner())
}

/// Document for a run that hotcell refused before it had a report, for `reason`.
///
/// # Errors
/// When the XML writer fails; it writes to memory.
pub fn failure(reason: &str) -> std::io::Result<Vec<u8>> {
    let outcome = RunReport::without_a_run(Cause::Refused, reason);
    junit(&TestReport::without_a_run("hotcell", Vec::new(), outcome))
}

/// One `testsuite` of the document.
struct Section<'a> {
    name: String,
    cases: &'a [Case],
    duration_ms: u64,
    /// Why it is not good, if none of its tests shows that.
    doubt: Option<Doubt<'a>>,
}

/// Verdict and reason of a run that is not good.
struct Doubt<'a> {
    verdict: Verdict,
    reason: &'a str,
}

impl Section<'_> {
    fn counts(&self) -> Counts {
        let count = |wanted: &[Status]| self.cases.iter().filter(|c| wanted.contains(&c.status)).count();
        let doubts = usize::from(self.doubt.is_some());
        Counts {
            tests: self.cases.len() + doubts,
            failures: count(&[Status::Failed]),
            errors: count(&[Status::Errored, Status::NotFinished]) + doubts,
            skipped: count(&[Status::Skipped]),
        }
    }
}

/// Counts of a `testsuite`.
#[derive(Default)]
struct Counts {
    tests: usize,
    failures: usize,
    errors: usize,
    skipped: usize,
}

impl Counts {
    fn plus(self, other: &Self) -> Self {
        Self {
            tests: self.tests + other.tests,
            failures: self.failures + other.failures,
            errors: self.errors + other.errors,
            skipped: self.skipped + other.skipped,
        }
    }

    fn attributes(&self, duration_ms: u64) -> [(&'static str, String); 5] {
        [
            ("tests", self.tests.to_string()),
            ("failures", self.failures.to_string()),
            ("errors", self.errors.to_string()),
            ("skipped", self.skipped.to_string()),
            ("time", seconds(duration_ms)),
        ]
    }
}

fn pairs<'a>(numbers: &'a [(&'static str, String); 5]) -> impl Iterator<Item = (&'a str, &'a str)> {
    numbers.iter().map(|(name, value)| (*name, value.as_str()))
}

/// Suites of a report with their cases, which are consecutive in a report of several suites.
fn suites(report: &TestReport) -> Vec<Section<'_>> {
    let Some(suites) = &report.suites else {
        // A refusal occurs before the framework is known.
        let name = if report.framework.is_empty() { "hotcell" } else { &report.framework };
        return vec![Section {
            name: name.to_owned(),
            cases: &report.cases,
            duration_ms: report.totals.duration_ms,
            doubt: doubt(report.verdict, report.reason.as_deref(), &report.cases),
        }];
    };
    let mut rest = report.cases.as_slice();
    suites
        .iter()
        .map(|suite| {
            let count = usize::try_from(suite.totals.cases()).unwrap_or(usize::MAX).min(rest.len());
            let (cases, behind) = rest.split_at(count);
            rest = behind;
            let folder = if suite.folder.is_empty() { "." } else { &suite.folder };
            Section {
                name: match &suite.python {
                    Some(python) => format!("{} in {folder} (python {python})", suite.framework),
                    None => format!("{} in {folder}", suite.framework),
                },
                cases,
                duration_ms: suite.totals.duration_ms,
                doubt: doubt(suite.verdict, suite.reason.as_deref(), cases),
            }
        })
        .collect()
}

/// Additional error of a suite: for one that is not good although no test failed, and for one whose verdict
/// is worse than a failed test.
fn doubt<'a>(verdict: Verdict, reason: Option<&'a str>, cases: &[Case]) -> Option<Doubt<'a>> {
    let told = match verdict {
        Verdict::Passed => true,
        Verdict::Failed => cases.iter().any(|case| !case.status.is_good()),
        _ => false,
    };
    (!told).then_some(Doubt { verdict, reason: reason.unwrap_or_default() })
}

fn write_suite(writer: &mut Writer<Vec<u8>>, suite: &Section<'_>) -> std::io::Result<()> {
    let name = clean(&suite.name);
    let numbers = suite.counts().attributes(suite.duration_ms);
    writer
        .create_element("testsuite")
        .with_attributes(std::iter::once(("name", name.as_str())).chain(pairs(&numbers)))
        .write_inner_content(|writer| {
            if let Some(doubt) = &suite.doubt {
                write_doubt(writer, doubt)?;
            }
            suite.cases.iter().try_for_each(|case| write_case(writer, case))
        })?;
    Ok(())
}

fn write_doubt(writer: &mut Writer<Vec<u8>>, doubt: &Doubt<'_>) -> std::io::Result<()> {
    let verdict = doubt.verdict.words();
    writer
        .create_element("testcase")
        .with_attribute(("classname", "hotcell"))
        .with_attribute(("name", verdict))
        .with_attribute(("time", "0.000"))
        .write_inner_content(|writer| {
            let reason = if doubt.reason.is_empty() { verdict } else { doubt.reason };
            let error = writer.create_element("error").with_attribute(("message", clean(reason).as_str()));
            error.write_empty()?;
            Ok(())
        })?;
    Ok(())
}

fn write_case(writer: &mut Writer<Vec<u8>>, case: &Case) -> std::io::Result<()> {
    let (id, file) = (clean(&case.id), case.file.as_deref().map(clean));
    let line = case.line.map(|line| line.to_string());
    let time = seconds(case.duration_ms);
    let mut element = writer
        .create_element("testcase")
        .with_attribute(("classname", class_of(&id, &case.name).as_str()))
        .with_attribute(("name", clean(&case.name).as_str()))
        .with_attribute(("time", time.as_str()));
    if let Some(file) = &file {
        element = element.with_attribute(("file", file.as_str()));
    }
    if let Some(line) = &line {
        element = element.with_attribute(("line", line.as_str()));
    }
    element.write_inner_content(|writer| {
        let what = match case.status {
            Status::Passed => None,
            Status::Skipped => Some("skipped"),
            Status::Failed => Some("failure"),
            Status::Errored | Status::NotFinished => Some("error"),
        };
        if let Some(what) = what {
            let not_finished = (case.status == Status::NotFinished).then_some("not finished");
            let message = clean(case.message.as_deref().or(not_finished).unwrap_or_default());
            let element = writer.create_element(what).with_attribute(("message", message.as_str()));
            match &case.details {
                Some(details) => element.write_text_content(BytesText::new(&clean(details)))?,
                None => element.write_empty()?,
            };
        }
        for (element, attempt) in reruns(case) {
            write_rerun(writer, element, attempt)?;
        }
        for (name, text) in [("system-out", &case.stdout), ("system-err", &case.stderr)] {
            if let Some(text) = text.as_deref().filter(|text| !text.is_empty()) {
                writer.create_element(name).write_text_content(BytesText::new(&clean(text)))?;
            }
        }
        Ok(())
    })?;
    Ok(())
}

/// Elements of failed attempts, named as in Maven's surefire: for a flaky test, and beside the failure of a
/// test that never passed.
/// <https://maven.apache.org/surefire/maven-surefire-plugin/examples/rerun-failing-tests.html>
fn reruns(case: &Case) -> impl Iterator<Item = (&'static str, &Attempt)> {
    let passed = case.status == Status::Passed;
    // The first attempt of a test that never passed is its failure.
    let attempts = case.attempts.iter().skip(usize::from(!passed && !case.attempts.is_empty()));
    attempts.filter(|attempt| !attempt.status.is_good()).map(move |attempt| {
        let element = match (passed, attempt.status) {
            (true, Status::Failed) => "flakyFailure",
            (true, _) => "flakyError",
            (false, Status::Failed) => "rerunFailure",
            (false, _) => "rerunError",
        };
        (element, attempt)
    })
}

fn write_rerun(writer: &mut Writer<Vec<u8>>, element: &str, attempt: &Attempt) -> std::io::Result<()> {
    let message = clean(attempt.message.as_deref().unwrap_or(attempt.status.name()));
    let kind = attempt.status.name();
    let time = seconds(attempt.duration_ms);
    let element = writer.create_element(element).with_attributes([
        ("message", message.as_str()),
        ("type", kind),
        ("time", time.as_str()),
    ]);
    element.write_inner_content(|writer| {
        let trace = clean(attempt.details.as_deref().unwrap_or(&message));
        writer.create_element("stackTrace").write_text_content(BytesText::new(&trace))?;
        Ok(())
    })?;
    Ok(())
}

/// Part of an id before the name, with dots.
fn class_of(id: &str, name: &str) -> String {
    let class = id.strip_suffix(name).unwrap_or_default().trim_end_matches([':', '.', '/']);
    // As pytest names it, also where classes follow the file.
    let (file, classes) = class.split_once("::").map_or((class, None), |(file, rest)| (file, Some(rest)));
    let file = file.strip_suffix(".py").unwrap_or(file).replace('/', ".");
    classes.map_or(file.clone(), |rest| format!("{file}.{}", rest.replace("::", ".").replace('/', ".")))
}

fn seconds(ms: u64) -> String {
    format!("{}.{:03}", ms / 1000, ms % 1000)
}

/// Replaces characters that are invalid in XML.
fn clean(text: &str) -> String {
    let allowed = |c: char| matches!(c, '\t' | '\n' | '\r' | ' '..='\u{fffd}' | '\u{10000}'..);
    text.chars().map(|c| if allowed(c) { c } else { '?' }).collect()
}

#[cfg(test)]
pub(crate) mod tests {
    use super::*;
    use crate::report::{Suite, Totals};

    pub const VERDICTS: [Verdict; 8] = [
        Verdict::Passed,
        Verdict::Failed,
        Verdict::Unusable,
        Verdict::Limit,
        Verdict::Quarantined,
        Verdict::NotInstalled,
        Verdict::Refused,
        Verdict::Interrupted,
    ];
    const STATUSES: [Status; 5] =
        [Status::Passed, Status::Skipped, Status::NotFinished, Status::Failed, Status::Errored];

    fn case(status: Status) -> Case {
        let name = status.name().to_owned();
        Case { name: name.clone(), ..Case::bare(&format!("tests/test_a.py::{name}"), status) }
    }

    pub fn report(verdict: Verdict, statuses: &[Status], reason: Option<&str>) -> TestReport {
        let outcome = RunReport::without_a_run(Cause::Exited, "so");
        let cases: Vec<Case> = statuses.iter().map(|status| case(*status)).collect();
        let totals = Totals::of(&cases, &outcome);
        let reason = reason.map(str::to_owned);
        TestReport {
            verdict,
            reason,
            totals,
            cases,
            ..TestReport::without_a_run("pytest", Vec::new(), outcome)
        }
    }

    pub fn suite(report: &TestReport, folder: &str) -> Suite {
        Suite {
            python: None,
            folder: folder.to_owned(),
            framework: report.framework.clone(),
            framework_version: None,
            verdict: report.verdict,
            complete: report.complete,
            consistent: report.consistent,
            reason: report.reason.clone(),
            totals: report.totals.clone(),
        }
    }

    /// Attribute of the first element with that name.
    fn number(xml: &str, element: &str, attribute: &str) -> usize {
        let (_, rest) = xml.split_once(&format!("<{element} ")).expect("the element");
        let (_, rest) = rest.split_once(&format!("{attribute}=\"")).expect("the attribute");
        rest.split_once('"').expect("its end").0.parse().expect("a number")
    }

    #[test]
    fn class_is_that_of_the_framework() {
        for (id, name, want) in [
            ("tests/api/test_ut.py::test_a", "test_a", "tests.api.test_ut"),
            ("tests/api/test_ut.py::T::test_a", "test_a", "tests.api.test_ut.T"),
            ("tests/api/test_ut.py::T::U::test_a[1/2]", "test_a[1/2]", "tests.api.test_ut.T.U"),
            ("tests.test_a.A.test_b", "test_b", "tests.test_a.A"),
            ("example.com/x/sub::TestA/b", "TestA/b", "example.com.x.sub"),
            ("src/a.test.js::Cart::adds", "adds", "src.a.test.js.Cart"),
            ("test_syn.py", "test_syn", ""),
        ] {
            assert_eq!(class_of(id, name), want, "{id}");
        }
    }

    #[test]
    fn document_is_red_exactly_when_the_verdict_is() {
        for verdict in VERDICTS {
            for first in STATUSES {
                for second in STATUSES {
                    for statuses in [&[][..], &[first], &[first, second]] {
                        let good = verdict == Verdict::Passed;
                        // A run with a test that is not good is never judged as passed.
                        if good && statuses.iter().any(|s| !s.is_good()) {
                            continue;
                        }
                        let report = report(verdict, statuses, Some("why <&>\u{1}"));
                        let xml = String::from_utf8(junit(&report).unwrap()).unwrap();
                        let bad =
                            number(&xml, "testsuites", "failures") + number(&xml, "testsuites", "errors");
                        assert_eq!(bad == 0, good, "{verdict:?} {statuses:?}\n{xml}");
                        assert_eq!(number(&xml, "testsuites", "tests"), xml.matches("<testcase ").count());
                        let marks = xml.matches("<error ").count() + xml.matches("<failure ").count();
                        assert_eq!(marks, bad, "{xml}");
                    }
                }
            }
        }
    }

    #[test]
    fn attempts_are_marked_as_surefire_marks_them() {
        let attempt = |status, message: &str| Attempt {
            status,
            duration_ms: 12,
            message: Some(message.to_owned()),
            details: Some("<trace>".to_owned()),
        };
        for (status, attempts, marks) in [
            (Status::Passed, &[Status::Failed, Status::Passed][..], &["flakyFailure"][..]),
            (
                Status::Passed,
                &[Status::Errored, Status::Failed, Status::Passed],
                &["flakyError", "flakyFailure"],
            ),
            (
                Status::Failed,
                &[Status::Failed, Status::Failed, Status::Errored],
                &["failure", "rerunFailure", "rerunError"],
            ),
            (Status::Passed, &[], &[]),
            (Status::Failed, &[], &["failure"]),
        ] {
            let verdict = if status == Status::Passed { Verdict::Passed } else { Verdict::Failed };
            let mut report = report(verdict, &[status], None);
            report.cases[0].attempts =
                attempts.iter().map(|status| attempt(*status, "a \"b\"\u{1}")).collect();
            let xml = String::from_utf8(junit(&report).unwrap()).unwrap();
            let all =
                ["<failure ", "<error ", "<flakyFailure ", "<flakyError ", "<rerunFailure ", "<rerunError "];
            assert_eq!(all.iter().map(|mark| xml.matches(mark).count()).sum::<usize>(), marks.len(), "{xml}");
            for mark in marks {
                assert!(xml.contains(&format!("<{mark} ")), "{mark}: {xml}");
            }
            assert_eq!(xml.contains("<stackTrace>&lt;trace&gt;</stackTrace>"), attempts.len() > 1, "{xml}");
        }
    }

    #[test]
    fn unrun_suite_is_an_error_beside_others() {
        let python = report(Verdict::Passed, &[Status::Passed, Status::Skipped], None);
        let web = report(Verdict::Quarantined, &[], Some("quarantined: a.js: reads credentials"));
        let go = report(Verdict::Failed, &[Status::Failed], None);
        let mut all = report(Verdict::Quarantined, &[], web.reason.as_deref());
        all.suites = Some(vec![suite(&python, ""), suite(&web, "web"), suite(&go, "srv")]);
        for part in [&python, &web, &go] {
            all.cases.extend(part.cases.iter().cloned());
            all.totals.add(&part.totals);
        }
        let xml = String::from_utf8(junit(&all).unwrap()).unwrap();
        assert_eq!(xml.matches("<testsuite ").count(), 3);
        assert_eq!((number(&xml, "testsuites", "tests"), number(&xml, "testsuites", "errors")), (4, 1));
        let web = xml.split("<testsuite ").nth(2).unwrap();
        assert!(web.contains("name=\"pytest in web\" tests=\"1\""), "{web}");
        assert!(web.contains("<error message=\"quarantined: a.js: reads credentials\"/>"), "{web}");
    }
}
