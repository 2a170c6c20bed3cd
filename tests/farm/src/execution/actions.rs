//! Execution: an action's states, its run, its answer.

use std::pin::Pin;
use std::process::Stdio;
use std::time::Duration;

use bazel_remote_apis::build::bazel::remote::execution::v2 as reapi;
use bazel_remote_apis::google::longrunning::operations_server::Operations;
use bazel_remote_apis::google::longrunning::{
    CancelOperationRequest, DeleteOperationRequest, GetOperationRequest, ListOperationsRequest,
    ListOperationsResponse, Operation, WaitOperationRequest, operation,
};
use bazel_remote_apis::google::protobuf::{Any, Empty};
use bazel_remote_apis::google::rpc;
use futures_util::{Stream, stream};
use hotcell_fleet::digest::Key;
use prost::Message;
use reapi::execution_server::Execution;
use reapi::execution_stage::Value as Stage;
use tokio::io::AsyncReadExt;
use tokio::process::Command;
use tonic::{Code, Request, Response, Status};

use super::{Lie, State};

/// Full name of the API's messages.
const REAPI: &str = "type.googleapis.com/build.bazel.remote.execution.v2";
/// Size of an output stream that is inside the result, in bytes.
const MAX_INLINE: usize = 1024;

type States = Pin<Box<dyn Stream<Item = Result<Operation, Status>> + Send>>;

#[tonic::async_trait]
impl Execution for State {
    type ExecuteStream = States;
    type WaitExecutionStream = States;

    async fn execute(&self, request: Request<reapi::ExecuteRequest>) -> Result<Response<States>, Status> {
        let request = request.into_inner();
        self.storage.check_instance(&request.instance_name)?;
        let action = self.storage.blob(request.action_digest.as_ref())?;
        let key = Key::of(&action);
        let action =
            reapi::Action::decode(action.as_slice()).map_err(|e| Status::invalid_argument(e.to_string()))?;
        let kept = self.storage.cached(key);
        let kept = kept.filter(|_| !request.skip_cache_lookup || self.lies(Lie::Cached));
        Ok(Response::new(self.states(key, action, kept)))
    }

    async fn wait_execution(
        &self,
        _: Request<reapi::WaitExecutionRequest>,
    ) -> Result<Response<States>, Status> {
        if self.lies(Lie::LostStates) {
            return Ok(Response::new(Box::pin(stream::empty())));
        }
        Err(Status::not_found("no such operation"))
    }
}

impl State {
    fn states(&self, key: Key, action: reapi::Action, kept: Option<reapi::ActionResult>) -> States {
        let name = format!("operations/{}", key.name());
        let logs =
            self.rules.logs.then(|| [format!("logs/{}/1", key.name()), format!("logs/{}/2", key.name())]);
        let state = move |stage: Stage| {
            let [stdout_stream_name, stderr_stream_name] = logs.clone().unwrap_or_default();
            let metadata = reapi::ExecuteOperationMetadata {
                stage: stage as i32,
                stdout_stream_name,
                stderr_stream_name,
                ..Default::default()
            };
            let any = Any {
                type_url: format!("{REAPI}.ExecuteOperationMetadata"),
                value: metadata.encode_to_vec(),
            };
            Operation { name: name.clone(), metadata: Some(any), ..Operation::default() }
        };
        let mut first = vec![Ok(state(Stage::Queued))];
        let silent: States = Box::pin(stream::pending());
        match self.rules.lie {
            Some(Lie::NoWorkers) => return Box::pin(stream::StreamExt::chain(stream::iter(first), silent)),
            Some(Lie::NoEnd) => {
                first.push(Ok(state(Stage::Executing)));
                return Box::pin(stream::StreamExt::chain(stream::iter(first), silent));
            }
            Some(Lie::LostStates) => return Box::pin(stream::iter(first)),
            Some(Lie::NoAnswer) => {
                first.push(Ok(Operation { done: true, ..state(Stage::Completed) }));
                return Box::pin(stream::iter(first));
            }
            _ => {}
        }
        first.push(Ok(state(Stage::Executing)));
        let farm = self.clone();
        let last = stream::once(async move {
            let cached = kept.is_some();
            let (code, result) = match kept {
                Some(result) => (Code::Ok, Some(result)),
                None => farm.perform(key, &action).await,
            };
            let status = Some(rpc::Status { code: code as i32, message: said(code), details: Vec::new() });
            let cached_result = cached || farm.lies(Lie::Cached);
            let response = reapi::ExecuteResponse { result, cached_result, status, ..Default::default() };
            let any = Any { type_url: format!("{REAPI}.ExecuteResponse"), value: response.encode_to_vec() };
            let result = Some(operation::Result::Response(any));
            Ok(Operation { done: true, result, ..state(Stage::Completed) })
        });
        Box::pin(stream::StreamExt::chain(stream::iter(first), last))
    }

