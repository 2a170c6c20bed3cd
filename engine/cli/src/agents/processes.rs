//! `hotcell make --processes`: the workflow as a client of four processes, one for each role (S0.1 to S0.6). A process that ends is started again.

use std::ffi::OsString;
use std::path::Path;
use std::time::Duration;

use hotcell_agents::make::output;
use hotcell_agents::roles::data::{self, AttemptMade, CodePackage, DetailedPlan, TestPackage, TestResults};
use hotcell_agents::spec::GoVersion;
use hotcell_agents::{Language, Role};
use hotcell_client::{Call, CallError, Client, Options, Server, Unconfined};
use hotcell_sandbox::text::printable_line;
use hotcell_state::report::{Code, ErrorReport};
use schemars::JsonSchema;
use serde::de::DeserializeOwned;
use serde::{Deserialize, Serialize};
use serde_json::{Value, json};

use super::{bench, folder};
use crate::args::Common;
use crate::context::{current_folder, runtime};
use crate::exit::{self, printed};
use crate::signals::interrupted;
use crate::terminal::notes;

/// Value of the `schema` field.
pub const SCHEMA: &str = "hotcell.make_processes/1";
/// Time limit of a call (S0.4); a debugger's call has all of its repairs.
const CALL_TIMEOUT: Duration = Duration::from_secs(300);

/// Result of a workflow over four processes.
#[derive(Debug, Serialize, Deserialize, JsonSchema)]
pub struct ProcessesReport {
    /// Always `hotcell.make_processes/1`.
    pub schema: String,
    /// True when all tests pass.
    pub success: bool,
    /// Good tests in the end.
    pub good: u64,
    /// All tests.
    pub of: u64,
    /// Code, by path.
    pub code: std::collections::BTreeMap<String, String>,
    /// Tests, by path.
    pub tests: std::collections::BTreeMap<String, String>,
    /// Number of the debugger's attempts.
    pub attempts: u64,
    /// Roles whose process ended and was started again.
    pub restarted: Vec<String>,
    /// Folder that the result was written to.
    pub out: Option<String>,
    /// Version of Go in the settings.
    #[serde(skip)]
    #[schemars(skip)]
    go: Option<GoVersion>,
}

/// Answer of a debugger.
#[derive(Deserialize)]
struct Fixed {
    success: bool,
    fixed_code: data::Texts,
    attempts: Vec<AttemptMade>,
    final_test_results: Value,
}

/// A role's process.
struct Member {
    role: Role,
    client: Client,
}

/// The four processes.
struct Team<'a> {
    common: &'a Common,
    members: Vec<Member>,
    restarted: Vec<String>,
}

async fn start(common: &Common, role: Role) -> Result<Client, ErrorReport> {
    let failed =
        |e: std::io::Error| ErrorReport::new(Code::Internal, format!("the path of this program: {e}"));
    let mut program = Unconfined::new(std::env::current_exe().map_err(failed)?);
    for (option, path) in [("--state", &common.state), ("--config", &common.config)] {
        if let Some(path) = path {
            program = program.arg(option).arg(current_folder().join(path));
        }
    }
    let words = ["mcp", "--role", role.name()].map(OsString::from);
    let program = words.into_iter().fold(program, Unconfined::arg);
    // A lost process is started again here, so that it is told.
    let options = Options { attempts: Some(0), ..Options::default() };
    let client = Client::new(Server::Unconfined(program), options);
    client.connect().await.map_err(|e| {
        ErrorReport::new(Code::Internal, format!("the process of the {} does not start: {e}", role.name()))
    })?;
    Ok(client)
}

impl<'a> Team<'a> {
    async fn start(common: &'a Common) -> Result<Self, ErrorReport> {
        let mut members = Vec::new();
        for role in Role::ALL {
            members.push(Member { role, client: start(common, role).await? });
        }
        Ok(Self { common, members, restarted: Vec::new() })
    }

    fn say(&self, line: &str) {
        if !self.common.quiet && !self.common.json {
            notes::say(printable_line(line));
        }
    }

    /// Calls a tool of a role; the field of its answer. A process that ended is started again, once for each call.
    async fn call<T: DeserializeOwned>(
        &mut self,
        role: Role,
        tool: &str,
        arguments: Value,
        field: Option<&str>,
    ) -> Result<T, ErrorReport> {
        let lost = |why: String| ErrorReport::new(Code::Refused, format!("{}: {why}", role.name()));
        let mut again = true;
        let answer = loop {
            let Some(member) = self.members.iter_mut().find(|member| member.role == role) else {
                return Err(lost("has no process".to_owned()));
            };
            match member.client.call(Call::new(tool, arguments.clone()).within(CALL_TIMEOUT)).await {
                Ok(answer) => break answer,
                Err(error @ (CallError::NotSent(_) | CallError::Unknown(_))) if again => {
                    again = false;
                    member.client.close().await;
                    member.client = start(self.common, role).await?;
                    self.restarted.push(role.name().to_owned());
                    self.say(&format!(
                        "{}: its process ended ({error}); another one is started",
                        role.name()
                    ));
                }
                Err(error) => return Err(lost(error.to_string())),
            }
        };
        let text = answer.text();
        if answer.is_error {
            return Err(lost(printable_line(text.trim())));
        }
        let odd = |e: serde_json::Error| lost(format!("its answer to {tool} cannot be read: {e}"));
        let mut value: Value = serde_json::from_str(&text).map_err(odd)?;
        let value = match field {
            Some(field) => value[field].take(),
            None => value,
        };
        serde_json::from_value(value).map_err(odd)
    }

