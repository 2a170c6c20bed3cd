//! Details of failed steps, by step: the launcher reports them, and the supervisor explains them. 0 is the only operation
//! of a step, or its rest.

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
