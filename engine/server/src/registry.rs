//! The service: its parts, its configuration in force, and its end.

mod ending;
mod order;
mod runs;

use std::hash::RandomState;
use std::sync::{Arc, Mutex, OnceLock, PoisonError, Weak};
use std::time::{Duration, Instant};

use hotcell_config::{Configuration, PoolSettings};
use hotcell_guard::quarantine::Channel;
use hotcell_plugins::Caller as Tools;
use hotcell_receipts::Issuer;
use hotcell_review::approvals::Approvals;
use hotcell_review::quarantine::QuarantineService;
use hotcell_sandbox::doctor::{self, Doctor};
use hotcell_sandbox::pool::{Pool, PoolOptions};
use hotcell_sandbox::profile::Profile;
use hotcell_sandbox::{Engine, Spawn};
use hotcell_scanning::reader::program;
use hotcell_scanning::session::ScanState;
use hotcell_sessions::Sessions;
use hotcell_state::caller::Caller;
use hotcell_state::report::{Code, ErrorReport};
use hotcell_state::state::{StateChoice, StateFolder};
use tokio::task::JoinHandle;

pub use order::{Bounds, Order, Work};
use runs::Table;

use crate::history_writer::HistoryWriter;
use crate::metrics::{Metrics, Now};

use super::current::{self, Current};
use super::queue::QueueLimits;
use super::run::Elsewhere;
use super::running_agents::Agents;
use super::signing;
use super::tasks::Tasks;
use super::terminals::Terminals;
use super::workspaces::{Folders, Workspaces};

/// Interval of removing old runs.
const SWEEP_INTERVAL: Duration = Duration::from_secs(60);
/// Time for which an examination of the host is reused.
const EXAMINATION_LIFETIME: Duration = Duration::from_secs(600);
/// Time limit for shutting down.
const CLOSE_TIMEOUT: Duration = Duration::from_secs(5);

/// The service. Clones share it.
#[derive(Clone, Debug)]
pub struct Live(Arc<Shared>);

struct Shared {
    pool: Pool,
    current: Current,
    bounds: Bounds,
    workspaces: Workspaces,
    state: Arc<StateFolder>,
    /// Tools of plugins; `None` in a program that is not a tool host, or without a state folder for them.
    tools: Option<Arc<Tools>>,
    tasks: Tasks,
    sessions: Sessions,
    terminals: Terminals,
    agents: Arc<Agents>,
    metrics: Metrics,
    /// Another place, to which runs are sent.
    elsewhere: OnceLock<Elsewhere>,
    /// Background tasks.
    behind: Mutex<Vec<JoinHandle<()>>>,
    scribe: Arc<HistoryWriter>,
    /// Makes a receipt for each run, where the operator wants that.
    issuer: Option<Arc<Issuer>>,
    table: Mutex<Table>,
    hasher: RandomState,
    examined: tokio::sync::Mutex<Option<(Instant, Arc<Doctor>)>>,
}

impl std::fmt::Debug for Shared {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        f.debug_struct("Live").field("bounds", &self.bounds).finish_non_exhaustive()
    }
}

impl Live {
    /// Starts a service within a runtime. Workspaces in the state folder are kept; other leftovers of a dead
    /// service there are removed.
    ///
    /// # Errors
    /// A report when the state folder cannot be used.
    pub fn open(
        engine: Engine,
        mut configuration: Configuration,
        state: StateFolder,
        bounds: Bounds,
    ) -> Result<Self, ErrorReport> {
        configuration.reading = ScanState::lasting(state.path());
        let folders = Folders::of(&configuration.user.mcp, state.path());
        let workspaces = Workspaces::open(&state, bounds.quotas, folders)?;
        let places = QueueLimits {
            running: bounds.concurrent,
            running_for_one: bounds.concurrent_for_one,
            waiting_for_one: bounds.waiting_for_one,
            waiting: bounds.waiting,
        };
        engine.keep_ready(bounds.concurrent);
        let tools = program().and_then(|program| match Tools::new(&configuration, program.to_owned()) {
            Ok(tools) => Some(Arc::new(tools)),
            Err(report) => {
                tracing::warn!("no tools of plugins: {report}");
                None
            }
        });
        let PoolSettings { per_shape, total, memory, prewarm } = configuration.user.pool;
        let ready =
            PoolOptions { each: per_shape, all: total, memory, prime: prewarm, ..PoolOptions::default() };
        let sessions = Sessions::new(hotcell_sessions::Bounds::of(&configuration.user.sessions));
        let tasks = Tasks::of(&state, &workspaces.service());
        let issuer = signing::issuer(&configuration, &state)?.map(Arc::new);
        let state = Arc::new(state);
        let shared = Arc::new(Shared {
            scribe: Arc::new(HistoryWriter::new(Arc::clone(&state))),
            issuer,
            tasks,
            sessions,
            terminals: Terminals::new(),
            agents: Arc::default(),
            metrics: Metrics::default(),
            elsewhere: OnceLock::new(),
            behind: Mutex::default(),
            pool: Pool::new(engine, ready),
            current: Current::new(configuration),
            bounds,
            workspaces,
            state,
            tools,
            table: Mutex::new(Table::new(places)),
            hasher: RandomState::new(),
            examined: tokio::sync::Mutex::default(),
        });
        tokio::spawn(sweep_now_and_then(Arc::downgrade(&shared)));
        Ok(Self(shared))
    }

