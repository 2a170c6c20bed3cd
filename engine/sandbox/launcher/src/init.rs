//! Process 1 of a sandbox: sets it up, attaches the job's mounts at release, reaps, reports the end.
//!
//! Init runs without Landlock, because a landlocked process cannot mount, but has a small filter of its own.
//! No byte that the program wrote is ever read here.

use core::sync::atomic::Ordering;

use crate::anonymous::Files;
use crate::attach::{SCRATCH, attach, mountpoint};
use crate::ipc;
use crate::primed;
use crate::readback;
use crate::release::Release;
use crate::report::{At, Failure, Log, tell_failure};
use crate::runner::{self, Ceilings, Shared, TREE, Vectors};
use crate::sockets;
use crate::sys::{self, CloneArgs, Errno, Fd};
use crate::text::Text;
use crate::tree;
use crate::wire::{
    ASK, How, Job, JobMount, MAX_LETTER, MAX_PRIME_MOUNTS, QUIET_PERIOD_MS, Setup, Step, detail, setup, tell,
};

/// Resources that the launcher passes to a new init.
pub struct Inherited<'a> {
    /// The socket to the supervisor.
    pub control: Fd,
    /// The `tasks` files of cgroup version 1.
    pub cgroup: &'a [Fd],
    /// The detached root, or -1.
    pub tree: Fd,
    /// The mounts of a primed runtime, then its library; empty without a primed runtime.
    pub prime: &'a [Fd],
    /// Pipe that receives one byte when the id maps are written.
    pub go: Fd,
    /// Pipe that is closed when the launcher ends.
    pub life: Fd,
    /// Time when the request arrived.
    pub started: u64,
}

// Fixed numbers for the descriptors that init keeps, so that all others can be closed; 12 is scratch.
const CONTROL: Fd = 10;
const LIFE: Fd = 11;
/// The mounts of a primed runtime, then its library.
const PRIME: Fd = 14;

/// Runs init. Never returns.
pub fn run<'a>(setup: &'a Setup<'a>, inherited: &Inherited<'_>) -> ! {
    let mut control = inherited.control;
    let mut log = Log::new();
    if let Err(failure) = live(setup, inherited, &mut control, &mut log) {
        // The runner may be waiting for a job, or may already have become the program.
        end_tree(setup);
        let _ = tell_failure(&mut log, control, failure);
        sys::exit(1);
    }
    sys::exit(0)
}

