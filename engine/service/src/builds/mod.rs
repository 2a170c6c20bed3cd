//! What compilers made once and runs get again: kept in the state folder under the digest of all that it was made from, and shown
//! copy-on-write, so that no run changes what another gets.

mod golang;

use std::fs;
use std::io;
use std::os::unix::fs::PermissionsExt;
use std::path::{Path, PathBuf};
use std::time::{Duration, SystemTime};

use hotcell_sandbox::policy::Bind;
use hotcell_sandbox::{Bytes, temporary};
use hotcell_workspace::layer::Bytes as How;
use hotcell_workspace::{Folder, Layer, Stack, changes, layer};
use nix::fcntl::AT_FDCWD;
use nix::sys::stat::{UtimensatFlags, utimensat};
use nix::sys::time::TimeSpec;

pub(crate) use golang::standard_library;

/// Paths that a compiler may leave.
const MOST_PATHS: usize = 500_000;
/// The beginning of the name of what is not whole yet.
pub(crate) const UNFINISHED: &str = ".unfinished-";
/// After this long it never will be.
const ABANDONED: Duration = Duration::from_secs(24 * 3600);
/// What nobody has used for so long goes when something else is made.
const UNUSED: Duration = Duration::from_secs(30 * 24 * 3600);
/// After this long what failed is tried again.
const AGAIN: Duration = Duration::from_secs(3600);
/// What is shown by copying, where the kernel cannot do better, takes its place of a run's disk: at most one part in so many.
const SHARE: u64 = 4;

/// A folder itself, not what a link says.
pub(crate) fn is_folder(path: &Path) -> bool {
    fs::symlink_metadata(path).is_ok_and(|about| about.is_dir())
}

/// How runs with so much disk see what is kept; `None`, with a warning, where that is too little.
pub(crate) fn bind(place: &Path, inside: &Path, disk: Bytes) -> Option<Bind> {
    match size(place) {
        Ok(bytes) if bytes <= disk.0 / SHARE => Some(Bind {
            host: place.to_owned(),
            inside: inside.to_owned(),
            writable: false,
            copy_on_write: true,
            identity: None,
        }),
        Ok(bytes) => {
            tracing::warn!(
                "what was compiled before has {bytes} bytes and is not used: --disk is less than {SHARE} times that"
            );
            None
        }
        Err(e) => {
            tracing::warn!("what was compiled before cannot be used: {}: {e}", place.display());
            None
        }
    }
}

/// Older than whatever a run may have changed: compilers that go by times then compile again what was made from that.
pub(crate) const LONG_AGO: i64 = 0;
/// The year 2037: caches that remove what was not used lately, or say of each file that it was, leave it alone.
pub(crate) const NEVER_OLD: i64 = 2_114_380_800;

/// Copies what a compiler left and is `wanted`, by its path there, under a name that nothing has until it is whole. All of it is
/// `dated` the same, in seconds of Unix time.
///
/// # Errors
/// What the system says; or that it is more than `most` bytes, which a compiler that had so much room can only have made of holes.
pub(crate) fn keep(
    target: &Folder,
    wanted: &dyn Fn(&Path) -> bool,
    most: Bytes,
    dated: i64,
    place: &Path,
) -> io::Result<()> {
    let nothing = temporary::folder()?;
    let base = Folder::ours(nothing.path())?;
    let before = Stack::new([], &base);
    let on_top = Layer { folder: target, whole: true };
    let after = before.with(on_top);
    let all = changes(&before, &[on_top], &[], MOST_PATHS)?;
    let wanted: Vec<_> = all.into_iter().filter(|change| wanted(&change.path)).collect();
    fits(&wanted, most)?;
    let parent = place.parent().unwrap_or(Path::new("."));
    tidy(parent);
    let unfinished = tempfile::Builder::new().prefix(UNFINISHED).tempdir_in(parent)?;
    let folder = Folder::ours(unfinished.path())?;
    layer::write(&before, &after, &wanted, &folder, How::Copied, None)?;
    let time = TimeSpec::new(dated, 0);
    each(unfinished.path(), &mut |path, about| {
        // Where root runs hotcell a sandbox is somebody else to the host, who has to read what its compiler kept for itself.
        let mode = about.permissions().mode() & 0o777;
        let runs = if about.is_dir() || mode & 0o111 != 0 { 0o111 } else { 0 };
        let owner = if about.is_dir() { 0o700 } else { 0 };
        if !about.is_symlink() {
            fs::set_permissions(path, fs::Permissions::from_mode(mode | 0o444 | runs | owner))?;
        }
        Ok(utimensat(AT_FDCWD, path, &time, &time, UtimensatFlags::NoFollowSymlink)?)
    })?;
    fs::set_permissions(unfinished.path(), fs::Permissions::from_mode(0o755))?;
    // A name that stands for half of it would never be made anew.
    folder.sync()?;
    match fs::rename(unfinished.path(), place) {
        // Somebody else compiled the same.
        Err(_) if is_folder(place) => Ok(()),
        renamed => renamed,
    }
}

