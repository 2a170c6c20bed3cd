//! Tests the filter that tells of opened paths.

use super::super::compile::RET_ALLOW;
use super::super::interpret::run;
use super::super::{Arch, Meaning, meaning, path_call, program, watching};
use super::{all_option_sets, call};

#[test]
fn watched_filter_denies_all_that_the_other_denies() {
    let mut watched = 0;
    for options in all_option_sets() {
        for arch in Arch::ALL {
            let Some(filter) = watching(arch, options) else {
                assert!(!options.notify || options.host_writes || options.plain, "{options:?}");
                continue;
            };
            watched += 1;
            for (number, name) in &arch.table().names {
                for arguments in
                    [[0; 6], [0, 0x5412, 0o100, 0o6000, 0, 0], [u64::MAX; 6], [0, 0, 0o10_000_000, 0, 1, 0]]
                {
                    let data = call(arch, *number, &arguments);
                    let (plain, _) = run(program(arch, options), &data);
                    let (told, _) = run(&filter, &data);
                    let path = path_call(arch, i64::from(*number));
                    if plain != told {
                        // Only calls that are allowed whatever they are given may be answered with CONTINUE.
                        assert!(path.is_some(), "{name} {options:?}");
                        assert_eq!(plain, RET_ALLOW, "{name} {options:?}");
                    }
                    assert!(path.is_none() || plain == RET_ALLOW, "{name} {options:?}");
                }
            }
        }
    }
    assert!(watched > 0);
    for name in ["open", "openat", "openat2", "access", "faccessat", "faccessat2"] {
        // Without a watching filter, a notification of such a call is a denial.
        let number = i64::from(Arch::X86_64.table().number(name).unwrap());
        assert!(path_call(Arch::X86_64, number).is_some(), "{name}");
        assert_eq!(meaning(Arch::X86_64, number), Meaning::Denied, "{name}");
    }
}
