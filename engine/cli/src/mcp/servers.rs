//! `hotcell mcp servers`: foreign servers that were wrapped, and the pins of what they offer.

use std::collections::BTreeMap;
use std::fs;
use std::io;
use std::path::{Path, PathBuf};
use std::time::SystemTime;

use hotcell_config::{Configuration, EnvSetting};
use hotcell_deps::package;
use hotcell_mcp::combined::Allowed;
use hotcell_mcp::pin::{ABSENT, Accepted, Offered};
use hotcell_review::quarantine::{QuarantineConfig, QuarantineError};
use hotcell_sandbox::layer::likely;
use hotcell_sandbox::profile::BindText;
use hotcell_state::report::{Code, ErrorReport, printable};
use hotcell_state::state::{StateChoice, StateFolder};
use hotcell_state::time::micros_since_1970;
use schemars::JsonSchema;
use serde::{Deserialize, Serialize};

use crate::args::{Common, ServersCommand, WrapArgs};
use crate::context::{configuration, current_folder, state};
use crate::exit;
use crate::exit::printed;
use crate::mcp::entry::{self, Entry, Grants};
use crate::mcp::{add, denials, login, pins, server_page};
use crate::terminal::notes;

/// Folder below the state folder with one folder for each server.
pub const SERVERS: &str = "mcp-servers";
/// Value of the `schema` field.
pub const SCHEMA: &str = "hotcell.mcp_servers/1";
/// Accepted tools of a server.
pub const ACCEPTED: &str = "tools.json";
/// Tools as the server offered them last.
pub const OFFERED: &str = "offered.json";
/// The server as it was started last.
pub const ENTRY: &str = "entry.json";
/// Grants that a person added.
const GRANTS: &str = "grants.json";
/// Actions of the audit log.
pub(super) const ACCEPT: &str = "mcp_tools_accept";
const GRANT: &str = "mcp_server_grants";
const DENY: &str = "mcp_server_grants_deny";
/// Maximum size of a file of pins, in bytes.
const MAX_PINS_BYTES: u64 = 64 << 20;

/// List of wrapped servers.
#[derive(Debug, Serialize, Deserialize, JsonSchema)]
pub struct ServerList {
    /// Always `hotcell.mcp_servers/1`.
    pub schema: String,
    /// Servers by name.
    pub servers: Vec<Server>,
}

/// One wrapped server.
#[derive(Debug, Default, Serialize, Deserialize, JsonSchema)]
pub struct Server {
    /// Name.
    pub name: String,
    /// Command that it was started with last; empty when it is not known.
    pub command: Vec<String>,
    /// Options of that start.
    pub options: Vec<String>,
    /// Grants that were added, such as `network=api.example.com:443`.
    pub grants: Vec<String>,
    /// Locked packages, each with its version as it was asked for.
    pub packages: Vec<String>,
    /// Names of the accepted tools; of the accepted prompts, resources and templates behind `(prompt) `, `(resource) ` and `(template) `; and of the server's
    /// accepted words about itself: `(instructions)`, `(name)`, `(title)`, `(description)`.
    pub accepted: Vec<String>,
    /// Names of what is held: new, or changed since it was accepted.
    pub held: Vec<String>,
    /// Definitions of what is held, as the server gives them: foreign text.
    pub offered: BTreeMap<String, serde_json::Value>,
    /// Definitions and words as they were accepted before, of what is held.
    pub before: BTreeMap<String, serde_json::Value>,
    /// Word for `accept --shown`: a digest of what is held; empty when nothing is.
    pub shown: String,
    /// Address, of a server at one.
    pub url: Option<String>,
    /// Processes or connections behind the combined server.
    pub instances: u8,
    /// Why its files cannot be read; all but the name is empty then.
    #[serde(default)]
    pub problem: Option<String>,
}

