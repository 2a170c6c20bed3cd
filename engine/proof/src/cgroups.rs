//! Resource ceilings of an arena by cgroup, where the harness is root: a folder that the arena cannot change,
//! and below it the arena's own. Versions 1 and 2. Best effort, since the arena also has rlimits.

use std::fs;
use std::io;
use std::os::unix::fs::chown;
use std::path::{Path, PathBuf};

/// Memory limit of an arena, in bytes.
const MAX_MEMORY_BYTES: u64 = 3 << 30;
/// Maximum number of processes and threads of an arena.
const MAX_PROCESSES: u32 = 1500;
/// Name of the folder that contains every arena's folder.
const NAME: &str = "hotcell-arena";

/// Name of the folder in which an engine makes its cgroups.
const ENGINE_BASE: &str = "hotcell";

/// Cgroup folders of one arena; removed on drop.
#[derive(Debug, Default)]
pub struct Ceiling {
    /// For each tree the folder with the limits; the arena's own is `own` below it.
    folders: Vec<PathBuf>,
}

impl Ceiling {
    /// Makes the folders. `owner` is the user who may make cgroups below them, as an id of the initial user
    /// namespace.
    #[must_use]
    pub fn new(id: &str, owner: Option<u32>) -> Self {
        let mut ceiling = Self::default();
        for (kind, here) in trees() {
            let folder = here.join(NAME).join(id);
            let own = folder.join("own");
            if fs::create_dir_all(&own).is_err() {
                continue;
            }
            ceiling.folders.push(folder.clone());
            let limits: &[(&str, String)] = &match kind {
                Kind::Memory => [
                    ("memory.limit_in_bytes", MAX_MEMORY_BYTES.to_string()),
                    ("memory.swappiness", "0".to_owned()),
                ],
                Kind::Pids => {
                    [("pids.max", MAX_PROCESSES.to_string()), ("pids.max", MAX_PROCESSES.to_string())]
                }
                Kind::Unified => {
                    [("memory.max", MAX_MEMORY_BYTES.to_string()), ("pids.max", MAX_PROCESSES.to_string())]
                }
                Kind::Other => [("notify_on_release", "0".to_owned()), ("notify_on_release", "0".to_owned())],
            };
            for (file, value) in limits {
                // A tree without the controller has no such file; the rlimits of the arena apply in any case.
                let _ = fs::write(folder.join(file), value);
            }
            if let Some(owner) = owner {
                let _ = chown(&own, Some(owner), Some(owner));
                for file in ["cgroup.procs", "tasks", "cgroup.threads", "cgroup.subtree_control"] {
                    let _ = chown(own.join(file), Some(owner), Some(owner));
                }
            }
        }
        ceiling
    }

    /// Moves a process into the arena's own cgroups.
    pub fn add(&self, pid: u32) {
        for folder in &self.folders {
            let _ = fs::write(folder.join("own/cgroup.procs"), pid.to_string());
        }
    }

    /// Number of cgroups that sandboxes left below the arena's own.
    #[must_use]
    pub fn left_behind(&self) -> usize {
        self.folders.iter().map(|f| count_below(&f.join("own"))).sum()
    }
}

impl Drop for Ceiling {
    fn drop(&mut self) {
        for folder in &self.folders {
            // Processes of a namespace that was just killed may take a moment to end.
            for _ in 0..50 {
                if remove_tree(folder).is_ok() {
                    break;
                }
                std::thread::sleep(std::time::Duration::from_millis(10));
            }
            if let Some(parent) = folder.parent() {
                let _ = fs::remove_dir(parent);
            }
        }
    }
}

/// Removes the folders of killed harnesses, whose arenas died with them.
pub fn sweep() {
    for (_, here) in trees() {
        let folder = here.join(NAME);
        for entry in fs::read_dir(&folder).into_iter().flatten().flatten() {
            let name = entry.file_name();
            let harness = name.to_str().and_then(|name| name.split_once('-')).map(|(pid, _)| pid);
            if harness.is_some_and(|pid| !Path::new("/proc").join(pid).exists()) {
                // Fails harmlessly where a process is left.
                let _ = remove_tree(&entry.path());
            }
        }
        let _ = fs::remove_dir(folder);
    }
}

