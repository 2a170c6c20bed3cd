//! The protocol between the supervisor and the launcher, and between the supervisor and each init.
//!
//! Plain little-endian data over `SOCK_SEQPACKET`, with descriptors sent along by `SCM_RIGHTS`. Both ends are
//! built together, so there is one version ([`VERSION`]) and no negotiation. Any bytes can be decoded safely:
//! every length is checked, nothing is trusted, and nothing allocates.

mod reader;
mod told;

use core::ffi::CStr;

pub use reader::{List, Malformed, Reader};
#[allow(
    unused_imports,
    reason = "the launcher writes what the supervisor reads; the primer does neither"
)]
pub use told::{Step, TELL_HEAD, Tell, tell};

/// Raised with every change of a message.
pub const VERSION: u32 = 10;
/// Maximum size of a message in bytes; larger data travels in a memfd.
pub const MAX_MESSAGE: usize = 64 * 1024;
/// Maximum size in bytes of a job that is sent in the message itself.
pub const MAX_LETTER: usize = 16 * 1024 - 8;
/// Time in milliseconds after it is sent during which a job has the processor to itself; most are over by
/// then. During this time process 1 reports nothing, and the supervisor neither asks for reports nor polls
/// the program's streams and filter.
pub const QUIET_PERIOD_MS: u32 = 5;
/// The supervisor's message to process 1 of a sandbox whose job went directly to the runner: it asks whether
/// the program runs ([`tell::RUNNING`]). Any other message ends the sandbox.
pub const ASK: &[u8; 3] = b"ask";
/// Maximum number of descriptors in one message.
pub const MAX_FDS: usize = 32;
/// Maximum number of mounts of a job.
pub const MAX_MOUNTS: usize = 24;
/// Port of the proxy in a sandbox with [`setup::PROXY`]: a port of its loopback that its programs cannot
/// take, since they may not listen below 1024.
pub const PROXY_PORT: u16 = 888;
/// Port of the DNS server in such a sandbox.
pub const NAMES_PORT: u16 = 53;
/// Maximum number of further listening sockets of a sandbox with [`setup::PROXY`]; they travel in one message with the other three.
pub const MAX_RELAYS: usize = 24;
/// Maximum number of layers of an image: as many as fit into the mount options of an overlay, with one of ours.
pub const MAX_IMAGE_LAYERS: usize = 127;
/// Detail of a failed [`Step::Template`] whose layers could not be mounted as an overlay; a smaller value is
/// the number of an operation.
pub const OVERLAY: usize = 1_000_000;
/// Maximum number of mounts of a primed runtime.
pub const MAX_PRIME_MOUNTS: usize = 8;
/// Maximum number of layers over one copy-on-write folder.
pub const MAX_LAYERS: usize = 8;

/// A request to the launcher.
#[derive(Debug)]
#[allow(clippy::large_enum_variant)] // only one exists at a time, and there is no allocator
pub enum Request<'a> {
    /// Leave the host's namespaces and use this place as the anchor of the new root. The first message, sent
    /// once.
    Hello {
        /// Make a user namespace (for a supervisor without privilege).
        own_user_ns: bool,
        /// Enter a mount namespace with a private root; without it, sandboxes cannot have one either.
        own_mounts: bool,
        /// Enter a new, empty network namespace.
        own_network: bool,
        /// The launcher's user id, for the single-id map of its user namespace.
        uid: u32,
        /// The launcher's group id, for the same map.
        gid: u32,
    },
    /// Build a root file system and keep it under `id`. Carries a memfd with [`TemplateOp`]s.
    Template {
        /// Id for later requests.
        id: u32,
        /// Length of the operations in the memfd.
        len: u64,
    },
    /// Forget a root file system.
    Forget {
        /// Id of the template.
        id: u32,
    },
    /// Clone a host folder or file as a detached mount. Answered with a descriptor.
    Clone(CloneRequest<'a>),
    /// Remove these empty folders when the supervisor has ended. Not answered.
    Remove(List<'a, &'a CStr>),
    /// Make a sandbox. Carries its control socket, then the cgroup descriptors.
    Spawn(Setup<'a>),
}

/// A host path that is to be cloned as a detached mount.
#[derive(Debug)]
pub struct CloneRequest<'a> {
    /// Absolute path without symbolic links.
    pub path: &'a CStr,
    /// Required device number; the path was checked before and may have been replaced since.
    pub dev: u64,
    /// Required inode number.
    pub ino: u64,
    /// Whether the mount is read-only.
    pub read_only: bool,
    /// Whether device nodes can be used.
    pub devices: bool,
    /// Show owner `from` as owner `to` (an idmapped mount).
    pub idmap: Option<IdMap>,
}

