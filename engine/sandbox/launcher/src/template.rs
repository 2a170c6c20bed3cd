//! Builds a root file system from a list of operations. Not for deciding what belongs into it.

use core::ffi::CStr;

use crate::report::{At, Failure};
use crate::sys::{self, Errno, Fd};
use crate::wire::{List, Step, TemplateOp};

/// Where the host's tree is, once the launcher has a root of its own.
pub const HOST: &CStr = c"/host";

/// Builds the tree on a fresh tmpfs at `place` and makes all of it read-only. Returns its root.
///
/// # Errors
/// The operation that failed, by its number.
pub fn build(place: &CStr, host: Fd, ops: List<'_, TemplateOp<'_>>) -> Result<Fd, Failure> {
    // Small: it holds only names, links and a few files of /etc.
    sys::mount(c"hotcell", place, c"tmpfs", sys::MS_NOSUID, c"size=4m,nr_inodes=4096,mode=0755")
        .at(Step::Template)?;
    match fill(place, host, ops) {
        Ok(root) => Ok(root),
        Err(failure) => {
            let _ = sys::umount(place, sys::MNT_DETACH);
            Err(failure)
        }
    }
}

fn fill(place: &CStr, host: Fd, ops: List<'_, TemplateOp<'_>>) -> Result<Fd, Failure> {
    let root = sys::openat(sys::AT_FDCWD, place, sys::O_PATH | sys::O_DIRECTORY, 0).at(Step::Template)?;
    for (number, op) in ops.enumerate() {
        apply(root, host, &op).at_item(Step::Template, number)?;
    }
    sys::mount_setattr(root, true, sys::MOUNT_ATTR_RDONLY | sys::MOUNT_ATTR_NOSUID, -1).at(Step::Template)?;
    Ok(root)
}

fn apply(root: Fd, host: Fd, op: &TemplateOp<'_>) -> sys::Result<()> {
    match op {
        TemplateOp::Dir(path, mode) => match sys::mkdirat(root, path, *mode) {
            Err(Errno::EXIST) => Ok(()),
            other => other,
        },
        TemplateOp::Link(path, says) => sys::symlinkat(says, root, path),
        TemplateOp::File(path, mode, content) => {
            let file = sys::openat(root, path, sys::O_WRONLY | sys::O_CREAT | sys::O_EXCL, *mode)?;
            let result = write_all(file, content);
            sys::close(file);
            result
        }
        TemplateOp::Bind(from, to, devices) => {
            let source =
                sys::openat2(host, from, sys::O_PATH, sys::RESOLVE_IN_ROOT | sys::RESOLVE_NO_MAGICLINKS)?;
            let result = bind(source, root, to, *devices);
            sys::close(source);
            result
        }
    }
}

fn bind(source: Fd, root: Fd, to: &CStr, devices: bool) -> sys::Result<()> {
    let clone = sys::open_tree_clone(source, c"", true)?;
    let nodev = if devices { 0 } else { sys::MOUNT_ATTR_NODEV };
    let result = sys::mount_setattr(clone, true, sys::MOUNT_ATTR_NOSUID | nodev, -1)
        .and_then(|()| sys::move_mount(clone, root, to));
    sys::close(clone);
    result
}

fn write_all(file: Fd, mut bytes: &[u8]) -> sys::Result<()> {
    while !bytes.is_empty() {
        let n = sys::write(file, bytes)?;
        bytes = &bytes[n..];
    }
    Ok(())
}
