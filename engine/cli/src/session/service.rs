//! Named sessions within `hotcell serve`: they live from one command line to the next, for the service's own user.
//!
//! A client sends one line of JSON over a stream that the service's socket handed over, after both sides compared their rights; the answer is
//! one line. A client that goes away interrupts its cell.

use std::collections::BTreeMap;
use std::ffi::OsString;
use std::os::fd::OwnedFd;
use std::path::PathBuf;
use std::sync::{Arc, Mutex, MutexGuard, PoisonError};
use std::time::Duration;

use hotcell_config::{EnvSetting, Mode, RunSettings};
use hotcell_daemon::Attached;
use hotcell_receipts::Issuer;
use hotcell_review::quarantine::QuarantineConfig;
use hotcell_sandbox::layer::likely;
use hotcell_sandbox::policy::Bind;
use hotcell_sandbox::profile::LimitSettings;
use hotcell_sandbox::{Bytes, Engine};
use hotcell_server::session_receipts::SessionReceipts;
use hotcell_sessions::session::{INTERRUPT_TIMEOUT, MAX_CELL_BYTES, MAX_CELL_TIMEOUT};
use hotcell_sessions::{Bounds, Cell, Gone, Language, Session, Sessions, Start, Witness};
use hotcell_state::caller::Caller;
use hotcell_state::report::{Code, ErrorReport};
use hotcell_verbs::outputs::OutputPattern;
use serde::{Deserialize, Serialize};
use tokio::io::{AsyncBufReadExt, AsyncReadExt, AsyncWriteExt, BufReader};
use tokio::net::UnixStream;
use tokio::sync::Semaphore;

use super::packages;
use crate::args::Common;
use crate::context::{configuration, state};

/// Maximum length of a request, in bytes: a cell as JSON, whose characters may be escaped.
const MAX_REQUEST_BYTES: u64 = 8 * MAX_CELL_BYTES as u64;
/// Maximum number of requests at one time.
const MAX_REQUESTS: usize = 64;
/// Time for a request to arrive.
const REQUEST_TIMEOUT: Duration = Duration::from_secs(10);
/// Time for all sessions to end, receipts included.
const CLOSE_TIMEOUT: Duration = Duration::from_secs(10);
/// Maximum length of a name, in bytes.
const MAX_NAME_BYTES: usize = 64;

/// A request.
#[derive(Debug, Serialize, Deserialize)]
#[serde(rename_all = "snake_case", deny_unknown_fields)]
pub enum Asked {
    /// Start a session.
    Create(Box<Wanted>),
    /// Run a cell.
    Exec { name: String, code: String, timeout_ms: u64, outputs: Vec<String> },
    /// Interrupt a cell.
    Interrupt { name: String },
    /// Begin again.
    Reset { name: String },
    /// End a session.
    Close { name: String },
    /// List sessions.
    List {},
}

/// A session that is to be started: the options of the client, resolved in its folder and its environment.
#[derive(Debug, Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct Wanted {
    pub name: String,
    pub language: String,
    pub cwd: PathBuf,
    pub packages: Vec<String>,
    pub memory: Option<Bytes>,
    pub image: Option<String>,
    pub profile: Option<OsString>,
    pub guard: Option<String>,
    pub env: Vec<(OsString, OsString)>,
    pub ro: Vec<(PathBuf, PathBuf)>,
}

/// An answer.
#[derive(Debug, Serialize, Deserialize)]
#[serde(rename_all = "snake_case")]
pub enum Reply {
    Good(serde_json::Value),
    Bad(ErrorReport),
}

/// A session in a list.
#[derive(Debug, Serialize, Deserialize, schemars::JsonSchema)]
pub struct NamedSession {
    /// Its name.
    pub name: String,
    /// Its language.
    pub language: String,
    /// ready, busy or ended
    pub state: String,
    /// Number of cells so far.
    pub cells: u64,
    /// Its packages with versions.
    pub packages: Vec<String>,
    /// Seconds since the last cell.
    pub idle_s: u64,
    /// Why it has ended.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub why: Option<String>,
    /// State that was lost with it.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub lost: Option<String>,
}

