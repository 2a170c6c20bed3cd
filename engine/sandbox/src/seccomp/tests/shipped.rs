//! Tests the answers of the shipped filters.

use super::super::compile::{RET_ALLOW, RET_KILL, compile};
use super::super::interpret::{check, run};
use super::super::rules::{ADDRESS_CALLS, Action};
use super::super::{Arch, Meaning, Options, init, meaning, name, program, program_rules};
use super::{ALL_ON, ALLOW, DENY, NONE, NOTIFY, all_option_sets, answer, call, option_sets};

/// Asserts the program filter's answer to a call, on every architecture that has the call.
fn expect(options: Options, name: &str, arguments: &[u64], action: Action) {
    let mut found = false;
    for arch in Arch::ALL {
        let Some(number) = arch.table().number(name) else {
            continue;
        };
        found = true;
        let (got, _) = run(program(arch, options), &call(arch, number, arguments));
        let wanted = answer(action, options.notify);
        assert_eq!(got, wanted, "{name}({arguments:x?}) on {arch:?}, {options:?}: {got:#x} for {wanted:#x}");
    }
    assert!(found, "{name} exists nowhere");
}

const JUNK: u64 = 0xdead_beef_0000_0000;

#[test]
fn calls_without_conditions() {
    #[rustfmt::skip]
    let table: &[(Action, &str)] = &[
        (ALLOW, "read write open openat close close_range execve execveat exit_group futex mmap mprotect brk \
            madvise mincore fork vfork wait4 waitid pipe2 poll ppoll epoll_pwait2 eventfd2 timerfd_create signalfd4 \
            inotify_init1 memfd_create splice tee sendfile copy_file_range shmget semtimedop msgget mq_open flock \
            sched_yield membarrier rseq landlock_restrict_self mlock statx faccessat2 pidfd_open pidfd_send_signal \
            futex_waitv getcpu get_mempolicy arch_prctl setuid setgroups chmod fchmodat sendmsg sendmmsg recvmsg accept4 \
            listen getrandom rt_sigreturn tgkill sigaltstack set_robust_list clock_gettime restart_syscall io_submit"),
        (DENY, "ptrace process_vm_readv process_vm_writev pidfd_getfd kcmp process_madvise keyctl add_key request_key bpf \
            perf_event_open io_uring_setup io_uring_enter io_uring_register userfaultfd kexec_load kexec_file_load \
            init_module finit_module delete_module mount umount2 pivot_root chroot move_mount open_tree open_tree_attr \
            fsopen fsconfig fsmount fspick mount_setattr unshare setns swapon swapoff reboot acct quotactl quotactl_fd \
            syslog sethostname setdomainname settimeofday clock_settime adjtimex clock_adjtime ioperm iopl modify_ldt \
            vhangup lookup_dcookie nfsservctl vmsplice open_by_handle_at name_to_handle_at fanotify_init migrate_pages"),
        (NONE, "clone3 uselib _sysctl sysfs ustat create_module statmount listmount memfd_secret tuxcall"),
        (NOTIFY, "connect bind"),
    ];
    for options in option_sets() {
        for (action, names) in table {
            for name in names.split_whitespace() {
                expect(options, name, &[JUNK, JUNK, 0x1234, 0, u64::MAX], *action);
            }
        }
    }
}

