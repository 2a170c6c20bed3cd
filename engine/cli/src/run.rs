//! `hotcell run`: from options to an answer, and the cleanup after it.

use std::ffi::OsString;
use std::fs::File;
use std::io::{self, IsTerminal, Read, Write};
use std::os::fd::AsFd;
use std::os::unix::fs::{FileTypeExt, MetadataExt};
use std::path::{Path, PathBuf};
use std::sync::Arc;

use hotcell_config::Configuration;
use hotcell_config::typed;
use hotcell_deps::{DepsError, Purpose};
use hotcell_receipts::run::RunFacts;
use hotcell_report::RunReport;
use hotcell_review::whole_command::Input;
use hotcell_sandbox::outcome::Cause;
use hotcell_sandbox::policy::Stdin;
use hotcell_sandbox::text::printable_line;
use hotcell_sandbox::{BoxFuture, Engine, Limits, Running};
use hotcell_state::history::{History, HistoryError, Stored};
use hotcell_state::report::{Code, ErrorReport, barred};
use hotcell_state::running::LiveRun;
use hotcell_state::state::{StateChoice, StateFolder};
use hotcell_toolchain::Surroundings;
use hotcell_verbs::changes::ChangePolicy;
use hotcell_verbs::execute::{Observer, execute};
use hotcell_verbs::pinned::PinnedWorkspace;
use hotcell_verbs::request::{MAX_SOURCE_BYTES, Merged, RunRequest, RunTarget, Source};
use hotcell_verbs::workspaces;

use crate::args::{Common, RunArgs};
use crate::backend::Backend;
use crate::context::{configuration, current_folder, runtime, state};
use crate::deps::Provider;
use crate::exit::printed;
use crate::receipt::make::{Receipt, ReceiptOf, is_wanted};
use crate::render::{changes, scan};
use crate::signals::{interrupted, interrupted_or_quit};
use crate::stdin::Given;
use crate::terminal::{notes, screen};
use crate::tty::session::{self, Session};
use crate::tty::{caller, choice, options as terminal_options};
use crate::unseen::unseen;
use crate::{exit, options, outputs, streams, usage, workspace};

