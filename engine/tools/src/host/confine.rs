//! Sandbox policy of a tool host. Pure.

use std::ffi::OsString;
use std::path::Path;
use std::time::Duration;

use hotcell_sandbox::{Bind, Bytes, Confinement, Network, Policy, ProcView, Stdin};

use crate::{Folder, Limits};

/// Memory besides that of the guests: the program, machine code, and messages in transit.
const BASE: Bytes = Bytes::mib(512);
/// Maximum number of threads: event loop, file access, compiler and clock.
const MAX_THREADS: u32 = 128;
/// Disk space: the host writes no files of its own.
const DISK: Bytes = Bytes::mib(1);
/// Captured output: the host prints nothing, unless it panics.
const CAPTURE: Bytes = Bytes::kib(16);
/// Time limit of the sandbox, as long as it accepts; a host is replaced long before.
const WALL_TIMEOUT: Duration = Duration::from_secs(7 * 24 * 3600);

/// Memory of a process that runs `calls` calls at once.
pub fn memory_for(calls: u32, limits: &Limits) -> Bytes {
    Bytes(limits.memory.0.saturating_mul(calls.into()).saturating_add(BASE.0))
}

/// Policy of a process that sees its own program, the system's libraries and these folders at their own
/// paths; it has no network, and no variables except the four that every sandbox has.
///
/// # Errors
/// A sentence when the sandbox has no mounts and the program is in a writable folder: rules without mounts
/// can only add rights, so the program could be replaced.
pub fn policy(
    program: &Path,
    arguments: &[OsString],
    folders: &[Folder],
    memory: Bytes,
    confinement: Confinement,
) -> Result<Policy, String> {
    let mut policy = Policy::new(program).args(arguments).memory(memory);
    let mut folders: Vec<&Folder> = folders.iter().collect();
    // A folder comes before the folders in it.
    folders.sort_by(|a, b| a.path.cmp(&b.path));
    for Folder { path, writable, identity } in folders {
        if *writable && confinement == Confinement::LandlockOnly && program.starts_with(path) {
            return Err(format!(
                "{} has hotcell's own program in it, so it cannot be written",
                path.display()
            ));
        }
        let (host, inside) = (path.clone(), path.clone());
        policy.job.binds.push(Bind {
            host,
            inside,
            writable: *writable,
            copy_on_write: false,
            identity: *identity,
        });
    }
    // The program comes last, so that it is read-only even in a writable folder.
    policy = policy.read_only(program, program);
    policy.job.stdin = Stdin::Socket;
    policy.shape.confinement = confinement;
    policy.shape.network = Network::Off;
    policy.shape.proc = ProcView::OwnProcesses;
    let limits = &mut policy.job.limits;
    (limits.processes, limits.disk, limits.capture) = (MAX_THREADS, DISK, CAPTURE);
    // Calls have their own time limits.
    (limits.wall, limits.cpu_time) = (WALL_TIMEOUT, None);
    Ok(policy)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn tool_host_sees_only_program_and_folders() {
        let folder = |path: &str, writable| Folder { path: path.into(), writable, identity: None };
        let folders = [folder("/srv/a/b", true), folder("/srv/a", false), folder("/opt", true)];
        let by = |folders: &[Folder], confinement| {
            policy(Path::new("/opt/hotcell"), &["tool-host".into()], folders, Bytes::gib(1), confinement)
        };
        let policy = by(&folders, Confinement::Namespaces).unwrap();
        let bind = |path: &str, writable| Bind {
            host: path.into(),
            inside: path.into(),
            writable,
            copy_on_write: false,
            identity: None,
        };
        assert_eq!(
            policy.job.binds,
            [bind("/opt", true), bind("/srv/a", false), bind("/srv/a/b", true), bind("/opt/hotcell", false)]
        );
        assert!(policy.job.env.is_empty() && policy.job.workspace.is_none() && policy.job.proxy.is_none());
        assert_eq!((policy.shape.network, &policy.job.stdin), (Network::Off, &Stdin::Socket));
        assert_eq!(policy.job.limits.memory, Bytes::gib(1));
        assert!(by(&folders, Confinement::LandlockOnly).unwrap_err().contains("hotcell's own program"));
        let less = by(&folders[..2], Confinement::LandlockOnly).unwrap();
        assert_eq!(less.shape.confinement, Confinement::LandlockOnly);
    }

    #[test]
    fn memory_is_for_all_calls_and_the_host() {
        let limits = Limits::default();
        assert_eq!(memory_for(4, &limits), Bytes::mib(4 * 64 + 512));
        assert_eq!(memory_for(u32::MAX, &Limits { memory: Bytes(u64::MAX), ..limits }), Bytes(u64::MAX));
    }
}
