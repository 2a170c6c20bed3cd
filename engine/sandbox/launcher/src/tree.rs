//! The processes of a sandbox as init sees them: measures their resources where there is no cgroup, and ends
//! them where there is no pid namespace.

use crate::anonymous::Files;
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
    /// Whose folder of `/proc` shows its memory: itself, or another thread where its first one has ended.
    shown: u64,
    used: Use,
    /// Size of its address space.
    space: u64,
    /// Resident part of its memory, `used.memory`, without its page tables.
    resident: u64,
    /// Memory as `/proc/PID/status` has it; zero until that is read.
    detail: Detail,
    ours: bool,
}

/// Memory of one process, from `/proc/PID/status`.
#[derive(Clone, Copy, Default, Debug, PartialEq, Eq)]
struct Detail {
    /// Page tables.
    tables: u64,
    /// Resident part of files in memory: of scratch, of segments, and of shared anonymous memory. It counts for
    /// these, and not for the process.
    files: u64,
    /// Size of the mappings that may be shared: all but those that are private and writable.
    shareable: u64,
}

impl Process {
    /// Its own memory, without that of files in memory.
    fn own(&self) -> u64 {
        self.used.memory.saturating_sub(self.detail.files)
    }
}

/// Maximum number of processes counted; more than any sandbox may have by default.
const MAX_PROCESSES: usize = 2048;

/// Time limit in nanoseconds for measuring shared pages, since a program can make it long; after that they
/// count as resident.
const SHARES_TIMEOUT_NS: u64 = 300_000_000;

/// Sums memory, CPU time and threads over all descendants of this process, without the process itself.
///
/// Memory is the resident memory plus the page tables, which a program can make large without resident
/// memory, plus shared anonymous memory, which need not be resident in any process. It is measured only as
/// exactly as is needed to tell whether it exceeds `limit`, and the result may be too high, and too low only by
/// what [`Files`] does not see:
///
/// 1. Resident memory, if even the whole address space is within the limit.
/// 2. With the page tables of each process, if even all shareable mappings are within the limit.
/// 3. Shared anonymous memory counts once for all processes, with the size of its mappings, in place of its
///    resident part.
/// 4. Other shared pages count once for each process up to here: this is cheap to read, but too high if a
///    program forks workers. While the sum exceeds `limit`, processes are therefore measured again one by one,
///    counting their share of each page, as far as the kernel reports it.
// Never inlined: its table of 192 KiB would become part of the waiting function's frame, and be touched even
// when unused.
#[inline(never)]
pub fn used(limit: u64, files: &mut Files) -> Use {
    let mut all = [Process::default(); MAX_PROCESSES];
    let mut count = 0;
    let Ok(proc) = sys::openat(sys::AT_FDCWD, c"/proc", sys::O_RDONLY | sys::O_DIRECTORY, 0) else {
        return Use::default();
    };
    let mut buffer = [0u8; 4096];
    let _ = names::each(proc, |name| {
        let Some(pid) = number(name.to_bytes()) else { return Ok(()) };
        if let Some(process) = stat_of(pid, &mut buffer) {
            *all.get_mut(count).ok_or(Errno::AGAIN)? = process;
            count += 1;
        }
        Ok(())
    });
    sys::close(proc);
    let all = &mut all[..count];
    let mut total = sum(all, u64::from(sys::getpid().unsigned_abs()));
    let spaces = all.iter().filter(|p| p.ours).map(|p| p.space);
    if spaces.fold(total.memory, u64::saturating_add) <= limit {
        files.forget();
        return total;
    }
    let mut shareable = 0u64;
    for process in all.iter_mut().filter(|p| p.ours) {
        let detail = detail_of(process.shown, process.space, &mut buffer);
        process.detail = detail;
        // In place of the tables that were assumed.
        process.used.memory = process.resident.saturating_add(detail.tables);
        shareable = shareable.saturating_add(detail.shareable);
    }
    let ours = || all.iter().filter(|p| p.ours);
    total.memory = ours().map(|p| p.used.memory).fold(0, u64::saturating_add);
    if total.memory.saturating_add(shareable) <= limit {
        files.forget();
        return total;
    }
    files.look(ours().map(|p| (p.pid, p.shown, p.detail.shareable)));
    total.memory = ours().map(Process::own).fold(files.bytes(), u64::saturating_add);
    // These exceed the limit whatever else is shared, and would take long to measure.
    if files.bytes() > limit || ours().any(|p| p.own() > limit) {
        return total;
    }
    let begun = sys::now();
    for process in ours() {
        if total.memory <= limit || sys::now() - begun > SHARES_TIMEOUT_NS {
            break;
        }
        if let Some(share) = share_of(process.shown, &mut buffer) {
            let resident = process.own().saturating_sub(process.detail.tables);
            total.memory = total.memory.saturating_sub(resident).saturating_add(share);
        }
    }
    total
}

