//! The service's own folder in the state folder. A lock shows that the service is alive; folders of dead
//! services are removed.

use std::io;
use std::path::{Path, PathBuf};

use cap_std::fs::{Dir, OpenOptions, OpenOptionsExt};
use hotcell_state::ids::random_hex;
use hotcell_state::report::{Code, ErrorReport};
use hotcell_state::state::{StateFolder, make_private};
use nix::fcntl::{Flock, FlockArg};

/// Folder of all services in the state folder.
const ALL: &str = "live";
/// File that is locked while its service is alive.
const LOCK: &str = "lock";
/// File that is locked while a service creates its folder.
const TURN: &str = "turn";

/// This service's own folder, removed when this is dropped.
#[derive(Debug)]
pub struct ServiceFolder {
    dir: Dir,
    path: PathBuf,
    name: String,
    all: Dir,
    _lock: Flock<std::fs::File>,
}

impl ServiceFolder {
    /// Creates it, and removes those of dead services.
    ///
    /// # Errors
    /// A report when the state folder cannot be used.
    pub fn make(state: &StateFolder) -> Result<Self, ErrorReport> {
        Self::try_make(state).map_err(|e| {
            ErrorReport::new(
                Code::State,
                format!("the state folder {} cannot be used: {e}", state.path().display()),
            )
            .parameter("state")
            .hint("make it writable, or name another")
        })
    }

    fn try_make(state: &StateFolder) -> io::Result<Self> {
        make_private(state.dir(), ALL)?;
        let all = state.dir().open_dir(ALL)?;
        // One service at a time: a new folder without a lock looks like that of a dead service.
        let _turn = Flock::lock(open_lock(&all, TURN)?, FlockArg::LockExclusive).map_err(|(_, e)| e)?;
        remove_the_dead(&all)?;
        let name = random_hex(16).map_err(io::Error::other)?;
        make_private(&all, &name)?;
        let dir = all.open_dir(&name)?;
        let lock = lock(&dir)?.ok_or_else(|| io::Error::other("a new lock is held by another"))?;
        Ok(Self { path: state.path().join(ALL).join(&name), dir, name, all, _lock: lock })
    }

    /// The open folder.
    #[must_use]
    pub fn dir(&self) -> &Dir {
        &self.dir
    }

    /// Path on the host.
    #[must_use]
    pub fn path(&self) -> &Path {
        &self.path
    }
}

impl Drop for ServiceFolder {
    fn drop(&mut self) {
        if let Err(error) = self.all.remove_dir_all(&self.name) {
            tracing::warn!("{} is left behind: {error}", self.path.display());
        }
    }
}

fn open_lock(dir: &Dir, name: &str) -> io::Result<std::fs::File> {
    let mut options = OpenOptions::new();
    options.read(true).write(true).create(true).mode(0o600);
    Ok(dir.open_with(name, &options)?.into_std())
}

/// Locks a service's folder; `None` when the service is alive.
fn lock(dir: &Dir) -> io::Result<Option<Flock<std::fs::File>>> {
    match Flock::lock(open_lock(dir, LOCK)?, FlockArg::LockExclusiveNonblock) {
        Ok(lock) => Ok(Some(lock)),
        Err((_, nix::errno::Errno::EWOULDBLOCK)) => Ok(None),
        Err((_, e)) => Err(e.into()),
    }
}

/// True when the service with this folder name is alive.
pub fn lives(state: &StateFolder, name: &str) -> bool {
    let own = state.dir().open_dir(ALL).and_then(|all| all.open_dir(name));
    own.is_ok_and(|dir| matches!(lock(&dir), Ok(None)))
}

fn remove_the_dead(all: &Dir) -> io::Result<()> {
    for entry in all.entries()? {
        let name = entry?.file_name();
        let Ok(dir) = all.open_dir(&name) else { continue };
        if let Ok(Some(_held)) = lock(&dir)
            && let Err(error) = all.remove_dir_all(&name)
        {
            tracing::warn!("what a dead service left cannot be removed: {error}");
        }
    }
    Ok(())
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn concurrent_services_make_separate_folders() {
        let dir = tempfile::tempdir().unwrap();
        let make = || ServiceFolder::make(&StateFolder::open(&dir.path().join("state")).unwrap()).unwrap();
        make();
        std::thread::scope(|scope| {
            let all: Vec<_> = (0..8).map(|_| scope.spawn(make)).collect();
            let all: Vec<_> = all.into_iter().map(|t| t.join().unwrap()).collect();
            assert!(all.iter().all(|f| f.path().exists()));
        });
    }

    #[test]
    fn dead_service_folder_is_removed() {
        let dir = tempfile::tempdir().unwrap();
        let open = || StateFolder::open(&dir.path().join("state")).unwrap();
        let living = ServiceFolder::make(&open()).unwrap();
        // A killed service leaves a folder with a free lock.
        let dead = dir.path().join("state/live/dead");
        std::fs::create_dir_all(dead.join("w/x")).unwrap();
        std::fs::write(dead.join(LOCK), "").unwrap();
        std::os::unix::fs::symlink("/etc", dead.join("link")).unwrap();
        let second = ServiceFolder::make(&open()).unwrap();
        assert!(!dead.exists() && living.path().exists() && Path::new("/etc").exists());
        let path = second.path().to_owned();
        drop(second);
        assert!(!path.exists() && living.path().exists());
    }
}
