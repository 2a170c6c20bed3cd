//! The schema of SARIF 2.1.0, from a package of its authors.

use std::path::{Path, PathBuf};
use std::process::Command;

use serde_json::Value;

/// Package in the npm registry; `scripts/test` unpacks the same one for `$HOTCELL_TEST_SARIF`.
const PACKAGE: &str = "@microsoft/jest-sarif@1.0.0-beta.0";
const FILE: &str = "package/lib/schemas/sarif-2.1.0-rtm.5.json";

/// The schema; `None`, with a message, if it is not available.
pub fn schema() -> Option<Value> {
    let found = match std::env::var_os("HOTCELL_TEST_SARIF") {
        Some(path) => std::fs::read(PathBuf::from(path)).map_err(|e| e.to_string()),
        None => fetch(),
    };
    let parsed = found.and_then(|bytes| serde_json::from_slice(&bytes).map_err(|e| e.to_string()));
    parsed.map_err(|why| println!("skipped: no {PACKAGE}: {why}")).ok()
}

fn fetch() -> Result<Vec<u8>, String> {
    let folder = tempfile::tempdir().map_err(|e| e.to_string())?;
    let name = said(folder.path(), "npm", &["pack", "--silent", PACKAGE])?;
    let name = String::from_utf8_lossy(&name).trim().to_owned();
    said(folder.path(), "tar", &["xzOf", &name, FILE])
}

fn said(folder: &Path, program: &str, words: &[&str]) -> Result<Vec<u8>, String> {
    let output = Command::new(program)
        .args(words)
        .current_dir(folder)
        .output()
        .map_err(|e| format!("{program}: {e}"))?;
    match output.status.success() {
        true => Ok(output.stdout),
        false => Err(String::from_utf8_lossy(&output.stderr).lines().last().unwrap_or(program).to_owned()),
    }
}
