//! Configuration: the user's file, the project's file, the environment and the request, joined into one policy.
//!
//! The order: profile, user's file, environment, project's file, request; the later wins. A project's own file comes
//! with code that nobody has read, so it can only tighten what stands before it: a key that would widen it is an
//! error that names it. [`merge`] is pure; the reading beside it is thin.

use std::collections::{BTreeMap, BTreeSet};
use std::ffi::{OsStr, OsString};
use std::path::{Path, PathBuf};
use std::time::Duration;

use cap_std::ambient_authority;
use cap_std::fs::{Dir, OpenOptions, OpenOptionsExt};
use hotcell_egress::{AllowList, RuleError};
use hotcell_guard::quarantine::Channel;
use hotcell_sandbox::layer::nearest;
use hotcell_sandbox::policy::{Bind, Confinement, Network, Policy, ProcView};
use hotcell_sandbox::profile::{
    self, FileError, Key, LIMIT_KEYS, LimitSettings, Profile, ProfileError, parse_bind, parse_strict,
};
use hotcell_sandbox::{Bytes, Layer, Limits};
use serde::Deserialize;

use crate::approvals::state::AskedBy;
use crate::guard::{Guard, Mode, RulesDigest};
use crate::images::Wanted;
use crate::network::{self, NetworkSetting};
use crate::quarantine::{Keep, RETENTION};
use crate::reading::Reading;
use crate::report::{Code, ErrorReport};
use crate::state::StateChoice;
use crate::tools::{self, ToolSettings};

/// The project's file.
pub const PROJECT_FILE: &str = "hotcell.toml";

/// One environment variable of the program.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum EnvSetting {
    /// This value.
    Set(OsString, OsString),
    /// The value that hotcell itself was started with.
    Pass(OsString),
}

/// What one source asks for; what it does not set is left to the others.
#[derive(Clone, Debug, Default, PartialEq)]
pub struct Settings {
    /// A profile's name or file.
    pub profile: Option<OsString>,
    /// The state folder.
    pub state: Option<PathBuf>,
    /// A private loopback, hosts that may be reached, or no internet sockets.
    pub network: Option<NetworkSetting>,
    /// How much of `/proc` is there.
    pub proc: Option<ProcView>,
    /// Layers without which a run is refused, in addition.
    pub require: BTreeSet<Layer>,
    /// Limits.
    pub limits: LimitSettings,
    /// Environment variables.
    pub env: Vec<EnvSetting>,
    /// The name of an image, in place of the host's `/usr`.
    pub image: Option<String>,
    /// Host files and folders.
    pub binds: Vec<Bind>,
    /// Toolchains.
    pub toolchains: Vec<PathBuf>,
    /// What the guard does before a run.
    pub guard: Option<Mode>,
    /// A folder with rules of the user's own.
    pub rules: Option<PathBuf>,
    /// The digest that the rules of the user's own have to have.
    pub rules_digest: Option<RulesDigest>,
    /// Where registries are, for `--deps`: rules that name an address, `HOST=ADDRESS:443`, for hosts that do not resolve to a public one.
    pub deps_hosts: Option<AllowList>,
    /// How what is refused is held.
    pub quarantine: QuarantineSettings,
    /// Who is asked for approvals.
    pub approvals: Option<AskedBy>,
    /// What is kept ready.
    pub hot: HotSettings,
    /// What callers of an MCP server may have of the host.
    pub mcp: McpSettings,
    /// What plugins may have.
    pub tools: ToolSettings,
    /// A folder with the rules of an organisation.
    pub policies: Option<PathBuf>,
}

/// The table `mcp` of a configuration file. Nothing is allowed that is not named.
#[derive(Clone, Debug, Default, PartialEq, Eq, Deserialize)]
#[serde(deny_unknown_fields, default, expecting = "the table mcp")]
pub struct McpSettings {
    /// Folders over which callers may make workspaces, and folders in them: they can read all that is there.
    pub folders: Vec<PathBuf>,
    /// The same, to which such workspaces may also be committed.
    pub commit: Vec<PathBuf>,
    /// Rules with addresses (`NAME=ADDRESS:PORT`, private addresses) that callers may ask a person for.
    pub hosts: Vec<String>,
}

/// The table `hot` of a configuration file: what a service keeps ready before it is asked for.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Deserialize)]
#[serde(deny_unknown_fields, default, expecting = "the table hot")]
pub struct HotSettings {
    /// Sandboxes of one kind; with 0 none.
    pub each: usize,
    /// Of all kinds together.
    pub all: usize,
    /// What they may take together.
    pub memory: Bytes,
    /// Also start interpreters ahead.
    pub prime: bool,
}

impl Default for HotSettings {
    fn default() -> Self {
        Self { each: 2, all: 6, memory: Bytes::mib(256), prime: true }
    }
}