/// Runs the command; returns its exit status.
pub fn run(common: &Common, args: &RunArgs) -> anyhow::Result<u8> {
    let cwd = current_folder();
    // The stored workspace stays as it is now until the run has ended, whatever other processes do with it.
    let named = args.workspace.as_deref().filter(|w| workspaces::is_id(w)).and_then(Path::to_str);
    let store = match named.map(|_| workspace::open(common).map(Arc::new)).transpose() {
        Ok(store) => store,
        Err(report) => return Ok(usage::fail(&report, common.json)),
    };
    let kept = match store.as_ref().zip(named).map(|(store, id)| PinnedWorkspace::pin(store, id)).transpose()
    {
        Ok(kept) => kept,
        Err(error) => return Ok(usage::fail(&workspaces::report(&error), common.json)),
    };
    let asked = what(args).and_then(|what| Ok((terminal_options::session(common, args, &what)?, what)));
    let (session, what) = match asked {
        Ok(asked) => asked,
        Err(report) => return Ok(usage::fail(&report, common.json)),
    };
    // Without a service, this process's own launcher is set up while the configuration is read and the program is looked up.
    let several = args.sandbox.deps;
    let way = Backend::open(
        args.cold || session.is_some(),
        if several { Engine::new } else { Engine::for_one_run },
    );
    let (mut begun, input) = match begin(common, args, kept, &cwd, (what, session)) {
        Ok(begun) => begun,
        Err(report) => return Ok(usage::fail(&report, common.json)),
    };
    let trees: Vec<_> =
        begun.request.workspace.iter().filter_map(|w| cwd.join(w).canonicalize().ok()).collect();
    let outputs = match outputs::request(&args.output_files, &cwd, &trees) {
        Ok(outputs) => outputs,
        Err(report) => return Ok(usage::fail(&report, common.json)),
    };
    let stored = (!args.sandbox.no_history).then(|| Stored::begin(typed(args)));
    let mut receipt = match receipt(args, &begun, &cwd) {
        Ok(receipt) => receipt,
        Err(report) => return Ok(usage::fail(&report, common.json)),
    };
    let words = typed(args);
    let provided = match (own_workspace(begun.request.workspace.as_deref(), &cwd), args.sandbox.deps) {
        (Err(why), _) => Err(refused(why)),
        (Ok(()), true) => install(common, way.engine(), &mut begun)?,
        (Ok(()), false) => Ok(()),
    };
    let Begun { merged, request, choice, session, .. } = begun;
    let in_force = receipt.is_some().then(|| merged.in_force());
    let _running = running(&choice, stored.as_ref());
    let keyboard = session.as_ref().is_some_and(Session::is_typed);
    let roots = [Some(Path::new("")), request.workspace.as_deref()].into_iter().flatten().collect::<Vec<_>>();
    let unusable = |e: HistoryError| refused(e.to_string());
    let prepared = named_folder(&choice).map_err(unusable).and_then(|folder| {
        match (&folder, &mut receipt) {
            (Some(folder), None) => History::check(folder).map_err(unusable)?,
            // Checked once it is open, before anything runs.
            (Some(_), Some(receipt)) => receipt.open_ahead(),
            (None, _) => {}
        }
        provided?;
        let mut input = input.map_err(refused)?.map(Given::new);
        // A person who types is trusted, and is not read ahead.
        let ahead = input.as_mut().filter(|_| !keyboard).map(|given| given as &mut dyn Input);
        let ready = request.prepare_with(merged, Surroundings::of_this_process(), ahead)?;
        // With a receipt the database was opened meanwhile.
        if let (Some(folder), Some(receipt)) = (&folder, &mut receipt)
            && !receipt.is_open()
        {
            History::check(folder).map_err(unusable)?;
        }
        Ok((ready, input))
    });
    let profile = args.sandbox.profile.as_ref().map(|profile| profile.to_string_lossy());
    let answer = |receipt: Option<Receipt>,
                  outcome: RunReport,
                  code,
                  (guard, image_digest): (Option<&str>, Option<String>)| {
        let outcome = &options::of_run(outcome);
        let code = answer(common, &choice, stored.as_ref(), (outcome, code), &roots);
        let Some(mut receipt) = receipt else { return code };
        let facts = RunFacts {
            program: match args.lang {
                Some(language) => language.name(),
                None => words.first().map_or("", String::as_str),
            },
            command: &words,
            profile: profile.as_deref(),
            policy_sha256: in_force.as_ref().map(|policy| &*policy.policy_sha256),
            limits: in_force.as_ref().map(|policy| &policy.limits),
            image: args.sandbox.image.as_deref(),
            image_digest,
            guard,
            outcome_json: &serde_json::to_vec(outcome).unwrap_or_default(),
        };
        let id = stored.as_ref().map_or("", |stored| &stored.id);
        match receipt.of_run(id, outcome, &facts) {
            Ok(()) => code,
            Err(why) => {
                notes::say(format!("error: no receipt: {why}"));
                exit::REFUSED
            }
        }
    };
    let (mut prepared, input) = match prepared {
        Err(outcome) => return Ok(answer(receipt, *outcome, None, (None, None))),
        Ok(ready) => ready,
    };
    warn_unset(&prepared.unset);
    if let Some(outputs) = outputs {
        prepared.copy_out(outputs);
    }
    let runtime = runtime()?;
    notes::guard(prepared.scan.as_ref(), common);
    let idle = terminal_options::idle(args, session.as_ref());
    let has_terminal = session.is_some();
    let mut passed = Passed { common, raw: args.raw, input, session, written: Ok(()) };
    let stop = async {
        if has_terminal {
            tokio::select! {
                () = interrupted_or_quit() => None,
                () = idle => Some(session::IDLE),
            }
        } else {
            interrupted().await;
            None
        }
    };
    // Not earlier: on two processors it would take the time of the launcher, which sets up the sandbox.
    if let Some(receipt) = &mut receipt {
        receipt.open_ahead();
    }
    let executed = runtime.block_on(execute(&way, &mut prepared, &mut passed, stop));
    if let Some(session) = &mut passed.session {
        session.end(screen::reported());
    }
    let mut code = passed.written.err().map(|e| exit::of_write_error(&e));
    if executed.abandoned {
        code = Some(exit::INTERRUPTED);
    }
    if executed.report.cause == Cause::Cancelled && executed.report.reason.as_deref() == Some(session::IDLE) {
        code = Some(exit::LIMIT);
    }
    if let Some(error) = executed.changes_error {
        notes::say(format!("what it changed in the workspace cannot be told: {error}"));
        code = Some(exit::REFUSED);
    }
    let verdict = prepared.scan.as_ref().map(|passed| passed.report.verdict.name());
    let has_failed = executed.report.cause == Cause::Exited && executed.report.exit_code != Some(0);
    let image = prepared.image_digest();
    let code = answer(receipt, executed.report, code, (verdict, image));
    if has_failed && args.workspace.is_none() {
        say_unseen(common, &args.program, &cwd);
    }
    // The rest of the sandbox is cleaned up after this process.
    way.leave();
    runtime.shutdown_background();
    Ok(code)
}

