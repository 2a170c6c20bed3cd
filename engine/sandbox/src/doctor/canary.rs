//! Runs canaries in throw-away sandboxes and collects their answers.
//!
//! All judgement is in [`super::judge`]. The script needs only a shell and `ls`, `mknod` and `sleep`. Where a
//! tool is missing, the question stays open, which does not count in a layer's favour.

use std::collections::{BTreeMap, BTreeSet};
use std::io::Write;
use std::net::TcpListener;
use std::os::unix::fs::PermissionsExt;
use std::path::Path;
use std::sync::OnceLock;
use std::time::{Duration, Instant};

use tokio::task::JoinHandle;

use super::EXAMINE_TIMEOUT;
use super::judge::{Answers, Findings, Full, Limited};
use crate::advice::facts::{self, Facts};
use crate::advice::reasons::{SEE_MOUNT_NS, SEE_PID_NS};
use crate::engine::Engine;
use crate::ids::Mapping;
use crate::layer::Layer;
use crate::outcome::{Cause, Evidence, LayerState, Limit, Outcome};
use crate::policy::{Confinement, Job, Limits, Policy, Shape, danger};
use crate::refusal::Refusal;
use crate::units::Bytes;

/// Limit of wall-clock time for one canary.
const CANARY_TIMEOUT: Duration = Duration::from_secs(2);
/// Maximum time for a canary with its overhead: its own limit, and a launcher that has to be started.
const CANARY_TOTAL_TIMEOUT: Duration = Duration::from_millis(2_500);
/// Maximum time to wait for finished sandboxes.
const SETTLE_TIMEOUT: Duration = Duration::from_millis(500);
/// Script that runs in a sandbox. It prints files as `== name` and their lines, attempts as `? name yes` or
/// `no`.
const SCRIPT: &str = include_str!("canary.sh");
/// Memory limit of the canary that exceeds it, by doubling 16 bytes 22 times.
const CANARY_MEMORY_LIMIT: Bytes = Bytes::mib(16);
const GREEDY: &str = "x=0123456789abcdef
    for i in 1 2 3 4 5 6 7 8 9 10 11 12 13 14 15 16 17 18 19 20 21 22; do x=$x$x; done
    echo survived";
/// Process limit of the canary that exceeds it.
const CANARY_PROCESS_LIMIT: u32 = 4;
const FERTILE: &str = "for i in 1 2 3 4 5 6; do sleep 1 & done; echo survived";
/// Time limit for canaries that test a limit: they end at once when stopped by it, but some shells keep
/// trying for longer.
const LIMIT_CANARY_TIMEOUT: Duration = Duration::from_millis(400);

/// A refusal by hotcell itself; begins with [`crate::advice::reasons::NOT_TRIED`].
const OVER: &str = "not tried: no sandbox answered in time";

/// The result for one profile.
pub struct ProfileTrial {
    /// Name of the profile.
    pub name: String,
    /// Layers that the profile requires.
    pub require: BTreeSet<Layer>,
    /// Whether a program ran in it; if not, the layer that was refused and the reason.
    pub ran: Result<(), (Option<Layer>, String)>,
}

/// Tries all layers and profiles.
pub async fn try_all(
    engine: &Engine,
    profiles: &[(String, Shape)],
    facts: &Facts,
) -> (Findings, Vec<ProfileTrial>) {
    let trial = Trial {
        engine: engine.clone(),
        fallback: OnceLock::new(),
        until: Instant::now() + EXAMINE_TIMEOUT - SETTLE_TIMEOUT,
        traps: Traps::set(),
    };
    let host = engine.host();
    let mut findings = Findings {
        outside: namespaces_of_this_process(),
        supplementary_groups: facts.supplementary_groups,
        landlock_abi: host.landlock.clone().unwrap_or(0),
        silent: host.notifications.clone().err(),
        missing: [
            (Layer::Landlock, host.landlock.as_ref().err()),
            (Layer::Cgroup, host.cgroup.as_ref().err()),
            (Layer::TimeNs, host.time_ns.as_ref().err()),
        ]
        .into_iter()
        .filter_map(|(layer, why)| Some((layer, why?.clone())))
        .collect(),
        ..Findings::default()
    };
    let form = trial.full(&facts.ceilings, &mut findings).await;
    if let Some(form) = form {
        trial.the_rest(&form, &mut findings).await;
    }
    let waiting: Vec<_> = profiles
        .iter()
        .map(|(name, shape)| (name, shape, tokio::spawn(trial.attempt(profile_policy(shape)))))
        .collect();
    let mut trials = Vec::new();
    for (name, shape, attempt) in waiting {
        let ran = match joined(attempt).await {
            Attempt::Ran(_) | Attempt::NoShell(_) => Ok(()),
            Attempt::Refused { layer, message } => {
                // A set-up that fails early may end before its report is read.
                let namespaces = shape.confinement == Confinement::Namespaces;
                Err((layer.or_else(|| findings.culprit().filter(|_| namespaces)), message))
            }
        };
        trials.push(ProfileTrial { name: name.clone(), require: shape.require.clone(), ran });
    }
    for engine in [Some(engine), trial.fallback.get()].into_iter().flatten() {
        engine.settle(SETTLE_TIMEOUT / 2).await;
    }
    (findings, trials)
}

