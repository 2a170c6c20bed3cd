//! `hotcell mcp install` and `uninstall`.

use std::io::IsTerminal;
use std::path::{Path, PathBuf};

use hotcell_clients::file::Change;
use hotcell_clients::{Client, Entry, Places, Problem, file};
use hotcell_sandbox::layer::likely;
use hotcell_state::report::{Code, ErrorReport, printable_line};
use schemars::JsonSchema;
use serde::{Deserialize, Serialize};
use similar::TextDiff;

use crate::args::{By, Common, InstallArgs, PlaceArgs, UninstallArgs};
use crate::context::{configuration, current_folder};
use crate::exit;
use crate::exit::printed;
use crate::terminal::notes;

use super::folder;
use super::own_entry::{by_registry, on_path, ours, own_way};
use super::wrap_entry::{self, Way};

/// Value of the `schema` field: name and version of this format.
pub const SCHEMA: &str = "hotcell.mcp_install/1";

/// Maximum number of empty folders that are removed above a file that is neither in the home folder nor in the project.
const MAX_MADE_ELSEWHERE: usize = 1;

/// Result of changing a client's file.
#[derive(Debug, Serialize, Deserialize, JsonSchema)]
pub struct Installed {
    /// Always `hotcell.mcp_install/1`.
    pub schema: String,
    /// Client to which the file belongs.
    pub client: Client,
    /// Path of the file.
    pub file: String,
    /// Name of the entry in it.
    pub name: String,
    /// The change that was made.
    pub action: Action,
    /// How the client starts the server; null when the entry was removed.
    pub entry: Option<Entry>,
    /// The change as a unified diff; with `printed`, the text itself.
    pub text: String,
    /// Path of the backup; null if there was no file, or nothing was changed.
    pub backup: Option<String>,
    /// How to make the client read the change.
    pub next: String,
    /// Page of the client's own documentation that describes the file.
    pub page: String,
    /// The folder that `--folder` allows, in the operator's configuration; null without it.
    #[serde(default)]
    pub allowed: Option<Allowed>,
}

/// A folder that the operator's configuration allows callers to read.
#[derive(Debug, Serialize, Deserialize, JsonSchema)]
pub struct Allowed {
    /// The folder.
    pub folder: String,
    /// The configuration.
    pub file: String,
    /// The change to it, as a unified diff; empty where it already listed the folder.
    pub text: String,
    /// Where the former configuration is; null when there was none, or nothing was changed.
    pub backup: Option<String>,
}

/// The change that was made to an entry.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize, Deserialize, JsonSchema)]
#[serde(rename_all = "snake_case")]
pub enum Action {
    /// The entry is new.
    Added,
    /// Another entry of that name was replaced.
    Replaced,
    /// The entry was already there.
    Unchanged,
    /// The entry was removed.
    Removed,
    /// Nothing was changed.
    Printed,
}

/// Runs `hotcell mcp install`; returns its exit status.
///
/// # Errors
/// [`ErrorReport`] when the file cannot or must not be changed.
pub fn install(common: &Common, args: &InstallArgs) -> Result<u8, ErrorReport> {
    if let Some(server) = &args.wrap {
        return wrap_entry::change(common, args.client, &args.place, server, Way::Behind(args.by));
    }
    let mut plan = Plan::of(common, args)?;
    if args.print {
        return Ok(say(common, &plan.done, &args.place));
    }
    // Nothing is written that a person could not see.
    if !common.json {
        let allowed = plan.done.allowed.as_ref().map_or("", |allowed| allowed.text.as_str());
        show(&(plan.done.text.clone() + allowed), true).map_err(|e| unseen(&e))?;
    }
    plan.make()?;
    if common.json {
        exit::print_json(&plan.done).map_err(|e| {
            plan.take_back();
            unseen(&e)
        })?;
    } else if !common.quiet {
        match plan.by {
            By::Path if args.place.project && !on_path("hotcell") => notes::say(
                "there is no hotcell on your PATH, by which this entry starts it: put a link to it into a folder of PATH",
            ),
            By::Path => {}
            By::Fetcher(fetcher) => by_registry(fetcher),
        }
        tell(&plan.done, &args.place);
        if let (Some(allowing), Some(allowed)) = (&plan.allowing, &plan.done.allowed) {
            folder::tell(allowing, allowed.backup.as_deref());
        }
    }
    Ok(0)
}

/// Adds the entry without printing anything.
///
/// # Errors
/// See [`install`].
pub fn set_up(common: &Common, args: &InstallArgs) -> Result<Installed, ErrorReport> {
    let mut plan = Plan::of(common, args)?;
    plan.make()?;
    Ok(plan.done)
}

