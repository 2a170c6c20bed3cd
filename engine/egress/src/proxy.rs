//! Serves the sockets that a program can reach: one for HTTP, CONNECT and SOCKS 5, told apart by the first byte, and two
//! for names.
//!
//! The sockets come from outside: whoever makes the sandbox makes them in its network namespace, in which there is nothing
//! else. When [`Serving`] ends they are closed, and with them the only way out.

use std::collections::HashSet;
use std::io;
use std::net::{TcpListener as StdListener, UdpSocket as StdUdp};
use std::sync::{Arc, Mutex, MutexGuard, PoisonError};
use std::time::Duration;

use tokio::io::{AsyncReadExt, AsyncWriteExt};
use tokio::net::{TcpListener, TcpStream, UdpSocket};
use tokio::sync::Semaphore;
use tokio::task::JoinSet;
use tokio::time::timeout;

use crate::connect::NoWay;
use crate::dns::{self, Answer, Kind};
use crate::host::Host;
use crate::ledger::{Denied, Ledger, Operation};
use crate::resolve::{Resolver, System};
use crate::rule::AllowList;
use crate::socks5::{self, Reply, Wrong};
use crate::stream::{Budget, Input};

/// Limits of one run.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Limits {
    /// Connections at once; further ones wait. Default 64.
    pub connections: usize,
    /// Questions about names at once; further ones wait. Default 16.
    pub questions: usize,
    /// Different names that are looked up: what a program can tell a name server by asking. Default 256.
    pub names: usize,
    /// Bytes sent and received together, heads of HTTP answers left out; then every connection ends. Default 8 GiB.
    pub bytes: u64,
    /// How long a client may take to say whom it wants. Default 15 s.
    pub head: Duration,
    /// How long a look-up, and how long a connection, may take. Default 10 s.
    pub connect: Duration,
}

impl Default for Limits {
    fn default() -> Self {
        Self {
            connections: 64,
            questions: 16,
            names: 256,
            bytes: 8 << 30,
            head: Duration::from_secs(15),
            connect: Duration::from_secs(10),
        }
    }
}

/// The sockets that a program can reach.
#[derive(Debug)]
pub struct Sockets {
    /// For HTTP, CONNECT and SOCKS 5.
    pub proxy: StdListener,
    /// For names.
    pub names: StdUdp,
    /// For names, by TCP.
    pub names_by_stream: StdListener,
}

/// A way out: what may be reached, and how it is found. Each run is served by itself.
#[derive(Clone, Debug)]
pub struct Egress {
    allow: Arc<AllowList>,
    limits: Limits,
    resolver: Arc<dyn Resolver>,
}

/// What the connections of one run share.
#[derive(Debug)]
pub(crate) struct Shared {
    pub(crate) allow: Arc<AllowList>,
    pub(crate) limits: Limits,
    pub(crate) resolver: Arc<dyn Resolver>,
    pub(crate) budget: Budget,
    names: Mutex<HashSet<String>>,
    ledger: Mutex<Ledger>,
}

/// A run's way out while it is open. Dropping it closes everything.
#[derive(Debug)]
pub struct Serving {
    shared: Arc<Shared>,
    tasks: JoinSet<()>,
}

impl Egress {
    /// A way to what the list allows.
    #[must_use]
    pub fn new(allow: AllowList) -> Self {
        Self { allow: Arc::new(allow), limits: Limits::default(), resolver: Arc::new(System) }
    }

    /// With other limits.
    #[must_use]
    pub fn limits(mut self, limits: Limits) -> Self {
        self.limits = limits;
        self
    }

    /// With names resolved by somebody else.
    #[must_use]
    pub fn resolver(mut self, resolver: impl Resolver + 'static) -> Self {
        self.resolver = Arc::new(resolver);
        self
    }

    /// The list.
    #[must_use]
    pub fn allow(&self) -> &AllowList {
        &self.allow
    }

