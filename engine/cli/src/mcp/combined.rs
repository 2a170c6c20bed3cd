//! `hotcell mcp --servers`: servers that were wrapped or added, served beside the own tools.

use std::sync::Arc;

use hotcell_client::Within;
use hotcell_config::Configuration;
use hotcell_mcp::Combined;
use hotcell_mcp::combined::{CombinedOptions, Spec};
use hotcell_sandbox::layer::likely;
use hotcell_server::Live;
use hotcell_state::report::{Code, ErrorReport};

use super::{call, pins, servers, wrap};
use crate::args::Common;
use crate::context::state;

/// Maximum number of servers' processes that this process supervises itself; further ones have a process of hotcell's. Each takes some thirty descriptors of
/// the usual 1,024.
const MAX_WITHIN: usize = 24;
/// Word for every server.
const ALL: &str = "all";

/// The servers that the option or the configuration names.
///
/// # Errors
/// [`ErrorReport`] with the nearest name for one that is not there, and when a token cannot be read.
pub fn specs(
    common: &Common,
    configuration: &Configuration,
    asked: &[String],
) -> Result<Vec<Spec>, ErrorReport> {
    let settings = &configuration.user.mcp;
    let (names, field) = match asked.is_empty() {
        true => (settings.servers.as_slice(), "mcp.servers"),
        false => (asked, "--servers"),
    };
    if names.is_empty() && settings.server_callers.is_empty() {
        return Ok(Vec::new());
    }
    let choice = state(common, configuration);
    let known = servers::names(&choice)?;
    let unknown = |name: &str, field: &str| {
        let hint = match likely(name, known.iter().map(String::as_str)) {
            Some(near) => format!("did you mean {near}? hotcell mcp servers list shows them"),
            None if known.is_empty() => "hotcell mcp servers add NAME adds one".to_owned(),
            None => "hotcell mcp servers list names them; hotcell mcp servers add NAME adds one".to_owned(),
        };
        ErrorReport::new(Code::UnknownName, format!("there is no server {name:?}")).field(field).hint(hint)
    };
    // A misspelt name would leave the server open to every caller.
    if let Some(name) = settings.server_callers.keys().find(|name| !known.contains(name)) {
        return Err(unknown(name, "mcp.server_callers"));
    }
    let mut wanted: Vec<String> = Vec::new();
    for name in names.iter().map(|name| name.trim()) {
        let is_all = name == ALL;
        if !is_all && !known.iter().any(|known| known == name) {
            return Err(unknown(name, field));
        }
        for one in known.iter().filter(|known| is_all || *known == name) {
            // Of all, those that can be started.
            let is_there = servers::startable(&choice, one).is_ok() || !is_all;
            if is_there && !wanted.contains(one) {
                wanted.push(one.clone());
            }
        }
    }
    if wanted.is_empty() && !names.is_empty() {
        return Err(ErrorReport::new(Code::UnknownName, "no server was wrapped or added yet")
            .field(field)
            .hint("hotcell mcp servers add NAME -- npx -y PACKAGE adds one"));
    }
    let mut left = MAX_WITHIN;
    let spec = |name: String| {
        let folder = servers::startable(&choice, &name)?;
        let (server, instances) = call::server_of(common, &name, &folder)?;
        let allowed = servers::allowed(&folder).map_err(|e| {
            ErrorReport::new(Code::State, format!("the grants of {name}: {e}")).field("--servers")
        })?;
        let within = usize::from(instances).min(left);
        let server = match server {
            // One process supervises many servers, each in a thread: it has hotcell's program in memory once.
            hotcell_client::Server::Sandboxed(_) if within == usize::from(instances) => {
                left -= within;
                let (common, of) = (common.clone(), name.clone());
                hotcell_client::Server::Within(Within::new(&name, move || wrap::within(&common, &of)))
            }
            server => server,
        };
        let is_address = matches!(server, hotcell_client::Server::Http(_));
        let callers = settings.server_callers.get(&name).cloned();
        let pinned = Arc::new(pins::OfServer { folder, name: name.clone(), is_address });
        Ok(Spec { name, server, instances: usize::from(instances), callers, allowed, pinned })
    };
    wanted.into_iter().map(spec).collect()
}

/// Starts the servers; `None` without any.
///
/// # Errors
/// [`ErrorReport`] when two names give one prefix.
pub fn start(specs: Vec<Spec>, live: &Live) -> Result<Option<Arc<Combined>>, ErrorReport> {
    if specs.is_empty() {
        return Ok(None);
    }
    let (configuration, usual) = (live.configuration(), CombinedOptions::default());
    let settings = &configuration.user.mcp;
    let text_bytes = settings.servers_text.and_then(|bytes| usize::try_from(bytes.0).ok());
    let options = CombinedOptions {
        text_bytes: text_bytes.unwrap_or(usual.text_bytes),
        listed_tools: settings.servers_listed.unwrap_or(usual.listed_tools),
    };
    let started = Combined::start(specs, options);
    started.map(Some).map_err(|why| ErrorReport::new(Code::InvalidValue, why).field("--servers"))
}
