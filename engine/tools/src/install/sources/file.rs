//! A component in a file. Its manifest is inside, if it has one.

use std::fs::File;
use std::io::Read;
use std::os::unix::fs::OpenOptionsExt;
use std::path::Path;

use super::{Fetched, MAX_SIGNATURE_BYTES, MAX_SOURCE_BYTES, SourceError, name_of};

/// Reads the component.
///
/// # Errors
/// [`SourceError::Unreadable`] or [`SourceError::Long`] when the component or its signature cannot be read or
/// is too long.
pub fn fetch(path: &Path) -> Result<Fetched, SourceError> {
    Ok(Fetched {
        wasm: read(path, MAX_SOURCE_BYTES)?,
        manifest: None,
        signature: signature(path)?,
        name: name_of(&path.file_name().unwrap_or_default().to_string_lossy()),
        pinned: path.display().to_string(),
    })
}

/// Contents of `NAME.wasm.minisig`, if it is beside `NAME.wasm`.
pub(crate) fn signature(component: &Path) -> Result<Option<String>, SourceError> {
    let mut name = component.as_os_str().to_owned();
    name.push(".minisig");
    let path = Path::new(&name);
    if path.symlink_metadata().is_err() { Ok(None) } else { text(path, MAX_SIGNATURE_BYTES).map(Some) }
}

/// Reads a text of at most `most` bytes.
///
/// # Errors
/// [`SourceError::Unreadable`] when it cannot be read or is not UTF-8, [`SourceError::Long`] when it is too
/// long.
pub fn text(path: &Path, most: u64) -> Result<String, SourceError> {
    String::from_utf8(read(path, most)?).map_err(|_| SourceError::unreadable(path.display(), "is not UTF-8"))
}

/// Reads a file of at most `most` bytes. Does not wait for a pipe.
pub(crate) fn read(path: &Path, most: u64) -> Result<Vec<u8>, SourceError> {
    let bad = |e: std::io::Error| SourceError::unreadable(path.display(), format!("cannot be read: {e}"));
    let nonblocking = i32::try_from(rustix::fs::OFlags::NONBLOCK.bits()).unwrap_or(0);
    let file = File::options().read(true).custom_flags(nonblocking).open(path).map_err(bad)?;
    if !file.metadata().map_err(bad)?.is_file() {
        return Err(SourceError::unreadable(path.display(), "is no file"));
    }
    let mut bytes = Vec::new();
    file.take(most + 1).read_to_end(&mut bytes).map_err(bad)?;
    if bytes.len() as u64 > most {
        return Err(SourceError::Long { place: path.display().to_string(), most });
    }
    Ok(bytes)
}
