//! Makes sandboxes: one launcher, its templates, the cgroups, and what has to be cleaned up behind runs.

use std::collections::{BTreeSet, HashMap};
use std::os::fd::{AsFd, BorrowedFd, OwnedFd};
use std::os::unix::fs::MetadataExt;
use std::path::{Path, PathBuf};
use std::sync::atomic::{AtomicUsize, Ordering};
use std::sync::{Arc, Mutex, OnceLock, PoisonError};
use std::time::{Duration, Instant};

use hotcell_launcher::wire::IdMap;

pub use crate::BoxFuture;
use crate::cgroup::{Cgroups, Group, GroupLimits, Join};
use crate::failure::explain;
use crate::host::Host;
use crate::ids::Mapping;
use crate::launcher::{Launcher, Trouble};
use crate::layer::Layer;
use crate::outcome::{LayerState, Outcome};
use crate::plan::{self, Refusal, ShapePlan, Source, SourceKind};
use crate::policy::{Limits, Policy, Shape};
use crate::root::{self, Place};
use crate::running::Running;
use crate::sandbox::Sandbox;
use crate::units::Bytes;
use crate::{encode, plain, socket, sources};

/// Makes sandboxes. Cheap to clone; all clones share one launcher, which ends with the last of them.
#[derive(Clone, Debug)]
pub struct Engine(pub(crate) Arc<Inner>);

#[derive(Debug)]
pub(crate) struct Inner {
    pub(crate) host: Host,
    cgroups: Option<Cgroups>,
    launchers: tokio::sync::Mutex<Launchers>,
    slots: Mutex<BTreeSet<u32>>,
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

/// A launcher with the templates that it holds.
#[derive(Debug)]
struct Ready {
    launcher: Launcher,
    /// Roots by what differs between them: the mountpoints.
    templates: HashMap<BTreeSet<Place>, u32>,
    next: u32,
}

/// Templates that a launcher holds at once; the number is the launcher's.
const TEMPLATES: u32 = 32;

/// Sandboxes that have answered and are not gone yet.
#[derive(Debug, Default)]
pub(crate) struct Cleaning {
    pub(crate) open: AtomicUsize,
}

impl Engine {
    /// Finds out what this host offers and makes an engine. Starts no process yet.
    #[must_use]
    pub fn new() -> Self {
        let cgroups = Cgroups::detect();
        if let Ok(cgroups) = &cgroups {
            cgroups.remove_leftovers();
        }
        plain::remove_leftovers();
        Self(Arc::new(Inner {
            host: Host::look(&cgroups),
            cgroups: cgroups.ok(),
            launchers: tokio::sync::Mutex::default(),
            slots: Mutex::default(),
            cleaning: Arc::default(),
        }))
    }

    /// The engine that [`crate::run`] and [`crate::spawn`] use.
    pub fn shared() -> &'static Self {
        static SHARED: OnceLock<Engine> = OnceLock::new();
        SHARED.get_or_init(Self::new)
    }

    /// What this host offers.
    #[must_use]
    pub fn host(&self) -> &Host {
        &self.0.host
    }

    /// Keeps this many cgroups ready in the background: worth it for a service, not for one run.
    pub fn keep_ready(&self, cgroups: usize) {
        if let Some(all) = &self.0.cgroups {
            all.keep_ready(cgroups);
        }
    }

    /// The launcher's process id, once there is one. For tests that end it.
    pub async fn launcher_id(&self) -> Option<u32> {
        self.0.launchers.lock().await.rooted.as_ref().map(|r| r.launcher.id())
    }

    /// The folders in which this engine makes cgroups; none without cgroups.
    #[must_use]
    pub fn cgroup_folders(&self) -> Vec<PathBuf> {
        self.0.cgroups.iter().flat_map(Cgroups::folders).map(Path::to_owned).collect()
    }

    /// Makes a sandbox that is ready for a job.
    ///
    /// # Errors
    /// [`Refusal`] when the shape cannot be had here.
    pub fn acquire<'a>(&'a self, shape: &'a Shape) -> BoxFuture<'a, Result<Sandbox, Refusal>> {
        Box::pin(async move { self.make(shape, Instant::now()).await })
    }

    /// Runs a job in a fresh sandbox and follows it.
    ///
    /// # Errors
    /// [`Refusal`] when the policy cannot be met; nothing ran then.
    pub fn spawn<'a>(&'a self, policy: &'a Policy) -> BoxFuture<'a, Result<Running, Refusal>> {
        Box::pin(async move {
            let asked = Instant::now();
            let sources = sources::find(&policy.job)?;
            let shape = Shape {
                places: policy.shape.places.iter().cloned().chain(sources::places_for(&sources)).collect(),
                ceilings: policy.job.limits.clone(),
                host_writes: policy.shape.host_writes || policy.job.binds.iter().any(|b| b.writable),
                ..policy.shape.clone()
            };
            let sandbox = self.make(&shape, asked).await?;
            sandbox.start(&policy.job, sources).await
        })
    }

    /// Runs a job to its end. A refusal is an outcome too.
    pub fn run<'a>(&'a self, policy: &'a Policy) -> BoxFuture<'a, Outcome> {
        Box::pin(async move {
            match self.spawn(policy).await {
                Ok(running) => running.wait().await,
                Err(refusal) => refused(&refusal),
            }
        })
    }