/// Changes of an installation.
struct Plan {
    /// How the client will start it.
    by: By,
    /// The report; the backups are missing until the changes are made.
    done: Installed,
    /// The change of the client's file; `None` when the text is only printed.
    change: Option<Change>,
    /// The change of the operator's configuration.
    allowing: Option<folder::Allowing>,
}

impl Plan {
    /// Reads the files. Nothing is written.
    fn of(common: &Common, args: &InstallArgs) -> Result<Self, ErrorReport> {
        let (client, name) = (args.client, args.place.name.as_str());
        let by = args.by.unwrap_or_else(own_way);
        let entry = ours(common, args.place.project, by)?;
        let place = place(client, &args.place)?;
        let allowing = args.folder.as_ref().map(|folder| folder::allowing(common, folder)).transpose()?;
        let mut done = Installed {
            schema: SCHEMA.to_owned(),
            client,
            file: place.path.display().to_string(),
            name: name.to_owned(),
            action: Action::Printed,
            entry: Some(entry.clone()),
            text: String::new(),
            backup: None,
            next: client.kind().then.to_owned(),
            page: client.kind().page.to_owned(),
            allowed: None,
        };
        let problem = |p: Problem| told(&p, client, &place.path, &args.place);
        if args.print {
            done.text = client.with(None, name, &entry, false).map_err(problem)?;
            return Ok(Self { by, done, change: None, allowing });
        }
        let original = place.read()?;
        let old = original.as_ref().map(file::Original::text);
        let new = client.with(old, name, &entry, args.replace).map_err(problem)?;
        let was = old.is_some_and(|old| client.read(old, name).is_ok());
        done.action = match was {
            _ if old == Some(new.as_str()) => Action::Unchanged,
            true => Action::Replaced,
            false => Action::Added,
        };
        let change = Change { path: place.path.clone(), original, new, shared: args.place.project };
        done.text = if change.is_nothing() { String::new() } else { change.diff() };
        done.allowed = allowing.as_ref().map(|allowing| Allowed {
            folder: allowing.folder.clone(),
            file: allowing.change.path.display().to_string(),
            text: if allowing.change.is_nothing() { String::new() } else { allowing.change.diff() },
            backup: None,
        });
        Ok(Self { by, done, change: Some(change), allowing })
    }

    /// Writes both changes or nothing.
    fn make(&mut self) -> Result<(), ErrorReport> {
        let Some(change) = &self.change else { return Ok(()) };
        let kept = change.make()?;
        if let (Some(allowing), Some(allowed)) = (&self.allowing, &mut self.done.allowed) {
            let other = allowing.change.make().inspect_err(|_| drop(change.take_back(kept.as_deref())))?;
            allowed.backup = other.map(|p| p.display().to_string());
        }
        self.done.backup = kept.map(|p| p.display().to_string());
        Ok(())
    }

    /// Takes back what [`Self::make`] did.
    fn take_back(&self) {
        if let (Some(allowing), Some(allowed)) = (&self.allowing, &self.done.allowed) {
            let _ = allowing.change.take_back(allowed.backup.as_deref().map(Path::new));
        }
        if let Some(change) = &self.change {
            let _ = change.take_back(self.done.backup.as_deref().map(Path::new));
        }
    }
}

/// A change that a person could not read is not made.
fn unseen(why: &std::io::Error) -> ErrorReport {
    ErrorReport::new(Code::Internal, format!("what changes cannot be shown: {why}"))
        .field("standard output")
        .hint("let standard output be read; nothing was changed")
}

