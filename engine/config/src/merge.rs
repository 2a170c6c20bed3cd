//! Merges all sources into one policy. Trusted sources decide; a project can only tighten.

use std::path::PathBuf;
use std::time::Duration;

use hotcell_egress::AllowList;
use hotcell_models::ModelSettings;
use hotcell_sandbox::Limits;
use hotcell_sandbox::policy::{Confinement, Network, OPEN_FILES, Policy, ProcView};
use hotcell_sandbox::profile::Profile;

use crate::network::{self, MakeProxy, NetworkSetting};

use super::agents::AgentSettings;
use super::asked_by::AskedBy;
use super::fleet::FleetSettings;
use super::guard::{GuardSettings, Mode};
use super::receipts::ReceiptSettings;
use super::sessions::SessionSettings;
use super::settings::{EnvSetting, McpSettings, PoolSettings, RunSettings, Settings};
use super::tools::ToolSettings;
use super::web::WebSettings;

/// Result of merging; the policy does not name the program yet.
#[derive(Clone, Debug, PartialEq)]
pub struct Merged {
    /// The policy.
    pub policy: Policy,
    /// Environment variables, in order: fixed values, and variables passed through from hotcell's
    /// environment.
    pub env: Vec<EnvSetting>,
    /// Settings of the guard that scans the code before the run.
    pub guard: GuardSettings,
    /// Name of the image in place of the host's `/usr`.
    pub image: Option<String>,
    /// Hosts that the program may reach; none without a proxy.
    pub hosts: AllowList,
}

/// A key of a project's file that would widen what the user allows, or hosts for a profile without sockets.
#[derive(Clone, Debug, PartialEq, Eq, thiserror::Error)]
#[error("{key} = {asked} would widen what {}", if *.of_project {
    format!("you allow ({allowed}); a project's own file can only tighten it")
} else {
    format!("profile or configuration allow ({allowed}): no internet sockets at all")
})]
pub struct Widening {
    /// True for the project's file, false for the user's own settings.
    pub of_project: bool,
    /// Dotted key.
    pub key: &'static str,
    /// Requested value.
    pub asked: String,
    /// Value allowed so far.
    pub allowed: String,
}

/// Settings of the user, of the environment, and of the project with the profile that it names.
pub type Sources<'a> = (&'a Settings, &'a Settings, Option<(&'a Settings, Option<&'a Profile>)>);

/// Merges the sources. `base` is the profile that the user chose, `limits` are the defaults, `project` the
/// project's settings with the profile that it names. A profile in the request takes precedence over the
/// project's.
///
/// # Errors
/// [`Widening`] when the project asks for more than the other sources allow, or the request names hosts for a
/// profile without sockets.
pub fn merge(
    base: &Profile,
    limits: &Limits,
    user: &Settings,
    environment: &Settings,
    project: Option<(&Settings, Option<&Profile>)>,
    request: &RunSettings,
) -> Result<Merged, Widening> {
    merge_with(network::proxy, base, limits, (user, environment, project), request)
}

/// Like [`fn@merge`], with what makes the proxy of a run that has one: a program that starts no such run has no code of a proxy.
///
/// # Errors
/// Like [`fn@merge`].
pub fn merge_with(
    proxy: MakeProxy,
    base: &Profile,
    limits: &Limits,
    (user, environment, project): Sources<'_>,
    request: &RunSettings,
) -> Result<Merged, Widening> {
    let mut policy = base.policy_over(limits);
    let mut hosts = AllowList::default();
    let mut env = Vec::new();
    let trusted = [request, &environment.run, &user.run];
    let guard = GuardSettings {
        mode: trusted.iter().find_map(|s| s.guard).unwrap_or_default(),
        rules: trusted.iter().find_map(|s| s.rules.clone()),
        digest: [environment, user].into_iter().find_map(|s| s.rules_digest.clone()),
    };
    apply((&mut policy, &mut hosts), &mut env, &user.run);
    apply((&mut policy, &mut hosts), &mut env, &environment.run);
    if let Some((settings, profile)) = project {
        let before = [environment, user].into_iter().find_map(|s| s.run.network.as_ref());
        tighten((&mut policy, &mut hosts), settings, profile, before)?;
    }
    // Configured hosts give way to a profile without sockets; requested hosts are not dropped silently.
    if let (Some(NetworkSetting::Hosts(list)), Network::Off) = (&request.network, policy.shape.network) {
        let (asked, allowed) = (list.to_string(), "off".to_owned());
        return Err(Widening { of_project: false, key: "network", asked, allowed });
    }
    apply((&mut policy, &mut hosts), &mut env, request);
    policy.job.proxy = (policy.shape.network == Network::Proxy).then(|| proxy(hosts.clone()));
    // The request takes precedence here, too.
    let asked = project.and_then(|(settings, _)| settings.run.guard).filter(|_| request.guard.is_none());
    let mode = asked.map_or(guard.mode, |asked| asked.min(guard.mode));
    let image = trusted.iter().find_map(|s| s.image.clone());
    Ok(Merged { policy, env, guard: GuardSettings { mode, ..guard }, image, hosts })
}

