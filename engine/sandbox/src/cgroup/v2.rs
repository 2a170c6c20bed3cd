//! Groups in the single hierarchy of cgroup v2.
//!
//! A group that holds processes cannot enable controllers for its children (only the root of the hierarchy
//! can), so the `hotcell` folder can rarely be directly below the group in which hotcell itself runs.
//! [`super::detect::v2_candidates`] decides which locations are tried and why; this file tries them.
//!
//! A child is created in its group with `CLONE_INTO_CGROUP` and the group's folder descriptor.

use std::io;
use std::path::{Path, PathBuf};
use std::time::Duration;

use super::detect::{Candidate, words};
use super::folder::{Folder, KeptFile, explain, field, if_there};
use super::{BASE_FOLDER, CPU_PERIOD_US, GroupLimits, SUPERVISOR_FOLDER, Sample, Tally, cpu_quota_us};
use crate::units::Bytes;

/// Maximum number of times that the `hotcell` folder may disappear while it is being made.
const ENSURE_ATTEMPTS: usize = 16;

/// The `hotcell` folder, whose children have the memory and pids controllers.
#[derive(Debug)]
pub(super) struct Base {
    path: PathBuf,
    /// The group above is this process's own or was delegated to it, so every controller may be enabled.
    ours: bool,
    /// Whether groups have the cpu controller.
    cpu: bool,
}

impl Base {
    /// Makes a candidate usable, or returns the kernel's error. Undoes its changes on failure.
    pub(super) fn establish(candidate: &Candidate) -> io::Result<Self> {
        let mut base = Self { path: candidate.parent.join(BASE_FOLDER), ours: candidate.ours, cpu: false };
        if !candidate.move_self {
            base.cpu = base.ensure_with_cpu()?;
            return Ok(base);
        }
        let leaf = candidate.parent.join(SUPERVISOR_FOLDER);
        if let Err(e) = std::fs::create_dir(&leaf)
            && e.kind() != io::ErrorKind::AlreadyExists
        {
            return Err(explain("cannot make", &leaf, &e));
        }
        let moved = Folder::open(leaf.clone()).and_then(|leaf| leaf.write("cgroup.procs", "0"));
        match moved.and_then(|()| base.ensure_with_cpu()) {
            Ok(cpu) => {
                base.cpu = cpu;
                Ok(base)
            }
            Err(e) => {
                let back =
                    Folder::open(candidate.parent.clone()).and_then(|own| own.write("cgroup.procs", "0"));
                if let Err(back) = back {
                    tracing::warn!("cannot move this process back to its cgroup: {back}");
                }
                let _ = std::fs::remove_dir(&leaf);
                Err(e)
            }
        }
    }

    /// Makes the `hotcell` folder and enables the controllers for it, if needed.
    pub(super) fn ensure(&self) -> io::Result<()> {
        self.ensure_with_cpu().map(drop)
    }

    fn ensure_with_cpu(&self) -> io::Result<bool> {
        let parent_path = self.path.parent().unwrap_or(Path::new("/"));
        let parent = Folder::open(parent_path.to_owned())?;
        // Starting a process in a group below requires write access to this file of the common ancestor.
        parent.open_for_writing("cgroup.procs")?;
        hand_down(&parent, self.ours)?;
        let mut attempts = ENSURE_ATTEMPTS;
        loop {
            match std::fs::create_dir(&self.path) {
                Err(e) if e.kind() != io::ErrorKind::AlreadyExists => {
                    return Err(explain("cannot make", &self.path, &e));
                }
                _ => {}
            }
            attempts -= 1;
            match Folder::open(self.path.clone()).and_then(|base| hand_down(&base, true)) {
                // Another hotcell ended between two of these steps and removed the empty folder.
                Err(e) if e.kind() == io::ErrorKind::NotFound && attempts > 0 => {}
                Err(e) => {
                    let _ = std::fs::remove_dir(&self.path);
                    return Err(e);
                }
                Ok(cpu) => return Ok(cpu),
            }
        }
    }

