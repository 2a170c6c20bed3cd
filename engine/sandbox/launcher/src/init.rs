//! Process 1 of a sandbox: sets it up, attaches the job's mounts at release, reaps, reports the ending.
//!
//! It stays without Landlock, because a landlocked process cannot mount, and has a small filter of its own
//! instead. It never reads a byte that the program wrote.

use core::ffi::CStr;
use core::sync::atomic::Ordering;

use crate::copy;
use crate::primed;
use crate::readback;
use crate::report::{At, Failure, Log, tell_failure};
use crate::runner::{self, Shared, TREE, Vectors};
use crate::sys::{self, CloneArgs, Errno, Fd};
use crate::text::Text;
use crate::tree;
use crate::wire::{How, Job, JobMount, MAX_LAYERS, MAX_PRIME_MOUNTS, Setup, Step, setup, tell};

/// What the launcher hands to a new init.
pub struct Inherited<'a> {
    /// The socket to the supervisor.
    pub control: Fd,
    /// Version 1 `tasks` files.
    pub cgroup: &'a [Fd],
    /// The detached root, or -1.
    pub tree: Fd,
    /// The mounts of a primed runtime, then its library; empty without one.
    pub prime: &'a [Fd],
    /// One byte comes when the maps are written.
    pub go: Fd,
    /// Ends when the launcher does.
    pub life: Fd,
    /// When the request arrived.
    pub started: u64,
}

// Fixed places for what init keeps, so that everything else can be swept.
const CONTROL: Fd = 10;
const LIFE: Fd = 11;
const SCRATCH: Fd = 12;
/// The mounts of a primed runtime, then its library.
const PRIME: Fd = 14;

