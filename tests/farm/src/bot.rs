//! A stand-in for Buildbarn's `bb_worker`: it calls a runner at a socket. The real one is in none of the registries that
//! tests may use.

use std::path::Path;
use std::time::Duration;

use hotcell_fleet::runner_api::{CheckReadinessRequest, Empty, RunRequest, RunResponse};
use prost::Message;
use tonic::Status;
use tonic::codegen::http::uri::PathAndQuery;
use tonic::transport::Endpoint;
use tonic_prost::ProstCodec;

/// Asks whether a runner is ready.
///
/// # Errors
/// The runner's status.
pub fn check_readiness(socket: &Path, path: &str) -> Result<(), Status> {
    let request = CheckReadinessRequest { path: path.to_owned() };
    call::<_, Empty>(socket, "/buildbarn.runner.Runner/CheckReadiness", request, None).map(drop)
}

/// Has a runner run an action; `limit` cancels the call.
///
/// # Errors
/// The runner's status.
pub fn run(socket: &Path, request: RunRequest, limit: Option<Duration>) -> Result<RunResponse, Status> {
    call(socket, "/buildbarn.runner.Runner/Run", request, limit)
}

fn call<M: Message + 'static, A: Message + Default + 'static>(
    socket: &Path,
    path: &'static str,
    request: M,
    limit: Option<Duration>,
) -> Result<A, Status> {
    let runtime = tokio::runtime::Builder::new_current_thread().enable_all().build().expect("a runtime");
    let called = runtime.block_on(async {
        let endpoint = Endpoint::from_shared(format!("unix:{}", socket.display())).expect("an endpoint");
        let channel = endpoint.connect().await.map_err(|e| Status::unavailable(e.to_string()))?;
        let mut grpc = tonic::client::Grpc::new(channel);
        grpc.ready().await.map_err(|e| Status::unavailable(e.to_string()))?;
        let codec = ProstCodec::<M, A>::default();
        let asked = grpc.unary(tonic::Request::new(request), PathAndQuery::from_static(path), codec);
        match limit {
            // As bb_worker cancels: the call is dropped.
            Some(limit) => match tokio::time::timeout(limit, asked).await {
                Ok(answer) => answer.map(tonic::Response::into_inner),
                Err(_) => Err(Status::cancelled("by the test")),
            },
            None => asked.await.map(tonic::Response::into_inner),
        }
    });
    // The connection ends as that of a process that lives on.
    runtime.shutdown_timeout(Duration::from_secs(1));
    called
}