fn live<'a>(
    setup: &'a Setup<'a>,
    from: &Inherited<'_>,
    control: &mut Fd,
    log: &mut Log,
) -> Result<(), Failure> {
    // First, because `identify` changes the ids, and in cgroup version 1 only the host's root may move a task
    // of another user.
    join_cgroup(setup, from, log)?;
    identify(setup, from, log)?;
    keep_descriptors(from).at(Step::Ids)?;
    *control = CONTROL;

    // Meanwhile, on another processor, the runner covers parts of /proc and confines itself.
    let shared = Shared::new(setup);
    let pid = start_runner(&shared)?;
    log.done(Step::Runner);
    enter_root(setup, &shared, log)?;
    let signals = sys::sigchld_fd().at(Step::Runner)?;
    // Only with a network namespace that belongs to the sandbox and not to the host: the socket reports on
    // the namespace in which it was made.
    let sampled = setup::SAMPLE | setup::ROOT;
    let own_network = setup.flags & sampled == sampled && setup.namespaces & sys::CLONE_NEWNET == 0;
    let sockets =
        if own_network { sockets::ask().at_item(Step::Network, detail::network::SOCKET_USE)? } else { -1 };
    let own_objects = setup.namespaces & sys::CLONE_NEWIPC != 0;
    let ends = Ends { signals, sockets, own_objects };
    let early = setup.flags & setup::HARDEN_LATE == 0;
    if early {
        confirm(setup, &shared, pid, log)?;
    }
    let primed = if early && setup.flags & setup::PRIME != 0 {
        let library = PRIME + Fd::try_from(setup.prime.mounts.len()).unwrap_or(0);
        let primed = primed::start(setup, &shared, pid, library, [CONTROL, LIFE])?;
        log.done(Step::Prime);
        Some((primed, Ceilings::read()?))
    } else {
        None
    };
    if early && setup.flags & setup::DIRECT != 0 {
        return direct(setup, &shared, pid, ends, log);
    }
    // Mapped now, to save the time later.
    let letter = sys::map(-1, 8 + MAX_LETTER).at(Step::Release)?;
    tell_ready(setup, &shared, early, None, log)?;

    let waiting = [primed.as_ref().map_or(-1, |(primed, _)| primed.socket), signals];
    let release = receive_job(setup, letter, pid, waiting)?;
    let job = Job::decode(release.memory).map_err(|_| Errno::PROTO).at(Step::Release)?;
    log.done(Step::Release);
    let copies = attach(&job, &release, setup, log)?;
    if let Some((primed, ceilings)) = primed {
        ceilings.limit(pid, &job)?;
        primed::hand_over(&primed, &job, &release)?;
        log.done(Step::Exec);
        let news = News { tried: 0, copies, at: sys::now() };
        retire(setup, ends)?;
        return supervise(setup, job.memory, ends, pid, news, false, log);
    }
    let vectors = Vectors::of(&job).at(Step::Release)?;
    shared.release(&job, &vectors, release.stdio(&job)?);
    if !early {
        confirm(setup, &shared, pid, log)?;
        if setup.flags & setup::LISTENER != 0 {
            let listener = shared.listener.load(Ordering::Acquire);
            log.tell(CONTROL, tell::READY, [1, 0, 0], &[listener]).at(Step::Readback)?;
        }
        shared.go();
    }
    let tried = shared.wait_until_executed()?;
    log.done_at(Step::Exec, shared.asked());
    let news = News { tried, copies, at: shared.asked() };
    retire(setup, ends)?;
    supervise(setup, job.memory, ends, pid, news, false, log)
}

/// Descriptors that init polls while the program runs.
#[derive(Clone, Copy)]
struct Ends {
    /// Readable when a child has ended.
    signals: Fd,
    /// Socket to query the memory of the sandbox's sockets; -1 if a cgroup counts it.
    sockets: Fd,
    /// Whether its System V objects are its own, and not the host's.
    own_objects: bool,
}

/// Runs the rest of a sandbox whose job needs nothing from init and is sent directly to the runner: no other
/// process has to wake up before the program starts, and init has no more privileges to drop then.
fn direct<'a>(
    setup: &Setup<'a>,
    shared: &Shared<'a>,
    pid: i32,
    ends: Ends,
    log: &mut Log,
) -> Result<(), Failure> {
    let [theirs, runners] = sys::socket_pair().at_item(Step::Release, detail::release::SOCKETS)?;
    weaken(setup)?;
    tell_ready(setup, shared, true, Some(theirs), log)?;
    sys::close(theirs);
    // Only now, since descriptors that the runner receives go into the shared table. A job that has already
    // arrived waits in the socket.
    shared.may_take(runners);

    // The runner wakes no process when it takes its job: most programs end before their start has to be
    // known, and otherwise the supervisor asks.
    let mut poll = [CONTROL, LIFE, ends.signals].map(|fd| {
        let events = if fd == LIFE { 0 } else { sys::POLLIN };
        sys::PollFd { fd, events, revents: 0 }
    });
    sys::poll(&mut poll, -1).at(Step::Release)?;
    let asked = poll[0].revents != 0 && hear_ask();
    if poll[1].revents != 0 || (poll[0].revents != 0 && !asked) {
        // The supervisor no longer needs this sandbox, or the launcher has ended.
        end_tree(setup);
        sys::exit(i32::from(poll[1].revents != 0));
    }
    let tried = shared.wait_until_executed()?;
    let (at, memory) = shared.taken();
    if at == 0 {
        // A runner that was killed while it waited took no job: its status is not the end of a program.
        end_tree(setup);
        sys::exit(1);
    }
    log.done_at(Step::Release, at);
    log.done_at(Step::Exec, shared.asked());
    let news = News { tried, copies: 0, at: shared.asked() };
    supervise(setup, memory, ends, pid, news, asked, log)
}

