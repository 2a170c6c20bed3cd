//! Serves the sockets that a program can reach: one for HTTP, CONNECT and SOCKS 5, told apart by the first byte, two
//! for names, and one for each name with an address of its rule's ([`AllowList::relays`]).
//!
//! The sockets are created by the caller, in the sandbox's network namespace, which contains nothing else.
//! When [`Serving`] is dropped they are closed, and with them the program's only network access.

use std::collections::{HashMap, HashSet};
use std::io;
use std::net::{IpAddr, SocketAddr, TcpListener as StdListener, UdpSocket as StdUdp};
use std::sync::{Arc, Mutex, MutexGuard, PoisonError};
use std::time::{Duration, Instant};

use tokio::io::{AsyncReadExt, AsyncWriteExt};
use tokio::net::{TcpListener, TcpStream, UdpSocket};
use tokio::sync::Semaphore;
use tokio::task::JoinSet;
use tokio::time::timeout;

use crate::dns::{self, Answer, Kind};
use crate::error::ConnectError;
use crate::host::Host;
use crate::ledger::{Denied, Ledger, Operation, UNREADABLE};
use crate::limit::{Allowance, Counter};
use crate::pace::{Pace, Rate};
use crate::record::OpenRows;
use crate::resolve::{Resolver, System};
use crate::route::head::Authority;
use crate::route::records::Requests;
use crate::route::{Route, RunAuthority};
use crate::rule::{AllowList, Relay};
use crate::socks5::{self, Reply, Wrong};
use crate::stream::{Budget, Input};
use crate::upstream::Upstream;

/// Maximum number of streams of HTTP/2 of a run at work; further ones wait.
const STREAMS_OF_RUN: usize = 256;
/// Memory in KiB for bodies of a run that are read whole; further requests wait.
const STORED_KIB: usize = 32 << 10;

/// Limits of one run.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Limits {
    /// Maximum number of concurrent connections; further ones wait. Default 64.
    pub connections: usize,
    /// Maximum number of concurrent DNS questions; further ones wait. Default 16.
    pub questions: usize,
    /// Maximum number of distinct names that are looked up, since a program could send data to a name server
    /// this way. Default 256.
    pub names: usize,
    /// Maximum number of bytes sent and received together, without heads of HTTP responses; beyond it every
    /// connection ends. Default 8 GiB.
    pub bytes: u64,
    /// Rate of connections to the proxy, and to DNS by TCP: further ones are delayed, not refused. Default
    /// 2,000 at once, then 200 a second.
    pub connecting: Rate,
    /// Rate of DNS questions, by UDP and TCP: further ones are delayed. Default 2,000 at once, then 200 a
    /// second.
    pub asking: Rate,
    /// Timeout for a client to name its target. Default 15 s.
    pub head: Duration,
    /// Timeout for a look-up, and for a connection. Default 10 s.
    pub connect: Duration,
}

impl Default for Limits {
    fn default() -> Self {
        Self {
            connections: 64,
            questions: 16,
            names: 256,
            bytes: 8 << 30,
            connecting: Rate { at_once: 2000, per_second: 200 },
            asking: Rate { at_once: 2000, per_second: 200 },
            head: Duration::from_secs(15),
            connect: Duration::from_secs(10),
        }
    }
}

/// Sockets that a program can reach.
#[derive(Debug)]
pub struct Sockets {
    /// Socket for HTTP, CONNECT and SOCKS 5.
    pub proxy: StdListener,
    /// Socket for DNS.
    pub names: StdUdp,
    /// Socket for DNS by TCP.
    pub names_by_stream: StdListener,
    /// For the list's relays, in whichever order: they are known by their addresses.
    pub relays: Vec<StdListener>,
}

/// Network access by an allow-list. Each run is served separately.
#[derive(Clone, Debug)]
pub struct Egress {
    allow: Arc<AllowList>,
    limits: Limits,
    resolver: Arc<dyn Resolver>,
    routes: Vec<Route>,
    authority: Option<RunAuthority>,
    upstream: Option<Upstream>,
}