/// The most complete form of sandbox that can be made here.
#[derive(Clone, Debug, Default)]
struct Form {
    confinement: Confinement,
    without: BTreeSet<Layer>,
}

impl Form {
    fn without(&self, layers: &[Layer]) -> Self {
        Self { without: self.without.iter().chain(layers).copied().collect(), ..self.clone() }
    }

    /// Whether sandboxes of this form have a file system tree of their own.
    fn rooted(&self) -> bool {
        self.confinement == Confinement::Namespaces && !self.without.contains(&Layer::MountNs)
    }
}

struct Trial {
    engine: Engine,
    /// A second engine for sandboxes without namespaces: within one engine, starting a launcher of the other
    /// kind would end the first launcher and everything started by it.
    fallback: OnceLock<Engine>,
    until: Instant,
    traps: Traps,
}

/// The next attempt after a refusal.
#[derive(Debug, PartialEq, Eq)]
enum Next {
    /// A sandbox without these layers, each with the reason.
    Without(Vec<(Layer, String)>),
    /// A sandbox without any namespace.
    Fallback,
    /// No form is left.
    Nothing,
}

/// Decides how to continue after a sandbox of this form was refused. Every answer has fewer layers than the
/// form.
fn next(form: &Form, layer: Option<Layer>, message: &str, ordinary: bool, ceilings: &[Layer]) -> Next {
    let there = |layer: &Layer| !form.without.contains(layer);
    let layer = layer.filter(there);
    if form.confinement == Confinement::LandlockOnly {
        return layer.map_or(Next::Nothing, |layer| Next::Without(vec![(layer, message.to_owned())]));
    }
    // The kernel does not tell which kind of namespace exceeds its limit.
    let none: Vec<_> = ceilings.iter().filter(|l| **l != Layer::UserNs && there(l)).collect();
    if !none.is_empty() && layer.is_none_or(|layer| facts::kind(layer).is_some()) {
        let why = |l: Layer| {
            format!("none may be made here: user.max_{}_namespaces is 0", facts::kind(l).unwrap_or_default())
        };
        return Next::Without(none.into_iter().map(|layer| (*layer, why(*layer))).collect());
    }
    match layer {
        // Without a user namespace, an ordinary user cannot make other namespaces.
        Some(Layer::UserNs) if ordinary => Next::Fallback,
        Some(Layer::PidNs) if there(&Layer::MountNs) => {
            Next::Without(vec![(Layer::PidNs, message.to_owned()), (Layer::MountNs, SEE_PID_NS.to_owned())])
        }
        Some(Layer::MountNs) if there(&Layer::PidNs) => {
            Next::Without(vec![(Layer::MountNs, message.to_owned()), (Layer::PidNs, SEE_MOUNT_NS.to_owned())])
        }
        Some(layer) => Next::Without(vec![(layer, message.to_owned())]),
        None => Next::Fallback,
    }
}

