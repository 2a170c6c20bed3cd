//! Finds cgroups that this process could use, from `/proc/self/cgroup` and `/proc/self/mountinfo`.
//!
//! Everything here is a pure function of those texts and a few facts. The results are only candidates;
//! [`super::Cgroups::detect`] tries whether they work.

use std::ffi::OsString;
use std::os::unix::ffi::OsStringExt;
use std::path::{Component, Path, PathBuf};

use super::SUPERVISOR_FOLDER;

/// One line of `/proc/self/cgroup`: this process's group in one hierarchy.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(super) struct Membership {
    /// Controllers of a v1 hierarchy; empty for the v2 hierarchy.
    pub(super) controllers: Vec<String>,
    pub(super) path: PathBuf,
}

/// One cgroup line of `/proc/self/mountinfo`.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(super) struct Mount {
    /// The group that is mounted at `point`.
    pub(super) root: PathBuf,
    pub(super) point: PathBuf,
    pub(super) read_only: bool,
    /// Controllers of a v1 hierarchy; `None` for v2.
    pub(super) controllers: Option<Vec<String>>,
}

/// This process's own group in each relevant v1 hierarchy, as a folder on this host.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(super) struct V1Places {
    pub(super) memory: PathBuf,
    pub(super) pids: PathBuf,
    pub(super) cpuacct: Option<PathBuf>,
    pub(super) cpu: Option<PathBuf>,
}

/// A group of the v2 hierarchy below which the `hotcell` folder could be made.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(super) struct Candidate {
    pub(super) parent: PathBuf,
    /// No unit of another owner lies below `parent`, so every controller may be enabled.
    pub(super) ours: bool,
    /// This process must first move from `parent` to a leaf below it.
    pub(super) move_self: bool,
}

/// Facts about this process's own group in the v2 hierarchy.
#[derive(Clone, Copy, Debug)]
pub(super) struct OwnGroup<'a> {
    /// Mountpoint of the hierarchy.
    pub(super) mount: &'a Path,
    /// Path of the own group below the mountpoint.
    pub(super) own: &'a Path,
    /// Whether the own group is the root of the whole hierarchy, not only of a cgroup namespace.
    pub(super) real_root: bool,
    /// Whether no other process is in it.
    pub(super) alone: bool,
    pub(super) superuser: bool,
}

/// Facts that the advice in an error depends on.
#[derive(Clone, Copy, Debug)]
pub(super) struct Host {
    pub(super) superuser: bool,
    pub(super) systemd: bool,
    /// A v2 hierarchy with the memory and pids controllers is mounted.
    pub(super) v2: bool,
    /// v1 hierarchies for memory and pids are mounted.
    pub(super) v1: bool,
    /// The relevant mounts are read-only.
    pub(super) read_only: bool,
}

/// Words of a line such as `cgroup.controllers`.
pub(super) fn words(text: &str) -> impl Iterator<Item = &str> {
    text.split_ascii_whitespace()
}

/// Parses `/proc/self/cgroup`. Lines of an unknown form are skipped.
pub(super) fn parse_memberships(text: &str) -> Vec<Membership> {
    text.lines()
        .filter_map(|line| {
            let mut parts = line.splitn(3, ':');
            let (_id, controllers, path) = (parts.next()?, parts.next()?, parts.next()?);
            Some(Membership {
                controllers: list(controllers),
                path: PathBuf::from(path.strip_suffix(" (deleted)").unwrap_or(path)),
            })
        })
        .collect()
}

/// Whether the memory controller is in a hierarchy of version 1, so that version 2 cannot have it.
pub(super) fn uses_v1(memberships: &[Membership]) -> bool {
    memberships.iter().any(|m| m.controllers.iter().any(|name| name == "memory"))
}

