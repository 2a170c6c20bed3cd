//! Serves a pool to the processes of its own user.

use std::io;
use std::os::fd::{AsFd, OwnedFd};
use std::path::{Path, PathBuf};
use std::sync::Arc;
use std::sync::atomic::{AtomicU64, Ordering};
use std::time::{Duration, Instant};

use nix::fcntl::Flock;
use nix::sys::resource::{Resource, getrlimit};
use nix::unistd::geteuid;
use tokio::net::UnixListener;
use tokio::sync::{Notify, Semaphore, mpsc, oneshot, watch};
use tokio::task::JoinSet;

use crate::drop_elsewhere::Aside;
use hotcell_sandbox::Chunk;
use hotcell_sandbox::policy::Policy;
use hotcell_sandbox::pool::Pool;
use hotcell_sandbox::running::{Changed, Finished, Running};
use hotcell_sandbox::socket;

use crate::channel::{Channel, Other};
use crate::peer::Standing;
use crate::place::{Place, PlaceError};
use crate::proof::Proof;
use crate::wire::{Ask, Left, Tell};
use crate::{Asked, Hello, MAX_POLICY_BYTES, Offers, PROTOCOL, Status, VERSION, unfit};

/// Time limit for a client to receive the rest, after its run has ended.
const RECEIVE_TIMEOUT: Duration = Duration::from_secs(30);
/// Time limit for runs to end when the server stops.
const SETTLE_TIMEOUT: Duration = Duration::from_secs(10);
/// Maximum length of a reason that is sent, in bytes.
const MAX_REASON_LEN: usize = 4096;

/// Limits of a server.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Bounds {
    /// Maximum number of concurrent runs. Default 32; a client that asks for one more makes its own sandbox.
    pub runs: usize,
    /// Maximum number of connections. Default 256, and at most a quarter of this process's descriptors. A
    /// client that gets no greeting within a second makes its own sandbox.
    pub connections: usize,
    /// Time limit for the next message of a client. Default 10 s.
    pub patience: Duration,
    /// Idle time after which the server ends; `None` for never.
    pub idle: Option<Duration>,
}

impl Default for Bounds {
    fn default() -> Self {
        Self { runs: 32, connections: 256, patience: Duration::from_secs(10), idle: None }
    }
}

/// An offer of a service beside runs, to clients that may run policies: they have its user and its rights, and see its host.
pub trait Attached: Send + Sync + std::fmt::Debug {
    /// Takes the stream socket of a client. Called within the runtime; does not wait.
    fn attach(&self, stream: OwnedFd);
    /// Whether the service is in use, so that it does not end for want of it.
    fn is_in_use(&self) -> bool;
}

/// A listening server.
#[derive(Debug)]
pub struct Server {
    place: Place,
    listener: OwnedFd,
    _lock: Flock<OwnedFd>,
    attached: Option<Arc<dyn Attached>>,
}

/// State shared by all connections.
#[derive(Debug)]
struct ServerState {
    pool: Pool,
    attached: Option<Arc<dyn Attached>>,
    ours: Arc<Standing>,
    user: u32,
    bounds: Bounds,
    places: Semaphore,
    declined: AtomicU64,
    began: Instant,
    asked_to_end: Notify,
    ending: watch::Sender<bool>,
}

impl Server {
    /// Listens in this folder, which is created if it is missing.
    ///
    /// # Errors
    /// [`PlaceError`] when another server is running, or the folder or socket is not usable.
    pub fn listen(folder: &Path) -> Result<Self, PlaceError> {
        let place = Place::make(folder)?;
        let (listener, lock) = place.listen()?;
        Ok(Self { place, listener, _lock: lock, attached: None })
    }

    /// Offers something beside runs.
    #[must_use]
    pub fn offering(mut self, attached: Arc<dyn Attached>) -> Self {
        self.attached = Some(attached);
        self
    }

    /// The socket's path.
    #[must_use]
    pub fn socket(&self) -> PathBuf {
        self.place.socket()
    }

