//! Data between roles. All of it comes back from a client, and is checked as if a model had written it.

use std::collections::BTreeMap;

use hotcell_state::report::{Code, ErrorReport};
use serde::{Deserialize, Serialize};

use crate::edit::{MAX_FILE_BYTES, MAX_FILES};
use crate::paths;
use crate::spec::inputs::MAX_SPEC_BYTES;
use crate::spec::plan::{self, Planned};
use crate::spec::{GoVersion, Language, Making, Plan};

/// Paths with their texts.
pub type Texts = BTreeMap<String, String>;

/// A plan with the requirements that it is for.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct DetailedPlan {
    /// Requirements.
    pub requirements: String,
    /// Language.
    #[serde(default)]
    pub language: Language,
    /// Version 1.N of Go in the settings, as N; only in Go.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub go: Option<GoVersion>,
    /// Summary in one line.
    #[serde(default)]
    pub summary: String,
    /// Files.
    pub files: Vec<Planned>,
}

/// Code of a plan.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct CodePackage {
    /// Plan.
    pub plan: DetailedPlan,
    /// Code.
    pub files: Texts,
}

/// Tests.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct TestPackage {
    /// Test files.
    pub files: Texts,
    /// Tests that fail on a stub; given tests may leave it out.
    #[serde(default)]
    pub failing_on_stub: u64,
    /// All tests.
    #[serde(default)]
    pub of: u64,
}

/// A test that failed, in words of programs.
#[derive(Clone, Debug, Default, PartialEq, Eq, Serialize, Deserialize)]
#[serde(default)]
pub struct FailedTest {
    /// Id.
    pub id: String,
    /// Words.
    pub words: String,
}

/// Results of tests. Only `tests` is believed when it comes back: the debugger runs them anew.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub struct TestResults {
    /// The tests that were run.
    pub tests: Texts,
    /// All tests passed.
    #[serde(default)]
    pub passed: bool,
    /// Verdict in words.
    #[serde(default)]
    pub verdict: String,
    /// Good tests.
    #[serde(default)]
    pub good: u64,
    /// All tests.
    #[serde(default)]
    pub of: u64,
    /// Failures.
    #[serde(default)]
    pub failures: Vec<FailedTest>,
    /// Output, head and tail.
    #[serde(default)]
    pub output: String,
    /// Run, in the history.
    #[serde(default)]
    pub run: Option<String>,
}

/// An attempt of a debugger (S0.19).
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub struct AttemptMade {
    /// Number, from 1.
    pub attempt: u64,
    /// Changed files.
    pub fixed_files: Vec<String>,
    /// All tests passed.
    pub test_passed: bool,
    /// Messages and output, head and tail.
    pub test_output: String,
    /// The model's explanation.
    pub analysis: String,
}

fn bad(field: &str, why: impl Into<String>) -> ErrorReport {
    ErrorReport::new(Code::InvalidValue, why).field(field)
}

impl DetailedPlan {
    /// A plan with its requirements.
    #[must_use]
    pub fn new(making: &Making, plan: Plan) -> Self {
        Self {
            requirements: making.spec.clone(),
            language: making.language,
            go: making.go,
            summary: plan.summary,
            files: plan.files,
        }
    }

    /// The request and the plan, checked.
    ///
    /// # Errors
    /// A report for requirements or a plan that an architect could not have.
    pub fn checked(&self) -> Result<(Making, Plan), ErrorReport> {
        if let Some(go) = self.go.filter(|go| !go.is_plausible()) {
            return Err(bad("go", format!("the version {go} of Go is not known; allowed is 1.18 to 1.99")));
        }
        let making = Making { go: self.go, ..making(&self.requirements, self.language)? };
        let plan = Plan { summary: self.summary.clone(), files: self.files.clone() };
        let taken: Vec<String> = self.language.settings().iter().map(|path| (*path).to_owned()).collect();
        let plan = plan::given(&plan.text(), self.language, &taken);
        Ok((making, plan.map_err(|why| bad("architectural_plan", why.to_string()))?))
    }
}

/// A request for a program.
///
/// # Errors
/// A report for requirements that are empty or too long.
pub fn making(requirements: &str, language: Language) -> Result<Making, ErrorReport> {
    if requirements.trim().is_empty() || requirements.len() as u64 > MAX_SPEC_BYTES {
        let why = format!("requirements have {} bytes; allowed is 1 to {MAX_SPEC_BYTES}", requirements.len());
        return Err(bad("requirements", why));
    }
    let spec = requirements.to_owned();
    Ok(Making { language, spec, plan: None, tests: Vec::new(), plan_only: false, out: None, go: None })
}

/// Checks files: their paths, number and sizes, and whether they are tests.
///
/// # Errors
/// A report with the first file that cannot be taken.
pub fn files(field: &str, files: &Texts, are_tests: bool) -> Result<Vec<(String, String)>, ErrorReport> {
    if files.is_empty() || files.len() > MAX_FILES {
        return Err(bad(field, format!("{field} has {} files; allowed is 1 to {MAX_FILES}", files.len())));
    }
    for (path, text) in files {
        paths::check(path).map_err(|e| bad(field, format!("{field}: {e}")))?;
        if text.len() > MAX_FILE_BYTES {
            return Err(bad(field, format!("{field}: {path} is larger than {MAX_FILE_BYTES} bytes")));
        }
        if paths::is_test(path) != are_tests {
            let what = if are_tests { "is not a test by its name" } else { "is a test by its name" };
            return Err(bad(field, format!("{field}: {path} {what}")));
        }
    }
    Ok(files.iter().map(|(path, text)| (path.clone(), text.clone())).collect())
}

#[cfg(test)]
mod tests {
    use super::*;

    fn texts(path: &str) -> Texts {
        Texts::from([(path.to_owned(), "x\n".to_owned())])
    }

    #[test]
    fn data_of_clients_is_checked() {
        for (path, are_tests, good) in [
            ("calc.py", false, true),
            ("test_calc.py", true, true),
            ("test_calc.py", false, false),
            ("calc.py", true, false),
            ("../calc.py", false, false),
            ("/etc/passwd", false, false),
            (".git/hooks/x", false, false),
        ] {
            assert_eq!(files("f", &texts(path), are_tests).is_ok(), good, "{path}");
        }
        assert!(files("f", &Texts::new(), true).is_err());
        assert!(
            making(" ", Language::Python).is_err() && making(&"x".repeat(70_000), Language::Python).is_err()
        );
        let plan = |path: &str| DetailedPlan {
            requirements: "adds".to_owned(),
            language: Language::Python,
            go: None,
            summary: String::new(),
            files: vec![Planned {
                path: path.to_owned(),
                purpose: "adds".to_owned(),
                interface: "def add(a, b)".to_owned(),
            }],
        };
        assert_eq!(plan("calc.py").checked().unwrap().1.files, plan("calc.py").files);
        assert!(plan("../calc.py").checked().is_err() && plan("test_calc.py").checked().is_err());
        for (version, good) in
            [(0, false), (17, false), (18, true), (99, true), (100, false), (u32::MAX, false)]
        {
            let go = Some(serde_json::from_value(serde_json::json!(version)).unwrap());
            let checked = DetailedPlan { go, ..plan("calc.py") }.checked();
            assert_eq!(checked.is_ok(), good, "{version}");
        }
    }
}