    /// Waits until nothing of finished runs is left: no process, mount or cgroup.
    pub fn settle(&self, patience: Duration) -> BoxFuture<'_, bool> {
        Box::pin(async move {
            let until = Instant::now() + patience;
            loop {
                let groups = self.0.cgroups.as_ref().map_or(0, Cgroups::pending);
                let open = self.0.cleaning.open.load(Ordering::Acquire);
                if groups == 0 && open == 0 {
                    return true;
                }
                if Instant::now() > until {
                    return false;
                }
                tokio::time::sleep(Duration::from_millis(1)).await;
            }
        })
    }

    async fn make(&self, shape: &Shape, asked: Instant) -> Result<Sandbox, Refusal> {
        let inner = &self.0;
        let mut plan = plan::shape(shape, &inner.host)?;
        let slot = inner.take_slot();
        plan.with_ids(inner.host.mapping.outside(slot.number));
        let group = inner.take_group(&plan)?;
        let (control, theirs) = socket::pair().map_err(out_of_descriptors)?;
        let scratch =
            if plan.rooted { None } else { Some(plain::Scratch::make(&mut plan, inner.host.mapping)?) };

        let mut launchers = inner.launchers.lock().await;
        let launcher = launchers.of(plan.rooted);
        let mut sent = Err(Trouble::Lost("was not asked".to_owned()));
        // Twice: a launcher that somebody killed is replaced, unless it dies again.
        for _ in 0..2 {
            sent = inner.send(launcher, &mut plan, theirs.as_fd(), group.as_ref()).await;
            match sent {
                Err(Trouble::Lost(_)) => *launcher = None,
                _ => break,
            }
        }
        drop(launchers);
        sent.map_err(|trouble| refusal_of(&trouble))?;
        Ok(Sandbox { engine: self.clone(), control, group, plan, slot, scratch, asked, made: Instant::now() })
    }
}

impl Default for Engine {
    fn default() -> Self {
        Self::new()
    }
}

impl Inner {
    fn take_slot(self: &Arc<Self>) -> Slot {
        let mut taken = self.slots.lock().unwrap_or_else(PoisonError::into_inner);
        let number = (0..).find(|n| !taken.contains(n)).unwrap_or(0);
        taken.insert(number);
        Slot { number, engine: Arc::clone(self) }
    }

    fn take_group(&self, plan: &ShapePlan) -> Result<Option<Group>, Refusal> {
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
    ) -> Result<(), Trouble> {
        let ready = self.launcher(ready, plan.rooted).await?;
        if plan.rooted {
            plan.setup.template = ready.template(&plan.places, &self.host).await?;
        }
        let join = group.map(Group::join).transpose().map_err(|e| Trouble::Lost(e.to_string()))?;
        let mut fds = vec![control];
        match &join {
            Some(Join::V1(tasks)) => fds.extend(tasks),
            Some(Join::V2(folder)) => fds.push(*folder),
            None => {}
        }
        ready.launcher.tell(&plan.setup.encode(), &fds)
    }

    async fn launcher<'a>(
        &self,
        ready: &'a mut Option<Ready>,
        rooted: bool,
    ) -> Result<&'a mut Ready, Trouble> {
        if ready.is_none() {
            let launcher = Launcher::start(self.host.mapping, rooted).await?;
            *ready = Some(Ready { launcher, templates: HashMap::new(), next: 0 });
        }
        ready.as_mut().ok_or_else(|| Trouble::Lost("is missing".to_owned()))
    }

    /// Clones a host folder through the launcher, showing its owner as the sandbox's user.
    pub(crate) async fn clone_mount(&self, source: &Source, outside: (u32, u32)) -> Result<OwnedFd, Refusal> {
        let metadata = source.host.metadata().map_err(|e| sources::no_such_folder(&source.host, &e))?;
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
        let ready = self.launcher(launchers.of(true), true).await.map_err(|t| refusal_of(&t))?;
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
    async fn template(&mut self, places: &BTreeSet<Place>, host: &Host) -> Result<u32, Trouble> {
        if let Some(id) = self.templates.get(places) {
            return Ok(*id);
        }
        let id = self.next % TEMPLATES;
        let old = self.templates.iter().find(|(_, known)| **known == id).map(|(places, _)| places.clone());
        if let Some(old) = old {
            self.launcher.ask(&encode::forget(id), &[]).await?;
            self.templates.remove(&old);
        }
        let bytes = encode::ops(&root::ops(&host.root, places, crate::ids::INSIDE));
        let memory = socket::sealed(c"hotcell-template", &bytes).map_err(|e| Trouble::Lost(e.to_string()))?;
        self.launcher.ask(&encode::template(id, bytes.len()), &[memory.as_fd()]).await?;
        self.templates.insert(places.clone(), id);
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
    number: u32,
    engine: Arc<Inner>,
}

impl Drop for Slot {
    fn drop(&mut self) {
        self.engine.slots.lock().unwrap_or_else(PoisonError::into_inner).remove(&self.number);
    }
}

/// An outcome for something that never ran.
pub(crate) fn refused(refusal: &Refusal) -> Outcome {
    let mut outcome = Outcome::without_a_run(refusal.cause, refusal.message.clone());
    if let Some(layer) = refusal.layer {
        outcome.layers.states.insert(layer, LayerState::Unavailable(refusal.message.clone()));
    }
    outcome
}

fn refusal_of(trouble: &Trouble) -> Refusal {
    match trouble {
        Trouble::Failed(failure) => explain(*failure, "", ""),
        Trouble::Lost(why) => Refusal::internal(format!("the launcher {why}")),
    }
}

#[allow(clippy::needless_pass_by_value)] // the shape that map_err wants
pub(crate) fn out_of_descriptors(e: std::io::Error) -> Refusal {
    Refusal::internal(format!(
        "a descriptor for the sandbox cannot be made: {e}; raise `ulimit -n` or run fewer at once"
    ))
}
