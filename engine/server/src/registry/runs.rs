//! Runs of a service: started, queued, found by their caller, forgotten after a while.

use std::collections::HashMap;
use std::hash::BuildHasher;
use std::sync::{Arc, MutexGuard, PoisonError};
use std::time::Instant;

use hotcell_report::RunReport;
use hotcell_sandbox::outcome::Output;
use hotcell_state::caller::Caller;
use hotcell_state::history::Stored;
use hotcell_state::ids::handle;
use hotcell_state::report::{Code, ErrorReport};
use hotcell_state::running::LiveRun;
use sha2::{Digest, Sha256};

use super::ending::Ending;
use super::order::{Bounds, MAX_KEY_LEN, Order, Work, beginning, full};
use super::{Live, Shared};
use crate::finished::{Finished, Memory};
use crate::queue::{Queue, QueueLimits};
use crate::run::{Answer, Phase, Run, RunContext, Stream, never_ran};

/// Runs by their ids, and the order in which they start.
pub(super) struct Table {
    pub runs: HashMap<String, Arc<Run>>,
    pub queue: Queue<String>,
    finished: Finished,
    /// Work of runs that wait.
    work: HashMap<String, (Work, Stored)>,
    /// Nothing starts any more.
    pub closed: bool,
}

impl Live {
    /// Starts a run, or queues it.
    ///
    /// # Errors
    /// A report when the queue is full, the key belongs to another order, or the service is shutting down.
    pub fn start(&self, caller: &Caller, order: Order) -> Result<Arc<Run>, ErrorReport> {
        let key = self.key(order.key.as_deref(), &order.content)?;
        let id = handle("run_")?;
        let mut table = self.table();
        self.0.forget(&mut table);
        if table.closed {
            return Err(ErrorReport::new(Code::Busy, "hotcell is ending").hint("start it again"));
        }
        if let Some(known) = known(&table, caller, key.as_ref())? {
            return Ok(known);
        }
        let place = if order.beside {
            false
        } else {
            table.queue.push(caller, &order.lane, id.clone()).map_err(full)?;
            true
        };
        let command = beginning(order.command);
        let stored = Stored::begin(command.clone());
        let run = Arc::new(Run::new(
            id.clone(),
            caller.clone(),
            (command, order.request),
            key,
            (Sha256::digest(&order.content).into(), self.0.issuer.is_some()),
            self.0.bounds.output,
        ));
        table.runs.insert(id.clone(), Arc::clone(&run));
        if place {
            table.work.insert(id, (order.work, stored));
            self.pump(&mut table);
        } else {
            self.begin(Arc::clone(&run), (order.work, stored), place);
        }
        Ok(run)
    }

    /// Begins a run; `place` says that it has one in the queue.
    fn begin(&self, run: Arc<Run>, (work, stored): (Work, Stored), place: bool) {
        run.started();
        let _running = LiveRun::begin(&self.0.state, &stored);
        let ending = Ending {
            live: self.clone(),
            run: Arc::clone(&run),
            stored,
            _running,
            began: Instant::now(),
            place,
        };
        let desk = RunContext { pool: self.0.pool.clone(), elsewhere: self.0.elsewhere.get().cloned(), run };
        tokio::spawn(async move {
            let answer = work(desk).await;
            ending.with(answer);
        });
    }

    /// The earlier run of this key, which [`Live::start`] would return again.
    ///
    /// # Errors
    /// A report when the key is invalid, or belongs to another order.
    pub fn again(
        &self,
        caller: &Caller,
        key: Option<&str>,
        content: &[u8],
    ) -> Result<Option<Arc<Run>>, ErrorReport> {
        let key = self.key(key, content)?;
        known(&self.table(), caller, key.as_ref())
    }

    fn key(&self, key: Option<&str>, content: &[u8]) -> Result<Option<(String, u64)>, ErrorReport> {
        match key {
            Some(key) if key.is_empty() || key.len() > MAX_KEY_LEN => {
                let why = format!("idempotency_key has {} bytes; allowed is 1 to {MAX_KEY_LEN}", key.len());
                Err(ErrorReport::new(Code::InvalidValue, why)
                    .field("idempotency_key")
                    .hint("use a short random text"))
            }
            key => Ok(key.map(|key| (key.to_owned(), self.0.hasher.hash_one(content)))),
        }
    }

    /// A caller's run by its id.
    ///
    /// # Errors
    /// One and the same report for unknown runs, forgotten runs and runs of other callers.
    pub fn run(&self, caller: &Caller, id: &str) -> Result<Arc<Run>, ErrorReport> {
        let table = self.table();
        let run = table.runs.get(id).filter(|r| r.caller == *caller && !self.0.is_old(r));
        run.map(Arc::clone).ok_or_else(|| {
            ErrorReport::new(Code::UnknownName, "there is no run of that run_id")
                .field("run_id")
                .hint("use a run_id from an answer to you; finished runs are forgotten after an hour, and with a server that was killed")
        })
    }

