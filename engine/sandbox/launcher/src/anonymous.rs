//! Measures shared anonymous memory (`MAP_SHARED | MAP_ANONYMOUS`, or `/dev/zero` mapped shared), where no
//! cgroup counts it. Its pages belong to a nameless file of the kernel and stay when a process drops them from
//! its page tables (`MADV_DONTNEED`, `fork`, a second mapping), so resident memory shows no part of them. An
//! ordinary user cannot ask how many pages such a file has; its size is known from its mappings. Parts that were
//! unmapped before they were seen are not known (docs/src/not-promised.md).

use crate::readback::slurp;
use crate::sys::{self, Fd};
use crate::text::Text;

/// Maximum number of files told apart; the mappings of more count one by one, which is never too low.
const MAX_FILES: usize = 512;
/// Time in nanoseconds after which a pass over the processes pauses, so that one sample does not take long. The
/// next sample continues it.
const PASS_PART_NS: u64 = 300_000_000;
/// Multiple of a pass's time that lies between it and the next one, and the maximum of that time in nanoseconds:
/// a program with many mappings costs about a tenth of a processor.
const PAUSE_FACTOR: u64 = 9;
const MAX_PAUSE_NS: u64 = 1_000_000_000;
/// Size of the buffer for a part of `/proc/PID/maps`. The kernel returns at most a page at once.
const BUFFER_BYTES: usize = 8192;

/// One nameless file.
#[derive(Clone, Copy, Default, Debug, PartialEq, Eq)]
struct Mapped {
    inode: u64,
    /// End of its last mapped part, the largest seen: the file keeps pages after parts of it are unmapped.
    bytes: u64,
    /// Whether this pass has seen it.
    seen: bool,
}

/// The nameless files of a tree, found in passes over its processes. A pass that takes long is continued by the
/// next sample; until its end, and between passes, files count as before.
pub struct Files {
    known: [Mapped; MAX_FILES],
    count: usize,
    /// Bytes that belong to no known file: of unreadable processes, and beyond the table.
    loose: u64,
    /// Those of the last complete pass.
    loose_before: u64,
    /// Process with which the pass continues.
    next: u64,
    /// Time that the pass has taken so far, and before which the next one does not begin.
    spent: u64,
    pause: u64,
}

/// A process has ended (proc_pid_maps(5)).
const ESRCH: sys::Errno = sys::Errno(3);

impl Files {
    pub const fn new() -> Self {
        let none = Mapped { inode: 0, bytes: 0, seen: false };
        Self { known: [none; MAX_FILES], count: 0, loose: 0, loose_before: 0, next: 0, spent: 0, pause: 0 }
    }

    /// Forgets all files: a tree that is too small to exceed its limit was not looked at.
    pub const fn forget(&mut self) {
        (self.count, self.loose, self.loose_before, self.next) = (0, 0, 0, 0);
        (self.spent, self.pause) = (0, 0);
    }

    /// Bytes of all files: an upper bound, since not all of their pages need exist.
    pub fn bytes(&self) -> u64 {
        let known = self.known[..self.count].iter();
        known.fold(self.loose.max(self.loose_before), |sum, file| sum.saturating_add(file.bytes))
    }

    /// Looks at processes, in the order of their ids: each with the one whose folder in `/proc` shows it, and the
    /// size of all its mappings that may be shared. Where the kernel does not show its mappings, as for a program
    /// that made itself non-dumpable, all of that counts.
    pub fn look(&mut self, processes: impl Iterator<Item = (u64, u64, u64)>) {
        let begun = sys::now();
        if begun < self.pause {
            return;
        }
        for (pid, shown, most) in processes {
            if pid < self.next {
                continue;
            }
            if sys::now() - begun > PASS_PART_NS {
                self.spent += sys::now() - begun;
                return;
            }
            self.look_at(shown, most);
            self.next = pid + 1;
        }
        let now = sys::now();
        self.pause = now + pause(self.spent + (now - begun));
        self.end_pass();
    }

