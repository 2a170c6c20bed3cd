//! One run on a farm: its input is sent, the farm runs it, and all that comes back is checked.

use std::collections::BTreeMap;
use std::fs::File;
use std::path::{Path, PathBuf};
use std::sync::Arc;
use std::time::Duration;

use bazel_remote_apis::build::bazel::remote::execution::v2 as reapi;
use bazel_remote_apis::google::longrunning::operations_client::OperationsClient;
use bazel_remote_apis::google::longrunning::{CancelOperationRequest, Operation, operation};
use bazel_remote_apis::google::protobuf;
use hotcell_report::{Remote, RunReport};
use hotcell_sandbox::outcome::{Cause, Output};
use hotcell_workspace::{Folder, Stack};
use prost::Message;
use reapi::capabilities_client::CapabilitiesClient;
use reapi::execution_client::ExecutionClient;
use tonic::transport::Channel;
use tonic::{Code, Status, Streaming};

use crate::address::Address;
use crate::cas::{Blobs, Cas, Content};
use crate::digest::Key;
use crate::error::{FleetError, Kind};
use crate::gather::{Gathered, gather};
use crate::tree::{Bounds, Entry, children, expand};
use crate::verdict;
use crate::wire::{self, CALL_TIMEOUT, MAX_MESSAGE, channel, unpack, within};

/// Full name of the API's messages.
const REAPI: &str = "build.bazel.remote.execution.v2";
/// Maximum size of an output stream that is read, in bytes: hotcell's own limit of output.
const MAX_STREAM: u64 = 64 << 20;
/// Maximum size of the message of an output folder, in bytes.
const MAX_TREE: u64 = 64 << 20;
/// Captured bytes of each stream in the report: the first and the last half.
const CAPTURE: usize = 1 << 20;
/// Time limit of a cancellation.
const CANCEL_TIMEOUT: Duration = Duration::from_secs(5);
/// Number of times that a lost stream of states is asked for again.
const RESUMES: u32 = 5;
/// Pause before a lost stream is asked for again.
const RESUME_PAUSE: Duration = Duration::from_secs(1);

/// A run for a farm. It has no network, no secrets and no input but its folder.
#[derive(Clone, Debug, Default)]
pub struct RemoteRun {
    /// Program and arguments.
    pub argv: Vec<String>,
    /// Environment.
    pub env: Vec<(String, String)>,
    /// Folder whose content is the input root.
    pub folder: Option<PathBuf>,
    /// Files and folders below it that are wanted afterwards.
    pub outputs: Vec<String>,
    /// Time limit.
    pub timeout: Option<Duration>,
    /// Platform properties.
    pub properties: Vec<(String, String)>,
}

/// State of a run, for a person who waits.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum Progress {
    /// The input was sent: number and size of the blobs that the farm did not have.
    Sent(usize, u64),
    /// The run waits for a worker.
    Queued,
    /// A worker runs it.
    Executing,
}

/// A file that a run wrote or changed.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Written {
    /// Path below the input root.
    pub path: PathBuf,
    /// Digest.
    pub key: Key,
}

/// Result of a run on a farm.
#[derive(Debug)]
pub struct Ran {
    /// Report.
    pub report: RunReport,
    /// Standard output.
    pub stdout: Vec<u8>,
    /// Standard error.
    pub stderr: Vec<u8>,
    /// Files that it wrote, as far as they were wanted.
    pub written: Vec<Written>,
    cas: Cas,
}

impl Ran {
    /// Reads a file that the run wrote into an empty file, and checks its digest.
    ///
    /// # Errors
    /// [`FleetError`] when the farm does not have it, or has other bytes.
    pub async fn read(&mut self, written: &Written, to: &mut File) -> Result<(), FleetError> {
        self.cas.read_into(written.key, to).await
    }
}