/// Opens the receipt that was asked for, and takes the digests of what will run.
fn receipt(args: &RunArgs, begun: &Begun, cwd: &Path) -> Result<Option<Receipt>, ErrorReport> {
    let file = args.receipt.as_deref();
    if !is_wanted(file, &begun.configuration) {
        return Ok(None);
    }
    let workspace = begun.request.workspace.as_ref().map(|workspace| cwd.join(workspace));
    let trees: Vec<_> = workspace.iter().filter_map(|path| path.canonicalize().ok()).collect();
    let text;
    let about = match (&begun.request.what, &workspace, &begun.request.kept) {
        (_, _, Some(kept)) => ReceiptOf::Workspace(kept),
        (_, Some(folder), None) => ReceiptOf::Folder(folder),
        (RunTarget::Source(_, Source::File(path), _), None, None) => {
            let wrong =
                |e| ErrorReport::new(Code::InvalidValue, format!("{}: {e}", path.display())).field("FILE");
            let mut bytes = Vec::new();
            let file = File::open(cwd.join(path)).map_err(wrong)?;
            file.take(MAX_SOURCE_BYTES + 1).read_to_end(&mut bytes).map_err(wrong)?;
            text = bytes;
            ReceiptOf::Bytes(path.to_str().unwrap_or("source"), &text)
        }
        (RunTarget::Source(_, Source::Text(bytes) | Source::Inside(_, bytes), _), None, None) => {
            ReceiptOf::Bytes("standard input", bytes)
        }
        (RunTarget::Program(_), None, None) => ReceiptOf::Command,
    };
    let receipt = Receipt::open(file, &trees, &begun.configuration, about)?;
    Ok(Some(receipt.with_taken(taken_from_host(args, begun, cwd))))
}

/// Files and folders of the host that the run may take, and words of the command, which may be names of files.
fn taken_from_host(args: &RunArgs, begun: &Begun, cwd: &Path) -> Vec<PathBuf> {
    let binds = begun.merged.policy.job.binds.iter().map(|bind| bind.host.as_path());
    let words = args.file.iter().chain(&args.stdin).chain(&args.program).map(Path::new);
    let all = begun.request.workspace.as_deref().into_iter().chain(binds).chain(words);
    all.map(|path| cwd.join(path)).collect()
}

/// The combined settings of command line and configuration.
struct Begun {
    configuration: Configuration,
    merged: Merged,
    request: RunRequest,
    choice: StateChoice,
    /// The caller's side of the program's terminal, if it gets one.
    session: Option<Session>,
}

/// Installs the packages in the workspace's lock files, before the run.
fn install(
    common: &Common,
    engine: &Engine,
    begun: &mut Begun,
) -> anyhow::Result<Result<(), Box<RunReport>>> {
    let Some(workspace) = begun.request.workspace.clone() else {
        return Ok(Err(refused(
            "--deps is for the lock files of a workspace; name its folder with --workspace".to_owned(),
        )));
    };
    let runtime = runtime()?;
    let provider = Provider {
        common,
        engine,
        runtime: &runtime,
        configuration: &begun.configuration,
        choice: &begun.choice,
    };
    let provided =
        provider.provide(&workspace, &mut begun.request.settings, None, Purpose::Run).and_then(|locks| {
            if locks == 0 {
                return Err(DepsError::Refused(Box::new(hotcell_deps::no_lock_file(&workspace))));
            }
            begun.merged = begun.request.merge(&begun.configuration).map_err(DepsError::Wrong)?;
            Ok(())
        });
    Ok(provided.map_err(|error| match error {
        DepsError::Refused(outcome) => outcome,
        DepsError::Wrong(report) => refused(report.message),
    }))
}

