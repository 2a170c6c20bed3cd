//! `hotcell web`: the page on which a person decides.

use std::io::{self, BufRead, IsTerminal, Write};
use std::os::unix::fs::OpenOptionsExt;
use std::path::PathBuf;
use std::process::{Command, Stdio};
use std::sync::Arc;

use hotcell_config::Configuration;
use hotcell_config::WebListen;
use hotcell_guard::quarantine::Channel;
use hotcell_http::ProxySocket;
use hotcell_state::report::{Code, ErrorReport};
use hotcell_state::state::{StateChoice, StateFolder};
use hotcell_web::{
    Listening, Role, Site, Sources, SuggestionDecision, Team, WebError, WrappedServer, serve_team,
};
use schemars::JsonSchema;
use serde::{Deserialize, Serialize};

use crate::args::{Common, WebArgs};
use crate::context::{configuration, runtime_with, state};
use crate::mcp::{pins, servers};
use crate::signals::interrupted;
use crate::terminal::notes;
use crate::{attack, doctor, exit, suggested, usage};

/// Value of the `schema` field.
pub const SCHEMA: &str = "hotcell.web/1";
/// Maximum number of threads that read for pages.
const MAX_READERS: usize = 8;
/// File in the state folder that leads a browser to the page. The link is in no command line, which other users can see.
const OPENING: &str = "web-open.html";

/// Links to the page, printed when it is served.
#[derive(Debug, Serialize, Deserialize, JsonSchema)]
pub struct WebLinks {
    /// Always `hotcell.web/1`.
    pub schema: String,
    /// Address of the page. It needs a session.
    pub address: String,
    /// Link that begins a session for deciding, once; null with `--read-only` and `--team`.
    pub decide: Option<String>,
    /// Link that begins a session for reading, once; null with `--team`.
    pub read: Option<String>,
}

/// Runs the command; returns its exit status.
pub fn web(common: &Common, args: &WebArgs) -> anyhow::Result<u8> {
    let runtime = runtime_with(MAX_READERS)?;
    let done = runtime.block_on(until_the_end(common, args));
    runtime.shutdown_background();
    Ok(match done {
        Ok(()) => 0,
        Err(report) => usage::fail(&report, common.json),
    })
}

async fn until_the_end(common: &Common, args: &WebArgs) -> Result<(), ErrorReport> {
    let stop = interrupted();
    let choice = state_of(&page_configuration(common)?)?;
    let bad = |why: String| ErrorReport::new(Code::State, why).field("--state");
    StateFolder::open(choice.path().map_err(|e| bad(e.to_string()))?).map_err(|e| bad(e.to_string()))?;
    if args.team {
        return of_team(common, stop).await;
    }
    let listening = Listening::bind(args.port.unwrap_or(0)).map_err(|error| of_web(&error))?;
    let site = Site::new(sources(common), listening.port())?;
    let links = links(&site, args)?;
    print(common, &links).map_err(|e| ErrorReport::new(Code::Internal, format!("standard output: {e}")))?;
    let opened = if args.no_open || common.json { None } else { open(&choice, &site, args)? };
    if !common.quiet {
        let more = if io::stdin().is_terminal() { "; Enter prints new links" } else { "" };
        notes::say(format!("serving the page at 127.0.0.1:{} until Ctrl-C{more}", listening.port()));
    }
    if io::stdin().is_terminal() && !common.json {
        more_links(common, &site, args.read_only);
    }
    hotcell_sandbox::own_program::give_back_memory();
    let served = listening.serve(site, stop).await;
    if let Some(file) = opened {
        let _ = std::fs::remove_file(file);
    }
    served.map_err(|error| of_web(&error))
}

