//! `hotcell mcp servers add`: an entry of a server that was not started yet.

use hotcell_client::Endpoint;
use hotcell_config::EnvSetting;
use hotcell_deps::package;
use hotcell_egress::secret::{SecretError, SecretSource};
use hotcell_state::report::{Code, ErrorReport};
use hotcell_state::state::StateChoice;

use super::entry::{self, Entry};
use super::servers::{self, Server};
use crate::args::AddArgs;
use crate::context::current_folder;

/// Writes the entry.
///
/// # Errors
/// [`ErrorReport`] when the name is taken, or the command, the address or the token cannot be kept.
pub fn add(choice: &StateChoice, args: &AddArgs) -> Result<Server, ErrorReport> {
    let bad = |field: &str, why: String| ErrorReport::new(Code::InvalidValue, why).field(field);
    let name = args.entry.as_ref().or(args.wrap.name.as_ref()).cloned().unwrap_or_default();
    let folder = servers::folder(choice, &name)?;
    let new = match &args.url {
        Some(url) => {
            Endpoint::new(url).map_err(|e| bad("--url", e.to_string()))?;
            if let Some(token) = &args.token {
                // Parsed here: a token itself, given by mistake, must not be repeated in an error about the option's value.
                let source: SecretSource =
                    token.parse().map_err(|e: SecretError| bad("--token", e.to_string()))?;
                if matches!(source, SecretSource::Fd(_)) {
                    let why = "a descriptor is of one process; use env:NAME or file:/PATH".to_owned();
                    return Err(bad("--token", why));
                }
            }
            Entry { url: Some(url.clone()), token: args.token.clone(), ..Entry::default() }
        }
        None if args.wrap.server.is_empty() => {
            return Err(ErrorReport::new(Code::Usage, "neither a command nor an address is given")
                .field("SERVER")
                .hint(format!("hotcell mcp servers add {name} -- npx -y PACKAGE, or --url URL")));
        }
        None => {
            package::named(&args.wrap.server).map_err(|why| bad("SERVER", why))?;
            if args.wrap.idle.is_some() {
                let why = "it is kept for no server: hotcell mcp wrap --idle is of one start".to_owned();
                return Err(bad("--idle", why));
            }
            if args.wrap.env.iter().any(|variable| matches!(variable, EnvSetting::Set(..))) {
                let why =
                    "values of variables are not kept; --env NAME passes yours at each start".to_owned();
                return Err(bad("--env", why));
            }
            let options = entry::options(&args.wrap, &current_folder())
                .ok_or_else(|| bad("SERVER", "a path that is not UTF-8 cannot be kept".to_owned()))?;
            Entry {
                options: entry::joined([&*options]),
                server: args.wrap.server.clone(),
                ..Entry::default()
            }
        }
    };
    let new = Entry { instances: args.instances, ..new };
    let failed = |e: std::io::Error| {
        ErrorReport::new(Code::State, format!("the entry of {name}: {e}")).field("--state")
    };
    let kept = servers::entry_of(&folder).map_err(failed)?;
    if kept.is_some_and(|kept| kept != new) && !args.replace {
        return Err(bad("NAME", format!("there is another server of the name {name}"))
            .hint(format!("hotcell mcp servers show {name} shows it; --replace replaces it")));
    }
    servers::write(&folder.join(servers::ENTRY), &new).map_err(failed)?;
    servers::server(&folder, &name).map_err(failed)
}
