//! Merges the files of many packages into one tar archive, laid out as dpkg would do it on a merged `/usr`.
//!
//! Packages still ship files below `/bin` and `/lib`, which are links to `/usr/bin` and `/usr/lib`; some ship
//! a folder where another ships a link. dpkg follows such links on disk. Here no link is followed: paths are
//! resolved against a list of the links that were written. Owners, set-id bits and documentation are left
//! out.

use std::collections::{BTreeMap, BTreeSet};
use std::ffi::OsStr;
use std::io::{self, Read, Write};
use std::os::unix::ffi::OsStrExt;
use std::path::{Component, Path, PathBuf};

/// Top-level folders that are links into `/usr`.
const ALIASES: [&str; 7] = ["bin", "sbin", "lib", "lib32", "lib64", "libo32", "libx32"];
/// Aliases that every image has; the others exist only if a package has files in them.
const ALWAYS: [&str; 3] = ["bin", "sbin", "lib"];
/// Documentation folders; licences in them are kept.
const LEFT_OUT: [&str; 6] = [
    "usr/share/doc",
    "usr/share/man",
    "usr/share/info",
    "usr/share/locale",
    "usr/share/lintian",
    "usr/share/bug",
];
/// Maximum number of links in the resolution of one path.
const MAX_LINKS: usize = 40;

/// Writes the files of packages into one archive.
pub struct Merge<W: Write> {
    out: tar::Builder<W>,
    links: BTreeMap<PathBuf, PathBuf>,
    folders: BTreeSet<PathBuf>,
    files: BTreeSet<PathBuf>,
}

impl<W: Write> Merge<W> {
    /// Starts with an empty tree.
    pub fn new(out: W) -> Self {
        let alias = |name: &str| (PathBuf::from(name), PathBuf::from(format!("usr/{name}")));
        let links = ALIASES.into_iter().map(alias).collect();
        Self { out: tar::Builder::new(out), links, folders: BTreeSet::new(), files: BTreeSet::new() }
    }

    /// Adds a package's files.
    ///
    /// # Errors
    /// When the archive is broken, or has an entry that no package has.
    pub fn add(&mut self, files: impl Read) -> io::Result<()> {
        let mut archive = tar::Archive::new(files);
        for entry in archive.entries()? {
            let mut entry = entry?;
            let written = below(Path::new(OsStr::from_bytes(&entry.path_bytes())))?;
            let Some((path, modified)) = self.place(&written)?.zip(Some(entry.header().mtime()?)) else {
                continue;
            };
            let target = entry.link_name_bytes().map(|bytes| PathBuf::from(OsStr::from_bytes(&bytes)));
            let target = || target.clone().ok_or_else(|| bad(&written, "is a link to nothing"));
            match entry.header().entry_type() {
                tar::EntryType::Directory => self.folder(&path, modified)?,
                tar::EntryType::Regular | tar::EntryType::Continuous => {
                    self.free(&path)?;
                    let mode = if entry.header().mode()? & 0o111 == 0 { 0o644 } else { 0o755 };
                    let mut header = header(tar::EntryType::Regular, mode, modified);
                    header.set_size(entry.size());
                    self.parents(&path, modified)?;
                    self.out.append_data(&mut header, &path, &mut entry)?;
                    self.links.remove(&path);
                    self.files.insert(path);
                }
                tar::EntryType::Symlink => self.link(&path, &target()?, modified)?,
                tar::EntryType::Link => {
                    let of = self.place(&below(&target()?)?)?.filter(|of| self.files.contains(of));
                    let of = of.ok_or_else(|| bad(&written, "is a second name of nothing"))?;
                    self.free(&path)?;
                    let mut header = header(tar::EntryType::Link, 0o644, modified);
                    self.parents(&path, modified)?;
                    self.out.append_link(&mut header, &path, &of)?;
                    self.links.remove(&path);
                    self.files.insert(path);
                }
                _ => return Err(bad(&written, "is neither file, folder nor link")),
            }
        }
        Ok(())
    }

