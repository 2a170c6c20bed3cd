//! Whether two processes stand alike: what one may do on the host, the other may do too, and both see the same host.
//!
//! A server runs what it is told with its own rights. It would be a way out for whoever has fewer: a program that is confined
//! already, in a container, under a filter, without a capability. And what a client sees under a name has to be what the server sees.

use std::collections::BTreeMap;
use std::io;
use std::os::unix::fs::MetadataExt;
use std::path::{Path, PathBuf};

use crate::cgroup::width;

/// Namespaces in which both have to be.
const NAMESPACES: [&str; 8] = ["user", "mnt", "pid", "net", "ipc", "uts", "cgroup", "time"];
/// Lines of `/proc/PID/status` that have to be the same.
const SAME: [(&str, &str); 8] = [
    ("Uid", "user"),
    ("Gid", "group"),
    ("Groups", "supplementary groups"),
    ("NoNewPrivs", "right to gain privileges"),
    ("Seccomp", "system call filter"),
    ("Seccomp_filters", "system call filters"),
    ("CapEff", "capabilities"),
    ("CapBnd", "bounding set of capabilities"),
];

/// Where a security module says how it confines a process.
const LABELS: [&str; 3] = ["attr/current", "attr/apparmor/current", "attr/smack/current"];
/// Limits that a sandbox has a soft value of its own for (`plan::job`): of these only the hard ones count, which hold it.
const SOFT_OF_THEIR_OWN: [&str; 8] = [
    "Max core file size",
    "Max processes",
    "Max locked memory",
    "Max msgqueue size",
    "Max pending signals",
    "Max nice priority",
    "Max realtime priority",
    "Max stack size",
];

/// What a process may do, and what it sees.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct Standing {
    namespaces: Vec<Option<(u64, u64)>>,
    root: (u64, u64),
    root_path: PathBuf,
    labels: Vec<Option<Vec<u8>>>,
    status: BTreeMap<String, String>,
    /// Processors that it may use.
    cpus: String,
    nice: String,
    /// By name: soft and hard.
    limits: BTreeMap<String, [u64; 2]>,
    /// Its `cgroup`.
    groups: String,
}

impl Standing {
    /// Of a process, by its number in our own `/proc`.
    ///
    /// # Errors
    /// When it is gone, or we may not look at it.
    pub fn of(process: &str) -> io::Result<Self> {
        let at = Path::new("/proc").join(process);
        let id = |m: std::fs::Metadata| (m.dev(), m.ino());
        let namespace = |name: &&str| match at.join("ns").join(name).metadata() {
            Ok(metadata) => Ok(Some(id(metadata))),
            // A kernel without has none for anybody.
            Err(e) if e.kind() == io::ErrorKind::NotFound => Ok(None),
            Err(e) => Err(e),
        };
        let status = fields(&std::fs::read_to_string(at.join("status"))?);
        let stat = std::fs::read_to_string(at.join("stat"))?;
        Ok(Self {
            namespaces: NAMESPACES.iter().map(namespace).collect::<io::Result<_>>()?,
            root: id(at.join("root").metadata()?),
            root_path: at.join("root").read_link()?,
            labels: LABELS.iter().map(|name| label(&at.join(name))).collect::<io::Result<_>>()?,
            cpus: status.get("Cpus_allowed").cloned().unwrap_or_default(),
            status: status
                .into_iter()
                .filter(|(name, _)| SAME.iter().any(|(same, _)| same == name))
                .collect(),
            nice: nice(&stat).unwrap_or_default().to_owned(),
            limits: limits(&std::fs::read_to_string(at.join("limits"))?),
            groups: std::fs::read_to_string(at.join("cgroup"))?,
        })
    }

    /// In what a client sees another host than the server.
    #[must_use]
    pub fn sees_another(&self, client: &Self) -> Option<String> {
        let pairs = self.namespaces.iter().zip(&client.namespaces);
        let other = NAMESPACES.iter().zip(pairs).find(|(_, (ours, theirs))| ours != theirs);
        other.map(|(name, _)| format!("another {name} namespace"))
    }

    /// In what a client differs from the server so that it may not end it.
    #[must_use]
    pub fn stands_apart(&self, client: &Self) -> Option<String> {
        self.sees_another(client).or_else(|| {
            let root = (self.root, &self.root_path) != (client.root, &client.root_path);
            let label = self.labels != client.labels;
            [(root, "another root folder"), (label, "another security label")]
                .into_iter()
                .find_map(|(differs, what)| differs.then(|| what.to_owned()))
        })
    }

