//! The attacks, as data. Their numbers are those of the project's list of attacks.

use std::fmt;

use serde::{Deserialize, Serialize};

use crate::run::User;

pub use crate::engine::Layer;

/// Something that should stop an attack.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash, Serialize, Deserialize)]
#[serde(rename_all = "snake_case")]
pub enum Wall {
    /// A layer that a policy can switch off.
    Layer(Layer),
    /// The bare kernel refuses an ordinary user, whatever stands around the program.
    Kernel,
    /// The supervisor: sampled limits, the wall clock, the sweep of descriptors, what it hands over and what not.
    Supervisor,
    /// The launcher: it sits in an empty network namespace, cannot be dumped, and runs from a sealed memory file.
    Launcher,
}

impl fmt::Display for Wall {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Self::Layer(layer) => f.write_str(layer.name()),
            Self::Kernel => f.write_str("kernel"),
            Self::Supervisor => f.write_str("supervisor"),
            Self::Launcher => f.write_str("launcher"),
        }
    }
}

/// The program of a row. In arguments `{secret}` and the like stand for what [`crate::decoys`] made.
#[derive(Clone, Copy, Debug)]
pub enum Probe {
    /// One of the C programs, by its name, with arguments.
    C(&'static str, &'static [&'static str]),
    /// A script in `programs/` for `/usr/bin/python3`.
    Python(&'static str, &'static [&'static str]),
    /// A script in `programs/` for `/bin/bash`.
    Shell(&'static str, &'static [&'static str]),
}

/// What should come of a row.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Expect {
    /// It is an attack, and it is stopped.
    Stopped,
    /// It is legitimate, and it works.
    Works,
    /// It never ends by itself; the outcome's cause must be this.
    Ends(&'static str),
}

/// How it is shown that an attack is one.
#[derive(Clone, Copy, Debug)]
pub enum Proof {
    /// It gets through the sandbox with the row's walls out.
    WallsOut,
    /// It gets through without a sandbox; the reason why walls alone cannot show it.
    Bare(&'static str),
    /// As `Bare` when root starts the sandbox, whose program then has another id; else as `WallsOut`.
    BareAsRoot(&'static str),
    /// It cannot be shown without risking the machine; the reason.
    Never(&'static str),
}

/// Who starts the sandbox in a row.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Users {
    /// Root only.
    Root,
    /// An ordinary user only.
    User,
    /// Each.
    Both,
}

/// One setting of a row's policy. Everything else is [`crate::engine`]'s default for attacks.
#[derive(Clone, Copy, Debug)]
pub enum Set {
    /// Memory, MiB.
    MemoryMib(u64),
    /// Processes and threads.
    Processes(u32),
    /// Scratch, MiB.
    DiskMib(u64),
    /// Files in scratch.
    Files(u64),
    /// Wall clock, seconds.
    WallSeconds(u64),
    /// CPU time, seconds.
    CpuSeconds(u64),
    /// Written to both output streams together, MiB.
    OutputMib(u64),
    /// No internet sockets at all.
    NetworkOff,
}

/// One attack.
#[derive(Clone, Copy, Debug)]
pub struct Row {
    /// Its number in the list.
    pub number: u16,
    /// Its name, in words.
    pub name: &'static str,
    /// The program.
    pub probe: Probe,
    /// What should stop it, each alone.
    pub walls: &'static [Wall],
    /// Who starts the sandbox.
    pub users: Users,
    /// Layers without which the row says nothing.
    pub needs: &'static [Layer],
    /// What should come of it.
    pub expect: Expect,
    /// Why only one wall can exist.
    pub single_wall: Option<&'static str>,
    /// How it is shown that it is an attack.
    pub proof: Proof,
    /// Settings of the policy.
    pub set: &'static [Set],
    /// Causes and signals that count as stopped, besides exit code 0.
    pub stopped_by: &'static [&'static str],
    /// Walls that count for an ordinary user only, since as root the matter is another.
    pub user_walls: &'static [Wall],
    /// Walls that count for root only.
    pub root_walls: &'static [Wall],
}

impl Row {
    /// An attack that these walls should stop.
    #[must_use]
    pub const fn attack(number: u16, name: &'static str, probe: Probe, walls: &'static [Wall]) -> Self {
        Self {
            number,
            name,
            probe,
            walls,
            users: Users::Both,
            needs: &[],
            expect: Expect::Stopped,
            single_wall: None,
            proof: Proof::WallsOut,
            set: &[],
            stopped_by: &[],
            user_walls: &[],
            root_walls: &[],
        }
    }
    /// Something that must work.
    #[must_use]
    pub const fn works(number: u16, name: &'static str, probe: Probe) -> Self {
        Self { expect: Expect::Works, ..Self::attack(number, name, probe, &[]) }
    }
    /// Something that must be ended with this cause.
    #[must_use]
    pub const fn ends(number: u16, name: &'static str, probe: Probe, cause: &'static str) -> Self {
        Self { expect: Expect::Ends(cause), ..Self::attack(number, name, probe, &[Wall::Supervisor]) }
    }
    /// Why only one wall can exist.
    #[must_use]
    pub const fn single(self, why: &'static str) -> Self {
        Self { single_wall: Some(why), ..self }
    }
    /// Shown without a sandbox, and why.
    #[must_use]
    pub const fn bare(self, why: &'static str) -> Self {
        Self { proof: Proof::Bare(why), ..self }
    }
    /// Shown without a sandbox when root starts it: its program never has root's id.
    #[must_use]
    pub const fn other_id(self) -> Self {
        Self { proof: Proof::BareAsRoot("the program never has the id of who started it"), ..self }
    }
    /// Not shown, and why.
    #[must_use]
    pub const fn unproven(self, why: &'static str) -> Self {
        Self { proof: Proof::Never(why), ..self }
    }
    /// Settings of the policy.
    #[must_use]
    pub const fn set(self, set: &'static [Set]) -> Self {
        Self { set, ..self }
    }
    /// Causes and signals that count as stopped.
    #[must_use]
    pub const fn stopped_by(self, stopped_by: &'static [&'static str]) -> Self {
        Self { stopped_by, ..self }
    }
    /// Who starts the sandbox.
    #[must_use]
    pub const fn users(self, users: Users) -> Self {
        Self { users, ..self }
    }
    /// Layers without which the row says nothing.
    #[must_use]
    pub const fn needs(self, needs: &'static [Layer]) -> Self {
        Self { needs, ..self }
    }
    /// Further walls for an ordinary user.
    #[must_use]
    pub const fn for_user(self, user_walls: &'static [Wall]) -> Self {
        Self { user_walls, ..self }
    }
    /// Further walls for root.
    #[must_use]
    pub const fn for_root(self, root_walls: &'static [Wall]) -> Self {
        Self { root_walls, ..self }
    }

    /// The name of its tests: `a031_overwrite_proc_self_exe`.
    #[must_use]
    pub fn test_name(&self) -> String {
        format!("a{:03}_{}", self.number, self.name)
    }
    /// The walls that count for this user.
    pub fn walls_for(&self, user: User) -> impl Iterator<Item = Wall> {
        let more = match user {
            User::Root => self.root_walls,
            User::User => self.user_walls,
        };
        self.walls.iter().chain(more).copied()
    }
    /// Whether the bare kernel refuses this user.
    #[must_use]
    pub fn kernel_stops(&self, user: User) -> bool {
        self.walls_for(user).any(|w| w == Wall::Kernel)
    }
    /// Whether one of its walls is never off.
    #[must_use]
    pub fn has_lasting_wall(&self, user: User) -> bool {
        self.walls_for(user).any(|w| matches!(w, Wall::Supervisor | Wall::Launcher))
    }
    /// How it is shown for this user.
    #[must_use]
    pub const fn proof_for(&self, user: User) -> Proof {
        match (self.proof, user) {
            (Proof::BareAsRoot(_), User::User) => Proof::WallsOut,
            (proof, _) => proof,
        }
    }
    /// Whether the row is run for this user.
    #[must_use]
    pub fn is_for(&self, user: User) -> bool {
        matches!((self.users, user), (Users::Both, _) | (Users::Root, User::Root) | (Users::User, User::User))
    }
}

const USER: Wall = Wall::Layer(Layer::UserNs);
const MOUNT: Wall = Wall::Layer(Layer::MountNs);
const PID: Wall = Wall::Layer(Layer::PidNs);
const NET: Wall = Wall::Layer(Layer::NetNs);
const IPC: Wall = Wall::Layer(Layer::IpcNs);
const UTS: Wall = Wall::Layer(Layer::UtsNs);
const LANDLOCK: Wall = Wall::Layer(Layer::Landlock);
const SECCOMP: Wall = Wall::Layer(Layer::Seccomp);
const CGROUP: Wall = Wall::Layer(Layer::Cgroup);
const RLIMITS: Wall = Wall::Layer(Layer::Rlimits);
const NNP: Wall = Wall::Layer(Layer::NoNewPrivs);
const CAPS: Wall = Wall::Layer(Layer::Capabilities);
const KERNEL: Wall = Wall::Kernel;
const SUPERVISOR: Wall = Wall::Supervisor;
const LAUNCHER: Wall = Wall::Launcher;

/// The program is never root inside, so that with its walls out it is still an ordinary user.
const NOT_ROOT_INSIDE: &str = "the program is an ordinary id inside even with these walls out";
/// The arena's own user namespace is the reason.
const FIRST_NS: &str = "only root of the first user namespace may, and the arena never gives that";
/// A layer that is looked at by itself.
const ITSELF: &str = "the row looks at this layer itself";
/// Calls against which only the filter stands.
const FILTER_ONLY: &str = "any process may call it; only the filter can refuse it";

const FILES: &[Wall] = &[MOUNT, LANDLOCK];
const SECRET: &[&str] = &["secret={secret}", "ro={ro}", "pid={pid}"];

const fn c(name: &'static str, args: &'static [&'static str]) -> Probe {
    Probe::C(name, args)
}
const fn a(number: u16, name: &'static str, probe: Probe, walls: &'static [Wall]) -> Row {
    Row::attack(number, name, probe, walls)
}

/// Every row.
pub const ROWS: &[Row] = &[
    // Files and paths.
    a(1, "read_denied_file", c("read_denied", SECRET), FILES),
    a(1, "read_private_file", c("read_denied", &["secret={private}"]), FILES).other_id(),
    a(2, "read_through_symlinks", c("read_by_symlink", SECRET), FILES),
    a(3, "hard_link_out", c("hard_link", SECRET), FILES),
    a(4, "rename_out_and_over", c("rename", SECRET), FILES),
    a(5, "truncate", c("truncate", SECRET), FILES),
    a(6, "unlink", c("unlink", SECRET), FILES),
    a(7, "every_open_call", c("open_variants", SECRET), FILES),
    a(8, "spellings_of_a_path", c("spellings", SECRET), FILES),
    a(9, "through_proc_roots", c("through_proc", SECRET), &[MOUNT, LANDLOCK]),
    Row::works(11, "odd_names", c("odd_names", &[])),
    a(13, "make_device", c("make_device", &[]), &[SECCOMP, CAPS, USER, KERNEL]).unproven(FIRST_NS),
    a(14, "open_by_handle", c("open_by_handle", &[]), &[SECCOMP, CAPS])
        .for_user(&[KERNEL])
        .bare(NOT_ROOT_INSIDE),
    a(19, "change_attributes_of_read_only", c("change_attributes", SECRET), &[MOUNT])
        .single("Landlock has no right for attributes; an own file's mode is its owner's"),
    a(20, "inotify_on_host_tree", c("inotify", SECRET), &[MOUNT])
        .single("Landlock has no right for watching"),
    a(20, "fanotify", c("fanotify", &[]), &[SECCOMP]).single(FILTER_ONLY),
    Row::works(25, "sparse_terabyte_is_collected", c("sparse_file", &[])),
    a(26, "many_files", c("many_files", &["files=1000"]), &[MOUNT])
        .single("the kernel counts files per file system only; the supervisor looks at the outcome")
        .set(&[Set::Files(1000)])
        .stopped_by(&["file_limit"])
        .bare("without its own mounts the sandbox has no scratch to count"),
    Row::works(27, "ten_thousand_folders_deep", c("deep_nesting", &[])).set(&[Set::WallSeconds(60)]),
    a(28, "fill_disk", c("fill_disk", &["disk_mib=16"]), &[MOUNT])
        .single("space is counted per file system only; memory is the next limit on a tmpfs")
        .set(&[Set::DiskMib(16)])
        .stopped_by(&["disk_limit"])
        .bare("without its own mounts the sandbox has no scratch to fill"),
    // /proc, /sys, /dev.
    a(
        31,
        "overwrite_proc_self_exe",
        c("overwrite_exe", &["pid={pid}", "victim={victim}"]),
        &[MOUNT, LANDLOCK, LAUNCHER],
    )
    .bare("what started the sandbox cannot be dumped and is sealed, which no policy switches off"),
    a(32, "sysrq_trigger", c("open_for_writing", &["file=/proc/sysrq-trigger"]), &[MOUNT, LANDLOCK, KERNEL])
        .unproven(FIRST_NS),
    a(
        33,
        "core_pattern",
        c("open_for_writing", &["file=/proc/sys/kernel/core_pattern"]),
        &[MOUNT, LANDLOCK, KERNEL],
    )
    .unproven(FIRST_NS),
    a(
        33,
        "sysctl_of_a_namespace",
        c("write_back", &["file=/proc/sys/kernel/msgmax"]),
        &[MOUNT, LANDLOCK, USER],
    )
    .for_user(&[KERNEL])
    .bare(NOT_ROOT_INSIDE),
    a(34, "kcore", c("read_kernel_file", &["file=/proc/kcore"]), &[MOUNT, LANDLOCK, KERNEL])
        .unproven(FIRST_NS),
    a(34, "kmsg", c("read_kernel_file", &["file=/dev/kmsg"]), &[MOUNT, LANDLOCK, KERNEL]).unproven(FIRST_NS),
    a(34, "kallsyms", c("read_kernel_file", &["file=/proc/kallsyms"]), &[MOUNT, KERNEL]).unproven(FIRST_NS),
    a(34, "keys", c("read_kernel_file", &["file=/proc/keys"]), &[MOUNT])
        .for_root(&[USER])
        .single(
            "an ordinary user's program has the user's id outside, and with it the view of the user's keys",
        )
        .other_id(),
    a(34, "kernel_log", c("kernel_log", &[]), &[SECCOMP, KERNEL]).unproven(FIRST_NS),
    a(35, "fresh_file_systems", c("fresh_mounts", &[]), &[SECCOMP, USER, CAPS, LANDLOCK])
        .bare(NOT_ROOT_INSIDE),
    a(
        36,
        "environment_and_memory_of_supervisor",
        c("supervisor_environment", &[]),
        &[PID, LANDLOCK, MOUNT, USER],
    )
    .for_user(&[LAUNCHER])
    .other_id(),
    a(37, "sys_visible", c("sys_visible", &[]), FILES),
    a(38, "dev_listing", c("dev_listing", &[]), FILES),
    a(39, "shm_of_others", c("shm_read", &[]), &[MOUNT, LANDLOCK]),
    a(40, "controlling_terminal", c("controlling_terminal", &[]), &[SUPERVISOR, SECCOMP, MOUNT])
        .unproven("the harness gives nobody a terminal"),
    a(40, "push_input_into_own_terminal", c("own_terminal", &[]), &[SECCOMP])
        .single("the terminal is the program's own: the row shows that the filter masks 64-bit requests"),
    a(41, "write_uid_map_again", c("write_map", &[]), &[MOUNT, LANDLOCK, KERNEL])
        .unproven("a map can be written once, by nobody again"),
    a(42, "leaked_descriptors", c("leaked_descriptors", &[]), &[LAUNCHER, SUPERVISOR])
        .bare("the sweep is never off"),
    a(42, "working_folder_outside", c("cwd_outside", &["outside={base}"]), &[LAUNCHER, MOUNT])
        .bare("the working folder is always set"),
    a(43, "set_clock", c("set_clock", &[]), &[SECCOMP, CAPS, USER, KERNEL]).unproven(FIRST_NS),
    a(44, "set_names", c("set_names", &[]), &[SECCOMP, CAPS, USER]).for_user(&[KERNEL]).bare(NOT_ROOT_INSIDE),
    a(44, "host_name_is_hidden", c("host_name", &["host_name={host_name}"]), &[UTS]).single(ITSELF),
    // System calls.
    a(45, "ptrace_outside", c("ptrace_outside", SECRET), &[SECCOMP, PID, LANDLOCK, USER])
        .for_user(&[LAUNCHER])
        .other_id(),
    a(45, "ptrace_sibling", c("ptrace_sibling", &[]), &[SECCOMP])
        .single("a process may trace its own children"),
    a(46, "read_memory_of_others", c("vm_read", SECRET), &[SECCOMP, PID, LANDLOCK, USER])
        .for_user(&[LAUNCHER])
        .other_id(),
    a(47, "take_descriptor", c("take_descriptor", SECRET), &[SECCOMP, PID, LANDLOCK, USER])
        .for_user(&[LAUNCHER])
        .other_id(),
    a(48, "keyrings", c("keyrings", &[]), &[SECCOMP]).single(FILTER_ONLY),
    a(49, "bpf", c("bpf", &[]), &[SECCOMP, CAPS, KERNEL]).unproven(FIRST_NS),
    a(50, "perf_events", c("perf", &[]), &[SECCOMP]).single("the kernel lets every process measure itself"),
    a(51, "io_uring", c("io_uring", &[]), &[SECCOMP]).single(FILTER_ONLY),
    a(51, "io_uring_by_int80", c("int80_io_uring", &[]), &[SECCOMP]).single(FILTER_ONLY),
    a(52, "userfaultfd", c("user_fault", &[]), &[SECCOMP]).single(FILTER_ONLY),
    a(53, "kernel_modules", c("modules", &[]), &[SECCOMP, CAPS, USER, KERNEL]).unproven(FIRST_NS),
    a(53, "kexec", c("kexec", &[]), &[SECCOMP, CAPS, USER, KERNEL]).unproven(FIRST_NS),
    a(54, "mount_family", c("mount_family", &[]), &[SECCOMP, USER, CAPS, LANDLOCK]).bare(NOT_ROOT_INSIDE),
    a(55, "unshare_each_kind", c("unshare_each", &[]), &[SECCOMP, USER]).for_user(&[LAUNCHER]),
    a(56, "clone_each_kind", c("clone_each", &[]), &[SECCOMP, USER]).for_user(&[LAUNCHER]),
    a(57, "clone3_namespaces", c("clone3_namespaces", &[]), &[SECCOMP, USER]).for_user(&[LAUNCHER]),
    Row::works(57, "clone3_enosys_or_works", c("clone3_absent_or_works", &[])),
    Row::works(57, "pthreads", c("threads", &[])),
    a(58, "untraced_children", c("odd_children", &[]), &[SECCOMP]).single(FILTER_ONLY),
    a(59, "int80", c("int80_entry", &[]), &[SECCOMP]).single(FILTER_ONLY),
    a(59, "x32", c("x32_entry", &[]), &[SECCOMP]).single(FILTER_ONLY),
    a(60, "personality", c("set_personality", &[]), &[SECCOMP]).single(FILTER_ONLY),
    a(61, "reboot_swap_accounting", c("host_switches", &[]), &[SECCOMP, CAPS])
        .for_user(&[KERNEL])
        .bare(NOT_ROOT_INSIDE),
    a(61, "quotas", c("quotas", &[]), &[SECCOMP])
        .single("without a device to aim at, any process gets an answer"),
    a(62, "io_ports", c("io_ports", &[]), &[SECCOMP, CAPS, USER, KERNEL]).unproven(FIRST_NS),
    a(63, "secure_bits", c("secure_bits", &[]), &[SECCOMP, CAPS]).for_user(&[KERNEL]).bare(NOT_ROOT_INSIDE),
    a(64, "looser_speculation", c("speculation", &[]), &[SECCOMP]).single(FILTER_ONLY),
    a(65, "second_filter_cannot_loosen", c("loosen_filter", &[]), &[SECCOMP]).single(ITSELF),
    Row::works(66, "unknown_call_is_enosys", c("future_call", &[])),
    a(67, "memfd_exec_stays_confined", c("memfd_exec", &[]), &[NNP])
        .single(ITSELF)
        .bare("where no cgroup accounts for it there is no memfd inside"),
    a(68, "setuid_program", c("setuid_program", &["suid={suid}"]), &[NNP, MOUNT, USER])
        .bare("Landlock and the filter need no_new_privs or a user namespace")
        .users(Users::User),
    a(69, "sysv_shared_memory", c("sysv_shared_memory", &["key={key}"]), &[IPC])
        .single("an object's mode is its maker's; only the namespace keeps numbers apart"),
    a(69, "sysv_semaphores_and_queues", c("sysv_others", &["key={key}"]), &[IPC])
        .single("an object's mode is its maker's; only the namespace keeps numbers apart"),
    a(69, "posix_queue", c("posix_queue", &["queue={queue}"]), &[IPC, LANDLOCK]),
    a(71, "modify_ldt", c("old_descriptor_table", &[]), &[SECCOMP]).single(FILTER_ONLY),
    a(71, "kcmp", c("compare_processes", SECRET), &[SECCOMP, PID, LANDLOCK, USER])
        .for_user(&[LAUNCHER])
        .other_id(),
    a(71, "lookup_dcookie", c("cookie", &[]), &[SECCOMP, CAPS, KERNEL]).unproven(FIRST_NS),
    a(74, "fixed_addresses", c("fixed_addresses", &[]), &[SECCOMP]).single(FILTER_ONLY),
    // Namespaces and capabilities.
    a(75, "nested_user_namespace", c("nested_user_namespace", &[]), &[SECCOMP, USER, LANDLOCK])
        .for_user(&[LAUNCHER]),
    a(76, "capability_sets_are_empty", c("capability_sets", &[]), &[CAPS]).single(ITSELF),
    a(77, "no_new_privs_is_set", c("no_new_privs", &[]), &[NNP]).single(ITSELF),
    a(77, "seccomp_is_on", c("seccomp_mode", &[]), &[SECCOMP]).single(ITSELF),
    a(78, "enter_namespaces_of_others", c("enter_process_one", SECRET), &[SECCOMP, CAPS, PID])
        .for_user(&[KERNEL])
        .bare(NOT_ROOT_INSIDE),
    a(79, "remount_for_writing", c("remount", &[]), &[SECCOMP, CAPS, USER, LANDLOCK]).bare(NOT_ROOT_INSIDE),
    a(80, "unmount_masks", c("unmount_mask", &[]), &[SECCOMP, CAPS, USER, LANDLOCK])
        .for_user(&[KERNEL])
        .bare(NOT_ROOT_INSIDE),
    // Network and sockets.
    a(81, "tcp4", c("tcp4", &["port={port}"]), &[NET, LAUNCHER])
        .bare("the launcher's own network is empty too"),
    a(81, "tcp6", c("tcp6", &["port={port}"]), &[NET, LAUNCHER])
        .bare("the launcher's own network is empty too"),
    a(81, "udp", c("udp", &["port={port}"]), &[NET, LAUNCHER])
        .bare("the launcher's own network is empty too"),
    a(81, "tcp4_with_network_off", c("tcp4", &["port={port}"]), &[NET, LANDLOCK, SECCOMP, LAUNCHER])
        .set(&[Set::NetworkOff])
        .bare("the launcher's own network is empty too"),
    a(81, "udp_with_network_off", c("udp", &["port={port}"]), &[NET, SECCOMP, LAUNCHER])
        .set(&[Set::NetworkOff])
        .bare("the launcher's own network is empty too"),
    a(81, "raw_sockets", c("raw_socket", &[]), &[SECCOMP, CAPS, USER])
        .for_user(&[KERNEL])
        .bare(NOT_ROOT_INSIDE),
    a(82, "shell_dev_tcp", Probe::Shell("dev_tcp.sh", &["port={port}"]), &[NET, LAUNCHER])
        .bare("the launcher's own network is empty too"),
    a(83, "spellings_of_an_address", Probe::Python("python_connect.py", &["port={port}"]), &[NET, LAUNCHER])
        .bare("the launcher's own network is empty too"),
    a(93, "path_socket", c("path_socket", &["socket={socket}"]), &[MOUNT])
        .single("Landlock covers named sockets from ABI 9 only"),
    a(94, "abstract_stream", c("abstract_stream", &["abstract={abstract}"]), &[NET, LANDLOCK, LAUNCHER])
        .bare("the launcher's own network is empty too"),
    a(94, "abstract_datagram", c("abstract_datagram", &["abstract={abstract}"]), &[NET, LANDLOCK, LAUNCHER])
        .bare("the launcher's own network is empty too"),
    a(97, "vsock", c("family", &["family=40"]), &[SECCOMP]).single("this kernel's vsock knows no namespace"),
    a(97, "alg", c("family", &["family=38"]), &[SECCOMP]).single(FILTER_ONLY),
    a(97, "packet", c("family", &["family=17"]), &[SECCOMP, CAPS, USER])
        .for_user(&[KERNEL])
        .bare(NOT_ROOT_INSIDE),
    a(97, "key", c("family", &["family=15"]), &[SECCOMP, CAPS]).for_user(&[KERNEL]).bare(NOT_ROOT_INSIDE),
    a(97, "xdp", c("family", &["family=44"]), &[SECCOMP, CAPS, USER])
        .for_user(&[KERNEL])
        .bare(NOT_ROOT_INSIDE),
    a(97, "tipc", c("family", &["family=30"]), &[SECCOMP]).single(FILTER_ONLY),
    a(98, "netlink_audit", c("netlink", &["protocol=9"]), &[SECCOMP]).single(FILTER_ONLY),
    a(98, "netlink_netfilter", c("netlink", &["protocol=12"]), &[SECCOMP]).single(FILTER_ONLY),
    a(98, "netlink_uevent", c("netlink", &["protocol=15"]), &[SECCOMP]).single(FILTER_ONLY),
    Row::works(100, "oversized_address", c("long_address", &[])),
    Row::works(101, "socket_pair", c("socket_pair", &[])),
    Row::works(101, "asyncio_wakes_itself", Probe::Python("asyncio_wakeup.py", &[])),
    // Processes and signals.
    a(102, "fork_bomb", c("fork_bomb", &["processes=32"]), &[CGROUP, RLIMITS])
        .set(&[Set::Processes(32)])
        .stopped_by(&["process_limit"]),
    a(102, "clone_bomb", c("clone_bomb", &["processes=32"]), &[CGROUP, RLIMITS])
        .set(&[Set::Processes(32)])
        .stopped_by(&["process_limit"]),
    a(102, "shell_fork_bomb", Probe::Shell("fork_bomb.sh", &["processes=32"]), &[CGROUP, RLIMITS])
        .set(&[Set::Processes(32)])
        .stopped_by(&["process_limit"]),
    a(103, "daemon_survives", c("daemon_survives", &["marker={marker}"]), &[PID, SUPERVISOR])
        .bare("the supervisor looks for what is left of a run"),
    a(104, "signal_outside", c("signal_outside", &["pid={pid}", "super={super}"]), &[PID, LANDLOCK])
        .for_root(&[USER])
        .other_id(),
    Row::ends(105, "stop_self", c("stop_self", &[]), "wall_limit").set(&[Set::WallSeconds(1)]),
    Row::ends(106, "ignore_signals", c("ignore_signals", &[]), "wall_limit").set(&[Set::WallSeconds(1)]),
    Row::works(107, "orphans_are_reaped", c("orphans_are_reaped", &[])).needs(&[Layer::PidNs]),
    a(108, "child_holds_output", c("child_holds_output", &["marker={marker}"]), &[PID, SUPERVISOR])
        .bare("the supervisor looks for what is left of a run"),
    Row::ends(112, "group_change", c("group_change", &["marker={marker}"]), "wall_limit")
        .set(&[Set::WallSeconds(1)]),
    a(113, "thread_bomb", c("thread_bomb", &["processes=32"]), &[CGROUP, RLIMITS])
        .set(&[Set::Processes(32)])
        .stopped_by(&["process_limit"]),
    Row::works(114, "timers_with_threads", c("thread_timers", &[])),
    // Resources.
    a(116, "memory_touched", c("memory_touched", &["mib=200"]), &[CGROUP, RLIMITS, SUPERVISOR])
        .set(&[Set::MemoryMib(64)])
        .stopped_by(&["memory_limit"])
        .bare("the supervisor samples where no cgroup counts"),
    a(116, "memory_in_children", c("memory_in_children", &["mib=240"]), &[CGROUP, SUPERVISOR])
        .set(&[Set::MemoryMib(64)])
        .stopped_by(&["memory_limit"])
        .bare("the supervisor samples where no cgroup counts"),
    Row::works(117, "reserve_64_gib", c("reserve_memory", &[])),
    a(118, "memory_in_memfd", c("memory_in_memfd", &["mib=200"]), &[CGROUP, SECCOMP])
        .users(Users::Root)
        .needs(&[Layer::Cgroup])
        .set(&[Set::MemoryMib(64), Set::DiskMib(16)])
        .stopped_by(&["memory_limit", "SIGBUS"]),
    a(121, "output_lines", c("output_bomb", &["kind=lines", "mib=64"]), &[SUPERVISOR])
        .single("only the reader of the output can count it")
        .set(&[Set::OutputMib(4)])
        .stopped_by(&["output_limit"])
        .bare("the supervisor is never off"),
    a(121, "output_without_newline", c("output_bomb", &["kind=one_line", "mib=64"]), &[SUPERVISOR])
        .single("only the reader of the output can count it")
        .set(&[Set::OutputMib(4)])
        .stopped_by(&["output_limit"])
        .bare("the supervisor is never off"),
    a(121, "output_on_stderr", c("output_bomb", &["kind=stderr", "mib=64"]), &[SUPERVISOR])
        .single("only the reader of the output can count it")
        .set(&[Set::OutputMib(4)])
        .stopped_by(&["output_limit"])
        .bare("the supervisor is never off"),
    a(121, "output_on_both", c("output_bomb", &["kind=both", "mib=64"]), &[SUPERVISOR])
        .single("only the reader of the output can count it")
        .set(&[Set::OutputMib(4)])
        .stopped_by(&["output_limit"])
        .bare("the supervisor is never off"),
    Row::works(123, "binary_output", c("binary_output", &[])),
    Row::ends(124, "spin_on_threads", c("spin_threads", &[]), "cpu_limit")
        .set(&[Set::CpuSeconds(1), Set::WallSeconds(15)]),
    Row::ends(125, "sleep", c("sleep_long", &[]), "wall_limit").set(&[Set::WallSeconds(1)]),
    a(126, "core_dump", c("core_dump", &[]), &[RLIMITS]).single("only the limit decides the size of a core"),
    a(127, "descriptors", c("descriptors", &["descriptors=17000"]), &[RLIMITS])
        .single("the kernel counts descriptors by this limit only; their memory is the cgroup's"),
    // Cgroups and what leaks in.
    a(129, "own_cgroup", c("own_cgroup", &[]), &[MOUNT, LANDLOCK, USER])
        .users(Users::Root)
        .needs(&[Layer::Cgroup])
        .bare(NOT_ROOT_INSIDE),
    a(130, "release_agent", c("release_agent", &[]), &[MOUNT, LANDLOCK, SECCOMP, KERNEL]).unproven(FIRST_NS),
    a(133, "environment", c("environment", &[]), &[LAUNCHER, SUPERVISOR])
        .bare("the environment is always built anew"),
    a(135, "ids_and_groups", c("ids_and_groups", &["groups={groups}"]), &[USER])
        .single("ids are the user namespace's alone; that they open nothing is what rows 1 to 9 show"),
];

#[cfg(test)]
mod tests {
    use super::*;
    use std::collections::BTreeSet;

    #[test]
    fn names_are_unique_and_sorted_by_number() {
        let mut seen = BTreeSet::new();
        let mut last = 0;
        for row in ROWS {
            assert!(seen.insert(row.test_name()), "{} twice", row.test_name());
            assert!(row.number >= last, "{} is out of order", row.test_name());
            last = row.number;
            assert!(
                row.name.bytes().all(|b| b.is_ascii_lowercase() || b.is_ascii_digit() || b == b'_'),
                "{}",
                row.name
            );
        }
    }

    #[test]
    fn every_attack_has_two_walls_or_a_reason() {
        for row in ROWS.iter().filter(|r| r.expect == Expect::Stopped) {
            let mut some_user_has_one = false;
            for user in User::ALL.into_iter().filter(|u| row.is_for(*u)) {
                let walls: Vec<_> = row.walls_for(user).collect();
                assert!(!walls.is_empty(), "{}", row.test_name());
                let one = walls.len() < 2;
                some_user_has_one |= one;
                assert!(
                    !one || row.single_wall.is_some(),
                    "{} as {}: {walls:?}",
                    row.test_name(),
                    user.name()
                );
            }
            assert_eq!(
                some_user_has_one,
                row.single_wall.is_some(),
                "{} has two walls and a reason for one",
                row.test_name()
            );
        }
    }
}
