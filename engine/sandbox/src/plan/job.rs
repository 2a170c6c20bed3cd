//! Job x sources x shape plan -> the message that starts the job, or a refusal. Pure.

use std::ffi::{CString, OsStr, OsString};
use std::os::unix::ffi::OsStrExt;
use std::path::{Component, Path, PathBuf};

use hotcell_launcher::wire::{How, MAX_MOUNTS, window};
use nix::libc;

use super::{ShapePlan, check_limits, row, scratch_files};
use crate::access::{self, Grant};
use crate::encode::{self, JobMount};
use crate::host::Host;
use crate::ids::Mapping;
use crate::layer::Layer;
use crate::network;
use crate::outcome::Mount;
use crate::policy::{
    FileId, HOME, Job, Limits, Link, OPEN_FILES, OPEN_FILES_OF_A_USER, PROJECT_NAME, Stdin, WindowSize,
};
use crate::refusal::Refusal;
use crate::root::{self, Place, cstring};
use crate::units::Bytes;

/// A host file or folder that is to be mounted, as the engine found it.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Source {
    /// Canonical path on the host.
    pub host: PathBuf,
    /// Path inside.
    pub inside: PathBuf,
    /// Reason for the mount.
    pub kind: SourceKind,
    /// True for a folder, false for a file.
    pub folder: bool,
    /// The file or folder that it must be; if `None`, any that has the name.
    pub identity: Option<FileId>,
}

impl Source {
    /// Like `self`, but bound to the file or folder that has the name now; `None` if it does not exist.
    pub(crate) fn as_it_is(&self) -> Option<Self> {
        if self.identity.is_some() {
            return Some(self.clone());
        }
        Some(Self { identity: Some(FileId::from(&self.host.metadata().ok()?)), ..self.clone() })
    }

    /// Whether both mount the same host path at the same place, for the same reason.
    pub(crate) fn names_the_same(&self, other: &Self) -> bool {
        (&self.host, &self.inside, self.kind) == (&other.host, &other.inside, other.kind)
    }

    /// Path below the home folder to which the source is copied in a sandbox without a root of its own. A
    /// source in the home folder that the program cannot change on the host needs no mount.
    pub fn copied_to(&self) -> Option<&Path> {
        let copied =
            matches!(self.kind, SourceKind::Workspace | SourceKind::ReadOnly | SourceKind::CopyOnWrite);
        self.inside.strip_prefix(HOME).ok().filter(|path| copied && !path.as_os_str().is_empty())
    }
}

/// Reason for a mount.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum SourceKind {
    /// Copy-on-write.
    Workspace,
    /// A layer of the workspace; the workspace itself comes after its layers.
    Layer,
    /// Read-only, named by the user.
    ReadOnly,
    /// Changeable for this run only, named by the user.
    CopyOnWrite,
    /// Writable, named by the user.
    ReadWrite,
    /// Read-only, at the same path as on the host.
    Toolchain,
}

impl SourceKind {
    fn name(self) -> &'static str {
        match self {
            Self::Workspace | Self::Layer => "workspace",
            Self::ReadOnly | Self::CopyOnWrite | Self::ReadWrite => "bind",
            Self::Toolchain => "toolchain",
        }
    }
    /// Whether the program may write there.
    pub const fn writable(self) -> bool {
        matches!(self, Self::Workspace | Self::CopyOnWrite | Self::ReadWrite)
    }
}

/// A job, ready to be sent.
#[derive(Clone, Debug)]
pub struct JobPlan {
    /// The message.
    pub job: encode::Job,
    /// Mounts in addition to the shape's.
    pub mounts: Vec<Mount>,
}

/// Whether a path inside lies in scratch, where folders can be made when the job arrives.
pub fn in_scratch(inside: &Path) -> bool {
    [HOME, "/tmp", "/var/tmp", "/dev/shm"]
        .iter()
        .any(|top| inside.starts_with(top) && inside != Path::new(top))
}

