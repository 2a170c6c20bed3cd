//! `hotcell worker`: runs the actions of a farm, each in a sandbox of its own.

use std::path::{Path, PathBuf};
use std::sync::Arc;

use hotcell_config::Configuration;
use hotcell_fleet::cache::{Cache, DEFAULT_SIZE};
use hotcell_fleet::cas::Cas;
use hotcell_fleet::executor::Executor;
use hotcell_fleet::lay::Source;
use hotcell_fleet::marks::Marks;
use hotcell_fleet::meter::Meter;
use hotcell_fleet::perform::Performer;
use hotcell_fleet::receipt::{Receipts, Signed};
use hotcell_fleet::runner::{self, LocalRunner};
use hotcell_fleet::worker::{Event, WorkerOptions, work};
use hotcell_fleet::{Address, FleetError, room, wire};
use hotcell_receipts::run::RunFacts;
use hotcell_receipts::{Issuer, Subject, run};
use hotcell_sandbox::pool::{Pool, PoolOptions};
use hotcell_sandbox::{Bytes, Engine};
use hotcell_state::report::{Code, ErrorReport};
use hotcell_state::state::StateFolder;
use hotcell_verbs::builds::InUse;
use hotcell_verbs::caches::BLOBS;
use schemars::JsonSchema;
use serde::Serialize;

use crate::args::{ActionArgs, Common, WorkerArgs};
use crate::context::{configuration, current_folder, runtime, state};
use crate::exit::printed;
use crate::signals::interrupted;
use crate::terminal::notes;
use crate::worker_metrics::{self, Sources};
use crate::{exit, usage};

/// Value of the `schema` field: name and version of this format.
pub const SCHEMA: &str = "hotcell.worker/1";

/// Output of `hotcell worker --json`, when it has ended.
#[derive(Debug, Default, Serialize, JsonSchema)]
pub struct Worked {
    /// Always `hotcell.worker/1`.
    pub schema: String,
    /// Address of the farm, or socket of the runner.
    pub farm: String,
    /// Name of the worker.
    pub name: String,
    /// Actions that were started.
    pub started: u64,
    /// Actions with a result, whatever their exit code.
    pub completed: u64,
    /// Actions without a result: refused, cancelled, or failed here.
    pub failed: u64,
    /// Leases that the farm took back.
    pub taken_back: u64,
}

/// Runs the command; returns its exit status.
pub fn worker(common: &Common, args: &WorkerArgs) -> anyhow::Result<u8> {
    let runtime = runtime()?;
    let done = runtime.block_on(until_the_end(common, args));
    runtime.shutdown_background();
    Ok(done.unwrap_or_else(|report| usage::fail(&report, common.json)))
}

async fn until_the_end(common: &Common, args: &WorkerArgs) -> Result<u8, ErrorReport> {
    let drain = interrupted();
    let configuration = configuration(common, None)?;
    let farm = args.bots.as_deref();
    let farm =
        farm.map(|farm| crate::farm::address(farm, "--bots", &args.reach, &configuration)).transpose()?;
    let name = args.name.clone().unwrap_or_else(|| {
        let host = nix::unistd::gethostname().map(|name| name.to_string_lossy().into_owned());
        format!("{}-{}", host.unwrap_or_else(|_| "hotcell".to_owned()), std::process::id())
    });
    let receipts = receipts(&args.actions, &configuration)?;
    let executor = Arc::new(executor(&args.actions, args.total_memory, configuration.clone())?);
    let usual = || {
        let processors = std::thread::available_parallelism().map_or(1, std::num::NonZero::get);
        room::usual_jobs(processors, Bytes(executor.memory().1), executor.limits())
    };
    let jobs = args.jobs.map_or_else(usual, usize::from);
    // `hotcell cache clear` leaves the blobs of a worker that runs.
    let (cache, _in_use) = match &farm {
        Some(_) => cache(common, args, &configuration)?.unzip(),
        None => (None, None),
    };
    let meter = Arc::new(Meter::default());
    let serves = farm.as_ref().map_or_else(|| args.runner.clone().unwrap_or_default(), ToString::to_string);
    let sources = Sources {
        name: name.clone(),
        serves: serves.clone(),
        slots: if farm.is_some() { jobs } else { 0 },
        meter: meter.clone(),
        executor: executor.clone(),
        cache: cache.clone(),
    };
    if let Some(address) = args.metrics {
        let listener = worker_metrics::listen(address).await?;
        if !common.quiet
            && let Ok(address) = listener.local_addr()
        {
            notes::say(format!("metrics at http://{address}/metrics"));
        }
        tokio::spawn(worker_metrics::serve(listener, sources));
    }
    let mut worked =
        Worked { schema: SCHEMA.to_owned(), farm: serves, name: name.clone(), ..Worked::default() };
    match farm {
        Some(address) => {
            let channel = wire::channel(&address).map_err(|error| wrong("--bots", error))?;
            let performer = Performer {
                source: Source { cas: Cas::new(&channel, &address), cache },
                marks: Marks::new(&channel, &address),
                executor,
                receipts,
                name: name.clone(),
            };
            let options = WorkerOptions { address: address.clone(), name: name.clone(), jobs, meter };
            let quiet = common.quiet;
            let mut say = |event: Event| {
                let line = noted(&mut worked, event, &address, &name, jobs);
                if !quiet {
                    notes::say(line);
                }
            };
            // Listens only once the worker drains: for the second signal.
            let hurry = async { interrupted().await };
            let served = work(&options, channel, Arc::new(performer), (drain, hurry), &mut say).await;
            served.map_err(|error| ErrorReport::new(Code::State, error.message))?;
        }
        None => {
            let socket = args.runner.as_deref().unwrap_or_default();
            let directory = args.build_directory.clone().unwrap_or_default();
            serve_runner(common, (socket, &directory), (executor, receipts, &meter), drain).await?;
            let reading = meter.read();
            let has_result = |word: &str| matches!(word, "succeeded" | "failed" | "limit");
            worked.started = reading.results.iter().map(|(_, count)| count).sum();
            worked.completed =
                reading.results.iter().filter(|(word, _)| has_result(word)).map(|(_, count)| count).sum();
            worked.failed = worked.started - worked.completed;
        }
    }
    let code = if common.json { printed(exit::print_json(&worked), 0) } else { 0 };
    Ok(code)
}

