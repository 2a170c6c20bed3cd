//! Sessions of callers, in sandboxes of the service, under the operator's configuration.

use std::sync::Arc;

use hotcell_config::RunSettings;
use hotcell_config::network::NetworkSetting;
use hotcell_sessions::{Language, Session, Sessions, Start};
use hotcell_state::caller::Caller;
use hotcell_state::report::ErrorReport;

use crate::jobs::command::{surroundings, there};
use crate::registry::Live;

impl Live {
    /// Starts a session of a caller, without network; returns its handle.
    ///
    /// # Errors
    /// As [`Sessions::create`], and when there is no such image.
    pub async fn session_create(
        &self,
        caller: &Caller,
        language: Language,
        image: Option<String>,
    ) -> Result<(String, Arc<Session>), ErrorReport> {
        let configuration = self.configuration_of(caller);
        there(&configuration, image.as_deref())?;
        let around = surroundings(None, &configuration.user.mcp.commit);
        let settings = RunSettings { network: Some(NetworkSetting::None), image, ..RunSettings::default() };
        let start = Start { language, configuration, settings, around };
        self.sessions().create(self.pool(), caller, start).await
    }

    /// Begins a caller's session again, empty.
    ///
    /// # Errors
    /// As [`Sessions::reset`].
    pub async fn session_reset(&self, caller: &Caller, id: &str) -> Result<Arc<Session>, ErrorReport> {
        Sessions::reset(self.sessions(), self.pool(), caller, id).await
    }
}