/// Runs something on a farm, and reports its states. `stop` cancels it.
///
/// # Errors
/// [`FleetError`] when the farm cannot be reached, refuses the run, fails, or answers something that is not true.
pub async fn run(
    address: &Address,
    run: &RemoteRun,
    progress: &mut (dyn FnMut(Progress) + Send),
    stop: impl Future<Output = ()>,
) -> Result<Ran, FleetError> {
    let channel = channel(address)?;
    let mut cas = Cas::new(&channel, address);
    let mut name = String::new();
    let told = {
        let work = go(address, &channel, run, &mut cas, &mut name, progress);
        let mut stop = std::pin::pin!(stop);
        tokio::select! {
            told = work => Some(told?),
            () = &mut stop => None,
        }
    };
    if let Some(ran) = told {
        return Ok(ran);
    }
    if !name.is_empty() {
        let request = CancelOperationRequest { name };
        let _ = OperationsClient::new(channel).cancel_operation(within(request, CANCEL_TIMEOUT)).await;
    }
    let report = RunReport::without_a_run(Cause::Cancelled, "stopped: cancelled on the farm");
    Ok(Ran { report, stdout: Vec::new(), stderr: Vec::new(), written: Vec::new(), cas })
}

async fn go(
    address: &Address,
    channel: &Channel,
    run: &RemoteRun,
    cas: &mut Cas,
    name: &mut String,
    progress: &mut (dyn FnMut(Progress) + Send),
) -> Result<Ran, FleetError> {
    check_capabilities(address, channel, cas).await?;
    let folder = run.folder.clone();
    let gathered = tokio::task::spawn_blocking(move || input(folder.as_deref())).await;
    let (gathered, folder) = gathered.map_err(|e| FleetError::host(e.to_string()))??;
    let (action, mut blobs) = messages(run, gathered.root);
    blobs.extend(gathered.messages.iter().map(|(key, text)| (*key, Content::Bytes(text.clone()))));
    for (path, key) in &gathered.files {
        blobs.insert(*key, Content::File(path.clone()));
    }
    let (sent_blobs, sent_bytes) = cas.upload(&blobs, &folder).await?;
    progress(Progress::Sent(sent_blobs, sent_bytes));
    let response = execute(address, channel, action, name, progress).await?;
    let mut report = verdict::of_answer(&response)?;
    let result = response.result.unwrap_or_default();
    let stdout = output(cas, result.stdout_raw.clone(), result.stdout_digest.as_ref()).await?;
    let stderr = output(cas, result.stderr_raw.clone(), result.stderr_digest.as_ref()).await?;
    let written = written(cas, &result, &gathered).await?;
    (report.stdout, report.stderr) = (captured(&stdout), captured(&stderr));
    let worker = result.execution_metadata.map(|metadata| metadata.worker).unwrap_or_default();
    report.remote = Some(Remote {
        farm: address.to_string(),
        action: action.name(),
        worker,
        sandboxed: !report.layers.states.is_empty(),
        sent_blobs: sent_blobs as u64,
        sent_bytes,
    });
    Ok(Ran { report, stdout, stderr, written, cas: cas.clone() })
}

/// Asks what the farm can do, before anything is sent.
async fn check_capabilities(address: &Address, channel: &Channel, cas: &mut Cas) -> Result<(), FleetError> {
    let request = reapi::GetCapabilitiesRequest { instance_name: address.instance.clone() };
    let answer =
        CapabilitiesClient::new(channel.clone()).get_capabilities(within(request, CALL_TIMEOUT)).await;
    let answer = answer.map_err(|e| wire::failed(&address.server, "GetCapabilities", &e))?.into_inner();
    let batch = supports(&answer).map_err(|why| FleetError::farm(format!("{}: {why}", address.server)))?;
    cas.limit_batch(batch);
    Ok(())
}

