//! Policy x host -> plan. Pure: which layers, mounts, rules and numbers, or a refusal. Nothing here touches
//! the system, and nothing later decides again.

use std::collections::BTreeSet;
use std::ffi::{CString, OsStr, OsString};
use std::os::unix::ffi::OsStrExt;
use std::path::{Component, Path, PathBuf};

use hotcell_launcher::wire::{How, MAX_MOUNTS, setup};
use nix::libc;

use crate::access::{self, Grant};
use crate::encode::{self, JobMount, Setup};
use crate::failure::LACKS;
use crate::host::Host;
use crate::ids::{self, Mapping};
use crate::layer::Layer;
use crate::outcome::{Cause, LayerState, Layers, Mount};
use crate::policy::{Confinement, HOME, Job, Limits, Network, PROJECT_NAME, ProcView, Shape};
use crate::root::{self, Place, TERMINAL};
use crate::seccomp::{self, Arch};
use crate::units::Bytes;

/// Why nothing ran.
#[derive(Clone, Debug, PartialEq, Eq, thiserror::Error)]
#[error("{message}")]
pub struct Refusal {
    /// `refused`, `not_found`, `not_executable` or `internal`.
    pub cause: Cause,
    /// The layer that could not be had.
    pub layer: Option<Layer>,
    /// What failed, and what to do.
    pub message: String,
}

impl Refusal {
    /// A policy that cannot be met.
    pub fn new(message: impl Into<String>) -> Self {
        Self { cause: Cause::Refused, layer: None, message: message.into() }
    }
    /// A failure of hotcell itself.
    pub fn internal(message: impl Into<String>) -> Self {
        Self { cause: Cause::Internal, layer: None, message: message.into() }
    }
}

/// Everything about a sandbox that does not depend on its job.
#[derive(Clone, Debug)]
pub struct ShapePlan {
    /// The request to the launcher; ids and template are filled in when it is sent.
    pub setup: Setup,
    /// What is in force.
    pub layers: Layers,
    /// What is mounted.
    pub mounts: Vec<Mount>,
    /// Confine the program only when its mounts are there.
    pub late: bool,
    /// Make a cgroup with these limits.
    pub group: bool,
    /// It has a root of its own; without, a private folder of the host is its scratch.
    pub rooted: bool,
    /// The limits that it was planned for.
    pub ceilings: Limits,
    /// Where something may be mounted when the job arrives; what differs between roots.
    pub places: BTreeSet<Place>,
    host_writes: bool,
    knocked_out: bool,
    landlock_abi: u32,
}

impl ShapePlan {
    /// Fills in the host ids. Without an own user namespace they are the ids inside as well.
    pub fn with_ids(&mut self, outside: (u32, u32)) {
        self.setup.outside = outside;
        if !self.layers.is_on(Layer::UserNs) {
            self.setup.inside = outside;
        }
    }

    /// Lets the program use a private folder of the host as its scratch.
    pub fn allow_scratch(&mut self, folder: &Path) {
        if self.landlock_abi > 0 {
            let rule = access::rule(self.landlock_abi, folder, Grant::Write, true);
            self.setup.landlock.rules.push(rule);
        }
    }
}

