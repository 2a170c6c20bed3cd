//! Reads jest's JSON report within limits. It is written by hostile programs.

use std::collections::HashSet;
use std::fmt;
use std::marker::PhantomData;

use serde::Deserialize;
use serde::de::{DeserializeSeed, Deserializer, Error, IgnoredAny, MapAccess, SeqAccess, Visitor};

use hotcell_sandbox::policy::PROJECT;

use crate::case::{
    Entry, MAX_CASES, MAX_DETAIL_BYTES, MAX_MESSAGE_BYTES, MAX_NAME_BYTES, MAX_TEXT_BYTES, ReportError,
    Status,
};
use crate::text::{Budget, clip, paired};

/// Maximum number of titles above a test.
const MAX_TITLES: usize = 200;
/// Maximum nesting of values: an honest report contains the values that tests compared.
const MAX_JSON_DEPTH: usize = 1_000;
/// First line of the stack of a test that was out of time, in vitest's report.
const PLACEHOLDER: &str = "Error: STACK_TRACE_ERROR";
/// Maximum number of failures per test.
const MAX_FAILURES: usize = 1_000;

/// Reads a whole report. `seen` are the observed files: the report uses absolute paths.
///
/// # Errors
/// [`ReportError::Broken`] when it is not a complete report within the limits.
pub fn parse(bytes: &[u8], seen: &HashSet<&str>) -> Result<Vec<Entry>, ReportError> {
    let mut read = Read { entries: Vec::new(), room: Budget::new(MAX_TEXT_BYTES), there: false, seen };
    if depth(bytes) > MAX_JSON_DEPTH {
        return Err(ReportError::Broken("its values are too deep".to_owned()));
    }
    let bytes = paired(bytes);
    let mut json = serde_json::Deserializer::from_slice(&bytes);
    Top(&mut read)
        .deserialize(&mut json)
        .and_then(|()| json.end())
        .map_err(|e| ReportError::Broken(clip(&e.to_string(), 200)))?;
    if read.there { Ok(read.entries) } else { Err(ReportError::Broken("it has no testResults".to_owned())) }
}

/// Maximum depth of open brackets. Skipped values have no limit of their own.
fn depth(bytes: &[u8]) -> usize {
    let (mut open, mut most, mut text) = (0_usize, 0, false);
    let mut bytes = bytes.iter();
    while let Some(byte) = bytes.next() {
        match byte {
            b'"' => text = !text,
            b'\\' if text => {
                bytes.next();
            }
            b'[' | b'{' if !text => {
                open += 1;
                most = most.max(open);
            }
            b']' | b'}' if !text => open = open.saturating_sub(1),
            _ => {}
        }
    }
    most
}

struct Read<'a> {
    entries: Vec<Entry>,
    room: Budget,
    there: bool,
    seen: &'a HashSet<&'a str>,
}

/// One test file of the report.
#[derive(Deserialize)]
#[serde(rename_all = "camelCase")]
struct Suite {
    name: String,
    status: String,
    #[serde(default)]
    message: Option<String>,
    assertion_results: Few<Assertion, MAX_CASES>,
}

#[derive(Deserialize)]
#[serde(rename_all = "camelCase")]
struct Assertion {
    #[serde(default)]
    ancestor_titles: Few<Title, MAX_TITLES>,
    #[serde(default)]
    title: Title,
    status: String,
    #[serde(default)]
    duration: Option<f64>,
    #[serde(default)]
    failure_messages: Few<Option<String>, MAX_FAILURES>,
    #[serde(default)]
    location: Option<Location>,
}

/// A title of any type: old versions of jest keep a test's arguments. Converted as in the reporter: a list is
/// joined by commas, and values without a JSON form are empty.
#[derive(Default)]
struct Title(String);

impl<'de> Deserialize<'de> for Title {
    fn deserialize<D: Deserializer<'de>>(from: D) -> Result<Self, D::Error> {
        fn text(value: &serde_json::Value) -> String {
            use serde_json::Value;
            match value {
                Value::Null => String::new(),
                Value::String(text) => text.clone(),
                Value::Bool(_) | Value::Number(_) => value.to_string(),
                Value::Array(all) => all.iter().map(text).collect::<Vec<_>>().join(","),
                Value::Object(_) => "[object Object]".to_owned(),
            }
        }
        serde_json::Value::deserialize(from).map(|value| Self(text(&value)))
    }
}

#[derive(Deserialize)]
struct Location {
    line: Option<u32>,
}