/// Checks that a farm executes, by version 2 and SHA-256; returns the size of its batches.
fn supports(answer: &reapi::ServerCapabilities) -> Result<i64, String> {
    let sha256 = reapi::digest_function::Value::Sha256 as i32;
    let (low, high) = (answer.low_api_version.clone(), answer.high_api_version.clone());
    let (low, high) = (low.map_or(2, |low| low.major), high.map_or(2, |high| high.major));
    if !(low..=high).contains(&2) {
        return Err(format!(
            "the farm speaks versions {low} to {high} of the Remote Execution API; 2 is needed"
        ));
    }
    let cache = answer.cache_capabilities.clone().unwrap_or_default();
    if !cache.digest_functions.is_empty() && !cache.digest_functions.contains(&sha256) {
        return Err("the farm's storage does not take SHA-256".to_owned());
    }
    match &answer.execution_capabilities {
        Some(execution) if execution.exec_enabled => {
            let mut functions = execution.digest_functions.iter().chain([&execution.digest_function]);
            if functions.any(|function| *function == sha256) {
                Ok(cache.max_batch_total_size_bytes)
            } else {
                Err("the farm's execution does not take SHA-256".to_owned())
            }
        }
        _ => Err("the farm stores, but executes nothing in this instance; check its name".to_owned()),
    }
}

/// The input root as messages, and the folder of its files.
fn input(folder: Option<&Path>) -> Result<(Gathered, Arc<Folder>), FleetError> {
    // Without a folder, one that has nothing.
    let empty = tempfile::tempdir().map_err(|e| FleetError::host(format!("no temporary folder: {e}")))?;
    let path = folder.unwrap_or(empty.path());
    let opened = Folder::open(path).map_err(|e| FleetError::request(format!("{}: {e}", path.display())))?;
    let gathered = {
        let view = Stack::new([], &opened);
        gather(&view, Path::new(""), Bounds::default(), &mut |_, file, node| {
            Key::of_reader(file, node.bytes)
        })?
    };
    Ok((gathered, Arc::new(opened)))
}

/// Messages of the action, by digest, and the digest of the action itself.
fn messages(run: &RemoteRun, root: Key) -> (Key, Blobs) {
    let variable = |(name, value): &(String, String)| reapi::command::EnvironmentVariable {
        name: name.clone(),
        value: value.clone(),
    };
    let mut environment_variables: Vec<_> = run.env.iter().map(variable).collect();
    environment_variables.sort_by(|a, b| a.name.cmp(&b.name));
    let mut output_paths = run.outputs.clone();
    output_paths.sort_unstable();
    output_paths.dedup();
    let command = reapi::Command {
        arguments: run.argv.clone(),
        environment_variables,
        output_paths,
        ..reapi::Command::default()
    };
    let property = |(name, value): &(String, String)| reapi::platform::Property {
        name: name.clone(),
        value: value.clone(),
    };
    let mut properties: Vec<_> = run.properties.iter().map(property).collect();
    properties.sort_by(|a, b| (&a.name, &a.value).cmp(&(&b.name, &b.value)));
    let command = command.encode_to_vec();
    let action = reapi::Action {
        command_digest: Some(Key::of(&command).message()),
        input_root_digest: Some(root.message()),
        timeout: run.timeout.map(|timeout| protobuf::Duration {
            seconds: i64::try_from(timeout.as_secs()).unwrap_or(i64::MAX),
            nanos: i32::try_from(timeout.subsec_nanos()).unwrap_or_default(),
        }),
        // Each run is asked for because it is to run now.
        do_not_cache: true,
        platform: (!properties.is_empty()).then_some(reapi::Platform { properties }),
        ..reapi::Action::default()
    };
    let action = action.encode_to_vec();
    let (command_key, action_key) = (Key::of(&command), Key::of(&action));
    let blobs = [(command_key, Content::Bytes(command)), (action_key, Content::Bytes(action))];
    (action_key, BTreeMap::from(blobs))
}

