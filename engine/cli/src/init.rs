//! `hotcell init`: a configuration file, and the clients that are found here.

use std::io::{self, BufRead, IsTerminal, Write};
use std::path::{Path, PathBuf};

use hotcell_clients::file::{self, Change};
use hotcell_clients::{Client, Found, Places, Problem};
use hotcell_config::{Settings, TEMPLATE, of_file};
use hotcell_state::report::{ErrorReport, printable};
use schemars::JsonSchema;
use serde::{Deserialize, Serialize};
use toml_edit::DocumentMut;

use crate::args::{Common, InitArgs, InstallArgs, PlaceArgs};
use crate::context::configuration_file;
use crate::mcp::install::{self, Installed};
use crate::terminal::{notes, screen};
use crate::{exit, usage};

/// Value of the `schema` field: name and version of this format.
pub const SCHEMA: &str = "hotcell.init/1";

/// Result of `hotcell init`.
#[derive(Debug, Serialize, Deserialize, JsonSchema)]
pub struct Initialized {
    /// Always `hotcell.init/1`.
    pub schema: String,
    /// Path of the configuration file.
    pub file: String,
    /// Effect on the file.
    pub action: Action,
    /// Settings in it, as dotted keys; none in a file that was written.
    pub settings: Vec<String>,
    /// Path of the copy of the former file; null when nothing was replaced.
    pub backup: Option<String>,
    /// The clients that were found, and those that were named.
    pub clients: Vec<FoundClient>,
}

/// Effect on the configuration file.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize, Deserialize, JsonSchema)]
#[serde(rename_all = "snake_case")]
pub enum Action {
    /// There was none.
    Written,
    /// The existing one was left as it is.
    Kept,
    /// The existing one was replaced.
    Replaced,
}

/// A client.
#[derive(Debug, Serialize, Deserialize, JsonSchema)]
pub struct FoundClient {
    /// The client.
    pub client: Client,
    /// Path of its file, which may not exist; null without a home folder.
    pub file: Option<String>,
    /// State of its entry of the name hotcell.
    pub state: ClientState,
    /// Reason why its file cannot be read; null otherwise.
    pub problem: Option<String>,
    /// Command that sets it up.
    pub command: String,
    /// The change of its file; null if none was made.
    pub installed: Option<Installed>,
}

/// Whether a client starts hotcell.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize, Deserialize, JsonSchema)]
#[serde(rename_all = "snake_case")]
pub enum ClientState {
    /// It does.
    SetUp,
    /// The client's file has no entry named hotcell.
    NotSetUp,
    /// The entry named hotcell in the file starts another program.
    Other,
    /// The settings file cannot be read.
    Unreadable,
}

/// Runs `hotcell init`; returns its exit status.
pub fn init(common: &Common, args: &InitArgs) -> u8 {
    initialize(common, args).unwrap_or_else(|report| usage::fail(&report, common.json))
}

fn initialize(common: &Common, args: &InitArgs) -> Result<u8, ErrorReport> {
    let mut done = configure(&configuration_file(common)?, args.force)?;
    if !common.json && !common.quiet {
        notes::say(told(&done));
    }
    let here = here(&args.client);
    let asks = [io::stdin().is_terminal(), io::stdout().is_terminal(), io::stderr().is_terminal()];
    let asks = args.client.is_empty() && !common.json && !common.quiet && asks == [true; 3];
    let mut code = 0;
    for mut found in here {
        let wanted = match asks && found.state == ClientState::NotSetUp {
            true => ask(found.client),
            false => args.client.contains(&found.client),
        };
        if wanted && common.json {
            found.installed = Some(install::set_up(common, &entry(found.client))?);
            found.state = ClientState::SetUp;
        } else if wanted {
            match install::install(common, &entry(found.client)) {
                Ok(_) => found.state = ClientState::SetUp,
                // The other clients are independent of this one.
                Err(report) => code = usage::fail(&report, false),
            }
        }
        done.clients.push(found);
    }
    if common.json {
        return Ok(exit::printed(exit::print_json(&done), code));
    }
    let listed = args.client.is_empty() && !common.quiet;
    let text = if listed { listing(&done.clients) } else { String::new() };
    Ok(exit::printed(exit::print_text(&text), code))
}

/// Options of `hotcell mcp install` for a client.
fn entry(client: Client) -> InstallArgs {
    let place = PlaceArgs { project: false, file: None, name: "hotcell".to_owned() };
    InstallArgs { client, place, print: false, replace: false, by: None, wrap: None, folder: None }
}

/// Writes the configuration if no file exists, or `force` is set.
fn configure(path: &Path, force: bool) -> Result<Initialized, ErrorReport> {
    let mut done = Initialized {
        schema: SCHEMA.to_owned(),
        file: path.display().to_string(),
        action: Action::Written,
        settings: Vec::new(),
        backup: None,
        clients: Vec::new(),
    };
    // A link of the user's own may be read, but is not written through.
    if !force && let Some(text) = file::seen(path)? {
        Settings::parse(&text, path).map_err(|error| {
            of_file(error)
                .hint("mend it, or let --force write a new one and keep a copy; nothing was changed")
        })?;
        done.action = Action::Kept;
        done.settings = settings(&text);
        return Ok(done);
    }
    let link = |report: ErrorReport| report.hint("name the file itself with --config; nothing was changed");
    let original = file::read(path).map_err(link)?;
    if original.is_some() {
        done.action = Action::Replaced;
    }
    let change = Change { path: path.to_owned(), original, new: TEMPLATE.to_owned(), shared: false };
    let made = change.make().map_err(|report| match report.hint {
        Some(_) => report,
        None => report.hint("name another file with --config"),
    });
    done.backup = made?.map(|copy| copy.display().to_string());
    Ok(done)
}