/// Plans a shape.
///
/// # Errors
/// [`Refusal`] when a required layer is missing or a number makes no sense.
pub fn shape(shape: &Shape, host: &Host) -> Result<ShapePlan, Refusal> {
    check_limits(&shape.ceilings, host)?;
    let layers = layers(shape, host);
    for layer in &shape.require {
        match layers.states.get(layer) {
            Some(LayerState::On) => {}
            Some(LayerState::Unavailable(why)) => return Err(missing(*layer, why)),
            _ => {
                let why = format!("the policy requires the layer {layer}, and switches it off");
                return Err(Refusal { layer: Some(*layer), ..Refusal::new(why) });
            }
        }
    }
    let on = |layer| layers.is_on(layer);
    let abi = if on(Layer::Landlock) { host.landlock.clone().unwrap_or(0) } else { 0 };
    let rooted = on(Layer::MountNs);
    let places: BTreeSet<Place> = shape
        .places
        .iter()
        .map(|p| Ok(Place { inside: inside_path(&p.inside)?, folder: p.folder }))
        .collect::<Result<_, Refusal>>()?;

    let mut flags = 0;
    let mut namespaces = 0;
    for (layer, clone, flag) in [
        (Layer::UserNs, libc::CLONE_NEWUSER, 0),
        (Layer::MountNs, libc::CLONE_NEWNS, setup::ROOT | setup::SCRATCH | setup::DEVPTS),
        (Layer::PidNs, libc::CLONE_NEWPID, setup::PID_NS),
        (
            Layer::NetNs,
            libc::CLONE_NEWNET,
            if shape.network == Network::Loopback { setup::LOOPBACK } else { 0 },
        ),
        (Layer::IpcNs, libc::CLONE_NEWIPC, 0),
        (Layer::UtsNs, libc::CLONE_NEWUTS, 0),
        (Layer::TimeNs, CLONE_NEWTIME, 0),
        (Layer::Landlock, 0, setup::LANDLOCK),
        (Layer::Seccomp, 0, setup::SECCOMP),
        (Layer::NoNewPrivs, 0, setup::NO_NEW_PRIVS),
        (Layer::Capabilities, 0, setup::DROP_CAPS),
        (Layer::CgroupNs, 0, setup::CGROUP_NS),
    ] {
        if on(layer) {
            namespaces |= u64::from(clone.cast_unsigned());
            flags |= flag;
        }
    }
    if rooted && on(Layer::PidNs) {
        flags |= setup::PROC;
        if shape.proc == ProcView::OwnProcesses {
            flags |= setup::PROC_SUBSET;
        } else if on(Layer::UserNs) {
            flags |= setup::NO_NESTED_USER_NS;
        }
    }
    if rooted && on(Layer::IpcNs) {
        flags |= setup::MQUEUE;
    }
    // By design without an own user namespace, root still becomes nobody; knocked out, it stays root.
    let plain = shape.confinement == Confinement::LandlockOnly;
    if (on(Layer::UserNs) || plain) && host.mapping == Mapping::Privileged {
        flags |= setup::PRIVILEGED_MAP;
    }
    if flags & setup::PROC != 0 || !(rooted || on(Layer::PidNs)) {
        flags |= setup::READBACK;
    }
    let late = !places.is_empty();
    if late {
        flags |= setup::HARDEN_LATE;
    }
    let notify = layers.notifications == LayerState::On;
    if notify {
        flags |= setup::LISTENER;
    }
    let group = on(Layer::Cgroup);
    match (group, host.cgroup.as_ref()) {
        (true, Ok(1)) => flags |= setup::CGROUP_V1,
        (true, Ok(_)) => flags |= setup::CGROUP_V2,
        _ => flags |= setup::SAMPLE,
    }
    // On the host's own network the only loopback is the host's: no sockets at all then.
    let network = if plain { Network::Off } else { shape.network };
    let filter_options = seccomp::Options {
        notify,
        internet: network == Network::Loopback,
        namespaces: on(Layer::PidNs),
        host_writes: shape.host_writes,
        plain,
        accounted: group,
        truncates: plain && abi < access::TRUNCATION,
    };
    let setup = Setup {
        flags,
        namespaces,
        inside: (ids::INSIDE, ids::INSIDE),
        scratch_bytes: shape.ceilings.disk.0,
        scratch_files: scratch_files(&shape.ceilings),
        hostname: if on(Layer::UtsNs) { b"sandbox".to_vec() } else { Vec::new() },
        masks: if flags & (setup::PROC | setup::PROC_SUBSET) == setup::PROC {
            MASKS.iter().map(|path| CString::from(*path)).collect()
        } else {
            Vec::new()
        },
        landlock: match (abi, rooted) {
            (0, _) => encode::Ruleset::default(),
            (_, true) => access::ruleset(abi, &host.root, shape.network),
            (_, false) => access::host_ruleset(abi, &host.root, network),
        },
        filter: if on(Layer::Seccomp) {
            seccomp::program(Arch::HOST, filter_options).as_bytes()
        } else {
            Vec::new()
        },
        // Process 1's own filter is a part of the same layer.
        init_filter: if on(Layer::Seccomp) { seccomp::init(Arch::HOST).as_bytes() } else { Vec::new() },
        ..Setup::default()
    };
    let mounts = if rooted { system_mounts(flags, host) } else { Vec::new() };
    Ok(ShapePlan {
        setup,
        layers,
        mounts,
        late,
        group,
        rooted,
        places,
        ceilings: shape.ceilings.clone(),
        host_writes: shape.host_writes,
        knocked_out: !shape.knocked_out.0.is_empty(),
        landlock_abi: abi,
    })
}