/// Has the farm execute an action, and follows it to its end. `name` gets the name of the operation.
async fn execute(
    address: &Address,
    channel: &Channel,
    action: Key,
    name: &mut String,
    progress: &mut (dyn FnMut(Progress) + Send),
) -> Result<reapi::ExecuteResponse, FleetError> {
    let failed = |what: &str, status: &Status| wire::failed(&address.server, what, status);
    let mut client = ExecutionClient::new(channel.clone()).max_decoding_message_size(MAX_MESSAGE);
    let request = reapi::ExecuteRequest {
        instance_name: address.instance.clone(),
        skip_cache_lookup: true,
        action_digest: Some(action.message()),
        ..reapi::ExecuteRequest::default()
    };
    let answer = client.execute(request).await;
    let mut states = answer.map_err(|e| failed("Execute", &e))?.into_inner();
    let mut stage = 0;
    for _ in 0..=RESUMES {
        let ended = follow(&mut states, name, &mut stage, progress).await;
        match ended {
            Ok(Some(operation)) => return response(address, operation),
            Ok(None) if name.is_empty() => break,
            Err(status) if name.is_empty() || status.code() != Code::Unavailable => {
                return Err(failed("Execute", &status));
            }
            Ok(None) | Err(_) => {}
        }
        // The operation goes on without its watcher.
        tokio::time::sleep(RESUME_PAUSE).await;
        let request = reapi::WaitExecutionRequest { name: name.clone() };
        match client.wait_execution(request).await {
            Ok(again) => states = again.into_inner(),
            Err(status) if status.code() == Code::Unavailable => {}
            Err(status) => return Err(failed("WaitExecution", &status)),
        }
    }
    let why = format!("{}: the farm ended the stream of states before the run had ended", address.server);
    Err(FleetError::new(Kind::Unreachable, why))
}

/// Reads states until the last one; `None` when the stream ends before it.
async fn follow(
    states: &mut Streaming<Operation>,
    name: &mut String,
    stage: &mut i32,
    progress: &mut (dyn FnMut(Progress) + Send),
) -> Result<Option<Operation>, Status> {
    while let Some(operation) = states.message().await? {
        if name.is_empty() {
            name.clone_from(&operation.name);
        }
        let metadata = operation.metadata.as_ref();
        let metadata: Option<reapi::ExecuteOperationMetadata> =
            metadata.and_then(|any| unpack(&format!("{REAPI}.ExecuteOperationMetadata"), any));
        let now = metadata.map_or(0, |metadata| metadata.stage);
        if now != std::mem::replace(stage, now) {
            match reapi::execution_stage::Value::try_from(now) {
                Ok(reapi::execution_stage::Value::Queued) => progress(Progress::Queued),
                Ok(reapi::execution_stage::Value::Executing) => progress(Progress::Executing),
                _ => {}
            }
        }
        if operation.done {
            return Ok(Some(operation));
        }
    }
    Ok(None)
}

fn response(address: &Address, operation: Operation) -> Result<reapi::ExecuteResponse, FleetError> {
    match operation.result {
        Some(operation::Result::Response(any)) => unpack(&format!("{REAPI}.ExecuteResponse"), &any)
            .ok_or_else(|| {
                FleetError::farm(format!("{}: the answer is not an ExecuteResponse", address.server))
            }),
        Some(operation::Result::Error(status)) => Err(wire::failed(
            &address.server,
            "Execute",
            &Status::new(Code::from(status.code), status.message),
        )),
        None => Err(FleetError::farm(format!("{}: the run ended without an answer", address.server))),
    }
}

async fn output(cas: &mut Cas, raw: Vec<u8>, digest: Option<&reapi::Digest>) -> Result<Vec<u8>, FleetError> {
    match digest {
        Some(digest) if raw.is_empty() && digest.size_bytes != 0 => {
            let key =
                Key::check(Some(digest), "an output stream").map_err(|e| FleetError::farm(e.message))?;
            cas.read(key, MAX_STREAM).await
        }
        _ => Ok(raw),
    }
}