    /// In what a client differs from the server so that it cannot be served.
    #[must_use]
    pub fn differs(&self, client: &Self) -> Option<String> {
        if let Some(apart) = self.stands_apart(client) {
            return Some(apart);
        }
        for (field, what) in SAME {
            if self.status.get(field) != client.status.get(field) {
                return Some(format!("another {what}"));
            }
        }
        if self.cpus != client.cpus {
            return Some("other processors".to_owned());
        }
        if self.nice != client.nice {
            return Some("another priority".to_owned());
        }
        // Whoever is held to less would have held its sandbox to it, and whoever is held to more would have got more.
        let held = |limits: &BTreeMap<String, [u64; 2]>, name: &str| {
            let own = SOFT_OF_THEIR_OWN.contains(&name);
            limits.get(name).map(|[soft, hard]| (if own { 0 } else { *soft }, *hard))
        };
        let names = self.limits.keys().chain(client.limits.keys());
        let mut other = names.filter(|name| held(&self.limits, name) != held(&client.limits, name));
        other.next().map(|name| format!("another limit ({name})"))
    }

    /// As [`Self::differs`], and whether it is in groups that are held to less, as they are now.
    #[must_use]
    pub fn cannot_serve(&self, client: &Self) -> Option<String> {
        if let Some(how) = self.differs(client) {
            return Some(how);
        }
        if self.groups == client.groups {
            return None;
        }
        let mounts = match std::fs::read_to_string("/proc/self/mountinfo") {
            Ok(mounts) => mounts,
            Err(e) => return Some(format!("another control group (/proc/self/mountinfo: {e})")),
        };
        match width::narrower(&self.groups, &client.groups, &mounts, group_file) {
            Ok(None) => None,
            Ok(Some(what)) => Some(format!("a control group with a lower limit ({what})")),
            Err(why) => Some(format!("another control group ({why})")),
        }
    }
}

/// A limit of a group; none where it has no such file.
fn group_file(path: &Path) -> io::Result<Option<String>> {
    match std::fs::read_to_string(path) {
        Ok(text) => Ok(Some(text)),
        // But a group that is gone, or is not shown, has limits that nobody knows.
        Err(e) if e.kind() == io::ErrorKind::NotFound && path.parent().is_some_and(Path::is_dir) => Ok(None),
        Err(e) => Err(e),
    }
}

/// How a security module confines a process; none where there is none.
fn label(path: &Path) -> io::Result<Option<Vec<u8>>> {
    match std::fs::read(path) {
        Ok(text) => Ok(Some(text).filter(|text| !text.is_empty())),
        Err(e) if e.kind() == io::ErrorKind::NotFound => Ok(None),
        Err(e) if e.raw_os_error() == Some(nix::libc::EINVAL) => Ok(None),
        Err(e) => Err(e),
    }
}

/// The lines of a `/proc/PID/status`.
fn fields(status: &str) -> BTreeMap<String, String> {
    let line = |line: &str| line.split_once(':').map(|(k, v)| (k.to_owned(), v.trim().to_owned()));
    status.lines().filter_map(line).collect()
}

/// The priority in a `/proc/PID/stat`.
fn nice(stat: &str) -> Option<&str> {
    // The name in parentheses may contain anything.
    stat.rsplit_once(')')?.1.split_ascii_whitespace().nth(16)
}