#[test]
fn calls_with_conditions() {
    #[rustfmt::skip]
    let table: &[(&str, &[u64], Action)] = &[
        // A thread by glibc, by musl, by Go; posix_spawn; fork with a pidfd.
        ("clone", &[0x3d_0f00], ALLOW),
        ("clone", &[0x7d_0f00], ALLOW),
        ("clone", &[0x5_0f00], ALLOW),
        ("clone", &[0x4111], ALLOW),
        ("clone", &[0x1011], ALLOW),
        ("clone", &[JUNK | 17], ALLOW),
        ("clone", &[0x2_0011], DENY),
        ("clone", &[0x200_0011], DENY),
        ("clone", &[0x400_0011], DENY),
        ("clone", &[0x800_0011], DENY),
        ("clone", &[0x1000_0011], DENY),
        ("clone", &[0x2000_0011], DENY),
        ("clone", &[0x4000_0011], DENY),
        ("clone", &[0x80], DENY),
        ("clone", &[JUNK | 0x1000_0011], DENY),
        ("clone", &[0x80_0011], DENY),
        ("clone", &[0x2011], DENY),
        ("clone", &[0x8011], DENY),
        ("personality", &[0], ALLOW),
        ("personality", &[8], ALLOW),
        ("personality", &[0xffff_ffff], ALLOW),
        ("personality", &[u64::MAX], ALLOW),
        ("personality", &[0x4_0000], DENY),
        ("personality", &[0x40_0000], DENY),
        ("personality", &[JUNK | 0x4_0000], DENY),
        ("ioctl", &[0, 0x5401], ALLOW),
        ("ioctl", &[0, 0x5412], DENY),
        ("ioctl", &[0, JUNK | 0x5412], DENY),
        ("ioctl", &[0, 0x1_0000_541c], DENY),
        ("ioctl", &[0, 0x5423], DENY),
        ("ioctl", &[0x5412, 0], ALLOW),
        ("socket", &[1, 1, 0], ALLOW),
        ("socket", &[1, 5 | 0x8_0800, 0], ALLOW),
        ("socket", &[JUNK | 1, 2, 0], ALLOW),
        ("socket", &[16, 3, 0], ALLOW),
        ("socket", &[16, 3 | 0x8_0000, 0], ALLOW),
        ("socket", &[16, 3, 4], DENY),
        ("socket", &[16, 3, 16], DENY),
        ("socket", &[2, 3, 1], DENY),
        ("socket", &[2, 3, 255], DENY),
        ("socket", &[2, 10, 3], DENY),
        ("socket", &[2, 2, 1], DENY),
        ("socket", &[10, 2, 58], DENY),
        ("socket", &[2, 5, 132], DENY),
        ("socket", &[2, 1, 132], DENY),
        ("socket", &[2, 1, 256], DENY),
        ("socket", &[2, 6, 33], DENY),
        ("socket", &[0, 1, 0], DENY),
        ("socket", &[40, 1, 0], DENY),
        ("socket", &[38, 5, 0], DENY),
        ("socket", &[17, 3, 0], DENY),
        ("socket", &[15, 3, 2], DENY),
        ("socket", &[44, 3, 0], DENY),
        ("socket", &[30, 1, 0], DENY),
        ("socket", &[31, 3, 0], DENY),
        ("socket", &[0xffff_ffff, 1, 0], DENY),
        ("socketpair", &[1, 1 | 0x8_0800, 0], ALLOW),
        ("socketpair", &[30, 1, 0], DENY),
        ("socketpair", &[2, 1, 0], DENY),
        ("sendto", &[3, 4, 5, 0, 0, 0], ALLOW),
        ("sendto", &[3, 4, 5, 0, 0, 16], ALLOW),
        ("sendto", &[3, 4, 5, 0, 1, 0], NOTIFY),
        ("sendto", &[3, 4, 5, 0, 0x7fff_0000_0000, 16], NOTIFY),
        ("setsockopt", &[3, 1, 2], ALLOW),
        ("setsockopt", &[3, 6, 1], ALLOW),
        ("setsockopt", &[3, 41, 31], ALLOW),
        ("setsockopt", &[3, 6, 31], DENY),
        ("mknod", &[0, 0o10_0644], ALLOW),
        ("mknod", &[0, 0o644], ALLOW),
        ("mknod", &[0, 0o01_0644], ALLOW),
        ("mknod", &[0, 0o14_0644], ALLOW),
        ("mknod", &[0, 0o02_0644], DENY),
        ("mknod", &[0, 0o06_0644, 0x800], DENY),
        ("mknod", &[0, 0x1_0000 | 0o02_0644], DENY),
        ("mknodat", &[0, 0, 0o01_0644], ALLOW),
        ("mknodat", &[0, 0, JUNK | 0o02_0644], DENY),
        ("mknodat", &[0, 0, 0o06_0644], DENY),
        ("seccomp", &[1, 0], ALLOW),
        ("seccomp", &[1, 1], ALLOW),
        ("seccomp", &[2, 0], ALLOW),
        ("seccomp", &[1, 8], DENY),
        ("seccomp", &[1, 0x19], DENY),
        ("seccomp", &[1, JUNK | 8], DENY),
        ("prctl", &[15], ALLOW),
        ("prctl", &[JUNK | 15], ALLOW),
        ("prctl", &[22, 2], ALLOW),
        ("prctl", &[4, 0], ALLOW),
        ("prctl", &[36, 1], ALLOW),
        ("prctl", &[0x5356_4d41], ALLOW),
        ("prctl", &[38, 1], ALLOW),
        ("prctl", &[35, 1], DENY),
        ("prctl", &[JUNK | 35, 1], DENY),
        ("prctl", &[24, 1], DENY),
        ("prctl", &[28, 1], DENY),
        ("prctl", &[57, 1], DENY),
        ("prctl", &[62, 1], DENY),
        ("prctl", &[67, 1], DENY),
        ("prctl", &[0x5961_6d61, u64::MAX], DENY),
        ("prctl", &[1000], DENY),
        ("prctl", &[47, 2, 21], DENY),
        ("prctl", &[47, 4], ALLOW),
        ("prctl", &[52, 0], ALLOW),
        ("prctl", &[53, 0, 2], DENY),
        ("prctl", &[53, 1, 2], DENY),
        ("prctl", &[53, 0, 4], ALLOW),
        ("prctl", &[53, 0, 8], ALLOW),
        ("prctl", &[53, 0, 16], ALLOW),
        ("prctl", &[53, 0, 0x1_0000_0004], DENY),
        ("prlimit64", &[0, 7, 0x1000], ALLOW),
        ("prlimit64", &[1, 7, 0, 0x1000], ALLOW),
        ("prlimit64", &[1, 7, 0x1000], DENY),
        ("move_pages", &[0], ALLOW),
        ("move_pages", &[1], DENY),
        ("get_robust_list", &[0], ALLOW),
        ("get_robust_list", &[1], DENY),
    ];
    for options in option_sets().filter(|options| options.internet) {
        for (name, arguments, action) in table {
            expect(options, name, arguments, *action);
        }
    }
}

