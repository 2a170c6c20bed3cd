//! `hotcell session`: an interpreter whose variables stay, on a terminal or in a pipe.

use std::io::{self, BufRead, IsTerminal, Read, Write};
use std::path::Path;
use std::sync::{Arc, Mutex, PoisonError};

use hotcell_deps::Step;
use hotcell_deps::package_set::{self, PackageSet};
use hotcell_sandbox::Engine;
use hotcell_sandbox::text::counted;
use hotcell_scanning::pictures::checked;
use hotcell_sessions::session::MAX_CELL_BYTES;
use hotcell_sessions::{Answer, Cell, Session, SessionEnd, Start, Status, Stream, Witness};
use hotcell_state::report::{Code, ErrorReport, printable};
use hotcell_state::state::{StateChoice, StateFolder};
use hotcell_verbs::outputs::{MAX_PATTERNS, OutputPattern};
use hotcell_workspace::Folder;
use hotcell_workspace::placed::place;
use tokio::signal::unix::{Signal, SignalKind, signal};
use tokio::sync::mpsc;

use crate::args::{Common, SessionArgs, StartArgs};
use crate::context::{configuration, current_folder, runtime, state};
use crate::receipt::make::{Receipt, ReceiptOf, is_wanted};
use crate::signals::Endings;
use crate::terminal::notes;
use crate::terminal::screen::Screen;
use crate::{deps, exit, usage};

use editor::{Prompt, Typed};
use line::Given;
use report::CellReport;

mod editor;
mod history;
mod line;
mod lines;
mod named;
mod names;
pub mod report;
pub mod service;

/// Number of Ctrl-C in one cell after which the session ends.
const MAX_INTERRUPTS: u32 = 3;
/// Exit status of an error in the last cell.
const ERROR: u8 = 1;
/// Exit status of a cell that was interrupted.
const LIMIT: u8 = 124;

/// The cell of a line, with the options in place of what the line does not say.
fn cell(given: Given, args: &SessionArgs) -> Result<Cell, String> {
    let parsed = given.outputs.iter().map(|text| OutputPattern::parse(text));
    let mut outputs = parsed.collect::<Result<Vec<_>, _>>().map_err(|why| format!("outputs: {why}"))?;
    outputs.extend(args.cells.outputs.iter().cloned());
    if outputs.len() > MAX_PATTERNS {
        return Err(format!("outputs has {} patterns; at most {MAX_PATTERNS} are allowed", outputs.len()));
    }
    let timeout = given.timeout.unwrap_or(args.cells.cell_timeout);
    Ok(Cell { code: given.code, timeout, outputs })
}

/// Warns of variables that were to be passed into the session but are not set.
fn warn_unset(start: &StartArgs) {
    crate::run::warn_unset(&start.unset(|name| std::env::var_os(name).is_some()));
}

