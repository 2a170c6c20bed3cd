//! Groups in the separate hierarchies of cgroup v1.
//!
//! A sandbox has one folder in each relevant hierarchy, all with the same name: `memory` and `pids`,
//! `cpuacct` where it exists, and `cpu` only if a limit on processors was requested, since every further
//! hierarchy costs a folder and a write at the start of a sandbox.
//!
//! A child joins by writing `0` to the `tasks` files itself. Moving it from outside through `cgroup.procs`
//! takes a lock, which costs milliseconds in the kernel.

use std::fs::File;
use std::io::{self, Write};
use std::os::fd::OwnedFd;
use std::path::{Path, PathBuf};
use std::time::Duration;

use super::detect::V1Places;
use super::folder::{Folder, KeptFile, explain, field, if_there};
use super::{BASE_FOLDER, GroupLimits, Sample, Tally, cpu_quota_us};
use crate::units::Bytes;

/// The file with the limit of memory.
const LIMIT_FILE: &str = "memory.limit_in_bytes";

/// The `hotcell` folder of each hierarchy; equal paths where controllers share a hierarchy.
#[derive(Debug)]
pub(super) struct Base {
    memory: PathBuf,
    pids: PathBuf,
    cpuacct: Option<PathBuf>,
    cpu: Option<PathBuf>,
}

impl Base {
    /// The `hotcell` folders below these groups. Nothing is created before [`Base::ensure`].
    pub(super) fn below(places: &V1Places) -> Self {
        let base = |own: &PathBuf| own.join(BASE_FOLDER);
        Self {
            memory: base(&places.memory),
            pids: base(&places.pids),
            cpuacct: places.cpuacct.as_ref().map(base),
            cpu: places.cpu.as_ref().map(base),
        }
    }

    /// Makes missing `hotcell` folders.
    pub(super) fn ensure(&self) -> io::Result<()> {
        for path in self.paths() {
            match std::fs::create_dir(path) {
                Err(e) if e.kind() != io::ErrorKind::AlreadyExists => {
                    return Err(explain("cannot make", path, &e));
                }
                _ => {}
            }
        }
        Ok(())
    }

    /// Every distinct folder, the memory hierarchy first.
    pub(super) fn paths(&self) -> Vec<&Path> {
        let mut paths: Vec<&Path> = vec![&self.memory, &self.pids];
        paths.extend(self.cpuacct.as_deref());
        paths.extend(self.cpu.as_deref());
        distinct(paths)
    }

    pub(super) fn holds_cpus(&self) -> bool {
        self.cpu.is_some()
    }

    /// Makes a group without limits, except that it does not swap.
    pub(super) fn make(&self, name: &str) -> io::Result<Made> {
        let mut made = Made {
            folders: Vec::with_capacity(3),
            tasks: Vec::with_capacity(3),
            memory: 0,
            pids: 0,
            cpuacct: None,
            cpu: None,
            files: Files::default(),
            limit: 0,
        };
        self.fill(&mut made, name).inspect_err(|_| {
            let _ = made.remove();
        })?;
        Ok(made)
    }

    fn fill(&self, made: &mut Made, name: &str) -> io::Result<()> {
        made.memory = made.add(&self.memory, name)?;
        made.pids = made.add(&self.pids, name)?;
        if let Some(cpuacct) = &self.cpuacct {
            made.cpuacct = Some(made.add(cpuacct, name)?);
        }
        made.cpu = self.cpu.as_deref().and_then(|cpu| made.place_in(cpu));
        // Without the memsw file (swapaccount=0), only this keeps the group out of swap.
        if_there(made.folders[made.memory].write("memory.swappiness", "0"))?;
        Ok(())
    }

    /// Opens the remains of a group that another process made, in order to end it.
    pub(super) fn adopt(&self, name: &str) -> Made {
        let folders = self.paths().into_iter();
        Made {
            folders: folders.filter_map(|base| Folder::open(base.join(name)).ok()).collect(),
            tasks: Vec::new(),
            memory: 0,
            pids: 0,
            cpuacct: None,
            cpu: None,
            files: Files::default(),
            limit: 0,
        }
    }
}

