//! Sessions of models that run now, their places, and what callers chose for them.

use std::collections::{BTreeMap, HashMap, HashSet, VecDeque};
use std::sync::{Arc, Mutex, MutexGuard, PoisonError};
use std::thread::JoinHandle;

use hotcell_state::caller::Caller;
use hotcell_state::report::{Code, ErrorReport};
use schemars::JsonSchema;
use serde::{Deserialize, Serialize};
use tokio::sync::{OwnedSemaphorePermit, Semaphore, watch};

/// Maximum number of sessions and reviews at once (S2.3).
pub const MAX_AT_ONCE: usize = 5;
/// Number of kept lines of progress of a session.
pub(crate) const MAX_LINES: usize = 20;

/// Agent of the founding document (S2.5).
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord, Serialize, Deserialize, JsonSchema)]
#[serde(rename_all = "snake_case")]
pub enum Agent {
    /// Writes code.
    Alpha,
    /// Reviews code.
    Beta,
}

/// Choices of a caller for an agent.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct Chosen {
    /// Name of a configured model; `None` for those of the agent's roles.
    pub model: Option<String>,
    /// Name and text of a prompt.
    pub prompt: Option<(String, String)>,
}

/// Sessions that run now, and the callers' choices.
#[derive(Debug)]
pub struct Agents {
    places: Arc<Semaphore>,
    table: Mutex<Table>,
}

#[derive(Debug, Default)]
pub(crate) struct Table {
    pub(crate) running: HashMap<String, Running>,
    /// Sessions that began in this process.
    pub(crate) begun: HashSet<String>,
    pub(crate) choices: BTreeMap<(String, Agent), Chosen>,
    pub(crate) threads: Vec<JoinHandle<()>>,
    pub(crate) ending: bool,
}

/// A session that runs.
#[derive(Debug)]
pub(crate) struct Running {
    pub(crate) stop: watch::Sender<bool>,
    pub(crate) lines: Lines,
}

/// Last lines of progress.
pub(crate) type Lines = Arc<Mutex<VecDeque<String>>>;

impl Default for Agents {
    fn default() -> Self {
        Self { places: Arc::new(Semaphore::new(MAX_AT_ONCE)), table: Mutex::default() }
    }
}

impl Agents {
    pub(crate) fn table(&self) -> MutexGuard<'_, Table> {
        self.table.lock().unwrap_or_else(PoisonError::into_inner)
    }

    /// Takes one of the places.
    pub(crate) fn place(&self) -> Result<OwnedSemaphorePermit, ErrorReport> {
        if self.table().ending {
            return Err(ErrorReport::new(Code::Busy, "hotcell is ending").hint("start it again"));
        }
        Arc::clone(&self.places).try_acquire_owned().map_err(|_| {
            let why = format!("{MAX_AT_ONCE} sessions and reviews run already, which is the maximum");
            ErrorReport::new(Code::Busy, why).hint("call again when one of them has ended")
        })
    }

    /// Tells if a session runs in this process, and its last lines of progress.
    pub(crate) fn lines(&self, session: &str) -> Option<Vec<String>> {
        let table = self.table();
        let running = table.running.get(session)?;
        let lines = running.lines.lock().unwrap_or_else(PoisonError::into_inner);
        Some(lines.iter().cloned().collect())
    }

    /// Tells if a session began in this process.
    pub(crate) fn begun(&self, session: &str) -> bool {
        self.table().begun.contains(session)
    }

    /// Ends what runs. Sessions are in the journal, and go on with `hotcell agent resume`. Blocks until the threads have ended.
    pub fn close(&self) {
        let threads = {
            let mut table = self.table();
            table.ending = true;
            for running in table.running.values() {
                let _ = running.stop.send(true);
            }
            std::mem::take(&mut table.threads)
        };
        for thread in threads {
            if thread.join().is_err() {
                tracing::warn!("a session ended by a fault of hotcell");
            }
        }
    }

    /// Choices of a caller for an agent.
    #[must_use]
    pub fn chosen(&self, caller: &Caller, agent: Agent) -> Chosen {
        self.table().choices.get(&(caller.to_string(), agent)).cloned().unwrap_or_default()
    }
}
