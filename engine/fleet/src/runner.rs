//! Buildbarn's runner: `bb_worker` lays an action's input below the build directory that it shares with this process,
//! has the action run here, and stores what is there afterwards.
//!
//! Requests are hostile: each path is checked, and opened below the build directory without following a link. An action
//! sees its input root copy-on-write; its changes are taken over when it has ended and nothing of it runs.

use std::fs::{File, Permissions};
use std::io::Write;
use std::os::unix::fs::{FileTypeExt, PermissionsExt};
use std::path::{Path, PathBuf};
use std::sync::Arc;
use std::sync::atomic::{AtomicBool, AtomicU64, Ordering};

use bazel_remote_apis::google::protobuf;
use futures_util::stream::poll_fn;
use hotcell_report::RunReport;
use hotcell_sandbox::{BoxFuture, Chunk, Running};
use hotcell_verbs::changes::ChangePolicy;
use hotcell_verbs::execute::Observer;
use hotcell_workspace::Folder;
use tokio::net::UnixListener;
use tokio_util::sync::CancellationToken;
use tonic::transport::Server;
use tonic::{Code, Response, Status};

use crate::action::{arguments, below, environment};
use crate::error::FleetError;
use crate::executor::{Ended, Executor, Program};
use crate::meter::Meter;
use crate::receipt::{Receipts, Signed};
use crate::runner_api::{
    Answer, CheckReadinessRequest, Empty, PosixResourceUsage, RunRequest, RunResponse, Runner, RunnerServer,
};
use crate::verdict;
use crate::wire::pack;

/// Names of the files in the folder for logs.
const OUTCOME_FILE: &str = "hotcell.outcome.json";
const RECEIPT_FILE: &str = "hotcell.receipt.json";

/// A runner of actions below one build directory.
pub struct LocalRunner {
    /// Sandboxes.
    pub executor: Arc<Executor>,
    /// Build directory.
    pub directory: PathBuf,
    /// Signer of receipts, where each result has to have one.
    pub receipts: Option<Arc<dyn Receipts>>,
    /// Counts for the operator.
    pub meter: Arc<Meter>,
    /// True when no more actions are taken.
    pub drains: AtomicBool,
    /// Number of actions so far.
    pub number: AtomicU64,
}

/// A request that was checked.
#[derive(Debug, PartialEq, Eq)]
struct Checked {
    argv: Vec<String>,
    env: Vec<(String, String)>,
    folder: PathBuf,
    root: PathBuf,
    stdout: PathBuf,
    stderr: PathBuf,
    logs: Option<PathBuf>,
}

/// Checks a request. Pure.
fn check(request: RunRequest) -> Result<Checked, FleetError> {
    let folder = below(&request.working_directory, "working_directory")?;
    let argv = arguments(&request.arguments, &folder)?;
    let mut env = environment(request.environment_variables.into_iter())?;
    env.sort();
    let file = |text: &str, what: &str| {
        let path = below(text, what)?;
        if path.as_os_str().is_empty() {
            return Err(FleetError::request(format!("{what} names no file")));
        }
        Ok(path)
    };
    let root = file(&request.input_root_directory, "input_root_directory")?;
    let stdout = file(&request.stdout_path, "stdout_path")?;
    let stderr = file(&request.stderr_path, "stderr_path")?;
    // A sandbox has a scratch folder of its own; the path is checked as the others are.
    below(&request.temporary_directory, "temporary_directory")?;
    let logs = below(&request.server_logs_directory, "server_logs_directory")?;
    let logs = (!logs.as_os_str().is_empty()).then_some(logs);
    for (path, what) in [(&stdout, "stdout_path"), (&stderr, "stderr_path")]
        .into_iter()
        .chain(logs.iter().map(|l| (l, "logs")))
    {
        if path.starts_with(&root) {
            return Err(FleetError::request(format!("{what} is inside the input root")));
        }
    }
    Ok(Checked { argv, env, folder, root, stdout, stderr, logs })
}

