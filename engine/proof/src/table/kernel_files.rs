//! `/proc`, `/sys`, `/dev`.

use super::{
    CAPS, FILES, FIRST_NS, ITSELF, KERNEL, LANDLOCK, LAUNCHER, MOUNT, NOT_ROOT_INSIDE, PID, Row, SECCOMP,
    SUPERVISOR, USER, UTS, Users, a, c,
};

pub(super) const ROWS: &[Row] = &[
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
        .other_id()
        .open(Users::User, "the user's keys are in the user's view; it cannot use them"),
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
    a(40, "controlling_terminal", c("controlling_terminal", &[]), &[SUPERVISOR, SECCOMP])
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
    a(44, "host_name_is_hidden", c("host_name", &["host_name={host_name}"]), &[UTS])
        .single(ITSELF)
        .open(Users::Both, "the program is on the host's own tree and under its name"),
];
