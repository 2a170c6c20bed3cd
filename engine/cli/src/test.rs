//! `hotcell test`: from options to a report for people, for programs and for a workflow.

use std::fs::OpenOptions;
use std::io::{self, IsTerminal, Write};
use std::path::Path;
use std::sync::Arc;

use hotcell_sandbox::toolchain::Surroundings;
use hotcell_sandbox::{Engine, Outcome, Spawn};
use hotcell_service::changes::Keep;
use hotcell_service::deps::{self, DepsError, Purpose};
use hotcell_service::history::Stored;
use hotcell_service::kept::Kept;
use hotcell_service::report::{Code, ErrorReport};
use hotcell_service::state::StateChoice;
use hotcell_service::suites::{Part, PreparedSuites};
use hotcell_service::test::{TestRequest, Unready};
use hotcell_service::workspaces;
use hotcell_testing::{Cancel, Selection, TestReport, github, junit_out};

use crate::args::{Common, TestArgs};
use crate::deps::Provider;
use crate::progress::Show;
use crate::test_text::{Style, headline, page};
use crate::way::Way;
use crate::{
    changes_text, configuration, current_folder, exit, interrupted, notes, printed, run, runtime, scan_text,
    state, usage, workspace,
};

/// Runs the command; its exit status.
pub fn test(common: &Common, args: &TestArgs) -> anyhow::Result<u8> {
    let stored = Stored::begin(typed(args));
    // One run leaves the rest to its launcher; several clean up after each other.
    let several = args.repeat > 1 || args.sandbox.deps;
    let way = Way::open(args.cold, if several { Engine::new } else { Engine::for_one_run });
    let (prepared, choice) = match begin(common, args, &way) {
        Ok(begun) => begun,
        Err(report) => return Ok(usage::fail(&report, common.json)),
    };
    let way = if prepared.parts().len() > 1 { Way::open(args.cold, Engine::new) } else { way };
    let runtime = runtime()?;
    let Some(report) = runtime.block_on(follow(common, args, &way, prepared)) else {
        anyhow::bail!("no suite was prepared");
    };
    let mut code = answer(common, args, &report);
    // Who no longer reads the output has left: nothing more to say.
    if code != exit::UNHEARD {
        scan_text::frames_of(&report.outcome, &[&args.project], common);
        code = changes_text::show(&report.outcome, common).unwrap_or(code);
        notes::after_run(&report.outcome, &stored.id, common);
    }
    run::remember_or_warn(&choice, &stored, &report.outcome);
    way.leave();
    runtime.shutdown_background();
    Ok(code)
}

/// Everything that can be wrong with command line and configuration.
fn begin(common: &Common, args: &TestArgs, way: &Way) -> Result<(PreparedSuites, StateChoice), ErrorReport> {
    let cwd = current_folder();
    if let Some(file) = &args.junit {
        can_be_written(file)?;
    }
    let id = Some(&args.project).filter(|p| workspaces::is_id(p)).and_then(|p| p.to_str());
    let kept = match id {
        Some(id) => {
            let store = Arc::new(workspace::open(common)?);
            Some(Kept::pin(&store, id).map_err(|e| workspaces::report(&e))?)
        }
        None => None,
    };
    let project = kept.as_ref().map_or_else(|| args.project.clone(), |kept| kept.mount().0);
    let configuration = configuration(common, Some(cwd.join(&project)))?;
    let choice = state(common, &configuration);
    run::named_state(&choice).map_err(|e| crate::runs::of_history(&e))?;
    let request = TestRequest {
        project,
        framework: args.framework.clone(),
        selection: Selection { filter: args.filter.clone(), fail_fast: args.fail_fast, jobs: args.jobs },
        coverage: args.coverage,
        repeat: args.repeat,
        settings: args.sandbox.settings(&cwd),
        keep: Keep { stay: kept.is_some() && args.repeat == 1, ..keep(args)? },
        kept,
    };
    let runtime = match args.sandbox.deps {
        true => Some(runtime().map_err(|e| ErrorReport::new(Code::Internal, e.to_string()))?),
        false => None,
    };
    let mut locks = 0;
    let mut ready = |request: &mut TestRequest| {
        let Some(runtime) = &runtime else { return Ok(()) };
        let provider = Provider {
            common,
            engine: way.engine(),
            runtime,
            configuration: &configuration,
            choice: &choice,
        };
        let answered = |outcome: Box<Outcome>| {
            Unready::Answered(Box::new(TestReport::without_a_run("", Vec::new(), *outcome)))
        };
        match provider.provide(
            &request.project,
            &mut request.settings,
            Purpose::Tests(request.framework.as_deref()),
        ) {
            Ok(count) => locks += count,
            Err(DepsError::Wrong(report)) => return Err(Unready::Wrong(report)),
            Err(DepsError::Refused(outcome)) => return Err(answered(outcome)),
        }
        // Of several suites, one may need nothing.
        if locks == 0 { Err(answered(Box::new(deps::no_lock_file(&request.project)))) } else { Ok(()) }
    };
    match request.prepare_suites(&configuration, &Surroundings::of_this_process(), &mut ready) {
        Ok(prepared) => Ok((prepared, choice)),
        Err(Unready::Wrong(report)) => Err(report),
        // What is known without a run is the answer of a suite.
        Err(Unready::Answered(report)) => {
            Err(ErrorReport::new(Code::Internal, report.reason.unwrap_or_default()))
        }
    }
}