    /// A caller's runs, the newest first.
    #[must_use]
    pub fn runs(&self, caller: &Caller) -> Vec<Arc<Run>> {
        let table = self.table();
        let own = table.runs.values().filter(|r| r.caller == *caller && !self.0.is_old(r));
        let mut runs: Vec<_> = own.map(Arc::clone).collect();
        runs.sort_by_key(|r| std::cmp::Reverse(r.asked));
        runs
    }

    /// A run's position in the queue: 1 is next. `None` when it does not wait.
    #[must_use]
    pub fn position(&self, run: &Run) -> Option<usize> {
        self.table().queue.position(&run.caller, &run.id)
    }

    /// Cancels a run; [`Run::ended`] tells when it has ended.
    pub fn cancel(&self, run: &Run) {
        run.cancel();
        let mut table = self.table();
        if table.queue.withdraw(&run.caller, &run.id) {
            table.work.remove(&run.id);
            let outcome = never_ran();
            self.0.metrics.run_ended(&outcome, None);
            run.finish(Answer::Outcome(Box::new(outcome)));
            table.ended(run);
        }
    }

    /// Number of running, waiting and remembered runs. For tests and a status page.
    #[must_use]
    pub fn counts(&self) -> [usize; 3] {
        let table = self.table();
        let of = |phase| table.runs.values().filter(|r| r.state().phase == phase).count();
        [of(Phase::Running), of(Phase::Queued), of(Phase::Finished)]
    }

    pub(super) fn table(&self) -> MutexGuard<'_, Table> {
        self.0.table.lock().unwrap_or_else(PoisonError::into_inner)
    }

    /// Starts all runs that may start.
    pub(super) fn pump(&self, table: &mut Table) {
        while let Some(id) = table.queue.take() {
            let (Some(run), Some(work)) = (table.runs.get(&id), table.work.remove(&id)) else {
                continue;
            };
            self.begin(Arc::clone(run), work, true);
        }
    }

    /// Adds a run to the history, and makes its receipt.
    pub(super) fn remember(&self, stored: Stored, mut outcome: RunReport, run: &Arc<Run>) {
        let [out, err] = Stream::ALL.map(|s| run.kept(s)).map(|(kept, bytes)| Output::new(kept, bytes));
        (outcome.stdout, outcome.stderr) = (out, err);
        if let Some(answer) = run.answer().filter(|_| run.has_receipt) {
            self.make_receipt(run, &stored, answer, outcome.clone());
        }
        self.0.scribe.add(stored, outcome);
    }
}

impl Shared {
    fn is_old(&self, run: &Run) -> bool {
        run.ended_at().is_some_and(|at| at.elapsed() > self.bounds.time_to_live)
    }

    /// Forgets finished runs that are old, too many of one caller, or too large together.
    pub(super) fn forget(&self, table: &mut Table) {
        let Bounds { finished_for_one, held, time_to_live, .. } = self.bounds;
        let memory = Memory { of_one: finished_for_one, bytes: held, time: time_to_live };
        for id in table.finished.forget(memory, Instant::now()) {
            table.runs.remove(&id);
        }
    }
}

impl Table {
    /// An empty table.
    pub fn new(places: QueueLimits) -> Self {
        Self {
            runs: HashMap::new(),
            queue: Queue::new(places),
            finished: Finished::default(),
            work: HashMap::new(),
            closed: false,
        }
    }

    /// Marks a run as ended: from now on it may be forgotten.
    pub fn ended(&mut self, run: &Run) {
        let at = run.ended_at().unwrap_or_else(Instant::now);
        self.finished.add(run.caller.clone(), run.id.clone(), at, run.held());
    }
}

/// The run of a caller's key.
fn known(
    table: &Table,
    caller: &Caller,
    key: Option<&(String, u64)>,
) -> Result<Option<Arc<Run>>, ErrorReport> {
    let Some((name, content)) = key else { return Ok(None) };
    let is = |run: &&Arc<Run>| {
        run.caller == *caller && !run.is_cancelled() && run.key.as_ref().is_some_and(|(n, _)| n == name)
    };
    match table.runs.values().find(is) {
        Some(run) if run.key.as_ref().is_some_and(|(_, c)| c == content) => Ok(Some(Arc::clone(run))),
        Some(_) => Err(ErrorReport::new(Code::InvalidValue, "idempotency_key was used for another request")
            .field("idempotency_key")
            .hint("use a new key for a new request")),
        None => Ok(None),
    }
}
