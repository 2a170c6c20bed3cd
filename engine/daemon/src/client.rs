//! Asks a server for a sandbox, and follows the run that the server reports on.

use std::io;
use std::os::fd::{AsFd, BorrowedFd, OwnedFd};
use std::path::Path;
use std::sync::{Arc, Mutex, PoisonError};
use std::time::{Duration, Instant};

use nix::sys::socket::{getsockopt, sockopt};
use nix::unistd::geteuid;
use tokio::net::unix::pipe;
use tokio::sync::mpsc;

use crate::channel::{Channel, Other};
use crate::peer::Standing;
use crate::place::{Place, PlaceError};
use crate::proof;
use crate::wire::{Ask, Left, MAX_MESSAGE_BYTES, PROOF_LEN, Tell};
use crate::{Asked, Hello, MAX_POLICY_BYTES, Offers, PROTOCOL, Status, VERSION, unfit};
use hotcell_sandbox::Chunk;
use hotcell_sandbox::cgroup::Cgroups;
use hotcell_sandbox::home::{Held, Home};
use hotcell_sandbox::host::Host;
use hotcell_sandbox::outcome::Outcome;
use hotcell_sandbox::policy::{Policy, Stdin};
use hotcell_sandbox::refusal::Refusal;
use hotcell_sandbox::running::Stop;
use hotcell_sandbox::running::{Changed, Finished, Follow, Running};
use hotcell_sandbox::{BoxFuture, socket};

/// Time limit for the server's greeting, which needs none of the work of a run.
const GREETING_TIMEOUT: Duration = Duration::from_secs(1);
/// Time limit until a run has started.
const START_TIMEOUT: Duration = Duration::from_secs(60);
/// Time for which the server may be silent after the run should have ended.
const SILENCE_TIMEOUT: Duration = Duration::from_secs(15);
/// Maximum size of an outcome that is read, in bytes of JSON.
const MAX_OUTCOME_BYTES: u64 = 1 << 30;
/// The step in an outcome's timings that marks a run by a server: from the request to the start, in
/// microseconds.
pub const STEP: &str = "served";

/// Reason why no server can be asked.
#[derive(Debug, thiserror::Error)]
pub enum Unreached {
    /// A problem with the socket.
    #[error(transparent)]
    Place(#[from] PlaceError),
    /// A problem with the process behind it.
    #[error("{0}")]
    Other(String),
}

/// Reason why the server did not run a request.
#[derive(Debug)]
pub enum NotServed {
    /// Nothing was run: the caller should make its own sandbox.
    Cold {
        /// The reason, for a person.
        why: String,
        /// Whether this is a problem that should be reported to a person.
        wrong: bool,
    },
    /// The server disconnected after the request was sent: it is unknown how far the run came.
    Lost(Refusal),
}

fn cold(why: impl Into<String>) -> NotServed {
    NotServed::Cold { why: why.into(), wrong: false }
}

/// A server that can be asked for sandboxes.
#[derive(Debug)]
pub struct Client {
    place: Place,
    ours: Standing,
    /// The connection by which the server was found.
    first: Mutex<Option<OwnedFd>>,
}

impl Client {
    /// Looks for a server with its socket in this folder. Sends nothing to it yet.
    ///
    /// # Errors
    /// [`Unreached`] when there is no usable socket, or its process is not of the same user or has other
    /// rights than this process.
    pub fn reach(folder: &Path) -> Result<Self, Unreached> {
        let place = Place::open(folder)?;
        let first = place.connect()?;
        let ours = Standing::of("self").map_err(|e| Unreached::Other(format!("/proc: {e}")))?;
        let client = Self { place, ours, first: Mutex::default() };
        client.check(&first)?;
        *client.first.lock().unwrap_or_else(PoisonError::into_inner) = Some(first);
        Ok(client)
    }

    /// Checks that the listening process is of our user and has the same rights as this process.
    fn check(&self, socket: &OwnedFd) -> Result<(), Unreached> {
        let bad = |why: String| Unreached::Other(format!("{}: {why}", self.place.socket().display()));
        let other = Other::of(socket.as_fd()).map_err(|e| bad(e.to_string()))?;
        let us = geteuid().as_raw();
        if other.user != us {
            let why = format!("user {} listens there and not you ({us}); it is not used", other.user);
            return Err(PlaceError::NotOurs { path: self.place.socket(), why }.into());
        }
        let theirs =
            other.standing.map_err(|e| bad(format!("process {} cannot be looked at: {e}", other.pid)))?;
        match theirs.cannot_serve(&self.ours) {
            Some(how) => Err(bad(format!("this process has {how} than the service has"))),
            None => Ok(()),
        }
    }

