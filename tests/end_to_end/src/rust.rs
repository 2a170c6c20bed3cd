//! A world-readable Rust toolchain: rustup's own is below a home folder.

use std::path::{Path, PathBuf};
use std::process::Command;
use std::sync::OnceLock;

/// The folder above `bin/cargo`; `None`, with a message, if the ordinary user could not start any.
pub fn rust() -> Option<&'static Path> {
    static RUST: OnceLock<Option<PathBuf>> = OnceLock::new();
    RUST.get_or_init(|| match find() {
        Ok(folder) => Some(folder),
        Err(why) => {
            println!("skipped: no cargo: {why}");
            None
        }
    })
    .as_deref()
}

fn find() -> Result<PathBuf, String> {
    let output = |program: &str, words: &[&str]| {
        let output = Command::new(program).args(words).output().map_err(|e| format!("{program}: {e}"))?;
        match output.status.success() {
            true => Ok(String::from_utf8_lossy(&output.stdout).trim().to_owned()),
            false => Err(format!("{program}: {}", String::from_utf8_lossy(&output.stderr).trim())),
        }
    };
    let folder = match std::env::var_os("HOTCELL_TEST_RUST") {
        Some(folder) => PathBuf::from(folder),
        None => {
            let own = output("rustc", &["--print", "sysroot"])?;
            if crate::is_root() {
                // As in scripts/test: hard links if both are on one file system. The next process reuses it.
                let copy = std::env::temp_dir().join("hotcell-rust-0");
                let text = copy.to_str().ok_or("its path is not UTF-8")?;
                let script = "test -e $1/ready || { rm -rf $1 && mkdir -m 755 $1 && { cp -al $0/bin $0/lib $1 2>/dev/null || cp -a $0/bin $0/lib $1; } && touch $1/ready; }";
                output("sh", &["-c", script, &own, text])?;
                copy
            } else {
                own.into()
            }
        }
    };
    let cargo = folder.join("bin/cargo");
    output(cargo.to_str().ok_or("its path is not UTF-8")?, &["--version"])?;
    Ok(folder)
}