/// Serves the page to a team, on the socket of its proxy alone.
async fn of_team(common: &Common, stop: impl Future<Output = ()>) -> Result<(), ErrorReport> {
    let settings = page_configuration(common)?.user.web;
    let (Some(team), Some(listen)) = (Team::of(&settings), &settings.listen) else {
        return Err(ErrorReport::new(Code::Configuration, "--team needs the table web of the configuration")
            .field("web")
            .hint("set web.listen, web.address, web.identity_header and web.deciders; see hotcell init"));
    };
    let bad = |key: &str, why: String| ErrorReport::new(Code::Configuration, why).field(format!("web.{key}"));
    let (socket, place) = match listen {
        WebListen::Unix(path) => {
            let mut uids = vec![nix::unistd::geteuid().as_raw()];
            if !settings.proxy.is_empty() {
                uids.clear();
            }
            for name in &settings.proxy {
                let user = nix::unistd::User::from_name(name).ok().flatten();
                let user =
                    user.ok_or_else(|| bad("proxy", format!("there is no user {name:?} on this host")))?;
                uids.push(user.uid.as_raw());
            }
            (ProxySocket::Unix { path: path.clone(), uids }, path.display().to_string())
        }
        WebListen::Tcp(address) => {
            let peers = settings.proxy.iter().filter_map(|text| text.parse().ok()).collect();
            (ProxySocket::Tcp { address: *address, peers }, address.to_string())
        }
    };
    let listening =
        socket.listen().await.map_err(|e| bad("listen", format!("{place} cannot be listened on: {e}")))?;
    let site = Site::of_team(sources(common), team)?;
    let links = WebLinks { schema: SCHEMA.to_owned(), address: site.address(), decide: None, read: None };
    print(common, &links).map_err(|e| ErrorReport::new(Code::Internal, format!("standard output: {e}")))?;
    if !common.quiet {
        notes::say(format!("serving {} to the proxy at {place} until Ctrl-C", links.address));
    }
    serve_team(listening, site, stop).await;
    Ok(())
}

fn of_web(error: &WebError) -> ErrorReport {
    match error {
        WebError::Bind { error: cause, .. } if cause.kind() == io::ErrorKind::AddrInUse => {
            ErrorReport::new(Code::InvalidValue, error.to_string())
                .field("--port")
                .hint("choose another with --port, or say none: any free one is taken then")
        }
        WebError::Bind { .. } => ErrorReport::new(Code::InvalidValue, error.to_string()).field("--port"),
        WebError::Http(_) | WebError::Report(_) => ErrorReport::new(Code::Internal, error.to_string()),
    }
}

/// The configuration for decisions on the page.
fn page_configuration(common: &Common) -> Result<Configuration, ErrorReport> {
    let mut configuration = configuration(common, None)?;
    let state = state(common, &configuration);
    configuration.asker = Some((Channel::Web, state));
    Ok(configuration)
}

/// The configuration for a decision over this channel.
fn over(mut configuration: Configuration, channel: Channel) -> Configuration {
    if let Some((of_page, _)) = &mut configuration.asker {
        *of_page = channel;
    }
    configuration
}

fn state_of(configuration: &Configuration) -> Result<StateChoice, ErrorReport> {
    let asker = configuration.asker.as_ref().map(|(_, state)| state.clone());
    asker.ok_or_else(|| ErrorReport::new(Code::Internal, "the page has no state folder"))
}

fn sources(common: &Common) -> Sources {
    let (of_page, of_servers) = (common.clone(), common.clone());
    let (of_tools, of_attacks) = (common.clone(), common.clone());
    let (of_suggested, of_decided) = (common.clone(), common.clone());
    Sources {
        configuration: Arc::new(move || page_configuration(&of_page)),
        servers: Arc::new(move || {
            let choice = state_of(&page_configuration(&of_servers)?)?;
            Ok(servers::list(&choice)?.into_iter().map(wrapped).collect())
        }),
        accept: Arc::new(move |name: &str, shown: &str, channel: Channel| {
            let configuration = over(page_configuration(&of_tools)?, channel);
            let folder = servers::folder(&state_of(&configuration)?, name)?;
            pins::accept(&configuration, &folder, name, Some(shown), &[]).map(drop)
        }),
        suggested: Arc::new(move || suggested::list(&state_of(&page_configuration(&of_suggested)?)?)),
        decide_suggested: Arc::new(move |decision: SuggestionDecision| {
            let configuration = over(page_configuration(&of_decided)?, decision.channel.clone());
            suggested::decide(&configuration, &decision)
        }),
        attacks: Arc::new(move || attack::kept(&state_of(&page_configuration(&of_attacks)?)?)),
        doctor: Arc::new(|| Box::pin(async { doctor::examined_within().await.ok() })),
    }
}

