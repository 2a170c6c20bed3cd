//! The processes of a sandbox as init sees them: measures their resources where there is no cgroup, and ends
//! them where there is no pid namespace.

use crate::names;
use crate::readback::slurp;
use crate::sys::{self, Errno};
use crate::text::Text;

/// Current resource usage of a whole tree.
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
    /// Resident part of its memory; the rest are its page tables.
    resident: u64,
    ours: bool,
}

/// Size of address space in bytes up to which the maximum size of the page tables (one page for each 2 MiB)
/// is assumed instead of measured.
const SMALL_SPACE_BYTES: u64 = 128 << 20;

/// Maximum number of processes counted; more than any sandbox may have by default.
const MAX_PROCESSES: usize = 2048;

/// Time limit in nanoseconds for measuring shared pages, since a program can make it long; after that they
/// count as resident.
const SHARES_TIMEOUT_NS: u64 = 300_000_000;

/// Sums memory, CPU time and threads over all descendants of this process, without the process itself.
///
/// Memory is the resident memory plus the page tables, which a program can make large without resident
/// memory. Shared pages count once for each process: this is cheap to read, but too high if a program forks
/// workers. While the sum exceeds `limit`, processes are therefore measured again one by one, counting their
/// share of each page, as far as the kernel reports it. The result may still be too high, never too low.
// Never inlined: its table of 96 KiB would become part of the waiting function's frame, and be touched even
// when unused.
#[inline(never)]
pub fn used(limit: u64) -> Use {
    let mut all = [Process::default(); MAX_PROCESSES];
    let mut count = 0;
    let Ok(proc) = sys::openat(sys::AT_FDCWD, c"/proc", sys::O_RDONLY | sys::O_DIRECTORY, 0) else {
        return Use::default();
    };
    let mut buffer = [0u8; 1024];
    let _ = names::each(proc, |name| {
        let Some(pid) = number(name.to_bytes()) else { return Ok(()) };
        let stat = slurp(Text::of(format_args!("/proc/{pid}/stat")).cstr(), &mut buffer);
        if let Some((mut process, space)) = stat.ok().and_then(|stat| parse(pid, stat)) {
            let tables = if space <= SMALL_SPACE_BYTES { None } else { tables_of(pid, &mut buffer) };
            process.used.memory += tables.unwrap_or(space / 512);
            *all.get_mut(count).ok_or(Errno::AGAIN)? = process;
            count += 1;
        }
        Ok(())
    });
    sys::close(proc);
    let all = &mut all[..count];
    let mut total = sum(all, u64::from(sys::getpid().unsigned_abs()));
    // A single process beyond the limit exceeds it whatever it shares, and would take long to measure.
    if all.iter().any(|p| p.ours && p.used.memory > limit) {
        return total;
    }
    let begun = sys::now();
    for process in all.iter().filter(|p| p.ours) {
        if total.memory <= limit || sys::now() - begun > SHARES_TIMEOUT_NS {
            break;
        }
        if let Some(share) = share_of(process.pid, &mut buffer) {
            total.memory = total.memory.saturating_sub(process.resident).saturating_add(share);
        }
    }
    total
}

/// Memory of one process, with each page divided by the number of processes that share it.
fn share_of(pid: u64, buffer: &mut [u8]) -> Option<u64> {
    kib(slurp(Text::of(format_args!("/proc/{pid}/smaps_rollup")).cstr(), buffer).ok()?, b"Pss:")
}

/// Page tables of one process in bytes.
fn tables_of(pid: u64, buffer: &mut [u8]) -> Option<u64> {
    kib(slurp(Text::of(format_args!("/proc/{pid}/status")).cstr(), buffer).ok()?, b"VmPTE:")
}

/// Parses the line of this name in `/proc/PID/smaps_rollup` or `status`, which is in KiB; returns bytes.
fn kib(lines: &[u8], name: &[u8]) -> Option<u64> {
    let line = lines.split(|b| *b == b'\n').find_map(|line| line.strip_prefix(name))?;
    number(line.strip_suffix(b"kB")?.trim_ascii())?.checked_mul(1024)
}

