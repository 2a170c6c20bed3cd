//! Makes sandboxes: one launcher, its templates, the cgroups, and what has to be cleaned up behind runs.

use std::collections::{BTreeSet, HashMap};
use std::future::Future;
use std::os::fd::{AsFd, AsRawFd, BorrowedFd, OwnedFd};
use std::os::unix::fs::MetadataExt;
use std::path::{Path, PathBuf};
use std::pin::Pin;
use std::sync::atomic::{AtomicUsize, Ordering};
use std::sync::{Arc, Mutex, OnceLock, PoisonError};
use std::time::{Duration, Instant};

use hotcell_launcher::wire::IdMap;
use tokio::net::unix::pipe;
use tokio::sync::mpsc;

use crate::cgroup::{Cgroups, Group, GroupLimits, Join};
use crate::failure::explain;
use crate::ids::{self, Mapping};
use crate::launcher::{Launcher, Trouble};
use crate::outcome::Outcome;
use crate::plan::{self, Host, Refusal, ShapePlan, Source, SourceKind};
use crate::policy::{Confinement, HOME, Job, MountPlace, PROJECT, Policy, Shape, Stdin};
use crate::root::HostRoot;
use crate::supervise::{Chunk, Ends, Remains, Stop, Task, supervise};
use crate::units::Bytes;
use crate::{encode, root, socket, sys};

/// A future as this library returns it: boxed, so that programs that use it stay small and quick to build.
pub type BoxFuture<'a, T> = Pin<Box<dyn Future<Output = T> + Send + 'a>>;

/// Makes sandboxes. Cheap to clone; all clones share one launcher, which ends with the last of them.
#[derive(Clone, Debug)]
pub struct Engine(Arc<Inner>);

#[derive(Debug)]
struct Inner {
    host: Host,
    cgroups: Option<Cgroups>,
    launcher: tokio::sync::Mutex<Option<Ready>>,
    slots: Mutex<BTreeSet<u32>>,
    cleaning: Arc<Cleaning>,
}

/// A launcher with the templates that it holds.
#[derive(Debug)]
struct Ready {
    launcher: Launcher,
    namespaces: bool,
    templates: HashMap<Vec<encode::Op>, u32>,
    next: u32,
}

/// Templates that a launcher holds at once; the number is the launcher's.
const TEMPLATES: u32 = 32;

/// Sandboxes that have answered and are not gone yet.
#[derive(Debug, Default)]
struct Cleaning {
    open: AtomicUsize,
}

