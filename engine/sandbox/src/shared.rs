//! What all sandboxes of an engine share: the host, the launchers with their roots, the cgroups, the ids.

use std::collections::{BTreeSet, HashMap};
use std::ffi::CString;
use std::fs::File;
use std::os::fd::{AsFd, BorrowedFd, OwnedFd};
use std::os::unix::fs::MetadataExt;
use std::path::PathBuf;
use std::sync::atomic::{AtomicBool, AtomicUsize, Ordering};
use std::sync::{Arc, Mutex, PoisonError};

use hotcell_launcher::wire::{IdMap, Step, setup};
use tokio::sync::OwnedSemaphorePermit;

use crate::cgroup::{Cgroups, Group, GroupLimits, Join};
use crate::doctor::advise;
use crate::failure::explain;
use crate::host::Host;
use crate::ids::Mapping;
use crate::launcher::{Launcher, Trouble};
use crate::layer::Layer;
use crate::plan::{Refusal, ShapePlan, Source, SourceKind};
use crate::policy::{ImageRoot, Limits};
use crate::room::Room;
use crate::root::{self, Place};
use crate::units::Bytes;
use crate::{encode, socket, sources};

#[derive(Debug)]
pub(crate) struct Shared {
    pub(crate) host: Host,
    pub(crate) cgroups: Option<Cgroups>,
    launchers: tokio::sync::Mutex<Launchers>,
    slots: Mutex<BTreeSet<u32>>,
    pub(crate) room: Room,
    pub(crate) cleaning: Arc<Cleaning>,
}

/// At most two: one with namespaces of its own, one on the host's tree for sandboxes without.
#[derive(Debug, Default)]
struct Launchers {
    rooted: Option<Ready>,
    plain: Option<Ready>,
}

impl Launchers {
    fn of(&mut self, rooted: bool) -> &mut Option<Ready> {
        if rooted { &mut self.rooted } else { &mut self.plain }
    }
}

/// What differs between roots.
#[derive(Clone, Debug, Default, PartialEq, Eq, Hash)]
struct Differs {
    /// The mountpoints.
    places: BTreeSet<Place>,
    /// The image; the host's own where there is none.
    image: Option<ImageRoot>,
    /// Names can be asked for.
    names: bool,
}

/// A launcher with the templates that it holds.
#[derive(Debug)]
struct Ready {
    launcher: Launcher,
    /// Roots by what differs between them.
    templates: HashMap<Differs, Template>,
    next: u32,
}

/// A root that a launcher has mounted.
#[derive(Debug)]
struct Template {
    id: u32,
    /// The layers of its image, locked as `flock(2)` has it: whoever removes images leaves those that somebody holds, and an
    /// overlay over a folder that was removed is nothing that the kernel defines.
    _layers: Vec<File>,
}

/// Templates that a launcher holds at once; the number is the launcher's.
const TEMPLATES: u32 = 32;

/// Sandboxes that have answered and are not gone yet.
#[derive(Debug, Default)]
pub(crate) struct Cleaning {
    pub(crate) open: AtomicUsize,
    /// This process ends after its run: what is left is the launcher's.
    pub(crate) bequeaths: AtomicBool,
    /// Cgroups for the launcher to remove.
    pub(crate) left: Mutex<Vec<CString>>,
}

impl Shared {
    pub(crate) fn new(host: Host, cgroups: Option<Cgroups>) -> Self {
        Self {
            room: Room::new(host.open_files),
            host,
            cgroups,
            launchers: tokio::sync::Mutex::default(),
            slots: Mutex::default(),
            cleaning: Arc::default(),
        }
    }

    /// Whether nothing of finished runs is left.
    pub(crate) fn is_settled(&self) -> bool {
        let groups = self.cgroups.as_ref().map_or(0, Cgroups::pending);
        groups == 0 && self.cleaning.open.load(Ordering::Acquire) == 0
    }

    /// The process id of the launcher, once there is one.
    pub(crate) async fn launcher_id(&self) -> Option<u32> {
        let launchers = self.launchers.lock().await;
        launchers.rooted.as_ref().or(launchers.plain.as_ref()).map(|r| r.launcher.id())
    }

    /// Starts the launcher and lets it build the usual root, without waiting for either.
    pub(crate) fn warm_up(&self) -> Result<(), Trouble> {
        let Ok(mut launchers) = self.launchers.try_lock() else { return Ok(()) };
        let ready = self.launcher(launchers.of(true), true)?;
        ready.template(&Differs::default(), &self.host).map(drop)
    }

