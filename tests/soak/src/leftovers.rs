//! Leftovers of runs that have ended, which must be an empty list. Only those of this soak count, since
//! others may use hotcell on the same machine.

use std::collections::BTreeSet;
use std::fs;
use std::path::{Path, PathBuf};

use crate::kinds::{Place, ipc_key};
use crate::processes::{Children, all, descendants};

/// State before the first run, and the places to search.
#[derive(Debug)]
pub struct Ground {
    work: PathBuf,
    /// Text in every command line, and in every name that a program makes.
    mark: String,
    mounts: BTreeSet<String>,
    cgroup_folders: Vec<PathBuf>,
}

impl Ground {
    /// Records the state before the first run.
    pub fn before(place: &Place, mark: &str, cgroup_folders: Vec<PathBuf>) -> Self {
        Self { work: place.work.clone(), mark: mark.to_owned(), mounts: mounts(), cgroup_folders }
    }

    /// Lists leftovers. `living` is a process that goes on: it may have two launchers, one prewarmed cgroup
    /// and one in the making.
    pub fn left(&self, children: &Children, living: Option<i32>) -> Vec<String> {
        let mut left = self.processes(living);
        left.extend(self.cgroups(children, living));
        left.extend(self.files());
        left.extend(self.mounts());
        left.extend(self.ipc());
        left
    }

    fn processes(&self, living: Option<i32>) -> Vec<String> {
        let (all, own) = (all(), std::process::id().cast_signed());
        let mut launchers = 0;
        let ours = descendants(&all, own);
        let mut left = Vec::new();
        for process in &ours {
            if Some(process.pid) == living {
                continue;
            }
            if Some(process.parent) == living && process.is_launcher() && launchers < 2 {
                launchers += 1;
                continue;
            }
            left.push(format!("process {process:?}"));
        }
        // Also searched by command line: a process that escaped still has our mark.
        for process in all.iter().filter(|p| p.pid != own && !ours.contains(p)) {
            let words = fs::read(format!("/proc/{}/cmdline", process.pid)).unwrap_or_default();
            if words.split(|b| *b == 0).any(|word| word.starts_with(self.mark.as_bytes())) {
                left.push(format!("process with our mark {process:?}"));
            }
        }
        left
    }

    /// Cgroups are named `PID-START-NAMESPACE-N` after the process that made them.
    fn cgroups(&self, children: &Children, living: Option<i32>) -> Vec<String> {
        let mut left = Vec::new();
        for folder in &self.cgroup_folders {
            let names = names(folder).into_iter().filter_map(|name| Some((maker(&name)?, name)));
            let ours: Vec<_> = names.filter(|((pid, start), _)| children.started(*pid, *start)).collect();
            let spare = if living.is_some() { 2 } else { 0 };
            let spares = ours.iter().filter(|((pid, _), _)| Some(*pid) == living).take(spare);
            let spares: BTreeSet<&String> = spares.map(|(_, name)| name).collect();
            let lost = ours.iter().filter(|(_, name)| !spares.contains(name));
            left.extend(lost.map(|(_, name)| format!("cgroup {}/{name}", folder.display())));
        }
        left
    }

    fn files(&self) -> Vec<String> {
        let in_tmp = names(&self.work.join("tmp")).into_iter().map(|name| format!("file tmp/{name}"));
        let in_state = names(&self.work.join("state")).into_iter();
        let in_state = in_state
            .filter(|n| !n.starts_with("hotcell.db") && !n.starts_with("readings.db"))
            .map(|n| format!("file state/{n}"));
        // Folders that runs could read but not change, and one that they could change.
        let project = fs::read_to_string(self.work.join("project/file")).unwrap_or_default();
        let changed = project != "original\n"
            || names(&self.work.join("project")) != ["file", "sub"]
            || names(&self.work.join("project/sub")) != ["other"]
            || ["passes", "fails"].iter().any(|name| names(&self.work.join(name)) != ["test_it.py"]);
        let out = names(&self.work.join("out")).into_iter().map(|name| format!("file out/{name}"));
        in_tmp.chain(in_state).chain(out).chain(changed.then(|| "a changed project".to_owned())).collect()
    }

    fn mounts(&self) -> Vec<String> {
        let work = self.work.display().to_string();
        let ours = |line: &&String| line.contains(&work) || line.contains("hotcell");
        mounts().difference(&self.mounts).filter(ours).map(|line| format!("mount {line}")).collect()
    }