/// The table of a `/proc/PID/limits`: a name of several words, then soft and hard, then a unit.
fn limits(table: &str) -> BTreeMap<String, [u64; 2]> {
    let number = |text: &str| if text == "unlimited" { Some(u64::MAX) } else { text.parse().ok() };
    let row = |line: &str| {
        let (name, rest) = line.split_once("  ")?;
        let mut numbers = rest.split_ascii_whitespace().map(number);
        Some((name.to_owned(), [numbers.next()??, numbers.next()??]))
    };
    table.lines().skip(1).filter_map(row).collect()
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn this_process_stands_as_itself() {
        let us = Standing::of("self").unwrap();
        assert_eq!(us.differs(&us.clone()), None);
        assert!(us.limits.len() > 10 && us.limits.contains_key("Max open files"), "{us:?}");
        assert!(us.status.contains_key("CapEff") && !us.cpus.is_empty() && !us.nice.is_empty());
        assert!(us.namespaces.iter().filter(|n| n.is_some()).count() >= 7);
        assert!(us.root_path.is_absolute() && us.groups.lines().count() > 0);
        assert_eq!(us.cannot_serve(&us.clone()), None);
        assert!(Standing::of("0").is_err());
    }

    #[test]
    fn who_cannot_be_served() {
        let us = Standing {
            namespaces: vec![Some((4, 1)); 8],
            root: (1, 2),
            root_path: "/".into(),
            labels: vec![None, Some(b"unconfined\n".to_vec()), None],
            groups: String::new(),
            status: SAME.iter().map(|(name, _)| ((*name).to_owned(), "0".to_owned())).collect(),
            cpus: "3".to_owned(),
            nice: "0".to_owned(),
            limits: limits(
                "Limit  Soft  Hard  Units\nMax open files            1024                 4096                 files     \nMax cpu time              unlimited            unlimited            seconds   \nMax stack size            8388608              unlimited            bytes     \n",
            ),
        };
        assert_eq!(us.limits["Max open files"], [1024, 4096]);
        assert_eq!(us.limits["Max cpu time"], [u64::MAX; 2]);
        assert_eq!(us.limits["Max stack size"], [8 << 20, u64::MAX]);
        type Change = fn(&mut Standing);
        // Why it is not served, and whether it may ask how the service is doing, and end it.
        let cases: [(Change, Option<&str>, [bool; 2]); 18] = [
            (|_| (), None, [true; 2]),
            (|s| s.namespaces[1] = Some((4, 2)), Some("another mnt namespace"), [false; 2]),
            (|s| s.namespaces[7] = None, Some("another time namespace"), [false; 2]),
            (|s| s.root = (1, 3), Some("another root folder"), [true, false]),
            (|s| s.root_path = "/bind".into(), Some("another root folder"), [true, false]),
            (
                |s| s.labels[1] = Some(b"snap.x (enforce)\n".to_vec()),
                Some("another security label"),
                [true, false],
            ),
            (|s| s.labels[0] = s.labels[1].clone(), Some("another security label"), [true, false]),
            (|s| drop(s.status.insert("Uid".into(), "1".into())), Some("another user"), [true; 2]),
            (
                |s| drop(s.status.insert("NoNewPrivs".into(), "1".into())),
                Some("another right to gain privileges"),
                [true; 2],
            ),
            (|s| drop(s.status.remove("CapBnd")), Some("another bounding set of capabilities"), [true; 2]),
            (|s| s.cpus = "1".into(), Some("other processors"), [true; 2]),
            (|s| s.nice = "19".into(), Some("another priority"), [true; 2]),
            (
                |s| s.limits.extend([("Max cpu time".into(), [9, 9])]),
                Some("another limit (Max cpu time)"),
                [true; 2],
            ),
            (
                |s| s.limits.extend([("Max open files".into(), [4096, 4096])]),
                Some("another limit (Max open files)"),
                [true; 2],
            ),
            // A sandbox has a soft limit of its own there.
            (|s| s.limits.extend([("Max stack size".into(), [1 << 20, u64::MAX])]), None, [true; 2]),
            (
                |s| s.limits.extend([("Max stack size".into(), [1 << 20, 1 << 20])]),
                Some("another limit (Max stack size)"),
                [true; 2],
            ),
            (|s| s.limits.extend([("Max new".into(), [1, 1])]), Some("another limit (Max new)"), [true; 2]),
            (|s| s.limits.clear(), Some("another limit (Max cpu time)"), [true; 2]),
        ];
        for (change, want, [status, stop]) in cases {
            let mut client = us.clone();
            change(&mut client);
            assert_eq!(us.differs(&client).as_deref(), want);
            assert_eq!(us.sees_another(&client).is_none(), status, "{want:?}");
            assert_eq!(us.stands_apart(&client).is_none(), stop, "{want:?}");
        }
    }

    #[test]
    fn a_name_may_contain_anything() {
        let stat = "7 (a) b) S 1 7 7 0 -1 4 0 0 0 0 1 2 0 0 20 5 1 0 4242\n";
        assert_eq!(nice(stat), Some("5"));
        assert_eq!(nice("7 (x"), None);
    }
}