    async fn perform(&self, key: Key, action: &reapi::Action) -> (Code, Option<reapi::ActionResult>) {
        self.held().executed += 1;
        match self.rules.lie {
            Some(Lie::WrongPlatform) => return (Code::FailedPrecondition, None),
            Some(Lie::WorkerFailed) => return (Code::Internal, None),
            Some(Lie::OutcomeLost) => return (Code::Aborted, None),
            _ => {}
        }
        match self.run(key, action).await {
            Ok((code, mut result)) => {
                self.lie_about_outputs(&mut result);
                if code == Code::Ok && result.exit_code == 0 && !action.do_not_cache {
                    self.storage.cache(key, result.clone());
                }
                (code, Some(result))
            }
            Err(status) => {
                eprintln!("the farm: {status}");
                (Code::Internal, None)
            }
        }
    }

    async fn run(&self, key: Key, action: &reapi::Action) -> Result<(Code, reapi::ActionResult), Status> {
        let failed = |e: std::io::Error| Status::internal(e.to_string());
        let command = reapi::Command::decode(self.storage.blob(action.command_digest.as_ref())?.as_slice())
            .map_err(|e| Status::invalid_argument(e.to_string()))?;
        let place = tempfile::tempdir().map_err(failed)?;
        let top = place.path().canonicalize().map_err(failed)?.join("root");
        std::fs::create_dir(&top).map_err(failed)?;
        self.lay(
            action.input_root_digest.as_ref().ok_or_else(|| Status::invalid_argument("no root"))?,
            &top,
        )?;
        for parent in command.output_paths.iter().filter_map(|path| std::path::Path::new(path).parent()) {
            std::fs::create_dir_all(top.join(parent)).map_err(failed)?;
        }
        let mut started = self.command(&command, &top, place.path());
        let mut child = started
            .stdin(Stdio::null())
            .stdout(Stdio::piped())
            .stderr(Stdio::piped())
            .kill_on_drop(true)
            .spawn()
            .map_err(failed)?;
        let (stdout, stderr) = (child.stdout.take(), child.stderr.take());
        let names = [format!("logs/{}/1", key.name()), format!("logs/{}/2", key.name())];
        let limit = action.timeout.as_ref().and_then(|limit| u64::try_from(limit.seconds).ok());
        let ended = tokio::time::timeout(Duration::from_secs(limit.unwrap_or(600)), async {
            let (out, err) = tokio::join!(self.read(&names[0], stdout), self.read(&names[1], stderr));
            (out, err, child.wait().await)
        });
        let Ok((stdout, stderr, status)) = ended.await else {
            return Ok((Code::DeadlineExceeded, reapi::ActionResult::default()));
        };
        let status = status.map_err(failed)?;
        let exit_code = std::os::unix::process::ExitStatusExt::signal(&status)
            .map_or(status.code().unwrap_or(1), |signal| 128 + signal);
        let mut result = reapi::ActionResult { exit_code, ..Default::default() };
        for named in &command.output_paths {
            self.gather(&top, named, &mut result)?;
        }
        (result.stdout_raw, result.stdout_digest) = self.stream(stdout);
        (result.stderr_raw, result.stderr_digest) = self.stream(stderr);
        let mut about = reapi::ExecutedActionMetadata { worker: "double".to_owned(), ..Default::default() };
        if let Ok(outcome) = std::fs::read(place.path().join("outcome.json")) {
            about
                .auxiliary_metadata
                .push(Any { type_url: "type.googleapis.com/hotcell.outcome.v1".to_owned(), value: outcome });
        }
        if self.lies(Lie::StrangeReceipt) {
            about.auxiliary_metadata.push(Any {
                type_url: "type.googleapis.com/hotcell.receipt.v1".to_owned(),
                value: b"{}".to_vec(),
            });
        }
        result.execution_metadata = Some(about);
        if self.lies(Lie::OtherExit) {
            result.exit_code = 0;
        }
        Ok((Code::Ok, result))
    }

