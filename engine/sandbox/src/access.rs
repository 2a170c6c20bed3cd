//! The Landlock ruleset, derived from the same plan as the mounts. The `landlock` crate knows which rights
//! exist at which version; this module decides which of them a path gets.

use std::path::Path;

use landlock::{ABI, Access, AccessFs, AccessNet, BitFlags, Scope};

use crate::encode::Ruleset;
use crate::policy::{HOME, ImageRoot, Network, ProcView, RootKind};
use crate::root::{HostRoot, cstring};

/// Permitted operations at and below a path.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
pub enum Grant {
    /// List folders, nothing else.
    List,
    /// Read files and list folders.
    Read,
    /// Read and execute.
    Execute,
    /// Use devices and terminals: read, write, control.
    Device,
    /// Everything but device nodes.
    Write,
}

impl Grant {
    /// The rights of this grant at a Landlock version, for a folder or for a single file.
    fn rights(self, abi: ABI, folder: bool) -> u64 {
        let read = AccessFs::ReadFile | AccessFs::ReadDir;
        let rights: BitFlags<AccessFs> = match self {
            Self::List => AccessFs::ReadDir.into(),
            Self::Read => read,
            Self::Execute => read | AccessFs::Execute,
            Self::Device => read | AccessFs::WriteFile | AccessFs::Truncate | AccessFs::IoctlDev,
            Self::Write => {
                AccessFs::from_all(abi) & !(AccessFs::MakeChar | AccessFs::MakeBlock | AccessFs::IoctlDev)
            }
        };
        let mut rights = rights & AccessFs::from_all(abi);
        if !folder {
            rights &= AccessFs::from_file(abi);
        }
        rights.bits()
    }
}

/// Converts a version number to the crate's type; a newer kernel is treated as the newest version that the
/// crate knows.
fn known(abi: u32) -> ABI {
    ABI::from(i32::try_from(abi).unwrap_or(i32::MAX))
}

/// Landlock version that is enforced on a kernel that has version `abi`.
pub fn in_force(abi: u32) -> u32 {
    known(abi) as u32
}

/// First Landlock version in which truncating a file needs a right.
pub const TRUNCATION: u32 = 3;

/// One rule: what may be done at and below a path.
pub fn rule(abi: u32, path: &Path, grant: Grant, folder: bool) -> (u64, std::ffi::CString) {
    (grant.rights(known(abi), folder), cstring(path))
}

/// Rules of a sandbox whose root is the host's `/usr`.
pub fn ruleset(abi: u32, host: &HostRoot, network: Network) -> Ruleset {
    let mut rules = vec![
        rule(abi, Path::new("/"), Grant::List, true),
        rule(abi, Path::new("/usr"), Grant::Execute, true),
        rule(abi, Path::new("/etc"), Grant::Read, true),
        rule(abi, Path::new("/proc"), Grant::Read, true),
        rule(abi, Path::new("/dev"), Grant::Device, true),
    ];
    for name in host.folders() {
        rules.push(rule(abi, &Path::new("/").join(name), Grant::Execute, true));
    }
    for path in [HOME, "/tmp", "/var/tmp", "/dev/shm", "/dev/mqueue"] {
        rules.push(rule(abi, Path::new(path), Grant::Write, true));
    }
    finish(known(abi), rules, network)
}

/// Rules of a sandbox whose root is an image: everything in that root may be read and executed.
pub fn image_ruleset(abi: u32, image: &ImageRoot, network: Network) -> Ruleset {
    let mut rules = vec![
        rule(abi, Path::new("/"), Grant::List, true),
        rule(abi, Path::new("/etc"), Grant::Read, true),
        rule(abi, Path::new("/proc"), Grant::Read, true),
        rule(abi, Path::new("/dev"), Grant::Device, true),
    ];
    for entry in image.top.iter().filter(|e| e.kind != RootKind::Link && !OURS.contains(&e.name.as_str())) {
        let folder = entry.kind == RootKind::Folder;
        rules.push(rule(abi, &Path::new("/").join(&entry.name), Grant::Execute, folder));
    }
    for path in [HOME, "/tmp", "/var/tmp", "/dev/shm", "/dev/mqueue"] {
        rules.push(rule(abi, Path::new(path), Grant::Write, true));
    }
    finish(known(abi), rules, network)
}

/// Entries of an image's root that hotcell mounts over.
const OURS: [&str; 3] = ["proc", "dev", "tmp"];