/// Folder of a server that can be started by its name.
///
/// # Errors
/// [`ErrorReport`] with the nearest name, when there is no such server.
pub fn startable(choice: &StateChoice, name: &str) -> Result<PathBuf, ErrorReport> {
    let io =
        |e: io::Error| ErrorReport::new(Code::State, format!("the servers' folder: {e}")).field("--state");
    let known = known(&all(choice)?).map_err(io)?;
    let known: Vec<_> =
        known.into_iter().map(|name| (all(choice).map(|all| all.join(&name).join(ENTRY)), name)).collect();
    let can = |entry: &Result<PathBuf, ErrorReport>| entry.as_ref().is_ok_and(|entry| entry.is_file());
    if let Some((Ok(entry), _)) = known.iter().find(|(entry, known)| known == name && can(entry)) {
        return Ok(entry.parent().unwrap_or(entry).to_owned());
    }
    let names = known.iter().filter(|(entry, _)| can(entry)).map(|(_, name)| name.as_str());
    let hint = match likely(name, names) {
        Some(near) => format!("did you mean {near}? hotcell mcp servers list shows them"),
        None => {
            "hotcell mcp servers list names them; hotcell mcp wrap --name NAME -- PROGRAM … starts one the first time; or give a URL".to_owned()
        }
    };
    Err(ErrorReport::new(Code::UnknownName, format!("no server {name:?} was started here before"))
        .field("SERVER")
        .hint(hint))
}

/// Arguments of a start with all that belongs to it: the name of the package, the entry for a name alone, the grants. Keeps the entry of a named server.
///
/// # Errors
/// [`ErrorReport`] when there is neither a command nor an entry, or a file cannot be used.
pub fn resolved(choice: &StateChoice, args: &WrapArgs) -> Result<WrapArgs, ErrorReport> {
    let package = package::named(&args.server);
    let package = package.map_err(|why| ErrorReport::new(Code::InvalidValue, why).field("SERVER"))?;
    let name = args.name.clone().or_else(|| package.map(|package| package.short_name().to_owned()));
    let Some(name) = name else {
        if args.server.is_empty() {
            return Err(ErrorReport::new(Code::Usage, "no PROGRAM is given, and no name of a server")
                .field("SERVER")
                .hint("hotcell mcp wrap -- npx -y PACKAGE starts one; --name NAME starts it again"));
        }
        return Ok(args.clone());
    };
    let folder = folder(choice, &name)?;
    let bad = |what: &str, e: &dyn ToString| {
        ErrorReport::new(Code::State, format!("the {what} of {name}: {}", e.to_string()))
            .hint(format!("hotcell mcp servers remove {name} forgets it"))
    };
    let kept: Option<Entry> = read(&folder.join(ENTRY)).map_err(|e| bad("entry", &e))?;
    let own = entry::options(args, &current_folder());
    let new = match (args.server.is_empty(), own, kept.clone()) {
        (false, Some(options), _) => {
            let instances = kept.as_ref().and_then(|kept| kept.instances);
            let options = entry::joined([&*options]);
            Entry { options, server: args.server.clone(), instances, ..Entry::default() }
        }
        // Paths that cannot be kept: the start itself is as it was asked for.
        (false, None, _) => return Ok(WrapArgs { name: Some(name), ..args.clone() }),
        (true, _, Some(Entry { url: Some(url), .. })) => {
            let why = format!("{name} is at {}, and no command to start", printable(&url));
            return Err(ErrorReport::new(Code::InvalidValue, why)
                .field("--name")
                .hint(format!("hotcell call {name} TOOL calls it, hotcell mcp --servers {name} serves it")));
        }
        (true, own, Some(kept)) => {
            let own = own.unwrap_or_default();
            Entry { options: entry::joined([&*kept.options, &*own]), ..kept }
        }
        (true, _, None) => {
            startable(choice, &name)?;
            return Err(bad("entry", &"it is not there"));
        }
    };
    if !args.server.is_empty() && kept.as_ref() != Some(&new) {
        write(&folder.join(ENTRY), &new).map_err(|e| bad("entry", &e))?;
    }
    let grants: Grants = read(&folder.join(GRANTS)).map_err(|e| bad("grants", &e))?.unwrap_or_default();
    let mut granted = Vec::new();
    if grants.of == new.identity() {
        granted = entry::of_grants(&grants.grants);
    } else if !grants.grants.is_empty() {
        let of = printable(&grants.of.replace('\n', " "));
        notes::say(format!(
            "the grants of {name} are not used: they were given to {of}, which is another server"
        ));
    }
    // Values of variables are in the arguments only.
    let set = args.env.iter().filter(|variable| matches!(variable, EnvSetting::Set(..))).cloned();
    let mut all = entry::args(&name, &entry::joined([&*new.options, &*granted]), &new.server)
        .map_err(|e| bad("options", &e))?;
    all.env.retain(|variable| {
        let EnvSetting::Pass(passed) = variable else { return true };
        !args.env.iter().any(|given| matches!(given, EnvSetting::Set(name, _) if name == passed))
    });
    all.env.extend(set);
    all.idle = args.idle;
    Ok(all)
}

