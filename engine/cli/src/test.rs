//! `hotcell test`: from options to a report for people, for programs and for a workflow.

use std::io::{self, IsTerminal, Write};
use std::path::{Path, PathBuf};
use std::sync::Arc;

use hotcell_config::typed;
use hotcell_deps::{DepsError, Purpose};
use hotcell_fleet::Elsewhere;
use hotcell_report::RunReport;
use hotcell_sandbox::{Engine, Spawn};
use hotcell_state::history::Stored;
use hotcell_state::report::{Code, ErrorReport};
use hotcell_state::state::StateChoice;
use hotcell_testing::coverage::Coverage;
use hotcell_testing::report::{coverage_out, github, junit_out};
use hotcell_testing::{Cancel, Selection, TestReport, Verdict};
use hotcell_toolchain::Surroundings;
use hotcell_verbs::changes::ChangePolicy;
use hotcell_verbs::outputs::OutputRequest;
use hotcell_verbs::pinned::PinnedWorkspace;
use hotcell_verbs::suites::{Part, PreparedSuites};
use hotcell_verbs::test::{TestOptions, TestRequest, Unready};
use hotcell_verbs::workspaces;

use crate::args::{COBERTURA, Common, TestArgs};
use crate::backend::Backend;
use crate::context::{configuration, current_folder, runtime, state};
use crate::deps::Provider;
use crate::exit::printed;
use crate::mask::Masks;
use crate::receipt::make::{Receipt, ReceiptOf, is_wanted};
use crate::remote;
use crate::render::tests::{Style, headline, page};
use crate::render::{changes, scan};
use crate::result_file::{Before, ResultFile};
use crate::signals::interrupted;
use crate::terminal::notes;
use crate::terminal::progress::Show;
use crate::{exit, options, outputs, run, test_list, usage, workspace};

/// Runs the command; returns its exit status.
pub fn test(common: &Common, args: &TestArgs) -> anyhow::Result<u8> {
    let mut results = match Results::open(common, args) {
        Ok(results) => results,
        Err(report) => return Ok(usage::fail(&report, common.json)),
    };
    let stored = (!args.sandbox.no_history).then(|| Stored::begin(typed(args)));
    // The rest of a single run is left to its launcher; several runs clean up after each other.
    let jobs = &args.jobs_of_ci;
    let several = args.repeat > 1 || args.sandbox.deps || jobs.retry > 0 || jobs.shard.is_some();
    let way = Backend::open(args.cold, if several { Engine::new } else { Engine::for_one_run });
    let ((mut prepared, choice, masks), elsewhere) = match begin_anywhere(common, args, &way, &mut results) {
        Ok(begun) => begun,
        Err(report) => {
            if let Some(file) = &mut results.junit {
                // A consumer that reads only this file must not find an older, successful one.
                let _ = file.write(&junit_out::failure(&report.message).unwrap_or_default());
            }
            return Ok(usage::fail(&report, common.json));
        }
    };
    let _running = run::running(&choice, stored.as_ref());
    let way = if prepared.parts().len() > 1 { Backend::open(args.cold, Engine::new) } else { way };
    let runtime = runtime()?;
    // In place of sandboxes here.
    let spawn: &dyn Spawn = match &elsewhere {
        Some(elsewhere) => elsewhere,
        None => &way,
    };
    if jobs.list {
        let code =
            runtime.block_on(test_list::list(common, spawn, prepared, (&masks, args.filter.as_deref())));
        way.leave();
        runtime.shutdown_background();
        return Ok(code);
    }
    if let Some(outputs) = &results.outputs {
        prepared.copy_out(outputs);
    }
    let image = prepared.image_digest();
    let Some(mut report) = runtime.block_on(follow(common, args, spawn, (prepared, &masks))) else {
        anyhow::bail!("no suite was prepared");
    };
    if report.outcome.usage.wall_us.is_some() {
        report.outcome.outputs = results.outputs.as_ref().map(OutputRequest::finish);
    }
    // From here on the values are hidden.
    let report = options::of_tests(masks.report(report));
    let mut code = answer(common, args, &mut results, &report);
    // If the output is no longer read, there is nothing more to print.
    if code != exit::UNHEARD {
        scan::frames_of(&report.outcome, &[&args.project], common);
        code = changes::show(&report.outcome, common).unwrap_or(code);
        code = changes::copied(&report.outcome, common, code);
        let untaken =
            args.keep.commit && report.verdict != Verdict::Passed && report.outcome.commit.is_none();
        if untaken && !common.json && !common.quiet {
            notes::say(format!(
                "--commit took nothing over: the tests did not pass ({})",
                report.verdict.words()
            ));
        }
        notes::after_run(&report.outcome, stored.as_ref().map_or("", |stored| &stored.id), common);
    }
    if let Some(receipt) = &mut results.receipt
        && let Err(why) = receipt.of_tests(stored.as_ref().map_or("", |stored| &stored.id), &report, image)
    {
        notes::say(format!("error: no receipt: {why}"));
        code = exit::REFUSED;
    }
    if let Some(stored) = &stored {
        run::remember_or_warn(&choice, stored, &report.outcome);
    }
    way.leave();
    runtime.shutdown_background();
    Ok(code)
}

