//! A farm in place of sandboxes here: what is asked of a sandbox becomes an action, and its result what a sandbox leaves.
//!
//! The policy's files beside the workspace (reporters of a test framework, a source, what a compiler made) go along in a folder of the input root, and
//! a small script there puts them where the program looks for them. What a farm cannot fulfil is refused before anything is sent.

use std::collections::HashMap;
use std::ffi::OsStr;
use std::os::fd::OwnedFd;
use std::path::{Component, Path, PathBuf};
use std::sync::{Arc, Mutex, PoisonError};
use std::time::{Duration, SystemTime};

use hotcell_report::RunReport;
use hotcell_sandbox::home::{Held, Home};
use hotcell_sandbox::outcome::Cause;
use hotcell_sandbox::policy::{Bind, Confinement, HOME, Job, Limits, Network, PROJECT, Policy, Stdin};
use hotcell_sandbox::running::{Changed, Finished, Follow, Running, Stop};
use hotcell_sandbox::{BoxFuture, Chunk, Refusal, Spawn, temporary};
use hotcell_verbs::elsewhere::leave;
use hotcell_workspace::Folder;
use tokio::sync::mpsc;

use crate::action;
use crate::client::{self, Farm, Progress, Ran, RemoteRun};
use crate::error::{FleetError, Kind};
use crate::input::{Input, OWN, OwnFile};

/// Script that starts the program.
const BEGIN: &str = include_str!("begin.sh");
/// Its name below [`OWN`].
const BEGIN_NAME: &str = "begin";
/// File of the program's events, below [`OWN`].
const EVENTS: &str = "events";
/// Maximum size of hotcell's own files for one run, in bytes: a compiled program is one.
const MAX_OWN: u64 = 256 << 20;
/// Maximum number of hotcell's own files for one run.
const MAX_OWN_FILES: usize = 20_000;

/// How runs are sent.
#[derive(Clone, Debug, Default)]
pub struct Sending {
    /// Platform properties: the limits that were asked for.
    pub properties: Vec<(String, String)>,
    /// Time limit that was asked for.
    pub timeout: Option<Duration>,
    /// The limits of each policy are asked for, in place of these: of runs whose limits are not those of an operator's own command.
    pub limits_of_policy: bool,
    /// A result that the farm has already will do.
    pub cached: bool,
    /// Files and folders of the workspace that are wanted afterwards.
    pub outputs: Vec<String>,
    /// Whether a file of the workspace is wanted, of those below `outputs`; all of them without it.
    pub wants: Option<Wants>,
    /// All runs are over the workspace as it was at the first one.
    pub one_input: bool,
}

/// Starts runs on a farm.
pub struct Elsewhere {
    farm: Farm,
    sending: Sending,
    /// Workspaces that were read.
    inputs: Mutex<HashMap<PathBuf, Arc<Input>>>,
    /// Folder of digests of workspaces.
    digests: Option<PathBuf>,
    say: Option<Say>,
}

/// Says of a path below the workspace whether its file is wanted.
#[derive(Clone)]
pub struct Wants(pub Arc<dyn Fn(&Path) -> bool + Send + Sync>);

impl std::fmt::Debug for Wants {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        f.write_str("Wants(…)")
    }
}

/// Takes the states of runs, for a person who waits.
pub type Say = Arc<dyn Fn(&Progress) + Send + Sync>;

impl std::fmt::Debug for Elsewhere {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        f.debug_struct("Elsewhere").field("farm", &self.farm.address).finish_non_exhaustive()
    }
}

impl Elsewhere {
    /// Starts runs on this farm.
    #[must_use]
    pub fn new(farm: Farm, sending: Sending, say: Option<Say>) -> Self {
        Self { farm, sending, inputs: Mutex::default(), digests: None, say }
    }

    /// Keeps the digests of workspaces in this folder, so that an unchanged file is not read at each run.
    #[must_use]
    pub fn keeping(self, digests: Option<PathBuf>) -> Self {
        Self { digests, ..self }
    }

    fn input(&self, job: &Job) -> Result<Option<Arc<Input>>, FleetError> {
        let Some(workspace) = &job.workspace else { return Ok(None) };
        // Held while it is read: runs that begin together share it.
        let mut inputs = self.inputs.lock().unwrap_or_else(PoisonError::into_inner);
        if let Some(known) = inputs.get(workspace).filter(|_| self.sending.one_input) {
            return Ok(Some(known.clone()));
        }
        let digests = self.digests.as_deref().map(|place| (place, SystemTime::now()));
        let input = Arc::new(Input::read_again(Some(workspace), &job.layers, digests)?);
        if self.sending.one_input {
            inputs.insert(workspace.clone(), input.clone());
        }
        Ok(Some(input))
    }

