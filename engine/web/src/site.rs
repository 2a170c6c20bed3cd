//! The sources of the pages, and the state of the server.

use std::collections::BTreeMap;
use std::future::Future;
use std::pin::Pin;
use std::sync::{Arc, Mutex, MutexGuard, PoisonError};
use std::time::{Duration, Instant};

use hotcell_config::Configuration;
use hotcell_guard::quarantine::Channel;
use hotcell_learn::Suggested;
use hotcell_review::Approvals;
use hotcell_review::quarantine::QuarantineService;
use hotcell_sandbox::doctor::Doctor;
use hotcell_state::ids::random_hex;
use hotcell_state::report::{Code, ErrorReport};
use hotcell_state::state::{StateChoice, StateFolder};
use tokio::sync::watch;
use tokio_util::sync::CancellationToken;

use crate::seal::Seal;
use crate::sessions::{Role, Sessions};
use crate::team::Team;

/// Time for which an examination of this host is shown again.
const DOCTOR_KEPT: Duration = Duration::from_secs(60);

/// A foreign MCP server that was wrapped.
#[derive(Clone, Debug, Default)]
pub struct WrappedServer {
    /// Name.
    pub name: String,
    /// Command that it was started with last.
    pub command: Vec<String>,
    /// Grants that a person added.
    pub grants: Vec<String>,
    /// Locked packages.
    pub packages: Vec<String>,
    /// Names of the accepted tools.
    pub accepted: Vec<String>,
    /// Definitions of tools that are held: new, or changed since they were accepted.
    pub held: BTreeMap<String, serde_json::Value>,
    /// Lines that changed in tools that were accepted before, by their names.
    pub changed: BTreeMap<String, String>,
    /// Digest of what is held: acceptance is of these definitions alone. Empty when nothing is held.
    pub shown: String,
    /// Why its files cannot be read; all but the name is empty then.
    pub problem: Option<String>,
}

/// Results of the last whole `hotcell doctor --attack` on this host.
#[derive(Clone, Debug, Default)]
pub struct Attacks {
    /// When it began; RFC 3339, UTC.
    pub date: String,
    /// Version of hotcell, and release of the kernel.
    pub of: [String; 2],
    /// Whether all attacks were stopped.
    pub good: bool,
    /// Number of attacks by result, in words.
    pub counts: Vec<(String, usize)>,
    /// Attacks: number, title, result in words, whether that is good, reason.
    pub rows: Vec<(u16, String, String, bool, String)>,
}

/// A source that can be asked at any time.
pub type Source<T> = Arc<dyn Fn() -> T + Send + Sync>;

/// Accepts the held tools of a server: its name, and [`WrappedServer::shown`].
pub type Accept = Arc<dyn Fn(&str, &str, Channel) -> Result<(), ErrorReport> + Send + Sync>;

/// A decision on a suggestion.
#[derive(Clone, Debug)]
pub struct SuggestionDecision {
    /// Id.
    pub id: String,
    /// [`Suggested::shown`].
    pub shown: String,
    /// Yes or no.
    pub yes: bool,
    /// Reason.
    pub reason: Option<String>,
    /// Channel of the person.
    pub channel: Channel,
}

/// Carries out a decision on a suggestion.
pub type DecideSuggested = Arc<dyn Fn(SuggestionDecision) -> Result<(), ErrorReport> + Send + Sync>;

/// Sources of the pages that are not in the crates below.
#[derive(Clone)]
pub struct Sources {
    /// Reads the configuration; its asker is the channel of the page, and the state folder.
    pub configuration: Source<Result<Configuration, ErrorReport>>,
    /// Reads the wrapped servers.
    pub servers: Source<Result<Vec<WrappedServer>, ErrorReport>>,
    /// Accepts the held tools of a server, by its name, if they are still those of this digest.
    pub accept: Accept,
    /// Reads the suggestions that wait.
    pub suggested: Source<Result<Vec<Suggested>, ErrorReport>>,
    /// Carries out a decision on a suggestion.
    pub decide_suggested: DecideSuggested,
    /// Reads the results of the last attacks.
    pub attacks: Source<Result<Option<Attacks>, ErrorReport>>,
    /// Examines this host; `None` when that is interrupted.
    pub doctor: Source<Pin<Box<dyn Future<Output = Option<Doctor>> + Send>>>,
}

impl std::fmt::Debug for Sources {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        f.write_str("Sources")
    }
}

/// The state of the server.
#[derive(Debug)]
pub struct Site {
    pub(crate) sources: Sources,
    pub(crate) host: String,
    pub(crate) origin: String,
    /// Whom the page believes; `None` for one of links.
    pub(crate) team: Option<Team>,
    /// Header that names a person in team mode, and is refused elsewhere.
    pub(crate) identity_header: Option<String>,
    pub(crate) seal: Seal,
    sessions: Mutex<Sessions>,
    /// Held while a decision is checked and carried out, so that two tabs cannot decide at once.
    pub(crate) deciding: Mutex<()>,
    doctor: tokio::sync::Mutex<Option<(Instant, Doctor)>>,
    /// Counts changes of the state folder.
    pub(crate) changes: watch::Sender<u64>,
    /// Cancelled when the server ends.
    pub(crate) ending: CancellationToken,
}

