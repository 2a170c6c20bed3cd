//! The filter of system calls: which of them a program may make, with which arguments.
//!
//! The rules are data, `filters/program.filter` and `filters/init.filter`, one reason beside each group.
//! This module turns them into classic BPF for the kernel ([`program()`], [`init()`]) and tells the
//! supervisor how to answer a notification ([`meaning()`]) and what to call it in a report ([`name()`]).
//!
//! It is *not* the place that installs a filter or answers notifications, and it makes no system call.
//! A filter sees registers only: nothing here depends on the memory of the program, and so must nothing
//! that answers its notifications. Files and addresses are the concern of mounts, namespaces and Landlock.
//!
//! What a filter can answer:
//!
//! | rule | with [`Options::notify`] | without |
//! | --- | --- | --- |
//! | `allow` | the call is made | the call is made |
//! | `deny` | notification; the supervisor records it and answers `EPERM` | `EPERM` |
//! | `notify` | notification; the supervisor records the address and answers `CONTINUE` | the call is made |
//! | `enosys` | `ENOSYS`, as on a kernel that lacks the call | `ENOSYS` |
//! | `kill` | the process ends by `SIGSYS` | the process ends by `SIGSYS` |
//!
//! Calls of a foreign architecture (`int 0x80` on x86_64, AArch32) and of x32 end the process; numbers
//! without a name are answered `ENOSYS`.

use std::collections::HashMap;
use std::sync::{LazyLock, OnceLock};

mod compile;
#[cfg(test)]
mod interpret;
mod rules;
#[cfg(test)]
mod tests;

pub use compile::{Filter, Instruction};
use rules::Rules;

/// A processor architecture: system call numbers differ between them.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
pub enum Arch {
    /// 64-bit x86. Its 32-bit and x32 calls are foreign.
    X86_64,
    /// 64-bit Arm, little-endian. Its 32-bit calls are foreign.
    Aarch64,
}

impl Arch {
    /// The architecture that this program was built for.
    #[cfg(target_arch = "x86_64")]
    pub const HOST: Self = Self::X86_64;
    /// The architecture that this program was built for.
    #[cfg(target_arch = "aarch64")]
    pub const HOST: Self = Self::Aarch64;

    /// Both of them.
    pub const ALL: [Self; 2] = [Self::X86_64, Self::Aarch64];

    /// The kernel's number for it: `AUDIT_ARCH_X86_64`, `AUDIT_ARCH_AARCH64`. A notification whose `arch`
    /// is another one cannot come from these filters.
    #[must_use]
    pub const fn audit(self) -> u32 {
        match self {
            Self::X86_64 => 0xc000_003e,
            Self::Aarch64 => 0xc000_00b7,
        }
    }

    fn table(self) -> &'static Table {
        static TABLES: LazyLock<[Table; 2]> = LazyLock::new(|| {
            [
                Table::parse(include_str!("../../filters/x86_64.syscalls")),
                Table::parse(include_str!("../../filters/aarch64.syscalls")),
            ]
        });
        &TABLES[self as usize]
    }
}

/// What differs between the programs' filters.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
pub struct Options {
    /// A supervisor answers notifications, so that denials and addresses can be reported. A filter made
    /// with `true` must be installed with `SECCOMP_FILTER_FLAG_NEW_LISTENER`: without a listener every
    /// call that would notify is answered `ENOSYS`.
    pub notify: bool,
    /// Sockets for IPv4 and IPv6 may be made.
    pub internet: bool,
    /// The program has namespaces of its own, its process numbers above all. With `false` the calls that
    /// act on another process of the same user by number are narrowed; a filter cannot tell the
    /// program's own processes from the user's, so signals also need Landlock's scope.
    pub namespaces: bool,
    /// A folder of the host can be written for real: no setuid or setgid file may be made.
    pub host_writes: bool,
    /// The program is on the host's own tree, with Landlock alone before it: what Landlock does not cover (owners,
    /// modes, times, attributes, local sockets, System V objects, watches) is refused.
    pub plain: bool,
    /// A cgroup accounts for memory that belongs to no mapping. Without one, calls that make it do not exist.
    pub accounted: bool,
    /// Landlock is older than version 3 and does not know truncation. It matters where it stands alone (`plain`).
    pub truncates: bool,
}

