//! `hotcell run`: from options to an answer, and what is done behind it.

use std::ffi::OsString;
use std::fs::File;
use std::io::{self, IsTerminal, Read, Write};
use std::os::fd::AsFd;
use std::os::unix::fs::{FileTypeExt, MetadataExt};
use std::path::{Path, PathBuf};
use std::sync::Arc;
use std::time::Duration;

use hotcell_sandbox::outcome::{Cause, Outcome};
use hotcell_sandbox::policy::Stdin;
use hotcell_sandbox::toolchain::Surroundings;
use hotcell_sandbox::{Changed, Engine, Finished, Limits, Running, Spawn};
use hotcell_service::changes::Keep;
use hotcell_service::compile::Built;
use hotcell_service::config::{Configuration, Merged};
use hotcell_service::deps::{self, DepsError, Purpose};
use hotcell_service::history::{History, HistoryError, Stored};
use hotcell_service::kept::Kept;
use hotcell_service::report::{Code, ErrorReport, printable};
use hotcell_service::request::{LONGEST_SOURCE, Prepared, RunRequest, Source, What};
use hotcell_service::state::{StateChoice, StateFolder};
use hotcell_service::workspaces;

use crate::args::{Common, RunArgs};
use crate::deps::Provider;
use crate::way::Way;
use crate::{
    changes_text, configuration, current_folder, exit, interrupted, notes, printed, runtime, scan_text,
    state, streams, usage, workspace,
};

/// How long the rest of a sandbox may take to go away after the answer.
const SETTLE: Duration = Duration::from_secs(2);

/// Runs the command; its exit status.
pub fn run(common: &Common, args: &RunArgs) -> anyhow::Result<u8> {
    let cwd = current_folder();
    // A workspace that stays is as it is now until the run has ended, whatever others do with it.
    let named = args.workspace.as_deref().filter(|w| workspaces::is_id(w)).and_then(Path::to_str);
    let store = match named.map(|_| workspace::open(common).map(Arc::new)).transpose() {
        Ok(store) => store,
        Err(report) => return Ok(usage::fail(&report, common.json)),
    };
    let kept = match store.as_ref().zip(named).map(|(store, id)| Kept::pin(store, id)).transpose() {
        Ok(kept) => kept,
        Err(error) => return Ok(usage::fail(&workspaces::report(&error), common.json)),
    };
    let (mut begun, input) = match begin(common, args, kept, &cwd) {
        Ok(begun) => begun,
        Err(report) => return Ok(usage::fail(&report, common.json)),
    };
    let stored = Stored::begin(typed(args));
    // Without a service, a launcher of its own sets itself up while the program is looked for.
    let several = args.sandbox.deps;
    let way = Way::open(args.cold, if several { Engine::new } else { Engine::for_one_run });
    let provided = match args.sandbox.deps {
        true => install(common, way.engine(), &mut begun)?,
        false => Ok(()),
    };
    let Begun { merged, request, choice, .. } = begun;
    let roots = [Some(Path::new("")), request.workspace.as_deref()].into_iter().flatten().collect::<Vec<_>>();
    let done = match named_state(&choice).map_err(|e| refused(e.to_string())).and_then(|()| {
        provided?;
        let input = input.map_err(refused)?;
        Ok((request.prepare(merged, Surroundings::of_this_process())?, input))
    }) {
        Err(outcome) => Done { outcome: *outcome, changed: None, code: None, way: None },
        Ok((prepared, input)) => {
            warn_unset(&prepared.unset);
            let runtime = runtime()?;
            notes::guard(prepared.scan.as_ref(), common);
            let mut done = runtime.block_on(execute(way, &prepared, input, common));
            prepared.sign(&mut done.outcome);
            let (changed, outcome) = (done.changed.take(), &mut done.outcome);
            if let Some(before) = prepared.before {
                let success = outcome.success();
                if let Err(error) = runtime.block_on(before.collect(changed, outcome, success)) {
                    notes::say(format!("what it changed in the workspace cannot be told: {error}"));
                    done.code = Some(exit::REFUSED);
                }
            }
            return Ok(finish(common, &choice, &stored, done, &roots, Some(runtime)));
        }
    };
    Ok(finish(common, &choice, &stored, done, &roots, None))
}

/// What the command line and the configuration come to.
struct Begun {
    configuration: Configuration,
    merged: Merged,
    request: RunRequest,
    choice: StateChoice,
}

/// What the workspace's lock files name, before it runs.
fn install(common: &Common, engine: &Engine, begun: &mut Begun) -> anyhow::Result<Result<(), Box<Outcome>>> {
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
        provider.provide(&workspace, &mut begun.request.settings, Purpose::Run).and_then(|locks| {
            if locks == 0 {
                return Err(DepsError::Refused(Box::new(deps::no_lock_file(&workspace))));
            }
            begun.merged = begun.request.merge(&begun.configuration).map_err(DepsError::Wrong)?;
            Ok(())
        });
    Ok(provided.map_err(|error| match error {
        DepsError::Refused(outcome) => outcome,
        DepsError::Wrong(report) => refused(report.message),
    }))
}

