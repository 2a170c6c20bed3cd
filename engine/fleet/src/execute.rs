//! An action in a farm's hands: asked for, followed to its end within bounds of time, with its output as it comes.

use std::time::Duration;

use bazel_remote_apis::build::bazel::remote::execution::v2 as reapi;
use bazel_remote_apis::google::bytestream::ReadRequest;
use bazel_remote_apis::google::bytestream::byte_stream_client::ByteStreamClient;
use bazel_remote_apis::google::longrunning::operations_client::OperationsClient;
use bazel_remote_apis::google::longrunning::{CancelOperationRequest, Operation, operation};
use hotcell_sandbox::Chunk;
use reapi::execution_client::ExecutionClient;
use tokio::sync::mpsc;
use tokio::task::JoinSet;
use tokio::time::Instant;
use tonic::{Code, Status, Streaming};

use crate::address::Address;
use crate::count::{ANSWER, PROGRESS};
use crate::digest::{Hashing, Key};
use crate::error::{FleetError, Kind};
use crate::results::MAX_STREAM;
use crate::wire::{self, CALL_TIMEOUT, Channel, MAX_MESSAGE, unpack, within};

/// Full name of the API's messages.
pub(crate) const REAPI: &str = "build.bazel.remote.execution.v2";
/// Default of the time in a farm's queue.
pub const DEFAULT_QUEUE: Duration = Duration::from_secs(3600);
/// Time for a worker's own work beside the run: input is fetched, outputs are stored.
const AROUND_RUN: Duration = Duration::from_secs(300);
/// Time limit of a run without one of its own: a worker's operator has a lower one.
const LONGEST_RUN: Duration = Duration::from_secs(24 * 3600);
/// Time limit of a cancellation.
const CANCEL_TIMEOUT: Duration = Duration::from_secs(5);
/// Number of times that a lost stream of states is asked for again.
const RESUMES: u32 = 5;
/// Time that a farm has to restart: then a run whose states were lost is given up.
const RESTART: Duration = Duration::from_secs(90);
/// Pause before a lost stream is asked for again.
const RESUME_PAUSE: Duration = Duration::from_secs(1);

/// State of a run, for a person who waits.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum Progress {
    /// The input was sent: number and size of the blobs that the farm did not have.
    Sent(usize, u64),
    /// The run waits for a worker.
    Queued,
    /// A worker runs it.
    Executing,
    /// Output, while it runs.
    Output(Chunk),
}

/// An action to execute.
#[derive(Clone, Copy, Debug)]
pub(crate) struct Asked {
    /// Digest of the action.
    pub action: Key,
    /// An earlier result of the same action will do.
    pub cached: bool,
    /// Maximum time in the queue.
    pub queue: Duration,
    /// Time limit of the run.
    pub timeout: Option<Duration>,
}

/// Output that was shown while the program ran: number of bytes, and their digest.
#[derive(Default)]
pub(crate) struct Shown {
    stdout: Hashing,
    stderr: Hashing,
}

impl Shown {
    fn add(&mut self, chunk: &Chunk) {
        match chunk {
            Chunk::Stdout(bytes) => self.stdout.add(bytes),
            Chunk::Stderr(bytes) => self.stderr.add(bytes),
        }
    }

    /// Number of bytes of each stream that were shown.
    ///
    /// # Errors
    /// [`FleetError`] of a farm that showed other output than the result has.
    pub fn lengths(self, stdout: &[u8], stderr: &[u8]) -> Result<(usize, usize), FleetError> {
        let length = |shown: Hashing, whole: &[u8], name: &str| {
            let key = shown.finish();
            let length = usize::try_from(key.size).unwrap_or(usize::MAX);
            match whole.get(..length) {
                Some(begin) if key.is_of(begin) => Ok(length),
                _ => {
                    Err(FleetError::farm(format!("the farm's log of {name} has other bytes than the result")))
                }
            }
        };
        Ok((length(self.stdout, stdout, "standard output")?, length(self.stderr, stderr, "standard error")?))
    }
}

