//! `hotcell fix`, `hotcell make` and `hotcell agent`: loops in which models write and repair code.

pub mod make;
mod page;
pub mod processes;
mod receipt;
pub mod roles;

use std::path::{Path, PathBuf};
use std::sync::Arc;
use std::time::Duration;

use hotcell_agents::bench::Bench;
use hotcell_agents::driver::{self, Driver};
use hotcell_agents::report::{LIST_SCHEMA, SessionEntry, SessionList};
use hotcell_agents::{Action, Ended, Journal, Limit, Limits, Phase, Rules, SessionReport, Task};
use hotcell_config::{Configuration, RunSettings, typed};
use hotcell_deps::{DepsError, Purpose};
use hotcell_receipts::{Subject, tree};
use hotcell_sandbox::Engine;
use hotcell_sandbox::profile::LimitSettings;
use hotcell_state::report::{Code, ErrorReport};
use hotcell_state::state::StateFolder;
use hotcell_state::time::rfc3339;
use hotcell_testing::report::judge::NO_TESTS;
use hotcell_testing::{Cancel, Verdict};
use hotcell_toolchain::Surroundings;
use hotcell_verbs::workspaces;
use hotcell_workspace::Stack;

use self::receipt::Witness;
use crate::args::{Common, FixArgs, RepairCommand, ResumeArgs};
use crate::context::{configuration, current_folder, runtime, state};
use crate::deps::Provider;
use crate::exit::printed;
use crate::receipt::make::{Receipt, ReceiptOf};
use crate::render::{changes, diff};
use crate::signals::interrupted;
use crate::terminal::notes;
use crate::{exit, usage};

/// Hint for a project whose tests have no result.
const SEE_TESTS: &str = "hotcell fix needs tests that fail; hotcell test shows what they say";
/// Hint for a project without tests.
const WRITE_TESTS: &str =
    "hotcell fix needs tests that fail: write them, or let hotcell make SPEC.md write a program with tests";