/// The list of processes of the own group of version 2, where its hierarchy is usually mounted.
pub(super) fn usual_v2_processes(memberships: &[Membership]) -> Option<PathBuf> {
    let own = memberships.iter().find(|m| m.controllers.is_empty())?;
    let plain = |c: Component<'_>| matches!(c, Component::RootDir | Component::Normal(_));
    let below = own.path.strip_prefix("/").ok().filter(|_| own.path.components().all(plain))?;
    Some(Path::new("/sys/fs/cgroup").join(below).join("cgroup.procs"))
}

/// Parses the cgroup lines of `/proc/self/mountinfo`. Of two mounts at one path, the later hides the earlier.
pub(super) fn parse_mounts(text: &str) -> Vec<Mount> {
    let mut mounts: Vec<Mount> = Vec::new();
    for line in text.lines() {
        let Some((mount, cgroup)) = parse_mount(line) else {
            continue;
        };
        mounts.retain(|earlier| earlier.point != mount.point);
        if cgroup {
            mounts.push(mount);
        }
    }
    mounts
}

/// Parses the mount on a line, and whether it is of a cgroup file system.
fn parse_mount(line: &str) -> Option<(Mount, bool)> {
    let (fixed, rest) = line.split_once(" - ")?;
    let mut fixed = fixed.split(' ').skip(3);
    let (root, point, options) = (fixed.next()?, fixed.next()?, fixed.next()?);
    let mut rest = rest.split(' ');
    let (kind, super_options) = (rest.next()?, rest.nth(1).unwrap_or(""));
    let read_only = list(options).iter().chain(&list(super_options)).any(|o| o == "ro");
    let mount = Mount {
        root: unescape(root),
        point: unescape(point),
        read_only,
        controllers: (kind != "cgroup2").then(|| list(super_options)),
    };
    Some((mount, kind == "cgroup" || kind == "cgroup2"))
}

fn list(text: &str) -> Vec<String> {
    text.split(',').filter(|word| !word.is_empty()).map(str::to_owned).collect()
}

/// Undoes the octal escapes (`\040` for a space) of mountinfo.
fn unescape(text: &str) -> PathBuf {
    let bytes = text.as_bytes();
    let mut plain = Vec::with_capacity(bytes.len());
    let mut at = 0;
    while at < bytes.len() {
        let octal = bytes.get(at + 1..at + 4).filter(|_| bytes[at] == b'\\');
        let value = octal
            .and_then(|digits| std::str::from_utf8(digits).ok())
            .and_then(|digits| u8::from_str_radix(digits, 8).ok());
        plain.push(value.unwrap_or(bytes[at]));
        at += if value.is_some() { 4 } else { 1 };
    }
    PathBuf::from(OsString::from_vec(plain))
}

/// The path at which the group `path` is visible, if it lies below the group that `mount` shows.
fn locate(mount: &Mount, path: &Path) -> Option<PathBuf> {
    let outside = |path: &Path| path.components().any(|c| c == Component::ParentDir);
    if outside(path) || outside(&mount.root) {
        return None;
    }
    let below = path.strip_prefix(&mount.root).ok()?;
    // Removes the trailing slash that joining an empty path adds.
    Some(mount.point.join(below).components().collect())
}

/// The mountpoint of the v2 hierarchy and the own group's folder below it; `None` if no v2 hierarchy is
/// mounted, `Some(Err)` if the own group is not visible in it.
pub(super) fn v2_own_group(
    memberships: &[Membership],
    mounts: &[Mount],
) -> Option<Result<(PathBuf, PathBuf, bool), String>> {
    let v2: Vec<&Mount> = mounts.iter().filter(|m| m.controllers.is_none()).collect();
    let first = v2.first()?;
    let Some(own) = memberships.iter().find(|m| m.controllers.is_empty()) else {
        return Some(Err("this process is in no group of cgroup v2".to_owned()));
    };
    Some(match seen_best(&v2, &own.path) {
        Some((mount, folder)) => Ok((mount.point.clone(), folder, mount.read_only)),
        None => Err(format!(
            "this process's own cgroup {} is not below {}, where {} is mounted",
            own.path.display(),
            first.point.display(),
            first.root.display()
        )),
    })
}