/// The table `quarantine` of a configuration file.
#[derive(Clone, Debug, Default, PartialEq, Eq, Deserialize)]
#[serde(deny_unknown_fields, default, expecting = "the table quarantine")]
pub struct QuarantineSettings {
    /// How long an item stays that nobody cares for: `retention = "30d"`.
    #[serde(deserialize_with = "span_of_time")]
    pub retention: Option<Duration>,
    /// Whoever releases is not who asked.
    pub two_persons: Option<bool>,
}

fn span_of_time<'de, D: serde::Deserializer<'de>>(from: D) -> Result<Option<Duration>, D::Error> {
    let time = parse_time(&String::deserialize(from)?).map_err(serde::de::Error::custom)?;
    // What is refused and gone at once cannot be reviewed.
    if time < Duration::from_secs(60) {
        return Err(serde::de::Error::custom("it is at least a minute, such as 30d"));
    }
    Ok(Some(time))
}

/// The form of a configuration file.
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
    quarantine: QuarantineSettings,
    approvals: Option<AskedBy>,
    hot: HotSettings,
    mcp: McpSettings,
    tools: ToolSettings,
    policies_path: Option<PathBuf>,
}

const KEYS: &[Key] = &[
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
    Key::table("quarantine", &[Key::value("retention"), Key::value("two_persons")]),
    Key::value("approvals"),
    Key::table("hot", &[Key::value("each"), Key::value("all"), Key::value("memory"), Key::value("prime")]),
    Key::table("mcp", &[Key::value("folders"), Key::value("commit"), Key::value("hosts")]),
    Key::table("tools", tools::settings::KEYS),
    Key::value("policies_path"),
];

impl Settings {
    /// Reads a file's text. Relative paths count from the file's folder.
    ///
    /// # Errors
    /// [`FileError`] with line and nearest key.
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
            profile: written
                .profile
                .map(|p| if is_file(OsStr::new(&p)) { base.join(p).into() } else { p.into() }),
            state: written.state.map(|p| base.join(p)),
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
            rules_digest: written.rules_digest,
            deps_hosts: hosts.map_err(|e: RuleError| {
                FileError::of_key(file, "deps_hosts", e.to_string()).found_in(text)
            })?,
            quarantine: written.quarantine,
            approvals: written.approvals,
            hot: written.hot,
            mcp: McpSettings {
                folders: written.mcp.folders.iter().map(|f| base.join(f)).collect(),
                commit: written.mcp.commit.iter().map(|f| base.join(f)).collect(),
                hosts: written.mcp.hosts,
            },
            tools: written.tools.from_folder(base),
            policies: written.policies_path.map(|p| base.join(p)),
        })
    }

    /// Reads the `HOTCELL_*` variables among these. Relative paths count from `cwd`.
    ///
    /// # Errors
    /// A variable that nobody reads, or a value that means nothing, as a report that names it.
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
            let limits = &mut settings.limits;
            macro_rules! parsed {
                ($place:expr) => {
                    $place = Some(
                        text()?.parse().map_err(|e| bad(format!("{:?}: {e}", text().unwrap_or_default())))?,
                    )
                };
            }
            match key {
                "PROFILE" => settings.profile = Some(value.clone()),
                "STATE" => settings.state = Some(cwd.join(&value)),
                "CONFIG" => {}                     // read by whoever looks for the file
                _ if key.starts_with(SECRET) => {} // read when a plugin uses it
                "NETWORK" => {
                    let setting = text()?.parse();
                    settings.network =
                        Some(setting.map_err(|e| bad(format!("is none, off or HOST:PORT,…: {e}")))?);
                }
                "PROC" => {
                    settings.proc = Some(match text()? {
                        "masked" => ProcView::Masked,
                        "own_processes" => ProcView::OwnProcesses,
                        _ => return Err(bad("is masked or own_processes".to_owned())),
                    });
                }
                "REQUIRE" => settings.require = parse_layers(text()?).map_err(bad)?,
                "MEMORY" => parsed!(limits.memory),
                "TIMEOUT" => limits.timeout = Some(parse_time(text()?).map_err(bad)?),
                "CPU_TIME" => parsed!(limits.cpu_time),
                "PROCESSES" => parsed!(limits.processes),
                "DISK" => parsed!(limits.disk),
                "FILES" => parsed!(limits.files),
                "CAPTURE" => parsed!(limits.capture),
                "OUTPUT" => parsed!(limits.output),
                "CPUS" => parsed!(limits.cpus),
                "IMAGE" => settings.image = Some(text()?.to_owned()),
                "APPROVALS" => match text()?.parse::<AskedBy>().map_err(bad)? {
                    // A project's entry in a client's configuration sets variables too.
                    AskedBy::Elicitation => {
                        return Err(bad("only the operator's own file may say elicitation".to_owned()));
                    }
                    asked => settings.approvals = Some(asked),
                },
                "GUARD" => settings.guard = Some(text()?.parse().map_err(bad)?),
                "RULES" => settings.rules = Some(cwd.join(&value)),
                "DEPS_HOSTS" => {
                    let parsed: Result<AllowList, _> = text()?.parse();
                    settings.deps_hosts =
                        Some(parsed.map_err(|e| bad(format!("is HOST=ADDRESS:443,…: {e}")))?);
                }
                "RULES_DIGEST" => settings.rules_digest = Some(text()?.parse().map_err(bad)?),
                _ => {
                    let near = nearest(key, VARIABLES).unwrap_or("PROFILE");
                    return Err(ErrorReport::new(
                        Code::Configuration,
                        format!("the environment variable HOTCELL_{key} is set, and hotcell knows none of that name"),
                    )
                    .field(format!("HOTCELL_{key}"))
                    .hint(format!("did you mean HOTCELL_{near}? otherwise unset it")));
                }
            }
        }
        Ok(settings)
    }
}

