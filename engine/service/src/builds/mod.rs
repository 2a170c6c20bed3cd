//! What compilers made once and runs get again: kept in the state folder under the digest of all that it was made from, and shown
//! copy-on-write, so that no run changes what another gets.

mod golang;

use std::fs;
use std::io;
use std::path::{Path, PathBuf};

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

/// Copies what a compiler left and is `wanted`, by its path there, under a name that nothing has until it is whole.
pub(crate) fn keep(target: &Folder, wanted: &dyn Fn(&Path) -> bool, place: &Path) -> io::Result<()> {
    let nothing = temporary::folder()?;
    let base = Folder::ours(nothing.path())?;
    let before = Stack::new([], &base);
    let on_top = Layer { folder: target, whole: true };
    let after = before.with(on_top);
    let all = changes(&before, &[on_top], &[], MOST_PATHS)?;
    let wanted: Vec<_> = all.into_iter().filter(|change| wanted(&change.path)).collect();
    let parent = place.parent().unwrap_or(Path::new("."));
    let unfinished = tempfile::Builder::new().prefix(".unfinished-").tempdir_in(parent)?;
    layer::write(&before, &after, &wanted, &Folder::ours(unfinished.path())?, How::Copied, None)?;
    // Compilers that go by times compile again what is older than what it was made of, so none is older than another.
    let now = TimeSpec::from_duration(std::time::UNIX_EPOCH.elapsed().map_err(io::Error::other)?);
    each(unfinished.path(), &mut |path, _| {
        Ok(utimensat(AT_FDCWD, path, &now, &now, UtimensatFlags::NoFollowSymlink)?)
    })?;
    fs::set_permissions(unfinished.path(), std::os::unix::fs::PermissionsExt::from_mode(0o755))?;
    match fs::rename(unfinished.path(), place) {
        // Somebody else compiled the same.
        Err(_) if is_folder(place) => Ok(()),
        renamed => renamed,
    }
}

/// Everything in a folder of our own, and how it is there; no link is followed.
fn each(folder: &Path, act: &mut dyn FnMut(&Path, &fs::Metadata) -> io::Result<()>) -> io::Result<()> {
    for entry in fs::read_dir(folder)? {
        let entry = entry?;
        let (path, about): (PathBuf, _) = (entry.path(), entry.metadata()?);
        if about.is_dir() {
            each(&path, act)?;
        }
        act(&path, &about)?;
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
    use std::os::unix::fs::{MetadataExt, PermissionsExt, symlink};

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
        fs::set_permissions(&script, fs::Permissions::from_mode(0o755)).unwrap();
        symlink("/etc/passwd", target.join("debug/build/a-2/out/link")).unwrap();
        let wanted = |path: &Path| !path.ends_with("debug/own") && !path.to_string_lossy().contains("own-1");
        let place = top.path().join("kept");
        for _ in 0..2 {
            keep(&Folder::open(&target).unwrap(), &wanted, &place).unwrap();
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
        assert_eq!(found.values().collect::<std::collections::BTreeSet<_>>().len(), 1, "{found:?}");
        let mode = place.join("debug/build/a-2/build-script-build").metadata().unwrap().permissions().mode();
        assert_eq!(mode & 0o111, 0o111);
        assert_eq!(fs::read_dir(top.path()).unwrap().count(), 2, "nothing unfinished is left");
    }
}
