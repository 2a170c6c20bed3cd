//! What is done to the sandbox's own `/proc` before anybody else sees it.

use core::ffi::CStr;

use crate::report::{At, Failure};
use crate::sys::{self, Errno};
use crate::wire::{Setup, Step, setup};

/// Sets the ceiling of user namespaces below this one to 0: a wall behind the filter's.
pub fn forbid_nesting(setup: &Setup<'_>) -> Result<(), Failure> {
    if setup.flags & setup::NO_NESTED_USER_NS != 0 {
        let ceiling = c"proc/sys/user/max_user_namespaces";
        let file = sys::openat(sys::AT_FDCWD, ceiling, sys::O_WRONLY, 0).at_item(Step::Ceiling, 1)?;
        let written = sys::write(file, b"0");
        sys::close(file);
        written.at_item(Step::Ceiling, 2)?;
    }
    Ok(())
}

/// Covers a file with an empty unreadable one, or makes a folder read-only. What does not exist needs no cover.
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
