//! The processes of a sandbox as init sees them: what they use where no cgroup tells, and their end where no
//! process namespace brings it.

use crate::names;
use crate::readback::slurp;
use crate::sys::{self, Errno};
use crate::text::Text;

/// What a whole tree uses now.
#[derive(Clone, Copy, Default, Debug, PartialEq, Eq)]
pub struct Use {
    pub memory: u64,
    pub cpu_us: u64,
    pub processes: u64,
}

/// One process of `/proc`.
#[derive(Clone, Copy, Default, Debug, PartialEq, Eq)]
struct Process {
    pid: u64,
    parent: u64,
    used: Use,
    ours: bool,
}

/// More processes than any sandbox may have by default; further ones are not counted.
const MOST: usize = 2048;

/// How long one look may take over shared pages, which a program can make long; beyond it they count as resident.
const SHARES_NS: u64 = 300_000_000;

/// Sums memory, CPU time and threads over all descendants of this process, itself left out.
///
/// Memory is what is resident. There shared pages count once for each process: cheap to read, and too much where a
/// program forks workers. While the sum is beyond `limit`, one process after the other therefore counts by its share
/// of each page, as far as the kernel tells it. What is told still errs upwards.
// Never inlined: its table of 96 KiB would become part of whoever waits, and be touched whether it is used or not.
#[inline(never)]
pub fn used(limit: u64) -> Use {
    let mut all = [Process::default(); MOST];
    let mut count = 0;
    let Ok(proc) = sys::openat(sys::AT_FDCWD, c"/proc", sys::O_RDONLY | sys::O_DIRECTORY, 0) else {
        return Use::default();
    };
    let mut buffer = [0u8; 1024];
    let _ = names::each(proc, |name| {
        let Some(pid) = number(name.to_bytes()) else { return Ok(()) };
        let stat = slurp(Text::of(format_args!("/proc/{pid}/stat")).cstr(), &mut buffer);
        if let Some(process) = stat.ok().and_then(|stat| parse(pid, stat)) {
            *all.get_mut(count).ok_or(Errno::AGAIN)? = process;
            count += 1;
        }
        Ok(())
    });
    sys::close(proc);
    let all = &mut all[..count];
    let mut total = sum(all, u64::from(sys::getpid().unsigned_abs()));
    // One process beyond the limit is beyond it whatever it shares, and long to look through.
    if all.iter().any(|p| p.ours && p.used.memory > limit) {
        return total;
    }
    let begun = sys::now();
    for process in all.iter().filter(|p| p.ours) {
        if total.memory <= limit || sys::now() - begun > SHARES_NS {
            break;
        }
        if let Some(share) = share_of(process.pid, &mut buffer) {
            total.memory = total.memory.saturating_sub(process.used.memory).saturating_add(share);
        }
    }
    total
}

/// The memory of one process, each page divided by how many have it.
fn share_of(pid: u64, buffer: &mut [u8]) -> Option<u64> {
    share(slurp(Text::of(format_args!("/proc/{pid}/smaps_rollup")).cstr(), buffer).ok()?)
}

/// Reads `/proc/PID/smaps_rollup`: a line with the addresses, then one for each kind, in KiB.
fn share(rollup: &[u8]) -> Option<u64> {
    let line = rollup.split(|b| *b == b'\n').find_map(|line| line.strip_prefix(b"Pss:"))?;
    number(line.strip_suffix(b"kB")?.trim_ascii())?.checked_mul(1024)
}

/// Sums up the descendants of `root`.
fn sum(all: &mut [Process], root: u64) -> Use {
    let mut total = Use::default();
    loop {
        let mut found = false;
        for i in 0..all.len() {
            let Process { parent, ours, used, .. } = all[i];
            let child = parent == root || all.iter().any(|p| p.ours && p.pid == parent);
            if !ours && child {
                all[i].ours = true;
                total.memory += used.memory;
                total.cpu_us += used.cpu_us;
                total.processes += used.processes;
                found = true;
            }
        }
        if !found {
            return total;
        }
    }
}

