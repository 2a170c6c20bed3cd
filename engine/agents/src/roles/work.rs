//! Architect, coder and tester.

use hotcell_models::Prompts;
use hotcell_state::ids::random_hex;
use hotcell_state::report::{Code, ErrorReport};
use hotcell_testing::Verdict;
use serde_json::{Value, json};

use super::Role;
use super::data::{CodePackage, DetailedPlan, FailedTest, TestPackage, TestResults, Texts, files, making};
use super::talk::MAX_OUTPUT_TOKENS;
use crate::budget::Limits;
use crate::driver::{Driver, calls};
use crate::edit::{self, Files};
use crate::evidence::Evidence;
use crate::journal::Task;
use crate::machine::{Ask, Rules};
use crate::make::judge::{Unfit, builds, judge};
use crate::make::prompt;
use crate::make::record;
use crate::paths::BadPath;
use crate::spec::language::Stub;
use crate::spec::{Language, Making, Plan, plan, stub};

/// Time limit of a session of repairs, in milliseconds: within the 300 s that a client waits (S0.4).
const REPAIR_TIMEOUT_MS: u64 = 280 * 1000;

/// A project without files, as a coder's answer sees it.
struct NoCode(Option<String>);

impl Files for NoCode {
    fn text(&self, _: &str) -> Result<Option<String>, BadPath> {
        Ok(None)
    }

    fn only(&self) -> Option<String> {
        self.0.clone()
    }
}

/// The only source of a plan.
fn only(plan: &Plan, language: Language) -> Option<(String, String)> {
    let mut sources = plan.files.iter().filter(|file| language.is_source(&file.path));
    match (sources.next(), sources.next()) {
        (Some(file), None) => Some((file.path.clone(), file.interface.clone())),
        _ => None,
    }
}

/// The task of a run of tests, or of a repair.
pub(super) fn task(language: Language, words: Option<String>, project: String) -> Task {
    Task {
        kind: "fix".to_owned(),
        project,
        framework: Some(language.framework().to_owned()),
        filter: None,
        deps: false,
        timeout_ms: None,
        model: None,
        words,
        candidates: 1,
        rules: Rules::default(),
        limits: Limits { time_ms: Some(REPAIR_TIMEOUT_MS), ..Limits::default() },
        constraints: Vec::new(),
        max_output_tokens: MAX_OUTPUT_TOKENS,
        seed: None,
    }
}

fn results(evidence: &Evidence, tests: Texts) -> TestResults {
    let failed = |failure: &crate::evidence::Failure| FailedTest {
        id: failure.id.clone(),
        words: crate::text::visible(&failure.words),
    };
    let reason = evidence.reason.as_deref().map(|why| format!(": {why}")).unwrap_or_default();
    TestResults {
        tests,
        passed: evidence.verdict == Verdict::Passed,
        verdict: format!("{}{reason}", evidence.verdict.words()),
        good: evidence.passed() as u64,
        of: evidence.tests.len() as u64,
        failures: evidence.failures.iter().map(failed).collect(),
        output: crate::text::visible(&evidence.output),
        run: evidence.run.clone(),
    }
}

