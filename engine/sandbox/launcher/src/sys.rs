//! Raw system calls, thin and typed. Not for decisions: every function is one call of the kernel.
//!
//! Raw, because the runner shares the memory of init until it executes: a C library's thread-local state
//! would be shared with it.

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
    pub const PROTO: Self = Self(71);
    pub const STALE: Self = Self(116);
}

pub type Result<T> = core::result::Result<T, Errno>;

/// System call numbers. Those of the generic table are the same on both architectures from 424 on.
#[cfg(target_arch = "x86_64")]
mod nr {
    pub const READ: usize = 0;
    pub const WRITE: usize = 1;
    pub const CLOSE: usize = 3;
    pub const MMAP: usize = 9;
    pub const MUNMAP: usize = 11;
    pub const RT_SIGACTION: usize = 13;
    pub const RT_SIGPROCMASK: usize = 14;
    pub const IOCTL: usize = 16;
    pub const SOCKET: usize = 41;
    pub const SENDMSG: usize = 46;
    pub const RECVMSG: usize = 47;
    pub const EXECVE: usize = 59;
    pub const WAIT4: usize = 61;
    pub const GETPID: usize = 39;
    pub const KILL: usize = 62;
    pub const FCHMOD: usize = 91;
    pub const FSETXATTR: usize = 190;
    pub const READLINKAT: usize = 267;
    pub const FCHDIR: usize = 81;
    pub const CHDIR: usize = 80;
    pub const GETRUSAGE: usize = 98;
    pub const SETSID: usize = 112;
    pub const SETGROUPS: usize = 116;
    pub const SETRESUID: usize = 117;
    pub const SETRESGID: usize = 119;
    pub const CAPSET: usize = 126;
    pub const FSTATFS: usize = 138;
    pub const PIVOT_ROOT: usize = 155;
    pub const PRCTL: usize = 157;
    pub const MOUNT: usize = 165;
    pub const UMOUNT2: usize = 166;
    pub const SETHOSTNAME: usize = 170;
    pub const FUTEX: usize = 202;
    pub const GETDENTS64: usize = 217;
    pub const CLOCK_GETTIME: usize = 228;
    pub const EXIT_GROUP: usize = 231;
    pub const OPENAT: usize = 257;
    pub const MKDIRAT: usize = 258;
    pub const NEWFSTATAT: usize = 262;
    pub const SYMLINKAT: usize = 266;
    pub const PPOLL: usize = 271;
    pub const PIPE2: usize = 293;
    pub const UMASK: usize = 95;
    pub const UNSHARE: usize = 272;
    pub const SIGNALFD4: usize = 289;
    pub const DUP3: usize = 292;
    pub const PRLIMIT64: usize = 302;
    pub const SECCOMP: usize = 317;
}
#[cfg(target_arch = "aarch64")]
mod nr {
    pub const DUP3: usize = 24;
    pub const IOCTL: usize = 29;
    pub const MKDIRAT: usize = 34;
    pub const SYMLINKAT: usize = 36;
    pub const UMOUNT2: usize = 39;
    pub const MOUNT: usize = 40;
    pub const PIVOT_ROOT: usize = 41;
    pub const FSTATFS: usize = 44;
    pub const CHDIR: usize = 49;
    pub const FCHDIR: usize = 50;
    pub const OPENAT: usize = 56;
    pub const CLOSE: usize = 57;
    pub const GETDENTS64: usize = 61;
    pub const READ: usize = 63;
    pub const WRITE: usize = 64;
    pub const PPOLL: usize = 73;
    pub const PIPE2: usize = 59;
    pub const UMASK: usize = 166;
    pub const SIGNALFD4: usize = 74;
    pub const NEWFSTATAT: usize = 79;
    pub const CAPSET: usize = 91;
    pub const EXIT_GROUP: usize = 94;
    pub const UNSHARE: usize = 97;
    pub const FUTEX: usize = 98;
    pub const CLOCK_GETTIME: usize = 113;
    pub const KILL: usize = 129;
    pub const GETPID: usize = 172;
    pub const FCHMOD: usize = 52;
    pub const FSETXATTR: usize = 7;
    pub const READLINKAT: usize = 78;
    pub const RT_SIGACTION: usize = 134;
    pub const RT_SIGPROCMASK: usize = 135;
    pub const SETRESUID: usize = 147;
    pub const SETRESGID: usize = 149;
    pub const SETSID: usize = 157;
    pub const SETGROUPS: usize = 159;
    pub const SETHOSTNAME: usize = 161;
    pub const GETRUSAGE: usize = 165;
    pub const PRCTL: usize = 167;
    pub const SOCKET: usize = 198;
    pub const SENDMSG: usize = 211;
    pub const RECVMSG: usize = 212;
    pub const MUNMAP: usize = 215;
    pub const EXECVE: usize = 221;
    pub const MMAP: usize = 222;
    pub const WAIT4: usize = 260;
    pub const PRLIMIT64: usize = 261;
    pub const SECCOMP: usize = 277;
}
mod new_nr {
    pub const OPEN_TREE: usize = 428;
    pub const MOVE_MOUNT: usize = 429;
    pub const CLONE3: usize = 435;
    pub const CLOSE_RANGE: usize = 436;
    pub const OPENAT2: usize = 437;
    pub const MOUNT_SETATTR: usize = 442;
    pub const LANDLOCK_CREATE_RULESET: usize = 444;
    pub const LANDLOCK_ADD_RULE: usize = 445;
    pub const LANDLOCK_RESTRICT_SELF: usize = 446;
}