fn refused(error: FleetError) -> Status {
    Status::new(verdict::of_error(&error), error.message)
}

impl Runner for LocalRunner {
    fn check_readiness(self: Arc<Self>, request: CheckReadinessRequest) -> Answer<Empty> {
        Box::pin(async move {
            if self.drains.load(Ordering::Relaxed) {
                return Err(Status::unavailable("this runner ends"));
            }
            let path = below(&request.path, "the path").map_err(refused)?;
            let found = Folder::open(&self.directory).and_then(|folder| folder.node(&path));
            match found {
                Ok(Some(_)) => Ok(Response::new(Empty {})),
                Ok(None) => Err(Status::internal(format!(
                    "there is no {:?} in the runner's build directory",
                    request.path
                ))),
                Err(error) => Err(Status::internal(format!("the build directory cannot be read: {error}"))),
            }
        })
    }

    fn run(self: Arc<Self>, request: RunRequest) -> Answer<RunResponse> {
        Box::pin(async move {
            if self.drains.load(Ordering::Relaxed) {
                return Err(Status::unavailable("this runner ends"));
            }
            let id = self.number.fetch_add(1, Ordering::Relaxed).to_string();
            let checked = check(request).map_err(refused)?;
            let stop = CancellationToken::new();
            // The call is dropped when its client cancels it; the task then ends the action and cleans up.
            let guard = stop.clone().drop_guard();
            let runner = self.clone();
            let task = tokio::spawn(async move {
                runner.meter.begun(&id);
                let done = runner.attempt(&checked, &stop).await;
                let (code, exit_code) = match &done {
                    Ok(response) => (Code::Ok, i32::try_from(response.exit_code).ok()),
                    Err(status) => (status.code(), None),
                };
                runner.meter.ended(&id, code, exit_code);
                done
            });
            let done = task.await.map_err(|e| Status::internal(e.to_string()))?;
            drop(guard);
            done.map(Response::new)
        })
    }
}

impl LocalRunner {
    async fn attempt(&self, checked: &Checked, stop: &CancellationToken) -> Result<RunResponse, Status> {
        let broken = |what: &str, e: std::io::Error| Status::unavailable(format!("{what}: {e}"));
        let build = Folder::open(&self.directory).map_err(|e| broken("the build directory", e))?;
        // Whatever is behind a link, on another file system or not a folder is refused here.
        build.folder(&checked.root).map_err(|e| {
            refused(FleetError::request(format!("the input root {:?} cannot be opened: {e}", checked.root)))
        })?;
        let log = |path: &Path| {
            let file = build.create(path)?;
            file.set_permissions(Permissions::from_mode(0o644))?;
            Ok(file)
        };
        let unwritten =
            |e: std::io::Error| refused(FleetError::request(format!("a log cannot be made: {e}")));
        let mut files = Files {
            stdout: log(&checked.stdout).map_err(unwritten)?,
            stderr: log(&checked.stderr).map_err(unwritten)?,
            failed: None,
        };
        let limits = self.executor.limits().clone();
        let _room = tokio::select! {
            room = self.executor.room(&limits) => room,
            () = stop.cancelled() => return Err(Status::cancelled("the call was cancelled")),
        };
        let root = self.directory.join(&checked.root);
        let program =
            Program { argv: &checked.argv, env: &checked.env, folder: &checked.folder, root: &root, limits };
        let keep = ChangePolicy {
            commit: true,
            after_failure: true,
            // The input root is the action's own, and no user's project.
            allow_protected: true,
            ..ChangePolicy::default()
        };
        let ended = self.executor.run(program, keep, None, &mut files, stop).await.map_err(refused)?;
        if let Some(error) = files.failed {
            return Err(broken("the output of the action cannot be written", error));
        }
        if let Some(why) = &ended.unkept {
            return Err(Status::unavailable(format!(
                "the outputs of the action cannot be taken over: {why}"
            )));
        }
        let verdict = verdict::of_report(&ended.report);
        let exit_code = match (verdict.exit_code, verdict.code) {
            (Some(exit_code), Code::Ok) => exit_code,
            (_, code) => return Err(Status::new(code, verdict.message)),
        };
        if ended.report.signal.is_none() && !verdict.message.is_empty() {
            writeln!(files.stderr, "hotcell: {}", verdict.message)
                .map_err(|e| broken("the output of the action cannot be written", e))?;
        }
        let usage = usage(&ended.report);
        if checked.logs.is_some() || self.receipts.is_some() {
            self.logs(&build, checked, ended).await?;
        }
        Ok(RunResponse {
            exit_code: exit_code.into(),
            resource_usage: vec![pack("buildbarn.resourceusage.POSIXResourceUsage", &usage)],
        })
    }