/// Variables with secrets of plugins, without their prefix.
pub(crate) const SECRET: &str = "SECRET_";

/// The variables that are read, without their prefix.
const VARIABLES: [&str; 21] = [
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

/// Reads `LAYER,LAYER`.
///
/// # Errors
/// A sentence with the nearest layer.
pub fn parse_layers(text: &str) -> Result<BTreeSet<Layer>, String> {
    text.split(',').map(|name| name.trim().parse::<Layer>().map_err(|e| e.to_string())).collect()
}

fn parse_time(text: &str) -> Result<Duration, String> {
    hotcell_sandbox::units::parse_duration(text).map_err(|e| e.to_string())
}

/// Whether a profile is named by its file.
fn is_file(profile: &OsStr) -> bool {
    let text = profile.to_string_lossy();
    text.contains('/') || text.ends_with(".toml")
}

/// Finds a profile by its name or file.
///
/// # Errors
/// [`ProfileError`].
pub fn find_profile(profile: &OsStr) -> Result<Profile, ProfileError> {
    if is_file(profile) {
        let path = std::path::absolute(profile).unwrap_or_else(|_| profile.into());
        return Profile::from_file(&path);
    }
    Profile::named(&profile.to_string_lossy())
}

/// What the sources say, before they are joined.
#[derive(Clone, Debug, Default)]
pub struct Configuration {
    /// The user's file.
    pub user: Settings,
    /// The environment.
    pub environment: Settings,
    /// The project's file, its path and its text.
    pub project: Option<ProjectFile>,
    /// Which way whoever asks came, and the state folder; put in by the front end. Without it nothing is held.
    pub asker: Option<(Channel, StateChoice)>,
    /// What is kept between readings of what runs; nothing unless the front end says where.
    pub reading: Reading,
    /// The folder of the user's file, also where there is no file.
    pub home: Option<PathBuf>,
}

/// A project's own file.
#[derive(Clone, Debug)]
pub struct ProjectFile {
    /// Where it is.
    pub path: PathBuf,
    /// What it says.
    pub text: String,
    /// The same, understood.
    pub settings: Settings,
}

/// Where configuration is looked for.
#[derive(Clone, Debug, Default)]
pub struct Places {
    /// A file that was named (`--config`): it must be there.
    pub named: Option<PathBuf>,
    /// `$XDG_CONFIG_HOME/hotcell/config.toml`, or the same below `~/.config`.
    pub usual: Option<PathBuf>,
    /// The folder of the project.
    pub project: Option<PathBuf>,
}

impl Places {
    /// The usual file, by `XDG_CONFIG_HOME` and `HOME`; relative values do not count.
    #[must_use]
    pub fn usual(xdg: Option<PathBuf>, home: Option<PathBuf>) -> Option<PathBuf> {
        let absolute = |p: &PathBuf| p.is_absolute();
        let base = xdg.filter(absolute).or_else(|| home.filter(absolute).map(|h| h.join(".config")))?;
        Some(base.join("hotcell/config.toml"))
    }
}

impl Configuration {
    /// Reads what is there.
    ///
    /// # Errors
    /// A report with file, line and nearest key.
    pub fn read(
        places: &Places,
        variables: impl IntoIterator<Item = (OsString, OsString)>,
        cwd: &Path,
    ) -> Result<Self, ErrorReport> {
        let user = match (&places.named, &places.usual) {
            (Some(named), _) => {
                let path = cwd.join(named);
                Settings::parse(&profile::read_text(&path).map_err(of_file)?, &path).map_err(of_file)?
            }
            // Whatever is in the way counts, but for "there is none".
            (None, Some(usual)) if usual.symlink_metadata().is_ok() => {
                Settings::parse(&profile::read_text(usual).map_err(of_file)?, usual).map_err(of_file)?
            }
            _ => Settings::default(),
        };
        let environment = Settings::from_environment(variables, cwd)?;
        let project = match &places.project {
            Some(folder) => read_project(folder).map_err(of_file)?,
            None => None,
        };
        let file = places.named.as_ref().map(|named| cwd.join(named)).or_else(|| places.usual.clone());
        let home = file.and_then(|file| Some(file.parent()?.to_owned()));
        Ok(Self { user, environment, project, asker: None, reading: Reading::default(), home })
    }

    /// Who is asked for approvals. A project's file can only say that it is the command line.
    #[must_use]
    pub fn approvals(&self) -> AskedBy {
        let of_project = self.project.as_ref().and_then(|file| file.settings.approvals);
        match of_project {
            Some(AskedBy::Cli) => AskedBy::Cli,
            _ => self.environment.approvals.or(self.user.approvals).unwrap_or_default(),
        }
    }

    /// The hosts that the operator has named: those that callers may ask a person for (`mcp.hosts`), and those that programs reach.
    #[must_use]
    pub fn hosts(&self) -> AllowList {
        let reached = [&self.environment, &self.user].into_iter().find_map(|s| s.network.as_ref());
        let reached = match reached {
            Some(NetworkSetting::Hosts(list)) => list.rules().iter().map(ToString::to_string).collect(),
            _ => Vec::new(),
        };
        let all = self.user.mcp.hosts.iter().chain(&reached).map(String::as_str);
        // Each was read when the configuration was; too many of them are none.
        AllowList::of(all).unwrap_or_default()
    }

    /// Where what is refused is held, and for whom. A project's file can only ask for a second person.
    #[must_use]
    pub fn keep(&self) -> Option<Keep> {
        let (channel, state) = self.asker.clone()?;
        let of_project = self.project.as_ref().and_then(|file| file.settings.quarantine.two_persons);
        Some(Keep {
            state,
            channel,
            two_persons: self.user.quarantine.two_persons == Some(true) || of_project == Some(true),
            retention: self.user.quarantine.retention.unwrap_or(RETENTION),
        })
    }
}

/// A project's file is as little trusted as its code: opened below the project's folder, never waited for.
fn read_project(folder: &Path) -> Result<Option<ProjectFile>, FileError> {
    let path = folder.join(PROJECT_FILE);
    // A project that is not there is somebody else's error.
    let Ok(dir) = Dir::open_ambient_dir(folder, ambient_authority()) else { return Ok(None) };
    let mut options = OpenOptions::new();
    options.read(true).custom_flags(nix::libc::O_NONBLOCK);
    let file = match dir.open_with(PROJECT_FILE, &options) {
        Ok(file) => file,
        Err(e) if e.kind() == std::io::ErrorKind::NotFound => return Ok(None),
        Err(e) => return Err(FileError::of_file(&path, format!("cannot be read: {e}"))),
    };
    let text = profile::text_of(file.into_std(), &path)?;
    let settings = Settings::parse(&text, &path)?;
    Ok(Some(ProjectFile { path, text, settings }))
}

/// A file's mistake as a report.
#[must_use]
pub fn of_file(error: FileError) -> ErrorReport {
    let report = ErrorReport::new(Code::Configuration, error.to_string());
    match error.key {
        Some(key) => report.field(key),
        None => report,
    }
}

/// A profile's mistake as a report; `field` is where it was named.
#[must_use]
pub fn of_profile(error: ProfileError, field: &str) -> ErrorReport {
    match error {
        ProfileError::Unknown { name, nearest } => {
            ErrorReport::new(Code::UnknownName, format!("there is no profile {name:?}")).field(field).hint(
                format!(
                    "did you mean {nearest:?}? there are {}; a file is given with a slash, as ./mine.toml",
                    Profile::names().collect::<Vec<_>>().join(", ")
                ),
            )
        }
        ProfileError::File(error) => of_file(error),
    }
}

/// The policy that the sources come to; the program is still to be named.
#[derive(Clone, Debug, PartialEq)]
pub struct Merged {
    /// The policy.
    pub policy: Policy,
    /// Its environment variables that take hotcell's own value, or a fixed one, in order.
    pub env: Vec<EnvSetting>,
    /// Who reads what is about to run.
    pub guard: Guard,
    /// What a compile step before the run may take; none where nothing is compiled.
    pub compile: Option<Limits>,
    /// The image in place of the host's `/usr`; where it is, the request says.
    pub image: Option<Wanted>,
}

/// A key of a project's file that would widen what the user allows, or hosts where there are no sockets at all.
#[derive(Clone, Debug, PartialEq, Eq, thiserror::Error)]
#[error("{key} = {asked} would widen what {}", if *.of_project {
    format!("you allow ({allowed}); a project's own file can only tighten it")
} else {
    format!("profile or configuration allow ({allowed}): no internet sockets at all")
})]
pub struct Widening {
    /// The project's file says so; otherwise it is the user's own word.
    pub of_project: bool,
    /// The key, dotted.
    pub key: &'static str,
    /// Its value.
    pub asked: String,
    /// What stands before it.
    pub allowed: String,
}