/// Drops init's privileges and descriptors when the program runs: from here on init only waits.
fn retire(setup: &Setup<'_>, ends: Ends) -> Result<(), Failure> {
    close_all_but(ends)?;
    weaken(setup)
}

/// Drops the privilege to mount, and limits the system calls to those that waiting and reporting need.
fn weaken(setup: &Setup<'_>) -> Result<(), Failure> {
    sys::drop_capability_sets().at(Step::Supervise)?;
    if !setup.init_filter.is_empty() {
        sys::prctl(sys::PR_SET_NO_NEW_PRIVS, 1).at(Step::InitFilter)?;
        sys::install_filter(setup.init_filter, false).at(Step::InitFilter)?;
    }
    Ok(())
}

/// Closes the program's descriptors, and all others that init no longer needs.
fn close_all_but(ends: Ends) -> Result<(), Failure> {
    let mut kept = [CONTROL, LIFE, SCRATCH, ends.signals, ends.sockets];
    kept.sort_unstable();
    let mut first = 0;
    for kept in kept.into_iter().filter(|fd| *fd >= 0).map(Fd::unsigned_abs) {
        if first < kept {
            sys::close_range(first, kept - 1, 0).at(Step::Supervise)?;
        }
        first = kept + 1;
    }
    sys::close_range(first, u32::MAX, 0).at(Step::Supervise)
}

/// Changes to the ids inside, then ties the process's life to the launcher's.
fn identify(setup: &Setup<'_>, from: &Inherited<'_>, log: &mut Log) -> Result<(), Failure> {
    let mut byte = [0u8];
    if sys::read(from.go, &mut byte).at(Step::Map)? != 1 {
        return Err(Failure { step: Step::Map, errno: Errno::PERM, detail: 0 });
    }
    log.done(Step::Map);
    sys::set_name(c"hotcell-init");
    if setup.flags & setup::PRIVILEGED_MAP != 0 {
        if setup.namespaces & sys::CLONE_NEWUSER == 0 && setup.flags & setup::DROP_CAPS != 0 {
            // Changing the ids would drop the privilege to empty the bounding set.
            runner::empty_bounding_set(setup)?;
        }
        sys::drop_groups().at_item(Step::Ids, detail::ids::GROUPS)?;
        sys::set_ids(setup.inside.0, setup.inside.1).at_item(Step::Ids, detail::ids::IDS)?;
    }
    // A change of ids clears both settings, so they come after it. Without a pid namespace a killed init
    // would leave the program running: there init learns of the launcher's end from the life pipe, and ends
    // the tree first.
    if setup.flags & setup::PID_NS != 0 {
        sys::prctl(sys::PR_SET_PDEATHSIG, u64::from(sys::SIGKILL.unsigned_abs()))
            .at_item(Step::Ids, detail::ids::PARENT_DEATH)?;
    }
    sys::prctl(sys::PR_SET_DUMPABLE, 0).at_item(Step::Ids, detail::ids::DUMPABLE)?;
    if gone(from.life) {
        sys::exit(1);
    }
    if setup.flags & setup::PID_NS == 0 {
        sys::prctl(sys::PR_SET_CHILD_SUBREAPER, 1).at_item(Step::Ids, detail::ids::SUBREAPER)?;
    }
    sys::default_sigchld();
    sys::block_signals(u64::MAX);
    log.done(Step::Ids);
    Ok(())
}

