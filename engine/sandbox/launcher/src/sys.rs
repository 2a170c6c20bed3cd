//! Raw system calls, thin and typed. Makes no decisions: every function is one call of the kernel.
//!
//! Raw, because the runner shares init's memory until it executes, and would also share a C library's
//! thread-local state.

// By the kernel's contract its results fit their types: descriptors and process ids are ints.
#![allow(clippy::cast_possible_truncation)]

use core::ffi::CStr;

/// An error number of the kernel. `errno(3)`
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Errno(pub i32);

impl Errno {
    pub const PERM: Self = Self(1);
    pub const NOENT: Self = Self(2);
    pub const INTR: Self = Self(4);
    pub const BADF: Self = Self(9);
    pub const AGAIN: Self = Self(11);
    pub const ACCES: Self = Self(13);
    pub const EXIST: Self = Self(17);
    pub const NOTDIR: Self = Self(20);
    pub const INVAL: Self = Self(22);
    pub const TXTBSY: Self = Self(26);
    pub const NOSYS: Self = Self(38);
    pub const PROTO: Self = Self(71);
    pub const STALE: Self = Self(116);
}

pub type Result<T> = core::result::Result<T, Errno>;

/// Makes a system call with six arguments; negative results are error numbers.
///
/// # Safety
/// The arguments must be valid for the call with this number, and pointers valid for everything that it reads
/// and writes.
#[cfg(target_arch = "x86_64")]
unsafe fn syscall(n: usize, a: [usize; 6]) -> isize {
    let result: isize;
    // SAFETY: the caller's contract; the kernel clobbers rcx and r11 and nothing else.
    unsafe {
        core::arch::asm!("syscall", inlateout("rax") n as isize => result,
            in("rdi") a[0], in("rsi") a[1], in("rdx") a[2], in("r10") a[3], in("r8") a[4], in("r9") a[5],
            lateout("rcx") _, lateout("r11") _, options(nostack));
    }
    result
}

/// Makes a system call with six arguments; negative results are error numbers.
///
/// # Safety
/// The arguments must be valid for the call with this number, and pointers valid for everything that it reads
/// and writes.
#[cfg(target_arch = "aarch64")]
unsafe fn syscall(n: usize, a: [usize; 6]) -> isize {
    let result: isize;
    // SAFETY: the caller's contract.
    unsafe {
        core::arch::asm!("svc 0", in("x8") n, inlateout("x0") a[0] as isize => result,
            in("x1") a[1], in("x2") a[2], in("x3") a[3], in("x4") a[4], in("x5") a[5], options(nostack));
    }
    result
}

#[allow(clippy::cast_sign_loss, clippy::cast_possible_truncation)] // error numbers lie in -4095..0
fn check(result: isize) -> Result<usize> {
    if result < 0 { Err(Errno(-result as i32)) } else { Ok(result as usize) }
}

macro_rules! call {
    ($n:expr $(, $a:expr)* $(,)?) => {{
        let given = [$($a as usize),*];
        let mut six = [0usize; 6];
        six[..given.len()].copy_from_slice(&given);
        // SAFETY: every caller below passes pointers from references that live across the call, with their
        // true lengths, and numbers otherwise.
        check(unsafe { syscall($n, six) })
    }};
}

mod message;
mod mounts;
mod numbers;
mod process;
mod terminal;

pub use message::{Received, receive, send};
pub use mounts::*;
use numbers::{new_nr, nr};
pub use process::*;
pub use terminal::*;

pub type Fd = i32;
pub const AT_FDCWD: Fd = -100;

pub fn exit(code: i32) -> ! {
    loop {
        let _ = call!(nr::EXIT_GROUP, code);
    }
}

pub fn close(fd: Fd) {
    let _ = call!(nr::CLOSE, fd);
}

/// Closes every descriptor from `first` to `last`.
pub fn close_range(first: u32, last: u32, flags: u32) -> Result<()> {
    call!(new_nr::CLOSE_RANGE, first, last, flags).map(drop)
}
pub const CLOSE_RANGE_UNSHARE: u32 = 1 << 1;
pub const CLOSE_RANGE_CLOEXEC: u32 = 1 << 2;

