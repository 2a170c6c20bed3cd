//! Cgroups: kernel limits on memory, processes and processors for a whole sandbox, and the evidence of
//! which of them was hit. `cgroups(7)`
//!
//! [`Cgroups::detect`] tries which version this host lets us use: the single hierarchy of version 2 if its
//! memory and pids controllers can be enabled for our groups, otherwise the hierarchies of version 1, one for
//! each controller. Groups are made below a folder `hotcell` and are named after the process that made them,
//! so that the next start can remove the groups of a process that was killed.
//!
//! In version 2, a group that holds processes cannot enable controllers for its children. So when hotcell is
//! alone in a group that was delegated to it, it moves **itself** to a leaf `hotcell-supervisor` below that
//! group; otherwise it uses the group above its own or, as root, also the top. It never moves another
//! process. Call [`Cgroups::detect`] before starting any child, because afterwards hotcell is not alone in
//! its group.
//!
//! This module does not decide what to do about a limit, does not measure time, and does not set limits per
//! process.
//!
//! **A group's descriptors must never reach the program inside**, because they would let it leave the group.
//! These descriptors are close-on-exec; a child must close those through which it joined.

mod backend;
mod detect;
mod folder;
mod pool;
mod v1;
mod v2;
pub mod width;

use std::collections::BTreeSet;
use std::io::{self, ErrorKind};
use std::os::fd::{AsFd, BorrowedFd};
use std::path::Path;
use std::sync::{Arc, OnceLock};
use std::time::{Duration, Instant};

use self::backend::{Made, Place};
use self::detect::{Host, OwnGroup};
use self::pool::Pool;
pub use self::v1::Squeeze;
use crate::kernel_text;
use crate::leftovers::{Owner, Owners};
use crate::units::Bytes;

/// The folder below which all groups are made.
#[cfg(not(test))]
const BASE_FOLDER: &str = "hotcell";
#[cfg(test)]
const BASE_FOLDER: &str = "hotcell-test";
/// The leaf to which this process moves itself where version 2 requires that.
const SUPERVISOR_FOLDER: &str = "hotcell-supervisor";
/// Period of the CPU quota in microseconds; the kernel's own default.
const CPU_PERIOD_US: u64 = 100_000;
/// Minimum quota per period in microseconds that the kernel accepts.
const MIN_QUOTA_US: u64 = 1_000;
/// Number of ready groups that may turn out to be removed before [`Cgroups::take`] gives up.
const TAKE_ATTEMPTS: usize = 4;
/// Maximum time that [`Group::remove`] tries before it leaves the rest to the background.
const REMOVE_TIMEOUT: Duration = Duration::from_millis(250);
/// Time limit of [`Cgroups::remove_leftovers`], both in total and for one group.
const LEFTOVERS_TIMEOUT: Duration = Duration::from_secs(2);
const LEFTOVER_GROUP_TIMEOUT: Duration = Duration::from_millis(200);

/// Error when no cgroup can be used here.
#[derive(Clone, Debug, PartialEq, Eq, thiserror::Error)]
#[error("no cgroup can be used: {why}; to mend it: {mend}")]
pub struct Unavailable {
    /// The attempts, and the kernel's errors.
    pub why: String,
    /// Advice for a person.
    pub mend: String,
}

/// The limits of one group.
#[derive(Clone, Copy, Debug, PartialEq)]
pub struct GroupLimits {
    /// Memory without swap, including scratch files in memory: the kernel's backstop. Above it the kernel
    /// kills a process of the group.
    pub memory: Bytes,
    /// Processes and threads, including any of hotcell's own that joined. Above it `fork` fails with
    /// `EAGAIN`.
    pub processes: u32,
    /// Processors kept busy at once (1.5 = one and a half); `None` for all.
    pub cpus: Option<f64>,
}