/// Standard input (`None` for an empty one), or the reason why it cannot be used.
pub type Stream = Result<Option<File>, String>;

/// Checks command line and configuration, and prepares the run.
fn begin(
    common: &Common,
    args: &RunArgs,
    kept: Option<Arc<PinnedWorkspace>>,
    cwd: &Path,
    (what, session): (RunTarget, Option<Session>),
) -> Result<(Begun, Stream), ErrorReport> {
    if args.raw && common.json {
        let hint = "with --json the output stands in the object, where a terminal obeys nothing; take one of them out";
        return Err(ErrorReport::new(Code::Usage, "--raw means nothing with --json")
            .field("--raw")
            .hint(hint));
    }
    let workspace = match &kept {
        Some(kept) => Some(kept.mount().0),
        None => args.workspace.clone(),
    };
    // A workspace that is a link in a clone is refused; before that, nothing at its target is read.
    let own = own_workspace(workspace.as_deref(), cwd);
    let project = workspace.as_ref().map_or_else(|| cwd.to_owned(), |w: &PathBuf| cwd.join(w));
    let configuration = configuration(common, own.is_ok().then_some(project))?;
    let takes_source = matches!(what, RunTarget::Source(_, Source::Text(_), _));
    if takes_source && args.stdin.as_ref().is_some_and(|s| s == "-") {
        return Err(ErrorReport::new(
            Code::Usage,
            "standard input cannot be both the source and the program's input",
        )
        .field("--stdin")
        .hint("name a file with --stdin FILE, or the source's file in place of -"));
    }
    let what = match what {
        RunTarget::Source(language, Source::Text(_), arguments) => {
            RunTarget::Source(language, Source::Text(source()?), arguments)
        }
        other => other,
    };
    let input = if session.as_ref().is_some_and(Session::is_typed) {
        session::keyboard().map(Some).map_err(|e| format!("standard input cannot be read: {e}"))
    } else if takes_source && args.stdin.is_none() {
        Ok(None)
    } else {
        let tree = workspace.as_ref().filter(|_| own.is_ok()).and_then(|w| cwd.join(w).canonicalize().ok());
        input(args.stdin.as_ref(), cwd, tree.as_slice())
    };
    let stdin = match (&session, &input) {
        (Some(_), _) => Stdin::Terminal(caller::window()),
        (None, Ok(Some(_))) => Stdin::Piped,
        _ => Stdin::Null,
    };
    let mut settings = args.sandbox.settings(cwd);
    let mut limits = Limits::default();
    if session.is_some() {
        let own = |name| std::env::var(name).ok();
        // In front: what the user set takes precedence.
        settings.env.splice(0..0, choice::variables(own("TERM").as_deref(), own("COLORTERM").as_deref()));
        limits = Limits { wall: session::WALL_TIMEOUT, cpu_time: None, ..limits };
    }
    let request = RunRequest {
        what,
        workspace,
        keep: ChangePolicy { stay: kept.is_some(), ..args.keep.keep(args.workspace.is_some())? },
        kept,
        settings,
        limits,
        stdin,
    };
    let merged = request.merge(&configuration)?;
    let choice = state(common, &configuration);
    Ok((Begun { configuration, merged, request, choice, session }, input))
}

/// Checks that no link in a clone leads the workspace out of that clone.
pub fn own_workspace(workspace: Option<&Path>, cwd: &Path) -> Result<(), String> {
    let Some(workspace) = workspace else { return Ok(()) };
    let real = typed::real_from(cwd, workspace, &[]);
    real.map(drop).map_err(|e| format!("the workspace {}: {e}", workspace.display()))
}

