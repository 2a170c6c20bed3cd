//! `hotcell workspace`: project trees that are kept between runs.

use std::fs::File;
use std::io::{self, Read, Write};
use std::path::Path;

use hotcell_config::typed;
use hotcell_sandbox::{Bytes, Engine};
use hotcell_state::report::{Code, ErrorReport, printable};
use hotcell_state::state::StateFolder;
use hotcell_verbs::workspaces;
use hotcell_verbs::workspaces::{From, WorkspaceList, WorkspaceReport};
use hotcell_workspace::store::{NewFile, Store, StoreError, Workspace};
use hotcell_workspace::{Kind, diff};

use crate::args::{Common, WorkspaceCommand};
use crate::context::{configuration, current_folder, runtime, state};
use crate::exit::printed;
use crate::render::{changes, diff as diff_text};
use crate::terminal::notes;
use crate::terminal::screen::Screen;
use crate::{exit, options, usage};

/// Maximum size in bytes of a file read from standard input.
const MAX_FILE_BYTES: u64 = 1 << 30;
/// Maximum size of a diff in bytes.
const MAX_DIFF_BYTES: usize = 64 << 20;

/// Runs the command; returns its exit status.
pub fn workspace(common: &Common, command: &WorkspaceCommand) -> u8 {
    let answered = open(common).and_then(|store| answer(&store, common, command));
    answered.unwrap_or_else(|report| usage::fail(&report, common.json))
}

/// Opens the store of workspaces in the state folder.
pub fn open(common: &Common) -> Result<Store, ErrorReport> {
    let configuration = configuration(common, None)?;
    let choice = state(common, &configuration);
    let bad = |e: hotcell_state::state::StateError| ErrorReport::new(Code::State, e.to_string());
    let folder = StateFolder::open(choice.path().map_err(bad)?).map_err(bad)?;
    workspaces::store(&folder)
}

