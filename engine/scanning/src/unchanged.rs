//! State of all entries of a folder, by which a later scan knows that none of them changed.

use std::fs::{self, File, Metadata};
use std::io;
use std::os::unix::ffi::OsStrExt;
use std::os::unix::fs::MetadataExt;
use std::path::Path;
use std::time::SystemTime;

use hotcell_workspace::settled::{self, Seen, boot_id, is_settled, moment, notes_changes};
use sha2::{Digest, Sha256};

/// Maximum number of entries that are looked at: 40 ms of them. A larger folder has others' packages, which a scan leaves out.
const MAX_ENTRIES: usize = 20_000;

/// State of a folder.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(crate) struct State {
    /// Digest of the start of the machine and of each entry: name, kind, and how the kernel describes it.
    pub(crate) digest: [u8; 32],
    /// All changes up to `now` have been noted: while the digest is this, the content is as it was.
    pub(crate) is_settled: bool,
}

/// State of a folder and all below it at the time `now`. Links are entries of their own. `None` where the state is not enough to know the content: on a file
/// system that does not note each change, with another one mounted in it, and in a folder with too many entries.
pub(crate) fn state(folder: &Path, now: SystemTime) -> Option<State> {
    described(folder, now)
        .inspect_err(|e| tracing::debug!("the state of {} cannot be known: {e}", folder.display()))
        .ok()
        .flatten()
}

/// Has every later change of a folder's files noted, also those through mappings that exist; false where that fails.
pub(crate) fn write_out(folder: &Path) -> bool {
    File::open(folder)
        .and_then(settled::write_out)
        .inspect_err(|e| {
            tracing::debug!("the file system of {} cannot be written out: {e}", folder.display());
        })
        .is_ok()
}

fn described(folder: &Path, now: SystemTime) -> io::Result<Option<State>> {
    let opened = File::open(folder)?;
    let about = opened.metadata()?;
    if !about.is_dir() || !notes_changes(&opened)? {
        return Ok(None);
    }
    let now = moment(now);
    let mut hash = Sha256::new();
    hash.update(boot_id()?);
    let (mut count, mut settled) = (0, true);
    let mut add = |name: &[u8], about: &Metadata| {
        let seen = Seen::of(about);
        settled &= is_settled(&seen, &seen, now);
        hash.update((name.len() as u64).to_le_bytes());
        hash.update(name);
        hash.update(about.mode().to_le_bytes());
        for number in [seen.device, seen.inode, seen.bytes] {
            hash.update(number.to_le_bytes());
        }
        for (seconds, nanos) in [seen.modified, seen.changed] {
            hash.update(seconds.to_le_bytes());
            hash.update(nanos.to_le_bytes());
        }
    };
    add(b"", &about);
    let mut folders = vec![folder.to_owned()];
    while let Some(folder) = folders.pop() {
        let mut entries = Vec::new();
        for entry in fs::read_dir(&folder)? {
            let entry = entry?;
            count += 1;
            let found = entry.metadata()?;
            if count > MAX_ENTRIES || found.dev() != about.dev() {
                return Ok(None);
            }
            entries.push((entry.file_name(), found));
        }
        entries.sort_unstable_by(|(a, _), (b, _)| a.cmp(b));
        // The end of the folder: its entries are not those of the next.
        add(b"/", &about);
        for (name, found) in entries {
            add(name.as_bytes(), &found);
            if found.is_dir() {
                folders.push(folder.join(name));
            }
        }
    }
    Ok(Some(State { digest: hash.finalize().into(), is_settled: settled }))
}

#[cfg(test)]
mod tests {
    use std::collections::BTreeMap;
    use std::os::unix::fs::{PermissionsExt, symlink};
    use std::time::Duration;

    use proptest::prelude::*;

    use super::*;

    /// A moment at which what a test has written is settled.
    fn later() -> SystemTime {
        SystemTime::now() + Duration::from_secs(3600)
    }

    /// A folder with two files, a folder and a link; `None` where the file system does not note changes, as `tmpfs`.
    fn folder() -> Option<tempfile::TempDir> {
        let dir = tempfile::tempdir().unwrap();
        fs::create_dir(dir.path().join("d")).unwrap();
        fs::write(dir.path().join("d/a"), "text of a").unwrap();
        fs::write(dir.path().join("b"), "text of b").unwrap();
        symlink("b", dir.path().join("l")).unwrap();
        // The clock of file systems has ticks of up to 10 ms before Linux 6.13.
        std::thread::sleep(Duration::from_millis(25));
        let notes = notes_changes(File::open(dir.path()).unwrap()).unwrap();
        notes.then_some(dir)
    }