/// Joins the sources. `base` is the profile that the user chose, `limits` what holds where nobody says more, `project` the project's settings with the profile
/// that it names; the user's choice of a profile in the request goes before the project's.
///
/// # Errors
/// [`Widening`], when the project asks for more than stands before it.
pub fn merge(
    base: &Profile,
    limits: &Limits,
    user: &Settings,
    environment: &Settings,
    project: Option<(&Settings, Option<&Profile>)>,
    request: &Settings,
) -> Result<Merged, Widening> {
    let mut policy = base.policy_over(limits);
    let mut env = Vec::new();
    let trusted = [request, environment, user];
    let guard = Guard {
        mode: trusted.iter().find_map(|s| s.guard).unwrap_or_default(),
        rules: trusted.iter().find_map(|s| s.rules.clone()),
        digest: trusted.iter().find_map(|s| s.rules_digest.clone()),
        keep: None,
        reading: Reading::default(),
    };
    apply(&mut policy, &mut env, user);
    apply(&mut policy, &mut env, environment);
    if let Some((settings, profile)) = project {
        let before = [environment, user].into_iter().find_map(|s| s.network.as_ref());
        tighten(&mut policy, settings, profile, before)?;
    }
    // What is configured gives way to a profile without sockets; what is asked for now is not left out silently.
    if let (Some(NetworkSetting::Hosts(list)), Network::Off) = (&request.network, policy.shape.network) {
        let (asked, allowed) = (list.to_string(), "off".to_owned());
        return Err(Widening { of_project: false, key: "network", asked, allowed });
    }
    apply(&mut policy, &mut env, request);
    // The request is last here too.
    let asked = project.and_then(|(settings, _)| settings.guard).filter(|_| request.guard.is_none());
    let mode = asked.map_or(guard.mode, |asked| asked.min(guard.mode));
    let image = trusted.iter().find_map(|s| s.image.clone());
    let image = image.map(|name| Wanted { name, state: StateChoice::Nowhere });
    Ok(Merged { policy, env, guard: Guard { mode, ..guard }, compile: None, image })
}

