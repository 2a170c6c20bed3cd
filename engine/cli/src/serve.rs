//! `hotcell serve`: a service that keeps sandboxes ready for `hotcell run` and `hotcell test` of the same user.

use std::path::PathBuf;
use std::sync::Arc;

use hotcell_daemon::{Bounds, Server, Status, Unreached, place, status, stop};
use hotcell_sandbox::Engine;
use hotcell_sandbox::pool::{Pool, PoolOptions};
use hotcell_state::report::{Code, ErrorReport};
use schemars::JsonSchema;
use serde::Serialize;

use crate::args::{Common, ServeArgs, ServeCommand};
use crate::context::{configuration, runtime};
use crate::exit::printed;
use crate::session::service::Service;
use crate::signals::interrupted;
use crate::terminal::notes;
use crate::{backend, exit, usage};

/// Value of the `schema` field: name and version of this format.
pub const SCHEMA: &str = "hotcell.serve/1";

/// Output of `hotcell serve status`.
#[derive(Debug, Serialize, JsonSchema)]
pub struct Served {
    /// Always `hotcell.serve/1`.
    pub schema: String,
    /// Path of the socket.
    pub socket: String,
    /// Status of the service; `null` if none is running.
    pub service: Option<Status>,
}

/// Runs the command; returns its exit status.
pub fn serve(common: &Common, args: &ServeArgs) -> anyhow::Result<u8> {
    let Some(folder) = backend::place() else {
        let report = ErrorReport::new(
            Code::State,
            "there is no place for the socket: HOME is not set to an absolute path",
        )
        .hint("set XDG_RUNTIME_DIR or HOME to a folder of yours");
        return Ok(usage::fail(&report, common.json));
    };
    let runtime = runtime()?;
    let done = match &args.command {
        None => runtime.block_on(until_the_end(common, args, &folder)),
        Some(ServeCommand::Status) => runtime.block_on(tell(common, folder)),
        Some(ServeCommand::Stop) => {
            runtime.block_on(stop(&folder)).map(|()| 0).map_err(|error| report(&error))
        }
    };
    runtime.shutdown_background();
    Ok(done.unwrap_or_else(|report| usage::fail(&report, common.json)))
}

fn report(error: &Unreached) -> ErrorReport {
    ErrorReport::new(Code::State, error.to_string())
}

async fn until_the_end(
    common: &Common,
    args: &ServeArgs,
    folder: &std::path::Path,
) -> Result<u8, ErrorReport> {
    let stop = interrupted();
    // Set by the operator only: a project has no influence.
    let pool = configuration(common, None)?.user.pool;
    let server = Server::listen(folder).map_err(|error| ErrorReport::new(Code::State, error.to_string()))?;
    let options = PoolOptions {
        each: pool.per_shape,
        all: pool.total,
        memory: pool.memory,
        prime: pool.prewarm,
        ..PoolOptions::default()
    };
    let pool = Pool::new(Engine::new(), options);
    let sessions = Service::new(common)?;
    let server = server.offering(Arc::new(sessions.clone()));
    if !common.quiet {
        notes::say(format!("serving {}", server.socket().display()));
    }
    let runs = args.runs.map_or(Bounds::default().runs, |runs| runs as usize);
    let bounds = Bounds { runs, idle: args.idle_exit, ..Bounds::default() };
    let served = server.serve(pool, bounds, stop).await;
    sessions.close().await;
    served.map(|()| 0).map_err(|error| ErrorReport::new(Code::Internal, error.to_string()))
}

async fn tell(common: &Common, folder: PathBuf) -> Result<u8, ErrorReport> {
    let service = match status(&folder).await {
        Ok(status) => Some(status),
        Err(Unreached::Place(error)) if error.is_absence() => None,
        Err(error) => return Err(report(&error)),
    };
    let socket = folder.join(place::NAME).display().to_string();
    let code = u8::from(service.is_none());
    if common.json {
        let served = Served { schema: SCHEMA.to_owned(), socket, service };
        return Ok(printed(exit::print_json(&served), code));
    }
    let text = match service {
        None => format!("no service runs at {socket}\n"),
        Some(s) => format!(
            "{socket}\nhotcell {}, process {}, up {} s\n{} running, {} ready\n{} hot ({} primed), {} cold, {} declined\n",
            s.version, s.pid, s.uptime_s, s.running, s.ready, s.hot, s.primed, s.cold, s.declined
        ),
    };
    Ok(printed(exit::print_text(&text), code))
}