/// The own groups in the v1 hierarchies, or the reason why one is missing; and whether a needed mount is
/// read-only.
pub(super) fn v1_places(memberships: &[Membership], mounts: &[Mount]) -> Result<(V1Places, bool), String> {
    let find = |controller: &str| -> Result<(PathBuf, bool), String> {
        let is = |list: &[String]| list.iter().any(|name| name == controller);
        let own = memberships
            .iter()
            .find(|m| is(&m.controllers))
            .ok_or_else(|| format!("there is no {controller} hierarchy"))?;
        let mounted: Vec<&Mount> =
            mounts.iter().filter(|m| m.controllers.as_deref().is_some_and(is)).collect();
        if mounted.is_empty() {
            return Err(format!("the {controller} hierarchy is not mounted"));
        }
        seen_best(&mounted, &own.path).map(|(mount, folder)| (folder, mount.read_only)).ok_or_else(|| {
            let path = own.path.display();
            format!("this process's own {controller} cgroup {path} is not below its mount")
        })
    };
    let (memory, memory_read_only) = find("memory")?;
    let (pids, pids_read_only) = find("pids")?;
    let optional = |controller| match find(controller) {
        Ok((folder, false)) => Some(folder),
        _ => None,
    };
    let places = V1Places { memory, pids, cpuacct: optional("cpuacct"), cpu: optional("cpu") };
    Ok((places, memory_read_only || pids_read_only))
}

/// The first mount that shows the group `path`, writable ones before others.
pub(super) fn seen_best<'a>(mounts: &[&'a Mount], path: &Path) -> Option<(&'a Mount, PathBuf)> {
    let seen = |read_only: bool| {
        mounts
            .iter()
            .filter(move |m| m.read_only == read_only)
            .find_map(|m| locate(m, path).map(|folder| (*m, folder)))
    };
    seen(false).or_else(|| seen(true))
}

/// The groups below which the `hotcell` folder could be made, best first.
///
/// 1. The own group, if it is the root of the whole hierarchy: the only group that may both hold processes
///    and enable controllers for its children.
/// 2. The own group after this process has moved itself to a leaf, if it is the only process there and the
///    group was delegated to it. An ordinary user can write only to groups that were delegated; for the
///    superuser, who can write everywhere, only the root of a cgroup namespace counts (a container's own
///    group). Other processes are never moved.
/// 3. The group above. It holds no processes, so the kernel allows it; the limits above it still apply, but
///    limits on the own group alone do not.
/// 4. For the superuser, the top of the mount.
pub(super) fn v2_candidates(group: &OwnGroup<'_>) -> Vec<Candidate> {
    let mut candidates = Vec::new();
    let mut push = |parent: &Path, ours: bool, move_self: bool| {
        if !candidates.iter().any(|c: &Candidate| c.parent == parent) {
            let parent = parent.to_owned();
            candidates.push(Candidate { parent, ours, move_self });
        }
    };
    let at_top = group.own == group.mount;
    let in_leaf = group.own.file_name().is_some_and(|name| name == SUPERVISOR_FOLDER);
    if group.real_root {
        push(group.own, true, false);
    } else if !in_leaf && group.alone && (!group.superuser || at_top) {
        push(group.own, true, true);
    }
    if !at_top {
        if let Some(parent) = group.own.parent() {
            push(parent, in_leaf, false);
        }
        if group.superuser {
            push(group.mount, false, false);
        }
    }
    candidates
}