/// What a trusted source says goes.
fn apply(policy: &mut Policy, env: &mut Vec<EnvSetting>, settings: &Settings) {
    if let Some(setting) = &settings.network {
        set_network(policy, setting);
    }
    if let Some(proc) = settings.proc {
        policy.shape.proc = proc;
    }
    policy.shape.require.extend(&settings.require);
    policy.job.limits = settings.limits.over(&policy.job.limits);
    policy.job.binds.extend(settings.binds.iter().cloned());
    policy.job.toolchains.extend(settings.toolchains.iter().cloned());
    env.extend(settings.env.iter().cloned());
}

/// Neither "no network" nor hosts ever give sockets to a profile that has none.
fn set_network(policy: &mut Policy, setting: &NetworkSetting) {
    (policy.shape.network, policy.job.proxy) = match setting {
        NetworkSetting::Off => (Network::Off, None),
        _ if policy.shape.network == Network::Off => return,
        NetworkSetting::None => (Network::Loopback, None),
        NetworkSetting::Hosts(list) => (Network::Proxy, Some(network::proxy(list.clone()))),
    };
}

/// What a project says goes only where it tightens.
fn tighten(
    policy: &mut Policy,
    settings: &Settings,
    profile: Option<&Profile>,
    network: Option<&NetworkSetting>,
) -> Result<(), Widening> {
    let never = |key: &'static str, asked: String| Widening {
        of_project: true,
        key,
        asked,
        allowed: "not for a project".to_owned(),
    };
    if let Some(mode) = settings.guard.filter(|mode| *mode != Mode::Enforce) {
        return Err(never("guard", mode.name().to_owned()));
    }
    if let Some(rules) = &settings.rules {
        return Err(never("rules", rules.display().to_string()));
    }
    if let Some(hosts) = &settings.deps_hosts {
        return Err(never("deps_hosts", hosts.to_string()));
    }
    if let Some(digest) = &settings.rules_digest {
        return Err(never("rules_digest", digest.to_string()));
    }
    if let Some(retention) = settings.quarantine.retention {
        return Err(never("quarantine.retention", hotcell_sandbox::units::format_duration(retention)));
    }
    if settings.quarantine.two_persons == Some(false) {
        return Err(never("quarantine.two_persons", "false".to_owned()));
    }
    if settings.approvals == Some(AskedBy::Elicitation) {
        return Err(never("approvals", "elicitation".to_owned()));
    }
    if settings.tools != ToolSettings::default() {
        return Err(never("tools", "what plugins may have".to_owned()));
    }
    if settings.hot != HotSettings::default() {
        return Err(never("hot", "sandboxes that are kept ready".to_owned()));
    }
    if settings.mcp != McpSettings::default() {
        return Err(never("mcp", "folders of the host".to_owned()));
    }
    // Models take what stands there as what their organisation wants.
    if let Some(policies) = &settings.policies {
        return Err(never("policies_path", policies.display().to_string()));
    }
    let first = |paths: &[PathBuf]| paths.first().map(|p| p.display().to_string()).unwrap_or_default();
    if let Some(image) = &settings.image {
        return Err(never("image", image.clone()));
    }
    if let Some(state) = &settings.state {
        return Err(never("state", state.display().to_string()));
    }
    if let Some(bind) = settings.binds.first() {
        return Err(never(if bind.writable { "rw" } else { "ro" }, bind.host.display().to_string()));
    }
    if !settings.toolchains.is_empty() {
        return Err(never("toolchains", first(&settings.toolchains)));
    }
    match settings.env.first() {
        Some(EnvSetting::Set(name, _)) => return Err(never("env", name.to_string_lossy().into_owned())),
        Some(EnvSetting::Pass(name)) => return Err(never("pass_env", name.to_string_lossy().into_owned())),
        None => {}
    }
    if let Some(profile) = profile {
        meet(policy, profile)?;
    }
    if let Some(setting) = &settings.network {
        tighten_network(policy, setting, network)?;
    }
    let shape = &mut policy.shape;
    match settings.proc {
        Some(ProcView::OwnProcesses) => shape.proc = ProcView::OwnProcesses,
        Some(ProcView::Masked) if shape.proc == ProcView::OwnProcesses => {
            return Err(Widening {
                of_project: true,
                key: "proc",
                asked: "masked".to_owned(),
                allowed: "own_processes".to_owned(),
            });
        }
        _ => {}
    }
    shape.require.extend(&settings.require);
    let asked = settings.limits.over(&policy.job.limits);
    if let Some((key, asked, allowed)) = wider(&asked, &policy.job.limits) {
        return Err(Widening { of_project: true, key, asked, allowed });
    }
    policy.job.limits = asked;
    Ok(())
}