    /// Shared memory and queues outside, by the key and the name that programs gave them inside.
    fn ipc(&self) -> Vec<String> {
        let mut left = Vec::new();
        for kind in ["shm", "sem", "msg"] {
            let table = fs::read_to_string(format!("/proc/sysvipc/{kind}")).unwrap_or_default();
            let key = |row: &&str| row.split_ascii_whitespace().next() == Some(&ipc_key().to_string());
            left.extend(table.lines().filter(key).map(|row| format!("{kind} {row}")));
        }
        for folder in ["/dev/shm", "/dev/mqueue"] {
            let ours = names(Path::new(folder)).into_iter().filter(|name| name.contains(&self.mark));
            left.extend(ours.map(|name| format!("{folder}/{name}")));
        }
        left
    }
}

fn mounts() -> BTreeSet<String> {
    let text = fs::read_to_string("/proc/self/mountinfo").unwrap_or_default();
    text.lines().map(str::to_owned).collect()
}

fn names(folder: &Path) -> Vec<String> {
    let entries = fs::read_dir(folder).into_iter().flatten().flatten();
    let mut names: Vec<String> = entries.map(|e| e.file_name().to_string_lossy().into_owned()).collect();
    names.sort();
    names
}

/// Id and start time of the process that made a cgroup.
fn maker(name: &str) -> Option<(i32, u64)> {
    let parts: Vec<&str> = name.split('-').collect();
    let [pid, start, _, _] = parts.as_slice() else { return None };
    Some((pid.parse().ok()?, start.parse().ok()?))
}

#[cfg(test)]
mod tests {
    use std::process::Command;
    use std::time::Duration;

    use nix::sys::signal::Signal;

    use super::*;

    #[test]
    fn leftovers_of_every_kind_are_found() {
        let folder = tempfile::tempdir().expect("a folder");
        let work = folder.path();
        crate::prepare(work).expect("prepared");
        let groups = work.join("groups");
        fs::create_dir(&groups).expect("made");
        let place = Place { work: work.to_owned(), hotcell: "/bin/true".into(), cgroups: true, python: true };
        let (children, mark) =
            (Children::collect().expect("collects"), format!("soak-test-{}", std::process::id()));
        let nothing: [String; 0] = [];
        let mut ground = Ground::before(&place, &mark, vec![groups.clone()]);
        assert_eq!(ground.left(&children, None), nothing);

        let (pid, _streams) = children.start(Command::new("sleep").arg("600")).expect("started");
        let start = crate::processes::read(pid).expect("lives").start;
        let (ours, others) = (format!("{pid}-{start}-1-0"), format!("{pid}-{}-1-0", start + 1));
        let shared = Path::new("/dev/shm").join(&mark);
        for name in [&ours, &others] {
            fs::create_dir(groups.join(name)).expect("made");
        }
        for path in
            ["tmp/x", "state/x", "out/x", "project/x"].map(|path| work.join(path)).iter().chain([&shared])
        {
            fs::write(path, "").expect("written");
        }
        let left = ground.left(&children, None);
        fs::remove_file(&shared).expect("removed");
        let group = format!("/{ours}");
        let wants = [
            "process Process",
            &group,
            "file tmp/x",
            "file state/x",
            "file out/x",
            "a changed project",
            &mark,
        ];
        for want in wants {
            assert!(left.iter().any(|line| line.contains(want)), "{want}: {left:#?}");
        }
        assert_eq!(left.len(), wants.len(), "{left:#?}");

        assert!(children.signal(pid, Signal::SIGKILL, false));
        assert!(children.wait(pid, Duration::from_secs(60)).is_some());
        assert_eq!(ground.processes(None), nothing);
        // This test cannot mount anything, so it treats existing mounts as new.
        (ground.mounts, ground.work) = (BTreeSet::new(), "/".into());
        assert!(!ground.mounts().is_empty());
    }

    #[test]
    fn group_name_yields_its_maker() {
        assert_eq!(maker("12-3456-4026531836-0"), Some((12, 3456)));
        for name in ["", "12-3456-7", "12-3456-7-8-9", "x-1-2-3", "cgroup.procs"] {
            assert_eq!(maker(name), None, "{name}");
        }
    }
}