/// Advice for a person whose host has no usable cgroup.
pub(super) fn advice(host: Host) -> &'static str {
    match host {
        Host { v2: false, v1: false, .. } => {
            "mount a cgroup v2 hierarchy that has the memory and pids controllers (kernel parameters such as \
             cgroup_disable=memory switch them off)"
        }
        Host { read_only: true, .. } => {
            "start the container with a writable cgroup tree of its own, such as docker run --privileged \
             --cgroupns=private, or set the limits on the container itself"
        }
        Host { superuser: false, v2: true, systemd: true, .. } => {
            "run it as: systemd-run --user --scope -p Delegate=yes hotcell ..."
        }
        Host { superuser: false, v2: true, .. } => {
            "as root make a cgroup, give it to this user (chown the folder, cgroup.procs and \
             cgroup.subtree_control), and start hotcell in it"
        }
        Host { superuser: false, .. } => {
            "cgroup v1 can be used by root only; run as root, or boot with \
             systemd.unified_cgroup_hierarchy=1"
        }
        Host { v2: true, .. } => {
            "start hotcell as the only process of its cgroup (the container's own command, or a service with \
             Delegate=yes), or move the other processes of its group to a child group first"
        }
        Host { .. } => "make the cgroup v1 memory and pids hierarchies writable for hotcell",
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    const HYBRID_CGROUP: &str = "9:name=systemd:/\n8:pids:/\n7:blkio:/\n4:memory:/job/one\n3:cpuset:/\n\
                                 2:cpuacct:/\n1:cpu:/\n0::/\n";
    const HYBRID_MOUNTS: &str = "\
31 23 0:28 / /sys/fs/cgroup rw,relatime - tmpfs tmpfs rw,mode=755
32 31 0:29 / /sys/fs/cgroup/cpu rw,relatime - cgroup cgroup rw,cpu
33 31 0:30 / /sys/fs/cgroup/cpuacct rw,relatime - cgroup cgroup rw,cpuacct
35 31 0:32 / /sys/fs/cgroup/memory rw,relatime - cgroup cgroup rw,memory
39 31 0:36 / /sys/fs/cgroup/pids rw,relatime - cgroup cgroup rw,pids
40 31 0:37 / /sys/fs/cgroup/systemd rw,relatime - cgroup cgroup rw,name=systemd
41 31 0:38 / /sys/fs/cgroup/unified rw,relatime - cgroup2 cgroup2 rw
";
    const UNIFIED_MOUNTS: &str = "\
22 1 8:1 / / rw,relatime shared:1 - ext4 /dev/sda1 rw
30 22 0:26 / /sys/fs/cgroup rw,nosuid,nodev,noexec,relatime shared:9 - cgroup2 cgroup2 rw,nsdelegate,memory_recursiveprot
";

    #[test]
    fn processes_of_own_v2_group_are_listed_where_they_usually_are() {
        let processes = |text: &str| usual_v2_processes(&parse_memberships(text));
        for (text, is_v1, want) in [
            (HYBRID_CGROUP, true, Some("/sys/fs/cgroup/cgroup.procs")),
            ("0::/a.slice/b.scope\n", false, Some("/sys/fs/cgroup/a.slice/b.scope/cgroup.procs")),
            ("0::/\n", false, Some("/sys/fs/cgroup/cgroup.procs")),
            ("0::/../other\n", false, None),
            ("4:memory:/\n", true, None),
            ("", false, None),
        ] {
            assert_eq!(uses_v1(&parse_memberships(text)), is_v1, "{text}");
            assert_eq!(processes(text).as_deref(), want.map(Path::new), "{text}");
        }
    }

    #[test]
    fn own_group_is_located_in_v2() {
        let user = "0::/user.slice/user-1000.slice/user@1000.service/app.slice/run-r1.scope\n";
        let docker = "1200 1190 0:26 / /sys/fs/cgroup ro,nosuid - cgroup2 cgroup rw\n";
        let bound = "30 22 0:26 /../.. /sys/fs/cgroup rw - cgroup2 cgroup2 rw\n";
        let part = "30 22 0:26 /box /sys/fs/cgroup rw - cgroup2 cgroup2 rw\n";
        let covered = format!("{UNIFIED_MOUNTS}31 22 0:40 / /sys/fs/cgroup rw - tmpfs tmpfs rw\n");
        let top = "/sys/fs/cgroup";
        let user_folder = format!("{top}{}", &user[3..user.len() - 1]);
        for (name, cgroup, mounts, want) in [
            ("hybrid", HYBRID_CGROUP, HYBRID_MOUNTS, Some(Ok(("/sys/fs/cgroup/unified", false)))),
            ("systemd user session", user, UNIFIED_MOUNTS, Some(Ok((&*user_folder, false)))),
            ("docker", "0::/\n", docker, Some(Ok((top, true)))),
            ("docker with the host's tree bound in", "0::/\n", bound, Some(Err(()))),
            ("mount shows the own group", "0::/box\n", part, Some(Ok((top, false)))),
            ("own group outside the mount", "0::/other\n", part, Some(Err(()))),
            ("moved out of its namespace", "0::/../x\n", UNIFIED_MOUNTS, Some(Err(()))),
            ("no membership", "1:cpu:/\n", UNIFIED_MOUNTS, Some(Err(()))),
            ("covered by another mount", "0::/\n", &covered, None),
            ("v1 only", "1:cpu:/\n", "32 31 0:29 / /c/cpu rw - cgroup cgroup rw,cpu\n", None),
            ("nothing", "", "", None),
        ] {
            let found = v2_own_group(&parse_memberships(cgroup), &parse_mounts(mounts));
            let found = found.map(|r| r.map(|(_, own, ro)| (own, ro)).map_err(drop));
            let want = want.map(|r| r.map(|(own, ro)| (PathBuf::from(own), ro)));
            assert_eq!(found, want, "{name}");
        }
    }

    #[test]
    fn own_groups_are_located_in_v1() {
        let joint_cgroup = "5:cpu,cpuacct:/a\n4:memory:/a\n3:pids:/a\n1:name=systemd:/a\n";
        let joint_mounts = "\
1 1 0:1 / /sys/fs/cgroup/cpu,cpuacct rw - cgroup cgroup rw,cpu,cpuacct
2 1 0:2 / /sys/fs/cgroup/memory rw - cgroup cgroup rw,memory
3 1 0:3 / /sys/fs/cgroup/pids rw - cgroup cgroup rw,pids
";
        let docker_cgroup = "4:memory:/docker/77\n3:pids:/docker/77\n";
        let docker_mounts = "\
2 1 0:2 /docker/77 /sys/fs/cgroup/memory ro,nosuid - cgroup cgroup rw,memory
3 1 0:3 /docker/77 /sys/fs/cgroup/pids ro,nosuid - cgroup cgroup rw,pids
";
        let odd_mounts = "\
2 1 0:2 / /mnt/a\\040b\\134c rw - cgroup cgroup rw,xattr,memory,pids
";
        let places = |memory: &str, pids: &str, cpuacct: Option<&str>, cpu: Option<&str>| V1Places {
            memory: memory.into(),
            pids: pids.into(),
            cpuacct: cpuacct.map(Into::into),
            cpu: cpu.map(Into::into),
        };
        let top = "/sys/fs/cgroup";
        let at = |path: &str| format!("{top}/{path}");
        for (name, cgroup, mounts, want) in [
            (
                "hybrid",
                HYBRID_CGROUP,
                HYBRID_MOUNTS,
                Ok((
                    places(&at("memory/job/one"), &at("pids"), Some(&at("cpuacct")), Some(&at("cpu"))),
                    false,
                )),
            ),
            (
                "joint cpu hierarchy",
                joint_cgroup,
                joint_mounts,
                Ok((
                    places(
                        &at("memory/a"),
                        &at("pids/a"),
                        Some(&at("cpu,cpuacct/a")),
                        Some(&at("cpu,cpuacct/a")),
                    ),
                    false,
                )),
            ),
            (
                "docker",
                docker_cgroup,
                docker_mounts,
                Ok((places(&at("memory"), &at("pids"), None, None), true)),
            ),
            (
                "one hierarchy, odd path",
                "1:memory,pids:/x y\n",
                odd_mounts,
                Ok((places("/mnt/a b\\c/x y", "/mnt/a b\\c/x y", None, None), false)),
            ),
            ("no pids", "4:memory:/\n", HYBRID_MOUNTS, Err("there is no pids hierarchy")),
            ("unified", "0::/user.slice\n", UNIFIED_MOUNTS, Err("there is no memory hierarchy")),
            ("not mounted", HYBRID_CGROUP, UNIFIED_MOUNTS, Err("the memory hierarchy is not mounted")),
            (
                "outside",
                "4:memory:/docker/78\n3:pids:/docker/77\n",
                docker_mounts,
                Err("this process's own memory cgroup /docker/78 is not below its mount"),
            ),
        ] {
            let found = v1_places(&parse_memberships(cgroup), &parse_mounts(mounts));
            assert_eq!(found, want.map_err(str::to_owned), "{name}");
        }
    }

    #[test]
    fn candidate_folders_in_v2_are_ordered() {
        let top = "/sys/fs/cgroup";
        let scope = "/sys/fs/cgroup/user.slice/app.slice/run-1.scope";
        let slice = "/sys/fs/cgroup/user.slice/app.slice";
        let leaf = "/sys/fs/cgroup/user.slice/app.slice/run-1.scope/hotcell-supervisor";
        // (name, own, real root, alone, superuser) -> (parent, ours, move self)
        for (name, own, real_root, alone, superuser, want) in [
            ("root group, no systemd", top, true, false, true, vec![(top, true, false)]),
            ("root group, ordinary user", top, true, false, false, vec![(top, true, false)]),
            (
                "delegated scope, alone",
                scope,
                false,
                true,
                false,
                vec![(scope, true, true), (slice, false, false)],
            ),
            ("terminal", scope, false, false, false, vec![(slice, false, false)]),
            ("root in a session", scope, false, true, true, vec![(slice, false, false), (top, false, false)]),
            ("container's only process", top, false, true, true, vec![(top, true, true)]),
            ("busy container", top, false, false, true, vec![]),
            ("child of a moved supervisor", leaf, false, true, false, vec![(scope, true, false)]),
            ("child of root", "/sys/fs/cgroup/a", false, false, true, vec![(top, false, false)]),
        ] {
            let group = OwnGroup { mount: Path::new(top), own: Path::new(own), real_root, alone, superuser };
            let found = v2_candidates(&group);
            let found: Vec<_> =
                found.iter().map(|c| (c.parent.to_str().unwrap(), c.ours, c.move_self)).collect();
            assert_eq!(found, want, "{name}");
        }
    }

    #[test]
    fn advice_fits_the_host() {
        let host = Host { superuser: false, systemd: true, v2: true, v1: false, read_only: false };
        for (host, want) in [
            (host, "systemd-run --user --scope -p Delegate=yes hotcell"),
            (Host { systemd: false, ..host }, "chown"),
            (Host { v2: false, v1: true, ..host }, "run as root"),
            (Host { v2: false, ..host }, "mount a cgroup v2"),
            (Host { read_only: true, superuser: true, ..host }, "--cgroupns=private"),
            (Host { superuser: true, ..host }, "only process"),
            (Host { superuser: true, v2: false, v1: true, ..host }, "writable"),
        ] {
            assert!(advice(host).contains(want), "{host:?}: {}", advice(host));
        }
    }

    #[test]
    fn hostile_or_broken_lines_are_left_out() {
        assert_eq!(parse_memberships("nonsense\n7:\n"), vec![]);
        assert_eq!(parse_mounts("x\n1 2 3 - cgroup2\n1 1 0:1 / /p rw - cgroup2"), {
            let mut mounts = parse_mounts("1 1 0:1 / /p rw - cgroup2 x rw\n");
            mounts.truncate(1);
            mounts
        });
        assert_eq!(unescape("a\\04"), PathBuf::from("a\\04"));
        assert_eq!(unescape("\\777\\"), PathBuf::from("\\777\\"));
        let deleted = parse_memberships("0::/gone (deleted)\n");
        assert_eq!(deleted[0].path, PathBuf::from("/gone"));
    }
}
