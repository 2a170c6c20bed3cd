//! What is kept of an image: a row of JSON that names its layers.

use std::collections::BTreeMap;
use std::path::{Path, PathBuf};

use serde::{Deserialize, Serialize};

use crate::stream::Digest;
use crate::tree::Kind;
use crate::view::View;

/// The longest name of an image.
const LONGEST_NAME: usize = 100;

/// An image.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub struct Image {
    /// Its name here.
    pub name: String,
    /// Where it came from, as it was asked for.
    pub source: String,
    /// The digest of its manifest; of a folder, of the archive that it makes.
    pub digest: Digest,
    /// Bytes of files in its layers.
    pub bytes: u64,
    /// When it came here: seconds since 1970.
    pub created: u64,
    /// Languages whose interpreter or compiler is on its `PATH`.
    pub languages: Vec<String>,
    /// Its layers, the topmost first, by the digest of their archives.
    pub layers: Vec<Digest>,
    /// What lies directly in its root.
    pub top: Vec<Top>,
    /// What its maker says about running it.
    pub config: Config,
    /// What of it is not there, and why: devices, maintainer scripts that did not run.
    pub notes: Vec<String>,
}

/// Something in the root.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub struct Top {
    /// Its name, without a slash.
    pub name: String,
    /// What it is.
    pub kind: TopKind,
}

/// What something in the root is.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "snake_case")]
pub enum TopKind {
    /// A folder.
    Folder,
    /// A file.
    File,
    /// A link, whatever it leads to.
    Link,
}

/// What an image's maker says about running it. Of this only `env` and `prime` take effect.
#[derive(Clone, Debug, Default, PartialEq, Eq, Serialize, Deserialize)]
#[serde(default)]
pub struct Config {
    /// Variables.
    pub env: BTreeMap<String, String>,
    /// Start folder.
    pub workdir: Option<String>,
    /// Whom it wants to be; it never is.
    pub user: Option<String>,
    /// Program and first arguments.
    pub entrypoint: Vec<String>,
    /// Program or further arguments.
    pub command: Vec<String>,
    /// Modules that a Python of it imports while it waits for a job; of a definition.
    pub prime: Vec<String>,
}

impl Config {
    /// The `PATH` inside.
    #[must_use]
    pub fn path(&self) -> &str {
        self.env.get("PATH").map_or(PATH, String::as_str)
    }
}

/// The `PATH` of an image that says none: where base systems keep programs.
pub const PATH: &str = "/usr/local/sbin:/usr/local/bin:/usr/sbin:/usr/bin:/sbin:/bin";

/// A name that can be given to an image: letters, digits and `._:-` between them.
#[must_use]
pub fn is_name(name: &str) -> bool {
    let plain = |b: u8| b.is_ascii_alphanumeric() || matches!(b, b'.' | b'_' | b':' | b'-');
    name.len() <= LONGEST_NAME
        && name.bytes().next().is_some_and(|b| b.is_ascii_alphanumeric())
        && name.bytes().all(plain)
}

/// Programs by which a language is known.
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
/// Where Debian keeps servers that are not on the `PATH`.
const POSTGRES: &str = "/usr/lib/postgresql";

/// The languages of an image.
pub(crate) fn languages(view: &View, path: &str) -> std::io::Result<Vec<String>> {
    let folders: Vec<PathBuf> = path
        .split(':')
        .filter_map(|p| p.strip_prefix('/'))
        // A path of a million steps is no folder of programs.
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
    fn names_are_names_of_files_too() {
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
