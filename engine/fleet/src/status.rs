//! State of a farm, as far as its protocol tells it: versions of the API, and the operations that wait and run.
//!
//! The API has no list of workers. BuildGrid has one of its own, `build.buildgrid.Introspection`; its messages are in no
//! crate, and the field numbers are those of `introspection.proto` in buildgrid 0.4.4. A worker of hotcell tells about itself
//! at its own address for metrics.

use std::time::Duration;

use crate::wire::Channel;
use bazel_remote_apis::build::bazel::remote::execution::v2 as reapi;
use bazel_remote_apis::google::longrunning::ListOperationsRequest;
use bazel_remote_apis::google::longrunning::operations_client::OperationsClient;
use bazel_remote_apis::google::protobuf::Timestamp;
use reapi::capabilities_client::CapabilitiesClient;
use reapi::execution_stage::Value as Stage;
use tonic::codegen::http::uri::PathAndQuery;

use crate::address::Address;
use crate::bots::BOT_OK;
use crate::count::PROGRESS;
use crate::error::FleetError;
use crate::wire::{self, CALL_TIMEOUT, MAX_MESSAGE, unpack, within};

/// Number of operations of one page.
const PAGE: i32 = 500;
/// Maximum number of pages that are read: a farm could name the next one forever.
const MAX_PAGES: usize = 40;

/// State of a farm.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct FarmStatus {
    /// Lowest and highest version of the API, such as `2.0`.
    pub api: (String, String),
    /// It runs actions for this instance.
    pub executes: bool,
    /// Queue, or why the farm does not tell.
    pub queue: Result<Queue, String>,
    /// Workers, or why the farm does not tell.
    pub workers: Result<Vec<Registered>, String>,
}

/// A worker that a farm lists.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct Registered {
    /// Name.
    pub name: String,
    /// It takes leases.
    pub takes: bool,
    /// Actions that run on it.
    pub running: usize,
    /// Time since its last sign of life, by the farm's clock and this machine's.
    pub silent: Option<Duration>,
}

/// `build.buildgrid.ListWorkersRequest`.
#[derive(Clone, PartialEq, Eq, prost::Message)]
struct ListWorkersRequest {
    #[prost(string, tag = "1")]
    instance_name: String,
    #[prost(int32, tag = "2")]
    page_size: i32,
    #[prost(int32, tag = "3")]
    page: i32,
}

/// `build.buildgrid.ListWorkersResponse`.
#[derive(Clone, PartialEq, prost::Message)]
struct ListWorkersResponse {
    #[prost(int32, tag = "3")]
    total: i32,
    #[prost(message, repeated, tag = "4")]
    workers: Vec<RegisteredWorker>,
}

/// `build.buildgrid.RegisteredWorker`.
#[derive(Clone, PartialEq, prost::Message)]
struct RegisteredWorker {
    #[prost(string, tag = "2")]
    worker_name: String,
    #[prost(message, optional, tag = "3")]
    last_updated: Option<Timestamp>,
    #[prost(int32, tag = "4")]
    bot_status: i32,
    #[prost(message, repeated, tag = "6")]
    operations: Vec<WorkerOperation>,
}

/// `build.buildgrid.WorkerOperation`.
#[derive(Clone, PartialEq, Eq, prost::Message)]
struct WorkerOperation {
    #[prost(string, tag = "1")]
    operation_name: String,
}

/// Operations of a farm.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct Queue {
    /// Operations that wait.
    pub queued: usize,
    /// Operations that run.
    pub executing: usize,
    /// Time since the oldest waiting one was queued, by the farm's clock and this machine's.
    pub oldest: Option<Duration>,
    /// False where there are more than were counted.
    pub whole: bool,
}

/// Asks a farm.
///
/// # Errors
/// [`FleetError`] when it does not answer.
pub async fn look(channel: &Channel, address: &Address) -> Result<FarmStatus, FleetError> {
    let failed = |what: &str, status: &tonic::Status| wire::failed(&address.server, what, status);
    let mut client = CapabilitiesClient::new(channel.clone()).max_decoding_message_size(MAX_MESSAGE);
    let request = reapi::GetCapabilitiesRequest { instance_name: address.instance.clone() };
    let answer = client.get_capabilities(within(request, CALL_TIMEOUT)).await;
    let answer = answer.map_err(|e| failed("GetCapabilities", &e))?.into_inner();
    let version = |version: Option<bazel_remote_apis::build::bazel::semver::SemVer>| {
        version.map_or_else(|| "?".to_owned(), |version| format!("{}.{}", version.major, version.minor))
    };
    let executes = answer.execution_capabilities.is_some_and(|execution| execution.exec_enabled);
    let queue = queue(channel, address).await.map_err(|e| failed("ListOperations", &e).message);
    let workers = workers(channel, address).await.map_err(|e| failed("ListWorkers", &e).message);
    Ok(FarmStatus {
        workers,
        api: (version(answer.low_api_version), version(answer.high_api_version)),
        executes,
        queue,
    })
}

