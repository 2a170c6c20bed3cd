//! One action of a farm in one sandbox: its input is fetched, it runs without a network, its outputs are stored.

use std::fs::File;
use std::io::{self, Read, Write};
use std::path::{Path, PathBuf};
use std::sync::{Arc, Mutex, PoisonError};

use bazel_remote_apis::build::bazel::remote::execution::v2::{
    Action, ActionResult, Command, Digest, ExecutedActionMetadata, OutputDirectory, OutputFile,
    OutputSymlink, Tree as TreeMessage,
};
use bazel_remote_apis::google::protobuf::Any;
use bazel_remote_apis::google::rpc;
use hotcell_config::network::NetworkSetting;
use hotcell_config::{Configuration, EnvSetting, RunSettings, SecretSettings};
use hotcell_report::RunReport;
use hotcell_sandbox::outcome::Cause;
use hotcell_sandbox::policy::{Limits, PROJECT, Stdin};
use hotcell_sandbox::{BoxFuture, Bytes, Chunk, Running, Spawn, temporary};
use hotcell_toolchain::{Asks, Surroundings};
use hotcell_verbs::changes::{ChangePolicy, ViewReader};
use hotcell_verbs::execute::{Observer, execute};
use hotcell_verbs::request::{RunRequest, RunTarget};
use hotcell_workspace::{Folder, Kind, Stack};
use prost::Message;
use tokio_util::sync::CancellationToken;

use crate::action::{self, Checked, OutputPath};
use crate::cas::{Blobs, Cas, Content};
use crate::digest::{Hashing, Key};
use crate::error::FleetError;
use crate::gather::gather;
use crate::lay;
use crate::tree::{Bounds, check_link};
use crate::verdict::{self, Verdict};
use crate::wire::{now, status, unpack};

/// Maximum size of an action's or a command's message, in bytes.
const MAX_DEFINITION: u64 = 4 << 20;
/// Maximum size of a stream that is inside the result, in bytes; a larger one is a blob.
const MAX_INLINE: usize = 16 << 10;
/// Full name of the API's messages.
const REAPI: &str = "build.bazel.remote.execution.v2";

/// Runs actions under the operator's policy.
pub struct Performer {
    cas: Cas,
    spawn: Arc<dyn Spawn>,
    configuration: Configuration,
    settings: RunSettings,
    limits: Limits,
    name: String,
}

impl Performer {
    /// A performer whose policy is the operator's configuration with these settings. Networks and secrets of the
    /// configuration are for the operator's own runs: actions have neither.
    ///
    /// # Errors
    /// [`FleetError`] when the configuration is invalid.
    pub fn new(
        cas: Cas,
        spawn: Arc<dyn Spawn>,
        mut configuration: Configuration,
        settings: RunSettings,
        name: &str,
    ) -> Result<Self, FleetError> {
        configuration.user.run.secrets = SecretSettings::default();
        configuration.environment.run.secrets = SecretSettings::default();
        let settings = RunSettings {
            network: Some(NetworkSetting::None),
            secrets: SecretSettings::default(),
            ..settings
        };
        let probe = request(&["true".to_owned()], None, settings.clone());
        let merged = probe.merge(&configuration).map_err(|report| FleetError::request(report.to_string()))?;
        let limits = merged.policy.job.limits;
        Ok(Self { cas, spawn, configuration, settings, limits, name: name.to_owned() })
    }

    /// Runs the action of a lease; `stop` ends it. Returns the status of the lease, and the result if there is one.
    pub async fn perform(
        &self,
        payload: Option<&Any>,
        stop: &CancellationToken,
    ) -> (rpc::Status, Option<ActionResult>) {
        match self.attempt(payload, stop).await {
            Ok((verdict, result)) => (status(verdict.code, verdict.message), result),
            Err(error) => (status(verdict::of_error(&error), error.message), None),
        }
    }