    /// Serves until `stop` completes, a client asks the server to end, or it has been idle for long enough.
    /// Runs in progress are ended then.
    ///
    /// # Errors
    /// When the listener cannot be registered with the runtime, or the rights of this process cannot be read.
    pub async fn serve(self, pool: Pool, bounds: Bounds, stop: impl Future<Output = ()>) -> io::Result<()> {
        let Self { place, listener, _lock, attached } = self;
        let listener = UnixListener::from_std(listener.into())?;
        let desk = Arc::new(ServerState {
            ours: Arc::new(Standing::of("self")?),
            user: geteuid().as_raw(),
            bounds,
            // A client that would have to wait for descriptors makes its own sandbox instead.
            places: Semaphore::new(bounds.runs.min(pool.engine().jobs())),
            pool,
            attached,
            declined: AtomicU64::new(0),
            began: Instant::now(),
            asked_to_end: Notify::new(),
            ending: watch::Sender::new(false),
        });
        let descriptors = getrlimit(Resource::RLIMIT_NOFILE).map_or(1024, |(soft, _)| soft);
        let most = connections(bounds.connections, descriptors);
        let mut stop = std::pin::pin!(stop);
        let mut all = JoinSet::new();
        loop {
            let idle = bounds.idle.filter(|_| all.is_empty());
            tokio::select! {
                () = &mut stop => break,
                () = desk.asked_to_end.notified() => break,
                () = tokio::time::sleep(idle.unwrap_or_default()), if idle.is_some() => {
                    if !desk.attached.as_ref().is_some_and(|attached| attached.is_in_use()) {
                        break;
                    }
                }
                _ = all.join_next(), if !all.is_empty() => {}
                accepted = listener.accept(), if all.len() < most => match accepted {
                    Ok((stream, _)) => {
                        let desk = Arc::clone(&desk);
                        all.spawn(async move { desk.connected(Channel::new(stream)).await });
                    }
                    // Out of descriptors: connections that end release some soon.
                    Err(_) => tokio::time::sleep(Duration::from_millis(50)).await,
                },
            }
        }
        // New clients find no service from now on, and make their own sandboxes.
        place.remove();
        drop(listener);
        desk.ending.send_replace(true);
        let settled = async { while all.join_next().await.is_some() {} };
        let _ = tokio::time::timeout(SETTLE_TIMEOUT, settled).await;
        all.shutdown().await;
        desk.pool.clear();
        desk.pool.engine().settle(SETTLE_TIMEOUT).await;
        Ok(())
    }
}

/// Maximum number of concurrent connections, so that enough descriptors are left for the runs.
fn connections(wanted: usize, descriptors: u64) -> usize {
    wanted.min(usize::try_from(descriptors / 4).unwrap_or(usize::MAX)).max(1)
}

/// The reason why a client's request is declined.
struct Declined(String);

/// The operations that a client may request.
struct Rights {
    /// Reason why it may not run a policy; `None` if it may.
    run: Option<String>,
    /// Reason why it may not end the service; `None` if it may.
    stop: Option<String>,
    proof: Proof,
}

/// Determines a client's rights. Fails with the reason if it may not request anything at all.
fn weigh(channel: &Channel, user: u32, ours: &Standing) -> Result<Rights, Declined> {
    let differs = |how: String| format!("this process has {how} than the service has");
    let other = match Other::of(channel.as_fd()) {
        Ok(other) if other.user == user => other,
        // The socket's mode keeps other users out, except root, which has a service of its own.
        _ => return Err(Declined("the service is another user's".to_owned())),
    };
    let theirs = other.standing.map_err(|e| Declined(format!("this process cannot be looked at: {e}")))?;
    if let Some(how) = ours.sees_another(&theirs) {
        return Err(Declined(differs(how)));
    }
    let proof = Proof::new().map_err(|e| Declined(format!("the service cannot make a proof: {e}")))?;
    Ok(Rights {
        run: ours.cannot_serve(&theirs).map(differs),
        stop: ours.stands_apart(&theirs).map(differs),
        proof,
    })
}