impl Driver<'_> {
    pub(super) async fn create_architecture(
        &self,
        requirements: &str,
        language: Option<&str>,
    ) -> Result<Value, ErrorReport> {
        let wrong = |why| ErrorReport::new(Code::InvalidValue, why).field("language");
        let language = language.map_or(Ok(Language::default()), Language::named).map_err(wrong)?;
        let mut making = making(requirements, language)?;
        making.go = self.check_language(language).await?;
        let client = self.of_role(Role::Architect)?;
        let limits = (calls::room(&client, MAX_OUTPUT_TOKENS).1, None);
        let taken: Vec<String> = language.settings().iter().map(|path| (*path).to_owned()).collect();
        let word = random_hex(8)?;
        let ask = |unusable: Option<crate::prompt::Unusable<'_>>| {
            Ok(prompt::architect(&making, &[], (None, &word), unusable, limits))
        };
        let read = async |text: &str, cut: bool| {
            let plan = match plan::read(text, cut, language, &taken) {
                Ok(plan) => plan,
                Err(why) => return Ok(Err(why.to_string())),
            };
            if language.is_typed() {
                let probe = stub::probe(language, &plan);
                for stub in [Stub::Fails].iter().chain(language.returning()) {
                    match builds(&self.on_stubs(&making, &plan, &probe, *stub).await?) {
                        Ok(()) => {}
                        Err(unfit @ Unfit::NotRun(_)) => {
                            return Err(ErrorReport::new(Code::Limit, unfit.to_string()));
                        }
                        Err(unfit) => return Ok(Err(unfit.to_string())),
                    }
                }
            }
            Ok(Ok(plan))
        };
        let plan = self.talk(Role::Architect, &client, ask, read);
        Ok(json!({ "detailed_plan": DetailedPlan::new(&making, plan.await?) }))
    }

    pub(super) async fn generate_code(&self, detailed: DetailedPlan) -> Result<Value, ErrorReport> {
        let (making, plan) = detailed.checked()?;
        let client = self.of_role(Role::Coder)?;
        let output = calls::room(&client, MAX_OUTPUT_TOKENS).1;
        let only = only(&plan, making.language);
        let words = prompt::words(&making, &plan);
        let brief = only.as_ref().map(|(_, interface)| prompt::brief(&making, interface));
        let word = random_hex(8)?;
        let task = crate::prompt::Task {
            words: Some(&words),
            brief: brief.as_deref(),
            word: &word,
            ..crate::prompt::Task::default()
        };
        let is_short = client.endpoints().all(|endpoint| endpoint.prompts == Prompts::Short);
        let ask = |unusable: Option<crate::prompt::Unusable<'_>>| {
            Ok(match only.as_ref().filter(|_| is_short) {
                Some((path, _)) => {
                    crate::prompt::short::request(Ask::First, &task, path, unusable, output, None)
                }
                None => crate::prompt::request(Ask::First, &task, unusable, output, None),
            })
        };
        let view = NoCode(only.as_ref().map(|(path, _)| path.clone()));
        let read = async |text: &str, cut: bool| {
            Ok(edit::read(text, cut, &view).map(|edit| edit.files).map_err(|why| why.to_string()))
        };
        let written = self.talk(Role::Coder, &client, ask, read).await?;
        let code = CodePackage { plan: detailed, files: written.into_iter().collect() };
        Ok(json!({ "code_package": code }))
    }

    /// Tests on stubs of a plan's sources.
    async fn on_stubs(
        &self,
        making: &Making,
        plan: &Plan,
        tests: &[(String, String)],
        stub: Stub,
    ) -> Result<Evidence, ErrorReport> {
        let language = making.language;
        let of = (language, making.go.unwrap_or_default());
        let all = stub::project(of, plan, stub, tests.iter().cloned());
        let command = ["role", "tests on a stub"].map(str::to_owned).into();
        self.tested_alone(Some(language.framework()), &all, command).await
    }

    /// Runs the tests of files in a workspace of their own.
    async fn tested_files(
        &self,
        language: Language,
        all: &[(String, String)],
        what: &str,
    ) -> Result<Evidence, ErrorReport> {
        let workspace = self.bench.begin(all)?;
        let tested = self.test(&task(language, None, "role".to_owned()), &workspace, what).await;
        self.bench.remove(&workspace);
        let (_, evidence) = tested?;
        if matches!(evidence.verdict, Verdict::NotInstalled | Verdict::Refused) {
            let why = evidence.reason.as_deref().unwrap_or(evidence.verdict.words());
            return Err(ErrorReport::new(Code::Refused, format!("tests cannot run here: {why}")));
        }
        Ok(evidence)
    }

    pub(super) async fn generate_tests(&self, code: CodePackage) -> Result<Value, ErrorReport> {
        let (making, plan) = code.plan.checked()?;
        let client = self.of_role(Role::Tester)?;
        let limits = (calls::room(&client, MAX_OUTPUT_TOKENS).1, None);
        let word = random_hex(8)?;
        let ask = |unusable: Option<crate::prompt::Unusable<'_>>| {
            Ok(prompt::tester(&making, (&plan, &[]), (None, &word), unusable, limits))
        };
        let read = async |text: &str, cut: bool| {
            let tests = match record::tests_in(text, cut, making.language, &plan) {
                Ok(tests) => tests,
                Err(why) => return Ok(Err(why.to_string())),
            };
            let names: Vec<String> = tests.iter().map(|(path, _)| path.clone()).collect();
            let fails = self.on_stubs(&making, &plan, &tests, Stub::Fails).await?;
            let mut judged = judge(&fails, &[], &names);
            if judged.is_ok() {
                let mut returns = Vec::new();
                for stub in making.language.returning() {
                    returns.push(self.on_stubs(&making, &plan, &tests, *stub).await?);
                }
                judged = judge(&fails, &returns, &names);
            }
            Ok(judged.map(|()| (tests, fails)).map_err(|unfit| unfit.to_string()))
        };
        let (tests, fails) = self.talk(Role::Tester, &client, ask, read).await?;
        let of = fails.tests.len();
        let package = TestPackage {
            files: tests.into_iter().collect(),
            failing_on_stub: (of - fails.passed()) as u64,
            of: of as u64,
        };
        Ok(json!({ "test_package": package }))
    }

    pub(super) async fn run_package(
        &self,
        code: CodePackage,
        tests: TestPackage,
    ) -> Result<Value, ErrorReport> {
        let (making, _) = code.plan.checked()?;
        let language = making.language;
        let mut all = files("code_package", &code.files, false)?;
        all.extend(files("test_package", &tests.files, true)?);
        let settings = making.setting_files(all.iter().map(|(path, _)| &**path));
        all.extend(settings);
        let evidence = self.tested_files(language, &all, "run_tests of a role").await?;
        Ok(json!({ "test_results": results(&evidence, tests.files) }))
    }
}
