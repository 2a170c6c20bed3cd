//! The protocol between the supervisor and the launcher, and between the supervisor and each init.
//!
//! Plain little-endian data over `SOCK_SEQPACKET`, with descriptors sent along by `SCM_RIGHTS`. Both ends are
//! built together, so there is one version ([`VERSION`]) and no negotiation. Any bytes can be decoded safely:
//! every length is checked, nothing is trusted, and nothing allocates.

pub mod detail;
mod reader;
pub mod setup;
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
    /// Links in scratch: path and target. One without a target is a folder.
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
mod tests;
