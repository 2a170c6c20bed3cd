//! A virtual environment with a real pytest, installed from PyPI.

use std::path::{Path, PathBuf};
use std::process::Command;
use std::sync::OnceLock;

/// Packages to install; `scripts/test` installs the same ones into `$HOTCELL_TEST_VENV`.
const PACKAGES: [&str; 3] = ["pytest==9.2.0", "pytest-xdist==3.8.0", "pytest-cov==7.1.0"];

/// World-readable folder of the environment; `None`, with a message, if it cannot be made.
pub fn venv() -> Option<&'static Path> {
    static VENV: OnceLock<Option<PathBuf>> = OnceLock::new();
    VENV.get_or_init(|| {
        if let Some(path) = std::env::var_os("HOTCELL_TEST_VENV") {
            return Some(path.into());
        }
        // Not removed at the end, since a static is never dropped. The next process reuses it.
        let folder = std::env::temp_dir().join(format!("hotcell-venv2-{}", nix::unistd::geteuid()));
        if folder.join("ready").is_file() {
            return Some(folder);
        }
        match make(&folder) {
            Ok(()) => Some(folder),
            Err(why) => {
                println!("skipped: no {}: {why}", PACKAGES[0]);
                None
            }
        }
    })
    .as_deref()
}

fn make(folder: &Path) -> Result<(), String> {
    let run = |program: &Path, words: &[&str]| {
        let output = Command::new(program).args(words).output().map_err(|e| e.to_string())?;
        match output.status.success() {
            true => Ok(()),
            false => {
                Err(String::from_utf8_lossy(&output.stderr).lines().last().unwrap_or_default().to_owned())
            }
        }
    };
    let text = folder.to_str().ok_or("its path is not UTF-8")?;
    run(Path::new("/usr/bin/python3"), &["-m", "venv", "--clear", text])?;
    let install = [&["-m", "pip", "install", "--quiet"][..], &PACKAGES].concat();
    run(&folder.join("bin/python"), &install)?;
    std::fs::write(folder.join("ready"), "").map_err(|e| e.to_string())
}
