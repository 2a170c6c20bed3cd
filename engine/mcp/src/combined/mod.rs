//! The combined server: foreign servers beside hotcell's own tools.
//!
//! A foreign server is hostile. Its tools have its prefix, its words are behind bars and within a budget, its tools are held back until a person
//! accepts them, and what it asks of a client is refused by [`hotcell_client`]: a model always, a form and folders unless a person allowed them.
//!
//! | module | idea |
//! | --- | --- |
//! | `names` | names with the prefix of their server |
//! | `alike` | names that look like those of another server |
//! | `words` | tools for a list, within a budget |
//! | `answers` | answers and errors |
//! | `search` | finding tools by words, and calling them by name |
//! | `balance` | which process of a server answers |
//! | `served` | resources and prompts |
//! | `asks` | forms and folders that a server asks for, where that is allowed |
//! | `upstream` | one server, kept up |

mod alike;
mod answers;
mod asks;
mod balance;
mod names;
mod search;
mod served;
mod upstream;
mod words;

use std::collections::BTreeSet;
use std::sync::{Arc, Mutex, PoisonError};
use std::time::{Duration, Instant};

use hotcell_client::{CallError, Client, Progress};
use hotcell_sandbox::layer::likely;
use hotcell_server::metrics::Called;
use hotcell_server::{Caller, Live};
use hotcell_state::report::{Code, ErrorReport, printable};
use rmcp::ErrorData;
use rmcp::model::{CallToolResult, GetPromptResult, JsonObject, Prompt, Resource, ResourceContents, Tool};
use serde_json::Value;
use sha2::{Digest, Sha256};
use tokio::sync::watch;
use tokio::task::JoinSet;
use tokio_util::sync::CancellationToken;

use self::alike::{Alike, Rival, Served, own_prompt, own_tool};
use self::upstream::Upstream;
pub use self::upstream::{Pinned, Spec};
use self::words::{Shown, ShownPrompt};
use crate::pin::Kind;
use crate::reply::refused;
use crate::toolsets::Toolsets;
pub use crate::wait::Allowed;
use crate::wait::Listener;

/// Time that the first list waits for servers that are being started.
const FIRST_WAIT: Duration = Duration::from_secs(10);

/// Time limit for a list of resources or prompts, and for one of them.
const SERVED_TIMEOUT: Duration = Duration::from_secs(5);

/// Maximum number of tools that look like others of which standard error tells.
const MAX_TOLD: usize = 50;

/// Bounds of a combined server.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct CombinedOptions {
    /// Bytes of descriptions of each server in the list. Default: 16 KiB.
    pub text_bytes: usize,
    /// Number of foreign tools above which `search_tools` and `call_tool` are listed in their place. Default: 40.
    pub listed_tools: usize,
}

impl Default for CombinedOptions {
    fn default() -> Self {
        Self { text_bytes: 16 << 10, listed_tools: 40 }
    }
}

/// Foreign servers that are kept up.
#[derive(Debug)]
pub struct Combined {
    servers: Vec<Arc<Upstream>>,
    options: CombinedOptions,
    began: Instant,
    changed: watch::Sender<u64>,
    stop: CancellationToken,
    tasks: tokio::sync::Mutex<JoinSet<()>>,
    /// Tools of which was told that they are held since they look like others.
    told: Mutex<BTreeSet<String>>,
}

impl Combined {
    /// Starts servers; returns without waiting for them. Needs a runtime.
    ///
    /// # Errors
    /// A sentence, when two names give one prefix.
    pub fn start(specs: Vec<Spec>, options: CombinedOptions) -> Result<Arc<Self>, String> {
        let (changed, stop) = (watch::channel(0).0, CancellationToken::new());
        let mut tasks = JoinSet::new();
        for (number, spec) in specs.iter().enumerate() {
            let prefix = names::prefix(&spec.name);
            if let Some(other) = specs[..number].iter().find(|other| names::prefix(&other.name) == prefix) {
                return Err(format!(
                    "the servers {} and {} would both have the prefix {prefix}__",
                    other.name, spec.name
                ));
            }
        }
        let new = |spec| Arc::new(Upstream::new(spec, options.text_bytes, changed.clone(), stop.clone()));
        let servers: Vec<_> = specs.into_iter().map(new).collect();
        for server in &servers {
            for number in 0..server.instances() {
                tasks.spawn(server.clone().keep_up(number));
            }
        }
        let tasks = tokio::sync::Mutex::new(tasks);
        let told = Mutex::default();
        Ok(Arc::new(Self { servers, options, began: Instant::now(), changed, stop, tasks, told }))
    }

