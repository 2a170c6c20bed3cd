//! The files of this program: packages install a small front as `PREFIX/bin/hotcell`, and the whole program as
//! `PREFIX/lib/hotcell/hotcell-engine-VERSION`. Without a package there is one file, which is both.
//!
//! The version is in the name so that a front never starts the whole program of another one. The files are found by the path of the running program, never by `PATH`.

use std::io;
use std::path::{Path, PathBuf};

/// Name of the whole program's file, before its version.
const ENGINE: &str = "hotcell-engine-";

/// Path by which a user starts this program: that of the front where this is the whole program behind one.
///
/// # Errors
/// When `/proc/self/exe` cannot be read.
pub fn path() -> io::Result<PathBuf> {
    let this = std::env::current_exe()?;
    Ok(front_of(&this).filter(|front| front.is_file()).unwrap_or(this))
}

/// Gives memory back that only this process's start needed, such as its parsed command line. For processes that wait for a long time from here on.
pub fn give_back_memory() {
    crate::sys::give_back_heap();
    crate::sys::give_back_stack();
}

/// Keeps the memory of this process together, for one whose few threads wait most of the time. To be called before they start.
pub fn save_memory() {
    crate::sys::use_one_heap();
}

/// Path of the whole program of this version behind this front.
///
/// # Errors
/// When `/proc/self/exe` cannot be read, and `NotFound` when there is no such file.
pub fn engine(version: &str) -> io::Result<PathBuf> {
    let this = std::env::current_exe()?;
    let engine = engine_of(&this, version).filter(|engine| engine.is_file());
    engine.ok_or_else(|| {
        let why = format!(
            "{} is the front of hotcell {version}, and ../lib/hotcell/{ENGINE}{version} is not beside it; install the whole package again",
            this.display()
        );
        io::Error::new(io::ErrorKind::NotFound, why)
    })
}

fn engine_of(front: &Path, version: &str) -> Option<PathBuf> {
    Some(front.parent()?.parent()?.join("lib/hotcell").join(format!("{ENGINE}{version}")))
}

fn front_of(engine: &Path) -> Option<PathBuf> {
    engine.file_name()?.to_str()?.strip_prefix(ENGINE)?;
    let folder = engine.parent().filter(|folder| folder.ends_with("lib/hotcell"))?;
    Some(folder.parent()?.parent()?.join("bin/hotcell"))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn front_and_engine_find_each_other_by_their_paths() {
        let engine = engine_of(Path::new("/usr/bin/hotcell"), "0.1.0");
        assert_eq!(engine.as_deref(), Some(Path::new("/usr/lib/hotcell/hotcell-engine-0.1.0")));
        for (engine, front) in [
            ("/usr/lib/hotcell/hotcell-engine-0.1.0", Some("/usr/bin/hotcell")),
            ("/v/lib/hotcell/hotcell-engine-7", Some("/v/bin/hotcell")),
            ("/usr/lib/hotcell/hotcell", None),
            ("/usr/bin/hotcell-engine-0.1.0", None),
            ("/usr/bin/hotcell", None),
            ("/", None),
        ] {
            assert_eq!(front_of(Path::new(engine)).as_deref(), front.map(Path::new), "{engine}");
        }
        assert_eq!(engine_of(Path::new("/hotcell"), "1"), None);
    }
}
