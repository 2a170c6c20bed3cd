//! `Directory` messages, checked as hostile input. Pure.

use std::collections::btree_map::Entry as Place;
use std::collections::{BTreeMap, HashSet};
use std::path::{Path, PathBuf};

use bazel_remote_apis::build::bazel::remote::execution::v2::Directory;
use prost::Message;

use crate::count::{ENTRIES, PROPERTIES, Parts, count};
use crate::digest::Key;
use crate::error::FleetError;

/// Maximum length of a name, in bytes: Linux's `NAME_MAX`.
const MAX_NAME: usize = 255;
/// Maximum length of a link's target, and of a path, in bytes: below Linux's `PATH_MAX`.
const MAX_TARGET: usize = 4095;

/// Bounds of a tree.
#[derive(Clone, Copy, Debug)]
pub struct Bounds {
    /// Maximum number of files, folders and links. Default one million less one.
    pub entries: usize,
    /// Maximum depth of folders. Default 128; the workspace's own walk ends at 256.
    pub depth: usize,
    /// Maximum size of all files, in bytes. Default 8 GiB.
    pub bytes: u64,
    /// Maximum length of all paths, in bytes: below a folder with a long name, each path repeats it. Default 128 MiB.
    pub paths: usize,
    /// Maximum size of all directory messages, in bytes. Default 512 MiB.
    pub messages: usize,
}

impl Default for Bounds {
    fn default() -> Self {
        Self { entries: 999_999, depth: 128, bytes: 8 << 30, paths: 128 << 20, messages: 512 << 20 }
    }
}

/// An entry of a tree.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum Entry {
    /// A folder.
    Folder,
    /// A file.
    File {
        /// Digest of its content.
        key: Key,
        /// It may be executed.
        executable: bool,
    },
    /// A symbolic link that stays in the tree.
    Link(String),
}

/// A tree that was checked: paths below its root, each folder before its content.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct Tree {
    /// Entries.
    pub entries: Vec<(PathBuf, Entry)>,
    /// Size of all files, in bytes.
    pub bytes: u64,
}

/// Directory messages that were asked for and read so far, each counted once and before it takes memory: [`expand`] sees them only when all are there.
#[derive(Clone, Copy, Debug, Default)]
pub struct Read {
    entries: usize,
    properties: usize,
    bytes: u64,
}

impl Read {
    /// Counts messages before they are asked for, by the sizes in their digests.
    ///
    /// # Errors
    /// [`FleetError`] of a wrong request, when they have too many bytes together.
    pub fn want(&mut self, keys: &[Key], bounds: Bounds) -> Result<(), FleetError> {
        self.bytes = keys.iter().fold(self.bytes, |bytes, key| bytes.saturating_add(key.size));
        if self.bytes > bounds.messages as u64 {
            let why = format!("the tree's directories have more than {} bytes", bounds.messages);
            return Err(FleetError::request(why));
        }
        Ok(())
    }

    /// Counts the entries of a message, and their properties, and decodes it: an entry takes two bytes there, and many times that in memory.
    ///
    /// # Errors
    /// [`FleetError`] of a wrong request, when a bound is exceeded, or the text is not a directory.
    pub fn decode(&mut self, key: Key, text: &[u8], bounds: Bounds) -> Result<Directory, FleetError> {
        let no = |why: &str| FleetError::request(format!("{} is not a directory: {why}", key.name()));
        let counted = |fields| count(text, fields).ok_or_else(|| no("its fields have no end"));
        self.entries += counted(ENTRIES)?;
        self.properties += counted(PROPERTIES)?;
        if self.entries > bounds.entries {
            return Err(FleetError::request(format!("the tree has more than {} entries", bounds.entries)));
        }
        if self.properties > bounds.entries {
            let why = format!("the entries of the tree have more than {} properties", bounds.entries);
            return Err(FleetError::request(why));
        }
        Directory::decode(text).map_err(|e| no(&e.to_string()))
    }