/// State shared by the connections of one run.
#[derive(Debug)]
pub(crate) struct Shared {
    pub(crate) allow: Arc<AllowList>,
    pub(crate) limits: Limits,
    pub(crate) resolver: Arc<dyn Resolver>,
    pub(crate) budget: Budget,
    names: Mutex<HashSet<String>>,
    connecting: Mutex<Pace>,
    asking: Mutex<Pace>,
    allowances: Mutex<HashMap<Counter, Allowance>>,
    ledger: Mutex<Ledger>,
    pub(crate) routes: Vec<Route>,
    pub(crate) authority: Option<RunAuthority>,
    pub(crate) upstream: Option<Upstream>,
    requests: Mutex<Requests>,
    /// Memory for bodies that are read whole, in KiB.
    pub(crate) storing: Semaphore,
    /// Streams of HTTP/2 at work.
    pub(crate) working: Semaphore,
    pub(crate) open_rows: OpenRows,
    /// Those that are served.
    relays: Vec<Relay>,
}

/// Network access of a run. Dropping it closes all sockets and connections.
#[derive(Debug)]
pub struct Serving {
    shared: Arc<Shared>,
    tasks: JoinSet<()>,
}

impl Egress {
    /// Network access to the hosts of an allow-list.
    #[must_use]
    pub fn new(allow: AllowList) -> Self {
        Self {
            allow: Arc::new(allow),
            limits: Limits::default(),
            resolver: Arc::new(System),
            routes: Vec::new(),
            authority: None,
            upstream: None,
        }
    }

    /// Sets other limits.
    #[must_use]
    pub fn limits(mut self, limits: Limits) -> Self {
        self.limits = limits;
        self
    }

    /// Sets another resolver of names.
    #[must_use]
    pub fn resolver(mut self, resolver: impl Resolver + 'static) -> Self {
        self.resolver = Arc::new(resolver);
        self
    }

    /// Adds routes: paths of the proxy, `/NAME/…`, that lead to one host each with a secret in a header. Of two with one name the first
    /// is used.
    #[must_use]
    pub fn routes(mut self, routes: impl IntoIterator<Item = Route>) -> Self {
        self.routes.extend(routes);
        self
    }

    /// Also takes requests to the routes of an authority from connections to their hosts, whose TLS ends here with its certificates. Those
    /// hosts are reached in no other way then. Connections to other hosts stay tunnels.
    #[must_use]
    pub fn intercept(mut self, authority: RunAuthority) -> Self {
        self.authority = Some(authority);
        self
    }

    /// Sends connections to names that are looked up through the operator's own proxy. Those whose rule has an address stay direct.
    #[must_use]
    pub fn through(mut self, upstream: Upstream) -> Self {
        self.upstream = Some(upstream);
        self
    }

    /// The allow-list.
    #[must_use]
    pub fn allow(&self) -> &AllowList {
        &self.allow
    }

    /// Serves the sockets until the returned value is dropped. Needs a tokio runtime with I/O and time
    /// enabled.
    ///
    /// # Errors
    /// When a socket cannot be waited for, or one listens where no relay of the list is.
    pub fn serve(&self, sockets: Sockets) -> io::Result<Serving> {
        let Sockets { proxy, names, names_by_stream, relays } = sockets;
        proxy.set_nonblocking(true)?;
        names.set_nonblocking(true)?;
        names_by_stream.set_nonblocking(true)?;
        let relays =
            relays.into_iter().map(|listener| self.relay_of(listener)).collect::<io::Result<Vec<_>>>()?;
        let now = Instant::now();
        let shared = Arc::new(Shared {
            allow: Arc::clone(&self.allow),
            limits: self.limits.clone(),
            resolver: Arc::clone(&self.resolver),
            budget: Budget::new(self.limits.bytes),
            names: Mutex::default(),
            connecting: Mutex::new(Pace::new(self.limits.connecting, now)),
            asking: Mutex::new(Pace::new(self.limits.asking, now)),
            allowances: Mutex::default(),
            ledger: Mutex::default(),
            requests: Mutex::new(Requests::of(self.routes.iter().map(Route::name))),
            storing: Semaphore::new(STORED_KIB),
            working: Semaphore::new(STREAMS_OF_RUN),
            open_rows: OpenRows::default(),
            routes: self.routes.clone(),
            authority: self.authority.clone(),
            upstream: self.upstream.clone(),
            relays: relays.iter().map(|(relay, _)| relay.clone()).collect(),
        });
        let mut tasks = JoinSet::new();
        let proxy = TcpListener::from_std(proxy)?;
        let slots = Arc::new(Semaphore::new(self.limits.connections));
        for (relay, listener) in relays {
            let serve = move |shared: Arc<Shared>, client| {
                let relay = relay.clone();
                async move { shared.relay(client, &relay).await }
            };
            tasks.spawn(accept(listener, Arc::clone(&slots), Arc::clone(&shared), serve));
        }
        tasks.spawn(accept(proxy, slots, Arc::clone(&shared), |shared, client| async move {
            shared.client(client).await
        }));
        let by_stream = TcpListener::from_std(names_by_stream)?;
        let slots = Arc::new(Semaphore::new(self.limits.questions));
        tasks.spawn(accept(by_stream, slots, Arc::clone(&shared), |shared, client| async move {
            shared.names_by_stream(client).await
        }));
        tasks.spawn(questions(UdpSocket::from_std(names)?, Arc::clone(&shared)));
        Ok(Serving { shared, tasks })
    }