    fn run(&self, policy: &Policy) -> Result<RemoteRun, FleetError> {
        if let Some(why) = unfit(policy) {
            return Err(FleetError::request(why));
        }
        let mut own = own_files(&policy.job.binds)?;
        let mut outputs = self.sending.outputs.clone();
        let (mut env, mut argv) = words(&policy.job)?;
        // A program without anything of hotcell's beside it needs no script.
        let mentions_home = env.iter().map(|(_, value)| value).chain(&argv).any(|word| word.contains(HOME));
        if !own.is_empty() || policy.job.events || mentions_home {
            let below_home = |path: &str| format!("{OWN}/home/{path}");
            own.push(OwnFile { path: BEGIN_NAME.into(), bytes: BEGIN.into(), executable: true });
            let is_made =
                |path: &str| own.iter().any(|file| file.path.starts_with(Path::new("home").join(path)));
            let keep = if mentions(&argv, COMPILED) && !is_made(COMPILED) { COMPILED } else { "" };
            outputs.extend((!keep.is_empty()).then(|| below_home(keep)));
            outputs.push(below_home(REPORTS));
            outputs.extend(policy.job.events.then(|| format!("{OWN}/{EVENTS}")));
            argv = begun(std::mem::take(&mut env), argv, policy.job.events, keep);
        }
        let (properties, timeout) = match self.sending.limits_of_policy {
            true => (limits(&policy.job.limits), Some(policy.job.limits.wall)),
            false => (self.sending.properties.clone(), self.sending.timeout),
        };
        Ok(RemoteRun {
            argv,
            env,
            input: self.input(&policy.job)?,
            own,
            outputs,
            timeout,
            properties,
            cached: self.sending.cached,
        })
    }
}

/// Limits as platform properties; hotcell's workers read them.
fn limits(limits: &Limits) -> Vec<(String, String)> {
    let rows = [
        ("memory", Some(limits.memory.0.to_string())),
        ("max-disk", Some(limits.disk.0.to_string())),
        ("max-output", Some(limits.output.0.to_string())),
        ("max-files", Some(limits.files.to_string())),
        ("max-processes", Some(limits.processes.to_string())),
        ("cpu-time", limits.cpu_time.map(|time| format!("{}ms", time.as_millis()))),
    ];
    let named = |(name, value): (&str, Option<String>)| Some((format!("{}{name}", action::LIMIT), value?));
    rows.into_iter().filter_map(named).collect()
}

/// Folder of the reports of tests, below the home folder.
const REPORTS: &str = ".hotcell-reports";

/// Reason why a farm cannot fulfil a policy.
fn unfit(policy: &Policy) -> Option<String> {
    let job = &policy.job;
    let writable = job.binds.iter().find(|bind| bind.writable);
    let below = job.binds.iter().find(|bind| bind.inside.starts_with(PROJECT) && bind.host.is_dir());
    let rows = [
        (
            policy.shape.network == Network::Proxy,
            "it has a network or secrets, and a run that may be run twice has neither".to_owned(),
        ),
        (
            !matches!(job.stdin, Stdin::Null),
            "it has a standard input, which the Remote Execution API has not".to_owned(),
        ),
        (
            policy.shape.image.is_some(),
            "it has an image, which the operator of the worker chooses".to_owned(),
        ),
        (policy.shape.confinement == Confinement::LandlockOnly, "its profile is for this machine".to_owned()),
        (
            writable.is_some(),
            writable.map_or_else(String::new, |bind| {
                format!("{} is writable for it, which a worker does not have", bind.host.display())
            }),
        ),
        (
            below.is_some(),
            below.map_or_else(String::new, |bind| {
                format!("its workspace has a mount at {}, which is not sent", bind.inside.display())
            }),
        ),
    ];
    rows.into_iter().find(|(is, _)| *is).map(|(_, why)| format!("the run cannot be sent to a farm: {why}"))
}

/// Environment and program of the job.
type Words = (Vec<(String, String)>, Vec<String>);

fn words(job: &Job) -> Result<Words, FleetError> {
    let utf8 = |word: &OsStr| {
        word.to_str().map(str::to_owned).ok_or_else(|| {
            let shown = word.to_string_lossy();
            FleetError::request(format!("{shown} is not UTF-8, which the Remote Execution API needs"))
        })
    };
    if job.argv.is_empty() {
        return Err(FleetError::request("there is no program"));
    }
    let argv = job.argv.iter().map(|word| utf8(word)).collect::<Result<_, _>>()?;
    let env = job.env.iter().map(|(name, value)| Ok((utf8(name)?, utf8(value)?)));
    Ok((env.collect::<Result<_, FleetError>>()?, argv))
}

