//! The lock of a session: one driver works at it, and others can tell whether one does.

use std::fs::File;
use std::path::PathBuf;
use std::time::Duration;

use hotcell_state::report::{Code, ErrorReport};
use hotcell_state::state::StateFolder;

/// State in the journal of a session at which a driver works, or worked when it was killed.
pub(super) const RUNNING: &str = "running";
/// State of a session whose driver is gone, in lists.
const INTERRUPTED: &str = "interrupted";
/// Attempts at a lock: one that only looks holds it for a moment.
const ATTEMPTS: u32 = 5;
/// Pause between two attempts.
const PAUSE: Duration = Duration::from_millis(20);

fn path(folder: &StateFolder, id: &str) -> PathBuf {
    folder.path().join(format!("agent-{id}.lock"))
}

/// Locks a session. Blocks for at most a tenth of a second.
///
/// # Errors
/// A report when another driver works at it.
pub(super) fn take(folder: &StateFolder, id: &str) -> Result<File, ErrorReport> {
    let path = path(folder, id);
    let state = |e: std::io::Error| ErrorReport::new(Code::State, format!("{}: {e}", path.display()));
    let file = File::options().create(true).truncate(false).write(true).open(&path).map_err(state)?;
    for attempt in 1.. {
        match file.try_lock() {
            Ok(()) => break,
            Err(_) if attempt < ATTEMPTS => std::thread::sleep(PAUSE),
            Err(_) => {
                return Err(ErrorReport::new(
                    Code::Busy,
                    format!("another hotcell works at the session {id}"),
                )
                .hint("wait until it ends"));
            }
        }
    }
    Ok(file)
}

/// State of a session in a list: one that the journal calls running, and at which no driver works any more, is interrupted.
#[must_use]
pub fn listed_state(folder: &StateFolder, id: &str, state: &str) -> String {
    let is_held = || File::open(path(folder, id)).is_ok_and(|file| file.try_lock_shared().is_err());
    if state == RUNNING && !is_held() { INTERRUPTED.to_owned() } else { state.to_owned() }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn sessions_are_running_only_while_a_driver_holds_their_lock() {
        let root = tempfile::tempdir().unwrap();
        let folder = StateFolder::open(&root.path().join("state")).unwrap();
        let of = |state| listed_state(&folder, "8a874cba3173", state);
        assert_eq!((of("running"), of("converged")), ("interrupted".to_owned(), "converged".to_owned()));
        let lock = take(&folder, "8a874cba3173").unwrap();
        assert_eq!((of("running"), of("escalated")), ("running".to_owned(), "escalated".to_owned()));
        assert!(take(&folder, "8a874cba3173").is_err_and(|report| report.code == Code::Busy));
        drop(lock);
        assert_eq!(of("running"), "interrupted");
        take(&folder, "8a874cba3173").unwrap();
    }
}
