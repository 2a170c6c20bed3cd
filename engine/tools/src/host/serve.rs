//! The program in the sandbox: it runs components and asks its parent for everything else.
//!
//! The program has only its socket and the files that the sandbox shows. A panic here ends the process: its
//! state is unknown then, and the parent starts another.

use std::collections::{HashMap, VecDeque};
use std::fs::File;
use std::io::{self, IoSliceMut};
use std::mem::MaybeUninit;
use std::os::fd::{AsFd, OwnedFd};
use std::os::unix::net::UnixStream;
use std::sync::atomic::{AtomicU64, Ordering};
use std::sync::{Arc, Mutex, MutexGuard, PoisonError};

use rustix::net::{RecvAncillaryBuffer, RecvAncillaryMessage, RecvFlags, recvmsg};
use tokio::io::Interest;
use tokio::sync::{Mutex as AsyncMutex, Semaphore, oneshot};
use tokio_util::sync::CancellationToken;

use crate::ask::Refused;
use crate::protocol::{
    Frame, FromHost, Incoming, MAX_OPEN_QUESTIONS, MAX_QUESTION_BYTES, Setting, ToHost, Violation,
};
use crate::{
    Allocation, Ask, BoxFuture, Broker, CallError, CallRequest, Kept, LoadError, Prepared, Reply, Runtime,
    RuntimeOptions,
};

use super::link::Link;

/// Threads that run guests. More than one, so that a guest that computes does not stop those that wait; few,
/// since a plugin has few calls at a time, and every thread that looks for work delays a short call.
const THREADS: usize = 2;
/// Threads for blocking file access.
const FILE_THREADS: usize = 16;
/// Bytes to read at a time.
const CHUNK_BYTES: usize = 64 << 10;

/// Serves the parent process over standard input, until it is closed. Implements `hotcell tool-host`.
///
/// # Errors
/// When standard input is not a socket, or the runtime or a read fails.
pub fn serve() -> io::Result<()> {
    let socket = UnixStream::from(io::stdin().as_fd().try_clone_to_owned()?);
    socket.peer_addr().map_err(|e| {
        io::Error::other(format!(
            "standard input is no socket ({e}): a tool host is started by hotcell itself"
        ))
    })?;
    let report = std::panic::take_hook();
    std::panic::set_hook(Box::new(move |panic| {
        report(panic);
        std::process::abort();
    }));
    let threads = tokio::runtime::Builder::new_multi_thread()
        .worker_threads(THREADS)
        .max_blocking_threads(FILE_THREADS)
        .enable_all()
        .build()?;
    // On a worker, like the calls: the thread that reads a call begins it.
    let served = threads.block_on(async { tokio::spawn(run(socket)).await });
    // Guests may still be running, and no caller waits for them.
    threads.shutdown_background();
    served.unwrap_or_else(|e| Err(io::Error::other(e.to_string())))
}

async fn run(socket: UnixStream) -> io::Result<()> {
    let link = Link::new(socket)?;
    let runtime = match runtime() {
        Ok(runtime) => runtime,
        Err(error) => return link.send(frame(&FromHost::Ready(Err(error)))?).await,
    };
    link.send(frame(&FromHost::Ready(Ok(())))?).await?;
    let server = Arc::new(Server {
        link,
        runtime,
        plugins: Mutex::default(),
        calls: Mutex::default(),
        asks: Mutex::default(),
        asked: AtomicU64::new(0),
        open: Semaphore::new(MAX_OPEN_QUESTIONS),
    });
    // The parent is trusted: it may send anything that fits into a frame.
    let mut input = Input {
        incoming: Incoming::new(u32::MAX as usize),
        files: VecDeque::new(),
        chunk: vec![0; CHUNK_BYTES],
    };
    while let Some(frame) = input.receive(&server.link).await? {
        let message = ToHost::decode(frame).map_err(|e| io::Error::new(io::ErrorKind::InvalidData, e))?;
        let file = match &message {
            ToHost::Load { .. } => input.files.pop_front().map(File::from),
            _ => None,
        };
        server.take(message, file);
    }
    Ok(())
}

/// A runtime with a pool, or without one where that much address space is not available.
fn runtime() -> Result<Runtime, LoadError> {
    let options = RuntimeOptions::default();
    Runtime::new(&options)
        .or_else(|_| Runtime::new(&RuntimeOptions { allocation: Allocation::OnDemand, ..options }))
}