/// Asks the kernel whether it can reclaim enough of a group's memory for a lower limit. It answers by setting that
/// limit or not, as it would if the group had it all the time; afterwards the group has its own limit again.
#[derive(Debug)]
pub struct Squeeze {
    file: File,
    limit: u64,
}

impl Squeeze {
    /// Whether the group's memory, with caches and scratch, can be lowered to `bytes`. Blocks while the kernel
    /// reclaims, for seconds if it has to reclaim gigabytes; kills nothing.
    ///
    /// # Errors
    /// When the group is gone, or the kernel refuses for another reason than memory that is in use.
    pub fn to(mut self, bytes: Bytes) -> io::Result<bool> {
        let lowered = self.file.write_all(bytes.0.to_string().as_bytes());
        // At once, also after an error: until then the program has less scratch than it may have.
        let restored = self.file.write_all(self.limit.to_string().as_bytes());
        match lowered {
            Ok(()) => restored.map(|()| true),
            Err(e) if e.kind() == io::ErrorKind::ResourceBusy => restored.map(|()| false),
            Err(e) => Err(e),
        }
    }
}

/// One group: a folder per hierarchy.
#[derive(Debug)]
pub(super) struct Made {
    folders: Vec<Folder>,
    tasks: Vec<OwnedFd>,
    memory: usize,
    pids: usize,
    cpuacct: Option<usize>,
    cpu: Option<usize>,
    files: Files,
    /// The limit of memory that was set.
    limit: u64,
}

/// Sampled files.
#[derive(Debug)]
struct Files {
    memory_stat: KeptFile,
    memory_peak: KeptFile,
    kernel: KeptFile,
    socket_buffers: KeptFile,
    oom_control: KeptFile,
    processes: KeptFile,
    processes_peak: KeptFile,
    process_events: KeptFile,
    cpu: KeptFile,
}

impl Default for Files {
    fn default() -> Self {
        Self {
            memory_stat: KeptFile::new("memory.stat"),
            memory_peak: KeptFile::new("memory.max_usage_in_bytes"),
            kernel: KeptFile::new("memory.kmem.usage_in_bytes"),
            socket_buffers: KeptFile::new("memory.kmem.tcp.usage_in_bytes"),
            oom_control: KeptFile::new("memory.oom_control"),
            processes: KeptFile::new("pids.current"),
            processes_peak: KeptFile::new("pids.peak"),
            process_events: KeptFile::new("pids.events"),
            cpu: KeptFile::new("cpuacct.usage"),
        }
    }
}

impl Made {
    pub(super) fn limit(&mut self, base: &Base, limits: &GroupLimits) -> io::Result<()> {
        let memory = &self.folders[self.memory];
        let bytes = limits.memory.0.to_string();
        // The order matters: memory and swap together may never be less than memory.
        memory.write(LIMIT_FILE, &bytes)?;
        self.limit = limits.memory.0;
        if_there(memory.write("memory.memsw.limit_in_bytes", &bytes))?;
        // Buffers of TCP and UDP are counted only where they have a limit.
        if_there(memory.write("memory.kmem.tcp.limit_in_bytes", &bytes))?;
        self.folders[self.pids].write("pids.max", &limits.processes.to_string())?;
        if let Some(cpus) = limits.cpus {
            let Some(cpu_base) = &base.cpu else {
                return Err(io::Error::new(
                    io::ErrorKind::Unsupported,
                    "a limit on processors needs the cpu controller of cgroup v1, which is not mounted; \
                     mount it or leave the limit out",
                ));
            };
            let index = match self.cpu {
                Some(index) => index,
                None => {
                    let name = self.folders[self.memory].path().file_name();
                    let name = name.and_then(|n| n.to_str()).unwrap_or_default().to_owned();
                    self.add(cpu_base, &name)?
                }
            };
            self.cpu = Some(index);
            let cpu = &self.folders[index];
            // The period of a new group is already CPU_PERIOD_US.
            cpu.write("cpu.cfs_quota_us", &cpu_quota_us(cpus).to_string())?;
        }
        Ok(())
    }