/// `CLONE_NEWTIME`, which `libc` lacks on some targets.
const CLONE_NEWTIME: i32 = 0x80;

/// Parts of `/proc` that tell of the host or act on it, with owner and Landlock as the other walls.
const MASKS: [&std::ffi::CStr; 7] = [
    c"proc/sysrq-trigger",
    c"proc/kcore",
    c"proc/kmsg",
    c"proc/kallsyms",
    c"proc/keys",
    c"proc/timer_list",
    c"proc/sys",
];

fn missing(layer: Layer, why: &str) -> Refusal {
    Refusal {
        cause: Cause::Refused,
        layer: Some(layer),
        message: format!("the policy requires the layer {layer}, and it {LACKS}{why}"),
    }
}

/// The state of every layer as planned.
fn layers(shape: &Shape, host: &Host) -> Layers {
    let namespaces = shape.confinement == Confinement::Namespaces;
    let mut layers = Layers::default();
    for layer in Layer::ALL {
        let state = match layer {
            _ if shape.knocked_out.0.contains(&layer) => LayerState::Off,
            Layer::UserNs | Layer::MountNs | Layer::PidNs | Layer::NetNs | Layer::IpcNs | Layer::UtsNs
                if !namespaces =>
            {
                LayerState::Off
            }
            Layer::CgroupNs | Layer::TimeNs if !namespaces => LayerState::Off,
            Layer::TimeNs => state(host.time_ns.as_ref().err()),
            Layer::Landlock => state(host.landlock.as_ref().err()),
            Layer::Cgroup => state(host.cgroup.as_ref().err()),
            _ => LayerState::On,
        };
        layers.states.insert(layer, state);
    }
    // Without the privilege of an own user namespace the others cannot be made by an ordinary user.
    if !layers.is_on(Layer::UserNs) && host.mapping != Mapping::Privileged {
        for layer in [
            Layer::MountNs,
            Layer::PidNs,
            Layer::NetNs,
            Layer::IpcNs,
            Layer::UtsNs,
            Layer::CgroupNs,
            Layer::TimeNs,
        ] {
            layers.states.insert(layer, LayerState::Off);
        }
    }
    // A ruleset names paths of the sandbox's own tree.
    if layers.is_on(Layer::Landlock) {
        layers.landlock_abi = access::in_force(host.landlock.clone().unwrap_or(0));
    }
    if layers.is_on(Layer::Cgroup) {
        layers.cgroup_version = host.cgroup.clone().unwrap_or(0);
    }
    if layers.is_on(Layer::Seccomp) {
        layers.notifications = state(host.notifications.as_ref().err());
    }
    layers
}

fn state(why: Option<&String>) -> LayerState {
    why.map_or(LayerState::On, |why| LayerState::Unavailable(why.clone()))
}

