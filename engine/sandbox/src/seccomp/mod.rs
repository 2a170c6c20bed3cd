//! The system call filter: which calls a program may make, and with which arguments.
//!
//! The rules are data, `filters/program.filter` and `filters/init.filter`, with a reason beside each group.
//! This module compiles them to classic BPF for the kernel ([`program()`], [`init()`]) and tells the
//! supervisor how to answer a notification ([`meaning()`]) and which name to use in a report ([`name()`]).
//!
//! This module does *not* install filters or answer notifications, and it makes no system call. A filter sees
//! registers only: nothing here depends on the memory of the program, and answers to notifications must not
//! depend on it either. Files and addresses are the concern of mounts, namespaces and Landlock.
//!
//! The actions of a rule:
//!
//! | rule | with [`Options::notify`] | without |
//! | --- | --- | --- |
//! | `allow` | the call is made | the call is made |
//! | `deny` | notification; the supervisor records it and answers `EPERM` | `EPERM` |
//! | `notify` | notification; the supervisor records the address and answers `CONTINUE` | the call is made |
//! | `enosys` | `ENOSYS`, as on a kernel that lacks the call | `ENOSYS` |
//! | `enoprotoopt` | `ENOPROTOOPT`, as on a kernel that lacks the socket option | `ENOPROTOOPT` |
//! | `eopnotsupp` | `EOPNOTSUPP`, as where the flag is not supported | `EOPNOTSUPP` |
//! | `kill` | the process is killed by `SIGSYS` | the process is killed by `SIGSYS` |
//!
//! Calls of a foreign architecture (`int 0x80` on x86_64, AArch32) and of x32 kill the process; unassigned
//! numbers are answered with `ENOSYS`.

use std::collections::HashMap;
use std::sync::{LazyLock, OnceLock};

mod compile;
#[cfg(test)]
mod interpret;
mod rules;
#[cfg(test)]
mod tests;
mod watch;

pub use compile::{Filter, Instruction};
use rules::Rules;
pub use watch::{PathCall, path_call, watching};

/// A processor architecture; system call numbers depend on it.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
pub enum Arch {
    /// 64-bit x86. Its 32-bit and x32 calls are foreign.
    X86_64,
    /// 64-bit Arm, little-endian. Its 32-bit calls are foreign.
    Aarch64,
}

impl Arch {
    /// The architecture for which this program was built.
    #[cfg(target_arch = "x86_64")]
    pub const HOST: Self = Self::X86_64;
    /// The architecture for which this program was built.
    #[cfg(target_arch = "aarch64")]
    pub const HOST: Self = Self::Aarch64;

    /// All architectures.
    pub const ALL: [Self; 2] = [Self::X86_64, Self::Aarch64];

    /// The kernel's constant for this architecture: `AUDIT_ARCH_X86_64`, `AUDIT_ARCH_AARCH64`. A notification
    /// with another `arch` cannot come from these filters.
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

/// Options by which the programs' filters differ.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
pub struct Options {
    /// A supervisor answers notifications, so that denials and addresses can be reported. A filter made with
    /// `true` must be installed with `SECCOMP_FILTER_FLAG_NEW_LISTENER`: without a listener, every call that
    /// would notify is answered with `ENOSYS`.
    pub notify: bool,
    /// IPv4 and IPv6 sockets may be created.
    pub internet: bool,
    /// The program has namespaces of its own, most importantly for process ids. With `false`, calls that act
    /// on another process of the same user by id are restricted; a filter cannot tell the program's own
    /// processes from the user's, so signals also need Landlock's scope.
    pub namespaces: bool,
    /// A folder of the host is writable: no setuid or setgid file may be created.
    pub host_writes: bool,
    /// The program runs on the host's own tree, protected only by Landlock: operations that Landlock does not
    /// cover (owners, modes, times, attributes, local sockets, System V objects, watches) are refused.
    pub plain: bool,
    /// A cgroup accounts for memory that belongs to no mapping. Without one, calls that allocate such memory
    /// fail with `ENOSYS`.
    pub accounted: bool,
    /// Landlock is older than version 3 and does not control truncation. Relevant only where it protects
    /// alone (`plain`).
    pub truncates: bool,
}

impl Options {
    /// Number of different filters.
    const COUNT: usize = 128;

    /// Number of the sets of options for which filters are compiled when this crate is built.
    pub(crate) const USUAL: usize = 16;

    /// Number of this set among those: namespaces of its own, not on the host's own tree.
    pub(crate) fn usual(self) -> Option<usize> {
        let number = usize::from(self.notify)
            | usize::from(self.internet) << 1
            | usize::from(self.host_writes) << 2
            | usize::from(self.accounted) << 3;
        (self.namespaces && !self.plain && !self.truncates).then_some(number)
    }

    /// The set with this number.
    #[allow(dead_code, reason = "used by the build script, which compiles this module too")]
    pub(crate) const fn of_usual(number: usize) -> Self {
        Self {
            notify: number & 1 != 0,
            internet: number & 2 != 0,
            namespaces: true,
            host_writes: number & 4 != 0,
            plain: false,
            accounted: number & 8 != 0,
            truncates: false,
        }
    }

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
    /// The call is denied: answer `EPERM`, never `CONTINUE`.
    Denied,
    /// `connect`, `bind` or `sendto`: the call is allowed and only its address is recorded. Answer `CONTINUE`
    /// whatever the address is: the program can change it after it was read, so it is for the report only and
    /// must not decide anything.
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

/// The filter for process 1 of a sandbox: allows only the calls that it needs, and kills it for any other.
/// This filter does not notify; it is installed after the program's process was forked, which would otherwise
/// inherit it.
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

/// The name of a system call, for reports; `None` for an unknown number.
#[must_use]
pub fn name(arch: Arch, number: i64) -> Option<&'static str> {
    arch.table().name(u32::try_from(number).ok()?)
}

/// How the supervisor must answer a notification of system call `number`; [`Meaning::Denied`] when in doubt.
///
/// The answer depends on the number alone: the rules refuse `notify` for any other call, and refuse `deny`
/// for these.
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
    /// Names by number.
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
