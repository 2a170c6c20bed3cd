//! `hotcell mcp install` and `uninstall`.

use std::ffi::{OsStr, OsString};
use std::io::IsTerminal;
use std::path::{Path, PathBuf};

use hotcell_sandbox::layer::nearest;
use hotcell_service::report::{Code, ErrorReport, printable};
use schemars::JsonSchema;
use serde::{Deserialize, Serialize};
use similar::TextDiff;

use super::{Client, Entry, Places, Problem, file};
use crate::args::{Common, InstallArgs, PlaceArgs, UninstallArgs};
use crate::{current_folder, exit, notes, printed};

/// The name of this form in its `schema` field.
pub const SCHEMA: &str = "hotcell.mcp_install/1";

/// What became of a client's file.
#[derive(Debug, Serialize, Deserialize, JsonSchema)]
pub struct Installed {
    /// Always `hotcell.mcp_install/1`.
    pub schema: String,
    /// Whose file it is.
    pub client: Client,
    /// The file.
    pub file: String,
    /// The entry's name in it.
    pub name: String,
    /// What was done.
    pub action: Action,
    /// How the client starts the server; null when the entry was removed.
    pub entry: Option<Entry>,
    /// What was changed, as a unified diff; with `printed` the text itself.
    pub text: String,
    /// Where the former file is; null when there was none, or nothing was changed.
    pub backup: Option<String>,
    /// What makes the client see it.
    pub next: String,
    /// The page of the client's own documentation that says what its file looks like.
    pub page: String,
}

/// What was done with an entry.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize, Deserialize, JsonSchema)]
#[serde(rename_all = "snake_case")]
pub enum Action {
    /// It was not there.
    Added,
    /// Another one of that name was.
    Replaced,
    /// It was there already, and still is.
    Unchanged,
    /// It is gone.
    Removed,
    /// Nothing was touched.
    Printed,
}

/// `hotcell mcp install`; its exit status.
///
/// # Errors
/// A file that cannot or must not be changed.
pub fn install(common: &Common, args: &InstallArgs) -> Result<u8, ErrorReport> {
    let (client, name) = (args.client, args.place.name.as_str());
    let entry = ours(common, args.place.project)?;
    let place = place(client, &args.place)?;
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
    };
    if args.print {
        done.text = client.with(None, name, &entry, false).map_err(|p| told(&p, client, &place.path))?;
        return Ok(say(common, &done));
    }
    let original = place.read()?;
    let old = original.as_ref().map(file::Original::text);
    let new = client.with(old, name, &entry, args.replace).map_err(|p| told(&p, client, &place.path))?;
    let was = old.is_some_and(|old| client.read(old, name).is_ok());
    done.action = match was {
        _ if old == Some(new.as_str()) => Action::Unchanged,
        true => Action::Replaced,
        false => Action::Added,
    };
    place.replace(&mut done, original.as_ref(), &new)?;
    Ok(say(common, &done))
}

/// `hotcell mcp uninstall`; its exit status.
///
/// # Errors
/// A file that cannot or must not be changed; no such entry.
pub fn uninstall(common: &Common, args: &UninstallArgs) -> Result<u8, ErrorReport> {
    let (client, name) = (args.client, args.place.name.as_str());
    let place = place(client, &args.place)?;
    let Some(original) = place.read()? else {
        let why = format!("there is no {}", place.path.display());
        return Err(ErrorReport::new(Code::UnknownName, why).field(name));
    };
    let new = client.without(original.text(), name).map_err(|p| told(&p, client, &place.path))?;
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
    };
    place.replace(&mut done, Some(&original), &new)?;
    Ok(say(common, &done))
}

/// The file that is meant.
pub struct Place {
    /// Where it is.
    pub path: PathBuf,
    /// The project's folder, when it is a project's file.
    project: Option<PathBuf>,
}

impl Place {
    /// What is in it; see [`file::read`].
    ///
    /// # Errors
    /// See there.
    pub fn read(&self) -> Result<Option<file::Original>, ErrorReport> {
        if let Some(project) = &self.project {
            file::inside(project, &self.path)?;
        }
        file::read(&self.path)
    }

