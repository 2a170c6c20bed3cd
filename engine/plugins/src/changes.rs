//! Watches for changes of the tools: by a person, or because files that plugins came from were compiled
//! again.

use std::collections::HashMap;
use std::os::unix::fs::MetadataExt;
use std::path::{Path, PathBuf};
use std::sync::{Arc, Weak};
use std::time::Duration;

use tokio::sync::watch;

use super::caller::Caller;
use super::rows::Plugin;

/// Interval between checks.
const CHECK_INTERVAL: Duration = Duration::from_secs(1);
/// Maximum number of files checked in a folder.
const MAX_FILES: usize = 4096;

/// Identifies a file's state without reading it.
type Stamp = (PathBuf, u64, u64, i64, i64);

impl Caller {
    /// Counts changes of the list of tools, grants included, and of what else plugins serve. The first call starts a check every second,
    /// until the caller is dropped; plugins whose files changed are read again.
    ///
    /// # Panics
    /// Outside of a tokio runtime.
    #[must_use]
    pub fn changes(self: &Arc<Self>) -> watch::Receiver<u64> {
        let begin = || {
            let (sender, receiver) = watch::channel(0);
            tokio::spawn(look(Arc::downgrade(self), sender));
            receiver
        };
        let mut changes = self.changes.get_or_init(begin).clone();
        changes.mark_unchanged();
        changes
    }
}

async fn look(caller: Weak<Caller>, sender: watch::Sender<u64>) {
    let (mut known, mut files) = (None, Files::default());
    loop {
        let Some(caller) = caller.upgrade() else { return };
        let plugins = caller.plugins().clone();
        let changed = |plugin: &Plugin| files.changed(plugin);
        if let Err(report) = plugins.refresh(caller.hosts(), changed).await {
            tracing::debug!("plugins cannot be read again: {report}");
        }
        drop(caller);
        let list = move || Some((plugins.list().ok()?, plugins.serving().ok()?));
        let now = tokio::task::spawn_blocking(list).await.ok().flatten();
        if let Some(now) = now
            && known.as_ref() != Some(&now)
            && known.replace(now).is_some()
        {
            sender.send_modify(|count| *count += 1);
        }
        tokio::time::sleep(CHECK_INTERVAL).await;
    }
}

/// Files that plugins came from, as last seen, by the plugins' names.
#[derive(Default)]
struct Files(HashMap<String, Vec<Stamp>>);

impl Files {
    /// True when a plugin's files changed since the last call, and on the first call.
    fn changed(&mut self, plugin: &Plugin) -> bool {
        let now = stamps(Path::new(&plugin.version.place));
        self.0.insert(plugin.name.clone(), now.clone()).is_none_or(|before| before != now)
    }
}

/// For a component: itself and its signature. For a folder: everything in it.
fn stamps(place: &Path) -> Vec<Stamp> {
    let mut paths = vec![place.to_owned(), PathBuf::from(format!("{}.minisig", place.display()))];
    if let Ok(entries) = place.read_dir() {
        paths.extend(entries.take(MAX_FILES).filter_map(|entry| Some(entry.ok()?.path())));
        paths.sort();
    }
    let of = |path: PathBuf| {
        let about = path.metadata().ok()?;
        Some((path, about.ino(), about.size(), about.ctime(), about.ctime_nsec()))
    };
    paths.into_iter().filter_map(of).collect()
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn files_are_others_once_they_were_written() {
        let dir = tempfile::tempdir().unwrap();
        let (component, folder) = (dir.path().join("a.wasm"), dir.path().join("folder"));
        assert_eq!(stamps(&component), []);
        std::fs::create_dir(&folder).unwrap();
        for (place, file) in
            [(&component, "a.wasm"), (&component, "a.wasm.minisig"), (&folder, "folder/plugin.toml")]
        {
            let before = stamps(place);
            assert_eq!(stamps(place), before);
            std::fs::write(dir.path().join(file), file).unwrap();
            let after = stamps(place);
            assert_ne!(after, before, "{file} is new");
            std::fs::write(dir.path().join(file), "longer than it was before").unwrap();
            assert_ne!(stamps(place), after, "{file} was written");
        }
    }

    #[test]
    fn folder_stamps_are_limited() {
        let dir = tempfile::tempdir().unwrap();
        for number in 0..MAX_FILES + 100 {
            std::fs::File::create(dir.path().join(number.to_string())).unwrap();
        }
        // Plus the folder itself.
        assert_eq!(stamps(dir.path()).len(), MAX_FILES + 1);
    }
}
