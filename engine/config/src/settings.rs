//! Settings of one source: their form in a file, and as variables.

use std::collections::{BTreeMap, BTreeSet};
use std::ffi::{OsStr, OsString};
use std::path::{Path, PathBuf};
use std::time::Duration;

use hotcell_egress::{AllowList, RuleError};
use hotcell_models::{Endpoints, ModelSettings};
use hotcell_sandbox::layer::likely;
use hotcell_sandbox::policy::{Bind, ProcView};
use hotcell_sandbox::profile::{self, FileError, Key, LIMIT_KEYS, LimitSettings, parse_bind, parse_strict};
use hotcell_sandbox::{Bytes, Layer};
use hotcell_state::report::{Code, ErrorReport};
use serde::Deserialize;

use crate::network::NetworkSetting;

use super::agents::{self, AgentSettings};
use super::asked_by::AskedBy;
use super::fleet::{self, FleetSettings};
use super::guard::{Mode, RulesDigest};
use super::receipts::{self, ReceiptSettings};
use super::secrets::{SecretSettings, WrittenSecrets};
use super::sessions::{self, SessionSettings};
use super::tools::{self, ToolSettings};
use super::upstream::UpstreamSetting;
use super::web::{self, WebSettings};

/// One environment variable of the program.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum EnvSetting {
    /// Set to this value.
    Set(OsString, OsString),
    /// Passed through from hotcell's environment.
    Pass(OsString),
}

/// Settings of a request, and the part of a file or of the environment that every run has; what one source leaves unset is left to the others.
#[derive(Clone, Debug, Default, PartialEq)]
pub struct RunSettings {
    /// A profile's name or file.
    pub profile: Option<OsString>,
    /// Network: a private loopback, reachable hosts, or no internet sockets.
    pub network: Option<NetworkSetting>,
    /// Visible part of `/proc`.
    pub proc: Option<ProcView>,
    /// Additional layers without which a run is refused.
    pub require: BTreeSet<Layer>,
    /// Limits.
    pub limits: LimitSettings,
    /// Environment variables.
    pub env: Vec<EnvSetting>,
    /// The name of an image, in place of the host's `/usr`.
    pub image: Option<String>,
    /// Host files and folders that are mounted.
    pub binds: Vec<Bind>,
    /// Toolchains.
    pub toolchains: Vec<PathBuf>,
    /// Mode of the guard.
    pub guard: Option<Mode>,
    /// Folder with the user's own rules.
    pub rules: Option<PathBuf>,
    /// Secrets that runs use without holding them.
    pub secrets: SecretSettings,
}

/// Settings of a file or of the environment: those of every run, and those that no request has.
#[derive(Clone, Debug, Default, PartialEq)]
pub struct Settings {
    /// Settings of runs.
    pub run: RunSettings,
    /// The state folder.
    pub state: Option<PathBuf>,
    /// Required digest of the user's own rules.
    pub rules_digest: Option<RulesDigest>,
    /// Addresses of registries for `--deps`: rules `HOST=ADDRESS:443` for hosts that do not resolve to a
    /// public address.
    pub deps_hosts: Option<AllowList>,
    /// The operator's own proxy.
    pub upstream: Option<UpstreamSetting>,
    /// How refused code is held.
    pub quarantine: QuarantineSettings,
    /// Who is asked for approvals.
    pub approvals: Option<AskedBy>,
    /// Sandboxes that are kept ready.
    pub pool: PoolSettings,
    /// Interpreters whose variables stay.
    pub sessions: SessionSettings,
    /// Host resources for callers of an MCP server.
    pub mcp: McpSettings,
    /// Permissions of plugins.
    pub tools: ToolSettings,
    /// Folder with an organisation's rules.
    pub policies: Option<PathBuf>,
    /// Language models, and the roles that they have.
    pub models: ModelSettings,
    /// Agent definitions.
    pub agents: AgentSettings,
    /// Signed statements of runs.
    pub receipts: ReceiptSettings,
    /// The farm that runs are sent to.
    pub fleet: FleetSettings,
    /// Team mode of the page.
    pub web: WebSettings,
    /// True when a table has its former name, of which reading the file warned.
    pub has_former_names: bool,
}

