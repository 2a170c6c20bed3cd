//! Test cases of a plugin in TOML: calls and their expected results.

use std::collections::BTreeMap;
use std::path::Path;

use hotcell_sandbox::profile::{Key, parse_strict};
use serde::Deserialize;
use serde_json::Value;

use super::AuthorError;
use crate::{Answer, CallError};

/// Path of the file below a plugin's folder, for errors.
const FILE: &str = "tests/cases.toml";
/// Keys of the file. Those of files are paths, and those of a case are checked with their types.
const KEYS: &[Key] =
    &[Key::value("files"), Key::value("writable"), Key::value("replies"), Key::value("case")];

/// Contents of a plugin's `tests/cases.toml`.
#[derive(Clone, Debug, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct Cases {
    /// Files of the granted folder, by path. If empty, no folder is granted.
    #[serde(default)]
    pub files: BTreeMap<String, String>,
    /// Whether the folder may be written.
    #[serde(default)]
    pub writable: bool,
    /// Replies of the broker in all cases, used after those of the case itself.
    #[serde(default)]
    pub replies: Vec<Play>,
    /// Calls. Each has a folder of its own, unless all are made in one instance.
    #[serde(default)]
    pub case: Vec<Case>,
}

/// One call. `{folder}` in a text stands for the granted folder.
#[derive(Clone, Debug, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct Case {
    /// Name of the function, or its whole path if two functions have the same name.
    pub tool: String,
    /// Arguments of the call.
    #[serde(default = "nothing")]
    pub arguments: Value,
    /// Expected part of the answer; it may have more fields.
    pub expect: Option<Value>,
    /// Expected answer, complete.
    pub exact: Option<Value>,
    /// Whether the tool reports an error.
    #[serde(default)]
    pub is_error: bool,
    /// Name of the answer's `result`, a text such as a handle, for the arguments of later cases: `{NAME}`. The
    /// component has to keep its instance.
    pub keep: Option<String>,
    /// Texts that the answer's text contains.
    #[serde(default)]
    pub contains: Vec<String>,
    /// Text in the reason, if the call is expected to fail.
    pub refused: Option<String>,
    /// Replies of the broker.
    #[serde(default)]
    pub replies: Vec<Play>,
    /// Texts in the questions to the broker, in order; other questions may come between.
    #[serde(default)]
    pub asked: Vec<String>,
}

/// One reply of the broker.
#[derive(Clone, Debug, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct Play {
    /// Text in the question's JSON that selects this reply.
    pub when: String,
    /// The reply, as a [`crate::Reply`]; `text:` before bytes stands for their base64.
    pub reply: Value,
}

fn nothing() -> Value {
    Value::Object(serde_json::Map::new())
}

impl Cases {
    /// Parses cases.
    ///
    /// # Errors
    /// [`AuthorError::Cases`] with the line, for an unknown key and for a case that expects nothing or two
    /// things that exclude each other.
    pub fn parse(text: &str) -> Result<Self, AuthorError> {
        let wrong = |message| AuthorError::Cases { message };
        let cases: Self =
            parse_strict(text, Path::new(FILE), KEYS).map_err(|error| wrong(error.to_string()))?;
        for (number, case) in (1..).zip(&cases.case) {
            let judged = case.expect.is_some()
                || case.exact.is_some()
                || case.is_error
                || case.keep.is_some()
                || !case.contains.is_empty();
            if judged == case.refused.is_some() {
                let message = if judged {
                    "is refused, so it has no answer to expect"
                } else {
                    "expects nothing; give it one of expect, exact, contains, keep, is_error, refused: exact = {} \
                     is an answer without a value"
                };
                return Err(wrong(format!("case {number} ({}) {message}", case.tool)));
            }
        }
        Ok(cases)
    }
}

impl Case {
    /// Differences between this case and its outcome; empty if it passed. `asked` are the questions to the
    /// broker as JSON.
    #[must_use]
    pub fn judge(&self, outcome: &Result<Answer, CallError>, asked: &[String], folder: &str) -> Vec<String> {
        let mut wrong = Vec::new();
        match (outcome, &self.refused) {
            (Err(error), Some(part)) if error.to_string().contains(part) => {}
            (Err(error), Some(part)) => wrong.push(format!("'{part}' is not in the reason: {error}")),
            (Err(error), None) => wrong.push(error.to_string()),
            (Ok(answer), Some(_)) => wrong.push(format!("it was not refused: {}", answer.value.get())),
            (Ok(answer), None) => self.judge_answer(answer, folder, &mut wrong),
        }
        let mut rest = asked.iter();
        let missing = self.asked.iter().filter(|part| !rest.any(|ask| ask.contains(part.as_str())));
        wrong.extend(missing.map(|part| format!("'{part}' was not asked, or not in this order")));
        wrong
    }

    fn judge_answer(&self, answer: &Answer, folder: &str, wrong: &mut Vec<String>) {
        let text = answer.value.get();
        if answer.is_error != self.is_error {
            wrong.push(format!("it is {}: {text}", if answer.is_error { "an error" } else { "no error" }));
        }
        let got: Value = serde_json::from_str(text).unwrap_or_default();
        let expect = self.expect.as_ref().and_then(|want| lacks(&placed(want, folder), &got, "", true));
        let exact = self.exact.as_ref().and_then(|want| lacks(&placed(want, folder), &got, "", false));
        wrong.extend(expect.into_iter().chain(exact));
        let parts = self.contains.iter().map(|part| part.replace("{folder}", folder));
        wrong.extend(
            parts.filter(|part| !text.contains(part)).map(|part| format!("'{part}' is not in {text}")),
        );
    }
}

