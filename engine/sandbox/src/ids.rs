//! Which host ids a sandbox's program has. A pure decision over the caller's own id map.

/// The first of the host ids that sandboxes are given when the caller may map any id.
///
/// Far above what distributions hand out (ordinary users from 1,000, sub-ids from 100,000 in steps of 65,536)
/// and below 2^31, which some tools take for negative. No account has it, so a program that left every
/// namespace would be nobody.
pub const FIRST: u32 = 2_000_000_000;
/// How many sandboxes of one engine have an id of their own at once.
pub const SLOTS: u32 = 4096;
/// The user and group id inside.
pub const INSIDE: u32 = 1000;

/// How ids are mapped.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Mapping {
    /// The caller may map any id: each sandbox gets one of its own that is nobody's.
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
    /// Decides from the caller's ids and the text of its `/proc/self/uid_map` and `gid_map`.
    pub fn decide(uid: u32, gid: u32, can_set_ids: bool, uid_map: &str, gid_map: &str) -> Self {
        let all = |map: &str| covers(map, FIRST) && covers(map, FIRST + SLOTS - 1);
        if can_set_ids && all(uid_map) && all(gid_map) { Self::Privileged } else { Self::OwnId { uid, gid } }
    }

    /// Decides for this process.
    pub fn of_this_process() -> Self {
        let read = |name: &str| std::fs::read_to_string(format!("/proc/self/{name}")).unwrap_or_default();
        let can =
            [caps::Capability::CAP_SETUID, caps::Capability::CAP_SETGID, caps::Capability::CAP_SYS_ADMIN]
                .into_iter()
                .all(|c| caps::has_cap(None, caps::CapSet::Effective, c).unwrap_or(false));
        let (uid, gid) = (nix::unistd::geteuid().as_raw(), nix::unistd::getegid().as_raw());
        Self::decide(uid, gid, can, &read("uid_map"), &read("gid_map"))
    }

    /// The host ids of the sandbox in this slot, counted from `first_slot`, which differs from process to process so
    /// that two of them seldom use the same ids at once.
    pub const fn outside(self, first_slot: u32, slot: u32) -> (u32, u32) {
        match self {
            Self::Privileged => {
                let id = FIRST + first_slot.wrapping_add(slot) % SLOTS;
                (id, id)
            }
            Self::OwnId { uid, gid } => (uid, gid),
        }
    }
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
    fn who_gets_which_ids() {
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
}