impl Site {
    /// The state of a server at this port.
    ///
    /// # Errors
    /// A report when the kernel provides no random numbers.
    pub fn new(sources: Sources, port: u16) -> Result<Arc<Self>, ErrorReport> {
        let host = format!("h{}.localhost:{}", random_hex(8)?, port);
        let origin = format!("http://{host}");
        Self::named(sources, host, origin, None)
    }

    /// The state of a server for a team, behind its proxy.
    ///
    /// # Errors
    /// As [`Site::new`].
    pub fn of_team(sources: Sources, team: Team) -> Result<Arc<Self>, ErrorReport> {
        Self::named(sources, team.host.clone(), team.origin.clone(), Some(team))
    }

    fn named(
        sources: Sources,
        host: String,
        origin: String,
        team: Option<Team>,
    ) -> Result<Arc<Self>, ErrorReport> {
        let identity_header = (sources.configuration)()?.user.web.identity_header.clone();
        Ok(Arc::new(Self {
            identity_header,
            sources,
            host,
            origin,
            team,
            seal: Seal::new()?,
            sessions: Mutex::default(),
            deciding: Mutex::default(),
            doctor: tokio::sync::Mutex::default(),
            changes: watch::channel(0).0,
            ending: CancellationToken::new(),
        }))
    }

    /// Address of the page.
    #[must_use]
    pub fn address(&self) -> String {
        format!("{}/", self.origin)
    }

    /// A new link that begins one session with this role.
    ///
    /// # Errors
    /// A report when the kernel provides no random numbers.
    pub fn link(&self, role: Role) -> Result<String, ErrorReport> {
        let secret = random_hex(32)?;
        let link = format!("http://{}{}{secret}", self.host, crate::admit::START);
        self.sessions().add_link(secret, role);
        Ok(link)
    }

    pub(crate) fn sessions(&self) -> MutexGuard<'_, Sessions> {
        self.sessions.lock().unwrap_or_else(PoisonError::into_inner)
    }

    pub(crate) fn configuration(&self) -> Result<Configuration, ErrorReport> {
        (self.sources.configuration)()
    }

    /// The configuration for a decision over this channel.
    pub(crate) fn configuration_for(&self, channel: Channel) -> Result<Configuration, ErrorReport> {
        let mut configuration = self.configuration()?;
        if let Some((of_page, _)) = &mut configuration.asker {
            *of_page = channel;
        }
        Ok(configuration)
    }

    pub(crate) fn state(&self) -> Result<StateChoice, ErrorReport> {
        let asker = self.configuration()?.asker;
        asker
            .map(|(_, state)| state)
            .ok_or_else(|| ErrorReport::new(Code::Internal, "the page has no state folder"))
    }

    /// The state folder; `None` when nothing was kept yet.
    pub(crate) fn folder(&self) -> Result<Option<StateFolder>, ErrorReport> {
        let choice = self.state()?;
        let bad = |e: hotcell_state::state::StateError| ErrorReport::new(Code::State, e.to_string());
        StateFolder::open_existing(choice.path().map_err(bad)?).map_err(bad)
    }

    /// The state folder; made when it is missing.
    pub(crate) fn made_folder(&self) -> Result<StateFolder, ErrorReport> {
        let choice = self.state()?;
        let bad = |e: hotcell_state::state::StateError| ErrorReport::new(Code::State, e.to_string());
        StateFolder::open(choice.path().map_err(bad)?).map_err(bad)
    }

    /// Requests and items that wait for a person.
    pub(crate) fn waiting(&self) -> Result<u64, ErrorReport> {
        let configuration = self.configuration()?;
        let (_, requests) = Approvals::of(&configuration)?.waiting(0, 0)?;
        let (_, items) = QuarantineService::of(&configuration, None)?.waiting(0, 0)?;
        Ok(requests + items + self.held()?.len() as u64 + self.suggested()?.len() as u64)
    }

    /// Suggestions that wait, the oldest first.
    pub(crate) fn suggested(&self) -> Result<Vec<Suggested>, ErrorReport> {
        (self.sources.suggested)()
    }

    /// Servers with tools that are held.
    pub(crate) fn held(&self) -> Result<Vec<WrappedServer>, ErrorReport> {
        Ok((self.sources.servers)()?.into_iter().filter(|server| !server.held.is_empty()).collect())
    }

    /// The last examination of this host, at most a minute old, and its age.
    pub(crate) async fn doctor(&self) -> Option<(Duration, Doctor)> {
        // A request that comes during the examination waits for its result.
        let mut kept = self.doctor.lock().await;
        if let Some((when, report)) = kept.as_ref().filter(|(when, _)| when.elapsed() < DOCTOR_KEPT) {
            return Some((when.elapsed(), report.clone()));
        }
        let report = (self.sources.doctor)().await?;
        *kept = Some((Instant::now(), report.clone()));
        Some((Duration::ZERO, report))
    }
}
