//! Resources shared by all sandboxes of an engine: the host, the launchers with their roots, the cgroups, the
//! ids.

use std::collections::{BTreeSet, HashMap};
use std::ffi::CString;
use std::fs::File;
use std::os::fd::{AsFd, BorrowedFd, OwnedFd};
use std::os::unix::fs::MetadataExt;
use std::path::PathBuf;
use std::sync::atomic::{AtomicBool, AtomicUsize, Ordering};
use std::sync::{Arc, Mutex, PoisonError};
use std::time::{Duration, Instant};

use hotcell_launcher::wire::{IdMap, Step, setup};
use tokio::sync::OwnedSemaphorePermit;

use crate::advice::advise;
use crate::cgroup::{Cgroups, Group, GroupLimits, Join};
use crate::descriptors;
use crate::failure::explain;
use crate::host::Host;
use crate::ids::{Mapping, SLOTS, Slots};
use crate::job_slots::Room;
use crate::launcher::{Launcher, Trouble};
use crate::layer::Layer;
use crate::plan::{ShapePlan, Source, SourceKind};
use crate::policy::{ImageRoot, Limits, Link};
use crate::refusal::Refusal;
use crate::root::{self, HostRoot, Names, Place};
use crate::sweep::Sweep;
use crate::units::Bytes;
use crate::{encode, socket, sources};

#[derive(Debug)]
pub(crate) struct Shared {
    pub(crate) host: Host,
    pub(crate) cgroups: Option<Cgroups>,
    launchers: tokio::sync::Mutex<Launchers>,
    slots: Mutex<Slots>,
    pub(crate) room: Room,
    pub(crate) cleaning: Arc<Cleaning>,
}

/// At most two launchers: one with namespaces of its own, one on the host's tree for sandboxes without.
#[derive(Debug, Default)]
struct Launchers {
    rooted: Option<Ready>,
    plain: Option<Ready>,
    /// Launchers that no longer answer but have running sandboxes: they end with this engine.
    replaced: Vec<Launcher>,
}

impl Launchers {
    fn of(&mut self, rooted: bool) -> &mut Option<Ready> {
        if rooted { &mut self.rooted } else { &mut self.plain }
    }

    /// Makes the next request start another launcher. The old one is kept alive: ending it would end all its
    /// sandboxes, although they need nothing else from it.
    fn replace(&mut self, rooted: bool) {
        let launcher = self.of(rooted).take().map(|ready| ready.launcher);
        self.replaced.extend(launcher);
        self.replaced.retain_mut(|launcher| !launcher.has_ended());
    }
}

/// The key by which roots differ.
#[derive(Clone, Debug, Default, PartialEq, Eq, Hash)]
struct Differs {
    /// Mountpoints.
    places: BTreeSet<Place>,
    /// Aliases of a workspace.
    links: BTreeSet<Link>,
    /// The image; `None` for the host's own root.
    image: Option<ImageRoot>,
    /// Names can be asked for, and these are its own.
    names: Option<Names>,
}

/// A launcher with its templates.
#[derive(Debug)]
pub(crate) struct Ready {
    launcher: Launcher,
    /// Mounted roots, by their key.
    templates: HashMap<Differs, Template>,
    next: u32,
}

/// A root that a launcher has mounted.
#[derive(Debug)]
struct Template {
    id: u32,
    /// The layers of the image, locked with `flock(2)`: image removal skips locked layers, since the
    /// behaviour of an overlay over a removed folder is undefined.
    _layers: Vec<File>,
}

/// Maximum time that a request waits until the kernel takes this user's descriptors again, and the interval
/// between retries.
pub(crate) const CROWD_TIMEOUT: Duration = Duration::from_secs(5);
pub(crate) const CROWD_RETRY_INTERVAL: Duration = Duration::from_millis(20);

/// Maximum number of templates of one launcher; must match the launcher's own number.
const MAX_TEMPLATES: u32 = 32;