    #[test]
    fn states_are_settled_when_all_entries_are_old() {
        let Some(dir) = folder() else { return };
        let young = state(dir.path(), SystemTime::now()).unwrap();
        let old = state(dir.path(), later()).unwrap();
        assert_eq!((young.is_settled, old.is_settled), (false, true));
        assert_eq!(young.digest, old.digest);
        fs::File::options().write(true).open(dir.path().join("d/a")).unwrap().set_modified(later()).unwrap();
        assert!(!state(dir.path(), later()).unwrap().is_settled, "a time of the future");
        assert_eq!(state(&dir.path().join("b"), later()), None, "a file");
        assert_eq!(state(&dir.path().join("none"), later()), None);
        assert_eq!(state(Path::new("/proc/self"), later()), None);
    }

    /// Each way in which a program changes a folder, also one that keeps sizes and sets times back.
    #[test]
    fn each_change_changes_the_state() {
        let Some(dir) = folder() else { return };
        let at = |name: &str| dir.path().join(name);
        let keeping = |name: &str, change: &dyn Fn()| {
            let before = fs::metadata(at(name)).unwrap().modified().unwrap();
            change();
            fs::File::options().write(true).open(at(name)).unwrap().set_modified(before).unwrap();
        };
        type Way<'w> = &'w dyn Fn();
        let ways: [(&str, Way<'_>); 12] = [
            ("overwritten", &|| fs::write(at("d/a"), "TEXT of a").unwrap()),
            ("overwritten, time set back", &|| {
                keeping("d/a", &|| fs::write(at("d/a"), "Text of a").unwrap());
            }),
            ("replaced, time set back", &|| {
                keeping("b", &|| {
                    fs::write(at("n"), "other b!!").unwrap();
                    fs::rename(at("n"), at("b")).unwrap();
                });
            }),
            ("a new file", &|| fs::write(at("d/c"), "").unwrap()),
            ("a new folder", &|| fs::create_dir(at("d/e")).unwrap()),
            ("a removed folder", &|| fs::remove_dir(at("d/e")).unwrap()),
            ("another name", &|| fs::rename(at("d/c"), at("d/f")).unwrap()),
            ("another folder", &|| fs::rename(at("d/f"), at("f")).unwrap()),
            ("a removed file", &|| fs::remove_file(at("f")).unwrap()),
            ("another mode", &|| fs::set_permissions(at("b"), PermissionsExt::from_mode(0o700)).unwrap()),
            ("another name of a file", &|| fs::hard_link(at("b"), at("h")).unwrap()),
            ("another target", &|| {
                fs::remove_file(at("l")).unwrap();
                symlink("a", at("l")).unwrap();
            }),
        ];
        let mut known = BTreeMap::from([(state(dir.path(), later()).unwrap().digest, "at first")]);
        for (way, change) in ways {
            change();
            std::thread::sleep(Duration::from_millis(25));
            let now = state(dir.path(), later()).unwrap().digest;
            assert_eq!(state(dir.path(), later()).unwrap().digest, now, "{way}");
            assert_eq!(known.insert(now, way), None, "{way}");
        }
    }

    #[test]
    fn large_folders_have_no_state() {
        let Some(dir) = folder() else { return };
        // Hard links are entries, and take no room.
        for at in 0..=MAX_ENTRIES / 10_000 {
            let below = dir.path().join(format!("many{at}"));
            fs::create_dir(&below).unwrap();
            (0..10_000).for_each(|n| fs::hard_link(dir.path().join("b"), below.join(n.to_string())).unwrap());
        }
        assert_eq!(state(dir.path(), later()), None);
    }

    proptest! {
        #![proptest_config(ProptestConfig::with_cases(48))]

        /// Folders of other names or places have other states, whatever the order in which they were made.
        #[test]
        fn entries_have_places(names in prop::collection::btree_set("(a|b)(/(a|b)){0,2}", 1..6), moved in any::<prop::sample::Index>()) {
            let Some(dir) = folder() else { return Ok(()) };
            for name in &names {
                fs::create_dir_all(dir.path().join("t").join(name)).unwrap();
            }
            let before = state(dir.path(), later()).unwrap();
            prop_assert_eq!(&state(dir.path(), later()).unwrap(), &before);
            let names: Vec<_> = names.into_iter().collect();
            let from = dir.path().join("t").join(moved.get(&names));
            fs::rename(&from, dir.path().join("moved")).unwrap();
            prop_assert_ne!(&state(dir.path(), later()).unwrap().digest, &before.digest);
        }
    }
}