    async fn attempt(
        &self,
        payload: Option<&Any>,
        stop: &CancellationToken,
    ) -> Result<(Verdict, Option<ActionResult>), FleetError> {
        let mut cas = self.cas.clone();
        let mut about = ExecutedActionMetadata {
            worker: self.name.clone(),
            worker_start_timestamp: Some(now()),
            input_fetch_start_timestamp: Some(now()),
            ..ExecutedActionMetadata::default()
        };
        let host = |what: &str, e: io::Error| FleetError::host(format!("{what}: {e}"));
        let place = temporary::folder().map_err(|e| host("there is no place for an action", e))?;
        let root = place.path().join("root");
        let staging = place.path().join("outputs");
        let fetched = async {
            let checked = self.definition(&mut cas, payload).await?;
            std::fs::create_dir(&root).map_err(|e| host("there is no place for an action", e))?;
            std::fs::create_dir(&staging).map_err(|e| host("there is no place for an action", e))?;
            let folder = Arc::new(Folder::open(&root).map_err(|e| host("the place of an action", e))?);
            let tree = lay::read(&mut cas, checked.root, Bounds::default()).await?;
            lay::write(&mut cas, tree, &folder).await?;
            // The API promises a program its working folder and the parents of its outputs.
            let parents = checked.outputs.iter().filter_map(|output| output.path.parent());
            for parent in
                parents.chain([checked.folder.as_path()]).filter(|path| !path.as_os_str().is_empty())
            {
                folder.make_all(parent).map_err(|e| {
                    FleetError::request(format!(
                        "the folder {} of an output cannot be made: {e}",
                        parent.display()
                    ))
                })?;
            }
            Ok::<_, FleetError>(checked)
        };
        let checked = tokio::select! {
            checked = fetched => checked?,
            () = stop.cancelled() => return Ok((cancelled(), None)),
        };
        about.input_fetch_completed_timestamp = Some(now());
        about.execution_start_timestamp = Some(now());
        let reader = Arc::new(Outputs {
            paths: checked.outputs.clone(),
            staging: staging.clone(),
            collected: Mutex::default(),
        });
        let (report, printed) = self.run(&checked, &root, reader.clone(), stop).await?;
        about.execution_completed_timestamp = Some(now());
        about.output_upload_start_timestamp = Some(now());
        let verdict = verdict::of_report(&report);
        let Some(exit_code) = verdict.exit_code else { return Ok((verdict, None)) };
        let mut collected = Collected::default();
        if report.usage.wall_us.is_some() {
            let taken = reader.collected.lock().unwrap_or_else(PoisonError::into_inner).take();
            collected =
                taken.unwrap_or_else(|| Err(FleetError::host("what the action wrote cannot be read")))?;
        }
        let mut result = ActionResult { exit_code, ..collected.result };
        let mut stderr = printed.stderr;
        if report.usage.wall_us.is_none() {
            stderr.extend_from_slice(format!("hotcell: {}\n", verdict.message).as_bytes());
        }
        (result.stdout_raw, result.stdout_digest) = stream(printed.stdout, &mut collected.blobs);
        (result.stderr_raw, result.stderr_digest) = stream(stderr, &mut collected.blobs);
        let folder = Arc::new(Folder::open(&staging).map_err(|e| host("the outputs of an action", e))?);
        tokio::select! {
            sent = cas.upload(&collected.blobs, &folder) => { sent?; }
            () = stop.cancelled() => return Ok((cancelled(), None)),
        }
        about.output_upload_completed_timestamp = Some(now());
        about.worker_completed_timestamp = Some(now());
        about.auxiliary_metadata = verdict::metadata(&report).into_iter().collect();
        result.execution_metadata = Some(about);
        Ok((verdict, Some(result)))
    }

    /// The action of a payload, with its command, checked.
    async fn definition(&self, cas: &mut Cas, payload: Option<&Any>) -> Result<Checked, FleetError> {
        let any = payload.ok_or_else(|| FleetError::request("the lease has no action"))?;
        let action = match (unpack(&format!("{REAPI}.Action"), any), unpack(&format!("{REAPI}.Digest"), any))
        {
            (Some(action), _) => action,
            (None, Some(digest)) => definition::<Action>(cas, Some(&digest), "the action").await?,
            (None, None) => {
                return Err(FleetError::request(format!("the lease has no action but a {}", any.type_url)));
            }
        };
        let command = definition::<Command>(cas, action.command_digest.as_ref(), "the command").await?;
        action::check(&action, &command, &self.limits)
    }