impl Read<'_> {
    fn take(&mut self, suite: Suite) -> Result<(), &'static str> {
        let file = relative(&suite.name, self.seen).to_owned();
        let mut failed = false;
        for test in suite.assertion_results.0 {
            let status = match test.status.as_str() {
                "passed" => Status::Passed,
                "failed" => Status::Failed,
                "pending" | "skipped" | "todo" | "disabled" => Status::Skipped,
                _ => return Err("a test came to something that is not known"),
            };
            failed |= status == Status::Failed;
            let titles = test.ancestor_titles.0.iter().chain([&test.title]);
            let id = titles.fold(file.clone(), |id, title| format!("{id}::{}", title.0));
            let failures: Vec<String> = test.failure_messages.0.iter().flatten().map(|m| plain(m)).collect();
            let reason = (test.status == "todo").then(|| "todo".to_owned());
            // vitest writes the stack of a test that was out of time with a placeholder: the live events have the message.
            let placed = |text: &&String| !text.starts_with(PLACEHOLDER);
            let message = failures.first().filter(placed).map(|text| head(text).to_owned()).or(reason);
            let details = failures.join("\n\n").replace(&format!("{PLACEHOLDER}\n"), "");
            self.add(id, status, &file, message, &details)?;
            if let Some(entry) = self.entries.last_mut() {
                entry.duration_ms = test.duration.filter(|ms| (0.0..1e12).contains(ms)).unwrap_or(0.0);
                entry.line = test.location.and_then(|at| at.line);
            }
        }
        // The file itself is broken, or an error belongs to none of its tests: reported as by the reporter.
        let text = plain(suite.message.as_deref().unwrap_or_default());
        if !failed && (suite.status == "failed" || !text.is_empty()) {
            let first = text.trim_start();
            let rest =
                if first.starts_with('●') { first.split_once('\n').map_or("", |(_, r)| r) } else { first };
            let message = head(rest.trim()).to_owned();
            self.add(file.clone(), Status::Errored, &file, Some(message), &text)?;
        }
        Ok(())
    }

    fn add(
        &mut self,
        id: String,
        status: Status,
        file: &str,
        message: Option<String>,
        details: &str,
    ) -> Result<(), &'static str> {
        if self.entries.len() >= MAX_CASES {
            return Err("it has more cases than are read");
        }
        // Same length as in the reporter.
        if id.len() > MAX_NAME_BYTES || !self.room.take(id.len() + file.len()) {
            return Err("its names are too long");
        }
        self.entries.push(Entry {
            id,
            status,
            duration_ms: 0.0,
            file: Some(file.to_owned()),
            line: None,
            message: message.and_then(|m| self.room.keep(&m, MAX_MESSAGE_BYTES)),
            details: self.room.keep(details, MAX_DETAIL_BYTES),
            stdout: None,
            stderr: None,
        });
        Ok(())
    }
}

/// Path of a file relative to the project. Without a mount namespace the project is elsewhere.
fn relative<'a>(name: &'a str, seen: &HashSet<&str>) -> &'a str {
    if let Some(rest) = name.strip_prefix(PROJECT).and_then(|rest| rest.strip_prefix('/')) {
        return rest;
    }
    let mut ends = name.match_indices('/').map(|(at, _)| &name[at + 1..]).take(64);
    ends.find(|end| seen.contains(end)).unwrap_or(name)
}

/// A message without its stack trace.
fn head(text: &str) -> &str {
    let stack = text.match_indices('\n').find(|(at, _)| text[*at..].trim_start().starts_with("at "));
    text[..stack.map_or(text.len(), |(at, _)| at)].trim()
}

/// Text without colours and other terminal sequences.
fn plain(text: &str) -> String {
    let mut out = String::with_capacity(text.len());
    let mut chars = text.chars();
    while let Some(c) = chars.next() {
        if c != '\u{1b}' {
            out.push(c);
            continue;
        }
        // Up to its final letter; other sequences have a single letter.
        if chars.next() == Some('[') {
            let _ = chars.find(|c| ('@'..='~').contains(c));
        }
    }
    out
}

/// The whole report.
struct Top<'r, 'a>(&'r mut Read<'a>);

impl<'de> DeserializeSeed<'de> for Top<'_, '_> {
    type Value = ();
    fn deserialize<D: Deserializer<'de>>(self, from: D) -> Result<(), D::Error> {
        from.deserialize_map(self)
    }
}