/// One process. The memory of one whose first thread has ended is shown by its other threads.
fn stat_of(pid: u64, buffer: &mut [u8]) -> Option<Process> {
    const ENDED: u8 = b'Z';
    let (mut process, state) = parse(pid, stat(pid, buffer)?)?;
    if state == ENDED && process.used.processes > 1 {
        let threads = Text::of(format_args!("/proc/{pid}/task"));
        let flags = sys::O_RDONLY | sys::O_DIRECTORY;
        if let Ok(threads) = sys::openat(sys::AT_FDCWD, threads.cstr(), flags, 0) {
            // Stops at the first that runs.
            let _ = names::each(threads, |name| {
                let Some(thread) = number(name.to_bytes()) else { return Ok(()) };
                let Some((it, state)) = stat(thread, buffer).and_then(|stat| parse(thread, stat)) else {
                    return Ok(());
                };
                if state == ENDED {
                    return Ok(());
                }
                (process.shown, process.space, process.resident) = (thread, it.space, it.resident);
                process.used.memory = it.used.memory;
                Err(Errno::AGAIN)
            });
            sys::close(threads);
        }
    }
    // The most that its page tables can be, unless they are measured.
    process.used.memory = process.used.memory.saturating_add(process.space / 512);
    Some(process)
}

fn stat(pid: u64, buffer: &mut [u8]) -> Option<&[u8]> {
    slurp(Text::of(format_args!("/proc/{pid}/stat")).cstr(), buffer).ok()
}

/// Memory of one process without that of files in memory, with each page divided by the number of processes
/// that share it.
fn share_of(pid: u64, buffer: &mut [u8]) -> Option<u64> {
    let rollup = slurp(Text::of(format_args!("/proc/{pid}/smaps_rollup")).cstr(), buffer).ok()?;
    Some(kib(rollup, b"Pss:")?.saturating_sub(kib(rollup, b"Pss_Shmem:").unwrap_or(0)))
}

/// The parts of one process's memory; the most that is possible where the kernel does not tell.
fn detail_of(pid: u64, space: u64, buffer: &mut [u8]) -> Detail {
    let status = slurp(Text::of(format_args!("/proc/{pid}/status")).cstr(), buffer).unwrap_or(b"");
    detail(status, space)
}

fn detail(status: &[u8], space: u64) -> Detail {
    let size = kib(status, b"VmSize:").unwrap_or(space);
    let private = [&b"VmData:"[..], b"VmStk:"].into_iter().filter_map(|name| kib(status, name));
    Detail {
        tables: kib(status, b"VmPTE:").unwrap_or(space / 512),
        files: kib(status, b"RssShmem:").unwrap_or(0),
        shareable: private.fold(size, u64::saturating_sub),
    }
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

/// Parses `/proc/PID/stat`; returns the state, too. The name in parentheses may contain anything.
fn parse(pid: u64, stat: &[u8]) -> Option<(Process, u8)> {
    const PAGE_BYTES: u64 = 4096;
    const US_PER_TICK: u64 = 10_000;
    let end = stat.iter().rposition(|b| *b == b')')?;
    let mut fields = [0u64; 22];
    let values = stat[end + 1..].trim_ascii().split(|b| *b == b' ');
    let state = values.clone().next()?.first().copied()?;
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
    let (parent, space) = (fields[1], fields[20]);
    Some((Process { pid, parent, shown: pid, used, space, resident, ..Process::default() }, state))
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
        let resident = 30 * 4096;
        let process = Process { pid: 7, parent: 3, shown: 7, used, space: 1, resident, ..Process::default() };
        assert_eq!(parse(7, line), Some((process, b'S')));
        assert_eq!(parse(7, b"no brackets"), None);
        assert_eq!(parse(7, b"7 (x)"), None);
    }

    #[test]
    fn status_separates_own_memory_from_files() {
        let status =
            b"VmSize:\t  900 kB\nVmData:\t 100 kB\nVmStk:\t 50 kB\nRssShmem:\t 30 kB\nVmPTE:\t 4 kB\n";
        let all = Detail { tables: 4096, files: 30 * 1024, shareable: 750 * 1024 };
        for (status, want) in [
            (&status[..], all),
            // An ended process, or a status that is cut off: the most that is possible.
            (b"", Detail { tables: 2048, files: 0, shareable: 1 << 20 }),
            (b"VmSize:\t 8 kB\nVmData:\t 9 kB\n", Detail { tables: 2048, files: 0, shareable: 0 }),
        ] {
            assert_eq!(detail(status, 1 << 20), want, "{}", std::string::String::from_utf8_lossy(status));
        }
        let used = Use { memory: 34 * 1024, ..Use::default() };
        assert_eq!(Process { used, detail: all, ..Process::default() }.own(), 4096);
    }

    #[test]
    fn process_whose_first_thread_has_ended_is_measured_by_another() {
        let mut buffer = [0; 4096];
        let own = u64::from(std::process::id());
        let process = stat_of(own, &mut buffer).unwrap();
        assert!(process.resident > 0 && process.space > process.resident);
        // The test's thread shows the memory that it shares with the first one.
        let thread = std::fs::read_link("/proc/thread-self").unwrap();
        let thread = thread.file_name().unwrap().to_str().unwrap().parse().unwrap();
        let (seen, _) = parse(thread, stat(thread, &mut buffer).unwrap()).unwrap();
        assert!(seen.resident > 0 && seen.parent == process.parent);
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
        let p = |pid, parent| Process { pid, parent, used: one, resident: 1, ..Process::default() };
        let mut all = [p(30, 20), p(20, 10), p(10, 5), p(99, 1), p(98, 99), p(5, 1)];
        assert_eq!(sum(&mut all, 5).processes, 3);
    }
}
