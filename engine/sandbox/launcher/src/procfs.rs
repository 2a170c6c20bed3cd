//! Prepares the sandbox's own `/proc` before any other process sees it.

use core::ffi::CStr;

use crate::report::{At, Failure};
use crate::sys::{self, Errno};
use crate::wire::{Setup, Step, detail, setup};

/// Sets the ceilings of the sandbox's own user namespace: no nested user namespaces, which the filter forbids
/// as well, and for resources that the kernel counts per user of the host a share that leaves some to that
/// user's editors and to other sandboxes.
pub fn set_ceilings(setup: &Setup<'_>) -> Result<(), Failure> {
    if setup.flags & setup::NO_NESTED_USER_NS != 0 {
        let ceilings: [(&CStr, &[u8]); 3] = [
            (c"proc/sys/user/max_user_namespaces", b"0"),
            // Of 128, the default for each user.
            (c"proc/sys/user/max_inotify_instances", b"32"),
            // Of 8,192, the minimum for each user.
            (c"proc/sys/user/max_inotify_watches", b"4096"),
        ];
        for (number, (ceiling, value)) in ceilings.into_iter().enumerate() {
            write(sys::AT_FDCWD, ceiling, value).at_item(Step::Ceiling, detail::ceiling::FIRST + number)?;
        }
    }
    Ok(())
}

/// Writes an existing file of `/proc`.
pub fn write(dir: sys::Fd, path: &CStr, bytes: &[u8]) -> sys::Result<()> {
    let file = sys::openat(dir, path, sys::O_WRONLY, 0)?;
    let written = sys::write(file, bytes);
    sys::close(file);
    written.map(drop)
}

/// Covers a file with an empty unreadable one, or makes a folder read-only. A missing path is ignored.
pub fn mask(path: &CStr) -> sys::Result<()> {
    let flags = sys::MS_BIND | sys::MS_RDONLY | sys::MS_NOSUID | sys::MS_NODEV | sys::MS_NOEXEC;
    let folder = sys::openat(sys::AT_FDCWD, path, sys::O_PATH | sys::O_DIRECTORY, 0);
    match folder {
        Ok(folder) => {
            sys::close(folder);
            sys::mount(path, path, c"", sys::MS_BIND | sys::MS_REC, c"")?;
            sys::mount(c"", path, c"", flags | sys::MS_REMOUNT, c"")
        }
        Err(Errno::NOTDIR) => sys::mount(c"dev/.masked", path, c"", sys::MS_BIND, c""),
        Err(Errno::NOENT) => Ok(()),
        Err(e) => Err(e),
    }
}