/// Variables that every program has, unless the job overrides them.
pub(crate) fn defaults(home: &Path) -> [(&'static str, &OsStr); 4] {
    let temporary = if home == Path::new(HOME) { OsStr::new("/tmp") } else { home.as_os_str() };
    [
        ("PATH", OsStr::new("/usr/local/bin:/usr/bin:/bin")),
        ("HOME", home.as_os_str()),
        ("LANG", OsStr::new("C.UTF-8")),
        ("TMPDIR", temporary),
    ]
}

/// The environment of a program.
fn environment(job: &Job, home: &Path, proxied: bool) -> Vec<(OsString, OsString)> {
    let mut env: Vec<(OsString, OsString)> = Vec::new();
    let defaults = defaults(home);
    let proxy = network::variables().filter(|_| proxied).map(|(n, v)| (n.into(), v.into()));
    let defaults = defaults.map(|(n, v)| (OsString::from(n), v.to_owned())).into_iter().chain(proxy);
    for (name, value) in defaults.chain(job.env.iter().cloned()) {
        match env.iter_mut().find(|(known, _)| *known == name) {
            Some(slot) => slot.1 = value,
            None => env.push((name, value)),
        }
    }
    env
}

/// Maximum length of a single argument or variable on Linux (the kernel's `MAX_ARG_STRLEN`). `execve(2)`
const MAX_ARGUMENT_LEN: usize = 128 * 1024 - 1;
const MAX_ARGUMENTS_BYTES: usize = 2 * 1024 * 1024 - 64 * 1024;

/// Places of a job's folders in the sandbox's own home folder; a mount at one of them, or around it, decides what is there.
fn made_folders(job: &Job, sources: &[Source], rooted: bool) -> Result<Vec<CString>, Refusal> {
    let mut made = Vec::new();
    for folder in &job.folders {
        let is_below = folder.components().all(|part| matches!(part, Component::Normal(_)));
        if !is_below || folder.as_os_str().is_empty() {
            return Err(Refusal::new(format!(
                "the folder {} is not below the home folder",
                folder.display()
            )));
        }
        let at = Path::new(HOME).join(folder);
        let name = text(at.as_os_str(), "a folder")?;
        let is_mounted = |s: &Source| s.inside.starts_with(&at) || at.starts_with(&s.inside);
        if rooted && !sources.iter().any(is_mounted) {
            made.push(name);
        }
    }
    Ok(made)
}

/// Plans a job for a sandbox of this plan. `links` are made in scratch. `home` is its home folder inside. `beside` counts the tasks that
/// the kernel counts together with the program's, where it has no user namespace of its own.
///
/// # Errors
/// [`Refusal`] when the job asks for more than the shape has, or for something that no kernel accepts.
pub fn job(
    job: &Job,
    sources: &[Source],
    links: &[Link],
    home: &Path,
    plan: &ShapePlan,
    host: &Host,
    beside: Option<u64>,
) -> Result<JobPlan, Refusal> {
    check_limits(&job.limits, host)?;
    check_ceilings(&job.limits, &plan.ceilings)?;
    let made = made_folders(job, sources, plan.rooted)?;
    let program = job.argv.first().filter(|p| !p.is_empty());
    let program = program.ok_or_else(|| Refusal::new("there is no program to run; name one after --"))?;
    let argv = job.argv.iter().map(|a| text(a, "an argument")).collect::<Result<Vec<_>, _>>()?;
    if job.proxy.is_some() && !plan.proxied() {
        return Err(Refusal::new(
            "this sandbox has no sockets for a proxy; set the shape's network to proxy",
        ));
    }
    let env_pairs = environment(job, home, plan.proxied());
    let env = env_pairs
        .iter()
        .map(|(name, value)| {
            if name.is_empty() || name.as_bytes().contains(&b'=') {
                return Err(Refusal::new(format!("{name:?} cannot be the name of an environment variable")));
            }
            let mut both = name.clone();
            both.push("=");
            both.push(value);
            text(&both, "an environment variable")
        })
        .collect::<Result<Vec<_>, _>>()?;
    let total: usize = argv.iter().chain(&env).map(|s| s.as_bytes().len() + 1 + size_of::<usize>()).sum();
    if total > MAX_ARGUMENTS_BYTES {
        return Err(Refusal::new(format!(
            "arguments and environment take {total} bytes, and Linux takes at most {MAX_ARGUMENTS_BYTES}; pass a file instead"
        )));
    }
    if sources.len() > MAX_MOUNTS {
        return Err(Refusal::new(format!(
            "{} folders are to be mounted, and {MAX_MOUNTS} are possible",
            sources.len()
        )));
    }
    if matches!(job.stdin, Stdin::Terminal(_)) && !plan.rooted {
        return Err(Refusal {
            layer: Some(Layer::MountNs),
            ..Refusal::new(
                "a terminal is made in the sandbox's own /dev/pts, which needs a mount namespace; use another \
                 profile, or run the program without a terminal",
            )
        });
    }
    let mut mounts = Vec::new();
    let mut rules = Vec::new();
    for source in sources {
        if source.kind == SourceKind::ReadWrite && !plan.host_writes {
            return Err(Refusal::new(format!(
                "this sandbox may not write to the host's {}; set the shape's host_writes",
                source.host.display()
            )));
        }
        // A test that removes the mount namespace keeps the rules, at the place where it put the folder.
        if !plan.rooted && !plan.knocked_out && source.copied_to().is_none() && source.inside != source.host {
            return Err(Refusal {
                layer: Some(Layer::MountNs),
                ..Refusal::new(format!(
                    "{} cannot be shown at {}: without a mount namespace a folder keeps its place",
                    source.host.display(),
                    source.inside.display()
                ))
            });
        }
        if !plan.rooted && source.kind == SourceKind::Layer {
            return Err(Refusal {
                layer: Some(Layer::MountNs),
                ..Refusal::new(
                    "a workspace that was changed before needs a mount namespace; use another profile",
                )
            });
        }
        let place = Place { inside: source.inside.clone(), folder: source.folder };
        if plan.rooted && !in_scratch(&source.inside) && !plan.places.contains(&place) {
            return Err(Refusal::new(format!(
                "this sandbox has no place for {}; name it in the shape's places",
                source.inside.display()
            )));
        }
        if plan.rooted && !plan.has(source) {
            mounts.push(JobMount {
                how: match (source.kind, source.folder) {
                    (SourceKind::Workspace | SourceKind::CopyOnWrite, _) => How::CopyOnWrite,
                    (SourceKind::Layer, _) => How::Layer,
                    (SourceKind::ReadOnly, true) => How::Sealed,
                    _ => How::Bind,
                },
                dir: source.folder,
                target: text(source.inside.as_os_str(), "a path")?,
            });
        }
        if plan.landlock_abi > 0
            && plan.late
            && source.kind != SourceKind::Layer
            && (plan.rooted || source.copied_to().is_none())
        {
            let grant = if source.kind.writable() { Grant::Write } else { Grant::Execute };
            rules.push(access::rule(plan.landlock_abi, &source.inside, grant, source.folder));
        }
    }
    let cwd = match &job.cwd {
        Some(cwd) => inside_path(cwd)?,
        None if job.workspace.is_some() => home.join(PROJECT_NAME),
        None => home.to_owned(),
    };
    let changed = job.limits.disk != plan.ceilings.disk || job.limits.files != plan.ceilings.files;
    Ok(JobPlan {
        job: encode::Job {
            events: job.events,
            terminal: match job.stdin {
                Stdin::Terminal(WindowSize { rows, columns }) => window(rows.max(1), columns.max(1)),
                _ => 0,
            },
            scratch_bytes: if changed { job.limits.disk.0 } else { 0 },
            scratch_files: scratch_files(&job.limits),
            memory: job.limits.memory.0,
            mounts,
            links: links
                .iter()
                .map(|(at, says)| (cstring(at), cstring(says)))
                .chain(made.into_iter().map(|at| (at, CString::default())))
                .collect(),
            rules,
            rlimits: if plan.layers.is_on(Layer::Rlimits) {
                rlimits(&job.limits, plan.group, beside, open_files(job.limits.open_files, host)?)
            } else {
                Vec::new()
            },
            cwd: text(cwd.as_os_str(), "the start folder")?,
            programs: candidates(program, &env_pairs, &cwd),
            argv,
            env,
        },
        mounts: sources
            .iter()
            .filter(|s| s.kind != SourceKind::Layer)
            .map(|s| {
                let kind = if !plan.rooted && s.copied_to().is_some() { "copy" } else { s.kind.name() };
                row(&s.inside.to_string_lossy(), kind, s.kind.writable())
            })
            .collect(),
    })
}

fn check_ceilings(limits: &Limits, ceilings: &Limits) -> Result<(), Refusal> {
    let above = |name: &str, asked: String, most: String| {
        Refusal::new(format!(
            "the limit {name} of {asked} is above this shape's {most}; lower it or raise the ceiling"
        ))
    };
    if limits.memory > ceilings.memory {
        return Err(above("memory", limits.memory.to_string(), ceilings.memory.to_string()));
    }
    if limits.disk > ceilings.disk {
        return Err(above("disk", limits.disk.to_string(), ceilings.disk.to_string()));
    }
    if limits.processes > ceilings.processes {
        return Err(above("processes", limits.processes.to_string(), ceilings.processes.to_string()));
    }
    if limits.cpus.is_some() && ceilings.cpus.is_none() {
        return Err(Refusal::new(
            "a limit on cpus must stand in the shape's ceilings, before the sandbox is made",
        ));
    }
    if limits.files > ceilings.files {
        return Err(above("files", limits.files.to_string(), ceilings.files.to_string()));
    }
    Ok(())
}

fn text(text: &OsStr, what: &str) -> Result<CString, Refusal> {
    if text.len() > MAX_ARGUMENT_LEN {
        return Err(Refusal::new(format!(
            "{what} is {} bytes long, and Linux takes at most {MAX_ARGUMENT_LEN}; pass a file instead",
            text.len()
        )));
    }
    CString::new(text.as_bytes())
        .map_err(|_| Refusal::new(format!("{what} contains a NUL character: {:?}", text.to_string_lossy())))
}

/// Checks that a path inside is absolute and without `..`, and normalizes it.
pub fn inside_path(path: &Path) -> Result<PathBuf, Refusal> {
    if !path.is_absolute() || path.components().any(|c| c == Component::ParentDir) {
        return Err(Refusal::new(format!(
            "{} is not a path inside a sandbox: it must start with / and have no `..`",
            path.display()
        )));
    }
    if path.as_os_str().as_bytes().contains(&0) {
        return Err(Refusal::new(format!("{:?} contains a NUL character", path.to_string_lossy())));
    }
    Ok(path.components().collect())
}

/// The paths at which a program may be found: its own, or one for every folder of the `PATH` inside.
fn candidates(program: &OsStr, env: &[(OsString, OsString)], cwd: &Path) -> Vec<CString> {
    if program.as_bytes().contains(&b'/') {
        return vec![root::cstring(cwd.join(program))];
    }
    let path =
        env.iter().find(|(name, _)| name == "PATH").map(|(_, value)| value.clone()).unwrap_or_default();
    std::env::split_paths(&path)
        .filter(|dir| dir.is_absolute())
        .map(|dir| root::cstring(dir.join(program)))
        .collect()
}

/// Descriptors that hotcell reserves above the limit of a run's processes: enough for two of the longest
/// messages with descriptors.
const OWN_DESCRIPTORS: u64 = 512;
/// Minimum number of descriptors with which an interpreter starts.
const MIN_OPEN_FILES: u64 = 16;

/// The maximum number of descriptors for each process of a run.
///
/// Linux counts the descriptors in flight over sockets for each user of the host, and refuses to send when
/// the sum is above the *sender's* limit. The program's limit must be below hotcell's own, so that hotcell
/// can always send. `unix(7)`, ETOOMANYREFS
pub(super) fn open_files(asked: Option<u64>, host: &Host) -> Result<u64, Refusal> {
    let most = host.open_files.saturating_sub(OWN_DESCRIPTORS).max(host.open_files / 2);
    let usual = match host.mapping {
        Mapping::Privileged => OPEN_FILES,
        Mapping::OwnId { .. } => OPEN_FILES_OF_A_USER,
    };
    match asked {
        None => Ok(usual.min(most)),
        Some(few) if few < MIN_OPEN_FILES => Err(Refusal::new(format!(
            "the limit open_files of {few} is below {MIN_OPEN_FILES}, with which no program starts; raise it or leave it out"
        ))),
        Some(many) if many > most => Err(Refusal::new(format!(
            "the limit open_files of {many} is above {most}: hotcell itself may have {} and keeps some above those of its runs; lower \
             it, or raise the hard limit (`ulimit -Hn`)",
            host.open_files
        ))),
        Some(some) => Ok(some),
    }
}

/// Per-process limits. With a cgroup they are a second line, slightly higher, so that the limits of the
/// cgroup, which can be reported, are reached first.
fn rlimits(limits: &Limits, group: bool, beside: Option<u64>, open_files: u64) -> Vec<(u32, u64, u64)> {
    const INIT: u64 = 1;
    // Allowance for tasks that the user's other programs start meanwhile, where the kernel counts them with
    // the program's.
    const OTHER_TASKS: u64 = 64;
    let slack = if group { 16 } else { beside.map_or(0, |tasks| tasks.saturating_add(OTHER_TASKS)) };
    let processes = (u64::from(limits.processes) + INIT).saturating_add(slack);
    let mut list = vec![
        // Not 0: on a crash in the sandbox, the kernel would start the host's core_pattern handler as root of
        // the host. With 1 byte it starts no handler and writes no file, since a core has at least one page.
        // `core(5)`
        (libc::RLIMIT_CORE, 1, 1),
        // The hard limit too: if the program could raise it, hotcell's own messages to other sandboxes could
        // fail; see `open_files`.
        (libc::RLIMIT_NOFILE, open_files, open_files),
        (libc::RLIMIT_NPROC, processes, processes),
        (libc::RLIMIT_MEMLOCK, 8 << 20, 8 << 20),
        // Both count for the host user that made the user namespace, even root, together with that user's
        // other programs: a quarter of the usual 819,200 bytes, enough for two queues of the default size,
        // and a small part of the usual signals.
        (libc::RLIMIT_MSGQUEUE, 204_800, 204_800),
        (libc::RLIMIT_SIGPENDING, 1_024, 1_024),
        (libc::RLIMIT_NICE, 0, 0),
        (libc::RLIMIT_RTPRIO, 0, 0),
        (libc::RLIMIT_STACK, 8 << 20, libc::RLIM_INFINITY),
    ];
    if let Some(cpu) = limits.cpu_time {
        // Applies to each process separately, so it only backs up the sum that the supervisor watches.
        let seconds = cpu.as_secs() + 2;
        list.push((libc::RLIMIT_CPU, seconds, seconds + 1));
    }
    if !group {
        // Never RLIMIT_AS: 64 GiB reserved and untouched must work. The value is well above the limit itself,
        // so that the supervisor, which can name the cause, notices the tree's sum first; this stops growth
        // that is faster than the supervisor.
        let data = limits.memory.0.saturating_add(limits.memory.0.max(Bytes::mib(256).0));
        list.push((libc::RLIMIT_DATA, data, data));
    }
    list
}

#[cfg(test)]
mod tests {
    use super::super::tests::full_host;
    use super::super::{Ahead, shape};
    use super::*;
    use crate::policy::Shape;

    #[test]
    fn run_has_fewer_descriptors_than_hotcell() {
        let user = Mapping::OwnId { uid: 7, gid: 7 };
        for (mapping, outside, asked, inside) in [
            (Mapping::Privileged, 1_000_000, None, Some(1024)),
            (user, 1_000_000, None, Some(768)),
            (user, 1024, None, Some(512)),
            (user, 256, None, Some(128)),
            (Mapping::Privileged, 1024, None, Some(512)),
            (user, 20_000, Some(19_488), Some(19_488)),
            (user, 20_000, Some(19_489), None),
            (user, 20_000, Some(16), Some(16)),
            (user, 20_000, Some(15), None),
            (user, u64::MAX, Some(1 << 40), Some(1 << 40)),
        ] {
            let host = Host { mapping, open_files: outside, ..full_host() };
            let found = open_files(asked, &host);
            assert_eq!(found.as_ref().ok().copied(), inside, "{outside} {asked:?}");
            assert!(
                found.map_or_else(|e| e.message.contains("open_files"), |n| n < outside),
                "{outside} {asked:?}"
            );
        }
        let list = rlimits(&Limits::default(), true, None, 600);
        assert!(list.contains(&(libc::RLIMIT_NOFILE, 600, 600)), "{list:?}");
        // With 1, the host's core_pattern handler is not started; with 0 it is. core(5)
        assert!(list.contains(&(libc::RLIMIT_CORE, 1, 1)), "{list:?}");
    }

    #[test]
    fn process_limit_allows_for_other_processes() {
        let limits = Limits { processes: 64, ..Limits::default() };
        let most = |group, beside| {
            let list = rlimits(&limits, group, beside, 1024);
            list.iter().find(|(resource, ..)| *resource == libc::RLIMIT_NPROC).map(|(_, soft, _)| *soft)
        };
        assert_eq!(most(false, None), Some(65));
        assert_eq!(most(true, Some(300)), Some(81), "the cgroup counts");
        assert_eq!(most(false, Some(300)), Some(429));
    }

    #[test]
    fn jobs_that_no_kernel_takes_are_refused() {
        let plan = shape(&Shape::default(), &full_host(), Ahead::Unknown).unwrap();
        let with = |argv: Vec<OsString>| Job { argv, ..Job::default() };
        for (argv, word) in [
            (vec![], "no program"),
            (vec![OsString::new()], "no program"),
            (vec!["a\0b".into()], "NUL"),
            (vec!["a".into(), "x".repeat(200_000).into()], "bytes long"),
            (vec![OsString::from("x".repeat(100_000)); 30], "at most"),
        ] {
            let refusal = job(&with(argv), &[], &[], Path::new(HOME), &plan, &full_host(), None).unwrap_err();
            assert!(refusal.message.contains(word), "{word}: {refusal}");
        }
    }

    #[test]
    fn program_lookup_uses_paths_inside() {
        let env = [(OsString::from("PATH"), OsString::from("/a:rel:/b"))];
        let found = |program: &str| {
            candidates(program.as_ref(), &env, Path::new("/w"))
                .into_iter()
                .map(|c| c.into_string().unwrap())
                .collect::<Vec<_>>()
        };
        assert_eq!(found("x"), ["/a/x", "/b/x"]);
        assert_eq!(found("./x"), ["/w/./x"]);
        assert_eq!(found("/q/x"), ["/q/x"]);
    }

    #[test]
    fn paths_inside_are_absolute_and_straight() {
        for (path, good) in [("/a/b", true), ("/a/../b", false), ("a", false), ("/a//./b", true)] {
            assert_eq!(inside_path(Path::new(path)).is_ok(), good, "{path}");
        }
    }

    #[test]
    fn job_exceeding_shape_is_refused() {
        let plan = shape(&Shape::default(), &full_host(), Ahead::Unknown).unwrap();
        let mut big = Job { argv: vec!["x".into()], ..Job::default() };
        big.limits.memory = Bytes::gib(1);
        assert!(
            job(&big, &[], &[], Path::new(HOME), &plan, &full_host(), None)
                .unwrap_err()
                .message
                .contains("ceiling")
        );
    }
}
