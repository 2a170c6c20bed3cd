//! A common interface to both cgroup versions, and the code that they share.

use std::collections::BTreeSet;
use std::io;
use std::path::Path;

use nix::errno::Errno;
use nix::sys::signal::{Signal, kill};
use nix::unistd::Pid;

use super::folder::Folder;
use super::{GroupLimits, Sample, Tally, v1, v2};

/// Maximum number of times that the list of processes is read while killing.
const KILL_PASSES: usize = 64;

/// Location in which groups are made.
#[derive(Debug)]
pub(super) enum Place {
    V1(v1::Base),
    V2(v2::Base),
}

impl Place {
    pub(super) fn version(&self) -> u32 {
        match self {
            Self::V1(_) => 1,
            Self::V2(_) => 2,
        }
    }

    /// The `hotcell` folders.
    pub(super) fn bases(&self) -> Vec<&Path> {
        match self {
            Self::V1(base) => base.paths(),
            Self::V2(base) => vec![base.path()],
        }
    }

    pub(super) fn holds_cpus(&self) -> bool {
        match self {
            Self::V1(base) => base.holds_cpus(),
            Self::V2(base) => base.holds_cpus(),
        }
    }

    /// Makes missing `hotcell` folders, ready to contain groups.
    pub(super) fn ensure(&self) -> io::Result<()> {
        match self {
            Self::V1(base) => base.ensure(),
            Self::V2(base) => base.ensure(),
        }
    }

    pub(super) fn make(&self, name: &str) -> io::Result<Made> {
        Ok(match self {
            Self::V1(base) => Made::V1(base.make(name)?),
            Self::V2(base) => Made::V2(base.make(name)?),
        })
    }

    /// Opens the remains of a group that another process made, in order to end it.
    pub(super) fn adopt(&self, name: &str) -> io::Result<Made> {
        Ok(match self {
            Self::V1(base) => Made::V1(base.adopt(name)),
            Self::V2(base) => Made::V2(base.adopt(name)?),
        })
    }

    /// Removes the `hotcell` folders unless they still contain a group, even another process's.
    pub(super) fn remove_bases(&self) {
        for base in self.bases() {
            let _ = std::fs::remove_dir(base);
        }
    }

    pub(super) fn limit(&self, made: &mut Made, limits: &GroupLimits) -> io::Result<()> {
        match (self, made) {
            (Self::V1(base), Made::V1(made)) => made.limit(base, limits),
            (Self::V2(base), Made::V2(made)) => made.limit(base, limits),
            _ => Err(io::Error::other("a cgroup of the other version")),
        }
    }
}

/// One group.
#[derive(Debug)]
pub(super) enum Made {
    V1(v1::Made),
    V2(v2::Made),
}

impl Made {
    pub(super) fn folders(&self) -> &[Folder] {
        match self {
            Self::V1(made) => made.folders(),
            Self::V2(made) => std::slice::from_ref(made.folder()),
        }
    }

    pub(super) fn sample(&self) -> io::Result<Sample> {
        match self {
            Self::V1(made) => made.sample(),
            Self::V2(made) => made.sample(),
        }
    }

    pub(super) fn tally(&self) -> io::Result<Tally> {
        match self {
            Self::V1(made) => made.tally(),
            Self::V2(made) => made.tally(),
        }
    }

    pub(super) fn fork_failures(&self) -> io::Result<u64> {
        match self {
            Self::V1(made) => made.fork_failures(),
            Self::V2(made) => made.fork_failures(),
        }
    }

    /// Sends SIGKILL to everything inside, without waiting for the end.
    pub(super) fn kill(&self) {
        match self {
            Self::V2(made) if made.kill_at_once().is_ok() => {}
            _ => kill_one_by_one(self.folders()),
        }
    }

    /// Removes the group; fails with `ResourceBusy` while a process in it has not ended. Can be called again.
    pub(super) fn remove(&mut self) -> io::Result<()> {
        match self {
            Self::V1(made) => made.remove(),
            Self::V2(made) => made.remove(),
        }
    }
}

/// Kills by process id. Forking is forbidden first, so that the list cannot grow faster than the kills; a
/// child that was just being created appears in the next pass, and a pass without a new id is the last.
///
/// In theory an id could be reused by another process between reading and killing. That would take all other
/// ids being used up within those microseconds.
fn kill_one_by_one(folders: &[Folder]) {
    for folder in folders {
        let _ = folder.write("pids.max", "0"); // only one of the v1 folders has it
    }
    let mut killed = BTreeSet::new();
    for _ in 0..KILL_PASSES {
        let before = killed.len();
        for folder in folders {
            for pid in folder.processes().unwrap_or_default() {
                if killed.insert(pid)
                    && let Err(e) = kill(Pid::from_raw(pid), Signal::SIGKILL)
                    && e != Errno::ESRCH
                {
                    tracing::warn!("cannot kill process {pid} of {}: {e}", folder.path().display());
                }
            }
        }
        if killed.len() == before {
            return;
        }
    }
    tracing::warn!("{} processes killed in a cgroup, and more keep appearing", killed.len());
}