    /// Like [`Engine::spawn`](hotcell_sandbox::Engine::spawn), but by the server.
    ///
    /// # Errors
    /// [`NotServed`] when the server did not run the policy, including a refusal by the server, or when it
    /// was lost.
    pub async fn spawn(&self, policy: &Policy) -> Result<Running, NotServed> {
        let asked = Instant::now();
        if let Some(why) = unfit(policy) {
            return Err(cold(why));
        }
        let identities = policy.job.binds.iter().map(|bind| bind.identity).collect();
        let job = &policy.job;
        let toolchain_ids = job.toolchains.iter().map(|t| job.toolchain_ids.get(t).copied()).collect();
        let whole = Asked { policy, identities, toolchain_ids, imports: policy.job.imports.clone() };
        let json = serde_json::to_vec(&whole).map_err(|e| cold(format!("it cannot be written down: {e}")))?;
        if json.len() as u64 > MAX_POLICY_BYTES {
            return Err(cold("it is too long for the service"));
        }
        let memory = socket::sealed(c"hotcell-asked", &json).map_err(|e| cold(format!("memory: {e}")))?;
        let first = self.first.lock().unwrap_or_else(PoisonError::into_inner).take();
        let channel = match first {
            // The server may have closed this connection meanwhile.
            Some(fd) => match self.ask(fd, &memory).await {
                Err(NotServed::Cold { wrong: false, .. }) => self.ask(self.connect()?, &memory).await?,
                asked => asked?,
            },
            None => self.ask(self.connect()?, &memory).await?,
        };
        started(channel, policy, asked).await
    }

    /// Opens a stream to what the service offers beside runs.
    ///
    /// # Errors
    /// [`NotServed::Cold`] when the service does not take it.
    pub async fn attach(&self) -> Result<std::os::unix::net::UnixStream, NotServed> {
        let (ours, theirs) = std::os::unix::net::UnixStream::pair().map_err(|e| cold(e.to_string()))?;
        // The connection by which the service was found may have waited for too long.
        drop(self.first.lock().unwrap_or_else(PoisonError::into_inner).take());
        let channel = self.ask_with(self.connect()?, Ask::Attach, theirs.as_fd()).await?;
        let mut buffer = vec![0; MAX_MESSAGE_BYTES];
        let piece = tokio::time::timeout(START_TIMEOUT, channel.receive(&mut buffer)).await;
        let piece = piece.ok().and_then(Result::ok).flatten().filter(|piece| !piece.cut);
        match piece.as_ref().map(|piece| Tell::decode(&buffer[..piece.len])) {
            Some(Ok(Tell::Started)) => Ok(ours),
            Some(Ok(Tell::No(why))) => Err(cold(why)),
            _ => Err(cold("the service went away")),
        }
    }

    fn connect(&self) -> Result<OwnedFd, NotServed> {
        let connected = self.place.connect().map_err(Unreached::from);
        connected
            .and_then(|socket| self.check(&socket).map(|()| socket))
            .map_err(|e| NotServed::Cold { why: e.to_string(), wrong: e.is_wrong() })
    }

    /// Waits for the greeting, and sends the request.
    async fn ask(&self, socket: OwnedFd, memory: &OwnedFd) -> Result<Channel, NotServed> {
        self.ask_with(socket, Ask::Run, memory.as_fd()).await
    }