/// Prepared runs, the state folder, and values that are hidden.
type Begun = (PreparedSuites, StateChoice, Masks);

/// Prepares the runs, and the farm that they are sent to.
fn begin_anywhere(
    common: &Common,
    args: &TestArgs,
    way: &Backend,
    results: &mut Results,
) -> Result<(Begun, Option<Elsewhere>), ErrorReport> {
    let elsewhere = match &args.remote {
        None => None,
        Some(farm) => {
            let what = [
                (results.kept.is_some(), "DIR", "a workspace that is kept belongs to this machine"),
                (results.receipt.is_some(), "--receipt", remote::RECEIPT),
                (args.keep.diff, "--diff", remote::CHANGES),
                (args.keep.commit || args.keep.allow_protected, "--commit", remote::CHANGES),
            ];
            let what = what.into_iter().find(|(given, ..)| *given).map(|(_, option, why)| (option, why));
            if let Some((option, why)) = what.or_else(|| remote::unfit_for_sandbox(&args.sandbox)) {
                return Err(remote::refusal(option, why));
            }
            let limits = args.sandbox.limits.settings();
            let mut sending = remote::sending(&limits, args.cached, results.outputs.as_ref())?;
            sending.one_input = true;
            let configuration = configuration(common, None)?;
            Some(remote::farm_of(common, farm, &args.farm, &configuration, sending)?)
        }
    };
    Ok((begin(common, args, way, results.kept.take())?, elsewhere))
}

/// Checks command line and configuration, and prepares the runs.
fn begin(
    common: &Common,
    args: &TestArgs,
    way: &Backend,
    kept: Option<Arc<PinnedWorkspace>>,
) -> Result<Begun, ErrorReport> {
    let cwd = current_folder();
    let project = kept.as_ref().map_or_else(|| args.project.clone(), |kept| kept.mount().0);
    // A project behind a link of a clone's is refused below: nothing there is looked at before.
    let own = typed::real_from(&cwd, &project, &[]).is_ok();
    let configuration = configuration(common, own.then(|| cwd.join(&project)))?;
    let choice = state(common, &configuration);
    let env = [&configuration.user.run.env, &configuration.environment.run.env, &args.sandbox.env];
    let masks = Masks::of(&args.jobs_of_ci.mask, &env.into_iter().flatten().cloned().collect::<Vec<_>>())?;
    run::named_state(&choice).map_err(|e| crate::runs::of_history(&e))?;
    let request = TestRequest {
        project,
        framework: args.framework.clone(),
        selection: Selection {
            filter: args.filter.clone(),
            fail_fast: args.fail_fast,
            jobs: args.jobs,
            ..Selection::default()
        },
        coverage: args.coverage || args.jobs_of_ci.coverage_files().next().is_some(),
        repeat: args.repeat,
        settings: args.sandbox.settings(&cwd),
        keep: ChangePolicy {
            stay: kept.is_some() && args.repeat == 1 && args.jobs_of_ci.retry == 0,
            ..keep(args)?
        },
        kept,
        options: test_options(args)?,
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
        let answered = |outcome: Box<RunReport>| {
            Unready::Answered(Box::new(TestReport::without_a_run("", Vec::new(), *outcome)))
        };
        match provider.provide(
            &request.project,
            &mut request.settings,
            request.options.interpreter.as_ref(),
            Purpose::Tests(request.framework.as_deref()),
        ) {
            Ok(count) => locks += count,
            Err(DepsError::Wrong(report)) => return Err(Unready::Wrong(report)),
            Err(DepsError::Refused(outcome)) => return Err(answered(outcome)),
        }
        // Of several suites, some may need no packages.
        if locks == 0 {
            Err(answered(Box::new(hotcell_deps::no_lock_file(&request.project))))
        } else {
            Ok(())
        }
    };
    match request.prepare_suites(&configuration, &Surroundings::of_this_process(), &mut ready) {
        Ok(prepared) => Ok((prepared, choice, masks)),
        Err(Unready::Wrong(report)) => Err(report),
        // A result without a run is returned for its suite, so it is unexpected here.
        Err(Unready::Answered(report)) => {
            Err(ErrorReport::new(Code::Internal, report.reason.unwrap_or_default()))
        }
    }
}