fn system_mounts(flags: u32, host: &Host) -> Vec<Mount> {
    let mut mounts = vec![row("/", "system", false), row("/usr", "system", false)];
    mounts.extend(host.root.folders().map(|name| row(&format!("/{name}"), "system", false)));
    mounts.extend(host.root.etc_folders.iter().map(|name| row(&format!("/etc/{name}"), "system", false)));
    let devices = host.root.devices.iter().chain([&TERMINAL]);
    mounts.extend(devices.map(|name| row(&format!("/dev/{name}"), "device", true)));
    for path in [HOME, "/tmp", "/var/tmp", "/dev/shm"] {
        mounts.push(row(path, "scratch", true));
    }
    if flags & setup::PROC != 0 {
        mounts.push(row("/proc", "proc", false));
    }
    mounts.push(row("/dev/pts", "devpts", true));
    if flags & setup::MQUEUE != 0 {
        mounts.push(row("/dev/mqueue", "mqueue", true));
    }
    mounts
}

fn row(inside: &str, kind: &str, writable: bool) -> Mount {
    Mount { inside: inside.to_owned(), kind: kind.to_owned(), writable }
}

/// Our own folders in scratch that must not count as the program's.
pub const OWN_SCRATCH_FILES: u64 = 8;

fn scratch_files(limits: &Limits) -> u64 {
    limits.files.saturating_add(OWN_SCRATCH_FILES)
}

/// The smallest memory in which a program can start at all.
const LEAST_MEMORY: Bytes = Bytes::mib(1);

fn check_limits(limits: &Limits, host: &Host) -> Result<(), Refusal> {
    let zero = |name: &str| {
        Refusal::new(format!("the limit {name} is 0, so nothing could run; raise it or leave it out"))
    };
    for (name, value) in [
        ("memory", limits.memory.0),
        ("processes", limits.processes.into()),
        ("disk", limits.disk.0),
        ("files", limits.files),
        ("output", limits.output.0),
    ] {
        if value == 0 {
            return Err(zero(name));
        }
    }
    if limits.wall.is_zero() {
        return Err(zero("timeout"));
    }
    if limits.cpu_time.is_some_and(|t| t.is_zero()) {
        return Err(zero("cpu-time"));
    }
    if limits.cpus.is_some_and(|n| !n.is_finite() || n < 0.01) {
        return Err(Refusal::new("the limit cpus must be at least 0.01"));
    }
    if limits.cpus.is_some() && !host.cpus {
        return Err(Refusal {
            layer: Some(Layer::Cgroup),
            ..Refusal::new(
                "a share of processors needs a cgroup with the cpu controller; leave --cpus out, or see `hotcell doctor`",
            )
        });
    }
    if limits.memory < LEAST_MEMORY {
        return Err(Refusal::new(format!(
            "the memory limit {} is below {LEAST_MEMORY}, in which no program starts",
            limits.memory
        )));
    }
    if limits.memory > host.memory {
        return Err(Refusal::new(format!(
            "the memory limit {} is more than this host's {}; lower --memory",
            limits.memory, host.memory
        )));
    }
    if limits.disk > host.memory {
        return Err(Refusal::new(format!(
            "the disk limit {} is more than this host's memory of {}, in which scratch lives; lower --disk",
            limits.disk, host.memory
        )));
    }
    if limits.processes > 1 << 22 {
        return Err(Refusal::new("the limit processes is more than the kernel's 4,194,304"));
    }
    Ok(())
}

/// A host file that is to be mounted, as the engine found it.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Source {
    /// Canonical path on the host.
    pub host: PathBuf,
    /// Path inside.
    pub inside: PathBuf,
    /// `workspace`, `bind` or `toolchain`.
    pub kind: SourceKind,
    /// It is a folder.
    pub folder: bool,
}

impl Source {
    /// Where it is copied to in a sandbox without a root of its own, as a path below the home folder: what belongs
    /// there and cannot be changed for real needs no mount.
    pub fn copied_to(&self) -> Option<&Path> {
        let copied = matches!(self.kind, SourceKind::Workspace | SourceKind::ReadOnly);
        self.inside.strip_prefix(HOME).ok().filter(|path| copied && !path.as_os_str().is_empty())
    }
}

/// Why something is mounted.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum SourceKind {
    /// Copy-on-write.
    Workspace,
    /// Read-only, named by the user.
    ReadOnly,
    /// Writable, named by the user.
    ReadWrite,
    /// Read-only, at its own place.
    Toolchain,
}