impl Trial {
    /// Makes a sandbox with all layers; where the kernel refuses a layer, a sandbox without it, so that the
    /// others are still tested. `None` when no sandbox can be made.
    async fn full(&self, ceilings: &[Layer], findings: &mut Findings) -> Option<Form> {
        let ordinary = self.engine.host().mapping != Mapping::Privileged;
        let mut form = Form::default();
        loop {
            let mut attempt = self.attempt(self.canaries(&form)).await;
            if let Attempt::Refused { layer: None, .. } = attempt {
                // No layer was refused: try once more, in case the failure was temporary.
                attempt = self.attempt(self.canaries(&form)).await;
            }
            findings.rooted = form.rooted();
            let (layer, message) = match attempt {
                Attempt::Ran(outcome) => {
                    self.traps.look(findings);
                    findings.cgroup_version = outcome.layers.cgroup_version;
                    findings.landlock_abi = outcome.layers.landlock_abi;
                    findings.denied.clone_from(&outcome.denials);
                    findings.full = Full::Ran(Answers::parse(&printed(&outcome)));
                    return Some(form);
                }
                Attempt::NoShell(message) => {
                    findings.full = Full::NoShell(message);
                    return None;
                }
                Attempt::Refused { layer, message } => (layer, message),
            };
            match next(&form, layer, &message, ordinary, ceilings) {
                Next::Without(layers) => {
                    form.without.extend(layers.iter().map(|(layer, _)| *layer));
                    findings.refused.extend(layers);
                }
                Next::Fallback => {
                    findings.no_namespaces = Some(message.clone());
                    if layer == Some(Layer::UserNs) {
                        findings.refused.entry(Layer::UserNs).or_insert(message);
                    }
                    form = Form { confinement: Confinement::LandlockOnly, without: BTreeSet::new() };
                }
                Next::Nothing => {
                    findings.full = Full::None(message);
                    return None;
                }
            }
        }
    }

    /// Runs the same canaries with fewer layers, and the canaries for limits.
    async fn the_rest(&self, form: &Form, findings: &mut Findings) {
        let landlock = findings.landlock_abi > 0;
        let few = form.without(&[Layer::Landlock]);
        let fewer = form.without(&[Layer::Landlock, Layer::Seccomp]);
        let start = |form: &Form| tokio::spawn(self.attempt(self.canaries(form)));
        let without_landlock = landlock.then(|| start(&few));
        // Not on the host's own file system tree.
        let without_both = findings.rooted.then(|| start(&fewer));
        let on = findings.cgroup_version > 0;
        let limits = |script, memory, processes| {
            // The kernel's limit covers memory and scratch together: with so little scratch it is reached
            // before the supervisor notices that the memory limit is exceeded.
            let limits =
                Limits { memory, processes, wall: LIMIT_CANARY_TIMEOUT, disk: Bytes::kib(4), ..small() };
            shell(script, form).limits(limits)
        };
        let memory = limits(GREEDY, CANARY_MEMORY_LIMIT, 16);
        let processes = limits(FERTILE, Bytes::mib(64), CANARY_PROCESS_LIMIT);
        let tried = [(&memory, Limit::Memory), (&processes, Limit::Processes)]
            .map(|(policy, limit)| on.then(|| (tokio::spawn(self.attempt(policy.clone())), policy, limit)));

        if let Some(attempt) = without_landlock
            && let Attempt::Ran(outcome) = joined(attempt).await
        {
            findings.denied.extend(outcome.denials.iter().cloned());
            findings.without_landlock = Some(Answers::parse(&printed(&outcome)));
        }
        if let Some(attempt) = without_both
            && let Attempt::Ran(outcome) = joined(attempt).await
        {
            findings.without_both = Some(Answers::parse(&printed(&outcome)));
        }
        let [memory, processes] = tried;
        findings.memory = self.limited(memory).await;
        findings.processes = self.limited(processes).await;
    }

    /// The result of a canary for a limit; tried again with a longer time limit if the first attempt gave no
    /// answer.
    async fn limited(&self, tried: Option<(JoinHandle<Attempt>, &Policy, Limit)>) -> Option<Limited> {
        let (first, policy, limit) = tried?;
        match limited(&joined(first).await, limit) {
            Limited::Open(_) => {
                Some(limited(&self.attempt(policy.clone().wall(CANARY_TIMEOUT)).await, limit))
            }
            answer => Some(answer),
        }
    }

    fn canaries(&self, form: &Form) -> Policy {
        shell(SCRIPT, form)
            .limits(small())
            .env("ROOTED", if form.rooted() { "yes" } else { "" })
            .env("NAME", &self.traps.name)
            .env("PORT", self.traps.port().map(|port| port.to_string()).unwrap_or_default())
    }

