//! Tests of the filters and of their compiler, with shared helpers.

use super::compile::{ENOPROTOOPT, ENOSYS, EOPNOTSUPP, EPERM, RET_ALLOW, RET_ERRNO, RET_KILL, RET_NOTIFY};
use super::interpret::Call;
use super::rules::Action;
use super::{Arch, Options};

mod compiler;
mod parser;
mod shipped;
mod spellings;
mod watched;

/// `notify`, `internet` and `namespaces` on.
const ALL_ON: Options = Options {
    notify: true,
    internet: true,
    namespaces: true,
    host_writes: false,
    plain: false,
    accounted: true,
    truncates: false,
};

/// All sets for programs with a root of their own and a cgroup; `plain` and `accounted` have tests of their
/// own.
fn option_sets() -> impl Iterator<Item = Options> {
    all_option_sets().filter(|options| !options.plain && options.accounted && !options.truncates)
}

fn all_option_sets() -> impl Iterator<Item = Options> {
    (0..Options::COUNT).map(|bits| Options {
        notify: bits & 1 != 0,
        internet: bits & 2 != 0,
        namespaces: bits & 4 != 0,
        host_writes: bits & 8 != 0,
        plain: bits & 16 != 0,
        accounted: bits & 32 != 0,
        truncates: bits & 64 != 0,
    })
}

fn answer(action: Action, notify: bool) -> u32 {
    match action {
        Action::Allow => RET_ALLOW,
        Action::Deny if notify => RET_NOTIFY,
        Action::Deny => RET_ERRNO | EPERM,
        Action::Notify if notify => RET_NOTIFY,
        Action::Notify => RET_ALLOW,
        Action::Enosys => RET_ERRNO | ENOSYS,
        Action::NoSuchOption => RET_ERRNO | ENOPROTOOPT,
        Action::Unsupported => RET_ERRNO | EOPNOTSUPP,
        Action::Kill => RET_KILL,
    }
}

fn call(arch: Arch, number: u32, arguments: &[u64]) -> Call {
    let mut all = [0; 6];
    all[..arguments.len()].copy_from_slice(arguments);
    Call { arch: arch.audit(), number, arguments: all }
}

const ALLOW: Action = Action::Allow;
const DENY: Action = Action::Deny;
const NOTIFY: Action = Action::Notify;
const NONE: Action = Action::Enosys;
const NO_OPTION: Action = Action::NoSuchOption;
const UNSUPPORTED: Action = Action::Unsupported;
