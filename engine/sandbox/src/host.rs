//! Features of this host, detected by trying them; the plan is made from them.

use std::path::Path;

use crate::cgroup::{Cgroups, Unavailable};
use crate::descriptors;
use crate::ids::Mapping;
use crate::kernel_text;
use crate::root::HostRoot;
use crate::sys;
use crate::units::Bytes;

/// Features of this host, detected by trying them.
#[derive(Clone, Debug)]
pub struct Host {
    /// How user and group ids of sandboxes are mapped.
    pub mapping: Mapping,
    /// The Landlock version, or the reason why it is not available.
    pub landlock: Result<u32, String>,
    /// Whether the seccomp filter can send notifications, or the reason why not.
    pub notifications: Result<(), String>,
    /// The version of the cgroup tree, or the reason why it is not available.
    pub cgroup: Result<u32, String>,
    /// Whether a CPU quota can be enforced.
    pub cpus: bool,
    /// Whether time namespaces are available, or the reason why not.
    pub time_ns: Result<(), String>,
    /// The parts of the host that form the root.
    pub root: HostRoot,
    /// Physical memory of the host.
    pub memory: Bytes,
    /// Maximum number of descriptors of this process: its soft limit, after raising it to the hard one.
    pub open_files: u64,
}

/// Processes and threads that have this process's user id, as far as `/proc` shows them: what `RLIMIT_NPROC` counts.
pub(crate) fn tasks_of_this_user() -> u64 {
    let user = nix::unistd::getuid().as_raw();
    let entries = std::fs::read_dir("/proc").into_iter().flatten().flatten();
    let processes = entries.filter(|e| e.file_name().as_encoded_bytes().iter().all(u8::is_ascii_digit));
    processes.filter_map(|e| tasks_of(user, &kernel_text::read(e.path().join("status")).ok()?)).sum()
}

/// The threads of a process, from its `status`, if it is this user's.
fn tasks_of(user: u32, status: &str) -> Option<u64> {
    let number = |name: &str| {
        let value = status.lines().find_map(|line| line.strip_prefix(name))?;
        value.split_ascii_whitespace().next()?.parse::<u64>().ok()
    };
    (number("Uid:")? == u64::from(user)).then(|| number("Threads:")).flatten()
}

/// Total memory of this machine; `None` without `/proc/meminfo`.
#[must_use]
pub fn memory() -> Option<Bytes> {
    let text = kernel_text::read("/proc/meminfo").ok()?;
    let line = text.lines().find(|l| l.starts_with("MemTotal:"))?;
    line.split_ascii_whitespace().nth(1)?.parse().ok().map(Bytes::kib)
}

impl Host {
    /// Detects the features of this host.
    pub fn look(cgroups: &Result<Cgroups, Unavailable>) -> Self {
        Self::with(cgroups, HostRoot::look(), Mapping::of_this_process())
    }

    /// Like [`Host::look`], with a root and a mapping that were looked at already.
    pub(crate) fn with(cgroups: &Result<Cgroups, Unavailable>, root: HostRoot, mapping: Mapping) -> Self {
        let memory = memory();
        Self {
            mapping,
            landlock: sys::landlock_abi().map_err(|e| format!("this kernel does not offer it ({e})")),
            notifications: sys::notifications_work().map_err(|e| {
                let twice = e.raw_os_error() == Some(nix::libc::EBUSY);
                let why = if twice { ", because a filter around this process notifies somebody" } else { "" };
                format!("seccomp user notification was refused ({e}){why}")
            }),
            cgroup: match cgroups {
                Ok(cgroups) => Ok(cgroups.version()),
                Err(unavailable) => Err(unavailable.to_string()),
            },
            cpus: cgroups.as_ref().is_ok_and(Cgroups::holds_cpus),
            time_ns: if Path::new("/proc/self/ns/time").exists() {
                Ok(())
            } else {
                Err("this kernel has no time namespaces".to_owned())
            },
            root,
            memory: memory.unwrap_or(Bytes::gib(1)),
            open_files: descriptors::raised().now,
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn threads_are_counted_by_their_user() {
        let status = "Name:\tx\nUid:\t7\t0\t0\t0\nThreads:\t12\n";
        assert_eq!(
            (tasks_of(7, status), tasks_of(0, status), tasks_of(7, "Uid:\t7\n")),
            (Some(12), None, None)
        );
        assert!(tasks_of_this_user() >= 1);
    }
}
