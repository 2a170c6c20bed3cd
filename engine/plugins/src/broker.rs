//! Requests of a call to the host: settings, secrets, stored values, HTTP requests, sandboxed runs, scans.
//!
//! A broker is made for one call and knows the grants of its plugin. A request without a grant is answered
//! `Denied`, in the syntax of `hotcell tool grant`.

use std::collections::HashMap;
use std::ffi::OsString;
use std::path::{Component, Path};
use std::sync::atomic::{AtomicBool, AtomicU32, Ordering};
use std::sync::{Arc, Mutex, OnceLock, PoisonError, RwLock};
use std::time::{Duration, Instant};

use hotcell_config::network::NetworkSetting;
use hotcell_config::{Configuration, EnvSetting, RunSettings, SecretSettings};
use hotcell_egress::{Resolver, System};
use hotcell_guard::{Artifact, Severity};
use hotcell_sandbox::outcome::Cause;
use hotcell_sandbox::policy::Stdin;
use hotcell_sandbox::{Bytes, Confinement, Engine, Limits};
use hotcell_state::report::ErrorReport;
use hotcell_toolchain::{Asks, Surroundings};
use hotcell_tools::ask::{Blob, Finding, Refused};
use hotcell_tools::capability;
use hotcell_tools::{Ask, BoxFuture, Broker, Held, Reply};
use hotcell_verbs::changes::ChangePolicy;
use hotcell_verbs::execute::{Unobserved, execute};
use hotcell_verbs::plantable::without_plantable;
use hotcell_verbs::request::{Language, RunRequest, RunTarget};
use reqwest::Client;
use tokio::sync::{Mutex as AsyncMutex, Semaphore};

use super::http::{self, Outgoing};
use super::plugins::{Done, Plugins};
use super::progress::{Reported, Watch};
use super::secrets::{Defined, Granted, Placeholders, Table};
use super::values::Values;

/// Maximum number of runs per call.
const MAX_RUNS: u32 = 16;
/// Maximum number of concurrent runs of all calls; others wait, while their time goes on.
const MAX_CONCURRENT_RUNS: usize = 2;
/// Maximum number of scans per call.
const MAX_SCANS: u32 = 1000;
/// Maximum size of an artifact to scan, in bytes.
const MAX_ARTIFACT_BYTES: usize = 1 << 20;
/// Maximum number of findings in an answer.
const MAX_FINDINGS: usize = 1000;
/// Maximum number of files for a run, and their maximum total size in bytes.
const FILE_LIMITS: (usize, usize) = (256, 8 << 20);
/// Maximum number of pooled clients: one per plugin that sent something.
const MAX_CLIENTS: usize = 32;
/// Time limit for removing the leftovers of ended sandboxes.
const CLOSE_TIMEOUT: Duration = Duration::from_secs(5);

/// State shared by all calls.
pub struct BrokerState {
    configuration: RwLock<Configuration>,
    plugins: Plugins,
    values: Values,
    secrets: Arc<Table>,
    resolver: Arc<dyn Resolver>,
    /// Connections are never shared between plugins.
    clients: Mutex<HashMap<String, Client>>,
    engine: OnceLock<Engine>,
    /// Permits for runs of all plugins, beside the runs that the service makes for callers.
    turns: Semaphore,
}

impl BrokerState {
    pub fn new(configuration: Configuration, plugins: Plugins) -> Done<Self> {
        Ok(Self {
            values: plugins.values()?,
            configuration: RwLock::new(configuration),
            plugins,
            secrets: Arc::default(),
            resolver: Arc::new(System),
            clients: Mutex::default(),
            engine: OnceLock::new(),
            turns: Semaphore::new(MAX_CONCURRENT_RUNS),
        })
    }

    /// The configuration in force.
    fn configuration(&self) -> Configuration {
        self.configuration.read().unwrap_or_else(PoisonError::into_inner).clone()
    }

    /// Replaces the configuration, also for calls in progress.
    pub fn reconfigure(&self, configuration: Configuration) {
        self.plugins.set(configuration.user.tools.clone());
        *self.configuration.write().unwrap_or_else(PoisonError::into_inner) = configuration;
        self.secrets.clear();
    }

    /// The operator's secrets as they are now.
    fn defined(&self) -> Defined {
        Defined::of(&self.configuration.read().unwrap_or_else(PoisonError::into_inner))
    }

