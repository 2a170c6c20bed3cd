//! Downloads a set of packages, checks them against the resolved list, and merges them into one archive.

use std::io::{self, Write};
use std::path::PathBuf;

use super::apt::{Apt, AptError, Chosen};
use super::deb;
use super::merge::Merge;
use crate::definition::Definition;
use crate::tarball::TIME;

/// Reason why packages cannot be merged into a layer.
#[derive(Debug, thiserror::Error)]
pub enum DebianError {
    /// Packages cannot be resolved or downloaded.
    #[error(transparent)]
    Apt(#[from] AptError),
    /// A package's file is broken.
    #[error("{file} {error}")]
    Package {
        /// The file.
        file: String,
        /// The problem.
        error: io::Error,
    },
    /// The file holds another package than the list says.
    #[error("{file} says that it is {name} {version}")]
    Other {
        /// The file.
        file: String,
        /// Name in the file.
        name: String,
        /// Version in the file.
        version: String,
    },
    /// The target of a link of the definition does not exist.
    #[error("links: {path} points to {target}, which no package brings")]
    Link {
        /// The link.
        path: String,
        /// Target of the link.
        target: String,
    },
    /// A `path` pattern of the definition does not match exactly one folder.
    #[error("path: {pattern} is {found} folders of the image; it has to be one")]
    Path {
        /// The pattern as written.
        pattern: String,
        /// Number of matching folders.
        found: usize,
    },
    /// The archive cannot be written.
    #[error("the layer cannot be written: {0}")]
    Io(#[from] io::Error),
}

/// Facts about merged packages, besides their files.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct Merged {
    /// The definition's `path`, with every `*` resolved.
    pub path: Vec<String>,
    /// Scripts that were not run, as `PACKAGE: SCRIPT, …`.
    pub scripts: Vec<String>,
}

/// Downloads the packages of a definition and writes them as one archive.
///
/// # Errors
/// [`DebianError::Apt`] when packages cannot be downloaded; [`DebianError::Package`] or
/// [`DebianError::Other`] when a file is not the expected package; [`DebianError::Link`] or
/// [`DebianError::Path`] when the definition does not fit the packages; [`DebianError::Io`] when the archive
/// cannot be written.
pub fn write(
    definition: &Definition,
    apt: &Apt,
    chosen: &[Chosen],
    progress: &mut dyn FnMut(&str),
    out: impl Write,
) -> Result<Merged, DebianError> {
    let bytes = hotcell_sandbox::Bytes(chosen.iter().map(|c| c.bytes).sum());
    progress(&format!("downloading {} Debian packages ({bytes})", chosen.len()));
    let files = apt.download(&definition.packages, chosen)?;
    merge(definition, chosen, &files, progress, out)
}

/// Writes the packages' files, in the order of the package names.
fn merge(
    definition: &Definition,
    chosen: &[Chosen],
    files: &[PathBuf],
    progress: &mut dyn FnMut(&str),
    out: impl Write,
) -> Result<Merged, DebianError> {
    let mut merge = Merge::new(out);
    let mut scripts = Vec::new();
    for (number, (package, path)) in chosen.iter().zip(files).enumerate() {
        progress(&format!("unpacking {}/{}: {} {}", number + 1, chosen.len(), package.name, package.version));
        let bad = |error| DebianError::Package { file: package.file.clone(), error };
        let mut deb = deb::open(path).map_err(bad)?;
        if (&deb.about.name, &deb.about.version) != (&package.name, &package.version) {
            let deb::About { name, version, .. } = deb.about;
            return Err(DebianError::Other { file: package.file.clone(), name, version });
        }
        merge.add(deb.files()).map_err(bad)?;
        if !deb.about.scripts.is_empty() {
            scripts.push(format!("{}: {}", deb.about.name, deb.about.scripts.join(", ")));
        }
        deb.finish().map_err(bad)?;
    }
    for (path, target) in &definition.links {
        merge.link(path, target, TIME)?;
        if !merge.has(path) {
            let (path, target) = (path.display().to_string(), target.display().to_string());
            return Err(DebianError::Link { path, target });
        }
    }
    let one = |pattern: &String| {
        let mut found = merge.matching(pattern);
        match found.len() {
            1 => Ok(found.remove(0)),
            found => Err(DebianError::Path { pattern: pattern.clone(), found }),
        }
    };
    let path = definition.path.iter().map(one).collect::<Result<_, _>>()?;
    merge.finish()?.flush()?;
    Ok(Merged { path, scripts })
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::debian::deb::tests::package;
    use crate::stream::Digest;
    use std::path::Path;

    type Packages<'a> = [(&'a str, &'a [(u8, &'a str, &'a str)])];

    /// Makes packages with these names in a folder, and merges them as the definition says.
    fn merged(text: &str, packages: &Packages<'_>) -> Result<(Merged, Vec<u8>), DebianError> {
        let dir = tempfile::tempdir().unwrap();
        let definition = format!("{text}\n[debian]\npackages = [\"dash\"]");
        let definition = Definition::parse(&definition, Path::new("d.toml")).unwrap();
        let (mut chosen, mut files) = (Vec::new(), Vec::new());
        for (name, entries) in packages {
            let file = format!("{name}.deb");
            // The name of the file, and the name inside it.
            std::fs::write(dir.path().join(&file), package(name.trim_start_matches('~'), entries)).unwrap();
            files.push(dir.path().join(&file));
            let (name, version) = ((*name).to_owned(), "1.0-1".to_owned());
            chosen.push(Chosen { name, version, file, bytes: 0, digest: Digest::of(b"") });
        }
        let mut out = Vec::new();
        let merged = merge(&definition, &chosen, &files, &mut |_| {}, &mut out)?;
        Ok((merged, out))
    }

    #[test]
    fn definition_sets_links_and_path() {
        let text = "links = { \"usr/bin/java\" = \"/usr/lib/jvm/bin/java\" }\npath = [\"/usr/lib/pg/*/bin\"]";
        let packages: &Packages<'_> = &[
            ("jre", &[(b'0', "./usr/lib/jvm/bin/java", "j")]),
            ("pg", &[(b'0', "./usr/lib/pg/15/bin/initdb", "i")]),
        ];
        let (found, archive) = merged(text, packages).unwrap();
        assert_eq!(found.path, ["/usr/lib/pg/15/bin"]);
        assert_eq!(found.scripts, ["jre: postinst", "pg: postinst"]);
        assert_eq!(archive, merged(text, packages).unwrap().1, "the same inputs, the same archive");
        for (packages, word) in [
            (&packages[..1], "/usr/lib/pg/*/bin is 0 folders"),
            (&packages[1..], "usr/bin/java points to /usr/lib/jvm/bin/java, which no package brings"),
            (&[("~jre", packages[0].1)], "says that it is jre 1.0-1"),
            (&[("jre", &[(b'0', "../x", "")])], "jre.deb ../x is not a path below the root"),
        ] {
            let error = merged(text, packages).unwrap_err().to_string();
            assert!(error.contains(word), "{error}");
        }
    }
}
