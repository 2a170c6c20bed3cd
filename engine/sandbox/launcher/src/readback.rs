//! Proves from `/proc` and the mounts that all requested layers are in force.
//!
//! Rule 3 of the security model: a one-shot run uses its own set-up as the test. Any difference leads to a
//! refusal that names the layer.

use crate::report::{At, Failure};
use crate::sys::{self, Errno};
use crate::text::Text;
use crate::wire::{Setup, Step, detail, setup};

fn different(detail: usize) -> Failure {
    Failure { step: Step::Readback, errno: Errno::PERM, detail: detail as u64 }
}

/// Compares the layers in force for the runner, which sees `its_root` (device, inode) as `/`, with the
/// requested ones.
pub fn check(setup: &Setup<'_>, runner: i32, its_root: (u64, u64)) -> Result<(), Failure> {
    if setup.flags & setup::READBACK == 0 {
        return Ok(());
    }
    let mut buffer = [0u8; 4096];
    let status =
        slurp(Text::of(format_args!("/proc/{runner}/status")).cstr(), &mut buffer).at(Step::Readback)?;
    check_status(setup, status)?;
    if setup.flags & setup::ROOT != 0 {
        let root = sys::openat(sys::AT_FDCWD, c"/", sys::O_PATH | sys::O_DIRECTORY, 0).at(Step::Readback)?;
        let flags = sys::fstatfs(root).map(|s| s.flags);
        sys::close(root);
        let wanted = sys::ST_RDONLY | sys::ST_NOSUID;
        if flags.at(Step::Readback)? & wanted != wanted {
            return Err(different(detail::readback::ROOT_FLAGS));
        }
        // The runner existed before the root was changed: pivot_root(2) moves every process of the namespace.
        let own = sys::stat(c"/").at(Step::Readback)?;
        if (own.dev, own.ino) != its_root {
            return Err(different(detail::readback::ROOT_FLAGS));
        }
    }
    if setup.flags & setup::CGROUP_NS != 0 && setup.flags & (setup::CGROUP_V1 | setup::CGROUP_V2) != 0 {
        let groups =
            slurp(Text::of(format_args!("/proc/{runner}/cgroup")).cstr(), &mut buffer).at(Step::Readback)?;
        if !in_own_cgroup(groups) {
            return Err(different(detail::readback::CGROUP));
        }
    }
    Ok(())
}

fn check_status(setup: &Setup<'_>, status: &[u8]) -> Result<(), Failure> {
    let has = |flag: u32| setup.flags & flag != 0;
    if has(setup::NO_NEW_PRIVS) && field(status, b"NoNewPrivs:") != Some(b"1") {
        return Err(different(detail::readback::NO_NEW_PRIVS));
    }
    if has(setup::SECCOMP) && field(status, b"Seccomp:") != Some(b"2") {
        return Err(different(detail::readback::SECCOMP));
    }
    if has(setup::DROP_CAPS) {
        // Without a user namespace of its own, the sandbox cannot empty the bounding set; no_new_privs makes
        // it ineffective.
        let sets: [&[u8]; 5] = [b"CapInh:", b"CapPrm:", b"CapEff:", b"CapAmb:", b"CapBnd:"];
        let count = if setup.namespaces & sys::CLONE_NEWUSER == 0 { 4 } else { 5 };
        for set in &sets[..count] {
            if !field(status, set).is_some_and(|value| value.iter().all(|b| *b == b'0')) {
                return Err(different(detail::readback::CAPABILITIES));
            }
        }
    }
    if setup.namespaces & sys::CLONE_NEWUSER != 0 {
        for (name, id) in [(&b"Uid:"[..], setup.inside.0), (b"Gid:", setup.inside.1)] {
            let wanted = Text::of(format_args!("{id}\t{id}\t{id}\t{id}"));
            if field(status, name) != Some(wanted.bytes()) {
                return Err(different(detail::readback::IDS));
            }
        }
    }
    Ok(())
}

/// Whether the sandbox's cgroups are the roots, as in a cgroup namespace of its own.
fn in_own_cgroup(groups: &[u8]) -> bool {
    let mut lines = groups.split(|b| *b == b'\n').filter(|line| !line.is_empty());
    let accounted = |line: &[u8]| {
        let mut parts = line.splitn(3, |b| *b == b':');
        let controllers = parts.nth(1).unwrap_or(b"");
        let path = parts.next().unwrap_or(b"");
        // Version 2 has one line without controllers.
        let limits = controllers.split(|b| *b == b',').any(|c| matches!(c, b"" | b"memory" | b"pids"));
        !limits || path == b"/"
    };
    lines.all(accounted)
}

/// The value of `name` in `/proc/PID/status`, without surrounding white space.
fn field<'a>(status: &'a [u8], name: &[u8]) -> Option<&'a [u8]> {
    let line = status.split(|b| *b == b'\n').find(|line| line.starts_with(name))?;
    Some(line[name.len()..].trim_ascii())
}

/// Reads the beginning of a small file.
pub fn slurp<'a>(path: &core::ffi::CStr, buffer: &'a mut [u8]) -> sys::Result<&'a [u8]> {
    let file = sys::openat(sys::AT_FDCWD, path, sys::O_RDONLY, 0)?;
    let read = sys::read(file, buffer);
    sys::close(file);
    read.map(|n| &buffer[..n])
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn cgroup_membership() {
        for (text, want) in [
            (&b"8:pids:/\n4:memory:/\n1:cpu:/\n0::/\n"[..], true),
            (b"8:pids:/\n4:memory:/../x\n", false),
            (b"8:pids:/a\n", false),
            (b"5:devices:/somewhere\n8:pids:/\n", true),
            (b"0::/\n", true),
        ] {
            assert_eq!(in_own_cgroup(text), want, "{}", std::string::String::from_utf8_lossy(text));
        }
    }

    #[test]
    fn status_fields() {
        let status = b"Name:\tx\nUid:\t1000\t1000\t1000\t1000\nNoNewPrivs:\t1\nSeccomp:\t2\n";
        assert_eq!(field(status, b"NoNewPrivs:"), Some(&b"1"[..]));
        assert_eq!(field(status, b"Uid:"), Some(&b"1000\t1000\t1000\t1000"[..]));
        assert_eq!(field(status, b"Missing:"), None);
    }
}