    /// Decodes the directories in the text of a `Tree`, one by one, each counted before; returns the root's digest, and all by digest. A digest is that of
    /// the text, which also has the fields that are unknown here. Equal directories are decoded and counted once.
    ///
    /// # Errors
    /// [`FleetError`] of a wrong request, when a bound is exceeded, the text is not a tree, or a directory is not valid.
    pub fn decode_tree(
        &mut self,
        text: &[u8],
        bounds: Bounds,
    ) -> Result<(Key, BTreeMap<Key, Directory>), FleetError> {
        let no = |why: &str| FleetError::request(format!("a folder is not a tree: {why}"));
        let (mut root, mut folders, mut directories) = (None, 0, BTreeMap::new());
        for part in Parts(text) {
            let (number, content) = part.ok_or_else(|| no("its fields have no end"))?;
            if ![TREE_ROOT, TREE_CHILDREN].contains(&number) {
                continue;
            }
            let content = content.ok_or_else(|| no("a number is in the place of a folder"))?;
            let key = Key::of(content);
            if number == TREE_ROOT && root.replace(key).is_some() {
                return Err(no("it has two roots"));
            }
            folders += 1;
            if folders > bounds.entries {
                return Err(FleetError::request(format!(
                    "the tree has more than {} entries",
                    bounds.entries
                )));
            }
            if let Place::Vacant(place) = directories.entry(key) {
                let directory = self.decode(key, content, bounds)?;
                children(&directory)?;
                place.insert(directory);
            }
        }
        // A message without fields is an empty folder.
        let root = root.unwrap_or_else(|| Key::of(b""));
        directories.entry(root).or_default();
        Ok((root, directories))
    }
}

// Numbers of the fields of `Tree`.
const TREE_ROOT: u32 = 1;
const TREE_CHILDREN: u32 = 2;

/// Digests of the folders in a directory, after a check of all its names and links.
///
/// # Errors
/// [`FleetError`] of a wrong request: a name that is not one, twice the same name, a digest that is not one. Links are
/// checked here as far as they do not depend on the place of the directory.
pub fn children(directory: &Directory) -> Result<Vec<Key>, FleetError> {
    let mut names = HashSet::new();
    let files = directory.files.iter().map(|file| &file.name);
    let folders = directory.directories.iter().map(|folder| &folder.name);
    let links = directory.symlinks.iter().map(|link| &link.name);
    for name in files.chain(folders).chain(links) {
        check_name(name)?;
        if !names.insert(name.as_str()) {
            return Err(FleetError::request(format!("a directory has {name:?} twice")));
        }
    }
    for file in &directory.files {
        Key::check(file.digest.as_ref(), &format!("the file {:?}", file.name))?;
    }
    directory
        .directories
        .iter()
        .map(|folder| Key::check(folder.digest.as_ref(), &format!("the folder {:?}", folder.name)))
        .collect()
}

fn check_name(name: &str) -> Result<(), FleetError> {
    let why = match name {
        "" => "is empty",
        "." | ".." => "is not a name",
        _ if name.contains('/') => "has a slash",
        _ if name.contains('\0') => "has a zero byte",
        _ if name.len() > MAX_NAME => "is longer than 255 bytes",
        _ => return Ok(()),
    };
    let shown: String = name.chars().take(80).collect();
    Err(FleetError::request(format!("a directory has an entry whose name {why}: {shown:?}")))
}

/// Checks that a link leads nowhere out of the tree: `depth` is the number of folders above it. Parent steps are taken
/// at its beginning only, where they do not depend on other links.
///
/// # Errors
/// [`FleetError`] of a wrong request.
pub fn check_link(path: &Path, target: &str, depth: usize) -> Result<(), FleetError> {
    let bad = |why: &str| {
        let shown: String = target.chars().take(80).collect();
        Err(FleetError::request(format!("the link {} {why}: {shown:?}", path.display())))
    };
    if target.is_empty() || target.len() > MAX_TARGET || target.contains('\0') {
        return bad("has a target that is not one");
    }
    if target.starts_with('/') {
        return bad("leads out of the tree by an absolute path");
    }
    let parts = target.split('/').filter(|part| !part.is_empty() && *part != ".");
    let mut parts = parts.peekable();
    let mut up = 0;
    while parts.next_if(|part| *part == "..").is_some() {
        up += 1;
    }
    if up > depth {
        return bad("leads out of the tree");
    }
    if parts.any(|part| part == "..") {
        return bad("has .. behind a name, which may lead out of the tree");
    }
    Ok(())
}