/// Applies the settings of a trusted source.
fn apply((policy, hosts): (&mut Policy, &mut AllowList), env: &mut Vec<EnvSetting>, settings: &RunSettings) {
    if let Some(setting) = &settings.network {
        set_network(policy, hosts, setting);
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

/// Neither "no network" nor a list of hosts gives sockets to a profile without them.
fn set_network(policy: &mut Policy, hosts: &mut AllowList, setting: &NetworkSetting) {
    *hosts = match setting {
        NetworkSetting::Hosts(list) if policy.shape.network != Network::Off => list.clone(),
        _ => AllowList::default(),
    };
    (policy.shape.network, policy.shape.relays) = match setting {
        NetworkSetting::Off => (Network::Off, Vec::new()),
        _ if policy.shape.network == Network::Off => return,
        NetworkSetting::None => (Network::Loopback, Vec::new()),
        NetworkSetting::Hosts(list) => (Network::Proxy, network::relays(list)),
    };
}

/// Applies a project's settings where they tighten the policy.
fn tighten(
    (policy, hosts): (&mut Policy, &mut AllowList),
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
    if let Some(mode) = settings.run.guard.filter(|mode| *mode != Mode::Enforce) {
        return Err(never("guard", mode.name().to_owned()));
    }
    if let Some(rules) = &settings.run.rules {
        return Err(never("rules", rules.display().to_string()));
    }
    if let Some(hosts) = &settings.deps_hosts {
        return Err(never("deps_hosts", hosts.to_string()));
    }
    if let Some(upstream) = &settings.upstream {
        return Err(never("upstream_proxy", upstream.place.clone()));
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
    if let Some(name) = settings.run.secrets.defined.keys().next() {
        return Err(never("secrets", format!("a definition of {name}")));
    }
    if settings.tools != ToolSettings::default() {
        return Err(never("tools", "what plugins may have".to_owned()));
    }
    if settings.pool != PoolSettings::default() {
        return Err(never("pool", "sandboxes that are kept ready".to_owned()));
    }
    if settings.sessions != SessionSettings::default() {
        return Err(never("sessions", "bounds of sessions".to_owned()));
    }
    if settings.mcp != McpSettings::default() {
        return Err(never("mcp", "folders of the host".to_owned()));
    }
    if settings.models != ModelSettings::default() {
        return Err(never("models", "where prompts and keys are sent".to_owned()));
    }
    if settings.agents != AgentSettings::default() {
        return Err(never("agents", "definitions of agents".to_owned()));
    }
    if settings.receipts != ReceiptSettings::default() {
        return Err(never("receipts", "a key, a folder or a program of the host".to_owned()));
    }
    if settings.web != WebSettings::default() {
        return Err(never("web", "who may decide, and whom the page believes".to_owned()));
    }
    if settings.fleet != FleetSettings::default() {
        return Err(never("fleet", "where code is sent, with which credentials".to_owned()));
    }
    // Models take the rules there as those of their organisation.
    if let Some(policies) = &settings.policies {
        return Err(never("policies_path", policies.display().to_string()));
    }
    let first = |paths: &[PathBuf]| paths.first().map(|p| p.display().to_string()).unwrap_or_default();
    if let Some(image) = &settings.run.image {
        return Err(never("image", image.clone()));
    }
    if let Some(state) = &settings.state {
        return Err(never("state", state.display().to_string()));
    }
    if let Some(bind) = settings.run.binds.first() {
        return Err(never(if bind.writable { "rw" } else { "ro" }, bind.host.display().to_string()));
    }
    if !settings.run.toolchains.is_empty() {
        return Err(never("toolchains", first(&settings.run.toolchains)));
    }
    match settings.run.env.first() {
        Some(EnvSetting::Set(name, _)) => return Err(never("env", name.to_string_lossy().into_owned())),
        Some(EnvSetting::Pass(name)) => return Err(never("pass_env", name.to_string_lossy().into_owned())),
        None => {}
    }
    if let Some(profile) = profile {
        meet((&mut *policy, &mut *hosts), profile)?;
    }
    if let Some(setting) = &settings.run.network {
        tighten_network((&mut *policy, hosts), setting, network)?;
    }
    let shape = &mut policy.shape;
    match settings.run.proc {
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
    shape.require.extend(&settings.run.require);
    let asked = settings.run.limits.over(&policy.job.limits);
    if let Some((key, asked, allowed)) = wider(&asked, &policy.job.limits) {
        return Err(Widening { of_project: true, key, asked, allowed });
    }
    policy.job.limits = asked;
    Ok(())
}

/// `before`: the previous setting, if there is one.
fn tighten_network(
    (policy, hosts): (&mut Policy, &mut AllowList),
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
            let list = NetworkSetting::Hosts(list.with_denials_of(mine));
            set_network(policy, hosts, &list);
            return Ok(());
        }
        (NetworkSetting::Hosts(_), ..) => return wider(setting.to_string(), "none".to_owned()),
    }
    set_network(policy, hosts, setting);
    Ok(())
}

/// Applies a profile that a project names: the tighter value of everything.
fn meet((policy, hosts): (&mut Policy, &mut AllowList), profile: &Profile) -> Result<(), Widening> {
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
        set_network(policy, hosts, &NetworkSetting::Off);
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
        open_files: [ours.open_files, theirs.open_files]
            .into_iter()
            .min_by_key(|most| descriptors(*most))
            .flatten(),
    };
    Ok(())
}

/// Effective limit of open files.
fn descriptors(open_files: Option<u64>) -> u64 {
    open_files.unwrap_or(OPEN_FILES)
}

/// First limit of `asked` that is wider than in `allowed`, with both values.
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
        (
            "limits.open_files",
            descriptors(asked.open_files) > descriptors(allowed.open_files),
            descriptors(asked.open_files).to_string(),
            descriptors(allowed.open_files).to_string(),
        ),
    ]
    .into_iter()
    .find_map(|(key, wider, asked, allowed)| wider.then_some((key, asked, allowed)))
}