/// Whether a word names this entry of the home folder.
fn mentions(argv: &[String], entry: &str) -> bool {
    argv.iter().any(|word| word.contains(&format!("{HOME}/{entry}")))
}

/// The words of the script.
fn begun(env: Vec<(String, String)>, argv: Vec<String>, events: bool, keep: &str) -> Vec<String> {
    let mut words = vec!["/bin/sh".to_owned(), format!("{OWN}/{BEGIN_NAME}")];
    words.extend([if events { "1" } else { "0" }.to_owned(), keep.to_owned()]);
    // Folders of this machine; a worker has its own.
    let is_here = |(name, _): &(String, String)| name == "PATH" || name == "HOME";
    words.extend(env.into_iter().filter(|set| !is_here(set)).map(|(name, value)| format!("{name}={value}")));
    let mut argv = argv.into_iter();
    words.extend(argv.next().map(|program| named(&program)));
    words.extend(argv);
    words
}

/// A program by the name that a worker looks it up by: its place is this machine's, unless it belongs to the run.
fn named(program: &str) -> String {
    let path = Path::new(program);
    match path.file_name().and_then(OsStr::to_str) {
        Some(name) if path.is_absolute() && !path.starts_with(HOME) => name.to_owned(),
        _ => program.to_owned(),
    }
}

/// Files that are mounted below the home folder. Packages and caches of this machine are in folders, and are left out.
fn own_files(binds: &[Bind]) -> Result<Vec<OwnFile>, FleetError> {
    let mut files: Vec<OwnFile> = Vec::new();
    let mut room = MAX_OWN;
    for bind in binds {
        let Ok(inside) = bind.inside.strip_prefix(HOME) else { continue };
        if bind.copy_on_write || bind.inside.starts_with(PROJECT) || !is_plain(inside) {
            continue;
        }
        let to = Path::new("home").join(inside);
        let failed = |e: std::io::Error| FleetError::request(format!("{}: {e}", bind.host.display()));
        let metadata = std::fs::metadata(&bind.host).map_err(failed)?;
        if metadata.is_file() {
            take(&bind.host, to, &mut files, &mut room)?;
        } else if inside.starts_with(COMPILED) {
            take_folder(&bind.host, &to, &mut files, &mut room)?;
        }
    }
    Ok(files)
}

/// Output of a compiler, below the home folder.
const COMPILED: &str = hotcell_verbs::language::COMPILED;

fn is_plain(path: &Path) -> bool {
    path.components().all(|part| matches!(part, Component::Normal(_)))
}

fn take(host: &Path, to: PathBuf, files: &mut Vec<OwnFile>, room: &mut u64) -> Result<(), FleetError> {
    use std::os::unix::fs::PermissionsExt;

    let failed = |e: std::io::Error| FleetError::request(format!("{}: {e}", host.display()));
    let file = std::fs::File::open(host).map_err(failed)?;
    let metadata = file.metadata().map_err(failed)?;
    let mut bytes = Vec::new();
    std::io::Read::read_to_end(&mut std::io::Read::take(file, *room + 1), &mut bytes).map_err(failed)?;
    *room =
        room.checked_sub(bytes.len() as u64).filter(|_| files.len() < MAX_OWN_FILES).ok_or_else(|| {
            FleetError::request(format!(
                "files beside the workspace have more than {MAX_OWN} bytes, and are not sent to a farm"
            ))
        })?;
    files.push(OwnFile { path: to, bytes, executable: metadata.permissions().mode() & 0o111 != 0 });
    Ok(())
}

fn take_folder(host: &Path, to: &Path, files: &mut Vec<OwnFile>, room: &mut u64) -> Result<(), FleetError> {
    let failed = |e: std::io::Error| FleetError::request(format!("{}: {e}", host.display()));
    for entry in std::fs::read_dir(host).map_err(failed)? {
        let entry = entry.map_err(failed)?;
        let (from, at) = (entry.path(), to.join(entry.file_name()));
        if entry.file_type().map_err(failed)?.is_dir() {
            take_folder(&from, &at, files, room)?;
        } else {
            take(&from, at, files, room)?;
        }
    }
    Ok(())
}

