//! Attacks on what is left for neighbours: resources that the kernel counts for a user of the host or for the
//! whole host, and not for a run.

use super::{CGROUP, LANDLOCK, MOUNT, RLIMITS, Row, SUPERVISOR, Set, USER, Users, a, c};
use crate::words::Layer;

const SENDERS_LIMIT: &str = "the kernel holds a user's descriptors in flight against the limit of whoever sends, and against nothing else";
const SAMPLES: &str = "the supervisor samples where no cgroup counts";
const SMALL_LIMITS: &[Set] = &[Set::MemoryMib(64), Set::DiskMib(16)];
const MEMORY: &[&str] = &["memory_limit", "SIGKILL"];

pub(super) const ROWS: &[Row] = &[
    // As root, each sandbox has a host id of its own, and with it a count of its own.
    a(143, "descriptors_in_flight", c("descriptors_in_flight", &[]), &[RLIMITS])
        .users(Users::User)
        .single(SENDERS_LIMIT),
    a(143, "descriptors_of_waiting_senders", c("waiting_senders", &[]), &[RLIMITS])
        .users(Users::User)
        .single(SENDERS_LIMIT),
    a(144, "pseudo_terminals", c("pseudo_terminals", &[]), &[MOUNT, LANDLOCK]),
    a(145, "inotify_instances", c("inotify_instances", &[]), &[USER]).single(
        "both ceilings are those of user namespaces: the sandbox's, and for an ordinary user the launcher's, which goes with this layer",
    ),
    a(146, "buffers_of_tcp", c("socket_buffers", &["kind=tcp", "mib=120"]), &[CGROUP, SUPERVISOR])
        .set(SMALL_LIMITS)
        .stopped_by(MEMORY)
        .bare(SAMPLES),
    a(146, "buffers_of_udp", c("socket_buffers", &["kind=udp", "mib=90"]), &[CGROUP, SUPERVISOR])
        .set(SMALL_LIMITS)
        .stopped_by(MEMORY)
        .bare(SAMPLES),
    a(146, "buffers_of_local_sockets", c("socket_buffers", &["kind=unix", "mib=90"]), &[CGROUP, SUPERVISOR])
        .set(SMALL_LIMITS)
        .stopped_by(MEMORY)
        .bare(SAMPLES)
        .open(
            Users::Both,
            "local sockets are those of the host's network namespace, which tells of everybody's",
        )
        .unless(Layer::Cgroup),
    a(147, "page_tables", c("page_tables", &["mib=120"]), &[CGROUP, SUPERVISOR])
        .set(SMALL_LIMITS)
        .stopped_by(MEMORY)
        .bare(SAMPLES),
    a(148, "first_to_go", c("first_to_go", &[]), &[LANDLOCK])
        .needs(&[Layer::Landlock])
        .single("the kernel lets every process of an ordinary user write its own file; Landlock does not"),
];