/// Settings of a configuration, as dotted keys in their order. Pure.
fn settings(text: &str) -> Vec<String> {
    let document: DocumentMut = text.parse().unwrap_or_default();
    let mut keys = Vec::new();
    for (key, item) in document.iter() {
        match item.as_table_like().filter(|_| key != "env") {
            Some(table) => keys.extend(table.iter().map(|(inner, _)| format!("{key}.{inner}"))),
            None => keys.push(key.to_owned()),
        }
    }
    keys
}

/// Sentence about the configuration file.
fn told(done: &Initialized) -> String {
    let file = &done.file;
    match (done.action, &done.backup) {
        (Action::Kept, _) if done.settings.is_empty() => format!("{file} is there already, and sets nothing"),
        (Action::Kept, _) => {
            let keys = done.settings.join(", ");
            format!("{file} is there already, and sets {keys}; --force replaces it and keeps a copy")
        }
        (_, Some(backup)) => format!("replaced {file}; the file as it was: {backup}"),
        _ => format!("wrote {file}: every setting, explained and not in force"),
    }
}

/// The clients that are found here, and the named ones.
fn here(named: &[Client]) -> Vec<FoundClient> {
    let places = Places::here();
    let path: Vec<PathBuf> =
        std::env::var_os("PATH").iter().flat_map(std::env::split_paths).filter(|p| p.is_absolute()).collect();
    let exists = |path: &Path| path.symlink_metadata().is_ok();
    let wanted = |client: &Client| named.contains(client) || client.is_found(&places, &path, exists);
    Client::ALL.into_iter().filter(wanted).map(|client| look(client, &places)).collect()
}

fn look(client: Client, places: &Places) -> FoundClient {
    let file = client.file(false, places, |path| path.symlink_metadata().is_ok());
    let text = file.as_deref().map(file::seen);
    let (state, problem) = match text {
        None | Some(Ok(None)) => (ClientState::NotSetUp, None),
        Some(Err(report)) => (ClientState::Unreadable, Some(report.to_string())),
        Some(Ok(Some(text))) => match client.read(&text, "hotcell") {
            Ok(Found::Program(entry)) if entry.is_ours() => (ClientState::SetUp, None),
            Ok(_) => (ClientState::Other, None),
            Err(Problem::Missing(..)) => (ClientState::NotSetUp, None),
            Err(problem) => (ClientState::Unreadable, Some(problem.to_string())),
        },
    };
    FoundClient {
        client,
        file: file.map(|file| file.display().to_string()),
        state,
        problem,
        command: format!("hotcell mcp install --client {}", client.name()),
        installed: None,
    }
}

/// Table of the clients, with the command for each that is not set up. Pure.
fn listing(clients: &[FoundClient]) -> String {
    if clients.is_empty() {
        return "no MCP client was found; hotcell mcp install --client NAME sets one up\n".to_owned();
    }
    let mut text = String::new();
    for found in clients {
        let says = match found.state {
            ClientState::SetUp => "starts hotcell".to_owned(),
            ClientState::NotSetUp => found.command.clone(),
            ClientState::Other => format!("has another entry hotcell; {} --replace", found.command),
            ClientState::Unreadable => {
                format!("cannot be read: {}", found.problem.as_deref().unwrap_or_default())
            }
        };
        text.push_str(&format!("{:<15} {}\n", found.client.kind().title, printable(&says)));
    }
    text
}

/// Asks a person on the terminal; anything but y or yes is a no.
fn ask(client: Client) -> bool {
    let title = client.kind().title;
    let _ = write!(io::stderr(), "{}hotcell: add hotcell to {title}? [y/N] ", screen::begin_line());
    let mut answer = String::new();
    match io::stdin().lock().read_line(&mut answer) {
        Ok(1..) => matches!(answer.trim(), "y" | "Y" | "yes"),
        // The end of the input leaves the cursor behind the question.
        _ => {
            let _ = writeln!(io::stderr());
            false
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn settings_are_named_with_their_tables() {
        for (text, want) in [
            ("", &[][..]),
            (TEMPLATE, &[]),
            ("guard = \"report\"\n[mcp]\nfolders = []\n", &["guard", "mcp.folders"]),
            ("env = { A = \"secret\" }\nlimits.memory = \"1G\"\n", &["env", "limits.memory"]),
        ] {
            assert_eq!(settings(text), want, "{text}");
        }
    }

    #[test]
    fn configuration_is_written_once_and_replaced_by_force() {
        let folder = tempfile::tempdir().unwrap();
        let path = folder.path().join("a/config.toml");
        let done = configure(&path, false).unwrap();
        assert_eq!((done.action, done.backup), (Action::Written, None));
        assert_eq!(std::fs::read_to_string(&path).unwrap(), TEMPLATE);
        std::fs::write(&path, "guard = \"report\"\n").unwrap();
        let done = configure(&path, false).unwrap();
        assert_eq!((done.action, done.settings), (Action::Kept, vec!["guard".to_owned()]));
        std::fs::write(&path, "gard = \"report\"\n").unwrap();
        let report = configure(&path, false).unwrap_err().to_string();
        assert!(report.contains("config.toml:1: ") && report.contains("--force"), "{report}");
        let done = configure(&path, true).unwrap();
        assert_eq!(done.action, Action::Replaced);
        assert_eq!(std::fs::read_to_string(done.backup.unwrap()).unwrap(), "gard = \"report\"\n");
        assert_eq!(std::fs::read_to_string(&path).unwrap(), TEMPLATE);
        let link = folder.path().join("link.toml");
        std::os::unix::fs::symlink(&path, &link).unwrap();
        assert_eq!(configure(&link, false).unwrap().action, Action::Kept);
        assert!(configure(&link, true).unwrap_err().to_string().contains("--config"));
    }
}