/// Init. Never returns.
pub fn run<'a>(setup: &'a Setup<'a>, inherited: &Inherited<'_>) -> ! {
    let mut control = inherited.control;
    let mut log = Log::new();
    if let Err(failure) = live(setup, inherited, &mut control, &mut log) {
        // The runner may wait for a job, or have become the program already.
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
    // First: cgroup version 1 lets only root of the whole host move a task of another user, and identify changes ids.
    join_cgroup(setup, from, log)?;
    identify(setup, from, log)?;
    keep_descriptors(from).at(Step::Ids)?;
    *control = CONTROL;

    // The runner covers parts of /proc and confines itself on the other processor meanwhile.
    let shared = Shared::new(setup);
    let pid = start_runner(&shared)?;
    log.done(Step::Runner);
    enter_root(setup, &shared, log)?;
    let signals = sys::sigchld_fd().at(Step::Runner)?;
    let early = setup.flags & setup::HARDEN_LATE == 0;
    if early {
        confirm(setup, &shared, pid, log)?;
    }
    let primed = if early && setup.flags & setup::PRIME != 0 {
        let library = PRIME + Fd::try_from(setup.prime.mounts.len()).unwrap_or(0);
        let primed = primed::start(setup, &shared, pid, library, [CONTROL, LIFE])?;
        log.done(Step::Prime);
        Some(primed)
    } else {
        None
    };
    tell_ready(setup, &shared, early, log)?;

    let release = receive_job(setup, primed.as_ref().map(|primed| primed.socket))?;
    let memory = sys::map(release.fds[0], release.len).at(Step::Release)?;
    let job = Job::decode(memory).map_err(|_| Errno::PROTO).at(Step::Release)?;
    let vectors = Vectors::of(&job).at(Step::Release)?;
    log.done(Step::Release);
    let copies = attach(&job, &release, setup, log)?;
    if let Some(primed) = primed {
        primed::hand_over(&primed, pid, &job, &release)?;
        log.tell(CONTROL, tell::RUNNING, [0, copies, 0], &[]).at(Step::Supervise)?;
        retire(setup, signals)?;
        return supervise(setup, job.memory, signals, pid, log);
    }
    let events = if job.events { release.fd(4 + job.mounts.len()).at(Step::Release)? } else { -1 };
    shared.release(&job, &vectors, [release.fds[1], release.fds[2], release.fds[3], events, -1]);
    if !early {
        confirm(setup, &shared, pid, log)?;
        if setup.flags & setup::LISTENER != 0 {
            let listener = shared.listener.load(Ordering::Acquire);
            log.tell(CONTROL, tell::READY, [1, 0, 0], &[listener]).at(Step::Readback)?;
        }
        shared.go();
    }
    let tried = shared.wait_until_executed()?;
    log.done(Step::Exec);
    log.tell(CONTROL, tell::RUNNING, [tried, copies, 0], &[]).at(Step::Supervise)?;
    retire(setup, signals)?;
    supervise(setup, job.memory, signals, pid, log)
}

/// The program runs and init only waits from here on: the right to mount goes, the program's descriptors go,
/// and of the system calls those stay that waiting and reporting need.
fn retire(setup: &Setup<'_>, signals: Fd) -> Result<(), Failure> {
    sys::drop_capability_sets().at(Step::Supervise)?;
    sys::close_range(0, 2, 0).at(Step::Supervise)?;
    for fd in 3..=signals.max(64) {
        if fd != signals && !(CONTROL..=SCRATCH).contains(&fd) {
            sys::close(fd);
        }
    }
    if !setup.init_filter.is_empty() {
        sys::prctl(sys::PR_SET_NO_NEW_PRIVS, 1).at(Step::InitFilter)?;
        sys::install_filter(setup.init_filter, false).at(Step::InitFilter)?;
    }
    Ok(())
}

/// Takes the ids inside, then ties its life to the launcher's.
fn identify(setup: &Setup<'_>, from: &Inherited<'_>, log: &mut Log) -> Result<(), Failure> {
    let mut byte = [0u8];
    if sys::read(from.go, &mut byte).at(Step::Map)? != 1 {
        return Err(Failure { step: Step::Map, errno: Errno::PERM, detail: 0 });
    }
    log.done(Step::Map);
    sys::set_name(c"hotcell-init");
    if setup.flags & setup::PRIVILEGED_MAP != 0 {
        if setup.namespaces & sys::CLONE_NEWUSER == 0 && setup.flags & setup::DROP_CAPS != 0 {
            // The change of ids takes the right to empty the bounding set.
            runner::empty_bounding_set(setup)?;
        }
        sys::drop_groups().at_item(Step::Ids, 1)?;
        sys::set_ids(setup.inside.0, setup.inside.1).at_item(Step::Ids, 2)?;
    }
    // A change of ids clears both, so they come after it.
    // Without a process namespace a killed init would leave the program behind: there it hears of the launcher's
    // end by the life pipe and ends the tree first.
    if setup.flags & setup::PID_NS != 0 {
        sys::prctl(sys::PR_SET_PDEATHSIG, u64::from(sys::SIGKILL.unsigned_abs())).at_item(Step::Ids, 3)?;
    }
    sys::prctl(sys::PR_SET_DUMPABLE, 0).at_item(Step::Ids, 4)?;
    if gone(from.life) {
        sys::exit(1);
    }
    if setup.flags & setup::PID_NS == 0 {
        sys::prctl(sys::PR_SET_CHILD_SUBREAPER, 1).at_item(Step::Ids, 5)?;
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
            // "0" is the writing thread; `tasks` avoids the global lock that `cgroup.procs` takes.
            sys::write(*tasks, b"0").at_item(Step::Cgroup, number)?;
        }
    }
    if setup.flags & setup::CGROUP_NS != 0 {
        sys::unshare(sys::CLONE_NEWCGROUP).at_item(Step::Cgroup, 99)?;
    }
    log.done(Step::Cgroup);
    Ok(())
}

/// Attaches the root, makes the mounts that belong to this sandbox alone, and leaves the old tree.
fn enter_root(setup: &Setup<'_>, shared: &Shared<'_>, log: &mut Log) -> Result<(), Failure> {
    if !setup.hostname.is_empty() {
        sys::sethostname(setup.hostname).at_item(Step::Network, 1)?;
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
        // Before the old root goes: the kernel wants a complete /proc in sight.
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
        let exec = sys::MS_NOSUID | sys::MS_NOEXEC;
        sys::mount(c"devpts", c"dev/pts", c"devpts", exec, c"newinstance,ptmxmode=0666,mode=0620")
            .at(Step::Devpts)?;
        log.done(Step::Devpts);
    }
    if setup.flags & setup::MQUEUE != 0 {
        sys::mount(c"mqueue", c"dev/mqueue", c"mqueue", quiet, c"").at_item(Step::Devpts, 1)?;
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
    // The runner's root is the new one from here on: it can restrict itself while the old tree goes.
    shared.rooted();
    sys::umount(c".", sys::MNT_DETACH).at(Step::Pivot)?;
    sys::chdir(c"/").at(Step::Pivot)?;
    log.done(Step::Pivot);
    Ok(())
}

/// One tmpfs with one size and one count of files, shown in four places.
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
    // Last: it hides the top folder, where an overlay's upper layer will be.
    sys::mount(c"tmp/tmp", c"tmp", c"", sys::MS_BIND, c"")?;
    sys::dup3(top, SCRATCH, sys::O_CLOEXEC)
}