/// Options other than the selection of the tests themselves.
fn test_options(args: &TestArgs) -> Result<TestOptions, ErrorReport> {
    let jobs = &args.jobs_of_ci;
    let mut shard = jobs.shard.clone();
    if let (Some(shard), Some(file)) = (&mut shard, &jobs.shard_times) {
        shard.times = Some(test_list::times(file)?);
    }
    Ok(TestOptions {
        retry: jobs.retry,
        shard,
        shards: args.shards,
        elsewhere: args.remote.is_some(),
        list: jobs.list,
        beside: jobs.beside(),
        cache: jobs.cache.clone(),
        build_args: jobs.build_arg.clone(),
        pythons: jobs.python.clone().unwrap_or_default(),
        deps: args.sandbox.deps,
        interpreter: None,
    })
}

/// The policy for changes: with several runs, there is no single one whose changes could be taken over.
fn keep(args: &TestArgs) -> Result<ChangePolicy, ErrorReport> {
    let keep = args.keep.keep(true)?;
    let several = [(args.repeat > 1, "--repeat"), (args.jobs_of_ci.retry > 0, "--retry")];
    let is_of_one = keep != ChangePolicy::default() || !args.output_files.is_empty();
    if let Some((_, option)) = several.into_iter().find(|(several, _)| is_of_one && *several) {
        return Err(ErrorReport::new(
            Code::Usage,
            format!("--diff, --commit and --output-files are for one run, and {option} asks for several"),
        )
        .field(option)
        .hint("take one of them out"));
    }
    Ok(keep)
}