    /// Serves sockets until what is returned is dropped. Needs a runtime of tokio with I/O and time.
    ///
    /// # Errors
    /// When a socket cannot be waited for.
    pub fn serve(&self, sockets: Sockets) -> io::Result<Serving> {
        let Sockets { proxy, names, names_by_stream } = sockets;
        proxy.set_nonblocking(true)?;
        names.set_nonblocking(true)?;
        names_by_stream.set_nonblocking(true)?;
        let shared = Arc::new(Shared {
            allow: Arc::clone(&self.allow),
            limits: self.limits.clone(),
            resolver: Arc::clone(&self.resolver),
            budget: Budget::new(self.limits.bytes),
            names: Mutex::default(),
            ledger: Mutex::default(),
        });
        let mut tasks = JoinSet::new();
        let proxy = TcpListener::from_std(proxy)?;
        let most = self.limits.connections;
        tasks.spawn(accept(proxy, most, Arc::clone(&shared), |shared, client| async move {
            shared.client(client).await
        }));
        let by_stream = TcpListener::from_std(names_by_stream)?;
        let most = self.limits.questions;
        tasks.spawn(accept(by_stream, most, Arc::clone(&shared), |shared, client| async move {
            shared.names_by_stream(client).await
        }));
        tasks.spawn(questions(UdpSocket::from_std(names)?, Arc::clone(&shared)));
        Ok(Serving { shared, tasks })
    }
}

impl Serving {
    /// Closes everything: what was denied.
    #[must_use]
    pub fn finish(mut self) -> Vec<Denied> {
        self.tasks.abort_all();
        if self.shared.budget.is_spent() {
            self.shared.deny(Operation::Connect, "(all)", Some("the run has used up its bytes".to_owned()));
        }
        lock(&self.shared.ledger).take()
    }
}

fn lock<T>(mutex: &Mutex<T>) -> MutexGuard<'_, T> {
    mutex.lock().unwrap_or_else(PoisonError::into_inner)
}

/// Accepts connections, so many at once, each in a task of its own that ends with this one.
async fn accept<F, D>(listener: TcpListener, most: usize, shared: Arc<Shared>, serve: F)
where
    F: Fn(Arc<Shared>, TcpStream) -> D,
    D: Future<Output = io::Result<()>> + Send + 'static,
{
    let slots = Arc::new(Semaphore::new(most));
    let mut clients = JoinSet::new();
    loop {
        let Ok(slot) = Arc::clone(&slots).acquire_owned().await else { return };
        while clients.try_join_next().is_some() {}
        match listener.accept().await {
            Ok((client, _)) => {
                let served = serve(Arc::clone(&shared), client);
                clients.spawn(async move {
                    if let Err(e) = served.await {
                        tracing::debug!(target: "hotcell_contents", "a connection of the sandbox ended: {e}");
                    }
                    drop(slot);
                });
            }
            // Out of descriptors, or a client that left: nothing to be gained by trying at once.
            Err(_) => tokio::time::sleep(Duration::from_millis(20)).await,
        }
    }
}

async fn questions(socket: UdpSocket, shared: Arc<Shared>) {
    let socket = Arc::new(socket);
    let slots = Arc::new(Semaphore::new(shared.limits.questions));
    let mut asked = JoinSet::new();
    let mut buffer = [0u8; dns::LONGEST + 1];
    loop {
        let Ok(slot) = Arc::clone(&slots).acquire_owned().await else { return };
        while asked.try_join_next().is_some() {}
        let Ok((length, from)) = socket.recv_from(&mut buffer).await else { continue };
        let (message, socket, shared) = (buffer[..length].to_vec(), Arc::clone(&socket), Arc::clone(&shared));
        asked.spawn(async move {
            if let Some(answer) = shared.name(&message).await {
                let _ = socket.send_to(&answer, from).await;
            }
            drop(slot);
        });
    }
}

impl Shared {
    /// Counts a denial.
    pub(crate) fn deny(&self, operation: Operation, target: &str, why: Option<String>) -> NoWay {
        let (row, text) = match why {
            Some(why) => (format!("{target} ({why})"), format!("{target} is not allowed: {why}")),
            None => (target.to_owned(), format!("{target} is not in the list of --network")),
        };
        tracing::info!(target: "hotcell_contents", "{operation}: {text}");
        lock(&self.ledger).add(operation, row);
        NoWay::Denied(text)
    }