/// Expands directories to a tree. A directory that is named in several places counts in each of them, so that a small
/// message cannot make a large tree.
///
/// # Errors
/// [`FleetError`] of a wrong request: a directory is missing, or a bound is exceeded; and those of [`children`].
pub fn expand(root: Key, directories: &BTreeMap<Key, Directory>, bounds: Bounds) -> Result<Tree, FleetError> {
    let mut tree = Tree::default();
    let mut paths = 0;
    let mut waiting = vec![(PathBuf::new(), root, 0)];
    while let Some((path, key, depth)) = waiting.pop() {
        let directory = directories
            .get(&key)
            .ok_or_else(|| FleetError::request(format!("the directory {} is missing", key.name())))?;
        if depth > bounds.depth {
            return Err(FleetError::request(format!("the tree is deeper than {} folders", bounds.depth)));
        }
        let folders = children(directory)?;
        let more = folders.len() + directory.files.len() + directory.symlinks.len();
        if tree.entries.len() + waiting.len() + more > bounds.entries {
            return Err(FleetError::request(format!("the tree has more than {} entries", bounds.entries)));
        }
        let names = directory.files.iter().map(|file| &file.name);
        let names = names.chain(directory.directories.iter().map(|folder| &folder.name));
        for name in names.chain(directory.symlinks.iter().map(|link| &link.name)) {
            let above = path.as_os_str().len();
            let length = above + usize::from(above > 0) + name.len();
            paths += length;
            if length > MAX_TARGET {
                let why = format!("a path of the tree is longer than {MAX_TARGET} bytes");
                return Err(FleetError::request(why));
            }
            if paths > bounds.paths {
                let why = format!("the paths of the tree have more than {} bytes together", bounds.paths);
                return Err(FleetError::request(why));
            }
        }
        if !path.as_os_str().is_empty() {
            tree.entries.push((path.clone(), Entry::Folder));
        }
        for file in &directory.files {
            let key = Key::check(file.digest.as_ref(), "a file")?;
            tree.bytes = tree.bytes.saturating_add(key.size);
            if tree.bytes > bounds.bytes {
                return Err(FleetError::request(format!("the tree has more than {} bytes", bounds.bytes)));
            }
            tree.entries.push((path.join(&file.name), Entry::File { key, executable: file.is_executable }));
        }
        for link in &directory.symlinks {
            let at = path.join(&link.name);
            check_link(&at, &link.target, depth)?;
            tree.entries.push((at, Entry::Link(link.target.clone())));
        }
        for (folder, key) in directory.directories.iter().zip(folders) {
            waiting.push((path.join(&folder.name), key, depth + 1));
        }
    }
    Ok(tree)
}

#[cfg(test)]
mod tests {
    use bazel_remote_apis::build::bazel::remote::execution::v2::{
        DirectoryNode, FileNode, NodeProperties, NodeProperty, SymlinkNode, Tree as TreeMessage,
    };
    use proptest::prelude::*;

    use super::*;

    fn file(name: &str) -> FileNode {
        FileNode { name: name.to_owned(), digest: Some(Key::of(b"x").message()), ..FileNode::default() }
    }

    fn put(directories: &mut BTreeMap<Key, Directory>, directory: Directory) -> Key {
        let key = Key::of(&directory.encode_to_vec());
        directories.insert(key, directory);
        key
    }

    fn folder(name: &str, key: Key) -> DirectoryNode {
        DirectoryNode { name: name.to_owned(), digest: Some(key.message()) }
    }

    #[test]
    fn hostile_names_are_refused() {
        for name in ["", ".", "..", "a/b", "/", "a\0b", &"x".repeat(256)] {
            let directory = Directory { files: vec![file(name)], ..Directory::default() };
            assert!(children(&directory).is_err(), "{name:?}");
        }
        let twice = Directory {
            files: vec![file("a")],
            symlinks: vec![SymlinkNode {
                name: "a".to_owned(),
                target: "b".to_owned(),
                ..SymlinkNode::default()
            }],
            ..Directory::default()
        };
        assert!(children(&twice).unwrap_err().message.contains("twice"));
        let none = Directory {
            files: vec![FileNode { name: "a".to_owned(), ..FileNode::default() }],
            ..Directory::default()
        };
        assert!(children(&none).is_err());
    }

    #[test]
    fn links_stay_in_the_tree() {
        for (target, depth, good) in [
            ("a", 0, true),
            ("./a/b", 0, true),
            ("../a", 1, true),
            ("../../a", 2, true),
            ("..", 0, false),
            ("../a", 0, false),
            ("../../a", 1, false),
            ("a/../b", 3, false),
            ("/etc/passwd", 9, false),
            ("", 0, false),
            ("a\0", 0, false),
        ] {
            assert_eq!(check_link(Path::new("l"), target, depth).is_ok(), good, "{target:?} {depth}");
        }
    }

