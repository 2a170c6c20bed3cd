//! Calls leak nothing.

use std::process::Command;

use crate::support::{module, run};

/// Resident memory of this process in bytes.
fn resident() -> u64 {
    let statm = std::fs::read_to_string("/proc/self/statm").expect("/proc is mounted");
    let pages: u64 =
        statm.split(' ').nth(1).and_then(|pages| pages.parse().ok()).expect("two numbers at least");
    pages * 4096
}

// Measured in a process of its own, because other tests run in this one.
#[test]
fn repeated_calls_leak_no_memory() {
    const ALONE: &str = "HOTCELL_TEST_ALONE";
    if std::env::var_os(ALONE).is_none() {
        let this = std::env::current_exe().expect("this program");
        let name = "repeated::repeated_calls_leak_no_memory";
        let output = Command::new(this)
            .args(["--exact", name, "--nocapture"])
            .env(ALONE, "1")
            .output()
            .expect("it starts");
        assert!(output.status.success(), "{}", String::from_utf8_lossy(&output.stderr));
        return;
    }
    let tokio = tokio::runtime::Builder::new_current_thread().enable_all().build().expect("a runtime");
    // Touches a mebibyte; every fourth call traps.
    let guest = module(
        r#"(memory 17) (global $g (mut i32) (i32.const 0))
        (func (export "run") (memory.fill (i32.const 0) (i32.const 1) (i32.const 1048576)))"#,
    );
    let traps = module(
        r#"(memory 17) (func (export "run") (memory.fill (i32.const 0) (i32.const 1) (i32.const 1048576)) unreachable)"#,
    );
    let calls = |count: u32| {
        for n in 0..count {
            let answer = tokio.block_on(run(if n % 4 == 0 { &traps } else { &guest }, |_| {}));
            assert_eq!(answer.is_err(), n % 4 == 0);
        }
    };
    calls(200);
    let before = resident();
    calls(2_000);
    let after = resident();
    assert!(after < before + (5 << 20), "{} KiB before, {} KiB after", before >> 10, after >> 10);
}