impl Engine {
    /// Finds out what this host offers and makes an engine. Starts no process yet.
    #[must_use]
    pub fn new() -> Self {
        let cgroups = Cgroups::detect();
        if let Ok(cgroups) = &cgroups {
            cgroups.remove_leftovers();
        }
        Self(Arc::new(Inner {
            host: look_at_host(&cgroups),
            cgroups: cgroups.ok(),
            launcher: tokio::sync::Mutex::default(),
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
        self.0.launcher.lock().await.as_ref().map(|r| r.launcher.id())
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
            let sources = find_sources(&policy.job, &policy.shape)?;
            let shape = Shape {
                places: policy.shape.places.iter().cloned().chain(places_for(&sources)).collect(),
                ceilings: policy.job.limits.clone(),
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
        plan.setup.outside = inner.host.mapping.outside(slot.number);
        let group = inner.take_group(&plan)?;
        let (control, theirs) = socket::pair().map_err(out_of_descriptors)?;
        let namespaces = shape.confinement == Confinement::Namespaces;

        let mut ready = inner.launcher.lock().await;
        let mut sent = Err(Trouble::Lost("was not asked".to_owned()));
        // Twice: a launcher that somebody killed is replaced, unless it dies again.
        for _ in 0..2 {
            sent = inner.send(&mut ready, namespaces, &mut plan, theirs.as_fd(), group.as_ref()).await;
            match sent {
                Err(Trouble::Lost(_)) => *ready = None,
                _ => break,
            }
        }
        drop(ready);
        sent.map_err(|trouble| refusal_of(&trouble))?;
        Ok(Sandbox { engine: self.clone(), control, group, plan, slot, asked, made: Instant::now() })
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
        let limits = &plan.ceilings;
        let group = GroupLimits {
            // Scratch lives in memory and is charged to the group.
            memory: Bytes(limits.memory.0.saturating_add(limits.disk.0)),
            // Process 1 counts.
            processes: limits.processes.saturating_add(1),
            cpus: limits.cpus,
        };
        cgroups.take(&group).map(Some).map_err(|e| Refusal {
            layer: Some(crate::layer::Layer::Cgroup),
            ..Refusal::new(format!("a cgroup for the sandbox cannot be made: {e}"))
        })
    }

    /// Makes sure of launcher and template, and asks for the sandbox.
    async fn send(
        &self,
        ready: &mut Option<Ready>,
        namespaces: bool,
        plan: &mut ShapePlan,
        control: BorrowedFd<'_>,
        group: Option<&Group>,
    ) -> Result<(), Trouble> {
        let ready = self.launcher(ready, namespaces).await?;
        if !plan.root.is_empty() {
            plan.setup.template = ready.template(&plan.root).await?;
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
        namespaces: bool,
    ) -> Result<&'a mut Ready, Trouble> {
        if ready.as_ref().is_none_or(|r| r.namespaces != namespaces) {
            let launcher = Launcher::start(self.host.mapping, namespaces).await?;
            *ready = Some(Ready { launcher, namespaces, templates: HashMap::new(), next: 0 });
        }
        ready.as_mut().ok_or_else(|| Trouble::Lost("is missing".to_owned()))
    }

    /// Clones a host folder through the launcher, showing its owner as the sandbox's user.
    async fn clone_mount(&self, source: &Source, outside: (u32, u32)) -> Result<OwnedFd, Refusal> {
        let metadata = source.host.metadata().map_err(|e| no_such_folder(&source.host, &e))?;
        let idmap = (self.host.mapping == Mapping::Privileged).then_some(IdMap {
            from_uid: metadata.uid(),
            from_gid: metadata.gid(),
            to_uid: outside.0,
            to_gid: outside.1,
        });
        let read_only = source.kind != SourceKind::ReadWrite;
        let path = root::cstring(&source.host);
        let request = |idmap| encode::clone_mount(&path, metadata.dev(), metadata.ino(), read_only, idmap);
        let mut ready = self.launcher.lock().await;
        let ready = self.launcher(&mut ready, true).await.map_err(|t| refusal_of(&t))?;
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
    async fn template(&mut self, ops: &[encode::Op]) -> Result<u32, Trouble> {
        if let Some(id) = self.templates.get(ops) {
            return Ok(*id);
        }
        let id = self.next % TEMPLATES;
        if let Some(old) = self.templates.iter().find(|(_, known)| **known == id).map(|(ops, _)| ops.clone())
        {
            self.launcher.ask(&encode::forget(id), &[]).await?;
            self.templates.remove(&old);
        }
        let bytes = encode::ops(ops);
        let memory = socket::sealed(c"hotcell-template", &bytes).map_err(|e| Trouble::Lost(e.to_string()))?;
        self.launcher.ask(&encode::template(id, bytes.len()), &[memory.as_fd()]).await?;
        self.templates.insert(ops.to_vec(), id);
        self.next += 1;
        Ok(id)
    }
}

/// The number of a sandbox among those alive, from which its host ids follow.
#[derive(Debug)]
struct Slot {
    number: u32,
    engine: Arc<Inner>,
}

impl Drop for Slot {
    fn drop(&mut self) {
        self.engine.slots.lock().unwrap_or_else(PoisonError::into_inner).remove(&self.number);
    }
}

/// A sandbox that is ready for one job. Dropping it unused ends it.
#[derive(Debug)]
pub struct Sandbox {
    engine: Engine,
    control: OwnedFd,
    group: Option<Group>,
    plan: ShapePlan,
    slot: Slot,
    asked: Instant,
    made: Instant,
}

impl Sandbox {
    /// Sends it its job.
    ///
    /// # Errors
    /// [`Refusal`] when the job asks for more than the shape has; the sandbox is gone then.
    pub fn release<'a>(self, job: &'a Job) -> BoxFuture<'a, Result<Running, Refusal>> {
        Box::pin(async move {
            let sources = find_sources(job, &Shape::default())?;
            self.start(job, sources).await
        })
    }

    async fn start(self, job: &Job, sources: Vec<Source>) -> Result<Running, Refusal> {
        let host = &self.engine.0.host;
        let plan = plan::job(job, &sources, &self.plan, host)?;
        let mut mounts = Vec::new();
        for source in &sources {
            mounts.push(self.engine.0.clone_mount(source, self.plan.setup.outside).await?);
        }
        let bytes = plan.job.encode();
        let memory = socket::sealed(c"hotcell-job", &bytes).map_err(out_of_descriptors)?;
        let (stdin, stdin_writer) = self.stdin(&job.stdin)?;
        let (stdout, stdout_writer) = self.pipe()?;
        let (stderr, stderr_writer) = self.pipe()?;
        let mut fds = vec![memory.as_fd(), stdin.as_fd(), stdout_writer.as_fd(), stderr_writer.as_fd()];
        fds.extend(mounts.iter().map(AsFd::as_fd));
        let released = Instant::now();
        // A sandbox that could not be made has told so on this socket already: a failure to send is no news.
        let _ = socket::send(self.control.as_fd(), &(bytes.len() as u64).to_le_bytes(), &fds);
        drop(fds);

        let (chunks, receiver) = mpsc::channel(64);
        let stop = Arc::new(Stop::default());
        let task = Task {
            limits: job.limits.clone(),
            output: [receiver_of(stdout)?, receiver_of(stderr)?],
            program: job.argv.first().map(|p| p.to_string_lossy().into_owned()).unwrap_or_default(),
            folder: plan.job.cwd.to_string_lossy().into_owned(),
            chunks: None,
            asked: self.asked,
            ready: self.made,
            released,
        };
        let mut all_mounts = self.plan.mounts;
        all_mounts.extend(plan.mounts);
        let ends =
            Ends { control: self.control, group: self.group, layers: self.plan.layers, mounts: all_mounts };
        Ok(Running {
            follow: Some((ends, task)),
            chunks: (chunks, Some(receiver)),
            stdin: stdin_writer,
            stop,
            engine: self.engine,
            slot: Some(self.slot),
            handle: None,
        })
    }

    /// A pipe whose writing end the program may also open again through `/dev/stdout`.
    fn pipe(&self) -> Result<(OwnedFd, OwnedFd), Refusal> {
        let (reader, writer) =
            nix::unistd::pipe2(nix::fcntl::OFlag::O_CLOEXEC).map_err(|e| out_of_descriptors(e.into()))?;
        self.give(&writer);
        Ok((reader, writer))
    }

    fn give(&self, fd: &OwnedFd) {
        if self.engine.0.host.mapping == Mapping::Privileged {
            let (uid, gid) = self.plan.setup.outside;
            let _ = nix::unistd::fchown(fd, Some(uid.into()), Some(gid.into()));
        }
    }

    fn stdin(&self, stdin: &Stdin) -> Result<(OwnedFd, Option<StdinWriter>), Refusal> {
        let null = || {
            std::fs::File::open("/dev/null")
                .map(OwnedFd::from)
                .map_err(|e| Refusal::internal(format!("/dev/null: {e}")))
        };
        Ok(match stdin {
            Stdin::Null => (null()?, None),
            Stdin::Bytes(bytes) => {
                let memory = socket::sealed(c"stdin", bytes).map_err(out_of_descriptors)?;
                // The write above moved the offset: open it anew from its start.
                let path = format!("/proc/self/fd/{}", memory.as_raw_fd());
                let fresh = std::fs::File::open(path).map_err(out_of_descriptors)?.into();
                self.give(&fresh);
                (fresh, None)
            }
            Stdin::Piped => {
                let (reader, writer) = nix::unistd::pipe2(nix::fcntl::OFlag::O_CLOEXEC)
                    .map_err(|e| out_of_descriptors(e.into()))?;
                self.give(&reader);
                set_nonblocking(&writer)?;
                let writer = pipe::Sender::from_owned_fd(writer).map_err(out_of_descriptors)?;
                (reader, Some(writer))
            }
        })
    }
}

/// Writes to a program's standard input; dropping it ends the stream.
pub type StdinWriter = pipe::Sender;

/// A job under way. Dropping it ends the whole process tree.
#[derive(Debug)]
pub struct Running {
    follow: Option<(Ends, Task)>,
    chunks: (mpsc::Sender<Chunk>, Option<mpsc::Receiver<Chunk>>),
    stdin: Option<StdinWriter>,
    stop: Arc<Stop>,
    engine: Engine,
    slot: Option<Slot>,
    handle: Option<tokio::task::JoinHandle<Outcome>>,
}

impl std::fmt::Debug for Ends {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        f.debug_struct("Ends").field("control", &self.control).finish_non_exhaustive()
    }
}

impl std::fmt::Debug for Task {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        f.debug_struct("Task").field("program", &self.program).finish_non_exhaustive()
    }
}

impl Running {
    /// The program's standard input, for [`Stdin::Piped`]; once.
    pub fn stdin(&mut self) -> Option<StdinWriter> {
        self.stdin.take()
    }

