//! Where and for whom refused code is held.

use std::collections::BTreeSet;
use std::time::Duration;

use hotcell_config::Configuration;
use hotcell_guard::Limits;
use hotcell_guard::quarantine::{Channel, policy_digest};
use hotcell_scanning::reader::Rules;
use hotcell_state::actor::Actor;
use hotcell_state::state::{StateChoice, StateFolder};

use super::DEFAULT_RETENTION;
use super::error::{QuarantineError, StepContext};
use super::rows;
use super::store::Quarantine;

/// Where and for whom refused code is held.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct QuarantineConfig {
    /// State folder.
    pub state: StateChoice,
    /// Channel of the caller. The user is looked up when needed.
    pub channel: Channel,
    /// An item must be released by another person than the one who asked.
    pub two_persons: bool,
    /// Names that may use a team's page: such persons are told apart by name, not by the user of its server.
    pub team: BTreeSet<String>,
    /// Retention of items that no user handles.
    pub retention: Duration,
}

impl QuarantineConfig {
    /// The settings of a configuration; `None` when the configuration has no caller. A project's file can only require
    /// a second person.
    #[must_use]
    pub fn of(configuration: &Configuration) -> Option<Self> {
        let (channel, state) = configuration.asker.clone()?;
        let own = &configuration.user.quarantine;
        let of_project = configuration.project.as_ref().and_then(|file| file.settings.quarantine.two_persons);
        Some(Self {
            state,
            channel,
            two_persons: own.two_persons == Some(true) || of_project == Some(true),
            team: configuration.user.web.readers.union(&configuration.user.web.deciders).cloned().collect(),
            retention: own.retention.unwrap_or(DEFAULT_RETENTION),
        })
    }

    /// The actor who asks.
    #[must_use]
    pub fn actor(&self) -> Actor {
        Actor::here(self.channel.clone())
    }

    /// Current conditions under these rules.
    #[must_use]
    pub fn terms(&self, rules: &Rules) -> StepContext {
        StepContext {
            two_persons: self.two_persons,
            team: self.team.clone(),
            retention: self.retention,
            policy: policy_digest(rules, &Limits::default()),
            now_us: rows::now(),
        }
    }

    /// Opens the quarantine for writing.
    ///
    /// # Errors
    /// [`QuarantineError`] when the state folder or the database cannot be used.
    pub fn open(&self) -> Result<Quarantine, QuarantineError> {
        Quarantine::open(StateFolder::open(self.state.path()?)?)
    }
}