impl Spawn for Elsewhere {
    fn spawn<'a>(&'a self, policy: &'a Policy) -> BoxFuture<'a, Result<Running, Refusal>> {
        Box::pin(async move {
            let refused = |error: FleetError| match error.kind {
                Kind::Request => Refusal::new(error.message),
                _ => Refusal::internal(error.message),
            };
            // Reading a large workspace is quick enough for one thread that has nothing else to do.
            let run = self.run(policy).map_err(refused)?;
            let (events, receiver) = mpsc::channel(64);
            let follows = policy.job.events;
            let away = Away {
                farm: self.farm.clone(),
                run,
                most: policy.job.limits.disk.0,
                wanted: self.sending.wants.clone(),
                say: self.say.clone(),
                chunks: None,
                events: follows.then_some(events),
            };
            Ok(Running::followed_by(Box::new(away), follows.then_some(receiver), None))
        })
    }
}

/// A run on a farm.
struct Away {
    farm: Farm,
    run: RemoteRun,
    /// Maximum size of what it leaves, in bytes.
    most: u64,
    wanted: Option<Wants>,
    say: Option<Say>,
    chunks: Option<mpsc::Sender<Chunk>>,
    events: Option<mpsc::Sender<Vec<u8>>>,
}

impl std::fmt::Debug for Away {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        f.debug_struct("Away").field("run", &self.run.argv).finish_non_exhaustive()
    }
}

impl Follow for Away {
    fn send_output(&mut self, chunks: mpsc::Sender<Chunk>) {
        self.chunks = Some(chunks);
    }

    fn follow(self: Box<Self>, stop: Arc<Stop>, wants: bool) -> BoxFuture<'static, Finished> {
        Box::pin(async move {
            self.end(&stop, wants).await.unwrap_or_else(|error| {
                let cause = if error.kind == Kind::Request { Cause::Refused } else { Cause::Internal };
                let outcome = RunReport::without_a_run(cause, error.message).outcome;
                Finished { outcome, home: None, changed: None }
            })
        })
    }
}

impl Away {
    async fn end(self, stop: &Stop, wants: bool) -> Result<Finished, FleetError> {
        let Self { farm, run, most, wanted, say, chunks, events } = self;
        let (live, mut arriving) = mpsc::unbounded_channel();
        let mut progress = |state: Progress| match state {
            // At most as much as a stream may have.
            Progress::Output(chunk) => drop(live.send(chunk)),
            state => {
                if let Some(say) = &say {
                    say(&state);
                }
            }
        };
        let mut running = std::pin::pin!(client::run(&farm, &run, &mut progress, stop.wait()));
        let mut ran = loop {
            tokio::select! {
                ran = &mut running => break ran?,
                Some(chunk) = arriving.recv() => {
                    if let Some(to) = &chunks {
                        let _ = to.send(chunk).await;
                    }
                }
            }
        };
        let mut rest = Vec::new();
        while let Ok(chunk) = arriving.try_recv() {
            rest.push(chunk);
        }
        rest.push(Chunk::Stdout(ran.stdout.split_off(ran.shown.0)));
        rest.push(Chunk::Stderr(ran.stderr.split_off(ran.shown.1)));
        for chunk in rest {
            let (Chunk::Stdout(bytes) | Chunk::Stderr(bytes)) = &chunk;
            if let (false, Some(to)) = (bytes.is_empty(), &chunks) {
                let _ = to.send(chunk).await;
            }
        }
        left(ran, wants, (most, wanted), events).await
    }
}

/// Collects the remains of a run: its events, the files of its home folder, and those of its workspace.
async fn left(
    mut ran: Ran,
    wants: bool,
    (most, wanted): (u64, Option<Wants>),
    events: Option<mpsc::Sender<Vec<u8>>>,
) -> Result<Finished, FleetError> {
    let host = |e: std::io::Error| FleetError::host(format!("what a run on a farm left cannot be kept: {e}"));
    let place = temporary::folder().map_err(host)?;
    let (home, upper) = (place.path().join("home"), place.path().join("upper"));
    for folder in [&home, &upper] {
        std::fs::create_dir(folder).map_err(host)?;
    }
    let below = |base: PathBuf| {
        move |path: &Path| {
            let below = path.strip_prefix(&base).ok().filter(|below| !below.as_os_str().is_empty());
            below.map(Path::to_owned)
        }
    };
    let opened = Arc::new(Folder::open(&home).map_err(host)?);
    ran.download(below(Path::new(OWN).join("home")), most, &opened).await?;
    if let Some(events) = events {
        let aside = place.path().join("events");
        std::fs::create_dir(&aside).map_err(host)?;
        let folder = Arc::new(Folder::open(&aside).map_err(host)?);
        let is_events = |path: &Path| (path == Path::new(OWN).join(EVENTS)).then(|| PathBuf::from(EVENTS));
        ran.download(is_events, most, &folder).await?;
        let text = std::fs::read(aside.join(EVENTS)).unwrap_or_default();
        for piece in text.chunks(64 << 10) {
            let _ = events.send(piece.to_vec()).await;
        }
    }
    let opened = Arc::new(Folder::open(&upper).map_err(host)?);
    let is_wanted =
        |path: &Path| !path.starts_with(OWN) && wanted.as_ref().is_none_or(|wanted| wanted.0(path));
    ran.download(|path| is_wanted(path).then(|| path.to_owned()), most, &opened).await?;
    let RunReport { mut outcome, remote, .. } = ran.report;
    if let Some(remote) = remote {
        leave(&mut outcome, remote);
    }
    if !wants {
        return Ok(Finished { outcome, home: None, changed: None });
    }
    let open = |path: &Path| std::fs::File::open(path).map(OwnedFd::from).map_err(host);
    let (home, upper) = (open(&home)?, open(&upper)?);
    let held: Held = Arc::new(place);
    Ok(Finished {
        outcome,
        home: Some(Home::handed(home, Arc::clone(&held))),
        changed: Some(Changed::handed(upper, false, None, held)),
    })
}

