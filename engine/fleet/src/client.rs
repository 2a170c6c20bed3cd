//! One run on a farm: its input is sent, the farm runs it, and all that comes back is checked.

use std::collections::BTreeMap;
use std::fs::File;
use std::path::{Path, PathBuf};
use std::sync::{Arc, OnceLock};
use std::time::Duration;

use bazel_remote_apis::build::bazel::remote::execution::v2 as reapi;
use bazel_remote_apis::google::protobuf;
use hotcell_report::{Remote, RunReport};
use hotcell_sandbox::outcome::{Cause, Output};
use hotcell_workspace::Folder;
use prost::Message;
use reapi::capabilities_client::CapabilitiesClient;

use crate::address::Address;
use crate::cas::{Blobs, Cas, Content};
use crate::digest::Key;
use crate::error::{FleetError, Kind};
pub use crate::execute::Progress;
use crate::execute::{Asked, DEFAULT_QUEUE, cancel, execute};
use crate::input::{Input, OwnFile};
use crate::receipt_check::TrustedReceipts;
use crate::results;
pub use crate::results::Written;
use crate::verdict;
use crate::wire::{self, CALL_TIMEOUT, Channel, within};

/// Captured bytes of each stream in the report: the first and the last half.
const CAPTURE: usize = 1 << 20;

/// A farm that is spoken to. Cheap to clone; all clones share one connection.
#[derive(Clone, Debug)]
pub struct Farm {
    pub(crate) address: Address,
    /// Made by the first run, within its event loop.
    channel: Arc<OnceLock<Channel>>,
    /// Maximum time in the queue.
    queue: Duration,
    receipts: Arc<TrustedReceipts>,
}

impl Farm {
    /// The farm at an address. Connects when it is first spoken to.
    ///
    /// # Errors
    /// [`FleetError`] of a wrong request, when a certificate or a key cannot be used.
    pub fn new(
        address: Address,
        queue: Option<Duration>,
        receipts: TrustedReceipts,
    ) -> Result<Self, FleetError> {
        wire::endpoint(&address)?;
        let receipts = Arc::new(receipts);
        Ok(Self { address, channel: Arc::default(), queue: queue.unwrap_or(DEFAULT_QUEUE), receipts })
    }

    fn channel(&self) -> Result<Channel, FleetError> {
        if let Some(channel) = self.channel.get() {
            return Ok(channel.clone());
        }
        let channel = wire::channel(&self.address)?;
        Ok(self.channel.get_or_init(|| channel).clone())
    }

    /// The farm at an address, by the settings of the configuration.
    ///
    /// # Errors
    /// As [`Farm::new`]; and a trusted key that is not one.
    pub fn configured(
        address: Address,
        settings: &hotcell_config::FleetSettings,
    ) -> Result<Self, FleetError> {
        let receipts = TrustedReceipts::new(&settings.trusted_keys, settings.require_receipts)?;
        Self::new(address, settings.queue, receipts)
    }
}

/// A run for a farm. It has no network, no secrets and no input but its folder and hotcell's own files.
#[derive(Clone, Debug, Default)]
pub struct RemoteRun {
    /// Program and arguments.
    pub argv: Vec<String>,
    /// Environment.
    pub env: Vec<(String, String)>,
    /// Folder whose content is the input root; nothing without it.
    pub input: Option<Arc<Input>>,
    /// Files of hotcell's own in the input root.
    pub own: Vec<OwnFile>,
    /// Files and folders below it that are wanted afterwards.
    pub outputs: Vec<String>,
    /// Time limit.
    pub timeout: Option<Duration>,
    /// Platform properties.
    pub properties: Vec<(String, String)>,
    /// A result that the farm has already will do, and the result may be kept there.
    pub cached: bool,
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
    /// Number of bytes of each of the two that [`Progress::Output`] had already.
    pub shown: (usize, usize),
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

    /// Downloads files that the run wrote into an empty folder, each to the path that `to` says, or not at all.
    ///
    /// # Errors
    /// [`FleetError`] when the farm does not have one or has other bytes, or when they have more than `most` bytes together.
    pub(crate) async fn download(
        &mut self,
        to: impl Fn(&Path) -> Option<PathBuf>,
        most: u64,
        folder: &Arc<Folder>,
    ) -> Result<(), FleetError> {
        let files = self.written.iter().filter_map(|written| Some((to(&written.path)?, written)));
        results::download(&mut self.cas, files, most, folder).await
    }

    fn cancelled(cas: Cas) -> Self {
        let report = RunReport::without_a_run(Cause::Cancelled, "stopped: cancelled on the farm");
        Self { report, stdout: Vec::new(), stderr: Vec::new(), shown: (0, 0), written: Vec::new(), cas }
    }
}

