//! Resources.

use super::{CGROUP, LAUNCHER, RLIMITS, Row, SECCOMP, SUPERVISOR, Set, Users, a, c};
use crate::words::Layer;

pub(super) const ROWS: &[Row] = &[
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
        // On a busy host a second of processor time comes late.
        .set(&[Set::CpuSeconds(1), Set::WallSeconds(60)]),
    Row::ends(125, "sleep", c("sleep_long", &[]), "wall_limit").set(&[Set::WallSeconds(1)]),
    a(126, "core_dump", c("core_dump", &[]), &[RLIMITS, LAUNCHER]),
    a(127, "descriptors", c("descriptors", &["descriptors=1100"]), &[RLIMITS])
        .single("the kernel counts descriptors by this limit only; their memory is the cgroup's"),
];
