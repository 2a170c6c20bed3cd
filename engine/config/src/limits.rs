//! Default limits of a verb on this machine.

use hotcell_sandbox::Limits;

/// Default limits of test suites and compilers on this machine.
pub fn for_tests() -> Limits {
    let limits = Limits::for_tests();
    hotcell_sandbox::host::memory().map_or(limits.clone(), |memory| limits.at_most(memory))
}