/// Maps one owner to another.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct IdMap {
    /// User id on disk.
    pub from_uid: u32,
    /// Group id on disk.
    pub from_gid: u32,
    /// User id as seen through the mount.
    pub to_uid: u32,
    /// Group id as seen through the mount.
    pub to_gid: u32,
}

/// One step in building a root file system. Paths are relative to the new root.
#[derive(Clone, Copy, Debug)]
pub enum TemplateOp<'a> {
    /// Make a folder.
    Dir(&'a CStr, u32),
    /// Make a file with this mode and contents.
    File(&'a CStr, u32, &'a [u8]),
    /// Make a symbolic link: its path, then its target.
    Link(&'a CStr, &'a CStr),
    /// Bind a host path, read-only and without setuid; `true` allows device nodes.
    Bind(&'a CStr, &'a CStr, bool),
    /// Use a host folder as a lower layer, below everything above and below the layers named before it.
    Layer(&'a CStr),
}

/// Kinds of requests to the launcher.
pub mod request {
    /// [`Request::Hello`](super::Request::Hello).
    pub const HELLO: u32 = 0;
    /// [`Request::Template`](super::Request::Template).
    pub const TEMPLATE: u32 = 1;
    /// [`Request::Forget`](super::Request::Forget).
    pub const FORGET: u32 = 2;
    /// [`Request::Clone`](super::Request::Clone).
    pub const CLONE: u32 = 3;
    /// [`Request::Spawn`](super::Request::Spawn).
    pub const SPAWN: u32 = 4;
    /// [`Request::Remove`](super::Request::Remove).
    pub const REMOVE: u32 = 5;
}

/// Kinds of operations of a template.
pub mod op {
    /// [`TemplateOp::Dir`](super::TemplateOp::Dir).
    pub const DIR: u8 = 0;
    /// [`TemplateOp::File`](super::TemplateOp::File).
    pub const FILE: u8 = 1;
    /// [`TemplateOp::Link`](super::TemplateOp::Link).
    pub const LINK: u8 = 2;
    /// [`TemplateOp::Bind`](super::TemplateOp::Bind).
    pub const BIND: u8 = 3;
    /// [`TemplateOp::Layer`](super::TemplateOp::Layer).
    pub const LAYER: u8 = 4;
}

/// Details of failed steps, by step: the launcher reports them, and the supervisor explains them. 0 is the only operation
/// of a step, or its rest.
pub mod detail {
    /// Of [`Step::Hello`](super::Step::Hello).
    pub mod hello {
        /// `unshare(2)`.
        pub const NAMESPACES: usize = 1;
        /// `/proc/self/setgroups`.
        pub const SETGROUPS: usize = 2;
        /// `/proc/self/uid_map`.
        pub const UID_MAP: usize = 3;
        /// `/proc/self/gid_map`.
        pub const GID_MAP: usize = 4;
        /// Mounts of the launcher's own root.
        pub const OWN_ROOT: usize = 5;
        /// The host's tree, opened.
        pub const HOST: usize = 6;
        /// The host's `/proc`, opened.
        pub const PROC: usize = 7;
        /// `PR_SET_DUMPABLE`.
        pub const DUMPABLE: usize = 8;
        /// The loopback of a new network namespace, switched on.
        pub const LOOPBACK: usize = 9;
    }
    /// Of [`Step::Prime`](super::Step::Prime).
    pub mod prime {
        /// The socket to the runtime.
        pub const SOCKETS: usize = 1;
        /// `/dev/null`.
        pub const NULL: usize = 2;
        /// Arguments and environment.
        pub const VECTORS: usize = 3;
        /// `poll(2)`.
        pub const POLL: usize = 4;
        /// The runtime did not say that it is ready.
        pub const ANSWER: usize = 5;
        /// `/proc`, opened.
        pub const PROC: usize = 6;
        /// `/proc`, listed.
        pub const PROCESSES: usize = 7;
        /// The runtime started processes.
        pub const NOT_ALONE: usize = 8;
        /// The job, sent.
        pub const SEND: usize = 9;
        /// The descriptors of the job.
        pub const DESCRIPTORS: usize = 10;
    }
    /// Of [`Step::Network`](super::Step::Network).
    pub mod network {
        /// `sethostname(2)`.
        pub const HOST_NAME: usize = 1;
        /// The loopback, switched on.
        pub const LOOPBACK: usize = 2;
        /// A network namespace, made.
        pub const NAMESPACE: usize = 3;
        /// Sockets of the proxy and of names.
        pub const LISTEN: usize = 4;
        /// The socket that measures sockets.
        pub const SOCKET_USE: usize = 5;
    }
    /// Of [`Step::Release`](super::Step::Release).
    pub mod release {
        /// Mounts or scratch in a job for the runner alone.
        pub const UNEXPECTED: usize = 2;
        /// The socket to the runner.
        pub const SOCKETS: usize = 4;
    }
    /// Of [`Step::Ids`](super::Step::Ids).
    pub mod ids {
        /// `setgroups(2)`.
        pub const GROUPS: usize = 1;
        /// `setresuid(2)`, `setresgid(2)`.
        pub const IDS: usize = 2;
        /// `PR_SET_PDEATHSIG`.
        pub const PARENT_DEATH: usize = 3;
        /// `PR_SET_DUMPABLE`.
        pub const DUMPABLE: usize = 4;
        /// `PR_SET_CHILD_SUBREAPER`.
        pub const SUBREAPER: usize = 5;
    }
    /// Of [`Step::Cgroup`](super::Step::Cgroup).
    pub mod cgroup {
        /// A cgroup namespace, made; smaller numbers are those of the groups that are entered.
        pub const NAMESPACE: usize = 99;
    }
    /// Of [`Step::Devpts`](super::Step::Devpts).
    pub mod devpts {
        /// `/dev/mqueue`.
        pub const QUEUES: usize = 1;
    }
    /// Of [`Step::Supervise`](super::Step::Supervise).
    pub mod supervise {
        /// The end of the program, told.
        pub const END: usize = 2;
        /// The use of resources, told.
        pub const USE: usize = 3;
    }
    /// Of [`Step::Ceiling`](super::Step::Ceiling).
    pub mod ceiling {
        /// The first ceiling of a kind of namespace.
        pub const FIRST: usize = 1;
    }
    /// Of [`Step::Capabilities`](super::Step::Capabilities).
    pub mod capabilities {
        /// `PR_SET_NO_NEW_PRIVS`.
        pub const NO_NEW_PRIVS: usize = 1;
        /// `PR_CAPBSET_DROP`.
        pub const BOUNDING_SET: usize = 2;
        /// `PR_CAP_AMBIENT`.
        pub const AMBIENT: usize = 3;
        /// `capset(2)`.
        pub const SETS: usize = 4;
        /// `capset(2)` after the filter, without no_new_privs.
        pub const SETS_LAST: usize = 5;
    }
    /// Of [`Step::Readback`](super::Step::Readback).
    pub mod readback {
        /// `NoNewPrivs` differs.
        pub const NO_NEW_PRIVS: usize = 1;
        /// `Seccomp` differs.
        pub const SECCOMP: usize = 2;
        /// A capability set differs.
        pub const CAPABILITIES: usize = 3;
        /// User or group differ.
        pub const IDS: usize = 4;
        /// The root is another, or writable.
        pub const ROOT_FLAGS: usize = 5;
        /// The cgroup is not its own.
        pub const CGROUP: usize = 6;
        /// The root as the runner sees it.
        pub const ROOT: usize = 7;
    }
    /// Of [`Step::Landlock`](super::Step::Landlock).
    pub mod landlock {
        /// `landlock_create_ruleset(2)`; smaller numbers are those of the rules.
        pub const CREATE: usize = 1000;
        /// `landlock_restrict_self(2)`.
        pub const RESTRICT: usize = 1001;
    }
    /// Of [`Step::Rlimits`](super::Step::Rlimits).
    pub mod rlimits {
        /// The hard limit of the first resource; smaller numbers are limits that are set.
        pub const CEILING: usize = 100;
    }
    /// Of [`Step::Stdio`](super::Step::Stdio).
    pub mod stdio {
        /// `close_range(2)`; smaller numbers are those of the descriptors.
        pub const CLOSE: usize = 9;
        /// The program's terminal, made.
        pub const TERMINAL: usize = 10;
    }
    /// Of [`Step::Template`](super::Step::Template).
    pub mod template {
        /// The number of the template.
        pub const NUMBER: usize = 1;
    }
    /// Of [`Step::CloneMount`](super::Step::CloneMount).
    pub mod clone_mount {
        /// The folder, opened.
        pub const OPEN: usize = 1;
        /// `fstat(2)`.
        pub const STAT: usize = 2;
        /// The folder was replaced by another.
        pub const REPLACED: usize = 3;
        /// `open_tree(2)`.
        pub const CLONE: usize = 4;
        /// `mount_setattr(2)`.
        pub const ATTRIBUTES: usize = 5;
        /// `mount_setattr(2)` with another owner.
        pub const OWNER: usize = 6;
        /// A user namespace for another owner.
        pub const OWNER_MAP: usize = 7;
    }
    /// Of [`Step::Fork`](super::Step::Fork).
    pub mod fork {
        /// The process that becomes the first, told to begin.
        pub const FIRST: usize = 1;
    }
}

/// Flags of [`Setup`].
pub mod setup {
    /// The map is written by a privileged launcher: drop supplementary groups, change ids.
    pub const PRIVILEGED_MAP: u32 = 1 << 0;
    /// Enter the template's root.
    pub const ROOT: u32 = 1 << 1;
    /// Mount `/proc`.
    pub const PROC: u32 = 1 << 2;
    /// Show process folders only in `/proc`.
    pub const PROC_SUBSET: u32 = 1 << 3;
    /// Mount `/dev/pts`.
    pub const DEVPTS: u32 = 1 << 4;
    /// Bring the loopback up.
    pub const LOOPBACK: u32 = 1 << 5;
    /// Forbid further user namespaces through the namespace's own ceiling.
    pub const NO_NESTED_USER_NS: u32 = 1 << 6;
    /// Set `no_new_privs`.
    pub const NO_NEW_PRIVS: u32 = 1 << 7;
    /// Empty every capability set.
    pub const DROP_CAPS: u32 = 1 << 8;
    /// Restrict by Landlock.
    pub const LANDLOCK: u32 = 1 << 9;
    /// Install the program's filter.
    pub const SECCOMP: u32 = 1 << 10;
    /// Install the filter with a listener, which is passed to the supervisor.
    pub const LISTENER: u32 = 1 << 11;
    /// Confine the runner only when the job has arrived.
    pub const HARDEN_LATE: u32 = 1 << 12;
    /// Report use of memory and CPU every 50 ms (where there is no cgroup).
    pub const SAMPLE: u32 = 1 << 13;
    /// The cgroup descriptors are version 1 `tasks` files.
    pub const CGROUP_V1: u32 = 1 << 14;
    /// The cgroup descriptor is a version 2 folder.
    pub const CGROUP_V2: u32 = 1 << 15;
    /// Enter a cgroup namespace after joining the cgroup.
    pub const CGROUP_NS: u32 = 1 << 16;
    /// Run as process 1 of a pid namespace.
    pub const PID_NS: u32 = 1 << 17;
    /// Mount scratch space.
    pub const SCRATCH: u32 = 1 << 18;
    /// Mount the message queues of the sandbox's own IPC namespace.
    pub const MQUEUE: u32 = 1 << 20;
    /// `/proc` shows the runner under its own id, so that its layers can be read back.
    pub const READBACK: u32 = 1 << 19;
    /// Listen for a proxy on the loopback, and pass the sockets to the supervisor.
    pub const PROXY: u32 = 1 << 24;
    /// Start a runtime ahead of its job, see [`super::Prime`]. The last descriptor of the message is the
    /// library, preceded by those of its mounts.
    pub const PRIME: u32 = 1 << 25;
    /// The job needs nothing from process 1 (no mounts, scratch unchanged), and is sent directly to the
    /// runner over a socket of its own. Not with [`PRIME`] or [`HARDEN_LATE`].
    pub const DIRECT: u32 = 1 << 26;
    /// Listen for questions for names on the loopback, by datagram, and pass the socket to the supervisor, unless the launcher has no
    /// network namespace made ahead. Not with [`PROXY`], which has one of its own.
    pub const NAMES: u32 = 1 << 27;
}

/// A sandbox to be made: everything that does not depend on the job.
#[derive(Debug)]
pub struct Setup<'a> {
    /// Bits of [`setup`].
    pub flags: u32,
    /// `CLONE_NEW*` bits.
    pub namespaces: u64,
    /// User and group id inside.
    pub inside: (u32, u32),
    /// User and group id outside.
    pub outside: (u32, u32),
    /// Id of the root file system.
    pub template: u32,
    /// Size of scratch in bytes.
    pub scratch_bytes: u64,
    /// Maximum number of files and folders in scratch.
    pub scratch_files: u64,
    /// Host name inside.
    pub hostname: &'a [u8],
    /// Paths below `/proc` that are to be covered.
    pub masks: List<'a, &'a CStr>,
    /// Access rules.
    pub landlock: Landlock<'a>,
    /// The program's filter: classic BPF instructions.
    pub filter: &'a [u8],
    /// Process 1's own filter; empty for none.
    pub init_filter: &'a [u8],
    /// The runtime to start ahead of the job.
    pub prime: Prime<'a>,
    /// Address and port on the loopback of each further socket that listens, with [`setup::PROXY`]. At most [`MAX_RELAYS`].
    pub relays: List<'a, ([u8; 4], u16)>,
}