/// Sums the descendants of `root`.
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

/// Parses `/proc/PID/stat`, including the size of the address space. The name in parentheses may contain
/// anything.
fn parse(pid: u64, stat: &[u8]) -> Option<(Process, u64)> {
    const PAGE_BYTES: u64 = 4096;
    const US_PER_TICK: u64 = 10_000;
    let end = stat.iter().rposition(|b| *b == b')')?;
    let mut fields = [0u64; 22];
    let values = stat[end + 1..].trim_ascii().split(|b| *b == b' ');
    for (slot, value) in fields.iter_mut().zip(values) {
        *slot = number(value).unwrap_or(0);
    }
    // Indices: state 0, parent 1, CPU time of the process 11 and 12, of its reaped children 13 and 14,
    // threads 17, size 20, RSS 21.
    let resident = fields[21] * PAGE_BYTES;
    let used = Use {
        memory: resident,
        cpu_us: fields[11..=14].iter().sum::<u64>() * US_PER_TICK,
        processes: fields[17],
    };
    Some((Process { pid, parent: fields[1], used, resident, ours: false }, fields[20]))
}

/// Kills all children of this process, which as subreaper gets every orphan, until none is left.
pub fn end() {
    let mut buffer = [0u8; 4096];
    // Bounded: a tree that forks faster than this is ended by its limits.
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

/// Parses a list of ids, each followed by a space. An id cut off at the end of the buffer is skipped, since
/// it could be another process's.
fn whole(list: &[u8]) -> impl Iterator<Item = i32> + '_ {
    let end = list.iter().rposition(|b| *b == b' ').unwrap_or(0);
    let ids = list[..end].split(|b| *b == b' ').filter_map(number);
    // 0 would mean this process's own group.
    ids.filter_map(|id| i32::try_from(id).ok()).filter(|id| *id > 1)
}

fn number(text: &[u8]) -> Option<u64> {
    core::str::from_utf8(text).ok()?.parse().ok()
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn proc_stat_line_is_parsed() {
        let line = b"7 (a ) b) S 3 7 7 0 -1 4 0 0 0 0 10 20 1 2 20 0 5 0 4242 1 30 9\n";
        let used = Use { memory: 30 * 4096, cpu_us: 330_000, processes: 5 };
        let process = Process { pid: 7, parent: 3, used, resident: 30 * 4096, ours: false };
        assert_eq!(parse(7, line), Some((process, 1)));
        assert_eq!(parse(7, b"no brackets"), None);
    }

    #[test]
    fn incomplete_process_ids_are_not_killed() {
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
    fn smaps_rollup_share_is_read() {
        let rollup =
            b"5581-7ffd ---p 0 00:00 0    [rollup]\nRss:      900 kB\nPss:      120 kB\nPss_Anon: 7 kB\n";
        assert_eq!(kib(rollup, b"Pss:"), Some(120 * 1024));
        assert_eq!(kib(b"VmData:\t 7 kB\nVmPTE:\t  525312 kB\n", b"VmPTE:"), Some(525_312 * 1024));
        for bad in [&b"Rss: 900 kB\n"[..], b"Pss: 12", b"Pss: x kB\n", b"Pss: 99999999999999999999 kB\n", b""]
        {
            assert_eq!(kib(bad, b"Pss:"), None, "{}", std::string::String::from_utf8_lossy(bad));
        }
    }

    #[test]
    fn descendants_are_counted_in_any_order() {
        let one = Use { memory: 1, cpu_us: 1, processes: 1 };
        let p = |pid, parent| Process { pid, parent, used: one, resident: 1, ours: false };
        let mut all = [p(30, 20), p(20, 10), p(10, 5), p(99, 1), p(98, 99), p(5, 1)];
        assert_eq!(sum(&mut all, 5).processes, 3);
    }
}