/// Folder of a server.
///
/// # Errors
/// [`ErrorReport`] when the name is not usable, or the state folder is not.
pub fn folder(choice: &StateChoice, name: &str) -> Result<PathBuf, ErrorReport> {
    let fits = |c: char| c.is_ascii_alphanumeric() || "-_.".contains(c);
    if name.is_empty() || name.starts_with('.') || name.len() > 64 || !name.chars().all(fits) {
        let why = format!("{name:?} is not a name: use letters, digits, '-', '_' and '.', at most 64");
        return Err(ErrorReport::new(Code::InvalidValue, why).field("--name"));
    }
    Ok(all(choice)?.join(name))
}

fn all(choice: &StateChoice) -> Result<PathBuf, ErrorReport> {
    let wrong = |e: &dyn ToString| ErrorReport::new(Code::State, e.to_string()).field("--state");
    let state = StateFolder::open(choice.path().map_err(|e| wrong(&e))?).map_err(|e| wrong(&e))?;
    Ok(state.path().join(SERVERS))
}

/// Runs `hotcell mcp servers …`; returns its exit status.
///
/// # Errors
/// [`ErrorReport`] when there is no such server, or a file cannot be used.
pub fn servers(common: &Common, command: &ServersCommand) -> Result<u8, ErrorReport> {
    let configuration = configuration(common, None)?;
    let choice = state(common, &configuration);
    let io =
        |e: io::Error| ErrorReport::new(Code::State, format!("the servers' folder: {e}")).field("--state");
    let mut list = ServerList { schema: SCHEMA.to_owned(), servers: Vec::new() };
    if let ServersCommand::Add(args) = command {
        list.servers = vec![add::add(&choice, args)?];
    }
    let name = match command {
        // These have a runtime of their own.
        ServersCommand::List | ServersCommand::Try(_) | ServersCommand::Login(_) | ServersCommand::Add(_) => {
            None
        }
        ServersCommand::Show { name }
        | ServersCommand::Accept { name, .. }
        | ServersCommand::Denials { name }
        | ServersCommand::Grant { name, .. }
        | ServersCommand::Revoke { name, .. }
        | ServersCommand::Logout { name }
        | ServersCommand::Remove { name } => Some(name),
    };
    for known in known(&all(&choice)?).map_err(io)? {
        if !matches!(command, ServersCommand::Add(_)) && name.is_none_or(|name| *name == known) {
            let is_lenient = matches!(command, ServersCommand::List | ServersCommand::Remove { .. });
            let one = server_page::row(&all(&choice)?.join(&known), &known, is_lenient);
            list.servers.push(one.map_err(io)?);
        }
    }
    if let Some(name) = name.filter(|_| list.servers.is_empty()) {
        let known = known(&all(&choice)?).map_err(io)?;
        let hint = match likely(name, known.iter().map(String::as_str)) {
            Some(near) => format!("did you mean {near}? hotcell mcp servers list shows them"),
            None if known.is_empty() => "hotcell mcp wrap makes one".to_owned(),
            None => "hotcell mcp servers list names them; hotcell mcp wrap makes one".to_owned(),
        };
        let why = format!("there is no wrapped server {name:?}");
        return Err(ErrorReport::new(Code::UnknownName, why).field("NAME").hint(hint));
    }
    match command {
        ServersCommand::List
        | ServersCommand::Try(_)
        | ServersCommand::Login(_)
        | ServersCommand::Show { .. }
        | ServersCommand::Add(_) => {}
        ServersCommand::Accept { name, what, shown } => {
            let folder = folder(&choice, name)?;
            list.servers = vec![pins::accept(&configuration, &folder, name, shown.as_deref(), what)?];
        }
        ServersCommand::Denials { name } => return told_denials(common, &folder(&choice, name)?, name),
        ServersCommand::Grant { name, grants } => {
            let folder = folder(&choice, name)?;
            let is_address = list.servers[0].url.is_some();
            add_grants(&configuration, &folder, name, is_address, grants, None)?;
            list.servers = vec![server(&folder, name).map_err(io)?];
        }
        ServersCommand::Revoke { name, grants, all } => {
            let folder = folder(&choice, name)?;
            grant(&configuration, &folder, name, None, |kept| {
                for given in grants {
                    let one = entry::grant(given, &current_folder())?;
                    let before = kept.len();
                    kept.retain(|kept| *kept != one);
                    if kept.len() == before {
                        return Err(format!("{one} was not granted; it has {}", named(kept)));
                    }
                }
                if *all {
                    kept.clear();
                }
                Ok(())
            })?;
            list.servers = vec![server(&folder, name).map_err(io)?];
        }
        ServersCommand::Logout { name } => {
            let was_there = login::forget(&folder(&choice, name)?).map_err(io)?;
            if !common.quiet && !common.json {
                let what = if was_there { "its tokens are removed here" } else { "there was no login" };
                notes::say(format!("{name}: {what}"));
            }
        }
        ServersCommand::Remove { name } => {
            fs::remove_dir_all(folder(&choice, name)?).map_err(io)?;
            if !common.quiet && !common.json {
                notes::say(format!("{name} is removed; its next start locks it anew"));
            }
        }
    }
    if common.json {
        return Ok(printed(exit::print_json(&list), 0));
    }
    let is_whole = matches!(command, ServersCommand::Show { .. });
    let is_change = matches!(command, ServersCommand::Grant { .. } | ServersCommand::Revoke { .. });
    if is_change && !common.quiet {
        notes::say("from its next start on");
    }
    let text = match command {
        ServersCommand::Remove { .. } | ServersCommand::Logout { .. } => String::new(),
        ServersCommand::Add(_) if common.quiet => String::new(),
        _ => list.servers.iter().map(|one| server_page::page(one, is_whole)).collect(),
    };
    if text.is_empty() && matches!(command, ServersCommand::List) && !common.quiet {
        notes::say("no server was wrapped or added yet; try: hotcell mcp wrap -- npx -y PACKAGE");
    }
    Ok(printed(exit::print_text(&text), 0))
}

