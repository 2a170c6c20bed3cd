//! Makes sandboxes: plans them, takes the shared resources that they need, and returns them ready for a job.

use std::os::fd::AsFd;
use std::path::{Path, PathBuf};
use std::sync::{Arc, OnceLock};
use std::time::{Duration, Instant};

use tokio::sync::OwnedSemaphorePermit;

use crate::advice::advise;
use crate::cgroup::Cgroups;
use crate::host::Host;
use crate::ids::Mapping;
use crate::outcome::Outcome;
use crate::plan::Ahead;
use crate::policy::{Policy, Shape};
use crate::prime::Prime;
use crate::refusal::Refusal;
use crate::root::HostRoot;
use crate::running::Running;
use crate::sandbox::Sandbox;
use crate::shared::{Ready, Shared, out_of_descriptors, refusal_of};
use crate::{BoxFuture, descriptors, host_scratch, plan, socket, sources, temporary};

/// Starts runs: an [`Engine`], or a [`Pool`](crate::pool::Pool) of its sandboxes.
pub trait Spawn: Send + Sync {
    /// Runs a job in a sandbox of its own and follows it.
    ///
    /// # Errors
    /// [`Refusal`] when the policy cannot be met; no program was started then.
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
    /// Detects what this host offers and makes an engine. Starts no process yet.
    ///
    /// Permanently raises this process's soft limit of descriptors (`RLIMIT_NOFILE`) to its hard limit:
    /// descriptors that runs send each other over sockets count against the user that they share with this
    /// process, and must not leave it unable to send.
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

    /// Makes an engine as on a kernel whose Landlock version is at most `abi`; 0 means a kernel without
    /// Landlock. For tests of the behaviour on older kernels: the version can only be lowered.
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

    /// Makes an engine for a program that runs one thing and ends: the launcher is started at once, in
    /// parallel with the program's own initialization. Such a program ends with [`Engine::leave`].
    #[must_use]
    pub fn for_one_run() -> Self {
        // The launcher inherits it.
        descriptors::raised();
        // Its namespaces and the root take longer than all else here, on another processor. A failure is reported when the run asks for
        // its sandbox.
        let mapping = Mapping::of_this_process();
        let start = || Ready::start(mapping).ok();
        let early = if Cgroups::tolerate_children() { start() } else { None };
        let root = HostRoot::look();
        let early = early.and_then(|ready| ready.with_usual_root(&root));
        let cgroups = Cgroups::detect();
        let ready = early.or_else(|| start()?.with_usual_root(&root));
        let shared = Shared::new(Host::with(&cgroups, root, mapping), cgroups.ok());
        shared.cleaning.sweep.order(shared.cgroups.as_ref().map(Cgroups::leftovers));
        shared.cleaning.bequeaths.store(true, std::sync::atomic::Ordering::Release);
        shared.adopt(ready);
        Self(Arc::new(shared))
    }

    /// Leaves an engine made [for one run](Engine::for_one_run): the launcher removes the remains of the run
    /// after this process has ended, so that the user does not wait for it.
    pub fn leave(self) {
        self.0.cleaning.sweep.end();
        if self.0.bequeath() {
            // Dropping the engine would end the launcher, which still has work to do.
            std::mem::forget(self);
        }
    }

    /// Features of this host.
    #[must_use]
    pub fn host(&self) -> &Host {
        &self.0.host
    }

    /// Maximum number of jobs that run at once; see [`Engine::spawn`].
    #[must_use]
    pub fn jobs(&self) -> usize {
        self.0.room.jobs()
    }

    /// Maximum number of idle sandboxes that wait for their jobs.
    pub(crate) fn idle(&self) -> usize {
        self.0.room.idle()
    }

    /// Waits for a permit to run one job; see [`Engine::spawn`].
    pub(crate) async fn place(&self) -> Result<OwnedSemaphorePermit, Refusal> {
        self.0.room.take().await
    }

    /// Keeps this many cgroups ready in the background. Worthwhile for a service, not for a single run.
    pub fn keep_ready(&self, cgroups: usize) {
        if let Some(all) = &self.0.cgroups {
            all.keep_ready(cgroups);
        }
    }