/// Refuses what is more than there was room for: a file can be longer than what it takes.
pub(crate) fn fits(changes: &[hotcell_workspace::Change], most: Bytes) -> io::Result<()> {
    let held = layer::held(changes).bytes;
    match held > most.0 {
        true => Err(io::Error::other(format!("its files have {held} bytes, and {} were allowed", most.0))),
        false => Ok(()),
    }
}

/// Says that something is used, so that it stays.
pub(crate) fn touch(place: &Path) {
    // Who may not write there uses it all the same.
    let _ = fs::File::open(place).and_then(|folder| folder.set_modified(SystemTime::now()));
}

/// Removes from a folder of ours what was never finished, since whoever made it was killed, and what nobody has used for long.
pub(crate) fn tidy(parent: &Path) {
    let Ok(folder) = Folder::ours(parent) else { return };
    for entry in fs::read_dir(parent).into_iter().flatten().flatten() {
        let age = || entry.metadata().ok()?.modified().ok()?.elapsed().ok();
        let unfinished = entry.file_name().to_string_lossy().starts_with(UNFINISHED);
        let most = if unfinished { ABANDONED } else { UNUSED };
        if age().is_some_and(|age| age > most)
            && let Err(e) = folder.remove_all(Path::new(&entry.file_name()))
        {
            tracing::info!("{} cannot be removed: {e}", entry.path().display());
        }
    }
}

/// Whether the same was tried in vain a short while ago, and why. It is tried again after that.
pub(crate) fn in_vain(place: &Path) -> Option<String> {
    let marker = place.with_extension("failed");
    let age = fs::metadata(&marker).ok()?.modified().ok()?.elapsed().unwrap_or_default();
    (age < AGAIN).then(|| fs::read_to_string(&marker).unwrap_or_default())
}

/// Remembers that.
pub(crate) fn remember_in_vain(place: &Path, why: &str) {
    let _ = fs::write(place.with_extension("failed"), why);
}

/// Everything in a folder of our own, and how it is there, folders before what is in them; no link is followed.
fn each(folder: &Path, act: &mut dyn FnMut(&Path, &fs::Metadata) -> io::Result<()>) -> io::Result<()> {
    for entry in fs::read_dir(folder)? {
        let entry = entry?;
        let (path, about): (PathBuf, _) = (entry.path(), entry.metadata()?);
        act(&path, &about)?;
        if about.is_dir() {
            each(&path, act)?;
        }
    }
    Ok(())
}

fn size(folder: &Path) -> io::Result<u64> {
    let mut bytes = 0;
    each(folder, &mut |_, about| {
        bytes += about.len();
        Ok(())
    })?;
    Ok(bytes)
}

#[cfg(test)]
mod tests {
    use super::*;
    use std::collections::BTreeMap;
    use std::os::unix::fs::{MetadataExt, symlink};