pub fn what(args: &RunArgs) -> Result<RunTarget, ErrorReport> {
    match (args.lang, &args.file, args.program.as_slice()) {
        (Some(language), Some(file), arguments) => {
            let source = if file == "-" { Source::Text(Vec::new()) } else { Source::File(file.into()) };
            Ok(RunTarget::Source(language, source, arguments.to_vec()))
        }
        (Some(_), None, _) => Err(ErrorReport::new(Code::Usage, "--lang needs a source file")
            .field("--lang")
            .hint("name one, or - for standard input: hotcell run --lang python FILE")),
        (None, Some(word), _) => Err(usage::without_dashes(&word.to_string_lossy())),
        (None, None, []) => Err(ErrorReport::new(Code::Usage, "there is no program to run")
            .field("PROGRAM")
            .hint("name one after --: hotcell run -- PROGRAM [ARG…]")),
        (None, None, program) => Ok(RunTarget::Program(program.to_vec())),
    }
}

/// The command as it was typed, for the history.
pub fn typed(args: &RunArgs) -> Vec<String> {
    let words = args.file.iter().chain(&args.program).map(|w| w.to_string_lossy().into_owned());
    args.lang
        .map(|language| ["--lang".to_owned(), language.name().to_owned()])
        .into_iter()
        .flatten()
        .chain(words)
        .collect()
}

/// Reads a source from standard input.
pub fn source() -> Result<Vec<u8>, ErrorReport> {
    let bad = |why: String| ErrorReport::new(Code::Usage, why).field("-");
    let mut bytes = Vec::new();
    let read = io::stdin().lock().take(MAX_SOURCE_BYTES + 1).read_to_end(&mut bytes);
    read.map_err(|e| bad(format!("standard input cannot be read: {e}")))?;
    if bytes.len() as u64 > MAX_SOURCE_BYTES {
        return Err(bad(format!(
            "the source on standard input is longer than {} MiB",
            MAX_SOURCE_BYTES >> 20
        )));
    }
    Ok(bytes)
}

/// Opens the program's standard input; `None` when it is empty.
pub fn input(stdin: Option<&OsString>, cwd: &Path, trees: &[PathBuf]) -> Stream {
    let file = match stdin {
        Some(word) if word == "null" => return Ok(None),
        Some(word) if word != "-" => {
            let path = Path::new(word);
            typed::real_from(cwd, path, trees).map_err(|e| format!("--stdin {}: {e}", path.display()))?;
            let file = File::open(path).map_err(|e| {
                format!("--stdin {}: {e}; name a file that can be read, - or null", path.display())
            })?;
            if file.metadata().is_ok_and(|m| m.is_dir()) {
                return Err(format!("--stdin {}: is a folder; name a file, - or null", path.display()));
            }
            file
        }
        None if io::stdin().is_terminal() => return Ok(None),
        _ => match io::stdin().as_fd().try_clone_to_owned() {
            Ok(fd) => File::from(fd),
            Err(e) => return Err(format!("standard input cannot be read: {e}")),
        },
    };
    // `/dev/null`, the usual input of a service: there is nothing to pass on.
    let null =
        file.metadata().is_ok_and(|m| m.file_type().is_char_device() && m.rdev() == nix::libc::makedev(1, 3));
    Ok((!null).then_some(file))
}

/// Checks that a state folder given by the user is usable, with its database, before anything runs.
pub fn named_state(choice: &StateChoice) -> Result<(), HistoryError> {
    named_folder(choice)?.as_ref().map_or(Ok(()), History::check)
}

/// A state folder given by the user, which can be written; `None` for another one.
fn named_folder(choice: &StateChoice) -> Result<Option<StateFolder>, HistoryError> {
    let StateChoice::Named(path) = choice else { return Ok(None) };
    let folder = StateFolder::open(path)?;
    folder.check_writable()?;
    Ok(Some(folder))
}

pub fn refused(reason: String) -> Box<RunReport> {
    Box::new(RunReport::without_a_run(Cause::Refused, reason))
}

/// Passes the streams of a run through.
pub struct Passed<'a> {
    common: &'a Common,
    raw: bool,
    input: Option<Given>,
    session: Option<Session>,
    /// Result of writing the output.
    pub written: io::Result<()>,
}

impl<'a> Passed<'a> {
    /// The streams of a run without a terminal.
    pub const fn of_plain(common: &'a Common, input: Option<Given>) -> Self {
        Self { common, raw: false, input, session: None, written: Ok(()) }
    }