pub fn read(fd: Fd, into: &mut [u8]) -> Result<usize> {
    call!(nr::READ, fd, into.as_mut_ptr(), into.len())
}

pub fn write(fd: Fd, bytes: &[u8]) -> Result<usize> {
    call!(nr::WRITE, fd, bytes.as_ptr(), bytes.len())
}

pub const O_RDONLY: u32 = 0;
pub const O_WRONLY: u32 = 1;
pub const O_RDWR: u32 = 2;
pub const O_CREAT: u32 = 0o100;
pub const O_EXCL: u32 = 0o200;
pub const O_NOCTTY: u32 = 0o400;
pub const O_NONBLOCK: u32 = 0o4000;
pub const O_CLOEXEC: u32 = 0o2_000_000;
#[cfg(target_arch = "x86_64")]
pub const O_DIRECTORY: u32 = 0o200_000;
#[cfg(target_arch = "aarch64")]
pub const O_DIRECTORY: u32 = 0o40_000;
#[cfg(target_arch = "x86_64")]
pub const O_NOFOLLOW: u32 = 0o400_000;
#[cfg(target_arch = "aarch64")]
pub const O_NOFOLLOW: u32 = 0o100_000;
pub const O_PATH: u32 = 0o10_000_000;

pub fn openat(dir: Fd, path: &CStr, flags: u32, mode: u32) -> Result<Fd> {
    call!(nr::OPENAT, dir, path.as_ptr(), flags | O_CLOEXEC, mode).map(|fd| fd as Fd)
}

#[repr(C)]
struct OpenHow {
    flags: u64,
    mode: u64,
    resolve: u64,
}
pub const RESOLVE_NO_MAGICLINKS: u64 = 0x02;
pub const RESOLVE_NO_SYMLINKS: u64 = 0x04;
pub const RESOLVE_IN_ROOT: u64 = 0x10;

pub fn openat2(dir: Fd, path: &CStr, flags: u32, resolve: u64) -> Result<Fd> {
    let how = OpenHow { flags: u64::from(flags | O_CLOEXEC), mode: 0, resolve };
    call!(new_nr::OPENAT2, dir, path.as_ptr(), &raw const how, size_of::<OpenHow>()).map(|fd| fd as Fd)
}

pub fn mkdirat(dir: Fd, path: &CStr, mode: u32) -> Result<()> {
    call!(nr::MKDIRAT, dir, path.as_ptr(), mode).map(drop)
}

/// Removes the empty folder `path` below `dir`.
pub fn rmdir(dir: Fd, path: &CStr) -> Result<()> {
    const AT_REMOVEDIR: u32 = 0x200;
    call!(nr::UNLINKAT, dir, path.as_ptr(), AT_REMOVEDIR).map(drop)
}

pub fn symlinkat(says: &CStr, dir: Fd, path: &CStr) -> Result<()> {
    call!(nr::SYMLINKAT, says.as_ptr(), dir, path.as_ptr()).map(drop)
}

/// `struct stat`: device and inode come first on both architectures; the mode is at 24 or 16.
#[repr(C, align(8))]
pub struct Stat {
    pub dev: u64,
    pub ino: u64,
    rest: [u32; 32],
}

impl Stat {
    const fn new() -> Self {
        Self { dev: 0, ino: 0, rest: [0; 32] }
    }

    /// File type and permissions.
    pub const fn mode(&self) -> u32 {
        self.rest[if cfg!(target_arch = "x86_64") { 2 } else { 0 }]
    }
}

/// File type and permissions of `name` below `dir`; for a link, of the link itself.
pub fn mode_of(dir: Fd, name: &CStr) -> Result<u32> {
    const SYMLINK_NOFOLLOW: u32 = 0x100;
    let mut stat = Stat::new();
    call!(nr::NEWFSTATAT, dir, name.as_ptr(), &raw mut stat, SYMLINK_NOFOLLOW).map(|_| stat.mode())
}

pub fn fchmod(fd: Fd, mode: u32) -> Result<()> {
    call!(nr::FCHMOD, fd, mode).map(drop)
}

pub fn readlinkat(dir: Fd, name: &CStr, into: &mut [u8]) -> Result<usize> {
    call!(nr::READLINKAT, dir, name.as_ptr(), into.as_mut_ptr(), into.len())
}