#[cfg(test)]
mod tests {
    use super::super::sources::find_profile;
    use super::*;
    use hotcell_sandbox::{Bytes, Layer};
    use std::path::Path;

    fn settings(text: &str) -> Settings {
        Settings::parse(text, Path::new("/etc/config.toml")).unwrap_or_else(|e| panic!("{text}: {e}"))
    }

    fn standard() -> Profile {
        Profile::named("standard").unwrap()
    }

    /// Merges a user's, a project's and a request's text.
    fn joined(user: &str, project: &str, request: &str) -> Result<Policy, Widening> {
        let project = settings(project);
        let profile = project.run.profile.as_ref().map(|p| find_profile(p).unwrap());
        let (user, none, request) = (settings(user), Settings::default(), settings(request));
        let merged = merge(
            &standard(),
            &Limits::default(),
            &user,
            &none,
            Some((&project, profile.as_ref())),
            &request.run,
        );
        merged.map(|m| m.policy)
    }

    #[test]
    fn project_configuration_may_tighten() {
        for (project, check) in [
            (
                "[limits]\nmemory = \"64M\"",
                (|p| p.job.limits.memory == Bytes::mib(64)) as fn(&Policy) -> bool,
            ),
            ("[limits]\ntimeout = \"1s\"", |p| p.job.limits.wall == Duration::from_secs(1)),
            ("[limits]\nmemory = \"512M\"", |p| p.job.limits.memory == Bytes::mib(512)),
            ("[limits]\ncpus = 0.5", |p| p.job.limits.cpus == Some(0.5)),
            ("[limits]\nopen_files = 99", |p| p.job.limits.open_files == Some(99)),
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
    fn project_configuration_widening_is_refused() {
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
            ("", "[limits]\nopen_files = 1025", "limits.open_files"),
            ("[limits]\nopen_files = 300", "[limits]\nopen_files = 301", "limits.open_files"),
            ("network = \"off\"", "network = \"none\"", "network"),
            ("network = \"off\"", "network = [\"a.com:443\"]", "network"),
            ("", "network = [\"a.com:443\"]", "network"),
            ("", "network = []", "network"),
            ("network = [\"a.com:443\"]", "network = [\"a.com:443\", \"b.com:443\"]", "network"),
            ("network = [\"a.com:443\"]", "network = [\"*.a.com:443\"]", "network"),
            ("network = [\"GET a.com:80/x\"]", "network = [\"a.com:80\"]", "network"),
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
            ("", "[pool]\nper_shape = 9", "pool"),
            ("", "[sessions]\npackages = true", "sessions"),
            ("", "[hot]\neach = 9", "pool"),
            ("", "[quarantine]\nretention = \"1h\"", "quarantine.retention"),
            (
                "[quarantine]\ntwo_persons = true",
                "[quarantine]\ntwo_persons = false",
                "quarantine.two_persons",
            ),
            ("", "approvals = \"elicitation\"", "approvals"),
            ("", "upstream_proxy = \"evil.test:3128\"", "upstream_proxy"),
            ("", "[tools]\nsandbox = true", "tools"),
            ("", "[secrets.gh]\nsource = \"env:A\"\nhost = \"evil.test\"", "secrets"),
            ("", "[models.a]\nprovider = \"ollama\"\nmodel = \"m\"", "models"),
            ("", "[model_roles]\ncoder = []", "models"),
            ("", "policies_path = \"rules\"", "policies_path"),
            ("", "[receipts]\nkey = \"exec:/tmp/x\"", "receipts"),
            ("", "[receipts]\nalways = true", "receipts"),
            (
                "",
                "[web]\nlisten = \"unix:/tmp/x\"\naddress = \"https://x.example\"\nidentity_header = \"X-User\"\ndeciders = [\"eve\"]",
                "web",
            ),
            ("", "[fleet]\naddress = \"grpcs://evil.example:1/x\"", "fleet"),
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
    fn network_hosts_merge_by_source() {
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
        // The user's rules that deny stay.
        let denied = "network = [\"*.b.com:443\", \"!x.b.com:443\"]";
        let hosts = joined(denied, "network = [\"x.b.com:443\"]", "").unwrap().job.proxy;
        assert_eq!(format!("{hosts:?}").matches("denies: true").count(), 1, "{hosts:?}");
        let widening = joined("network = \"off\"", "", a).map(drop).unwrap_err();
        let strict = Profile::named("strict").unwrap();
        let (hosts, none) = (settings(a), Settings::default());
        let merged = merge(&strict, &Limits::default(), &hosts, &none, None, &none.run).unwrap();
        assert_eq!((merged.policy.shape.network, merged.policy.job.proxy), (Network::Off, None));
        assert!(!widening.of_project && widening.to_string().contains("a.com:443"), "{widening}");
    }

    #[test]
    fn request_overrides_other_configuration() {
        let policy =
            joined("[limits]\nmemory = \"1G\"", "[limits]\nmemory = \"64M\"", "[limits]\nmemory = \"2G\"");
        assert_eq!(policy.unwrap().job.limits.memory, Bytes::gib(2));
        let policy = joined("network = \"off\"", "", "network = \"none\"").unwrap();
        assert_eq!(policy.shape.network, Network::Off, "no network is never more than before");
    }
}