    /// Writes the outcome and the receipt into the folder for logs, from which the client gets them.
    async fn logs(&self, build: &Folder, checked: &Checked, ended: Ended) -> Result<(), Status> {
        let broken = |e: std::io::Error| Status::unavailable(format!("a log cannot be written: {e}"));
        let outcome = verdict::metadata(&ended.report).map(|any| any.value).unwrap_or_default();
        let Some(logs) = &checked.logs else {
            return Err(Status::failed_precondition(
                "this runner's operator wants a receipt of each result, and the request has no folder for logs",
            ));
        };
        build.make_all(logs).map_err(broken)?;
        let write = |name: &str, text: &[u8]| {
            let mut file = build.create(&logs.join(name))?;
            file.write_all(text)?;
            file.set_permissions(Permissions::from_mode(0o644))
        };
        write(OUTCOME_FILE, &outcome).map_err(broken)?;
        if let Some(receipts) = self.receipts.clone() {
            let signed = Signed {
                report: ended.report,
                outcome,
                argv: checked.argv.clone(),
                image_digest: ended.image_digest,
                in_force: ended.in_force,
                subjects: Vec::new(),
            };
            let any = crate::receipt::signed(receipts, signed).await.map_err(refused)?;
            write(RECEIPT_FILE, &any.value).map_err(broken)?;
        }
        Ok(())
    }
}

fn usage(report: &RunReport) -> PosixResourceUsage {
    let duration = |us: u64| protobuf::Duration {
        seconds: i64::try_from(us / 1_000_000).unwrap_or(i64::MAX),
        nanos: i32::try_from(us % 1_000_000 * 1000).unwrap_or(0),
    };
    PosixResourceUsage {
        user_time: report.usage.cpu_us.map(duration),
        maximum_resident_set_size: report
            .usage
            .peak_memory_bytes
            .map_or(0, |bytes| i64::try_from(bytes).unwrap_or(i64::MAX)),
        termination_signal: report
            .signal
            .as_deref()
            .map(|name| name.trim_start_matches("SIG").to_owned())
            .unwrap_or_default(),
    }
}

/// Files for the output of a program.
struct Files {
    stdout: File,
    stderr: File,
    failed: Option<std::io::Error>,
}

impl Observer for Files {
    fn compiles(&mut self, _compiler: &str) {}

    fn prepares(&mut self, _what: &str) {}

    fn compiler_printed(&mut self, _printed: &str) {}

    fn follow<'a>(&'a mut self, running: &mut Running) -> BoxFuture<'a, ()> {
        let chunks = running.output();
        Box::pin(async move {
            let Some(mut chunks) = chunks else { return };
            while let Some(chunk) = chunks.recv().await {
                let written = match chunk {
                    Chunk::Stdout(bytes) => self.stdout.write_all(&bytes),
                    Chunk::Stderr(bytes) => self.stderr.write_all(&bytes),
                };
                if let Err(error) = written {
                    self.failed.get_or_insert(error);
                }
            }
        })
    }
}