/// One system call with six arguments; negative results are error numbers.
///
/// # Safety
/// The arguments must be what the call with this number asks for: pointers valid for what it reads and writes.
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

/// As above.
///
/// # Safety
/// As above.
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
pub const O_CREAT: u32 = 0o100;
pub const O_EXCL: u32 = 0o200;
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

    /// Type and permissions.
    pub const fn mode(&self) -> u32 {
        self.rest[if cfg!(target_arch = "x86_64") { 2 } else { 0 }]
    }
}

/// Type and permissions of `name` below `dir`; a link's own.
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

/// Read end and write end of a pipe, both closed on exec.
pub fn pipe() -> Result<[Fd; 2]> {
    let mut ends = [0 as Fd; 2];
    call!(nr::PIPE2, ends.as_mut_ptr(), O_CLOEXEC).map(|_| ends)
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

// Mounts.

pub const MS_RDONLY: u64 = 1;
pub const MS_NOSUID: u64 = 2;
pub const MS_NODEV: u64 = 4;
pub const MS_NOEXEC: u64 = 8;
pub const MS_REMOUNT: u64 = 32;
pub const MS_BIND: u64 = 4096;
pub const MS_REC: u64 = 16384;
pub const MS_SLAVE: u64 = 1 << 19;
pub const MNT_DETACH: u32 = 2;
pub const AT_EMPTY_PATH: u32 = 0x1000;
pub const AT_RECURSIVE: u32 = 0x8000;
const OPEN_TREE_CLONE: u32 = 1;
const MOVE_MOUNT_F_EMPTY_PATH: u32 = 4;
const MOVE_MOUNT_T_EMPTY_PATH: u32 = 0x40;
pub const MOUNT_ATTR_RDONLY: u64 = 1;
pub const MOUNT_ATTR_NOSUID: u64 = 2;
pub const MOUNT_ATTR_NODEV: u64 = 4;
pub const MOUNT_ATTR_IDMAP: u64 = 0x0010_0000;

/// `data` is a NUL-terminated string of options.
pub fn mount(source: &CStr, target: &CStr, kind: &CStr, flags: u64, data: &CStr) -> Result<()> {
    call!(nr::MOUNT, source.as_ptr(), target.as_ptr(), kind.as_ptr(), flags, data.as_ptr()).map(drop)
}

pub fn umount(target: &CStr, flags: u32) -> Result<()> {
    call!(nr::UMOUNT2, target.as_ptr(), flags).map(drop)
}

pub fn pivot_root(new: &CStr, old: &CStr) -> Result<()> {
    call!(nr::PIVOT_ROOT, new.as_ptr(), old.as_ptr()).map(drop)
}

/// A detached clone of the mount tree at `path` below `dir`.
pub fn open_tree_clone(dir: Fd, path: &CStr, recursive: bool) -> Result<Fd> {
    let flags = OPEN_TREE_CLONE | AT_EMPTY_PATH | O_CLOEXEC | if recursive { AT_RECURSIVE } else { 0 };
    call!(new_nr::OPEN_TREE, dir, path.as_ptr(), flags).map(|fd| fd as Fd)
}

/// Attaches the detached mount `fd` at `path` below `dir`, or at `dir` itself when `path` is empty.
pub fn move_mount(fd: Fd, dir: Fd, path: &CStr) -> Result<()> {
    let flags = MOVE_MOUNT_F_EMPTY_PATH | if path.is_empty() { MOVE_MOUNT_T_EMPTY_PATH } else { 0 };
    call!(new_nr::MOVE_MOUNT, fd, c"".as_ptr(), dir, path.as_ptr(), flags).map(drop)
}

#[repr(C)]
struct MountAttr {
    set: u64,
    clear: u64,
    propagation: u64,
    userns: u64,
}

/// Sets attributes of the mount `fd`; `userns` is for `MOUNT_ATTR_IDMAP`.
pub fn mount_setattr(fd: Fd, recursive: bool, set: u64, userns: Fd) -> Result<()> {
    let attr = MountAttr { set, clear: 0, propagation: 0, userns: userns as u64 };
    let flags = AT_EMPTY_PATH | if recursive { AT_RECURSIVE } else { 0 };
    call!(new_nr::MOUNT_SETATTR, fd, c"".as_ptr(), flags, &raw const attr, size_of::<MountAttr>()).map(drop)
}

// Processes.

pub const CLONE_VM: u64 = 0x100;
pub const CLONE_FILES: u64 = 0x400;
pub const CLONE_PIDFD: u64 = 0x1000;
pub const CLONE_CHILD_CLEARTID: u64 = 0x0020_0000;
pub const CLONE_NEWNS: u64 = 0x0002_0000;
pub const CLONE_NEWUSER: u64 = 0x1000_0000;
pub const CLONE_NEWNET: u64 = 0x4000_0000;
pub const CLONE_NEWCGROUP: u64 = 0x0200_0000;
pub const CLONE_INTO_CGROUP: u64 = 0x2_0000_0000;
pub const SIGCHLD: i32 = 17;
pub const SIGKILL: i32 = 9;

/// `struct clone_args`. `clone(2)`
#[repr(C)]
#[derive(Default)]
pub struct CloneArgs {
    pub flags: u64,
    pub pidfd: u64,
    pub child_tid: u64,
    pub parent_tid: u64,
    pub exit_signal: u64,
    pub stack: u64,
    pub stack_size: u64,
    pub tls: u64,
    pub set_tid: u64,
    pub set_tid_size: u64,
    pub cgroup: u64,
}

/// Forks, with a copy of the memory: returns 0 in the child.
pub fn fork(args: &CloneArgs) -> Result<i32> {
    call!(new_nr::CLONE3, core::ptr::from_ref(args), size_of::<CloneArgs>()).map(|pid| pid as i32)
}

#[cfg(target_arch = "x86_64")]
core::arch::global_asm!(
    ".globl hotcell_clone_onto",
    "hotcell_clone_onto:",
    "mov r8, rdx",
    "mov r9, rcx",
    "mov eax, 435",
    "syscall",
    "test rax, rax",
    "jnz 2f",
    "xor ebp, ebp",
    "mov rdi, r9",
    "call r8",
    "ud2",
    "2: ret",
);
#[cfg(target_arch = "aarch64")]
core::arch::global_asm!(
    ".globl hotcell_clone_onto",
    "hotcell_clone_onto:",
    "mov x8, #435",
    "svc 0",
    "cbnz x0, 2f",
    "mov x29, xzr",
    "mov x30, xzr",
    "mov x0, x3",
    "blr x2",
    "brk #1",
    "2: ret",
);
unsafe extern "C" {
    fn hotcell_clone_onto(
        args: *const CloneArgs,
        size: usize,
        entry: unsafe extern "C" fn(*mut u8) -> !,
        argument: *mut u8,
    ) -> isize;
}

/// Makes a process that runs `entry(argument)` on a stack of its own.
///
/// # Safety
/// With `CLONE_VM` the memory is shared: `args.stack` must be a stack that nothing else uses for as long as the
/// new process may run on it, `argument` valid for as long, and what both sides touch must be synchronised.
pub unsafe fn clone_onto(
    args: &CloneArgs,
    entry: unsafe extern "C" fn(*mut u8) -> !,
    argument: *mut u8,
) -> Result<i32> {
    // SAFETY: the caller's contract; the assembly starts the child on its own stack and never returns there.
    check(unsafe { hotcell_clone_onto(args, size_of::<CloneArgs>(), entry, argument) }).map(|pid| pid as i32)
}

/// Executes a program. Returns only with an error.
///
/// # Safety
/// `argv` and `env` must point to arrays of pointers to NUL-terminated strings, each array ended by a null.
pub unsafe fn execve(path: &CStr, argv: *const *const u8, env: *const *const u8) -> Errno {
    match call!(nr::EXECVE, path.as_ptr(), argv, env) {
        Err(e) => e,
        Ok(_) => Errno(0),
    }
}

#[repr(C)]
#[derive(Default)]
pub struct Rusage {
    pub user: [i64; 2],
    pub system: [i64; 2],
    pub max_rss_kib: i64,
    rest: [i64; 13],
}

impl Rusage {
    #[allow(clippy::cast_sign_loss)] // the kernel's times are not negative
    pub const fn cpu_us(&self) -> u64 {
        ((self.user[0] + self.system[0]) * 1_000_000 + self.user[1] + self.system[1]) as u64
    }
}

pub const WNOHANG: u32 = 1;
pub const WALL: u32 = 0x4000_0000;

/// A child that ended, if there is one: its process id and wait status.
pub fn wait(pid: i32, flags: u32) -> Result<(i32, i32)> {
    let mut status = 0i32;
    call!(nr::WAIT4, pid, &raw mut status, flags, 0).map(|pid| (pid as i32, status))
}

pub fn children_rusage() -> Rusage {
    let mut usage = Rusage::default();
    let _ = call!(nr::GETRUSAGE, -1isize, &raw mut usage);
    usage
}

pub fn kill(pid: i32, signal: i32) -> Result<()> {
    call!(nr::KILL, pid, signal).map(drop)
}

pub fn getpid() -> i32 {
    call!(nr::GETPID).unwrap_or(0) as i32
}

pub fn setsid() {
    let _ = call!(nr::SETSID);
}

pub fn unshare(flags: u64) -> Result<()> {
    call!(nr::UNSHARE, flags).map(drop)
}

pub fn drop_groups() -> Result<()> {
    call!(nr::SETGROUPS, 0, 0).map(drop)
}

pub fn set_ids(uid: u32, gid: u32) -> Result<()> {
    call!(nr::SETRESGID, gid, gid, gid)?;
    call!(nr::SETRESUID, uid, uid, uid).map(drop)
}

pub fn sethostname(name: &[u8]) -> Result<()> {
    call!(nr::SETHOSTNAME, name.as_ptr(), name.len()).map(drop)
}

pub const PR_SET_PDEATHSIG: u32 = 1;
pub const PR_SET_DUMPABLE: u32 = 4;
pub const PR_SET_NAME: u32 = 15;
pub const PR_CAPBSET_DROP: u32 = 24;
pub const PR_SET_CHILD_SUBREAPER: u32 = 36;
pub const PR_SET_NO_NEW_PRIVS: u32 = 38;
pub const PR_CAP_AMBIENT: u32 = 47;
pub const PR_CAP_AMBIENT_CLEAR_ALL: u32 = 4;

pub fn prctl(option: u32, a: u64) -> Result<()> {
    call!(nr::PRCTL, option, a, 0, 0, 0).map(drop)
}

pub fn set_name(name: &CStr) {
    let _ = call!(nr::PRCTL, PR_SET_NAME, name.as_ptr());
}

/// Empties the effective, permitted and inheritable sets.
pub fn drop_capability_sets() -> Result<()> {
    const VERSION_3: u32 = 0x2008_0522;
    let header = [VERSION_3, 0];
    let empty = [0u32; 6];
    call!(nr::CAPSET, header.as_ptr(), empty.as_ptr()).map(drop)
}

pub fn set_rlimit(resource: u32, soft: u64, hard: u64) -> Result<()> {
    let limit = [soft, hard];
    call!(nr::PRLIMIT64, 0, resource, limit.as_ptr(), 0).map(drop)
}

// Signals.

/// Sets the default action for every signal. `kill` of the same are ignored: two cannot be changed.
pub fn default_signals() {
    // struct sigaction of the kernel: handler, flags, restorer (x86_64), mask. All zero is SIG_DFL.
    let zero = [0u64; 4];
    for signal in 1..=64 {
        let _ = call!(nr::RT_SIGACTION, signal, zero.as_ptr(), 0, 8);
    }
}

/// Lets the kernel reap children by itself.
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

/// A descriptor that becomes readable when a blocked SIGCHLD is pending.
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

/// Waits for an event; `timeout_ms` below 0 waits for ever.
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

/// Maps `len` bytes of `fd` privately, readable and writable; with `fd` -1 fresh zeroed memory.
///
/// The mapping is never removed: it lives as long as the process, which is why a `'static` slice is returned.
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
    // Older kernels refuse a longer structure than they know unless the rest is zero, so it is always safe.
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
    result.map(drop)
}

