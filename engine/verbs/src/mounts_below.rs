//! Mounts below the workspace, such as cache volumes and host folders in a container: a copy-on-write folder
//! shows only its own file system, so each mount is shown by a bind of its own.

use std::ffi::OsString;
use std::os::unix::ffi::OsStringExt;
use std::path::{Path, PathBuf};

use hotcell_sandbox::policy::{Bind, PROJECT};

/// File systems of the kernel: they hold no project files, and expose the host.
const OF_THE_KERNEL: [&str; 22] = [
    "proc",
    "sysfs",
    "devtmpfs",
    "devpts",
    "cgroup",
    "cgroup2",
    "mqueue",
    "securityfs",
    "debugfs",
    "tracefs",
    "bpf",
    "binfmt_misc",
    "configfs",
    "pstore",
    "autofs",
    "fusectl",
    "efivarfs",
    "hugetlbfs",
    "rpc_pipefs",
    "nsfs",
    "selinuxfs",
    "nfsd",
];

/// A mount of `/proc/self/mountinfo`.
#[derive(Clone, Debug, PartialEq, Eq, PartialOrd, Ord)]
struct Mounted {
    at: PathBuf,
    kind: String,
}

/// Binds that show the mounts below a workspace, which is a path without links.
///
/// # Errors
/// A sentence that names the mount which cannot be shown, or says why the mount table cannot be read.
pub fn binds(workspace: &Path) -> Result<Vec<Bind>, String> {
    let table = match std::fs::read("/proc/self/mountinfo") {
        Ok(table) => table,
        Err(e) => return Err(format!("what is mounted in {} cannot be told: {e}", workspace.display())),
    };
    below(&table, workspace).into_iter().map(|mounted| bind(workspace, &mounted)).collect()
}

fn bind(workspace: &Path, mounted: &Mounted) -> Result<Bind, String> {
    let Mounted { at, kind } = mounted;
    let cannot = |why: &str| {
        format!(
            "{} is mounted in the workspace ({kind}) and cannot be shown: {why}; unmount it, or name another folder",
            at.display()
        )
    };
    if OF_THE_KERNEL.contains(&kind.as_str()) {
        return Err(cannot("it is the kernel's own"));
    }
    let about = at.symlink_metadata().map_err(|e| cannot(&e.to_string()))?;
    if !about.is_dir() && !about.is_file() {
        return Err(cannot("it is neither a file nor a folder"));
    }
    let below = at.strip_prefix(workspace).unwrap_or(at);
    Ok(Bind {
        host: at.clone(),
        inside: Path::new(PROJECT).join(below),
        writable: false,
        copy_on_write: about.is_dir(),
        identity: None,
    })
}

/// Mounts of a table that lie below a folder, parents before children; of several at one path, the topmost.
fn below(table: &[u8], folder: &Path) -> Vec<Mounted> {
    let mut all: Vec<Mounted> = Vec::new();
    for line in table.split(|b| *b == b'\n') {
        let mut words = line.split(|b| *b == b' ');
        // Number, parent, device, root, mount point, options, optional tags up to a dash, type.
        // proc_pid_mountinfo(5)
        let (Some(at), Some(kind)) = (words.nth(4), words.skip_while(|w| *w != b"-").nth(1)) else {
            continue;
        };
        let mounted = Mounted { at: unescaped(at), kind: String::from_utf8_lossy(kind).into_owned() };
        if mounted.at != folder && mounted.at.starts_with(folder) {
            // A mount over a folder hides the earlier mounts in it.
            all.retain(|other| !other.at.starts_with(&mounted.at));
            all.push(mounted);
        }
    }
    all.sort();
    all
}

/// Decodes a path of the table, where space, tab, newline and backslash are octal escapes.
fn unescaped(word: &[u8]) -> PathBuf {
    let mut bytes = Vec::new();
    let mut rest = word;
    while let [first, others @ ..] = rest {
        let number = others
            .get(..3)
            .filter(|_| *first == b'\\')
            .and_then(|three| u8::from_str_radix(std::str::from_utf8(three).ok()?, 8).ok());
        bytes.push(number.unwrap_or(*first));
        rest = if number.is_some() { &others[3..] } else { others };
    }
    OsString::from_vec(bytes).into()
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn mounts_below_folder_are_listed() {
        let table = b"22 1 8:1 / / rw - ext4 /dev/sda1 rw\n\
            30 22 0:5 / /w/project/proc rw,nosuid shared:7 master:1 - proc proc rw\n\
            31 22 8:1 /cache /w/project/node\\040modules rw - xfs /dev/x rw\n\
            32 22 0:9 / /w/project rw - tmpfs t rw\n\
            33 22 0:9 / /w/project-b/x rw - tmpfs t rw\n\
            34 22 0:9 / /w/project/a/b rw - tmpfs t rw\n\
            35 22 0:9 / /w/project/a rw - btrfs t rw\n\
            36 22 0:9 / /w/project/a/c rw - tmpfs t rw\n\
            37 22 0:9 / /w/project/twice rw - tmpfs t rw\n\
            38 22 0:9 / /w/project/twice rw - overlay t rw\n\
            39 22\n\n";
        let found: Vec<_> = below(table, Path::new("/w/project"))
            .into_iter()
            .map(|m| format!("{} {}", m.at.display(), m.kind))
            .collect();
        assert_eq!(
            found,
            [
                "/w/project/a btrfs",
                "/w/project/a/c tmpfs",
                "/w/project/node modules xfs",
                "/w/project/proc proc",
                "/w/project/twice overlay"
            ]
        );
        let proc = Mounted { at: "/w/project/proc".into(), kind: "proc".into() };
        assert!(bind(Path::new("/w/project"), &proc).unwrap_err().contains("/w/project/proc"));
    }

    #[test]
    fn octal_numbers_in_a_path() {
        for (word, path) in [
            ("/a\\040b", "/a b"),
            ("/a\\134b", "/a\\b"),
            ("/a\\9", "/a\\9"),
            ("/\\011\\012", "/\t\n"),
            ("/a\\", "/a\\"),
        ] {
            assert_eq!(unescaped(word.as_bytes()), Path::new(path), "{word}");
        }
    }
}