impl ServerState {
    async fn connected(&self, channel: Channel) {
        let channel = Arc::new(channel);
        let (this, ours, user) = (Arc::clone(&channel), Arc::clone(&self.ours), self.user);
        // Files about a process may be on a file system served by another process, so this may block.
        let Ok(weighed) = tokio::task::spawn_blocking(move || weigh(&this, user, &ours)).await else {
            return;
        };
        let Rights { run, stop, proof } = match weighed {
            Ok(rights) => rights,
            Err(Declined(why)) => return self.decline(&channel, &why).await,
        };
        let hello = Hello {
            version: VERSION.to_owned(),
            offers: Offers::of(self.pool.engine().host()),
            proof: proof.descriptor(),
        };
        let json = serde_json::to_vec(&hello).unwrap_or_default();
        if self.send(&channel, Tell::Hello(PROTOCOL, &json), self.bounds.patience).await.is_err() {
            return;
        }
        let mut ending = self.ending.subscribe();
        let room = usize::from(run.is_none());
        let said = tokio::select! {
            said = tokio::time::timeout(self.bounds.patience, channel.hear(room)) => said,
            () = ended(&mut ending) => return self.decline(&channel, "the service ends").await,
        };
        let said = match said {
            Ok(Ok(Some(said))) => said,
            Ok(_) => return,
            Err(_) => return self.decline(&channel, "this process took too long to ask").await,
        };
        match Ask::decode(&said.bytes) {
            Ok(Ask::Run(read)) => {
                let declined = match run {
                    None if proof.is(&read) => self.run(&channel, said.fds).await.err(),
                    None => Some(Declined("this process may not look into the service".to_owned())),
                    Some(why) => Some(Declined(why)),
                };
                if let Some(Declined(why)) = declined {
                    self.decline(&channel, &why).await;
                }
            }
            Ok(Ask::Attach(read)) => {
                let declined = match run {
                    None if proof.is(&read) => self.attach(&channel, said.fds).await.err(),
                    None => Some(Declined("this process may not look into the service".to_owned())),
                    Some(why) => Some(Declined(why)),
                };
                if let Some(Declined(why)) = declined {
                    self.decline(&channel, &why).await;
                }
            }
            Ok(Ask::Status) => {
                let json = serde_json::to_vec(&self.status()).unwrap_or_default();
                let _ = self.send(&channel, Tell::Status(&json), self.bounds.patience).await;
            }
            Ok(Ask::Stop) => match stop {
                None => {
                    let _ = self.send(&channel, Tell::Stopping, self.bounds.patience).await;
                    self.asked_to_end.notify_one();
                }
                Some(why) => self.decline(&channel, &why).await,
            },
            _ => self.decline(&channel, "that is no question").await,
        }
    }

    fn status(&self) -> Status {
        let served = self.pool.served();
        Status {
            version: VERSION.to_owned(),
            pid: std::process::id(),
            uptime_s: self.began.elapsed().as_secs(),
            running: (self.bounds.runs.saturating_sub(self.places.available_permits())) as u64,
            ready: self.pool.ready() as u64,
            hot: served.hot,
            primed: served.primed,
            cold: served.cold,
            declined: self.declined.load(Ordering::Relaxed),
        }
    }

    async fn send(&self, channel: &Channel, tell: Tell<'_>, patience: Duration) -> io::Result<()> {
        tokio::time::timeout(patience, channel.send(&tell.encode(), &[])).await?
    }

    async fn decline(&self, channel: &Channel, why: &str) {
        self.declined.fetch_add(1, Ordering::Relaxed);
        let why = why.get(..why.floor_char_boundary(MAX_REASON_LEN)).unwrap_or_default();
        let _ = self.send(channel, Tell::No(why), self.bounds.patience).await;
    }

    /// Hands a client's socket over.
    async fn attach(&self, channel: &Channel, mut fds: Aside<Vec<OwnedFd>>) -> Result<(), Declined> {
        let attached =
            self.attached.as_ref().ok_or_else(|| Declined("the service has no sessions".to_owned()))?;
        let [stream] = <[OwnedFd; 1]>::try_from(std::mem::take(&mut *fds))
            .map_err(|_| Declined("one socket has to be sent along".to_owned()))?;
        attached.attach(stream);
        let _ = self.send(channel, Tell::Started, self.bounds.patience).await;
        Ok(())
    }