/// The table `mcp` of a configuration file. Anything not named is forbidden.
#[derive(Clone, Debug, Default, PartialEq, Eq, Deserialize)]
#[serde(deny_unknown_fields, default, expecting = "the table mcp")]
pub struct McpSettings {
    /// Folders that callers may make workspaces over, including their subfolders: callers can read everything
    /// there.
    pub folders: Vec<PathBuf>,
    /// Folders like `folders`, to which such workspaces may also be committed.
    pub commit: Vec<PathBuf>,
    /// Rules with addresses (`NAME=ADDRESS:PORT`, private addresses) that callers may ask a person for.
    pub hosts: Vec<String>,
    /// Names of the toolsets that clients are offered; the server knows them.
    pub toolsets: Vec<String>,
    /// Names of servers that were added, whose tools are offered beside the own ones; `all` for every one.
    pub servers: Vec<String>,
    /// Number of their tools above which clients are offered tools that search and call them instead. Default: 40.
    pub servers_listed: Option<usize>,
    /// Bytes of descriptions of each server in the list. Default: 16 KiB.
    pub servers_text: Option<Bytes>,
    /// Callers that may use a server, by its name; a server that is not named is for all callers.
    pub server_callers: BTreeMap<String, Vec<String>>,
    /// Default time that a call waits for the end of its run: `default_wait = "4s"`.
    #[serde(deserialize_with = "wait")]
    pub default_wait: Option<Duration>,
}

/// Maximum time that a call waits.
pub const MAX_WAIT: Duration = Duration::from_secs(600);

/// Parses the time that a call waits, such as `4s` or `500ms`.
///
/// # Errors
/// When the text is not a time, or is longer than [`MAX_WAIT`].
pub fn parse_wait(text: &str) -> Result<Duration, String> {
    let time = parse_time(text)?;
    if time > MAX_WAIT {
        return Err(format!("{text:?} is too long: a call waits at most {} s", MAX_WAIT.as_secs()));
    }
    Ok(time)
}

fn wait<'de, D: serde::Deserializer<'de>>(from: D) -> Result<Option<Duration>, D::Error> {
    parse_wait(&String::deserialize(from)?).map(Some).map_err(serde::de::Error::custom)
}

/// The table `pool` of a configuration file: sandboxes that a service prewarms.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Deserialize)]
#[serde(deny_unknown_fields, default, expecting = "the table pool")]
pub struct PoolSettings {
    /// Number of sandboxes per kind; 0 disables prewarming.
    pub per_shape: usize,
    /// Maximum number of sandboxes of all kinds together.
    pub total: usize,
    /// Maximum memory of all of them together.
    pub memory: Bytes,
    /// Start interpreters in advance, too.
    pub prewarm: bool,
}

impl Default for PoolSettings {
    fn default() -> Self {
        Self { per_shape: 2, total: 6, memory: Bytes::mib(256), prewarm: true }
    }
}

/// The former spelling of [`PoolSettings`], the table `hot`.
#[derive(Clone, Copy, Debug, Deserialize)]
#[serde(deny_unknown_fields, default, expecting = "the table hot")]
struct FormerPool {
    each: usize,
    all: usize,
    memory: Bytes,
    prime: bool,
}

impl Default for FormerPool {
    fn default() -> Self {
        let PoolSettings { per_shape, total, memory, prewarm } = PoolSettings::default();
        Self { each: per_shape, all: total, memory, prime: prewarm }
    }
}

/// The pool of a file, by either spelling; the former one with a warning.
fn pool(
    now: Option<PoolSettings>,
    former: Option<FormerPool>,
    file: &Path,
) -> Result<PoolSettings, FileError> {
    match (now, former) {
        (now, None) => Ok(now.unwrap_or_default()),
        (Some(_), Some(_)) => {
            let why = "is the former name of the table pool, which is there too; remove it".to_owned();
            Err(FileError::of_key(file, "hot", why))
        }
        (None, Some(FormerPool { each, all, memory, prime })) => {
            tracing::warn!(
                "{}: the table [hot] is called [pool] now, with the keys per_shape, total, memory and prewarm",
                file.display()
            );
            Ok(PoolSettings { per_shape: each, total: all, memory, prewarm: prime })
        }
    }
}