/// Files of a result that are not in the input. All paths are checked as hostile.
async fn written(
    cas: &mut Cas,
    result: &reapi::ActionResult,
    input: &Gathered,
) -> Result<Vec<Written>, FleetError> {
    let farm = |error: FleetError| FleetError::farm(format!("the farm's result: {}", error.message));
    let mut all: BTreeMap<PathBuf, Key> = BTreeMap::new();
    for file in &result.output_files {
        let key = Key::check(file.digest.as_ref(), &format!("the output {:?}", file.path)).map_err(farm)?;
        all.insert(relative(&file.path)?, key);
    }
    for folder in &result.output_directories {
        let base = relative(&folder.path)?;
        let key = Key::check(folder.tree_digest.as_ref(), "an output folder").map_err(farm)?;
        let text = cas.read(key, MAX_TREE).await?;
        let tree = reapi::Tree::decode(text.as_slice()).map_err(|e| {
            FleetError::farm(format!("the farm's result has a folder that is not a tree: {e}"))
        })?;
        let root = tree.root.unwrap_or_default();
        let root_key = Key::of(&root.encode_to_vec());
        let mut directories = BTreeMap::from([(root_key, root)]);
        for directory in tree.children {
            children(&directory).map_err(farm)?;
            directories.insert(Key::of(&directory.encode_to_vec()), directory);
        }
        for (path, entry) in expand(root_key, &directories, Bounds::default()).map_err(farm)?.entries {
            if let Entry::File { key, .. } = entry {
                all.insert(base.join(path), key);
            }
        }
    }
    let is_new = |(path, key): &(PathBuf, Key)| input.files.get(path) != Some(key);
    Ok(all.into_iter().filter(is_new).map(|(path, key)| Written { path, key }).collect())
}

/// A path of a result below the input root.
fn relative(text: &str) -> Result<PathBuf, FleetError> {
    let path = Path::new(text);
    let is_plain = path.components().all(|part| matches!(part, std::path::Component::Normal(_)));
    if is_plain && !text.contains('\0') {
        return Ok(path.to_owned());
    }
    Err(FleetError::farm(format!("the farm's result has a path that leads elsewhere: {text:?}")))
}

/// A stream for the report: the first and the last half of the capture's size.
fn captured(bytes: &[u8]) -> Output {
    let kept = if bytes.len() <= CAPTURE {
        bytes.to_vec()
    } else {
        [&bytes[..CAPTURE / 2], &bytes[bytes.len() - CAPTURE / 2..]].concat()
    };
    Output::new(kept, bytes.len() as u64)
}

#[cfg(test)]
mod tests {
    use bazel_remote_apis::build::bazel::semver::SemVer;

    use super::*;

    #[test]
    fn farms_are_checked_before_anything_is_sent() {
        let good = || reapi::ServerCapabilities {
            cache_capabilities: Some(reapi::CacheCapabilities {
                digest_functions: vec![1],
                max_batch_total_size_bytes: 7,
                ..Default::default()
            }),
            execution_capabilities: Some(reapi::ExecutionCapabilities {
                digest_function: 1,
                exec_enabled: true,
                ..Default::default()
            }),
            ..Default::default()
        };
        assert_eq!(supports(&good()), Ok(7));
        type Change = fn(&mut reapi::ServerCapabilities);
        for (change, why) in [
            ((|c| c.execution_capabilities = None) as Change, "executes nothing"),
            (|c| c.execution_capabilities.as_mut().unwrap().exec_enabled = false, "executes nothing"),
            (|c| c.execution_capabilities.as_mut().unwrap().digest_function = 9, "SHA-256"),
            (|c| c.cache_capabilities.as_mut().unwrap().digest_functions = vec![9], "SHA-256"),
            (|c| c.low_api_version = Some(SemVer { major: 3, ..SemVer::default() }), "versions 3"),
        ] {
            let mut answer = good();
            change(&mut answer);
            assert!(supports(&answer).unwrap_err().contains(why), "{why}");
        }
    }

    #[test]
    fn paths_of_results_stay_below() {
        for (text, good) in
            [("a/b", true), ("", true), ("../a", false), ("/a", false), ("a/../../b", false), ("a\0", false)]
        {
            assert_eq!(relative(text).is_ok(), good, "{text:?}");
        }
    }

    #[test]
    fn actions_have_one_digest() {
        let one = RemoteRun {
            argv: vec!["true".to_owned()],
            env: vec![("B".to_owned(), String::new()), ("A".to_owned(), String::new())],
            outputs: vec!["b".to_owned(), "a".to_owned(), "a".to_owned()],
            ..RemoteRun::default()
        };
        let mut other = one.clone();
        other.env.reverse();
        other.outputs.sort_unstable();
        let root = Key::of(b"");
        assert_eq!(messages(&one, root).0, messages(&other, root).0);
        other.timeout = Some(Duration::from_secs(1));
        assert_ne!(messages(&one, root).0, messages(&other, root).0);
    }
}