/// A runtime that is started, confined, before its job is known, with the library that makes it wait for the
/// job.
#[derive(Debug)]
pub struct Prime<'a> {
    /// Mounts for the runtime: path, and whether it is a folder. At most [`MAX_PRIME_MOUNTS`].
    pub mounts: List<'a, (&'a CStr, bool)>,
    /// Paths to try in order; empty without [`setup::PRIME`].
    pub programs: List<'a, &'a CStr>,
    /// Arguments for the library.
    pub argv: List<'a, &'a CStr>,
    /// Environment; replaced by the job's.
    pub env: List<'a, &'a CStr>,
}

/// Descriptor on which a primed runtime receives its job: eight bytes of length, a memfd with the job,
/// standard input, output, error, then events.
pub const HANDOVER_FD: i32 = 3;
/// Descriptor of the library in a primed runtime.
pub const LIBRARY_FD: i32 = 4;

/// A Landlock ruleset. `landlock(7)`
#[derive(Debug)]
pub struct Landlock<'a> {
    /// `handled_access_fs`.
    pub fs: u64,
    /// `handled_access_net`.
    pub net: u64,
    /// `scoped`.
    pub scoped: u64,
    /// Rights, and the path at and below which they apply.
    pub rules: List<'a, (u64, &'a CStr)>,
}

