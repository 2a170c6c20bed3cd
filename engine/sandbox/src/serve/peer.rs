//! Whether two processes stand alike: what one may do on the host, the other may do too, and both see the same host.
//!
//! A server runs what it is told with its own rights. It would be a way out for whoever has fewer: a program that is confined
//! already, in a container, under a filter, without a capability. And what a client sees under a name has to be what the server sees.

use std::collections::BTreeMap;
use std::io;
use std::os::unix::fs::MetadataExt;
use std::path::Path;

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

/// What a process may do, and what it sees.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct Standing {
    namespaces: Vec<Option<(u64, u64)>>,
    root: (u64, u64),
    status: BTreeMap<String, String>,
    /// Processors that it may use.
    cpus: String,
    nice: String,
    /// By name: soft and hard.
    limits: BTreeMap<String, [u64; 2]>,
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
            cpus: status.get("Cpus_allowed").cloned().unwrap_or_default(),
            status: status
                .into_iter()
                .filter(|(name, _)| SAME.iter().any(|(same, _)| same == name))
                .collect(),
            nice: nice(&stat).unwrap_or_default().to_owned(),
            limits: limits(&std::fs::read_to_string(at.join("limits"))?),
        })
    }

    /// In what a client differs from the server so that it cannot be served.
    #[must_use]
    pub fn differs(&self, client: &Self) -> Option<String> {
        for (name, (ours, theirs)) in NAMESPACES.iter().zip(self.namespaces.iter().zip(&client.namespaces)) {
            if ours != theirs {
                return Some(format!("another {name} namespace"));
            }
        }
        if self.root != client.root {
            return Some("another root folder".to_owned());
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
        // Whoever is held to less would have held its sandbox to it.
        let less = |(name, ours): &(&String, &[u64; 2])| {
            client.limits.get(*name).is_none_or(|theirs| theirs[0] < ours[0] || theirs[1] < ours[1])
        };
        self.limits.iter().find(less).map(|(name, _)| format!("a lower limit ({name})"))
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
        assert!(Standing::of("0").is_err());
    }

    #[test]
    fn who_cannot_be_served() {
        let us = Standing {
            namespaces: vec![Some((4, 1)); 8],
            root: (1, 2),
            status: SAME.iter().map(|(name, _)| ((*name).to_owned(), "0".to_owned())).collect(),
            cpus: "3".to_owned(),
            nice: "0".to_owned(),
            limits: limits(
                "Limit  Soft  Hard  Units\nMax open files            1024                 4096                 files     \nMax cpu time              unlimited            unlimited            seconds   \n",
            ),
        };
        assert_eq!(us.limits["Max open files"], [1024, 4096]);
        assert_eq!(us.limits["Max cpu time"], [u64::MAX; 2]);
        type Change = fn(&mut Standing);
        let cases: [(Change, Option<&str>); 12] = [
            (|_| (), None),
            (|s| s.namespaces[1] = Some((4, 2)), Some("another mnt namespace")),
            (|s| s.namespaces[7] = None, Some("another time namespace")),
            (|s| s.root = (1, 3), Some("another root folder")),
            (|s| drop(s.status.insert("Uid".into(), "1".into())), Some("another user")),
            (
                |s| drop(s.status.insert("NoNewPrivs".into(), "1".into())),
                Some("another right to gain privileges"),
            ),
            (|s| drop(s.status.remove("CapBnd")), Some("another bounding set of capabilities")),
            (|s| s.cpus = "1".into(), Some("other processors")),
            (|s| s.nice = "19".into(), Some("another priority")),
            (|s| s.limits.extend([("Max cpu time".into(), [9, 9])]), Some("a lower limit (Max cpu time)")),
            (|s| s.limits.extend([("Max open files".into(), [4096, 4096])]), None),
            (|s| s.limits.clear(), Some("a lower limit (Max cpu time)")),
        ];
        for (change, want) in cases {
            let mut client = us.clone();
            change(&mut client);
            assert_eq!(us.differs(&client).as_deref(), want);
        }
    }

    #[test]
    fn a_name_may_contain_anything() {
        let stat = "7 (a) b) S 1 7 7 0 -1 4 0 0 0 0 1 2 0 0 20 5 1 0 4242\n";
        assert_eq!(nice(stat), Some("5"));
        assert_eq!(nice("7 (x"), None);
    }
}