/// `before`: what stands before it, where anybody said something.
fn tighten_network(
    policy: &mut Policy,
    setting: &NetworkSetting,
    before: Option<&NetworkSetting>,
) -> Result<(), Widening> {
    let wider =
        |asked: String, allowed: String| Err(Widening { of_project: true, key: "network", asked, allowed });
    match (setting, policy.shape.network, before) {
        (NetworkSetting::Off, ..) | (NetworkSetting::None, Network::Loopback | Network::Proxy, _) => {}
        (_, Network::Off, _) => return wider(setting.to_string(), "off".to_owned()),
        (NetworkSetting::Hosts(list), Network::Proxy, Some(NetworkSetting::Hosts(mine))) => {
            if let Some(rule) = mine.widened_by(list) {
                return wider(rule.to_string(), mine.to_string());
            }
        }
        (NetworkSetting::Hosts(_), ..) => return wider(setting.to_string(), "none".to_owned()),
    }
    set_network(policy, setting);
    Ok(())
}

/// A profile that a project names: of everything the tighter.
fn meet(policy: &mut Policy, profile: &Profile) -> Result<(), Widening> {
    if profile.confinement == Confinement::LandlockOnly && policy.shape.confinement == Confinement::Namespaces
    {
        return Err(Widening {
            of_project: true,
            key: "profile",
            asked: profile.name.clone(),
            allowed: "a profile with namespaces".to_owned(),
        });
    }
    policy.shape.confinement = profile.confinement;
    if profile.network == Network::Off {
        set_network(policy, &NetworkSetting::Off);
    }
    if profile.proc == ProcView::OwnProcesses {
        policy.shape.proc = ProcView::OwnProcesses;
    }
    policy.shape.require.extend(&profile.require);
    let ours = std::mem::take(&mut policy.job.limits);
    let theirs = profile.limits.over(&ours);
    policy.job.limits = Limits {
        memory: ours.memory.min(theirs.memory),
        wall: ours.wall.min(theirs.wall),
        cpu_time: [ours.cpu_time, theirs.cpu_time].into_iter().flatten().min(),
        processes: ours.processes.min(theirs.processes),
        disk: ours.disk.min(theirs.disk),
        files: ours.files.min(theirs.files),
        capture: ours.capture.min(theirs.capture),
        output: ours.output.min(theirs.output),
        cpus: [ours.cpus, theirs.cpus].into_iter().flatten().reduce(f64::min),
    };
    Ok(())
}

/// The first limit of `asked` that is wider than in `allowed`, with both values.
fn wider(asked: &Limits, allowed: &Limits) -> Option<(&'static str, String, String)> {
    use hotcell_sandbox::units::format_duration;
    let time = |t: Option<Duration>| t.unwrap_or(Duration::MAX);
    let time_text = |t: Option<Duration>| t.map_or_else(|| "none".to_owned(), format_duration);
    let share = |c: Option<f64>| c.unwrap_or(f64::INFINITY);
    let share_text = |c: Option<f64>| c.map_or_else(|| "all".to_owned(), |n| n.to_string());
    macro_rules! row {
        ($key:literal, $field:ident) => {
            ($key, asked.$field > allowed.$field, asked.$field.to_string(), allowed.$field.to_string())
        };
    }
    [
        row!("limits.memory", memory),
        (
            "limits.timeout",
            asked.wall > allowed.wall,
            format_duration(asked.wall),
            format_duration(allowed.wall),
        ),
        (
            "limits.cpu_time",
            time(asked.cpu_time) > time(allowed.cpu_time),
            time_text(asked.cpu_time),
            time_text(allowed.cpu_time),
        ),
        row!("limits.processes", processes),
        row!("limits.disk", disk),
        row!("limits.files", files),
        row!("limits.capture", capture),
        row!("limits.output", output),
        (
            "limits.cpus",
            share(asked.cpus) > share(allowed.cpus),
            share_text(asked.cpus),
            share_text(allowed.cpus),
        ),
    ]
    .into_iter()
    .find_map(|(key, wider, asked, allowed)| wider.then_some((key, asked, allowed)))
}