    /// The engine.
    #[must_use]
    pub fn engine(&self) -> &Engine {
        self.0.pool.engine()
    }

    /// Sends programs, sources and tests that callers run to another place from now on. Sessions, terminals, agents and plugins stay here.
    ///
    /// # Errors
    /// A report, when each run gets a receipt: one states what this machine saw.
    pub fn send_to(&self, place: Arc<dyn Spawn>) -> Result<(), ErrorReport> {
        if self.0.issuer.is_some() {
            let why =
                "receipts.always and fleet.mcp are both set, and a receipt states what this machine saw";
            return Err(ErrorReport::new(Code::Configuration, why)
                .field("fleet.mcp")
                .hint("take one of the two out; workers of a farm sign receipts of their own"));
        }
        let _ = self.0.elsewhere.set(Elsewhere(place));
        Ok(())
    }

    /// Tells if runs of callers are sent to another place.
    #[must_use]
    pub fn sends(&self) -> bool {
        self.0.elsewhere.get().is_some()
    }

    /// Sandboxes for sessions.
    pub(crate) fn pool(&self) -> &Pool {
        &self.0.pool
    }

    /// Interpreters of callers.
    #[must_use]
    pub fn sessions(&self) -> &Sessions {
        &self.0.sessions
    }

    /// Terminals of callers.
    #[must_use]
    pub fn terminals(&self) -> &Terminals {
        &self.0.terminals
    }

    /// Sessions in which models write code.
    #[must_use]
    pub fn agents(&self) -> &Arc<Agents> {
        &self.0.agents
    }

    /// The maker of receipts, if each run gets one.
    pub(crate) fn issuer(&self) -> Option<Arc<Issuer>> {
        self.0.issuer.clone()
    }

    /// The state folder.
    pub(crate) fn state_folder(&self) -> Arc<StateFolder> {
        Arc::clone(&self.0.state)
    }

    /// The operator's configuration in force.
    #[must_use]
    pub fn configuration(&self) -> Arc<Configuration> {
        self.0.current.get()
    }

    /// The replaceable configuration, for jobs that start later.
    pub fn current(&self) -> &Current {
        &self.0.current
    }