// Messages with descriptors.

#[repr(C)]
struct MessageHeader {
    name: usize,
    name_len: u32,
    iov: *mut [usize; 2],
    iov_len: usize,
    control: *mut u8,
    control_len: usize,
    flags: u32,
}

const CMSG_HEAD: usize = 16;
const SOL_SOCKET: u32 = 1;
const SCM_RIGHTS: u32 = 1;
const MSG_CMSG_CLOEXEC: u32 = 0x4000_0000;
const MSG_NOSIGNAL: u32 = 0x4000;
const MSG_TRUNCATED: u32 = 0x20 | 0x08; // data or control

/// Space for the descriptors of one message, aligned as control messages are.
#[repr(C, align(8))]
struct Control([u8; CMSG_HEAD + 4 * crate::wire::MAX_FDS]);

/// Sends one message with descriptors.
pub fn send(socket: Fd, bytes: &[u8], fds: &[Fd]) -> Result<()> {
    let mut control = Control([0; CMSG_HEAD + 4 * crate::wire::MAX_FDS]);
    let len = CMSG_HEAD + 4 * fds.len();
    control.0[..8].copy_from_slice(&len.to_ne_bytes());
    control.0[8..12].copy_from_slice(&SOL_SOCKET.to_ne_bytes());
    control.0[12..16].copy_from_slice(&SCM_RIGHTS.to_ne_bytes());
    for (i, fd) in fds.iter().enumerate() {
        control.0[CMSG_HEAD + 4 * i..][..4].copy_from_slice(&fd.to_ne_bytes());
    }
    let mut iov = [bytes.as_ptr() as usize, bytes.len()];
    let header = MessageHeader {
        name: 0,
        name_len: 0,
        iov: &raw mut iov,
        iov_len: 1,
        control: control.0.as_mut_ptr(),
        control_len: if fds.is_empty() { 0 } else { len.next_multiple_of(8) },
        flags: 0,
    };
    call!(nr::SENDMSG, socket, &raw const header, MSG_NOSIGNAL).map(drop)
}