    fn replace(
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
        // Little of what stands around it: people keep secrets in these files.
        done.text = diff.unified_diff().context_radius(1).header(&name, &name).to_string();
        Ok(())
    }
}

/// Which file these options mean.
///
/// # Errors
/// A client without a file of projects; no home folder.
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
        None => {
            Err(ErrorReport::new(Code::Configuration, "HOME is not set, so there is no folder to look in")
                .field("HOME")
                .hint("set it, or name the file with --file"))
        }
    }
}

/// A problem of a file, with what to do.
#[must_use]
pub fn told(problem: &Problem, client: Client, path: &Path) -> ErrorReport {
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
            match nearest(name, all.iter().map(String::as_str)) {
                Some(near) => {
                    missing.hint(format!("did you mean --name {near}? there are {}", all.join(", ")))
                }
                None if all.is_empty() => {
                    missing.hint(format!("hotcell mcp install --client {} adds it", client.name()))
                }
                None => missing.hint(format!("there are {}", all.join(", "))),
            }
        }
        Problem::Unsafe => {
            report(Code::Internal).hint("nothing was changed; --print shows what belongs there")
        }
    }
}

/// How a client shall start this program.
///
/// # Errors
/// A path that is not UTF-8: no client's file can have it.
pub fn ours(common: &Common, shared: bool) -> Result<Entry, ErrorReport> {
    let text = |path: OsString, what: &str| {
        path.into_string().map_err(|_| {
            ErrorReport::new(Code::InvalidValue, format!("{what} is not UTF-8; no client's file can have it"))
                .field(what)
        })
    };
    // A file that others share has no path of this host.
    let command = if shared {
        "hotcell".to_owned()
    } else {
        text(program(std::env::var_os("PATH").as_deref()).into_os_string(), "the path of this program")?
    };
    let mut args = vec!["mcp".to_owned(), "--stdio".to_owned()];
    for (option, path) in [("--state", &common.state), ("--config", &common.config)] {
        if let Some(path) = path {
            args.push(option.to_owned());
            args.push(text(current_folder().join(path).into_os_string(), option)?);
        }
    }
    Ok(Entry { command, args, env: Default::default() })
}

/// This program by the name under which `PATH` has it: that one stays when a newer release takes its place. Else its path.
fn program(path: Option<&OsStr>) -> PathBuf {
    let this = std::env::current_exe().unwrap_or_else(|_| "hotcell".into());
    let real = |p: &Path| std::fs::canonicalize(p).ok();
    let ours = real(&this);
    let named = path.into_iter().flat_map(std::env::split_paths).map(|folder| folder.join("hotcell"));
    named
        .filter(|p| p.is_absolute())
        .find(|p| p.exists())
        .filter(|p| ours.is_some() && real(p) == ours)
        .unwrap_or(this)
}

fn say(common: &Common, done: &Installed) -> u8 {
    if common.json {
        return printed(exit::print_json(done), 0);
    }
    let text = if std::io::stdout().is_terminal() {
        let plain = std::env::var_os("NO_COLOR").is_some_and(|v| !v.is_empty());
        shown(&done.text, !plain && done.action != Action::Printed)
    } else {
        done.text.clone()
    };
    let code = printed(exit::print_text(&text), 0);
    if code != 0 || common.quiet {
        return code;
    }
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
            let named = if name == "hotcell" { String::new() } else { format!(" --name {name}") };
            notes::say(format!(
                "next: {}; hotcell mcp check --client {}{named} tries it",
                done.next,
                done.client.name()
            ));
        }
        Action::Removed => notes::say(format!("next: {}", done.next)),
        Action::Unchanged | Action::Printed => {}
    }
    code
}

/// A text for a terminal, without anything that could move its cursor; a diff in colours.
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
        let parts: Vec<String> = line.split('\t').map(printable).collect();
        shown.push_str(&format!("{colour}{}{end}\n", parts.join("\t")));
    }
    shown
}
