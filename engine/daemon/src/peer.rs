//! Checks that two processes are equivalent: they have the same rights on the host, and both see the same
//! host.
//!
//! A server runs requests with its own rights. That would be a way out for a client with fewer rights: a
//! program that is already confined, in a container, under a filter, without a capability. And a path that a
//! client names must mean the same file to the server.

use std::collections::BTreeMap;
use std::io;
use std::os::unix::fs::MetadataExt;
use std::path::{Path, PathBuf};

use hotcell_sandbox::cgroup::width;

/// Namespaces that both must share.
const NAMESPACES: [&str; 8] = ["user", "mnt", "pid", "net", "ipc", "uts", "cgroup", "time"];
/// Lines of `/proc/PID/status` that must be equal.
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

/// Files in which security modules show how they confine a process.
const LABELS: [&str; 3] = ["attr/current", "attr/apparmor/current", "attr/smack/current"];
/// Limits for which a sandbox sets its own soft value (`plan::job`); only their hard values count, since they
/// bound it.
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

/// The rights of a process, and its view of the host.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct Standing {
    namespaces: Vec<Option<(u64, u64)>>,
    root: (u64, u64),
    root_path: PathBuf,
    labels: Vec<Option<Vec<u8>>>,
    status: BTreeMap<String, String>,
    /// Allowed processors.
    cpus: String,
    nice: String,
    /// Soft and hard limit by name.
    limits: BTreeMap<String, [u64; 2]>,
    /// Contents of `/proc/PID/cgroup`.
    groups: String,
}

impl Standing {
    /// Reads the standing of a process, by its id in our own `/proc`.
    ///
    /// # Errors
    /// When the process is gone, or this process may not inspect it.
    pub fn of(process: &str) -> io::Result<Self> {
        let at = Path::new("/proc").join(process);
        let id = |m: std::fs::Metadata| (m.dev(), m.ino());
        let namespace = |name: &&str| match at.join("ns").join(name).metadata() {
            Ok(metadata) => Ok(Some(id(metadata))),
            // A kernel without this namespace has it for no process.
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

    /// The first respect in which a client sees another host than the server.
    #[must_use]
    pub fn sees_another(&self, client: &Self) -> Option<String> {
        let pairs = self.namespaces.iter().zip(&client.namespaces);
        let other = NAMESPACES.iter().zip(pairs).find(|(_, (ours, theirs))| ours != theirs);
        other.map(|(name, _)| format!("another {name} namespace"))
    }

    /// The first difference between client and server because of which the client may not end the server.
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

    /// The first difference between client and server because of which the client cannot be served.
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
        // A client with lower limits would have applied them to its sandbox, and one with higher limits would
        // have got more.
        let held = |limits: &BTreeMap<String, [u64; 2]>, name: &str| {
            let own = SOFT_OF_THEIR_OWN.contains(&name);
            limits.get(name).map(|[soft, hard]| (if own { 0 } else { *soft }, *hard))
        };
        let names = self.limits.keys().chain(client.limits.keys());
        let mut other = names.filter(|name| held(&self.limits, name) != held(&client.limits, name));
        other.next().map(|name| format!("another limit ({name})"))
    }

    /// Like [`Self::differs`], but also compares the current limits of their cgroups.
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

/// Reads a limit of a cgroup; `None` if the cgroup has no such file.
fn group_file(path: &Path) -> io::Result<Option<String>> {
    match std::fs::read_to_string(path) {
        Ok(text) => Ok(Some(text)),
        // If the cgroup is gone or not visible, its limits are unknown.
        Err(e) if e.kind() == io::ErrorKind::NotFound && path.parent().is_some_and(Path::is_dir) => Ok(None),
        Err(e) => Err(e),
    }
}

/// Reads how a security module confines a process; `None` without such a module.
fn label(path: &Path) -> io::Result<Option<Vec<u8>>> {
    match std::fs::read(path) {
        Ok(text) => Ok(Some(text).filter(|text| !text.is_empty())),
        Err(e) if e.kind() == io::ErrorKind::NotFound => Ok(None),
        Err(e) if e.raw_os_error() == Some(nix::libc::EINVAL) => Ok(None),
        Err(e) => Err(e),
    }
}

/// Parses the lines of `/proc/PID/status`.
fn fields(status: &str) -> BTreeMap<String, String> {
    let line = |line: &str| line.split_once(':').map(|(k, v)| (k.to_owned(), v.trim().to_owned()));
    status.lines().filter_map(line).collect()
}

/// Parses the nice value in `/proc/PID/stat`.
fn nice(stat: &str) -> Option<&str> {
    // The name in parentheses may contain anything.
    stat.rsplit_once(')')?.1.split_ascii_whitespace().nth(16)
}

/// Parses the table of `/proc/PID/limits`: a name of several words, then soft and hard limit, then a unit.
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
    fn own_process_attributes_match_themselves() {
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
    fn peers_with_other_attributes_are_refused() {
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
        // The reason why the client is not served, and whether it may ask for the status and end the service.
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
            // A sandbox has a soft limit of its own for this.
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
    fn process_name_may_contain_any_characters() {
        let stat = "7 (a) b) S 1 7 7 0 -1 4 0 0 0 0 1 2 0 0 20 5 1 0 4242\n";
        assert_eq!(nice(stat), Some("5"));
        assert_eq!(nice("7 (x"), None);
    }
}
