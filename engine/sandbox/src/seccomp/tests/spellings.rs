//! Other spellings of denied operations: the table at the head of `program.filter`, as families of calls.
//! Each family is tried with arbitrary values in the half of a register that the kernel does not read, and
//! with every other argument.

use super::super::interpret::run;
use super::super::rules::Action;
use super::super::{Arch, Options, program};
use super::{ALLOW, DENY, NO_OPTION, NONE, UNSUPPORTED, all_option_sets, answer, call, option_sets};

/// Values for the upper half of a register that the kernel takes as an `int`.
const JUNK: [u64; 3] = [0, 0xdead_beef_0000_0000, 1 << 32];

/// The program filter's answer to a call on x86_64 and on aarch64, which must agree.
fn says(options: Options, name: &str, arguments: &[u64]) -> Action {
    let answers = Arch::ALL.into_iter().filter_map(|arch| {
        let number = arch.table().number(name)?;
        Some(run(program(arch, options), &call(arch, number, arguments)).0)
    });
    let answers: Vec<u32> = answers.collect();
    assert!(answers.windows(2).all(|two| two[0] == two[1]), "{name}({arguments:x?}) differs: {answers:x?}");
    let found = [ALLOW, DENY, NONE, NO_OPTION, UNSUPPORTED].into_iter().find(|action| {
        let wanted = answer(*action, options.notify);
        answers.first() == Some(&wanted)
    });
    // `sendto` with an address notifies, like a denied call.
    found.unwrap_or_else(|| panic!("{name}({arguments:x?}) on no machine, or answered {answers:x?}"))
}

fn expect(options: Options, name: &str, arguments: &[u64], action: Action) {
    assert_eq!(says(options, name, arguments), action, "{name}({arguments:x?}), {options:?}");
}

/// Whether a socket option of a level is allowed, from a list by hand: the numbers that programs use.
fn is_used(level: u64, option: u64) -> bool {
    match level {
        1 => {
            (2..=25).contains(&option)
                || [27, 29, 34, 35, 37, 40, 42, 45, 47, 49, 62, 63, 64, 65, 66, 67, 76, 83, 84]
                    .contains(&option)
        }
        0 => option < 64 && option != 16 && option != 17,
        41 => option < 79 && ![1, 32, 34, 35, 64, 65].contains(&option),
        6 => option < 14 || [16, 17, 18, 23, 25, 27, 30, 33, 36].contains(&option),
        17 => [1, 101, 102, 103, 104].contains(&option),
        270 => option < 13,
        _ => false,
    }
}

#[test]
fn options_of_sockets_are_a_list() {
    let denied = [(1, 26), (1, 50), (1, 51), (1, 52), (6, 31), (17, 100)];
    let levels = (0..300).chain([0x7fff_ffff, 0xffff_ffff]);
    let options: Vec<u64> = (0..300).chain([1 << 10, 0x7fff_ffff, 0x8000_0000, 0xffff_ffff]).collect();
    let set = option_sets().last().expect("one set");
    for level in levels {
        for &option in &options {
            let wanted = match (level, option) {
                pair if denied.contains(&pair) => DENY,
                (level, option) if is_used(level, option) => ALLOW,
                _ => NO_OPTION,
            };
            for junk in JUNK {
                expect(set, "setsockopt", &[3, junk | level, junk | option, 1, 4], wanted);
            }
        }
    }
}

#[test]
fn options_that_programs_set_are_in_the_list() {
    // SO_REUSEADDR, SO_BROADCAST, SO_SNDBUF, SO_RCVBUF, SO_KEEPALIVE, SO_OOBINLINE, SO_LINGER, SO_REUSEPORT,
    // SO_PASSCRED, SO_RCVLOWAT, SO_RCVTIMEO, SO_SNDTIMEO, SO_BINDTODEVICE, SO_TIMESTAMP; IP_TOS, IP_TTL,
    // IP_PKTINFO, IP_MTU_DISCOVER, IP_RECVERR, multicast; IPV6_V6ONLY, hops, groups, received ancillary data,
    // IPV6_TCLASS; TCP_NODELAY to TCP_CONGESTION, user time-out, fast open; datagrams of QUIC; groups of
    // route netlink.
    let used: &[(u64, &[u64])] = &[
        (1, &[2, 6, 7, 8, 9, 10, 13, 15, 16, 18, 20, 21, 25, 29]),
        (0, &[1, 2, 8, 10, 11, 12, 13, 15, 24, 32, 33, 34, 35, 36, 39, 40, 42, 49, 50]),
        (41, &[2, 16, 17, 18, 19, 20, 21, 23, 25, 26, 49, 50, 51, 53, 56, 58, 62, 66, 67, 72]),
        (6, &[1, 2, 3, 4, 5, 6, 7, 8, 9, 10, 12, 13, 18, 23, 25, 30]),
        (17, &[103, 104]),
        (270, &[1, 2, 3, 11, 12]),
    ];
    for options in option_sets() {
        for (level, numbers) in used {
            for number in *numbers {
                expect(options, "setsockopt", &[3, *level, *number, 1, 4], ALLOW);
                expect(options, "getsockopt", &[3, *level, *number, 1, 4], ALLOW);
            }
        }
        expect(options, "getsockopt", &[3, 6, 35, 1, 4], NO_OPTION);
        expect(options, "getsockopt", &[3, 1, 35, 1, 4], ALLOW);
    }
}

