//! Cgroups and what leaks in.

use super::{
    FIRST_NS, KERNEL, LANDLOCK, LAUNCHER, MOUNT, NOT_ROOT_INSIDE, Row, SECCOMP, SUPERVISOR, USER, Users, a, c,
};
use crate::words::Layer;

pub(super) const ROWS: &[Row] = &[
    a(129, "own_cgroup", c("own_cgroup", &[]), &[MOUNT, LANDLOCK, USER])
        .users(Users::Root)
        .needs(&[Layer::Cgroup])
        .bare(NOT_ROOT_INSIDE),
    a(130, "release_agent", c("release_agent", &[]), &[MOUNT, LANDLOCK, SECCOMP, KERNEL]).unproven(FIRST_NS),
    a(133, "environment", c("environment", &[]), &[LAUNCHER, SUPERVISOR])
        .bare("the environment is always built anew"),
    a(135, "ids_and_groups", c("ids_and_groups", &["groups={groups}"]), &[USER])
        .single("ids are the user namespace's alone; that they open nothing is what rows 1 to 9 show")
        .open(Users::User, "only root can lay groups down; they open nothing that Landlock does not grant"),
];