    async fn work(&mut self, spec: &str, language: &str) -> Result<ProcessesReport, ErrorReport> {
        self.say("architect: plans");
        let asked = json!({ "requirements": spec, "language": language });
        let plan: DetailedPlan =
            self.call(Role::Architect, "create_architecture", asked, Some("detailed_plan")).await?;
        let names: Vec<&str> = plan.files.iter().map(|file| file.path.as_str()).collect();
        self.say(&format!("architect: planned {}; coder: writes", names.join(", ")));
        let asked = json!({ "architectural_plan": plan });
        let mut code: CodePackage =
            self.call(Role::Coder, "generate_code", asked, Some("code_package")).await?;
        self.say(&format!("coder: wrote {} files; tester: writes tests", code.files.len()));
        let asked = json!({ "code_package": code });
        let tests: TestPackage =
            self.call(Role::Tester, "generate_tests", asked, Some("test_package")).await?;
        self.say(&format!(
            "tester: {} of {} tests fail on a stub; runs them",
            tests.failing_on_stub, tests.of
        ));
        let asked = json!({ "code_package": code, "test_package": tests });
        let results: TestResults = self.call(Role::Tester, "run_tests", asked, Some("test_results")).await?;
        let (mut success, mut good, mut of) = (results.passed, results.good, results.of);
        self.say(&format!("tester: {good} of {of} tests are good ({})", results.verdict));
        let mut attempts = 0;
        if !success {
            self.say("debugger: repairs");
            let asked = json!({ "code": code, "test_results": results });
            let fixed: Fixed = self.call(Role::Debugger, "fix_code", asked, None).await?;
            attempts = fixed.attempts.len() as u64;
            code.files = fixed.fixed_code;
            let count = |name: &str| fixed.final_test_results[name].as_u64().unwrap_or(0);
            (success, good, of) = (fixed.success, count("good"), count("of").max(of));
            self.say(&format!("debugger: {good} of {of} tests are good after {attempts} attempts"));
        }
        Ok(ProcessesReport {
            schema: SCHEMA.to_owned(),
            success,
            good,
            of,
            code: code.files,
            tests: tests.files,
            attempts,
            restarted: Vec::new(),
            out: None,
            go: code.plan.go,
        })
    }

    async fn close(self) {
        for member in self.members {
            member.client.close().await;
        }
    }
}

/// Makes a program with four processes; returns the exit status.
///
/// # Errors
/// A report when a role has no usable answer, or the result cannot be written.
pub fn make(common: &Common, spec: &str, language: Language, out: Option<&str>) -> Result<u8, ErrorReport> {
    let runtime = runtime().map_err(|e| ErrorReport::new(Code::Internal, format!("{e:#}")))?;
    let made = runtime.block_on(async {
        let mut team = Team::start(common).await?;
        let made = tokio::select! {
            made = team.work(spec, language.name()) => made.map(Some),
            () = interrupted() => Ok(None),
        };
        let restarted = std::mem::take(&mut team.restarted);
        team.close().await;
        made.map(|made| made.map(|made| ProcessesReport { restarted, ..made }))
    })?;
    let Some(mut report) = made else { return Ok(130) };
    let mut all = data::files("code", &report.code, false)?;
    all.extend(data::files("tests", &report.tests, true)?);
    let settings = language.setting_files(all.iter().map(|(path, _)| &**path), report.go.unwrap_or_default());
    all.extend(settings);
    if let Some(out) = out.filter(|_| report.success) {
        let bench = bench(&folder(common)?)?;
        let workspace = bench.begin(&all)?;
        let written = output::write(&bench, (&workspace, 0), Path::new(out));
        bench.remove(&workspace);
        written?;
        report.out = Some(out.to_owned());
    }
    let code = u8::from(!report.success);
    let result = if common.json { exit::print_json(&report) } else { exit::print_text(&page(&report)) };
    Ok(printed(result, code))
}

fn page(report: &ProcessesReport) -> String {
    let word = if report.success { "made" } else { "not made" };
    let mut text = format!("{word}: {} of {} tests are good", report.good, report.of);
    if report.attempts > 0 {
        text.push_str(&format!("; {} attempts of the debugger", report.attempts));
    }
    text.push('\n');
    for role in &report.restarted {
        text.push_str(&format!("the process of the {role} ended and was started again\n"));
    }
    match &report.out {
        Some(out) => text.push_str(&format!("written to {}\n", printable_line(out))),
        None => {
            for (path, file) in report.code.iter().chain(&report.tests) {
                text.push_str(&format!("=== {} ===\n", printable_line(path)));
                text.extend(file.lines().map(|line| printable_line(line) + "\n"));
            }
        }
    }
    text
}