/// Descriptors through which a child joins its group.
#[derive(Debug)]
pub enum Join<'group> {
    /// Version 2: the group's folder, for `CLONE_INTO_CGROUP`.
    V2(BorrowedFd<'group>),
    /// Version 1: write-only `tasks` files. The child, while it still has a single thread, writes `0` to
    /// each.
    V1(Vec<BorrowedFd<'group>>),
}

/// Resource usage and events of a group. All counts are since the group was made.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct Sample {
    /// Memory that the processes hold and the kernel cannot reclaim: the number to compare with a memory
    /// limit.
    ///
    /// Version 2: `memory.stat` anon + kernel without reclaimable slab + sock. Version 1: `memory.stat`
    /// total_rss and buffers of TCP and UDP; for kernel memory see [`Sample::kernel`]. Neither includes the page cache of files that were read (which would end honest programs) nor shared
    /// memory.
    pub memory_without_shmem: Bytes,
    /// Kernel memory of a group of version 1: page tables, stacks, buffers of pipes and local sockets, and
    /// caches of files' names and inodes, which version 1 does not report separately although the kernel
    /// reclaims them; [`Group::squeeze`] tells whether it can. `None` with version 2, where the part that is
    /// in use belongs to the field above.
    pub kernel: Option<Bytes>,
    /// Scratch files in memory, `memfd`s and shared memory.
    pub shmem: Bytes,
    /// Caches that the kernel reclaims when memory is short.
    pub reclaimable: Bytes,
    /// Highest charge ever, **including** scratch and caches; `None` where the kernel does not report it. For
    /// a report see [`Sample::peak_without_scratch`].
    pub memory_peak: Option<Bytes>,
    /// CPU time of all processes, including those that have ended; `None` on version 1 without cpuacct.
    pub cpu: Option<Duration>,
    /// Processes and threads now.
    pub processes: u64,
    /// Peak number of processes and threads; `None` where the kernel does not report it: use the highest
    /// sample.
    pub processes_peak: Option<u64>,
    /// Processes of the group that the OOM killer killed. Normally the group's own limit is the first to be
    /// reached, unless a limit further up, or the host, is tighter.
    pub oom_kills: u64,
    /// Forks refused by the limit on processes. The count is frozen by [`Group::kill`].
    pub fork_failures: u64,
}

/// The part of a [`Sample`] that remains when the processes have ended.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct Tally {
    /// See [`Sample::cpu`].
    pub cpu: Option<Duration>,
    /// See [`Sample::processes_peak`].
    pub processes_peak: Option<u64>,
    /// See [`Sample::oom_kills`].
    pub oom_kills: u64,
    /// See [`Sample::fork_failures`].
    pub fork_failures: u64,
}

impl Sample {
    /// Best estimate of peak memory without scratch and caches: the highest charge, less the current scratch
    /// and caches, and never less than the memory held now. `None` where the kernel does not report the peak.
    ///
    /// This catches the peak of a program that ended between two samples. Caches that were dropped since the
    /// peak make the estimate too high.
    #[must_use]
    pub fn peak_without_scratch(&self) -> Option<Bytes> {
        let besides = self.shmem.0.saturating_add(self.reclaimable.0);
        let held = self.memory_without_shmem.0;
        self.memory_peak.map(|peak| Bytes(peak.0.saturating_sub(besides).max(held)))
    }
}

/// The cgroups that this process may use. Dropping it removes groups made ahead of time and waits up to about
/// two seconds for groups that are being removed; groups in use stay usable.
#[derive(Debug)]
pub struct Cgroups {
    pool: Arc<Pool>,
}

impl Cgroups {
    /// Recommended argument of [`Cgroups::keep_ready`] for a service: the next start finds a group while the
    /// thread makes another.
    pub const READY_GROUPS: usize = 2;

    /// Detects usable cgroups by trying: makes the folder, enables controllers, makes a group and limits it.
    /// That group is then the first one to be taken.
    ///
    /// May move this process (all its threads) to a leaf of its own group; see the module documentation.
    ///
    /// # Errors
    /// [`Unavailable`] when neither version works, with the attempts and advice.
    pub fn detect() -> Result<Self, Unavailable> {
        let read = |path: &str| {
            kernel_text::read(path).map_err(|e| Unavailable {
                why: format!("cannot read {path}: {e}"),
                mend: "mount /proc".to_owned(),
            })
        };
        let memberships = detect::parse_memberships(&read("/proc/self/cgroup")?);
        let mounts = detect::parse_mounts(&read("/proc/self/mountinfo")?);
        let owner = Owner::this_process().map_err(|e| Unavailable {
            why: format!("cannot tell when this process started: {e}"),
            mend: "mount /proc of this process's own pid namespace".to_owned(),
        })?;
        let mut host = Host {
            superuser: nix::unistd::geteuid().is_root(),
            systemd: Path::new("/run/systemd/system").exists(),
            v2: false,
            v1: false,
            read_only: false,
        };
        let mut why = Vec::new();

        let started = |place: Place, first| Self { pool: Pool::new(place, owner, first) };
        match detect::v2_own_group(&memberships, &mounts) {
            None => why.push("cgroup v2 is not mounted".to_owned()),
            Some(Err(e)) => why.push(e),
            Some(Ok((mount, own, read_only))) => match try_v2(&mount, &own, &owner, &mut host) {
                Ok((place, first)) => return Ok(started(place, first)),
                Err(e) => {
                    host.read_only |= host.v2 && read_only;
                    why.push(e);
                }
            },
        }
        match detect::v1_places(&memberships, &mounts) {
            Err(e) => why.push(format!("cgroup v1: {e}")),
            Ok((places, read_only)) => {
                host.v1 = true;
                let place = Place::V1(v1::Base::below(&places));
                match try_place(&place, &owner) {
                    Ok(first) => return Ok(started(place, first)),
                    Err(e) => {
                        host.read_only |= read_only;
                        why.push(format!("cgroup v1: {e}"));
                    }
                }
            }
        }
        Err(Unavailable { why: why.join("; "), mend: detect::advice(host).to_owned() })
    }

