//! Compares the cgroup limits of two processes, to find out whether one has less than the other.

use std::io;
use std::path::{Path, PathBuf};

use super::detect::{Membership, Mount, parse_memberships, parse_mounts, seen_best};

/// Controllers whose limits are compared, and the resource that each limits.
const HELD: [(&str, &str); 3] = [("memory", "memory"), ("pids", "processes"), ("cpu", "processors")];

/// Resources in which the client is limited to less than processes made by the server may be, from the
/// `/proc/PID/cgroup` of both; `None` if in none.
///
/// Sandboxes may be made beside the server's own group, so its own limits do not count, only those above it.
/// `read` returns a file's text, or `None` if the group has no such limit.
///
/// # Errors
/// A sentence about a limit that cannot be determined.
pub fn narrower(
    server: &str,
    client: &str,
    mountinfo: &str,
    read: impl Fn(&Path) -> io::Result<Option<String>>,
) -> Result<Option<&'static str>, String> {
    if server == client {
        return Ok(None);
    }
    let (server, client) = (parse_memberships(server), parse_memberships(client));
    let mounts = parse_mounts(mountinfo);
    for (controller, what) in HELD {
        let group = |all: &[Membership]| group(all, controller);
        let (ours, theirs) = (group(&server), group(&client));
        if ours == theirs {
            continue;
        }
        let (Some(ours), Some(theirs)) = (ours, theirs) else {
            return Err(format!("the {controller} groups are of different kinds"));
        };
        let theirs = least(controller, &theirs, &mounts, &read)?;
        let above = Membership { path: ours.path.parent().unwrap_or(&ours.path).to_owned(), ..ours };
        if theirs < least(controller, &above, &mounts, &read)? {
            return Ok(Some(what));
        }
    }
    Ok(None)
}

/// The group that holds a controller's limits: in its own hierarchy, otherwise in that of version 2.
fn group(all: &[Membership], controller: &str) -> Option<Membership> {
    let own = all.iter().find(|m| m.controllers.iter().any(|name| name == controller));
    own.or_else(|| all.iter().find(|m| m.controllers.is_empty())).cloned()
}

/// The tightest limit from a group up to the mountpoint of its hierarchy.
fn least(
    controller: &str,
    group: &Membership,
    mounts: &[Mount],
    read: &impl Fn(&Path) -> io::Result<Option<String>>,
) -> Result<u128, String> {
    let v2 = group.controllers.is_empty();
    let is = |mount: &&Mount| match &mount.controllers {
        None => v2,
        Some(names) => !v2 && names.iter().any(|name| name == controller),
    };
    let mounted: Vec<&Mount> = mounts.iter().filter(is).collect();
    let (mount, folder) = seen_best(&mounted, &group.path)
        .ok_or_else(|| format!("the {controller} group {} is not to be seen", group.path.display()))?;
    let mut least = u128::MAX;
    for folder in folder.ancestors().take_while(|folder| folder.starts_with(&mount.point)) {
        let read = |name: &str| {
            let path: PathBuf = folder.join(name);
            let text = read(&path).map_err(|e| format!("{}: {e}", path.display()))?;
            text.map_or(Ok(u128::MAX), |text| {
                limit(text.trim()).ok_or_else(|| format!("{}: {text:?} is no limit", path.display()))
            })
        };
        let held = match (controller, v2) {
            ("memory", true) => read("memory.max")?,
            ("memory", false) => read("memory.limit_in_bytes")?,
            ("cpu", true) => read("cpu.max")?,
            ("cpu", false) => share(read("cpu.cfs_quota_us")?, read("cpu.cfs_period_us")?),
            _ => read("pids.max")?,
        };
        least = least.min(held);
    }
    Ok(least)
}

/// Parses a limit as the kernel writes it: `max`, -1, a number, or a quota and its period.
fn limit(text: &str) -> Option<u128> {
    let number = |word: &str| match word {
        "max" | "-1" => Some(u128::MAX),
        word => word.parse::<u64>().ok().map(u128::from),
    };
    match text.split_once(' ') {
        None => number(text),
        Some((quota, period)) => Some(share(number(quota)?, number(period)?)),
    }
}

/// CPU share in millionths of a processor.
fn share(quota: u128, period: u128) -> u128 {
    if quota == u128::MAX { quota } else { quota.saturating_mul(1_000_000) / period.max(1) }
}