    #[test]
    fn small_messages_make_no_large_tree() {
        let mut directories = BTreeMap::new();
        let mut key = put(&mut directories, Directory { files: vec![file("f")], ..Directory::default() });
        // Ten folders in each of eight levels: 10^8 files in nine messages.
        for _ in 0..8 {
            let wide = (0..10).map(|at| folder(&format!("d{at}"), key)).collect();
            key = put(&mut directories, Directory { directories: wide, ..Directory::default() });
        }
        assert!(expand(key, &directories, Bounds::default()).unwrap_err().message.contains("entries"));
        for _ in 0..200 {
            let deep = Directory { directories: vec![folder("d", key)], ..Directory::default() };
            key = put(&mut directories, deep);
        }
        assert!(expand(key, &directories, Bounds::default()).unwrap_err().message.contains("deeper"));
        // Few entries in few messages, whose paths repeat long names of the folders above.
        let files = (0..1000).map(|at| file(&format!("f{at}"))).collect();
        let mut key = put(&mut directories, Directory { files, ..Directory::default() });
        let wide = (0..900).map(|at| folder(&format!("d{at}"), key)).collect();
        key = put(&mut directories, Directory { directories: wide, ..Directory::default() });
        for levels in 0..120 {
            key = put(
                &mut directories,
                Directory { directories: vec![folder(&"x".repeat(255), key)], ..Directory::default() },
            );
            let told = expand(key, &directories, Bounds::default()).map(|tree| tree.entries.len());
            match (levels, told) {
                (15.., Err(error)) => {
                    assert!(error.message.contains("longer than 4095"), "{error}");
                    break;
                }
                (_, told) => assert!(told.unwrap_err().message.contains("bytes together"), "{levels}"),
            }
        }
        let large =
            FileNode { digest: Some(Key { hash: [0; 32], size: u64::MAX >> 1 }.message()), ..file("a") };
        let both = Directory {
            files: vec![large.clone(), FileNode { name: "b".to_owned(), ..large }],
            ..Directory::default()
        };
        let key = put(&mut directories, both);
        assert!(expand(key, &directories, Bounds::default()).unwrap_err().message.contains("bytes"));
        assert!(
            expand(Key::of(b"?"), &directories, Bounds::default()).unwrap_err().message.contains("missing")
        );
    }

    #[test]
    fn messages_are_counted_before_they_are_read() {
        let bounds = Bounds { messages: 100, ..Bounds::default() };
        let key = |size| Key { hash: [0; 32], size };
        for (wanted, good) in [
            (&[&[40, 60][..]][..], true),
            (&[&[40], &[60]], true),
            (&[&[40, 61]], false),
            (&[&[40], &[61]], false),
            (&[&[101]], false),
            (&[&[u64::MAX, u64::MAX]], false),
        ] {
            let mut read = Read::default();
            let got = wanted
                .iter()
                .try_for_each(|sizes| read.want(&sizes.iter().copied().map(key).collect::<Vec<_>>(), bounds));
            assert_eq!(got.is_ok(), good, "{wanted:?}");
            assert!(good || got.unwrap_err().message.contains("100 bytes"));
        }
    }