/// The named sessions of a service.
#[derive(Clone, Debug)]
pub struct Service(Arc<Shared>);

#[derive(Debug)]
struct Shared {
    common: Common,
    engine: Engine,
    sessions: Sessions,
    caller: Caller,
    /// Handles by names.
    names: Mutex<BTreeMap<String, String>>,
    /// Held while a name is taken.
    creating: tokio::sync::Mutex<()>,
    requests: Arc<Semaphore>,
    /// Makes receipts, if each session gets one.
    witness: Option<Arc<dyn Witness>>,
}

impl Attached for Service {
    fn attach(&self, stream: OwnedFd) {
        let this = self.clone();
        let stream = std::os::unix::net::UnixStream::from(stream);
        tokio::spawn(async move {
            let Ok(_turn) = Arc::clone(&this.0.requests).try_acquire_owned() else { return };
            let stream = stream.set_nonblocking(true).and_then(|()| UnixStream::from_std(stream));
            match stream {
                Ok(stream) => this.answer(stream).await,
                Err(error) => tracing::info!("a request for a session: {error}"),
            }
        });
    }

    fn is_in_use(&self) -> bool {
        !self.0.sessions.list(&self.0.caller).is_empty()
    }
}

impl Service {
    /// A service without sessions. Needs a runtime.
    ///
    /// # Errors
    /// A report when the configuration is wrong.
    pub fn new(common: &Common) -> Result<Self, ErrorReport> {
        let configuration = configuration(common, None)?;
        let bounds = Bounds::of(&configuration.user.sessions);
        // The key is read now: a service that cannot sign does not start.
        let issuer = Issuer::always(&configuration).map_err(|error| {
            ErrorReport::new(Code::Configuration, format!("receipts.always: {error}")).field("receipts")
        })?;
        let witness = issuer.zip(QuarantineConfig::of(&configuration)).map(|(issuer, config)| {
            Arc::new(SessionReceipts::new(Arc::new(issuer), config)) as Arc<dyn Witness>
        });
        // One user has them all.
        let bounds = Bounds { each: bounds.all, ..bounds };
        Ok(Self(Arc::new(Shared {
            common: common.clone(),
            engine: Engine::new(),
            sessions: Sessions::new(bounds),
            caller: Caller::new(format!("user {}", nix::unistd::geteuid())),
            names: Mutex::default(),
            creating: tokio::sync::Mutex::default(),
            requests: Arc::new(Semaphore::new(MAX_REQUESTS)),
            witness,
        })))
    }

    /// Ends all sessions.
    pub async fn close(&self) {
        if tokio::time::timeout(CLOSE_TIMEOUT, self.0.sessions.close_all()).await.is_err() {
            tracing::warn!("some sessions did not end within {} s", CLOSE_TIMEOUT.as_secs());
        }
        self.0.engine.settle(REQUEST_TIMEOUT).await;
    }

    async fn answer(&self, stream: UnixStream) {
        let (read, mut write) = stream.into_split();
        let mut line = Vec::new();
        let mut read = BufReader::new(read.take(MAX_REQUEST_BYTES));
        let heard = tokio::time::timeout(REQUEST_TIMEOUT, read.read_until(b'\n', &mut line)).await;
        let bad = |why: String| ErrorReport::new(Code::Usage, why);
        let done = match heard {
            Ok(Ok(_)) if line.ends_with(b"\n") => match serde_json::from_slice(&line) {
                Ok(asked) => self.perform(asked, read.into_inner().into_inner()).await,
                Err(error) => Err(bad(format!("the request cannot be read: {error}"))),
            },
            _ => Err(bad(format!("a request is one line of at most {MAX_REQUEST_BYTES} bytes"))),
        };
        let reply = done.map_or_else(Reply::Bad, Reply::Good);
        let mut line = serde_json::to_vec(&reply).unwrap_or_default();
        line.push(b'\n');
        let _ = tokio::time::timeout(REQUEST_TIMEOUT, write.write_all(&line)).await;
    }