    /// The launcher's process id, once it is started. For tests that kill it.
    pub async fn launcher_id(&self) -> Option<u32> {
        self.0.launcher_id().await
    }

    /// The folders in which this engine makes cgroups; empty without cgroups.
    #[must_use]
    pub fn cgroup_folders(&self) -> Vec<PathBuf> {
        self.0.cgroups.iter().flat_map(Cgroups::folders).map(Path::to_owned).collect()
    }

    /// Makes a sandbox that is ready for a job.
    ///
    /// # Errors
    /// [`Refusal`] when this host cannot provide the shape.
    pub fn acquire<'a>(&'a self, shape: &'a Shape) -> BoxFuture<'a, Result<Sandbox, Refusal>> {
        Box::pin(async move { self.make(shape, None, false, Instant::now()).await })
    }

    /// Runs a job in a fresh sandbox and follows it. The number of runs at once is limited by the descriptors
    /// of this process (the soft `RLIMIT_NOFILE` when the first engine was made, which raises it): 40 runs
    /// for 1,024, 7 for 256. Others wait for their turn, at most 60 s.
    ///
    /// # Errors
    /// [`Refusal`] when the policy cannot be met; no program was started then.
    pub fn spawn<'a>(&'a self, policy: &'a Policy) -> BoxFuture<'a, Result<Running, Refusal>> {
        Box::pin(async move {
            let asked = Instant::now();
            let place = self.place().await?;
            self.spawn_asked(policy, asked, place).await
        })
    }

    /// Like [`Engine::spawn`], with a permit, and for a request that arrived at `asked`.
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
        let running = sandbox.start(&policy.job, sources).await;
        // Now the program runs, and this process waits for it.
        self.0.cleaning.sweep.begin();
        running
    }

    /// Runs a job to its end. A refusal is also returned as an [`Outcome`].
    pub fn run<'a>(&'a self, policy: &'a Policy) -> BoxFuture<'a, Outcome> {
        Box::pin(async move {
            match self.spawn(policy).await {
                Ok(running) => running.wait().await,
                Err(refusal) => refusal.into(),
            }
        })
    }

    /// Waits until nothing of finished runs is left: no process, mount or cgroup. Returns false after
    /// `patience`.
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

    /// Makes a sandbox. With `prime`, an interpreter waits in it for its job; `direct` is for a job that
    /// mounts nothing.
    pub(crate) async fn make(
        &self,
        shape: &Shape,
        prime: Option<&Prime>,
        direct: bool,
        asked: Instant,
    ) -> Result<Sandbox, Refusal> {
        let inner = &self.0;
        let start = prime.map(Prime::start);
        let ahead = match (prime, &start) {
            (Some(prime), Some(start)) => Ahead::Interpreter { sources: &prime.toolchains, start },
            _ if direct => Ahead::NoMounts,
            _ => Ahead::Unknown,
        };
        let mut plan = plan::shape(shape, &inner.host, ahead).map_err(advise)?;
        let slot = inner.take_slot()?;
        plan.with_ids(inner.host.mapping.outside(slot.number.unwrap_or(0)));
        let group = inner.take_group(&plan)?;
        let (control, theirs) = socket::pair().map_err(out_of_descriptors)?;
        let scratch = if plan.rooted {
            None
        } else {
            Some(host_scratch::Scratch::make(&mut plan, inner.host.mapping)?)
        };

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

#[cfg(test)]
mod tests {
    use super::*;
    use crate::outcome::Cause;

    #[tokio::test]
    async fn first_run_uses_root_built_ahead() {
        let engine = Engine::for_one_run();
        let outcome = engine.run(&Policy::new("/bin/true")).await;
        if outcome.cause == Cause::Refused {
            println!("skipped: no sandbox can be made here: {:?}", outcome.reason);
            return;
        }
        assert_eq!((outcome.cause, engine.0.roots().await), (Cause::Exited, 1), "{:?}", outcome.reason);
    }
}
