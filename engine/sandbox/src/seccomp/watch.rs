//! The filter for a run whose opened paths are told, so that a person learns which files a program lacks.
//!
//! It differs from [`program`](super::program()) in one way: a call that opens or probes a path, and that is allowed in every
//! case, notifies. The supervisor records the path and answers `CONTINUE`, so such a call does what it does without
//! being watched. Where a rule denies such a call in some case there is no such filter, since an answer must not depend
//! on more than the number.

use super::compile::{self, Filter};
use super::rules::{Action, Condition, Rule, Test, Width};
use super::{Arch, Options, name, program_rules};

/// Flag of an open that gives no access to the content. The launcher makes such calls before its supervisor listens.
const O_PATH: u64 = 0o10_000_000;

/// A watched call.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct PathCall {
    /// Name.
    name: &'static str,
    /// Number of the argument with the path's address.
    pub path: usize,
    /// Number of the argument with the flags of an open, if they are in a register.
    pub flags: Option<usize>,
}

const fn call(name: &'static str, path: usize, flags: Option<usize>) -> PathCall {
    PathCall { name, path, flags }
}

/// The watched calls. Those that read attributes are not among them: the launcher makes one of them after the filter is
/// installed, and programs probe far more files than they need.
const PATH_CALLS: [PathCall; 6] = [
    call("open", 0, Some(1)),
    call("openat", 1, Some(2)),
    call("openat2", 1, None),
    call("access", 0, None),
    call("faccessat", 1, None),
    call("faccessat2", 1, None),
];

/// The filter, for programs whose opened paths are told; `None` where these options have rules by which such a call may
/// be denied, or where nothing is told.
#[must_use]
pub fn watching(arch: Arch, options: Options) -> Option<Filter> {
    if !options.notify || options.host_writes || options.plain {
        return None;
    }
    let mut selection = program_rules().select(arch.table(), options);
    for call in PATH_CALLS {
        let Some(number) = arch.table().number(call.name) else { continue };
        let rules = selection.calls.get_mut(&number)?;
        match rules.as_slice() {
            [only] if only.action == Action::Allow && only.conditions.is_empty() => {}
            _ => return None,
        }
        let conditions = call.flags.and_then(|at| u8::try_from(at).ok()).map(|argument| Condition {
            argument,
            width: Width::Int,
            mask: O_PATH,
            test: Test::AnyOf(vec![0]),
        });
        let notify = Rule { action: Action::Notify, conditions: conditions.into_iter().collect() };
        if notify.conditions.is_empty() {
            rules.clear();
        }
        rules.insert(0, notify);
    }
    Some(compile::compile(arch, true, &selection))
}

/// The watched call with this number. For notifications of [`watching`]'s filter alone.
#[must_use]
pub fn path_call(arch: Arch, number: i64) -> Option<PathCall> {
    let name = name(arch, number)?;
    PATH_CALLS.into_iter().find(|call| call.name == name)
}
