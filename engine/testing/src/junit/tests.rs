use proptest::prelude::*;

use super::*;

const WHOLE: &str = r#"<?xml version="1.0" encoding="utf-8"?><testsuites name="x"><testsuite name="pytest" tests="2">
<testcase classname="a.B" name="t[&lt;&#233;&gt;]" file="a.py" line="3" time="0.25"><failure message="no&#10;way">at &amp; <![CDATA[<there>]]>
</failure><system-out>out</system-out><system-err>err</system-err></testcase>
<testcase classname="a" name="ok" time="x" /></testsuite></testsuites>"#;

#[test]
fn complete_junit_report_is_read() {
    let cases = parse(WHOLE.as_bytes()).unwrap();
    assert_eq!(cases.len(), 2);
    let bad = &cases[0];
    assert_eq!((bad.classname.as_str(), bad.name.as_str(), bad.line), ("a.B", "t[<é>]", Some(3)));
    assert_eq!(
        (bad.status, bad.message.as_deref(), bad.duration_ms),
        (Status::Failed, Some("no\nway"), 250.0)
    );
    assert_eq!(bad.details.as_deref(), Some("at & <there>"));
    assert_eq!((bad.stdout.as_deref(), bad.stderr.as_deref()), (Some("out"), Some("err")));
    assert_eq!((cases[1].status, cases[1].duration_ms), (Status::Passed, 0.0));
}

#[test]
fn incomplete_junit_report_is_an_error() {
    let deep = format!("<testsuites>{}", "<a>".repeat(20));
    for (text, why) in [
        ("", "ends before"),
        ("hello", "outside"),
        ("<html></html>", "not a JUnit"),
        ("<testsuites>", "ends before"),
        ("<testsuites></testsuite>", "expected"),
        ("<testsuites/><testsuites/>", "follows"),
        ("<testsuites/>x", "outside"),
        (deep.as_str(), "too deep"),
        ("<!DOCTYPE x [<!ENTITY a 'b'>]><testsuites/>", "document type"),
        ("<testsuites><testcase name='&a;'/></testsuites>", "entity"),
        ("<testsuites><testcase name='&#0;'/></testsuites>", "entity"),
        ("<testsuites><testcase><failure>&a;</failure></testcase></testsuites>", "entity"),
        ("<testsuites><testcase><testcase/></testcase></testsuites>", "in a test"),
        ("<testsuites><testcase name='a' name='b'/></testsuites>", "twice"),
        ("<testsuites><testcase name=a/></testsuites>", "well formed"),
    ] {
        let error = parse(text.as_bytes()).unwrap_err().to_string();
        assert!(error.contains(why), "{text}: {error}");
    }
    assert!(parse(b"<testsuites>\xff</testsuites>").is_err());
}

#[test]
fn worst_child_of_testcase_counts() {
    let text = "<testsuite><testcase name='a'><skipped/><error message='e'/><failure message='f'/></testcase></testsuite>";
    let cases = parse(text.as_bytes()).unwrap();
    assert_eq!((cases[0].status, cases[0].message.as_deref()), (Status::Errored, Some("e")));
}

#[test]
fn long_texts_keep_head_and_tail() {
    let long = "x&amp;".repeat(200_000);
    let text =
        format!("<testsuite><testcase name='a'><failure>first {long} last</failure></testcase></testsuite>");
    let details = parse(text.as_bytes()).unwrap().remove(0).details.unwrap();
    assert!(
        details.len() < MAX_DETAIL_BYTES + 64
            && details.starts_with("first x&")
            && details.ends_with("& last")
    );
    assert!(details.contains("bytes left out"));
}

#[test]
fn excess_junit_cases_are_an_error() {
    let text = format!("<testsuite>{}</testsuite>", "<testcase/>".repeat(MAX_CASES + 1));
    assert!(parse(text.as_bytes()).unwrap_err().to_string().contains("more cases"));
}

proptest! {
    #[test]
    fn arbitrary_junit_bytes_cause_no_panic(bytes in proptest::collection::vec(any::<u8>(), 0..300)) {
        let _ = parse(&bytes);
    }

    #[test]
    fn changed_junit_report_causes_no_panic(at in 0usize..500, byte in any::<u8>()) {
        let mut bytes = WHOLE.as_bytes().to_vec();
        let at = at % bytes.len();
        bytes[at] = byte;
        let _ = parse(&bytes);
    }

    #[test]
    fn truncated_junit_report_is_an_error(at in 0usize..WHOLE.len()) {
        prop_assert!(parse(&WHOLE.as_bytes()[..at]).is_err());
    }
}

#[test]
fn durations_may_have_groups_of_thousands() {
    for (text, want) in [
        ("0.25", Some(0.25)),
        ("1,234.5", Some(1234.5)),
        ("1,234", Some(1234.0)),
        ("12,345,678.001", Some(12_345_678.001)),
        ("0", Some(0.0)),
        ("1e3", Some(1000.0)),
        ("0,5", None),
        ("1,23,456", None),
        ("1.234,5", None),
        ("-1", None),
        ("NaN", None),
        ("inf", None),
        ("9,999,999,999", None),
        ("", None),
    ] {
        assert_eq!(seconds(text), want, "{text}");
    }
}
