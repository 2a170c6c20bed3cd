//! Refusals and advice of a lookup.

use std::ffi::OsStr;
use std::path::Path;

use hotcell_sandbox::policy::PROJECT;

use crate::{LookupError, place, shell_advice};

/// The refusal for a host path into the project, where the program has something else inside.
pub(super) fn changed(path: &Path) -> LookupError {
    LookupError::NotExecutable {
        path: path.to_path_buf(),
        why: format!("it lies in the workspace, which was changed and is only there at {PROJECT}"),
        hint: format!("name it by its path below {PROJECT}, or make the environment again in the workspace"),
    }
}

/// The refusal for a path of the project that the operator's own settings do not lead to.
pub(super) fn outside(from: &Path, to: &Path) -> LookupError {
    LookupError::Untrusted {
        from: from.to_path_buf(),
        path: to.to_path_buf(),
        folder: place::named_folder(to),
        hint: String::new(),
    }
}

pub(super) fn remake(venv: &Path) -> String {
    format!(
        "make the environment again: `python3 -m venv --clear {}` (on Debian after `apt install python3-venv`)",
        venv.display()
    )
}

pub(super) fn install_hint(name: &OsStr, near: Option<String>) -> String {
    let name = name.to_string_lossy();
    if let Some(advice) = shell_advice(&name) {
        return advice.to_owned();
    }
    // `python` where there is `python3`, but not `cargo` where there is `xargs`.
    let is_variant = |near: &String| near.starts_with(&*name) || name.starts_with(near.as_str());
    match (near, advice(&name)) {
        (Some(near), None) => format!("did you mean {near}?"),
        (Some(near), Some(_)) if is_variant(&near) => format!("did you mean {near}?"),
        (_, Some(advice)) => advice,
        (None, None) => "install it, or give its path".to_owned(),
    }
}

/// How to install a well-known program.
fn advice(name: &str) -> Option<String> {
    Some(match name {
        "python" | "python3" | "pip" | "pip3" => {
            "install Python (on Debian: `apt install python3 python3-venv`)".to_owned()
        }
        "pytest" | "tox" | "nox" | "mypy" | "ruff" | "black" => format!(
            "install it into the project's environment: `python3 -m venv .venv && .venv/bin/pip install {name}`"
        ),
        "cargo" | "rustc" => "install Rust from https://rustup.rs".to_owned(),
        "node" | "npm" | "npx" => "install Node.js (on Debian: `apt install nodejs npm`)".to_owned(),
        "go" => "install Go (on Debian: `apt install golang`)".to_owned(),
        "java" | "javac" => "install a JDK (on Debian: `apt install default-jdk-headless`)".to_owned(),
        "gcc" | "cc" | "make" | "g++" => {
            "install a compiler (on Debian: `apt install build-essential`)".to_owned()
        }
        _ => return None,
    })
}