#[test]
fn internet_sockets_are_an_option() {
    for options in option_sets() {
        let (allowed, multipath) = if options.internet { (ALLOW, NONE) } else { (DENY, DENY) };
        for family in [2, 10] {
            for (kind, protocol) in [(1, 0), (1, 6), (2, 0), (2, 17), (0x8_0801, 6)] {
                expect(options, "socket", &[family, kind, protocol], allowed);
            }
            expect(options, "socket", &[family, 1, 262], multipath);
            expect(options, "socket", &[family, 3, 6], DENY);
            expect(options, "socket", &[family, 1, 17], DENY);
        }
        expect(options, "socket", &[1, 1, 0], ALLOW);
    }
}

#[test]
fn calls_on_other_processes_need_namespaces() {
    let minus_one = u64::from(u32::MAX);
    let table: &[(&str, &[u64])] = &[
        ("kill", &[minus_one, 9]),
        ("kill", &[u64::MAX, 9]),
        ("kill", &[JUNK | minus_one, 9]),
        ("rt_sigqueueinfo", &[17, 9]),
        ("rt_tgsigqueueinfo", &[17, 17, 9]),
        ("sched_setaffinity", &[17]),
        ("sched_setscheduler", &[17]),
        ("setpriority", &[0, 17, 19]),
        ("ioprio_set", &[1, 17, 0]),
    ];
    for options in option_sets() {
        for (name, arguments) in table {
            let action = if options.namespaces { ALLOW } else { DENY };
            expect(options, name, arguments, action);
        }
        expect(options, "kill", &[17, 15], ALLOW);
        expect(options, "kill", &[0, 15], ALLOW);
        expect(options, "sched_setaffinity", &[0], ALLOW);
        expect(options, "setpriority", &[0, 0, 5], ALLOW);
        expect(options, "ioprio_set", &[1, 0, 0], ALLOW);
    }
}

#[test]
fn host_tree_calls_beyond_landlock_are_denied() {
    let refused = [
        "chmod",
        "fchmod",
        "fchmodat",
        "chown",
        "fchownat",
        "utimensat",
        "setxattr",
        "fsetxattr",
        "removexattr",
        "inotify_init1",
        "shmget",
        "shmat",
        "semget",
        "msgget",
        "mq_open",
    ];
    for options in all_option_sets() {
        let plain = if options.plain { DENY } else { ALLOW };
        for name in refused {
            expect(options, name, &[0, 1], plain);
        }
        expect(options, "socket", &[1, 1, 0], plain);
        expect(options, "socketpair", &[1, 1, 0], ALLOW);
    }
}

#[test]
fn truncation_is_denied_below_landlock_abi_3() {
    const TRUNCATE: u64 = 0o1000;
    for options in all_option_sets().filter(|options| !options.host_writes) {
        let refused = if options.plain && options.truncates { DENY } else { ALLOW };
        expect(options, "truncate", &[1, 0], refused);
        // When opened for writing, or for both, Landlock is asked for the right to write.
        for (mode, answer) in [(0, refused), (1, ALLOW), (2, ALLOW), (3, refused)] {
            expect(options, "open", &[1, TRUNCATE | mode, 0], answer);
            expect(options, "openat", &[1, 2, TRUNCATE | mode, 0], answer);
            expect(options, "openat", &[1, 2, mode, 0], ALLOW);
        }
        expect(options, "openat2", &[0; 4], if refused == DENY { NONE } else { ALLOW });
        expect(options, "creat", &[1, 0o644], ALLOW);
        expect(options, "ftruncate", &[1, 0], ALLOW);
    }
}