/// A decision for the audit log.
#[derive(Serialize)]
pub(super) struct After<'a> {
    pub(super) server: &'a str,
    #[serde(skip_serializing_if = "Option::is_none")]
    pub(super) tools: Option<&'a Accepted>,
    #[serde(skip_serializing_if = "Option::is_none")]
    pub(super) grants: Option<&'a [String]>,
    #[serde(skip_serializing_if = "Option::is_none")]
    pub(super) reason: Option<&'a str>,
}

/// Adds the decision to the audit log.
pub(super) fn note(
    config: &QuarantineConfig,
    action: &str,
    name: &str,
    after: &After<'_>,
) -> Result<(), QuarantineError> {
    let (actor, now_us) = (config.actor(), micros_since_1970(SystemTime::now()));
    config.open()?.step(|database| {
        hotcell_state::audit::append(database, now_us, &actor, action, name, after)?;
        Ok::<(), QuarantineError>(())
    })
}

/// Changes the grants of a server: first in the audit log, then for its next start.
fn grant(
    configuration: &Configuration,
    folder: &Path,
    name: &str,
    reason: Option<&str>,
    change: impl FnOnce(&mut Vec<String>) -> Result<(), String>,
) -> Result<(), ErrorReport> {
    let state = |e: &dyn ToString| ErrorReport::new(Code::State, e.to_string()).field("--state");
    let Some(entry) = read::<Entry>(&folder.join(ENTRY)).map_err(|e| state(&e))? else {
        let why = format!("{name} was not started since its command is kept");
        return Err(ErrorReport::new(Code::UnknownName, why).field("NAME").hint("start it once, then grant"));
    };
    let of = entry.identity();
    let mut grants: Grants = read(&folder.join(GRANTS)).map_err(|e| state(&e))?.unwrap_or_default();
    if grants.of != of {
        // They were another server's.
        grants = Grants { of, grants: Vec::new() };
    }
    change(&mut grants.grants).map_err(|why| ErrorReport::new(Code::InvalidValue, why).field("GRANT"))?;
    let config = QuarantineConfig::of(configuration)
        .ok_or_else(|| ErrorReport::new(Code::State, "there is no state folder"))?;
    note(&config, GRANT, name, &After { server: name, tools: None, grants: Some(&grants.grants), reason })
        .map_err(|e| state(&e))?;
    write(&folder.join(GRANTS), &grants).map_err(|e| state(&e))
}

