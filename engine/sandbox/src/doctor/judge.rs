//! Canaries' answers -> state of every layer. Pure: all judgement, no system call.

mod answers;
mod checks;

use std::collections::{BTreeMap, BTreeSet};

pub use answers::Answers;
use checks::Check::{self, Broken, Holds, Open};
use checks::checks;

use super::{Availability, LayerReport};
use crate::advice::reasons::{DOES_NOT_HOLD, NO_SANDBOX, NOT_TRIED, SEE_MOUNT_NS, SEE_PID_NS, SEE_USER_NS};
use crate::advice::{facts, mend};
use crate::layer::Layer;
use crate::outcome::{Denial, LayerState};

/// Result of the sandbox with all layers.
#[derive(Clone, Debug)]
pub enum Full {
    /// The canaries in it answered.
    Ran(Answers),
    /// The sandbox was made and read back, but has no shell.
    NoShell(String),
    /// No sandbox could be made; with the reason.
    None(String),
}

impl Default for Full {
    fn default() -> Self {
        Self::None("nothing was tried".to_owned())
    }
}

/// Result of a canary that exceeds a limit.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum Limited {
    /// The kernel stopped it and counted the event.
    Held,
    /// The canary got more than the limit.
    Passed,
    /// No answer, with the reason.
    Open(String),
}

/// Everything that the canaries and the host showed.
#[derive(Clone, Debug, Default)]
pub struct Findings {
    /// The sandbox with all available layers.
    pub full: Full,
    /// Whether that sandbox has a file system tree of its own.
    pub rooted: bool,
    /// Layers that were refused during set-up, each with the refusal.
    pub refused: BTreeMap<Layer, String>,
    /// Reason why there are no namespaces at all.
    pub no_namespaces: Option<String>,
    /// Layers that this host does not offer.
    pub missing: BTreeMap<Layer, String>,
    /// Answers of the same canaries without Landlock.
    pub without_landlock: Option<Answers>,
    /// Answers of the same canaries without Landlock and seccomp.
    pub without_both: Option<Answers>,
    /// Denials that the filter reported.
    pub denied: Vec<Denial>,
    /// Ids of this process's own namespaces.
    pub outside: BTreeMap<String, String>,
    /// Landlock's version; 0 for none.
    pub landlock_abi: u32,
    /// Reason why the filter cannot report denials.
    pub silent: Option<String>,
    /// Version of the cgroup tree; 0 for none.
    pub cgroup_version: u32,
    /// Result of exceeding the memory limit; `None` if it was not tried.
    pub memory: Option<Limited>,
    /// Result of exceeding the process limit; `None` if it was not tried.
    pub processes: Option<Limited>,
    /// Whether a file was placed in the host's `/tmp` for the canaries to see.
    pub marked: bool,
    /// Whether a file that a canary wrote to its `/tmp` appeared in the host's.
    pub leaked: bool,
    /// Whether a canary reached a listener on the host's loopback; `None` if there was no listener.
    pub reached: Option<bool>,
    /// Number of supplementary groups of this process.
    pub supplementary_groups: usize,
}

/// The report of every layer. The remedies are filled in elsewhere.
pub fn judge(findings: &Findings) -> BTreeMap<Layer, LayerReport> {
    Layer::ALL.into_iter().map(|layer| (layer, report(layer, findings))).collect()
}

fn report(layer: Layer, findings: &Findings) -> LayerReport {
    let (state, answer) = state(layer, findings);
    let tried = match &findings.full {
        _ if findings.missing.contains_key(&layer) => tried_alone(layer).to_owned(),
        _ if findings.refused.contains_key(&layer) => "setting it up for a sandbox".to_owned(),
        Full::NoShell(why) => format!("setting it up and reading it back; {why}"),
        _ => tried(layer).to_owned(),
    };
    LayerReport { state, tried, answer, mend: None }
}

fn state(layer: Layer, findings: &Findings) -> (LayerState, String) {
    let unavailable = |why: String| (LayerState::Unavailable(why.clone()), why);
    if let Some(why) = findings.missing.get(&layer).or_else(|| findings.refused.get(&layer)) {
        return unavailable(why.clone());
    }
    if let (Some(_), Some(why)) = (facts::kind(layer), &findings.no_namespaces) {
        return unavailable(match layer {
            _ if why.starts_with(NOT_TRIED) => why.clone(),
            Layer::UserNs => format!("no sandbox with namespaces can be made: {why}"),
            _ => SEE_USER_NS.to_owned(),
        });
    }
    let answers = match &findings.full {
        Full::Ran(answers) => answers,
        Full::NoShell(_) => {
            return (LayerState::On, "set up and read back; no shell inside to try more".to_owned());
        }
        Full::None(why) => {
            let alone = match layer {
                Layer::Landlock => format!("; alone, the kernel offers version {}", findings.landlock_abi),
                Layer::Seccomp if findings.silent.is_none() => {
                    "; alone, the kernel offers notifications".to_owned()
                }
                Layer::Cgroup => "; alone, a group could be made and limited".to_owned(),
                _ => String::new(),
            };
            let why = match why.strip_prefix(NOT_TRIED) {
                Some(_) => why.clone(),
                None => format!("{NO_SANDBOX}: {why}"),
            };
            return (LayerState::Unavailable(why.clone()), why + &alone);
        }
    };
    sum(checks(layer, answers, findings))
}

