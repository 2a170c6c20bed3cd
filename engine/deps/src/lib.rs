//! `--deps`: installs the packages in a project's lock files once, in a sandbox of its own that reaches only
//! the registries, and mounts them read-only in its runs.
//!
//! The installer sees only the lock files and manifests of the project and runs no package's code. Its output
//! is kept under the digest of its input: another project with the same lock file shares it, and cannot
//! change it.

#![forbid(unsafe_code)]

mod cargo;
pub mod first_read;
mod golang;
pub mod lock;
mod npm;
pub mod package;
pub mod package_set;
mod pip;
pub mod plan;
mod prebuild;
mod python;

use std::ffi::OsString;
use std::fs;
use std::io;
use std::net::IpAddr;
use std::os::unix::ffi::OsStrExt;
use std::os::unix::fs::MetadataExt;
use std::path::{Path, PathBuf};

use hotcell_egress::{AllowList, Host, Place};
use hotcell_report::RunReport;
use hotcell_sandbox::outcome::{Cause, Outcome};
use hotcell_sandbox::policy::{Bind, Confinement, HOME, Limits, PROJECT, Stdin};
use hotcell_sandbox::{Bytes, Changed, Engine, Finished, temporary};
use hotcell_testing::ProjectFolder;
use hotcell_toolchain::{self as toolchain, Surroundings};
use hotcell_workspace::layer::Bytes as How;
use hotcell_workspace::{Folder, Layer, Stack, changes, layer};

use hotcell_config::network::NetworkSetting;
use hotcell_config::{Configuration, EnvSetting, Mode, RunSettings, SecretSettings};
use hotcell_state::report::ErrorReport;
use hotcell_state::state::StateFolder;
use hotcell_verbs::builds;
use hotcell_verbs::builds::{UNFINISHED, is_folder};
use hotcell_verbs::changes::ChangePolicy;
use hotcell_verbs::request::{Merged, Prepared, RunRequest, RunTarget};
use plan::{Ahead, Installer, Plan};
use sha2::{Digest, Sha256};

/// Folder name in the state folder.
const KEPT: &str = "deps";
/// Maximum number of paths in an installer's output.
const MAX_PATHS: usize = 500_000;
/// Folder for Python's packages, below the home folder of the sandbox.
const PYTHON: &str = ".deps/python";
/// Frameworks that compile with cargo.
const COMPILED_BY: [&str; 2] = ["cargo", "nextest"];
/// Number of the first and last lines of an installer's output in a reason.
const FIRST_LINES: usize = 4;
const LAST_LINES: usize = 5;

/// Why there are no dependencies.
#[derive(Debug)]
pub enum DepsError {
    /// The configuration has to be changed.
    Wrong(ErrorReport),
    /// The run cannot begin: its outcome.
    Refused(Box<RunReport>),
}

/// Purpose of installed packages.
#[derive(Clone, Copy, Debug)]
pub enum Purpose<'a> {
    /// For a program.
    Run,
    /// For tests of this framework, or of the detected one.
    Tests(Option<&'a str>),
}

/// Progress step, for a person who waits.
#[derive(Clone, Copy, Debug)]
pub enum Step<'a> {
    /// Packages are being fetched.
    Installs(&'a Plan),
    /// Packages are being compiled.
    Compiles(&'a Plan),
    /// Not all packages could be compiled, for this reason: each run compiles the missing ones.
    NotCompiled(&'a Plan, &'a str),
}

/// Common context of all installations for a request.
struct Scene<'a> {
    configuration: &'a Configuration,
    around: &'a Surroundings,
    /// Surroundings of the project.
    project: &'a Surroundings,
    /// Settings of the run.
    settings: &'a RunSettings,
}

/// Outcome of a run that cannot begin, as an error.
fn refused(why: String) -> DepsError {
    DepsError::Refused(Box::new(RunReport::without_a_run(Cause::Refused, why)))
}