    /// Replaces the configuration for everything that starts from now on, including waiting runs. For running
    /// ones it can only take rights away: their hosts, if it turns the network off. Returns the keys that
    /// take effect only after the next start. Blocks.
    ///
    /// # Errors
    /// A report when the new configuration cannot be used; the old one stays in force.
    pub fn reconfigure(&self, mut new: Configuration) -> Result<Vec<&'static str>, ErrorReport> {
        let old = self.configuration();
        (new.asker, new.reading) = (old.asker.clone(), old.reading.clone());
        current::check(&new)?;
        let later = current::later(&old, &new);
        // Rights are reduced first, so that at no time more is allowed than under either configuration.
        self.0.workspaces.allow(Folders::of(&new.user.mcp, self.0.state.path()));
        if let Some(tools) = self.tools() {
            tools.reconfigure(&new);
        }
        self.0.current.replace(new);
        Ok(later)
    }

    /// Tells if there are several callers: then none of them can take every slot.
    pub fn share(&self, several: bool) {
        let all = self.0.bounds.concurrent;
        let mut table = self.table();
        table.queue.hold_each_to(if several { (all - 1).max(1) } else { all });
        self.pump(&mut table);
    }

    /// Tools of plugins, if available.
    #[must_use]
    pub fn tools(&self) -> Option<&Arc<Tools>> {
        self.0.tools.as_ref()
    }

    /// The configuration for a caller's requests: refused code is held under its name.
    #[must_use]
    pub fn configuration_of(&self, caller: &Caller) -> Configuration {
        let state = StateChoice::Named(self.0.state.path().to_owned());
        let asker = Some((Channel::Model(caller.to_string()), state));
        Configuration { asker, ..Configuration::clone(&self.configuration()) }
    }

    /// The quarantine as a caller sees it.
    ///
    /// # Errors
    /// A report when the operator's own rules cannot be read.
    pub fn office(&self, caller: &Caller) -> Result<QuarantineService, ErrorReport> {
        QuarantineService::of(&self.configuration_of(caller), None)
    }

    /// Approvals of a caller.
    ///
    /// # Errors
    /// Never, since the configuration has a caller.
    pub fn approvals(&self, caller: &Caller) -> Result<Approvals, ErrorReport> {
        Approvals::of(&self.configuration_of(caller))
    }

    /// The counters.
    #[must_use]
    pub fn metrics(&self) -> &Metrics {
        &self.0.metrics
    }

    /// Values that are measured on request, not counted. Reads the state folder: blocks.
    #[must_use]
    pub fn now(&self) -> Now {
        let served = self.0.pool.served();
        let state = crate::metrics::state::counts(&self.0.state);
        if let Err(error) = &state {
            tracing::debug!("approvals and quarantine cannot be counted: {error}");
        }
        Now {
            runs: self.counts(),
            served: [served.hot, served.primed, served.cold],
            ready: self.0.pool.ready(),
            host_failures: self.tools().map(|tools| tools.hosts().failures()),
            state: state.ok(),
        }
    }

    /// Calls that continue in the background.
    #[must_use]
    pub fn tasks(&self) -> &Tasks {
        &self.0.tasks
    }

    /// Runs work in the background; shutting down waits for it, for a limited time.
    pub fn behind(&self, work: impl Future<Output = ()> + Send + 'static) {
        let mut behind = self.0.behind.lock().unwrap_or_else(PoisonError::into_inner);
        behind.retain(|one| !one.is_finished());
        behind.push(tokio::spawn(work));
    }

    /// True while shutting down: a run cancelled now was not cancelled by its caller.
    #[must_use]
    pub fn is_ending(&self) -> bool {
        self.table().closed
    }

    /// The limits.
    #[must_use]
    pub fn bounds(&self) -> &Bounds {
        &self.0.bounds
    }

    /// The workspaces.
    #[must_use]
    pub fn workspaces(&self) -> &Workspaces {
        &self.0.workspaces
    }

    /// Defenses that this host can enforce; examined at most every ten minutes.
    pub async fn examine(&self) -> Arc<Doctor> {
        let mut examined = self.0.examined.lock().await;
        if let Some((at, doctor)) = examined.as_ref()
            && at.elapsed() < EXAMINATION_LIFETIME
        {
            return Arc::clone(doctor);
        }
        let named = |name: &str| Profile::named(name).map(|p| (name.to_owned(), p.policy().shape)).ok();
        let profiles: Vec<_> = Profile::names().filter_map(named).collect();
        let doctor = Arc::new(doctor::examine(self.engine(), &profiles).await);
        *examined = Some((Instant::now(), Arc::clone(&doctor)));
        doctor
    }

    /// Shuts down: ends all runs and removes the leftovers of sandboxes. Workspaces are kept.
    pub async fn close(&self) {
        let runs: Vec<_> = {
            let mut table = self.table();
            table.closed = true;
            table.runs.values().map(Arc::clone).collect()
        };
        runs.iter().for_each(|r| self.cancel(r));
        let ended = async {
            for run in &runs {
                run.ended().await;
            }
        };
        if tokio::time::timeout(CLOSE_TIMEOUT, ended).await.is_err() {
            tracing::warn!("some runs did not end within {} s", CLOSE_TIMEOUT.as_secs());
        }
        let behind = std::mem::take(&mut *self.0.behind.lock().unwrap_or_else(PoisonError::into_inner));
        let written = async {
            for one in behind {
                let _ = one.await;
            }
        };
        if tokio::time::timeout(CLOSE_TIMEOUT, written).await.is_err() {
            tracing::warn!("what became of some tasks is not written down");
        }
        if tokio::time::timeout(CLOSE_TIMEOUT, self.0.sessions.close_all()).await.is_err() {
            tracing::warn!("some sessions did not end within {} s", CLOSE_TIMEOUT.as_secs());
        }
        let agents = Arc::clone(&self.0.agents);
        let ended = tokio::task::spawn_blocking(move || agents.close());
        if tokio::time::timeout(CLOSE_TIMEOUT, ended).await.is_err() {
            tracing::warn!("some sessions of models did not end within {} s", CLOSE_TIMEOUT.as_secs());
        }
        let shared = Arc::clone(&self.0);
        let _ = tokio::task::spawn_blocking(move || {
            shared.workspaces.forget();
            shared.current.get().reading.close();
            if !shared.scribe.write() {
                tracing::warn!("what is not in the history yet never will be");
            }
        })
        .await;
        if let Some(tools) = &self.0.tools {
            tools.close().await;
        }
        self.0.pool.clear();
        self.engine().settle(CLOSE_TIMEOUT).await;
    }
}

async fn sweep_now_and_then(live: Weak<Shared>) {
    loop {
        tokio::time::sleep(SWEEP_INTERVAL).await;
        let Some(shared) = live.upgrade() else { return };
        shared.forget(&mut shared.table.lock().unwrap_or_else(PoisonError::into_inner));
        let _ = tokio::task::spawn_blocking(move || shared.workspaces.forget()).await;
    }
}
