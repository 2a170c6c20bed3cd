//! Creating, ending and configuring processes. `clone(2)`, `prctl(2)`, `wait4(2)`

use core::ffi::CStr;

use super::{Errno, Result, check, new_nr, nr, syscall};

pub const CLONE_VM: u64 = 0x100;
pub const CLONE_FILES: u64 = 0x400;
pub const CLONE_PIDFD: u64 = 0x1000;
pub const CLONE_CHILD_CLEARTID: u64 = 0x0020_0000;
pub const CLONE_NEWNS: u64 = 0x0002_0000;
pub const CLONE_NEWUSER: u64 = 0x1000_0000;
pub const CLONE_NEWNET: u64 = 0x4000_0000;
pub const CLONE_NEWIPC: u64 = 0x0800_0000;
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

impl CloneArgs {
    /// The flags for `clone(2)`, with the exit signal in the lowest byte; `None` if only `clone3` supports
    /// them.
    fn older_flags(&self) -> Option<u64> {
        const SIGNAL: u64 = 0xff;
        // The flag of a time namespace is in that byte, and that of a cgroup is beyond 32 bits.
        let fits = self.flags & SIGNAL == 0 && self.flags <= u64::from(u32::MAX);
        fits.then_some(self.flags | self.exit_signal)
    }
}

/// Forks, with a copy of the memory: returns 0 in the child.
///
/// Filters of containers cannot read the flags of `clone3` and report that it does not exist; then `clone` is
/// used, if it supports the flags.
pub fn fork(args: &CloneArgs) -> Result<i32> {
    let made = call!(new_nr::CLONE3, core::ptr::from_ref(args), size_of::<CloneArgs>());
    let made = match (made, args.older_flags()) {
        // The pidfd is stored where `clone` would otherwise store the child's thread id.
        (Err(Errno::NOSYS), Some(flags)) => call!(nr::CLONE, flags, 0, args.pidfd),
        (made, _) => made,
    };
    made.map(|pid| pid as i32)
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
    ".globl hotcell_older_clone_onto",
    "hotcell_older_clone_onto:",
    "mov r9, rcx",
    "mov r10, rdx",
    "xor edx, edx",
    "mov eax, 56",
    "syscall",
    "test rax, rax",
    "jnz 2f",
    "xor ebp, ebp",
    "mov rdi, r8",
    "call r9",
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
    ".globl hotcell_older_clone_onto",
    "hotcell_older_clone_onto:",
    "mov x5, x3",
    "mov x6, x4",
    "mov x4, x2",
    "mov x2, xzr",
    "mov x3, xzr",
    "mov x8, #220",
    "svc 0",
    "cbnz x0, 2f",
    "mov x29, xzr",
    "mov x30, xzr",
    "mov x0, x6",
    "blr x5",
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
    /// Wrapper of `clone`, which takes the end of the stack.
    fn hotcell_older_clone_onto(
        flags: u64,
        stack_end: u64,
        child_tid: u64,
        entry: unsafe extern "C" fn(*mut u8) -> !,
        argument: *mut u8,
    ) -> isize;
}

/// Creates a process that runs `entry(argument)` on a stack of its own.
///
/// # Safety
/// With `CLONE_VM` the memory is shared: no other code may use `args.stack` for as long as the new process
/// may run on it, `argument` must be valid for as long, and data that both access must be synchronized.
pub unsafe fn clone_onto(
    args: &CloneArgs,
    entry: unsafe extern "C" fn(*mut u8) -> !,
    argument: *mut u8,
) -> Result<i32> {
    // SAFETY: the caller's contract; the assembly starts the child on its own stack and never returns there.
    let made = check(unsafe { hotcell_clone_onto(args, size_of::<CloneArgs>(), entry, argument) });
    let made = match (made, args.older_flags()) {
        (Err(Errno::NOSYS), Some(flags)) => {
            let end = args.stack + args.stack_size;
            // SAFETY: as above; the first call created no process.
            check(unsafe { hotcell_older_clone_onto(flags, end, args.child_tid, entry, argument) })
        }
        (made, _) => made,
    };
    made.map(|pid| pid as i32)
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

/// Waits for an ended child; returns its process id and wait status.
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

/// Empties the effective, permitted and inheritable capability sets.
pub fn drop_capability_sets() -> Result<()> {
    const VERSION_3: u32 = 0x2008_0522;
    let header = [VERSION_3, 0];
    let empty = [0u32; 6];
    call!(nr::CAPSET, header.as_ptr(), empty.as_ptr()).map(drop)
}

pub const RLIMIT_CORE: u32 = 4;

pub fn hard_rlimit(resource: u32) -> Result<u64> {
    let mut limit = [0u64; 2];
    call!(nr::PRLIMIT64, 0, resource, 0, limit.as_mut_ptr()).map(|_| limit[1])
}

/// Sets a resource limit of a process; 0 is the calling process.
pub fn set_rlimit(pid: i32, resource: u32, soft: u64, hard: u64) -> Result<()> {
    let limit = [soft, hard];
    call!(nr::PRLIMIT64, pid, resource, limit.as_ptr(), 0).map(drop)
}