/// Sandboxes that have answered but are not gone yet.
#[derive(Debug, Default)]
pub(crate) struct Cleaning {
    pub(crate) open: AtomicUsize,
    /// This process ends after its run; the launcher removes what is left.
    pub(crate) bequeaths: AtomicBool,
    /// Cgroups for the launcher to remove.
    pub(crate) left: Mutex<Vec<CString>>,
    /// Removal of what other processes left, where it is done during the run.
    pub(crate) sweep: Sweep,
}

impl Shared {
    pub(crate) fn new(host: Host, cgroups: Option<Cgroups>) -> Self {
        Self {
            room: Room::new(descriptors::raised().before),
            slots: Mutex::new(Slots::of_this_process(host.mapping)),
            host,
            cgroups,
            launchers: tokio::sync::Mutex::default(),
            cleaning: Arc::default(),
        }
    }

    /// Whether nothing of finished runs is left.
    pub(crate) fn is_settled(&self) -> bool {
        let groups = self.cgroups.as_ref().map_or(0, Cgroups::pending);
        groups == 0 && self.cleaning.open.load(Ordering::Acquire) == 0
    }

    /// The process id of the launcher, once it is started.
    pub(crate) async fn launcher_id(&self) -> Option<u32> {
        let launchers = self.launchers.lock().await;
        launchers.rooted.as_ref().or(launchers.plain.as_ref()).map(|r| r.launcher.id())
    }

    /// Takes over a launcher with namespaces, unless one was started already.
    pub(crate) fn adopt(&self, ready: Option<Ready>) {
        if let Ok(mut launchers) = self.launchers.try_lock() {
            let rooted = launchers.of(true);
            *rooted = rooted.take().or(ready);
        }
    }

    /// Number of roots that the launcher has built.
    #[cfg(test)]
    pub(crate) async fn roots(&self) -> usize {
        let launchers = self.launchers.lock().await;
        launchers.rooted.as_ref().map_or(0, |ready| ready.templates.len())
    }

    /// Hands the removal of cgroups over to the launcher, which does it when this process has ended. False
    /// when there is no launcher.
    pub(crate) fn bequeath(&self) -> bool {
        let folders = std::mem::take(&mut *self.cleaning.left.lock().unwrap_or_else(PoisonError::into_inner));
        let Ok(launchers) = self.launchers.try_lock() else { return folders.is_empty() };
        let Some(ready) = launchers.rooted.as_ref().or(launchers.plain.as_ref()) else {
            return folders.is_empty();
        };
        ready.launcher.tell(&encode::remove(&folders), &[]).is_ok()
    }

    /// Asks the launcher for a sandbox, which then reports on `control`'s other end. `mounts` are those of a
    /// primed runtime.
    pub(crate) async fn ask_for_sandbox(
        &self,
        plan: &mut ShapePlan,
        control: BorrowedFd<'_>,
        group: Option<&Group>,
        mounts: &[OwnedFd],
    ) -> Result<(), Trouble> {
        let until = Instant::now() + CROWD_TIMEOUT;
        loop {
            match self.ask_once(plan, control, group, mounts).await {
                Err(trouble) if trouble.may_pass() && Instant::now() < until => {
                    tokio::time::sleep(CROWD_RETRY_INTERVAL).await;
                }
                sent => return sent,
            }
        }
    }

    async fn ask_once(
        &self,
        plan: &mut ShapePlan,
        control: BorrowedFd<'_>,
        group: Option<&Group>,
        mounts: &[OwnedFd],
    ) -> Result<(), Trouble> {
        let mut launchers = self.launchers.lock().await;
        let mut sent = Err(Trouble::Lost("was not asked".to_owned()));
        // Two attempts: a launcher that was killed is replaced, unless the new one dies as well.
        for _ in 0..2 {
            sent = self.send(launchers.of(plan.rooted), plan, control, group, mounts).await;
            match &sent {
                Ok(()) => break,
                Err(Trouble::Lost(_)) => launchers.replace(plan.rooted),
                Err(Trouble::Failed(failure)) => {
                    // A launcher that could not set itself up is useless; any other may have running
                    // sandboxes.
                    if failure.step == Step::Hello {
                        *launchers.of(plan.rooted) = None;
                    }
                    break;
                }
                Err(Trouble::Here(_) | Trouble::Crowded) => break,
            }
        }
        sent
    }

