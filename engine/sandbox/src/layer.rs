//! The layers of a sandbox, by name.

use std::fmt;
use std::str::FromStr;

use schemars::JsonSchema;
use serde::{Deserialize, Serialize};

pub use crate::likeness::likely;

/// One independent isolation layer around the program. The order is that of `outcome.layers`.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord, Hash, Serialize, Deserialize, JsonSchema)]
#[serde(rename_all = "snake_case")]
pub enum Layer {
    /// Own user ids; outside, the program has an unprivileged id. `user_namespaces(7)`
    UserNs,
    /// Own file system tree, entered by `pivot_root`. `mount_namespaces(7)`
    MountNs,
    /// Own process numbers; nothing outlives process 1. `pid_namespaces(7)`
    PidNs,
    /// Own network with nothing but a loopback. `network_namespaces(7)`
    NetNs,
    /// Own System V and POSIX message queues. `ipc_namespaces(7)`
    IpcNs,
    /// Own host name. `uts_namespaces(7)`
    UtsNs,
    /// Own view of the cgroup tree. `cgroup_namespaces(7)`
    CgroupNs,
    /// Own monotonic and boot clocks. `time_namespaces(7)`
    TimeNs,
    /// Access rules that the program cannot loosen. `landlock(7)`
    Landlock,
    /// The allow-list of system calls. `seccomp(2)`
    Seccomp,
    /// Kernel limits on memory, processes and CPU for the whole tree. `cgroups(7)`
    Cgroup,
    /// Per-process limits. `setrlimit(2)`
    Rlimits,
    /// No privilege from setuid or file capabilities. `PR_SET_NO_NEW_PRIVS`
    NoNewPrivs,
    /// All capability sets empty. `capabilities(7)`
    Capabilities,
}

impl Layer {
    /// Every layer, outermost first.
    pub const ALL: [Self; 14] = [
        Self::UserNs,
        Self::MountNs,
        Self::PidNs,
        Self::NetNs,
        Self::IpcNs,
        Self::UtsNs,
        Self::CgroupNs,
        Self::TimeNs,
        Self::Landlock,
        Self::Seccomp,
        Self::Cgroup,
        Self::Rlimits,
        Self::NoNewPrivs,
        Self::Capabilities,
    ];

    /// The name used in policies, outcomes and messages.
    #[must_use]
    pub const fn name(self) -> &'static str {
        match self {
            Self::UserNs => "user_ns",
            Self::MountNs => "mount_ns",
            Self::PidNs => "pid_ns",
            Self::NetNs => "net_ns",
            Self::IpcNs => "ipc_ns",
            Self::UtsNs => "uts_ns",
            Self::CgroupNs => "cgroup_ns",
            Self::TimeNs => "time_ns",
            Self::Landlock => "landlock",
            Self::Seccomp => "seccomp",
            Self::Cgroup => "cgroup",
            Self::Rlimits => "rlimits",
            Self::NoNewPrivs => "no_new_privs",
            Self::Capabilities => "capabilities",
        }
    }
}

impl fmt::Display for Layer {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(self.name())
    }
}

/// The question after a name that does not exist: the one that is meant, or else all that there are.
#[must_use]
pub fn named_or_all<'a>(near: Option<&str>, all: impl IntoIterator<Item = &'a str>) -> String {
    match near {
        Some(near) => format!("did you mean {near:?}?"),
        None => format!("there are {}", all.into_iter().collect::<Vec<_>>().join(", ")),
    }
}

/// A layer name that does not exist.
#[derive(Clone, Debug, PartialEq, Eq, thiserror::Error)]
#[error("unknown layer {name:?}; {}", named_or_all(*nearest, Layer::ALL.iter().map(|layer| layer.name())))]
pub struct UnknownLayer {
    name: String,
    nearest: Option<&'static str>,
}

impl FromStr for Layer {
    type Err = UnknownLayer;
    fn from_str(name: &str) -> Result<Self, Self::Err> {
        Self::ALL.into_iter().find(|l| l.name() == name).ok_or_else(|| UnknownLayer {
            name: name.to_owned(),
            nearest: likely(name, Self::ALL.iter().map(|l| l.name())),
        })
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn names_round_trip_and_mistakes_name_the_nearest() {
        for layer in Layer::ALL {
            assert_eq!(layer.name().parse::<Layer>().unwrap(), layer);
            assert_eq!(serde_json::to_value(layer).unwrap(), layer.name());
        }
        let error = "secomp".parse::<Layer>().unwrap_err().to_string();
        assert!(error.contains("did you mean \"seccomp\"?"), "{error}");
        let error = "foo".parse::<Layer>().unwrap_err().to_string();
        assert!(error.contains("there are user_ns, ") && !error.contains("did you mean"), "{error}");
    }
}
