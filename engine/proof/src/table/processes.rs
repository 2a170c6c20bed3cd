//! Processes and signals.

use super::{CGROUP, LANDLOCK, PID, Probe, RLIMITS, Row, SUPERVISOR, Set, USER, Users, a, c};
use crate::words::Layer;

/// Without a user namespace and a cgroup; that there is an end all the same is shown by the test of that name.
const COUNTED_TOGETHER: &str = "without a cgroup the kernel counts the user's other processes too, so that the limit is higher by them and 64 more";

pub(super) const ROWS: &[Row] = &[
    a(102, "fork_bomb", c("fork_bomb", &["processes=32"]), &[CGROUP, RLIMITS])
        .set(&[Set::Processes(32)])
        .stopped_by(&["process_limit"])
        .open(Users::User, COUNTED_TOGETHER)
        .unless(Layer::Cgroup),
    a(102, "clone_bomb", c("clone_bomb", &["processes=32"]), &[CGROUP, RLIMITS])
        .set(&[Set::Processes(32)])
        .stopped_by(&["process_limit"])
        .open(Users::User, COUNTED_TOGETHER)
        .unless(Layer::Cgroup),
    a(102, "shell_fork_bomb", Probe::Shell("fork_bomb.sh", &["processes=32"]), &[CGROUP, RLIMITS])
        .set(&[Set::Processes(32)])
        .stopped_by(&["process_limit"])
        .open(Users::User, COUNTED_TOGETHER)
        .unless(Layer::Cgroup),
    a(103, "daemon_survives", c("daemon_survives", &["marker={marker}"]), &[PID, SUPERVISOR])
        .bare("the supervisor looks for what is left of a run"),
    a(104, "signal_outside", c("signal_outside", &["pid={pid}", "super={super}"]), &[PID, LANDLOCK])
        .landlock_from(6)
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
        .stopped_by(&["process_limit"])
        .open(Users::User, COUNTED_TOGETHER)
        .unless(Layer::Cgroup),
    Row::works(114, "timers_with_threads", c("thread_timers", &[])),
    Row::works(115, "terminal_of_its_own", c("own_terminal_jobs", &[]))
        .open(Users::Both, "no terminal device is granted on the host's own tree"),
    Row::works(115, "signals_of_a_terminal", c("terminal_signals", &[])),
];