#[cfg(test)]
mod tests {
    use super::*;
    use hotcell_sandbox::Bytes;

    fn settings(text: &str) -> Settings {
        Settings::parse(text, Path::new("/etc/config.toml")).unwrap_or_else(|e| panic!("{text}: {e}"))
    }

    fn standard() -> Profile {
        Profile::named("standard").unwrap()
    }

    /// Joins a user's and a project's text.
    fn joined(user: &str, project: &str, request: &str) -> Result<Policy, Widening> {
        let project = settings(project);
        let profile = project.profile.as_ref().map(|p| find_profile(p).unwrap());
        let (user, none, request) = (settings(user), Settings::default(), settings(request));
        let merged = merge(
            &standard(),
            &Limits::default(),
            &user,
            &none,
            Some((&project, profile.as_ref())),
            &request,
        );
        merged.map(|m| m.policy)
    }

    #[test]
    fn a_project_can_tighten() {
        for (project, check) in [
            (
                "[limits]\nmemory = \"64M\"",
                (|p| p.job.limits.memory == Bytes::mib(64)) as fn(&Policy) -> bool,
            ),
            ("[limits]\ntimeout = \"1s\"", |p| p.job.limits.wall == Duration::from_secs(1)),
            ("[limits]\nmemory = \"512M\"", |p| p.job.limits.memory == Bytes::mib(512)),
            ("[limits]\ncpus = 0.5", |p| p.job.limits.cpus == Some(0.5)),
            ("require = [\"cgroup\"]", |p| {
                p.shape.require.contains(&Layer::Cgroup) && p.shape.require.contains(&Layer::UserNs)
            }),
            ("network = \"off\"", |p| p.shape.network == Network::Off),
            ("network = \"none\"", |p| p.shape.network == Network::Loopback),
            ("proc = \"own_processes\"", |p| p.shape.proc == ProcView::OwnProcesses),
            ("profile = \"strict\"", |p| p.shape.require.len() == 14 && p.shape.network == Network::Off),
        ] {
            let policy = joined("", project, "").unwrap_or_else(|e| panic!("{project}: {e}"));
            assert!(check(&policy), "{project}");
        }
        let policy = joined("[limits]\nmemory = \"64M\"", "profile = \"strict\"", "").unwrap();
        assert_eq!(policy.job.limits.memory, Bytes::mib(64), "a project's profile takes nothing back");
    }

    #[test]
    fn a_project_cannot_widen() {
        for (user, project, key) in [
            ("", "[limits]\nmemory = \"513M\"", "limits.memory"),
            ("[limits]\nmemory = \"64M\"", "[limits]\nmemory = \"65M\"", "limits.memory"),
            ("", "[limits]\ntimeout = \"61s\"", "limits.timeout"),
            ("", "[limits]\ncpu_time = \"none\"", "limits.cpu_time"),
            ("", "[limits]\nprocesses = 65", "limits.processes"),
            ("", "[limits]\ndisk = \"1G\"", "limits.disk"),
            ("", "[limits]\nfiles = 70000", "limits.files"),
            ("", "[limits]\ncapture = \"2M\"", "limits.capture"),
            ("", "[limits]\noutput = \"65M\"", "limits.output"),
            ("[limits]\ncpus = 1", "[limits]\ncpus = 1.5", "limits.cpus"),
            ("network = \"off\"", "network = \"none\"", "network"),
            ("network = \"off\"", "network = [\"a.com:443\"]", "network"),
            ("", "network = [\"a.com:443\"]", "network"),
            ("", "network = []", "network"),
            ("network = [\"a.com:443\"]", "network = [\"a.com:443\", \"b.com:443\"]", "network"),
            ("network = [\"a.com:443\"]", "network = [\"*.a.com:443\"]", "network"),
            ("proc = \"own_processes\"", "proc = \"masked\"", "proc"),
            ("", "profile = \"landlock-only\"", "profile"),
            ("", "state = \"/tmp\"", "state"),
            ("", "rules = \"/tmp\"", "rules"),
            (
                "",
                concat!(
                    "rules_digest = \"0123456789abcdef0123456789abcdef",
                    "0123456789abcdef0123456789abcdef\""
                ),
                "rules_digest",
            ),
            ("", "[hot]\neach = 9", "hot"),
            ("", "[quarantine]\nretention = \"1h\"", "quarantine.retention"),
            (
                "[quarantine]\ntwo_persons = true",
                "[quarantine]\ntwo_persons = false",
                "quarantine.two_persons",
            ),
            ("", "approvals = \"elicitation\"", "approvals"),
            ("", "[tools]\nsandbox = true", "tools"),
            ("", "policies_path = \"rules\"", "policies_path"),
            ("", "ro = [\"/etc\"]", "ro"),
            ("", "rw = [\"/etc\"]", "rw"),
            ("", "toolchains = [\"/etc\"]", "toolchains"),
            ("", "pass_env = [\"TOKEN\"]", "pass_env"),
            ("", "env = { LD_PRELOAD = \"x\" }", "env"),
        ] {
            let widening = joined(user, project, "").map(drop).expect_err(project);
            assert_eq!(widening.key, key, "{project}: {widening}");
        }
    }