fn frame(message: &FromHost) -> io::Result<Vec<u8>> {
    message.encode().map_err(|e| io::Error::new(io::ErrorKind::InvalidData, e))
}

/// Input from the parent: frames, and the descriptors that came with them, in order.
struct Input {
    incoming: Incoming,
    files: VecDeque<OwnedFd>,
    chunk: Vec<u8>,
}

impl Input {
    async fn receive(&mut self, link: &Link) -> io::Result<Option<Frame>> {
        loop {
            let next = self.incoming.frame().map_err(|e| io::Error::new(io::ErrorKind::InvalidData, e))?;
            if next.is_some() {
                return Ok(next);
            }
            let Self { files, chunk, .. } = self;
            let receive = || {
                let mut space = [MaybeUninit::uninit(); rustix::cmsg_space!(ScmRights(4))];
                let mut control = RecvAncillaryBuffer::new(&mut space);
                let mut parts = [IoSliceMut::new(chunk)];
                let got = recvmsg(link.socket(), &mut parts, &mut control, RecvFlags::CMSG_CLOEXEC)?;
                for message in control.drain() {
                    if let RecvAncillaryMessage::ScmRights(sent) = message {
                        files.extend(sent);
                    }
                }
                Ok(got.bytes)
            };
            match link.socket().async_io(Interest::READABLE, receive).await? {
                0 => return Ok(None),
                got => self.incoming.room().extend_from_slice(&self.chunk[..got]),
            }
        }
    }
}

/// A plugin that can be called.
struct Loaded {
    prepared: Prepared,
    setting: Setting,
    /// The instance that is kept between calls, if the setting says so.
    kept: AsyncMutex<Option<Kept>>,
}

struct Server {
    link: Arc<Link>,
    runtime: Runtime,
    plugins: Mutex<HashMap<u64, Arc<Loaded>>>,
    calls: Mutex<HashMap<u64, CancellationToken>>,
    /// Open questions: the call of each, and its waiting end.
    asks: Mutex<HashMap<u64, (u64, oneshot::Sender<Reply>)>>,
    asked: AtomicU64,
    /// Permits for open questions.
    open: Semaphore,
}

fn lock<T>(of: &Mutex<T>) -> MutexGuard<'_, T> {
    of.lock().unwrap_or_else(PoisonError::into_inner)
}

impl Server {
    fn take(self: &Arc<Self>, message: ToHost, file: Option<File>) {
        let server = Arc::clone(self);
        match message {
            ToHost::Compile { wasm } => {
                self.answer_later(move || match server.runtime.describe(&wasm) {
                    Ok((description, code)) => {
                        FromHost::Compiled { description: Box::new(description), code }
                    }
                    Err(error) => FromHost::NotLoaded { plugin: 0, error },
                });
            }
            ToHost::Load { plugin, setting } => {
                self.answer_later(move || match server.load(plugin, setting, file) {
                    Ok(()) => FromHost::Loaded { plugin },
                    Err(error) => FromHost::NotLoaded { plugin, error },
                });
            }
            ToHost::Call { call, plugin, path, arguments } => {
                let cancel = CancellationToken::new();
                lock(&self.calls).insert(call, cancel.clone());
                tokio::spawn(async move {
                    if let Err(error) = server.call(call, plugin, path, arguments, cancel).await {
                        lock(&server.calls).remove(&call);
                        server.send(FromHost::Done { call, result: Box::new(Err(error)) }).await;
                    }
                });
            }
            ToHost::Cancel { call } => {
                // The call may have ended.
                if let Some(cancel) = lock(&self.calls).get(&call) {
                    cancel.cancel();
                }
            }
            ToHost::Replied { ask, reply } => {
                // The question may have been withdrawn.
                if let Some((_, asked)) = lock(&self.asks).remove(&ask) {
                    let _ = asked.send(reply);
                }
            }
        }
    }

    /// Runs work that keeps a processor busy on another thread, and sends its result.
    fn answer_later(self: &Arc<Self>, work: impl FnOnce() -> FromHost + Send + 'static) {
        let server = Arc::clone(self);
        tokio::spawn(async move {
            if let Ok(message) = tokio::task::spawn_blocking(work).await {
                server.send(message).await;
            }
        });
    }