    /// Hands the removal of cgroups to the launcher, which does it when this process has ended. False when there is
    /// no launcher to do it.
    pub(crate) fn bequeath(&self) -> bool {
        let folders = std::mem::take(&mut *self.cleaning.left.lock().unwrap_or_else(PoisonError::into_inner));
        let Ok(launchers) = self.launchers.try_lock() else { return folders.is_empty() };
        let Some(ready) = launchers.rooted.as_ref().or(launchers.plain.as_ref()) else {
            return folders.is_empty();
        };
        ready.launcher.tell(&encode::remove(&folders), &[]).is_ok()
    }

    /// Asks the launcher for a sandbox, whose fate is then told on `control`'s other end. `mounts` are those of a primed runtime.
    pub(crate) async fn ask_for_sandbox(
        &self,
        plan: &mut ShapePlan,
        control: BorrowedFd<'_>,
        group: Option<&Group>,
        mounts: &[OwnedFd],
    ) -> Result<(), Trouble> {
        let mut launchers = self.launchers.lock().await;
        let launcher = launchers.of(plan.rooted);
        let mut sent = Err(Trouble::Lost("was not asked".to_owned()));
        // Twice: a launcher that somebody killed is replaced, unless it dies again.
        for _ in 0..2 {
            sent = self.send(launcher, plan, control, group, mounts).await;
            match sent {
                Ok(()) => break,
                Err(Trouble::Lost(_)) => *launcher = None,
                Err(Trouble::Failed(failure)) => {
                    // One that could not set itself up is of no use; any other may have sandboxes that run.
                    if failure.step == Step::Hello {
                        *launcher = None;
                    }
                    break;
                }
                Err(Trouble::Here(_)) => break,
            }
        }
        sent
    }

    pub(crate) fn take_slot(self: &Arc<Self>) -> Slot {
        let mut taken = self.slots.lock().unwrap_or_else(PoisonError::into_inner);
        let number = (0..).find(|n| !taken.contains(n)).unwrap_or(0);
        taken.insert(number);
        Slot { number, place: None, shared: Arc::clone(self) }
    }

    pub(crate) fn take_group(&self, plan: &ShapePlan) -> Result<Option<Group>, Refusal> {
        let Some(cgroups) = self.cgroups.as_ref().filter(|_| plan.group) else { return Ok(None) };
        cgroups.take(&group_limits(&plan.ceilings)).map(Some).map_err(|e| Refusal {
            layer: Some(Layer::Cgroup),
            ..Refusal::new(format!("a cgroup for the sandbox cannot be made: {e}"))
        })
    }

    /// Makes sure of launcher and template, and asks for the sandbox.
    async fn send(
        &self,
        ready: &mut Option<Ready>,
        plan: &mut ShapePlan,
        control: BorrowedFd<'_>,
        group: Option<&Group>,
        mounts: &[OwnedFd],
    ) -> Result<(), Trouble> {
        let ready = self.launcher(ready, plan.rooted)?;
        let differs = Differs { places: plan.places.clone(), image: plan.image.clone(), names: plan.proxied };
        if plan.rooted {
            plan.setup.template = ready.template(&differs, &self.host)?;
        }
        let join = group.map(Group::join).transpose().map_err(Trouble::Here)?;
        let library = if plan.setup.flags & setup::PRIME == 0 {
            None
        } else {
            let library = socket::sealed_program(c"hotcell-primer", hotcell_launcher::PRIMER);
            Some(library.map_err(Trouble::Here)?)
        };
        let mut fds = vec![control];
        match &join {
            Some(Join::V1(tasks)) => fds.extend(tasks),
            Some(Join::V2(folder)) => fds.push(*folder),
            None => {}
        }
        fds.extend(mounts.iter().map(AsFd::as_fd));
        fds.extend(library.iter().map(AsFd::as_fd));
        ready.launcher.tell(&plan.setup.encode(), &fds)?;
        // A new launcher has worked on all of it meanwhile.
        let settled = ready.launcher.settle().await;
        if settled.is_err() {
            ready.templates.remove(&differs);
        }
        settled
    }

