//! `hotcell mcp`: a service with the protocol in front of it.

mod add;
pub mod call;
pub mod check;
mod combined;
pub mod denials;
mod entry;
mod first_read;
pub mod folder;
mod form;
pub mod install;
mod login;
mod own_entry;
pub mod pins;
pub(crate) mod reload;
mod server_page;
pub mod servers;
mod wrap;
mod wrap_entry;

use std::sync::Arc;

use hotcell_config::Configuration;
use hotcell_http::Tokens;
use hotcell_mcp::metrics::MetricsOptions;
use hotcell_mcp::{HttpOptions, Toolsets, http, metrics, reference, stdio};
use hotcell_sandbox::Engine;
use hotcell_server::{Bounds, Live};
use hotcell_state::StateFolder;
use hotcell_state::report::{Code, ErrorReport};
use hotcell_state::state::StateChoice;

use crate::agents::roles;
use crate::args::{Common, HttpAddress, McpArgs, McpCommand, ServersCommand};
use crate::context::{configuration, runtime_with, state};
use crate::exit::printed;
use crate::mcp::reload::{Hup, Watched};
use crate::signals::server_interrupted;
use crate::systemd::{self, Word};
use crate::terminal::notes;
use crate::{exit, remote, usage};

/// Maximum number of threads for file operations in hotcell's own folders. A thread keeps its stack and its
/// allocator's memory, a quarter of a MiB in all, for as long as there are many callers; more threads would
/// only wait for the same disk.
const MAX_FILE_THREADS: usize = 48;

/// Starts the service. Where the configuration says so, runs of callers are sent to its farm.
fn open(configuration: Configuration, state: StateFolder) -> Result<Live, ErrorReport> {
    let place = match configuration.user.fleet.mcp {
        true => Some(remote::of_configuration(&configuration)?),
        false => None,
    };
    let live = Live::open(Engine::new(), configuration, state, Bounds::default())?;
    if let Some(place) = place {
        live.send_to(Arc::new(place))?;
    }
    Ok(live)
}

/// Serves until the server is no longer needed; returns its exit status.
pub fn mcp(common: &Common, args: McpArgs) -> anyhow::Result<u8> {
    if args.reference {
        return Ok(printed(exit::print_text(&reference::markdown()), 0));
    }
    if let Some(command) = &args.command {
        let done = match command {
            McpCommand::Install(args) => install::install(common, args),
            McpCommand::Uninstall(args) => install::uninstall(common, args),
            McpCommand::Check(args) => check::check(common, args),
            McpCommand::Servers { command: ServersCommand::Try(args) } => {
                return call::try_server(common, args);
            }
            McpCommand::Servers { command: ServersCommand::Login(args) } => login::login(common, args),
            McpCommand::Servers { command } => servers::servers(common, command),
            McpCommand::Wrap(args) => return wrap::wrap(common, args),
        };
        return Ok(done.unwrap_or_else(|report| usage::fail(&report, common.json)));
    }
    let runtime = runtime_with(MAX_FILE_THREADS)?;
    let served = match args.role {
        Some(role) => runtime.block_on(async { roles::serve(common, role, server_interrupted()).await }),
        None => runtime.block_on(serve(common, args)),
    };
    // A thread may still be blocked on standard input.
    runtime.shutdown_background();
    Ok(served.map_or_else(|report| usage::fail(&report, common.json), |()| 0))
}