impl Options {
    /// How many different filters there are.
    const COUNT: usize = 128;

    fn index(self) -> usize {
        usize::from(self.notify)
            | usize::from(self.internet) << 1
            | usize::from(self.namespaces) << 2
            | usize::from(self.host_writes) << 3
            | usize::from(self.plain) << 4
            | usize::from(self.accounted) << 5
            | usize::from(self.truncates) << 6
    }
}

/// How the supervisor must answer a notification.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
pub enum Meaning {
    /// The call is not allowed: answer `EPERM`, never `CONTINUE`.
    Denied,
    /// `connect`, `bind` or `sendto`: the call is allowed and only its address is of interest. Answer
    /// `CONTINUE` whatever the address is: the program can change it after it was read, so it is a
    /// remark in the report and must not decide anything.
    Address,
}

/// The filter for untrusted programs. Compiled once for each set of options.
///
/// # Panics
///
/// Never with the data files of this crate, whose every combination is compiled by its tests.
#[must_use]
pub fn program(arch: Arch, options: Options) -> &'static Filter {
    static FILTERS: [[OnceLock<Filter>; Options::COUNT]; 2] =
        [const { [const { OnceLock::new() }; Options::COUNT] }; 2];
    FILTERS[arch as usize][options.index()].get_or_init(|| {
        let rules = program_rules();
        compile::compile(arch, options.notify, &rules.select(arch.table(), options))
    })
}

/// The filter for process 1 of a sandbox: what it needs, and death for everything else. It does not
/// notify; it is installed after the program's process was forked, which would inherit it.
///
/// # Panics
///
/// Never with the data files of this crate.
#[must_use]
pub fn init(arch: Arch) -> &'static Filter {
    static FILTERS: [OnceLock<Filter>; 2] = [const { OnceLock::new() }; 2];
    FILTERS[arch as usize].get_or_init(|| {
        let rules = parse("init.filter", include_str!("../../filters/init.filter"));
        let options = Options {
            notify: false,
            internet: false,
            namespaces: true,
            host_writes: false,
            plain: false,
            accounted: true,
            truncates: false,
        };
        compile::compile(arch, false, &rules.select(arch.table(), options))
    })
}

/// The name of a system call, for reports; `None` for a number that nobody knows.
#[must_use]
pub fn name(arch: Arch, number: i64) -> Option<&'static str> {
    arch.table().name(u32::try_from(number).ok()?)
}

/// How the supervisor must answer a notification of system call `number`; [`Meaning::Denied`] when in doubt.
///
/// It depends on nothing but the number: the rules refuse `notify` for any other call, and refuse
/// `deny` for these.
#[must_use]
pub fn meaning(arch: Arch, number: i64) -> Meaning {
    match name(arch, number) {
        Some(name) if rules::ADDRESS_CALLS.contains(&name) => Meaning::Address,
        _ => Meaning::Denied,
    }
}

fn program_rules() -> &'static Rules {
    static RULES: LazyLock<Rules> =
        LazyLock::new(|| parse("program.filter", include_str!("../../filters/program.filter")));
    &RULES
}

fn parse(file: &str, text: &str) -> Rules {
    Rules::parse(text).unwrap_or_else(|error| panic!("{file}: {error}"))
}

/// The system calls of one architecture.
struct Table {
    /// By number.
    names: Vec<(u32, &'static str)>,
    numbers: HashMap<&'static str, u32>,
}

impl Table {
    fn parse(text: &'static str) -> Self {
        let mut names: Vec<(u32, &'static str)> = text
            .lines()
            .filter(|line| !line.is_empty() && !line.starts_with('#'))
            .map(|line| {
                let (name, number) = line.split_once(' ').expect("name, space, number");
                (number.parse().expect("a system call number"), name)
            })
            .collect();
        names.sort_unstable();
        let numbers = names.iter().map(|&(number, name)| (name, number)).collect();
        Self { names, numbers }
    }

    fn name(&self, number: u32) -> Option<&'static str> {
        let index = self.names.binary_search_by_key(&number, |entry| entry.0);
        index.ok().map(|index| self.names[index].1)
    }

    fn number(&self, name: &str) -> Option<u32> {
        self.numbers.get(name).copied()
    }
}
