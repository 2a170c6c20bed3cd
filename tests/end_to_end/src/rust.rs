//! A Rust toolchain that everybody may read: rustup's own lies below a home folder.

use std::path::{Path, PathBuf};
use std::process::Command;
use std::sync::OnceLock;

/// The folder above `bin/cargo`; `None` where there is none that the ordinary user could start, which is said.
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
                // As in scripts/test: links where both lie on one file system. The next process finds it.
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