fn wrapped(server: servers::Server) -> WrappedServer {
    let changed = server
        .before
        .iter()
        .filter_map(|(name, before)| Some((name.clone(), pins::lines(before, server.offered.get(name)?))));
    let changed = changed.collect();
    WrappedServer {
        name: server.name,
        command: server.command,
        grants: server.grants,
        packages: server.packages,
        accepted: server.accepted,
        changed,
        shown: server.shown,
        held: server.offered,
        problem: server.problem,
    }
}

fn links(site: &Site, args: &WebArgs) -> Result<WebLinks, ErrorReport> {
    let decide = if args.read_only { None } else { Some(site.link(Role::Decider)?) };
    Ok(WebLinks {
        schema: SCHEMA.to_owned(),
        address: site.address(),
        decide,
        read: Some(site.link(Role::Reader)?),
    })
}

fn print(common: &Common, links: &WebLinks) -> io::Result<()> {
    if common.json {
        return exit::print_json(links);
    }
    let decide = links.decide.as_ref().map(|link| format!("decide  {link}\n")).unwrap_or_default();
    let read = links.read.as_ref().map(|link| format!("read    {link}\n")).unwrap_or_default();
    exit::print_text(&format!("{decide}{read}"))
}

/// Prints new links for each line on the terminal.
fn more_links(common: &Common, site: &Arc<Site>, read_only: bool) {
    let (common, site) = (common.clone(), Arc::clone(site));
    std::thread::spawn(move || {
        let args = WebArgs { port: None, no_open: true, read_only, team: false };
        for line in io::stdin().lock().lines() {
            let Ok(links) = line.map_err(|_| ()).and_then(|_| links(&site, &args).map_err(|_| ())) else {
                return;
            };
            if print(&common, &links).is_err() {
                return;
            }
        }
    });
}

/// Opens the page in a browser, where there is a desktop; the file that leads there.
fn open(choice: &StateChoice, site: &Site, args: &WebArgs) -> Result<Option<PathBuf>, ErrorReport> {
    let desktop = ["DISPLAY", "WAYLAND_DISPLAY"]
        .iter()
        .any(|name| std::env::var_os(name).is_some_and(|v| !v.is_empty()));
    let Ok(folder) = choice.path() else { return Ok(None) };
    if !desktop {
        return Ok(None);
    }
    let role = if args.read_only { Role::Reader } else { Role::Decider };
    let file = folder.join(OPENING);
    let text = format!(
        "<!doctype html><meta charset=utf-8><meta http-equiv=refresh content=\"0; url={0}\"><title>hotcell</title><a href=\"{0}\">hotcell</a>\n",
        site.link(role)?
    );
    let _ = std::fs::remove_file(&file);
    let mut options = std::fs::OpenOptions::new();
    let written = options
        .write(true)
        .create_new(true)
        .mode(0o600)
        .open(&file)
        .and_then(|mut new| new.write_all(text.as_bytes()));
    let started = written.and_then(|()| {
        let mut command = Command::new("xdg-open");
        command.arg(&file).stdin(Stdio::null()).stdout(Stdio::null()).stderr(Stdio::null()).spawn()
    });
    match started {
        Ok(mut child) => {
            std::thread::spawn(move || child.wait());
            Ok(Some(file))
        }
        Err(error) => {
            let _ = std::fs::remove_file(&file);
            notes::say(format!("no browser is opened: xdg-open: {error}"));
            Ok(None)
        }
    }
}