impl SourceKind {
    fn name(self) -> &'static str {
        match self {
            Self::Workspace => "workspace",
            Self::ReadOnly | Self::ReadWrite => "bind",
            Self::Toolchain => "toolchain",
        }
    }
    /// Whether the program may write there.
    pub const fn writable(self) -> bool {
        matches!(self, Self::Workspace | Self::ReadWrite)
    }
}

/// A job, ready to be sent.
#[derive(Clone, Debug)]
pub struct JobPlan {
    /// The message.
    pub job: encode::Job,
    /// What is mounted besides the shape's.
    pub mounts: Vec<Mount>,
}

/// Whether a path inside lies in scratch, where folders can be made when the job arrives.
pub fn in_scratch(inside: &Path) -> bool {
    [HOME, "/tmp", "/var/tmp", "/dev/shm"]
        .iter()
        .any(|top| inside.starts_with(top) && inside != Path::new(top))
}

/// The environment that every program has, unless the job says otherwise.
fn environment(job: &Job, home: &Path) -> Vec<(OsString, OsString)> {
    let mut env: Vec<(OsString, OsString)> = Vec::new();
    let temporary = if home == Path::new(HOME) { OsStr::new("/tmp") } else { home.as_os_str() };
    let defaults = [
        ("PATH", OsStr::new("/usr/local/bin:/usr/bin:/bin")),
        ("HOME", home.as_os_str()),
        ("LANG", OsStr::new("C.UTF-8")),
        ("TMPDIR", temporary),
    ];
    for (name, value) in
        defaults.map(|(n, v)| (OsString::from(n), v.to_owned())).into_iter().chain(job.env.iter().cloned())
    {
        match env.iter_mut().find(|(known, _)| *known == name) {
            Some(slot) => slot.1 = value,
            None => env.push((name, value)),
        }
    }
    env
}

/// The longest single argument or variable, and the most for all of them, that Linux takes. `execve(2)`
const LONGEST_ARGUMENT: usize = 128 * 1024 - 1;
const MOST_ARGUMENTS: usize = 2 * 1024 * 1024 - 64 * 1024;