    pub(crate) fn take_slot(self: &Arc<Self>) -> Result<Slot, Refusal> {
        let number = match self.host.mapping {
            Mapping::OwnId { .. } => None,
            Mapping::Privileged => {
                let taken = self.slots.lock().unwrap_or_else(PoisonError::into_inner).take();
                Some(taken.ok_or_else(|| {
                    Refusal::internal(format!(
                        "{SLOTS} sandboxes run at once, and each has a host id of its own; run fewer"
                    ))
                })?)
            }
        };
        Ok(Slot { number, place: None, shared: Arc::clone(self) })
    }

    pub(crate) fn take_group(&self, plan: &ShapePlan) -> Result<Option<Group>, Refusal> {
        let Some(cgroups) = self.cgroups.as_ref().filter(|_| plan.group) else { return Ok(None) };
        cgroups.take(&group_limits(&plan.ceilings)).map(Some).map_err(|e| Refusal {
            layer: Some(Layer::Cgroup),
            ..Refusal::new(format!("a cgroup for the sandbox cannot be made: {e}"))
        })
    }

    /// Ensures that launcher and template exist, and asks for the sandbox.
    async fn send(
        &self,
        ready: &mut Option<Ready>,
        plan: &mut ShapePlan,
        control: BorrowedFd<'_>,
        group: Option<&Group>,
        mounts: &[OwnedFd],
    ) -> Result<(), Trouble> {
        let ready = self.launcher(ready, plan.rooted)?;
        let differs = Differs {
            places: plan.places.clone(),
            links: plan.links.clone(),
            image: plan.image.clone(),
            names: plan.names.clone(),
        };
        if plan.rooted {
            plan.setup.template = ready.template(&differs, &self.host.root)?;
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
        // A new launcher has worked on these requests in parallel.
        let settled = ready.launcher.settle().await;
        if settled.is_err() {
            ready.templates.remove(&differs);
        }
        settled
    }

    fn launcher<'a>(&self, ready: &'a mut Option<Ready>, rooted: bool) -> Result<&'a mut Ready, Trouble> {
        if ready.is_none() {
            let launcher = Launcher::start(self.host.mapping, rooted)?;
            *ready = Some(Ready::of(launcher));
        }
        ready.as_mut().ok_or_else(|| Trouble::Lost("is missing".to_owned()))
    }

    /// Clones the mount at a host folder through the launcher, mapping its owner to the sandbox's user.
    pub(crate) async fn clone_mount(&self, source: &Source, outside: (u32, u32)) -> Result<OwnedFd, Refusal> {
        let metadata = source.host.metadata().map_err(|e| sources::no_such_folder(&source.host, &e))?;
        // The launcher checks that it clones the same file.
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
        let until = Instant::now() + CROWD_TIMEOUT;
        let mut answer = self.ask_rooted(&request(idmap)).await;
        while answer.as_ref().is_err_and(Trouble::may_pass) && Instant::now() < until {
            tokio::time::sleep(CROWD_RETRY_INTERVAL).await;
            answer = self.ask_rooted(&request(idmap)).await;
        }
        // Where the file system cannot map owners, files readable by all users can still be read.
        if let (Err(Trouble::Failed(f)), Some(_), true) = (&answer, idmap, read_only)
            && f.detail == 6
        {
            tracing::warn!(
                "{}: its file system cannot map owners; only what everybody may read is readable inside",
                source.host.display()
            );
            answer = self.ask_rooted(&request(None)).await;
        }
        let fd = answer.map_err(|trouble| {
            let refusal = refusal_of(&trouble);
            Refusal { message: format!("{}: {}", source.host.display(), refusal.message), ..refusal }
        })?;
        fd.ok_or_else(|| Refusal::internal("the launcher sent no mount"))
    }
}