impl<'de> Visitor<'de> for Top<'_, '_> {
    type Value = ();
    fn expecting(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str("a report of jest")
    }
    fn visit_map<A: MapAccess<'de>>(self, mut map: A) -> Result<(), A::Error> {
        while let Some(key) = map.next_key::<Key>()? {
            match key {
                Key::TestResults if self.0.there => return Err(A::Error::custom("testResults come twice")),
                Key::TestResults => {
                    self.0.there = true;
                    map.next_value_seed(Suites(self.0))?;
                }
                Key::Other => {
                    map.next_value::<IgnoredAny>()?;
                }
            }
        }
        Ok(())
    }
}

#[derive(Deserialize)]
#[serde(field_identifier, rename_all = "camelCase")]
enum Key {
    TestResults,
    #[serde(other)]
    Other,
}

/// Visits its files one after the other.
struct Suites<'r, 'a>(&'r mut Read<'a>);

impl<'de> DeserializeSeed<'de> for Suites<'_, '_> {
    type Value = ();
    fn deserialize<D: Deserializer<'de>>(self, from: D) -> Result<(), D::Error> {
        from.deserialize_seq(self)
    }
}

impl<'de> Visitor<'de> for Suites<'_, '_> {
    type Value = ();
    fn expecting(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str("a list of test files")
    }
    fn visit_seq<A: SeqAccess<'de>>(self, mut list: A) -> Result<(), A::Error> {
        while let Some(suite) = list.next_element::<Suite>()? {
            self.0.take(suite).map_err(A::Error::custom)?;
        }
        Ok(())
    }
}

/// A list of limited length.
struct Few<T, const MAX_LEN: usize>(Vec<T>);

impl<T, const MAX_LEN: usize> Default for Few<T, MAX_LEN> {
    fn default() -> Self {
        Self(Vec::new())
    }
}