    #[test]
    fn entries_are_counted_before_they_are_decoded() {
        let with = |count: usize| {
            Some(NodeProperties {
                properties: vec![NodeProperty::default(); count],
                mtime: Some(bazel_remote_apis::google::protobuf::Timestamp { seconds: 1, nanos: 1 }),
                ..NodeProperties::default()
            })
        };
        let link = SymlinkNode { node_properties: with(2), ..SymlinkNode::default() };
        let all = Directory {
            files: vec![file("a"), FileNode { node_properties: with(3), ..file("b") }],
            directories: vec![folder("c", Key::of(b""))],
            symlinks: vec![link.clone()],
            node_properties: with(1),
        };
        let links = Directory { symlinks: vec![link; 3], ..Directory::default() };
        let bounds = Bounds { entries: 6, ..Bounds::default() };
        let decoded = |texts: &[&[u8]]| {
            let mut read = Read::default();
            let mut decode = |text: &&[u8]| read.decode(Key::of(text), text, bounds);
            texts.iter().map(&mut decode).collect::<Result<Vec<_>, _>>().map_err(|error| error.message)
        };
        let (all_text, links_text) = (all.encode_to_vec(), links.encode_to_vec());
        assert_eq!(decoded(&[&all_text, b""]), Ok(vec![all.clone(), Directory::default()]));
        assert_eq!(decoded(&[&links_text]), Ok(vec![links]));
        for (texts, why) in [
            (&[&all_text[..], &all_text][..], "6 entries"),
            (&[&all_text, &links_text], "6 entries"),
            // An empty entry of each kind is two bytes.
            (&[&b"\x0a\0".repeat(7)], "6 entries"),
            (&[&b"\x12\0".repeat(7)], "6 entries"),
            (&[&b"\x1a\0".repeat(7)], "6 entries"),
            (&[&links_text, b"\x2a\x02\x0a\0"], "6 properties"),
            (&[&[b"\x2a\x0e".as_slice(), &b"\x0a\0".repeat(7)].concat()], "6 properties"),
            (&[&[b"\x0a\x10\x32\x0e".as_slice(), &b"\x0a\0".repeat(7)].concat()], "6 properties"),
            (&[&[b"\x1a\x10\x22\x0e".as_slice(), &b"\x0a\0".repeat(7)].concat()], "6 properties"),
            (&[&all_text[..all_text.len() - 1]], "not a directory"),
            (&[b"\x0a\xff\xff\xff\xff\xff\xff\xff\xff\xff\x01"], "not a directory"),
            (&[b"\x0b\x0c"], "not a directory"),
            (&[b"\x08\x01"], "not a directory"),
            (&[b"\xff"], "not a directory"),
        ] {
            let got = decoded(texts).unwrap_err();
            assert!(got.contains(why), "{got} {texts:02x?}");
        }
    }

    #[test]
    fn trees_are_counted_before_they_are_decoded() {
        let bounds = Bounds { entries: 6, ..Bounds::default() };
        let leaf = Directory { files: vec![file("a"), file("b")], ..Directory::default() };
        let leaf_key = Key::of(&leaf.encode_to_vec());
        let root = Directory { directories: vec![folder("d", leaf_key)], ..Directory::default() };
        let tree = |root: &Directory, children: &[Directory]| {
            TreeMessage { root: Some(root.clone()), children: children.to_vec() }.encode_to_vec()
        };
        let read = |texts: &[&[u8]]| {
            let mut read = Read::default();
            let mut last = Err(String::new());
            for text in texts {
                last = read.decode_tree(text, bounds).map_err(|error| error.message);
                last.as_ref().map_err(Clone::clone)?;
            }
            last
        };
        let good = tree(&root, std::slice::from_ref(&leaf));
        let (key, directories) = read(&[&good]).unwrap();
        assert_eq!((key, directories.len()), (Key::of(&root.encode_to_vec()), 2));
        assert_eq!(expand(key, &directories, bounds).unwrap().entries.len(), 3);
        // A field of a later version of the protocol, which belongs to the digest.
        let later = [leaf.encode_to_vec(), b"\xfa\x01\x01x".to_vec()].concat();
        let above = Directory { directories: vec![folder("d", Key::of(&later))], ..Directory::default() };
        let mut text = tree(&above, &[]);
        text.push(0x12);
        prost::encoding::encode_varint(later.len() as u64, &mut text);
        text.extend(&later);
        let (key, directories) = read(&[&text]).unwrap();
        assert_eq!(expand(key, &directories, bounds).unwrap().entries.len(), 3);
        // No root is an empty folder, and equal folders are one.
        assert!(read(&[b""]).is_ok_and(|(key, all)| key == Key::of(b"") && all.len() == 1));
        assert!(read(&[&tree(&root, &vec![leaf.clone(); 5])]).is_ok_and(|(_, all)| all.len() == 2));
        let bad = Directory { files: vec![file("..")], ..Directory::default() };
        let slash = file("a/b");
        let wide =
            Directory { files: (0..7).map(|at| file(&at.to_string())).collect(), ..Directory::default() };
        for (texts, why) in [
            (&[&tree(&root, &[leaf.clone(), wide.clone()])[..]][..], "6 entries"),
            (&[&tree(&wide, &[])], "6 entries"),
            // All output folders of a result are counted together.
            (&[&good, &good, &good], "6 entries"),
            // An empty entry, or an empty folder, is two bytes.
            (&[&[b"\x0a\x0e".as_slice(), &b"\x0a\0".repeat(7)].concat()], "6 entries"),
            (&[&[b"\x12\x0e".as_slice(), &b"\x1a\0".repeat(7)].concat()], "6 entries"),
            (&[&b"\x12\0".repeat(7)], "6 entries"),
            (&[&[b"\x0a\x10\x2a\x0e".as_slice(), &b"\x0a\0".repeat(7)].concat()], "6 properties"),
            (&[b"\x0a\0\x0a\0"], "two roots"),
            (&[b"\x08\x01"], "not a tree"),
            (&[b"\x15\0\0\0\0"], "not a tree"),
            (&[&tree(&bad, &[])], "not a name"),
            (&[&tree(&root, &[Directory { files: vec![slash], ..Directory::default() }])], "has a slash"),
            (&[&good[..good.len() - 1]], "not a tree"),
            (&[b"no tree at all"], "not a tree"),
            (&[b"\x12\x02\x0a\x05"], "not a directory"),
            (&[b"\x0a\xff\xff\xff\xff\xff\xff\xff\xff\xff\x01"], "not a tree"),
        ] {
            let got = read(texts).unwrap_err();
            assert!(got.contains(why), "{got} {texts:02x?}");
        }
    }