    #[test]
    fn who_says_which_hosts() {
        let a = "network = [\"a.com:443\", \"*.b.com:443\"]";
        for (user, project, request, network) in [
            ("", "", a, Network::Proxy),
            (a, "", "", Network::Proxy),
            (a, "", "network = \"none\"", Network::Loopback),
            (a, "network = \"none\"", "", Network::Loopback),
            (a, "network = \"off\"", "", Network::Off),
            (a, "profile = \"strict\"", "", Network::Off),
            (a, "network = [\"x.b.com:443\"]", "", Network::Proxy),
            (a, "network = []", "", Network::Proxy),
            ("network = \"none\"", "", a, Network::Proxy),
            ("network = \"off\"", "network = \"off\"", "", Network::Off),
            ("network = \"off\"", "", "network = \"none\"", Network::Off),
        ] {
            let policy = joined(user, project, request).unwrap_or_else(|e| panic!("{e}"));
            assert_eq!(policy.shape.network, network, "{user} {project} {request}");
            assert_eq!(policy.job.proxy.is_some(), network == Network::Proxy);
        }
        let proxy =
            |user, project, request| format!("{:?}", joined(user, project, request).unwrap().job.proxy);
        assert!(
            proxy(a, "", "").contains("a.com") && proxy(a, "", "network = [\"c.com:1\"]").contains("c.com")
        );
        assert!(!proxy(a, "network = [\"x.b.com:443\"]", "").contains("a.com"));
        let widening = joined("network = \"off\"", "", a).map(drop).unwrap_err();
        let strict = Profile::named("strict").unwrap();
        let (hosts, none) = (settings(a), Settings::default());
        let merged = merge(&strict, &Limits::default(), &hosts, &none, None, &none).unwrap();
        assert_eq!((merged.policy.shape.network, merged.policy.job.proxy), (Network::Off, None));
        assert!(!widening.of_project && widening.to_string().contains("a.com:443"), "{widening}");
    }

    #[test]
    fn what_the_request_says_is_last() {
        let policy =
            joined("[limits]\nmemory = \"1G\"", "[limits]\nmemory = \"64M\"", "[limits]\nmemory = \"2G\"");
        assert_eq!(policy.unwrap().job.limits.memory, Bytes::gib(2));
        let policy = joined("network = \"off\"", "", "network = \"none\"").unwrap();
        assert_eq!(policy.shape.network, Network::Off, "no network is never more than before");
    }

    #[test]
    fn a_file_s_paths_count_from_its_folder() {
        let s = settings(
            "profile = \"./p.toml\"\nstate = \"s\"\nro = [\"a:/b\"]\ntoolchains = [\"t\"]\npass_env = [\"A\"]",
        );
        assert_eq!(s.profile.as_deref(), Some(OsStr::new("/etc/./p.toml")));
        assert_eq!(s.state.as_deref(), Some(Path::new("/etc/s")));
        assert_eq!(
            (s.binds[0].host.as_path(), s.binds[0].inside.as_path()),
            (Path::new("/etc/a"), Path::new("/b"))
        );
        assert_eq!(s.toolchains, [PathBuf::from("/etc/t")]);
        assert_eq!(s.env, [EnvSetting::Pass("A".into())]);
    }

    #[test]
    fn variables_are_read_and_mistakes_named() {
        let read = |name: &str, value: &str| {
            Settings::from_environment(
                [(name.into(), value.into()), ("OTHER".into(), "x".into())],
                Path::new("/w"),
            )
        };
        assert_eq!(read("HOTCELL_MEMORY", "64M").unwrap().limits.memory, Some(Bytes::mib(64)));
        assert_eq!(read("HOTCELL_CPU_TIME", "none").unwrap().limits.cpu_time, Some(profile::Span::Unlimited));
        assert_eq!(read("HOTCELL_STATE", "s").unwrap().state, Some("/w/s".into()));
        assert_eq!(read("HOTCELL_REQUIRE", "landlock, cgroup").unwrap().require.len(), 2);
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

    #[test]
    fn a_project_s_file_is_not_followed_out_or_waited_for() {
        let dir = tempfile::tempdir().unwrap();
        let file = dir.path().join(PROJECT_FILE);
        assert!(read_project(dir.path()).unwrap().is_none());
        assert!(read_project(&dir.path().join("none")).unwrap().is_none());
        std::os::unix::fs::symlink("/etc/passwd", &file).unwrap();
        assert!(read_project(dir.path()).is_err());
        std::fs::remove_file(&file).unwrap();
        nix::unistd::mkfifo(&file, nix::sys::stat::Mode::S_IRWXU).unwrap();
        assert!(read_project(dir.path()).unwrap_err().to_string().contains("not a file"));
    }
}