/// A run that has ended.
struct Done {
    outcome: Outcome,
    /// What it left of its workspace.
    changed: Option<Changed>,
    /// An exit status that goes before the outcome's: nobody hears us.
    code: Option<u8>,
    way: Option<Way>,
}

/// Standard input, or why there is none.
type Input = Result<Option<File>, String>;

/// Everything that can be wrong with command line and configuration.
fn begin(
    common: &Common,
    args: &RunArgs,
    kept: Option<Arc<Kept>>,
    cwd: &Path,
) -> Result<(Begun, Input), ErrorReport> {
    let what = what(args)?;
    let workspace = match &kept {
        Some(kept) => Some(kept.mount().0),
        None => args.workspace.clone(),
    };
    let project = workspace.as_ref().map_or_else(|| cwd.to_owned(), |w: &PathBuf| cwd.join(w));
    let configuration = configuration(common, Some(project))?;
    let takes_source = matches!(what, What::Source(_, Source::Text(_), _));
    if takes_source && args.stdin.as_ref().is_some_and(|s| s == "-") {
        return Err(ErrorReport::new(
            Code::Usage,
            "standard input cannot be both the source and the program's input",
        )
        .field("--stdin")
        .hint("name a file with --stdin FILE, or the source's file in place of -"));
    }
    let what = match what {
        What::Source(language, Source::Text(_), arguments) => {
            What::Source(language, Source::Text(source()?), arguments)
        }
        other => other,
    };
    let input = if takes_source && args.stdin.is_none() { Ok(None) } else { input(args.stdin.as_ref()) };
    let stdin = if matches!(input, Ok(Some(_))) { Stdin::Piped } else { Stdin::Null };
    let request = RunRequest {
        what,
        workspace,
        keep: Keep { stay: kept.is_some(), ..args.keep.keep(args.workspace.is_some())? },
        kept,
        settings: args.sandbox.settings(cwd),
        limits: Limits::default(),
        stdin,
    };
    let merged = request.merge(&configuration)?;
    let choice = state(common, &configuration);
    Ok((Begun { configuration, merged, request, choice }, input))
}

fn what(args: &RunArgs) -> Result<What, ErrorReport> {
    match (args.lang, &args.file, args.program.as_slice()) {
        (Some(language), Some(file), arguments) => {
            let source = if file == "-" { Source::Text(Vec::new()) } else { Source::File(file.into()) };
            Ok(What::Source(language, source, arguments.to_vec()))
        }
        (Some(_), None, _) => Err(ErrorReport::new(Code::Usage, "--lang needs a source file")
            .field("--lang")
            .hint("name one, or - for standard input: hotcell run --lang python FILE")),
        (None, Some(word), _) => Err(usage::without_dashes(&word.to_string_lossy())),
        (None, None, []) => Err(ErrorReport::new(Code::Usage, "there is no program to run")
            .field("PROGRAM")
            .hint("name one after --: hotcell run -- PROGRAM [ARG…]")),
        (None, None, program) => Ok(What::Program(program.to_vec())),
    }
}

/// The command as it was typed, for the history.
fn typed(args: &RunArgs) -> Vec<String> {
    let words = args.file.iter().chain(&args.program).map(|w| w.to_string_lossy().into_owned());
    args.lang
        .map(|language| ["--lang".to_owned(), language.name().to_owned()])
        .into_iter()
        .flatten()
        .chain(words)
        .collect()
}

/// A source from standard input.
fn source() -> Result<Vec<u8>, ErrorReport> {
    let bad = |why: String| ErrorReport::new(Code::Usage, why).field("-");
    let mut bytes = Vec::new();
    let read = io::stdin().lock().take(LONGEST_SOURCE + 1).read_to_end(&mut bytes);
    read.map_err(|e| bad(format!("standard input cannot be read: {e}")))?;
    if bytes.len() as u64 > LONGEST_SOURCE {
        return Err(bad(format!("the source on standard input is longer than {} MiB", LONGEST_SOURCE >> 20)));
    }
    Ok(bytes)
}