    /// Adds a link that a maintainer script would have made.
    ///
    /// # Errors
    /// When the link cannot be written.
    pub fn link(&mut self, path: &Path, target: &Path, modified: u64) -> io::Result<()> {
        // Like dpkg: a link does not replace a folder, nor an alias.
        if self.folders.contains(path) || is_alias(path) {
            return Ok(());
        }
        self.parents(path, modified)?;
        let mut header = header(tar::EntryType::Symlink, 0o777, modified);
        self.out.append_link(&mut header, path, target)?;
        self.files.remove(path);
        self.links.insert(path.to_owned(), joined(path, target));
        Ok(())
    }

    /// Whether a file or folder exists at a path, also through links.
    #[must_use]
    pub fn has(&self, path: &Path) -> bool {
        let Ok(path) = below(path.strip_prefix("/").unwrap_or(path)).and_then(|p| self.resolve(&p, true))
        else {
            return false;
        };
        self.files.contains(&path) || self.folders.contains(&path)
    }

    /// Absolute paths of the folders that match a pattern with `*` components.
    #[must_use]
    pub fn matching(&self, pattern: &str) -> Vec<String> {
        let parts: Vec<&str> = pattern.trim_start_matches('/').split('/').collect();
        let fits = |folder: &&PathBuf| {
            let names: Vec<_> = folder.iter().collect();
            names.len() == parts.len()
                && names.iter().zip(&parts).all(|(name, part)| *part == "*" || *name == *part)
        };
        self.folders.iter().filter(fits).map(|folder| format!("/{}", folder.display())).collect()
    }

    /// Writes the aliases and the end of the archive.
    ///
    /// # Errors
    /// When the archive cannot be written.
    pub fn finish(mut self) -> io::Result<W> {
        for name in ALIASES {
            let target = format!("usr/{name}");
            if ALWAYS.contains(&name) {
                self.folder(Path::new(&target), 0)?;
            }
            if self.folders.contains(Path::new(&target)) {
                self.out.append_link(&mut header(tar::EntryType::Symlink, 0o777, 0), name, &target)?;
            }
        }
        self.out.into_inner()
    }

    /// Path at which an entry is written; `None` when it is documentation, or the root itself.
    fn place(&self, written: &Path) -> io::Result<Option<PathBuf>> {
        let path = self.resolve(written, false)?;
        let kept = path.ends_with("copyright") || !LEFT_OUT.iter().any(|folder| path.starts_with(folder));
        Ok((path.components().next().is_some() && kept).then_some(path))
    }

    /// Resolves the links in a path; also in its last component when `whole`.
    fn resolve(&self, path: &Path, whole: bool) -> io::Result<PathBuf> {
        let mut path = path.to_owned();
        for _ in 0..MAX_LINKS {
            let ancestors: Vec<&Path> = path.ancestors().skip(usize::from(!whole)).collect();
            let Some((link, to)) = ancestors.iter().rev().find_map(|a| self.links.get_key_value(*a)) else {
                return Ok(path);
            };
            path = to.join(path.strip_prefix(link).unwrap_or(Path::new("")));
        }
        Err(bad(&path, "is behind too many links"))
    }

    fn folder(&mut self, path: &Path, modified: u64) -> io::Result<()> {
        // Like dpkg: a folder does not replace a link to a folder.
        if self.links.contains_key(path) || self.folders.contains(path) {
            return Ok(());
        }
        if self.files.contains(path) {
            return Err(bad(path, "is a file of another package and a folder"));
        }
        self.parents(path, modified)?;
        let mode = if path == Path::new("tmp") || path == Path::new("var/tmp") { 0o1777 } else { 0o755 };
        self.out.append_data(&mut header(tar::EntryType::Directory, mode, modified), path, io::empty())?;
        self.folders.insert(path.to_owned());
        Ok(())
    }

    /// Fails when a folder is at the path, since a file does not replace it.
    fn free(&self, path: &Path) -> io::Result<()> {
        match self.folders.contains(path) || is_alias(path) {
            true => Err(bad(path, "is a folder of another package and a file")),
            false => Ok(()),
        }
    }

    fn parents(&mut self, path: &Path, modified: u64) -> io::Result<()> {
        match path.parent().filter(|parent| parent.components().next().is_some()) {
            Some(parent) => self.folder(parent, modified),
            None => Ok(()),
        }
    }
}

fn is_alias(path: &Path) -> bool {
    ALIASES.iter().any(|alias| Path::new(alias) == path)
}