/// Has the farm execute an action, and follows it to its end. `name` gets the name of the operation.
///
/// # Errors
/// [`FleetError`] when the farm refuses it, is silent for too long, or ends without an answer.
pub(crate) async fn execute(
    address: &Address,
    channel: &Channel,
    asked: Asked,
    name: &mut String,
    progress: &mut (dyn FnMut(Progress) + Send),
) -> Result<(reapi::ExecuteResponse, Shown), FleetError> {
    let failed = |what: &str, status: &Status| wire::failed(&address.server, what, status);
    let silent = || {
        let why = format!(
            "{}: Execute: the farm did not answer within {} s",
            address.server,
            CALL_TIMEOUT.as_secs()
        );
        FleetError::new(Kind::Unreachable, why)
    };
    let mut client = ExecutionClient::new(channel.clone()).max_decoding_message_size(MAX_MESSAGE);
    let request = reapi::ExecuteRequest {
        instance_name: address.instance.clone(),
        skip_cache_lookup: !asked.cached,
        action_digest: Some(asked.action.message()),
        ..reapi::ExecuteRequest::default()
    };
    let answer = tokio::time::timeout(CALL_TIMEOUT, client.execute(request)).await.map_err(|_| silent())?;
    let mut states = answer.map_err(|e| failed("Execute", &e))?.into_inner();
    let mut following = Following::new(address, channel, asked);
    for _ in 0..=RESUMES {
        let ended = following.follow(&mut states, name, progress).await;
        match ended {
            Ok(Some(operation)) => return Ok((response(address, operation)?, following.shown)),
            Ok(None) if name.is_empty() => break,
            Err(Lost::Call(status)) => {
                let error = failed("Execute", &status);
                if name.is_empty() || error.kind != Kind::Unreachable {
                    return Err(error);
                }
            }
            Err(Lost::Late(error)) => {
                cancel(channel, std::mem::take(name)).await;
                return Err(error);
            }
            Ok(None) => {}
        }
        // The operation goes on without its watcher.
        let until = Instant::now() + RESTART;
        states = loop {
            tokio::time::sleep(RESUME_PAUSE).await;
            let request = reapi::WaitExecutionRequest { name: name.clone() };
            let again = tokio::time::timeout(CALL_TIMEOUT, client.wait_execution(request)).await;
            match again.map_err(|_| silent())? {
                Ok(again) => break again.into_inner(),
                Err(status) => {
                    let error = failed("WaitExecution", &status);
                    if error.kind != Kind::Unreachable || Instant::now() > until {
                        return Err(error);
                    }
                }
            }
        };
    }
    let why = format!("{}: the farm ended the stream of states before the run had ended", address.server);
    Err(FleetError::new(Kind::Unreachable, why))
}

/// Cancels an operation, if it has a name.
pub(crate) async fn cancel(channel: &Channel, name: String) {
    if !name.is_empty() {
        let request = CancelOperationRequest { name };
        let mut client = OperationsClient::new(channel.clone());
        let _ =
            tokio::time::timeout(CANCEL_TIMEOUT, client.cancel_operation(within(request, CANCEL_TIMEOUT)))
                .await;
    }
}

/// Why a stream of states ended without the last state.
enum Lost {
    Call(Status),
    Late(FleetError),
}

struct Following<'a> {
    address: &'a Address,
    channel: &'a Channel,
    asked: Asked,
    stage: i32,
    /// The moment by which a worker has to begin, and then by which it has to end.
    until: Instant,
    first: Option<Instant>,
    shown: Shown,
    chunks: (mpsc::Sender<Chunk>, mpsc::Receiver<Chunk>),
    logs: JoinSet<()>,
    /// Names of streams that are read.
    named: [bool; 2],
}

impl<'a> Following<'a> {
    fn new(address: &'a Address, channel: &'a Channel, asked: Asked) -> Self {
        let now = Instant::now();
        Self {
            address,
            channel,
            asked,
            stage: 0,
            until: now + asked.queue,
            first: Some(now + CALL_TIMEOUT),
            shown: Shown::default(),
            chunks: mpsc::channel(16),
            logs: JoinSet::new(),
            named: [false; 2],
        }
    }

    /// Reads states until the last one; `None` when the stream ends before it.
    async fn follow(
        &mut self,
        states: &mut Streaming<Operation>,
        name: &mut String,
        progress: &mut (dyn FnMut(Progress) + Send),
    ) -> Result<Option<Operation>, Lost> {
        loop {
            let until = self.first.unwrap_or(self.until);
            let state = tokio::select! {
                biased;
                () = tokio::time::sleep_until(until) => return Err(Lost::Late(self.late())),
                state = states.message() => state.map_err(Lost::Call)?,
                Some(chunk) = self.chunks.1.recv() => {
                    self.shown.add(&chunk);
                    progress(Progress::Output(chunk));
                    continue;
                }
            };
            let Some(operation) = state else { return Ok(None) };
            self.first = None;
            if name.is_empty() {
                name.clone_from(&operation.name);
            }
            self.see(&operation, progress);
            if operation.done {
                self.logs.abort_all();
                return Ok(Some(operation));
            }
        }
    }