    pub(super) fn path(&self) -> &Path {
        &self.path
    }

    pub(super) fn holds_cpus(&self) -> bool {
        self.cpu
    }

    /// Makes a group without limits, except that it does not swap.
    pub(super) fn make(&self, name: &str) -> io::Result<Made> {
        let folder = Folder::create(&self.path.join(name))?;
        // The file is missing if the kernel has no swap. `memory.oom.group` stays 0: the sandbox's init has
        // to survive to report, and the supervisor ends the rest when `oom_kill` increases.
        let written = if_there(folder.write("memory.swap.max", "0"));
        // A `hotcell` folder that another process is just making may have no controllers yet. Its groups then
        // lack this file, without which there is no limit: NotFound, and the caller tries again.
        let probed = written.and_then(|_| folder.open_for_writing("memory.max"));
        probed.inspect_err(|_| {
            let _ = folder.remove();
        })?;
        Ok(Made { folder, files: Files::default() })
    }

    /// Opens a group that another process made, in order to end it.
    pub(super) fn adopt(&self, name: &str) -> io::Result<Made> {
        let folder = Folder::open(self.path.join(name))?;
        Ok(Made { folder, files: Files::default() })
    }
}

/// Enables the needed controllers for the children of `group`. Returns whether cpu is enabled.
///
/// The cpu controller changes how the processors are shared among *all* children, so it is enabled only where
/// the group is `ours`; elsewhere it is used if it is already enabled.
fn hand_down(group: &Folder, ours: bool) -> io::Result<bool> {
    let offered = group.read("cgroup.controllers")?;
    let on = group.read("cgroup.subtree_control")?;
    let has = |list: &str, name| words(list).any(|word| word == name);
    let mut request = String::new();
    for name in ["memory", "pids"] {
        if !has(&offered, name) {
            let path = group.path().join("cgroup.controllers");
            let message = format!("{} does not offer {name}", path.display());
            return Err(io::Error::new(io::ErrorKind::Unsupported, message));
        }
        if !has(&on, name) {
            request.push('+');
            request.push_str(name);
            request.push(' ');
        }
    }
    if !request.is_empty() {
        group.write("cgroup.subtree_control", request.trim_end())?;
    }
    if has(&on, "cpu") {
        return Ok(true);
    }
    Ok(ours && has(&offered, "cpu") && group.write("cgroup.subtree_control", "+cpu").is_ok())
}

/// One group.
#[derive(Debug)]
pub(super) struct Made {
    folder: Folder,
    files: Files,
}

/// Sampled files.
#[derive(Debug)]
struct Files {
    memory_stat: KeptFile,
    memory_peak: KeptFile,
    memory_events: KeptFile,
    processes: KeptFile,
    processes_peak: KeptFile,
    process_events: KeptFile,
    cpu_stat: KeptFile,
}

impl Default for Files {
    fn default() -> Self {
        Self {
            memory_stat: KeptFile::new("memory.stat"),
            memory_peak: KeptFile::new("memory.peak"),
            memory_events: KeptFile::new("memory.events"),
            processes: KeptFile::new("pids.current"),
            processes_peak: KeptFile::new("pids.peak"),
            process_events: KeptFile::new("pids.events"),
            cpu_stat: KeptFile::new("cpu.stat"),
        }
    }
}

impl Made {
    pub(super) fn limit(&mut self, base: &Base, limits: &GroupLimits) -> io::Result<()> {
        self.folder.write("memory.max", &limits.memory.0.to_string())?;
        self.folder.write("pids.max", &limits.processes.to_string())?;
        let Some(cpus) = limits.cpus else {
            return Ok(());
        };
        if !base.cpu {
            return Err(io::Error::new(
                io::ErrorKind::Unsupported,
                format!(
                    "a limit on processors needs the cpu controller, which is off for {}; switch it on for \
                     all groups above (\"+cpu\" to their cgroup.subtree_control, or Delegate=cpu in systemd) \
                     or leave the limit out",
                    base.path.display()
                ),
            ));
        }
        let quota = format!("{} {CPU_PERIOD_US}", cpu_quota_us(cpus));
        self.folder.write("cpu.max", &quota)
    }