/// Moves what init keeps to fixed places and closes everything else that it inherited.
fn keep_descriptors(from: &Inherited<'_>) -> sys::Result<()> {
    // Inherited numbers may collide with the fixed places: go through high places first.
    const HIGH: Fd = 500;
    let mut kept = [(-1, -1); 4 + MAX_PRIME_MOUNTS];
    kept[..3].copy_from_slice(&[(from.control, CONTROL), (from.life, LIFE), (from.tree, TREE)]);
    for (slot, (fd, place)) in kept[3..].iter_mut().zip(from.prime.iter().copied().zip(PRIME..)) {
        *slot = (fd, place);
    }
    for (offset, (fd, _)) in (0..).zip(kept).filter(|(_, (fd, _))| *fd >= 0) {
        sys::dup3(fd, HIGH + offset, sys::O_CLOEXEC)?;
    }
    for (offset, (_, place)) in (0..).zip(kept).filter(|(_, (fd, _))| *fd >= 0) {
        sys::dup3(HIGH + offset, place, sys::O_CLOEXEC)?;
    }
    // Standard input, output and error are taken, so that nothing else gets their numbers.
    for place in 0..=2 {
        sys::dup3(CONTROL, place, sys::O_CLOEXEC)?;
    }
    sys::close_range(3, 9, 0)?;
    sys::close_range(SCRATCH.unsigned_abs(), SCRATCH.unsigned_abs(), 0)?;
    sys::close_range(PRIME.unsigned_abs() + u32::try_from(from.prime.len()).unwrap_or(0), u32::MAX, 0)
}

/// Starts the runner on a stack of its own, sharing memory and descriptors with init until it executes.
fn start_runner(shared: &Shared<'_>) -> Result<i32, Failure> {
    const STACK: usize = 64 * 1024;
    let stack = sys::map(-1, STACK).at(Step::Runner)?;
    let args = CloneArgs {
        flags: sys::CLONE_VM | sys::CLONE_FILES | sys::CLONE_CHILD_CLEARTID,
        exit_signal: u64::from(sys::SIGCHLD.unsigned_abs()),
        child_tid: shared.alive.as_ptr() as u64,
        stack: stack.as_mut_ptr() as u64,
        stack_size: STACK as u64,
        ..CloneArgs::default()
    };
    let argument = core::ptr::from_ref(shared).cast_mut().cast();
    // SAFETY: the stack is a fresh mapping that is never freed; `shared` lives on init's stack, which does not
    // return before the runner has executed or ended; it is touched through atomics only.
    unsafe { sys::clone_onto(&args, runner::entry, argument) }.at(Step::Runner)
}

/// Waits until the runner is confined and reads every layer back.
fn confirm(setup: &Setup<'_>, shared: &Shared<'_>, pid: i32, log: &mut Log) -> Result<(), Failure> {
    shared.wait_until_confined()?;
    for (step, at) in shared.times() {
        log.done_at(step, at);
    }
    readback::check(setup, pid, shared.its_root())?;
    log.done(Step::Readback);
    Ok(())
}

fn tell_ready(setup: &Setup<'_>, shared: &Shared<'_>, early: bool, log: &mut Log) -> Result<(), Failure> {
    let mut fds = [-1; 2];
    let mut count = 0;
    let listener = early && setup.flags & setup::LISTENER != 0;
    if setup.flags & setup::SCRATCH != 0 {
        fds[count] = SCRATCH;
        count += 1;
    }
    if listener {
        fds[count] = shared.listener.load(Ordering::Acquire);
        count += 1;
    }
    log.tell(CONTROL, tell::READY, [u64::from(listener), 0, 0], &fds[..count]).at(Step::Readback)
}

pub struct Release {
    /// Bytes of the job.
    pub len: usize,
    /// The memory with it, standard input, output, error, the mounts, events.
    pub fds: [Fd; crate::wire::MAX_FDS],
}

impl Release {
    pub fn fd(&self, number: usize) -> sys::Result<Fd> {
        self.fds.get(number).copied().filter(|fd| *fd >= 0).ok_or(Errno::BADF)
    }
}