/// Sets an extended attribute of an open file.
pub fn fsetxattr(fd: Fd, name: &CStr, value: &[u8]) -> Result<()> {
    call!(nr::FSETXATTR, fd, name.as_ptr(), value.as_ptr(), value.len(), 0).map(drop)
}

pub fn fstat(fd: Fd) -> Result<Stat> {
    let mut stat = Stat::new();
    call!(nr::NEWFSTATAT, fd, c"".as_ptr(), &raw mut stat, AT_EMPTY_PATH).map(|_| stat)
}

pub fn stat(path: &CStr) -> Result<Stat> {
    let mut stat = Stat::new();
    call!(nr::NEWFSTATAT, AT_FDCWD, path.as_ptr(), &raw mut stat, 0).map(|_| stat)
}

/// `struct statfs` of 64-bit architectures.
#[repr(C)]
#[derive(Default)]
pub struct StatFs {
    words: [u64; 10],
    pub flags: u64,
    spare: [u64; 4],
}
pub const ST_RDONLY: u64 = 1;
pub const ST_NOSUID: u64 = 2;

pub fn fstatfs(fd: Fd) -> Result<StatFs> {
    let mut stat = StatFs::default();
    call!(nr::FSTATFS, fd, &raw mut stat).map(|_| stat)
}

pub fn getdents(fd: Fd, into: &mut [u8]) -> Result<usize> {
    call!(nr::GETDENTS64, fd, into.as_mut_ptr(), into.len())
}

/// Makes a pipe; returns read end and write end, both close-on-exec.
pub fn pipe() -> Result<[Fd; 2]> {
    let mut ends = [0 as Fd; 2];
    call!(nr::PIPE2, ends.as_mut_ptr(), O_CLOEXEC).map(|_| ends)
}

/// Makes a connected pair of sockets that preserve message boundaries.
pub fn socket_pair() -> Result<[Fd; 2]> {
    const AF_UNIX: i32 = 1;
    const SEQPACKET_CLOEXEC: u32 = 5 | O_CLOEXEC;
    let mut ends = [0 as Fd; 2];
    call!(nr::SOCKETPAIR, AF_UNIX, SEQPACKET_CLOEXEC, 0, ends.as_mut_ptr()).map(|_| ends)
}

pub fn umask(mask: u32) {
    let _ = call!(nr::UMASK, mask);
}

pub fn chdir(path: &CStr) -> Result<()> {
    call!(nr::CHDIR, path.as_ptr()).map(drop)
}

pub fn fchdir(fd: Fd) -> Result<()> {
    call!(nr::FCHDIR, fd).map(drop)
}

pub fn dup3(from: Fd, to: Fd, flags: u32) -> Result<()> {
    call!(nr::DUP3, from, to, flags).map(drop)
}

/// Duplicates a descriptor to the first free number from `least` on, close-on-exec.
pub fn dup_above(from: Fd, least: Fd) -> Result<Fd> {
    const F_DUPFD_CLOEXEC: i32 = 1030;
    call!(nr::FCNTL, from, F_DUPFD_CLOEXEC, least).map(|fd| fd as Fd)
}

// Signals.

/// Sets the default action for every signal. Errors for the two that cannot be changed are ignored.
pub fn default_signals() {
    // struct sigaction of the kernel: handler, flags, restorer (x86_64), mask. All zero is SIG_DFL.
    let zero = [0u64; 4];
    for signal in 1..=64 {
        let _ = call!(nr::RT_SIGACTION, signal, zero.as_ptr(), 0, 8);
    }
}

/// Makes the kernel reap children itself.
pub fn reap_by_kernel() {
    const SA_NOCLDWAIT: u64 = 2;
    let action = [0u64, SA_NOCLDWAIT, 0, 0];
    let _ = call!(nr::RT_SIGACTION, SIGCHLD, action.as_ptr(), 0, 8);
}

pub fn default_sigchld() {
    let zero = [0u64; 4];
    let _ = call!(nr::RT_SIGACTION, SIGCHLD, zero.as_ptr(), 0, 8);
}

