//! The interpreter of a session, and the policy that it runs under.

use hotcell_config::SessionSettings;
use hotcell_review::gate::Gate;
use hotcell_sandbox::Bytes;
use hotcell_sandbox::policy::{Limits, Stdin};
use hotcell_state::report::{Code, ErrorReport};
use hotcell_verbs::ChangePolicy;
use hotcell_verbs::outputs::FOLDER;
use hotcell_verbs::request::{Prepared, RunRequest, RunTarget};

use super::Start;
use super::end::Stated;

/// Maximum output of a session in its life.
const MAX_OUTPUT: Bytes = Bytes::mib(512);

/// Finds the interpreter and makes the policy. Blocks.
pub(super) fn prepare(start: Start) -> Result<(Prepared, Gate, Stated), ErrorReport> {
    let Start { language, configuration, settings, around, .. } = start;
    let SessionSettings { life, memory, .. } = configuration.user.sessions;
    let limits = Limits { wall: life, cpu_time: Some(life), output: MAX_OUTPUT, ..Limits::default() };
    let asked_memory = settings.limits.memory;
    let profile = settings.profile.as_ref().map(|profile| profile.to_string_lossy().into_owned());
    let image = settings.image.clone();
    let request = RunRequest {
        what: RunTarget::Program(language.idle()),
        workspace: None,
        kept: None,
        settings,
        limits: limits.clone(),
        stdin: Stdin::Socket,
        keep: ChangePolicy::default(),
    };
    let mut merged = request.merge(&configuration)?;
    let gate = merged.gate.clone();
    // Times of the configuration are those of a run, which is a cell here.
    let own = &mut merged.policy.job.limits;
    (own.wall, own.cpu_time, own.output, own.capture) =
        (limits.wall, limits.cpu_time, limits.output, Bytes(0));
    if let Some(memory) = memory.filter(|_| asked_memory.is_none()) {
        own.memory = memory;
    }
    let in_force = merged.in_force();
    let mut prepared = request.prepare(merged, around).map_err(|report| {
        let why = report.outcome.reason.unwrap_or_else(|| "it is not there".to_owned());
        ErrorReport::new(Code::Refused, format!("there is no session of {}: {why}", language.name()))
            .hint("install its interpreter, or take another language")
    })?;
    let job = &mut prepared.policy.job;
    job.argv = language.driven(&job.argv);
    job.folders.push(FOLDER.into());
    job.env.push(("MPLBACKEND".into(), "Agg".into()));
    prepared.before = None;
    let argv = job.argv.iter().map(|word| word.to_string_lossy().into_owned()).collect();
    let image_digest = prepared.image_digest();
    Ok((prepared, gate, Stated { argv, in_force, profile, image, image_digest }))
}