    /// The relay that a socket is for.
    fn relay_of(&self, listener: StdListener) -> io::Result<(Relay, TcpListener)> {
        let at = listener.local_addr()?;
        let is_at = |relay: &Relay| at == SocketAddr::from((relay.address, relay.port));
        let relay = self.allow.relays().into_iter().find(is_at);
        let relay = relay.ok_or_else(|| io::Error::other(format!("no rule of the network is for {at}")))?;
        listener.set_nonblocking(true)?;
        Ok((relay, TcpListener::from_std(listener)?))
    }
}

impl Serving {
    /// Requests through the proxy and its routes until now.
    #[must_use]
    pub fn requests(&self) -> Requests {
        let requests = lock(&self.shared.requests);
        let mut all = requests.clone();
        self.shared.open_rows.end_in(&mut all);
        all
    }

    /// Closes all sockets and connections, and returns the denials.
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

/// Accepts connections, each with a slot and in a task of its own that ends with this one.
async fn accept<F, D>(listener: TcpListener, slots: Arc<Semaphore>, shared: Arc<Shared>, serve: F)
where
    F: Fn(Arc<Shared>, TcpStream) -> D,
    D: Future<Output = io::Result<()>> + Send + 'static,
{
    let mut clients = JoinSet::new();
    loop {
        while clients.try_join_next().is_some() {}
        match listener.accept().await {
            Ok((client, _)) => {
                // The others wait in the socket's queue.
                let Ok(slot) = Arc::clone(&slots).acquire_owned().await else { return };
                at_pace(&shared.connecting).await;
                let served = serve(Arc::clone(&shared), client);
                clients.spawn(async move {
                    if let Err(e) = served.await {
                        tracing::debug!(target: "hotcell_contents", "a connection of the sandbox ended: {e}");
                    }
                    drop(slot);
                });
            }
            // Out of descriptors, or the client has left: an immediate retry would fail again.
            Err(_) => tokio::time::sleep(Duration::from_millis(20)).await,
        }
    }
}

/// Waits for the rate limiter.
async fn at_pace(pace: &Mutex<Pace>) {
    let wait = lock(pace).come(Instant::now());
    if !wait.is_zero() {
        tokio::time::sleep(wait).await;
    }
}

async fn questions(socket: UdpSocket, shared: Arc<Shared>) {
    let socket = Arc::new(socket);
    let slots = Arc::new(Semaphore::new(shared.limits.questions));
    let mut asked = JoinSet::new();
    let mut buffer = [0u8; dns::MAX_MESSAGE_BYTES + 1];
    loop {
        let Ok(slot) = Arc::clone(&slots).acquire_owned().await else { return };
        while asked.try_join_next().is_some() {}
        let Ok((length, from)) = socket.recv_from(&mut buffer).await else { continue };
        at_pace(&shared.asking).await;
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
    /// Counts a denial, and returns the error for the client.
    pub(crate) fn deny(&self, operation: Operation, target: &str, why: Option<String>) -> ConnectError {
        let (row, text) = match why {
            Some(why) => (format!("{target} ({why})"), format!("{target} is not allowed: {why}")),
            None => (target.to_owned(), format!("{target} is not in the list of allowed hosts")),
        };
        tracing::info!(target: "hotcell_contents", "{operation}: {text}");
        self.note(operation, row);
        ConnectError::Denied(text)
    }

    /// Counts a row of the report.
    pub(crate) fn note(&self, operation: Operation, row: String) {
        lock(&self.ledger).add(operation, row);
    }

    /// The records of requests.
    pub(crate) fn requests(&self) -> MutexGuard<'_, Requests> {
        lock(&self.requests)
    }

    /// Requests that the rates of rules still allow.
    pub(crate) fn allowances(&self) -> MutexGuard<'_, HashMap<Counter, Allowance>> {
        lock(&self.allowances)
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

    async fn client(self: &Arc<Self>, client: TcpStream) -> io::Result<()> {
        let _ = client.set_nodelay(true);
        let port = client.local_addr()?.port();
        let (from, mut back) = client.into_split();
        let mut client = Input::new(from);
        if !timeout(self.limits.head, client.more()).await.unwrap_or(Ok(false))? {
            return Ok(());
        }
        if client.held().first() != Some(&socks5::VERSION) {
            if !self.routes.is_empty() && self.asks_for_a_route(&mut client).await? {
                return self.routed(client, back, Authority::Loopback(port)).await;
            }
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
                self.deny(Operation::Connect, UNREADABLE, Some(wrong.to_string()));
                return back.write_all(&reply.bytes()).await;
            }
            None => return Ok(()),
        };
        if let Some(tls) = self.intercepts(&host, port) {
            back.write_all(&Reply::Connected.bytes()).await?;
            return self.intercepted(client, back, tls, &host, port).await;
        }
        let row = self.record("SOCKS", &host, port, String::new());
        match self.connect(Operation::Connect, &host, port).await {
            Ok(server) => {
                row.connected();
                back.write_all(&Reply::Connected.bytes()).await?;
                self.tunnel(client, back, server, (&host, port), &row).await
            }
            Err(error) => {
                row.refused(&error);
                let reply = match error {
                    ConnectError::Denied(_) => Reply::NotAllowed,
                    ConnectError::Unreachable(_) => Reply::HostUnreachable,
                };
                back.write_all(&reply.bytes()).await
            }
        }
    }

