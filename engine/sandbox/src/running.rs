//! A job in progress, as the caller sees it: its streams, its end, a way to stop it.

use std::fs::File;
use std::os::fd::OwnedFd;
use std::os::unix::net::UnixStream;
use std::path::{Path, PathBuf};
use std::sync::atomic::Ordering;
use std::sync::{Arc, PoisonError};
use std::time::Duration;

use nix::errno::Errno;
use nix::fcntl::OFlag;
use nix::sys::stat::{FchmodatFlags, Mode, fchmodat};
use tokio::net::unix::pipe;
use tokio::sync::mpsc;

use crate::home::{self, Home};
use crate::host_scratch::Scratch;
use crate::outcome::Outcome;
use crate::policy::{PROJECT, PROJECT_NAME};
use crate::refusal::Refusal;
use crate::shared::{Cleaning, Shared, Slot};
use crate::streams::Chunk;
use crate::supervise::{Ends, Remains, Task, supervise};
use crate::terminal::Terminal;
use crate::{BoxFuture, root, sys};

pub use crate::home::Held;
pub use crate::supervise::Stop;

/// Writes to a program's standard input; dropping it ends the stream.
pub type StdinWriter = pipe::Sender;

/// The caller's end of a program's standard input.
#[derive(Debug)]
pub(crate) enum Given {
    Writer(StdinWriter),
    Socket(UnixStream),
    /// The socket that receives the program's terminal.
    Terminal(OwnedFd),
}

/// A job in progress. Dropping it ends the whole process tree.
#[derive(Debug)]
pub struct Running {
    pub(crate) follow: Option<Box<dyn Follow>>,
    pub(crate) chunks: (mpsc::Sender<Chunk>, Option<mpsc::Receiver<Chunk>>),
    pub(crate) events: Option<mpsc::Receiver<Vec<u8>>>,
    pub(crate) stdin: Option<Given>,
    pub(crate) terminal: Option<Terminal>,
    pub(crate) stop: Arc<Stop>,
    pub(crate) handle: Option<tokio::task::JoinHandle<Finished>>,
}

/// The process that follows a run: this one, which made its sandbox, or a service, which forwards the run's
/// progress.
pub trait Follow: std::fmt::Debug + Send + Sync {
    /// Sends the program's output to this channel, too.
    fn send_output(&mut self, chunks: mpsc::Sender<Chunk>);

    /// Follows the run to its end. The files that it left are returned only if the caller `wants` them.
    fn follow(self: Box<Self>, stop: Arc<Stop>, wants: bool) -> BoxFuture<'static, Finished>;
}

/// A run followed by this process.
#[derive(Debug)]
pub(crate) struct Here {
    pub(crate) ends: Ends,
    pub(crate) task: Task,
    pub(crate) shared: Arc<Shared>,
    pub(crate) slot: Slot,
    pub(crate) scratch: Option<Scratch>,
}

impl Follow for Here {
    fn send_output(&mut self, chunks: mpsc::Sender<Chunk>) {
        self.task.streams.chunks = Some(chunks);
    }

    fn follow(self: Box<Self>, stop: Arc<Stop>, wants: bool) -> BoxFuture<'static, Finished> {
        let Self { ends, task, shared, slot, scratch } = *self;
        Box::pin(follow(ends, task, stop, shared, (Some(slot), scratch), wants))
    }
}

/// A run that has ended.
#[derive(Debug)]
pub struct Finished {
    /// The result of the run.
    pub outcome: Outcome,
    /// The files in its home folder; `None` if no program ran.
    pub home: Option<Home>,
    /// The changes in its workspace; `None` without a workspace, if no program ran, or if the folder cannot
    /// be opened.
    pub changed: Option<Changed>,
}

/// The changes of a run in its workspace: a hostile folder, since the program wrote it. Its memory is held
/// until this value is dropped.
#[derive(Debug)]
pub struct Changed {
    /// The folder.
    pub folder: OwnedFd,
    /// True if the folder is the whole workspace, because the kernel could only copy it. Otherwise it is an
    /// overlay's upper layer, in which a whiteout (character device 0/0) marks a deletion and the attribute
    /// `user.overlay.opaque` a folder that replaced another entry.
    pub whole: bool,
    /// Changes in the binds of [`Job::collects`](crate::policy::Job::collects), in the same form.
    pub beside: Vec<Beside>,
    /// Process 1, which ends after all others.
    init: Option<OwnedFd>,
    /// Keeps the host folder of a sandbox without its own root; it is removed with the last holder.
    _held: Option<Held>,
}

/// Changes of a run in a copy-on-write bind; as hostile as [`Changed`].
#[derive(Debug)]
pub struct Beside {
    /// Path of the bind inside the sandbox.
    pub inside: PathBuf,
    /// The folder.
    pub folder: OwnedFd,
    /// True if the folder is the whole bind, like [`Changed::whole`].
    pub whole: bool,
}

