//! One program in one sandbox under the operator's policy, for each door of the worker.

use std::path::{Path, PathBuf};
use std::sync::Arc;

use hotcell_config::network::NetworkSetting;
use hotcell_config::{Configuration, EnvSetting, RunSettings, SecretSettings};
use hotcell_report::RunReport;
use hotcell_sandbox::outcome::Cause;
use hotcell_sandbox::policy::{Limits, PROJECT, Stdin};
use hotcell_sandbox::{Bytes, Spawn};
use hotcell_toolchain::{Asks, Surroundings};
use hotcell_verbs::changes::{ChangePolicy, ViewReader};
use hotcell_verbs::execute::{Observer, execute};
use hotcell_verbs::in_force::InForce;
use hotcell_verbs::request::{RunRequest, RunTarget};
use tokio::sync::{OwnedSemaphorePermit, Semaphore};
use tokio_util::sync::CancellationToken;

use crate::error::FleetError;
use crate::room;

/// A program that is to be run.
#[derive(Clone, Debug)]
pub struct Program<'a> {
    /// Program and arguments.
    pub argv: &'a [String],
    /// Environment, after the operator's.
    pub env: &'a [(String, String)],
    /// Start folder below the root; may be empty.
    pub folder: &'a Path,
    /// Folder that the program sees as its project.
    pub root: &'a Path,
    /// Limits, not above the operator's.
    pub limits: Limits,
}

/// A program that has ended, or was not started.
#[derive(Debug)]
pub struct Ended {
    /// Report.
    pub report: RunReport,
    /// Digest of the image that it ran in.
    pub image_digest: Option<String>,
    /// Policy that was in force.
    pub in_force: InForce,
    /// Why its changes are not in the folder, where they were to be.
    pub unkept: Option<String>,
}

/// Runs programs under the operator's policy.
pub struct Executor {
    spawn: Arc<dyn Spawn>,
    configuration: Configuration,
    settings: RunSettings,
    limits: Limits,
    /// Memory of all programs at once, in units of [`room::UNIT`].
    memory: (Arc<Semaphore>, u32),
}

impl Executor {
    /// An executor whose policy is the operator's configuration with these settings, for programs with `memory` together.
    /// Networks and secrets of the configuration are for the operator's own runs: actions have neither.
    ///
    /// # Errors
    /// [`FleetError`] when the configuration is invalid, or one program may have more memory than all.
    pub fn new(
        spawn: Arc<dyn Spawn>,
        mut configuration: Configuration,
        settings: RunSettings,
        memory: Bytes,
    ) -> Result<Self, FleetError> {
        configuration.user.run.secrets = SecretSettings::default();
        configuration.environment.run.secrets = SecretSettings::default();
        let settings = RunSettings {
            network: Some(NetworkSetting::None),
            secrets: SecretSettings::default(),
            ..settings
        };
        let probe = request(&["true".to_owned()], None, settings.clone(), ChangePolicy::default());
        let merged = probe.merge(&configuration).map_err(|report| FleetError::request(report.to_string()))?;
        let limits = merged.policy.job.limits;
        if limits.memory > memory {
            return Err(FleetError::request(format!(
                "one action may have {} of memory, and all together {memory}: lower ‹memory›, or raise the whole",
                limits.memory
            )));
        }
        let whole = room::whole(memory);
        Ok(Self {
            spawn,
            configuration,
            settings,
            limits,
            memory: (Arc::new(Semaphore::new(whole as usize)), whole),
        })
    }

    /// Limits of the operator.
    #[must_use]
    pub const fn limits(&self) -> &Limits {
        &self.limits
    }

    /// Memory of the programs that run, and of all that may, in bytes.
    #[must_use]
    pub fn memory(&self) -> (u64, u64) {
        let (free, whole) = (self.memory.0.available_permits() as u64, u64::from(self.memory.1));
        ((whole - free.min(whole)) * room::UNIT, whole * room::UNIT)
    }