fn wrong(field: &'static str, error: FleetError) -> ErrorReport {
    ErrorReport::new(Code::InvalidValue, error.message).field(field)
}

/// Counts an event, and tells it.
fn noted(worked: &mut Worked, event: Event, address: &Address, name: &str, jobs: usize) -> String {
    match event {
        Event::Connected => format!("{address}: connected as {name}, {jobs} actions at once"),
        Event::Started(id) => {
            worked.started += 1;
            format!("{id}: started")
        }
        Event::Ended(id, has_result, message) => {
            *(if has_result { &mut worked.completed } else { &mut worked.failed }) += 1;
            if message.is_empty() { format!("{id}: ended") } else { format!("{id}: ended: {message}") }
        }
        Event::TakenBack(id) => {
            worked.taken_back += 1;
            format!("{id}: taken back by the farm")
        }
        Event::Unanswered(why) => format!("{why}; it is asked again until it answers"),
        Event::Answered => format!("{address}: the farm answers again"),
        Event::Draining(running) => {
            format!("ending: {running} actions still run; a second signal stops them")
        }
    }
}

/// Serves Buildbarn's runner until a signal.
async fn serve_runner(
    common: &Common,
    (socket, directory): (&str, &Path),
    (executor, receipts, meter): (Arc<Executor>, Option<Arc<dyn Receipts>>, &Arc<Meter>),
    drain: impl Future<Output = ()>,
) -> Result<(), ErrorReport> {
    let path = socket.strip_prefix("unix:").filter(|path| !path.is_empty()).ok_or_else(|| {
        ErrorReport::new(Code::InvalidValue, format!("{socket:?} is not unix:PATH")).field("--runner")
    })?;
    let directory = directory.canonicalize().ok().filter(|path| path.is_dir()).ok_or_else(|| {
        let why = format!("{} is not a folder", directory.display());
        ErrorReport::new(Code::InvalidValue, why).field("--build-directory")
    })?;
    let listener = runner::listen(Path::new(path)).map_err(|error| wrong("--runner", error))?;
    let local = LocalRunner {
        executor,
        directory,
        receipts,
        meter: meter.clone(),
        drains: false.into(),
        number: 0.into(),
    };
    let quiet = common.quiet;
    let say = |line: String| {
        if !quiet {
            notes::say(line);
        }
    };
    say(format!("{socket}: ready for bb_worker"));
    let drained = async {
        drain.await;
        say(format!("ending: {} actions still run", meter.read().running));
    };
    let served = runner::serve(Arc::new(local), listener, drained).await;
    let _ = std::fs::remove_file(path);
    served.map_err(|error| ErrorReport::new(Code::State, error.message))
}

