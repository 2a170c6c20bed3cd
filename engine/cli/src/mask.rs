//! The option `--mask`: hides the values of variables in everything that hotcell itself writes. A program can
//! print a value in another form, so this keeps a log tidy but is not protection against the authors of the
//! tests.

use std::borrow::Cow;

use hotcell_config::EnvSetting;
use hotcell_report::RunReport;
use hotcell_sandbox::outcome::Output;
use hotcell_state::report::{Code, ErrorReport};
use hotcell_testing::TestReport;
use serde_json::Value;

/// Replacement for a hidden value.
const MASK: &str = "***";
/// Minimum length in bytes of a value, or of a line of one, since hiding shorter ones would hide too much
/// else.
const MIN_VALUE_BYTES: usize = 4;

/// Fields that contain only hotcell's own keywords: a value equal to such a keyword is not hidden there.
const OURS: [&str; 9] =
    ["schema", "verdict", "status", "cause", "kind", "limit", "evidence", "layer", "layers"];

/// Values to be hidden, the longest first.
#[derive(Clone, Debug, Default)]
pub struct Masks(Vec<String>);

impl Masks {
    /// Collects the values of these variables, as the run gets them.
    ///
    /// # Errors
    /// [`ErrorReport`] when a name is not passed to the run, or a value cannot be hidden.
    pub fn of(names: &[String], env: &[EnvSetting]) -> Result<Self, ErrorReport> {
        let mut values = Vec::new();
        for name in names {
            let bad = |why: &str, hint: &str| {
                ErrorReport::new(Code::InvalidValue, format!("--mask {name}: {why}"))
                    .field("--mask")
                    .hint(hint)
            };
            let passed = env.iter().rev().find_map(|setting| match setting {
                EnvSetting::Set(known, value) if *known == **name => Some(Some(value.clone())),
                EnvSetting::Pass(known) if *known == **name => Some(std::env::var_os(known)),
                _ => None,
            });
            let Some(value) = passed else {
                return Err(bad("no such variable is passed in", "pass it with --env, or leave --mask out"));
            };
            // A variable that is not set is reported elsewhere.
            let Some(value) = value.filter(|value| !value.is_empty()) else { continue };
            let Some(value) = value.to_str() else {
                return Err(bad("its value is not UTF-8", "a value that is hidden has to be text"));
            };
            if value.trim().len() < MIN_VALUE_BYTES {
                return Err(bad(
                    "its value is too short to be hidden",
                    "with fewer than 4 characters it would be found everywhere",
                ));
            }
            // Each line of a multi-line value may be printed by itself.
            let lines = value.lines().map(str::trim).filter(|line| line.len() >= MIN_VALUE_BYTES);
            values.extend(lines.chain([value, value.trim()]).map(str::to_owned));
            // Most languages print text in an error with backslashes escaped.
            values.push(value.replace('\\', "\\\\"));
        }
        values.sort_by(|a, b| b.len().cmp(&a.len()).then_with(|| a.cmp(b)));
        values.dedup();
        Ok(Self(values))
    }

    /// Whether there is nothing to hide.
    pub const fn is_empty(&self) -> bool {
        self.0.is_empty()
    }

    /// Length of the longest value in bytes.
    pub fn longest(&self) -> usize {
        self.0.first().map_or(0, String::len)
    }

