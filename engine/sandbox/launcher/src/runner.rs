//! The process that becomes the program. It shares memory and descriptors with init until it executes, so
//! that creating it is cheap and every failure can be reported.
//!
//! While init mounts, the runner covers the dangerous parts of `/proc`, drops its capabilities and installs
//! the filter; then, on the finished root, it enables Landlock; then it waits, confined, for its job.

use core::ffi::CStr;
use core::sync::atomic::{AtomicI32, AtomicPtr, AtomicU32, AtomicU64, Ordering};

use crate::procfs;
use crate::release::Release;
use crate::report::{At, Failure};
use crate::sys::{self, Errno, Fd};
use crate::wire::{Job, List, MAX_LETTER, Setup, Step, detail, setup};

/// Descriptor of the root, until it has become the root.
pub const TREE: Fd = 13;

const STARTED: u32 = 0;
const CONFINED: u32 = 1;
const FAILED: u32 = 2;
const PROC: u32 = 1;
const ROOTED: u32 = 2;
const CHECKED: u32 = 3;
const RELEASED: u32 = 4;
const GO: u32 = 5;
/// Bytes reserved in advance for the pointers to a job's arguments and variables: 510 pointers.
const RESERVED_VECTOR_BYTES: usize = 4096;
/// Maximum time in milliseconds for retries of executing a program that is still open for writing.
const BUSY_TIMEOUT_MS: u32 = 100;
const TIMED: [Step; 6] =
    [Step::Network, Step::Ceiling, Step::Masks, Step::Capabilities, Step::Seccomp, Step::Landlock];

/// State shared by init and runner. Each field has one writer.
pub struct Shared<'a> {
    setup: &'a Setup<'a>,
    /// Is 1 while the runner uses this memory; the kernel clears it and wakes waiters at exec or exit.
    pub alive: AtomicU32,
    /// Written by the runner: `STARTED`, `CONFINED`, `FAILED`.
    runner: AtomicU32,
    /// Written by init: 0, `PROC`, `ROOTED`, `CHECKED`, `RELEASED`, `GO`.
    init: AtomicU32,
    /// Written by init before `CHECKED`: the socket on which the runner receives its job directly.
    direct: AtomicI32,
    /// Written by the runner when it receives a job directly: the time, and the job's limit of memory.
    taken: [AtomicU64; 2],
    /// Written by the runner: the time when it asked the kernel to execute the program.
    asked: AtomicU64,
    /// The filter's listener, or -1.
    pub listener: AtomicI32,
    failed: [AtomicU64; 3],
    done: [AtomicU64; TIMED.len()],
    tried: AtomicU64,
    /// Device and inode of the runner's `/`.
    root: [AtomicU64; 2],
    /// The program's first descriptors; -1 for none.
    stdio: [AtomicI32; 5],
    job: AtomicPtr<Job<'a>>,
    vectors: AtomicPtr<Vectors>,
}

impl<'a> Shared<'a> {
    pub const fn new(setup: &'a Setup<'a>) -> Self {
        Self {
            setup,
            alive: AtomicU32::new(1),
            runner: AtomicU32::new(STARTED),
            init: AtomicU32::new(0),
            direct: AtomicI32::new(-1),
            taken: [const { AtomicU64::new(0) }; 2],
            asked: AtomicU64::new(0),
            listener: AtomicI32::new(-1),
            failed: [const { AtomicU64::new(0) }; 3],
            done: [const { AtomicU64::new(0) }; TIMED.len()],
            tried: AtomicU64::new(0),
            root: [const { AtomicU64::new(0) }; 2],
            stdio: [const { AtomicI32::new(-1) }; 5],
            job: AtomicPtr::new(core::ptr::null_mut()),
            vectors: AtomicPtr::new(core::ptr::null_mut()),
        }
    }

    // Used by init.

    /// Signals that the root is attached, with a `/proc` if it has one.
    pub fn proc_is_there(&self) {
        self.advance(&self.init, PROC);
    }

    /// Signals that the root is complete.
    pub fn rooted(&self) {
        self.advance(&self.init, ROOTED);
    }

    pub fn wait_until_confined(&self) -> Result<(), Failure> {
        loop {
            match self.runner.load(Ordering::Acquire) {
                STARTED => sys::futex_wait(&self.runner, STARTED),
                CONFINED => return Ok(()),
                _ => return Err(self.failure()),
            }
        }
    }

    /// Device and inode of the runner's `/`.
    pub fn its_root(&self) -> (u64, u64) {
        (self.root[0].load(Ordering::Acquire), self.root[1].load(Ordering::Acquire))
    }

