//! Opening entries of a folder without following links.

use std::io;

use cap_std::fs::{Dir, File, OpenOptions, OpenOptionsExt};
use rustix::fs::OFlags;

/// Opens a folder below another one. A link in its place is an error.
pub fn folder(dir: &Dir, name: &str) -> io::Result<Dir> {
    let flags = OFlags::DIRECTORY | OFlags::NOFOLLOW;
    Ok(Dir::from_std_file(open(dir, name, flags)?.into_std()))
}

/// Opens a regular file to read. A link, a fifo or a device in its place is an error, and is not waited for.
pub fn file(dir: &Dir, name: &str) -> io::Result<File> {
    let file = open(dir, name, OFlags::NOFOLLOW | OFlags::NONBLOCK)?;
    if !file.metadata()?.is_file() {
        return Err(io::Error::other("not a regular file"));
    }
    Ok(file)
}

fn open(dir: &Dir, name: &str, flags: OFlags) -> io::Result<File> {
    let mut options = OpenOptions::new();
    options.read(true).custom_flags(flags.bits().cast_signed());
    dir.open_with(name, &options)
}