#[cfg(test)]
mod tests {
    use super::*;

    const V2: &str = "30 22 0:26 / /c rw - cgroup2 cgroup2 rw\n";
    const V1: &str = "32 31 0:29 / /c/cpu rw - cgroup cgroup rw,cpu\n35 31 0:32 / /c/memory rw - cgroup cgroup rw,memory\n\
                      39 31 0:36 / /c/pids rw - cgroup cgroup rw,pids\n41 31 0:38 / /c/unified rw - cgroup2 cgroup2 rw\n";

    #[test]
    fn narrower_client_limits_are_found() {
        type Files = &'static [(&'static str, &'static str)];
        let v1 = |path: &str| format!("4:memory:{path}\n3:pids:/\n2:cpu:/\n0::/{path}\n");
        for (name, server, client, mounts, files, want) in [
            ("the same", "0::/a".to_owned(), "0::/a".to_owned(), "", &[] as Files, Ok(None)),
            ("nothing to be read", "0::/a".into(), "0::/b".into(), "", &[], Err(())),
            ("neither held", "0::/a".into(), "0::/b".into(), V2, &[], Ok(None)),
            (
                "less memory",
                "0::/a".into(),
                "0::/b".into(),
                V2,
                &[("/c/b/memory.max", "5\n")],
                Ok(Some("memory")),
            ),
            (
                "fewer processes",
                "0::/a".into(),
                "0::/b/x".into(),
                V2,
                &[("/c/b/pids.max", "5")],
                Ok(Some("processes")),
            ),
            (
                "a smaller share",
                "0::/a".into(),
                "0::/b".into(),
                V2,
                &[("/c/b/cpu.max", "50000 100000"), ("/c/b/memory.max", "max")],
                Ok(Some("processors")),
            ),
            ("no share", "0::/a".into(), "0::/b".into(), V2, &[("/c/b/cpu.max", "max 100000")], Ok(None)),
            // The server's own limit applies to its sandboxes only where they are below it.
            (
                "as little in its own",
                "0::/a".into(),
                "0::/b".into(),
                V2,
                &[("/c/b/memory.max", "5"), ("/c/a/memory.max", "5")],
                Ok(Some("memory")),
            ),
            (
                "as little above",
                "0::/s/a".into(),
                "0::/b".into(),
                V2,
                &[("/c/b/memory.max", "5"), ("/c/s/memory.max", "5")],
                Ok(None),
            ),
            ("both below it", "0::/s/a".into(), "0::/s/b".into(), V2, &[("/c/s/pids.max", "7")], Ok(None)),
            (
                "below the server",
                "0::/a".into(),
                "0::/a/b".into(),
                V2,
                &[("/c/a/b/pids.max", "7")],
                Ok(Some("processes")),
            ),
            ("out of its namespace", "0::/a".into(), "0::/../b".into(), V2, &[], Err(())),
            ("no number", "0::/a".into(), "0::/b".into(), V2, &[("/c/b/pids.max", "?")], Err(())),
            (
                "version 1, elsewhere alike",
                v1("/a"),
                v1("/b"),
                V1,
                &[("/c/memory/b/memory.limit_in_bytes", "-1")],
                Ok(None),
            ),
            (
                "version 1",
                v1("/a"),
                v1("/b"),
                V1,
                &[("/c/memory/b/memory.limit_in_bytes", "9")],
                Ok(Some("memory")),
            ),
            (
                "version 1's share",
                "2:cpu:/a\n".into(),
                "2:cpu:/b\n".into(),
                V1,
                &[("/c/cpu/b/cpu.cfs_quota_us", "1000"), ("/c/cpu/b/cpu.cfs_period_us", "100000")],
                Ok(Some("processors")),
            ),
            ("another kind", "2:cpu:/a\n".into(), "0::/b\n".into(), V1, &[], Err(())),
        ] {
            let read = |path: &Path| {
                Ok(files.iter().find(|(at, _)| path == Path::new(at)).map(|(_, text)| (*text).to_owned()))
            };
            assert_eq!(narrower(&server, &client, mounts, read).map_err(drop), want, "{name}");
        }
        let refused = |_: &Path| Err(io::Error::from(io::ErrorKind::PermissionDenied));
        assert!(narrower("0::/a", "0::/b", V2, refused).is_err());
    }
}