    async fn names_by_stream(&self, mut client: TcpStream) -> io::Result<()> {
        loop {
            let length = timeout(self.limits.head, client.read_u16()).await??;
            if usize::from(length) > dns::MAX_MESSAGE_BYTES {
                return Ok(());
            }
            let mut message = vec![0; length.into()];
            timeout(self.limits.head, client.read_exact(&mut message)).await??;
            at_pace(&self.asking).await;
            let Some(answer) = self.name(&message).await else { return Ok(()) };
            client.write_u16(u16::try_from(answer.len()).unwrap_or(0)).await?;
            client.write_all(&answer).await?;
        }
    }

    /// Answers a DNS question.
    async fn name(&self, message: &[u8]) -> Option<Vec<u8>> {
        let question = dns::question(message)?;
        let name = match &question.name {
            Ok(name @ Host::Name(_)) => name,
            Ok(Host::Address(address)) => {
                self.deny(Operation::Dns, &address.to_string(), None);
                return Some(question.answer(Answer::NoName));
            }
            Err(wrong) => {
                self.deny(Operation::Dns, UNREADABLE, Some(wrong.to_string()));
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
        // Clients that read no /etc/hosts.
        if let Some(relay) = self.relays.iter().find(|relay| relay.name == target) {
            return Some(question.answer(Answer::Addresses(&[IpAddr::V4(relay.address)])));
        }
        Some(match self.addresses(Operation::Dns, name, place, &target).await {
            Ok(addresses) => question.answer(Answer::Addresses(&addresses)),
            Err(ConnectError::Denied(_)) => question.answer(Answer::NoName),
            Err(ConnectError::Unreachable(_)) => question.answer(Answer::Failed),
        })
    }
}