    fn see(&mut self, operation: &Operation, progress: &mut (dyn FnMut(Progress) + Send)) {
        let metadata = operation.metadata.as_ref();
        let metadata: Option<reapi::ExecuteOperationMetadata> =
            metadata.and_then(|any| unpack(&format!("{REAPI}.ExecuteOperationMetadata"), any, PROGRESS).ok());
        let Some(metadata) = metadata else { return };
        for (at, stream) in
            [&metadata.stdout_stream_name, &metadata.stderr_stream_name].into_iter().enumerate()
        {
            if !stream.is_empty() && !operation.done && !std::mem::replace(&mut self.named[at], true) {
                let log = log(self.channel.clone(), stream.clone(), at == 0, self.chunks.0.clone());
                self.logs.spawn(log);
            }
        }
        if metadata.stage == std::mem::replace(&mut self.stage, metadata.stage) {
            return;
        }
        match reapi::execution_stage::Value::try_from(metadata.stage) {
            Ok(reapi::execution_stage::Value::Queued) => progress(Progress::Queued),
            Ok(reapi::execution_stage::Value::Executing) => {
                self.until = Instant::now() + self.asked.timeout.unwrap_or(LONGEST_RUN) + AROUND_RUN;
                progress(Progress::Executing);
            }
            _ => {}
        }
    }

    fn late(&self) -> FleetError {
        let server = &self.address.server;
        let executing = reapi::execution_stage::Value::Executing as i32;
        let why = if self.first.is_some() {
            format!("{server}: Execute: the farm did not answer within {} s", CALL_TIMEOUT.as_secs())
        } else if self.stage >= executing {
            format!(
                "{server}: the run is lost: a worker began it, and the farm did not say within its time limit how it ended"
            )
        } else {
            let queue = hotcell_sandbox::units::format_duration(self.asked.queue);
            format!(
                "{server}: no worker took the run within {queue}; ask the farm's operator for workers of this platform"
            )
        };
        FleetError::new(Kind::Unreachable, why)
    }
}

/// Reads a log stream to its end. A failure of the log does not fail the run: the result has all of the output.
async fn log(channel: Channel, resource_name: String, is_stdout: bool, to: mpsc::Sender<Chunk>) {
    let mut client = ByteStreamClient::new(channel).max_decoding_message_size(MAX_MESSAGE);
    let request = ReadRequest { resource_name, ..ReadRequest::default() };
    let Ok(answer) = client.read(request).await else { return };
    let (mut pieces, mut bytes) = (answer.into_inner(), 0);
    while let Ok(Some(piece)) = pieces.message().await {
        bytes += piece.data.len() as u64;
        if bytes > MAX_STREAM {
            return;
        }
        let chunk = if is_stdout { Chunk::Stdout(piece.data) } else { Chunk::Stderr(piece.data) };
        if to.send(chunk).await.is_err() {
            return;
        }
    }
}

fn response(address: &Address, operation: Operation) -> Result<reapi::ExecuteResponse, FleetError> {
    match operation.result {
        Some(operation::Result::Response(any)) => unpack(&format!("{REAPI}.ExecuteResponse"), &any, ANSWER)
            .map_err(|why| {
                FleetError::farm(format!("{}: the answer is not an ExecuteResponse: {why}", address.server))
            }),
        Some(operation::Result::Error(status)) => Err(wire::failed(
            &address.server,
            "Execute",
            &Status::new(Code::from(status.code), status.message),
        )),
        None => Err(FleetError::farm(format!("{}: the run ended without an answer", address.server))),
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn shown_output_is_the_beginning_of_the_result() {
        let shown = |out: &str, err: &str| {
            let mut shown = Shown::default();
            shown.add(&Chunk::Stdout(out.into()));
            shown.add(&Chunk::Stderr(err.into()));
            shown.lengths(b"abc", b"x")
        };
        assert_eq!(shown("", "").unwrap(), (0, 0));
        assert_eq!(shown("ab", "x").unwrap(), (2, 1));
        assert!(shown("b", "").unwrap_err().message.contains("standard output"));
        assert!(shown("abcd", "").is_err() && shown("", "xy").is_err());
    }
}