/// Descriptors that came with a message.
pub struct Received {
    pub len: usize,
    fds: [Fd; crate::wire::MAX_FDS],
    count: usize,
}

impl Received {
    pub fn fds(&self) -> &[Fd] {
        &self.fds[..self.count]
    }
    /// Closes whatever came.
    pub fn close_all(&self) {
        self.fds().iter().copied().for_each(close);
    }
}

/// Receives one message; a length of 0 is the end. A message that does not fit is an error.
pub fn receive(socket: Fd, into: &mut [u8]) -> Result<Received> {
    let mut control = Control([0; CMSG_HEAD + 4 * crate::wire::MAX_FDS]);
    let mut iov = [into.as_mut_ptr() as usize, into.len()];
    let mut header = MessageHeader {
        name: 0,
        name_len: 0,
        iov: &raw mut iov,
        iov_len: 1,
        control: control.0.as_mut_ptr(),
        control_len: control.0.len(),
        flags: 0,
    };
    let len = call!(nr::RECVMSG, socket, &raw mut header, MSG_CMSG_CLOEXEC)?;
    let mut received = Received { len, fds: [-1; crate::wire::MAX_FDS], count: 0 };
    if header.control_len >= CMSG_HEAD {
        let mut word = [0u8; 8];
        word.copy_from_slice(&control.0[..8]);
        let used = usize::from_ne_bytes(word).min(control.0.len());
        for chunk in control.0[CMSG_HEAD..used.max(CMSG_HEAD)].chunks_exact(4) {
            received.fds[received.count] = i32::from_ne_bytes([chunk[0], chunk[1], chunk[2], chunk[3]]);
            received.count += 1;
        }
    }
    if header.flags & MSG_TRUNCATED != 0 {
        received.close_all();
        return Err(Errno::PROTO);
    }
    Ok(received)
}
