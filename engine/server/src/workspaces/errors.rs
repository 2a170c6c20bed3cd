//! Error messages for callers: with the caller's own words, and without host paths.

use std::io;
use std::path::Path;

use hotcell_sandbox::Bytes;
use hotcell_state::report::{Code, ErrorReport};
use hotcell_workspace::CommitError;
use hotcell_workspace::store::StoreError;

/// Maximum number of paths in one message.
const MAX_PATHS: usize = 20;

pub fn unknown() -> ErrorReport {
    ErrorReport::new(Code::UnknownName, "there is no workspace of that workspace_id")
        .field("workspace_id")
        .hint("use a workspace_id from workspace_create; one that nobody uses is removed after a while")
}

pub fn over(what: &str, asked: u64, most: u64) -> ErrorReport {
    ErrorReport::new(Code::InvalidValue, format!("{what}: {asked}; allowed is at most {most}"))
        .field(what)
        .hint(match what.contains("bytes") {
            true => format!("at most {most} ({})", Bytes(most)),
            false => format!("at most {most}"),
        })
}

pub fn in_the_way(path: &str, other: &Path) -> ErrorReport {
    ErrorReport::new(
        Code::InvalidValue,
        format!("{path:?} cannot be written: {:?} is in the way", other.to_string_lossy()),
    )
    .field("path")
    .hint("a file and a folder cannot have the same name; remove one or use another path")
}

pub fn cannot(path: &str, what: &str, error: &io::Error) -> ErrorReport {
    let why = match error.kind() {
        io::ErrorKind::NotFound => "it is not there",
        io::ErrorKind::IsADirectory => "it is a folder",
        io::ErrorKind::NotADirectory => "it is not a folder",
        io::ErrorKind::InvalidInput => "it is not a file",
        _ => return failed(&format!("{path:?} cannot {what}"), error),
    };
    ErrorReport::new(Code::UnknownName, format!("{path:?} cannot {what}: {why}"))
        .field("path")
        .hint("workspace_list shows what is there")
}

/// A system call failed; its message contains no path.
pub fn failed(what: &str, error: &io::Error) -> ErrorReport {
    ErrorReport::new(Code::State, format!("{what}: {}", words(error)))
}

fn words(error: &io::Error) -> String {
    error
        .raw_os_error()
        .map_or_else(|| error.to_string(), |e| nix::errno::Errno::from_raw(e).desc().to_owned())
}

/// Converts an error of the store.
pub fn of_store(error: &StoreError) -> ErrorReport {
    use hotcell_workspace::store::StoreError as E;
    let invalid = |why: String, field: &str| ErrorReport::new(Code::InvalidValue, why).field(field);
    match error {
        E::Unknown(_) => unknown(),
        E::NoSnapshot(name) => {
            ErrorReport::new(Code::UnknownName, format!("the workspace has no snapshot {name:?}")).field("to")
        }
        E::SnapshotTaken(_) => invalid(error.to_string(), "name"),
        E::InUse(_) => ErrorReport::new(Code::Busy, "another call is using the workspace")
            .field("workspace_id")
            .hint("try again when it has ended"),
        E::Path(_) => invalid(error.to_string(), "path"),
        E::Quota { held, most } if held.bytes > most.bytes => {
            over("bytes in the workspace", held.bytes, most.bytes).field("files")
        }
        E::Quota { held, most } => {
            over("files and folders in the workspace", held.files, most.files).field("files")
        }
        E::Source { error, .. } => {
            failed("the workspace's folder cannot be read", error).field("workspace_id")
        }
        E::NoOriginal => invalid(
            "the workspace was not made over a folder, so there is nothing to commit to".to_owned(),
            "workspace_id",
        )
        .hint("workspace_export gives all of it"),
        E::Moved(paths) => conflict("changed in the workspace since the run began", paths),
        E::Commit(CommitError::Conflict(paths)) => {
            conflict("changed in the original since the workspace saw it", paths)
        }
        E::Commit(refused) => ErrorReport::new(Code::State, refused.to_string()),
        E::Io(error) => failed("the workspace cannot be used", error),
    }
}

fn conflict(what: &str, paths: &[std::path::PathBuf]) -> ErrorReport {
    let named: Vec<_> = paths.iter().take(MAX_PATHS).map(|p| format!("{:?}", p.to_string_lossy())).collect();
    let more = paths.len().saturating_sub(MAX_PATHS);
    let more = if more > 0 { format!(" and {more} more") } else { String::new() };
    ErrorReport::new(Code::InvalidValue, format!("{}{more} {what}; nothing was taken over", named.join(", ")))
        .field("workspace_id")
        .hint("a person looks at both; or workspace_discard, and change what is there now")
}