    /// Whether one more name may be looked up.
    pub(crate) fn may_resolve(&self, name: &str) -> Result<(), String> {
        let mut names = lock(&self.names);
        if !names.contains(name) {
            if names.len() >= self.limits.names {
                return Err(format!("{} names were looked up already", self.limits.names));
            }
            names.insert(name.to_owned());
        }
        Ok(())
    }

    async fn client(&self, client: TcpStream) -> io::Result<()> {
        let _ = client.set_nodelay(true);
        let (from, mut back) = client.into_split();
        let mut client = Input::new(from);
        if !timeout(self.limits.head, client.more()).await.unwrap_or(Ok(false))? {
            return Ok(());
        }
        if client.held().first() != Some(&socks5::VERSION) {
            return self.http(client, back).await;
        }
        let greeting = |bytes: &[u8]| socks5::greeting(bytes).map(|used| used.map(|used| ((), used)));
        match timeout(self.limits.head, client.until(greeting)).await.unwrap_or(Ok(None))? {
            Some(Ok(())) => back.write_all(&socks5::WELCOME).await?,
            Some(Err(_)) => return back.write_all(&socks5::NO_METHOD).await,
            None => return Ok(()),
        }
        let request =
            |bytes: &[u8]| socks5::request(bytes).map(|r| r.map(|(host, port, used)| ((host, port), used)));
        let asked = timeout(self.limits.head, client.until(request)).await.unwrap_or(Ok(None))?;
        let (host, port) = match asked {
            Some(Ok(asked)) => asked,
            Some(Err(wrong)) => {
                let reply = match wrong {
                    Wrong::Command => Reply::CommandNotSupported,
                    Wrong::Host(_) => Reply::NotAllowed,
                    _ => Reply::AddressNotSupported,
                };
                self.deny(Operation::Connect, &wrong.to_string(), None);
                return back.write_all(&reply.bytes()).await;
            }
            None => return Ok(()),
        };
        match self.connect(Operation::Connect, &host, port).await {
            Ok(server) => {
                back.write_all(&Reply::Connected.bytes()).await?;
                self.tunnel(client, back, server, &host, port).await
            }
            Err(NoWay::Denied(_)) => back.write_all(&Reply::NotAllowed.bytes()).await,
            Err(NoWay::Unreachable(_)) => back.write_all(&Reply::HostUnreachable.bytes()).await,
        }
    }

    async fn names_by_stream(&self, mut client: TcpStream) -> io::Result<()> {
        loop {
            let length = timeout(self.limits.head, client.read_u16()).await??;
            if usize::from(length) > dns::LONGEST {
                return Ok(());
            }
            let mut message = vec![0; length.into()];
            timeout(self.limits.head, client.read_exact(&mut message)).await??;
            let Some(answer) = self.name(&message).await else { return Ok(()) };
            client.write_u16(u16::try_from(answer.len()).unwrap_or(0)).await?;
            client.write_all(&answer).await?;
        }
    }

    /// Answers a question about a name.
    async fn name(&self, message: &[u8]) -> Option<Vec<u8>> {
        let question = dns::question(message)?;
        let name = match &question.name {
            Ok(name @ Host::Name(_)) => name,
            Ok(Host::Address(address)) => {
                self.deny(Operation::Dns, &address.to_string(), None);
                return Some(question.answer(Answer::NoName));
            }
            Err(wrong) => {
                self.deny(Operation::Dns, &wrong.to_string(), None);
                return Some(question.answer(Answer::Refused));
            }
        };
        let target = name.to_string();
        let Some(place) = self.allow.find_name(name) else {
            self.deny(Operation::Dns, &target, None);
            return Some(question.answer(Answer::NoName));
        };
        match question.kind {
            Kind::V4 | Kind::V6 => {}
            Kind::Hints => return Some(question.answer(Answer::Addresses(&[]))),
            Kind::Other(kind) => {
                self.deny(Operation::Dns, &target, Some(format!("a question of type {kind}")));
                return Some(question.answer(Answer::Refused));
            }
        }
        Some(match self.addresses(Operation::Dns, name, place, &target).await {
            Ok(addresses) => question.answer(Answer::Addresses(&addresses)),
            Err(NoWay::Denied(_)) => question.answer(Answer::NoName),
            Err(NoWay::Unreachable(_)) => question.answer(Answer::Failed),
        })
    }
}