    /// The steps of confinement with their times.
    pub fn times(&self) -> impl Iterator<Item = (Step, u64)> {
        TIMED.into_iter().zip(self.done.iter().map(|t| t.load(Ordering::Acquire))).filter(|(_, at)| *at != 0)
    }

    /// Signals that every layer was read back: the runner may receive a job directly on `socket`.
    pub fn may_take(&self, socket: Fd) {
        self.direct.store(socket, Ordering::Release);
        self.advance(&self.init, CHECKED);
    }

    /// The time when the runner received a job, and the job's limit of memory.
    pub fn taken(&self) -> (u64, u64) {
        (self.taken[0].load(Ordering::Acquire), self.taken[1].load(Ordering::Acquire))
    }

    /// The time when the runner last asked the kernel to execute the program.
    pub fn asked(&self) -> u64 {
        self.asked.load(Ordering::Acquire)
    }

    /// Hands over the job. `job` and `vectors` must stay valid until the runner has executed.
    pub fn release(&self, job: &Job<'a>, vectors: &Vectors, stdio: [Fd; 5]) {
        self.job.store(core::ptr::from_ref(job).cast_mut(), Ordering::Release);
        self.vectors.store(core::ptr::from_ref(vectors).cast_mut(), Ordering::Release);
        for (place, fd) in self.stdio.iter().zip(stdio) {
            place.store(fd, Ordering::Release);
        }
        self.advance(&self.init, RELEASED);
    }

    /// Lets a runner that was confined after its release execute the program.
    pub fn go(&self) {
        self.advance(&self.init, GO);
    }

    /// Waits until the program runs; returns the index of its path among those tried.
    pub fn wait_until_executed(&self) -> Result<u64, Failure> {
        loop {
            let alive = self.alive.load(Ordering::Acquire);
            if alive == 0 {
                break;
            }
            sys::futex_wait(&self.alive, alive);
        }
        if self.runner.load(Ordering::Acquire) == FAILED {
            return Err(self.failure());
        }
        Ok(self.tried.load(Ordering::Acquire))
    }

    fn failure(&self) -> Failure {
        let [step, errno, detail] = [0, 1, 2].map(|i| self.failed[i].load(Ordering::Acquire));
        Failure {
            step: Step::from_number(step).unwrap_or(Step::Runner),
            errno: Errno(i32::try_from(errno).unwrap_or(0)),
            detail,
        }
    }

    // Used by the runner.

    fn wait_for(&self, stage: u32) {
        loop {
            let now = self.init.load(Ordering::Acquire);
            if now >= stage {
                return;
            }
            sys::futex_wait(&self.init, now);
        }
    }

    fn advance(&self, word: &AtomicU32, stage: u32) {
        word.store(stage, Ordering::Release);
        sys::futex_wake(word);
    }

    fn fail(&self, failure: Failure) -> ! {
        self.failed[0].store(failure.step as u64, Ordering::Release);
        self.failed[1].store(u64::from(failure.errno.0.unsigned_abs()), Ordering::Release);
        self.failed[2].store(failure.detail, Ordering::Release);
        self.advance(&self.runner, FAILED);
        sys::exit(127)
    }

    fn done(&self, step: Step) {
        if let Some(i) = TIMED.iter().position(|s| *s == step) {
            self.done[i].store(sys::now(), Ordering::Release);
        }
    }
}

/// Pointer arrays for `execve`, made by init from the job.
pub struct Vectors {
    argv: *const *const u8,
    env: *const *const u8,
}

const WORD: usize = size_of::<usize>();

impl Vectors {
    pub fn of(job: &Job<'_>) -> sys::Result<Self> {
        Self::within(job, &mut [])
    }

    /// Makes them in zeroed `memory`, or in fresh memory if it is too small.
    fn within(job: &Job<'_>, memory: &'static mut [u8]) -> sys::Result<Self> {
        let argv = (job.argv.len() + 1) * WORD;
        let whole = argv + (job.env.len() + 1) * WORD;
        let memory = if whole <= memory.len() { memory } else { sys::map(-1, whole)? };
        let (first, second) = memory.split_at_mut_checked(argv).ok_or(Errno::INVAL)?;
        Ok(Self { argv: pointers(job.argv, first), env: pointers(job.env, second) })
    }
}

/// Makes an array of pointers in zeroed memory, so that it ends with a null pointer.
fn pointers(strings: List<'_, &CStr>, memory: &mut [u8]) -> *const *const u8 {
    for (slot, string) in memory.chunks_exact_mut(WORD).zip(strings) {
        slot.copy_from_slice(&(string.as_ptr() as usize).to_ne_bytes());
    }
    memory.as_ptr().cast()
}

