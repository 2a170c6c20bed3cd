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
    sys::mount(
        c"hotcell",
        place,
        c"tmpfs",
        sys::MS_NOSUID | sys::MS_NODEV,
        c"size=4m,nr_inodes=4096,mode=0755",
    )
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
        TemplateOp::Dir(path, mode) => {
            at_parent(root, path, |parent, name| match sys::mkdirat(parent, name, *mode) {
                Err(Errno::EXIST) => Ok(()),
                other => other,
            })
        }
        TemplateOp::Link(path, says) => {
            at_parent(root, path, |parent, name| sys::symlinkat(says, parent, name))
        }
        TemplateOp::File(path, mode, content) => at_parent(root, path, |parent, name| {
            let flags = sys::O_WRONLY | sys::O_CREAT | sys::O_EXCL | sys::O_NOFOLLOW;
            let file = match sys::openat(parent, name, flags, *mode) {
                // A mountpoint that a folder of the host has already.
                Err(Errno::EXIST) if content.is_empty() => return Ok(()),
                file => file?,
            };
            let result = write_all(file, content);
            sys::close(file);
            result
        }),
        TemplateOp::Bind(from, to, devices) => {
            let source = sys::openat2(host, from, sys::O_PATH, RESOLVE)?;
            let result = bind(source, root, to, *devices);
            sys::close(source);
            result
        }
    }
}

/// Links lead nowhere but inside the tree at hand: not out of the new root, not out of the host's.
const RESOLVE: u64 = sys::RESOLVE_IN_ROOT | sys::RESOLVE_NO_MAGICLINKS;

/// Opens the folder in which `path` lies and acts on the last name in it.
fn at_parent(root: Fd, path: &CStr, act: impl FnOnce(Fd, &CStr) -> sys::Result<()>) -> sys::Result<()> {
    let bytes = path.to_bytes();
    let Some(slash) = bytes.iter().rposition(|b| *b == b'/') else { return act(root, path) };
    let mut text = [0u8; 4096];
    text.get_mut(..slash).ok_or(Errno::INVAL)?.copy_from_slice(&bytes[..slash]);
    let folder = CStr::from_bytes_until_nul(&text).map_err(|_| Errno::INVAL)?;
    let name = CStr::from_bytes_with_nul(&path.to_bytes_with_nul()[slash + 1..]).map_err(|_| Errno::INVAL)?;
    let parent = sys::openat2(root, folder, sys::O_PATH | sys::O_DIRECTORY, RESOLVE)?;
    let result = act(parent, name);
    sys::close(parent);
    result
}

/// Binds read-only from the first moment, so that no later operation makes a folder on the host.
fn bind(source: Fd, root: Fd, to: &CStr, devices: bool) -> sys::Result<()> {
    let clone = sys::open_tree_clone(source, c"", true)?;
    let nodev = if devices { 0 } else { sys::MOUNT_ATTR_NODEV };
    let attributes = sys::MOUNT_ATTR_RDONLY | sys::MOUNT_ATTR_NOSUID | nodev;
    let result = sys::mount_setattr(clone, true, attributes, -1)
        .and_then(|()| sys::openat2(root, to, sys::O_PATH, RESOLVE))
        .and_then(|place| {
            let moved = sys::move_mount(clone, place, c"");
            sys::close(place);
            moved
        });
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
