//! `hotcell worker`: runs the actions of a farm, each in a sandbox of its own.

use std::sync::Arc;

use hotcell_fleet::cas::Cas;
use hotcell_fleet::perform::Performer;
use hotcell_fleet::worker::{Event, WorkerOptions, work};
use hotcell_fleet::{Address, FleetError, wire};
use hotcell_sandbox::Engine;
use hotcell_sandbox::pool::{Pool, PoolOptions};
use hotcell_state::report::{Code, ErrorReport};
use schemars::JsonSchema;
use serde::Serialize;

use crate::args::{Common, WorkerArgs};
use crate::context::{configuration, current_folder, runtime};
use crate::exit::printed;
use crate::signals::interrupted;
use crate::terminal::notes;
use crate::{exit, usage};

/// Value of the `schema` field: name and version of this format.
pub const SCHEMA: &str = "hotcell.worker/1";

/// Output of `hotcell worker --json`, when it has ended.
#[derive(Debug, Default, Serialize, JsonSchema)]
pub struct Worked {
    /// Always `hotcell.worker/1`.
    pub schema: String,
    /// Address of the farm.
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
    let wrong = |error: FleetError| ErrorReport::new(Code::InvalidValue, error.message).field("--bots");
    if args.limits.settings().capture.is_some() {
        let why = "--capture: a worker returns all of the output";
        return Err(ErrorReport::new(Code::Usage, why).field("--capture").hint("use --max-output"));
    }
    let address = Address::parse(&args.bots, args.plain_grpc).map_err(wrong)?;
    let configuration = configuration(common, None)?;
    let jobs = args
        .jobs
        .map_or_else(|| std::thread::available_parallelism().map_or(1, std::num::NonZero::get), usize::from);
    let name = args.name.clone().unwrap_or_else(|| {
        let host = nix::unistd::gethostname().map(|name| name.to_string_lossy().into_owned());
        format!("{}-{}", host.unwrap_or_else(|_| "hotcell".to_owned()), std::process::id())
    });
    let pool = configuration.user.pool;
    let pool = PoolOptions {
        each: pool.per_shape,
        all: pool.total,
        memory: pool.memory,
        prime: pool.prewarm,
        ..PoolOptions::default()
    };
    let spawn = Arc::new(Pool::new(Engine::new(), pool));
    let channel = wire::channel(&address).map_err(wrong)?;
    let settings = args.settings(&current_folder());
    let performer = Performer::new(Cas::new(&channel, &address), spawn, configuration, settings, &name)
        .map_err(|error| ErrorReport::new(Code::Configuration, error.message))?;
    let options = WorkerOptions { address: address.clone(), name: name.clone(), jobs };
    let mut worked = Worked {
        schema: SCHEMA.to_owned(),
        farm: address.to_string(),
        name: name.clone(),
        ..Worked::default()
    };
    let quiet = common.quiet;
    let mut say = |event: Event| {
        let line = match event {
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
            Event::Unanswered(why) => why,
            Event::Draining(running) => {
                format!("ending: {running} actions still run; a second signal stops them")
            }
        };
        if !quiet {
            notes::say(line);
        }
    };
    // Listens only once the worker drains: for the second signal.
    let hurry = async { interrupted().await };
    let served = work(&options, channel, Arc::new(performer), (drain, hurry), &mut say).await;
    served.map_err(|error| ErrorReport::new(Code::State, error.message))?;
    let code = if common.json { printed(exit::print_json(&worked), 0) } else { 0 };
    Ok(code)
}