    pub(super) fn tasks(&self) -> &[OwnedFd] {
        &self.tasks
    }

    pub(super) fn close_tasks(&mut self) {
        self.tasks = Vec::new();
    }

    pub(super) fn folders(&self) -> &[Folder] {
        &self.folders
    }

    pub(super) fn fork_failures(&self) -> io::Result<u64> {
        let pids = &self.folders[self.pids];
        self.files.process_events.read_field(pids, "max")
    }

    pub(super) fn sample(&self) -> io::Result<Sample> {
        let memory = &self.folders[self.memory];
        let pids = &self.folders[self.pids];
        let files = &self.files;
        let stat = files.memory_stat.read(memory)?;
        let bytes = |key| field(&stat, key).ok_or_else(|| files.memory_stat.unreadable(memory));
        let (cache, shmem) = (bytes("total_cache")?, bytes("total_shmem")?);
        let Tally { cpu, processes_peak, oom_kills, fork_failures } = self.tally()?;
        let buffers = if_there(files.socket_buffers.read_number(memory))?.unwrap_or(0);
        Ok(Sample {
            memory_without_shmem: Bytes(bytes("total_rss")?.saturating_add(buffers)),
            kernel: if_there(files.kernel.read_number(memory))?.map(Bytes),
            shmem: Bytes(shmem),
            reclaimable: Bytes(cache.saturating_sub(shmem)),
            memory_peak: if_there(files.memory_peak.read_number(memory))?.map(Bytes),
            cpu,
            processes: files.processes.read_number(pids)?,
            processes_peak,
            oom_kills,
            fork_failures,
        })
    }

    pub(super) fn tally(&self) -> io::Result<Tally> {
        let (memory, pids, files) = (&self.folders[self.memory], &self.folders[self.pids], &self.files);
        let cpu = match self.cpuacct {
            Some(index) => Some(files.cpu.read_number(&self.folders[index])?),
            None => None,
        };
        Ok(Tally {
            cpu: cpu.map(Duration::from_nanos),
            processes_peak: if_there(files.processes_peak.read_number(pids))?,
            oom_kills: files.oom_control.read_field(memory, "oom_kill")?,
            fork_failures: self.fork_failures()?,
        })
    }

    /// Opens what is needed to ask the kernel for room.
    pub(super) fn squeeze(&self) -> io::Result<Squeeze> {
        let memory = &self.folders[self.memory];
        Ok(Squeeze { file: memory.open_for_writing(LIMIT_FILE)?.into(), limit: self.limit })
    }

    /// Removes every remaining folder. Can be called again after an error.
    pub(super) fn remove(&mut self) -> io::Result<()> {
        self.tasks = Vec::new();
        while let Some(folder) = self.folders.last() {
            folder.remove()?;
            self.folders.pop();
        }
        Ok(())
    }

    /// Index of the group's folder in the hierarchy of `base`; makes the folder if it is missing.
    fn add(&mut self, base: &Path, name: &str) -> io::Result<usize> {
        if let Some(index) = self.place_in(base) {
            return Ok(index);
        }
        self.folders.push(Folder::create(&base.join(name))?);
        let index = self.folders.len() - 1;
        self.tasks.push(self.folders[index].open_for_writing("tasks")?);
        Ok(index)
    }

    fn place_in(&self, base: &Path) -> Option<usize> {
        self.folders.iter().position(|folder| folder.path().parent() == Some(base))
    }
}

fn distinct(paths: Vec<&Path>) -> Vec<&Path> {
    let mut kept: Vec<&Path> = Vec::with_capacity(paths.len());
    for path in paths {
        if !kept.contains(&path) {
            kept.push(path);
        }
    }
    kept
}