/// The table `quarantine` of a configuration file.
#[derive(Clone, Debug, Default, PartialEq, Eq, Deserialize)]
#[serde(deny_unknown_fields, default, expecting = "the table quarantine")]
pub struct QuarantineSettings {
    /// Retention of items that no user handles: `retention = "30d"`.
    #[serde(deserialize_with = "span_of_time")]
    pub retention: Option<Duration>,
    /// Items must be released by another person than the one who asked.
    pub two_persons: Option<bool>,
}

fn span_of_time<'de, D: serde::Deserializer<'de>>(from: D) -> Result<Option<Duration>, D::Error> {
    let time = parse_time(&String::deserialize(from)?).map_err(serde::de::Error::custom)?;
    // Items that vanish at once cannot be reviewed.
    if time < Duration::from_secs(60) {
        return Err(serde::de::Error::custom("it is at least a minute, such as 30d"));
    }
    Ok(Some(time))
}

/// Raw form of a configuration file.
#[derive(Debug, Default, Deserialize)]
#[serde(deny_unknown_fields, default)]
struct Written {
    profile: Option<String>,
    state: Option<PathBuf>,
    network: Option<NetworkSetting>,
    proc: Option<ProcView>,
    #[serde(deserialize_with = "profile::layers")]
    require: BTreeSet<Layer>,
    limits: LimitSettings,
    env: BTreeMap<String, String>,
    pass_env: Vec<String>,
    image: Option<String>,
    ro: Vec<String>,
    rw: Vec<String>,
    toolchains: Vec<PathBuf>,
    guard: Option<Mode>,
    rules: Option<PathBuf>,
    rules_digest: Option<RulesDigest>,
    deps_hosts: Option<Vec<String>>,
    upstream_proxy: Option<String>,
    upstream_proxy_auth: Option<String>,
    quarantine: QuarantineSettings,
    approvals: Option<AskedBy>,
    pool: Option<PoolSettings>,
    hot: Option<FormerPool>,
    sessions: SessionSettings,
    mcp: McpSettings,
    tools: ToolSettings,
    secrets: WrittenSecrets,
    secret_env: Option<bool>,
    policies_path: Option<PathBuf>,
    models: Endpoints,
    agents: AgentSettings,
    model_roles: BTreeMap<String, Vec<String>>,
    receipts: ReceiptSettings,
    web: WebSettings,
    fleet: FleetSettings,
}

/// The keys of a configuration file.
pub(crate) const KEYS: &[Key] = &[
    Key::value("profile"),
    Key::value("state"),
    Key::value("network"),
    Key::value("proc"),
    Key::value("require"),
    Key::table("limits", LIMIT_KEYS),
    Key::value("env"),
    Key::value("pass_env"),
    Key::value("image"),
    Key::value("ro"),
    Key::value("rw"),
    Key::value("toolchains"),
    Key::value("guard"),
    Key::value("rules"),
    Key::value("rules_digest"),
    Key::value("deps_hosts"),
    Key::value("upstream_proxy"),
    Key::value("upstream_proxy_auth"),
    Key::table("quarantine", &[Key::value("retention"), Key::value("two_persons")]),
    Key::value("approvals"),
    Key::table(
        "pool",
        &[Key::value("per_shape"), Key::value("total"), Key::value("memory"), Key::value("prewarm")],
    ),
    Key::table("hot", &[Key::value("each"), Key::value("all"), Key::value("memory"), Key::value("prime")]),
    Key::table("sessions", sessions::KEYS),
    Key::table(
        "mcp",
        &[
            Key::value("folders"),
            Key::value("commit"),
            Key::value("hosts"),
            Key::value("default_wait"),
            Key::value("toolsets"),
            Key::value("servers"),
            Key::value("servers_listed"),
            Key::value("servers_text"),
            Key::value("server_callers"),
        ],
    ),
    Key::table("tools", tools::KEYS),
    Key::value("secrets"),
    Key::value("secret_env"),
    Key::value("policies_path"),
    Key::value("models"),
    Key::table("agents", agents::KEYS),
    Key::value("model_roles"),
    Key::table("receipts", receipts::KEYS),
    Key::table("fleet", fleet::KEYS),
    Key::table("web", web::KEYS),
];

