//! Makes sandboxes: plans, takes what the shared parts offer, and hands out what is ready.

use std::path::{Path, PathBuf};
use std::sync::{Arc, OnceLock};
use std::time::{Duration, Instant};

use std::os::fd::AsFd;

use hotcell_launcher::wire::setup;
use tokio::sync::OwnedSemaphorePermit;

use crate::cgroup::Cgroups;
use crate::doctor::advise;
use crate::host::Host;
use crate::outcome::Outcome;
use crate::plan::{self, Refusal};
use crate::policy::{Policy, Shape};
use crate::prime::Prime;
use crate::running::Running;
use crate::sandbox::Sandbox;
use crate::shared::{Shared, out_of_descriptors, refusal_of};
use crate::{BoxFuture, plain, socket, sources, temporary};

/// Starts runs: an [`Engine`], or a [`Pool`](crate::pool::Pool) of its sandboxes.
pub trait Spawn: Send + Sync {
    /// Runs a job in a sandbox that nobody else has, and follows it.
    ///
    /// # Errors
    /// [`Refusal`] when the policy cannot be met; nothing ran then.
    fn spawn<'a>(&'a self, policy: &'a Policy) -> BoxFuture<'a, Result<Running, Refusal>>;
}

impl Spawn for Engine {
    fn spawn<'a>(&'a self, policy: &'a Policy) -> BoxFuture<'a, Result<Running, Refusal>> {
        Self::spawn(self, policy)
    }
}

/// Makes sandboxes. Cheap to clone; all clones share one launcher, which ends with the last of them.
#[derive(Clone, Debug)]
pub struct Engine(pub(crate) Arc<Shared>);

impl Engine {
    /// Finds out what this host offers and makes an engine. Starts no process yet.
    #[must_use]
    pub fn new() -> Self {
        let cgroups = Cgroups::detect();
        if let Ok(cgroups) = &cgroups {
            cgroups.remove_leftovers();
        }
        temporary::remove_leftovers();
        Self(Arc::new(Shared::new(Host::look(&cgroups), cgroups.ok())))
    }