    fn launcher<'a>(&self, ready: &'a mut Option<Ready>, rooted: bool) -> Result<&'a mut Ready, Trouble> {
        if ready.is_none() {
            let launcher = Launcher::start(self.host.mapping, rooted)?;
            *ready = Some(Ready { launcher, templates: HashMap::new(), next: 0 });
        }
        ready.as_mut().ok_or_else(|| Trouble::Lost("is missing".to_owned()))
    }

    /// Clones a host folder through the launcher, showing its owner as the sandbox's user.
    pub(crate) async fn clone_mount(&self, source: &Source, outside: (u32, u32)) -> Result<OwnedFd, Refusal> {
        let metadata = source.host.metadata().map_err(|e| sources::no_such_folder(&source.host, &e))?;
        // The launcher checks that it clones this one.
        sources::is_meant(source, &metadata)?;
        let idmap = (self.host.mapping == Mapping::Privileged).then_some(IdMap {
            from_uid: metadata.uid(),
            from_gid: metadata.gid(),
            to_uid: outside.0,
            to_gid: outside.1,
        });
        let read_only = source.kind != SourceKind::ReadWrite;
        let path = root::cstring(&source.host);
        let request = |idmap| encode::clone_mount(&path, metadata.dev(), metadata.ino(), read_only, idmap);
        let mut launchers = self.launchers.lock().await;
        let ready = self.launcher(launchers.of(true), true).map_err(|t| refusal_of(&t))?;
        let mut answer = ready.launcher.ask(&request(idmap), &[]).await;
        // Where the file system cannot map owners, what everybody may read can still be read.
        if let (Err(Trouble::Failed(f)), Some(_), true) = (&answer, idmap, read_only)
            && f.detail == 6
        {
            tracing::warn!(
                "{}: its file system cannot map owners; only what everybody may read is readable inside",
                source.host.display()
            );
            answer = ready.launcher.ask(&request(None), &[]).await;
        }
        let fd = answer.map_err(|trouble| {
            let refusal = refusal_of(&trouble);
            Refusal { message: format!("{}: {}", source.host.display(), refusal.message), ..refusal }
        })?;
        fd.ok_or_else(|| Refusal::internal("the launcher sent no mount"))
    }
}

impl Ready {
    /// Makes sure of a root; does not wait for it.
    fn template(&mut self, differs: &Differs, host: &Host) -> Result<u32, Trouble> {
        if let Some(template) = self.templates.get(differs) {
            return Ok(template.id);
        }
        let id = self.next % TEMPLATES;
        let old = self.templates.iter().find(|(_, known)| known.id == id).map(|(differs, _)| differs.clone());
        if let Some(old) = old {
            self.launcher.ask_later(&encode::forget(id), &[])?;
            self.templates.remove(&old);
        }
        let Differs { places, image, names } = differs;
        // What is not there is the launcher's to say.
        let hold = |layer: &PathBuf| {
            let folder = File::open(layer)?;
            folder.lock_shared().map(|()| folder)
        };
        let layers =
            image.iter().flat_map(|image| &image.layers).filter_map(|layer| hold(layer).ok()).collect();
        let bytes = encode::ops(&match image {
            Some(image) => root::image_ops(image, &host.root, places, *names, crate::ids::INSIDE),
            None => root::ops(&host.root, places, *names, crate::ids::INSIDE),
        });
        let memory = socket::sealed(c"hotcell-template", &bytes).map_err(Trouble::Here)?;
        self.launcher.ask_later(&encode::template(id, bytes.len()), &[memory.as_fd()])?;
        self.templates.insert(differs.clone(), Template { id, _layers: layers });
        self.next += 1;
        Ok(id)
    }
}

/// The limits of a sandbox's group.
pub(crate) fn group_limits(limits: &Limits) -> GroupLimits {
    GroupLimits {
        // Scratch lives in memory and is charged to the group.
        memory: Bytes(limits.memory.0.saturating_add(limits.disk.0)),
        // Process 1 counts.
        processes: limits.processes.saturating_add(1),
        cpus: limits.cpus,
    }
}

/// The number of a sandbox among those alive, from which its host ids follow.
#[derive(Debug)]
pub(crate) struct Slot {
    pub(crate) number: u32,
    /// Its place among the jobs that there are descriptors for, once it has one.
    pub(crate) place: Option<OwnedSemaphorePermit>,
    shared: Arc<Shared>,
}

impl Drop for Slot {
    fn drop(&mut self) {
        self.shared.slots.lock().unwrap_or_else(PoisonError::into_inner).remove(&self.number);
    }
}

pub(crate) fn refusal_of(trouble: &Trouble) -> Refusal {
    match trouble {
        Trouble::Failed(failure) => advise(explain(*failure, "", "")),
        trouble => Refusal::internal(trouble.to_string()),
    }
}

#[allow(clippy::needless_pass_by_value)] // the shape that map_err wants
pub(crate) fn out_of_descriptors(e: std::io::Error) -> Refusal {
    Refusal::internal(format!(
        "a descriptor for the sandbox cannot be made: {e}; raise `ulimit -n` or run fewer at once"
    ))
}