    fn look_at(&mut self, pid: u64, most: u64) {
        let maps = Text::of(format_args!("/proc/{pid}/maps"));
        let opened = sys::openat(sys::AT_FDCWD, maps.cstr(), sys::O_RDONLY, 0);
        let read = opened.and_then(|maps| {
            let read = self.read(maps);
            sys::close(maps);
            read
        });
        // A process that has ended meanwhile has no mappings: the kernel says so of one that waits to be reaped, and
        // the folder of another is gone.
        let has_ended = read == Err(ESRCH);
        if read.is_err()
            && !has_ended
            && slurp(Text::of(format_args!("/proc/{pid}/stat")).cstr(), &mut [0; 1]).is_ok()
        {
            self.loose = self.loose.saturating_add(most);
        }
    }

    fn read(&mut self, maps: Fd) -> sys::Result<()> {
        let mut buffer = [0u8; BUFFER_BYTES];
        let mut kept = 0;
        loop {
            let read = sys::read(maps, &mut buffer[kept..])?;
            if read == 0 {
                return Ok(());
            }
            let end = kept + read;
            let whole = buffer[..end].iter().rposition(|b| *b == b'\n').map_or(0, |at| at + 1);
            for line in buffer[..whole].split(|b| *b == b'\n') {
                self.add(line);
            }
            // The rest of a line that is longer than the buffer is part of a path, and no line of its own is
            // made from it: nameless files have short names.
            kept = if whole == 0 && end == buffer.len() { 0 } else { end - whole };
            buffer.copy_within(whole..whole + kept, 0);
        }
    }

    /// Adds a line of `/proc/PID/maps`.
    fn add(&mut self, line: &[u8]) {
        let Some((inode, bytes, length)) = parse(line) else { return };
        if let Some(file) = self.known[..self.count].iter_mut().find(|file| file.inode == inode) {
            file.bytes = file.bytes.max(bytes);
            file.seen = true;
        } else if self.count < MAX_FILES {
            self.known[self.count] = Mapped { inode, bytes, seen: true };
            self.count += 1;
        } else {
            self.loose = self.loose.saturating_add(length);
        }
    }

    /// Ends a pass that has looked at every process: files that it has not seen are gone.
    fn end_pass(&mut self) {
        let mut left = 0;
        for at in 0..self.count {
            if self.known[at].seen {
                self.known[left] = Mapped { seen: false, ..self.known[at] };
                left += 1;
            }
        }
        self.count = left;
        (self.loose_before, self.loose, self.next, self.spent) = (self.loose, 0, 0, 0);
    }
}

/// Time between a pass that took `spent` and the next one.
fn pause(spent: u64) -> u64 {
    spent.saturating_mul(PAUSE_FACTOR).min(MAX_PAUSE_NS)
}

/// The file of a shared anonymous mapping, the end of the mapping in it, and the mapping's length, from a line of
/// `/proc/PID/maps`: addresses, permissions, offset, device, inode, name.
fn parse(line: &[u8]) -> Option<(u64, u64, u64)> {
    let mut words = line.splitn(6, |b| *b == b' ');
    let mut addresses = words.next()?.split(|b| *b == b'-').map(hex);
    let shared = words.next()?.get(3) == Some(&b's');
    let offset = words.next()?;
    let _device = words.next()?;
    let inode = core::str::from_utf8(words.next()?).ok()?;
    let name = words.next()?.trim_ascii_start();
    // The second name is given by PR_SET_VMA, which the kernel accepts for no other shared mapping.
    let nameless = [&b"/dev/zero (deleted)"[..], b"[anon_shmem:", b"/memfd:"];
    if !shared || !nameless.iter().any(|prefix| name.starts_with(prefix)) {
        return None;
    }
    let (begin, end) = (addresses.next()??, addresses.next()??);
    let length = end.checked_sub(begin)?;
    Some((inode.parse().ok()?, hex(offset)?.checked_add(length)?, length))
}