#[test]
fn unaccounted_memory_calls_are_missing() {
    for options in all_option_sets().filter(|options| !options.plain) {
        expect(options, "memfd_create", &[0; 6], if options.accounted { ALLOW } else { NONE });
    }
}

#[test]
fn set_id_modes_are_denied_on_host_files() {
    const CREATE: u64 = 0o100;
    let table: &[(&str, &[u64])] = &[
        ("chmod", &[1, 0o4755]),
        ("chmod", &[1, JUNK | 0o2755]),
        ("fchmod", &[1, 0o6755]),
        ("fchmodat", &[1, 2, 0o4755]),
        ("fchmodat2", &[1, 2, 0o4755, 0]),
        ("open", &[1, CREATE, 0o4755]),
        ("openat", &[1, 2, CREATE, 0o2755]),
        ("openat", &[1, 2, 0o20_200_002, 0o4755]),
        ("creat", &[1, 0o4755]),
        ("mknodat", &[1, 2, 0o104_755]),
    ];
    for options in option_sets() {
        for (name, arguments) in table {
            expect(options, name, arguments, if options.host_writes { DENY } else { ALLOW });
        }
        expect(options, "openat2", &[1, 2, 3, 24], if options.host_writes { NONE } else { ALLOW });
        expect(options, "chmod", &[1, 0o1777], ALLOW);
        // Without O_CREAT the third argument has no meaning: the register may hold any value.
        expect(options, "openat", &[1, 2, 0, 0o4755], ALLOW);
    }
}

#[test]
fn foreign_architectures_are_killed_unknown_calls_missing() {
    let enosys = answer(NONE, false);
    for options in option_sets() {
        for arch in Arch::ALL {
            let filter = program(arch, options);
            // i386, Arm, the respective other architecture, and an invalid one.
            let others = Arch::ALL.into_iter().filter(|other| *other != arch);
            let foreign = others.map(Arch::audit);
            for audit in foreign.chain([0x4000_0003, 0x4000_0028, 0]) {
                for number in [0, 1, 26, 101, 240] {
                    let mut call = call(arch, number, &[]);
                    call.arch = audit;
                    assert_eq!(run(filter, &call).0, RET_KILL);
                    assert_eq!(run(init(arch), &call).0, RET_KILL);
                }
            }
            for number in [472, 600, 0x3fff_ffff, 0xffff_ffff] {
                assert_eq!(run(filter, &call(arch, number, &[])).0, enosys);
            }
            let x32 = if arch == Arch::X86_64 { RET_KILL } else { enosys };
            for number in [0x4000_0000, 0x4000_003b, 0x4000_0200, 0xffff_fffe] {
                assert_eq!(run(filter, &call(arch, number, &[])).0, x32);
            }
        }
    }
}

#[test]
fn init_filter_kills_unexpected_calls() {
    for arch in Arch::ALL {
        let says = |name: &str, arguments: &[u64]| {
            let number = arch.table().number(name).unwrap();
            run(init(arch), &call(arch, number, arguments)).0
        };
        for name in [
            "read",
            "write",
            "close",
            "close_range",
            "recvmsg",
            "sendmsg",
            "ppoll",
            "wait4",
            "waitid",
            "kill",
            "exit",
            "exit_group",
            "clone",
            "futex",
            "mmap",
            "munmap",
            "move_mount",
            "mount",
            "umount2",
            "open_tree",
            "mount_setattr",
            "fsopen",
            "fsconfig",
            "fsmount",
            "mkdirat",
            "openat",
            "openat2",
            "fstatfs",
            "newfstatat",
            "statx",
            "fchdir",
            "chdir",
            "capset",
            "rt_sigaction",
            "rt_sigprocmask",
            "rt_sigreturn",
            "rt_sigtimedwait",
            "signalfd4",
            "getpid",
            "clock_gettime",
            "restart_syscall",
            "fcntl",
            "dup3",
            "prlimit64",
            "symlinkat",
            "pidfd_send_signal",
        ] {
            assert_eq!(says(name, &[]), RET_ALLOW, "{name}");
        }
        for name in [
            "execve",
            "execveat",
            "clone3",
            "ptrace",
            "socket",
            "connect",
            "setns",
            "unshare",
            "bpf",
            "mprotect",
            "io_uring_setup",
            "pidfd_getfd",
            "mknodat",
            "chroot",
            "prctl",
            "seccomp",
        ] {
            assert_eq!(says(name, &[]), RET_KILL, "{name}");
        }
        assert_eq!(says("clone", &[17]), RET_ALLOW);
        assert_eq!(says("clone", &[17 | 0x1000_0000]), RET_KILL);
        assert_eq!(says("mmap", &[0, 4096, 3]), RET_ALLOW);
        assert_eq!(says("mmap", &[0, 4096, 7]), RET_KILL);
        assert_eq!(says("prctl", &[1, 9]), RET_ALLOW);
        // Sums of the objects of an ipc namespace, and nothing else of these calls.
        for (name, arguments) in [("shmctl", [0, 14, 0]), ("semctl", [0, 0, 19]), ("msgctl", [0, 12, 0])] {
            assert_eq!(says(name, &arguments), RET_ALLOW, "{name}");
            assert_eq!(says(name, &[0, 0, 0]), RET_KILL, "{name}");
        }
        assert_eq!(says("prctl", &[35, 9]), RET_KILL);
        assert_eq!(run(init(arch), &call(arch, 1000, &[])).0, RET_KILL);
    }
}

