//! Restricted hosts, imitated inside the arena: a missing feature is refused or reported by its name, and the
//! remaining defences hold.

use std::time::Duration;

use hotcell_sandbox::outcome::LayerState;
use hotcell_sandbox::{Bytes, Cause, Confinement, Layer, Outcome, Policy};

use super::{Missed, Place, Said, check, good, run};

/// Every Landlock version that this project knows, and two that no kernel has yet.
const LANDLOCK: std::ops::RangeInclusive<u32> = 0..=9;

/// Outcome of a run on such a host. A host that cannot be imitated here ends the test with the reason.
macro_rules! on_host {
    ($place:expr, $around:expr, $policy:expr, $without:expr) => {
        match $place.outcome_of_other($around, $policy, $without) {
            Ok(outcome) => outcome,
            Err(Missed::Precondition(why)) => return Ok(Said::Skipped(why)),
            Err(Missed::Failed(why)) => return Err(format!("{:?}: {why}", $around)),
        }
    };
}

fn plain(mut policy: Policy) -> Policy {
    policy.shape.confinement = Confinement::LandlockOnly;
    policy
}

/// Checks that nothing ran, and that the reason names the layer and has further details.
fn refused_for(outcome: &Outcome, layer: Layer, word: &str) -> Result<(), String> {
    let reason = outcome.reason.clone().unwrap_or_default();
    check(outcome.cause == Cause::Refused && outcome.stdout.bytes == 0, || {
        format!("not refused: {:?} {reason} {:?}", outcome.cause, outcome.stdout)
    })?;
    let state = outcome.layers.states.get(&layer);
    check(matches!(state, Some(LayerState::Unavailable(_))), || format!("{layer} is {state:?}: {reason}"))?;
    check(reason.contains(word), || format!("the reason does not say {word:?}: {reason}"))
}

/// Checks that the weaker confinement, which a caller may request, runs and reports its missing layers.
fn weaker_runs(outcome: &Outcome) -> Result<(), String> {
    check(outcome.success(), || {
        format!("without namespaces: {:?} {:?} {:?}", outcome.cause, outcome.reason, outcome.stderr)
    })?;
    for layer in [Layer::UserNs, Layer::MountNs, Layer::PidNs, Layer::NetNs] {
        check(!outcome.layers.is_on(layer), || format!("{layer} is said to be on"))?;
    }
    check(outcome.layers.is_on(Layer::Landlock) && outcome.layers.is_on(Layer::Seccomp), || {
        format!("{:?}", outcome.layers)
    })
}

pub(crate) fn no_user_namespaces(place: &Place<'_>) -> Result<Said, String> {
    let look = || place.attack(&["read_denied", "secret={secret}", "ro={ro}"]);
    for (kind, word) in [("no_user_namespaces", "namespaces"), ("forbidden_user_namespaces", "namespaces")] {
        let around = ["poor", &format!("kind={kind}")];
        if kind == "forbidden_user_namespaces" && nix::unistd::geteuid().is_root() {
            // Root needs the call itself, not the permission; row 140 covers its error.
            continue;
        }
        let outcome = on_host!(place, &around, &look(), &[]);
        refused_for(&outcome, Layer::UserNs, word)?;
        weaker_runs(&on_host!(place, &around, &plain(look()), &[]))?;
    }
    good("refused with the layer's name; nothing weaker was chosen in its place")
}

pub(crate) fn landlock_versions(place: &Place<'_>) -> Result<Said, String> {
    let (outcome, _) = run(&Policy::new("/bin/true"))?;
    let real = outcome.layers.landlock_abi;
    // Landlock is the only protection of the file here, so the test shows whether it is in force.
    let look = || place.attack(&["read_denied", "secret={secret}", "ro={ro}"]);
    let without = [Layer::MountNs];
    let mut told = Vec::new();
    for abi in LANDLOCK {
        let around = ["poor", "kind=landlock", &format!("abi={abi}")];
        let outcome = on_host!(place, &around, &look(), &without);
        if abi == 0 {
            check(outcome.exit_code == Some(crate::run::THROUGH), || {
                format!("without Landlock: {:?} {:?} {:?}", outcome.cause, outcome.reason, outcome.stderr)
            })?;
            for answer in ["abi=0", "abi=-1"] {
                let around = ["poor", "kind=landlock", answer];
                let outcome = on_host!(place, &around, &look(), &[]);
                let state = outcome.layers.states.get(&Layer::Landlock);
                check(outcome.success(), || format!("{answer}: {:?} {:?}", outcome.cause, outcome.reason))?;
                check(matches!(state, Some(LayerState::Unavailable(_))), || format!("{answer}: {state:?}"))?;
                check(outcome.layers.landlock_abi == 0, || {
                    format!("{answer}: {}", outcome.layers.landlock_abi)
                })?;
                let strict = look().require(Layer::Landlock);
                refused_for(&on_host!(place, &around, &strict, &[]), Layer::Landlock, "landlock")?;
            }
            told.push("0 told".to_owned());
        } else if outcome.cause == Cause::Refused {
            check(abi > real, || format!("version {abi} of {real}: {:?}", outcome.reason))?;
            refused_for(&outcome, Layer::Landlock, "andlock")?;
            told.push(format!("{abi} refused"));
        } else {
            check(outcome.success() && outcome.layers.is_on(Layer::Landlock), || {
                format!("version {abi}: {:?} {:?} {:?}", outcome.cause, outcome.reason, outcome.stderr)
            })?;
            let used = outcome.layers.landlock_abi;
            check(used == abi.min(used.max(real)), || {
                format!("version {abi}: {used} is said to be in force")
            })?;
            told.push(format!("{abi} holds as {used}"));
        }
    }
    good(told.join(", "))
}

