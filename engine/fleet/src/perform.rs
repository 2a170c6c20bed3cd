//! One action of a farm in one sandbox: its input is fetched, it runs without a network, its outputs are stored.

use std::fs::File;
use std::io::{self, Read, Seek, Write};
use std::path::PathBuf;
use std::sync::{Arc, Mutex, PoisonError};

use bazel_remote_apis::build::bazel::remote::execution::v2::{
    Action, ActionResult, Command, Digest, ExecutedActionMetadata, OutputDirectory, OutputFile,
    OutputSymlink, Tree as TreeMessage,
};
use bazel_remote_apis::google::protobuf::Any;
use bazel_remote_apis::google::rpc;
use hotcell_report::RunReport;
use hotcell_sandbox::outcome::Cause;
use hotcell_sandbox::{BoxFuture, Chunk, Running, temporary};
use hotcell_verbs::changes::{ChangePolicy, ViewReader};
use hotcell_verbs::execute::Observer;
use hotcell_workspace::{Folder, Kind, Stack};
use prost::Message;
use tempfile::TempDir;
use tokio_util::sync::CancellationToken;
use tonic::Code;

use crate::action::{self, Checked, OutputPath};
use crate::cas::{Blobs, Cas, Content};
use crate::count::{self, ACTION, COMMAND, Field};
use crate::digest::{Hashing, Key};
use crate::error::FleetError;
use crate::executor::{Ended, Executor, Program};
use crate::gather::gather;
use crate::lay::{self, Source};
use crate::marks::Marks;
use crate::once::{LOST, Step};
use crate::receipt::{self, Receipts, Signed};
use crate::tree::{Bounds, check_link};
use crate::verdict::{self, Verdict};
use crate::wire::{now, status, unpack};

/// Maximum size of an action's or a command's message, in bytes.
const MAX_DEFINITION: u64 = 4 << 20;
/// Maximum size of a stream that is inside the result, in bytes; a larger one is a blob.
const MAX_INLINE: usize = 16 << 10;
/// Full name of the API's messages.
const REAPI: &str = "build.bazel.remote.execution.v2";

/// Runs actions of a farm under the operator's policy.
pub struct Performer {
    /// Storage of blobs.
    pub source: Source,
    /// Places for marks of runs that may not be run twice.
    pub marks: Marks,
    /// Sandboxes.
    pub executor: Arc<Executor>,
    /// Signer of receipts, where each result has to have one.
    pub receipts: Option<Arc<dyn Receipts>>,
    /// Name of the worker.
    pub name: String,
}

impl Performer {
    /// Runs the action of a lease; `stop` ends it. Returns the status of the lease, the result if there is one, and the place of the action's files, which takes
    /// time to remove.
    pub async fn perform(
        &self,
        payload: Option<&Any>,
        stop: &CancellationToken,
    ) -> (rpc::Status, Option<ActionResult>, Option<TempDir>) {
        let place = temporary::folder()
            .map_err(|e| FleetError::host(format!("there is no place for an action: {e}")));
        let place = match place {
            Ok(place) => place,
            Err(error) => return (status(verdict::of_error(&error), error.message), None, None),
        };
        let (status, result) = match self.attempt(&place, payload, stop).await {
            Ok((verdict, result)) => (status(verdict.code, verdict.message), result),
            Err(error) => (status(verdict::of_error(&error), error.message), None),
        };
        (status, result, Some(place))
    }