/// Runs `hotcell mcp uninstall`; returns its exit status.
///
/// # Errors
/// [`ErrorReport`] when the file cannot or must not be changed, or has no such entry.
pub fn uninstall(common: &Common, args: &UninstallArgs) -> Result<u8, ErrorReport> {
    if let Some(server) = &args.wrap {
        return wrap_entry::change(common, args.client, &args.place, server, Way::Back);
    }
    let (client, name) = (args.client, args.place.name.as_str());
    let place = having(client, &args.place)?;
    let Some(original) = place.read()? else {
        let why = format!("there is no {}", place.path.display());
        return Err(ErrorReport::new(Code::UnknownName, why).field(name));
    };
    let problem = |p: Problem| told(&p, client, &place.path, &args.place);
    let found = client.read(original.text(), name).map_err(problem)?;
    if !args.any && !matches!(&found, hotcell_clients::Found::Program(entry) if entry.is_ours()) {
        let why = format!("{}: the entry {name} does not start hotcell", place.path.display());
        return Err(ErrorReport::new(Code::InvalidValue, why)
            .field(name)
            .hint("nothing was changed; --any removes it all the same, --name names another"));
    }
    let new = client.without(original.text(), name).map_err(problem)?;
    let former = match &found {
        hotcell_clients::Found::Program(entry) => place.former(client, original.text(), name, entry),
        _ => None,
    };
    let mut done = Installed {
        schema: SCHEMA.to_owned(),
        client,
        file: place.path.display().to_string(),
        name: name.to_owned(),
        action: Action::Removed,
        entry: None,
        text: String::new(),
        backup: None,
        next: client.kind().then.to_owned(),
        page: client.kind().page.to_owned(),
        allowed: None,
    };
    match former {
        Some(former) => place.undo(&mut done, &original, &former)?,
        None => place.replace(&mut done, Some(&original), &new)?,
    }
    let said = say(common, &done, &args.place);
    // Folders of --folder stay: it is the operator's configuration, and other clients may use it.
    let allowed = configuration(common, None).map(|c| c.user.mcp.folders.len() + c.user.mcp.commit.len());
    if let Ok(count @ 1..) = allowed
        && !common.quiet
        && !common.json
    {
        notes::say(format!(
            "callers of other clients may still use {count} folders: mcp of your configuration names them"
        ));
    }
    Ok(said)
}

/// State of a file before an entry was added to it.
enum Former {
    /// There was no file.
    Nothing,
    /// A file with this text; with the path of its backup.
    Copy(PathBuf, String),
}

/// The file to be changed.
pub struct Place {
    /// Path of the file.
    pub path: PathBuf,
    /// The project's folder, if the file belongs to a project.
    project: Option<PathBuf>,
}

impl Place {
    /// Reads the file; see [`file::read`].
    ///
    /// # Errors
    /// [`ErrorReport`] as for [`file::read`].
    pub fn read(&self) -> Result<Option<file::Original>, ErrorReport> {
        if let Some(project) = &self.project {
            file::inside(project, &self.path)?;
        }
        file::read(&self.path)
    }

    /// The state before the entry, if adding the entry to it gives the present file: then nothing else has
    /// changed since.
    fn former(&self, client: Client, text: &str, name: &str, entry: &Entry) -> Option<Former> {
        let mut copies = file::copies(&self.path).into_iter().rev();
        let made = |old: Option<&str>| client.with(old, name, entry, true).is_ok_and(|new| new == text);
        if let Some((path, copy)) = copies.find_map(|path| {
            let copy = file::read(&path).ok()??.text().to_owned();
            (made(Some(&copy)) && client.read(&copy, name).is_err()).then_some((path, copy))
        }) {
            return Some(Former::Copy(path, copy));
        }
        (file::copies(&self.path).is_empty() && made(None)).then_some(Former::Nothing)
    }

    /// Restores the former state of a file, and removes the backup.
    fn undo(
        &self,
        done: &mut Installed,
        original: &file::Original,
        former: &Former,
    ) -> Result<(), ErrorReport> {
        match former {
            Former::Nothing => {
                file::remove(&self.path, original)?;
                let name = self.path.display().to_string();
                let diff = TextDiff::from_lines(original.text(), "");
                done.text = diff.unified_diff().context_radius(1).header(&name, &name).to_string();
                // Remove folders that were made for the file; a folder with other contents stays.
                for folder in made_for(&self.path, self.project.as_deref(), &Places::here()) {
                    if std::fs::remove_dir(folder).is_err() {
                        break;
                    }
                }
            }
            Former::Copy(copy, text) => {
                self.replace(done, Some(original), text)?;
                let kept = done.backup.take().map(PathBuf::from);
                for path in kept.into_iter().chain([copy.clone()]) {
                    let _ = std::fs::remove_file(path);
                }
            }
        }
        Ok(())
    }

    /// Writes a new text in place of the file.
    ///
    /// # Errors
    /// [`ErrorReport`] when the file cannot or must not be changed.
    pub fn replace(
        &self,
        done: &mut Installed,
        original: Option<&file::Original>,
        new: &str,
    ) -> Result<(), ErrorReport> {
        let old = original.map(file::Original::text).unwrap_or_default();
        if original.is_some() && old == new {
            return Ok(());
        }
        let kept = file::replace(&self.path, original, new, self.project.is_some())?;
        done.backup = kept.map(|p| p.display().to_string());
        let name = self.path.display().to_string();
        let diff = TextDiff::from_lines(old, new);
        // Little context: people keep secrets in these files.
        done.text = diff.unified_diff().context_radius(1).header(&name, &name).to_string();
        Ok(())
    }
}