/// Kind of a job's mount.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
#[repr(u8)]
pub enum How {
    /// A plain bind mount.
    Bind = 0,
    /// An overlay whose changes go to scratch.
    CopyOnWrite = 1,
    /// A read-only overlay, which cuts sockets and pipes off from the host.
    Sealed = 2,
    /// Not mounted by itself: a layer over the next copy-on-write folder, the topmost first.
    Layer = 3,
}

fn how(number: u8) -> Result<How, Malformed> {
    [How::Bind, How::CopyOnWrite, How::Sealed, How::Layer]
        .into_iter()
        .find(|how| *how as u8 == number)
        .ok_or(Malformed)
}

/// A mount of a job.
#[derive(Clone, Copy, Debug)]
pub struct JobMount<'a> {
    /// Index of the detached mount among the message's descriptors.
    pub fd: u32,
    /// Kind of the mount.
    pub how: How,
    /// True for a folder, false for a file.
    pub dir: bool,
    /// Absolute path inside.
    pub target: &'a CStr,
}

/// A job, for which a sandbox is released. Sent in a memfd.
#[derive(Debug)]
pub struct Job<'a> {
    /// New size of scratch in bytes; 0 to keep it.
    pub scratch_bytes: u64,
    /// New maximum number of files in scratch; 0 to keep it.
    pub scratch_files: u64,
    /// Memory of the tree in bytes above which init counts shared pages only once (with [`setup::SAMPLE`]).
    pub memory: u64,
    /// Mounts, in order.
    pub mounts: List<'a, JobMount<'a>>,
    /// Links in scratch: path and target.
    pub links: List<'a, (&'a CStr, &'a CStr)>,
    /// Further Landlock rules (with [`setup::HARDEN_LATE`]).
    pub rules: List<'a, (u64, &'a CStr)>,
    /// Resource limits: resource, soft and hard limit.
    pub rlimits: List<'a, (u32, u64, u64)>,
    /// Whether the program gets one more descriptor, the last one of the message.
    pub events: bool,
    /// Size of the program's terminal, see [`window`]; 0 for none. Its standard input is then the socket that
    /// receives the terminal's descriptors: the master, then the slave.
    pub terminal: u32,
    /// Start folder.
    pub cwd: &'a CStr,
    /// Paths to try in order; the first that can be executed is used.
    pub programs: List<'a, &'a CStr>,
    /// Arguments, with the program's name first.
    pub argv: List<'a, &'a CStr>,
    /// Environment.
    pub env: List<'a, &'a CStr>,
}