    /// Runs a policy within its time limit. When that is over, the run goes on in the background: if a
    /// request to the launcher were abandoned halfway, its answer would go to the next request.
    fn attempt(&self, policy: Policy) -> impl Future<Output = Attempt> + Send + 'static {
        let engine = match policy.shape.confinement {
            Confinement::Namespaces => &self.engine,
            Confinement::LandlockOnly => self.fallback.get_or_init(Engine::new),
        };
        let (engine, until) = (engine.clone(), self.until);
        async move {
            let patience = CANARY_TOTAL_TIMEOUT.min(until.saturating_duration_since(Instant::now()));
            if patience.is_zero() {
                return Attempt::refused(OVER.to_owned());
            }
            let run = tokio::spawn(async move {
                match engine.spawn(&policy).await {
                    Ok(running) => Ok(running.wait().await),
                    Err(refusal) => Err(refusal),
                }
            });
            match tokio::time::timeout(patience, run).await {
                Ok(Ok(Ok(outcome))) => Attempt::of(outcome),
                Ok(Ok(Err(Refusal { layer, message, .. }))) => Attempt::Refused { layer, message },
                Ok(Err(e)) => Attempt::refused(format!("the canary failed: {e}")),
                Err(_) => Attempt::refused(OVER.to_owned()),
            }
        }
    }
}

/// The result of one throw-away sandbox.
enum Attempt {
    /// A program ran in it.
    Ran(Box<Outcome>),
    /// The sandbox was made, but has no shell.
    NoShell(String),
    /// The sandbox could not be made.
    Refused { layer: Option<Layer>, message: String },
}

impl Attempt {
    fn of(outcome: Outcome) -> Self {
        let message = outcome.reason.clone().unwrap_or_default();
        match outcome.cause {
            Cause::NotFound | Cause::NotExecutable => Self::NoShell(message),
            Cause::Refused | Cause::Internal => {
                let why = LayerState::Unavailable(message.clone());
                let layer = outcome.layers.states.iter().find(|(_, state)| **state == why).map(|(l, _)| *l);
                Self::Refused { layer, message }
            }
            _ => Self::Ran(Box::new(outcome)),
        }
    }
    fn refused(message: String) -> Self {
        Self::Refused { layer: None, message }
    }
}

async fn joined(attempt: JoinHandle<Attempt>) -> Attempt {
    attempt.await.unwrap_or_else(|e| Attempt::refused(format!("the canary failed: {e}")))
}

fn printed(outcome: &Outcome) -> String {
    String::from_utf8_lossy(&outcome.stdout.to_bytes()).into_owned()
}

/// Judges a canary for a limit. The kernel's count decides; the canary's output only shows that nothing
/// stopped it.
fn limited(attempt: &Attempt, limit: Limit) -> Limited {
    match attempt {
        Attempt::Ran(outcome) => {
            let hit = outcome.limits_hit.iter().find(|hit| hit.limit == limit);
            match hit.map(|hit| hit.evidence) {
                Some(Evidence::Kernel) => Limited::Held,
                Some(Evidence::Sampled) => Limited::Open("the supervisor was faster than the kernel".into()),
                None if printed(outcome).contains("survived") => Limited::Passed,
                None => Limited::Open("the canary did not get as far as its limit".into()),
            }
        }
        Attempt::NoShell(message) | Attempt::Refused { message, .. } => Limited::Open(message.clone()),
    }
}

/// Limits that suffice for a canary and fit a small host.
fn small() -> Limits {
    Limits {
        memory: Bytes::mib(64),
        wall: CANARY_TIMEOUT,
        cpu_time: Some(CANARY_TIMEOUT),
        processes: 16,
        disk: Bytes::mib(4),
        files: 256,
        capture: Bytes::kib(256),
        output: Bytes::mib(1),
        cpus: None,
        open_files: None,
    }
}

fn shell(script: &str, form: &Form) -> Policy {
    let mut policy = Policy::new("/bin/sh").args(["-c", script]);
    policy.shape.confinement = form.confinement;
    for layer in &form.without {
        policy = policy.without_layer(*layer, danger::WeakensTheSandbox);
    }
    policy
}

/// The policy to test a profile: the profile's own ceilings, except for the time.
fn profile_policy(shape: &Shape) -> Policy {
    let limits = Limits { wall: CANARY_TIMEOUT, ..shape.ceilings.clone() };
    let argv = ["/bin/sh", "-c", ":"].map(Into::into).into();
    Policy { shape: shape.clone(), job: Job { argv, limits, ..Job::default() } }
}