    /// Whether a child that is started before [`Cgroups::detect`] changes nothing about its result: version 1 is used, or other
    /// processes are in this process's group of version 2 anyway, so that it does not move itself. `false` when in doubt.
    pub(crate) fn tolerate_children() -> bool {
        let Ok(text) = kernel_text::read("/proc/self/cgroup") else { return false };
        let memberships = detect::parse_memberships(&text);
        if detect::uses_v1(&memberships) {
            return true;
        }
        let Some(file) = detect::usual_v2_processes(&memberships) else { return false };
        let this = std::process::id().to_string();
        kernel_text::read(file).is_ok_and(|all| all.lines().any(|pid| pid.trim() != this))
    }

    /// Makes a background thread keep `count` groups ready, so that [`Cgroups::take`] only has to write
    /// limits. Not worthwhile for a process that takes a single group.
    pub fn keep_ready(&self, count: usize) {
        self.pool.keep_ready(count);
    }

    /// Version of the cgroup tree: 1 or 2.
    #[must_use]
    pub fn version(&self) -> u32 {
        self.pool.place.version()
    }

    /// The `hotcell` folders: one, or with version 1 one for each hierarchy.
    #[must_use]
    pub fn folders(&self) -> Vec<&Path> {
        self.pool.place.bases()
    }

    /// Whether [`GroupLimits::cpus`] can be enforced here; if not, [`Cgroups::take`] refuses it.
    #[must_use]
    pub fn holds_cpus(&self) -> bool {
        self.pool.place.holds_cpus()
    }

    /// Takes an unused group and sets these limits.
    ///
    /// # Errors
    /// When a folder cannot be made or the kernel refuses a limit; the message names the file and the value.
    pub fn take(&self, limits: &GroupLimits) -> io::Result<Group> {
        let mut attempts = TAKE_ATTEMPTS;
        loop {
            let mut made = self.pool.take()?;
            match self.pool.place.limit(&mut made, limits) {
                Ok(()) => {
                    return Ok(Group {
                        made: Some(made),
                        fork_failures_at_kill: OnceLock::new(),
                        pool: Arc::clone(&self.pool),
                    });
                }
                Err(e) => {
                    self.pool.discard(made);
                    attempts -= 1;
                    // Not found: another process has removed the group that was made ahead, or the folder for limits of processors, which is empty until one is
                    // set.
                    if e.kind() != ErrorKind::NotFound || attempts == 0 {
                        return Err(e);
                    }
                    self.pool.place.ensure()?;
                }
            }
        }
    }

    /// Number of groups that are ready to be taken.
    #[must_use]
    pub fn ready(&self) -> usize {
        self.pool.ready()
    }

    /// Number of discarded groups that are not removed yet.
    #[must_use]
    pub fn pending(&self) -> usize {
        self.pool.pending()
    }

    /// Kills and removes the groups that ended processes left in the `hotcell` folders; returns the number of
    /// groups removed. Groups of a living process are never touched. Takes two seconds at most; the background
    /// goes on with a group that cannot be removed yet, and the next start with those that were not looked at.
    pub fn remove_leftovers(&self) -> usize {
        self.leftovers().remove()
    }

    /// The `hotcell` folders, for another thread to look for leftovers.
    pub(crate) fn leftovers(&self) -> Leftovers {
        Leftovers(Arc::clone(&self.pool))
    }
}

/// The `hotcell` folders, in which ended processes may have left groups.
#[derive(Clone, Debug)]
pub(crate) struct Leftovers(Arc<Pool>);

