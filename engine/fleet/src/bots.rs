//! Messages and calls of the Remote Workers API, `google.devtools.remoteworkers.v1test2`, as far as a worker needs
//! them. Its package is in no crate with a `tonic` of this line; the field numbers are those of `bots.proto`.

use std::time::Duration;

use bazel_remote_apis::google::protobuf::{Any, Timestamp};
use bazel_remote_apis::google::rpc;
use prost::Message;
use tonic::Status;
use tonic::codegen::http::uri::PathAndQuery;

use crate::wire::{Channel, MAX_MESSAGE, within};

/// Status of a worker that takes leases.
pub const BOT_OK: i32 = 1;
/// Status of a worker that ends.
pub const BOT_TERMINATING: i32 = 4;

/// State of a lease that the worker has not accepted yet.
pub const PENDING: i32 = 1;
/// State of a lease that the worker runs.
pub const ACTIVE: i32 = 2;
/// State of a lease that has ended.
pub const COMPLETED: i32 = 4;
/// State of a lease that the farm has taken back.
pub const CANCELLED: i32 = 5;

/// Session of a worker with the scheduler.
#[derive(Clone, PartialEq, Message)]
pub struct BotSession {
    /// Name that the server chose.
    #[prost(string, tag = "1")]
    pub name: String,
    /// Name of the worker, unique in the farm.
    #[prost(string, tag = "2")]
    pub bot_id: String,
    /// [`BOT_OK`] or [`BOT_TERMINATING`].
    #[prost(int32, tag = "3")]
    pub status: i32,
    /// Capabilities.
    #[prost(message, optional, tag = "4")]
    pub worker: Option<Worker>,
    /// Leases.
    #[prost(message, repeated, tag = "5")]
    pub leases: Vec<Lease>,
    /// Time at which the session ends, unless it is updated.
    #[prost(message, optional, tag = "6")]
    pub expire_time: Option<Timestamp>,
    /// Version of the session, which a server may count.
    #[prost(string, tag = "7")]
    pub version: String,
}

/// Capabilities of a worker.
#[derive(Clone, PartialEq, Message)]
pub struct Worker {
    /// Machines; one.
    #[prost(message, repeated, tag = "1")]
    pub devices: Vec<Device>,
    /// Properties of the worker.
    #[prost(message, repeated, tag = "2")]
    pub properties: Vec<Pair>,
    /// Settings of the worker.
    #[prost(message, repeated, tag = "3")]
    pub configs: Vec<Pair>,
}

/// A machine.
#[derive(Clone, PartialEq, Message)]
pub struct Device {
    /// Name.
    #[prost(string, tag = "1")]
    pub handle: String,
    /// Properties.
    #[prost(message, repeated, tag = "2")]
    pub properties: Vec<Pair>,
}

/// A property with its value.
#[derive(Clone, PartialEq, Eq, Message)]
pub struct Pair {
    /// Name.
    #[prost(string, tag = "1")]
    pub key: String,
    /// Value.
    #[prost(string, tag = "2")]
    pub value: String,
}

/// An action that a worker is to run.
#[derive(Clone, PartialEq, Message)]
pub struct Lease {
    /// State.
    #[prost(int32, tag = "2")]
    pub state: i32,
    /// Status of the lease, not of its program.
    #[prost(message, optional, tag = "3")]
    pub status: Option<rpc::Status>,
    /// Time at which the lease ends.
    #[prost(message, optional, tag = "5")]
    pub expire_time: Option<Timestamp>,
    /// Name, unique in the session.
    #[prost(string, tag = "7")]
    pub id: String,
    /// The action or its digest.
    #[prost(message, optional, tag = "8")]
    pub payload: Option<Any>,
    /// The result.
    #[prost(message, optional, tag = "9")]
    pub result: Option<Any>,
}

/// Request for a session.
#[derive(Clone, PartialEq, Message)]
pub struct CreateBotSessionRequest {
    /// Instance.
    #[prost(string, tag = "1")]
    pub parent: String,
    /// Session.
    #[prost(message, optional, tag = "2")]
    pub bot_session: Option<BotSession>,
}

/// Update of a session.
#[derive(Clone, PartialEq, Message)]
pub struct UpdateBotSessionRequest {
    /// Name of the session.
    #[prost(string, tag = "1")]
    pub name: String,
    /// Session.
    #[prost(message, optional, tag = "2")]
    pub bot_session: Option<BotSession>,
}

/// The scheduler's service.
#[derive(Clone, Debug)]
pub struct Bots(Channel);

impl Bots {
    /// The service at the other end of a channel.
    #[must_use]
    pub const fn new(channel: Channel) -> Self {
        Self(channel)
    }

    /// Begins a session. The server may wait for a lease before it answers.
    ///
    /// # Errors
    /// The server's status.
    pub async fn create(
        &self,
        message: CreateBotSessionRequest,
        limit: Duration,
    ) -> Result<BotSession, Status> {
        self.call("/google.devtools.remoteworkers.v1test2.Bots/CreateBotSession", message, limit).await
    }

    /// Updates a session: a sign of life, ended leases, and the request for new ones, for which the server may wait.
    ///
    /// # Errors
    /// The server's status.
    pub async fn update(
        &self,
        message: UpdateBotSessionRequest,
        limit: Duration,
    ) -> Result<BotSession, Status> {
        self.call("/google.devtools.remoteworkers.v1test2.Bots/UpdateBotSession", message, limit).await
    }

    async fn call<M: Message + 'static>(
        &self,
        path: &'static str,
        message: M,
        limit: Duration,
    ) -> Result<BotSession, Status> {
        let mut grpc = tonic::client::Grpc::new(self.0.clone()).max_decoding_message_size(MAX_MESSAGE);
        grpc.ready().await.map_err(Status::from_error)?;
        let codec = tonic_prost::ProstCodec::<M, BotSession>::default();
        let answer = grpc.unary(within(message, limit), PathAndQuery::from_static(path), codec).await?;
        Ok(answer.into_inner())
    }
}