    pub async fn close(&self) {
        if let Some(engine) = self.engine.get() {
            engine.settle(CLOSE_TIMEOUT).await;
        }
    }

    fn client(&self, plugin: &str) -> Result<Client, Refused> {
        let mut clients = self.clients.lock().unwrap_or_else(PoisonError::into_inner);
        if let Some(client) = clients.get(plugin) {
            return Ok(client.clone());
        }
        let client = http::client(Arc::clone(&self.resolver)).map_err(|e| Refused::Unavailable(e.message))?;
        if clients.len() >= MAX_CLIENTS {
            clients.clear();
        }
        clients.insert(plugin.to_owned(), client.clone());
        Ok(client)
    }
}

/// Answers the requests of one call.
pub struct CallBroker {
    means: Arc<BrokerState>,
    plugin: String,
    held: Held,
    /// Time limit of the call.
    wall: Duration,
    /// Latest end of the call, counted from its first request: before that it may have waited in a queue.
    until: OnceLock<Instant>,
    placeholders: AsyncMutex<Placeholders>,
    runs: AtomicU32,
    running: AtomicBool,
    scans: AtomicU32,
    watch: Option<Watch>,
}

impl CallBroker {
    pub fn new(
        means: Arc<BrokerState>,
        plugin: &str,
        held: Held,
        wall: Duration,
        watch: Option<Watch>,
    ) -> Self {
        Self {
            watch,
            means,
            plugin: plugin.to_owned(),
            held,
            wall,
            until: OnceLock::new(),
            placeholders: AsyncMutex::default(),
            runs: AtomicU32::new(0),
            running: AtomicBool::new(false),
            scans: AtomicU32::new(0),
        }
    }

    /// Time left for the call, or `asked_ms` if that is shorter.
    fn left(&self, asked_ms: u64) -> Duration {
        left(*self.until.get_or_init(|| Instant::now() + self.wall), Instant::now(), asked_ms)
    }

    /// Values of the secrets that a request names and may go with.
    async fn granted(
        &self,
        method: &str,
        url: &str,
        headers: &[(String, Blob)],
        length: usize,
    ) -> Result<Granted, Refused> {
        // A wrong address is reported where the request is sent.
        let Ok(url) = reqwest::Url::parse(url) else { return Ok(Granted::new()) };
        let Ok(to) = http::allowed(&self.held, &url) else { return Ok(Granted::new()) };
        let names = self.placeholders.lock().await.named(headers, &to, &self.held.secrets);
        if names.is_empty() {
            return Ok(Granted::new());
        }
        let (table, defined) = (Arc::clone(&self.means.secrets), self.means.defined());
        let method = method.to_owned();
        blocking(move || table.for_request(names, &defined, &method, &url, length)).await
    }

