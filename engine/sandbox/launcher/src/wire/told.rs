//! Messages from launcher and init to the supervisor: the progress of a sandbox, and its end.

use super::reader::{Malformed, Reader};

/// Kinds of messages from launcher and init to the supervisor.
pub mod tell {
    /// The sandbox's process exists; carries a descriptor of it (pidfd), `a` is its process id. With [`crate::wire::setup::PROXY`]
    /// also the sockets of its proxy: the proxy's, names by datagram, names by stream, then those of its relays in their order; with
    /// [`crate::wire::setup::NAMES`] that for names by datagram alone, or none.
    pub const BORN: u32 = 1;
    /// The sandbox is ready for its job. Carries, in this order: if `b` is 1, a socket for a job that needs
    /// nothing from process 1; a descriptor of scratch, if there is one; if `a` is 1, the listener of the
    /// filter.
    pub const READY: u32 = 2;
    /// The program runs; `a` is the index into the tried paths, `b` has a bit for each mount that is a copy,
    /// `c` is the start time in nanoseconds of `CLOCK_MONOTONIC`. Not sent for a program that ended soon and
    /// has no copies: [`Step::Exec`](super::Step::Exec) is then among the steps of [`ENDED`].
    pub const RUNNING: u32 = 3;
    /// The program ended; `a` is its wait status, `b` CPU time in microseconds, `c` peak memory in bytes.
    pub const ENDED: u32 = 4;
    /// A step failed; `a` is the step, `b` the error number, `c` a detail of the step.
    pub const FAILED: u32 = 5;
    /// Usage so far; `a` memory in bytes, `b` CPU time in microseconds, `c` processes.
    pub const USE: u32 = 6;
    /// A request to the launcher succeeded; may carry a descriptor. In the launcher's answers to requests,
    /// the upper half of `a` is the request's tag.
    pub const DONE: u32 = 7;
}

/// The steps of setting up and running a sandbox; their times are reported, and failures name them.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord)]
#[repr(u8)]
pub enum Step {
    /// Reading the request.
    Decode = 0,
    /// Entering the launcher's own namespaces.
    Hello = 1,
    /// Building a root file system.
    Template = 2,
    /// Cloning a host folder.
    CloneMount = 3,
    /// Creating the process with its namespaces.
    Fork = 4,
    /// Writing the maps of user and group ids.
    Map = 5,
    /// Changing to the ids inside.
    Ids = 6,
    /// Joining the cgroup.
    Cgroup = 7,
    /// Attaching the root.
    Root = 8,
    /// Mounting `/proc`.
    Proc = 9,
    /// Covering parts of `/proc`.
    Masks = 10,
    /// Mounting scratch.
    Scratch = 11,
    /// Mounting `/dev/pts`.
    Devpts = 12,
    /// Leaving the old root.
    Pivot = 13,
    /// Host name and loopback.
    Network = 14,
    /// Forbidding nested user namespaces.
    Ceiling = 15,
    /// Starting the runner.
    Runner = 16,
    /// `no_new_privs` and capabilities.
    Capabilities = 17,
    /// Restricting by Landlock.
    Landlock = 18,
    /// Installing the filter.
    Seccomp = 19,
    /// Reading every layer back.
    Readback = 20,
    /// Installing process 1's own filter.
    InitFilter = 21,
    /// Receiving the job.
    Release = 22,
    /// Attaching the job's mounts.
    Mounts = 23,
    /// Setting resource limits.
    Rlimits = 24,
    /// Attaching standard input and output.
    Stdio = 25,
    /// Changing to the start folder.
    Cwd = 26,
    /// Adopting the job, until the kernel is asked to execute the program.
    Exec = 27,
    /// Supervising.
    Supervise = 28,
    /// Starting a runtime ahead of its job, and passing the job to it.
    Prime = 29,
}

impl Step {
    /// Every step in order.
    pub const ALL: [Self; 30] = [
        Self::Decode,
        Self::Hello,
        Self::Template,
        Self::CloneMount,
        Self::Fork,
        Self::Map,
        Self::Ids,
        Self::Cgroup,
        Self::Root,
        Self::Proc,
        Self::Masks,
        Self::Scratch,
        Self::Devpts,
        Self::Pivot,
        Self::Network,
        Self::Ceiling,
        Self::Runner,
        Self::Capabilities,
        Self::Landlock,
        Self::Seccomp,
        Self::Readback,
        Self::InitFilter,
        Self::Release,
        Self::Mounts,
        Self::Rlimits,
        Self::Stdio,
        Self::Cwd,
        Self::Exec,
        Self::Supervise,
        Self::Prime,
    ];

    /// The step with this number.
    #[must_use]
    pub fn from_number(n: u64) -> Option<Self> {
        usize::try_from(n).ok().and_then(|n| Self::ALL.get(n)).copied()
    }
}

/// A message from launcher or init to the supervisor.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Tell<'a> {
    /// One of [`tell`].
    pub kind: u32,
    /// First value; the meaning depends on the kind.
    pub a: u64,
    /// Second value; the meaning depends on the kind.
    pub b: u64,
    /// Third value; the meaning depends on the kind.
    pub c: u64,
    /// Encoded steps, each with the monotonic time in nanoseconds at which it was completed: 9 bytes each.
    pub steps: &'a [u8],
}

/// Size in bytes of a [`Tell`] before its steps.
pub const TELL_HEAD: usize = 28;

impl<'a> Tell<'a> {
    /// Decodes a message.
    ///
    /// # Errors
    /// [`Malformed`] when it is too short.
    pub fn decode(bytes: &'a [u8]) -> Result<Self, Malformed> {
        let mut r = Reader::new(bytes);
        Ok(Self { kind: r.u32()?, a: r.u64()?, b: r.u64()?, c: r.u64()?, steps: r.rest })
    }

    /// The steps with the time at which each was completed, in nanoseconds of the monotonic clock.
    pub fn steps(&self) -> impl Iterator<Item = (Step, u64)> + 'a {
        self.steps.chunks_exact(9).filter_map(|c| {
            let at = c[1..].try_into().ok().map(u64::from_le_bytes)?;
            Some((Step::from_number(u64::from(c[0]))?, at))
        })
    }
}
