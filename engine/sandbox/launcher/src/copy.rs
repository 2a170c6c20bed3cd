//! Copies a folder into scratch, where the kernel cannot mount it copy-on-write. Runs as the sandbox's own user,
//! inside the sandbox, within scratch's limits.

use core::ffi::CStr;

use crate::names;
use crate::sys::{self, Errno, Fd};

/// Maximum depth of folders: each level holds two descriptors.
const MAX_FOLDER_DEPTH: u32 = 200;
const TYPE: u32 = 0o170_000;
const FOLDER: u32 = 0o040_000;
const FILE: u32 = 0o100_000;
const LINK: u32 = 0o120_000;

/// Copies the contents of `from` to the existing folder `to`: files, folders and symbolic links with their
/// modes. Sockets, pipes, devices and unreadable entries are skipped.
///
/// # Errors
/// When scratch is full, or the tree is too deep.
pub fn tree(from: Fd, to: Fd) -> sys::Result<()> {
    folder(from, to, 0)
}

fn folder(from: Fd, to: Fd, depth: u32) -> sys::Result<()> {
    if depth > MAX_FOLDER_DEPTH {
        return Err(Errno::INVAL);
    }
    names::each(from, |name| match entry(from, to, name, depth) {
        Err(Errno::ACCES | Errno::PERM | Errno::NOENT) => Ok(()),
        copied => copied,
    })
}

fn entry(from: Fd, to: Fd, name: &CStr, depth: u32) -> sys::Result<()> {
    let mode = sys::mode_of(from, name)?;
    match mode & TYPE {
        FOLDER => {
            let flags = sys::O_DIRECTORY | sys::O_NOFOLLOW;
            let source = sys::openat(from, name, flags, 0)?;
            let made = sys::mkdirat(to, name, 0o700).and_then(|()| sys::openat(to, name, flags, 0));
            let copied = made.and_then(|target| {
                let copied = folder(source, target, depth + 1);
                let set = sys::fchmod(target, mode & 0o1777);
                sys::close(target);
                copied.and(set)
            });
            sys::close(source);
            copied
        }
        FILE => {
            // Non-blocking: the owner may have replaced the file by a pipe.
            let source = sys::openat(from, name, sys::O_RDONLY | sys::O_NOFOLLOW | sys::O_NONBLOCK, 0)?;
            let flags = sys::O_WRONLY | sys::O_CREAT | sys::O_EXCL;
            let copied = sys::openat(to, name, flags, 0o600).and_then(|target| {
                let copied = content(source, target);
                let set = sys::fchmod(target, mode & 0o777);
                sys::close(target);
                copied.and(set)
            });
            sys::close(source);
            copied
        }
        LINK => {
            let mut says = [0u8; 4096];
            let len = sys::readlinkat(from, name, &mut says[..4095])?;
            let says = CStr::from_bytes_until_nul(&says[..=len]).map_err(|_| Errno::INVAL)?;
            sys::symlinkat(says, to, name)
        }
        _ => Ok(()),
    }
}

fn content(from: Fd, to: Fd) -> sys::Result<()> {
    let mut buffer = [0u8; 32 * 1024];
    loop {
        let len = sys::read(from, &mut buffer)?;
        if len == 0 {
            return Ok(());
        }
        let mut rest = &buffer[..len];
        while !rest.is_empty() {
            let written = sys::write(to, rest)?;
            rest = &rest[written..];
        }
    }
}