    /// As [`Client::ask`], for a request that carries a proof and a descriptor.
    async fn ask_with(
        &self,
        socket: OwnedFd,
        asks: fn([u8; PROOF_LEN]) -> Ask,
        aside: BorrowedFd<'_>,
    ) -> Result<Channel, NotServed> {
        let process = getsockopt(&socket, sockopt::PeerCredentials).map_err(|e| cold(e.to_string()))?.pid();
        let channel = Channel::of(socket).map_err(|e| cold(e.to_string()))?;
        let hello = greeting(&channel).await?;
        let proof = proof::read(process, hello.proof)
            .map_err(|e| cold(format!("this process may not look into the service: {e}")))?;
        // Both see the same host, but each may be allowed different features of it.
        if !hello.offers.is_complete()
            && let Some(layer) = hello.offers.lacks(&Offers::of(&Host::look(&Cgroups::detect())))
        {
            return Err(cold(format!("the service's sandboxes lack {layer}")));
        }
        channel
            .send(&asks(proof).encode(), &[aside])
            .await
            .map_err(|e| cold(format!("the service cannot be asked: {e}")))?;
        Ok(channel)
    }
}

impl Unreached {
    /// Whether a person should be told: the problem is more than that there is no service, or that it is not
    /// for this process.
    #[must_use]
    pub fn is_wrong(&self) -> bool {
        match self {
            Self::Place(PlaceError::Busy(_)) => false,
            Self::Place(error) => !error.is_absence(),
            Self::Other(_) => false,
        }
    }
}

/// Receives the server's greeting, and checks that its version and protocol match.
async fn greeting(channel: &Channel) -> Result<Hello, NotServed> {
    let mut buffer = vec![0; MAX_MESSAGE_BYTES];
    let piece = match tokio::time::timeout(GREETING_TIMEOUT, channel.receive(&mut buffer)).await {
        Ok(Ok(Some(piece))) if !piece.cut => piece,
        Ok(_) => return Err(cold("the service went away")),
        Err(_) => {
            let why = format!("the service did not answer within {} s", GREETING_TIMEOUT.as_secs());
            return Err(NotServed::Cold { why, wrong: true });
        }
    };
    let other = |what: &str| {
        let why = format!(
            "the service is {what}, and this is hotcell {VERSION}; end it with hotcell serve stop, and start it anew"
        );
        NotServed::Cold { why, wrong: true }
    };
    match Tell::decode(&buffer[..piece.len]) {
        Ok(Tell::Hello(PROTOCOL, json)) => {
            let hello: Hello = serde_json::from_slice(json).map_err(|_| other("of another form"))?;
            if hello.version != VERSION {
                let version: String = hello.version.chars().take(40).collect();
                return Err(other(&format!("hotcell {version}")));
            }
            Ok(hello)
        }
        Ok(Tell::Hello(protocol, _)) => Err(other(&format!("of protocol {protocol}"))),
        Ok(Tell::No(why)) => Err(cold(why)),
        _ => Err(other("of another form")),
    }
}

/// Waits until the run has started.
async fn started(channel: Channel, policy: &Policy, asked: Instant) -> Result<Running, NotServed> {
    let mut buffer = vec![0; MAX_MESSAGE_BYTES];
    let lost = || NotServed::Lost(Refusal::internal(LOST));
    let piece = tokio::time::timeout(START_TIMEOUT, channel.receive(&mut buffer)).await;
    let piece = piece.map_err(|_| NotServed::Lost(Refusal::internal(SILENT)))?;
    let piece = piece.ok().flatten().filter(|p| !p.cut).ok_or_else(lost)?;
    let fd = match Tell::decode(&buffer[..piece.len]) {
        Ok(Tell::Started) => piece.fds.into_iter().next(),
        Ok(Tell::No(why)) => return Err(cold(why)),
        Ok(Tell::Lost(why)) => return Err(NotServed::Lost(Refusal::internal(why))),
        _ => return Err(lost()),
    };
    let given = match (&policy.job.stdin, fd) {
        (Stdin::Piped, Some(fd)) => Some(pipe::Sender::from_owned_fd(fd).map_err(|_| lost())?),
        (Stdin::Piped, None) => return Err(lost()),
        _ => None,
    };
    let (events, events_receiver) = mpsc::channel(64);
    let took = asked.elapsed();
    let follows = policy.job.events;
    let wall = policy.job.limits.wall;
    let relay = Relay { channel, chunks: None, events: follows.then_some(events), took, wall };
    Ok(Running::followed_by(Box::new(relay), follows.then_some(events_receiver), given))
}

const LOST: &str =
    "the service ended in the middle of the run, and its sandbox with it; run it again, or with ‹no_daemon›";

const SILENT: &str = "the service does not answer, and how far the run came is not known; end it (hotcell serve stop, or its process), or use ‹no_daemon›";

/// A run on the server.
#[derive(Debug)]
struct Relay {
    channel: Channel,
    /// Receiver of the output.
    chunks: Option<mpsc::Sender<Chunk>>,
    events: Option<mpsc::Sender<Vec<u8>>>,
    took: Duration,
    /// The run's limit of wall-clock time.
    wall: Duration,
}

/// Maximum time to wait for the server's next message. The server enforces the limits of a run; if it fails
/// to, the client does not wait forever.
fn patience(wall: Duration, since: Duration, cancelled: bool) -> Duration {
    // A client that reads slowly, or was stopped for a while, still gets the messages sent meanwhile.
    if cancelled {
        SILENCE_TIMEOUT
    } else {
        wall.saturating_add(SILENCE_TIMEOUT).saturating_sub(since).max(SILENCE_TIMEOUT)
    }
}

impl Relay {
    /// Follows the run to its end. Dropping the future ends the run: the server notices that the connection
    /// was closed.
    async fn forward(self, stop: &Stop) -> Finished {
        let Self { channel, chunks, events, took, wall } = self;
        let began = Instant::now();
        let lost = |why: &str| Finished { outcome: Refusal::internal(why).into(), home: None, changed: None };
        let follow = Ask::Follow {
            output: chunks.is_some(),
            events: events.as_ref().is_some_and(|to| !to.is_closed()),
        };
        match tokio::time::timeout(SILENCE_TIMEOUT, channel.send(&follow.encode(), &[])).await {
            Ok(Ok(())) => {}
            Ok(Err(_)) => return lost(LOST),
            Err(_) => return lost(SILENT),
        }
        let mut cancel = Cancel { stop, channel: &channel, told: false };
        let mut buffer = vec![0; MAX_MESSAGE_BYTES];
        let (left, fds) = loop {
            let patience = patience(wall, began.elapsed(), cancel.told);
            let piece = tokio::select! {
                () = stop.wait(), if !cancel.told => {
                    cancel.tell().await;
                    continue;
                }
                piece = tokio::time::timeout(patience, channel.receive(&mut buffer)) => piece,
            };
            let Ok(piece) = piece else { return lost(SILENT) };
            let Ok(Some(piece)) = piece else { return lost(LOST) };
            match Tell::decode(&buffer[..piece.len]) {
                _ if piece.cut => return lost(UNKNOWN),
                Ok(Tell::Stdout(bytes)) => {
                    cancel.deliver(chunks.as_ref(), Chunk::Stdout(bytes.to_vec())).await;
                }
                Ok(Tell::Stderr(bytes)) => {
                    cancel.deliver(chunks.as_ref(), Chunk::Stderr(bytes.to_vec())).await;
                }
                Ok(Tell::Events(bytes)) => cancel.deliver(events.as_ref(), bytes.to_vec()).await,
                Ok(Tell::End(left)) => break (left, piece.fds),
                _ => return lost(UNKNOWN),
            }
        };
        finished(left, fds, Arc::new(channel), took)
            .unwrap_or_else(|e| lost(&format!("what the run came to cannot be read: {e}")))
    }
}

impl Follow for Relay {
    fn send_output(&mut self, chunks: mpsc::Sender<Chunk>) {
        self.chunks = Some(chunks);
    }