    async fn run(
        &self,
        checked: &Checked,
        root: &Path,
        reader: Arc<dyn ViewReader>,
        stop: &CancellationToken,
    ) -> Result<(RunReport, Printed), FleetError> {
        let env = checked.env.iter().map(|(name, value)| EnvSetting::Set(name.into(), value.into()));
        let env = self.settings.env.iter().cloned().chain(env).collect();
        let request =
            request(&checked.argv, Some(root.to_owned()), RunSettings { env, ..self.settings.clone() });
        let mut merged =
            request.merge(&self.configuration).map_err(|report| FleetError::host(report.to_string()))?;
        // The result has all of the output, which its own limit bounds.
        merged.policy.job.limits = Limits { capture: Bytes(0), ..checked.limits.clone() };
        let around =
            Surroundings { cwd: root.to_owned(), asks: Asks::Caller, ..Surroundings::of_this_process() };
        let prepared = tokio::task::spawn_blocking(move || request.prepare(merged, around)).await;
        let mut prepared = match prepared.map_err(|e| FleetError::host(e.to_string()))? {
            Ok(prepared) => prepared,
            Err(report) => return Ok((without_host_paths(*report, &checked.argv), Printed::default())),
        };
        if !checked.folder.as_os_str().is_empty() {
            prepared.policy.job.cwd = Some(Path::new(PROJECT).join(&checked.folder));
        }
        prepared.read_after(reader);
        let mut printed = Printed::default();
        let stopped = async {
            stop.cancelled().await;
            None
        };
        let executed = execute(&*self.spawn, &mut prepared, &mut printed, stopped).await;
        Ok((without_host_paths(executed.report, &checked.argv), printed))
    }
}

/// The report of an action whose program was not started, without paths of this machine: a farm's clients see it.
fn without_host_paths(mut report: RunReport, argv: &[String]) -> RunReport {
    if report.usage.wall_us.is_some() || report.scan.is_some() {
        return report;
    }
    let program = argv.first().map_or("", String::as_str);
    let reason = match report.cause {
        Cause::NotFound => format!("there is no program {program:?} on this worker"),
        Cause::NotExecutable => format!("{program:?} cannot be executed on this worker"),
        Cause::Refused | Cause::Internal => {
            "this worker cannot run it; its operator's log has the reason".to_owned()
        }
        _ => return report,
    };
    if let Some(why) = report.reason.replace(reason) {
        tracing::warn!(target: "hotcell_contents", "an action was not started: {why}");
    }
    report
}

fn cancelled() -> Verdict {
    verdict::of_report(&RunReport::without_a_run(Cause::Cancelled, "the farm took the lease back"))
}

fn request(argv: &[String], workspace: Option<PathBuf>, settings: RunSettings) -> RunRequest {
    RunRequest {
        what: RunTarget::Program(argv.iter().map(Into::into).collect()),
        workspace,
        kept: None,
        settings,
        limits: Limits::default(),
        stdin: Stdin::Null,
        keep: ChangePolicy::default(),
    }
}

/// Reads a message that an action is made of.
async fn definition<M: Message + Default>(
    cas: &mut Cas,
    digest: Option<&Digest>,
    what: &str,
) -> Result<M, FleetError> {
    let bytes = cas.read(Key::check(digest, what)?, MAX_DEFINITION).await?;
    M::decode(bytes.as_slice()).map_err(|e| FleetError::request(format!("{what} is not a message: {e}")))
}

/// A stream of output for a result: inside it, or as a blob.
fn stream(bytes: Vec<u8>, blobs: &mut Blobs) -> (Vec<u8>, Option<Digest>) {
    if bytes.len() <= MAX_INLINE {
        return (bytes, None);
    }
    let key = Key::of(&bytes);
    blobs.insert(key, Content::Bytes(bytes));
    (Vec::new(), Some(key.message()))
}

/// The output of a program.
#[derive(Debug, Default)]
struct Printed {
    stdout: Vec<u8>,
    stderr: Vec<u8>,
}

impl Observer for Printed {
    fn compiles(&mut self, _compiler: &str) {}

    fn prepares(&mut self, _what: &str) {}

    fn compiler_printed(&mut self, _printed: &str) {}