/// Replaces the mask of blocked signals.
pub fn block_signals(mask: u64) {
    const SIG_SETMASK: u32 = 2;
    let _ = call!(nr::RT_SIGPROCMASK, SIG_SETMASK, &raw const mask, 0, 8);
}

/// Makes a descriptor that is readable while a blocked SIGCHLD is pending.
pub fn sigchld_fd() -> Result<Fd> {
    let mask = 1u64 << (SIGCHLD - 1);
    const CLOEXEC_NONBLOCK: u32 = 0o2_004_000;
    call!(nr::SIGNALFD4, -1isize, &raw const mask, 8, CLOEXEC_NONBLOCK).map(|fd| fd as Fd)
}

// Waiting.

#[repr(C)]
#[derive(Clone, Copy)]
pub struct PollFd {
    pub fd: Fd,
    pub events: i16,
    pub revents: i16,
}
pub const POLLIN: i16 = 1;
pub const POLLHUP: i16 = 16;
pub const POLLERR: i16 = 8;

/// Waits for an event; a `timeout_ms` below 0 waits forever.
pub fn poll(fds: &mut [PollFd], timeout_ms: i64) -> Result<usize> {
    let time = [timeout_ms / 1000, timeout_ms % 1000 * 1_000_000];
    let time = if timeout_ms < 0 { core::ptr::null() } else { time.as_ptr() };
    call!(nr::PPOLL, fds.as_mut_ptr(), fds.len(), time, 0, 0)
}

const FUTEX_WAIT: u32 = 0;
const FUTEX_WAKE: u32 = 1;

/// Sleeps while `*word` is `value`. May wake early.
pub fn futex_wait(word: &core::sync::atomic::AtomicU32, value: u32) {
    let _ = call!(nr::FUTEX, word.as_ptr(), FUTEX_WAIT, value, 0);
}

pub fn futex_wake(word: &core::sync::atomic::AtomicU32) {
    let _ = call!(nr::FUTEX, word.as_ptr(), FUTEX_WAKE, i32::MAX);
}

/// Nanoseconds of the monotonic clock.
pub fn now() -> u64 {
    let mut time = [0u64; 2];
    let _ = call!(nr::CLOCK_GETTIME, 1, time.as_mut_ptr());
    time[0] * 1_000_000_000 + time[1]
}

// Memory.

/// Maps `len` bytes of `fd` privately, readable and writable; if `fd` is -1, fresh zeroed memory.
///
/// The mapping is never removed implicitly: it lives as long as the process, hence the `'static` slice.
pub fn map(fd: Fd, len: usize) -> Result<&'static mut [u8]> {
    const READ_WRITE: u32 = 3;
    const MAP_PRIVATE: u32 = 2;
    const MAP_ANONYMOUS: u32 = 0x20;
    if len == 0 {
        return Ok(&mut []);
    }
    let flags = MAP_PRIVATE | if fd < 0 { MAP_ANONYMOUS } else { 0 };
    let at = call!(nr::MMAP, 0, len, READ_WRITE, flags, fd as isize, 0)?;
    // SAFETY: the kernel returned a fresh mapping of `len` bytes that nothing else refers to.
    Ok(unsafe { core::slice::from_raw_parts_mut(at as *mut u8, len) })
}

/// Removes a mapping made by [`map`].
///
/// # Safety
/// Nothing may refer to the slice's memory afterwards.
pub unsafe fn unmap(slice: &'static mut [u8]) {
    let _ = call!(nr::MUNMAP, slice.as_mut_ptr(), slice.len());
}

// Layers.

/// `seccomp(SECCOMP_SET_MODE_FILTER)`; with `listener`, returns its descriptor.
pub fn install_filter(program: &[u8], listener: bool) -> Result<Fd> {
    #[repr(C)]
    struct Program {
        len: u16,
        filter: *const u8,
    }
    const SET_MODE_FILTER: u32 = 1;
    const FLAG_NEW_LISTENER: u32 = 8;
    let len = u16::try_from(program.len() / 8).map_err(|_| Errno::INVAL)?;
    let program = Program { len, filter: program.as_ptr() };
    let flags = if listener { FLAG_NEW_LISTENER } else { 0 };
    call!(nr::SECCOMP, SET_MODE_FILTER, flags, &raw const program).map(|fd| fd as Fd)
}

