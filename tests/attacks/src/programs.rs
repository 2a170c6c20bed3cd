//! Compiles the hostile programs, once for all test processes.

use std::collections::hash_map::DefaultHasher;
use std::hash::{Hash, Hasher};
use std::io;
use std::path::{Path, PathBuf};
use std::process::Command;

/// Where the sources are.
#[must_use]
pub fn sources() -> PathBuf {
    Path::new(env!("CARGO_MANIFEST_DIR")).join("programs")
}

/// The static multi-call program, compiled into `folder` unless an up-to-date one is there.
///
/// The file's name carries a digest of the sources, and it appears by a rename: test processes that start together may
/// compile twice and disturb each other never.
///
/// # Errors
/// When the sources cannot be read or the compiler (`CC`, else `cc`) fails; the message carries what it printed.
pub fn attack_program(folder: &Path) -> io::Result<PathBuf> {
    let mut files: Vec<PathBuf> = std::fs::read_dir(sources())?
        .filter_map(|entry| entry.ok().map(|e| e.path()))
        .filter(|path| path.extension().is_some_and(|e| e == "c" || e == "h"))
        .collect();
    files.sort();
    let mut hasher = DefaultHasher::new();
    for file in &files {
        std::fs::read(file)?.hash(&mut hasher);
    }
    let program = folder.join(format!("attack-{:016x}", hasher.finish()));
    if program.exists() {
        return Ok(program);
    }
    std::fs::create_dir_all(folder)?;
    let temporary = folder.join(format!("attack-{}.tmp", std::process::id()));
    let compiler = std::env::var_os("CC").unwrap_or_else(|| "cc".into());
    let output = Command::new(&compiler)
        .args(["-O1", "-static", "-no-pie", "-Wall", "-Wextra", "-o"])
        .arg(&temporary)
        .args(files.iter().filter(|f| f.extension().is_some_and(|e| e == "c")))
        .arg("-lpthread")
        .output()?;
    if !output.status.success() {
        return Err(io::Error::other(format!(
            "{} cannot make the hostile programs; it needs a static C library: {}",
            compiler.display(),
            String::from_utf8_lossy(&output.stderr)
        )));
    }
    std::fs::rename(&temporary, &program)?;
    Ok(program)
}
