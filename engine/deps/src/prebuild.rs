//! Compiles the dependencies of a project's tests once, in a sandbox without a network that sees the
//! packages, the lock file and the manifests, but none of the project's own code. Runs get the result
//! copy-on-write.
//!
//! Build scripts and procedural macros of packages run there, as they would in each run. The result is kept
//! under the digest of everything that they saw, so it is only used where the same packages would have the
//! same effect.

use std::path::Path;
use std::time::Duration;

use hotcell_config::{EnvSetting, RunSettings};
use hotcell_sandbox::home::CollectError;
use hotcell_sandbox::outcome::{Cause, Outcome};
use hotcell_sandbox::policy::{HOME, Limits};
use hotcell_sandbox::{Engine, Finished};
use hotcell_testing::frameworks::cargo::{AHEAD, TARGET, environment};
use hotcell_verbs::builds;
use hotcell_workspace::Folder;

use super::{DepsError, Scene, place_files, policy_for, printed};
use crate::plan::{Ahead, Plan};

/// Time limit for compiling; to avoid the wait, omit `--deps` or cancel.
const COMPILE_TIMEOUT: Duration = Duration::from_secs(60 * 60);

/// Mounts the result for runs, if their disk quota is large enough.
pub fn show(place: &Path, settings: &mut RunSettings) {
    let disk = settings.limits.disk.unwrap_or(Limits::for_tests().disk);
    if let Some(bind) = builds::bind(place, &Path::new(HOME).join(TARGET), disk) {
        settings.binds.insert(0, bind);
    }
}

/// Compiles the packages of a plan and keeps the result.
///
/// # Errors
/// A sentence that says why nothing was kept.
pub async fn compile(
    engine: &Engine,
    scene: &Scene<'_>,
    (plan, ahead): (&Plan, &Ahead),
    installed: &Path,
    place: &Path,
) -> Result<(), String> {
    let folder = place_files(plan.files.iter().chain(&ahead.files)).map_err(|e| e.to_string())?;
    let mut settings = settings(scene);
    super::show(plan, Path::new(""), installed, &mut settings);
    let argv = AHEAD.iter().map(std::ffi::OsString::from).collect();
    let prepared = policy_for(scene, argv, folder.path(), settings).map_err(|e| match e {
        DepsError::Refused(outcome) => reason(&outcome),
        DepsError::Wrong(report) => report.message,
    })?;
    let running = engine.spawn(&prepared.policy).await.map_err(|refusal| refusal.message)?;
    let Finished { outcome, home, changed } = running.finish().await;
    // An incomplete result, or decisions of build scripts under too tight limits, must not be reused.
    if !outcome.success() {
        let why = if outcome.cause == Cause::Exited {
            "not all of it compiles".to_owned()
        } else {
            reason(&outcome)
        };
        let why = format!("{why}: {}", printed(&outcome));
        if !matches!(outcome.cause, Cause::Cancelled | Cause::Internal | Cause::Refused) {
            builds::remember_in_vain(place, &why);
        }
        return Err(why);
    }
    let most = prepared.policy.job.limits.disk;
    let (Some(home), Some(mut changed)) = (home, changed) else {
        return Err("what was compiled cannot be opened any more".to_owned());
    };
    changed.settle().await.map_err(|e| e.to_string())?;
    let unopened = |e: CollectError| format!("{e}: {}", printed(&outcome));
    let target = home.open_folder(Path::new(TARGET)).map_err(unopened)?;
    builds::keep(&Folder::from_fd(target), &|path| ahead.keeps(path), most, builds::OLDEST_MTIME, place)
        .map_err(|e| e.to_string())
}

/// RunSettings with the run's limits, if any were given.
pub fn settings(scene: &Scene<'_>) -> RunSettings {
    let env = environment().into_iter().map(|(name, value)| EnvSetting::Set(name, value));
    let mut settings =
        RunSettings { env: env.collect(), limits: scene.settings.limits.clone(), ..RunSettings::default() };
    settings.limits.timeout.get_or_insert(COMPILE_TIMEOUT);
    settings
}

fn reason(outcome: &Outcome) -> String {
    outcome.reason.clone().unwrap_or_default()
}