impl Settings {
    /// Parses a file's text. Relative paths are resolved against the file's folder.
    ///
    /// # Errors
    /// [`FileError`] with line and nearest key, when the text is invalid.
    pub fn parse(text: &str, file: &Path) -> Result<Self, FileError> {
        let written: Written = parse_strict(text, file, KEYS)?;
        let base = file.parent().unwrap_or(Path::new(""));
        let mut binds = Vec::new();
        for (texts, writable, key) in [(&written.ro, false, "ro"), (&written.rw, true, "rw")] {
            for bind in texts {
                let bind = parse_bind(Path::new(bind), base, writable);
                binds.push(bind.map_err(|e| FileError::of_key(file, key, e).found_in(text))?);
            }
        }
        let hosts =
            written.deps_hosts.map(|hosts| AllowList::of(hosts.iter().map(String::as_str))).transpose();
        if let Err(e) = AllowList::of(written.mcp.hosts.iter().map(String::as_str)) {
            return Err(FileError::of_key(file, "mcp.hosts", e.to_string()).found_in(text));
        }
        let set = written.env.into_iter().map(|(n, v)| EnvSetting::Set(n.into(), v.into()));
        let pass = written.pass_env.into_iter().map(|n| EnvSetting::Pass(n.into()));
        Ok(Self {
            run: RunSettings {
                secrets: written
                    .secrets
                    .settings(base, written.secret_env)
                    .map_err(|(key, why)| FileError::of_key(file, &key, why).found_in(text))?,
                profile: written
                    .profile
                    .map(|p| if is_file(OsStr::new(&p)) { base.join(p).into() } else { p.into() }),
                network: written.network,
                proc: written.proc,
                require: written.require,
                limits: written.limits,
                env: set.chain(pass).collect(),
                image: written.image,
                binds,
                toolchains: written.toolchains.iter().map(|t| base.join(t)).collect(),
                guard: written.guard,
                rules: written.rules.map(|p| base.join(p)),
            },
            state: written.state.map(|p| base.join(p)),
            rules_digest: written.rules_digest,
            deps_hosts: hosts.map_err(|e: RuleError| {
                FileError::of_key(file, "deps_hosts", e.to_string()).found_in(text)
            })?,
            upstream: UpstreamSetting::parse(written.upstream_proxy, written.upstream_proxy_auth)
                .map_err(|(key, why)| FileError::of_key(file, key, why).found_in(text))?,
            quarantine: written.quarantine,
            approvals: written.approvals,
            has_former_names: written.hot.is_some(),
            pool: pool(written.pool, written.hot, file).map_err(|e| e.found_in(text))?,
            sessions: written.sessions,
            mcp: McpSettings {
                folders: written.mcp.folders.iter().map(|f| base.join(f)).collect(),
                commit: written.mcp.commit.iter().map(|f| base.join(f)).collect(),
                hosts: written.mcp.hosts,
                default_wait: written.mcp.default_wait,
                toolsets: written.mcp.toolsets,
                servers: written.mcp.servers,
                servers_listed: written.mcp.servers_listed,
                servers_text: written.mcp.servers_text,
                server_callers: written.mcp.server_callers,
            },
            tools: written.tools.from_folder(base),
            policies: written.policies_path.map(|p| base.join(p)),
            models: ModelSettings::new(written.models, written.model_roles)
                .map_err(|e| FileError::of_key(file, "model_roles", e.to_string()).found_in(text))?,
            agents: written.agents.below(base),
            receipts: written.receipts.below(base),
            web: written
                .web
                .checked()
                .map_err(|(key, why)| FileError::of_key(file, &format!("web.{key}"), why).found_in(text))?,
            fleet: written
                .fleet
                .below(base)
                .map_err(|(key, why)| FileError::of_key(file, &format!("fleet.{key}"), why).found_in(text))?,
        })
    }

