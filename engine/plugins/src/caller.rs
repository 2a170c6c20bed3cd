//! A call, from a tool's name to its answer.

use std::path::PathBuf;
use std::sync::{Arc, OnceLock};

use hotcell_config::{Configuration, find_profile};
use hotcell_sandbox::Confinement;
use hotcell_state::report::{Code, ErrorReport};
use hotcell_tools::component::serves::Served;
use hotcell_tools::{Answer, BoxFuture, CallError, Description, Hosts, HostsOptions, LoadError, Plugin};
use tokio::sync::watch;
use tokio_util::sync::CancellationToken;

use crate::long_answers::Kept;
use crate::missing_folders::Beyond;

use super::Describe;
use super::broker::{BrokerState, CallBroker};
use super::plugins::{Done, Plugins, Ready};
use super::progress::Watch;

/// Session of a command's calls: it has only one caller.
const COMMAND: &str = "command";

/// Calls tools.
pub struct Caller {
    plugins: Plugins,
    hosts: Hosts,
    means: Arc<BrokerState>,
    pub(crate) changes: OnceLock<watch::Receiver<u64>>,
    kept: Kept,
}

/// Why a call has no answer.
#[derive(Debug)]
pub enum InvokeError {
    /// There is no such tool, or the plugins cannot be read.
    Report(ErrorReport),
    /// The call failed.
    Call(CallError),
}

impl Describe for Hosts {
    fn describe<'a>(&'a self, wasm: &'a [u8]) -> BoxFuture<'a, Result<Description, LoadError>> {
        Self::describe(self, wasm)
    }
}

/// Confinements with namespaces, unless the operator's own profile has none.
fn confinement(configuration: &Configuration) -> Confinement {
    let Configuration { user, environment, .. } = configuration;
    let chosen = environment.run.profile.as_ref().or(user.run.profile.as_ref());
    chosen
        .and_then(|name| find_profile(name).ok())
        .map_or(Confinement::Namespaces, |profile| profile.confinement)
}

impl Caller {
    /// A caller for a configuration; `program` is hotcell's own, and is started as a tool host.
    ///
    /// # Errors
    /// A report when the state folder cannot be used.
    pub fn new(configuration: &Configuration, program: PathBuf) -> Done<Self> {
        let plugins = Plugins::of(configuration)?;
        let mut options = HostsOptions::new(program, plugins.cache()?);
        options.confinement = confinement(configuration);
        let hosts = Hosts::new(options);
        let hosts = hosts.map_err(|e| ErrorReport::new(Code::State, e.to_string()).parameter("state"))?;
        let means = Arc::new(BrokerState::new(configuration.clone(), plugins.clone())?);
        Ok(Self { plugins, hosts, means, changes: OnceLock::new(), kept: Kept::default() })
    }

    /// Replaces the configuration. The confinement of tool hosts stays the same.
    pub fn reconfigure(&self, configuration: &Configuration) {
        self.means.reconfigure(configuration.clone());
    }

    /// Folders in the arguments of a failed call that its plugin does not hold.
    #[must_use]
    pub fn beyond(&self, tool: &str, arguments: &str) -> Beyond {
        let Ok(ready) = self.plugins.ready(tool) else { return Beyond::default() };
        Beyond::of(&serde_json::from_str(arguments).unwrap_or_default(), &ready.held, &ready.request)
    }

    /// Answers that were too long to be shown whole.
    #[must_use]
    pub fn kept(&self) -> &Kept {
        &self.kept
    }

    /// The pool of tool hosts, which also read components that are added.
    #[must_use]
    pub fn hosts(&self) -> &Hosts {
        &self.hosts
    }

    /// The plugins.
    #[must_use]
    pub fn plugins(&self) -> &Plugins {
        &self.plugins
    }

    /// Calls a tool by its name with a JSON object. Dropping the future ends the call.
    ///
    /// # Errors
    /// [`InvokeError::Report`] when there is no such tool or the plugins cannot be read, [`InvokeError::Call`] when
    /// the call failed.
    pub async fn call(&self, tool: &str, arguments: &str) -> Result<Answer, InvokeError> {
        let ready = self.ready(tool, |_| Ok(Vec::new())).await?;
        self.call_ready(ready, arguments, COMMAND, CancellationToken::new(), None).await
    }

    /// Finds a tool by its name, with the capabilities in `once` for this call.
    pub async fn ready(
        &self,
        tool: &str,
        once: impl FnOnce(&Ready) -> Done<Vec<String>> + Send + 'static,
    ) -> Result<Ready, InvokeError> {
        // A thread switch would take half as long as a small call.
        if let Some(ready) = self.plugins.ready_at_once(tool) {
            return Ok(ready);
        }
        let (plugins, name) = (self.plugins.clone(), tool.to_owned());
        let looked = tokio::task::spawn_blocking(move || {
            let ready = plugins.ready(&name)?;
            match once(&ready)? {
                none if none.is_empty() => Ok(ready),
                once => plugins.ready_with(&name, &once),
            }
        });
        let failed = |e| ErrorReport::new(Code::Internal, format!("hotcell itself failed: {e}"));
        looked.await.map_err(failed).flatten().map_err(InvokeError::Report)
    }

    /// Calls a function that serves something, for the caller of a session; `None` when the plugin does not
    /// serve it. Denials are not asked for: no tool was called.
    ///
    /// # Errors
    /// Like [`Caller::call`].
    pub async fn serve(
        &self,
        plugin: &str,
        served: Served,
        arguments: &serde_json::Value,
        session: &str,
    ) -> Result<Option<Answer>, InvokeError> {
        let (plugins, name) = (self.plugins.clone(), plugin.to_owned());
        let looked = tokio::task::spawn_blocking(move || plugins.ready_to_serve(&name, served));
        let failed = |e| ErrorReport::new(Code::Internal, format!("hotcell itself failed: {e}"));
        let Some(ready) = looked.await.map_err(failed).flatten().map_err(InvokeError::Report)? else {
            return Ok(None);
        };
        let arguments = arguments.to_string();
        self.call_ready(ready, &arguments, session, CancellationToken::new(), None).await.map(Some)
    }

    /// Calls a prepared tool, for a session if its plugin keeps instances.
    pub async fn call_ready(
        &self,
        ready: Ready,
        arguments: &str,
        session: &str,
        cancel: CancellationToken,
        watch: Option<Watch>,
    ) -> Result<Answer, InvokeError> {
        let Ready { plugin, digest, wasm, path, mut held, standing, keeps: alone, identities, .. } = ready;
        let session = ready.session.then(|| session.to_owned());
        let limits = self.plugins.settings().limits();
        let env =
            held.env.iter().filter_map(|name| Some((name.clone(), std::env::var(name).ok()?))).collect();
        let broker = CallBroker::new(Arc::clone(&self.means), &plugin, held.clone(), limits.wall, watch);
        if session.is_some() {
            // The broker knows the approvals of single calls. Another process would be empty.
            held = standing;
        }
        let plugin = Plugin { name: plugin, digest, wasm, held, identities, env, limits, alone, session };
        self.hosts.call(&plugin, &path, arguments, Arc::new(broker), cancel).await.map_err(InvokeError::Call)
    }

    /// Ends the tool hosts, and waits up to 5 s for them and for the leftovers of sandboxed runs.
    pub async fn close(&self) {
        self.hosts.close().await;
        self.means.close().await;
    }
}