    proptest! {
        /// A tree that is decoded in parts is the one that is decoded at once, and never has more than its bounds.
        #[test]
        fn trees_of_bytes_are_what_they_are_decoded_to(text in prop::collection::vec(0..0x20_u8, 0..60)) {
            let bounds = Bounds { entries: 3, ..Bounds::default() };
            if let Ok((root, directories)) = Read::default().decode_tree(&text, bounds) {
                let whole = TreeMessage::decode(&*text).unwrap();
                prop_assert_eq!(&directories[&root], &whole.root.unwrap_or_default());
                prop_assert!(whole.children.iter().all(|child| directories.values().any(|known| known == child)));
                let entries: usize = directories.values().map(|one| one.files.len() + one.directories.len() + one.symlinks.len()).sum();
                prop_assert!(entries <= 3 && directories.len() <= 4);
            }
        }

        /// Decoded messages have no more than was counted.
        #[test]
        fn texts_of_bytes_are_counted_as_they_are_decoded(text in prop::collection::vec(0..0x40_u8, 0..40)) {
            let counted = count(&text, ENTRIES).zip(count(&text, PROPERTIES));
            if let Ok(directory) = Directory::decode(&*text) && let Some((entries, properties)) = counted {
                prop_assert_eq!(entries, directory.files.len() + directory.directories.len() + directory.symlinks.len());
                let of = |one: &Option<NodeProperties>| one.as_ref().map_or(0, |one| one.properties.len());
                let files: usize = directory.files.iter().map(|file| of(&file.node_properties)).sum();
                let links: usize = directory.symlinks.iter().map(|link| of(&link.node_properties)).sum();
                prop_assert!(properties >= files + links + of(&directory.node_properties));
            }
        }

        /// No tree that passes has a path that is absolute, or that leads up.
        #[test]
        fn expanded_paths_stay_below_the_root(
            names in prop::collection::vec("[a./\\x00]{0,3}", 0..5),
            targets in prop::collection::vec("[a./]{0,6}", 0..3),
        ) {
            let mut directories = BTreeMap::new();
            let inner = put(&mut directories, Directory {
                files: names.iter().map(|name| file(name)).collect(),
                symlinks: targets.iter().enumerate().map(|(at, target)| SymlinkNode {
                    name: format!("l{at}"), target: target.clone(), ..SymlinkNode::default()
                }).collect(),
                ..Directory::default()
            });
            let root = put(&mut directories, Directory {
                directories: names.iter().map(|name| folder(name, inner)).collect(),
                ..Directory::default()
            });
            if let Ok(tree) = expand(root, &directories, Bounds::default()) {
                for (path, entry) in &tree.entries {
                    prop_assert!(path.components().all(|part| matches!(part, std::path::Component::Normal(_))));
                    if let Entry::Link(target) = entry {
                        let mut depth = path.components().count() as i64 - 1;
                        for part in Path::new(target).components() {
                            depth += match part {
                                std::path::Component::ParentDir => -1,
                                std::path::Component::Normal(_) => 1,
                                _ => 0,
                            };
                            prop_assert!(depth >= 0, "{path:?} -> {target}");
                        }
                    }
                }
            }
        }
    }
}