    /// The process of an action: as it is, or where a worker of hotcell puts it.
    fn command(&self, command: &reapi::Command, top: &std::path::Path, place: &std::path::Path) -> Command {
        let variables = command.environment_variables.iter().map(|one| (&one.name, &one.value));
        let path = "/usr/local/bin:/usr/bin:/bin";
        let mut process = match &self.rules.hotcell {
            None => {
                let mut process = Command::new(command.arguments.first().map_or("", String::as_str));
                process.args(command.arguments.iter().skip(1)).env_clear().env("PATH", path).envs(variables);
                process
            }
            Some(hotcell) => {
                let state = place.join("state");
                let mut process = Command::new(hotcell);
                process.env_clear().env("PATH", path).env("HOME", place).arg("run").arg("--state").arg(state);
                process.args([
                    "--no-daemon",
                    "--guard",
                    "off",
                    "--memory",
                    "1G",
                    "--max-processes",
                    "256",
                    "--stdin",
                    "null",
                ]);
                process.arg("--rw").arg(format!("{}:/home/sandbox/project", top.display()));
                for (name, value) in variables {
                    process.arg("--env").arg(format!("{name}={value}"));
                }
                process.args(["--", "/bin/sh", "-c", "cd /home/sandbox/project && exec \"$@\"", "sh"]);
                process.args(&command.arguments);
                process
            }
        };
        process.current_dir(top);
        process
    }

    /// Reads a stream to its end, and shows what came so far.
    async fn read(&self, name: &str, from: Option<impl tokio::io::AsyncRead + Unpin>) -> Vec<u8> {
        let Some(mut from) = from else { return Vec::new() };
        let mut all = Vec::new();
        let mut piece = vec![0; 64 << 10];
        while let Ok(read @ 1..) = from.read(&mut piece).await {
            all.extend_from_slice(&piece[..read]);
            if self.rules.logs {
                let shown =
                    if self.lies(Lie::OtherLog) { b"another output".as_slice() } else { all.as_slice() };
                self.storage.show(name, Some(shown));
            }
        }
        self.storage.show(name, None);
        all
    }

    fn stream(&self, bytes: Vec<u8>) -> (Vec<u8>, Option<reapi::Digest>) {
        if bytes.len() <= MAX_INLINE { (bytes, None) } else { (Vec::new(), Some(self.put(bytes))) }
    }
}

fn said(code: Code) -> String {
    match code {
        Code::FailedPrecondition => "no worker has OSFamily=plan9".to_owned(),
        Code::Internal => "the worker's disk is full".to_owned(),
        Code::Aborted => "lost: a worker began it, and died".to_owned(),
        _ => String::new(),
    }
}

#[tonic::async_trait]
impl Operations for State {
    async fn cancel_operation(&self, _: Request<CancelOperationRequest>) -> Result<Response<Empty>, Status> {
        self.held().cancelled += 1;
        Ok(Response::new(Empty::default()))
    }

    async fn list_operations(
        &self,
        _: Request<ListOperationsRequest>,
    ) -> Result<Response<ListOperationsResponse>, Status> {
        Err(Status::unimplemented("ListOperations"))
    }

    async fn get_operation(&self, _: Request<GetOperationRequest>) -> Result<Response<Operation>, Status> {
        Err(Status::unimplemented("GetOperation"))
    }

    async fn delete_operation(&self, _: Request<DeleteOperationRequest>) -> Result<Response<Empty>, Status> {
        Err(Status::unimplemented("DeleteOperation"))
    }

    async fn wait_operation(&self, _: Request<WaitOperationRequest>) -> Result<Response<Operation>, Status> {
        Err(Status::unimplemented("WaitOperation"))
    }
}
