//! The entry with which a client starts this program: by its path, or by npx or uvx.

use std::ffi::{OsStr, OsString};
use std::path::{Path, PathBuf};

use hotcell_clients::Entry;
use hotcell_clients::fetched::Fetcher;
use hotcell_sandbox::own_program;
use hotcell_state::report::{Code, ErrorReport};

use crate::args::{By, Common};
use crate::context::current_folder;
use crate::terminal::notes;

/// Way in which this program was started: a path into a cache would not last.
pub fn own_way() -> By {
    own_program::path().ok().and_then(|this| Fetcher::of(&this)).map_or(By::Path, By::Fetcher)
}

/// The entry with which a client starts this program.
///
/// # Errors
/// [`ErrorReport`] when the program's path is not UTF-8, since no client's file can contain it.
pub fn ours(common: &Common, shared: bool, by: By) -> Result<Entry, ErrorReport> {
    let (command, mut args) = start(shared, by)?;
    args.extend(["mcp", "--stdio"].map(str::to_owned));
    for (option, path) in [("--state", &common.state), ("--config", &common.config)] {
        if let Some(path) = path {
            args.push(option.to_owned());
            args.push(text(current_folder().join(path).into_os_string(), option)?);
        }
    }
    Ok(Entry { command, args, env: Default::default() })
}

/// Program and first arguments that start this program.
///
/// # Errors
/// Like [`ours`].
pub fn start(shared: bool, by: By) -> Result<(String, Vec<String>), ErrorReport> {
    Ok(match by {
        By::Fetcher(fetcher) => (fetcher.name().to_owned(), fetcher.words(env!("CARGO_PKG_VERSION"))),
        // A shared file must not contain a path of this host.
        By::Path if shared => ("hotcell".to_owned(), Vec::new()),
        By::Path => {
            let path = program(std::env::var_os("PATH").as_deref()).into_os_string();
            (text(path, "the path of this program")?, Vec::new())
        }
    })
}

fn text(path: OsString, what: &str) -> Result<String, ErrorReport> {
    path.into_string().map_err(|_| {
        ErrorReport::new(Code::InvalidValue, format!("{what} is not UTF-8; no client's file can have it"))
            .field(what)
    })
}

/// Says what an entry by npx or uvx depends on.
pub fn by_registry(fetcher: Fetcher) {
    let name = fetcher.name();
    if own_way() != By::Fetcher(fetcher) {
        notes::say(format!(
            "this program did not come by {name}: the entry starts what the registry of {name} has as hotcell {}",
            env!("CARGO_PKG_VERSION")
        ));
    }
    if !on_path(name) {
        notes::say(format!("there is no {name} on your PATH, by which this entry starts hotcell"));
    }
}

/// Whether a shell finds a program of this name.
pub fn on_path(name: &str) -> bool {
    let path = std::env::var_os("PATH");
    path.iter().flat_map(std::env::split_paths).any(|folder| folder.join(name).is_file())
}

/// Path of this program by the name that is on `PATH`, which stays valid after an upgrade; otherwise its own
/// path.
fn program(path: Option<&OsStr>) -> PathBuf {
    let this = own_program::path().unwrap_or_else(|_| "hotcell".into());
    let real = |p: &Path| std::fs::canonicalize(p).ok();
    let ours = real(&this);
    let named = path.into_iter().flat_map(std::env::split_paths).map(|folder| folder.join("hotcell"));
    named
        .filter(|p| p.is_absolute())
        .find(|p| p.exists())
        .filter(|p| ours.is_some() && real(p) == ours)
        .unwrap_or(this)
}
