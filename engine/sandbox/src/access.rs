//! The Landlock ruleset, from the same plan as the mounts. Which rights exist at which version is the
//! `landlock` crate's knowledge; which of them a place gets is decided here.

use std::path::Path;

use landlock::{ABI, Access, AccessFs, AccessNet, BitFlags, Scope};

use crate::encode::Ruleset;
use crate::policy::{HOME, ImageRoot, Network, RootKind};
use crate::root::{HostRoot, cstring};

/// What a program may do at and below a path.
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
    /// The rights of this grant at a version, for a folder or for a single file.
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

/// The version as the crate knows it; newer kernels are used at the newest version that it knows.
fn known(abi: u32) -> ABI {
    ABI::from(i32::try_from(abi).unwrap_or(i32::MAX))
}

/// The version that is really put into force on a kernel that has `abi`.
pub fn in_force(abi: u32) -> u32 {
    known(abi) as u32
}

/// The version from which on truncation needs a right.
pub const TRUNCATION: u32 = 3;

/// One rule: what may be done at and below a path.
pub fn rule(abi: u32, path: &Path, grant: Grant, folder: bool) -> (u64, std::ffi::CString) {
    (grant.rights(known(abi), folder), cstring(path))
}

/// The rules that every sandbox has.
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

/// The rules of a sandbox with an image: what lies in its root may be read and executed.
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

/// Of the root of an image, what is mounted over.
const OURS: [&str; 3] = ["proc", "dev", "tmp"];

/// The rules of a sandbox that has no root of its own: the same places of the host, and of `/etc` and `/dev`
/// only the files that a root would have held. Its scratch folder is added when it is made.
pub fn host_ruleset(abi: u32, host: &HostRoot, network: Network) -> Ruleset {
    let mut rules = vec![
        rule(abi, Path::new("/usr"), Grant::Execute, true),
        rule(abi, Path::new("/proc"), Grant::Read, true),
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

/// Files of `/etc` without which names of users and hosts cannot be resolved.
const HOST_ETC: [&str; 4] = ["passwd", "group", "hosts", "nsswitch.conf"];

fn finish(version: ABI, mut rules: Vec<(u64, std::ffi::CString)>, network: Network) -> Ruleset {
    rules.retain(|(rights, _)| *rights != 0);
    Ruleset {
        fs: AccessFs::from_all(version).bits(),
        // Handled without any rule means refused; the loopback needs TCP, so it is handled only without one.
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
    fn no_version_grants_more_than_it_handles() {
        for abi in 1..=12 {
            let set = ruleset(abi, &HostRoot::default(), Network::Off);
            for (rights, path) in &set.rules {
                assert_eq!(rights & !set.fs, 0, "ABI {abi}: {path:?} grants what is not handled");
            }
        }
    }

    #[test]
    fn what_each_grant_allows() {
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
    fn tcp_is_handled_only_where_there_is_no_loopback() {
        let host = HostRoot::default();
        assert_eq!(ruleset(7, &host, Network::Loopback).net, 0);
        assert_ne!(ruleset(7, &host, Network::Off).net, 0);
        assert_eq!(ruleset(3, &host, Network::Off).net, 0, "no TCP rules before version 4");
        assert_eq!(ruleset(5, &host, Network::Off).scoped, 0, "no scopes before version 6");
    }
}