#[test]
fn urgent_data_is_unsupported_with_any_flags() {
    let calls =
        [("sendto", 3), ("recvfrom", 3), ("sendmsg", 2), ("recvmsg", 2), ("sendmmsg", 3), ("recvmmsg", 3)];
    for options in all_option_sets() {
        for (name, place) in calls {
            for others in [0, 0x40, 0x4000, 0x7fff_fffe, 0xffff_fffe] {
                for junk in JUNK {
                    for (flags, wanted) in [(others | 1, UNSUPPORTED), (others, ALLOW)] {
                        let mut arguments = [3, 0x1001, 0x11, 0, 0, 0];
                        arguments[place] = junk | flags;
                        expect(options, name, &arguments, wanted);
                    }
                }
            }
        }
        // An address makes no difference.
        expect(options, "sendto", &[3, 4, 5, 1, 0x7fff_0000, 16], UNSUPPORTED);
    }
}

#[test]
fn uncached_io_flag_is_unsupported() {
    for options in all_option_sets() {
        for name in ["preadv2", "pwritev2"] {
            for junk in JUNK {
                for (flags, wanted) in
                    [(8, UNSUPPORTED), (9, UNSUPPORTED), (0x7f, UNSUPPORTED), (0, ALLOW), (0x77, ALLOW)]
                {
                    expect(options, name, &[3, 8, 8, 8, 8, junk | flags], wanted);
                }
            }
        }
    }
}

#[test]
fn huge_pages_are_unavailable_with_any_flags() {
    for options in all_option_sets() {
        for others in [0, 0x1, 0x2, 0x22, 0x4022, 0x2_0022, 0x8_0022, 0xffff_fffb & !0x4_0000 & !0x800] {
            for junk in JUNK {
                let mapped = |flags: u64| [0, 4096, 3, junk | flags, u64::MAX, 0];
                expect(options, "mmap", &mapped(others & !0x4_0000 | 0x4_0000), NONE);
                expect(options, "mmap", &mapped(others & !0x4_0000), ALLOW);
                let made = if options.accounted { ALLOW } else { NONE };
                expect(options, "memfd_create", &[1, junk | others & !4], made);
                expect(options, "memfd_create", &[1, junk | others | 4], NONE);
                if !options.plain {
                    expect(options, "shmget", &[1, 4096, junk | others | 0x800], NONE);
                    expect(options, "shmget", &[1, 4096, junk | others & !0x800], ALLOW);
                }
            }
        }
    }
}

#[test]
fn memory_is_not_merged_and_not_broken() {
    for options in all_option_sets() {
        for advice in (0..120).chain([0xffff_ffff]) {
            let wanted = if [12, 100, 101].contains(&advice) { DENY } else { ALLOW };
            for junk in JUNK {
                expect(options, "madvise", &[12, 12, junk | advice], wanted);
            }
        }
    }
}

#[test]
fn process_1_is_left_alone_by_every_name() {
    for options in option_sets().filter(|options| options.namespaces) {
        for junk in JUNK {
            for name in ["sched_setparam", "sched_setscheduler", "sched_setaffinity", "sched_setattr"] {
                expect(options, name, &[junk | 1, 1, 1], DENY);
                for other in [0, 2, 17, 0x101] {
                    expect(options, name, &[junk | other, 1, 1], ALLOW);
                }
            }
            // By process, by group, and for all processes of the user; for others by process and group.
            for (name, process, group, user) in [("setpriority", 0, 1, 2), ("ioprio_set", 1, 2, 3)] {
                for which in [process, group] {
                    expect(options, name, &[junk | which, junk | 1, 5], DENY);
                    expect(options, name, &[junk | which, junk, 5], ALLOW);
                    expect(options, name, &[junk | which, junk | 17, 5], ALLOW);
                }
                for who in [0, 1, 1000] {
                    expect(options, name, &[junk | user, junk | who, 5], DENY);
                }
            }
        }
        expect(options, "prlimit64", &[1, 7, 0x1000], DENY);
    }
}

