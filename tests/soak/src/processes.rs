//! Processes: our children, their orphans that we adopted, and the contents of `/proc`.
//!
//! This process is a "subreaper": any process that a killed hotcell leaves behind becomes our child, so that
//! none of ours can hide from a search by parents. One thread reaps both sorts; a process id is never
//! signalled after it was reaped, when it could belong to another process.

use std::collections::{HashMap, HashSet};
use std::io;
use std::process::{Child, Command};
use std::sync::{Arc, Condvar, Mutex, MutexGuard, PoisonError};
use std::thread;
use std::time::{Duration, Instant};

use nix::sys::signal::{Signal, kill, killpg};
use nix::sys::wait::{Id, WaitPidFlag, WaitStatus, waitid, waitpid};
use nix::unistd::Pid;

/// Name of the launcher (a name has 15 letters at most).
const LAUNCHER: &str = "hotcell-launch";

/// A process as in `/proc/PID/stat`.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Process {
    pub pid: i32,
    pub parent: i32,
    /// State: `R`, `S`, `Z` …
    pub state: char,
    /// Start time in ticks since boot: together with the id it identifies one process permanently.
    pub start: u64,
    pub name: String,
}

impl Process {
    /// Whether the process is a launcher of hotcell.
    pub fn is_launcher(&self) -> bool {
        self.name == LAUNCHER
    }
}

/// All visible processes.
pub fn all() -> Vec<Process> {
    let entries = std::fs::read_dir("/proc").into_iter().flatten().flatten();
    let numbers = entries.filter_map(|e| e.file_name().to_str()?.parse::<i32>().ok());
    numbers.filter_map(read).collect()
}

/// Reads one process.
pub fn read(pid: i32) -> Option<Process> {
    parse(pid, &std::fs::read_to_string(format!("/proc/{pid}/stat")).ok()?)
}

fn parse(pid: i32, stat: &str) -> Option<Process> {
    // The name may contain anything, including spaces and parentheses.
    let (front, fields) = stat.rsplit_once(')')?;
    let (_, name) = front.split_once('(')?;
    let fields: Vec<&str> = fields.split_ascii_whitespace().collect();
    Some(Process {
        pid,
        parent: fields.get(1)?.parse().ok()?,
        state: fields.first()?.chars().next()?,
        start: fields.get(19)?.parse().ok()?,
        name: name.to_owned(),
    })
}

/// The children of a process, their children, and so on.
pub fn descendants(all: &[Process], of: i32) -> Vec<&Process> {
    let (mut known, mut found) = (HashSet::from([of]), Vec::new());
    loop {
        let before = found.len();
        for process in all {
            if known.contains(&process.parent) && known.insert(process.pid) {
                found.push(process);
            }
        }
        if found.len() == before {
            return found;
        }
    }
}

/// The children of this process.
#[derive(Debug, Default)]
pub struct Children {
    /// End of each child that we started; `None` while it lives.
    table: Mutex<HashMap<i32, Option<WaitStatus>>>,
    changed: Condvar,
    /// Ids and start times of all children that we ever started.
    ever: Mutex<HashSet<(i32, u64)>>,
}

impl Children {
    /// Adopts orphans from now on, and reaps the dead in a thread that ends with the process.
    pub fn collect() -> io::Result<Arc<Self>> {
        nix::sys::prctl::set_child_subreaper(true)?;
        let children = Arc::new(Self::default());
        let collector = Arc::clone(&children);
        thread::spawn(move || {
            loop {
                let ended = waitid(Id::All, WaitPidFlag::WEXITED | WaitPidFlag::WNOWAIT);
                let pid = ended.ok().and_then(|status| status.pid());
                match pid {
                    Some(pid) => collector.take(pid),
                    None => thread::sleep(Duration::from_millis(5)),
                }
            }
        });
        Ok(children)
    }

    fn take(&self, pid: Pid) {
        let mut table = self.lock();
        let status = waitpid(pid, Some(WaitPidFlag::WNOHANG));
        // Others are orphans, whose exit status is not needed.
        if let (Ok(status), Some(entry)) = (status, table.get_mut(&pid.as_raw())) {
            *entry = Some(status);
            self.changed.notify_all();
        }
    }

