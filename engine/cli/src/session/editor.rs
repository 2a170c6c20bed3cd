//! Cells that a person types: line editing with history, completion and several lines, on a terminal that can; plain lines elsewhere.

use std::io;
use std::os::fd::{AsFd, OwnedFd};
use std::path::Path;
use std::sync::mpsc as threads;

use hotcell_sessions::Language;
use nix::sys::termios::{SetArg, Termios, tcgetattr, tcsetattr};
use rustyline::completion::Completer;
use rustyline::error::ReadlineError;
use rustyline::highlight::Highlighter;
use rustyline::hint::Hinter;
use rustyline::history::MemHistory;
use rustyline::validate::{ValidationContext, ValidationResult, Validator};
use rustyline::{CompletionType, Config, Context, Editor, Helper};
use tokio::sync::mpsc;

use super::history::{History, MAX_ENTRIES};
use super::lines;
use super::names::Names;

/// An answer to the prompt.
#[derive(Debug)]
pub enum Typed {
    /// A whole cell.
    Cell(String),
    /// Ctrl-C: what was typed is given up.
    Interrupted,
    /// Ctrl-D on an empty line, or the end of the input.
    End,
}

/// Asks for cells, in a thread.
#[derive(Debug)]
pub struct Prompt {
    ask: threads::Sender<()>,
    typed: mpsc::Receiver<Typed>,
    /// The terminal and its settings, which are those of a prompt while it is waited for.
    before: Option<(OwnedFd, Termios)>,
}

impl Prompt {
    /// Begins; the history is in this state folder, if there is one.
    pub fn new(language: Language, state: Option<&Path>) -> rustyline::Result<Self> {
        let before = io::stdin().as_fd().try_clone_to_owned().ok();
        let before = before.and_then(|fd| tcgetattr(&fd).ok().map(|settings| (fd, settings)));
        let history = state.map(|state| History::of(state, language));
        let (ask, asked) = threads::channel();
        let (send, typed) = mpsc::channel(1);
        let mut editor = editor(language, history.as_ref())?;
        std::thread::spawn(move || {
            while let Ok(()) = asked.recv() {
                let typed = match editor.readline(">>> ") {
                    Ok(cell) => {
                        let _ = editor.add_history_entry(cell.trim_end());
                        if let Some(helper) = editor.helper_mut() {
                            helper.names.add(&cell);
                        }
                        if let Some(Err(error)) = history.as_ref().map(|history| history.add(cell.trim_end()))
                        {
                            tracing::debug!("the history was not written: {error}");
                        }
                        Typed::Cell(cell + "\n")
                    }
                    Err(ReadlineError::Interrupted) => Typed::Interrupted,
                    Err(_) => Typed::End,
                };
                if send.blocking_send(typed).is_err() {
                    return;
                }
            }
        });
        Ok(Self { ask, typed, before })
    }

    /// The next cell. It is asked for once, however often this is called before it is there.
    pub async fn ask(&mut self) -> Typed {
        if self.ask.send(()).is_err() {
            return Typed::End;
        }
        self.typed.recv().await.unwrap_or(Typed::End)
    }
}

impl Drop for Prompt {
    fn drop(&mut self) {
        // The thread may wait for a key still.
        if let Some((terminal, settings)) = &self.before {
            let _ = tcsetattr(terminal, SetArg::TCSANOW, settings);
        }
    }
}

fn editor(language: Language, history: Option<&History>) -> rustyline::Result<Editor<Cells, MemHistory>> {
    let config = Config::builder()
        .max_history_size(MAX_ENTRIES)?
        .history_ignore_space(true)
        .history_ignore_dups(true)?
        .completion_type(CompletionType::List)
        .bracketed_paste(true)
        .tab_stop(4)
        .build();
    let memory = MemHistory::with_config(&config);
    let mut editor = Editor::with_history(config, memory)?;
    let mut helper = Cells { language, names: Names::of(language) };
    match history.map(History::read) {
        Some(Ok(entries)) => {
            for entry in entries {
                helper.names.add(&entry);
                let _ = editor.add_history_entry(entry);
            }
        }
        Some(Err(error)) => tracing::debug!("the history was not read: {error}"),
        None => {}
    }
    editor.set_helper(Some(helper));
    Ok(editor)
}

/// Answers to what the editor asks about a cell.
struct Cells {
    language: Language,
    names: Names,
}

impl Helper for Cells {}
impl Highlighter for Cells {}

impl Hinter for Cells {
    type Hint = String;
}

impl Completer for Cells {
    type Candidate = String;

    fn complete(
        &self,
        line: &str,
        cursor: usize,
        _: &Context<'_>,
    ) -> rustyline::Result<(usize, Vec<String>)> {
        Ok(self.names.complete(line, cursor))
    }
}

impl Validator for Cells {
    fn validate(&self, context: &mut ValidationContext<'_>) -> rustyline::Result<ValidationResult> {
        let text = format!("{}\n", context.input());
        Ok(match lines::is_whole(self.language, &text) {
            true => ValidationResult::Valid(None),
            false => ValidationResult::Incomplete,
        })
    }
}
