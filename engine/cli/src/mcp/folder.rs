//! `hotcell mcp install --folder`: adds a folder over which callers may make workspaces to the operator's own
//! configuration. The person who types the command permits it; clients and models have no influence.

use std::path::{Path, PathBuf};

use hotcell_clients::file;
use hotcell_clients::file::Change;
use hotcell_config::Settings;
use hotcell_state::report::{Code, ErrorReport};
use toml_edit::{Array, DocumentMut, Item, Table, value};

use crate::args::Common;
use crate::context::{configuration, configuration_file, current_folder, folder as variable, state};
use crate::terminal::notes;

fn refused(folder: &Path, why: &str, hint: &str) -> ErrorReport {
    ErrorReport::new(Code::InvalidValue, format!("{} {why}", folder.display())).field("--folder").hint(hint)
}

/// The folder's path for the configuration, if it may be added.
///
/// # Errors
/// [`ErrorReport`] when it is not a folder, or holds more than a project.
pub fn check(common: &Common, folder: &Path) -> Result<PathBuf, ErrorReport> {
    let named = current_folder().join(folder);
    let real = named.canonicalize().ok().filter(|real| real.is_dir());
    let real = real.ok_or_else(|| refused(&named, "is not a folder", "name a project's folder"))?;
    let home = variable("HOME").and_then(|home| home.canonicalize().ok());
    let state = configuration(common, None).ok().map(|configuration| state(common, &configuration));
    let state = state.as_ref().and_then(|state| state.path().ok()).map(Path::to_owned);
    let state = state.map(|state| state.canonicalize().unwrap_or(state));
    match too_much(&real, home.as_deref(), state.as_deref()) {
        Some(why) => {
            Err(refused(&real, why, "name the folder of one project: callers can read all that is in it"))
        }
        None => Ok(real),
    }
}

/// The reason why a folder holds more than a project. Pure.
fn too_much(folder: &Path, home: Option<&Path>, state: Option<&Path>) -> Option<&'static str> {
    if folder.parent().is_none() {
        return Some("is the root of everything");
    }
    if let Some(home) = home {
        if home.starts_with(folder) {
            return Some(if home == folder { "is your home folder" } else { "holds your home folder" });
        }
        let below = folder.strip_prefix(home).ok().and_then(|below| below.components().next());
        if below.is_some_and(|first| first.as_os_str().as_encoded_bytes().starts_with(b".")) {
            return Some("is in a hidden folder of your home, where programs keep keys and settings");
        }
    }
    let state = state?;
    if state.starts_with(folder) || folder.starts_with(state) {
        return Some("holds hotcell's state folder, or is in it");
    }
    None
}

/// A folder that callers shall be allowed to read, and the change of the configuration that says so.
#[derive(Debug)]
pub struct Allowing {
    /// The folder as the configuration names it.
    pub folder: String,
    /// The change.
    pub change: Change,
}

/// Change to the operator's configuration that allows a folder. Nothing is written.
///
/// # Errors
/// See [`check`]. Also when the configuration cannot be read, or has something other than a list there.
pub fn allowing(common: &Common, folder: &Path) -> Result<Allowing, ErrorReport> {
    let real = check(common, folder)?;
    let text =
        real.to_str().ok_or_else(|| refused(&real, "is not UTF-8", "a configuration cannot name it"))?;
    let path = configuration_file(common)?;
    let original = file::read(&path)?;
    let old = original.as_ref().map(file::Original::text).unwrap_or_default();
    let bad = |why: String| {
        let shown = path.display();
        ErrorReport::new(Code::Configuration, format!("{shown}: {why}")).field(shown.to_string())
    };
    let new = with(old, text).map_err(bad)?;
    if new != old {
        Settings::parse(&new, &path).map_err(|e| bad(e.to_string()))?;
    }
    Ok(Allowing { folder: text.to_owned(), change: Change { path, original, new, shared: false } })
}

/// Says what was written.
pub fn tell(allowing: &Allowing, kept: Option<&str>) {
    let (text, shown) = (&allowing.folder, allowing.change.path.display());
    if allowing.change.is_nothing() {
        notes::say(format!("{text} is in mcp.folders of {shown} already"));
        return;
    }
    notes::say(format!("callers may read {text}, by workspace_create with folder: {text}"));
    notes::say(format!(
        "they cannot change it; commit = [\"{text}\"] in place of folders in {shown} lets them"
    ));
    if let Some(kept) = kept {
        notes::say(format!("the configuration as it was: {kept}"));
    }
}

/// Adds a folder to `mcp.folders` in the text of a configuration; unchanged if it is already there. Pure.
fn with(old: &str, folder: &str) -> Result<String, String> {
    let mut document: DocumentMut = old.parse().map_err(|e: toml_edit::TomlError| e.message().to_owned())?;
    let item = document.entry("mcp").or_insert_with(|| Item::Table(Table::new()));
    if let Some(inline) = item.as_inline_table_mut() {
        // Otherwise the blank before the closing brace would end up before the comma.
        inline.fmt();
    }
    let table = item.as_table_like_mut().ok_or("mcp is not a table")?;
    let folders = table.entry("folders").or_insert_with(|| value(Array::new()));
    let folders = folders.as_array_mut().ok_or("mcp.folders is not a list")?;
    if folders.iter().any(|one| one.as_str() == Some(folder)) {
        return Ok(old.to_owned());
    }
    folders.push(folder);
    Ok(document.to_string())
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn folder_option_accepts_project_folders_only() {
        let (home, state) = (Some(Path::new("/home/me")), Some(Path::new("/srv/hot/state")));
        for (folder, want) in [
            ("/", Some("root")),
            ("/home", Some("holds your home")),
            ("/home/me", Some("is your home")),
            ("/home/me/.ssh", Some("hidden")),
            ("/home/me/.config/x", Some("hidden")),
            ("/srv", Some("state folder")),
            ("/srv/hot/state", Some("state folder")),
            ("/srv/hot/state/x", Some("state folder")),
            ("/home/me/src/shop", None),
            ("/home/mean", None),
            ("/srv/web", None),
        ] {
            let got = too_much(Path::new(folder), home, state);
            assert_eq!(got.is_some(), want.is_some(), "{folder}: {got:?}");
            assert!(got.unwrap_or_default().contains(want.unwrap_or_default()), "{folder}: {got:?}");
        }
        assert!(too_much(Path::new("/x"), None, None).is_none());
    }

    #[test]
    fn adding_folder_preserves_configuration() {
        for (old, want) in [
            ("", "[mcp]\nfolders = [\"/p\"]\n"),
            ("# mine\nguard = \"report\"\n", "# mine\nguard = \"report\"\n\n[mcp]\nfolders = [\"/p\"]\n"),
            ("[mcp]\nfolders = [\"/a\"] # two\n", "[mcp]\nfolders = [\"/a\", \"/p\"] # two\n"),
            ("[mcp]\nfolders = [\"/p\"]\n", "[mcp]\nfolders = [\"/p\"]\n"),
            ("mcp = { commit = [\"/a\"] }\n", "mcp = { commit = [\"/a\"], folders = [\"/p\"] }\n"),
        ] {
            let new = with(old, "/p").unwrap();
            assert_eq!(new, want, "{old:?}");
        }
        assert!(with("mcp = 1", "/p").is_err() && with("[mcp", "/p").is_err());
    }
}