/// Listens at a path; a socket there that no process serves is replaced.
///
/// # Errors
/// [`FleetError`] when another process serves it, or something else is there.
pub fn listen(path: &Path) -> Result<UnixListener, FleetError> {
    let shown = path.display();
    let failed = |e: std::io::Error| FleetError::request(format!("{shown} cannot be listened at: {e}"));
    match std::fs::symlink_metadata(path) {
        Ok(about) if about.file_type().is_socket() => {
            if std::os::unix::net::UnixStream::connect(path).is_ok() {
                return Err(FleetError::request(format!("another process serves {shown}")));
            }
            std::fs::remove_file(path).map_err(failed)?;
        }
        Ok(_) => return Err(FleetError::request(format!("{shown} exists and is not a socket"))),
        Err(_) => {}
    }
    let listener = UnixListener::bind(path).map_err(failed)?;
    // Until here, no other user can connect: that needs the permission to write. bb_worker may have another user id, and
    // this one's group.
    std::fs::set_permissions(path, Permissions::from_mode(0o660)).map_err(failed)?;
    Ok(listener)
}

/// Serves until `drain` resolves and the actions have ended.
///
/// # Errors
/// [`FleetError`] when the socket fails.
pub async fn serve(
    runner: Arc<LocalRunner>,
    listener: UnixListener,
    drain: impl Future<Output = ()>,
) -> Result<(), FleetError> {
    let incoming = poll_fn(move |context| {
        listener.poll_accept(context).map(|accepted| Some(accepted.map(|(stream, _)| stream)))
    });
    let draining = runner.clone();
    let drained = async {
        drain.await;
        draining.drains.store(true, Ordering::Relaxed);
        draining.meter.drains();
    };
    Server::builder()
        .add_service(RunnerServer::new(runner))
        .serve_with_incoming_shutdown(incoming, drained)
        .await
        .map_err(|e| FleetError::host(format!("the runner's socket: {e}")))
}

#[cfg(test)]
mod tests {
    use super::*;

    fn request() -> RunRequest {
        RunRequest {
            arguments: vec!["bin/x".to_owned()],
            working_directory: "w".to_owned(),
            stdout_path: "1/stdout".to_owned(),
            stderr_path: "1/stderr".to_owned(),
            input_root_directory: "1/root".to_owned(),
            temporary_directory: "1/tmp".to_owned(),
            server_logs_directory: "1/server_logs".to_owned(),
            ..RunRequest::default()
        }
    }

    #[test]
    fn requests_stay_in_the_build_directory() {
        let good = check(request()).unwrap();
        assert_eq!((good.argv[0].as_str(), good.root.to_str()), ("./w/bin/x", Some("1/root")));
        type Change = fn(&mut RunRequest);
        for (change, why) in [
            ((|r| r.arguments.clear()) as Change, "no program"),
            (|r| r.arguments[0] = "../../x".to_owned(), "leads out"),
            (|r| r.working_directory = "..".to_owned(), "leads out"),
            (|r| r.working_directory = "/etc".to_owned(), "absolute"),
            (|r| r.stdout_path = "../stdout".to_owned(), "leads out"),
            (|r| r.stdout_path = String::new(), "names no file"),
            (|r| r.stdout_path = "1/root/x".to_owned(), "inside the input root"),
            (|r| r.stderr_path = "/etc/passwd".to_owned(), "absolute"),
            (|r| r.input_root_directory = String::new(), "names no file"),
            (|r| r.input_root_directory = "1/../..".to_owned(), "leads out"),
            (|r| r.temporary_directory = "../x".to_owned(), "leads out"),
            (|r| r.server_logs_directory = "a\0b".to_owned(), "zero byte"),
            (|r| r.server_logs_directory = "1/root/logs".to_owned(), "inside the input root"),
            (|r| drop(r.environment_variables.insert("A=B".to_owned(), String::new())), "variable"),
        ] {
            let mut changed = request();
            change(&mut changed);
            let error = check(changed).unwrap_err();
            assert!(error.message.contains(why), "{error} for {why}");
        }
    }
}