    #[test]
    fn what_is_kept_is_what_is_wanted_all_of_one_time_and_as_it_was() {
        let top = tempfile::tempdir().unwrap();
        let target = top.path().join("target");
        for folder in
            ["debug/.fingerprint/a-1", "debug/.fingerprint/own-1", "debug/deps", "debug/build/a-2/out"]
        {
            fs::create_dir_all(target.join(folder)).unwrap();
        }
        for file in [
            "debug/.fingerprint/a-1/lib",
            "debug/.fingerprint/own-1/lib",
            "debug/deps/liba-1.rlib",
            "debug/own",
        ] {
            fs::write(target.join(file), file).unwrap();
        }
        let script = target.join("debug/build/a-2/build-script-build");
        fs::write(&script, "x").unwrap();
        fs::set_permissions(&script, fs::Permissions::from_mode(0o700)).unwrap();
        let own = target.join("debug/deps/liba-1.rlib");
        fs::set_permissions(&own, fs::Permissions::from_mode(0o600)).unwrap();
        symlink("/etc/passwd", target.join("debug/build/a-2/out/link")).unwrap();
        let wanted = |path: &Path| !path.ends_with("debug/own") && !path.to_string_lossy().contains("own-1");
        let place = top.path().join("kept");
        for _ in 0..2 {
            keep(&Folder::open(&target).unwrap(), &wanted, Bytes::mib(1), LONG_AGO, &place).unwrap();
        }
        let mut found = BTreeMap::new();
        each(&place, &mut |path, about| {
            found.insert(
                path.strip_prefix(&place).unwrap().display().to_string(),
                (about.mtime(), about.mtime_nsec()),
            );
            Ok(())
        })
        .unwrap();
        let names: Vec<&str> = found.keys().map(String::as_str).collect();
        assert_eq!(
            names,
            [
                "debug",
                "debug/.fingerprint",
                "debug/.fingerprint/a-1",
                "debug/.fingerprint/a-1/lib",
                "debug/build",
                "debug/build/a-2",
                "debug/build/a-2/build-script-build",
                "debug/build/a-2/out",
                "debug/build/a-2/out/link",
                "debug/deps",
                "debug/deps/liba-1.rlib",
            ]
        );
        assert!(found.values().all(|time| *time == (0, 0)), "{found:?}");
        for (file, want) in [("debug/build/a-2/build-script-build", 0o755), ("debug/deps/liba-1.rlib", 0o644)]
        {
            assert_eq!(place.join(file).metadata().unwrap().permissions().mode() & 0o777, want, "{file}");
        }
        assert_eq!(fs::read_dir(top.path()).unwrap().count(), 2, "nothing unfinished is left");
        // What was abandoned goes with the next one.
        for (name, age) in
            [(".unfinished-old", 25), (".unfinished-new", 23), ("unused", 31 * 24), ("used", 29 * 24)]
        {
            let folder = top.path().join(name);
            fs::create_dir_all(folder.join("in")).unwrap();
            let at = std::time::SystemTime::now() - Duration::from_secs(age * 3600);
            fs::File::open(&folder).unwrap().set_modified(at).unwrap();
        }
        let other = top.path().join("other");
        keep(&Folder::open(&target).unwrap(), &wanted, Bytes::mib(1), LONG_AGO, &other).unwrap();
        for (name, stays) in
            [(".unfinished-old", false), (".unfinished-new", true), ("unused", false), ("used", true)]
        {
            assert_eq!(top.path().join(name).exists(), stays, "{name}");
        }
        // What is longer than there was room for.
        let hole = fs::File::create(target.join("debug/deps/hole")).unwrap();
        hole.set_len(2 << 20).unwrap();
        let error =
            keep(&Folder::open(&target).unwrap(), &wanted, Bytes::mib(1), LONG_AGO, &top.path().join("more"))
                .unwrap_err();
        assert!(error.to_string().contains("were allowed"), "{error}");
        assert!(!top.path().join("more").exists());
        // What failed is not tried at once again.
        let place = top.path().join("failed");
        assert_eq!(in_vain(&place), None);
        remember_in_vain(&place, "why");
        assert_eq!(in_vain(&place).as_deref(), Some("why"));
        let marker = fs::File::options().write(true).open(place.with_extension("failed")).unwrap();
        marker.set_modified(SystemTime::now() - Duration::from_secs(3700)).unwrap();
        assert_eq!(in_vain(&place), None);
    }
}
