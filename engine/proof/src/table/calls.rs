//! System calls.

use super::{
    CAPS, FILES, FILTER_ONLY, FIRST_NS, IPC, ITSELF, KERNEL, LANDLOCK, LAUNCHER, MOUNT, NET, NNP,
    NOT_ROOT_INSIDE, PID, Row, SECCOMP, SECRET, USER, Users, a, c,
};

pub(super) const ROWS: &[Row] = &[
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
    a(72, "address_changed_while_asked", c("address_race", &["port={port}"]), &[NET, LAUNCHER])
        .bare("the launcher's own network is empty too"),
    a(72, "socket_path_changed_while_asked", c("socket_path_race", &["socket={socket}"]), &[MOUNT])
        .single("Landlock covers named sockets from ABI 9 only"),
    a(72, "path_changed_while_opened", c("open_race", SECRET), FILES),
    a(74, "fixed_addresses", c("fixed_addresses", &[]), &[SECCOMP]).single(FILTER_ONLY),
];
