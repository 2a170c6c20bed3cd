//! A job under way, as the caller sees it: its streams, its end, a way to stop it.

use std::fs::File;
use std::os::fd::OwnedFd;
use std::os::unix::net::UnixStream;
use std::path::Path;
use std::sync::atomic::Ordering;
use std::sync::{Arc, PoisonError};
use std::time::Duration;

use nix::errno::Errno;
use nix::fcntl::OFlag;
use nix::sys::stat::{FchmodatFlags, Mode, fchmodat};
use tokio::net::unix::pipe;
use tokio::sync::mpsc;

use crate::home::{self, Held, Home};
use crate::outcome::Outcome;
use crate::plain::Scratch;
use crate::plan::Refusal;
use crate::policy::{PROJECT, PROJECT_NAME};
use crate::serve::Relay;
use crate::shared::{Cleaning, Shared, Slot};
use crate::streams::Chunk;
use crate::supervise::{Ends, Remains, Stop, Task, supervise};
use crate::{BoxFuture, root, sys};

/// Writes to a program's standard input; dropping it ends the stream.
pub type StdinWriter = pipe::Sender;

/// The caller's end of a program's standard input.
#[derive(Debug)]
pub(crate) enum Given {
    Writer(StdinWriter),
    Socket(UnixStream),
}

/// A job under way. Dropping it ends the whole process tree.
#[derive(Debug)]
pub struct Running {
    pub(crate) follow: Option<Follow>,
    pub(crate) chunks: (mpsc::Sender<Chunk>, Option<mpsc::Receiver<Chunk>>),
    pub(crate) events: Option<mpsc::Receiver<Vec<u8>>>,
    pub(crate) stdin: Option<Given>,
    pub(crate) stop: Arc<Stop>,
    pub(crate) handle: Option<tokio::task::JoinHandle<Finished>>,
}

/// Who follows a run.
#[derive(Debug)]
pub(crate) enum Follow {
    /// This process, which made its sandbox.
    Here(Box<Here>),
    /// A service, which tells of it.
    There(Relay),
}

/// A run of this process's.
#[derive(Debug)]
pub(crate) struct Here {
    pub(crate) ends: Ends,
    pub(crate) task: Task,
    pub(crate) shared: Arc<Shared>,
    pub(crate) slot: Slot,
    pub(crate) scratch: Option<Scratch>,
}

impl Follow {
    /// With the files that it left only where somebody `wants` them.
    async fn follow(self, stop: Arc<Stop>, wants: bool) -> Finished {
        match self {
            Self::Here(here) => {
                let Here { ends, task, shared, slot, scratch } = *here;
                follow(ends, task, stop, shared, (Some(slot), scratch), wants).await
            }
            Self::There(relay) => relay.follow(&stop).await,
        }
    }
}

/// A run that has ended.
#[derive(Debug)]
pub struct Finished {
    /// What it came to.
    pub outcome: Outcome,
    /// The files that it left in its home folder; none where nothing ran.
    pub home: Option<Home>,
    /// What it changed in its workspace; none without a workspace, where nothing ran, and where it cannot be opened.
    pub changed: Option<Changed>,
}

/// What a run changed in its workspace: a folder of the program's making, so hostile. Its memory is held until this value
/// is dropped.
#[derive(Debug)]
pub struct Changed {
    /// The folder.
    pub folder: OwnedFd,
    /// It is the whole workspace, because the kernel could only copy it; else an overlay's upper layer, in which what was
    /// deleted is a character device 0/0 and a folder that replaced another has the attribute `user.overlay.opaque`.
    pub whole: bool,
    /// Process 1, which ends after all others.
    init: Option<OwnedFd>,
    /// Without a root of its own, the folder is the host's and goes with the last of these.
    _held: Option<Held>,
}

impl Changed {
    /// What a run changed that another process followed.
    pub(crate) fn handed(folder: OwnedFd, whole: bool, init: Option<OwnedFd>, held: Held) -> Self {
        Self { folder, whole, init, _held: Some(held) }
    }