    fn follow<'a>(&'a mut self, running: &mut Running) -> BoxFuture<'a, ()> {
        let chunks = running.output();
        Box::pin(async move {
            let Some(mut chunks) = chunks else { return };
            while let Some(chunk) = chunks.recv().await {
                match chunk {
                    Chunk::Stdout(bytes) => self.stdout.extend_from_slice(&bytes),
                    Chunk::Stderr(bytes) => self.stderr.extend_from_slice(&bytes),
                }
            }
        })
    }
}

/// Outputs of an action, read from the view of its input root after the run.
#[derive(Debug)]
struct Outputs {
    paths: Vec<OutputPath>,
    /// Folder for copies of the files.
    staging: PathBuf,
    collected: Mutex<Option<Result<Collected, FleetError>>>,
}

/// Outputs of an action, as blobs and messages.
#[derive(Debug, Default)]
struct Collected {
    result: ActionResult,
    blobs: Blobs,
}

impl ViewReader for Outputs {
    fn read(&self, view: &Stack<'_>) {
        let collected = self.collect(view);
        *self.collected.lock().unwrap_or_else(PoisonError::into_inner) = Some(collected);
    }
}

impl Outputs {
    fn collect(&self, view: &Stack<'_>) -> Result<Collected, FleetError> {
        let Collected { mut result, mut blobs } = Collected::default();
        for OutputPath { named, path } in &self.paths {
            let unread =
                |e: io::Error| FleetError::request(format!("the output {named:?} cannot be read: {e}"));
            let kind = if path.as_os_str().is_empty() {
                Some((Kind::Folder, 0))
            } else {
                view.node(path).map_err(unread)?.map(|node| (node.kind, node.mode))
            };
            match kind {
                // The client tells what it misses.
                None | Some((Kind::Whiteout, _)) => {}
                Some((Kind::File, mode)) => {
                    let key =
                        view.file(path).and_then(|file| self.stage(file, &mut blobs)).map_err(unread)?;
                    result.output_files.push(OutputFile {
                        path: named.clone(),
                        digest: Some(key.message()),
                        is_executable: mode & 0o111 != 0,
                        ..OutputFile::default()
                    });
                }
                Some((Kind::Link, _)) => {
                    let target = view.link(path).map_err(unread)?;
                    let target = target.to_str().unwrap_or_default();
                    check_link(path, target, path.components().count() - 1)?;
                    let target = target.to_owned();
                    result.output_symlinks.push(OutputSymlink {
                        path: named.clone(),
                        target,
                        ..OutputSymlink::default()
                    });
                }
                Some((Kind::Folder, _)) => {
                    let mut staged = Blobs::new();
                    let gathered = gather(view, path, Bounds::default(), &mut |_, file, _| {
                        self.stage(file, &mut staged)
                    })?;
                    blobs.extend(staged);
                    let tree = TreeMessage { root: Some(gathered.directory), children: gathered.children };
                    let tree = tree.encode_to_vec();
                    let key = Key::of(&tree);
                    blobs.insert(key, Content::Bytes(tree));
                    let messages = gathered.messages.into_iter();
                    blobs.extend(messages.map(|(key, text)| (key, Content::Bytes(text))));
                    result.output_directories.push(OutputDirectory {
                        path: named.clone(),
                        tree_digest: Some(key.message()),
                        is_topologically_sorted: false,
                        root_directory_digest: Some(gathered.root.message()),
                    });
                }
                Some((Kind::Special, _)) => {
                    let why = format!("the output {named:?} is a device, a pipe or a socket");
                    return Err(FleetError::request(why));
                }
            }
        }
        Ok(Collected { result, blobs })
    }

    /// Copies a file, so that it stays as its digest says.
    fn stage(&self, from: File, blobs: &mut Blobs) -> io::Result<Key> {
        let at = self.staging.join("next");
        let mut to = File::create(&at)?;
        let mut hashing = Hashing::default();
        let mut from = from.take(Bounds::default().bytes);
        let mut piece = vec![0; 256 << 10];
        loop {
            let read = from.read(&mut piece)?;
            if read == 0 {
                break;
            }
            hashing.add(&piece[..read]);
            to.write_all(&piece[..read])?;
        }
        let key = hashing.finish();
        let name = PathBuf::from(hex::encode(key.hash));
        std::fs::rename(&at, self.staging.join(&name))?;
        blobs.insert(key, Content::File(name));
        Ok(key)
    }
}