    async fn answer(&self, ask: Ask) -> Result<Reply, Refused> {
        let denied = |what: String| Err(Refused::Denied(what));
        self.until.get_or_init(|| Instant::now() + self.wall);
        match ask {
            Ask::Log { level, message } => {
                tracing::info!(target: "hotcell_contents", plugin = self.plugin, level, "{message}");
                Ok(Reply::Done)
            }
            Ask::Progress { done, total, message } => {
                tracing::debug!(target: "hotcell_contents", plugin = self.plugin, done, total, message, "progress");
                if let Some(watch) = &self.watch {
                    watch.reported(Reported { done, total, message });
                }
                Ok(Reply::Done)
            }
            Ask::Config { key } => {
                capability::key(&key).map_err(|_| no_name())?;
                if !self.held.config.contains(&key) {
                    return denied(format!("config={key}"));
                }
                let settings = self.means.plugins.settings();
                let settings = settings.config.get(&self.plugin);
                Ok(Reply::Text { text: settings.and_then(|settings| settings.get(&key)).cloned() })
            }
            Ask::Secret { name } => {
                capability::variable(&name).map_err(|_| no_name())?;
                if !self.held.secrets.contains_key(&name) {
                    return denied(format!("secret={name}"));
                }
                let (table, defined, wanted) =
                    (Arc::clone(&self.means.secrets), self.means.defined(), name.clone());
                let value = blocking(move || table.value(&wanted, &defined)).await?;
                if value.map_err(Refused::Unavailable)?.is_none() {
                    return Err(Refused::NotSet);
                }
                let placeholder = self.placeholders.lock().await.give(&name).map_err(Refused::TooMuch)?;
                Ok(Reply::Text { text: Some(placeholder) })
            }
            Ask::ConfigKeys => {
                let settings = self.means.plugins.settings();
                let settings = settings.config.get(&self.plugin);
                let is_set = |key: &&String| settings.is_some_and(|settings| settings.contains_key(*key));
                Ok(Reply::Keys { keys: self.held.config.iter().filter(is_set).cloned().collect() })
            }
            Ask::KvGet { .. }
            | Ask::KvSet { .. }
            | Ask::KvDelete { .. }
            | Ask::KvSwap { .. }
            | Ask::KvKeys { .. } => {
                let (values, plugin) = (self.means.values.clone(), self.plugin.clone());
                blocking(move || values.answer(&plugin, ask)).await?
            }
            Ask::Http { method, url, headers, body, timeout_ms } => {
                let timeout = self.left(timeout_ms);
                let client = self.means.client(&self.plugin)?;
                let granted = self.granted(&method, &url, &headers, body.0.len()).await?;
                let outgoing = Outgoing { method, url, headers, body, timeout };
                let value = |name: &str| granted.get(name).cloned().unwrap_or(Ok(None));
                Ok(http::send(&client, &self.held, outgoing, &self.placeholders, value).await)
            }
            Ask::Sandbox { .. } if !self.held.sandbox => denied("sandbox".to_owned()),
            Ask::Sandbox { argv, files, stdin, env, timeout_ms, memory } => {
                if self.running.swap(true, Ordering::AcqRel) {
                    return Err(Refused::TooMuch("another run of this call goes on".to_owned()));
                }
                let _turn = Turn(&self.running);
                if self.runs.fetch_add(1, Ordering::AcqRel) >= MAX_RUNS {
                    return Err(Refused::TooMuch(format!("a call has at most {MAX_RUNS} runs")));
                }
                // The semaphore is never closed.
                let _place = self.means.turns.acquire().await;
                let most = self.means.plugins.policy().sandbox_memory;
                let memory = memory.map_or(most, |asked| Bytes(asked).min(most));
                let asked = Asked { argv, files, stdin, env, wall: self.left(timeout_ms), memory };
                self.run(asked).await
            }
            Ask::Scan { .. } if !self.held.guard => denied("guard".to_owned()),
            Ask::Scan { name, content, language } => {
                if content.0.len() > MAX_ARTIFACT_BYTES {
                    return Err(Refused::TooMuch(format!(
                        "an artifact has at most {MAX_ARTIFACT_BYTES} bytes"
                    )));
                }
                if self.scans.fetch_add(1, Ordering::AcqRel) >= MAX_SCANS {
                    return Err(Refused::TooMuch(format!("a call has at most {MAX_SCANS} scans")));
                }
                let configuration = self.means.configuration();
                blocking(move || scan(&configuration, name, content, language)).await?
            }
        }
    }

    async fn run(&self, asked: Asked) -> Result<Reply, Refused> {
        let (wall, memory) = (asked.wall, asked.memory);
        let configuration = without_grants(self.means.configuration());
        let (folder, prepared) = blocking(move || {
            let (folder, request) = asked.request()?;
            let merged = request.merge(&configuration).map_err(|e| unavailable(&e))?;
            let mut merged = merged;
            let limits = &mut merged.policy.job.limits;
            limits.wall = limits.wall.min(wall);
            limits.memory = limits.memory.min(memory);
            // A plugin names programs, and does not choose an installation.
            let around = Surroundings {
                cwd: folder.path().to_owned(),
                asks: Asks::Caller,
                ..Surroundings::of_this_process()
            };
            let around = without_plantable(around, &configuration.user.mcp.commit);
            Ok((folder, request.prepare(merged, around)))
        })
        .await??;
        let mut report = match prepared {
            Err(report) => *report,
            Ok(mut prepared) => {
                let engine = self.means.engine.get_or_init(Engine::new);
                execute(engine, &mut prepared, &mut Unobserved, std::future::pending()).await.report
            }
        };
        drop(folder);
        // A plugin learns no more about findings and host folders than a model.
        hotcell_review::guard::for_a_model(&mut report);
        let mut outcome = report.outcome;
        if matches!(outcome.cause, Cause::NotFound | Cause::NotExecutable | Cause::Refused) {
            tracing::info!(target: "hotcell_contents", "a run of {} was not made: {:?}", self.plugin, outcome.reason);
            outcome.reason = Some(match outcome.cause {
                Cause::NotFound => "there is no such program".to_owned(),
                Cause::NotExecutable => "it cannot be executed".to_owned(),
                _ => "the sandbox was refused; hotcell doctor says what this host can do".to_owned(),
            });
        }
        let cause = serde_json::to_value(outcome.cause).ok();
        Ok(Reply::Ran {
            cause: cause.and_then(|c| c.as_str().map(str::to_owned)).unwrap_or_default(),
            exit_code: outcome.exit_code,
            truncated: outcome.stdout.truncated || outcome.stderr.truncated,
            stdout: Blob(outcome.stdout.to_bytes()),
            stderr: Blob(outcome.stderr.to_bytes()),
            reason: outcome.reason,
            wall_ms: outcome.usage.wall_us.unwrap_or_default().div_ceil(1000),
        })
    }
}

