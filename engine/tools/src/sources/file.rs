//! A component in a file. Its manifest is within it, if it has one.

use std::fs::File;
use std::io::Read;
use std::os::unix::fs::OpenOptionsExt;
use std::path::Path;

use super::{Fetched, LONGEST, LONGEST_SIGNATURE, SourceError, name_of};

/// Reads it.
///
/// # Errors
/// [`SourceError`].
pub fn fetch(path: &Path) -> Result<Fetched, SourceError> {
    Ok(Fetched {
        wasm: read(path, LONGEST)?,
        manifest: None,
        signature: signature(path)?,
        name: name_of(&path.file_name().unwrap_or_default().to_string_lossy()),
        pinned: path.display().to_string(),
    })
}

/// `NAME.wasm.minisig`, where it lies beside `NAME.wasm`.
pub(super) fn signature(component: &Path) -> Result<Option<String>, SourceError> {
    let mut name = component.as_os_str().to_owned();
    name.push(".minisig");
    let path = Path::new(&name);
    if path.symlink_metadata().is_err() { Ok(None) } else { text(path, LONGEST_SIGNATURE).map(Some) }
}

/// A text of at most so many bytes.
///
/// # Errors
/// [`SourceError`].
pub fn text(path: &Path, most: u64) -> Result<String, SourceError> {
    String::from_utf8(read(path, most)?).map_err(|_| SourceError::unreadable(path.display(), "is not UTF-8"))
}

/// A file of at most so many bytes. A pipe is not waited for.
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