    fn load(&self, plugin: u64, setting: Setting, file: Option<File>) -> Result<(), LoadError> {
        let file =
            file.ok_or_else(|| LoadError::Host { message: "no compiled form came along".to_owned() })?;
        let prepared = self.runtime.load_compiled(file)?;
        lock(&self.plugins)
            .insert(plugin, Arc::new(Loaded { prepared, setting, kept: AsyncMutex::default() }));
        Ok(())
    }

    /// Runs a call, and sends the answer.
    async fn call(
        self: &Arc<Self>,
        call: u64,
        plugin: u64,
        path: String,
        arguments: String,
        cancel: CancellationToken,
    ) -> Result<(), CallError> {
        let loaded = lock(&self.plugins).get(&plugin).cloned();
        let Some(loaded) = loaded else {
            return Err(CallError::Host { message: format!("plugin {plugin} is not loaded") });
        };
        let Setting { folders, env, limits, keeps } = loaded.setting.clone();
        let broker: Arc<dyn Broker> = Arc::new(Parent(Arc::clone(self)));
        let request = CallRequest { call, path, arguments, folders, env, limits, broker, cancel };
        // Calls without a session run side by side.
        let mut kept = if keeps { Some(loaded.kept.lock().await) } else { None };
        let kept = kept.as_deref_mut();
        let (answer, spent) = self.runtime.call_for_text(&loaded.prepared, request, kept).await?;
        lock(&self.calls).remove(&call);
        self.say(FromHost::answered(call, &answer)).await;
        // A kept instance may still wait for replies, which will not come.
        lock(&self.asks).retain(|_, (asks, _)| *asks != call);
        drop(spent);
        Ok(())
    }

    async fn send(self: &Arc<Self>, message: FromHost) {
        self.say(message.encode()).await;
    }

    async fn say(self: &Arc<Self>, message: Result<Vec<u8>, Violation>) {
        match message {
            // If sending fails, the parent is gone, which ends this process.
            Ok(frame) => drop(self.link.send(frame).await),
            Err(e) => panic!("a message that cannot be sent: {e}"),
        }
    }
}

/// The broker, which is on the other side of the socket.
struct Parent(Arc<Server>);

impl Broker for Parent {
    fn ask(&self, call: u64, ask: Ask) -> BoxFuture<'_, Reply> {
        let refused = |why: Refused| Reply::Refused { why };
        Box::pin(async move {
            // The semaphore is never closed.
            let _turn = self.0.open.acquire().await;
            let number = self.0.asked.fetch_add(1, Ordering::Relaxed) + 1;
            let message = FromHost::Asked { ask: number, call, what: ask }.encode();
            let frame = match message {
                Ok(frame) if frame.len() <= MAX_QUESTION_BYTES => frame,
                _ => {
                    return refused(Refused::TooMuch(format!(
                        "a question of more than {MAX_QUESTION_BYTES} bytes"
                    )));
                }
            };
            let (tell, told) = oneshot::channel();
            let mut open = None;
            // A question that is dropped before its first byte was never asked, so it is not withdrawn.
            let begin = || {
                // Tasks that go on in a kept instance after their call ask no caller.
                if !lock(&self.0.calls).contains_key(&call) {
                    return false;
                }
                lock(&self.0.asks).insert(number, (call, tell));
                open = Some(Open { server: &self.0, number });
                true
            };
            if self.0.link.send_if(frame, begin).await.is_err() {
                return refused(Refused::Unavailable("the parent process is gone".to_owned()));
            }
            let reply = told.await;
            drop(open);
            reply.unwrap_or_else(|_| refused(Refused::Unavailable("the call has ended".to_owned())))
        })
    }
}

/// A question that was asked. It is withdrawn if this is dropped before the reply.
struct Open<'a> {
    server: &'a Arc<Server>,
    number: u64,
}

impl Drop for Open<'_> {
    fn drop(&mut self) {
        if lock(&self.server.asks).remove(&self.number).is_some() {
            let (server, ask) = (Arc::clone(self.server), self.number);
            tokio::spawn(async move { server.send(FromHost::Withdrawn { ask }).await });
        }
    }
}
