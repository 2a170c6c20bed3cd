//! The project's list of attacks by number, and what tests each: rows, special tests, tests of other suites,
//! or the reason why nothing can.

use crate::scenarios;
use crate::scenarios::Special;
use crate::table::{Row, rows};

/// One numbered attack of the list.
#[derive(Clone, Copy, Debug)]
pub struct Attack {
    /// 1 to 142 are the project's original list; later numbers were found afterwards.
    pub number: u16,
    /// The attempted attack, or the operation that must work.
    pub title: &'static str,
    /// Tests of other suites that cover more of it.
    pub elsewhere: &'static [Elsewhere],
    /// Reason why nothing here attempts it.
    pub not_run: Option<&'static str>,
}

/// A test of another suite.
#[derive(Clone, Copy, Debug)]
pub struct Elsewhere {
    /// The file, in the repository.
    pub file: &'static str,
    /// The test in it.
    pub test: &'static str,
    #[cfg(test)]
    source: &'static str,
}

impl Attack {
    /// Rows of the attack.
    pub fn rows(&self) -> impl Iterator<Item = &'static Row> {
        let number = self.number;
        rows().filter(move |row| row.number == number)
    }

    /// Special tests of the attack.
    pub fn specials(&self) -> impl Iterator<Item = &'static Special> {
        let number = self.number;
        scenarios::ALL.iter().filter(move |test| test.number() == number)
    }
}

macro_rules! elsewhere {
    ($file:literal, $test:literal) => {
        Elsewhere {
            file: $file,
            test: $test,
            #[cfg(test)]
            source: include_str!(concat!("../../../", $file)),
        }
    };
}

const fn n(number: u16, title: &'static str) -> Attack {
    also(number, title, &[])
}
const fn also(number: u16, title: &'static str, elsewhere: &'static [Elsewhere]) -> Attack {
    Attack { number, title, elsewhere, not_run: None }
}

