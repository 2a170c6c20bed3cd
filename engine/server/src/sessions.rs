//! Sessions of callers, in sandboxes of the service, under the operator's configuration.

use std::sync::Arc;

use hotcell_config::RunSettings;
use hotcell_config::network::NetworkSetting;
use hotcell_deps::Step;
use hotcell_deps::package_set::{self, PackageSet};
use hotcell_review::quarantine::QuarantineConfig;
use hotcell_sessions::{Language, Session, Sessions, Start, Witness};
use hotcell_state::caller::Caller;
use hotcell_state::report::{Code, ErrorReport};
use tokio::sync::Semaphore;

use crate::current::is_off;
use crate::jobs::command::{surroundings, there};
use crate::registry::Live;
use crate::session_receipts::SessionReceipts;

/// Number of installations of packages at one time; others wait.
static INSTALLATIONS: Semaphore = Semaphore::const_new(1);

impl Live {
    /// Starts a session of a caller, without network; returns its handle. Its packages are installed before, where the operator allows that.
    ///
    /// # Errors
    /// As [`Sessions::create`], when there is no such image, and when its packages cannot be had.
    pub async fn session_create(
        &self,
        caller: &Caller,
        language: Language,
        image: Option<String>,
        packages: &[String],
    ) -> Result<(String, Arc<Session>), ErrorReport> {
        let configuration = self.configuration_of(caller);
        there(&configuration, image.as_deref())?;
        let around = surroundings(None, &configuration.user.mcp.commit);
        let settings = RunSettings { network: Some(NetworkSetting::None), image, ..RunSettings::default() };
        let mut start = Start { settings, around, ..Start::new(language, configuration) };
        start.witness = self.issuer().and_then(|issuer| {
            let config = QuarantineConfig::of(&start.configuration)?;
            Some(Arc::new(SessionReceipts::new(issuer, config)) as Arc<dyn Witness>)
        });
        if !packages.is_empty() {
            self.session_packages(&mut start, packages).await?;
        }
        self.sessions().create(self.pool(), caller, start).await
    }

    /// Has packages installed, and shows them to a session.
    async fn session_packages(&self, start: &mut Start, packages: &[String]) -> Result<(), ErrorReport> {
        let set = PackageSet::of_language(start.language.name(), packages)
            .map_err(|why| ErrorReport::new(Code::InvalidValue, why).parameter("packages"))?;
        let configuration = &start.configuration;
        let refused = |why: &str, hint: &str| {
            Err(ErrorReport::new(Code::Refused, why).parameter("packages").hint(hint.to_owned()))
        };
        if is_off(configuration) {
            return refused(
                "the operator turned the network off, so no packages are installed",
                "use what is there",
            );
        }
        if !configuration.user.sessions.packages {
            return refused(
                "the operator does not allow packages",
                "use what is there, or ask the operator for packages = true in the table sessions of the configuration",
            );
        }
        let _turn = INSTALLATIONS.acquire().await;
        let (state, scene) = (self.state_folder(), (configuration, &start.around));
        let (settings, say) = (&mut start.settings, &mut |_: Step<'_>| ());
        let installed = package_set::show(self.engine(), &state, scene, settings, &set, say).await?;
        if let Some(warning) = &installed.warning {
            tracing::info!("{warning}");
        }
        start.packages = installed.versions;
        Ok(())
    }

    /// Begins a caller's session again, empty.
    ///
    /// # Errors
    /// As [`Sessions::reset`].
    pub async fn session_reset(&self, caller: &Caller, id: &str) -> Result<Arc<Session>, ErrorReport> {
        Sessions::reset(self.sessions(), self.pool(), caller, id).await
    }
}
