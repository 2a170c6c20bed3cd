//! Namespaces and capabilities.

use super::{
    CAPS, ITSELF, KERNEL, LANDLOCK, LAUNCHER, NNP, NOT_ROOT_INSIDE, PID, Row, SECCOMP, SECRET, USER, Users,
    a, c,
};

pub(super) const ROWS: &[Row] = &[
    a(75, "nested_user_namespace", c("nested_user_namespace", &[]), &[SECCOMP, USER, LANDLOCK])
        .for_user(&[LAUNCHER]),
    a(76, "capability_sets_are_empty", c("capability_sets", &[]), &[CAPS]).single(ITSELF).open(
        Users::User,
        "an ordinary user may not empty the bounding set, which no_new_privs keeps without use",
    ),
    a(77, "no_new_privs_is_set", c("no_new_privs", &[]), &[NNP]).single(ITSELF),
    a(77, "seccomp_is_on", c("seccomp_mode", &[]), &[SECCOMP]).single(ITSELF),
    a(78, "enter_namespaces_of_others", c("enter_process_one", SECRET), &[SECCOMP, CAPS, PID])
        .for_user(&[KERNEL])
        .bare(NOT_ROOT_INSIDE),
    a(79, "remount_for_writing", c("remount", &[]), &[SECCOMP, CAPS, USER, LANDLOCK]).bare(NOT_ROOT_INSIDE),
    a(80, "unmount_masks", c("unmount_mask", &[]), &[SECCOMP, CAPS, USER, LANDLOCK])
        .for_user(&[KERNEL])
        .bare(NOT_ROOT_INSIDE),
];