/// What the program reads; `None` for nothing.
fn input(stdin: Option<&OsString>) -> Input {
    let file = match stdin {
        Some(word) if word == "null" => return Ok(None),
        Some(word) if word != "-" => {
            let path = Path::new(word);
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
    // The usual input of a service: nothing to carry over.
    let null =
        file.metadata().is_ok_and(|m| m.file_type().is_char_device() && m.rdev() == nix::libc::makedev(1, 3));
    Ok((!null).then_some(file))
}

/// A state folder that somebody named must be usable before anything runs.
pub fn named_state(choice: &StateChoice) -> Result<(), HistoryError> {
    let StateChoice::Named(path) = choice else { return Ok(()) };
    let folder = StateFolder::open(path)?;
    folder.check_writable()?;
    History::check(&folder)
}

fn refused(reason: String) -> Box<Outcome> {
    Box::new(Outcome::without_a_run(Cause::Refused, reason))
}

/// Runs it, with the program's streams going through.
async fn execute(way: Way, prepared: &Prepared, input: Option<File>, common: &Common) -> Done {
    let captured = common.json;
    let mut interrupt = std::pin::pin!(interrupted());
    let mut compiled = None;
    if let Some(build) = &prepared.build {
        let mut say = |what: &str| {
            if !captured && !common.quiet {
                notes::say(what);
            }
        };
        let (printed, ready) = match build.run(&way, interrupt.as_mut(), &mut say).await {
            Built::Ready(printed, compile) => (printed, Ok(compile)),
            Built::Failed(outcome) => (outcome.stderr.text.clone().unwrap_or_default(), Err(outcome)),
        };
        // As the compiler would have, had it been called directly.
        if !captured {
            let _ = io::stderr().write_all(printable_lines(&printed).as_bytes());
        }
        match ready {
            Ok(compile) => compiled = Some(compile),
            Err(outcome) => {
                return Done { outcome: *outcome, changed: None, code: None, way: Some(way) };
            }
        }
    }
    let started = tokio::select! {
        biased;
        () = &mut interrupt => {
            let outcome = Outcome::without_a_run(Cause::Cancelled, "stopped: cancelled");
            return Done { outcome, changed: None, code: None, way: Some(way) };
        }
        started = way.spawn(&prepared.policy) => started,
    };
    let (Finished { mut outcome, changed, .. }, code) = match started {
        Err(refusal) => (Finished { outcome: refusal.into(), home: None, changed: None }, None),
        Ok(running) => follow(running, input, captured, interrupt.as_mut()).await,
    };
    outcome.compile = compiled;
    Done { outcome, changed, code, way: Some(way) }
}

async fn follow(
    mut running: Running,
    input: Option<File>,
    captured: bool,
    mut interrupt: std::pin::Pin<&mut impl Future<Output = ()>>,
) -> (Finished, Option<u8>) {
    if let (Some(from), Some(to)) = (input, running.stdin()) {
        streams::feed(from, to);
    }
    let canceller = running.canceller();
    let chunks = if captured { None } else { running.output() };
    let printing = chunks.map(|chunks| tokio::spawn(streams::print(chunks, canceller.clone())));
    let mut ending = running.finish();
    // Whatever the run came to then: it may have ended by itself meanwhile.
    let mut interrupted = false;
    let finished = tokio::select! {
        finished = &mut ending => finished,
        () = interrupt.as_mut() => {
            interrupted = true;
            canceller.cancel();
            ending.await
        }
    };
    let settles = interrupted || finished.outcome.cause == Cause::Cancelled;
    let Some(printing) = printing else { return (finished, None) };
    // What was printed has to be read by somebody; Ctrl-C ends the wait.
    let written = tokio::select! {
        written = printing => written.unwrap_or(Ok(())),
        () = interrupt, if !interrupted => return (finished, Some(exit::INTERRUPTED)),
        () = tokio::time::sleep(SETTLE), if settles => Ok(()),
    };
    (finished, written.err().map(|e| exit::of_write_error(&e)))
}

/// What a compiler printed, quoting what it read: its lines and tabs, and nothing else that moves a cursor.
fn printable_lines(text: &str) -> String {
    text.lines().map(|line| line.split('\t').map(printable).collect::<Vec<_>>().join("\t") + "\n").collect()
}

/// Gives the answer; then remembers the run while the rest of the sandbox goes away.
fn finish(
    common: &Common,
    choice: &StateChoice,
    stored: &Stored,
    done: Done,
    roots: &[&Path],
    runtime: Option<tokio::runtime::Runtime>,
) -> u8 {
    let Done { outcome, code, way, .. } = done;
    let mut code = code.unwrap_or_else(|| exit::of_outcome(&outcome));
    if common.json {
        code = printed(exit::print_json(&outcome), code);
    }
    // Who no longer reads the output has left: nothing more to say.
    if code != exit::UNHEARD {
        scan_text::frames_of(&outcome, roots, common);
        code = changes_text::show(&outcome, common).unwrap_or(code);
        notes::after_run(&outcome, &stored.id, common);
    }
    remember_or_warn(choice, stored, &outcome);
    // What is left of the sandbox goes away behind us.
    if let Some(way) = way {
        way.leave();
    }
    if let Some(runtime) = runtime {
        runtime.shutdown_background();
    }
    code
}

/// Variables that were to be passed through and are not there.
pub fn warn_unset(names: &[OsString]) {
    for name in names {
        tracing::warn!("--env {}: it is not set here, so it is not set inside", name.to_string_lossy());
    }
}

/// Adds a run to the history. A state folder that was refused is not written either.
pub fn remember_or_warn(choice: &StateChoice, stored: &Stored, outcome: &Outcome) {
    if let Err(error) = remember(choice, stored, outcome) {
        let refused = matches!(choice, StateChoice::Named(_)) && outcome.cause == Cause::Refused;
        if !refused {
            tracing::warn!("this run is not in the history: {error}");
        }
    }
}

fn remember(choice: &StateChoice, stored: &Stored, outcome: &Outcome) -> Result<(), HistoryError> {
    let folder = StateFolder::open(choice.path()?)?;
    History::open(&folder)?.add(stored, outcome)
}