/// The job: eight bytes of length, a memfd with it, standard input, output, error, then the mounts, then events.
/// A primed runtime that ends while it waits ends its sandbox.
fn receive_job(setup: &Setup<'_>, primed: Option<Fd>) -> Result<Release, Failure> {
    let mut poll = [
        sys::PollFd { fd: CONTROL, events: sys::POLLIN, revents: 0 },
        sys::PollFd { fd: LIFE, events: 0, revents: 0 },
        sys::PollFd { fd: primed.unwrap_or(-1), events: 0, revents: 0 },
    ];
    sys::poll(&mut poll, -1).at(Step::Release)?;
    if poll[1].revents != 0 || poll[2].revents != 0 {
        end_tree(setup);
        sys::exit(1);
    }
    let mut head = [0u8; 8];
    let message = sys::receive(CONTROL, &mut head).at(Step::Release)?;
    if message.len == 0 {
        end_tree(setup);
        sys::exit(0); // the supervisor has no use for this sandbox any more
    }
    if message.len != head.len() || message.fds().len() < 4 {
        return Err(Failure { step: Step::Release, errno: Errno::PROTO, detail: 1 });
    }
    let mut fds = [-1; crate::wire::MAX_FDS];
    fds[..message.fds().len()].copy_from_slice(message.fds());
    let len = usize::try_from(u64::from_le_bytes(head)).map_err(|_| Errno::PROTO).at(Step::Release)?;
    Ok(Release { len, fds })
}

/// Attaches the job's mounts and gives scratch the job's size. Returns which of them are copies, as bits.
fn attach(job: &Job<'_>, release: &Release, setup: &Setup<'_>, log: &mut Log) -> Result<u64, Failure> {
    let mut copies = 0;
    if setup.flags & setup::SCRATCH != 0 && job.scratch_bytes != 0 {
        let size = Text::of(format_args!("size={},nr_inodes={}", job.scratch_bytes, job.scratch_files));
        sys::mount(c"", c"/tmp", c"", sys::MS_REMOUNT | sys::MS_NOSUID | sys::MS_NODEV, size.cstr())
            .at(Step::Scratch)?;
    }
    let mut layers = Layers::default();
    let mut number = 0;
    for mount in job.mounts {
        let index = usize::try_from(mount.fd).unwrap_or(usize::MAX).saturating_add(4);
        let fd = release.fd(index).at_item(Step::Mounts, number)?;
        let copied = match mount.how {
            How::Layer => layers.push(fd, number).map(|()| false),
            _ => attach_one(&mount, fd, number, &mut layers),
        };
        if copied.at_item(Step::Mounts, number)? {
            copies |= 1 << number;
        }
        number += usize::from(mount.how != How::Layer);
    }
    log.done(Step::Mounts);
    Ok(copies)
}

/// The layers of the copy-on-write folder that comes next, the topmost first, attached below scratch: an overlay's layers
/// must be mounted in this namespace.
#[derive(Default)]
struct Layers {
    fds: [Fd; MAX_LAYERS + 1],
    count: usize,
}

impl Layers {
    fn push(&mut self, fd: Fd, number: usize) -> sys::Result<()> {
        let place = Text::of(format_args!("low{number}-{}", self.count));
        *self.fds.get_mut(self.count).ok_or(Errno::INVAL)? = fd;
        sys::mkdirat(SCRATCH, place.cstr(), 0o755)?;
        sys::move_mount(fd, SCRATCH, place.cstr())?;
        self.count += 1;
        Ok(())
    }

    /// The layers that were pushed; none are left.
    fn take(&mut self) -> Self {
        core::mem::take(self)
    }

    fn all(&self) -> &[Fd] {
        &self.fds[..self.count]
    }

    /// Takes them out of the tree again: the overlay has its own hold on them, and in `mountinfo` they would tell the
    /// program where its folder is on the host.
    fn forget(&self) -> sys::Result<()> {
        self.all().iter().try_for_each(|layer| forget(*layer))
    }
}

/// `lowerdir=` of an overlay.
impl core::fmt::Display for Layers {
    fn fmt(&self, f: &mut core::fmt::Formatter<'_>) -> core::fmt::Result {
        for (number, layer) in self.all().iter().enumerate() {
            let before = if number == 0 { "lowerdir=" } else { ":" };
            write!(f, "{before}/proc/self/fd/{layer}")?;
        }
        Ok(())
    }
}

