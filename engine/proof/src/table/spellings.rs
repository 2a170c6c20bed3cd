//! Other spellings of what is denied: the table at the head of the sandbox's `program.filter`.

use super::{FILTER_ONLY, MOUNT, Row, SECCOMP, Users, a, c};

pub(super) const ROWS: &[Row] = &[
    a(160, "kernel_programs_by_socket_options", c("socket_filters", &[]), &[SECCOMP]).single(FILTER_ONLY),
    a(161, "urgent_data_of_unix_sockets", c("urgent_data", &[]), &[SECCOMP]).single(FILTER_ONLY),
    a(162, "memory_merged_with_that_of_others", c("merged_memory", &[]), &[SECCOMP]).single(FILTER_ONLY),
    a(163, "what_is_in_the_page_cache", c("page_cache", &[]), &[SECCOMP]).single(FILTER_ONLY),
    a(164, "leases_on_files", c("leases", &[]), &[SECCOMP]).single("a file's owner may take one"),
    a(165, "priority_of_process_1", c("priority_of_starter", &[]), &[SECCOMP])
        .single("process 1 has the program's id, so that the kernel lets it"),
    a(166, "namespaces_by_requests", c("namespaces_by_ioctl", &[]), &[SECCOMP]).single(FILTER_ONLY),
    a(167, "named_socket_by_a_pair", c("socket_by_a_pair", &["socket={socket}"]), &[MOUNT])
        .single("Landlock covers named sockets from ABI 9 only"),
    Row::works(168, "usual_options_of_sockets", c("usual_options", &[]))
        .open(Users::Both, "the filter refuses every socket but pairs, since the network is the host's"),
];