async fn serve(common: &Common, args: McpArgs) -> Result<(), ErrorReport> {
    let (stop, hup) = (server_interrupted(), Hup::new());
    // No project's configuration: files saved by agents must not configure the server.
    let mut configuration = configuration(common, None)?;
    if !args.toolsets.is_empty() {
        configuration.environment.mcp.toolsets.clone_from(&args.toolsets);
    }
    let specs = combined::specs(common, &configuration, &args.servers)?;
    let names: Vec<&str> = specs.iter().map(|spec| spec.name.as_str()).collect();
    Toolsets::parse(configuration.toolsets(), &names).map_err(|why| {
        let (typed, set) = (!args.toolsets.is_empty(), !configuration.environment.mcp.toolsets.is_empty());
        let field = match (typed, set) {
            (true, _) => "--toolsets",
            (false, true) => "HOTCELL_MCP_TOOLSETS",
            (false, false) => "mcp.toolsets",
        };
        ErrorReport::new(Code::UnknownName, format!("{field}: {why}")).field(field)
    })?;
    let folder = || {
        let choice = state(common, &configuration);
        let bad = |e: hotcell_state::state::StateError| {
            ErrorReport::new(Code::State, e.to_string()).field("--state")
        };
        StateFolder::open(choice.path().map_err(bad)?).map_err(bad)
    };
    let state = folder()?;
    // A user who is told to type a command may have another configuration than this server, or none.
    let usual = StateChoice::usual(crate::context::folder("XDG_STATE_HOME"), crate::context::folder("HOME"));
    if usual.path().ok() != Some(state.path()) {
        hotcell_mcp::name_state(state.path());
    }
    let unheard = |option: &'static str| {
        move |e: http::HttpError| ErrorReport::new(Code::InvalidValue, e.to_string()).field(option)
    };
    let Some(at) = args.http else {
        let watched = watched(args.metrics.map(MetricsOptions::here)).await.map_err(unheard("--metrics"))?;
        let live = open(configuration, state)?;
        let combined = combined::start(specs, &live)?;
        watch(common, watched, &live);
        systemd::tell(Word::Ready);
        let stop = ended(stop, hup.reload(common, &live, None));
        hotcell_sandbox::own_program::give_back_memory();
        return stdio::serve(live.clone(), combined, stop)
            .await
            .map_err(|why| ErrorReport::new(Code::Internal, why));
    };
    let bad = |why: String| ErrorReport::new(Code::InvalidValue, why).field("--http");
    let (address, passed) = match at {
        HttpAddress::At(address) => (address, None),
        HttpAddress::Passed => {
            let passed = hotcell_sandbox::socket_activation::listener().map_err(bad)?;
            (passed.local_addr().map_err(|e| bad(e.to_string()))?, Some(passed))
        }
    };
    let tokens = if args.no_auth { None } else { Some(Tokens::open(&state)?) };
    let own = folder()?;
    let file = tokens.as_ref().map(|t| t.path().display().to_string());
    let watched_at = args.metrics.map(|address| MetricsOptions {
        address,
        tokens: tokens.clone(),
        hosts: args.allow_host.clone(),
        plain: args.plain_http,
    });
    let options = HttpOptions {
        address,
        passed,
        tokens: tokens.clone(),
        hosts: args.allow_host,
        plain: args.plain_http,
    };
    let listening = http::listen(options).await.map_err(unheard("--http"))?;
    let watched = watched(watched_at).await.map_err(unheard("--metrics"))?;
    let live = open(configuration, state)?;
    let combined = combined::start(specs, &live)?;
    live.share(tokens.as_ref().is_some_and(|t| t.callers() > 1));
    let who = file.map_or_else(|| "without a token".to_owned(), |file| format!("the token is in {file}"));
    if !common.quiet {
        notes::say(format!("MCP at http://{}{}; {who}", listening.address(), http::PATH));
    }
    watch(common, watched, &live);
    systemd::tell(Word::Ready);
    let read_again = tokens.map(|tokens| Watched { tokens, state: Arc::new(own) });
    let reloads = hup.reload(common, &live, read_again.as_ref());
    listening.serve(live.clone(), combined, ended(stop, reloads)).await;
    Ok(())
}

/// Waits for a request to end.
async fn ended(stop: impl Future<Output = ()>, reloads: impl Future<Output = ()>) {
    tokio::select! {
        () = stop => {}
        () = reloads => {}
    }
    systemd::tell(Word::Stopping);
}

/// Starts listening for metrics clients, before anything else.
async fn watched(options: Option<MetricsOptions>) -> Result<Option<metrics::Listening>, http::HttpError> {
    match options {
        Some(options) => metrics::listen(options).await.map(Some),
        None => Ok(None),
    }
}

/// Answers metrics clients until the program ends.
fn watch(common: &Common, watched: Option<metrics::Listening>, live: &Live) {
    let Some(watched) = watched else { return };
    if !common.quiet {
        notes::say(format!("metrics at http://{}{}", watched.address(), metrics::PATH));
    }
    tokio::spawn(watched.serve(live.clone()));
}