    /// Names of the servers.
    pub fn names(&self) -> impl Iterator<Item = &str> {
        self.servers.iter().map(|server| server.name())
    }

    /// Changes of the list of tools.
    pub(crate) fn changes(&self) -> watch::Receiver<u64> {
        self.changed.subscribe()
    }

    /// Ends all servers.
    pub async fn close(&self) {
        self.stop.cancel();
        let mut tasks = self.tasks.lock().await;
        while tasks.join_next().await.is_some() {}
    }

    fn offered<'a>(
        &'a self,
        caller: &'a Caller,
        sets: &'a Toolsets,
    ) -> impl Iterator<Item = &'a Arc<Upstream>> {
        let caller = caller.to_string();
        self.servers.iter().filter(move |server| sets.has_server(server.name()) && server.allows(&caller))
    }

    /// Tools for a caller's list: those of the servers, or the two that find them.
    pub(crate) async fn list(&self, caller: &Caller, sets: &Toolsets) -> Vec<Tool> {
        let servers: Vec<_> = self.offered(caller, sets).cloned().collect();
        let tried = async {
            for server in &servers {
                server.tried().await;
            }
        };
        let _ = tokio::time::timeout(FIRST_WAIT.saturating_sub(self.began.elapsed()), tried).await;
        let tools = self.tools(caller, sets);
        if tools.len() > self.options.listed_tools {
            let names: Vec<&str> = servers.iter().map(|server| server.name()).collect();
            return search::listed(tools.len(), &names);
        }
        tools.into_iter().map(|tool| tool.listed).collect()
    }

    /// Tools of the servers that a caller may use, without those that look like another's.
    fn tools(&self, caller: &Caller, sets: &Toolsets) -> Vec<Shown> {
        self.offered(caller, sets).for_each(Upstream::look);
        let servers = self.offered(caller, sets).map(|server| server.served()).collect();
        let own = |skeleton: &str| own_tool(skeleton).filter(|own| sets.has(own));
        let (listed, held) = alike::parted(servers, own);
        self.tell(&held, Kind::Tool);
        listed
    }

    /// The other tool for which one of a server is held.
    fn taken_for(&self, tool: &Shown, of: &Upstream, caller: &Caller, sets: &Toolsets) -> Option<Alike> {
        let mut is_before = true;
        let (mut prefixes, mut others) = (Vec::new(), Vec::new());
        for server in self.offered(caller, sets) {
            prefixes.push(names::prefix(server.name()));
            if server.name() == of.name() {
                is_before = false;
            } else if let Some((name, is_meant)) = server.alike(&tool.skeleton) {
                others.push(Rival { name, is_meant, is_before });
            }
        }
        let named = (of.name(), &*names::prefix(of.name()));
        let own = |skeleton: &str| own_tool(skeleton).filter(|own| sets.has(own));
        alike::held_for(tool, named, of.is_meant(&tool.own), &prefixes, own, others)
    }

    /// Tells once of each entry that is held since it looks like another one.
    fn tell(&self, held: &[Alike], kind: Kind) {
        let mut told = self.told.lock().unwrap_or_else(PoisonError::into_inner);
        for alike in held {
            if told.len() < MAX_TOLD && told.insert(kind.key(&alike.name)) {
                tracing::warn!("held back: the {} {}", kind.noun(), alike.told());
            }
        }
    }

    /// Whether a name is one of a foreign tool, or of the two tools that find and call them.
    pub(crate) fn has(&self, name: &str) -> bool {
        [search::SEARCH, search::CALL].contains(&name)
            || names::prefix_of(name).is_some_and(|prefix| {
                self.servers.iter().any(|server| names::prefix(server.name()) == prefix)
            })
    }

    /// Calls a foreign tool, or searches for one.
    pub(crate) async fn call(
        &self,
        live: &Live,
        caller: &Caller,
        sets: &Toolsets,
        (name, arguments): (&str, JsonObject),
        session: Option<&str>,
        listener: &Listener,
    ) -> CallToolResult {
        let done = match name {
            search::SEARCH => {
                let tools = self.tools(caller, sets);
                Ok(("search_tools".to_owned(), search::search(&tools, &arguments)))
            }
            search::CALL => match search::named(arguments) {
                Ok((name, arguments)) => {
                    self.call_one(caller, sets, (&name, arguments), session, listener).await
                }
                Err(report) => Err(report),
            },
            name => self.call_one(caller, sets, (name, arguments), session, listener).await,
        };
        let (counted, result) = match done {
            Ok((counted, result)) => (Some(counted), result),
            Err(report) => (None, refused(&report)),
        };
        let how = if result.is_error == Some(true) { Called::Error } else { Called::Ok };
        live.metrics().called(counted.as_deref(), how);
        result
    }

    /// Calls one tool; returns the name by which the call is counted.
    async fn call_one(
        &self,
        caller: &Caller,
        sets: &Toolsets,
        (name, arguments): (&str, JsonObject),
        session: Option<&str>,
        listener: &Listener,
    ) -> Result<(String, CallToolResult), ErrorReport> {
        let prefix = names::prefix_of(name);
        let server =
            self.offered(caller, sets).find(|server| Some(names::prefix(server.name()).as_str()) == prefix);
        let Some(server) = server.cloned() else { return Err(self.unknown(name, caller, sets)) };
        let mut tool = server.tool(name);
        if tool.is_none() {
            let left = FIRST_WAIT.saturating_sub(self.began.elapsed());
            let _ = tokio::time::timeout(left, server.tried()).await;
            server.look_again().await;
            tool = server.tool(name);
        }
        let counted = format!("{}__", names::prefix(server.name()));
        let Some(tool) = tool else {
            let Some(why) = server.down() else { return Err(self.unknown(name, caller, sets)) };
            let error = CallError::NotSent(format!("it is not connected: {why}"));
            return Ok((counted, answers::failed(name, server.name(), &error)));
        };
        if let Some(alike) = self.taken_for(&tool, &server, caller, sets) {
            let why = format!("the tool {name} is held back: it would be taken for {}", alike.of);
            let hint = match &alike.command {
                Some(command) => format!("a person decides which of the two is meant: {command}"),
                None => "a person can add one of the servers by another name".to_owned(),
            };
            return Err(ErrorReport::new(Code::Refused, why).field("name").hint(hint));
        }
        let (session, begin) = (session.map(|session| format!("{caller} {session}")), Instant::now());
        let asked = Value::Object(arguments.clone()).to_string();
        let cancel = CancellationToken::new();
        let (progress, mut reported) = watch::channel(None::<Progress>);
        let prepare = |call: hotcell_client::Call| {
            call.cancel(cancel.clone()).progress(move |news| {
                progress.send_replace(Some(news));
            })
        };
        let called = server.call(&tool.own, arguments, session.as_deref(), listener.asker(), prepare);
        let mut called = std::pin::pin!(called);
        let done = tokio::select! {
            done = &mut called => done,
            () = listener.gone() => {
                cancel.cancel();
                called.await
            }
            () = listener.tell_foreign(&mut reported) => called.await,
        };
        let (result, said, how) = match &done {
            Ok(answer) => {
                let how = if answer.is_error { "failed" } else { "answered" };
                (answers::shown(name, answer), serde_json::to_string(answer).unwrap_or_default(), how)
            }
            Err(error) => {
                let how = if error.may_have_run() { "unknown" } else { "refused" };
                (answers::failed(name, server.name(), error), error.to_string(), how)
            }
        };
        tracing::info!(
            "{name} by {caller}: {how} in {} ms; request {} bytes {}, answer {} bytes {}",
            begin.elapsed().as_millis(),
            asked.len(),
            digest(&asked),
            said.len(),
            digest(&said)
        );
        tracing::debug!(target: "hotcell_contents", "{name}: {asked} -> {said}");
        Ok((counted, result))
    }

    /// Lists of all servers that a caller may use, by server, without what is held. A server is asked if it serves this and, with a name that clients see, if it
    /// can have an entry that looks like that one; the list of another one is empty.
    async fn lists(&self, caller: &Caller, sets: &Toolsets, kind: Kind, named: Option<&str>) -> Vec<List> {
        let skeleton = named.map(alike::skeleton);
        let (mut lists, mut asked) = (Vec::new(), JoinSet::new());
        for (number, server) in self.offered(caller, sets).enumerate() {
            let serves = |client: &Arc<Client>| {
                let (resources, prompts) = client.serves();
                if kind == Kind::Prompt { prompts } else { resources }
            };
            let prefix = names::prefix(server.name());
            let is_asked = skeleton.as_ref().is_none_or(|skeleton| alike::can_have(&prefix, skeleton));
            let Some(client) = server.any().filter(|client| is_asked && serves(client)) else {
                let (server, meant) = (server.name().to_owned(), BTreeSet::new());
                lists.push((number, List { server, all: Ok(Vec::new()), meant }));
                continue;
            };
            let (server, pinned) = (server.name().to_owned(), server.pinned());
            asked.spawn(async move {
                let list = async {
                    if kind == Kind::Prompt { client.prompts().await } else { client.resources().await }
                };
                let all = bounded(list).await;
                let read = tokio::task::spawn_blocking(move || {
                    let all = all.map(|mut all| {
                        let held = pinned.held(kind, &all);
                        all.retain(|one| {
                            kind.named(one).is_some_and(|(own, _)| !held.iter().any(|held| held == own))
                        });
                        all
                    });
                    (all, pinned.meant())
                });
                let (all, meant) = match read.await {
                    Ok(read) => read,
                    Err(error) => (Err(error.to_string()), BTreeSet::new()),
                };
                if let Err(why) = &all {
                    tracing::warn!("{server}: its {} cannot be listed: {why}", kind.list());
                }
                (number, List { server, all, meant })
            });
        }
        lists.extend(asked.join_all().await);
        lists.sort_by_key(|(number, ..)| *number);
        lists.into_iter().map(|(_, list)| list).collect()
    }

    /// Resources for a caller's list.
    pub(crate) async fn resources(&self, caller: &Caller, sets: &Toolsets) -> Vec<Resource> {
        let lists = self.lists(caller, sets, Kind::Resource, None).await;
        let all = lists.iter().filter_map(|list| Some((&list.server, list.all.as_ref().ok()?)));
        all.flat_map(|(server, all)| served::resources(server, all)).collect()
    }

    /// Prompts for a caller's list.
    pub(crate) async fn prompts(&self, caller: &Caller, sets: &Toolsets) -> Vec<Prompt> {
        let (listed, held) = parted_prompts(&self.lists(caller, sets, Kind::Prompt, None).await);
        self.tell(&held, Kind::Prompt);
        listed.into_iter().map(|prompt| prompt.listed).collect()
    }

    /// Reads a resource; `None` for a URI that is not one of a server.
    ///
    /// # Errors
    /// The protocol's error when there is no such server for the caller, or it does not answer or refuses.
    pub(crate) async fn resource(
        &self,
        caller: &Caller,
        sets: &Toolsets,
        uri: &str,
    ) -> Option<Result<Vec<ResourceContents>, ErrorData>> {
        let (prefix, own) = served::own_uri(uri)?;
        let (name, client) = match self.connected(caller, sets, &prefix) {
            Ok((name, client)) => (name, client),
            Err(why) => return Some(Err(ErrorData::resource_not_found(why, None))),
        };
        let pinned = self.offered(caller, sets).find(|server| server.name() == name).map(|s| s.pinned());
        let asked = own.clone();
        let is_held = tokio::task::spawn_blocking(move || {
            pinned.is_none_or(|pinned| pinned.is_held(Kind::Resource, &asked))
        });
        Some(match is_held.await {
            Ok(false) => bounded(client.resource(&own))
                .await
                .map(|parts| served::contents(&name, uri, &parts))
                .map_err(|why| ErrorData::internal_error(refusal(&name, &why), None)),
            _ => Err(ErrorData::invalid_params(held(Kind::Resource, &name), None)),
        })
    }

    /// A prompt with its arguments filled in; `None` for a name that is not one of a server.
    ///
    /// # Errors
    /// See [`Combined::resource`].
    pub(crate) async fn prompt(
        &self,
        caller: &Caller,
        sets: &Toolsets,
        name: &str,
        arguments: JsonObject,
    ) -> Option<Result<GetPromptResult, ErrorData>> {
        let prefix = names::prefix_of(name).filter(|_| self.has(name))?;
        let (server, client) = match self.connected(caller, sets, prefix) {
            Ok(found) => found,
            Err(why) => return Some(Err(ErrorData::invalid_params(why, None))),
        };
        let failed = |why: String| Some(Err(ErrorData::internal_error(refusal(&server, &why), None)));
        // Those of a silent server would keep every prompt of the others waiting.
        let lists = self.lists(caller, sets, Kind::Prompt, Some(name)).await;
        if let Some(Err(why)) = lists.iter().find(|list| list.server == server).map(|list| &list.all) {
            return failed(why.clone());
        }
        let (listed, alike) = parted_prompts(&lists);
        if let Some(alike) = alike.iter().find(|alike| alike.name == name) {
            let why = format!("the prompt is held back: {}", alike.told());
            return Some(Err(ErrorData::invalid_params(why, None)));
        }
        let Some(own) = listed.iter().find(|one| one.listed.name == name).map(|one| one.own.as_str()) else {
            let why = format!(
                "the server {server} has no such prompt, or {}; prompts/list names the others",
                held(Kind::Prompt, &server)
            );
            return Some(Err(ErrorData::invalid_params(why, None)));
        };
        match bounded(client.prompt(own, arguments)).await {
            Ok(given) => Some(Ok(served::prompt(&server, name, &given))),
            Err(why) => failed(why),
        }
    }

    /// Name and connection of the server with a prefix that a caller may use.
    fn connected(
        &self,
        caller: &Caller,
        sets: &Toolsets,
        prefix: &str,
    ) -> Result<(String, Arc<Client>), String> {
        let server = self.offered(caller, sets).find(|server| names::prefix(server.name()) == prefix);
        let server = server.ok_or_else(|| "there is no such server, or it is not yours".to_owned())?;
        let client = server.any().ok_or_else(|| format!("the server {} is not connected", server.name()))?;
        Ok((server.name().to_owned(), client))
    }

    fn unknown(&self, name: &str, caller: &Caller, sets: &Toolsets) -> ErrorReport {
        let all: Vec<String> = self.offered(caller, sets).flat_map(|server| server.tool_names()).collect();
        let shown: String = printable(name).chars().take(100).collect();
        let hint = match likely(name, all.iter().map(String::as_str)) {
            Some(near) => format!("did you mean {near}?"),
            None if all.is_empty() => "no server is connected, or none is yours".to_owned(),
            None => "tools/list and search_tools name the tools; tools that are new or changed are held until a person accepts them".to_owned(),
        };
        ErrorReport::new(Code::UnknownName, format!("there is no tool {shown:?} of a server"))
            .field("name")
            .hint(hint)
    }
}