    /// Reads the `HOTCELL_*` variables among `variables`. Relative paths are resolved against `cwd`.
    ///
    /// # Errors
    /// A report that names the variable, when it is unknown or has an invalid value.
    pub fn from_environment(
        variables: impl IntoIterator<Item = (OsString, OsString)>,
        cwd: &Path,
    ) -> Result<Self, ErrorReport> {
        let mut settings = Self::default();
        for (name, value) in variables {
            let Some(key) = name.to_str().and_then(|n| n.strip_prefix("HOTCELL_")) else { continue };
            if value.is_empty() {
                continue;
            }
            let bad = |why: String| {
                ErrorReport::new(Code::Configuration, format!("HOTCELL_{key}: {why}"))
                    .field(format!("HOTCELL_{key}"))
            };
            let text = || value.to_str().ok_or_else(|| bad("is not UTF-8".to_owned()));
            let limits = &mut settings.run.limits;
            macro_rules! parsed {
                ($place:expr) => {
                    $place = Some(
                        text()?.parse().map_err(|e| bad(format!("{:?}: {e}", text().unwrap_or_default())))?,
                    )
                };
            }
            match key {
                "PROFILE" => settings.run.profile = Some(value.clone()),
                "STATE" => settings.state = Some(cwd.join(&value)),
                "CONFIG" => {}                     // read by whoever looks for the file
                _ if key.starts_with(SECRET) => {} // read when a plugin uses it
                "NETWORK" => {
                    let setting = text()?.parse();
                    settings.run.network =
                        Some(setting.map_err(|e| bad(format!("is none, off or HOST:PORT,…: {e}")))?);
                }
                "PROC" => {
                    settings.run.proc = Some(match text()? {
                        "masked" => ProcView::Masked,
                        "own_processes" => ProcView::OwnProcesses,
                        _ => return Err(bad("is masked or own_processes".to_owned())),
                    });
                }
                "REQUIRE" => settings.run.require = parse_layers(text()?).map_err(bad)?,
                "MEMORY" => parsed!(limits.memory),
                "TIMEOUT" => limits.timeout = Some(parse_time(text()?).map_err(bad)?),
                "CPU_TIME" => parsed!(limits.cpu_time),
                "PROCESSES" => parsed!(limits.processes),
                "DISK" => parsed!(limits.disk),
                "FILES" => parsed!(limits.files),
                "CAPTURE" => parsed!(limits.capture),
                "OUTPUT" => parsed!(limits.output),
                "CPUS" => parsed!(limits.cpus),
                "OPEN_FILES" => parsed!(limits.open_files),
                "IMAGE" => settings.run.image = Some(text()?.to_owned()),
                "APPROVALS" => match text()?.parse::<AskedBy>().map_err(bad)? {
                    // A client's configuration may contain an entry of the project, which sets variables,
                    // too.
                    AskedBy::Elicitation => {
                        return Err(bad("only the operator's own file may say elicitation".to_owned()));
                    }
                    asked => settings.approvals = Some(asked),
                },
                "MCP_TOOLSETS" => {
                    settings.mcp.toolsets = text()?.split(',').map(|name| name.trim().to_owned()).collect();
                }
                "MCP_DEFAULT_WAIT" => settings.mcp.default_wait = Some(parse_wait(text()?).map_err(bad)?),
                "GUARD" => settings.run.guard = Some(text()?.parse().map_err(bad)?),
                "RULES" => settings.run.rules = Some(cwd.join(&value)),
                "DEPS_HOSTS" => {
                    let parsed: Result<AllowList, _> = text()?.parse();
                    settings.deps_hosts =
                        Some(parsed.map_err(|e| bad(format!("is HOST=ADDRESS:443,…: {e}")))?);
                }
                "RULES_DIGEST" => settings.rules_digest = Some(text()?.parse().map_err(bad)?),
                _ => {
                    let hint = match likely(key, VARIABLES) {
                        Some(near) => format!("did you mean HOTCELL_{near}? otherwise unset it"),
                        None => format!(
                            "unset it; there are {}",
                            VARIABLES.map(|known| format!("HOTCELL_{known}")).join(", ")
                        ),
                    };
                    return Err(ErrorReport::new(
                        Code::Configuration,
                        format!("the environment variable HOTCELL_{key} is set, and hotcell knows none of that name"),
                    )
                    .field(format!("HOTCELL_{key}"))
                    .hint(hint));
                }
            }
        }
        Ok(settings)
    }
}

/// Prefix, after `HOTCELL_`, of variables with secrets of plugins.
pub const SECRET: &str = "SECRET_";

/// Known variables, without their prefix.
const VARIABLES: [&str; 23] = [
    "MCP_DEFAULT_WAIT",
    "MCP_TOOLSETS",
    "PROFILE",
    "STATE",
    "CONFIG",
    "NETWORK",
    "PROC",
    "REQUIRE",
    "MEMORY",
    "TIMEOUT",
    "CPU_TIME",
    "PROCESSES",
    "DISK",
    "FILES",
    "CAPTURE",
    "OUTPUT",
    "CPUS",
    "IMAGE",
    "APPROVALS",
    "GUARD",
    "RULES",
    "RULES_DIGEST",
    "DEPS_HOSTS",
];