    fn lock(&self) -> MutexGuard<'_, HashMap<i32, Option<WaitStatus>>> {
        self.table.lock().unwrap_or_else(PoisonError::into_inner)
    }

    /// Starts a command. The caller gets its streams only; [`Children::wait`] returns its end.
    pub fn start(&self, command: &mut Command) -> io::Result<(i32, Child)> {
        let mut table = self.lock();
        let child = command.spawn()?;
        let pid = i32::try_from(child.id()).map_err(io::Error::other)?;
        // It cannot be reaped before the lock is released.
        if let Some(process) = read(pid) {
            self.ever.lock().unwrap_or_else(PoisonError::into_inner).insert((pid, process.start));
        }
        table.insert(pid, None);
        Ok((pid, child))
    }

    /// Waits for the end of a child; `None` when it lives longer than this.
    pub fn wait(&self, pid: i32, patience: Duration) -> Option<WaitStatus> {
        let until = Instant::now() + patience;
        let mut table = self.lock();
        loop {
            if let Some(Some(status)) = table.get(&pid).copied() {
                table.remove(&pid);
                return Some(status);
            }
            let left = until.checked_duration_since(Instant::now())?;
            table = self.changed.wait_timeout(table, left).unwrap_or_else(PoisonError::into_inner).0;
        }
    }

    /// Whether a child is still there after this time.
    pub fn lives(&self, pid: i32, after: Duration) -> bool {
        let table = self.lock();
        let alive = |table: &mut HashMap<i32, Option<WaitStatus>>| table.get(&pid) == Some(&None);
        let waited = self.changed.wait_timeout_while(table, after, alive);
        waited.unwrap_or_else(PoisonError::into_inner).1.timed_out()
    }

    /// Sends a signal to a child, or to its whole process group, if it still lives.
    pub fn signal(&self, pid: i32, signal: Signal, group: bool) -> bool {
        let table = self.lock();
        let alive = table.get(&pid) == Some(&None);
        let sent = if group { killpg } else { kill };
        alive && sent(Pid::from_raw(pid), signal) == Ok(())
    }

    /// The living launcher with this parent.
    pub fn launcher_of(&self, parent: i32) -> Option<Process> {
        all().into_iter().find(|p| p.parent == parent && p.is_launcher() && p.state != 'Z')
    }

    /// The launcher of a hotcell that has ended, which is an orphan.
    pub fn heir(&self) -> Option<Process> {
        self.launcher_of(std::process::id().cast_signed())
    }

    /// Sends a signal to a process that was found in `/proc`, if the id still belongs to it.
    pub fn signal_found(&self, process: &Process, signal: Signal) -> bool {
        // Orphans are not reaped while the table is locked, so the id stays valid.
        let _table = self.lock();
        let same = read(process.pid).is_some_and(|now| now.start == process.start && now.state != 'Z');
        same && kill(Pid::from_raw(process.pid), signal) == Ok(())
    }

    /// Whether we ever started the process with this id and start time.
    pub fn started(&self, pid: i32, start: u64) -> bool {
        self.ever.lock().unwrap_or_else(PoisonError::into_inner).contains(&(pid, start))
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn stat_line_is_parsed() {
        let line = "7 (a) b (c) S 3 7 7 0 -1 4 0 0 0 0 1 2 0 0 20 0 1 0 4242 1 2\n";
        let want = Process { pid: 7, parent: 3, state: 'S', start: 4242, name: "a) b (c".to_owned() };
        assert_eq!(parse(7, line), Some(want));
        assert_eq!(parse(7, "7 (sh"), None);
    }

    #[test]
    fn descendants_are_found_in_any_order() {
        let one = |pid, parent| Process { pid, parent, state: 'S', start: 0, name: String::new() };
        let all = [one(5, 4), one(2, 1), one(4, 3), one(3, 1), one(9, 8)];
        let mut found: Vec<i32> = descendants(&all, 3).iter().map(|p| p.pid).collect();
        found.sort_unstable();
        assert_eq!(found, [4, 5]);
    }
}