    pub(super) fn folder(&self) -> &Folder {
        &self.folder
    }

    pub(super) fn fork_failures(&self) -> io::Result<u64> {
        self.files.process_events.read_field(&self.folder, "max")
    }

    pub(super) fn sample(&self) -> io::Result<Sample> {
        let (folder, files) = (&self.folder, &self.files);
        let memory =
            memory(&files.memory_stat.read(folder)?).ok_or_else(|| files.memory_stat.unreadable(folder))?;
        let Tally { cpu, processes_peak, oom_kills, fork_failures } = self.tally()?;
        Ok(Sample {
            memory_without_shmem: Bytes(memory.held),
            kernel: None,
            shmem: Bytes(memory.shmem),
            reclaimable: Bytes(memory.reclaimable),
            memory_peak: if_there(files.memory_peak.read_number(folder))?.map(Bytes),
            cpu,
            processes: files.processes.read_number(folder)?,
            processes_peak,
            oom_kills,
            fork_failures,
        })
    }

    pub(super) fn tally(&self) -> io::Result<Tally> {
        let (folder, files) = (&self.folder, &self.files);
        let cpu = files.cpu_stat.read_field(folder, "usage_usec")?;
        Ok(Tally {
            cpu: Some(Duration::from_micros(cpu)),
            processes_peak: if_there(files.processes_peak.read_number(folder))?,
            oom_kills: files.memory_events.read_field(folder, "oom_kill")?,
            fork_failures: self.fork_failures()?,
        })
    }

    /// Kills everything inside at once; fails on kernels older than 5.14.
    pub(super) fn kill_at_once(&self) -> io::Result<()> {
        self.folder.write("cgroup.kill", "1")
    }

    pub(super) fn remove(&mut self) -> io::Result<()> {
        self.folder.remove()
    }
}

/// Values of `memory.stat`, in bytes.
#[derive(Debug, PartialEq, Eq)]
struct Memory {
    held: u64,
    shmem: u64,
    reclaimable: u64,
}

fn memory(stat: &str) -> Option<Memory> {
    let get = |key| field(stat, key).unwrap_or(0);
    let slab_reclaimable = get("slab_reclaimable");
    let shmem = get("shmem");
    // `kernel` (5.18) includes memory that no other line shows, such as pipe buffers.
    let kernel = match field(stat, "kernel") {
        Some(all) => all.saturating_sub(slab_reclaimable),
        None => get("kernel_stack") + get("pagetables") + get("percpu") + get("slab_unreclaimable"),
    };
    Some(Memory {
        held: field(stat, "anon")?.saturating_add(kernel).saturating_add(get("sock")),
        shmem,
        reclaimable: get("file").saturating_sub(shmem).saturating_add(slab_reclaimable),
    })
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn held_memory_excludes_scratch_and_reclaimable() {
        let newer = "anon 1000\nfile 700\nkernel 300\nkernel_stack 16\npagetables 20\npercpu 1\nsock 5\n\
                     shmem 400\nslab_reclaimable 100\nslab_unreclaimable 60\nslab 160\n";
        assert_eq!(memory(newer), Some(Memory { held: 1000 + 200 + 5, shmem: 400, reclaimable: 300 + 100 }));
        let older = newer.replace("kernel 300\n", "");
        assert_eq!(memory(&older).unwrap().held, 1000 + 16 + 20 + 1 + 60 + 5);
        assert_eq!(memory("file 1\n"), None);
    }
}