pub(crate) fn no_cgroups(place: &Place<'_>) -> Result<Said, String> {
    let around = ["poor", "kind=no_cgroups"];
    let bomb = |policy: Policy| policy.memory(Bytes::mib(64)).wall(Duration::from_secs(20));
    // A single process that allocates more than its data limit is refused memory; slower growth is found by
    // sampling.
    let outcome = on_host!(place, &around, &bomb(place.attack(&["memory_in_children", "mib=400"])), &[]);
    let state = outcome.layers.states.get(&Layer::Cgroup);
    check(matches!(state, Some(LayerState::Unavailable(why)) if !why.is_empty()), || format!("{state:?}"))?;
    check(outcome.layers.cgroup_version == 0, || format!("version {}", outcome.layers.cgroup_version))?;
    check(outcome.cause == Cause::MemoryLimit, || {
        format!("memory is not held: {:?} {:?}", outcome.cause, outcome.stderr)
    })?;
    let strict = Policy::new("/bin/true").require(Layer::Cgroup);
    refused_for(&on_host!(place, &around, &strict, &[]), Layer::Cgroup, "cgroup")?;
    let mut share = Policy::new("/bin/true");
    share.job.limits.cpus = Some(0.5);
    refused_for(&on_host!(place, &around, &share, &[]), Layer::Cgroup, "cgroup")?;
    good("told by its name, refused where it is required, and memory is held by sampling")
}

/// Without a cgroup and a user namespace, the kernel counts the program's processes together with the user's
/// others. The limit is higher by these and some slack, but still effective.
pub(crate) fn bomb_without_a_cgroup(place: &Place<'_>) -> Result<Said, String> {
    let mut policy = plain(place.attack(&["fork_bomb", "processes=250"]));
    policy.job.limits.processes = 32;
    let outcome = on_host!(place, &["poor", "kind=no_cgroups"], &policy, &[]);
    let said = String::from_utf8_lossy(&outcome.stderr.to_bytes()).trim().to_owned();
    check(outcome.success(), || format!("{:?} {:?} {said}", outcome.cause, outcome.reason))?;
    good(said)
}

pub(crate) fn container(place: &Place<'_>) -> Result<Said, String> {
    let look = || place.attack(&["read_denied", "secret={secret}", "ro={ro}"]);
    let covered = on_host!(place, &["poor", "kind=covered_proc"], &look(), &[]);
    refused_for(&covered, Layer::PidNs, "/proc")?;
    let outcome = on_host!(place, &["poor", "kind=container"], &look(), &[]);
    let layer =
        if outcome.layers.states.contains_key(&Layer::MountNs) { Layer::MountNs } else { Layer::UserNs };
    refused_for(&outcome, layer, "clone3").or_else(|_| refused_for(&outcome, layer, "namespaces"))?;
    let weaker = on_host!(place, &["poor", "kind=container"], &plain(look()), &[]);
    weaker_runs(&weaker)?;
    good("refused with what the container lacks; the weaker confinement runs")
}

pub(crate) fn no_notifications(place: &Place<'_>) -> Result<Said, String> {
    let ask = || place.attack(&["bpf"]);
    let rich = on_host!(place, &["poor", "kind=nothing"], &ask(), &[]);
    check(rich.layers.notifications == LayerState::On, || format!("{:?}", rich.layers.notifications))?;
    check(rich.success() && rich.denials.iter().any(|d| d.operation == "bpf"), || {
        format!("the denial is not told here: {:?} {:?}", rich.cause, rich.denials)
    })?;
    // A kernel without notifications, or an outer process that holds the only listener: refused calls are
    // still refused, and the outcome says that they are not reported.
    for kind in ["no_notifications", "listener_taken"] {
        let outcome = on_host!(place, &["poor", &format!("kind={kind}")], &ask(), &[]);
        check(outcome.success(), || {
            format!("{kind}: {:?} {:?} {:?}", outcome.cause, outcome.reason, outcome.stderr)
        })?;
        let state = &outcome.layers.notifications;
        check(matches!(state, LayerState::Unavailable(why) if !why.is_empty()), || {
            format!("{kind}: {state:?}")
        })?;
        check(outcome.denials.is_empty() && !outcome.denials_complete, || format!("{:?}", outcome.denials))?;
        check(outcome.layers.is_on(Layer::Seccomp), || format!("{kind}: {:?}", outcome.layers))?;
    }
    good("refused calls stay refused, and the outcome says that they are not told")
}