/// Folders above a file that an installation may have made, the innermost first: up to the project, to the home folder, or to
/// a folder that the user named by a variable. `~/.config` is one of them: in a new home folder it is made, too.
fn made_for<'a>(file: &'a Path, project: Option<&Path>, places: &Places) -> Vec<&'a Path> {
    let named = [&places.home, &places.config, &places.codex, &places.claude, &places.copilot];
    let stays =
        |folder: &Path| project == Some(folder) || named.iter().any(|one| one.as_deref() == Some(folder));
    let above: Vec<&Path> = file.ancestors().skip(1).collect();
    let made = match above.iter().position(|folder| stays(folder)) {
        Some(end) => end,
        // A file that `--file` names elsewhere.
        None => above.len().saturating_sub(1).min(MAX_MADE_ELSEWHERE),
    };
    above.into_iter().take(made).collect()
}

/// The file selected by these options.
///
/// # Errors
/// [`ErrorReport`] when the client has no project files, or there is no home folder.
pub fn place(client: Client, args: &PlaceArgs) -> Result<Place, ErrorReport> {
    let places = Places::here();
    if let Some(file) = &args.file {
        return Ok(Place { path: current_folder().join(file), project: None });
    }
    match client.file(args.project, &places, |p| p.symlink_metadata().is_ok()) {
        Some(path) => Ok(Place { path, project: args.project.then_some(places.project) }),
        None if args.project => {
            let why = format!("{} has no file of projects", client.kind().title);
            Err(ErrorReport::new(Code::Usage, why).field("--project").hint("leave --project out"))
        }
        None => Err(ErrorReport::new(
            Code::Configuration,
            "HOME is not set to an absolute path, so there is no folder to look in",
        )
        .field("HOME")
        .hint("set it, or name the file with --file")),
    }
}

/// The file that has the entry: if the client merges two files, the one with the entry.
///
/// # Errors
/// [`ErrorReport`] as for [`place`].
pub fn having(client: Client, args: &PlaceArgs) -> Result<Place, ErrorReport> {
    let first = place(client, args)?;
    let has = |path: &Path| {
        let text = std::fs::read_to_string(path).ok();
        text.is_some_and(|text| !matches!(client.read(&text, &args.name), Err(Problem::Missing(..))))
    };
    match client.beside(&first.path).filter(|_| args.file.is_none()) {
        Some(second) if !has(&first.path) && has(&second) => Ok(Place { path: second, ..first }),
        _ => Ok(first),
    }
}

/// Command-line options that select the same file again.
#[must_use]
pub fn again(args: &PlaceArgs) -> String {
    let mut options = String::new();
    if args.name != "hotcell" {
        options.push_str(&format!(" --name {}", args.name));
    }
    if args.project {
        options.push_str(" --project");
    }
    if let Some(file) = &args.file {
        let text = file.display().to_string();
        let plain = text.bytes().all(|b| b.is_ascii_alphanumeric() || b"/._-+@:".contains(&b));
        let quoted = format!("'{}'", text.replace('\'', "'\\''"));
        options.push_str(&format!(" --file {}", if plain { &text } else { &quoted }));
    }
    options
}

/// The client's file of the project in the current folder, where the user's own file was meant.
fn of_project(client: Client, args: &PlaceArgs) -> Option<PathBuf> {
    if args.project || args.file.is_some() {
        return None;
    }
    let args = PlaceArgs { project: true, ..args.clone() };
    place(client, &args).ok().map(|place| place.path).filter(|path| path.is_file())
}

/// A report about a problem with a file, with advice.
#[must_use]
pub fn told(problem: &Problem, client: Client, path: &Path, args: &PlaceArgs) -> ErrorReport {
    let shown = path.display();
    let title = client.kind().title;
    let report = |code| ErrorReport::new(code, format!("{shown}: {problem}"));
    match problem {
        Problem::Broken { .. } => report(Code::Configuration)
            .field(shown.to_string())
            .hint(format!("mend it first, {title} cannot read it either; nothing was changed")),
        Problem::Form(key, _) | Problem::Twice(key) => {
            report(Code::Configuration).field(key).hint("mend it first; nothing was changed")
        }
        Problem::Exists(name) => report(Code::InvalidValue).field(name).hint(
            "--replace puts this one in its place, --name gives this one another name; nothing was changed",
        ),
        Problem::Missing(name, all) => {
            let missing = report(Code::UnknownName).field(name);
            match likely(name, all.iter().map(String::as_str)) {
                Some(near) => {
                    missing.hint(format!("did you mean --name {near}? there are {}", all.join(", ")))
                }
                None if all.is_empty() => {
                    let adds =
                        format!("hotcell mcp install --client {}{} adds it", client.name(), again(args));
                    missing.hint(match of_project(client, args) {
                        Some(file) => {
                            format!("this folder has {}, which --project means; {adds}", file.display())
                        }
                        None => adds,
                    })
                }
                None => missing.hint(format!("there are {}", all.join(", "))),
            }
        }
        Problem::Unsafe => {
            report(Code::Internal).hint("nothing was changed; --print shows what belongs there")
        }
    }
}