/// Attaches one mount; true when it had to be copied.
fn attach_one(mount: &JobMount<'_>, fd: Fd, number: usize, layers: &mut Layers) -> sys::Result<bool> {
    let place = mountpoint(mount)?;
    let attached = match mount.how {
        How::Sealed => seal(fd, place, number).map(|()| false),
        How::CopyOnWrite => {
            layers.push(fd, number).and_then(|()| copy_on_write(&layers.take(), place, number))
        }
        How::Bind | How::Layer => sys::move_mount(fd, place, c"").map(|()| false),
    };
    sys::close(place);
    attached
}

/// Shows layers as one folder whose changes go to scratch, to `up` and its number; true when it is a copy.
fn copy_on_write(layers: &Layers, place: Fd, number: usize) -> sys::Result<bool> {
    let [up, work] = ["up", "work"].map(|name| Text::of(format_args!("{name}{number}")));
    for name in [&up, &work] {
        sys::mkdirat(SCRATCH, name.cstr(), 0o755)?;
    }
    let upper = sys::openat(SCRATCH, up.cstr(), sys::O_RDONLY | sys::O_DIRECTORY, 0)?;
    let mounted = overlay(layers, upper, place, number);
    let copied = match mounted {
        Ok(()) => layers.forget().map(|()| false),
        Err(_) => copy_instead(layers, upper, place, number).map(|()| true),
    };
    sys::close(upper);
    copied
}

fn overlay(layers: &Layers, upper: Fd, place: Fd, number: usize) -> sys::Result<()> {
    // The trial: a folder that replaces one of the lower layer is marked by such an attribute, and before
    // kernel 6.6 a tmpfs has none, so that removing a folder would fail with EIO later.
    sys::fsetxattr(upper, c"user.hotcell", b"1")?;
    let options = Text::of(format_args!(
        "{layers},upperdir=/proc/self/fd/{upper},workdir=/proc/self/fd/{SCRATCH}/work{number},userxattr"
    ));
    sys::mount(c"workspace", own_fd(place).cstr(), c"overlay", sys::MS_NOSUID | sys::MS_NODEV, options.cstr())
}

/// A path to an open file of this process, for calls that take only paths.
fn own_fd(fd: Fd) -> Text {
    Text::of(format_args!("/proc/self/fd/{fd}"))
}

/// Shows a folder through a read-only overlay, in which its sockets and pipes are nobody's: what listens on them on
/// the host is out of reach. Where there is no overlay, the folder itself, read-only.
fn seal(fd: Fd, place: Fd, number: usize) -> sys::Result<()> {
    let [low, empty] = ["low", "empty"].map(|name| Text::of(format_args!("{name}{number}")));
    for name in [&low, &empty] {
        sys::mkdirat(SCRATCH, name.cstr(), 0o755)?;
    }
    let at = sys::openat(SCRATCH, low.cstr(), sys::O_PATH | sys::O_DIRECTORY, 0)?;
    let moved = sys::move_mount(fd, at, c"");
    sys::close(at);
    moved?;
    let options =
        Text::of(format_args!("lowerdir=/proc/self/fd/{fd}:/proc/self/fd/{SCRATCH}/empty{number},userxattr"));
    let flags = sys::MS_RDONLY | sys::MS_NOSUID | sys::MS_NODEV;
    match sys::mount(c"sealed", own_fd(place).cstr(), c"overlay", flags, options.cstr()) {
        Ok(()) => forget(fd),
        Err(_) => sys::mount(own_fd(fd).cstr(), own_fd(place).cstr(), c"", sys::MS_BIND | sys::MS_REC, c""),
    }
}

/// Takes a layer out of the tree; what uses it keeps it.
fn forget(layer: Fd) -> sys::Result<()> {
    sys::umount(own_fd(layer).cstr(), sys::MNT_DETACH)
}