/// A broken check breaks the layer; otherwise an open one leaves it open; otherwise the layer is on.
fn sum(checks: Vec<Check>) -> (LayerState, String) {
    let mut good = Vec::new();
    let (mut broken, mut open) = (None, None);
    for check in checks {
        match check {
            Holds(words) if words.is_empty() => {}
            Holds(words) => good.push(words),
            Broken(words) => drop(broken.get_or_insert(words)),
            Open(words) => drop(open.get_or_insert(words)),
        }
    }
    let bad = |head: &str, words: String| {
        let why = format!("{head}: {words}");
        (LayerState::Unavailable(why.clone()), why)
    };
    match (broken, open) {
        (Some(words), _) => bad(DOES_NOT_HOLD, words),
        (None, Some(words)) => bad(NOT_TRIED, words),
        (None, None) => (LayerState::On, good.join("; ")),
    }
}

/// Describes the attempts made for a layer.
const fn tried(layer: Layer) -> &'static str {
    match layer {
        Layer::UserNs => "the namespace's id inside and outside; the map of ids",
        Layer::MountNs => {
            "writes to /, /usr, /etc and /proc/sys with and without Landlock, writes to /tmp and the home folder; \
             a file of the host's /tmp; the flags of all mounts"
        }
        Layer::PidNs => "the namespace's id inside and outside; process 1; the processes in /proc",
        Layer::NetNs => {
            "the namespace's id inside and outside; devices and routes; a connection to a listener on the host's \
             loopback, where there is bash"
        }
        Layer::IpcNs => "the namespace's id inside and outside; the System V objects in /proc/sysvipc",
        Layer::UtsNs => "the namespace's id inside and outside; the host name",
        Layer::CgroupNs => "the namespace's id inside and outside; the own group in /proc/self/cgroup",
        Layer::TimeNs => "the namespace's id inside and outside",
        Layer::Landlock => {
            "what no other layer refuses: a write to /proc/self/comm and, from version 6, a signal to process 1; \
             the same in a second sandbox without Landlock"
        }
        Layer::Seccomp => {
            "a device node 0:0 in a sandbox without Landlock, where no other layer refuses it, and in one without \
             both; the filter's report; Seccomp in /proc/self/status"
        }
        Layer::Cgroup => "64 MiB of memory within a limit of 16 MiB; 7 processes within a limit of 4",
        Layer::Rlimits => "a fourth file within a limit of 3; raising a hard limit; /proc/self/limits",
        Layer::NoNewPrivs => "NoNewPrivs in /proc/self/status",
        Layer::Capabilities => "the capability sets in /proc/self/status; a file with mode 000",
    }
}

/// Describes the attempts made for a layer before any sandbox is made.
const fn tried_alone(layer: Layer) -> &'static str {
    match layer {
        Layer::Landlock => "the system call that tells the version",
        Layer::Cgroup => "making a group and limiting it",
        _ => "whether the kernel knows it",
    }
}

impl Findings {
    /// The missing layer because of which a sandbox with namespaces is refused.
    pub fn culprit(&self) -> Option<Layer> {
        self.refused
            .iter()
            .find(|(_, why)| *why != SEE_PID_NS && *why != SEE_MOUNT_NS)
            .map(|(layer, _)| *layer)
    }
}

/// Whether a profile is available: a program ran in it, and every layer that it requires held.
pub fn availability(
    require: &BTreeSet<Layer>,
    ran: Result<(), (Option<Layer>, String)>,
    layers: &BTreeMap<Layer, LayerReport>,
) -> Availability {
    let on = |layer| layers.get(&layer).is_some_and(|report| report.state == LayerState::On);
    let needs = |layer| Availability::Refused(format!("it needs {layer}, which cannot be had here"));
    match ran {
        Err((Some(layer), _)) if !on(layer) => needs(layer),
        Err((_, why)) => Availability::Refused(mend::without_advice(&why).to_owned()),
        Ok(()) => require.iter().find(|layer| !on(**layer)).map_or(Availability::Available, |l| needs(*l)),
    }
}

#[cfg(test)]
mod tests;