/// Whether the other side of a pipe or socket was closed.
fn gone(fd: Fd) -> bool {
    let mut poll = [sys::PollFd { fd, events: 0, revents: 0 }];
    matches!(sys::poll(&mut poll, 0), Ok(n) if n > 0 && poll[0].revents & (sys::POLLHUP | sys::POLLERR) != 0)
}

fn join_cgroup(setup: &Setup<'_>, from: &Inherited<'_>, log: &mut Log) -> Result<(), Failure> {
    log.done_at(Step::Decode, from.started);
    if setup.flags & setup::CGROUP_V1 != 0 {
        for (number, tasks) in from.cgroup.iter().enumerate() {
            // "0" means the writing thread; `tasks` avoids the global lock that `cgroup.procs` takes.
            sys::write(*tasks, b"0").at_item(Step::Cgroup, number)?;
        }
    }
    if setup.flags & setup::CGROUP_NS != 0 {
        sys::unshare(sys::CLONE_NEWCGROUP).at_item(Step::Cgroup, detail::cgroup::NAMESPACE)?;
    }
    log.done(Step::Cgroup);
    Ok(())
}

/// Attaches the root, makes the mounts private to this sandbox, and leaves the old tree.
fn enter_root(setup: &Setup<'_>, shared: &Shared<'_>, log: &mut Log) -> Result<(), Failure> {
    if !setup.hostname.is_empty() {
        sys::sethostname(setup.hostname).at_item(Step::Network, detail::network::HOST_NAME)?;
    }
    if setup.flags & setup::ROOT == 0 {
        shared.rooted();
        return Ok(());
    }
    sys::move_mount(TREE, sys::AT_FDCWD, c"/").at(Step::Root)?;
    sys::fchdir(TREE).at(Step::Root)?;
    log.done(Step::Root);
    let quiet = sys::MS_NOSUID | sys::MS_NODEV | sys::MS_NOEXEC;
    if setup.flags & setup::PROC != 0 {
        // Before the old root is detached: the kernel requires that a complete /proc is visible.
        let options = if setup.flags & setup::PROC_SUBSET != 0 { c"subset=pid" } else { c"" };
        sys::mount(c"proc", c"proc", c"proc", quiet, options).at(Step::Proc)?;
        log.done(Step::Proc);
    }
    shared.proc_is_there();
    if setup.flags & setup::SCRATCH != 0 {
        mount_scratch(setup).at(Step::Scratch)?;
        log.done(Step::Scratch);
    }
    if setup.flags & setup::DEVPTS != 0 {
        // All instances of the host share 4,096 terminals, of which 1,024 are reserved for the host. With
        // this limit, 48 sandboxes at once can use theirs.
        let exec = sys::MS_NOSUID | sys::MS_NOEXEC;
        sys::mount(c"devpts", c"dev/pts", c"devpts", exec, c"newinstance,ptmxmode=0666,mode=0620,max=64")
            .at(Step::Devpts)?;
        log.done(Step::Devpts);
    }
    if setup.flags & setup::MQUEUE != 0 {
        sys::mount(c"mqueue", c"dev/mqueue", c"mqueue", quiet, c"")
            .at_item(Step::Devpts, detail::devpts::QUEUES)?;
    }
    sys::pivot_root(c".", c".").at(Step::Pivot)?;
    for (number, ((target, dir), fd)) in setup.prime.mounts.zip(PRIME..).enumerate() {
        let mount = JobMount { fd: 0, how: How::Bind, dir, target };
        let attached = mountpoint(&mount).and_then(|place| {
            let moved = sys::move_mount(fd, place, c"");
            sys::close(place);
            moved
        });
        attached.at_item(Step::Mounts, number)?;
        sys::close(fd);
    }
    // From here on the new root is the runner's root, so it can restrict itself while the old tree is
    // detached.
    shared.rooted();
    sys::umount(c".", sys::MNT_DETACH).at(Step::Pivot)?;
    sys::chdir(c"/").at(Step::Pivot)?;
    log.done(Step::Pivot);
    Ok(())
}