/// Reads `/proc/PID/stat`. The name in brackets may contain anything.
fn parse(pid: u64, stat: &[u8]) -> Option<Process> {
    const PAGE: u64 = 4096;
    const US_PER_TICK: u64 = 10_000;
    let end = stat.iter().rposition(|b| *b == b')')?;
    let mut fields = [0u64; 22];
    let values = stat[end + 1..].trim_ascii().split(|b| *b == b' ');
    for (slot, value) in fields.iter_mut().zip(values) {
        *slot = number(value).unwrap_or(0);
    }
    // State is 0, parent 1, CPU time of the process 11 and 12, of its reaped children 13 and 14, threads 17, RSS 21.
    let used = Use {
        memory: fields[21] * PAGE,
        cpu_us: fields[11..=14].iter().sum::<u64>() * US_PER_TICK,
        processes: fields[17],
    };
    Some(Process { pid, parent: fields[1], used, ours: false })
}

/// Kills every child of this process, which as subreaper gets every orphan, until none is left.
pub fn end() {
    let mut buffer = [0u8; 4096];
    // Bounded: whatever forks faster than this is ended by its limits.
    for _ in 0..10_000 {
        let children = slurp(c"/proc/thread-self/children", &mut buffer).unwrap_or(b"");
        for pid in whole(children) {
            let _ = sys::kill(pid, sys::SIGKILL);
        }
        if sys::wait(-1, sys::WALL).is_err() {
            return;
        }
    }
}

/// The ids of a list, each of which ends with a space. One that was cut off at the end of what was read is somebody else's.
fn whole(list: &[u8]) -> impl Iterator<Item = i32> + '_ {
    let end = list.iter().rposition(|b| *b == b' ').unwrap_or(0);
    let ids = list[..end].split(|b| *b == b' ').filter_map(number);
    // 0 would be this process's own group.
    ids.filter_map(|id| i32::try_from(id).ok()).filter(|id| *id > 1)
}

fn number(text: &[u8]) -> Option<u64> {
    core::str::from_utf8(text).ok()?.parse().ok()
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_line_of_proc_stat() {
        let line = b"7 (a ) b) S 3 7 7 0 -1 4 0 0 0 0 10 20 1 2 20 0 5 0 4242 1 30 9\n";
        let used = Use { memory: 30 * 4096, cpu_us: 330_000, processes: 5 };
        assert_eq!(parse(7, line), Some(Process { pid: 7, parent: 3, used, ours: false }));
        assert_eq!(parse(7, b"no brackets"), None);
    }

    #[test]
    fn only_whole_ids_are_ended() {
        for (list, want) in [
            ("12 345 ", &[12, 345][..]),
            ("12 34", &[12]),
            ("12", &[]),
            ("", &[]),
            ("0 1 -1 7 x 8 ", &[7, 8]),
        ] {
            assert_eq!(whole(list.as_bytes()).collect::<std::vec::Vec<_>>(), want, "{list:?}");
        }
    }

    #[test]
    fn the_share_of_a_process() {
        let rollup =
            b"5581-7ffd ---p 0 00:00 0    [rollup]\nRss:      900 kB\nPss:      120 kB\nPss_Anon: 7 kB\n";
        assert_eq!(share(rollup), Some(120 * 1024));
        for bad in [&b"Rss: 900 kB\n"[..], b"Pss: 12", b"Pss: x kB\n", b"Pss: 99999999999999999999 kB\n", b""]
        {
            assert_eq!(share(bad), None, "{}", std::string::String::from_utf8_lossy(bad));
        }
    }

    #[test]
    fn only_descendants_count_in_any_order() {
        let one = Use { memory: 1, cpu_us: 1, processes: 1 };
        let p = |pid, parent| Process { pid, parent, used: one, ours: false };
        let mut all = [p(30, 20), p(20, 10), p(10, 5), p(99, 1), p(98, 99), p(5, 1)];
        assert_eq!(sum(&mut all, 5).processes, 3);
    }
}