/// A copy of the value with the folder's path in place of `{folder}`.
pub(super) fn placed(value: &Value, folder: &str) -> Value {
    match value {
        Value::String(text) => Value::String(text.replace("{folder}", folder)),
        Value::Array(items) => items.iter().map(|item| placed(item, folder)).collect(),
        Value::Object(fields) => {
            fields.iter().map(|(name, value)| (name.clone(), placed(value, folder))).collect()
        }
        other => other.clone(),
    }
}

/// First difference of `got` from `want`. With `more`, objects may have more fields; numbers are compared as
/// numbers.
fn lacks(want: &Value, got: &Value, at: &str, more: bool) -> Option<String> {
    match (want, got) {
        (Value::Object(want), Value::Object(got)) => {
            let missing = want.iter().find_map(|(name, want)| {
                let at = format!("{at}/{name}");
                let missing = || Some(format!("{at} is missing"));
                got.get(name).map_or_else(missing, |got| lacks(want, got, &at, more))
            });
            // A null need not be written, because TOML has no null.
            let other = got.iter().find(|(name, got)| !more && !want.contains_key(*name) && !got.is_null());
            missing.or_else(|| other.map(|(name, got)| format!("{at}/{name}: wanted nothing, got {got}")))
        }
        (Value::Array(want), Value::Array(got)) if want.len() == got.len() => {
            let mut pairs = want.iter().zip(got).enumerate();
            pairs.find_map(|(index, (want, got))| lacks(want, got, &format!("{at}/{index}"), more))
        }
        (Value::Number(want), Value::Number(got)) if want.as_f64() == got.as_f64() => None,
        (want, got) if want == got => None,
        (want, got) => Some(format!("{at}: wanted {want}, got {got}")),
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use serde_json::json;
    use serde_json::value::to_raw_value;

    fn answer(is_error: bool, value: &Value) -> Result<Answer, CallError> {
        let (stdout, stderr) = (String::new(), String::new());
        Ok(Answer {
            is_error,
            value: to_raw_value(value).unwrap(),
            stdout,
            stderr,
            denied: vec![],
            wall_us: 1,
            peak_memory: 1,
        })
    }

    #[test]
    fn case_comparison_finds_wanted_values() {
        for (want, got, more, wrong) in [
            (json!({"a": 1}), json!({"a": 1.0, "b": 2}), true, None),
            (json!({"a": 1}), json!({"a": 1, "b": null}), false, None),
            (json!({"a": 1}), json!({"a": 1, "b": 2}), false, Some("/b: wanted nothing, got 2")),
            (json!({"a": [1]}), json!({"a": [1, 2]}), true, Some("/a: wanted [1], got [1,2]")),
            (
                json!({"a": [{"b": "x"}]}),
                json!({"a": [{"b": "y"}]}),
                true,
                Some("/a/0/b: wanted \"x\", got \"y\""),
            ),
            (json!({"a": 1}), json!({}), true, Some("/a is missing")),
        ] {
            assert_eq!(lacks(&want, &got, "", more).as_deref(), wrong);
        }
    }

    #[test]
    fn cases_are_judged() {
        let cases = Cases::parse(
            r#"
            [[case]]
            tool = "a"
            expect = { path = "{folder}/x" }
            contains = ["x"]
            asked = ["one", "two"]
            [[case]]
            tool = "b"
            is_error = true
            [[case]]
            tool = "c"
            refused = "/n: expected"
            "#,
        )
        .unwrap();
        let [a, b, c] = &cases.case[..] else { panic!("three") };
        let good = answer(false, &json!({ "path": "/f/x" }));
        let asked = ["one", "other", "two"].map(str::to_owned);
        let refused = || Err(CallError::Arguments { at: "/n".into(), message: "expected a number".into() });
        for (case, outcome, asked, wrong) in [
            (a, &good, &asked[..], vec![]),
            (a, &good, &asked[..2], vec!["'two' was not asked, or not in this order"]),
            (
                a,
                &answer(true, &json!({ "path": "/f/x" })),
                &asked,
                vec!["it is an error: {\"path\":\"/f/x\"}"],
            ),
            (
                a,
                &answer(false, &json!({ "path": "/g" })),
                &asked,
                vec!["/path: wanted \"/f/x\", got \"/g\"", "'x' is not in {\"path\":\"/g\"}"],
            ),
            (a, &Err(CallError::Cancelled), &asked, vec!["cancelled"]),
            (b, &answer(true, &json!({ "error": 1 })), &[], vec![]),
            (b, &answer(false, &json!({})), &[], vec!["it is no error: {}"]),
            (c, &refused(), &[], vec![]),
            (c, &answer(false, &json!({})), &[], vec!["it was not refused: {}"]),
            (c, &Err(CallError::Cancelled), &[], vec!["'/n: expected' is not in the reason: cancelled"]),
        ] {
            assert_eq!(case.judge(outcome, asked, "/f"), wrong);
        }
    }

    #[test]
    fn invalid_case_file_is_refused() {
        for (text, message) in [
            ("[[case]]\ntool = \"a\"\ntols = 1", "tests/cases.toml:3: unknown field `tols`"),
            ("[[case]]\narguments = {}", "missing field `tool`"),
            ("[[case]]\ntool = \"a\"", "case 1 (a) expects nothing"),
            ("[[case]]\ntool = \"a\"\nis_error = true\nrefused = \"x\"", "no answer to expect"),
            ("cases = []", "tests/cases.toml:1: unknown key \"cases\"; did you mean \"case\"?"),
            ("case = 1", "tests/cases.toml:1: "),
            ("[[case", "tests/cases.toml:1: "),
        ] {
            let error = Cases::parse(text).unwrap_err().to_string();
            assert!(error.contains(message) && !error.contains('\n'), "{text}: {error}");
        }
        assert!(Cases::parse("").unwrap().case.is_empty(), "the caller says that none proves nothing");
    }
}