/// Entry point of the runner.
///
/// # Safety
/// `argument` must be a [`Shared`] that outlives the runner's use of this memory.
pub unsafe extern "C" fn entry(argument: *mut u8) -> ! {
    // SAFETY: the caller's contract.
    let shared = unsafe { &*argument.cast_const().cast::<Shared<'_>>() };
    // The kernel also makes a scheduling group for each session, which takes longer than the rest of becoming
    // a program, so do it early.
    sys::setsid();
    let late = shared.setup.flags & setup::HARDEN_LATE != 0;
    let landed = if late { RELEASED } else { ROOTED };
    match confine(shared, landed) {
        Ok(()) => shared.advance(&shared.runner, CONFINED),
        Err(failure) => shared.fail(failure),
    }
    if late {
        shared.wait_for(GO);
    } else if shared.setup.flags & setup::DIRECT != 0 {
        shared.fail(become_own(shared));
    } else {
        shared.wait_for(RELEASED);
    }
    shared.fail(become_program(shared))
}

/// Receives a job directly and becomes its program.
fn become_own(shared: &Shared<'_>) -> Failure {
    let own = || {
        // Map and touch the memory now: work done before the job arrives delays no run.
        let memory = sys::map(-1, 8 + MAX_LETTER).at(Step::Release)?;
        let vectors = sys::map(-1, RESERVED_VECTOR_BYTES).at(Step::Release)?;
        for ready in [&mut memory[0], &mut vectors[0]] {
            // SAFETY: the byte is in mapped memory of our own; volatile, so that writing the value that it
            // already has is not optimized away.
            unsafe { core::ptr::write_volatile(ready, 0) };
        }
        let ceilings = Ceilings::read()?;
        shared.wait_for(CHECKED);
        let message = sys::receive(shared.direct.load(Ordering::Acquire), memory).at(Step::Release)?;
        let release = Release::of(&message, memory)?;
        let job = Job::decode(release.memory).map_err(|_| Errno::PROTO).at(Step::Release)?;
        if !job.mounts.is_empty() || job.scratch_bytes != 0 {
            return Err(Errno::PROTO).at_item(Step::Release, detail::release::UNEXPECTED);
        }
        let vectors = Vectors::within(&job, vectors).at(Step::Release)?;
        shared.taken[0].store(sys::now(), Ordering::Release);
        shared.taken[1].store(job.memory, Ordering::Release);
        try_to_become(shared, &job, &vectors, release.stdio(&job)?, &ceilings)
    };
    match own() {
        Err(failure) => failure,
        Ok(never) => match never {},
    }
}

/// Confines this process. The Landlock rules are made when init has reached the stage `landed`.
fn confine(shared: &Shared<'_>, landed: u32) -> Result<(), Failure> {
    let setup = shared.setup;
    if setup.namespaces & sys::CLONE_NEWNET != 0 {
        sys::unshare(sys::CLONE_NEWNET).at_item(Step::Network, detail::network::NAMESPACE)?;
        if setup.flags & setup::LOOPBACK != 0 {
            sys::loopback_up().at_item(Step::Network, detail::network::LOOPBACK)?;
        }
        shared.done(Step::Network);
    }
    if setup.flags & setup::PROC != 0 {
        shared.wait_for(PROC);
        sys::fchdir(TREE).at(Step::Masks)?;
        procfs::set_ceilings(setup)?;
        shared.done(Step::Ceiling);
        for (number, path) in setup.masks.enumerate() {
            procfs::mask(path).at_item(Step::Masks, number)?;
        }
        shared.done(Step::Masks);
    }
    let no_new_privs = setup.flags & setup::NO_NEW_PRIVS != 0;
    if no_new_privs {
        sys::prctl(sys::PR_SET_NO_NEW_PRIVS, 1)
            .at_item(Step::Capabilities, detail::capabilities::NO_NEW_PRIVS)?;
    }
    if setup.flags & setup::DROP_CAPS != 0 {
        empty_bounding_set(setup)?;
        sys::prctl(sys::PR_CAP_AMBIENT, u64::from(sys::PR_CAP_AMBIENT_CLEAR_ALL))
            .at_item(Step::Capabilities, detail::capabilities::AMBIENT)?;
    }
    shared.done(Step::Capabilities);
    // Landlock and the filter require either no_new_privs or CAP_SYS_ADMIN: without the former (in a test
    // that removes it), the capability sets are dropped last.
    if no_new_privs && setup.flags & setup::DROP_CAPS != 0 {
        sys::drop_capability_sets().at_item(Step::Capabilities, detail::capabilities::SETS)?;
    }
    if setup.flags & setup::SECCOMP != 0 {
        let listener = setup.flags & setup::LISTENER != 0;
        let fd = sys::install_filter(setup.filter, listener).at(Step::Seccomp)?;
        if listener {
            shared.listener.store(fd, Ordering::Release);
        }
        shared.done(Step::Seccomp);
    }
    shared.wait_for(landed);
    let root = sys::stat(c"/").at_item(Step::Readback, detail::readback::ROOT)?;
    shared.root[0].store(root.dev, Ordering::Release);
    shared.root[1].store(root.ino, Ordering::Release);
    if setup.flags & setup::LANDLOCK != 0 {
        restrict(shared)?;
        shared.done(Step::Landlock);
    }
    if !no_new_privs && setup.flags & setup::DROP_CAPS != 0 {
        sys::drop_capability_sets().at_item(Step::Capabilities, detail::capabilities::SETS_LAST)?;
    }
    Ok(())
}

/// Empties the bounding set up to the last capability that this kernel knows.
pub fn empty_bounding_set(setup: &Setup<'_>) -> Result<(), Failure> {
    for capability in 0..64 {
        match sys::prctl(sys::PR_CAPBSET_DROP, capability) {
            Err(Errno::INVAL) => break,
            // An ordinary user without a user namespace of its own may not: no_new_privs makes the set
            // ineffective.
            Err(Errno::PERM) if setup.namespaces & sys::CLONE_NEWUSER == 0 => break,
            dropped => dropped.at_item(Step::Capabilities, detail::capabilities::BOUNDING_SET)?,
        }
    }
    Ok(())
}

fn restrict(shared: &Shared<'_>) -> Result<(), Failure> {
    let plan = &shared.setup.landlock;
    let ruleset = sys::landlock_create(plan.fs, plan.net, plan.scoped)
        .at_item(Step::Landlock, detail::landlock::CREATE)?;
    let job = shared.job.load(Ordering::Acquire);
    // SAFETY: null before release; afterwards init keeps the job valid until the runner has executed.
    let more = unsafe { job.as_ref() }.map(|job| job.rules);
    let system = plan.rules.map(|(rights, path)| (rights, sys::openat(sys::AT_FDCWD, path, sys::O_PATH, 0)));
    let named = more.into_iter().flatten().map(|(rights, path)| (rights, open_straight(path)));
    for (number, (rights, opened)) in system.chain(named).enumerate() {
        // A path that does not exist in this root needs no rule.
        let fd = match opened {
            Err(Errno::NOENT) => continue,
            fd => fd.at_item(Step::Landlock, number)?,
        };
        sys::landlock_allow(ruleset, rights, fd).at_item(Step::Landlock, number)?;
        sys::close(fd);
    }
    sys::landlock_restrict(ruleset).at_item(Step::Landlock, detail::landlock::RESTRICT)?;
    sys::close(ruleset);
    Ok(())
}

/// Opens a path of the job without following links: on the host's own tree, the owner of a folder on the way
/// may have put a link there since the policy was checked. Opens each component separately, since the filter
/// refuses `openat2` where a folder of the host is writable.
fn open_straight(path: &CStr) -> sys::Result<Fd> {
    let flags = sys::O_PATH | sys::O_NOFOLLOW;
    let mut at = sys::openat(sys::AT_FDCWD, c"/", flags, 0)?;
    for name in path.to_bytes().split(|b| *b == b'/').filter(|name| !name.is_empty()) {
        let mut text = [0u8; 256];
        let next = match text.get_mut(..name.len()) {
            Some(place) => {
                place.copy_from_slice(name);
                CStr::from_bytes_until_nul(&text)
                    .map_err(|_| Errno::INVAL)
                    .and_then(|name| sys::openat(at, name, flags, 0))
            }
            None => Err(Errno::INVAL),
        };
        sys::close(at);
        at = next?;
    }
    Ok(at)
}

/// Maximum values that this process may set, by resource: its parent may have lowered them.
pub struct Ceilings([u64; RESOURCES]);

/// Number of resource limits in Linux. `getrlimit(2)`
const RESOURCES: usize = 16;

impl Ceilings {
    pub fn read() -> Result<Self, Failure> {
        let mut all = [0; RESOURCES];
        for (resource, most) in (0u32..).zip(&mut all) {
            *most = sys::hard_rlimit(resource)
                .at_item(Step::Rlimits, detail::rlimits::CEILING + resource as usize)?;
        }
        Ok(Self(all))
    }

    /// Sets the job's limits for a process; 0 is the calling process.
    pub fn limit(&self, pid: i32, job: &Job<'_>) -> Result<(), Failure> {
        for (number, (resource, soft, hard)) in job.rlimits.enumerate() {
            let most =
                self.0.get(resource as usize).copied().ok_or(Errno::INVAL).at_item(Step::Rlimits, number)?;
            sys::set_rlimit(pid, resource, soft.min(most), hard.min(most)).at_item(Step::Rlimits, number)?;
        }
        Ok(())
    }
}

/// Becomes the program of a job that init released. Returns only on failure, with the reason.
fn become_program(shared: &Shared<'_>) -> Failure {
    // SAFETY: the runner was released, so both pointers were stored, and init keeps the values valid until
    // the runner has executed.
    let (job, vectors) =
        unsafe { (&*shared.job.load(Ordering::Acquire), &*shared.vectors.load(Ordering::Acquire)) };
    let stdio = shared.stdio.each_ref().map(|fd| fd.load(Ordering::Acquire));
    match Ceilings::read().and_then(|ceilings| try_to_become(shared, job, vectors, stdio, &ceilings)) {
        Err(failure) => failure,
        Ok(never) => match never {},
    }
}

/// Applies the job's limits, folder and descriptors, and executes.
fn try_to_become(
    shared: &Shared<'_>,
    job: &Job<'_>,
    vectors: &Vectors,
    stdio: [Fd; 5],
    ceilings: &Ceilings,
) -> Result<core::convert::Infallible, Failure> {
    // From here on the descriptor table is the runner's own; all descriptors except the program's are closed
    // on exec.
    sys::close_range(3, u32::MAX, sys::CLOSE_RANGE_UNSHARE | sys::CLOSE_RANGE_CLOEXEC)
        .at_item(Step::Stdio, detail::stdio::CLOSE)?;
    let stdio = if job.terminal == 0 { stdio } else { own_terminal(job, stdio)? };
    for (place, fd) in (0..).zip(stdio) {
        if fd >= 0 {
            sys::dup3(fd, place, 0).at_item(Step::Stdio, place.unsigned_abs() as usize)?;
        }
    }
    sys::chdir(job.cwd).at(Step::Cwd)?;
    sys::umask(0o022);
    sys::block_signals(0);
    ceilings.limit(0, job)?;
    shared.asked.store(sys::now(), Ordering::Release);
    let mut answer = Errno::NOENT;
    let mut which = 0;
    for (number, path) in job.programs.enumerate() {
        shared.tried.store(number as u64, Ordering::Release);
        match execute(path, vectors) {
            Errno::NOENT | Errno::NOTDIR => {}
            Errno::ACCES => (answer, which) = (Errno::ACCES, number),
            errno => return Err(Failure { step: Step::Exec, errno, detail: number as u64 }),
        }
    }
    Err(Failure { step: Step::Exec, errno: answer, detail: which as u64 })
}

/// Makes the program's terminal in the sandbox's own `/dev/pts`, sends both its ends to the supervisor over
/// the socket that stands for standard input, and returns the descriptors with which the program starts. It
/// never gets the master or the socket: both are closed on exec.
fn own_terminal(job: &Job<'_>, stdio: [Fd; 5]) -> Result<[Fd; 5], Failure> {
    let made = || {
        let [master, slave] = sys::open_terminal(c"/dev/ptmx")?;
        sys::set_window(slave, job.terminal)?;
        sys::take_terminal(slave)?;
        sys::send(stdio[0], b"t", &[master, slave])?;
        Ok(slave)
    };
    let slave = made().at_item(Step::Stdio, detail::stdio::TERMINAL)?;
    Ok([slave, slave, slave, stdio[3], stdio[4]])
}

/// Executes the program. A program that was just written may still be open for writing, in a child that
/// another thread of its writer is starting: such descriptors are closed within milliseconds, so this
/// retries. `execve(2)`, ETXTBSY
fn execute(path: &CStr, vectors: &Vectors) -> Errno {
    let mut errno = Errno::TXTBSY;
    for _ in 0..BUSY_TIMEOUT_MS {
        // SAFETY: init built both arrays from the job's checked strings, each ended by a null.
        errno = unsafe { sys::execve(path, vectors.argv, vectors.env) };
        if errno != Errno::TXTBSY {
            break;
        }
        let _ = sys::poll(&mut [], 1);
    }
    errno
}