/// List of a server.
struct List {
    server: String,
    /// Entries, or why they cannot be listed.
    all: Result<Vec<Value>, String>,
    /// Keys of those that a person accepted by name.
    meant: BTreeSet<String>,
}

/// Prompts that are listed, and those that look like another server's.
fn parted_prompts(lists: &[List]) -> (Vec<ShownPrompt>, Vec<Alike>) {
    let served = |list: &List| Served {
        server: list.server.clone(),
        prefix: names::prefix(&list.server),
        entries: served::prompts(&list.server, list.all.as_deref().unwrap_or_default()),
        meant: list.meant.clone(),
    };
    alike::parted(lists.iter().map(served).collect(), own_prompt)
}

/// Words about an entry that is held.
fn held(kind: Kind, server: &str) -> String {
    format!(
        "the {} is held back: it is new, or has changed since a person accepted it; a person reads it with hotcell mcp servers show {server}",
        kind.noun()
    )
}

/// Name that clients see of a server's tool or prompt.
#[must_use]
pub fn shown_name(server: &str, own: &str) -> String {
    names::name(&names::prefix(server), own)
}

/// The answer of a server within the time for it, or the reason why it did not come.
async fn bounded<T>(
    answer: impl Future<Output = Result<T, hotcell_client::ClientError>>,
) -> Result<T, String> {
    match tokio::time::timeout(SERVED_TIMEOUT, answer).await {
        Ok(answer) => answer.map_err(|error| error.to_string()),
        Err(_) => Err(format!("no answer within {} s", SERVED_TIMEOUT.as_secs())),
    }
}

fn refusal(server: &str, why: &str) -> String {
    format!("the server {server} does not give it:\n{}", crate::text::barred(why))
}

fn digest(text: &str) -> String {
    format!("sha256:{}", &hex::encode(Sha256::digest(text))[..16])
}