/// All attacks, in order.
pub const LIST: &[Attack] = &[
    n(1, "read a denied file"),
    also(
        2,
        "read through a symlink or a chain of them",
        &[elsewhere!("tests/end_to_end/tests/trust.rs", "typed_paths_follow_no_clone_link_outside")],
    ),
    n(3, "hard link out of a read-only or denied place"),
    n(4, "rename over, or out of, a denied place"),
    n(5, "truncate, by call and by O_TRUNC"),
    n(6, "unlink"),
    n(7, "every call that opens: openat2, creat, open"),
    n(8, "spellings of a path: relative to a folder, .., //, /./"),
    n(9, "through /proc/self/root, cwd and those of others"),
    n(10, "parent folder swapped for a link during set-up"),
    n(11, "names that are no text, or have a newline"),
    n(12, "NUL in a path"),
    n(13, "make a device or a pipe"),
    n(14, "open by file handle"),
    n(15, "links, pipes, devices and setuid files taken over from a workspace"),
    also(
        16,
        "links and pipes copied out of a workspace",
        &[elsewhere!("tests/end_to_end/tests/trust.rs", "results_are_not_written_through_links")],
    ),
    n(17, "file and link swapped while they are collected"),
    n(18, "O_NOFOLLOW with a slash at the end"),
    n(19, "change mode, owner, attributes or times of what is read-only"),
    n(20, "watch the host's files"),
    also(
        21,
        "protected names made later",
        &[elsewhere!("tests/end_to_end/tests/trust.rs", "planted_installation_is_not_operators")],
    ),
    n(22, "mountpoints left on the host"),
    n(23, "denied folder in an allowed one, and the reverse"),
    also(
        24,
        "the same name in other letters",
        &[elsewhere!("engine/workspace/src/protected/tests.rs", "names_executed_by_tools_are_protected")],
    ),
    n(25, "sparse file of a terabyte"),
    n(26, "a million files"),
    n(27, "ten thousand folders deep"),
    n(28, "fill the disk"),
    n(29, "owner of what was written"),
    n(30, "execute what was just written"),
    n(31, "overwrite the program that started it"),
    n(32, "/proc/sysrq-trigger"),
    n(33, "core_pattern and other kernel settings"),
    n(34, "kcore, kmsg, kallsyms, keys"),
    n(35, "mount a fresh proc, sysfs or cgroup file system"),
    n(36, "environment and memory of the supervisor"),
    n(37, "/sys"),
    n(38, "devices: mem, kvm, fuse"),
    n(39, "shared memory files of others"),
    n(40, "input pushed into a terminal"),
    n(41, "write the id map again"),
    n(42, "leaked folders, working folder outside"),
    n(43, "set a clock"),
    n(44, "set host and domain name"),
    n(45, "trace a parent or sibling"),
    n(46, "read and write the memory of others"),
    n(47, "take a descriptor from a process"),
    n(48, "keyrings"),
    n(49, "bpf"),
    n(50, "performance events"),
    n(51, "io_uring, also by the 32-bit entry"),
    n(52, "userfaultfd"),
    n(53, "load a module or a kernel"),
    n(54, "the calls of the mount family"),
    n(55, "unshare and enter each kind of namespace"),
    n(56, "clone into namespaces"),
    n(57, "clone3 is absent, and threads work"),
    n(58, "untraced and other odd children"),
    n(59, "system calls of other machines: int 0x80, x32"),
    n(60, "personality"),
    n(61, "swap, reboot, accounting, quotas"),
    n(62, "ports of the machine"),
    n(63, "prctl: dumpable, secure bits, tracer"),
    n(64, "looser speculation"),
    n(65, "a second filter cannot loosen the first"),
    n(66, "unknown calls are absent"),
    n(67, "execute from memory"),
    n(68, "setuid programs and file capabilities"),
    n(69, "System V and POSIX objects of others"),
    n(70, "locks and leases between runs"),
    n(71, "modify_ldt, kcmp, lookup_dcookie"),
    n(72, "pointer changed while the supervisor looks"),
    n(73, "the one who is asked is killed"),
    n(74, "addresses without randomness"),
    n(75, "nested user namespace"),
    n(76, "capability sets are empty"),
    n(77, "no_new_privs and the filter are on"),
    n(78, "enter the namespaces of process 1"),
    n(79, "remount for writing, bind over a mask"),
    n(80, "unmount a mask"),
    n(81, "TCP, UDP, raw sockets, ICMP"),
    n(82, "network by the shell's and other tools"),
    n(83, "spellings of an address"),
    n(84, "metadata and private addresses by an allowed name"),
    n(85, "hosts that look like an allowed one"),
    n(86, "an empty list of hosts denies all"),
    n(87, "TLS name, Host, target or :authority that is not the host that was asked for"),
    also(
        88,
        "redirect to another origin carries no secret; an echo and an own credential bring none",
        &[
            elsewhere!("tests/end_to_end/tests/secrets.rs", "program_uses_a_secret_that_is_nowhere_inside"),
            elsewhere!(
                "tests/end_to_end/tests/interception.rs",
                "neither_the_value_nor_the_authoritys_key_is_inside"
            ),
            elsewhere!(
                "engine/egress/tests/routes/intercepted.rs",
                "smuggled_and_foreign_requests_within_tls_reach_no_host"
            ),
            elsewhere!(
                "engine/egress/tests/routes/limits.rs",
                "rules_of_the_network_hold_for_the_host_of_a_secret"
            ),
        ],
    ),
    n(89, "tunnel of names"),
    n(90, "nobody serves the proxy"),
    n(91, "settings read again keep the filter"),
    n(92, "a client that ignores the proxy"),
    n(93, "named sockets of daemons"),
    n(94, "abstract sockets"),
    n(95, "another name for a daemon's socket"),
    n(96, "descriptors over sockets, malformed messages"),
    n(97, "socket families: vsock, alg, packet, key, xdp, tipc"),
    n(98, "netlink"),
    n(99, "a port inside, from the host"),
    n(100, "address longer than it may be"),
    n(101, "socket pairs and asyncio work"),
    n(102, "fork bomb"),
    n(103, "daemon that survives its leader"),
    n(104, "signals to those outside"),
    n(105, "stops itself"),
    n(106, "ignores signals"),
    n(107, "orphans are reaped"),
    n(108, "child that holds the output"),
    n(109, "time ends while a compiler works"),
    n(110, "supervisor killed"),
    n(111, "killed while it starts"),
    n(112, "changes its process group"),
    n(113, "thread bomb"),
    n(114, "timers with threads"),
    n(115, "stopped by a terminal"),
    n(116, "memory bomb"),
    n(117, "64 GiB reserved, not touched"),
    n(118, "memory in memfd, tmpfs, pipes and sockets"),
    n(119, "child out of memory"),
    n(120, "swap"),
    n(121, "output bomb"),
    n(122, "memory of the supervisor during one"),
    n(123, "output that is no text"),
    n(124, "spins on all processors"),
    n(125, "sleeps"),
    n(126, "core dump"),
    n(127, "descriptors"),
    n(128, "output before a kill is kept"),
    n(129, "write to its own cgroup"),
    n(130, "release agent"),
    also(
        131,
        "cgroups left",
        &[elsewhere!("engine/sandbox/tests/run/deaths.rs", "hundred_runs_leave_no_resources")],
    ),
    also(
        132,
        "descriptors left or leaked",
        &[elsewhere!("engine/sandbox/tests/run/deaths.rs", "hundred_runs_leave_no_resources")],
    ),
    n(133, "environment"),
    n(134, "host paths in sight"),
    n(135, "ids and groups"),
    also(
        136,
        "what passes from run to run",
        &[elsewhere!("engine/sandbox/tests/run/hot.rs", "sandbox_is_used_once")],
    ),
    also(
        137,
        "host without user namespaces",
        &[elsewhere!("tests/end_to_end/tests/weak.rs", "user_namespaces_refused_by_ceiling")],
    ),
    also(
        138,
        "host with each Landlock version",
        &[elsewhere!("engine/sandbox/tests/run/weak.rs", "landlock_versions_each_work_and_hold")],
    ),
    also(
        139,
        "host without cgroups to delegate",
        &[elsewhere!("tests/end_to_end/tests/weak.rs", "user_without_cgroups_uses_fallback_limits")],
    ),
    also(
        140,
        "host that is a container",
        &[elsewhere!("tests/end_to_end/tests/weak.rs", "user_namespaces_refused_by_container_filter")],
    ),
    Attack { not_run: Some("gVisor is not to be had for a test"), ..n(141, "host that is gVisor") },
    also(
        142,
        "host without notifications",
        &[elsewhere!("tests/end_to_end/tests/weak.rs", "missing_seccomp_notification_loses_denials_only")],
    ),
    n(143, "descriptors in flight, which count for the user"),
    n(144, "pseudo terminals, which count for the host"),
    n(145, "inotify instances, which count for the user"),
    n(146, "memory in the buffers of sockets"),
    n(147, "memory in page tables"),
    n(148, "not the first to end where the host has no memory left"),
    Attack {
        not_run: Some("no limit of a sandbox bounds them, which stands in what is not promised"),
        ..n(149, "pages of pipes, which count for the user")
    },
    n(160, "programs in the kernel by options of sockets"),
    n(161, "urgent data of Unix sockets"),
    n(162, "memory merged with that of others"),
    n(163, "page cache"),
    n(164, "leases"),
    n(165, "priority of process 1"),
    n(166, "namespaces by requests to their files"),
    n(167, "a daemon's socket by a pair"),
    n(168, "usual options of sockets work"),
];

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn attack_numbers_have_test_or_reason() {
        let numbers: Vec<u16> = LIST.iter().map(|a| a.number).collect();
        assert_eq!(numbers[..142], (1..=142).collect::<Vec<u16>>());
        assert!(numbers.windows(2).all(|two| two[0] < two[1]), "{numbers:?}");
        for attack in LIST {
            let here = attack.rows().count() + attack.specials().count();
            assert_eq!(here == 0, attack.not_run.is_some(), "{} {}", attack.number, attack.title);
        }
    }

    #[test]
    fn tests_have_listed_attack_numbers() {
        assert!(rows().all(|row| LIST.iter().any(|a| a.number == row.number)));
        for test in scenarios::ALL {
            assert!(LIST.iter().any(|a| a.number == test.number()), "{}", test.name);
        }
    }

    #[test]
    fn named_tests_of_other_suites_exist() {
        for other in LIST.iter().flat_map(|a| a.elsewhere) {
            assert!(other.source.contains(&format!("fn {}()", other.test)), "{} {}", other.file, other.test);
        }
    }
}