impl Changed {
    /// Wraps the changes of a run that another process followed.
    #[must_use]
    pub fn handed(folder: OwnedFd, whole: bool, init: Option<OwnedFd>, held: Held) -> Self {
        Self { folder, whole, beside: Vec::new(), init, _held: Some(held) }
    }

    /// Process 1 of the run (a pidfd), until it has ended.
    #[must_use]
    pub fn init(&self) -> Option<std::os::fd::BorrowedFd<'_>> {
        self.init.as_ref().map(std::os::fd::AsFd::as_fd)
    }

    /// Waits until no process of the run is alive that could change the folder.
    ///
    /// # Errors
    /// When a process is still alive after 10 s, which does not happen in a tree that has ended.
    pub async fn settle(&mut self) -> std::io::Result<()> {
        let Some(init) = self.init.take() else { return Ok(()) };
        let gone = sys::readiness(init)?;
        drop(tokio::time::timeout(Duration::from_secs(10), gone.readable()).await??);
        Ok(())
    }
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
    /// A run that another process made and `follow` reports on, with the data of its events and the writer of its standard input where it has them.
    #[must_use]
    pub fn followed_by(
        follow: Box<dyn Follow>,
        events: Option<mpsc::Receiver<Vec<u8>>>,
        stdin: Option<StdinWriter>,
    ) -> Self {
        let (chunks, receiver) = mpsc::channel(64);
        Self {
            follow: Some(follow),
            chunks: (chunks, Some(receiver)),
            events,
            stdin: stdin.map(Given::Writer),
            terminal: None,
            stop: Arc::new(Stop::default()),
            handle: None,
        }
    }

    /// Takes the program's standard input, for [`crate::Stdin::Piped`] and [`crate::Stdin::Terminal`]. Succeeds
    /// only once.
    pub fn stdin(&mut self) -> Option<StdinWriter> {
        match self.stdin.take() {
            Some(Given::Writer(writer)) => Some(writer),
            other => {
                self.stdin = other;
                None
            }
        }
    }

    /// The program's terminal, for [`crate::Stdin::Terminal`].
    #[must_use]
    pub fn terminal(&self) -> Option<Terminal> {
        self.terminal.clone()
    }

    /// Takes the other end of the program's standard input, for [`crate::Stdin::Socket`]. Succeeds only once.
    /// Never ask for descriptors when reading: those that the program sends along are closed only if the
    /// reader does not ask for them.
    pub fn socket(&mut self) -> Option<UnixStream> {
        match self.stdin.take() {
            Some(Given::Socket(socket)) => Some(socket),
            other => {
                self.stdin = other;
                None
            }
        }
    }

    /// Takes the program's output as it arrives. Succeeds only once, and before [`Running::events`]. The
    /// caller must read it: a full channel slows the program down. The outcome holds the output in any case.
    pub fn output(&mut self) -> Option<mpsc::Receiver<Chunk>> {
        let follow = self.follow.as_mut()?;
        let receiver = self.chunks.1.take()?;
        follow.send_output(self.chunks.0.clone());
        self.follow_in_background();
        Some(receiver)
    }

    /// Takes the data that the program writes to [`crate::policy::EVENTS_FD`], as it arrives. Succeeds only
    /// once, and for a job with events. The caller must read it: a full channel slows the program down. If it
    /// is not taken, the data is dropped.
    pub fn events(&mut self) -> Option<mpsc::Receiver<Vec<u8>>> {
        let receiver = self.events.take()?;
        self.follow_in_background();
        Some(receiver)
    }

    /// A handle to stop this run from elsewhere.
    #[must_use]
    pub fn canceller(&self) -> Canceller {
        Canceller(Arc::clone(&self.stop))
    }

    /// Follows the run to its end.
    pub fn wait(self) -> BoxFuture<'static, Outcome> {
        Box::pin(async move { self.end(false).await.outcome })
    }

    /// Follows the run to its end, and returns the files that it left in its home folder.
    pub fn finish(self) -> BoxFuture<'static, Finished> {
        self.end(true)
    }

    fn end(mut self, wants: bool) -> BoxFuture<'static, Finished> {
        Box::pin(async move {
            (self.stdin, self.events) = (None, None);
            let guard = StopOnDrop(Some(Arc::clone(&self.stop)));
            let nothing =
                |why: String| Finished { outcome: Refusal::internal(why).into(), home: None, changed: None };
            let finished = match self.handle.take() {
                Some(handle) => {
                    handle.await.unwrap_or_else(|e| nothing(format!("following the run failed: {e}")))
                }
                None => match self.follow.take() {
                    Some(follow) => follow.follow(Arc::clone(&self.stop), wants).await,
                    None => nothing("the run was followed twice".to_owned()),
                },
            };
            guard.disarm();
            finished
        })
    }

    fn follow_in_background(&mut self) {
        if let Some(follow) = self.follow.take() {
            self.handle = Some(tokio::spawn(follow.follow(Arc::clone(&self.stop), true)));
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

/// A handle to stop a run.
#[derive(Clone, Debug)]
pub struct Canceller(Arc<Stop>);

impl Canceller {
    /// Ends the whole process tree. The outcome's cause is `cancelled`, unless the run had already ended.
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

/// Resources that a sandbox holds until it is gone: its ids and its folder.
type Kept<S = Scratch> = (Option<Slot>, Option<S>);

async fn follow(
    ends: Ends,
    task: Task,
    stop: Arc<Stop>,
    shared: Arc<Shared>,
    held: Kept,
    wants: bool,
) -> Finished {
    let collects = task.collects.clone();
    let (outcome, mut remains) = supervise(ends, task, stop).await;
    let (slot, scratch) = held;
    let plain = scratch.map(Arc::new);
    if !wants {
        clean_up(remains, (slot, plain), &shared.cleaning);
        return Finished { outcome, home: None, changed: None };
    }
    let top = remains.scratch.take();
    let home = Home::of(top.as_ref(), plain.clone());
    let changed = changed(&outcome, top.as_ref(), home.as_ref()).map(|(folder, whole)| {
        let init = remains.pidfd.as_ref().and_then(|fd| fd.try_clone().ok());
        let beside = top.as_ref().map(|top| beside(&outcome, top, &collects)).unwrap_or_default();
        Changed { folder, whole, beside, init, _held: plain.clone().map(|plain| plain as Held) }
    });
    // The last holder of the scratch top takes the file system down; that must not be the caller, who waits
    // for an answer.
    remains.scratch = top.as_ref().and_then(|top| top.try_clone().ok());
    clean_up(remains, (slot, plain), &shared.cleaning);
    Finished { outcome, home, changed }
}

/// The folder with the changes of a workspace, and whether it holds the whole workspace.
fn changed(outcome: &Outcome, top: Option<&File>, home: Option<&Home>) -> Option<(OwnedFd, bool)> {
    let is_workspace = |kind: &str| matches!(kind, "workspace" | "copy");
    let mount = outcome.mounts.iter().find(|m| m.inside == PROJECT && is_workspace(&m.kind))?;
    let folder = match top {
        // The workspace is the first of a job's mounts.
        Some(top) => upper(top, 0).ok()?,
        None => home?.open(Path::new(PROJECT_NAME), OFlag::O_DIRECTORY).ok()?,
    };
    Some((folder, mount.kind == "copy"))
}

/// The folders with the changes of further mounts, those that can be opened.
fn beside(outcome: &Outcome, top: &File, collects: &[(usize, PathBuf)]) -> Vec<Beside> {
    let open = |(number, inside): &(usize, PathBuf)| {
        let mount = outcome.mounts.iter().rev().find(|mount| Path::new(&mount.inside) == inside)?;
        let folder = upper(top, *number).ok()?;
        Some(Beside { inside: inside.clone(), folder, whole: mount.kind == "copy" })
    };
    collects.iter().filter_map(open).collect()
}

/// The upper layer of a mount by its number. The program may have taken the right to enter it away; its owner gives it back.
fn upper(top: &File, number: usize) -> nix::Result<OwnedFd> {
    let name = format!("up{number}");
    let name = Path::new(&name);
    home::open(top, name, OFlag::O_DIRECTORY).or_else(|errno| {
        if errno != Errno::EACCES {
            return Err(errno);
        }
        // Only init could replace it.
        fchmodat(top, name, Mode::S_IRWXU, FchmodatFlags::FollowSymlink)?;
        home::open(top, name, OFlag::O_DIRECTORY)
    })
}

/// Cleans up the rest of a sandbox after the answer. Its ids are reused only when it is gone.
fn clean_up(remains: Remains, held: Kept<Arc<Scratch>>, cleaning: &Arc<Cleaning>) {
    let Remains { control, given, pidfd, group, scratch } = remains;
    if cleaning.bequeaths.load(Ordering::Acquire) {
        if let Some(group) = group {
            let folders = group.folders().into_iter().map(root::cstring);
            cleaning.left.lock().unwrap_or_else(PoisonError::into_inner).extend(folders);
            std::mem::forget(group);
        }
        return;
    }
    let Some(pidfd) = pidfd else { return };
    let open = Open::count(cleaning);
    tokio::spawn(async move {
        drop((control, given));
        if let Ok(gone) = sys::readiness(pidfd) {
            let _ = tokio::time::timeout(Duration::from_secs(10), gone.readable()).await;
        }
        drop(scratch);
        drop(group);
        drop(held);
        drop(open);
    });
}

/// Counts one sandbox that is being removed; correct even when the runtime that waits for it ends first.
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
