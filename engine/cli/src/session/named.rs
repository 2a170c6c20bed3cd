//! The command line's side of named sessions, which live in `hotcell serve`.

use std::io::{self, Read, Write};

use hotcell_config::EnvSetting;
use hotcell_daemon::{Client, NotServed, Unreached};
use hotcell_sandbox::Engine;
use hotcell_sandbox::text::counted;
use hotcell_sessions::session::MAX_CELL_BYTES;
use hotcell_sessions::{Answer, InterruptResult, Language};
use hotcell_state::report::{Code, ErrorReport, printable};
use serde::de::DeserializeOwned;
use tokio::io::{AsyncReadExt, AsyncWriteExt};

use super::report::{CellReport, InterruptReport, NamedList, NamedReport};
use super::service::{Asked, NamedSession, Reply, Wanted};
use super::{check_pictures, pictures, save, status_code};
use crate::args::{CellArgs, Common, SessionCommand, StartArgs};
use crate::context::{current_folder, runtime};
use crate::signals::interrupted;
use crate::terminal::notes;
use crate::terminal::screen::Screen;
use crate::{backend, exit, usage};

/// Maximum length of an answer, in bytes: output, pictures and files in base64.
const MAX_ANSWER_BYTES: u64 = 64 << 20;

/// Runs a command on named sessions; returns its exit status.
pub fn command(common: &Common, command: &SessionCommand) -> anyhow::Result<u8> {
    let runtime = runtime()?;
    let done = runtime.block_on(async {
        let stop = interrupted();
        tokio::select! {
            done = perform(common, command) => done,
            // The service interrupts the cell of a client that goes away.
            () = stop => Ok(exit::INTERRUPTED),
        }
    });
    runtime.shutdown_background();
    Ok(done.unwrap_or_else(|report| usage::fail(&report, common.json)))
}

async fn perform(common: &Common, command: &SessionCommand) -> Result<u8, ErrorReport> {
    match command {
        SessionCommand::Create { name, language, start } => {
            let made: NamedSession = ask(&create(name, *language, start)).await?;
            told(common, &NamedReport::of(&made), &format!("{name}: a session of {}\n", made.language))
        }
        SessionCommand::Exec { name, code, cells } => exec(common, name, code.as_deref(), cells).await,
        SessionCommand::Interrupt { name } => {
            let done: InterruptResult = ask(&Asked::Interrupt { name: name.clone() }).await?;
            let words = match done {
                InterruptResult::Stopped => "interrupted",
                InterruptResult::Ignored => {
                    "the cell was asked to stop and still runs; hotcell session reset ends it"
                }
                InterruptResult::Idle => "no cell runs",
            };
            let report = InterruptReport::of(name, done);
            told(common, &report, &format!("{name}: {words}\n"))
        }
        SessionCommand::Reset { name } => {
            let done: NamedSession = ask(&Asked::Reset { name: name.clone() }).await?;
            told(common, &NamedReport::of(&done), &format!("{name}: empty\n"))
        }
        SessionCommand::Close { name } => {
            let done: NamedSession = ask(&Asked::Close { name: name.clone() }).await?;
            told(common, &NamedReport::of(&done), &format!("{name}: closed\n"))
        }
        SessionCommand::List => {
            let all: Vec<NamedSession> = ask(&Asked::List {}).await?;
            let line = |one: &NamedSession| {
                let why = one.why.as_deref().map(|why| format!(": {}", printable(why))).unwrap_or_default();
                let lost = one.lost.as_deref().map(|lost| format!("; lost: {lost}")).unwrap_or_default();
                format!(
                    "{} {} {}, {}, idle {} s{why}{lost}\n",
                    one.name,
                    one.language,
                    one.state,
                    counted(one.cells, "cell"),
                    one.idle_s
                )
            };
            told(common, &NamedList::of(&all), &all.iter().map(line).collect::<String>())
        }
    }
}

/// Prints an answer as JSON, or in words.
fn told<T: serde::Serialize>(common: &Common, value: &T, words: &str) -> Result<u8, ErrorReport> {
    let written = if common.json {
        exit::print_json(value)
    } else if common.quiet {
        Ok(())
    } else {
        exit::print_text(words)
    };
    Ok(exit::printed(written, 0))
}