/// The size of a terminal in one number, for [`Job::terminal`].
#[must_use]
pub const fn window(rows: u16, columns: u16) -> u32 {
    (rows as u32) << 16 | columns as u32
}

impl<'a> Request<'a> {
    /// Decodes a message to the launcher: its tag, which the answer will repeat, and the request.
    ///
    /// # Errors
    /// [`Malformed`] for anything that is not exactly one request of this version.
    pub fn decode(bytes: &'a [u8]) -> Result<(u32, Self), Malformed> {
        let mut r = Reader::new(bytes);
        if r.u32()? != VERSION {
            return Err(Malformed);
        }
        let tag = r.u32()?;
        let request = match r.u32()? {
            request::HELLO => Self::Hello {
                own_user_ns: r.u8()? != 0,
                own_mounts: r.u8()? != 0,
                own_network: r.u8()? != 0,
                uid: r.u32()?,
                gid: r.u32()?,
            },
            request::TEMPLATE => Self::Template { id: r.u32()?, len: r.u64()? },
            request::FORGET => Self::Forget { id: r.u32()? },
            request::CLONE => Self::Clone(CloneRequest {
                path: r.cstr()?,
                dev: r.u64()?,
                ino: r.u64()?,
                read_only: r.u8()? != 0,
                devices: r.u8()? != 0,
                idmap: match r.u8()? {
                    0 => None,
                    _ => Some(IdMap {
                        from_uid: r.u32()?,
                        from_gid: r.u32()?,
                        to_uid: r.u32()?,
                        to_gid: r.u32()?,
                    }),
                },
            }),
            request::SPAWN => Self::Spawn(Setup {
                flags: r.u32()?,
                namespaces: r.u64()?,
                inside: (r.u32()?, r.u32()?),
                outside: (r.u32()?, r.u32()?),
                template: r.u32()?,
                scratch_bytes: r.u64()?,
                scratch_files: r.u64()?,
                hostname: r.bytes()?,
                masks: r.list(Reader::cstr)?,
                landlock: Landlock { fs: r.u64()?, net: r.u64()?, scoped: r.u64()?, rules: r.list(rule)? },
                filter: r.bytes()?,
                init_filter: r.bytes()?,
                prime: Prime {
                    mounts: r.list(|r| Ok((r.cstr()?, r.u8()? != 0)))?,
                    programs: r.list(Reader::cstr)?,
                    argv: r.list(Reader::cstr)?,
                    env: r.list(Reader::cstr)?,
                },
                relays: r.list(relay)?,
            }),
            request::REMOVE => Self::Remove(r.list(Reader::cstr)?),
            _ => return Err(Malformed),
        };
        if let Self::Spawn(setup) = &request
            && (setup.prime.mounts.len() > MAX_PRIME_MOUNTS || setup.relays.len() > MAX_RELAYS)
        {
            return Err(Malformed);
        }
        if r.rest.is_empty() { Ok((tag, request)) } else { Err(Malformed) }
    }
}

