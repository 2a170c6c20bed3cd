//! `hotcell mcp install --wrap SERVER` and `uninstall --wrap SERVER`: a client's entry of another server is put behind hotcell, and taken back.

use hotcell_clients::wrapped::{is_wrapped, unwrapped, wrapped};
use hotcell_clients::{Client, Entry, Found, Problem, file};
use hotcell_state::report::{Code, ErrorReport};

use super::install::{Action, Installed, SCHEMA, having, say, told};
use super::own_entry::ours;
use crate::args::{By, Common, PlaceArgs};

/// Puts an entry behind hotcell, or takes it back; returns the exit status.
///
/// # Errors
/// [`ErrorReport`] when the file has no such entry, or cannot or must not be changed.
pub fn change(
    common: &Common,
    client: Client,
    args: &PlaceArgs,
    server: &str,
    is_back: bool,
) -> Result<u8, ErrorReport> {
    let args = PlaceArgs { name: server.to_owned(), ..args.clone() };
    let place = having(client, &args)?;
    let Some(original) = place.read()? else {
        let why = format!("there is no {}", place.path.display());
        return Err(ErrorReport::new(Code::UnknownName, why).field(server));
    };
    let problem = |p: Problem| told(&p, client, &place.path, &args);
    let entry = match client.read(original.text(), server).map_err(problem)? {
        Found::Program(entry) => entry,
        _ => {
            let why = format!("{}: the entry {server} does not start a program", place.path.display());
            return Err(ErrorReport::new(Code::InvalidValue, why)
                .field(server)
                .hint("only servers on standard input and output run in a sandbox; nothing was changed"));
        }
    };
    let (now, action) = match (is_back, unwrapped(&entry)) {
        (true, Some(before)) => (before, Action::Replaced),
        (true, None) => {
            let why = format!("{}: the entry {server} is not behind hotcell", place.path.display());
            return Err(ErrorReport::new(Code::InvalidValue, why).field(server).hint("nothing was changed"));
        }
        (false, _) if is_wrapped(&entry) => (entry.clone(), Action::Unchanged),
        (false, _) => {
            (wrapped(&entry, server, &ours(common, args.project, By::Path)?.command), Action::Replaced)
        }
    };
    let mut done = Installed {
        schema: SCHEMA.to_owned(),
        client,
        file: place.path.display().to_string(),
        name: server.to_owned(),
        action,
        entry: Some(now.clone()),
        text: String::new(),
        backup: None,
        next: client.kind().then.to_owned(),
        page: client.kind().page.to_owned(),
        allowed: None,
    };
    let copy = is_back.then(|| former(&place.path, client, original.text(), server, &entry)).flatten();
    let new = match &copy {
        Some((_, text)) => text.clone(),
        None => client.with(Some(original.text()), server, &now, true).map_err(problem)?,
    };
    place.replace(&mut done, Some(&original), &new)?;
    if let Some((path, _)) = copy {
        // The file is as it was, byte for byte: the copies of it have no more use.
        for path in done.backup.take().map(Into::into).into_iter().chain([path]) {
            let _ = std::fs::remove_file(path);
        }
    }
    Ok(say(common, &done, &args))
}

/// The file before the entry was wrapped, if wrapping it again gives the present one: then nothing else has changed since.
fn former(
    path: &std::path::Path,
    client: Client,
    text: &str,
    server: &str,
    entry: &Entry,
) -> Option<(std::path::PathBuf, String)> {
    file::copies(path).into_iter().rev().find_map(|path| {
        let copy = file::read(&path).ok()??.text().to_owned();
        let is_before =
            matches!(client.read(&copy, server), Ok(Found::Program(before)) if !is_wrapped(&before));
        let gives = client.with(Some(&copy), server, entry, true).is_ok_and(|new| new == text);
        (is_before && gives).then_some((path, copy))
    })
}
