//! `hotcell session`: an interpreter whose variables stay, on a terminal or in a pipe.

use std::io::{self, BufRead, IsTerminal, Read, Write};
use std::path::Path;
use std::time::Duration;

use hotcell_sandbox::Engine;
use hotcell_sessions::session::MAX_CELL_BYTES;
use hotcell_sessions::{Answer, Cell, Session, Start, Status, Stream};
use hotcell_state::report::{Code, ErrorReport};
use hotcell_workspace::Folder;
use hotcell_workspace::placed::place;
use serde::Deserialize;
use tokio::signal::unix::{Signal, SignalKind, signal};
use tokio::sync::mpsc;

use crate::args::{Common, SessionArgs};
use crate::context::{configuration, current_folder, runtime};
use crate::terminal::notes;
use crate::terminal::screen::Screen;
use crate::{exit, usage};

mod lines;

/// Number of Ctrl-C in one cell after which the session ends.
const MAX_INTERRUPTS: u32 = 3;
/// Exit status of an error in the last cell.
const ERROR: u8 = 1;
/// Exit status of a cell that was interrupted.
const LIMIT: u8 = 124;

/// A cell in a line of JSON.
#[derive(Deserialize)]
#[serde(deny_unknown_fields)]
struct Given {
    code: String,
    #[serde(default)]
    timeout_ms: Option<u64>,
}

/// Runs the command; returns its exit status.
pub fn session(common: &Common, args: &SessionArgs) -> anyhow::Result<u8> {
    let cwd = current_folder();
    let begun = configuration(common, Some(cwd.clone())).and_then(|configuration| {
        let pictures = args.pictures.as_deref().map(|folder| pictures(&cwd, folder)).transpose()?;
        Ok((configuration, pictures))
    });
    let (configuration, pictures) = match begun {
        Ok(begun) => begun,
        Err(report) => return Ok(usage::fail(&report, common.json)),
    };
    let runtime = runtime()?;
    let engine = Engine::new();
    let start = Start { settings: args.settings(&cwd), ..Start::new(args.language, configuration) };
    let code = runtime.block_on(async {
        let (mut interrupts, mut ends) = (signal(SignalKind::interrupt())?, signal(SignalKind::terminate())?);
        let started = tokio::select! {
            started = Session::start(&engine, start) => started,
            _ = interrupts.recv() => return Ok(exit::INTERRUPTED),
            _ = ends.recv() => return Ok(exit::INTERRUPTED),
        };
        let session = match started {
            Ok(session) => session,
            Err(report) => return Ok(usage::fail(&report, common.json)),
        };
        let code = Repl { common, args, session: &session, pictures: pictures.as_ref(), interrupts, ends }
            .run()
            .await;
        session.close().await;
        anyhow::Ok(code)
    })?;
    runtime.shutdown_background();
    Ok(code)
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
    pictures: Option<&'a Folder>,
    interrupts: Signal,
    ends: Signal,
}

impl Repl<'_> {
    async fn run(mut self) -> u8 {
        let is_asked = io::stdin().is_terminal() && !self.common.json;
        if is_asked && !self.common.quiet {
            let language = self.args.language.name();
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
            let text = match read.await {
                Ok(Ok(text)) => String::from_utf8_lossy(&text).into_owned(),
                _ => {
                    return usage::fail(
                        &ErrorReport::new(Code::Usage, "standard input cannot be read"),
                        false,
                    );
                }
            };
            return self.cell(Cell { code: text, timeout: self.args.cell_timeout }).await.0;
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
                _ = self.ends.recv() => return exit::INTERRUPTED,
            };
            let Some(line) = line else { break };
            let cell = if self.common.json {
                if line.trim().is_empty() {
                    continue;
                }
                match serde_json::from_str::<Given>(&line) {
                    Ok(given) => Cell {
                        code: given.code,
                        timeout: given.timeout_ms.map_or(self.args.cell_timeout, Duration::from_millis),
                    },
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
                if !lines::is_whole(self.args.language, &pending) {
                    continue;
                }
                let text = std::mem::take(&mut pending);
                if text.trim().is_empty() {
                    continue;
                }
                Cell { code: text, timeout: self.args.cell_timeout }
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

    /// Runs a cell and shows what came of it; returns the exit status so far, and whether the session is over.
    async fn cell(&mut self, cell: Cell) -> (u8, bool) {
        let (mut out, mut err) = (io::stdout(), io::stderr());
        let (mut to_out, mut to_err) = (Screen::of(&out, false), Screen::of(&err, false));
        let is_json = self.common.json;
        let mut written = Ok(());
        let answer = {
            let mut show = |stream: Stream, bytes: &[u8]| {
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
                    _ = self.ends.recv() => return (exit::INTERRUPTED, true),
                }
            }
        };
        let code = match answer.result.status {
            Status::Ok => 0,
            Status::Error => ERROR,
            Status::Interrupted => LIMIT,
            Status::Refused | Status::Died => exit::REFUSED,
        };
        let is_over = answer.result.status == Status::Died;
        if is_json {
            return (exit::printed(exit::print_json(&answer), code), is_over);
        }
        let shown = written.and_then(|()| {
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
        self.save(&answer);
        match shown {
            Ok(()) => (code, is_over),
            Err(error) => (exit::of_write_error(&error), true),
        }
    }

    fn save(&self, answer: &Answer) {
        for (at, image) in answer.images.iter().enumerate() {
            let name = format!("cell-{}-{}.png", answer.result.cell, at + 1);
            let bytes = image.len() as u64;
            match self.pictures {
                None => {
                    notes::say(format!("a picture of {bytes} bytes; --pictures DIR writes them to files"));
                }
                Some(folder) => match place(folder, Path::new(&name), image.as_slice(), bytes) {
                    Ok(()) => notes::say(format!("a picture: {name}")),
                    Err(error) => notes::say(format!("{name} was not written: {error}")),
                },
            }
        }
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
