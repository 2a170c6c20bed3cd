//! Whether a file that was read before is known to be unchanged, by the way in which the kernel describes it.
//!
//! The kernel notes the time of a change in `ctime`, which no program sets. It does so late or roughly in three cases, so that a digest is kept only
//! when the file's times were old enough as it was read:
//!
//! - Clocks of file systems are coarse, up to 2 s: a second change within a tick has the time of the first.
//! - A change through a shared mapping is noted at the first write after the page was written to the disk, and not again before. The kernel
//!   writes pages that are 30 s old, and looks every 5 s (`vm.dirty_expire_centisecs`, `vm.dirty_writeback_centisecs`).
//! - One call of `write(2)` is noted when it begins, and may last, because the kernel slows a writer down to the disk's speed.
//!
//! Git has the first of these rules for its index ("racily clean" entries, `Documentation/technical/racy-git.adoc`).

use std::fs::Metadata;
use std::io;
use std::os::fd::AsFd;
use std::os::unix::fs::MetadataExt;
use std::time::{Duration, SystemTime, UNIX_EPOCH};

/// File systems of this machine's disks, which note each change of a file's content in `ctime`: ext4, XFS, Btrfs and F2FS, by `f_type` of `statfs(2)`. They note
/// one through a mapping when its page was last written to the disk; `tmpfs` notes none of these, and others have clocks, caches or layers of their own.
const NOTING: [i64; 4] = [0xef53, 0x5846_5342, 0x9123_683e, 0xf2f5_2010];
/// Id of this start of the machine. See `proc_sys_kernel(5)`.
const BOOT: &str = "/proc/sys/kernel/random/boot_id";
/// Minimum age of a file's times: the kernel's 35 s for mappings, and a coarse clock.
const SETTLED: Duration = Duration::from_secs(40);
/// Speed of the slowest disk, in bytes a second: for a call of `write(2)` that is still writing.
const SLOWEST: u64 = 1 << 20;

/// A moment: seconds and nanoseconds since 1970.
pub type Moment = (i64, i64);

/// A file as the kernel describes it. Two equal ones of a moment that is [`is_settled`] have equal content.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Seen {
    /// Device of the file system.
    pub device: u64,
    /// Number in the file system.
    pub inode: u64,
    /// Size in bytes.
    pub bytes: u64,
    /// `mtime`.
    pub modified: Moment,
    /// `ctime`.
    pub changed: Moment,
}

impl Seen {
    /// A file by its metadata.
    #[must_use]
    pub fn of(metadata: &Metadata) -> Self {
        Self {
            device: metadata.dev(),
            inode: metadata.ino(),
            bytes: metadata.size(),
            modified: (metadata.mtime(), metadata.mtime_nsec()),
            changed: (metadata.ctime(), metadata.ctime_nsec()),
        }
    }
}

/// True when the file system of a file notes each change of a file, so that [`is_settled`] may be asked.
///
/// # Errors
/// When it cannot be asked.
pub fn notes_changes(file: impl AsFd) -> io::Result<bool> {
    Ok(NOTING.contains(&rustix::fs::fstatfs(file)?.f_type))
}

/// Writes all that is dirty in the file system of a file to its disk; see `syncfs(2)`. A page that a program has mapped is then write-protected, so that
/// its next change is noted, however late the kernel writes pages under load.
///
/// # Errors
/// Those of writing.
pub fn write_out(file: impl AsFd) -> io::Result<()> {
    Ok(rustix::fs::syncfs(file)?)
}

/// Id of this start of the machine, which belongs to whatever is kept: after a crash of the system a file may have newer bytes than its times say.
///
/// # Errors
/// When `/proc` is not mounted.
pub fn boot_id() -> io::Result<String> {
    std::fs::read_to_string(BOOT)
}

/// A time as the kernel tells those of files; 1970 for an earlier one.
#[must_use]
pub fn moment(time: SystemTime) -> Moment {
    let since = time.duration_since(UNIX_EPOCH).unwrap_or_default();
    (i64::try_from(since.as_secs()).unwrap_or(0), i64::from(since.subsec_nanos()))
}

/// True when a file that was read after `now`, and was the same before and after, has had all its changes noted: from then on, any change is seen.
#[must_use]
pub fn is_settled(before: &Seen, after: &Seen, now: Moment) -> bool {
    let writing = i64::try_from(before.bytes / SLOWEST).unwrap_or(i64::MAX);
    let age = writing.saturating_add(i64::try_from(SETTLED.as_secs()).unwrap_or(i64::MAX));
    let is_old = |moment: Moment| (moment.0.saturating_add(age), moment.1) < now;
    before == after && is_old(before.modified) && is_old(before.changed)
}