/// Parses `LAYER,LAYER`.
///
/// # Errors
/// A sentence with the nearest layer, when a layer is unknown.
pub fn parse_layers(text: &str) -> Result<BTreeSet<Layer>, String> {
    text.split(',').map(|name| name.trim().parse::<Layer>().map_err(|e| e.to_string())).collect()
}

fn parse_time(text: &str) -> Result<Duration, String> {
    hotcell_sandbox::units::parse_duration(text).map_err(|e| e.to_string())
}

/// Tells if a profile is named by its file.
pub fn is_file(profile: &OsStr) -> bool {
    let text = profile.to_string_lossy();
    text.contains('/') || text.ends_with(".toml")
}

#[cfg(test)]
mod tests {
    use super::*;

    fn settings(text: &str) -> Settings {
        Settings::parse(text, Path::new("/etc/config.toml")).unwrap_or_else(|e| panic!("{text}: {e}"))
    }

    #[test]
    fn configuration_paths_are_relative_to_its_folder() {
        let s = settings(
            "profile = \"./p.toml\"\nstate = \"s\"\nro = [\"a:/b\"]\ntoolchains = [\"t\"]\npass_env = [\"A\"]",
        );
        assert_eq!(s.run.profile.as_deref(), Some(OsStr::new("/etc/./p.toml")));
        assert_eq!(s.state.as_deref(), Some(Path::new("/etc/s")));
        assert_eq!(
            (s.run.binds[0].host.as_path(), s.run.binds[0].inside.as_path()),
            (Path::new("/etc/a"), Path::new("/b"))
        );
        assert_eq!(s.run.toolchains, [PathBuf::from("/etc/t")]);
        assert_eq!(s.run.env, [EnvSetting::Pass("A".into())]);
    }

    #[test]
    fn pool_is_read_by_its_former_name_too() {
        let wanted = PoolSettings { per_shape: 3, prewarm: false, ..PoolSettings::default() };
        assert_eq!(settings("[pool]\nper_shape = 3\nprewarm = false").pool, wanted);
        assert_eq!(settings("[hot]\neach = 3\nprime = false").pool, wanted);
        assert_eq!(settings("").pool, PoolSettings::default());
        for both in ["[pool]\n[hot]\n", "[hot]\neach = 1\n[pool]\ntotal = 1\n"] {
            let error = Settings::parse(both, Path::new("/etc/config.toml")).unwrap_err().to_string();
            assert!(error.contains("former name"), "{error}");
        }
    }

    #[test]
    fn variables_are_read_and_mistakes_named() {
        let read = |name: &str, value: &str| {
            Settings::from_environment(
                [(name.into(), value.into()), ("OTHER".into(), "x".into())],
                Path::new("/w"),
            )
        };
        assert_eq!(read("HOTCELL_MEMORY", "64M").unwrap().run.limits.memory, Some(Bytes::mib(64)));
        assert_eq!(
            read("HOTCELL_CPU_TIME", "none").unwrap().run.limits.cpu_time,
            Some(profile::Span::Unlimited)
        );
        assert_eq!(read("HOTCELL_STATE", "s").unwrap().state, Some("/w/s".into()));
        assert_eq!(read("HOTCELL_REQUIRE", "landlock, cgroup").unwrap().run.require.len(), 2);
        assert_eq!(read("HOTCELL_MEMROY", "").unwrap(), Settings::default());
        for (name, value, word) in [
            ("HOTCELL_MEMROY", "1", "HOTCELL_MEMORY"),
            ("HOTCELL_MEMORY", "lots", "512M"),
            ("HOTCELL_TIMEOUT", "soon", "60s"),
            ("HOTCELL_REQUIRE", "landlok", "landlock"),
            ("HOTCELL_NETWORK", "all", "none, off or HOST:PORT"),
            ("HOTCELL_PROCESSES", "-1", "HOTCELL_PROCESSES"),
            ("HOTCELL_RULES_DIGEST", "beef", "64 hexadecimal digits"),
        ] {
            let report = read(name, value).unwrap_err();
            assert_eq!((report.code, report.field.as_deref()), (Code::Configuration, Some(name)));
            assert!(report.to_string().contains(word), "{report}");
        }
    }
}