#[cfg(test)]
mod tests {
    use std::process::Command;

    use hotcell_sandbox::policy::ImageRoot;

    use super::*;

    #[test]
    fn what_a_farm_cannot_fulfil_is_refused() {
        type Change = fn(&mut Policy);
        let dir = tempfile::tempdir().unwrap();
        for (change, why) in [
            ((|_| {}) as Change, None),
            (|policy| policy.shape.network = Network::Proxy, Some("network")),
            (|policy| policy.job.stdin = Stdin::Bytes(b"x".to_vec()), Some("standard input")),
            (|policy| policy.shape.image = Some(ImageRoot::default()), Some("image")),
            (|policy| policy.shape.confinement = Confinement::LandlockOnly, Some("profile")),
        ] {
            let mut policy = Policy::new("true");
            change(&mut policy);
            let is = unfit(&policy);
            assert_eq!(is.is_some(), why.is_some(), "{is:?}");
            assert!(is.unwrap_or_default().contains(why.unwrap_or_default()));
        }
        let writable = Policy::new("true").read_write(dir.path(), "/data");
        assert!(unfit(&writable).unwrap().contains("writable"));
        let below = Policy::new("true").read_only(dir.path(), "/home/sandbox/project/sub");
        assert!(unfit(&below).unwrap().contains("mount"));
    }

    #[test]
    fn programs_are_named_as_a_worker_finds_them() {
        for (program, want) in [
            ("/usr/bin/python3", "python3"),
            ("/root/.cargo/bin/cargo", "cargo"),
            ("python3", "python3"),
            ("./run.sh", "./run.sh"),
            ("/home/sandbox/.compiled", "/home/sandbox/.compiled"),
            ("/home/sandbox/project/bin/x", "/home/sandbox/project/bin/x"),
        ] {
            assert_eq!(named(program), want);
        }
    }

    /// The script, in a folder where no hotcell worker put it.
    #[test]
    fn script_puts_paths_of_the_sandbox_where_it_is() {
        let dir = tempfile::tempdir().unwrap();
        let top = dir.path().canonicalize().unwrap();
        std::fs::create_dir_all(top.join(OWN).join("home/.hotcell")).unwrap();
        std::fs::write(top.join(OWN).join("begin"), BEGIN).unwrap();
        std::fs::write(top.join(OWN).join("home/.hotcell/x"), "reporter").unwrap();
        let said = Command::new("/bin/sh")
            .current_dir(&top)
            .env_clear()
            .args([".hotcell-farm/begin", "1", "", "A=/home/sandbox/project/a b:/home/sandbox/x", "B=it's $HOME", "sh", "-c"])
            .arg("cat /home/sandbox/.hotcell/x; echo; echo \"$A|$B|$HOME|$1|$2\"; echo event >&3; : >/home/sandbox/.hotcell-reports/r")
            .args(["sh", "--at=/home/sandbox/project", "/home/sandboxes/y"])
            .output()
            .unwrap();
        let home = top.join(OWN).join("home");
        let (top, home) = (top.display(), home.display());
        let want = format!("reporter\n{top}/a b:{home}/x|it's $HOME|{home}|--at={top}|/home/sandboxes/y\n");
        assert_eq!(
            (String::from_utf8_lossy(&said.stdout), said.status.code()),
            (want.into(), Some(0)),
            "{said:?}"
        );
        assert_eq!(std::fs::read_to_string(dir.path().join(OWN).join(EVENTS)).unwrap(), "event\n");
        assert!(dir.path().join(OWN).join("home/.hotcell-reports/r").exists());
    }
}
