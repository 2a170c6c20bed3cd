//! Policy x host -> plan. Pure: chooses layers, mounts, rules and numbers, or refuses. Makes no system call.

mod job;
mod limits;

use crate::Refusal;
pub(crate) use job::defaults;
pub use job::{JobPlan, Source, SourceKind, in_scratch, inside_path, job};
pub use limits::OWN_SCRATCH_FILES;

use std::collections::BTreeSet;
use std::ffi::CString;
use std::path::Path;

use hotcell_launcher::wire::{MAX_IMAGE_LAYERS, MAX_RELAYS, setup};
use nix::libc;

use self::limits::{check_limits, scratch_files};
use crate::access::{self, Grant};
use crate::encode::{self, Setup};
use crate::filters;
use crate::host::Host;
use crate::ids::{self, Mapping};
use crate::layer::Layer;
use crate::network::Relay;
use crate::outcome::{Cause, LayerState, Layers, Mount};
use crate::policy::{Confinement, HOME, ImageRoot, Limits, Link, Network, ProcView, RootKind, Shape};
use crate::refusal::LACKS;
use crate::root::{Names, Place, TERMINAL, cstring};
use crate::seccomp::{self, Arch};

/// Knowledge of the job when its sandbox is made.
#[derive(Clone, Copy, Debug, Default)]
pub enum Ahead<'a> {
    /// Any job of the shape may come.
    #[default]
    Unknown,
    /// The job mounts nothing, so that the runner can take it without process 1.
    NoMounts,
    /// An interpreter is started, and waits for the job.
    Interpreter {
        /// Toolchains of the host that the interpreter needs: mounted before the program is confined.
        sources: &'a [Source],
        /// Programs, arguments and environment.
        start: &'a [Vec<CString>; 3],
    },
}

/// Everything about a sandbox that does not depend on its job. Decided once by [`shape()`]; only the numbers of what is taken for one
/// sandbox are filled in later: its ids, its template, its scratch on the host.
#[derive(Clone, Debug)]
pub struct ShapePlan {
    /// The request to the launcher.
    pub setup: Setup,
    /// The layers that will be in force.
    pub layers: Layers,
    /// The mounts of the shape.
    pub mounts: Vec<Mount>,
    /// Confine the program only after its mounts have been made.
    pub late: bool,
    /// Whether the sandbox gets a cgroup.
    pub group: bool,
    /// The sandbox has a root of its own; otherwise a private folder on the host is its scratch.
    pub rooted: bool,
    /// Names on the loopback interface, which has a socket for them, and the relays that they lead to.
    pub names: Option<Names>,
    /// True where the loopback interface has the sockets of a proxy.
    proxied: bool,
    watches: bool,
    /// The limits that it was planned for.
    pub ceilings: Limits,
    /// Mountpoints for jobs; these differ between roots.
    pub places: BTreeSet<Place>,
    /// Aliases of a workspace in the root.
    pub links: BTreeSet<Link>,
    /// The image that forms the root; `None` for the host's `/usr`.
    pub image: Option<ImageRoot>,
    /// Mounts made for an interpreter that is started ahead.
    early: Vec<Source>,
    host_writes: bool,
    knocked_out: bool,
    landlock_abi: u32,
}

impl ShapePlan {
    /// Whether its filter tells of opened paths.
    pub const fn watches(&self) -> bool {
        self.watches
    }

    /// Whether its loopback has the sockets of a proxy.
    pub const fn proxied(&self) -> bool {
        self.proxied
    }

    /// Fills in the host ids. Without an own user namespace they are the ids inside as well.
    pub fn with_ids(&mut self, outside: (u32, u32)) {
        self.setup.outside = outside;
        if !self.layers.is_on(Layer::UserNs) {
            self.setup.inside = outside;
        }
    }

    /// Mounts made before the job arrives.
    pub(crate) fn early(&self) -> &[Source] {
        &self.early
    }