#[cfg(test)]
mod tests {
    use proptest::prelude::*;

    use super::*;

    const SECOND: i64 = 1_000_000_000;

    fn at(nanos: i64) -> Moment {
        (nanos.div_euclid(SECOND), nanos.rem_euclid(SECOND))
    }

    fn seen(modified: i64, changed: i64) -> Seen {
        Seen { device: 1, inode: 2, bytes: 3, modified: at(modified), changed: at(changed) }
    }

    #[test]
    fn files_are_settled_when_their_times_are_old() {
        let (now, old) = (100 * SECOND, 59 * SECOND);
        type Change = fn(&mut Seen);
        let same: Change = |_| {};
        for (before, change, settled) in [
            (seen(old, old), same, true),
            (seen(0, 0), same, true),
            (seen(old, 60 * SECOND), same, false),
            (seen(60 * SECOND, old), same, false),
            (seen(old, now), same, false),
            (seen(old, now + 1), same, false),
            // A time of the future, which a program may set.
            (seen(now * 9, old), same, false),
            (seen(i64::MAX, old), same, false),
            (seen(i64::MIN, old), same, true),
            (seen(old, old), |after| after.device += 1, false),
            (seen(old, old), |after| after.inode += 1, false),
            (seen(old, old), |after| after.bytes += 1, false),
            (seen(old, old), |after| after.modified.1 += 1, false),
            (seen(old, old), |after| after.changed.1 += 1, false),
        ] {
            let mut after = before;
            change(&mut after);
            assert_eq!(is_settled(&before, &after, at(now)), settled, "{before:?} {after:?}");
        }
        let large = |bytes| Seen { bytes, ..seen(old, old) };
        assert!(is_settled(&large(1 << 19), &large(1 << 19), at(now)));
        assert!(!is_settled(&large(2 << 20), &large(2 << 20), at(now)));
    }

    /// A change of a file.
    #[derive(Clone, Copy, Debug)]
    enum Act {
        /// Time passes.
        Nothing,
        /// New bytes, of the size of before.
        Write,
        /// New bytes through a mapping.
        Map,
        /// The time of the last change is set to any.
        SetTime(i64),
        /// Another file takes the name, with the number of the old one or another that was used before.
        Replace(bool),
    }

    fn acts() -> impl Strategy<Value = Act> {
        prop_oneof![
            Just(Act::Nothing),
            Just(Act::Write),
            Just(Act::Map),
            (0..4000_i64).prop_map(|second| Act::SetTime(second * SECOND / 2)),
            any::<bool>().prop_map(Act::Replace),
        ]
    }

    /// Between a nanosecond and a minute.
    fn pauses() -> impl Strategy<Value = i64> {
        (prop::sample::select(vec![1, 50_000_000, SECOND]), 1..60_i64)
            .prop_map(|(scale, count)| count * scale)
    }

    proptest! {
        #![proptest_config(ProptestConfig::with_cases(4096))]

        /// A kernel with a clock of any coarseness up to 2 s, which writes dirty pages 35 s after the first change: a digest that is kept is that of the file
        /// whenever the file looks the same.
        #[test]
        fn changed_files_are_never_believed_unchanged(
            tick in prop::sample::select(vec![1, 4_000_000, 10_000_000, SECOND, 2 * SECOND]),
            steps in prop::collection::vec((acts(), pauses()), 1..12),
        ) {
            let coarse = |time: i64| time / tick * tick;
            let mut time = 1000 * SECOND;
            let mut file = seen(coarse(time), coarse(time));
            let (mut content, mut dirty_until) = (0, 0);
            let mut kept: Vec<(Seen, usize)> = Vec::new();
            for (act, pause) in steps {
                time += pause;
                if is_settled(&file, &file, at(time)) {
                    kept.push((file, content));
                }
                match act {
                    Act::Nothing => {}
                    Act::Write => {
                        content += 1;
                        (file.modified, file.changed) = (at(coarse(time)), at(coarse(time)));
                    }
                    Act::Map => {
                        content += 1;
                        if time >= dirty_until {
                            dirty_until = time + 35 * SECOND;
                            (file.modified, file.changed) = (at(coarse(time)), at(coarse(time)));
                        }
                    }
                    Act::SetTime(to) => (file.modified, file.changed) = (at(to), at(coarse(time))),
                    // A copy with its time.
                    Act::Replace(again) => {
                        content += 1;
                        dirty_until = 0;
                        file.inode ^= u64::from(!again);
                        file.changed = at(coarse(time));
                    }
                }
                for (known, was) in &kept {
                    prop_assert!(known != &file || *was == content, "{act:?} was not seen: {file:?}");
                }
            }
        }
    }
}
