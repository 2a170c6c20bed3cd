//! A farm of the Remote Execution API in this process: storage, capabilities, execution. A double of the protocol, for tests of its clients: it runs
//! actions of tests, which are known, as plain processes or by `hotcell run`; and it can lie in each of its answers.

mod actions;
mod certificates;
mod lies;
mod trees;

use std::path::PathBuf;
use std::sync::{Arc, Mutex, MutexGuard, PoisonError, mpsc};

use bazel_remote_apis::build::bazel::remote::execution::v2 as reapi;
use bazel_remote_apis::google::bytestream::byte_stream_server::ByteStreamServer;
use bazel_remote_apis::google::longrunning::operations_server::OperationsServer;
use reapi::capabilities_server::CapabilitiesServer;
use reapi::content_addressable_storage_server::ContentAddressableStorageServer;
use reapi::execution_server::ExecutionServer;
use tokio::net::TcpListener;
use tokio::sync::oneshot;
use tonic::service::InterceptorLayer;
use tonic::transport::Server;
use tonic::transport::server::TcpIncoming;
use tonic::{Request, Status};

pub use certificates::{Certificates, Tls};
pub use lies::Lie;

use crate::MAX_MESSAGE;
use crate::storage::{INSTANCE, Shared, Storage};

/// Rules of a farm.
#[derive(Clone, Debug, Default)]
pub struct Rules {
    /// Its lie.
    pub lie: Option<Lie>,
    /// Bearer token that each call needs.
    pub token: Option<String>,
    /// TLS.
    pub tls: Option<Tls>,
    /// It takes and gives blobs that zstd compressed.
    pub compresses: bool,
    /// Maximum size of a blob that it stores, in bytes; 0 for any size.
    pub largest: i64,
    /// The farm streams the output of an action while it runs.
    pub logs: bool,
    /// Actions run by this `hotcell`, as in its worker; without it, as plain processes.
    pub hotcell: Option<PathBuf>,
}

/// Counts of a farm.
#[derive(Debug, Default)]
pub(crate) struct Held {
    pub executed: usize,
    pub cancelled: usize,
}

/// A farm's parts share it.
#[derive(Clone, Debug)]
pub(crate) struct State {
    pub rules: Arc<Rules>,
    pub storage: Arc<Storage>,
    held: Arc<Mutex<Held>>,
}

impl State {
    pub fn held(&self) -> MutexGuard<'_, Held> {
        self.held.lock().unwrap_or_else(PoisonError::into_inner)
    }

    /// Stores a blob; returns its digest.
    pub fn put(&self, bytes: Vec<u8>) -> reapi::Digest {
        self.storage.put(bytes).message()
    }

    pub fn lies(&self, lie: Lie) -> bool {
        self.rules.lie == Some(lie)
    }
}

/// A farm that serves until it is dropped.
#[derive(Debug)]
pub struct TestFarm {
    /// `grpc[s]://HOST:PORT/main`.
    pub address: String,
    state: State,
    _stop: oneshot::Sender<()>,
}

impl TestFarm {
    /// Starts a farm on a free port of this machine.
    ///
    /// # Panics
    /// When it cannot be started.
    #[must_use]
    pub fn start(rules: Rules) -> Self {
        let lie = rules.lie.and_then(Lie::of_storage);
        let storage = Arc::new(Storage::new(lie, rules.compresses, rules.largest));
        let state = State { rules: Arc::new(rules), storage, held: Arc::default() };
        let (stop, stopped) = oneshot::channel();
        let (tell, told) = mpsc::channel();
        let served = state.clone();
        std::thread::spawn(move || {
            let runtime = tokio::runtime::Builder::new_current_thread().enable_all().build();
            runtime.expect("the farm has an event loop").block_on(async move {
                let listener = TcpListener::bind("127.0.0.1:0").await.expect("there is a free port");
                let port = listener.local_addr().expect("the port has a number").port();
                let _ = tell.send(port);
                tokio::select! {
                    served = serve(served, listener) => served.expect("the farm serves"),
                    _ = stopped => {}
                }
            });
        });
        let port = told.recv().expect("the farm starts");
        let (scheme, host) = match &state.rules.tls {
            Some(_) => ("grpcs", "localhost"),
            None => ("grpc", "127.0.0.1"),
        };
        Self { address: format!("{scheme}://{host}:{port}/{INSTANCE}"), state, _stop: stop }
    }

    /// Number of actions that it executed.
    #[must_use]
    pub fn executed(&self) -> usize {
        self.state.held().executed
    }

    /// Number of blobs that were uploaded.
    #[must_use]
    pub fn uploaded(&self) -> usize {
        self.state.storage.uploaded()
    }

    /// Number of blobs that were sent or read in their compressed form.
    #[must_use]
    pub fn compressed(&self) -> usize {
        self.state.storage.compressed()
    }

    /// Number of operations that were cancelled.
    #[must_use]
    pub fn cancelled(&self) -> usize {
        self.state.held().cancelled
    }

    /// Blobs that it has.
    #[must_use]
    pub fn blobs(&self) -> Vec<Vec<u8>> {
        self.state.storage.blobs()
    }
}

async fn serve(state: State, listener: TcpListener) -> Result<(), tonic::transport::Error> {
    let mut server = Server::builder();
    if let Some(tls) = &state.rules.tls {
        server = server.tls_config(tls.server())?;
    }
    let token = state.rules.token.clone();
    let check = move |request: Request<()>| {
        let want = token.as_ref().map(|token| format!("Bearer {token}"));
        let is = request.metadata().get("authorization").map(|value| value.as_bytes().to_vec());
        match want {
            Some(want) if is.as_deref() != Some(want.as_bytes()) => {
                Err(Status::unauthenticated("no valid token"))
            }
            _ => Ok(request),
        }
    };
    let blobs = state.storage.clone();
    let cas = ContentAddressableStorageServer::from_arc(blobs.clone());
    server
        .layer(InterceptorLayer::new(check))
        .add_service(CapabilitiesServer::from_arc(blobs.clone()))
        .add_service(cas.max_decoding_message_size(MAX_MESSAGE))
        .add_service(ByteStreamServer::new(Shared(blobs)).max_decoding_message_size(MAX_MESSAGE))
        .add_service(ExecutionServer::new(state.clone()))
        .add_service(OperationsServer::new(state))
        .serve_with_incoming(TcpIncoming::from(listener))
        .await
}