async fn queue(channel: &Channel, address: &Address) -> Result<Queue, tonic::Status> {
    let mut client = OperationsClient::new(channel.clone()).max_decoding_message_size(MAX_MESSAGE);
    let (mut queue, mut page_token) = (Queue::default(), String::new());
    let now = wire::now();
    for _ in 0..MAX_PAGES {
        let request = ListOperationsRequest {
            name: address.instance.clone(),
            page_size: PAGE,
            page_token,
            ..ListOperationsRequest::default()
        };
        let answer = client.list_operations(within(request, CALL_TIMEOUT)).await?.into_inner();
        for operation in answer.operations.iter().filter(|operation| !operation.done) {
            let name = "build.bazel.remote.execution.v2.ExecuteOperationMetadata";
            let metadata = operation.metadata.as_ref().and_then(|any| unpack(name, any, PROGRESS).ok());
            let Some(metadata): Option<reapi::ExecuteOperationMetadata> = metadata else { continue };
            let since = metadata
                .partial_execution_metadata
                .and_then(|partial| partial.queued_timestamp)
                .map(|queued| now.seconds.saturating_sub(queued.seconds));
            let since = since.and_then(|seconds| u64::try_from(seconds).ok()).map(Duration::from_secs);
            count(&mut queue, metadata.stage, since);
        }
        page_token = answer.next_page_token;
        if page_token.is_empty() {
            queue.whole = true;
            break;
        }
    }
    Ok(queue)
}

async fn workers(channel: &Channel, address: &Address) -> Result<Vec<Registered>, tonic::Status> {
    let mut workers = Vec::new();
    let now = wire::now();
    for page in 1..=i32::try_from(MAX_PAGES).unwrap_or(1) {
        let request = ListWorkersRequest { instance_name: address.instance.clone(), page_size: PAGE, page };
        let mut grpc = tonic::client::Grpc::new(channel.clone()).max_decoding_message_size(MAX_MESSAGE);
        grpc.ready().await.map_err(tonic::Status::from_error)?;
        let path = PathAndQuery::from_static("/build.buildgrid.Introspection/ListWorkers");
        let codec = tonic_prost::ProstCodec::<ListWorkersRequest, ListWorkersResponse>::default();
        let answer = grpc.unary(within(request, CALL_TIMEOUT), path, codec).await?.into_inner();
        let is_last = answer.workers.is_empty();
        workers.extend(answer.workers.into_iter().map(|worker| {
            Registered {
                name: worker.worker_name,
                takes: worker.bot_status == BOT_OK,
                running: worker.operations.len(),
                silent: worker
                    .last_updated
                    .and_then(|at| u64::try_from(now.seconds.saturating_sub(at.seconds)).ok())
                    .map(Duration::from_secs),
            }
        }));
        if is_last || usize::try_from(answer.total).is_ok_and(|total| workers.len() >= total) {
            break;
        }
    }
    Ok(workers)
}

/// Counts an operation that is not done.
fn count(queue: &mut Queue, stage: i32, since: Option<Duration>) {
    match Stage::try_from(stage) {
        Ok(Stage::Queued | Stage::CacheCheck) => {
            queue.queued += 1;
            queue.oldest = queue.oldest.max(since);
        }
        Ok(Stage::Executing) => queue.executing += 1,
        _ => {}
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn operations_are_counted_by_stage() {
        let mut queue = Queue::default();
        let age = |seconds| Some(Duration::from_secs(seconds));
        for (stage, since) in [
            (Stage::Queued as i32, age(3)),
            (Stage::Queued as i32, age(9)),
            (Stage::Queued as i32, None),
            (Stage::CacheCheck as i32, age(1)),
            (Stage::Executing as i32, age(99)),
            (Stage::Completed as i32, age(99)),
            (77, None),
        ] {
            count(&mut queue, stage, since);
        }
        assert_eq!((queue.queued, queue.executing, queue.oldest), (4, 1, age(9)));
    }
}