fn hex(text: &[u8]) -> Option<u64> {
    u64::from_str_radix(core::str::from_utf8(text).ok()?, 16).ok()
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn shared_anonymous_mappings_are_recognised() {
        let head = "7f3deac9b000-7f3deac9d000 ";
        for (rest, want) in [
            ("rw-s 00000000 00:01 176877                     /dev/zero (deleted)", Some((176_877, 0x2000))),
            ("---s 00001000 00:01 7                          /dev/zero (deleted)", Some((7, 0x3000))),
            ("rw-s 00000000 00:01 8                          [anon_shmem:x y]", Some((8, 0x2000))),
            ("rw-s 00000000 00:01 9                          /memfd:x (deleted)", Some((9, 0x2000))),
            ("rw-p 00000000 00:00 0 ", None),
            ("rw-p 00000000 00:01 7                          /dev/zero (deleted)", None),
            ("r--s 00000000 00:06 4                          /dev/zero", None),
            ("rw-s 00000000 00:2a 5                          /dev/shm/x (deleted)", None),
            ("rw-s 00000000 00:01 3                          /SYSV00000000 (deleted)", None),
            ("rw-s fffffffffffff000 00:01 3                  /dev/zero (deleted)", None),
            ("rw-s", None),
            ("", None),
        ] {
            let got = parse(std::format!("{head}{rest}").as_bytes());
            assert_eq!(got.map(|(inode, bytes, _)| (inode, bytes)), want, "{rest}");
        }
    }

    #[test]
    fn file_counts_once_and_until_a_pass_without_it() {
        let line = |inode: u64, offset: u64, length: u64| {
            std::format!("1000-{:x} rw-s {offset:x} 00:01 {inode}    /dev/zero (deleted)", 0x1000 + length)
        };
        let mut files = Files::new();
        // Ten processes map one file, another has a second mapping of a part.
        for _ in 0..10 {
            files.add(line(1, 0, 0x5000).as_bytes());
        }
        files.add(line(1, 0x1000, 0x1000).as_bytes());
        files.add(line(2, 0x3000, 0x1000).as_bytes());
        assert_eq!(files.bytes(), 0x5000 + 0x4000);
        files.end_pass();
        assert_eq!(files.bytes(), 0x5000 + 0x4000);
        // Only a part of it is mapped now: the file keeps the rest.
        files.add(line(1, 0, 0x1000).as_bytes());
        assert_eq!(files.bytes(), 0x5000 + 0x4000, "the pass has not ended");
        files.end_pass();
        assert_eq!(files.bytes(), 0x5000);
        files.forget();
        assert_eq!(files.bytes(), 0);
        // More files than the table holds.
        for inode in 0..600 {
            files.add(line(inode, 0, 0x1000).as_bytes());
        }
        files.end_pass();
        assert_eq!(files.bytes(), 600 * 0x1000);
        files.end_pass();
        assert_eq!(files.bytes(), 0);
    }

    #[test]
    fn passes_take_at_most_a_tenth_of_the_time() {
        for (spent, want) in [(0, 0), (2_000_000, 18_000_000), (400_000_000, MAX_PAUSE_NS)] {
            assert_eq!(pause(spent), want, "{spent}");
        }
    }

    #[test]
    fn processes_without_readable_mappings_count_whole() {
        let mut files = Files::new();
        files.look_at(u64::MAX, 1 << 30);
        assert_eq!(files.bytes(), 0, "it has ended");
        let own = u64::from(std::process::id());
        files.look_at(own, 1 << 30);
        assert!(files.bytes() < 1 << 30, "its own are readable");
    }

    #[test]
    fn pass_continues_where_it_stopped_and_then_pauses() {
        let own = u64::from(std::process::id());
        let mut files = Files::new();
        files.add(b"1000-2000 rw-s 0 00:01 1    /dev/zero (deleted)");
        files.next = own + 1;
        files.look([(own, u64::MAX, 0)].into_iter());
        assert_eq!((files.next, files.count), (0, 1), "its last process had been looked at");
        assert!(files.pause > 0);
        // Meanwhile nothing is looked at, and the file stays.
        files.pause = u64::MAX;
        files.look([].into_iter());
        assert_eq!(files.count, 1);
        files.pause = 0;
        files.look([].into_iter());
        assert_eq!(files.count, 0);
    }
}