    /// Whether this source of the job is already mounted.
    pub(crate) fn has(&self, source: &Source) -> bool {
        self.early.iter().any(|early| early.names_the_same(source))
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
/// [`Refusal`] when a required layer is not available, a number is out of range, or no interpreter can wait in a sandbox of the shape.
pub fn shape(shape: &Shape, host: &Host, ahead: Ahead<'_>) -> Result<ShapePlan, Refusal> {
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
    let proxied = shape.network == Network::Proxy;
    if proxied && !on(Layer::NetNs) {
        let why = "a network of allowed hosts needs a network namespace, and this sandbox has none; use a profile with \
                   namespaces, or no network";
        return Err(Refusal { layer: Some(Layer::NetNs), ..Refusal::new(why) });
    }
    let relays = if proxied { shape.relays.as_slice() } else { &[] };
    if let Some(wrong) = relays.iter().find_map(Relay::wrong) {
        return Err(Refusal::new(wrong));
    }
    if relays.len() > MAX_RELAYS {
        let why = format!("{} names are to have an address of their own, and {MAX_RELAYS} can", relays.len());
        return Err(Refusal::new(why));
    }
    let abi = if on(Layer::Landlock) { host.landlock.clone().unwrap_or(0) } else { 0 };
    let rooted = on(Layer::MountNs);
    let places: BTreeSet<Place> = shape
        .places
        .iter()
        .map(|p| Ok(Place { inside: inside_path(&p.inside)?, folder: p.folder }))
        .collect::<Result<_, Refusal>>()?;
    let straight = |(at, says): &Link| Ok((inside_path(at)?, inside_path(says)?));
    let links = shape.links.iter().map(straight).collect::<Result<_, Refusal>>()?;
    if let Some(image) = &shape.image {
        check_image(image, &places, rooted)?;
    }

    let mut flags = 0;
    let mut namespaces = 0;
    for (layer, clone, flag) in [
        (Layer::UserNs, libc::CLONE_NEWUSER, 0),
        (Layer::MountNs, libc::CLONE_NEWNS, setup::ROOT | setup::SCRATCH | setup::DEVPTS),
        (Layer::PidNs, libc::CLONE_NEWPID, setup::PID_NS),
        (
            Layer::NetNs,
            libc::CLONE_NEWNET,
            match shape.network {
                // Without a root of its own the sandbox asks the host's name servers, which it does not reach.
                Network::Loopback if rooted => setup::LOOPBACK | setup::NAMES,
                Network::Loopback => setup::LOOPBACK,
                Network::Proxy => setup::LOOPBACK | setup::PROXY,
                Network::Off => 0,
            },
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
    // Where the confinement has no user namespace by design, root still becomes an unprivileged id; where a
    // test removed it, root stays root.
    let plain = shape.confinement == Confinement::LandlockOnly;
    if (on(Layer::UserNs) || plain) && host.mapping == Mapping::Privileged {
        flags |= setup::PRIVILEGED_MAP;
    }
    if flags & setup::PROC != 0 || !(rooted || on(Layer::PidNs)) {
        flags |= setup::READBACK;
    }
    let has_places = !places.is_empty();
    let (early, prime) = match ahead {
        Ahead::Interpreter { sources, start } => {
            let is_set_up = rooted && flags & setup::PROC != 0 && on(Layer::PidNs);
            if !is_set_up || (has_places && sources.is_empty()) {
                return Err(Refusal::new(
                    "nothing can be started ahead of its job in a sandbox of this shape",
                ));
            }
            flags |= setup::PRIME;
            (sources, start.clone())
        }
        Ahead::Unknown | Ahead::NoMounts => (&[][..], Default::default()),
    };
    // An interpreter that waits is confined before its job is known.
    let late = has_places && flags & setup::PRIME == 0;
    if late {
        flags |= setup::HARDEN_LATE;
    } else if matches!(ahead, Ahead::NoMounts) {
        flags |= setup::DIRECT;
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
    // On the host's own network the only loopback is the host's, so no sockets are allowed at all.
    let network = if plain { Network::Off } else { shape.network };
    let filter_options = seccomp::Options {
        notify,
        internet: network != Network::Off,
        namespaces: on(Layer::PidNs),
        host_writes: shape.host_writes,
        plain,
        accounted: group,
        truncates: plain && abi < access::TRUNCATION,
    };
    let mut landlock = match (abi, rooted, &shape.image) {
        (0, ..) => encode::Ruleset::default(),
        (_, true, Some(image)) => access::image_ruleset(abi, image, shape.network),
        (_, true, None) => access::ruleset(abi, &host.root, shape.network),
        (_, false, _) => access::host_ruleset(abi, &host.root, network, shape.proc),
    };
    if abi > 0 {
        let rule = |s: &Source| access::rule(abi, &s.inside, Grant::Execute, s.folder);
        landlock.rules.extend(early.iter().map(rule));
    }
    let watching = (shape.watch_files && on(Layer::Seccomp))
        .then(|| seccomp::watching(Arch::HOST, filter_options))
        .flatten();
    let watches = watching.is_some();
    let setup = Setup {
        flags,
        namespaces,
        inside: (ids::INSIDE_ID, ids::INSIDE_ID),
        scratch_bytes: shape.ceilings.disk.0,
        scratch_files: scratch_files(&shape.ceilings),
        hostname: if on(Layer::UtsNs) { b"sandbox".to_vec() } else { Vec::new() },
        masks: if flags & (setup::PROC | setup::PROC_SUBSET) == setup::PROC {
            MASKS.iter().map(|path| CString::from(*path)).collect()
        } else {
            Vec::new()
        },
        landlock,
        filter: if on(Layer::Seccomp) {
            watching.map_or_else(|| filters::program(filter_options), |filter| filter.as_bytes())
        } else {
            Vec::new()
        },
        // Process 1's own filter is part of the same layer.
        init_filter: if on(Layer::Seccomp) { filters::init() } else { Vec::new() },
        relays: relays.iter().map(|relay| (relay.address.octets(), relay.port)).collect(),
        prime_mounts: early.iter().map(|s| (cstring(&s.inside), s.folder)).collect(),
        prime,
        ..Setup::default()
    };
    let mounts = if rooted { system_mounts(flags, host, shape.image.is_some()) } else { Vec::new() };
    Ok(ShapePlan {
        setup,
        layers,
        mounts,
        late,
        group,
        rooted,
        names: (flags & (setup::PROXY | setup::NAMES) != 0).then(|| names(relays)),
        proxied,
        watches,
        places,
        links,
        image: shape.image.clone(),
        ceilings: shape.ceilings.clone(),
        early: early.to_vec(),
        host_writes: shape.host_writes,
        knocked_out: !shape.knocked_out.0.is_empty(),
        landlock_abi: abi,
    })
}

/// The names of relays with their addresses, each once.
fn names(relays: &[Relay]) -> Names {
    relays.iter().map(|relay| (relay.name.clone(), relay.address)).collect()
}

/// An image that cannot be shown here.
fn check_image(image: &ImageRoot, places: &BTreeSet<Place>, rooted: bool) -> Result<(), Refusal> {
    if !rooted {
        return Err(Refusal {
            layer: Some(Layer::MountNs),
            ..Refusal::new("an image needs a mount namespace; use another profile, or run without an image")
        });
    }
    if image.layers.is_empty() || image.layers.len() > MAX_IMAGE_LAYERS {
        return Err(Refusal::new(format!(
            "an image of {} layers cannot be shown: between 1 and {MAX_IMAGE_LAYERS} can",
            image.layers.len()
        )));
    }
    let link = |name: &std::ffi::OsStr| {
        image.top.iter().any(|entry| name == entry.name.as_str() && entry.kind == RootKind::Link)
    };
    for place in places {
        // A folder there would hide the link, and with it files that the image's programs need.
        if let Some(name) = place.inside.iter().nth(1).filter(|name| link(name)) {
            return Err(Refusal::new(format!(
                "nothing can be shown at {}: /{} is a link in the image; name the folder that it leads to",
                place.inside.display(),
                name.display()
            )));
        }
    }
    Ok(())
}

/// `CLONE_NEWTIME`, which `libc` lacks on some targets.
const CLONE_NEWTIME: i32 = 0x80;

/// Parts of `/proc` that reveal or control the host. File owners and Landlock guard them as well.
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
        lacks: None,
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
    // Without the privileges of a user namespace, an ordinary user cannot make the other namespaces.
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
    // A Landlock ruleset names paths of the sandbox's own tree.
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

fn system_mounts(flags: u32, host: &Host, image: bool) -> Vec<Mount> {
    let mut mounts = Vec::new();
    if image {
        mounts.push(row("/", "image", false));
    } else {
        mounts.extend([row("/", "system", false), row("/usr", "system", false)]);
        mounts.extend(host.root.folders().map(|name| row(&format!("/{name}"), "system", false)));
        mounts.extend(host.root.etc_folders.iter().map(|name| row(&format!("/etc/{name}"), "system", false)));
    }
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

#[cfg(test)]
mod tests {
    use super::*;
    use crate::policy::MountPlace;
    use crate::units::Bytes;

    pub(super) fn full_host() -> Host {
        Host {
            mapping: Mapping::Privileged,
            landlock: Ok(7),
            notifications: Ok(()),
            cgroup: Ok(1),
            cpus: true,
            time_ns: Ok(()),
            root: crate::root::HostRoot::default(),
            memory: Bytes::gib(16),
            open_files: 20_000,
        }
    }

    #[test]
    fn full_host_puts_all_layers_on() {
        let plan = shape(&Shape::default(), &full_host(), Ahead::Unknown).unwrap();
        for layer in Layer::ALL {
            assert!(plan.layers.is_on(layer), "{layer}");
        }
        assert_eq!((plan.layers.landlock_abi, plan.layers.cgroup_version), (7, 1));
        assert!(!plan.late);
    }

    #[test]
    fn missing_required_layer_is_named_in_refusal() {
        type Lose = fn(&mut Host);
        let lacks: [(Layer, Lose); 3] = [
            (Layer::Landlock, |h| h.landlock = Err("ENOSYS".into())),
            (Layer::Cgroup, |h| h.cgroup = Err("not writable".into())),
            (Layer::TimeNs, |h| h.time_ns = Err("EINVAL".into())),
        ];
        for (layer, lose) in lacks {
            let mut host = full_host();
            lose(&mut host);
            let plan = shape(&Shape::default(), &host, Ahead::Unknown).unwrap();
            assert!(matches!(plan.layers.states[&layer], LayerState::Unavailable(_)), "{layer}");
            let strict = Shape { require: Layer::ALL.into(), ..Shape::default() };
            let refusal = shape(&strict, &host, Ahead::Unknown).unwrap_err();
            assert_eq!(refusal.layer, Some(layer));
            assert!(refusal.message.contains(layer.name()), "{refusal}");
        }
    }

    #[test]
    fn proxy_needs_network_namespace() {
        for (network, loopback, proxy) in
            [(Network::Loopback, true, false), (Network::Proxy, true, true), (Network::Off, false, false)]
        {
            let plan = shape(&Shape { network, ..Shape::default() }, &full_host(), Ahead::Unknown).unwrap();
            let has = |flag| plan.setup.flags & flag != 0;
            assert_eq!((has(setup::LOOPBACK), has(setup::PROXY), plan.proxied()), (loopback, proxy, proxy));
            assert_eq!((has(setup::NAMES), plan.names.is_some()), (loopback && !proxy, loopback));
        }
        let proxied = Shape { network: Network::Proxy, ..Shape::default() };
        let without = [
            Shape { confinement: Confinement::LandlockOnly, ..proxied.clone() },
            Shape { knocked_out: crate::policy::danger::KnockedOut([Layer::NetNs].into()), ..proxied },
        ];
        for without in without {
            let refusal = shape(&without, &full_host(), Ahead::Unknown).unwrap_err();
            assert_eq!((refusal.cause, refusal.layer), (Cause::Refused, Some(Layer::NetNs)));
        }
    }

    #[test]
    fn plan_depends_on_knowledge_of_job() {
        let toolchain = Source {
            host: "/opt/python".into(),
            inside: "/opt/python".into(),
            kind: SourceKind::Toolchain,
            folder: true,
            identity: None,
        };
        let start = [vec![c"/usr/bin/python3".into()], Vec::new(), Vec::new()];
        let place = MountPlace { inside: "/srv".into(), folder: true };
        let with_place = Shape { places: vec![place], ..Shape::default() };
        let waits = |sources| Ahead::Interpreter { sources, start: &start };
        const ALL: u32 = setup::PRIME | setup::DIRECT | setup::HARDEN_LATE;
        for (case, shape, ahead, want) in [
            ("unknown", Shape::default(), Ahead::Unknown, Some(0)),
            ("places", with_place.clone(), Ahead::Unknown, Some(setup::HARDEN_LATE)),
            ("no mounts", Shape::default(), Ahead::NoMounts, Some(setup::DIRECT)),
            ("no mounts, places", with_place.clone(), Ahead::NoMounts, Some(setup::HARDEN_LATE)),
            ("interpreter", Shape::default(), waits(&[]), Some(setup::PRIME)),
            (
                "interpreter, places",
                with_place.clone(),
                waits(std::slice::from_ref(&toolchain)),
                Some(setup::PRIME),
            ),
            ("interpreter, other places", with_place, waits(&[]), None),
            (
                "no namespaces",
                Shape { confinement: Confinement::LandlockOnly, ..Shape::default() },
                waits(&[]),
                None,
            ),
        ] {
            let plan = super::shape(&shape, &full_host(), ahead);
            assert_eq!(plan.as_ref().ok().map(|plan| plan.setup.flags & ALL), want, "{case}");
            let Ok(plan) = plan else { continue };
            assert_eq!(plan.late, plan.setup.flags & setup::HARDEN_LATE != 0, "{case}");
            let (sources, started) = match ahead {
                Ahead::Interpreter { sources, start } => (sources, start.clone()),
                _ => (&[][..], Default::default()),
            };
            assert_eq!((plan.early(), plan.setup.prime_mounts.len()), (sources, sources.len()), "{case}");
            assert_eq!(plan.setup.prime, started, "{case}");
            let bare = super::shape(&shape, &full_host(), Ahead::Unknown).unwrap();
            let rules = bare.setup.landlock.rules.len() + sources.len();
            assert_eq!(plan.setup.landlock.rules.len(), rules, "{case}");
        }
    }
}