/// The ids of this process's namespaces, by kind.
fn namespaces_of_this_process() -> BTreeMap<String, String> {
    let id = |kind: &str| std::fs::read_link(format!("/proc/self/ns/{kind}")).ok();
    facts::KINDS
        .into_iter()
        .filter_map(|(_, kind)| Some((kind.to_owned(), id(kind)?.to_string_lossy().into_owned())))
        .collect()
}

/// Targets on the host for a canary to find.
struct Traps {
    /// A file in the host's `/tmp`, readable by all users.
    file: Option<tempfile::NamedTempFile>,
    /// Name of that file; canaries write files whose names begin with it.
    name: String,
    /// A listener on the host's loopback.
    listener: Option<TcpListener>,
}

impl Traps {
    fn set() -> Self {
        let file = tempfile::Builder::new().prefix("hotcell-doctor-").tempfile_in("/tmp").ok();
        let file = file.and_then(|mut file| {
            file.write_all(b"a canary must not see this\n").ok()?;
            file.as_file().set_permissions(PermissionsExt::from_mode(0o644)).ok()?;
            Some(file)
        });
        let name = file.as_ref().and_then(|f| f.path().file_name()).map(|n| n.to_string_lossy().into_owned());
        let listener = TcpListener::bind(("127.0.0.1", 0)).ok();
        Self {
            name: name.unwrap_or_else(|| format!("hotcell-doctor-{}", std::process::id())),
            file,
            listener: listener.filter(|l| l.set_nonblocking(true).is_ok()),
        }
    }

    fn port(&self) -> Option<u16> {
        Some(self.listener.as_ref()?.local_addr().ok()?.port())
    }

    /// Records whether a canary reached any of them.
    fn look(&self, findings: &mut Findings) {
        findings.marked = self.file.is_some();
        findings.leaked = Path::new("/tmp").join(format!("{}.in", self.name)).exists();
        findings.reached = self.listener.as_ref().map(|l| l.accept().is_ok());
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn refused_layer_decides_next_canary() {
        use Layer::{Landlock, MountNs, NetNs, PidNs, TimeNs, UserNs};
        let form =
            |confinement, without: &[Layer]| Form { confinement, without: without.iter().copied().collect() };
        let all = || form(Confinement::Namespaces, &[]);
        let few = || form(Confinement::LandlockOnly, &[]);
        let without = |layers: &[Layer]| Some(layers.to_vec());
        for (form, layer, ordinary, ceilings, want) in [
            (all(), Some(UserNs), true, &[][..], None),
            (all(), Some(UserNs), false, &[], without(&[UserNs])),
            (all(), Some(UserNs), true, &[UserNs], None),
            (all(), Some(UserNs), true, &[TimeNs, NetNs], without(&[TimeNs, NetNs])),
            (all(), None, true, &[TimeNs], without(&[TimeNs])),
            (form(Confinement::Namespaces, &[TimeNs]), Some(UserNs), true, &[TimeNs], None),
            (all(), Some(Landlock), true, &[TimeNs], without(&[Landlock])),
            (all(), Some(PidNs), true, &[], without(&[PidNs, MountNs])),
            (all(), Some(MountNs), false, &[], without(&[MountNs, PidNs])),
            (all(), None, true, &[], None),
            (form(Confinement::Namespaces, &[Landlock]), Some(Landlock), false, &[], None),
            (few(), Some(Landlock), true, &[TimeNs], without(&[Landlock])),
        ] {
            let next = next(&form, layer, "no", ordinary, ceilings);
            let got = match &next {
                Next::Without(layers) => Some(layers.iter().map(|(layer, _)| *layer).collect()),
                _ => None,
            };
            assert_eq!(got, want, "{form:?} {layer:?}");
            if want.is_none() {
                assert_eq!(next, Next::Fallback, "{form:?} {layer:?}");
            }
        }
        assert_eq!(next(&few(), None, "no", true, &[]), Next::Nothing);
        let tried = form(Confinement::LandlockOnly, &[Landlock]);
        assert_eq!(next(&tried, Some(Landlock), "no", true, &[]), Next::Nothing);
    }
}