/// Plans a job for a sandbox of this plan. `home` is its home folder inside; `beside` counts the tasks that the
/// kernel counts together with the program's, where it has no user namespace of its own.
///
/// # Errors
/// [`Refusal`] when it asks for more than the shape has, or for what no kernel does.
pub fn job(
    job: &Job,
    sources: &[Source],
    home: &Path,
    plan: &ShapePlan,
    host: &Host,
    beside: Option<u64>,
) -> Result<JobPlan, Refusal> {
    check_limits(&job.limits, host)?;
    check_ceilings(&job.limits, &plan.ceilings)?;
    let program = job.argv.first().filter(|p| !p.is_empty());
    let program = program.ok_or_else(|| Refusal::new("there is no program to run; name one after --"))?;
    let argv = job.argv.iter().map(|a| text(a, "an argument")).collect::<Result<Vec<_>, _>>()?;
    let env_pairs = environment(job, home);
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
    if total > MOST_ARGUMENTS {
        return Err(Refusal::new(format!(
            "arguments and environment take {total} bytes, and Linux takes at most {MOST_ARGUMENTS}; pass a file instead"
        )));
    }
    if sources.len() > MAX_MOUNTS {
        return Err(Refusal::new(format!(
            "{} folders are to be mounted, and {MAX_MOUNTS} are possible",
            sources.len()
        )));
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
        // A test that knocks the mount namespace out keeps the rules, at the place where it has put the folder.
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
        let place = Place { inside: source.inside.clone(), folder: source.folder };
        if plan.rooted && !in_scratch(&source.inside) && !plan.places.contains(&place) {
            return Err(Refusal::new(format!(
                "this sandbox has no place for {}; name it in the shape's places",
                source.inside.display()
            )));
        }
        if plan.rooted {
            mounts.push(JobMount {
                how: match (source.kind, source.folder) {
                    (SourceKind::Workspace, _) => How::CopyOnWrite,
                    (SourceKind::ReadOnly, true) => How::Sealed,
                    _ => How::Bind,
                },
                dir: source.folder,
                target: text(source.inside.as_os_str(), "a path")?,
            });
        }
        if plan.landlock_abi > 0 && plan.late && (plan.rooted || source.copied_to().is_none()) {
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
            scratch_bytes: if changed { job.limits.disk.0 } else { 0 },
            scratch_files: scratch_files(&job.limits),
            memory: job.limits.memory.0,
            mounts,
            rules,
            rlimits: if plan.layers.is_on(Layer::Rlimits) {
                rlimits(&job.limits, plan.group, beside, host.open_files)
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
    if text.len() > LONGEST_ARGUMENT {
        return Err(Refusal::new(format!(
            "{what} is {} bytes long, and Linux takes at most {LONGEST_ARGUMENT}; pass a file instead",
            text.len()
        )));
    }
    CString::new(text.as_bytes())
        .map_err(|_| Refusal::new(format!("{what} contains a NUL character: {:?}", text.to_string_lossy())))
}

/// A path inside, absolute and without `..`, so that it means what it says.
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

/// The paths at which a program may be: itself, or every folder of the `PATH` inside.
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

/// Per-process limits. With a cgroup they stand behind its limits, a little further out, so that the cgroup,
/// which tells, is reached first.
fn rlimits(limits: &Limits, group: bool, beside: Option<u64>, open_files: u64) -> Vec<(u32, u64, u64)> {
    const INIT: u64 = 1;
    const MOST_OPEN_FILES: u64 = 16_384;
    // Tasks that others may start meanwhile, where the kernel counts them with the program's.
    const OTHERS: u64 = 64;
    let slack = if group { 16 } else { beside.map_or(0, |tasks| tasks.saturating_add(OTHERS)) };
    let processes = (u64::from(limits.processes) + INIT).saturating_add(slack);
    let mut list = vec![
        (libc::RLIMIT_CORE, 0, 0),
        // To begin with what the caller has, within what a program may raise it to anyway: the same test then sees the
        // same number, and nobody gets a million, which programs that close every descriptor go through one by one.
        (libc::RLIMIT_NOFILE, open_files.clamp(1024, MOST_OPEN_FILES), MOST_OPEN_FILES),
        (libc::RLIMIT_NPROC, processes, processes),
        (libc::RLIMIT_MEMLOCK, 8 << 20, 8 << 20),
        (libc::RLIMIT_MSGQUEUE, 819_200, 819_200),
        (libc::RLIMIT_SIGPENDING, 4_096, 4_096),
        (libc::RLIMIT_NICE, 0, 0),
        (libc::RLIMIT_RTPRIO, 0, 0),
        (libc::RLIMIT_STACK, 8 << 20, libc::RLIM_INFINITY),
    ];
    if let Some(cpu) = limits.cpu_time {
        // For each process alone, so it only stands behind the sum that the supervisor watches.
        let seconds = cpu.as_secs() + 2;
        list.push((libc::RLIMIT_CPU, seconds, seconds + 1));
    }
    if !group {
        // Never RLIMIT_AS: 64 GiB reserved and untouched must work. Well above the limit itself, so that the
        // supervisor, which can name the cause, sees the tree's sum first; this stops what is faster than it.
        let data = limits.memory.0.saturating_add(limits.memory.0.max(Bytes::mib(256).0));
        list.push((libc::RLIMIT_DATA, data, data));
    }
    list
}

#[cfg(test)]
mod tests {
    use super::*;

    fn full_host() -> Host {
        Host {
            mapping: Mapping::Privileged,
            landlock: Ok(7),
            notifications: Ok(()),
            cgroup: Ok(1),
            cpus: true,
            time_ns: Ok(()),
            root: crate::root::HostRoot::default(),
            memory: Bytes::gib(16),
            open_files: 1024,
        }
    }

    #[test]
    fn open_files_begin_with_what_the_caller_has() {
        for (outside, inside) in [(256, 1024), (1024, 1024), (8000, 8000), (u64::MAX, 16_384)] {
            let list = rlimits(&Limits::default(), true, None, outside);
            assert!(list.contains(&(libc::RLIMIT_NOFILE, inside, 16_384)), "{outside}: {list:?}");
        }
    }

    #[test]
    fn what_the_kernel_counts_beside_the_program_does_not_use_its_processes_up() {
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
    fn a_full_host_puts_every_layer_into_force() {
        let plan = shape(&Shape::default(), &full_host()).unwrap();
        for layer in Layer::ALL {
            assert!(plan.layers.is_on(layer), "{layer}");
        }
        assert_eq!((plan.layers.landlock_abi, plan.layers.cgroup_version), (7, 1));
        assert!(!plan.late);
    }

    #[test]
    fn what_is_required_and_missing_is_a_refusal_that_names_it() {
        type Lose = fn(&mut Host);
        let lacks: [(Layer, Lose); 3] = [
            (Layer::Landlock, |h| h.landlock = Err("ENOSYS".into())),
            (Layer::Cgroup, |h| h.cgroup = Err("not writable".into())),
            (Layer::TimeNs, |h| h.time_ns = Err("EINVAL".into())),
        ];
        for (layer, lose) in lacks {
            let mut host = full_host();
            lose(&mut host);
            let plan = shape(&Shape::default(), &host).unwrap();
            assert!(matches!(plan.layers.states[&layer], LayerState::Unavailable(_)), "{layer}");
            let strict = Shape { require: Layer::ALL.into(), ..Shape::default() };
            let refusal = shape(&strict, &host).unwrap_err();
            assert_eq!(refusal.layer, Some(layer));
            assert!(refusal.message.contains(layer.name()), "{refusal}");
        }
    }

    #[test]
    fn senseless_limits_are_refused() {
        type Spoil = fn(&mut Limits);
        let cases: [(&str, Spoil); 7] = [
            ("memory", |l| l.memory = Bytes(0)),
            ("memory", |l| l.memory = Bytes::gib(64)),
            ("memory", |l| l.memory = Bytes::kib(4)),
            ("timeout", |l| l.wall = std::time::Duration::ZERO),
            ("processes", |l| l.processes = 0),
            ("disk", |l| l.disk = Bytes::gib(100)),
            ("cpus", |l| l.cpus = Some(0.0)),
        ];
        for (name, spoil) in cases {
            let mut limits = Limits::default();
            spoil(&mut limits);
            let refusal = check_limits(&limits, &full_host()).unwrap_err();
            assert!(refusal.message.contains(name), "{name}: {refusal}");
        }
    }

    #[test]
    fn jobs_that_no_kernel_takes_are_refused() {
        let plan = shape(&Shape::default(), &full_host()).unwrap();
        let with = |argv: Vec<OsString>| Job { argv, ..Job::default() };
        for (argv, word) in [
            (vec![], "no program"),
            (vec![OsString::new()], "no program"),
            (vec!["a\0b".into()], "NUL"),
            (vec!["a".into(), "x".repeat(200_000).into()], "bytes long"),
            (vec![OsString::from("x".repeat(100_000)); 30], "at most"),
        ] {
            let refusal = job(&with(argv), &[], Path::new(HOME), &plan, &full_host(), None).unwrap_err();
            assert!(refusal.message.contains(word), "{word}: {refusal}");
        }
    }

    #[test]
    fn programs_are_looked_up_inside() {
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
    fn the_job_never_exceeds_its_shape() {
        let plan = shape(&Shape::default(), &full_host()).unwrap();
        let mut big = Job { argv: vec!["x".into()], ..Job::default() };
        big.limits.memory = Bytes::gib(1);
        assert!(
            job(&big, &[], Path::new(HOME), &plan, &full_host(), None)
                .unwrap_err()
                .message
                .contains("ceiling")
        );
    }
}
