//! Names that identify the process that made a resource, so that leftovers of a dead process can be found and
//! removed.
//!
//! A cgroup or scratch folder is named `PID-START-NAMESPACE-N`: the process that made it, when that process
//! started (so that a later process with the same number is not mistaken for it), the pid namespace in which
//! the number is valid, and a running number. It is a leftover only when its owner is certainly gone. Owners
//! in another pid namespace cannot be looked up, so their resources are left alone.

use std::fmt;
use std::io;
use std::os::unix::fs::MetadataExt;
use std::sync::OnceLock;
use std::sync::atomic::{AtomicU64, Ordering};

use nix::errno::Errno;
use nix::sys::signal::kill;
use nix::unistd::Pid;

use crate::kernel_text;

/// The process that made a resource.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) struct Owner {
    pid: i32,
    /// Start time, in clock ticks since boot.
    start: u64,
    /// Inode number of the pid namespace.
    namespace: u64,
}

impl Owner {
    /// The identity of this process.
    pub(crate) fn this_process() -> io::Result<Self> {
        let stat = kernel_text::read("/proc/self/stat")?;
        let (_, start) = parse_stat(&stat).ok_or_else(|| {
            io::Error::new(io::ErrorKind::InvalidData, "/proc/self/stat has an unknown form")
        })?;
        Ok(Self { pid: Pid::this().as_raw(), start, namespace: own_namespace()? })
    }

    /// A name that is unique within this process.
    pub(crate) fn next_name(&self) -> String {
        static NEXT: AtomicU64 = AtomicU64::new(0);
        format!("{self}-{}", NEXT.fetch_add(1, Ordering::Relaxed))
    }

    /// Parses the owner from a name; `None` if the name has another form.
    pub(crate) fn of(name: &str) -> Option<Self> {
        let mut parts = name.split('-');
        let mut number = || {
            let part = parts.next()?;
            let plain = !part.is_empty() && part.bytes().all(|b| b.is_ascii_digit());
            plain.then(|| part.parse::<u64>().ok())?
        };
        let (pid, start, namespace, _) = (number()?, number()?, number()?, number()?);
        let pid = i32::try_from(pid).ok().filter(|pid| *pid > 0)?;
        parts.next().is_none().then_some(Self { pid, start, namespace })
    }

    /// Whether the process has certainly ended; `false` when in doubt.
    pub(crate) fn is_gone(&self) -> bool {
        if own_namespace().ok() != Some(self.namespace) {
            return false;
        }
        // A missing /proc/PID alone proves nothing: hidepid hides the processes of other users.
        if kill(Pid::from_raw(self.pid), None) == Err(Errno::ESRCH) {
            return true;
        }
        match kernel_text::read(format!("/proc/{}/stat", self.pid)) {
            Ok(stat) => parse_stat(&stat).is_some_and(|(living, start)| !living || start != self.start),
            Err(_) => false,
        }
    }
}

impl fmt::Display for Owner {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "{}-{}-{}", self.pid, self.start, self.namespace)
    }
}

/// The pid namespace of this process, which never changes.
fn own_namespace() -> io::Result<u64> {
    static OWN: OnceLock<u64> = OnceLock::new();
    match OWN.get() {
        Some(own) => Ok(*own),
        None => {
            let own = std::fs::metadata("/proc/self/ns/pid")?.ino();
            Ok(*OWN.get_or_init(|| own))
        }
    }
}

/// Answers for many names whether their owners are gone. Names of one owner that follow each other take one look at it.
#[derive(Debug, Default)]
pub(crate) struct Owners {
    last: Option<(Owner, bool)>,
}

impl Owners {
    /// Whether the name has an owner that is certainly gone.
    pub(crate) fn is_leftover(&mut self, name: &str) -> bool {
        let Some(owner) = Owner::of(name) else { return false };
        match self.last {
            Some((last, is_gone)) if last == owner => is_gone,
            _ => {
                let is_gone = owner.is_gone();
                self.last = Some((owner, is_gone));
                is_gone
            }
        }
    }
}