impl Shared {
    /// Asks the launcher that has namespaces. If it does not answer it is replaced: the sandbox of this
    /// request may be waiting for it too, and the next sandbox is made by another launcher.
    async fn ask_rooted(&self, request: &[u8]) -> Result<Option<OwnedFd>, Trouble> {
        let mut launchers = self.launchers.lock().await;
        let answer = self.launcher(launchers.of(true), true)?.launcher.ask(request, &[]).await;
        if matches!(answer, Err(Trouble::Lost(_))) {
            launchers.replace(true);
        }
        answer
    }
}

impl Ready {
    fn of(launcher: Launcher) -> Self {
        Self { launcher, templates: HashMap::new(), next: 0 }
    }

    /// Starts a launcher with namespaces, without waiting for them.
    pub(crate) fn start(mapping: Mapping) -> Result<Self, Trouble> {
        Launcher::start(mapping, true).map(Self::of)
    }

    /// Lets it build the root of a run without a network, without waiting for that; `None` when it takes no requests.
    pub(crate) fn with_usual_root(mut self, root: &HostRoot) -> Option<Self> {
        // Another root than the one that the run wants would be built for nothing: about 1.3 ms.
        let usual = Differs { names: Some(Names::default()), ..Differs::default() };
        self.template(&usual, root).ok()?;
        Some(self)
    }

    /// Ensures that a root exists; does not wait for it.
    fn template(&mut self, differs: &Differs, host: &HostRoot) -> Result<u32, Trouble> {
        if let Some(template) = self.templates.get(differs) {
            return Ok(template.id);
        }
        let id = self.next % MAX_TEMPLATES;
        let old = self.templates.iter().find(|(_, known)| known.id == id).map(|(differs, _)| differs.clone());
        if let Some(old) = old {
            self.launcher.ask_later(&encode::forget(id), &[])?;
            self.templates.remove(&old);
        }
        let Differs { places, links, image, names } = differs;
        // A missing layer is reported by the launcher.
        let hold = |layer: &PathBuf| {
            let folder = File::open(layer)?;
            folder.lock_shared().map(|()| folder)
        };
        let layers =
            image.iter().flat_map(|image| &image.layers).filter_map(|layer| hold(layer).ok()).collect();
        let ops = match image {
            Some(image) => {
                root::image_ops(image, host, (places, links), names.as_ref(), crate::ids::INSIDE_ID)
            }
            None => root::ops(host, (places, links), names.as_ref(), crate::ids::INSIDE_ID),
        };
        let written = socket::sealed_by(c"hotcell-template", |memory| encode::write_ops(&ops, memory));
        let (memory, len) = written.map_err(Trouble::Here)?;
        self.launcher.ask_later(&encode::template(id, len), &[memory.as_fd()])?;
        self.templates.insert(differs.clone(), Template { id, _layers: layers });
        self.next += 1;
        Ok(id)
    }
}

/// The limits of a sandbox's cgroup.
pub(crate) fn group_limits(limits: &Limits) -> GroupLimits {
    GroupLimits {
        // Scratch lives in memory and is charged to the cgroup.
        memory: Bytes(limits.memory.0.saturating_add(limits.disk.0)),
        // Process 1 counts too.
        processes: limits.processes.saturating_add(1),
        cpus: limits.cpus,
    }
}

/// The number of a sandbox among those alive, which determines its host ids; `None` where they are the
/// caller's own.
#[derive(Debug)]
pub(crate) struct Slot {
    pub(crate) number: Option<u32>,
    /// Permit to run a job, once the sandbox has one.
    pub(crate) place: Option<OwnedSemaphorePermit>,
    shared: Arc<Shared>,
}

impl Drop for Slot {
    fn drop(&mut self) {
        if let Some(number) = self.number {
            self.shared.slots.lock().unwrap_or_else(PoisonError::into_inner).give_back(number);
        }
    }
}

pub(crate) fn refusal_of(trouble: &Trouble) -> Refusal {
    match trouble {
        Trouble::Failed(failure) => advise(explain(*failure, "", "")),
        trouble => Refusal::internal(trouble.to_string()),
    }
}

#[allow(clippy::needless_pass_by_value)] // the signature that map_err needs
pub(crate) fn out_of_descriptors(e: std::io::Error) -> Refusal {
    Refusal::without_descriptors(&format!("a descriptor for the sandbox cannot be made: {e}"))
}
