//! `hotcell make`: the request from its arguments, and the part of a page that only its sessions have.

use std::path::{Path, PathBuf};
use std::time::Duration;

use hotcell_agents::make::output;
use hotcell_agents::make::report::{MadeReport, StageReport};
use hotcell_agents::spec::{inputs, plan};
use hotcell_agents::{Making, Rules, Task};
use hotcell_config::typed;
use hotcell_sandbox::text::printable_line;
use hotcell_state::report::{Code, ErrorReport};

use super::page::{counted, why};
use super::{drive, limits, millis};
use crate::args::{Common, MakeArgs, ResumeArgs};
use crate::context::current_folder;
use crate::usage;

/// Maximum length of a line about an answer, in characters.
const MAX_LINE_CHARS: usize = 96;

/// Runs `hotcell make`; returns its exit status.
pub fn make(common: &Common, args: &MakeArgs) -> u8 {
    run(common, args).unwrap_or_else(|report| usage::fail(&report, common.json))
}

fn run(common: &Common, args: &MakeArgs) -> Result<u8, ErrorReport> {
    let (task, making) = request(args)?;
    if args.processes {
        return super::processes::make(common, &making.spec, making.language, making.out.as_deref());
    }
    drive(common, &task.clone(), args.effort.receipt.as_deref(), async |driver| {
        driver.make(task, making).await
    })
}

/// A path of the user, without a way over a link of a clone's.
fn real(path: &Path, what: &str, field: &str) -> Result<PathBuf, ErrorReport> {
    let cwd = current_folder();
    typed::real_from(&cwd, path, &[]).map_err(|e| bad(path, what, field, &e.to_string()))?;
    Ok(cwd.join(path))
}

fn bad(path: &Path, what: &str, field: &str, why: &str) -> ErrorReport {
    ErrorReport::new(Code::InvalidValue, format!("{what} {}: {why}", path.display())).field(field)
}

fn utf8(path: PathBuf, field: &str) -> Result<String, ErrorReport> {
    path.into_os_string().into_string().map_err(|path| {
        ErrorReport::new(Code::InvalidValue, format!("the path {} is not UTF-8", Path::new(&path).display()))
            .field(field)
    })
}

/// The folder of a result, checked, as an absolute path.
pub fn out(path: &Path) -> Result<String, ErrorReport> {
    let folder = real(path, "the folder", "--out")?;
    output::check(&folder)?;
    utf8(folder, "--out")
}

fn request(args: &MakeArgs) -> Result<(Task, Making), ErrorReport> {
    let limits = limits(&args.effort.budget)?;
    let file = real(&args.spec, "the specification", "SPEC")?;
    let spec = inputs::spec(&file).map_err(|why| bad(&args.spec, "the specification", "SPEC", &why))?;
    let tests = match &args.tests {
        None => Vec::new(),
        Some(path) => {
            let folder = real(path, "the tests", "--tests")?;
            inputs::tests(&folder, args.lang).map_err(|why| bad(path, "the tests", "--tests", &why))?
        }
    };
    let plan = match &args.plan {
        None => None,
        Some(path) => {
            let file = real(path, "the plan", "--plan")?;
            let text = inputs::spec(&file).map_err(|why| bad(path, "the plan", "--plan", &why))?;
            let taken: Vec<String> = tests.iter().map(|(path, _)| path.clone()).collect();
            plan::given(&text, args.lang, &taken)
                .map_err(|why| bad(path, "the plan", "--plan", &why.to_string()))?;
            Some(text)
        }
    };
    let out = args.out.as_deref().map(out).transpose()?;
    let task = Task {
        kind: "make".to_owned(),
        project: utf8(file.canonicalize().unwrap_or(file), "SPEC")?,
        // Given tests may have another one.
        framework: tests.is_empty().then(|| args.lang.framework().to_owned()),
        filter: None,
        deps: false,
        timeout_ms: args.effort.timeout.map(|time: Duration| millis(time)),
        model: args.model.clone(),
        words: None,
        candidates: args.effort.candidates,
        rules: Rules { iterations: args.effort.iterations, ..Rules::default() },
        limits,
        constraints: args.effort.constraint.clone(),
        max_output_tokens: args.effort.max_tokens,
        seed: args.effort.seed,
    };
    Ok((task, Making { language: args.lang, spec, plan, tests, plan_only: args.plan_only, out, go: None }))
}

/// Checks what `resume` says about the result, which a project has elsewhere than a specification.
pub fn check_resume(kind: &str, args: &ResumeArgs) -> Result<(), ErrorReport> {
    match (kind, args.commit, &args.out) {
        ("make", true, _) => {
            let why = "a session of hotcell make has no project to write to";
            Err(ErrorReport::new(Code::Usage, why).field("--commit").hint("--out DIR writes a new folder"))
        }
        ("make", ..) | (_, _, None) => Ok(()),
        (kind, _, Some(_)) => {
            let why = format!("a session of hotcell {kind} makes no new project");
            Err(ErrorReport::new(Code::Usage, why).field("--out").hint("--commit writes to its project"))
        }
    }
}

/// Plan, stages and tests.
pub fn page(made: &MadeReport) -> String {
    let mut text = String::new();
    if let Some(plan) = &made.plan {
        let summary = if plan.summary.is_empty() { "" } else { ": " };
        text.push_str(&format!(
            "{} in {}{summary}{}\n",
            if made.plan_given { "given plan" } else { "plan" },
            made.language.name(),
            printable_line(&plan.summary)
        ));
        for file in &plan.files {
            text.push_str(&format!(
                "  {:<24} {}\n",
                printable_line(&file.path),
                printable_line(&file.purpose)
            ));
            let interface = file.interface.lines().map(|line| format!("    {}\n", printable_line(line)));
            text.extend(interface);
        }
        if !made.without_stub_value.is_empty() {
            text.push_str(&format!(
                "no stub has a value for: {}; their tests are judged by the stub that fails, and by mutants\n",
                printable_line(&made.without_stub_value.join(", "))
            ));
        }
    }
    made.stages.iter().for_each(|stage| text.push_str(&refused(stage)));
    if let Some(tests) = &made.tests {
        let whose = if tests.given { "given tests" } else { "tests" };
        text.push_str(&format!(
            "{whose}: {} of {} fail on a stub; frozen: {} ({})\n",
            tests.failing_on_stub,
            tests.of,
            printable_line(&tests.files.join(", ")),
            &tests.digest[..tests.digest.len().min(12)]
        ));
    }
    text
}

/// Refused answers of a stage, and how it ended without success.
fn refused(stage: &StageReport) -> String {
    let mut text = String::new();
    for (at, answer) in stage.answers.iter().enumerate() {
        if let Some(why) = &answer.refused {
            let line = format!("{}, answer {}: not usable: {}", stage.role, at + 1, why.replace('\n', " "));
            text.extend(printable_line(&line).chars().take(MAX_LINE_CHARS));
            text.push('\n');
        }
    }
    if let Some(reason) = &stage.reason {
        text.push_str(&format!(
            "{}: {} without success: {}\n",
            stage.role,
            counted(stage.answers.len() as u64, "answer"),
            why(reason)
        ));
    }
    text
}
