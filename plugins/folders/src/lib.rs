//! Shared code of the plugins that read files. WASI lists the granted folders; the host enforces that no
//! others can be reached.

#[cfg(target_family = "wasm")]
mod file;
mod paths;
mod walk;

use std::io;
use std::path::Path;

#[cfg(target_family = "wasm")]
pub use file::{File, Write, write};
pub use walk::{Entry, Kind, walk};

/// Granted folders, as absolute paths.
#[must_use]
pub fn granted() -> Vec<String> {
    #[cfg(target_family = "wasm")]
    return wasip2::filesystem::preopens::get_directories().into_iter().map(|(_, path)| path).collect();
    #[cfg(not(target_family = "wasm"))]
    Vec::new()
}

/// Resolves a path, which may be relative if one folder is granted.
pub fn path(given: &str) -> Result<String, String> {
    paths::absolute(given, &granted())
}

/// An error with its path; for a path outside, also with the granted folders.
#[must_use]
pub fn failed(path: &str, error: &io::Error) -> String {
    let granted = granted();
    if granted.iter().any(|folder| Path::new(path).starts_with(folder)) {
        return format!("{path}: {error}");
    }
    match granted.as_slice() {
        [] => format!("{path}: no folder is granted to this plugin"),
        some => {
            format!("{path} is in no folder that is granted to this plugin; granted are {}", some.join(", "))
        }
    }
}

/// Reads a whole file.
pub fn read(path: &Path) -> io::Result<Vec<u8>> {
    #[cfg(target_family = "wasm")]
    return File::open(path).and_then(|file| file.part(0, u64::MAX));
    #[cfg(not(target_family = "wasm"))]
    std::fs::read(path)
}

/// Reads the text of a file of at most `most` bytes.
pub fn read_text(given: &str, most: u64) -> Result<String, String> {
    let path = &path(given)?;
    let size = std::fs::metadata(path).map_err(|e| failed(path, &e))?.len();
    if size > most {
        return Err(format!("{path}: {size} bytes are more than {most}"));
    }
    let bytes = read(Path::new(path)).map_err(|e| failed(path, &e))?;
    String::from_utf8(bytes).map_err(|_| format!("{path}: this is no text in UTF-8"))
}
