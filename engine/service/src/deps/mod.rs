//! `--deps`: what a project's lock files name is installed once, in a sandbox of its own that reaches only the registries, and shown to
//! its runs read-only.
//!
//! The installer sees the lock files and manifests and nothing else of the project, runs no package's code, and what it made is
//! kept under the digest of what it saw: another project with the same lock gets the same, and cannot have changed it.

pub mod lock;

use std::fs;
use std::io;
use std::net::IpAddr;
use std::path::{Path, PathBuf};

use hotcell_egress::{AllowList, Host, Place};
use hotcell_sandbox::outcome::{Cause, Outcome};
use hotcell_sandbox::policy::{Bind, Confinement, HOME, Limits, PROJECT, Stdin};
use hotcell_sandbox::toolchain::Surroundings;
use hotcell_sandbox::{Changed, Engine, Finished, temporary};
use hotcell_testing::ProjectFolder;
use hotcell_workspace::layer::Bytes as How;
use hotcell_workspace::{Folder, Layer, Stack, changes, layer};

use crate::changes::Keep;
use crate::config::{Configuration, EnvSetting, Settings};
use crate::guard::Mode;
use crate::network::NetworkSetting;
use crate::report::ErrorReport;
use crate::request::{RunRequest, What};
use crate::state::StateFolder;
use lock::{Installer, Plan};

/// The folder in the state folder.
const KEPT: &str = "deps";
/// Paths that an installer may make.
const MOST_PATHS: usize = 500_000;
/// Where Python finds what was installed, below the home folder inside.
const PYTHON: &str = ".deps/python";
/// The last lines that an installer printed, in a reason.
const LAST: usize = 5;

/// Why there are no dependencies.
#[derive(Debug)]
pub enum DepsError {
    /// Something that a person has to change in the configuration.
    Wrong(ErrorReport),
    /// The run cannot begin: the outcome.
    Refused(Box<Outcome>),
}

/// Installs what the lock files of a project name, unless that is kept already, and adds it to the settings of a run.
/// `say` is called before something is fetched. How many lock files there are.
///
/// # Errors
/// [`DepsError`]; nothing is kept then.
pub async fn provide(
    engine: &Engine,
    state: &StateFolder,
    configuration: &Configuration,
    (project, around): (&Path, &Surroundings),
    settings: &mut Settings,
    say: &mut (dyn FnMut(&Plan) + Send),
) -> Result<usize, DepsError> {
    let refused = |why: String| DepsError::Refused(Box::new(Outcome::without_a_run(Cause::Refused, why)));
    let path = around.cwd.join(project);
    let folder = ProjectFolder::open(&path)
        .map_err(|e| refused(format!("the project {} cannot be opened: {e}", project.display())))?;
    let plans = lock::plans(&folder).map_err(|e| refused(format!("--deps: {e}")))?;
    let count = plans.len();
    let kept = state.path().join(KEPT);
    fs::create_dir_all(&kept).map_err(|e| refused(format!("--deps: {}: {e}", kept.display())))?;
    for plan in plans {
        let place = kept.join(format!("{}-{}", plan.installer.name(), plan.digest));
        if !place.is_dir() {
            say(&plan);
            install(engine, configuration, around, settings, &plan, &place).await?;
        }
        show(plan.installer, &place, settings);
    }
    Ok(count)
}

/// What is said where no lock file was found.
#[must_use]
pub fn no_lock_file(project: &Path) -> Outcome {
    let why = format!(
        "--deps: there is no lock file in {}: package-lock.json, requirements.txt with NAME==VERSION, or Cargo.lock",
        project.display()
    );
    Outcome::without_a_run(Cause::Refused, why)
}

/// What a run gets to see of what is kept. What the caller says goes before it.
fn show(installer: Installer, place: &Path, settings: &mut Settings) {
    let mut bind = |host: PathBuf, inside: PathBuf| {
        settings.binds.insert(0, Bind { host, inside, writable: false });
    };
    match installer {
        Installer::Npm => bind(place.to_owned(), Path::new(PROJECT).join("node_modules")),
        Installer::Cargo => bind(place.join("registry"), Path::new(HOME).join(".cargo/registry")),
        Installer::Pip => {
            let inside = Path::new(HOME).join(PYTHON);
            bind(place.to_owned(), inside.clone());
            settings.env.insert(0, EnvSetting::Set("PYTHONPATH".into(), inside.into()));
        }
    }
}