    async fn perform(
        &self,
        asked: Asked,
        mut client: tokio::net::unix::OwnedReadHalf,
    ) -> Result<serde_json::Value, ErrorReport> {
        let (sessions, caller) = (&self.0.sessions, &self.0.caller);
        match asked {
            Asked::Create(wanted) => {
                let name = wanted.name.clone();
                let session = self.create(&wanted).await?;
                json(&described(&name, &session))
            }
            Asked::Exec { name, code, timeout_ms, outputs } => {
                let (_, session) = self.find(&name)?;
                let outputs = outputs.iter().map(|text| OutputPattern::parse(text)).collect::<Result<_, _>>();
                let outputs =
                    outputs.map_err(|why| ErrorReport::new(Code::InvalidValue, why).field("--output"))?;
                let timeout = Duration::from_millis(timeout_ms.max(1)).min(MAX_CELL_TIMEOUT);
                // The command says nothing more: its connection ends when it is interrupted.
                let mut rest = [0];
                let gone = async { drop(client.read(&mut rest).await) };
                let answer = session.execute_unless(Cell { code, timeout, outputs }, gone).await;
                json(&answer)
            }
            Asked::Interrupt { name } => {
                let (_, session) = self.find(&name)?;
                let result = session.interrupt_and_wait(INTERRUPT_TIMEOUT).await;
                json(&result)
            }
            Asked::Reset { name } => {
                let (id, _) = self.find(&name)?;
                let session = sessions.reset(&self.0.engine, caller, &id).await?;
                json(&described(&name, &session))
            }
            Asked::Close { name } => {
                let (id, session) = self.find(&name)?;
                sessions.close(caller, &id).await?;
                let closed = NamedSession {
                    state: "closed".to_owned(),
                    why: None,
                    lost: None,
                    ..described(&name, &session)
                };
                json(&closed)
            }
            Asked::List {} => {
                let all = sessions.list(caller);
                let names = self.names();
                let name = |id: &str| names.iter().find(|(_, own)| *own == id).map(|(name, _)| name.clone());
                let live = all.iter().filter_map(|(id, session)| Some(described(&name(id)?, session)));
                let gone = sessions.gone(caller).into_iter();
                let gone = gone.filter_map(|gone| Some(described_gone(name(&gone.id)?, gone)));
                json(&live.chain(gone).collect::<Vec<NamedSession>>())
            }
        }
    }

