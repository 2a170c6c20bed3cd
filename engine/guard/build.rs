//! Converts the crate's rules from YAML, their only source, into JSON that loads quickly at every start:
//! `[[name, digest of the file, [rule, …]], …]`.

#[allow(dead_code)]
#[path = "src/language.rs"]
mod language;
#[allow(dead_code)]
#[path = "src/rules/schema.rs"]
mod schema;

use schema::Rule;
use serde::Deserialize;
use sha2::{Digest, Sha256};
use std::path::{Path, PathBuf};

/// Files of `rules/`, in matching order.
const FILES: [&str; 24] = [
    "python",
    "shell",
    "javascript",
    "sql",
    "rust",
    "go",
    "c",
    "java",
    "powershell",
    "files",
    "text",
    "cloud",
    "native",
    "reach",
    "node",
    "flow",
    "flow_js",
    "model",
    "spread",
    "relay",
    "remote",
    "access",
    "destroy",
    "trust",
];

/// Lock file with the versions of the workspace's dependencies.
const LOCK: &str = "../../Cargo.lock";

fn main() -> Result<(), Box<dyn std::error::Error>> {
    println!("cargo:rerun-if-changed=rules\ncargo:rerun-if-changed=src");
    // Missing when the crate is built from a package: then the crate's own version replaces those of its
    // parsers.
    let versions = std::fs::read(LOCK).unwrap_or_default();
    if !versions.is_empty() {
        println!("cargo:rerun-if-changed={LOCK}");
    }
    let there = std::fs::read_dir("rules")?.count();
    if there != FILES.len() {
        return Err(format!("rules/ has {there} files; build.rs names {}", FILES.len()).into());
    }
    let mut packs = Vec::new();
    for file in FILES {
        let name = format!("{file}.yml");
        let text = std::fs::read_to_string(Path::new("rules").join(&name))?;
        let rules = serde_yaml_ng::Deserializer::from_str(&text)
            .map(Rule::deserialize)
            .collect::<Result<Vec<_>, _>>()
            .map_err(|error| format!("rules/{name}: {error}"))?;
        packs.push((name, Sha256::digest(&text).to_vec(), rules));
    }
    let out = std::env::var_os("OUT_DIR").ok_or("OUT_DIR is not set: build with cargo")?;
    std::fs::write(Path::new(&out).join("rules.json"), serde_json::to_vec(&packs)?)?;
    println!(
        "cargo:rustc-env=HOTCELL_GUARD_BUILD={}",
        build(&versions, packs.iter().map(|(_, digest, _)| digest))?
    );
    Ok(())
}

/// Digest of everything that a report depends on beside the artifact: rules, sources, and, where known, the
/// versions of the parsers.
fn build<'r>(versions: &[u8], rules: impl Iterator<Item = &'r Vec<u8>>) -> std::io::Result<String> {
    let mut hash = Sha256::new();
    rules.for_each(|digest| hash.update(digest));
    let mut sources = Vec::new();
    collect(Path::new("src"), &mut sources)?;
    sources.sort();
    // The reader of git's settings, shared with another crate.
    let settings = Path::new("../workspace/src/settings.rs");
    if settings.exists() {
        println!("cargo:rerun-if-changed={}", settings.display());
        sources.push(settings.to_owned());
    }
    for path in sources {
        hash.update(path.to_string_lossy().as_bytes());
        hash.update(Sha256::digest(std::fs::read(path)?));
    }
    hash.update(versions);
    hash.update(env!("CARGO_PKG_VERSION"));
    Ok(hex::encode(hash.finalize()))
}

fn collect(folder: &Path, into: &mut Vec<PathBuf>) -> std::io::Result<()> {
    for entry in std::fs::read_dir(folder)? {
        let path = entry?.path();
        if path.is_dir() {
            collect(&path, into)?;
        } else {
            into.push(path);
        }
    }
    Ok(())
}
