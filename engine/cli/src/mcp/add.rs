//! `hotcell mcp servers add`: an entry of a server that was not started yet.

use hotcell_client::Endpoint;
use hotcell_config::EnvSetting;
use hotcell_deps::package;
use hotcell_egress::sealed::{SealError, SealKey};
use hotcell_egress::secret::{SecretError, SecretSource};
use hotcell_state::report::{Code, ErrorReport};
use hotcell_state::state::StateChoice;

use super::entry::{self, Entry, SealedToken};
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
            let endpoint = Endpoint::new(url).map_err(|e| bad("--url", e.to_string()))?;
            let mut sealed = None;
            if let Some(token) = &args.token {
                // Parsed here: a token itself, given by mistake, must not be repeated in an error about the option's value.
                let source: SecretSource =
                    token.parse().map_err(|e: SecretError| bad("--token", e.to_string()))?;
                if let Some(key) = &args.seal {
                    let of_key = |e: SealError| bad("--seal", e.to_string());
                    let of_source = |e: SecretError| bad("--seal", e.to_string());
                    let key_source: SecretSource = key.parse().map_err(of_source)?;
                    if matches!(key_source, SecretSource::Fd(_)) {
                        let why = "the key is read at each start: use env:NAME, file:/PATH or keyring:NAME";
                        return Err(bad("--seal", why.to_owned()));
                    }
                    let token = source.read().map_err(|e| bad("--token", e.to_string()))?;
                    let key_now = SealKey::new(&key_source.read().map_err(of_source)?).map_err(of_key)?;
                    let text = key_now.seal(&token, &endpoint.purpose(&name)).map_err(of_key)?;
                    sealed = Some(SealedToken { key: key.clone(), text });
                } else if matches!(source, SecretSource::Fd(_)) {
                    let why = "a descriptor is of one process; use env:NAME or file:/PATH, or --seal SOURCE, which keeps the token itself".to_owned();
                    return Err(bad("--token", why));
                }
            }
            let token = args.token.clone().filter(|_| sealed.is_none());
            Entry { url: Some(url.clone()), token, sealed, ..Entry::default() }
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
    // Each sealing gives another text.
    let plain = |entry: &Entry| Entry { sealed: None, ..entry.clone() };
    if kept.is_some_and(|kept| plain(&kept) != plain(&new)) && !args.replace {
        return Err(bad("NAME", format!("there is another server of the name {name}"))
            .hint(format!("hotcell mcp servers show {name} shows it; --replace replaces it")));
    }
    servers::write(&folder.join(servers::ENTRY), &new).map_err(failed)?;
    servers::server(&folder, &name).map_err(failed)
}
