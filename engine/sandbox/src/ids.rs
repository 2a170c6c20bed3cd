//! Chooses the host ids of a sandbox's program: a pure decision from the caller's own id map, and a lock for
//! each id.

use std::collections::BTreeSet;
use std::fs::File;
use std::io;
use std::os::unix::fs::{MetadataExt, OpenOptionsExt};
use std::path::Path;

use nix::fcntl::{FcntlArg, fcntl};
use nix::libc;

use crate::kernel_text;

/// The first of the host ids that sandboxes get when the caller may map any id.
///
/// Far above the ids that distributions hand out (ordinary users from 1,000, sub-ids from 100,000 in steps of
/// 65,536) and below 2^31, which some tools take for negative. No account has such an id, so even a program
/// that escaped every namespace would have the rights of no user.
pub const FIRST_ID: u32 = 2_000_000_000;
/// Maximum number of sandboxes on a host that have their own id at once.
pub const SLOTS: u32 = 4096;
/// The user and group id inside.
pub const INSIDE_ID: u32 = 1000;

/// How ids are mapped.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Mapping {
    /// The caller may map any id: each sandbox gets an id of its own that no account has.
    Privileged,
    /// Only the caller's own id can be mapped.
    OwnId {
        /// The caller's user id.
        uid: u32,
        /// The caller's group id.
        gid: u32,
    },
}

impl Mapping {
    /// Chooses the mapping from the caller's ids and the text of its `/proc/self/uid_map` and `gid_map`.
    pub fn decide(uid: u32, gid: u32, can_set_ids: bool, uid_map: &str, gid_map: &str) -> Self {
        let all = |map: &str| covers(map, FIRST_ID) && covers(map, FIRST_ID + SLOTS - 1);
        if can_set_ids && all(uid_map) && all(gid_map) { Self::Privileged } else { Self::OwnId { uid, gid } }
    }

    /// Chooses the mapping for this process.
    pub fn of_this_process() -> Self {
        let read = |name: &str| kernel_text::read(format!("/proc/self/{name}")).unwrap_or_default();
        let can =
            [caps::Capability::CAP_SETUID, caps::Capability::CAP_SETGID, caps::Capability::CAP_SYS_ADMIN]
                .into_iter()
                .all(|c| caps::has_cap(None, caps::CapSet::Effective, c).unwrap_or(false));
        let (uid, gid) = (nix::unistd::geteuid().as_raw(), nix::unistd::getegid().as_raw());
        Self::decide(uid, gid, can, &read("uid_map"), &read("gid_map"))
    }

    /// The host ids of the sandbox in this slot.
    pub const fn outside(self, slot: u32) -> (u32, u32) {
        match self {
            Self::Privileged => (FIRST_ID + slot % SLOTS, FIRST_ID + slot % SLOTS),
            Self::OwnId { uid, gid } => (uid, gid),
        }
    }
}

/// A file owned by root with one byte for each slot. The process that runs a sandbox locks the byte of its
/// slot, so that processes that run at once share no id, and whatever the kernel counts by id belongs to one
/// sandbox. A lock ends with its process.
const SLOTS_FILE: &str = "/run/hotcell-ids";

/// The slots of an engine's sandboxes.
#[derive(Debug)]
pub struct Slots {
    /// `None` where every sandbox has the caller's own id, or where the file cannot be opened.
    locks: Option<File>,
    /// Slot at which the search begins; it differs by process, so that they seldom collide.
    first: u32,
    taken: BTreeSet<u32>,
}

impl Slots {
    /// The slots available to this process.
    pub fn of_this_process(mapping: Mapping) -> Self {
        let locks = match mapping {
            Mapping::OwnId { .. } => None,
            Mapping::Privileged => lock_file(SLOTS_FILE.as_ref())
                .inspect_err(|e| tracing::info!("{SLOTS_FILE}: {e}; ids of sandboxes are chosen by chance"))
                .ok(),
        };
        Self { locks, first: std::process::id().wrapping_mul(16) % SLOTS, taken: BTreeSet::new() }
    }