#[repr(C)]
struct RulesetAttr {
    fs: u64,
    net: u64,
    scoped: u64,
}

pub fn landlock_create(fs: u64, net: u64, scoped: u64) -> Result<Fd> {
    let attr = RulesetAttr { fs, net, scoped };
    // Older kernels accept a longer structure than they know if the rest is zero, so passing the full length
    // is safe.
    call!(new_nr::LANDLOCK_CREATE_RULESET, &raw const attr, size_of::<RulesetAttr>(), 0).map(|fd| fd as Fd)
}

pub fn landlock_allow(ruleset: Fd, rights: u64, path: Fd) -> Result<()> {
    // struct landlock_path_beneath_attr is packed: eight bytes of rights, four of descriptor.
    let mut attr = [0u8; 12];
    attr[..8].copy_from_slice(&rights.to_ne_bytes());
    attr[8..].copy_from_slice(&path.to_ne_bytes());
    const PATH_BENEATH: u32 = 1;
    call!(new_nr::LANDLOCK_ADD_RULE, ruleset, PATH_BENEATH, attr.as_ptr(), 0).map(drop)
}

pub fn landlock_restrict(ruleset: Fd) -> Result<()> {
    call!(new_nr::LANDLOCK_RESTRICT_SELF, ruleset, 0).map(drop)
}

/// A socket on the loopback of the current network namespace: datagrams, or a listening one for streams. The address is one of
/// `127.0.0.0/8`.
pub fn loopback_socket(at: [u8; 4], port: u16, datagrams: bool) -> Result<Fd> {
    const AF_INET: u16 = 2;
    const CLOEXEC_NONBLOCK: u32 = 0o2_004_000;
    const BACKLOG: u32 = 128;
    let kind = if datagrams { 2 } else { 1 };
    let socket = call!(nr::SOCKET, AF_INET, kind | CLOEXEC_NONBLOCK, 0)? as Fd;
    let mut address = [0u8; 16]; // struct sockaddr_in: family, port, address
    address[..2].copy_from_slice(&AF_INET.to_ne_bytes());
    address[2..4].copy_from_slice(&port.to_be_bytes());
    address[4..8].copy_from_slice(&at);
    let bound = call!(nr::BIND, socket, address.as_ptr(), address.len())
        .and_then(|_| if datagrams { Ok(0) } else { call!(nr::LISTEN, socket, BACKLOG) });
    bound.map(|_| socket).inspect_err(|_| close(socket))
}

/// Makes a socket that reports the sockets of the current network namespace. `sock_diag(7)`
pub fn socket_diag() -> Result<Fd> {
    const AF_NETLINK: u32 = 16;
    const NETLINK_SOCK_DIAG: u32 = 4;
    const RAW_CLOEXEC_NONBLOCK: u32 = 3 | 0o2_004_000;
    call!(nr::SOCKET, AF_NETLINK, RAW_CLOEXEC_NONBLOCK, NETLINK_SOCK_DIAG).map(|fd| fd as Fd)
}

/// Numbers of System V objects in an ipc namespace.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct Objects {
    /// Pages of shared memory segments that are in memory.
    pub segment_pages: u64,
    /// Sets of semaphores.
    pub sets: u64,
    /// Semaphores in all sets.
    pub semaphores: u64,
    /// Message queues.
    pub queues: u64,
    /// Messages in all queues.
    pub messages: u64,
    /// Bytes in all messages.
    pub message_bytes: u64,
}