    /// The service returns the files in any case.
    fn follow(self: Box<Self>, stop: Arc<Stop>, _wants: bool) -> BoxFuture<'static, Finished> {
        Box::pin(async move { self.forward(&stop).await })
    }
}

const UNKNOWN: &str = "the service said what nobody understands";

/// Sends a request to stop to the server once, whatever else is being waited for.
struct Cancel<'a> {
    stop: &'a Stop,
    channel: &'a Channel,
    told: bool,
}

impl Cancel<'_> {
    async fn tell(&mut self) {
        self.told = true;
        let _ = tokio::time::timeout(SILENCE_TIMEOUT, self.channel.send(&Ask::Cancel.encode(), &[])).await;
    }

    /// A slow listener slows the program down, as a full pipe does.
    async fn deliver<T>(&mut self, to: Option<&mpsc::Sender<T>>, what: T) {
        let Some(to) = to else { return };
        let mut sending = std::pin::pin!(to.send(what));
        tokio::select! {
            _ = &mut sending => return,
            () = self.stop.wait(), if !self.told => {}
        }
        self.tell().await;
        let _ = sending.await;
    }
}

fn finished(left: Left, fds: Vec<OwnedFd>, held: Arc<Channel>, took: Duration) -> io::Result<Finished> {
    let bad = || io::Error::new(io::ErrorKind::InvalidData, UNKNOWN);
    if fds.len() != left.descriptors() {
        return Err(bad());
    }
    let mut fds = fds.into_iter();
    let json = socket::read_sealed(fds.next().ok_or_else(bad)?, MAX_OUTCOME_BYTES)?;
    let mut outcome: Outcome = serde_json::from_slice(&json)?;
    outcome.timings_us.steps.insert(STEP.to_owned(), u64::try_from(took.as_micros()).unwrap_or(u64::MAX));
    let held: Held = held;
    let home = if left.home { fds.next() } else { None };
    let folder = if left.changed { fds.next() } else { None };
    let init = if left.init { fds.next() } else { None };
    Ok(Finished {
        outcome,
        home: home.map(|folder| Home::handed(folder, Arc::clone(&held))),
        changed: folder.map(|folder| Changed::handed(folder, left.whole, init, held)),
    })
}