/// What becomes of the changes: with several runs there is no one of them to take over.
fn keep(args: &TestArgs) -> Result<Keep, ErrorReport> {
    let keep = args.keep.keep(true)?;
    if keep != Keep::default() && args.repeat > 1 {
        return Err(ErrorReport::new(
            Code::Usage,
            "--diff and --commit are for one run, and --repeat asks for several",
        )
        .field("--repeat")
        .hint("take one of them out"));
    }
    Ok(keep)
}

/// A file that cannot be written is found out before the tests run.
fn can_be_written(file: &Path) -> Result<(), ErrorReport> {
    OpenOptions::new().write(true).create(true).truncate(false).open(file).map(drop).map_err(|e| {
        ErrorReport::new(Code::InvalidValue, format!("--junit {}: {e}", file.display()))
            .field("--junit")
            .hint("name a file that can be written")
    })
}

/// The command as it was typed, for the history.
fn typed(args: &TestArgs) -> Vec<String> {
    let mut words = vec!["test".to_owned(), args.project.display().to_string()];
    words.extend(args.filter.iter().flat_map(|f| ["--filter".to_owned(), f.clone()]));
    words
}

async fn follow(
    common: &Common,
    args: &TestArgs,
    engine: &dyn Spawn,
    prepared: PreparedSuites,
) -> Option<TestReport> {
    let cancel = Cancel::default();
    let several = prepared.parts().len() > 1;
    let mut show = Show::new(common, args.repeat, args.github);
    let report = {
        let begin = |part: &Part| {
            if let Ok(tests) = &part.tests {
                run::warn_unset(&tests.unset);
                notes::guard(tests.scan.as_ref(), common);
                if several && !common.json && !common.quiet {
                    let folder = if part.folder.is_empty() { "." } else { &part.folder };
                    notes::say(format!("{} in {folder}", tests.framework_name()));
                }
            }
        };
        let mut running =
            std::pin::pin!(prepared.run(engine, &cancel, begin, |number, what| show.see(number, what)));
        tokio::select! {
            report = &mut running => report,
            () = interrupted() => {
                cancel.cancel();
                running.await
            }
        }
    };
    show.end();
    report
}

/// Prints the report everywhere it was asked for; the exit status.
fn answer(common: &Common, args: &TestArgs, report: &TestReport) -> u8 {
    let mut code = report.verdict.exit_code();
    if common.json {
        code = printed(exit::print_json(report), code);
    } else {
        let style = Style {
            colour: io::stdout().is_terminal() && std::env::var_os("NO_COLOR").is_none_or(|v| v.is_empty()),
            verbose: common.verbose > 0,
            github: args.github,
        };
        code = printed(exit::print_text(&page(report, style)), code);
    }
    for written in [
        args.junit.as_deref().map(|file| write_junit(file, report)),
        args.github.then(|| annotate(common, report)),
    ] {
        if let Some(Err(e)) = written {
            notes::say(format!("error: {e}"));
            code = exit::REFUSED;
        }
    }
    code
}

fn write_junit(file: &Path, report: &TestReport) -> Result<(), String> {
    let xml = junit_out::junit(report).map_err(|e| e.to_string())?;
    std::fs::write(file, xml).map_err(|e| format!("--junit {}: {e}", file.display()))
}

/// Annotations go where GitHub reads them, and leave standard output to the one JSON object.
fn annotate(common: &Common, report: &TestReport) -> Result<(), String> {
    let lines = github::annotations(report);
    let said = if common.json { io::stderr().write_all(lines.as_bytes()) } else { exit::print_text(&lines) };
    said.map_err(|e| format!("--github: {e}"))?;
    let Some(file) = std::env::var_os("GITHUB_STEP_SUMMARY").filter(|f| !f.is_empty()) else {
        tracing::warn!("--github: GITHUB_STEP_SUMMARY is not set, so there is no summary");
        return Ok(());
    };
    let text = github::summary(report, &headline(report));
    let mut open = OpenOptions::new();
    let written = open.append(true).create(true).open(&file).and_then(|mut f| f.write_all(text.as_bytes()));
    written.map_err(|e| format!("--github: {}: {e}", file.display()))
}