/// The sandboxes of a worker, with the operator's policy.
///
/// # Errors
/// [`ErrorReport`] when an option or the configuration is invalid.
pub fn executor(
    actions: &ActionArgs,
    total: Option<Bytes>,
    configuration: Configuration,
) -> Result<Executor, ErrorReport> {
    if actions.limits.settings().capture.is_some() {
        let why = "--capture: a worker returns all of the output";
        return Err(ErrorReport::new(Code::Usage, why).field("--capture").hint("use --max-output"));
    }
    let pool = configuration.user.pool;
    let pool = PoolOptions {
        each: pool.per_shape,
        all: pool.total,
        memory: pool.memory,
        prime: pool.prewarm,
        ..PoolOptions::default()
    };
    let spawn = Arc::new(Pool::new(Engine::new(), pool));
    let memory =
        total.unwrap_or_else(|| room::usual_memory(hotcell_sandbox::host::memory(), cgroup_memory()));
    Executor::new(spawn, configuration, actions.settings(&current_folder()), memory)
        .map_err(|error| ErrorReport::new(Code::Configuration, error.message))
}

/// Memory that this process's cgroup and those above it allow, in version 2; `None` for no bound.
fn cgroup_memory() -> Option<Bytes> {
    let groups = std::fs::read_to_string("/proc/self/cgroup").ok()?;
    let path = groups.lines().find_map(|line| line.strip_prefix("0::/"))?;
    let folder = PathBuf::from("/sys/fs/cgroup").join(path);
    let bounds = folder.ancestors().take_while(|folder| folder.starts_with("/sys/fs/cgroup"));
    bounds
        .filter_map(|folder| std::fs::read_to_string(folder.join("memory.max")).ok()?.trim().parse().ok())
        .min()
        .map(Bytes)
}

/// The worker's cache, and the lock that says that it is in use, where one was to be had.
type OpenCache = (Arc<Cache>, Option<InUse>);

/// Opens the worker's cache; none where its size is 0, or there is no state folder.
fn cache(
    common: &Common,
    args: &WorkerArgs,
    configuration: &Configuration,
) -> Result<Option<OpenCache>, ErrorReport> {
    let size = args.cache_size.map_or(DEFAULT_SIZE, |size| size.0);
    if size == 0 {
        return Ok(None);
    }
    let failed = |why: String| {
        ErrorReport::new(Code::State, why)
            .field("--cache-size")
            .hint("name a state folder with --state, or take --cache-size 0")
    };
    let choice = state(common, configuration);
    let path = choice.path().map_err(|error| failed(error.to_string()))?;
    let state = StateFolder::open(path).map_err(|error| failed(error.to_string()))?;
    let folder = state.path().join(BLOBS);
    let opened = Cache::open(&folder, size);
    let cache = opened.map_err(|e| failed(format!("{}: {e}", folder.display())))?;
    Ok(Some((Arc::new(cache), InUse::lock(&folder))))
}

/// The signer of receipts, where each result has to have one.
///
/// # Errors
/// [`ErrorReport`] when there is no key or no state folder.
pub fn receipts(
    actions: &ActionArgs,
    configuration: &Configuration,
) -> Result<Option<Arc<dyn Receipts>>, ErrorReport> {
    if !actions.receipts && !configuration.user.receipts.always {
        return Ok(None);
    }
    let field = if actions.receipts { "--receipts" } else { "receipts.always" };
    let issuer = Issuer::of(configuration)
        .map_err(|error| ErrorReport::new(Code::InvalidValue, format!("{field}: {error}")).field(field))?;
    let (profile, image) = (actions.profile.as_ref(), actions.image.clone());
    let profile = profile.map(|profile| profile.to_string_lossy().into_owned());
    Ok(Some(Arc::new(OfWorker { issuer, profile, image })))
}

/// Receipts with the key of the worker's installation.
struct OfWorker {
    issuer: Issuer,
    profile: Option<String>,
    image: Option<String>,
}

impl Receipts for OfWorker {
    fn sign(&self, signed: &Signed) -> Result<String, String> {
        let facts = RunFacts {
            program: signed.argv.first().map_or("", String::as_str),
            command: &signed.argv,
            profile: self.profile.as_deref(),
            policy_sha256: Some(&signed.in_force.policy_sha256),
            limits: Some(&signed.in_force.limits),
            image: self.image.as_deref(),
            image_digest: signed.image_digest.clone(),
            guard: signed.report.scan.as_ref().and_then(|scan| scan["verdict"].as_str()),
            outcome_json: &signed.outcome,
        };
        let subjects = signed.subjects.iter();
        let subjects = subjects.map(|(name, digest)| Subject::with(name, "sha256", digest.clone())).collect();
        let statement = |about| run::statement(&signed.report, &facts, subjects, about);
        let version = env!("CARGO_PKG_VERSION");
        // Buildbarn's runner is told no digest of its action: one command has other inputs each time.
        let issued = match signed.subjects.is_empty() {
            true => self.issuer.issue_unnumbered("", version, statement),
            false => self.issuer.issue("", version, statement),
        };
        issued.map_err(|error| error.to_string())
    }
}