    /// What the program prints, as it comes; once, and before [`Running::wait`]. Whoever takes it must read it:
    /// a full channel slows the program down. The outcome holds the output all the same.
    pub fn output(&mut self) -> Option<mpsc::Receiver<Chunk>> {
        let receiver = self.chunks.1.take()?;
        if let Some((_, task)) = &mut self.follow {
            task.chunks = Some(self.chunks.0.clone());
        }
        self.follow_in_background();
        Some(receiver)
    }

    /// A handle that stops this run from elsewhere.
    #[must_use]
    pub fn canceller(&self) -> Canceller {
        Canceller(Arc::clone(&self.stop))
    }

    /// Follows the run to its end.
    pub fn wait(mut self) -> BoxFuture<'static, Outcome> {
        Box::pin(async move {
            self.stdin = None;
            let guard = StopOnDrop(Some(Arc::clone(&self.stop)));
            let outcome = match self.handle.take() {
                Some(handle) => handle.await.unwrap_or_else(|e| {
                    refused(&Refusal::internal(format!("following the run failed: {e}")))
                }),
                None => match self.follow.take() {
                    Some((ends, task)) => {
                        follow(ends, task, Arc::clone(&self.stop), self.engine.clone(), self.slot.take())
                            .await
                    }
                    None => refused(&Refusal::internal("the run was followed twice")),
                },
            };
            guard.disarm();
            outcome
        })
    }

