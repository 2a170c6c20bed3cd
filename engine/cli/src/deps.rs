//! The option `--deps` of `run` and `test`.

use std::path::Path;

use hotcell_config::{Configuration, RunSettings};
use hotcell_deps::{DepsError, Purpose, Step};
use hotcell_sandbox::Engine;
use hotcell_state::ErrorReport;
use hotcell_state::state::{StateChoice, StateFolder};
use hotcell_toolchain::Surroundings;
use hotcell_verbs::test::{Interpreter, pythons};
use tokio::runtime::Runtime;

use crate::args::Common;
use crate::terminal::notes;

/// Resources for installing dependencies: a launcher, and a runtime to wait on.
#[derive(Debug)]
pub struct Provider<'a> {
    pub common: &'a Common,
    pub engine: &'a Engine,
    pub runtime: &'a Runtime,
    pub configuration: &'a Configuration,
    pub choice: &'a StateChoice,
}

impl Provider<'_> {
    /// Adds the packages in a project's lock files to the settings of a run; returns the number of lock
    /// files.
    pub fn provide(
        &self,
        project: &Path,
        settings: &mut RunSettings,
        python: Option<&Interpreter>,
        purpose: Purpose<'_>,
    ) -> Result<usize, DepsError> {
        let opened = self.choice.path().map_err(|e| e.to_string());
        let state = opened.and_then(|path| StateFolder::open(path).map_err(|e| e.to_string()));
        let state = state
            .map_err(|why| DepsError::Wrong(ErrorReport::new(hotcell_state::report::Code::State, why)))?;
        let around = pythons::surroundings(python, Surroundings::of_this_process());
        let say = &mut |step: Step<'_>| {
            if !self.common.json && !self.common.quiet {
                notes::say(words(step));
            }
        };
        let (project, settings) = ((project, &around), (settings, purpose));
        let work = hotcell_deps::provide(self.engine, &state, self.configuration, project, settings, say);
        self.runtime.block_on(work)
    }
}

/// A step in words.
pub fn words(step: Step<'_>) -> String {
    match step {
        Step::Installs(plan) => {
            let hosts: Vec<&str> = plan.hosts.iter().map(|host| host.trim_end_matches(":443")).collect();
            let (name, locks) = (plan.installer.name(), plan.locks.join(" and "));
            format!("{name} installs what {locks} names, from {}", hosts.join(", "))
        }
        Step::Compiles(plan) => {
            format!("{} compiles it; that is kept for other runs", plan.installer.name())
        }
        Step::NotCompiled(plan, why) => {
            format!("{} has not compiled it, and each run will: {why}", plan.installer.name())
        }
    }
}
