//! Terminals of callers: programs that an agent drives by keys and by the text on their screens.
//!
//! A terminal is a run beside the queue, with an unguessable handle that is valid for its caller alone. Its number, its life and its time
//! without a call are bounded.
//!
//! | module | idea |
//! | --- | --- |
//! | `kind` | kind of lines that a program takes |
//! | [`terminal`] | one terminal: its screen, what is typed, waiting |

pub(crate) mod kind;
pub mod terminal;

use std::collections::HashMap;
use std::sync::{Arc, Mutex, MutexGuard, PoisonError, Weak};
use std::time::Duration;

use hotcell_state::caller::Caller;
use hotcell_state::ids::handle;
use hotcell_state::report::{Code, ErrorReport};

use crate::run::{Phase, Run};

use self::terminal::Terminal;

/// Terminals of one caller, those included that have ended and were not closed.
pub const MAX_OF_ONE: usize = 4;
/// Terminals of all callers.
pub const MAX_OF_ALL: usize = 16;
/// Time without a call after which a terminal is closed.
pub const IDLE_TIMEOUT: Duration = Duration::from_secs(1800);
/// Time between two looks for idle terminals.
const SWEEP_INTERVAL: Duration = Duration::from_secs(15);
/// Time for the processes of a closed terminal to end before the answer.
const CLOSE_TIMEOUT: Duration = Duration::from_secs(3);

/// A terminal and the run of its program.
#[derive(Clone, Debug)]
pub struct Open {
    /// The terminal.
    pub terminal: Arc<Terminal>,
    /// The run; its output is the bytes as the program wrote them.
    pub run: Arc<Run>,
}

#[derive(Debug)]
struct Entry {
    caller: Caller,
    /// `None` while it starts.
    open: Option<Open>,
}

type Table = HashMap<String, Entry>;

/// The terminals of a service.
#[derive(Debug)]
pub struct Terminals(Arc<Mutex<Table>>);

impl Terminals {
    /// None yet. Needs a runtime: idle ones are closed in the background.
    pub(crate) fn new() -> Self {
        let table = Arc::default();
        tokio::spawn(sweep(Arc::downgrade(&table)));
        Self(table)
    }

    fn table(&self) -> MutexGuard<'_, Table> {
        self.0.lock().unwrap_or_else(PoisonError::into_inner)
    }

    /// Takes a place for a terminal of a caller that is about to start.
    ///
    /// # Errors
    /// [`Code::Busy`] when the caller, or all callers, have too many.
    pub fn reserve(&self, caller: &Caller) -> Result<Reserved<'_>, ErrorReport> {
        let id = handle("trm_")?;
        let mut table = self.table();
        let own: Vec<&str> =
            table.iter().filter(|(_, entry)| entry.caller == *caller).map(|(id, _)| id.as_str()).collect();
        if own.len() >= MAX_OF_ONE || table.len() >= MAX_OF_ALL {
            let why = format!(
                "there are {} terminals of yours and {} of all callers; allowed are {MAX_OF_ONE} and {MAX_OF_ALL}",
                own.len(),
                table.len()
            );
            let hint = match own.is_empty() {
                true => "try again later".to_owned(),
                false => format!("close one with terminal_close: {}", own.join(", ")),
            };
            return Err(ErrorReport::new(Code::Busy, why).hint(hint));
        }
        table.insert(id.clone(), Entry { caller: caller.clone(), open: None });
        Ok(Reserved { terminals: self, id: Some(id) })
    }

    /// A terminal of a caller, by its handle.
    ///
    /// # Errors
    /// When no terminal has this handle, or another caller's has: the two are not told apart.
    pub fn get(&self, caller: &Caller, id: &str) -> Result<Open, ErrorReport> {
        let table = self.table();
        let own = table.get(id).filter(|entry| entry.caller == *caller);
        let open = own.and_then(|entry| entry.open.clone()).ok_or_else(|| unknown(id))?;
        open.terminal.used();
        Ok(open)
    }

    /// Ends a terminal's program; the handle is not valid any more.
    ///
    /// # Errors
    /// As [`Terminals::get`].
    pub async fn close(&self, caller: &Caller, id: &str) -> Result<Open, ErrorReport> {
        let open = self.get(caller, id)?;
        self.table().remove(id);
        open.run.cancel();
        let _ = tokio::time::timeout(CLOSE_TIMEOUT, open.run.ended()).await;
        Ok(open)
    }
}

/// Place of a terminal that starts; given up when it does not.
#[derive(Debug)]
pub struct Reserved<'a> {
    terminals: &'a Terminals,
    id: Option<String>,
}

impl Reserved<'_> {
    /// Puts the terminal into its place; returns its handle.
    ///
    /// # Errors
    /// When the place is gone.
    pub fn keep(mut self, open: Open) -> Result<String, ErrorReport> {
        let id = self.id.take().unwrap_or_default();
        match self.terminals.table().get_mut(&id) {
            Some(entry) => entry.open = Some(open),
            None => return Err(unknown(&id)),
        }
        Ok(id)
    }
}

impl Drop for Reserved<'_> {
    fn drop(&mut self) {
        if let Some(id) = &self.id {
            self.terminals.table().remove(id);
        }
    }
}

fn unknown(id: &str) -> ErrorReport {
    let shown: String = id.chars().take(80).collect();
    ErrorReport::new(Code::UnknownName, format!("there is no terminal {shown:?}"))
        .field("terminal_id")
        .hint("it was closed, or not used for 30 minutes; terminal_start starts one")
}

/// Closes idle terminals, until the table is gone.
async fn sweep(table: Weak<Mutex<Table>>) {
    loop {
        tokio::time::sleep(SWEEP_INTERVAL).await;
        let Some(table) = table.upgrade() else { return };
        let mut table = table.lock().unwrap_or_else(PoisonError::into_inner);
        table.retain(|_, entry| {
            let Some(open) = entry.open.as_ref().filter(|open| open.terminal.idle() > IDLE_TIMEOUT) else {
                return true;
            };
            if open.run.state().phase != Phase::Finished {
                open.run.cancel();
            }
            false
        });
    }
}