/// Runs something on a farm, and reports its states. `stop` cancels it.
///
/// # Errors
/// [`FleetError`] when the farm cannot be reached, refuses the run, fails, or answers something that is not true.
pub async fn run(
    farm: &Farm,
    run: &RemoteRun,
    progress: &mut (dyn FnMut(Progress) + Send),
    stop: impl Future<Output = ()>,
) -> Result<Ran, FleetError> {
    let channel = farm.channel()?;
    let mut cas = Cas::new(&channel, &farm.address);
    let mut name = String::new();
    let told = {
        let work = go(farm, &channel, run, &mut cas, &mut name, progress);
        let mut stop = std::pin::pin!(stop);
        tokio::select! {
            told = work => Some(told?),
            () = &mut stop => None,
        }
    };
    if let Some(ran) = told {
        return Ok(ran);
    }
    cancel(&channel, name).await;
    Ok(Ran::cancelled(cas))
}

async fn go(
    farm: &Farm,
    channel: &Channel,
    run: &RemoteRun,
    cas: &mut Cas,
    name: &mut String,
    progress: &mut (dyn FnMut(Progress) + Send),
) -> Result<Ran, FleetError> {
    let Farm { address, queue, receipts, .. } = farm;
    check_capabilities(address, channel, cas).await?;
    let input = match &run.input {
        Some(input) => input.clone(),
        None => Arc::new(Input::read(None, &[])?),
    };
    let (root, mut blobs) = input.with(&run.own)?;
    let (action, own) = messages(run, root);
    blobs.extend(own);
    let sent = cas.upload(&blobs, input.folder()).await;
    if sent.as_ref().is_err_and(|error| error.kind == Kind::Request) {
        input.forget();
    }
    let (sent_blobs, sent_bytes) = sent?;
    drop(blobs);
    progress(Progress::Sent(sent_blobs, sent_bytes));
    let asked = Asked { action, cached: run.cached, queue: *queue, timeout: run.timeout };
    let (response, shown) = execute(address, channel, asked, name, progress).await?;
    if response.cached_result && !run.cached {
        let why = "the farm answered from its cache, and the run was to be executed";
        return Err(FleetError::farm(format!("{}: {why}", address.server)));
    }
    let mut report = verdict::of_answer(&response)?;
    let result = response.result.unwrap_or_default();
    let stdout = results::stream(cas, result.stdout_raw.clone(), result.stdout_digest.as_ref()).await?;
    let stderr = results::stream(cas, result.stderr_raw.clone(), result.stderr_digest.as_ref()).await?;
    let shown = shown.lengths(&stdout, &stderr)?;
    let written = results::written(cas, &result, input.files()).await?;
    let (receipt, receipt_about) = receipts.check(action, &result, (&stdout, &stderr))?;
    (report.stdout, report.stderr) = (captured(&stdout), captured(&stderr));
    let worker = result.execution_metadata.map(|metadata| metadata.worker).unwrap_or_default();
    report.remote = Some(Remote {
        farm: address.to_string(),
        action: action.name(),
        worker,
        sandboxed: !report.layers.states.is_empty(),
        sent_blobs: sent_blobs as u64,
        sent_bytes,
        cached: response.cached_result,
        receipt,
        receipt_about,
    });
    Ok(Ran { report, stdout, stderr, shown, written, cas: cas.clone() })
}

/// Asks what the farm can do, before anything is sent.
async fn check_capabilities(address: &Address, channel: &Channel, cas: &mut Cas) -> Result<(), FleetError> {
    let request = reapi::GetCapabilitiesRequest { instance_name: address.instance.clone() };
    let answer =
        CapabilitiesClient::new(channel.clone()).get_capabilities(within(request, CALL_TIMEOUT)).await;
    let answer = answer.map_err(|e| wire::failed(&address.server, "GetCapabilities", &e))?.into_inner();
    let cache = supports(&answer).map_err(|why| FleetError::farm(format!("{}: {why}", address.server)))?;
    cas.adapt(&cache);
    Ok(())
}

/// Checks that a farm executes, by version 2 and SHA-256; returns what its storage can.
fn supports(answer: &reapi::ServerCapabilities) -> Result<reapi::CacheCapabilities, String> {
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
                Ok(cache)
            } else {
                Err("the farm's execution does not take SHA-256".to_owned())
            }
        }
        _ => Err("the farm stores, but executes nothing in this instance; check its name".to_owned()),
    }
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
        // Unless it was said that an earlier result will do, each run is asked for because it is to run now.
        do_not_cache: !run.cached,
        platform: (!properties.is_empty()).then_some(reapi::Platform { properties }),
        ..reapi::Action::default()
    };
    let action = action.encode_to_vec();
    let (command_key, action_key) = (Key::of(&command), Key::of(&action));
    let blobs = [(command_key, Content::Bytes(command)), (action_key, Content::Bytes(action))];
    (action_key, BTreeMap::from(blobs))
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
        assert_eq!(supports(&good()).unwrap().max_batch_total_size_bytes, 7);
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