fn create(name: &str, language: Language, start: &StartArgs) -> Asked {
    let cwd = current_folder();
    super::warn_unset(start);
    let settings = start.settings(&cwd);
    let value = |setting: &EnvSetting| match setting {
        EnvSetting::Set(name, value) => Some((name.clone(), value.clone())),
        EnvSetting::Pass(name) => std::env::var_os(name).map(|value| (name.clone(), value)),
    };
    Asked::Create(Box::new(Wanted {
        name: name.to_owned(),
        language: language.name().to_owned(),
        packages: start.packages.clone(),
        memory: settings.limits.memory,
        image: settings.image,
        profile: settings.profile,
        guard: settings.guard.map(|guard| guard.name().to_owned()),
        env: settings.env.iter().filter_map(value).collect(),
        ro: settings.binds.into_iter().map(|bind| (bind.host, bind.inside)).collect(),
        cwd,
    }))
}

async fn exec(common: &Common, name: &str, code: Option<&str>, cells: &CellArgs) -> Result<u8, ErrorReport> {
    let folder = cells.pictures.as_deref().map(|folder| pictures(&current_folder(), folder)).transpose()?;
    let code = match code {
        Some(code) => code.to_owned(),
        None => {
            let mut text = Vec::new();
            let read = io::stdin().lock().take(MAX_CELL_BYTES as u64 + 1).read_to_end(&mut text);
            read.map_err(|error| {
                ErrorReport::new(Code::Usage, format!("standard input cannot be read: {error}"))
            })?;
            String::from_utf8_lossy(&text).into_owned()
        }
    };
    if code.len() > MAX_CELL_BYTES {
        let why = format!("the cell has more than {MAX_CELL_BYTES} bytes; put data into files");
        return Err(ErrorReport::new(Code::InvalidValue, why).field("CODE"));
    }
    let timeout_ms = u64::try_from(cells.cell_timeout.as_millis()).unwrap_or(u64::MAX);
    let outputs = cells.outputs.iter().map(|pattern| pattern.text().to_owned()).collect();
    let asked = Asked::Exec { name: name.to_owned(), code, timeout_ms, outputs };
    let mut answer: Answer = ask(&asked).await?;
    check_pictures(&Engine::new(), &mut answer);
    let code = status_code(answer.result.status);
    if common.json {
        return Ok(exit::printed(exit::print_json(&CellReport::of(&answer)), code));
    }
    let (mut out, mut err) = (io::stdout(), io::stderr());
    let (mut to_out, mut to_err) = (Screen::of(&out, false), Screen::of(&err, false));
    let value = answer.result.value.as_ref().map(|value| format!("{value}\n")).unwrap_or_default();
    let shown = (|| {
        for text in [&answer.stdout.text, &value] {
            out.write_all(to_out.pass(text.as_bytes()))?;
        }
        for text in [&answer.stderr.text, answer.result.error.as_deref().unwrap_or_default()] {
            err.write_all(to_err.pass(text.as_bytes()))?;
        }
        err.write_all(to_err.finish())?;
        out.write_all(to_out.finish())?;
        out.flush()
    })();
    if let Some(note) = &answer.result.note {
        notes::say(note);
    }
    save(folder.as_ref(), &answer);
    Ok(exit::printed(shown, code))
}

/// Sends a request to the service, and waits for its answer.
async fn ask<T: DeserializeOwned>(asked: &Asked) -> Result<T, ErrorReport> {
    let none = |why: String| {
        ErrorReport::new(Code::State, format!("named sessions live in the service, and {why}"))
            .hint("start it with hotcell serve; hotcell session LANG needs none")
    };
    let folder = backend::place().ok_or_else(|| none("HOME is not set to an absolute path".to_owned()))?;
    let client = Client::reach(&folder).map_err(|error| match &error {
        Unreached::Place(place) if place.is_absence() => none("none runs".to_owned()),
        _ => none(error.to_string()),
    })?;
    let stream = client.attach().await.map_err(|error| match error {
        NotServed::Cold { why, .. } => none(why),
        NotServed::Lost(refusal) => none(refusal.to_string()),
    })?;
    let gone = |error: &dyn std::fmt::Display| none(format!("it went away: {error}"));
    let stream = stream.set_nonblocking(true).and_then(|()| tokio::net::UnixStream::from_std(stream));
    let mut stream = stream.map_err(|error| gone(&error))?;
    let mut line = serde_json::to_vec(asked).map_err(|error| gone(&error))?;
    line.push(b'\n');
    stream.write_all(&line).await.map_err(|error| gone(&error))?;
    let mut answer = Vec::new();
    let read = (&mut stream).take(MAX_ANSWER_BYTES).read_to_end(&mut answer).await;
    read.map_err(|error| gone(&error))?;
    match serde_json::from_slice(&answer) {
        Ok(Reply::Good(value)) => serde_json::from_value(value).map_err(|error| gone(&error)),
        Ok(Reply::Bad(report)) => Err(report),
        Err(error) => Err(gone(&error)),
    }
}