impl Leftovers {
    /// See [`Cgroups::remove_leftovers`].
    pub(crate) fn remove(&self) -> usize {
        let deadline = Instant::now() + LEFTOVERS_TIMEOUT;
        let mut names = BTreeSet::new();
        for base in self.0.place.bases() {
            let entries = std::fs::read_dir(base).into_iter().flatten().flatten();
            names.extend(entries.filter_map(|entry| entry.file_name().into_string().ok()));
        }
        let (mut removed, mut owners) = (0, Owners::default());
        for name in names {
            if Instant::now() > deadline {
                break;
            }
            if !owners.is_leftover(&name) {
                continue;
            }
            let Ok(mut made) = self.0.place.adopt(&name) else {
                continue; // another process was faster
            };
            match pool::remove_within(&mut made, LEFTOVER_GROUP_TIMEOUT) {
                Ok(()) => removed += 1,
                Err(e) => {
                    tracing::warn!("a left-over cgroup is not removed yet: {e}");
                    self.0.discard(made);
                }
            }
        }
        removed
    }
}

impl Drop for Cgroups {
    fn drop(&mut self) {
        self.pool.stop();
    }
}

/// One sandbox's group: used once, removed afterwards. Dropping it kills the remaining processes and removes
/// it in the background.
#[derive(Debug)]
pub struct Group {
    /// `None` only while the group is being discarded.
    made: Option<Made>,
    fork_failures_at_kill: OnceLock<u64>,
    pool: Arc<Pool>,
}

impl Group {
    /// Lowers the limits of a group that is already in use.
    ///
    /// # Errors
    /// When the kernel refuses a limit. With version 1, a limit on processors must have been set from the
    /// start.
    pub fn limit(&mut self, limits: &GroupLimits) -> io::Result<()> {
        let made = self.made.as_mut().ok_or_else(|| io::Error::other("the group was given up"))?;
        self.pool.place.limit(made, limits)
    }

    /// The descriptors through which a child joins.
    ///
    /// # Errors
    /// After [`Group::close_join`].
    pub fn join(&self) -> io::Result<Join<'_>> {
        match self.made()? {
            Made::V2(made) => Ok(Join::V2(made.folder().as_fd())),
            Made::V1(made) if made.tasks().is_empty() => {
                Err(io::Error::other("the group was closed for joining"))
            }
            Made::V1(made) => Ok(Join::V1(made.tasks().iter().map(AsFd::as_fd).collect())),
        }
    }

    /// Closes the descriptors of version 1 that are no longer needed once the sandbox is inside.
    pub fn close_join(&mut self) {
        if let Some(Made::V1(made)) = &mut self.made {
            made.close_tasks();
        }
    }

    /// Whether this process is inside, in every hierarchy; used to prove that joining worked.
    ///
    /// # Errors
    /// When the group cannot be read.
    pub fn holds(&self, pid: i32) -> io::Result<bool> {
        for folder in self.made()?.folders() {
            if !folder.processes()?.contains(&pid) {
                return Ok(false);
            }
        }
        Ok(true)
    }

    /// Reads the group's current usage and its events so far.
    ///
    /// # Errors
    /// When a file of the group cannot be read or has an unknown form.
    pub fn sample(&self) -> io::Result<Sample> {
        let mut sample = self.made()?.sample()?;
        if let Some(count) = self.fork_failures_at_kill.get() {
            sample.fork_failures = *count;
        }
        Ok(sample)
    }

    /// Reads the totals of processes that have ended: half of a sample, in half the time.
    ///
    /// # Errors
    /// When a file of the group cannot be read or has an unknown form.
    pub fn tally(&self) -> io::Result<Tally> {
        let mut tally = self.made()?.tally()?;
        if let Some(count) = self.fork_failures_at_kill.get() {
            tally.fork_failures = *count;
        }
        Ok(tally)
    }

    /// Prepares to ask the kernel whether it can reclaim memory of a group of version 1. `None` with version 2,
    /// which reports what is reclaimable.
    ///
    /// # Errors
    /// When the group is gone or its limit cannot be written.
    pub fn squeeze(&self) -> io::Result<Option<Squeeze>> {
        match self.made()? {
            Made::V1(made) => made.squeeze().map(Some),
            Made::V2(_) => Ok(None),
        }
    }

    /// Sends SIGKILL to everything inside, without waiting for the end. Where the kernel has no
    /// `cgroup.kill`, nothing in the group can fork afterwards.
    pub fn kill(&self) {
        let Ok(made) = self.made() else { return };
        // Killing without cgroup.kill makes forks fail; those failures are not caused by the program.
        if let Ok(count) = made.fork_failures() {
            let _ = self.fork_failures_at_kill.set(count);
        }
        made.kill();
    }

    /// Kills the remaining processes and removes the group.
    ///
    /// Blocks for up to 250 ms while processes are dying; in asynchronous code, and where latency matters,
    /// drop the group instead.
    ///
    /// # Errors
    /// `ResourceBusy` when a process is still dying. Removal then continues in the background, and
    /// [`Cgroups::pending`] counts the group until it is gone.
    pub fn remove(mut self) -> io::Result<()> {
        let Some(mut made) = self.made.take() else {
            return Ok(());
        };
        pool::remove_within(&mut made, REMOVE_TIMEOUT).map_err(|e| {
            self.pool.discard(made);
            io::Error::new(e.kind(), format!("{e}; its removal goes on in the background"))
        })
    }

    /// The group's folder, or with version 1 one for each hierarchy.
    #[must_use]
    pub fn folders(&self) -> Vec<&Path> {
        let folders = self.made.as_ref().map_or(&[][..], Made::folders);
        folders.iter().map(folder::Folder::path).collect()
    }

    fn made(&self) -> io::Result<&Made> {
        self.made.as_ref().ok_or_else(|| io::Error::other("the group was given up"))
    }
}