pub fn say(common: &Common, done: &Installed, args: &PlaceArgs) -> u8 {
    if common.json {
        return printed(exit::print_json(done), 0);
    }
    let code = printed(show(&done.text, done.action != Action::Printed), 0);
    if code == 0 && !common.quiet {
        tell(done, args);
    }
    code
}

/// Prints a text, on a terminal without what could move its cursor, and a diff there in colours.
fn show(text: &str, diff: bool) -> std::io::Result<()> {
    if !std::io::stdout().is_terminal() {
        return exit::print_text(text);
    }
    let plain = std::env::var_os("NO_COLOR").is_some_and(|v| !v.is_empty());
    exit::print_text(&shown(text, !plain && diff))
}

/// Says what was done, and what is next.
fn tell(done: &Installed, args: &PlaceArgs) {
    let (title, name, file) = (done.client.kind().title, &done.name, &done.file);
    notes::say(match done.action {
        Action::Added => format!("added {name} to {title}, in {file}"),
        Action::Replaced => format!("replaced {name} of {title}, in {file}"),
        Action::Unchanged => format!("{name} is in {file} already; nothing was changed"),
        Action::Removed => format!("removed {name} from {title}, in {file}"),
        Action::Printed => format!("this belongs into {file}; {}", done.page),
    });
    if let Some(backup) = &done.backup {
        notes::say(format!("the file as it was: {backup}"));
    }
    match done.action {
        Action::Added | Action::Replaced => {
            notes::say(format!(
                "next: {}; hotcell mcp check --client {}{} tries it",
                done.next,
                done.client.name(),
                again(args)
            ));
        }
        Action::Removed => notes::say(format!("next: {}", done.next)),
        Action::Unchanged | Action::Printed => {}
    }
}

/// A text for a terminal, without anything that could move its cursor; a diff in colour.
fn shown(text: &str, colours: bool) -> String {
    let mut shown = String::new();
    for line in text.lines() {
        let colour = match line.as_bytes().first() {
            Some(b'+') if colours => "\x1b[32m",
            Some(b'-') if colours => "\x1b[31m",
            Some(b'@') if colours => "\x1b[36m",
            _ => "",
        };
        let end = if colour.is_empty() { "" } else { "\x1b[0m" };
        shown.push_str(&format!("{colour}{}{end}\n", printable_line(line)));
    }
    shown
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn folders_made_for_a_file_end_at_those_that_stay() {
        let home = || Places { home: Some("/home/me".into()), ..Places::default() };
        let moved = Places { config: Some("/home/me/etc".into()), ..home() };
        for (file, project, places, want) in [
            ("/home/me/.claude.json", None, home(), &[][..]),
            ("/home/me/.config/Code/User/mcp.json", None, home(), &["User", "Code", ".config"]),
            ("/home/me/.config/a/b/c/d/e/f.json", None, home(), &["e", "d", "c", "b", "a", ".config"]),
            ("/home/me/etc/opencode/opencode.json", None, moved.clone(), &["opencode"]),
            ("/home/me/.cursor/mcp.json", None, moved, &[".cursor"]),
            ("/home/me/shop/.vscode/mcp.json", Some("/home/me/shop"), home(), &[".vscode"]),
            ("/srv/a/b/mcp.json", None, home(), &["b"]),
            ("/srv/codex/config.toml", None, Places { codex: Some("/srv/codex".into()), ..home() }, &[]),
            ("/mcp.json", None, home(), &[]),
            ("mcp.json", None, home(), &[]),
        ] {
            let made = made_for(Path::new(file), project.map(Path::new), &places);
            let names: Vec<_> = made.iter().filter_map(|folder| folder.file_name()?.to_str()).collect();
            assert_eq!((names.as_slice(), made.len()), (want, want.len()), "{file}");
        }
    }
}