impl<'de, T: Deserialize<'de>, const MAX_LEN: usize> Deserialize<'de> for Few<T, MAX_LEN> {
    fn deserialize<D: Deserializer<'de>>(from: D) -> Result<Self, D::Error> {
        struct Reading<T, const MAX_LEN: usize>(PhantomData<T>);
        impl<'de, T: Deserialize<'de>, const MAX_LEN: usize> Visitor<'de> for Reading<T, MAX_LEN> {
            type Value = Few<T, MAX_LEN>;
            fn expecting(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
                f.write_str("a list")
            }
            fn visit_seq<A: SeqAccess<'de>>(self, mut list: A) -> Result<Self::Value, A::Error> {
                let mut all = Vec::new();
                while let Some(one) = list.next_element()? {
                    if all.len() >= MAX_LEN {
                        return Err(A::Error::custom(format_args!("a list has more than {MAX_LEN} values")));
                    }
                    all.push(one);
                }
                Ok(Few(all))
            }
        }
        from.deserialize_seq(Reading::<T, MAX_LEN>(PhantomData))
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use proptest::prelude::*;

    fn read(text: &str) -> Result<Vec<Entry>, ReportError> {
        parse(text.as_bytes(), &HashSet::from(["src/a.test.js"]))
    }

    const WHOLE: &str = r#"{"numTotalTests":4,"success":false,"snapshot":{"added":0},"testResults":[
        {"name":"/home/sandbox/project/a.test.js","status":"failed","message":"\u001b[1m● x\u001b[22m","assertionResults":[
            {"ancestorTitles":["Cart","big"],"title":"adds","status":"passed","duration":3.5,"failureMessages":[],"location":{"column":1,"line":7},"fullName":"x"},
            {"ancestorTitles":[],"title":"fails","status":"failed","duration":null,"failureMessages":["Error: \u001b[31mexpected\u001b[39m 1\n\nReceived: 2\n    at Object.<anonymous> (/a:1:2)","second"],"location":null},
            {"ancestorTitles":[],"title":"left","status":"pending"},
            {"ancestorTitles":[],"title":"later","status":"todo"}]},
        {"name":"/elsewhere/src/a.test.js","status":"failed","message":"  ● Test suite failed to run\n\n    Cannot find module 'x'\n\n      at Object.require (a:1:1)","assertionResults":[]},
        {"name":"/b.js","status":"passed","message":"","assertionResults":[]}]}"#;

    #[test]
    fn complete_jest_report_is_read() {
        let entries = read(WHOLE).unwrap();
        let got: Vec<_> =
            entries.iter().map(|e| (e.id.as_str(), e.status, e.line, e.message.as_deref())).collect();
        let want = [
            ("a.test.js::Cart::big::adds", Status::Passed, Some(7), None),
            ("a.test.js::fails", Status::Failed, None, Some("Error: expected 1\n\nReceived: 2")),
            ("a.test.js::left", Status::Skipped, None, None),
            ("a.test.js::later", Status::Skipped, None, Some("todo")),
            ("src/a.test.js", Status::Errored, None, Some("Cannot find module 'x'")),
        ];
        assert_eq!(got, want);
        assert_eq!(entries[0].duration_ms, 3.5);
        assert!(entries[1].details.as_deref().unwrap().ends_with("(/a:1:2)\n\nsecond"));
        assert_eq!(entries[1].file.as_deref(), Some("a.test.js"));
    }

    #[test]
    fn incomplete_jest_report_is_an_error() {
        let suite = |tests: &str| {
            format!(r#"{{"testResults":[{{"name":"a","status":"passed","assertionResults":[{tests}]}}]}}"#)
        };
        let test = |more: &str| suite(&format!(r#"{{"title":"t","status":"passed"{more}}}"#));
        assert_eq!(read(&test("")).unwrap().len(), 1);
        let deep = |n: usize| format!("{}{}", "[".repeat(n), "]".repeat(n));
        let many = vec!["\"\""; MAX_TITLES + 1].join(",");
        for text in [
            String::new(),
            "null".to_owned(),
            "[]".to_owned(),
            "{}".to_owned(),
            r#"{"testResults":{}}"#.to_owned(),
            r#"{"testResults":[{}]}"#.to_owned(),
            r#"{"testResults":[],"testResults":[]}"#.to_owned(),
            format!("{} x", test("")),
            suite(r#"{"title":"t","status":"great"}"#),
            test(&format!(r#","extra":{}"#, deep(10_000))),
            format!(r#"{{"snapshot":{},"testResults":[]}}"#, deep(10_000)),
            test(&format!(r#","ancestorTitles":[{many}]"#)),
            suite(&format!(r#"{{"title":"{}","status":"passed"}}"#, "x".repeat(MAX_NAME_BYTES))),
            suite(&vec![r#"{"title":"t","status":"passed"}"#; MAX_CASES + 1].join(",")),
        ] {
            assert!(read(&text).is_err(), "{}", clip(&text, 200));
        }
    }

    #[test]
    fn jest_title_may_be_any_json() {
        for (title, want) in [
            (r#""title":"a","#, "a::a"),
            (r#""title":7,"#, "a::7"),
            (r#""title":["a",["b",null],1.5],"#, "a::a,b,,1.5"),
            (r#""title":{"a":1},"#, "a::[object Object]"),
            (r#""title":null,"#, "a::"),
            ("", "a::"),
            // Half a letter, as JavaScript's strings may have.
            (r#""title":"a\ud800b","#, "a::a\u{fffd}b"),
            (r#""ancestorTitles":["\uDFFF"],"title":"\ud83d\ude00","#, "a::\u{fffd}::\u{1f600}"),
            (r#""ancestorTitles":["x",null,true],"title":"t","#, "a::x::::true::t"),
        ] {
            let text = format!(
                r#"{{"testResults":[{{"name":"a","status":"passed","assertionResults":[{{{title}"status":"passed"}}]}}]}}"#
            );
            assert_eq!(read(&text).unwrap()[0].id, want, "{title}");
        }
    }

    #[test]
    fn brackets_in_texts_are_not_deep() {
        for (text, want) in [("", 0), ("[]{}", 1), ("[{", 2), (r#"["[[\"[","]"]"#, 1), ("]]]", 0)] {
            assert_eq!(depth(text.as_bytes()), want, "{text}");
        }
    }

    #[test]
    fn terminal_colours_are_removed() {
        for (text, want) in [
            ("a\u{1b}[31;1mb\u{1b}[0mc", "abc"),
            ("\u{1b}", ""),
            ("\u{1b}[", ""),
            ("\u{1b}cx", "x"),
            ("ä\u{1b}[2Kö", "äö"),
        ] {
            assert_eq!(plain(text), want);
        }
    }

    proptest! {
        #[test]
        fn arbitrary_jest_report_causes_no_panic(bytes in proptest::collection::vec(any::<u8>(), 0..300)) {
            let _ = parse(&bytes, &HashSet::new());
        }

        #[test]
        fn truncated_jest_report_is_an_error(at in 0usize..WHOLE.len()) {
            prop_assert!(parse(&WHOLE.as_bytes()[..at], &HashSet::new()).is_err());
        }
    }
}