/// Adds grants to those of a server; one at an address can only be granted questions.
///
/// # Errors
/// [`ErrorReport`] when one is not a grant, or the audit log or a file cannot be written.
pub fn add_grants(
    configuration: &Configuration,
    folder: &Path,
    name: &str,
    is_address: bool,
    grants: &[String],
    reason: Option<&str>,
) -> Result<(), ErrorReport> {
    grant(configuration, folder, name, reason, |kept| {
        for given in grants {
            let one = entry::grant(given, &current_folder())?;
            if is_address && !one.starts_with("ask=") {
                return Err(format!(
                    "{one}: a server at an address runs elsewhere; it can be granted ask=forms and ask=folders"
                ));
            }
            exists(&one)?;
            if !kept.contains(&one) {
                kept.push(one);
            }
        }
        match kept.len() <= entry::MAX_GRANTS {
            true => Ok(()),
            false => Err(format!("a server has at most {} grants", entry::MAX_GRANTS)),
        }
    })
}

/// Notes that a person said no to grants which a server lacked.
///
/// # Errors
/// [`ErrorReport`] when the audit log cannot be written.
pub fn drop_wanted(
    config: &QuarantineConfig,
    name: &str,
    grants: &[String],
    reason: Option<&str>,
) -> Result<(), ErrorReport> {
    note(config, DENY, name, &After { server: name, tools: None, grants: Some(grants), reason })
        .map_err(|e| ErrorReport::new(Code::State, e.to_string()).field("--state"))
}

/// Whether the file of a grant is there.
fn exists(grant: &str) -> Result<(), String> {
    let Some((_, path)) = grant.split_once('=').filter(|(kind, _)| matches!(*kind, "ro" | "rw")) else {
        return Ok(());
    };
    let bind = BindText::parse(Path::new(path)).map_err(|e| e.to_string())?.at(Path::new("/"), false);
    match bind.host.symlink_metadata() {
        Ok(_) => Ok(()),
        Err(e) => Err(format!("{}: {e}", bind.host.display())),
    }
}

fn named(grants: &[String]) -> String {
    if grants.is_empty() { "no grants".to_owned() } else { grants.join(" ") }
}

/// Prints the denials of the last run.
fn told_denials(common: &Common, folder: &Path, name: &str) -> Result<u8, ErrorReport> {
    let kept = denials::of(folder, name)
        .map_err(|e| ErrorReport::new(Code::State, e.to_string()).field("--state"))?;
    let Some(kept) = kept else {
        let why = format!("no run of {name} has ended yet");
        return Err(ErrorReport::new(Code::UnknownName, why)
            .field("NAME")
            .hint("they are kept when it ends"));
    };
    if common.json {
        return Ok(printed(exit::print_json(&kept), 0));
    }
    if kept.denials.is_empty() && !common.quiet {
        notes::say(format!(
            "{name} was denied nothing the last time; files that are not shown are missing for it, not denied"
        ));
    }
    Ok(printed(exit::print_text(&denials::page(&kept)), 0))
}

/// Names of all servers.
///
/// # Errors
/// [`ErrorReport`] when the state folder cannot be read.
pub fn names(choice: &StateChoice) -> Result<Vec<String>, ErrorReport> {
    known(&all(choice)?)
        .map_err(|e| ErrorReport::new(Code::State, format!("the servers' folder: {e}")).field("--state"))
}

/// A server as it was added or started last, if it was.
///
/// # Errors
/// When its file cannot be read.
pub fn entry_of(folder: &Path) -> io::Result<Option<Entry>> {
    read(&folder.join(ENTRY))
}