    async fn attempt(
        &self,
        place: &TempDir,
        payload: Option<&Any>,
        stop: &CancellationToken,
    ) -> Result<(Verdict, Option<ActionResult>), FleetError> {
        let mut source = self.source.clone();
        let mut about = ExecutedActionMetadata {
            worker: self.name.clone(),
            worker_start_timestamp: Some(now()),
            ..ExecutedActionMetadata::default()
        };
        let host = |what: &str, e: io::Error| FleetError::host(format!("{what}: {e}"));
        let root = place.path().join("root");
        let staging = place.path().join("outputs");
        let fetched = async {
            let (action, checked) = self.definition(&mut source.cas, payload).await?;
            let room = self.executor.room(&checked.limits).await;
            about.input_fetch_start_timestamp = Some(now());
            std::fs::create_dir(&root).map_err(|e| host("there is no place for an action", e))?;
            std::fs::create_dir(&staging).map_err(|e| host("there is no place for an action", e))?;
            let folder = Arc::new(Folder::open(&root).map_err(|e| host("the place of an action", e))?);
            let tree = lay::read(&mut source, checked.root, Bounds::default()).await?;
            lay::write(&mut source, tree, &folder).await?;
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
            Ok::<_, FleetError>((action, checked, room))
        };
        // The memory is the action's until its outputs are stored.
        let (action, checked, _room) = tokio::select! {
            fetched = fetched => fetched?,
            () = stop.cancelled() => return Ok((cancelled(), None)),
        };
        let folder = Arc::new(Folder::open(&staging).map_err(|e| host("the outputs of an action", e))?);
        if let Some(id) = &checked.once {
            let step = self.marks.clone().begin(&mut source.cas, id, &folder).await?;
            if let Some(verdict) = may_not_begin(step) {
                return Ok((verdict, None));
            }
        }
        about.input_fetch_completed_timestamp = Some(now());
        about.execution_start_timestamp = Some(now());
        let reader = Arc::new(Outputs {
            paths: checked.outputs.clone(),
            staging: staging.clone(),
            bounds: Bounds::default(),
            collected: Mutex::default(),
        });
        let program = Program {
            argv: &checked.argv,
            env: &checked.env,
            folder: &checked.folder,
            root: &root,
            limits: checked.limits.clone(),
        };
        let mut printed = Printed::default();
        let (keep, reading) = (ChangePolicy::default(), Some(reader.clone() as Arc<dyn ViewReader>));
        let Ended { report, image_digest, in_force, .. } =
            self.executor.run(program, keep, reading, &mut printed, stop).await?;
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
        tokio::select! {
            sent = source.cas.upload(&collected.blobs, &folder) => { sent?; }
            () = stop.cancelled() => return Ok((cancelled(), None)),
        }
        about.output_upload_completed_timestamp = Some(now());
        about.worker_completed_timestamp = Some(now());
        about.auxiliary_metadata = verdict::metadata(&report).into_iter().collect();
        if let Some(receipts) = &self.receipts {
            let outcome = about.auxiliary_metadata.first().map(|any| any.value.clone()).unwrap_or_default();
            let signed = Signed {
                report,
                outcome,
                argv: checked.argv.clone(),
                image_digest,
                in_force,
                subjects: receipt::subjects(action, &result),
            };
            about.auxiliary_metadata.push(receipt::signed(receipts.clone(), signed).await?);
        }
        result.execution_metadata = Some(about);
        Ok((verdict, Some(result)))
    }

    /// The action of a payload with its digest, and its command, checked.
    async fn definition(&self, cas: &mut Cas, payload: Option<&Any>) -> Result<(Key, Checked), FleetError> {
        let any = payload.ok_or_else(|| FleetError::request("the lease has no action"))?;
        let digest = unpack::<Digest>(&format!("{REAPI}.Digest"), any, &[]).ok();
        let action = match &digest {
            Some(digest) => definition::<Action>(cas, Some(digest), "the action", ACTION).await?,
            None => unpack(&format!("{REAPI}.Action"), any, ACTION)
                .map_err(|why| FleetError::request(format!("the lease has no action: {why}")))?,
        };
        let command =
            definition::<Command>(cas, action.command_digest.as_ref(), "the command", COMMAND).await?;
        let key = match &digest {
            Some(digest) => Key::check(Some(digest), "the action")?,
            None => Key::of(&action.encode_to_vec()),
        };
        Ok((key, action::check(&action, &command, self.executor.limits())?))
    }
}

/// The answer for a run that may not begin.
fn may_not_begin(step: Step) -> Option<Verdict> {
    let verdict = |code, message: String| Some(Verdict { exit_code: None, code, message });
    match step {
        Step::Go => None,
        Step::Lost => {
            let why = "it began on another worker, which did not answer; it was not run again";
            verdict(Code::Aborted, format!("{LOST}{why}"))
        }
        Step::Later => {
            verdict(Code::Unavailable, "the farm did not tell whether the run had begun".to_owned())
        }
        Step::Never => {
            let why = "the farm has no place in which a worker can note that the run began";
            verdict(Code::FailedPrecondition, why.to_owned())
        }
    }
}

fn cancelled() -> Verdict {
    verdict::of_report(&RunReport::without_a_run(Cause::Cancelled, "the farm took the lease back"))
}