    /// Handles one run, from the request until the connection is closed. A declined request was never run.
    async fn run(&self, channel: &Arc<Channel>, fds: Aside<Vec<OwnedFd>>) -> Result<(), Declined> {
        let mut ending = self.ending.subscribe();
        let Ok(permit) = self.places.try_acquire() else {
            let most = self.bounds.runs.min(self.pool.engine().jobs());
            return Err(Declined(format!("the service runs {most} already")));
        };
        // Paths in the policy may be on a file system that does not respond.
        let read = tokio::task::spawn_blocking(move || read(fds)).await;
        let policy = read.map_err(|e| Declined(format!("the policy cannot be read: {e}")))??;
        // A single receiver throughout: dropping it could lose the message that it was about to receive.
        let mut hearing = std::pin::pin!(channel.hear(0));
        let started = tokio::select! {
            biased;
            () = ended(&mut ending) => return Err(Declined("the service ends".to_owned())),
            // The client disconnected, or sent a message too early.
            _ = &mut hearing => return Ok(()),
            started = self.pool.spawn(&policy) => started,
        };
        let mut running = started.map_err(|refusal| Declined(refusal.message))?;
        let stdin = match running.stdin().map(tokio::net::unix::pipe::Sender::into_nonblocking_fd).transpose()
        {
            Ok(stdin) => stdin,
            // The program was started and may have run for a moment, so the client must not run it again.
            Err(e) => {
                let why = format!("the run was ended: its standard input cannot be handed over: {e}");
                let _ = self.send(channel, Tell::Lost(&why), self.bounds.patience).await;
                return Ok(());
            }
        };
        let fds: Vec<_> = stdin.iter().map(AsFd::as_fd).collect();
        if channel.send(&Tell::Started.encode(), &fds).await.is_err() {
            return Ok(());
        }
        drop(fds);
        // Dropping the server's copy lets the client end the stream.
        drop(stdin);
        let said = tokio::time::timeout(self.bounds.patience, hearing).await;
        let Ok(Ok(Some(said))) = said else { return Ok(()) };
        let Ok(Ask::Follow { output, events }) = Ask::decode(&said.bytes) else { return Ok(()) };
        let (finished, gone) = follow(channel, running, (output, events), &mut ending).await;
        if let Some(finished) = finished {
            let told = tokio::time::timeout(RECEIVE_TIMEOUT, end(channel, &finished)).await;
            if matches!(told, Ok(Ok(()))) {
                // The client may look at the remaining files as long as it wants.
                tokio::select! {
                    () = gone.wait() => {}
                    () = ended(&mut ending) => {}
                }
            }
        }
        // The remaining files hold memory and descriptors until then.
        drop(permit);
        Ok(())
    }
}

/// Reads the requested policy.
fn read(mut fds: Aside<Vec<OwnedFd>>) -> Result<Policy, Declined> {
    let bad = |why: &dyn std::fmt::Display| Declined(format!("that is no policy: {why}"));
    let [memory] = <[OwnedFd; 1]>::try_from(std::mem::take(&mut *fds))
        .map_err(|_| bad(&"it comes in one piece of memory"))?;
    let json = socket::read_sealed(memory, MAX_POLICY_BYTES).map_err(|e| bad(&e))?;
    let Asked::<Policy> { mut policy, identities, toolchain_ids, imports } =
        serde_json::from_slice(&json).map_err(|e| bad(&e))?;
    if identities.len() != policy.job.binds.len() || toolchain_ids.len() != policy.job.toolchains.len() {
        return Err(bad(&"there are other binds than files"));
    }
    let named = policy.job.toolchains.iter().cloned().zip(toolchain_ids);
    policy.job.toolchain_ids = named.filter_map(|(path, id)| Some((path, id?))).collect();
    for (bind, identity) in policy.job.binds.iter_mut().zip(identities) {
        bind.identity = identity;
    }
    policy.job.imports = imports;
    if let Some(why) = unfit(&policy) {
        return Err(bad(&why));
    }
    // The paths are resolved again later; but if that blocks, it blocks here first.
    hotcell_sandbox::check_sources(&policy.job).map_err(|refusal| Declined(refusal.message))?;
    Ok(policy)
}

