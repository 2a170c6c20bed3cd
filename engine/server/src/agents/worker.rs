//! A driver on a thread of its own, with a runtime and an engine of its own.

use std::sync::Arc;
use std::time::Duration;

use hotcell_agents::bench::Bench;
use hotcell_agents::driver::Driver;
use hotcell_config::{Configuration, RunSettings};
use hotcell_sandbox::Engine;
use hotcell_sandbox::profile::LimitSettings;
use hotcell_state::caller::Caller;
use hotcell_state::report::{Code, ErrorReport};
use hotcell_state::state::StateFolder;
use hotcell_testing::Cancel;
use hotcell_toolchain::Surroundings;
use hotcell_verbs::workspaces;
use tokio::sync::watch;

use crate::jobs::command::surroundings;
use crate::registry::Live;

/// Time limit of one run of tests: a caller waits for it.
const TEST_TIMEOUT: Duration = Duration::from_secs(300);

/// Surroundings of a driver for a caller.
pub(super) struct Setting {
    /// State folder.
    pub folder: Arc<StateFolder>,
    /// Configuration under which the caller's requests run.
    pub configuration: Configuration,
    around: Surroundings,
}

impl Setting {
    /// The setting of a caller.
    pub fn of(live: &Live, caller: &Caller) -> Self {
        let configuration = live.configuration_of(caller);
        let around = surroundings(None, &configuration.user.mcp.commit);
        Self { folder: live.state_folder(), configuration, around }
    }

    /// The workspaces of the state folder.
    ///
    /// # Errors
    /// A report when the store cannot be opened.
    pub fn bench(&self) -> Result<Bench, ErrorReport> {
        Ok(Bench(Arc::new(workspaces::store(&self.folder)?)))
    }

    /// Calls `work` with a driver; `None` when it was stopped. Blocks, and must not be called within a runtime.
    ///
    /// # Errors
    /// Those of `work`, and a report when there can be no runtime.
    pub fn drive<T>(
        &self,
        mut stop: watch::Receiver<bool>,
        say: &dyn Fn(&str),
        work: impl AsyncFnOnce(&Driver<'_>) -> Result<T, ErrorReport>,
    ) -> Result<Option<T>, ErrorReport> {
        let failed = |e: std::io::Error| {
            ErrorReport::new(Code::Internal, format!("the event loop cannot be made: {e}"))
        };
        let runtime = tokio::runtime::Builder::new_current_thread().enable_all().build().map_err(failed)?;
        let engine = Engine::new();
        let limits = LimitSettings { timeout: Some(TEST_TIMEOUT), ..LimitSettings::default() };
        let driver = Driver {
            folder: &self.folder,
            bench: self.bench()?,
            configuration: &self.configuration,
            settings: RunSettings { limits, ..RunSettings::default() },
            engine: &engine,
            models: &self.configuration.user.models,
            around: self.around.clone(),
            cancel: Cancel::default(),
            say,
            seen: None,
        };
        let ended = runtime.block_on(async {
            tokio::select! {
                ended = work(&driver) => Some(ended),
                // An error means that the session's handle is gone: no caller waits for it or can stop it.
                _ = stop.wait_for(|stop| *stop) => None,
            }
        });
        if ended.is_none() {
            driver.cancel.cancel();
        }
        engine.leave();
        ended.transpose()
    }
}
