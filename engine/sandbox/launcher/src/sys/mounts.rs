//! Mounts, with the old and the new interface. `mount(2)`, `open_tree(2)`, `mount_setattr(2)`

use core::ffi::CStr;

use super::{Fd, O_CLOEXEC, Result, check, new_nr, nr, syscall};

pub const MS_RDONLY: u64 = 1;
pub const MS_NOSUID: u64 = 2;
pub const MS_NODEV: u64 = 4;
pub const MS_NOEXEC: u64 = 8;
pub const MS_REMOUNT: u64 = 32;
pub const MS_BIND: u64 = 4096;
pub const MS_REC: u64 = 16384;
pub const MS_SLAVE: u64 = 1 << 19;
pub const MNT_DETACH: u32 = 2;
pub const AT_EMPTY_PATH: u32 = 0x1000;
pub const AT_RECURSIVE: u32 = 0x8000;
const OPEN_TREE_CLONE: u32 = 1;
const MOVE_MOUNT_F_EMPTY_PATH: u32 = 4;
const MOVE_MOUNT_T_EMPTY_PATH: u32 = 0x40;
pub const MOUNT_ATTR_RDONLY: u64 = 1;
pub const MOUNT_ATTR_NOSUID: u64 = 2;
pub const MOUNT_ATTR_NODEV: u64 = 4;
pub const MOUNT_ATTR_IDMAP: u64 = 0x0010_0000;

/// Mounts a file system; `data` holds its options.
pub fn mount(source: &CStr, target: &CStr, kind: &CStr, flags: u64, data: &CStr) -> Result<()> {
    call!(nr::MOUNT, source.as_ptr(), target.as_ptr(), kind.as_ptr(), flags, data.as_ptr()).map(drop)
}

pub fn umount(target: &CStr, flags: u32) -> Result<()> {
    call!(nr::UMOUNT2, target.as_ptr(), flags).map(drop)
}

pub fn pivot_root(new: &CStr, old: &CStr) -> Result<()> {
    call!(nr::PIVOT_ROOT, new.as_ptr(), old.as_ptr()).map(drop)
}

/// Makes a detached clone of the mount tree at `path` below `dir`.
pub fn open_tree_clone(dir: Fd, path: &CStr, recursive: bool) -> Result<Fd> {
    let flags = OPEN_TREE_CLONE | AT_EMPTY_PATH | O_CLOEXEC | if recursive { AT_RECURSIVE } else { 0 };
    call!(new_nr::OPEN_TREE, dir, path.as_ptr(), flags).map(|fd| fd as Fd)
}

/// Attaches the detached mount `fd` at `path` below `dir`, or at `dir` itself when `path` is empty.
pub fn move_mount(fd: Fd, dir: Fd, path: &CStr) -> Result<()> {
    let flags = MOVE_MOUNT_F_EMPTY_PATH | if path.is_empty() { MOVE_MOUNT_T_EMPTY_PATH } else { 0 };
    call!(new_nr::MOVE_MOUNT, fd, c"".as_ptr(), dir, path.as_ptr(), flags).map(drop)
}

#[repr(C)]
struct MountAttr {
    set: u64,
    clear: u64,
    propagation: u64,
    userns: u64,
}

/// Sets attributes of the mount `fd`; `userns` is for `MOUNT_ATTR_IDMAP`.
pub fn mount_setattr(fd: Fd, recursive: bool, set: u64, userns: Fd) -> Result<()> {
    let attr = MountAttr { set, clear: 0, propagation: 0, userns: userns as u64 };
    let flags = AT_EMPTY_PATH | if recursive { AT_RECURSIVE } else { 0 };
    call!(new_nr::MOUNT_SETATTR, fd, c"".as_ptr(), flags, &raw const attr, size_of::<MountAttr>()).map(drop)
}