/// Mounts scratch: one tmpfs with one limit of bytes and of files, shown in four places.
fn mount_scratch(setup: &Setup<'_>) -> sys::Result<()> {
    let size =
        Text::of(format_args!("size={},nr_inodes={},mode=0755", setup.scratch_bytes, setup.scratch_files));
    sys::mount(c"scratch", c"tmp", c"tmpfs", sys::MS_NOSUID | sys::MS_NODEV, size.cstr())?;
    let top = sys::openat(sys::AT_FDCWD, c"tmp", sys::O_PATH | sys::O_DIRECTORY, 0)?;
    for (name, mode) in [(c"home", 0o755), (c"shm", 0o1777), (c"tmp", 0o1777)] {
        sys::mkdirat(top, name, mode)?;
    }
    for (from, to) in [(c"tmp/home", c"home/sandbox"), (c"tmp/shm", c"dev/shm"), (c"tmp/tmp", c"var/tmp")] {
        sys::mount(from, to, c"", sys::MS_BIND, c"")?;
    }
    // Last: it hides the top folder, which will contain overlays' upper layers.
    sys::mount(c"tmp/tmp", c"tmp", c"", sys::MS_BIND, c"")?;
    sys::dup3(top, SCRATCH, sys::O_CLOEXEC)
}

/// Moves the descriptors that init keeps to fixed numbers and closes all other inherited ones.
fn keep_descriptors(from: &Inherited<'_>) -> sys::Result<()> {
    // Inherited numbers may collide with the fixed ones, so duplicate to numbers above all of these first.
    // Those are low, and the next free ones, because the parent process may have a low limit of descriptors.
    const BEHIND: Fd = 24;
    const { assert!(PRIME.unsigned_abs() as usize + MAX_PRIME_MOUNTS <= BEHIND.unsigned_abs() as usize) }
    let mut kept = [(-1, -1); 4 + MAX_PRIME_MOUNTS];
    kept[..3].copy_from_slice(&[(from.control, CONTROL), (from.life, LIFE), (from.tree, TREE)]);
    for (slot, (fd, place)) in kept[3..].iter_mut().zip(from.prime.iter().copied().zip(PRIME..)) {
        *slot = (fd, place);
    }
    for (fd, _) in kept.iter_mut().filter(|(fd, _)| *fd >= 0) {
        *fd = sys::dup_above(*fd, BEHIND)?;
    }
    for (fd, place) in kept.into_iter().filter(|(fd, _)| *fd >= 0) {
        sys::dup3(fd, place, sys::O_CLOEXEC)?;
    }
    // Occupy standard input, output and error, so that no other descriptor gets their numbers.
    for place in 0..=2 {
        sys::dup3(CONTROL, place, sys::O_CLOEXEC)?;
    }
    sys::close_range(3, 9, 0)?;
    sys::close_range(SCRATCH.unsigned_abs(), SCRATCH.unsigned_abs(), 0)?;
    sys::close_range(PRIME.unsigned_abs() + u32::try_from(from.prime.len()).unwrap_or(0), u32::MAX, 0)
}

/// Starts the runner on a stack of its own; it shares memory and descriptors with init until it executes the
/// program.
fn start_runner(shared: &Shared<'_>) -> Result<i32, Failure> {
    const STACK_BYTES: usize = 64 * 1024;
    let stack = sys::map(-1, STACK_BYTES).at(Step::Runner)?;
    let args = CloneArgs {
        flags: sys::CLONE_VM | sys::CLONE_FILES | sys::CLONE_CHILD_CLEARTID,
        exit_signal: u64::from(sys::SIGCHLD.unsigned_abs()),
        child_tid: shared.alive.as_ptr() as u64,
        stack: stack.as_mut_ptr() as u64,
        stack_size: STACK_BYTES as u64,
        ..CloneArgs::default()
    };
    let argument = core::ptr::from_ref(shared).cast_mut().cast();
    // SAFETY: the stack is a fresh mapping that is never freed; `shared` lives on init's stack, in a frame
    // that does not return before the runner has executed or ended; it is accessed through atomics only.
    unsafe { sys::clone_onto(&args, runner::entry, argument) }.at(Step::Runner)
}

