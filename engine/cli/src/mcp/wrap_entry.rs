//! `hotcell mcp install --wrap SERVER` and `uninstall --wrap SERVER`: a client's entry of another server is put behind hotcell, and taken back.

use hotcell_clients::wrapped::{is_wrapped, unwrapped, wrapped};
use hotcell_clients::{Client, Entry, Found, Problem, file};
use hotcell_state::report::{Code, ErrorReport};

use super::install::{Action, Installed, SCHEMA, having, say, told};
use super::own_entry::{by_registry, own_way, start};
use crate::args::{By, Common, PlaceArgs};

/// Word for every entry that starts a program.
const ALL: &str = "all";

/// Direction of a change.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Way {
    /// Behind hotcell, which a client starts so; `None` as this program was started.
    Behind(Option<By>),
    /// Back to what it was before hotcell.
    Back,
}

/// Puts an entry behind hotcell, or takes it back; with `all`, every entry that starts a program, except hotcell's own. Returns the exit status.
///
/// # Errors
/// [`ErrorReport`] when the file has no such entry, or cannot or must not be changed.
pub fn change(
    common: &Common,
    client: Client,
    args: &PlaceArgs,
    server: &str,
    way: Way,
) -> Result<u8, ErrorReport> {
    if server != ALL {
        return change_one(common, client, args, server, way);
    }
    let place = having(client, &PlaceArgs { name: ALL.to_owned(), ..args.clone() })?;
    let original = place.read()?;
    let text = original.as_ref().map_or("", |original| original.text());
    // An entry of this name is meant by it.
    let mut names = match client.read(text, ALL) {
        Err(Problem::Missing(_, names)) => names,
        _ => return change_one(common, client, args, server, way),
    };
    names.retain(|name| match client.read(text, name) {
        Ok(Found::Program(entry)) if way == Way::Back => is_wrapped(&entry),
        Ok(Found::Program(entry)) => !is_wrapped(&entry) && !is_own(name, &entry),
        _ => false,
    });
    let why = |why: &str| ErrorReport::new(Code::InvalidValue, format!("{}: {why}", place.path.display()));
    if names.is_empty() {
        let word = if way == Way::Back {
            "no entry is behind hotcell"
        } else {
            "no entry starts a program that is not behind hotcell already"
        };
        return Err(why(word).field("--wrap").hint("nothing was changed"));
    }
    if common.json {
        let hint = format!("one object is printed for one entry: {}", names.join(", "));
        return Err(why("--json is for one entry").field("--wrap").hint(hint));
    }
    if way == Way::Back {
        // The last change is taken back first, so that the file becomes what it was, byte for byte.
        names.reverse();
    }
    for name in &names {
        change_one(common, client, args, name, way)?;
    }
    Ok(0)
}

/// Whether an entry starts hotcell's own server.
fn is_own(name: &str, entry: &Entry) -> bool {
    let is_word = |word: &str| word == "hotcell" || word.starts_with("hotcell@");
    name == "hotcell"
        || entry.command.rsplit('/').next().is_some_and(is_word)
        || entry.args.first().is_some_and(|word| is_word(word))
        || entry.args.get(1).is_some_and(|word| is_word(word))
}

fn change_one(
    common: &Common,
    client: Client,
    args: &PlaceArgs,
    server: &str,
    way: Way,
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
    let mut registry = None;
    let (now, action) = match (way, unwrapped(&entry)) {
        (Way::Back, Some(before)) => (before, Action::Replaced),
        (Way::Back, None) => {
            let why = format!("{}: the entry {server} is not behind hotcell", place.path.display());
            return Err(ErrorReport::new(Code::InvalidValue, why).field(server).hint("nothing was changed"));
        }
        (Way::Behind(_), _) if is_wrapped(&entry) => (entry.clone(), Action::Unchanged),
        (Way::Behind(by), _) => {
            // A path into the cache of npx or uvx would not last.
            let by = by.unwrap_or_else(own_way);
            if let By::Fetcher(fetcher) = by {
                registry = Some(fetcher);
            }
            let (hotcell, first) = start(args.project, by)?;
            (wrapped(&entry, server, (&hotcell, &first)), Action::Replaced)
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
    let copy =
        (way == Way::Back).then(|| former(&place.path, client, original.text(), server, &entry)).flatten();
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
    if let Some(fetcher) = registry.filter(|_| !common.json && !common.quiet) {
        by_registry(fetcher);
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

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn entries_of_hotcell_are_known() {
        let entry = |command: &str, args: &[&str]| Entry {
            command: command.to_owned(),
            args: args.iter().map(|word| (*word).to_owned()).collect(),
            ..Entry::default()
        };
        for (name, entry, want) in [
            ("hotcell", entry("x", &[]), true),
            ("mine", entry("/usr/bin/hotcell", &["mcp"]), true),
            ("mine", entry("npx", &["-y", "hotcell@1", "mcp"]), true),
            ("mine", entry("uvx", &["hotcell", "mcp"]), true),
            ("notes", entry("npx", &["-y", "@modelcontextprotocol/server-filesystem", "hotcell"]), false),
            ("notes", entry("/opt/hotcell-notes", &[]), false),
        ] {
            assert_eq!(is_own(name, &entry), want, "{name} {entry:?}");
        }
    }
}