/// Requests to the client that were granted to a server.
///
/// # Errors
/// When a file of it cannot be read.
pub fn allowed(folder: &Path) -> io::Result<Allowed> {
    let entry = entry_of(folder)?.unwrap_or_default();
    let grants: Grants = read(&folder.join(GRANTS))?.unwrap_or_default();
    if grants.of != entry.identity() {
        return Ok(Allowed::default());
    }
    let has = |grant: &str| grants.grants.iter().any(|one| one == grant);
    Ok(Allowed { forms: has(entry::FORMS), folders: has(entry::FOLDERS) })
}

/// All wrapped servers, by name. One whose files cannot be read says so, and hides no other one.
///
/// # Errors
/// [`ErrorReport`] when their folder cannot be read.
pub fn list(choice: &StateChoice) -> Result<Vec<Server>, ErrorReport> {
    let all = all(choice)?;
    let read = || -> io::Result<Vec<Server>> {
        known(&all)?.iter().map(|name| server_page::row(&all.join(name), name, true)).collect()
    };
    read().map_err(|e| ErrorReport::new(Code::State, format!("the servers' folder: {e}")).field("--state"))
}

fn known(folder: &Path) -> io::Result<Vec<String>> {
    let entries = match fs::read_dir(folder) {
        Ok(entries) => entries,
        Err(e) if e.kind() == io::ErrorKind::NotFound => return Ok(Vec::new()),
        Err(e) => return Err(e),
    };
    let mut names = Vec::new();
    for entry in entries {
        let name = entry?.file_name().to_string_lossy().into_owned();
        if !name.starts_with('.') {
            names.push(name);
        }
    }
    names.sort();
    Ok(names)
}

/// One server, by its folder.
pub fn server(folder: &Path, name: &str) -> io::Result<Server> {
    let accepted = pins::Known::read(folder)?.all;
    let offered: BTreeMap<String, Offered> = read(&folder.join(OFFERED))?.unwrap_or_default();
    let held: BTreeMap<_, _> =
        offered.into_iter().filter(|(name, tool)| accepted.get(name) != Some(&tool.sha256)).collect();
    let accepted = accepted.into_iter().filter(|(_, sha256)| sha256 != ABSENT).map(|(name, _)| name);
    let packages = known(folder)?.into_iter().filter(|entry| folder.join(entry).is_dir());
    let entry: Entry = read(&folder.join(ENTRY))?.unwrap_or_default();
    let grants: Option<Grants> = read(&folder.join(GRANTS))?;
    let grants = grants.filter(|grants| grants.of == entry.identity());
    let before = pins::before(folder, held.keys())?;
    Ok(Server {
        name: name.to_owned(),
        command: entry.server,
        options: entry.options,
        grants: grants.unwrap_or_default().grants,
        packages: packages.map(|package| package.replace('+', "/")).collect(),
        accepted: accepted.collect(),
        held: held.keys().cloned().collect(),
        before,
        shown: pins::word(&held),
        url: entry.url,
        instances: entry.instances.unwrap_or(1),
        problem: None,
        offered: held.into_iter().map(|(name, offered)| (name, offered.tool)).collect(),
    })
}

/// Reads a file of a server, if there is one.
pub fn read<T: for<'de> Deserialize<'de>>(path: &Path) -> io::Result<Option<T>> {
    let file = match fs::File::open(path) {
        Ok(file) => file,
        Err(e) if e.kind() == io::ErrorKind::NotFound => return Ok(None),
        Err(e) => return Err(e),
    };
    let value = serde_json::from_reader(io::Read::take(file, MAX_PINS_BYTES));
    value.map(Some).map_err(|e| io::Error::other(format!("{}: {e}", path.display())))
}

/// Writes a file whole: other processes see the former one or this one.
pub fn write<T: Serialize>(path: &Path, value: &T) -> io::Result<()> {
    let folder = path.parent().unwrap_or(Path::new("."));
    fs::create_dir_all(folder)?;
    let mut file = tempfile::Builder::new().prefix(".new-").tempfile_in(folder)?;
    serde_json::to_writer(&mut file, value)?;
    file.as_file().sync_all()?;
    file.persist(path).map(drop).map_err(|e| e.error)
}