/// Waits until the runner is confined, and reads every layer back.
fn confirm(setup: &Setup<'_>, shared: &Shared<'_>, pid: i32, log: &mut Log) -> Result<(), Failure> {
    shared.wait_until_confined()?;
    for (step, at) in shared.times() {
        log.done_at(step, at);
    }
    readback::check(setup, pid, shared.its_root())?;
    log.done(Step::Readback);
    Ok(())
}

fn tell_ready(
    setup: &Setup<'_>,
    shared: &Shared<'_>,
    early: bool,
    direct: Option<Fd>,
    log: &mut Log,
) -> Result<(), Failure> {
    let mut fds = [-1; 3];
    let mut count = 0;
    if let Some(direct) = direct {
        fds[count] = direct;
        count += 1;
    }
    let listener = early && setup.flags & setup::LISTENER != 0;
    if setup.flags & setup::SCRATCH != 0 {
        fds[count] = SCRATCH;
        count += 1;
    }
    if listener {
        fds[count] = shared.listener.load(Ordering::Acquire);
        count += 1;
    }
    let told = [u64::from(listener), u64::from(direct.is_some()), 0];
    log.tell(CONTROL, tell::READY, told, &fds[..count]).at(Step::Readback)
}

/// Waits for the job. If a primed runtime or a runner ends while it waits, its sandbox ends too: no process
/// is left to run the job, and the runner's status is not the end of a program.
fn receive_job<'a>(
    setup: &Setup<'_>,
    letter: &'a mut [u8],
    runner: i32,
    [primed, signals]: [Fd; 2],
) -> Result<Release<'a>, Failure> {
    let mut poll = [
        sys::PollFd { fd: CONTROL, events: sys::POLLIN, revents: 0 },
        sys::PollFd { fd: LIFE, events: 0, revents: 0 },
        sys::PollFd { fd: primed, events: 0, revents: 0 },
        sys::PollFd { fd: signals, events: sys::POLLIN, revents: 0 },
    ];
    loop {
        sys::poll(&mut poll, -1).at(Step::Release)?;
        // A runtime may have left children, which may end at any time.
        let alone = poll[3].revents != 0 && reap(signals, runner).is_some();
        if poll[1].revents != 0 || poll[2].revents != 0 || alone {
            end_tree(setup);
            sys::exit(1);
        }
        if poll[0].revents != 0 {
            break;
        }
    }
    let message = sys::receive(CONTROL, letter).at(Step::Release)?;
    if message.len == 0 {
        end_tree(setup);
        sys::exit(0); // the supervisor no longer needs this sandbox
    }
    Release::of(&message, letter)
}

/// Ends the remaining processes of the tree. In an own pid namespace the end of process 1 does that.
fn end_tree(setup: &Setup<'_>) {
    if setup.flags & setup::PID_NS == 0 {
        tree::end();
    }
}

/// The message that the program runs.
struct News {
    /// Index of its path among those tried.
    tried: u64,
    /// A bit for each mount that is a copy.
    copies: u64,
    /// Time of its start.
    at: u64,
}

impl News {
    fn tell(self, log: &mut Log) -> Result<(), Failure> {
        log.tell(CONTROL, tell::RUNNING, [self.tried, self.copies, self.at], &[]).at(Step::Supervise)
    }
}

/// Maximum time in milliseconds that process 1 stays after its last message, unless the supervisor hangs up
/// earlier. Ending at once, together with the namespaces, would take the processor from the process that
/// waits for this message.
const PARTING_TIMEOUT_MS: i64 = 1;