#[test]
fn fcntl_leases_and_watches_are_denied() {
    for options in all_option_sets() {
        for command in (0..16).chain([1024, 1025, 1026, 1030, 1031, 1033, 1036, 1040]) {
            let wanted = match command {
                1024 | 1040 => DENY,
                1026 if options.plain => DENY,
                _ => ALLOW,
            };
            for junk in JUNK {
                expect(options, "fcntl", &[3, junk | command, 1], wanted);
            }
        }
    }
}

#[test]
fn landlock_only_denies_datagram_socket_pairs() {
    for options in all_option_sets() {
        for flags in [0, 0x800, 0x8_0000, 0x8_0800] {
            let datagrams = if options.plain { DENY } else { ALLOW };
            // SOCK_RAW (3) is a datagram socket by another name. 4, and numbers from 6 on, do not exist.
            for (kind, wanted) in
                [(1, ALLOW), (5, ALLOW), (2, datagrams), (3, datagrams), (4, datagrams), (6, datagrams)]
            {
                for junk in JUNK {
                    expect(options, "socketpair", &[1, junk | kind | flags, 0], wanted);
                }
            }
        }
    }
}

/// `_IOC(direction, type, number, size)`.
const fn request(direction: u64, kind: u64, number: u64, size: u64) -> u64 {
    direction << 30 | size << 16 | kind << 8 | number
}

#[test]
fn requests_to_sockets_read_and_load_no_module() {
    let reading = [
        0x10, 0x12, 0x13, 0x15, 0x17, 0x19, 0x1b, 0x1d, 0x21, 0x27, 0x33, 0x35, 0x38, 0x42, 0x46, 0x47, 0x48,
        0x4b, 0x54, 0x70,
    ];
    for options in option_sets() {
        for number in 0..=0xff {
            let wanted = if number < 8 || reading.contains(&number) { ALLOW } else { DENY };
            for junk in JUNK {
                expect(options, "ioctl", &[3, junk | 0x8900 | number, 0], wanted);
            }
        }
        for stamp in [0x8010_8906, 0x8010_8907] {
            expect(options, "ioctl", &[3, stamp, 0], ALLOW);
        }
        for used in [0x5401, 0x5421, 0x541b, 0x5450, 0x5451, 0x5413, 0x5414, 0x540e, 0x8004_5430, 0x4004_9409]
        {
            expect(options, "ioctl", &[3, used, 0], ALLOW);
        }
    }
}

#[test]
fn ioctl_cannot_reach_namespaces_keys_or_terminals() {
    for options in option_sets() {
        for direction in 0..4 {
            for number in 0..=0xff {
                for size in [0, 4, 8, 32, 0x3fff] {
                    expect(options, "ioctl", &[3, request(direction, 0xb7, number, size), 0], DENY);
                }
            }
        }
        for number in 1..=10 {
            expect(options, "ioctl", &[3, 0xff00 | number, 0], DENY);
        }
        // PIDFD_GET_INFO, with any size of its structure.
        for size in [64, 72, 112, 120] {
            expect(options, "ioctl", &[3, request(3, 0xff, 11, size), 0], ALLOW);
        }
        for denied in
            [0x5412, 0x541c, 0x541d, 0x5423, 0x5437, 0xc040_6618, 0xc040_6619, 0xc050_6617, 0xc080_661a]
        {
            expect(options, "ioctl", &[3, denied, 0], DENY);
        }
    }
}

#[test]
fn ioctl_cannot_change_host_file_attributes() {
    // FS_IOC_SETFLAGS (also of 32 bits), FS_IOC_FSSETXATTR, FS_IOC_SETVERSION, verity, an encryption policy, freezing.
    let changing = [
        0x4008_6602,
        0x4004_6602,
        0x401c_5820,
        0x4008_7602,
        0x4080_6685,
        0x800c_6613,
        0xc004_5877,
        request(1, b'X'.into(), 200, 8),
    ];
    // FS_IOC_GETFLAGS, FS_IOC_FSGETXATTR, FS_IOC_GETVERSION, FS_IOC_FIEMAP, PROCMAP_QUERY, FIONREAD, TCGETS.
    let reading = [0x8008_6601, 0x801c_581f, 0x8008_7601, 0xc020_660b, 0xc068_6611, 0x541b, 0x5401];
    for options in all_option_sets() {
        for number in changing {
            expect(options, "ioctl", &[3, number, 0], if options.plain { DENY } else { ALLOW });
        }
        for number in reading {
            expect(options, "ioctl", &[3, number, 0], ALLOW);
        }
    }
}
