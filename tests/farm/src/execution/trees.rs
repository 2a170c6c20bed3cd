//! Folders as messages: the input of an action is laid out, its outputs are gathered; and output folders that no folder can be.

use std::fs;
use std::io;
use std::os::unix::fs::{PermissionsExt, symlink};
use std::path::Path;

use bazel_remote_apis::build::bazel::remote::execution::v2 as reapi;
use prost::Message;
use reapi::{Directory, DirectoryNode, FileNode, OutputDirectory, OutputFile, SymlinkNode, Tree};
use tonic::Status;

use hotcell_fleet::digest::Key;

use super::{Lie, State};

fn digest(bytes: &[u8]) -> reapi::Digest {
    Key::of(bytes).message()
}

fn failed(error: &dyn std::fmt::Display) -> Status {
    Status::internal(error.to_string())
}

impl State {
    /// Lays out a directory of the storage. The tests' clients are honest.
    pub(crate) fn lay(&self, root: &reapi::Digest, to: &Path) -> Result<(), Status> {
        let directory =
            Directory::decode(self.storage.blob(Some(root))?.as_slice()).map_err(|e| failed(&e))?;
        let done = |result: io::Result<()>| result.map_err(|e| failed(&e));
        for file in &directory.files {
            let path = to.join(&file.name);
            done(fs::write(&path, self.storage.blob(file.digest.as_ref())?))?;
            let mode = if file.is_executable { 0o755 } else { 0o644 };
            done(fs::set_permissions(&path, fs::Permissions::from_mode(mode)))?;
        }
        for link in &directory.symlinks {
            done(symlink(&link.target, to.join(&link.name)))?;
        }
        for folder in &directory.directories {
            let path = to.join(&folder.name);
            done(fs::create_dir(&path))?;
            self.lay(folder.digest.as_ref().ok_or_else(|| failed(&"no digest"))?, &path)?;
        }
        Ok(())
    }

    /// Stores an output, if it is there.
    pub(crate) fn gather(
        &self,
        top: &Path,
        named: &str,
        result: &mut reapi::ActionResult,
    ) -> Result<(), Status> {
        let path = top.join(named);
        if path.is_file() {
            let digest = Some(self.put(fs::read(&path).map_err(|e| failed(&e))?));
            result.output_files.push(OutputFile { path: named.to_owned(), digest, ..OutputFile::default() });
        } else if path.is_dir() {
            let mut children = Vec::new();
            let root = self.directory(&path, &mut children).map_err(|e| failed(&e))?;
            self.put_tree(named, &Tree { root: Some(root), children }, result);
        }
        Ok(())
    }

    fn directory(&self, path: &Path, children: &mut Vec<Directory>) -> io::Result<Directory> {
        let mut directory = Directory::default();
        let mut entries: Vec<_> = fs::read_dir(path)?.collect::<io::Result<_>>()?;
        entries.sort_by_key(fs::DirEntry::file_name);
        for entry in entries {
            let name = entry.file_name().to_string_lossy().into_owned();
            if entry.file_type()?.is_dir() {
                let below = self.directory(&entry.path(), children)?;
                let digest = Some(digest(&below.encode_to_vec()));
                children.push(below);
                directory.directories.push(DirectoryNode { name, digest });
            } else if entry.file_type()?.is_file() {
                let digest = Some(self.put(fs::read(entry.path())?));
                directory.files.push(FileNode { name, digest, ..FileNode::default() });
            }
        }
        Ok(directory)
    }

    fn put_tree(&self, path: &str, tree: &Tree, result: &mut reapi::ActionResult) {
        let tree_digest = Some(self.put(tree.encode_to_vec()));
        let folder = OutputDirectory { path: path.to_owned(), tree_digest, ..OutputDirectory::default() };
        result.output_directories.push(folder);
    }

    /// Makes the result one that lies about its outputs.
    pub(crate) fn lie_about_outputs(&self, result: &mut reapi::ActionResult) {
        let Some(lie) = self.rules.lie else { return };
        let evil = self.put(b"evil".to_vec());
        let file = |path: &str, digest| OutputFile { path: path.to_owned(), digest, ..OutputFile::default() };
        let node = |name: &str| FileNode {
            name: name.to_owned(),
            digest: Some(evil.clone()),
            ..FileNode::default()
        };
        let with = |directory: Directory, children| Tree { root: Some(directory), children };
        match lie {
            Lie::UpPath => result.output_files.push(file("../../evil", Some(evil.clone()))),
            Lie::AbsolutePath => result.output_files.push(file("/tmp/hotcell-evil", Some(evil.clone()))),
            Lie::Huge => {
                let digest = reapi::Digest { size_bytes: 1 << 62, ..evil.clone() };
                result.output_files.push(file("huge", Some(digest)));
            }
            Lie::NoDigest => {
                let digest = reapi::Digest { hash: "../../etc/passwd".to_owned(), size_bytes: 1 };
                result.output_files.push(file("x", Some(digest)));
            }
            Lie::MissingBlobs => result.output_files.push(file("dist/gone", Some(digest(b"never stored")))),
            Lie::LinkOut => {
                let link = SymlinkNode {
                    name: "l".to_owned(),
                    target: "../../etc".to_owned(),
                    ..SymlinkNode::default()
                };
                let root = Directory { symlinks: vec![link], ..Directory::default() };
                self.put_tree("dist", &with(root, Vec::new()), result);
            }
            Lie::SlashName => {
                let root = Directory { files: vec![node("../evil")], ..Directory::default() };
                self.put_tree("dist", &with(root, Vec::new()), result);
            }
            Lie::Deep | Lie::Wide => {
                let mut below = Directory { files: vec![node("f")], ..Directory::default() };
                let mut children = Vec::new();
                let (levels, width) = if lie == Lie::Deep { (300, 1) } else { (8, 10) };
                for _ in 0..levels {
                    let digest = digest(&below.encode_to_vec());
                    children.push(below);
                    let one = |at| DirectoryNode { name: format!("d{at}"), digest: Some(digest.clone()) };
                    below = Directory { directories: (0..width).map(one).collect(), ..Directory::default() };
                }
                self.put_tree("dist", &with(below, children), result);
            }
            Lie::NoTree | Lie::Crowded => {
                // The root, in which each file is a field without content.
                let crowd = || [b"\x0a\x80\x92\xf4\x01".as_slice(), &b"\x0a\0".repeat(2_000_000)].concat();
                let text = if lie == Lie::Crowded { crowd() } else { vec![0xff; 100] };
                let (path, tree_digest) = ("dist".to_owned(), Some(self.put(text)));
                let folder = OutputDirectory { path, tree_digest, ..OutputDirectory::default() };
                result.output_directories.push(folder);
            }
            Lie::Listed => result.output_files = vec![OutputFile::default(); 200_000],
            _ => {}
        }
    }
}