    /// The engine that [`crate::run`] and [`crate::spawn`] use.
    pub fn shared() -> &'static Self {
        static SHARED: OnceLock<Engine> = OnceLock::new();
        SHARED.get_or_init(Self::new)
    }

    /// An engine as on a kernel whose Landlock is not newer than this version; 0 is a kernel without. For tests of what
    /// older kernels come to: it can only lower.
    #[must_use]
    pub fn with_landlock_at_most(abi: u32) -> Self {
        let cgroups = Cgroups::detect();
        let mut host = Host::look(&cgroups);
        host.landlock = match (abi, host.landlock) {
            (0, Ok(_)) => Err("left out for a test".to_owned()),
            (abi, landlock) => landlock.map(|kernel| kernel.min(abi)),
        };
        Self(Arc::new(Shared::new(host, cgroups.ok())))
    }

    /// An engine for a program that runs one thing and ends: it starts its launcher at once, beside whatever the
    /// program has to do first. Such a program ends with [`Engine::leave`].
    #[must_use]
    pub fn for_one_run() -> Self {
        let engine = Self::new();
        engine.0.cleaning.bequeaths.store(true, std::sync::atomic::Ordering::Release);
        // A failure shows when the run asks for its sandbox.
        let _ = engine.0.warm_up();
        engine
    }

    /// Leaves an engine [for one run](Engine::for_one_run): the launcher removes what is left of the run when this
    /// process has ended, so that nobody has to wait for it.
    pub fn leave(self) {
        if self.0.bequeath() {
            // Dropping it would end the launcher, which has work to do.
            std::mem::forget(self);
        }
    }

    /// What this host offers.
    #[must_use]
    pub fn host(&self) -> &Host {
        &self.0.host
    }

    /// How many jobs run at once, as [`Engine::spawn`] has it.
    #[must_use]
    pub fn jobs(&self) -> usize {
        self.0.room.jobs()
    }

    /// The most sandboxes that may wait for their jobs.
    pub(crate) fn idle(&self) -> usize {
        self.0.room.idle()
    }

    /// A place for a job, as [`Engine::spawn`] has it.
    pub(crate) async fn place(&self) -> Result<OwnedSemaphorePermit, Refusal> {
        self.0.room.take().await
    }

    /// Keeps this many cgroups ready in the background: worth it for a service, not for one run.
    pub fn keep_ready(&self, cgroups: usize) {
        if let Some(all) = &self.0.cgroups {
            all.keep_ready(cgroups);
        }
    }

    /// The launcher's process id, once there is one. For tests that end it.
    pub async fn launcher_id(&self) -> Option<u32> {
        self.0.launcher_id().await
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
        Box::pin(async move { self.make(shape, None, false, Instant::now()).await })
    }

    /// Runs a job in a fresh sandbox and follows it. Only so many run at once as the process has descriptors for (the soft
    /// `RLIMIT_NOFILE` when the engine was made): 40 of 1,024, 7 of 256. The next waits for its turn, at most 60 s.
    ///
    /// # Errors
    /// [`Refusal`] when the policy cannot be met; nothing ran then.
    pub fn spawn<'a>(&'a self, policy: &'a Policy) -> BoxFuture<'a, Result<Running, Refusal>> {
        Box::pin(async move {
            let asked = Instant::now();
            let place = self.place().await?;
            self.spawn_asked(policy, asked, place).await
        })
    }

    /// The same for somebody who asked then.
    pub(crate) async fn spawn_asked(
        &self,
        policy: &Policy,
        asked: Instant,
        place: OwnedSemaphorePermit,
    ) -> Result<Running, Refusal> {
        let sources = sources::find(&policy.job)?;
        let shape = sources::shape_for(policy, &sources);
        let mut sandbox = self.make(&shape, None, false, asked).await?;
        sandbox.slot.place = Some(place);
        sandbox.start(&policy.job, sources).await
    }

    /// Runs a job to its end. A refusal is an outcome too.
    pub fn run<'a>(&'a self, policy: &'a Policy) -> BoxFuture<'a, Outcome> {
        Box::pin(async move {
            match self.spawn(policy).await {
                Ok(running) => running.wait().await,
                Err(refusal) => refusal.into(),
            }
        })
    }

    /// Waits until nothing of finished runs is left: no process, mount or cgroup.
    pub fn settle(&self, patience: Duration) -> BoxFuture<'_, bool> {
        Box::pin(async move {
            let until = Instant::now() + patience;
            loop {
                if self.0.is_settled() {
                    return true;
                }
                if Instant::now() > until {
                    return false;
                }
                tokio::time::sleep(Duration::from_millis(1)).await;
            }
        })
    }

    /// With `prime`, a sandbox in which an interpreter waits for its job; with `direct`, one for a job that mounts nothing.
    pub(crate) async fn make(
        &self,
        shape: &Shape,
        prime: Option<&Prime>,
        direct: bool,
        asked: Instant,
    ) -> Result<Sandbox, Refusal> {
        let inner = &self.0;
        let mut plan = plan::shape(shape, &inner.host).map_err(advise)?;
        if let Some(prime) = prime {
            if !prime.fits(&plan) {
                return Err(Refusal::new(
                    "nothing can be started ahead of its job in a sandbox of this shape",
                ));
            }
            plan.setup.flags |= setup::PRIME;
            plan.mount_early(&prime.toolchains);
            plan.setup.prime = prime.start();
        }
        if direct && prime.is_none() && !plan.late {
            plan.setup.flags |= setup::DIRECT;
        }
        let slot = inner.take_slot();
        plan.with_ids(inner.host.mapping.outside(std::process::id().wrapping_mul(16), slot.number));
        let group = inner.take_group(&plan)?;
        let (control, theirs) = socket::pair().map_err(out_of_descriptors)?;
        let scratch =
            if plan.rooted { None } else { Some(plain::Scratch::make(&mut plan, inner.host.mapping)?) };

        let mut mounts = Vec::new();
        for source in plan.early() {
            mounts.push(inner.clone_mount(source, plan.setup.outside).await?);
        }
        inner
            .ask_for_sandbox(&mut plan, theirs.as_fd(), group.as_ref(), &mounts)
            .await
            .map_err(|t| refusal_of(&t))?;
        Ok(Sandbox {
            shared: Arc::clone(inner),
            control,
            group,
            plan,
            slot,
            scratch,
            asked,
            made: Instant::now(),
            heard: Vec::new(),
            spent: Duration::ZERO,
            ahead: None,
        })
    }
}

impl Default for Engine {
    fn default() -> Self {
        Self::new()
    }
}
