//! Small farms on this machine, for tests: of workers, with a scheduler (Remote Workers API), and of clients, with an execution service. Both
//! have one storage. They serve until they are dropped. They are honest, or lie as a test wants.
//!
//! | module | idea |
//! | --- | --- |
//! | [`storage`] | blobs and the action cache, with lies |
//! | [`scheduler`] | leases: given, taken back, given again when a worker is silent |
//! | [`execution`] | a farm that executes: actions as plain processes or by `hotcell run` |
//! | [`bot`] | a stand-in for Buildbarn's `bb_worker`, which calls a runner |

#![forbid(unsafe_code)]

pub mod bot;
pub mod execution;
pub mod scheduler;
pub mod storage;

use std::sync::Arc;
use std::sync::mpsc;
use std::thread::JoinHandle;
use std::time::{Duration, Instant};

use bazel_remote_apis::build::bazel::remote::execution::v2 as reapi;
use bazel_remote_apis::google::rpc;
use futures_util::stream::poll_fn;
use hotcell_fleet::digest::Key;
pub use prost::Message;
use tokio::sync::oneshot;
use tonic::transport::Server;

pub use bazel_remote_apis;
pub use hotcell_fleet;

use scheduler::{BotsServer, Scheduler};
use storage::{Shared, Storage};

/// Time that a test waits for an event, on a machine that is busy with others.
pub const PATIENCE: Duration = Duration::from_secs(180);
/// Maximum size of a message, in bytes.
pub(crate) const MAX_MESSAGE: usize = 64 << 20;

/// A running farm.
pub struct Farm {
    /// Blobs.
    pub storage: Arc<Storage>,
    /// Leases.
    pub scheduler: Arc<Scheduler>,
    port: u16,
    stop: Option<oneshot::Sender<()>>,
    thread: Option<JoinHandle<()>>,
}

impl Farm {
    /// Starts a farm whose leases end this long after the last sign of life.
    ///
    /// # Panics
    /// When this machine cannot serve.
    #[must_use]
    pub fn start(lease: Duration) -> Self {
        let mut farm = Self {
            storage: Arc::new(Storage::default()),
            scheduler: Arc::new(Scheduler::new(lease)),
            port: 0,
            stop: None,
            thread: None,
        };
        farm.serve();
        farm
    }

    /// Ends all connections, and takes no more until it serves again.
    pub fn stop(&mut self) {
        drop(self.stop.take());
        if let Some(thread) = self.thread.take() {
            let _ = thread.join();
        }
    }

    /// Serves at the address of before, if there was one, with all that the farm had.
    ///
    /// # Panics
    /// When nothing can listen there.
    pub fn serve(&mut self) {
        let (stop, stopped) = oneshot::channel::<()>();
        let (tell, told) = mpsc::channel();
        let (blobs, leases, port) = (self.storage.clone(), self.scheduler.clone(), self.port);
        let thread = std::thread::spawn(move || {
            let runtime = tokio::runtime::Builder::new_multi_thread()
                .worker_threads(2)
                .enable_all()
                .build()
                .expect("a runtime");
            runtime.block_on(async {
                let listener = tokio::net::TcpListener::bind(("127.0.0.1", port)).await.expect("a port");
                tell.send(listener.local_addr().expect("an address").port()).expect("the test waits");
                let incoming = poll_fn(move |context| {
                    listener.poll_accept(context).map(|accepted| Some(accepted.map(|(stream, _)| stream)))
                });
                let cas =
                    reapi::content_addressable_storage_server::ContentAddressableStorageServer::from_arc(
                        blobs.clone(),
                    );
                let stream = bazel_remote_apis::google::bytestream::byte_stream_server::ByteStreamServer::new(
                    Shared(blobs.clone()),
                );
                let cache = reapi::action_cache_server::ActionCacheServer::from_arc(blobs.clone());
                let abilities = reapi::capabilities_server::CapabilitiesServer::from_arc(blobs.clone());
                let operations =
                    bazel_remote_apis::google::longrunning::operations_server::OperationsServer::from_arc(
                        leases.clone(),
                    );
                let served = Server::builder()
                    .add_service(cas.max_decoding_message_size(MAX_MESSAGE))
                    .add_service(stream.max_decoding_message_size(MAX_MESSAGE))
                    .add_service(cache)
                    .add_service(abilities)
                    .add_service(operations)
                    .add_service(BotsServer(leases))
                    .serve_with_incoming(incoming);
                tokio::select! {
                    served = served => served.expect("the farm serves"),
                    _ = stopped => {}
                }
            });
            runtime.shutdown_background();
        });
        self.port = told.recv().expect("the farm has a port");
        (self.stop, self.thread) = (Some(stop), Some(thread));
    }

    /// Address for hotcell.
    #[must_use]
    pub fn url(&self) -> String {
        format!("grpc://127.0.0.1:{}/main", self.port)
    }

    /// Stores a message, and returns its digest.
    pub fn store(&self, message: &impl Message) -> Key {
        self.storage.put(message.encode_to_vec())
    }

    /// Queues a command over an input root, and returns the lease's id.
    pub fn queue(
        &self,
        root: Key,
        command: &reapi::Command,
        change: impl FnOnce(&mut reapi::Action),
    ) -> String {
        let command = self.store(command);
        let mut action = reapi::Action {
            command_digest: Some(command.message()),
            input_root_digest: Some(root.message()),
            do_not_cache: true,
            ..reapi::Action::default()
        };
        change(&mut action);
        let key = self.store(&action);
        self.scheduler.queue(key)
    }

    /// Queues a shell script over an input root.
    pub fn script(&self, root: Key, script: &str) -> String {
        self.queue(root, &shell(script), |_| {})
    }

    /// Waits for the end of a lease.
    ///
    /// # Panics
    /// When it does not end within [`PATIENCE`].
    #[must_use]
    pub fn end(&self, id: &str) -> (rpc::Status, Option<reapi::ActionResult>) {
        let mut ended = None;
        until(&format!("lease {id} ends"), || {
            ended = self.scheduler.ended(id);
            ended.is_some()
        });
        ended.expect("it was waited for")
    }
}

impl Drop for Farm {
    fn drop(&mut self) {
        self.stop();
    }
}

/// A shell script as a command.
#[must_use]
pub fn shell(script: &str) -> reapi::Command {
    reapi::Command {
        arguments: ["sh", "-c", script].map(str::to_owned).to_vec(),
        ..reapi::Command::default()
    }
}

/// A file in a directory.
#[must_use]
pub fn file(name: &str, key: Key) -> reapi::FileNode {
    reapi::FileNode { name: name.to_owned(), digest: Some(key.message()), ..reapi::FileNode::default() }
}

/// A folder in a directory.
#[must_use]
pub fn folder(name: &str, key: Key) -> reapi::DirectoryNode {
    reapi::DirectoryNode { name: name.to_owned(), digest: Some(key.message()) }
}

/// Waits until something holds.
///
/// # Panics
/// When it does not within [`PATIENCE`].
pub fn until(what: &str, mut holds: impl FnMut() -> bool) {
    let begin = Instant::now();
    while !holds() {
        assert!(begin.elapsed() < PATIENCE, "not within {} s: {what}", PATIENCE.as_secs());
        std::thread::sleep(Duration::from_millis(20));
    }
}