fn answer(store: &Store, common: &Common, command: &WorkspaceCommand) -> Result<u8, ErrorReport> {
    let report = |error: &StoreError| workspaces::report_in(store, error);
    let take = |id: &str| store.take(id).map_err(|e| report(&e));
    let told = |workspace: &Workspace<'_>, text: &str| -> Result<u8, ErrorReport> {
        let result = if common.json {
            let changes = workspace.changes().map_err(|e| report(&e))?;
            exit::print_json(&WorkspaceReport::of(&workspace.summary(), Some(&changes)))
        } else if text.is_empty() {
            Ok(())
        } else {
            exit::print_text(&format!("{text}\n"))
        };
        Ok(printed(result, 0))
    };
    match command {
        WorkspaceCommand::Create { folder, archive, bundle } => {
            let cwd = current_folder();
            let own = |what: &str, field: &str, path: &Path| {
                let why = |e| format!("the {what} {}: {e}", path.display());
                let real = typed::real_from(&cwd, path, &[]).map_err(why);
                real.map_err(|why| ErrorReport::new(Code::InvalidValue, why).field(field))
            };
            let from = match (folder, archive, bundle) {
                (Some(folder), ..) => {
                    own("folder", "DIR", folder)?;
                    From::Folder(cwd.join(folder))
                }
                (_, Some(archive), _) => {
                    own("archive", "--archive", archive)?;
                    From::Archive(cwd.join(archive))
                }
                (_, _, Some(bundle)) => {
                    own("bundle", "--bundle", bundle)?;
                    From::Bundle(cwd.join(bundle))
                }
                _ => From::Empty,
            };
            let internal = |e: anyhow::Error| ErrorReport::new(Code::Internal, format!("{e:#}"));
            let engine = Engine::for_one_run();
            let made = runtime().map_err(internal)?.block_on(workspaces::create(store, &engine, from))?;
            told(&made, made.id())
        }
        WorkspaceCommand::List { id: None } => {
            let list = WorkspaceList::of(store)?;
            let result = if common.json {
                exit::print_json(&list)
            } else if list.workspaces.is_empty() {
                if !common.quiet {
                    notes::say("no workspaces yet; try: hotcell workspace create DIR");
                }
                Ok(())
            } else {
                exit::print_text(&table(&list))
            };
            Ok(printed(result, 0))
        }
        WorkspaceCommand::List { id: Some(id) } => {
            let workspace = take(id)?;
            if common.json {
                return told(&workspace, "");
            }
            let all = workspace.with_view(|_, view| view.walk(Path::new(""), usize::MAX));
            let mut text = String::new();
            for (path, node) in all.map_err(|e| report(&e))? {
                let slash = if node.kind == Kind::Folder { "/" } else { "" };
                text.push_str(&printable(&format!("{}{slash}", path.display())));
                text.push('\n');
            }
            Ok(printed(exit::print_text(&text), 0))
        }
        WorkspaceCommand::Write { id, path, executable } => {
            let mut workspace = take(id)?;
            let mut bytes = Vec::new();
            let read = io::stdin().lock().take(MAX_FILE_BYTES + 1).read_to_end(&mut bytes);
            read.map_err(|e| ErrorReport::new(Code::Usage, format!("standard input cannot be read: {e}")))?;
            if bytes.len() as u64 > MAX_FILE_BYTES {
                let why = format!("standard input is longer than {}", Bytes(MAX_FILE_BYTES));
                return Err(ErrorReport::new(Code::InvalidValue, why));
            }
            let file = NewFile { path: path.clone(), bytes, executable: *executable };
            workspace.write(&[file]).map_err(|e| report(&e))?;
            told(&workspace, "")
        }
        WorkspaceCommand::Read { id, path } => {
            let workspace = take(id)?;
            let read = workspace.with_view(|_, view| view.file(path)).map_err(|e| {
                let why = format!("{} cannot be read: {}", path.display(), cause(&e));
                ErrorReport::new(Code::UnknownName, why).hint("hotcell workspace list ID shows what is there")
            });
            Ok(printed(copy(read?), 0))
        }
        WorkspaceCommand::Delete { id, path } => {
            let mut workspace = take(id)?;
            workspace.delete(path).map_err(|e| report(&e))?;
            told(&workspace, "")
        }
        WorkspaceCommand::Diff { id } => {
            let workspace = take(id)?;
            if common.json {
                return told(&workspace, "");
            }
            let changes = workspace.changes().map_err(|e| report(&e))?;
            let text = workspace.with_view(|before, after| diff(before, after, &changes, MAX_DIFF_BYTES));
            let result = diff_text::print(&text.map_err(|e| report(&e))?);
            if !common.quiet {
                let rows: Vec<_> =
                    WorkspaceReport::of(&workspace.summary(), Some(&changes)).changes.unwrap_or_default();
                changes::look_at(rows.iter().map(|row| (row.path.as_str(), row.marks.as_slice())));
            }
            Ok(printed(result, 0))
        }
        WorkspaceCommand::Commit { id, allow_protected } => {
            let mut workspace = take(id)?;
            let owner = workspace.owner_of_source();
            let committed = workspace.commit(*allow_protected, owner).map_err(|e| report(&e))?;
            let committed = options::of_commit(hotcell_verbs::changes::told(Ok(committed)));
            if common.json {
                let changes = workspace.changes().map_err(|e| report(&e))?;
                let mut report = WorkspaceReport::of(&workspace.summary(), Some(&changes));
                report.commit = Some(committed);
                return Ok(printed(exit::print_json(&report), 0));
            }
            changes::committed(&committed, common.quiet);
            Ok(0)
        }
        WorkspaceCommand::Discard { id, to } => {
            let mut workspace = take(id)?;
            workspace.discard(to.as_deref()).map_err(|e| report(&e))?;
            told(&workspace, "")
        }
        WorkspaceCommand::Snapshot { id, name } => {
            let mut workspace = take(id)?;
            workspace.snapshot(name).map_err(|e| report(&e))?;
            told(&workspace, "")
        }
        WorkspaceCommand::Fork { id } => {
            let fork = take(id)?.fork().map_err(|e| report(&e))?;
            told(&fork, fork.id())
        }
        WorkspaceCommand::Export { id, file } => {
            let workspace = take(id)?;
            let exported = match file {
                Some(file) if file != Path::new("-") => {
                    let to = File::create_new(file).map_err(|e| {
                        let why = format!("{} cannot be made: {e}", file.display());
                        ErrorReport::new(Code::InvalidValue, why).hint("name a new file, or - for stdout")
                    })?;
                    workspace.export(io::BufWriter::new(to))
                }
                _ => workspace.export(io::stdout().lock()),
            };
            exported.map_err(|e| report(&e))?;
            Ok(0)
        }
        WorkspaceCommand::Remove { id } => {
            store.remove(id).map_err(|e| report(&e))?;
            if common.json {
                return Ok(printed(exit::print_json(&WorkspaceList::of(store)?), 0));
            }
            Ok(0)
        }
    }
}

/// The underlying error of a store's error, if it is the system's.
fn cause(error: &hotcell_workspace::store::StoreError) -> String {
    use hotcell_workspace::store::StoreError;
    match error {
        StoreError::Io(e) if e.kind() == io::ErrorKind::NotFound => "it is not there".to_owned(),
        StoreError::Io(e) => e.to_string(),
        other => other.to_string(),
    }
}

fn copy(mut file: File) -> io::Result<()> {
    let mut out = io::stdout().lock();
    let mut screen = Screen::of(&io::stdout(), false);
    let mut piece = vec![0; 64 * 1024];
    loop {
        match file.read(&mut piece)? {
            0 => break,
            n => out.write_all(screen.pass(&piece[..n]))?,
        }
    }
    out.write_all(screen.finish())?;
    out.flush()
}

fn table(list: &WorkspaceList) -> String {
    let mut text = format!("{:<20} {:>10}  {}\n", "ID", "HOLDS", "FROM");
    for row in &list.workspaces {
        let from = row.source.as_deref().unwrap_or("-");
        let snapshots = if row.snapshots.is_empty() {
            String::new()
        } else {
            format!("  ({})", row.snapshots.join(", "))
        };
        text.push_str(&printable(&format!(
            "{:<20} {:>10}  {from}{snapshots}",
            row.id,
            Bytes(row.bytes).to_string()
        )));
        text.push('\n');
    }
    text
}