/// Runs the command; returns its exit status.
pub fn session(common: &Common, args: &SessionArgs) -> anyhow::Result<u8> {
    let language = match (&args.command, args.language) {
        (Some(command), _) => return named::command(common, command),
        (None, Some(language)) => language,
        (None, None) => {
            let report = ErrorReport::new(Code::Usage, "no language is named").field("LANG");
            return Ok(usage::fail(&report.hint("hotcell session python"), common.json));
        }
    };
    let cwd = current_folder();
    let begun = configuration(common, Some(cwd.clone())).and_then(|configuration| {
        let pictures = args.cells.pictures.as_deref().map(|folder| pictures(&cwd, folder)).transpose()?;
        let file = args.receipt.as_deref();
        let receipt = is_wanted(file, &configuration)
            .then(|| Receipt::open(file, &[], &configuration, ReceiptOf::Command))
            .transpose()?;
        Ok((configuration, pictures, receipt))
    });
    let (configuration, pictures, receipt) = match begun {
        Ok(begun) => begun,
        Err(report) => return Ok(usage::fail(&report, common.json)),
    };
    let choice = state(common, &configuration);
    let history = choice.path().ok().and_then(|path| StateFolder::open(path).ok());
    let runtime = runtime()?;
    let engine = Engine::new();
    warn_unset(&args.start);
    let settings = args.start.settings(&cwd);
    let mut start = Start { settings, ..Start::new(language, configuration) };
    let kept = receipt.is_some().then(Arc::<KeptEnd>::default);
    start.witness = kept.clone().map(|kept| kept as Arc<dyn Witness>);
    let is_quiet = common.json || common.quiet;
    if !args.start.packages.is_empty()
        && let Err(report) =
            runtime.block_on(packages(&args.start.packages, &engine, &choice, &mut start, is_quiet))
    {
        return Ok(usage::fail(&report, common.json));
    }
    let code = runtime.block_on(async {
        let (mut interrupts, mut ends) = (signal(SignalKind::interrupt())?, Endings::listen()?);
        let started = tokio::select! {
            started = Session::start(&engine, start) => started,
            _ = interrupts.recv() => return Ok(exit::INTERRUPTED),
            () = ends.next() => return Ok(exit::INTERRUPTED),
        };
        let session = match started {
            Ok(session) => session,
            Err(report) => return Ok(usage::fail(&report, common.json)),
        };
        let code = Repl {
            common,
            args,
            session: &session,
            engine: &engine,
            pictures: pictures.as_ref(),
            history: history.as_ref(),
            interrupts,
            ends,
            is_edited: false,
        }
        .run()
        .await;
        session.close().await;
        anyhow::Ok(code)
    })?;
    runtime.shutdown_background();
    if let (Some(mut receipt), Some(kept)) = (receipt, kept) {
        let end = kept.0.lock().unwrap_or_else(PoisonError::into_inner).take();
        // Without an end there was no session, and its error was said.
        if let Some(end) = end
            && let Err(why) = receipt.of_interpreter(&end)
        {
            notes::say(format!("error: no receipt: {why}"));
            return Ok(exit::REFUSED);
        }
    }
    Ok(code)
}

/// The end of a session, kept for its receipt.
#[derive(Debug, Default)]
struct KeptEnd(Mutex<Option<SessionEnd>>);

impl Witness for KeptEnd {
    fn ended(&self, end: SessionEnd) -> Option<String> {
        *self.0.lock().unwrap_or_else(PoisonError::into_inner) = Some(end);
        None
    }
}

/// Has packages installed, and shows them to the session.
async fn packages(
    named: &[String],
    engine: &Engine,
    choice: &StateChoice,
    start: &mut Start,
    is_quiet: bool,
) -> Result<(), ErrorReport> {
    let set = PackageSet::of_language(start.language.name(), named)
        .map_err(|why| ErrorReport::new(Code::InvalidValue, why).field("--package"))?;
    let opened = choice.path().map_err(|e| e.to_string());
    let state = opened.and_then(|path| StateFolder::open(path).map_err(|e| e.to_string()));
    let state = state.map_err(|why| ErrorReport::new(Code::State, why))?;
    let say = &mut |step: Step<'_>| {
        if !is_quiet {
            notes::say(deps::words(step));
        }
    };
    let scene = (&start.configuration, &start.around);
    let showing = package_set::show(engine, &state, scene, &mut start.settings, &set, say);
    let installed = showing.await.map_err(|report| report.field("--package"))?;
    if let Some(warning) = installed.warning.filter(|_| !is_quiet) {
        notes::say(warning);
    }
    start.packages = installed.versions;
    Ok(())
}

fn pictures(cwd: &Path, folder: &Path) -> Result<Folder, ErrorReport> {
    let unusable = |error: &dyn std::fmt::Display| {
        ErrorReport::new(Code::InvalidValue, format!("--pictures {}: {error}", folder.display()))
            .field("--pictures")
            .hint("name a folder that can be written")
    };
    let real = hotcell_config::typed::real_from(cwd, folder, &[]).map_err(|error| unusable(&error))?;
    std::fs::create_dir_all(&real).map_err(|error| unusable(&error))?;
    Folder::open(&real).map_err(|error| unusable(&error))
}

struct Repl<'a> {
    common: &'a Common,
    args: &'a SessionArgs,
    session: &'a Session,
    engine: &'a Engine,
    pictures: Option<&'a Folder>,
    history: Option<&'a StateFolder>,
    interrupts: Signal,
    ends: Endings,
    /// Whether lines are edited: a prompt then has to begin a line.
    is_edited: bool,
}