fn header(kind: tar::EntryType, mode: u32, modified: u64) -> tar::Header {
    let mut header = tar::Header::new_gnu();
    header.set_entry_type(kind);
    header.set_mode(mode);
    header.set_mtime(modified);
    header.set_uid(0);
    header.set_gid(0);
    header.set_size(0);
    header
}

/// A path below the root, without `.` components.
fn below(path: &Path) -> io::Result<PathBuf> {
    let mut out = PathBuf::new();
    for part in path.components() {
        match part {
            Component::CurDir => {}
            Component::Normal(name) => out.push(name),
            _ => return Err(bad(path, "is not a path below the root")),
        }
    }
    Ok(out)
}

/// Path that a link at `path` points to, without access to the disk; `..` at the root is ignored.
fn joined(path: &Path, target: &Path) -> PathBuf {
    let mut out = path.parent().map(Path::to_owned).unwrap_or_default();
    for part in target.components() {
        match part {
            Component::RootDir => out = PathBuf::new(),
            Component::ParentDir => drop(out.pop()),
            Component::Normal(name) => out.push(name),
            Component::CurDir | Component::Prefix(_) => {}
        }
    }
    out
}

fn bad(path: &Path, what: &str) -> io::Error {
    let name = hotcell_sandbox::text::printable(&path.to_string_lossy());
    io::Error::new(io::ErrorKind::InvalidData, format!("{name} {what}"))
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::debian::deb::tests::tar_of;
    use proptest::prelude::*;

    type Tree = BTreeMap<String, (char, u32, String)>;

    fn read(tar: &[u8]) -> Tree {
        let mut archive = tar::Archive::new(tar);
        let entry = |e: io::Result<tar::Entry<'_, _>>| {
            let mut e: tar::Entry<'_, &[u8]> = e.unwrap();
            let kind = char::from(e.header().entry_type().as_byte());
            let path = e.path().unwrap().to_str().unwrap().trim_end_matches('/').to_owned();
            let mode = e.header().mode().unwrap();
            let mut text = e.link_name().unwrap().map(|t| t.to_str().unwrap().to_owned()).unwrap_or_default();
            e.read_to_string(&mut text).unwrap();
            (path, (kind, mode, text))
        };
        archive.entries().unwrap().map(entry).collect()
    }

    fn merge(packages: &[&[(u8, &str, &str)]]) -> io::Result<Tree> {
        let mut merge = Merge::new(Vec::new());
        for entries in packages {
            merge.add(&tar_of(entries)[..])?;
        }
        Ok(read(&merge.finish()?))
    }

    #[test]
    fn packages_become_one_tree_with_a_merged_usr() {
        let tree = merge(&[
            &[
                (b'5', "./", ""),
                (b'5', "./bin/", ""),
                (b'0', "./bin/dash", "d"),
                (b'2', "./bin/sh", "dash"),
                (b'1', "./bin/second", "./bin/dash"),
                (b'0', "./lib64/ld.so", "l"),
                (b'0', "./usr/share/doc/dash/README", "text"),
                (b'0', "./usr/share/doc/dash/copyright", "c"),
                (b'5', "./tmp", ""),
            ],
            &[
                (b'2', "./bin", "usr/bin"),
                (b'0', "./usr/bin/x", "x"),
                (b'2', "./usr/lib/a", "/usr/lib/b"),
                (b'2', "./usr/lib/c", "../lib/b"),
            ],
            &[
                (b'5', "./usr/lib/a", ""),
                (b'0', "./usr/lib/a/one", "1"),
                (b'0', "./lib/c/two", "2"),
                (b'5', "./usr/lib/d", ""),
            ],
            &[(b'2', "./usr/lib/d", "elsewhere")],
        ])
        .unwrap();
        let get = |path: &str| tree.get(path).map(|(kind, mode, text)| (*kind, *mode, text.as_str()));
        assert_eq!(get("bin"), Some(('2', 0o777, "usr/bin")));
        assert_eq!(get("lib64"), Some(('2', 0o777, "usr/lib64")));
        assert_eq!(get("lib32"), None);
        assert_eq!(get("usr/bin/dash"), Some(('0', 0o755, "d")), "no set-id bits");
        assert_eq!(get("usr/bin/sh"), Some(('2', 0o777, "dash")));
        assert_eq!(get("usr/bin/second"), Some(('1', 0o644, "usr/bin/dash")));
        assert_eq!(get("usr/lib/b/one").map(|e| e.2), Some("1"), "{tree:?}");
        assert_eq!(get("usr/lib/b/two").map(|e| e.2), Some("2"));
        assert_eq!(get("usr/lib/d").map(|e| e.0), Some('5'));
        assert_eq!((get("usr/share/doc/dash/README"), get("bin/dash")), (None, None));
        assert_eq!(get("usr/share/doc/dash/copyright").map(|e| e.2), Some("c"));
        assert_eq!(get("tmp").map(|e| e.1), Some(0o1777));
        assert_eq!(
            get("sbin").map(|e| e.2),
            Some("usr/sbin"),
            "aliases have somewhere to go: {:?}",
            get("usr/sbin")
        );
        assert!(get("usr/sbin").is_some());
    }

    #[test]
    fn impossible_package_entries_are_refused() {
        for (entries, word) in [
            (&[(b'0', "../x", "")][..], "below the root"),
            (&[(b'0', "/x", "")], "below the root"),
            (&[(b'0', "a/../../x", "")], "below the root"),
            (&[(b'1', "a", "../../etc/passwd")], "below the root"),
            (&[(b'1', "a", "b")], "second name of nothing"),
            (&[(b'2', "a", "")], "link to nothing"),
            (&[(b'3', "a", "")], "neither file"),
            (&[(b'6', "a", "")], "neither file"),
            (&[(b'2', "a", "b"), (b'2', "b", "a"), (b'0', "a/x", "")], "too many links"),
            (&[(b'2', "a", "a"), (b'0', "a/x", "")], "too many links"),
            (&[(b'0', "a", ""), (b'0', "a/x", "")], "and a folder"),
            (&[(b'0', "a/x", ""), (b'0', "a", "")], "and a file"),
            (&[(b'0', "bin", "")], "and a file"),
        ] {
            let error = merge(&[entries]).unwrap_err().to_string();
            assert!(error.contains(word), "{entries:?}: {error}");
        }
        // A link upwards does not leave the root.
        let tree = merge(&[&[(b'2', "a", "../../etc"), (b'0', "a/x", "1")]]).unwrap();
        assert!(tree.contains_key("etc/x"), "{tree:?}");
    }

    #[test]
    fn merged_tree_answers_path_queries() {
        let mut merge = Merge::new(Vec::new());
        let entries = [
            (b'0', "./usr/lib/jvm/17/bin/java", ""),
            (b'2', "./usr/lib/jvm/default", "17"),
            (b'0', "usr/lib/pg/15/bin/x", ""),
        ];
        merge.add(&tar_of(&entries)[..]).unwrap();
        merge.link(Path::new("usr/bin/java"), Path::new("/usr/lib/jvm/default/bin/java"), 0).unwrap();
        for (path, want) in [
            ("usr/bin/java", true),
            ("/bin/java", true),
            ("usr/lib/jvm/default", true),
            ("usr/bin/javac", false),
            ("../x", false),
        ] {
            assert_eq!(merge.has(Path::new(path)), want, "{path}");
        }
        assert_eq!(merge.matching("/usr/lib/pg/*/bin"), ["/usr/lib/pg/15/bin"]);
        assert_eq!(merge.matching("/usr/lib/*/*/bin").len(), 2);
        assert_eq!(merge.matching("/usr/lib/none"), Vec::<String>::new());
    }

    proptest! {
        /// Hostile packages are rejected, or give a tree in which no file lies behind a link.
        #[test]
        fn merged_files_are_never_behind_links(entries in prop::collection::vec(
            ((0..4usize).prop_map(|k| b"0125"[k]), "(\\./)?(bin|lib|a|b|c)(/(a|b|c|\\.\\.)){0,2}", "/?(\\.\\./)?(a|b|c|bin|usr)(/a|/b)?"), 0..8)) {
            let entries: Vec<(u8, &str, &str)> = entries.iter().map(|(k, p, t)| (*k, p.as_str(), t.as_str())).collect();
            if let Ok(tree) = merge(&[&entries]) {
                for path in tree.keys() {
                    for above in Path::new(path).ancestors().skip(1) {
                        let above = tree.get(above.to_str().unwrap());
                        prop_assert!(above.is_none_or(|(kind, ..)| *kind != '2'), "{path} in {tree:?}");
                    }
                }
            }
        }
    }
}
