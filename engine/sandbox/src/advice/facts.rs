//! Facts about the host that affect the wording of a report, never a state.

use std::path::{Path, PathBuf};

use nix::errno::Errno;
use nix::sys::utsname::{self, UtsName};
use schemars::JsonSchema;
use serde::{Deserialize, Serialize};

use crate::ids::Mapping;
use crate::layer::Layer;
use crate::{own_program, sys};

/// Description of a host.
#[derive(Clone, Debug, Default, PartialEq, Eq, Serialize, Deserialize, JsonSchema)]
pub struct HostReport {
    /// The kernel's release, in the form of `uname -r`.
    pub kernel: String,
    /// The machine, in the form of `uname -m`.
    pub arch: String,
    /// The kind of container that this process appears to run in; `null` for none.
    pub container: Option<String>,
    /// User whose rights hotcell has: `root`, `root of a user namespace`, or `user N`.
    pub user: String,
}

/// The namespaces and the kernel's names for them.
pub const KINDS: [(Layer, &str); 8] = [
    (Layer::UserNs, "user"),
    (Layer::MountNs, "mnt"),
    (Layer::PidNs, "pid"),
    (Layer::NetNs, "net"),
    (Layer::IpcNs, "ipc"),
    (Layer::UtsNs, "uts"),
    (Layer::CgroupNs, "cgroup"),
    (Layer::TimeNs, "time"),
];

/// The kernel's name for a namespace; `None` for other layers.
pub fn kind(layer: Layer) -> Option<&'static str> {
    KINDS.into_iter().find(|(known, _)| *known == layer).map(|(_, kind)| kind)
}

/// Facts that the advice depends on.
#[derive(Clone, Debug, Default)]
pub struct Facts {
    /// The host's part of the report.
    pub report: HostReport,
    /// `kernel.apparmor_restrict_unprivileged_userns` is on.
    pub apparmor_restricts: bool,
    /// Debian's `kernel.unprivileged_userns_clone` is 0.
    pub clone_forbidden: bool,
    /// Kinds of namespaces that cannot be made at all: `user.max_KIND_namespaces` is 0.
    pub ceilings: Vec<Layer>,
    /// Error of Landlock's version call, if it failed.
    pub landlock: Option<Errno>,
    /// Active security modules, in the form that `lsm=` takes; empty if unknown.
    pub modules: String,
    /// Path of this program.
    pub program: PathBuf,
    /// Number of supplementary groups of this process.
    pub supplementary_groups: usize,
}

/// Collects facts about this host. Reads only `/proc` and `/sys`, which never wait for a network.
pub fn look(mapping: Mapping) -> Facts {
    let read = |path: &str| std::fs::read_to_string(path).ok();
    let says = |path: &str, value: &str| read(path).is_some_and(|text| text.trim() == value);
    let uname = utsname::uname().ok();
    let word = |text: Option<&std::ffi::OsStr>| text.unwrap_or_default().to_string_lossy().into_owned();
    let container = container(&Traces {
        variable: std::env::var("container").ok(),
        systemd: read("/run/systemd/container"),
        podman: read("/run/.containerenv"),
        docker: Path::new("/.dockerenv").exists(),
        kubernetes: std::env::var_os("KUBERNETES_SERVICE_HOST").is_some(),
        cgroup: read("/proc/1/cgroup").unwrap_or_default(),
        version: read("/proc/version").unwrap_or_default(),
    });
    Facts {
        report: HostReport {
            kernel: word(uname.as_ref().map(UtsName::release)),
            arch: word(uname.as_ref().map(UtsName::machine)),
            container,
            user: user(nix::unistd::geteuid().as_raw(), mapping),
        },
        apparmor_restricts: says("/proc/sys/kernel/apparmor_restrict_unprivileged_userns", "1"),
        clone_forbidden: says("/proc/sys/kernel/unprivileged_userns_clone", "0"),
        ceilings: KINDS
            .into_iter()
            .filter(|(_, kind)| says(&format!("/proc/sys/user/max_{kind}_namespaces"), "0"))
            .map(|(layer, _)| layer)
            .collect(),
        landlock: sys::landlock_abi().err().map(|e| Errno::from_raw(e.raw_os_error().unwrap_or(0))),
        modules: read("/sys/kernel/security/lsm").unwrap_or_default().trim().to_owned(),
        program: own_program::path().unwrap_or_else(|_| "/usr/bin/hotcell".into()),
        supplementary_groups: nix::unistd::getgroups()
            .map_or(0, |all| all.into_iter().filter(|g| *g != nix::unistd::getegid()).count()),
    }
}

