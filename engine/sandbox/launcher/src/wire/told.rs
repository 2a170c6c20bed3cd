//! What launcher and init tell the supervisor: how far a sandbox is, and how it ended.

use super::reader::{Malformed, Reader};

/// Kinds of messages from launcher and init to the supervisor.
pub mod tell {
    /// The sandbox's process exists; carries a descriptor of it (pidfd), `a` is its process id. With [`crate::wire::setup::PROXY`]
    /// also the sockets of its proxy: the proxy's, names by datagram, names by stream.
    pub const BORN: u32 = 1;
    /// It is ready for its job. It carries, in this order, what there is of: where `b` is 1, a socket for a job that asks nothing of
    /// process 1; a descriptor of scratch; where `a` is 1, the listener of the filter.
    pub const READY: u32 = 2;
    /// The program runs; `a` is the index into the tried paths, `b` has a bit for each mount that is a copy, `c` is since when, in
    /// nanoseconds of `CLOCK_MONOTONIC`. Not told of a program that ended soon and has no copies: [`Step::Exec`](super::Step::Exec) is among
    /// the steps of its end.
    pub const RUNNING: u32 = 3;
    /// The program ended; `a` is its wait status, `b` CPU time in microseconds, `c` peak memory in bytes.
    pub const ENDED: u32 = 4;
    /// Something failed; `a` is the step, `b` the error number, `c` a detail of the step.
    pub const FAILED: u32 = 5;
    /// Use so far; `a` memory in bytes, `b` CPU time in microseconds, `c` processes.
    pub const USE: u32 = 6;
    /// A request to the launcher succeeded; may carry a descriptor. The launcher's answers to requests have the
    /// request's tag in the upper half of `a`.
    pub const DONE: u32 = 7;
}

/// The steps that a set-up consists of; their times are reported, and failures name them.
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
    /// Making the process with its namespaces.
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
    /// Making the runner.
    Runner = 16,
    /// `no_new_privs` and capabilities.
    Capabilities = 17,
    /// Restricting by Landlock.
    Landlock = 18,
    /// Installing the filter.
    Seccomp = 19,
    /// Reading every layer back.
    Readback = 20,
    /// Process 1's own filter.
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
    /// Taking on the job, until the kernel is asked for the program.
    Exec = 27,
    /// Supervising.
    Supervise = 28,
    /// Starting a runtime ahead of its job, and handing the job to it.
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
    /// See the kind.
    pub a: u64,
    /// See the kind.
    pub b: u64,
    /// See the kind.
    pub c: u64,
    /// Steps and the monotonic time in nanoseconds at which each was done: 9 bytes each.
    pub steps: &'a [u8],
}

/// Bytes of a [`Tell`] before its steps.
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

    /// The steps with the time at which each was done, nanoseconds of the monotonic clock.
    pub fn steps(&self) -> impl Iterator<Item = (Step, u64)> + 'a {
        self.steps.chunks_exact(9).filter_map(|c| {
            let at = c[1..].try_into().ok().map(u64::from_le_bytes)?;
            Some((Step::from_number(u64::from(c[0]))?, at))
        })
    }
}