async fn install(
    engine: &Engine,
    configuration: &Configuration,
    around: &Surroundings,
    settings: &Settings,
    plan: &Plan,
    place: &Path,
) -> Result<(), DepsError> {
    let refused = |why: String| DepsError::Refused(Box::new(Outcome::without_a_run(Cause::Refused, why)));
    let room =
        |e: io::Error| refused(format!("--deps: the lock files cannot be placed: {e}; make room in TMPDIR"));
    let folder = temporary::folder().map_err(room)?;
    for (path, text) in &plan.files {
        let to = folder.path().join(path);
        to.parent().map_or(Ok(()), fs::create_dir_all).and_then(|()| fs::write(&to, text)).map_err(room)?;
    }
    let places = [&configuration.environment.deps_hosts, &configuration.user.deps_hosts]
        .into_iter()
        .find_map(Option::as_ref);
    let hosts = plan.hosts.iter().map(|host| placed(host, places)).collect::<Vec<_>>().join(",");
    let hosts: NetworkSetting =
        hosts.parse().map_err(|e| refused(format!("--deps: {}: {e}", plan.locks.join(", "))))?;
    let request = RunRequest {
        what: What::Program(plan.argv.clone()),
        workspace: Some(folder.path().to_owned()),
        kept: None,
        settings: Settings {
            profile: settings.profile.clone(),
            network: Some(hosts),
            image: settings.image.clone(),
            toolchains: settings.toolchains.clone(),
            require: settings.require.clone(),
            // Nothing of the project's runs, and of packages neither.
            guard: Some(Mode::Off),
            env: plan.env.iter().map(|(n, v)| EnvSetting::Set(n.clone(), v.clone())).chain(trust()).collect(),
            ..Settings::default()
        },
        limits: Limits::for_tests(),
        stdin: Stdin::Null,
        keep: Keep::default(),
    };
    let merged = request.merge(configuration).map_err(DepsError::Wrong)?;
    if merged.policy.shape.confinement == Confinement::LandlockOnly {
        return Err(refused(
            "--deps needs a network of its own, and the profile has none; use another one".to_owned(),
        ));
    }
    let prepared = request.prepare(merged, around.clone()).map_err(DepsError::Refused)?;
    let finished = match engine.spawn(&prepared.policy).await {
        Ok(running) => running.finish().await,
        Err(refusal) => return Err(DepsError::Refused(Box::new(refusal.into()))),
    };
    let Finished { outcome, changed, .. } = finished;
    if !outcome.success() {
        return Err(failed(outcome, plan));
    }
    let keep = |mut changed: Changed| async move {
        changed.settle().await?;
        keep(&changed, folder.path(), &plan.made, place)
    };
    match changed {
        Some(changed) => keep(changed)
            .await
            .map_err(|e| refused(format!("--deps: what was installed cannot be kept: {e}"))),
        None => Err(refused("--deps: what was installed cannot be opened any more".to_owned())),
    }
}

/// A registry's rule, with the address that the operator's configuration names for it.
fn placed(host: &str, places: Option<&AllowList>) -> String {
    let name = host.trim_end_matches(":443");
    let place = places.and_then(|list| list.find(&Host::parse(name.as_bytes()).ok()?, 443));
    match place {
        Some(Place::At(IpAddr::V4(address))) => format!("{name}={address}:443"),
        Some(Place::At(IpAddr::V6(address))) => format!("{name}=[{address}]:443"),
        Some(Place::Resolve) | None => host.to_owned(),
    }
}

/// The installer's outcome, as the reason why nothing else ran.
fn failed(mut outcome: Outcome, plan: &Plan) -> DepsError {
    let printed =
        [&outcome.stdout, &outcome.stderr].map(|s| String::from_utf8_lossy(&s.to_bytes()).into_owned());
    let all = printed.concat();
    let lines: Vec<&str> = all.lines().filter(|line| !line.trim().is_empty()).collect();
    let last = lines[lines.len().saturating_sub(LAST)..].join(" / ");
    let denied: Vec<&str> =
        outcome.denials.iter().filter(|d| d.layer == "network").map(|d| d.target.as_str()).collect();
    let denied = match denied.as_slice() {
        [] => String::new(),
        [first, rest @ ..] => {
            let more = if rest.is_empty() { String::new() } else { format!(" and {} more", rest.len()) };
            let hosts: Vec<&str> = plan.hosts.iter().map(String::as_str).collect();
            format!(
                "; it may reach {}, and {first}{more} was denied; where a registry's address is not a public one, name it with \
                 deps_hosts in the configuration, as HOST=ADDRESS:443",
                hosts.join(", ")
            )
        }
    };
    let why = outcome.reason.take().unwrap_or_default();
    let name = plan.installer.name();
    let mut refused = Outcome::without_a_run(
        Cause::Refused,
        format!("--deps: {name} installed nothing: {why}{last}{denied}"),
    );
    refused.denials = outcome.denials;
    DepsError::Refused(Box::new(refused))
}

/// Copies what was made, under a name that nothing has until it is whole.
fn keep(changed: &Changed, base: &Path, made: &Path, place: &Path) -> io::Result<()> {
    let base = Folder::open(base)?;
    let before = Stack::new([], &base);
    let upper = Folder::from_fd(changed.folder.try_clone()?);
    let on_top = Layer { folder: &upper, whole: changed.whole };
    let after = before.with(on_top);
    let all = changes(&before, &[on_top], &[], MOST_PATHS)?;
    let wanted: Vec<_> = all.into_iter().filter(|change| change.path.starts_with(made)).collect();
    let parent = place.parent().unwrap_or(Path::new("."));
    let unfinished = tempfile::Builder::new().prefix(".unfinished-").tempdir_in(parent)?;
    layer::write(&before, &after, &wanted, &Folder::ours(unfinished.path())?, How::Copied, None)?;
    let whole = unfinished.path().join(made);
    if !whole.is_dir() {
        // A lock with no packages.
        fs::create_dir_all(&whole)?;
    }
    fs::set_permissions(&whole, std::os::unix::fs::PermissionsExt::from_mode(0o755))?;
    match fs::rename(&whole, place) {
        // Somebody else installed the same.
        Err(_) if place.is_dir() => Ok(()),
        renamed => renamed,
    }
}

/// The host's own certificates, where it has them: behind a company's proxy others are no use.
fn trust() -> impl Iterator<Item = EnvSetting> {
    const BUNDLE: &str = "/etc/ssl/certs/ca-certificates.crt";
    let names = ["SSL_CERT_FILE", "NODE_EXTRA_CA_CERTS", "PIP_CERT", "CARGO_HTTP_CAINFO"];
    names
        .into_iter()
        .filter(|_| Path::new(BUNDLE).is_file())
        .map(|name| EnvSetting::Set(name.into(), BUNDLE.into()))
}