/// Gets the files of an artifact.
type Look<'a> = &'a dyn Fn(&Stack<'_>);

/// Name of the receipt in an exported folder.
const RECEIPT: &str = "receipt.json";
/// Time limit of a session without `--budget TIME` (S2.21).
const SESSION_TIMEOUT: Duration = Duration::from_secs(30 * 60);

/// Runs `hotcell fix`; returns its exit status.
pub fn fix(common: &Common, args: &FixArgs) -> u8 {
    run_fix(common, args).unwrap_or_else(|report| usage::fail(&report, common.json))
}

/// Runs `hotcell agent`; returns its exit status.
pub fn agent(common: &Common, command: &RepairCommand) -> u8 {
    let answer = match command {
        RepairCommand::List => list(common),
        RepairCommand::Show { id } => show(common, id),
        RepairCommand::Resume(args) => resume(common, args),
        RepairCommand::Export { id, to, receipt } => export(common, id, to, *receipt),
    };
    answer.unwrap_or_else(|report| usage::fail(&report, common.json))
}

pub fn folder(common: &Common) -> Result<StateFolder, ErrorReport> {
    let choice = state(common, &configuration(common, None)?);
    let bad =
        |e: hotcell_state::state::StateError| ErrorReport::new(Code::State, e.to_string()).field("--state");
    StateFolder::open(choice.path().map_err(bad)?).map_err(bad)
}

pub fn bench(folder: &StateFolder) -> Result<Bench, ErrorReport> {
    Ok(Bench(Arc::new(workspaces::store(folder)?)))
}

fn run_fix(common: &Common, args: &FixArgs) -> Result<u8, ErrorReport> {
    let cwd = current_folder();
    let bad = |why: String| {
        ErrorReport::new(Code::InvalidValue, format!("the project {}: {why}", args.project.display()))
            .field("DIR")
    };
    typed::real_from(&cwd, &args.project, &[]).map_err(|e| bad(e.to_string()))?;
    let project =
        cwd.join(&args.project).canonicalize().map_err(|e| bad(format!("{e}; name a folder that exists")))?;
    if !project.is_dir() {
        return Err(bad("it is not a folder".to_owned()));
    }
    let Some(text) = project.to_str() else { return Err(bad("its path is not UTF-8".to_owned())) };
    let limits = limits(&args.effort.budget)?;
    let task = Task {
        kind: "fix".to_owned(),
        project: text.to_owned(),
        framework: args.framework.clone(),
        filter: args.filter.clone(),
        deps: args.deps,
        timeout_ms: args.effort.timeout.map(millis),
        model: args.model.clone(),
        words: None,
        candidates: args.effort.candidates,
        rules: Rules { iterations: args.effort.iterations, ..Rules::default() },
        limits,
        constraints: args.effort.constraint.clone(),
        max_output_tokens: args.effort.max_tokens,
        seed: args.effort.seed,
    };
    let receipt = args.effort.receipt.as_deref();
    drive(common, &task.clone(), receipt, async |driver| driver.fix(task, args.commit).await)
}

/// Limits of a session: those of `--budget`, and [`SESSION_TIMEOUT`] where it names no time.
///
/// # Errors
/// [`ErrorReport`] for limits that contradict one another.
pub fn limits(budget: &[Limit]) -> Result<Limits, ErrorReport> {
    Limits { time_ms: Some(millis(SESSION_TIMEOUT)), ..Limits::default() }
        .with(budget)
        .map_err(|why| ErrorReport::new(Code::InvalidValue, why).field("--budget"))
}

fn millis(time: Duration) -> u64 {
    u64::try_from(time.as_millis()).unwrap_or(u64::MAX)
}

fn resume(common: &Common, args: &ResumeArgs) -> Result<u8, ErrorReport> {
    let found = Journal::open(&folder(common)?).and_then(|journal| journal.find(&args.id));
    let found = found.map_err(|e| {
        ErrorReport::new(Code::UnknownName, e.to_string()).hint("hotcell agent list shows them")
    })?;
    make::check_resume(&found.task.kind, args)?;
    let out = args.out.as_deref().map(make::out).transpose()?;
    let wrong = |why: String| ErrorReport::new(Code::InvalidValue, why).field("--budget");
    Limits::default().with(&args.budget).map_err(wrong)?;
    let decision = match (args.accept, args.abort, &args.model, &args.constraint[..]) {
        (true, ..) => Some(Action::AcceptBestEffort),
        (_, true, ..) => Some(Action::Abort),
        (_, _, Some(model), _) => Some(Action::SwitchLlm { model: model.clone() }),
        (_, _, None, [_, ..]) => Some(Action::RetryWithConstraints { constraints: args.constraint.clone() }),
        _ if args.iterations.is_some() || !args.budget.is_empty() => Some(Action::Continue),
        _ => None,
    };
    let change = |task: &mut Task| {
        if let Some(iterations) = args.iterations {
            task.rules.iterations = iterations;
        }
        if let Ok(limits) = task.limits.with(&args.budget) {
            task.limits = limits;
        }
        if args.model.is_some() {
            task.model.clone_from(&args.model);
        }
        task.constraints.extend(args.constraint.iter().cloned());
    };
    drive(common, &found.task, args.receipt.as_deref(), async |driver| {
        // A plan that is given up must not go on.
        if found.task.kind == "make" && !args.abort {
            driver.remake(&found.id, out)?;
        }
        driver.resume(&found.id, decision, change, args.commit).await
    })
}

/// Makes a driver with the time limit of one test run and the witness of the artifact, and lets it work until it ends or is interrupted. `None`: it was
/// interrupted. `deps` is a task whose project has its packages installed for the tests, if there is one.
///
/// # Errors
/// [`ErrorReport`] when no runtime can be made, or the packages cannot be installed.
pub fn driven<T>(
    common: &Common,
    configuration: &Configuration,
    (folder, bench): (&StateFolder, Bench),
    (timeout, deps, seen): (Option<Duration>, Option<&Task>, Option<Look<'_>>),
    work: impl AsyncFnOnce(&Driver<'_>) -> T,
) -> Result<Option<T>, ErrorReport> {
    let engine = Engine::new();
    let runtime = runtime().map_err(|e| ErrorReport::new(Code::Internal, format!("{e:#}")))?;
    let mut settings = RunSettings {
        limits: LimitSettings { timeout, ..LimitSettings::default() },
        ..RunSettings::default()
    };
    if let Some(task) = deps {
        let choice = state(common, configuration);
        let provider =
            Provider { common, engine: &engine, runtime: &runtime, configuration, choice: &choice };
        install(&provider, task, &mut settings)?;
    }
    let silent = common.quiet || common.json;
    let say = |line: &str| {
        if !silent {
            notes::say(line);
        }
    };
    let driver = Driver {
        folder,
        bench,
        configuration,
        settings,
        engine: &engine,
        models: &configuration.user.models,
        around: Surroundings::of_this_process(),
        cancel: Cancel::default(),
        say: &say,
        seen,
    };
    let ended = runtime.block_on(async {
        tokio::select! {
            ended = work(&driver) => Some(ended),
            () = interrupted() => None,
        }
    });
    if ended.is_none() {
        driver.cancel.cancel();
    }
    engine.leave();
    Ok(ended)
}

/// Installs what the lock files of a task's project name, for its tests.
fn install(provider: &Provider<'_>, task: &Task, settings: &mut RunSettings) -> Result<(), ErrorReport> {
    let project = Path::new(&task.project);
    let purpose = Purpose::Tests(task.framework.as_deref());
    let refused = match provider.provide(project, settings, None, purpose) {
        Ok(0) => hotcell_deps::no_lock_file(project),
        Ok(_) => return Ok(()),
        Err(DepsError::Wrong(report)) => return Err(report),
        Err(DepsError::Refused(report)) => *report,
    };
    let why = refused.outcome.reason.unwrap_or_else(|| "the packages were not installed".to_owned());
    Err(ErrorReport::new(Code::Refused, why).field("--deps"))
}

/// Lets a driver work on a session, and prints the result.
fn drive(
    common: &Common,
    task: &Task,
    file: Option<&Path>,
    work: impl AsyncFnOnce(&Driver<'_>) -> Result<Ended, ErrorReport>,
) -> Result<u8, ErrorReport> {
    // The settings beside a specification are not those of the new project.
    let project = (task.kind != "make").then(|| PathBuf::from(&task.project));
    let configuration = configuration(common, project.clone())?;
    let mut wanted = receipt::open(file, project.as_deref(), &configuration)?;
    let witness = Witness::default();
    let look = |view: &Stack<'_>| witness.look(view);
    let seen: Option<Look<'_>> = if wanted.is_some() { Some(&look) } else { None };
    let folder = folder(common)?;
    let bench = bench(&folder)?;
    let timeout = task.timeout_ms.map(Duration::from_millis);
    let limits = (timeout, task.deps.then_some(task), seen);
    let Some(ended) = driven(common, &configuration, (&folder, bench), limits, work)? else {
        notes::say(
            "interrupted; hotcell agent list shows the session, and hotcell agent resume ID goes on with it",
        );
        return Ok(Verdict::Interrupted.exit_code());
    };
    match ended? {
        Ended::NothingToFix(evidence) => {
            let report = SessionReport::without_work(task, &evidence);
            let line =
                format!("nothing to fix: {} of {} tests are good\n", evidence.passed(), evidence.tests.len());
            let result = if common.json { exit::print_json(&report) } else { exit::print_text(&line) };
            let code = printed(result, 0);
            let Some(wanted) = &mut wanted else { return Ok(code) };
            // The project itself is good: the statement is about it.
            let digest = tree::subject("project", Path::new(&task.project), &[]).map_err(|e| e.to_string());
            Ok(signed(
                code,
                digest.and_then(|project| receipt::issue(wanted, &report, &[], &witness, vec![project])),
            ))
        }
        Ended::NoResult(report) => {
            let reason = report.reason.as_deref().unwrap_or("the tests have no result");
            let error = ErrorReport::new(Code::Refused, reason.to_owned())
                .field("DIR")
                .hint(if reason.starts_with(NO_TESTS) { WRITE_TESTS } else { SEE_TESTS });
            usage::fail(&error, common.json);
            Ok(report.verdict.exit_code())
        }
        Ended::Session(report) => {
            let code = print(common, &report);
            let Some(wanted) = &mut wanted else { return Ok(code) };
            let rows =
                report.id.as_deref().map(|id| Journal::open(&folder).and_then(|journal| journal.rows(id)));
            let issued = match rows.transpose() {
                Ok(rows) => receipt::issue(wanted, &report, &rows.unwrap_or_default(), &witness, Vec::new()),
                Err(error) => Err(error.to_string()),
            };
            Ok(signed(code, issued))
        }
    }
}

/// Exit status of a session whose receipt was wanted.
fn signed(code: u8, issued: Result<(), String>) -> u8 {
    match issued {
        Ok(()) => code,
        Err(why) => {
            notes::say(format!("error: no receipt: {why}"));
            exit::REFUSED
        }
    }
}

/// Prints a report; returns the exit status of its session.
fn print(common: &Common, report: &SessionReport) -> u8 {
    let failed_commit = report.commit.as_ref().is_some_and(|commit| commit.error.is_some());
    let code = match (report.state, failed_commit) {
        (_, true) | (Phase::Failed, _) => exit::REFUSED,
        (Phase::Converged | Phase::Idle, _) => 0,
        _ => 1,
    };
    if common.json {
        return printed(exit::print_json(report), code);
    }
    // Files that are written need no diff.
    let diff = report.diff.as_ref().filter(|_| !report.made.as_ref().is_some_and(|made| made.written));
    let result = exit::print_text(&page::page(report)).and_then(|()| match diff {
        Some(text) => diff::print(text),
        None => Ok(()),
    });
    if let Some(commit) = &report.commit {
        changes::committed(commit, common.quiet);
    }
    if !common.quiet {
        report.actions.iter().for_each(|action| notes::say(format!("next: {action}")));
    }
    printed(result, code)
}

fn list(common: &Common) -> Result<u8, ErrorReport> {
    let folder = folder(common)?;
    let rows = Journal::open(&folder).and_then(|journal| journal.list());
    let rows = rows.map_err(|e| ErrorReport::new(Code::State, e.to_string()))?;
    let entry = |row: hotcell_agents::journal::SessionRow| SessionEntry {
        state: driver::listed_state(&folder, &row.id, &row.state),
        id: row.id,
        started: rfc3339(row.time_us),
        kind: row.task.kind,
        project: row.task.project,
    };
    let list =
        SessionList { schema: LIST_SCHEMA.to_owned(), sessions: rows.into_iter().map(entry).collect() };
    let result = if common.json {
        exit::print_json(&list)
    } else if list.sessions.is_empty() {
        if !common.quiet {
            notes::say("no sessions yet; hotcell fix DIR or hotcell make SPEC begins one");
        }
        Ok(())
    } else {
        exit::print_text(&page::list(&list))
    };
    Ok(printed(result, 0))
}

fn show(common: &Common, id: &str) -> Result<u8, ErrorReport> {
    let folder = folder(common)?;
    let (report, _) = Driver::show(&folder, &bench(&folder)?, id)?;
    print(common, &report);
    Ok(0)
}

fn export(common: &Common, id: &str, to: &Path, signed: bool) -> Result<u8, ErrorReport> {
    let folder = folder(common)?;
    let (report, rows) = Driver::show(&folder, &bench(&folder)?, id)?;
    let to = current_folder().join(to);
    let bad = |e: std::io::Error| {
        ErrorReport::new(Code::InvalidValue, format!("{} cannot be written: {e}", to.display()))
            .field("DIR")
            .hint("name a folder that does not exist, in one that does")
    };
    let internal = |why: String| ErrorReport::new(Code::Internal, why);
    let events = receipt::lines(&rows).map_err(internal)?;
    let text = serde_json::to_string_pretty(&report).map_err(|e| internal(e.to_string()))? + "\n";
    std::fs::create_dir(&to).map_err(bad)?;
    let mut code = "";
    if let (Some(_), Some(best)) = (&report.made, &report.best) {
        std::fs::create_dir(to.join("code")).map_err(bad)?;
        Driver::write_best(&folder, &bench(&folder)?, id, best, &to.join("code"))?;
        code = ", code";
    }
    let mut written = Vec::new();
    for (name, text) in [
        ("session.json", text.as_str()),
        ("events.jsonl", &events),
        ("changes.patch", report.diff.as_deref().unwrap_or_default()),
    ] {
        std::fs::write(to.join(name), text).map_err(bad)?;
        written.push(Subject::sha256(name, text.as_bytes()));
    }
    if signed {
        written.pop();
        let witness = Witness::default();
        if let Some(best) = &report.best {
            let seen = Driver::look_at_best(&folder, &bench(&folder)?, id, best, |view| {
                witness.look(view);
                Ok(())
            });
            // A session whose changes were taken over has no workspace with them any more.
            if let Err(error) = seen {
                tracing::warn!("the receipt names the exported files only: {}", error.message);
            }
        }
        let file = to.join(RECEIPT);
        let configuration = configuration(common, None)?;
        let opened = Receipt::open(Some(&file), &[], &configuration, ReceiptOf::Command);
        let mut made = opened.inspect_err(|_| drop(std::fs::remove_dir_all(&to)))?;
        receipt::issue(&mut made, &report, &rows, &witness, written)
            .map_err(|why| internal(format!("no receipt: {why}")))?;
    }
    if common.json {
        return Ok(printed(exit::print_json(&report), 0));
    }
    if !common.quiet {
        let receipt = if signed { ", receipt.json" } else { "" };
        notes::say(format!(
            "{}: session.json, events.jsonl ({} events), changes.patch{code}{receipt}",
            to.display(),
            rows.len()
        ));
    }
    Ok(0)
}