/// Reads a message that an action is made of.
async fn definition<M: Message + Default>(
    cas: &mut Cas,
    digest: Option<&Digest>,
    what: &str,
    fields: &[Field],
) -> Result<M, FleetError> {
    let bytes = cas.read(Key::check(digest, what)?, MAX_DEFINITION).await?;
    count::decode(&bytes, fields).map_err(|why| FleetError::request(format!("{what} is not one: {why}")))
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
    /// Bounds of all outputs together: holes in files, and folders that are named more than once, are counted as what they come to.
    bounds: Bounds,
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
        let Bounds { mut entries, bytes: mut room, .. } = self.bounds;
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
                    let key = view
                        .file(path)
                        .and_then(|file| self.stage(file, &mut blobs, &mut room))
                        .map_err(unread)?;
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
                    let bounds = Bounds { entries, bytes: room, ..self.bounds };
                    let gathered = gather(view, path, bounds, &mut |_, _, open| {
                        self.stage(open()?, &mut staged, &mut room)
                    })?;
                    entries = entries.saturating_sub(gathered.files.len() + gathered.messages.len());
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

    /// Copies a file, so that it stays as its digest says; `room` is left for all outputs. Pieces of zeros become holes: a program makes them from nothing.
    fn stage(&self, mut from: File, blobs: &mut Blobs, room: &mut u64) -> io::Result<Key> {
        let too_large = || {
            let most = self.bounds.bytes;
            io::Error::new(io::ErrorKind::QuotaExceeded, format!("all outputs have more than {most} bytes"))
        };
        if from.metadata()?.len() > *room {
            return Err(too_large());
        }
        let at = self.staging.join("next");
        let mut to = File::create(&at)?;
        let mut hashing = Hashing::default();
        let mut piece = vec![0; 256 << 10];
        let mut length = 0;
        loop {
            let read = from.read(&mut piece)?;
            if read == 0 {
                break;
            }
            *room = room.checked_sub(read as u64).ok_or_else(too_large)?;
            length += read as u64;
            hashing.add(&piece[..read]);
            if piece[..read].iter().all(|byte| *byte == 0) {
                to.seek_relative(i64::try_from(read).map_err(io::Error::other)?)?;
            } else {
                to.write_all(&piece[..read])?;
            }
        }
        to.set_len(length)?;
        let key = hashing.finish();
        let name = PathBuf::from(hex::encode(key.hash));
        std::fs::rename(&at, self.staging.join(&name))?;
        blobs.insert(key, Content::File(name));
        Ok(key)
    }
}

#[cfg(test)]
mod tests {
    use std::os::unix::fs::MetadataExt;
    use std::path::Path;

    use super::*;

    fn collect(named: &[&str], bytes: u64, entries: usize, root: &Path) -> Result<Collected, FleetError> {
        let staging = tempfile::tempdir().unwrap();
        let path = |named: &&str| OutputPath {
            named: (*named).to_owned(),
            path: PathBuf::from(if named.starts_with('.') { "" } else { named }),
        };
        let outputs = Outputs {
            paths: named.iter().map(path).collect(),
            staging: staging.path().to_owned(),
            bounds: Bounds { bytes, entries, ..Bounds::default() },
            collected: Mutex::default(),
        };
        let folder = Folder::open(root).unwrap();
        let collected = outputs.collect(&Stack::new([], &folder))?;
        for entry in std::fs::read_dir(staging.path()).unwrap() {
            assert!(entry.unwrap().metadata().unwrap().blocks() <= 1024);
        }
        Ok(collected)
    }

    #[test]
    fn outputs_are_bounded_together() {
        let root = tempfile::tempdir().unwrap();
        for name in ["a", "b"] {
            std::fs::write(root.path().join(name), name.repeat(60)).unwrap();
        }
        for (named, bytes, entries, is_good) in [
            (&["a"][..], 100, 9, true),
            (&["a", "b"], 120, 9, true),
            (&["a", "b"], 119, 9, false),
            (&["."], 120, 9, true),
            // One folder, as often as an action likes.
            (&[".", "./"], 240, 9, true),
            (&[".", "./"], 239, 9, false),
            (&[".", "./", "./."], 999, 6, false),
        ] {
            let collected = collect(named, bytes, entries, root.path());
            assert_eq!(collected.is_ok(), is_good, "{named:?} {bytes} {entries}: {:?}", collected.err());
        }
    }

    #[test]
    fn holes_take_no_room_on_the_worker_and_are_counted() {
        let root = tempfile::tempdir().unwrap();
        let sparse = File::create(root.path().join("a")).unwrap();
        sparse.set_len(16 << 20).unwrap();
        let collected = collect(&["a"], 16 << 20, 9, root.path()).unwrap();
        let key = Key::of(&vec![0; 16 << 20]);
        assert_eq!(collected.result.output_files[0].digest, Some(key.message()));
        // As large as a program says: nothing of it is read.
        sparse.set_len(1 << 40).unwrap();
        let error = collect(&["a"], Bounds::default().bytes, 9, root.path()).unwrap_err();
        assert!(error.message.contains("more than 8589934592 bytes"), "{error}");
        assert!(collect(&["."], Bounds::default().bytes, 9, root.path()).is_err());
    }
}
