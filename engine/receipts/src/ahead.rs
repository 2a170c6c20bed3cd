//! The database of receipts, opened while a run goes on, so that the run's end waits for one transaction and not for opening SQLite.
//!
//! The connection is idle meanwhile: it holds no lock that another process would wait for, and nothing is written. A receipt takes it out of the
//! pool, which checks that the files are still those of the state folder.
//!
//! A process that closes any descriptor of a file loses its locks on it (fcntl_locking(2)), SQLite's too. So the database is not opened ahead of
//! a run for which this process reads the database's files by other means, such as one with the state folder in its workspace.

use std::path::{Path, PathBuf};
use std::thread::{Builder, JoinHandle};

use hotcell_review::quarantine::{QuarantineConfig, QuarantineError};
use hotcell_state::state::DATABASE;
use rustix::process::{Resource, getrlimit};

use crate::record;

/// Size of the thread's stack, in bytes. SQLite needs some 50 KiB of it, a development build's own frames as much again.
const STACK_BYTES: usize = 512 * 1024;

/// Smallest limit of open files with which the database is opened ahead: a run needs some 30, the open database three, and opening it three more.
const MIN_OPEN_FILES: u64 = 64;

/// A database that is being opened.
#[derive(Debug)]
pub struct Ahead(State);

#[derive(Debug)]
enum State {
    Opening(JoinHandle<bool>),
    Done(bool),
}

impl Ahead {
    /// Opens the database of these settings on a thread of its own, unless this process reads it otherwise: `read` are the files and folders
    /// that a run takes from the host.
    pub(crate) fn open(config: &QuarantineConfig, read: Vec<PathBuf>) -> Self {
        let config = config.clone();
        let opening = move || {
            let state = config.state.path().ok().and_then(|path| path.canonicalize().ok());
            // The receipt opens it where that fails here, and says so.
            has_room(getrlimit(Resource::Nofile).current)
                && state.is_some_and(|state| !is_read(&state, &read))
                && opened(&config).is_ok()
        };
        let thread = Builder::new().name("receipts".to_owned()).stack_size(STACK_BYTES).spawn(opening);
        Self(thread.map_or(State::Done(false), State::Opening))
    }

    /// Whether the database is open. Waits until it is, or cannot be opened.
    pub fn is_open(&mut self) -> bool {
        let is_open = match std::mem::replace(&mut self.0, State::Done(false)) {
            State::Opening(thread) => thread.join().unwrap_or(false),
            State::Done(is_open) => is_open,
        };
        self.0 = State::Done(is_open);
        is_open
    }
}

/// Leaves an open connection with compiled statements and the pages that they read in the pool, and the user who acts in memory.
fn opened(config: &QuarantineConfig) -> Result<(), QuarantineError> {
    let _known = config.actor();
    let quarantine = config.open()?;
    record::prepare(&quarantine)?;
    record::place(&quarantine, "").map(drop)
}

/// Whether a limit of open files, if there is one, leaves room beside the run.
fn has_room(limit: Option<u64>) -> bool {
    limit.is_none_or(|limit| limit >= MIN_OPEN_FILES)
}

/// Whether a run reads files of the database in a state folder, a path without links. Names of its files count in every folder: a link may
/// lead there. Pure for paths that do not exist.
fn is_read(state: &Path, read: &[PathBuf]) -> bool {
    read.iter().any(|path| {
        let named = path.file_name().and_then(|name| name.to_str());
        named.is_some_and(|name| name.starts_with(DATABASE))
            || state.starts_with(path.canonicalize().as_deref().unwrap_or(path))
    })
}

#[cfg(test)]
mod tests {
    use std::collections::BTreeSet;

    use hotcell_guard::quarantine::Channel;
    use hotcell_state::StateFolder;
    use hotcell_state::state::StateChoice;

    use super::*;

    fn config(state: PathBuf) -> QuarantineConfig {
        QuarantineConfig {
            state: StateChoice::Named(state),
            channel: Channel::Cli,
            two_persons: false,
            team: BTreeSet::new(),
            retention: hotcell_review::quarantine::DEFAULT_RETENTION,
        }
    }

    #[test]
    fn runs_that_read_the_database_are_known() {
        let dir = tempfile::tempdir().unwrap();
        let at = dir.path().canonicalize().unwrap();
        let state = at.join("project/state");
        std::fs::create_dir_all(state.join("workspaces/w")).unwrap();
        std::fs::create_dir(at.join("other")).unwrap();
        std::os::unix::fs::symlink(at.join("project"), at.join("link")).unwrap();
        for (path, read) in [
            (at.join("project"), true),
            (at.join("link"), true),
            (at.join("other/../project"), true),
            (state.clone(), true),
            (PathBuf::from("/"), true),
            (at.join("other"), false),
            (state.join("workspaces/w"), false),
            (at.join("project/stat"), false),
            (at.join("none"), false),
            // By name, wherever a link leads.
            (PathBuf::from("hotcell.db"), true),
            (state.join("hotcell.db-shm"), true),
            (at.join("other/hotcell.db-wal"), true),
            (at.join("other/x.py"), false),
        ] {
            assert_eq!(is_read(&state, std::slice::from_ref(&path)), read, "{}", path.display());
            assert_eq!(is_read(&state, &[at.join("other"), path.clone()]), read, "{}", path.display());
        }
        assert!(!is_read(&state, &[]));
    }

    #[test]
    fn few_open_files_are_left_to_the_run() {
        for (limit, room) in [(Some(0), false), (Some(63), false), (Some(64), true), (None, true)] {
            assert_eq!(has_room(limit), room, "{limit:?}");
        }
    }

    #[test]
    fn database_is_opened_once_and_tells_why_not() {
        let dir = tempfile::tempdir().unwrap();
        let state = dir.path().join("state");
        StateFolder::open(&state).unwrap();
        let config = config(state.clone());
        let mut ahead = Ahead::open(&config, vec![state.clone()]);
        assert!(!ahead.is_open(), "the run reads it");
        assert!(!state.join(DATABASE).exists());
        let mut ahead = Ahead::open(&config, Vec::new());
        assert!(ahead.is_open() && ahead.is_open());
        // Others write meanwhile.
        let other = rusqlite_of(&state);
        other.execute_batch("BEGIN IMMEDIATE; ROLLBACK").unwrap();
        let quarantine = config.open().unwrap();
        assert_eq!(record::place(&quarantine, "x").unwrap().number, 1);
        // A file that is not a database.
        let broken = dir.path().join("broken");
        StateFolder::open(&broken).unwrap();
        std::fs::write(broken.join(DATABASE), "x".repeat(8192)).unwrap();
        let mut ahead = Ahead::open(&self::config(broken), Vec::new());
        assert!(!ahead.is_open());
        assert!(!Ahead::open(&self::config(dir.path().join("none")), Vec::new()).is_open());
    }

    /// A connection as another process has it.
    fn rusqlite_of(state: &Path) -> hotcell_state::database::Connection {
        hotcell_state::database::Connection::open(state.join(DATABASE)).unwrap()
    }
}