impl Drop for Group {
    fn drop(&mut self) {
        if let Some(made) = self.made.take() {
            self.pool.discard(made);
        }
    }
}

/// Tries the candidates of the version 2 hierarchy in turn.
fn try_v2(mount: &Path, own: &Path, owner: &Owner, host: &mut Host) -> Result<(Place, Made), String> {
    let top = folder::Folder::open(mount.to_owned()).map_err(|e| e.to_string())?;
    let offered = top.read("cgroup.controllers").map_err(|e| e.to_string())?;
    for needed in ["memory", "pids"] {
        if !detect::words(&offered).any(|name| name == needed) {
            return Err(format!("cgroup v2 at {} has no {needed} controller", mount.display()));
        }
    }
    host.v2 = true;
    let own_folder = folder::Folder::open(own.to_owned()).map_err(|e| e.to_string())?;
    let processes = own_folder.read("cgroup.procs").map_err(|e| e.to_string())?;
    let this = std::process::id().to_string();
    let candidates = detect::v2_candidates(&OwnGroup {
        mount,
        own,
        // Every group except the root of the hierarchy has a type.
        real_root: own_folder.open_for_writing("cgroup.type").is_err_and(|e| e.kind() == ErrorKind::NotFound),
        // Processes of other pid namespaces are listed as 0, so they count as others.
        alone: processes.lines().all(|pid| pid.trim() == this),
        superuser: host.superuser,
    });
    let mut why = Vec::new();
    for candidate in &candidates {
        let tried = v2::Base::establish(candidate).map(Place::V2);
        match tried.and_then(|place| try_place(&place, owner).map(|first| (place, first))) {
            Ok(found) => return Ok(found),
            Err(e) => why.push(e.to_string()),
        }
    }
    if why.is_empty() {
        why.push(format!(
            "{} holds other processes and is the topmost group that can be seen",
            own.display()
        ));
    }
    Err(format!("cgroup v2: {}", why.join("; ")))
}

/// Makes a group and limits it. Leaves nothing behind on failure.
fn try_place(place: &Place, owner: &Owner) -> io::Result<Made> {
    // Larger than any real limit, since the group is used afterwards and version 1 refuses to raise memory
    // above memory and swap together.
    let trial = GroupLimits { memory: Bytes(1 << 50), processes: 64, cpus: None };
    let tried = place.ensure().and_then(|()| {
        let mut made = pool::make(place, owner)?;
        match place.limit(&mut made, &trial) {
            Ok(()) => Ok(made),
            Err(e) => {
                let _ = made.remove();
                Err(e)
            }
        }
    });
    tried.inspect_err(|_| place.remove_bases())
}

/// The quota per period, in microseconds, of `cpus` processors.
fn cpu_quota_us(cpus: f64) -> u64 {
    #[allow(clippy::cast_precision_loss, clippy::cast_possible_truncation, clippy::cast_sign_loss)]
    // Float to integer casts saturate, and a NaN becomes 0.
    let quota = (cpus * CPU_PERIOD_US as f64) as u64;
    quota.max(MIN_QUOTA_US)
}

#[cfg(test)]
mod tests;
