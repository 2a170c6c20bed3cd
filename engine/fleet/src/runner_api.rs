//! Messages and service of Buildbarn's runner, `buildbarn.runner.Runner`: `pkg/proto/runner/runner.proto` of
//! buildbarn/bb-remote-execution. It is in no crate; the field numbers are those of the file.

use std::collections::HashMap;
use std::convert::Infallible;
use std::pin::Pin;
use std::sync::Arc;
use std::task::{Context, Poll};

use bazel_remote_apis::google::protobuf::Any;
use tonic::body::Body;
use tonic::codegen::{Service, http};
use tonic::server::{Grpc, NamedService, UnaryService};
use tonic::{Request, Response, Status};
use tonic_prost::ProstCodec;

/// Maximum size of a request, in bytes: a command line of Linux's `MAX_ARG_STRLEN` many times.
const MAX_REQUEST: usize = 16 << 20;

/// Question whether the runner is ready.
#[derive(Clone, PartialEq, Eq, prost::Message)]
pub struct CheckReadinessRequest {
    /// Path below the build directory that has to exist.
    #[prost(string, tag = "1")]
    pub path: String,
}

/// An action that is to be run.
#[derive(Clone, PartialEq, Eq, prost::Message)]
pub struct RunRequest {
    /// Program and arguments.
    #[prost(string, repeated, tag = "1")]
    pub arguments: Vec<String>,
    /// Environment.
    #[prost(map = "string, string", tag = "2")]
    pub environment_variables: HashMap<String, String>,
    /// Start folder, below the input root.
    #[prost(string, tag = "3")]
    pub working_directory: String,
    /// File for standard output, below the build directory.
    #[prost(string, tag = "4")]
    pub stdout_path: String,
    /// File for standard error, below the build directory.
    #[prost(string, tag = "5")]
    pub stderr_path: String,
    /// Input root, below the build directory.
    #[prost(string, tag = "6")]
    pub input_root_directory: String,
    /// Scratch folder, below the build directory.
    #[prost(string, tag = "7")]
    pub temporary_directory: String,
    /// Folder for logs that the client gets, below the build directory.
    #[prost(string, tag = "8")]
    pub server_logs_directory: String,
}

/// Result of an action.
#[derive(Clone, PartialEq, prost::Message)]
pub struct RunResponse {
    /// Exit code.
    #[prost(int64, tag = "1")]
    pub exit_code: i64,
    /// Resources used.
    #[prost(message, repeated, tag = "2")]
    pub resource_usage: Vec<Any>,
}

/// `google.protobuf.Empty`.
#[derive(Clone, PartialEq, Eq, prost::Message)]
pub struct Empty {}

/// `buildbarn.resourceusage.POSIXResourceUsage`, as far as a sandbox knows it.
#[derive(Clone, PartialEq, prost::Message)]
pub struct PosixResourceUsage {
    /// Processor time of programs.
    #[prost(message, optional, tag = "1")]
    pub user_time: Option<bazel_remote_apis::google::protobuf::Duration>,
    /// Maximum size of the memory, in bytes.
    #[prost(int64, tag = "3")]
    pub maximum_resident_set_size: i64,
    /// Name of the signal that ended it, without `SIG`.
    #[prost(string, tag = "17")]
    pub termination_signal: String,
}

/// Future of an answer.
pub type Answer<T> = Pin<Box<dyn Future<Output = Result<Response<T>, Status>> + Send>>;

/// The runner behind the service.
pub trait Runner: Send + Sync + 'static {
    /// Tells whether actions can be run.
    fn check_readiness(self: Arc<Self>, request: CheckReadinessRequest) -> Answer<Empty>;

    /// Runs an action. The future is dropped when the client cancels the call.
    fn run(self: Arc<Self>, request: RunRequest) -> Answer<RunResponse>;
}

/// The service.
pub struct RunnerServer<R>(Arc<R>);

impl<R> RunnerServer<R> {
    /// The service of a runner.
    #[must_use]
    pub const fn new(runner: Arc<R>) -> Self {
        Self(runner)
    }
}

impl<R> Clone for RunnerServer<R> {
    fn clone(&self) -> Self {
        Self(self.0.clone())
    }
}

impl<R> NamedService for RunnerServer<R> {
    const NAME: &'static str = "buildbarn.runner.Runner";
}

struct Ready<R>(Arc<R>);

impl<R: Runner> UnaryService<CheckReadinessRequest> for Ready<R> {
    type Response = Empty;
    type Future = Answer<Empty>;

    fn call(&mut self, request: Request<CheckReadinessRequest>) -> Self::Future {
        self.0.clone().check_readiness(request.into_inner())
    }
}

struct Run<R>(Arc<R>);

impl<R: Runner> UnaryService<RunRequest> for Run<R> {
    type Response = RunResponse;
    type Future = Answer<RunResponse>;

    fn call(&mut self, request: Request<RunRequest>) -> Self::Future {
        self.0.clone().run(request.into_inner())
    }
}

impl<R: Runner> Service<http::Request<Body>> for RunnerServer<R> {
    type Response = http::Response<Body>;
    type Error = Infallible;
    type Future = Pin<Box<dyn Future<Output = Result<Self::Response, Infallible>> + Send>>;

    fn poll_ready(&mut self, _context: &mut Context<'_>) -> Poll<Result<(), Infallible>> {
        Poll::Ready(Ok(()))
    }

    fn call(&mut self, request: http::Request<Body>) -> Self::Future {
        let runner = self.0.clone();
        let path = request.uri().path().to_owned();
        Box::pin(async move {
            match path.as_str() {
                "/buildbarn.runner.Runner/CheckReadiness" => {
                    let mut grpc = Grpc::new(ProstCodec::default()).max_decoding_message_size(MAX_REQUEST);
                    Ok(grpc.unary(Ready(runner), request).await)
                }
                "/buildbarn.runner.Runner/Run" => {
                    let mut grpc = Grpc::new(ProstCodec::default()).max_decoding_message_size(MAX_REQUEST);
                    Ok(grpc.unary(Run(runner), request).await)
                }
                _ => Ok(Status::unimplemented("the runner has no such call").into_http()),
            }
        })
    }
}