impl Repl<'_> {
    async fn run(mut self) -> u8 {
        let is_asked = io::stdin().is_terminal() && !self.common.json;
        if is_asked && !self.common.quiet {
            let language = self.session.language.name();
            notes::say(format!(
                "a session of {language} in a sandbox; Ctrl-D ends it, Ctrl-C interrupts a cell"
            ));
        }
        if !is_asked && !self.common.json {
            let read = tokio::task::spawn_blocking(|| {
                let mut text = Vec::new();
                // One more than a cell may have, so that a longer one is refused with the limit.
                io::stdin().lock().take(MAX_CELL_BYTES as u64 + 1).read_to_end(&mut text).map(|_| text)
            });
            let read = tokio::select! {
                read = read => read,
                _ = self.interrupts.recv() => return exit::INTERRUPTED,
                () = self.ends.next() => return exit::INTERRUPTED,
            };
            let text = match read {
                Ok(Ok(text)) => String::from_utf8_lossy(&text).into_owned(),
                _ => {
                    return usage::fail(
                        &ErrorReport::new(Code::Usage, "standard input cannot be read"),
                        false,
                    );
                }
            };
            return self.cell(self.args.cells.cell(text)).await.0;
        }
        if is_asked && io::stdout().is_terminal() {
            match Prompt::new(self.session.language, self.history.map(StateFolder::path)) {
                Ok(prompt) => return self.prompted(prompt).await,
                Err(error) => notes::say(format!("lines cannot be edited: {error}")),
            }
        }
        let mut lines = lines();
        let (mut pending, mut code) = (String::new(), 0);
        loop {
            if is_asked {
                let prompt = if pending.is_empty() { ">>> " } else { "... " };
                let _ = io::stderr().write_all(prompt.as_bytes());
            }
            let line = tokio::select! {
                line = lines.recv() => line,
                _ = self.interrupts.recv() => {
                    if !is_asked {
                        return exit::INTERRUPTED;
                    }
                    pending.clear();
                    let _ = io::stderr().write_all(b"\n");
                    continue;
                }
                () = self.ends.next() => return exit::INTERRUPTED,
            };
            let Some(line) = line else { break };
            let cell = if self.common.json {
                if line.trim().is_empty() {
                    continue;
                }
                match line::read(&line).and_then(|given| cell(given, self.args)) {
                    Ok(cell) => cell,
                    Err(error) => {
                        let why = format!("a line is no cell: {error}");
                        let hint = "each line is an object: {\"code\": \"1 + 1\"}";
                        code = usage::fail(&ErrorReport::new(Code::Usage, why).hint(hint), true);
                        continue;
                    }
                }
            } else {
                pending.push_str(&line);
                pending.push('\n');
                if !lines::is_whole(self.session.language, &pending) {
                    continue;
                }
                let text = std::mem::take(&mut pending);
                if text.trim().is_empty() {
                    continue;
                }
                self.args.cells.cell(text)
            };
            let (status, is_over) = self.cell(cell).await;
            code = status;
            if is_over {
                return code;
            }
        }
        if is_asked {
            let _ = io::stderr().write_all(b"\n");
            code = 0;
        }
        code
    }

    /// Runs the cells that a person types with line editing.
    async fn prompted(&mut self, mut prompt: Prompt) -> u8 {
        self.is_edited = true;
        loop {
            let typed = tokio::select! {
                typed = prompt.ask() => typed,
                () = self.ends.next() => return exit::INTERRUPTED,
            };
            let text = match typed {
                Typed::Cell(text) => text,
                Typed::Interrupted => continue,
                Typed::End => return 0,
            };
            if text.trim().is_empty() {
                continue;
            }
            let (status, is_over) = self.cell(self.args.cells.cell(text)).await;
            if is_over {
                return status;
            }
        }
    }

    /// Runs a cell and shows what came of it; returns the exit status so far, and whether the session is over.
    async fn cell(&mut self, cell: Cell) -> (u8, bool) {
        let (mut out, mut err) = (io::stdout(), io::stderr());
        let (mut to_out, mut to_err) = (Screen::of(&out, false), Screen::of(&err, false));
        let is_json = self.common.json;
        let mut written = Ok(());
        let mut is_open = false;
        let mut answer = {
            let mut show = |stream: Stream, bytes: &[u8]| {
                is_open = bytes.last().map_or(is_open, |last| *last != b'\n');
                let one = match stream {
                    _ if is_json => Ok(()),
                    Stream::Stdout => out.write_all(to_out.pass(bytes)).and_then(|()| out.flush()),
                    Stream::Stderr => err.write_all(to_err.pass(bytes)),
                };
                if written.is_ok() {
                    written = one;
                }
            };
            let mut executing = std::pin::pin!(self.session.execute_and_show(cell, &mut show));
            let mut asked = 0;
            loop {
                tokio::select! {
                    answer = &mut executing => break answer,
                    _ = self.interrupts.recv() => {
                        asked += 1;
                        if asked >= MAX_INTERRUPTS {
                            return (exit::INTERRUPTED, true);
                        }
                        self.session.interrupt().await;
                    }
                    () = self.ends.next() => return (exit::INTERRUPTED, true),
                }
            }
        };
        check_pictures(self.engine, &mut answer);
        let code = status_code(answer.result.status);
        let is_over = answer.result.status == Status::Died;
        if is_json {
            return (exit::printed(exit::print_json(&CellReport::of(&answer)), code), is_over);
        }
        let shown = written.and_then(|()| {
            if is_open && self.is_edited {
                out.write_all(b"\n")?;
            }
            if let Some(value) = &answer.result.value {
                out.write_all(to_out.pass(format!("{value}\n").as_bytes()))?;
            }
            if let Some(error) = &answer.result.error {
                err.write_all(to_err.pass(error.as_bytes()))?;
            }
            err.write_all(to_err.finish())?;
            out.write_all(to_out.finish())?;
            out.flush()
        });
        if let Some(note) = &answer.result.note {
            notes::say(note);
        }
        save(self.pictures, &answer);
        match shown {
            Ok(()) => (code, is_over),
            Err(error) => (exit::of_write_error(&error), true),
        }
    }
}