    /// The streams of a run without standard input and without a terminal.
    pub const fn output_only(common: &'a Common, raw: bool) -> Self {
        Self { common, raw, input: None, session: None, written: Ok(()) }
    }
}

impl Observer for Passed<'_> {
    // Its output tells a person as much.
    fn compiles(&mut self, _compiler: &str) {}

    fn prepares(&mut self, what: &str) {
        if !self.common.json && !self.common.quiet {
            notes::say(what);
        }
    }

    fn compiler_printed(&mut self, printed: &str) {
        // The source influences the compiler's messages, which appear between hotcell's own lines.
        if !self.common.json {
            let _ = io::stderr().write_all(barred(printed, "| ").as_bytes());
        }
    }

    fn follow<'a>(&'a mut self, running: &mut Running) -> BoxFuture<'a, ()> {
        let Self { common, session, input, raw, written } = self;
        let (input, raw, canceller) = (input.take(), *raw, running.canceller());
        if let Some(session) = session {
            let parts = session::parts(running);
            return Box::pin(async move { *written = session.follow(parts, canceller, input, raw).await });
        }
        if let (Some(from), Some(to)) = (input, running.stdin()) {
            streams::feed(from.into_reader(), to);
        }
        let chunks = if common.json { None } else { running.output() };
        Box::pin(async move {
            let Some(chunks) = chunks else { return };
            *written = streams::print(chunks, canceller, raw).await;
        })
    }
}

/// Prints the answer and stores the run; returns the exit status. `code` overrides that of the outcome.
pub fn answer(
    common: &Common,
    choice: &StateChoice,
    stored: Option<&Stored>,
    (outcome, code): (&RunReport, Option<u8>),
    roots: &[&Path],
) -> u8 {
    let mut code = told(common, outcome, code);
    // If the output is no longer read, there is nothing more to print.
    if code != exit::UNHEARD {
        scan::frames_of(outcome, roots, common);
        code = changes::show(outcome, common).unwrap_or(code);
        code = changes::copied(outcome, common, code);
        notes::after_run(outcome, stored.map_or("", |stored| &stored.id), common);
    }
    if let Some(stored) = stored {
        remember_or_warn(choice, stored, outcome);
    }
    code
}

/// Prints the outcome as JSON where that is asked for; returns the exit status. `code` overrides that of the outcome.
pub fn told(common: &Common, outcome: &RunReport, code: Option<u8>) -> u8 {
    let code = code.unwrap_or_else(|| exit::of_outcome(outcome));
    if common.json { printed(exit::print_json(outcome), code) } else { code }
}

/// Says which file of the current folder a command names that failed without seeing it.
pub fn say_unseen(common: &Common, program: &[OsString], cwd: &Path) {
    if !common.json
        && !common.quiet
        && let Some(word) = unseen(program, cwd)
    {
        let word = printable_line(&word.to_string_lossy());
        notes::say(format!(
            "{word} is in the current folder, which the program does not see: --workspace . shows a copy of it"
        ));
    }
}

/// Warns of variables that were to be passed through but are not set.
pub fn warn_unset(names: &[OsString]) {
    for name in names {
        tracing::warn!("--env {}: it is not set here, so it is not set inside", name.to_string_lossy());
    }
}

/// Shows a run on the page of runs while it goes on, if that page is served.
pub fn running(choice: &StateChoice, stored: Option<&Stored>) -> Option<LiveRun> {
    LiveRun::begin_at(choice.path().ok()?, stored?)
}

/// Adds a run to the history. Nothing is written to a state folder that was refused.
pub fn remember_or_warn(choice: &StateChoice, stored: &Stored, outcome: &RunReport) {
    if let Err(error) = remember(choice, stored, outcome) {
        let refused = matches!(choice, StateChoice::Named(_)) && outcome.cause == Cause::Refused;
        if !refused {
            tracing::warn!("this run is not in the history: {error}");
        }
    }
}

fn remember(choice: &StateChoice, stored: &Stored, outcome: &RunReport) -> Result<(), HistoryError> {
    let folder = StateFolder::open(choice.path()?)?;
    History::note(&folder, stored, outcome)
}