/// Resource that a tree controls.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum Kind {
    Memory,
    Pids,
    Unified,
    Other,
}

/// The harness's own folder in each tree where it may write.
fn trees() -> Vec<(Kind, PathBuf)> {
    let mounts = fs::read_to_string("/proc/self/mountinfo").unwrap_or_default();
    let own = fs::read_to_string("/proc/self/cgroup").unwrap_or_default();
    mounts.lines().filter_map(|line| tree(line, &own)).collect()
}

/// Parses one line of mountinfo, with the content of `/proc/self/cgroup`.
fn tree(line: &str, own: &str) -> Option<(Kind, PathBuf)> {
    let (left, right) = line.split_once(" - ")?;
    let mut left = left.split(' ').skip(3);
    let (root, point) = (left.next()?, left.next()?);
    let mut right = right.split(' ');
    let (fs_type, options) = (right.next()?, right.nth(1)?);
    let wanted = |c: &str| options.split(',').any(|o| o == c);
    let (kind, controller) = match fs_type {
        "cgroup2" => (Kind::Unified, String::new()),
        "cgroup" if wanted("memory") => (Kind::Memory, "memory".to_owned()),
        "cgroup" if wanted("pids") => (Kind::Pids, "pids".to_owned()),
        "cgroup" => {
            let other = ["cpu", "cpuacct", "freezer", "cpuset"].into_iter().find(|c| wanted(c))?;
            // A cpuset without processors accepts no process; leave that tree alone.
            if other == "cpuset" {
                return None;
            }
            (Kind::Other, other.to_owned())
        }
        _ => return None,
    };
    let path = own.lines().find_map(|l| {
        let mut parts = l.splitn(3, ':').skip(1);
        let (controllers, path) = (parts.next()?, parts.next()?);
        let matches = if controller.is_empty() {
            controllers.is_empty()
        } else {
            controllers.split(',').any(|c| c == controller)
        };
        matches.then_some(path)
    })?;
    let below = Path::new(path).strip_prefix(root).ok()?;
    Some((kind, Path::new(point).join(below)))
}

/// Number of cgroups below a folder, not counting the engine's own base folder, which stays.
pub(crate) fn count_below(folder: &Path) -> usize {
    fs::read_dir(folder)
        .map(|entries| {
            entries
                .flatten()
                .filter(|e| e.file_type().is_ok_and(|t| t.is_dir()))
                .map(|e| usize::from(e.file_name() != ENGINE_BASE) + count_below(&e.path()))
                .sum()
        })
        .unwrap_or(0)
}

fn remove_tree(folder: &Path) -> io::Result<()> {
    for entry in fs::read_dir(folder)?.flatten() {
        if entry.file_type().is_ok_and(|t| t.is_dir()) {
            remove_tree(&entry.path())?;
        }
    }
    fs::remove_dir(folder)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn lines_of_mountinfo() {
        let own = "4:memory:/a/b\n2:cpuacct,cpu:/\n0::/x\n";
        let line = |point: &str, rest: &str| format!("30 20 0:26 / {point} rw - {rest}");
        assert_eq!(
            tree(&line("/sys/fs/cgroup/memory", "cgroup cgroup rw,memory"), own),
            Some((Kind::Memory, "/sys/fs/cgroup/memory/a/b".into()))
        );
        assert_eq!(
            tree(&line("/sys/fs/cgroup", "cgroup2 none rw"), own),
            Some((Kind::Unified, "/sys/fs/cgroup/x".into()))
        );
        assert_eq!(tree(&line("/c", "cgroup cgroup rw,cpu"), own), Some((Kind::Other, "/c".into())));
        assert_eq!(tree(&line("/p", "proc proc rw"), own), None);
        assert_eq!(tree(&line("/q", "cgroup cgroup rw,pids"), own), None, "not a member");
    }
}