fn rule<'a>(r: &mut Reader<'a>) -> Result<(u64, &'a CStr), Malformed> {
    Ok((r.u64()?, r.cstr()?))
}

fn relay(r: &mut Reader<'_>) -> Result<([u8; 4], u16), Malformed> {
    Ok((r.u32()?.to_be_bytes(), u16::try_from(r.u32()?).map_err(|_| Malformed)?))
}

fn link<'a>(r: &mut Reader<'a>) -> Result<(&'a CStr, &'a CStr), Malformed> {
    Ok((r.cstr()?, r.cstr()?))
}

fn rlimit(r: &mut Reader<'_>) -> Result<(u32, u64, u64), Malformed> {
    Ok((r.u32()?, r.u64()?, r.u64()?))
}

fn job_mount<'a>(r: &mut Reader<'a>) -> Result<JobMount<'a>, Malformed> {
    Ok(JobMount { fd: r.u32()?, how: how(r.u8()?)?, dir: r.u8()? != 0, target: r.cstr()? })
}

impl<'a> Job<'a> {
    /// A job that starts a runtime ahead of its real job, in this folder: no mounts, no limits of its own.
    #[must_use]
    pub fn of_prime(prime: &Prime<'a>, cwd: &'a CStr) -> Self {
        Self {
            scratch_bytes: 0,
            scratch_files: 0,
            memory: 0,
            mounts: List::empty(job_mount),
            links: List::empty(link),
            rules: List::empty(rule),
            rlimits: List::empty(rlimit),
            events: false,
            terminal: 0,
            cwd,
            programs: prime.programs,
            argv: prime.argv,
            env: prime.env,
        }
    }