    /// Takes a slot that no other sandbox has; `None` when all are taken.
    pub fn take(&mut self) -> Option<u32> {
        let all = (0..SLOTS).map(|n| (self.first + n) % SLOTS);
        let free = all.filter(|slot| !self.taken.contains(slot));
        let slot =
            { free }.find(|slot| self.locks.as_ref().is_none_or(|file| lock(file, *slot, libc::F_WRLCK)))?;
        self.taken.insert(slot);
        Some(slot)
    }

    /// Releases a slot.
    pub fn give_back(&mut self, slot: u32) {
        self.taken.remove(&slot);
        if let Some(file) = &self.locks {
            lock(file, slot, libc::F_UNLCK);
        }
    }
}

/// Opens the lock file, which must have been created by root.
fn lock_file(path: &Path) -> io::Result<File> {
    let flags = libc::O_NOFOLLOW | libc::O_CLOEXEC;
    let file =
        File::options().read(true).write(true).create(true).mode(0o600).custom_flags(flags).open(path)?;
    let metadata = file.metadata()?;
    if metadata.uid() == nix::unistd::geteuid().as_raw() && metadata.is_file() {
        Ok(file)
    } else {
        Err(io::Error::other("it is somebody else's"))
    }
}

/// Locks or unlocks the byte of a slot for this open file; false when another process holds it.
fn lock(file: &File, slot: u32, kind: libc::c_int) -> bool {
    let range = libc::flock {
        l_type: i16::try_from(kind).unwrap_or_default(),
        l_whence: i16::try_from(libc::SEEK_SET).unwrap_or_default(),
        l_start: slot.into(),
        l_len: 1,
        l_pid: 0,
    };
    fcntl(file, FcntlArg::F_OFD_SETLK(&range)).is_ok()
}

/// Whether an id exists in a user namespace with this map (lines of inside, outside, count).
fn covers(map: &str, id: u32) -> bool {
    map.lines().any(|line| {
        let mut numbers = line.split_ascii_whitespace().map_while(|n| n.parse::<u64>().ok());
        let (Some(first), Some(_), Some(count)) = (numbers.next(), numbers.next(), numbers.next()) else {
            return false;
        };
        (first..first.saturating_add(count)).contains(&u64::from(id))
    })
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn id_mapping_follows_user_and_capabilities() {
        let everything = "         0          0 4294967295\n";
        let container = "0 100000 65536\n";
        for (uid, can, map, want) in [
            (0, true, everything, Mapping::Privileged),
            (0, false, everything, Mapping::OwnId { uid: 0, gid: 5 }),
            (0, true, container, Mapping::OwnId { uid: 0, gid: 5 }),
            (1000, false, everything, Mapping::OwnId { uid: 1000, gid: 5 }),
            (0, true, "", Mapping::OwnId { uid: 0, gid: 5 }),
            (0, true, "garbage\n1 2\n", Mapping::OwnId { uid: 0, gid: 5 }),
        ] {
            assert_eq!(Mapping::decide(uid, 5, can, map, map), want, "{uid} {can} {map:?}");
        }
    }

    #[test]
    fn id_slots_are_exclusive_and_freed_on_exit() {
        let folder = tempfile::tempdir().unwrap();
        let path = folder.path().join("ids");
        let process =
            || Slots { locks: Some(lock_file(&path).unwrap()), first: SLOTS - 2, taken: BTreeSet::new() };
        let (mut one, mut other) = (process(), process());
        let mine: Vec<_> = (0..3).map(|_| one.take().unwrap()).collect();
        assert_eq!(mine, [SLOTS - 2, SLOTS - 1, 0]);
        assert_eq!((other.take(), other.take()), (Some(1), Some(2)));
        one.give_back(SLOTS - 1);
        assert_eq!(other.take(), Some(SLOTS - 1));
        drop(other);
        assert_eq!((one.take(), one.take()), (Some(SLOTS - 1), Some(1)));
        while one.take().is_some() {}
        assert_eq!(one.taken.len(), SLOTS as usize);
        std::os::unix::fs::symlink("/etc/passwd", folder.path().join("link")).unwrap();
        assert!(lock_file(&folder.path().join("link")).is_err());
    }
}
