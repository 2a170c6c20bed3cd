//! One foreign server: its processes or connections, its list of tools, its calls.

use std::collections::BTreeSet;
use std::fmt;
use std::sync::atomic::{AtomicBool, AtomicUsize, Ordering};
use std::sync::{Arc, Mutex, MutexGuard, PoisonError};
use std::time::{Duration, Instant};

use hotcell_client::{Answer, Backoff, Call, CallError, Client, Event, Host, Options, Server, State, Tool};
use hotcell_state::report::printable;
use rmcp::model::JsonObject;
use serde_json::Value;
use tokio::sync::broadcast::error::RecvError;
use tokio::sync::watch;
use tokio_util::sync::CancellationToken;

use crate::combined::alike::Served;
use crate::combined::asks::Asks;
use crate::combined::balance::{Sessions, choose};
use crate::combined::names;
use crate::combined::words::{self, Shown};
use crate::pin::Kind;
use crate::wait::{Allowed, Asker};

/// Interval between two readings of a list, however often a server says that it changed.
const LIST_INTERVAL: Duration = Duration::from_secs(1);
/// Age of a list behind which it is read again when it is asked for: a person may have accepted tools since.
const LIST_AGE: Duration = Duration::from_secs(2);
/// Time for reading a list again before a call of an unknown tool is refused.
const LOOK_TIMEOUT: Duration = Duration::from_secs(5);
/// Maximum number of open calls of a server.
const MAX_CALLS: usize = 128;
/// Lines of a server that are logged in a minute.
const MAX_LINES: u32 = 200;

/// Pins of a server, as its caller keeps them. The functions read files.
pub trait Pinned: Send + Sync {
    /// Names or addresses of the entries that are held back until a person accepts them. A server whose wrap takes them out has none.
    fn held(&self, kind: Kind, entries: &[Value]) -> Vec<String>;
    /// Whether one entry is held, by its name or address at the server.
    fn is_held(&self, kind: Kind, own: &str) -> bool;
    /// Keys of the entries that a person accepted by name.
    fn meant(&self) -> BTreeSet<String>;
}

/// A server to combine.
#[derive(Clone)]
pub struct Spec {
    /// Name.
    pub name: String,
    /// How it is reached.
    pub server: Server,
    /// Number of processes or connections, at least 1.
    pub instances: usize,
    /// Callers that may use it; `None` for all.
    pub callers: Option<Vec<String>>,
    /// Requests of the server that are passed to the client of a call.
    pub allowed: Allowed,
    /// Says what is held.
    pub pinned: Arc<dyn Pinned>,
}

impl fmt::Debug for Spec {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("Spec").field("name", &self.name).field("server", &self.server).finish_non_exhaustive()
    }
}

/// Tools as they were listed last.
#[derive(Debug, Default)]
struct Listed {
    tools: Vec<Shown>,
    /// Keys of the entries that a person accepted by name.
    meant: BTreeSet<String>,
    at: Option<Instant>,
}

/// A process or a connection.
struct Instance {
    client: Mutex<Option<Arc<Client>>>,
    open: AtomicUsize,
    asks: Arc<Asks>,
}

/// A server that is kept up.
pub struct Upstream {
    spec: Spec,
    text_bytes: usize,
    instances: Vec<Instance>,
    listed: Mutex<Listed>,
    reading: tokio::sync::Mutex<()>,
    is_asked: AtomicBool,
    sessions: Mutex<Sessions>,
    /// Why it is not connected.
    why: Mutex<String>,
    /// Whether a first attempt has succeeded or failed.
    tried: watch::Sender<bool>,
    changed: watch::Sender<u64>,
    stop: CancellationToken,
}

impl fmt::Debug for Upstream {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("Upstream").field("spec", &self.spec).finish_non_exhaustive()
    }
}

fn locked<T>(lock: &Mutex<T>) -> MutexGuard<'_, T> {
    lock.lock().unwrap_or_else(PoisonError::into_inner)
}

/// Counts an open call for as long as it lives.
struct Open<'a>(&'a AtomicUsize);

impl Drop for Open<'_> {
    fn drop(&mut self) {
        self.0.fetch_sub(1, Ordering::Relaxed);
    }
}

impl Upstream {
    pub fn new(spec: Spec, text_bytes: usize, changed: watch::Sender<u64>, stop: CancellationToken) -> Self {
        let asks = || Arc::new(Asks::new(&spec.name, spec.allowed));
        let instance = || Instance { client: Mutex::default(), open: AtomicUsize::new(0), asks: asks() };
        Self {
            text_bytes,
            instances: (0..spec.instances.max(1)).map(|_| instance()).collect(),
            spec,
            listed: Mutex::default(),
            reading: tokio::sync::Mutex::default(),
            is_asked: AtomicBool::new(false),
            sessions: Mutex::default(),
            why: Mutex::new("it is being started".to_owned()),
            tried: watch::channel(false).0,
            changed,
            stop,
        }
    }

