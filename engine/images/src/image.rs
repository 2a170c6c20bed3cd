//! The record of an image: a JSON file that names its layers.

use std::collections::BTreeMap;
use std::path::{Path, PathBuf};

use serde::{Deserialize, Serialize};

use crate::stream::Digest;
use crate::tree::Kind;
use crate::view::View;

/// Architecture of the host, as images name it.
pub const HOST_ARCHITECTURE: &str = match std::env::consts::ARCH.as_bytes() {
    b"x86_64" => "amd64",
    b"aarch64" => "arm64",
    _ => std::env::consts::ARCH,
};

/// Maximum number of layers of an image: an overlay's mount options have to fit into one page, which has room
/// for these and one layer of ours.
pub const MAX_LAYERS: usize = 127;

/// Maximum length of an image name.
const MAX_NAME_LEN: usize = 100;

/// An image.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub struct Image {
    /// Name in the store.
    pub name: String,
    /// Origin, as the user gave it.
    pub source: String,
    /// Digest of the manifest; for a folder, of the archive made of it.
    pub digest: Digest,
    /// Size of the files in all layers, in bytes.
    pub bytes: u64,
    /// Time of import: seconds since 1970.
    pub created: u64,
    /// Languages with an interpreter or compiler on the image's `PATH`.
    pub languages: Vec<String>,
    /// Layers by the digests of their archives, the topmost first.
    pub layers: Vec<Digest>,
    /// Entries directly in the root.
    pub top: Vec<Top>,
    /// Run configuration from the image's maker.
    pub config: Config,
    /// Parts that were left out, and why: devices, maintainer scripts that did not run.
    pub notes: Vec<String>,
}

/// An entry in the root.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub struct Top {
    /// Name, without a slash.
    pub name: String,
    /// Kind of entry.
    pub kind: TopKind,
}

/// Kind of an entry in the root.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "snake_case")]
pub enum TopKind {
    /// A folder.
    Folder,
    /// A file.
    File,
    /// A link, whatever it points to.
    Link,
}

/// Run configuration from the image's maker. Only `env` and `prime` take effect.
#[derive(Clone, Debug, Default, PartialEq, Eq, Serialize, Deserialize)]
#[serde(default)]
pub struct Config {
    /// Environment variables.
    pub env: BTreeMap<String, String>,
    /// Working directory.
    pub workdir: Option<String>,
    /// User that the image asks for; ignored.
    pub user: Option<String>,
    /// Program and leading arguments.
    pub entrypoint: Vec<String>,
    /// Program or further arguments.
    pub command: Vec<String>,
    /// Modules that the image's Python imports while it waits for a job; only from a definition.
    pub prime: Vec<String>,
}

impl Config {
    /// `PATH` of programs in the image.
    #[must_use]
    pub fn path(&self) -> &str {
        self.env.get("PATH").map_or(PATH, String::as_str)
    }
}

/// `PATH` of an image that sets none: where base systems keep programs.
pub const PATH: &str = "/usr/local/sbin:/usr/local/bin:/usr/sbin:/usr/bin:/sbin:/bin";

/// Whether a name is valid for an image: letters and digits, with `._:-` between them.
#[must_use]
pub fn is_name(name: &str) -> bool {
    let plain = |b: u8| b.is_ascii_alphanumeric() || matches!(b, b'.' | b'_' | b':' | b'-');
    name.len() <= MAX_NAME_LEN
        && name.bytes().next().is_some_and(|b| b.is_ascii_alphanumeric())
        && name.bytes().all(plain)
}

/// Programs that identify a language.
const PROGRAMS: [(&str, &[&str]); 10] = [
    ("bash", &["bash"]),
    ("python", &["python3", "python"]),
    ("javascript", &["node", "deno", "bun"]),
    ("typescript", &["tsc", "deno", "bun"]),
    ("go", &["go"]),
    ("rust", &["rustc"]),
    ("c", &["cc", "gcc", "clang"]),
    ("cpp", &["c++", "g++", "clang++"]),
    ("java", &["javac"]),
    ("sql", &["postgres", "psql", "sqlite3"]),
];
/// Where Debian installs PostgreSQL servers, outside of `PATH`.
const POSTGRES: &str = "/usr/lib/postgresql";

/// Languages of an image.
pub(crate) fn languages(view: &View, path: &str) -> std::io::Result<Vec<String>> {
    let folders: Vec<PathBuf> = path
        .split(':')
        .filter_map(|p| p.strip_prefix('/'))
        // Such a path is not a folder of programs, and a very long one would take long to resolve.
        .filter(|p| p.len() <= 255 && !p.split('/').any(|part| part == ".."))
        .take(64)
        .map(PathBuf::from)
        .collect();
    let mut found = Vec::new();
    for (language, programs) in PROGRAMS {
        let mut has = language == "sql" && view.find(Path::new(&POSTGRES[1..]))?.is_some();
        for folder in &folders {
            for program in programs {
                has = has || view.find(&folder.join(program))? == Some(Kind::File);
            }
        }
        if has {
            found.push(language.to_owned());
        }
    }
    Ok(found)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn image_names_are_valid_file_names() {
        for (name, good) in [
            ("python", true),
            ("python:3.14-slim", true),
            ("a", true),
            ("", false),
            (".hidden", false),
            ("-option", false),
            ("a/b", false),
            ("a b", false),
            ("ä", false),
            (&"x".repeat(101), false),
        ] {
            assert_eq!(is_name(name), good, "{name}");
        }
    }
}