    fn follow_in_background(&mut self) {
        if let Some((ends, task)) = self.follow.take() {
            let (stop, engine, slot) = (Arc::clone(&self.stop), self.engine.clone(), self.slot.take());
            self.handle = Some(tokio::spawn(follow(ends, task, stop, engine, slot)));
        }
    }
}

impl Drop for Running {
    fn drop(&mut self) {
        if self.handle.is_some() {
            self.stop.stop();
        }
    }
}

/// Stops a run from elsewhere.
#[derive(Clone, Debug)]
pub struct Canceller(Arc<Stop>);

impl Canceller {
    /// Ends the whole process tree; the outcome's cause is `cancelled`, unless it had ended already.
    pub fn cancel(&self) {
        self.0.stop();
    }
}

struct StopOnDrop(Option<Arc<Stop>>);

impl StopOnDrop {
    fn disarm(mut self) {
        self.0 = None;
    }
}

impl Drop for StopOnDrop {
    fn drop(&mut self) {
        if let Some(stop) = &self.0 {
            stop.stop();
        }
    }
}

async fn follow(ends: Ends, task: Task, stop: Arc<Stop>, engine: Engine, slot: Option<Slot>) -> Outcome {
    let (outcome, remains) = supervise(ends, task, stop).await;
    clean_up(remains, slot, &engine.0.cleaning);
    outcome
}

/// Lets the rest of a sandbox go away behind the answer. Its ids are handed out again only when it is gone.
fn clean_up(remains: Remains, slot: Option<Slot>, cleaning: &Arc<Cleaning>) {
    let Remains { pidfd, group } = remains;
    let Some(pidfd) = pidfd else { return };
    let open = Open::count(cleaning);
    tokio::spawn(async move {
        if let Ok(gone) = sys::readiness(pidfd) {
            let _ = tokio::time::timeout(Duration::from_secs(10), gone.readable()).await;
        }
        drop(group);
        drop(slot);
        drop(open);
    });
}

/// Counts one sandbox that is going away; also when the runtime that waits for it ends first.
struct Open(Arc<Cleaning>);

impl Open {
    fn count(cleaning: &Arc<Cleaning>) -> Self {
        cleaning.open.fetch_add(1, Ordering::AcqRel);
        Self(Arc::clone(cleaning))
    }
}

impl Drop for Open {
    fn drop(&mut self) {
        self.0.open.fetch_sub(1, Ordering::AcqRel);
    }
}

/// An outcome for something that never ran.
fn refused(refusal: &Refusal) -> Outcome {
    let mut outcome = Outcome::without_a_run(refusal.cause, refusal.message.clone());
    if let Some(layer) = refusal.layer {
        outcome.layers.states.insert(layer, crate::outcome::LayerState::Unavailable(refusal.message.clone()));
    }
    outcome
}

fn refusal_of(trouble: &Trouble) -> Refusal {
    match trouble {
        Trouble::Failed(failure) => explain(*failure, "", ""),
        Trouble::Lost(why) => Refusal::internal(format!("the launcher {why}")),
    }
}