/// The requested files of results, opened.
struct Results {
    junit: Option<ResultFile>,
    /// Files of coverage, each with its option.
    coverage: Vec<(&'static str, ResultFile)>,
    /// Where a workflow shows its summary, with `--github`.
    summary: Option<ResultFile>,
    receipt: Option<Receipt>,
    /// The stored workspace that is tested, as it was when the receipt's digest was taken.
    kept: Option<Arc<PinnedWorkspace>>,
    outputs: Option<OutputRequest>,
}

impl Results {
    /// Opens the files before the tests run, so that one that cannot be written is detected in time.
    fn open(common: &Common, args: &TestArgs) -> Result<Self, ErrorReport> {
        let cwd = current_folder();
        let trees: Vec<_> = match typed::real_from(&cwd, &args.project, &[]) {
            Ok(_) => cwd.join(&args.project).canonicalize().into_iter().collect(),
            Err(_) => Vec::new(),
        };
        let id = Some(&args.project).filter(|p| workspaces::is_id(p)).and_then(|p| p.to_str());
        let kept = match id {
            Some(id) => {
                let store = Arc::new(workspace::open(common)?);
                Some(PinnedWorkspace::pin(&store, id).map_err(|e| workspaces::report(&e))?)
            }
            None => None,
        };
        let cannot = |option: &'static str, why: String, hint: &str| {
            ErrorReport::new(Code::InvalidValue, format!("{option} {why}")).field(option).hint(hint)
        };
        let open = |option: &'static str, file: &Path| {
            let opened = ResultFile::open(file, &trees, Before::Emptied);
            opened.map_err(|why| cannot(option, why, "name a file that can be written"))
        };
        // First, so that no file of results is in the digest.
        let (file, configuration) = (args.receipt.as_deref(), configuration(common, None)?);
        let receipt = match is_wanted(file, &configuration) && !args.jobs_of_ci.list {
            true => {
                let project = cwd.join(&args.project);
                if let Err(why) = std::fs::metadata(&project)
                    && kept.is_none()
                {
                    let why = format!("the project {} cannot be opened: {why}", args.project.display());
                    return Err(ErrorReport::new(Code::InvalidValue, why)
                        .hint("name the folder of a project that you may read"));
                }
                let about = kept.as_deref().map_or(ReceiptOf::Folder(&project), ReceiptOf::Workspace);
                Some(Receipt::open(file, &trees, &configuration, about)?)
            }
            false => None,
        };
        let junit = args.junit.as_deref().map(|file| open("--junit", file)).transpose()?;
        let coverage = args.jobs_of_ci.coverage_files();
        let coverage: Result<_, ErrorReport> =
            coverage.map(|(option, file)| Ok((option, open(option, file)?))).collect();
        let named = std::env::var_os("GITHUB_STEP_SUMMARY").filter(|file| args.github && !file.is_empty());
        if args.github && named.is_none() {
            tracing::warn!("--github: GITHUB_STEP_SUMMARY is not set, so there is no summary");
        }
        let hint = "set GITHUB_STEP_SUMMARY to a file that can be written, or unset it";
        let summary = named.map(|file| {
            ResultFile::open(Path::new(&file), &trees, Before::Kept)
                .map_err(|why| cannot("--github", why, hint))
        });
        let outputs = outputs::request(&args.output_files, &cwd, &trees)?;
        Ok(Self { junit, coverage: coverage?, summary: summary.transpose()?, receipt, kept, outputs })
    }
}

/// The command as it was typed, for the history.
fn typed(args: &TestArgs) -> Vec<String> {
    let mut words = vec!["test".to_owned(), args.project.display().to_string()];
    words.extend(args.filter.iter().flat_map(|f| ["--filter".to_owned(), f.clone()]));
    words
}

/// The project's folder relative to the top of its repository, where GitHub looks for the files of
/// annotations; empty for the top. Without a `.git` in a parent folder, the top is the workflow's own folder (`GITHUB_WORKSPACE`).
fn folder_below_repository(project: &Path, workspace: Option<&Path>) -> String {
    let Ok(project) = project.canonicalize() else { return String::new() };
    let top = project.ancestors().find(|folder| folder.join(".git").symlink_metadata().is_ok());
    let top = top.map(Path::to_owned).or_else(|| workspace?.canonicalize().ok());
    let below = top.and_then(|top| project.strip_prefix(top).ok().map(Path::to_owned));
    let below = below.as_deref();
    below.and_then(Path::to_str).unwrap_or_default().to_owned()
}

/// Folder of the workflow that this runs in.
fn github_workspace() -> Option<PathBuf> {
    std::env::var_os("GITHUB_WORKSPACE").map(PathBuf::from).filter(|folder| folder.is_absolute())
}