    fn names(&self) -> MutexGuard<'_, BTreeMap<String, String>> {
        self.0.names.lock().unwrap_or_else(PoisonError::into_inner)
    }

    fn find(&self, name: &str) -> Result<(String, Arc<Session>), ErrorReport> {
        let names = self.names();
        let Some(id) = names.get(name) else {
            let near = likely(name, names.keys().map(String::as_str));
            let near = near.map(|near| format!("did you mean {near}? ")).unwrap_or_default();
            let shown: String = name.chars().take(MAX_NAME_BYTES).collect();
            return Err(ErrorReport::new(Code::UnknownName, format!("there is no session {shown:?}"))
                .field("NAME")
                .hint(format!("{near}hotcell session list names them")));
        };
        let session = self.0.sessions.get(&self.0.caller, id).map_err(|report| {
            ErrorReport { message: report.message.replace(id.as_str(), name), ..report }
                .field("NAME")
                .hint("its variables and files are lost; hotcell session create starts it anew")
        })?;
        Ok((id.clone(), session))
    }

    async fn create(&self, wanted: &Wanted) -> Result<Arc<Session>, ErrorReport> {
        let name = wanted.name.clone();
        let fits = |b: u8| b.is_ascii_alphanumeric() || b == b'-' || b == b'_';
        if name.is_empty() || name.len() > MAX_NAME_BYTES || !name.bytes().all(fits) || name.starts_with('-')
        {
            let shown: String = name.chars().take(MAX_NAME_BYTES).collect();
            let why = format!("{shown:?} is not a name of 1 to {MAX_NAME_BYTES} letters, digits, - and _");
            return Err(ErrorReport::new(Code::InvalidValue, why).field("NAME"));
        }
        let _turn = self.0.creating.lock().await;
        match self.find(&name) {
            Ok((id, session)) if session.ended().is_some() => {
                let _ = self.0.sessions.close(&self.0.caller, &id).await;
            }
            Ok(_) => {
                return Err(ErrorReport::new(
                    Code::InvalidValue,
                    format!("there is a session {name} already"),
                )
                .field("NAME")
                .hint(format!(
                    "hotcell session close {name} ends it, hotcell session reset {name} empties it"
                )));
            }
            Err(_) => {}
        }
        let mut start = self.start(wanted)?;
        if !wanted.packages.is_empty() {
            let choice = state(&self.0.common, &start.configuration);
            packages(&wanted.packages, &self.0.engine, &choice, &mut start, true).await?;
        }
        let created = self.0.sessions.create(&self.0.engine, &self.0.caller, start).await;
        let (id, session) =
            created.map_err(|report| report.hint("hotcell session list names them, close ends one"))?;
        self.names().insert(name, id);
        Ok(session)
    }

    /// The start of a session as the client's command line would do it.
    fn start(&self, wanted: &Wanted) -> Result<Start, ErrorReport> {
        let wrong = |field: &str, why: String| ErrorReport::new(Code::InvalidValue, why).field(field);
        let language = Language::parse(&wanted.language).map_err(|why| wrong("LANG", why))?;
        let guard = wanted.guard.as_deref().map(str::parse::<Mode>).transpose();
        let bind = |(host, inside): &(PathBuf, PathBuf)| Bind {
            host: host.clone(),
            inside: inside.clone(),
            writable: false,
            copy_on_write: false,
            identity: None,
        };
        let settings = RunSettings {
            profile: wanted.profile.clone(),
            limits: LimitSettings { memory: wanted.memory, ..LimitSettings::default() },
            env: wanted
                .env
                .iter()
                .map(|(name, value)| EnvSetting::Set(name.clone(), value.clone()))
                .collect(),
            image: wanted.image.clone(),
            binds: wanted.ro.iter().map(bind).collect(),
            guard: guard.map_err(|why: String| wrong("--guard", why))?,
            ..RunSettings::default()
        };
        let configuration = configuration(&self.0.common, Some(wanted.cwd.clone()))?;
        let mut start = Start { settings, ..Start::new(language, configuration) };
        start.around.cwd.clone_from(&wanted.cwd);
        start.witness.clone_from(&self.0.witness);
        Ok(start)
    }
}

fn json<T: Serialize>(value: &T) -> Result<serde_json::Value, ErrorReport> {
    serde_json::to_value(value).map_err(|error| ErrorReport::new(Code::Internal, error.to_string()))
}

fn described(name: &str, session: &Session) -> NamedSession {
    let ended = session.ended();
    let state = match (&ended, session.is_busy()) {
        (Some(_), _) => "ended",
        (None, true) => "busy",
        (None, false) => "ready",
    };
    NamedSession {
        name: name.to_owned(),
        language: session.language.name().to_owned(),
        state: state.to_owned(),
        cells: session.cells(),
        packages: session.packages.clone(),
        idle_s: session.idle().as_secs(),
        lost: ended.as_ref().and_then(|_| session.lost()),
        why: ended.map(|ended| ended.why.clone()),
    }
}

fn described_gone(name: String, gone: Gone) -> NamedSession {
    NamedSession {
        name,
        language: gone.language.name().to_owned(),
        state: "ended".to_owned(),
        cells: gone.cells,
        idle_s: gone.idle().as_secs(),
        packages: gone.packages,
        why: Some(gone.why),
        lost: gone.lost,
    }
}