    /// Decodes a job.
    ///
    /// # Errors
    /// [`Malformed`] for anything that is not exactly one job of this version.
    pub fn decode(bytes: &'a [u8]) -> Result<Self, Malformed> {
        let mut r = Reader::new(bytes);
        if r.u32()? != VERSION {
            return Err(Malformed);
        }
        let job = Self {
            scratch_bytes: r.u64()?,
            scratch_files: r.u64()?,
            memory: r.u64()?,
            mounts: r.list(job_mount)?,
            links: r.list(link)?,
            rules: r.list(rule)?,
            rlimits: r.list(rlimit)?,
            events: r.u8()? != 0,
            terminal: r.u32()?,
            cwd: r.cstr()?,
            programs: r.list(Reader::cstr)?,
            argv: r.list(Reader::cstr)?,
            env: r.list(Reader::cstr)?,
        };
        if r.rest.is_empty() && job.mounts.len() <= MAX_MOUNTS { Ok(job) } else { Err(Malformed) }
    }
}

/// Decodes the operations of a template, in order.
///
/// # Errors
/// [`Malformed`] when any operation is malformed.
pub fn template_ops(bytes: &[u8]) -> Result<List<'_, TemplateOp<'_>>, Malformed> {
    let mut r = Reader::new(bytes);
    let ops = r.list(|r| {
        Ok(match r.u8()? {
            op::DIR => TemplateOp::Dir(r.cstr()?, r.u32()?),
            op::FILE => TemplateOp::File(r.cstr()?, r.u32()?, r.bytes()?),
            op::LINK => TemplateOp::Link(r.cstr()?, r.cstr()?),
            op::BIND => TemplateOp::Bind(r.cstr()?, r.cstr()?, r.u8()? != 0),
            op::LAYER => TemplateOp::Layer(r.cstr()?),
            _ => return Err(Malformed),
        })
    })?;
    if r.rest.is_empty() { Ok(ops) } else { Err(Malformed) }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn arbitrary_messages_cause_no_panic() {
        // A cheap generator: it suffices that lengths point everywhere.
        let mut state = 0x9e37_79b9_7f4a_7c15_u64;
        for round in 0..20_000 {
            let mut bytes = std::vec::Vec::new();
            let len = round % 97;
            for _ in 0..len {
                state = state.wrapping_mul(6_364_136_223_846_793_005).wrapping_add(1);
                bytes.push(if state >> 60 < 6 { 0 } else { state.to_le_bytes()[5] });
            }
            if round % 2 == 0 && bytes.len() >= 12 {
                bytes[..4].copy_from_slice(&VERSION.to_le_bytes());
                let kind = u32::from(bytes[8] % 7);
                bytes[8..12].copy_from_slice(&kind.to_le_bytes());
            }
            let _ = Request::decode(&bytes);
            let _ = Job::decode(&bytes);
            let _ = template_ops(&bytes).map(Iterator::count);
            let _ = Tell::decode(&bytes).map(|t| t.steps().count());
        }
    }

    #[test]
    fn trailing_bytes_and_wrong_versions_are_refused() {
        let forget =
            [VERSION.to_le_bytes(), 5u32.to_le_bytes(), 2u32.to_le_bytes(), 9u32.to_le_bytes()].concat();
        assert!(matches!(Request::decode(&forget), Ok((5, Request::Forget { id: 9 }))));
        assert!(Request::decode(&[&forget[..], &[0]].concat()).is_err());
        assert!(Request::decode(&forget[..15]).is_err());
        let other =
            [99u32.to_le_bytes(), 5u32.to_le_bytes(), 2u32.to_le_bytes(), 9u32.to_le_bytes()].concat();
        assert!(Request::decode(&other).is_err());
    }

    #[test]
    fn strings_end_with_only_nul() {
        for (bytes, good) in
            [(&b"ab\0"[..], true), (b"ab", false), (b"a\0b\0", false), (b"\0", true), (b"", false)]
        {
            let mut message = u32::try_from(bytes.len()).expect("short").to_le_bytes().to_vec();
            message.extend_from_slice(bytes);
            assert_eq!(Reader::new(&message).cstr().is_ok(), good, "{bytes:?}");
        }
    }

    #[test]
    fn steps_are_numbered_in_order() {
        for (n, step) in Step::ALL.into_iter().enumerate() {
            assert_eq!(step as usize, n);
        }
    }
}