async fn follow(
    common: &Common,
    args: &TestArgs,
    engine: &dyn Spawn,
    (prepared, masks): (PreparedSuites, &Masks),
) -> Option<TestReport> {
    let cancel = Cancel::default();
    let several = prepared.parts().len() > 1;
    let mut show = Show::new(common, args.repeat.max(args.jobs_of_ci.retry.saturating_add(1)), args.github)
        .hiding(masks);
    let report = {
        let begin = |part: &Part| {
            if let Ok(tests) = &part.tests {
                run::warn_unset(&tests.unset);
                notes::guard(tests.scan.as_ref(), common);
                if several && !common.json && !common.quiet {
                    let folder = if part.folder.is_empty() { "." } else { &part.folder };
                    let python = part.python.as_ref().map(|python| format!(" on python {}", python.name));
                    notes::say(format!(
                        "{} in {folder}{}",
                        tests.framework_name(),
                        python.unwrap_or_default()
                    ));
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

/// Writes the report to every requested destination; returns the exit status.
fn answer(common: &Common, args: &TestArgs, results: &mut Results, report: &TestReport) -> u8 {
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
    for (option, file) in &mut results.coverage {
        if let Some(Err(e)) =
            report.coverage.as_ref().map(|all| write_coverage(option, file, all, &args.project))
        {
            notes::say(format!("error: {e}"));
            code = exit::REFUSED;
        }
    }
    let folder = || folder_below_repository(&args.project, github_workspace().as_deref());
    for written in [
        results.junit.as_mut().map(|file| write_junit(file, report)),
        args.github.then(|| annotate(common, report, &folder())),
        results.summary.as_mut().map(|file| summarize(file, report, &folder())),
    ] {
        if let Some(Err(e)) = written {
            notes::say(format!("error: {e}"));
            code = exit::REFUSED;
        }
    }
    code
}

fn write_junit(file: &mut ResultFile, report: &TestReport) -> Result<(), String> {
    let xml = junit_out::junit(report).map_err(|e| e.to_string())?;
    file.write(&xml).map_err(|e| format!("--junit {}: {e}", file.named().display()))
}

/// Writes coverage with the project's paths on the host.
fn write_coverage(
    option: &str,
    file: &mut ResultFile,
    coverage: &Coverage,
    project: &Path,
) -> Result<(), String> {
    let project = project.canonicalize().unwrap_or_else(|_| project.to_owned());
    let bytes = match option {
        COBERTURA => coverage_out::cobertura(coverage, &project),
        _ => Ok(coverage_out::lcov(coverage, &project).into_bytes()),
    };
    bytes
        .and_then(|bytes| file.write(&bytes))
        .map_err(|e| format!("{option} {}: {e}", file.named().display()))
}

/// Writes annotations to where GitHub reads them, so that standard output has only the one JSON object.
fn annotate(common: &Common, report: &TestReport, folder: &str) -> Result<(), String> {
    let lines = github::annotations(report, folder);
    let said = if common.json { io::stderr().write_all(lines.as_bytes()) } else { exit::print_text(&lines) };
    said.map_err(|e| format!("--github: {e}"))
}

fn summarize(file: &mut ResultFile, report: &TestReport, folder: &str) -> Result<(), String> {
    let text = github::summary(report, &headline(report), folder);
    file.write(text.as_bytes()).map_err(|e| format!("--github {}: {e}", file.named().display()))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn annotations_are_below_the_repository_or_the_workflow() {
        let top = tempfile::tempdir().unwrap();
        let at = |name: &str| top.path().join(name);
        std::fs::create_dir_all(at("plain/one/two")).unwrap();
        std::fs::create_dir_all(at("own/.git")).unwrap();
        std::fs::create_dir_all(at("own/sub")).unwrap();
        let is_free = top.path().ancestors().all(|folder| !folder.join(".git").exists());
        for (project, workspace, want) in [
            ("own/sub", None, "sub"),
            ("plain/one", None, ""),
            ("own", Some("plain"), ""),
            ("own/sub", Some("plain"), "sub"),
            ("plain/one/two", Some("plain"), "one/two"),
            ("plain/one", Some("plain/one"), ""),
            // Elsewhere, or not there.
            ("plain/one", Some("own"), ""),
            ("plain/one", Some("none"), ""),
            ("none", Some("plain"), ""),
        ] {
            // The temporary folder may lie in a repository.
            if !is_free && project.starts_with("plain") {
                continue;
            }
            let workspace = workspace.map(at);
            assert_eq!(
                folder_below_repository(&at(project), workspace.as_deref()),
                want,
                "{project} {workspace:?}"
            );
        }
    }
}