    pub(crate) fn init(&self) -> Option<std::os::fd::BorrowedFd<'_>> {
        self.init.as_ref().map(std::os::fd::AsFd::as_fd)
    }

    /// Waits until nothing of the run is alive that could change the folder.
    ///
    /// # Errors
    /// When it lives for 10 s more, which no ended tree does.
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
    /// The program's standard input, for [`crate::Stdin::Piped`]; once.
    pub fn stdin(&mut self) -> Option<StdinWriter> {
        match self.stdin.take() {
            Some(Given::Writer(writer)) => Some(writer),
            other => {
                self.stdin = other;
                None
            }
        }
    }

    /// The other end of the program's standard input, for [`crate::Stdin::Socket`]; once. Descriptors that the program may
    /// send along are closed unless the reader asks for them: do not.
    pub fn socket(&mut self) -> Option<UnixStream> {
        match self.stdin.take() {
            Some(Given::Socket(socket)) => Some(socket),
            other => {
                self.stdin = other;
                None
            }
        }
    }

    /// What the program prints, as it comes; once, and before [`Running::events`]. Whoever takes it must read it:
    /// a full channel slows the program down. The outcome holds the output all the same.
    pub fn output(&mut self) -> Option<mpsc::Receiver<Chunk>> {
        let follow = self.follow.as_mut()?;
        let receiver = self.chunks.1.take()?;
        let sender = Some(self.chunks.0.clone());
        match follow {
            Follow::Here(here) => here.task.streams.chunks = sender,
            Follow::There(relay) => relay.chunks = sender,
        }
        self.follow_in_background();
        Some(receiver)
    }

    /// What the program writes to [`crate::policy::EVENTS_FD`], as it comes; once, and for a job with events. Whoever
    /// takes it must read it: a full channel slows the program down. What nobody takes is dropped.
    pub fn events(&mut self) -> Option<mpsc::Receiver<Vec<u8>>> {
        let receiver = self.events.take()?;
        self.follow_in_background();
        Some(receiver)
    }

    /// A handle that stops this run from elsewhere.
    #[must_use]
    pub fn canceller(&self) -> Canceller {
        Canceller(Arc::clone(&self.stop))
    }

    /// Follows the run to its end.
    pub fn wait(self) -> BoxFuture<'static, Outcome> {
        Box::pin(async move { self.end(false).await.outcome })
    }

    /// Follows the run to its end, and gives the files that it left in its home folder.
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

/// What a sandbox keeps to itself until it is gone: its ids and its folder.
type Kept<S = Scratch> = (Option<Slot>, Option<S>);

async fn follow(
    ends: Ends,
    task: Task,
    stop: Arc<Stop>,
    shared: Arc<Shared>,
    held: Kept,
    wants: bool,
) -> Finished {
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
        Changed { folder, whole, init, _held: plain.clone().map(|plain| plain as Held) }
    });
    // Whoever closes the top last takes the file system down: not the caller, who waits for an answer.
    remains.scratch = top.as_ref().and_then(|top| top.try_clone().ok());
    clean_up(remains, (slot, plain), &shared.cleaning);
    Finished { outcome, home, changed }
}

/// The folder with the changes of a workspace, and whether it is the whole workspace.
fn changed(outcome: &Outcome, top: Option<&File>, home: Option<&Home>) -> Option<(OwnedFd, bool)> {
    let is_workspace = |kind: &str| matches!(kind, "workspace" | "copy");
    let mount = outcome.mounts.iter().find(|m| m.inside == PROJECT && is_workspace(&m.kind))?;
    let folder = match top {
        // The workspace is the first of a job's mounts.
        Some(top) => upper(top).ok()?,
        None => home?.open(Path::new(PROJECT_NAME), OFlag::O_DIRECTORY).ok()?,
    };
    Some((folder, mount.kind == "copy"))
}

/// A workspace's upper layer. The program may have taken the right to enter it away; whoever owns it gives it back.
fn upper(top: &File) -> nix::Result<OwnedFd> {
    let name = Path::new("up0");
    home::open(top, name, OFlag::O_DIRECTORY).or_else(|errno| {
        if errno != Errno::EACCES {
            return Err(errno);
        }
        // Only init could put something else in its place.
        fchmodat(top, name, Mode::S_IRWXU, FchmodatFlags::FollowSymlink)?;
        home::open(top, name, OFlag::O_DIRECTORY)
    })
}

/// Lets the rest of a sandbox go away behind the answer. Its ids are handed out again only when it is gone.
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