    /// Waits until a program with these limits fits beside those that run, in order of arrival.
    pub async fn room(&self, limits: &Limits) -> Option<OwnedSemaphorePermit> {
        let need = room::need(limits.memory).min(self.memory.1);
        self.memory.0.clone().acquire_many_owned(need).await.ok()
    }

    /// Runs a program in a sandbox. `keep` tells whether its changes go into the folder; `reader` sees them.
    ///
    /// # Errors
    /// [`FleetError`] when this machine fails before the sandbox is made.
    pub async fn run(
        &self,
        program: Program<'_>,
        keep: ChangePolicy,
        reader: Option<Arc<dyn ViewReader>>,
        observer: &mut dyn Observer,
        stop: &CancellationToken,
    ) -> Result<Ended, FleetError> {
        let Program { argv, env, folder, root, limits } = program;
        let env = env.iter().map(|(name, value)| EnvSetting::Set(name.into(), value.into()));
        let env = self.settings.env.iter().cloned().chain(env).collect();
        let settings = RunSettings { env, ..self.settings.clone() };
        let request = request(argv, Some(root.to_owned()), settings, keep);
        let mut merged =
            request.merge(&self.configuration).map_err(|report| FleetError::host(report.to_string()))?;
        // The result has all of the output, which its own limit bounds.
        merged.policy.job.limits = Limits { capture: Bytes(0), ..limits };
        let in_force = merged.in_force();
        let around =
            Surroundings { cwd: root.to_owned(), asks: Asks::Caller, ..Surroundings::of_this_process() };
        let prepared = tokio::task::spawn_blocking(move || request.prepare(merged, around)).await;
        let mut prepared = match prepared.map_err(|e| FleetError::host(e.to_string()))? {
            Ok(prepared) => prepared,
            Err(report) => {
                let report = without_host_paths(*report, argv);
                return Ok(Ended { report, image_digest: None, in_force, unkept: None });
            }
        };
        if !folder.as_os_str().is_empty() {
            prepared.policy.job.cwd = Some(Path::new(PROJECT).join(folder));
        }
        if let Some(reader) = reader {
            prepared.read_after(reader);
        }
        let stopped = async {
            stop.cancelled().await;
            None
        };
        let executed = execute(&*self.spawn, &mut prepared, observer, stopped).await;
        let committed = executed.report.commit.as_ref().and_then(|commit| commit.error.clone());
        let unkept = executed.changes_error.map(|error| error.to_string()).or(committed);
        let image_digest = prepared.image_digest();
        Ok(Ended { report: without_host_paths(executed.report, argv), image_digest, in_force, unkept })
    }
}

/// The report of an action whose program was not started, without paths of this machine: a farm's clients see it.
fn without_host_paths(mut report: RunReport, argv: &[String]) -> RunReport {
    if report.usage.wall_us.is_some() || report.scan.is_some() {
        return report;
    }
    let program = argv.first().map_or("", String::as_str);
    let reason = match report.cause {
        Cause::NotFound => format!("there is no program {program:?} on this worker"),
        Cause::NotExecutable => format!("{program:?} cannot be executed on this worker"),
        Cause::Refused | Cause::Internal => {
            "this worker cannot run it; its operator's log has the reason".to_owned()
        }
        _ => return report,
    };
    if let Some(why) = report.reason.replace(reason) {
        tracing::warn!(target: "hotcell_contents", "an action was not started: {why}");
    }
    report
}

fn request(
    argv: &[String],
    workspace: Option<PathBuf>,
    settings: RunSettings,
    keep: ChangePolicy,
) -> RunRequest {
    RunRequest {
        what: RunTarget::Program(argv.iter().map(Into::into).collect()),
        workspace,
        kept: None,
        settings,
        limits: Limits::default(),
        stdin: Stdin::Null,
        keep,
    }
}