#[test]
fn named_calls_all_have_rules() {
    for arch in Arch::ALL {
        for (_, name) in &arch.table().names {
            assert!(program_rules().mentions(name), "{name} on {arch:?}");
        }
    }
}

#[test]
fn syscall_tables_are_sorted_and_correct() {
    assert_eq!(name(Arch::X86_64, 0), Some("read"));
    assert_eq!(name(Arch::X86_64, 101), Some("ptrace"));
    assert_eq!(name(Arch::Aarch64, 117), Some("ptrace"));
    assert_eq!(name(Arch::Aarch64, 63), Some("read"));
    for arch in Arch::ALL {
        let table = arch.table();
        assert_eq!(name(arch, 435), Some("clone3"));
        assert_eq!(name(arch, -1), None);
        assert_eq!(name(arch, 1 << 32), None);
        assert_eq!(name(arch, 100_000), None);
        assert_eq!(table.names.len(), table.numbers.len());
        assert!(table.names.windows(2).all(|pair| pair[0].0 < pair[1].0));
    }
}

#[test]
fn continuation_needs_call_with_address() {
    for arch in Arch::ALL {
        for number in -10..1000 {
            let address = name(arch, number).is_some_and(|name| ADDRESS_CALLS.contains(&name));
            assert_eq!(meaning(arch, number) == Meaning::Address, address);
        }
        assert_eq!(meaning(arch, i64::MAX), Meaning::Denied);
        // The call's number with the x32 bit, or with bits above 32, is another number.
        let connect = i64::from(arch.table().number("connect").unwrap());
        assert_eq!(meaning(arch, connect), Meaning::Address);
        assert_eq!(meaning(arch, connect | 0x4000_0000), Meaning::Denied);
        assert_eq!(meaning(arch, connect | 1 << 32), Meaning::Denied);
    }
}

#[test]
fn filters_are_small_and_valid() {
    for arch in Arch::ALL {
        let mut simple = program_rules().select(arch.table(), ALL_ON);
        for rules in simple.calls.values_mut() {
            rules.drain(..rules.len() - 1);
        }
        let simple = compile(arch, true, &simple);
        check(&simple);
        println!("{arch:?} without tests of arguments: {}", simple.len());
        assert!(simple.len() <= 150, "{}", simple.len());

        for options in option_sets() {
            let filter = program(arch, options);
            check(filter);
            println!("{arch:?} {options:?}: {}", filter.len());
            assert!(filter.len() <= 500, "{}", filter.len());
            let bytes = filter.as_bytes();
            assert_eq!(bytes.len(), 8 * filter.len());
            // Loads the architecture, at offset 4.
            assert_eq!(bytes[..2], 0x20_u16.to_ne_bytes());
            assert_eq!(bytes[2..4], [0, 0]);
            assert_eq!(bytes[4..8], 4_u32.to_ne_bytes());
            for (number, name) in &arch.table().names {
                let (_, steps) = run(filter, &call(arch, *number, &[u64::MAX; 6]));
                assert!(steps < 80, "{name} takes {steps}");
            }
        }
        check(init(arch));
        println!("{arch:?} init: {}", init(arch).len());
        assert!(init(arch).len() <= 150);
    }
}