/// Rules of a sandbox without a root of its own: the same paths of the host, but of `/etc` and `/dev` only
/// the files that a root would contain. The scratch folder's rule is added when the sandbox is made.
///
/// A rule applies to the folder that its path resolves to at the moment when the program's process confines
/// itself. `/proc/self` then resolves to that process alone. Its children do not exist yet, so they cannot
/// get a rule, and a rule for all of `/proc` would expose the host's processes too.
pub fn host_ruleset(abi: u32, host: &HostRoot, network: Network, proc: ProcView) -> Ruleset {
    let proc = match proc {
        ProcView::Masked => "/proc",
        ProcView::OwnProcesses => "/proc/self",
    };
    let mut rules = vec![
        rule(abi, Path::new("/usr"), Grant::Execute, true),
        rule(abi, Path::new(proc), Grant::Read, true),
    ];
    for name in host.folders() {
        rules.push(rule(abi, &Path::new("/").join(name), Grant::Execute, true));
    }
    let etc = Path::new("/etc");
    for name in host.etc_files.iter().map(|(name, _)| name.as_str()).chain(HOST_ETC) {
        rules.push(rule(abi, &etc.join(name), Grant::Read, false));
    }
    for name in &host.etc_folders {
        rules.push(rule(abi, &etc.join(name), Grant::Read, true));
    }
    for name in &host.devices {
        rules.push(rule(abi, &Path::new("/dev").join(name), Grant::Device, false));
    }
    finish(known(abi), rules, network)
}

/// Files of `/etc` that are needed to resolve user and host names.
const HOST_ETC: [&str; 4] = ["passwd", "group", "hosts", "nsswitch.conf"];

fn finish(version: ABI, mut rules: Vec<(u64, std::ffi::CString)>, network: Network) -> Ruleset {
    rules.retain(|(rights, _)| *rights != 0);
    Ruleset {
        fs: AccessFs::from_all(version).bits(),
        // An access that is handled without any rule is refused. The loopback needs TCP, so TCP is handled
        // only without a loopback.
        net: match network {
            Network::Off => AccessNet::from_all(version).bits(),
            Network::Loopback | Network::Proxy => 0,
        },
        scoped: Scope::from_all(version).bits(),
        rules,
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn landlock_rules_grant_only_handled_rights() {
        for abi in 1..=12 {
            let set = ruleset(abi, &HostRoot::default(), Network::Off);
            for (rights, path) in &set.rules {
                assert_eq!(rights & !set.fs, 0, "ABI {abi}: {path:?} grants what is not handled");
            }
        }
    }

    #[test]
    fn host_ruleset_limits_proc_by_view() {
        for (proc, path) in [(ProcView::Masked, "/proc"), (ProcView::OwnProcesses, "/proc/self")] {
            let set = host_ruleset(7, &HostRoot::default(), Network::Off, proc);
            let found: Vec<_> = set.rules.iter().map(|(_, path)| path.to_str().unwrap()).collect();
            assert_eq!(found.iter().filter(|p| p.starts_with("/proc")).copied().collect::<Vec<_>>(), [path]);
        }
    }

    #[test]
    fn grants_map_to_landlock_rights() {
        let abi = ABI::V7;
        let has = |grant: Grant, right: AccessFs, folder| grant.rights(abi, folder) & right as u64 != 0;
        for (grant, read, execute, write, make_device, ioctl) in [
            (Grant::List, false, false, false, false, false),
            (Grant::Read, true, false, false, false, false),
            (Grant::Execute, true, true, false, false, false),
            (Grant::Device, true, false, true, false, true),
            (Grant::Write, true, true, true, false, false),
        ] {
            assert_eq!(has(grant, AccessFs::ReadFile, true), read, "{grant:?}");
            assert_eq!(has(grant, AccessFs::Execute, true), execute, "{grant:?}");
            assert_eq!(has(grant, AccessFs::WriteFile, true), write, "{grant:?}");
            assert_eq!(has(grant, AccessFs::MakeChar, true), make_device, "{grant:?}");
            assert_eq!(has(grant, AccessFs::IoctlDev, true), ioctl, "{grant:?}");
        }
        assert!(!has(Grant::Write, AccessFs::ReadDir, false), "a file has no folder rights");
    }

    #[test]
    fn tcp_rights_are_handled_without_loopback_only() {
        let host = HostRoot::default();
        assert_eq!(ruleset(7, &host, Network::Loopback).net, 0);
        assert_ne!(ruleset(7, &host, Network::Off).net, 0);
        assert_eq!(ruleset(3, &host, Network::Off).net, 0, "no TCP rules before version 4");
        assert_eq!(ruleset(5, &host, Network::Off).scoped, 0, "no scopes before version 6");
    }
}