    /// A text with the values hidden.
    pub fn text<'a>(&self, text: &'a str) -> Cow<'a, str> {
        let mut out = Cow::Borrowed(text);
        for value in self.0.iter().filter(|value| text.contains(value.as_str())) {
            out = Cow::Owned(out.replace(value, MASK));
        }
        out
    }

    /// A report with the values hidden.
    pub fn report(&self, mut report: TestReport) -> TestReport {
        if self.is_empty() {
            return report;
        }
        // Line numbers of files are not text.
        let mut coverage = report.coverage.take();
        for file in coverage.iter_mut().flat_map(|coverage| &mut coverage.files) {
            file.path = self.text(&file.path).into_owned();
        }
        let mut value = serde_json::to_value(&report).unwrap_or_default();
        self.value(&mut value);
        // If the masked report cannot be parsed again, it is not shown at all.
        let mut masked: TestReport = serde_json::from_value(value).unwrap_or_else(|_| TestReport {
            verdict: report.verdict,
            totals: report.totals.clone(),
            reason: Some("--mask: the report cannot be shown without the values".to_owned()),
            ..TestReport::without_a_run("", Vec::new(), RunReport::without_a_run(report.outcome.cause, MASK))
        });
        let outcome = &mut masked.outcome.outcome;
        for output in [&mut outcome.stdout, &mut outcome.stderr] {
            if output.base64.is_some() {
                let bytes = self.bytes(&output.to_bytes());
                *output = Output { truncated: output.truncated, ..Output::new(bytes, output.bytes) };
            }
        }
        masked.coverage = coverage;
        masked
    }

    /// Like [`Self::text`], for bytes that are not text.
    fn bytes(&self, bytes: &[u8]) -> Vec<u8> {
        let mut out = bytes.to_vec();
        for value in &self.0 {
            let value = value.as_bytes();
            let mut rest = out.as_slice();
            let mut masked = Vec::with_capacity(rest.len());
            while let Some(at) = rest.windows(value.len()).position(|window| window == value) {
                masked.extend_from_slice(&rest[..at]);
                masked.extend_from_slice(MASK.as_bytes());
                rest = &rest[at + value.len()..];
            }
            masked.extend_from_slice(rest);
            out = masked;
        }
        out
    }

    fn value(&self, value: &mut Value) {
        match value {
            Value::String(text) => {
                if let Cow::Owned(masked) = self.text(text) {
                    *text = masked;
                }
            }
            Value::Array(all) => all.iter_mut().for_each(|one| self.value(one)),
            Value::Object(all) => {
                let texts = all.iter_mut().filter(|(key, _)| !OURS.contains(&key.as_str()));
                texts.for_each(|(_, one)| self.value(one));
            }
            Value::Null | Value::Bool(_) | Value::Number(_) => {}
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use hotcell_sandbox::Cause;

    fn masks(values: &[(&str, &str)]) -> Result<Masks, ErrorReport> {
        let env: Vec<EnvSetting> =
            values.iter().map(|(name, value)| EnvSetting::Set((*name).into(), (*value).into())).collect();
        let names: Vec<String> = values.iter().map(|(name, _)| (*name).to_owned()).collect();
        Masks::of(&names, &env)
    }

    #[test]
    fn masked_values_are_hidden_everywhere() {
        for (value, text, want) in [
            ("s3cret", "a s3cret b s3crets3cret", "a *** b ******"),
            ("a\"b\\c\u{e9}", "x a\"b\\c\u{e9} y", "x *** y"),
            ("line one\nline two\n}\n", "> line two <, line one", "> *** <, ***"),
            (" padded ", "is padded!", "is***!"),
            ("passed", "it passed", "it ***"),
        ] {
            let masks = masks(&[("X", value)]).unwrap();
            let got = masks.text(text).into_owned();
            assert!(got == want || got.replace(' ', "") == want.replace(' ', ""), "{value:?}: {got:?}");
        }
        // If one value contains another, the longer one is replaced first.
        let both = masks(&[("A", "token"), ("B", "token-long")]).unwrap();
        assert_eq!(both.text("token-long token"), "*** ***");
    }

    #[test]
    fn unmaskable_values_are_refused() {
        for value in ["abc", "  a ", "1"] {
            assert!(masks(&[("X", value)]).unwrap_err().message.contains("too short"), "{value}");
        }
        assert!(Masks::of(&["X".to_owned()], &[]).unwrap_err().message.contains("no such variable"));
        assert!(masks(&[("X", "")]).unwrap().is_empty());
    }

    #[test]
    fn masks_cover_all_report_texts() {
        let masks = masks(&[("X", "hunter22"), ("Y", "passed")]).unwrap();
        let mut outcome = RunReport::without_a_run(Cause::Exited, "with hunter22");
        outcome.stdout = Output::new(b"\xff hunter22 \xfe hunter22".to_vec(), 99);
        outcome.stderr = Output::new(b"hunter22".to_vec(), 8);
        let mut report = TestReport::without_a_run("pytest", vec!["x=hunter22".to_owned()], outcome);
        report.reason = Some("hunter22".to_owned());
        let masked = masks.report(report);
        let text = serde_json::to_string(&masked).unwrap();
        assert!(!text.contains("hunter22"), "{text}");
        let passed = TestReport { verdict: hotcell_testing::Verdict::Passed, ..masked.clone() };
        assert_eq!(masks.report(passed.clone()), passed, "a word of hotcell's own is no value");
        assert_eq!(masked.outcome.stdout.to_bytes(), b"\xff *** \xfe ***");
        assert!(masked.outcome.stdout.truncated && masked.outcome.stdout.bytes == 99);
    }
}
