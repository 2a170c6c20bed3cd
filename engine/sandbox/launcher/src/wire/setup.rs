//! Flags of [`Setup`](super::Setup).

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