/// Reports the System V objects of the current ipc namespace; zero for each kind that the kernel does not
/// report. `shmctl(2)`, `semctl(2)`, `msgctl(2)`
pub fn system_v_objects() -> Objects {
    const SHM_INFO: u32 = 14;
    const SEM_INFO: u32 = 19;
    const MSG_INFO: u32 = 12;
    let mut all = Objects::default();
    // struct shm_info: a number of segments, then pages in all, in memory, in swap, and two counters.
    let mut segments = [0u64; 8];
    if call!(nr::SHMCTL, 0, SHM_INFO, segments.as_mut_ptr()).is_ok() {
        all.segment_pages = segments[2];
    }
    // struct seminfo and struct msginfo: ten and seven numbers, and a short one.
    let mut numbers = [0u32; 16];
    if call!(nr::SEMCTL, 0, 0, SEM_INFO, numbers.as_mut_ptr()).is_ok() {
        (all.sets, all.semaphores) = (numbers[7].into(), numbers[9].into());
    }
    let mut numbers = [0u32; 16];
    if call!(nr::MSGCTL, 0, MSG_INFO, numbers.as_mut_ptr()).is_ok() {
        (all.queues, all.messages) = (numbers[0].into(), numbers[1].into());
        all.message_bytes = numbers[6].into();
    }
    all
}

/// Brings the loopback of the current network namespace up.
pub fn loopback_up() -> Result<()> {
    const AF_INET: u32 = 2;
    const SOCK_DGRAM_CLOEXEC: u32 = 2 | 0o2_000_000;
    const SIOCSIFFLAGS: u32 = 0x8914;
    const IFF_UP: u8 = 1;
    let socket = call!(nr::SOCKET, AF_INET, SOCK_DGRAM_CLOEXEC, 0)? as Fd;
    let mut request = [0u8; 40]; // struct ifreq: name, then flags
    request[..2].copy_from_slice(b"lo");
    request[16] = IFF_UP;
    let result = call!(nr::IOCTL, socket, SIOCSIFFLAGS, request.as_mut_ptr());
    close(socket);
    result?;
    // If the kernel does not support this, programs are no worse off: they must resolve names without the
    // flag below.
    let _ = loopback_addresses();
    Ok(())
}

/// Gives the loopback one further address of each family, outside `127.0.0.0/8` and other than `::1`: name
/// resolution with `AI_ADDRCONFIG` leaves out address families for which a machine has only such addresses.
/// `getaddrinfo(3)`
///
/// Both are registered as dummy addresses, so they refer to nothing outside: 192.0.0.8 (RFC 7600) and
/// 100:0:0:1::1 (RFC 9780). Host scope prevents the first from being used as a source address.
fn loopback_addresses() -> Result<()> {
    const AF_NETLINK: u32 = 16;
    const NETLINK_ROUTE: u32 = 0;
    const RAW_CLOEXEC: u32 = 3 | 0o2_000_000;
    const NEW_ADDRESS: u16 = 20;
    const REQUEST: u16 = 1;
    const NO_DUPLICATE_DETECTION: u8 = 2;
    const HOST: u8 = 254;
    const ADDRESS: u16 = 1;
    const LOCAL: u16 = 2;
    const LOOPBACK: u32 = 1; // the first interface of a network namespace
    let v4 = [192, 0, 0, 8];
    let v6 = [0x01, 0, 0, 0, 0, 0, 0, 1, 0, 0, 0, 0, 0, 0, 0, 1];
    let mut both = [0u8; 76];
    let mut at = 0;
    let mut put = |bytes: &[u8]| {
        both[at..at + bytes.len()].copy_from_slice(bytes);
        at += bytes.len();
    };
    // struct nlmsghdr, struct ifaddrmsg, struct rtattr with the address.
    let wanted: [(u8, u16, &[u8]); 2] = [(2, LOCAL, &v4), (10, ADDRESS, &v6)];
    for (family, kind, address) in wanted {
        let len = address.len();
        #[expect(clippy::cast_possible_truncation, reason = "at most 44")]
        let (all, own, bits) = (28 + len as u32, 4 + len as u16, 8 * len as u8);
        put(&all.to_ne_bytes());
        put(&NEW_ADDRESS.to_ne_bytes());
        put(&REQUEST.to_ne_bytes());
        put(&[0; 8]);
        put(&[family, bits, NO_DUPLICATE_DETECTION, HOST]);
        put(&LOOPBACK.to_ne_bytes());
        put(&own.to_ne_bytes());
        put(&kind.to_ne_bytes());
        put(address);
    }
    let socket = call!(nr::SOCKET, AF_NETLINK, RAW_CLOEXEC, NETLINK_ROUTE)? as Fd;
    // The kernel has processed both requests when this returns.
    let sent = write(socket, &both);
    close(socket);
    sent.map(drop)
}