fn out_of_descriptors(e: std::io::Error) -> Refusal {
    Refusal::internal(format!(
        "a descriptor for the sandbox cannot be made: {e}; raise `ulimit -n` or run fewer at once"
    ))
}

fn receiver_of(fd: OwnedFd) -> Result<pipe::Receiver, Refusal> {
    set_nonblocking(&fd)?;
    pipe::Receiver::from_owned_fd(fd).map_err(out_of_descriptors)
}

fn set_nonblocking(fd: &OwnedFd) -> Result<(), Refusal> {
    let flag = nix::fcntl::FcntlArg::F_SETFL(nix::fcntl::OFlag::O_NONBLOCK);
    nix::fcntl::fcntl(fd, flag).map(drop).map_err(|e| out_of_descriptors(e.into()))
}

fn no_such_folder(path: &Path, e: &std::io::Error) -> Refusal {
    Refusal::new(format!("{} cannot be mounted: {e}", path.display()))
}

/// Finds what a job mounts on the host: canonical paths, so that no link is followed afterwards.
fn find_sources(job: &Job, shape: &Shape) -> Result<Vec<Source>, Refusal> {
    let mut sources = Vec::new();
    let workspace = job.workspace.iter().map(|w| (w.clone(), PathBuf::from(PROJECT), SourceKind::Workspace));
    let toolchains = job.toolchains.iter().map(|t| (t.clone(), t.clone(), SourceKind::Toolchain));
    let binds = job.binds.iter().map(|b| {
        let kind = if b.writable { SourceKind::ReadWrite } else { SourceKind::ReadOnly };
        (b.host.clone(), b.inside.clone(), kind)
    });
    for (host, inside, kind) in workspace.chain(toolchains).chain(binds) {
        if shape.confinement == Confinement::LandlockOnly {
            return Err(Refusal {
                layer: Some(crate::layer::Layer::MountNs),
                ..Refusal::new(format!("{} cannot be mounted without a mount namespace", host.display()))
            });
        }
        let found = host.canonicalize().map_err(|e| no_such_folder(&host, &e))?;
        let folder = found.is_dir();
        if kind == SourceKind::Workspace && !folder {
            return Err(Refusal::new(format!(
                "{} is not a folder, so it cannot be a workspace",
                host.display()
            )));
        }
        if !folder && !found.is_file() {
            return Err(Refusal::new(format!(
                "{} is neither a file nor a folder; sockets, pipes and devices are never mounted",
                host.display()
            )));
        }
        if found == Path::new("/") {
            return Err(Refusal::new("the host's whole file system is never mounted; name a folder"));
        }
        let inside = plan::inside_path(&inside)?;
        if RESERVED.iter().any(|top| inside.starts_with(top)) || inside == Path::new("/") {
            return Err(Refusal::new(format!(
                "nothing can be mounted at {} inside: it belongs to the sandbox itself",
                inside.display()
            )));
        }
        sources.push(Source { host: found, inside, kind, folder });
    }
    Ok(sources)
}

/// Places inside that a job cannot cover.
const RESERVED: [&str; 3] = ["/proc", "/dev", "/sys"];

/// Mountpoints that the root must have for them.
fn places_for(sources: &[Source]) -> impl Iterator<Item = MountPlace> {
    sources
        .iter()
        .filter(|s| !plan::in_scratch(&s.inside) && s.inside != Path::new(HOME))
        .map(|s| MountPlace { inside: s.inside.clone(), folder: s.folder })
}

fn look_at_host(cgroups: &Result<Cgroups, crate::cgroup::Unavailable>) -> Host {
    let memory = std::fs::read_to_string("/proc/meminfo").ok().and_then(|text| {
        let line = text.lines().find(|l| l.starts_with("MemTotal:"))?;
        line.split_ascii_whitespace().nth(1)?.parse().ok().map(Bytes::kib)
    });
    Host {
        mapping: ids::Mapping::of_this_process(),
        landlock: sys::landlock_abi().map_err(|e| format!("this kernel does not offer it ({e})")),
        notifications: sys::notifications_work().map_err(|e| e.to_string()),
        cgroup: match cgroups {
            Ok(cgroups) => Ok(cgroups.version()),
            Err(unavailable) => Err(unavailable.to_string()),
        },
        cpus: cgroups.as_ref().is_ok_and(Cgroups::holds_cpus),
        time_ns: if Path::new("/proc/self/ns/time").exists() {
            Ok(())
        } else {
            Err("this kernel has no time namespaces".to_owned())
        },
        root: HostRoot::look(),
        memory: memory.unwrap_or(Bytes::gib(1)),
    }
}