/// Parses `/proc/PID/stat`: whether the process can still do anything, and when it started.
fn parse_stat(stat: &str) -> Option<(bool, u64)> {
    // The name in parentheses may contain anything, including spaces and parentheses.
    let (_, fields) = stat.rsplit_once(')')?;
    let fields: Vec<&str> = fields.split_ascii_whitespace().collect();
    let state = *fields.first()?;
    let threads: u64 = fields.get(17)?.parse().ok()?;
    let start = fields.get(19)?.parse().ok()?;
    // A process whose first thread has ended while others go on is also in state Z.
    let dead = matches!(state, "Z" | "X" | "x") && threads <= 1;
    Some((!dead, start))
}

/// The owner that a child of a test would be.
#[cfg(test)]
pub(crate) fn owner_of_child(pid: u32) -> Owner {
    let stat = std::fs::read_to_string(format!("/proc/{pid}/stat")).unwrap();
    Owner {
        pid: i32::try_from(pid).unwrap(),
        start: parse_stat(&stat).unwrap().1,
        namespace: own_namespace().unwrap(),
    }
}

#[cfg(test)]
mod tests {
    use std::process::Command;

    use super::*;

    #[test]
    fn names_round_trip_and_others_are_not_ours() {
        let owner = Owner { pid: 12, start: 3456, namespace: 4_026_531_836 };
        assert_eq!(Owner::of(&owner.next_name()), Some(owner));
        assert_ne!(owner.next_name(), owner.next_name());
        for name in [
            "",
            "12",
            "12-3456-7",
            "12-3456-7-8-9",
            "12-3456-7-x",
            "12-+3456-7-8",
            "-12-3456-7",
            "0-1-2-3",
            "99999999999-1-2-3",
            "12--7-8",
            "system.slice",
            "cgroup.procs",
        ] {
            assert_eq!(Owner::of(name), None, "{name}");
        }
    }

    #[test]
    fn start_and_state_of_a_process() {
        let line = |name: &str, state: &str, threads: &str| {
            format!("7 ({name}) {state} 1 7 7 0 -1 4 0 0 0 0 1 2 0 0 20 0 {threads} 0 4242 1 2\n")
        };
        for (text, want) in [
            (line("sh", "S", "1"), Some((true, 4242))),
            (line("a) R 1 (b", "R", "3"), Some((true, 4242))),
            (line("gone", "Z", "0"), Some((false, 4242))),
            (line("gone", "Z", "1"), Some((false, 4242))),
            (line("leader gone", "Z", "2"), Some((true, 4242))),
            (line("sh", "S", "x"), None),
            ("7 (sh) S 1".to_owned(), None),
            (String::new(), None),
        ] {
            assert_eq!(parse_stat(&text), want, "{text}");
        }
    }

    #[test]
    fn owners_live_until_they_end() {
        let me = Owner::this_process().unwrap();
        assert!(!me.is_gone());
        assert!(Owner { start: me.start + 1, ..me }.is_gone(), "the number was reused");
        assert!(!Owner { namespace: 1, start: 1, ..me }.is_gone(), "another pid namespace");

        let mut child = Command::new("sleep").arg("60").spawn().unwrap();
        let owner = owner_of_child(child.id());
        assert!(!owner.is_gone());
        child.kill().unwrap();
        while parse_stat(&std::fs::read_to_string(format!("/proc/{}/stat", child.id())).unwrap())
            .is_none_or(|(living, _)| living)
        {
            std::thread::sleep(std::time::Duration::from_millis(1));
        }
        assert!(owner.is_gone(), "a zombie cannot use its groups");
        child.wait().unwrap();
        assert!(owner.is_gone());
        let mut owners = Owners::default();
        for (name, want) in [
            (me.next_name(), false),
            (owner.next_name(), true),
            (owner.next_name(), true),
            (me.next_name(), false),
            ("system.slice".to_owned(), false),
            (owner.next_name(), true),
        ] {
            assert_eq!(owners.is_leftover(&name), want, "{name}");
        }
    }
}