fn user(uid: u32, mapping: Mapping) -> String {
    match (uid, mapping) {
        (0, Mapping::Privileged) => "root".to_owned(),
        (0, Mapping::OwnId { .. }) => "root of a user namespace, or root without capabilities".to_owned(),
        (uid, _) => format!("user {uid}"),
    }
}

/// Traces by which a container can be recognized.
#[derive(Debug, Default)]
struct Traces {
    /// The variable `container`.
    variable: Option<String>,
    /// `/run/systemd/container`.
    systemd: Option<String>,
    /// `/run/.containerenv`.
    podman: Option<String>,
    /// `/.dockerenv` exists.
    docker: bool,
    /// The variables of a Kubernetes pod are set.
    kubernetes: bool,
    /// `/proc/1/cgroup`.
    cgroup: String,
    /// `/proc/version`.
    version: String,
}

/// Maximum length of the name of a container kind that is reported.
const MAX_NAME_LEN: usize = 32;

/// Guesses the kind of container; used for wording only.
fn container(traces: &Traces) -> Option<String> {
    let named = [&traces.variable, &traces.systemd].into_iter().flatten().map(|name| name.trim());
    let plain = |name: &&str| {
        (1..=MAX_NAME_LEN).contains(&name.len())
            && name.bytes().all(|b| b.is_ascii_alphanumeric() || matches!(b, b'-' | b'_' | b'.'))
    };
    let in_cgroup = |word: &str| traces.cgroup.contains(word);
    let name = if traces.version.contains("gVisor") {
        "gvisor"
    } else if traces.kubernetes || in_cgroup("/kubepods") {
        "kubernetes"
    } else if let Some(name) = named.into_iter().find(plain) {
        name
    } else if traces.podman.is_some() || in_cgroup("/libpod-") {
        "podman"
    } else if traces.docker || in_cgroup("/docker/") || in_cgroup("/docker-") {
        "docker"
    } else if in_cgroup("/lxc/") || in_cgroup("/lxc.payload") {
        "lxc"
    } else {
        return None;
    };
    Some(name.to_owned())
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn container_kind_is_recognised_by_traces() {
        let none = Traces::default;
        for (traces, want) in [
            (none(), None),
            (Traces { cgroup: "0::/init.scope\n".into(), ..none() }, None),
            (Traces { docker: true, ..none() }, Some("docker")),
            (Traces { cgroup: "9:pids:/docker/0a1b\n".into(), ..none() }, Some("docker")),
            (Traces { podman: Some("engine=\"podman-5\"".into()), ..none() }, Some("podman")),
            (Traces { variable: Some("podman".into()), docker: true, ..none() }, Some("podman")),
            (Traces { systemd: Some("systemd-nspawn\n".into()), ..none() }, Some("systemd-nspawn")),
            (Traces { variable: Some("\u{1b}[31m".into()), ..none() }, None),
            (Traces { variable: Some(String::new()), docker: true, ..none() }, Some("docker")),
            (Traces { kubernetes: true, docker: true, ..none() }, Some("kubernetes")),
            (Traces { cgroup: "0::/kubepods.slice/x\n".into(), ..none() }, Some("kubernetes")),
            (Traces { cgroup: "4:memory:/lxc/box\n".into(), ..none() }, Some("lxc")),
            (Traces { version: "Linux version 4.4.0 gVisor".into(), docker: true, ..none() }, Some("gvisor")),
        ] {
            assert_eq!(container(&traces).as_deref(), want, "{traces:?}");
        }
    }

    #[test]
    fn user_mapping_is_described() {
        let own = Mapping::OwnId { uid: 7, gid: 7 };
        assert_eq!(user(0, Mapping::Privileged), "root");
        assert_eq!(user(7, own), "user 7");
        assert!(user(0, own).contains("namespace"));
    }
}