/// Installs the packages in a project's lock files, unless they are cached, and adds them to the settings of
/// a run. For tests, packages that take long are compiled, too. `say` is called before each step. Returns the
/// number of lock files.
///
/// # Errors
/// [`DepsError::Wrong`] when the configuration has to be changed, [`DepsError::Refused`] when the packages
/// cannot be installed; nothing is kept then.
pub async fn provide(
    engine: &Engine,
    state: &StateFolder,
    configuration: &Configuration,
    (project, around): (&Path, &Surroundings),
    (settings, purpose): (&mut RunSettings, Purpose<'_>),
    say: &mut (dyn FnMut(Step<'_>) + Send),
) -> Result<usize, DepsError> {
    let path = around.cwd.join(project);
    let folder = ProjectFolder::open(&path)
        .map_err(|e| refused(format!("the project {} cannot be opened: {e}", project.display())))?;
    let plans = lock::plans(&folder).map_err(|e| refused(format!("‹deps›: {e}")))?;
    let framework = match purpose {
        Purpose::Run => None,
        Purpose::Tests(Some(named)) => Some(named),
        Purpose::Tests(None) => {
            hotcell_testing::detect(&folder).first().map(|(framework, _)| framework.name())
        }
    };
    let compiles = framework.is_some_and(|name| COMPILED_BY.contains(&name));
    let count = plans.len();
    let kept = state.path().join(KEPT);
    fs::create_dir_all(&kept).map_err(|e| refused(format!("‹deps›: {}: {e}", kept.display())))?;
    // The installer is looked up as the run would do it.
    let project = Surroundings { project: Some(path.clone()), ..around.clone() };
    for plan in plans {
        let scene = Scene { configuration, around, project: &project, settings };
        let place = kept.join(format!("{}-{}", plan.installer.name(), scene.digest(&plan, None)?));
        if !is_folder(&place) {
            say(Step::Installs(&plan));
            install(engine, &scene, &plan, &place).await?;
        }
        builds::touch(&place);
        if let Some(ahead) = plan.ahead.as_ref().filter(|_| compiles) {
            let digest = scene.digest(&plan, Some(ahead))?;
            let compiled = kept.join(format!("{}-compiled-{digest}", plan.installer.name()));
            if let Some(why) = builds::in_vain(&compiled) {
                say(Step::NotCompiled(&plan, &why));
            } else if !is_folder(&compiled) {
                say(Step::Compiles(&plan));
                // Packages that the tests need and that do not compile are reported by the tests.
                if let Err(why) =
                    crate::prebuild::compile(engine, &scene, (&plan, ahead), &place, &compiled).await
                {
                    say(Step::NotCompiled(&plan, &why));
                }
            }
            if is_folder(&compiled) {
                builds::touch(&compiled);
                crate::prebuild::show(&compiled, settings);
            }
        }
        show(&plan, &path, &place, settings);
    }
    Ok(count)
}

/// Outcome when no lock file was found.
#[must_use]
pub fn no_lock_file(project: &Path) -> RunReport {
    let why = format!(
        "‹deps›: there is no lock file in {}: package-lock.json, uv.lock, poetry.lock, Pipfile.lock, \
         requirements.txt with NAME==VERSION, Cargo.lock, or go.sum",
        project.display()
    );
    RunReport::without_a_run(Cause::Refused, why)
}

impl Scene<'_> {
    /// Digest of a plan and of its environment: an installer of another image or toolchain produces other
    /// output, and so may one with other limits, layers or host libraries.
    fn digest(&self, plan: &Plan, ahead: Option<&Ahead>) -> Result<String, DepsError> {
        let mut hash = Sha256::new();
        let mut field = |bytes: &[u8]| {
            hash.update((bytes.len() as u64).to_le_bytes());
            hash.update(bytes);
        };
        field(plan.digest.as_bytes());
        for settings in [self.settings, &self.configuration.environment.run, &self.configuration.user.run] {
            settings.toolchains.iter().for_each(|t| field(self.around.cwd.join(t).as_os_str().as_bytes()));
        }
        let merged = self.merged(&request(self, Vec::new(), Path::new("/"), RunSettings::default()))?;
        let image = merged.image.map(|wanted| wanted.hold()).transpose().map_err(|e| {
            DepsError::Refused(Box::new(RunReport::without_a_run(Cause::Refused, e.to_string())))
        })?;
        if let Some(image) = &image {
            field(format!("{:?}", hotcell_verbs::images::root(image)).as_bytes());
        }
        if ahead.is_some() {
            let limits =
                self.merged(&request(self, Vec::new(), Path::new("/"), crate::prebuild::settings(self)))?;
            let Limits { memory, processes, disk, files, cpus, open_files, .. } = limits.policy.job.limits;
            field(format!("{memory:?} {processes} {disk:?} {files} {cpus:?} {open_files:?}").as_bytes());
            field(format!("{:?}", merged.policy.shape).as_bytes());
            if image.is_none() {
                field(&fs::read("/etc/os-release").unwrap_or_default());
                // The package list identifies the installed system libraries, where it exists.
                let list =
                    fs::metadata("/var/lib/dpkg/status").map(|m| (m.len(), m.mtime())).unwrap_or_default();
                field(format!("{list:?}").as_bytes());
            }
        }
        if let Some(Ok(found)) = plan.argv.first().map(|program| toolchain::find(program, self.project)) {
            field(found.program.as_os_str().as_bytes());
            let changed = fs::metadata(&found.program).map(|m| (m.len(), m.mtime())).unwrap_or_default();
            field(format!("{changed:?}").as_bytes());
        }
        for (name, text) in ahead.iter().flat_map(|ahead| &ahead.files) {
            field(name.as_bytes());
            field(text);
        }
        Ok(hex::encode(hash.finalize()))
    }

    /// Merges a request. Configured variables, folders and hosts for runs are withheld from an installer that
    /// a project's files control.
    fn merged(&self, request: &RunRequest) -> Result<Merged, DepsError> {
        let mut own = self.configuration.clone();
        own.project = None;
        for settings in [&mut own.user, &mut own.environment] {
            settings.run.env.clear();
            settings.run.binds.clear();
            settings.run.network = None;
            settings.run.secrets = SecretSettings::default();
        }
        request.merge(&own).map_err(DepsError::Wrong)
    }
}

/// Request to run an installer over a folder of hotcell, with the profile, image and toolchains of the run.
fn request(scene: &Scene<'_>, argv: Vec<OsString>, folder: &Path, settings: RunSettings) -> RunRequest {
    RunRequest {
        what: RunTarget::Program(argv),
        workspace: Some(folder.to_owned()),
        kept: None,
        settings: RunSettings {
            profile: scene.settings.profile.clone(),
            image: scene.settings.image.clone(),
            toolchains: scene.settings.toolchains.clone(),
            require: scene.settings.require.clone(),
            // None of the project's code runs: only code of packages, which the guard does not scan.
            guard: Some(Mode::Off),
            ..settings
        },
        limits: hotcell_config::limits::for_tests(),
        stdin: Stdin::Null,
        keep: ChangePolicy::default(),
    }
}

/// Mounts cached packages for a run. The caller's settings take precedence.
fn show(plan: &Plan, project: &Path, place: &Path, settings: &mut RunSettings) {
    let mut bind = |host: PathBuf, inside: PathBuf| {
        settings
            .binds
            .insert(0, Bind { host, inside, writable: false, copy_on_write: false, identity: None });
    };
    match plan.installer {
        Installer::Npm => bind(place.to_owned(), Path::new(PROJECT).join("node_modules")),
        // Below the installed files, whose links are not followed on the host.
        Installer::Cargo => {
            if is_folder(&place.join("registry")) {
                bind(place.join("registry"), Path::new(HOME).join(".cargo/registry"));
            }
        }
        // Default location of go, also set by frameworks.
        Installer::Go => {
            bind(place.to_owned(), Path::new(HOME).join("go/pkg/mod"));
            let variables = golang::offline().map(|(name, value)| EnvSetting::Set(name, value));
            settings.env.splice(0..0, variables);
        }
        Installer::Pip => {
            let inside = Path::new(HOME).join(PYTHON);
            bind(place.to_owned(), inside.clone());
            let mut all = inside.into_os_string();
            // As if the project itself were installed in editable mode.
            for own in plan.own.iter().map(|own| own.join("src")) {
                let src = project.join(&own);
                // A project that is a package itself contains no packages at its top.
                if is_folder(&src) && fs::symlink_metadata(src.join("__init__.py")).is_err() {
                    all.push(":");
                    all.push(Path::new(PROJECT).join(own));
                }
            }
            settings.env.insert(0, EnvSetting::Set("PYTHONPATH".into(), all));
        }
    }
}

async fn install(engine: &Engine, scene: &Scene<'_>, plan: &Plan, place: &Path) -> Result<(), DepsError> {
    let room =
        |e: io::Error| refused(format!("‹deps›: the lock files cannot be placed: {e}; make room in TMPDIR"));
    let folder = place_files(&plan.files).map_err(room)?;
    let places = [&scene.configuration.environment.deps_hosts, &scene.configuration.user.deps_hosts]
        .into_iter()
        .find_map(Option::as_ref);
    let hosts = plan.hosts.iter().map(|host| placed(host, places)).collect::<Vec<_>>().join(",");
    let hosts: NetworkSetting =
        hosts.parse().map_err(|e| refused(format!("‹deps›: {}: {e}", plan.locks.join(", "))))?;
    let settings = RunSettings {
        network: Some(hosts),
        env: plan.env.iter().map(|(n, v)| EnvSetting::Set(n.clone(), v.clone())).chain(trust()).collect(),
        ..RunSettings::default()
    };
    let prepared = policy_for(scene, plan.argv.clone(), folder.path(), settings)?;
    let finished = match engine.spawn(&prepared.policy).await {
        Ok(running) => running.finish().await,
        Err(refusal) => return Err(DepsError::Refused(Box::new(refusal.into()))),
    };
    let Finished { outcome, changed, .. } = finished;
    if !outcome.success() {
        return Err(failed(outcome, plan));
    }
    let most = prepared.policy.job.limits.disk;
    let keep = |mut changed: Changed| async move {
        changed.settle().await?;
        keep(&changed, folder.path(), &plan.made, most, place)
    };
    match changed {
        Some(changed) => keep(changed)
            .await
            .map_err(|e| refused(format!("‹deps›: what was installed cannot be kept: {e}"))),
        None => Err(refused("‹deps›: what was installed cannot be opened any more".to_owned())),
    }
}

/// Creates a temporary folder with these files, by their relative paths.
fn place_files<'a>(
    files: impl IntoIterator<Item = (&'a String, &'a Vec<u8>)>,
) -> io::Result<tempfile::TempDir> {
    let folder = temporary::folder()?;
    for (path, text) in files {
        let to = folder.path().join(path);
        to.parent().map_or(Ok(()), fs::create_dir_all).and_then(|()| fs::write(&to, text))?;
    }
    Ok(folder)
}

/// Policy to run an installer over a folder of hotcell.
fn policy_for(
    scene: &Scene<'_>,
    argv: Vec<OsString>,
    folder: &Path,
    settings: RunSettings,
) -> Result<Prepared, DepsError> {
    let request = request(scene, argv, folder, settings);
    let merged = scene.merged(&request)?;
    if merged.policy.shape.confinement == Confinement::LandlockOnly {
        let why = "‹deps› needs a network of its own, and the profile has none; use another one".to_owned();
        return Err(DepsError::Refused(Box::new(RunReport::without_a_run(Cause::Refused, why))));
    }
    request.prepare(merged, scene.around.clone()).map_err(DepsError::Refused)
}

/// A registry's rule, with the address from the operator's configuration, if there is one.
fn placed(host: &str, places: Option<&AllowList>) -> String {
    let name = host.trim_end_matches(":443");
    let place = places.and_then(|list| list.find(&Host::parse(name.as_bytes()).ok()?, 443));
    match place {
        Some(Place::At(IpAddr::V4(address))) => format!("{name}={address}:443"),
        Some(Place::At(IpAddr::V6(address))) => format!("{name}=[{address}]:443"),
        Some(Place::Resolve) | None => host.to_owned(),
    }
}

/// First and last lines of a program's output.
fn printed(outcome: &Outcome) -> String {
    let both =
        [&outcome.stdout, &outcome.stderr].map(|s| String::from_utf8_lossy(&s.to_bytes()).into_owned());
    let all = both.concat();
    let lines: Vec<&str> = all.lines().filter(|line| !line.trim().is_empty()).collect();
    // The error may come before a long help text.
    match lines.len() {
        many if many > FIRST_LINES + LAST_LINES => {
            [&lines[..FIRST_LINES], &["…"], &lines[many - LAST_LINES..]].concat().join(" / ")
        }
        _ => lines.join(" / "),
    }
}

/// The installer's outcome, as the reason why nothing else ran.
fn failed(mut outcome: Outcome, plan: &Plan) -> DepsError {
    let last = printed(&outcome);
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
    let mut refused = RunReport::without_a_run(
        Cause::Refused,
        format!("‹deps›: {name} installed nothing: {why}{last}{denied}"),
    );
    refused.denials = outcome.denials;
    DepsError::Refused(Box::new(refused))
}

/// Copies the output to a temporary name, and renames it when it is complete.
fn keep(changed: &Changed, base: &Path, made: &Path, most: Bytes, place: &Path) -> io::Result<()> {
    let base = Folder::open(base)?;
    let before = Stack::new([], &base);
    let upper = Folder::from_fd(changed.folder.try_clone()?);
    let on_top = Layer { folder: &upper, whole: changed.whole };
    let after = before.with(on_top);
    let all = changes(&before, &[on_top], &[], MAX_PATHS)?;
    let wanted: Vec<_> = all.into_iter().filter(|change| change.path.starts_with(made)).collect();
    let parent = place.parent().unwrap_or(Path::new("."));
    builds::fits(&wanted, most)?;
    builds::tidy(parent);
    let unfinished = tempfile::Builder::new().prefix(UNFINISHED).tempdir_in(parent)?;
    let _writing = builds::InUse::lock(unfinished.path());
    let folder = Folder::ours(unfinished.path())?;
    layer::write(&before, &after, &wanted, &folder, How::Copied, None)?;
    folder.sync()?;
    let whole = real_below(unfinished.path(), made)?;
    fs::set_permissions(&whole, std::os::unix::fs::PermissionsExt::from_mode(0o755))?;
    match fs::rename(&whole, place) {
        // Another process installed the same.
        Err(_) if is_folder(place) => Ok(()),
        renamed => renamed,
    }
}

/// A folder below another without links on the way, created if missing: the installer's output is untrusted,
/// and may contain links to host folders.
fn real_below(folder: &Path, made: &Path) -> io::Result<PathBuf> {
    let mut at = folder.to_owned();
    for part in made.components() {
        at.push(part);
        match fs::symlink_metadata(&at) {
            Ok(about) if about.is_dir() => {}
            Ok(_) => return Err(io::Error::other("the installer left something that is no folder")),
            // A lock file without packages.
            Err(e) if e.kind() == io::ErrorKind::NotFound => fs::create_dir(&at)?,
            Err(e) => return Err(e),
        }
    }
    Ok(at)
}

/// The host's own certificates, if it has them: behind a company's proxy no others work.
fn trust() -> impl Iterator<Item = EnvSetting> {
    const BUNDLE: &str = "/etc/ssl/certs/ca-certificates.crt";
    let names = ["SSL_CERT_FILE", "NODE_EXTRA_CA_CERTS", "PIP_CERT", "CARGO_HTTP_CAINFO"];
    names
        .into_iter()
        .filter(|_| Path::new(BUNDLE).is_file())
        .map(|name| EnvSetting::Set(name.into(), BUNDLE.into()))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn installer_output_must_be_folder_not_link() {
        let top = tempfile::tempdir().unwrap();
        let (made, elsewhere) = (top.path().join("made"), top.path().join("elsewhere"));
        fs::create_dir_all(elsewhere.join("python")).unwrap();
        fs::create_dir(&made).unwrap();
        std::os::unix::fs::symlink(&elsewhere, made.join("link")).unwrap();
        fs::create_dir(made.join("real")).unwrap();
        std::os::unix::fs::symlink(elsewhere.join("python"), made.join("real/python")).unwrap();
        for link in ["link", "link/python", "real/python"] {
            let error = real_below(&made, Path::new(link)).unwrap_err();
            assert!(error.to_string().contains("no folder"), "{link}: {error}");
        }
        assert_eq!(real_below(&made, Path::new("real/other")).unwrap(), made.join("real/other"));
        assert!(is_folder(&made) && !is_folder(&made.join("link")));
    }
}