impl Broker for CallBroker {
    fn ask(&self, _call: u64, ask: Ask) -> BoxFuture<'_, Reply> {
        Box::pin(async move {
            let answer = self.answer(ask).await;
            answer.unwrap_or_else(|why| Reply::Refused { why })
        })
    }
}

/// Time left until `until`, or `asked_ms` if that is shorter, but at least 1 ms: a timeout then reports
/// itself.
fn left(until: Instant, now: Instant, asked_ms: u64) -> Duration {
    let left = until.saturating_duration_since(now);
    left.min(Duration::from_millis(asked_ms)).max(Duration::from_millis(1))
}

/// An operator's mistake, which names host files: the details go to the log.
fn unavailable(report: &ErrorReport) -> Refused {
    tracing::warn!(target: "hotcell_contents", "a plugin's request cannot be met: {report}");
    Refused::Unavailable("hotcell's own settings do not allow it; its log says why".to_owned())
}

/// Error for an invalid name. The name is not repeated, since denials are shown in a command for a person to
/// type.
fn no_name() -> Refused {
    Refused::Invalid("that is no name: letters, digits and a few signs, at most 64".to_owned())
}

/// The operator's settings without those that give a run access to the host: a plugin's run gets only what
/// the plugin holds.
fn without_grants(mut configuration: Configuration) -> Configuration {
    for settings in [&mut configuration.user, &mut configuration.environment] {
        settings.run.env.clear();
        settings.run.binds.clear();
        settings.run.toolchains.clear();
        settings.run.network = None;
        settings.run.secrets = SecretSettings::default();
    }
    configuration.project = None;
    configuration
}

/// A permit that keeps a run going until it is dropped.
struct Turn<'a>(&'a AtomicBool);

impl Drop for Turn<'_> {
    fn drop(&mut self) {
        self.0.store(false, Ordering::Release);
    }
}

/// Runs work that blocks on a disk or another process.
async fn blocking<T: Send + 'static>(work: impl FnOnce() -> T + Send + 'static) -> Result<T, Refused> {
    let done = tokio::task::spawn_blocking(work).await;
    done.map_err(|e| Refused::Unavailable(format!("hotcell itself failed: {e}")))
}

/// A run requested by a plugin.
struct Asked {
    argv: Vec<String>,
    files: Vec<(String, Blob)>,
    stdin: Option<Blob>,
    env: Vec<(String, String)>,
    wall: Duration,
    memory: Bytes,
}