/// Reports on a run until its end, or until the client disconnects; then waits for the client to disconnect.
async fn follow(
    channel: &Arc<Channel>,
    mut running: Running,
    (output, events): (bool, bool),
    ending: &mut watch::Receiver<bool>,
) -> (Option<Finished>, Gone) {
    let canceller = running.canceller();
    let mut chunks = if output { running.output() } else { None };
    let mut events = if events { running.events() } else { None };
    let mut run = running.finish();
    // Messages are received even while the client does not read.
    let (left, gone) = oneshot::channel::<()>();
    let listening = {
        let (channel, canceller) = (Arc::clone(channel), canceller.clone());
        Abort(tokio::spawn(async move {
            while let Ok(Some(said)) = channel.hear(0).await
                && Ask::decode(&said.bytes) == Ok(Ask::Cancel)
            {
                canceller.cancel();
            }
            canceller.cancel();
            drop(left);
        }))
    };
    let gone = Gone { gone, _listening: listening };
    let (mut finished, mut heard, mut cancelled) = (None, true, false);
    while finished.is_none() || chunks.is_some() || events.is_some() {
        let message = tokio::select! {
            end = &mut run, if finished.is_none() => {
                finished = Some(end);
                continue;
            }
            chunk = next(&mut chunks), if chunks.is_some() => match chunk {
                Some(Chunk::Stdout(bytes)) => Tell::Stdout(&bytes).encode(),
                Some(Chunk::Stderr(bytes)) => Tell::Stderr(&bytes).encode(),
                None => {
                    chunks = None;
                    continue;
                }
            },
            bytes = next(&mut events), if events.is_some() => match bytes {
                Some(bytes) => Tell::Events(&bytes).encode(),
                None => {
                    events = None;
                    continue;
                }
            },
            () = ended(ending), if !cancelled => {
                cancelled = true;
                canceller.cancel();
                continue;
            }
        };
        // A client that does not read holds up its own run until a limit ends it, which ends this loop too.
        let sending = channel.send(&message, &[]);
        heard = heard
            && match finished {
                None => tokio::select! {
                    sent = sending => sent.is_ok(),
                    end = &mut run => {
                        finished = Some(end);
                        tokio::time::timeout(RECEIVE_TIMEOUT, channel.send(&message, &[])).await.is_ok_and(|s| s.is_ok())
                    }
                },
                Some(_) => tokio::time::timeout(RECEIVE_TIMEOUT, sending).await.is_ok_and(|s| s.is_ok()),
            };
    }
    (finished.filter(|_| heard), gone)
}

async fn next<T>(receiver: &mut Option<mpsc::Receiver<T>>) -> Option<T> {
    match receiver {
        Some(receiver) => receiver.recv().await,
        None => None,
    }
}

/// Completes when the server ends.
async fn ended(ending: &mut watch::Receiver<bool>) {
    let _ = ending.wait_for(|end| *end).await;
}

/// Signals that a client has disconnected.
struct Gone {
    gone: oneshot::Receiver<()>,
    _listening: Abort,
}

impl Gone {
    async fn wait(self) {
        let _ = self.gone.await;
    }
}

/// Aborts a task when dropped.
struct Abort(tokio::task::JoinHandle<()>);

impl Drop for Abort {
    fn drop(&mut self) {
        self.0.abort();
    }
}

/// Sends the outcome, and hands over the remaining files.
async fn end(channel: &Channel, finished: &Finished) -> io::Result<()> {
    let json = serde_json::to_vec(&finished.outcome)?;
    let memory = socket::sealed(c"hotcell-outcome", &json)?;
    let (home, changed) = (finished.home.as_ref(), finished.changed.as_ref());
    let init = changed.and_then(Changed::init);
    let left = Left {
        home: home.is_some(),
        changed: changed.is_some(),
        whole: changed.is_some_and(|changed| changed.whole),
        init: init.is_some(),
    };
    let mut fds = vec![memory.as_fd()];
    fds.extend(home.map(|home| home.folder()));
    fds.extend(changed.map(|changed| changed.folder.as_fd()));
    fds.extend(init);
    channel.send(&Tell::End(left).encode(), &fds).await
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn connection_limit_leaves_descriptors() {
        for (wanted, descriptors, want) in [
            (256, 1024, 256),
            (256, 1023, 255),
            (256, 64, 16),
            (256, 0, 1),
            (0, 1024, 1),
            (256, u64::MAX, 256),
        ] {
            assert_eq!(connections(wanted, descriptors), want);
        }
    }
}