/// Copies the folder into scratch and shows the copy. Several layers are read through an overlay that nobody writes to.
fn copy_instead(layers: &Layers, upper: Fd, place: Fd, number: usize) -> sys::Result<()> {
    let merged = Text::of(format_args!("merged{number}"));
    if layers.count > 1 {
        sys::mkdirat(SCRATCH, merged.cstr(), 0o755)?;
        let place = Text::of(format_args!("/proc/self/fd/{SCRATCH}/merged{number}"));
        let flags = sys::MS_RDONLY | sys::MS_NOSUID | sys::MS_NODEV;
        let options = Text::of(format_args!("{layers},userxattr"));
        sys::mount(c"workspace", place.cstr(), c"overlay", flags, options.cstr())?;
    }
    let low = Text::of(format_args!("low{number}-0"));
    let source = if layers.count > 1 { &merged } else { &low };
    let lower = sys::openat(SCRATCH, source.cstr(), sys::O_RDONLY | sys::O_DIRECTORY, 0)?;
    let copied = copy::tree(lower, upper);
    if layers.count > 1 {
        sys::umount(own_fd(lower).cstr(), sys::MNT_DETACH)?;
    }
    sys::close(lower);
    layers.forget()?;
    copied?;
    let source = Text::of(format_args!("/proc/self/fd/{SCRATCH}/up{number}"));
    sys::mount(source.cstr(), own_fd(place).cstr(), c"", sys::MS_BIND, c"")
}

/// Opens a mountpoint, making what does not exist of it (in scratch; elsewhere the template has it). Links are not
/// followed: the workspace may be mounted already, and its links would lead elsewhere.
fn mountpoint(mount: &JobMount<'_>) -> sys::Result<Fd> {
    let folder_flags = sys::O_PATH | sys::O_DIRECTORY;
    let mut at = sys::openat(sys::AT_FDCWD, c"/", folder_flags, 0)?;
    let path = mount.target.to_bytes();
    let mut names = path.split(|b| *b == b'/').filter(|name| !name.is_empty()).peekable();
    while let Some(name) = names.next() {
        let mut text = [0u8; 256];
        text.get_mut(..name.len()).ok_or(Errno::INVAL)?.copy_from_slice(name);
        let name = CStr::from_bytes_until_nul(&text).map_err(|_| Errno::INVAL)?;
        let last_file = names.peek().is_none() && !mount.dir;
        let flags = if last_file { sys::O_PATH } else { folder_flags };
        let open = || sys::openat2(at, name, flags, sys::RESOLVE_NO_SYMLINKS);
        let next = match open() {
            Err(Errno::NOENT) if last_file => {
                sys::close(sys::openat(at, name, sys::O_WRONLY | sys::O_CREAT | sys::O_EXCL, 0o644)?);
                open()
            }
            Err(Errno::NOENT) => {
                sys::mkdirat(at, name, 0o755)?;
                open()
            }
            next => next,
        };
        sys::close(at);
        at = next?;
    }
    Ok(at)
}

/// Ends what is left of the tree. In an own process namespace the end of process 1 does it.
fn end_tree(setup: &Setup<'_>) {
    if setup.flags & setup::PID_NS == 0 {
        tree::end();
    }
}

/// Reaps until the program has ended, then reports. Ends early when supervisor or launcher are gone.
fn supervise(
    setup: &Setup<'_>,
    memory: u64,
    signals: Fd,
    program: i32,
    log: &mut Log,
) -> Result<(), Failure> {
    let interval = if setup.flags & setup::SAMPLE != 0 { 50 } else { -1 };
    let mut poll = [
        sys::PollFd { fd: CONTROL, events: sys::POLLIN, revents: 0 },
        sys::PollFd { fd: LIFE, events: 0, revents: 0 },
        sys::PollFd { fd: signals, events: sys::POLLIN, revents: 0 },
    ];
    loop {
        match sys::poll(&mut poll, interval) {
            Ok(_) | Err(Errno::INTR) => {}
            Err(errno) => return Err(Failure { step: Step::Supervise, errno, detail: 1 }),
        }
        if poll[0].revents != 0 || poll[1].revents != 0 {
            // The supervisor asks for the end, or is gone, or the launcher is.
            end_tree(setup);
            sys::exit(1);
        }
        let _ = sys::read(signals, &mut [0u8; 128]);
        while let Ok((pid, status)) = sys::wait(-1, sys::WNOHANG | sys::WALL) {
            if pid == 0 {
                break;
            }
            if pid == program {
                log.done(Step::Supervise);
                end_tree(setup);
                let usage = sys::children_rusage();
                let peak = usage.max_rss_kib.unsigned_abs() * 1024;
                let numbers = [u64::from(status.cast_unsigned()), usage.cpu_us(), peak];
                return log.tell(CONTROL, tell::ENDED, numbers, &[]).at_item(Step::Supervise, 2);
            }
        }
        if interval > 0 {
            let used = tree::used(memory);
            log.tell(CONTROL, tell::USE, [used.memory, used.cpu_us, used.processes], &[])
                .at_item(Step::Supervise, 3)?;
        }
    }
}