/// Writes the pictures and files of a cell to a folder, or says that they are there.
fn save(to: Option<&Folder>, answer: &Answer) {
    let pictures = answer.images.iter().enumerate().map(|(at, image)| {
        (format!("cell-{}-{}.png", answer.result.cell, at + 1), "a picture", image.as_slice())
    });
    let files = answer.files.iter().map(|file| (file.path.clone(), "a file", &*file.bytes));
    for (name, what, bytes) in pictures.chain(files) {
        let (length, shown) = (bytes.len() as u64, printable(&name));
        match to {
            None => notes::say(format!(
                "{what}: {shown}, {}; --pictures DIR writes it there",
                counted(length, "byte")
            )),
            Some(folder) => match place(folder, Path::new(&name), bytes, length) {
                Ok(()) => notes::say(format!("{what}: {shown}")),
                Err(error) => notes::say(format!("{shown} was not written: {error}")),
            },
        }
    }
    for left in &answer.left {
        notes::say(format!("not returned: {}: {}", printable(&left.path), printable(&left.why)));
    }
}

/// Has the pictures of a cell read in a sandbox, and leaves the others out.
fn check_pictures(engine: &Engine, answer: &mut Answer) {
    for picture in std::mem::take(&mut answer.images) {
        match checked(engine, &picture) {
            Ok(picture) => answer.images.push(picture),
            Err(why) => notes::say(format!("a picture is not shown: {}", printable(&why))),
        }
    }
}

/// Exit status of a cell.
const fn status_code(status: Status) -> u8 {
    match status {
        Status::Ok => 0,
        Status::Error => ERROR,
        Status::Interrupted => LIMIT,
        Status::Refused | Status::Died => exit::REFUSED,
    }
}

/// Lines of standard input, without their ends.
fn lines() -> mpsc::Receiver<String> {
    let (send, receive) = mpsc::channel(1);
    std::thread::spawn(move || {
        let mut input = io::stdin().lock();
        loop {
            let mut line = Vec::new();
            // Longer ones are cut there, and refused.
            match (&mut input).take(8 * MAX_CELL_BYTES as u64).read_until(b'\n', &mut line) {
                Ok(0) | Err(_) => return,
                Ok(_) => {}
            }
            let text = String::from_utf8_lossy(&line);
            if send.blocking_send(text.trim_end_matches(['\n', '\r']).to_owned()).is_err() {
                return;
            }
        }
    });
    receive
}