impl Asked {
    /// The request, and the folder that the run starts in.
    fn request(self) -> Result<(tempfile::TempDir, RunRequest), Refused> {
        let invalid = |why: &str| Refused::Invalid(why.to_owned());
        if self.argv.first().is_none_or(String::is_empty) {
            return Err(invalid("argv names no program"));
        }
        let nul = |text: &String| text.contains('\0');
        let named = |(name, _): &(String, String)| !name.is_empty() && !name.contains('=');
        if self.argv.iter().any(nul)
            || self.env.iter().any(|(n, v)| nul(n) || nul(v))
            || !self.env.iter().all(named)
        {
            return Err(invalid("a NUL in argv or env, or a variable without a name"));
        }
        let bytes: usize = self.files.iter().map(|(_, content)| content.0.len()).sum();
        if self.files.len() > FILE_LIMITS.0 || bytes > FILE_LIMITS.1 {
            return Err(Refused::TooMuch(format!(
                "a run has at most {} files and {} bytes in them",
                FILE_LIMITS.0, FILE_LIMITS.1
            )));
        }
        let io = |e: std::io::Error| Refused::Unavailable(format!("the start folder cannot be made: {e}"));
        let folder = tempfile::tempdir().map_err(io)?;
        for (path, content) in &self.files {
            let inside = Path::new(path);
            let plain = |part: Component<'_>| matches!(part, Component::Normal(_));
            if path.is_empty() || path.contains('\0') || !inside.components().all(plain) {
                return Err(Refused::Invalid(format!("{path:?} is no path below the start folder")));
            }
            let to = folder.path().join(inside);
            std::fs::create_dir_all(to.parent().unwrap_or(folder.path())).map_err(io)?;
            let mut file = std::fs::File::create_new(to)
                .map_err(|e| Refused::Invalid(format!("{path:?} cannot be written: {e}")))?;
            std::io::Write::write_all(&mut file, &content.0).map_err(io)?;
        }
        let argv = self.argv.into_iter().map(OsString::from).collect();
        let env = self.env.into_iter().map(|(name, value)| EnvSetting::Set(name.into(), value.into()));
        let request = RunRequest {
            what: RunTarget::Program(argv),
            workspace: Some(folder.path().to_owned()),
            kept: None,
            settings: RunSettings {
                env: env.collect(),
                // Only a run of a user at the keyboard reaches hosts.
                network: Some(NetworkSetting::None),
                ..RunSettings::default()
            },
            limits: Limits::default(),
            stdin: self.stdin.map_or(Stdin::Null, |stdin| Stdin::Bytes(stdin.0)),
            keep: ChangePolicy::default(),
        };
        Ok((folder, request))
    }
}

/// Scans an artifact as the gate would.
fn scan(
    configuration: &Configuration,
    name: String,
    content: Blob,
    language: Option<String>,
) -> Result<Reply, Refused> {
    let mut artifact = Artifact::new(name, content.0);
    if let Some(language) = language {
        let known = Language::ALL.iter().find(|(name, _)| *name == language);
        let (_, known) = known.ok_or_else(|| {
            let all: Vec<&str> = Language::ALL.iter().map(|(name, _)| *name).collect();
            Refused::Invalid(format!("{language:?} is no language: there are {}", all.join(", ")))
        })?;
        artifact = artifact.run_as(known.as_read());
    }
    let Configuration { user, environment, .. } = configuration;
    let folder = environment.run.rules.as_deref().or(user.run.rules.as_deref());
    let pinned = environment.rules_digest.as_ref().or(user.rules_digest.as_ref());
    let rules = hotcell_review::guard::rules(folder, pinned).map_err(|e| unavailable(&e))?;
    let mut scan =
        configuration.reading().begin(rules, &[Confinement::Namespaces, Confinement::LandlockOnly]);
    let report = scan.read(&artifact);
    scan.end().map_err(|why| Refused::Unavailable(format!("nothing can be read: {why}")))?;
    let parts = &report.coverage.parts;
    let unread = parts.iter().filter_map(|part| Some(format!("{}: {}", part.path, part.why_not_read()?)));
    Ok(Reply::Scanned {
        verdict: report.verdict.name().to_owned(),
        language: parts.first().map(|part| part.language.clone()),
        findings: gravest(report.findings),
        unread: unread.take(MAX_FINDINGS).collect(),
    })
}

/// Findings for the caller: the most severe first, within the limit.
fn gravest(mut findings: Vec<hotcell_guard::Finding>) -> Vec<Finding> {
    findings.sort_by_key(|finding| std::cmp::Reverse(finding.severity));
    findings.truncate(MAX_FINDINGS);
    let severity = |severity| match severity {
        Severity::Note => "note",
        Severity::Warning => "warning",
        Severity::Critical => "critical",
    };
    let told = findings.into_iter().map(|finding| Finding {
        rule: finding.rule,
        severity: severity(finding.severity).to_owned(),
        message: finding.message,
        line: finding.line,
        column: finding.column,
    });
    told.collect()
}

#[cfg(test)]
#[path = "broker_tests.rs"]
mod tests;