/// Asks the server in this folder one question.
async fn question<T>(
    folder: &Path,
    ask: Ask,
    read: impl FnOnce(Tell<'_>) -> Option<T>,
) -> Result<T, Unreached> {
    let place = Place::open(folder)?;
    let socket = place.connect()?;
    let bad = |why: &str| Unreached::Other(format!("{}: {why}", place.socket().display()));
    let (user, us) = (Other::of(socket.as_fd()).map_err(|e| bad(&e.to_string()))?.user, geteuid().as_raw());
    if user != us {
        let why = format!("user {user} listens there and not you ({us})");
        return Err(PlaceError::NotOurs { path: place.socket(), why }.into());
    }
    let talk = async {
        let channel = Channel::of(socket)?;
        let mut buffer = vec![0; MAX_MESSAGE_BYTES];
        // A server that greets with another protocol version still understands this question.
        let hear = async |buffer: &mut [u8]| {
            let piece = channel.receive(buffer).await?;
            let len = piece.filter(|piece| !piece.cut).map_or(0, |piece| piece.len);
            match Tell::decode(&buffer[..len]) {
                Ok(Tell::No(why)) => Err(io::Error::other(why.to_owned())),
                _ => Ok(len),
            }
        };
        hear(&mut buffer).await?;
        channel.send(&ask.encode(), &[]).await?;
        let len = hear(&mut buffer).await?;
        io::Result::Ok(Tell::decode(&buffer[..len]).ok().and_then(read))
    };
    match tokio::time::timeout(5 * GREETING_TIMEOUT, talk).await {
        Ok(Ok(Some(answer))) => Ok(answer),
        Ok(Ok(None)) => Err(bad("the service says what this version does not understand")),
        Ok(Err(e)) => Err(bad(&e.to_string())),
        Err(_) => Err(bad("the service does not answer")),
    }
}

/// Asks the server in this folder for its status.
///
/// # Errors
/// [`Unreached`] when there is no server that this process may ask, or it does not answer.
pub async fn status(folder: &Path) -> Result<Status, Unreached> {
    question(folder, Ask::Status, |tell| match tell {
        Tell::Status(json) => serde_json::from_slice(json).ok(),
        _ => None,
    })
    .await
}

/// Ends the server in this folder, and its runs.
///
/// # Errors
/// [`Unreached`] when there is no server that this process may end, or it does not answer.
pub async fn stop(folder: &Path) -> Result<(), Unreached> {
    question(folder, Ask::Stop, |tell| matches!(tell, Tell::Stopping).then_some(())).await
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn client_wait_follows_time_limit() {
        let secs = Duration::from_secs;
        for (wall, since, cancelled, want) in [
            (60, 0, false, 75),
            (60, 50, false, 25),
            (60, 60, false, 15),
            (60, 500, false, 15),
            (60, 0, true, 15),
            (u64::MAX, 0, false, u64::MAX),
        ] {
            assert_eq!(patience(secs(wall), secs(since), cancelled).as_secs(), want, "{wall} {since}");
        }
    }
}