    pub fn name(&self) -> &str {
        &self.spec.name
    }

    /// Whether a caller may see and call its tools.
    pub fn allows(&self, caller: &str) -> bool {
        self.spec.callers.as_ref().is_none_or(|callers| callers.iter().any(|one| one == caller))
    }

    /// Number of its processes or connections.
    pub fn instances(&self) -> usize {
        self.instances.len()
    }

    /// Resolves when the first attempt to reach it is over.
    pub async fn tried(&self) {
        let _ = self.tried.subscribe().wait_for(|tried| *tried).await;
    }

    /// Has an old list read again in the background.
    pub fn look(self: &Arc<Self>) {
        let listed = locked(&self.listed);
        let is_old = listed.at.is_some_and(|at| at.elapsed() >= LIST_AGE);
        if is_old && !self.is_asked.swap(true, Ordering::AcqRel) {
            let own = self.clone();
            tokio::spawn(async move {
                if let Some(client) = own.any() {
                    own.read(&client).await;
                }
                own.is_asked.store(false, Ordering::Release);
            });
        }
    }

    /// A tool of it by the name that clients see.
    pub fn tool(&self, name: &str) -> Option<Shown> {
        locked(&self.listed).tools.iter().find(|tool| tool.listed.name == name).cloned()
    }

    /// Tools as they were listed last, for a look at them beside those of other servers.
    pub fn served(&self) -> Served<Shown> {
        let listed = locked(&self.listed);
        let (entries, meant) = (listed.tools.clone(), listed.meant.clone());
        Served { server: self.name().to_owned(), prefix: names::prefix(self.name()), entries, meant }
    }

    /// Name of a tool of it that looks like one with this skeleton, and whether a person accepted it by name.
    pub fn alike(&self, skeleton: &str) -> Option<(String, bool)> {
        let listed = locked(&self.listed);
        let alike = listed.tools.iter().filter(|tool| tool.skeleton == skeleton);
        let alike = alike
            .map(|tool| (tool.listed.name.to_string(), listed.meant.contains(&Kind::Tool.key(&tool.own))));
        alike.max_by_key(|(_, is_meant)| *is_meant)
    }

    /// Whether a person accepted a tool of it by name.
    pub fn is_meant(&self, own: &str) -> bool {
        locked(&self.listed).meant.contains(&Kind::Tool.key(own))
    }

    /// Pins of it.
    pub fn pinned(&self) -> Arc<dyn Pinned> {
        self.spec.pinned.clone()
    }

    /// Names that clients see.
    pub fn tool_names(&self) -> Vec<String> {
        locked(&self.listed).tools.iter().map(|tool| tool.listed.name.to_string()).collect()
    }

    /// Reads the list again, for a call of a tool that is not in it.
    pub async fn look_again(&self) {
        let is_new = locked(&self.listed).at.is_some_and(|at| at.elapsed() < LIST_INTERVAL);
        if let Some(client) = self.any().filter(|_| !is_new) {
            let _ = tokio::time::timeout(LOOK_TIMEOUT, self.read(&client)).await;
        }
    }

    /// Why no process of it is connected; `None` when one is.
    pub fn down(&self) -> Option<String> {
        self.any().is_none().then(|| locked(&self.why).clone())
    }

    /// A connection of it.
    pub fn any(&self) -> Option<Arc<Client>> {
        let mut clients = self.instances.iter().filter_map(|instance| locked(&instance.client).clone());
        clients.find(|client| client.state() == State::Connected)
    }

    /// Calls a tool by its own name, once.
    pub async fn call(
        &self,
        tool: &str,
        arguments: JsonObject,
        session: Option<&str>,
        asker: Asker,
        prepare: impl FnOnce(Call) -> Call,
    ) -> Result<Answer, CallError> {
        let open: Vec<_> = self.instances.iter().map(Instance::open_calls).collect();
        if open.iter().flatten().sum::<usize>() >= MAX_CALLS {
            return Err(CallError::NotSent(format!("{MAX_CALLS} calls of it are open")));
        }
        let at = {
            let mut sessions = locked(&self.sessions);
            let at = choose(&open, session.and_then(|session| sessions.of(session)));
            if let (Some(at), Some(session)) = (at, session.filter(|_| open.len() > 1)) {
                sessions.keep(session, at, Instant::now());
            }
            at
        };
        let Some(instance) = at.and_then(|at| self.instances.get(at)) else {
            return Err(CallError::NotSent(format!("it is not connected: {}", locked(&self.why))));
        };
        let client = locked(&instance.client).clone();
        let Some(client) = client else {
            return Err(CallError::NotSent("it is not connected".to_owned()));
        };
        instance.open.fetch_add(1, Ordering::Relaxed);
        let _open = Open(&instance.open);
        let _asking = instance.asks.open(asker);
        client.call(prepare(Call::new(tool, Value::Object(arguments)))).await
    }