/// Reaps all ended children; returns the status of `one` if it is among them.
fn reap(signals: Fd, one: i32) -> Option<i32> {
    let _ = sys::read(signals, &mut [0u8; 128]);
    while let Ok((pid, status)) = sys::wait(-1, sys::WNOHANG | sys::WALL) {
        if pid == 0 {
            return None;
        }
        if pid == one {
            return Some(status);
        }
    }
    None
}

/// Reads a message of the supervisor; true if it asks whether the program runs, false if it asks for the
/// end.
fn hear_ask() -> bool {
    let mut word = [0u8; ASK.len()];
    sys::read(CONTROL, &mut word) == Ok(ASK.len()) && word == *ASK
}

/// Reaps until the program has ended, then reports. Ends early when supervisor or launcher have ended. The
/// message that the program runs is sent together with its end, unless the supervisor `asked` for it: waking
/// the supervisor earlier would only take a processor from the program.
fn supervise(
    setup: &Setup<'_>,
    memory: u64,
    ends: Ends,
    program: i32,
    news: News,
    asked: bool,
    log: &mut Log,
) -> Result<(), Failure> {
    let interval = if setup.flags & setup::SAMPLE != 0 { 50 } else { -1 };
    // A supervisor that stops a run early must know which of its folders are copies.
    let mut patience = if asked || news.copies != 0 { 0 } else { i64::from(QUIET_PERIOD_MS) };
    let mut news = Some(news);
    // Only where it samples, so that its table costs other runs nothing.
    let mut files = None;
    let mut poll = [
        sys::PollFd { fd: CONTROL, events: sys::POLLIN, revents: 0 },
        sys::PollFd { fd: LIFE, events: 0, revents: 0 },
        sys::PollFd { fd: ends.signals, events: sys::POLLIN, revents: 0 },
    ];
    loop {
        match sys::poll(&mut poll, patience) {
            Ok(_) | Err(Errno::INTR) => {}
            Err(errno) => return Err(Failure { step: Step::Supervise, errno, detail: 1 }),
        }
        patience = interval;
        if poll[1].revents != 0 || (poll[0].revents != 0 && !hear_ask()) {
            // The supervisor asks for the end, or supervisor or launcher have ended.
            end_tree(setup);
            sys::exit(1);
        }
        let ended = reap(ends.signals, program);
        // When the program has ended, this message is only needed for its copies.
        if let Some(news) = news.take_if(|news| ended.is_none() || news.copies != 0) {
            // Where a runner received its job itself, the program's descriptors are in init's table too.
            close_all_but(ends)?;
            news.tell(log)?;
        }
        if let Some(status) = ended {
            log.done(Step::Supervise);
            end_tree(setup);
            let usage = sys::children_rusage();
            let peak = usage.max_rss_kib.unsigned_abs() * 1024;
            let numbers = [u64::from(status.cast_unsigned()), usage.cpu_us(), peak];
            log.tell(CONTROL, tell::ENDED, numbers, &[]).at_item(Step::Supervise, detail::supervise::END)?;
            let _ = sys::poll(&mut poll[..2], PARTING_TIMEOUT_MS);
            return Ok(());
        }
        if interval > 0 {
            let buffered = sockets::held(ends.sockets);
            let objects = if ends.own_objects { ipc::held() } else { ipc::Held::default() };
            let beside = buffered.saturating_add(objects.total());
            // Before the living processes are read: one that ends in between counts in the next sample, and
            // never twice.
            let ended = sys::children_rusage().cpu_us();
            let used = tree::used(memory.saturating_sub(beside), files.get_or_insert_with(Files::new));
            let held = used.memory.saturating_add(beside);
            log.tell(CONTROL, tell::USE, [held, used.cpu_us + ended, used.processes], &[])
                .at_item(Step::Supervise, detail::supervise::USE)?;
        }
    }
}