    /// Keeps one process or connection up until the end.
    pub async fn keep_up(self: Arc<Self>, number: usize) {
        let (backoff, mut attempt) = (Backoff::default(), 0);
        while !self.stop.is_cancelled() {
            let host = Some(self.instances[number].asks.clone() as Arc<dyn Host>);
            let options = Options { host, ..Options::default() };
            let client = Arc::new(Client::new(self.spec.server.clone(), options));
            let events = client.events();
            let connected = tokio::select! {
                connected = client.connect() => connected,
                () = self.stop.cancelled() => return,
            };
            match connected {
                Ok(()) => {
                    *locked(&self.instances[number].client) = Some(client.clone());
                    self.read(&client).await;
                    self.tried.send_replace(true);
                    tokio::select! {
                        () = self.follow(&client, events) => {}
                        () = self.stop.cancelled() => {}
                    }
                    *locked(&self.instances[number].client) = None;
                    client.close().await;
                }
                Err(error) => {
                    let why = error.to_string();
                    tracing::warn!("{}: not connected: {why}", self.name());
                    *locked(&self.why) = why;
                    self.tried.send_replace(true);
                }
            }
            tokio::select! {
                () = tokio::time::sleep(backoff.delay(attempt)) => {}
                () = self.stop.cancelled() => {}
            }
            attempt = attempt.saturating_add(1);
        }
    }

    /// Follows what a connected server says, until its client has given up.
    async fn follow(&self, client: &Client, mut events: tokio::sync::broadcast::Receiver<Event>) {
        let (mut minute, mut lines) = (Instant::now(), 0);
        let mut log = |text: &str| {
            if minute.elapsed() >= Duration::from_secs(60) {
                (minute, lines) = (Instant::now(), 0);
            }
            lines += 1;
            if lines <= MAX_LINES {
                tracing::info!(target: "hotcell_contents", "{} says: {}", self.name(), printable(text.trim_end()));
            }
        };
        let mut is_changed = false;
        loop {
            // However many notifications come, the list is read once in an interval.
            if is_changed && locked(&self.listed).at.is_none_or(|at| at.elapsed() >= LIST_INTERVAL) {
                is_changed = false;
                self.read(client).await;
                continue;
            }
            let event = match is_changed {
                true => match tokio::time::timeout(LIST_INTERVAL, events.recv()).await {
                    Ok(event) => event,
                    Err(_) => continue,
                },
                false => events.recv().await,
            };
            match event {
                Ok(Event::ToolsChanged | Event::Connected { .. }) => is_changed = true,
                Ok(Event::Disconnected { why, retry_in }) => {
                    let next = retry_in
                        .map_or_else(String::new, |next| format!("; next attempt in {} s", next.as_secs()));
                    tracing::warn!("{}: {why}{next}", self.name());
                    *locked(&self.why) = why;
                }
                Ok(Event::Error { .. }) | Err(RecvError::Closed) => return,
                Ok(Event::Stderr(line)) => log(&String::from_utf8_lossy(&line)),
                Ok(Event::Noise(text)) => log(&text),
                Ok(_) => {}
                Err(RecvError::Lagged(_)) => is_changed = true,
            }
        }
    }

    /// Reads the list of tools; one that cannot be read leaves the former one.
    async fn read(&self, client: &Client) {
        let _one = self.reading.lock().await;
        let tools = match client.tools().await {
            Ok(tools) => tools,
            Err(error) => {
                tracing::warn!("{}: its tools cannot be listed: {error}", self.name());
                *locked(&self.why) = error.to_string();
                locked(&self.listed).at = Some(Instant::now());
                return;
            }
        };
        let (pinned, name, budget) = (self.pinned(), self.spec.name.clone(), self.text_bytes);
        let shown = tokio::task::spawn_blocking(move || {
            let definitions: Vec<Value> = tools.iter().map(|tool| tool.definition.clone()).collect();
            let held = pinned.held(Kind::Tool, &definitions);
            let passed: Vec<Tool> = tools.into_iter().filter(|tool| !held.contains(&tool.name)).collect();
            (words::shown(&name, &passed, budget), pinned.meant())
        });
        let Ok((shown, meant)) = shown.await else { return };
        let mut listed = locked(&self.listed);
        listed.at = Some(Instant::now());
        if listed.tools != shown || listed.meant != meant {
            (listed.tools, listed.meant) = (shown, meant);
            drop(listed);
            self.changed.send_modify(|number| *number += 1);
        }
    }
}

impl Instance {
    /// Number of open calls; `None` when it is not connected.
    fn open_calls(&self) -> Option<usize> {
        let client = locked(&self.client);
        let is_ready = client.as_ref().is_some_and(|client| client.state() == State::Connected);
        is_ready.then(|| self.open.load(Ordering::Relaxed))
    }
}
